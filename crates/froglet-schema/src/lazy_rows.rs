//! The lazy driver, row by row: the unit is a row of the source, of which the query makes one row or none
//! (BullFrog, 1:1 and 1:n).
//!
//! ```text
//!   source, block b            tracker            target, block b
//!   slot 0 ──▶ query ──▶       10  migrated       row 0
//!   slot 1 ──▶ query    –      10                 no row, a free place
//!   slot 2                     00  left           to be row 2, or none
//! ```
//!
//! The row that is made has its source's row id: so a row of the target says of which it is made, a block of
//! the target what it lacks, and a row is never made twice. What is left can be read without migrating it [L1].

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Deref};
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, BooleanArray};
use arrow_select::filter::filter_record_batch;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::key::KeyColumns;
use froglet_engine::{
    BlockRows, ColumnId, ColumnType, CrashPoint, Direction, Engine, EngineError, IndexSpec,
    Install, KeyPart, KeyRange, Layout, Row, RowId, Snapshot, Table, TxnId, Value, batch, key,
};

use crate::background::Background;
use crate::change::{Lookup, RowQuery};
use crate::course::{Course, Who};
use crate::def::TableDef;
use crate::error::SchemaError;
use crate::lazy::{
    Columns, LazyDef, LazyMigration, LazySource, LazyState, as_engine, batch_with, made,
};
use crate::lazy_table::LazyTable;
use crate::route::Route;
use crate::rows::{differing, made_of, read_rows, row_at, types_of, values_of};
use crate::status::Detection;
use crate::step::positions;
use crate::tracker::{Granule, Slots, Tracker};

/// With more of a block's rows than this, all of it is read.
const BLOCK_IS_READ_AT: usize = ROWS_PER_BLOCK / 16;
/// Index entries that are looked at for rows that are left, before rows are.
const ENTRIES_ASKED: usize = 1024;
/// Keys of two integers are not longer.
const SHORT_KEY_BYTES: usize = 18;
/// Of rows that are read without being migrated, so much is made at once.
const READ_BYTES: usize = 1 << 20;
/// Rows that the background installs at once: somebody may wait for one of them.
const INSTALLED_AT_ONCE: usize = 256;

/// A lazy migration whose units are rows of a table.
pub struct LazyRows {
    pub(crate) state: LazyState,
    source: LazySource,
    /// Layout positions of the query's inputs in the source.
    inputs: Vec<usize>,
    lookups: Vec<LookedUp>,
    query: Arc<dyn RowQuery>,
    /// From the commit on.
    live: OnceLock<Live>,
}

/// A table whose rows go with those of the source, or with rows looked up before.
pub(crate) struct LookedUp {
    pub source: LazySource,
    /// Layout position of the index of its key.
    index: usize,
    parts: Vec<KeyPart>,
    /// Places of the key's values in the row so far, with their types.
    places: Vec<(usize, ColumnType)>,
    /// Layout positions of the columns that are appended.
    columns: Vec<usize>,
}

impl LookedUp {
    pub fn new(lookup: &Lookup, source: LazySource) -> LookedUp {
        let layout = source.table.layout();
        let is_key = |index: &&IndexSpec| {
            let columns = index.key.iter().map(|part| part.column);
            index.unique && columns.eq(lookup.key.iter().map(|(_, column)| *column))
        };
        let index = layout.indexes.iter().find(is_key).expect("a lookup is by a unique key");
        let ty = |id| layout.columns[layout.position(id).expect("a key's column")].ty;
        LookedUp {
            index: layout.index_position(index.id).expect("just found"),
            parts: index.key.clone(),
            places: lookup.key.iter().map(|(place, id)| (*place, ty(*id))).collect(),
            columns: positions(&*source.table, &lookup.columns),
            source,
        }
    }

    /// Appends to a row the columns of that which goes with it; false if there is none.
    fn append(&self, table: &dyn Table, at: &Snapshot, row: &mut Row) -> bool {
        let mut key = Vec::with_capacity(SHORT_KEY_BYTES);
        for (part, (place, _)) in self.parts.iter().zip(&self.places) {
            if row[*place].is_null() {
                return false;
            }
            key::encode_part(&mut key, &row[*place], part);
        }
        table.get_by_key(at, self.index, &key, &self.columns, row).is_some()
    }

