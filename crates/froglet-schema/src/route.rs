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
//! R2: a part may be an integer that the source has in a wider or a narrower type. Its keys are in the same order there; of
//!     what is beyond a narrower type its least or greatest value stands [R1].

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
    /// Of each its type in the source, where that is another [R2].
    other_types: Vec<Option<ColumnType>>,
    /// They are all of both keys.
    is_exact: bool,
}

impl Route {
    /// The way from an index of the target, by the index of the source that has most of its first parts.
    /// `origin` gives the column of the source that a column of the target is, if it is just that, maybe in another type.
    pub fn of(
        key: &[KeyPart],
        target: &Layout,
        source: &Layout,
        origin: impl Fn(ColumnId) -> Option<ColumnId>,
    ) -> Option<Route> {
        let ty = |layout: &Layout, id| Some(layout.columns[layout.position(id)?].ty);
        let common = |other: &[KeyPart]| {
            let is_same = |(part, other): &(&KeyPart, &KeyPart)| {
                let types = (ty(target, part.column), ty(source, other.column));
                origin(part.column) == Some(other.column)
                    && (types.0 == types.1 || are_integers(types))
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
        let there = source.indexes[index].key.iter().map(|part| ty(source, part.column));
        let other_types =
            there.zip(&parts).map(|(there, (_, ty))| there.filter(|there| there != ty));
        let other_types = other_types.collect();
        let is_exact = n == key.len() && n == source.indexes[index].key.len();
        (n > 0).then_some(Route { index, parts, other_types, is_exact })
    }

    /// The way from each index of the target, if there is one.
    pub fn of_each(
        target: &Layout,
        source: &Layout,
        origin: impl Fn(ColumnId) -> Option<ColumnId>,
    ) -> Vec<Option<Route>> {
        let route = |index: &IndexSpec| Route::of(&index.key, target, source, &origin);
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

    /// The parts in common of a key of the target, from their values in the source.
    pub fn encode(&self, values: &[Value]) -> Vec<u8> {
        let mut key = Vec::new();
        for (value, (part, ty)) in values.iter().zip(&self.parts) {
            match value.as_integer().and_then(|value| Value::of_integer(value, *ty)) {
                Some(value) => key::encode_part(&mut key, &value, part),
                None => key::encode_part(&mut key, value, part),
            }
        }
        key
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
        if self.other_types.iter().any(Option::is_some) {
            return self.converted_range(range);
        }
        if self.is_exact { range.clone() } else { leading_range(range, &self.parts) }
    }

    /// The same where the source has parts in other types [R2].
    fn converted_range(&self, range: &KeyRange) -> KeyRange {
        let as_it_is = |end| self.is_exact && end == End::Whole;
        let lower = match &range.lower {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(key) => Bound::Included(self.converted_key(key).0),
            Bound::Excluded(key) => match self.converted_key(key) {
                (key, end) if as_it_is(end) => Bound::Excluded(key),
                (key, _) => Bound::Included(key),
            },
        };
        let above = |key: &[u8]| key::successor(key).map_or(Bound::Unbounded, Bound::Excluded);
        let upper = match &range.upper {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(key) => match self.converted_key(key) {
                (key, end) if as_it_is(end) => Bound::Included(key),
                (key, _) => above(&key),
            },
            Bound::Excluded(key) => match self.converted_key(key) {
                (key, End::Whole) => Bound::Excluded(key),
                (key, End::Cut | End::Beyond) => above(&key),
            },
        };
        KeyRange { lower, upper }
    }

    /// The parts in common of a bound, which may end within a part, as the source has them.
    fn converted_key(&self, bound: &[u8]) -> (Vec<u8>, End) {
        let (mut key, mut rest) = (Vec::with_capacity(bound.len()), bound);
        for (part, other) in self.parts.iter().zip(&self.other_types) {
            if rest.is_empty() {
                break;
            }
            let Some(other) = other else {
                let whole = key::leading(rest, std::slice::from_ref(part));
                key.extend_from_slice(whole);
                rest = &rest[whole.len()..];
                continue;
            };
            let Some((value, length)) = key::integer_at(rest, part) else {
                // NULL, or the end of all values.
                key.push(rest[0]);
                rest = &rest[1..];
                continue;
            };
            rest = &rest[length..];
            let (least, most) = other.integers().expect("it is one of integers");
            let there = Value::of_integer(value.clamp(least, most), *other);
            let there = there.expect("it is in its range");
            key::encode_part(&mut key, &there, &part.0);
            if !(least..=most).contains(&value) {
                return (key, End::Beyond);
            }
        }
        (key, if rest.is_empty() { End::Whole } else { End::Cut })
    }
}

/// What of a bound the source's has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// All of it.
    Whole,
    /// Its first parts.
    Cut,
    /// Up to a part for which the greatest or least value stands [R2].
    Beyond,
}

/// Whether the values of both types are integers.
fn are_integers(types: (Option<ColumnType>, Option<ColumnType>)) -> bool {
    let integers = |ty: Option<ColumnType>| ty.and_then(ColumnType::integers);
    integers(types.0).is_some() && integers(types.1).is_some()
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
    fn a_range_of_wider_integers_has_all_of_the_narrower_ones() {
        let part = |column, descending| KeyPart { descending, ..part(column) };
        let ends = [i32::MIN, i32::MIN + 1, -256, -1, 0, 255, 256, i32::MAX - 1, i32::MAX];
        let beyond = [i64::MIN, i64::from(i32::MIN) - 1, i64::from(i32::MAX) + 1, i64::MAX];
        let wide = || ends.into_iter().map(i64::from).chain(beyond).map(Value::Int64);
        for (descending, with_other) in [(false, false), (true, false), (false, true), (true, true)]
        {
            // The target's key is (bigint, text), the source's (integer, text) or (integer).
            let mut target = layout(&[101, 102], &[]);
            let mut source = layout(&[1, 2], &[if with_other { &[1, 2] } else { &[1] }]);
            target.columns[0].ty = ColumnType::Int64;
            (target.columns[1].ty, source.columns[1].ty) = (ColumnType::Text, ColumnType::Text);
            let parts = [part(101, descending), part(102, false)];
            source.indexes[0].key[0].descending = descending;
            let origin = |id: ColumnId| Some(ColumnId(id.0 - 100));
            let route = Route::of(&parts, &target, &source, origin).unwrap();
            assert_eq!(route.is_exact, with_other);

            let texts = ["", "a", "b"].map(|text| Value::Text(text.into()));
            let whole = |first: &Value, text: &Value| key::encode([first, text], &parts);
            let rows: Vec<_> = ends
                .into_iter()
                .chain([i32::MIN])
                .map(Value::Int32)
                .chain([Value::Null])
                .flat_map(|first| texts.iter().map(move |text| (first.clone(), text.clone())))
                .collect();
            let keys = wide().chain([Value::Null]).flat_map(|first| {
                let mut keys: Vec<_> = texts.iter().map(|text| whole(&first, text)).collect();
                keys.push(key::encode([&first], &parts));
                keys
            });
            let mut bounds: Vec<Bound<Vec<u8>>> = vec![Bound::Unbounded];
            for key in keys {
                bounds.extend(key::successor(&key).map(Bound::Excluded));
                bounds.extend([Bound::Included(key.clone()), Bound::Excluded(key)]);
            }
            for (lower, upper) in bounds.iter().flat_map(|l| bounds.iter().map(move |u| (l, u))) {
                let range = KeyRange { lower: lower.clone(), upper: upper.clone() };
                let there = route.range(&range);
                for (first, text) in &rows {
                    let made = first.as_integer().map_or(Value::Null, Value::Int64);
                    if range.contains(&whole(&made, text)) {
                        let of = key::encode([first, text], &source.indexes[0].key);
                        assert!(there.contains(&of), "{range:?} {there:?} {first:?} {text:?}");
                    }
                }
            }
            // One row is looked for as one.
            let one = route.range(&KeyRange::exactly(&whole(&Value::Int64(7), &texts[1])));
            assert_eq!(one.one().is_some(), with_other);
            assert_eq!(
                route.encode(&[Value::Int32(7), texts[1].clone()])[..9],
                whole(&Value::Int64(7), &texts[1])[..9]
            );
        }
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
