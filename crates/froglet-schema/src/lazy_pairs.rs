//! The lazy driver for a join that is unique on neither side, pair by pair (n:n; BullFrog, section 4.3.6, the
//! third way).
//!
//! ```text
//!   orders (driver)            pairs                 joined
//!   17, day 7, item 3 ──┬────▶ (17, 4) ──▶ query ──▶ (17, day 7, 'bolt', red)
//!   18, day 7, item 3   │      (17, 5)               to be made
//!                       │      (18, 4)               to be made
//!   items               │
//!   4, item 3, red ─────┘
//!   5, item 3, blue
//! ```
//!
//! The unit is a row of one side and one of the other that the join brings together, so that a key that
//! a thousand rows of each side have is a million units, not one. Which are made is known by their row ids
//! (`pair_tracker.rs`); a lookup goes to those that its key leaves (`pair_route.rs`). Rows that are made have
//! places of their own, and who reads all rows makes all rows, as in `lazy_units.rs`.
//!
//! K2: a pair makes at most one row, and each row is made of one pair: the join is inner, and what is above
//!     it looks at one row at a time.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::key::{self, ASCENDING, KeyColumns};
use froglet_engine::{
    ColumnId, ColumnType, CrashPoint, Direction, Engine, IndexSpec, KeyRange, Layout, Row, RowId,
    Snapshot, Table, TxnId, Value, batch,
};

use crate::background::Background;
use crate::change::RowQuery;
use crate::course::{Course, Who};
use crate::def::{ObjectId, TableDef};
use crate::error::SchemaError;
use crate::lazy::{
    Columns, LazyDef, LazyMigration, LazySource, LazyState, batch_with, whole_columns,
};
use crate::lazy_placed::{LazyPlaced, OwnRows, PlacedTable, install_placed};
use crate::pair_route::{Found, PairRoute, Wanted};
use crate::pair_tracker::{Pair, PairTracker};
use crate::rows::{read_rows, types_of};
use crate::status::Detection;
use crate::step::positions;

/// Pairs that are made at once.
const PAIRS_AT_ONCE: usize = 1024;
/// Pairs that the background installs at once: somebody may wait for one of them.
const INSTALLED_AT_ONCE: usize = 256;
/// Keys whose rows of the other side are made at once, if they are only made as they are read.
const KEYS_AT_ONCE: usize = 64;
/// A lookup of more pairs makes some before it looks for others.
const PAIRS_LISTED: usize = 1 << 16;

/// One lazy migration whose units are pairs of rows.
pub(crate) struct LazyPairs {
    pub state: LazyState,
    query: Arc<dyn RowQuery>,
    /// The driver, and the other.
    sides: [Side; 2],
    live: OnceLock<Live>,
    own: OwnRows,
}

/// A table of the join.
struct Side {
    source: LazySource,
    /// Layout positions of the columns that the query reads.
    columns: Vec<usize>,
    /// Layout positions of the columns in which it is equal to the other.
    key: Vec<usize>,
}

struct Live {
    engine: Arc<dyn Engine>,
    tracker: Arc<PairTracker>,
    rows: AtomicU64,
    target: Arc<dyn Table>,
    /// Of the target's layout.
    types: Vec<ColumnType>,
    columns: Columns,
}

/// Both sides as somebody reads them.
struct View<'a> {
    tables: [&'a dyn Table; 2],
    at: &'a Snapshot,
}

/// What the query has made of some pairs, ascending.
struct MadePairs {
    pairs: Vec<Pair>,
    /// The pair of each row, by its place among those.
    of: Vec<usize>,
    columns: Vec<ArrayRef>,
}

/// Rows of the driver with the values that they have in common with the others.
type OfKey = (Vec<Value>, Vec<RowId>);

/// Whether SQL takes values of two rows for the same.
fn is_one_key(a: &[Value], b: &[Value]) -> bool {
    a.iter().zip(b).all(|(a, b)| key::equal(a, b))
}

