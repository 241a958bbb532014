//! Pictures of what was measured: lines over a quantity, from the rows of a report, into the directory of `--figures`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::report::Report;
use crate::tpccd::chart::{Chart, Line};
use crate::tpccd::draw;

/// What a picture says.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// In large letters.
    pub title: &'a str,
    /// Of the axis at the bottom.
    pub x_label: &'a str,
    /// Of the other, which is logarithmic.
    pub y_label: &'a str,
}

/// Points for a picture: of each approach the metric over the operations' numbers, in the report's order.
pub fn lines(report: &Report, approaches: &[&str], metric: &str, x: &[(String, f64)]) -> Vec<Line> {
    let point = |approach: &str, (operation, x): &(String, f64)| {
        let y = report.value(approach, operation, metric).filter(|y| *y > 0.0);
        y.map(|y| (*x, y))
    };
    let line = |approach: &&str| {
        let points = x.iter().filter_map(|x| point(approach, x)).collect();
        ((*approach).to_owned(), points)
    };
    approaches.iter().map(line).filter(|(_, points): &Line| !points.is_empty()).collect()
}

/// Draws lines over a quantity, if pictures are wanted and there is something to draw.
pub fn draw(
    dir: Option<&Path>,
    file: &str,
    words: Words<'_>,
    lines: Vec<Line>,
    is_linear: bool,
) -> Result<()> {
    let Some(dir) = dir.filter(|_| !lines.is_empty()) else { return Ok(()) };
    let chart = Chart {
        title: words.title.to_owned(),
        subtitle: crate::machine::describe(),
        x_label: words.x_label.to_owned(),
        y_label: words.y_label.to_owned(),
        lines,
        marks: true,
        is_linear,
    };
    draw::write(dir, file, &chart.svg())
}

/// Writes the report beside its pictures, if they are wanted: `NAME.json` and `NAME.txt`.
pub fn write(dir: Option<&Path>, name: &str, report: &Report) -> Result<()> {
    let Some(dir) = dir else { return Ok(()) };
    fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
    report.write(&dir.join(format!("{name}.json")))?;
    fs::write(dir.join(format!("{name}.txt")), report.text())?;
    Ok(())
}
