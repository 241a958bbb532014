//! The extended protocol message by message: pipelines, errors in them, names, portals.

use crate::support::{TestServer, bind, execute, kinds, message, parse, start, sync};

async fn table(server: &TestServer) -> crate::support::Raw {
    let mut raw = server.raw().await;
    raw.query("CREATE TABLE t (id int PRIMARY KEY)").await;
    raw
}

#[tokio::test]
async fn a_pipeline_is_one_transaction_and_an_error_skips_to_its_sync() {
    let server = start().await;
    let mut raw = table(&server).await;
    let insert = |id: &str| [bind("", "i", &[id]), execute("", 0)].concat();
    let pipeline = [
        parse("i", "INSERT INTO t VALUES ($1)"),
        insert("1"),
        insert("1"),
        insert("2"),
        message(b'D', b"Si\0"),
        sync(),
        insert("3"),
        sync(),
    ]
    .concat();
    raw.send(&pipeline).await;
    let first = raw.ready().await;
    assert_eq!(kinds(&first), "12C2EZ");
    assert_eq!(first[4].code(), "23505");
    let second = raw.ready().await;
    assert_eq!(kinds(&second), "2CZ");
    assert_eq!(second[1].text(), "INSERT 0 1");
    let left = raw.query("SELECT id FROM t").await;
    assert_eq!(kinds(&left), "TDCZ");
    assert_eq!(&left[1].body, b"\0\x01\0\0\0\x013");
}

#[tokio::test]
async fn a_pipeline_in_a_transaction_block_fails_with_it() {
    let server = start().await;
    let mut raw = table(&server).await;
    raw.query("BEGIN; INSERT INTO t VALUES (1)").await;
    let failing = [parse("", "SELECT 1/$1::int"), bind("", "", &["0"]), execute("", 0)].concat();
    raw.send(&[failing, sync()].concat()).await;
    let failed = raw.ready().await;
    assert_eq!(failed.iter().find(|m| m.kind == b'E').map(|m| m.code()), Some("22012"));
    assert_eq!(failed.last().map(|m| m.body[0]), Some(b'E'));
    // A message that never reaches SQL fails the block as well.
    raw.query("ROLLBACK").await;
    raw.query("BEGIN").await;
    raw.send(&[bind("", "nowhere", &[]), sync()].concat()).await;
    let failed = raw.ready().await;
    assert_eq!(failed[0].code(), "26000");
    assert_eq!(failed.last().map(|m| m.body[0]), Some(b'E'));
    raw.send(&[parse("", "ROLLBACK"), bind("", "", &[]), execute("", 0), sync()].concat()).await;
    let ended = raw.ready().await;
    assert_eq!(kinds(&ended), "12CZ");
    assert_eq!(ended.last().map(|m| m.body[0]), Some(b'I'));
}

#[tokio::test]
async fn a_portal_is_suspended_at_its_limit() {
    let server = start().await;
    let mut raw = table(&server).await;
    raw.query("INSERT INTO t VALUES (1), (2), (3)").await;
    let pipeline = [
        parse("", "SELECT id FROM t ORDER BY id"),
        bind("p", "", &[]),
        message(b'D', b"Pp\0"),
        execute("p", 2),
        execute("p", 1),
        execute("p", 1),
        execute("p", 0),
        message(b'C', b"Pp\0"),
        execute("p", 0),
        sync(),
    ]
    .concat();
    raw.send(&pipeline).await;
    let messages = raw.ready().await;
    assert_eq!(kinds(&messages), "12TDDsDsCC3EZ");
    assert_eq!(messages[8].text(), "SELECT 0");
    assert_eq!(messages[9].text(), "SELECT 0");
    assert_eq!(messages[11].code(), "34000");
    // An implicit transaction's portals end with it.
    raw.send(
        &[parse("", "SELECT 1"), bind("q", "", &[]), sync(), execute("q", 0), sync()].concat(),
    )
    .await;
    assert_eq!(kinds(&raw.ready().await), "12Z");
    let gone = raw.ready().await;
    assert_eq!((kinds(&gone).as_str(), gone[0].code()), ("EZ", "34000"));
}

#[tokio::test]
async fn a_portal_in_a_block_outlives_sync_but_not_the_block() {
    let server = start().await;
    let mut raw = table(&server).await;
    raw.query("INSERT INTO t VALUES (1), (2), (3)").await;
    raw.query("BEGIN").await;
    raw.send(&[parse("", "SELECT id FROM t ORDER BY id"), bind("p", "", &[]), sync()].concat())
        .await;
    raw.ready().await;
    raw.send(&[execute("p", 1), sync()].concat()).await;
    assert_eq!(kinds(&raw.ready().await), "DsZ");
    raw.query("DELETE FROM t").await;
    raw.send(&[execute("p", 5), sync()].concat()).await;
    assert_eq!(kinds(&raw.ready().await), "DDCZ", "its rows are those of when it was opened");
    raw.query("COMMIT").await;
    raw.send(&[execute("p", 5), sync()].concat()).await;
    assert_eq!(raw.ready().await[0].code(), "34000");
}

