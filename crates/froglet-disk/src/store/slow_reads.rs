//! Reads that wait for a disk keep nobody else waiting.
//!
//! ```text
//!   read ── no slow one lately ──▶ where the caller is, timed
//!        └─ some were slow     ──▶ aside: who shares the caller's thread goes on elsewhere meanwhile
//! ```
//! Nobody knows before a read whether what it needs is in memory. To go aside takes longer than a read from memory, so
//! that is done only while a read was slow a moment ago: of reads that begin to be slow, one is waited for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is not in memory takes longer, on a disk that is worth going aside for.
const SLOW: Duration = Duration::from_millis(1);
/// After a slow read others are likely to be.
const LATELY: Duration = Duration::from_secs(1);

/// Runs work so that others who share the caller's thread go on elsewhere.
pub type Aside = fn(&mut dyn FnMut());

/// See the module.
pub(crate) struct SlowReads {
    aside: Aside,
    /// What every read takes longer, for tests.
    delay: Duration,
    begun: Instant,
    /// Until when reads go aside, in nanoseconds since `begun`.
    until_ns: AtomicU64,
}

impl SlowReads {
    pub fn new(aside: Aside, delay: Duration) -> SlowReads {
        SlowReads { aside, delay, begun: Instant::now(), until_ns: AtomicU64::new(0) }
    }

    /// A read, wherever it is to be made.
    pub fn read<T>(&self, read: impl FnOnce() -> T) -> T {
        match self.are_likely() {
            true => self.aside(|| self.timed(read)),
            false => self.timed(read),
        }
    }

    /// Whether a read was slow a moment ago.
    pub fn are_likely(&self) -> bool {
        let until_ns = self.until_ns.load(Ordering::Relaxed);
        if until_ns == 0 {
            return false;
        }
        let are_likely = until_ns > self.now_ns();
        if !are_likely {
            // The time is not asked for again, unless one has been slow meanwhile.
            let order = Ordering::Relaxed;
            let _ = self.until_ns.compare_exchange(until_ns, 0, order, order);
        }
        are_likely
    }

    /// Work aside.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        let (mut work, mut done) = (Some(work), None);
        (self.aside)(&mut || done = work.take().map(|work| work()));
        done.expect("work that is given aside is done")
    }

    /// A read where the caller is, which says whether reads are slow.
    pub fn timed<T>(&self, read: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let found = read();
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        if begun.elapsed() >= SLOW {
            let until_ns = self.now_ns() + LATELY.as_nanos() as u64;
            self.until_ns.store(until_ns, Ordering::Relaxed);
        }
        found
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static ASIDE: Cell<u32> = const { Cell::new(0) };
    }

    fn count(work: &mut dyn FnMut()) {
        ASIDE.set(ASIDE.get() + 1);
        work();
    }

    #[test]
    fn reads_go_aside_after_a_slow_one() {
        let reads = SlowReads::new(count, Duration::ZERO);
        let slow = || {
            std::thread::sleep(SLOW);
            7
        };
        assert!(!reads.are_likely());
        assert_eq!(reads.read(slow), 7);
        assert_eq!(ASIDE.get(), 0, "nobody has known");
        assert!(reads.are_likely());
        assert_eq!(reads.read(|| 8), 8);
        assert_eq!(ASIDE.get(), 1);
    }

    #[test]
    fn a_delay_is_a_slow_read() {
        let reads = SlowReads::new(count, SLOW);
        assert_eq!(reads.read(|| 1) + reads.read(|| 2), 3);
        assert_eq!(ASIDE.get(), 1);
    }
}
