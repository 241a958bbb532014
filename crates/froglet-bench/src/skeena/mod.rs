//! Transactions over tables in memory and on disk (Skeena, paper 003, chapter 6; docs/disk.md).
//!
//! ```text
//!   micro      6.1  ten accesses, 0 to 100 % on disk     6.6  their p95               beside PostgreSQL 15
//!   tpcc       6.2  TPC-C by where its tables are: in cache        table 6.1  aborts  beside PostgreSQL 15
//!              6.3  at ten times the cache                 6.4  the same, durable     beside PostgreSQL 15
//!   registry   6.5  its capacity and recycling; switched on and off                   in process
//!   move       SET ACCESS METHOD beside clients     restart  a server with tables on disk
//!   space      files after churn                                                      beside PostgreSQL 15
//! ```
//! `--only TEXT` picks what has the text in its name, "tpcc, in cache" for example. Variants of a figure run in
//! interleaved rounds, whose medians count; a ratio is of a round. What the issue wants to be reached is a row and a line
//! below the table, `met` or `MISSED`; the benchmark fails by wrong answers alone: each update that was
//! committed is counted in the tables, and TPC-C's twelve conditions are asked of every server.
//!
//! Differences from the paper: over TCP and not a Unix socket; two cores shared by server and clients instead of 80
//! threads, so 1 to 32 clients; ten tables of an engine instead of 250. Its logs on tmpfs, which are everything but the
//! device, are asynchronous commits here. The registry has no switch in a server, so it is switched in process.
//!
//! Left out: RocksDB through the same interface, with which the issue compares point reads. The release before this
//! issue: `froglet bench wire --froglet PATH` is run with each. Delivery alone, which would soon have nothing left to
//! deliver: its figures are those within the mix.

mod accesses;
mod engines;
mod memory_group;
mod micro;
mod moving;
mod placement;
mod registry;
mod restart;
mod servers;
mod space;
mod tables;
mod tpcc;
mod verdicts;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use self::servers::Cache;
use crate::report::Report;
use crate::{Args, figures};

/// For `froglet bench list`.
pub const ABOUT: &str = "tables in memory and on disk in one transaction, beside PostgreSQL 15";

/// What all experiments have in common.
struct Bench<'a> {
    args: &'a Args,
    rounds: u16,
    measure: Duration,
    /// Numbers of clients that are measured.
    clients: &'static [u16],
    pictures: Option<&'a Path>,
    runtime: Runtime,
}

type Measured = fn(&Bench<'_>, &mut Report) -> Result<()>;

const EXPERIMENTS: &[(&str, Measured)] = &[
    ("micro, in cache", |bench, report| micro::run(bench, report, Cache::Holds)),
    ("micro, ten times the cache", |bench, report| micro::run(bench, report, Cache::Tenth)),
    ("tpcc, in cache", |bench, report| tpcc::run(bench, report, Cache::Holds)),
    ("tpcc, ten times the cache", |bench, report| tpcc::run(bench, report, Cache::Tenth)),
    ("registry, on and off", registry::on_and_off),
    ("registry, capacity", registry::capacity),
    ("move", moving::run),
    ("restart", restart::run),
    ("space", space::run),
];

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    let bench = Bench {
        args,
        rounds: args.rounds.unwrap_or(if args.small { 1 } else { 3 }),
        measure: Duration::from_secs_f64(args.seconds.unwrap_or(if args.small {
            0.05
        } else {
            3.0
        })),
        clients: if args.small { &[1, 2] } else { &[1, 4, 16, 32] },
        pictures: args.tpccd.figures.as_deref(),
        runtime: Runtime::new()?,
    };
    let mut report = Report::new("Tables in memory and on disk (Skeena, figures 6.1 to 6.6)");
    if args.small {
        report.summary +=
            "        small: everything has run, but what is met or missed means nothing\n";
    }
    for (name, measured) in EXPERIMENTS.iter().filter(|(name, _)| args.wants(name)) {
        measured(&bench, &mut report).with_context(|| (*name).to_owned())?;
    }
    verdicts::add(&mut report, bench.few(), bench.most());
    figures::write(bench.pictures, "skeena", &report)?;
    Ok(report)
}

impl Bench<'_> {
    /// Rows of an engine's tables in the microbenchmark, in all.
    fn rows(&self) -> u64 {
        self.args.rows.unwrap_or(if self.args.small { 10_000 } else { 4_000_000 })
    }

    /// Files that have not changed for so long are at rest.
    fn still(&self) -> Duration {
        Duration::from_millis(if self.args.small { 100 } else { 1000 })
    }

    /// Clients of what is measured with one number of them.
    fn few(&self) -> u16 {
        self.clients[1]
    }

    /// The most clients.
    fn most(&self) -> u16 {
        self.clients.iter().copied().max().expect("clients are measured")
    }
}

/// `1 client`, `4 clients`.
fn clients(count: u16) -> String {
    format!("{count} client{}", if count == 1 { "" } else { "s" })
}
