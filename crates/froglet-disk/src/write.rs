//! The write path of a table.
//!
//! ```text
//!   take the row ─▶ read it ─▶ still what the values were derived from? ─▶ keys, claims, uniqueness ─▶ change, entries
//!     │ Busy                      │ Changed, Gone                             │ Duplicate, Busy
//!     └──────────────── what was taken is let go: a write that fails has done nothing ─────┘
//! ```

use std::sync::Arc;

use froglet_engine::{
    ColumnId, Direction, EngineError, IndexSpec, KeyRange, RowId, RowWrite, Snapshot, Ts, TxnId,
    Value, WriteStop,
};
use smallvec::{SmallVec, smallvec};

use crate::engine::Core;
use crate::keys;
use crate::overlay::{Base, Change, Pending, Set, State, pause};
use crate::space::{Index, NewKeys, Space};
use crate::store::{Store, Tree};
use crate::table::DiskTable;
use crate::txn::{DiskTxn, Undo};
use crate::version::{self, Cells, Version};

/// The longest string a cell takes, PostgreSQL's limit.
const STRING_BYTES_MAX: usize = 1 << 30;
/// What a write takes in memory beside its cells.
const WRITE_BYTES: usize = 400;

impl DiskTable {
    fn check(&self, at: usize, value: &Value) -> Result<(), EngineError> {
        let column = &self.layout.columns[at];
        let bytes = match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) | Value::Numeric(bytes) => bytes.len(),
            _ => 0,
        };
        if column.ty.accepts(value) && bytes < STRING_BYTES_MAX {
            return Ok(());
        }
        Err(EngineError::WrongType {
            column: column.id,
            ty: column.ty,
            value: Box::new(value.clone()),
        })
    }

    /// Inserts one row given in layout order.
    pub(crate) fn insert_row(&self, txn: &mut DiskTxn, row: &[Value]) -> Result<RowId, WriteStop> {
        assert_eq!(row.len(), self.layout.columns.len(), "a row has the columns of its layout");
        row.iter().enumerate().try_for_each(|(at, value)| self.check(at, value))?;
        let cells = version::of_row(&self.layout, row);
        let mark = txn.mark();
        txn.charge(2 * cells.len() + WRITE_BYTES)?;
        let keys = new_keys(&self.indexes, &cells)?;
        let rid = self.space.take_row(cells.len());
        if let Err(stop) = self.take_keys(txn, rid, &keys, |spec| spec.unique) {
            txn.back_to(mark);
            return Err(stop);
        }
        let change = Change { seq: txn.seq(), cells: Some(cells), set: Set::Inserted };
        let owner = Arc::clone(&txn.owner);
        let pending = Pending { owner, base: Base::Nothing, changes: smallvec![change] };
        self.core.overlay.block(self.space.id, rid.block()).insert(rid, pending);
        txn.note(Undo::Row { space: Arc::clone(&self.space), rid, is_first: true });
        txn.wrote();
        Ok(rid)
    }

    /// Claims what must be the only one of its kind, enters all entries, and looks for others with the same keys.
    fn take_keys(
        &self,
        txn: &mut DiskTxn,
        rid: RowId,
        keys: &NewKeys,
        is_asked: impl Fn(&IndexSpec) -> bool,
    ) -> Result<(), WriteStop> {
        for (index, key, is_apart) in keys {
            keys::check(key)?;
            txn.charge(4 * key.len() + WRITE_BYTES)?;
            let is_asked = is_asked(&index.spec) && !is_apart;
            if is_asked {
                let claim = (index.prefix, Box::from(&key[..]));
                self.core
                    .overlay
                    .claim(&claim, txn.id())
                    .map_err(|holder| WriteStop::Busy { holder })?;
                txn.note(Undo::Claim(claim));
            }
            let entry = index.entry(key, rid);
            index.enter(&entry);
            txn.note(Undo::Entry(Arc::clone(index), entry));
            if is_asked
                && let Some(stop) =
                    self.core.conflict(&self.space, index, key, Some(rid), txn.id())?
            {
                return Err(stop);
            }
        }
        Ok(())
    }

    /// Takes a row for a transaction, and reads it: what it is now. `base` is where it must not have changed since.
    fn take_row(&self, txn: &DiskTxn, base: Ts, rid: RowId) -> Result<Taken, WriteStop> {
        let mut spins = 0;
        loop {
            let mut block = self.core.overlay.block(self.space.id, rid.block());
            match block.get(rid) {
                Some(pending) if pending.owner.id == txn.id() => {
                    let now = match pending.last() {
                        Some(last) => last.cells.clone(),
                        None => pending.base.version().map(|base| Arc::clone(&base.cells)),
                    };
                    let is_held = true;
                    return now.map(|cells| Taken { cells, is_held }).ok_or(WriteStop::Gone);
                }
                Some(pending) => match pending.owner.state() {
                    State::Open | State::Committing(_) if !pending.changes.is_empty() => {
                        return Err(WriteStop::Busy { holder: pending.owner.id });
                    }
                    // It is being read, stored, or undone.
                    _ => {}
                },
                None => {
                    let owner = Arc::clone(&txn.owner);
                    let changes = SmallVec::new();
                    block.insert(rid, Pending { owner, base: Base::Unread, changes });
                    break;
                }
            }
            drop(block);
            pause(&mut spins);
        }
        // Nobody else changes it from here on.
        let read = self.read_taken(base, rid);
        let mut block = self.core.overlay.block(self.space.id, rid.block());
        match read {
            Ok(version) => {
                let cells = Arc::clone(&version.cells);
                block.get_mut(rid).expect("taken above").base = Base::Version(version);
                Ok(Taken { cells, is_held: false })
            }
            Err(stop) => {
                block.remove(rid);
                Err(stop)
            }
        }
    }

    fn read_taken(&self, base: Ts, rid: RowId) -> Result<Version, WriteStop> {
        let Some(version) = self.core.stored(self.space.id, rid)? else {
            return Err(WriteStop::Gone);
        };
        let base = if base == Ts::LATEST { base } else { self.core.crossings().at(base) };
        if version.begin > base.0 {
            return Err(WriteStop::Changed);
        }
        Ok(version)
    }

    /// Gives a row back that was taken and not changed.
    fn give_row(&self, rid: RowId, taken: &Taken) {
        if !taken.is_held {
            self.core.overlay.block(self.space.id, rid.block()).remove(rid);
        }
    }

    fn change_row(&self, txn: &mut DiskTxn, rid: RowId, cells: Option<Cells>, set: Set) {
        let change = Change { seq: txn.seq(), cells, set };
        let mut block = self.core.overlay.block(self.space.id, rid.block());
        let pending = block.get_mut(rid).expect("a taken row is pending");
        let is_first = pending.changes.is_empty();
        pending.changes.push(change);
        drop(block);
        txn.note(Undo::Row { space: Arc::clone(&self.space), rid, is_first });
        txn.wrote();
    }

    /// Updates, deletes or holds a row.
    pub(crate) fn write_one(
        &self,
        txn: &mut DiskTxn,
        base: Ts,
        write: &RowWrite<'_>,
    ) -> Result<(), WriteStop> {
        match write {
            RowWrite::Update { rid, columns, values } => {
                self.update_row(txn, base, *rid, columns, values)
            }
            RowWrite::Delete { rid } => {
                let taken = self.take_row(txn, base, *rid)?;
                // Who deletes makes room: he is not refused.
                txn.charge_anyway(taken.cells.len() + WRITE_BYTES);
                self.change_row(txn, *rid, None, Set::Deleted);
                Ok(())
            }
            RowWrite::Lock { rid } => {
                let taken = self.take_row(txn, base, *rid)?;
                if taken.is_held {
                    return Ok(());
                }
                if let Err(error) = txn.charge(taken.cells.len() + WRITE_BYTES) {
                    self.give_row(*rid, &taken);
                    return Err(error.into());
                }
                self.change_row(txn, *rid, None, Set::Nothing);
                Ok(())
            }
        }
    }

    fn update_row(
        &self,
        txn: &mut DiskTxn,
        base: Ts,
        rid: RowId,
        positions: &[usize],
        values: &[Value],
    ) -> Result<(), WriteStop> {
        assert_eq!(positions.len(), values.len(), "each column has a value");
        positions.iter().zip(values).try_for_each(|(&at, value)| self.check(at, value))?;
        let taken = self.take_row(txn, base, rid)?;
        let mark = txn.mark();
        let updated = self.update_taken(txn, rid, &taken.cells, positions, values);
        match updated {
            Ok((cells, ids)) => {
                self.change_row(txn, rid, Some(cells), Set::Some(ids));
                Ok(())
            }
            Err(stop) => {
                txn.back_to(mark);
                self.give_row(rid, &taken);
                Err(stop)
            }
        }
    }

    fn update_taken(
        &self,
        txn: &mut DiskTxn,
        rid: RowId,
        before: &Cells,
        positions: &[usize],
        values: &[Value],
    ) -> Result<(Cells, SmallVec<[ColumnId; 4]>), WriteStop> {
        let ids: SmallVec<[ColumnId; 4]> =
            positions.iter().map(|&at| self.layout.columns[at].id).collect();
        let set: Vec<(ColumnId, &Value)> = ids.iter().copied().zip(values).collect();
        let cells = version::with(before, &set, |id| self.space.keeps(id))?;
        txn.charge(2 * (before.len() + cells.len()) + WRITE_BYTES)?;
        // Those of the writer's layout: of one that is being made, capture enters what this changes.
        let is_touched = |index: &&Arc<Index>| ids.iter().any(|id| index.has_column(*id));
        let indexes: Vec<Arc<Index>> = self.indexes.iter().filter(is_touched).cloned().collect();
        let mut keys = new_keys(&indexes, &cells)?;
        let mut kept = Vec::new();
        for (n, (index, key, _)) in keys.iter().enumerate() {
            if index.key_of(before)?.0 == *key {
                kept.push(n);
            }
        }
        for n in kept.into_iter().rev() {
            keys.remove(n);
        }
        self.take_keys(txn, rid, &keys, |spec| spec.unique)?;
        Ok((cells, ids))
    }

    /// Enters the keys of a row that the transaction has written into indexes of this layout.
    pub(crate) fn index_own(
        &self,
        txn: &mut DiskTxn,
        rid: RowId,
        indexes: &[usize],
    ) -> Result<(), WriteStop> {
        let cells = {
            let block = self.core.overlay.block(self.space.id, rid.block());
            let pending = block.get(rid).filter(|pending| pending.owner.id == txn.id());
            pending.and_then(|pending| pending.last()?.cells.clone())
        };
        let Some(cells) = cells else { return Ok(()) };
        let indexes: Vec<Arc<Index>> =
            indexes.iter().map(|at| Arc::clone(&self.indexes[*at])).collect();
        let keys = new_keys(&indexes, &cells)?;
        let mark = txn.mark();
        let taken = self.take_keys(txn, rid, &keys, IndexSpec::keeps_apart);
        match &taken {
            Err(_) => txn.back_to(mark),
            // It is no write: it goes when the last one goes.
            Ok(()) => txn.count_with_last(mark),
        }
        taken
    }
}

