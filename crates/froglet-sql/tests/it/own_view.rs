//! What a transaction sees of a table that it is migrating, while others write.

use std::time::Duration;

use crate::support::{Client, database};

async fn captured() {
    // Capture comes every millisecond; what it does in between is what the test is about.
    tokio::time::sleep(Duration::from_millis(30)).await;
}

const CHANGES: [&str; 4] = [
    "alter table t add column g bigint generated always as (a * 2) stored",
    "alter table t alter column b type bigint using a * 2; alter table t rename b to g",
    "alter table t add column g bigint generated always as (a * 2) stored; create index on t (g)",
    "alter table t add column g bigint generated always as (a * 2) stored, add unique (g, id)",
];

/// A cursor reads in the view in which it was opened, whatever is captured later.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_sees_one_moment() {
    for change in CHANGES {
        for isolation in ["read committed", "repeatable read"] {
            let db = database().await;
            let (mut w, mut d) = (Client::connect(&db), Client::connect(&db));
            d.ok("create table t (id int primary key, a int, b int)").await;
            d.ok("insert into t select i, i, i from generate_series(1, 20000) i").await;
            d.ok("set froglet.migration = eager").await;
            d.ok(&format!("begin isolation level {isolation}")).await;
            d.ok(change).await;
            d.ok("declare c cursor for select id, a, g from t where g is distinct from a * 2")
                .await;
            d.ok(
                "declare o cursor for select id, a, g from t where g between 20 and 40 order by g",
            )
            .await;
            w.ok("update t set a = a + 1000000 where id % 3 = 0").await;
            w.ok("delete from t where id % 7 = 0").await;
            captured().await;
            assert_eq!(d.lines("fetch all from c").await, [""; 0], "{change}, {isolation}");
            let seen: Vec<String> = (10..=20).map(|i| format!("{i}|{i}|{}", 2 * i)).collect();
            assert_eq!(d.lines("fetch all from o").await, seen, "{change}, {isolation}");
            assert_eq!(
                d.lines("select count(*) from t where g is distinct from a * 2").await,
                ["0"]
            );
            d.ok("commit").await;
            assert_eq!(
                d.lines("select count(*) from t where g is distinct from a * 2").await,
                ["0"]
            );
        }
    }
}

/// A statement that keeps what it has read keeps what was right.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_right() {
    let db = database().await;
    let (mut w, mut d) = (Client::connect(&db), Client::connect(&db));
    d.ok("create table t (id int primary key, a int); create table k (id int, a int, g bigint)")
        .await;
    d.ok("insert into t select i, i from generate_series(1, 20000) i").await;
    d.ok("set froglet.migration = eager").await;
    d.ok("begin; alter table t add column g bigint generated always as (a * 2) stored").await;
    let writer = tokio::spawn(async move {
        for round in 0..40 {
            w.ok(&format!("update t set a = a + 1 where id % 50 = {round}")).await;
        }
    });
    for _ in 0..10 {
        d.ok("insert into k select id, a, g from t").await;
        assert_eq!(d.lines("select count(*) from t where g is distinct from a * 2").await, ["0"]);
    }
    writer.await.unwrap();
    assert_eq!(d.lines("select count(*) from k where g is distinct from a * 2").await, ["0"]);
    d.ok("commit").await;
    assert_eq!(d.lines("select count(*) from t where g is distinct from a * 2").await, ["0"]);
}

/// An index over plain columns, made by the transaction, under a cursor.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_through_an_index_being_built() {
    let db = database().await;
    let (mut w, mut d) = (Client::connect(&db), Client::connect(&db));
    d.ok("create table t (id int primary key, a int)").await;
    d.ok("insert into t select i, i from generate_series(1, 20000) i").await;
    d.ok("begin; create index on t (a)").await;
    d.ok("declare c cursor for select id, a from t where a between 10 and 15 order by a").await;
    w.ok("update t set a = a + 1000000 where id <= 12").await;
    captured().await;
    w.ok("delete from t where id = 13").await;
    captured().await;
    assert_eq!(
        d.lines("fetch all from c").await,
        ["10|10", "11|11", "12|12", "13|13", "14|14", "15|15"]
    );
    d.ok("commit").await;
}
