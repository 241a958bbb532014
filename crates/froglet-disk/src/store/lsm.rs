//! The store over `lsm-tree`.
//!
//! **[L1]** Its sequence numbers are private: a counter for each tree, which says in which order one key was put. Every read
//! asks for the newest. (Snapshots that are kept do not survive its compaction, fjall-rs/lsm-tree#321.)
//! Nothing older is kept, neither of a key nor of the tree: the threshold of what may go is above every number.
//! **[L2]** After opening, the counter is above every number in the files: what is put then is newer than what is there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use froglet_engine::{EngineError, EngineFigures, Home, SqlState, Vacuum};
use lsm_tree::compaction::Leveled;
use lsm_tree::config::{BlockSizePolicy, CompressionPolicy};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, Guard, SequenceNumberCounter, Table,
};

use parking_lot::Mutex;

use super::{
    FILE_BYTES, REMOVED_MANY, RUNS_CROWDED, RUNS_MAX, SlowReads, Store, Tree, Visit, is_worth_it,
};

/// Above every number.
const NEWEST: u64 = u64::MAX;

/// See the module.
pub struct LsmStore {
    rows: One,
    history: One,
    index: One,
    cache: Arc<Cache>,
    reads: Arc<SlowReads>,
    is_crowded: AtomicBool,
    /// Bytes that were put, and are in memory no more.
    flushed_bytes: AtomicU64,
    /// Bytes of files that were written: flushed, and again by compactions.
    written_bytes: AtomicU64,
}

struct One {
    tree: AnyTree,
    /// Its directory.
    name: String,
    next: SequenceNumberCounter,
    memory_bytes: AtomicU64,
    /// Removals since the last rotation.
    removed: AtomicU64,
    /// Numbers of the files that there were last.
    files: Mutex<HashSet<u64>>,
}

impl LsmStore {
    /// The file that says which others a tree has.
    #[cfg(not(feature = "rocksdb"))]
    pub(crate) fn current(dir: &Path, tree: Tree) -> PathBuf {
        dir.join(tree.name()).join("current")
    }

    /// Opens what `dir` has, or begins; its blocks in memory take so many bytes.
    pub fn open(
        dir: &Path,
        cache_bytes: u64,
        reads: Arc<SlowReads>,
    ) -> Result<LsmStore, EngineError> {
        let cache = Arc::new(Cache::with_capacity_bytes(cache_bytes));
        Ok(LsmStore {
            rows: One::open(dir, Tree::Rows, &cache)?,
            history: One::open(dir, Tree::History, &cache)?,
            index: One::open(dir, Tree::Index, &cache)?,
            cache,
            reads,
            is_crowded: AtomicBool::new(false),
            flushed_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
        })
    }

    fn one(&self, tree: Tree) -> &One {
        match tree {
            Tree::Rows => &self.rows,
            Tree::History => &self.history,
            Tree::Index => &self.index,
        }
    }

    fn all(&self) -> [&One; 3] {
        Tree::IN_ORDER.map(|tree| self.one(tree))
    }

    /// A tree's files have changed.
    fn count_files(&self, one: &One) {
        self.written_bytes.fetch_add(one.new_file_bytes(), Ordering::Relaxed);
    }

    fn count_runs(&self) {
        let is_crowded = self.all().iter().any(|one| one.tree.l0_run_count() >= RUNS_CROWDED);
        self.is_crowded.store(is_crowded, Ordering::Relaxed);
    }
}

impl One {
    fn open(dir: &Path, tree: Tree, cache: &Arc<Cache>) -> Result<One, EngineError> {
        let (dir, next) = (dir.join(tree.name()), SequenceNumberCounter::default());
        let name = dir.display().to_string();
        let config = Config::new(dir, next.clone(), SequenceNumberCounter::default())
            .use_cache(Arc::clone(cache))
            .data_block_compression_policy(CompressionPolicy::new([
                CompressionType::None,
                CompressionType::Lz4,
            ]))
            .data_block_size_policy(BlockSizePolicy::all(4096));
        let opened = config.open().map_err(|error| failed(&name, error))?;
        next.fetch_max(opened.get_highest_persisted_seqno().map_or(1, |newest| newest + 1)); // [L2]
        let one = One {
            tree: opened,
            name,
            next,
            memory_bytes: AtomicU64::new(0),
            removed: AtomicU64::new(0),
            files: Mutex::default(),
        };
        one.new_file_bytes();
        Ok(one)
    }

