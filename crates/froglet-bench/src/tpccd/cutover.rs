//! Clients that go on with a new schema: when, and what happens to what they had begun.
//!
//! ```text
//!   old ── transaction ── 42P01: the old tables are gone ── new statements ── the same once more ──▶
//!       └─ transaction ── 40001: refused at the flip ────── the same once more ────────────────────▶
//! ```
//!
//! An application does not know when the change commits. It is told afterwards, or it finds out.
//! Both are retries, counted by SQLSTATE; so is a deadlock (40P01), which any client must expect.
//! All of the retries are in a transaction's latency.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::statements::Version;
use super::workload::Session;

/// A transaction that is refused so often has failed.
const RETRIES: u32 = 20;

/// What a client begins again after. The last: of statements sent together, that after the one that
/// was refused may be heard of first; why, it finds out the next time.
const AGAIN: [SqlState; 3] = [
    SqlState::T_R_SERIALIZATION_FAILURE,
    SqlState::T_R_DEADLOCK_DETECTED,
    SqlState::IN_FAILED_SQL_TRANSACTION,
];

/// What clients know of a change.
#[derive(Debug)]
pub struct Cutover {
    /// What they are told to use.
    told: Mutex<Version>,
    /// What they use when they find their tables gone, or have been told.
    new: Version,
    committing: OnceLock<Instant>,
    /// The first answer to a transaction on the new schema.
    answered: OnceLock<Instant>,
    retries: Mutex<BTreeMap<String, u64>>,
}

impl Cutover {
    /// From the specification's schema to another.
    pub fn to(new: Version) -> Cutover {
        Cutover {
            told: Mutex::new(Version::TPCC),
            new,
            committing: OnceLock::new(),
            answered: OnceLock::new(),
            retries: Mutex::default(),
        }
    }

    /// From their next transaction on clients use this.
    pub fn tell(&self, version: Version) {
        *self.told.lock() = version;
    }

    /// The change is about to be committed.
    pub fn commit_begins(&self) {
        // Only the first counts: there is one flip.
        let _ = self.committing.set(Instant::now());
    }

    /// From COMMIT to the first answer on the new schema.
    pub fn first_answer(&self) -> Option<Duration> {
        Some(self.answered.get()?.saturating_duration_since(*self.committing.get()?))
    }

    /// How often transactions were begun again, by SQLSTATE.
    pub fn retries(&self) -> BTreeMap<String, u64> {
        self.retries.lock().clone()
    }

    /// One transaction, with all its retries.
    pub async fn transaction(&self, session: &mut Session) -> Result<(), Error> {
        let mut version = *self.told.lock();
        let mut ended = match session.follow(version).await {
            Ok(()) => session.transaction().await,
            Err(e) => Err(e),
        };
        for _ in 0..RETRIES {
            let Err(e) = &ended else { break };
            let Some(state) = e.code() else { break };
            if *state == SqlState::UNDEFINED_TABLE {
                version = self.new;
            } else if AGAIN.contains(state) {
                // What the clients are told may have changed meanwhile.
                version = if version == self.new { version } else { *self.told.lock() };
            } else {
                break;
            }
            *self.retries.lock().entry(state.code().to_owned()).or_insert(0) += 1;
            ended = match session.follow(version).await {
                Ok(()) => session.again().await,
                Err(e) => Err(e),
            };
        }
        if ended.is_ok() && version == self.new && self.committing.get().is_some() {
            self.answered.get_or_init(Instant::now);
        }
        ended
    }
}
