//! Memory that readers may still look at: given back once every thread that was pinned has unpinned.
//!
//! ```text
//!   defer ──▶ bag of the thread ── full, or much in it ──▶ queue of all ── two epochs later ──▶ given back
//! ```
//!
//! What is in a thread's bag waits for that thread, which may never come again. So who defers much passes its
//! bag on: no thread keeps more than [`KEPT_BYTES`]. Epochs go on when anybody passes a bag on, and with each
//! pass of the collector; and whoever would be refused memory lets them go on himself, see `collector`.

use std::cell::Cell;
// Not a model checker's: what is deferred is given back by whoever moves the epoch, in a later schedule.
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_epoch::{self as epoch, Guard};

/// What a thread's bag may keep.
const KEPT_BYTES: usize = 64 << 10;
/// A bag is given back when the epoch has moved twice since it was passed on.
const STEPS: usize = 3;

thread_local! {
    static KEPT: Cell<usize> = const { Cell::new(0) };
}

/// Bytes that were deferred, and are not given back.
static PENDING: AtomicUsize = AtomicUsize::new(0);
/// How often a bag was passed on because there was much in it.
static PASSED_ON: AtomicU64 = AtomicU64::new(0);

/// Runs `give_back`, which frees so many bytes, when nobody who is pinned now can have them.
pub(crate) fn defer(guard: &Guard, bytes: usize, give_back: impl FnOnce() + Send + 'static) {
    PENDING.fetch_add(bytes, Ordering::Relaxed);
    guard.defer(move || {
        give_back();
        PENDING.fetch_sub(bytes, Ordering::Relaxed);
    });
    let kept = KEPT.get() + bytes;
    KEPT.set(kept);
    if kept >= KEPT_BYTES {
        KEPT.set(0);
        guard.flush();
        PASSED_ON.fetch_add(1, Ordering::Relaxed);
    }
}

/// Bytes that wait for readers.
pub(crate) fn pending_bytes() -> usize {
    PENDING.load(Ordering::Relaxed)
}

/// A number that grows when there is something worth coming for.
pub(crate) fn passed_on() -> u64 {
    PASSED_ON.load(Ordering::Relaxed)
}

/// Gives back what nobody can have any more. Who calls it has no pin, for that would hold the epoch.
pub(crate) fn advance() {
    for _ in 0..STEPS {
        epoch::pin().flush();
    }
}
