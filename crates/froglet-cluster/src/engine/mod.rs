//! The engine of a gateway: row spaces, views and transactions over the store.
//!
//! ```text
//!   begin     a timestamp of the oracle: the view, and the transaction's start
//!   read      the store as of the view, and over it what the transaction has written        view, table
//!   write     lock with the view's timestamp ▶ buffer                                         write, buffer
//!   reserve   prewrite, commit timestamp                                                      txn
//!   commit    the primary, behind the caller's back: whoever answers a client waits for it   commits
//! ```
//! Calls that have to wait for the store wait in their thread ([`Core::wait`]): whoever shares it goes on elsewhere.
//!
//! **[E1] A lock is had with the timestamp that the new value was derived at**, so a row that was changed since says so
//! ([`WriteStop::Changed`](froglet_engine::WriteStop)): no commit is lost, at any isolation level.
//! **[E2] What a view sees is committed and durable**: nobody waits for a log to answer a reader.
//! **[E3] Nothing of the database is here**: a gateway that dies leaves locks, which others give back when it has not
//! said for [`LOCK_TTL`](crate::client::LOCK_TTL) that it lives.
//!
//! What a schema change closes to all gateways, and how, is told in `fences`.
//!
//! How indexes are built of rows that are there is told in `builds`; what becomes of old versions of rows, in `history`.
//!
//! Left out so far, and refused by whoever is above: columns that are computed from rows that are there, foreign keys,
//! SERIALIZABLE.

mod buffer;
mod builds;
mod commits;
mod counts;
mod fences;
mod gateways;
mod history;
mod index;
mod intern;
mod keys;
mod moves;
mod place;
mod references;
mod table;
mod txn;
mod view;
mod write;

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use froglet_engine::{
    ColumnId, Elsewhere, Engine, EngineError, EngineFigures, EngineTxn, HeldBack, Home, IndexId,
    Layout, Lsn, ReadFailed, RowCheck, Snapshot, SpaceId, SqlState, Table, Ts, TxnId,
    UnknownChange,
};
use parking_lot::RwLock;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

use crate::client::{
    Client, HEARTBEAT, LONGEST_LOCK, Locking, Mutation, PendingCommit, StoreError, WriteSet, behind,
};
use crate::network::Network;
use builds::Builds;
use commits::Commits;
use counts::Counts;
use fences::{Fence, Fences};
use gateways::{Gateways, State};
pub use history::SHORTEST_HISTORY;
use intern::Interned;
use table::ClusterTable;
use txn::{ClusterTxn, Shared};
use view::View;

/// Marks the number of who waits for a lock of the store: it stands for whoever has that.
const ELSEWHERE: u64 = 1 << 62;

/// How often a gateway looks whether another has changed the catalog.
const CATALOG_LOOK: Duration = Duration::from_millis(60);
/// The same, where others wait for the end of what is under way.
const DRAINING_LOOK: Duration = Duration::from_millis(10);

/// How a gateway's engine is to be.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Which database of the store.
    pub database: String,
    /// How long the store may not answer before a statement fails.
    pub patience: Duration,
    /// Memory of what transactions write and queries gather.
    pub memory_limit_bytes: u64,
    /// So long the store keeps what nobody reads any more; [`SHORTEST_HISTORY`] where a store may be slow.
    pub history: Duration,
}

/// What a gateway looks at again and again: the state of the catalog, the fence that is in place, the list of builds, below
/// what nothing is read.
struct Look {
    state: State,
    fence: Option<Fence>,
    builds: Option<Vec<u8>>,
    floor: u64,
}

/// Transactions that have not ended.
type Txns = RwLock<HashMap<TxnId, Arc<Shared>>>;

/// See the module.
struct Core {
    client: Arc<Client>,
    handle: Handle,
    database: u32,
    interned: Arc<Interned>,
    gateways: Arc<Gateways>,
    fences: Arc<Fences>,
    builds: Arc<Builds>,
    txns: Arc<Txns>,
    commits: Arc<Commits>,
    counts: Counts,
    memory: AtomicU64,
    memory_limit: u64,
    /// Counts rows made in transactions of one start.
    made: AtomicU64,
}

