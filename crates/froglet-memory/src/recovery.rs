//! Recovery: the newest checkpoint, then the log from where that begins.
//!
//! ```text
//!   manifest ─▶ spaces, declared columns, notes ─▶ blocks, mapped at their old ids (see `load`)
//!      │ lsn, s
//!      ▼
//!   log from lsn ─▶ transactions above s, fills at or above s, everything that is no transaction
//! ```
//!
//! Rows come back without versions, but for those that somebody keeps (see `replay`, `kept_rows`); the clock goes on above every timestamp met. What is declared or
//! dropped twice, because the manifest has it already, does no harm. Operations on spaces and columns
//! that were dropped later are skipped. Indexes come back empty: whoever opens a table builds them, because
//! only layouts say which there are; what the checkpoint has of their entries spares the build most of
//! its work (see `index_snapshot`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::sync::{Mutex, RwLock};
use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::env::Env;
use froglet_engine::{ColumnSpec, CrashPoint, EngineError, Lsn, RowId, SpaceId};

use crate::clock::Timeline;
use crate::collector::Garbage;
use crate::engine::{Agree, Core, Disk, MemoryOptions};
use crate::keepers::{Keeper, Keepers, Pin};
use crate::keys::Stripes;
use crate::load::Files;
use crate::lock_file::{DataDirLock, LockError};
use crate::manifest::{MANIFEST, Manifest};
use crate::memory::Budget;
use crate::replay::{self, Place, Replay, store_cells};
use crate::slots::FreeSlots;
use crate::space::Space;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::transform::Cooling;
use crate::undo::Pool;
use froglet_log::redo::{
    self, Entry, Fill, Installed, Malformed, Operation, Operations, Transaction,
};
use froglet_log::{Log, LogError, LogOptions};

/// How long each part of a recovery took.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecoveryTimes {
    /// Reading the checkpoint's files, and comparing their checksums.
    pub checksums: Duration,
    /// Making blocks of them.
    pub mapping: Duration,
    /// Replaying the log behind the checkpoint.
    pub log: Duration,
}

/// Opens the core of an engine.
pub(crate) fn open(options: MemoryOptions) -> Result<Core, EngineError> {
    let budget = Arc::new(Budget::new(options.memory_limit_bytes));
    let core = Core {
        timeline: Arc::new(Timeline::new(1, u64::MAX)),
        pool: Arc::new(Pool::new(Arc::clone(&budget))),
        catalog_budget: Arc::new(budget.of_catalog()),
        catalog_spaces: options.catalog_spaces,
        budget,
        stripes: Stripes::new(),
        spaces: RwLock::default(),
        garbage: Garbage::new(options.prune_bytes_min),
        cooling: Cooling::new(Arc::clone(&options.env), options.freeze),
        keepers: Keepers::default(),
        log: None,
        notes: Mutex::default(),
        recovered_half: AtomicU64::new(0),
        halves: OnceLock::new(),
        disk: None,
        recovery: RecoveryTimes::default(),
    };
    let mut state = Recovered {
        core,
        spaces: BTreeMap::new(),
        notes: BTreeMap::new(),
        newest: 1,
        checkpoint_ts: 0,
    };
    let (mut log, mut disk) = (None, None);
    if let Some(dir) = options.data_dir {
        let (opened, at) = state.open_dir(
            options.env,
            &dir,
            options.log,
            options.index_rows_min,
            options.agree,
        )?;
        (log, disk) = (Some(opened), Some(at));
    }
    state.forget_announced(log.as_ref())?;
    state.find_free_slots();
    let durable = if log.is_some() { state.newest } else { u64::MAX };
    Ok(Core {
        timeline: Arc::new(Timeline::new(state.newest, durable)),
        spaces: RwLock::new(state.spaces),
        log,
        notes: Mutex::new(state.notes),
        disk,
        ..state.core
    })
}

/// What has come back so far.
struct Recovered {
    /// What the engine will be made of; it has neither spaces nor a log yet.
    core: Core,
    spaces: BTreeMap<SpaceId, Arc<Space>>,
    notes: BTreeMap<u64, Vec<u8>>,
    /// The newest timestamp met.
    newest: u64,
    checkpoint_ts: u64,
}

fn corrupt(malformed: Malformed) -> EngineError {
    EngineError::Corrupt {
        file: "a record of the log".into(),
        offset: malformed.offset as u64,
        what: malformed.what,
    }
}

