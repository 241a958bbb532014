//! The disk engine: spaces, keepers, threads, behind [`Beside`].

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::Duration;

use froglet_engine::crossing::{Beside, BesideTxn, Crossings, WhenDurable};
use froglet_engine::env::Env;
use froglet_engine::{
    ColumnId, CrashPoint, EngineError, EngineFigures, HeldBack, Holder, Home, IndexId, IndexSpec,
    Layout, Lsn, SpaceId, Table, Ts, TxnId, Vacuum,
};
use froglet_log::halves::{self, Side};
use froglet_log::{Log, LogOptions, redo};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::keys;
use crate::manifest::Manifest;
use crate::overlay::{Overlay, Owner};
use crate::recent::Recent;
use crate::space::Space;
use crate::store::{Aside, Cached, Maps, SlowReads, Store};
use crate::table::DiskTable;
use crate::txn::DiskTxn;

/// Where the log is in an engine's directory.
pub(crate) const LOG: &str = "log";

/// How long a thread that has nothing to do waits before it looks again.
const PAUSE: Duration = Duration::from_millis(200);

/// So many times what is written at once may have gathered: then commits wait.
const GATHERED_MAX: u64 = 3;

/// How an engine is opened.
pub struct DiskOptions {
    /// Where its files are: `disk` in the data directory.
    pub dir: PathBuf,
    /// Files of the log, time and randomness. The store uses the operating system's files.
    pub env: Arc<dyn Env>,
    /// How the log behaves.
    pub log: LogOptions,
    /// Where the store is, if not in `dir`.
    pub store_dir: Option<PathBuf>,
    /// Blocks of files that are kept in memory.
    pub cache_bytes: u64,
    /// So much is gathered in memory before it is written to a file; three times as much makes commits wait.
    pub gather_bytes: u64,
    /// Old versions that only views need are kept in memory up to so much (`recent.rs`); as much as is gathered, if not said.
    pub recent_bytes: Option<u64>,
    /// Whether threads write files and clean up. Without, [`DiskEngine::work`] does.
    pub threads: bool,
    /// How reads are made that wait for the disk; here, if nobody says otherwise.
    pub aside: Aside,
    /// What every read takes longer, for tests.
    pub read_delay: Duration,
}

impl DiskOptions {
    /// The defaults suit a server.
    pub fn new(dir: PathBuf, env: Arc<dyn Env>, log: LogOptions) -> DiskOptions {
        DiskOptions {
            dir,
            env,
            log,
            store_dir: None,
            cache_bytes: 256 << 20,
            gather_bytes: 32 << 20,
            recent_bytes: None,
            threads: true,
            aside: |read| read(),
            read_delay: Duration::ZERO,
        }
    }
}

/// What everything on an engine shares.
pub(crate) struct Core {
    pub store: Cached<Maps>,
    pub reads: Arc<SlowReads>,
    pub log: Log,
    pub env: Arc<dyn Env>,
    pub dir: PathBuf,
    pub gather_bytes: u64,
    /// The most memory that all of this takes, beside what transactions write: on the account while there is a space.
    memory_bytes_max: u64,
    /// It is.
    is_reserved: AtomicBool,
    pub clock: AtomicU64,
    pub overlay: Overlay,
    pub recent: Recent,
    pub spaces: RwLock<BTreeMap<SpaceId, Arc<Space>>>,
    pub keepers: Mutex<BTreeMap<u64, Arc<Pin>>>,
    pub pins: Arc<Pins>,
    pub garbage: Mutex<Garbage>,
    pub purges: Arc<Purges>,
    /// The newest half that recovery has found.
    pub recovered_half: AtomicU64,
    /// Where the records begin that are in the log, or about to be, and not wholly in the store.
    pub applying: Mutex<BTreeMap<u64, usize>>,
    /// Held by who writes a checkpoint.
    pub checkpointing: Mutex<()>,
    /// Held by who cleans up: what one has taken from the queue another does not find there.
    pub cleaning: Mutex<()>,
    pub pressure: Pressure,
    has_threads: bool,
    crossings: OnceLock<Arc<dyn Crossings>>,
}

/// Old versions that may go when nobody sees them any more, by the time at which they ended.
#[derive(Default)]
pub(crate) struct Garbage {
    pub queue: VecDeque<(u64, SpaceId, froglet_engine::RowId)>,
    /// There are more that are not in the queue: the history is to be gone through.
    pub sweep: bool,
}