/// A row that a transaction has.
struct Taken {
    cells: Cells,
    /// It had it before.
    is_held: bool,
}

fn new_keys(indexes: &[Arc<Index>], cells: &[u8]) -> Result<NewKeys, EngineError> {
    let mut keys = NewKeys::new();
    for index in indexes {
        let (key, is_apart) = index.key_of(cells)?;
        keys.push((Arc::clone(index), key, is_apart));
    }
    Ok(keys)
}

/// What another row means for who wants its key.
enum Rival {
    No,
    Duplicate,
    Busy(TxnId),
}

impl Core {
    /// Why a row of a transaction may not have a key.
    pub fn conflict(
        &self,
        space: &Space,
        index: &Index,
        key: &[u8],
        rid: Option<RowId>,
        own: TxnId,
    ) -> Result<Option<WriteStop>, EngineError> {
        let mut others: SmallVec<[RowId; 4]> = SmallVec::new();
        let range = KeyRange::exactly(key);
        self.entries(index, &range, Direction::Forward, &mut |_, other| {
            if Some(other) != rid {
                others.push(other);
            }
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        for other in others {
            match self.rival(space, index, key, other, own)? {
                Rival::No => {}
                Rival::Duplicate => {
                    return Ok(Some(WriteStop::Duplicate { index: index.id(), other }));
                }
                Rival::Busy(holder) => return Ok(Some(WriteStop::Busy { holder })),
            }
        }
        Ok(None)
    }

    fn rival(
        &self,
        space: &Space,
        index: &Index,
        key: &[u8],
        rid: RowId,
        own: TxnId,
    ) -> Result<Rival, EngineError> {
        let has_key = |cells: &[u8]| Ok::<_, EngineError>(index.key_of(cells)?.0 == key);
        let block = self.overlay.block(space.id, rid.block());
        if let Some(pending) = block.get(rid)
            && let Some(last) = pending.last()
        {
            let base = pending.base.version().map(|base| &base.cells);
            let changes = || pending.changes.iter().filter_map(|change| change.cells.as_ref());
            return Ok(match pending.owner.state() {
                State::Open | State::Committing(_) if pending.owner.id != own => {
                    let mut is_held = base.map_or(Ok(false), |cells| has_key(cells))?;
                    for cells in changes() {
                        is_held |= has_key(cells)?;
                    }
                    if is_held { Rival::Busy(pending.owner.id) } else { Rival::No }
                }
                State::Aborted => match base.map_or(Ok(false), |cells| has_key(cells))? {
                    true => Rival::Duplicate,
                    false => Rival::No,
                },
                // Its own, or committed.
                _ => match last.cells.as_ref().map_or(Ok(false), |cells| has_key(cells))? {
                    true => Rival::Duplicate,
                    false => Rival::No,
                },
            });
        }
        drop(block);
        Ok(match self.stored(space.id, rid)? {
            Some(version) if has_key(&version.cells)? => Rival::Duplicate,
            _ => Rival::No,
        })
    }

    /// Who has a row and has not ended, and deletes it or changes one of some columns.
    pub fn changer(
        &self,
        space: &Space,
        rid: RowId,
        columns: &[ColumnId],
        own: TxnId,
    ) -> Option<TxnId> {
        let block = self.overlay.block(space.id, rid.block());
        let pending = block.get(rid).filter(|pending| pending.owner.id != own)?;
        let is_open = matches!(pending.owner.state(), State::Open | State::Committing(_));
        let changes = pending.changes.iter().any(|change| match &change.set {
            Set::Deleted => true,
            Set::Some(set) => set.iter().any(|id| columns.contains(id)),
            Set::Inserted | Set::Nothing => false,
        });
        (is_open && changes).then_some(pending.owner.id)
    }

    /// Whether a row was inserted, updated or deleted by a commit after a timestamp of the anchor's.
    pub fn changed_since(&self, space: &Space, rid: RowId, ts: Ts) -> Result<bool, EngineError> {
        let ts = self.crossings().at(ts).0;
        let mut spins = 0;
        let base = loop {
            let block = self.overlay.block(space.id, rid.block());
            let Some(pending) = block.get(rid) else { break None };
            match pending.owner.state() {
                State::Committing(_) => {}
                State::Committed(at) if pending.last().is_some() => return Ok(at > ts),
                State::Open | State::Committed(_) | State::Aborted => match &pending.base {
                    Base::Version(version) => break Some(version.begin),
                    // Nobody has committed it.
                    Base::Nothing => return Ok(false),
                    Base::Unread => break None,
                },
            }
            drop(block);
            pause(&mut spins);
        };
        let base = match base {
            Some(begin) => Some(begin),
            None => self.stored(space.id, rid)?.map(|version| version.begin),
        };
        match base {
            Some(begin) => Ok(begin > ts),
            // It was deleted, if it ever was.
            None => self.ended_since(space, rid, ts),
        }
    }

    /// Whether a version of a row has ended after a timestamp.
    fn ended_since(&self, space: &Space, rid: RowId, ts: u64) -> Result<bool, EngineError> {
        let (from, to) = (keys::history(space.id, rid, u64::MAX), keys::history(space.id, rid, ts));
        let mut found = false;
        self.store.range(Tree::History, &from, &to, false, &mut |_, _| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// The key of a row in a view; none without a row, or with a NULL that makes it unlike others.
    pub fn key_in(
        &self,
        snapshot: &Snapshot,
        space: &Space,
        index: &Index,
        rid: RowId,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let Some(cells) = self.row(self.view(snapshot), space, rid)? else { return Ok(None) };
        let (key, is_apart) = index.key_of(&cells)?;
        Ok((!is_apart).then_some(key))
    }
}
