//! Version latches: one word that is a sequence number for readers and a lock for writers.
//!
//! ```text
//!   63                                     2   1        0
//!  +----------------------------------------+--------+---------+
//!  | changes so far                         |obsolete| latched |
//!  +----------------------------------------+--------+---------+
//! ```
//!
//! This is a seqlock. A writer latches with an acquiring compare-and-swap followed by a release
//! fence, stores with relaxed atomics, and unlatches with a releasing store of the next number.
//! A reader observes the number (acquire), loads with relaxed atomics, issues an acquire fence and
//! checks the number. If a load returned a value of a later writer, the two fences synchronise, so
//! the check sees that writer's latch and fails. If the check succeeds, everything read belongs to
//! the observed number, and whatever was initialised before it was published is visible.

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{hint, thread};

const LATCHED: u64 = 1;
const OBSOLETE: u64 = 2;
const CHANGE: u64 = 4;

/// Tries before a latched node sends its reader back to the root.
const SPINS_MAX: u32 = if cfg!(shuttle) { 1 } else { 64 };

/// What was read may not belong together; the operation starts again from the root.
#[derive(Debug)]
pub(super) struct Restart;

/// The version word of one node, or of the root pointer.
#[derive(Default)]
pub(super) struct Version(AtomicU64);

impl Version {
    pub fn new() -> Self {
        Version(AtomicU64::new(0))
    }

    /// The current number, once no writer holds the latch; `Restart` if the node left the tree.
    #[inline]
    pub fn observe(&self) -> Result<u64, Restart> {
        let seen = self.0.load(Ordering::Acquire);
        if seen & (LATCHED | OBSOLETE) == 0 { Ok(seen) } else { self.observe_later() }
    }

    #[cold]
    fn observe_later(&self) -> Result<u64, Restart> {
        for _ in 0..SPINS_MAX {
            let seen = self.0.load(Ordering::Acquire);
            if seen & OBSOLETE != 0 {
                return Err(Restart);
            }
            if seen & LATCHED == 0 {
                return Ok(seen);
            }
            hint::spin_loop();
        }
        Err(Restart)
    }

    /// Succeeds if all relaxed loads since `observe` returned `seen` belong to that number.
    #[inline]
    pub fn check(&self, seen: u64) -> Result<(), Restart> {
        fence(Ordering::Acquire);
        if self.0.load(Ordering::Relaxed) == seen { Ok(()) } else { Err(Restart) }
    }

    /// Latches, provided that nothing changed since `observe` returned `seen`.
    #[inline]
    pub fn try_latch(&self, seen: u64) -> Result<Latch<'_>, Restart> {
        debug_assert_eq!(seen & (LATCHED | OBSOLETE), 0, "only an observed version can be latched");
        self.0
            .compare_exchange(seen, seen | LATCHED, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| Restart)?;
        fence(Ordering::Release);
        Ok(Latch { version: self, seen, next: seen })
    }
}

/// Exclusive right to write what a version protects; given up on drop.
pub(super) struct Latch<'a> {
    version: &'a Version,
    /// The number before the latch was taken.
    seen: u64,
    /// The number to leave behind.
    next: u64,
}

impl Latch<'_> {
    /// The number that everybody, the holder included, finds while the latch is held.
    #[inline]
    pub fn held(&self) -> u64 {
        self.seen | LATCHED
    }

    /// Declares that the holder stores: a new number is published on drop. Called before storing.
    #[inline]
    pub fn will_change(&mut self) {
        self.next = (self.seen + CHANGE) | (self.next & OBSOLETE);
    }

    /// Declares that the node leaves the tree for good.
    pub fn will_be_obsolete(&mut self) {
        self.next = (self.seen + CHANGE) | OBSOLETE;
    }
}

impl Drop for Latch<'_> {
    #[inline]
    fn drop(&mut self) {
        self.version.0.store(self.next, Ordering::Release);
    }
}

/// Waiting that grows with the number of failures.
#[derive(Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Spins for the first failures, then gives the processor away.
    #[cold]
    pub fn wait(&mut self) {
        self.failures += 1;
        if self.failures > 6 || cfg!(shuttle) {
            thread::yield_now();
        } else {
            (0..1 << self.failures).for_each(|_| hint::spin_loop());
        }
    }
}
