//! The lazy driver for tables made of several rows: groups (n:1), and joins by keys (n:n; BullFrog, section
//! 4.3.6, the first way: all rows of a key at once).
//!
//! ```text
//!   order_line                          unit (1, 2, 7)         order_total
//!   (1, 2, 7, 1) ─┐
//!   (1, 2, 7, 2) ─┼─ rows of the key, by an index of the source ──▶ query ──▶ (1, 2, 7, 310.00)
//!   (1, 2, 8, 1)  │
//! ```
//!
//! The unit is the values of a key. Each input of the query has columns for it, and an index that begins with
//! some of them: so the rows of a unit are found without looking at others. Rows that are made have
//! places of their own; which units are made is in a hash map (`key_tracker.rs`). The rest is as in `lazy.rs`
//! [L1] to [L4], but for one thing: a row that is not made cannot be read past its table, for it has no place
//! yet. Whoever reads all rows makes all rows.
//!
//! Where no key tells units apart, all rows are one, whose key has no columns: it is made by one run of the query
//! over all blocks.
//!
//! K1: every row that is made is made of a row of each of the inputs that `origin` names, in its unit, and
//!     of one at least of those that `covers` lists.

use std::collections::HashSet;
use std::iter::repeat;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::background::Background;
use crate::change::{UnitInput, UnitQuery, UnitRows};
use crate::course::{Course, Who};
use crate::def::{ObjectId, TableDef};
use crate::derive::SomeRows;
use crate::error::SchemaError;
use crate::key_tracker::{KeyTracker, UnitKey};
use crate::lazy::{
    Columns, LazyDef, LazyMigration, LazySource, LazyState, batch_with, whole_columns,
};
use crate::lazy_placed::{LazyPlaced, OwnRows, PlacedTable, install_placed};
use crate::route::Route;
use crate::rows::types_of;
use crate::status::Detection;
use crate::step::positions;
use crate::tracker::Tracker;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::key::{ASCENDING, KeyColumns};
use froglet_engine::{
    ColumnId, ColumnType, CrashPoint, Direction, Engine, KeyPart, KeyRange, Layout, Row, RowId,
    Snapshot, Table, TxnId, Value, batch, key,
};

/// Units that are made at once.
const UNITS_AT_ONCE: usize = 1024;
/// Units that the background makes at once: so long it takes a core without looking at who waits for one.
const MADE_AT_ONCE: usize = 128;
/// Units that it installs at once: somebody may wait for one of them.
const INSTALLED_AT_ONCE: usize = 64;

/// One lazy migration whose units are keys.
pub(crate) struct LazyUnits {
    pub state: LazyState,
    query: Arc<dyn UnitQuery>,
    inputs: Vec<KeyedInput>,
    live: OnceLock<Live>,
    own: OwnRows,
}

/// A table that the query reads.
struct KeyedInput {
    source: LazySource,
    /// Layout positions of the columns that it reads.
    columns: Vec<usize>,
    /// Layout positions of the key's columns, and their types.
    key: Vec<(usize, ColumnType)>,
    /// Places of the key's columns among those that it reads.
    key_places: Vec<usize>,
    /// Layout position of an index, and which columns of the key it begins with, if that has any.
    index: usize,
    leading: Vec<usize>,
}

struct Live {
    engine: Arc<dyn Engine>,
    tracker: Arc<KeyTracker>,
    /// Blocks of the inputs that cover the table of which all units are made: one after another.
    blocks: Tracker,
    /// Of each of them. A table that is kept may grow.
    cover_blocks: Vec<u32>,
    rows: AtomicU64,
    target: Arc<dyn Table>,
    /// Of the target's layout.
    types: Vec<ColumnType>,
    columns: Columns,
}

/// What the query has made of some units.
struct MadeUnits {
    /// The unit of each row, by its place among those.
    units: Vec<u64>,
    rows: RecordBatch,
}

impl MadeUnits {
    /// What is made of some of the units.
    fn of(&self, keys: &[UnitKey], some: &[UnitKey]) -> RecordBatch {
        if some.len() == keys.len() {
            return self.rows.clone();
        }
        let some: HashSet<&UnitKey> = some.iter().collect();
        let is_of = |unit: &u64| Some(some.contains(&keys[*unit as usize]));
        let is_of: BooleanArray = self.units.iter().map(is_of).collect();
        filter_record_batch(&self.rows, &is_of).expect("there is a flag for each row")
    }
}

