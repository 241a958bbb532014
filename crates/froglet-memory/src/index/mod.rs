//! The ordered index: order-preserving key bytes → row ids, for many threads at once.
//!
//! The problem: every statement looks keys up, every write inserts, garbage collection removes all
//! the time, and none of them may wait for a scan. The structure is a B+-tree with optimistic lock
//! coupling (Leis, Haubenschild, Neumann: "Optimistic Lock Coupling", IEEE Data Eng. Bull. 42(1),
//! 2019) over truncated keys (Graefe, Larson: "B-Tree Indexes and CPU Caches", ICDE 2001). An entry
//! is the pair (key, rid), ordered by key bytes, then rid; so a key may have many rids.
//!
//! ```text
//!  root ──► inner, level 1 │ sep 0 │ sep 1 │ …        left of sep i < sep i ≤ right of it
//!                 child 0 ◄┘   child 1 ◄┘   └► child 2
//!                    │            └─► leaf [ (key, rid) (key, rid) … ]   no links between leaves
//!                    └─► leaf [ … ]
//!
//!  node   │ version │ shape │ prefix 24 B │ heap ► │ children ► │   one cache line
//!         │ head 0 │ head 1 │ …                    8 key bytes each, behind the prefix
//!         │ tail 0, rid 0 │ tail 1, rid 1 │ …      tail: offset in the heap, suffix length
//!  heap   │ key bytes behind the heads, in words; only if some key is that long
//!
//!  key    "warehouse/0042/order/17" =  prefix "warehouse/0042/" + head "order/17" + tail ""
//! ```
//!
//! A search compares integers: the prefix once, then heads; tails only between equal heads. A
//! separator is the shortest key that tells its neighbours apart, with a rid only if they are rids
//! of one key.
//!
//! # Invariants
//! - **I1, versions.** What a node says is stored only under its latch, in atomics, and belongs to
//!   one version number; what was read is believed only after that number was checked again.
//!   Unchecked values are used for nothing but bounds-checked indexing within the node.
//! - **I2, ranges.** A node stands for a range of entries between two separators of its ancestors.
//!   Its range changes only under its latch and with its version number, so who has a node's range
//!   and version has the range for as long as the version holds.
//! - **I3, edges.** A child or root pointer is followed only after the version it was read under
//!   was checked, under an epoch pin from before the read, or under the latch.
//! - **I4, ownership.** A node in the tree is pointed to once, and a heap by one node. Who removes
//!   that pointer, under its latch, hands node or heap to the epoch, once; the node is obsolete
//!   from then on, and nobody latches it again.
//! - **I5, latch order.** Parents before children, left before right, and never waiting: a failed
//!   `try_latch` gives up all latches. No latch and no pin is held while a scan's visitor runs.
//!
//! # Why optimistic readers are right
//! A reader couples versions: it observes the child's version, then checks the parent's. At that
//! moment the child was in place and had the range which the descent took it for; by I2 that holds
//! until the child's version changes. So an answer that passes the check of the leaf was the truth
//! at one moment between begin and end of the operation (the module `latch` has the fences). What
//! a reader dereferences, nodes by I3 and heaps by I1 and I4, the pin keeps.
//!
//! A scan copies a leaf's entries, checks, and goes on from the *fence*, the separator at the end
//! of that leaf's range, not from a leaf that may be gone by then. Ranges of consecutive copies
//! meet without overlap, whatever is split or merged between, so an entry that stays is seen once.
//!
//! Removals give memory back: an empty leaf is unlinked at once, one with few slots merges with a
//! neighbour if both fit, and so on upwards, down to a tree of less height.
//!
//! # Left out on purpose
//! - Versions: a hit is checked against the row. A scan is no snapshot either: it takes leaves at
//!   different moments.
//! - Links between leaves: the next leaf is found from the root, whose path is cached.
//! - Fairness: a writer that meets another one at the same leaf tries again, with growing pauses.
//!
//! Entries in order are loaded from the leaves up (`load`), which takes no search for each.

mod account;
mod edit;
mod key;
mod latch;
mod load;
mod node;
mod scan;
#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(test)]
mod sound;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod tree;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use smallvec::SmallVec;

use crate::memory::Budget;
use crate::sync::atomic::{AtomicUsize, Ordering};
use account::Account;
use key::Cut;
pub use load::Loader;
use tree::{Tree, retry};

/// The order in which a scan visits entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the lower bound up.
    Ascending,
    /// From the upper bound down.
    Descending,
}

