//! Indexes that are built while all gateways write: the states of F1 (Rae et al., "Online, Asynchronous Schema Change in
//! F1", VLDB 2013), of which the catalog sees the last alone.
//!
//! ```text
//!   builder   announce ─▶ delete-only ─ all follow ─▶ write-only ─ all follow ─▶ entries of all rows ─▶ F ─▶ public
//!                │ in one key of the store                                         `builder`            │ in the catalog,
//!                ▼ found                                                                                ▼ not in the list
//!   each      a commit takes along what its rows need of each build (`entries`)           until nobody writes under a
//!             and says which list all its commits under way keep to                       layout from before F
//! ```
//! A build belongs to the transaction of its schema change, and F is that one's commit. If it ends otherwise the build is
//! given up: when all follow that too, its entries are deleted, and then it is taken from the list. Its builder does so,
//! or the gateway that leads, if the builder's is gone.
//!
//! **[B1]** A commit is under way (`fences`) before it looks at the list. So a gateway that says it follows the list as
//! of v has no commit under way that has looked at an older one.
//! **[B2]** Who writes under delete-only meets others who know nothing of the build, or who write its entries, never
//! both: no entry is left of a row that is gone.
//! **[B3]** From write-only on who writes a row writes the key of the entry that it had and of that which it has, be it
//! the same. Who fills an entry in as of a timestamp meets him there: no row is locked for a build.
//! **[B4]** A key that no two rows may have is locked, and looked at, before it is written. If another row has it the
//! commit is done nevertheless, and marks the build, which fails: nobody is refused for an index that may never be.
//! **[B5]** A build that is gone from the list, and was not given up, is public. Whoever began before he knew takes its
//! entries along for as long as he lives.
//! **[B6]** A gateway that was gone may have missed a build from its beginning to its end. Who has written there before it
//! knows the catalog again does not commit.

mod builder;
mod entries;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use froglet_engine::{EngineError, IndexId, IndexSpec, Row, SpaceId, SqlState};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};

use super::fences::Fences;
use super::index::Index;
use super::txn::{CATALOG, Shared};
use super::{Core, keys, place};
use crate::client::{Client, StoreError};

pub(super) use builder::{OwnBuild, clean_up, give_up};
pub(super) use entries::take_along;

/// What is public is taken along for at least so long: a transaction may have its start and not be known yet.
const LEAST_KEPT: Duration = Duration::from_secs(10);
/// A commit waits so long until its gateway knows the catalog again.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Stage {
    DeleteOnly,
    WriteOnly,
    /// A key was taken twice: it will never be public.
    Violated,
    GivenUp,
}

/// A build, as the list says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Announced {
    /// The gateway that it is made at.
    owner: Vec<u8>,
    /// The start of its transaction.
    start_ts: u64,
    space: SpaceId,
    spec: IndexSpec,
    /// Of each of its columns.
    missing: Row,
    /// Where the rows are, and what is before their cells.
    rows: Vec<u8>,
    header: Vec<u8>,
    stage: Stage,
}

impl Announced {
    fn is(&self, start_ts: u64, space: SpaceId, index: IndexId) -> bool {
        (self.start_ts, self.space, self.spec.id) == (start_ts, space, index)
    }
}

fn parse(list: Option<&[u8]>) -> Result<Vec<Announced>, StoreError> {
    let Some(list) = list else { return Ok(Vec::new()) };
    serde_json::from_slice(list)
        .map_err(|error| StoreError::Protocol(format!("a list of builds: {error}")))
}

fn encode(list: &[Announced]) -> Option<Vec<u8>> {
    let bytes = || serde_json::to_vec(list).expect("it has only string keys");
    (!list.is_empty()).then(bytes)
}

/// A build, as commits take it along.
#[derive(Debug)]
struct Build {
    announced: Announced,
    index: Index,
}

