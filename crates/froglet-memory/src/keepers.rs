//! Keepers: spaces whose rows are kept as of a timestamp, while other spaces' garbage goes.
//!
//! ```text
//!   keep ─▶ asked ── pre_commit ──▶ announced ── logged ──▶ kept at F ── release ──▶ gone
//!             │                      pin at p              pin at F                no pin
//!             └── rolled back         └── retreat, abort ──────────────────────────▶ gone
//! ```
//!
//! A **pin** of a space at a timestamp keeps the collector from what ends above it there.
//!
//! **[Q1] no gap.** The pin at `p`, the view of the transaction that keeps, is entered while that view is
//! registered and before the commit timestamp `F > p` is taken; the pin at `F` is entered before the
//! one at `p` goes. The collector reads the pins after its horizon. So either its horizon is at or below
//! `p`, or it finds a pin at or below `F`: from the announcement to the release nothing that ends above
//! `F` is cut.
//! **[Q2] one order.** The map changes under one lock with the log: announcements, the records of
//! transactions that keep, and releases. So map and log have one order, and nobody is kept before it is
//! logged, or logged as released and still kept.
//! **[Q3] known in time.** Whoever commits above `F` takes its timestamp, and is logged, after the
//! announcement. So a replay has the pin at `p` before it meets what the pin is for. An announcement that
//! a crash left alone is taken back in the log by the recovery.
//! **[Q4] for readers.** The view that is kept has a share of its pin, and a registered view at the present
//! besides, which is what [B2] asks of every reader.

use std::collections::BTreeMap;
use std::sync::Arc;

use froglet_engine::{Lsn, Snapshot, Ts, TxnId};

use crate::clock::{Registered, Timeline, holder};
use crate::space::Space;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Who keeps what.
#[derive(Debug, Default)]
pub(crate) struct Keepers {
    keepers: Mutex<BTreeMap<u64, Keeper>>,
    pins: Arc<Pins>,
}

/// How many pins there are, and how many have gone.
#[derive(Debug, Default)]
struct Pins {
    there: AtomicUsize,
    gone: AtomicU64,
}

/// The rows of some spaces are kept as of a timestamp while this lives.
#[derive(Debug)]
pub(crate) struct Pin {
    pub ts: u64,
    pub spaces: Vec<Arc<Space>>,
    pins: Arc<Pins>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.spaces.iter().for_each(|space| space.unpin(self.ts));
        self.pins.there.fetch_sub(1, Ordering::Release);
        // The collector looks again at what it holds.
        self.pins.gone.fetch_add(1, Ordering::Release);
    }
}

/// Whose pin it is.
#[derive(Clone, Debug)]
pub(crate) enum Keeper {
    /// Of a transaction that is about to commit, or that a crash kept from it.
    Announced(Arc<Pin>),
    /// Of one that has committed at the pin's timestamp.
    Kept(Arc<Pin>),
}

impl Keeper {
    pub fn pin(&self) -> &Arc<Pin> {
        let (Keeper::Announced(pin) | Keeper::Kept(pin)) = self;
        pin
    }

    /// The pin of a keeper whose transaction has committed.
    pub fn kept(&self) -> Option<&Arc<Pin>> {
        match self {
            Keeper::Kept(pin) => Some(pin),
            Keeper::Announced(_) => None,
        }
    }
}

impl Keepers {
    /// Whether anything is pinned. Whoever asks after it has found a view unregistered finds the pins
    /// that were entered before [Q1].
    #[inline]
    pub fn has_pins(&self) -> bool {
        self.pins.there.load(Ordering::Relaxed) > 0
    }

    /// A number that grows when a pin goes.
    pub fn gone(&self) -> u64 {
        self.pins.gone.load(Ordering::Acquire)
    }

    pub fn pin(&self, ts: u64, spaces: Vec<Arc<Space>>) -> Arc<Pin> {
        self.pins.there.fetch_add(1, Ordering::Release);
        spaces.iter().for_each(|space| space.pin(ts));
        Arc::new(Pin { ts, spaces, pins: Arc::clone(&self.pins) })
    }

    /// What changes under this lock is logged under it [Q2].
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Keeper>> {
        self.keepers.lock()
    }

    /// The oldest pin of those who are announced, or the end of time. None while somebody has the lock.
    pub fn oldest_announced(&self) -> Option<u64> {
        let keepers = self.keepers.try_lock()?;
        let announced = keepers.values().filter(|keeper| keeper.kept().is_none());
        Some(announced.map(|keeper| keeper.pin().ts).min().unwrap_or(u64::MAX))
    }

