//! Pictures of what was measured, as files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::WINDOW;
use super::experiment::{Approach, Experiment, Outcome};
use super::plot::{Plot, Series};
use super::recording::Span;
use super::workload::Workload;

/// Throughput over time of every approach.
pub fn plot(name: &str, experiment: &Experiment<'_>, outcomes: &[(Approach, Outcome)]) -> Plot {
    let mut series: Vec<Series> = outcomes.iter().map(|(a, o)| series(*a, o)).collect();
    // Tesseract on top.
    series.sort_by_key(|series| series.name == Approach::Tesseract.name());
    let population = match experiment.workload {
        Workload::Tpcc(scale) => format!("TPC-C, {} warehouses", scale.warehouses),
        Workload::Micro { rows, reads_percent, .. } => {
            format!("microbenchmark, {rows} rows, {reads_percent} % reads")
        }
    };
    let clients = experiment.clients;
    Plot {
        title: format!("{name} ({})", experiment.operation.figure),
        subtitle: format!("{population}, {clients} clients, windows of 100 ms; shaded: the change"),
        series,
    }
}

fn series(approach: Approach, outcome: &Outcome) -> Series {
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
        Approach::Postgres => "#009e73",
        Approach::Tesseract => "#0072b2",
    };
    Series {
        name: approach.name().to_owned(),
        colour,
        points: points.map(|(n, per_second)| (middle(n), per_second)).collect(),
        change_seconds: (approach != Approach::NoDdl)
            .then(|| outcome.change.length().as_secs_f64()),
    }
}

/// Writes a picture, named after its figure and what it shows: `figure-8-createindex.svg`.
pub fn write(dir: &Path, name: &str, svg: &str) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    let file = dir.join(file_name(name) + ".svg");
    fs::write(&file, svg).with_context(|| format!("{} cannot be written", file.display()))
}

/// The words of a name, for a file.
pub fn file_name(name: &str) -> String {
    let words: Vec<String> = name
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::arrivals::Arrivals;
    use super::super::metrics::tests::outcome;
    use super::super::operations;
    use super::*;
    use crate::tpcc::db::Scale;

    #[test]
    fn lines_of_a_plot_meet_where_the_change_begins() {
        let outcomes = [Approach::Tesseract, Approach::NoDdl, Approach::Blocking]
            .map(|a| (a, outcome(None, 0)));
        let experiment = Experiment {
            workload: Workload::Tpcc(Scale::small(2)),
            operation: &operations::tpcc()[0],
            clients: 2,
            arrivals: Arrivals::BackToBack,
            warm_up: Duration::ZERO,
            calm: Duration::ZERO,
            patience: Duration::ZERO,
        };
        let plot = plot("AddColumn", &experiment, &outcomes);
        let names: Vec<&str> = plot.series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["NoDDL", "Blocking", "Tesseract"]);
        let first = plot.series[0].points[0];
        assert!((first.0 + 0.55).abs() < 1e-9, "{first:?}");
    }
}
