//! The keys of the maps. Numbers are big-endian, so that their order is the order of bytes.
//!
//! ```text
//!   rows     space 4 │ rid 8                     → begin, cells
//!   history  space 4 │ rid 8 │ !end 8            → begin, cells        was the newest in [begin, end)
//!   index    space 4 │ index 4 │ key │ rid 8     → nothing
//! ```
//! The newest of a row's old versions comes first. An entry of an index ends with its row, whatever its key is: it is
//! cut off from behind. (No key is the beginning of another one, `froglet_engine::key`: so entries are in the order of keys.)

use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{EngineError, Home, IndexId, RowId, SpaceId, key};

/// The longest key of an index.
pub(crate) fn longest_key() -> usize {
    Home::Disk.longest_key().expect("there is a longest one on disk")
}

pub(crate) fn row(space: SpaceId, rid: RowId) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&space.0.to_be_bytes());
    key[4..].copy_from_slice(&rid.0.to_be_bytes());
    key
}

/// The row of a key of the rows.
pub(crate) fn rid_of_row(key: &[u8]) -> RowId {
    RowId(number(key, 4))
}

/// Where the rows of the next block begin.
pub(crate) fn block_end(space: SpaceId, block: u32) -> [u8; 12] {
    row(space, RowId(RowId::of(block, 0).0 + ROWS_PER_BLOCK as u64))
}

pub(crate) fn history(space: SpaceId, rid: RowId, end: u64) -> [u8; 20] {
    let mut key = [0; 20];
    key[..12].copy_from_slice(&row(space, rid));
    key[12..].copy_from_slice(&(!end).to_be_bytes());
    key
}

/// The space, the row and the end of a key of the history.
pub(crate) fn of_history(key: &[u8]) -> (SpaceId, RowId, u64) {
    let space = u32::from_be_bytes(key[..4].try_into().expect("4 bytes"));
    (SpaceId(space), RowId(number(key, 4)), !number(key, 12))
}

/// All of a space's keys: from, and to.
pub(crate) fn space(space: SpaceId) -> ([u8; 4], [u8; 4]) {
    // The last number is no space's.
    (space.0.to_be_bytes(), (space.0 + 1).to_be_bytes())
}

/// What the entries of an index begin with.
pub(crate) fn index(space: SpaceId, index: IndexId) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&space.0.to_be_bytes());
    key[4..].copy_from_slice(&index.0.to_be_bytes());
    key
}

pub(crate) fn entry(prefix: &[u8; 8], key: &[u8], rid: RowId) -> Vec<u8> {
    let mut entry = Vec::with_capacity(16 + key.len());
    entry.extend_from_slice(prefix);
    entry.extend_from_slice(key);
    entry.extend_from_slice(&rid.0.to_be_bytes());
    entry
}

/// The key and the row of an index entry.
pub(crate) fn of_entry(entry: &[u8]) -> (&[u8], RowId) {
    let at = entry.len() - 8;
    (&entry[8..at], RowId(number(entry, at)))
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Refuses a key that is too long to be looked for.
pub(crate) fn check(key: &[u8]) -> Result<(), EngineError> {
    key::check_length(key, Home::Disk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_are_in_order() {
        let (s, r) = (SpaceId(1 << 31 | 7), RowId(1 << 40 | 5));
        assert_eq!(rid_of_row(&row(s, r)), r);
        assert_eq!(of_history(&history(s, r, 77)), (s, r, 77));
        assert!(history(s, r, 78) < history(s, r, 77));
        assert!(history(s, r, 0) < history(s, RowId(r.0 + 1), u64::MAX));
        let prefix = index(s, IndexId(9));
        assert_eq!(of_entry(&entry(&prefix, b"key", r)), (&b"key"[..], r));
        assert!(row(s, r)[..] < space(s).1[..]);
        assert!(row(s, r) < block_end(s, r.block()));
        assert_eq!(rid_of_row(&block_end(s, r.block())).block(), r.block() + 1);
    }
}
