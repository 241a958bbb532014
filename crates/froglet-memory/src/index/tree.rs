//! The tree: finding a node, inserting, removing, splitting and merging.
//!
//! An operation descends optimistically and latches only what it changes, parents before children
//! and left before right, always by `try_latch`: whoever fails drops its latches and starts again,
//! so there is no deadlock.

use crossbeam_epoch::{self as epoch, Guard};

use super::Direction;
use super::account::Account;
use super::edit::{Batch, Held, Memory, fill};
use super::key::{Cut, tail_words};
use super::latch::{Backoff, Restart, Version};
use super::node::{Node, PREFIX_BYTES_MAX, SEARCH_BYTES, SLOTS_MAX, Seen, prefetch};
use crate::sync::atomic::{AtomicPtr, Ordering};

/// Below this many slots a node looks for a sibling to merge with.
const SLOTS_FEW: usize = SLOTS_MAX / 4;
/// A merged node has at most this many slots, so that it is not split at once.
const SLOTS_MERGED_MAX: usize = SLOTS_MAX * 3 / 4;
/// A merged leaf has at most this many words of tails.
const HEAP_WORDS_MERGED_MAX: u32 = 512;

/// The root pointer with its own version, and the account of memory.
pub(super) struct Tree {
    version: Version,
    pub(super) root: AtomicPtr<Node>,
    pub account: Account,
}

/// Where a node's pointer was found: in a parent's child slot, or in the root pointer.
#[derive(Clone, Copy)]
struct Edge<'g> {
    parent: Option<Seen<'g>>,
    index: usize,
    /// The version which protects the pointer, and its number.
    version: &'g Version,
    seen: u64,
}

/// A node reached by a descent, with its surroundings at that moment.
pub(super) struct Path<'g> {
    pub here: Seen<'g>,
    edge: Edge<'g>,
    /// The inner node and the slot that bounds the range of `here` in the direction of the
    /// descent; none at the end of the tree.
    pub fence: Option<(Seen<'g>, usize)>,
}

impl<'g> Path<'g> {
    /// Moves on to the next leaf if its parent is the same and bounds its far end too.
    ///
    /// The parent has not changed since the descent, so the ranges of the two leaves meet (I2).
    #[inline]
    pub fn advance(&mut self, direction: Direction, guard: &'g Guard) -> Result<bool, Restart> {
        let Some(parent) = self.edge.parent else {
            return Ok(false);
        };
        let index = self.edge.index;
        let (next, fence) = match direction {
            Direction::Ascending if index + 1 < parent.node.shape().count => (index + 1, index + 1),
            Direction::Descending if index >= 2 => (index - 1, index - 2),
            _ => return Ok(false),
        };
        // SAFETY: I3: `child` checks the parent's version, and `guard` was pinned before.
        self.here = unsafe { Seen::observe(parent.child(next)?, guard) }?;
        parent.check()?;
        self.edge.index = next;
        self.fence = Some((parent, fence));
        Ok(true)
    }

    /// Asks for the leaf behind the fence, if that is a child of the same parent.
    #[inline]
    pub fn prefetch_next(&self, direction: Direction) {
        if let Some(parent) = self.edge.parent {
            let next = match direction {
                Direction::Ascending => self.edge.index + 1,
                Direction::Descending => self.edge.index.wrapping_sub(1),
            };
            if let Some(next) = parent.node.children().get(next) {
                prefetch(next.load(Ordering::Relaxed), 0..size_of::<Node>());
            }
        }
    }
}

/// What became of an underfull node.
enum Rebalanced {
    /// Nothing to do, or nothing can be done.
    Kept,
    /// The parent lost a slot.
    Merged,
}

impl Tree {
    pub fn new(account: Account) -> Self {
        let guard = epoch::pin();
        let root = Memory { guard: &guard, account: &account }.publish(Node::new(0));
        Tree { version: Version::new(), root: AtomicPtr::new(root), account }
    }

    /// A tree of nodes that nobody else has, given by their root and their bytes.
    pub fn of(root: *mut Node, bytes: usize) -> Self {
        let account = Account::default();
        account.add(bytes);
        Tree { version: Version::new(), root: AtomicPtr::new(root), account }
    }

    /// Swaps contents with a tree that nobody else has, provided that this one is empty.
    pub fn adopt(&self, other: &mut Tree) -> bool {
        retry(|guard| self.try_adopt(other, guard))
    }

