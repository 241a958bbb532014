//! Filling columns and indexes of a schema that is not committed yet.
//!
//! ```text
//!   latch the block ─▶ read newest committed rows ─▶ transform ─▶ log ─▶ store cells ─▶ unlatch
//! ```
//!
//! Both the scan and the capture of changes call this, on any thread. **[M1]** The latch covers reading,
//! logging and storing. So of two calls for one row the later one reads the later version, stands in
//! the block, and stands later in the log. The row written meanwhile comes through the feed again.
//! **[M2]** A fill's timestamp is taken from the clock under the latch. A checkpoint at `s` copies
//! under the latch later than `s` was the clock's value; so a fill with a timestamp below `s` is in
//! the checkpoint, and recovery skips it.
//! **[M3]** Of two rows that share a key of a unique index, the one whose key is entered later, under the
//! stripe of the key, finds the other's entry, and compares the two at one timestamp, taken after
//! both were read. If neither changes any more, it finds them equal.
//! **[M4]** Recovery brings back versions that pins keep ([Q1] in `keepers`), and no index. Whoever fills an
//! index enters the keys of those versions too, under their stripes, so that a view that is kept finds
//! its rows; they go when the versions are cut, see `collector`, [G6].

use std::sync::Arc;

use arrow_array::RecordBatch;
use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::key::KeyColumns;
use froglet_engine::{
    BlockRows, ColumnFill, EngineError, MigrateError, RowId, Savepoint, Snapshot, Table, TxnId,
};
use smallvec::SmallVec;

use crate::arrow::value_at;
use crate::block::Block;
use crate::clock::Owner;
use crate::column::{Cell, string_bytes};
use crate::keys::{Index, any_state_has_key, recovered_keys, remove_unneeded};
use crate::read::{Cells, Columns, ReadView};
use crate::table::MemoryTable;
use crate::txn::own_key;
use crate::undo::Kind;
use froglet_log::redo::Fill;

impl MemoryTable {
    fn read_rows(
        &self,
        snapshot: &Snapshot,
        block: u32,
        rows: Option<&[RowId]>,
        projection: &[usize],
    ) -> Result<BlockRows, EngineError> {
        match rows {
            None => self.read_all(snapshot, block, projection),
            Some(rows) => {
                let mut rows = rows.to_vec();
                rows.sort_unstable();
                rows.dedup();
                self.read_some(snapshot, block, &rows, projection)
            }
        }
    }

    /// See [`froglet_engine::Table::migrate_block`].
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn migrate(
        &self,
        owner: TxnId,
        since: Savepoint,
        number: u32,
        rows: Option<&[RowId]>,
        source: &[usize],
        target: &[usize],
        transform: &mut dyn FnMut(&BlockRows) -> Result<ColumnFill, MigrateError>,
    ) -> Result<u64, MigrateError> {
        let Some(block) = self.space.block(number) else { return Ok(0) };
        let _latch = block.migration.lock();
        let fill_ts = self.core.timeline.now();
        let snapshot = self.core.fresh(owner);
        let read = self.read_rows(&snapshot, number, rows, source)?;
        let count = read.rids.len();
        if count == 0 {
            return Ok(0);
        }
        let ColumnFill { rows, columns: arrays } = transform(&read)?;
        let rids: Vec<RowId> = match &rows {
            None => read.rids,
            Some(rows) if rows.is_empty() => return Ok(count as u64),
            Some(rows) => rows.iter().map(|&at| read.rids[at]).collect(),
        };
        let types = target.iter().map(|&at| self.columns[at].ty);
        ColumnFill::check(&arrays, types, rids.len())?;
        self.core.admit(arrays.iter().map(|array| array.get_array_memory_size()).sum())?;
        let guard = epoch::pin();
        let mut fill = Fill {
            ts: fill_ts,
            space: self.space.id,
            block: number,
            columns: target.iter().map(|&at| self.columns[at].id).collect(),
            slots: Vec::with_capacity(rids.len()),
            values: Vec::with_capacity(rids.len() * target.len()),
        };
        for (at, rid) in rids.iter().enumerate() {
            if self.wrote_since(block, *rid, owner, since, &guard) {
                continue;
            }
            fill.slots.push(rid.slot() as u16);
            for (array, &position) in arrays.iter().zip(target) {
                let value =
                    value_at(array, self.columns[position].ty, at).expect("types were checked");
                fill.values.push(value);
            }
        }
        self.store_fill(block, &fill, target, &guard)?;
        Ok(count as u64)
    }

