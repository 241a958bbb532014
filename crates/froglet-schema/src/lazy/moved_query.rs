//! What a query makes of rows that move: of each by itself, or of groups of them.
//!
//! ```text
//!   the source by its row key (w, d, o, n)        a group: rows with the same (w, d, o)
//!   (1, 2, 7, 1) ─┐ stands for all of them
//!   (1, 2, 7, 2) ─┼──▶ query ──▶ (1, 2, 7, 310.00)
//!   (1, 2, 7, 3) ─┘
//!   (1, 2, 8, 1) ──── query ──▶ …
//! ```
//! Q1: the rows of a group come one after another in the order of the row key. The first stands for what is made of them.
//! Q2: of a group one row is made, or none. Its rows move together, so it is whole as long as it is left.
//! Q3: of several tables that are made of one source, that with the largest groups says what moves together. Keys of groups
//!     begin row keys, so its groups have those of the others whole.

use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use arrow_select::take::take;
use froglet_engine::{
    BlockRows, ColumnId, ColumnType, Direction, Found, KeyRange, Layout, Row, RowId, Snapshot,
    Table, TxnId, Which, key,
};

use crate::change::{LazyQuery, RowQuery, UnitInput, UnitQuery};
use crate::def::ObjectId;
use crate::derive::SomeRows;
use crate::error::SchemaError;
use crate::lazy::moved::Part;
use crate::lazy::{Columns, LazySource};
use crate::lazy_rows::LookedUp;
use crate::lazy_units;
use crate::rows::row_at;

/// Why not, as it is told.
pub(crate) const NOT_MOVED: &str = "in a cluster a row is made of one row, or of a group of rows of one table by the \
                                    first columns of its primary key";

/// Whether rows can be moved by a query.
pub(crate) fn can_move(
    query: &LazyQuery,
    layout: &dyn Fn(ObjectId) -> Option<Arc<Layout>>,
) -> bool {
    match query {
        LazyQuery::Rows(..) => true,
        LazyQuery::Pairs(..) => false,
        LazyQuery::Units(units) => query
            .tables()
            .first()
            .and_then(|table| layout(*table))
            .is_some_and(|layout| Groups::of(&**units, &layout).is_some()),
    }
}

/// See the module.
pub(super) enum MovedQuery {
    Rows { query: Arc<dyn RowQuery>, lookups: Vec<LookedUp> },
    Groups { query: Arc<dyn UnitQuery>, groups: Groups },
}

/// By what the rows of a source are told apart into groups [Q1].
#[derive(Clone, Debug)]
pub(super) struct Groups {
    /// Layout position of the index by which the source's rows are kept.
    index: usize,
    /// Layout positions of the first columns of its key.
    columns: Vec<usize>,
}

/// What the query has made of rows of the source.
pub(super) struct Made {
    /// Of which rows: of a group, of the first.
    pub rids: Vec<RowId>,
    columns: Vec<ArrayRef>,
}

impl Made {
    /// The rows in a layout.
    pub fn rows(self, layout: &Layout, columns: &Columns, types: &[ColumnType]) -> Vec<Row> {
        let whole = columns.whole(layout, &self.columns, self.rids.len());
        (0..self.rids.len()).map(|at| row_at(whole.columns(), types, at)).collect()
    }
}

impl MovedQuery {
    /// Of rows one by one.
    pub fn of_rows(
        query: Arc<dyn RowQuery>,
        lookups: impl Iterator<Item = LazySource>,
    ) -> MovedQuery {
        let lookups = query.lookups().iter().zip(lookups);
        let lookups = lookups.map(|(lookup, source)| LookedUp::new(lookup, source)).collect();
        MovedQuery::Rows { query, lookups }
    }

    /// Of groups, if they can be moved.
    pub fn of_groups(query: Arc<dyn UnitQuery>, layout: &Layout) -> Option<MovedQuery> {
        let groups = Groups::of(&*query, layout)?;
        Some(MovedQuery::Groups { query, groups })
    }

    /// The columns of the source that are read.
    pub fn inputs(&self) -> &[ColumnId] {
        match self {
            MovedQuery::Rows { query, .. } => query.inputs(),
            MovedQuery::Groups { query, .. } => match query.inputs() {
                [UnitInput::Table(_, inputs)] => inputs,
                _ => unreachable!("it has one input, a table"),
            },
        }
    }

    pub fn groups(&self) -> Option<&Groups> {
        match self {
            MovedQuery::Rows { .. } => None,
            MovedQuery::Groups { groups, .. } => Some(groups),
        }
    }

    /// The column of the source that one of what it makes is, if it is just that: of a group, if all its rows have it.
    pub fn plain(&self, output: usize, layout: &Layout) -> Option<ColumnId> {
        match self {
            MovedQuery::Rows { query, .. } => query.plain(output),
            MovedQuery::Groups { query, groups } => {
                let (_, column) = query.origin(output)?;
                let is_key = |at: &usize| layout.columns[*at].id == column;
                groups.columns.iter().any(is_key).then_some(column)
            }
        }
    }

