//! How far the scan of a step is, for capture.
//!
//! ```text
//!   blocks   0 ──── read, or being read ──── claimed ──── to be read ──── end ──── made since ──▶
//!   a captured row      migrate again                     leave it                migrate
//! ```
//!
//! A captured change was in the feed before it was visible; a block is claimed, and then read. So if
//! capture finds the block unclaimed, the scan's view, taken later, sees the change (sequentially
//! consistent: claim and timestamp after, feed and commit timestamp before).

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// The front of a scan that reads blocks in ascending order, on several threads.
#[derive(Debug, Default)]
pub(crate) struct Front {
    /// Blocks at or above this have not been read.
    claimed: AtomicU32,
    /// The scan reads the blocks below.
    end: AtomicU32,
}

impl Front {
    /// The blocks below `end` will be read. Before capture has the step.
    pub fn begin(&self, end: u32) {
        self.end.store(end, Ordering::SeqCst);
    }

    /// A block is about to be read.
    pub fn claim(&self, block: u32) {
        self.claimed.fetch_max(block + 1, Ordering::SeqCst);
    }

    /// The blocks that the scan has yet to read. It may have begun to by the time this returns.
    pub fn to_be_read(&self) -> Range<u32> {
        self.claimed.load(Ordering::SeqCst)..self.end.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_of_blocks_to_be_read_are_left_to_the_scan() {
        let front = Front::default();
        let is_before = |block| front.to_be_read().contains(&block);
        assert!(!is_before(0), "there is no scan");
        front.begin(3);
        assert_eq!([0, 1, 2, 3].map(is_before), [true, true, true, false], "block 3 is new");
        front.claim(0);
        assert_eq!([0, 1, 2, 3].map(is_before), [false, true, true, false]);
        front.claim(2);
        assert!(!is_before(1), "another thread may have read it already");
    }
}
