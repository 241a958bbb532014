//! Memory that readers may still look at: given back once every thread that was pinned has unpinned.
//!
//! ```text
//!   defer ──▶ bag of the thread ── full, or much in it ──▶ queue of all ── two epochs later ──▶ given back
//! ```
//!
//! What is in a thread's bag waits for that thread, which may never come again. So who defers much passes its
//! bag on: no thread keeps more than [`KEPT_BYTES`]. Epochs go on when anybody passes a bag on, and with each
//! pass of the collector; and whoever would be refused memory lets them go on himself, see `collector`.
//!
//! The queue is first in, first out, and whoever moves an epoch takes eight bags from it. Where a reader stood for a
//! while, or many write, there are thousands: who wants memory back takes all that came before him ([`advance`]).

use std::cell::Cell;
use std::sync::Arc;
// Not a model checker's: what is deferred is given back by whoever moves the epoch, in a later schedule.
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crossbeam_epoch::{self as epoch, Guard};

/// What a thread's bag may keep.
const KEPT_BYTES: usize = 64 << 10;
/// A bag is given back when the epoch has moved twice since it was passed on.
const STEPS: usize = 3;

thread_local! {
    static KEPT: Cell<usize> = const { Cell::new(0) };
    /// How much this thread has given back, of all threads' bags.
    static GIVEN_BACK: Cell<u64> = const { Cell::new(0) };
}

/// Bytes that were deferred, and are not given back.
static PENDING: AtomicUsize = AtomicUsize::new(0);
/// How often a bag was passed on because there was much in it.
static PASSED_ON: AtomicU64 = AtomicU64::new(0);

/// Runs `give_back`, which frees so many bytes, when nobody who is pinned now can have them.
pub(crate) fn defer(guard: &Guard, bytes: usize, give_back: impl FnOnce() + Send + 'static) {
    PENDING.fetch_add(bytes, Ordering::Relaxed);
    guard.defer(counted(move || {
        give_back();
        PENDING.fetch_sub(bytes, Ordering::Relaxed);
    }));
    let kept = KEPT.get() + bytes;
    KEPT.set(kept);
    if kept >= KEPT_BYTES {
        KEPT.set(0);
        guard.flush();
        PASSED_ON.fetch_add(1, Ordering::Relaxed);
    }
}

/// For who defers by itself what is pending nowhere, and stays in the thread's bag until that is full: whoever
/// gives it back counts it.
pub(crate) fn counted(give_back: impl FnOnce()) -> impl FnOnce() {
    move || {
        give_back();
        // A thread that ends has no count any more, and looks at it no more.
        let _ = GIVEN_BACK.try_with(|count| count.set(count.get() + 1));
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

/// Gives back what nobody can have any more of all that was passed on before now, and what is in this thread's bag.
/// Who calls it has no pin, for that would hold the epoch.
pub(crate) fn advance() {
    let all = Arc::new(AtomicBool::new(false));
    let last = all.clone();
    epoch::pin().defer(move || last.store(true, Ordering::Relaxed));
    let mut in_vain = 0;
    while in_vain < STEPS && !all.load(Ordering::Relaxed) {
        let before = GIVEN_BACK.get();
        epoch::pin().flush();
        in_vain = if GIVEN_BACK.get() == before { in_vain + 1 } else { 0 };
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Bags that are passed on while a reader stands.
    const BAGS: usize = 20_000;
    /// Other tests of the process have readers, too, which may stand for a moment.
    const ATTEMPTS: usize = 400;

    #[test]
    fn a_long_queue_is_given_back_by_who_wants_memory() {
        let reader = epoch::pin();
        std::thread::scope(|scope| {
            let queue = || (0..BAGS).for_each(|_| defer(&epoch::pin(), KEPT_BYTES, || {}));
            scope.spawn(queue).join().expect("it does not panic");
        });
        let last = Arc::new(());
        let held = last.clone();
        defer(&reader, KEPT_BYTES, move || drop(held));
        drop(reader);
        let is_back = |_| {
            advance();
            std::thread::sleep(Duration::from_millis(5));
            Arc::strong_count(&last) == 1
        };
        assert!((0..ATTEMPTS).any(is_back), "it takes what was passed on before, too");
    }
}
