//! What an engine says of itself to operators.

use crate::id::Home;

/// The state of a row space's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Blocks with versions that somebody may still need, or in which nothing is frozen yet.
    pub hot: u64,
    /// Blocks that are frozen in part, or wait to be.
    pub cooling: u64,
    /// Blocks of which every column is frozen.
    pub frozen: u64,
    /// Row ids that are free to be handed out again.
    pub free_rows: u64,
    /// Versions beside the newest ones.
    pub versions: u64,
    /// Of rows and their strings, indexes apart.
    pub bytes: u64,
    /// Of its indexes.
    pub index_bytes: u64,
    /// Columns of blocks in which equal strings are kept once.
    pub dictionaries: u64,
}

/// How an engine is doing; nothing where it does not have such a thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineFigures {
    /// Which.
    pub home: Home,
    /// Memory in use: rows and indexes, or what waits to be written and what is cached.
    pub memory_bytes: u64,
    /// What was written and is in no file but the log's.
    pub unwritten_bytes: Option<u64>,
    /// Blocks of files in memory.
    pub cache_bytes: Option<u64>,
    /// At most.
    pub cache_limit_bytes: Option<u64>,
    /// Files of tables.
    pub files: Option<u64>,
    /// Of these.
    pub file_bytes: Option<u64>,
    /// The most files in which one key may be.
    pub runs: Option<u64>,
    /// Versions beside the newest ones, about.
    pub versions: Option<u64>,
    /// Blocks that reads by a key found in the cache, since the start.
    pub cache_hits: Option<u64>,
    /// Blocks that were read from files, since the start.
    pub cache_misses: Option<u64>,
    /// Bytes of rows, versions and entries that were put, since the start.
    pub put_bytes: Option<u64>,
    /// Bytes of files that were written for them, by compactions again, since the start.
    pub written_bytes: Option<u64>,
    /// Pairs of timestamps of its timeline and the anchor's that are remembered.
    pub registry_entries: Option<u64>,
}