impl Side {
    /// Where the rows are that have these values in the join's columns.
    fn range_of(&self, key: &[Value]) -> (usize, KeyRange) {
        let known: Vec<(usize, &Value)> = self.key.iter().copied().zip(key).collect();
        let found = Found::of(self.source.table.layout(), &known);
        let found = found.expect("an index begins with a column of the join");
        (found.index, KeyRange::prefix(found.key))
    }

    fn has_way(&self) -> bool {
        let layout = self.source.table.layout();
        let is_key = |first: usize| self.key.contains(&first);
        layout.indexes.iter().any(|index| layout.key_positions(index).next().is_some_and(is_key))
    }
}

impl LazyPairs {
    /// Whether the partners of a row can be found on both sides, by indexes that the tables have.
    pub fn has_way(
        source: ObjectId,
        query: &dyn RowQuery,
        layout: &dyn Fn(ObjectId) -> Option<Arc<Layout>>,
    ) -> bool {
        let [lookup] = query.lookups() else { return false };
        let of_driver = lookup.key.iter().map(|(at, _)| query.inputs()[*at]).collect::<Vec<_>>();
        let of_other = lookup.key.iter().map(|(_, column)| *column).collect::<Vec<_>>();
        let begins = |table, key: &[ColumnId]| {
            let first = |index: &IndexSpec| Some(index.key.first()?.column);
            layout(table).is_some_and(|layout| {
                layout.indexes.iter().filter_map(first).any(|column| key.contains(&column))
            })
        };
        begins(source, &of_driver) && begins(lookup.table, &of_other)
    }

    /// A migration of a table that is not committed; `None` if a side's partners cannot be found.
    pub fn new(
        def: LazyDef,
        target: &TableDef,
        owner: TxnId,
        sources: Vec<LazySource>,
        query: Arc<dyn RowQuery>,
    ) -> Option<LazyPairs> {
        let [driver, other]: [LazySource; 2] = sources.try_into().ok()?;
        let [lookup] = query.lookups() else { return None };
        let inputs = query.inputs();
        let of_driver: Vec<ColumnId> = lookup.key.iter().map(|(at, _)| inputs[*at]).collect();
        let of_other: Vec<ColumnId> = lookup.key.iter().map(|(_, column)| *column).collect();
        let side = |source: LazySource, columns: &[ColumnId], key: &[ColumnId]| Side {
            columns: positions(&*source.table, columns),
            key: positions(&*source.table, key),
            source,
        };
        let sides = [side(driver, inputs, &of_driver), side(other, &lookup.columns, &of_other)];
        if !sides.iter().all(Side::has_way) {
            return None;
        }
        let state = LazyState::new(def, target, owner);
        Some(LazyPairs { state, query, sides, live: OnceLock::new(), own: OwnRows::default() })
    }

    fn live(&self) -> &Live {
        self.live.get().expect("a table that others have is committed")
    }

    /// The view of the sources as of the commit.
    fn at(&self) -> Arc<Snapshot> {
        self.state.kept(&*self.live().engine)
    }

    fn view<'a>(&'a self, at: &'a Snapshot) -> View<'a> {
        View { tables: std::array::from_fn(|side| &*self.sides[side].source.table), at }
    }

    fn layouts(&self) -> [&Layout; 2] {
        std::array::from_fn(|side| &**self.sides[side].source.table.layout())
    }

    /// The column of a side that a column of the target is.
    fn plain(&self, id: ColumnId, side: usize) -> Option<ColumnId> {
        let output = self.state.output(id)?;
        if side == 0 { self.query.plain(output) } else { self.query.looked_up(output) }
    }

