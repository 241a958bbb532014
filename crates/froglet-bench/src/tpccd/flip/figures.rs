//! The numbers of one run, and what the approaches are to each other.
//!
//! "From the flip on" are the transactions that were under way at some time in the window, which
//! begins with the change; of an approach that migrates first, most of them see the old schema.

use std::time::Duration;

use super::approach::Approach;
use super::run::Outcome;
use crate::report::Report;

/// A window in which every approach but one that stops must do what it is offered.
pub const SECOND: Duration = Duration::from_secs(1);

/// What is compared with NoDDL's.
const OVER_NONE: [&str; 2] = [TRANSACTIONS, P99];
pub const TRANSACTIONS: &str = "transactions in the window";
pub const P99: &str = "p99 from the flip on";
pub const LEAST: &str = "least in a second / offered";
pub const FIRST_ANSWER: &str = "COMMIT to first answer";
pub const BEST_OTHER: &str = "Lazy / best other";

/// Adds a run's numbers. `offered` is the rate of an open loop, in transactions a second.
pub fn add(report: &mut Report, who: &str, name: &str, outcome: &Outcome, offered: Option<f64>) {
    let Outcome { recording, before, window, change, .. } = outcome;
    let mut add = |metric: &str, value, unit| report.add(who, name, metric, value, unit);
    let changes = outcome.commit.is_some_and(|commit| !commit.is_zero());
    if changes {
        add("change, BEGIN to COMMIT", ms(change.length()), "ms");
        add("COMMIT", ms(outcome.commit.unwrap_or_default()), "ms");
    } else if !outcome.committed {
        add("given up after", ms(change.length()), "ms");
    }
    if let Some(first) = outcome.first_answer {
        add(FIRST_ANSWER, ms(first), "ms");
    }
    if let Some(ended) = outcome.ended {
        let after = ended.saturating_sub(change.start);
        add("migration ended after", after.as_secs_f64(), "s");
        add("migration ended in the window", f64::from(u8::from(ended <= window.end)), "");
        add("rows migrated on access", outcome.on_access as f64, "");
        add("rows migrated in the background", outcome.in_background as f64, "");
    }
    let throughput = recording.per_second(*window);
    add("throughput before", recording.per_second(*before), "1/s");
    add("throughput in the window", throughput, "1/s");
    add(TRANSACTIONS, (throughput * window.length().as_secs_f64()).round(), "txns");
    let least = recording.windows(*window, SECOND).into_iter().reduce(f64::min);
    if let Some(least) = least {
        add("least in a second", least, "1/s");
    }
    if let Some(per_second) = offered {
        add("offered", per_second, "1/s");
        add("wanted and not begun", outcome.unserved as f64, "");
        if let Some(least) = least {
            add(LEAST, least / per_second, "x");
        }
    }
    let latency = recording.latency_during(*window);
    add("p50 from the flip on", latency.quantile_us(0.5) / 1000.0, "ms");
    add(P99, latency.quantile_us(0.99) / 1000.0, "ms");
    add("max from the flip on", latency.max_us() / 1000.0, "ms");
    add("longest time at zero", ms(recording.longest_gap(*window)), "ms");
    add("retries", outcome.retries.values().sum::<u64>() as f64, "");
    for (state, count) in &outcome.retries {
        add(&format!("retries, {state}"), *count as f64, "");
    }
    let all = super::super::recording::Span { start: before.start, end: window.end };
    let failures = recording.failures(all);
    add("failed transactions", failures.values().sum::<u64>() as f64, "");
    for (state, count) in failures {
        add(&format!("failed with {state}"), count as f64, "");
    }
    add("rows wrong", outcome.wrong.iter().map(|(_, wrong)| *wrong as f64).sum(), "");
}

/// Adds each approach over NoDDL, and Lazy's work over the most that one has done that is not lazy.
pub fn add_ratios(report: &mut Report, name: &str, approaches: &[Approach]) {
    let lazy = Approach::Lazy.name();
    let others = || approaches.iter().filter(|a| **a != Approach::NoDdl);
    for metric in OVER_NONE {
        others().for_each(|a| report.add_ratio(a.name(), Approach::NoDdl.name(), name, metric));
    }
    let best = others()
        .filter(|a| ![Approach::Lazy, Approach::Hybrid].contains(a))
        .filter_map(|a| report.value(a.name(), name, TRANSACTIONS))
        .reduce(f64::max);
    if let (Some(best), Some(own)) = (best, report.value(lazy, name, TRANSACTIONS))
        && best > 0.0
    {
        report.add(BEST_OTHER, name, TRANSACTIONS, own / best, "x");
    }
}

pub fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1000.0
}

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeMap;

    use super::super::super::recording::{Recording, Span, Transaction};
    use super::*;

    /// A commit every 10 ms for three seconds, of which one is left out.
    pub fn outcome(gap: bool) -> Outcome {
        let ms = Duration::from_millis;
        let commit = |n: u64| Transaction {
            client: 0,
            begun: ms(n * 10),
            ended: ms(n * 10 + 5),
            failure: None,
        };
        let span = |start, end| Span { start: ms(start), end: ms(end) };
        let kept = |n: &u64| !gap || !(150..200).contains(n);
        Outcome {
            recording: Recording::new((0..300).filter(kept).map(commit).collect()),
            before: span(0, 1000),
            change: span(1000, 1005),
            window: span(1000, 3000),
            committed: true,
            commit: Some(ms(2)),
            first_answer: Some(ms(4)),
            ended: Some(ms(2000)),
            on_access: 7,
            in_background: 3,
            retries: BTreeMap::from([("42P01".to_owned(), 2)]),
            unserved: 0,
            wrong: vec![("a table", 0)],
        }
    }

    #[test]
    fn the_worst_second_counts_and_the_best_other_approach() {
        let mut report = Report::new("figure 4.3");
        let approaches = [Approach::NoDdl, Approach::Tesseract, Approach::Lazy];
        for approach in approaches {
            let outcome = outcome(approach == Approach::Tesseract);
            add(&mut report, approach.name(), "SplitTable", &outcome, Some(100.0));
        }
        add_ratios(&mut report, "SplitTable", &approaches);
        let value = |who, metric| report.value(who, "SplitTable", metric);
        assert_eq!(value("Lazy", LEAST), Some(1.0));
        assert_eq!(value("Tesseract", LEAST), Some(0.5));
        assert_eq!(value("Lazy", "migration ended after"), Some(1.0));
        assert_eq!(value("Lazy", "retries, 42P01"), Some(2.0));
        assert_eq!(value(BEST_OTHER, TRANSACTIONS), Some(200.0 / 150.0));
        assert_eq!(value("Tesseract / NoDDL", TRANSACTIONS), Some(0.75));
    }
}