/// What is to be removed from the store: spaces, and indexes.
#[derive(Default)]
pub(crate) struct Purges {
    pub waiting: Mutex<Vec<(SpaceId, Option<IndexId>)>>,
    /// Dropped spaces that somebody still has open.
    pub dropped: Mutex<BTreeSet<SpaceId>>,
}

impl Purges {
    pub fn space_is_free(&self, space: SpaceId) {
        self.waiting.lock().push((space, None));
        self.dropped.lock().remove(&space);
    }
}

/// Timestamps at which spaces are kept.
#[derive(Default)]
pub(crate) struct Pins {
    pinned: Mutex<Vec<(u64, Vec<SpaceId>)>>,
    /// One has gone: what was kept for it is in no queue.
    gone: AtomicBool,
}

impl Pins {
    pub fn pin(self: &Arc<Self>, ts: u64, spaces: Vec<SpaceId>) -> Arc<Pin> {
        self.pinned.lock().push((ts, spaces.clone()));
        Arc::new(Pin { ts, spaces, pins: Arc::clone(self) })
    }

    /// Whether one has gone since the last time.
    pub fn take_gone(&self) -> bool {
        self.gone.swap(false, Ordering::SeqCst)
    }

    /// Whether a version of this space is kept that was the newest in [begin, end).
    pub fn need(&self, space: SpaceId, begin: u64, end: u64) -> bool {
        let pins = self.pinned.lock();
        pins.iter().any(|(ts, spaces)| begin <= *ts && *ts < end && spaces.contains(&space))
    }
}

/// Some spaces are kept as of a timestamp while this lives.
pub(crate) struct Pin {
    pub ts: u64,
    pub spaces: Vec<SpaceId>,
    pins: Arc<Pins>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.pins.pinned.lock();
        let is_mine = |pin: &(u64, Vec<SpaceId>)| pin.0 == self.ts && pin.1 == self.spaces;
        let at = pins.iter().position(is_mine).expect("a pin is there while it lives");
        pins.swap_remove(at);
        self.pins.gone.store(true, Ordering::SeqCst);
    }
}

/// What those wait for who write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Write,
    Compact,
}

/// How much waits to be written, and who waits for that.
#[derive(Default)]
pub(crate) struct Pressure {
    state: Mutex<Waiting>,
    /// For the thread that writes.
    work: Condvar,
    /// For those that clean up and compact.
    closed: Condvar,
    /// For those who wait until something is written.
    written: Condvar,
}

#[derive(Default)]
struct Waiting {
    wakers: Vec<Waker>,
    /// The last attempts have failed so.
    trouble: BTreeMap<Work, EngineError>,
    /// Somebody has asked for work.
    wanted: bool,
    closing: bool,
}