    /// Makes the pairs that may be in what is wanted, beginning with those rows of a side.
    fn migrate_wanted(&self, route: &PairRoute, wanted: &Wanted) -> Result<(), SchemaError> {
        let (live, at) = (self.live(), &*self.at());
        let (begin, end) = (wanted.begin, 1 - wanted.begin);
        let width = self.sides[begin].key.len();
        let read = |side: usize| [self.sides[side].key.as_slice(), &route.places[side]].concat();
        let mut rows = Vec::new();
        let mut visit = |rid: RowId, row: &mut Row| {
            let is_left = begin == 1 || !live.tracker.rows().is_migrated(rid);
            let is_joined = !row[..width].iter().any(Value::is_null);
            if is_left && is_joined && route.fits(wanted, begin, &row[width..]) {
                rows.push((rid, std::mem::take(row)));
            }
            ControlFlow::Continue(())
        };
        let (table, range) = (&self.sides[begin].source.table, &wanted.range);
        table.seek(at, wanted.index, range, Direction::Forward, &read(begin), &mut visit);

        let (other, projection) = (&self.sides[end], read(end));
        let (mut pairs, mut whole) = (Vec::new(), Vec::new());
        for (rid, row) in rows {
            let (key, own) = row.split_at(width);
            let is_alone = begin == 0 && route.is_of(0);
            if is_alone && !route.holds(wanted, [own, &[]]) {
                continue;
            }
            let known: Vec<(usize, &Value)> = other.key.iter().copied().zip(key).collect();
            let table = &other.source.table;
            let (index, range) = route
                .partners(wanted, end, table.layout(), &known)
                .expect("an index begins with a column of the join");
            let mut visit = |partner: RowId, found: &mut Row| {
                let (other_key, values) = found.split_at(width);
                let values = if begin == 0 { [own, values] } else { [values, own] };
                let pair = if begin == 0 { (rid, partner) } else { (partner, rid) };
                if is_one_key(other_key, key)
                    && route.fits(wanted, end, &found[width..])
                    && route.holds(wanted, values)
                    && !live.tracker.is_migrated(pair)
                {
                    pairs.push(pair);
                }
                ControlFlow::Continue(())
            };
            table.seek(at, index, &range, Direction::Forward, &projection, &mut visit);
            if is_alone {
                whole.push(rid);
            }
            if pairs.len() >= PAIRS_LISTED {
                self.migrate(&mut pairs, &mut whole)?;
            }
        }
        self.migrate(&mut pairs, &mut whole)
    }

    /// Makes sure that pairs are made, and that rows of the driver are known to have no others.
    fn migrate(&self, pairs: &mut Vec<Pair>, whole: &mut Vec<RowId>) -> Result<(), SchemaError> {
        let at = self.at();
        pairs.sort_unstable();
        for some in pairs.chunks(PAIRS_AT_ONCE) {
            match self.state.def.detection {
                Detection::Tracker => {
                    self.install(some, Who::Access, &|pairs| {
                        Ok(self.whole(&self.make(&self.view(&at), pairs)?))
                    })?;
                }
                Detection::OnConflict => {
                    let made = self.make(&self.view(&at), some)?;
                    let rows = self.whole(&made);
                    self.install(some, Who::Access, &|claimed| Ok(made.only(&rows, claimed)))?;
                }
            }
        }
        pairs.clear();
        whole.drain(..).for_each(|row| self.live().tracker.complete(row));
        Ok(())
    }

    /// Claims pairs, ascending, and installs what `made` says is made of them.
    fn install(
        &self,
        pairs: &[Pair],
        who: Who,
        made: &dyn Fn(&[Pair]) -> Result<RecordBatch, SchemaError>,
    ) -> Result<(), SchemaError> {
        let live = self.live();
        let mut wanted = pairs.to_vec();
        while !wanted.is_empty() {
            let (mut claims, others) = live.tracker.claim_all(&wanted);
            if !claims.pairs().is_empty() {
                let rows = made(claims.pairs())?;
                CrashPoint::LazyMade.reached();
                let note = claims.note();
                install_placed(&*live.target, &live.types, &rows, &note, &mut || claims.done())?;
                self.state.course.count(who, rows.num_rows());
                live.rows.fetch_add(rows.num_rows() as u64, Ordering::Relaxed);
                CrashPoint::LazyInstalled.reached();
            }
            drop(claims);
            others.iter().for_each(|pair| live.tracker.wait(*pair));
            // What others have given up is ours now.
            wanted = others;
        }
        Ok(())
    }

