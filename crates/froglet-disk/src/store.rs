//! Where rows, old versions and index entries lie: three ordered maps of bytes that are larger than memory.
//!
//! ```text
//!   put, remove ─▶ in memory ── rotate ─▶ sealed ── flush ─▶ files ── compact ─▶ fewer files
//!                     └──────────── get, range: the newest of each key ──────────┘
//! ```
//! A [`Store`] knows nothing of versions: each key has one value, the last one put. What is put is in memory only, until it
//! is flushed; nothing is flushed that was put after the last rotation. Files are checked when they are read: a byte that has
//! changed is an error, never another answer. Single rows and keys are remembered in front of it (`cached`).

mod cached;
mod lsm;
mod slow_reads;

pub(crate) use cached::{Cached, Rids};
pub(crate) use lsm::LsmStore;
pub use slow_reads::Aside;
pub(crate) use slow_reads::SlowReads;

use froglet_engine::{EngineError, EngineFigures, Vacuum};

/// One of the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
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

    pub fn name(self) -> &'static str {
        match self {
            Tree::Rows => "rows",
            Tree::History => "history",
            Tree::Index => "index",
        }
    }
}

/// Whether the maps have been written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trees {
    /// Those that are not there are made.
    MayBeNew,
    /// They have what is not in the log any more: one that is not there is an error, and not an empty one.
    Known,
}

/// What is visited of a range; false ends it.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> bool + 'a;

/// See the module.
pub(crate) trait Store: Send + Sync {
    fn put(&self, tree: Tree, key: &[u8], value: &[u8]);
    fn remove(&self, tree: Tree, key: &[u8]);
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
