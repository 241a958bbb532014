//! The memory engine: spaces, transactions, log, collector behind the [`Engine`] trait.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use crossbeam_epoch as epoch;
use froglet_engine::crossing::{Anchor, AnchorTxn, Halves};
use froglet_engine::env::{Env, RealEnv};
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    BlockCounts, ColumnId, Dictionary, Engine, EngineError, EngineFigures, EngineTxn, HeldBack,
    Holder, IndexId, IndexSpec, Layout, Lsn, Snapshot, SpaceId, Table, Ts, TxnId,
};

use crate::clock::{Registered, Timeline, holder};
use crate::collector::Garbage;
use crate::column::Wanted;
use crate::index::OrderedIndex;
use crate::keepers::Keepers;
use crate::keys::{Index, SideFile, Stripes};
use crate::lock_file::DataDirLock;
use crate::manifest::Manifest;
use crate::memory::Budget;
use crate::reclaim;
use crate::recovery::RecoveryTimes;
use crate::space::Space;
use crate::table::{MemoryTable, wanted};
use crate::transform::{Cooling, FreezeOptions};
use crate::txn::MemoryTxn;
use crate::undo::Pool;
use froglet_log::redo;
use froglet_log::{Log, LogOptions};

/// How an engine is opened.
pub struct MemoryOptions {
    /// Where log and checkpoints are; none: nothing is kept.
    pub data_dir: Option<PathBuf>,
    /// Time, randomness and files.
    pub env: Arc<dyn Env>,
    /// Past this many bytes, writes fail.
    pub memory_limit_bytes: u64,
    /// Writes to these spaces fail a quarter above it.
    pub catalog_spaces: &'static [SpaceId],
    /// How the log behaves.
    pub log: LogOptions,
    /// Whether a thread collects garbage. Without, [`MemoryEngine::collect_garbage`] does.
    pub collector_thread: bool,
    /// When blocks are frozen.
    pub freeze: FreezeOptions,
    /// What old views and pins hold back is pruned when it has grown to so many bytes; 0: in every pass.
    pub prune_bytes_min: usize,
    /// A checkpoint saves the entries of an index that has so many.
    pub index_rows_min: u64,
    /// Called before the log is opened.
    pub agree: Option<Agree>,
}

/// Makes the log agree with another one (`froglet_log::halves`). It is given where the replay begins, and the
/// newest half in the checkpoint; the data directory is locked.
pub type Agree = Box<dyn FnOnce(Lsn, u64) -> Result<(), EngineError> + Send>;

impl Default for MemoryOptions {
    fn default() -> MemoryOptions {
        MemoryOptions {
            data_dir: None,
            env: Arc::new(RealEnv::new()),
            memory_limit_bytes: 8 << 30,
            catalog_spaces: &[],
            log: LogOptions::default(),
            collector_thread: true,
            freeze: FreezeOptions::default(),
            prune_bytes_min: 8 << 20,
            index_rows_min: 2 * ROWS_PER_BLOCK as u64,
            agree: None,
        }
    }
}

/// What everything on an engine shares.
pub(crate) struct Core {
    pub timeline: Arc<Timeline>,
    pub budget: Arc<Budget>,
    /// That of the catalog, and its spaces.
    pub catalog_budget: Arc<Budget>,
    pub catalog_spaces: &'static [SpaceId],
    pub pool: Arc<Pool>,
    pub stripes: Stripes,
    pub spaces: RwLock<BTreeMap<SpaceId, Arc<Space>>>,
    pub garbage: Garbage,
    pub cooling: Cooling,
    pub keepers: Keepers,
    pub log: Option<Log>,
    pub notes: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// The newest half of a transaction over two engines that recovery has found; see [`Anchor`].
    pub recovered_half: AtomicU64,
    /// Who knows newer ones.
    pub halves: OnceLock<Weak<dyn Halves>>,
    /// The data directory and its lock.
    pub disk: Option<Disk>,
    pub recovery: RecoveryTimes,
}

