//! A table whose rows are still being made lazily, as everybody reads and writes it.
//!
//! ```text
//!   a block      migrated rows of the table + what the query makes of the others      nothing is migrated
//!   a key        in the table? that is it (unique). Else the rows of the source ─▶ migrated, again
//!   a range      the rows of the source in that range ─▶ migrated, then the table
//!   a write      its row, and the rows whose unique key it takes ─▶ migrated, then written
//! ```
//!
//! Every way to the rows leads through here, so that nobody has to know that they are not all there. A key
//! for which the source has no index ([`Route`]) widens what is touched: everything is migrated first. Where
//! rows cannot be migrated, for want of memory, readers read what the query makes of them; writers fail.
//!
//! Before the commit only the owner has the table. He reads what the query makes of what he sees of the
//! source, and writes nothing.

use std::collections::{BTreeSet, HashSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave_record_batch;
use froglet_engine::{
    BlockRows, Direction, EngineError, EngineTxn, KeyPart, KeyRange, Layout, ReadFailed, Row,
    RowId, RowWrite, Snapshot, SqlState, Table, Ts, Value, WriteStop, key,
};
use froglet_txn::{Limits, aside};

use crate::background::Background;
use crate::course::Who;
use crate::delegate::{delegate_migration_to_table, delegate_to_table};
use crate::error::SchemaError;
use crate::keyed_rows::{KeyedRows, Visit};
use crate::lazy::{Columns, LazyMigration, as_engine};
use crate::lazy_rows::LazyRows;
use crate::route::Route;
use crate::rows::{row_at, types_of};

/// Rows of a range that are migrated before the first of them is read.
pub(crate) const RANGE_ROWS: usize = 16;
/// And at most at once, later.
pub(crate) const RANGE_ROWS_MOST: usize = 1024;

/// See the module.
pub(crate) struct LazyTable {
    table: Arc<dyn Table>,
    lazy: Arc<LazyRows>,
    columns: Columns,
    /// The way from each index of the layout.
    routes: Vec<Option<Route>>,
    /// Whoever reads a range of a key migrates nothing.
    reads_past: bool,
}

impl LazyTable {
    /// A table whose rows `lazy` makes.
    pub fn over(table: Arc<dyn Table>, lazy: Arc<LazyRows>) -> Arc<dyn Table> {
        Arc::new(LazyTable::new(table, lazy, false))
    }

    /// The same, for who reads each row once, and may be the last to want it: another lazy migration.
    pub fn past(table: Arc<dyn Table>, lazy: Arc<LazyRows>) -> Arc<dyn Table> {
        Arc::new(LazyTable::new(table, lazy, true))
    }

    fn new(table: Arc<dyn Table>, lazy: Arc<LazyRows>, reads_past: bool) -> LazyTable {
        let layout = table.layout();
        let (columns, routes) = (Columns::of(layout, &lazy.state.def.outputs), lazy.routes(layout));
        LazyTable { table, lazy, columns, routes, reads_past }
    }

    /// For a writer that wrote to the source before the commit, and commits after it: makes the row that
    /// is made of a source row this, if nobody has written it after `base`. Returns the row that it wrote.
    pub fn carry_over(
        lazy: &Arc<LazyRows>,
        txn: &mut dyn EngineTxn,
        base: Ts,
        source: RowId,
        made: &Option<Row>,
    ) -> Result<Option<RowId>, WriteStop> {
        lazy.migrate(&[source], Who::Access).map_err(stop)?;
        let table = LazyTable::over(lazy.target().clone(), lazy.clone());
        if !lazy.has_made(source).map_err(stop)? {
            // Its place may have another row by now.
            let Some(row) = made else { return Ok(None) };
            let mut rids = Vec::new();
            let inserted = table.insert(txn, std::slice::from_ref(row), &mut rids);
            return inserted.map(|()| rids.pop()).map_err(|(_, stop)| stop);
        }
        let all: Vec<usize> = (0..table.layout().columns.len()).collect();
        let write = match made {
            Some(values) => RowWrite::Update { rid: source, columns: &all, values },
            None => RowWrite::Delete { rid: source },
        };
        let written = table.write(txn, base, std::slice::from_ref(&write));
        written.map(|()| Some(source)).map_err(|(_, stop)| stop)
    }

    /// Before several rows are carried over: what was made of a source row has no unique keys meanwhile.
    pub fn give_keys_up(
        lazy: &Arc<LazyRows>,
        txn: &mut dyn EngineTxn,
        base: Ts,
        source: RowId,
    ) -> Result<(), WriteStop> {
        lazy.migrate(&[source], Who::Access).map_err(stop)?;
        let target = lazy.target();
        let unique = target.layout().indexes.iter().filter(|index| index.unique);
        let places: BTreeSet<usize> =
            unique.flat_map(|index| target.layout().key_positions(index)).collect();
        let places: Vec<usize> = places.into_iter().collect();
        if places.is_empty() || !lazy.has_made(source).map_err(stop)? {
            return Ok(());
        }
        let values = vec![Value::Null; places.len()];
        let write = RowWrite::Update { rid: source, columns: &places, values: &values };
        target.write(txn, base, std::slice::from_ref(&write)).map_err(|(_, stop)| stop)
    }

    fn is_complete(&self) -> bool {
        self.lazy.is_complete()
    }

    /// What is to be read of rows that are not migrated.
    fn shape<'a>(&'a self, places: &'a [usize]) -> (&'a Layout, &'a Columns, &'a [usize]) {
        (self.table.layout(), &self.columns, places)
    }

    /// Migrates the rows in a range of the key of an index.
    fn migrate_range(
        &self,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
    ) -> Result<bool, SchemaError> {
        let Some(route) = &self.routes[index] else {
            return self.lazy.migrate_all(&Limits::none()).map(|()| true);
        };
        let forward = Direction::Forward;
        if !self.lazy.may_be_left_in(route, range, forward) {
            // Whoever has looked before may have missed what was migrated since.
            return Ok(true);
        }
        let (rows, _) = self.lazy.rows_in(snapshot, route, range, forward, usize::MAX);
        self.lazy.migrate(&rows, Who::Access)?;
        Ok(!rows.is_empty())
    }

    /// Ranges of a key of which nothing is migrated: the owner's, before the commit; those of whoever migrates
    /// nothing; and whoever's, where there is no memory for more rows.
    fn seek_made(
        &self,
        snapshot: &Snapshot,
        index: usize,
        ranges: &[KeyRange],
        projection: &[usize],
    ) -> Vec<KeyedRows> {
        let layout = self.table.layout();
        let spec = &layout.indexes[index];
        let places = KeyedRows::places(layout, spec, projection);
        let types = types_of(&*self.table, &places);
        let mut rows: Vec<Vec<(RowId, Row)>> = vec![Vec::new(); ranges.len()];
        // Rows that are left: what the table has of them was migrated since, and is the same.
        let mut left: HashSet<RowId> = HashSet::new();
        if let Some(route) = &self.routes[index] {
            let shape = self.shape(&places);
            let (read, of_range) = self.lazy.read_ranges_left(snapshot, route, ranges, shape);
            for (rows, of_range) in rows.iter_mut().zip(of_range) {
                let made = of_range.into_iter().filter_map(|rid| Some((rid, read.get(&rid)?)));
                rows.extend(made.map(|(rid, row)| (rid, row.clone())));
            }
            left.extend(read.into_keys());
        } else {
            for block in 0..self.lazy.blocks() {
                let Some(left_in_it) = self.lazy.left_in(block) else { continue };
                let read = self.lazy.read_left(snapshot, block, &left_in_it, self.shape(&places));
                let read = read.unwrap_or_else(|error| ReadFailed::unwind(error));
                for (at, rid) in read.rids.iter().enumerate() {
                    let row = row_at(read.batch.columns(), &types, at);
                    let key = key::encode(&row, &spec.key);
                    for (range, rows) in ranges.iter().zip(&mut rows) {
                        if range.contains(&key) {
                            rows.push((*rid, row.clone()));
                        }
                    }
                }
                left.extend(read.rids);
            }
        }
        if self.lazy.is_live() {
            self.table.seek_all(snapshot, index, ranges, &places, &mut |number, rid, row| {
                if !left.contains(&rid) {
                    rows[number].push((rid, std::mem::take(row)));
                }
            });
        }
        let keyed = rows.into_iter().zip(ranges);
        keyed.map(|(rows, range)| KeyedRows::new(rows, spec, range)).collect()
    }

    /// The first row that `seek` finds.
    fn first(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        projection: &[usize],
        out: &mut Row,
    ) -> Option<RowId> {
        let mut found = None;
        let mut visit = |rid: RowId, row: &mut Row| {
            found = Some((rid, std::mem::take(row)));
            ControlFlow::Break(())
        };
        let range = KeyRange::exactly(key);
        self.seek(snapshot, index, &range, Direction::Forward, projection, &mut visit);
        let (rid, row) = found?;
        out.extend(row);
        Some(rid)
    }
}

