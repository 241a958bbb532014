//! What a lazy migration of a join has migrated, pair by pair (BullFrog, section 4.3.6, the third way).
//!
//! ```text
//!   driver, by row       10  10  00  00  10       two bits a row (`tracker.rs`): 10, all of its pairs are migrated
//!                                │   └─ none of its pairs
//!   pairs, by row and            └─ partners   0–63   0110…
//!   64 partners                     partners 128–191  0001…
//!   claimed                      (2, 70)              somebody is at it
//! ```
//!
//! A pair is a row of the driver and a partner, by their row ids. Pairs are in maps in shards, each with its
//! latch, by the row of the driver: 24 bytes for up to 64 pairs of a row with neighbours. When all pairs
//! of a row are migrated the row is, and they are let go; so of a join whose rows are looked up whole
//! there are two bits a row, as for other tables.
//!
//! Claims, their end and who waits are as in `tracker.rs` [B1] to [B3]; an aborted claim leaves nothing. And:
//!
//! P1: that a row is migrated is set under its shard's latch before its pairs are let go, and asked under
//!     that latch before a pair is claimed: nobody takes a pair that was let go for one that was not made.

use std::collections::{BTreeMap, HashSet};

use froglet_engine::{Installs, RowId};

use crate::sync::{Condvar, Mutex};
use crate::tracker::{BrokenNote, Tracker};

const SHARDS: usize = if cfg!(shuttle) { 2 } else { 64 };
/// Partners of a word.
const PER_WORD: u64 = 64;

/// A row of the driver, and one of the other table.
pub(crate) type Pair = (RowId, RowId);

/// See the module.
pub(crate) struct PairTracker {
    rows: Tracker,
    shards: [Shard; SHARDS],
}

#[derive(Default)]
struct Shard {
    pairs: Mutex<Pairs>,
    given_up: Condvar,
}

/// Pairs of rows that are not migrated as a whole.
#[derive(Default)]
struct Pairs {
    /// By row and word of partners.
    migrated: BTreeMap<(u64, u64), u64>,
    claimed: HashSet<Pair>,
}

fn place((row, partner): Pair) -> ((u64, u64), u64) {
    ((row.0, partner.0 / PER_WORD), 1 << (partner.0 % PER_WORD))
}

impl Pairs {
    fn is_migrated(&self, pair: Pair) -> bool {
        let (word, bit) = place(pair);
        self.migrated.get(&word).is_some_and(|bits| bits & bit != 0)
    }

    /// Returns false if it was.
    fn set_migrated(&mut self, pair: Pair) -> bool {
        let (word, bit) = place(pair);
        let bits = self.migrated.entry(word).or_default();
        let was = *bits & bit;
        *bits |= bit;
        was == 0
    }

    fn forget(&mut self, row: RowId) {
        let words = self.migrated.range((row.0, 0)..=(row.0, u64::MAX));
        let words: Vec<(u64, u64)> = words.map(|(word, _)| *word).collect();
        for word in words {
            self.migrated.remove(&word);
        }
    }
}

/// Pairs that somebody is at. Dropped, they are given up.
pub(crate) struct PairClaims<'t> {
    tracker: &'t PairTracker,
    pairs: Vec<Pair>,
}

impl PairTracker {
    /// Of a driver of so many blocks.
    pub fn new(blocks: u32) -> PairTracker {
        let shards = std::array::from_fn(|_| Shard::default());
        PairTracker { rows: Tracker::new(blocks, 1), shards }
    }

    /// Which rows of the driver are migrated as a whole.
    pub fn rows(&self) -> &Tracker {
        &self.rows
    }

    fn shard(&self, row: RowId) -> &Shard {
        &self.shards[row.0 as usize % SHARDS]
    }

    /// Whether a pair is migrated.
    pub fn is_migrated(&self, pair: Pair) -> bool {
        if self.rows.is_migrated(pair.0) {
            return true;
        }
        let pairs = self.shard(pair.0).pairs.lock();
        self.rows.is_migrated(pair.0) || pairs.is_migrated(pair)
    }

