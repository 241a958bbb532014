//! A check of every invariant of a whole tree, for tests.

use crossbeam_epoch as epoch;

use super::key::tail_words;
use super::node::{Node, Seen, suffix_len};
use super::tree::Tree;
use crate::sync::atomic::Ordering;

/// The lowest entry of a range, or the one behind it; none at the ends of the tree.
type Fence = Option<(Vec<u8>, u64)>;

impl Tree {
    /// Asserts order, ranges, levels, fill and the account of memory. Nobody may write meanwhile.
    pub fn assert_sound(&self) {
        let root = self.root.load(Ordering::Relaxed);
        let (mut bytes, mut pending) = (0, vec![(root, None::<u32>, None, None)]);
        while let Some((pointer, level, low, high)) = pending.pop() {
            let guard = epoch::pin();
            // SAFETY: I3: the pointer comes from the tree, which nobody changes.
            let seen = unsafe { Seen::observe(pointer, &guard) }
                .expect("a node of the tree is not obsolete");
            let node = seen.node;
            assert!(level.is_none_or(|level| level == node.level), "levels go down by one");
            bytes +=
                node.bytes() + node.heap_words.load(Ordering::Relaxed) as usize * size_of::<u64>();
            let entries = assert_sound_node(seen, &low, &high);
            assert!(
                node.level > 0 || !entries.is_empty() || pointer == root,
                "an empty leaf stays"
            );
            if node.level > 0 {
                assert!(!entries.is_empty() || pointer != root, "a root has two children");
                let lows = std::iter::once(low).chain(entries.iter().cloned().map(Some));
                let highs = entries.iter().cloned().map(Some).chain(std::iter::once(high));
                for (child, (low, high)) in node.children().iter().zip(lows.zip(highs)) {
                    pending.push((child.load(Ordering::Relaxed), Some(node.level - 1), low, high));
                }
            }
        }
        assert_eq!(self.account.bytes(), bytes, "the account of memory is right");
    }
}

/// Asserts order, range and heap of one node and returns its entries.
fn assert_sound_node(seen: Seen<'_>, low: &Fence, high: &Fence) -> Vec<(Vec<u8>, u64)> {
    let node: &Node = seen.node;
    let mut live_words = 0;
    let entries: Vec<_> = (0..node.shape().count)
        .map(|slot| {
            live_words += tail_words(suffix_len(node.slots[slot].tail.load(Ordering::Relaxed)));
            let mut key = Vec::new();
            let rid = seen.copy_entry(slot, &mut key).expect("nobody writes");
            (key, rid)
        })
        .collect();
    assert!(entries.is_sorted_by(|a, b| a < b), "slots are in order");
    assert!(
        low.as_ref().zip(entries.first()).is_none_or(|(low, first)| low <= first),
        "the lower fence holds"
    );
    assert!(
        high.as_ref().zip(entries.last()).is_none_or(|(high, last)| last < high),
        "the upper fence holds"
    );
    assert_eq!(
        node.heap_live_words.load(Ordering::Relaxed) as usize,
        live_words,
        "live words are counted"
    );
    entries
}
