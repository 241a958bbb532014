//! Volatile values of a schema change: what anybody may have read stays (`froglet-schema`, `drawn.rs`).

use crate::support::{Client, database};

const ROWS: &str = "create table t (id int primary key, v int, s text);
    insert into t select i, i, 's' || i from generate_series(1, 200) i";

/// A change, what it makes, and what must not change while a writer is carried over it.
const CHANGES: &[(&str, &str)] = &[
    ("alter table t add column n bigserial", "n"),
    ("alter table t add column n bigint generated always as identity", "n"),
    ("alter table t add column n bigserial primary key, drop constraint t_pkey", "n"),
    ("alter table t add column n uuid default gen_random_uuid()", "n"),
    ("alter table t add column n uuid not null unique default gen_random_uuid()", "n"),
    ("alter table t add column n float8 default random()", "n"),
    ("alter table t add column n timestamptz default clock_timestamp()", "n"),
    ("alter table t add column n timestamptz default now()", "n"),
    ("alter table t add column n text default now()::text || random()", "n"),
    ("alter table t add column n float8 default case when random() < 0.5 then 1 end", "n"),
    ("alter table t alter s type uuid using gen_random_uuid()", "s"),
    ("alter table t alter s type text using s || random()", "s"),
    ("create table n as select id, v, random() as n from t; drop table t; alter table n rename to t", "n"),
    (
        "create table n as select id, v, s || random() as n, gen_random_uuid() as u from t where random() < 0.5;
         alter table n add primary key (id); drop table t; alter table n rename to t",
        "n, u",
    ),
];

/// A writer that is open at the commit changes other columns: the values that everybody could read since stay.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_published_stays() {
    for (change, columns) in CHANGES {
        for isolation in ["read committed", "repeatable read"] {
            let db = database().await;
            let (mut w, mut d, mut r) =
                (Client::connect(&db), Client::connect(&db), Client::connect(&db));
            d.ok(ROWS).await;
            w.ok(&format!("begin isolation level {isolation}")).await;
            w.ok("update t set v = -1 where id <= 100").await;
            w.ok("select * from t where id > 150 for update").await;
            w.ok("insert into t (id, v, s) values (1001, 1, 'new'), (1002, 2, 'newer')").await;
            w.ok("delete from t where id = 7").await;
            d.ok(&format!("begin; {change}; commit")).await;
            let look =
                format!("select id, {columns} from t where id not in (7, 1001, 1002) order by id");
            let published = r.lines(&look).await;
            w.ok("commit").await;
            assert_eq!(r.lines(&look).await, published, "{change}, {isolation}");
            assert_eq!(
                r.lines("select count(*) from t where v = -1").await,
                r.lines("select count(*) from t where id <= 100").await
            );
            let new = r.lines("select count(*) from t where id > 1000").await;
            assert!(new[0] == "2" || change.contains("random() <"), "{change}: {new:?}");
        }
    }
}

/// The owner may read before the commit, and so may what it has read.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_owner_has_read_stays() {
    let copies = [
        (
            "create table n as select id, s, random() as n, gen_random_uuid() as u from t where random() < 0.5",
            "n, u",
        ),
        (
            "create table n as select id, s || random() as n from t where random() < 0.5 and id > 5",
            "n",
        ),
    ];
    for (change, columns) in
        CHANGES.iter().filter(|(change, _)| change.starts_with("alter")).chain(&copies)
    {
        let table = if change.starts_with("alter") { "t" } else { "n" };
        for isolation in ["read committed", "repeatable read"] {
            let db = database().await;
            let (mut w, mut d) = (Client::connect(&db), Client::connect(&db));
            d.ok(ROWS).await;
            d.ok(&format!("begin isolation level {isolation}")).await;
            d.ok("update t set v = 0 where id = 3; insert into t values (300, 1, 'mine')").await;
            d.ok(change).await;
            let look = format!("select id, {columns} from {table} where id < 190 order by id");
            let first = d.lines(&look).await;
            for round in 1..4 {
                w.ok(&format!("update t set v = {round} where id between 10 and 50")).await;
                w.ok(&format!("insert into t (id, v, s) values ({}, 1, 'x')", 1000 + round)).await;
                assert_eq!(d.lines(&look).await, first, "{change}, {isolation}");
            }
            d.ok("commit").await;
            assert_eq!(w.lines(&look).await, first, "{change}, {isolation}");
        }
    }
}