#[tokio::test]
async fn names_are_taken_and_given_back() {
    let server = start().await;
    let mut raw = table(&server).await;
    raw.send(&[parse("s", "SELECT 1"), parse("s", "SELECT 2"), sync()].concat()).await;
    let messages = raw.ready().await;
    assert_eq!((kinds(&messages).as_str(), messages[1].code()), ("1EZ", "42P05"));
    // SQL and protocol share the names.
    let messages = raw.query("EXECUTE s").await;
    assert_eq!(kinds(&messages), "TDCZ");
    raw.query("DEALLOCATE s").await;
    raw.send(&[bind("", "s", &[]), sync()].concat()).await;
    assert_eq!(raw.ready().await[0].code(), "26000");
    raw.send(&[parse("s", "SELECT 2"), message(b'C', b"Ss\0"), parse("s", "SELECT 3")].concat())
        .await;
    raw.send(&[bind("", "s", &[]), bind("", "s", &[]), execute("", 0), sync()].concat()).await;
    assert_eq!(kinds(&raw.ready().await), "13122DCZ");
    raw.send(&[bind("p", "s", &[]), bind("p", "s", &[]), sync()].concat()).await;
    let messages = raw.ready().await;
    assert_eq!((kinds(&messages).as_str(), messages[1].code()), ("2EZ", "42P03"));
    // Closing what is not there is no error.
    raw.send(&[message(b'C', b"Snowhere\0"), message(b'C', b"Pnowhere\0"), sync()].concat()).await;
    assert_eq!(kinds(&raw.ready().await), "33Z");
}

#[tokio::test]
async fn describe_flush_empty_and_what_does_not_fit() {
    let server = start().await;
    let mut raw = table(&server).await;
    raw.send(&[parse("", "SELECT id FROM t WHERE id = $1"), message(b'D', b"S\0")].concat()).await;
    raw.send(&message(b'H', b"")).await;
    let described = raw.until(b'T').await;
    assert_eq!(kinds(&described), "1tT");
    assert_eq!(described[1].body, b"\0\x01\0\0\0\x17");
    raw.send(&[bind("", "", &["1", "2"]), sync()].concat()).await;
    assert_eq!(raw.ready().await[0].code(), "08P01");
    raw.send(&[bind("", "", &["x"]), sync()].concat()).await;
    assert_eq!(raw.ready().await[0].code(), "22P02");
    let two_formats = b"\0\0\0\0\0\x01\0\0\0\x011\0\x02\0\0\0\x01";
    raw.send(&[message(b'B', two_formats), sync()].concat()).await;
    assert_eq!(raw.ready().await[0].code(), "08P01");
    let short_binary = b"\0\0\0\x01\0\x01\0\x01\0\0\0\x011\0\0";
    raw.send(&[message(b'B', short_binary), sync()].concat()).await;
    assert_eq!(raw.ready().await[0].code(), "08P01");
    let long_binary = b"\0\0\0\x01\0\x01\0\x01\0\0\0\x0512345\0\0";
    raw.send(&[message(b'B', long_binary), sync()].concat()).await;
    assert_eq!(raw.ready().await[0].code(), "22P03");
    let strange_format = b"\0\0\0\x01\0\x07\0\x01\0\0\0\x011\0\0";
    raw.send(&[message(b'B', strange_format), sync()].concat()).await;
    assert_eq!(raw.ready().await[0].code(), "22023");
    raw.send(&[parse("gap", "SELECT $2::int"), sync()].concat()).await;
    assert_eq!(raw.ready().await[0].code(), "42P18");
    raw.send(
        &[parse("", ""), bind("", "", &[]), message(b'D', b"P\0"), execute("", 0), sync()].concat(),
    )
    .await;
    assert_eq!(kinds(&raw.ready().await), "12nIZ");
    raw.send(&[parse("", "INSERT INTO t VALUES (9)"), bind("", "", &[])].concat()).await;
    raw.send(&[execute("", 0), execute("", 0), sync()].concat()).await;
    let twice = raw.ready().await;
    assert_eq!(kinds(&twice), "12CEZ");
    assert_eq!(twice[3].code(), "55000");
}

