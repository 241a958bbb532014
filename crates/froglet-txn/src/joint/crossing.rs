//! What joins the two engines: one order of transactions over both, and what is durable in both.
//!
//! ```text
//!   gate ─▶ both timestamps, a pair ─▶ check ─▶ half beside logged ─▶ half at the anchor logged, visible ─▶ gate open ─▶ visible beside
//!            └────────────────── retreat: as if nothing had been ──┘
//! ```
//! **[C1]** Only who holds the gate has halves under way: they are logged in the order of their numbers, in both logs.
//! **[C2] Pending** is what is logged and, as far as is known, not durable in both logs. It is entered before the anchor has
//! its half: whoever logs behind that finds it here, and is durable when it is. So a cut before a half takes nothing
//! away of which somebody was told.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use froglet_engine::crossing::{Anchor, Beside, Crossings, Halves, WhenDurable};
use froglet_engine::{EngineError, Lsn, Snapshot, Ts, TxnId};
use parking_lot::{Condvar, Mutex};

use super::registry::Registry;

/// A transaction over both that may not be durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub anchor_ts: Ts,
    pub beside_ts: Ts,
    /// Where its half beside ends.
    pub beside_lsn: Lsn,
    /// What the anchor has logged up to here is not behind its half.
    pub anchor_begin: Lsn,
    /// Where its half at the anchor ends, once it is logged.
    pub anchor_lsn: Option<Lsn>,
}

/// See the module.
pub(crate) struct Crossing {
    pub anchor: Arc<dyn Anchor>,
    pub beside: Weak<dyn Beside>,
    pub registry: Registry,
    gate: Mutex<bool>,
    opened: Condvar,
    /// The number of the newest half that is logged in both.
    newest: AtomicU64,
    pending: Mutex<VecDeque<Pending>>,
    has_pending: AtomicBool,
    /// What is committed beside at or below is durable in both logs.
    durable_beside: AtomicU64,
    /// Transactions whose schema changes have logged something beside.
    dependent: Mutex<HashSet<TxnId>>,
    /// A half has no other one, and the anchor's log has failed: nothing is logged beside any more.
    is_broken: AtomicBool,
}

impl Crossing {
    pub fn new(
        anchor: Arc<dyn Anchor>,
        beside: &Arc<dyn Beside>,
        registry: Registry,
        newest: u64,
    ) -> Crossing {
        Crossing {
            anchor,
            durable_beside: AtomicU64::new(beside.now().0),
            beside: Arc::downgrade(beside),
            registry,
            gate: Mutex::new(false),
            opened: Condvar::new(),
            newest: AtomicU64::new(newest),
            pending: Mutex::default(),
            has_pending: AtomicBool::new(false),
            dependent: Mutex::default(),
            is_broken: AtomicBool::new(false),
        }
    }

    fn beside(&self) -> Arc<dyn Beside> {
        self.beside.upgrade().expect("the engine beside lives as long as who asks")
    }

    /// Waits for its turn, for moments: nobody waits for anything behind the gate.
    pub fn enter(&self) {
        let mut is_closed = self.gate.lock();
        while *is_closed {
            self.opened.wait(&mut is_closed);
        }
        *is_closed = true;
    }

    pub fn leave(&self) {
        *self.gate.lock() = false;
        self.opened.notify_one();
    }

    /// Behind the gate: the number of the next half.
    pub fn next_half(&self) -> u64 {
        self.newest.load(Ordering::SeqCst) + 1
    }