    /// What the query makes of some pairs, ascending.
    fn make(&self, view: &View<'_>, pairs: &[Pair]) -> Result<MadePairs, SchemaError> {
        let mut columns = Vec::new();
        for side in 0..2 {
            let of_side = |pair: &Pair| if side == 0 { pair.0 } else { pair.1 };
            let mut rids: Vec<RowId> = pairs.iter().map(of_side).collect();
            rids.sort_unstable();
            rids.dedup();
            let read = read_rows(view.tables[side], view.at, &rids, &self.sides[side].columns);
            assert_eq!(read.rids.len(), rids.len(), "a row of a pair is there as of the commit");
            let place =
                |pair: &Pair| rids.binary_search(&of_side(pair)).expect("just listed") as u32;
            let places: UInt32Array = pairs.iter().map(place).collect::<Vec<u32>>().into();
            let taken = read.batch.columns().iter().map(|column| take(column, &places, None));
            columns.extend(taken.map(|column| column.expect("each pair has its row")));
        }
        let made = self.query.eval(&batch_with(columns, pairs.len()))?;
        Ok(MadePairs { pairs: pairs.to_vec(), of: made.rows, columns: made.columns })
    }

    /// What was made, in the columns of the target.
    fn whole(&self, made: &MadePairs) -> RecordBatch {
        let live = self.live();
        live.columns.whole(live.target.layout(), &made.columns, made.of.len())
    }

    /// The rows of the driver in a block that are left, by their key.
    fn left_by_key(&self, view: &View<'_>, block: u32) -> Result<Vec<OfKey>, SchemaError> {
        let key = &self.sides[0].key;
        let types = types_of(view.tables[0], key);
        let read = view.tables[0].read_block(view.at, block, key)?;
        let cells = read.batch.columns().iter().zip(&types);
        let keys = KeyColumns::new(cells.map(|(column, ty)| (ASCENDING, column, *ty)));
        let mut by_key: BTreeMap<Vec<u8>, OfKey> = BTreeMap::new();
        let is_left =
            |rid: RowId| !self.live.get().is_some_and(|l| l.tracker.rows().is_migrated(rid));
        for (at, rid) in read.rids.iter().enumerate().filter(|(_, rid)| is_left(**rid)) {
            let mut encoded = Vec::new();
            if !keys.append(at, &mut encoded) {
                let values = || crate::rows::row_at(read.batch.columns(), &types, at);
                by_key.entry(encoded).or_insert_with(|| (values(), Vec::new())).1.push(*rid);
            }
        }
        Ok(by_key.into_values().collect())
    }

    /// The rows of the driver that have a key, of each of some keys, with those of the other side.
    fn with_partners<'a>(
        &'a self,
        view: &'a View<'_>,
        by_key: &'a [OfKey],
    ) -> impl Iterator<Item = (&'a [RowId], Vec<RowId>)> {
        // What is made as it is read is made of several at once. Otherwise one key's are enough to remember.
        let is_made = self.sides[1].source.made_by.is_some();
        by_key.chunks(if is_made { KEYS_AT_ONCE } else { 1 }).flat_map(move |keys| {
            let rows = keys.iter().map(|(_, rows)| &**rows);
            rows.zip(self.partners(view, keys))
        })
    }

    /// The rows of the other side that have a key, ascending: of each of some keys.
    fn partners(&self, view: &View<'_>, keys: &[OfKey]) -> Vec<Vec<RowId>> {
        let ranges = keys.iter().map(|(key, _)| self.sides[1].range_of(key));
        let (indexes, ranges): (Vec<usize>, Vec<KeyRange>) = ranges.unzip();
        let mut partners = vec![Vec::new(); keys.len()];
        let columns = &self.sides[1].key;
        view.tables[1].seek_all(view.at, indexes[0], &ranges, columns, &mut |number, rid, row| {
            if is_one_key(row, &keys[number].0) {
                partners[number].push(rid);
            }
        });
        partners.iter_mut().for_each(|partners| partners.sort_unstable());
        partners
    }

    /// Makes pairs while nobody waits, and installs them a few at a time. Returns false if it is not to go on.
    fn pass(
        &self,
        view: &View<'_>,
        pairs: &mut Vec<Pair>,
        who: Who,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, SchemaError> {
        pairs.sort_unstable();
        for some in pairs.chunks(PAIRS_AT_ONCE) {
            // Somebody may have wanted all of them since they were listed.
            let is_left = |pair: &&Pair| !self.live().tracker.is_migrated(**pair);
            let left: Vec<Pair> = some.iter().filter(is_left).copied().collect();
            if left.is_empty() {
                continue;
            }
            let made = self.make(view, &left)?;
            let rows = self.whole(&made);
            for few in left.chunks(INSTALLED_AT_ONCE) {
                self.install(few, who, &|claimed| Ok(made.only(&rows, claimed)))?;
                if !goes_on() {
                    return Ok(false);
                }
            }
        }
        pairs.clear();
        Ok(true)
    }
}