/// A way from an index of the target to that of an input.
pub(crate) struct UnitRoute {
    input: usize,
    route: Route,
    /// Whoever knows the key of a row of the target knows its unit's.
    has_unit: bool,
}

/// What a query makes of rows: the unit of each row, and whole columns of these types.
pub(crate) fn made_of(
    query: &dyn UnitQuery,
    rows: Arc<dyn UnitRows>,
    types: &[ColumnType],
) -> Result<(Vec<u64>, Vec<ArrayRef>), SchemaError> {
    let (mut units, mut made) = (Vec::new(), vec![Vec::new(); types.len()]);
    query.eval(rows, &mut |of: &[u64], columns: &[ArrayRef]| {
        units.extend_from_slice(of);
        made.iter_mut().zip(columns).for_each(|(made, column)| made.push(column.clone()));
        Ok(())
    })?;
    Ok((units, whole_columns(&made, types)))
}

fn encode(values: &[Value]) -> UnitKey {
    key::encode(values, repeat(&ASCENDING)).into()
}

/// The index of a table by which the rows of a key are found, and which columns of the key it begins with.
fn way_of(layout: &Layout, key: &[ColumnId]) -> Option<(usize, Vec<usize>)> {
    let leading = |parts: &[KeyPart]| -> Vec<usize> {
        let place = |part: &KeyPart| key.iter().position(|column| *column == part.column);
        parts.iter().map_while(place).collect()
    };
    let indexes = layout.indexes.iter().enumerate().map(|(at, i)| (at, leading(&i.key)));
    let way = indexes.max_by_key(|(_, leading)| leading.len())?;
    (!way.1.is_empty()).then_some(way)
}

impl KeyedInput {
    fn new(input: &UnitInput, key: &[ColumnId], source: LazySource) -> Option<KeyedInput> {
        let UnitInput::Table(_, read) = input else { return None };
        let table = &*source.table;
        let (index, leading) = match key {
            [] => (0, Vec::new()),
            key => way_of(table.layout(), key)?,
        };
        let places = key.iter().map(|column| read.iter().position(|other| other == column));
        let at = positions(table, key);
        let types = types_of(table, &at);
        Some(KeyedInput {
            columns: positions(table, read),
            key_places: places.collect::<Option<_>>()?,
            key: at.into_iter().zip(types).collect(),
            source,
            index,
            leading,
        })
    }

    /// The key of each row of a batch of what is read.
    fn keys_of(&self, batch: &RecordBatch) -> Vec<UnitKey> {
        let cells = self.key_places.iter().zip(&self.key);
        let cells = KeyColumns::new(cells.map(|(at, (_, ty))| (ASCENDING, batch.column(*at), *ty)));
        let key = |row| {
            let mut key = Vec::new();
            cells.append(row, &mut key);
            key.into()
        };
        (0..batch.num_rows()).map(key).collect()
    }
}

impl LazyUnits {
    /// A migration of a table that is not committed; `None` if the rows of a unit cannot be found.
    pub fn new(
        def: LazyDef,
        target: &TableDef,
        owner: TxnId,
        sources: Vec<LazySource>,
        query: Arc<dyn UnitQuery>,
    ) -> Option<LazyUnits> {
        let inputs = query.inputs().iter().enumerate().zip(sources);
        let inputs = inputs
            .map(|((at, input), source)| {
                let key = if query.is_whole() { Vec::new() } else { query.key(at)? };
                KeyedInput::new(input, &key, source)
            })
            .collect::<Option<Vec<_>>>()?;
        let types = |input: &KeyedInput| input.key.iter().map(|(_, ty)| *ty).collect::<Vec<_>>();
        let is_same = |input: &KeyedInput| types(input) == types(&inputs[0]);
        let is_covered = query.is_whole() || !query.covers().is_empty();
        if inputs.is_empty() || !is_covered || !inputs.iter().all(is_same) {
            return None;
        }
        let state = LazyState::new(def, target, owner);
        Some(LazyUnits { state, query, inputs, live: OnceLock::new(), own: OwnRows::default() })
    }

