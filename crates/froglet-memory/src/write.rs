//! The write path of a table.
//!
//! ```text
//!   who owns the row? ─▶ copy the before-image ─▶ still the same head? ─▶ keys, stripes, uniqueness
//!        │ Busy, Changed, Gone                            │ no: again            │ Duplicate, Busy
//!        ▼                                                                       ▼
//!      caller                          entries, redo ◀─ store cells ◀─ link the undo record (CAS)
//! ```
//!
//! Whatever may fail (ownership, uniqueness, memory) is asked before the record is linked; after
//! that nothing fails. So a write that returns an error has done nothing.

use std::borrow::Cow;
use std::sync::Arc;

use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::{
    ColumnId, ColumnSpec, EngineError, IndexSpec, RowId, RowWrite, Ts, TxnId, Value, WriteStop,
};
use smallvec::SmallVec;

use crate::block::Block;
use crate::clock::Owner;
use crate::column::{Cell, Long, Wanted, string_bytes};
use crate::keys::{Index, NewKeys, OldKey, conflict};
use crate::memory::Admitted;
use crate::read::{Cells, Columns};
use crate::sync::atomic::{Ordering, fence};
use crate::table::MemoryTable;
use crate::txn::MemoryTxn;
use crate::undo::{Kind, Undo};
use froglet_log::redo;

/// Asked of the budget before a write, beside its strings.
const WRITE_BYTES: usize = 4096;
/// The longest string a cell takes, PostgreSQL's limit.
const STRING_BYTES_MAX: usize = 1 << 30;

impl MemoryTable {
    fn spec(&self, at: usize) -> &ColumnSpec {
        &froglet_engine::Table::layout(self).columns[at]
    }

    fn check(&self, at: usize, value: &Value) -> Result<(), EngineError> {
        let column = &self.columns[at];
        let bytes = string_bytes(value).map_or(0, <[u8]>::len);
        if column.ty.accepts(value) && bytes < STRING_BYTES_MAX {
            return Ok(());
        }
        Err(EngineError::WrongType {
            column: column.id,
            ty: column.ty,
            value: Box::new(value.clone()),
        })
    }

