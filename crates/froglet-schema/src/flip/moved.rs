//! A table whose rows have gone elsewhere, as long as somebody may still write them where they were.
//!
//! ```text
//!   old space    row 17   written or held by who began before the flip ──── until its commit, which carries it over
//!                  │
//!   new space    row 4    who writes it holds row 17 first
//! ```
//!
//! A row has one lock, though it has two places: without that, both could write it, and the one under the older schema
//! would have to run again at its commit.
//!
//! V1: whoever writes a row of the new space, and began after the flip, holds the row of the old space that it was
//!     copied from, and waits for who holds that in any way. Rows that came later have no other.
//! V2: whoever waits in the old space for one of these looks at the newest schema before it goes on (`is_outrun` in
//!     froglet-sql), and finds the row where it is.
//! V3: who has not waited, since it came to the row of the old space after the other had ended, is told by the row of
//!     the new space when it is carried over: that has changed since the flip.
//! V4: a row that has moved twice is held in all three places.
//! V5: it is over when no snapshot is older than the flip. From then on the table is what stands behind this.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use froglet_engine::{
    BlockRows, ColumnId, ColumnStats, Direction, EngineError, EngineTxn, KeyRange, Row, RowId,
    RowWrite, Snapshot, Table, Ts, TxnId, WriteStop,
};
use froglet_txn::{Strength, TxnManager};
use parking_lot::RwLock;

use crate::catalog::{Catalog, CatalogVersion, TableVersion};
use crate::delegate::{delegate_all_but_changer, delegate_migration_to_table};
use crate::flip::made_by::MadeBy;
use crate::local::{Changed, Changes};

/// A table's move, until it is over.
pub(crate) struct Move {
    /// When it was committed.
    ts: Ts,
    manager: Arc<TxnManager>,
    /// What it holds until it is over: the rows that were left are not to outlive it.
    under_way: RwLock<Option<UnderWay>>,
    is_over: AtomicBool,
}

/// A move that is not over.
#[derive(Clone)]
struct UnderWay {
    made: MadeBy,
    /// A move into the rows that were copied, if that was not over [V4].
    before: Option<Arc<Move>>,
}

impl Move {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn under_way(&self) -> Option<UnderWay> {
        self.under_way.read().clone()
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        *self.under_way.write() = None;
    }

    /// Holds the rows that a row of `table` was copied from [V1]; none, while it has to wait.
    fn hold(
        &self,
        table: &dyn Table,
        txn: &mut dyn EngineTxn,
        write: &RowWrite<'_>,
    ) -> Result<(), WriteStop> {
        let is_held = self.manager.row_locks().any(Strength::KeyShare);
        let now = is_held.then(|| self.manager.engine().fresh(txn.id()));
        let least = now.map_or(Strength::Share, |now| kept_out_by(table, &now, write));
        if let Some(holder) = self.holder(write.rid(), least, txn.id()) {
            return Err(WriteStop::Busy { holder });
        }
        let before = txn.savepoint();
        self.hold_source(txn, write.rid(), least).inspect_err(|_| txn.rollback_to(before))
    }

    /// Who else holds the row that a row was copied from, at least so.
    fn holder(&self, row: RowId, least: Strength, me: TxnId) -> Option<TxnId> {
        let locks = self.manager.row_locks();
        if !locks.any(least) {
            return None;
        }
        let UnderWay { made, before } = self.under_way()?;
        let source = made.source_of(row)?;
        let holder = locks.other_holder((made.source_table().space(), source), me, least);
        holder.or_else(|| before?.holder(source, least, me))
    }

    fn hold_source(
        &self,
        txn: &mut dyn EngineTxn,
        row: RowId,
        least: Strength,
    ) -> Result<(), WriteStop> {
        let Some(UnderWay { made, before }) = self.under_way() else { return Ok(()) };
        let Some(source) = made.source_of(row) else { return Ok(()) };
        let rows = made.source_table();
        // Who has changed it, or taken it away, has done so here, too.
        let lock = [RowWrite::Lock { rid: source }];
        if let Err((_, stop @ (WriteStop::Busy { .. } | WriteStop::Engine(_)))) =
            rows.write(txn, Ts::LATEST, &lock)
        {
            return Err(stop);
        }
        // As any writer looks, before and after [R2 of `rowlocks`].
        let locks = self.manager.row_locks();
        if let Some(holder) = locks.other_holder((rows.space(), source), txn.id(), least) {
            return Err(WriteStop::Busy { holder });
        }
        before.map_or(Ok(()), |before| before.hold_source(txn, source, least))
    }

