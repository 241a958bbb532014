//! A table whose rows are still moving to it, as everybody reads and writes it (SLSM, section 4.2).
//!
//! ```text
//!   a read      rows of the table  ∪  what the query makes of rows of the source       at one timestamp, asked at once
//!   a write     holds the row of the source ─▶ moves it, with all it becomes ─▶ writes    in one transaction: fused
//!   an insert   whoever has its key in the source moves first
//! ```
//! Whoever reads moves nothing. Without fusion rows that are wanted are moved before, in a transaction of their own.
//!
//! A scan has two blocks: the table's rows, and those that are left.

use std::ops::ControlFlow;
use std::sync::Arc;

use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    Ask, BlockRows, ColumnType, Direction, EngineError, EngineTxn, Found, KeyRange, ReadFailed,
    Row, RowId, RowWrite, Snapshot, Table, Ts, Value, Which, WriteStop, batch, key,
};

use crate::course::Who;
use crate::delegate::{delegate_migration_to_table, delegate_to_table};
use crate::error::SchemaError;
use crate::keyed_rows::KeyedRows;
use crate::lazy::moved::{LazyMoved, Part, is_of_rows, moving, whole};
use crate::lazy::{Columns, made};
use crate::lazy_table::{
    RANGE_ROWS, RANGE_ROWS_MOST, divided, refused_to_owner, taken_keys, unique_keys,
};
use crate::route::Route;
use crate::rows::types_of;

/// Where the block of those that are left begins.
const LEFT: RowId = RowId(ROWS_PER_BLOCK as u64);

/// See the module.
pub(crate) struct MovedTable {
    table: Arc<dyn Table>,
    lazy: Arc<LazyMoved>,
    columns: Columns,
    types: Vec<ColumnType>,
    /// The way from each index of the layout.
    routes: Vec<Option<Route>>,
}

impl MovedTable {
    /// A table that rows move to.
    pub fn new(table: Arc<dyn Table>, lazy: Arc<LazyMoved>) -> MovedTable {
        let layout = table.layout();
        MovedTable {
            columns: Columns::of(layout, lazy.outputs()),
            types: types_of(&*table, &whole(&*table)),
            routes: lazy.routes(layout),
            lazy,
            table,
        }
    }

    /// What is made of rows of the source, of which its inputs were read: the columns at these places.
    fn made_of(
        &self,
        snapshot: &Snapshot,
        read: Vec<(RowId, Row)>,
        places: &[usize],
    ) -> Result<Vec<(RowId, Row)>, SchemaError> {
        Ok(self.made_of_each(snapshot, vec![read], places)?.pop().unwrap_or_default())
    }

    /// The same of several lists: all are looked up for and computed together.
    fn made_of_each(
        &self,
        snapshot: &Snapshot,
        read: Found,
        places: &[usize],
    ) -> Result<Found, SchemaError> {
        let mut found: Found = read.iter().map(|_| Vec::new()).collect();
        let lists = read.iter().enumerate();
        let of: Vec<(usize, RowId)> =
            lists.flat_map(|(list, rows)| rows.iter().map(move |(rid, _)| (list, *rid))).collect();
        if of.is_empty() {
            return Ok(found);
        }
        let (rids, read): (Vec<RowId>, Vec<Row>) = read.into_iter().flatten().unzip();
        let in_lists: Vec<usize> = of.iter().map(|(list, _)| *list).collect();
        let made = self.lazy.eval(snapshot, &in_lists, rids, &read)?;
        let from = made.rids.clone();
        let rows = made.rows(self.table.layout(), &self.columns, &self.types);
        let (table, mut of) = (moving(&*self.table), of.into_iter());
        for (from, row) in from.into_iter().zip(rows) {
            let (list, _) = of.find(|(_, rid)| *rid == from).expect("in the same order");
            let rid = table.row_made_of(from, &row);
            found[list].push((rid, places.iter().map(|at| row[*at].clone()).collect()));
        }
        Ok(found)
    }

    /// Asks the table, and its source for what is made of the rows there, at once. The answers are for as many.
    fn ask(&self, snapshot: &Snapshot, here: Ask<'_>, there: Which<'_>) -> Vec<Vec<(RowId, Row)>> {
        let source = self.lazy.source();
        let there = Ask { which: there, projection: self.lazy.inputs() };
        if self.lazy.moves_before() {
            self.move_before(snapshot, there.which);
        }
        let (mut found, left): (Found, Found) =
            moving(&*self.table).ask_both(snapshot, here, source, there);
        let left = self.lazy.completed(snapshot, left, there.which);
        let left = made(self.made_of_each(snapshot, left, here.projection));
        found.iter_mut().zip(left).for_each(|(found, left)| found.extend(left));
        found
    }

