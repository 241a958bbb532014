//! Some rows of a table as a batch, and back.

use arrow_array::ArrayRef;
use froglet_engine::{BlockRows, ColumnType, Row, RowId, Snapshot, Table, Value, batch};

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
    table.read_rows(snapshot, rows, positions, &mut |rid, row| {
        rids.push(rid);
        values.push(std::mem::take(row));
    });
    BlockRows { rids, batch: batch::batch_of(&types_of(table, positions), &values) }
}

/// What is made of each of some rows: `columns`, of these types, are of those that `made` lists, in the same
/// order.
pub(crate) fn made_of(
    rows: &[RowId],
    made: impl IntoIterator<Item = RowId>,
    columns: &[ArrayRef],
    types: &[ColumnType],
) -> Vec<Option<Row>> {
    let mut made = made.into_iter().enumerate().peekable();
    let row = |rid: &RowId| {
        let (at, _) = made.next_if(|(_, made)| made == rid)?;
        Some(row_at(columns, types, at))
    };
    rows.iter().map(row).collect()
}

/// Of each of some rows what it is now, where that is not what it was.
pub(crate) fn differing(
    rows: &[RowId],
    was: Vec<Option<Row>>,
    now: Vec<Option<Row>>,
) -> Vec<(RowId, Option<Row>)> {
    let changed = rows.iter().zip(now).zip(was).filter(|((_, now), was)| now != was);
    changed.map(|((rid, now), _)| (*rid, now)).collect()
}

/// All rows of columns of these types, one after the other.
pub(crate) fn values_of(columns: &[ArrayRef], types: &[ColumnType], rows: usize) -> Vec<Value> {
    let mut values = Vec::with_capacity(rows * columns.len());
    for row in 0..rows {
        let cells = columns.iter().zip(types);
        values.extend(cells.map(|(column, ty)| batch::value_at(column, row, *ty)));
    }
    values
}

/// One row of columns of these types.
pub(crate) fn row_at(columns: &[ArrayRef], types: &[ColumnType], row: usize) -> Row {
    columns.iter().zip(types).map(|(column, ty)| batch::value_at(column, row, *ty)).collect()
}
