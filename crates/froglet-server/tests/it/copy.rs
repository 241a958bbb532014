//! COPY from and to a client, whole, broken off, and with errors in it.

use futures::{SinkExt, TryStreamExt};

use crate::support::{Raw, bind, execute, kinds, message, parse, query, start, sync};

async fn count(raw: &mut Raw) -> String {
    let messages = raw.query("SELECT count(*) FROM t").await;
    String::from_utf8_lossy(&messages[1].body[6..]).into_owned()
}

#[tokio::test]
async fn copy_in_and_out() {
    let server = start().await;
    let client = server.connect().await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, name text)").await.expect("runs");
    let sink = client.copy_in("COPY t FROM STDIN").await.expect("begins");
    let mut sink = std::pin::pin!(sink);
    let mut text = String::new();
    for i in 0..20_000 {
        text.push_str(&format!("{i}\tname {i}\n"));
    }
    // In pieces that end in the middle of rows.
    for piece in text.as_bytes().chunks(7_001) {
        sink.send(bytes::Bytes::copy_from_slice(piece)).await.expect("sent");
    }
    assert_eq!(sink.finish().await.expect("finishes"), 20_000);
    let stream = client
        .copy_out("COPY (SELECT * FROM t WHERE id < 3 ORDER BY id) TO STDOUT")
        .await
        .expect("begins");
    let pieces: Vec<bytes::Bytes> = stream.try_collect().await.expect("flows");
    assert_eq!(pieces, [&b"0\tname 0\n"[..], b"1\tname 1\n", b"2\tname 2\n"]);

    let mut raw = server.raw().await;
    let messages = raw.query("COPY t TO STDOUT").await;
    assert!(kinds(&messages).starts_with("Hd"), "{}", kinds(&messages));
    assert!(kinds(&messages).ends_with("dcCZ"), "{}", kinds(&messages));
    assert_eq!(messages[messages.len() - 2].text(), "COPY 20000");
}

#[tokio::test]
async fn a_copy_that_stops_in_the_middle_leaves_nothing() {
    let server = start().await;
    let mut raw = server.raw().await;
    raw.query("CREATE TABLE t (id int PRIMARY KEY)").await;
    // CopyFail.
    raw.send(&[query("COPY t FROM STDIN"), message(b'd', b"1\n2\n")].concat()).await;
    raw.send(&message(b'f', b"changed my mind\0")).await;
    let messages = raw.ready().await;
    assert_eq!(kinds(&messages), "GEZ");
    assert_eq!(messages[1].code(), "57014");
    assert!(messages[1].field(b'M').is_some_and(|m| m.contains("changed my mind")));
    // A bad value; what the client goes on sending is dropped.
    raw.send(&[query("COPY t FROM STDIN"), message(b'd', b"1\nx\n")].concat()).await;
    raw.send(&[message(b'd', b"3\n"), message(b'c', b"")].concat()).await;
    let messages = raw.ready().await;
    assert_eq!((kinds(&messages).as_str(), messages[1].code()), ("GEZ", "22P02"));
    // Another message in the middle ends the connection.
    raw.send(&[query("COPY t FROM STDIN"), message(b'd', b"1\n"), query("SELECT 1")].concat())
        .await;
    let messages = raw.until(b'E').await;
    assert_eq!(messages.last().map(|m| m.code()), Some("08P01"));
    assert_eq!(raw.next().await, None);
    // So does a client that vanishes, for itself.
    let mut gone = server.raw().await;
    gone.send(&[query("COPY t FROM STDIN"), message(b'd', b"1\n2\n")].concat()).await;
    gone.until(b'G').await;
    drop(gone);
    let mut raw = server.raw().await;
    assert_eq!(count(&mut raw).await, "0");
}

#[tokio::test]
async fn copy_in_through_the_extended_protocol() {
    let server = start().await;
    let mut raw = server.raw().await;
    raw.query("CREATE TABLE t (id int PRIMARY KEY)").await;
    let begin = [parse("", "COPY t FROM STDIN"), bind("", "", &[]), execute("", 0), sync()];
    // This Sync comes while the copy is under way and is ignored.
    raw.send(&begin.concat()).await;
    raw.until(b'G').await;
    raw.send(&[message(b'd', b"1\n2\n"), message(b'c', b""), sync()].concat()).await;
    let messages = raw.ready().await;
    assert_eq!(kinds(&messages), "CZ");
    assert_eq!(messages[0].text(), "COPY 2");
    raw.send(&begin.concat()).await;
    raw.until(b'G').await;
    raw.send(&[message(b'd', b"2\n"), message(b'c', b""), sync()].concat()).await;
    let messages = raw.ready().await;
    assert_eq!((kinds(&messages).as_str(), messages[0].code()), ("EZ", "23505"));
    assert_eq!(count(&mut raw).await, "2");
}

#[tokio::test]
async fn copy_errors_before_any_data() {
    let server = start().await;
    let mut raw = server.raw().await;
    let messages = raw.query("COPY nowhere FROM STDIN").await;
    assert_eq!((kinds(&messages).as_str(), messages[0].code()), ("EZ", "42P01"));
    raw.send(&[message(b'd', b"1\n"), message(b'c', b"")].concat()).await;
    assert_eq!(kinds(&raw.query("SELECT 1").await), "TDCZ");
}
