//! Writing to a node: everything here needs the latch, or a node that is not published yet.

use std::ops::Range;

use crossbeam_epoch::Guard;

use super::account::Account;
use super::key::{WORD_BYTES, common_prefix_bytes, separator, tail_words, word_at};
use super::latch::{Latch, Restart};
use super::node::{
    Node, PREFIX_BYTES_MAX, SLOTS_MAX, Seen, Shape, Slot, heap_from_raw, suffix_len,
};
use crate::reclaim;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Why reading a node under its own latch cannot ask for a restart.
const LATCHED: &str = "nobody else changes a latched node";

/// Where memory goes that readers may still look at, and the account of what the tree holds.
#[derive(Clone, Copy)]
pub(super) struct Memory<'g> {
    pub guard: &'g Guard,
    pub account: &'g Account,
}

impl Memory<'_> {
    /// Gives a new node a place on the heap and on the account.
    pub fn publish(&self, node: Box<Node>) -> *mut Node {
        self.account.add(node.bytes());
        Box::into_raw(node)
    }

    /// Frees a node once no reader can have it any more.
    ///
    /// # Safety
    /// `node` came from `publish`, is obsolete, no pointer in the tree leads to it, and this is the
    /// only call for it (I4).
    unsafe fn retire_node(&self, node: *mut Node, heap_words: u32) {
        self.account.sub(heap_words as usize * size_of::<u64>());
        // SAFETY: as the caller promises, only readers pinned before now can still hold it, and
        // the epoch waits for them.
        unsafe {
            let give_back = move || drop(Box::from_raw(node));
            self.guard.defer_unchecked(reclaim::counted(give_back));
        }
    }

    /// Replaces the heap of a node by a new one (I4), whose first `used` words are in use.
    fn replace_heap(&self, node: &Node, heap: Box<[AtomicU64]>, used: usize) {
        let words = u32::try_from(heap.len()).expect("a heap has fewer than 2^32 words");
        self.account.add(heap.len() * size_of::<u64>());
        let pointer = if words == 0 { std::ptr::null_mut() } else { Box::into_raw(heap).cast() };
        let old = node.heap.load(Ordering::Relaxed);
        let old_words = node.heap_words.load(Ordering::Relaxed);
        node.heap.store(pointer, Ordering::Relaxed);
        node.heap_words.store(words, Ordering::Relaxed);
        node.heap_used_words.store(used as u32, Ordering::Relaxed);
        node.heap_live_words.store(used as u32, Ordering::Relaxed);
        if !old.is_null() {
            self.account.sub(old_words as usize * size_of::<u64>());
            // SAFETY: I4: the pair was the node's heap and is not reachable from it any more;
            // readers that still have it were pinned before now.
            unsafe {
                let give_back = move || drop(heap_from_raw(old, old_words));
                self.guard.defer_unchecked(reclaim::counted(give_back));
            }
        }
    }
}

/// A sorted run of entries, copied out of nodes so that nodes can be filled anew.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// End of the key in `bytes`, and the rid.
    entries: Vec<(usize, u64)>,
}

impl Batch {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    pub fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.entries[before].0);
        &self.bytes[start..self.entries[index].0]
    }

    pub fn rid(&self, index: usize) -> u64 {
        self.entries[index].1
    }

    pub fn push(&mut self, key: &[u8], rid: u64) {
        self.bytes.extend_from_slice(key);
        self.entries.push((self.bytes.len(), rid));
    }

    /// Appends the entries of another.
    pub fn append(&mut self, other: &Batch) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.entries.extend(other.entries.iter().map(|(end, rid)| (before + end, *rid)));
    }

    fn push_slot(&mut self, from: &Seen<'_>, index: usize) {
        from.append_key(index, &mut self.bytes).expect(LATCHED);
        self.entries.push((self.bytes.len(), from.node.slots[index].rid.load(Ordering::Relaxed)));
    }

    /// Appends all slots of a node that is latched.
    pub fn push_all(&mut self, from: &Seen<'_>) {
        (0..from.node.shape().count).for_each(|index| self.push_slot(from, index));
    }
}

/// A node that nobody else can write: latched, or not published yet.
pub(super) struct Held<'g> {
    pub seen: Seen<'g>,
    latch: Latch<'g>,
}

