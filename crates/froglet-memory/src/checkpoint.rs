//! Checkpoints: the rows of a snapshot in Arrow IPC files, so that the log before it can go.
//!
//! ```text
//!   <data directory>/
//!     log/                          segments, see `log`
//!     checkpoint/
//!       manifest.json               one line of JSON, one line with its checksum
//!       000003-space-7.arrow        one batch for each block: __rid, c<column id>…
//!       000005-space-7.arrow        blocks changed since
//!       000005-space-7.notes        what was installed, see `install`
//!       000005-kept-7.arrow         rows that are kept as they were earlier, see `kept_rows`
//! ```
//!
//! A checkpoint reads the log's end `lsn`, then registers a snapshot `s`, then copies every block that
//! may have changed since the last one, then puts the manifest in place with a rename, then cuts the log
//! before `lsn`. The manifest says for each block which file and batch has it.
//!
//! **[P1]** A transaction appended before `lsn` has its commit timestamp from before, so at most `s`: it is
//! in the checkpoint. One appended after `lsn` is in the log; recovery skips it if its timestamp is at
//! most `s`, for then the checkpoint has it too.
//! **[P2]** A block is clean when its flag was not raised since its last copy and that copy left no record
//! linked. A writer raises the flag after it links; the copy lowers it and then looks for links.
//! Both are sequentially consistent, and what the copy's snapshot does not see stays linked while it
//! is registered: no change falls between.
//! **[P3]** Until the rename the old manifest and its files are whole; after it the new ones are, and
//! what only the old one needed is removed. Files nobody refers to are removed by the next checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind::{QuotaExceeded, StorageFull};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch, StringViewArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use froglet_engine::env::{Env, EnvError};
use froglet_engine::{
    ColumnSpec, ColumnType, CrashPoint, EngineError, Layout, Lsn, Snapshot, SpaceId, Ts, TxnId,
};
use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::clock::Registered;
use crate::engine::{Disk, MemoryEngine, log_failed};
use crate::files::{FileReader, FileWriter};
use crate::keepers::Keeper;
use crate::kept_rows;
use crate::redo;
use crate::space::Space;
use crate::sync::atomic::Ordering;
use crate::table::MemoryTable;

const FORMAT: u32 = 3;
/// The manifest's name in the checkpoint directory.
const MANIFEST: &str = "manifest.json";
/// The column of row ids in a checkpoint's batches.
pub(crate) const RID_COLUMN: &str = "__rid";

/// What the newest checkpoint consists of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: u32,
    /// Number of this checkpoint.
    pub seq: u64,
    /// Its snapshot.
    pub ts: u64,
    /// Where the replay of the log begins.
    pub lsn: u64,
    pub notes: Vec<(u64, Vec<u8>)>,
    pub keepers: Vec<KeeperEntry>,
    pub spaces: Vec<SpaceEntry>,
    pub files: Vec<FileEntry>,
}

/// A row space in a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SpaceEntry {
    pub id: SpaceId,
    /// Row ids below were handed out.
    pub tail: u64,
    pub columns: Vec<ColumnEntry>,
    pub blocks: Vec<BlockEntry>,
    /// The notes of installs.
    pub notes: Option<FileEntry>,
    pub kept: Vec<KeptEntry>,
}

/// Who keeps spaces, see `keepers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeeperEntry {
    pub keeper: u64,
    /// Of its pin.
    pub ts: u64,
    pub spaces: Vec<SpaceId>,
    /// The log may have the commit behind this checkpoint.
    pub announced: bool,
}

/// Rows of one block as one pin has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptEntry {
    /// The pin's timestamp.
    pub ts: u64,
    pub file: String,
    pub batch: usize,
}

/// A declared column in a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColumnEntry {
    pub id: froglet_engine::ColumnId,
    pub ty: ColumnType,
    /// As in the log.
    pub missing: Vec<u8>,
}

/// Where the rows of a block are. A block without an entry has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BlockEntry {
    pub block: u32,
    pub file: String,
    pub batch: usize,
}

/// A file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub name: String,
    pub bytes: u64,
    pub crc32: u32,
}

fn env_error(error: EnvError) -> EngineError {
    EngineError::Env(Arc::new(error))
}

fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> EngineError {
    EngineError::Corrupt { file: path.display().to_string(), offset, what: what.into() }
}

