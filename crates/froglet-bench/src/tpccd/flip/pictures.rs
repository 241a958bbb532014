//! Each figure's pictures, and the numbers behind them as CSV.
//!
//! ```text
//!   figure-4-3-splittable-saturated.svg     throughput over time, windows of 100 ms
//!   figure-4-3-splittable-saturated.csv     the same, and windows of a second
//!   figure-4-4-splittable-saturated.svg     latency from the flip on: the part that took longer
//! ```

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::super::chart::Chart;
use super::super::draw;
use super::super::plot::{Plot, Series};
use super::super::recording::Span;
use super::figures::SECOND;
use super::run::Outcome;
use crate::tpccd::WINDOW;

/// Parts of the transactions that took longer than what is drawn.
const SLOWER: [f64; 12] = [0.99, 0.9, 0.75, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];

/// One line: its name, its colour, and what it shows.
pub type Line<'a> = (String, &'static str, &'a Outcome);

/// Draws throughput as the first figure and latency as the second.
pub fn draw(dir: &Path, figures: [&str; 2], name: &str, lines: &[Line<'_>]) -> Result<()> {
    let [throughput, latency] = figures;
    let series = |(name, colour, outcome): &Line<'_>| Series {
        name: name.clone(),
        colour,
        points: points(outcome, WINDOW),
        change_seconds: outcome
            .ended
            .map(|ended| ended.min(outcome.window.end).saturating_sub(outcome.window.start))
            .map(|lasted| lasted.as_secs_f64()),
    };
    let plot = Plot {
        title: format!("{name} ({throughput})"),
        subtitle: "throughput in windows of 100 ms; shaded: until all rows are migrated".to_owned(),
        series: lines.iter().map(series).collect(),
    };
    let file = format!("{throughput} {name}");
    draw::write(dir, &file, &plot.svg())?;
    let path = dir.join(draw::file_name(&file) + ".csv");
    fs::write(&path, csv(lines))
        .with_context(|| format!("{} cannot be written", path.display()))?;
    let slower = |(name, _, outcome): &Line<'_>| {
        let latency = outcome.recording.latency_during(outcome.window);
        let at = |part: &f64| (latency.quantile_us(1.0 - part) / 1000.0, *part);
        (name.clone(), SLOWER.iter().map(at).filter(|(ms, _)| *ms > 0.0).collect())
    };
    let chart = Chart {
        title: format!("{name} ({latency})"),
        subtitle: "latency from the flip on".to_owned(),
        x_label: "milliseconds".to_owned(),
        y_label: "part of the transactions that took longer".to_owned(),
        lines: lines.iter().map(slower).collect(),
        marks: false,
        is_linear: false,
    };
    draw::write(dir, &format!("{latency} {name}"), &chart.svg())
}

/// Seconds since the change began, and transactions a second, in windows of `width`.
fn points(outcome: &Outcome, width: Duration) -> Vec<(f64, f64)> {
    let Outcome { before, window, recording, .. } = outcome;
    // Windows before the change end where it begins.
    let whole = (before.length().as_nanos() / width.as_nanos()) as u32;
    let span = Span { start: window.start - width * whole, end: window.end };
    let middle = |n: usize| (n as f64 + 0.5 - f64::from(whole)) * width.as_secs_f64();
    let all = recording.windows(span, width).into_iter().enumerate();
    all.map(|(n, per_second)| (middle(n), per_second)).collect()
}

fn csv(lines: &[Line<'_>]) -> String {
    let mut out = "approach,window_s,middle_s,transactions_per_s\n".to_owned();
    for (name, _, outcome) in lines {
        let name = name.replace(',', "");
        for width in [WINDOW, SECOND] {
            for (at, per_second) in points(outcome, width) {
                let width = width.as_secs_f64();
                writeln!(out, "{name},{width},{at:.2},{per_second:.1}")
                    .expect("a String takes whatever is written");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::outcome;
    use super::*;

    #[test]
    fn a_line_meets_the_change_and_is_in_the_csv_twice() {
        let outcome = outcome(false);
        let lines = [("Lazy, ON CONFLICT".to_owned(), "#000", &outcome)];
        assert!((points(&outcome, WINDOW)[0].0 + 0.95).abs() < 1e-9);
        assert_eq!(points(&outcome, SECOND), [(-0.5, 100.0), (0.5, 100.0), (1.5, 100.0)]);
        assert_eq!(csv(&lines).lines().count(), 1 + 30 + 3);
    }
}
