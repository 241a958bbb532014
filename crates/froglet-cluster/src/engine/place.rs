//! Where the rows of a table are: by themselves, or with the rows of another table that they are made of (SLSM, section 4.2).
//!
//! ```text
//!   by itself         'd' of its space │ row key                                                    → cells
//!   within another    'd' of the host  │ first parts of the row key: the host's │ 1 │ space 4 │ the others   → 0, space 4, cells
//! ```
//! A row key of the host is whole, so a guest's key is behind that of the host's row, and before the next one: whatever
//! region has the one has the other, as long as nobody splits between them.
//!
//! **[P1]** A value says whose row it is: cells begin with how many there are, which is never 0.

use froglet_engine::{ColumnType, KeyPart, KeyRange, Layout, SpaceId, key};

use super::keys;

/// Between the host's row key and the space of a guest.
const GUEST: u8 = 1;
/// Before the cells of a guest.
const OF_GUEST: u8 = 0;
const SPACE_BYTES: usize = 4;

/// See the module.
pub(super) struct Place {
    /// What the keys of rows begin with.
    pub prefix: Vec<u8>,
    guest: Option<Guest>,
}

struct Guest {
    /// The parts of a row key that are the host's.
    parts: Vec<(KeyPart, ColumnType)>,
    /// Behind them.
    mark: Vec<u8>,
    /// Before the cells.
    header: Vec<u8>,
}

/// What is before the cells of a guest's row.
pub(super) fn header(space: SpaceId) -> Vec<u8> {
    [&[OF_GUEST][..], &space.0.to_be_bytes()].concat()
}

/// Whether a row behind a host's prefix is a guest's.
pub(super) fn is_guest(value: &[u8]) -> bool {
    value.first() == Some(&OF_GUEST) && value.len() > SPACE_BYTES
}

/// The cells of a row of a table whose rows have a header; none, if it is of another table [P1].
pub(super) fn cells<'a>(header: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    match header.is_empty() {
        true => (!is_guest(value)).then_some(value),
        false => value.strip_prefix(header),
    }
}

impl Place {
    /// Whether its rows are with those of another space.
    pub fn is_within(&self) -> bool {
        self.guest.is_some()
    }

    pub fn of(database: u32, space: SpaceId, layout: &Layout) -> Place {
        let within = layout.row_key.and_then(|row_key| Some((row_key.index, row_key.within?)));
        let Some((index, within)) = within else {
            return Place { prefix: keys::rows(database, space), guest: None };
        };
        let spec = layout.indexes.iter().find(|spec| spec.id == index);
        let spec = spec.expect("a layout has the index of its row key");
        let types = layout.key_positions(spec).map(|at| layout.columns[at].ty);
        Place {
            prefix: keys::rows(database, within.space),
            guest: Some(Guest {
                parts: spec.key.iter().copied().zip(types).take(within.parts).collect(),
                mark: [&[GUEST][..], &space.0.to_be_bytes()].concat(),
                header: header(space),
            }),
        }
    }

    /// Where the row with a key is.
    pub fn at(&self, row_key: &[u8]) -> Vec<u8> {
        [&self.prefix[..], &self.marked(row_key)].concat()
    }

    fn marked(&self, bound: &[u8]) -> Vec<u8> {
        let Some(Guest { parts, mark, .. }) = &self.guest else { return bound.to_vec() };
        match key::whole_parts(bound, parts).last() {
            Some((_, end)) if key::whole_parts(bound, parts).len() == parts.len() => {
                [&bound[..*end], mark, &bound[*end..]].concat()
            }
            _ => bound.to_vec(),
        }
    }

    /// Where the rows of a range are, from the one to before the other; and maybe others.
    pub fn range(&self, range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
        let marked = |key: &Vec<u8>| self.marked(key);
        let range = KeyRange {
            lower: range.lower.as_ref().map(marked),
            upper: range.upper.as_ref().map(marked),
        };
        keys::range(&self.prefix, &range)
    }

    /// What the store has of a row.
    pub fn value(&self, cells: &[u8]) -> Vec<u8> {
        [self.header(), cells].concat()
    }

    /// What is before the cells of a row.
    pub fn header(&self) -> &[u8] {
        self.guest.as_ref().map_or(&[][..], |guest| &guest.header)
    }

    /// The cells of a row; none, if it is of another table [P1].
    pub fn cells<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        cells(self.header(), value)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use froglet_engine::{ColumnId, ColumnSpec, IndexId, IndexSpec, RowKey, Value, Within};

    use super::*;

    const DATABASE: u32 = 3;
    const HOST: SpaceId = SpaceId(7);