    /// Claims of some pairs, each once, those that are free. Returns what others are at, too.
    pub fn claim_all(&self, wanted: &[Pair]) -> (PairClaims<'_>, Vec<Pair>) {
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for pair in wanted {
            let mut pairs = self.shard(pair.0).pairs.lock();
            if self.rows.is_migrated(pair.0) || pairs.is_migrated(*pair) {
                continue;
            }
            match pairs.claimed.insert(*pair) {
                true => mine.push(*pair),
                false => others.push(*pair),
            }
        }
        (PairClaims { tracker: self, pairs: mine }, others)
    }

    /// Waits until nobody is at a pair.
    pub fn wait(&self, pair: Pair) {
        let shard = self.shard(pair.0);
        let mut pairs = shard.pairs.lock();
        while pairs.claimed.contains(&pair) {
            pairs = shard.given_up.wait(pairs);
        }
    }

    /// All pairs of a row are migrated: the row is, in place of them [P1].
    pub fn complete(&self, row: RowId) {
        let Some(granule) = self.rows.granule_of(row) else { return };
        let mut pairs = self.shard(row).pairs.lock();
        let (mut claims, _) = self.rows.claim_all(&[granule]);
        claims.done();
        if self.rows.is_migrated(row) {
            pairs.forget(row);
        }
    }

    /// Marks what a note says, for whoever recovers.
    pub fn mark(&self, note: &[u8]) -> Result<(), BrokenNote> {
        let (len, note) = note.split_first_chunk().ok_or(BrokenNote)?;
        let len = u32::from_le_bytes(*len) as usize;
        let (rows, words) = note.split_at_checked(len).ok_or(BrokenNote)?;
        self.rows.mark(rows)?;
        if !rows.is_empty() {
            for shard in &self.shards {
                let mut pairs = shard.pairs.lock();
                pairs.migrated.retain(|(row, _), _| !self.rows.is_migrated(RowId(*row)));
            }
        }
        let (words, rest) = words.as_chunks::<24>();
        for word in words {
            let number = |at| u64::from_le_bytes(std::array::from_fn(|byte| word[at + byte]));
            let (row, at, bits) = (number(0), number(8), number(16));
            if !self.rows.is_migrated(RowId(row)) {
                let mut pairs = self.shard(RowId(row)).pairs.lock();
                *pairs.migrated.entry((row, at)).or_default() |= bits;
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(BrokenNote) }
    }

    /// What recovery is to know of a block of the driver of which nothing is left.
    pub fn note_of_block(&self, block: u32) -> Vec<u8> {
        note(&self.rows.note_of_block(block), std::iter::empty())
    }
}

/// Rows as a [`Tracker`] notes them, after their length, and then words of pairs: row, which, and bits.
fn note(rows: &[u8], words: impl Iterator<Item = ((u64, u64), u64)>) -> Vec<u8> {
    let len = u32::try_from(rows.len()).expect("rows are noted in a few bytes each");
    let mut out = len.to_le_bytes().to_vec();
    out.extend_from_slice(rows);
    for ((row, at), bits) in words {
        [row, at, bits].iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
    }
    out
}

impl Installs for PairTracker {
    fn note(&self) -> Vec<u8> {
        let mut words = Vec::new();
        for shard in &self.shards {
            let pairs = shard.pairs.lock();
            words.extend(pairs.migrated.iter().map(|(word, bits)| (*word, *bits)));
        }
        // Asked last: a row that has let its pairs go meanwhile is among them.
        note(&self.rows.note(), words.into_iter())
    }
}

impl PairClaims<'_> {
    /// The pairs, in the order in which they were wanted.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// What recovery is to know of them once they are migrated.
    pub fn note(&self) -> Vec<u8> {
        let mut words = BTreeMap::new();
        for pair in &self.pairs {
            let (word, bit) = place(*pair);
            *words.entry(word).or_insert(0) |= bit;
        }
        note(&[], words.into_iter())
    }

