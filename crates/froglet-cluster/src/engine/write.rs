//! Writes of rows: what is locked, what it is then, and what is buffered.
//!
//! ```text
//!   insert   keys of the row and of unique entries: locked, must be new ─▶ row and entries
//!   update   the row, locked at `base` ─▶ new cells; keys of entries that change, as above; old entries go
//!   delete   the row, and what unique entries it has, locked ─▶ all go
//! ```
//! **[E4]** Whoever takes an entry of a unique index away, or brings one, has it locked: nobody else finds the key free, or
//! taken, before he has ended.

use std::time::Duration;

use froglet_engine::{
    EngineError, IndexId, Layout, Row, RowId, RowWrite, SqlState, TxnId, Value, WriteStop, key,
};
use froglet_log::cells::{self, Wanted};
use smallvec::SmallVec;

use super::index::Entry;
use super::table::ClusterTable;
use super::txn::ClusterTxn;
use super::view::View;
use super::{ELSEWHERE, failed, keys};
use crate::client::{Locking, StoreError};

/// A row and its keys are at most so long: what the store takes in one request.
const LONGEST_ROW: usize = 4 << 20;
/// Keys that are locked together are tried in parts so often, where somebody is in the way of some.
const MOST_TRIES: u32 = 40;
/// More than a key and a value take in memory.
const WRITE_BYTES: usize = 256;

/// The number of the transaction that stands for whoever has the lock that this one has met.
fn elsewhere(txn: &ClusterTxn) -> WriteStop {
    WriteStop::Busy { holder: TxnId(txn.id.0 | ELSEWHERE) }
}

impl ClusterTable {
    /// The key of a row by which it is in the store.
    fn row_key(&self, layout: &Layout, txn: &ClusterTxn, row: &[Value]) -> Vec<u8> {
        match self.primary() {
            Some(spec) => {
                let values = layout.key_positions(spec).map(|at| &row[at]);
                key::encode(values, &spec.key)
            }
            None => txn.core.new_row_key(txn.shared.writes.start_ts),
        }
    }

    /// The entries of a row, but for that of its own key.
    pub(super) fn entries(&self, cells: &[u8], row_key: &[u8]) -> Result<Vec<Entry>, EngineError> {
        self.others().map(|index| index.entry(cells, row_key)).collect()
    }