/// An error of the Arrow writer, whose only cause is the file.
fn write_error(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> EngineError {
    let is_full = causes(&error).any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|io| matches!(io.kind(), StorageFull | QuotaExceeded))
    });
    let what = format!("checkpoint file {} cannot be written", path.display());
    let unusable = EngineError::Unusable { what, source: Arc::new(error) };
    if is_full { EngineError::DiskFull(Arc::new(unusable)) } else { unusable }
}

/// An error and what it came from.
fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

impl Manifest {
    /// Reads the newest manifest; the default if there is none.
    pub fn read(env: &dyn Env, dir: &Path) -> Result<Manifest, EngineError> {
        let path = dir.join(MANIFEST);
        let mut file = match FileReader::open(env, &path) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(Manifest::default()),
            Err(error) => return Err(env_error(error)),
        };
        let mut text = String::new();
        std::io::Read::read_to_string(&mut file, &mut text)
            .map_err(|e| corrupt(&path, 0, e.to_string()))?;
        let (body, crc) =
            text.split_once('\n').ok_or_else(|| corrupt(&path, 0, "no checksum line"))?;
        let at = body.len() as u64;
        let stored =
            u32::from_str_radix(crc.trim(), 16).map_err(|e| corrupt(&path, at, e.to_string()))?;
        let computed = crc32fast::hash(body.as_bytes());
        if stored != computed {
            return Err(corrupt(
                &path,
                at,
                format!("checksum {stored:08x}, computed {computed:08x}"),
            ));
        }
        let manifest: Manifest = serde_json::from_str(body)
            .map_err(|e| corrupt(&path, e.column() as u64, e.to_string()))?;
        if manifest.format != FORMAT {
            return Err(corrupt(
                &path,
                0,
                format!("format {}, this program reads {FORMAT}", manifest.format),
            ));
        }
        Ok(manifest)
    }

    /// Puts the manifest in place.
    fn write(&self, env: &dyn Env, dir: &Path) -> Result<(), EngineError> {
        let (path, new) = (dir.join(MANIFEST), dir.join("manifest.json.new"));
        let body = serde_json::to_string(self).map_err(|e| write_error(&path, e))?;
        let crc = crc32fast::hash(body.as_bytes());
        let mut file = FileWriter::create(env, &new).map_err(env_error)?;
        write!(file, "{body}\n{crc:08x}\n").map_err(|e| write_error(&new, e))?;
        file.finish().map_err(|e| write_error(&new, e))?;
        env.rename(&new, &path).map_err(env_error)?;
        CrashPoint::CheckpointRenamed.reached();
        env.sync_dir(dir).map_err(env_error)
    }

    fn space(&self, id: SpaceId) -> Option<&SpaceEntry> {
        self.spaces.iter().find(|space| space.id == id)
    }

    /// The files that spaces refer to.
    fn names(&self) -> BTreeSet<&str> {
        let blocks = self.spaces.iter().flat_map(|space| &space.blocks);
        let kept = self.spaces.iter().flat_map(|space| &space.kept);
        let notes = self.spaces.iter().filter_map(|space| space.notes.as_ref());
        blocks
            .map(|block| block.file.as_str())
            .chain(kept.map(|kept| kept.file.as_str()))
            .chain(notes.map(|file| file.name.as_str()))
            .collect()
    }
}

impl SpaceEntry {
    fn block(&self, block: u32) -> Option<&BlockEntry> {
        let at = self.blocks.binary_search_by_key(&block, |b| b.block).ok()?;
        Some(&self.blocks[at])
    }
}

