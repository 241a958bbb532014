//! Recovery: the newest checkpoint, then the log from where that begins.
//!
//! ```text
//!   manifest ─▶ spaces, declared columns, notes ─▶ blocks, row by row at their old ids
//!      │ lsn, s
//!      ▼
//!   log from lsn ─▶ transactions above s, fills at or above s, everything that is no transaction
//! ```
//!
//! Rows come back without versions, but for those that somebody keeps (see `replay`, `kept_rows`); the clock goes on above every timestamp met. What is declared or
//! dropped twice, because the manifest has it already, does no harm. Operations on spaces and columns
//! that were dropped later are skipped. Indexes come back empty: whoever opens a table fills them with
//! `index_block`, because only layouts say which there are.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::sync::{Mutex, RwLock};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::env::Env;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{ColumnSpec, CrashPoint, EngineError, Lsn, RowId, SpaceId};

use crate::arrow::value_at;
use crate::checkpoint::{Manifest, RID_COLUMN, SpaceEntry, malformed, open_file, read_notes};
use crate::clock::Timeline;
use crate::collector::Garbage;
use crate::engine::{Core, Disk, MemoryOptions, log_failed};
use crate::keepers::{Keeper, Keepers, Pin};
use crate::kept_rows::KeptRows;
use crate::keys::Stripes;
use crate::lock_file::{DataDirLock, LockError};
use crate::log::{Log, LogError, LogOptions};
use crate::memory::Budget;
use crate::redo::{self, Entry, Fill, Installed, Operation};
use crate::replay::{self, Place, Replay, store_cells};
use crate::slots::FreeSlots;
use crate::space::Space;
use crate::sync::atomic::Ordering;
use crate::transform::Cooling;
use crate::undo::Pool;

