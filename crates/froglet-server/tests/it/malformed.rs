//! Bytes that are no messages: each gets an answer or a closed connection, and the server lives.

use tokio::io::AsyncWriteExt;

use crate::support::{TestServer, bind, kinds, message, parse, query, start, start_with, sync};

async fn lives(server: &TestServer) {
    let messages = server.raw().await.query("SELECT 1").await;
    assert_eq!(kinds(&messages), "TDCZ");
}

#[tokio::test]
async fn a_frame_that_cannot_be_ends_the_connection() {
    let server = start().await;
    let frames: [(&[u8], &str); 9] = [
        (b"!\0\0\0\x04", "unknown type"),
        (b"\0\0\0\0\0", "type zero"),
        (b"Q\0\0\0\x03", "shorter than its own length"),
        (b"Q\0\0\0\0", "length zero"),
        (b"Q\xff\xff\xff\xff", "negative length"),
        (b"Q\x7f\xff\xff\xff", "2 GiB"),
        (b"B\x40\0\0\0", "1 GiB"),
        (b"S\0\0\x40\0", "a long Sync"),
        (b"D\0\x10\0\0", "a long Describe"),
    ];
    for (bytes, what) in frames {
        let mut raw = server.raw().await;
        raw.send(bytes).await;
        let error = raw.next().await.unwrap_or_else(|| panic!("no answer to {what}"));
        assert_eq!((error.code(), error.field(b'S')), ("08P01", Some("FATAL")), "{what}");
        assert_eq!(raw.next().await, None, "{what}");
    }
    lives(&server).await;
}