/// now() is one instant for all rows of a column, also for those that come in at a carry-over, long after.
#[tokio::test(flavor = "multi_thread")]
async fn now_is_one_instant() {
    let changes = [
        "alter table t add column n timestamptz default now()",
        "alter table t add column n timestamptz default now() + random() * interval '0 seconds'",
        "alter table t alter s type timestamptz using now()",
        "alter table t add column n timestamptz not null default statement_timestamp()",
    ];
    for change in changes {
        let db = database().await;
        let (mut w, mut d) = (Client::connect(&db), Client::connect(&db));
        d.ok(ROWS).await;
        w.ok("begin; update t set v = -1 where id <= 100; insert into t values (1001, 1, 'new')")
            .await;
        d.ok(change).await;
        d.ok("select now(); select now(); set timezone = 'Asia/Tokyo'").await;
        w.ok("commit").await;
        let column = if change.contains("alter s") { "s" } else { "n" };
        assert_eq!(
            d.lines(&format!("select count(distinct {column}) from t")).await,
            ["1"],
            "{change}"
        );
    }
}

/// What is computed of a column that the writer has changed is computed again: else its write would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_input_is_followed() {
    let db = database().await;
    let (mut w, mut d) = (Client::connect(&db), Client::connect(&db));
    d.ok(ROWS).await;
    w.ok("begin; update t set s = 'changed' where id = 1; update t set v = 5 where id = 2").await;
    d.ok("alter table t alter s type text using s || '/' || random()").await;
    let two = d.lines("select s from t where id = 2").await;
    w.ok("commit").await;
    assert_eq!(d.lines("select s like 'changed/%' from t where id = 1").await, ["t"]);
    assert_eq!(d.lines("select s from t where id = 2").await, two);
    // And in a copy.
    w.ok("begin; update t set s = 'again' where id = 1; update t set v = 6 where id = 2").await;
    d.ok("begin; create table n as select id, v, s || random() as s, random() as r from t; drop table t; commit").await;
    let look = "select r from n where id < 3 order by id";
    let drawn = d.lines(look).await;
    let two = d.lines("select s from n where id = 2").await;
    w.ok("commit").await;
    assert_eq!(d.lines("select s like 'again%' from n where id = 1").await, ["t"]);
    assert_eq!(d.lines("select v, s from n where id = 2").await, [format!("6|{}", two[0])]);
    assert_eq!(d.lines(look).await, drawn);
}

/// A sequence is drawn from for rows of a writer whatever has become of it and of the session that made it.
#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_that_is_gone_or_renamed() {
    let after = [
        "alter table t alter n drop default; drop sequence t_n_seq",
        "alter sequence t_n_seq rename to other",
        "create schema x; alter table t set schema x",
        "alter table t drop column n",
        "set search_path = nowhere",
    ];
    for after in after {
        let db = database().await;
        let (mut w, mut d) = (Client::connect(&db), Client::connect(&db));
        d.ok(ROWS).await;
        w.ok("begin; insert into t values (1001, 1, 'new'), (1002, 1, 'new')").await;
        d.ok("alter table t add column n bigserial").await;
        d.ok(after).await;
        drop(d);
        w.ok("commit").await;
        let mut r = Client::connect(&db);
        if after.contains("schema x") {
            r.ok("set search_path = x").await;
        }
        if !after.contains("drop column") {
            assert_eq!(
                r.lines("select count(*), count(distinct n), count(n) from t").await,
                ["202|202|202"],
                "{after}"
            );
        }
    }
}
