//! A transaction's part on this engine: its undo records, its redo bytes, its end.
//!
//! ```text
//!   write      link undo record, store cells, append redo operation
//!   commit     PREPARING ─ clock+1 ─ COMMITTING(ts)        pre_commit
//!              feeds ─ log ─ COMMITTED(ts) ─ stamp words   post_commit, then the collector has it
//!   abort      restore cells, newest first ─ clock+1 ─ ABORTED ─ stamp words
//! ```
//!
//! **[X1] feeds.** Feeds are looked for after the commit timestamp was taken, rows are pushed before the
//! verdict; all of it sequentially consistent. A view that is taken after a feed was opened either
//! has a timestamp at or above the commit's, and waits for the verdict and sees it, or the commit's
//! timestamp was taken later, and the feed was found.
//! **[X2] log order.** The log has the record before the verdict, and a row has one open writer at a
//! time: records of one row are in the order of their commits.
//! **[X4] nothing waits** between the commit timestamp and the verdict: room in the log is there before
//! (`commit_log`), and what is logged there without is short and always taken.
//! **[X3] an abort has an end timestamp** too, taken after its cells are restored: its records stay
//! linked for everybody who may have copied an aborted cell (see `block`, [B2]).

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::crossing::AnchorTxn;
use froglet_engine::{
    CrashPoint, EngineError, EngineTxn, LogRoom, Lsn, RowId, Savepoint, Snapshot, SpaceId, Ts,
    TxnId,
};
use smallvec::SmallVec;

use crate::block::Block;
use crate::clock::{Registered, View, Writer, aborted_word, pause};
use crate::collector::Ended;
use crate::column::{Cell, Long, Wanted};
use crate::commit_log::CommitLog;
use crate::engine::Core;
use crate::keepers::Keeper;
use crate::keys::{Index, NewKeys, OldKey, remove_unneeded};
use crate::redo_buffer::RedoBuffer;
use crate::space::Space;
use crate::sync::atomic::Ordering;
use crate::undo::{Header, Kind, Record, Undo, UndoBuffer};
use froglet_log::redo;

/// Writes that are undone, or collected, under one pin.
pub(crate) const PINNED_WRITES: usize = 64;
/// Tries to get a writer slot before a write fails.
const CLAIM_TRIES: u32 = 100_000;

/// A transaction on the memory engine.
pub struct MemoryTxn {
    pub(crate) core: Arc<Core>,
    id: TxnId,
    view: View,
    snapshot: Arc<Snapshot>,
    writer: Option<Writer>,
    pub(crate) undo: UndoBuffer,
    pub(crate) spaces: SmallVec<[Arc<Space>; 4]>,
    pub(crate) redo: RedoBuffer,
    pub(crate) log: CommitLog,
    pub(crate) old_keys: Vec<OldKey>,
    keeps: Vec<Keep>,
    /// Writes of the transaction on another engine, which savepoints count as well.
    beside: u32,
    commit_ts: Option<u64>,
    /// Reused by writes.
    pub(crate) new_keys: NewKeys,
}

/// A call of [`EngineTxn::keep`].
struct Keep {
    keeper: u64,
    space: Arc<Space>,
    /// As in undo records.
    seq: u32,
    redo_at: u64,
}

impl std::fmt::Debug for MemoryTxn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryTxn({} with {} writes)", self.id, self.undo.len())
    }
}

/// The registered view behind a transaction's snapshot.
fn new_snapshot(core: &Core, own: TxnId) -> (View, Arc<Snapshot>) {
    let (registered, ts) = Registered::new(&core.timeline, own.0);
    let view = registered.view();
    (view, Arc::new(Snapshot::new(Ts(ts), own, Box::new(registered))))
}

