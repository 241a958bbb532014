//! How far the scan of a step is, for capture.
//!
//! ```text
//!   blocks   0 ──── read, or being read ──── claimed ──── to be read ──── end ──── made since ──▶
//!   a captured row      migrate again                     leave it                migrate
//! ```
//!
//! A captured change was in the feed before it was visible; a block is claimed, and then read. So if
//! capture finds the block unclaimed, the scan's relaxed read sees the change (sequentially
//! consistent: claim and timestamp after, feed and commit timestamp before).

use std::sync::atomic::{AtomicU32, Ordering};

use froglet_engine::RowId;

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

    /// Whether the scan has yet to read a row's block.
    pub fn is_before(&self, row: RowId) -> bool {
        let claimed = self.claimed.load(Ordering::SeqCst);
        (claimed..self.end.load(Ordering::SeqCst)).contains(&row.block())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_of_blocks_to_be_read_are_left_to_the_scan() {
        let front = Front::default();
        let is_before = |block| front.is_before(RowId::of(block, 5));
        assert!(!is_before(0), "there is no scan");
        front.begin(3);
        assert_eq!([0, 1, 2, 3].map(is_before), [true, true, true, false], "block 3 is new");
        front.claim(0);
        assert_eq!([0, 1, 2, 3].map(is_before), [false, true, true, false]);
        front.claim(2);
        assert!(!is_before(1), "another thread may have read it already");
    }
}
