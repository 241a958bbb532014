//! Several rounds of the same figures in one: medians, and how far apart the rounds were.

use anyhow::Result;

use crate::progress;
use crate::report::{Measure, Report};
use crate::stats::{median, range};

/// Figures whose range over the rounds is told.
const RANGES: [&str; 6] = [
    "throughput",
    "migration",
    "throughput during",
    "p99 during",
    "longest time at zero during",
    "longest stall of a client during",
];

/// Each figure's median, in the order in which they came; of counts, which have no unit, the
/// largest, so that one bad round is not overlooked.
pub fn medians(rounds: &[Vec<Measure>]) -> Vec<Measure> {
    let mut figures: Vec<(&Measure, Vec<f64>)> = Vec::new();
    for measure in rounds.iter().flatten() {
        match figures.iter_mut().find(|(known, _)| is_same(known, measure)) {
            Some((_, values)) => values.push(measure.value),
            None => figures.push((measure, vec![measure.value])),
        }
    }
    let mut merged = Vec::new();
    for (measure, values) in figures {
        let largest = values.iter().copied().reduce(f64::max).unwrap_or_default();
        let value = if measure.unit.is_empty() { largest } else { median(&values) };
        merged.push(Measure { value, ..measure.clone() });
        let is_ratio = measure.unit == "x";
        if values.len() > 1 && !is_ratio && RANGES.contains(&&*measure.metric) && value > 0.0 {
            let metric = format!("{}, range of the rounds", measure.metric);
            let percent = range(&values) / value * 100.0;
            merged.push(Measure {
                metric,
                value: percent,
                unit: "%".to_owned(),
                ..measure.clone()
            });
        }
    }
    merged
}

/// Measures in rounds, of which the medians count. `measured` is given the number of the round, and adds the same rows
/// each time.
pub fn run(
    rounds: u16,
    what: &str,
    report: &mut Report,
    mut measured: impl FnMut(usize, &mut Report) -> Result<()>,
) -> Result<()> {
    let mut figures: Vec<Vec<Measure>> = Vec::new();
    for round in 0..usize::from(rounds) {
        progress::phase(&format!("{what}, round {} of {rounds}", round + 1));
        let mut of_round = report.empty();
        let measured = measured(round, &mut of_round);
        of_round.verdict()?;
        measured?;
        figures.push(of_round.rows);
    }
    report.rows.extend(medians(&figures));
    Ok(())
}

/// The approaches of a round: the first of the last round comes last in the next.
pub fn rotated<T: Copy>(approaches: &[T], round: usize) -> Vec<T> {
    let mut order = approaches.to_vec();
    order.rotate_left(round % approaches.len().max(1));
    order
}

fn is_same(a: &Measure, b: &Measure) -> bool {
    (&a.approach, &a.operation, &a.metric) == (&b.approach, &b.operation, &b.metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(metric: &str, value: f64, unit: &str) -> Measure {
        let (approach, operation) = ("Tesseract".to_owned(), "AddColumn".to_owned());
        Measure { approach, operation, metric: metric.to_owned(), value, unit: unit.to_owned() }
    }

    #[test]
    fn rounds_become_medians_with_their_range_and_counts_their_largest() {
        let round = |ms, failed| {
            vec![measure("migration", ms, "ms"), measure("failed transactions", failed, "")]
        };
        let merged = medians(&[round(100.0, 0.0), round(150.0, 2.0), round(125.0, 0.0)]);
        let expected = [
            measure("migration", 125.0, "ms"),
            measure("migration, range of the rounds", 40.0, "%"),
            measure("failed transactions", 2.0, ""),
        ];
        assert_eq!(merged, expected);
        assert_eq!(medians(&[round(100.0, 0.0)]).len(), 2, "one round has no range");
    }

    #[test]
    fn everybody_is_first_once() {
        assert_eq!(rotated(&[1, 2, 3], 0), [1, 2, 3]);
        assert_eq!(rotated(&[1, 2, 3], 2), [3, 1, 2]);
        assert_eq!(rotated(&[1, 2, 3], 3), [1, 2, 3]);
    }
}