    /// Who is changing one of some columns of the row that a row was copied from.
    fn changer(&self, row: RowId, columns: &[ColumnId], own: TxnId) -> Option<TxnId> {
        let UnderWay { made, before } = self.under_way()?;
        let (source, rows) = (made.source_of(row)?, made.source_table());
        let places = columns.iter().filter_map(|column| rows.layout().position(*column));
        let changer = rows.changer(source, &places.collect::<Vec<_>>(), own);
        changer.or_else(|| before?.changer(source, columns, own))
    }
}

/// Who holds a row at least so keeps a write of it out ([`froglet_txn::rowlocks`]).
pub(crate) fn kept_out_by(table: &dyn Table, now: &Snapshot, write: &RowWrite<'_>) -> Strength {
    let (rid, columns, values) = match write {
        RowWrite::Delete { .. } => return Strength::KeyShare,
        RowWrite::Lock { .. } => return Strength::Share,
        RowWrite::Update { rid, columns, values } => (*rid, *columns, *values),
    };
    let layout = table.layout();
    let unique = layout.indexes.iter().filter(|index| index.unique);
    let mut keys: Vec<usize> = unique.flat_map(|index| layout.key_positions(index)).collect();
    keys.retain(|key| columns.contains(key));
    let mut was = Row::new();
    if keys.is_empty() || !table.read_row(now, rid, &keys, &mut was) {
        return Strength::Share;
    }
    let new = |key: &usize| columns.iter().position(|column| column == key).map(|at| &values[at]);
    match keys.iter().zip(&was).all(|(key, was)| new(key) == Some(was)) {
        true => Strength::Share,
        false => Strength::KeyShare,
    }
}

/// See the module.
struct MovedTable {
    table: Arc<dyn Table>,
    of: Arc<Move>,
}

impl MovedTable {
    /// What has stopped a write: a key that another is about to give up where its row was is waited for.
    fn stopped(&self, me: TxnId, stop: WriteStop) -> WriteStop {
        let WriteStop::Duplicate { index, other } = stop else { return stop };
        let layout = self.table.layout();
        let spec = layout.index_position(index).map(|at| &layout.indexes[at]);
        let key: Vec<ColumnId> =
            spec.iter().flat_map(|spec| &spec.key).map(|part| part.column).collect();
        match self.of.changer(other, &key, me) {
            Some(holder) => WriteStop::Busy { holder },
            None => stop,
        }
    }
}