impl MadePairs {
    /// The rows that are made of some of the pairs, ascending.
    fn only(&self, rows: &RecordBatch, some: &[Pair]) -> RecordBatch {
        if some.len() == self.pairs.len() {
            return rows.clone();
        }
        let is_of = |of: &usize| Some(some.binary_search(&self.pairs[*of]).is_ok());
        let is_of: BooleanArray = self.of.iter().map(is_of).collect();
        filter_record_batch(rows, &is_of).expect("there is a flag for each row")
    }
}

impl LazyPlaced for LazyPairs {
    type Route = PairRoute;

    fn routes(&self, layout: &Layout) -> Vec<Option<PairRoute>> {
        let plain = |id: ColumnId, side: usize| self.plain(id, side);
        let sides = self.layouts();
        layout.indexes.iter().map(|i| PairRoute::of(&i.key, layout, sides, plain)).collect()
    }

    fn migrate_range(&self, route: &PairRoute, range: &KeyRange) -> Result<bool, SchemaError> {
        let Some(wanted) = route.wanted(range, self.layouts()) else { return Ok(false) };
        self.migrate_wanted(route, &wanted)?;
        Ok(true)
    }

    fn own_rows(&self, snapshot: &Arc<Snapshot>) -> Result<Arc<Vec<RecordBatch>>, SchemaError> {
        self.own.as_of(snapshot.ts, || {
            let tables = std::array::from_fn(|side| &*self.sides[side].source.seen);
            let view = View { tables, at: snapshot };
            let (mut made, mut rows) = (vec![Vec::new(); self.state.def.outputs.len()], 0);
            for block in 0..view.tables[0].block_count() {
                let by_key = self.left_by_key(&view, block)?;
                for (rids, partners) in self.with_partners(&view, &by_key) {
                    let pairs = rids.iter().flat_map(|r| partners.iter().map(move |p| (*r, *p)));
                    for some in pairs.collect::<Vec<Pair>>().chunks(PAIRS_AT_ONCE) {
                        let some = self.make(&view, some)?;
                        rows += some.of.len();
                        let columns = made.iter_mut().zip(some.columns);
                        columns.for_each(|(parts, column)| parts.push(column));
                    }
                }
            }
            Ok(batch_with(whole_columns(&made, &self.state.output_types), rows))
        })
    }

    fn blocks_of_inputs(&self) -> u32 {
        self.sides.iter().map(|side| side.source.seen.block_count()).sum()
    }
}

impl Background for LazyPairs {
    fn course(&self) -> &Course {
        &self.state.course
    }

    fn struck_from(&self, def: &TableDef) -> Option<TableDef> {
        self.state.struck_from(def)
    }

    fn is_complete(&self) -> bool {
        self.live.get().is_some_and(|live| live.tracker.rows().is_complete())
    }