    fn try_adopt(&self, other: &mut Tree, guard: &Guard) -> Result<bool, Restart> {
        let seen = self.version.observe()?;
        let pointer = self.root.load(Ordering::Relaxed);
        self.version.check(seen)?;
        // SAFETY: I3: the pointer was checked under the tree's version after `guard` was pinned.
        let root = unsafe { Seen::observe(pointer, guard) }?;
        self.version.check(seen)?;
        let is_empty = root.node.level == 0 && root.node.shape().count == 0;
        root.check()?;
        if !is_empty {
            return Ok(false);
        }
        let mut root_latch = self.version.try_latch(seen)?;
        let root = Held::latch(root)?;
        root_latch.will_change();
        let empty = Node::new(0);
        let empty_bytes = empty.bytes();
        self.root.store(*other.root.get_mut(), Ordering::Relaxed);
        *other.root.get_mut() = Box::into_raw(empty);
        let adopted_bytes = other.account.bytes();
        self.account.add(adopted_bytes);
        other.account.sub(adopted_bytes);
        other.account.add(empty_bytes);
        // SAFETY: I4: the root pointer, the only one to the old root, was just replaced.
        unsafe { root.retire(pointer, self.memory(guard)) };
        Ok(true)
    }

    fn memory<'g>(&'g self, guard: &'g Guard) -> Memory<'g> {
        Memory { guard, account: &self.account }
    }

