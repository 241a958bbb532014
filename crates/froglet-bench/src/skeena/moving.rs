//! SET ACCESS METHOD beside clients: a table to disk and back, while two clients update it by key.
//!
//! Table, clients and what is measured are those of [`served`](crate::ddl::served): the longest time without a commit,
//! the COMMIT of the change, and that no update is lost.

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use crate::ddl::served::{Case, beside};
use crate::report::Report;
use crate::server::Froglet;

/// For reports.
pub const FROGLET: &str = "froglet";
/// Of which the second undoes the first.
pub const MOVES: [Case; 2] = [
    Case {
        name: "move: memory to disk",
        sql: &["BEGIN", "ALTER TABLE accounts SET ACCESS METHOD disk", "COMMIT"],
        locks: None,
        undo: "",
    },
    Case {
        name: "move: disk to memory",
        sql: &["BEGIN", "ALTER TABLE accounts SET ACCESS METHOD memory", "COMMIT"],
        locks: None,
        undo: "",
    },
];
/// What the issue asks for.
const ROWS: u64 = 10_000_000;

/// Runs it.
pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let rows = bench.args.rows.unwrap_or(if bench.args.small { 20_000 } else { ROWS });
    let calm = bench.measure.max(Duration::from_millis(300));
    let froglet = Froglet::start(&bench.args.binary()?, &bench.args.dir, &[])?;
    report.add(FROGLET, "move", "rows", rows as f64, "");
    let cases: Vec<&Case> = MOVES.iter().collect();
    beside(FROGLET, froglet.port(), &cases, rows, calm, report)?;
    froglet.stop()
}