impl<'g> Held<'g> {
    /// Latches a node, provided that it did not change since it was seen.
    #[inline]
    pub fn latch(seen: Seen<'g>) -> Result<Self, Restart> {
        let latch = seen.node.version.try_latch(seen.version)?;
        let seen = Seen { node: seen.node, version: latch.held() };
        Ok(Held { seen, latch })
    }

    pub fn shape(&self) -> Shape {
        self.seen.node.shape()
    }

    /// Where the entry is or belongs, and whether it is there.
    pub fn find(&self, key: &[u8], rid: u64) -> (usize, bool) {
        let rank = self.seen.rank(key, rid, false).expect(LATCHED);
        let found = rank.in_prefix
            && rank.index < rank.count
            && self.seen.node.slots[rank.index].rid.load(Ordering::Relaxed) == rid
            && self.seen.has_key(rank.index, key).expect(LATCHED);
        (rank.index, found)
    }

    /// Declares a store to the node's contents or to the range it stands for (I2).
    pub fn will_change(&mut self) {
        self.latch.will_change();
    }

    /// Inserts a slot at `at`; in an inner node, `child` becomes the child right of it.
    pub fn insert(
        &mut self,
        at: usize,
        key: &[u8],
        rid: u64,
        child: Option<*mut Node>,
        memory: Memory<'_>,
    ) {
        self.latch.will_change();
        let node = self.seen.node;
        let Shape { count, prefix_len } = node.shape();
        assert!(count < SLOTS_MAX, "a full node is split before an insert");
        if let Some(child) = child {
            shift_up(node.children(), at + 1, count + 1, copy_child);
            node.children()[at + 1].store(child, Ordering::Relaxed);
        }
        if node.order_to_prefix(key, prefix_len).is_ne() {
            return self.refill_with(at, key, rid, memory);
        }
        let suffix = &key[prefix_len..];
        let words = tail_words(suffix.len());
        let offset = if words == 0 { 0 } else { self.write_tail(suffix, words, memory) };
        shift_up(&node.heads, at, count, copy_word);
        shift_up(&node.slots, at, count, Slot::copy);
        node.heads[at].store(word_at(suffix, 0), Ordering::Relaxed);
        node.slots[at].store(pack_tail(offset, suffix), rid);
        node.shape.store(Shape { count: count + 1, prefix_len }.pack(), Ordering::Relaxed);
    }

    /// Inserts a slot whose key lacks the node's prefix: the node gets a shorter one.
    #[cold]
    fn refill_with(&mut self, at: usize, key: &[u8], rid: u64, memory: Memory<'_>) {
        let mut batch = Batch::default();
        let count = self.shape().count;
        (0..at).for_each(|index| batch.push_slot(&self.seen, index));
        batch.push(key, rid);
        (at..count).for_each(|index| batch.push_slot(&self.seen, index));
        fill(self.seen.node, &batch, 0..count + 1, PREFIX_BYTES_MAX, memory);
    }

    /// Appends a tail to the heap, after making room if need be, and returns its offset in words.
    fn write_tail(&mut self, suffix: &[u8], words: usize, memory: Memory<'_>) -> usize {
        let node = self.seen.node;
        let room = node.heap_words.load(Ordering::Relaxed) as usize;
        if node.heap_used_words.load(Ordering::Relaxed) as usize + words > room {
            let live = node.heap_live_words.load(Ordering::Relaxed) as usize;
            self.move_heap((live + words) * 3 / 2 + 4, memory);
        }
        let offset = node.heap_used_words.load(Ordering::Relaxed) as usize;
        write_words(self.seen.tail(pack_tail(offset, suffix)).expect(LATCHED), suffix);
        node.heap_used_words.store((offset + words) as u32, Ordering::Relaxed);
        node.heap_live_words.fetch_add(words as u32, Ordering::Relaxed);
        offset
    }

    /// Moves the live tails to a new heap of `room` words.
    fn move_heap(&mut self, room: usize, memory: Memory<'_>) {
        let node = self.seen.node;
        let heap: Box<[AtomicU64]> = (0..room).map(|_| AtomicU64::new(0)).collect();
        let mut used = 0;
        for slot in &node.slots[..node.shape().count] {
            let tail = slot.tail.load(Ordering::Relaxed);
            let words = self.seen.tail(tail).expect(LATCHED);
            for (to, from) in heap[used..].iter().zip(words) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            slot.tail.store((used as u64) << 32 | tail & 0xffff_ffff, Ordering::Relaxed);
            used += words.len();
        }
        memory.replace_heap(node, heap, used);
    }

