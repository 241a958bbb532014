//! Reads that wait for a disk keep nobody else waiting.
//!
//! ```text
//!   read ── hardly any slow ones lately ──▶ where the caller is, timed
//!        └─ some were slow              ──▶ aside: who shares the caller's thread goes on elsewhere meanwhile
//! ```
//! Nobody knows before a read whether what it needs is in memory. To go aside takes longer than a read from memory, so
//! that is done only while more than one read of some dozens is slow: where threads are more than cores, one in
//! hundreds is, because its thread was kept from running.
//!
//! Who wants many things at once has them read side by side then: a disk that lets one read wait has room for others.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What is not in memory takes longer, on a disk that is worth going aside for.
const SLOW: Duration = Duration::from_millis(1);
/// A slow read counts as much as so many that are not.
const WEIGHT: u32 = 64;
/// From so much on reads are likely to be slow.
const LIKELY: u32 = 4 * WEIGHT;
/// So much at most: so many reads that are not slow, and they are not likely to be any more.
const MOST: u32 = 8 * WEIGHT;

/// Of so many steps of a range one is timed.
const STEPS_TIMED: u32 = 16;

/// So many reads of one caller's are made side by side.
const SIDE_BY_SIDE: usize = 8;

/// Runs work so that others who share the caller's thread go on elsewhere.
pub type Aside = fn(&mut dyn FnMut());

/// See the module.
pub struct SlowReads {
    aside: Aside,
    /// What every read takes longer, for tests.
    delay: Duration,
    /// Slow reads lately, weighted, less the others. Threads may miss each other's.
    score: AtomicU32,
}

impl SlowReads {
    /// None was slow yet.
    pub fn new(aside: Aside, delay: Duration) -> Arc<SlowReads> {
        Arc::new(SlowReads { aside, delay, score: AtomicU32::new(0) })
    }

    /// A read, wherever it is to be made.
    pub fn read<T>(&self, read: impl FnOnce() -> T) -> T {
        match self.are_likely() {
            true => self.aside(|| self.timed(read)),
            false => self.timed(read),
        }
    }

    /// Steps through a range, until there is none left, or one fails.
    pub fn each<E>(&self, mut step: impl FnMut() -> Result<bool, E>) -> Result<(), E> {
        let mut number = 0_u32;
        while !self.are_likely() {
            // The first reads the most; of the others one in so many reads a block.
            let is_timed = number.is_multiple_of(STEPS_TIMED) || self.are_suspected();
            let goes_on = match is_timed {
                true => self.timed(&mut step)?,
                false => step()?,
            };
            if !goes_on {
                return Ok(());
            }
            number += 1;
        }
        self.aside(|| {
            while self.timed(&mut step)? {}
            Ok(())
        })
    }

    /// Whether the next read is likely to be slow.
    pub fn are_likely(&self) -> bool {
        self.score.load(Ordering::Relaxed) >= LIKELY
    }

    /// Whether one was slow a moment ago.
    pub fn are_suspected(&self) -> bool {
        self.score.load(Ordering::Relaxed) > 0
    }

