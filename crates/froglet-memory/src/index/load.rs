//! Loading a tree bottom-up from entries in order.
//!
//! ```text
//!   push ─▶ leaf in the making ─ full ─▶ leaf │ leaf │ leaf │ …        separators between them
//!   finish                               ──────────────────────
//!                                         inner  │  inner │ …          level by level, evenly
//!                                              root
//! ```
//!
//! Several loaders may make one tree, each of a range of keys: they are appended to one another before the
//! levels above the leaves are made.
//!
//! The tree is private until [`super::OrderedIndex::adopt`] swaps it in, so nothing here is latched. Nodes
//! are filled in key order and therefore lie in memory as a scan visits them. They are left a little
//! room, as inserts in random order are what usually comes next.

use crossbeam_epoch as epoch;

use super::OrderedIndex;
use super::account::Account;
use super::edit::{Batch, Memory, fill};
use super::key::{separator, tail_words};
use super::node::{Node, PREFIX_BYTES_MAX, SLOTS_MAX};
use super::tree::Tree;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Slots of a loaded node: nine of ten, as PostgreSQL's fillfactor.
const SLOTS_LOADED: usize = SLOTS_MAX * 9 / 10;
/// A loaded leaf with this many slots or more takes no more words of tails than the next constant.
const SLOTS_LONG: usize = 4;
const HEAP_WORDS_LOADED: usize = 768;
const _: () = assert!(SLOTS_LOADED >= 3, "an inner node of a loaded tree has two children");

/// An index in the making, private to one thread at a time.
pub struct Loader {
    account: Account,
    entries: usize,
    first: Option<(Vec<u8>, u64)>,
    leaf: Batch,
    leaf_words: usize,
    /// Nodes of the level that is being made, left to right.
    nodes: Vec<*mut Node>,
    /// One between each two of them, and behind the last if another one follows.
    separators: Batch,
}

// SAFETY: nobody else has its nodes.
unsafe impl Send for Loader {}

impl Default for Loader {
    fn default() -> Self {
        Self::new()
    }
}

impl Loader {
    /// An empty one.
    pub fn new() -> Self {
        Loader {
            account: Account::default(),
            entries: 0,
            first: None,
            leaf: Batch::default(),
            leaf_words: 0,
            nodes: Vec::new(),
            separators: Batch::default(),
        }
    }

    /// Appends an entry.
    ///
    /// # Panics
    /// If the entry is not above the one before, or the key has 4 GiB or more.
    pub fn push(&mut self, key: &[u8], rid: u64) {
        assert!(self.try_push(key, rid), "entries are loaded in order");
    }

    /// Appends an entry; false, and nothing done, if it is not above the one before.
    ///
    /// # Panics
    /// If the key has 4 GiB or more.
    pub fn try_push(&mut self, key: &[u8], rid: u64) -> bool {
        assert!(key.len() < u32::MAX as usize, "a key of {} bytes is too long", key.len());
        let words = tail_words(key.len());
        if let Some(last) = self.leaf.len().checked_sub(1) {
            let (last_key, last_rid) = (self.leaf.key(last), self.leaf.rid(last));
            if (last_key, last_rid) >= (key, rid) {
                return false;
            }
            let is_long = last >= SLOTS_LONG && self.leaf_words + words > HEAP_WORDS_LOADED;
            if last + 1 >= SLOTS_LOADED || is_long {
                let (key, rid) = separator(last_key, key, rid);
                self.separators.push(key, rid);
                self.end_leaf();
            }
        } else {
            self.first = Some((key.to_vec(), rid));
        }
        self.leaf.push(key, rid);
        self.leaf_words += words;
        self.entries += 1;
        true
    }

    /// The first entry.
    pub fn first(&self) -> Option<(&[u8], u64)> {
        self.first.as_ref().map(|(key, rid)| (&**key, *rid))
    }

    /// The last entry.
    pub fn last(&self) -> Option<(&[u8], u64)> {
        let last = self.leaf.len().checked_sub(1)?;
        Some((self.leaf.key(last), self.leaf.rid(last)))
    }