impl Table for MovedTable {
    fn write(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        writes: &[RowWrite<'_>],
    ) -> Result<(), (usize, WriteStop)> {
        if self.of.is_over() {
            return self.table.write(txn, base, writes);
        }
        for (n, write) in writes.iter().enumerate() {
            self.of.hold(&*self.table, txn, write).map_err(|stop| (n, stop))?;
            let written = self.table.write(txn, base, std::slice::from_ref(write));
            written.map_err(|(_, stop)| (n, self.stopped(txn.id(), stop)))?;
        }
        Ok(())
    }

    fn changer(&self, rid: RowId, columns: &[usize], own: TxnId) -> Option<TxnId> {
        let here = self.table.changer(rid, columns, own);
        here.or_else(|| {
            let layout = self.table.layout();
            let columns: Vec<ColumnId> = columns.iter().map(|at| layout.columns[*at].id).collect();
            self.of.changer(rid, &columns, own)
        })
    }

    fn plan_moves(&self, cold_only: bool) -> Vec<(RowId, RowId)> {
        match self.of.is_over() {
            true => self.table.plan_moves(cold_only),
            // Where a row was copied to is known by its place.
            false => Vec::new(),
        }
    }

    fn move_row(&self, txn: &mut dyn EngineTxn, from: RowId, to: RowId) -> Result<(), WriteStop> {
        self.table.move_row(txn, from, to)
    }

    fn insert(
        &self,
        txn: &mut dyn EngineTxn,
        rows: &[Row],
        rids: &mut Vec<RowId>,
    ) -> Result<(), (usize, WriteStop)> {
        let inserted = self.table.insert(txn, rows, rids);
        inserted.map_err(|(n, stop)| (n, self.stopped(txn.id(), stop)))
    }

    fn row_estimate(&self) -> u64 {
        self.table.row_estimate()
    }

    fn block_count(&self) -> u32 {
        self.table.block_count()
    }

    fn scan_blocks(&self) -> u32 {
        self.table.scan_blocks()
    }

    fn read_block(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<BlockRows, EngineError> {
        self.table.read_block(snapshot, block, projection)
    }

    fn read_part(
        &self,
        snapshot: &Snapshot,
        from: RowId,
        projection: &[usize],
    ) -> Result<(BlockRows, Option<RowId>), EngineError> {
        self.table.read_part(snapshot, from, projection)
    }

    fn has_parts(&self) -> bool {
        self.table.has_parts()
    }

    fn read_batch(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<RecordBatch, EngineError> {
        self.table.read_batch(snapshot, block, projection)
    }

    fn block_stats(&self, block: u32, column: usize) -> Option<ColumnStats> {
        self.table.block_stats(block, column)
    }

    fn block_distinct(&self, block: u32, column: usize) -> Option<usize> {
        self.table.block_distinct(block, column)
    }

    fn read_row(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
    ) -> bool {
        self.table.read_row(snapshot, rid, projection, out)
    }

    fn read_rows(
        &self,
        snapshot: &Snapshot,
        rids: &[RowId],
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row),
    ) {
        self.table.read_rows(snapshot, rids, projection, visit);
    }

    fn get_by_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        projection: &[usize],
        out: &mut Row,
    ) -> Option<RowId> {
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
        self.table.seek(snapshot, index, range, direction, projection, visit);
    }

    fn seek_all(
        &self,
        snapshot: &Snapshot,
        index: usize,
        ranges: &[KeyRange],
        projection: &[usize],
        visit: &mut dyn FnMut(usize, RowId, &mut Row),
    ) {
        self.table.seek_all(snapshot, index, ranges, projection, visit);
    }

    fn changed_since(&self, rid: RowId, ts: Ts) -> bool {
        self.table.changed_since(rid, ts)
    }

    delegate_all_but_changer!();
    delegate_migration_to_table!();
}

impl Catalog {
    /// The tables that a committed transaction has moved stand behind their moves from now on.
    pub(crate) fn begin_moves(&self, changes: &mut Changes, before: &CatalogVersion, ts: Ts) {
        for id in changes.moved.keys().copied().collect::<Vec<_>>() {
            let Some(Some(Changed::Table(version))) = changes.objects.get(&id) else { continue };
            let version = version.clone();
            let from = before.tables.get(&id).map(|known| known.def.space);
            let made = from.and_then(|from| changes.move_out_of(from, &version.def));
            let Some(made) = made else { continue };
            let before = self.moves.read().get(&made.source_table().space()).cloned();
            let of = Arc::new(Move {
                ts,
                manager: self.manager().clone(),
                under_way: RwLock::new(Some(UnderWay { made, before })),
                is_over: AtomicBool::new(false),
            });
            self.moves.write().insert(version.def.space, of.clone());
            let table = Arc::new(MovedTable { table: version.table.clone(), of });
            let version = TableVersion::new(version.def.clone(), version.version, table);
            changes.objects.insert(id, Some(Changed::Table(Arc::new(version))));
        }
    }

    /// A table behind its move, if it was moved a moment ago.
    pub(crate) fn with_move(&self, table: Arc<dyn Table>) -> Arc<dyn Table> {
        match self.moves.read().get(&table.space()) {
            Some(of) => Arc::new(MovedTable { table, of: of.clone() }),
            None => table,
        }
    }

    /// Moves that no snapshot is older than are over [V5].
    pub(crate) fn end_moves(&self, oldest: Ts) {
        if self.moves.read().is_empty() {
            return;
        }
        let mut ended = Vec::new();
        self.moves.write().retain(|_, of| {
            let is_over = of.ts <= oldest;
            if is_over {
                ended.push(of.clone());
            }
            !is_over
        });
        ended.iter().for_each(|of| of.end());
    }
}
