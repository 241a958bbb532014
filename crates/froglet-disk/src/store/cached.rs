//! What was read and put lately, one by one, before the maps.
//!
//! ```text
//!   row           ─▶ rows: (space, rid) → version ──── not there ──▶ the map, and remembered
//!   rows of a key ─▶ keys: (index, key) → rows    ──── not there ──▶ a range, and remembered
//!   range of keys ─▶ entries, and between which there is none ─ not there ──▶ the map, and remembered
//!   put, remove   ─▶ the map, then what is remembered of the key
//! ```
//! A point read through the maps looks at each run of files and decodes a block; here it is one look-up.
//!
//! **[C1]** What is remembered is what the map has, or the map is being changed by somebody who will say so. A reader
//! takes the place of a key before it looks at the map, and fills it afterwards; who puts takes that place away *after*
//! the map has what he puts. So what was read before that is not filled in, and what is filled in was read after.
//! **[C2]** Between the two a reader may be told what was there before, as if he had looked earlier. That is no harm: who
//! puts has the row, or the entry, in the overlay until he has returned from here, and readers look there first.
//! **[C3]** What is known of ranges (`entries.rs`) changes before what is remembered of a key: who has taken the key's place
//! after that, and finds nothing in a range, is told what was put. Who is told of a new key that there is nothing, by what is
//! known of its neighbours, fills nothing.
//! **[C4]** Ranges that are removed are of spaces and indexes that nobody has open, whose numbers do not come back: what is
//! remembered of them is not asked for, and goes in time, or when the last space goes.

use std::time::Duration;

use froglet_engine::{EngineError, EngineFigures, RowId, SpaceId, Vacuum};
use quick_cache::sync::{Cache, DefaultLifecycle, EntryAction, EntryResult, GuardResult};
use quick_cache::{OptionsBuilder, Weighter};
use smallvec::SmallVec;

use super::entries::{Entries, RANGE_LEFT_MAX, WasRead};
use super::{Store, Tree, Visit};
use crate::keys;
use crate::version::Version;

/// Longer rows are read from their blocks, wherever there is room.
const ROW_BYTES_MAX: usize = 16 << 10;
/// More rows of a key are many.
const ROWS_MAX: usize = 8;
/// What remembering one thing takes beside its bytes.
const OVERHEAD_BYTES: usize = 96;
/// Nobody waits for somebody else's read.
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

/// A key of the rows.
type RowKey = [u8; 12];
/// Rows that have an entry under one key, ascending.
pub(crate) type Rids = SmallVec<[RowId; 2]>;

type Remembered<K, V> = Cache<K, V, Bytes, foldhash::fast::FixedState>;

/// See the module.
pub(crate) struct Cached<S> {
    store: S,
    rows: Remembered<RowKey, Version>,
    keys: Remembered<Vec<u8>, Rids>,
    entries: Entries,
    /// Longer rows are not remembered. What the library finds too heavy for a part of its cache it does not take, and then
    /// leaves the place that a reader has taken [C1].
    row_bytes_max: usize,
}

/// Whether what was read of a range is left in `entries`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Everything,
    /// Only that there is nothing.
    IfNothing,
}

/// Of the bytes of a cache, those for rows, those for keys of indexes, and those for entries; the others are for blocks.
fn shares(cache_bytes: u64) -> (u64, u64, u64) {
    (cache_bytes / 8 * 3, cache_bytes / 8, cache_bytes / 16)
}

#[derive(Clone)]
struct Bytes;

impl Weighter<RowKey, Version> for Bytes {
    fn weight(&self, _: &RowKey, row: &Version) -> u64 {
        (row.cells.len() + OVERHEAD_BYTES) as u64
    }
}

impl Weighter<Vec<u8>, Rids> for Bytes {
    fn weight(&self, key: &Vec<u8>, _: &Rids) -> u64 {
        (key.len() + OVERHEAD_BYTES) as u64
    }
}

