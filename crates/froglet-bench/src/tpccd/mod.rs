//! TPC-CD: TPC-C over SQL while one schema change runs, and the paper's microbenchmark the same way
//! (Tesseract, paper 000, section 6, figures 4 and 7 to 10).
//!
//! ```text
//!   workload ── transactions   TPC-C's mix, prepared statements     schema, load: its tables
//!            └─ micro          the microbenchmark                   money: numeric on the wire
//!   operations                 the schema changes
//!   experiment ─▶ clients ─▶ recording      one run, and a short one to verify
//!   plot                       throughput over time, as SVG
//! ```
//!
//! Three approaches, one run each for every change, one after the other on this machine, each on a
//! `froglet serve` of its own with the same population: **Tesseract** is the change as anybody makes
//! it. **NoDDL** is the same time without it. **Blocking** is the same change while a lock keeps
//! everybody out; the lock is a gate in the benchmark's clients, because the server has none that
//! readers would respect, so it costs the clients less than a lock manager's would. Clients pay for
//! the gate under each approach.
//!
//! Differences from the paper: two cores instead of 40, so clients, server and migration share
//! what there is; SQL by TCP instead of stored procedures; ADD COLUMN is computed (a constant
//! default takes no migration); no lazy approaches. `synchronous_commit` is off, as the paper's
//! commits are pipelined. Latencies begin before the gate. What is verified (every Tesseract run,
//! see [`experiment`]) fails the benchmark, how fast it was does not.

pub mod clients;
pub mod experiment;
mod load;
mod micro;
mod money;
pub mod operations;
mod plot;
pub mod recording;
mod schema;
mod transactions;
pub mod workload;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use self::experiment::{Approach, Experiment, Outcome};
use self::operations::{Load, Operation};
use self::plot::{Plot, Series};
use self::recording::Span;
use self::workload::Workload;
use crate::report::Report;
use crate::tpcc::db::Scale;
use crate::{Args, progress};

/// For `froglet bench list`.
pub const ABOUT: &str = "TPC-C over SQL while one schema change runs: online, blocking, none";

/// The width of a point in time of a plot.
const WINDOW: Duration = Duration::from_millis(100);

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("TPC-CD and microbenchmark (Tesseract, figures 4, 7 to 10)");
    let clients = args.workers.last().copied().unwrap_or(2);
    let calm = Duration::from_secs_f64(args.seconds.unwrap_or(5.0));
    let warm_up = calm.div_f64(2.5).min(Duration::from_secs(2));
    for (load, operation) in operations::all() {
        let name = load.label(operation);
        if !args.wants(&name) {
            continue;
        }
        let workload = workload(load, args, clients);
        let experiment = Experiment { workload, operation, clients, warm_up, calm };
        let outcomes = outcomes(&experiment, args, &name)?;
        for (approach, outcome) in &outcomes {
            add(&mut report, approach.name(), &name, outcome);
            if let Some(wrong @ 1..) = outcome.wrong {
                report.fail(format!("{name}: {wrong} rows are wrong after the change"));
            }
        }
        add_ratios(&mut report, &name);
        if let Some(dir) = &args.plots {
            let plot = plot(&name, operation, clients, workload, &outcomes);
            write(dir, operation, &name, &plot)?;
        }
    }
    Ok(report)
}

fn workload(load: Load, args: &Args, clients: u16) -> Workload {
    match load {
        Load::Tpcc => {
            let warehouses = i32::from(args.scale.unwrap_or(0).max(clients));
            let scale = if args.small { Scale::small } else { Scale::full };
            Workload::Tpcc(scale(warehouses))
        }
        Load::Micro(reads_percent) => {
            let rows = args.rows.unwrap_or(if args.small { 10_000 } else { 1_000_000 });
            Workload::Micro { rows, reads_percent }
        }
    }
}

/// A run of each approach. The first says how long NoDDL is watched.
fn outcomes(
    experiment: &Experiment<'_>,
    args: &Args,
    name: &str,
) -> Result<Vec<(Approach, Outcome)>> {
    let mut instead = Duration::ZERO;
    let mut outcomes = Vec::new();
    for approach in [Approach::Tesseract, Approach::NoDdl, Approach::Blocking] {
        let phase = format!("{name}: {}", approach.name());
        progress::phase(&phase);
        let outcome = experiment.run(args, approach, instead).context(phase)?;
        if approach == Approach::Tesseract {
            instead = outcome.change.length();
        }
        outcomes.push((approach, outcome));
    }
    Ok(outcomes)
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1000.0
}

