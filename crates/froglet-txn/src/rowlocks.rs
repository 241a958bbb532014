//! Row locks that are not writes.
//!
//! Whoever writes a row, or locks it FOR NO KEY UPDATE, links an undo record to the row itself: so one at a time
//! does. The other strengths are entered here, until their transactions end:
//!
//! ```text
//!                       meets             KEY SHARE   SHARE   write of other columns,   write of the key, DELETE,
//!                                                             FOR NO KEY UPDATE         FOR UPDATE
//!   KEY SHARE   (a foreign key's child            –       –             –                         waits
//!                holds its parent so)
//!   SHARE                                         –       –           waits                       waits
//!   UPDATE      (entered beside its             waits   waits         waits                       waits
//!                undo record)
//! ```
//!
//! R1: KEY SHARE is entered here first, then its taker looks at the row. Who deletes the row or changes its key
//!     first links the undo record, then looks here. Both steps are sequentially consistent, so at least one of
//!     two racing transactions sees the other.
//! R2: FOR SHARE holds the row exclusively while it enters its lock here, so no write is under way
//!     then. A writer looks here before its write and after it; one that finds a lock only
//!     afterwards takes its write back and waits, so that nobody waits for it meanwhile.
//! R3: entries are checked against each other when they are made, under one mutex: of FOR UPDATE and KEY SHARE the
//!     second waits, and holds nothing here meanwhile.
//! R4: who has to wait lets go of what the lock that it could not get has added, and of nothing that it had before.

use std::sync::atomic::{AtomicUsize, Ordering, fence};

use froglet_engine::{IdMap, RowId, SpaceId, TxnId};
use parking_lot::Mutex;
use smallvec::SmallVec;

const SHARDS: usize = 64;

/// How a row is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// It stays, under its key.
    KeyShare,
    /// It stays as it is.
    Share,
    /// Nobody else holds it at all.
    Update,
}

impl Strength {
    /// Whether two transactions cannot hold a row so.
    fn excludes(self, other: Strength) -> bool {
        self == Strength::Update || other == Strength::Update
    }
}

type Holders = SmallVec<[(TxnId, Strength); 2]>;

/// A row held shared.
pub type Shared = (SpaceId, RowId);

/// The table of row locks.
pub struct RowLocks {
    shards: [Mutex<IdMap<Shared, Holders>>; SHARDS],
    /// Holds of rows, and of them those that keep writers of any column out: while there are none, writers need
    /// not look.
    held: AtomicUsize,
    whole: AtomicUsize,
}

impl Default for RowLocks {
    fn default() -> Self {
        RowLocks {
            shards: std::array::from_fn(|_| Mutex::default()),
            held: AtomicUsize::new(0),
            whole: AtomicUsize::new(0),
        }
    }
}

impl RowLocks {
    /// `txn` holds the row at least so; how it did before. Somebody who holds it otherwise [R3].
    pub fn hold(
        &self,
        row: Shared,
        txn: TxnId,
        strength: Strength,
    ) -> Result<Option<Strength>, TxnId> {
        let mut shard = self.shard(row).lock();
        let holders = shard.entry(row).or_default();
        let rival = holders.iter().find(|(holder, s)| *holder != txn && s.excludes(strength));
        if let Some((rival, _)) = rival {
            return Err(*rival);
        }
        let before = holders.iter().find(|(holder, _)| *holder == txn).map(|(_, s)| *s);
        self.put(holders, txn, before, before.max(Some(strength)));
        drop(shard);
        fence(Ordering::SeqCst);
        Ok(before)
    }

    /// Somebody other than `txn` who holds the row, at least so strongly.
    pub fn other_holder(&self, row: Shared, txn: TxnId, least: Strength) -> Option<TxnId> {
        if !self.any(least) {
            return None;
        }
        let shard = self.shard(row).lock();
        let mut others = shard.get(&row)?.iter().filter(|(holder, _)| *holder != txn);
        others.find(|(_, strength)| *strength >= least).map(|(holder, _)| *holder)
    }

    /// Whether any row is held at least so strongly.
    pub fn any(&self, least: Strength) -> bool {
        fence(Ordering::SeqCst);
        match least {
            Strength::KeyShare => self.held.load(Ordering::SeqCst) > 0,
            Strength::Share | Strength::Update => self.whole.load(Ordering::SeqCst) > 0,
        }
    }

