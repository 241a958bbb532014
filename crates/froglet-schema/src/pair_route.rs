//! From a key of a table that is made lazily of a join to the rows of both sides.
//!
//! ```text
//!   index of the target      (o.day, p.name, o.id)       columns that are plain columns of a side
//!   range                    day = 7, name > 'q'
//!     where to begin         o by (day) = 7              the side of which more is known
//!     what goes with a row   p by the join's key, or a key that is known to be one
//!     which pairs            those whose (day, name, id) are in the range
//! ```
//!
//! R2: of each row of the target in a range, the two rows that it is made of are among those that are looked
//!     at, and their pair is not left out.

use std::cmp::Reverse;

use froglet_engine::{ColumnId, ColumnType, KeyPart, KeyRange, Layout, Value, key};

use crate::route::{Route, leading_range};

/// See the module.
pub(crate) struct PairRoute {
    /// The first parts of the target's key that are columns of a side.
    parts: Vec<(KeyPart, ColumnType)>,
    /// For each side, where a part is among `places`.
    of: Vec<[Option<usize>; 2]>,
    /// Layout positions of the columns of each side that are parts.
    pub places: [Vec<usize>; 2],
    /// By the order of an index, of each side.
    ranges: [Option<Route>; 2],
    /// The parts are the whole key.
    is_exact: bool,
}

/// What a range of a key says.
pub(crate) struct Wanted {
    /// Values of the first parts.
    fixed: Vec<Value>,
    /// The range, of the parts that are columns of a side.
    narrowed: KeyRange,
    /// The side to begin with, and where it has the rows.
    pub begin: usize,
    pub index: usize,
    pub range: KeyRange,
}

impl PairRoute {
    /// The way from an index of the target. `plain` gives the column of a side that a column of the target
    /// is, if it is just that.
    pub fn of(
        key: &[KeyPart],
        target: &Layout,
        sides: [&Layout; 2],
        plain: impl Fn(ColumnId, usize) -> Option<ColumnId>,
    ) -> Option<PairRoute> {
        let (mut parts, mut of, mut places) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        for part in key {
            let ty = target.columns[target.position(part.column)?].ty;
            let mut at = [None; 2];
            for side in 0..2 {
                let place = plain(part.column, side).and_then(|id| sides[side].position(id));
                if let Some(place) = place.filter(|place| sides[side].columns[*place].ty == ty) {
                    at[side] = Some(places[side].len());
                    places[side].push(place);
                }
            }
            if at == [None; 2] {
                break;
            }
            parts.push((*part, ty));
            of.push(at);
        }
        let by_order = |side: usize| Route::of(key, target, sides[side], |id| plain(id, side));
        let is_exact = parts.len() == key.len();
        let ranges = [by_order(0), by_order(1)];
        (!parts.is_empty()).then_some(PairRoute { parts, of, places, ranges, is_exact })
    }

    /// What a range says, and where to begin; `None` if no index helps.
    pub fn wanted(&self, range: &KeyRange, sides: [&Layout; 2]) -> Option<Wanted> {
        let narrowed = match self.is_exact {
            true => range.clone(),
            false => leading_range(range, &self.parts),
        };
        let fixed = fixed(&narrowed, &self.parts);
        let ways = [0, 1].into_iter().flat_map(|side| {
            let known = self.known(&fixed, side);
            let by_values = Found::of(sides[side], &known);
            let by_values = by_values.map(|found| {
                let rank = if found.is_one { usize::MAX } else { 2 * found.len };
                (rank, side, found.index, KeyRange::prefix(found.key))
            });
            let by_order = self.ranges[side].as_ref().map(|route| {
                // Beyond the values that are known there may be a bound.
                let rank =
                    2 * route.len().min(fixed.len()) + usize::from(route.len() > fixed.len());
                (rank, side, route.index, route.range(range))
            });
            [by_values, by_order].into_iter().flatten()
        });
        let best = ways.max_by_key(|(rank, side, ..)| (*rank, Reverse(*side)));
        let (_, begin, index, range) = best?;
        Some(Wanted { fixed, narrowed, begin, index, range })
    }

