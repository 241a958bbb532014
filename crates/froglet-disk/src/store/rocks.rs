//! The store over RocksDB, a database of its own for each tree: to measure the other one by, not for a server.
//!
//! ```text
//!   put, remove ─▶ gather: open ── rotate ─▶ sealed ── flush ─▶ a sorted file ── ingested ─▶ levels ── RocksDB compacts
//! ```
//! **[R1]** RocksDB writes to files what it has in memory when it wants to, and has no way to seal it without writing it; the
//! engine says when, and that only what was put before is written. So what is put gathers before RocksDB, and gets there
//! as a file that is sorted, synced and taken in as a whole. Its own memory is empty, and nothing goes to its log.
//! **[R2]** Who reads takes what has gathered first and looks at the files then; what is flushed is taken in before it is forgotten.
//! **[R3]** A file that is written is no file of a database before it is taken in: a flush that fails leaves all as it was.
//! **[R4]** RocksDB compacts on a thread of its own, and does not stop writers; that is left to `is_crowded`. When a compaction
//! has met a file that is not as it was written, RocksDB takes nothing in any more; reads go on.
//! **[R5]** A directory belongs to the store that has made it: `rows.rocksdb` is RocksDB's, and the file `rows` beside it
//! is where `lsm-tree` finds that it cannot be used.

mod gather;

use std::io;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use froglet_engine::{EngineError, EngineFigures, Home, SqlState, Vacuum};
use rocksdb::properties::{LIVE_SST_FILES_SIZE, num_files_at_level};
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, CompactOptions, DB, DBCompressionType,
    DBRawIterator, ErrorKind, IngestExternalFileOptions, LiveFile, LogLevel, Options, ReadOptions,
    SstFileWriter, WaitForCompactOptions,
};

use super::{
    FILE_BYTES, REMOVED_MANY, RUNS_CROWDED, RUNS_MAX, SlowReads, Store, Tree, Visit, is_worth_it,
};
use gather::{Entries, Entry, Gathered, Map};

/// Bits of a filter for each key, as `lsm-tree` has them.
const FILTER_BITS: f64 = 10.0;
/// A compaction is waited for so long before its thread looks for other work.
const COMPACTION_WAIT: Duration = Duration::from_millis(200);
/// Less has no shard of RocksDB's cache.
const CACHE_BYTES_MIN: u64 = 64 << 10;
/// What `lsm-tree` finds in its place [R5].
const NOT_HERE: &str = "These tables are in directories beside this file, of RocksDB.\n";

/// See the module.
pub struct RocksStore {
    rows: One,
    history: One,
    index: One,
    cache: Cache,
    cache_bytes: u64,
    reads: Arc<SlowReads>,
    is_crowded: AtomicBool,
    /// Bytes that were put, and are in memory no more.
    flushed_bytes: AtomicU64,
    /// Bytes of files that were taken in.
    ingested_bytes: AtomicU64,
}

struct One {
    db: DB,
    options: Options,
    read: ReadOptions,
    /// Its directory.
    name: String,
    /// Where the next file is written before it is taken in [R3].
    new_file: PathBuf,
    gathered: Gathered,
}

/// Where a tree is [R5].
fn own_dir(dir: &Path, tree: Tree) -> PathBuf {
    dir.join(format!("{}.rocksdb", tree.name()))
}

impl RocksStore {
    /// The file that says which others a tree has.
    pub(crate) fn current(dir: &Path, tree: Tree) -> PathBuf {
        own_dir(dir, tree).join("CURRENT")
    }

