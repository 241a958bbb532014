//! What an engine says of itself to operators.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

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
    /// Requests to servers that have its tables, since the start.
    pub requests: Option<u64>,
    /// Waits for the answers to these and for timestamps, one for those that are sent together, since the start.
    pub round_trips: Option<u64>,
}

/// A range of keys that one server of a distributed store leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionFigures {
    /// Its number in the store.
    pub id: u64,
    /// Its first key; empty: there is none before it.
    pub start: Vec<u8>,
    /// Behind its last key; empty: there is none behind it.
    pub end: Vec<u8>,
    /// About how many bytes it has, if that is known.
    pub bytes: Option<u64>,
    /// About how many keys, old versions among them.
    pub keys: Option<u64>,
    /// The number of the server that leads it, as far as that is known.
    pub leader: Option<u64>,
    /// Numbers of all servers that have it.
    pub peers: Vec<u64>,
}

/// Where the rows of a table and its entries are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRegions {
    /// The first key that it may have.
    pub start: Vec<u8>,
    /// Behind the last.
    pub end: Vec<u8>,
    /// What has these, in order.
    pub regions: Vec<RegionFigures>,
}

/// What a distributed store was asked under a view.
#[derive(Debug, Default)]
pub struct Asked {
    requests: AtomicU64,
    round_trips: AtomicU64,
    regions: Mutex<BTreeSet<u64>>,
}

impl Asked {
    /// A request to the leader of a region.
    pub fn add_request(&self, region: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.regions.lock().insert(region);
    }

    /// A wait for answers, one for those that are sent together.
    pub fn add_round_trip(&self) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests, waits for their answers, and how many regions they were for.
    pub fn figures(&self) -> (u64, u64, usize) {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (count(&self.requests), count(&self.round_trips), self.regions.lock().len())
    }
}