impl Core {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        options: DiskOptions,
        store: Cached<Maps>,
        reads: Arc<SlowReads>,
        log: Log,
        manifest: &Manifest,
        spaces: BTreeMap<SpaceId, Arc<Space>>,
        purges: Arc<Purges>,
        pins: Arc<Pins>,
    ) -> Core {
        let recent_bytes = options.recent_bytes.unwrap_or(options.gather_bytes);
        Core {
            store,
            reads,
            log,
            env: options.env,
            dir: options.dir,
            gather_bytes: options.gather_bytes,
            memory_bytes_max: options.cache_bytes
                + GATHERED_MAX * options.gather_bytes
                + recent_bytes,
            is_reserved: AtomicBool::new(false),
            clock: AtomicU64::new(manifest.ts.max(1)),
            overlay: Overlay::new(),
            recent: Recent::new(recent_bytes),
            spaces: RwLock::new(spaces),
            keepers: Mutex::default(),
            pins,
            garbage: Mutex::default(),
            purges,
            recovered_half: AtomicU64::new(manifest.half),
            applying: Mutex::default(),
            checkpointing: Mutex::default(),
            cleaning: Mutex::default(),
            pressure: Pressure::default(),
            has_threads: options.threads,
            crossings: OnceLock::new(),
        }
    }

    pub fn crossings(&self) -> &dyn Crossings {
        &**self.crossings.get().expect("an engine is joined before it is used")
    }

    pub fn space(&self, space: SpaceId) -> Result<Arc<Space>, EngineError> {
        self.spaces.read().get(&space).cloned().ok_or(EngineError::NoSpace(space))
    }

    /// Appends a record of what is stored by whoever calls, and runs that.
    pub fn logged<T>(
        &self,
        record: &[u8],
        store: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let applying = self.begin_applying();
        let logged = self.log.append(&[record])?;
        logged.waits_for_nothing("the store is not flushed before the log is durable");
        let stored = store();
        drop(applying);
        stored
    }

    /// An index that a replay keeps in step with the rows from now on.
    fn declare_index(&self, space: &Space, spec: &IndexSpec) -> Result<(), EngineError> {
        if space.has_index(spec.id) {
            return Ok(());
        }
        let definition = serde_json::to_vec(spec).expect("a spec is plain data");
        let applying = self.begin_applying();
        let declared = self.log.append_now(&[&redo::declare_index(space.id, &definition)])?;
        declared.waits_for_nothing("what needs it in the log is logged behind it");
        space.make_index(spec);
        drop(applying);
        Ok(())
    }

    /// What is logged from now on is replayed by whoever starts from a checkpoint, until the guard is dropped.
    pub fn begin_applying(&self) -> Applying<'_> {
        let mut applying = self.applying.lock();
        let at = self.log.begun_before().0;
        *applying.entry(at).or_default() += 1;
        Applying { core: self, at }
    }

    /// Where a replay has to begin that is to know everything which is not in the store now.
    pub fn not_applied(&self) -> Lsn {
        let applying = self.applying.lock();
        let at = self.log.begun_before();
        applying.first_key_value().map_or(at, |(first, _)| Lsn(*first).min(at))
    }

    /// Whether commits should wait until something is written: with whom they wait, or why in vain.
    pub fn is_full(&self) -> bool {
        let bytes = self.store.memory_bytes();
        if bytes > self.gather_bytes {
            self.want_work();
        }
        bytes > GATHERED_MAX * self.gather_bytes || self.store.is_crowded()
    }

    pub fn want_work(&self) {
        let mut state = self.pressure.state.lock();
        if !state.wanted {
            state.wanted = true;
            self.pressure.work.notify_one();
        }
    }

    /// What kept the last work from being done.
    pub fn trouble(&self) -> Option<EngineError> {
        self.pressure.state.lock().trouble.values().next().cloned()
    }

    /// Wakes a commit when something has been written.
    pub fn wake_later(&self, waker: &Waker) {
        self.pressure.state.lock().wakers.push(waker.clone());
    }

    fn note_trouble(&self, work: Work, trouble: Option<EngineError>) {
        let mut state = self.pressure.state.lock();
        let before = match &trouble {
            Some(error) => state.trouble.insert(work, error.clone()),
            None => state.trouble.remove(&work),
        };
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.pressure.written.notify_all();
        wakers.into_iter().for_each(Waker::wake);
        let what = match work {
            Work::Write => "written",
            Work::Compact => "compacted",
        };
        match (&before, &trouble) {
            (None, Some(error)) => {
                tracing::error!(%error, "tables on disk cannot be {what}; it is tried again")
            }
            (Some(_), None) => tracing::info!("tables on disk are {what} again"),
            _ => {}
        }
    }

    /// Waits until something that has gathered is written, if it is too much. Who calls holds nothing that others wait for.
    pub fn wait_until_written(&self) -> Result<(), EngineError> {
        while self.has_threads && self.is_full() {
            let mut state = self.pressure.state.lock();
            if let Some(trouble) = state.trouble.values().next() {
                return Err(trouble.clone());
            }
            if state.closing {
                return Ok(());
            }
            self.pressure.written.wait_for(&mut state, PAUSE);
        }
        Ok(())
    }

    /// Writes what has gathered, if it is much.
    pub fn write(&self, everything: bool) -> Result<(), EngineError> {
        let written = caught("writing tables on disk", || {
            match everything || self.store.wants_flush(self.gather_bytes) {
                true => self.write_checkpoint(),
                false => Ok(()),
            }
        });
        self.note_trouble(Work::Write, written.as_ref().err().cloned());
        written
    }

    /// Makes fewer files. Whether there may be more to do.
    pub fn compact(&self) -> Result<bool, EngineError> {
        let compacted = caught("compacting tables on disk", || self.store.compact());
        self.note_trouble(Work::Compact, compacted.as_ref().err().cloned());
        compacted
    }

    /// Removes some of what nobody needs any more. Whether there may be more.
    pub fn clean(&self) -> Result<bool, EngineError> {
        self.clean_before(self.crossings().oldest())
    }

    /// The same of what had ended at a timestamp that no view is older than.
    pub fn clean_before(&self, oldest: Ts) -> Result<bool, EngineError> {
        self.wait_until_written()?;
        let _one = self.cleaning.lock();
        caught("cleaning up on disk", || {
            self.purge()?;
            self.release_memory()?;
            self.collect(oldest.0)
        })
    }

    /// Takes memory off the account that nothing needs: the last space has gone.
    fn release_memory(&self) -> Result<(), EngineError> {
        let is_needed = |spaces: &BTreeMap<_, _>| {
            !spaces.is_empty()
                || !self.purges.dropped.lock().is_empty()
                || !self.purges.waiting.lock().is_empty()
        };
        if !self.is_reserved.load(Ordering::SeqCst) || is_needed(&self.spaces.read()) {
            return Ok(());
        }
        self.write(true)?;
        // Nobody makes a space meanwhile.
        let spaces = self.spaces.write();
        if !is_needed(&spaces) {
            self.store.forget_all();
            // Blocks of files that have gone are displaced by others, in time.
            self.crossings().reserve_memory_anyway(self.store.figures().memory_bytes);
            self.is_reserved.store(false, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Cleans up what is due now, and takes it out of the files of some spaces. Nobody waits for it but who has asked.
    pub fn vacuum(&self, spaces: &[SpaceId], extent: Vacuum) -> Result<(), EngineError> {
        let oldest = self.crossings().oldest();
        // What rows that have a writer leave is put back, and may be for long.
        let rounds = self.garbage.lock().rounds();
        for _ in 0..rounds {
            if !self.clean_before(oldest)? {
                break;
            }
        }
        self.write(true)?;
        let ranges: Vec<_> = spaces.iter().map(|space| keys::space(*space)).collect();
        caught("compacting tables on disk", || self.store.compact_ranges(&ranges, extent))
    }

    /// On the thread `froglet-disk`.
    fn run_writer(&self) {
        loop {
            {
                let mut state = self.pressure.state.lock();
                if !state.wanted && !state.closing {
                    self.pressure.work.wait_for(&mut state, PAUSE);
                }
                if state.closing {
                    return;
                }
                state.wanted = false;
            }
            // Who waits is told if it has failed.
            let _ = self.write(false);
        }
    }

    /// On the thread `froglet-disk-compact`. A compaction may take long: nobody waits for it who only writes.
    fn run_compactor(&self) {
        loop {
            let more = matches!(self.compact(), Ok(true));
            if self.is_closing_after(more) {
                return;
            }
        }
    }

    /// Whether a thread is to end, which waits a moment if it has nothing more to do.
    fn is_closing_after(&self, more: bool) -> bool {
        let mut state = self.pressure.state.lock();
        if !more && !state.closing {
            self.pressure.closed.wait_for(&mut state, PAUSE);
        }
        state.closing
    }

    /// On the thread `froglet-disk-clean`.
    fn run_cleaner(&self) {
        let mut failed = false;
        loop {
            let cleaned = self.clean();
            let more = matches!(cleaned, Ok(true));
            match cleaned {
                Err(error) if !std::mem::replace(&mut failed, true) => {
                    tracing::error!(%error, "old versions on disk are not removed; it is tried again");
                }
                Err(_) => {}
                Ok(_) => failed = false,
            }
            if self.is_closing_after(more) {
                return;
            }
        }
    }
}

/// A panic as an error: a thread goes on, and who waits for it is told.
fn caught<T>(what: &str, work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(EngineError::Unusable {
            what: format!("{what} has panicked; restart the server"),
            source: Arc::new(std::io::Error::other("see the server's log")),
        })
    })
}

