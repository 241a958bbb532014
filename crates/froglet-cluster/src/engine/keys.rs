//! Which keys of the store rows and entries have.
//!
//! ```text
//!   'tF' │ database 4 │ space 4 │ 'd' │ row key                          → cells
//!                               │ 'x' │ index 4 │ key [ row key ]        → 0, row key
//!                               │ 'w'                                    → the space that its rows are with (`place`)
//!                               │ 'n' │ note 8                           → 1, note
//!                  space 0, else │ 'v'                                    → the last change of the catalog
//!                               │ 'f'                                    → a fence (`fences`)
//!                               │ 'b'                                    → indexes that are built (`builds`)
//!                               │ 'h'                                    → below it nothing is read (`history`)
//!                               │ 'c' │ space 4                          → start of the transaction that closed it, 8
//!   row key: the table's primary key, or ts 8 │ n 4 of the transaction that made the row
//! ```
//! Keys and their parts are ordered, and no key begins with another (`froglet_engine::key`, K3), so ranges of keys are
//! ranges here. An entry of a unique index is its key alone; of others, or with a NULL that makes it unlike every other,
//! the row's key follows. The byte behind the space is never an `r`: stores of the kind look for TiDB's rows.

use std::ops::Bound;

use froglet_engine::key::successor;
use froglet_engine::{IndexId, KeyRange, SpaceId};

/// Where a row space begins: everything of it has this prefix.
const SPACE_BYTES: usize = 10;

pub(super) fn database(database: u32) -> Vec<u8> {
    [b"tF".as_slice(), &database.to_be_bytes()].concat()
}

pub(super) fn space(database: u32, space: SpaceId) -> Vec<u8> {
    [&self::database(database)[..], &space.0.to_be_bytes()].concat()
}

pub(super) fn rows(database: u32, space: SpaceId) -> Vec<u8> {
    [&self::space(database, space)[..], b"d"].concat()
}

pub(super) fn index(database: u32, space: SpaceId, index: IndexId) -> Vec<u8> {
    [&self::space(database, space)[..], b"x", &index.0.to_be_bytes()].concat()
}

pub(super) fn notes(database: u32) -> Vec<u8> {
    [&space(database, SpaceId(0))[..], b"n"].concat()
}

/// Which space's rows those of a space are with.
pub(super) fn within(database: u32, space: SpaceId) -> Vec<u8> {
    [&self::space(database, space)[..], b"w"].concat()
}

/// Changes with every change of the catalog.
pub(super) fn catalog_mark(database: u32) -> Vec<u8> {
    [&space(database, SpaceId(0))[..], b"v"].concat()
}

/// Who closes spaces now, see `fences`.
pub(super) fn fence(database: u32) -> Vec<u8> {
    [&space(database, SpaceId(0))[..], b"f"].concat()
}

/// Indexes that are built now, see `builds`.
pub(super) fn builds(database: u32) -> Vec<u8> {
    [&space(database, SpaceId(0))[..], b"b"].concat()
}

/// Below it nothing is read, see `history`.
pub(super) fn floor(database: u32) -> Vec<u8> {
    [&space(database, SpaceId(0))[..], b"h"].concat()
}

/// Spaces that are closed for good.
pub(super) fn closed(database: u32) -> Vec<u8> {
    [&space(database, SpaceId(0))[..], b"c"].concat()
}

/// One of them.
pub(super) fn closed_space(database: u32, space: SpaceId) -> Vec<u8> {
    [&closed(database)[..], &space.0.to_be_bytes()].concat()
}

/// A row's key, of where it is.
pub(super) fn row_key(at: &[u8]) -> &[u8] {
    &at[SPACE_BYTES + 1..]
}

/// What an entry says: the row's key.
pub(super) fn entry_value(row_key: &[u8]) -> Vec<u8> {
    [&[0], row_key].concat()
}

/// What the numbers of rows begin with that are none, but where parts of a space begin.
pub(super) fn part_of(space: SpaceId) -> Vec<u8> {
    [b"~", &space.0.to_be_bytes()[..]].concat()
}

/// The row's key of what an entry says.
pub(super) fn of_entry_value(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(&[0])
}

/// The end of what has a prefix.
pub(super) fn end_of(prefix: &[u8]) -> Vec<u8> {
    successor(prefix).expect("a prefix begins with a letter")
}

/// The range of an index's keys behind a prefix: from the one, below the other.
pub(super) fn range(prefix: &[u8], range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
    let behind = |key: &[u8]| [prefix, key].concat();
    let after = |key: &[u8]| end_of(&behind(key));
    let from = match &range.lower {
        Bound::Unbounded => prefix.to_vec(),
        Bound::Included(key) => behind(key),
        Bound::Excluded(key) => after(key),
    };
    let to = match &range.upper {
        Bound::Unbounded => end_of(prefix),
        Bound::Included(key) => after(key),
        Bound::Excluded(key) => behind(key),
    };
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_together_is_together() {
        let (one, two) = (SpaceId(1), SpaceId(2));
        let all = [
            rows(7, one),
            index(7, one, IndexId(3)),
            index(7, one, IndexId(4)),
            rows(7, two),
            rows(8, one),
        ];
        assert!(all.is_sorted());
        assert!(all.windows(2).all(|two| end_of(&two[0]) <= two[1]));
        assert_eq!(row_key(&[&all[0][..], b"key"].concat()), b"key");
        assert!(all.iter().all(|key| key[10] != b'r'));
        let (from, to) = range(&all[1], &KeyRange::exactly(b"k"));
        let entry = [&all[1][..], b"k", b"row"].concat();
        assert!(from <= entry && entry < to);
    }
}