/// A range up to where a part of it ends, inclusive, that begins with `end`; and the rest of it.
pub(crate) fn divided(
    range: KeyRange,
    end: &[u8],
    direction: Direction,
) -> (KeyRange, Option<KeyRange>) {
    match direction {
        Direction::Forward => {
            let Some(next) = key::successor(end) else { return (range, None) };
            if !range.goes_above(&next) {
                return (range, None);
            }
            let part = KeyRange { lower: range.lower, upper: Bound::Excluded(next.clone()) };
            (part, Some(KeyRange { lower: Bound::Included(next), upper: range.upper }))
        }
        Direction::Backward => {
            if !range.goes_below(end) {
                return (range, None);
            }
            let part = KeyRange { lower: Bound::Included(end.to_vec()), upper: range.upper };
            (part, Some(KeyRange { lower: range.lower, upper: Bound::Excluded(end.to_vec()) }))
        }
    }
}

/// The owner writes nothing before the commit.
pub(crate) fn refused_to_owner(lazy: &dyn LazyMigration) -> Result<(), (usize, WriteStop)> {
    if lazy.is_live() {
        return Ok(());
    }
    lazy.state().outgrow();
    let message = "writing to a table in the transaction that makes it lazily is not supported \
                   (commit first, or set froglet.migration to eager)";
    let (state, message) = (SqlState::FEATURE_NOT_SUPPORTED, message.to_owned());
    Err((0, WriteStop::Engine(EngineError::Refused { state, message })))
}

