//! What tracking costs (figure 4.9): a lazy migration that has nothing left to do but a few rows, which
//! nobody touches, against the same tables once it has ended.
//!
//! ```text
//!   Lazy     flip ─ touch all but one customer of each district ┬─ tracked ─┬ background, end ┬─ after ─┬
//!   eager    flip ──────────────────────────────────────────────┴─ first ───┴─────────────────┴─ second ┴
//!   cost = 1 − (tracked / after) / (first / second)
//! ```
//!
//! The eager run says what time alone does to throughput: tables grow.

use anyhow::{Context, Result};
use tokio_postgres::Client;

use super::super::options::Sweep;
use super::super::recording::Span;
use super::approach::Approach;
use super::change::SPLIT;
use super::run::{Outcome, Run};
use super::{Bench, Loop, fail, pictures};
use crate::progress;
use crate::report::Report;
use crate::stats::median;
use crate::tpcc::db::{DISTRICTS, Scale};

/// For the rows of the report.
pub const NAME: &str = "Tracking";
/// What is to be below 3 %.
pub const OVERHEAD: &str = "overhead of tracking";

/// Measures it, if it is wanted.
pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    if !bench.args.tpccd.sweeps(Sweep::Tracking) {
        return Ok(());
    }
    let mut costs = Vec::new();
    let mut outcomes = Vec::new();
    for round in 0..bench.rounds {
        let mut ratio = |approach| -> Result<f64> {
            let phase = format!("tracking, round {}: {}", round + 1, Approach::name(approach));
            progress::phase(&phase);
            let (tracked, after, outcome) = halves(bench, approach, report).context(phase)?;
            let name = approach.name();
            report.add(name, "tracking", "throughput, first half", tracked, "1/s");
            report.add(name, "tracking", "throughput, second half", after, "1/s");
            outcomes.push((name.to_owned(), approach.colour(), outcome));
            Ok(if after > 0.0 { tracked / after } else { 0.0 })
        };
        let (eager, lazy) = (ratio(Approach::Tesseract)?, ratio(Approach::Lazy)?);
        if eager > 0.0 {
            costs.push((1.0 - lazy / eager) * 100.0);
        }
    }
    report.add(NAME, "SplitTable", OVERHEAD, median(&costs), "%");
    let Some(dir) = bench.plots else { return Ok(()) };
    // Of the first round.
    let lines: Vec<_> =
        outcomes.iter().take(2).map(|(name, colour, o)| (name.clone(), *colour, o)).collect();
    pictures::draw(dir, ["figure 4.9", "figure 4.9 latency"], "tracking", &lines)
}

/// Throughput in the first half of the window and in the second.
fn halves(
    bench: &Bench<'_>,
    approach: Approach,
    report: &mut Report,
) -> Result<(f64, f64, Outcome)> {
    let run = bench.run(&SPLIT, Loop::Closed);
    let half = run.window / 2;
    // Rows are touched at first; the end of the migration is in neither half that counts.
    let margin = half / 5;
    let run = Run {
        hot_customers: Some((bench.scale.customers - 1).max(1)),
        settings: vec![format!("SET froglet.migration_delay = '{}ms'", half.as_millis())],
        touch_all: true,
        ..run
    };
    let outcome = run.on(&bench.systems, approach)?;
    fail(report, &format!("tracking, {}", approach.name()), &outcome);
    let start = outcome.window.start + half - margin * 3;
    let first = Span { start, end: start + margin * 3 };
    let second = Span { start: outcome.window.end - margin * 3, end: outcome.window.end };
    let per_second = |span| outcome.recording.per_second(span);
    if approach == Approach::Lazy {
        let ended = outcome.ended.unwrap_or_default();
        let tracked = ended >= first.end && ended <= second.start;
        report.add(
            NAME,
            "SplitTable",
            "ended between the halves",
            f64::from(u8::from(tracked)),
            "",
        );
    }
    Ok((per_second(first), per_second(second), outcome))
}

/// Reads all customers of each district but the last one, so that they are migrated.
pub async fn touch(ddl: &Client, scale: Scale) -> Result<()> {
    for table in SPLIT.tables {
        let sql = format!(
            "SELECT c_id FROM {} WHERE c_w_id = $1 AND c_d_id = $2 AND c_id BETWEEN $3 AND $4",
            table.name
        );
        let read = ddl.prepare(&sql).await.with_context(|| sql.clone())?;
        for (w, d) in (1..=scale.warehouses).flat_map(|w| (1..=DISTRICTS).map(move |d| (w, d))) {
            for from in (1..scale.customers).step_by(100) {
                let to = (scale.customers - 1).min(from + 99);
                ddl.query(&read, &[&w, &d, &from, &to]).await?;
            }
        }
    }
    Ok(())
}
