//! A transaction's part: its view, what it has written, and its way into the store.
//!
//! ```text
//!   reserve_log   ─ wait ─▶ prewrite, commit timestamp ─▶ reserved
//!   pre_commit    that timestamp                                     retreat: rolled back
//!   post_commit   the primary is committed in the background; its number is waited for by whoever answers
//! ```

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use froglet_engine::{
    BuildOf, EngineError, EngineTxn, LogRoom, Lsn, RowId, Savepoint, Snapshot, SpaceId, SqlState,
    Table, Ts, TxnId,
};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::buffer::Buffer;
use super::builds::{self, OwnBuild};
use super::fences::{self, Claim, UnderWay};
use super::gateways::{State, silent};
use super::references::Patience;
use super::table::ClusterTable;
use super::{Core, failed, keys, place, references, refused, unsupported};
use crate::client::{Locking, Mutation, PendingCommit, StoreError, WriteSet};

/// A wait for a lock ends after so long, and whoever waits looks again.
const LONG_WAIT: Duration = Duration::from_secs(30);
/// The row space of the catalog.
pub(super) const CATALOG: SpaceId = SpaceId(0);
/// Before what is locked is deleted again.
const LOCKED_PAUSE: Duration = Duration::from_millis(10);
/// Keys that are deleted together.
const DELETED_AT_ONCE: usize = 2_048;

/// What others need of a transaction: its own reads, who waits for its lock.
pub(super) struct Shared {
    pub buffer: Arc<Mutex<Buffer>>,
    pub writes: Arc<WriteSet>,
    /// The lock that it has met.
    pub waiting: Mutex<Option<(Vec<Locking>, u64)>>,
    /// Spaces that it has written where fences would have stood in its way.
    pub fenced: Mutex<Vec<SpaceId>>,
}

impl Shared {
    /// Waits for the lock, and has it then, if nothing has changed.
    pub async fn wait(&self) -> Result<(), EngineError> {
        let Some((locks, ts)) = self.waiting.lock().take() else { return Ok(()) };
        match self.writes.lock(&locks, ts, LONG_WAIT).await {
            Ok(values) => {
                let mut buffer = self.buffer.lock();
                for (locking, value) in locks.into_iter().zip(values) {
                    buffer.hold(locking.key, value, ts);
                }
                Ok(())
            }
            Err(error) if error.is_silence() || matches!(error, StoreError::Deadlock) => {
                Err(failed(error))
            }
            // Whoever looks again is told.
            Err(_) => Ok(()),
        }
    }

    /// Locks keys as they are now, in the midst of a commit, and returns what there is of them.
    pub async fn lock_now(
        &self,
        core: &Core,
        keys: Vec<Vec<u8>>,
        patience: Duration,
    ) -> Result<HashMap<Vec<u8>, Vec<u8>>, StoreError> {
        let mut there = HashMap::new();
        let mut locks = Vec::new();
        {
            let buffer = self.buffer.lock();
            for key in keys {
                match buffer.held(&key) {
                    Some(value) => there.extend(value.clone().map(|value| (key, value))),
                    None => locks.push(Locking { key, is_new: false }),
                }
            }
        }
        if locks.is_empty() {
            return Ok(there);
        }
        let until = Instant::now() + patience;
        // Who is in the way may be gone: that is looked at before anybody is waited for.
        let mut wait = Duration::ZERO;
        let (ts, values) = loop {
            let ts = core.client.timestamp().await?;
            match self.writes.lock(&locks, ts, wait).await {
                Ok(values) => break (ts, values),
                Err(StoreError::Conflict { .. }) => {}
                Err(StoreError::Locked { .. }) if Instant::now() < until => {
                    wait = until.saturating_duration_since(Instant::now());
                }
                Err(error) => return Err(error),
            }
        };
        let mut buffer = self.buffer.lock();
        for (Locking { key, .. }, value) in locks.into_iter().zip(values) {
            buffer.hold(key.clone(), value.clone(), ts);
            there.extend(value.map(|value| (key, value)));
        }
        Ok(there)
    }
}

/// What is prewritten, and what lasts until it has ended.
struct Prewritten {
    pending: PendingCommit,
    under_way: UnderWay,
    claim: Option<Claim>,
}

