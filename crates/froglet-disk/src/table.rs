//! A row space under one layout, behind [`Table`]: what is asked, and where it is answered.
//!
//! What cannot fail in memory may fail here: such a read ends with [`ReadFailed`].

use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use froglet_engine::batch::batch_of;
use froglet_engine::{
    BlockRows, ColumnFill, ColumnId, Direction, EngineError, EngineTxn, Feed, IndexBuild, Install,
    Installs, KeyRange, Layout, MigrateError, ReadFailed, Row, RowId, RowWrite, Savepoint,
    Snapshot, SpaceId, Table, Ts, TxnId, WriteStop,
};

use crate::engine::Core;
use crate::keys;
use crate::space::{Index, Space};
use crate::store::{Store, Tree};
use crate::txn::DiskTxn;
use crate::version::Wanted;

/// A table on disk.
pub struct DiskTable {
    pub(crate) core: Arc<Core>,
    pub(crate) space: Arc<Space>,
    pub(crate) layout: Arc<Layout>,
    /// The layout's indexes.
    pub(crate) indexes: Vec<Arc<Index>>,
}

impl std::fmt::Debug for DiskTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskTable(space {})", self.space.id)
    }
}

impl DiskTable {
    pub(crate) fn new(core: Arc<Core>, space: Arc<Space>, layout: Arc<Layout>) -> DiskTable {
        let indexes = layout.indexes.iter().map(|spec| space.make_index(spec)).collect();
        DiskTable { core, space, layout, indexes }
    }

    /// The columns at layout positions.
    pub(crate) fn wanted(&self, positions: &[usize]) -> Wanted {
        let columns = positions.iter().map(|&at| &self.layout.columns[at]);
        Wanted::new(columns.map(|column| (column.id, column.missing.clone())))
    }

    /// What stops a write has been committed by somebody, perhaps not durably yet, and the error will tell of it.
    fn stopped(&self, txn: &dyn EngineTxn, stop: WriteStop) -> WriteStop {
        if !matches!(stop, WriteStop::Busy { .. }) {
            let now = self.core.clock.load(Ordering::SeqCst);
            self.core.crossings().seen(txn.snapshot(), Ts(now));
        }
        stop
    }

    /// Entries of the index at a layout position, stale ones included.
    pub fn index_entries(&self, at: usize) -> Result<usize, EngineError> {
        let mut entries = 0;
        let all = KeyRange::all();
        self.core.entries(&self.indexes[at], &all, Direction::Forward, &mut |_, _| {
            entries += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(entries)
    }

    /// Versions of rows beside the newest ones.
    pub fn old_versions(&self) -> Result<usize, EngineError> {
        let (from, to) = keys::space(self.space.id);
        let mut versions = 0;
        self.core.store.range(Tree::History, &from, &to, false, &mut |_, _| {
            versions += 1;
            true
        })?;
        Ok(versions + self.core.recent.count(self.space.id))
    }

    /// Reads a part of a block; where the next one begins.
    fn read_into(
        &self,
        read: &mut Read,
        snapshot: &Snapshot,
        from: RowId,
        projection: &[usize],
    ) -> Result<Option<RowId>, EngineError> {
        let wanted = self.wanted(projection);
        let (part, next) = self.core.block_part(self.core.view(snapshot), &self.space, from)?;
        part.iter().try_for_each(|(rid, cells)| read.push(&wanted, *rid, cells))?;
        Ok(next)
    }

    pub(crate) fn batch_of(&self, read: Read, projection: &[usize]) -> BlockRows {
        let types: Vec<_> = projection.iter().map(|&at| self.layout.columns[at].ty).collect();
        BlockRows { rids: read.rids, batch: batch_of(&types, &read.rows) }
    }

    fn ids(&self, positions: &[usize]) -> Vec<ColumnId> {
        positions.iter().map(|&at| self.layout.columns[at].id).collect()
    }
}

/// Rows that were read, and are no batch yet.
#[derive(Default)]
pub(crate) struct Read {
    rids: Vec<RowId>,
    rows: Vec<Row>,
}

impl Read {
    pub fn push(&mut self, wanted: &Wanted, rid: RowId, cells: &[u8]) -> Result<(), EngineError> {
        let mut row = Row::new();
        wanted.read(cells, &mut row)?;
        self.rids.push(rid);
        self.rows.push(row);
        Ok(())
    }
}

/// The disk engine's own transaction.
fn own_txn(txn: &mut dyn EngineTxn) -> Result<&mut DiskTxn, EngineError> {
    let part = txn.beside()?;
    Ok(part.downcast_mut().expect("a transaction part belongs to the engine that began it"))
}

/// The answer of a read that has no error to return.
fn read<T>(answer: Result<T, EngineError>) -> T {
    answer.unwrap_or_else(|error| ReadFailed::unwind(error))
}

impl Table for DiskTable {
    fn space(&self) -> SpaceId {
        self.space.id
    }

    fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn row_estimate(&self) -> u64 {
        self.space.rows.load(Ordering::Relaxed).max(0) as u64
    }

    fn bytes_estimate(&self) -> u64 {
        self.space.bytes.load(Ordering::Relaxed).max(0) as u64
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
        let mut read = Read::default();
        let mut next = Some(RowId::of(block, 0));
        while let Some(from) = next {
            // What is not wanted of a part goes before the next one is read.
            next = self.read_into(&mut read, snapshot, from, projection)?;
        }
        Ok(self.batch_of(read, projection))
    }

    fn read_part(
        &self,
        snapshot: &Snapshot,
        from: RowId,
        projection: &[usize],
    ) -> Result<(BlockRows, Option<RowId>), EngineError> {
        let mut read = Read::default();
        let next = self.read_into(&mut read, snapshot, from, projection)?;
        Ok((self.batch_of(read, projection), next))
    }

    fn has_parts(&self) -> bool {
        true
    }

    fn read_row(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
    ) -> bool {
        match read(self.core.row(self.core.view(snapshot), &self.space, rid)) {
            Some(cells) => {
                read(self.wanted(projection).read(&cells, out));
                true
            }
            None => false,
        }
    }

    fn read_rows(
        &self,
        snapshot: &Snapshot,
        rids: &[RowId],
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row),
    ) {
        let (view, wanted) = (self.core.view(snapshot), self.wanted(projection));
        let rows = self.core.reads.all(rids, |_, some| {
            let mut rows = Vec::with_capacity(some.len());
            for rid in some {
                let Some(cells) = self.core.row(view, &self.space, *rid)? else { continue };
                let mut row = Row::new();
                wanted.read(&cells, &mut row)?;
                rows.push((*rid, row));
            }
            Ok(rows)
        });
        read(rows).into_iter().for_each(|(rid, mut row)| visit(rid, &mut row));
    }

    fn get_by_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        projection: &[usize],
        out: &mut Row,
    ) -> Option<RowId> {
        let mut found = None;
        let range = KeyRange::exactly(key);
        self.seek(snapshot, index, &range, Direction::Forward, projection, &mut |rid, row| {
            out.append(row);
            found = Some(rid);
            ControlFlow::Break(())
        });
        found
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
        let (view, wanted) = (self.core.view(snapshot), self.wanted(projection));
        let mut row = Row::new();
        let index = &self.indexes[index];
        read(self.core.rows_by_key(
            view,
            &self.space,
            index,
            range,
            direction,
            &mut |rid, cells| {
                row.clear();
                wanted.read(cells, &mut row)?;
                Ok(visit(rid, &mut row))
            },
        ));
    }

