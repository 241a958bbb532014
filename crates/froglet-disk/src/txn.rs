//! A transaction's part on disk: what it has written, how it is undone, its way into the log and into the store.
//!
//! ```text
//!   write    row in the overlay, entries of its keys, claims to unique ones
//!   reserve  the record is made, its room is there; all but the last part of a long one is logged
//!   commit   timestamp ─ feeds ─ logged as a half ─ committed ─ entries, old versions, rows into the store ─ out of the overlay
//! ```

use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin as Pinned;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use froglet_engine::crossing::BesideTxn;
use froglet_engine::{CrashPoint, EngineError, LogRoom, Lsn, RowId, Savepoint, SpaceId, Ts, TxnId};
use froglet_log::{Chain, Reserving, Room, redo};

use crate::engine::{Core, Pin};
use crate::keys;
use crate::overlay::{Base, ClaimKey, Owner, Pending, Set, State};
use crate::space::{Index, Space};
use crate::store::{Cached, Maps, Store, Tree};
use crate::version::{Cells, Version};

/// Memory is charged in such steps.
const CHARGE_BYTES: u64 = 64 << 10;
/// More than what is logged beside operations.
const AROUND_BYTES: usize = 64;

/// What is undone, newest first.
pub(crate) enum Undo {
    /// The last change of a row.
    Row { space: Arc<Space>, rid: RowId, is_first: bool },
    /// An entry in the overlay of an index.
    Entry(Arc<Index>, Vec<u8>),
    /// A claim to a key.
    Claim(ClaimKey),
    /// What is kept for a keeper.
    Keep(u64, Vec<SpaceId>),
}

/// What is undone, and by what.
struct Noted {
    /// The number of its write.
    seq: u32,
    /// What the transaction had used before it.
    used_before: u64,
    undo: Undo,
}

/// Where a transaction stands before a write that may be refused.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    noted: usize,
    used_bytes: u64,
}

/// A transaction's part. Dropped, it is undone.
pub(crate) struct DiskTxn {
    pub core: Arc<Core>,
    pub owner: Arc<Owner>,
    undo: Vec<Noted>,
    /// Its own writes.
    writes: u32,
    /// Those on the anchor.
    beside: u32,
    charged_bytes: u64,
    used_bytes: u64,
    /// What was used when something was last noted.
    noted_bytes: u64,
    record: Option<Record>,
    /// Of the owner, when the record was made.
    fills: u32,
    ts: Option<u64>,
    /// Where replays have to begin, from the log on.
    applying: Option<u64>,
    /// What it keeps, once it is about to be logged.
    pins: Vec<(u64, Arc<Pin>)>,
    is_logged: bool,
}

/// A record on its way into the log.
struct Record {
    operations: Vec<u8>,
    logged_bytes: usize,
    chain: Option<Chain>,
    reserving: Option<Reserving>,
    room: Option<Room>,
}

impl DiskTxn {
    pub fn begin(core: &Arc<Core>, owner: Arc<Owner>) -> DiskTxn {
        DiskTxn {
            core: Arc::clone(core),
            owner,
            undo: Vec::new(),
            writes: 0,
            beside: 0,
            charged_bytes: 0,
            used_bytes: 0,
            noted_bytes: 0,
            record: None,
            fills: 0,
            ts: None,
            applying: None,
            pins: Vec::new(),
            is_logged: false,
        }
    }

    pub fn id(&self) -> TxnId {
        self.owner.id
    }

    /// The number of the write that is about to be made.
    pub fn seq(&self) -> u32 {
        self.beside + self.writes
    }

    /// A write was made: everything that was noted with its number.
    pub fn wrote(&mut self) {
        self.writes += 1;
        self.record = None;
    }

    /// Asks for the memory of a write.
    pub fn charge(&mut self, bytes: usize) -> Result<(), EngineError> {
        assert!(self.ts.is_none(), "a transaction writes nothing after pre_commit");
        let used = self.used_bytes + bytes as u64;
        if used > self.charged_bytes {
            let more = (used - self.charged_bytes).next_multiple_of(CHARGE_BYTES);
            self.core.crossings().borrow_memory(more)?;
            self.charged_bytes += more;
        }
        self.used_bytes = used;
        Ok(())
    }