#[tokio::test]
async fn a_body_that_cannot_be_is_an_error_and_the_connection_goes_on() {
    let server = start().await;
    let mut raw = server.raw().await;
    let bodies: [(u8, &[u8], &str, &str); 12] = [
        (b'P', b"", "08P01", "Parse of nothing"),
        (b'P', b"s\0select 1", "08P01", "a query without its zero"),
        (b'P', b"s\0select 1\0\0\x05\0\0\0\x17", "08P01", "too few types"),
        (b'P', b"\0select '\xff'\0\0\0", "22021", "a query that is not UTF-8"),
        (b'B', b"\0\0\0\0\xff\xff", "08P01", "65535 parameters of nothing"),
        (b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff", "08P01", "a parameter of 2 GiB"),
        (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\x9c\0\0", "08P01", "a negative length"),
        (b'B', b"\0\0\0\x02\0\0\0\0\0\0\0\0", "08P01", "two formats of no parameters"),
        (b'E', b"\0\0\0", "08P01", "half a row limit"),
        (b'D', b"Q\0", "08P01", "describes neither statement nor portal"),
        (b'C', b"", "08P01", "closes nothing"),
        (b'H', b"more", "08P01", "a Flush with a body"),
    ];
    for (kind, body, code, what) in bodies {
        raw.send(&[message(kind, body), message(b'E', b"\0\0\0\0\0"), sync()].concat()).await;
        let messages = raw.ready().await;
        assert_eq!(kinds(&messages), "EZ", "{what}");
        assert_eq!(messages[0].code(), code, "{what}");
    }
    for (body, code) in
        [(&b"select 1"[..], "08P01"), (b"select '\xc3\x28'\0", "22021"), (b"a\0b\0", "08P01")]
    {
        raw.send(&message(b'Q', body)).await;
        let messages = raw.ready().await;
        assert_eq!((kinds(&messages).as_str(), messages[0].code()), ("EZ", code));
    }
    raw.send(&[parse("", "SELECT $1::text"), bind("", "", &["a\0b"]), sync()].concat()).await;
    let messages = raw.ready().await;
    assert_eq!((kinds(&messages).as_str(), messages[1].code()), ("1EZ", "22021"));
    raw.send(&message(b'F', b"\0\0\0\x01\0\0\0\0\0\0")).await;
    let messages = raw.ready().await;
    assert_eq!((kinds(&messages).as_str(), messages[0].code()), ("EZ", "0A000"));
    // Nothing to copy is under way: dropped without a word.
    raw.send(&[message(b'd', b"1\n"), message(b'c', b""), message(b'f', b"no\0")].concat()).await;
    assert_eq!(kinds(&raw.query("SELECT 1").await), "TDCZ");
    lives(&server).await;
}

#[tokio::test]
async fn a_failed_block_knows_of_malformed_messages() {
    let server = start().await;
    let mut raw = server.raw().await;
    raw.query("BEGIN").await;
    raw.send(&message(b'Q', b"select '\xff'\0")).await;
    let messages = raw.ready().await;
    assert_eq!(messages.last().map(|m| m.body[0]), Some(b'E'));
}

#[tokio::test]
async fn startups_that_cannot_be() {
    let server = start().await;
    let packets: [(&[u8], Option<&str>); 10] = [
        (b"\0\0\0\0", Some("08P01")),
        (b"\0\0\0\x07\0\0\0", Some("08P01")),
        (b"\0\x01\0\0", Some("08P01")),
        (b"\xff\xff\xff\xff", Some("08P01")),
        (b"GET / HTTP/1.1\r\n\r\n", Some("08P01")),
        (b"\0\0\0\x08\0\x02\0\0", Some("0A000")),
        (b"\0\0\0\x08\0\x03\0\0", Some("08P01")),
        (b"\0\0\0\x09\0\x03\0\0\0", Some("28000")),
        (b"\0\0\0\x0e\0\x03\0\0user\0\0", Some("08P01")),
        (b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x01\0\0\0\x01", None),
    ];
    for (bytes, code) in packets {
        let mut raw = server.socket().await;
        raw.send(bytes).await;
        let answer = raw.next().await;
        assert_eq!(answer.as_ref().map(|m| m.code()), code, "{bytes:?}");
        assert_eq!(raw.next().await, None, "{bytes:?}");
    }
    lives(&server).await;
}

#[tokio::test]
async fn clients_that_stop_in_the_middle() {
    let server = start().await;
    for bytes in [&b""[..], b"\0", b"\0\0\0\x20\0\x03", b"\0\0\0\x08\x04\xd2\x16\x2f"] {
        let mut raw = server.socket().await;
        raw.send(bytes).await;
        drop(raw);
    }
    let half = query("SELECT 1");
    for cut in 1..half.len() {
        let mut raw = server.raw().await;
        raw.send(&half[..cut]).await;
        raw.stream.shutdown().await.expect("shut down");
        assert_eq!(raw.next().await, None);
    }
    lives(&server).await;
}

#[tokio::test]
async fn encryption_is_declined_and_newer_protocols_are_negotiated() {
    let server = start().await;
    let mut raw = server.socket().await;
    for request in [b"\0\0\0\x08\x04\xd2\x16\x2f", b"\0\0\0\x08\x04\xd2\x16\x30"] {
        raw.send(request).await;
        use tokio::io::AsyncReadExt;
        let mut answer = [0];
        raw.stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"N");
    }
    let parameters = [("user", "postgres"), ("_pq_.future", "1")];
    raw.startup_version(2, &parameters).await;
    let greeting = raw.ready().await;
    assert!(kinds(&greeting).starts_with("vRS"), "{}", kinds(&greeting));
    assert!(kinds(&greeting).ends_with("SKZ"), "{}", kinds(&greeting));
    assert_eq!(greeting[0].body, b"\0\x03\0\0\0\0\0\x01_pq_.future\0");
    assert_eq!(greeting.last().map(|m| m.body[0]), Some(b'I'));
}

#[tokio::test]
async fn long_messages_share_a_budget() {
    // A quarter of the limit is for messages.
    let server = start_with(|config| config.memory_limit_bytes = 64 << 20).await;
    let text = format!("SELECT length('{}')", "x".repeat(10 << 20));
    let mut raw = server.raw().await;
    let messages = raw.query(&text).await;
    assert_eq!(kinds(&messages), "TDCZ");
    // The same bytes again and again: what a message took is given back.
    for _ in 0..3 {
        assert_eq!(kinds(&raw.query(&text).await), "TDCZ");
    }
    let mut greedy = server.raw().await;
    let (mut from, mut to) = greedy.stream.split();
    let sending = async {
        to.write_all(b"Q\x3f\xff\xff\x00").await.expect("sent");
        // Fails as soon as the server has had enough.
        while to.write_all(&[b' '; 65_536]).await.is_ok() {}
    };
    let receiving = async {
        use tokio::io::AsyncReadExt;
        let mut all = Vec::new();
        let _ = from.read_to_end(&mut all).await;
        String::from_utf8_lossy(&all).into_owned()
    };
    let ((), answer) = tokio::join!(sending, receiving);
    assert!(answer.is_empty() || answer.contains("C53200"), "{answer:?}");
    lives(&server).await;
}