enum Prewriting {
    Begun(Begun),
    Done(Prewritten),
}

/// A prewrite under way, on its own: whoever waits for it may be told to stop.
struct Begun {
    outcome: Arc<Mutex<Option<Result<Prewritten, EngineError>>>>,
    is_given_up: Arc<AtomicBool>,
    ended: watch::Receiver<bool>,
}

impl Begun {
    fn has_ended(&self) -> bool {
        *self.ended.borrow() || self.ended.has_changed().is_err()
    }

    fn wait(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.ended.clone();
        // One that panics ends, too.
        async move { _ = ended.wait_for(|ended| *ended).await }
    }
}

/// See the module. Dropped, it is rolled back.
pub(super) struct ClusterTxn {
    pub core: Arc<Core>,
    pub id: TxnId,
    pub shared: Arc<Shared>,
    /// Indexes that are built for it.
    pub builds: Vec<OwnBuild>,
    /// How many it has begun.
    builds_begun: u32,
    snapshot: Arc<Snapshot>,
    prewriting: Option<Prewriting>,
    /// In milliseconds; 0: none. What is under way looks at it, too.
    lock_timeout: Arc<AtomicU64>,
    charged_bytes: u64,
    has_ended: bool,
}

impl ClusterTxn {
    pub fn begin(core: &Arc<Core>, id: TxnId) -> ClusterTxn {
        let ts = core.now();
        let shared = Arc::new(Shared {
            buffer: Arc::default(),
            writes: Arc::new(WriteSet::new(Arc::clone(&core.client), ts)),
            waiting: Mutex::default(),
            fenced: Mutex::default(),
        });
        core.txns.write().insert(id, Arc::clone(&shared));
        ClusterTxn {
            core: Arc::clone(core),
            id,
            shared,
            builds: Vec::new(),
            builds_begun: 0,
            snapshot: core.snapshot_at(ts, id),
            prewriting: None,
            lock_timeout: Arc::default(),
            charged_bytes: 0,
            has_ended: false,
        }
    }

    /// Asks for the memory of a write.
    pub fn charge(&mut self, bytes: usize) -> Result<(), EngineError> {
        self.core.charge(bytes as u64)?;
        self.charged_bytes += bytes as u64;
        Ok(())
    }

    /// A number that no build of it has had.
    pub fn next_build(&mut self) -> u32 {
        self.builds_begun += 1;
        self.builds_begun
    }

    /// The number of the write that comes next; a savepoint from here on is one after it.
    pub fn next_write(&mut self) -> u32 {
        let mut buffer = self.shared.buffer.lock();
        let next = buffer.writes;
        buffer.moved();
        next
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        self.give_up(|_| true);
        self.core.txns.write().remove(&self.id);
        self.core.memory.fetch_sub(self.charged_bytes, Ordering::Relaxed);
        match self.prewriting.take() {
            Some(Prewriting::Done(done)) => {
                self.core.handle.spawn(done.pending.roll_back());
            }
            Some(Prewriting::Begun(begun)) => {
                begun.is_given_up.store(true, Ordering::SeqCst);
                let writes = Arc::clone(&self.shared.writes);
                self.core.handle.spawn(async move {
                    begun.wait().await;
                    let outcome = begun.outcome.lock().take();
                    match outcome {
                        Some(Ok(done)) => done.pending.roll_back().await,
                        // What it had locked before it prewrote.
                        Some(Err(_)) | None => writes.roll_back().await,
                    }
                });
            }
            None if self.shared.writes.holds_any() => {
                let writes = Arc::clone(&self.shared.writes);
                self.core.handle.spawn(async move { writes.roll_back().await });
            }
            None => {}
        }
    }

    /// Gives up some of its builds.
    fn give_up(&mut self, goes: impl Fn(&OwnBuild) -> bool) {
        for build in self.builds.extract_if(.., |build| goes(build)) {
            build.stop();
            self.core.handle.spawn(builds::give_up(Arc::clone(&self.core), build));
        }
    }

