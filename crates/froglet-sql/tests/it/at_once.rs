//! What runs at once, and that what does not has changed nothing.

use std::sync::Arc;

use froglet_engine::Value;
use froglet_sql::{Outcome, Prepared, SqlError};

use crate::support::{Answer, Client, database};

/// Tries a statement with integer parameters at once; `None` if it has something to wait for.
async fn at_once(
    client: &mut Client,
    prepared: &Arc<Prepared>,
    values: &[i32],
) -> Option<Result<Answer, SqlError>> {
    let mut values: Vec<Value> = values.iter().map(|v| Value::Int32(*v)).collect();
    let given = values.clone();
    let Some(outcome) = client.session.run_at_once(prepared, &mut values) else {
        assert_eq!(values, given, "the parameters are still there");
        return None;
    };
    match outcome {
        Ok(Outcome::Rows(stream)) => Some(client.drain(stream).await),
        Ok(Outcome::Done(tag)) => Some(Ok(Answer::Done(tag.into()))),
        Ok(_) => panic!("nothing else runs at once"),
        Err(e) => Some(Err(e)),
    }
}

/// Runs a statement once, so that it has a plan.
async fn planned(client: &mut Client, sql: &str, values: &[&str]) -> Arc<Prepared> {
    let prepared = client.prepare(sql).await.expect("prepares");
    client.ok("BEGIN").await;
    client.execute(&prepared, values).await.expect("runs");
    client.ok("ROLLBACK").await;
    prepared
}

async fn clients() -> (Client, Client) {
    let db = database().await;
    let mut one = Client::connect(&db);
    one.ok("CREATE TABLE p (id int PRIMARY KEY, n int)").await;
    one.ok("CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p)").await;
    one.ok("INSERT INTO p SELECT i, i FROM generate_series(1, 1000) AS s (i)").await;
    (one, Client::connect(&db))
}

#[tokio::test(flavor = "multi_thread")]
async fn lookups_and_single_writes_run_at_once_and_the_rest_does_not() {
    let (mut client, _other) = clients().await;
    let cases: &[(&str, &[i32], bool)] = &[
        ("SELECT n FROM p WHERE id = $1", &[7], true),
        ("SELECT n FROM p WHERE id > $1 ORDER BY id LIMIT 3", &[7], true),
        ("UPDATE p SET n = n + $1 WHERE id = 5", &[1], true),
        ("UPDATE p SET n = n + $1 WHERE id = 5 RETURNING n", &[1], true),
        ("INSERT INTO p VALUES ($1, 0)", &[5000], true),
        ("INSERT INTO c VALUES ($1, 3)", &[1], true),
        ("DELETE FROM c WHERE id = $1", &[8], true),
        // Many rows; no index; a lock; foreign keys to look at; another planner.
        ("SELECT n FROM p WHERE id > $1", &[7], false),
        ("SELECT id FROM p WHERE n = $1", &[7], false),
        ("SELECT n FROM p WHERE id = $1 FOR UPDATE", &[7], false),
        ("DELETE FROM p WHERE id = $1", &[9], false),
        ("INSERT INTO p VALUES ($1, 0) ON CONFLICT DO NOTHING", &[1], false),
        ("SELECT count(*) FROM p WHERE id < $1", &[3], false),
    ];
    for (sql, values, expected) in cases {
        let texts: Vec<String> = values.iter().map(i32::to_string).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let prepared = planned(&mut client, sql, &texts).await;
        client.ok("BEGIN").await;
        let outcome = at_once(&mut client, &prepared, values).await;
        assert_eq!(outcome.is_some(), *expected, "{sql}: {outcome:?}");
        client.ok("ROLLBACK").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_would_have_to_wait_has_changed_nothing() {
    let (mut one, mut other) = clients().await;
    let update = planned(&mut one, "UPDATE p SET n = n + $1 WHERE id <= 3", &["1"]).await;
    let insert = planned(&mut one, "INSERT INTO c VALUES ($1, 2)", &["1"]).await;
    other.ok("BEGIN").await;
    other.ok("UPDATE p SET n = 0 WHERE id = 3").await;
    one.ok("BEGIN").await;
    // The rows before the one that is held were written, and are undone.
    assert!(at_once(&mut one, &update, &[1]).await.is_none());
    assert_eq!(one.lines("SELECT n FROM p WHERE id <= 3 ORDER BY id").await, ["1", "2", "3"]);
    one.ok("COMMIT").await;
    other.ok("COMMIT").await;
    assert_eq!(other.lines("SELECT n FROM p WHERE id <= 3 ORDER BY id").await, ["1", "2", "0"]);
    // A parent that is being deleted.
    other.ok("BEGIN").await;
    other.ok("DELETE FROM p WHERE id = 2").await;
    assert!(at_once(&mut one, &insert, &[1]).await.is_none());
    one.session.finish_implicit(true).await.expect("there is nothing to commit");
    other.ok("ROLLBACK").await;
    assert_eq!(one.lines("SELECT count(*) FROM c").await, ["0"]);
    let inserted = at_once(&mut one, &insert, &[1]).await.expect("nobody is in the way");
    assert_eq!(inserted.expect("inserts").tag(), "INSERT 0 1");
    one.session.finish_implicit(true).await.expect("commits");
    // A parent that is not there, a duplicate: for the ordinary way to tell.
    assert!(at_once(&mut one, &insert, &[1]).await.is_none());
    let error = one.execute(&insert, &["1"]).await.expect_err("a duplicate");
    assert_eq!(error.state.to_string(), "23505");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_an_older_schema_is_not_run() {
    let (mut one, mut other) = clients().await;
    let select = planned(&mut one, "SELECT * FROM p WHERE id = $1", &["7"]).await;
    assert!(at_once(&mut one, &select, &[7]).await.is_some());
    one.session.finish_implicit(true).await.expect("ends");
    other.ok("ALTER TABLE p RENAME COLUMN n TO m").await;
    assert!(at_once(&mut one, &select, &[7]).await.is_none(), "planned anew first");
    one.execute(&select, &["7"]).await.expect("runs");
    assert!(at_once(&mut one, &select, &[7]).await.is_some());
    one.session.finish_implicit(true).await.expect("ends");
    // Under a schema change of its own the catalog is its own.
    one.ok("BEGIN").await;
    one.ok("ALTER TABLE p ADD COLUMN x int").await;
    assert!(at_once(&mut one, &select, &[7]).await.is_none());
    one.ok("ROLLBACK").await;
    // In a failed block nothing runs, whichever way.
    one.ok("BEGIN").await;
    one.error("SELECT 1/0").await;
    assert!(at_once(&mut one, &select, &[7]).await.is_none());
    one.ok("ROLLBACK").await;
}
