//! Deferrable keys: two rows may share one until the statement, or the transaction, ends.
//!
//! ```text
//!   row written ─ has another its key, or may have? ─ no ─▶ nothing to ask: who takes the key later meets this row
//!                          │ yes
//!                          ▼
//!                 a question about the values     end of the statement, COMMIT, SET CONSTRAINTS … IMMEDIATE:
//!                 (`deferred.rs`)                  a row that has them, and another that has? 23505
//!                                                  and one that somebody is writing? wait, look again
//! ```
//!
//! The engine enters such keys and refuses none (`IndexSpec::unique_at_commit`), and says who else has one
//! (`Table::rival`).
//!
//! U1: every row that is written is looked at after its key was entered. So of two transactions with one key the
//!     later to look meets the other's row: as committed (23505), or as open, and waits for its end. Two that wait
//!     for each other are a deadlock (40P01), as in PostgreSQL.
//! U2: savepoints need no notes of their own: what ROLLBACK TO brings back had no two rows with one key, or was
//!     asked about before the savepoint.

use std::ops::ControlFlow;
use std::sync::Arc;

use froglet_engine::{ColumnType, Direction, KeyRange, Row, RowId, Value, WriteStop, key};
use froglet_schema::{ConstraintDef, TableVersion};

use crate::apply::{Stop, Writer, internal};
use crate::error::SqlError;
use crate::violation;

/// A deferrable PRIMARY KEY or UNIQUE constraint of a table.
pub(crate) struct UniqueKey<'t> {
    pub(crate) constraint: &'t ConstraintDef,
    /// Layout position of its index.
    index: usize,
    /// Layout positions of its columns, in its order.
    columns: Vec<usize>,
}

impl UniqueKey<'_> {
    /// Those of a table.
    pub(crate) fn all_of(table: &TableVersion) -> impl Iterator<Item = UniqueKey<'_>> {
        let layout = table.table.layout();
        let indexes = layout.indexes.iter().enumerate();
        indexes.filter(|(_, spec)| spec.unique_at_commit).filter_map(|(index, spec)| {
            let constraint = table.def.constraint_of_index(spec.id)?;
            Some(UniqueKey { constraint, index, columns: layout.key_positions(spec).collect() })
        })
    }

    /// Whether a table has any.
    pub(crate) fn has_any(table: &TableVersion) -> bool {
        UniqueKey::all_of(table).next().is_some()
    }

    /// The types of its columns.
    pub(crate) fn types(&self, table: &TableVersion) -> Vec<ColumnType> {
        let columns = &table.table.layout().columns;
        self.columns.iter().map(|at| columns[*at].ty).collect()
    }
}

impl Writer<'_> {
    /// Rows were written: whose deferrable keys another may have, is asked later. `set` are the columns
    /// that were set, if not all.
    pub(crate) fn note_keys(
        &mut self,
        table: &TableVersion,
        rows: &[RowId],
        set: Option<&[usize]>,
    ) {
        let own = self.txn.id();
        for key in UniqueKey::all_of(table) {
            if set.is_some_and(|set| !key.columns.iter().any(|column| set.contains(column))) {
                continue;
            }
            let has_rival = |row: &&RowId| table.table.rival(own, key.index, **row).is_some();
            for row in rows.iter().filter(has_rival) {
                let mut values = Row::new();
                if table.table.read_row(&self.now(), *row, &key.columns, &mut values) {
                    self.deferred.key(&key, table, &values);
                }
            }
        }
    }

    /// At most one row has these values, whoever writes it.
    pub(crate) async fn one_row_has(
        &mut self,
        table: &Arc<TableVersion>,
        unique: &UniqueKey<'_>,
        values: &[Value],
    ) -> Result<(), Stop> {
        let spec = &table.table.layout().indexes[unique.index];
        let range = KeyRange::prefix(key::encode(values, &spec.key));
        loop {
            let (view, mut found) = (self.now(), Vec::new());
            let mut visit = |rid: RowId, _: &mut Row| {
                found.push(rid);
                ControlFlow::Continue(())
            };
            table.table.seek(&view, unique.index, &range, Direction::Forward, &[], &mut visit);
            drop(view);
            let own = self.txn.id();
            let rivals =
                found.into_iter().filter_map(|row| table.table.rival(own, unique.index, row));
            // A committed row meets the own one as a duplicate; what the own one meets may be about to go.
            let mut duplicate = None;
            let mut holder = None;
            for stop in rivals {
                match stop {
                    WriteStop::Busy { holder: other } => holder = Some(other),
                    WriteStop::Duplicate { index, .. } => duplicate = Some(index),
                    WriteStop::Engine(e) => return Err(SqlError::from(e).into()),
                    WriteStop::Changed | WriteStop::Gone | WriteStop::Moved => {
                        return Err(internal("a look at a key wrote something"));
                    }
                }
            }
            match (holder, duplicate) {
                (Some(holder), _) => self.wait_for(holder).await?,
                (None, None) => return Ok(()),
                (None, Some(_)) if self.is_outrun(table) => return Err(Stop::Restart),
                (None, Some(index)) => {
                    let mut row = vec![Value::Null; table.def.width()];
                    for (column, value) in unique.columns.iter().zip(values) {
                        row[*column] = value.clone();
                    }
                    return Err(violation::unique(&table.def, index, &row).into());
                }
            }
        }
    }
}
