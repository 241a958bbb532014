//! The files of a checkpoint: mapped, compared with their checksums, and made into blocks.
//!
//! ```text
//!   manifest ──▶ map every file ──▶ checksums, in pieces ──▶ blocks ──▶ columns over the mapping
//!                                    on all cores             on all cores
//! ```
//!
//! Nothing of a file is looked at before its checksum was found right. A piece of a file is summed up by
//! itself, and the sums are combined: so one large file takes as long as many small ones.
//!
//! A mapping lives as long as a column that lies in it, whatever becomes of the file's name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
// Not a model checker's: recovery is alone.
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow_buffer::Buffer;
use crc32fast::Hasher;
use crossbeam_epoch as epoch;
use froglet_engine::env::{Env, OpenMode};
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{EngineError, SpaceId};

use crate::checkpoint::THERE_COLUMN;
use crate::column::Column;
use crate::files::corrupt;
use crate::index_snapshot::IndexSnapshot;
use crate::ipc::{IpcBatch, IpcFile};
use crate::kept_rows::KeptRows;
use crate::manifest::{BlockEntry, FileEntry, Manifest, SpaceEntry};
use crate::memory::Budget;
use crate::space::Space;

/// Bytes that are summed up at once.
const PIECE_BYTES: usize = 4 << 20;
/// Less work than this many pieces, or blocks, is not worth a thread.
const SHARED_FROM: usize = 8;

/// The files of a checkpoint.
pub(crate) struct Files {
    dir: PathBuf,
    bytes: BTreeMap<String, Buffer>,
}

