//! The longest time without a commit while SQL changes a table of a server, beside PostgreSQL 15 (issue 24, "Stalls").
//!
//! ```text
//!   2 clients ──TCP, prepared UPDATE by key──▶ server     ───── calm ─────┬────── during ──────┬── calm ──▶
//!   1 client  ──TCP, the statements of a case──▶                          first           last answer
//! ```
//!
//! Target: 100 ms. What else goes on in the machine makes gaps, too: those of the calm before are beside each, and a case
//! that only reads. PostgreSQL has its table locked in the cases that would otherwise lose what is written meanwhile.
//! Afterwards the sum of all balances is that of the updates that were answered.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::sleep;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::ms;
use super::timeline::Timeline;
use crate::postgres::Postgres;
use crate::report::Report;
use crate::server::Froglet;
use crate::tpccd::workload::connect;
use crate::{Args, progress};

const POSTGRES: &str = "PostgreSQL 15";
const FROGLET: &str = "froglet, over the wire";
const CLIENTS: u64 = 2;
/// The longest gap that is asked for.
const TARGET: Duration = Duration::from_millis(100);

/// Statements on the table `accounts` that are run one by one.
pub struct Case {
    /// For reports.
    pub name: &'static str,
    /// What is run. A COMMIT is also timed by itself.
    pub sql: &'static [&'static str],
    /// Locks that PostgreSQL needs in order to lose nothing, first in the transaction.
    pub locks: Option<&'static str>,
    /// Run afterwards, beside nobody.
    pub undo: &'static str,
}

const CASES: [Case; 10] = [
    Case {
        name: "read the table",
        sql: &["SELECT sum(balance), count(DISTINCT note) FROM accounts"],
        locks: None,
        undo: "",
    },
    Case {
        name: "swap by rename",
        sql: &[
            "BEGIN",
            "CREATE TABLE accounts_new AS SELECT id, grp, balance, note FROM accounts",
            "ALTER TABLE accounts_new ADD PRIMARY KEY (id)",
            "DROP TABLE accounts",
            "ALTER TABLE accounts_new RENAME TO accounts",
            "COMMIT",
        ],
        locks: Some("LOCK TABLE accounts IN SHARE ROW EXCLUSIVE MODE"),
        undo: "ALTER TABLE accounts RENAME CONSTRAINT accounts_new_pkey TO accounts_pkey",
    },
    Case {
        name: "alter type to text",
        sql: &["ALTER TABLE accounts ALTER COLUMN grp TYPE text"],
        locks: None,
        undo: "ALTER TABLE accounts ALTER COLUMN grp TYPE integer USING grp::integer",
    },
    Case {
        name: "alter type to bigint",
        sql: &["ALTER TABLE accounts ALTER COLUMN grp TYPE bigint"],
        locks: None,
        undo: "ALTER TABLE accounts ALTER COLUMN grp TYPE integer",
    },
    Case {
        name: "create table as, top ten",
        sql: &["CREATE TABLE made AS SELECT * FROM accounts ORDER BY balance DESC, id LIMIT 10"],
        locks: None,
        undo: "DROP TABLE made",
    },
    Case {
        name: "create table as, self join",
        sql: &[
            "CREATE TABLE made AS SELECT a.id, b.balance FROM accounts a JOIN accounts b ON b.id = a.id + 1",
        ],
        locks: None,
        undo: "DROP TABLE made",
    },
    Case {
        name: "create table as, window",
        sql: &[
            "CREATE TABLE made AS SELECT id, rank() OVER (PARTITION BY grp ORDER BY balance) FROM accounts",
        ],
        locks: None,
        undo: "DROP TABLE made",
    },
    Case {
        name: "create table as, groups",
        sql: &[
            "CREATE TABLE made AS SELECT grp, count(*), max(balance) FROM accounts GROUP BY grp",
        ],
        locks: None,
        undo: "DROP TABLE made",
    },
    Case {
        name: "create unique index",
        sql: &["CREATE UNIQUE INDEX made ON accounts (grp, id)"],
        locks: None,
        undo: "DROP INDEX made",
    },
    Case {
        name: "add foreign key",
        sql: &["ALTER TABLE accounts ADD CONSTRAINT made FOREIGN KEY (grp) REFERENCES groups"],
        locks: None,
        undo: "ALTER TABLE accounts DROP CONSTRAINT made",
    },
];

/// Adds what both servers' clients saw; `calm` before and after each change.
pub fn measure(args: &Args, rows: u64, calm: Duration, report: &mut Report) -> Result<()> {
    let cases: Vec<&Case> = CASES.iter().filter(|case| args.wants(case.name)).collect();
    if cases.is_empty() {
        return Ok(());
    }
    let postgres = Postgres::start(&args.postgres, &args.dir, &["synchronous_commit=off"])?;
    beside(POSTGRES, postgres.port(), &cases, rows, calm, report)?;
    postgres.stop()?;
    let froglet = Froglet::start(&args.binary()?, &args.dir, &[])?;
    beside(FROGLET, froglet.port(), &cases, rows, calm, report)?;
    froglet.stop()
}