    fn begin_prewrite(&self, mutations: Vec<Mutation>) -> Begun {
        let (outcome, (end, ended)) = (Arc::<Mutex<_>>::default(), watch::channel(false));
        let is_given_up = Arc::<AtomicBool>::default();
        let begun =
            Begun { outcome: Arc::clone(&outcome), is_given_up: Arc::clone(&is_given_up), ended };
        let (core, shared) = (Arc::clone(&self.core), Arc::clone(&self.shared));
        let lock_timeout = Arc::clone(&self.lock_timeout);
        let change = Change {
            is_of_catalog: self.changes_catalog(),
            closes: self.closes(),
            builds: self.builds.clone(),
        };
        self.core.handle.spawn(async move {
            let held = Patience {
                is_given_up: &is_given_up,
                lock_timeout: &lock_timeout,
                is_short: change.is_of_catalog,
            };
            let prewritten = match references::hold_required(&core, &shared, held).await {
                Ok(()) => prewrite(&core, &shared, mutations, change, &is_given_up).await,
                Err(error) => Err(error),
            };
            *outcome.lock() = Some(prewritten);
            // Whoever was interested may have gone.
            _ = end.send(true);
        });
        begun
    }

    /// The spaces that it closes.
    fn closes(&self) -> Vec<SpaceId> {
        let marks = keys::closed(self.core.database);
        let written = self.shared.buffer.lock().range(&marks, &keys::end_of(&marks));
        let space = |key: &[u8]| Some(u32::from_be_bytes(key[marks.len()..].try_into().ok()?));
        written.iter().filter_map(|(key, _)| space(key)).map(SpaceId).collect()
    }

    fn changes_catalog(&self) -> bool {
        self.shared.buffer.lock().spaces().contains(&CATALOG) || !self.closes().is_empty()
    }
}

impl EngineTxn for ClusterTxn {
    fn id(&self) -> TxnId {
        self.id
    }

    fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    fn refresh(&mut self) {
        self.snapshot = self.core.snapshot_at(self.core.now(), self.id);
    }

    fn savepoint(&self) -> Savepoint {
        Savepoint(self.shared.buffer.lock().writes)
    }

    fn rollback_to(&mut self, to: Savepoint) {
        // Its locks stay: who waits for one goes on when the transaction ends.
        self.shared.buffer.lock().back_to(to.0);
        self.give_up(|build| build.since() >= to.0);
    }

    fn wrote(&self) -> bool {
        self.shared.buffer.lock().writes > 0
    }

    fn rows_written(&self, space: SpaceId) -> Vec<RowId> {
        self.shared.buffer.lock().rows(space)
    }

    fn has_touched(&self, table: &dyn Table) -> bool {
        let table: &ClusterTable = table.as_any().downcast_ref().expect("it is one of its engine");
        self.shared.buffer.lock().has_touched(&table.place.prefix)
    }

    fn spaces_written(&self) -> Vec<SpaceId> {
        self.shared.buffer.lock().spaces()
    }

    fn keep(&mut self, _keeper: u64, _spaces: &[SpaceId]) -> Result<(), EngineError> {
        Err(unsupported("keeping rows for a schema change"))
    }

    fn close(&mut self, spaces: &[SpaceId]) -> Result<(), EngineError> {
        assert!(!spaces.contains(&CATALOG), "who closes something says so in the catalog");
        let start_ts = self.shared.writes.start_ts.to_be_bytes();
        let mut buffer = self.shared.buffer.lock();
        for space in spaces {
            let mark = keys::closed_space(self.core.database, *space);
            buffer.put(mark, Some(start_ts.to_vec()));
        }
        buffer.writes += 1;
        Ok(())
    }

    fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        let ms = timeout.map_or(0, |timeout| timeout.as_millis().try_into().unwrap_or(u64::MAX));
        self.lock_timeout.store(ms, Ordering::SeqCst);
    }

    fn retain_builds(&mut self, is_kept: &dyn Fn(SpaceId, BuildOf) -> bool) {
        self.give_up(|build| !is_kept(build.space, build.of));
    }

    fn reserve_log(&mut self) -> Result<LogRoom, EngineError> {
        match self.prewriting.take() {
            None => {
                let mutations = self.shared.buffer.lock().mutations();
                if mutations.is_empty() {
                    return Ok(LogRoom::Reserved);
                }
                let begun = self.begin_prewrite(mutations);
                let wait = Box::pin(begun.wait());
                self.prewriting = Some(Prewriting::Begun(begun));
                Ok(LogRoom::Wait(wait))
            }
            Some(Prewriting::Begun(begun)) => {
                // In this order: it is there before it is told.
                let has_ended = begun.has_ended();
                let outcome = begun.outcome.lock().take();
                match outcome {
                    Some(Ok(done)) => {
                        self.prewriting = Some(Prewriting::Done(done));
                        Ok(LogRoom::Reserved)
                    }
                    Some(Err(error)) => Err(error),
                    None if has_ended => {
                        Err(refused(SqlState::INTERNAL_ERROR, "the commit has panicked"))
                    }
                    None => {
                        let wait = Box::pin(begun.wait());
                        self.prewriting = Some(Prewriting::Begun(begun));
                        Ok(LogRoom::Wait(wait))
                    }
                }
            }
            Some(done @ Prewriting::Done(_)) => {
                self.prewriting = Some(done);
                Ok(LogRoom::Reserved)
            }
        }
    }

    fn pre_commit(&mut self) -> Ts {
        match &self.prewriting {
            Some(Prewriting::Done(done)) => Ts(done.pending.commit_ts),
            _ => Ts(self.core.now()),
        }
    }

    fn retreat(&mut self) {
        // The locks of what was prewritten are gone with it; who holds rows could not go on.
        unreachable!("nobody retreats whose schema changes are told by leases");
    }

    fn post_commit(mut self: Box<Self>) -> Result<Lsn, EngineError> {
        let Some(Prewriting::Done(done)) = self.prewriting.take() else {
            let is_empty = self.shared.buffer.lock().mutations().is_empty();
            self.end();
            return match is_empty {
                true => Ok(self.core.commits.durable()),
                false => Err(EngineError::Refused {
                    state: SqlState::INTERNAL_ERROR,
                    message: "a commit was not reserved".to_owned(),
                }),
            };
        };
        let commit = self.core.commits.begin();
        let mark = self.changes_catalog().then_some(self.shared.writes.start_ts);
        let (core, number) = (Arc::clone(&self.core), commit.0);
        let builds = std::mem::take(&mut self.builds);
        let many_rows = self.shared.buffer.lock().many_rows();
        self.core.txns.write().remove(&self.id);
        self.core.memory.fetch_sub(self.charged_bytes, Ordering::Relaxed);
        self.has_ended = true;
        self.core.handle.spawn(async move {
            let Prewritten { pending, under_way, claim } = done;
            // [G1], wherever a reader has put it off to.
            let may = |ts| core.gateways.may_commit(under_way.lease, ts);
            let mut committed = pending.commit_if(may).await;
            drop((under_way, claim));
            if committed.is_ok() {
                many_rows.iter().for_each(|(space, rows)| core.counts.wrote(*space, *rows));
            }
            let has_built = !builds.is_empty();
            if committed.is_err() {
                // Those that are public, as far as the store knows, stay.
                for build in builds {
                    core.handle.spawn(builds::give_up(Arc::clone(&core), build));
                }
            }
            if let (Ok(ts), Some(mark)) = (&committed, mark) {
                // Whoever is told of it finds it everywhere.
                let (as_of, ts) = (*ts, *ts);
                committed = core.gateways.wait_for_others(State { as_of, mark }).await.map(|()| ts);
                if has_built && let Err(error) = core.all_follow(&AtomicBool::new(false)).await {
                    tracing::debug!(%error, "it is not known whether all know what was built");
                }
            }
            core.commits.end(Lsn(number), committed.map(drop).map_err(failed));
        });
        Ok(commit)
    }

    fn abort(mut self: Box<Self>) {
        self.end();
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

impl Drop for ClusterTxn {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a transaction changes of the schema.
struct Change {
    is_of_catalog: bool,
    closes: Vec<SpaceId>,
    builds: Vec<OwnBuild>,
}

/// Prewrites; a change of the catalog after everybody has the one before it [G2], and has closed what it closes.
async fn prewrite(
    core: &Arc<Core>,
    shared: &Shared,
    mut mutations: Vec<Mutation>,
    change: Change,
    is_given_up: &AtomicBool,
) -> Result<Prewritten, EngineError> {
    let Change { is_of_catalog, closes, builds } = change;
    let (writes, lease) = (&shared.writes, core.gateways.lease());
    let fenced = shared.fenced.lock().clone();
    let under_way = core.fences.enter(lease, writes.start_ts, fenced)?;
    let claim = match closes.is_empty() {
        true => None,
        false => Some(fences::claim(core, &under_way, closes, is_given_up).await?),
    };
    if is_of_catalog {
        core.gateways.wait_for_others(core.gateways.catalog()).await.map_err(failed)?;
        let (key, value) = (keys::catalog_mark(core.database), writes.start_ts.to_be_bytes());
        mutations.push(Mutation { key, value: Some(value.to_vec()) });
    }
    builds::take_along(core, shared, &builds, &mut mutations).await?;
    // The catalog is to have the timestamp that it is told: no reader puts its commit off.
    let pending = writes.prewrite(mutations, !is_of_catalog).await.map_err(failed)?;
    if lease == core.gateways.lease() && !core.gateways.reaches(pending.commit_ts) {
        // The placement driver was silent for a moment, and the lease may last: that is known with the next word.
        _ = core.gateways.reach(pending.commit_ts).await;
    }
    if !core.gateways.may_commit(lease, pending.commit_ts) {
        pending.roll_back().await;
        return Err(failed(silent()));
    }
    // What it has locked may have been given to others, and what they made of it collected.
    if let Err(error) = core.gateways.still_reads(writes.start_ts).await {
        pending.roll_back().await;
        return Err(failed(error));
    }
    Ok(Prewritten { pending, under_way, claim })
}

/// Deletes what there is of a space, but for the rows of others that are with its own.
pub(super) async fn delete_space(core: &Arc<Core>, space: SpaceId) -> Result<(), StoreError> {
    let (database, within) = (core.database, keys::within(core.database, space));
    let ts = core.client.timestamp().await?;
    let host = core.client.get(&within, ts).await?.and_then(|host| host.try_into().ok());
    if let Some(host) = host.map(u32::from_be_bytes) {
        let header = place::header(space);
        let is_own = |value: &[u8]| value.starts_with(&header);
        delete_range(core, &keys::rows(database, SpaceId(host)), is_own).await?;
    }
    let (all, rows) = (keys::space(database, space), keys::rows(database, space));
    delete_range(core, &rows, |value| !place::is_guest(value)).await?;
    // Rows are behind nothing else, and before what else there is.
    delete_between(core, &keys::end_of(&rows), &keys::end_of(&all), |_| true).await
}

/// Deletes what has a prefix, and a value that is wanted gone.
pub(super) async fn delete_range(
    core: &Arc<Core>,
    prefix: &[u8],
    goes: impl Fn(&[u8]) -> bool,
) -> Result<(), StoreError> {
    delete_between(core, prefix, &keys::end_of(prefix), goes).await
}

/// Deletes some at a time, again if somebody is faster.
async fn delete_between(
    core: &Arc<Core>,
    from: &[u8],
    end: &[u8],
    goes: impl Fn(&[u8]) -> bool,
) -> Result<(), StoreError> {
    let mut from = from.to_vec();
    loop {
        let ts = core.client.timestamp().await?;
        let limit = u32::try_from(DELETED_AT_ONCE).expect("a few thousand");
        let page = core.client.scan(&from, end, limit, ts).await?;
        let gone = page.pairs.into_iter().filter(|(_, value)| goes(value));
        let mutations: Vec<Mutation> = gone.map(|(key, _)| Mutation { key, value: None }).collect();
        if !mutations.is_empty() {
            let set = Arc::new(WriteSet::new(Arc::clone(&core.client), ts));
            match set.try_prewrite(mutations).await {
                Ok(pending) => _ = pending.commit().await?,
                Err(StoreError::Conflict { .. } | StoreError::Lost(_)) => continue,
                Err(StoreError::Locked { .. }) => {
                    tokio::time::sleep(LOCKED_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error),
            }
        }
        match page.next {
            Some(next) => from = next,
            None => return Ok(()),
        }
    }
}
