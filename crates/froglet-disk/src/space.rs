//! A row space on disk: its columns, its indexes, its row ids.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::key::encode_part;
use froglet_engine::{
    ColumnId, ColumnSpec, EngineError, Feed, IndexId, IndexSpec, Installs, KeyRange, Layout, RowId,
    SpaceId, Value,
};
use parking_lot::{Mutex, MutexGuard, RwLock};
use smallvec::SmallVec;

use crate::engine::Purges;
use crate::keys;
use crate::version::Wanted;

const LATCHES: usize = 64;
/// A row that would make a block larger is the first of the next one.
const BLOCK_BYTES: usize = 2 << 20;

/// What a part of a key takes, unless it is long.
const KEY_PART_BYTES: usize = 16;

/// See the module.
pub(crate) struct Space {
    pub id: SpaceId,
    pub columns: RwLock<BTreeMap<ColumnId, ColumnSpec>>,
    pub indexes: RwLock<Vec<Arc<Index>>>,
    /// The next row id. They are used once.
    pub next: AtomicU64,
    /// Bytes of the rows that were inserted into the last block, about.
    in_last_block: AtomicUsize,
    /// Rows, about.
    pub rows: AtomicI64,
    /// Bytes of them, about.
    pub bytes: AtomicI64,
    /// No old version ends later.
    pub newest_end: AtomicU64,
    feeds: Mutex<Vec<Weak<Queue>>>,
    /// Who fills a block has its latch.
    latches: Box<[Mutex<()>]>,
    /// Held shared by who installs rows, from the log to the end.
    pub installing: RwLock<()>,
    pub notes: Mutex<Notes>,
    /// Nobody will open it any more: what it has goes with the last who has it open.
    pub is_dropped: std::sync::atomic::AtomicBool,
    purges: Weak<Purges>,
}

/// Who knows what has been installed; until somebody does, what recovery has found.
#[derive(Default)]
pub(crate) struct Notes {
    pub recovered: Vec<Vec<u8>>,
    pub source: Option<Arc<dyn Installs>>,
}

impl Notes {
    /// What a checkpoint is to keep.
    pub fn kept(&self) -> Vec<Vec<u8>> {
        match &self.source {
            Some(source) => vec![source.note()],
            None => self.recovered.clone(),
        }
    }
}

impl Space {
    pub fn new(id: SpaceId, purges: &Arc<Purges>) -> Space {
        Space {
            id,
            columns: RwLock::default(),
            indexes: RwLock::default(),
            next: AtomicU64::new(0),
            in_last_block: AtomicUsize::new(0),
            rows: AtomicI64::new(0),
            bytes: AtomicI64::new(0),
            newest_end: AtomicU64::new(0),
            feeds: Mutex::default(),
            latches: (0..LATCHES).map(|_| Mutex::default()).collect(),
            installing: RwLock::default(),
            notes: Mutex::default(),
            is_dropped: std::sync::atomic::AtomicBool::new(false),
            purges: Arc::downgrade(purges),
        }
    }

    /// The columns of a layout that it has not.
    pub fn new_columns(&self, layout: &Layout) -> Vec<ColumnSpec> {
        let columns = self.columns.read();
        let is_new = |column: &&ColumnSpec| !columns.contains_key(&column.id);
        layout.columns.iter().filter(is_new).cloned().collect()
    }

    pub fn declare(&self, columns: &[ColumnSpec]) {
        let mut known = self.columns.write();
        for column in columns {
            known.entry(column.id).or_insert_with(|| column.clone());
        }
    }

    /// The index of a spec, made here if it is not there.
    pub fn make_index(&self, spec: &IndexSpec) -> Arc<Index> {
        self.index_of(spec, false)
    }

    /// The same of one that was declared before the start: what was entered into it is in the store, or in the log.
    pub fn recover_index(&self, spec: &IndexSpec) -> Arc<Index> {
        self.index_of(spec, true)
    }

    fn index_of(&self, spec: &IndexSpec, is_recovered: bool) -> Arc<Index> {
        // In this order, as a checkpoint.
        let columns = self.columns.read();
        let mut indexes = self.indexes.write();
        if let Some(index) = indexes.iter().find(|index| index.spec.id == spec.id) {
            return Arc::clone(index);
        }
        let missing = |id: ColumnId| columns.get(&id).map_or(Value::Null, |c| c.missing.clone());
        let parts = spec.key.iter().map(|part| (part.column, missing(part.column)));
        let index = Arc::new(Index {
            space: self.id,
            spec: spec.clone(),
            prefix: keys::index(self.id, spec.id),
            wanted: Wanted::new(parts),
            is_recovered,
            entries: Mutex::default(),
        });
        indexes.push(Arc::clone(&index));
        index
    }

    /// An old version ends then.
    pub fn ends_at(&self, ts: u64) {
        self.newest_end.fetch_max(ts, Ordering::SeqCst);
    }

    pub fn has_index(&self, id: IndexId) -> bool {
        self.indexes.read().iter().any(|index| index.id() == id)
    }

    pub fn keeps(&self, column: ColumnId) -> bool {
        self.columns.read().contains_key(&column)
    }