    /// Appends to rows the columns of those that go with them, and leaves out those without.
    pub fn join(&self, table: &dyn Table, at: &Snapshot, read: BlockRows) -> BlockRows {
        let types = types_of(table, &self.columns);
        let cells = self.parts.iter().zip(&self.places);
        let cells = cells.map(|(part, (place, ty))| (*part, read.batch.column(*place), *ty));
        let keys = KeyColumns::new(cells);
        let mut others: Vec<Option<Row>> = vec![None; read.rids.len()];
        let (mut wanted, mut ranges, mut key) = (Vec::new(), Vec::new(), Vec::new());
        for (row, other) in others.iter_mut().enumerate() {
            key.clear();
            if keys.append(row, &mut key) {
                continue;
            }
            if self.source.made_by.is_some() {
                wanted.push(row);
                ranges.push(KeyRange::exactly(&key));
                continue;
            }
            let mut found = Row::new();
            let is_found =
                table.get_by_key(at, self.index, &key, &self.columns, &mut found).is_some();
            *other = is_found.then_some(found);
        }
        // What is made of other rows as it is read is made of all of them at once.
        table.seek_all(at, self.index, &ranges, &self.columns, &mut |number, _, row| {
            others[wanted[number]].get_or_insert_with(|| std::mem::take(row));
        });
        let read = only(read, &others.iter().map(|other| Some(other.is_some())).collect());
        let found: Vec<Row> = others.into_iter().flatten().collect();
        let appended = batch::batch_of(&types, &found);
        let columns = read.batch.columns().iter().chain(appended.columns()).cloned().collect();
        BlockRows { batch: batch_with(columns, read.rids.len()), rids: read.rids }
    }
}

/// Those of some rows.
fn only(read: BlockRows, flags: &BooleanArray) -> BlockRows {
    if flags.true_count() == read.rids.len() {
        return read;
    }
    let found = read.rids.iter().zip(flags.values());
    BlockRows {
        rids: found.filter(|(_, stays)| *stays).map(|(rid, _)| *rid).collect(),
        batch: filter_record_batch(&read.batch, flags).expect("there is a flag for each row"),
    }
}

/// A view of sources.
enum View<'a> {
    Kept(Arc<Snapshot>),
    Own(&'a Snapshot),
}

impl Deref for View<'_> {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        match self {
            View::Kept(kept) => kept,
            View::Own(own) => own,
        }
    }
}

/// What there is from the commit on.
struct Live {
    /// Keeps the sources as of then.
    engine: Arc<dyn Engine>,
    tracker: Arc<Tracker>,
    /// Where rows are installed, with every index.
    target: Arc<dyn Table>,
    columns: Columns,
    /// Of the target's layout: all its places, and their types.
    all: Vec<usize>,
    types: Vec<ColumnType>,
}

/// Rows of the target, by their ids, ascending.
struct Rows {
    rids: Vec<RowId>,
    /// Row by row.
    values: Vec<Value>,
}

impl Rows {
    /// Those of some rows.
    fn of(&self, rows: &[RowId]) -> Rows {
        let width = self.values.len() / self.rids.len().max(1);
        let mut some = Rows { rids: Vec::with_capacity(rows.len()), values: Vec::new() };
        for row in rows {
            if let Ok(at) = self.rids.binary_search(row) {
                some.rids.push(*row);
                some.values.extend_from_slice(&self.values[at * width..(at + 1) * width]);
            }
        }
        some
    }
}

/// Rows that the query has made of rows of the source, by their ids, ascending.
struct Made {
    rids: Vec<RowId>,
    columns: Vec<ArrayRef>,
}

impl LazyRows {
    /// A migration of a table that is not committed.
    pub(crate) fn new(
        def: LazyDef,
        target: &TableDef,
        owner: TxnId,
        sources: Vec<LazySource>,
        query: Arc<dyn RowQuery>,
    ) -> LazyRows {
        let mut sources = sources.into_iter();
        let source = sources.next().expect("a query has a source");
        let lookups = query.lookups().iter().zip(sources);
        LazyRows {
            inputs: positions(&*source.table, query.inputs()),
            lookups: lookups.map(|(lookup, source)| LookedUp::new(lookup, source)).collect(),
            state: LazyState::new(def, target, owner),
            source,
            query,
            live: OnceLock::new(),
        }
    }

    fn live(&self) -> &Live {
        self.live.get().expect("a table that others have is committed")
    }

    /// The plain column of the source that a column of the target is.
    fn plain(&self, id: ColumnId) -> Option<ColumnId> {
        self.query.plain(self.state.output(id)?)
    }