    /// Gives the slot at `at` of an inner node another separator; its children stay.
    pub fn replace_slot(&mut self, at: usize, key: &[u8], rid: u64, memory: Memory<'_>) {
        self.latch.will_change();
        let mut batch = Batch::default();
        (0..at).for_each(|index| batch.push_slot(&self.seen, index));
        batch.push(key, rid);
        (at + 1..self.shape().count).for_each(|index| batch.push_slot(&self.seen, index));
        fill(self.seen.node, &batch, 0..batch.len(), PREFIX_BYTES_MAX, memory);
    }

    /// Removes the slot at `at`; in an inner node, together with child `at + child_side`.
    pub fn remove(&mut self, at: usize, child_side: usize, memory: Memory<'_>) {
        /// Heaps up to this size are not worth shrinking.
        const HEAP_WORDS_KEPT: usize = 32;
        self.latch.will_change();
        let node = self.seen.node;
        let Shape { count, prefix_len } = node.shape();
        assert!(at < count, "only a present slot can be removed");
        if node.level > 0 {
            shift_down(node.children(), at + child_side, count + 1, copy_child);
        }
        let words = tail_words(suffix_len(node.slots[at].tail.load(Ordering::Relaxed)));
        shift_down(&node.heads, at, count, copy_word);
        shift_down(&node.slots, at, count, Slot::copy);
        node.shape.store(Shape { count: count - 1, prefix_len }.pack(), Ordering::Relaxed);
        let live = node.heap_live_words.load(Ordering::Relaxed) as usize - words;
        node.heap_live_words.store(live as u32, Ordering::Relaxed);
        let room = node.heap_words.load(Ordering::Relaxed) as usize;
        if room > 0 && live == 0 || room > HEAP_WORDS_KEPT && live < room / 4 {
            self.move_heap(live + live / 2, memory);
        }
    }