    /// An id that nobody else is given, for a row of so many bytes. Blocks are read as wholes: where rows are long, one has
    /// fewer of them.
    pub fn take_row(&self, bytes: usize) -> RowId {
        if self.in_last_block.fetch_add(bytes, Ordering::Relaxed) + bytes > BLOCK_BYTES {
            self.in_last_block.store(bytes, Ordering::Relaxed);
            // Whoever else begins a block at the same time leaves one of few rows: that is no harm.
            let up = |next: u64| Some(next.next_multiple_of(ROWS_PER_BLOCK as u64));
            let _ = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, up);
        }
        let rid = RowId(self.take_rows(1));
        if rid.slot() == 0 {
            self.in_last_block.store(bytes, Ordering::Relaxed);
        }
        rid
    }

    /// Ids that nobody else is given.
    pub fn take_rows(&self, n: u64) -> u64 {
        self.next.fetch_add(n, Ordering::Relaxed)
    }

    pub fn raise(&self, tail: u64) {
        self.next.fetch_max(tail, Ordering::Relaxed);
    }

    pub fn block_count(&self) -> u32 {
        let next = self.next.load(Ordering::Relaxed);
        if next == 0 { 0 } else { RowId(next - 1).block() + 1 }
    }

    pub fn latch(&self, block: u32) -> MutexGuard<'_, ()> {
        self.latches[block as usize % LATCHES].lock()
    }

    pub fn open_feed(&self) -> Box<dyn Feed> {
        let queue = Arc::new(Queue::default());
        self.feeds.lock().push(Arc::downgrade(&queue));
        Box::new(OpenFeed(queue))
    }

    /// Whether somebody may want to know what is written.
    pub fn has_feeds(&self) -> bool {
        self.feeds.lock().iter().any(|feed| feed.strong_count() > 0)
    }

    /// Rows for every open feed.
    pub fn feed(&self, rids: &[RowId]) {
        let mut feeds = self.feeds.lock();
        feeds.retain(|feed| feed.strong_count() > 0);
        for feed in feeds.iter().filter_map(Weak::upgrade) {
            feed.0.lock().extend_from_slice(rids);
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        if self.is_dropped.load(Ordering::SeqCst)
            && let Some(purges) = self.purges.upgrade()
        {
            purges.space_is_free(self.id);
        }
    }
}

#[derive(Default)]
struct Queue(Mutex<Vec<RowId>>);

struct OpenFeed(Arc<Queue>);

impl Feed for OpenFeed {
    fn drain(&mut self, out: &mut Vec<RowId>) {
        out.append(&mut self.0.0.lock());
    }

    fn backlog(&self) -> usize {
        self.0.0.lock().len()
    }
}

/// An index of a space: entries that are committed in the store, others here.
pub(crate) struct Index {
    pub space: SpaceId,
    pub spec: IndexSpec,
    /// What its entries begin with in the store.
    pub prefix: [u8; 8],
    /// The columns of its key.
    wanted: Wanted,
    /// It was declared before the start.
    pub is_recovered: bool,
    /// As in the store, and how many writes have put each.
    entries: Mutex<BTreeMap<Box<[u8]>, u32>>,
}

impl Index {
    /// The key of a row; whether a NULL makes it unlike every other.
    pub fn key_of(&self, cells: &[u8]) -> Result<(Vec<u8>, bool), EngineError> {
        let mut values = Vec::with_capacity(self.spec.key.len());
        self.wanted.read(cells, &mut values)?;
        let (mut key, mut is_apart) = (Vec::with_capacity(KEY_PART_BYTES * values.len()), false);
        for (n, (value, part)) in values.iter().zip(&self.spec.key).enumerate() {
            is_apart |= value.is_null() && self.spec.nulls.sets_apart(n);
            encode_part(&mut key, value, part);
        }
        Ok((key, is_apart))
    }

    pub fn id(&self) -> IndexId {
        self.spec.id
    }

    pub fn has_column(&self, id: ColumnId) -> bool {
        self.spec.key.iter().any(|part| part.column == id)
    }

    pub fn entry(&self, key: &[u8], rid: RowId) -> Vec<u8> {
        keys::entry(&self.prefix, key, rid)
    }

    /// An entry of a write that is not in the store.
    pub fn enter(&self, entry: &[u8]) {
        *self.entries.lock().entry(entry.into()).or_default() += 1;
    }

    /// The write is in the store, or is not one any more.
    pub fn leave(&self, entry: &[u8]) {
        let mut entries = self.entries.lock();
        let count = entries.get_mut(entry).expect("who leaves has entered");
        *count -= 1;
        if *count == 0 {
            entries.remove(entry);
        }
    }

    /// At most so many entries at or above `from` and below `to`.
    pub fn some(&self, from: &[u8], to: &[u8], backward: bool, most: usize) -> Vec<Box<[u8]>> {
        let entries = self.entries.lock();
        if entries.is_empty() || from >= to {
            return Vec::new();
        }
        let range = entries.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        match backward {
            false => range.take(most).map(|(entry, _)| entry.clone()).collect(),
            true => range.rev().take(most).map(|(entry, _)| entry.clone()).collect(),
        }
    }

    /// Where the entries of a range of keys are; all there are not in it.
    pub fn bounds(&self, range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
        // No key is longer, so the beginning of one that is bounds the same.
        let most = keys::longest_key() + 1;
        let with = |key: &[u8], rest: &[u8]| {
            [&self.prefix[..], &key[..key.len().min(most)], rest].concat()
        };
        let from = match &range.lower {
            Bound::Included(key) | Bound::Excluded(key) => with(key, &[]),
            Bound::Unbounded => with(&[], &[]),
        };
        let to = match &range.upper {
            // Behind every row.
            Bound::Included(key) => with(key, &[0xFF; 9]),
            Bound::Excluded(key) => with(key, &[]),
            Bound::Unbounded => {
                froglet_engine::key::successor(&self.prefix).expect("a prefix has a successor")
            }
        };
        (from, to)
    }
}

/// Keys that a write gives to a row, each with its index, its entry, and whether it must be the only one.
pub(crate) type NewKeys = SmallVec<[(Arc<Index>, Vec<u8>, bool); 4]>;