/// A gateway's engine.
pub struct ClusterEngine {
    core: Arc<Core>,
    /// Whatever goes on behind the sessions' backs; taken when it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for ClusterEngine {
    fn drop(&mut self) {
        self.core.gateways.close();
        if let Some(runtime) = self.runtime.take() {
            // What it says of itself ends before its lease does. Who is about to give up an opening is not to be held up.
            match Handle::try_current() {
                Ok(_) => runtime.shutdown_background(),
                Err(_) => runtime.shutdown_timeout(Duration::from_millis(300)),
            }
        }
    }
}

/// What the engine above is told of the store's errors.
fn failed(error: StoreError) -> EngineError {
    let state = match &error {
        StoreError::Refused(error) => return error.clone(),
        StoreError::Unreachable(_) | StoreError::Unavailable(_) => SqlState::CONNECTION_FAILURE,
        StoreError::Locked { .. } => SqlState::LOCK_NOT_AVAILABLE,
        StoreError::Conflict { .. } | StoreError::Lost(_) => SqlState::SERIALIZATION_FAILURE,
        StoreError::Deadlock => SqlState::DEADLOCK_DETECTED,
        StoreError::Full(_) => SqlState::DISK_FULL,
        StoreError::Exists { .. } | StoreError::Protocol(_) => SqlState::INTERNAL_ERROR,
    };
    EngineError::Refused { state, message: error.to_string() }
}

fn refused(state: SqlState, message: impl Into<String>) -> EngineError {
    EngineError::Refused { state, message: message.into() }
}

fn or_unwind<T>(answer: Result<T, StoreError>) -> T {
    answer.unwrap_or_else(|error| ReadFailed::unwind(failed(error)))
}

fn unsupported(what: &str) -> EngineError {
    let message = format!("{what} is not supported for tables in a cluster");
    refused(SqlState::FEATURE_NOT_SUPPORTED, message)
}

