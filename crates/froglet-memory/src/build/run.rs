//! Sorted runs of index entries, packed.
//!
//! ```text
//!   entry    head: 16 key bytes │ rid │ where the rest of the key is     32 bytes, while it is sorted
//!   run      prefix shared by all keys
//!            page │ length, key behind the prefix, rid │ … │ page │ …    freed page by page as read
//! ```
//!
//! An entry is packed as `2 × length + has NULL` (7 bits a byte, low first), the key's bytes behind
//! the run's prefix, and as many bytes of the row id as the run's largest needs. So a row costs its
//! key, less what the run shares, and four bytes or five.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use froglet_engine::EngineError;

use crate::memory::{Budget, Charge};

/// Key bytes that a head holds.
pub(super) const HEAD_BYTES: usize = 16;
/// A run is sorted when it has this many entries …
const ENTRIES_MAX: usize = if cfg!(any(test, shuttle, miri)) { 64 } else { 1 << 18 };
/// … or this many bytes of keys behind their heads.
const REST_BYTES_MAX: usize = 16 << 20;
const PAGE_BYTES: usize = if cfg!(any(test, shuttle, miri)) { 128 } else { 64 << 10 };
/// Set in an entry's row id if a part of the key is NULL.
const HAS_NULL: u64 = 1 << 63;

/// The first bytes of a key as one number, zero padded: its order is the keys' order, but for ties.
#[inline]
fn head_of(key: &[u8]) -> u128 {
    if let Some(head) = key.first_chunk::<HEAD_BYTES>() {
        return u128::from_be_bytes(*head);
    }
    if let (Some(first), Some(last)) = (key.first_chunk(), key.last_chunk()) {
        // The last eight bytes, shifted so that only those behind the first eight remain.
        let (first, last) = (u64::from_be_bytes(*first), u64::from_be_bytes(*last));
        let low = last.checked_shl(8 * (HEAD_BYTES - key.len()) as u32).unwrap_or(0);
        return u128::from(first) << 64 | u128::from(low);
    }
    let mut head = [0; HEAD_BYTES];
    head[..key.len()].copy_from_slice(key);
    u128::from_be_bytes(head)
}

#[derive(Clone, Copy)]
struct Entry {
    head: u128,
    /// With [`HAS_NULL`].
    rid: u64,
    /// Where the key's bytes behind the head start.
    rest: u32,
    key_len: u32,
}

impl Entry {
    fn rest<'a>(&self, rests: &'a [u8]) -> &'a [u8] {
        let len = (self.key_len as usize).saturating_sub(HEAD_BYTES);
        &rests[self.rest as usize..][..len]
    }

    #[inline]
    fn cmp(&self, other: &Entry, rests: &[u8]) -> Ordering {
        self.head.cmp(&other.head).then_with(|| {
            self.rest(rests)
                .cmp(other.rest(rests))
                .then(self.key_len.cmp(&other.key_len))
                .then(self.rid.cmp(&other.rid))
        })
    }

    /// Writes the whole key over `out`.
    fn write_key(&self, rests: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.head.to_be_bytes()[..HEAD_BYTES.min(self.key_len as usize)]);
        out.extend_from_slice(self.rest(rests));
    }
}

/// Entries in the order in which they come, until there are enough for a run.
pub(super) struct Collector {
    entries: Vec<Entry>,
    rests: Vec<u8>,
    charge: Charge,
}

impl Collector {
    pub fn new(budget: &Arc<Budget>) -> Collector {
        Collector { entries: Vec::new(), rests: Vec::new(), charge: Charge::new(budget) }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.entries.len() >= ENTRIES_MAX || self.rests.len() >= REST_BYTES_MAX
    }

