//! Some rows of a table as a batch, and back.

use arrow_array::ArrayRef;
use froglet_engine::{BlockRows, ColumnType, Row, RowId, Snapshot, Table, batch};

/// The types of the columns at layout positions.
pub(crate) fn types_of(table: &dyn Table, positions: &[usize]) -> Vec<ColumnType> {
    positions.iter().map(|&at| table.layout().columns[at].ty).collect()
}

/// Those of some rows, of any blocks, that a snapshot sees, in the order given: the columns at layout
/// positions.
pub(crate) fn read_rows(
    table: &dyn Table,
    snapshot: &Snapshot,
    rows: &[RowId],
    positions: &[usize],
) -> BlockRows {
    let (mut rids, mut values) = (Vec::new(), Vec::new());
    for rid in rows {
        let mut row = Row::new();
        if table.read_row(snapshot, *rid, positions, &mut row) {
            rids.push(*rid);
            values.push(row);
        }
    }
    BlockRows { rids, batch: batch::batch_of(&types_of(table, positions), &values) }
}

/// One row of columns of these types.
pub(crate) fn row_at(columns: &[ArrayRef], types: &[ColumnType], row: usize) -> Row {
    columns.iter().zip(types).map(|(column, ty)| batch::value_at(column, row, *ty)).collect()
}