    /// They are migrated.
    pub fn done(&mut self) {
        for pair in std::mem::take(&mut self.pairs) {
            let shard = self.tracker.shard(pair.0);
            let mut pairs = shard.pairs.lock();
            let was_mine = pairs.claimed.remove(&pair) && pairs.set_migrated(pair);
            assert!(was_mine, "a pair is migrated once, by who has claimed it");
            drop(pairs);
            shard.given_up.notify_all();
        }
    }
}

impl Drop for PairClaims<'_> {
    fn drop(&mut self) {
        for pair in &self.pairs {
            let shard = self.tracker.shard(pair.0);
            shard.pairs.lock().claimed.remove(pair);
            shard.given_up.notify_all();
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn pairs(of: &[(u64, u64)]) -> Vec<Pair> {
        of.iter().map(|(row, partner)| (RowId(*row), RowId(*partner))).collect()
    }

    #[test]
    fn a_pair_is_migrated_once_and_an_aborted_claim_is_free_again() {
        let tracker = PairTracker::new(1);
        let (mut mine, others) = tracker.claim_all(&pairs(&[(1, 7), (1, 70)]));
        assert_eq!((mine.pairs(), others.len()), (&*pairs(&[(1, 7), (1, 70)]), 0));
        let (second, others) = tracker.claim_all(&pairs(&[(1, 70), (2, 7)]));
        assert_eq!((second.pairs(), &*others), (&*pairs(&[(2, 7)]), &*pairs(&[(1, 70)])));
        drop(second);
        mine.done();
        tracker.wait((RowId(1), RowId(70)));
        let (third, others) = tracker.claim_all(&pairs(&[(1, 7), (1, 70), (2, 7)]));
        assert_eq!((third.pairs(), others.len()), (&*pairs(&[(2, 7)]), 0));
        drop((mine, third));
        assert!(tracker.is_migrated((RowId(1), RowId(7))));
        assert!(!tracker.is_migrated((RowId(1), RowId(8))));
    }

    #[test]
    fn a_row_stands_for_its_pairs() {
        let tracker = PairTracker::new(1);
        let (mut mine, _) = tracker.claim_all(&pairs(&[(1, 7), (1, 500), (65, 7), (129, 7)]));
        mine.done();
        tracker.complete(RowId(65));
        tracker.complete(RowId(65));
        assert_eq!(tracker.rows().progress().0, 1);
        assert!(tracker.is_migrated((RowId(65), RowId(8))));
        let held = tracker.shard(RowId(65)).pairs.lock().migrated.len();
        assert_eq!(held, 3, "of rows 1 and 129, which are in the same shard");
        let (mine, others) = tracker.claim_all(&pairs(&[(65, 9), (1, 7), (129, 8)]));
        assert_eq!((mine.pairs(), others.len()), (&*pairs(&[(129, 8)]), 0));
    }

    #[test]
    fn notes_say_what_is_migrated() {
        let (tracker, other) = (PairTracker::new(2), PairTracker::new(2));
        for row in 0..40 {
            let wanted: Vec<Pair> = (0..row).map(|n| (RowId(row * 300), RowId(n * n))).collect();
            let (mut mine, _) = tracker.claim_all(&wanted);
            let note = mine.note();
            mine.done();
            other.mark(&note).unwrap();
            other.mark(&note).unwrap();
        }
        assert_eq!(other.note(), tracker.note());
        (0..20).for_each(|row| tracker.complete(RowId(row * 300)));
        let third = PairTracker::new(2);
        third.mark(&other.note()).unwrap();
        third.mark(&tracker.note()).unwrap();
        assert_eq!(third.note(), tracker.note());
        third.mark(&other.note()).unwrap();
        assert_eq!(third.note(), tracker.note(), "rows keep their pairs out");
        third.mark(&third.note_of_block(0)).unwrap();
        assert!(third.rows().is_block_migrated(0) && !third.rows().is_block_migrated(1));
        assert!(third.is_migrated((RowId(300), RowId(8))));
        for broken in [&[][..], &[1, 0, 0, 0], &[0, 0, 0, 0, 1]] {
            assert_eq!(third.mark(broken), Err(BrokenNote));
        }
    }
}
