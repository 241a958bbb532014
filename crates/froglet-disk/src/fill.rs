//! What migrations put into rows without a version: columns, entries of indexes, rows that count as if they had always been
//! there.
//!
//! **[F1] One latch for a block.** Who fills a part of it holds its latch from the read to the end, so the last fill of a row,
//! in the order of the log, too, is the one that stands.
//! **[F2] Of the version that was read.** Who has committed it may not be through with the store: that is waited for. A row that has another version by then is left alone: its commit is in the feed of
//! whoever fills. What somebody has written and not committed is filled, too, but for columns that he has set.
//! **[F3] In the log's order.** Whether a row is still the one that was read is asked with the block's rows locked, and the
//! fill is logged before they are free: a commit that was not under way then has a later timestamp, and a replay leaves
//! its version alone, too.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use arrow_array::ArrayRef;
use froglet_engine::batch::value_at;
use froglet_engine::{
    BlockRows, ColumnFill, ColumnId, CrashPoint, Direction, EngineError, Install, KeyRange,
    MigrateError, RowId, Savepoint, TxnId, Value,
};
use froglet_log::redo::{self, Fill};

use crate::keys;
use crate::overlay::{Base, Block, Set, State, pause};
use crate::read::PART_BYTES;
use crate::store::{Store, Tree};
use crate::table::{DiskTable, Read};
use crate::txn::put_row;
use crate::version::{self, Cells, Version};

/// Entries that are logged in one record.
const ENTRIES_AT_ONCE: usize = 4096;

/// What a migration has not read yet.
enum Left<'a> {
    /// The rows of a block from one on.
    From(RowId),
    Rows(&'a [RowId]),
}

impl Left<'_> {
    fn of(block: u32, rows: Option<&[RowId]>) -> Left<'_> {
        rows.map_or(Left::From(RowId::of(block, 0)), Left::Rows)
    }
}