impl MemoryTxn {
    pub(crate) fn begin(core: &Arc<Core>, id: TxnId) -> MemoryTxn {
        assert!(id.0 != 0 && id.0 != u64::MAX, "transaction ids 0 and 2^64-1 are nobody's");
        let (view, snapshot) = new_snapshot(core, id);
        MemoryTxn {
            core: Arc::clone(core),
            id,
            view,
            snapshot,
            writer: None,
            undo: UndoBuffer::default(),
            spaces: SmallVec::new(),
            redo: RedoBuffer::default(),
            log: CommitLog::default(),
            old_keys: Vec::new(),
            keeps: Vec::new(),
            beside: 0,
            commit_ts: None,
            new_keys: NewKeys::default(),
        }
    }

    /// What [`EngineTxn::id`] returns.
    pub(crate) fn own_id(&self) -> u64 {
        self.id.0
    }

    /// Called before the first record of a write: makes sure that the transaction has a writer slot.
    pub(crate) fn begin_write(&mut self) -> Result<(), EngineError> {
        assert!(self.commit_ts.is_none(), "a transaction writes nothing after pre_commit");
        if self.writer.is_some() {
            return Ok(());
        }
        let mut spins = 0;
        while spins < CLAIM_TRIES {
            if let Some(writer) = self.core.timeline.claim_writer(self.id.0) {
                self.writer = Some(writer);
                return Ok(());
            }
            pause(&mut spins);
        }
        // Too many open writers are memory we do not have.
        Err(self.core.budget.refusal(size_of::<Writer>() as u64))
    }