fn remembered<K, V>(bytes: u64) -> Remembered<K, V>
where
    K: Eq + std::hash::Hash,
    V: Clone,
    Bytes: Weighter<K, V>,
{
    let options = OptionsBuilder::new()
        .estimated_items_capacity(bytes as usize / (2 * OVERHEAD_BYTES))
        .weight_capacity(bytes)
        .build()
        .expect("both capacities are given");
    Cache::with_options(
        options,
        Bytes,
        foldhash::fast::FixedState::default(),
        DefaultLifecycle::default(),
    )
}

impl<S: Store> Cached<S> {
    /// Of the bytes of a cache, what is remembered here.
    pub fn share(cache_bytes: u64) -> u64 {
        let (rows, keys, entries) = shares(cache_bytes);
        rows + keys + entries
    }

    pub fn new(store: S, cache_bytes: u64) -> Cached<S> {
        let (rows, keys, entries) = shares(cache_bytes);
        let (rows, keys, entries) = (remembered(rows), remembered(keys), Entries::new(entries));
        let most = (rows.shard_capacity() / 2) as usize;
        let row_bytes_max = most.saturating_sub(OVERHEAD_BYTES).min(ROW_BYTES_MAX);
        Cached { store, rows, keys, entries, row_bytes_max }
    }

    /// Forgets rows and keys; entries are forgotten with their ranges. Nobody reads or puts: no space is left.
    pub fn forget_all(&self) {
        self.rows.clear();
        self.keys.clear();
    }

    /// The newest committed version of a row.
    pub fn row(&self, space: SpaceId, rid: RowId) -> Result<Option<Version>, EngineError> {
        let key = keys::row(space, rid);
        let place = match self.rows.get_value_or_guard(&key, AT_ONCE) {
            GuardResult::Value(row) => return Ok(Some(row)),
            GuardResult::Guard(place) => Some(place),
            GuardResult::Timeout => None,
        };
        let Some(bytes) = self.store.get(Tree::Rows, &key)? else { return Ok(None) };
        let row = Version::decode(&bytes)?;
        if let Some(place) = place.filter(|_| row.cells.len() <= self.row_bytes_max) {
            // If it was taken away meanwhile [C1], the next who reads is asked for it.
            let _ = place.insert(row.clone());
        }
        Ok(Some(row))
    }

    /// A row's newest committed version is this one, from now on.
    pub fn put_row(&self, space: SpaceId, rid: RowId, version: Version) {
        let key = keys::row(space, rid);
        self.store.put(Tree::Rows, &key, &version.encode());
        self.row_is(key, Some(version));
    }

    /// The rows that have an entry of one key, unless they are many. `key` is what its entries begin with, `to` is behind
    /// them: the bounds of the range of that key.
    pub fn rows_of_key(&self, key: &[u8], to: &[u8]) -> Result<Option<Rids>, EngineError> {
        if let Some(rids) = self.keys.get(key) {
            return Ok(Some(rids));
        }
        // A new key: next to others, as a rule, that are known.
        if self.entries.has_none(key, to) {
            return Ok(Some(Rids::new()));
        }
        let place = match self.keys.get_value_or_guard(key, AT_ONCE) {
            GuardResult::Value(rids) => return Ok(Some(rids)),
            GuardResult::Guard(place) => Some(place),
            GuardResult::Timeout => None,
        };
        let mut rids = Rids::new();
        // What is found is remembered as this key's: next to it nobody looks as a rule.
        self.index_range((key, to), false, Leave::IfNothing, &mut |entry| {
            // Keys between are longer than this one, of which it is the beginning: there are none, see `keys`.
            let (of, rid) = keys::of_entry(entry);
            if of == &key[8..] {
                rids.push(rid);
            }
            rids.len() <= ROWS_MAX
        })?;
        if rids.len() > ROWS_MAX {
            return Ok(None);
        }
        if let Some(place) = place.filter(|_| !rids.is_empty()) {
            let _ = place.insert(rids.clone());
        }
        Ok(Some(rids))
    }

