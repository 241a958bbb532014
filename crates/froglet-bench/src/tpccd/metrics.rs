//! The figures of one round: each approach's own, and one approach's over another's.
//!
//! A change of a few milliseconds is over before throughput means anything, so "during" lasts at
//! least one window. The migration's processor time is the server's in the background during the
//! change, less what NoDDL's takes in as long (see [`processor`](super::processor)); its share is
//! that of all cores during the change. In a closed loop, where clients take what processor time
//! there is, "throughput during, in proportion" is the part of NoDDL's throughput that is left over
//! the part of the machine that the migration leaves: 1 is what a migration with those cores of its
//! own would leave the clients. Where NoDDL does not keep the machine busy the migration takes idle
//! time first, and this flatters; "machine busy during" says so.

use std::time::Duration;

use super::experiment::{Approach, Outcome};
use super::recording::Span;
use super::{WINDOW, processor};
use crate::report::Report;

/// Adds an approach's figures. `offered` is the rate of an open loop, in transactions a second.
pub fn add(
    report: &mut Report,
    approach: Approach,
    name: &str,
    outcome: &Outcome,
    offered: Option<f64>,
) {
    let Outcome { recording, counted, change, .. } = outcome;
    let mut add =
        |metric: &str, value, unit| report.add(approach.name(), name, metric, value, unit);
    let during = during(outcome);
    if approach != Approach::NoDdl {
        let metric = if outcome.committed { "migration" } else { "given up after" };
        add(metric, ms(change.length()), "ms");
    }
    if let Some(per_second) = offered {
        add("offered", per_second, "1/s");
        add("wanted and not begun", outcome.unserved as f64, "");
    }
    let before = Span { start: counted.start, end: change.start };
    let after = Span { start: during.end, end: counted.end };
    let calm = recording.per_second(before);
    let throughput = recording.per_second(during);
    add("throughput before", calm, "1/s");
    add("throughput during", throughput, "1/s");
    add("throughput after", recording.per_second(after), "1/s");
    if calm > 0.0 {
        add("throughput during / before", throughput / calm, "x");
    }
    let within = recording.latency_during(during);
    let outside = recording.latency_outside(during, counted.start);
    for (when, latency) in [("during", within), ("outside", outside)] {
        add(&format!("p50 {when}"), latency.quantile_us(0.5) / 1000.0, "ms");
        add(&format!("p99 {when}"), latency.quantile_us(0.99) / 1000.0, "ms");
        add(&format!("max {when}"), latency.max_us() / 1000.0, "ms");
    }
    add("longest time at zero during", ms(recording.longest_gap(during)), "ms");
    add("longest time at zero before", ms(recording.longest_gap(before)), "ms");
    let stalls = recording.longest_gaps(during);
    add(
        "longest stall of a client during",
        ms(stalls.iter().copied().max().unwrap_or_default()),
        "ms",
    );
    add(
        "every client's stall during, at least",
        ms(stalls.into_iter().min().unwrap_or_default()),
        "ms",
    );
    if let Some(spent) = outcome.spent {
        add("background processor time during", spent.background.as_secs_f64(), "s");
        let busy = processor::share(spent.machine, cores(), change.length());
        add("machine busy during", busy * 100.0, "%");
    }
    let failures = recording.failures(*counted);
    add("failed transactions", failures.values().sum::<u64>() as f64, "");
    for (state, count) in failures {
        add(&format!("failed with {state}"), count as f64, "");
    }
    if let Some(wrong) = outcome.wrong {
        add("rows wrong", wrong as f64, "");
    }
}

/// Adds what the approaches are to each other.
pub fn add_ratios(
    report: &mut Report,
    name: &str,
    outcomes: &[(Approach, Outcome)],
    is_open: bool,
) {
    let (tesseract, none) = (Approach::Tesseract.name(), Approach::NoDdl.name());
    let blocking = Approach::Blocking.name();
    for approach in [tesseract, blocking] {
        report.add_ratio(approach, none, name, "throughput during");
    }
    report.add_ratio(tesseract, none, name, "p99 during");
    report.add_ratio(tesseract, blocking, name, "migration");
    report.add_ratio(
        Approach::Postgres.name(),
        tesseract,
        name,
        "longest stall of a client during",
    );
    let of = |approach| outcomes.iter().find(|(a, _)| *a == approach).map(|(_, outcome)| outcome);
    let Some((online, calm)) = of(Approach::Tesseract).zip(of(Approach::NoDdl)) else { return };
    let Some(time) = migration_time(online, calm) else { return };
    let share = processor::share(time, cores(), during(online).length());
    report.add(tesseract, name, "processor time of the migration", time.as_secs_f64(), "s");
    report.add(tesseract, name, "migration's share of the machine", share * 100.0, "%");
    let over = format!("{tesseract} / {none}");
    if let (false, Some(left)) = (is_open, report.value(&over, name, "throughput during")) {
        report.add(&over, name, "throughput during, in proportion", proportion(left, share), "x");
    }
}

