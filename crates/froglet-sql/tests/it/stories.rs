//! Several sessions at once: waits, conflicts, and schema changes between them.

use std::sync::Arc;
use std::time::Duration;

use froglet_sql::Database;

use crate::support::{Answer, Client, database};

async fn accounts(rows: u32) -> Arc<Database> {
    let db = database().await;
    let mut c = Client::connect(&db);
    c.ok("create table accounts (aid int primary key, bal int not null, filler text)").await;
    for aid in 1..=rows {
        c.ok(&format!("insert into accounts values ({aid}, 0, 'f')")).await;
    }
    db
}

/// Runs a statement in a task of its own, and waits until it waits.
async fn blocked(
    db: &Arc<Database>,
    mut client: Client,
    sql: &'static str,
) -> tokio::task::JoinHandle<(Client, Result<Answer, froglet_sql::SqlError>)> {
    let waiting = db.manager().waits().waiting().len();
    let task = tokio::spawn(async move {
        let outcome = client.run(sql).await;
        (client, outcome)
    });
    for _ in 0..2000 {
        if db.manager().waits().waiting().len() > waiting {
            return task;
        }
        assert!(!task.is_finished(), "{sql} did not wait");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{sql} never began to wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_and_reads_the_row_again() {
    let db = accounts(3).await;
    let (mut a, b) = (Client::connect(&db), Client::connect(&db));
    a.ok("begin").await;
    a.ok("update accounts set bal = bal + 10 where aid = 1").await;
    let task = blocked(&db, b, "update accounts set bal = bal + 1 where aid = 1").await;
    a.ok("commit").await;
    let (mut b, outcome) = task.await.unwrap();
    assert_eq!(outcome.unwrap().tag(), "UPDATE 1");
    assert_eq!(b.lines("select bal from accounts where aid = 1").await, ["11"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_no_longer_meets_the_condition_is_left_alone() {
    for fast in ["on", "off"] {
        let db = accounts(2).await;
        let (mut a, mut b) = (Client::connect(&db), Client::connect(&db));
        b.ok(&format!("set froglet.fast_path = {fast}")).await;
        a.ok("begin").await;
        a.ok("update accounts set bal = 5 where aid = 1").await;
        let task = blocked(&db, b, "update accounts set bal = 100 where bal = 0").await;
        a.ok("commit").await;
        let (mut b, outcome) = task.await.unwrap();
        assert_eq!(outcome.unwrap().tag(), "UPDATE 1", "fast_path {fast}");
        assert_eq!(
            b.lines("select bal from accounts where aid > 0 order by aid").await,
            ["5", "100"]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn repeatable_read_fails_where_read_committed_would_look_again() {
    let db = accounts(1).await;
    let (mut a, mut b) = (Client::connect(&db), Client::connect(&db));
    b.ok("begin isolation level repeatable read").await;
    assert_eq!(b.lines("select bal from accounts where aid = 1").await, ["0"]);
    a.ok("update accounts set bal = 7 where aid = 1").await;
    assert_eq!(b.lines("select bal from accounts where aid = 1").await, ["0"]);
    assert_eq!(b.code("update accounts set bal = bal + 1 where aid = 1").await, "40001");
    assert_eq!(b.code("select 1").await, "25P02");
    b.ok("rollback").await;
    a.ok("delete from accounts").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_is_found() {
    let db = accounts(2).await;
    let (mut a, mut b) = (Client::connect(&db), Client::connect(&db));
    a.ok("begin").await;
    b.ok("begin").await;
    a.ok("update accounts set bal = 1 where aid = 1").await;
    b.ok("update accounts set bal = 1 where aid = 2").await;
    let task = blocked(&db, b, "update accounts set bal = 1 where aid = 1").await;
    assert_eq!(a.code("update accounts set bal = 1 where aid = 2").await, "40P01");
    let (mut b, outcome) = task.await.unwrap();
    outcome.expect("the victim's rows are free before its ROLLBACK");
    b.ok("commit").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timeouts_cancel_and_nowait() {
    let db = accounts(2).await;
    let (mut a, mut b) = (Client::connect(&db), Client::connect(&db));
    a.ok("begin").await;
    a.ok("select * from accounts where aid = 1 for update").await;
    b.ok("set lock_timeout = '5ms'").await;
    assert_eq!(b.code("update accounts set bal = 1 where aid = 1").await, "55P03");
    b.ok("reset lock_timeout").await;
    b.ok("set statement_timeout = '5ms'").await;
    assert_eq!(b.code("delete from accounts where aid = 1").await, "57014");
    b.ok("reset statement_timeout").await;
    assert_eq!(b.code("select * from accounts where aid = 1 for update nowait").await, "55P03");
    assert_eq!(
        b.lines("select aid from accounts order by aid for update skip locked").await,
        ["2"]
    );
    let (pid, secret) = (b.session.pid(), b.session.secret());
    let task = blocked(&db, b, "update accounts set bal = 2 where aid = 1").await;
    assert!(!db.cancel(pid, secret ^ 1), "a wrong secret cancels nothing");
    assert!(db.cancel(pid, secret));
    let (mut b, outcome) = task.await.unwrap();
    assert_eq!(outcome.unwrap_err().state.to_string(), "57014");
    drop(a);
    assert_eq!(b.ok("update accounts set bal = 2 where aid = 1").await, "UPDATE 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_leaves_nothing() {
    let db = accounts(1).await;
    let mut a = Client::connect(&db);
    a.ok("begin").await;
    a.ok("update accounts set bal = 9 where aid = 1").await;
    a.ok("create table left_behind (x int)").await;
    drop(a);
    let mut b = Client::connect(&db);
    assert_eq!(b.lines("select bal from accounts where aid = 1").await, ["0"]);
    assert_eq!(b.code("select * from left_behind").await, "42P01");
    assert_eq!(db.sessions().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_and_the_delete_of_its_parent() {
    let db = database().await;
    let (mut a, mut b) = (Client::connect(&db), Client::connect(&db));
    a.ok("create table p (id int primary key, v int)").await;
    a.ok("create table c (pid int references p)").await;
    a.ok("insert into p values (1, 0), (2, 0)").await;

    // The deleter comes first: the child waits, and then has no parent.
    a.ok("begin").await;
    a.ok("delete from p where id = 1").await;
    let task = blocked(&db, b, "insert into c values (1)").await;
    a.ok("commit").await;
    let (mut b2, outcome) = task.await.unwrap();
    assert_eq!(outcome.unwrap_err().state.to_string(), "23503");

    // The child comes first: the deleter waits, and then is refused.
    b2.ok("begin").await;
    b2.ok("insert into c values (2)").await;
    // Another column of the parent may change all the while.
    a.ok("update p set v = 1 where id = 2").await;
    let task = blocked(&db, a, "delete from p where id = 2").await;
    b2.ok("commit").await;
    let (mut a, outcome) = task.await.unwrap();
    assert_eq!(outcome.unwrap_err().state.to_string(), "23503");

    // A child of a parent that somebody else updates does not wait.
    a.ok("begin").await;
    a.ok("update p set v = 2 where id = 2").await;
    b2.ok("insert into c values (2)").await;
    a.ok("commit").await;
    b = b2;
    assert_eq!(b.lines("select count(*) from c").await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_survives_schema_changes() {
    for fast in ["on", "off"] {
        let db = accounts(3).await;
        let (mut a, mut ddl) = (Client::connect(&db), Client::connect(&db));
        a.ok(&format!("set froglet.fast_path = {fast}")).await;
        let select = a.prepare("select bal from accounts where aid = $1").await.unwrap();
        let update = a.prepare("update accounts set bal = bal + $1 where aid = $2").await.unwrap();
        let star = a.prepare("select * from accounts where aid = $1").await.unwrap();
        let changes = [
            "alter table accounts add column extra int default 5",
            "alter table accounts alter column bal type bigint",
            "alter table accounts rename column filler to padding",
            "alter table accounts alter column bal type text using bal::text",
            "alter table accounts alter column bal type numeric(12, 2) using bal::numeric",
            "alter table accounts drop column extra",
            "create index on accounts (bal)",
            "alter table accounts alter column aid type bigint",
        ];
        let mut expected = 0;
        for change in changes {
            ddl.ok(change).await;
            let answer = a.execute(&select, &["1"]).await.unwrap();
            let now = Some(expected.to_string());
            assert_eq!(answer.rows(), [[now]], "after {change}, fast_path {fast}");
            if !change.contains("type text") {
                let answer = a.execute(&update, &["10", "1"]).await.unwrap();
                assert_eq!(answer.tag(), "UPDATE 1", "after {change}");
                expected += 10;
            }
        }
        let rows = a.execute(&star, &["2"]).await.unwrap().rows();
        assert_eq!(rows[0].len(), 3, "as many columns as described");
        ddl.ok("alter table accounts add column more int").await;
        let rows = a.execute(&star, &["2"]).await.unwrap().rows();
        assert_eq!(rows[0].len(), 3, "the columns it was described with");
        ddl.ok("alter table accounts drop column padding").await;
        let error = a.execute(&star, &["2"]).await.unwrap_err();
        assert_eq!(error.message, "cached plan must not change result type");
        ddl.ok("update accounts set bal = 9999999999 where aid = 3").await;
        let error = a.execute(&select, &["3"]).await.unwrap_err();
        assert_eq!(error.state.to_string(), "22003", "a value that does not fit is an error");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_go_on_while_the_schema_changes() {
    let db = accounts(50).await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut tasks = Vec::new();
    for worker in 0..3 {
        let (db, stop) = (db.clone(), stop.clone());
        tasks.push(tokio::spawn(async move {
            let mut c = Client::connect(&db);
            let update =
                c.prepare("update accounts set bal = bal + $1 where aid = $2").await.unwrap();
            let select = c.prepare("select bal from accounts where aid = $1").await.unwrap();
            let mut done: i64 = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let aid = (done * 7 + worker) % 50 + 1;
                c.run("begin").await.unwrap();
                c.execute(&update, &["1", &aid.to_string()]).await.expect("an update");
                c.execute(&select, &[&aid.to_string()]).await.expect("a select");
                c.run("commit").await.expect("a commit");
                done += 1;
            }
            done
        }));
    }
    let mut ddl = Client::connect(&db);
    let changes = [
        "alter table accounts add column a int default 1",
        "alter table accounts alter column bal type bigint",
        "alter table accounts add column b bigint generated always as (bal + 1) stored",
        "alter table accounts drop column b",
        "create index on accounts (bal)",
        "alter table accounts add check (bal >= 0)",
        "alter table accounts alter column a set not null",
        "alter table accounts rename column a to z",
        "alter table accounts drop column z",
        "alter table accounts alter column bal type int",
    ];
    for change in changes {
        ddl.ok(change).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ddl.ok("begin").await;
    ddl.ok("alter table accounts add column m int default 4").await;
    ddl.ok("update accounts set m = 5 where aid = 3").await;
    ddl.ok("alter table accounts alter column bal type bigint").await;
    ddl.ok("commit").await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut total = 0;
    for task in tasks {
        total += task.await.expect("no worker failed");
    }
    assert!(total > 0);
    assert_eq!(ddl.lines("select sum(bal) from accounts").await, [total.to_string()]);
    assert_eq!(ddl.lines("select count(*) from accounts where m = 5").await, ["1"]);
}