    /// Visits the entries of a range: those that are known, then those that the map has. Who visits asks nothing of this.
    fn index_range(
        &self,
        (from, to): (&[u8], &[u8]),
        backward: bool,
        leave: Leave,
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), EngineError> {
        if from >= to {
            return Ok(());
        }
        let Some((from, to)) = self.entries.visit(from, to, backward, visit) else {
            return Ok(());
        };
        let (place, up_to) = self.entries.begin(&from, &to);
        // Who looks for what is not there may put it there, and then what comes next: up to the next entry it is known. The
        // other way round it has to be known whether the end is one.
        let end = if backward { [&to[..], &[0]].concat() } else { up_to };
        let (mut found, mut is_whole, mut is_left) = (Vec::<Box<[u8]>>::new(), true, true);
        self.store.range(Tree::Index, &from, &end, backward, &mut |entry, _| {
            let is_within = entry < &to[..];
            is_whole = if is_within { visit(entry) } else { backward };
            is_left &= found.len() < RANGE_LEFT_MAX && !(is_within && leave == Leave::IfNothing);
            if is_left {
                found.push(entry.into());
            }
            is_whole
        })?;
        if !is_left {
            return Ok(());
        }
        if backward {
            found.reverse();
        }
        let (mut from, mut to) = (&from[..], if backward { &to[..] } else { &end[..] });
        match backward {
            _ if is_whole => {}
            false => to = found.last().expect("reading ended there"),
            true => from = found.first().expect("reading ended there"),
        }
        place.leave(&WasRead { from, to, entries: &found });
        Ok(())
    }

    /// Changes what is remembered of a key's rows, or sees to it that nothing is.
    fn change_rows_of(&self, entry: &[u8], change: impl FnOnce(&mut Rids, RowId)) {
        let (_, rid) = keys::of_entry(entry);
        let key = &entry[..entry.len() - 8];
        // As a rule nothing is remembered of it. What somebody is reading is not filled in [C1].
        if !self.keys.contains_key(key) {
            self.keys.remove(key);
            return;
        }
        let changed = self.keys.entry(key, AT_ONCE, |_, rids| {
            change(rids, rid);
            match rids.len() <= ROWS_MAX {
                true => EntryAction::Retain(()),
                false => EntryAction::Remove,
            }
        });
        // Somebody is reading it: what he reads is not filled in [C1].
        if matches!(changed, EntryResult::Timeout) {
            self.keys.remove(key);
        }
    }

    /// What the map has of a row is this now.
    fn row_is(&self, key: RowKey, row: Option<Version>) {
        match row.filter(|row| row.cells.len() <= self.row_bytes_max) {
            Some(row) => self.rows.insert(key, row),
            None => drop(self.rows.remove(&key)),
        }
    }

    /// What the map has of a key has changed.
    fn changed(&self, tree: Tree, key: &[u8], value: Option<&[u8]>) {
        match tree {
            Tree::Rows => {
                let key = key.try_into().expect("a key of the rows");
                self.row_is(key, value.and_then(|value| Version::decode(value).ok()));
            }
            Tree::Index => {
                self.entries.changed(key, value.is_some()); // [C3]
                self.change_rows_of(key, |rids, rid| {
                    match (rids.binary_search(&rid), value.is_some()) {
                        (Err(at), true) => rids.insert(at, rid),
                        (Ok(at), false) => drop(rids.remove(at)),
                        _ => {}
                    }
                });
            }
            Tree::History => {}
        }
    }
}

impl<S: Store> Store for Cached<S> {
    fn put(&self, tree: Tree, key: &[u8], value: &[u8]) {
        self.store.put(tree, key, value);
        self.changed(tree, key, Some(value));
    }