    pub fn push(&mut self, key: &[u8], has_null: bool, rid: u64) -> Result<(), EngineError> {
        debug_assert!(rid & HAS_NULL == 0, "row ids have 45 bits");
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve(self.entries.len().clamp(ENTRIES_MAX.min(1024), ENTRIES_MAX));
        }
        let rest = self.rests.len();
        self.rests.extend_from_slice(key.get(HEAD_BYTES..).unwrap_or_default());
        self.entries.push(Entry {
            head: head_of(key),
            rid: if has_null { rid | HAS_NULL } else { rid },
            rest: u32::try_from(rest).expect("a run has fewer bytes"),
            key_len: u32::try_from(key.len()).expect("a key is shorter than 4 GiB"),
        });
        let bytes = self.entries.capacity() * size_of::<Entry>() + self.rests.capacity();
        if bytes == self.charge.bytes() { Ok(()) } else { self.charge.set(bytes) }
    }

    /// Sorts and packs what came so far, and starts anew.
    pub fn take_run(&mut self) -> Result<Run, EngineError> {
        let Collector { entries, rests, charge } = self;
        if rests.is_empty() {
            // Often many rows share a key, and then their order is all there is to compare.
            entries.sort_unstable_by_key(|entry| (entry.head, entry.key_len, entry.rid));
        } else {
            entries.sort_unstable_by(|a, b| a.cmp(b, rests));
        }
        let mut run = Run::new(charge.budget());
        let (mut key, mut last) = (Vec::new(), Vec::new());
        if let (Some(first), Some(end)) = (entries.first(), entries.last()) {
            first.write_key(rests, &mut key);
            end.write_key(rests, &mut last);
            let shared = key.iter().zip(&last).take_while(|(a, b)| a == b).count();
            key.truncate(shared);
            run.prefix.append(&mut key);
        }
        let largest = entries.iter().map(|entry| entry.rid & !HAS_NULL).max().unwrap_or(0);
        run.rid_bytes = (u64::BITS - largest.leading_zeros()).div_ceil(8) as usize;
        for entry in entries.iter() {
            entry.write_key(rests, &mut key);
            run.push(&key, entry.rid);
        }
        run.charge.set(run.pages.iter().map(Vec::capacity).sum())?;
        entries.clear();
        rests.clear();
        Ok(run)
    }
}

/// Entries in order, and where a reader of them stands.
pub(super) struct Run {
    prefix: Vec<u8>,
    rid_bytes: usize,
    pages: VecDeque<Vec<u8>>,
    /// Where in the first page the next entry is.
    at: usize,
    charge: Charge,
    /// The entry that was read last.
    pub key: Vec<u8>,
    pub has_null: bool,
    pub rid: u64,
}

impl Run {
    fn new(budget: &Arc<Budget>) -> Run {
        Run {
            prefix: Vec::new(),
            rid_bytes: 0,
            pages: VecDeque::new(),
            at: 0,
            charge: Charge::new(budget),
            key: Vec::new(),
            has_null: false,
            rid: 0,
        }
    }

    fn push(&mut self, key: &[u8], rid: u64) {
        /// A length takes no more.
        const LENGTH_BYTES: usize = 10;
        let suffix = &key[self.prefix.len()..];
        let wanted = LENGTH_BYTES + suffix.len() + self.rid_bytes;
        if self.pages.back().is_none_or(|page| page.capacity() - page.len() < wanted) {
            self.pages.push_back(Vec::with_capacity(PAGE_BYTES.max(wanted)));
        }
        let page = self.pages.back_mut().expect("just made");
        let mut length = (suffix.len() as u64) << 1 | u64::from(rid & HAS_NULL != 0);
        while length >= 0x80 {
            page.push(length as u8 | 0x80);
            length >>= 7;
        }
        page.push(length as u8);
        page.extend_from_slice(suffix);
        page.extend_from_slice(&rid.to_le_bytes()[..self.rid_bytes]);
    }

    /// Reads the next entry into `key`, `has_null` and `rid`; false at the end.
    pub fn advance(&mut self) -> bool {
        let Some(page) = self.pages.front() else { return false };
        let (mut at, mut length, mut shift) = (self.at, 0, 0);
        loop {
            let byte = page[at];
            at += 1;
            length |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
        }
        let suffix_end = at + (length >> 1) as usize;
        self.key.clear();
        self.key.extend_from_slice(&self.prefix);
        self.key.extend_from_slice(&page[at..suffix_end]);
        self.has_null = length & 1 != 0;
        let mut rid = [0; 8];
        rid[..self.rid_bytes].copy_from_slice(&page[suffix_end..suffix_end + self.rid_bytes]);
        self.rid = u64::from_le_bytes(rid);
        self.at = suffix_end + self.rid_bytes;
        if self.at == page.len() {
            let left = self.charge.bytes() - page.capacity();
            self.pages.pop_front();
            self.at = 0;
            self.charge.set(left).expect("less memory is to be had");
        }
        true
    }

    /// The head of the entry that was read last.
    #[inline]
    pub fn head(&self) -> u128 {
        head_of(&self.key)
    }
}