fn lock_error(error: LockError) -> EngineError {
    match error {
        LockError::Env(error) => EngineError::Env(Arc::new(error)),
        error => EngineError::Unusable {
            what: "the data directory cannot be used".into(),
            source: Arc::new(error),
        },
    }
}

impl Recovered {
    fn open_dir(
        &mut self,
        env: Arc<dyn Env>,
        dir: &Path,
        options: LogOptions,
        index_rows_min: u64,
        agree: Option<Agree>,
    ) -> Result<(Log, Disk), EngineError> {
        env.create_dir_all(dir)?;
        let lock = DataDirLock::acquire(&*env, dir).map_err(lock_error)?;
        let disk = Disk {
            dir: dir.to_owned(),
            env: Arc::clone(&env),
            _lock: lock,
            manifest: Mutex::default(),
            index_rows_min,
        };
        let checkpoints = disk.checkpoint_dir();
        env.create_dir_all(&checkpoints)?;
        let manifest = Manifest::read(&*env, &checkpoints)?;
        let begun = env.now_ns();
        let files = Files::map(&*env, &checkpoints, &manifest)?;
        let checked = env.now_ns();
        self.load(&files, &manifest)?;
        CrashPoint::RecoveryLoaded.reached();
        if let Some(agree) = agree {
            agree(Lsn(manifest.lsn), manifest.half)?;
        }
        let loaded = env.now_ns();
        let log = Log::open(
            Arc::clone(&env),
            &dir.join("log"),
            options,
            Lsn(manifest.lsn),
            &mut |lsn, record| {
                self.replay(record)
                    .map_err(|error| LogError::Replay { lsn, source: Arc::new(error) })?;
                CrashPoint::RecoveryRecord.reached();
                Ok(())
            },
        );
        *disk.manifest.lock() = manifest;
        self.core.recovery = RecoveryTimes {
            checksums: Duration::from_nanos(checked.saturating_sub(begun)),
            mapping: Duration::from_nanos(loaded.saturating_sub(checked)),
            log: Duration::from_nanos(env.now_ns().saturating_sub(loaded)),
        };
        Ok((log?, disk))
    }

    /// The rows, columns and notes of a checkpoint.
    fn load(&mut self, files: &Files, manifest: &Manifest) -> Result<(), EngineError> {
        self.newest = self.newest.max(manifest.ts);
        self.checkpoint_ts = manifest.ts;
        self.core.recovered_half.fetch_max(manifest.half, Ordering::Relaxed);
        self.notes = manifest.notes.iter().cloned().collect();
        for entry in &manifest.spaces {
            let space = self.make_space(entry.id);
            let columns = entry.columns.iter().map(|column| {
                let missing =
                    redo::value(&column.missing).map_err(|e| files.malformed(MANIFEST, e.what))?;
                if !column.ty.accepts(&missing) {
                    let what = format!("missing value {missing:?} is not of type {:?}", column.ty);
                    return Err(files.malformed(MANIFEST, what));
                }
                Ok(ColumnSpec { id: column.id, ty: column.ty, missing })
            });
            space.declare(&columns.collect::<Result<Vec<_>, EngineError>>()?);
            space.raise_tail(entry.tail)?;
            if let Some(file) = &entry.notes {
                space.notes.lock().recovered = files.notes(&file.name)?;
            }
        }
        self.load_keepers(files, manifest)?;
        files.load_blocks(manifest, &self.spaces, &self.core.budget)?;
        files
            .load_kept(manifest, &self.spaces, &self.core.budget)?
            .restore(&self.core, manifest.ts)?;
        for entry in &manifest.spaces {
            *self.spaces[&entry.id].snapshots.lock() = files.load_indexes(entry)?;
        }
        Ok(())
    }

    fn load_keepers(&self, files: &Files, manifest: &Manifest) -> Result<(), EngineError> {
        for entry in &manifest.keepers {
            if !entry.announced && entry.ts > manifest.ts {
                let what = format!("keeper {} of a later time", entry.keeper);
                return Err(files.malformed(MANIFEST, what));
            }
            let pin = self.pin(entry.ts, &entry.spaces);
            let keeper = if entry.announced { Keeper::Announced(pin) } else { Keeper::Kept(pin) };
            self.core.keepers.lock().insert(entry.keeper, keeper);
        }
        Ok(())
    }

