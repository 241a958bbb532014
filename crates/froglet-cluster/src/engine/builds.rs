//! Indexes that are built, and conditions that are verified, while all gateways write: the states of F1 (Rae et al.,
//! "Online, Asynchronous Schema Change in F1", VLDB 2013), of which the catalog sees the last alone.
//!
//! ```text
//!   builder   announce ─▶ delete-only ─ all follow ─▶ write-only ─ all follow ─▶ entries of all rows ─▶ F ─▶ public
//!                │ in one key of the store                                         `builder`            │ in the catalog,
//!                ▼ found                                                                                ▼ not in the list
//!   each      a commit takes along what its rows need of each build (`entries`)           until nobody writes under a
//!             and says which list all its commits under way keep to                       layout from before F
//! ```
//! A condition is verified as an index is built: there is nothing to delete, so it begins with write-only, where each
//! commit looks at its rows; then all rows are looked at. So is a foreign key, of which commits of both tables look at theirs.
//!
//! A build belongs to the transaction of its schema change, and F is that one's commit. If it ends otherwise the build is
//! given up: when all follow that too, its entries are deleted, and then it is taken from the list. Its builder does so,
//! or the gateway that leads, if the builder's is gone.
//!
//! **[B1]** A commit is under way (`fences`) before it looks at the list. So a gateway that says it follows the list as
//! of v has no commit under way that has looked at an older one.
//! **[B2]** At a time all commits are under two stages at most, one behind the other. Who writes entries meets nobody
//! who does not delete them: no entry is left of a row that is gone.
//! **[B3]** From write-only on who writes a row writes the key of the entry that it had and of that which it has, be it
//! the same. Who fills an entry in as of a timestamp meets him there: no row is locked for a build.
//! **[B4]** A key that no two rows may have is locked, and looked at, before it is written. If another row has it the
//! commit is done nevertheless, and marks the build, which fails: nobody is refused for an index that may never be.
//! **[B5]** A build that is gone from the list, and was not seen given up by who has followed it under one lease, is
//! public. A transaction that began before its gateway had the catalog with it takes its entries along to the end.
//! **[B6]** A gateway that has lost its lease may have missed a build from its beginning to its end. If the catalog has
//! changed meanwhile, a transaction that has written any table commits only if it began after that was read.
//! **[B7]** Who follows the list has the catalog with what is public: whoever begins there from then on knows it. A schema
//! change is answered when all follow.

mod builder;
mod entries;
mod foreign_keys;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use froglet_engine::{
    BuildOf, ColumnId, EngineError, IndexSpec, Row, RowCheck, SpaceId, SqlState, Value,
};
use froglet_log::cells::Wanted;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};
use tokio::sync::OnceCell;

use super::fences::Fences;
use super::gateways::State;
use super::index::Index;
use super::txn::{CATALOG, Shared};
use super::{Core, keys, place, refused};
use crate::client::{Client, StoreError};

pub(super) use builder::{OwnBuild, clean_up, give_up};
pub(super) use entries::take_along;
use foreign_keys::ForeignKey;

/// What is public is taken along for at least so long: a transaction may have its start and not be known yet.
const LEAST_KEPT: Duration = Duration::from_secs(10);
/// A commit waits so long until its gateway knows the catalog again.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(10);
/// What is followed after a change is said so often: whoever waits for it may have a timestamp behind the first look.
const SAID_AFTER: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Stage {
    DeleteOnly,
    WriteOnly,
    /// A key was taken twice: it will never be public.
    Violated,
    GivenUp,
}

/// Which build: the start of its transaction, and its number there. One that is given up keeps it.
type Name = (u64, u32);

/// A build, as the list says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Announced {
    /// The gateway that it is made at.
    owner: Vec<u8>,
    name: Name,
    space: SpaceId,
    of: BuildOf,
    /// Where the rows are, and what is before their cells.
    rows: Vec<u8>,
    header: Vec<u8>,
    what: What,
    stage: Stage,
}

/// What is built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum What {
    Index {
        spec: IndexSpec,
        /// Of each of its columns.
        missing: Row,
    },
    Check {
        /// Those that it reads, each with its missing value.
        columns: Vec<(ColumnId, Value)>,
        /// See [`OnlineCheck`](froglet_engine::OnlineCheck).
        recipe: Option<String>,
    },
    ForeignKey(ForeignKey),
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
struct Build {
    announced: Announced,
    work: Work,
    is_public: bool,
}

enum Work {
    Index(Index),
    Check { columns: Wanted, check: OnceCell<Arc<dyn RowCheck>> },
    ForeignKey(ForeignKey),
}

/// Makes a condition of its recipe.
pub(super) type MakeCheck =
    Box<dyn Fn(&str) -> Result<Arc<dyn RowCheck>, EngineError> + Send + Sync>;

