//! Checkpoints: the rows of a snapshot in Arrow IPC files, so that the log before it can go.
//!
//! ```text
//!   <data directory>/
//!     log/                          segments, see `log`
//!     checkpoint/
//!       manifest.json               one line of JSON, one line with its checksum
//!       000003-space-7.arrow        one batch for each block: __there, c<column id>…
//!       000003-index-7-4.arrow      entries of an index of a space in order: key, __rid (see `index_snapshot`)
//!       000005-space-7.arrow        blocks changed since
//!       000005-space-7.notes        what was installed, see `install`
//!       000005-kept-7.arrow         rows that are kept as they were earlier, see `kept_rows`
//! ```
//!
//! A checkpoint reads the log's end `lsn` (or where the oldest long record begins that has no end yet,
//! see `log/chain`: what is behind that is replayed once more, and known), then registers a snapshot `s`, then copies every block that
//! may have changed since the last one, then puts the manifest in place with a rename, then cuts the log
//! before `lsn`. The manifest says for each block which file and batch has it, and so does the footer of
//! the file (`froglet.blocks`). A batch has every slot of its block, up to the last row id that was handed
//! out: the row at position `p` of block `b` has the id 8192·b + p, and is there if `__there` says so. So
//! the buffers of a batch are the cells of the block's columns, and a restart maps them as they are (see
//! `ipc`, `column::mapped`). What a frozen column has in a slot without a row is left as it is.
//!
//! **[P1]** A transaction appended (to its last part) before `lsn` has its commit timestamp from before, so at most `s`: it is
//! in the checkpoint. One appended after `lsn` is in the log; recovery skips it if its timestamp is at
//! most `s`, for then the checkpoint has it too.
//! **[P2]** A block is clean when its flag was not raised since its last copy and that copy left no record
//! linked. A writer raises the flag after it links; the copy lowers it and then looks for links.
//! Both are sequentially consistent, and what the copy's snapshot does not see stays linked while it
//! is registered: no change falls between.
//! **[P3]** Notes, installed rows, columns and keepers are written as they are when the checkpoint comes to
//! them, which may be later than `s`. All of it was logged before it could be seen; so the log is made
//! durable up to its end, once more, before the rename: a manifest has nothing of which a crash takes
//! away the rows, or the note, that go with it.
//! **[P6]** The same of the other halves of transactions over two engines. So the manifest's number is of a half that both logs have, with all before it.
//! **[P4]** Until the rename the old manifest and its files are whole; after it the new ones are, and
//! what only the old one needed is removed. Files nobody refers to are removed by the next checkpoint.
//! **[P5]** A file stays while one block of it is current. So the blocks that are left of a file which is mostly dead are
//! copied as if they had changed, and the file goes with the old manifest: the files have at most twice as many
//! blocks as there are.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use froglet_engine::{ColumnSpec, CrashPoint, EngineError, Layout, Lsn, Snapshot, Ts, TxnId};

use crate::arrow::compact_strings;
use crate::block::Block;
use crate::clock::{Registered, holder};
use crate::column::Wanted;
use crate::engine::{Disk, MemoryEngine};
use crate::files::{FileWriter, write_error};
use crate::index_snapshot;
use crate::keepers::Keeper;
use crate::kept_rows;
use crate::keys::Index;
use crate::manifest::{
    BlockEntry, ColumnEntry, FORMAT, FileEntry, IndexEntry, KeeperEntry, Manifest, SpaceEntry,
};
use crate::read::Slots;
use crate::space::Space;
use crate::sync::atomic::Ordering;
use crate::table::MemoryTable;
use froglet_log::redo;

/// The column of row ids in files whose rows are in no block's order.
pub(crate) const RID_COLUMN: &str = "__rid";
/// The column that says whether there is a row.
pub(crate) const THERE_COLUMN: &str = "__there";
/// What a file's footer says of its batches: the numbers of their blocks.
const BLOCKS_NOTE: &str = "froglet.blocks";

