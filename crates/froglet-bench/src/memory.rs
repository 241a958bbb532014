//! Memory of a table against its raw size (issue 2: ten million rows of bigint, bigint and a text
//! of 20 within twice their raw size, indexes apart).
//!
//! ```text
//!   rows loaded ─▶ versions collected ─▶ measured ─▶ index built ─▶ measured ─▶ every row updated
//! ```
//!
//! Raw size is 8 + 8 + 20 bytes a row. Measured twice: what the engine has on its account, and
//! what the operating system has given to the process (anonymous resident pages), which also has
//! what the allocator keeps for itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Engine, IndexId, IndexSpec, KeyPart, Layout, Row, RowId,
    RowWrite, Savepoint, SpaceId, Table, TxnId, Value,
};

use crate::report::Report;
use crate::store::{Durability, Store, settle_memory};
use crate::{Args, machine, progress};

/// For `froglet bench list`.
pub const ABOUT: &str = "bytes of rows (bigint, bigint, text of 20) against their raw size";

const SPACE: SpaceId = SpaceId(1);
const TEXT_BYTES: usize = 20;
const RAW_ROW_BYTES: u64 = 8 + 8 + TEXT_BYTES as u64;
const APPROACH: &str = "froglet-memory";
/// The longest wait for the collector.
const COLLECTION: Duration = Duration::from_secs(30);

/// Runs it.
pub fn run(args: &Args) -> Result<Report> {
    measure(args.rows.unwrap_or(10_000_000), &args.dir)
}

fn layout(index: bool) -> Arc<Layout> {
    let column = |id, ty| ColumnSpec { id: ColumnId(id), ty, missing: Value::Null };
    let key = KeyPart { column: ColumnId(1), descending: false, nulls_first: false };
    let indexes = vec![IndexSpec {
        id: IndexId(1),
        key: vec![key],
        unique: true,
        unique_at_commit: false,
        nulls: Default::default(),
    }];
    Arc::new(Layout {
        columns: vec![
            column(1, ColumnType::Int64),
            column(2, ColumnType::Int64),
            column(3, ColumnType::Text),
        ],
        indexes: if index { indexes } else { vec![] },
        row_key: None,
    })
}

/// What is in use now: on the engine's account, and resident.
#[derive(Clone, Copy)]
struct Used {
    engine: u64,
    resident: u64,
}

fn used(engine: &dyn Engine) -> Used {
    Used { engine: settle_memory(engine, COLLECTION), resident: machine::resident_bytes() }
}

fn measure(rows: u64, dir: &Path) -> Result<Report> {
    let mut report = Report::new("Memory of rows (issue 2)");
    let store = Store::open(Durability::Off, dir)?;
    let engine = &*store.engine;
    engine.create_space(SPACE)?;
    let table = engine.open(SPACE, layout(false))?;
    let raw = rows * RAW_ROW_BYTES;
    report.add("raw", "rows", "rows", rows as f64, "");
    report.add("raw", "rows", "bytes", raw as f64, "B");

    let before = used(engine);
    fill(engine, &*table, rows)?;
    let after = used(engine);
    add(&mut report, "rows", before, after, rows);
    add_ratios(&mut report, "rows", before, after, raw);
    report.add(APPROACH, "rows", "bytes by estimate", table.bytes_estimate() as f64, "B");

    let indexed = engine.open(SPACE, layout(true))?;
    build(&*indexed)?;
    let with_index = used(engine);
    add(&mut report, "unique index on a bigint", after, with_index, rows);

    churn(engine, &*indexed)?;
    let churned = used(engine);
    let index_share = with_index.engine.saturating_sub(after.engine);
    let index_resident = with_index.resident.saturating_sub(after.resident);
    let apart = Used {
        engine: churned.engine.saturating_sub(index_share),
        resident: churned.resident.saturating_sub(index_resident),
    };
    add_ratios(&mut report, "rows, each updated once", before, apart, raw);

    if table.row_estimate() != rows {
        report.fail(format!("{} rows of {rows} are there", table.row_estimate()));
    }
    Ok(report)
}