/// The keys, without a NULL, that a row has in unique indexes over columns that are set: by the layout
/// position of the index, each as a range.
pub(crate) fn unique_keys(
    layout: &Layout,
    row: &[Value],
    is_set: impl Fn(usize) -> bool,
) -> Vec<(usize, KeyRange)> {
    let mut keys = Vec::new();
    for (at, index) in layout.indexes.iter().enumerate().filter(|(_, index)| index.unique) {
        let places: Vec<usize> = layout.key_positions(index).collect();
        let has_null = places.iter().any(|place| row[*place].is_null());
        if has_null || !places.iter().any(|place| is_set(*place)) {
            continue;
        }
        let key = key::encode(places.iter().map(|place| &row[*place]), &index.key);
        keys.push((at, KeyRange::exactly(&key)));
    }
    keys
}

/// The unique keys that a write takes.
pub(crate) fn taken_keys(
    table: &dyn Table,
    txn: &dyn EngineTxn,
    write: &RowWrite<'_>,
) -> Vec<(usize, KeyRange)> {
    let RowWrite::Update { rid, columns, values } = write else { return Vec::new() };
    let layout = table.layout();
    let is_set = |part: &KeyPart| columns.iter().any(|at| layout.columns[*at].id == part.column);
    let unique = layout.indexes.iter().filter(|index| index.unique);
    if !unique.into_iter().any(|index| index.key.iter().any(is_set)) {
        return Vec::new();
    }
    let all: Vec<usize> = (0..layout.columns.len()).collect();
    let mut row = Row::new();
    if !table.read_row(txn.snapshot(), *rid, &all, &mut row) {
        return Vec::new();
    }
    for (at, value) in columns.iter().zip(values.iter()) {
        row[*at] = value.clone();
    }
    unique_keys(layout, &row, |place| columns.contains(&place))
}

/// What an error of migrating means to a write.
pub(crate) fn stop(error: SchemaError) -> WriteStop {
    match error {
        SchemaError::Engine(e) => WriteStop::Engine(e),
        other => WriteStop::Engine(as_engine(&other)),
    }
}

