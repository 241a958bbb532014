//! The collector: cuts version chains that nobody needs, removes dead index entries, frees slots.
//!
//! ```text
//!   ended transactions ──▶ queue, by end timestamp ──▶ end <= horizon? ──▶ cut ─ entries ─ slots ─ memory
//!                                                          │
//!                          horizon = min(oldest snapshot, newest durable commit)
//!                          of a space = min(horizon, its oldest pin)   no? ──▶ held until a pin goes
//! ```
//!
//! **[G1]** A chain is cut behind its last record that ends above the horizon (or has not ended). All
//! behind is visible to every registered snapshot, or aborted; see `block`, [B2].
//! **[G2]** Only the collector cuts, one thread at a time.
//! **[G3]** A slot is given back when its row's chain is gone and its keys are out of the indexes.
//! **[G4]** What is cut is durable, so a reader that meets no record depends on no undurable commit.
//!
//! **[G5]** Each space of a transaction is collected once, when the transaction's end is at or below the
//! horizon of the space; its undo memory goes with the last of them. The horizon of a space is found
//! after that of all: a pin that is entered later is above it, see `keepers`, [Q1].
//! **[G6]** Keys that a transaction replaced are noted by the transaction. Of what recovery has linked, and of what
//! pruning has left of a chain, nobody has noted them: whoever cuts such a record takes out of the indexes every key
//! that only states behind the cut had.
//!
//! What one old view or pin holds back is pruned from time to time: see `prune`.
//!
//! Writers that produce garbage faster than the thread collects it do a part of its work themselves; and whoever
//! would be refused memory first does what can be done to have some back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::Thread;
use std::time::Duration;

use crate::sync::Mutex;
use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::{EngineError, Lsn, RowId};
use smallvec::SmallVec;

use crate::block::Block;
use crate::clock::{stamped_aborted, stamped_end};
use crate::engine::Core;
use crate::keys::{OldKey, keys_behind, remove_unneeded};
use crate::memory::Budget;
use crate::reclaim;
use crate::space::Space;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::txn::{PINNED_WRITES, own_key};
use crate::undo::{Kind, Undo, UndoBuffer};
use froglet_log::Log;

/// Past this much waiting undo, writers help.
const HELP_BYTES: usize = 2 << 20;
/// Transactions that a helping writer collects.
const HELP_TXNS: usize = 64;
/// Transactions that are collected under one horizon.
const BATCH_TXNS: usize = 32;
/// Past this much, with something to collect, they also wait a little.
const WAIT_BYTES: usize = 32 << 20;
/// How often somebody who would be refused memory waits for a pass.
const ROOM_ROUNDS: usize = 40;
/// Passes after something large was left to the epochs.
const LIVELY_PASSES: u32 = 4;
/// Between two passes while there is something to wait for.
const PASS_INTERVAL: Duration = Duration::from_millis(1);

/// A transaction that has ended, and what it left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its commit or abort timestamp.
    pub end: u64,
    pub undo: UndoBuffer,
    pub spaces: SmallVec<[Arc<Space>; 4]>,
    pub old_keys: Vec<OldKey>,
}

/// What waits to be collected.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    queue: Mutex<VecDeque<Ended>>,
    bytes: AtomicUsize,
    /// As in the options.
    pub prune_bytes_min: usize,
    /// Somebody looks for what can be pruned.
    pruning: AtomicBool,
    /// Held by whoever collects [G2].
    working: Mutex<Work>,
    thread: Mutex<Option<Thread>>,
    /// The thread sleeps until it is woken.
    asleep: AtomicBool,
    stop: AtomicBool,
}

/// What whoever collects goes on with.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// What is being waited for to become durable.
    undurable: Option<(u64, Lsn)>,
    /// What waits for a pin to go.
    pub held: VecDeque<Held>,
    /// What waited when one went: to be looked at again.
    again: VecDeque<Held>,
    /// How many pins had gone then.
    gone: u64,
    /// The undo memory of `held`.
    pub held_bytes: usize,
    /// What had to wait on after the last pruning.
    pub left_bytes: usize,
}