    /// Whether `owner` wrote a row with its write number `since` or a later one. Row locks do not
    /// count.
    fn wrote_since(
        &self,
        block: &Block,
        rid: RowId,
        owner: TxnId,
        since: Savepoint,
        guard: &Guard,
    ) -> bool {
        let mut next = block.head(rid.slot(), guard).filter(|_| owner.0 != 0);
        while let Some(undo) = next {
            match self.core.timeline.owner(&undo.word) {
                Owner::Open(id) if id != owner.0 => return false,
                Owner::Open(_) if undo.kind == Kind::Lock => {}
                Owner::Open(_) => return undo.seq >= since.0,
                Owner::Committed(_) => return false,
                Owner::Aborted => {}
            }
            next = undo.next(guard);
        }
        false
    }

    fn store_fill(
        &self,
        block: &Block,
        fill: &Fill,
        target: &[usize],
        guard: &Guard,
    ) -> Result<(), EngineError> {
        let strings: usize = fill.values.iter().filter_map(string_bytes).map(<[u8]>::len).sum();
        self.core.budget.admit(strings + fill.values.len() * 16)?;
        let mut columns = self.find_or_add(block, target, guard)?;
        block.admit_heat(|id| fill.columns.contains(&id), guard)?;
        block.heat(&mut columns, guard);
        if self.core.log.is_some() {
            let filled = self.core.log_long_record(&fill.encode())?;
            filled
                .waits_for_nothing("the flip is logged behind it, or the cells are computed again");
        }
        let old_keys = self.filled_keys(block, fill, guard);
        block.fill_cells(|| {
            for (slot, values) in fill.slots.iter().zip(fill.values.chunks(target.len().max(1))) {
                for (found, value) in columns.iter().zip(values) {
                    let column = found.column.expect("the block has the target columns");
                    column.store(usize::from(*slot), value, guard);
                }
            }
        });
        let cooling = &self.core.cooling;
        cooling.touch(&self.space, fill.block, block, cooling.now_ns());
        for (index, rid, key) in old_keys {
            remove_unneeded(&self.core, &self.space, &index, rid, &key, guard);
        }
        Ok(())
    }

    /// The keys that the rows to be filled have now, in indexes over filled columns.
    fn filled_keys(
        &self,
        block: &Block,
        fill: &Fill,
        guard: &Guard,
    ) -> Vec<(Arc<Index>, RowId, Vec<u8>)> {
        let indexes = self.space.indexes();
        let is_filled = |index: &&Arc<Index>| fill.columns.iter().any(|&id| index.has_column(id));
        let mut keys = Vec::new();
        for index in indexes.iter().filter(is_filled).filter(|index| !index.tree.is_empty()) {
            for &slot in &fill.slots {
                let rid = RowId::of(fill.block, usize::from(slot));
                keys.push((Arc::clone(index), rid, own_key(block, index, rid, guard)));
            }
        }
        keys
    }