fn add(report: &mut Report, operation: &str, before: Used, after: Used, rows: u64) {
    let engine = after.engine.saturating_sub(before.engine) as f64;
    let resident = after.resident.saturating_sub(before.resident) as f64;
    report.add(APPROACH, operation, "bytes, engine's account", engine, "B");
    report.add(APPROACH, operation, "bytes, resident", resident, "B");
    report.add(APPROACH, operation, "bytes per row, engine's account", engine / rows as f64, "B");
    report.add(APPROACH, operation, "bytes per row, resident", resident / rows as f64, "B");
}

fn add_ratios(report: &mut Report, operation: &str, before: Used, after: Used, raw: u64) {
    let approach = format!("{APPROACH} / raw");
    let ratio = |before: u64, after: u64| after.saturating_sub(before) as f64 / raw as f64;
    let engine = ratio(before.engine, after.engine);
    report.add(&approach, operation, "bytes, engine's account", engine, "x");
    let resident = ratio(before.resident, after.resident);
    report.add(&approach, operation, "bytes, resident", resident, "x");
}

fn row(n: u64) -> Row {
    let scattered = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let text = format!("{scattered:0TEXT_BYTES$}");
    debug_assert_eq!(text.len(), TEXT_BYTES);
    vec![Value::Int64(n as i64), Value::Int64(scattered as i64), Value::text(text)]
}

fn fill(engine: &dyn Engine, table: &dyn Table, rows: u64) -> Result<()> {
    let bar = progress::bar("loading rows", rows);
    let mut next = 0;
    while next < rows {
        let count = (rows - next).min(ROWS_PER_BLOCK as u64);
        let batch: Vec<Row> = (next..next + count).map(row).collect();
        let mut txn = engine.begin(TxnId(1 + next));
        let inserted = table.insert(&mut *txn, &batch, &mut Vec::with_capacity(batch.len()));
        inserted.map_err(|(n, stop)| anyhow!("row {n} of a batch was refused: {stop:?}"))?;
        txn.pre_commit();
        let _ = txn.post_commit()?;
        next += count;
        bar.set_position(next);
    }
    bar.finish_and_clear();
    Ok(())
}

fn build(table: &dyn Table) -> Result<()> {
    for block in 0..table.block_count() {
        let mut duplicates = Vec::new();
        table.index_block(TxnId(0), 0, block, &mut duplicates)?;
        anyhow::ensure!(duplicates.is_empty(), "block {block} has duplicate keys: {duplicates:?}");
    }
    Ok(())
}

/// Updates the second column of every row, a block per transaction.
fn churn(engine: &dyn Engine, table: &dyn Table) -> Result<()> {
    let bar = progress::bar("updating rows", u64::from(table.block_count()));
    for block in 0..table.block_count() {
        let mut txn = engine.begin(TxnId((1 << 40) + u64::from(block)));
        let snapshot = txn.snapshot().clone();
        let rids = table.read_block(&snapshot, block, &[])?.rids;
        let value = [Value::Int64(i64::from(block))];
        let update = |&rid: &RowId| RowWrite::Update { rid, columns: &[1], values: &value };
        let writes: Vec<RowWrite<'_>> = rids.iter().map(update).collect();
        let written = table.write(&mut *txn, snapshot.ts, &writes);
        written.map_err(|(n, stop)| anyhow!("row {n} of block {block} was refused: {stop:?}"))?;
        debug_assert_eq!(txn.savepoint(), Savepoint(rids.len() as u32));
        txn.pre_commit();
        let _ = txn.post_commit()?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_table_is_measured() {
        let report = measure(20_000, &std::env::temp_dir()).unwrap();
        report.verdict().unwrap();
        let ratio = report.value("froglet-memory / raw", "rows", "bytes, engine's account");
        assert!(ratio.is_some_and(|x| x >= 1.0), "{ratio:?}: less than its raw size");
    }
}
