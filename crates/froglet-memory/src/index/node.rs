//! The layout of a node, and reading one under its version.
//!
//! Slots are sorted by (key, rid). All keys of a node share their first `prefix_len` bytes; a slot
//! has the next eight bytes as its head, and the bytes behind those, its tail, in the node's heap.

use std::cmp::Ordering as Order;
use std::hint::select_unpredictable;
use std::ops::Range;
use std::slice;

use crossbeam_epoch::Guard;

use super::key::{Cut, WORD_BYTES, tail_words, word_at};
use super::latch::{Restart, Version};
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Slots of a node. Model checkers get small nodes, so that few entries make a tall tree.
pub(super) const SLOTS_MAX: usize = if cfg!(any(shuttle, miri)) { 4 } else { 64 };

/// Words of a node's prefix.
const PREFIX_WORDS: usize = 3;

/// Longest common prefix which a node leaves out of its slots.
pub(super) const PREFIX_BYTES_MAX: usize = PREFIX_WORDS * WORD_BYTES;

/// A node of the tree. Leaves are level 0.
///
/// Every field that changes after publication is an atomic, written under the latch of `version`
/// and read under its number (I1).
#[repr(C, align(64))]
pub(super) struct Node {
    pub version: Version,
    /// Slot count in bits 0..16, prefix length in bytes in bits 16..32.
    pub(super) shape: AtomicU64,
    /// The shared prefix as big-endian words, zero padded.
    pub(super) prefix: [AtomicU64; PREFIX_WORDS],
    /// `heap_words` words of tails, or null.
    pub(super) heap: AtomicPtr<AtomicU64>,
    pub(super) heap_words: AtomicU32,
    pub(super) level: u32,
    /// An inner node's children; none in a leaf.
    children: Option<Box<[AtomicPtr<Node>; SLOTS_MAX + 1]>>,
    /// The first eight bytes of each suffix, big-endian, zero padded.
    pub(super) heads: [AtomicU64; SLOTS_MAX],
    pub(super) slots: [Slot; SLOTS_MAX],
    /// Heap words handed out, dead ones included; for the latch holder only.
    pub(super) heap_used_words: AtomicU32,
    /// Heap words that slots refer to; for the latch holder only.
    pub(super) heap_live_words: AtomicU32,
}

/// What a slot has besides its head; in one cache line, since an exact hit needs both.
#[repr(C, align(16))]
pub(super) struct Slot {
    /// `heap offset in words << 32 | suffix length in bytes`.
    pub tail: AtomicU64,
    pub rid: AtomicU64,
}

impl Slot {
    fn new() -> Self {
        Slot { tail: AtomicU64::new(0), rid: AtomicU64::new(0) }
    }

    /// Takes over the contents of `from`.
    #[inline]
    pub fn copy(&self, from: &Slot) {
        self.store(from.tail.load(Ordering::Relaxed), from.rid.load(Ordering::Relaxed));
    }

    #[inline]
    pub fn store(&self, tail: u64, rid: u64) {
        self.tail.store(tail, Ordering::Relaxed);
        self.rid.store(rid, Ordering::Relaxed);
    }
}

#[cfg(not(shuttle))]
const _: () =
    assert!(std::mem::offset_of!(Node, heads) == 64, "a search starts with one cache line");
const _: () = assert!(SLOTS_MAX < 1 << 16 && PREFIX_BYTES_MAX < 1 << 16, "both fit in a shape");
const _: () = assert!(SLOTS_MAX >= 4, "a split needs two slots on either side");

/// Slot count and prefix length, read together.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub count: usize,
    pub prefix_len: usize,
}

impl Shape {
    #[inline]
    pub fn pack(self) -> u64 {
        debug_assert!(self.count <= SLOTS_MAX, "a node has no more than SLOTS_MAX slots");
        debug_assert!(self.prefix_len <= PREFIX_BYTES_MAX, "the prefix fits in its words");
        (self.prefix_len as u64) << 16 | self.count as u64
    }
}