    /// See [`froglet_engine::Table::index_block`].
    pub(crate) fn enter_block(
        &self,
        owner: TxnId,
        at: usize,
        number: u32,
        duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError> {
        let Some(block) = self.space.block(number) else { return Ok(0) };
        self.core.admit(froglet_engine::id::ROWS_PER_BLOCK * 32)?;
        let before = block.version();
        let read = self.read_all(&self.core.fresh(owner), number, &self.key_projection(at))?;
        self.enter_recovered(at, number);
        self.enter_read(owner, at, &read, before, duplicates)
    }

    /// Enters the keys that rows of a block had before the records that recovery linked [M4].
    pub(crate) fn enter_recovered(&self, at: usize, number: u32) {
        let Some(block) = self.space.block(number).filter(|_| self.space.is_recovered()) else {
            return;
        };
        if Block::nothing_linked(block.version()) {
            return;
        }
        let index = self.index(at);
        for slot in 0..self.space.rows_in_block(number) {
            if block.head_ptr(slot).is_null() {
                continue;
            }
            let (rid, guard) = (RowId::of(number, slot), epoch::pin());
            for key in recovered_keys(&self.space, index, rid, &guard) {
                let _stripe = self.core.stripes.lock(index, &key);
                index.tree.insert(&key, rid.0);
                // As in `enter`: the state may be cut by now.
                let timeline = &self.core.timeline;
                if !any_state_has_key(timeline, &self.space, index, rid, &key, &guard) {
                    index.remove(&key, rid.0);
                }
            }
        }
    }

    /// See [`froglet_engine::Table::index_rows`].
    pub(crate) fn enter_rows(
        &self,
        owner: TxnId,
        at: usize,
        rows: &[RowId],
        duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError> {
        let mut entered = 0;
        for rows in rows.chunk_by(|a, b| a.block() == b.block()) {
            let number = rows[0].block();
            let Some(block) = self.space.block(number) else { continue };
            self.core.admit(rows.len() * 32)?;
            let before = block.version();
            let projection = self.key_projection(at);
            let read = self.read_some(&self.core.fresh(owner), number, rows, &projection)?;
            entered += self.enter_read(owner, at, &read, before, duplicates)?;
        }
        Ok(entered)
    }

    fn enter_read(
        &self,
        owner: TxnId,
        at: usize,
        read: &BlockRows,
        before: u64,
        duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError> {
        let keys = self.key_columns(at, &read.batch);
        let mut key = Vec::new();
        for (i, &rid) in read.rids.iter().enumerate() {
            key.clear();
            let has_null = keys.append(i, &mut key);
            duplicates.extend(self.enter(owner, at, &key, has_null, rid, before));
        }
        Ok(read.rids.len() as u64)
    }

    /// Enters a key that a row had when it was read, after its block had the version `before`.
    /// Returns the row, and another that shares the key with it.
    fn enter(
        &self,
        owner: TxnId,
        at: usize,
        key: &[u8],
        has_null: bool,
        rid: RowId,
        before: u64,
    ) -> Option<(RowId, RowId)> {
        let (index, guard) = (self.index(at), epoch::pin());
        let _stripe = self.core.stripes.lock(index, key);
        let mut others = SmallVec::<[u64; 4]>::new();
        if index.spec.keeps_apart() && !has_null {
            index.tree.get(key, &mut others);
            others.retain(|other| *other != rid.0);
        }
        index.tree.insert(key, rid.0);
        let block = self.space.block(rid.block()).expect("a row that was read has a block");
        // The row may have lost this key since it was read, and nobody would remove the entry.
        if block.version() != before
            && !any_state_has_key(&self.core.timeline, &self.space, index, rid, key, &guard)
        {
            index.remove(key, rid.0);
        }
        let other = others.into_iter().map(RowId).find(|&o| self.share_key(owner, at, rid, o))?;
        Some((rid, other))
    }

    /// The key of a row in a view; none without a row, or with a NULL.
    pub(crate) fn key_in(&self, view: &ReadView<'_>, at: usize, rid: RowId) -> Option<Vec<u8>> {
        let guard = epoch::pin();
        let block = self.space.block(rid.block())?;
        let index = self.index(at);
        let directory = block.directory(&guard);
        let columns: Columns<'_> = index.parts.iter().map(|part| part.find(directory)).collect();
        let mut cells: Cells = columns.iter().map(|_| Cell::MISSING).collect();
        let mut key = Vec::new();
        let has_row = view.row(block, rid.slot(), &columns, &mut cells, &guard);
        (has_row && !index.key_of_cells(&columns, &cells, &guard, &mut key)).then_some(key)
    }

    /// The keys of rows that were read in the columns of `key_projection`.
    pub(crate) fn key_columns<'a>(&self, at: usize, batch: &'a RecordBatch) -> KeyColumns<'a> {
        let index = self.index(at);
        let parts = index.spec.key.iter().zip(batch.columns()).zip(&index.parts);
        let parts = parts.map(|((part, column), wanted)| (*part, column, wanted.ty));
        KeyColumns::new(parts).with_nulls(index.spec.nulls)
    }

    /// Layout positions of the columns of an index's key.
    pub(crate) fn key_projection(&self, at: usize) -> SmallVec<[usize; 4]> {
        let position = |id| self.columns.iter().position(|c| c.id == id);
        let parts = self.index(at).parts.iter();
        parts
            .map(|part| position(part.id).expect("a layout has the columns of its indexes"))
            .collect()
    }
}
