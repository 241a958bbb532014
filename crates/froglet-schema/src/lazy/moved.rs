//! The lazy driver of a cluster, where the data is the tracker (SLSM, section 4.1): row by row, or by groups of rows
//! (`moved_query.rs`).
//!
//! ```text
//!   source      the table, and others that are made of the same source
//!   row 1   ─ one transaction ─▶ row 1', row 1''      the source's row goes with it
//!   row 2                                             left: it is what the query makes of it
//! ```
//! Any number of servers do this over one store, and know nothing of each other: what is left is what the source has.
//!
//! V1: from the commit on nobody writes to the source but who moves rows out of it (`EngineTxn::close`). So a source only
//!     shrinks, and its rows are what they were.
//! V2: a row of the source goes in the transaction in which all that is made of it comes. At any timestamp each row is in
//!     the source or in the tables, never in both or in neither.
//! V3: nobody moves a row who cannot make all that is made of it, for every table that has it as its source.
//! V4: what is looked up for a row is in tables that nobody moves anything out of.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use froglet_engine::{
    BlockRows, ColumnId, ColumnType, Engine, EngineError, EngineTxn, Found, Layout, Moved, Moving,
    Row, RowId, Snapshot, SqlState, Table, Ts, TxnId, Which, WriteStop, batch,
};
use parking_lot::RwLock;

use crate::background::Background;
use crate::change::{LazyQuery, RowQuery};
use crate::course::{Course, Who};
use crate::def::TableDef;
use crate::error::SchemaError;
use crate::lazy::moved_query::{self, Groups, Made, MovedQuery};
use crate::lazy::moved_table::MovedTable;
use crate::lazy::{Columns, LazyDef, LazyMigration, LazySource, LazyState};
use crate::lazy_table::stop;
use crate::route::Route;
use crate::rows::{row_at, types_of};
use crate::status::MigrationStatus;
use crate::step::positions;

/// Rows that the background moves in one transaction, unless one group has more.
const MOVED_AT_ONCE: usize = 128;
/// Whoever waits for others to be done with a row, or to do all of it, looks again after so long.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Tables that are made of one source.
#[derive(Default)]
pub(crate) struct Siblings {
    live: RwLock<Vec<Weak<LazyMoved>>>,
    /// The name of one of which nobody here knows how its rows are made [V3].
    unknown: RwLock<Option<String>>,
}

impl Siblings {
    /// How one's rows are made is not known.
    pub fn without(&self, table: &str) {
        *self.unknown.write() = Some(table.to_owned());
    }