impl Node {
    /// An empty node; `level` 0 is a leaf.
    pub fn new(level: u32) -> Box<Node> {
        let zero = |_| AtomicU64::new(0);
        Box::new(Node {
            version: Version::new(),
            shape: AtomicU64::new(0),
            prefix: std::array::from_fn(zero),
            heap: AtomicPtr::default(),
            heap_words: AtomicU32::new(0),
            level,
            children: (level > 0).then(|| Box::new(std::array::from_fn(|_| AtomicPtr::default()))),
            heads: std::array::from_fn(zero),
            slots: std::array::from_fn(|_| Slot::new()),
            heap_used_words: AtomicU32::new(0),
            heap_live_words: AtomicU32::new(0),
        })
    }

    /// An inner node's `SLOTS_MAX + 1` children, of which the first slot count + 1 count.
    #[inline]
    pub fn children(&self) -> &[AtomicPtr<Node>] {
        self.children.as_ref().map_or(&[], |children| &children[..])
    }

    /// Bytes of this node without its heap.
    pub fn bytes(&self) -> usize {
        size_of::<Node>() + size_of_val(self.children())
    }

    /// Slot count and prefix length as of now. Always in bounds, whatever writers do.
    #[inline]
    pub fn shape(&self) -> Shape {
        let shape = self.shape.load(Ordering::Relaxed);
        Shape { count: shape as usize & 0xffff, prefix_len: shape as usize >> 16 }
    }

    /// Whether one more slot whose tail has `words` words asks for a split.
    pub fn is_full(&self, words: usize) -> bool {
        /// Tails of a node, unless it has very few slots.
        const HEAP_WORDS_MAX: usize = 1024;
        let count = self.shape().count;
        let heap_words = self.heap_live_words.load(Ordering::Relaxed) as usize + words;
        count == SLOTS_MAX || (count >= 4 && heap_words > HEAP_WORDS_MAX)
    }

    /// Orders `key`, cut to the length of the node's prefix, against that prefix.
    #[inline]
    pub fn order_to_prefix(&self, key: &[u8], prefix_len: usize) -> Order {
        let mut at = 0;
        for word in &self.prefix {
            if at >= prefix_len {
                break;
            }
            let mut wanted = word_at(key, at);
            if prefix_len - at < WORD_BYTES {
                wanted &= !(u64::MAX >> (8 * (prefix_len - at)));
            }
            let found = word.load(Ordering::Relaxed);
            if wanted != found {
                return wanted.cmp(&found);
            }
            at += WORD_BYTES;
        }
        if key.len() < prefix_len { Order::Less } else { Order::Equal }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // SAFETY: I4: a node owns the heap it points to, and `&mut self` shows that nobody reads it.
        drop(unsafe { heap_from_raw(*self.heap.get_mut(), *self.heap_words.get_mut()) });
    }
}

/// Takes back a heap which a node gave away as a pointer and a length.
///
/// # Safety
/// `heap` is null, or came with `words` from `Box::into_raw` and is not used afterwards.
pub(super) unsafe fn heap_from_raw(heap: *mut AtomicU64, words: u32) -> Option<Box<[AtomicU64]>> {
    if heap.is_null() {
        return None;
    }
    let heap = std::ptr::slice_from_raw_parts_mut(heap, words as usize);
    // SAFETY: the caller promises that pointer and length belong together and are owned.
    Some(unsafe { Box::from_raw(heap) })
}

/// A node together with the version number under which it is read.
#[derive(Clone, Copy)]
pub(super) struct Seen<'g> {
    pub node: &'g Node,
    pub version: u64,
}

/// Slots left of a cut, of all slots.
#[derive(Clone, Copy)]
pub(super) struct Rank {
    pub index: usize,
    pub count: usize,
    /// Whether the key has the node's prefix; if not, no slot has the key.
    pub in_prefix: bool,
}

