//! Where rows, old versions and index entries lie: three ordered maps of bytes that are larger than memory.
//!
//! ```text
//!   put, remove ─▶ in memory ── rotate ─▶ sealed ── flush ─▶ files ── compact ─▶ fewer files
//!                     └──────────── get, range: the newest of each key ──────────┘
//! ```
//! A [`Store`] knows nothing of versions: each key has one value, the last one put. What is put is in memory only, until it
//! is flushed; nothing is flushed that was put after the last rotation. Files are checked when they are read: a byte that has
//! changed is an error, never another answer. Single rows and keys are remembered in front of it (`cached`). Below is
//! `lsm-tree` (`lsm`), or with the feature `rocksdb` RocksDB (`rocks`), for comparison.

mod cached;
#[cfg(test)]
mod contract;
mod entries;
mod lsm;
#[cfg(feature = "rocksdb")]
mod rocks;
mod slow_reads;

use std::path::Path;
use std::sync::Arc;

use froglet_engine::{EngineError, EngineFigures, Vacuum};

pub(crate) use cached::{Cached, Rids};
pub(crate) use entries::RANGE_LEFT_MAX;
pub use lsm::LsmStore;
#[cfg(feature = "rocksdb")]
pub use rocks::RocksStore;
pub use slow_reads::{Aside, SlowReads};

/// Where an engine has its maps.
#[cfg(not(feature = "rocksdb"))]
pub(crate) type Maps = LsmStore;
#[cfg(feature = "rocksdb")]
pub(crate) type Maps = RocksStore;

/// Runs of the first level at which a tree is compacted.
const RUNS_MAX: usize = 4;
/// Runs of the first level at which who writes waits for compactions.
const RUNS_CROWDED: usize = 32;
/// One of so many keys is to be freed, or files are not written again for it.
const WORTHWHILE: u64 = 10;
const FILE_BYTES: u64 = 64 << 20;
/// So many removals stay in memory, where reads pass over each; in files so many, or half of all else.
const REMOVED_MANY: u64 = 20_000;
/// Keys that are held in memory to be removed.
const REMOVED_AT_ONCE: usize = 10_000;

/// One of the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// The newest committed version of each row.
    Rows,
    /// Versions before it.
    History,
    /// Entries of indexes.
    Index,
}

impl Tree {
    /// What is put for a row is put in this order, and flushed in this order: a file with a row's new version is not
    /// there without its old one, and its entries.
    pub const IN_ORDER: [Tree; 3] = [Tree::History, Tree::Index, Tree::Rows];

    /// As which it is in files.
    pub fn name(self) -> &'static str {
        match self {
            Tree::Rows => "rows",
            Tree::History => "history",
            Tree::Index => "index",
        }
    }
}

/// What is visited of a range; false ends it.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> bool + 'a;

/// See the module.
pub trait Store: Send + Sync {
    /// From now on this key has this value.
    fn put(&self, tree: Tree, key: &[u8], value: &[u8]);
    /// From now on there is no such key.
    fn remove(&self, tree: Tree, key: &[u8]);
    /// The value that was put last, unless the key was removed.
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError>;
    /// Visits the keys at or above `from` and below `to`, ascending or descending.
    fn range(
        &self,
        tree: Tree,
        from: &[u8],
        to: &[u8],
        backward: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError>;
    /// Bytes that were put and are in memory only.
    fn memory_bytes(&self) -> u64;
    /// Whether that is much, or many of them are removals, which reads have to pass over.
    fn wants_flush(&self, gather_bytes: u64) -> bool;
    /// What is put from now on is not flushed by the next [`Store::flush`].
    fn rotate(&self);
    /// Puts what was there at the last rotation into files, durably.
    fn flush(&self) -> Result<(), EngineError>;
    /// How it is doing; versions are the keys of the history.
    fn figures(&self) -> EngineFigures;
    /// Whether there are so many files that who writes should wait until there are fewer.
    fn is_crowded(&self) -> bool;
    /// Makes fewer files, if there are too many, or if most of what they have was removed. Whether there may be more to do.
    fn compact(&self) -> Result<bool, EngineError>;
    /// Writes the files again that have keys of some ranges (from, to), if that may free something: what was removed, or
    /// put again.
    fn compact_ranges(
        &self,
        ranges: &[([u8; 4], [u8; 4])],
        extent: Vacuum,
    ) -> Result<(), EngineError>;
    /// Forgets every key at or above `from` and below `to`.
    fn remove_range(&self, tree: Tree, from: &[u8], to: &[u8]) -> Result<(), EngineError>;
}

/// An error if one of the maps that were written is not in `dir`, by the file that says what it has now: whoever opens
/// the maps makes those that he does not find.
pub(crate) fn expect_written(dir: &Path) -> Result<(), EngineError> {
    for tree in Tree::IN_ORDER {
        let current = Maps::current(dir, tree);
        let is_there = current.try_exists().map_err(|source| EngineError::Unusable {
            what: format!("tables on disk ({}) cannot be read", current.display()),
            source: Arc::new(source),
        })?;
        if !is_there {
            return Err(EngineError::Corrupt {
                file: format!("tables on disk ({})", dir.join(tree.name()).display()),
                offset: 0,
                what: "its files are not there; restore the data directory from a copy".into(),
            });
        }
    }
    Ok(())
}

/// Whether files are written again of which so many keys, of all, may go.
fn is_worth_it(extent: Vacuum, superseded: u64, all: u64) -> bool {
    match extent {
        Vacuum::Everything => superseded > 0,
        Vacuum::Worthwhile => superseded > 0 && WORTHWHILE * superseded >= all,
    }
}

/// Removes the keys at or above `from` and below `to` one by one.
fn remove_keys(store: &dyn Store, tree: Tree, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
    loop {
        let mut keys = Vec::new();
        store.range(tree, from, to, false, &mut |key, _| {
            keys.push(Box::<[u8]>::from(key));
            keys.len() < REMOVED_AT_ONCE
        })?;
        keys.iter().for_each(|key| store.remove(tree, key));
        if keys.len() < REMOVED_AT_ONCE {
            return Ok(());
        }
    }
}

/// The engine's error for one of the files of a tree.
fn io_failed(name: &str, error: std::io::Error) -> EngineError {
    match froglet_engine::env::is_disk_full(&error) {
        true => EngineError::DiskFull(Arc::new(std::io::Error::new(
            error.kind(),
            format!(
                "the disk is full: tables on disk ({name}) cannot be written; free space on its file system"
            ),
        ))),
        false => EngineError::Unusable {
            what: format!("tables on disk ({name}) cannot be read or written"),
            source: Arc::new(error),
        },
    }
}

/// The engine's error for files of a tree that are not as they were written.
fn corrupt(name: &str, what: &str) -> EngineError {
    EngineError::Corrupt {
        file: format!("tables on disk ({name})"),
        offset: 0,
        what: format!("{what}; restore the data directory from a copy"),
    }
}
