//! A client is told nothing that a crash could take back, unless it asked for no more.

use std::sync::Arc;
use std::time::Duration;

use froglet_engine::env::MemEnv;
use froglet_engine::{Engine, Lsn, SqlState};
use froglet_log::LogOptions;
use froglet_memory::{MemoryEngine, MemoryOptions};
use froglet_sql::columnar::{Answer, Strings};
use froglet_sql::{Database, Defaults};

use crate::support::Client;

/// A database whose log is flushed only when somebody waits for it.
async fn lazily_flushed() -> (Arc<MemoryEngine>, Arc<Database>) {
    let hour = Duration::from_secs(3600);
    let options = MemoryOptions {
        data_dir: Some("/data".into()),
        env: Arc::new(MemEnv::new(1)),
        collector_thread: false,
        log: LogOptions { flush_interval: hour, ..LogOptions::default() },
        ..MemoryOptions::default()
    };
    let engine = MemoryEngine::open(options).expect("an empty log opens");
    let db = Database::open(engine.clone(), Defaults::default()).await.expect("a catalog opens");
    (engine, db)
}

/// A row is committed that is not durable, and this is how far the log has come with it. The client is
/// another one.
async fn with_an_undurable_row(settings: &str) -> (Arc<MemoryEngine>, Lsn, Client) {
    let (engine, db) = lazily_flushed().await;
    let mut careless = Client::connect(&db);
    careless.run("CREATE TABLE t (k int PRIMARY KEY)").await.expect("a table is created");
    careless.session.settle().await.expect("the table is durable");
    careless.run("SET synchronous_commit = off").await.expect("it is a setting");
    careless.run("INSERT INTO t VALUES (1)").await.expect("the key is new");
    let appended = engine.appended();
    assert!(engine.durable() < appended, "nobody waits for the row to be durable");
    let mut client = Client::connect(&db);
    client.run(settings).await.expect("it is a setting");
    (engine, appended, client)
}

/// A row is committed that is not durable; then another client does `sql` and is about to be
/// answered. Whether the row is durable by then.
async fn durable_when_told(settings: &str, sql: &[&str]) -> bool {
    let (engine, appended, mut client) = with_an_undurable_row(settings).await;
    for sql in sql {
        // A violation is an answer, too.
        let _ = client.run(sql).await;
    }
    client.session.settle().await.expect("the log is well");
    engine.durable() >= appended
}

#[tokio::test]
async fn what_is_told_within_a_transaction_rests_on_durable_commits() {
    let on = "SET synchronous_commit = on";
    assert!(durable_when_told(on, &["BEGIN", "SELECT k FROM t"]).await, "a row");
    assert!(durable_when_told(on, &["BEGIN", "SELECT count(*) FROM t"]).await, "a number");
    assert!(durable_when_told(on, &["BEGIN", "INSERT INTO t VALUES (1)"]).await, "a violation");
    assert!(durable_when_told(on, &["INSERT INTO t VALUES (1)"]).await, "one without BEGIN");
    let cursor = ["BEGIN", "DECLARE c CURSOR FOR SELECT count(*) FROM t", "FETCH c"];
    assert!(durable_when_told(on, &cursor).await, "a row of a cursor");
}

#[tokio::test]
async fn an_error_of_a_result_that_is_fetched_rests_on_durable_commits() {
    for sql in [
        "SELECT 1 / (k - 1) AS v FROM t ORDER BY k + 0",
        "SELECT 1 / (k - 1) AS v FROM t ORDER BY k + 0; SELECT 1",
    ] {
        let on = "SET synchronous_commit = on";
        let (engine, appended, mut client) = with_an_undurable_row(on).await;
        let error = match client.session.answer_text(sql).await {
            Ok(Answer::Rows(pinned)) => {
                assert!(engine.durable() < appended, "nothing has run yet");
                let mut batches = pinned.open(0, Strings::Views).expect("it begins");
                batches.next().await.expect_err("it divides by zero")
            }
            Ok(Answer::Done(_)) => panic!("it has rows"),
            Err(e) => {
                client.session.settle().await.expect("the log is well");
                e
            }
        };
        assert_eq!(error.state, SqlState::DIVISION_BY_ZERO, "{error:?}");
        assert!(engine.durable() >= appended, "{sql}");
    }
}

#[tokio::test]
async fn nobody_waits_for_what_does_not_concern_it() {
    let on = "SET synchronous_commit = on";
    assert!(!durable_when_told(on, &["BEGIN", "SELECT 1"]).await, "no row was read");
    let off = "SET synchronous_commit = off";
    assert!(!durable_when_told(off, &["BEGIN", "SELECT k FROM t"]).await, "it asked for no more");
}
