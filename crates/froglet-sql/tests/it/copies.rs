//! COPY in and out.

use crate::support::{Client, database};

#[tokio::test]
async fn copy_in_and_out() {
    let db = database().await;
    let mut c = Client::connect(&db);
    c.ok("create table t (id int primary key, name text, at date default '2024-01-01')").await;
    let tag = c.copy("copy t (id, name) from stdin", b"1\ta\\tb\n2\t\\N\n\\.\n").await.unwrap();
    assert_eq!(tag, "COPY 2");
    assert_eq!(
        c.lines("select id, name, at from t where id > 0 order by id").await,
        ["1|a\tb|2024-01-01", "2|∅|2024-01-01"]
    );
    let csv = b"id,name\n3,\"x,\"\"y\"\"\"\n4,\n";
    c.copy("copy t (id, name) from stdin with (format csv, header)", csv).await.unwrap();
    assert_eq!(c.lines("select name from t where id = 3").await, ["x,\"y\""]);
    assert_eq!(
        c.lines("copy t (id, name) to stdout").await,
        ["1\ta\\tb", "2\t\\N", "3\tx,\"y\"", "4\t\\N"]
    );
    assert_eq!(
        c.lines("copy (select id, name from t where id = 3) to stdout with (format csv, header)")
            .await,
        ["id,name", "3,\"x,\"\"y\"\"\""]
    );
}

#[tokio::test]
async fn a_copy_that_stops_in_the_middle_changes_nothing() {
    let db = database().await;
    let mut c = Client::connect(&db);
    c.ok("create table t (id int primary key, n int check (n > 0))").await;
    let error = c.copy("copy t from stdin", b"1\t1\n2\tx\n").await.unwrap_err();
    assert_eq!(error.state.to_string(), "22P02");
    assert_eq!(error.context.as_deref(), Some("COPY t, line 2, column n: \"x\""));
    let error = c.copy("copy t from stdin", b"1\t1\n2\n").await.unwrap_err();
    assert_eq!(
        (error.state.to_string().as_str(), error.message.as_str()),
        ("22P04", "missing data for column \"n\"")
    );
    assert_eq!(error.context.as_deref(), Some("COPY t, line 2: \"2\""));
    let error = c.copy("copy t from stdin", b"1\t1\t1\n").await.unwrap_err();
    assert_eq!(error.message, "extra data after last expected column");
    let error = c.copy("copy t from stdin", b"1\t-1\n").await.unwrap_err();
    assert_eq!(error.state.to_string(), "23514");
    let error = c.copy("copy t from stdin", b"1\t1\n1\t2\n").await.unwrap_err();
    assert_eq!(error.state.to_string(), "23505");
    assert_eq!(error.context.as_deref(), Some("COPY t, line 2"));
    let error = c.copy("copy t from stdin", b"1\t\xff\n").await.unwrap_err();
    assert_eq!(error.state.to_string(), "22021");
    assert_eq!(c.lines("select count(*) from t").await, ["0"]);
    assert_eq!(c.code("copy t from '/etc/passwd'").await, "0A000");
    assert_eq!(c.code("copy missing from stdin").await, "42P01");
}

#[tokio::test]
async fn what_pgbench_sends() {
    let db = database().await;
    let mut c = Client::connect(&db);
    c.ok(
        "drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
    )
    .await;
    c.ok("create table pgbench_accounts(aid    int not null,bid int,abalance int,filler char(84)) with (fillfactor=100)").await;
    c.ok("create table pgbench_history(tid int,bid int,aid    int,delta int,mtime timestamp,filler char(22))").await;
    c.ok("begin").await;
    c.ok("truncate table pgbench_accounts, pgbench_history").await;
    let mut data = Vec::new();
    for aid in 1..=2500 {
        data.extend_from_slice(format!("{aid}\t1\t0\t\n").as_bytes());
    }
    let statement =
        c.session.split("copy pgbench_accounts from stdin with (freeze on)").unwrap().remove(0);
    let froglet_sql::Outcome::CopyIn(mut copy) = c.session.simple(&statement).await.unwrap() else {
        panic!("a COPY");
    };
    copy.feed(&mut c.session, &data).await.unwrap();
    assert_eq!(copy.finish(&mut c.session).await.unwrap(), "COPY 2500");
    c.ok("commit").await;
    c.ok("vacuum analyze pgbench_accounts").await;
    c.ok("alter table pgbench_accounts add primary key (aid)").await;
    c.ok("begin").await;
    c.ok("UPDATE pgbench_accounts SET abalance = abalance + 77 WHERE aid = 2001;").await;
    assert_eq!(c.lines("SELECT abalance FROM pgbench_accounts WHERE aid = 2001;").await, ["77"]);
    c.ok("INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, 2001, 77, CURRENT_TIMESTAMP);").await;
    c.ok("END;").await;
    assert_eq!(c.lines("select count(*) from pgbench_accounts").await, ["2500"]);
}