    /// Appends all entries of another; false, and nothing done, if they are not above these.
    pub fn try_append(&mut self, mut other: Loader) -> bool {
        let Some((first_key, first_rid)) = other.first() else { return true };
        let Some((last_key, last_rid)) = self.last() else {
            *self = other;
            return true;
        };
        if (last_key, last_rid) >= (first_key, first_rid) {
            return false;
        }
        let (key, rid) = separator(last_key, first_key, first_rid);
        self.separators.push(key, rid);
        self.end_leaf();
        self.nodes.append(&mut other.nodes);
        self.separators.append(&other.separators);
        self.leaf = std::mem::take(&mut other.leaf);
        self.leaf_words = other.leaf_words;
        self.entries += other.entries;
        self.account.add(other.bytes());
        true
    }

    /// Bytes of the nodes made so far.
    pub fn bytes(&self) -> usize {
        self.account.bytes()
    }

    fn end_leaf(&mut self) {
        let guard = epoch::pin();
        let memory = Memory { guard: &guard, account: &self.account };
        let node = Node::new(0);
        fill(&node, &self.leaf, 0..self.leaf.len(), PREFIX_BYTES_MAX, memory);
        self.nodes.push(memory.publish(node));
        self.leaf.clear();
        self.leaf_words = 0;
    }

    /// Puts a level of inner nodes on top of the last one.
    fn raise(&mut self, level: u32) {
        let guard = epoch::pin();
        let memory = Memory { guard: &guard, account: &self.account };
        let count = self.nodes.len();
        let above = count.div_ceil(SLOTS_LOADED + 1);
        let (mut nodes, mut separators) = (Vec::with_capacity(above), Batch::default());
        for i in 0..above {
            let (start, end) = (count * i / above, count * (i + 1) / above);
            assert!(end - start >= 2, "an inner node has two children");
            let node = Node::new(level);
            for (slot, child) in node.children().iter().zip(&self.nodes[start..end]) {
                slot.store(*child, Ordering::Relaxed);
            }
            fill(&node, &self.separators, start..end - 1, PREFIX_BYTES_MAX, memory);
            if end < count {
                separators.push(self.separators.key(end - 1), self.separators.rid(end - 1));
            }
            nodes.push(memory.publish(node));
        }
        self.nodes = nodes;
        self.separators = separators;
    }

    /// The index.
    pub fn finish(mut self) -> OrderedIndex {
        if self.leaf.len() > 0 || self.nodes.is_empty() {
            self.end_leaf();
        }
        for level in 1.. {
            if self.nodes.len() == 1 {
                break;
            }
            self.raise(level);
        }
        let root = self.nodes.pop().expect("a tree has a root");
        OrderedIndex { tree: Tree::of(root, self.bytes()), entries: AtomicUsize::new(self.entries) }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        for root in self.nodes.drain(..) {
            // Every node is reached from one of these.
            drop(Tree::of(root, 0));
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    type Entries = BTreeSet<(Vec<u8>, u64)>;

    /// Keys of few bytes and few letters, long ones with shared beginnings, and such as fill heads.
    fn keys() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(0..3_u8, 0..6),
            (0..5000_u64).prop_map(|n| n.to_be_bytes().to_vec()),
            (0..40_usize, 0..500_u16)
                .prop_map(|(len, n)| { [vec![b'p'; len], n.to_be_bytes().to_vec()].concat() }),
            (0..3_u8, 0..300_usize).prop_map(|(letter, len)| vec![letter; len]),
        ]
    }

    fn entries() -> impl Strategy<Value = Entries> {
        let count = if cfg!(miri) { 0..40_usize } else { 0..3000 };
        prop::collection::btree_set((keys(), 0..4_u64), count)
    }

    fn loaded(entries: &Entries) -> OrderedIndex {
        let mut loader = Loader::new();
        entries.iter().for_each(|(key, rid)| loader.push(key, *rid));
        loader.finish()
    }