    /// All of them [V3].
    fn all(&self) -> Result<Vec<Arc<LazyMoved>>, SchemaError> {
        if let Some(table) = &*self.unknown.read() {
            let message = format!(
                "rows cannot be moved, as it is not known what is made of them in table \"{table}\""
            );
            return Err(SchemaError::refused(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let live = self.live.read();
        Ok(live.iter().filter_map(Weak::upgrade).filter(|one| one.course().goes_on()).collect())
    }
}

/// A lazy migration that moves rows of a table.
pub(crate) struct LazyMoved {
    state: LazyState,
    source: LazySource,
    /// Layout positions of the query's inputs in the source.
    inputs: Vec<usize>,
    query: MovedQuery,
    siblings: Arc<Siblings>,
    own: Weak<LazyMoved>,
    /// From the commit on.
    live: OnceLock<Live>,
    /// As of this timestamp nothing was left; 0: it may be.
    complete: AtomicU64,
}

struct Live {
    engine: Arc<dyn Engine>,
    /// Where rows move to, with every index.
    target: Arc<dyn Table>,
    columns: Columns,
    types: Vec<ColumnType>,
}

/// How a table of an engine of which rows are moved moves them.
pub(super) fn moving(table: &dyn Table) -> &dyn Moving {
    table.moving().expect("both are tables of a cluster")
}

impl LazyMoved {
    /// A migration of a table that is not committed; none, if rows cannot be moved by the query.
    pub fn new(
        def: LazyDef,
        target: &TableDef,
        owner: TxnId,
        sources: Vec<LazySource>,
        query: LazyQuery,
        siblings: Arc<Siblings>,
    ) -> Option<Arc<LazyMoved>> {
        let mut sources = sources.into_iter();
        let source = sources.next().expect("a query has a source");
        let query = match query {
            LazyQuery::Rows(_, query) => MovedQuery::of_rows(query, sources),
            LazyQuery::Units(query) => MovedQuery::of_groups(query, source.table.layout())?,
            LazyQuery::Pairs(..) => return None,
        };
        Some(Arc::new_cyclic(|own| LazyMoved {
            inputs: positions(&*source.table, query.inputs()),
            state: LazyState::new(def, target, owner),
            source,
            query,
            siblings,
            own: own.clone(),
            live: OnceLock::new(),
            complete: AtomicU64::new(0),
        }))
    }

    fn live(&self) -> &Live {
        self.live.get().expect("a table that others have is committed")
    }

    /// Whether whoever wants rows moves them before, in a transaction of its own.
    pub(super) fn moves_before(&self) -> bool {
        self.is_live() && !self.state.def.is_fused
    }

    /// Whether a view may find rows in the source.
    pub(super) fn is_left_to(&self, view: &Snapshot) -> bool {
        let complete = self.complete.load(Ordering::SeqCst);
        complete == 0 || view.ts.0 < complete
    }

    /// About how many rows are left.
    pub(super) fn rows_left_for_plans(&self) -> u64 {
        if self.is_complete() { 0 } else { self.source.table.rows_for_plans() }
    }

    /// The source as whoever reads it now has it.
    pub(super) fn source(&self) -> &dyn Table {
        self.readable(&self.source)
    }

    fn readable<'a>(&self, source: &'a LazySource) -> &'a dyn Table {
        if self.is_live() { &*source.table } else { &*source.seen }
    }

    /// Layout positions of what the query reads of the source.
    pub(super) fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    pub(super) fn outputs(&self) -> &[ColumnId] {
        &self.state.def.outputs
    }

    /// The way from each index of a layout of the target.
    pub(super) fn routes(&self, layout: &Layout) -> Vec<Option<Route>> {
        Route::of_each(layout, self.source.table.layout(), |id| self.converted(id))
    }

    /// The plain column of the source that a column of the target is.
    fn plain(&self, id: ColumnId) -> Option<ColumnId> {
        self.query.plain(self.state.output(id)?, self.source.table.layout())
    }

    /// The column of the source that one of the target is, maybe in another type ([`RowQuery::converted`]).
    fn converted(&self, id: ColumnId) -> Option<ColumnId> {
        self.query.converted(self.state.output(id)?, self.source.table.layout())
    }

    /// What the query makes of rows of the source of which its inputs were read: in lists, whole groups in each.
    pub(super) fn eval(
        &self,
        at: &Snapshot,
        lists: &[usize],
        rids: Vec<RowId>,
        read: &[Row],
    ) -> Result<Made, SchemaError> {
        let source = &*self.source.table;
        let rows =
            BlockRows { rids, batch: batch::batch_of(&types_of(source, &self.inputs), read) };
        match &self.query {
            MovedQuery::Rows { query, lookups } => {
                moved_query::made_of_rows(&**query, lookups, at, rows, &|of| self.readable(of))
            }
            MovedQuery::Groups { query, groups } => {
                let of = groups.units(source, &self.inputs, (lists, &rows.rids), read);
                moved_query::made_of_groups(&**query, at, rows, of, &self.state.output_types)
            }
        }
    }

    /// The whole groups of which rows were found, if it is groups that something is made of.
    pub(super) fn completed(&self, view: &Snapshot, found: Found, which: Which<'_>) -> Found {
        match self.query.groups() {
            None => found,
            // Ranges of the index that rows are kept by have whole groups.
            Some(groups) if groups.are_whole_in(which) => found,
            Some(groups) => groups.completed(self.source(), view, found, &self.inputs),
        }
    }

    /// Some rows of the source: the groups that begin there, if it is groups that something is made of.
    pub(super) fn part(&self, view: &Snapshot, from: RowId) -> Result<Part, EngineError> {
        let part = Part::of(self.source(), view, from, &self.inputs)?;
        Ok(match self.query.groups() {
            None => part,
            Some(groups) => groups.begun_in(self.source(), view, part, &self.inputs),
        })
    }

    /// All that is made of whole rows of the source, in every table that is made of it.
    fn moved<'a>(
        &self,
        all: &'a [Arc<LazyMoved>],
        at: &Snapshot,
        rows: &[(RowId, Row)],
    ) -> Result<Vec<Moved<'a>>, SchemaError> {
        let mut moved: Vec<Moved<'a>> =
            rows.iter().map(|(from, _)| Moved { from: *from, into: Vec::new() }).collect();
        for one in all {
            let Live { target, columns, types, .. } = one.live();
            let inputs = |(_, row): &(RowId, Row)| -> Row {
                one.inputs.iter().map(|at| row[*at].clone()).collect()
            };
            let read: Vec<Row> = rows.iter().map(inputs).collect();
            let (lists, rids) = (vec![0; rows.len()], rows.iter().map(|(rid, _)| *rid).collect());
            let made = one.eval(at, &lists, rids, &read)?;
            let from = made.rids.clone();
            let mut moved = moved.iter_mut();
            for (from, row) in from.into_iter().zip(made.rows(target.layout(), columns, types)) {
                let moved = moved.find(|moved| moved.from == from).expect("in the same order");
                moved.into.push((&**target, row));
            }
        }
        Ok(moved)
    }

    /// Moves those of some rows that are left, in the transaction, as they were at `base`. Whether any was.
    pub(super) fn take(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        rows: &[RowId],
    ) -> Result<bool, WriteStop> {
        if rows.is_empty() {
            return Ok(false);
        }
        let (all, at) = (self.siblings.all().map_err(stop)?, txn.snapshot().clone());
        let left = match together(&all) {
            None => self.hold(txn, base, rows)?,
            Some(groups) => self.hold(txn, base, &groups.all_of(&*self.source.table, &at, rows))?,
        };
        if left.is_empty() {
            return Ok(false);
        }
        let moved = self.moved(&all, &at, &left).map_err(stop)?;
        moving(&*self.source.table).move_out(txn, &moved)?;
        self.state.course.count(Who::Access, left.len());
        Ok(true)
    }

    /// Deletes a row that is left and cannot move: nothing is made of it. False, if something else is made of it.
    pub(super) fn delete_left(
        &self,
        txn: &mut dyn EngineTxn,
        row: RowId,
    ) -> Result<bool, WriteStop> {
        if self.siblings.all().map_err(stop)?.len() > 1 || self.query.groups().is_some() {
            return Ok(false);
        }
        let left = self.hold(txn, Ts::LATEST, &[row])?;
        let gone: Vec<Moved<'_>> =
            left.iter().map(|(from, _)| Moved { from: *from, into: Vec::new() }).collect();
        moving(&*self.source.table).move_out(txn, &gone)?;
        Ok(!gone.is_empty())
    }

    /// Holds those of some rows that are left, for whoever moves none. Who wants to move one of them later has the first
    /// of its group by then, and waits for nobody who waits for him.
    pub(super) fn lock(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        rows: &[RowId],
    ) -> Result<Vec<(RowId, Row)>, WriteStop> {
        let (all, at) = (self.siblings.all().map_err(stop)?, txn.snapshot().clone());
        let mut wanted = rows.to_vec();
        if let Some(groups) = together(&all) {
            wanted.extend(groups.firsts_of(&*self.source.table, &at, rows));
            wanted.sort_unstable();
            wanted.dedup();
        }
        let mut left = self.hold(txn, base, &wanted)?;
        left.retain(|(rid, _)| rows.contains(rid));
        Ok(left)
    }

    /// Holds those of some rows that are left.
    fn hold(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        rows: &[RowId],
    ) -> Result<Vec<(RowId, Row)>, WriteStop> {
        let source = &*self.source.table;
        let mut left = Vec::new();
        if rows.is_empty() {
            return Ok(left);
        }
        moving(source)
            .hold(txn, base, rows, &whole(source), &mut |rid, row| left.push((rid, row)))?;
        Ok(left)
    }

    /// Moves rows, each as it is in a view, in transactions of its own: those that nobody else is at.
    pub(super) fn move_alone(
        &self,
        view: &Snapshot,
        rows: &[(RowId, Row)],
        who: Who,
    ) -> Result<(), SchemaError> {
        let (all, source) = (self.siblings.all()?, &*self.source.table);
        let done = match together(&all) {
            None => self.move_units(&all, view, rows, who)?,
            Some(groups) => {
                let found = groups.completed(source, view, vec![rows.to_vec()], &whole(source));
                let rows: Vec<(RowId, Row)> = found.into_iter().flatten().collect();
                self.move_units(&all, view, &rows, who)?
            }
        };
        done.failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Moves rows, whole groups if it is groups that move, some at a time: those of one move together. What cannot move by itself keeps no other.
    fn move_units(
        &self,
        all: &[Arc<LazyMoved>],
        view: &Snapshot,
        rows: &[(RowId, Row)],
        who: Who,
    ) -> Result<Done, SchemaError> {
        let units = match together(all) {
            None => (0..rows.len()).map(|at| at..at + 1).collect(),
            Some(groups) => groups.ends(self.source.table.layout(), rows),
        };
        let source = moving(&*self.source.table);
        let (mut units, mut done) = (units.into_iter().peekable(), Done::default());
        while let Some(first) = units.next() {
            let (begin, mut some) = (first.start, vec![first]);
            while let Some(unit) = units.next_if(|unit| unit.end - begin <= MOVED_AT_ONCE) {
                some.push(unit);
            }
            let end = some.last().expect("there is the first").end;
            let moved = self.moved(all, view, &rows[begin..end])?;
            match source.move_out_alone(view, &moved) {
                Ok(true) => {
                    done.moved += moved.len();
                    continue;
                }
                Err(error) if !is_of_rows(&error) => return Err(error.into()),
                Ok(false) | Err(_) => {}
            }
            for unit in some {
                let moved = &moved[unit.start - begin..unit.end - begin];
                match source.move_out_alone(view, moved) {
                    Ok(true) => done.moved += moved.len(),
                    Ok(false) => {}
                    Err(error) if is_of_rows(&error) => done.failed = done.failed.or(Some(error)),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        self.state.course.count(who, done.moved);
        Ok(done)
    }

    /// Moves some part of what is left, from a row of the source on: what was done, where the next part begins, and whether
    /// there was anything in this one.
    fn move_part(&self, from: RowId, who: Who) -> Result<(Done, Option<RowId>, bool), SchemaError> {
        let source = &*self.source.table;
        let (view, all) = (self.live().engine.snapshot(), self.siblings.all()?);
        let part = Part::of(source, &view, from, &whole(source))?;
        let has_rows = !part.rows.is_empty();
        let part = match together(&all) {
            None => part,
            Some(groups) => groups.begun_in(source, &view, part, &whole(source)),
        };
        let done = self.move_units(&all, &view, &part.rows, who)?;
        Ok((done, part.next, has_rows))
    }
}

/// What became of rows that were to move.
#[derive(Default)]
struct Done {
    moved: usize,
    /// Why some cannot.
    failed: Option<EngineError>,
}

/// Whether these rows cannot move, and others may.
pub(super) fn is_of_rows(error: &EngineError) -> bool {
    matches!(error.sqlstate(), SqlState::PROGRAM_LIMIT_EXCEEDED | SqlState::OUT_OF_MEMORY)
}

/// By which groups rows move that tables are made of [Q3]; none: each by itself.
fn together(all: &[Arc<LazyMoved>]) -> Option<&Groups> {
    all.iter().filter_map(|one| one.query.groups()).reduce(Groups::larger)
}

/// Some rows of a table.
pub(super) struct Part {
    pub rows: Vec<(RowId, Row)>,
    /// Where the next ones begin.
    pub next: Option<RowId>,
}

impl Part {
    /// From a row on, the columns at some layout positions.
    pub fn of(
        table: &dyn Table,
        view: &Snapshot,
        from: RowId,
        positions: &[usize],
    ) -> Result<Part, EngineError> {
        let (part, next) = table.read_part(view, from, positions)?;
        let types = types_of(table, positions);
        let row = |(at, rid): (usize, &RowId)| (*rid, row_at(part.batch.columns(), &types, at));
        Ok(Part { rows: part.rids.iter().enumerate().map(row).collect(), next })
    }
}

/// All layout positions of a table.
pub(super) fn whole(table: &dyn Table) -> Vec<usize> {
    (0..table.layout().columns.len()).collect()
}

impl Background for LazyMoved {
    fn course(&self) -> &Course {
        &self.state.course
    }

    fn blocks(&self) -> u32 {
        1
    }

    fn is_complete(&self) -> bool {
        self.complete.load(Ordering::SeqCst) != 0
    }

    fn migrate_block(
        &self,
        _block: u32,
        who: Who,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), SchemaError> {
        let engine = &self.live().engine;
        while !self.is_complete() {
            if who == Who::Background && !engine.leads() {
                thread::sleep(LOOK_AGAIN);
                if !goes_on() {
                    return Ok(());
                }
                continue;
            }
            // It has the numbers of rows where parts begin.
            let pass = engine.snapshot();
            let (mut from, mut is_empty, mut done) = (RowId(0), true, Done::default());
            loop {
                let (of_part, next, has_rows) = self.move_part(from, who)?;
                is_empty &= !has_rows;
                done.moved += of_part.moved;
                done.failed = done.failed.or(of_part.failed);
                if !goes_on() {
                    return Ok(());
                }
                match next {
                    Some(next) => from = next,
                    None => break,
                }
            }
            drop(pass);
            if is_empty {
                // [V1]: nothing comes.
                self.complete.store(engine.now().0, Ordering::SeqCst);
            } else if let Some(error) = done.failed {
                return Err(error.into());
            } else if done.moved == 0 {
                thread::sleep(LOOK_AGAIN);
            }
        }
        Ok(())
    }

    fn struck_from(&self, def: &TableDef) -> Option<TableDef> {
        self.state.struck_from(def)
    }
}

impl LazyMigration for LazyMoved {
    fn state(&self) -> &LazyState {
        &self.state
    }

    fn go_live(
        &self,
        engine: Arc<dyn Engine>,
        target: Arc<dyn Table>,
        _blocks: u32,
    ) -> Result<(), SchemaError> {
        let columns = Columns::of(target.layout(), &self.state.def.outputs);
        let types = types_of(&*target, &whole(&*target));
        let live = Live { engine, target, columns, types };
        assert!(self.live.set(live).is_ok(), "a migration is committed once");
        self.siblings.live.write().push(self.own.clone());
        Ok(())
    }

    fn status(&self) -> MigrationStatus {
        let row_key = self.live.get().and_then(|live| live.target.layout().row_key);
        let host = row_key.and_then(|row_key| row_key.within);
        let status = self.course().status(self.progress(), self.rows_left());
        let kept_with = host.map(|_| self.state.def.source.name.clone());
        MigrationStatus { kept_with, ..status }
    }

    fn moved_source(&self) -> Option<&LazySource> {
        Some(&self.source)
    }

    fn moved_rows(&self) -> Option<Arc<dyn RowQuery>> {
        match &self.query {
            MovedQuery::Rows { query, lookups } => lookups.is_empty().then(|| query.clone()),
            MovedQuery::Groups { .. } => None,
        }
    }

    fn source_blocks(&self) -> u32 {
        0
    }

    fn is_live(&self) -> bool {
        self.live.get().is_some()
    }

    fn closes_sources(&self) -> bool {
        true
    }

    fn progress(&self) -> (u64, u64) {
        (u64::from(self.is_complete()), 1)
    }

    fn rows_left(&self) -> u64 {
        if self.is_complete() { 0 } else { self.source.table.row_estimate() }
    }

    fn origin(&self, id: ColumnId) -> Option<(usize, ColumnId)> {
        Some((0, self.plain(id)?))
    }

    fn is_unique(&self, columns: &[ColumnId]) -> bool {
        let of: Vec<ColumnId> = columns.iter().filter_map(|id| self.converted(*id)).collect();
        match self.query.groups() {
            None => self.state.def.source.is_unique_by(&of),
            Some(groups) => groups.is_one_by(self.source.table.layout(), &of),
        }
    }

    fn over(self: Arc<Self>, table: Arc<dyn Table>) -> Arc<dyn Table> {
        Arc::new(MovedTable::new(table, self))
    }
}