    /// Asks for the memory that a write of these values may take.
    fn admit<'v>(
        &self,
        values: impl Iterator<Item = &'v Value>,
    ) -> Result<Admitted<'_>, EngineError> {
        let strings: usize = values.filter_map(string_bytes).map(<[u8]>::len).sum();
        self.core.admit_of(self.space.budget(), strings + WRITE_BYTES)?;
        Ok(self.core.budget.hold(strings))
    }

    /// The columns at layout positions in a block, added to it where it lacks them.
    pub(crate) fn find_or_add<'a>(
        &'a self,
        block: &'a Block,
        positions: &[usize],
        guard: &'a Guard,
    ) -> Result<Columns<'a>, EngineError> {
        loop {
            let columns = self.find(block, positions, guard);
            let pairs = columns.iter().zip(positions);
            let lacking = pairs.filter(|(found, _)| found.column.is_none());
            let specs: SmallVec<[&ColumnSpec; 4]> = lacking.map(|(_, at)| self.spec(*at)).collect();
            if specs.is_empty() {
                return Ok(columns);
            }
            block.add_columns(&specs, guard)?;
        }
    }

    /// Inserts one row given in layout order.
    pub fn insert_row(&self, txn: &mut MemoryTxn, row: &[Value]) -> Result<RowId, WriteStop> {
        assert_eq!(row.len(), self.columns.len(), "a row has the columns of its layout");
        row.iter().enumerate().try_for_each(|(at, value)| self.check(at, value))?;
        let _admitted = self.admit(row.iter())?;
        txn.begin_write()?;
        let mut keys = std::mem::take(&mut txn.new_keys);
        let inserted = self.insert_checked(txn, row, &mut keys);
        txn.new_keys = keys;
        inserted
    }

    fn insert_checked(
        &self,
        txn: &mut MemoryTxn,
        row: &[Value],
        keys: &mut NewKeys,
    ) -> Result<RowId, WriteStop> {
        let guard = epoch::pin();
        keys.clear();
        let mut key = Vec::with_capacity(32);
        for (at, index) in self.indexes.iter().enumerate() {
            let has_null = index.key_of(|part| self.key_value(at, part, row), &mut key);
            keys.push(at, &key, has_null);
        }
        let stripes =
            self.core.stripes.lock_all(keys.iter().map(|(at, key, _)| (&*self.indexes[at], key)));
        self.check_unique(keys, None, txn.own_id(), |spec| spec.unique, &guard)?;
        let rid = self.space.take_slot(&guard)?;
        let slot = rid.slot();
        let block = self.space.block(rid.block()).expect("a taken slot has a block");
        let prepared =
            self.add_all(block, &guard).and_then(|()| block.admit_heat(|_| true, &guard));
        if let Err(error) = prepared {
            self.space.give_slots([rid]);
            return Err(error.into());
        }
        let record = txn.push(&self.space, Kind::Insert, rid, &[]);
        let undo = txn.undo.last().expect("the record was pushed");
        assert!(block.link(slot, std::ptr::null(), record, undo), "a free slot has no chain");
        block.heat_all(&guard);
        self.store_row(block, slot, row, &guard);
        block.set_present(slot, true);
        for (at, key, _) in keys.iter() {
            self.indexes[at].tree.insert(key, rid.0);
        }
        drop(stripes);
        if txn.logs() {
            let cells = self.columns.iter().zip(row).map(|(column, value)| (column.id, value));
            redo::insert(txn.next_redo(), self.space.id, rid, cells);
        }
        Ok(rid)
    }

    /// A part of the key of a row, in the index at a layout position.
    pub(crate) fn key_value<'v>(
        &'v self,
        at: usize,
        part: usize,
        row: &'v [Value],
    ) -> Cow<'v, Value> {
        match self.key_position(at, part) {
            Some(position) => Cow::Borrowed(&row[position]),
            None => Cow::Borrowed(&self.index(at).parts[part].missing),
        }
    }

    /// Makes sure that a block has every column of the layout.
    pub(crate) fn add_all(&self, block: &Block, guard: &Guard) -> Result<(), EngineError> {
        let directory = block.directory(guard);
        let columns = self.columns.iter().enumerate();
        let lacking = columns.filter(|(_, c)| directory.find(c.id, c.hint).is_none());
        let specs: SmallVec<[&ColumnSpec; 4]> = lacking.map(|(at, _)| self.spec(at)).collect();
        if specs.is_empty() { Ok(()) } else { block.add_columns(&specs, guard) }
    }

    /// Stores every column of a block: given values, and the missing value where the layout does not
    /// have the column, because the slot may have had another row before.
    pub(crate) fn store_row(&self, block: &Block, slot: usize, row: &[Value], guard: &Guard) {
        let mut given = self.by_id().iter().map(|&at| (self.columns[at].id, &row[at])).peekable();
        for column in block.directory(guard).columns() {
            while given.next_if(|(id, _)| *id < column.id).is_some() {}
            match given.next_if(|(id, _)| *id == column.id) {
                Some((_, value)) => column.store(slot, value, guard),
                None => column.store(slot, &column.missing, guard),
            }
        }
    }

    fn check_unique(
        &self,
        keys: &NewKeys,
        rid: Option<RowId>,
        own: u64,
        is_asked: impl Fn(&IndexSpec) -> bool,
        guard: &Guard,
    ) -> Result<(), WriteStop> {
        for (at, key, has_null) in keys.iter() {
            let index = &self.indexes[at];
            if is_asked(&index.spec)
                && !has_null
                && let Some(stop) =
                    conflict(&self.core.timeline, &self.space, index, key, rid, own, guard)
            {
                return Err(stop);
            }
        }
        Ok(())
    }

    /// Whether a transaction may write to a row whose chain starts at `head`; what it derives its values
    /// from was visible at `base`.
    fn claim(
        &self,
        own: u64,
        base: Ts,
        block: &Block,
        slot: usize,
        head: Option<&Undo>,
        guard: &Guard,
    ) -> Result<(), WriteStop> {
        let mut next = head;
        let mut newest = None;
        while let Some(undo) = next {
            match self.core.timeline.owner(&undo.word) {
                Owner::Open(id) if id == own => break,
                Owner::Open(id) => return Err(WriteStop::Busy { holder: TxnId(id) }),
                Owner::Committed(ts) if undo.kind != Kind::Lock => {
                    newest = Some((ts, undo.kind));
                    break;
                }
                // A lock that was committed, or an aborted write, changed nothing.
                Owner::Committed(_) | Owner::Aborted => {}
            }
            next = undo.next(guard);
        }
        // The owner first, the row second: what is committed now was stored before now.
        match newest {
            Some((_, Kind::Move)) => Err(WriteStop::Moved),
            _ if !block.is_present(slot) => Err(WriteStop::Gone),
            Some((ts, _)) if ts > base.0 => Err(WriteStop::Changed),
            _ => Ok(()),
        }
    }

    /// Runs `write` with a claimed head until the head stays the same. `write` returns none when the
    /// head has changed.
    fn with_claim<'g, T>(
        &self,
        own: u64,
        base: Ts,
        block: &'g Block,
        slot: usize,
        guard: &'g Guard,
        mut write: impl FnMut(Option<&'g Undo>) -> Result<Option<T>, WriteStop>,
    ) -> Result<T, WriteStop> {
        let mut spins = 0;
        loop {
            let head = block.head(slot, guard);
            match self.claim(own, base, block, slot, head, guard) {
                Ok(()) => {
                    if let Some(done) = write(head)? {
                        return Ok(done);
                    }
                }
                Err(stop) if block.is_head(slot, ptr(head)) => return Err(stop),
                Err(_) => {}
            }
            crate::clock::pause(&mut spins);
        }
    }

    /// Deletes a row.
    pub fn delete_row(&self, txn: &mut MemoryTxn, base: Ts, rid: RowId) -> Result<(), WriteStop> {
        self.mark(txn, base, rid, Kind::Delete)?;
        if txn.logs() {
            redo::delete(txn.next_redo(), self.space.id, rid);
        }
        Ok(())
    }

    /// Holds a row as an update would.
    pub fn lock_row(&self, txn: &mut MemoryTxn, base: Ts, rid: RowId) -> Result<(), WriteStop> {
        self.mark(txn, base, rid, Kind::Lock)
    }

    fn mark(&self, txn: &mut MemoryTxn, base: Ts, rid: RowId, kind: Kind) -> Result<(), WriteStop> {
        match kind {
            Kind::Delete => self.core.admit_removal(WRITE_BYTES)?,
            _ => self.core.admit_of(self.space.budget(), WRITE_BYTES)?,
        }
        txn.begin_write()?;
        let guard = epoch::pin();
        let block = self.space.block(rid.block()).ok_or(WriteStop::Gone)?;
        let (slot, own) = (rid.slot(), txn.own_id());
        self.with_claim(own, base, block, slot, &guard, |head| {
            let is_held =
                head.is_some_and(|undo| self.core.timeline.owner(&undo.word) == Owner::Open(own));
            if kind == Kind::Lock && is_held {
                return Ok(Some(()));
            }
            let record = txn.push(&self.space, kind, rid, &[]);
            let undo = txn.undo.last().expect("the record was pushed");
            if !block.link(slot, ptr(head), record, undo) {
                txn.undo.unpush();
                return Ok(None);
            }
            if kind == Kind::Delete {
                block.set_present(slot, false);
            }
            Ok(Some(()))
        })
    }

    /// Sets the columns at layout positions (ascending, none twice).
    pub fn update_row(
        &self,
        txn: &mut MemoryTxn,
        base: Ts,
        rid: RowId,
        positions: &[usize],
        values: &[Value],
    ) -> Result<(), WriteStop> {
        assert_eq!(positions.len(), values.len(), "each column has a value");
        positions.iter().zip(values).try_for_each(|(&at, value)| self.check(at, value))?;
        let _admitted = self.admit(values.iter())?;
        txn.begin_write()?;
        let mut keys = std::mem::take(&mut txn.new_keys);
        let updated = self.update_checked(txn, base, rid, positions, values, &mut keys);
        txn.new_keys = keys;
        updated?;
        if txn.logs() {
            let cells =
                positions.iter().zip(values).map(|(&at, value)| (self.columns[at].id, value));
            redo::update(txn.next_redo(), self.space.id, rid, cells);
        }
        Ok(())
    }

    fn update_checked(
        &self,
        txn: &mut MemoryTxn,
        base: Ts,
        rid: RowId,
        positions: &[usize],
        values: &[Value],
        keys: &mut NewKeys,
    ) -> Result<(), WriteStop> {
        let guard = epoch::pin();
        let block = self.space.block(rid.block()).ok_or(WriteStop::Gone)?;
        let (slot, own) = (rid.slot(), txn.own_id());
        let indexes = self.space.indexes();
        let is_set = |part: &Wanted| positions.iter().any(|&at| self.columns[at].id == part.id);
        let touched: SmallVec<[&Arc<Index>; 4]> =
            indexes.iter().filter(|index| index.parts.iter().any(is_set)).collect();
        let n = positions.len();
        self.with_claim(own, base, block, slot, &guard, |head| {
            // Behind the columns to be set, the parts of every index that has one of them. They are
            // found after the claim, as by a reader after his timestamp: `freeze`, [F2].
            let mut columns = self.find_or_add(block, positions, &guard)?;
            block.admit_heat(|id| columns.iter().any(|found| found.wanted.id == id), &guard)?;
            let directory = block.directory(&guard);
            columns.extend(
                touched
                    .iter()
                    .flat_map(|index| index.parts.iter().map(|part| part.find(directory))),
            );
            let cells: Cells = columns.iter().map(|column| column.load(slot)).collect();
            if !block.is_head(slot, ptr(head)) {
                return Ok(None);
            }
            keys.clear();
            let mut old_keys: SmallVec<[(&Arc<Index>, Vec<u8>); 4]> = SmallVec::new();
            let mut first = n;
            for &index in &touched {
                let parts = first..first + index.parts.len();
                first = parts.end;
                let (columns, cells) = (&columns[parts.clone()], &cells[parts]);
                let mut old = Vec::new();
                index.key_of_cells(columns, cells, &guard, &mut old);
                let mut new = Vec::new();
                let value = |part: usize| {
                    let set = positions
                        .iter()
                        .position(|&at| self.columns[at].id == index.parts[part].id);
                    match set {
                        Some(at) => Cow::Borrowed(&values[at]),
                        None => Cow::Owned(columns[part].value(&cells[part], &guard)),
                    }
                };
                let has_null = index.key_of(value, &mut new);
                if old == new {
                    continue;
                }
                if let Some(at) = self.indexes.iter().position(|own| Arc::ptr_eq(own, index)) {
                    keys.push(at, &new, has_null);
                }
                old_keys.push((index, old));
            }
            let stripes = self
                .core
                .stripes
                .lock_all(keys.iter().map(|(at, key, _)| (&*self.indexes[at], key)));
            self.check_unique(keys, Some(rid), own, |spec| spec.unique, &guard)?;
            let images: SmallVec<[(ColumnId, Cell, Long<'_>); 12]> = columns[..n]
                .iter()
                .zip(&cells)
                .map(|(found, cell)| {
                    let column = found.column.expect("the block has the columns to be set");
                    (column.id, *cell, column.long(cell, &guard))
                })
                .collect();
            let record = txn.push(&self.space, Kind::Update, rid, &images);
            let undo = txn.undo.last().expect("the record was pushed");
            if !block.link(slot, ptr(head), record, undo) {
                txn.undo.unpush();
                return Ok(None);
            }
            block.heat(&mut columns[..n], &guard);
            for (found, value) in columns[..n].iter().zip(values) {
                found
                    .column
                    .expect("the block has the columns to be set")
                    .store(slot, value, &guard);
            }
            for (at, key, _) in keys.iter() {
                self.indexes[at].tree.insert(key, rid.0);
            }
            drop(stripes);
            if !old_keys.is_empty() {
                let (space, seq) = (txn.space_at(&self.space), txn.seq() - 1);
                let bytes = old_keys.iter().map(|(_, key)| key.len() + size_of::<OldKey>()).sum();
                txn.undo.charge_beside(&self.core.pool, bytes);
                txn.old_keys.extend(old_keys.into_iter().map(|(index, key)| OldKey {
                    index: Arc::clone(index),
                    space,
                    rid,
                    seq,
                    key: key.into(),
                }));
            }
            Ok(Some(()))
        })
    }

    pub(crate) fn write_one(
        &self,
        txn: &mut MemoryTxn,
        base: Ts,
        write: &RowWrite<'_>,
    ) -> Result<(), WriteStop> {
        match write {
            RowWrite::Update { rid, columns, values } => {
                self.update_row(txn, base, *rid, columns, values)
            }
            RowWrite::Delete { rid } => self.delete_row(txn, base, *rid),
            RowWrite::Lock { rid } => self.lock_row(txn, base, *rid),
        }
    }

    /// See [`froglet_engine::Table::changer`].
    pub(crate) fn open_changer(&self, rid: RowId, columns: &[usize], own: TxnId) -> Option<TxnId> {
        // Linking is sequentially consistent; so is this look.
        fence(Ordering::SeqCst);
        let guard = epoch::pin();
        let block = self.space.block(rid.block())?;
        let mut next = block.head(rid.slot(), &guard);
        while let Some(undo) = next {
            match self.core.timeline.owner(&undo.word) {
                Owner::Committed(_) if undo.kind != Kind::Lock => return None,
                Owner::Open(id) if id == own.0 => return None,
                Owner::Open(id) => {
                    let changes = |&at: &usize| undo.changes(self.columns[at].id);
                    let is_gone = matches!(undo.kind, Kind::Delete | Kind::Move);
                    if is_gone || columns.iter().any(changes) {
                        return Some(TxnId(id));
                    }
                }
                Owner::Committed(_) | Owner::Aborted => {}
            }
            next = undo.next(&guard);
        }
        None
    }

    /// The timestamp of the newest committed write of a row, if its chain still has it.
    pub(crate) fn newest_commit(&self, rid: RowId) -> Option<u64> {
        let guard = epoch::pin();
        let block = self.space.block(rid.block())?;
        let mut next = block.head(rid.slot(), &guard);
        while let Some(undo) = next {
            // Waits for a verdict: who has looked and finds nothing hears of what comes by a feed, and of a
            // commit with an older timestamp than the feed's he would not.
            if undo.kind != Kind::Lock
                && let Some(ts) = self.core.timeline.visible(&undo.word, Ts::LATEST.0, 0)
            {
                return Some(ts);
            }
            next = undo.next(&guard);
        }
        None
    }

    /// Enters the keys of a row that `txn` owns into indexes of this layout.
    pub(crate) fn index_own(
        &self,
        txn: &mut MemoryTxn,
        rid: RowId,
        indexes: &[usize],
    ) -> Result<(), WriteStop> {
        let guard = epoch::pin();
        let block = self.space.block(rid.block()).ok_or(WriteStop::Gone)?;
        if !block.is_present(rid.slot()) {
            return Ok(());
        }
        for &at in indexes {
            let index = &self.indexes[at];
            let parts: Columns<'_> =
                index.parts.iter().map(|part| part.find(block.directory(&guard))).collect();
            let cells: Cells = parts.iter().map(|part| part.load(rid.slot())).collect();
            let mut key = Vec::new();
            let has_null = index.key_of_cells(&parts, &cells, &guard, &mut key);
            let mut keys = NewKeys::default();
            keys.push(at, &key, has_null);
            let _stripe = self.core.stripes.lock(index, &key);
            self.check_unique(&keys, Some(rid), txn.own_id(), IndexSpec::keeps_apart, &guard)?;
            index.tree.insert(&key, rid.0);
        }
        Ok(())
    }
}

fn ptr(head: Option<&Undo>) -> *const Undo {
    head.map_or(std::ptr::null(), std::ptr::from_ref)
}
