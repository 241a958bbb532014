//! Range scans, a few leaves at a time: copy, check, then visit.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow, Range};

use crossbeam_epoch::Guard;

use super::Direction;
use super::key::{Cut, WORD_BYTES, tail_words};
use super::latch::Restart;
use super::node::{PREFIX_BYTES_MAX, SLOTS_MAX, Seen, suffix_len, tail_range};
use super::tree::{Tree, retry};
use crate::sync::atomic::Ordering;

/// Leaves that are copied under one pin, at most.
const LEAVES_MAX: usize = 4;

/// A first leaf with fewer qualifying slots than this takes the next one with it.
const SLOTS_ENOUGH: usize = 24;

/// Copies of neighbouring leaves, and where to go on.
#[derive(Default)]
struct Copies {
    leaves: [LeafCopy; LEAVES_MAX],
    /// How many of `leaves` are in use.
    count: usize,
    /// The separator at the far end of the last leaf's range.
    fence_key: Vec<u8>,
    fence_rid: u64,
    is_last: bool,
}

/// A copy of the qualifying slots of one leaf.
struct LeafCopy {
    prefix: [u8; PREFIX_BYTES_MAX],
    prefix_len: usize,
    /// Room for a full leaf, of which the first `count` are in use.
    slots: Box<[CopiedSlot; SLOTS_MAX]>,
    count: usize,
    /// Tails of all slots, in slot order.
    tails: Vec<u64>,
    longest_suffix: usize,
}

/// One copied slot.
#[derive(Clone, Copy, Default)]
struct CopiedSlot {
    head: u64,
    rid: u64,
    tail: u64,
}

pub(super) fn scan(
    tree: &Tree,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    direction: Direction,
    visit: &mut dyn FnMut(&[u8], u64) -> ControlFlow<()>,
) {
    let lower = match lower {
        Bound::Included(key) => Cut::before(key, 0),
        Bound::Excluded(key) => Cut::after_all(key),
        Bound::Unbounded => Cut::before(&[], 0),
    };
    let upper = match upper {
        Bound::Included(key) => Cut::after_all(key),
        Bound::Excluded(key) => Cut::before(key, 0),
        Bound::Unbounded => Cut::end(),
    };
    let (mut near, far) = match direction {
        Direction::Ascending => (lower, upper),
        Direction::Descending => (upper, lower),
    };
    let mut buffers = SPARE.take().unwrap_or_default();
    let Buffers { copies, key, near_key } = &mut *buffers;
    // A scan that goes on is likely to go on for longer.
    for round in 0.. {
        let leaves_wanted = LEAVES_MAX.min(1 << round.min(LEAVES_MAX));
        retry(|guard| copies.take(tree, &near, &far, direction, leaves_wanted, guard));
        let taken = &copies.leaves[..copies.count];
        let flow = taken.iter().try_for_each(|leaf| leaf.visit(direction, key, visit));
        if flow.is_break() || copies.is_last {
            break;
        }
        // The next leaf starts at the fence, whatever it is called by then (I2).
        std::mem::swap(near_key, &mut copies.fence_key);
        near = Cut::before(near_key, copies.fence_rid);
    }
    SPARE.set(Some(buffers));
}

thread_local! {
    /// Buffers of this thread's last scan, for its next one. A scan within a scan has its own.
    static SPARE: Cell<Option<Box<Buffers>>> = const { Cell::new(None) };
}

/// What a scan needs to have allocated.
#[derive(Default)]
struct Buffers {
    copies: Copies,
    key: Vec<u8>,
    near_key: Vec<u8>,
}

impl Copies {
    /// Copies the leaf next to `near`, and up to `leaves_wanted` in all, as far as `far`.
    ///
    /// Each copy is of one version of its leaf, and their ranges meet.
    fn take(
        &mut self,
        tree: &Tree,
        near: &Cut<'_>,
        far: &Cut<'_>,
        direction: Direction,
        leaves_wanted: usize,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let mut path = tree.descend(0, near, direction, guard)?;
        self.count = 0;
        loop {
            let leaf = path.here;
            path.prefetch_next(direction);
            let (near_rank, far_rank) = (leaf.rank_of(near)?, leaf.rank_of(far)?);
            let (slots, is_cut) = match direction {
                Direction::Ascending => {
                    (near_rank.index..far_rank.index, far_rank.index < far_rank.count)
                }
                Direction::Descending => (far_rank.index..near_rank.index, far_rank.index > 0),
            };
            // Bounds the wrong way round leave nothing.
            let slots = slots.start..slots.end.max(slots.start);
            let is_short = self.count == 0 && slots.len() < SLOTS_ENOUGH;
            self.leaves[self.count].take(leaf, slots)?;
            leaf.check()?;
            self.count += 1;
            let wants_more = self.count < leaves_wanted || is_short;
            if is_cut || !wants_more || !path.advance(direction, guard)? {
                break;
            }
        }
        // The range of the last leaf was the same when it was checked, so its fence was, too (I2).
        self.is_last = true;
        if let Some((node, slot)) = path.fence {
            self.fence_rid = node.copy_entry(slot, &mut self.fence_key)?;
            node.check()?;
            self.is_last = match direction {
                Direction::Ascending => !far.is_right_of(&self.fence_key, self.fence_rid),
                Direction::Descending => far.is_right_of(&self.fence_key, self.fence_rid),
            };
        }
        Ok(())
    }
}