    /// Opens what `dir` has, or begins; its blocks, indexes and filters in memory take so many bytes.
    pub fn open(
        dir: &Path,
        cache_bytes: u64,
        reads: Arc<SlowReads>,
    ) -> Result<RocksStore, EngineError> {
        let cache_bytes = cache_bytes.max(CACHE_BYTES_MIN);
        // A guess of what a block takes is not needed: 0.
        let cache = Cache::new_hyper_clock_cache(cache_bytes as usize, 0);
        Ok(RocksStore {
            rows: One::open(dir, Tree::Rows, &cache)?,
            history: One::open(dir, Tree::History, &cache)?,
            index: One::open(dir, Tree::Index, &cache)?,
            cache,
            cache_bytes,
            reads,
            is_crowded: AtomicBool::new(false),
            flushed_bytes: AtomicU64::new(0),
            ingested_bytes: AtomicU64::new(0),
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

    fn count_runs(&self) {
        let is_crowded = self.all().iter().any(|one| one.first_runs() >= RUNS_CROWDED as u64);
        self.is_crowded.store(is_crowded, Ordering::Relaxed);
    }
}

fn options(cache: &Cache) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_size(4096);
    blocks.set_block_cache(cache);
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    blocks.set_bloom_filter(FILTER_BITS, false);
    blocks.set_format_version(6);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_per_level(&[DBCompressionType::None, DBCompressionType::Lz4]);
    options.set_target_file_size_base(FILE_BYTES);
    options.set_level_zero_file_num_compaction_trigger(RUNS_MAX as i32);
    // Who is to wait waits for `is_crowded` [R4].
    options.set_level_zero_slowdown_writes_trigger(i32::MAX);
    options.set_level_zero_stop_writes_trigger(i32::MAX);
    options.set_soft_pending_compaction_bytes_limit(0);
    options.set_hard_pending_compaction_bytes_limit(0);
    options.set_max_background_jobs(2);
    options.set_log_level(LogLevel::Warn);
    options.set_keep_log_file_num(1);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    options
}

impl One {
    fn open(dir: &Path, tree: Tree, cache: &Cache) -> Result<One, EngineError> {
        let own = own_dir(dir, tree);
        let name = own.display().to_string();
        let place = dir.join(tree.name());
        if place.is_dir() {
            return Err(EngineError::Refused {
                state: SqlState::IO_ERROR,
                message: format!(
                    "tables on disk ({}) were written by another store; use a program without RocksDB",
                    place.display()
                ),
            });
        }
        let io_failed = |error| super::io_failed(&name, error);
        std::fs::create_dir_all(dir).map_err(io_failed)?;
        std::fs::write(&place, NOT_HERE).map_err(io_failed)?;
        let new_file = dir.join(format!("{}.new", tree.name()));
        match std::fs::remove_file(&new_file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_failed(error)),
            _ => {}
        }
        let options = options(cache);
        let db = DB::open(&options, &own).map_err(|error| failed(&name, error))?;
        let (read, gathered) = (ReadOptions::default(), Gathered::default());
        Ok(One { db, options, read, name, new_file, gathered })
    }

    fn result<T>(&self, result: Result<T, rocksdb::Error>) -> Result<T, EngineError> {
        result.map_err(|error| failed(&self.name, error))
    }

    /// Files of the first level, of which each may have any key.
    fn first_runs(&self) -> u64 {
        self.db.property_int_value(num_files_at_level(0)).ok().flatten().unwrap_or(0)
    }

    fn files(&self) -> Vec<LiveFile> {
        self.db.live_files().unwrap_or_default()
    }

    fn is_mostly_removed(&self) -> bool {
        let sum = |of: fn(&LiveFile) -> u64| self.files().iter().map(of).sum::<u64>();
        let (removed, all) = (sum(|file| file.num_deletions), sum(|file| file.num_entries));
        removed > REMOVED_MANY && 3 * removed > all
    }

    /// At most so many keys of the files that have some of these ranges are removals, or are removed or put again in others;
    /// and how many keys all files have.
    fn superseded(&self, ranges: &[([u8; 4], [u8; 4])]) -> (u64, u64) {
        // By level, the newest of the first level first: of the last level, or the last file, nothing is superseded.
        let mut files = self.files();
        files.sort_by_key(|file| file.level);
        let last = files.last().map_or(0, |file| file.level);
        let oldest = match last {
            0 => files.len().saturating_sub(1),
            _ => files.partition_point(|file| file.level < last),
        };
        let is_of_ranges = |file: &LiveFile| {
            let (Some(first), Some(last)) = (&file.start_key, &file.end_key) else { return true };
            ranges.iter().any(|(from, to)| last[..] >= from[..] && first[..] < to[..])
        };
        let all = files.iter().map(|file| file.num_entries).sum();
        let in_ranges = files.iter().enumerate().filter(|(_, file)| is_of_ranges(file));
        let superseded = in_ranges.map(|(at, file)| match at < oldest {
            true => file.num_entries,
            false => file.num_deletions,
        });
        (superseded.sum(), all)
    }

    /// Writes again all files that have keys from one to another, or all.
    fn compact_whole(&self, range: Option<&([u8; 4], [u8; 4])>) -> Result<(), EngineError> {
        let mut how = CompactOptions::default();
        how.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        let (from, to) = (range.map(|range| range.0), range.map(|range| range.1));
        // It does not say whether it has failed; the database remembers that.
        self.db.compact_range_opt(from, to, &how);
        self.wait_for_compactions().map(drop)
    }

    /// Whether all are done. Fails if one has.
    fn wait_for_compactions(&self) -> Result<bool, EngineError> {
        let mut how = WaitForCompactOptions::default();
        how.set_timeout(COMPACTION_WAIT.as_micros() as u64);
        match self.db.wait_for_compact(&how) {
            Err(error) if error.kind() == ErrorKind::TimedOut => Ok(false),
            result => self.result(result).map(|()| true),
        }
    }

    /// Takes a map into the database as a file of so many bytes [R3].
    fn write(&self, map: &Map) -> Result<u64, EngineError> {
        let mut options = self.options.clone();
        // As what RocksDB would flush.
        options.set_compression_per_level(&[DBCompressionType::None]);
        options.set_compression_type(DBCompressionType::None);
        let written = || -> Result<u64, rocksdb::Error> {
            let mut file = SstFileWriter::create(&options);
            file.open(&self.new_file)?;
            for entry in map.iter() {
                match entry.value() {
                    Some(value) => file.put(entry.key(), value)?,
                    None => file.delete(entry.key())?,
                }
            }
            file.finish()?;
            let bytes = file.file_size();
            let mut how = IngestExternalFileOptions::default();
            how.set_move_files(true);
            self.db.ingest_external_file_opts(&how, vec![&self.new_file])?;
            Ok(bytes)
        };
        self.result(written())
    }

    fn ticker(&self, ticker: Ticker) -> u64 {
        self.options.get_ticker_count(ticker)
    }
}

/// The engine's error for one of a database. RocksDB tells why a file could not be written in words only.
fn failed(name: &str, error: rocksdb::Error) -> EngineError {
    let what = error.to_string();
    match error.kind() {
        ErrorKind::Corruption => super::corrupt(name, &what),
        ErrorKind::NotSupported | ErrorKind::InvalidArgument => EngineError::Refused {
            state: SqlState::IO_ERROR,
            message: format!(
                "tables on disk ({name}) are not what this program reads: {what}; use the program that wrote them"
            ),
        },
        _ => {
            let is_full = ["No space left", "Disk quota exceeded", "File too large"]
                .iter()
                .any(|words| what.contains(words));
            let kind = if is_full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
            super::io_failed(name, io::Error::new(kind, what))
        }
    }
}

/// What is in a range, of everything that may have it.
struct Merge<'a> {
    /// Newest first.
    gathered: Vec<Peekable<Entries<'a>>>,
    files: DBRawIterator<'a>,
    from: &'a [u8],
    backward: bool,
    files_at: Place,
}