impl Core {
    /// Does something that waits, in this thread: whoever shares it goes on elsewhere.
    fn aside<T>(work: impl FnOnce() -> T) -> T {
        match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
            _ => work(),
        }
    }

    /// Waits in this thread.
    fn wait<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
        match flavor {
            Ok(RuntimeFlavor::MultiThread) | Err(_) => Core::aside(|| self.handle.block_on(future)),
            // The one thread of a runtime waits for nothing but its own tasks.
            Ok(_) => std::thread::scope(|scope| {
                let waiting = scope.spawn(|| self.handle.block_on(future));
                waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }),
        }
    }

    fn snapshot_at(&self, ts: u64, own: TxnId) -> Arc<Snapshot> {
        let registration = self.interned.register(Ts(ts));
        Arc::new(Snapshot::new(Ts(ts), own, Box::new(registration)))
    }

    fn now(&self) -> u64 {
        or_unwind(self.wait(self.client.timestamp()))
    }

    fn view(&self, snapshot: &Snapshot) -> View<'_> {
        let own = match snapshot.own {
            TxnId(0) => None,
            own => self.txns.read().get(&own).map(|shared| Arc::clone(&shared.buffer)),
        };
        View {
            core: self,
            ts: snapshot.ts.0,
            own,
            asked: snapshot.asked().cloned(),
            may_lack: false,
        }
    }

    fn charge(&self, bytes: u64) -> Result<(), EngineError> {
        let used_bytes = self.memory.fetch_add(bytes, Ordering::Relaxed);
        if used_bytes + bytes <= self.memory_limit {
            return Ok(());
        }
        self.memory.fetch_sub(bytes, Ordering::Relaxed);
        let (limit_bytes, asked_bytes) = (self.memory_limit, bytes);
        Err(EngineError::MemoryLimit { limit_bytes, used_bytes, asked_bytes })
    }

    /// What there is to follow.
    async fn look(&self) -> Result<Look, StoreError> {
        let as_of = self.client.timestamp().await?;
        let (mark_at, fence_at) = (keys::catalog_mark(self.database), keys::fence(self.database));
        let (builds_at, floor_at) = (keys::builds(self.database), keys::floor(self.database));
        let all = vec![mark_at.clone(), fence_at.clone(), builds_at.clone(), floor_at];
        let (mut mark, mut fence, mut builds, mut floor) = (0, None, None, 0);
        for (key, value) in self.client.get_all(all, as_of).await? {
            match key {
                key if key == mark_at => mark = value.try_into().map_or(0, u64::from_be_bytes),
                key if key == fence_at => fence = Some(Fence::of(&value)?),
                key if key == builds_at => builds = Some(value),
                _ => floor = history::floor_of(&value),
            }
        }
        Ok(Look { state: State { as_of, mark }, fence, builds, floor })
    }

    /// A key for a row of a table without a primary key: nobody else makes it.
    fn new_row_key(&self, start_ts: u64) -> Vec<u8> {
        let n = self.made.fetch_add(1, Ordering::Relaxed);
        let n = u32::try_from(n & u64::from(u32::MAX)).expect("masked");
        [start_ts.to_be_bytes().as_slice(), &n.to_be_bytes()].concat()
    }

    /// Commits what is prewritten, if that is within a lease [G1]; whether it was.
    async fn commit_under(&self, lease: u64, pending: PendingCommit) -> Result<bool, StoreError> {
        let may = |ts| self.gateways.may_commit(lease, ts);
        if !may(pending.commit_ts) {
            pending.roll_back().await;
            return Ok(false);
        }
        pending.commit_if(may).await.map(|_| true)
    }

    /// Reads some keys, and writes what `change` makes of them, in one transaction, again if another was faster.
    async fn change<T>(
        self: &Arc<Core>,
        key: Vec<u8>,
        mut change: impl FnMut(Option<Vec<u8>>) -> (Option<Option<Vec<u8>>>, T),
    ) -> Result<T, StoreError> {
        loop {
            let ts = self.client.timestamp().await?;
            let set = Arc::new(WriteSet::brief(Arc::clone(&self.client), ts));
            let locking = [Locking { key: key.clone(), is_new: false }];
            let now = match set.lock(&locking, ts, LONGEST_LOCK).await {
                Ok(mut values) => values.pop().expect("one was asked for"),
                Err(StoreError::Conflict { .. } | StoreError::Lost(_)) => continue,
                Err(error) => return Err(error),
            };
            let (value, told) = change(now);
            let Some(value) = value else {
                set.roll_back().await;
                return Ok(told);
            };
            let mutations = vec![Mutation { key: key.clone(), value }];
            let committed = match set.prewrite(mutations, false).await {
                Ok(pending) => pending.commit().await,
                Err(error) => Err(error),
            };
            match committed {
                Ok(_) => return Ok(told),
                // It is rolled back.
                Err(StoreError::Conflict { .. } | StoreError::Lost(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl ClusterEngine {
    /// Opens a database of the store, and makes it if there is none of the name. It waits, in this thread.
    pub fn open(
        network: Arc<dyn Network>,
        options: ClusterOptions,
    ) -> Result<Arc<ClusterEngine>, EngineError> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("froglet-cluster").enable_all();
        let runtime = builder.build().map_err(|error| EngineError::Unusable {
            what: "threads for the cluster".to_owned(),
            source: Arc::new(error),
        })?;
        let (handle, history) = (runtime.handle().clone(), options.history);
        let core = handle.block_on(ClusterEngine::find(handle.clone(), network, options))?;
        handle.block_on(core.gateways.join()).map_err(failed)?;
        handle.spawn(behind(say_who_lives(Arc::downgrade(&core))));
        handle.spawn(behind(Arc::clone(&core.gateways).keep_saying()));
        handle.spawn(behind(history::keep_moving(Arc::downgrade(&core), history)));
        Ok(Arc::new(ClusterEngine { core, runtime: Some(runtime) }))
    }

    async fn find(
        handle: Handle,
        network: Arc<dyn Network>,
        options: ClusterOptions,
    ) -> Result<Arc<Core>, EngineError> {
        let client = Client::new(network, options.patience);
        let interned = Arc::<Interned>::default();
        let history = options.history;
        let core = |database| {
            let fences = Arc::new(Fences::new(Arc::clone(&client), database));
            let builds = Builds::new(Arc::clone(&client), database, Arc::clone(&fences));
            let builds = Arc::new(builds);
            let (interned, txns) = (Arc::clone(&interned), Arc::<Txns>::default());
            let needs = (Arc::clone(&interned), Arc::clone(&txns));
            let known = (Arc::clone(&fences), Arc::clone(&builds));
            let gateways = Gateways::new(database, history, needs, known.0, known.1);
            Core {
                client: Arc::clone(&client),
                handle: handle.clone(),
                database,
                interned,
                gateways: Arc::new(gateways),
                fences,
                builds,
                txns,
                commits: Arc::default(),
                counts: Counts::default(),
                memory: AtomicU64::new(0),
                memory_limit: options.memory_limit_bytes,
                made: AtomicU64::new(0),
            }
        };
        let names = Arc::new(core(0));
        let name = [&keys::notes(0)[..], b"name", options.database.as_bytes()].concat();
        let next = [&keys::notes(0)[..], b"next"].concat();
        let found = client.timestamp().await.map_err(failed)?;
        let database = match client.get(&name, found).await.map_err(failed)? {
            Some(id) => number(&id),
            None => {
                let mine = names.change(next, count).await.map_err(failed)?;
                let claim = |now: Option<Vec<u8>>| match now {
                    Some(id) => (None, number(&id)),
                    None => (Some(Some(mine.to_be_bytes().to_vec())), mine),
                };
                names.change(name, claim).await.map_err(failed)?
            }
        };
        Ok(Arc::new(core(database)))
    }

    /// Calls back, in a thread of its own, whenever the catalog may have been changed: what is answered is the timestamp
    /// that the catalog is as of then.
    pub fn follow_catalog(&self, refresh: impl Fn() -> Option<Ts> + Send + Sync + 'static) {
        let (core, refresh) = (Arc::downgrade(&self.core), Arc::new(refresh));
        self.core.handle.spawn(behind(async move {
            while let Some(core) = core.upgrade() {
                let mut pause = CATALOG_LOOK;
                if let Ok(Look { state, fence, builds, floor }) = core.look().await {
                    core.gateways.raise_floor(floor);
                    let known = core.gateways.catalog();
                    let mut is_known = known.as_of > 0 && known.mark == state.mark;
                    if is_known {
                        core.gateways.set_catalog(state);
                    } else {
                        // What is read is as of later, and may have more changes: they are found as such again.
                        let refresh = Arc::clone(&refresh);
                        let refreshed = tokio::task::spawn_blocking(move || refresh()).await;
                        if let Ok(Some(ts)) = refreshed {
                            core.gateways.set_catalog(State { as_of: ts.0, ..state });
                            is_known = true;
                        }
                    }
                    if is_known {
                        match core.builds.follow(&core, state, builds) {
                            Ok(true) => pause = DRAINING_LOOK,
                            Ok(false) => {}
                            Err(error) => {
                                tracing::warn!(%error, "this server cannot follow how indexes are built");
                            }
                        }
                        builds::clean_up(&core).await;
                        // Whoever has waited for a fence finds the catalog behind it.
                        if let Err(error) = core.follow_fence(state.as_of, fence).await {
                            tracing::debug!(%error, "a fence is looked at again");
                        }
                    }
                }
                drop(core);
                tokio::time::sleep(pause).await;
            }
        }));
    }

    /// How conditions are made that are verified at other gateways, once.
    pub fn make_checks_with(
        &self,
        make: impl Fn(&str) -> Result<Arc<dyn RowCheck>, EngineError> + Send + Sync + 'static,
    ) {
        let is_new = self.core.builds.make_check.set(Box::new(make)).is_ok();
        assert!(is_new, "said once");
    }

    /// Where work goes on behind the sessions' backs.
    pub fn handle(&self) -> &Handle {
        &self.core.handle
    }

    /// The client.
    pub fn client(&self) -> &Arc<Client> {
        &self.core.client
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_be_bytes)
}

fn count(now: Option<Vec<u8>>) -> (Option<Option<Vec<u8>>>, u32) {
    let next = now.map_or(1, |bytes| number(&bytes) + 1);
    (Some(Some(next.to_be_bytes().to_vec())), next)
}

/// Says again and again of each transaction with locks that it lives.
async fn say_who_lives(core: Weak<Core>) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        let Some(core) = core.upgrade() else { return };
        let sets: Vec<Arc<WriteSet>> =
            core.txns.read().values().map(|shared| Arc::clone(&shared.writes)).collect();
        for set in sets.into_iter().filter(|set| set.holds_any()) {
            // One that is not answered keeps no other waiting.
            tokio::spawn(async move {
                if let Err(error) = set.heartbeat().await {
                    tracing::debug!(%error, start_ts = set.start_ts, "a transaction could not say that it lives");
                }
            });
        }
    }
}

#[async_trait]
impl Engine for ClusterEngine {
    fn name(&self) -> &'static str {
        Home::Cluster.name()
    }

    fn homes(&self) -> &[Home] {
        &[Home::Cluster]
    }

    fn create_space(&self, _space: SpaceId) -> Result<(), EngineError> {
        // It is where its keys are.
        Ok(())
    }

    fn drop_space(&self, space: SpaceId) {
        self.core.counts.forget(space);
        let core = Arc::clone(&self.core);
        self.core.handle.spawn(async move {
            if let Err(error) = txn::delete_space(&core, space).await {
                tracing::warn!(%error, %space, "rows of a dropped table are left");
            }
        });
    }

    fn spaces(&self) -> Vec<SpaceId> {
        // What the catalog names is there, and nothing else: another gateway may be about to name it.
        Vec::new()
    }

    fn open(&self, space: SpaceId, layout: Arc<Layout>) -> Result<Arc<dyn Table>, EngineError> {
        Ok(Arc::new(ClusterTable::new(Arc::clone(&self.core), space, layout)))
    }

    fn open_closed(
        &self,
        space: SpaceId,
        layout: Arc<Layout>,
    ) -> Result<Arc<dyn Table>, EngineError> {
        let table = ClusterTable::new(Arc::clone(&self.core), space, layout);
        Ok(Arc::new(table.past_fences()))
    }

    fn drop_column(&self, _space: SpaceId, _column: ColumnId) {
        // Whoever writes a row again leaves it out.
    }

    fn drop_index(&self, space: SpaceId, index: IndexId) {
        let prefix = keys::index(self.core.database, space, index);
        let core = Arc::clone(&self.core);
        self.core.handle.spawn(async move {
            if let Err(error) = txn::delete_range(&core, &prefix, |_| true).await {
                tracing::warn!(%error, %index, "entries of a dropped index are left");
            }
        });
    }

    fn begin(&self, id: TxnId) -> Box<dyn EngineTxn> {
        Box::new(ClusterTxn::begin(&self.core, id))
    }

    fn snapshot_for(&self, _holder: TxnId) -> Arc<Snapshot> {
        self.core.snapshot_at(self.core.now(), TxnId(0))
    }

    fn onward_snapshot(&self) -> Arc<Snapshot> {
        self.core.snapshot_at(self.core.now(), TxnId(0))
    }

    fn held_back(&self) -> Vec<HeldBack> {
        Vec::new()
    }

    fn fresh(&self, own: TxnId) -> Arc<Snapshot> {
        self.core.snapshot_at(self.core.now(), own)
    }

    fn now(&self) -> Ts {
        Ts(self.core.now())
    }

    fn oldest_snapshot(&self) -> Ts {
        let own = self.core.interned.oldest().unwrap_or_else(|| Ts(self.core.now()));
        Ts(self.core.gateways.oldest(own.0))
    }

    fn kept(&self, _keeper: u64) -> Option<Arc<Snapshot>> {
        None
    }

    fn keepers(&self) -> Vec<u64> {
        Vec::new()
    }

    fn release(&self, _keeper: u64) -> Result<(), EngineError> {
        Ok(())
    }

    fn settle(&self) {}

    fn barrier(&self) -> Ts {
        Ts(self.core.now())
    }

    fn durable(&self) -> Lsn {
        self.core.commits.durable()
    }

    fn appended(&self) -> Lsn {
        self.core.commits.appended()
    }

    fn durable_ts(&self) -> Ts {
        // [E2]
        Ts::LATEST
    }

    fn make_durable(&self, lsn: Lsn) -> Result<bool, EngineError> {
        Ok(self.core.commits.durable() >= lsn)
    }

    fn when_durable(&self, lsn: Lsn, done: Box<dyn FnOnce(Result<(), EngineError>) + Send>) {
        self.core.commits.when_durable(lsn, done);
    }

    fn wait_elsewhere(&self, holder: TxnId) -> Option<Elsewhere> {
        let waiter = TxnId(holder.0.checked_sub(ELSEWHERE)?);
        let shared = Arc::clone(self.core.txns.read().get(&waiter)?);
        Some(Box::pin(async move { shared.wait().await }))
    }

    fn unknown_change(&self, ts: Ts) -> Option<UnknownChange> {
        let fence = self.core.fences.closed_before(ts.0)?;
        let core = Arc::clone(&self.core);
        Some(Box::pin(async move { core.fences.wait_known(fence, ts.0).await }))
    }

    fn put_note(&self, key: u64, value: &[u8]) -> Result<Lsn, EngineError> {
        self.change_note(key, &mut |_| value.to_vec())?;
        Ok(Lsn(0))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn place_within(&self, space: SpaceId, other: SpaceId) -> Result<(), EngineError> {
        let at = keys::within(self.core.database, space);
        let value = other.0.to_be_bytes().to_vec();
        let placed = self.core.change(at, move |_| (Some(Some(value.clone())), ()));
        self.core.wait(placed).map_err(failed)
    }

    fn leads(&self) -> bool {
        self.core.gateways.leads()
    }

    fn change_note(
        &self,
        key: u64,
        change: &mut (dyn FnMut(Option<&[u8]>) -> Vec<u8> + Send),
    ) -> Result<(), EngineError> {
        let at = [&keys::notes(self.core.database)[..], &key.to_be_bytes()].concat();
        let changed = self.core.change(at, |now| {
            let now = now.as_deref().and_then(|value| value.strip_prefix(&[1]));
            let next = change(now);
            let value = (!next.is_empty()).then(|| [&[1], &next[..]].concat());
            (Some(value), ())
        });
        self.core.wait(changed).map_err(failed)
    }

    fn notes(&self) -> Vec<(u64, Vec<u8>)> {
        let prefix = keys::notes(self.core.database);
        let view = View::at(&self.core, self.core.now());
        let mut notes = Vec::new();
        let read = view.scan(&prefix, &keys::end_of(&prefix), |pairs| {
            for (key, value) in pairs {
                let key = key[prefix.len()..].try_into().map(u64::from_be_bytes);
                if let (Ok(key), Some(note)) = (key, value.strip_prefix(&[1])) {
                    notes.push((key, note.to_vec()));
                }
            }
            Ok(std::ops::ControlFlow::Continue(()))
        });
        read.unwrap_or_else(|error| ReadFailed::unwind(error));
        notes
    }

    fn checkpoint(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn figures(&self) -> Vec<EngineFigures> {
        let counters = &self.core.client.counters;
        let (requests, round_trips) = (&counters.requests, &counters.round_trips);
        vec![EngineFigures {
            home: Home::Cluster,
            memory_bytes: self.core.memory.load(Ordering::Relaxed),
            requests: Some(requests.load(Ordering::Relaxed)),
            round_trips: Some(round_trips.load(Ordering::Relaxed)),
            ..EngineFigures::default()
        }]
    }

    fn memory(&self) -> (u64, u64) {
        (self.core.memory.load(Ordering::Relaxed), self.core.memory_limit)
    }

    fn borrow_memory(&self, bytes: u64) -> Result<(), EngineError> {
        self.core.charge(bytes)
    }

    fn borrow_memory_anyway(&self, bytes: u64) {
        self.core.memory.fetch_add(bytes, Ordering::Relaxed);
    }

    fn return_memory(&self, bytes: u64) {
        self.core.memory.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