    /// Layout positions of a side whose values are known.
    fn known<'v>(&self, fixed: &'v [Value], side: usize) -> Vec<(usize, &'v Value)> {
        let known = fixed.iter().zip(&self.of);
        known.filter_map(|(value, of)| Some((self.places[side][of[side]?], value))).collect()
    }

    /// Where a side has the rows that have these values, and what is known beside.
    pub fn partners(
        &self,
        wanted: &Wanted,
        side: usize,
        layout: &Layout,
        key: &[(usize, &Value)],
    ) -> Option<(usize, KeyRange)> {
        let known: Vec<_> = key.iter().copied().chain(self.known(&wanted.fixed, side)).collect();
        Found::of(layout, &known).map(|found| (found.index, KeyRange::prefix(found.key)))
    }

    /// Whether a row of a side, of which `values` are those at its places, has the values that are known.
    pub fn fits(&self, wanted: &Wanted, side: usize, values: &[Value]) -> bool {
        let fixed = wanted.fixed.iter().zip(&self.of).zip(&self.parts);
        fixed.into_iter().all(|((value, of), (part, _))| {
            let own = of[side].map(|at| &values[at]);
            own.is_none_or(|own| key::encode([own], [part]) == key::encode([value], [part]))
        })
    }

    /// Whether a row of the target that is made of a pair may be in the range [R2]: values of each side as
    /// for [`PairRoute::fits`].
    pub fn holds(&self, wanted: &Wanted, values: [&[Value]; 2]) -> bool {
        let value = |of: &[Option<usize>; 2]| match of {
            [Some(at), _] => &values[0][*at],
            [None, at] => &values[1][at.expect("a part is of a side")],
        };
        let key = key::encode(self.of.iter().map(value), self.parts.iter().map(|(part, _)| part));
        wanted.narrowed.contains(&key)
    }

    /// Whether which rows are wanted depends on a side alone, so that of the other all that go with them are.
    pub fn is_of(&self, side: usize) -> bool {
        self.of.iter().all(|of| of[side].is_some())
    }
}

/// Where a table has rows that have some values.
pub(crate) struct Found {
    pub index: usize,
    /// Of the first parts of the index.
    pub key: Vec<u8>,
    len: usize,
    /// There is at most one.
    is_one: bool,
}

impl Found {
    /// By the index that begins with most of these columns, which are given by layout position.
    pub fn of(layout: &Layout, known: &[(usize, &Value)]) -> Option<Found> {
        let found = layout.indexes.iter().enumerate().map(|(index, spec)| {
            let value = |place: usize| known.iter().find(|(at, _)| *at == place).map(|(_, v)| *v);
            let values: Vec<&Value> = layout.key_positions(spec).map_while(value).collect();
            let is_one = spec.unique && values.len() == spec.key.len();
            let has_null = values.iter().any(|value| value.is_null());
            let key = key::encode(values.iter().copied(), &spec.key);
            Found { index, key, len: values.len(), is_one: is_one && !has_null }
        });
        let best = found.max_by_key(|found| (found.is_one, found.len, Reverse(found.index)))?;
        (best.len > 0).then_some(best)
    }
}

