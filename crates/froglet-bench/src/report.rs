//! The one shape of every benchmark's results: a table for people, JSON for everything else.
//!
//! ```text
//!   {"figure": …, "machine": …, "commit": …,
//!    "rows": [{"approach": …, "operation": …, "metric": …, "value": 1.0, "unit": …}, …]}
//! ```

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::machine;

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// Who was measured: a system, a mode, or `A / B` for a ratio.
    pub approach: String,
    /// Doing what.
    pub operation: String,
    /// What was measured.
    pub metric: String,
    /// How much. Never NaN or infinite.
    pub value: f64,
    /// Of what; `x` for ratios.
    pub unit: String,
}

/// Everything that a benchmark has found out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Which figure or target.
    pub figure: String,
    /// Processor, cores, memory, kernel.
    pub machine: String,
    /// The commit of the source tree, or `unknown`.
    pub commit: String,
    /// The numbers, in the order in which they were found.
    pub rows: Vec<Measure>,
    /// What is printed below the table; its figures are rows, too.
    #[serde(skip)]
    pub summary: String,
    /// Answers that were wrong: the process exits with an error.
    #[serde(skip)]
    failures: Vec<String>,
}

impl Report {
    /// An empty report of a figure, on this machine.
    pub fn new(figure: &str) -> Report {
        Report {
            figure: figure.to_owned(),
            machine: machine::describe(),
            commit: machine::commit(),
            rows: Vec::new(),
            summary: String::new(),
            failures: Vec::new(),
        }
    }

    /// One of the same figure and machine, with nothing in it.
    pub fn empty(&self) -> Report {
        Report { rows: Vec::new(), summary: String::new(), failures: Vec::new(), ..self.clone() }
    }

    /// Adds a number.
    pub fn add(&mut self, approach: &str, operation: &str, metric: &str, value: f64, unit: &str) {
        debug_assert!(value.is_finite(), "{approach} {operation} {metric} is {value}");
        let value = if value.is_finite() { value } else { 0.0 };
        self.rows.push(Measure {
            approach: approach.to_owned(),
            operation: operation.to_owned(),
            metric: metric.to_owned(),
            value,
            unit: unit.to_owned(),
        });
    }

    /// The number measured for an approach, an operation and a metric.
    pub fn value(&self, approach: &str, operation: &str, metric: &str) -> Option<f64> {
        let same = |m: &&Measure| {
            (&*m.approach, &*m.operation, &*m.metric) == (approach, operation, metric)
        };
        self.rows.iter().find(same).map(|m| m.value)
    }

    /// Adds the ratio of two approaches' numbers, if both are there.
    pub fn add_ratio(&mut self, over: &str, under: &str, operation: &str, metric: &str) {
        let over_value = self.value(over, operation, metric);
        let under_value = self.value(under, operation, metric).filter(|v| *v != 0.0);
        if let (Some(a), Some(b)) = (over_value, under_value) {
            self.add(&format!("{over} / {under}"), operation, metric, a / b, "x");
        }
    }

    /// Records a wrong answer.
    pub fn fail(&mut self, what: impl Into<String>) {
        let what = what.into();
        eprintln!("WRONG: {what}");
        self.failures.push(what);
    }

    /// An error if an answer was wrong.
    pub fn verdict(&self) -> Result<()> {
        if self.failures.is_empty() {
            return Ok(());
        }
        bail!("{}: {} wrong: {}", self.figure, self.failures.len(), self.failures.join("; "));
    }

    /// Prints the table and the summary.
    pub fn print(&self) {
        print!("\n{}", self.text());
    }

    /// Where and what was measured, the table and the summary.
    pub fn text(&self) -> String {
        let head = format!("{}\n{} · commit {}\n", self.figure, self.machine, self.commit);
        let gap = if self.summary.is_empty() { "" } else { "\n" };
        format!("{head}\n{}{gap}{}", self.table(), self.summary)
    }

    /// The table: one line per number, columns aligned, a repeated approach left blank.
    pub fn table(&self) -> String {
        let wide = |head: &str, field: fn(&Measure) -> &str| {
            let longest = self.rows.iter().map(|m| field(m).chars().count()).max().unwrap_or(0);
            longest.max(head.len())
        };
        let (a, o, m) = (
            wide("approach", |m| &m.approach),
            wide("operation", |m| &m.operation),
            wide("metric", |m| &m.metric),
        );
        let mut out = format!(
            "{:a$}  {:o$}  {:m$}  {:>14}  unit\n",
            "approach", "operation", "metric", "value"
        );
        let mut last = "";
        for row in &self.rows {
            let approach = if row.approach == last { "" } else { &row.approach };
            last = &row.approach;
            let value = number(row.value);
            out += &format!(
                "{approach:a$}  {:o$}  {:m$}  {value:>14}  {}\n",
                row.operation, row.metric, row.unit
            );
        }
        out
    }

    /// Writes the JSON.
    pub fn write(&self, file: &Path) -> Result<()> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        fs::write(file, json)?;
        Ok(())
    }
}

/// Three or more digits that mean something, thousands apart.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == v.trunc() => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, rest) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        let left = whole.len() - i;
        if i > 0 && left % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_readable() {
        let shown: Vec<_> =
            [0.0, 0.1234, 1.5, 12.34, 999.6, 1234567.8, -1234.0, 2.0].map(number).into();
        assert_eq!(shown, ["0", "0.123", "1.50", "12.3", "1,000", "1,234,568", "-1,234", "2"]);
    }

    #[test]
    fn the_json_has_exactly_the_agreed_fields_and_ratios_are_rows() {
        let mut report = Report::new("figure 8");
        report.add("froglet", "NewOrder", "throughput", 30.0, "1/s");
        report.add("postgres", "NewOrder", "throughput", 20.0, "1/s");
        report.add_ratio("froglet", "postgres", "NewOrder", "throughput");
        report.add_ratio("froglet", "nobody", "NewOrder", "throughput");
        let json: serde_json::Value = serde_json::to_value(&report).unwrap();
        let keys = |v: &serde_json::Value| -> Vec<String> {
            v.as_object().unwrap().keys().cloned().collect()
        };
        let mut top = keys(&json);
        top.sort();
        assert_eq!(top, ["commit", "figure", "machine", "rows"]);
        let mut row = keys(&json["rows"][0]);
        row.sort();
        assert_eq!(row, ["approach", "metric", "operation", "unit", "value"]);
        assert_eq!(report.rows.len(), 3);
        assert_eq!(report.rows[2].value, 1.5);
        assert_eq!(report.table().lines().count(), 4);
    }

    #[test]
    fn a_wrong_answer_fails_the_benchmark() {
        let mut report = Report::new("figure 0");
        assert!(report.verdict().is_ok());
        report.fail("W_YTD of warehouse 1 is 3, its districts have 4");
        assert!(report.verdict().is_err());
    }
}
