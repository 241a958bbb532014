//! Connections that wait, vanish, are cancelled, are too many, or outlive the server.

use std::sync::Arc;

use crate::support::{Raw, TestServer, code, kinds, query, rows, start, start_with};

async fn table(server: &TestServer) {
    let sql = "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)";
    server.connect().await.batch_execute(sql).await.expect("runs");
}

/// A client, and what a cancel request must know of it.
async fn with_key(server: &TestServer) -> (Raw, Vec<u8>) {
    let mut raw = server.socket().await;
    raw.startup(&[("user", "postgres")]).await;
    let greeting = raw.ready().await;
    let key = greeting.into_iter().find(|m| m.kind == b'K').expect("BackendKeyData");
    (raw, key.body)
}

/// Sends a cancel request and waits until the server has closed its connection: it has been
/// handled by then. Who does not wait may hit the next statement.
async fn cancel(server: &TestServer, key: &[u8]) {
    let mut request = b"\0\0\0\x10\x04\xd2\x16\x2e".to_vec();
    request.extend(key);
    let mut other = server.socket().await;
    other.send(&request).await;
    assert_eq!(other.next().await, None);
}

#[tokio::test]
async fn a_cancel_request_ends_a_wait() {
    let server = start().await;
    table(&server).await;
    let holder = server.connect().await;
    holder.batch_execute("BEGIN; UPDATE t SET n = 1 WHERE id = 1").await.expect("runs");
    let (mut waiter, key) = with_key(&server).await;
    let waiting = tokio::spawn(async move {
        let answer = waiter.query("UPDATE t SET n = 2 WHERE id = 1").await;
        (waiter, answer)
    });
    // A request that comes before the statement finds nothing to cancel.
    while !waiting.is_finished() {
        cancel(&server, &key).await;
    }
    let (mut waiter, answer) = waiting.await.expect("no panic");
    assert_eq!(answer[0].code(), "57014");
    // Neither does a late one, and the next statement is not its victim.
    cancel(&server, &key).await;
    assert_eq!(kinds(&waiter.query("SELECT 1").await), "TDCZ");
    holder.batch_execute("ROLLBACK").await.expect("runs");
}

#[tokio::test]
async fn a_cancel_request_with_a_wrong_secret_does_nothing() {
    let server = start().await;
    let (mut raw, mut key) = with_key(&server).await;
    *key.last_mut().expect("a secret") ^= 1;
    cancel(&server, &key).await;
    assert_eq!(kinds(&raw.query("SELECT 1").await), "TDCZ");
}

#[tokio::test]
async fn a_client_that_vanishes_lets_go_of_its_rows() {
    let server = start().await;
    table(&server).await;
    let mut gone = server.raw().await;
    gone.query("BEGIN").await;
    gone.query("UPDATE t SET n = 7 WHERE id = 1").await;
    drop(gone);
    let client = server.connect().await;
    // Waits for as long as the row is held.
    client.execute("UPDATE t SET n = n + 1 WHERE id = 1", &[]).await.expect("runs");
    let messages = client.simple_query("SELECT n FROM t WHERE id = 1").await.expect("runs");
    assert_eq!(rows(&messages), ["1"]);
}

#[tokio::test]
async fn a_client_that_vanishes_while_it_waits_waits_no_more() {
    let server = start().await;
    table(&server).await;
    let holder = server.connect().await;
    holder.batch_execute("BEGIN; UPDATE t SET n = 1 WHERE id = 1").await.expect("runs");
    let mut waiter = server.raw().await;
    waiter.query("BEGIN").await;
    waiter.query("UPDATE t SET n = 2 WHERE id = 2").await;
    waiter.send(&query("UPDATE t SET n = 2 WHERE id = 1")).await;
    drop(waiter);
    // It held row 2, which is free although row 1 is not.
    let client = server.connect().await;
    client.execute("UPDATE t SET n = 3 WHERE id = 2", &[]).await.expect("runs");
    holder.batch_execute("ROLLBACK").await.expect("runs");
}