impl Default for LeafCopy {
    fn default() -> Self {
        LeafCopy {
            prefix: [0; PREFIX_BYTES_MAX],
            prefix_len: 0,
            slots: Box::new([CopiedSlot::default(); SLOTS_MAX]),
            count: 0,
            tails: Vec::new(),
            longest_suffix: 0,
        }
    }
}

impl LeafCopy {
    /// Copies some slots of a leaf, to be believed after its check.
    fn take(&mut self, leaf: Seen<'_>, slots: Range<usize>) -> Result<(), Restart> {
        self.tails.clear();
        self.longest_suffix = 0;
        let node = leaf.node;
        let (Some(heads), Some(slots)) = (node.heads.get(slots.clone()), node.slots.get(slots))
        else {
            return Err(Restart);
        };
        self.prefix_len = node.shape().prefix_len;
        for (bytes, word) in
            self.prefix.as_chunks_mut::<WORD_BYTES>().0.iter_mut().zip(&node.prefix)
        {
            *bytes = word.load(Ordering::Relaxed).to_be_bytes();
        }
        self.count = slots.len();
        let mut longest_suffix = 0;
        for ((to, head), slot) in self.slots.iter_mut().zip(heads).zip(slots) {
            to.head = head.load(Ordering::Relaxed);
            to.rid = slot.rid.load(Ordering::Relaxed);
            to.tail = slot.tail.load(Ordering::Relaxed);
            longest_suffix = longest_suffix.max(to.suffix_len());
        }
        self.longest_suffix = longest_suffix;
        if self.longest_suffix > WORD_BYTES {
            let heap = leaf.heap()?;
            for slot in &self.slots[..self.count] {
                let words = heap.get(tail_range(slot.tail)).ok_or(Restart)?;
                self.tails.extend(words.iter().map(|word| word.load(Ordering::Relaxed)));
            }
        }
        Ok(())
    }

    /// Visits the copied entries in the given direction, each key put together in `key`.
    fn visit(
        &self,
        direction: Direction,
        key: &mut Vec<u8>,
        visit: &mut dyn FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let prefix_len = self.prefix_len.min(PREFIX_BYTES_MAX);
        key.clear();
        key.extend_from_slice(&self.prefix[..prefix_len]);
        key.resize(prefix_len + (1 + tail_words(self.longest_suffix)) * WORD_BYTES, 0);
        let key = key.as_mut_slice();
        let slots = &self.slots[..self.count];
        let mut tails = self.tails.as_slice();
        if tails.is_empty() && direction == Direction::Ascending {
            // The usual case, with nothing to do but to swap one word of the key.
            return slots.iter().try_for_each(|slot| {
                key[prefix_len..prefix_len + WORD_BYTES].copy_from_slice(&slot.head.to_be_bytes());
                visit(&key[..prefix_len + slot.suffix_len()], slot.rid)
            });
        }
        let mut visit_slot = |slot: &CopiedSlot, tail: &[u64]| {
            visit(slot.put_together(prefix_len, tail, key), slot.rid)
        };
        match direction {
            Direction::Ascending => slots.iter().try_for_each(|slot| {
                let (tail, rest) = tails.split_at(tail_words(slot.suffix_len()));
                tails = rest;
                visit_slot(slot, tail)
            }),
            Direction::Descending => slots.iter().rev().try_for_each(|slot| {
                let (rest, tail) = tails.split_at(tails.len() - tail_words(slot.suffix_len()));
                tails = rest;
                visit_slot(slot, tail)
            }),
        }
    }
}

impl CopiedSlot {
    fn suffix_len(&self) -> usize {
        suffix_len(self.tail)
    }

    /// Writes head and tail behind the prefix that `key` starts with, and returns the whole key.
    #[inline]
    fn put_together<'k>(&self, prefix_len: usize, tail: &[u64], key: &'k mut [u8]) -> &'k [u8] {
        let (words, _) = key[prefix_len..].as_chunks_mut::<WORD_BYTES>();
        words[0] = self.head.to_be_bytes();
        for (bytes, word) in words[1..].iter_mut().zip(tail) {
            *bytes = word.to_be_bytes();
        }
        &key[..prefix_len + self.suffix_len()]
    }
}
