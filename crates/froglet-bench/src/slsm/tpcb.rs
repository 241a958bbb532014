//! pgbench's TPC-B over one gateway and over two: round trips of a transaction, and whether twice the gateways do twice the work.
//!
//! ```text
//!   what TiKV's protocol needs    timestamps ── of the start, of each of five statements, of the commit      7
//!                                 locks ── of the three rows that are updated, with their values             3
//!                                 prewrite, commit of the primary                                            2
//! ```
//! Each client has a branch of its own, so that nobody waits for a lock: the network is the limit, and not this machine.

use anyhow::{Context, Result};
use tokio_postgres::{Client, Error, Statement};

use super::cluster::{APART, Cluster};
use super::requests::cost_of;
use super::{Bench, MIDDLE, RTTS};
use crate::closed;
use crate::progress;
use crate::report::Report;
use crate::server::Froglet;
use crate::tpcc::random::Random;
use crate::tpccd::workload::connect;

pub const NAME: &str = "TPC-B";
pub const NEEDED: &str = "round trips / needed";
pub const LINEAR: &str = "two gateways / one";
/// See the module.
const ROUND_TRIPS: f64 = 12.0;
/// Clients of a gateway.
const CLIENTS: i32 = 8;
const ACCOUNTS: i32 = 100;
const TRANSACTIONS: u32 = 50;

const TABLES: [&str; 4] = [
    "CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int)",
    "CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int)",
    "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84))",
    "CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp)",
];
const UPDATES: [&str; 5] = [
    "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2",
    "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
    "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2",
    "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2",
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, now())",
];

/// Measures all of it.
pub fn run(bench: &Bench<'_>, cluster: &Cluster, report: &mut Report) -> Result<()> {
    let (_, delay_ms) = RTTS[MIDDLE];
    cluster.set_delay_ms(0.0)?;
    let binary = bench.args.binary()?;
    let url = cluster.database();
    let mut gateways = Vec::new();
    for _ in 0..2 {
        gateways.push(Froglet::start(&binary, &bench.args.dir, &["--store", &url])?);
    }
    bench.runtime.block_on(async {
        let ddl = connect(gateways[0].port()).await?;
        load(&ddl).await?;
        cluster.place(&ddl, &["pgbench_accounts", "pgbench_tellers", "pgbench_branches"], APART).await?;
        cluster.set_delay_ms(delay_ms)?;
        progress::phase("TPC-B: round trips of a transaction");
        let mut one = Session::open(&gateways[0], 0).await?;
        let cost = cost_of(&ddl, &mut one, TRANSACTIONS).await?;
        report.add("froglet", NAME, "requests", cost.requests, "");
        report.add("froglet", NAME, "round trips", cost.round_trips, "");
        report.add("froglet", NAME, NEEDED, cost.round_trips / ROUND_TRIPS, "x");
        let mut reached = Vec::new();
        for count in [1, 2] {
            progress::phase(&format!("TPC-B: {count} of two gateways"));
            let mut sessions = Vec::new();
            for (at, gateway) in gateways.iter().take(count).enumerate() {
                for n in 0..CLIENTS {
                    sessions.push(Session::open(gateway, at as i32 * CLIENTS + n).await?);
                }
            }
            let clients = sessions.len() as u16;
            let round = closed::run(&mut sessions, clients, bench.measure).await?;
            let name = format!("{count} gateways");
            report.add(&name, NAME, "throughput", round.per_second(), "1/s");
            report.add(&name, NAME, "p50", round.all().quantile_us(0.5) / 1000.0, "ms");
            reached.push(round.per_second());
        }
        report.add("froglet", NAME, LINEAR, reached[1] / reached[0].max(f64::MIN_POSITIVE), "x");
        let sums = "SELECT (SELECT sum(bbalance) FROM pgbench_branches), (SELECT sum(tbalance) FROM pgbench_tellers), \
            (SELECT sum(abalance) FROM pgbench_accounts), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";
        let row = ddl.query_one(sums, &[]).await.context(sums)?;
        let sums: Vec<i64> = (0..4).map(|at| row.get(at)).collect();
        if sums.iter().any(|sum| *sum != sums[0]) {
            report.fail(format!("{NAME}: branches, tellers, accounts and history have {sums:?}"));
        }
        anyhow::Ok(())
    })?;
    gateways.into_iter().try_for_each(Froglet::stop)
}

async fn load(ddl: &Client) -> Result<()> {
    let branches = 2 * CLIENTS;
    let rows = [
        format!("INSERT INTO pgbench_branches SELECT b, 0 FROM generate_series(1, {branches}) b"),
        format!(
            "INSERT INTO pgbench_tellers SELECT t, (t - 1) / 10 + 1, 0 FROM generate_series(1, {branches} * 10) t"
        ),
        format!(
            "INSERT INTO pgbench_accounts SELECT a, (a - 1) / {ACCOUNTS} + 1, 0, '' \
             FROM generate_series(1, {branches} * {ACCOUNTS}) a"
        ),
    ];
    // Whoever reads rows finishes what their commit has left to do.
    let read =
        ["branches", "tellers", "accounts"].map(|t| format!("SELECT count(*) FROM pgbench_{t}"));
    for sql in TABLES.map(str::to_owned).iter().chain(&rows).chain(&read) {
        ddl.batch_execute(sql).await.with_context(|| sql.clone())?;
    }
    Ok(())
}

/// A client, at its own branch.
struct Session {
    client: Client,
    statements: Vec<Statement>,
    branch: i32,
    random: Random,
}

impl Session {
    async fn open(gateway: &Froglet, n: i32) -> Result<Session> {
        let client = connect(gateway.port()).await?;
        let mut statements = Vec::new();
        for sql in UPDATES {
            statements.push(client.prepare(sql).await.context(sql)?);
        }
        Ok(Session { client, statements, branch: n + 1, random: Random::new(n as u64) })
    }

    async fn run(&mut self) -> Result<(), Error> {
        let (client, branch) = (&self.client, self.branch);
        let [account, select, teller, own, history] = &self.statements[..] else {
            unreachable!("as many as texts")
        };
        let aid = (branch - 1) * ACCOUNTS + self.random.uniform(1, ACCOUNTS);
        let tid = (branch - 1) * 10 + self.random.uniform(1, 10);
        let delta = self.random.uniform(-5000, 5000);
        client.batch_execute("BEGIN").await?;
        client.execute(account, &[&delta, &aid]).await?;
        client.query_one(select, &[&aid]).await?;
        client.execute(teller, &[&delta, &tid]).await?;
        client.execute(own, &[&delta, &branch]).await?;
        client.execute(history, &[&tid, &branch, &aid, &delta]).await?;
        client.batch_execute("COMMIT").await
    }
}

impl closed::Client for Session {
    async fn transaction(&mut self) -> Result<usize, Error> {
        let ended = self.run().await;
        if ended.is_err() {
            self.client.batch_execute("ROLLBACK").await?;
        }
        ended.map(|()| 0)
    }

    async fn again(&mut self) -> Result<usize, Error> {
        closed::Client::transaction(self).await
    }
}