    /// Moves rows of the source, each as a view has it, in transactions of its own. Whatever is in the way: whoever wants
    /// them finds them there, too.
    fn move_before(&self, snapshot: &Snapshot, which: Which<'_>) {
        let source = self.lazy.source();
        let left = Ask { which, projection: &whole(source) }.of(source, snapshot);
        let left: Vec<(RowId, Row)> = left.into_iter().flatten().collect();
        if let Err(error) = self.lazy.move_alone(snapshot, &left, Who::Access) {
            tracing::debug!(%error, "rows are left where they were wanted");
        }
    }

    /// The rows in ranges of the key of an index, and maybe others: its key, and a projection of each.
    fn in_ranges(
        &self,
        snapshot: &Snapshot,
        index: usize,
        ranges: &[KeyRange],
        places: &[usize],
    ) -> Vec<Vec<(RowId, Row)>> {
        let here = Ask { which: Which::Ranges(index, ranges), projection: places };
        let Some(route) = &self.routes[index] else {
            let mut found = here.of(&*self.table, snapshot);
            let left = self.all_left(snapshot, places);
            let left = left.unwrap_or_else(|error| ReadFailed::unwind(error));
            for found in &mut found {
                found.extend(left.iter().cloned());
            }
            return found;
        };
        let routed: Vec<KeyRange> = ranges.iter().map(|range| route.range(range)).collect();
        self.ask(snapshot, here, Which::Ranges(route.index, &routed))
    }

    /// What is made of all rows that are left.
    fn all_left(
        &self,
        snapshot: &Snapshot,
        places: &[usize],
    ) -> Result<Vec<(RowId, Row)>, EngineError> {
        let (mut all, mut from) = (Vec::new(), Some(LEFT));
        while let Some(at) = from {
            let part = self.part_left(snapshot, at, places)?;
            all.extend(part.rows);
            from = part.next;
        }
        Ok(all)
    }

    /// What is made of some rows that are left.
    fn part_left(
        &self,
        snapshot: &Snapshot,
        from: RowId,
        places: &[usize],
    ) -> Result<Part, EngineError> {
        let from = if from == LEFT { RowId(0) } else { from };
        let part = self.lazy.part(snapshot, from)?;
        let rows = made(self.made_of(snapshot, part.rows, places));
        Ok(Part { rows, next: part.next })
    }

    fn block_of(&self, rows: Vec<(RowId, Row)>, projection: &[usize]) -> BlockRows {
        let (rids, rows): (Vec<RowId>, Vec<Row>) = rows.into_iter().unzip();
        BlockRows { batch: batch::batch_of(&types_of(&*self.table, projection), &rows), rids }
    }

    /// Rows by their ids, each if it is there.
    fn by_ids(&self, snapshot: &Snapshot, rids: &[RowId], projection: &[usize]) -> Found {
        let table = moving(&*self.table);
        let made_of: Vec<(usize, RowId)> = rids
            .iter()
            .enumerate()
            .filter_map(|(at, rid)| Some((at, table.made_of(*rid)?)))
            .collect();
        let from: Vec<RowId> = made_of.iter().map(|(_, from)| *from).collect();
        let here = Ask { which: Which::Rows(rids), projection };
        let there = Ask { which: Which::Rows(&from), projection: self.lazy.inputs() };
        let (mut found, left) = table.ask_both(snapshot, here, self.lazy.source(), there);
        let left = self.lazy.completed(snapshot, left, there.which);
        let left = made(self.made_of_each(snapshot, left, projection));
        for ((at, _), left) in made_of.into_iter().zip(left) {
            if found[at].is_empty() {
                found[at] = left;
            }
        }
        found
    }

    /// Moves those that have one of some unique keys: others may be moved with them.
    fn take_keys(
        &self,
        txn: &mut dyn EngineTxn,
        keys: Vec<(usize, KeyRange)>,
    ) -> Result<(), WriteStop> {
        let snapshot = txn.snapshot().clone();
        let table = moving(&*self.table);
        for index in 0..self.routes.len() {
            let ranges: Vec<KeyRange> = keys
                .iter()
                .filter(|(at, _)| *at == index)
                .map(|(_, range)| range.clone())
                .collect();
            if ranges.is_empty() {
                continue;
            }
            let spec = &self.table.layout().indexes[index];
            let places = KeyedRows::places(self.table.layout(), spec, &[]);
            let left = match &self.routes[index] {
                Some(route) => {
                    let routed: Vec<KeyRange> = ranges.iter().map(|r| route.range(r)).collect();
                    let which = Which::Ranges(route.index, &routed);
                    let left = Ask { which, projection: self.lazy.inputs() }
                        .of(self.lazy.source(), &snapshot);
                    let left = self.lazy.completed(&snapshot, left, which);
                    let left = made(self.made_of_each(&snapshot, left, &places));
                    left.into_iter().flatten().collect()
                }
                None => self.all_left(&snapshot, &places)?,
            };
            let is_wanted = |row: &Row| {
                let key = key::encode(row, &spec.key);
                ranges.iter().any(|range| range.contains(&key))
            };
            let from = left.into_iter().filter(|(_, row)| is_wanted(row));
            let mut from: Vec<RowId> = from.filter_map(|(rid, _)| table.made_of(rid)).collect();
            from.sort_unstable();
            from.dedup();
            self.lazy.take(txn, Ts::LATEST, &from)?;
        }
        Ok(())
    }