/// Where the files are.
#[derive(Clone, Copy)]
enum Place {
    /// They were not asked yet.
    Before,
    /// At the next key, or at the end.
    At,
    /// At a key that has had its turn.
    Behind,
}

impl<'a> Merge<'a> {
    fn new(
        one: &'a One,
        maps: &'a [Arc<Map>],
        (from, to): (&'a [u8], &'a [u8]),
        backward: bool,
    ) -> Merge<'a> {
        let gathered = maps.iter().map(|map| map.range(from, to, backward).peekable()).collect();
        let mut read = ReadOptions::default();
        read.set_iterate_lower_bound(from);
        read.set_iterate_upper_bound(to);
        let files = one.db.raw_iterator_opt(read);
        Merge { gathered, files, from, backward, files_at: Place::Before }
    }

    fn move_files(&mut self) {
        match (self.files_at, self.backward) {
            (Place::At, _) => {}
            (Place::Before, false) => self.files.seek(self.from),
            (Place::Before, true) => self.files.seek_to_last(),
            (Place::Behind, false) => self.files.next(),
            (Place::Behind, true) => self.files.prev(),
        }
        self.files_at = Place::At;
    }

    /// Visits the next key that was not removed. Whether there may be more.
    fn step(&mut self, visit: &mut Visit<'_>) -> Result<bool, rocksdb::Error> {
        loop {
            self.move_files();
            let file = self.files.item();
            if file.is_none() {
                self.files.status()?;
            }
            let is_before = |a: &[u8], b: &[u8]| if self.backward { a > b } else { a < b };
            // Of the newest that has it, the next key.
            let mut next: Option<Entry<'_>> = None;
            for map in &mut self.gathered {
                let is_next = map.peek().is_some_and(|entry| {
                    next.as_ref().is_none_or(|next| is_before(entry.key(), next.key()))
                });
                if is_next {
                    next = map.peek().map(Entry::again);
                }
            }
            let Some(next) = next else {
                let Some((key, value)) = file else { return Ok(false) };
                self.files_at = Place::Behind;
                return Ok(visit(key, value));
            };
            if let Some((key, value)) = file {
                if is_before(key, next.key()) {
                    self.files_at = Place::Behind;
                    return Ok(visit(key, value));
                }
                if key == next.key() {
                    self.files_at = Place::Behind;
                }
            }
            for map in &mut self.gathered {
                map.next_if(|entry| entry.key() == next.key());
            }
            if let Some(value) = next.value() {
                return Ok(visit(next.key(), &value));
            }
        }
    }
}

