//! The entries of an index as a checkpoint has them, so that a restart need not sort the keys of all rows.
//!
//! ```text
//!   checkpoint N, at s:  rows of each block ── sum of hashes of (key, row id) ──┐ equal? covered
//!                        entries in order ──┬─ sums by block ──────────────────┘
//!                                           └▶ file                            the manifest has the others
//!
//!   restart:   file, but for blocks that N does not cover or that changed since ──┐
//!              keys of the rows of just those blocks, sorted ─────────────────────┴ merged, loaded
//! ```
//!
//! The tree is read while others write, and the index may be in the making, or of a schema that is no
//! longer: so what the tree has proves nothing. **[V1]** A block is covered if the entries that were written
//! for it are the keys of the rows that `s` sees in it, each once. That is not argued but compared: by
//! count and by the sum of 64-bit hashes, the rows being read at the same `s`, which stays registered.
//! (Two sets of which the sums agree by chance: once in 2^64 blocks.)
//! **[V2]** A block that no later checkpoint has written, and nothing in the log has touched, has at the restart
//! the rows that `s` saw ([P1], [P2] in `checkpoint`). So what is loaded for it is what its rows give.
//! **[V3]** What is restored here counts from a restart to the next checkpoint, which lowers the flags that
//! say what has changed: it forgets what nobody has asked for.
//!
//! A snapshot goes on serving until one block in eight is not covered any more; then it is written again,
//! as a whole. An index of few rows has none.

use std::hash::BuildHasher;
use std::ops::{Bound, ControlFlow, Range};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::builder::{BinaryBuilder, UInt64Builder};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use froglet_engine::{EngineError, IndexSpec, RowId, Snapshot};

use crate::checkpoint::{BatchFile, RID_COLUMN};
use crate::index::Direction;
use crate::ipc::IpcFile;
use crate::manifest::{IndexEntry, SpaceEntry};
use crate::table::MemoryTable;

/// The column of keys, encoded so that their order is that of their bytes (`froglet_engine::key`).
const KEY_COLUMN: &str = "key";
/// A batch of entries is written when it has so many …
const BATCH_ENTRIES: usize = 1 << 14;
/// … or so many bytes of keys.
const BATCH_KEY_BYTES: usize = 16 << 20;
/// Fewer batches are not worth a thread.
const PART_BATCHES_MIN: usize = 2;
/// A snapshot serves while at most one block in so many is not covered.
const STALE_SHARE: usize = 8;

/// The schema of a file of entries.
pub(crate) fn schema() -> SchemaRef {
    let key = Field::new(KEY_COLUMN, DataType::Binary, false);
    let rid = Field::new(RID_COLUMN, DataType::UInt64, false);
    Arc::new(Schema::new(vec![key, rid]))
}

/// Whether a snapshot still spares a restart most of the work.
pub(crate) fn serves(index: &IndexEntry, space: &SpaceEntry) -> bool {
    space.stale_blocks(index) * STALE_SHARE <= space.blocks.len()
}

/// Entries by block: how many, and the sum of their hashes.
struct Sums {
    hasher: foldhash::fast::FixedState,
    blocks: Vec<(u64, u64)>,
}

impl Sums {
    fn new(blocks: u32) -> Sums {
        let hasher = foldhash::fast::FixedState::default();
        Sums { hasher, blocks: vec![(0, 0); blocks as usize] }
    }

    /// False if the row is in a block that came later.
    fn add(&mut self, key: &[u8], rid: RowId) -> bool {
        let Some((count, sum)) = self.blocks.get_mut(rid.block() as usize) else { return false };
        *count += 1;
        *sum = sum.wrapping_add(self.hasher.hash_one((key, rid.0)));
        true
    }

    /// Blocks in which they differ.
    fn unequal(&self, other: &Sums) -> Vec<u32> {
        let pairs = self.blocks.iter().zip(&other.blocks);
        (0..).zip(pairs).filter(|(_, (a, b))| a != b).map(|(block, _)| block).collect()
    }
}

/// Writes the entries of a table's only index, and finds out which blocks they cover [V1].
pub(crate) fn save(
    table: &MemoryTable,
    snapshot: &Snapshot,
    seq: u64,
    file: &mut BatchFile<'_>,
) -> Result<IndexEntry, EngineError> {
    let blocks = table.space.block_count();
    let mut written = Sums::new(blocks);
    let entries = write_entries(table, &mut written, file)?;
    let mut there = Sums::new(blocks);
    let (projection, mut key) = (table.key_projection(0), Vec::new());
    for number in 0..blocks {
        let read = table.read_all(snapshot, number, &projection)?;
        let keys = table.key_columns(0, &read.batch);
        for (row, rid) in read.rids.iter().enumerate() {
            key.clear();
            keys.append(row, &mut key);
            there.add(&key, *rid);
        }
    }
    let spec = table.index(0).spec.clone();
    let uncovered = written.unequal(&there);
    Ok(IndexEntry { spec, seq, file: file.name().to_owned(), entries, uncovered })
}