impl MemoryEngine {
    /// Writes a checkpoint and cuts the log before it. One at a time.
    pub(crate) fn write_checkpoint(&self) -> Result<(), EngineError> {
        let (Some(disk), Some(log)) = (&self.core.disk, &self.core.log) else { return Ok(()) };
        let mut newest = disk.manifest.lock();
        let (lsn, announced) = self.core.keepers.announced_at(|| log.begun_before());
        // Later ones are logged behind `lsn`.
        let half = match self.core.halves() {
            Some(halves) => halves.newest(),
            None => self.core.recovered_half.load(Ordering::SeqCst),
        };
        let (registered, ts) = Registered::new(&self.core.timeline, holder::CHECKPOINT);
        let snapshot = Snapshot::new(Ts(ts), TxnId(0), Box::new(registered));
        // The manifest must not refer to a part of the log that a crash takes away.
        log.wait_durable(lsn)?;
        CrashPoint::CheckpointBegun.reached();
        // Who has a timestamp of at most `s` is decided before it is asked who keeps what [W3].
        self.core.timeline.settle();
        let keepers = self.core.keepers.at(ts, announced);
        let mut copied = Vec::new();
        let written = self.write_files(disk, &newest, &snapshot, lsn, &keepers, &mut copied);
        let in_place = written.and_then(|mut manifest| {
            manifest.half = half;
            log.wait_durable(log.appended())?; // [P3]
            self.core.halves().map_or(Ok(()), |halves| halves.settle_durable())?; // [P6]
            manifest.write(&*disk.env, &disk.checkpoint_dir())?;
            Ok(manifest)
        });
        let manifest = match in_place {
            Ok(manifest) => manifest,
            Err(error) => {
                // The manifest may be in place nevertheless: the names of its files are not used again.
                newest.seq += 1;
                // What was copied is in no manifest that is known.
                for (space, block) in copied {
                    if let Some(block) = space.block(block) {
                        block.dirty.store(true, Ordering::SeqCst);
                    }
                }
                return Err(error);
            }
        };
        *newest = manifest;
        log.truncate_before(lsn)?;
        CrashPoint::CheckpointLogCut.reached();
        remove_unused(disk, &newest)
    }

    fn write_files(
        &self,
        disk: &Disk,
        last: &Manifest,
        snapshot: &Snapshot,
        lsn: Lsn,
        keepers: &BTreeMap<u64, Keeper>,
        copied: &mut Vec<(Arc<Space>, u32)>,
    ) -> Result<Manifest, EngineError> {
        let dir = disk.checkpoint_dir();
        disk.env.create_dir_all(&dir)?;
        let spaces: Vec<Arc<Space>> = self.core.spaces.read().values().cloned().collect();
        // From here on "dirty" says nothing of what has changed since the restart.
        spaces.iter().for_each(|space| space.snapshots.lock().clear());
        // Installs with older timestamps than the snapshot's are done from now on: `install`, [I2].
        spaces.iter().for_each(|space| drop(space.installing.write()));
        let mut manifest = Manifest {
            format: FORMAT,
            seq: last.seq + 1,
            ts: snapshot.ts.0,
            half: 0,
            lsn: lsn.0,
            notes: self.core.notes.lock().clone().into_iter().collect(),
            keepers: keepers.iter().map(keeper_entry).collect(),
            spaces: Vec::with_capacity(spaces.len()),
            files: last.files.clone(),
        };
        for space in spaces {
            let old = last.space(space.id);
            let kept = kept_stamps(keepers, &space);
            let (mut entry, files) =
                self.write_space(disk, last, manifest.seq, &space, snapshot, &kept, copied)?;
            entry.notes = write_notes(disk, &dir, manifest.seq, &space)?;
            manifest.files.extend(files);
            let old_indexes = old.map_or(&[][..], |old| &old.indexes);
            let files =
                self.write_indexes(disk, manifest.seq, &space, old_indexes, snapshot, &mut entry)?;
            manifest.files.extend(files);
            manifest.spaces.push(entry);
        }
        let names: BTreeSet<String> = manifest.names().into_iter().map(str::to_owned).collect();
        manifest.files.retain(|file| names.contains(&file.name));
        // Of two files with one name there is the later one only, and no start after it.
        let distinct: BTreeSet<&str> = manifest.files.iter().map(|file| &*file.name).collect();
        assert_eq!(manifest.files.len(), distinct.len(), "files have names of their own");
        disk.env.sync_dir(&dir)?;
        Ok(manifest)
    }

