//! Advisory locks: keys that applications lock, and that mean what they say.
//!
//! ```text
//!   key ─▶ held by an owner, shared or exclusively, so many times
//!
//!   owner   a session, until it lets go or ends          pg_advisory_lock
//!           a transaction of it, until that has ended    pg_advisory_xact_lock
//! ```
//! An owner has an id from the numbers of transactions, so that the graph of waits has it for a node. Whoever waits
//! is a transaction; an owner leads on to the transaction of its session, which may itself wait for somebody
//! ([`crate::WaitGraph::owner_started`]).
//!
//! V1: locks of one session never conflict with each other.
//! V2: what an owner lets go of, it rings the bell for after it has let go.
//! V3: there is no queue: whoever looks first when a lock is free has it.

use std::collections::HashMap;

use froglet_engine::TxnId;
use parking_lot::Mutex;

/// The most keys that are locked at one time.
const MOST_KEYS: usize = 1 << 20;

/// What is locked: one bigint, or two integers, which are keys of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum AdvisoryKey {
    One(i64),
    Two(i32, i32),
}

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AdvisoryMode {
    /// With others who do so.
    Shared,
    /// Alone.
    Exclusive,
}

/// Who locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its id.
    pub id: TxnId,
    /// The number of its session.
    pub session: i32,
}

/// One lock that is held or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvisoryLock {
    /// What.
    pub key: AdvisoryKey,
    /// How.
    pub mode: AdvisoryMode,
    /// By whom.
    pub owner: Owner,
    /// Whether it is held.
    pub is_granted: bool,
}

/// Why a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLocked {
    /// This owner holds it.
    Held(TxnId),
    /// There are too many.
    TooMany,
}

struct Held {
    owner: Owner,
    mode: AdvisoryMode,
    times: u32,
}

#[derive(Default)]
struct State {
    held: HashMap<AdvisoryKey, Vec<Held>>,
    /// The keys of each owner, once for each mode.
    owned: HashMap<TxnId, Vec<(AdvisoryKey, AdvisoryMode)>>,
    /// By session.
    waiting: HashMap<i32, AdvisoryLock>,
}

/// The table of advisory locks.
#[derive(Default)]
pub struct AdvisoryLocks {
    state: Mutex<State>,
}

impl AdvisoryLocks {
    /// Takes a lock if it is free for this owner; once more, if it holds it already.
    pub fn try_lock(
        &self,
        key: AdvisoryKey,
        mode: AdvisoryMode,
        owner: Owner,
    ) -> Result<(), NotLocked> {
        let State { held, owned, waiting } = &mut *self.state.lock();
        if held.len() >= MOST_KEYS && !held.contains_key(&key) {
            return Err(NotLocked::TooMany);
        }
        let holders = held.entry(key).or_default();
        let is_exclusive = mode == AdvisoryMode::Exclusive;
        let conflicts = |h: &&Held| {
            h.owner.session != owner.session && (is_exclusive || h.mode == AdvisoryMode::Exclusive)
        };
        if let Some(other) = holders.iter().find(conflicts) {
            return Err(NotLocked::Held(other.owner.id));
        }
        waiting.remove(&owner.session);
        match holders.iter_mut().find(|h| h.owner == owner && h.mode == mode) {
            Some(own) => own.times += 1,
            None => {
                holders.push(Held { owner, mode, times: 1 });
                owned.entry(owner.id).or_default().push((key, mode));
            }
        }
        Ok(())
    }

    /// Lets go of a lock once; false if the owner does not hold it. The caller rings the bell [V2].
    pub fn unlock(&self, key: AdvisoryKey, mode: AdvisoryMode, owner: TxnId) -> bool {
        let mut state = self.state.lock();
        let State { held, owned, .. } = &mut *state;
        let Some(holders) = held.get_mut(&key) else { return false };
        let Some(at) = holders.iter().position(|h| h.owner.id == owner && h.mode == mode) else {
            return false;
        };
        holders[at].times -= 1;
        if holders[at].times == 0 {
            holders.swap_remove(at);
            if holders.is_empty() {
                held.remove(&key);
            }
            let keys = owned.get_mut(&owner).expect("it owns what it holds");
            keys.retain(|own| *own != (key, mode));
            if keys.is_empty() {
                owned.remove(&owner);
            }
        }
        true
    }