    /// `txn` holds the row as it did before, if it did.
    pub fn let_go(&self, row: Shared, txn: TxnId, to: Option<Strength>) {
        let mut shard = self.shard(row).lock();
        if let Some(holders) = shard.get_mut(&row) {
            let now = holders.iter().find(|(holder, _)| *holder == txn).map(|(_, s)| *s);
            self.put(holders, txn, now, to);
            if holders.is_empty() {
                shard.remove(&row);
            }
        }
    }

    fn put(
        &self,
        holders: &mut Holders,
        txn: TxnId,
        before: Option<Strength>,
        after: Option<Strength>,
    ) {
        let count = |counter: &AtomicUsize, least: Strength| match (
            before.is_some_and(|s| s >= least),
            after.is_some_and(|s| s >= least),
        ) {
            (false, true) => drop(counter.fetch_add(1, Ordering::SeqCst)),
            (true, false) => drop(counter.fetch_sub(1, Ordering::SeqCst)),
            (false, false) | (true, true) => {}
        };
        count(&self.held, Strength::KeyShare);
        count(&self.whole, Strength::Share);
        holders.retain(|(holder, _)| *holder != txn);
        holders.extend(after.map(|strength| (txn, strength)));
    }

    fn shard(&self, row: Shared) -> &Mutex<IdMap<Shared, Holders>> {
        let mixed = (row.1.0 ^ (u64::from(row.0.0) << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(mixed >> 58) as usize % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Shared = (SpaceId(7), RowId(9));
    const A: TxnId = TxnId(1);
    const B: TxnId = TxnId(2);

    #[test]
    fn many_share_and_the_last_to_leave_frees_the_row() {
        let locks = RowLocks::default();
        assert_eq!(locks.hold(ROW, A, Strength::KeyShare), Ok(None));
        assert_eq!(locks.hold(ROW, A, Strength::KeyShare), Ok(Some(Strength::KeyShare)));
        assert_eq!(locks.hold(ROW, B, Strength::KeyShare), Ok(None));
        assert_eq!(locks.other_holder(ROW, A, Strength::KeyShare), Some(B));
        locks.let_go(ROW, B, None);
        assert_eq!(locks.other_holder(ROW, A, Strength::KeyShare), None);
        assert!(locks.any(Strength::KeyShare));
        locks.let_go(ROW, A, None);
        assert!(locks.shard(ROW).lock().is_empty() && !locks.any(Strength::KeyShare));
    }

    #[test]
    fn a_row_held_whole_is_held_by_its_key_too() {
        let locks = RowLocks::default();
        assert_eq!(locks.hold(ROW, A, Strength::KeyShare), Ok(None));
        assert_eq!(locks.other_holder(ROW, B, Strength::Share), None);
        assert!(!locks.any(Strength::Share));
        assert_eq!(locks.hold(ROW, A, Strength::Share), Ok(Some(Strength::KeyShare)));
        assert_eq!(locks.hold(ROW, A, Strength::Share), Ok(Some(Strength::Share)));
        assert_eq!(locks.hold(ROW, A, Strength::KeyShare), Ok(Some(Strength::Share)));
        assert_eq!(locks.other_holder(ROW, B, Strength::Share), Some(A), "it stays held whole");
        locks.let_go(ROW, A, Some(Strength::KeyShare));
        assert_eq!(locks.other_holder(ROW, B, Strength::Share), None);
        assert_eq!(locks.other_holder(ROW, B, Strength::KeyShare), Some(A));
    }

    #[test]
    fn update_excludes_every_other() {
        let locks = RowLocks::default();
        assert_eq!(locks.hold(ROW, A, Strength::Update), Ok(None));
        for strength in [Strength::KeyShare, Strength::Share, Strength::Update] {
            assert_eq!(locks.hold(ROW, B, strength), Err(A));
        }
        assert_eq!(locks.hold(ROW, A, Strength::Share), Ok(Some(Strength::Update)), "its own");
        locks.let_go(ROW, A, None);
        assert_eq!(locks.hold(ROW, B, Strength::KeyShare), Ok(None));
        assert_eq!(locks.hold(ROW, A, Strength::Share), Ok(None));
        assert_eq!(locks.hold(ROW, A, Strength::Update), Err(B));
        assert_eq!(locks.other_holder(ROW, B, Strength::Share), Some(A), "and keeps what it had");
    }
}