    /// Descends to the node of `level` (or the root, if that is lower) whose range holds the
    /// entries next to `cut` in the given direction.
    #[inline]
    pub fn descend<'g>(
        &'g self,
        level: u32,
        cut: &Cut<'_>,
        direction: Direction,
        guard: &'g Guard,
    ) -> Result<Path<'g>, Restart> {
        let seen = self.version.observe()?;
        let mut pointer = self.root.load(Ordering::Relaxed);
        self.version.check(seen)?;
        let mut edge = Edge { parent: None, index: 0, version: &self.version, seen };
        let mut fence = None;
        // At a separator equal to the cut, an ascending scan goes right.
        let or_equal = cut.after || direction == Direction::Ascending;
        loop {
            // SAFETY: I3: the pointer was checked under the version of its edge after `guard` was
            // pinned.
            let here = unsafe { Seen::observe(pointer, guard) }?;
            // The node was still in its place when it was observed, so its range is known (I2).
            edge.version.check(edge.seen)?;
            if here.node.level <= level {
                return Ok(Path { here, edge, fence });
            }
            let rank = here.rank_toward(cut, or_equal)?;
            match direction {
                Direction::Ascending if rank.index < rank.count => fence = Some((here, rank.index)),
                Direction::Descending if rank.index > 0 => fence = Some((here, rank.index - 1)),
                _ => {}
            }
            pointer = here.child(rank.index)?;
            // A leaf is most likely not cached, and what it is asked for is anywhere in it.
            prefetch(
                pointer,
                0..if here.node.level == 1 { size_of::<Node>() } else { SEARCH_BYTES },
            );
            edge = Edge {
                parent: Some(here),
                index: rank.index,
                version: &here.node.version,
                seen: here.version,
            };
        }
    }

    pub fn insert(&self, key: &[u8], rid: u64) -> bool {
        retry(|guard| self.try_insert(key, rid, guard))
    }

    fn try_insert(&self, key: &[u8], rid: u64, guard: &Guard) -> Result<bool, Restart> {
        let path = self.descend(0, &Cut::before(key, rid), Direction::Ascending, guard)?;
        let mut leaf = Held::latch(path.here)?;
        let (at, found) = leaf.find(key, rid);
        if found {
            return Ok(false);
        }
        if leaf.seen.node.is_full(tail_words(key.len())) {
            drop(leaf);
            self.split(0, key, rid, guard)?;
            return self.try_insert(key, rid, guard);
        }
        leaf.insert(at, key, rid, None, self.memory(guard));
        Ok(true)
    }

    /// Splits the node of `level` on the way to the entry, and first its parent if that is full.
    #[cold]
    fn split(&self, level: u32, key: &[u8], rid: u64, guard: &Guard) -> Result<(), Restart> {
        let path = self.descend(level, &Cut::before(key, rid), Direction::Ascending, guard)?;
        let words = if level == 0 { tail_words(key.len()) } else { 0 };
        if path.here.node.level != level || !path.here.node.is_full(words) {
            return path.here.check();
        }
        if let Some(parent) = path.edge.parent
            && parent.node.is_full(0)
        {
            self.split(level + 1, key, rid, guard)?;
            return self.split(level, key, rid, guard);
        }
        let memory = self.memory(guard);
        match path.edge.parent {
            Some(parent) => {
                let mut parent = Held::latch(parent)?;
                let mut node = Held::latch(path.here)?;
                let (at, count) = (node.find(key, rid).0, node.shape().count);
                let (right, between) = node.split(at == count, memory);
                parent.insert(path.edge.index, between.key(0), between.rid(0), Some(right), memory);
            }
            None => {
                let mut root_latch = self.version.try_latch(path.edge.seen)?;
                let mut node = Held::latch(path.here)?;
                let (at, count) = (node.find(key, rid).0, node.shape().count);
                let (right, between) = node.split(at == count, memory);
                let root = Node::new(level + 1);
                root.children()[0].store(self.root.load(Ordering::Relaxed), Ordering::Relaxed);
                root.children()[1].store(right, Ordering::Relaxed);
                fill(&root, &between, 0..1, PREFIX_BYTES_MAX, memory);
                root_latch.will_change();
                self.root.store(memory.publish(root), Ordering::Relaxed);
            }
        }
        Ok(())
    }

    pub fn remove(&self, key: &[u8], rid: u64) -> bool {
        let Some(left) = retry(|guard| self.try_remove(key, rid, guard)) else {
            return false;
        };
        // Not on each removal below the threshold, since a neighbour may stay too full for long.
        if left < SLOTS_FEW && left % SLOTS_FEW.div_ceil(4) == 0 {
            let mut level = 0;
            while let Rebalanced::Merged = retry(|guard| self.try_rebalance(level, key, rid, guard))
            {
                level += 1;
            }
        }
        true
    }

    /// Removes the entry and returns how many are left in its leaf.
    fn try_remove(&self, key: &[u8], rid: u64, guard: &Guard) -> Result<Option<usize>, Restart> {
        let path = self.descend(0, &Cut::before(key, rid), Direction::Ascending, guard)?;
        let mut leaf = Held::latch(path.here)?;
        let (at, found) = leaf.find(key, rid);
        if !found {
            return Ok(None);
        }
        leaf.remove(at, 0, self.memory(guard));
        Ok(Some(leaf.shape().count))
    }

    /// Merges the node of `level` on the way to the entry with a sibling if it has few slots.
    fn try_rebalance(
        &self,
        level: u32,
        key: &[u8],
        rid: u64,
        guard: &Guard,
    ) -> Result<Rebalanced, Restart> {
        let path = self.descend(level, &Cut::before(key, rid), Direction::Ascending, guard)?;
        let count = path.here.node.shape().count;
        if path.here.node.level != level || count >= SLOTS_FEW.max(1) {
            return path.here.check().map(|()| Rebalanced::Kept);
        }
        let Some(parent) = path.edge.parent else {
            return self.try_lower_root(path, guard).map(|()| Rebalanced::Kept);
        };
        let parent_count = parent.node.shape().count;
        parent.check()?;
        if parent_count == 0 {
            // An only child: its parent needs a sibling or has to go, before it can get one itself.
            self.try_rebalance(level + 1, key, rid, guard)?;
            return Err(Restart);
        }
        let between = path.edge.index.min(parent_count - 1);
        let parent = Held::latch(parent)?;
        let latch_child = |index| {
            // SAFETY: I3: the parent is latched, and `guard` was pinned before.
            let seen = unsafe { Seen::observe(parent.child(index), guard) }?;
            Held::latch(seen)
        };
        let (left, right) = (latch_child(between)?, latch_child(between + 1)?);
        Ok(if level == 0 {
            merge_leaves(parent, between, left, right, self.memory(guard))
        } else {
            merge_inner(parent, between, left, right, self.memory(guard))
        })
    }

    /// Makes the only child of an inner root the root.
    fn try_lower_root(&self, path: Path<'_>, guard: &Guard) -> Result<(), Restart> {
        if path.here.node.level == 0 {
            return Ok(());
        }
        let mut root_latch = self.version.try_latch(path.edge.seen)?;
        let root = Held::latch(path.here)?;
        if root.shape().count > 0 {
            return Ok(());
        }
        let pointer = self.root.load(Ordering::Relaxed);
        root_latch.will_change();
        self.root.store(root.child(0), Ordering::Relaxed);
        // SAFETY: the root pointer, the only one to the root, was just replaced.
        unsafe { root.retire(pointer, self.memory(guard)) };
        Ok(())
    }
}

