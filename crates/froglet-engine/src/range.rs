//! Ranges of keys, and in which order they are gone through.

use std::ops::{Bound, RangeBounds};

use crate::key::successor;

/// Ascending or descending key order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest key first.
    Forward,
    /// Largest key first.
    Backward,
}

/// A range of encoded keys (see [`crate::key`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// Lower bound.
    pub lower: Bound<Vec<u8>>,
    /// Upper bound.
    pub upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key that starts with this encoding of the first parts of a key.
    pub fn prefix(key: Vec<u8>) -> KeyRange {
        let upper = match successor(&key) {
            Some(next) => Bound::Excluded(next),
            None => Bound::Unbounded,
        };
        KeyRange { lower: Bound::Included(key), upper }
    }

    /// Every key.
    pub fn all() -> KeyRange {
        KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    /// One key.
    pub fn exactly(key: &[u8]) -> KeyRange {
        KeyRange { lower: Bound::Included(key.to_vec()), upper: Bound::Included(key.to_vec()) }
    }

    /// Whether a key is in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        let range =
            (self.lower.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice));
        RangeBounds::<[u8]>::contains(&range, key)
    }

    /// The key, if it is one.
    pub fn one(&self) -> Option<&[u8]> {
        match (&self.lower, &self.upper) {
            (Bound::Included(a), Bound::Included(b)) if a == b => Some(a),
            _ => None,
        }
    }

    /// Whether it may have keys at or above one.
    pub fn goes_above(&self, key: &[u8]) -> bool {
        match &self.upper {
            Bound::Included(upper) => upper.as_slice() >= key,
            Bound::Excluded(upper) => upper.as_slice() > key,
            Bound::Unbounded => true,
        }
    }

    /// Whether it may have keys below one.
    pub fn goes_below(&self, key: &[u8]) -> bool {
        match &self.lower {
            Bound::Included(lower) | Bound::Excluded(lower) => lower.as_slice() < key,
            Bound::Unbounded => true,
        }
    }
}