impl Build {
    fn of(database: u32, announced: Announced, is_public: bool) -> Build {
        let work = match &announced.what {
            What::Index { spec, missing } => {
                let (spec, missing) = (spec.clone(), missing.clone());
                Work::Index(Index::new(database, announced.space, spec, missing, usize::MAX))
            }
            What::Check { columns, .. } => {
                let columns = Wanted::new(columns.iter().cloned());
                Work::Check { columns, check: OnceCell::new() }
            }
            What::ForeignKey(key) => Work::ForeignKey(key.clone()),
        };
        Build { announced, work, is_public }
    }

    /// The spaces that it concerns.
    fn spaces(&self) -> SmallVec<[SpaceId; 2]> {
        match &self.work {
            Work::Index(_) | Work::Check { .. } => smallvec![self.announced.space],
            Work::ForeignKey(key) => SmallVec::from(key.spaces()),
        }
    }

    /// It is to hold for what is written meanwhile.
    fn is_verified(&self) -> bool {
        !matches!(&self.work, Work::ForeignKey(key) if !key.is_verified)
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
    /// The catalog that has it was read.
    is_read: bool,
    /// Whoever began before it, which was taken behind that, may not know it.
    until_ts: Option<u64>,
}

impl Public {
    fn may_not_know(&self, start_ts: u64) -> bool {
        self.until_ts.is_none_or(|until| start_ts < until)
    }
}

struct Known {
    /// The list as of a timestamp.
    list: Option<Vec<u8>>,
    as_of: u64,
    builds: Vec<Arc<Build>>,
    public: Vec<Public>,
    /// Commits under way that may keep to an older list.
    draining: Option<Vec<u64>>,
    trust: Trust,
    /// The mark of the catalog that this gateway has said it has, under a lease that it had.
    said: u64,
    /// How often it speaks of what it follows, after a change.
    to_say: u8,
}

/// What has become of a build that is not in the list any more, and that this gateway has not seen given up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// It has been followed all along [B5].
    Public,
    /// It has not. If it is public nevertheless, the catalog has changed [B6].
    GivenUp,
}

/// Whether this gateway's transactions know every change of the catalog that may concern what they have written [B6].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// Those that began from then on.
    Since(u64),
    /// A lease was lost, and there is a new one; before it was lost, those did that began from then on; none: nobody.
    LeaseLost { since: Option<u64> },
    /// The catalog has been read since.
    CatalogRead,
}

impl Trust {
    /// The catalog, whose last change was `mark`, is known as of a timestamp; others knew that this gateway knew it as
    /// of `said`, while it had its lease.
    fn looked(self, as_of: u64, mark: u64, said: u64) -> Trust {
        match self {
            Trust::Since(since) => Trust::Since(since),
            Trust::LeaseLost { since: Some(since) } if mark == said => Trust::Since(since),
            Trust::LeaseLost { .. } => Trust::CatalogRead,
            // Whoever begins behind this has what was read before.
            Trust::CatalogRead => Trust::Since(as_of),
        }
    }

    fn lose(self) -> Trust {
        match self {
            Trust::Since(since) => Trust::LeaseLost { since: Some(since) },
            Trust::LeaseLost { since } => Trust::LeaseLost { since },
            Trust::CatalogRead => Trust::LeaseLost { since: None },
        }
    }
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
    cleaning: Mutex<HashSet<Name>>,
    pub make_check: OnceLock<MakeCheck>,
}

fn cut_off() -> EngineError {
    refused(
        SqlState::SERIALIZATION_FAILURE,
        "this server was cut off while others changed the schema: run the transaction again, from its start",
    )
}

impl Builds {
    pub fn new(client: Arc<Client>, database: u32, fences: Arc<Fences>) -> Builds {
        let (followed, cleaning, make_check) = Default::default();
        let known = RwLock::new(Known {
            list: None,
            as_of: 0,
            builds: Vec::new(),
            public: Vec::new(),
            draining: None,
            trust: Trust::Since(0),
            said: 0,
            to_say: 0,
        });
        Builds { client, database, fences, known, followed, cleaning, make_check }
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
        if !is_first {
            known.trust = known.trust.lose();
        }
        if known.as_of < as_of {
            self.set(&mut known, as_of, list, Gone::GivenUp)?;
            known.draining = None;
            self.followed.fetch_max(as_of, Ordering::SeqCst);
        }
        Ok(())
    }

    /// It was said, under a lease that lasted, which change of the catalog was the last that this gateway knows.
    pub fn said(&self, mark: u64) {
        let mut known = self.known.write();
        if let Trust::Since(_) = known.trust {
            known.said = mark;
        }
    }

