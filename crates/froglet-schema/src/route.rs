//! From a key of a table that is made lazily to the rows that it is made of.
//!
//! ```text
//!   index of the target    (w, d, last, first)        columns that are plain columns of the source,
//!   index of the source    (w, d, id)                 in the same order: two parts in common
//!   range of the first  ─▶ its first two parts ─▶ range of the second
//! ```
//!
//! R1: of each row of the target in a range, the row of the source that it is made of is in the range that
//!     the route gives. It may give others, too.

use std::ops::{Bound, ControlFlow};

use froglet_engine::{
    ColumnId, ColumnType, Direction, IndexSpec, KeyPart, KeyRange, Layout, Row, RowId, Snapshot,
    Table, Value, key,
};

/// See the module.
#[derive(Debug, PartialEq)]
pub(crate) struct Route {
    /// Layout position of the source's index.
    pub index: usize,
    /// The parts in common, as the target has them.
    parts: Vec<(KeyPart, ColumnType)>,
    /// They are all of both keys.
    is_exact: bool,
}

impl Route {
    /// The way from an index of the target, by the index of the source that has most of its first parts.
    /// `plain` gives the column of the source that a column of the target is, if it is just that.
    pub fn of(
        key: &[KeyPart],
        target: &Layout,
        source: &Layout,
        plain: impl Fn(ColumnId) -> Option<ColumnId>,
    ) -> Option<Route> {
        let ty = |layout: &Layout, id| Some(layout.columns[layout.position(id)?].ty);
        let common = |other: &[KeyPart]| {
            let is_same = |(part, other): &(&KeyPart, &KeyPart)| {
                plain(part.column) == Some(other.column)
                    && ty(target, part.column) == ty(source, other.column)
                    && (part.descending, part.nulls_first) == (other.descending, other.nulls_first)
            };
            key.iter().zip(other).take_while(is_same).count()
        };
        let indexes = source.indexes.iter().enumerate();
        let (n, index) =
            indexes.map(|(at, index)| (common(&index.key), at)).max_by_key(|found| {
                // Of as good ones the shortest, and then the first.
                let (n, at) = *found;
                (n, std::cmp::Reverse((source.indexes[at].key.len(), at)))
            })?;
        let with_type = |part: &KeyPart| Some((*part, ty(target, part.column)?));
        let parts = key[..n].iter().map(with_type).collect::<Option<Vec<_>>>()?;
        let is_exact = n == key.len() && n == source.indexes[index].key.len();
        (n > 0).then_some(Route { index, parts, is_exact })
    }

    /// The way from each index of the target, if there is one.
    pub fn of_each(
        target: &Layout,
        source: &Layout,
        plain: impl Fn(ColumnId) -> Option<ColumnId>,
    ) -> Vec<Option<Route>> {
        let route = |index: &IndexSpec| Route::of(&index.key, target, source, &plain);
        target.indexes.iter().map(route).collect()
    }

    /// How many parts are in common.
    pub fn len(&self) -> usize {
        self.parts.len()
    }

    /// Layout positions in the source of the parts in common.
    pub fn places(&self, source: &Layout) -> Vec<usize> {
        source.key_positions(&source.indexes[self.index]).take(self.parts.len()).collect()
    }

    /// The parts in common of a key, from their values.
    pub fn encode(&self, values: &[Value]) -> Vec<u8> {
        key::encode(values, self.parts.iter().map(|(part, _)| part))
    }

    /// The rows of the source of which those of the target in a range of a key are made, as a view sees them: about
    /// `most` of them, from the start of the range. Then also the first parts of the key up to which, inclusive, there are
    /// no others.
    pub fn rows_in(
        &self,
        source: &dyn Table,
        at: &Snapshot,
        range: &KeyRange,
        direction: Direction,
        most: usize,
    ) -> (Vec<RowId>, Option<Vec<u8>>) {
        let projection = self.places(source.layout());
        let (mut rows, mut last, mut end) = (Vec::new(), Vec::new(), None);
        let mut visit = |rid: RowId, row: &mut Row| {
            if rows.len() + 1 >= most {
                let key = self.encode(row);
                if rows.len() >= most && key != last {
                    end = Some(std::mem::take(&mut last));
                    return ControlFlow::Break(());
                }
                last = key;
            }
            rows.push(rid);
            ControlFlow::Continue(())
        };
        source.seek(at, self.index, &self.range(range), direction, &projection, &mut visit);
        (rows, end)
    }

    /// Where the rows of a range are [R1].
    pub fn range(&self, range: &KeyRange) -> KeyRange {
        if self.is_exact { range.clone() } else { leading_range(range, &self.parts) }
    }
}

