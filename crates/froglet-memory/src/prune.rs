//! Pruning: the middle of version chains, which nobody can see.
//!
//! One old read view keeps the collector from cutting anything that ends above it. Of what is written meanwhile it
//! sees nothing, though, and nobody else sees what lies between two views: a row that is updated a million times
//! needs one version for the old view and the newest one.
//!
//! ```text
//!   views          v1                                    v2          (present)
//!   records   e1 ──┼── e2 ── e3 ── e4 ── e5 ── e6 ───────┼── e7 ── e8 ── head
//!                  └──────────── one run ───────────────┘
//!   pruned                  ×     ×     ×     ×                ×
//! ```
//!
//! The committed records between two views are a **run**: no view stops inside it (Wu et al., "An Empirical
//! Evaluation of In-Memory Multi-Version Concurrency Control", VLDB 2017, section 5; HyPer and SAP HANA do the same).
//!
//! **[V1] all or nothing.** Whoever applies one record of a run applies all that are older in it, too: he sees nothing
//! that ends above some timestamp below the run. Before-images of the older ones win, so a record whose columns the
//! older ones of its run have between them changes nothing, and is unlinked: the record before it points to the one
//! behind it. Of a run there remain at most as many records as they have columns.
//! **[V2] who is in the midst.** A record that is unlinked keeps its own `next`. So a reader that stands on it goes on
//! to all that is older, in order, in the chain as it was or as it has become; all of them are in place or under his
//! pin ([U1]), and by [V1] both ways lead to the same state.
//! **[V3] who stops.** A reader that would stop at the newest record of a run stops at the newest that remains, having
//! applied none. A view is registered before the look at the views ([T5] in `clock`), and then no run is across
//! it, or has its snapshot above everything that is pruned.
//! **[V4] the newest stays.** The head is never unlinked (so [B2] in `block` holds), nor is the newest committed
//! version, by which writers and certifiers know that a row has changed.
//! **[V5] keys.** Before what remains of a run there may be states that never were, of some columns of one version
//! and some of another; and a key that the transaction of an unlinked record has noted may have to stay for one of
//! them, or for an older one. So whatever remains of such a row is marked as unnoted ([G6] in `collector`): who
//! unlinks it sees to the keys.
//!
//! An aborted record that is not the head, and a committed lock, change nothing for anybody, and go.

use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::{ColumnId, RowId, SpaceId};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::block::Block;
use crate::clock::{Views, stamped_aborted, stamped_end};
use crate::collector::{Ended, Work};
use crate::engine::Core;
use crate::keys::{all_keys, remove_unneeded};
use crate::space::Space;
use crate::sync::atomic::Ordering;
use crate::undo::{Kind, Undo};

/// A look at all that waits is worth it when that has grown by its own size; where memory is short, by this part of
/// the limit.
const SHORT_PART: usize = 64;

/// The columns that the records of a run cover, seen from the oldest.
#[derive(Default)]
struct Covered {
    columns: SmallVec<[ColumnId; 16]>,
    /// A record below which there is no row.
    all: bool,
}

impl Covered {
    /// Adds a record's columns; whether one of them is new.
    fn add(&mut self, undo: &Undo) -> bool {
        if self.all {
            return false;
        }
        if undo.kind != Kind::Update {
            self.all = true;
            return true;
        }
        let before = self.columns.len();
        for image in undo.images() {
            if !self.columns.contains(&image.column) {
                self.columns.push(image.column);
            }
        }
        self.columns.len() > before
    }
}

/// Which records of a chain, newest first, nobody needs.
fn unneeded(chain: &[&Undo], views: &Views) -> SmallVec<[bool; 64]> {
    let mut gone = SmallVec::from_elem(false, chain.len());
    let word = |undo: &Undo| undo.word.load(Ordering::Acquire);
    let committed = |undo: &Undo| {
        let word = word(undo);
        stamped_end(word).filter(|_| !stamped_aborted(word))
    };
    let is_version = |undo: &&Undo| undo.kind != Kind::Lock && committed(undo).is_some();
    // [V4]
    let Some(newest) = chain.iter().position(is_version) else { return gone };
    let mut covered = Covered::default();
    let mut older: Option<u64> = None;
    for (at, undo) in chain.iter().enumerate().skip(newest + 1).rev() {
        let word = word(undo);
        let Some(end) = stamped_end(word) else {
            older = None;
            continue;
        };
        if end > views.bound {
            older = None;
            continue;
        }
        if stamped_aborted(word) || undo.kind == Kind::Lock {
            gone[at] = true;
            continue;
        }
        let joins = older.is_some_and(|older| {
            assert!(older <= end, "an older version ends at {older}, a newer one at {end}");
            !views.sees(older, end)
        });
        if !joins {
            covered = Covered::default();
        }
        older = Some(end);
        gone[at] = !covered.add(undo) && joins;
    }
    gone
}