impl Store for RocksStore {
    fn put(&self, tree: Tree, key: &[u8], value: &[u8]) {
        self.one(tree).gathered.set(key, Some(value.into()));
    }

    fn remove(&self, tree: Tree, key: &[u8]) {
        self.one(tree).gathered.set(key, None);
    }

    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        let one = self.one(tree);
        self.reads.read(|| {
            if let Some(value) = one.gathered.get(key) {
                return Ok(value.map(|value| value.to_vec()));
            }
            let found = one.result(one.db.get_pinned_opt(key, &one.read))?; // [R2]
            Ok(found.map(|value| value.to_vec()))
        })
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
        let maps = one.gathered.maps(); // [R2]
        let mut merge = Merge::new(one, &maps, (from, to), backward);
        self.reads.each(|| one.result(merge.step(visit)))
    }

    fn memory_bytes(&self) -> u64 {
        self.all().iter().map(|one| one.gathered.bytes()).sum()
    }

    fn wants_flush(&self, gather_bytes: u64) -> bool {
        self.memory_bytes() > gather_bytes
            || self.all().iter().any(|one| one.gathered.removed() > REMOVED_MANY)
    }

    fn rotate(&self) {
        // The other way round than what is put: what is in the rows' files has its history and its entries in theirs.
        Tree::IN_ORDER.iter().rev().for_each(|tree| self.one(*tree).gathered.seal());
    }

    fn flush(&self) -> Result<(), EngineError> {
        for one in self.all() {
            while let Some(sealed) = one.gathered.sealed() {
                let written = one.write(&sealed)?;
                self.ingested_bytes.fetch_add(written, Ordering::Relaxed);
                self.flushed_bytes.fetch_add(sealed.bytes(), Ordering::Relaxed);
                one.gathered.forget(&sealed);
            }
        }
        self.count_runs();
        Ok(())
    }

    fn figures(&self) -> EngineFigures {
        let sum = |of: &dyn Fn(&One) -> u64| Some(self.all().into_iter().map(of).sum::<u64>());
        let ticker = |ticker| sum(&|one| one.ticker(ticker));
        let runs = |one: &One| {
            let levels: std::collections::BTreeSet<i32> =
                one.files().iter().map(|file| file.level).filter(|level| *level > 0).collect();
            levels.len() as u64 + one.first_runs()
        };
        let history = &self.history;
        let versions = history.files().iter().map(|file| file.num_entries).sum::<u64>()
            + history.gathered.maps().iter().map(|map| map.len()).sum::<u64>();
        let (unwritten, cached) = (self.memory_bytes(), self.cache.get_usage() as u64);
        EngineFigures {
            home: Home::Disk,
            memory_bytes: unwritten + cached,
            unwritten_bytes: Some(unwritten),
            cache_bytes: Some(cached),
            cache_limit_bytes: Some(self.cache_bytes),
            files: sum(&|one| one.files().len() as u64),
            file_bytes: sum(&|one| {
                one.db.property_int_value(LIVE_SST_FILES_SIZE).ok().flatten().unwrap_or(0)
            }),
            runs: self.all().into_iter().map(runs).max(),
            versions: Some(versions),
            cache_hits: ticker(Ticker::BlockCacheHit),
            cache_misses: ticker(Ticker::BlockCacheMiss),
            put_bytes: Some(self.flushed_bytes.load(Ordering::Relaxed) + unwritten),
            written_bytes: ticker(Ticker::CompactWriteBytes)
                .map(|bytes| bytes + self.ingested_bytes.load(Ordering::Relaxed)),
            ..EngineFigures::default()
        }
    }

    fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    fn compact(&self) -> Result<bool, EngineError> {
        let mut more = false;
        for one in self.all() {
            if one.is_mostly_removed() {
                one.compact_whole(None)?;
            }
            more |= !one.wait_for_compactions()?;
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
                ranges.iter().try_for_each(|range| one.compact_whole(Some(range)))?;
                self.count_runs();
            }
        }
        Ok(())
    }

    fn remove_range(&self, tree: Tree, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        let one = self.one(tree);
        // The library's ends are part of a range.
        if let Some(last) = below(to).filter(|last| &last[..] >= from) {
            one.result(one.db.delete_file_in_range(from, &last))?;
        }
        super::remove_keys(self, tree, from, to)
    }
}