    /// The same of who is not refused.
    pub fn charge_anyway(&mut self, bytes: usize) {
        let used = self.used_bytes + bytes as u64;
        if used > self.charged_bytes {
            let more = (used - self.charged_bytes).next_multiple_of(CHARGE_BYTES);
            self.core.crossings().borrow_memory_anyway(more);
            self.charged_bytes += more;
        }
        self.used_bytes = used;
    }

    /// Before a write that may be refused.
    pub fn mark(&self) -> Mark {
        Mark { noted: self.undo.len(), used_bytes: self.used_bytes }
    }

    /// Undoes what a refused write has done.
    pub fn back_to(&mut self, mark: Mark) {
        self.undo_to(mark.noted);
        self.use_no_more_than(mark.used_bytes);
    }

    /// What was noted since goes with the last write.
    pub fn count_with_last(&mut self, since: Mark) {
        let last = self.seq().saturating_sub(1);
        self.undo[since.noted..].iter_mut().for_each(|noted| noted.seq = last);
        self.record = None;
    }

    pub fn note(&mut self, undo: Undo) {
        self.undo.push(Noted { seq: self.seq(), used_before: self.noted_bytes, undo });
        self.noted_bytes = self.used_bytes;
    }

    /// Undoes what was noted last, until so many are left.
    fn undo_to(&mut self, left: usize) {
        while self.undo.len() > left {
            let Noted { used_before, undo, .. } = self.undo.pop().expect("there are more");
            match undo {
                Undo::Row { space, rid, .. } => self.undo_row(&space, rid),
                Undo::Entry(index, entry) => index.leave(&entry),
                Undo::Claim(key) => self.core.overlay.let_go(&key),
                Undo::Keep(..) => {}
            }
            self.use_no_more_than(used_before);
        }
    }

    /// Gives memory back that is used no more, but for a step that the next write has.
    fn use_no_more_than(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.min(bytes);
        self.noted_bytes = self.noted_bytes.min(bytes);
        let kept = self.used_bytes.next_multiple_of(CHARGE_BYTES) + CHARGE_BYTES;
        if self.charged_bytes > kept {
            self.core.crossings().return_memory(self.charged_bytes - kept);
            self.charged_bytes = kept;
        }
    }

    fn undo_row(&self, space: &Space, rid: RowId) {
        let mut block = self.core.overlay.block(space.id, rid.block());
        let pending = block.get_mut(rid).expect("a row that was written is pending");
        pending.changes.pop();
        if pending.changes.is_empty() {
            block.remove(rid);
        }
    }

    /// The rows it has written, each once, in the order in which they came.
    fn rows(&self) -> impl Iterator<Item = (&Arc<Space>, RowId)> {
        self.undo.iter().filter_map(|noted| match &noted.undo {
            Undo::Row { space, rid, is_first: true } => Some((space, *rid)),
            _ => None,
        })
    }

    /// Those that are not only held.
    fn changed_rows(&self) -> impl Iterator<Item = (&Arc<Space>, RowId)> {
        self.rows().filter(|(space, rid)| {
            let block = self.core.overlay.block(space.id, rid.block());
            block.get(*rid).is_some_and(|pending| pending.last().is_some())
        })
    }

    fn feed(&self) {
        let has_feeds = |noted: &Noted| match &noted.undo {
            Undo::Row { space, .. } => space.has_feeds(),
            _ => false,
        };
        if !self.undo.iter().any(has_feeds) {
            return;
        }
        let mut by_space = BTreeMap::<SpaceId, (&Space, Vec<RowId>)>::new();
        for (space, rid) in self.changed_rows() {
            by_space.entry(space.id).or_insert_with(|| (space, Vec::new())).1.push(rid);
        }
        for (space, rids) in by_space.values() {
            space.feed(rids);
        }
    }

    fn operations(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (space, rid) in self.rows() {
            let block = self.core.overlay.block(space.id, rid.block());
            let pending = block.get(rid).expect("a row that was written is pending");
            match (pending.last(), &pending.base) {
                (None, _) => {}
                (Some(last), base) => match (&last.cells, base) {
                    (Some(cells), _) => redo::insert_cells(&mut out, space.id, rid, cells),
                    // Made and deleted.
                    (None, Base::Nothing) => {}
                    (None, _) => redo::delete(&mut out, space.id, rid),
                },
            }
        }
        for noted in &self.undo {
            if let Undo::Keep(keeper, spaces) = &noted.undo {
                redo::keep(&mut out, *keeper, spaces);
            }
        }
        out
    }

