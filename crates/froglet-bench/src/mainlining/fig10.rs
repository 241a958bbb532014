//! Figure 10: what is not frozen yet, over time.
//!
//! The paper looks every 100 ms at the queue of blocks to be compacted and at TPC-C's throughput, with 20
//! workers, for five minutes: the queue stays bounded, and fluctuations of the throughput do not follow it.
//!
//! Ours looks at the blocks of the tables that generate cold data which are not frozen (being written to,
//! waiting, or cooling), because that is what a reader meets. The throughput is that of New-Order: rows that ORDER has
//! more. Frozen after 10 ms, one freezer; as many workers as the last of `--workers`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::Bench;
use super::fig08::{AGGRESSIVE, COLD, database, frozen_after, how};
use crate::figures::Words;
use crate::report::Report;
use crate::stats::{median, range};
use crate::tpcc::db::Tpcc;
use crate::tpcc::driver;
use crate::tpcc::schema::TableName;

const WINDOW: Duration = Duration::from_millis(100);
const APPROACH: &str = "freezing after 10 ms";

/// What there was at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    /// Blocks that are not frozen, and those that are.
    waiting: u64,
    frozen: u64,
    orders: u64,
}

pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let workers = bench.args.workers.last().copied().unwrap_or(1);
    let db = database(bench, workers, frozen_after(AGGRESSIVE))?;
    let stop = AtomicBool::new(false);
    let (outcome, samples) = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&db, &stop));
        let outcome = driver::run(&db, how(bench, workers));
        stop.store(true, Ordering::Relaxed);
        (outcome, watcher.join())
    });
    outcome?;
    let samples = samples.map_err(|_| anyhow!("whoever looks at the blocks has panicked"))?;
    let operation = format!("10: TPC-C, {workers} workers");
    // The first second freezes what was loaded.
    let settled = samples.iter().filter(|s| s.seconds >= 1.0 || bench.args.small);
    let waiting: Vec<f64> = settled.map(|s| s.waiting as f64).collect();
    let most = waiting.iter().copied().fold(0.0, f64::max);
    report.add(APPROACH, &operation, "blocks not frozen, median", median(&waiting), "blocks");
    report.add(APPROACH, &operation, "blocks not frozen, most", most, "blocks");
    let frozen = samples.last().map_or(0.0, |s| s.frozen as f64);
    report.add(APPROACH, &operation, "blocks frozen at the end", frozen, "blocks");
    let rates: Vec<f64> = rates(&samples).into_iter().map(|(_, rate)| rate).collect();
    report.add(APPROACH, &operation, "new orders", median(&rates), "1/s");
    let relative = range(&rates) / median(&rates).max(1.0) * 100.0;
    report.add(APPROACH, &operation, "new orders, range of windows", relative, "%");
    draw(bench, &samples)
}

/// Looks every 100 ms.
fn watch(db: &Tpcc, stop: &AtomicBool) -> Vec<Sample> {
    let begun = Instant::now();
    let mut samples = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut sample = Sample {
            seconds: begun.elapsed().as_secs_f64(),
            waiting: 0,
            frozen: 0,
            orders: db.table(TableName::Order).row_estimate(),
        };
        for table in COLD {
            let counts = db.engine().block_counts(table.space());
            sample.waiting += counts.hot + counts.cooling;
            sample.frozen += counts.frozen;
        }
        samples.push(sample);
        thread::sleep(WINDOW);
    }
    samples
}

/// New orders a second between two looks, and when.
fn rates(samples: &[Sample]) -> Vec<(f64, f64)> {
    let rate = |pair: &[Sample]| {
        let seconds = pair[1].seconds - pair[0].seconds;
        (pair[1].seconds, pair[1].orders.saturating_sub(pair[0].orders) as f64 / seconds)
    };
    samples.windows(2).map(rate).collect()
}

fn draw(bench: &Bench<'_>, samples: &[Sample]) -> Result<()> {
    let title = "Blocks that are not frozen, and new orders, over time";
    let (x_label, y_label) = ("seconds", "blocks; orders a second");
    let words = Words { title, x_label, y_label };
    let waiting = samples.iter().filter(|s| s.waiting > 0).map(|s| (s.seconds, s.waiting as f64));
    let rates = rates(samples).into_iter().filter(|(_, rate)| *rate > 0.0);
    let lines = vec![
        ("blocks not frozen".to_owned(), waiting.collect()),
        ("new orders a second".to_owned(), rates.collect()),
    ];
    bench.draw("figure 10", words, lines, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_came_between_two_looks() {
        let sample = |seconds, orders| Sample { seconds, waiting: 1, frozen: 0, orders };
        let rates = rates(&[sample(0.0, 100), sample(0.5, 150), sample(0.7, 150)]);
        assert_eq!(rates.len(), 2);
        assert_eq!((rates[0], rates[1].1), ((0.5, 100.0), 0.0));
    }
}