/// A key that is below another one, and not far.
fn below(key: &[u8]) -> Option<Vec<u8>> {
    let (last, first) = key.split_last()?;
    let mut below = first.to_vec();
    if let Some(less) = last.checked_sub(1) {
        below.push(less);
        below.extend([0xFF; 32]);
    }
    Some(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::LsmStore;

    fn reads() -> Arc<SlowReads> {
        SlowReads::new(|work| work(), Duration::ZERO)
    }

    fn open(dir: &Path) -> RocksStore {
        RocksStore::open(dir, 1 << 20, reads()).expect("a directory of RocksDB")
    }

    fn flush(store: &RocksStore) {
        store.rotate();
        store.flush().expect("it is written");
    }

    fn compact(store: &RocksStore) {
        while store.compact().expect("it is compacted") {}
    }

    fn key(range: u64, n: u64) -> [u8; 8] {
        (range << 32 | n).to_be_bytes()
    }

    /// [R5], from both sides.
    #[test]
    fn a_directory_belongs_to_the_store_that_has_made_it() {
        let dir = tempfile::tempdir().expect("a directory");
        drop(open(dir.path()));
        drop(open(dir.path()));
        assert!(LsmStore::open(dir.path(), 1 << 20, reads()).is_err());
        let dir = tempfile::tempdir().expect("a directory");
        drop(LsmStore::open(dir.path(), 1 << 20, reads()).expect("a new directory"));
        let refused = RocksStore::open(dir.path(), 1 << 20, reads()).map(drop);
        assert!(matches!(refused, Err(EngineError::Refused { .. })), "{refused:?}");
    }

    #[test]
    fn removals_leave_the_files_when_they_are_most_of_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path());
        let many = 2 * REMOVED_MANY;
        (0..many).for_each(|n| store.put(Tree::Index, &key(0, n), &[]));
        flush(&store);
        (0..many).filter(|n| n % 4 > 0).for_each(|n| store.remove(Tree::Index, &key(0, n)));
        assert!(store.wants_flush(u64::MAX), "many removals are in memory");
        flush(&store);
        assert!(!store.wants_flush(u64::MAX));
        assert!(store.index.is_mostly_removed());
        compact(&store);
        let sum = |of: fn(&LiveFile) -> u64| store.index.files().iter().map(of).sum::<u64>();
        assert_eq!((sum(|file| file.num_deletions), sum(|file| file.num_entries)), (0, many / 4));
    }

    #[test]
    fn files_of_ranges_are_written_again_where_that_may_free_something() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path());
        let vacuum = |first: u32, extent| {
            let before = store.figures().written_bytes;
            let range = (first.to_be_bytes(), (first + 1).to_be_bytes());
            store.compact_ranges(&[range], extent).expect("files are written");
            store.figures().written_bytes > before
        };
        let (full, some) = (Vacuum::Everything, Vacuum::Worthwhile);
        assert!(!vacuum(1, full), "there is nothing");
        for range in [1, 3] {
            (0..1_000).for_each(|n| store.put(Tree::Rows, &key(range, n), &[7; 100]));
            flush(&store);
        }
        compact(&store);
        vacuum(1, full);
        assert!(!vacuum(1, full) && !vacuum(3, full), "every key is there once");
        (0..50).for_each(|n| store.remove(Tree::Rows, &key(1, n)));
        flush(&store);
        assert!(!vacuum(1, some), "a fortieth is not worth it");
        assert!(!vacuum(5, full) && !vacuum(0, full), "it is in other ranges");
        (50..1_000).for_each(|n| store.put(Tree::Rows, &key(1, n), b"new"));
        flush(&store);
        assert!(vacuum(1, some) && !vacuum(1, full));
        assert_eq!(store.rows.files().iter().map(|file| file.num_entries).sum::<u64>(), 1_950);
    }

    #[test]
    fn what_is_below_a_key_is_not_far() {
        for key in [&[1][..], &[1, 0], &[0, 0, 0, 7], &[0xFF]] {
            let below = below(key).expect("there is something");
            assert!(&below[..] < key, "{below:?}");
        }
        assert_eq!(below(&[]), None);
        assert_eq!(below(&[3, 0]), Some(vec![3]));
    }
}