    fn remove(&self, tree: Tree, key: &[u8]) {
        self.store.remove(tree, key);
        self.changed(tree, key, None);
    }

    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.store.get(tree, key)
    }

    fn range(
        &self,
        tree: Tree,
        from: &[u8],
        to: &[u8],
        backward: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        match tree {
            Tree::Index => {
                let mut visit = |entry: &[u8]| visit(entry, &[]);
                self.index_range((from, to), backward, Leave::Everything, &mut visit)
            }
            Tree::Rows | Tree::History => self.store.range(tree, from, to, backward, visit),
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.store.memory_bytes()
    }

    fn wants_flush(&self, gather_bytes: u64) -> bool {
        self.store.wants_flush(gather_bytes)
    }

    fn rotate(&self) {
        self.store.rotate();
    }

    fn flush(&self) -> Result<(), EngineError> {
        self.store.flush()
    }

    fn figures(&self) -> EngineFigures {
        let (rows, keys, entries) = (&self.rows, &self.keys, &self.entries);
        let cached = rows.weight() + keys.weight() + entries.bytes();
        let limit = rows.capacity() + keys.capacity() + entries.limit_bytes;
        let hits = rows.hits() + keys.hits() + entries.hits();
        let figures = self.store.figures();
        EngineFigures {
            memory_bytes: figures.memory_bytes + cached,
            cache_bytes: figures.cache_bytes.map(|of| of + cached),
            cache_limit_bytes: figures.cache_limit_bytes.map(|of| of + limit),
            cache_hits: figures.cache_hits.map(|of| of + hits),
            ..figures
        }
    }

    fn is_crowded(&self) -> bool {
        self.store.is_crowded()
    }

    fn compact(&self) -> Result<bool, EngineError> {
        self.store.compact()
    }

    fn compact_ranges(
        &self,
        ranges: &[([u8; 4], [u8; 4])],
        extent: Vacuum,
    ) -> Result<(), EngineError> {
        self.store.compact_ranges(ranges, extent)
    }

    fn remove_range(&self, tree: Tree, from: &[u8], to: &[u8]) -> Result<(), EngineError> {
        self.store.remove_range(tree, from, to)?; // [C4]
        if tree == Tree::Index {
            self.entries.forget(from, to);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::contract::Random;
    use crate::store::{Maps, SlowReads};
    use froglet_engine::IndexId;
    use std::path::Path;

    const SPACE: SpaceId = SpaceId(1);

    fn open(dir: &Path, cache_bytes: u64) -> Cached<Maps> {
        let reads = SlowReads::new(|work| work(), Duration::ZERO);
        Cached::new(Maps::open(dir, 1 << 20, reads).expect("a new directory"), cache_bytes)
    }

    fn put_row<S: Store>(store: &Cached<S>, rid: u64, begin: u64) {
        let version = Version { begin, cells: vec![7; 40].into() };
        store.put_row(SPACE, RowId(rid), version);
    }

    fn begin_of<S: Store>(store: &Cached<S>, rid: u64) -> Option<u64> {
        store.row(SPACE, RowId(rid)).expect("read").map(|version| version.begin)
    }

    fn prefix() -> [u8; 8] {
        keys::index(SPACE, IndexId(2))
    }

    fn entry(key: &[u8], rid: u64) -> Vec<u8> {
        keys::entry(&prefix(), key, RowId(rid))
    }

    fn rids_of<S: Store>(store: &Cached<S>, key: &[u8]) -> Option<Vec<u64>> {
        let key = [&prefix()[..], key].concat();
        let found = store.rows_of_key(&key, &[&key[..], &[0xFF; 9]].concat()).expect("read");
        found.map(|rids| rids.iter().map(|rid| rid.0).collect())
    }

    #[test]
    fn what_was_put_last_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path(), 1 << 20);
        for begin in 1..4 {
            put_row(&store, 5, begin);
            assert_eq!(begin_of(&store, 5), Some(begin));
        }
        let (long, key) = (
            Version { begin: 9, cells: vec![1; 2 * ROW_BYTES_MAX].into() },
            keys::row(SPACE, RowId(5)),
        );
        store.put(Tree::Rows, &key, &long.encode());
        assert_eq!(begin_of(&store, 5), Some(9), "it is too long to be remembered");
        store.remove(Tree::Rows, &key);
        assert_eq!(begin_of(&store, 5), None);
    }

    #[test]
    fn rows_of_a_key_are_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path(), 1 << 20);
        assert_eq!(rids_of(&store, b"key"), Some(vec![]), "remembered as nobody's");
        let mut rids = Vec::new();
        for rid in 1..=ROWS_MAX as u64 {
            store.put(Tree::Index, &entry(b"key", rid), &[]);
            store.put(Tree::Index, &entry(b"key", rid), &[]);
            rids.push(rid);
            assert_eq!(rids_of(&store, b"key"), Some(rids.clone()));
        }
        assert_eq!(rids_of(&store, b"kez"), Some(vec![]));
        store.put(Tree::Index, &entry(b"key", 0), &[]);
        assert_eq!(rids_of(&store, b"key"), None, "many");
        for rid in [0, 3] {
            store.remove(Tree::Index, &entry(b"key", rid));
        }
        assert_eq!(
            rids_of(&store, b"key"),
            Some(rids.into_iter().filter(|rid| *rid != 3).collect())
        );
    }

    /// [C1]: what was read before somebody put is not remembered after.
    #[test]
    fn what_is_put_between_a_read_and_its_being_remembered_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path(), 1 << 20);
        let GuardResult::Guard(place) =
            store.rows.get_value_or_guard(&keys::row(SPACE, RowId(5)), AT_ONCE)
        else {
            panic!("nothing is remembered")
        };
        put_row(&store, 5, 2);
        place
            .insert(Version { begin: 1, cells: vec![7; 40].into() })
            .expect_err("it was taken away");
        assert_eq!(begin_of(&store, 5), Some(2));
        let key = [&prefix()[..], b"key"].concat();
        let GuardResult::Guard(place) = store.keys.get_value_or_guard(key.as_slice(), AT_ONCE)
        else {
            panic!("nothing is remembered")
        };
        store.put(Tree::Index, &entry(b"key", 5), &[]);
        assert_eq!(rids_of(&store, b"key"), Some(vec![5]), "nobody waits");
        place.insert(Rids::new()).expect_err("it was taken away");
        assert_eq!(rids_of(&store, b"key"), Some(vec![5]));
    }

    /// The same of a row that a small cache does not take.
    #[test]
    fn what_is_too_long_to_be_remembered_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        for cache_bytes in [0, 2 << 10, 64 << 10] {
            let store = open(&dir.path().join(cache_bytes.to_string()), cache_bytes);
            for bytes in [100, 1_000, 10_000, 20_000] {
                let key = keys::row(SPACE, RowId(bytes));
                let GuardResult::Guard(place) = store.rows.get_value_or_guard(&key, AT_ONCE) else {
                    panic!("nothing is remembered")
                };
                let new = Version { begin: 2, cells: vec![7; bytes as usize].into() };
                store.put(Tree::Rows, &key, &new.encode());
                let _ = place.insert(Version { begin: 1, cells: vec![7; 4].into() });
                assert_eq!(begin_of(&store, bytes), Some(2), "{bytes} of {cache_bytes}");
            }
        }
    }

    /// At most so many entries of a range.
    fn some_of(
        store: &Cached<Maps>,
        (from, to): (&[u8], &[u8]),
        backward: bool,
        most: usize,
    ) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        store
            .range(Tree::Index, from, to, backward, &mut |entry, _| {
                found.push(entry.to_vec());
                found.len() < most
            })
            .expect("read");
        found
    }

    /// Entries of an index are put, removed and read at random; there is room for few of them, or for all.
    #[test]
    fn ranges_are_what_was_put() {
        let dir = tempfile::tempdir().expect("a directory");
        for (seed, cache_bytes) in [(1, 1 << 10), (2, 64 << 10), (3, 1 << 20)] {
            let store = open(&dir.path().join(seed.to_string()), cache_bytes);
            let mut random = Random(0x9E37_79B9 * seed);
            let mut below = |limit| random.below(limit);
            let mut there = std::collections::BTreeSet::new();
            let mut was_known = false;
            for _ in 0..6_000 {
                // Of a few keys, one or two bytes long, each of a few rows.
                let key = [below(6) as u8 + 1, below(5) as u8];
                let key = &key[..1 + below(2) as usize];
                let one = entry(key, below(3));
                match below(10) {
                    0..3 => {
                        store.put(Tree::Index, &one, &[]);
                        there.insert(one);
                    }
                    3..5 => {
                        store.remove(Tree::Index, &one);
                        there.remove(&one);
                    }
                    5..7 => {
                        let expected: Vec<u64> = there
                            .iter()
                            .map(|entry| keys::of_entry(entry))
                            .filter(|of| of.0 == key)
                            .map(|of| of.1.0)
                            .collect();
                        assert_eq!(rids_of(&store, key), Some(expected));
                    }
                    _ => {
                        let to = match below(4) {
                            0 => froglet_engine::key::successor(&prefix()).expect("there is one"),
                            _ => entry(&[below(7) as u8], 0),
                        };
                        let (backward, most) = (below(2) == 0, below(20) as usize + 1);
                        let within = || there.iter().filter(|entry| one <= **entry && **entry < to);
                        let expected: Vec<_> = match backward {
                            false => within().take(most).cloned().collect(),
                            true => within().rev().take(most).cloned().collect(),
                        };
                        assert_eq!(some_of(&store, (&one, &to), backward, most), expected);
                    }
                }
                was_known |= store.entries.assert_true_of(&there);
                assert!(store.entries.bytes() <= store.entries.limit_bytes.max(300));
            }
            assert_eq!(was_known, cache_bytes > 1 << 10, "room for less than a mark");
            let space = keys::space(SPACE);
            store.remove_range(Tree::Index, &space.0, &space.1).expect("removed");
            assert_eq!(store.entries.bytes(), 0);
        }
    }

    /// Whoever appends to an index that was read where it ends does not read it again.
    #[test]
    fn what_is_appended_is_known() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path(), 1 << 20);
        store.put(Tree::Index, &entry(&[9], 1), &[]);
        for n in 1..9 {
            assert_eq!(rids_of(&store, &[n]), Some(vec![]));
            store.put(Tree::Index, &entry(&[n], 1), &[]);
            assert_eq!(store.entries.hits(), u64::from(n) - 1);
        }
    }

    /// Who looks for a key that is there leaves nothing beside it; a range is left, unless it is a scan.
    #[test]
    fn what_is_left_of_a_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path(), 1 << 20);
        let many = RANGE_LEFT_MAX as u64;
        (0..many + 9).for_each(|rid| store.put(Tree::Index, &entry(&[rid as u8], rid), &[]));
        assert_eq!(rids_of(&store, &[3]), Some(vec![3, many + 3]));
        assert_eq!(store.entries.bytes(), 0);
        assert_eq!(rids_of(&store, &[3, 3]), Some(vec![]), "somebody may put it");
        assert!(store.entries.bytes() > 0);
        let all = (&entry(&[0], 0)[..], &entry(&[255], u64::MAX)[..]);
        for (most, is_left) in [(many as usize + 1, false), (many as usize - 1, true)] {
            let (hits, before) = (store.entries.hits(), store.entries.bytes());
            for _ in 0..2 {
                assert_eq!(some_of(&store, all, false, most).len(), most);
            }
            assert_eq!(store.entries.bytes() > before, is_left, "{most}");
            assert_eq!(store.entries.hits() > hits, is_left, "{most}");
        }
    }

    /// Each writer has rows and entries of its own; all look at everything, with room for little.
    #[test]
    fn who_has_put_finds_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path(), 8 << 10);
        std::thread::scope(|scope| {
            for writer in 0..4_u64 {
                let store = &store;
                scope.spawn(move || {
                    for n in 0..4_000 {
                        let (rid, key) = (writer + 4 * (n % 9), [(n % 5) as u8; 3]);
                        put_row(store, rid, n + 1);
                        store.put(Tree::Index, &entry(&key, writer), &[]);
                        assert_eq!(begin_of(store, rid), Some(n + 1));
                        begin_of(store, (rid + 1) % 36);
                        let found = rids_of(store, &key).expect("four at most");
                        assert!(found.contains(&writer), "{found:?}");
                        let mine = [entry(&key, writer), entry(&key, writer + 1)];
                        for backward in [false, true] {
                            let found = some_of(store, (&mine[0], &mine[1]), backward, 4);
                            assert_eq!(found, mine[..1]);
                        }
                        store.remove(Tree::Index, &entry(&key, writer));
                        let found = rids_of(store, &key).expect("four at most");
                        assert!(!found.contains(&writer), "{found:?}");
                        some_of(store, (&entry(&[0; 3], 0), &entry(&[4; 3], 9)), n % 2 == 0, 7);
                        let found = some_of(store, (&mine[0], &mine[1]), n % 3 == 0, 4);
                        assert!(found.is_empty(), "{found:?}");
                    }
                });
            }
        });
    }
}