/// Calls `work` with every number below `count`, on as many threads as there are cores. Returns the error
/// of one that failed; then not all may have been called.
pub(crate) fn in_parallel<E: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let first = Mutex::new(None::<(usize, E)>);
    let run = || {
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            if let Err(error) = work(at) {
                failed.store(true, Ordering::Relaxed);
                let mut first = first.lock().expect("nobody panics with it");
                if first.as_ref().is_none_or(|(other, _)| at < *other) {
                    *first = Some((at, error));
                }
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let others = if count < SHARED_FROM { 0 } else { cores.min(count) - 1 };
    std::thread::scope(|scope| {
        for _ in 0..others {
            scope.spawn(run);
        }
        run();
    });
    first.into_inner().expect("nobody panics with it").map_or(Ok(()), |(_, error)| Err(error))
}

impl Files {
    /// Maps the files of a manifest and compares them with what it says of them.
    pub fn map(env: &dyn Env, dir: &Path, manifest: &Manifest) -> Result<Files, EngineError> {
        let mut files = Files { dir: dir.to_owned(), bytes: BTreeMap::new() };
        let notes = manifest.spaces.iter().filter_map(|space| space.notes.as_ref());
        let entries: Vec<&FileEntry> = manifest.files.iter().chain(notes).collect();
        let mut mapped = Vec::with_capacity(entries.len());
        for entry in &entries {
            let path = dir.join(&entry.name);
            let file = env.open(&path, OpenMode::Read)?;
            let bytes = file.map()?;
            let len = bytes.len() as u64;
            if len != entry.bytes {
                let what = format!("{len} bytes, not {}", entry.bytes);
                return Err(corrupt(&path, len.min(entry.bytes), what));
            }
            files.bytes.insert(entry.name.clone(), bytes.clone());
            mapped.push(bytes);
        }
        let pieces: Vec<&[u8]> =
            mapped.iter().flat_map(|bytes| bytes.chunks(PIECE_BYTES)).collect();
        let sums: Vec<AtomicUsize> = pieces.iter().map(|_| AtomicUsize::new(0)).collect();
        in_parallel(pieces.len(), |at| {
            sums[at].store(crc32fast::hash(pieces[at]) as usize, Ordering::Relaxed);
            Ok::<(), EngineError>(())
        })?;
        let mut sums = sums.into_iter().map(|sum| sum.into_inner() as u32);
        for (entry, bytes) in entries.iter().zip(&mapped) {
            let mut whole = Hasher::new();
            for piece in bytes.chunks(PIECE_BYTES) {
                let sum = sums.next().expect("a sum for each piece");
                whole.combine(&Hasher::new_with_initial_len(sum, piece.len() as u64));
            }
            let crc32 = whole.finalize();
            if crc32 != entry.crc32 {
                let what = format!("checksum {crc32:08x}, not {:08x}", entry.crc32);
                return Err(corrupt(&dir.join(&entry.name), 0, what));
            }
        }
        Ok(files)
    }

    /// The error for a file that is not what its checksum promised.
    pub fn malformed(&self, name: &str, what: impl Into<String>) -> EngineError {
        corrupt(&self.dir.join(name), 0, what)
    }

    fn bytes(&self, name: &str) -> Result<Buffer, EngineError> {
        let bytes = self.bytes.get(name).cloned();
        bytes.ok_or_else(|| self.malformed(name, "the manifest does not list it"))
    }

    /// A file that holds batches.
    pub fn batches(&self, name: &str) -> Result<IpcFile, EngineError> {
        IpcFile::open(self.bytes(name)?).map_err(|what| self.malformed(name, what))
    }

    /// The notes that a checkpoint has written: each its length, 8 bytes, and its bytes.
    pub fn notes(&self, name: &str) -> Result<Vec<Vec<u8>>, EngineError> {
        let bytes = self.bytes(name)?;
        let (mut notes, mut rest) = (Vec::new(), &*bytes);
        while let Some((len, after)) = rest.split_first_chunk() {
            let len = usize::try_from(u64::from_le_bytes(*len)).ok();
            let note = len.and_then(|len| after.split_at_checked(len));
            let (note, after) = note.ok_or_else(|| self.malformed(name, "a note is cut off"))?;
            notes.push(note.to_vec());
            rest = after;
        }
        Ok(notes)
    }

    /// Puts the blocks of a checkpoint into their spaces, which have their columns and tails.
    pub fn load_blocks(
        &self,
        manifest: &Manifest,
        spaces: &BTreeMap<SpaceId, Arc<Space>>,
        budget: &Arc<Budget>,
    ) -> Result<(), EngineError> {
        let mut opened = BTreeMap::new();
        let mut blocks: Vec<(&Arc<Space>, &BlockEntry)> = Vec::new();
        for entry in &manifest.spaces {
            for block in &entry.blocks {
                if !opened.contains_key(&*block.file) {
                    opened.insert(&*block.file, self.batches(&block.file)?);
                }
                blocks.push((&spaces[&entry.id], block));
            }
        }
        in_parallel(blocks.len(), |at| {
            let (space, entry) = blocks[at];
            let batch = opened[&*entry.file].batch(entry.batch);
            let loaded = batch.and_then(|batch| load_block(space, entry.block, &batch, budget));
            loaded.map_err(|what| {
                self.malformed(&entry.file, format!("batch {}: {what}", entry.batch))
            })
        })
    }

    /// Rows that are kept as they were earlier.
    pub fn load_kept(
        &self,
        manifest: &Manifest,
        spaces: &BTreeMap<SpaceId, Arc<Space>>,
        budget: &Arc<Budget>,
    ) -> Result<KeptRows, EngineError> {
        let mut kept = KeptRows::default();
        for entry in &manifest.spaces {
            for place in &entry.kept {
                let file = self.batches(&place.file)?;
                let batch = file.batch(place.batch);
                batch
                    .and_then(|batch| kept.add(&spaces[&entry.id], place.ts, &batch, budget))
                    .map_err(|what| {
                        self.malformed(&place.file, format!("batch {}: {what}", place.batch))
                    })?;
            }
        }
        Ok(kept)
    }

    /// The entries of a space's indexes.
    pub fn load_indexes(&self, entry: &SpaceEntry) -> Result<Vec<IndexSnapshot>, EngineError> {
        let snapshot = |index| -> Result<IndexSnapshot, EngineError> {
            let index: &crate::manifest::IndexEntry = index;
            Ok(IndexSnapshot::new(index, entry, self.batches(&index.file)?))
        };
        entry.indexes.iter().map(snapshot).collect()
    }
}

/// Makes a batch of a checkpoint's file the columns of its block.
fn load_block(
    space: &Space,
    number: u32,
    batch: &IpcBatch<'_>,
    budget: &Arc<Budget>,
) -> Result<(), String> {
    if u64::from(number) >= space.tail().div_ceil(ROWS_PER_BLOCK as u64) {
        return Err(format!("there is no block {number}"));
    }
    let rows = space.rows_in_block(number);
    if batch.rows > rows {
        let what = format!("{} rows of {rows} in block {number}", batch.rows);
        return Err(what);
    }
    let there = batch.bits(THERE_COLUMN)?;
    let mut columns = Vec::new();
    for spec in space.columns().iter() {
        let name = format!("c{}", spec.id);
        if let Some(found) = batch.column(&name, &spec.ty.arrow())? {
            let column = Column::mapped(spec, found, batch.rows, budget);
            columns.push(Arc::new(column.map_err(|what| format!("column {name}: {what}"))?));
        }
    }
    let block = space.make_known_block(number);
    block.put(columns, &there, batch.rows, &epoch::pin());
    Ok(())
}