    /// A pin of those spaces that are there.
    fn pin(&self, ts: u64, spaces: &[SpaceId]) -> Arc<Pin> {
        let mut there: Vec<Arc<Space>> =
            spaces.iter().filter_map(|space| self.spaces.get(space)).cloned().collect();
        there.sort_unstable_by_key(|space| space.id);
        there.dedup_by_key(|space| space.id);
        self.core.keepers.pin(ts, there)
    }

    /// Puts a keeper's new state in place of the one it had, and collects what that one held [Y2].
    fn set_keeper(&self, keeper: u64, state: Option<Keeper>) {
        let before = match state {
            Some(state) => self.core.keepers.lock().insert(keeper, state),
            None => self.core.keepers.lock().remove(&keeper),
        };
        drop(before);
        self.core.collect_held();
    }

    /// Whoever was announced and is not logged has not committed. The log says so before it goes
    /// on: the next replay has no pin that this engine does not have.
    fn forget_announced(&self, log: Option<&Log>) -> Result<(), EngineError> {
        let keepers = self.core.keepers.lock().clone();
        for (keeper, _) in keepers.into_iter().filter(|(_, state)| state.kept().is_none()) {
            if let Some(log) = log {
                let forgotten = log.append(&[&redo::keeper(keeper, 0, &[])])?;
                forgotten.waits_for_nothing("a replay that does not find it says it again");
            }
            self.set_keeper(keeper, None);
        }
        Ok(())
    }

    fn make_space(&mut self, id: SpaceId) -> Arc<Space> {
        Arc::clone(self.spaces.entry(id).or_insert_with(|| self.core.new_space(id)))
    }

    /// Applies one record of the log.
    fn replay(&mut self, record: &[u8]) -> Result<(), EngineError> {
        if let Some(transaction) = redo::transaction(record) {
            let Transaction { ts, half, operations } = transaction.map_err(corrupt)?;
            self.newest = self.newest.max(ts);
            self.core.recovered_half.fetch_max(half.unwrap_or(0), Ordering::Relaxed);
            return match ts > self.checkpoint_ts {
                true => self.replay_txn(ts, operations),
                false => Ok(()),
            };
        }
        match Entry::decode(record).map_err(corrupt)? {
            Entry::Fill(fill) => {
                self.newest = self.newest.max(fill.ts);
                if fill.ts >= self.checkpoint_ts {
                    self.fill(&fill)?;
                }
            }
            Entry::Install(installed) => {
                self.newest = self.newest.max(installed.ts);
                self.install(installed)?;
            }
            Entry::Declare { space, columns } => {
                if let Some(space) = self.spaces.get(&space) {
                    space.declare(&columns);
                }
            }
            Entry::Note { key, value } if value.is_empty() => {
                self.notes.remove(&key);
            }
            Entry::Note { key, value } => {
                self.notes.insert(key, value);
            }
            Entry::CreateSpace(space) => {
                self.make_space(space);
            }
            Entry::DropSpace(space) => {
                self.spaces.remove(&space);
            }
            Entry::DropColumn { space, column } => {
                if let Some(space) = self.spaces.get(&space) {
                    space.drop_column(column, &epoch::pin());
                }
            }
            // Indexes are made again.
            Entry::IndexEntries { .. } | Entry::DropIndex { .. } | Entry::DeclareIndex { .. } => {}
            Entry::Keeper { keeper, spaces, .. } if spaces.is_empty() => {
                self.set_keeper(keeper, None);
            }
            Entry::Keeper { keeper, floor, spaces } => {
                // Of one that has committed the checkpoint knows more.
                let is_kept =
                    self.core.keepers.lock().get(&keeper).is_some_and(|k| k.kept().is_some());
                if !is_kept {
                    // Only what comes after the checkpoint is replayed, and what it has ends before.
                    let pin = self.pin(floor.max(self.checkpoint_ts), &spaces);
                    self.set_keeper(keeper, Some(Keeper::Announced(pin)));
                }
            }
        }
        Ok(())
    }

    fn replay_txn(&self, ts: u64, operations: Operations<'_>) -> Result<(), EngineError> {
        let mut replay = Replay::new(&self.core, ts);
        let mut kept = BTreeMap::<u64, Vec<SpaceId>>::new();
        for operation in operations {
            let operation = operation.map_err(corrupt)?;
            if let Operation::Keep { keeper, spaces } = operation {
                kept.entry(keeper).or_default().extend(spaces);
            } else {
                self.apply(&mut replay, operation)?;
            }
        }
        replay.finish();
        for (keeper, spaces) in kept {
            let pin = self.pin(ts, &spaces);
            self.set_keeper(keeper, Some(Keeper::Kept(pin)));
        }
        Ok(())
    }

