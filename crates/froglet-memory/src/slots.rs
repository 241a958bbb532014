//! Free places of a row space.
//!
//! ```text
//!   by block    3: ··x··x···    7: xxxxxxxxx    12: ·····x···    20: x········
//!   stack       [ 7 | 3 | 12 ]                  handed out from the last; lowest place first
//! ```
//!
//! A frozen block's places are on no stack: to insert there costs a copy of every column. They are
//! filled by compaction, which names them, or handed out again once the block is hot.

use std::collections::BTreeMap;

use froglet_engine::RowId;
use froglet_engine::id::ROWS_PER_BLOCK;

const WORDS: usize = ROWS_PER_BLOCK / 64;

/// The free places of one block.
#[derive(Debug)]
struct Places {
    /// A bit for each.
    words: Box<[u64; WORDS]>,
    count: usize,
    on_stack: bool,
}

impl Places {
    fn new() -> Places {
        Places { words: Box::new([0; WORDS]), count: 0, on_stack: false }
    }

    fn has(&self, slot: usize) -> bool {
        self.words[slot / 64] >> (slot % 64) & 1 == 1
    }

    fn flip(&mut self, slot: usize) {
        self.words[slot / 64] ^= 1 << (slot % 64);
    }

    fn lowest(&self) -> usize {
        let word = self.words.iter().position(|word| *word != 0).expect("there is a place");
        word * 64 + self.words[word].trailing_zeros() as usize
    }
}

/// The free places of a space.
#[derive(Debug, Default)]
pub(crate) struct FreeSlots {
    by_block: BTreeMap<u32, Places>,
    stack: Vec<u32>,
    len: usize,
}

impl FreeSlots {
    pub fn len(&self) -> usize {
        self.len
    }

    /// A place to insert a row.
    pub fn pop(&mut self, is_frozen: impl Fn(u32) -> bool) -> Option<RowId> {
        loop {
            let number = *self.stack.last()?;
            let places = self.by_block.get_mut(&number).filter(|places| places.on_stack);
            if let Some(places) = places.filter(|_| !is_frozen(number)) {
                let rid = RowId::of(number, places.lowest());
                self.take(rid);
                // `take` may have removed it already.
                if self.count(number) == 0 && self.stack.last() == Some(&number) {
                    self.stack.pop();
                }
                return Some(rid);
            }
            self.stack.pop();
            if let Some(places) = self.by_block.get_mut(&number) {
                places.on_stack = false;
            }
        }
    }

    /// A named place; whether it was free.
    pub fn take(&mut self, rid: RowId) -> bool {
        let Some(places) = self.by_block.get_mut(&rid.block()) else { return false };
        if !places.has(rid.slot()) {
            return false;
        }
        places.flip(rid.slot());
        places.count -= 1;
        self.len -= 1;
        if places.count == 0 {
            self.by_block.remove(&rid.block());
            // What the stack says of it is passed over, if it does not become too much.
            if self.stack.len() > 2 * self.by_block.len() + 64 {
                self.stack.retain(|number| self.by_block.contains_key(number));
            }
        }
        true
    }

    pub fn give(&mut self, rid: RowId, is_frozen: impl Fn(u32) -> bool) {
        let places = self.by_block.entry(rid.block()).or_insert_with(Places::new);
        assert!(!places.has(rid.slot()), "a place is given back once");
        places.flip(rid.slot());
        places.count += 1;
        self.len += 1;
        if !places.on_stack && !is_frozen(rid.block()) {
            places.on_stack = true;
            self.stack.push(rid.block());
        }
    }

    /// Hands the places of a block out after all others.
    pub fn offer_last(&mut self, number: u32) {
        if let Some(places) = self.by_block.get_mut(&number).filter(|places| !places.on_stack) {
            places.on_stack = true;
            self.stack.insert(0, number);
        }
    }

    /// Forgets those that are not to be handed out.
    pub fn retain(&mut self, is_free: impl Fn(RowId) -> bool) {
        for (number, places) in &mut self.by_block {
            for slot in 0..ROWS_PER_BLOCK {
                if places.has(slot) && !is_free(RowId::of(*number, slot)) {
                    places.flip(slot);
                    places.count -= 1;
                    self.len -= 1;
                }
            }
        }
        self.by_block.retain(|_, places| places.count > 0);
    }

    /// How many a block has.
    pub fn count(&self, number: u32) -> usize {
        self.by_block.get(&number).map_or(0, |places| places.count)
    }

    /// Blocks that have some, and how many.
    pub fn counts(&self) -> impl Iterator<Item = (u32, usize)> {
        self.by_block.iter().map(|(number, places)| (*number, places.count))
    }

    /// Those of a block, ascending.
    pub fn of_block(&self, number: u32) -> Vec<usize> {
        let places = self.by_block.get(&number);
        places.map_or_else(Vec::new, |p| (0..ROWS_PER_BLOCK).filter(|slot| p.has(*slot)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_frozen_blocks_are_taken_by_name_only() {
        let mut free = FreeSlots::default();
        for slot in [9, 4, 700] {
            free.give(RowId::of(3, slot), |_| false);
        }
        free.give(RowId::of(5, 1), |_| true);
        assert_eq!((free.len(), free.count(3), free.count(5)), (4, 3, 1));
        assert_eq!(free.pop(|_| false), Some(RowId::of(3, 4)), "the lowest");
        assert_eq!(free.pop(|block| block == 3), None);
        assert!(free.take(RowId::of(5, 1)));
        assert!(!free.take(RowId::of(5, 1)));
        // Hot again, and given one more: all of it is handed out.
        free.give(RowId::of(3, 8000), |_| false);
        let popped: Vec<_> = std::iter::from_fn(|| free.pop(|_| false)).collect();
        assert_eq!(popped, [9, 700, 8000].map(|slot| RowId::of(3, slot)));
        assert_eq!(free.len(), 0);
    }

    #[test]
    fn an_emptied_block_is_used_last() {
        let mut free = FreeSlots::default();
        free.give(RowId::of(1, 0), |_| true);
        free.give(RowId::of(2, 0), |_| false);
        free.offer_last(1);
        assert_eq!(free.pop(|_| false), Some(RowId::of(2, 0)));
        assert_eq!(free.pop(|_| false), Some(RowId::of(1, 0)));
    }
}
