//! Old versions that only views need: in memory, for the moments until nobody sees them any more.
//!
//! ```text
//!   commit ─ a keeper needs the old version? its keys are no more? much is here already? ─ yes ─▶ history, in the store
//!               └──────────────────────── no ────────────────────────────▶ here ── no view is as old ──▶ gone
//!   reader   rows, if begin ≤ s ──▶ here ──▶ history
//! ```
//! As a rule a version is seen by nobody soon after it was replaced. To the store it would be a put, later a read and a
//! removal, and as many bytes in files as the row itself.
//!
//! **[N1] Gone with the server.** After a start there are no views, and what a keeper needs is known when a version is
//! replaced: keepers pin behind the gate, in the order of timestamps, and keep nothing as of a time before. So what is here
//! need not be durable.
//! **[N2] No entries of its own.** Its keys are those of the version that has replaced it, and nobody is putting values into
//! rows of its space that are no versions (migrations have feeds): whoever takes it away has no entries to take with it.
//! **[N3] Here first.** Nothing goes from here into the history; so of a row some versions are here and others there, each in
//! one of both, and a reader asks both for the one that began at or before his view and ended after it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use froglet_engine::{RowId, SpaceId};
use parking_lot::Mutex;

use crate::version::Version;

const SHARDS: usize = 64;
/// What a version takes beside its cells.
const OVERHEAD_BYTES: u64 = 96;

/// The old versions of one block by row and end.
type OfBlock = BTreeMap<(RowId, u64), Version>;
type Shard = HashMap<(SpaceId, u32), OfBlock, RandomState>;

/// See the module.
pub(crate) struct Recent {
    shards: Box<[Mutex<Shard>]>,
    bytes: AtomicU64,
    versions: AtomicU64,
    bytes_max: u64,
}

fn bytes_of(version: &Version) -> u64 {
    version.cells.len() as u64 + OVERHEAD_BYTES
}

impl Recent {
    pub fn new(bytes_max: u64) -> Recent {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Recent { shards, bytes: AtomicU64::new(0), versions: AtomicU64::new(0), bytes_max }
    }

    fn shard(&self, space: SpaceId, block: u32) -> &Mutex<Shard> {
        &self.shards[(space.0.wrapping_mul(31).wrapping_add(block)) as usize % SHARDS]
    }

    /// Whether there is room for a version, about: writers of several rows ask at the same time.
    pub fn has_room(&self, version: &Version) -> bool {
        self.bytes() + bytes_of(version) <= self.bytes_max
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn versions(&self) -> u64 {
        self.versions.load(Ordering::Relaxed)
    }

    /// A version that was the newest until `end`.
    pub fn put(&self, space: SpaceId, rid: RowId, end: u64, version: Version) {
        self.bytes.fetch_add(bytes_of(&version), Ordering::Relaxed);
        self.versions.fetch_add(1, Ordering::Relaxed);
        let mut shard = self.shard(space, rid.block()).lock();
        let before = shard.entry((space, rid.block())).or_default().insert((rid, end), version);
        debug_assert!(before.is_none(), "one version of a row ends at a time");
    }

    /// Whether it was here.
    pub fn remove(&self, space: SpaceId, rid: RowId, end: u64) -> bool {
        let at = (space, rid.block());
        let mut shard = self.shard(space, at.1).lock();
        let Some(block) = shard.get_mut(&at) else { return false };
        let Some(version) = block.remove(&(rid, end)) else { return false };
        if block.is_empty() {
            shard.remove(&at);
        }
        drop(shard);
        self.bytes.fetch_sub(bytes_of(&version), Ordering::Relaxed);
        self.versions.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// The version of a row that was the newest at a timestamp.
    pub fn at(&self, space: SpaceId, rid: RowId, ts: u64) -> Option<Version> {
        let shard = self.shard(space, rid.block()).lock();
        let block = shard.get(&(space, rid.block()))?;
        // Of the ends above `ts` the smallest.
        let (_, version) = block.range((rid, ts + 1)..=(rid, u64::MAX)).next()?;
        (version.begin <= ts).then(|| version.clone())
    }

    /// Visits the versions of a block's rows, from one on, that were the newest at a timestamp.
    pub fn of_block(
        &self,
        space: SpaceId,
        from: RowId,
        ts: u64,
        mut visit: impl FnMut(RowId, &Version),
    ) {
        let shard = self.shard(space, from.block()).lock();
        let Some(block) = shard.get(&(space, from.block())) else { return };
        for ((rid, end), version) in block.range((from, 0)..) {
            if version.begin <= ts && ts < *end {
                visit(*rid, version);
            }
        }
    }

    /// What is here: when it ended, whose it was.
    pub fn all(&self) -> Vec<(u64, SpaceId, RowId)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            for ((space, _), block) in shard.lock().iter() {
                all.extend(block.keys().map(|(rid, end)| (*end, *space, *rid)));
            }
        }
        all
    }

    /// Versions of one space.
    pub fn count(&self, space: SpaceId) -> usize {
        self.all().iter().filter(|(_, of, _)| *of == space).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId(1);

    fn version(begin: u64) -> Version {
        Version { begin, cells: vec![begin as u8; 10].into() }
    }

    #[test]
    fn a_view_finds_the_version_that_was_the_newest() {
        let recent = Recent::new(1 << 20);
        let rid = RowId(7);
        // The one from 20 to 30 is in the history.
        recent.put(SPACE, rid, 20, version(10));
        recent.put(SPACE, rid, 40, version(30));
        recent.put(SPACE, RowId(8), 25, version(5));
        let found = |ts| recent.at(SPACE, rid, ts).map(|version| version.begin);
        let expected = [
            (9, None),
            (10, Some(10)),
            (19, Some(10)),
            (20, None),
            (29, None),
            (30, Some(30)),
            (39, Some(30)),
            (40, None),
        ];
        for (ts, begin) in expected {
            assert_eq!(found(ts), begin, "{ts}");
            let mut of_block = Vec::new();
            recent.of_block(SPACE, rid, ts, |rid, version| of_block.push((rid.0, version.begin)));
            of_block.retain(|(rid, _)| *rid == 7);
            assert_eq!(of_block, begin.map(|begin| (7, begin)).into_iter().collect::<Vec<_>>());
        }
        assert!(recent.remove(SPACE, rid, 20) && !recent.remove(SPACE, rid, 20));
        assert_eq!((found(15), found(35)), (None, Some(30)));
        assert!(recent.remove(SPACE, rid, 40) && recent.remove(SPACE, RowId(8), 25));
        assert_eq!((recent.bytes(), recent.versions(), recent.all()), (0, 0, Vec::new()));
    }

    #[test]
    fn it_has_as_much_as_it_may() {
        let recent = Recent::new(1_000);
        let mut put = 0;
        while recent.has_room(&version(put)) {
            recent.put(SPACE, RowId(put), put + 1, version(put));
            put += 1;
        }
        assert_eq!(put, 9, "each takes 106 bytes");
        recent
            .all()
            .into_iter()
            .for_each(|(end, space, rid)| assert!(recent.remove(space, rid, end)));
        let long = Version { begin: 1, cells: vec![0; 2_000].into() };
        assert!(recent.has_room(&version(1)) && !recent.has_room(&long));
    }
}