fn write_entries(
    table: &MemoryTable,
    sums: &mut Sums,
    file: &mut BatchFile<'_>,
) -> Result<u64, EngineError> {
    let (mut keys, mut rids) = (BinaryBuilder::new(), UInt64Builder::new());
    let (mut entries, mut outcome) = (0, Ok(()));
    let (mut key_bytes, schema) = (0, schema());
    let mut flush = |keys: &mut BinaryBuilder, rids: &mut UInt64Builder| {
        let arrays = vec![Arc::new(keys.finish()) as _, Arc::new(rids.finish()) as _];
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays);
        file.write(&batch.expect("as many keys as row ids")).map(|_| ())
    };
    let tree = &table.index(0).tree;
    tree.scan(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, rid| {
        if !sums.add(key, RowId(rid)) {
            return ControlFlow::Continue(());
        }
        keys.append_value(key);
        rids.append_value(rid);
        entries += 1;
        key_bytes += key.len();
        if entries % BATCH_ENTRIES as u64 == 0 || key_bytes >= BATCH_KEY_BYTES {
            key_bytes = 0;
            outcome = flush(&mut keys, &mut rids);
        }
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    outcome?;
    flush(&mut keys, &mut rids)?;
    Ok(entries)
}

/// The entries of an index that a restart has found.
#[derive(Debug)]
pub(crate) struct IndexSnapshot {
    pub spec: IndexSpec,
    file: IpcFile,
    name: String,
    entries: u64,
    /// For each block whether its entries are to be loaded.
    usable: Vec<bool>,
}

impl IndexSnapshot {
    /// For the blocks of a checkpoint that the entry covers.
    pub fn new(entry: &IndexEntry, space: &SpaceEntry, file: IpcFile) -> IndexSnapshot {
        let blocks = space.blocks.iter().map(|block| block.block as usize + 1).max();
        let mut usable = vec![false; blocks.unwrap_or(0)];
        for block in space.blocks.iter().filter(|block| entry.covers(block)) {
            usable[block.block as usize] = true;
        }
        let (spec, name) = (entry.spec.clone(), entry.file.clone());
        IndexSnapshot { spec, file, name, entries: entry.entries, usable }
    }

    /// Leaves out the blocks that have changed.
    pub fn keep(&mut self, is_unchanged: impl Fn(u32) -> bool) {
        for (number, usable) in (0..).zip(&mut self.usable) {
            *usable &= is_unchanged(number);
        }
    }

    /// Whether the entries of a block come from here.
    pub fn covers(&self, block: u32) -> bool {
        self.usable.get(block as usize).is_some_and(|usable| *usable)
    }

    /// What it is called in a message.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The batches in order, in at most so many parts of about the same length. What is wrong with the file.
    pub fn parts(&self, most: usize) -> Result<Vec<Range<usize>>, String> {
        let (mut entries, batches) = (0, self.file.len());
        for batch in 0..batches {
            entries += self.file.batch(batch)?.rows as u64;
        }
        if entries != self.entries {
            return Err(format!("{entries} entries, not {}", self.entries));
        }
        let parts = (batches / PART_BATCHES_MIN).clamp(1, most);
        Ok((0..parts).map(|at| batches * at / parts..batches * (at + 1) / parts).collect())
    }

    /// The first entry of a batch, usable or not.
    pub fn first_of(&self, batch: usize) -> Result<(Vec<u8>, u64), String> {
        let here = self.read_batch(batch)?;
        let rid = *here.rids.first().ok_or("a batch without entries")?;
        Ok((here.keys[..here.offsets[1]].to_vec(), rid))
    }

    fn read_batch(&self, batch: usize) -> Result<Here, String> {
        let batch = self.file.batch(batch)?;
        let rids = batch.numbers(RID_COLUMN)?;
        let keys = batch.column(KEY_COLUMN, &DataType::Binary)?.filter(|keys| keys.nulls == 0);
        let [offsets, keys] = &*keys.ok_or("there are no keys")?.buffers else {
            return Err("keys without offsets".into());
        };
        if rids.is_empty() {
            return Ok(Here { offsets: vec![0], keys: keys.clone(), rids });
        }
        let offsets = offsets.get(..(rids.len() + 1) * 4).ok_or("keys without an end")?;
        let offset = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let offsets: Vec<usize> =
            offsets.chunks_exact(4).map(|bytes| offset(bytes) as usize).collect();
        if !offsets.is_sorted() || offsets.last().is_none_or(|end| *end > keys.len()) {
            return Err("keys out of their bounds".into());
        }
        if rids.iter().any(|rid| rid >> 13 > u64::from(u32::MAX)) {
            return Err("a row id past the end of every space".into());
        }
        Ok(Here { offsets, keys: keys.clone(), rids })
    }

    /// The usable entries of some batches.
    pub fn read(&self, batches: Range<usize>) -> Entries<'_> {
        Entries { of: self, batches, at: 0, here: None }
    }
}

/// Entries of one batch.
struct Here {
    offsets: Vec<usize>,
    keys: arrow_buffer::Buffer,
    rids: Vec<u64>,
}

/// A reader of a snapshot's usable entries.
pub(crate) struct Entries<'s> {
    of: &'s IndexSnapshot,
    /// Batches that come yet.
    batches: Range<usize>,
    /// The position of the next entry in the batch.
    at: usize,
    here: Option<Here>,
}

impl Entries<'_> {
    /// Goes to the next entry, if there is one; what is wrong with the file.
    pub fn advance(&mut self) -> Result<bool, String> {
        loop {
            if let Some(here) = &self.here {
                while self.at < here.rids.len() {
                    self.at += 1;
                    if self.of.covers((here.rids[self.at - 1] >> 13) as u32) {
                        return Ok(true);
                    }
                }
            }
            let Some(batch) = self.batches.next() else {
                self.here = None;
                return Ok(false);
            };
            (self.here, self.at) = (Some(self.of.read_batch(batch)?), 0);
        }
    }

    /// The entry that was gone to.
    #[inline]
    pub fn entry(&self) -> (&[u8], u64) {
        let here = self.here.as_ref().expect("there is an entry");
        let at = self.at - 1;
        (&here.keys[here.offsets[at]..here.offsets[at + 1]], here.rids[at])
    }
}
