//! Range scans, one leaf at a time: copy, check, then visit.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow, Range};

use crossbeam_epoch::Guard;

use super::Direction;
use super::key::{Cut, WORD_BYTES, tail_words};
use super::latch::Restart;
use super::node::{Node, PREFIX_BYTES_MAX, SEARCH_BYTES, Seen, prefetch, tail_range};
use super::tree::{Tree, retry};
use crate::sync::atomic::Ordering;

/// A copy of the qualifying slots of one leaf, and where to go on.
#[derive(Default)]
struct LeafCopy {
    prefix: [u8; PREFIX_BYTES_MAX],
    prefix_len: usize,
    slots: Vec<CopiedSlot>,
    /// Tails of all slots, in slot order.
    tails: Vec<u64>,
    longest_suffix: usize,
    /// The separator at the far end of the leaf's range.
    fence_key: Vec<u8>,
    fence_rid: u64,
    is_last: bool,
}

/// One copied slot.
#[derive(Clone, Copy)]
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
    let Buffers { copy, key, near_key } = &mut *buffers;
    loop {
        retry(|guard| copy.take(tree, &near, &far, direction, guard));
        if copy.visit(direction, key, visit).is_break() || copy.is_last {
            break;
        }
        // The next leaf starts at the fence, whatever it is called by then (I2).
        std::mem::swap(near_key, &mut copy.fence_key);
        near = Cut::before(near_key, copy.fence_rid);
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
    copy: LeafCopy,
    key: Vec<u8>,
    near_key: Vec<u8>,
}

impl LeafCopy {
    /// Copies the leaf next to `near` up to `far`; all of it is of one version of the leaf.
    fn take(
        &mut self,
        tree: &Tree,
        near: &Cut<'_>,
        far: &Cut<'_>,
        direction: Direction,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let path = tree.descend(0, near, direction, guard)?;
        let leaf = path.here;
        prefetch(leaf.node, SEARCH_BYTES..size_of::<Node>());
        let (near_rank, far_rank) = (leaf.rank_of(near)?, leaf.rank_of(far)?);
        let slots = match direction {
            Direction::Ascending => near_rank.index..far_rank.index.max(near_rank.index),
            Direction::Descending => far_rank.index.min(near_rank.index)..near_rank.index,
        };
        self.take_slots(leaf, slots)?;
        leaf.check()?;
        path.prefetch_next(direction);
        // The range of the leaf has not changed since the descent, so neither has its fence (I2).
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

    fn take_slots(&mut self, leaf: Seen<'_>, slots: Range<usize>) -> Result<(), Restart> {
        self.slots.clear();
        self.tails.clear();
        self.longest_suffix = 0;
        let node = leaf.node;
        let (Some(heads), Some(slots)) = (node.heads.get(slots.clone()), node.slots.get(slots)) else {
            return Err(Restart);
        };
        self.prefix_len = node.shape().prefix_len;
        for (bytes, word) in self.prefix.as_chunks_mut::<WORD_BYTES>().0.iter_mut().zip(&node.prefix) {
            *bytes = word.load(Ordering::Relaxed).to_be_bytes();
        }
        self.slots.extend(heads.iter().zip(slots).map(|(head, slot)| CopiedSlot {
            head: head.load(Ordering::Relaxed),
            rid: slot.rid.load(Ordering::Relaxed),
            tail: slot.tail.load(Ordering::Relaxed),
        }));
        self.longest_suffix = self.slots.iter().map(CopiedSlot::suffix_len).max().unwrap_or(0);
        if self.longest_suffix > WORD_BYTES {
            let heap = leaf.heap()?;
            for slot in &self.slots {
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
        let prefix_len = self.prefix_len;
        key.clear();
        key.extend_from_slice(&self.prefix[..prefix_len]);
        key.resize(prefix_len + (1 + tail_words(self.longest_suffix)) * WORD_BYTES, 0);
        let mut tails = self.tails.as_slice();
        let mut visit_slot = |slot: &CopiedSlot, tail: &[u64]| {
            visit(slot.put_together(prefix_len, tail, key), slot.rid)
        };
        match direction {
            _ if tails.is_empty() && direction == Direction::Ascending => {
                self.slots.iter().try_for_each(|slot| visit_slot(slot, &[]))
            }
            Direction::Ascending => self.slots.iter().try_for_each(|slot| {
                let (tail, rest) = tails.split_at(tail_words(slot.suffix_len()));
                tails = rest;
                visit_slot(slot, tail)
            }),
            Direction::Descending => self.slots.iter().rev().try_for_each(|slot| {
                let (rest, tail) = tails.split_at(tails.len() - tail_words(slot.suffix_len()));
                tails = rest;
                visit_slot(slot, tail)
            }),
        }
    }
}

impl CopiedSlot {
    fn suffix_len(&self) -> usize {
        self.tail as u32 as usize
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