#[tokio::test]
async fn many_messages_at_once_are_answered_in_order() {
    let server = start().await;
    let mut raw = table(&server).await;
    let rounds = 2_000;
    let mut bytes = parse("s", "SELECT $1::text");
    for i in 0..rounds {
        let value = format!("{i}-{}", "x".repeat(i % 100));
        bytes.extend([bind("", "s", &[&value]), execute("", 0), sync()].concat());
    }
    let Raw { stream } = &mut raw;
    let (mut from, mut to) = stream.split();
    let sending = async {
        use tokio::io::AsyncWriteExt;
        to.write_all(&bytes).await.expect("sent");
    };
    let receiving = async {
        use tokio::io::AsyncReadExt;
        let mut ready = 0;
        let mut buffer = vec![0; 64 << 10];
        let mut all = Vec::new();
        while ready < rounds {
            let n = from.read(&mut buffer).await.expect("received");
            all.extend_from_slice(&buffer[..n]);
            ready = count_ready(&all);
        }
        all
    };
    let ((), all) = tokio::join!(sending, receiving);
    let text = String::from_utf8_lossy(&all);
    let mut from = 0;
    for i in 0..rounds {
        let at = text[from..].find(&format!("{i}-")).expect("an answer, in order");
        from += at;
    }
}

use crate::support::Raw;

/// How many ReadyForQuery messages are in these whole messages.
fn count_ready(bytes: &[u8]) -> usize {
    let (mut at, mut count) = (0, 0);
    while let Some(head) = bytes.get(at..at + 5) {
        let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes")) as usize;
        if at + 1 + length > bytes.len() {
            break;
        }
        count += usize::from(head[0] == b'Z');
        at += 1 + length;
    }
    count
}

/// One server is sent exchanges as drivers send them, which run at once where they can; the other
/// the same with a row limit, which goes message by message. Both must say the same.
#[tokio::test]
async fn an_exchange_says_the_same_at_once_and_message_by_message() {
    let (one, other) = (start().await, start().await);
    let mut at_once = table(&one).await;
    let mut stepwise = table(&other).await;
    let statements = [
        ("insert", "INSERT INTO t VALUES ($1)"),
        ("select", "SELECT id, id + 1 AS next FROM t WHERE id = $1"),
        ("range", "SELECT id FROM t WHERE id >= $1 ORDER BY id"),
        ("update", "UPDATE t SET id = id + $1 WHERE id = 2"),
        ("delete", "DELETE FROM t WHERE id = $1 RETURNING id"),
        ("all", "SELECT count(*) FROM t"),
        ("begin", "BEGIN"),
        ("commit", "COMMIT"),
        ("rollback", "ROLLBACK"),
        ("savepoint", "SAVEPOINT s"),
        ("back", "ROLLBACK TO s"),
    ];
    for (name, text) in statements {
        for raw in [&mut at_once, &mut stepwise] {
            raw.send(&[parse(name, text), sync()].concat()).await;
            assert_eq!(kinds(&raw.ready().await), "1Z");
        }
    }
    let steps: &[(&str, &[&str])] = &[
        ("insert", &["1"]),
        ("insert", &["2"]),
        ("insert", &["1"]),
        ("insert", &["one"]),
        ("insert", &[]),
        ("select", &["1"]),
        ("select", &["7"]),
        ("range", &["0"]),
        ("update", &["2147483647"]),
        ("update", &["8"]),
        ("range", &["0"]),
        ("all", &[]),
        ("commit", &[]),
        ("begin", &[]),
        ("begin", &[]),
        ("insert", &["3"]),
        ("savepoint", &[]),
        ("insert", &["3"]),
        ("select", &["3"]),
        ("back", &[]),
        ("select", &["3"]),
        ("commit", &[]),
        ("begin", &[]),
        ("delete", &["3"]),
        ("insert", &["1"]),
        ("commit", &[]),
        ("delete", &["3"]),
        ("begin", &[]),
        ("insert", &["4"]),
        ("rollback", &[]),
        ("nobody", &[]),
        ("range", &["0"]),
    ];
    let describe = || message(b'D', b"P\0");
    for (step, (name, values)) in steps.iter().enumerate() {
        // With and without Describe, and sometimes the same portal once more.
        let describes = step % 3 != 0;
        let again = step % 4 == 0;
        let mut told = Vec::new();
        for (raw, limit) in [(&mut at_once, 0), (&mut stepwise, i32::MAX as u32)] {
            let mut exchange = bind("", name, values);
            if describes {
                exchange.extend(describe());
            }
            exchange.extend(execute("", limit));
            if again {
                exchange.extend(execute("", limit));
            }
            exchange.extend(sync());
            raw.send(&exchange).await;
            told.push(raw.ready().await);
        }
        let (last, first) = (told.pop(), told.pop());
        assert_eq!(first, last, "{step}: {name} {values:?}");
    }
}