    /// What files have that were not there the last time; not those that have come and gone.
    fn new_file_bytes(&self) -> u64 {
        let version = self.tree.current_version();
        let now: HashSet<u64> = version.iter_tables().map(|file| file.id()).collect();
        let mut known = self.files.lock();
        let new = version.iter_tables().filter(|file| !known.contains(&file.id()));
        let bytes = new.map(|file| file.metadata.file_size).sum();
        *known = now;
        bytes
    }

    fn is_mostly_removed(&self) -> bool {
        let (removed, all) = (self.tree.tombstone_count(), self.tree.approximate_len() as u64);
        removed > REMOVED_MANY && 3 * removed > all
    }

    /// At most so many keys of the files that have some of these ranges are removals, or are removed or put again in others;
    /// and how many keys all files have.
    fn superseded(&self, ranges: &[([u8; 4], [u8; 4])]) -> (u64, u64) {
        let version = self.tree.current_version();
        let is_of_ranges = |file: &Table| {
            let keys = &file.metadata.key_range;
            ranges.iter().any(|(from, to)| keys.max()[..] >= from[..] && keys.min()[..] < to[..])
        };
        // Of one run each key is in one file; the oldest is the deepest.
        let runs: Vec<_> = version.iter_levels().flat_map(|level| level.iter()).collect();
        let (oldest, newer) = match runs.split_last() {
            Some((oldest, newer)) => (oldest.iter(), newer),
            None => return (0, 0),
        };
        let newer = newer.iter().flat_map(|run| run.iter()).filter(|file| is_of_ranges(file));
        let oldest = oldest.filter(|file| is_of_ranges(file));
        let superseded = newer.map(|file| file.metadata.item_count).sum::<u64>()
            + oldest.map(Table::tombstone_count).sum::<u64>();
        (superseded, version.iter_tables().map(|file| file.metadata.item_count).sum())
    }

    fn result<T>(&self, result: lsm_tree::Result<T>) -> Result<T, EngineError> {
        result.map_err(|error| failed(&self.name, error))
    }
}

/// The engine's error for one of a tree.
fn failed(name: &str, error: lsm_tree::Error) -> EngineError {
    match error {
        lsm_tree::Error::Io(error) => super::io_failed(name, error),
        lsm_tree::Error::InvalidVersion(version) => EngineError::Refused {
            state: SqlState::IO_ERROR,
            message: format!(
                "tables on disk ({name}) have format version {version}, which this program does not read; use the program that wrote them"
            ),
        },
        error => super::corrupt(name, &format!("{error:?}")),
    }
}

