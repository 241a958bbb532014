//! Figures 11, 12 and 13: a table of which more and more is empty becomes Arrow.
//!
//! **11** In the paper Hybrid-Gather (compaction, then gathering) takes below a millisecond a block while
//! less than 5 % is empty, and is an order of magnitude slower where rows move; Snapshot is steady; In-Place
//! is slow for its versions. For (a) a bigint and a text, (b) fixed-length and (c) variable-length columns.
//! **12** Rows moved, which is what indexes have to follow: Snapshot moves all, the hybrid hardly
//! more than the optimum. **13** What of the time is which phase.
//!
//! Ours: the collection between two groups of blocks is a phase of its own, because places are free only
//! after it, and here no thread does it meanwhile. In-Place makes the same moves and then updates
//! every row, a block to a transaction. See `sparse` for the ways.

use anyhow::Result;
use froglet_engine::id::ROWS_PER_BLOCK;

use super::sparse::{Columns, Sparse};
use super::{Bench, optimum};
use crate::figures::{Words, lines};
use crate::report::Report;

const HYBRID: &str = "hybrid";
const SNAPSHOT: &str = "snapshot";
const IN_PLACE: &str = "in place";
const WAYS: [&str; 3] = [HYBRID, SNAPSHOT, IN_PLACE];
const FEWEST: &str = "fewest possible";
const EMPTY_PERCENT: [u32; 10] = [0, 1, 5, 10, 20, 40, 60, 80, 95, 99];
const VARIANTS: [Columns; 3] = [Columns::Mixed, Columns::Fixed, Columns::Varlen];

pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    for columns in VARIANTS {
        bench.in_rounds(&format!("11: {}", columns.name()), report, |_, figures| {
            EMPTY_PERCENT.iter().try_for_each(|empty| measure(bench, columns, *empty, figures))
        })?;
        let x = EMPTY_PERCENT.map(|empty| (name(columns, empty), f64::from(empty)));
        let x_label = "% empty";
        let (title, y_label) = ("Transformation to Arrow", "blocks a second");
        let speed = lines(report, &WAYS, "throughput", &x);
        let words = Words { title, x_label, y_label };
        bench.draw(&format!("figure 11 {}", columns.name()), words, speed, true)?;
        if columns == Columns::Mixed {
            let (title, y_label) = ("Rows moved", "moves");
            let moves = lines(report, &[HYBRID, SNAPSHOT, FEWEST], "moves", &x);
            bench.draw("figure 12", Words { title, x_label, y_label }, moves, true)?;
        }
    }
    Ok(())
}

fn name(columns: Columns, empty_percent: u32) -> String {
    format!("11: {}, {empty_percent} % empty", columns.name())
}

fn measure(
    bench: &Bench<'_>,
    columns: Columns,
    empty_percent: u32,
    figures: &mut Report,
) -> Result<()> {
    let blocks = bench.blocks();
    let operation = name(columns, empty_percent);
    let mut sparse = Sparse::make(columns, blocks, empty_percent, &bench.args.dir)?;
    let places = sparse.places()?;
    let rows: usize = places.iter().map(Vec::len).sum();
    let fewest = optimum::moves(&places, ROWS_PER_BLOCK);
    let snapshot_s = sparse.snapshot()?;
    let done = sparse.compact()?;
    let gathering_s = sparse.freeze()?;
    drop(sparse);
    let mut other = Sparse::make(columns, blocks, empty_percent, &bench.args.dir)?;
    let in_place_s = other.in_place()?;

    let hybrid_s = done.moving_s + done.collecting_s + gathering_s;
    for (way, seconds) in [(HYBRID, hybrid_s), (SNAPSHOT, snapshot_s), (IN_PLACE, in_place_s)] {
        figures.add(way, &operation, "throughput", f64::from(blocks) / seconds, "blocks/s");
    }
    figures.add_ratio(HYBRID, SNAPSHOT, &operation, "throughput");
    figures.add_ratio(HYBRID, IN_PLACE, &operation, "throughput");
    let phases = [
        ("compaction", done.moving_s),
        ("collection", done.collecting_s),
        ("gathering", gathering_s),
    ];
    for (phase, seconds) in phases {
        figures.add(HYBRID, &operation, &format!("{phase} alone"), seconds * 1000.0, "ms");
    }
    figures.add(HYBRID, &operation, "moves", done.moves as f64, "rows");
    figures.add(SNAPSHOT, &operation, "moves", rows as f64, "rows");
    figures.add(FEWEST, &operation, "moves", fewest as f64, "rows");
    figures.add_ratio(HYBRID, SNAPSHOT, &operation, "moves");
    figures.add_ratio(HYBRID, FEWEST, &operation, "moves");
    Ok(())
}