/// Opens the core of an engine.
pub(crate) fn open(options: MemoryOptions) -> Result<Core, EngineError> {
    let budget = Arc::new(Budget::new(options.memory_limit_bytes));
    let core = Core {
        timeline: Arc::new(Timeline::new(1, u64::MAX)),
        pool: Arc::new(Pool::new(Arc::clone(&budget))),
        budget,
        stripes: Stripes::new(),
        spaces: RwLock::default(),
        garbage: Garbage::default(),
        cooling: Cooling::new(Arc::clone(&options.env), options.freeze),
        keepers: Keepers::default(),
        log: None,
        notes: Mutex::default(),
        disk: None,
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
        let (opened, at) = state.open_dir(options.env, &dir, options.log)?;
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
    ) -> Result<(Log, Disk), EngineError> {
        env.create_dir_all(dir).map_err(|e| EngineError::Env(Arc::new(e)))?;
        let lock = DataDirLock::acquire(&*env, dir).map_err(lock_error)?;
        let disk = Disk {
            dir: dir.to_owned(),
            env: Arc::clone(&env),
            _lock: lock,
            manifest: Mutex::default(),
        };
        let checkpoints = disk.checkpoint_dir();
        env.create_dir_all(&checkpoints).map_err(|e| EngineError::Env(Arc::new(e)))?;
        let manifest = Manifest::read(&*env, &checkpoints)?;
        self.load(&*env, &checkpoints, &manifest)?;
        CrashPoint::RecoveryLoaded.reached();
        let log =
            Log::open(env, &dir.join("log"), options, Lsn(manifest.lsn), &mut |lsn, record| {
                self.replay(record)
                    .map_err(|error| LogError::Replay { lsn, source: Arc::new(error) })?;
                CrashPoint::RecoveryRecord.reached();
                Ok(())
            });
        *disk.manifest.lock() = manifest;
        Ok((log.map_err(log_failed)?, disk))
    }

    /// The rows, columns and notes of a checkpoint.
    fn load(&mut self, env: &dyn Env, dir: &Path, manifest: &Manifest) -> Result<(), EngineError> {
        self.newest = self.newest.max(manifest.ts);
        self.checkpoint_ts = manifest.ts;
        self.notes = manifest.notes.iter().cloned().collect();
        for entry in &manifest.spaces {
            let space = self.make_space(entry.id);
            let columns = entry.columns.iter().map(|column| {
                let missing = redo::value(&column.missing)
                    .map_err(|e| malformed(dir, "manifest.json", e.what))?;
                Ok(ColumnSpec { id: column.id, ty: column.ty, missing })
            });
            space.declare(&columns.collect::<Result<Vec<_>, EngineError>>()?);
            space.raise_tail(entry.tail)?;
            if let Some(file) = &entry.notes {
                space.notes.lock().recovered = read_notes(env, dir, file)?;
            }
        }
        self.load_keepers(dir, manifest)?;
        let mut kept = KeptRows::default();
        for file in &manifest.files {
            let mut reader = open_file(env, dir, file)?;
            for entry in &manifest.spaces {
                self.load_blocks(dir, &file.name, &mut reader, entry)?;
                for place in entry.kept.iter().filter(|place| place.file == file.name) {
                    let batch = read_batch(dir, &file.name, &mut reader, place.batch)?;
                    kept.add(&self.spaces[&entry.id], place.ts, &batch)
                        .map_err(|what| malformed(dir, &file.name, what))?;
                }
            }
        }
        kept.restore(&self.core, manifest.ts)
    }

    fn load_keepers(&self, dir: &Path, manifest: &Manifest) -> Result<(), EngineError> {
        for entry in &manifest.keepers {
            if !entry.announced && entry.ts > manifest.ts {
                let what = format!("keeper {} of a later time", entry.keeper);
                return Err(malformed(dir, "manifest.json", what));
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
                log.append(&[&redo::keeper(keeper, 0, &[])]).map_err(log_failed)?;
            }
            self.set_keeper(keeper, None);
        }
        Ok(())
    }

    fn load_blocks(
        &self,
        dir: &Path,
        file: &str,
        reader: &mut arrow_ipc::reader::FileReader<crate::files::FileReader>,
        entry: &SpaceEntry,
    ) -> Result<(), EngineError> {
        let space = &self.spaces[&entry.id];
        for place in entry.blocks.iter().filter(|place| place.file == file) {
            let broken =
                |what: String| malformed(dir, file, format!("batch {}: {what}", place.batch));
            let batch = read_batch(dir, file, reader, place.batch)?;
            load_block(space, place.block, &batch).map_err(|e| match e {
                LoadError::Broken(what) => broken(what),
                LoadError::Engine(error) => error,
            })?;
        }
        Ok(())
    }

    fn make_space(&mut self, id: SpaceId) -> Arc<Space> {
        let budget = &self.core.budget;
        Arc::clone(
            self.spaces.entry(id).or_insert_with(|| Arc::new(Space::new(id, Arc::clone(budget)))),
        )
    }

    /// Applies one record of the log.
    fn replay(&mut self, record: &[u8]) -> Result<(), EngineError> {
        let entry = Entry::decode(record).map_err(|malformed| EngineError::Corrupt {
            file: "a record of the log".into(),
            offset: malformed.offset as u64,
            what: malformed.what,
        })?;
        match entry {
            Entry::Txn { ts, operations } => {
                self.newest = self.newest.max(ts);
                if ts > self.checkpoint_ts {
                    self.replay_txn(ts, operations)?;
                }
            }
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

    fn replay_txn(&self, ts: u64, operations: Vec<Operation>) -> Result<(), EngineError> {
        let mut replay = Replay::new(&self.core, ts);
        let mut kept = BTreeMap::<u64, Vec<SpaceId>>::new();
        for operation in operations {
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
        let block = space.make_block(rid.block())?;
        block.charge_rows(rid.slot() + 1, guard);
        block.dirty.store(true, Ordering::Relaxed);
        Ok(Some(Place { space, block, rid }))
    }

    /// Slots without a row are free, but for those whose row somebody keeps.
    fn find_free_slots(&self) {
        for space in self.spaces.values() {
            let tail = space.tail();
            space.free_slots(|free| *free = FreeSlots::default());
            for number in (0..space.block_count()).rev() {
                let rows = space.rows_in_block(number);
                let is_free = |slot: &usize| {
                    space.block(number).is_none_or(|block| {
                        !block.is_present(*slot) && block.head_ptr(*slot).is_null()
                    })
                };
                let free: Vec<RowId> =
                    (0..rows).filter(is_free).map(|slot| RowId::of(number, slot)).collect();
                debug_assert!(free.iter().all(|rid| rid.0 < tail), "free slots are below the tail");
                // A block that has no row at all is made when it is needed.
                if space.make_block(number).is_ok() {
                    space.give_slots(free);
                }
            }
        }
    }
}

enum LoadError {
    Broken(String),
    Engine(EngineError),
}

impl From<EngineError> for LoadError {
    fn from(error: EngineError) -> LoadError {
        LoadError::Engine(error)
    }
}

/// One batch of a checkpoint's file.
fn read_batch(
    dir: &Path,
    file: &str,
    reader: &mut arrow_ipc::reader::FileReader<crate::files::FileReader>,
    batch: usize,
) -> Result<RecordBatch, EngineError> {
    let broken = |what: String| malformed(dir, file, format!("batch {batch}: {what}"));
    if batch >= reader.num_batches() {
        return Err(broken("there is no such batch".into()));
    }
    reader.set_index(batch).map_err(|e| broken(e.to_string()))?;
    let read = reader.next().ok_or_else(|| broken("there is no such batch".into()))?;
    read.map_err(|e| broken(e.to_string()))
}

/// Puts the rows of a checkpoint's batch into their block.
fn load_block(space: &Space, number: u32, batch: &RecordBatch) -> Result<(), LoadError> {
    let guard = epoch::pin();
    let schema = batch.schema();
    let rids =
        batch.column_by_name(RID_COLUMN).and_then(|rids| rids.as_primitive_opt::<UInt64Type>());
    let rids = rids.ok_or_else(|| LoadError::Broken("there are no row ids".into()))?;
    let block = space.make_block(number)?;
    let first = RowId::of(number, 0).0;
    let in_block =
        |rid: u64| rid.checked_sub(first).is_some_and(|slot| slot < ROWS_PER_BLOCK as u64);
    if rids.null_count() > 0
        || !rids.values().iter().all(|&rid| in_block(rid) && rid < space.tail())
    {
        return Err(LoadError::Broken(format!("row ids outside block {number}")));
    }
    let slots: Vec<usize> = rids.values().iter().map(|rid| (rid - first) as usize).collect();
    block.charge_rows(slots.last().map_or(0, |slot| slot + 1), &guard);
    for spec in space.columns().iter() {
        let name = format!("c{}", spec.id);
        let Ok(at) = schema.index_of(&name) else { continue };
        space.add_column(block, spec, &guard);
        let directory = block.directory(&guard);
        let column = directory.find(spec.id, 0).expect("added above");
        let array = batch.column(at);
        if array.data_type() != &spec.ty.arrow() {
            let what = format!(
                "column {name} is of type {}, declared as {:?}",
                array.data_type(),
                spec.ty
            );
            return Err(LoadError::Broken(what));
        }
        for (i, &slot) in slots.iter().enumerate() {
            let value = value_at(array, spec.ty, i).expect("types were checked");
            column.store(slot, &value, &guard);
        }
    }
    slots.iter().for_each(|&slot| block.set_present(slot, true));
    block.dirty.store(false, Ordering::Relaxed);
    Ok(())
}