    /// Makes an undo record, not linked yet.
    pub(crate) fn push(
        &mut self,
        space: &Arc<Space>,
        kind: Kind,
        rid: RowId,
        images: &[(froglet_engine::ColumnId, Cell, Long<'_>)],
    ) -> Record {
        let writer = self.writer.expect("begin_write was called");
        let header = Header {
            word: writer.word(),
            rid: rid.0,
            redo_at: self.redo.len() as u64,
            seq: self.seq(),
            space: self.space_at(space),
            kind,
            unnoted: false,
        };
        self.undo.push(&self.core.pool, header, images)
    }

    /// How many writes there are; keeping a space is one, and those on another engine are.
    pub(crate) fn seq(&self) -> u32 {
        let writes = self.undo.len() + self.keeps.len() + self.beside as usize;
        u32::try_from(writes).expect("a transaction writes fewer than 2^32 rows")
    }

    pub(crate) fn space_at(&mut self, space: &Arc<Space>) -> u16 {
        let at =
            self.spaces.iter().position(|known| Arc::ptr_eq(known, space)).unwrap_or_else(|| {
                self.spaces.push(Arc::clone(space));
                self.spaces.len() - 1
            });
        u16::try_from(at).expect("a transaction writes fewer than 2^16 spaces")
    }

    /// Whether redo is kept.
    pub(crate) fn logs(&self) -> bool {
        self.core.log.is_some()
    }

    /// Undoes the writes from the n-th on, newest first, then ends their records with `end`.
    fn undo_from(&mut self, n: usize, end: impl FnOnce(&Core) -> u64) {
        let mut guard = epoch::pin();
        let mut old_keys = Vec::new();
        for i in (n..self.undo.len()).rev() {
            let undo = self.undo.get(i);
            restore(&self.undo, undo, &self.spaces[usize::from(undo.space)], &mut old_keys, &guard);
            if i.is_multiple_of(PINNED_WRITES) {
                // What was taken back can go while the rest is.
                guard.repin();
            }
        }
        let end = end(&self.core);
        for undo in (n..self.undo.len()).map(|i| self.undo.get(i)) {
            undo.word.store(aborted_word(end), Ordering::Release);
        }
        for (space, index, rid, key) in old_keys {
            remove_unneeded(&self.core, &space, &index, rid, &key, &guard);
        }
    }

    /// The rows written from the n-th write on, to every open feed of their spaces.
    fn feed_from(&self, n: usize) {
        for (at, space) in self.spaces.iter().enumerate().filter(|(_, space)| space.has_feeds()) {
            let writes = (n..self.undo.len()).map(|i| self.undo.get(i));
            let rids: Vec<RowId> = writes
                .filter(|undo| usize::from(undo.space) == at && undo.kind != Kind::Lock)
                .map(|undo| RowId(undo.rid))
                .collect();
            if !rids.is_empty() {
                space.feed(&rids);
            }
        }
    }

    /// What is to be kept for each keeper.
    fn kept_spaces(&self) -> BTreeMap<u64, Vec<Arc<Space>>> {
        let mut kept = BTreeMap::<u64, Vec<Arc<Space>>>::new();
        for keep in &self.keeps {
            let spaces = kept.entry(keep.keeper).or_default();
            if !spaces.iter().any(|space| Arc::ptr_eq(space, &keep.space)) {
                spaces.push(Arc::clone(&keep.space));
            }
        }
        kept
    }

    /// Before the commit timestamp is taken: pins at this transaction's view [Q1].
    fn announce_keepers(&mut self) {
        let floor = self.snapshot.ts.0;
        for (keeper, spaces) in self.kept_spaces() {
            let ids: Vec<SpaceId> = spaces.iter().map(|space| space.id).collect();
            let mut keepers = self.core.keepers.lock();
            assert!(!keepers.contains_key(&keeper), "keeper {keeper} keeps once");
            match self.core.log_record(&redo::keeper(keeper, floor, &ids)) {
                Ok(announced) => announced.waits_for_nothing("the commit is logged behind it"),
                Err(error) => self.log.refuse(error),
            }
            let pin = self.core.keepers.pin(floor, spaces);
            keepers.insert(keeper, Keeper::Announced(pin));
        }
    }

    /// The commit timestamp was given back.
    fn withdraw_keepers(&self) {
        for keeper in self.kept_spaces().into_keys() {
            let mut keepers = self.core.keepers.lock();
            let announced = keepers.remove(&keeper);
            assert!(announced.is_some_and(|k| k.kept().is_none()), "only what was announced goes");
            // What is announced and not logged any more is forgotten by a replay.
            if let Ok(withdrawn) = self.core.log_record(&redo::keeper(keeper, 0, &[])) {
                withdrawn.waits_for_nothing("a replay forgets it all the same");
            }
        }
    }

    /// Logs the transaction. What it keeps is kept when this returns [Q2].
    fn log_commit(&mut self, ts: u64) -> Result<Lsn, EngineError> {
        if self.keeps.is_empty() {
            return self.log_operations(ts);
        }
        let core = Arc::clone(&self.core);
        let mut keepers = core.keepers.lock();
        let lsn = self.log_operations(ts)?;
        for (keeper, spaces) in self.kept_spaces() {
            let pin = self.core.keepers.pin(ts, spaces);
            let announced = keepers.insert(keeper, Keeper::Kept(pin));
            assert!(announced.is_some(), "what is kept was announced");
        }
        Ok(lsn)
    }

    /// Releases the writer slot and hands everything to the collector. Words are stamped.
    fn hand_over(&mut self, end: u64) {
        if let Some(writer) = self.writer.take() {
            self.core.timeline.release_writer(writer);
        }
        let undo = std::mem::take(&mut self.undo);
        if undo.has_records() {
            let spaces = std::mem::take(&mut self.spaces);
            let old_keys = std::mem::take(&mut self.old_keys);
            self.core.hand_over(Ended { end, undo, spaces, old_keys });
        }
    }

    fn finish_abort(&mut self) {
        let Some(writer) = self.writer else { return };
        if self.commit_ts.take().is_some() {
            self.withdraw_keepers();
        }
        self.log = CommitLog::default();
        self.redo.clear(&self.core.budget);
        let mut ended = 0;
        self.undo_from(0, |core| {
            ended = core.timeline.tick();
            core.timeline.abort(writer, ended);
            ended
        });
        self.old_keys.clear();
        self.keeps.clear();
        self.hand_over(ended);
    }

    /// Takes a commit timestamp, logs, makes the writes visible: everything that
    /// [`EngineTxn::pre_commit`] and [`EngineTxn::post_commit`] do.
    pub fn commit(mut self) -> Result<Lsn, EngineError> {
        if self.writer.is_none() {
            return Ok(Lsn(0));
        }
        self.reserve_log_here()?;
        self.pre_commit();
        self.finish_commit()
    }

    fn finish_commit(&mut self) -> Result<Lsn, EngineError> {
        let Some(writer) = self.writer else { return Ok(Lsn(0)) };
        let ts = match self.commit_ts {
            Some(ts) => ts,
            None => self.pre_commit().0,
        };
        self.feed_from(0);
        let lsn = match self.log_commit(ts) {
            Ok(lsn) => lsn,
            Err(error) => {
                self.finish_abort();
                return Err(error);
            }
        };
        CrashPoint::CommitLogged.reached();
        self.redo.clear(&self.core.budget);
        self.core.timeline.commit(writer, ts);
        for undo in self.undo.live() {
            undo.word.store(ts, Ordering::Release);
        }
        self.hand_over(ts);
        Ok(lsn)
    }
}

type DeadKey = (Arc<Space>, Arc<Index>, RowId, Vec<u8>);

/// Takes a row back to what it was before a write, and collects the index keys that the write had
/// given to it.
fn restore(
    buffer: &UndoBuffer,
    undo: &Undo,
    space: &Arc<Space>,
    dead: &mut Vec<DeadKey>,
    guard: &Guard,
) {
    let rid = RowId(undo.rid);
    let block = space.block(rid.block()).expect("a written row has a block");
    match undo.kind {
        Kind::Lock => {}
        // The collector removes the keys of a row that was never there.
        Kind::Insert => block.set_present(rid.slot(), false),
        Kind::Delete | Kind::Move => block.set_present(rid.slot(), true),
        Kind::Update => {
            let indexes = space.indexes();
            let touched: SmallVec<[&Arc<Index>; 4]> = indexes
                .iter()
                .filter(|index| index.parts.iter().any(|part| undo.changes(part.id)))
                .collect();
            let key = |index: &Index| own_key(block, index, rid, guard);
            let before: SmallVec<[Vec<u8>; 4]> = touched.iter().map(|index| key(index)).collect();
            let directory = block.directory(guard);
            for image in undo.images() {
                if let Some(column) = directory.find(image.column, usize::MAX) {
                    let cell = image.cell();
                    column.restore(rid.slot(), &cell, buffer.shared(&cell), guard);
                }
            }
            for (index, undone) in touched.into_iter().zip(before) {
                if key(index) != undone {
                    dead.push((Arc::clone(space), Arc::clone(index), rid, undone));
                }
            }
        }
    }
}

/// The key of the cells in place. It means something only if nobody else may change them.
pub(crate) fn own_key(block: &Block, index: &Index, rid: RowId, guard: &Guard) -> Vec<u8> {
    let directory = block.directory(guard);
    let found: SmallVec<[_; 4]> =
        index.parts.iter().map(|part: &Wanted| part.find(directory)).collect();
    let cells: SmallVec<[Cell; 4]> =
        found.iter().map(|found| found.load_whole(rid.slot())).collect();
    let mut key = Vec::new();
    index.key_of_cells(&found, &cells, guard, &mut key);
    key
}

impl EngineTxn for MemoryTxn {
    fn id(&self) -> TxnId {
        self.id
    }

    fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    fn refresh(&mut self) {
        if let (View::Slot(_), Some(snapshot)) = (self.view, Arc::get_mut(&mut self.snapshot)) {
            // Nobody reads in this view now.
            let (_, ts) = self.core.timeline.renew(self.view, self.id.0);
            snapshot.renew(Ts(ts));
            return;
        }
        let (view, snapshot) = new_snapshot(&self.core, self.id);
        snapshot.note_seen(self.snapshot.newest_seen());
        self.view = view;
        self.snapshot = snapshot;
    }

    fn savepoint(&self) -> Savepoint {
        Savepoint(self.seq())
    }

    fn rollback_to(&mut self, to: Savepoint) {
        assert!(self.commit_ts.is_none(), "a transaction rolls nothing back after pre_commit");
        if to.0 >= self.seq() {
            return;
        }
        let n = self.undo.len_before(to.0);
        let kept = self.keeps.partition_point(|keep| keep.seq < to.0);
        let write = (n < self.undo.len()).then(|| self.undo.get(n).redo_at);
        let keep = self.keeps.get(kept).map(|keep| keep.redo_at);
        // Only the other engine has something to undo.
        let Some(redo_at) = write.into_iter().chain(keep).min() else { return };
        self.keeps.truncate(kept);
        if n < self.undo.len() {
            self.undo_from(n, |core| core.timeline.tick());
            self.feed_from(n);
            self.old_keys.retain(|old| old.seq < to.0);
            self.undo.bury(n);
        }
        let closed = self.redo.truncate(usize::try_from(redo_at).expect("redo is in memory"));
        self.log.forget_from(closed);
    }

    fn wrote(&self) -> bool {
        !self.undo.is_empty() || !self.keeps.is_empty()
    }

    fn rows_written(&self, space: SpaceId) -> Vec<RowId> {
        let is_in = |undo: &&Undo| {
            self.spaces[usize::from(undo.space)].id == space && undo.kind != Kind::Lock
        };
        let mut rids: Vec<RowId> =
            self.undo.live().filter(is_in).map(|undo| RowId(undo.rid)).collect();
        rids.sort_unstable();
        rids.dedup();
        rids
    }

    fn spaces_written(&self) -> Vec<SpaceId> {
        let written = |at: usize| {
            self.undo.live().any(|undo| usize::from(undo.space) == at && undo.kind != Kind::Lock)
        };
        self.spaces
            .iter()
            .enumerate()
            .filter(|(at, _)| written(*at))
            .map(|(_, space)| space.id)
            .collect()
    }

    fn keep(&mut self, keeper: u64, spaces: &[SpaceId]) -> Result<(), EngineError> {
        let kept: Vec<Arc<Space>> =
            spaces.iter().map(|space| self.core.space(*space)).collect::<Result<_, _>>()?;
        if kept.is_empty() {
            return Ok(());
        }
        self.begin_write()?;
        let redo_at = self.redo.len() as u64;
        for space in kept {
            let seq = self.seq();
            self.keeps.push(Keep { keeper, space, seq, redo_at });
        }
        if self.logs() {
            redo::keep(self.next_redo(), keeper, spaces);
        }
        Ok(())
    }

    fn reserve_log(&mut self) -> Result<LogRoom, EngineError> {
        self.reserve_room()
    }

    fn pre_commit(&mut self) -> Ts {
        assert!(self.commit_ts.is_none(), "pre_commit comes once, or again after retreat");
        self.announce_keepers();
        let ts = match self.writer {
            Some(writer) => self.core.timeline.prepare(writer),
            None => self.core.timeline.tick(),
        };
        self.commit_ts = Some(ts);
        Ts(ts)
    }

    fn retreat(&mut self) {
        assert!(self.commit_ts.take().is_some(), "retreat comes after pre_commit");
        self.withdraw_keepers();
        // Whoever retreats may wait for somebody who needs the room.
        self.log.give_room_back();
        if let Some(writer) = self.writer {
            self.core.timeline.retreat(writer);
        }
    }

    fn post_commit(mut self: Box<Self>) -> Result<Lsn, EngineError> {
        self.finish_commit()
    }

    fn abort(mut self: Box<Self>) {
        self.finish_abort();
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl AnchorTxn for MemoryTxn {
    fn cross(&mut self) -> Result<(), EngineError> {
        self.begin_write()?;
        self.log.crosses = true;
        Ok(())
    }

    fn set_beside(&mut self, writes: u32) {
        self.beside = writes;
    }

    fn set_half(&mut self, number: u64) -> Result<(), EngineError> {
        assert!(self.commit_ts.is_some(), "a half is numbered after pre_commit");
        self.log.set_half(number)
    }
}

impl Drop for MemoryTxn {
    fn drop(&mut self) {
        self.finish_abort();
    }
}
