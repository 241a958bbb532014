//! Figure 14: how many blocks are compacted together.
//!
//! The paper's single pass over 500 blocks frees more blocks the larger a group is, at the price of larger
//! write sets; 10 to 50 serve best.
//!
//! Ours takes the sparsest blocks first and goes on until nothing is to be gained, so every group of more than
//! one block frees nearly the same in the end. What a small group costs is rows that move more
//! than once; what a large one costs is the moves that are planned at once. (A transaction has 1,024 moves,
//! whatever the group.)

use anyhow::Result;

use super::Bench;
use super::sparse::{Columns, Sparse};
use crate::figures::{Words, lines};
use crate::report::Report;

const GROUPS: [usize; 9] = [1, 2, 5, 10, 32, 50, 100, 250, 500];
const EMPTY_PERCENT: [u32; 5] = [1, 10, 20, 40, 80];

pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    bench.in_rounds("14: group sizes", report, |_, figures| {
        for empty_percent in EMPTY_PERCENT {
            for group in GROUPS {
                measure(bench, group, empty_percent, figures)?;
            }
        }
        Ok(())
    })?;
    let approaches = EMPTY_PERCENT.map(|empty| format!("{empty} % empty"));
    let approaches: Vec<&str> = approaches.iter().map(String::as_str).collect();
    let x = GROUPS.map(|group| (name(group), group as f64));
    for (metric, y_label) in [
        ("blocks freed", "blocks freed"),
        ("moves", "rows moved"),
        ("largest plan", "rows of a group moved at once"),
    ] {
        let words =
            Words { title: "Blocks compacted together", x_label: "blocks of a group", y_label };
        let lines = lines(report, &approaches, metric, &x);
        bench.draw(&format!("figure 14 {metric}"), words, lines, false)?;
    }
    Ok(())
}

fn name(group: usize) -> String {
    format!("14: groups of {group}")
}

fn measure(
    bench: &Bench<'_>,
    group: usize,
    empty_percent: u32,
    figures: &mut Report,
) -> Result<()> {
    let (approach, operation) = (format!("{empty_percent} % empty"), name(group));
    let mut sparse = Sparse::make(Columns::Mixed, bench.blocks(), empty_percent, &bench.args.dir)?;
    let rows: usize = sparse.places()?.iter().map(Vec::len).sum();
    sparse.set_group_blocks(group);
    let done = sparse.compact()?;
    let freed = sparse.places()?.iter().filter(|rows| rows.is_empty()).count();
    let seconds = done.moving_s + done.collecting_s;
    let mut add =
        |metric, value: f64, unit| figures.add(&approach, &operation, metric, value, unit);
    add("blocks freed", freed as f64, "blocks");
    add("moves", done.moves as f64, "rows");
    add("moves of a row that is left", done.moves as f64 / rows.max(1) as f64, "x");
    add("largest plan", done.most_moves as f64, "rows");
    add("groups", done.groups as f64, "groups");
    add("rows moved a second", done.moves as f64 / seconds, "1/s");
    Ok(())
}
