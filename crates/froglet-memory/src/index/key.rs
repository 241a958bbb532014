//! Key bytes as big-endian words, and the order of entries.
//!
//! Eight bytes of a key compare as one integer. A short last word is padded with zero bytes, which
//! keeps the order as long as the lengths break the tie: a key that equals another one in all padded
//! words is a prefix of it, or the other way round.

use std::cmp::Ordering;

/// Bytes in one word of a key.
pub(super) const WORD_BYTES: usize = 8;

/// The eight bytes of `key` from `at` as a big-endian integer, zero padded past the end.
#[inline]
pub(super) fn word_at(key: &[u8], at: usize) -> u64 {
    let Some(rest) = key.get(at..) else { return 0 };
    if let Some(word) = rest.first_chunk::<WORD_BYTES>() {
        return u64::from_be_bytes(*word);
    }
    if let Some(word) = key.last_chunk::<WORD_BYTES>() {
        // The last eight bytes of the key, shifted so that only those from `at` remain.
        return match rest.len() {
            0 => 0,
            present => u64::from_be_bytes(*word) << (8 * (WORD_BYTES - present)),
        };
    }
    let mut word = [0; WORD_BYTES];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(word)
}

/// Words that a suffix of `len_bytes` needs beyond its head.
#[inline]
pub(super) fn tail_words(len_bytes: usize) -> usize {
    len_bytes.saturating_sub(WORD_BYTES).div_ceil(WORD_BYTES)
}

/// Length in bytes of the longest common prefix of `a` and `b`.
pub(super) fn common_prefix_bytes(a: &[u8], b: &[u8]) -> usize {
    let shorter = a.len().min(b.len());
    let mut at = 0;
    while at < shorter {
        let differing = word_at(a, at) ^ word_at(b, at);
        if differing != 0 {
            return shorter.min(at + differing.leading_zeros() as usize / 8);
        }
        at += WORD_BYTES;
    }
    shorter
}

/// A place between entries: just before or just after the entry (`key`, `rid`), present or not.
#[derive(Clone, Copy)]
pub(super) struct Cut<'a> {
    pub key: &'a [u8],
    pub rid: u64,
    /// Whether the entry itself lies left of the cut.
    pub after: bool,
    /// Whether the cut is right of everything, whatever its entry.
    pub is_end: bool,
}

impl<'a> Cut<'a> {
    /// The cut just before the entry (`key`, `rid`).
    pub fn before(key: &'a [u8], rid: u64) -> Self {
        Cut { key, rid, after: false, is_end: false }
    }

    /// The cut behind every entry of `key`.
    pub fn after_all(key: &'a [u8]) -> Self {
        Cut { key, rid: u64::MAX, after: true, is_end: false }
    }

    /// The cut right of everything.
    pub fn end() -> Self {
        Cut { key: &[], rid: u64::MAX, after: true, is_end: true }
    }

    /// Whether the entry (`key`, `rid`) lies left of the cut.
    pub fn is_right_of(&self, key: &[u8], rid: u64) -> bool {
        if self.is_end {
            return true;
        }
        match key.cmp(self.key).then(rid.cmp(&self.rid)) {
            Ordering::Less => true,
            Ordering::Equal => self.after,
            Ordering::Greater => false,
        }
    }
}

/// The shortest separator above the entry (`left`, _) and not above (`right`, `right_rid`).
///
/// Where the keys differ, the rid can be dropped and the key cut behind the first differing byte.
pub(super) fn separator<'a>(left: &[u8], right: &'a [u8], right_rid: u64) -> (&'a [u8], u64) {
    if left == right {
        return (right, right_rid);
    }
    debug_assert!(left < right, "a separator needs its neighbours in order");
    (&right[..common_prefix_bytes(left, right) + 1], 0)
}