    /// Each part by a loader of its own.
    fn loaded_in_parts(entries: &Entries, mut cuts: Vec<usize>) -> OrderedIndex {
        cuts.sort_unstable();
        let (mut whole, mut rest) = (Loader::new(), entries.iter());
        let mut taken = 0;
        for cut in cuts.into_iter().chain([entries.len()]) {
            let mut part = Loader::new();
            let of_part: Vec<_> = rest.by_ref().take(cut.saturating_sub(taken)).collect();
            taken += of_part.len();
            of_part.iter().for_each(|(key, rid)| part.push(key, *rid));
            assert_eq!(part.first(), of_part.first().map(|(key, rid)| (&**key, *rid)));
            assert_eq!(part.last(), of_part.last().map(|(key, rid)| (&**key, *rid)));
            let bytes = whole.bytes() + part.bytes();
            assert!(whole.try_append(part));
            assert!(whole.bytes() >= bytes);
        }
        whole.finish()
    }

    fn contents(index: &OrderedIndex) -> Vec<(Vec<u8>, u64)> {
        let mut all = Vec::new();
        index.for_each(|key, rid| all.push((key.to_vec(), rid)));
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

        #[test]
        fn a_loaded_index_is_as_one_of_inserts(
            entries in entries(),
            later in entries(),
            cuts in prop::collection::vec(0..3000_usize, 0..5),
        ) {
            let (index, one_by_one) = (loaded_in_parts(&entries, cuts), OrderedIndex::new());
            index.tree.assert_sound();
            for (key, rid) in &entries {
                assert!(one_by_one.insert(key, *rid));
                let (mut a, mut b) = (Vec::new(), Vec::new());
                index.get(key, &mut a);
                one_by_one.get(key, &mut b);
                assert!(a.starts_with(&b), "{key:?} has {a:?}, of which {b:?}");
            }
            assert_eq!(index.len(), entries.len());
            assert_eq!(contents(&index), contents(&one_by_one));
            // Writes go on as on any other index.
            for (key, rid) in &later {
                assert_eq!(index.insert(key, *rid), one_by_one.insert(key, *rid));
            }
            index.tree.assert_sound();
            assert_eq!(contents(&index), contents(&one_by_one));
            for (key, rid) in entries.union(&later) {
                assert!(index.remove(key, *rid));
            }
            index.tree.assert_sound();
            assert_eq!(index.bytes(), OrderedIndex::new().bytes(), "all memory came back");
        }
    }

    #[test]
    fn only_an_empty_index_adopts() {
        let entries: Entries = (0..1000_u64).map(|n| (n.to_be_bytes().to_vec(), n)).collect();
        let index = OrderedIndex::new();
        assert!(index.insert(b"mine", 7));
        let given_back = index.adopt(loaded(&entries)).expect_err("it is not empty");
        assert_eq!(contents(&given_back).len(), 1000);
        assert_eq!(contents(&index), [(b"mine".to_vec(), 7)]);
        assert!(index.remove(b"mine", 7));
        assert!(index.adopt(given_back).is_ok());
        index.tree.assert_sound();
        assert_eq!((index.len(), contents(&index).len()), (1000, 1000));
    }

    #[test]
    fn a_loader_that_is_given_up_frees_its_nodes() {
        let mut loader = Loader::new();
        (0..1000_u64).for_each(|n| loader.push(&n.to_be_bytes(), n));
        assert!(loader.bytes() > 0);
    }

    #[test]
    fn what_is_not_above_is_not_appended() {
        let load = |keys: &[&[u8]]| {
            let mut loader = Loader::new();
            keys.iter().for_each(|key| loader.push(key, 1));
            loader
        };
        let mut whole = load(&[b"a", b"c"]);
        assert!(!whole.try_append(load(&[b"b"])));
        assert!(!whole.try_append(load(&[b"c"])), "an entry comes twice");
        assert!(whole.try_append(load(&[])) && whole.try_append(load(&[b"d"])));
        assert!(whole.try_append(load(&[b"e"])));
        let index = whole.finish();
        index.tree.assert_sound();
        let keys: Vec<_> = contents(&index).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [b"a", b"c", b"d", b"e"]);
    }

    #[test]
    #[should_panic(expected = "in order")]
    fn entries_out_of_order_are_refused() {
        let mut loader = Loader::new();
        loader.push(b"b", 1);
        loader.push(b"a", 1);
    }
}
