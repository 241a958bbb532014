//! Memory of a frozen TPC-C against the Arrow size of the same data (issue 5: at most 1.2 times).
//!
//! ```text
//!   Arrow    numbers: 4, 8, 16 bytes     texts: an offset of 4, and the bytes     a bit each where NULLs are
//!   froglet  the same                    a view of 16, and the bytes beyond 12    heads of versions: 8 a row
//! ```
//!
//! The Arrow size is the buffers' of one compact array a column (Utf8, no slack, validity only where there are
//! NULLs); beside it the same with Arrow's other strings, views, which are what a frozen column is. Ours is what the engine says its blocks and their strings take, indexes apart, after
//! everything was frozen; and what the operating system says the whole process takes, which has the indexes in it.

use anyhow::Result;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};

use super::Bench;
use super::fig08::database;
use crate::limits::{self, Bound};
use crate::machine;
use crate::report::Report;
use crate::store::Background;
use crate::tpcc::db::Tpcc;
use crate::tpcc::schema::{TABLES, TableName};

const FROZEN: &str = "frozen";
const HOT: &str = "hot";
const ARROW: &str = "Arrow";
const VIEWS: &str = "Arrow with views";
const WHAT: [&str; 4] = [HOT, FROZEN, ARROW, VIEWS];
const ALL: &str = "memory: all tables";
const METRIC: &str = "bytes";

pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let before = machine::resident_bytes();
    let workers = bench.args.workers.last().copied().unwrap_or(1);
    let db = database(bench, workers, Background::default())?;
    let mut sums = [0; WHAT.len()];
    for table in TABLES {
        let operation = format!("memory: {table:?}");
        let bytes = || db.engine().block_counts(table.space()).bytes;
        let hot = bytes();
        db.engine().freeze(table.space());
        let frozen = bytes();
        let [arrow, views] = arrow_bytes(&db, table)?;
        for ((approach, bytes), sum) in WHAT.iter().zip([hot, frozen, arrow, views]).zip(&mut sums)
        {
            report.add(approach, &operation, METRIC, bytes as f64, "B");
            *sum += bytes;
        }
        report.add_ratio(FROZEN, ARROW, &operation, METRIC);
        report.add_ratio(FROZEN, VIEWS, &operation, METRIC);
    }
    for (approach, sum) in WHAT.iter().zip(sums) {
        report.add(approach, ALL, METRIC, sum as f64, "B");
    }
    report.add_ratio(HOT, ARROW, ALL, METRIC);
    report.add_ratio(FROZEN, ARROW, ALL, METRIC);
    report.add_ratio(FROZEN, VIEWS, ALL, METRIC);
    let resident = machine::resident_bytes().saturating_sub(before);
    report.add(FROZEN, ALL, "resident, indexes too", resident as f64, "B");
    let ratio = report.value(&format!("{FROZEN} / {ARROW}"), ALL, METRIC).unwrap_or(f64::MAX);
    limits::add(report, "memory of a frozen TPC-C / Arrow", ratio, Bound::AtMost(1.2), "x");
    Ok(())
}

/// What the rows of a table take as one compact array a column, their strings with offsets and as views.
fn arrow_bytes(db: &Tpcc, name: TableName) -> Result<[u64; 2]> {
    let (table, snapshot) = (db.table(name), db.engine().snapshot());
    let columns: Vec<usize> = (0..name.types().len()).collect();
    let mut sizes = vec![Size::default(); columns.len()];
    for block in 0..table.block_count() {
        let batch = table.read_batch(&snapshot, block, &columns)?;
        for (size, array) in sizes.iter_mut().zip(batch.columns()) {
            size.add(array);
        }
    }
    Ok([sizes.iter().map(Size::bytes).sum(), sizes.iter().map(Size::bytes_with_views).sum()])
}

/// What arrays take when they are put together.
#[derive(Clone, Debug, Default)]
struct Size {
    rows: u64,
    nulls: u64,
    /// Of values.
    bytes: u64,
    /// Of those that do not lie in their view.
    outside_bytes: u64,
    is_text: bool,
}

impl Size {
    fn add(&mut self, array: &ArrayRef) {
        self.rows += array.len() as u64;
        self.nulls += array.null_count() as u64;
        match (array.as_string_view_opt(), array.data_type().primitive_width()) {
            (Some(texts), _) => {
                self.is_text = true;
                let lengths = || texts.iter().flatten().map(|text| text.len() as u64);
                self.bytes += lengths().sum::<u64>();
                self.outside_bytes += lengths().filter(|length| *length > 12).sum::<u64>();
            }
            (None, Some(width)) => self.bytes += (width * array.len()) as u64,
            (None, None) => unreachable!("TPC-C has numbers, times and texts"),
        }
    }

    fn bytes(&self) -> u64 {
        let offsets = if self.is_text { 4 * (self.rows + 1) } else { 0 };
        self.bytes + self.validity_bytes() + offsets
    }

    fn bytes_with_views(&self) -> u64 {
        let values = if self.is_text { 16 * self.rows + self.outside_bytes } else { self.bytes };
        values + self.validity_bytes()
    }

    fn validity_bytes(&self) -> u64 {
        if self.nulls > 0 { self.rows.div_ceil(8) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn the_size_is_that_of_the_buffers_of_compact_arrays() {
        let texts = [Some("a"), None, Some("longer than twelve bytes")];
        let mut size = Size::default();
        size.add(&(Arc::new(StringViewArray::from_iter(texts)) as ArrayRef));
        let utf8 = StringArray::from_iter(texts);
        let buffers = utf8.values().len() + utf8.offsets().inner().inner().len() + 1;
        assert_eq!(size.bytes(), buffers as u64);
        let views = StringViewArray::from_iter(texts);
        let outside: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
        assert_eq!(size.bytes_with_views(), (views.views().inner().len() + outside + 1) as u64);
        let mut size = Size::default();
        size.add(&(Arc::new(Int32Array::from(vec![1, 2, 3])) as ArrayRef));
        size.add(&(Arc::new(Int32Array::from(vec![4])) as ArrayRef));
        assert_eq!(size.bytes(), 16, "no validity where nothing is NULL");
    }
}
