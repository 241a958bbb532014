//! TPC-C as stored procedures straight on the engine (mainlining, paper 004, figure 8; issue 2:
//! at least 20,000 transactions a second with one worker and one warehouse).
//!
//! ```text
//!   inputs ─▶ new_order payment queries delivery ─▶ db (Tx) ─▶ engine       driver: workers, mix
//!                                                                           consistency: 3.3.2
//! ```
//!
//! All five transactions with the specification's population, distributions, outputs and mix;
//! there are no terminals, so no think times. Snapshot isolation, under which TPC-C is
//! serialisable. Measured without a log, with the log on tmpfs (all the work of logging and none
//! of the device) and on the disk, through the engine's own calls; once more through froglet-txn
//! and the engine contract, which is the way SQL goes. Every run ends with the consistency
//! conditions; a run that fails them fails the benchmark.

pub mod consistency;
pub mod db;
mod delivery;
pub mod driver;
pub mod inputs;
pub mod load;
mod new_order;
mod payment;
pub mod profile;
mod queries;
pub(crate) mod random;
pub mod schema;

use std::time::Duration;

use anyhow::Result;

use self::db::{Access, Scale, Tpcc};
use self::driver::{Run, Stats};
use self::inputs::{KINDS, Kind};
use self::profile::OPS;
use crate::report::Report;
use crate::store::Durability;
use crate::{Args, progress};

/// For `froglet bench list`.
pub const ABOUT: &str = "TPC-C's mix, stored procedures on the engine, with and without a log";

const APPROACHES: [(&str, Access, Durability); 4] = [
    ("engine, no log", Access::Engine, Durability::Off),
    ("engine, log on tmpfs", Access::Engine, Durability::Tmpfs),
    ("engine, log on disk", Access::Engine, Durability::Disk),
    ("froglet-txn, no log", Access::Contract, Durability::Off),
];

/// The issue's target with one worker.
const TARGET_PER_SECOND: f64 = 20_000.0;

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("TPC-C (mainlining, figure 8)");
    let measure = Duration::from_secs_f64(args.seconds.unwrap_or(10.0));
    for &workers in &args.workers {
        for (name, access, durability) in APPROACHES {
            let approach =
                format!("{name}, {workers} worker{}", if workers == 1 { "" } else { "s" });
            if !args.wants(&approach) {
                continue;
            }
            let warehouses = i32::from(args.scale.unwrap_or(0).max(workers));
            let scale = if args.small { Scale::small } else { Scale::full }(warehouses);
            progress::phase(&format!("{approach}: loading {warehouses} warehouses"));
            let db = Tpcc::create(scale, access, durability, &args.dir)?;
            load::load(&db)?;
            progress::phase(&format!("{approach}: running"));
            let how = Run {
                workers,
                warm_up: measure.div_f64(5.0).min(Duration::from_secs(2)),
                measure,
                profile: args.profile,
                logged: durability != Durability::Off,
            };
            let stats = driver::run(&db, how)?;
            add(&mut report, &approach, &stats);
            if args.profile {
                add_profile(&mut report, &approach, &stats);
            }
            if let Err(e) = consistency::check(&db) {
                report.fail(format!("{approach}: {e:#}"));
            }
        }
    }
    add_ratios(&mut report, &args.workers);
    Ok(report)
}

fn add(report: &mut Report, approach: &str, stats: &Stats) {
    let per_second = |n: u64| n as f64 / stats.seconds;
    report.add(approach, "all", "throughput", per_second(stats.transactions()), "1/s");
    if stats.cpu_seconds > 0.0 {
        let us = stats.cpu_seconds * 1e6 / stats.transactions().max(1) as f64;
        report.add(approach, "all", "worker's processor time", us, "µs");
    }
    for kind in KINDS {
        let k = &stats.kinds[kind as usize];
        let name = kind.name();
        if kind == Kind::NewOrder {
            report.add(approach, name, "throughput", per_second(k.latency.count()), "1/s");
        }
        report.add(approach, name, "p50", k.latency.quantile_us(0.5), "µs");
        report.add(approach, name, "p99", k.latency.quantile_us(0.99), "µs");
    }
    let conflicts: u64 = stats.kinds.iter().map(|k| k.conflicts).sum();
    report.add(approach, "all", "aborts by conflict", per_second(conflicts), "1/s");
    let rollbacks = stats.kinds[Kind::NewOrder as usize].rollbacks;
    report.add(approach, "NewOrder", "rollbacks asked for", per_second(rollbacks), "1/s");
    if stats.durable.count() > 0 {
        report.add(approach, "all", "durable p50", stats.durable.quantile_us(0.5), "µs");
        report.add(approach, "all", "durable p99", stats.durable.quantile_us(0.99), "µs");
        let bytes = stats.log_bytes as f64 / stats.transactions().max(1) as f64;
        report.add(approach, "all", "log per transaction", bytes, "B");
    }
}