fn add(report: &mut Report, approach: &str, name: &str, outcome: &Outcome) {
    let Outcome { recording, counted, change, .. } = outcome;
    let mut add = |metric: &str, value, unit| report.add(approach, name, metric, value, unit);
    // A change of a few milliseconds is over before throughput means anything.
    let during = Span { end: change.end.max(change.start + WINDOW), ..*change };
    if approach != Approach::NoDdl.name() {
        let metric = if outcome.committed { "migration" } else { "given up after" };
        add(metric, ms(change.length()), "ms");
    }
    let before = Span { start: counted.start, end: change.start };
    let after = Span { start: during.end, end: counted.end };
    add("throughput before", recording.per_second(before), "1/s");
    add("throughput during", recording.per_second(during), "1/s");
    add("throughput after", recording.per_second(after), "1/s");
    let within = recording.latency_during(during);
    let outside = recording.latency_outside(during, counted.start);
    for (when, latency) in [("during", within), ("outside", outside)] {
        add(&format!("p50 {when}"), latency.quantile_us(0.5) / 1000.0, "ms");
        add(&format!("p99 {when}"), latency.quantile_us(0.99) / 1000.0, "ms");
        add(&format!("max {when}"), latency.max_us() / 1000.0, "ms");
    }
    add("longest time at zero during", ms(recording.longest_gap(during)), "ms");
    add("longest time at zero before", ms(recording.longest_gap(before)), "ms");
    let failures = recording.failures(*counted);
    add("failed transactions", failures.values().sum::<u64>() as f64, "");
    for (state, count) in failures {
        add(&format!("failed with {state}"), count as f64, "");
    }
    if let Some(wrong) = outcome.wrong {
        add("rows wrong", wrong as f64, "");
    }
}

fn add_ratios(report: &mut Report, name: &str) {
    for approach in [Approach::Tesseract, Approach::Blocking] {
        report.add_ratio(approach.name(), Approach::NoDdl.name(), name, "throughput during");
    }
    report.add_ratio(Approach::Tesseract.name(), Approach::Blocking.name(), name, "migration");
}

fn plot(
    name: &str,
    operation: &Operation,
    clients: u16,
    workload: Workload,
    outcomes: &[(Approach, Outcome)],
) -> Plot {
    let series = |(approach, outcome): &(Approach, Outcome)| {
        // Windows before the change end where it begins.
        let start = outcome.change.start;
        let windows = (start - outcome.counted.start).as_nanos() / WINDOW.as_nanos();
        let before = WINDOW * windows as u32;
        let span = Span { start: start - before, end: outcome.counted.end };
        let middle = |n: usize| (n as f64 + 0.5) * WINDOW.as_secs_f64() - before.as_secs_f64();
        let points = outcome.recording.windows(span, WINDOW).into_iter().enumerate();
        let colour = match approach {
            Approach::NoDdl => "#9a9a9a",
            Approach::Blocking => "#d55e00",
            Approach::Tesseract => "#0072b2",
        };
        Series {
            name: approach.name().to_owned(),
            colour,
            points: points.map(|(n, per_second)| (middle(n), per_second)).collect(),
            change_seconds: (*approach != Approach::NoDdl)
                .then(|| outcome.change.length().as_secs_f64()),
        }
    };
    let mut series: Vec<Series> = outcomes.iter().map(series).collect();
    // Tesseract on top.
    series.rotate_left(1);
    let population = match workload {
        Workload::Tpcc(scale) => format!("TPC-C, {} warehouses", scale.warehouses),
        Workload::Micro { rows, reads_percent } => {
            format!("microbenchmark, {rows} rows, {reads_percent} % reads")
        }
    };
    Plot {
        title: format!("{name} ({})", operation.figure),
        subtitle: format!("{population}, {clients} clients, windows of 100 ms; shaded: the change"),
        series,
    }
}

/// `figure-8-createindex.svg`
fn write(dir: &Path, operation: &Operation, name: &str, plot: &Plot) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    let words: Vec<String> = format!("{} {name}", operation.figure)
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let file = dir.join(words.join("-") + ".svg");
    fs::write(&file, plot.svg()).with_context(|| format!("{} cannot be written", file.display()))
}

#[cfg(test)]
mod tests {
    use super::recording::{Recording, Transaction};
    use super::*;

    fn outcome(wrong: Option<i64>) -> Outcome {
        let ms = Duration::from_millis;
        let commit = |n| Transaction { begun: ms(n), ended: ms(n + 5), failure: None };
        Outcome {
            recording: Recording::new((0..200).map(|n| commit(n * 10)).collect()),
            counted: Span { start: ms(100), end: ms(2000) },
            change: Span { start: ms(750), end: ms(1250) },
            committed: wrong.is_some(),
            wrong,
        }
    }

    #[test]
    fn approaches_are_compared_with_each_other() {
        let mut report = Report::new("figure 0");
        for approach in [Approach::Tesseract, Approach::NoDdl, Approach::Blocking] {
            add(&mut report, approach.name(), "AddColumn", &outcome(Some(0)));
        }
        add_ratios(&mut report, "AddColumn");
        let value = |approach, metric| report.value(approach, "AddColumn", metric);
        assert_eq!(value("Tesseract", "migration"), Some(500.0));
        assert_eq!(value("NoDDL", "migration"), None);
        assert_eq!(value("Tesseract / NoDDL", "throughput during"), Some(1.0));
        assert_eq!(value("Tesseract", "rows wrong"), Some(0.0));
        assert_eq!(value("Blocking", "longest time at zero during"), Some(10.0));
    }

    #[test]
    fn lines_of_a_plot_meet_where_the_change_begins() {
        let outcomes =
            [Approach::Tesseract, Approach::NoDdl, Approach::Blocking].map(|a| (a, outcome(None)));
        let (_, operation) = operations::all().next().unwrap();
        let workload = Workload::Tpcc(Scale::small(2));
        let plot = plot("AddColumn", operation, 2, workload, &outcomes);
        let names: Vec<&str> = plot.series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["NoDDL", "Blocking", "Tesseract"]);
        let first = plot.series[0].points[0];
        assert!((first.0 + 0.55).abs() < 1e-9, "{first:?}");
    }
}