impl<'g> Seen<'g> {
    /// Observes the node behind `pointer`.
    ///
    /// # Safety
    /// `pointer` was read from the tree under a version that was checked after the read, while
    /// `guard` was pinned (I3), so the node is initialised and not reclaimed before the guard ends.
    #[inline]
    pub unsafe fn observe(pointer: *mut Node, _guard: &'g Guard) -> Result<Self, Restart> {
        // SAFETY: as the caller promises; nodes are only ever shared after publication (I1).
        let node: &'g Node = unsafe { &*pointer };
        let version = node.version.observe()?;
        Ok(Seen { node, version })
    }

    /// Succeeds if everything read from the node so far belongs to one version.
    #[inline]
    pub fn check(&self) -> Result<(), Restart> {
        self.node.version.check(self.version)
    }

    /// The node's tails. What a slot says about its offset is still to be bounds checked.
    #[inline]
    pub fn heap(&self) -> Result<&'g [AtomicU64], Restart> {
        let heap = self.node.heap.load(Ordering::Relaxed);
        let words = self.node.heap_words.load(Ordering::Relaxed);
        self.check()?;
        if heap.is_null() {
            return Ok(&[]);
        }
        // SAFETY: the check shows that pointer and length are of one version, so they belong
        // together (I4); the guard of 'g was pinned before and keeps the heap from reclamation.
        Ok(unsafe { slice::from_raw_parts(heap, words as usize) })
    }

    /// The tail words of a slot.
    #[inline]
    pub fn tail(&self, tail: u64) -> Result<&'g [AtomicU64], Restart> {
        self.heap()?.get(tail_range(tail)).ok_or(Restart)
    }

    /// How many slots are left of (`key`, `rid`); a slot equal to it counts if `or_equal`.
    #[inline]
    pub fn rank(&self, key: &[u8], rid: u64, or_equal: bool) -> Result<Rank, Restart> {
        let Shape { count, prefix_len } = self.node.shape();
        match self.node.order_to_prefix(key, prefix_len) {
            Order::Less => {
                return Ok(Rank { index: 0, count, in_prefix: false });
            }
            Order::Greater => {
                return Ok(Rank { index: count, count, in_prefix: false });
            }
            Order::Equal => {}
        }
        let heads = &self.node.heads[..count];
        let head = word_at(key, prefix_len);
        let mut index = partition_point(heads, |found| found < head);
        if index < count && heads[index].load(Ordering::Relaxed) == head {
            let suffix = &key[prefix_len..];
            let mut end = index + 1;
            if end < count && heads[end].load(Ordering::Relaxed) == head {
                end += partition_point(&heads[end..], |found| found == head);
            }
            while index < end {
                let middle = index + (end - index) / 2;
                match self.order_same_head(middle, suffix, rid)? {
                    Order::Less => index = middle + 1,
                    Order::Equal if or_equal => index = middle + 1,
                    _ => end = middle,
                }
            }
        }
        Ok(Rank { index, count, in_prefix: true })
    }

    /// How many slots are left of `cut`.
    #[inline]
    pub fn rank_of(&self, cut: &Cut<'_>) -> Result<Rank, Restart> {
        self.rank_toward(cut, cut.after)
    }

    /// As `rank_of`, but a slot equal to the cut's entry counts if `or_equal`.
    #[inline]
    pub fn rank_toward(&self, cut: &Cut<'_>, or_equal: bool) -> Result<Rank, Restart> {
        if cut.is_end {
            let count = self.node.shape().count;
            return Ok(Rank { index: count, count, in_prefix: false });
        }
        self.rank(cut.key, cut.rid, or_equal)
    }

    /// Orders the slot at `index` to (`suffix`, `rid`), given that their heads are equal.
    #[inline]
    fn order_same_head(&self, index: usize, suffix: &[u8], rid: u64) -> Result<Order, Restart> {
        Ok(match self.order_tail(index, suffix)? {
            Order::Equal => self.node.slots[index].rid.load(Ordering::Relaxed).cmp(&rid),
            unequal => unequal,
        })
    }

    #[inline]
    fn order_tail(&self, index: usize, suffix: &[u8]) -> Result<Order, Restart> {
        let tail = self.node.slots[index].tail.load(Ordering::Relaxed);
        let len = suffix_len(tail);
        if len > WORD_BYTES && suffix.len() > WORD_BYTES {
            let mut at = WORD_BYTES;
            for found in self.tail(tail)? {
                if at >= suffix.len() {
                    break;
                }
                let found = found.load(Ordering::Relaxed);
                let wanted = word_at(suffix, at);
                if found != wanted {
                    return Ok(found.cmp(&wanted));
                }
                at += WORD_BYTES;
            }
        }
        Ok(len.cmp(&suffix.len()))
    }

    /// Whether the slot at `index` has `key`, which starts with the node's prefix.
    #[inline]
    pub fn has_key(&self, index: usize, key: &[u8]) -> Result<bool, Restart> {
        let suffix = key.get(self.node.shape().prefix_len..).ok_or(Restart)?;
        Ok(self.node.heads[index].load(Ordering::Relaxed) == word_at(suffix, 0)
            && self.order_tail(index, suffix)? == Order::Equal)
    }

    /// Writes the key of the slot at `index` over `key` and returns its rid.
    ///
    /// Both are only to be believed after `check`.
    pub fn copy_entry(&self, index: usize, key: &mut Vec<u8>) -> Result<u64, Restart> {
        key.clear();
        self.append_key(index, key)?;
        Ok(self.node.slots[index].rid.load(Ordering::Relaxed))
    }

    /// Appends the key of the slot at `index`, to be believed after `check`.
    pub fn append_key(&self, index: usize, key: &mut Vec<u8>) -> Result<(), Restart> {
        let start = key.len();
        let prefix_len = self.node.shape().prefix_len;
        for word in &self.node.prefix[..prefix_len.div_ceil(WORD_BYTES)] {
            key.extend_from_slice(&word.load(Ordering::Relaxed).to_be_bytes());
        }
        key.truncate(start + prefix_len);
        let tail = self.node.slots[index].tail.load(Ordering::Relaxed);
        key.extend_from_slice(&self.node.heads[index].load(Ordering::Relaxed).to_be_bytes());
        if suffix_len(tail) > WORD_BYTES {
            for word in self.tail(tail)? {
                key.extend_from_slice(&word.load(Ordering::Relaxed).to_be_bytes());
            }
        }
        key.truncate(start + prefix_len + suffix_len(tail));
        Ok(())
    }

    /// The child at `index`, checked, hence safe to observe (I3).
    #[inline]
    pub fn child(&self, index: usize) -> Result<*mut Node, Restart> {
        let child = self.node.children()[index].load(Ordering::Relaxed);
        self.check()?;
        Ok(child)
    }
}

