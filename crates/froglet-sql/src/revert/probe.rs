//! What the data says of a revert, beforehand.

use froglet_engine::batch::value_at;
use froglet_engine::{Snapshot, Value};
use froglet_schema::TableVersion;

use crate::error::SqlError;

/// Whether a table has a row.
pub(super) fn has_rows(table: &TableVersion, snapshot: &Snapshot) -> Result<bool, SqlError> {
    for block in 0..table.table.scan_blocks() {
        if !table.table.read_block(snapshot, block, &[])?.rids.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether some row has another value in a column than these.
pub(super) fn has_others(
    table: &TableVersion,
    snapshot: &Snapshot,
    column: usize,
    expected: &[Value],
) -> Result<bool, SqlError> {
    let ty = table.def.columns[column].ty;
    for block in 0..table.table.scan_blocks() {
        let read = table.table.read_block(snapshot, block, &[column])?;
        let values = read.batch.column(0);
        if (0..read.rids.len()).any(|at| !expected.contains(&value_at(values, at, ty))) {
            return Ok(true);
        }
    }
    Ok(false)
}