    fn reserve(&mut self) -> Result<Option<Reserving>, EngineError> {
        let core = Arc::clone(&self.core);
        if self.record.is_none() {
            self.fills = self.owner.fills();
            self.record = Some(Record {
                operations: self.operations(),
                logged_bytes: 0,
                chain: None,
                reserving: None,
                room: None,
            });
        }
        let record = self.record.as_mut().expect("made above");
        loop {
            let left = &record.operations[record.logged_bytes..];
            let is_last = left.len() <= core.log.part_bytes();
            if is_last && record.room.is_some() {
                return Ok(None);
            }
            let piece = &left[..left.len().min(core.log.part_bytes())];
            let wanted_bytes = piece.len() + AROUND_BYTES;
            let reserving = match record.reserving.take() {
                Some(reserving) => reserving,
                None => core.log.reserve(wanted_bytes)?,
            };
            match reserving.taken() {
                None => {
                    record.reserving = Some(reserving.clone());
                    return Ok(Some(reserving));
                }
                Some(room) if is_last => record.room = Some(room?),
                Some(room) => {
                    let mut chain = record.chain.take().unwrap_or_else(|| core.log.chain());
                    match chain.is_begun() {
                        true => chain.push(Some(room?), &[piece])?,
                        false => chain.push(Some(room?), &[&[redo::LONG_TXN], piece])?,
                    }
                    record.logged_bytes += piece.len();
                    record.chain = Some(chain);
                }
            }
        }
    }

    fn append_anew(&mut self, half: u64, ts: u64) -> Result<Lsn, EngineError> {
        self.record = None;
        let mut head = Vec::with_capacity(21);
        redo::txn_head(&mut head, Some(half), ts);
        Ok(self.core.log.append_now(&[&head, &self.operations()])?)
    }

    fn append(&mut self, half: u64, ts: u64) -> Result<Lsn, EngineError> {
        let record = self.record.take().map(|mut record| (record.room.take(), record));
        let Some((Some(room), mut record)) = record else {
            // Of a caller that has reserved nothing.
            return self.append_anew(half, ts);
        };
        let rest = &record.operations[record.logged_bytes..];
        Ok(match record.chain.take() {
            Some(chain) => chain.end(Some(room), &[rest, &redo::long_end(Some(half), ts)])?,
            None => {
                let mut head = Vec::with_capacity(21);
                redo::txn_head(&mut head, Some(half), ts);
                self.core.log.append_in(room, &[&head, rest])?
            }
        })
    }

    /// What it keeps is kept from its timestamp on: before anybody has a later one, and what he ends may go.
    fn pin_all(&mut self, ts: u64) {
        let mut kept = BTreeMap::<u64, Vec<SpaceId>>::new();
        for noted in &self.undo {
            if let Undo::Keep(keeper, spaces) = &noted.undo {
                kept.entry(*keeper).or_default().extend(spaces);
            }
        }
        for (keeper, mut spaces) in kept {
            spaces.sort_unstable();
            spaces.dedup();
            self.pins.push((keeper, self.core.pins.pin(ts, spaces)));
        }
    }

    /// Whether an entry is of the key that its row has in the end: of others nobody would take it away.
    fn is_last_key(&self, index: &Index, entry: &[u8]) -> bool {
        let (key, rid) = keys::of_entry(entry);
        let block = self.core.overlay.block(index.space, rid.block());
        let pending = block.get(rid).expect("a row that was written is pending");
        let Some(cells) = pending.last().and_then(|last| last.cells.as_ref()) else { return false };
        // What cannot be read is looked at by whoever cleans up.
        pending.changes.len() == 1 || index.key_of(cells).map_or(true, |(last, _)| last == key)
    }

    fn apply(&mut self, ts: u64) {
        let core = Arc::clone(&self.core);
        for noted in &self.undo {
            if let Undo::Entry(index, entry) = &noted.undo
                && self.is_last_key(index, entry)
            {
                core.store.put(Tree::Index, entry, &[]);
            }
        }
        for (space, rid) in self.rows() {
            let mut block = core.overlay.block(space.id, rid.block());
            let pending = block.get(rid).expect("a row that was written is pending");
            if pending.last().is_some() {
                core.store_row(space, rid, pending, ts);
                CrashPoint::HalfApplied.reached();
            }
            block.remove(rid);
        }
        for noted in std::mem::take(&mut self.undo) {
            match noted.undo {
                Undo::Entry(index, entry) => index.leave(&entry),
                Undo::Claim(key) => core.overlay.let_go(&key),
                Undo::Row { .. } | Undo::Keep(..) => {}
            }
        }
    }