impl Work {
    fn hold(&mut self, held: Held) {
        self.held_bytes += held.ended.undo.bytes();
        self.held.push_back(held);
    }
}

/// A transaction of which some spaces may have been collected.
#[derive(Debug)]
pub(crate) struct Held {
    pub ended: Ended,
    /// For each of its spaces.
    pub collected: SmallVec<[bool; 16]>,
}

impl Held {
    fn new(ended: Ended) -> Held {
        let collected = SmallVec::from_elem(false, ended.spaces.len());
        Held { ended, collected }
    }
}

impl Garbage {
    pub fn new(prune_bytes_min: usize) -> Garbage {
        Garbage { prune_bytes_min, ..Garbage::default() }
    }

    /// The undo memory of transactions that wait for the oldest view.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes all but those at the end of the queue that ended above a timestamp. Only for who collects.
    pub fn take_up_to(&self, bound: u64) -> VecDeque<Ended> {
        let mut queue = self.queue.lock();
        let last = queue.iter().rposition(|ended| ended.end <= bound);
        let n = last.map_or(0, |last| last + 1);
        let rest = queue.split_off(n);
        std::mem::replace(&mut queue, rest)
    }

    /// Puts what is left of them back, in front; so many bytes have gone.
    pub fn put_back(&self, mut left: VecDeque<Ended>, gone_bytes: usize) {
        let mut queue = self.queue.lock();
        left.append(&mut queue);
        *queue = left;
        drop(queue);
        self.bytes.fetch_sub(gone_bytes, Ordering::Relaxed);
    }

    /// Says that somebody looks for what can be pruned, or has done so.
    pub fn set_pruning(&self, pruning: bool) {
        self.pruning.store(pruning, Ordering::Relaxed);
    }
}

impl Core {
    /// Takes over what an ended transaction left behind.
    pub fn hand_over(&self, ended: Ended) {
        let bytes = ended.undo.bytes();
        self.garbage.queue.lock().push_back(ended);
        let waiting = self.garbage.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.garbage.asleep.load(Ordering::SeqCst) {
            self.wake_collector();
        }
        if waiting > HELP_BYTES {
            self.collect(HELP_TXNS, false);
            if waiting > WAIT_BYTES && self.has_collectable() {
                std::thread::sleep(PASS_INTERVAL / 4);
            }
        }
        // What is being pruned is there for the next write.
        if self.garbage.pruning.load(Ordering::Relaxed) && self.budget.is_short() {
            std::thread::sleep(PASS_INTERVAL / 4);
        }
    }

    fn wake_collector(&self) {
        if self.garbage.asleep.swap(false, Ordering::SeqCst)
            && let Some(thread) = &*self.garbage.thread.lock()
        {
            thread.unpark();
        }
    }

    /// Whether so much more memory may be used. Who asks holds no stripe and no pin, and has linked no record
    /// for which this is.
    #[inline]
    pub fn admit(&self, bytes: usize) -> Result<(), EngineError> {
        self.admit_of(&self.budget, bytes)
    }

    /// The same by another budget of the account.
    #[inline]
    pub fn admit_of(&self, budget: &Budget, bytes: usize) -> Result<(), EngineError> {
        match budget.has_room(bytes) {
            true => Ok(()),
            false => self.make_room(|| budget.admit(bytes)),
        }
    }

    /// The same of what gives memory back, see [`crate::memory::Budget::admit_removal`].
    pub fn admit_removal(&self, bytes: usize) -> Result<(), EngineError> {
        self.budget
            .admit_removal(bytes)
            .or_else(|_| self.make_room(|| self.budget.admit_removal(bytes)))
    }