    fn apply(&self, replay: &mut Replay<'_>, operation: Operation) -> Result<(), EngineError> {
        let guard = epoch::pin();
        match operation {
            Operation::Insert { space, rid, cells } => match self.place(space, rid, &guard)? {
                Some(place) => replay.insert(place, &cells, &guard),
                None => Ok(()),
            },
            Operation::Update { space, rid, cells } => match self.place(space, rid, &guard)? {
                Some(place) => replay.update(place, &cells, &guard),
                None => Ok(()),
            },
            Operation::Delete { space, rid } => match self.place(space, rid, &guard)? {
                Some(place) => replay.delete(place, &guard),
                None => Ok(()),
            },
            Operation::Keep { .. } => unreachable!("what is kept is no row"),
        }
    }

    fn fill(&self, fill: &Fill) -> Result<(), EngineError> {
        let guard = epoch::pin();
        for (slot, values) in fill.slots.iter().zip(fill.values.chunks(fill.columns.len().max(1))) {
            let slot = usize::from(*slot);
            let rid = RowId::of(fill.block, slot);
            let Some(Place { space, block, .. }) = self.place(fill.space, rid, &guard)? else {
                return Ok(());
            };
            store_cells(space, block, slot, fill.columns.iter().copied().zip(values), &guard)?;
        }
        Ok(())
    }

    /// Rows of before the checkpoint are in it; their note may come twice. They have no version: every
    /// view sees them, those that are kept, too.
    fn install(&self, installed: Installed) -> Result<(), EngineError> {
        let Installed { ts, space: id, note, columns, rids, values } = installed;
        let Some(space) = self.spaces.get(&id) else { return Ok(()) };
        space.notes.lock().recovered.push(note);
        if ts < self.checkpoint_ts {
            return Ok(());
        }
        let (guard, mut values) = (epoch::pin(), values.into_iter());
        for rid in rids {
            let cells: Vec<_> = columns.iter().copied().zip(values.by_ref()).collect();
            if let Some(place) = self.place(id, rid, &guard)? {
                replay::put_row(place, &cells, &guard)?;
            }
        }
        Ok(())
    }

    /// The place of a row; none if its space was dropped later.
    fn place(
        &self,
        space: SpaceId,
        rid: RowId,
        guard: &Guard,
    ) -> Result<Option<Place<'_>>, EngineError> {
        let Some(space) = self.spaces.get(&space) else { return Ok(None) };
        if rid.0 >> 13 >= u64::from(u32::MAX) {
            return Err(EngineError::Corrupt {
                file: "a record of the log".into(),
                offset: 0,
                what: format!("row id {rid} is past the end of every space"),
            });
        }
        space.raise_tail(rid.0 + 1)?;
        let block = space.make_known_block(rid.block());
        block.reserve_known(rid.slot() + 1, guard);
        block.dirty.store(true, Ordering::Relaxed);
        Ok(Some(Place { space, block, rid }))
    }

    /// Slots without a row are free, but for those whose row somebody keeps.
    fn find_free_slots(&self) {
        let (mut there, mut free) = (Vec::new(), Vec::new());
        for space in self.spaces.values() {
            space.free_slots(|free| *free = FreeSlots::default());
            for number in (0..space.block_count()).rev() {
                // A block that has no row at all is made when it is needed.
                let Ok(block) = space.make_block(number) else { continue };
                let rows = space.rows_in_block(number);
                there.clear();
                block.copy_presence(rows, &mut there);
                // Heads lie in memory that is best not touched.
                let is_kept = |slot| block.linked() > 0 && !block.head_ptr(slot).is_null();
                free.clear();
                for (at, word) in there.iter().enumerate().filter(|(_, word)| **word != u64::MAX) {
                    let slots =
                        (64 * at..rows.min(64 * at + 64)).filter(|s| word >> (s % 64) & 1 == 0);
                    free.extend(slots.filter(|slot| !is_kept(*slot)));
                }
                space.give_slots(free.iter().map(|slot| RowId::of(number, *slot)));
            }
        }
    }
}