impl MemoryEngine {
    /// Writes a checkpoint and cuts the log before it. One at a time.
    pub(crate) fn write_checkpoint(&self) -> Result<(), EngineError> {
        let (Some(disk), Some(log)) = (&self.core.disk, &self.core.log) else { return Ok(()) };
        let mut newest = disk.manifest.lock();
        let (lsn, announced) = self.core.keepers.announced_at(|| log.appended());
        let (registered, ts) = Registered::new(&self.core.timeline);
        let snapshot = Snapshot::new(Ts(ts), TxnId(0), Box::new(registered));
        // The manifest must not refer to a part of the log that a crash takes away.
        log.wait_durable(lsn).map_err(log_failed)?;
        CrashPoint::CheckpointBegun.reached();
        // Who has a timestamp of at most `s` is decided before it is asked who keeps what [W3].
        self.core.timeline.settle();
        let keepers = self.core.keepers.at(ts, announced);
        let mut copied = Vec::new();
        let written = self.write_files(disk, &newest, &snapshot, lsn, &keepers, &mut copied);
        let manifest = match written {
            Ok(manifest) => manifest,
            Err(error) => {
                // What was copied is in no manifest.
                for (space, block) in copied {
                    if let Some(block) = space.block(block) {
                        block.dirty.store(true, Ordering::SeqCst);
                    }
                }
                return Err(error);
            }
        };
        *newest = manifest;
        log.truncate_before(lsn).map_err(log_failed)?;
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
        disk.env.create_dir_all(&dir).map_err(env_error)?;
        let spaces: Vec<Arc<Space>> = self.core.spaces.read().values().cloned().collect();
        // Installs with older timestamps than the snapshot's are done from now on: `install`, [I2].
        spaces.iter().for_each(|space| drop(space.installing.write()));
        let mut manifest = Manifest {
            format: FORMAT,
            seq: last.seq + 1,
            ts: snapshot.ts.0,
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
                self.write_space(disk, manifest.seq, &space, old, snapshot, &kept, copied)?;
            entry.notes = write_notes(disk, &dir, manifest.seq, &space)?;
            manifest.spaces.push(entry);
            manifest.files.extend(files);
        }
        let names: BTreeSet<String> = manifest.names().into_iter().map(str::to_owned).collect();
        manifest.files.retain(|file| names.contains(&file.name));
        disk.env.sync_dir(&dir).map_err(env_error)?;
        manifest.write(&*disk.env, &dir)?;
        Ok(manifest)
    }

    #[allow(clippy::too_many_arguments)]
    fn write_space(
        &self,
        disk: &Disk,
        seq: u64,
        space: &Arc<Space>,
        old: Option<&SpaceEntry>,
        snapshot: &Snapshot,
        kept: &[u64],
        copied: &mut Vec<(Arc<Space>, u32)>,
    ) -> Result<(SpaceEntry, Vec<FileEntry>), EngineError> {
        let columns = space.columns();
        let layout = Layout { columns: columns.to_vec(), indexes: Vec::new() };
        let table = MemoryTable::new(
            Arc::clone(&self.core),
            Arc::clone(space),
            Arc::new(layout),
            Vec::new(),
        );
        let all: Vec<usize> = (0..columns.len()).collect();
        let mut entry = SpaceEntry {
            id: space.id,
            tail: 0,
            columns: columns.iter().map(column_entry).collect(),
            blocks: Vec::new(),
            notes: None,
            kept: Vec::new(),
        };
        let name = |what| format!("{seq:06}-{what}-{}.arrow", space.id);
        let mut file = BatchFile::new(disk, name("space"), schema(&columns));
        for (number, block) in space.blocks() {
            let _latch = block.migration.lock();
            if !block.dirty.swap(false, Ordering::SeqCst) {
                entry.blocks.extend(old.and_then(|old| old.block(number)).cloned());
                continue;
            }
            copied.push((Arc::clone(space), number));
            if !Block::nothing_linked(block.version_after_all()) {
                block.dirty.store(true, Ordering::SeqCst);
            }
            let rows = table.read_all(snapshot, number, &all)?;
            if rows.rids.is_empty() {
                continue;
            }
            let rows = with_rids(file.schema(), &rows.rids, rows.batch.columns());
            let batch = file.write(&rows)?;
            entry.blocks.push(BlockEntry { block: number, file: file.name().to_owned(), batch });
        }
        // Rows that were installed since have no version, and are copied.
        entry.tail = space.tail();
        let mut kept_file = BatchFile::new(disk, name("kept"), kept_rows::schema(&columns));
        entry.kept = kept_rows::save(&table, kept, snapshot, &mut kept_file)?;
        let files = [file.finish()?, kept_file.finish()?];
        Ok((entry, files.into_iter().flatten().collect()))
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
            let file = FileWriter::create(&*self.disk.env, &self.path).map_err(env_error)?;
            let new = arrow_ipc::writer::FileWriter::try_new(file, &self.schema);
            self.writer = Some(new.map_err(|e| write_error(&self.path, e))?);
        }
        let writer = self.writer.as_mut().expect("made above");
        writer.write(batch).map_err(|e| write_error(&self.path, e))?;
        self.batches += 1;
        Ok(self.batches - 1)
    }

    /// Makes the file durable, if there is one.
    fn finish(self) -> Result<Option<FileEntry>, EngineError> {
        let Some(writer) = self.writer else { return Ok(None) };
        let file = writer.into_inner().map_err(|e| write_error(&self.path, e))?;
        let (bytes, crc32) = file.finish().map_err(|e| write_error(&self.path, e))?;
        CrashPoint::CheckpointFile.reached();
        Ok(Some(FileEntry { name: self.name, bytes, crc32 }))
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
    let rid = Field::new(RID_COLUMN, DataType::UInt64, false);
    let cells = columns.iter().map(|c| Field::new(format!("c{}", c.id), c.ty.arrow(), true));
    Arc::new(Schema::new(std::iter::once(rid).chain(cells).collect::<Vec<_>>()))
}

