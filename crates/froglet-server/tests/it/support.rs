//! A server for a test, and a client that speaks bytes.

use std::time::Duration;

use froglet_server::{Config, Server};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A server and its data directory.
pub struct TestServer {
    pub server: Server,
    pub dir: TempDir,
}

/// A configuration on a free port.
pub fn config(dir: &TempDir) -> Config {
    let listen = "127.0.0.1:0".parse().expect("an address");
    Config {
        memory_limit_bytes: 1 << 30,
        // Tests that want a checkpoint stop the server.
        checkpoint_timeout: Duration::from_secs(3600),
        ..Config::new(dir.path().to_owned(), listen)
    }
}

pub async fn start() -> TestServer {
    start_with(|_| {}).await
}

pub async fn start_with(change: impl FnOnce(&mut Config)) -> TestServer {
    let dir = tempfile::tempdir().expect("a temporary directory");
    start_in(dir, change).await
}

pub async fn start_in(dir: TempDir, change: impl FnOnce(&mut Config)) -> TestServer {
    let mut config = config(&dir);
    change(&mut config);
    let server = Server::start(config).await.expect("the server starts");
    TestServer { server, dir }
}

impl TestServer {
    /// A client of tokio-postgres.
    pub async fn connect(&self) -> Client {
        self.connect_with(|_| {}).await.expect("connects")
    }

    pub async fn connect_with(
        &self,
        change: impl FnOnce(&mut tokio_postgres::Config),
    ) -> Result<Client, tokio_postgres::Error> {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(self.server.address().port());
        config.user("postgres").dbname("postgres");
        change(&mut config);
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// A client of bytes, connected and greeted.
    pub async fn raw(&self) -> Raw {
        let mut raw = self.socket().await;
        raw.startup(&[("user", "postgres"), ("database", "postgres")]).await;
        raw.until(b'Z').await;
        raw
    }

    /// A client of bytes that has said nothing yet.
    pub async fn socket(&self) -> Raw {
        let stream = TcpStream::connect(self.server.address()).await.expect("connects");
        Raw { stream }
    }

    /// Stops it; the data directory stays.
    pub async fn stop(mut self) -> TempDir {
        self.server.stop();
        self.server.ended().await.expect("ends well");
        self.dir
    }
}

/// A message of the server.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: u8,
    pub body: Vec<u8>,
}

impl Message {
    /// A field of an error or notice.
    pub fn field(&self, code: u8) -> Option<&str> {
        assert!(matches!(self.kind, b'E' | b'N'), "{self:?} has no fields");
        let fields = self.body.split(|&b| b == 0);
        let mut fields = fields.filter(|f| f.first() == Some(&code));
        fields.next().map(|f| std::str::from_utf8(&f[1..]).expect("UTF-8"))
    }

    /// The SQLSTATE of an error.
    pub fn code(&self) -> &str {
        self.field(b'C').expect("an error has a code")
    }

    /// The body up to its first zero, as text.
    pub fn text(&self) -> &str {
        let end = self.body.iter().position(|&b| b == 0).unwrap_or(self.body.len());
        std::str::from_utf8(&self.body[..end]).expect("UTF-8")
    }
}

/// A client of bytes.
pub struct Raw {
    pub stream: TcpStream,
}

/// A message of a client.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("short");
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

/// Parse without parameter types.
pub fn parse(name: &str, query: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{query}\0\0\0").as_bytes())
}

/// Bind with text parameters and text results.
pub fn bind(portal: &str, statement: &str, values: &[&str]) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0\0\0").into_bytes();
    body.extend((values.len() as u16).to_be_bytes());
    for value in values {
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(value.as_bytes());
    }
    body.extend([0, 0]);
    message(b'B', &body)
}

pub fn execute(portal: &str, max_rows: u32) -> Vec<u8> {
    let mut body = format!("{portal}\0").into_bytes();
    body.extend(max_rows.to_be_bytes());
    message(b'E', &body)
}

pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

pub fn query(text: &str) -> Vec<u8> {
    message(b'Q', format!("{text}\0").as_bytes())
}

impl Raw {
    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("sent");
    }

    pub async fn startup(&mut self, parameters: &[(&str, &str)]) {
        self.startup_version(0, parameters).await;
    }

    pub async fn startup_version(&mut self, minor: u8, parameters: &[(&str, &str)]) {
        let mut body = vec![0, 3, 0, minor];
        for (name, value) in parameters {
            body.extend(format!("{name}\0{value}\0").as_bytes());
        }
        body.push(0);
        let length = u32::try_from(body.len() + 4).expect("short");
        self.send(&[&length.to_be_bytes()[..], &body].concat()).await;
    }

    /// The next message; `None` where the server has closed the connection.
    pub async fn next(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        if self.stream.read_exact(&mut head).await.is_err() {
            return None;
        }
        let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes"));
        let mut body = vec![0; length as usize - 4];
        self.stream.read_exact(&mut body).await.expect("a whole message");
        Some(Message { kind: head[0], body })
    }

    /// Messages up to and with the first of this kind.
    pub async fn until(&mut self, kind: u8) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let Some(message) = self.next().await else {
                panic!("closed before {:?}: {messages:?}", char::from(kind));
            };
            messages.push(message);
            if messages.last().is_some_and(|m| m.kind == kind) {
                return messages;
            }
        }
    }

    /// Messages up to ReadyForQuery.
    pub async fn ready(&mut self) -> Vec<Message> {
        self.until(b'Z').await
    }

    /// Runs a simple query.
    pub async fn query(&mut self, text: &str) -> Vec<Message> {
        self.send(&query(text)).await;
        self.ready().await
    }
}

/// Kinds of messages as a string.
pub fn kinds(messages: &[Message]) -> String {
    messages.iter().map(|m| char::from(m.kind)).collect()
}

/// The texts of a simple query's rows, columns joined by `|`.
pub fn rows(messages: &[SimpleQueryMessage]) -> Vec<String> {
    let row = |m: &SimpleQueryMessage| match m {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|i| row.get(i).unwrap_or("NULL")).collect::<Vec<_>>().join("|"))
        }
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

/// The SQLSTATE of a failed call.
pub fn code<T: std::fmt::Debug>(result: Result<T, tokio_postgres::Error>) -> String {
    let error = result.expect_err("an error is expected");
    let Some(code) = error.code() else {
        panic!("an error of the server is expected: {error:?}");
    };
    code.code().to_owned()
}
