//! The index under shuttle: small trees of four-slot nodes, many schedules.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test --release --lib schedules`.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use shuttle::thread;

use super::{Direction, OrderedIndex};

fn explore(scenario: impl Fn() + Send + Sync + Copy + 'static) {
    crate::sync::explore(scenario, 1_500);
}

/// A key with a tail in the heap, so that schedules cover heaps and prefixes too.
fn key(n: u64) -> Vec<u8> {
    format!("prefix {n:03} and a tail {n}").into_bytes()
}

fn index_of(entries: impl IntoIterator<Item = u64>) -> Arc<OrderedIndex> {
    let index = OrderedIndex::new();
    entries.into_iter().for_each(|n| assert!(index.insert(&key(n), n)));
    Arc::new(index)
}

fn spawn(
    index: &Arc<OrderedIndex>,
    work: impl Fn(&OrderedIndex) + Send + 'static,
) -> thread::JoinHandle<()> {
    let index = Arc::clone(index);
    thread::spawn(move || work(&index))
}

fn scan(index: &OrderedIndex, direction: Direction) -> Vec<u64> {
    let mut rids = Vec::new();
    index.scan(Bound::Unbounded, Bound::Unbounded, direction, &mut |found, rid| {
        assert_eq!(found, key(rid), "an entry is not torn");
        rids.push(rid);
        ControlFlow::Continue(())
    });
    if direction == Direction::Descending {
        rids.reverse();
    }
    assert!(rids.is_sorted_by(|a, b| a < b), "entries come once and in order: {rids:?}");
    rids
}

fn join_and_expect(
    threads: Vec<thread::JoinHandle<()>>,
    index: &OrderedIndex,
    wanted: impl Iterator<Item = u64>,
) {
    threads.into_iter().for_each(|thread| thread.join().expect("a thread failed"));
    index.tree.assert_sound();
    assert!(scan(index, Direction::Ascending).into_iter().eq(wanted), "what was inserted is there");
}

#[test]
fn two_inserters_split_the_same_leaves() {
    explore(|| {
        let index = index_of([]);
        let threads = (0..2)
            .map(|odd| {
                spawn(&index, move |index| {
                    (0..6).for_each(|n| assert!(index.insert(&key(2 * n + odd), 2 * n + odd)))
                })
            })
            .collect();
        join_and_expect(threads, &index, 0..12);
    });
}

#[test]
fn an_entry_is_inserted_once() {
    explore(|| {
        let index = index_of([1, 3, 5, 7]);
        let inserter = |index: &OrderedIndex| index.insert(&key(4), 4);
        let other = Arc::clone(&index);
        let thread = thread::spawn(move || inserter(&other));
        let mine = inserter(&index);
        let theirs = thread.join().expect("an inserter failed");
        assert!(mine != theirs, "exactly one insert of an entry succeeds");
        index.tree.assert_sound();
    });
}

#[test]
fn removals_merge_while_inserts_split() {
    explore(|| {
        let index = index_of(0..12);
        let threads = vec![
            spawn(&index, |index| (0..10).for_each(|n| assert!(index.remove(&key(n), n)))),
            spawn(&index, |index| (12..18).for_each(|n| assert!(index.insert(&key(n), n)))),
        ];
        join_and_expect(threads, &index, 10..18);
    });
}

#[test]
fn two_removers_empty_the_tree() {
    explore(|| {
        let index = index_of(0..14);
        let threads = vec![
            spawn(&index, |index| (0..7).for_each(|n| assert!(index.remove(&key(2 * n), 2 * n)))),
            spawn(&index, |index| {
                (0..7).rev().for_each(|n| assert!(index.remove(&key(2 * n + 1), 2 * n + 1)))
            }),
        ];
        join_and_expect(threads, &index, 0..0);
        assert_eq!(index.bytes(), OrderedIndex::new().bytes(), "all memory came back");
    });
}

#[test]
fn scans_see_what_stays_while_leaves_split() {
    explore(|| {
        let index = index_of((0..8).map(|n| 2 * n));
        let mut threads = vec![spawn(&index, |index| {
            (0..8).for_each(|n| assert!(index.insert(&key(2 * n + 1), 2 * n + 1)))
        })];
        for direction in [Direction::Ascending, Direction::Descending] {
            threads.push(spawn(&index, move |index| {
                let seen = scan(index, direction);
                assert!(
                    seen.iter().copied().filter(|n| n % 2 == 0).eq((0..8).map(|n| 2 * n)),
                    "{seen:?}"
                );
            }));
        }
        join_and_expect(threads, &index, 0..16);
    });
}