    fn check_row(&self, at: &[u8], cells: &[u8]) -> Result<(), EngineError> {
        match at.len() + cells.len() {
            long if long > LONGEST_ROW => Err(EngineError::Refused {
                state: SqlState::PROGRAM_LIMIT_EXCEEDED,
                message: format!(
                    "row size {long} exceeds maximum {LONGEST_ROW} of tables in a cluster: keep large values in several rows"
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Locks keys at a timestamp, or at the present.
    pub(super) fn lock(
        &self,
        txn: &ClusterTxn,
        locks: Vec<Locking>,
        at: Option<u64>,
    ) -> Result<(), WriteStop> {
        self.lock_from(txn, locks, at.unwrap_or(0), at.is_some())
    }

    /// Locks keys at a timestamp, or later.
    fn lock_from(
        &self,
        txn: &ClusterTxn,
        locks: Vec<Locking>,
        at: u64,
        is_fixed: bool,
    ) -> Result<(), WriteStop> {
        // What was asked for and given up before may be locked, or not: it is asked for again.
        let is_open = |l: &Locking| txn.shared.buffer.lock().own(&l.key).is_none();
        let locks: Vec<Locking> = locks.into_iter().filter(is_open).collect();
        if locks.is_empty() {
            return Ok(());
        }
        let core = &txn.core;
        let mut ts = at.max(txn.shared.writes.start_ts);
        loop {
            let locked = core.wait(txn.shared.writes.lock(&locks, ts, Duration::ZERO));
            match locked {
                Ok(values) => {
                    let mut buffer = txn.shared.buffer.lock();
                    for (locking, value) in locks.into_iter().zip(values) {
                        buffer.hold(locking.key, value, ts);
                    }
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) if is_fixed => return Err(WriteStop::Changed),
                Err(StoreError::Conflict { commit_ts, .. }) => {
                    let now = core.wait(core.client.timestamp());
                    ts = now.map_err(failed)?.max(commit_ts);
                }
                Err(StoreError::Locked { .. }) => {
                    *txn.shared.waiting.lock() = Some((locks, ts));
                    return Err(elsewhere(txn));
                }
                Err(StoreError::Exists { key }) => return Err(self.duplicate(txn, &key)?),
                Err(error) => return Err(failed(error).into()),
            }
        }
    }

    /// Which row has a key that was to be new.
    fn duplicate(&self, txn: &ClusterTxn, at: &[u8]) -> Result<WriteStop, EngineError> {
        let stop = |index: IndexId, row_key: &[u8]| {
            let at = [&self.place.prefix[..], row_key].concat();
            WriteStop::Duplicate { index, other: txn.core.interned.number(&at) }
        };
        if let (Some(spec), Some(row_key)) =
            (self.primary(), at.strip_prefix(&self.place.prefix[..]))
        {
            return Ok(stop(spec.id, row_key));
        }
        let index = self.others().find(|index| at.starts_with(&index.prefix));
        let index =
            index.expect("what is locked is a row or an entry of one of its indexes").spec.id;
        let own = txn.shared.buffer.lock().own(at).cloned();
        let value = match own {
            Some(Some(value)) => Some(value),
            _ => {
                let ts = txn.core.wait(txn.core.client.timestamp()).map_err(failed)?;
                View::at(&txn.core, ts).get(at)?
            }
        };
        let row_key = value.as_deref().and_then(keys::of_entry_value).unwrap_or_default();
        Ok(stop(index, row_key))
    }

    /// Whether a key that is to be new is so to the transaction, if it knows.
    fn is_taken(&self, txn: &ClusterTxn, at: &[u8]) -> bool {
        txn.shared.buffer.lock().own(at).is_some_and(Option::is_some)
    }

    /// Locks keys that are to be new.
    fn lock_new(&self, txn: &ClusterTxn, keys: Vec<Vec<u8>>) -> Result<(), WriteStop> {
        if let Some(taken) = keys.iter().find(|key| self.is_taken(txn, key)) {
            return Err(self.duplicate(txn, taken)?);
        }
        // What it has deleted itself is locked.
        let own = |key: &Vec<u8>| txn.shared.buffer.lock().own(key).is_none();
        let locks = keys.into_iter().filter(own);
        let locks = locks.map(|key| Locking { key, is_new: true }).collect();
        self.lock(txn, locks, None)
    }

    /// Inserts rows; how many of them, and why no more.
    pub(super) fn insert_rows(
        &self,
        txn: &mut ClusterTxn,
        rows: &[Row],
        rids: &mut Vec<RowId>,
    ) -> Result<(), (usize, WriteStop)> {
        self.may_write_rows(txn).map_err(|stop| (0, stop))?;
        let mut made = Vec::with_capacity(rows.len());
        for (n, row) in rows.iter().enumerate() {
            made.push(self.make_row(txn, row).map_err(|error| (n, error.into()))?);
        }
        // All in one request, as a rule; one after the other where something is in the way of one.
        let mut unlocked = std::collections::BTreeSet::new();
        let is_new = made
            .iter()
            .flat_map(|made| &made.unique)
            .all(|key| !self.is_taken(txn, key) && unlocked.insert(key.clone()));
        if is_new {
            match self.lock_new(txn, unlocked.into_iter().collect()) {
                Ok(()) | Err(WriteStop::Duplicate { .. }) => {}
                Err(WriteStop::Busy { .. }) if rows.len() > 1 => {}
                Err(stop) => return Err((0, stop)),
            }
        }
        for (n, made) in made.into_iter().enumerate() {
            self.lock_new(txn, made.unique).map_err(|stop| (n, stop))?;
            let rid = txn.core.interned.number(&made.at);
            let mut buffer = txn.shared.buffer.lock();
            let value = keys::entry_value(keys::row_key(&made.at));
            for entry in made.entries {
                buffer.put(entry.at, Some(value.clone()));
            }
            buffer.put(made.at, Some(made.value));
            buffer.wrote(self.space, rid);
            rids.push(rid);
        }
        Ok(())
    }

    fn make_row(&self, txn: &mut ClusterTxn, row: &Row) -> Result<MadeRow, EngineError> {
        let row_key = self.row_key(&self.layout, txn, row);
        let made = self.made_row(self.place.at(&row_key), row)?;
        txn.charge(
            2 * (made.at.len() + made.value.len()) + WRITE_BYTES * (1 + made.entries.len()),
        )?;
        Ok(made)
    }

    /// A row as it is written at a key.
    pub(super) fn made_row(&self, at: Vec<u8>, row: &Row) -> Result<MadeRow, EngineError> {
        for (column, value) in self.layout.columns.iter().zip(row) {
            if !column.ty.accepts(value) {
                let (column, ty) = (column.id, column.ty);
                return Err(EngineError::WrongType { column, ty, value: Box::new(value.clone()) });
            }
        }
        let cells = cells::of_row(&self.layout, row).to_vec();
        self.check_row(&at, &cells)?;
        let entries = self.entries(&cells, keys::row_key(&at))?;
        // Of several that are taken the primary key is named, as in PostgreSQL.
        let own = self.primary().map(|_| at.clone());
        let others = entries.iter().filter(|entry| entry.is_unique).map(|entry| entry.at.clone());
        let unique = own.into_iter().chain(others).collect();
        Ok(MadeRow { at, value: self.place.value(&cells), entries, unique })
    }

    /// Locks a row as it was at `base`, and what it is.
    fn take_row(
        &self,
        txn: &ClusterTxn,
        base: Option<u64>,
        at: &[u8],
    ) -> Result<Vec<u8>, WriteStop> {
        self.lock_as_of(txn, &[at.to_vec()], base)?;
        let value = txn.shared.buffer.lock().own(at).cloned().flatten();
        let value = value.ok_or(WriteStop::Gone)?;
        Ok(self.place.cells(&value).ok_or(WriteStop::Gone)?.to_vec())
    }

    /// Locks keys that are what they were at `base`.
    pub(super) fn lock_as_of(
        &self,
        txn: &ClusterTxn,
        at: &[Vec<u8>],
        base: Option<u64>,
    ) -> Result<(), WriteStop> {
        let locks = || at.iter().map(|key| Locking { key: key.clone(), is_new: false }).collect();
        match self.lock(txn, locks(), base) {
            // Somebody may have committed that it was locked, and no more [W3 of `client::write`].
            Err(WriteStop::Changed) => {
                let now = txn.core.wait(txn.core.client.timestamp()).map_err(failed)?;
                self.lock_from(txn, locks(), now, false)?;
            }
            locked => locked?,
        }
        let Some(base) = base else { return Ok(()) };
        match self.are_as_of(txn, at, base)? {
            true => Ok(()),
            false => Err(WriteStop::Changed),
        }
    }

    /// Whether keys that are locked are what they were at a timestamp: those are looked at that were locked later, or for
    /// another reason; and all, where it is from before the transaction's start, since the store takes no such lock.
    fn are_as_of(&self, txn: &ClusterTxn, at: &[Vec<u8>], ts: u64) -> Result<bool, EngineError> {
        let (keys, values) = txn.shared.buffer.lock().held_after(at, ts);
        if keys.is_empty() {
            return Ok(true);
        }
        let then = View::of_what_has_stayed(&txn.core, ts).get_all(&keys)?;
        let mut are_all = true;
        let mut buffer = txn.shared.buffer.lock();
        for (key, (now, then)) in keys.into_iter().zip(values.into_iter().zip(then)) {
            match now == then {
                true => buffer.hold(key, now, ts),
                false => are_all = false,
            }
        }
        Ok(are_all)
    }

    /// Locks rows as they were at `base`, and then what unique entries those have that are to go: all in one request each, as
    /// a rule. Where something is in the way of one, that is locked when it is written.
    pub(super) fn lock_rows(
        &self,
        txn: &mut ClusterTxn,
        base: Option<u64>,
        writes: &[RowWrite<'_>],
    ) -> Result<(), WriteStop> {
        if writes.len() == 1 || base.is_some_and(|base| base < txn.shared.writes.start_ts) {
            return Ok(());
        }
        self.may_write_rows(txn)?;
        let key = |write: &RowWrite<'_>| txn.core.interned.key(write.rid());
        let mut at: Vec<_> = writes.iter().filter_map(key).collect();
        at.sort_unstable();
        at.dedup();
        let at: Vec<Vec<u8>> = at.iter().map(|key| key.to_vec()).collect();
        match self.lock_as_of(txn, &at, base) {
            // Who has another row than he thinks is told when he writes it.
            Ok(()) | Err(WriteStop::Changed) => {}
            Err(stop @ WriteStop::Engine(_)) => return Err(stop),
            Err(_) => {
                let locks = at.into_iter().map(|key| Locking { key, is_new: false }).collect();
                self.lock_free(txn, locks, base, &mut { MOST_TRIES })?;
            }
        }
        let deleted = writes.iter().filter(|write| matches!(write, RowWrite::Delete { .. }));
        let mut gone = Vec::new();
        for at in deleted.filter_map(key) {
            let value = txn.shared.buffer.lock().own(&at).cloned().flatten();
            if let Some(cells) = value.as_deref().and_then(|value| self.place.cells(value)) {
                gone.extend(self.entries(cells, keys::row_key(&at))?);
            }
        }
        let unique = gone.into_iter().filter(|entry| entry.is_unique);
        let locks = unique.map(|entry| Locking { key: entry.at, is_new: false }).collect();
        self.lock_free(txn, locks, None, &mut { MOST_TRIES })
    }

    /// Locks those keys that nobody is in the way of. Of several the halves are tried apart, up to so many times: a key
    /// that is held costs some requests more, and not one for each of the others.
    fn lock_free(
        &self,
        txn: &ClusterTxn,
        mut locks: Vec<Locking>,
        at: Option<u64>,
        tries: &mut u32,
    ) -> Result<(), WriteStop> {
        match self.lock(txn, locks.clone(), at) {
            Ok(()) => Ok(()),
            Err(stop @ WriteStop::Engine(_)) => Err(stop),
            Err(_) if locks.len() <= 1 || *tries == 0 => Ok(()),
            Err(_) => {
                *tries -= 1;
                let others = locks.split_off(locks.len() / 2);
                self.lock_free(txn, locks, at, tries)?;
                self.lock_free(txn, others, at, tries)
            }
        }
    }

    /// Updates, deletes or holds a row.
    pub(super) fn write_row(
        &self,
        txn: &mut ClusterTxn,
        base: Option<u64>,
        write: &RowWrite<'_>,
    ) -> Result<(), WriteStop> {
        self.may_write_rows(txn)?;
        let rid = write.rid();
        let at = txn.core.interned.key(rid).ok_or(WriteStop::Gone)?;
        let before = self.take_row(txn, base, &at)?;
        match write {
            RowWrite::Lock { .. } => Ok(()),
            RowWrite::Delete { .. } => {
                let entries = self.entries(&before, keys::row_key(&at))?;
                self.lock_old(txn, &entries)?;
                let mut buffer = txn.shared.buffer.lock();
                entries.into_iter().for_each(|entry| buffer.put(entry.at, None));
                buffer.put(at.to_vec(), None);
                buffer.wrote(self.space, rid);
                Ok(())
            }
            RowWrite::Update { columns, values, .. } => {
                self.update_row(txn, rid, &at, &before, columns, values)
            }
        }
    }

    fn lock_old(&self, txn: &ClusterTxn, entries: &[Entry]) -> Result<(), WriteStop> {
        let unique = entries.iter().filter(|entry| entry.is_unique);
        let own = |key: &Vec<u8>| txn.shared.buffer.lock().own(key).is_none();
        let locks = unique.map(|entry| entry.at.clone()).filter(own);
        let locks = locks.map(|key| Locking { key, is_new: false }).collect();
        self.lock(txn, locks, None)
    }

    fn update_row(
        &self,
        txn: &mut ClusterTxn,
        rid: RowId,
        at: &[u8],
        before: &[u8],
        positions: &[usize],
        values: &[Value],
    ) -> Result<(), WriteStop> {
        let mut set = SmallVec::<[_; 4]>::new();
        for (position, value) in positions.iter().zip(values) {
            let column = &self.layout.columns[*position];
            if !column.ty.accepts(value) {
                let (column, ty) = (column.id, column.ty);
                let value = Box::new(value.clone());
                return Err(EngineError::WrongType { column, ty, value }.into());
            }
            set.push((column.id, value));
        }
        let after = cells::with(before, &set, |_| true)?.to_vec();
        let new_at = self.moved(at, &after)?;
        self.check_row(&new_at, &after)?;
        txn.charge(2 * (new_at.len() + after.len()) + WRITE_BYTES)?;
        let mut gone = self.entries(before, keys::row_key(at))?;
        let mut come = self.entries(&after, keys::row_key(&new_at))?;
        if new_at == at {
            let stays = |entry: &Entry, others: &[Entry]| others.contains(entry);
            let both: Vec<Vec<u8>> =
                gone.iter().filter(|e| stays(e, &come)).map(|e| e.at.clone()).collect();
            gone.retain(|entry| !both.contains(&entry.at));
            come.retain(|entry| !both.contains(&entry.at));
        }
        self.lock_old(txn, &gone)?;
        let is_kept = |key: &Vec<u8>| gone.iter().any(|entry| entry.at == *key);
        let mut new: Vec<Vec<u8>> = come
            .iter()
            .filter(|entry| entry.is_unique)
            .map(|entry| entry.at.clone())
            .filter(|key| !is_kept(key))
            .collect();
        if new_at != at {
            new.push(new_at.clone());
        }
        self.lock_new(txn, new)?;
        let new_rid = if new_at == at { rid } else { txn.core.interned.number(&new_at) };
        let mut buffer = txn.shared.buffer.lock();
        gone.into_iter().for_each(|entry| buffer.put(entry.at, None));
        let value = keys::entry_value(keys::row_key(&new_at));
        come.into_iter().for_each(|entry| buffer.put(entry.at, Some(value.clone())));
        if new_at != at {
            buffer.put(at.to_vec(), None);
        }
        buffer.put(new_at, Some(self.place.value(&after)));
        buffer.wrote(self.space, new_rid);
        Ok(())
    }

    /// Where a row is with these cells: elsewhere, if its primary key is another.
    fn moved(&self, at: &[u8], cells: &[u8]) -> Result<Vec<u8>, EngineError> {
        let Some(spec) = self.primary() else { return Ok(at.to_vec()) };
        let columns = self.layout.key_positions(spec).map(|at| &self.layout.columns[at]);
        let wanted = Wanted::new(columns.map(|column| (column.id, column.missing.clone())));
        let mut values = Row::new();
        wanted.read(cells, &mut values)?;
        Ok(self.place.at(&key::encode(&values, &spec.key)))
    }
}

/// A row that is to be inserted.
pub(super) struct MadeRow {
    pub at: Vec<u8>,
    pub value: Vec<u8>,
    pub entries: Vec<Entry>,
    /// Keys that must be new.
    unique: Vec<Vec<u8>>,
}
