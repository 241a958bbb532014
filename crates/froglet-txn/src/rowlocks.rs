//! Shared row locks.
//!
//! Exclusive row locks are undo records on the row itself. Weaker ones are entered here, many at a
//! time, until their transactions end:
//!
//! ```text
//!   key     a foreign key's child holds its parent     whoever deletes the row or changes its key waits
//!   whole   SELECT … FOR SHARE                         whoever writes or locks the row waits
//! ```
//!
//! R1: a child first enters its lock here, then looks at the parent row. A deleter first links its
//!     undo record, then looks here. Both steps are sequentially consistent, so at least one of two
//!     racing transactions sees the other.
//! R2: FOR SHARE holds the row exclusively while it enters its lock here, so no write is under way
//!     then. A writer looks here before its write and after it; one that finds a lock only
//!     afterwards takes its write back and waits, so that nobody waits for it meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering, fence};

use froglet_engine::{IdMap, RowId, SpaceId, TxnId};
use parking_lot::Mutex;
use smallvec::SmallVec;

const SHARDS: usize = 64;

/// What of a row is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// That it is there, under its key.
    Key,
    /// All of it.
    Whole,
}

type Holders = SmallVec<[(TxnId, Strength); 2]>;

/// A row held shared.
pub type Shared = (SpaceId, RowId);

/// The table of shared row locks.
pub struct RowLocks {
    shards: [Mutex<IdMap<Shared, Holders>>; SHARDS],
    /// Rows held whole, once for each holder: while there are none, writers need not look.
    whole: AtomicUsize,
}

impl Default for RowLocks {
    fn default() -> Self {
        RowLocks { shards: std::array::from_fn(|_| Mutex::default()), whole: AtomicUsize::new(0) }
    }
}

impl RowLocks {
    /// `txn` holds the row shared; false if it did so before, however weakly.
    pub fn share(&self, row: Shared, txn: TxnId, strength: Strength) -> bool {
        let mut shard = self.shard(row).lock();
        let holders = shard.entry(row).or_default();
        let known = holders.iter_mut().find(|(holder, _)| *holder == txn);
        let new = known.is_none();
        let stronger = known.as_ref().is_none_or(|(_, before)| *before < strength);
        match known {
            Some((_, before)) => *before = strength.max(*before),
            None => holders.push((txn, strength)),
        }
        if stronger && strength == Strength::Whole {
            self.whole.fetch_add(1, Ordering::SeqCst);
        }
        drop(shard);
        fence(Ordering::SeqCst);
        new
    }

    /// Somebody other than `txn` who holds the row shared, at least so strongly.
    pub fn other_holder(&self, row: Shared, txn: TxnId, least: Strength) -> Option<TxnId> {
        fence(Ordering::SeqCst);
        let shard = self.shard(row).lock();
        let mut others = shard.get(&row)?.iter().filter(|(holder, _)| *holder != txn);
        others.find(|(_, strength)| *strength >= least).map(|(holder, _)| *holder)
    }

    /// Whether any row is held whole.
    pub fn any_whole(&self) -> bool {
        fence(Ordering::SeqCst);
        self.whole.load(Ordering::SeqCst) > 0
    }

    /// `txn` lets go of the row.
    pub fn release(&self, row: Shared, txn: TxnId) {
        let mut shard = self.shard(row).lock();
        if let Some(holders) = shard.get_mut(&row) {
            let gone = |holder: &(TxnId, Strength)| holder.0 == txn;
            if holders.iter().any(|h| gone(h) && h.1 == Strength::Whole) {
                self.whole.fetch_sub(1, Ordering::SeqCst);
            }
            holders.retain(|holder| !gone(holder));
            if holders.is_empty() {
                shard.remove(&row);
            }
        }
    }

    fn shard(&self, row: Shared) -> &Mutex<IdMap<Shared, Holders>> {
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
        assert!(locks.share(row, TxnId(1), Strength::Key));
        assert!(!locks.share(row, TxnId(1), Strength::Key));
        assert!(locks.share(row, TxnId(2), Strength::Key));
        assert_eq!(locks.other_holder(row, TxnId(1), Strength::Key), Some(TxnId(2)));
        locks.release(row, TxnId(2));
        assert_eq!(locks.other_holder(row, TxnId(1), Strength::Key), None);
        locks.release(row, TxnId(1));
        assert!(locks.shard(row).lock().is_empty());
    }

    #[test]
    fn a_row_held_whole_is_held_by_its_key_too() {
        let locks = RowLocks::default();
        let row = (SpaceId(7), RowId(9));
        assert!(locks.share(row, TxnId(1), Strength::Key));
        assert_eq!(locks.other_holder(row, TxnId(2), Strength::Whole), None);
        assert!(!locks.any_whole());
        assert!(!locks.share(row, TxnId(1), Strength::Whole));
        assert!(!locks.share(row, TxnId(1), Strength::Whole));
        assert!(!locks.share(row, TxnId(1), Strength::Key), "and stays held whole");
        assert_eq!(locks.other_holder(row, TxnId(2), Strength::Whole), Some(TxnId(1)));
        assert_eq!(locks.other_holder(row, TxnId(2), Strength::Key), Some(TxnId(1)));
        locks.release(row, TxnId(1));
        assert!(!locks.any_whole());
    }
}
