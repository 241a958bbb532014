//! What is read under a snapshot, for whoever certifies it at the commit.
//!
//! A read is noted as what was asked for, not as what was found: rows that come into a range later were read, too.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use crate::id::{IndexId, SpaceId};
use crate::range::KeyRange;

/// More ranges of one space than this are the whole space.
const MOST_RANGES: usize = 4_096;

/// What was read of one row space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpaceReads {
    /// Every row.
    All,
    /// Ranges of the keys of indexes.
    Ranges(HashSet<(IndexId, KeyRange)>),
}

/// What was read under a snapshot. Any thread may add to it.
#[derive(Debug, Default)]
pub struct Reads(Mutex<HashMap<SpaceId, SpaceReads>>);

impl Reads {
    /// Every row of a space was looked at.
    pub fn note_all(&self, space: SpaceId) {
        self.0.lock().insert(space, SpaceReads::All);
    }

    /// The rows with keys of an index in a range were looked at.
    pub fn note_range(&self, space: SpaceId, index: IndexId, range: KeyRange) {
        let mut spaces = self.0.lock();
        let reads = spaces.entry(space).or_insert_with(|| SpaceReads::Ranges(HashSet::new()));
        if let SpaceReads::Ranges(ranges) = reads {
            ranges.insert((index, range));
            if ranges.len() > MOST_RANGES {
                *reads = SpaceReads::All;
            }
        }
    }

    /// What was read, by space.
    pub fn each(&self, mut visit: impl FnMut(SpaceId, &SpaceReads)) {
        self.0.lock().iter().for_each(|(space, reads)| visit(*space, reads));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(reads: &Reads) -> Vec<(SpaceId, SpaceReads)> {
        let mut all = Vec::new();
        reads.each(|space, reads| all.push((space, reads.clone())));
        all
    }

    #[test]
    fn ranges_are_kept_once_and_many_are_everything() {
        let (reads, space, index) = (Reads::default(), SpaceId(1), IndexId(2));
        let range = KeyRange::exactly(b"key");
        reads.note_range(space, index, range.clone());
        reads.note_range(space, index, range.clone());
        let one = HashSet::from([(index, range)]);
        assert_eq!(noted(&reads), [(space, SpaceReads::Ranges(one))]);
        for i in 0..=MOST_RANGES {
            reads.note_range(space, index, KeyRange::exactly(&i.to_be_bytes()));
        }
        assert_eq!(noted(&reads), [(space, SpaceReads::All)]);
        reads.note_range(space, index, KeyRange::exactly(b"key"));
        assert_eq!(noted(&reads), [(space, SpaceReads::All)]);
    }
}
