//! The index against `BTreeSet`, alone and with many threads.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::key::{common_prefix_bytes, separator, word_at};
use super::node::Node;
use super::{Direction, OrderedIndex};

type Model = BTreeSet<(Vec<u8>, u64)>;

/// Scales the number of steps down for Miri.
fn steps(native: u64) -> u64 {
    if cfg!(miri) { (native / 400).clamp(20, 150) } else { native }
}

/// SplitMix64, so that a failure is replayed from its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn collect(
    index: &OrderedIndex,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    direction: Direction,
) -> Vec<(Vec<u8>, u64)> {
    let mut entries = Vec::new();
    index.scan(lower, upper, direction, &mut |key, rid| {
        entries.push((key.to_vec(), rid));
        ControlFlow::Continue(())
    });
    entries
}

fn expected(model: &Model, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Vec<(Vec<u8>, u64)> {
    let above = |key: &[u8]| match lower {
        Bound::Included(bound) => key >= bound,
        Bound::Excluded(bound) => key > bound,
        Bound::Unbounded => true,
    };
    let below = |key: &[u8]| match upper {
        Bound::Included(bound) => key <= bound,
        Bound::Excluded(bound) => key < bound,
        Bound::Unbounded => true,
    };
    model.iter().filter(|(key, _)| above(key) && below(key)).cloned().collect()
}

fn assert_scans(index: &OrderedIndex, model: &Model, lower: Bound<&[u8]>, upper: Bound<&[u8]>) {
    let mut wanted = expected(model, lower, upper);
    assert_eq!(collect(index, lower, upper, Direction::Ascending), wanted, "{lower:?}..{upper:?}");
    wanted.reverse();
    assert_eq!(
        collect(index, lower, upper, Direction::Descending),
        wanted,
        "{lower:?}..{upper:?} descending"
    );
}

/// Runs random operations on keys from `key` on the index and on the model.
fn assert_as_model(seed: u64, step_count: u64, mut key: impl FnMut(&mut Random) -> Vec<u8>) {
    let mut random = Random(seed);
    let index = OrderedIndex::new();
    let mut model = Model::new();
    for step in 0..step_count {
        // The index grows in the first half of each period and shrinks in the other.
        let growing = step % (step_count / 2 + 1) < step_count / 4;
        let (wanted, rid) = (key(&mut random), random.below(6));
        match random.below(10) {
            0 => {
                let mut rids = Vec::new();
                index.get(&wanted, &mut rids);
                let in_model = model.range((wanted.clone(), 0)..=(wanted.clone(), u64::MAX));
                assert_eq!(
                    rids,
                    in_model.map(|entry| entry.1).collect::<Vec<_>>(),
                    "get {wanted:?}"
                );
            }
            choice if (choice < 8) == growing => {
                assert_eq!(index.insert(&wanted, rid), model.insert((wanted, rid)));
            }
            _ => {
                // Half of the removals aim at an entry that is there.
                let present = model.range((wanted.clone(), rid)..).next().cloned();
                let entry = present.filter(|_| random.below(2) == 0).unwrap_or((wanted, rid));
                assert_eq!(
                    index.remove(&entry.0, entry.1),
                    model.remove(&entry),
                    "remove {entry:?}"
                );
            }
        }
        if step % (step_count / 30).max(1) == 0 {
            let (low, high) = (key(&mut random), key(&mut random));
            assert_scans(&index, &model, Bound::Included(&low), Bound::Excluded(&high));
            assert_scans(&index, &model, Bound::Excluded(&low), Bound::Included(&high));
            assert_scans(&index, &model, Bound::Unbounded, Bound::Included(&high));
            assert_scans(&index, &model, Bound::Excluded(&low), Bound::Unbounded);
            assert_scans(&index, &model, Bound::Unbounded, Bound::Unbounded);
            assert_eq!(index.len(), model.len());
            index.tree.assert_sound();
        }
    }
    let empty_bytes = OrderedIndex::new().bytes();
    for (key, rid) in model {
        assert!(index.remove(&key, rid), "the model's entry is there");
    }
    index.tree.assert_sound();
    assert_eq!((index.len(), index.bytes()), (0, empty_bytes), "all memory came back");
}

#[test]
fn short_keys_that_are_prefixes_of_one_another() {
    assert_as_model(1, steps(40_000), |random| {
        (0..random.below(5)).map(|_| random.below(3) as u8).collect()
    });
}

#[test]
fn eight_byte_keys() {
    assert_as_model(2, steps(40_000), |random| random.below(4_000).to_be_bytes().to_vec());
}

#[test]
fn keys_with_long_common_prefixes() {
    assert_as_model(3, steps(30_000), |random| {
        let mut key = vec![b'p'; 28 + random.below(12) as usize];
        key.extend(random.below(3_000).to_be_bytes());
        key.truncate(key.len() - random.below(3) as usize);
        key
    });
}

#[test]
fn keys_around_word_boundaries_with_zero_bytes() {
    assert_as_model(4, steps(30_000), |random| {
        (0..random.below(26)).map(|_| (random.below(16) == 0) as u8).collect()
    });
}

#[test]
fn keys_up_to_two_thousand_bytes() {
    assert_as_model(5, steps(4_000), |random| {
        let len = if random.below(3) == 0 { random.below(2_000) } else { random.below(60) };
        let mut key = vec![(len % 7) as u8; len as usize];
        key.extend((random.below(50) as u16).to_be_bytes());
        key
    });
}

#[test]
fn one_key_with_many_rids() {
    let index = OrderedIndex::new();
    let count = steps(20_000);
    for rid in 0..count {
        // 7 and the counts have no common divisor, so each rid comes once.
        assert!(index.insert(b"the same longer key", rid * 7 % count * 2 + 1));
    }
    let mut rids = Vec::new();
    index.get(b"the same longer key", &mut rids);
    assert_eq!(rids.len(), index.len());
    assert!(rids.is_sorted(), "rids come in order");
    let mut none = Vec::new();
    index.get(b"the same longer ke", &mut none);
    index.get(b"the same longer key\0", &mut none);
    assert!(none.is_empty(), "no other key has rids");
    for rid in rids.iter().rev() {
        assert!(index.remove(b"the same longer key", *rid));
    }
    assert_eq!(index.bytes(), OrderedIndex::new().bytes());
}

#[test]
fn a_million_entries() {
    let count = steps(1_000_000);
    let index = OrderedIndex::new();
    let key_of = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    (0..count).for_each(|n| assert!(index.insert(&key_of(n), n)));
    (0..count).step_by(3).for_each(|n| assert!(!index.insert(&key_of(n), n)));
    let mut out = Vec::new();
    (0..count).step_by(3).for_each(|n| index.get(&key_of(n), &mut out));
    assert!(out.iter().copied().eq((0..count).step_by(3)), "each key has its rid");
    for direction in [Direction::Ascending, Direction::Descending] {
        let mut seen = 0;
        let mut last: Option<u64> = None;
        index.scan(Bound::Unbounded, Bound::Unbounded, direction, &mut |key, rid| {
            assert_eq!(key, key_of(rid));
            let key = u64::from_be_bytes(key.try_into().expect("an eight-byte key"));
            assert!(last.is_none_or(|last| (last < key) == (direction == Direction::Ascending)));
            last = Some(key);
            seen += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(seen, count);
    }
    index.tree.assert_sound();
    (0..count).for_each(|n| assert!(index.remove(&key_of(n), n)));
    assert_eq!(index.bytes(), OrderedIndex::new().bytes());
}

#[test]
fn a_queue_with_growing_keys_holds_constant_memory() {
    let index = OrderedIndex::new();
    let mut bytes_max = 0;
    let length = 100;
    for n in 0..steps(200_000) {
        assert!(index.insert(format!("queue/{n:020}").as_bytes(), n));
        if n >= length {
            let old = n - length;
            assert!(index.remove(format!("queue/{old:020}").as_bytes(), old));
        }
        bytes_max = bytes_max.max(index.bytes());
    }
    let node_bytes = size_of::<Node>() * 2;
    let limit = node_bytes * if cfg!(miri) { 120 } else { 12 };
    assert!(bytes_max < limit, "a queue of {length} entries held {bytes_max} bytes");
    index.tree.assert_sound();
}

#[test]
fn a_visit_may_change_the_index_and_stop() {
    let (count, stop) = if cfg!(miri) { (50_u32, 40) } else { (500, 400) };
    let index = OrderedIndex::new();
    (0..count).for_each(|n| assert!(index.insert(&n.to_be_bytes(), 0)));
    let mut visited = 0;
    index.scan(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, rid| {
        assert!(index.remove(key, rid), "each entry is seen once");
        let n = u32::from_be_bytes(key.try_into().expect("a four-byte key"));
        assert_eq!(n, visited);
        assert!(index.insert(&(n + 1_000_000).to_be_bytes(), 1));
        visited += 1;
        if visited == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((visited, index.len()), (stop, count as usize));
    index.tree.assert_sound();
}

#[test]
fn words_and_separators_keep_the_order() {
    let mut random = Random(9);
    for _ in 0..steps(100_000) {
        let mut key =
            || -> Vec<u8> { (0..random.below(20)).map(|_| random.below(3) as u8).collect() };
        let (a, b) = (key(), key());
        let common = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
        assert_eq!(common_prefix_bytes(&a, &b), common);
        for at in 0..25 {
            let mut padded = a.get(at..).unwrap_or(&[]).to_vec();
            padded.resize(8, 0);
            assert_eq!(word_at(&a, at).to_be_bytes(), padded[..8], "{a:?} at {at}");
        }
        let (left, right) = ((a.clone(), 5).min((b.clone(), 7)), (a, 5).max((b, 7)));
        let (key, rid) = separator(&left.0, &right.0, right.1);
        assert!(
            (left.0.as_slice(), left.1) < (key, rid) && (key, rid) <= (right.0.as_slice(), right.1)
        );
    }
}

/// The key of entry `n` in the part of the key space that thread `owner` writes.
fn owned_key(owner: u64, n: u64) -> Vec<u8> {
    // Keys of all owners are interleaved, so that owners meet in the same leaves.
    let mut key = format!("stress/{:08}/{owner}", n).into_bytes();
    key.extend(std::iter::repeat_n(b'x', (n % 24) as usize));
    key
}

/// Keys 0, 10, 20, … of each owner stay for ever; the others come and go.
#[test]
fn threads_with_their_own_keys_and_scanners() {
    let (owners, keys, rounds) = (3, steps(2_000).max(40), steps(40_000));
    let index = OrderedIndex::new();
    for owner in 0..owners {
        (0..keys).step_by(10).for_each(|n| assert!(index.insert(&owned_key(owner, n), owner)));
    }
    let permanent = index.len();
    let stop = AtomicBool::new(false);
    let scans = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..owners)
            .map(|owner| {
                scope.spawn({
                    let index = &index;
                    move || write_own_keys(index, owner, keys, rounds)
                })
            })
            .collect();
        for direction in [Direction::Ascending, Direction::Descending] {
            let (index, stop, scans) = (&index, &stop, &scans);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(scan_in_order(index, keys, direction), permanent, "{direction:?}");
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        stop.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.expect("a writer failed"));
    });
    assert!(scans.load(Ordering::Relaxed) > 0);
    index.tree.assert_sound();
    assert_eq!(index.len(), permanent, "writers took their entries away");
}

/// Inserts, removes and reads the keys of one owner, checking each answer; removes all but the
/// permanent ones at the end.
fn write_own_keys(index: &OrderedIndex, owner: u64, keys: u64, rounds: u64) {
    let mut random = Random(owner);
    let mut present = vec![false; keys as usize];
    for round in 0..rounds {
        // Waves, so that leaves fill up and run empty.
        let wave = round * 7 / rounds;
        let n = random.below(keys);
        if n.is_multiple_of(10) {
            continue;
        }
        let (key, is_present) = (owned_key(owner, n), &mut present[n as usize]);
        if random.below(8) == 0 {
            let mut rids = Vec::new();
            index.get(&key, &mut rids);
            assert_eq!(rids, if *is_present { vec![owner] } else { vec![] }, "own writes are seen");
        } else if (random.below(8) < 7) == wave.is_multiple_of(2) {
            assert_eq!(index.insert(&key, owner), !*is_present);
            *is_present = true;
        } else {
            assert_eq!(index.remove(&key, owner), *is_present);
            *is_present = false;
        }
    }
    for n in (0..keys).filter(|n| present[*n as usize]) {
        assert!(index.remove(&owned_key(owner, n), owner));
    }
}

/// Scans everything, checks order and contents, and returns how many permanent entries it saw.
fn scan_in_order(index: &OrderedIndex, keys: u64, direction: Direction) -> usize {
    let mut last: Option<(Vec<u8>, u64)> = None;
    let mut permanent = 0;
    index.scan(Bound::Unbounded, Bound::Unbounded, direction, &mut |key, rid| {
        let n = std::str::from_utf8(&key[7..15]).expect("a key in text").parse().expect("a number");
        assert!(n < keys && key == owned_key(rid, n), "a torn entry: {key:?} {rid}");
        let entry = (key.to_vec(), rid);
        if let Some(last) = &last {
            assert!((*last < entry) == (direction == Direction::Ascending) && *last != entry);
        }
        permanent += usize::from(n % 10 == 0);
        last = Some(entry);
        ControlFlow::Continue(())
    });
    permanent
}

/// All threads append to one end and remove from the other, in the same leaves.
#[test]
fn threads_share_a_queue() {
    let (threads, count) = (4, steps(20_000));
    let index = OrderedIndex::new();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let index = &index;
            scope.spawn(move || {
                for n in 0..count {
                    assert!(index.insert(&n.to_be_bytes(), thread));
                    if n >= 50 {
                        assert!(index.remove(&(n - 50).to_be_bytes(), thread));
                    }
                }
            });
        }
    });
    index.tree.assert_sound();
    assert_eq!(index.len() as u64, threads * count.min(50));
    for n in count.saturating_sub(50)..count {
        let mut rids = Vec::new();
        index.get(&n.to_be_bytes(), &mut rids);
        assert!(rids.iter().copied().eq(0..threads));
        rids.iter().for_each(|rid| assert!(index.remove(&n.to_be_bytes(), *rid)));
    }
    assert_eq!(index.bytes(), OrderedIndex::new().bytes());
}