    fn part(column: u32) -> KeyPart {
        KeyPart { column: ColumnId(column), descending: false, nulls_first: false }
    }

    fn layout(columns: &[ColumnType], within: Option<Within>) -> Layout {
        let id = |at: usize| ColumnId(u32::try_from(at).expect("a few columns"));
        let column = |(at, ty): (usize, &ColumnType)| ColumnSpec {
            id: id(at),
            ty: *ty,
            missing: Value::Null,
        };
        let key = (0..columns.len()).map(|at| part(id(at).0)).collect();
        let (unique, unique_at_commit) = (true, false);
        let nulls = Default::default();
        let primary = IndexSpec { id: IndexId(1), key, unique, unique_at_commit, nulls };
        Layout {
            columns: columns.iter().enumerate().map(column).collect(),
            row_key: Some(RowKey { index: primary.id, within }),
            indexes: vec![primary],
        }
    }

    fn row_key(values: &[Value]) -> Vec<u8> {
        let parts: Vec<KeyPart> = (0..values.len()).map(|_| part(0)).collect();
        key::encode(values, &parts)
    }

    /// A guest's rows are with their host's, in the order of their own keys, and ranges find each of them.
    #[test]
    fn guests_are_with_their_hosts() {
        let types = [ColumnType::Text, ColumnType::Int32, ColumnType::Int32];
        let host = Place::of(DATABASE, HOST, &layout(&types[..2], None));
        let within = Some(Within { space: HOST, parts: 2 });
        let same = Place::of(DATABASE, SpaceId(9), &layout(&types[..2], within));
        let longer = Place::of(DATABASE, SpaceId(8), &layout(&types, within));
        let mut hosts = Vec::new();
        let mut all = Vec::new();
        for text in ["", "a", "a\0", "a\0b", "b", "\u{ff}"] {
            for number in [-3, 0, 1, 256, i32::MAX] {
                let key = [Value::text(text), Value::Int32(number)];
                hosts.push(host.at(&row_key(&key)));
                all.push((host.at(&row_key(&key)), 0));
                all.push((same.at(&row_key(&key)), 1));
                for more in [-1, 0, 7] {
                    let key = [&key[..], &[Value::Int32(more)]].concat();
                    all.push((longer.at(&row_key(&key)), 2));
                }
            }
        }
        all.sort();
        for (at, whose) in &all {
            let of = hosts.iter().filter(|host| *host <= at).max().expect("behind a host");
            assert!(at.starts_with(of), "whose row {whose} is not with its host");
        }
        // Bounds that are whole keys, first parts of them, and what is behind these.
        let (mut lowers, mut uppers) = (vec![Bound::Unbounded], vec![Bound::Unbounded]);
        for text in ["a", "a\0", "b"] {
            for parts in 1..=3 {
                let key = [Value::text(text), Value::Int32(1), Value::Int32(0)];
                let key = row_key(&key[..parts]);
                let behind = key::successor(&key).expect("it has one");
                uppers.extend([Bound::Excluded(behind.clone()), Bound::Excluded(key.clone())]);
                lowers.extend([Bound::Included(behind), Bound::Included(key)]);
            }
        }
        for place in [&longer, &same] {
            let parts = if std::ptr::eq(place, &same) { 2 } else { 3 };
            for lower in &lowers {
                for upper in &uppers {
                    let range = KeyRange { lower: lower.clone(), upper: upper.clone() };
                    let (from, to) = place.range(&range);
                    for text in ["", "a", "a\0", "b"] {
                        for number in [0, 1, 2] {
                            for more in [-1, 0, 7] {
                                let key =
                                    [Value::text(text), Value::Int32(number), Value::Int32(more)];
                                let key = row_key(&key[..parts]);
                                let at = place.at(&key);
                                let is_found = from <= at && at < to;
                                assert_eq!(is_found, range.contains(&key), "{range:?} {key:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_value_says_whose_row_it_is() {
        let within = Some(Within { space: HOST, parts: 1 });
        let host = Place::of(DATABASE, HOST, &layout(&[ColumnType::Int32], None));
        let guest = Place::of(DATABASE, SpaceId(9), &layout(&[ColumnType::Int32], within));
        let other = Place::of(DATABASE, SpaceId(10), &layout(&[ColumnType::Int32], within));
        for cells in [&[1, 1, 1][..], &[0], &[200, 1, 0, 0, 0, 9]] {
            for (at, place) in [&host, &guest, &other].into_iter().enumerate() {
                let value = place.value(cells);
                for (of, whose) in [&host, &guest, &other].into_iter().enumerate() {
                    assert_eq!(whose.cells(&value), (at == of).then_some(cells));
                }
            }
        }
    }
}
