//! From files and a log to an engine.
//!
//! The files have what is wholly before the manifest's place in the log, and may have some of what is behind it. So a
//! record is replayed as if it were new, but for rows that are newer than it ([P1] of `checkpoint.rs`): they have its version
//! in their history, which is in files before them (`Tree::IN_ORDER`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use froglet_engine::{ColumnSpec, CrashPoint, EngineError, Lsn, RowId, SpaceId};
use froglet_log::redo::{self, Entry, Malformed, Operation, Transaction};
use froglet_log::{Log, LogError, LogOptions};

use crate::engine::{Core, DiskOptions, LOG, Pins, Purges};
use crate::keys;
use crate::manifest::Manifest;
use crate::space::Space;
use crate::store::{Cached, Maps, SlowReads, Store, Tree, expect_written};
use crate::txn::{put_old, put_row};
use crate::version::{self, Cells, Version};

pub(crate) fn open(mut options: DiskOptions) -> Result<Core, EngineError> {
    let env = Arc::clone(&options.env);
    env.create_dir_all(&options.dir)?;
    let known = Manifest::read(&*env, &options.dir)?;
    let store_dir = options.store_dir.clone().unwrap_or_else(|| options.dir.join("store"));
    if known.is_some() {
        // It has what is not in the log any more.
        expect_written(&store_dir)?;
    }
    let manifest = known.unwrap_or_default();
    std::fs::create_dir_all(&store_dir).map_err(|error| EngineError::Unusable {
        what: format!("{} cannot be made", store_dir.display()),
        source: Arc::new(error),
    })?;
    let reads = SlowReads::new(options.aside, options.read_delay);
    let blocks = options.cache_bytes - Cached::<Maps>::share(options.cache_bytes);
    let store =
        Cached::new(Maps::open(&store_dir, blocks, Arc::clone(&reads))?, options.cache_bytes);
    let purges = Arc::new(Purges::default());
    let pins = Arc::new(Pins::default());
    let mut replay = Replay {
        store: &store,
        purges: &purges,
        spaces: spaces_of(&manifest, &purges)?,
        keepers: manifest
            .keepers
            .iter()
            .map(|keeper| (keeper.keeper, (keeper.ts, keeper.spaces.clone())))
            .collect(),
        newest: manifest.ts,
        half: manifest.half,
        gather_bytes: options.gather_bytes,
    };
    *purges.waiting.lock() = manifest.purges.clone();
    let log_options = std::mem::take(&mut options.log);
    let log_options = LogOptions {
        database_id: log_options.database_id.or(Some(manifest.database_id).filter(|id| *id != 0)),
        ..log_options
    };
    let log = Log::open(
        env,
        &options.dir.join(LOG),
        log_options,
        Lsn(manifest.lsn),
        &mut |lsn, record| {
            replay
                .record(record)
                .map_err(|error| LogError::Replay { lsn, source: Arc::new(error) })?;
            CrashPoint::RecoveryRecord.reached();
            Ok(())
        },
    )?;
    let Replay { spaces, keepers, newest, half, .. } = replay;
    let core = Core::new(options, store, reads, log, &manifest, spaces, purges, pins);
    core.clock.fetch_max(newest, Ordering::SeqCst);
    core.recovered_half.fetch_max(half, Ordering::SeqCst);
    for (keeper, (ts, spaces)) in keepers {
        core.keepers.lock().insert(keeper, core.pins.pin(ts, spaces));
    }
    core.garbage.lock().sweep = true;
    Ok(core)
}