/// Where the time goes: microseconds and calls of a transaction by kind of operation.
fn add_profile(report: &mut Report, approach: &str, stats: &Stats) {
    for kind in KINDS {
        let k = &stats.kinds[kind as usize];
        let runs = (k.latency.count() + k.conflicts).max(1) as f64;
        let name = kind.name();
        report.add(approach, name, "mean", k.latency.mean_us(), "µs");
        for op in OPS.into_iter().filter(|op| k.ops.calls(*op) > 0) {
            report.add(approach, name, &format!("{op:?} calls"), k.ops.calls(op) as f64 / runs, "");
            report.add(approach, name, &format!("{op:?} time"), k.ops.us(op) / runs, "µs");
        }
        let outside = k.latency.mean_us() - k.ops.all_us() / runs;
        report.add(approach, name, "outside the engine", outside.max(0.0), "µs");
        for (what, rows) in [
            ("rows scanned", k.ops.rows_scanned),
            ("rows inserted", k.ops.rows_inserted),
            ("rows written", k.ops.rows_written),
        ] {
            if rows > 0 {
                report.add(approach, name, what, rows as f64 / runs, "");
            }
        }
    }
}

fn add_ratios(report: &mut Report, workers: &[u16]) {
    for &n in workers {
        let s = if n == 1 { "" } else { "s" };
        let base = format!("engine, no log, {n} worker{s}");
        for (name, ..) in &APPROACHES[1..] {
            let other = format!("{name}, {n} worker{s}");
            report.add_ratio(&other, &base, "all", "throughput");
        }
    }
    for (name, ..) in APPROACHES {
        let (one, two) = (format!("{name}, 1 worker"), format!("{name}, 2 workers"));
        report.add_ratio(&two, &one, "all", "throughput");
        if let Some(tps) = report.value(&one, "all", "throughput") {
            let over = format!("{one} / target");
            report.add(&over, "all", "throughput", tps / TARGET_PER_SECOND, "x");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::schema::TableName;
    use froglet_engine::{RowWrite, Value};

    fn toy(access: Access, durability: Durability, workers: u16) -> Tpcc {
        let dir = std::env::temp_dir();
        let db = Tpcc::create(Scale::small(2), access, durability, &dir).unwrap();
        load::load(&db).unwrap();
        consistency::check(&db).expect("the population is consistent");
        let how = Run {
            workers,
            warm_up: Duration::from_millis(20),
            measure: Duration::from_millis(500),
            profile: false,
            logged: durability != Durability::Off,
        };
        let stats = driver::run(&db, how).unwrap();
        assert!(stats.kinds.iter().all(|k| k.latency.count() > 0), "every type has run");
        assert_eq!(durability != Durability::Off, stats.durable.count() > 0);
        let lines = consistency::check(&db).expect("and stays so");
        assert!(lines > 2 * 10 * 30 * 5);
        db
    }

    #[test]
    fn two_workers_leave_a_consistent_database() {
        toy(Access::Engine, Durability::Off, 2);
    }

    #[test]
    fn so_does_one_with_a_log_and_one_through_the_contract() {
        toy(Access::Engine, Durability::Disk, 1);
        toy(Access::Contract, Durability::Off, 1);
    }

    #[test]
    fn an_inconsistent_database_is_found_out() {
        let db = toy(Access::Engine, Durability::Off, 1);
        let mut desk = db::Desk::default();
        let mut tx = db.begin(true, &mut desk);
        let key = [db::int(1), db::int(3)];
        let rid = tx.get(schema::Index::District, &key, &[]).unwrap();
        let write = RowWrite::Update {
            rid,
            columns: &[schema::district::D_YTD],
            values: &[Value::Decimal(1)],
        };
        tx.write(TableName::District, profile::Op::Update, &[write]).unwrap();
        tx.commit().unwrap();
        let error = consistency::check(&db).unwrap_err().to_string();
        assert!(error.contains("TPC-C condition"), "{error}");
    }
}