    #[allow(clippy::too_many_arguments)]
    fn write_space(
        &self,
        disk: &Disk,
        last: &Manifest,
        seq: u64,
        space: &Arc<Space>,
        snapshot: &Snapshot,
        kept: &[u64],
        copied: &mut Vec<(Arc<Space>, u32)>,
    ) -> Result<(SpaceEntry, Vec<FileEntry>), EngineError> {
        let columns = space.columns();
        let table = self.whole_table(space, &columns, Vec::new());
        let mut entry = SpaceEntry {
            id: space.id,
            tail: 0,
            columns: columns.iter().map(column_entry).collect(),
            blocks: Vec::new(),
            notes: None,
            kept: Vec::new(),
            indexes: Vec::new(),
        };
        let name = |what| format!("{seq:06}-{what}-{}.arrow", space.id);
        let mut file = BatchFile::new(disk, name("space"), schema(&columns));
        let mut numbers = Vec::new();
        let old = last.space(space.id);
        let is_clean =
            |number| space.block(number).is_some_and(|block| !block.dirty.load(Ordering::SeqCst));
        let dead = old.map(|old| old.mostly_dead(&last.files, is_clean)).unwrap_or_default();
        for (number, block) in space.blocks() {
            let latch = block.migration.lock();
            let known = old.and_then(|old| old.block(number));
            let is_dirty = block.dirty.swap(false, Ordering::SeqCst);
            if !is_dirty && known.is_none_or(|known| !dead.contains(known.file.as_str())) {
                entry.blocks.extend(known.cloned());
                continue;
            }
            copied.push((Arc::clone(space), number));
            if !Block::nothing_linked(block.version_after_all()) {
                block.dirty.store(true, Ordering::SeqCst);
            }
            let slots = table.read_slots(snapshot, block, number);
            drop(latch);
            if slots.count == 0 {
                continue;
            }
            let batch = file.write(&batch_of(file.schema(), slots))?;
            numbers.push(number.to_string());
            let file = file.name().to_owned();
            let seq = known.filter(|_| !is_dirty).map_or(seq, |known| known.seq);
            entry.blocks.push(BlockEntry { block: number, seq, file, batch });
        }
        file.note(BLOCKS_NOTE, &numbers.join(" "));
        // Rows that were installed since have no version, and are copied.
        entry.tail = space.tail();
        let mut kept_file = BatchFile::new(disk, name("kept"), kept_rows::schema(&columns));
        entry.kept = kept_rows::save(&table, kept, snapshot, &mut kept_file)?;
        let files = [file.finish()?, kept_file.finish()?];
        Ok((entry, files.into_iter().flatten().collect()))
    }

    /// A space under every column that was declared when somebody looked: some may be gone by now.
    fn whole_table(
        &self,
        space: &Arc<Space>,
        declared: &[ColumnSpec],
        indexes: Vec<Arc<Index>>,
    ) -> MemoryTable {
        let specs = indexes.iter().map(|index| index.spec.clone()).collect();
        let layout = Layout { columns: declared.to_vec(), indexes: specs, row_key: None };
        MemoryTable::new(Arc::clone(&self.core), Arc::clone(space), Arc::new(layout), indexes)
    }

    /// Writes those indexes of a space again whose last snapshot does not spare a restart much.
    fn write_indexes(
        &self,
        disk: &Disk,
        seq: u64,
        space: &Arc<Space>,
        old: &[IndexEntry],
        snapshot: &Snapshot,
        entry: &mut SpaceEntry,
    ) -> Result<Vec<FileEntry>, EngineError> {
        let declared = space.columns();
        let is_declared = |part: &Wanted| declared.iter().any(|column| column.id == part.id);
        let indexes: Vec<Arc<Index>> = space.indexes().iter().cloned().collect();
        let mut files = Vec::new();
        for index in indexes.into_iter().filter(|index| index.parts.iter().all(is_declared)) {
            let known = old.iter().find(|old| old.spec == index.spec);
            if let Some(known) = known.filter(|known| index_snapshot::serves(known, entry)) {
                entry.indexes.push(known.clone());
                continue;
            }
            if (index.tree.len() as u64) < disk.index_rows_min {
                continue;
            }
            let name = format!("{seq:06}-index-{}-{}.arrow", space.id, index.spec.id);
            let mut file = BatchFile::new(disk, name, index_snapshot::schema());
            let table = self.whole_table(space, &declared, vec![index]);
            let saved = index_snapshot::save(&table, snapshot, seq, &mut file)?;
            // One that covers nothing is written for nobody, and removed as any other unused file.
            if let Some(file) = file.finish()? {
                CrashPoint::CheckpointIndex.reached();
                files.push(file);
                let covers_some = entry.stale_blocks(&saved) < entry.blocks.len();
                entry.indexes.extend(covers_some.then_some(saved));
            }
        }
        Ok(files)
    }
}

/// An Arrow file that is made when it gets its first batch.
pub(crate) struct BatchFile<'d> {
    disk: &'d Disk,
    name: String,
    path: PathBuf,
    schema: SchemaRef,
    writer: Option<arrow_ipc::writer::FileWriter<FileWriter>>,
    batches: usize,
}