/// The values that all keys in a range begin with.
fn fixed(range: &KeyRange, parts: &[(KeyPart, ColumnType)]) -> Vec<Value> {
    use std::ops::Bound;
    let (Bound::Included(lower) | Bound::Excluded(lower)) = &range.lower else { return Vec::new() };
    let is_all = |prefix: &[u8]| key::successor(prefix).is_none_or(|next| !range.goes_above(&next));
    let mut whole = key::whole_parts(lower, parts);
    while whole.last().is_some_and(|(_, end)| !is_all(&lower[..*end])) {
        whole.pop();
    }
    whole.into_iter().map(|(value, _)| value).collect()
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use froglet_engine::{ColumnSpec, IndexId, IndexSpec};

    use super::*;

    fn part(column: u32, descending: bool) -> KeyPart {
        KeyPart { column: ColumnId(column), descending, nulls_first: descending }
    }

    /// Columns, and indexes of these: one that is negative descends.
    fn layout(columns: &[u32], indexes: &[&[i32]]) -> Layout {
        let ty = ColumnType::Int32;
        let column = |id: &u32| ColumnSpec { id: ColumnId(*id), ty, missing: Value::Null };
        let index = |(at, key): (usize, &&[i32])| IndexSpec {
            id: IndexId(at as u32),
            key: key.iter().map(|c| part(c.unsigned_abs(), *c < 0)).collect(),
            unique: key == &[1],
            unique_at_commit: false,
            nulls: Default::default(),
        };
        Layout {
            columns: columns.iter().map(column).collect(),
            indexes: indexes.iter().enumerate().map(index).collect(),
            row_key: None,
        }
    }

    /// Columns 101 to 103 of the target are 1 to 3 of the first side, 201 to 203 of the second; 3 is what
    /// both are joined by.
    fn plain(id: ColumnId, side: usize) -> Option<ColumnId> {
        let (of, column) = ((id.0 / 100) as usize - 1, ColumnId(id.0 % 100));
        (of == side || column.0 == 3).then_some(column)
    }

    /// [R2], for every range of some keys, and all pairs of small rows.
    #[test]
    fn no_pair_in_the_range_is_left_out() {
        let side = layout(&[1, 2, 3], &[&[1], &[-3], &[2, 3]]);
        let sides = [&side, &side];
        let target = layout(&[101, 102, 103, 201, 202, 203, 301], &[]);
        let keys: [&[i32]; 6] =
            [&[101, 201], &[103], &[-203, 102], &[202, 301], &[102, -203, 201], &[201, 102, 101]];
        let values = [Value::Null, Value::Int32(0), Value::Int32(1)];
        let mut rows = Vec::new();
        for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
            rows.extend([0, 1].map(|joined| vec![a.clone(), b.clone(), Value::Int32(joined)]));
        }
        let pairs = || rows.iter().flat_map(|a| rows.iter().map(move |b| [a, b]));
        for key in keys {
            let parts: Vec<KeyPart> = key.iter().map(|c| part(c.unsigned_abs(), *c < 0)).collect();
            let route = PairRoute::of(&parts, &target, sides, plain).unwrap();
            let at = |id: u32| ((id / 100) as usize - 1, (id % 100) as usize - 1);
            let key_of = |pair: [&Vec<Value>; 2]| {
                let value = |part: &KeyPart| match at(part.column.0) {
                    (2, _) => &Value::Int32(7),
                    (side, column) => &pair[side][column],
                };
                key::encode(parts.iter().map(value), &parts)
            };
            let mut bounds: Vec<Vec<u8>> = pairs().map(key_of).collect();
            bounds.extend(pairs().map(|pair| key_of(pair)[..1].to_vec()));
            bounds.sort_unstable();
            bounds.dedup();
            let prefixes = bounds.iter().cloned().map(KeyRange::prefix);
            let between = bounds.iter().step_by(3).flat_map(|a| {
                let upper = bounds.iter().step_by(5).cloned().map(Bound::Excluded);
                let upper = upper.chain([Bound::Unbounded]);
                upper.map(|upper| KeyRange { lower: Bound::Included(a.clone()), upper })
            });
            for range in prefixes.chain(between) {
                let Some(wanted) = route.wanted(&range, sides) else { continue };
                let joined = pairs().filter(|[a, b]| a[2] == b[2]);
                for pair in joined.filter(|pair| range.contains(&key_of(*pair))) {
                    let index = |side: usize, index: usize| {
                        let parts = &sides[side].indexes[index].key;
                        let values = parts.iter().map(|p| &pair[side][p.column.0 as usize - 1]);
                        key::encode(values, parts)
                    };
                    let own = |side: usize| -> Vec<Value> {
                        route.places[side].iter().map(|place| pair[side][*place].clone()).collect()
                    };
                    let (first, second) = (wanted.begin, 1 - wanted.begin);
                    assert!(
                        wanted.range.contains(&index(first, wanted.index)),
                        "{key:?} {range:?}"
                    );
                    let known = [(2, &pair[first][2])];
                    let (at, other) =
                        route.partners(&wanted, second, sides[second], &known).unwrap();
                    assert!(other.contains(&index(second, at)), "{key:?} {range:?} {pair:?}");
                    let values = [own(0), own(1)];
                    assert!((0..2).all(|side| route.fits(&wanted, side, &values[side])));
                    assert!(route.holds(&wanted, [&values[0], &values[1]]));
                }
            }
        }
    }

    #[test]
    fn what_is_known_of_both_sides_is_one_pair() {
        let side = layout(&[1, 2, 3], &[&[3], &[1]]);
        let target = layout(&[101, 201], &[]);
        let parts = [part(101, false), part(201, false)];
        let route = PairRoute::of(&parts, &target, [&side; 2], plain).unwrap();
        let key = key::encode(&[Value::Int32(7), Value::Int32(9)], &parts);
        let wanted = route.wanted(&KeyRange::exactly(&key), [&side; 2]).unwrap();
        assert_eq!((wanted.begin, wanted.index), (0, 1));
        let joined = Value::Int32(5);
        let (index, range) = route.partners(&wanted, 1, &side, &[(2, &joined)]).unwrap();
        let partner = key::encode(&[Value::Int32(9)], &parts[1..]);
        assert!(index == 1 && range.contains(&partner));
        assert!(!route.is_of(0));
        // Of a column without an index nothing is found.
        let side = layout(&[1, 2, 3], &[&[3]]);
        let route =
            PairRoute::of(&[part(102, false)], &layout(&[102], &[]), [&side; 2], plain).unwrap();
        let key = key::encode(&[Value::Int32(7)], &parts[..1]);
        assert!(route.wanted(&KeyRange::prefix(key), [&side; 2]).is_none());
    }
}