/// The background's processor time less NoDDL's in as long.
fn migration_time(online: &Outcome, calm: &Outcome) -> Option<Duration> {
    let (online_spent, calm_spent) = (online.spent?, calm.spent?);
    let calm_seconds = calm.change.length().as_secs_f64();
    let as_long = if calm_seconds == 0.0 {
        Duration::ZERO
    } else {
        calm_spent.background.mul_f64(online.change.length().as_secs_f64() / calm_seconds)
    };
    Some(online_spent.background.saturating_sub(as_long))
}

/// The throughput that is left over the part of the machine that is left. Of a machine that the
/// migration has for itself nothing is left to compare with: then the throughput as it is.
fn proportion(throughput_left: f64, share: f64) -> f64 {
    if share < 1.0 { throughput_left / (1.0 - share) } else { throughput_left }
}

/// What counts as during the change.
fn during(outcome: &Outcome) -> Span {
    let change = outcome.change;
    Span { end: change.end.max(change.start + WINDOW), ..change }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1000.0
}

#[cfg(test)]
pub mod tests {
    use super::super::processor::Spent;
    use super::super::recording::{Recording, Transaction};
    use super::*;

    /// A commit every 10 ms for two seconds, a change of 500 ms, and so much background.
    pub fn outcome(wrong: Option<i64>, background_ms: u64) -> Outcome {
        let ms = Duration::from_millis;
        let commit = |n: u64| Transaction {
            client: (n % 2) as u16,
            begun: ms(n * 10),
            ended: ms(n * 10 + 5),
            failure: None,
        };
        Outcome {
            recording: Recording::new((0..200).map(commit).collect()),
            counted: Span { start: ms(100), end: ms(2000) },
            change: Span { start: ms(750), end: ms(1250) },
            committed: wrong.is_some(),
            unserved: 3,
            spent: Some(Spent { background: ms(background_ms), machine: ms(500) }),
            wrong,
        }
    }

    fn report(is_open: bool) -> Report {
        let mut report = Report::new("figure 0");
        let approaches =
            [(Approach::Tesseract, 200), (Approach::NoDdl, 50), (Approach::Blocking, 0)];
        let outcomes = approaches.map(|(a, background)| (a, outcome(Some(0), background)));
        for (approach, outcome) in &outcomes {
            add(&mut report, *approach, "AddColumn", outcome, is_open.then_some(100.0));
        }
        add_ratios(&mut report, "AddColumn", &outcomes, is_open);
        report
    }

    #[test]
    fn approaches_are_compared_with_each_other() {
        let report = report(true);
        let value = |approach, metric| report.value(approach, "AddColumn", metric);
        assert_eq!(value("Tesseract", "migration"), Some(500.0));
        assert_eq!(value("NoDDL", "migration"), None);
        assert_eq!(value("Tesseract / NoDDL", "throughput during"), Some(1.0));
        assert_eq!(value("Tesseract / NoDDL", "p99 during"), Some(1.0));
        assert_eq!(value("Tesseract", "throughput during / before"), Some(1.0));
        assert_eq!(value("Tesseract", "rows wrong"), Some(0.0));
        assert_eq!(value("Blocking", "longest time at zero during"), Some(10.0));
        assert_eq!(value("Blocking", "longest stall of a client during"), Some(20.0));
        assert_eq!(value("Tesseract", "wanted and not begun"), Some(3.0));
    }

    #[test]
    fn the_migration_has_what_the_background_takes_beyond_that_of_no_change() {
        let report = report(false);
        let value = |metric| report.value("Tesseract", "AddColumn", metric);
        assert_eq!(value("processor time of the migration"), Some(0.15));
        let over = |metric| report.value("Tesseract / NoDDL", "AddColumn", metric);
        let share = value("migration's share of the machine").unwrap() / 100.0;
        assert!((share - 0.3 / cores() as f64).abs() < 1e-9, "{share}");
        assert_eq!(over("throughput during, in proportion"), Some(1.0 / (1.0 - share)));
    }

    #[test]
    fn half_of_the_machine_leaves_half_of_the_throughput() {
        assert_eq!(proportion(0.5, 0.5), 1.0);
        assert_eq!(proportion(0.45, 0.5), 0.9);
        assert_eq!(proportion(0.2, 1.0), 0.2);
    }
}
