//! A table whose rows are still being made lazily, of several rows each, as everybody reads and writes it:
//! they have places of their own, that nobody knows before they are made.
//!
//! ```text
//!   a key, a range    the units of the sources' rows in that range ─▶ made, then the table
//!   all rows          all units made, then the table
//!   a write           its row is there; the units whose unique key it takes ─▶ made, then written
//! ```
//!
//! As in `lazy_table.rs` every way to the rows leads through here, and before the commit the owner reads what
//! the query makes of what he sees, and writes nothing.

use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    BlockRows, ColumnType, Direction, EngineError, EngineTxn, Install, KeyRange, Layout, Row,
    RowId, RowWrite, Snapshot, Table, Ts, WriteStop, batch,
};
use froglet_txn::{Limits, aside};

use crate::delegate::{delegate_migration_to_table, delegate_to_table};
use crate::error::SchemaError;
use crate::keyed_rows::KeyedRows;
use crate::lazy::{Columns, LazyMigration, as_engine, made};
use crate::lazy_table::{refused_to_owner, stop, taken_keys, unique_keys};
use crate::rows::{row_at, types_of, values_of};

/// A lazy migration of such a table.
pub(crate) trait LazyPlaced: LazyMigration + 'static {
    /// A way from an index of the table to its units.
    type Route: Send + Sync;

    /// The best way from each index of a layout of the table.
    fn routes(&self, layout: &Layout) -> Vec<Option<Self::Route>>;
    /// Makes the rows in a range of a key; false if that cannot be done without making all.
    fn migrate_range(&self, route: &Self::Route, range: &KeyRange) -> Result<bool, SchemaError>;
    /// All rows, by block, as a view of the owner has them.
    fn own_rows(&self, snapshot: &Arc<Snapshot>) -> Result<Arc<Vec<RecordBatch>>, SchemaError>;
    /// Blocks of the tables that are read, as the owner has them.
    fn blocks_of_inputs(&self) -> u32;
}

/// What the owner has read last, before the commit: when, and by block.
#[derive(Default)]
pub(crate) struct OwnRows(Mutex<Option<(Ts, Arc<Vec<RecordBatch>>)>>);

impl OwnRows {
    /// The rows as of a time, which `make` makes.
    pub fn as_of(
        &self,
        ts: Ts,
        make: impl FnOnce() -> Result<RecordBatch, SchemaError>,
    ) -> Result<Arc<Vec<RecordBatch>>, SchemaError> {
        let mut own = self.0.lock();
        if let Some((of, rows)) = &*own
            && *of == ts
        {
            return Ok(rows.clone());
        }
        let whole = make()?;
        let rows = whole.num_rows();
        let blocks = (0..rows).step_by(ROWS_PER_BLOCK);
        let blocks = blocks.map(|at| whole.slice(at, ROWS_PER_BLOCK.min(rows - at)));
        let blocks = Arc::new(blocks.collect());
        *own = Some((ts, Arc::clone(&blocks)));
        Ok(blocks)
    }

    /// Nobody reads them any more.
    pub fn clear(&self) {
        *self.0.lock() = None;
    }
}

/// Puts rows, in the columns of their table, wherever there is a place.
pub(crate) fn install_placed(
    target: &dyn Table,
    types: &[ColumnType],
    rows: &RecordBatch,
    note: &[u8],
    done: &mut dyn FnMut(),
) -> Result<(), SchemaError> {
    let n = rows.num_rows();
    let values = values_of(rows.columns(), types, n);
    let rids = target.take_row_ids(n)?;
    let installed =
        target.install(&Install { rids: &rids, values: &values, empty: &[], note }, done);
    if let Err(error) = installed {
        // Nobody else has their places.
        let empty = Install { rids: &[], values: &[], empty: &rids, note: &[] };
        target.install(&empty, &mut || ())?;
        return Err(error.into());
    }
    Ok(())
}

/// See the module.
pub(crate) struct PlacedTable<L: LazyPlaced> {
    table: Arc<dyn Table>,
    lazy: Arc<L>,
    columns: Columns,
    /// The way from each index of the layout.
    routes: Vec<Option<L::Route>>,
}

impl<L: LazyPlaced> PlacedTable<L> {
    /// A table whose rows `lazy` makes.
    pub fn over(table: Arc<dyn Table>, lazy: Arc<L>) -> Arc<dyn Table> {
        let columns = Columns::of(table.layout(), &lazy.state().def.outputs);
        let routes = lazy.routes(table.layout());
        Arc::new(PlacedTable { table, lazy, columns, routes })
    }

    fn make_all(&self) -> Result<(), SchemaError> {
        if self.lazy.is_complete() {
            return Ok(());
        }
        self.lazy.migrate_all(&Limits::none())
    }

    fn make_range(&self, index: usize, range: &KeyRange) -> Result<(), SchemaError> {
        if self.lazy.is_complete() {
            return Ok(());
        }
        let is_made = match &self.routes[index] {
            Some(route) => aside(|| self.lazy.migrate_range(route, range))?,
            None => false,
        };
        if is_made { Ok(()) } else { self.make_all() }
    }

    /// The owner's rows, before the commit, by block.
    fn own(&self, snapshot: &Snapshot) -> Result<Arc<Vec<RecordBatch>>, SchemaError> {
        let view = Arc::new(Snapshot::new(snapshot.ts, snapshot.own, Box::new(())));
        let rows = self.lazy.own_rows(&view);
        snapshot.note_seen(view.newest_seen());
        rows
    }

