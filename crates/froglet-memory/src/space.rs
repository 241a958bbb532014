//! A row space: blocks by number, row ids to hand out, declared columns, indexes, change feeds.
//!
//! ```text
//!   row ids   0 ──────────────── tail ──▶        handed out: from the free list, else at the tail
//!   buckets   [b0] [b1 b2] [b3 b4 b5 b6] …       bucket k holds 2^k blocks; nothing ever moves
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, OnceLock, Weak};

use crate::sync::{Mutex, RwLock};
use arc_swap::ArcSwap;
use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    BlockCounts, ColumnId, ColumnSpec, Dictionary, EngineError, Feed, IndexId, RowId, SpaceId,
};

use crate::block::Block;
use crate::column::Column;
use crate::freeze::life;
use crate::index_snapshot::IndexSnapshot;
use crate::install::Notes;
use crate::keys::Index;
use crate::memory::Budget;
use crate::slots::FreeSlots;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const BUCKETS: usize = 32;
/// What the rows of a whole block take at least: their heads.
const BLOCK_BYTES: usize = ROWS_PER_BLOCK * 8;

/// Blocks with neighbouring numbers, made when they are needed.
type Bucket = Box<[OnceLock<Box<Block>>]>;

/// The rows of one table.
#[derive(Debug)]
pub(crate) struct Space {
    pub id: SpaceId,
    budget: Arc<Budget>,
    buckets: [OnceLock<Bucket>; BUCKETS],
    /// Row ids below this were handed out at some time.
    tail: AtomicU64,
    free: Mutex<FreeSlots>,
    free_len: AtomicUsize,
    /// Declared columns by id. A column is declared before a cell of it is written.
    columns: ArcSwap<Vec<ColumnSpec>>,
    /// Of these columns it is said whether their strings are kept once.
    pub dictionaries: ArcSwap<Vec<(ColumnId, Dictionary)>>,
    indexes: ArcSwap<Vec<Arc<Index>>>,
    feeds: Mutex<Vec<Weak<FeedQueue>>>,
    feeds_open: AtomicUsize,
    /// See `install`, [I2]. Also held while a column is logged and then declared.
    pub installing: RwLock<()>,
    pub notes: Mutex<Notes>,
    /// The timestamps of its pins, and how many have each (see `keepers`).
    pins: Mutex<BTreeMap<u64, usize>>,
    /// The oldest of them; `u64::MAX` without one.
    oldest_pin: AtomicU64,
    /// Recovery has linked records in it.
    recovered: AtomicBool,
    /// What recovery has found of its indexes, until somebody builds them.
    pub snapshots: Mutex<Vec<IndexSnapshot>>,
}

fn place(block: u32) -> (usize, usize) {
    let n = u64::from(block) + 1;
    let bucket = n.ilog2() as usize;
    (bucket, (n - (1 << bucket)) as usize)
}