/// See [`Core::begin_applying`].
pub(crate) struct Applying<'a> {
    core: &'a Core,
    at: u64,
}

impl Applying<'_> {
    /// For who keeps it longer than a borrow: [`Core::end_applying`] ends it.
    pub fn keep(self) -> u64 {
        let at = self.at;
        std::mem::forget(self);
        at
    }
}

impl Drop for Applying<'_> {
    fn drop(&mut self) {
        self.core.end_applying(self.at);
    }
}

impl Core {
    pub fn end_applying(&self, at: u64) {
        let mut applying = self.applying.lock();
        let count = applying.get_mut(&at).expect("it was begun");
        *count -= 1;
        if *count == 0 {
            applying.remove(&at);
        }
    }
}

/// Tables larger than memory, beside those in memory.
pub struct DiskEngine {
    pub(crate) core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl std::fmt::Debug for DiskEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DiskEngine({} spaces)", self.core.spaces.read().len())
    }
}

impl DiskEngine {
    /// Makes its log, in `dir`, and the anchor's agree, before either is opened; the anchor's replay begins at `from`, and
    /// its checkpoint has the halves up to `kept`.
    pub fn agree(
        env: &dyn Env,
        dir: &Path,
        anchor_log: &Path,
        from: Lsn,
        kept: u64,
    ) -> Result<(), EngineError> {
        env.create_dir_all(dir)?;
        let manifest = Manifest::read(env, dir)?.unwrap_or_default();
        let anchor = Side { dir: anchor_log, from, kept };
        let log = dir.join(LOG);
        let beside = Side { dir: &log, from: Lsn(manifest.lsn), kept: manifest.half };
        halves::agree(env, anchor, beside)?;
        Ok(())
    }

