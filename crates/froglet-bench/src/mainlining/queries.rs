//! Queries of the CH-benCHmark over live tables, beside DataFusion and DuckDB over the same as static Arrow (issue 5:
//! frozen tables within 1.1 times of DataFusion).
//!
//! The paper has no such figure. `queries.py` asks: froglet over the PostgreSQL port, when all blocks are frozen
//! and when columns that the queries read are hot; DataFusion and DuckDB in the client's own process, one thread
//! each, which spares them the way over the socket. Those that this Python lacks are left out. All answers must agree.

use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{Bench, files};
use crate::limits::{self, Bound};
use crate::progress;
use crate::report::Report;
use crate::server::Froglet;
use crate::store::temporary;
use crate::tpcc::schema::TableName;

const CLIENT: &str = include_str!("queries.py");
const TABLES: [TableName; 3] = [TableName::Order, TableName::OrderLine, TableName::Item];
const FROZEN: &str = "froglet, frozen";

/// A line that the client prints.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Wrong { wrong: String },
    Asked { system: String, query: String, seconds: f64 },
}

pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let args = bench.args;
    let Some(python) = bench.python(report, "queries") else { return Ok(()) };
    let dir = temporary(&args.dir)?;
    files::write(bench.scale(1), &TABLES, dir.path())?;
    let froglet = Froglet::start(&args.binary()?, &args.dir, &["--freeze-after", "off"])?;
    let mut client = Command::new(python);
    client.args(["-c", CLIENT, "--rounds", &bench.rounds.to_string()]);
    client.arg("--dir").arg(dir.path()).args(["--froglet", &froglet.port().to_string()]);
    progress::phase("queries");
    let printed = files::printed(&mut client)?;
    froglet.stop()?;
    for line in printed.lines() {
        let line = serde_json::from_str(line).with_context(|| format!("not understood: {line}"))?;
        match line {
            Line::Wrong { wrong } => report.fail(wrong),
            Line::Asked { system, query, seconds } => {
                report.add(&system, &format!("queries: {query}"), "time", seconds * 1000.0, "ms");
            }
        }
    }
    add_ratios(report);
    Ok(())
}

/// How many times as long as each other system frozen tables take; the worst beside DataFusion is held to the limit.
fn add_ratios(report: &mut Report) {
    let is_query = |operation: &str| operation.starts_with("queries: ");
    let asked = report.rows.iter().filter(|m| is_query(&m.operation) && m.approach != FROZEN);
    let others: Vec<_> = asked.map(|m| (m.approach.clone(), m.operation.clone())).collect();
    let mut worst: Option<f64> = None;
    for (system, operation) in others {
        report.add_ratio(FROZEN, &system, &operation, "time");
        if system.starts_with("DataFusion") {
            let ratio = report.value(&format!("{FROZEN} / {system}"), &operation, "time");
            worst = [worst, ratio].into_iter().flatten().reduce(f64::max);
        }
    }
    if let Some(worst) = worst {
        let what = "queries of frozen tables / DataFusion over static Arrow, the worst";
        limits::add(report, what, worst, Bound::AtMost(1.1), "x");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_query_is_held_to_the_limit() {
        let mut report = Report::new("queries");
        for (system, query, ms) in [
            (FROZEN, "Q1", 10.0),
            ("DataFusion 55, static Arrow", "Q1", 10.0),
            (FROZEN, "Q6", 12.0),
            ("DataFusion 55, static Arrow", "Q6", 10.0),
            ("DuckDB 2, static Arrow", "Q6", 1.0),
        ] {
            report.add(system, &format!("queries: {query}"), "time", ms, "ms");
        }
        add_ratios(&mut report);
        assert!(report.summary.starts_with("MISSED"), "{}", report.summary);
        assert!(report.summary.contains("1.20 x (at most 1.10)"), "{}", report.summary);
    }
}