impl Store for LsmStore {
    fn put(&self, tree: Tree, key: &[u8], value: &[u8]) {
        let one = self.one(tree);
        let (bytes, _) = one.tree.insert(key, value, one.next.next());
        one.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn remove(&self, tree: Tree, key: &[u8]) {
        let one = self.one(tree);
        let (bytes, _) = one.tree.remove(key, one.next.next());
        one.removed.fetch_add(1, Ordering::Relaxed);
        one.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        let one = self.one(tree);
        let found = self.reads.read(|| one.tree.get(key, NEWEST));
        Ok(one.result(found)?.map(|value| value.to_vec()))
    }

    fn range(
        &self,
        tree: Tree,
        from: &[u8],
        to: &[u8],
        backward: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        if from >= to {
            return Ok(());
        }
        let one = self.one(tree);
        let mut range = one.tree.range(from..to, NEWEST, None);
        self.reads.each(|| {
            let next = if backward { range.next_back() } else { range.next() };
            let Some(next) = next else { return Ok(false) };
            let (key, value) = one.result(next.into_inner())?;
            Ok(visit(&key, &value))
        })
    }

    fn memory_bytes(&self) -> u64 {
        self.all().iter().map(|one| one.memory_bytes.load(Ordering::Relaxed)).sum()
    }

    fn wants_flush(&self, gather_bytes: u64) -> bool {
        let has_removed = |one: &&One| one.removed.load(Ordering::Relaxed) > REMOVED_MANY;
        self.memory_bytes() > gather_bytes || self.all().iter().any(has_removed)
    }

    fn rotate(&self) {
        // The other way round than what is put: what is in the rows' files has its history and its entries in theirs.
        for tree in Tree::IN_ORDER.iter().rev() {
            let one = self.one(*tree);
            one.removed.store(0, Ordering::Relaxed);
            one.tree.rotate_memtable();
        }
    }

    fn flush(&self) -> Result<(), EngineError> {
        for one in self.all() {
            let lock = one.tree.get_flush_lock();
            let flushed = one.result(one.tree.flush(&lock, NEWEST))?.unwrap_or(0);
            let less = |bytes: u64| Some(bytes.saturating_sub(flushed));
            let was = one.memory_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            let gone = was.unwrap_or(0).min(flushed);
            self.flushed_bytes.fetch_add(gone, Ordering::Relaxed);
            self.count_files(one);
        }
        self.count_runs();
        Ok(())
    }

    fn figures(&self) -> EngineFigures {
        let sum = |of: fn(&AnyTree) -> u64| Some(self.all().iter().map(|one| of(&one.tree)).sum());
        // A key is in one file of a level, and in one of each run of the first.
        let runs = |one: &One| {
            (0..)
                .map_while(|level| one.tree.level_table_count(level))
                .skip(1)
                .filter(|n| *n > 0)
                .count()
                + one.tree.l0_run_count()
        };
        let (unwritten, cached) = (self.memory_bytes(), self.cache.size());
        EngineFigures {
            home: Home::Disk,
            memory_bytes: unwritten + cached,
            unwritten_bytes: Some(unwritten),
            cache_bytes: Some(cached),
            cache_limit_bytes: Some(self.cache.capacity()),
            files: sum(|tree| tree.table_count() as u64),
            file_bytes: sum(AnyTree::disk_space),
            runs: self.all().into_iter().map(|one| runs(one) as u64).max(),
            versions: Some(self.history.tree.approximate_len() as u64),
            cache_hits: sum(|tree| tree.metrics().block_load_cached_count() as u64),
            cache_misses: sum(|tree| tree.metrics().block_load_io_count() as u64),
            put_bytes: Some(self.flushed_bytes.load(Ordering::Relaxed) + unwritten),
            written_bytes: Some(self.written_bytes.load(Ordering::Relaxed)),
            ..EngineFigures::default()
        }
    }

    fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    fn compact(&self) -> Result<bool, EngineError> {
        let mut more = false;
        for one in self.all() {
            // No more than three keys are read for each that was removed since the last time.
            if one.is_mostly_removed() {
                one.result(one.tree.major_compact(FILE_BYTES, NEWEST))?;
            }
            let strategy = Leveled::default().with_table_target_size(FILE_BYTES);
            one.result(one.tree.compact(Arc::new(strategy), NEWEST))?;
            more |= one.tree.l0_run_count() >= RUNS_MAX;
            self.count_files(one);
            self.count_runs();
        }
        Ok(more)
    }

    fn compact_ranges(
        &self,
        ranges: &[([u8; 4], [u8; 4])],
        extent: Vacuum,
    ) -> Result<(), EngineError> {
        for one in self.all() {
            let (superseded, all) = one.superseded(ranges);
            if is_worth_it(extent, superseded, all) {
                // The library compacts no part of a tree that one can name.
                one.result(one.tree.major_compact(FILE_BYTES, NEWEST))?;
                self.count_files(one);
                self.count_runs();
            }
        }
        Ok(())
    }

    fn remove_range(&self, tree: Tree, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        let one = self.one(tree);
        one.result(one.tree.drop_range(from..to))?;
        super::remove_keys(self, tree, from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn key(n: u64) -> [u8; 8] {
        n.to_be_bytes()
    }

    fn open(dir: &Path) -> LsmStore {
        let reads = SlowReads::new(|work| work(), Duration::ZERO);
        LsmStore::open(dir, 1 << 20, reads).expect("a new directory")
    }

    fn flush(store: &LsmStore) {
        store.rotate();
        store.flush().expect("it is written");
    }

    /// What is flushed takes no memory, nor does what was flushed before.
    #[test]
    fn a_flush_gives_its_memory_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path());
        for _ in 0..2 {
            (0..1_000).for_each(|n| store.put(Tree::Rows, &key(n), &[7; 1_000]));
            assert!(store.memory_bytes() > 1_000_000 && store.wants_flush(1_000_000));
            flush(&store);
            assert_eq!(store.rows.tree.version_memtable_size_sum(), 0);
            assert_eq!(store.memory_bytes(), 0);
        }
    }

    /// Reads do not pass over what was removed for ever; what is there stays.
    #[test]
    fn removals_leave_the_files_when_they_are_most_of_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path());
        let many = 2 * REMOVED_MANY;
        (0..many).for_each(|n| store.put(Tree::Index, &key(n), &[]));
        flush(&store);
        while store.compact().expect("it is compacted") {}
        let is_removed = |n: u64| !n.is_multiple_of(4);
        for n in (0..many).filter(|n| is_removed(*n)) {
            assert!(!store.wants_flush(u64::MAX) || n > REMOVED_MANY);
            store.remove(Tree::Index, &key(n));
        }
        assert!(store.wants_flush(u64::MAX), "many removals are in memory");
        flush(&store);
        assert!(!store.wants_flush(u64::MAX));
        assert!(store.index.is_mostly_removed());
        // Put again, after the removal.
        store.put(Tree::Index, &key(1), b"again");
        while store.compact().expect("it is compacted") {}
        assert_eq!(store.index.tree.tombstone_count(), 0);
        assert_eq!(store.index.tree.table_count(), 1);
        for n in 0..many {
            let expected =
                if n == 1 { Some(b"again".to_vec()) } else { (!is_removed(n)).then(Vec::new) };
            assert_eq!(store.get(Tree::Index, &key(n)).expect("it is read"), expected, "{n}");
        }
    }

    /// What was removed, or put again, leaves the files where that is asked for and may free something.
    #[test]
    fn files_of_ranges_are_written_again_where_that_may_free_something() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path());
        let written = || store.figures().written_bytes.expect("it is counted");
        let vacuum = |first: u32, extent| {
            let before = written();
            let range = (first.to_be_bytes(), (first + 1).to_be_bytes());
            store.compact_ranges(&[range], extent).expect("files are written");
            written() > before
        };
        let key = |range: u64, n: u64| key(range << 32 | n);
        let (full, some) = (Vacuum::Everything, Vacuum::Worthwhile);
        assert!(!vacuum(1, full), "there is nothing");
        for range in [1, 3] {
            (0..1_000).for_each(|n| store.put(Tree::Rows, &key(range, n), &[7; 100]));
            flush(&store);
        }
        while store.compact().expect("it is compacted") {}
        vacuum(1, full);
        assert!(!vacuum(1, full) && !vacuum(3, full), "every key is there once");
        let bytes = store.figures().file_bytes;
        (0..50).for_each(|n| store.remove(Tree::Rows, &key(1, n)));
        flush(&store);
        assert!(!vacuum(1, some), "a fortieth is not worth it");
        assert!(!vacuum(5, full) && !vacuum(0, full), "it is in other ranges");
        (50..900).for_each(|n| store.remove(Tree::Rows, &key(1, n)));
        (900..1_000).for_each(|n| store.put(Tree::Rows, &key(1, n), b"new"));
        flush(&store);
        assert!(vacuum(1, some));
        assert!(store.figures().file_bytes < bytes && !vacuum(1, full));
        assert_eq!(store.rows.tree.tombstone_count(), 0);
        assert_eq!(store.rows.tree.approximate_len(), 1_100);
        assert_eq!(store.get(Tree::Rows, &key(1, 950)).expect("read"), Some(b"new".to_vec()));
    }

    /// Who writes faster than files are compacted waits.
    #[test]
    fn many_files_are_a_crowd_until_they_are_compacted() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path());
        for n in 0..RUNS_CROWDED as u64 {
            assert!(!store.is_crowded());
            store.put(Tree::History, &key(n), b"old");
            store.put(Tree::History, &key(1 << 40), &key(n));
            flush(&store);
        }
        assert!(store.is_crowded());
        while store.compact().expect("it is compacted") {}
        assert!(!store.is_crowded());
        let mut found = 0;
        let mut count = |_: &[u8], _: &[u8]| {
            found += 1;
            true
        };
        store.range(Tree::History, &key(0), &key(1 << 40), false, &mut count).expect("read");
        assert_eq!(found, RUNS_CROWDED);
        let newest = store.get(Tree::History, &key(1 << 40)).expect("it is read");
        assert_eq!(newest, Some(key(RUNS_CROWDED as u64 - 1).to_vec()));
    }
}