impl Table for LazyTable {
    fn read_block(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<BlockRows, EngineError> {
        let left = (block < self.lazy.blocks()).then(|| self.lazy.left_in(block)).flatten();
        let Some(left) = left else { return self.table.read_block(snapshot, block, projection) };
        let made = self.lazy.read_left(snapshot, block, &left, self.shape(projection))?;
        let mut there = self.table.read_block(snapshot, block, projection)?;
        // What was migrated since is in both.
        let is_new = |rid: &RowId| left.contains(rid.slot());
        if there.rids.iter().any(is_new) {
            let stays: BooleanArray = there.rids.iter().map(|rid| Some(!is_new(rid))).collect();
            there.batch = filter_record_batch(&there.batch, &stays).expect("a flag for each row");
            there.rids.retain(|rid| !is_new(rid));
        }
        Ok(merged(there, made))
    }

    fn read_row(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
    ) -> bool {
        if self.lazy.is_migrated(rid) {
            return self.table.read_row(snapshot, rid, projection, out);
        }
        self.lazy.read_one_left(snapshot, rid, self.shape(projection), out)
    }

    fn read_rows(
        &self,
        snapshot: &Snapshot,
        rids: &[RowId],
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row),
    ) {
        let left: Vec<RowId> =
            rids.iter().filter(|rid| !self.lazy.is_migrated(**rid)).copied().collect();
        if left.is_empty() {
            return self.table.read_rows(snapshot, rids, projection, visit);
        }
        let types = types_of(&*self.table, projection);
        let made = self.lazy.read_rows_left(snapshot, &left, self.shape(projection));
        let (mut left, mut made_at) = (left.into_iter().peekable(), 0);
        let mut row = Row::new();
        for rid in rids {
            row.clear();
            let is_there = if left.next_if_eq(rid).is_none() {
                self.table.read_row(snapshot, *rid, projection, &mut row)
            } else if made.rids.get(made_at) == Some(rid) {
                row.extend(row_at(made.batch.columns(), &types, made_at));
                made_at += 1;
                true
            } else {
                false
            };
            if is_there {
                visit(*rid, &mut row);
            }
        }
    }

