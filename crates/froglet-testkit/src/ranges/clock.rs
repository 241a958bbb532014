//! The oracle: timestamps, and the time that leases and locks are measured by.
//!
//! ```text
//!   63                        18 17            0
//!   │ milliseconds since 1970   │ one after the │
//!   │ as the test has them      │ other         │
//! ```
//! Every timestamp is above all that were given before. The clock stands still until the test moves it on, or lets it
//! run with tokio's time (which a test may have stopped as well).

use std::time::Duration;

use tokio::time::Instant;

/// Some day in 2023: timestamps are large, as they are elsewhere.
const BEGINNING_MS: u64 = 1_700_000_000_000;

/// Bits of a timestamp that count within a millisecond.
const LOGICAL_BITS: u32 = 18;

/// Milliseconds of a timestamp.
pub(super) fn physical_ms(ts: u64) -> u64 {
    ts >> LOGICAL_BITS
}

/// See the module.
#[derive(Debug)]
pub(super) struct Oracle {
    /// What the test has made of it, without what has run since.
    set_ms: u64,
    running_since: Option<Instant>,
    newest: u64,
}

impl Oracle {
    pub fn new() -> Oracle {
        let newest = BEGINNING_MS << LOGICAL_BITS;
        Oracle { set_ms: BEGINNING_MS, running_since: None, newest }
    }

    pub fn now_ms(&self) -> u64 {
        let run = self.running_since.map_or(Duration::ZERO, |since| since.elapsed());
        self.set_ms + u64::try_from(run.as_millis()).expect("a test ends")
    }

    pub fn advance(&mut self, ms: u64) {
        self.set_ms += ms;
    }

    pub fn let_run(&mut self) {
        self.running_since.get_or_insert_with(Instant::now);
    }

    /// The last of so many timestamps that are given to somebody.
    pub fn give(&mut self, count: u32) -> u64 {
        let now = self.now_ms() << LOGICAL_BITS;
        self.newest = self.newest.max(now) + u64::from(count);
        self.newest
    }

    /// The last that was given to anybody.
    pub fn newest(&self) -> u64 {
        self.newest
    }
}