    /// Moves the upper part of the node to a new right sibling.
    ///
    /// Returns the sibling and the separator below it. `ascending` says that keys arrive in order,
    /// so that the left node had better stay full.
    pub fn split(&mut self, ascending: bool, memory: Memory<'_>) -> (*mut Node, Batch) {
        self.latch.will_change();
        let node = self.seen.node;
        let mut batch = Batch::default();
        batch.push_all(&self.seen);
        let count = batch.len();
        let right = Node::new(node.level);
        let mut between = Batch::default();
        let prefix_max =
            self.shape().prefix_len.max(common_prefix_bytes(batch.key(0), batch.key(count - 2)));
        if node.level == 0 {
            let left_count = if ascending { count - 1 } else { count / 2 };
            let (key, rid) =
                separator(batch.key(left_count - 1), batch.key(left_count), batch.rid(left_count));
            between.push(key, rid);
            fill(node, &batch, 0..left_count, PREFIX_BYTES_MAX, memory);
            fill(&right, &batch, left_count..count, prefix_max, memory);
        } else {
            let left_count = if ascending { count - 2 } else { count / 2 };
            between.push(batch.key(left_count), batch.rid(left_count));
            for (to, from) in right.children().iter().zip(&node.children()[left_count + 1..=count])
            {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            fill(node, &batch, 0..left_count, PREFIX_BYTES_MAX, memory);
            fill(&right, &batch, left_count + 1..count, prefix_max, memory);
        }
        (memory.publish(right), between)
    }

    /// Gives the node the entries of `batch`; in an inner node also the children.
    pub fn refill(
        &mut self,
        batch: &Batch,
        range: Range<usize>,
        children: &[*mut Node],
        memory: Memory<'_>,
    ) {
        self.latch.will_change();
        let node = self.seen.node;
        for (to, from) in node.children().iter().zip(children) {
            to.store(*from, Ordering::Relaxed);
        }
        fill(node, batch, range, PREFIX_BYTES_MAX, memory);
    }

    /// The child of an inner node at `index`.
    pub fn child(&self, index: usize) -> *mut Node {
        self.seen.child(index).expect(LATCHED)
    }

    /// The children of an inner node, in order.
    pub fn children(&self) -> impl Iterator<Item = *mut Node> {
        let node = self.seen.node;
        node.children()[..=self.shape().count].iter().map(|child| child.load(Ordering::Relaxed))
    }

    /// Marks the node obsolete and frees it once no reader can have it any more.
    ///
    /// # Safety
    /// `pointer` was the only pointer to this node in the tree, and the caller has removed it (I4).
    pub unsafe fn retire(mut self, pointer: *mut Node, memory: Memory<'_>) {
        let node = self.seen.node;
        assert!(
            std::ptr::eq(node, pointer),
            "a node is retired by the pointer it was published as"
        );
        self.latch.will_be_obsolete();
        memory.account.sub(node.bytes());
        // SAFETY: as the caller promises; consuming the latch of an obsolete node makes it once.
        unsafe { memory.retire_node(pointer, node.heap_words.load(Ordering::Relaxed)) };
    }
}

/// Fills a node that nobody else writes with `batch[range]`; children are the caller's business.
pub(super) fn fill(
    node: &Node,
    batch: &Batch,
    range: Range<usize>,
    prefix_max: usize,
    memory: Memory<'_>,
) {
    assert!(range.len() <= SLOTS_MAX, "a node has no more than SLOTS_MAX slots");
    let longest = range.clone().map(|index| batch.key(index).len()).max().unwrap_or(0);
    // Keys that fit in their heads need no prefix.
    let prefix_len = if longest <= WORD_BYTES {
        0
    } else {
        common_prefix_bytes(batch.key(range.start), batch.key(range.end - 1))
            .min(prefix_max)
            .min(PREFIX_BYTES_MAX)
    };
    let live: usize =
        range.clone().map(|index| tail_words(batch.key(index).len() - prefix_len)).sum();
    let room = if live == 0 { 0 } else { live + live / 2 + 4 };
    let heap: Box<[AtomicU64]> = (0..room).map(|_| AtomicU64::new(0)).collect();
    if longest > WORD_BYTES {
        let prefix = &batch.key(range.start)[..prefix_len];
        for (index, word) in node.prefix.iter().enumerate() {
            word.store(word_at(prefix, index * size_of::<u64>()), Ordering::Relaxed);
        }
    }
    let mut used = 0;
    for (slot, index) in range.clone().enumerate() {
        let suffix = &batch.key(index)[prefix_len..];
        let words = tail_words(suffix.len());
        write_words(&heap[used..used + words], suffix);
        node.heads[slot].store(word_at(suffix, 0), Ordering::Relaxed);
        node.slots[slot].store(pack_tail(used, suffix), batch.rid(index));
        used += words;
    }
    node.shape.store(Shape { count: range.len(), prefix_len }.pack(), Ordering::Relaxed);
    memory.replace_heap(node, heap, used);
}

/// Writes what of `suffix` is behind its head.
fn write_words(words: &[AtomicU64], suffix: &[u8]) {
    for (index, word) in words.iter().enumerate() {
        word.store(word_at(suffix, (index + 1) * size_of::<u64>()), Ordering::Relaxed);
    }
}

#[inline]
fn pack_tail(offset_words: usize, suffix: &[u8]) -> u64 {
    debug_assert!(suffix.len() <= u32::MAX as usize, "OrderedIndex::insert limits the key");
    (offset_words as u64) << 32 | suffix.len() as u64
}

/// Moves `cells[at..end]` up by one.
#[inline]
fn shift_up<A>(cells: &[A], at: usize, end: usize, copy: impl Fn(&A, &A)) {
    for pair in cells[at..=end].windows(2).rev() {
        copy(&pair[1], &pair[0]);
    }
}

/// Moves `cells[at + 1..end]` down by one.
#[inline]
fn shift_down<A>(cells: &[A], at: usize, end: usize, copy: impl Fn(&A, &A)) {
    for pair in cells[at..end].windows(2) {
        copy(&pair[0], &pair[1]);
    }
}

#[inline]
fn copy_word(to: &AtomicU64, from: &AtomicU64) {
    to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
}

#[inline]
fn copy_child(to: &AtomicPtr<Node>, from: &AtomicPtr<Node>) {
    to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
}