impl Build {
    fn of(database: u32, announced: Announced) -> Build {
        let Announced { space, spec, missing, .. } = &announced;
        let index = Index::new(database, *space, spec.clone(), missing.clone(), usize::MAX);
        Build { announced, index }
    }

    fn cells<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        place::cells(&self.announced.header, value)
    }

    /// Entries are written, and not only deleted.
    fn puts(&self) -> bool {
        self.announced.stage == Stage::WriteOnly
    }
}

/// A build that is public [B5].
struct Public {
    build: Arc<Build>,
    found: Instant,
    /// Whoever began before it may not know it.
    until_ts: Option<u64>,
}

#[derive(Default)]
struct Known {
    /// The list as of a timestamp.
    list: Option<Vec<u8>>,
    as_of: u64,
    builds: Vec<Arc<Build>>,
    public: Vec<Public>,
    /// Commits under way that may keep to an older list.
    draining: Option<Vec<u64>>,
    trust: Trust,
}

/// Whether this gateway's transactions know the catalog as it was when it was back [B6].
#[derive(Default)]
struct Trust {
    /// Whoever began before may not.
    from: u64,
    is_back: bool,
    /// It was back, and has read the catalog since.
    has_read: bool,
}

/// A gateway's part. See the module.
pub(super) struct Builds {
    client: Arc<Client>,
    database: u32,
    fences: Arc<Fences>,
    known: RwLock<Known>,
    /// All its commits keep to the list as of this timestamp, or to a later one.
    followed: AtomicU64,
    /// Builds that are given up for gateways that are gone.
    cleaning: Mutex<HashSet<(u64, IndexId)>>,
}

fn refused(state: SqlState, message: impl Into<String>) -> EngineError {
    EngineError::Refused { state, message: message.into() }
}

fn cut_off() -> EngineError {
    refused(
        SqlState::SERIALIZATION_FAILURE,
        "this server was cut off while others changed the schema: run the transaction again, from its start",
    )
}

impl Builds {
    pub fn new(client: Arc<Client>, database: u32, fences: Arc<Fences>) -> Builds {
        let (known, followed, cleaning) = Default::default();
        Builds { client, database, fences, known, followed, cleaning }
    }

    /// As of when this gateway follows the list [B1].
    pub fn followed(&self) -> u64 {
        self.followed.load(Ordering::SeqCst)
    }

    /// Looks at the list before this gateway may commit under a new lease; under the one before it cannot any more.
    pub async fn look_anew(&self, is_first: bool) -> Result<(), StoreError> {
        let as_of = self.client.timestamp().await?;
        let list = self.client.get(&keys::builds(self.database), as_of).await?;
        let mut known = self.known.write();
        known.trust.is_back |= !is_first;
        known.trust.has_read = false;
        self.set(&mut known, as_of, list)?;
        known.draining = None;
        self.followed.store(as_of, Ordering::SeqCst);
        Ok(())
    }

    /// The list was this as of a timestamp, and the catalog, which had changed or not, is known as of that, at least.
    /// Whether commits under way keep to an older list.
    pub fn follow(
        &self,
        core: &Core,
        as_of: u64,
        list: Option<Vec<u8>>,
        had_changed: bool,
    ) -> Result<bool, StoreError> {
        let mut known = self.known.write();
        if known.as_of < as_of {
            known.trust.looked(as_of, had_changed);
            self.set(&mut known, as_of, list)?;
        }
        if let Some(left) = &mut known.draining {
            left.retain(|start_ts| self.fences.is_under_way(*start_ts));
        }
        let has_drained = known.draining.take_if(|left| left.is_empty()).is_some();
        let is_draining = known.draining.is_some();
        if !is_draining {
            self.followed.fetch_max(known.as_of, Ordering::SeqCst);
        }
        known.forget(core);
        drop(known);
        if has_drained {
            core.gateways.speak();
        }
        Ok(is_draining)
    }