/// Merges two leaves, unless together they have too many slots.
fn merge_leaves(
    mut parent: Held<'_>,
    between: usize,
    mut left: Held<'_>,
    mut right: Held<'_>,
    memory: Memory<'_>,
) -> Rebalanced {
    let (left_count, right_count) = (left.shape().count, right.shape().count);
    if left_count == 0 {
        // The right leaf takes over the range, and its contents stay where they are.
        right.will_change();
        let pointer = parent.child(between);
        parent.remove(between, 0, memory);
        // SAFETY: the parent's slot, the only pointer to the left leaf, was just removed.
        unsafe { left.retire(pointer, memory) };
        return Rebalanced::Merged;
    }
    let heap_words = |leaf: &Held<'_>| leaf.seen.node.heap_live_words.load(Ordering::Relaxed);
    if right_count > 0 {
        let heap_words = heap_words(&left) + heap_words(&right);
        if left_count + right_count > SLOTS_MERGED_MAX || heap_words > HEAP_WORDS_MERGED_MAX {
            return Rebalanced::Kept;
        }
        let mut batch = Batch::default();
        batch.push_all(&left.seen);
        batch.push_all(&right.seen);
        left.refill(&batch, 0..batch.len(), &[], memory);
    }
    left.will_change();
    let pointer = parent.child(between + 1);
    parent.remove(between, 1, memory);
    // SAFETY: the parent's slot, the only pointer to the right leaf, was just removed.
    unsafe { right.retire(pointer, memory) };
    Rebalanced::Merged
}

/// Merges two inner nodes around their separator, or evens them out if one has a single child.
fn merge_inner(
    mut parent: Held<'_>,
    between: usize,
    mut left: Held<'_>,
    mut right: Held<'_>,
    memory: Memory<'_>,
) -> Rebalanced {
    let (left_count, right_count) = (left.shape().count, right.shape().count);
    let merged_count = left_count + right_count + 1;
    if merged_count > SLOTS_MERGED_MAX && left_count > 0 && right_count > 0 {
        return Rebalanced::Kept;
    }
    let mut batch = Batch::default();
    batch.push_all(&left.seen);
    let mut key = Vec::new();
    let rid =
        parent.seen.copy_entry(between, &mut key).expect("nobody else changes a latched node");
    batch.push(&key, rid);
    batch.push_all(&right.seen);
    let children: Vec<_> = left.children().chain(right.children()).collect();
    if merged_count <= SLOTS_MERGED_MAX {
        left.refill(&batch, 0..merged_count, &children, memory);
        let pointer = parent.child(between + 1);
        parent.remove(between, 1, memory);
        // SAFETY: the parent's slot, the only pointer to the right node, was just removed.
        unsafe { right.retire(pointer, memory) };
        return Rebalanced::Merged;
    }
    let middle = merged_count / 2;
    left.refill(&batch, 0..middle, &children[..=middle], memory);
    right.refill(&batch, middle + 1..merged_count, &children[middle + 1..], memory);
    parent.replace_slot(between, batch.key(middle), batch.rid(middle), memory);
    Rebalanced::Kept
}

/// Runs an attempt until it succeeds, each time under a fresh pin.
#[inline]
pub(super) fn retry<T>(mut attempt: impl FnMut(&Guard) -> Result<T, Restart>) -> T {
    let mut backoff = Backoff::default();
    loop {
        match attempt(&epoch::pin()) {
            Ok(value) => return value,
            Err(Restart) => backoff.wait(),
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let mut pending = vec![*self.root.get_mut()];
        while let Some(pointer) = pending.pop() {
            // SAFETY: I4: nodes in the tree are not retired, each is reached by one pointer, and
            // `&mut self` shows that no operation is under way.
            let node = unsafe { Box::from_raw(pointer) };
            if node.level > 0 {
                let count = node.shape().count;
                pending.extend(
                    node.children()[..=count].iter().map(|child| child.load(Ordering::Relaxed)),
                );
            }
        }
    }
}