    /// Whether the rows of a unit can be found, by indexes that the tables have.
    pub fn has_way(
        query: &dyn UnitQuery,
        layout: &dyn Fn(ObjectId) -> Option<Arc<Layout>>,
    ) -> bool {
        if query.is_whole() {
            return !query.inputs().is_empty();
        }
        let types_of_way = |(at, input): (usize, &UnitInput)| {
            let UnitInput::Table(table, _) = input else { return None };
            let (key, layout) = (query.key(at)?, layout(*table)?);
            way_of(&layout, &key)?;
            let types = key.iter().map(|id| Some(layout.columns[layout.position(*id)?].ty));
            types.collect::<Option<Vec<ColumnType>>>()
        };
        let types = query.inputs().iter().enumerate().map(types_of_way);
        let Some(types) = types.collect::<Option<Vec<_>>>() else { return false };
        let is_same = |other: &Vec<ColumnType>| *other == types[0];
        !types.is_empty() && !query.covers().is_empty() && types.iter().all(is_same)
    }

    /// The view of the sources as of the commit.
    fn at(&self) -> Arc<Snapshot> {
        self.state.kept(&*self.live().engine)
    }

    fn live(&self) -> &Live {
        self.live.get().expect("a table that others have is committed")
    }

    /// Makes sure that units are made.
    fn migrate(&self, keys: &[UnitKey], who: Who) -> Result<(), SchemaError> {
        for keys in keys.chunks(UNITS_AT_ONCE) {
            match self.state.def.detection {
                Detection::Tracker => {
                    self.install(keys, who, &|keys| self.make(keys).map(|made| made.rows))?;
                }
                Detection::OnConflict => {
                    let made = self.make(keys)?;
                    self.install(keys, who, &|claimed| Ok(made.of(keys, claimed)))?;
                }
            }
        }
        Ok(())
    }

    /// Claims units, and installs what `made` says is made of them.
    fn install(
        &self,
        keys: &[UnitKey],
        who: Who,
        made: &dyn Fn(&[UnitKey]) -> Result<RecordBatch, SchemaError>,
    ) -> Result<(), SchemaError> {
        let live = self.live();
        let mut wanted = keys.to_vec();
        while !wanted.is_empty() {
            let (mut claims, others) = live.tracker.claim_all(wanted);
            if !claims.keys().is_empty() {
                let rows = made(claims.keys())?;
                CrashPoint::LazyMade.reached();
                let (n, note) = (rows.num_rows(), claims.note());
                install_placed(&*live.target, &live.types, &rows, &note, &mut || claims.done())?;
                self.state.course.count(who, n);
                live.rows.fetch_add(n as u64, Ordering::Relaxed);
                CrashPoint::LazyInstalled.reached();
            }
            drop(claims);
            others.iter().for_each(|key| live.tracker.wait(key));
            wanted = others;
        }
        Ok(())
    }

    /// What the query makes of some units, in the columns of the target.
    fn make(&self, keys: &[UnitKey]) -> Result<MadeUnits, SchemaError> {
        let live = self.live();
        let at = self.at();
        if self.query.is_whole() {
            let tables = self.inputs.iter().map(|input| {
                let table = &input.source.table;
                (table.clone(), input.columns.clone(), table.block_count())
            });
            let all = AllRows { tables: tables.collect(), snapshot: at };
            let (mut units, made) = self.eval(Arc::new(all))?;
            units.fill(0);
            let rows = live.columns.whole(live.target.layout(), &made, units.len());
            return Ok(MadeUnits { units, rows });
        }
        let parts = self.inputs.iter().map(|input| self.rows_of(input, &at, keys));
        let rows = SomeRows { parts: parts.collect(), snapshot: at.clone() };
        let (units, made) = self.eval(Arc::new(rows))?;
        assert!(units.iter().all(|unit| (*unit as usize) < keys.len()), "of no other units");
        let rows = live.columns.whole(live.target.layout(), &made, units.len());
        Ok(MadeUnits { units, rows })
    }

    /// The unit of each row that the query makes, and the columns.
    fn eval(&self, rows: Arc<dyn UnitRows>) -> Result<(Vec<u64>, Vec<ArrayRef>), SchemaError> {
        made_of(&*self.query, rows, &self.state.output_types)
    }