/// A batch with its row ids in front, and strings without what they share with other rows.
fn with_rids(
    schema: &SchemaRef,
    rids: &[froglet_engine::RowId],
    columns: &[ArrayRef],
) -> RecordBatch {
    let rids: ArrayRef = Arc::new(UInt64Array::from_iter_values(rids.iter().map(|rid| rid.0)));
    let compact = |array: &ArrayRef| -> ArrayRef {
        if let Some(strings) = array.as_any().downcast_ref::<StringViewArray>() {
            return Arc::new(strings.gc());
        }
        if let Some(strings) = array.as_any().downcast_ref::<BinaryViewArray>() {
            return Arc::new(strings.gc());
        }
        Arc::clone(array)
    };
    let arrays = std::iter::once(rids).chain(columns.iter().map(compact)).collect();
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
    let mut file = FileWriter::create(&*disk.env, &path).map_err(env_error)?;
    for note in notes {
        let written = file.write_all(&(note.len() as u64).to_le_bytes());
        written.and_then(|()| file.write_all(&note)).map_err(|e| write_error(&path, e))?;
    }
    let (bytes, crc32) = file.finish().map_err(|e| write_error(&path, e))?;
    Ok(Some(FileEntry { name, bytes, crc32 }))
}

/// Reads what [`write_notes`] has written.
pub(crate) fn read_notes(
    env: &dyn Env,
    dir: &Path,
    entry: &FileEntry,
) -> Result<Vec<Vec<u8>>, EngineError> {
    let (path, mut file) = checked(env, dir, entry)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|e| corrupt(&path, 0, e.to_string()))?;
    let (mut notes, mut rest) = (Vec::new(), &*bytes);
    while let Some((len, after)) = rest.split_first_chunk() {
        let len = usize::try_from(u64::from_le_bytes(*len)).ok();
        let note = len.and_then(|len| after.split_at_checked(len));
        let (note, after) = note.ok_or_else(|| corrupt(&path, 0, "a note is cut off"))?;
        notes.push(note.to_vec());
        rest = after;
    }
    Ok(notes)
}

fn remove_unused(disk: &Disk, manifest: &Manifest) -> Result<(), EngineError> {
    let dir = disk.checkpoint_dir();
    let used = manifest.names();
    for name in disk.env.list(&dir).map_err(env_error)? {
        if (name.ends_with(".arrow") || name.ends_with(".notes")) && !used.contains(name.as_str()) {
            disk.env.remove(&dir.join(&name)).map_err(env_error)?;
        }
    }
    disk.env.sync_dir(&dir).map_err(env_error)
}

/// Opens a file of a checkpoint that holds batches.
pub(crate) fn open_file(
    env: &dyn Env,
    dir: &Path,
    entry: &FileEntry,
) -> Result<arrow_ipc::reader::FileReader<FileReader>, EngineError> {
    let (path, file) = checked(env, dir, entry)?;
    let reader = arrow_ipc::reader::FileReader::try_new(file, None);
    reader.map_err(|e: ArrowError| corrupt(&path, 0, e.to_string()))
}

/// A file of a checkpoint whose bytes are what the manifest says.
fn checked(
    env: &dyn Env,
    dir: &Path,
    entry: &FileEntry,
) -> Result<(PathBuf, FileReader), EngineError> {
    let path = dir.join(&entry.name);
    let mut file = FileReader::open(env, &path).map_err(env_error)?;
    if file.len() != entry.bytes {
        return Err(corrupt(
            &path,
            file.len().min(entry.bytes),
            format!("{} bytes, not {}", file.len(), entry.bytes),
        ));
    }
    let crc32 = file.checksum().map_err(|e| corrupt(&path, 0, e.to_string()))?;
    if crc32 != entry.crc32 {
        return Err(corrupt(&path, 0, format!("checksum {crc32:08x}, not {:08x}", entry.crc32)));
    }
    Ok((path, file))
}

/// The error for a checkpoint file that is not what its checksum promised.
pub(crate) fn malformed(dir: &Path, name: &str, what: impl Into<String>) -> EngineError {
    corrupt(&dir.join(name), 0, what)
}