    fn blocks(&self) -> u32 {
        self.live.get().map_or(0, |live| live.tracker.rows().blocks())
    }

    fn migrate_block(
        &self,
        block: u32,
        who: Who,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), SchemaError> {
        let (live, at) = (self.live(), self.at());
        if live.tracker.rows().is_block_migrated(block) {
            return Ok(());
        }
        let view = self.view(&at);
        let (mut pairs, mut whole) = (Vec::new(), Vec::new());
        let by_key = self.left_by_key(&view, block)?;
        for (rows, partners) in self.with_partners(&view, &by_key) {
            for &row in rows {
                let all = partners.iter().map(|partner| (row, *partner));
                pairs.extend(all.filter(|pair| !live.tracker.is_migrated(*pair)));
                whole.push(row);
                if pairs.len() >= PAIRS_AT_ONCE {
                    if !self.pass(&view, &mut pairs, who, goes_on)? {
                        return Ok(());
                    }
                    whole.drain(..).for_each(|row| live.tracker.complete(row));
                }
            }
        }
        if !self.pass(&view, &mut pairs, who, goes_on)? {
            return Ok(());
        }
        // Of the rows that are left in the block nothing is made.
        let rows = live.tracker.rows();
        let left = rows.left_in(block);
        whole.drain(..).for_each(|row| live.tracker.complete(row));
        let (none, note) = (batch::batch_of(&live.types, &[]), live.tracker.note_of_block(block));
        // Somebody else may be as far as this: the block is done when he is, too.
        rows.migrate_all(left, &mut |claims| {
            install_placed(&*live.target, &live.types, &none, &note, &mut || claims.done())
        })
    }
}

impl LazyMigration for LazyPairs {
    fn state(&self) -> &LazyState {
        &self.state
    }

    fn source_blocks(&self) -> u32 {
        self.sides[0].source.table.block_count()
    }

    fn go_live(
        &self,
        engine: Arc<dyn Engine>,
        target: Arc<dyn Table>,
        blocks: u32,
    ) -> Result<(), SchemaError> {
        let tracker = Arc::new(PairTracker::new(blocks));
        for note in target.follow_installs(tracker.clone()) {
            tracker.mark(&note).map_err(|_| self.state.broken())?;
        }
        let live = Live {
            engine,
            tracker,
            rows: AtomicU64::new(0),
            types: target.layout().columns.iter().map(|column| column.ty).collect(),
            columns: Columns::of(target.layout(), &self.state.def.outputs),
            target,
        };
        self.own.clear();
        assert!(self.live.set(live).is_ok(), "a migration is committed once");
        Ok(())
    }

    fn is_live(&self) -> bool {
        self.live.get().is_some()
    }

    fn progress(&self) -> (u64, u64) {
        let (done, of) = self.live.get().map_or((0, 0), |live| live.tracker.rows().progress());
        (done / ROWS_PER_BLOCK as u64, of / ROWS_PER_BLOCK as u64)
    }

    fn rows_left(&self) -> u64 {
        let Some(live) = self.live.get() else { return 0 };
        let (done, of) = live.tracker.rows().progress();
        let rows = live.rows.load(Ordering::Relaxed);
        // As many for each row as so far.
        (rows * (of - done)).checked_div(done).unwrap_or(0)
    }

    fn origin(&self, id: ColumnId) -> Option<(usize, ColumnId)> {
        [0, 1].into_iter().find_map(|side| Some((side, self.plain(id, side)?)))
    }

    fn is_unique(&self, columns: &[ColumnId]) -> bool {
        let sources: Vec<&TableDef> = self.state.def.sources().collect();
        // Who knows a row of each side knows the pair [K2].
        (0..2).all(|side| {
            let of: Vec<ColumnId> = columns.iter().filter_map(|id| self.plain(*id, side)).collect();
            sources[side].is_unique_by(&of)
        })
    }

    fn over(self: Arc<Self>, table: Arc<dyn Table>) -> Arc<dyn Table> {
        PlacedTable::over(table, self)
    }
}