    /// The rows of an input that are of some units, each with the number of its unit.
    fn rows_of(
        &self,
        input: &KeyedInput,
        at: &Snapshot,
        keys: &[UnitKey],
    ) -> (RecordBatch, Vec<u64>) {
        let (table, types) = (&*input.source.table, types_of(&*input.source.table, &input.columns));
        let parts = &table.layout().indexes[input.index].key;
        let range = |key: &UnitKey| {
            let values = decode(key, &input.key);
            let leading = input.leading.iter().map(|place| &values[*place]);
            KeyRange::prefix(key::encode(leading, parts))
        };
        let ranges: Vec<KeyRange> = keys.iter().map(range).collect();
        let (mut rows, mut units) = (Vec::new(), Vec::new());
        table.seek_all(at, input.index, &ranges, &input.columns, &mut |number, _, row| {
            let own: Vec<Value> =
                input.key_places.iter().map(|place| row[*place].clone()).collect();
            if encode(&own) == keys[number] {
                rows.push(std::mem::take(row));
                units.push(number as u64);
            }
        });
        (batch::batch_of(&types, &rows), units)
    }

    /// The input, and the number of its block, of a block of those that cover the table.
    fn covering(&self, block: u32) -> Option<(&KeyedInput, u32)> {
        let mut rest = block;
        for (&input, blocks) in self.query.covers().iter().zip(&self.live().cover_blocks) {
            if rest < *blocks {
                return Some((&self.inputs[input], rest));
            }
            rest -= blocks;
        }
        None
    }
}

fn decode(key: &[u8], types: &[(usize, ColumnType)]) -> Vec<Value> {
    let mut rest = key;
    let value = |(_, ty): &(usize, ColumnType)| key::decode_part(&mut rest, *ty);
    types.iter().map(value).collect()
}

impl LazyPlaced for LazyUnits {
    type Route = UnitRoute;

    fn routes(&self, layout: &Layout) -> Vec<Option<UnitRoute>> {
        let best = |parts: &[KeyPart]| {
            let inputs = self.inputs.iter().enumerate();
            let routes = inputs.filter_map(|(at, input)| {
                let plain = |id: ColumnId| match self.query.origin(self.state.output(id)?)? {
                    (of, column) if of == at => Some(column),
                    _ => None,
                };
                let source = input.source.table.layout();
                let route = Route::of(parts, layout, source, plain)?;
                // What a key of the source's index is known by, and no other part of the target's.
                let common = parts.iter().take(route.len());
                let known: HashSet<ColumnId> =
                    common.filter_map(|part| plain(part.column)).collect();
                let is_known = |(at, _): &(usize, _)| known.contains(&source.columns[*at].id);
                let has_unit = input.key.iter().all(is_known);
                Some(UnitRoute { input: at, route, has_unit })
            });
            routes.max_by_key(|route| route.route.len())
        };
        layout.indexes.iter().map(|index| best(&index.key)).collect()
    }