    /// Opens an engine, recovering what its directory holds. Its log agrees with the anchor's already.
    pub fn open(options: DiskOptions) -> Result<Arc<DiskEngine>, EngineError> {
        let core = Arc::new(crate::recovery::open(options)?);
        Ok(Arc::new(DiskEngine { core, threads: Mutex::default() }))
    }

    /// One round of work, of an engine without threads: writes what has gathered, makes fewer files, and cleans up.
    pub fn work(&self) -> Result<bool, EngineError> {
        self.core.write(false)?;
        let more = self.core.compact()?;
        Ok(self.core.clean()? || more)
    }

    fn start(&self, name: &'static str, work: fn(&Core)) {
        let core: Weak<Core> = Arc::downgrade(&self.core);
        let run = move || {
            if let Some(core) = core.upgrade() {
                work(&core);
            }
        };
        match std::thread::Builder::new().name(name.to_owned()).spawn(run) {
            Ok(thread) => self.threads.lock().push(thread),
            Err(error) => self.core.note_trouble(
                Work::Write,
                Some(EngineError::Unusable {
                    what: format!("the thread {name} cannot be started"),
                    source: Arc::new(error),
                }),
            ),
        }
    }
}

impl Drop for DiskEngine {
    fn drop(&mut self) {
        self.core.pressure.state.lock().closing = true;
        self.core.pressure.work.notify_all();
        self.core.pressure.closed.notify_all();
        self.core.pressure.written.notify_all();
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
    }
}

impl Beside for DiskEngine {
    fn home(&self) -> Home {
        Home::Disk
    }

    fn join(&self, crossings: Arc<dyn Crossings>) {
        if !self.core.spaces.read().is_empty() || !self.core.purges.waiting.lock().is_empty() {
            crossings.reserve_memory_anyway(self.core.memory_bytes_max);
            self.core.is_reserved.store(true, Ordering::SeqCst);
        }
        assert!(self.core.crossings.set(crossings).is_ok(), "an engine is joined once");
        if self.core.has_threads {
            self.start("froglet-disk", Core::run_writer);
            self.start("froglet-disk-compact", Core::run_compactor);
            self.start("froglet-disk-clean", Core::run_cleaner);
        }
    }

    fn create_space(&self, id: SpaceId) -> Result<(), EngineError> {
        let mut spaces = self.core.spaces.write();
        if spaces.contains_key(&id) {
            return Ok(());
        }
        if !self.core.is_reserved.load(Ordering::SeqCst) {
            self.core.crossings().reserve_memory(self.core.memory_bytes_max)?;
            self.core.is_reserved.store(true, Ordering::SeqCst);
        }
        let applying = self.core.begin_applying();
        let made = self.core.log.append_now(&[&redo::create_space(id)])?;
        spaces.insert(id, Arc::new(Space::new(id, &self.core.purges)));
        drop((applying, spaces));
        // The catalog's commit may be in another log: it must not be durable without this.
        CrashPoint::SpaceLogged.reached();
        self.core.log.wait_durable(made)?;
        Ok(())
    }

    fn drop_space(&self, id: SpaceId) {
        let dropped = {
            let mut spaces = self.core.spaces.write();
            let dropped = spaces.remove(&id);
            if dropped.is_some() {
                self.core.purges.dropped.lock().insert(id);
            }
            dropped
        };
        if let Some(space) = dropped {
            let applying = self.core.begin_applying();
            if let Ok(dropped) = self.core.log.append_now(&[&redo::drop_space(id)]) {
                dropped.waits_for_nothing(
                    "what nobody sees any more may come back, and is dropped again",
                );
            }
            space.is_dropped.store(true, Ordering::SeqCst);
            drop(applying);
        }
    }

    fn spaces(&self) -> Vec<SpaceId> {
        self.core.spaces.read().keys().copied().collect()
    }

