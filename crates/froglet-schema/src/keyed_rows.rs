//! What a look through an index gives that cannot be asked: rows read without it, in the order of its key.

use std::ops::ControlFlow;

use froglet_engine::{Direction, IndexSpec, KeyRange, Layout, Row, RowId, key};

/// Who is shown the rows of a range.
pub(crate) type Visit<'a> = dyn FnMut(RowId, &mut Row) -> ControlFlow<()> + 'a;

/// Rows in a range of an index's key, ascending, each with its key.
pub(crate) struct KeyedRows(Vec<(Vec<u8>, RowId, Row)>);

impl KeyedRows {
    /// Layout positions of what is to be read of a row: its key, and a projection.
    pub fn places(layout: &Layout, index: &IndexSpec, projection: &[usize]) -> Vec<usize> {
        layout.key_positions(index).chain(projection.iter().copied()).collect()
    }

    /// Of rows that were read so, those in a range: the projection of each.
    pub fn new(
        rows: impl IntoIterator<Item = (RowId, Row)>,
        index: &IndexSpec,
        range: &KeyRange,
    ) -> KeyedRows {
        let parts = &index.key;
        let keyed = |(rid, mut row): (RowId, Row)| {
            let key = key::encode(&row, parts);
            range.contains(&key).then(|| (key, rid, row.split_off(parts.len())))
        };
        let mut rows: Vec<_> = rows.into_iter().filter_map(keyed).collect();
        rows.sort_unstable_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        KeyedRows(rows)
    }

    /// Appends the first row to `out`, as [`Table::get_by_key`](froglet_engine::Table::get_by_key) does.
    pub fn first(self, out: &mut Row) -> Option<RowId> {
        let (_, rid, row) = self.0.into_iter().next()?;
        out.extend(row);
        Some(rid)
    }

    /// Shows the rows, as [`Table::seek`](froglet_engine::Table::seek) does.
    pub fn visit(mut self, direction: Direction, visit: &mut Visit<'_>) {
        if direction == Direction::Backward {
            self.0.reverse();
        }
        let _ = self.0.into_iter().try_for_each(|(_, rid, mut row)| visit(rid, &mut row));
    }
}