    /// The list was this as of a timestamp, as of which at least the catalog is known, whose last change was `mark` then.
    /// Whether commits under way keep to an older list, or transactions that begin may not know what is public.
    pub fn follow(
        &self,
        core: &Core,
        State { as_of, mark }: State,
        list: Option<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        if !core.gateways.reaches(as_of) {
            // Others go on without this gateway, and what is gone may have been given up: it looks anew.
            return Ok(false);
        }
        let mut known = self.known.write();
        if known.as_of < as_of {
            for public in known.public.iter_mut().filter(|public| public.is_read) {
                public.until_ts.get_or_insert(as_of);
            }
            self.set(&mut known, as_of, list, Gone::Public)?;
            known.public.iter_mut().for_each(|public| public.is_read = true);
            known.trust = known.trust.looked(as_of, mark, known.said);
        }
        if let Some(left) = &mut known.draining {
            left.retain(|start_ts| self.fences.is_under_way(*start_ts));
        }
        if known.draining.take_if(|left| left.is_empty()).is_some() {
            known.to_say = SAID_AFTER;
        }
        // [B7]
        let is_draining =
            known.draining.is_some() || known.public.iter().any(|public| public.until_ts.is_none());
        if !is_draining {
            self.followed.fetch_max(known.as_of, Ordering::SeqCst);
            if known.to_say > 0 {
                known.to_say -= 1;
                core.gateways.speak();
            }
        }
        known.forget(core);
        Ok(is_draining)
    }

    fn set(
        &self,
        known: &mut Known,
        as_of: u64,
        list: Option<Vec<u8>>,
        gone: Gone,
    ) -> Result<(), StoreError> {
        let is_new = known.list != list;
        let builds = if is_new { parse(list.as_deref())? } else { Vec::new() };
        known.as_of = as_of;
        if !is_new {
            return Ok(());
        }
        let build = |announced| Arc::new(Build::of(self.database, announced, false));
        let builds: Vec<Arc<Build>> = builds.into_iter().map(build).collect();
        let before = std::mem::replace(&mut known.builds, builds);
        known.list = list;
        let all = before.iter().chain(&known.builds);
        let spaces: Vec<SpaceId> = all.flat_map(|build| build.spaces()).collect();
        let is_there = |build: &Build| {
            known.builds.iter().any(|other| other.announced.name == build.announced.name)
        };
        for build in before {
            let is_public = gone == Gone::Public && build.announced.stage <= Stage::WriteOnly;
            if is_public && !is_there(&build) {
                // [B5]
                let announced = Announced { stage: Stage::WriteOnly, ..build.announced.clone() };
                let build = Arc::new(Build::of(self.database, announced, true));
                let (found, is_read, until_ts) = (Instant::now(), false, None);
                known.public.push(Public { build, found, is_read, until_ts });
            }
        }
        // [B1]: whoever enters from here on looks at it as it is now.
        known.draining = Some(self.fences.under_way_in(&spaces));
        Ok(())
    }

    /// What a transaction takes along that has written rows.
    async fn of(&self, shared: &Shared) -> Result<Vec<Arc<Build>>, EngineError> {
        if self.known.read().is_idle(shared.writes.start_ts) {
            return Ok(Vec::new());
        }
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
                match known.trust {
                    Trust::Since(since) if shared.writes.start_ts < since => return Err(cut_off()),
                    Trust::Since(_) => return Ok(known.of(&spaces, shared.writes.start_ts)),
                    _ if Instant::now() >= until => return Err(cut_off()),
                    _ => {}
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Known {
    /// As a rule: whatever a transaction has written that began then, there is nothing to take along.
    fn is_idle(&self, start_ts: u64) -> bool {
        let is_trusted = matches!(self.trust, Trust::Since(since) if since <= start_ts);
        is_trusted && self.builds.is_empty() && self.public.is_empty()
    }

    /// What a transaction that began then takes along.
    fn of(&self, spaces: &[SpaceId], start_ts: u64) -> Vec<Arc<Build>> {
        let builds = self.builds.iter().filter(|build| build.announced.stage <= Stage::WriteOnly);
        let public = self.public.iter().filter(|public| public.may_not_know(start_ts));
        let all = builds.chain(public.map(|public| &public.build));
        let concerns =
            |build: &&Arc<Build>| build.spaces().iter().any(|space| spaces.contains(space));
        let mut all: Vec<_> = all.filter(concerns).cloned().collect();
        // All lock in one order; who looks for children has the entries of their parents by then.
        all.sort_unstable_by_key(|build| {
            (matches!(build.work, Work::ForeignKey(_)), build.announced.name)
        });
        all
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
            !is_old(public) || starts.iter().any(|start_ts| public.may_not_know(*start_ts))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_back_when_the_catalog_was_read_and_a_timestamp_taken_behind_that() {
        let trust = Trust::Since(5).lose();
        // Nothing has changed while it was gone.
        assert_eq!(trust.looked(10, 3, 3), Trust::Since(5));
        // It has, whoever has read it first.
        let read = trust.looked(10, 4, 3);
        assert_eq!(read, Trust::CatalogRead);
        assert_eq!(read.looked(20, 4, 3), Trust::Since(20));
        // Lost again in between: nobody who began so far is trusted, whatever is found.
        assert_eq!(read.lose().looked(30, 3, 3), Trust::CatalogRead);
    }
}
