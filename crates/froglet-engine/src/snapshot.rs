//! Read views: what they see, what is noted under them, and who holds them.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::figures::Asked;
use crate::id::{SpaceId, Ts, TxnId};
use crate::reads::Reads;

/// A registered read view: versions it may need are kept while it lives.
pub struct Snapshot {
    /// Versions committed at or below this are visible.
    pub ts: Ts,
    /// The transaction whose own uncommitted writes are visible too; 0 for nobody.
    pub own: TxnId,
    /// The newest commit timestamp met by a read under this snapshot that may not yet be durable.
    newest_seen: AtomicU64,
    /// Where the timeline of the engine beside stands for it, and one; 0 if nobody has asked.
    beside: AtomicU64,
    /// Where reads under it are noted, if anywhere.
    reads: OnceLock<Arc<Reads>>,
    /// Where it is counted what a distributed store is asked under it, if anywhere.
    asked: OnceLock<Arc<Asked>>,
    /// Keeps the engine's registration alive.
    _registration: Box<dyn Any + Send + Sync>,
}

impl Snapshot {
    /// For engines: a view at `ts`, registered for as long as `registration` lives.
    pub fn new(ts: Ts, own: TxnId, registration: Box<dyn Any + Send + Sync>) -> Snapshot {
        Snapshot {
            ts,
            own,
            newest_seen: AtomicU64::new(0),
            beside: AtomicU64::new(0),
            reads: OnceLock::new(),
            asked: OnceLock::new(),
            _registration: registration,
        }
    }

    /// For engines: moves it to the present, as nobody reads under it.
    pub fn renew(&mut self, ts: Ts) {
        self.ts = ts;
        *self.beside.get_mut() = 0;
    }

    /// Where the timeline of the engine beside stands for it; `find` is asked once.
    pub fn beside(&self, find: impl FnOnce() -> Ts) -> Ts {
        match self.beside.load(Ordering::Acquire) {
            0 => {
                let found = find().0 + 1;
                let known =
                    self.beside.compare_exchange(0, found, Ordering::AcqRel, Ordering::Acquire);
                Ts(known.err().unwrap_or(found) - 1)
            }
            known => Ts(known - 1),
        }
    }

    /// Reads under it are noted from now on. Once.
    pub fn watch(&self, reads: Arc<Reads>) {
        assert!(self.reads.set(reads).is_ok(), "a snapshot is watched once");
    }

    /// Where whoever reads tables of users notes what it asks them for.
    pub fn reads(&self) -> Option<&Arc<Reads>> {
        self.reads.get()
    }

    /// From now on it is counted what a distributed store is asked under it.
    pub fn count_asked(&self) -> &Arc<Asked> {
        self.asked.get_or_init(Arc::default)
    }

    /// For engines: where that is counted.
    pub fn asked(&self) -> Option<&Arc<Asked>> {
        self.asked.get()
    }

    /// For engines: a version committed at `ts` was read.
    pub fn note_seen(&self, ts: Ts) {
        if ts.0 > self.newest_seen.load(Ordering::Relaxed) {
            self.newest_seen.fetch_max(ts.0, Ordering::Relaxed);
        }
    }

    /// The newest possibly undurable commit this snapshot's reads have met; `Ts(0)` for none.
    pub fn newest_seen(&self) -> Ts {
        Ts(self.newest_seen.load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Snapshot({} own {})", self.ts, self.own)
    }
}

/// Who has a read view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A transaction, or who goes on reading what it has read.
    Transaction(TxnId),
    /// Whoever reads at the side: the catalog, a migration.
    Side,
    /// Who keeps the past, see [`Engine::onward_snapshot`](crate::Engine::onward_snapshot).
    Past,
    /// A checkpoint that is being written.
    Checkpoint,
    /// Who reads rows that are kept.
    Kept,
    /// A keeper, see [`EngineTxn::keep`](crate::EngineTxn::keep).
    Keeper(u64),
}

/// A read view, or what is kept for a keeper.
#[derive(Clone, Debug)]
pub struct HeldBack {
    /// What it sees is kept, and for some whatever came later.
    pub ts: Ts,
    /// Whose it is.
    pub holder: Holder,
    /// How long it has been held, if that is known.
    pub age: Option<Duration>,
    /// Of which spaces; none: of all.
    pub spaces: Vec<SpaceId>,
}