/// Where in the heap the words of a slot's tail are.
#[inline]
pub(super) fn tail_range(tail: u64) -> Range<usize> {
    let from = (tail >> 32) as usize;
    from..from + tail_words(suffix_len(tail))
}

/// The length in bytes of a slot's key without the node's prefix.
#[inline]
pub(super) fn suffix_len(tail: u64) -> usize {
    tail as u32 as usize
}

/// Asks for the part of a node that a search reads, before it is known to be one.
#[inline]
pub(super) fn prefetch(node: *const Node, bytes: Range<usize>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in bytes.step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint that reads nothing, so any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(node.cast::<i8>().wrapping_add(line)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (node, bytes);
}

/// The bytes of a node that a search reads first: what precedes the slots.
pub(super) const SEARCH_BYTES: usize = std::mem::offset_of!(Node, slots);

/// How many of `heads`, sorted so that those which satisfy `left` come first, satisfy it.
#[inline]
fn partition_point(heads: &[AtomicU64], left: impl Fn(u64) -> bool) -> usize {
    let mut base = 0;
    let mut size = heads.len();
    if size == 0 {
        return 0;
    }
    while size > 1 {
        let half = size / 2;
        let is_left = left(heads[base + half].load(Ordering::Relaxed));
        base = select_unpredictable(is_left, base + half, base);
        size -= half;
    }
    base + usize::from(left(heads[base].load(Ordering::Relaxed)))
}
