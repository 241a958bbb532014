//! The store over `lsm-tree`.
//!
//! **[L1]** Its sequence numbers are private: a counter for each tree, which says in which order one key was put. Every read
//! asks for the newest. (Snapshots that are kept do not survive its compaction, fjall-rs/lsm-tree#321.)
//! Nothing older is kept, neither of a key nor of the tree: the threshold of what may go is above every number.
//! **[L2]** After opening, the counter is above every number in the files: what is put then is newer than what is there.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use froglet_engine::{EngineError, SqlState};
use lsm_tree::compaction::Leveled;
use lsm_tree::config::{BlockSizePolicy, CompressionPolicy};
use lsm_tree::{
    AbstractTree, AnyTree, Cache, CompressionType, Config, Guard, SequenceNumberCounter,
};

use super::{Store, Tree, Visit};

/// Runs of the first level at which a tree is compacted.
const RUNS_MAX: usize = 4;
const FILE_BYTES: u64 = 64 << 20;
/// Above every number.
const NEWEST: u64 = u64::MAX;
/// Keys that are held in memory to be removed.
const REMOVED_AT_ONCE: usize = 10_000;

/// See the module.
pub(crate) struct LsmStore {
    rows: One,
    history: One,
    index: One,
}

struct One {
    tree: AnyTree,
    /// Its directory.
    name: String,
    next: SequenceNumberCounter,
    memory_bytes: AtomicU64,
}

impl LsmStore {
    pub fn open(dir: &Path, cache_bytes: u64) -> Result<LsmStore, EngineError> {
        let cache = Arc::new(Cache::with_capacity_bytes(cache_bytes));
        Ok(LsmStore {
            rows: One::open(dir, Tree::Rows, &cache)?,
            history: One::open(dir, Tree::History, &cache)?,
            index: One::open(dir, Tree::Index, &cache)?,
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
        Ok(One { tree: opened, name, next, memory_bytes: AtomicU64::new(0) })
    }

    fn result<T>(&self, result: lsm_tree::Result<T>) -> Result<T, EngineError> {
        result.map_err(|error| failed(&self.name, error))
    }
}

/// The engine's error for one of a tree.
fn failed(name: &str, error: lsm_tree::Error) -> EngineError {
    match error {
        lsm_tree::Error::Io(error) if froglet_engine::env::is_disk_full(&error) => {
            EngineError::DiskFull(Arc::new(std::io::Error::new(
                error.kind(),
                format!(
                    "the disk is full: tables on disk ({name}) cannot be written; free space on its file system"
                ),
            )))
        }
        lsm_tree::Error::Io(error) => EngineError::Unusable {
            what: format!("tables on disk ({name}) cannot be read or written"),
            source: Arc::new(error),
        },
        lsm_tree::Error::InvalidVersion(version) => EngineError::Refused {
            state: SqlState::IO_ERROR,
            message: format!(
                "tables on disk ({name}) have format version {version}, which this program does not read; use the program that wrote them"
            ),
        },
        error => EngineError::Corrupt {
            file: format!("tables on disk ({name})"),
            offset: 0,
            what: format!("{error:?}; restore the data directory from a copy"),
        },
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
        one.memory_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        let one = self.one(tree);
        Ok(one.result(one.tree.get(key, NEWEST))?.map(|value| value.to_vec()))
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
        loop {
            let next = if backward { range.next_back() } else { range.next() };
            let Some(next) = next else { return Ok(()) };
            let (key, value) = one.result(next.into_inner())?;
            if !visit(&key, &value) {
                return Ok(());
            }
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.all().iter().map(|one| one.memory_bytes.load(Ordering::Relaxed)).sum()
    }

    fn rotate(&self) {
        // The other way round than what is put: what is in the rows' files has its history and its entries in theirs.
        for tree in Tree::IN_ORDER.iter().rev() {
            self.one(*tree).tree.rotate_memtable();
        }
    }

    fn flush(&self) -> Result<(), EngineError> {
        for one in self.all() {
            let lock = one.tree.get_flush_lock();
            let flushed = one.result(one.tree.flush(&lock, NEWEST))?.unwrap_or(0);
            let less = |bytes: u64| Some(bytes.saturating_sub(flushed));
            let _ = one.memory_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        Ok(())
    }

    fn compact(&self) -> Result<bool, EngineError> {
        let mut more = false;
        for one in self.all() {
            let strategy = Leveled::default().with_table_target_size(FILE_BYTES);
            one.result(one.tree.compact(Arc::new(strategy), NEWEST))?;
            more |= one.tree.l0_run_count() >= RUNS_MAX;
        }
        Ok(more)
    }

    fn remove_range(&self, tree: Tree, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        let one = self.one(tree);
        one.result(one.tree.drop_range(from..to))?;
        loop {
            let mut keys = Vec::new();
            self.range(tree, from, to, false, &mut |key, _| {
                keys.push(Box::<[u8]>::from(key));
                keys.len() < REMOVED_AT_ONCE
            })?;
            keys.iter().for_each(|key| self.remove(tree, key));
            if keys.len() < REMOVED_AT_ONCE {
                return Ok(());
            }
        }
    }
}
