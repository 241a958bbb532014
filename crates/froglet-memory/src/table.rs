//! A row space under one layout: what readers and writers look up once per schema version.
//! Reading is in `read`, writing in `write`, migrating in `migrate`.

use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use crossbeam_epoch as epoch;
use froglet_engine::{
    BlockRows, ColumnFill, ColumnId, ColumnSpec, ColumnStats, Direction, EngineError, EngineTxn,
    Feed, IndexBuild, IndexId, Install, Installs, KeyRange, Layout, MigrateError, Row, RowId,
    RowWrite, Savepoint, Snapshot, SpaceId, Table, Ts, TxnId, WriteStop,
};
use smallvec::SmallVec;

use crate::build::Build;
use crate::column::{Column, Wanted};
use crate::engine::Core;
use crate::keys::{Index, conflict};
use crate::space::Space;
use crate::txn::MemoryTxn;

/// A table of the memory engine.
pub struct MemoryTable {
    pub(crate) core: Arc<Core>,
    pub(crate) space: Arc<Space>,
    layout: Arc<Layout>,
    /// The layout's columns.
    pub(crate) columns: Vec<Wanted>,
    /// Layout positions by ascending column id.
    by_id: Vec<usize>,
    /// The layout's indexes.
    pub(crate) indexes: Vec<Arc<Index>>,
    /// For each index and part the column's layout position.
    key_positions: Vec<SmallVec<[Option<usize>; 4]>>,
    all: SchemaRef,
}

impl std::fmt::Debug for MemoryTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryTable(space {} with {} columns)", self.space.id, self.columns.len())
    }
}

/// The columns of a layout as blocks look them up.
pub(crate) fn wanted(layout: &Layout) -> Vec<Wanted> {
    let rank = |id: ColumnId| layout.columns.iter().filter(|c| c.id < id).count();
    let want = |c: &ColumnSpec| Wanted {
        id: c.id,
        ty: c.ty,
        missing: c.missing.clone(),
        hint: rank(c.id),
    };
    layout.columns.iter().map(want).collect()
}

impl MemoryTable {
    pub(crate) fn new(
        core: Arc<Core>,
        space: Arc<Space>,
        layout: Arc<Layout>,
        indexes: Vec<Arc<Index>>,
    ) -> MemoryTable {
        let columns = wanted(&layout);
        let mut by_id: Vec<usize> = (0..columns.len()).collect();
        by_id.sort_unstable_by_key(|&at| columns[at].id);
        let position = |part: &Wanted| layout.position(part.id);
        let key_positions =
            indexes.iter().map(|index| index.parts.iter().map(position).collect()).collect();
        let all = crate::arrow::schema_of(columns.iter());
        MemoryTable { core, space, layout, columns, by_id, indexes, key_positions, all }
    }

    /// The schema of a projection.
    pub(crate) fn schema(&self, projection: &[usize]) -> SchemaRef {
        if projection.len() == self.columns.len()
            && projection.iter().enumerate().all(|(i, &p)| i == p)
        {
            return Arc::clone(&self.all);
        }
        crate::arrow::schema_of(projection.iter().map(|&p| &self.columns[p]))
    }

    /// The layout position of a part of an index's key.
    pub(crate) fn key_position(&self, index: usize, part: usize) -> Option<usize> {
        self.key_positions[index][part]
    }

    /// Layout positions by ascending column id.
    pub(crate) fn by_id(&self) -> &[usize] {
        &self.by_id
    }

    /// The index at a layout position.
    pub(crate) fn index(&self, at: usize) -> &Arc<Index> {
        &self.indexes[at]
    }

    /// Entries of the index at a layout position, stale ones included.
    pub fn index_entries(&self, at: usize) -> usize {
        self.indexes[at].tree.len()
    }

    /// The entries themselves, in order.
    pub fn list_index(&self, at: usize) -> Vec<(Vec<u8>, RowId)> {
        let mut entries = Vec::new();
        self.indexes[at].tree.for_each(|key, rid| entries.push((key.to_vec(), RowId(rid))));
        entries
    }

    /// Blocks whose entries a build of the index will take from a checkpoint.
    pub fn blocks_saved(&self, at: usize) -> usize {
        let snapshots = self.space.snapshots.lock();
        let saved = snapshots.iter().find(|saved| saved.spec == self.indexes[at].spec);
        let blocks = 0..self.space.block_count();
        saved.map_or(0, |saved| blocks.filter(|block| saved.covers(*block)).count())
    }

    /// Versions of rows beside the newest ones, in whatever state.
    pub fn old_versions(&self) -> u64 {
        self.space.blocks().map(|(_, block)| block.linked()).sum()
    }

    /// The position of an index in the layout.
    pub fn index_position(&self, id: IndexId) -> Option<usize> {
        self.layout.index_position(id)
    }

    /// What stops a write has been committed by somebody, perhaps not durably yet, and the error
    /// will tell of it.
    fn stopped(&self, txn: &MemoryTxn, stop: WriteStop) -> WriteStop {
        if !matches!(stop, WriteStop::Busy { .. }) {
            txn.snapshot().note_seen(Ts(self.core.timeline.now()));
        }
        stop
    }
}

/// The memory engine's own transaction.
fn own_txn(txn: &mut dyn EngineTxn) -> &mut MemoryTxn {
    txn.as_any_mut().downcast_mut().expect("a transaction part belongs to the engine that began it")
}

impl Table for MemoryTable {
    fn space(&self) -> SpaceId {
        self.space.id
    }

    fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn row_estimate(&self) -> u64 {
        self.space.row_estimate()
    }

    fn bytes_estimate(&self) -> u64 {
        self.space.bytes_estimate(&epoch::pin())
    }

    fn block_count(&self) -> u32 {
        self.space.block_count()
    }

    fn read_block(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<BlockRows, EngineError> {
        self.read_all(snapshot, block, projection)
    }

    fn read_batch(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<RecordBatch, EngineError> {
        Ok(self.batch_of_block(snapshot, block, projection).1)
    }

    fn block_stats(&self, block: u32, column: usize) -> Option<ColumnStats> {
        self.stats(block, column, |column| column.stats().cloned())
    }

    fn block_distinct(&self, block: u32, column: usize) -> Option<usize> {
        self.stats(block, column, Column::distinct)
    }

    fn read_row(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
    ) -> bool {
        self.get(snapshot, rid, projection, out)
    }

    fn get_by_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        projection: &[usize],
        out: &mut Row,
    ) -> Option<RowId> {
        self.row_by_key(snapshot, index, key, projection, out)
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
        self.seek_rows(snapshot, index, range, direction, projection, visit);
    }

    fn seek_entries(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(RowId) -> ControlFlow<()>,
    ) {
        self.scan_index(index, range, direction, &mut |_, rid| visit(rid));
    }

    fn insert(
        &self,
        txn: &mut dyn EngineTxn,
        rows: &[Row],
        rids: &mut Vec<RowId>,
    ) -> Result<(), (usize, WriteStop)> {
        let txn = own_txn(txn);
        for (n, row) in rows.iter().enumerate() {
            let inserted = self.insert_row(txn, row);
            rids.push(inserted.map_err(|stop| (n, self.stopped(txn, stop)))?);
        }
        Ok(())
    }

    fn write(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        writes: &[RowWrite<'_>],
    ) -> Result<(), (usize, WriteStop)> {
        let txn = own_txn(txn);
        writes.iter().enumerate().try_for_each(|(n, write)| {
            self.write_one(txn, base, write).map_err(|stop| (n, self.stopped(txn, stop)))
        })
    }

    fn changer(&self, rid: RowId, columns: &[usize], own: TxnId) -> Option<TxnId> {
        self.open_changer(rid, columns, own)
    }

    fn changed_since(&self, rid: RowId, ts: Ts) -> bool {
        self.newest_commit(rid).is_some_and(|newest| newest > ts.0)
    }

    fn plan_moves(&self, cold_only: bool) -> Vec<(RowId, RowId)> {
        self.core.plan_moves(&self.space, cold_only)
    }

    fn move_row(&self, txn: &mut dyn EngineTxn, from: RowId, to: RowId) -> Result<(), WriteStop> {
        self.move_one(own_txn(txn), from, to)
    }

    fn open_feed(&self) -> Box<dyn Feed> {
        self.space.open_feed()
    }

    fn migrate_block(
        &self,
        owner: TxnId,
        since: Savepoint,
        block: u32,
        rows: Option<&[RowId]>,
        source: &[usize],
        target: &[usize],
        transform: &mut dyn FnMut(&BlockRows) -> Result<ColumnFill, MigrateError>,
    ) -> Result<u64, MigrateError> {
        self.migrate(owner, since, block, rows, source, target, transform)
    }

    fn index_block(
        &self,
        owner: TxnId,
        index: usize,
        block: u32,
        duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError> {
        self.enter_block(owner, index, block, duplicates)
    }

    fn index_rows(
        &self,
        owner: TxnId,
        index: usize,
        rows: &[RowId],
        duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError> {
        self.enter_rows(owner, index, rows, duplicates)
    }

    fn share_key(&self, owner: TxnId, index: usize, a: RowId, b: RowId) -> bool {
        // One timestamp for both rows.
        let snapshot = self.core.fresh(owner);
        let view = self.view(&snapshot);
        let key = self.key_in(&view, index, a);
        key.is_some() && key == self.key_in(&view, index, b)
    }

    fn rival(&self, own: TxnId, index: usize, row: RowId) -> Option<WriteStop> {
        let snapshot = self.core.fresh(own);
        let key = self.key_in(&self.view(&snapshot), index, row)?;
        let (at, guard) = (self.index(index), epoch::pin());
        let _stripe = self.core.stripes.lock(at, &key);
        conflict(&self.core.timeline, &self.space, at, &key, Some(row), own.0, &guard)
    }

    fn build_index(self: Arc<Self>, index: usize) -> Option<Box<dyn IndexBuild>> {
        Some(Box::new(Build::begin(self, index)?))
    }

    fn index_row(
        &self,
        txn: &mut dyn EngineTxn,
        rid: RowId,
        indexes: &[usize],
    ) -> Result<(), WriteStop> {
        self.index_own(own_txn(txn), rid, indexes)
    }

    fn reserve(&self, tail: RowId, is_free: &dyn Fn(RowId) -> bool) -> Result<(), EngineError> {
        self.reserve_rows(tail, is_free)
    }

    fn take_row_ids(&self, n: usize) -> Result<Vec<RowId>, EngineError> {
        self.take_rows(n)
    }

    fn install(&self, install: &Install<'_>, done: &mut dyn FnMut()) -> Result<(), EngineError> {
        self.install_rows(install, done)
    }

    fn follow_installs(&self, installs: Arc<dyn Installs>) -> Vec<Vec<u8>> {
        let mut notes = self.space.notes.lock();
        notes.source = Some(installs);
        std::mem::take(&mut notes.recovered)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