/// Unlinks from a row's chain what nobody needs; whether anything was.
fn prune_row(
    core: &Core,
    space: &Space,
    block: &Block,
    rid: RowId,
    views: &Views,
    guard: &Guard,
) -> bool {
    let slot = rid.slot();
    let mut chain: SmallVec<[&Undo; 64]> = SmallVec::new();
    let mut next = block.head(slot, guard);
    while let Some(undo) = next {
        chain.push(undo);
        next = undo.next(guard);
    }
    let gone = unneeded(&chain, views);
    let count = gone.iter().filter(|gone| **gone).count();
    if count == 0 {
        return false;
    }
    assert!(!gone[0], "the head of row {rid} stays");
    let pruned = || chain.iter().zip(&gone).filter(|(_, gone)| **gone).map(|(undo, _)| *undo);
    // Nobody else sees to the keys of these [V5].
    let keys: Vec<_> = match pruned().any(|undo| undo.unnoted.load(Ordering::Relaxed)) {
        true => {
            let indexes = space.indexes();
            let of = |index: &Arc<_>| (Arc::clone(index), all_keys(space, index, rid, guard));
            indexes.iter().map(of).collect()
        }
        false => Vec::new(),
    };
    let changes = pruned().any(|undo| undo.kind == Kind::Update);
    let mut last: Option<&Undo> = None;
    for (undo, gone) in chain.iter().zip(&gone) {
        if *gone {
            continue;
        }
        if let Some(last) = last {
            if changes {
                undo.unnoted.store(true, Ordering::Relaxed);
            }
            if !last.next(guard).is_some_and(|next| std::ptr::eq(next, *undo)) {
                last.set_next(std::ptr::from_ref(*undo).cast_mut());
            }
        }
        last = Some(undo);
    }
    // The oldest record of a run stays, but for locks and aborted ones at the end.
    if let Some(last) = last.filter(|last| last.next(guard).is_some()) {
        last.set_next(std::ptr::null_mut());
    }
    pruned().for_each(|undo| undo.unlinked.store(true, Ordering::Relaxed));
    block.uncount(count as u64);
    for (index, keys) in keys {
        for key in keys {
            remove_unneeded(core, space, &index, rid, &key, guard);
        }
    }
    true
}

/// What the views see of each space that is pinned: of the pins, too.
struct OfSpaces<'a> {
    core: &'a Core,
    views: Views,
    pinned: BTreeMap<SpaceId, Views>,
}

impl OfSpaces<'_> {
    fn of(&mut self, space: &Space) -> &Views {
        if space.oldest_pin() == u64::MAX {
            return &self.views;
        }
        let Views { bound, at } = &self.views;
        self.pinned.entry(space.id).or_insert_with(|| {
            let mut at = [at.as_slice(), &space.pins()].concat();
            at.sort_unstable();
            Views { bound: *bound, at }
        })
    }

    /// Prunes the rows that a transaction has written; whether nothing is left of it, and it has gone.
    fn prune(&mut self, ended: &mut Ended) -> bool {
        if ended.end > self.views.bound {
            return false;
        }
        let (core, guard) = (self.core, epoch::pin());
        let mut is_gone = true;
        for undo in ended.undo.all() {
            let (space, rid) = (&ended.spaces[usize::from(undo.space)], RowId(undo.rid));
            if !undo.unlinked.load(Ordering::Relaxed) {
                let block = space.block(rid.block()).expect("a written row has a block");
                if prune_row(core, space, block, rid, self.of(space), &guard) {
                    core.cooling.touch(space, rid.block(), block, core.cooling.now_ns());
                }
            }
            // Rows that come or go are the collector's, who gives their slots back.
            is_gone &= undo.unlinked.load(Ordering::Relaxed)
                && matches!(undo.kind, Kind::Update | Kind::Lock);
        }
        if is_gone {
            for old in &ended.old_keys {
                let space = &ended.spaces[usize::from(old.space)];
                remove_unneeded(core, space, &old.index, old.rid, &old.key, &guard);
            }
            ended.undo.retire(&core.pool, &guard);
        }
        is_gone
    }
}