    fn open(&self, space: SpaceId, layout: Arc<Layout>) -> Result<Arc<dyn Table>, EngineError> {
        let space = self.core.space(space)?;
        let fresh = space.new_columns(&layout);
        if !fresh.is_empty() {
            let applying = self.core.begin_applying();
            let declared = self.core.log.append_now(&[&redo::declare(space.id, &fresh)])?;
            declared.waits_for_nothing("the half that uses a column is logged behind it");
            space.declare(&fresh);
            drop(applying);
        }
        for spec in &layout.indexes {
            self.core.declare_index(&space, spec)?;
        }
        Ok(Arc::new(DiskTable::new(Arc::clone(&self.core), space, layout)))
    }

    fn drop_column(&self, space: SpaceId, column: ColumnId) {
        let Ok(space) = self.core.space(space) else { return };
        let applying = self.core.begin_applying();
        space.columns.write().remove(&column);
        if let Ok(dropped) = self.core.log.append_now(&[&redo::drop_column(space.id, column)]) {
            dropped
                .waits_for_nothing("what nobody sees any more may come back, and is dropped again");
        }
        drop(applying);
    }

    fn retain_indexes(&self, space: SpaceId, known: &[IndexId]) {
        let Ok(found) = self.core.space(space) else { return };
        let all: Vec<IndexId> = found.indexes.read().iter().map(|index| index.id()).collect();
        all.into_iter().filter(|id| !known.contains(id)).for_each(|id| self.drop_index(space, id));
    }

    fn drop_index(&self, space: SpaceId, index: IndexId) {
        let Ok(space) = self.core.space(space) else { return };
        let applying = self.core.begin_applying();
        space.indexes.write().retain(|known| known.id() != index);
        if let Ok(dropped) = self.core.log.append_now(&[&redo::drop_index(space.id, index)]) {
            dropped.waits_for_nothing("entries that nobody looks for may come back");
        }
        self.core.purges.waiting.lock().push((space.id, Some(index)));
        drop(applying);
    }

    fn begin(&self, id: TxnId) -> Box<dyn BesideTxn> {
        Box::new(DiskTxn::begin(&self.core, Owner::new(id)))
    }

    fn now(&self) -> Ts {
        Ts(self.core.clock.load(Ordering::SeqCst))
    }

    fn kept(&self, keeper: u64) -> Option<(Ts, Box<dyn Any + Send + Sync>)> {
        let pin = self.core.keepers.lock().get(&keeper).cloned()?;
        Some((Ts(pin.ts), Box::new(pin)))
    }

    fn held_back(&self) -> Vec<HeldBack> {
        let keepers = self.core.keepers.lock();
        let held = |(keeper, pin): (&u64, &Arc<Pin>)| HeldBack {
            ts: Ts(pin.ts),
            holder: Holder::Keeper(*keeper),
            age: None,
            spaces: pin.spaces.clone(),
        };
        keepers.iter().map(held).collect()
    }

    fn release(&self, keeper: u64) -> Result<(), EngineError> {
        let mut keepers = self.core.keepers.lock();
        if !keepers.contains_key(&keeper) {
            return Ok(());
        }
        let released = self.core.log.append_now(&[&redo::keeper(keeper, 0, &[])])?;
        released
            .waits_for_nothing("a crash may leave a keeper as it was, and it is released again");
        keepers.remove(&keeper);
        Ok(())
    }

    fn durable(&self) -> Lsn {
        self.core.log.durable()
    }

    fn appended(&self) -> Lsn {
        self.core.log.appended()
    }

    fn make_durable(&self, lsn: Lsn) -> Result<bool, EngineError> {
        Ok(self.core.log.make_durable(lsn)?)
    }

    fn when_durable(&self, lsn: Lsn, done: WhenDurable) {
        self.core
            .log
            .subscribe(lsn, Box::new(move |outcome| done(outcome.map_err(EngineError::from))));
    }

    fn checkpoint(&self) -> Result<(), EngineError> {
        self.core.write(true)
    }

    fn vacuum(&self, spaces: &[SpaceId], extent: Vacuum) -> Result<(), EngineError> {
        self.core.vacuum(spaces, extent)
    }

    fn figures(&self) -> EngineFigures {
        let figures = self.core.store.figures();
        let recent = &self.core.recent;
        EngineFigures {
            memory_bytes: figures.memory_bytes + recent.bytes(),
            versions: figures.versions.map(|versions| versions + recent.versions()),
            ..figures
        }
    }

    fn newest_half(&self) -> u64 {
        self.core.recovered_half.load(Ordering::SeqCst)
    }
}