/// Where the first parts of the keys in a range are.
pub(crate) fn leading_range(range: &KeyRange, parts: &[(KeyPart, ColumnType)]) -> KeyRange {
    let lower = match &range.lower {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) | Bound::Excluded(key) => {
            Bound::Included(key::leading(key, parts).to_vec())
        }
    };
    // What is below a bound may begin with all of its leading parts, unless it has no others.
    let above = |key: &[u8]| key::successor(key).map_or(Bound::Unbounded, Bound::Excluded);
    let upper = match &range.upper {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => above(key::leading(key, parts)),
        Bound::Excluded(key) => match key::leading(key, parts) {
            whole if whole.len() == key.len() => Bound::Excluded(key.clone()),
            part => above(part),
        },
    };
    KeyRange { lower, upper }
}

#[cfg(test)]
mod tests {
    use froglet_engine::{ColumnSpec, IndexId};

    use super::*;

    fn part(column: u32) -> KeyPart {
        KeyPart { column: ColumnId(column), descending: false, nulls_first: false }
    }

    fn layout(columns: &[u32], indexes: &[&[u32]]) -> Layout {
        let ty = ColumnType::Int32;
        let column = |id: &u32| ColumnSpec { id: ColumnId(*id), ty, missing: Value::Null };
        let index = |(at, key): (usize, &&[u32])| IndexSpec {
            id: IndexId(at as u32),
            key: key.iter().copied().map(part).collect(),
            unique: false,
            unique_at_commit: false,
            nulls: Default::default(),
        };
        Layout {
            columns: columns.iter().map(column).collect(),
            indexes: indexes.iter().enumerate().map(index).collect(),
            row_key: None,
        }
    }

    /// Column n of the target is column n - 100 of the source; 109 is none.
    fn route(key: &[u32], indexes: &[&[u32]]) -> Option<Route> {
        let target = layout(&[101, 102, 103, 104, 109], &[]);
        let source = layout(&[1, 2, 3, 4, 9], indexes);
        let plain = |id: ColumnId| (id.0 != 109).then(|| ColumnId(id.0 - 100));
        let key: Vec<KeyPart> = key.iter().copied().map(part).collect();
        Route::of(&key, &target, &source, plain)
    }

    fn key(values: &[i32]) -> Vec<u8> {
        let mut out = Vec::new();
        values.iter().for_each(|v| key::encode_part(&mut out, &Value::Int32(*v), &part(1)));
        out
    }

    #[test]
    fn the_index_with_most_in_common_is_taken() {
        let found = |key: &[u32], indexes: &[&[u32]]| {
            route(key, indexes).map(|route| (route.index, route.parts.len(), route.is_exact))
        };
        assert_eq!(found(&[101, 102], &[&[1], &[1, 2], &[1, 2, 3]]), Some((1, 2, true)));
        assert_eq!(found(&[101, 102], &[&[1], &[1, 2, 3]]), Some((1, 2, false)));
        assert_eq!(found(&[101, 103], &[&[1, 2, 3], &[1]]), Some((1, 1, false)));
        assert_eq!(found(&[102, 101], &[&[1, 2]]), None);
        assert_eq!(found(&[109], &[&[9]]), None);
        assert_eq!(found(&[101], &[]), None);
    }

    #[test]
    fn the_range_of_the_source_has_all_of_the_targets() {
        let values = || (0..4).flat_map(|a| (0..4).map(move |b| [a, b]));
        let bounds = || {
            let keys = values().map(|k| key(&k)).chain((0..4).map(|a| key(&[a])));
            let keys = keys.flat_map(|key| {
                let next = key::successor(&key).expect("a key is not all ones");
                [Bound::Included(key.clone()), Bound::Excluded(key), Bound::Excluded(next)]
            });
            keys.chain([Bound::Unbounded]).collect::<Vec<_>>()
        };
        // The target's key is (a, b); the source's (a), (a, b) and (a, b, 7).
        let routes = [&[1][..], &[1, 2], &[1, 2, 3]].map(|k| route(&[101, 102], &[k]).unwrap());
        for lower in bounds() {
            for upper in bounds() {
                let range = KeyRange { lower: lower.clone(), upper };
                let there: Vec<_> = values().filter(|k| range.contains(&key(k))).collect();
                for [a, b] in there {
                    for (route, made_of) in routes.iter().zip([&[a][..], &[a, b], &[a, b, 7]]) {
                        let of = route.range(&range);
                        assert!(of.contains(&key(made_of)), "{range:?} {of:?} {made_of:?}");
                    }
                }
            }
        }
        let narrow = routes[2].range(&KeyRange::prefix(key(&[2, 1])));
        assert!(!narrow.contains(&key(&[2, 0, 7])) && !narrow.contains(&key(&[2, 2, 7])));
    }
}