    /// The column of the source that one of what it makes is, maybe in another type ([`RowQuery::converted`]).
    pub fn converted(&self, output: usize, layout: &Layout) -> Option<ColumnId> {
        match self {
            MovedQuery::Rows { query, .. } => query.converted(output),
            MovedQuery::Groups { .. } => self.plain(output, layout),
        }
    }
}

/// What is made of rows one by one.
pub(super) fn made_of_rows<'a>(
    query: &dyn RowQuery,
    lookups: &'a [LookedUp],
    at: &Snapshot,
    mut rows: BlockRows,
    readable: &dyn Fn(&'a LazySource) -> &'a dyn Table,
) -> Result<Made, SchemaError> {
    for lookup in lookups {
        rows = lookup.join(readable(&lookup.source), at, rows);
    }
    let made = query.eval(&rows.batch)?;
    let rids = made.rows.iter().map(|&at| rows.rids[at]).collect();
    Ok(Made { rids, columns: made.columns })
}

/// What is made of groups: of each row the number of its group, of each group its first row.
pub(super) fn made_of_groups(
    query: &dyn UnitQuery,
    at: &Snapshot,
    rows: BlockRows,
    (units, first): (Vec<u64>, Vec<RowId>),
    types: &[ColumnType],
) -> Result<Made, SchemaError> {
    // Nothing is asked of it: the query reads no other table.
    let snapshot = Arc::new(Snapshot::new(at.ts, TxnId(0), Box::new(())));
    let rows = Arc::new(SomeRows { parts: vec![(rows.batch, units)], snapshot });
    let (of, columns) = lazy_units::made_of(query, rows, types)?;
    let mut order: Vec<u64> = (0..of.len() as u64).collect();
    order.sort_unstable_by_key(|at| of[*at as usize]);
    let of: Vec<u64> = order.iter().map(|at| of[*at as usize]).collect();
    assert!(of.is_sorted_by(|a, b| a < b), "of a group one row is made, or none [Q2]");
    let order = UInt64Array::from(order);
    let columns = columns.iter().map(|column| take(column, &order, None));
    Ok(Made {
        rids: of.iter().map(|unit| first[*unit as usize]).collect(),
        columns: columns.collect::<Result<_, _>>().expect("there are as many in each"),
    })
}

impl Groups {
    /// Of a query, if it makes one row of each group of a table whose row key begins with what groups are told apart by.
    pub fn of(query: &dyn UnitQuery, layout: &Layout) -> Option<Groups> {
        let [UnitInput::Table(_, read)] = query.inputs() else { return None };
        let row_key = layout.row_key.filter(|_| !query.is_whole())?;
        let index = layout.index_position(row_key.index)?;
        let columns = query.key(0)?;
        let parts = layout.indexes[index].key.get(..columns.len())?;
        let begins = parts.iter().all(|part| columns.contains(&part.column));
        // [Q2]
        let is_one = query.unique()?.iter().all(|output| {
            query.origin(*output).is_some_and(|(_, column)| columns.contains(&column))
        });
        let is_read = parts.iter().all(|part| read.contains(&part.column));
        if columns.is_empty() || !begins || !is_one || !is_read {
            return None;
        }
        let columns = parts.iter().map(|part| layout.position(part.column));
        Some(Groups { index, columns: columns.collect::<Option<_>>()? })
    }

    /// The number of the group of each row, whose inputs were read in lists; and the first row of each group.
    pub fn units(
        &self,
        source: &dyn Table,
        inputs: &[usize],
        (lists, rids): (&[usize], &[RowId]),
        read: &[Row],
    ) -> (Vec<u64>, Vec<RowId>) {
        let places = self.places(inputs);
        let mut numbers: HashMap<(usize, Vec<u8>), u64> = HashMap::new();
        let (mut units, mut first) = (Vec::with_capacity(rids.len()), Vec::new());
        for ((list, rid), row) in lists.iter().zip(rids).zip(read) {
            let group = (*list, self.key(source.layout(), row, &places));
            units.push(*numbers.entry(group).or_insert_with(|| {
                first.push(*rid);
                first.len() as u64 - 1
            }));
        }
        (units, first)
    }

    /// Whether what is made of two of them differs in what is these columns of the source.
    pub fn is_one_by(&self, layout: &Layout, columns: &[ColumnId]) -> bool {
        self.columns.iter().all(|at| columns.contains(&layout.columns[*at].id))
    }

    /// The larger ones of two [Q3].
    pub fn larger<'a>(&'a self, other: &'a Groups) -> &'a Groups {
        if self.columns.len() <= other.columns.len() { self } else { other }
    }

    /// Where what tells groups apart is among some columns.
    fn places(&self, among: &[usize]) -> Vec<usize> {
        let place = |at: &usize| among.iter().position(|other| other == at);
        let places = self.columns.iter().map(place);
        places.collect::<Option<_>>().expect("it is read")
    }