impl Core {
    /// Prunes what waits behind old views and pins, if that has grown enough since it was last looked at: by less if
    /// somebody is `refused` memory otherwise.
    pub(crate) fn prune(&self, work: &mut Work, refused: bool) {
        let waiting = self.garbage.waiting_bytes() + work.held_bytes;
        work.left_bytes = work.left_bytes.min(waiting);
        let part = self.budget.limit_bytes() as usize / SHORT_PART;
        let least = self.garbage.prune_bytes_min;
        let step = match least {
            0 => 0,
            _ if refused => least.min(part),
            _ if self.budget.is_short() => work.left_bytes.min(part).max(least),
            _ => work.left_bytes.max(least),
        };
        if waiting < work.left_bytes + step || waiting == 0 {
            return;
        }
        let views = self.timeline.views();
        // Whoever is about to be kept reads as of a timestamp that is not known yet: see `keepers`, [Q1].
        // Who has the lock may wait for the log: then there is another time.
        let Some(announced) = self.keepers.oldest_announced() else { return };
        let bound = views.bound.min(announced).min(self.timeline.durable());
        self.garbage.set_pruning(true);
        let views = Views { bound, ..views };
        let mut spaces = OfSpaces { core: self, views, pinned: BTreeMap::new() };
        let mut is_left = |ended: &mut Ended, gone_bytes: &mut usize| {
            let bytes = ended.undo.bytes();
            let is_gone = spaces.prune(ended);
            *gone_bytes += if is_gone { bytes } else { 0 };
            !is_gone
        };
        let (mut gone, mut held_gone) = (0, 0);
        work.held.retain_mut(|held| is_left(&mut held.ended, &mut held_gone));
        work.held_bytes -= held_gone;
        let mut queue = self.garbage.take_up_to(bound);
        queue.retain_mut(|ended| is_left(ended, &mut gone));
        self.garbage.put_back(queue, gone);
        self.garbage.set_pruning(false);
        work.left_bytes = self.garbage.waiting_bytes() + work.held_bytes;
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::clock::aborted_word;
    use crate::column::{Cell, Long};
    use crate::memory::Budget;
    use crate::undo::{Header, Pool, UndoBuffer};

    /// A chain, newest first: (kind, word, columns).
    fn chain(records: &[(Kind, u64, &[u32])]) -> (UndoBuffer, Pool) {
        let pool = Pool::new(Arc::new(Budget::new(1 << 30)));
        let mut buffer = UndoBuffer::default();
        for (seq, (kind, word, columns)) in records.iter().enumerate() {
            let images: Vec<(ColumnId, Cell, Long<'_>)> =
                columns.iter().map(|id| (ColumnId(*id), Cell::NULL, Long::Copied(&[]))).collect();
            let header = Header {
                word: *word,
                rid: 0,
                redo_at: 0,
                seq: seq as u32,
                space: 0,
                kind: *kind,
                unnoted: false,
            };
            buffer.push(&pool, header, &images);
        }
        (buffer, pool)
    }

    /// Whether each record of a chain stays.
    fn stays(records: &[(Kind, u64, &[u32])], at: &[u64], bound: u64) -> Vec<bool> {
        let (buffer, _pool) = chain(records);
        let chain: Vec<&Undo> = buffer.live().collect();
        let gone = unneeded(&chain, &Views { bound, at: at.to_vec() });
        gone.into_iter().map(|gone| !gone).collect()
    }

    const SET: Kind = Kind::Update;

    #[test]
    fn of_a_run_the_oldest_stays() {
        let records: [(Kind, u64, &[u32]); 6] = [
            (SET, 60, &[1]),
            (SET, 50, &[1]),
            (SET, 40, &[1]),
            (SET, 30, &[1]),
            (SET, 20, &[1]),
            (Kind::Insert, 5, &[]),
        ];
        assert_eq!(stays(&records, &[10], 60), [true, false, false, false, true, true]);
        assert_eq!(stays(&records, &[10, 30], 60), [true, false, true, false, true, true]);
        assert_eq!(stays(&records, &[4], 60), [true, false, false, false, false, true]);
        assert_eq!(stays(&records, &[10], 40), [true, true, false, false, true, true]);
    }

    #[test]
    fn what_no_older_record_of_the_run_covers_stays() {
        let records: [(Kind, u64, &[u32]); 6] = [
            (SET, 60, &[1]),
            (SET, 50, &[1, 2]),
            (SET, 40, &[1]),
            (SET, 30, &[2]),
            (SET, 20, &[1]),
            (Kind::Insert, 5, &[]),
        ];
        assert_eq!(stays(&records, &[10], 60), [true, false, false, true, true, true]);
    }

    #[test]
    fn locks_and_aborted_writes_go_and_open_ones_stay() {
        let open = 1 << 63;
        let records: [(Kind, u64, &[u32]); 7] = [
            (SET, open, &[1]),
            (Kind::Lock, 70, &[]),
            (SET, 60, &[1]),
            (SET, aborted_word(55), &[2]),
            (Kind::Lock, 50, &[]),
            (SET, 40, &[1]),
            (SET, 30, &[1]),
        ];
        assert_eq!(stays(&records, &[10], 90), [true, true, true, false, false, false, true]);
    }

    #[test]
    fn writes_of_one_transaction_are_one_version() {
        let records: [(Kind, u64, &[u32]); 4] =
            [(SET, 60, &[1]), (SET, 40, &[1]), (SET, 40, &[1]), (SET, 40, &[1])];
        assert_eq!(stays(&records, &[39, 40, 41], 60), [true, false, false, true]);
    }
}