impl Space {
    /// What may be used for its rows.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    pub fn new(id: SpaceId, budget: Arc<Budget>) -> Space {
        Space {
            id,
            budget,
            buckets: [const { OnceLock::new() }; BUCKETS],
            tail: AtomicU64::new(0),
            free: Mutex::default(),
            free_len: AtomicUsize::new(0),
            columns: ArcSwap::default(),
            dictionaries: ArcSwap::default(),
            indexes: ArcSwap::default(),
            feeds: Mutex::new(Vec::new()),
            feeds_open: AtomicUsize::new(0),
            installing: RwLock::new(()),
            notes: Mutex::default(),
            pins: Mutex::default(),
            oldest_pin: AtomicU64::new(u64::MAX),
            recovered: AtomicBool::new(false),
            snapshots: Mutex::default(),
        }
    }

    /// What ends above `ts` stays until it is unpinned as often.
    pub fn pin(&self, ts: u64) {
        let mut pins = self.pins.lock();
        *pins.entry(ts).or_default() += 1;
        self.publish_oldest(&pins);
    }

    pub fn unpin(&self, ts: u64) {
        let mut pins = self.pins.lock();
        let count = pins.get_mut(&ts).expect("a pin that goes was entered");
        *count -= 1;
        if *count == 0 {
            pins.remove(&ts);
        }
        self.publish_oldest(&pins);
    }

    fn publish_oldest(&self, pins: &BTreeMap<u64, usize>) {
        let oldest = pins.first_key_value().map_or(u64::MAX, |(ts, _)| *ts);
        self.oldest_pin.store(oldest, Ordering::Release);
    }

    /// What ends at or below this is kept for nobody.
    #[inline]
    pub fn oldest_pin(&self) -> u64 {
        self.oldest_pin.load(Ordering::Acquire)
    }

    /// The timestamps of its pins, ascending.
    pub fn pins(&self) -> Vec<u64> {
        self.pins.lock().keys().copied().collect()
    }

    /// The next pin's timestamp after one.
    pub fn pin_after(&self, ts: u64) -> Option<u64> {
        self.pins.lock().range((Bound::Excluded(ts), Bound::Unbounded)).next().map(|(ts, _)| *ts)
    }

    /// For recovery: it has linked records, whose keys nobody has noted.
    pub fn set_recovered(&self) {
        self.recovered.store(true, Ordering::Release);
    }

    /// Whether recovery has linked records.
    pub fn is_recovered(&self) -> bool {
        self.recovered.load(Ordering::Acquire)
    }

    /// The block with this number, if it was ever needed.
    #[inline]
    pub fn block(&self, block: u32) -> Option<&Block> {
        let (bucket, at) = place(block);
        self.buckets.get(bucket)?.get()?.get(at)?.get().map(Box::as_ref)
    }

    /// The block with this number, made now if need be.
    pub fn make_block(&self, block: u32) -> Result<&Block, EngineError> {
        if let Some(block) = self.block(block) {
            return Ok(block);
        }
        self.budget.admit(size_of::<Block>())?;
        Ok(self.make_known_block(block))
    }

    /// The same of one that is in a checkpoint or in the log: what was there before a start is there after it.
    pub fn make_known_block(&self, block: u32) -> &Block {
        let (bucket, at) = place(block);
        let bucket = self.buckets[bucket]
            .get_or_init(|| (0..1usize << bucket).map(|_| OnceLock::new()).collect());
        bucket[at].get_or_init(|| Box::new(Block::new(Arc::clone(&self.budget))))
    }

    /// A row id whose slot is free: not present, no chain, in no index.
    pub fn take_slot(&self, guard: &Guard) -> Result<RowId, EngineError> {
        let (rid, block) = self.next_slot()?;
        if let Err(error) = block.reserve(rid.slot() + 1, guard) {
            self.give_slots([rid]);
            return Err(error);
        }
        Ok(rid)
    }

    fn next_slot(&self) -> Result<(RowId, &Block), EngineError> {
        if self.free_len.load(Ordering::Relaxed) > 0
            && let Some(rid) = self.free_slots(|free| free.pop(|block| self.is_frozen(block)))
        {
            return Ok((rid, self.block(rid.block()).expect("a free slot has a block")));
        }
        loop {
            let rid = RowId(self.tail.load(Ordering::Acquire));
            let block = self.make_block(rid.block())?;
            let taken =
                self.tail.compare_exchange(rid.0, rid.0 + 1, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                return Ok((rid, block));
            }
        }
    }

    /// Looks at the free slots, or changes them.
    pub fn free_slots<T>(&self, change: impl FnOnce(&mut FreeSlots) -> T) -> T {
        let mut free = self.free.lock();
        let changed = change(&mut free);
        self.free_len.store(free.len(), Ordering::Relaxed);
        changed
    }

    /// Gives slots back.
    pub fn give_slots(&self, rids: impl IntoIterator<Item = RowId>) {
        self.free_slots(|free| {
            rids.into_iter().for_each(|rid| free.give(rid, |block| self.is_frozen(block)));
        });
    }

    fn is_frozen(&self, number: u32) -> bool {
        self.block(number).is_some_and(|block| block.life.load(Ordering::Relaxed) == life::FROZEN)
    }

    /// Row ids handed out so far are below this.
    pub fn tail(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    /// Recovery: rows below `tail` may be there. Refused if their blocks would not fit in memory,
    /// as they did when the row ids were handed out: so no number in a file is a size on its own.
    pub fn raise_tail(&self, tail: u64) -> Result<(), EngineError> {
        let bytes = tail.div_ceil(ROWS_PER_BLOCK as u64).saturating_mul(BLOCK_BYTES as u64);
        if bytes > self.budget.limit_bytes() {
            return Err(self.budget.refusal(bytes));
        }
        self.tail.fetch_max(tail, Ordering::AcqRel);
        Ok(())
    }

    pub fn row_estimate(&self) -> u64 {
        self.tail().saturating_sub(self.free_len.load(Ordering::Relaxed) as u64)
    }

    pub fn block_count(&self) -> u32 {
        u32::try_from(self.tail().div_ceil(ROWS_PER_BLOCK as u64))
            .expect("a space has at most 2^32 blocks")
    }

    /// Rows of a block that may be there, as of now.
    pub fn rows_in_block(&self, block: u32) -> usize {
        let first = u64::from(block) * ROWS_PER_BLOCK as u64;
        self.tail().saturating_sub(first).min(ROWS_PER_BLOCK as u64) as usize
    }

    /// Every block.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, &Block)> {
        (0..self.block_count()).filter_map(|n| self.block(n).map(|block| (n, block)))
    }

    pub fn bytes_estimate(&self, guard: &Guard) -> u64 {
        let heap = |block: &Block| -> u64 {
            let columns = block.directory(guard).columns();
            columns.iter().filter_map(|c| c.heap()).map(|h| h.bytes_used()).sum()
        };
        self.blocks().map(|(_, block)| block.bytes(guard) as u64 + heap(block)).sum()
    }

    /// The state of the blocks.
    pub fn counts(&self) -> BlockCounts {
        let guard = epoch::pin();
        let mut counts = BlockCounts {
            free_rows: self.free_len.load(Ordering::Relaxed) as u64,
            bytes: self.bytes_estimate(&guard),
            index_bytes: self.indexes.load().iter().map(|index| index.tree.bytes() as u64).sum(),
            ..BlockCounts::default()
        };
        for (_, block) in self.blocks() {
            let linked = block.linked();
            let columns = block.directory(&guard).columns().iter();
            let is_dictionary = |c: &&Arc<Column>| c.frozen().is_some_and(|f| f.is_dictionary);
            counts.dictionaries += columns.filter(is_dictionary).count() as u64;
            counts.versions += linked;
            match (linked, block.life.load(Ordering::Relaxed)) {
                (0, life::FROZEN) if block.is_frozen(&guard) => counts.frozen += 1,
                (0, life::FROZEN | life::COOLING) => counts.cooling += 1,
                _ => counts.hot += 1,
            }
        }
        counts
    }

    /// The declared columns, by id.
    pub fn columns(&self) -> Arc<Vec<ColumnSpec>> {
        self.columns.load_full()
    }

    /// Adds declared columns; returns those that are new.
    pub fn declare(&self, specs: &[ColumnSpec]) -> Vec<ColumnSpec> {
        let is_new = |known: &[ColumnSpec], id| {
            known.binary_search_by_key(&id, |c: &ColumnSpec| c.id).is_err()
        };
        let mut fresh = Vec::new();
        self.columns.rcu(|known| {
            fresh = specs.iter().filter(|c| is_new(known, c.id)).cloned().collect();
            let mut all: Vec<ColumnSpec> = known.iter().chain(&fresh).cloned().collect();
            all.sort_by_key(|c| c.id);
            all.dedup_by_key(|c| c.id);
            all
        });
        fresh
    }

    /// Takes a column away from the registry and from every block.
    pub fn drop_column(&self, id: ColumnId, guard: &Guard) {
        self.columns.rcu(|known| known.iter().filter(|c| c.id != id).cloned().collect::<Vec<_>>());
        for (_, block) in self.blocks() {
            block.drop_column(id, guard);
        }
    }

    /// Every index of the space, whatever layouts it is in.
    pub fn indexes(&self) -> arc_swap::Guard<Arc<Vec<Arc<Index>>>> {
        self.indexes.load()
    }

    /// The index with this id, made now if need be.
    pub fn make_index(&self, id: IndexId, make: impl Fn() -> Index) -> Arc<Index> {
        let mut found = None;
        self.indexes.rcu(|known| {
            let mut all = Vec::clone(known);
            let index = known.iter().find(|i| i.spec.id == id).cloned().unwrap_or_else(|| {
                let index = Arc::new(make());
                all.push(Arc::clone(&index));
                index
            });
            found = Some(index);
            all
        });
        found.expect("rcu ran")
    }

    pub fn drop_index(&self, id: IndexId) {
        self.indexes
            .rcu(|known| known.iter().filter(|i| i.spec.id != id).cloned().collect::<Vec<_>>());
    }

    /// Opens a change feed. The counter is raised with sequential consistency before this returns: a
    /// writer that takes its commit timestamp later sees it, see `txn`.
    pub fn open_feed(self: &Arc<Self>) -> Box<dyn Feed> {
        let queue = Arc::new(FeedQueue::default());
        self.feeds.lock().push(Arc::downgrade(&queue));
        self.feeds_open.fetch_add(1, Ordering::SeqCst);
        Box::new(OpenFeed { space: Arc::clone(self), queue })
    }

    /// Whether anybody listens.
    pub fn has_feeds(&self) -> bool {
        self.feeds_open.load(Ordering::SeqCst) > 0
    }

    /// Pushes changed rows to every open feed.
    pub fn feed(&self, rids: &[RowId]) {
        for queue in self.feeds.lock().iter().filter_map(Weak::upgrade) {
            let mut rows = queue.rows.lock();
            rows.extend_from_slice(rids);
            queue.len.store(rows.len(), Ordering::Relaxed);
        }
    }
}

#[derive(Debug, Default)]
struct FeedQueue {
    rows: Mutex<Vec<RowId>>,
    len: AtomicUsize,
}

struct OpenFeed {
    space: Arc<Space>,
    queue: Arc<FeedQueue>,
}

impl Feed for OpenFeed {
    fn drain(&mut self, out: &mut Vec<RowId>) {
        let mut rows = self.queue.rows.lock();
        out.append(&mut rows);
        self.queue.len.store(0, Ordering::Relaxed);
    }

    fn backlog(&self) -> usize {
        self.queue.len.load(Ordering::Relaxed)
    }
}

impl Drop for OpenFeed {
    fn drop(&mut self) {
        self.space.feeds_open.fetch_sub(1, Ordering::SeqCst);
        let own = Arc::downgrade(&self.queue);
        self.space.feeds.lock().retain(|queue| !queue.ptr_eq(&own));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_block_number_once() {
        assert_eq!(place(0), (0, 0));
        assert_eq!(place(1), (1, 0));
        assert_eq!(place(2), (1, 1));
        assert_eq!(place(3), (2, 0));
        let (bucket, at) = place(u32::MAX - 1);
        assert_eq!((bucket, at), (31, (1 << 31) - 1));
    }
}