    fn own_block(
        &self,
        snapshot: &Snapshot,
        block: u32,
        places: &[usize],
    ) -> Result<BlockRows, SchemaError> {
        let blocks = self.own(snapshot)?;
        let rows = blocks.get(block as usize).map_or(0, RecordBatch::num_rows);
        let made = blocks.get(block as usize).map_or(&[][..], RecordBatch::columns);
        let rids = (0..rows).map(|slot| RowId::of(block, slot)).collect();
        let batch = match rows {
            0 => batch::batch_of(&types_of(&*self.table, places), &[]),
            _ => self.columns.project(self.table.layout(), places, made, rows),
        };
        Ok(BlockRows { rids, batch })
    }

    fn own_range(
        &self,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
        projection: &[usize],
    ) -> KeyedRows {
        let layout = self.table.layout();
        let spec = &layout.indexes[index];
        let places = KeyedRows::places(layout, spec, projection);
        let types = &types_of(&*self.table, &places);
        let rows = (0..self.block_count_of_owner(snapshot)).flat_map(|block| {
            let BlockRows { rids, batch } = made(self.own_block(snapshot, block, &places));
            let row = move |(at, rid)| (rid, row_at(batch.columns(), types, at));
            rids.into_iter().enumerate().map(row)
        });
        KeyedRows::new(rows, spec, range)
    }

    fn block_count_of_owner(&self, snapshot: &Snapshot) -> u32 {
        made(self.own(snapshot)).len() as u32
    }
}

fn joined(mut parts: Vec<BlockRows>) -> BlockRows {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let schema = parts[0].batch.schema();
    let batch = concat_batches(&schema, parts.iter().map(|part| &part.batch));
    BlockRows {
        rids: parts.iter().flat_map(|part| part.rids.iter().copied()).collect(),
        batch: batch.expect("parts have the same columns"),
    }
}

impl<L: LazyPlaced> Table for PlacedTable<L> {
    fn read_block(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<BlockRows, EngineError> {
        if !self.lazy.is_live() {
            let last = self.block_count().saturating_sub(1);
            // A join may make more rows than its inputs have: the last block has them all.
            let blocks = self.own(snapshot).map_err(|e| as_engine(&e))?.len() as u32;
            let end = if block == last { blocks.max(block + 1) } else { block + 1 };
            let read = (block..end).map(|block| self.own_block(snapshot, block, projection));
            let read = read.collect::<Result<Vec<BlockRows>, _>>().map_err(|e| as_engine(&e))?;
            return Ok(joined(read));
        }
        self.table.read_block(snapshot, block, projection)
    }

    fn read_row(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
    ) -> bool {
        if self.lazy.is_live() {
            return self.table.read_row(snapshot, rid, projection, out);
        }
        let read = made(self.own_block(snapshot, rid.block(), projection));
        let is_there = rid.slot() < read.rids.len();
        if is_there {
            let types = types_of(&*self.table, projection);
            out.extend(row_at(read.batch.columns(), &types, rid.slot()));
        }
        is_there
    }

    fn get_by_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        projection: &[usize],
        out: &mut Row,
    ) -> Option<RowId> {
        if !self.lazy.is_live() {
            let found = self.own_range(snapshot, index, &KeyRange::exactly(key), projection);
            return found.first(out);
        }
        // Of two rows with one unique key a view sees one.
        let is_unique = self.table.layout().indexes[index].unique;
        if is_unique {
            let found = self.table.get_by_key(snapshot, index, key, projection, out);
            if found.is_some() || self.lazy.is_complete() {
                return found;
            }
        }
        made(self.make_range(index, &KeyRange::exactly(key)));
        self.table.get_by_key(snapshot, index, key, projection, out)
    }

    fn seek(
        &self,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row) -> ControlFlow<()>,
    ) {
        if self.lazy.is_live() {
            made(self.make_range(index, range));
            return self.table.seek(snapshot, index, range, direction, projection, visit);
        }
        self.own_range(snapshot, index, range, projection).visit(direction, visit);
    }

    fn row_estimate(&self) -> u64 {
        self.table.row_estimate() + self.lazy.rows_left()
    }

    fn block_count(&self) -> u32 {
        match self.lazy.is_live() {
            true => self.table.block_count(),
            // As many as the inputs have, at most: who reads past the last finds nothing.
            false => self.lazy.blocks_of_inputs(),
        }
    }

    fn scan_blocks(&self) -> u32 {
        if self.lazy.is_live() {
            // Rows that are still to be made will be in blocks that are not there yet.
            made(self.make_all());
        }
        self.block_count()
    }

    fn insert(
        &self,
        txn: &mut dyn EngineTxn,
        rows: &[Row],
        rids: &mut Vec<RowId>,
    ) -> Result<(), (usize, WriteStop)> {
        refused_to_owner(&*self.lazy)?;
        if !self.lazy.is_complete() {
            for row in rows {
                for (index, range) in unique_keys(self.table.layout(), row, |_| true) {
                    self.make_range(index, &range).map_err(|e| (0, stop(e)))?;
                }
            }
        }
        self.table.insert(txn, rows, rids)
    }

    fn write(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        writes: &[RowWrite<'_>],
    ) -> Result<(), (usize, WriteStop)> {
        refused_to_owner(&*self.lazy)?;
        if !self.lazy.is_complete() {
            for write in writes {
                for (index, range) in taken_keys(&*self.table, txn, write) {
                    self.make_range(index, &range).map_err(|e| (0, stop(e)))?;
                }
            }
        }
        self.table.write(txn, base, writes)
    }

    fn changed_since(&self, rid: RowId, ts: Ts) -> bool {
        self.table.changed_since(rid, ts)
    }

    delegate_to_table!();
    delegate_migration_to_table!();
}
