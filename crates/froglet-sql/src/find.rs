//! Rows of a table by the values of some columns: through an index where one begins with these
//! columns, else by reading every block.

use std::ops::ControlFlow;

use froglet_engine::{Direction, KeyRange, RowId, Snapshot, Value, batch, key};
use froglet_schema::{Counted, TableVersion};
use froglet_txn::Limits;

use crate::error::SqlError;

/// The way to rows by equality on some columns; made once per schema version.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// Layout positions.
    pub(crate) columns: Vec<usize>,
    /// An index that begins with these columns, and for each of its first parts the place in
    /// `columns`.
    index: Option<(usize, Vec<usize>)>,
}

impl Lookup {
    pub(crate) fn new(table: &TableVersion, columns: Vec<usize>) -> Lookup {
        let layout = table.table.layout();
        let index = layout.indexes.iter().enumerate().find_map(|(at, index)| {
            let parts = index.key.get(..columns.len())?;
            let places: Option<Vec<usize>> = parts
                .iter()
                .map(|part| {
                    let position = layout.position(part.column)?;
                    columns.iter().position(|c| *c == position)
                })
                .collect();
            Some((at, places?))
        });
        Lookup { columns, index }
    }

    /// The rows that `snapshot` sees with these values (none of them NULL), at most `limit`.
    pub(crate) fn rows(
        &self,
        table: &TableVersion,
        snapshot: &Snapshot,
        values: &[Value],
        limit: usize,
        limits: &Limits,
    ) -> Result<Vec<RowId>, SqlError> {
        let mut found = Vec::new();
        match &self.index {
            Some((index, places)) => {
                let spec = &table.table.layout().indexes[*index];
                let values = places.iter().map(|place| &values[*place]);
                let key = key::encode(values, &spec.key);
                table.table.seek(
                    snapshot,
                    *index,
                    &KeyRange::prefix(key),
                    Direction::Forward,
                    &[],
                    &mut |rid, _| {
                        found.push(rid);
                        if found.len() < limit {
                            ControlFlow::Continue(())
                        } else {
                            ControlFlow::Break(())
                        }
                    },
                );
                table.accesses().add_lookup(found.len());
            }
            None => self.scan(table, snapshot, values, limit, limits, &mut found)?,
        }
        Ok(found)
    }

    fn scan(
        &self,
        table: &TableVersion,
        snapshot: &Snapshot,
        values: &[Value],
        limit: usize,
        limits: &Limits,
        found: &mut Vec<RowId>,
    ) -> Result<(), SqlError> {
        table.accesses().add(Counted::Scans, 1);
        for block in 0..table.table.scan_blocks() {
            limits.check()?;
            let rows = table.table.read_block(snapshot, block, &self.columns)?;
            table.accesses().add(Counted::ScannedRows, rows.rids.len());
            for (row, rid) in rows.rids.iter().enumerate() {
                let equal =
                    self.columns.iter().zip(values).enumerate().all(|(i, (column, value))| {
                        let ty = table.def.columns[*column].ty;
                        key::equal(&batch::value_at(rows.batch.column(i).as_ref(), row, ty), value)
                    });
                if equal {
                    found.push(*rid);
                    if found.len() >= limit {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}
