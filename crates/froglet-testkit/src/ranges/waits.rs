//! Who waits for whose lock.
//!
//! ```text
//!   waiter ─ start_ts ─▶ holder ─ start_ts ─▶ …      an edge that would close a ring is a deadlock, told to who brings it
//!
//!   the lock goes ─▶ the oldest waiter is told at once, the others a little later: each answers a conflict, and its
//!                    client locks again with what is new by then
//! ```
//! A waiter waits at a store, and only a lock that goes there wakes it: where a region's leader has moved, it waits in
//! vain, for a second at most. Whoever locks his first key holds nothing that others could wait for, so he is no edge.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;

/// So much later than the first the others are told.
const OTHERS_LATER: Duration = Duration::from_millis(20);

/// Nobody waits longer, whatever he asks for; and so long if he does not say.
const LONGEST: Duration = Duration::from_secs(1);

/// How a wait ends before its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The lock is gone.
    Released {
        /// 0: it was rolled back.
        commit_ts: u64,
        /// To be told after this.
        after: Duration,
    },
    /// The store is.
    StoreDown,
}

/// Who waits, and for what.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub start_ts: u64,
    /// Start timestamp of whoever has the key.
    pub holder: u64,
    pub key: Vec<u8>,
    pub store: u64,
    pub is_first_lock: bool,
}

#[derive(Debug)]
struct Waiter {
    edge: Edge,
    wake: oneshot::Sender<Woken>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Waits {
    next: u64,
    waiters: BTreeMap<u64, Waiter>,
}

/// How long a request wants to wait; None: not at all.
pub(super) fn timeout_of(wait_timeout: i64) -> Option<Duration> {
    match u64::try_from(wait_timeout) {
        Err(_) => None,
        Ok(0) => Some(LONGEST),
        Ok(ms) => Some(Duration::from_millis(ms).min(LONGEST)),
    }
}

/// FNV-1a: any hash does, as long as it is always the same.
fn hash_of(key: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    key.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Waits {
    /// A new waiter; the hash of the key that closes the ring, if that is a deadlock.
    pub fn enter(&mut self, edge: Edge) -> Result<(u64, oneshot::Receiver<Woken>), u64> {
        if !edge.is_first_lock
            && let Some(closing) = self.path(edge.holder, edge.start_ts)
        {
            return Err(hash_of(&closing.key));
        }
        let (wake, woken) = oneshot::channel();
        self.next += 1;
        self.waiters.insert(self.next, Waiter { edge, wake });
        Ok((self.next, woken))
    }

    /// The last edge of a way from one transaction to another.
    fn path(&self, from: u64, to: u64) -> Option<&Edge> {
        let (mut ahead, mut seen) = (vec![from], vec![from]);
        while let Some(txn) = ahead.pop() {
            let edges = self.waiters.values().map(|waiter| &waiter.edge);
            for edge in edges.filter(|edge| edge.start_ts == txn && !edge.is_first_lock) {
                if edge.holder == to {
                    return Some(edge);
                }
                if !seen.contains(&edge.holder) {
                    seen.push(edge.holder);
                    ahead.push(edge.holder);
                }
            }
        }
        None
    }

    /// A waiter waits no longer.
    pub fn leave(&mut self, waiter: u64) {
        self.waiters.remove(&waiter);
    }

    /// A key is free at a store.
    pub fn released(&mut self, store: u64, key: &[u8], commit_ts: u64) {
        let here = self.waiters.iter().filter(|(_, w)| w.edge.store == store && w.edge.key == key);
        let mut here: Vec<(u64, u64)> = here.map(|(id, w)| (w.edge.start_ts, *id)).collect();
        here.sort_unstable();
        for (at, (_, id)) in here.into_iter().enumerate() {
            let after = if at == 0 { Duration::ZERO } else { OTHERS_LATER };
            self.wake(id, Woken::Released { commit_ts, after });
        }
    }

    pub fn store_down(&mut self, store: u64) {
        let here = self.waiters.iter().filter(|(_, waiter)| waiter.edge.store == store);
        let here: Vec<u64> = here.map(|(id, _)| *id).collect();
        here.into_iter().for_each(|id| self.wake(id, Woken::StoreDown));
    }

    fn wake(&mut self, id: u64, woken: Woken) {
        let waiter = self.waiters.remove(&id).expect("it was found just now");
        // Who has given up in the meantime is not told.
        let _ = waiter.wake.send(woken);
    }

    /// Start timestamps: who waits for whom.
    pub fn edges(&self) -> Vec<(u64, u64)> {
        self.waiters.values().map(|waiter| (waiter.edge.start_ts, waiter.edge.holder)).collect()
    }
}