    /// Work aside.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        let (mut work, mut done) = (Some(work), None);
        (self.aside)(&mut || done = work.take().map(|work| work()));
        done.expect("work that is given aside is done")
    }

    /// Reads of some things, of which each call makes a part: the number of the first, and the part. In the order of the
    /// things; side by side, if reads are likely to be slow.
    pub fn all<T: Sync, R: Send, E: Send>(
        &self,
        things: &[T],
        read: impl Fn(usize, &[T]) -> Result<Vec<R>, E> + Sync,
    ) -> Result<Vec<R>, E> {
        let part = things.len().div_ceil(SIDE_BY_SIDE).max(1);
        if !self.are_likely() || part == things.len() {
            return read(0, things);
        }
        self.aside(|| {
            std::thread::scope(|scope| {
                let read = &read;
                let parts = things.chunks(part).enumerate();
                let parts: Vec<_> = parts
                    .map(|(n, some)| {
                        let work = move || read(n * part, some);
                        let thread = std::thread::Builder::new().name("froglet-disk-read".into());
                        // Where no thread is to be had it is read here.
                        thread.spawn_scoped(scope, work).map_err(|_| work())
                    })
                    .collect();
                let parts: Vec<_> = parts.into_iter().map(|part| part.map(|t| t.join())).collect();
                let mut found = Vec::with_capacity(things.len());
                for part in parts {
                    found.extend(match part {
                        Ok(joined) => joined.unwrap_or_else(|panic| resume_unwind(panic))?,
                        Err(read_here) => read_here?,
                    });
                }
                Ok(found)
            })
        })
    }

    /// A read where the caller is, which says whether reads are slow.
    pub fn timed<T>(&self, read: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let found = read();
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        let score = self.score.load(Ordering::Relaxed);
        if begun.elapsed() >= SLOW {
            self.score.store((score + WEIGHT).min(MOST), Ordering::Relaxed);
        } else if score > 0 {
            self.score.store(score - 1, Ordering::Relaxed);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Barrier;

    thread_local! {
        static ASIDE: Cell<u32> = const { Cell::new(0) };
    }

    fn count(work: &mut dyn FnMut()) {
        ASIDE.set(ASIDE.get() + 1);
        work();
    }

    fn slow(reads: &SlowReads) {
        reads.read(|| std::thread::sleep(SLOW));
    }

    /// In their order, and whoever fails says so; at the same time, or the first waits for the others in vain.
    #[test]
    fn many_reads_are_made_side_by_side_when_they_are_slow() {
        let reads = SlowReads::new(count, Duration::ZERO);
        let things: Vec<usize> = (0..100).collect();
        let read_all = |wait: &Barrier| {
            reads.all(&things, |first, some| {
                assert_eq!(some[0], first);
                if some.len() < things.len() {
                    wait.wait();
                }
                Ok(some.iter().map(|n| n + 1).collect())
            })
        };
        let expected: Result<Vec<usize>, usize> = Ok((1..=100).collect());
        assert_eq!(read_all(&Barrier::new(1)), expected);
        assert_eq!(ASIDE.get(), 0, "none was slow");
        (0..LIKELY / WEIGHT).for_each(|_| slow(&reads));
        assert_eq!(read_all(&Barrier::new(SIDE_BY_SIDE)), expected);
        assert_eq!(ASIDE.get(), 1);
        let failed = reads.all(&things, |first, some| match first {
            0 => Ok(some.to_vec()),
            _ => Err(first),
        });
        assert_eq!(failed, Err(100_usize.div_ceil(SIDE_BY_SIDE)), "the first that failed");
    }

    #[test]
    fn reads_go_aside_when_some_were_slow_and_come_back_when_none_is() {
        let reads = SlowReads::new(count, Duration::ZERO);
        for _ in 0..LIKELY / WEIGHT {
            assert_eq!(ASIDE.get(), 0, "nobody has known");
            slow(&reads);
        }
        assert!(reads.are_likely());
        assert_eq!(reads.read(|| 8), 8);
        assert_eq!(ASIDE.get(), 1);
        // A read of nothing takes no millisecond, but for one whose thread is kept from running.
        (0..10 * MOST).for_each(|_| reads.read(|| ()));
        assert!(!reads.are_likely());
    }

    #[test]
    fn one_in_hundreds_is_a_thread_that_was_kept_from_running() {
        let reads = SlowReads::new(count, Duration::ZERO);
        for _ in 0..20 {
            slow(&reads);
            (0..300).for_each(|_| reads.read(|| ()));
        }
        assert_eq!(ASIDE.get(), 0);
    }

    #[test]
    fn a_delay_is_a_slow_read() {
        let reads = SlowReads::new(count, SLOW);
        assert_eq!((0..LIKELY / WEIGHT + 1).map(|n| reads.read(|| n)).sum::<u32>(), 10);
        assert_eq!(ASIDE.get(), 1);
    }
}
