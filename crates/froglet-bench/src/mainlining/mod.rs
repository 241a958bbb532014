//! Transformation to Arrow: what it costs, how fast it is, and what it gives (mainlining, paper 004,
//! section 6, figures 8 to 15; issue 5, "Measure").
//!
//! ```text
//!   fig08   TPC-C while blocks are frozen          fig10     what is not frozen yet, over time
//!   fig09   rows as columns, rows as one column    fig11     blocks a second; 12: moves; 13: phases
//!   fig14   blocks compacted together              fig15     a table into Python ── export.py
//!   memory  bytes against Arrow's                  waits     a writer beside a reader
//!   sparse  the table of figures 11 to 14          optimum   the fewest moves there can be
//!   queries CH-benCHmark ── queries.py               files     tables for clients in Python
//!   limits  what the issue wants, met or MISSED
//! ```
//!
//! Variants of a figure run in interleaved rounds, and what is told of them is ratios within a round.
//! A figure that is not asked for with `--figure` is not measured; without, all are.
//!
//! Differences from the paper: two cores instead of twenty; blocks have 8,192 rows and not 1 MB. Codes
//! are not made of dictionaries by this engine (equal strings share their bytes), so there is no Hybrid-Compress.
//! RDMA is left out: loopback only.

mod fig08;
mod fig09;
mod fig10;
mod fig11;
mod fig14;
mod fig15;
mod files;
mod memory;
mod optimum;
pub mod options;
mod queries;
mod sparse;
mod waits;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use self::options::Figure;
use crate::Args;
use crate::figures::{self, Words};
use crate::report::Report;
use crate::tpcc::db::Scale;
use crate::tpccd::chart::Line;
use crate::tpccd::rounds;

/// For `froglet bench list`.
pub const ABOUT: &str = "transformation to Arrow: its cost under TPC-C, its speed, what it gives";

/// What all figures have in common.
struct Bench<'a> {
    args: &'a Args,
    rounds: u16,
    measure: Duration,
    pictures: Option<&'a Path>,
}

/// Measures figures.
type Measured = fn(&Bench<'_>, &mut Report) -> Result<()>;

/// Which figures are measured together, and how.
const FIGURES: &[(&[Figure], Measured)] = &[
    (&[Figure::Oltp], fig08::run),
    (&[Figure::RowColumn], fig09::run),
    (&[Figure::Backlog], fig10::run),
    (&[Figure::Transformation, Figure::Moves, Figure::Phases], fig11::run),
    (&[Figure::Groups], fig14::run),
    (&[Figure::Export], fig15::run),
    (&[Figure::Memory], memory::run),
    (&[Figure::Queries], queries::run),
    (&[Figure::Waits], waits::run),
];

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    let seconds = args.seconds.unwrap_or(if args.small { 0.3 } else { 10.0 });
    let bench = Bench {
        args,
        rounds: args.rounds.unwrap_or(if args.small { 1 } else { 3 }),
        measure: Duration::from_secs_f64(seconds),
        pictures: args.tpccd.figures.as_deref(),
    };
    let mut report = Report::new("Mainlining (figures 8 to 15)");
    let wanted = &args.mainlining.figure;
    for (figures, measured) in FIGURES {
        if wanted.is_empty() || figures.iter().any(|figure| wanted.contains(figure)) {
            measured(&bench, &mut report).with_context(|| format!("figures {figures:?}"))?;
        }
    }
    figures::write(bench.pictures, "mainlining", &report)?;
    Ok(report)
}

impl Bench<'_> {
    /// TPC-C with a warehouse for each worker, at least.
    fn scale(&self, workers: u16) -> Scale {
        let warehouses = i32::from(self.args.scale.unwrap_or(0).max(workers));
        if self.args.small { Scale::small(warehouses) } else { Scale::full(warehouses) }
    }

    /// Blocks of the table that is transformed.
    fn blocks(&self) -> u32 {
        self.args.mainlining.blocks.unwrap_or(if self.args.small { 4 } else { 500 })
    }

    /// The Python of figures that have clients; says so if it is not there.
    fn python(&self, report: &mut Report, figure: &str) -> Option<&Path> {
        let python = &*self.args.mainlining.python;
        if !python.is_file() {
            let path = python.display();
            let what = format!("{figure} is left out: {path} is not there, give --python");
            report.summary += &format!("        {what}\n");
        }
        python.is_file().then_some(python)
    }

    /// Measures in rounds, of which the medians count. `measured` is given the number of the round.
    fn in_rounds(
        &self,
        what: &str,
        report: &mut Report,
        measured: impl FnMut(usize, &mut Report) -> Result<()>,
    ) -> Result<()> {
        rounds::run(self.rounds, what, report, measured)
    }

    /// Draws lines over a quantity, if pictures are wanted.
    fn draw(&self, file: &str, words: Words<'_>, lines: Vec<Line>, is_linear: bool) -> Result<()> {
        figures::draw(self.pictures, file, words, lines, is_linear)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(figures: &str) -> (Report, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let line = format!("bench mainlining --small --seconds 0.2 --workers 1 --figure {figures}");
        let mut args = crate::tests::parse(&line).unwrap();
        args.tpccd.figures = Some(dir.path().to_owned());
        let report = run(&args).unwrap();
        report.verdict().unwrap();
        (report, dir)
    }

    /// Whether something was measured, of a unit.
    fn has(report: &Report, operation: &str, unit: &str) -> bool {
        let mut rows = report.rows.iter();
        rows.any(|m| m.operation.starts_with(operation) && m.unit == unit && m.value > 0.0)
    }

    #[test]
    fn transactions_go_on_while_blocks_are_frozen() {
        let (report, dir) = measured("8,9,10");
        for operation in ["8: TPC-C", "9: insert", "9: update", "10: TPC-C"] {
            assert!(has(&report, operation, "1/s"), "{operation}: {}", report.table());
        }
        assert!(has(&report, "8: TPC-C, 1 worker, OrderLine", "blocks"));
        assert_eq!(report.summary.lines().count(), 3, "{}", report.summary);
        for file in ["figure-9-insert.svg", "figure-10.svg", "mainlining.json", "mainlining.txt"] {
            assert!(dir.path().join(file).is_file(), "{file}");
        }
    }

    #[test]
    fn sparse_tables_are_transformed_in_every_way() {
        let (report, dir) = measured("11,14,waits");
        for operation in ["bigint and text", "fixed-length", "variable-length"] {
            assert!(has(&report, &format!("11: {operation}, 40 % empty"), "blocks/s"));
        }
        let of_half = "11: bigint and text, 60 % empty";
        let moves = |approach| report.value(approach, of_half, "moves").unwrap();
        assert!(moves("fewest possible") <= moves("hybrid") && moves("hybrid") < moves("snapshot"));
        let freed =
            |group| report.value("80 % empty", &format!("14: groups of {group}"), "blocks freed");
        assert_eq!((freed(1), freed(500)), (Some(0.0), Some(3.0)), "one block is what four leave");
        assert!(report.summary.contains("met     writes that waited"), "{}", report.summary);
        assert!(dir.path().join("figure-12.svg").is_file());
    }

    #[test]
    fn memory_is_that_of_all_tables() {
        let (report, _) = measured("memory");
        let ratio = report.value("frozen / Arrow", "memory: all tables", "bytes");
        assert!(ratio.is_some_and(|ratio| ratio > 1.0), "{ratio:?}: views are longer than offsets");
    }
}