    /// Moves, or holds, those rows that are left, all at once as a rule. Where something is in the way of one, each is moved
    /// when it is written.
    fn take_all(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        writes: &[RowWrite<'_>],
    ) -> Result<(), WriteStop> {
        if writes.len() == 1 {
            return Ok(());
        }
        let table = moving(&*self.table);
        let mut from: Vec<RowId> =
            writes.iter().filter_map(|write| table.made_of(write.rid())).collect();
        from.sort_unstable();
        from.dedup();
        let is_lock = |write: &RowWrite<'_>| matches!(write, RowWrite::Lock { .. });
        let taken = match writes.iter().any(is_lock) {
            true => self.lazy.lock(txn, base, &from).map(drop),
            false => self.lazy.take(txn, base, &from).map(drop),
        };
        match taken {
            Err(WriteStop::Engine(error)) if !is_of_rows(&error) => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// A write of a row, which may be left.
    fn write_one(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        write: &RowWrite<'_>,
    ) -> Result<(), WriteStop> {
        let plain = |txn: &mut dyn EngineTxn, base| {
            self.table.write(txn, base, std::slice::from_ref(write)).map_err(|(_, stop)| stop)
        };
        let Some(from) = moving(&*self.table).made_of(write.rid()) else {
            return plain(txn, base);
        };
        let is_left = match write {
            RowWrite::Lock { .. } => {
                self.lazy.lock(txn, base, &[from]).map(|left| !left.is_empty())
            }
            RowWrite::Update { .. } | RowWrite::Delete { .. } => self.lazy.take(txn, base, &[from]),
        };
        if let (RowWrite::Delete { .. }, Err(WriteStop::Engine(error))) = (write, &is_left)
            && is_of_rows(error)
            && self.lazy.delete_left(txn, from)?
        {
            return Ok(());
        }
        match (is_left, write) {
            (Ok(true), RowWrite::Lock { .. }) => return Ok(()),
            // It has it.
            (Ok(true), _) => return plain(txn, Ts::LATEST),
            (Ok(false) | Err(WriteStop::Changed | WriteStop::Gone), _) => {}
            (Err(stop), _) => return Err(stop),
        }
        match plain(txn, base) {
            // It may have moved since, and no more.
            Err(WriteStop::Changed) if self.is_as_it_was(txn, base, write.rid())? => {
                plain(txn, Ts::LATEST)
            }
            written => written,
        }
    }

    /// Whether a row, which is held from then on, is what it was at `base`.
    fn is_as_it_was(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        rid: RowId,
    ) -> Result<bool, WriteStop> {
        let snapshot = txn.snapshot().clone();
        if snapshot.ts != base {
            return Ok(false);
        }
        let all = whole(&*self.table);
        let was = self.by_ids(&snapshot, &[rid], &all).pop().and_then(|mut found| found.pop());
        let mut now = None;
        let rows = std::slice::from_ref(&rid);
        moving(&*self.table).hold(txn, Ts::LATEST, rows, &all, &mut |_, row| now = Some(row))?;
        Ok(was
            .zip(now)
            .is_some_and(|((_, was), now)| was.iter().zip(&now).all(|(a, b)| is_same(a, b))))
    }
}

/// Whether two values are one, NaN too.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float32(a), Value::Float32(b)) => a.to_bits() == b.to_bits(),
        (Value::Float64(a), Value::Float64(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}

impl Table for MovedTable {
    fn read_block(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<BlockRows, EngineError> {
        match block {
            0 => self.table.read_block(snapshot, block, projection),
            1 if self.lazy.is_left_to(snapshot) => {
                Ok(self.block_of(self.all_left(snapshot, projection)?, projection))
            }
            _ => Ok(self.block_of(Vec::new(), projection)),
        }
    }

    fn read_part(
        &self,
        snapshot: &Snapshot,
        from: RowId,
        projection: &[usize],
    ) -> Result<(BlockRows, Option<RowId>), EngineError> {
        let is_left = from == LEFT || moving(self.lazy.source()).is_part(from);
        if !is_left {
            return self.table.read_part(snapshot, from, projection);
        }
        if !self.lazy.is_left_to(snapshot) {
            return Ok((self.block_of(Vec::new(), projection), None));
        }
        let part = self.part_left(snapshot, from, projection)?;
        Ok((self.block_of(part.rows, projection), part.next))
    }

    fn has_parts(&self) -> bool {
        true
    }

    fn read_row(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
    ) -> bool {
        if !self.lazy.is_left_to(snapshot) {
            return self.table.read_row(snapshot, rid, projection, out);
        }
        let found = self.by_ids(snapshot, &[rid], projection).pop().and_then(|mut rows| rows.pop());
        let is_there = found.is_some();
        out.extend(found.into_iter().flat_map(|(_, row)| row));
        is_there
    }

    fn read_rows(
        &self,
        snapshot: &Snapshot,
        rids: &[RowId],
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row),
    ) {
        if !self.lazy.is_left_to(snapshot) {
            return self.table.read_rows(snapshot, rids, projection, visit);
        }
        for (rid, mut row) in self.by_ids(snapshot, rids, projection).into_iter().flatten() {
            visit(rid, &mut row);
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
        let mut found = None;
        let range = KeyRange::exactly(key);
        self.seek(snapshot, index, &range, Direction::Forward, projection, &mut |rid, row| {
            out.append(row);
            found = Some(rid);
            ControlFlow::Break(())
        });
        found
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
        if !self.lazy.is_left_to(snapshot) {
            return self.table.seek(snapshot, index, range, direction, projection, visit);
        }
        let (mut rest, mut most) = (range.clone(), RANGE_ROWS);
        let spec = &self.table.layout().indexes[index];
        let places = KeyedRows::places(self.table.layout(), spec, projection);
        loop {
            let end = match &self.routes[index] {
                // As a rule it is one row.
                Some(route) if rest.one().is_none() => {
                    route.rows_in(self.lazy.source(), snapshot, &rest, direction, most).1
                }
                _ => None,
            };
            let (part, others) = match end {
                Some(end) => divided(rest, &end, direction),
                None => (rest, None),
            };
            let rows = self.in_ranges(snapshot, index, std::slice::from_ref(&part), &places);
            let mut is_over = false;
            for rows in rows {
                KeyedRows::new(rows, spec, &part).visit(direction, &mut |rid, row| {
                    let flow = visit(rid, row);
                    is_over |= flow.is_break();
                    flow
                });
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
        if !self.lazy.is_left_to(snapshot) {
            return self.table.seek_all(snapshot, index, ranges, projection, visit);
        }
        let spec = &self.table.layout().indexes[index];
        let places = KeyedRows::places(self.table.layout(), spec, projection);
        let found = self.in_ranges(snapshot, index, ranges, &places);
        for (number, (rows, range)) in found.into_iter().zip(ranges).enumerate() {
            KeyedRows::new(rows, spec, range).visit(Direction::Forward, &mut |rid, row| {
                visit(number, rid, row);
                ControlFlow::Continue(())
            });
        }
    }

    fn row_estimate(&self) -> u64 {
        self.table.row_estimate()
    }

    fn rows_for_plans(&self) -> u64 {
        self.table.rows_for_plans() + self.lazy.rows_left_for_plans()
    }

    fn block_count(&self) -> u32 {
        // Also when nothing is left: to whoever has an older view, something is.
        2
    }

    fn insert(
        &self,
        txn: &mut dyn EngineTxn,
        rows: &[Row],
        rids: &mut Vec<RowId>,
    ) -> Result<(), (usize, WriteStop)> {
        refused_to_owner(&*self.lazy)?;
        if self.lazy.is_left_to(txn.snapshot()) {
            let layout = self.table.layout();
            let keys = rows.iter().flat_map(|row| unique_keys(layout, row, |_| true)).collect();
            self.take_keys(txn, keys).map_err(|stop| (0, stop))?;
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
        if !self.lazy.is_left_to(txn.snapshot()) {
            return self.table.write(txn, base, writes);
        }
        self.take_all(txn, base, writes).map_err(|stop| (0, stop))?;
        for (n, write) in writes.iter().enumerate() {
            let keys = taken_keys(self, txn, write);
            self.take_keys(txn, keys).map_err(|stop| (n, stop))?;
            self.write_one(txn, base, write).map_err(|stop| (n, stop))?;
        }
        Ok(())
    }

    fn changed_since(&self, rid: RowId, ts: Ts) -> bool {
        let from = moving(&*self.table).made_of(rid);
        self.table.changed_since(rid, ts)
            || from.is_some_and(|from| self.lazy.source().changed_since(from, ts))
    }

    delegate_to_table!();
    delegate_migration_to_table!();
}