/// Fills a server's empty database and runs cases beside clients, one after the other.
pub fn beside(
    who: &str,
    port: u16,
    cases: &[&Case],
    rows: u64,
    calm: Duration,
    report: &mut Report,
) -> Result<()> {
    let all = async {
        let ddl = connect(port).await?;
        ddl.batch_execute("SET synchronous_commit = off").await?;
        progress::phase(&format!("{who}: {rows} rows"));
        load(&ddl, rows).await?;
        let mut sum = 0;
        for case in cases {
            progress::phase(&format!("{who}: {}", case.name));
            sum += change(who, &ddl, port, case, rows, calm, report)
                .await
                .with_context(|| format!("{who}: {}", case.name))?;
            let found = ddl.query_one("SELECT sum(balance)::bigint, count(*) FROM accounts", &[]);
            let found = found.await?;
            let found: (i64, i64) = (found.get(0), found.get(1));
            if found != (sum, rows as i64) {
                report.fail(format!("{who}: after {}: {found:?}, not {sum} in {rows}", case.name));
            }
            ddl.batch_execute(case.undo).await.context(case.undo)?;
        }
        Ok(())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, all)
}

async fn load(client: &Client, rows: u64) -> Result<()> {
    for sql in [
        "CREATE TABLE groups (id integer PRIMARY KEY)",
        "INSERT INTO groups SELECT generate_series(0, 999)",
        "CREATE TABLE accounts (id bigint PRIMARY KEY, grp integer NOT NULL, balance bigint NOT NULL, note text)",
    ] {
        client.batch_execute(sql).await.context(sql)?;
    }
    const BATCH: u64 = 100_000;
    for start in (0..rows).step_by(BATCH as usize) {
        let end = rows.min(start + BATCH) - 1;
        let sql = format!(
            "INSERT INTO accounts SELECT n, n % 1000, 0, 'account ' || n FROM generate_series({start}, {end}) AS n"
        );
        client.batch_execute(&sql).await.context(sql)?;
    }
    Ok(())
}

/// What the clients share; all on one thread.
struct Shared {
    timeline: Timeline,
    /// Of the updates that were answered.
    sum: i64,
    slowest: Duration,
    refused: u64,
    stop: bool,
}

/// Runs a case beside the clients; returns what they have added to the balances.
async fn change(
    who: &str,
    ddl: &Client,
    port: u16,
    case: &Case,
    rows: u64,
    calm: Duration,
    report: &mut Report,
) -> Result<i64> {
    let shared = Rc::new(RefCell::new(Shared {
        timeline: Timeline::new(),
        sum: 0,
        slowest: Duration::ZERO,
        refused: 0,
        stop: false,
    }));
    let mut clients = Vec::new();
    for n in 0..CLIENTS {
        let client = connect(port).await?;
        client.batch_execute("SET synchronous_commit = off").await?;
        clients.push(spawn_local(work(client, shared.clone(), rows, n)));
    }
    sleep(calm / 3).await;
    let calm_start = Instant::now();
    sleep(calm).await;
    shared.borrow_mut().slowest = Duration::ZERO;
    let start = Instant::now();
    let locks = case.locks.filter(|_| who == POSTGRES);
    let mut commit = None;
    for sql in case.sql {
        let began = Instant::now();
        ddl.batch_execute(sql).await.with_context(|| (*sql).to_owned())?;
        if *sql == "COMMIT" {
            commit = Some(began.elapsed());
        }
        if let (&"BEGIN", Some(locks)) = (sql, locks) {
            ddl.batch_execute(locks).await.context(locks)?;
        }
    }
    let end = Instant::now();
    sleep(calm).await;
    shared.borrow_mut().stop = true;
    join(clients).await?;
    let shared = shared.borrow();
    let line = &shared.timeline;
    let gap = line.longest_gap(start, end);
    report.add(who, case.name, "time", ms(end - start), "ms");
    if let Some(commit) = commit {
        report.add(who, case.name, "commit", ms(commit), "ms");
    }
    let before = line.longest_gap(calm_start, start);
    report.add(who, case.name, "longest gap before", ms(before), "ms");
    report.add(who, case.name, "longest gap during", ms(gap), "ms");
    report.add(who, case.name, "slowest update", ms(shared.slowest), "ms");
    report.add(who, case.name, "updates refused", shared.refused as f64, "");
    let throughput = |from, to| line.per_second(from, to);
    if let (Some(before), Some(during)) = (throughput(calm_start, start), throughput(start, end)) {
        report.add(who, case.name, "throughput before", before, "1/s");
        report.add(who, case.name, "throughput during / before", during / before, "x");
    }
    if who == FROGLET {
        report.add("froglet / target", case.name, "longest gap during", ms(gap) / ms(TARGET), "x");
    }
    Ok(shared.sum)
}

async fn join(clients: Vec<JoinHandle<Result<()>>>) -> Result<()> {
    for client in clients {
        client.await.context("a client panicked")??;
    }
    Ok(())
}

/// Updates rows by key, one in a transaction, until it is told to stop.
async fn work(client: Client, shared: Rc<RefCell<Shared>>, rows: u64, seed: u64) -> Result<()> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let update = "UPDATE accounts SET balance = balance + $1 WHERE id = $2";
    let update = client.prepare(update).await?;
    while !shared.borrow().stop {
        let (delta, id) = (rng.random_range(1..1000_i64), rng.random_range(0..rows) as i64);
        let began = Instant::now();
        let updated = client.execute(&update, &[&delta, &id]).await;
        let mut shared = shared.borrow_mut();
        match updated {
            Ok(updated) => {
                ensure!(updated == 1, "account {id} is not there");
                shared.timeline.commit();
                shared.sum += delta;
                shared.slowest = shared.slowest.max(began.elapsed());
            }
            Err(e) if e.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {
                shared.refused += 1;
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}