#[tokio::test]
async fn idle_in_a_transaction_for_too_long() {
    let server = start().await;
    table(&server).await;
    let mut raw = server.raw().await;
    raw.query("SET idle_in_transaction_session_timeout = '20ms'").await;
    raw.query("BEGIN; UPDATE t SET n = 1 WHERE id = 1").await;
    let error = raw.next().await.expect("last words");
    assert_eq!((error.code(), error.field(b'S')), ("25P03", Some("FATAL")));
    assert_eq!(raw.next().await, None);
    let client = server.connect().await;
    client.execute("UPDATE t SET n = 2 WHERE id = 1", &[]).await.expect("the row is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_connections() {
    froglet_server::raise_file_limit();
    let server = Arc::new(start().await);
    table(&server).await;
    let mut connecting = Vec::new();
    for _ in 0..500 {
        let server = server.clone();
        connecting.push(tokio::spawn(async move {
            let client = server.connect().await;
            client.execute("UPDATE t SET n = n + 1 WHERE id = 1", &[]).await.expect("runs");
            client
        }));
    }
    let mut clients = Vec::new();
    for connected in connecting {
        clients.push(connected.await.expect("no panic"));
    }
    for client in &clients {
        let messages = client.simple_query("SELECT n FROM t WHERE id = 1").await.expect("runs");
        assert_eq!(rows(&messages), ["500"]);
    }
}

#[tokio::test]
async fn one_connection_too_many() {
    let server = start_with(|config| config.max_connections = 2).await;
    let (_first, second) = (server.connect().await, server.connect().await);
    let mut third = server.socket().await;
    third.startup(&[("user", "postgres")]).await;
    let error = third.next().await.expect("an answer");
    assert_eq!((error.code(), error.field(b'S')), ("53300", Some("FATAL")));
    assert_eq!(error.field(b'M'), Some("sorry, too many clients already"));
    drop(second);
    // Its place is free once the server has seen it go.
    while server.connect_with(|_| {}).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_may_connect_to_what() {
    let server = start().await;
    let refused = server.connect_with(|c| {
        c.dbname("elsewhere");
    });
    assert_eq!(code(refused.await.map(drop)), "3D000");
    let anna = |c: &mut tokio_postgres::Config| {
        c.user("anna");
    };
    assert_eq!(code(server.connect_with(anna).await.map(drop)), "28000");
    let client = server.connect().await;
    client.batch_execute("CREATE ROLE anna LOGIN").await.expect("runs");
    server.connect_with(anna).await.expect("loopback is trusted");
}

/// A statement that has not come to its wait may find the rows free and commit.
async fn until_one_waits(server: &TestServer) {
    let observer = server.connect().await;
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE wait_event_type = 'Lock' AND wait_event = 'transactionid'";
    while rows(&observer.simple_query(sql).await.expect("runs")) != ["1"] {}
}

#[tokio::test]
async fn a_server_that_stops_says_goodbye_and_keeps_everything() {
    let server = start().await;
    table(&server).await;
    let mut idle = server.raw().await;
    let mut busy = server.raw().await;
    let mut waiting = server.raw().await;
    busy.query("BEGIN; UPDATE t SET n = 9 WHERE id = 1").await;
    waiting.send(&query("UPDATE t SET n = 9 WHERE id = 1")).await;
    until_one_waits(&server).await;
    let dir = server.stop().await;
    for client in [&mut idle, &mut busy, &mut waiting] {
        let error = client.next().await.expect("last words");
        assert_eq!((error.code(), error.field(b'S')), ("57P01", Some("FATAL")));
        assert_eq!(client.next().await, None);
    }
    let server = crate::support::start_in(dir, |_| {}).await;
    let client = server.connect().await;
    let messages = client.simple_query("SELECT * FROM t ORDER BY id").await.expect("runs");
    assert_eq!(rows(&messages), ["1|0", "2|0"]);
}

/// A result of 50 MB: far more than socket buffers hold.
async fn ask_for_much(server: &TestServer) -> Raw {
    let client = server.connect().await;
    let values: Vec<String> = (0..5000).map(|i| format!("({i})")).collect();
    let sql = format!("CREATE TABLE much (i int); INSERT INTO much VALUES {}", values.join(","));
    client.batch_execute(&sql).await.expect("runs");
    let mut raw = server.raw().await;
    raw.send(&query("SELECT repeat('x', 10000) FROM much")).await;
    raw
}

#[tokio::test]
async fn a_client_that_does_not_read_is_waited_for() {
    let server = start().await;
    let mut slow = ask_for_much(&server).await;
    let other = server.connect().await;
    other.simple_query("SELECT 1").await.expect("others are served");
    let messages = slow.ready().await;
    assert_eq!(messages.iter().filter(|m| m.kind == b'D').count(), 5000);
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_keep_the_server() {
    let server = start().await;
    let _slow = ask_for_much(&server).await;
    server.stop().await;
}