fn spaces_of(
    manifest: &Manifest,
    purges: &Arc<Purges>,
) -> Result<BTreeMap<SpaceId, Arc<Space>>, EngineError> {
    let mut spaces = BTreeMap::new();
    for entry in &manifest.spaces {
        let space = Space::new(entry.id, purges);
        let mut columns = Vec::with_capacity(entry.columns.len());
        for column in &entry.columns {
            let missing = redo::value(&column.missing).map_err(corrupt)?;
            columns.push(ColumnSpec { id: column.id, ty: column.ty, missing });
        }
        space.declare(&columns);
        entry.indexes.iter().for_each(|spec| drop(space.recover_index(spec)));
        space.raise(entry.next);
        space.rows.store(entry.rows, Ordering::Relaxed);
        space.bytes.store(entry.bytes, Ordering::Relaxed);
        space.newest_end.store(entry.newest_end, Ordering::SeqCst);
        space.notes.lock().recovered = entry.notes.clone();
        spaces.insert(entry.id, Arc::new(space));
    }
    Ok(spaces)
}

fn corrupt(malformed: Malformed) -> EngineError {
    EngineError::Corrupt {
        file: "a record of the log of tables on disk".into(),
        offset: malformed.offset as u64,
        what: malformed.what,
    }
}

struct Replay<'a> {
    store: &'a Cached<Maps>,
    purges: &'a Arc<Purges>,
    spaces: BTreeMap<SpaceId, Arc<Space>>,
    keepers: BTreeMap<u64, (u64, Vec<SpaceId>)>,
    newest: u64,
    half: u64,
    gather_bytes: u64,
}