    fn get_by_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        projection: &[usize],
        out: &mut Row,
    ) -> Option<RowId> {
        let is_unique = self.table.layout().indexes[index].unique;
        if !is_unique || !self.lazy.is_live() || self.reads_past {
            return self.first(snapshot, index, key, projection, out);
        }
        // Asked first: what is migrated between a look that finds nothing and the question would be missed.
        let is_complete = self.is_complete();
        // Of two rows with one unique key a view sees one.
        let found = self.table.get_by_key(snapshot, index, key, projection, out);
        if found.is_some() || is_complete {
            return found;
        }
        match self.migrate_range(snapshot, index, &KeyRange::exactly(key)) {
            Ok(is_made) => is_made
                .then(|| self.table.get_by_key(snapshot, index, key, projection, out))
                .flatten(),
            Err(_) => self.first(snapshot, index, key, projection, out),
        }
    }

    fn seek(
        &self,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row) -> ControlFlow<()>,
    ) {
        if self.is_complete() {
            return self.table.seek(snapshot, index, range, direction, projection, visit);
        }
        let through = |range: &KeyRange, visit: &mut Visit<'_>| {
            let ranges = std::slice::from_ref(range);
            let found = aside(|| self.seek_made(snapshot, index, ranges, projection));
            found.into_iter().for_each(|rows| rows.visit(direction, visit));
        };
        if !self.lazy.is_live() {
            return through(range, visit);
        }
        let Some(route) = &self.routes[index] else {
            return match self.lazy.migrate_all(&Limits::none()) {
                Ok(()) => self.table.seek(snapshot, index, range, direction, projection, visit),
                Err(_) => through(range, visit),
            };
        };
        if !self.lazy.may_be_left_in(route, range, direction) {
            return self.table.seek(snapshot, index, range, direction, projection, visit);
        }
        let (mut rest, mut most) = (range.clone(), RANGE_ROWS);
        loop {
            let (mut rows, end) = self.lazy.rows_in(snapshot, route, &rest, direction, most);
            rows.retain(|row| !self.lazy.is_migrated(*row));
            let (part, others) = match end {
                Some(end) => divided(rest, &end, direction),
                None => (rest, None),
            };
            let mut is_over = false;
            let mut visit = |rid: RowId, row: &mut Row| {
                let flow = visit(rid, row);
                is_over = flow.is_break();
                flow
            };
            if self.reads_past || self.lazy.migrate(&rows, Who::Access).is_err() {
                through(&part, &mut visit);
            } else {
                self.table.seek(snapshot, index, &part, direction, projection, &mut visit);
            }
            match others {
                Some(others) if !is_over => rest = others,
                _ => return,
            }
            most = (most * 4).min(RANGE_ROWS_MOST);
        }
    }

    fn seek_all(
        &self,
        snapshot: &Snapshot,
        index: usize,
        ranges: &[KeyRange],
        projection: &[usize],
        visit: &mut dyn FnMut(usize, RowId, &mut Row),
    ) {
        if self.is_complete() {
            return self.table.seek_all(snapshot, index, ranges, projection, visit);
        }
        let migrates = self.lazy.is_live() && !(self.reads_past && self.routes[index].is_some());
        let migrate = |range: &KeyRange| self.migrate_range(snapshot, index, range);
        if migrates && ranges.iter().all(|range| migrate(range).is_ok()) {
            return self.table.seek_all(snapshot, index, ranges, projection, visit);
        }
        let found = aside(|| self.seek_made(snapshot, index, ranges, projection));
        for (number, rows) in found.into_iter().enumerate() {
            rows.visit(Direction::Forward, &mut |rid, row| {
                visit(number, rid, row);
                ControlFlow::Continue(())
            });
        }
    }

    fn row_estimate(&self) -> u64 {
        self.table.row_estimate().max(self.lazy.rows_left())
    }

    fn block_count(&self) -> u32 {
        self.table.block_count().max(self.lazy.blocks())
    }

    fn insert(
        &self,
        txn: &mut dyn EngineTxn,
        rows: &[Row],
        rids: &mut Vec<RowId>,
    ) -> Result<(), (usize, WriteStop)> {
        refused_to_owner(&*self.lazy)?;
        if !self.is_complete() {
            let snapshot = txn.snapshot().clone();
            for row in rows {
                for (index, range) in unique_keys(self.table.layout(), row, |_| true) {
                    let migrated = self.migrate_range(&snapshot, index, &range);
                    migrated.map_err(|e| (0, stop(e)))?;
                }
            }
        }
        self.table.insert(txn, rows, rids)
    }

    fn write(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        writes: &[RowWrite<'_>],
    ) -> Result<(), (usize, WriteStop)> {
        refused_to_owner(&*self.lazy)?;
        if !self.is_complete() {
            for write in writes {
                self.lazy.migrate(&[write.rid()], Who::Access).map_err(|e| (0, stop(e)))?;
                let snapshot = txn.snapshot().clone();
                for (index, range) in taken_keys(&*self.table, txn, write) {
                    let migrated = self.migrate_range(&snapshot, index, &range);
                    migrated.map_err(|e| (0, stop(e)))?;
                }
            }
        }
        self.table.write(txn, base, writes)
    }

    fn changed_since(&self, rid: RowId, ts: Ts) -> bool {
        self.table.changed_since(rid, ts)
    }

    delegate_to_table!();
    delegate_migration_to_table!();
}

/// Rows of one block from two sides, by row id.
fn merged(a: BlockRows, b: BlockRows) -> BlockRows {
    if b.rids.is_empty() {
        return a;
    }
    if a.rids.is_empty() {
        return b;
    }
    let (mut left, mut right) = (a.rids.iter().enumerate().peekable(), 0..b.rids.len());
    let mut order = Vec::with_capacity(a.rids.len() + b.rids.len());
    for at in right.by_ref() {
        while let Some((n, _)) = left.next_if(|(_, rid)| **rid < b.rids[at]) {
            order.push((0, n));
        }
        order.push((1, at));
    }
    order.extend(left.map(|(n, _)| (0, n)));
    let rids = order.iter().map(|&(side, at)| if side == 0 { a.rids[at] } else { b.rids[at] });
    let rids = rids.collect();
    if a.batch.num_columns() == 0 {
        // Rows that are only counted.
        let options = RecordBatchOptions::new().with_row_count(Some(order.len()));
        let batch = RecordBatch::try_new_with_options(a.batch.schema(), Vec::new(), &options);
        return BlockRows { rids, batch: batch.expect("no columns have any number of rows") };
    }
    let batch = interleave_record_batch(&[&a.batch, &b.batch], &order);
    BlockRows { rids, batch: batch.expect("both sides have the same columns") }
}