impl DiskTable {
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
        let wanted = self.wanted(source);
        let (mut count, mut left) = (0, Some(Left::of(number, rows)));
        while left.is_some() {
            self.core.wait_until_written()?;
            let _latch = self.space.latch(number);
            let fill_ts = self.core.clock.load(Ordering::SeqCst);
            let read = self.read_part(owner, &mut left)?;
            if read.is_empty() {
                continue;
            }
            count += read.len() as u64;
            let mut rows = Read::default();
            read.iter().try_for_each(|(rid, cells)| rows.push(&wanted, *rid, cells))?;
            let block = self.batch_of(rows, source);
            let ColumnFill { rows, columns: arrays } = transform(&block)?;
            let filled: Vec<usize> = rows.unwrap_or_else(|| (0..read.len()).collect());
            if !filled.is_empty() {
                let types = target.iter().map(|&at| self.layout.columns[at].ty);
                ColumnFill::check(&arrays, types, filled.len())?;
                let filled: Vec<&(RowId, Cells)> = filled.iter().map(|&at| &read[at]).collect();
                self.store_fill(owner, since, number, fill_ts, &filled, target, &arrays)?;
            }
        }
        Ok(count)
    }

    /// The next rows of what is left, about as many as [`PART_BYTES`] hold, in their latest committed or own version.
    fn read_part(
        &self,
        owner: TxnId,
        left: &mut Option<Left<'_>>,
    ) -> Result<Vec<(RowId, Cells)>, EngineError> {
        let snapshot = self.core.crossings().fresh(owner);
        let view = self.core.view(&snapshot);
        match left.take() {
            None => Ok(Vec::new()),
            Some(Left::From(from)) => {
                let (part, next) = self.core.block_part(view, &self.space, from)?;
                *left = next.map(Left::From);
                Ok(part.into_iter().collect())
            }
            Some(Left::Rows(rows)) => {
                let (mut read, mut bytes) = (Vec::new(), 0);
                for (at, rid) in rows.iter().enumerate() {
                    if bytes >= PART_BYTES {
                        *left = Some(Left::Rows(&rows[at..]));
                        break;
                    }
                    if let Some(cells) = self.core.row(view, &self.space, *rid)? {
                        bytes += cells.len();
                        read.push((*rid, cells));
                    }
                }
                Ok(read)
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn store_fill(
        &self,
        owner: TxnId,
        since: Savepoint,
        number: u32,
        ts: u64,
        rows: &[&(RowId, Cells)],
        target: &[usize],
        arrays: &[ArrayRef],
    ) -> Result<(), EngineError> {
        let ids: Vec<ColumnId> = target.iter().map(|&at| self.layout.columns[at].id).collect();
        let mut fill = Fill {
            ts,
            space: self.space.id,
            block: number,
            columns: ids.clone(),
            slots: Vec::with_capacity(rows.len()),
            values: Vec::with_capacity(rows.len() * target.len()),
        };
        self.core.crossings().depends(owner);
        let applying = self.core.begin_applying();
        let mut block = self.still_rows(number, rows);
        let mut stored: Vec<(RowId, Version)> = Vec::with_capacity(rows.len());
        for (n, rid) in rows.iter().map(|row| row.0).enumerate() {
            let values: Vec<Value> = arrays
                .iter()
                .zip(target)
                .map(|(array, &at)| value_at(array, n, self.layout.columns[at].ty))
                .collect();
            let set: Vec<(ColumnId, &Value)> = ids.iter().copied().zip(&values).collect();
            let filled = |cells: &Cells| version::with(cells, &set, |_| true);
            // What is in the store, if it is what was read.
            let base = match block.get_mut(rid) {
                None => self.core.stored(self.space.id, rid)?.filter(|base| base.begin <= ts),
                Some(pending) => {
                    let is_own = owner.0 != 0 && pending.owner.id == owner;
                    let is_open = pending.owner.begin_fill();
                    if !is_open && pending.owner.state() != State::Aborted {
                        // It has got its timestamp since: whatever becomes of it is waited for.
                        drop((block, applying));
                        return self.store_fill(owner, since, number, ts, rows, target, arrays);
                    }
                    // A newer version than what was read: its commit is in the feed.
                    if matches!(&pending.base, Base::Version(base) if base.begin > ts) {
                        continue;
                    }
                    let keeps = pending.last().is_some_and(|last| last.seq >= since.0);
                    if is_own && keeps {
                        continue;
                    }
                    for change in &mut pending.changes {
                        let sets = |id: &ColumnId| match &change.set {
                            Set::Some(set) => !is_own && set.contains(id),
                            Set::Inserted => !is_own,
                            Set::Nothing | Set::Deleted => true,
                        };
                        let some: Vec<_> =
                            set.iter().filter(|(id, _)| !sets(id)).copied().collect();
                        if let (Some(cells), false) = (&change.cells, some.is_empty()) {
                            change.cells = Some(version::with(cells, &some, |_| true)?);
                        }
                    }
                    // Of a row that its owner has changed the base is what it was before: computed from what it is now,
                    // the values are not its own.
                    if is_own && pending.last().is_some() {
                        continue;
                    }
                    match &mut pending.base {
                        Base::Version(base) => {
                            base.cells = filled(&base.cells)?;
                            Some(base.clone())
                        }
                        Base::Unread => {
                            self.core.stored(self.space.id, rid)?.filter(|base| base.begin <= ts)
                        }
                        Base::Nothing => None,
                    }
                }
            };
            let Some(base) = base else { continue };
            fill.slots.push(rid.slot() as u16);
            stored.push((rid, Version { begin: base.begin, cells: filled(&base.cells)? }));
            fill.values.extend(values);
        }
        if !fill.slots.is_empty() {
            // Whoever has room in the log may wait for these rows: they wait for nobody's.
            let logged = self.core.log.append_now(&[&fill.encode()])?;
            logged
                .waits_for_nothing("the flip is logged behind it, or the cells are computed again");
            for (rid, version) in stored {
                self.core.store.put_row(self.space.id, rid, version);
            }
        }
        drop((block, applying));
        Ok(())
    }

    /// The rows of a block, locked when none of some is on its way into the store, or out of the overlay, or being read
    /// by its writer: what was read of such a row may be its version, and is to be filled.
    fn still_rows(&self, number: u32, rows: &[&(RowId, Cells)]) -> Block<'_> {
        let mut spins = 0;
        loop {
            let block = self.core.overlay.block(self.space.id, number);
            let is_ending = |row: &&(RowId, Cells)| {
                block.get(row.0).is_some_and(|pending| {
                    let is_read = matches!(pending.base, Base::Unread);
                    let state = pending.owner.state();
                    is_read || state != State::Open
                })
            };
            if !rows.iter().any(is_ending) {
                return block;
            }
            drop(block);
            pause(&mut spins);
        }
    }

    /// Enters the keys of rows in their latest committed or own version into an index of this layout.
    pub(crate) fn enter(
        &self,
        owner: TxnId,
        at: usize,
        rows: Vec<(RowId, Cells)>,
        duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError> {
        self.core.crossings().depends(owner);
        let index = &self.indexes[at];
        let mut entered = 0;
        for rows in rows.chunks(ENTRIES_AT_ONCE) {
            self.core.wait_until_written()?;
            let mut entries = Vec::with_capacity(rows.len());
            let mut apart = Vec::with_capacity(rows.len());
            for (rid, cells) in rows {
                let (key, is_apart) = index.key_of(cells)?;
                keys::check(&key)?;
                entries.push((*rid, key));
                apart.push(is_apart || !index.spec.keeps_apart());
            }
            let record = redo::index_entries(self.space.id, index.id(), &entries);
            self.core.logged(&record, || {
                for ((rid, key), is_apart) in entries.iter().zip(&apart) {
                    self.core.store.put(Tree::Index, &index.entry(key, *rid), &[]);
                    if !is_apart {
                        duplicates.extend(self.sharer(owner, at, *rid, key)?);
                    }
                }
                Ok(())
            })?;
            entered += rows.len() as u64;
        }
        Ok(entered)
    }

    /// A row, and another that shares its key with it.
    fn sharer(
        &self,
        owner: TxnId,
        at: usize,
        rid: RowId,
        key: &[u8],
    ) -> Result<Option<(RowId, RowId)>, EngineError> {
        let mut others = Vec::new();
        let range = KeyRange::exactly(key);
        self.core.entries(&self.indexes[at], &range, Direction::Forward, &mut |_, other| {
            if other != rid {
                others.push(other);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for other in others {
            if self.shares_key(owner, at, rid, other)? {
                return Ok(Some((rid, other)));
            }
        }
        Ok(None)
    }

    /// See [`froglet_engine::Table::share_key`].
    pub(crate) fn shares_key(
        &self,
        owner: TxnId,
        at: usize,
        a: RowId,
        b: RowId,
    ) -> Result<bool, EngineError> {
        // One timestamp for both rows.
        let (snapshot, index) = (self.core.crossings().fresh(owner), &self.indexes[at]);
        let key = self.core.key_in(&snapshot, &self.space, index, a)?;
        Ok(key.is_some() && key == self.core.key_in(&snapshot, &self.space, index, b)?)
    }

    /// See [`froglet_engine::Table::index_block`].
    pub(crate) fn enter_block(
        &self,
        owner: TxnId,
        at: usize,
        number: u32,
        duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError> {
        self.enter_left(owner, at, Left::of(number, None), duplicates)
    }

    /// See [`froglet_engine::Table::index_rows`].
    pub(crate) fn enter_rows(
        &self,
        owner: TxnId,
        at: usize,
        rows: &[RowId],
        duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError> {
        self.enter_left(owner, at, Left::Rows(rows), duplicates)
    }

    fn enter_left(
        &self,
        owner: TxnId,
        at: usize,
        left: Left<'_>,
        duplicates: &mut Vec<(RowId, RowId)>,
    ) -> Result<u64, EngineError> {
        let (mut entered, mut left) = (0, Some(left));
        while left.is_some() {
            let rows = self.read_part(owner, &mut left)?;
            entered += self.enter(owner, at, rows, duplicates)?;
        }
        Ok(entered)
    }

    /// See [`froglet_engine::Table::install`].
    pub(crate) fn install_rows(
        &self,
        install: &Install<'_>,
        done: &mut dyn FnMut(),
    ) -> Result<(), EngineError> {
        let Install { rids, values, empty: _, note } = *install;
        let width = self.layout.columns.len();
        assert!(rids.is_sorted(), "rows are installed in the order of their ids");
        assert_eq!(values.len(), rids.len() * width, "a row has the columns of its layout");
        let rows: Vec<Cells> = match width {
            0 => rids.iter().map(|_| version::of_row(&self.layout, &[])).collect(),
            _ => values.chunks(width).map(|row| version::of_row(&self.layout, row)).collect(),
        };
        let mut entries = Vec::new();
        for (rid, cells) in rids.iter().zip(&rows) {
            for index in &self.indexes {
                let key = index.key_of(cells)?.0;
                keys::check(&key)?;
                entries.push(index.entry(&key, *rid));
            }
        }
        self.core.wait_until_written()?;
        let _installing = self.space.installing.read();
        let ts = self.core.clock.load(Ordering::SeqCst);
        let columns = self.layout.columns.iter().map(|column| column.id);
        let record = redo::install(ts, self.space.id, note, columns, rids, values);
        self.core.logged(&record, || {
            CrashPoint::InstallLogged.reached();
            for entry in &entries {
                self.core.store.put(Tree::Index, entry, &[]);
            }
            for (rid, cells) in rids.iter().zip(&rows) {
                put_row(&self.core.store, &self.space, *rid, None, Some(cells), 0);
            }
            done();
            Ok(())
        })
    }
}