    fn end(&mut self) {
        self.record = None;
        if let Some(at) = self.applying.take() {
            self.core.end_applying(at);
        }
        if self.charged_bytes > 0 {
            self.core.crossings().return_memory(std::mem::take(&mut self.charged_bytes));
        }
    }

    fn undo_all(&mut self) {
        if self.is_logged || (self.undo.is_empty() && self.ts.is_none()) {
            self.end();
            return;
        }
        self.owner.set(State::Aborted);
        self.undo_to(0);
        self.end();
    }
}

/// Where an old version is until nobody sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Recent,
    History,
}

impl Core {
    /// Where the version goes that a committed write has replaced [N1, N2].
    fn place_of_old(&self, space: &Space, pending: &Pending, ts: u64) -> Place {
        let Some(base) = pending.base.version().filter(|base| self.recent.has_room(base)) else {
            return Place::History;
        };
        let keeps_keys = || {
            let now = pending.last().and_then(|last| last.cells.as_ref());
            let indexes = space.indexes.read();
            let is_set = |index: &Index| {
                pending.changes.iter().any(|change| match &change.set {
                    Set::Some(ids) => ids.iter().any(|id| index.has_column(*id)),
                    Set::Nothing => false,
                    Set::Inserted | Set::Deleted => true,
                })
            };
            let has_both = |index: &Index, now: &Cells| {
                match (index.key_of(&base.cells), index.key_of(now)) {
                    (Ok(before), Ok(after)) => before.0 == after.0,
                    // What cannot be read is looked at by whoever cleans up.
                    _ => false,
                }
            };
            now.is_some_and(|now| {
                indexes.iter().all(|index| !is_set(index) || has_both(index, now))
            })
        };
        let is_needed = || space.has_feeds() || self.pins.need(space.id, base.begin, ts);
        match keeps_keys() && !is_needed() {
            true => Place::Recent,
            false => Place::History,
        }
    }

    /// Puts a committed version into the store, in the order that readers rely on. Its writer has the row [O1].
    fn store_row(&self, space: &Space, rid: RowId, pending: &Pending, ts: u64) {
        let now = pending.last().and_then(|last| last.cells.as_ref());
        let base = pending.base.version();
        if let Some(base) = base {
            match self.place_of_old(space, pending, ts) {
                Place::Recent => {
                    space.ends_at(ts);
                    self.recent.put(space.id, rid, ts, base.clone());
                }
                Place::History => put_old(&self.store, space, rid, base, ts),
            }
        }
        put_row(&self.store, space, rid, base, now, ts);
        if base.is_some() {
            self.garbage.lock().push(ts, space.id, rid);
        }
    }
}

/// Puts a version into the history that was the newest until `ts`.
pub(crate) fn put_old(store: &dyn Store, space: &Space, rid: RowId, old: &Version, ts: u64) {
    space.ends_at(ts);
    store.put(Tree::History, &keys::history(space.id, rid, ts), &old.encode());
}

/// Puts a version of a row in the place of another one, which is somewhere else already.
pub(crate) fn put_row(
    store: &Cached<Maps>,
    space: &Space,
    rid: RowId,
    base: Option<&Version>,
    now: Option<&Cells>,
    ts: u64,
) {
    match now {
        Some(cells) => {
            store.put_row(space.id, rid, Version { begin: ts, cells: Cells::clone(cells) });
        }
        None => store.remove(Tree::Rows, &keys::row(space.id, rid)),
    }
    let bytes = |cells: Option<&Cells>| cells.map_or(0, |cells| cells.len() as i64);
    let rows = i64::from(now.is_some()) - i64::from(base.is_some());
    space.rows.fetch_add(rows, Ordering::Relaxed);
    space.bytes.fetch_add(bytes(now) - bytes(base.map(|base| &base.cells)), Ordering::Relaxed);
}

/// Waits until something that has gathered is written.
struct Written(Arc<Core>);

impl Future for Written {
    type Output = ();

