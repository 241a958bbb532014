//! What a writer waits for a reader (issue 5: nothing).
//!
//! A paper's writer that comes to a frozen block waits until its readers have gone (section 4.1: the
//! reader counter). Ours copies the column that it stores to, and leaves the array to who reads it.
//!
//! One thread holds a view and the Arrow array of every frozen block, and then writes to each of the blocks:
//! if a writer waited for readers in any way, this would not end. Beside it the same writes while
//! nobody reads. Both thaw a column of each block, which is what the time is for.

use anyhow::Result;

use super::Bench;
use super::sparse::{Columns, Sparse};
use crate::limits::{self, Bound};
use crate::report::Report;
use crate::stats::median;

const HELD: &str = "beside a reader";
const ALONE: &str = "alone";

pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let operation = "waits: first write to a frozen block";
    bench.in_rounds("waits: a writer beside a reader", report, |_, figures| {
        let blocks = bench.blocks();
        let mut sparse = Sparse::make(Columns::Mixed, blocks, 0, &bench.args.dir)?;
        sparse.freeze()?;
        let alone_us = sparse.write_to_each_block(1)?;
        sparse.collect_garbage();
        sparse.freeze()?;
        let held = sparse.hold()?;
        let sum = held.sum();
        let held_us = sparse.write_to_each_block(2)?;
        if held.sum() != sum {
            figures.fail("a writer changed an array that a reader holds");
        }
        drop(held);
        for (approach, us) in [(ALONE, &alone_us), (HELD, &held_us)] {
            let most = us.iter().copied().fold(0.0, f64::max);
            figures.add(approach, operation, "p50", median(us), "µs");
            figures.add(approach, operation, "longest", most, "µs");
            figures.add(approach, operation, "writes", us.len() as f64, "writes");
        }
        figures.add_ratio(HELD, ALONE, operation, "p50");
        // Each has ended while the reader held its block.
        let waited = f64::from(blocks) - held_us.len() as f64;
        figures.add(HELD, operation, "writes that waited", waited, "writes");
        Ok(())
    })?;
    let waited = report.value(HELD, operation, "writes that waited").unwrap_or(f64::MAX);
    limits::add(report, "writes that waited for a reader", waited, Bound::AtMost(0.0), "");
    Ok(())
}