    fn set(&self, known: &mut Known, as_of: u64, list: Option<Vec<u8>>) -> Result<(), StoreError> {
        known.as_of = as_of;
        for public in &mut known.public {
            public.until_ts.get_or_insert(as_of);
        }
        if known.list == list {
            return Ok(());
        }
        let builds = parse(list.as_deref())?;
        let builds: Vec<Arc<Build>> =
            builds.into_iter().map(|build| Arc::new(Build::of(self.database, build))).collect();
        let before = std::mem::replace(&mut known.builds, builds);
        known.list = list;
        let all = before.iter().chain(&known.builds);
        let spaces: Vec<SpaceId> = all.map(|build| build.announced.space).collect();
        let is_there = |build: &Build| {
            let Announced { start_ts, space, spec, .. } = &build.announced;
            known.builds.iter().any(|other| other.announced.is(*start_ts, *space, spec.id))
        };
        for build in before {
            if !is_there(&build) && build.announced.stage <= Stage::WriteOnly {
                // [B5]
                let announced = Announced { stage: Stage::WriteOnly, ..build.announced.clone() };
                let build = Arc::new(Build::of(self.database, announced));
                known.public.push(Public { build, found: Instant::now(), until_ts: None });
            }
        }
        // [B1]: whoever enters from here on looks at it as it is now.
        known.draining = Some(self.fences.under_way_in(&spaces));
        Ok(())
    }

    /// What a transaction takes along that has written rows.
    async fn of(&self, shared: &Shared) -> Result<Vec<Arc<Build>>, EngineError> {
        let mut spaces = shared.buffer.lock().spaces();
        spaces.retain(|space| *space != CATALOG);
        if spaces.is_empty() {
            return Ok(Vec::new());
        }
        let until = Instant::now() + LONGEST_WAIT;
        loop {
            {
                let known = self.known.read();
                // [B6]
                match known.trust.is_back {
                    false if shared.writes.start_ts < known.trust.from => return Err(cut_off()),
                    true if Instant::now() >= until => return Err(cut_off()),
                    true => {}
                    false => return Ok(known.of(&spaces)),
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Trust {
    /// The catalog is known as of a timestamp.
    fn looked(&mut self, as_of: u64, had_changed: bool) {
        match (self.is_back, self.has_read, had_changed) {
            (false, ..) => {}
            (true, false, true) => self.has_read = true,
            // Whoever begins behind this, has what was read before.
            (true, true, _) => *self = Trust { from: as_of, ..Trust::default() },
            (true, false, false) => self.is_back = false,
        }
    }
}

impl Known {
    fn of(&self, spaces: &[SpaceId]) -> Vec<Arc<Build>> {
        let builds = self.builds.iter().filter(|build| build.announced.stage <= Stage::WriteOnly);
        let all = builds.chain(self.public.iter().map(|public| &public.build));
        all.filter(|build| spaces.contains(&build.announced.space)).cloned().collect()
    }

    /// Forgets what is public to all who may still write [B5].
    fn forget(&mut self, core: &Core) {
        let is_old = |public: &Public| public.found.elapsed() > LEAST_KEPT;
        if !self.public.iter().any(is_old) {
            return;
        }
        let starts: Vec<u64> =
            core.txns.read().values().map(|shared| shared.writes.start_ts).collect();
        self.public.retain(|public| {
            let may_not_know = |start: &u64| public.until_ts.is_none_or(|until| *start < until);
            !is_old(public) || starts.iter().any(may_not_know)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_back_when_the_catalog_was_read_and_a_timestamp_taken_behind_that() {
        let mut trust = Trust { is_back: true, ..Trust::default() };
        trust.looked(10, true);
        assert!(trust.is_back);
        trust.looked(20, false);
        assert!(!trust.is_back && trust.from == 20);
        // Nothing has changed while it was gone.
        trust.is_back = true;
        trust.looked(30, false);
        assert!(!trust.is_back && trust.from == 20);
    }
}