    /// Asks again while there is something to be had back: what nobody sees any more, as soon as that is
    /// durable, and what readers are about to leave. It is only waited for what goes by itself.
    #[cold]
    fn make_room(&self, admit: impl Fn() -> Result<(), EngineError>) -> Result<(), EngineError> {
        let mut round = 0;
        loop {
            self.collect(usize::MAX, false);
            if let Some(mut work) = self.garbage.working.try_lock() {
                self.prune(&mut work, true);
            }
            reclaim::advance();
            self.pool.clear();
            let refused = match admit() {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            let oldest = self.timeline.oldest();
            let is_unseen = |ended: &Ended| ended.end <= oldest;
            let waits = self.garbage.queue.lock().front().is_some_and(is_unseen)
                || self.garbage.working.try_lock().is_none()
                || reclaim::pending_bytes() > HELP_BYTES;
            if !waits || round == ROOM_ROUNDS {
                return Err(refused);
            }
            if let Some(log) = &self.log {
                log.request_durable(log.appended());
            }
            self.wake_collector();
            round += 1;
            std::thread::sleep(PASS_INTERVAL);
        }
    }

    fn has_collectable(&self) -> bool {
        let horizon = self.horizon();
        self.garbage.queue.lock().front().is_some_and(|ended| ended.end <= horizon)
    }

    fn horizon(&self) -> u64 {
        self.timeline.oldest().min(self.timeline.durable())
    }

    /// Collects at most `limit` transactions. Returns how many; none if somebody else is at it.
    /// Only with `may_settle` it waits for writers between commit timestamp and verdict: a writer
    /// that helps may be on the thread of one of them.
    pub fn collect(&self, limit: usize, may_settle: bool) -> usize {
        let Some(mut work) = self.garbage.working.try_lock() else { return 0 };
        if may_settle {
            self.timeline.set_coarse_ns(self.cooling.now_ns());
            self.advance_durable(&mut work.undurable);
            self.look_again(&mut work);
        }
        let mut done = 0;
        while done < limit {
            // A horizon of the present keeps chains short while writers go on.
            let horizon = self.horizon();
            let batch = BATCH_TXNS.min(limit - done);
            let mut round = self.collect_queue(batch, horizon, &mut work);
            if may_settle {
                round += self.collect_again(batch, horizon, &mut work);
            }
            done += round;
            if round < batch {
                break;
            }
        }
        if may_settle {
            self.prune(&mut work, false);
        }
        done
    }

    fn collect_queue(&self, limit: usize, horizon: u64, work: &mut Work) -> usize {
        for done in 0..limit {
            let next = {
                let mut queue = self.garbage.queue.lock();
                match queue.front() {
                    Some(ended) if ended.end <= horizon => queue.pop_front(),
                    _ => None,
                }
            };
            let Some(ended) = next else { return done };
            let bytes = ended.undo.bytes();
            self.collect_one(Held::new(ended), horizon, work);
            // What is held is no work that somebody could help with.
            self.garbage.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        limit
    }

    /// What waited for pins may have to wait no longer.
    fn look_again(&self, work: &mut Work) {
        let gone = self.keepers.gone();
        if gone != work.gone {
            work.gone = gone;
            let held = std::mem::take(&mut work.held);
            work.again.extend(held);
        }
    }

    fn collect_again(&self, limit: usize, horizon: u64, work: &mut Work) -> usize {
        let mut done = 0;
        while done < limit
            && let Some(held) = work.again.pop_front()
        {
            work.held_bytes -= held.ended.undo.bytes();
            self.collect_one(held, horizon, work);
            done += 1;
        }
        done
    }

    /// For recovery: what a committed transaction that is replayed left behind.
    pub fn hold(&self, ended: Ended) {
        self.garbage.working.lock().hold(Held::new(ended));
    }

    /// For recovery, when a pin has gone: nothing but pins holds anything.
    pub fn collect_held(&self) {
        let mut work = self.garbage.working.lock();
        self.look_again(&mut work);
        self.collect_again(usize::MAX, u64::MAX, &mut work);
    }

    /// Moves the newest surely durable commit: once the log is durable up to where it stood when
    /// every commit up to a timestamp had been appended, all of those are durable.
    fn advance_durable(&self, waiting_for: &mut Option<(u64, Lsn)>) {
        let Some(log) = &self.log else { return };
        if let Some((ts, lsn)) = *waiting_for {
            if log.durable() < lsn {
                self.hurry(log, lsn);
                return;
            }
            self.timeline.set_durable(ts);
        }
        let ts = self.timeline.now();
        *waiting_for = None;
        if ts > self.timeline.durable() {
            self.timeline.settle();
            let lsn = log.appended();
            if log.durable() >= lsn {
                self.timeline.set_durable(ts);
            } else {
                self.hurry(log, lsn);
                *waiting_for = Some((ts, lsn));
            }
        }
    }

    /// The log flushes by itself before long; a backlog does not wait for that.
    fn hurry(&self, log: &Log, lsn: Lsn) {
        if self.garbage.bytes.load(Ordering::Relaxed) > HELP_BYTES / 2 {
            log.request_durable(lsn);
        }
    }

    /// Collects of a transaction what its spaces' pins allow, and holds the rest [G5].
    fn collect_one(&self, mut held: Held, horizon: u64, work: &mut Work) {
        let end = held.ended.end;
        // Once for each space: a pin that comes now does not split what is decided.
        let has_pins = self.keepers.has_pins();
        let horizon_of = |space: &Arc<Space>| {
            if has_pins { horizon.min(space.oldest_pin()) } else { horizon }
        };
        let horizons: SmallVec<[Option<u64>; 16]> = held
            .ended
            .spaces
            .iter()
            .zip(&held.collected)
            .map(|(space, collected)| (!collected).then(|| horizon_of(space)))
            .map(|horizon| horizon.filter(|horizon| end <= *horizon))
            .collect();
        let mut guard = epoch::pin();
        self.collect_spaces(&held.ended, &horizons, &mut guard);
        for (collected, horizon) in held.collected.iter_mut().zip(&horizons) {
            *collected |= horizon.is_some();
        }
        if held.collected.iter().all(|collected| *collected) {
            held.ended.undo.retire(&self.pool, &guard);
        } else {
            work.hold(held);
        }
    }

    /// Collects what a transaction left in those of its spaces that have a horizon here.
    fn collect_spaces(&self, ended: &Ended, horizons: &[Option<u64>], guard: &mut Guard) {
        let mut freed: SmallVec<[(u16, RowId); 16]> = SmallVec::new();
        let now_ns = self.cooling.now_ns();
        for (n, undo) in ended.undo.all().enumerate() {
            if n % PINNED_WRITES == PINNED_WRITES - 1 {
                guard.repin();
            }
            let at = usize::from(undo.space);
            let (space, Some(horizon)) = (&ended.spaces[at], horizons[at]) else { continue };
            let rid = RowId(undo.rid);
            let block = space.block(rid.block()).expect("a written row has a block");
            if !undo.unlinked.load(Ordering::Relaxed) {
                self.cut_row(space, block, rid, horizon, guard);
            }
            debug_assert!(
                undo.unlinked.load(Ordering::Relaxed),
                "what is behind the horizon is cut"
            );
            self.cooling.touch(space, rid.block(), block, now_ns);
            let is_aborted = stamped_aborted(undo.word.load(Ordering::Relaxed));
            let row_died = match undo.kind {
                Kind::Insert => is_aborted,
                Kind::Delete | Kind::Move => !is_aborted,
                Kind::Update | Kind::Lock => false,
            };
            if row_died {
                self.bury_row(space, block, rid, guard);
                freed.push((undo.space, rid));
            }
        }
        for old in &ended.old_keys {
            let at = usize::from(old.space);
            let (space, Some(horizon)) = (&ended.spaces[at], horizons[at]) else { continue };
            // The look for the key goes through the whole chain: make it short.
            let block = space.block(old.rid.block()).expect("a written row has a block");
            self.cut_row(space, block, old.rid, horizon, guard);
            remove_unneeded(self, space, &old.index, old.rid, &old.key, guard);
        }
        for (at, space) in ended.spaces.iter().enumerate() {
            let rids =
                freed.iter().filter(|(space, _)| usize::from(*space) == at).map(|(_, rid)| *rid);
            if !freed.is_empty() {
                space.give_slots(rids);
            }
        }
    }

    /// Cuts a row's chain, and forgets the keys that nobody has noted [G6].
    fn cut_row(&self, space: &Space, block: &Block, rid: RowId, horizon: u64, guard: &Guard) {
        let Some(cut) = cut(block, rid.slot(), horizon, guard) else { return };
        // The indexes are looked for after the cut: one that is made later meets the cut chain.
        for index in space.indexes().iter() {
            for key in keys_behind(space, index, rid, cut, guard) {
                remove_unneeded(self, space, index, rid, &key, guard);
            }
        }
    }

    /// Takes the keys of a row that is gone for everybody out of the indexes, and forgets its strings.
    fn bury_row(&self, space: &Space, block: &Block, rid: RowId, guard: &Guard) {
        assert!(block.head_ptr(rid.slot()).is_null(), "nobody writes to a row that is gone");
        for index in space.indexes().iter() {
            let key = own_key(block, index, rid, guard);
            let _stripe = self.stripes.lock(index, &key);
            index.remove(&key, rid.0);
        }
        for column in block.directory(guard).columns() {
            column.clear_string(rid.slot(), guard);
        }
    }

    /// Runs on the thread `froglet-collector`.
    pub fn run_collector(&self) {
        *self.garbage.thread.lock() = Some(std::thread::current());
        let (mut passed_on, mut lively) = (0, 0);
        while !self.garbage.stop.load(Ordering::Relaxed) {
            let done = self.collect(usize::MAX, true);
            reclaim::advance();
            if reclaim::passed_on() != passed_on {
                (passed_on, lively) = (reclaim::passed_on(), LIVELY_PASSES);
            }
            // After work there is more to come: to be woken for each transaction costs more than
            // to let a few of them wait.
            if done > 0 || lively > 0 || !self.garbage.queue.lock().is_empty() {
                lively = lively.saturating_sub(1);
                std::thread::park_timeout(PASS_INTERVAL);
                continue;
            }
            self.garbage.asleep.store(true, Ordering::SeqCst);
            if self.garbage.queue.lock().is_empty() && !self.garbage.stop.load(Ordering::Relaxed) {
                // Nobody is busy.
                self.pool.clear();
                // Now and then let the epoch move, so that the last garbage is freed too.
                std::thread::park_timeout(Duration::from_millis(100));
            }
            self.garbage.asleep.store(false, Ordering::SeqCst);
        }
    }

    pub fn stop_collector(&self) {
        self.garbage.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = &*self.garbage.thread.lock() {
            thread.unpark();
        }
    }
}

/// Cuts what nobody needs from a row's chain [G1]. Returns the newest record that was cut, if the keys of one
/// are noted by nobody.
fn cut<'g>(block: &Block, slot: usize, horizon: u64, guard: &'g Guard) -> Option<&'g Undo> {
    let is_old = |undo: &Undo| {
        stamped_end(undo.word.load(Ordering::Acquire)).is_some_and(|end| end <= horizon)
    };
    loop {
        let head = block.head(slot, guard);
        let (mut keep, mut next) = (None, head);
        while let Some(undo) = next {
            next = undo.next(guard);
            if !is_old(undo) {
                keep = Some(undo);
            }
        }
        let first = match keep {
            Some(keep) => {
                let first = keep.next(guard);
                keep.set_next(std::ptr::null_mut());
                first
            }
            None => {
                let head_ptr = head.map_or(std::ptr::null(), std::ptr::from_ref);
                if head.is_some() && !block.cut_head(slot, head_ptr) {
                    continue;
                }
                head
            }
        };
        let (mut cut, mut unnoted, mut next) = (0, false, first);
        while let Some(undo) = next {
            undo.unlinked.store(true, Ordering::Relaxed);
            unnoted |= undo.unnoted.load(Ordering::Relaxed);
            cut += 1;
            next = undo.next(guard);
        }
        block.uncount(cut);
        return first.filter(|_| unnoted);
    }
}
