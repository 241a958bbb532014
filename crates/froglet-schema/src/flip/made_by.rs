//! What makes the rows of a table of those of another, as writers under the older schema meet it.
//!
//! ```text
//!   before the commit (`Copy`)      source row 17 ──▶ row 4, by a map of places
//!   after it (`LazyRows`)           source row 17 ──▶ row 17, made when somebody touches it
//! ```

use std::sync::Arc;

use froglet_engine::{EngineTxn, Row, RowId, Snapshot, SpaceId, Table, Ts, WriteStop};

use crate::eager::copy::Copy;
use crate::error::SchemaError;
use crate::lazy_rows::LazyRows;
use crate::lazy_table::LazyTable;

/// See the module.
#[derive(Clone)]
pub enum MadeBy {
    /// Before the commit.
    Copy(Arc<Copy>),
    /// After it.
    Lazy(Arc<LazyRows>),
}

impl MadeBy {
    /// Whether what it makes is the table itself, elsewhere.
    pub(crate) fn is_move(&self) -> bool {
        match self {
            MadeBy::Copy(copy) => copy.is_move(),
            MadeBy::Lazy(lazy) => lazy.state.is_move(),
        }
    }

    /// The rows of which others are made, as anybody writes them.
    pub(crate) fn source_table(&self) -> &Arc<dyn Table> {
        match self {
            MadeBy::Copy(copy) => copy.source_table(),
            MadeBy::Lazy(lazy) => lazy.source_table(),
        }
    }

    /// The rows that are made, as anybody writes them; those of a copy without its indexes.
    pub(crate) fn target_table(&self) -> Arc<dyn Table> {
        match self {
            MadeBy::Copy(copy) => copy.target_table().clone(),
            MadeBy::Lazy(lazy) => LazyTable::over(lazy.target().clone(), lazy.clone()),
        }
    }

    /// The row space that it makes.
    pub(crate) fn space(&self) -> SpaceId {
        match self {
            MadeBy::Copy(copy) => copy.target_space(),
            MadeBy::Lazy(lazy) => lazy.state.course.space,
        }
    }

    /// The source row of a target row.
    pub(crate) fn source_of(&self, target: RowId) -> Option<RowId> {
        match self {
            MadeBy::Copy(copy) => copy.source_of(target),
            MadeBy::Lazy(lazy) => lazy.source_of(target),
        }
    }

    /// The target row of a source row.
    pub(crate) fn place_of(&self, source: RowId) -> Result<Option<RowId>, SchemaError> {
        match self {
            MadeBy::Copy(copy) => Ok(copy.place_of(source)),
            MadeBy::Lazy(lazy) => Ok(lazy.has_made(source)?.then_some(source)),
        }
    }

    /// Whether somebody has written a target row after `ts`.
    pub(crate) fn is_changed_since(&self, target: RowId, ts: Ts) -> bool {
        match self {
            MadeBy::Copy(copy) => copy.is_changed_since(target, ts),
            MadeBy::Lazy(lazy) => lazy.target().changed_since(target, ts),
        }
    }

    /// What a writer's own version of source rows makes of their target rows, where that differs.
    pub(crate) fn changes_of(
        &self,
        own: &Snapshot,
        rows: &[RowId],
    ) -> Result<Vec<(RowId, Option<Row>)>, SchemaError> {
        match self {
            MadeBy::Copy(copy) => copy.changes_of(own, rows),
            MadeBy::Lazy(lazy) => lazy.changes_of(own, rows),
        }
    }

    /// Makes the target row of a source row this, for a writer, if nobody has written it after `base`.
    /// Returns the row that it wrote.
    pub(crate) fn apply(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        source: RowId,
        made: &Option<Row>,
    ) -> Result<Option<RowId>, WriteStop> {
        match self {
            MadeBy::Copy(copy) => copy.apply(txn, base, source, made),
            MadeBy::Lazy(lazy) => LazyTable::carry_over(lazy, txn, base, source, made),
        }
    }
}
