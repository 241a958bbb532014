//! One gateway's client of the stores: reads at a timestamp, and Percolator's commits with locks that are taken early.
//!
//! ```text
//!   regions   where keys are, as far as is known; a region that answers otherwise is asked for again
//!   read      values and ranges at a timestamp ──┐
//!   write     lock ▶ prewrite ▶ commit primary   ├─▶ locks   of others: what became of who left them
//!                                └▶ secondaries  ┘
//! ```
//! What TiKV's own Rust client does not show decides here: when the commit timestamp is known, and what is locked with
//! which timestamp (`docs/notes/2026-11-29-a-client-of-our-own.md`).
//!
//! **[T1]** Every request may be sent twice: whoever is asked again what he has done says so.
//! **[T2]** A lock is resolved only by what its primary says.

mod locks;
mod read;
mod regions;
mod write;

pub(crate) use locks::{LOGICAL_BITS, physical_ms};
pub use read::Page;
pub use write::{HEARTBEAT, LOCK_TTL, LONGEST_LOCK, Locking, Mutation, PendingCommit, WriteSet};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use froglet_engine::{Asked, EngineError};
use rand::Rng;

use crate::network::{Network, Unreachable};
use crate::wire::kv;
use regions::Regions;

/// Why the store has not done what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Nobody answered for too long.
    #[error("{0}")]
    Unreachable(#[from] Unreachable),
    /// A region did not answer for too long, for this reason.
    #[error("a region of the store is not available: {0}")]
    Unavailable(String),
    /// Somebody else holds a key, and does not let go.
    #[error("a key is locked by the transaction that began at {holder}")]
    Locked {
        /// His start timestamp.
        holder: u64,
        /// Which key.
        key: Vec<u8>,
    },
    /// Somebody has committed a key since.
    #[error("a key was committed at {commit_ts}")]
    Conflict {
        /// Which key.
        key: Vec<u8>,
        /// When.
        commit_ts: u64,
    },
    /// A key that was to be new is there.
    #[error("a key exists")]
    Exists {
        /// Which key.
        key: Vec<u8>,
    },
    /// Who waits for a lock would wait for himself.
    #[error("deadlock detected")]
    Deadlock,
    /// The transaction took too long to say that it lives: others have rolled it back.
    #[error("the store has given the transaction up: {0}")]
    Lost(String),
    /// A store has no space left.
    #[error("a store is full: {0}")]
    Full(String),
    /// Not the store, but who was asked about what is there, says no.
    #[error("{0}")]
    Refused(EngineError),
    /// An answer that makes no sense.
    #[error("the store answers what it should not: {0}")]
    Protocol(String),
}

impl StoreError {
    /// Whether nobody has answered, for as long as that is waited for.
    pub fn is_silence(&self) -> bool {
        matches!(self, StoreError::Unreachable(_) | StoreError::Unavailable(_))
    }
}

tokio::task_local! {
    /// What is done in it, nobody waits for.
    static BEHIND: ();

    /// What is asked in it is counted here, too.
    static ASKED: Arc<Asked>;
}

/// Does something under a view that counts what is asked.
pub fn counted<F: Future>(asked: Arc<Asked>, work: F) -> impl Future<Output = F::Output> {
    ASKED.scope(asked, work)
}

/// Does something that no statement waits for: it is not counted.
pub fn behind<F: Future>(work: F) -> impl Future<Output = F::Output> {
    BEHIND.scope((), work)
}

/// What was asked of the network, since the start, by whoever was waited for.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests of stores.
    pub requests: AtomicU64,
    /// Waits for their answers, one for those that are sent together, and for timestamps.
    pub round_trips: AtomicU64,
}

impl Counters {
    fn add_request(&self, region: u64) {
        if BEHIND.try_with(|()| ()).is_err() {
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        // As a rule nobody has asked for it.
        let _ = ASKED.try_with(|asked| asked.add_request(region));
    }

    fn add_round_trip(&self) {
        if BEHIND.try_with(|()| ()).is_err() {
            self.round_trips.fetch_add(1, Ordering::Relaxed);
        }
        let _ = ASKED.try_with(|asked| asked.add_round_trip());
    }
}

/// See the module.
pub struct Client {
    network: Arc<dyn Network>,
    regions: Regions,
    /// How long the store may not answer before whoever asks is told.
    patience: Duration,
    /// What was asked.
    pub counters: Counters,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl Client {
    /// Over a network.
    pub fn new(network: Arc<dyn Network>, patience: Duration) -> Arc<Client> {
        Arc::new(Client {
            network,
            regions: Regions::default(),
            patience,
            counters: Counters::default(),
        })
    }

    /// The network.
    pub fn network(&self) -> &Arc<dyn Network> {
        &self.network
    }

    /// A timestamp above all that were given before.
    pub async fn timestamp(&self) -> Result<u64, StoreError> {
        let mut pause = self.pause();
        loop {
            self.counters.add_round_trip();
            match self.network.timestamps(1).await {
                Ok(ts) => return Ok(ts),
                Err(error) => pause.after(error.into()).await?,
            }
        }
    }

    /// How long the store may not answer before whoever asks is told.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    fn pause(&self) -> Pause {
        Pause { until: Instant::now() + self.patience, next: FIRST_PAUSE }
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(300);

/// Waits longer and longer between attempts, and not for ever.
struct Pause {
    until: Instant,
    next: Duration,
}

impl Pause {
    /// Before the next attempt; the error, if there is no time for one.
    async fn after(&mut self, error: StoreError) -> Result<(), StoreError> {
        self.after_at_most(error, LONGEST_PAUSE).await
    }

    /// The same, of what should not take longer than this.
    async fn after_at_most(
        &mut self,
        error: StoreError,
        longest: Duration,
    ) -> Result<(), StoreError> {
        let jitter = rand::rng().random_range(0.5..1.0);
        let pause = self.next.min(longest).mul_f64(jitter);
        if Instant::now() + pause >= self.until {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

/// What an error of a key means, where it is not a lock.
fn of_key_error(error: kv::KeyError) -> StoreError {
    if let Some(lock) = error.locked {
        return StoreError::Locked { holder: lock.lock_version, key: lock.key };
    }
    if let Some(conflict) = error.conflict {
        return StoreError::Conflict { key: conflict.key, commit_ts: conflict.conflict_commit_ts };
    }
    if let Some(exists) = error.already_exist {
        return StoreError::Exists { key: exists.key };
    }
    if error.deadlock.is_some() {
        return StoreError::Deadlock;
    }
    if error.txn_not_found.is_some() {
        return StoreError::Lost("it is not known".to_owned());
    }
    match (error.retryable.is_empty(), error.abort.is_empty()) {
        (false, _) => StoreError::Lost(error.retryable),
        (true, false) => StoreError::Lost(error.abort),
        (true, true) => StoreError::Protocol("an error of a key without a reason".to_owned()),
    }
}