    fn poll(self: Pinned<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // First the place in line, then the look.
        self.0.wake_later(context.waker());
        if !self.0.is_full() || self.0.trouble().is_some() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl BesideTxn for DiskTxn {
    fn set_beside(&mut self, writes: u32) {
        self.beside = writes;
    }

    fn writes(&self) -> u32 {
        self.writes
    }

    fn rollback_to(&mut self, to: Savepoint) {
        assert!(self.ts.is_none(), "a transaction rolls nothing back after pre_commit");
        // Of a write that was refused.
        self.use_no_more_than(self.noted_bytes);
        let left = self.undo.partition_point(|noted| noted.seq < to.0);
        if left == self.undo.len() {
            return;
        }
        let is_write = |noted: &&Noted| matches!(noted.undo, Undo::Row { .. } | Undo::Keep(..));
        let mut seqs: Vec<u32> =
            self.undo[left..].iter().filter(is_write).map(|noted| noted.seq).collect();
        seqs.dedup();
        // What a migration has put into a write that goes is to be put into what it was.
        self.feed();
        self.undo_to(left);
        self.writes -= u32::try_from(seqs.len()).expect("there were as many writes");
        self.record = None;
    }

    fn rows_written(&self, space: SpaceId) -> Vec<RowId> {
        let mut rids: Vec<RowId> = self
            .changed_rows()
            .filter(|(written, _)| written.id == space)
            .map(|(_, rid)| rid)
            .collect();
        rids.sort_unstable();
        rids
    }

    fn spaces_written(&self) -> Vec<SpaceId> {
        let mut spaces: Vec<SpaceId> = self.changed_rows().map(|(space, _)| space.id).collect();
        spaces.sort_unstable();
        spaces.dedup();
        spaces
    }

    fn keep(&mut self, keeper: u64, spaces: &[SpaceId]) -> Result<(), EngineError> {
        for space in spaces {
            self.core.space(*space)?;
        }
        if !spaces.is_empty() {
            self.note(Undo::Keep(keeper, spaces.to_vec()));
            self.wrote();
        }
        Ok(())
    }

    fn reserve_log(&mut self) -> Result<LogRoom, EngineError> {
        if self.core.is_full() {
            if let Some(trouble) = self.core.trouble() {
                return Err(trouble);
            }
            return Ok(LogRoom::Wait(Box::pin(Written(Arc::clone(&self.core)))));
        }
        Ok(match self.reserve()? {
            None => LogRoom::Reserved,
            Some(reserving) => LogRoom::Wait(Box::pin(reserving)),
        })
    }

    fn pre_commit(&mut self) -> Ts {
        assert!(self.ts.is_none(), "pre_commit comes once, or again after retreat");
        // The state first: whoever has a view at the timestamp waits for the verdict. Nobody has one before the
        // timestamps of both engines are known to who joins them.
        let ts = self.core.clock.fetch_add(1, Ordering::SeqCst) + 1;
        self.owner.set(State::Committing(ts));
        self.ts = Some(ts);
        Ts(ts)
    }

    fn retreat(&mut self) {
        assert!(self.ts.take().is_some(), "retreat comes after pre_commit");
        self.owner.set(State::Open);
        if let Some(record) = &mut self.record {
            record.room = None;
            record.reserving = None;
        }
    }

    fn log(&mut self, number: u64) -> Result<Lsn, EngineError> {
        let ts = self.ts.expect("a transaction is logged after pre_commit");
        self.feed();
        self.pin_all(ts);
        self.applying = Some(self.core.begin_applying().keep());
        let logged = match self.owner.fills() == self.fills {
            true => self.append(number, ts)?,
            // What was made ready for the log is not what the rows are. Nobody fills them from now on.
            false => self.append_anew(number, ts)?,
        };
        CrashPoint::HalfLogged.reached();
        Ok(logged)
    }

    fn publish(mut self: Box<Self>) {
        let ts = self.ts.expect("a transaction is published after pre_commit");
        self.core.keepers.lock().extend(std::mem::take(&mut self.pins));
        self.is_logged = true;
        self.owner.set(State::Committed(ts));
        self.apply(ts);
        self.end();
    }

    fn abort(mut self: Box<Self>) {
        self.undo_all();
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Drop for DiskTxn {
    fn drop(&mut self) {
        self.undo_all();
    }
}
