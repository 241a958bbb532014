//! Shared row locks.
//!
//! Exclusive row locks are undo records on the row itself. A foreign key needs the weaker kind:
//! whoever inserts a child holds its parent *shared*, many at a time, until it ends, and whoever
//! deletes the parent or changes its key waits for them.
//!
//! R1: a child first enters its lock here, then looks at the parent row. A deleter first links its
//!     undo record, then looks here. Both steps are sequentially consistent, so at least one of two
//!     racing transactions sees the other.

use std::collections::HashMap;
use std::sync::atomic::{Ordering, fence};

use froglet_engine::{RowId, SpaceId, TxnId};
use parking_lot::Mutex;
use smallvec::SmallVec;

const SHARDS: usize = 64;

type Holders = SmallVec<[TxnId; 2]>;

/// A row held shared.
pub type Shared = (SpaceId, RowId);

/// The table of shared row locks.
pub struct RowLocks {
    shards: [Mutex<HashMap<Shared, Holders>>; SHARDS],
}

impl Default for RowLocks {
    fn default() -> Self {
        RowLocks { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl RowLocks {
    /// `txn` holds the row shared; false if it did so before.
    pub fn share(&self, row: Shared, txn: TxnId) -> bool {
        let mut shard = self.shard(row).lock();
        let holders = shard.entry(row).or_default();
        let new = !holders.contains(&txn);
        if new {
            holders.push(txn);
        }
        drop(shard);
        fence(Ordering::SeqCst);
        new
    }

    /// Somebody other than `txn` who holds the row shared.
    pub fn other_holder(&self, row: Shared, txn: TxnId) -> Option<TxnId> {
        fence(Ordering::SeqCst);
        self.shard(row).lock().get(&row)?.iter().copied().find(|&holder| holder != txn)
    }

    /// `txn` lets go of the row.
    pub fn release(&self, row: Shared, txn: TxnId) {
        let mut shard = self.shard(row).lock();
        if let Some(holders) = shard.get_mut(&row) {
            holders.retain(|holder| *holder != txn);
            if holders.is_empty() {
                shard.remove(&row);
            }
        }
    }

    fn shard(&self, row: Shared) -> &Mutex<HashMap<Shared, Holders>> {
        let mixed = (row.1.0 ^ (u64::from(row.0.0) << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(mixed >> 58) as usize % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_share_and_the_last_to_leave_frees_the_row() {
        let locks = RowLocks::default();
        let row = (SpaceId(7), RowId(9));
        assert!(locks.share(row, TxnId(1)));
        assert!(!locks.share(row, TxnId(1)));
        assert!(locks.share(row, TxnId(2)));
        assert_eq!(locks.other_holder(row, TxnId(1)), Some(TxnId(2)));
        locks.release(row, TxnId(2));
        assert_eq!(locks.other_holder(row, TxnId(1)), None);
        locks.release(row, TxnId(1));
        assert!(locks.shard(row).lock().is_empty());
    }
}