impl Replay<'_> {
    fn record(&mut self, record: &[u8]) -> Result<(), EngineError> {
        self.relieve()?;
        if let Some(transaction) = redo::transaction(record) {
            return self.transaction(transaction.map_err(corrupt)?);
        }
        match Entry::decode(record).map_err(corrupt)? {
            Entry::Declare { space, columns } => {
                if let Some(space) = self.spaces.get(&space) {
                    space.declare(&columns);
                }
            }
            Entry::Fill(fill) => {
                self.newest = self.newest.max(fill.ts);
                let width = fill.columns.len().max(1);
                for (slot, values) in fill.slots.iter().zip(fill.values.chunks(width)) {
                    let rid = RowId::of(fill.block, usize::from(*slot));
                    let Some(base) = self.stored(fill.space, rid)? else { continue };
                    if base.begin <= fill.ts {
                        let set: Vec<_> = fill.columns.iter().copied().zip(values).collect();
                        let cells = version::with(&base.cells, &set, |_| true)?;
                        self.store.put_row(fill.space, rid, Version { begin: base.begin, cells });
                    }
                }
            }
            Entry::Install(installed) => {
                self.newest = self.newest.max(installed.ts);
                if let Some(space) = self.spaces.get(&installed.space) {
                    space.notes.lock().recovered.push(installed.note);
                    self.install(space, &installed.columns, &installed.rids, &installed.values)?;
                }
            }
            Entry::CreateSpace(space) => {
                self.spaces
                    .entry(space)
                    .or_insert_with(|| Arc::new(Space::new(space, self.purges)));
            }
            Entry::DropSpace(space) => {
                self.spaces.remove(&space);
                self.purges.space_is_free(space);
            }
            Entry::DropColumn { space, column } => {
                if let Some(space) = self.spaces.get(&space) {
                    space.columns.write().remove(&column);
                }
            }
            Entry::IndexEntries { space, index, entries } => {
                let prefix = keys::index(space, index);
                for (rid, key) in entries {
                    self.store.put(Tree::Index, &keys::entry(&prefix, &key, rid), &[]);
                }
            }
            Entry::DeclareIndex { space, definition } => {
                let what = |e: serde_json::Error| {
                    corrupt(Malformed { offset: 0, what: format!("an index: {e}") })
                };
                let spec = serde_json::from_slice(&definition).map_err(what)?;
                if let Some(space) = self.spaces.get(&space) {
                    space.recover_index(&spec);
                }
            }
            Entry::DropIndex { space, index } => {
                if let Some(space) = self.spaces.get(&space) {
                    space.indexes.write().retain(|known| known.id() != index);
                }
                self.purges.waiting.lock().push((space, Some(index)));
            }
            Entry::Keeper { keeper, .. } => drop(self.keepers.remove(&keeper)),
            Entry::Note { .. } => {}
        }
        Ok(())
    }

    fn stored(&self, space: SpaceId, rid: RowId) -> Result<Option<Version>, EngineError> {
        if !self.spaces.contains_key(&space) {
            return Ok(None);
        }
        self.store.row(space, rid)
    }

    fn transaction(&mut self, transaction: Transaction<'_>) -> Result<(), EngineError> {
        let Transaction { ts, half, operations } = transaction;
        self.newest = self.newest.max(ts);
        self.half = self.half.max(half.unwrap_or(0));
        let mut kept = BTreeMap::<u64, Vec<SpaceId>>::new();
        for operation in operations {
            match operation.map_err(corrupt)? {
                Operation::Insert { space, rid, cells } => {
                    let mut bytes = Vec::new();
                    redo::put_cells(&mut bytes, cells.iter().map(|(id, value)| (*id, value)));
                    self.put(space, rid, Some(bytes.into()), ts)?;
                }
                Operation::Delete { space, rid } => self.put(space, rid, None, ts)?,
                Operation::Update { .. } => {
                    return Err(corrupt(Malformed {
                        offset: 0,
                        what: "an update of some columns".into(),
                    }));
                }
                Operation::Keep { keeper, spaces } => {
                    kept.entry(keeper).or_default().extend(spaces);
                }
            }
        }
        for (keeper, spaces) in kept {
            self.keepers.insert(keeper, (ts, spaces));
        }
        Ok(())
    }

    fn put(&self, id: SpaceId, rid: RowId, now: Option<Cells>, ts: u64) -> Result<(), EngineError> {
        self.relieve()?;
        let Some(space) = self.spaces.get(&id) else { return Ok(()) };
        space.raise(rid.0 + 1);
        // The files may have what it has ended, and not the row any more.
        space.newest_end.fetch_max(ts, Ordering::SeqCst);
        let base = self.stored(id, rid)?;
        if base.as_ref().is_some_and(|base| base.begin >= ts) {
            return Ok(());
        }
        if let Some(cells) = &now {
            self.enter(space, rid, cells)?;
        }
        if let Some(base) = &base {
            put_old(self.store, space, rid, base, ts);
        }
        put_row(self.store, space, rid, base.as_ref(), now.as_ref(), ts);
        Ok(())
    }

    /// Writes what has gathered, where it is too much. Another replay finds it in files and leaves it; that both logs have
    /// what is in it is settled before anything is replayed.
    fn relieve(&self) -> Result<(), EngineError> {
        if self.store.wants_flush(self.gather_bytes) {
            self.store.rotate();
            self.store.flush()?;
            while self.store.is_crowded() && self.store.compact()? {}
        }
        Ok(())
    }

    /// The entries of a row in every index of its space.
    fn enter(&self, space: &Space, rid: RowId, cells: &[u8]) -> Result<(), EngineError> {
        for index in space.indexes.read().iter() {
            let key = index.key_of(cells)?.0;
            // One that is too long was refused by an index that had not this row to hold.
            if keys::check(&key).is_ok() {
                self.store.put(Tree::Index, &index.entry(&key, rid), &[]);
            }
        }
        Ok(())
    }

    fn install(
        &self,
        space: &Space,
        columns: &[froglet_engine::ColumnId],
        rids: &[RowId],
        values: &[froglet_engine::Value],
    ) -> Result<(), EngineError> {
        for (n, rid) in rids.iter().enumerate() {
            self.relieve()?;
            space.raise(rid.0 + 1);
            if self.stored(space.id, *rid)?.is_some() {
                continue;
            }
            let row = &values[n * columns.len()..(n + 1) * columns.len()];
            let mut cells = Vec::new();
            redo::put_cells(&mut cells, columns.iter().copied().zip(row));
            self.enter(space, *rid, &cells)?;
            put_row(self.store, space, *rid, None, Some(&cells.into()), 0);
        }
        Ok(())
    }
}