    fn migrate_range(&self, route: &UnitRoute, range: &KeyRange) -> Result<bool, SchemaError> {
        let (input, live) = (&self.inputs[route.input], self.live());
        let places: Vec<usize> = input.key.iter().map(|(at, _)| *at).collect();
        let is_one = route.has_unit && range.one().is_some();
        let mut found = HashSet::new();
        let mut visit = |_: RowId, row: &mut Row| {
            let key = encode(row);
            if !live.tracker.is_migrated(&key) {
                found.insert(key);
            }
            if is_one { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let (table, at) = (&input.source.table, &self.at());
        let range = route.route.range(range);
        table.seek(at, route.route.index, &range, Direction::Forward, &places, &mut visit);
        let found: Vec<UnitKey> = found.into_iter().collect();
        self.migrate(&found, Who::Access)?;
        Ok(true)
    }

    fn own_rows(&self, snapshot: &Arc<Snapshot>) -> Result<Arc<Vec<RecordBatch>>, SchemaError> {
        self.own.as_of(snapshot.ts, || {
            let tables = self.inputs.iter().map(|input| {
                let seen = &input.source.seen;
                (seen.clone(), input.columns.clone(), seen.block_count())
            });
            let all = AllRows { tables: tables.collect(), snapshot: snapshot.clone() };
            let (units, columns) = self.eval(Arc::new(all))?;
            Ok(batch_with(columns, units.len()))
        })
    }

    fn blocks_of_inputs(&self) -> u32 {
        // Of no rows there may be a row: their count.
        self.inputs.iter().map(|input| input.source.seen.block_count()).sum::<u32>().max(1)
    }
}

impl Background for LazyUnits {
    fn course(&self) -> &Course {
        &self.state.course
    }

    fn struck_from(&self, def: &TableDef) -> Option<TableDef> {
        self.state.struck_from(def)
    }

    fn is_complete(&self) -> bool {
        self.live.get().is_some_and(|live| live.blocks.is_complete())
    }

    fn blocks(&self) -> u32 {
        self.live.get().map_or(0, |live| live.blocks.blocks())
    }

    fn migrate_block(
        &self,
        block: u32,
        who: Who,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), SchemaError> {
        let live = self.live();
        if live.blocks.is_block_migrated(block) {
            return Ok(());
        }
        let keys = match self.covering(block) {
            _ if self.query.is_whole() => HashSet::from([encode(&[])]),
            Some((input, number)) => {
                let read = input.source.table.read_block(&self.at(), number, &input.columns)?;
                input.keys_of(&read.batch).into_iter().collect()
            }
            None => return Ok(()),
        };
        let is_left = |key: &UnitKey| !live.tracker.is_migrated(key);
        let left: Vec<UnitKey> = keys.into_iter().filter(is_left).collect();
        let at_once = if who == Who::Background { MADE_AT_ONCE } else { UNITS_AT_ONCE };
        for keys in left.chunks(at_once) {
            // Nobody waits while these are made.
            let made = self.make(keys)?;
            for part in keys.chunks(INSTALLED_AT_ONCE) {
                self.install(part, who, &|claimed| Ok(made.of(keys, claimed)))?;
                if !goes_on() {
                    return Ok(());
                }
            }
        }
        live.blocks.migrate_all(vec![u64::from(block)], &mut |claims| {
            claims.done();
            Ok(())
        })
    }
}

impl LazyMigration for LazyUnits {
    fn state(&self) -> &LazyState {
        &self.state
    }

    fn source_blocks(&self) -> u32 {
        self.inputs[0].source.table.block_count()
    }

    fn go_live(
        &self,
        engine: Arc<dyn Engine>,
        target: Arc<dyn Table>,
        _blocks: u32,
    ) -> Result<(), SchemaError> {
        let tracker = Arc::new(KeyTracker::new());
        for note in target.follow_installs(tracker.clone()) {
            tracker.mark(&note).map_err(|_| self.state.broken())?;
        }
        let blocks_of = |input: &usize| self.inputs[*input].source.table.block_count();
        let cover_blocks: Vec<u32> = match self.query.is_whole() {
            true => vec![1],
            false => self.query.covers().iter().map(blocks_of).collect(),
        };
        let blocks = cover_blocks.iter().sum();
        let live = Live {
            engine,
            tracker,
            cover_blocks,
            blocks: Tracker::new(blocks, ROWS_PER_BLOCK as u32),
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
        self.live.get().map_or((0, 0), |live| live.blocks.progress())
    }

    fn rows_left(&self) -> u64 {
        let Some(live) = self.live.get() else { return 0 };
        let (done, of) = live.blocks.progress();
        let rows = live.rows.load(Ordering::Relaxed);
        // As many for each block as so far.
        (rows * (of - done)).checked_div(done).unwrap_or(0)
    }

    fn origin(&self, id: ColumnId) -> Option<(usize, ColumnId)> {
        self.query.origin(self.state.output(id)?)
    }

    fn is_unique(&self, columns: &[ColumnId]) -> bool {
        let outputs: Vec<usize> = columns.iter().filter_map(|id| self.state.output(*id)).collect();
        let unique = self.query.unique();
        unique.is_some_and(|unique| unique.iter().all(|output| outputs.contains(output)))
    }

    fn over(self: Arc<Self>, table: Arc<dyn Table>) -> Arc<dyn Table> {
        PlacedTable::over(table, self)
    }
}

/// All rows of some tables, as one unit.
struct AllRows {
    /// With the columns that are read, and blocks.
    tables: Vec<(Arc<dyn Table>, Vec<usize>, u32)>,
    snapshot: Arc<Snapshot>,
}

impl UnitRows for AllRows {
    fn parts(&self, input: usize) -> u32 {
        self.tables[input].2
    }

    fn part(&self, input: usize, number: u32) -> Result<(RecordBatch, Vec<u64>), SchemaError> {
        let (table, columns, _) = &self.tables[input];
        let read = table.read_block(&self.snapshot, number, columns)?;
        let units = vec![0; read.rids.len()];
        Ok((read.batch, units))
    }

    fn threads(&self) -> usize {
        1
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.clone()
    }
}