    /// The way from each index of a layout of the target.
    pub(crate) fn routes(&self, layout: &Layout) -> Vec<Option<Route>> {
        Route::of_each(layout, self.source.table.layout(), |id| self.plain(id))
    }

    /// The view of the sources as of the commit; before it, a reader's own.
    fn view<'a>(&self, snapshot: &'a Snapshot) -> View<'a> {
        match self.live.get() {
            Some(_) => View::Kept(self.at()),
            None => View::Own(snapshot),
        }
    }

    fn at(&self) -> Arc<Snapshot> {
        self.state.kept(&*self.live().engine)
    }

    /// A source as whoever reads it now has it.
    fn readable<'a>(&'a self, source: &'a LazySource) -> &'a dyn Table {
        if self.is_live() { &*source.table } else { &*source.seen }
    }

    /// The rows of a block that are not migrated; none, if all are. To be asked after the view was taken
    /// in which it is read [L1].
    pub(crate) fn left_in(&self, block: u32) -> Option<Left> {
        match self.live.get() {
            Some(live) => live.tracker.slots_left_in(block).map(Left::Some),
            None => Some(Left::All),
        }
    }

    /// Whether a row is migrated, or was never to be.
    pub(crate) fn is_migrated(&self, row: RowId) -> bool {
        self.live.get().is_some_and(|live| live.tracker.is_migrated(row))
    }

    /// What the query makes of rows of the source, with those of the others that `at` sees.
    fn eval(&self, at: &Snapshot, mut read: BlockRows) -> Result<Made, SchemaError> {
        for lookup in &self.lookups {
            read = lookup.join(self.readable(&lookup.source), at, read);
        }
        let made = self.query.eval(&read.batch)?;
        let rids = made.rows.iter().map(|&at| read.rids[at]).collect();
        Ok(Made { rids, columns: made.columns })
    }

    /// Appends to a row of the source those that go with it; false if there is not one of each.
    fn append_others(&self, at: &Snapshot, row: &mut Row) -> bool {
        self.lookups.iter().all(|other| other.append(self.readable(&other.source), at, row))
    }

    /// What the query makes of rows of the source, ascending, in the columns of the target.
    fn make(&self, rows: &[RowId]) -> Result<Rows, SchemaError> {
        let Live { target, columns, all, types, .. } = self.live();
        let at = self.at();
        let Some(copies) = self.query.copies() else {
            let (first, last) = (rows[0].block(), rows[rows.len() - 1].block());
            let made = if first == last && rows.len() >= BLOCK_IS_READ_AT {
                self.make_some(&at, first, |rid| rows.binary_search(&rid).is_ok())?
            } else {
                self.eval(&at, read_rows(&*self.source.table, &at, rows, &self.inputs))?
            };
            let batch = columns.whole(target.layout(), &made.columns, made.rids.len());
            let values = values_of(batch.columns(), types, made.rids.len());
            return Ok(Rows { rids: made.rids, values });
        };
        let mut rids = Vec::with_capacity(rows.len());
        let mut values = Vec::with_capacity(rows.len() * all.len());
        self.source.table.read_rows(&at, rows, &self.inputs, &mut |rid, row| {
            if self.append_others(&at, row) {
                rids.push(rid);
                columns.append(all, |output| row[copies[output]].clone(), &mut values);
            }
        });
        Ok(Rows { rids, values })
    }

    /// What the query makes of the rows of a block that `snapshot` has not found in the target, and that
    /// `wanted` chooses.
    fn make_some(
        &self,
        snapshot: &Snapshot,
        block: u32,
        wanted: impl Fn(RowId) -> bool,
    ) -> Result<Made, SchemaError> {
        let (source, at) = (self.readable(&self.source), &*self.view(snapshot));
        let read = source.read_block(at, block, &self.inputs)?;
        let is_wanted: BooleanArray = read.rids.iter().map(|rid| Some(wanted(*rid))).collect();
        self.eval(at, only(read, &is_wanted))
    }

    /// Reads the rows of a block that are left, without migrating them, as a layout of the target has them.
    pub(crate) fn read_left(
        &self,
        snapshot: &Snapshot,
        block: u32,
        left: &Left,
        (layout, columns, places): (&Layout, &Columns, &[usize]),
    ) -> Result<BlockRows, EngineError> {
        let made = self.make_some(snapshot, block, |rid| left.contains(rid.slot()));
        let Made { rids, columns: made } = made.map_err(|e| as_engine(&e))?;
        let batch = columns.project(layout, places, &made, rids.len());
        Ok(BlockRows { rids, batch })
    }

    /// Reads rows that are left in the same way: those of which a row is made, in the order given.
    pub(crate) fn read_rows_left(
        &self,
        snapshot: &Snapshot,
        rows: &[RowId],
        (layout, columns, places): (&Layout, &Columns, &[usize]),
    ) -> BlockRows {
        let at = &*self.view(snapshot);
        let read = read_rows(self.readable(&self.source), at, rows, &self.inputs);
        let Made { rids, columns: made } = made(self.eval(at, read));
        let batch = columns.project(layout, places, &made, rids.len());
        BlockRows { rids, batch }
    }

    /// Reads a row that is left in the same way.
    pub(crate) fn read_one_left(
        &self,
        snapshot: &Snapshot,
        row: RowId,
        shape: (&Layout, &Columns, &[usize]),
        out: &mut Row,
    ) -> bool {
        let (layout, columns, places) = shape;
        if let Some(copies) = self.query.copies() {
            let (at, mut read) = (&*self.view(snapshot), Row::new());
            let is_there = self.readable(&self.source).read_row(at, row, &self.inputs, &mut read)
                && self.append_others(at, &mut read);
            if is_there {
                columns.append(places, |output| read[copies[output]].clone(), out);
            }
            return is_there;
        }
        let read = self.read_rows_left(snapshot, &[row], shape);
        if read.rids.is_empty() {
            return false;
        }
        let values = places.iter().zip(read.batch.columns());
        out.extend(values.map(|(at, array)| batch::value_at(array, 0, layout.columns[*at].ty)));
        true
    }

    /// Reads the rows that are left of which those of the target in ranges of a key are made, in the same way,
    /// and maybe others; and says which they are, of each range.
    pub(crate) fn read_ranges_left(
        &self,
        snapshot: &Snapshot,
        route: &Route,
        ranges: &[KeyRange],
        (layout, columns, places): (&Layout, &Columns, &[usize]),
    ) -> (HashMap<RowId, Row>, Vec<Vec<RowId>>) {
        let (source, at) = (self.readable(&self.source), &*self.view(snapshot));
        let ranges: Vec<KeyRange> = ranges.iter().map(|range| route.range(range)).collect();
        let types: Vec<ColumnType> = places.iter().map(|at| layout.columns[*at].ty).collect();
        let inputs = types_of(source, &self.inputs);
        let (mut rows, mut of_range) = (HashMap::new(), vec![Vec::new(); ranges.len()]);
        let mut make = |rids: Vec<RowId>, read: Vec<Row>| {
            let batch = batch::batch_of(&inputs, &read);
            let of = made(self.eval(at, BlockRows { rids, batch }));
            let batch = columns.project(layout, places, &of.columns, of.rids.len());
            let row = |at| row_at(batch.columns(), &types, at);
            rows.extend(of.rids.into_iter().enumerate().map(|(at, rid)| (rid, row(at))));
        };
        let (mut asked, mut rids, mut read, mut bytes) =
            (HashSet::new(), Vec::new(), Vec::new(), 0);
        source.seek_all(at, route.index, &ranges, &self.inputs, &mut |number, rid, row| {
            // What is migrated meanwhile goes on to be read here.
            let is_new = !asked.contains(&rid);
            if is_new && self.is_migrated(rid) {
                return;
            }
            of_range[number].push(rid);
            if is_new {
                asked.insert(rid);
                bytes += row.iter().map(Value::heap_bytes).sum::<usize>();
                rids.push(rid);
                read.push(std::mem::take(row));
            }
            if bytes > READ_BYTES {
                make(std::mem::take(&mut rids), std::mem::take(&mut read));
                bytes = 0;
            }
        });
        make(rids, read);
        (rows, of_range)
    }

    /// Makes sure that rows are migrated.
    pub(crate) fn migrate(&self, rows: &[RowId], who: Who) -> Result<(), SchemaError> {
        let live = self.live();
        let left = rows.iter().filter(|row| !live.tracker.is_migrated(**row));
        let mut granules: Vec<Granule> =
            left.filter_map(|row| live.tracker.granule_of(*row)).collect();
        granules.sort_unstable();
        granules.dedup();
        self.migrate_granules(granules, who)
    }

    fn migrate_granules(&self, wanted: Vec<Granule>, who: Who) -> Result<(), SchemaError> {
        if wanted.is_empty() {
            return Ok(());
        }
        match self.state.def.detection {
            Detection::Tracker => self.install(wanted, who, &|rows| self.make(rows)),
            Detection::OnConflict => {
                let rows: Vec<RowId> = self.live().tracker.rows_in(&wanted).collect();
                let made = self.make(&rows)?;
                self.install(wanted, who, &|rows| Ok(made.of(rows)))
            }
        }
    }

    /// Claims granules, and installs what `made` says is made of their rows.
    fn install(
        &self,
        wanted: Vec<Granule>,
        who: Who,
        made: &dyn Fn(&[RowId]) -> Result<Rows, SchemaError>,
    ) -> Result<(), SchemaError> {
        let Live { tracker, target, .. } = self.live();
        tracker.migrate_all(wanted, &mut |claims| {
            let rows: Vec<RowId> = tracker.rows_in(claims.granules()).collect();
            let made = made(&rows)?;
            CrashPoint::LazyMade.reached();
            let is_empty = |row: &&RowId| made.rids.binary_search(row).is_err();
            let empty: Vec<RowId> = rows.iter().filter(is_empty).copied().collect();
            let Rows { rids, values } = &made;
            let install = Install { rids, values, empty: &empty, note: &claims.note() };
            target.install(&install, &mut || claims.done())?;
            self.state.course.count(who, made.rids.len());
            CrashPoint::LazyInstalled.reached();
            Ok(())
        })
    }

    /// Whether a row may be left of those of the target in a range of a key. Asked of the source's index
    /// alone: mostly they are all there, and then the source's rows need not be read.
    pub(crate) fn may_be_left_in(
        &self,
        route: &Route,
        range: &KeyRange,
        direction: Direction,
    ) -> bool {
        let Some(live) = self.live.get() else { return true };
        if !self.source.is_whole() {
            return true;
        }
        let (mut seen, mut may_be) = (0, false);
        let mut visit = |rid: RowId| {
            seen += 1;
            may_be = seen > ENTRIES_ASKED || !live.tracker.is_migrated(rid);
            if may_be { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.source.table.seek_entries(route.index, &route.range(range), direction, &mut visit);
        may_be
    }

    /// The rows of the source of which those of the target in a range of a key are made, as the view sees
    /// them: about `most` of them, from the start of the range. Then also the first parts of the key up to
    /// which, inclusive, there are no others.
    pub(crate) fn rows_in(
        &self,
        snapshot: &Snapshot,
        route: &Route,
        range: &KeyRange,
        direction: Direction,
        most: usize,
    ) -> (Vec<RowId>, Option<Vec<u8>>) {
        let source = self.readable(&self.source);
        route.rows_in(source, &self.view(snapshot), range, direction, most)
    }

    /// What a writer's own version of source rows makes of their target rows. Not of those that it has only
    /// held, or changed in nothing that the query reads.
    pub(crate) fn changes_of(
        &self,
        own: &Snapshot,
        rows: &[RowId],
    ) -> Result<Vec<(RowId, Option<Row>)>, SchemaError> {
        let was = self.rows_made(&self.at(), rows)?;
        Ok(differing(rows, was, self.rows_made(own, rows)?))
    }

    /// What the query makes of each of some rows of the source, in the columns of the target.
    fn rows_made(&self, at: &Snapshot, rows: &[RowId]) -> Result<Vec<Option<Row>>, SchemaError> {
        let Live { target, columns, types, .. } = self.live();
        let made = self.eval(at, read_rows(&*self.source.table, at, rows, &self.inputs))?;
        let batch = columns.whole(target.layout(), &made.columns, made.rids.len());
        Ok(made_of(rows, made.rids, batch.columns(), types))
    }

    /// Whether there was a row made of this one at the commit.
    pub(crate) fn has_made(&self, source: RowId) -> Result<bool, SchemaError> {
        if self.query.copies().is_some() {
            let (at, mut row) = (self.at(), Row::new());
            let is_there = self.source.table.read_row(&at, source, &self.inputs, &mut row);
            return Ok(is_there && self.append_others(&at, &mut row));
        }
        Ok(self.rows_made(&self.at(), &[source])?[0].is_some())
    }

    /// Whether a writer that has written to the source, and commits after the commit, is carried over to the
    /// table.
    pub(crate) fn takes_writers(&self) -> bool {
        self.lookups.is_empty()
    }

    /// The row of the source of which one of the table was made, or may have been: its place may have another row by
    /// now.
    pub(crate) fn source_of(&self, target: RowId) -> Option<RowId> {
        self.live().tracker.granule_of(target).map(|_| target)
    }

    /// The rows that others are made of, as anybody writes them.
    pub(crate) fn source_table(&self) -> &Arc<dyn Table> {
        &self.source.table
    }

    /// The table that is made as it was at the commit, bare.
    pub(crate) fn target(&self) -> &Arc<dyn Table> {
        &self.live().target
    }
}

impl Background for LazyRows {
    fn course(&self) -> &Course {
        &self.state.course
    }

    fn struck_from(&self, def: &TableDef) -> Option<TableDef> {
        self.state.struck_from(def)
    }

    fn is_complete(&self) -> bool {
        self.live.get().is_some_and(|live| live.tracker.is_complete())
    }

    fn blocks(&self) -> u32 {
        match self.live.get() {
            Some(live) => live.tracker.blocks(),
            None => self.source.seen.block_count(),
        }
    }

    fn migrate_block(
        &self,
        block: u32,
        who: Who,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), SchemaError> {
        let tracker = &self.live().tracker;
        let at_once = INSTALLED_AT_ONCE.div_ceil(self.state.def.granule_rows as usize);
        for part in tracker.left_in(block).chunks(at_once) {
            // Nobody waits while these are made.
            let rows: Vec<RowId> = tracker.rows_in(part).collect();
            let made = self.make(&rows)?;
            self.install(part.to_vec(), who, &|rows| Ok(made.of(rows)))?;
            if !goes_on() {
                break;
            }
        }
        Ok(())
    }
}

impl LazyMigration for LazyRows {
    fn state(&self) -> &LazyState {
        &self.state
    }

    fn source_blocks(&self) -> u32 {
        self.source.table.block_count()
    }

    fn go_live(
        &self,
        engine: Arc<dyn Engine>,
        target: Arc<dyn Table>,
        blocks: u32,
    ) -> Result<(), SchemaError> {
        let tracker = Tracker::new(blocks, self.state.def.granule_rows);
        let tracker = Arc::new(tracker);
        for note in target.follow_installs(tracker.clone()) {
            tracker.mark(&note).map_err(|_| self.state.broken())?;
        }
        target.reserve(tracker.tail(), &|row| tracker.is_migrated(row))?;
        let columns = Columns::of(target.layout(), &self.state.def.outputs);
        let all: Vec<usize> = (0..target.layout().columns.len()).collect();
        let types = types_of(&*target, &all);
        let live = Live { engine, tracker, target, columns, all, types };
        assert!(self.live.set(live).is_ok(), "a migration is committed once");
        Ok(())
    }

    fn is_live(&self) -> bool {
        self.live.get().is_some()
    }

    fn rows_left(&self) -> u64 {
        let rows = self.source.table.row_estimate();
        let Some(live) = self.live.get() else { return rows };
        let (done, of) = live.tracker.progress();
        rows - rows * done / of.max(1)
    }

    fn progress(&self) -> (u64, u64) {
        let (done, of) = self.live.get().map_or((0, 0), |live| live.tracker.progress());
        let per_block = ROWS_PER_BLOCK as u64 / u64::from(self.state.def.granule_rows);
        (done / per_block, of / per_block)
    }

    fn origin(&self, id: ColumnId) -> Option<(usize, ColumnId)> {
        Some((0, self.plain(id)?))
    }

    fn is_unique(&self, columns: &[ColumnId]) -> bool {
        let of: Vec<ColumnId> = columns.iter().filter_map(|id| self.plain(*id)).collect();
        self.state.def.source.is_unique_by(&of)
    }

    fn over(self: Arc<Self>, table: Arc<dyn Table>) -> Arc<dyn Table> {
        LazyTable::over(table, self)
    }

    fn by_rows(self: Arc<Self>) -> Option<Arc<LazyRows>> {
        Some(self)
    }
}

/// Rows of a block that are not migrated.
pub(crate) enum Left {
    All,
    Some(Box<Slots>),
}

impl Left {
    pub fn contains(&self, slot: usize) -> bool {
        match self {
            Left::All => true,
            Left::Some(slots) => slots.contains(slot),
        }
    }
}