impl<'d> BatchFile<'d> {
    fn new(disk: &'d Disk, name: String, schema: SchemaRef) -> BatchFile<'d> {
        let path = disk.checkpoint_dir().join(&name);
        BatchFile { disk, name, path, schema, writer: None, batches: 0 }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Writes a batch; its number.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<usize, EngineError> {
        if self.writer.is_none() {
            let file = FileWriter::create(&*self.disk.env, &self.path)?;
            let new = arrow_ipc::writer::FileWriter::try_new(file, &self.schema);
            self.writer = Some(new.map_err(|e| write_error(&self.path, e))?);
        }
        let writer = self.writer.as_mut().expect("made above");
        writer.write(batch).map_err(|e| write_error(&self.path, e))?;
        self.batches += 1;
        Ok(self.batches - 1)
    }

    /// Puts a note into the footer, if there is a file.
    fn note(&mut self, key: &str, value: &str) {
        if let Some(writer) = &mut self.writer {
            writer.write_metadata(key, value);
        }
    }

    /// Makes the file durable, if there is one.
    fn finish(self) -> Result<Option<FileEntry>, EngineError> {
        let Some(writer) = self.writer else { return Ok(None) };
        let file = writer.into_inner().map_err(|e| write_error(&self.path, e))?;
        let (bytes, crc32) = file.finish().map_err(|e| write_error(&self.path, e))?;
        CrashPoint::CheckpointFile.reached();
        Ok(Some(FileEntry { name: self.name, bytes, crc32, batches: self.batches }))
    }
}

fn keeper_entry((keeper, state): (&u64, &Keeper)) -> KeeperEntry {
    let pin = state.pin();
    let spaces = pin.spaces.iter().map(|space| space.id).collect();
    KeeperEntry { keeper: *keeper, ts: pin.ts, spaces, announced: state.kept().is_none() }
}

/// As of when a space is kept, ascending.
fn kept_stamps(keepers: &BTreeMap<u64, Keeper>, space: &Arc<Space>) -> Vec<u64> {
    let pins = keepers.values().filter_map(Keeper::kept);
    let of_space = pins.filter(|pin| pin.spaces.iter().any(|kept| Arc::ptr_eq(kept, space)));
    let stamps: BTreeSet<u64> = of_space.map(|pin| pin.ts).collect();
    stamps.into_iter().collect()
}

fn column_entry(column: &ColumnSpec) -> ColumnEntry {
    let mut missing = Vec::new();
    redo::put_value(&mut missing, &column.missing);
    ColumnEntry { id: column.id, ty: column.ty, missing }
}

fn schema(columns: &[ColumnSpec]) -> SchemaRef {
    let there = Field::new(THERE_COLUMN, DataType::Boolean, false);
    let cells = columns.iter().map(|c| Field::new(format!("c{}", c.id), c.ty.arrow(), true));
    Arc::new(Schema::new(std::iter::once(there).chain(cells).collect::<Vec<_>>()))
}

/// The batch of a block. Strings of hot columns go without what they share with other rows.
fn batch_of(schema: &SchemaRef, slots: Slots) -> RecordBatch {
    let there = BooleanBuffer::new(Buffer::from_vec(slots.there), 0, slots.rows);
    let there: ArrayRef = Arc::new(BooleanArray::new(there, None));
    let compact = |(array, is_frozen): (ArrayRef, bool)| match is_frozen {
        true => array,
        false => compact_strings(&array),
    };
    let arrays = std::iter::once(there).chain(slots.arrays.into_iter().map(compact)).collect();
    RecordBatch::try_new(Arc::clone(schema), arrays).expect("a block is read in its own types")
}

/// The notes of a space's installs: each its length, 8 bytes, and its bytes.
fn write_notes(
    disk: &Disk,
    dir: &Path,
    seq: u64,
    space: &Space,
) -> Result<Option<FileEntry>, EngineError> {
    let notes = space.notes.lock().kept();
    if notes.is_empty() {
        return Ok(None);
    }
    let name = format!("{seq:06}-space-{}.notes", space.id);
    let path = dir.join(&name);
    let mut file = FileWriter::create(&*disk.env, &path)?;
    for note in notes {
        let written = file.write_all(&(note.len() as u64).to_le_bytes());
        written.and_then(|()| file.write_all(&note)).map_err(|e| write_error(&path, e))?;
    }
    let (bytes, crc32) = file.finish().map_err(|e| write_error(&path, e))?;
    Ok(Some(FileEntry { name, bytes, crc32, batches: 0 }))
}

fn remove_unused(disk: &Disk, manifest: &Manifest) -> Result<(), EngineError> {
    let dir = disk.checkpoint_dir();
    let used = manifest.names();
    for name in disk.env.list(&dir)? {
        if (name.ends_with(".arrow") || name.ends_with(".notes")) && !used.contains(name.as_str()) {
            disk.env.remove(&dir.join(&name))?;
        }
    }
    Ok(disk.env.sync_dir(&dir)?)
}