    pub fn refuse_if_broken(&self) -> Result<(), EngineError> {
        match self.is_broken.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(EngineError::LogFailed(Arc::new(std::io::Error::other(
                "the log of tables in memory has failed in the midst of a commit over both engines; start the server again",
            )))),
        }
    }

    /// Behind the gate: a half is logged beside, and the anchor's is about to be [C2].
    pub fn push(&self, pending: Pending) {
        // Both under the lock: who finds nothing pending takes the flag back under it.
        let mut all = self.pending.lock();
        self.has_pending.store(true, Ordering::SeqCst);
        all.push_back(pending);
    }

    /// Behind the gate: the anchor's half is logged.
    pub fn logged(&self, number: u64, anchor_lsn: Lsn) {
        self.newest.store(number, Ordering::SeqCst);
        let mut pending = self.pending.lock();
        pending.back_mut().expect("it was pushed").anchor_lsn = Some(anchor_lsn);
    }

    /// Behind the gate: the anchor's could not be.
    pub fn failed(&self) {
        self.is_broken.store(true, Ordering::SeqCst);
    }

    /// Runs `look` with what is pending, after what is durable by now has gone.
    pub fn pending<T>(&self, look: impl FnOnce(&VecDeque<Pending>) -> T) -> T {
        let mut pending = self.pending.lock();
        if !pending.is_empty() {
            let (anchor, beside) = (self.anchor.durable(), self.beside().durable());
            let is_durable = |p: &Pending| {
                p.beside_lsn <= beside && p.anchor_lsn.is_some_and(|lsn| lsn <= anchor)
            };
            while pending.front().is_some_and(is_durable) {
                let gone = pending.pop_front().expect("looked at");
                self.durable_beside.fetch_max(gone.beside_ts.0, Ordering::SeqCst);
            }
            if pending.is_empty() {
                self.has_pending.store(false, Ordering::SeqCst);
            }
        }
        look(&pending)
    }

    pub fn has_pending(&self) -> bool {
        self.has_pending.load(Ordering::SeqCst)
    }

    /// Where the log beside must be durable for the anchor's to count up to a position.
    pub fn needed_beside(&self, lsn: Lsn) -> Option<Lsn> {
        if !self.has_pending() {
            return None;
        }
        self.pending(|pending| {
            pending.iter().rev().find(|p| p.anchor_begin < lsn).map(|p| p.beside_lsn)
        })
    }

    /// Calls back when both logs are durable up to their positions.
    pub fn when_both(&self, anchor: Lsn, beside: Lsn, done: WhenDurable) {
        let both = Arc::new(Mutex::new((2, Some(done))));
        let one = move |both: Arc<Mutex<(u32, Option<WhenDurable>)>>| -> WhenDurable {
            Box::new(move |outcome| {
                let done = {
                    let mut both = both.lock();
                    both.0 -= 1;
                    // The first error is the answer, or the last success.
                    if outcome.is_err() || both.0 == 0 { both.1.take() } else { None }
                };
                if let Some(done) = done {
                    done(outcome);
                }
            })
        };
        self.beside().when_durable(beside, one(Arc::clone(&both)));
        self.anchor.when_durable(anchor, one(both));
    }

    pub fn is_dependent(&self, txn: TxnId) -> bool {
        self.dependent.lock().contains(&txn)
    }

    pub fn forget(&self, txn: TxnId) {
        let mut dependent = self.dependent.lock();
        if !dependent.is_empty() {
            dependent.remove(&txn);
        }
    }

    /// Lets go of pairs that no view asks for.
    pub fn recycle(&self) {
        self.registry.recycle(self.anchor.oldest_snapshot(), || self.anchor.views());
    }
}

fn wait_durable(
    lsn: Lsn,
    durable: impl Fn() -> Lsn,
    make: impl Fn(Lsn) -> Result<bool, EngineError>,
) -> Result<(), EngineError> {
    while durable() < lsn {
        if !make(lsn)? {
            // Somebody else is at it.
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    Ok(())
}

impl Halves for Crossing {
    fn newest(&self) -> u64 {
        self.enter();
        let newest = self.newest.load(Ordering::SeqCst);
        self.leave();
        newest
    }

    fn settle_durable(&self) -> Result<(), EngineError> {
        self.enter();
        let last = self.pending(|pending| pending.back().copied());
        self.leave();
        let Some(last) = last else { return Ok(()) };
        self.refuse_if_broken()?;
        let beside = self.beside();
        wait_durable(last.beside_lsn, || beside.durable(), |lsn| beside.make_durable(lsn))?;
        let anchor_lsn = last.anchor_lsn.expect("nothing is under way behind a closed gate");
        wait_durable(anchor_lsn, || self.anchor.durable(), |lsn| self.anchor.make_durable(lsn))
    }
}

impl Crossings for Crossing {
    fn at(&self, anchor: Ts) -> Ts {
        if self.registry.is_on() { self.registry.at(anchor) } else { self.beside().now() }
    }

    fn fresh(&self, own: TxnId) -> Arc<Snapshot> {
        self.anchor.fresh(own)
    }

    fn oldest(&self) -> Ts {
        if self.registry.is_large() {
            self.recycle();
        }
        let oldest = self.registry.at(self.anchor.oldest_snapshot());
        if !self.has_pending() {
            return oldest;
        }
        // Who finds that something is gone depends on whoever has deleted it, and is to find him.
        let first = self.pending(|pending| pending.front().map(|p| p.beside_ts));
        first.map_or(oldest, |first| oldest.min(Ts(first.0 - 1)))
    }

    fn seen(&self, snapshot: &Snapshot, ts: Ts) {
        if ts.0 <= self.durable_beside.load(Ordering::SeqCst) || !self.has_pending() {
            return;
        }
        let anchor = self.pending(|pending| {
            pending.iter().rev().find(|p| p.beside_ts <= ts).map(|p| p.anchor_ts)
        });
        if let Some(anchor) = anchor {
            snapshot.note_seen(anchor);
        }
    }

    fn depends(&self, txn: TxnId) {
        if txn.0 != 0 {
            self.dependent.lock().insert(txn);
        }
    }

    fn borrow_memory(&self, bytes: u64) -> Result<(), EngineError> {
        self.anchor.borrow_memory(bytes)
    }

    fn borrow_memory_anyway(&self, bytes: u64) {
        self.anchor.borrow_memory_anyway(bytes);
    }

    fn return_memory(&self, bytes: u64) {
        self.anchor.return_memory(bytes);
    }

    fn reserve_memory(&self, bytes: u64) -> Result<(), EngineError> {
        self.anchor.reserve_memory(bytes)
    }

    fn reserve_memory_anyway(&self, bytes: u64) {
        self.anchor.reserve_memory_anyway(bytes);
    }
}
