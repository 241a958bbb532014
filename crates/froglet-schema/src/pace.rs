//! How fast a migration may scan: not at all while it is paused, and no faster than it was told.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How often a scan that waits looks whether it may go on.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The pace of one migration's scans. Capture has none: it would fall behind.
#[derive(Default)]
pub(crate) struct Pace {
    paused: AtomicBool,
    /// 0 for any number.
    rows_per_second: AtomicU64,
    /// When the rows scanned so far would have been, at that pace.
    due: Mutex<Option<Instant>>,
}

impl Pace {
    /// Scans stop at their next block, or go on.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::SeqCst);
    }

    /// Whether scans are stopped.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    /// Scans read no more rows a second than this; 0 for any number.
    pub fn throttle(&self, rows_per_second: u64) {
        self.rows_per_second.store(rows_per_second, Ordering::SeqCst);
        *self.due.lock() = None;
    }

    /// The most rows a second.
    pub fn limit(&self) -> Option<u64> {
        Some(self.rows_per_second.load(Ordering::SeqCst)).filter(|limit| *limit > 0)
    }

    /// After so many rows: waits for as long as the scan is too fast, or paused, and `goes_on`.
    pub fn keep(&self, rows: u64, goes_on: impl Fn() -> bool) {
        let due = self.limit().map(|limit| {
            let mut due = self.due.lock();
            let now = Instant::now();
            // Time that was not used is not made up for.
            let next = due.unwrap_or(now).max(now - LOOK_AGAIN)
                + Duration::from_secs_f64(rows as f64 / limit as f64);
            *due = Some(next);
            next
        });
        // A limit that was lifted while it waited is one no more.
        let is_early = || due.is_some_and(|due| Instant::now() < due) && self.limit().is_some();
        while goes_on() && (self.is_paused() || is_early()) {
            thread::sleep(LOOK_AGAIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_paused_scan_goes_on_when_it_is_told_to_or_has_ended() {
        let pace = Pace::default();
        pace.keep(1000, || true);
        pace.pause(true);
        let looks = Cell::new(0);
        pace.keep(1000, || {
            looks.set(looks.get() + 1);
            if looks.get() == 3 {
                pace.pause(false);
            }
            true
        });
        assert_eq!(looks.get(), 3, "it looked until it was told");
        pace.pause(true);
        pace.keep(1000, || false);
    }

    #[test]
    fn a_throttled_scan_waits_for_what_it_is_too_fast() {
        let pace = Pace::default();
        pace.throttle(1000);
        let begun = Instant::now();
        (0..5).for_each(|_| pace.keep(10, || true));
        assert!(begun.elapsed() >= Duration::from_millis(40), "50 rows at 1000 a second");
        // A second's worth, but the limit is lifted.
        let looks = Cell::new(0);
        pace.keep(1000, || {
            looks.set(looks.get() + 1);
            if looks.get() == 2 {
                pace.throttle(0);
            }
            true
        });
        assert_eq!(looks.get(), 2);
        assert_eq!(pace.limit(), None);
    }
}