/// Where an engine with a log keeps its files.
pub(crate) struct Disk {
    pub dir: PathBuf,
    pub env: Arc<dyn Env>,
    pub _lock: DataDirLock,
    /// What the last checkpoint wrote; held while the next one runs.
    pub manifest: Mutex<Manifest>,
    /// As in the options.
    pub index_rows_min: u64,
}

impl Disk {
    /// Where checkpoints are.
    pub fn checkpoint_dir(&self) -> PathBuf {
        self.dir.join("checkpoint")
    }
}

impl Core {
    /// A space that is not there yet.
    pub fn new_space(&self, id: SpaceId) -> Arc<Space> {
        let budget = match self.catalog_spaces.contains(&id) {
            true => &self.catalog_budget,
            false => &self.budget,
        };
        Arc::new(Space::new(id, Arc::clone(budget)))
    }

    /// Appends a short record, without waiting for room: sessions do so on their loops.
    pub fn log_record(&self, record: &[u8]) -> Result<Lsn, EngineError> {
        match &self.log {
            Some(log) => log.append_now(&[record]).map_err(EngineError::from),
            None => Ok(Lsn(0)),
        }
    }

    /// Appends one that may be long, when there is room.
    pub fn log_long_record(&self, record: &[u8]) -> Result<Lsn, EngineError> {
        match &self.log {
            Some(log) => log.append(&[record]).map_err(EngineError::from),
            None => Ok(Lsn(0)),
        }
    }

    /// A registered view of what is committed now, and of what `own` writes.
    pub fn fresh(&self, own: TxnId) -> Snapshot {
        let (registered, ts) = Registered::new(&self.timeline, own.0);
        Snapshot::new(Ts(ts), own, Box::new(registered))
    }

    /// Who knows the halves of transactions over two engines.
    pub fn halves(&self) -> Option<Arc<dyn Halves>> {
        self.halves.get()?.upgrade()
    }

    pub fn space(&self, space: SpaceId) -> Result<Arc<Space>, EngineError> {
        self.spaces.read().get(&space).cloned().ok_or(EngineError::NoSpace(space))
    }
}

/// Tables in memory, as Arrow, with multi-version concurrency control.
pub struct MemoryEngine {
    pub(crate) core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for MemoryEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "MemoryEngine(at {} with {} spaces)",
            self.core.timeline.now(),
            self.core.spaces.read().len()
        )
    }
}

impl MemoryEngine {
    /// Opens an engine, recovering what its data directory holds.
    pub fn open(options: MemoryOptions) -> Result<Arc<MemoryEngine>, EngineError> {
        let (collects, freezers) = (options.collector_thread, options.freeze.threads);
        let core = Arc::new(crate::recovery::open(options)?);
        core.touch_all();
        let engine = Arc::new(MemoryEngine { core, threads: Mutex::default() });
        if collects {
            engine.start_thread("froglet-collector", Core::run_collector)?;
        }
        for _ in 0..freezers {
            engine.start_thread("froglet-freezer", Core::run_transformer)?;
        }
        Ok(engine)
    }

    /// The database that the log belongs to, if there is a log.
    pub fn database_id(&self) -> Option<u128> {
        self.core.log.as_ref().map(Log::database_id)
    }

    /// How long each part of the recovery took.
    pub fn recovery_times(&self) -> RecoveryTimes {
        self.core.recovery
    }