#[test]
fn scans_see_what_stays_while_leaves_merge() {
    explore(|| {
        let index = index_of(0..14);
        let stays = |n: &u64| n % 5 == 0;
        let mut threads = vec![spawn(&index, move |index| {
            (0..14).filter(|n| !stays(n)).for_each(|n| assert!(index.remove(&key(n), n)));
        })];
        for direction in [Direction::Ascending, Direction::Descending] {
            threads.push(spawn(&index, move |index| {
                let seen = scan(index, direction);
                assert!(seen.iter().copied().filter(stays).eq((0..14).filter(stays)), "{seen:?}");
            }));
        }
        join_and_expect(threads, &index, (0..14).filter(stays));
    });
}

#[test]
fn gets_find_all_rids_of_a_key_across_leaves() {
    explore(|| {
        let index = Arc::new(OrderedIndex::new());
        (0..9).for_each(|rid| assert!(index.insert(b"key", 2 * rid)));
        let writer = spawn(&index, |index| {
            (0..5).for_each(|rid| assert!(index.insert(b"key", 2 * rid + 1)))
        });
        let mut rids = Vec::new();
        index.get(b"key", &mut rids);
        assert!(rids.is_sorted_by(|a, b| a < b));
        assert!(rids.iter().copied().filter(|rid| rid % 2 == 0).eq((0..9).map(|rid| 2 * rid)));
        writer.join().expect("the writer failed");
    });
}

#[test]
fn gets_find_a_key_that_stays_in_place_or_not() {
    explore(|| {
        // Keys that fit in their heads, so that no heap access checks the version by the way.
        let index = Arc::new(OrderedIndex::new());
        [3, 6, 7].iter().for_each(|n: &u64| assert!(index.insert(&n.to_be_bytes(), *n)));
        let writer = spawn(&index, |index| {
            (4..6_u64).for_each(|n| assert!(index.insert(&n.to_be_bytes(), n)));
            (3..6_u64).for_each(|n| assert!(index.remove(&n.to_be_bytes(), n)));
        });
        for _ in 0..3 {
            let mut rids = Vec::new();
            index.get(&6_u64.to_be_bytes(), &mut rids);
            assert_eq!(rids, [6], "the key was there all the time");
        }
        writer.join().expect("the writer failed");
    });
}

#[test]
fn gets_go_on_behind_a_separator_that_moves() {
    explore(|| {
        let index = Arc::new(OrderedIndex::new());
        (0..4_u64).for_each(|n| assert!(index.insert(&[n as u8], n)));
        (0..6_u64).for_each(|rid| assert!(index.insert(b"key", rid)));
        let writer =
            spawn(&index, |index| (0..5_u64).for_each(|n| assert!(index.insert(&[1, n as u8], n))));
        for _ in 0..2 {
            let mut rids = Vec::new();
            index.get(b"key", &mut rids);
            assert!(rids.iter().copied().eq(0..6), "all rids of the key were there: {rids:?}");
        }
        writer.join().expect("the writer failed");
    });
}

#[test]
fn a_loaded_tree_is_adopted_under_readers_and_an_inserter() {
    explore(|| {
        let index = index_of([]);
        let loaded = |entries: std::ops::Range<u64>| {
            let mut loader = super::Loader::new();
            entries.for_each(|n| loader.push(&key(n), n));
            loader.finish()
        };
        let threads = vec![
            spawn(&index, move |index| {
                if let Err(loaded) = index.adopt(loaded(0..8)) {
                    loaded.for_each(|key, rid| assert!(index.insert(key, rid)));
                }
            }),
            spawn(&index, |index| (8..10).for_each(|n| assert!(index.insert(&key(n), n)))),
            spawn(&index, |index| {
                let seen = scan(index, Direction::Ascending);
                assert!(seen.iter().all(|n| *n < 10), "{seen:?}");
                let mut rids = Vec::new();
                index.get(&key(3), &mut rids);
                assert!(rids.is_empty() || rids == [3], "{rids:?}");
            }),
        ];
        join_and_expect(threads, &index, 0..10);
    });
}
