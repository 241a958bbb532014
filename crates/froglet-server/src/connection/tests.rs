//! A session that panics takes nobody with it.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{Config, Server};

/// In unit tests a query of this text panics.
pub(super) const PANIC: &str = "panic";

async fn connect(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.expect("connects");
    stream.write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0").await.expect("sent");
    stream
}

/// Everything the server says until it closes the connection.
async fn answers(mut stream: TcpStream, queries: &[&str]) -> String {
    for query in queries {
        let length = u32::try_from(query.len() + 5).expect("short").to_be_bytes();
        let message = [b"Q", &length[..], query.as_bytes(), b"\0"].concat();
        stream.write_all(&message).await.expect("sent");
    }
    stream.write_all(b"X\0\0\0\x04").await.expect("sent");
    let mut all = Vec::new();
    // A connection closed before it has read all that was sent ends with a reset.
    let _ = stream.read_to_end(&mut all).await;
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn a_panic_ends_its_session_and_no_other() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let listen = "127.0.0.1:0".parse().expect("an address");
    let mut server =
        Server::start(Config::new(dir.path().to_owned(), listen)).await.expect("starts");
    let (one, other) = (connect(&server).await, connect(&server).await);
    let create = "CREATE TABLE t (i int PRIMARY KEY)";
    let last = answers(one, &[create, "BEGIN", "INSERT INTO t VALUES (1)", PANIC]).await;
    assert!(last.contains("SFATAL\0VFATAL\0CXX000\0M"), "{last:?}");
    assert!(last.contains("a panic was asked for"), "{last:?}");
    // Its transaction is over: the key is free.
    let goes_on = answers(other, &["INSERT INTO t VALUES (1)"]).await;
    assert!(goes_on.contains("INSERT 0 1"), "{goes_on:?}");
    server.stop();
    server.ended().await.expect("ends");
}