    /// The end of the log, and who is announced in the log before it.
    pub fn announced_at(&self, appended: impl FnOnce() -> Lsn) -> (Lsn, BTreeMap<u64, Keeper>) {
        let keepers = self.lock();
        let announced = keepers.iter().filter(|(_, keeper)| keeper.kept().is_none());
        (appended(), announced.map(|(keeper, pin)| (*keeper, pin.clone())).collect())
    }

    /// Who keeps what as of a checkpoint at `s`, before which these were announced: those that are
    /// kept at or below it, and of the rest those of whom the log may say more [W3].
    pub fn at(&self, s: u64, announced: BTreeMap<u64, Keeper>) -> BTreeMap<u64, Keeper> {
        let mut keepers = self.lock().clone();
        keepers.retain(|_, keeper| keeper.kept().is_some_and(|pin| pin.ts <= s));
        for (keeper, state) in announced {
            keepers.entry(keeper).or_insert_with(|| {
                let pin = state.pin();
                Keeper::Announced(self.pin(pin.ts.max(s), pin.spaces.clone()))
            });
        }
        keepers
    }

    /// The view that is kept for a keeper.
    pub fn view(&self, keeper: u64, timeline: &Arc<Timeline>) -> Option<Snapshot> {
        let pin = Arc::clone(self.lock().get(&keeper)?.kept()?);
        let (registered, _) = Registered::new(timeline, holder::KEPT);
        Some(Snapshot::new(Ts(pin.ts), TxnId(0), Box::new((pin, registered))))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::memory::Budget;
    use froglet_engine::SpaceId;

    fn space() -> Arc<Space> {
        Arc::new(Space::new(SpaceId(1), Arc::new(Budget::new(1 << 30))))
    }

    #[test]
    fn the_oldest_pin_of_a_space_counts() {
        let (keepers, space, other) = (Keepers::default(), space(), space());
        assert!(!keepers.has_pins());
        let first = keepers.pin(10, vec![Arc::clone(&space), Arc::clone(&other)]);
        let second = keepers.pin(5, vec![Arc::clone(&space)]);
        let again = keepers.pin(5, vec![Arc::clone(&space)]);
        assert_eq!((space.oldest_pin(), other.oldest_pin()), (5, 10));
        assert_eq!((space.pin_after(5), space.pin_after(10)), (Some(10), None));
        let gone = keepers.gone();
        drop(second);
        assert_eq!(space.oldest_pin(), 5);
        drop(again);
        assert_eq!(space.oldest_pin(), 10);
        assert_eq!(keepers.gone(), gone + 2);
        drop(first);
        assert_eq!((space.oldest_pin(), other.oldest_pin()), (u64::MAX, u64::MAX));
        assert!(!keepers.has_pins());
    }

    /// [W3]: of those that the log before the checkpoint announces none is forgotten, whatever
    /// becomes of them while the checkpoint is written.
    #[test]
    fn a_checkpoint_has_who_is_kept_and_who_may_be() {
        let (keepers, space) = (Keepers::default(), space());
        let pin = |ts| keepers.pin(ts, vec![Arc::clone(&space)]);
        let mut map = keepers.lock();
        map.insert(1, Keeper::Kept(pin(10)));
        map.insert(2, Keeper::Announced(pin(12)));
        map.insert(3, Keeper::Announced(pin(13)));
        map.insert(4, Keeper::Announced(pin(14)));
        map.insert(5, Keeper::Announced(pin(35)));
        drop(map);
        let (lsn, announced) = keepers.announced_at(|| Lsn(7));
        assert_eq!(lsn, Lsn(7));
        let mut map = keepers.lock();
        // Committed at or below the checkpoint's timestamp, above it, and taken back.
        map.insert(2, Keeper::Kept(pin(20)));
        map.insert(3, Keeper::Kept(pin(31)));
        map.remove(&4);
        // Later than the log that was looked at: the replay meets it.
        map.insert(6, Keeper::Announced(pin(15)));
        map.insert(7, Keeper::Kept(pin(32)));
        drop(map);
        let at = keepers.at(30, announced);
        let at: Vec<(u64, u64, bool)> =
            at.iter().map(|(keeper, k)| (*keeper, k.pin().ts, k.kept().is_some())).collect();
        let want = [(1, 10, true), (2, 20, true), (3, 30, false), (4, 30, false), (5, 35, false)];
        assert_eq!(at, want);
    }
}