    /// The key of the group of a row, of which it is at some places.
    fn key(&self, layout: &Layout, row: &Row, places: &[usize]) -> Vec<u8> {
        key::encode(places.iter().map(|place| &row[*place]), &layout.indexes[self.index].key)
    }

    /// All rows of some groups, each by itself.
    fn read(
        &self,
        source: &dyn Table,
        view: &Snapshot,
        keys: Vec<Vec<u8>>,
        projection: &[usize],
    ) -> Found {
        let mut found: Found = keys.iter().map(|_| Vec::new()).collect();
        let ranges: Vec<KeyRange> = keys.into_iter().map(KeyRange::prefix).collect();
        source.seek_all(view, self.index, &ranges, projection, &mut |at, rid, row| {
            found[at].push((rid, std::mem::take(row)));
        });
        found
    }

    /// Whether what was asked for has whole groups, in their order: ranges of the first columns do.
    pub fn are_whole_in(&self, which: Which<'_>) -> bool {
        matches!(which, Which::Ranges(index, _) if index == self.index)
    }

    /// The whole groups of which some rows were found, each once in a list and in the order of the row key, with the same
    /// columns.
    pub fn completed(
        &self,
        source: &dyn Table,
        view: &Snapshot,
        found: Found,
        projection: &[usize],
    ) -> Found {
        let places = self.places(projection);
        let mut keys: Vec<(usize, Vec<u8>)> = Vec::new();
        for (list, rows) in found.iter().enumerate() {
            let of_list = rows.iter().map(|(_, row)| self.key(source.layout(), row, &places));
            keys.extend(of_list.map(|key| (list, key)));
        }
        keys.sort_unstable();
        keys.dedup();
        let mut whole: Found = found.iter().map(|_| Vec::new()).collect();
        let (lists, keys): (Vec<usize>, Vec<Vec<u8>>) = keys.into_iter().unzip();
        for (list, rows) in lists.into_iter().zip(self.read(source, view, keys, projection)) {
            whole[list].extend(rows);
        }
        whole
    }

    /// The whole groups that begin in a part of a table.
    pub fn begun_in(
        &self,
        source: &dyn Table,
        view: &Snapshot,
        part: Part,
        projection: &[usize],
    ) -> Part {
        let (places, Part { mut rows, next }) = (self.places(projection), part);
        let key = |(_, row): &(RowId, Row)| self.key(source.layout(), row, &places);
        let Some((first, last)) = rows.first().map(&key).zip(rows.last().map(&key)) else {
            return Part { rows, next };
        };
        let is_one = first == last;
        if self.first(source, view, &first) != Some(rows[0].0) {
            rows.retain(|row| key(row) != first);
            if is_one {
                return Part { rows, next };
            }
        }
        rows.retain(|row| key(row) != last);
        rows.extend(self.read(source, view, vec![last], projection).into_iter().flatten());
        Part { rows, next }
    }

    /// The first row of a group.
    fn first(&self, source: &dyn Table, view: &Snapshot, key: &[u8]) -> Option<RowId> {
        let (mut first, range) = (None, KeyRange::prefix(key.to_vec()));
        source.seek(view, self.index, &range, Direction::Forward, &[], &mut |rid, _| {
            first = Some(rid);
            ControlFlow::Break(())
        });
        first
    }

    /// The keys of the groups of some rows.
    fn keys_of(&self, source: &dyn Table, view: &Snapshot, rows: &[RowId]) -> Vec<Vec<u8>> {
        let (mut keys, places): (Vec<_>, Vec<_>) = (Vec::new(), (0..self.columns.len()).collect());
        source.read_rows(view, rows, &self.columns, &mut |_, row| {
            keys.push(self.key(source.layout(), row, &places));
        });
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The first rows of the groups of some rows: whoever moves one of these wants them, too.
    pub fn firsts_of(&self, source: &dyn Table, view: &Snapshot, rows: &[RowId]) -> Vec<RowId> {
        let keys = self.keys_of(source, view, rows);
        keys.iter().filter_map(|key| self.first(source, view, key)).collect()
    }

    /// The rows of the groups of some rows, as a view sees them.
    pub fn all_of(&self, source: &dyn Table, view: &Snapshot, rows: &[RowId]) -> Vec<RowId> {
        let found = self.read(source, view, self.keys_of(source, view, rows), &[]);
        found.into_iter().flatten().map(|(rid, _)| rid).collect()
    }

    /// Where each group begins and ends among whole rows in the order of the row key.
    pub fn ends(&self, layout: &Layout, rows: &[(RowId, Row)]) -> Vec<Range<usize>> {
        let key = |(_, row): &(RowId, Row)| self.key(layout, row, &self.columns);
        let mut begin = 0;
        let groups = rows.chunk_by(|a, b| key(a) == key(b)).map(|group| {
            let range = begin..begin + group.len();
            begin = range.end;
            range
        });
        groups.collect()
    }
}