    /// Lets go of all that an owner holds. The caller rings the bell [V2].
    pub fn unlock_all(&self, owner: TxnId) {
        let mut state = self.state.lock();
        let State { held, owned, .. } = &mut *state;
        for (key, mode) in owned.remove(&owner).unwrap_or_default() {
            if let Some(holders) = held.get_mut(&key) {
                holders.retain(|h| h.owner.id != owner || h.mode != mode);
                if holders.is_empty() {
                    held.remove(&key);
                }
            }
        }
    }

    /// A session waits for a lock from now on, until it has it or says that it does not.
    pub fn waits(&self, key: AdvisoryKey, mode: AdvisoryMode, owner: Owner) {
        let lock = AdvisoryLock { key, mode, owner, is_granted: false };
        self.state.lock().waiting.insert(owner.session, lock);
    }

    /// It does not wait any more.
    pub fn waited(&self, session: i32) {
        self.state.lock().waiting.remove(&session);
    }

    /// Whether a session waits for a lock.
    pub fn is_waiting(&self, session: i32) -> bool {
        self.state.lock().waiting.contains_key(&session)
    }

    /// All that are held or waited for, by key.
    pub fn all(&self) -> Vec<AdvisoryLock> {
        let state = self.state.lock();
        let held = state.held.iter().flat_map(|(&key, holders)| {
            let lock = move |h: &Held| AdvisoryLock {
                key,
                mode: h.mode,
                owner: h.owner,
                is_granted: true,
            };
            holders.iter().map(lock)
        });
        let mut all: Vec<AdvisoryLock> = held.chain(state.waiting.values().copied()).collect();
        all.sort_by_key(|lock| (lock.key, !lock.is_granted, lock.owner.session, lock.mode));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AdvisoryMode::{Exclusive, Shared};

    const A: Owner = Owner { id: TxnId(1), session: 1 };
    const A2: Owner = Owner { id: TxnId(11), session: 1 };
    const B: Owner = Owner { id: TxnId(2), session: 2 };
    const C: Owner = Owner { id: TxnId(3), session: 3 };
    const KEY: AdvisoryKey = AdvisoryKey::One(7);

    #[test]
    fn many_share_or_one_has_it() {
        let locks = AdvisoryLocks::default();
        assert_eq!(locks.try_lock(KEY, Shared, A), Ok(()));
        assert_eq!(locks.try_lock(KEY, Shared, B), Ok(()));
        assert_eq!(locks.try_lock(KEY, Exclusive, C), Err(NotLocked::Held(A.id)));
        assert_eq!(locks.try_lock(KEY, Exclusive, A), Err(NotLocked::Held(B.id)));
        assert!(locks.unlock(KEY, Shared, B.id) && !locks.unlock(KEY, Shared, B.id));
        assert_eq!(locks.try_lock(KEY, Exclusive, A), Ok(()), "its own share is no hindrance");
        assert_eq!(locks.try_lock(KEY, Shared, B), Err(NotLocked::Held(A.id)));
        assert_eq!(locks.try_lock(AdvisoryKey::Two(0, 7), Exclusive, B), Ok(()), "another key");
    }

    #[test]
    fn a_lock_is_let_go_as_often_as_it_was_taken() {
        let locks = AdvisoryLocks::default();
        for owner in [A, A, A2] {
            assert_eq!(locks.try_lock(KEY, Exclusive, owner), Ok(()));
        }
        assert!(!locks.unlock(KEY, Shared, A.id), "it is held otherwise");
        assert!(locks.unlock(KEY, Exclusive, A.id) && locks.unlock(KEY, Exclusive, A.id));
        assert!(!locks.unlock(KEY, Exclusive, A.id));
        assert_eq!(locks.try_lock(KEY, Shared, B), Err(NotLocked::Held(A2.id)));
        locks.unlock_all(A2.id);
        assert_eq!(locks.try_lock(KEY, Shared, B), Ok(()));
        locks.unlock_all(B.id);
        assert!(locks.all().is_empty() && locks.state.lock().owned.is_empty());
    }
}
