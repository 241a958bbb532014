//! Recovery: the newest checkpoint, then the log from where that begins.
//!
//! ```text
//!   manifest ─▶ spaces, declared columns, notes ─▶ blocks, row by row at their old ids
//!      │ lsn, s
//!      ▼
//!   log from lsn ─▶ transactions above s, fills at or above s, everything that is no transaction
//! ```
//!
//! Rows come back without versions; the clock goes on above every timestamp met. What is declared or
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
use froglet_engine::{ColumnId, ColumnSpec, CrashPoint, EngineError, Lsn, RowId, SpaceId, Value};

use crate::arrow::value_at;
use crate::block::Block;
use crate::checkpoint::{Manifest, RID_COLUMN, SpaceEntry, malformed, open_file, read_notes};
use crate::clock::Timeline;
use crate::collector::Garbage;
use crate::engine::{Core, Disk, MemoryOptions, log_failed};
use crate::keys::Stripes;
use crate::lock_file::{DataDirLock, LockError};
use crate::log::{Log, LogError, LogOptions};
use crate::memory::Budget;
use crate::redo::{self, Entry, Fill, Installed, Operation};
use crate::space::Space;
use crate::sync::atomic::Ordering;
use crate::undo::Pool;

/// Opens the core of an engine.
pub(crate) fn open(options: MemoryOptions) -> Result<Core, EngineError> {
    let budget = Arc::new(Budget::new(options.memory_limit_bytes));
    let mut state = Recovered {
        spaces: BTreeMap::new(),
        notes: BTreeMap::new(),
        budget: Arc::clone(&budget),
        newest: 1,
        checkpoint_ts: 0,
    };
    let (mut log, mut disk) = (None, None);
    if let Some(dir) = options.data_dir {
        let (opened, at) = state.open_dir(options.env, &dir, options.log)?;
        (log, disk) = (Some(opened), Some(at));
    }
    state.find_free_slots();
    let durable = if log.is_some() { state.newest } else { u64::MAX };
    Ok(Core {
        timeline: Arc::new(Timeline::new(state.newest, durable)),
        pool: Arc::new(Pool::new(Arc::clone(&budget))),
        budget,
        stripes: Stripes::new(),
        spaces: RwLock::new(state.spaces),
        garbage: Garbage::default(),
        log,
        notes: Mutex::new(state.notes),
        disk,
    })
}