/// A concurrent ordered set of (key bytes, row id), ordered by key, then row id.
///
/// All operations take `&self` and may run on any number of threads.
pub struct OrderedIndex {
    tree: Tree,
    entries: AtomicUsize,
}

impl Default for OrderedIndex {
    fn default() -> Self {
        Self::new()
    }
}

impl OrderedIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::of(Account::default())
    }

    /// An empty index whose bytes are on an engine's account, too.
    pub(crate) fn on(budget: &Arc<Budget>) -> Self {
        Self::of(Account::new(Some(Arc::clone(budget))))
    }

    fn of(account: Account) -> Self {
        OrderedIndex { tree: Tree::new(account), entries: AtomicUsize::new(0) }
    }

    /// Adds the entry; `false` if it was there already.
    ///
    /// # Panics
    /// If the key has 4 GiB or more; callers limit keys far below that.
    pub fn insert(&self, key: &[u8], rid: u64) -> bool {
        assert!(
            key.len() < u32::MAX as usize,
            "a key of {} bytes is too long for the index",
            key.len()
        );
        let is_new = self.tree.insert(key, rid);
        if is_new {
            self.entries.fetch_add(1, Ordering::Relaxed);
        }
        is_new
    }

    /// Takes over the entries of an index that was loaded, if this one is empty; else gives it back.
    pub fn adopt(&self, mut loaded: OrderedIndex) -> Result<(), OrderedIndex> {
        if !self.tree.adopt(&mut loaded.tree) {
            return Err(loaded);
        }
        self.entries.fetch_add(*loaded.entries.get_mut(), Ordering::Relaxed);
        Ok(())
    }

    /// Visits all entries in order.
    pub fn for_each(&self, mut visit: impl FnMut(&[u8], u64)) {
        self.scan(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, &mut |key, rid| {
            visit(key, rid);
            ControlFlow::Continue(())
        });
    }

    /// Takes the entry away; `false` if it was not there.
    pub fn remove(&self, key: &[u8], rid: u64) -> bool {
        let was_there = self.tree.remove(key, rid);
        if was_there {
            self.entries.fetch_sub(1, Ordering::Relaxed);
        }
        was_there
    }

    /// Appends the row ids stored under exactly this key to `out`, in ascending order.
    pub fn get(&self, key: &[u8], out: &mut impl Extend<u64>) {
        let mut found = SmallVec::<[u64; 8]>::new();
        let is_complete = retry(|guard| {
            found.clear();
            let path = self.tree.descend(0, &Cut::before(key, 0), Direction::Ascending, guard)?;
            let leaf = path.here;
            let rank = leaf.rank(key, 0, false)?;
            let mut index = rank.index;
            if rank.in_prefix {
                while index < rank.count && leaf.has_key(index, key)? {
                    found.push(leaf.node.slots[index].rid.load(Ordering::Relaxed));
                    index += 1;
                }
            }
            leaf.check()?;
            // A run of equal keys goes on in the next leaf only if it starts with the same key.
            match path.fence {
                Some((inner, slot)) if index == rank.count => {
                    let prefix_len = inner.node.shape().prefix_len;
                    let goes_on = inner.node.order_to_prefix(key, prefix_len).is_eq()
                        && inner.has_key(slot, key)?;
                    inner.check()?;
                    Ok(!goes_on)
                }
                _ => Ok(true),
            }
        });
        if is_complete {
            out.extend(found);
            return;
        }
        self.scan(
            Bound::Included(key),
            Bound::Included(key),
            Direction::Ascending,
            &mut |_, rid| {
                out.extend([rid]);
                ControlFlow::Continue(())
            },
        );
    }

    /// Visits the entries between the bounds in the given direction until `visit` breaks.
    ///
    /// An entry that is there from begin to end of the scan is visited exactly once, and visits are
    /// in order, whatever else happens; an entry that comes or goes meanwhile may be visited or
    /// not. No latch and no epoch is held during `visit`, which may use this index or wait. Bounds
    /// that exclude everything are an empty range.
    pub fn scan(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        scan::scan(&self.tree, lower, upper, direction, visit);
    }

    /// Entries in the index; while operations are under way, off by those.
    pub fn len(&self) -> usize {
        // A removal may be counted before the insert of the same entry.
        (self.entries.load(Ordering::Relaxed) as isize).max(0) as usize
    }

    /// Whether the index has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes which the index holds. Nodes that wait for their last reader are not counted.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.tree.account.bytes()
    }
}