    fn seek_all(
        &self,
        snapshot: &Snapshot,
        index: usize,
        ranges: &[KeyRange],
        projection: &[usize],
        visit: &mut dyn FnMut(usize, RowId, &mut Row),
    ) {
        let (view, wanted) = (self.core.view(snapshot), self.wanted(projection));
        let index = &self.indexes[index];
        let rows = self.core.reads.all(ranges, |first, some| {
            let mut rows = Vec::with_capacity(some.len());
            for (number, range) in (first..).zip(some) {
                let direction = Direction::Forward;
                self.core.rows_by_key(
                    view,
                    &self.space,
                    index,
                    range,
                    direction,
                    &mut |rid, cells| {
                        let mut row = Row::new();
                        wanted.read(cells, &mut row)?;
                        rows.push((number, rid, row));
                        Ok(ControlFlow::Continue(()))
                    },
                )?;
            }
            Ok(rows)
        });
        read(rows).into_iter().for_each(|(number, rid, mut row)| visit(number, rid, &mut row));
    }

    fn seek_entries(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(RowId) -> ControlFlow<()>,
    ) {
        let index = &self.indexes[index];
        read(self.core.entries(index, range, direction, &mut |_, rid| Ok(visit(rid))));
    }

    fn insert(
        &self,
        txn: &mut dyn EngineTxn,
        rows: &[Row],
        rids: &mut Vec<RowId>,
    ) -> Result<(), (usize, WriteStop)> {
        for (n, row) in rows.iter().enumerate() {
            let part = own_txn(txn).map_err(|error| (n, error.into()))?;
            let inserted = self.insert_row(part, row);
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
        for (n, write) in writes.iter().enumerate() {
            let part = own_txn(txn).map_err(|error| (n, error.into()))?;
            let written = self.write_one(part, base, write);
            written.map_err(|stop| (n, self.stopped(txn, stop)))?;
        }
        Ok(())
    }

    fn changer(&self, rid: RowId, columns: &[usize], own: TxnId) -> Option<TxnId> {
        self.core.changer(&self.space, rid, &self.ids(columns), own)
    }

    fn changed_since(&self, rid: RowId, ts: Ts) -> bool {
        read(self.core.changed_since(&self.space, rid, ts))
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
        read(self.shares_key(owner, index, a, b))
    }

    fn rival(&self, own: TxnId, index: usize, row: RowId) -> Option<WriteStop> {
        let (snapshot, index) = (self.core.crossings().fresh(own), &self.indexes[index]);
        let key = read(self.core.key_in(&snapshot, &self.space, index, row))?;
        read(self.core.conflict(&self.space, index, &key, Some(row), own))
    }

    fn build_index(self: Arc<Self>, _index: usize) -> Option<Box<dyn IndexBuild>> {
        // Block by block: the store sorts.
        None
    }

    fn has_recovered(&self, index: usize) -> bool {
        self.indexes[index].is_recovered
    }

    fn index_row(
        &self,
        txn: &mut dyn EngineTxn,
        rid: RowId,
        indexes: &[usize],
    ) -> Result<(), WriteStop> {
        self.index_own(own_txn(txn)?, rid, indexes)
    }

    fn reserve(&self, tail: RowId, _is_free: &dyn Fn(RowId) -> bool) -> Result<(), EngineError> {
        // Row ids are used once: those that are free stay so.
        self.space.raise(tail.0);
        Ok(())
    }

    fn take_row_ids(&self, n: usize) -> Result<Vec<RowId>, EngineError> {
        let first = self.space.take_rows(n as u64);
        Ok((first..first + n as u64).map(RowId).collect())
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