/// What has come back so far.
struct Recovered {
    spaces: BTreeMap<SpaceId, Arc<Space>>,
    notes: BTreeMap<u64, Vec<u8>>,
    budget: Arc<Budget>,
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
        for file in &manifest.files {
            let mut reader = open_file(env, dir, file)?;
            for entry in &manifest.spaces {
                self.load_blocks(dir, &file.name, &mut reader, entry)?;
            }
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
            if place.batch >= reader.num_batches() {
                return Err(broken("there is no such batch".into()));
            }
            reader.set_index(place.batch).map_err(|e| broken(e.to_string()))?;
            let batch = reader.next().ok_or_else(|| broken("there is no such batch".into()))?;
            let batch = batch.map_err(|e| broken(e.to_string()))?;
            load_block(space, place.block, &batch).map_err(|e| match e {
                LoadError::Broken(what) => broken(what),
                LoadError::Engine(error) => error,
            })?;
        }
        Ok(())
    }

    fn make_space(&mut self, id: SpaceId) -> Arc<Space> {
        let budget = &self.budget;
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
                    operations.into_iter().try_for_each(|operation| self.apply(operation))?;
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
        }
        Ok(())
    }

    fn apply(&self, operation: Operation) -> Result<(), EngineError> {
        let guard = epoch::pin();
        match operation {
            Operation::Insert { space, rid, cells } => {
                let Some((space, block)) = self.place(space, rid, &guard)? else { return Ok(()) };
                add_columns(space, block, cells.iter().map(|(id, _)| *id), &guard);
                for column in block.directory(&guard).columns() {
                    let given =
                        cells.iter().find(|(id, _)| *id == column.id).map(|(_, value)| value);
                    store(column, rid.slot(), given.unwrap_or(&column.missing), &guard)?;
                }
                block.set_present(rid.slot(), true);
            }
            Operation::Update { space, rid, cells } => {
                let Some((space, block)) = self.place(space, rid, &guard)? else { return Ok(()) };
                store_cells(
                    space,
                    block,
                    rid.slot(),
                    cells.iter().map(|(id, value)| (*id, value)),
                    &guard,
                )?;
            }
            Operation::Delete { space, rid } => {
                if let Some((_, block)) = self.place(space, rid, &guard)? {
                    block.set_present(rid.slot(), false);
                    let columns = block.directory(&guard).columns();
                    columns.iter().for_each(|column| column.clear_string(rid.slot(), &guard));
                }
            }
        }
        Ok(())
    }

    fn fill(&self, fill: &Fill) -> Result<(), EngineError> {
        let guard = epoch::pin();
        for (slot, values) in fill.slots.iter().zip(fill.values.chunks(fill.columns.len().max(1))) {
            let slot = usize::from(*slot);
            let rid = RowId::of(fill.block, slot);
            let Some((space, block)) = self.place(fill.space, rid, &guard)? else { return Ok(()) };
            store_cells(space, block, slot, fill.columns.iter().copied().zip(values), &guard)?;
        }
        Ok(())
    }

    /// Rows of before the checkpoint are in it; their note may come twice.
    fn install(&self, installed: Installed) -> Result<(), EngineError> {
        let Installed { ts, space: id, note, columns, rids, values } = installed;
        let Some(space) = self.spaces.get(&id) else { return Ok(()) };
        space.notes.lock().recovered.push(note);
        if ts < self.checkpoint_ts {
            return Ok(());
        }
        let mut values = values.into_iter();
        for rid in rids {
            let cells = columns.iter().copied().zip(values.by_ref()).collect();
            self.apply(Operation::Insert { space: id, rid, cells })?;
        }
        Ok(())
    }

    /// The block of a row; none if its space was dropped later.
    fn place(
        &self,
        space: SpaceId,
        rid: RowId,
        guard: &Guard,
    ) -> Result<Option<(&Space, &Block)>, EngineError> {
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
        Ok(Some((space, block)))
    }

    /// Slots without a row are free.
    fn find_free_slots(&self) {
        for space in self.spaces.values() {
            let tail = space.tail();
            for number in (0..space.block_count()).rev() {
                let rows = space.rows_in_block(number);
                let is_free =
                    |slot: &usize| space.block(number).is_none_or(|block| !block.is_present(*slot));
                let free: Vec<u64> =
                    (0..rows).rev().filter(is_free).map(|slot| RowId::of(number, slot).0).collect();
                debug_assert!(free.iter().all(|&rid| rid < tail), "free slots are below the tail");
                // A block that has no row at all is made when it is needed.
                if space.make_block(number).is_ok() {
                    space.give_slots(free);
                }
            }
        }
    }
}

/// Adds to a block those columns that the space still declares.
fn add_columns(space: &Space, block: &Block, ids: impl Iterator<Item = ColumnId>, guard: &Guard) {
    let declared = space.columns();
    for id in ids {
        if block.directory(guard).find(id, 0).is_none()
            && let Ok(at) = declared.binary_search_by_key(&id, |c| c.id)
        {
            space.add_column(block, &declared[at], guard);
        }
    }
}

fn store(
    column: &crate::column::Column,
    slot: usize,
    value: &Value,
    guard: &Guard,
) -> Result<(), EngineError> {
    if !column.ty.accepts(value) {
        return Err(EngineError::WrongType {
            column: column.id,
            ty: column.ty,
            value: Box::new(value.clone()),
        });
    }
    column.store(slot, value, guard);
    Ok(())
}

fn store_cells<'v>(
    space: &Space,
    block: &Block,
    slot: usize,
    cells: impl Iterator<Item = (ColumnId, &'v Value)> + Clone,
    guard: &Guard,
) -> Result<(), EngineError> {
    add_columns(space, block, cells.clone().map(|(id, _)| id), guard);
    let directory = block.directory(guard);
    for (id, value) in cells {
        if let Some(column) = directory.find(id, 0) {
            store(column, slot, value, guard)?;
        }
    }
    Ok(())
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