    fn start_thread(&self, name: &'static str, run: fn(&Core)) -> Result<(), EngineError> {
        let core = Arc::clone(&self.core);
        // What it had in its hands when it panicked is neither linked nor free: nobody can go on from there. And without
        // it memory only grows, until nobody writes any more. A start from the log is right, and soon done.
        let work = move || {
            let end = std::panic::catch_unwind(AssertUnwindSafe(|| run(&core)));
            if end.is_err() {
                eprintln!(
                    "the thread {name} has panicked: this process ends, and is to be started again"
                );
                std::process::abort();
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let thread = thread.map_err(|error| EngineError::Unusable {
            what: format!("the thread {name} cannot be started"),
            source: Arc::new(error),
        })?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// A transaction, without a trait object.
    pub fn begin_txn(&self, id: TxnId) -> MemoryTxn {
        MemoryTxn::begin(&self.core, id)
    }

    /// A space under a layout, without a trait object.
    pub fn open_table(
        &self,
        space: SpaceId,
        layout: Arc<Layout>,
    ) -> Result<MemoryTable, EngineError> {
        let space = self.core.space(space)?;
        self.declare(&space, &layout)?;
        let columns = wanted(&layout);
        let make = |spec: &IndexSpec| {
            let find = |part: &froglet_engine::KeyPart| -> Wanted {
                let column = columns.iter().find(|c| c.id == part.column);
                column.expect("a layout has the columns of its indexes").clone()
            };
            Index {
                spec: spec.clone(),
                parts: spec.key.iter().map(find).collect(),
                tree: OrderedIndex::on(&self.core.budget),
                side_file: SideFile::default(),
            }
        };
        let indexes =
            layout.indexes.iter().map(|spec| space.make_index(spec.id, || make(spec))).collect();
        Ok(MemoryTable::new(Arc::clone(&self.core), space, layout, indexes))
    }

    /// Declares the columns of a layout that the space has not met.
    fn declare(&self, space: &Space, layout: &Layout) -> Result<(), EngineError> {
        let known = space.columns();
        let is_new = |id: ColumnId| known.binary_search_by_key(&id, |c| c.id).is_err();
        let fresh: Vec<_> = layout.columns.iter().filter(|c| is_new(c.id)).cloned().collect();
        if fresh.is_empty() {
            return Ok(());
        }
        // Logged before any row that uses them can be; twice does no harm. A checkpoint that has the record
        // behind it has passed this latch, and so has the columns.
        let _declaring = space.installing.read();
        let declared = self.core.log_record(&redo::declare(space.id, &fresh))?;
        declared.waits_for_nothing("the commit of a row that uses a column is logged behind it");
        space.declare(&fresh);
        Ok(())
    }

    /// Freezes blocks that nobody has written to for long enough; returns how many.
    pub fn freeze_cold(&self) -> usize {
        self.core.freeze_cold()
    }

    /// Changes after how long that is; never: never.
    pub fn set_freeze_after(&self, after: Option<Duration>) {
        self.core.cooling.set_after(after);
    }

    /// Changes how many blocks are compacted together.
    pub fn set_group_blocks(&self, blocks: usize) {
        self.core.cooling.set_group_blocks(blocks);
    }

    /// Collects what nobody needs; returns how many transactions were cleaned up after.
    pub fn collect_garbage(&self) -> usize {
        let done = self.core.collect(usize::MAX, true);
        reclaim::advance();
        self.core.pool.clear();
        done
    }
}

impl Drop for MemoryEngine {
    fn drop(&mut self) {
        self.core.stop_collector();
        self.core.cooling.stop();
        for thread in self.threads.lock().drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Anchor for MemoryEngine {
    fn begin_anchor(&self, id: TxnId) -> Box<dyn AnchorTxn> {
        Box::new(self.begin_txn(id))
    }

    fn newest_half(&self) -> u64 {
        self.core.recovered_half.load(Ordering::SeqCst)
    }

    fn views(&self) -> (Vec<Ts>, Ts) {
        let views = self.core.timeline.views();
        (views.at.into_iter().map(Ts).collect(), Ts(views.bound))
    }

    fn set_halves(&self, halves: Weak<dyn Halves>) {
        assert!(self.core.halves.set(halves).is_ok(), "an engine is joined once");
    }

    fn reserve_memory(&self, bytes: u64) -> Result<(), EngineError> {
        self.core.budget.reserve_beside(bytes)
    }

    fn reserve_memory_anyway(&self, bytes: u64) {
        self.core.budget.reserve_beside_anyway(bytes);
    }
}

impl Engine for MemoryEngine {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn create_space(&self, space: SpaceId) -> Result<(), EngineError> {
        let mut spaces = self.core.spaces.write();
        if spaces.contains_key(&space) {
            return Ok(());
        }
        let made = self.core.log_record(&redo::create_space(space))?;
        made.waits_for_nothing(
            "the catalog's commit, which makes a table of it, is logged behind it",
        );
        spaces.insert(space, self.core.new_space(space));
        Ok(())
    }

    fn drop_space(&self, space: SpaceId) {
        let dropped = self.core.spaces.write().remove(&space);
        if dropped.is_some() {
            // A log that has failed fails the next commit; this record alone is not worth more.
            if let Ok(dropped) = self.core.log_record(&redo::drop_space(space)) {
                dropped.waits_for_nothing(
                    "what nobody sees any more may come back, and is dropped again",
                );
            }
        }
    }

    fn spaces(&self) -> Vec<SpaceId> {
        self.core.spaces.read().keys().copied().collect()
    }

    fn open(&self, space: SpaceId, layout: Arc<Layout>) -> Result<Arc<dyn Table>, EngineError> {
        Ok(Arc::new(self.open_table(space, layout)?))
    }

    fn drop_column(&self, space: SpaceId, column: ColumnId) {
        let Ok(space) = self.core.space(space) else { return };
        // First here, so that no checkpoint has the record behind it and the column still; and as in
        // `drop_space`.
        space.drop_column(column, &epoch::pin());
        if let Ok(dropped) = self.core.log_record(&redo::drop_column(space.id, column)) {
            dropped
                .waits_for_nothing("what nobody sees any more may come back, and is dropped again");
        }
    }

    fn drop_index(&self, space: SpaceId, index: IndexId) {
        if let Ok(space) = self.core.space(space) {
            space.drop_index(index);
        }
    }

    fn begin(&self, id: TxnId) -> Box<dyn EngineTxn> {
        Box::new(self.begin_txn(id))
    }

    fn snapshot_for(&self, holder: TxnId) -> Arc<Snapshot> {
        let (registered, ts) = Registered::new(&self.core.timeline, holder.0);
        Arc::new(Snapshot::new(Ts(ts), TxnId(0), Box::new(registered)))
    }

    fn onward_snapshot(&self) -> Arc<Snapshot> {
        let (registered, ts) = Registered::onward(&self.core.timeline, holder::PAST);
        Arc::new(Snapshot::new(Ts(ts), TxnId(0), Box::new(registered)))
    }

    fn fresh(&self, own: TxnId) -> Arc<Snapshot> {
        Arc::new(self.core.fresh(own))
    }

    fn now(&self) -> Ts {
        Ts(self.core.timeline.now())
    }

    fn oldest_snapshot(&self) -> Ts {
        Ts(self.core.timeline.oldest())
    }

    fn held_back(&self) -> Vec<HeldBack> {
        let now_ns = self.core.cooling.now_ns();
        let views = self.core.timeline.registrations().into_iter().map(|view| HeldBack {
            ts: Ts(view.ts),
            holder: match view.holder {
                holder::SIDE => Holder::Side,
                holder::PAST => Holder::Past,
                holder::CHECKPOINT => Holder::Checkpoint,
                holder::KEPT => Holder::Kept,
                id => Holder::Transaction(TxnId(id)),
            },
            age: Some(Duration::from_nanos(now_ns.saturating_sub(view.since_ns))),
            spaces: Vec::new(),
        });
        let keepers = self.core.keepers.lock();
        let pins = keepers.iter().map(|(keeper, state)| HeldBack {
            ts: Ts(state.pin().ts),
            holder: Holder::Keeper(*keeper),
            age: None,
            spaces: state.pin().spaces.iter().map(|space| space.id).collect(),
        });
        views.chain(pins).collect()
    }

    fn kept(&self, keeper: u64) -> Option<Arc<Snapshot>> {
        self.core.keepers.view(keeper, &self.core.timeline).map(Arc::new)
    }

    fn keepers(&self) -> Vec<u64> {
        let keepers = self.core.keepers.lock();
        keepers.iter().filter(|(_, keeper)| keeper.kept().is_some()).map(|(n, _)| *n).collect()
    }

    fn release(&self, keeper: u64) -> Result<(), EngineError> {
        let mut keepers = self.core.keepers.lock();
        // What is only announced is its transaction's.
        if keepers.get(&keeper).is_none_or(|keeper| keeper.kept().is_none()) {
            return Ok(());
        }
        let released = self.core.log_record(&redo::keeper(keeper, 0, &[]))?;
        released
            .waits_for_nothing("a crash may leave a keeper as it was, and it is released again");
        keepers.remove(&keeper);
        Ok(())
    }

    fn settle(&self) {
        self.core.timeline.settle();
    }

    fn barrier(&self) -> Ts {
        Ts(self.core.timeline.tick())
    }

    fn durable(&self) -> Lsn {
        self.core.log.as_ref().map_or(Lsn(u64::MAX), Log::durable)
    }

    fn appended(&self) -> Lsn {
        self.core.log.as_ref().map_or(Lsn(0), Log::appended)
    }

    fn durable_ts(&self) -> Ts {
        Ts(self.core.timeline.durable().min(self.core.timeline.now()))
    }

    fn make_durable(&self, lsn: Lsn) -> Result<bool, EngineError> {
        self.core
            .log
            .as_ref()
            .map_or(Ok(true), |log| log.make_durable(lsn).map_err(EngineError::from))
    }

    fn when_durable(&self, lsn: Lsn, done: Box<dyn FnOnce(Result<(), EngineError>) + Send>) {
        match &self.core.log {
            Some(log) => log
                .subscribe(lsn, Box::new(move |outcome| done(outcome.map_err(EngineError::from)))),
            None => done(Ok(())),
        }
    }

    fn put_note(&self, key: u64, value: &[u8]) -> Result<Lsn, EngineError> {
        // One lock for log and map, so that the newest note is the same in both.
        let mut notes = self.core.notes.lock();
        let lsn = match &self.core.log {
            Some(log) => log.append_now(&[&redo::note_head(key), value])?,
            None => Lsn(0),
        };
        match value.is_empty() {
            true => drop(notes.remove(&key)),
            false => drop(notes.insert(key, value.to_vec())),
        }
        Ok(lsn)
    }

    fn notes(&self) -> Vec<(u64, Vec<u8>)> {
        self.core.notes.lock().iter().map(|(key, value)| (*key, value.clone())).collect()
    }

    fn checkpoint(&self) -> Result<(), EngineError> {
        self.write_checkpoint()
    }

    fn freeze(&self, space: SpaceId) -> u64 {
        self.core.space(space).map_or(0, |space| self.core.freeze_space(&space))
    }

    fn set_dictionaries(&self, space: SpaceId, choices: Vec<(ColumnId, Dictionary)>) {
        if let Ok(space) = self.core.space(space) {
            space.dictionaries.store(Arc::new(choices));
        }
    }

    fn block_counts(&self, space: SpaceId) -> BlockCounts {
        self.core.space(space).map_or_else(|_| BlockCounts::default(), |space| space.counts())
    }

    fn figures(&self) -> Vec<EngineFigures> {
        vec![EngineFigures {
            memory_bytes: self.core.budget.own_bytes(),
            ..EngineFigures::default()
        }]
    }

    fn memory(&self) -> (u64, u64) {
        (self.core.budget.used_bytes(), self.core.budget.limit_bytes())
    }

    fn borrow_memory(&self, bytes: u64) -> Result<(), EngineError> {
        self.core.budget.borrow(bytes)
    }

    fn borrow_memory_anyway(&self, bytes: u64) {
        self.core.budget.borrow_anyway(bytes);
    }

    fn return_memory(&self, bytes: u64) {
        self.core.budget.give_back(bytes);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
