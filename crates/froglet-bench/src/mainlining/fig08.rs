//! Figure 8: TPC-C while blocks are frozen.
//!
//! The paper runs 1 to 20 workers with transformation off, with gathering, and with dictionaries, blocks being
//! cold after 10 ms, for the tables ORDER, ORDER_LINE, HISTORY and ITEM only. It costs at most 10 %, and
//! nearly every block of these tables is frozen at the end.
//!
//! Ours is off, on with the paper's 10 ms, and on as in the server (5 s), for all tables: who is written to soon
//! again is left alone for longer (`froglet-memory`'s `transform`). With dictionaries equal strings of a block are
//! kept once; the paper's have codes, too. Each variant of each round has a
//! database of its own. One thread freezes beside the workers; compaction is not part of it, because a stored procedure
//! deletes from NEW_ORDER only. With as many workers as cores the freezer takes its time from them.

use std::time::Duration;

use anyhow::Result;
use froglet_engine::BlockCounts;

use super::Bench;
use crate::limits::{self, Bound};
use crate::progress;
use crate::report::Report;
use crate::stats::range;
use crate::store::{Background, Dictionary, Durability, Store};
use crate::tpcc::consistency;
use crate::tpcc::db::{Access, Tpcc};
use crate::tpcc::driver::{self, Run, Stats};
use crate::tpcc::load;
use crate::tpcc::schema::{TABLES, TableName};
use crate::tpccd::rounds::rotated;

const OFF: &str = "freezing off";
pub const AGGRESSIVE: Duration = Duration::from_millis(10);
/// When blocks are frozen, and how; the second is what the server does.
const WAYS: [(&str, Option<Duration>, Dictionary); 4] = [
    (OFF, None, Dictionary::Off),
    ("freezing after 5 s", Some(Duration::from_secs(5)), Dictionary::Auto),
    ("gathering after 10 ms", Some(AGGRESSIVE), Dictionary::Off),
    ("dictionaries after 10 ms", Some(AGGRESSIVE), Dictionary::On),
];
/// The tables that generate cold data.
pub const COLD: [TableName; 4] =
    [TableName::Order, TableName::OrderLine, TableName::History, TableName::Item];

pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    for &workers in &bench.args.workers {
        let s = if workers == 1 { "" } else { "s" };
        let operation = format!("8: TPC-C, {workers} worker{s}");
        let mut ratios: [Vec<f64>; WAYS.len()] = Default::default();
        bench.in_rounds(&operation, report, |round, figures| {
            for (way, freeze_after, dictionary) in rotated(&WAYS, round) {
                progress::phase(way);
                let background = Background { collects: true, freeze_after, dictionary };
                measure(bench, workers, (way, background), &operation, figures)?;
            }
            for (at, (way, ..)) in WAYS.iter().enumerate().skip(1) {
                for metric in ["throughput", "worker's processor time"] {
                    figures.add_ratio(way, OFF, &operation, metric);
                }
                ratios[at].extend(figures.value(&over_off(way), &operation, "throughput"));
            }
            Ok(())
        })?;
        for (at, (way, ..)) in WAYS.iter().enumerate().skip(1) {
            // Rounds further apart than the limit say that the machine was not quiet enough for it.
            let apart_percent = range(&ratios[at]) * 100.0;
            let metric = "throughput, range of the rounds";
            report.add(&over_off(way), &operation, metric, apart_percent, "%");
            let ratio = report.value(&over_off(way), &operation, "throughput");
            let what = format!("OLTP cost of {way} ({workers} worker{s})");
            let cost_percent = (1.0 - ratio.unwrap_or_default()) * 100.0;
            limits::add(report, &what, cost_percent, Bound::AtMost(5.0), "%");
        }
    }
    Ok(())
}

fn over_off(way: &str) -> String {
    format!("{way} / {OFF}")
}

/// A loaded database that freezes in a way.
pub fn database(bench: &Bench<'_>, workers: u16, background: Background) -> Result<Tpcc> {
    let store = Store::open_with(Durability::Off, &bench.args.dir, background)?;
    let db = Tpcc::create_in(store, bench.scale(workers), Access::Engine)?;
    load::load(&db)?;
    Ok(db)
}

/// What freezes blocks as the server does, after so long.
pub fn frozen_after(after: Duration) -> Background {
    Background { freeze_after: Some(after), ..Background::default() }
}

/// How the workers run.
pub fn how(bench: &Bench<'_>, workers: u16) -> Run {
    Run {
        workers,
        warm_up: bench.measure.div_f64(5.0).min(Duration::from_secs(2)),
        measure: bench.measure,
        profile: false,
        logged: false,
    }
}

fn measure(
    bench: &Bench<'_>,
    workers: u16,
    (way, background): (&str, Background),
    operation: &str,
    figures: &mut Report,
) -> Result<()> {
    let db = database(bench, workers, background)?;
    let stats = driver::run(&db, how(bench, workers))?;
    let states = TABLES.map(|table| (table, db.engine().block_counts(table.space())));
    add_stats(figures, way, operation, &stats);
    for (table, counts) in &states {
        for (state, blocks) in by_state(counts) {
            let metric = format!("{state} blocks at the end");
            let of_table = format!("{operation}, {table:?}");
            figures.add(way, &of_table, &metric, blocks as f64, "blocks");
        }
    }
    let cold = states.iter().filter(|(table, _)| COLD.contains(table)).map(|(_, counts)| counts);
    figures.add(way, operation, "frozen of the cold tables", frozen_percent(cold), "%");
    if let Err(error) = consistency::check(&db) {
        figures.fail(format!("{operation}, {way}: {error:#}"));
    }
    Ok(())
}

fn add_stats(figures: &mut Report, way: &str, operation: &str, stats: &Stats) {
    let transactions = stats.transactions().max(1) as f64;
    figures.add(way, operation, "throughput", transactions / stats.seconds, "1/s");
    let us = stats.cpu_seconds * 1e6 / transactions;
    figures.add(way, operation, "worker's processor time", us, "µs");
    let conflicts: u64 = stats.kinds.iter().map(|kind| kind.conflicts).sum();
    let percent = conflicts as f64 / (transactions + conflicts as f64) * 100.0;
    figures.add(way, operation, "aborts by conflict", percent, "%");
}

fn by_state(counts: &BlockCounts) -> [(&'static str, u64); 3] {
    [("hot", counts.hot), ("cooling", counts.cooling), ("frozen", counts.frozen)]
}

/// What part of all blocks is frozen.
fn frozen_percent<'a>(counts: impl Iterator<Item = &'a BlockCounts>) -> f64 {
    let (frozen, all) = counts
        .fold((0, 0), |(frozen, all), c| (frozen + c.frozen, all + c.hot + c.cooling + c.frozen));
    frozen as f64 / all.max(1) as f64 * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_is_frozen_is_one_of_blocks_and_not_of_tables() {
        let counts =
            |hot, cooling, frozen| BlockCounts { hot, cooling, frozen, ..BlockCounts::default() };
        let tables = [counts(1, 0, 0), counts(0, 1, 6)];
        assert_eq!(frozen_percent(tables.iter()), 75.0);
        assert_eq!(frozen_percent([].iter()), 0.0);
    }
}
