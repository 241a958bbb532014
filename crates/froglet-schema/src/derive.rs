//! A new table made of others by a query: CREATE TABLE AS with joins, groups and unions (Tesseract,
//! section 5; n:1 and n:n).
//!
//! ```text
//!   orders            lineage                unit 7                        target
//!   row 1  key a ──▶  1 → 7, 5 → 7  ──┐
//!   row 5  key a                      ├──▶  query of rows 1, 5 and 2 ──▶  rows 10, 11: unit 7
//!   items             lineage         │
//!   row 2  key a ──▶  2 → 7  ─────────┘
//! ```
//!
//! A unit is a bucket of keys (of groups, of joins) by which the query falls into parts that have nothing
//! to do with each other. The scan runs the query once over everything, and notes of which unit each
//! row is that it reads or makes. Capture takes the units that changed rows were of and are of now,
//! runs the query over the rows of these units alone, and writes where the target differs.
//!
//! Where each row of one input makes rows of its own (a join: the driver is its larger side), what is made
//! again is what such rows make, of the others' rows with their keys: a row of orders that changes is one
//! row of a million that have the same state.
//!
//! D1: units are made again under one lock (`state`). So of two results for a unit the later one is
//!     of the later rows, and stands.
//! D2: a row counts in the unit that its lineage says, or, where it has moved or gone since it was looked
//!     at, in none: then the feed has it, and that unit and its new one will be made again. A print is
//!     that of the values with which the row counts in everything that was made of it.
//! D3: the scan reads what the owner has written to the sources before it. Those rows stay what they were
//!     (`kept`), whatever the owner does to them later, and nobody else changes them.
//! D4: the owner writes to a row that was made of others only when it holds all rows of its unit. Rows may
//!     still be added to the unit by others; where that changes a row that the owner has written, its
//!     transaction fails.
//! D5: under a fixed snapshot, as in `copy.rs` [T5].
//!
//! Left out on purpose: what a change does to a unit is not computed from the change. A unit of a million
//! rows is read again for one of them.

use std::collections::{HashMap, HashSet};
use std::iter::repeat;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    BlockRows, CrashPoint, EngineTxn, Row, RowId, Snapshot, SpaceId, SqlState, Table, Ts,
    WriteStop, batch, key,
};
use froglet_txn::{Transaction, TxnError};
use parking_lot::Mutex;

use crate::change::{UnitQuery, UnitRows};
use crate::error::SchemaError;
use crate::lineage::{Lineage, Unit};
use crate::rows::{read_rows, row_at, types_of};
use crate::target::{Maker, Source, Target, Writes, stop_of};

/// Captured rows whose units are made again at once.
const BATCH_ROWS: usize = 1024;
/// With more of a block's rows than this, all of it is read.
const BLOCK_IS_READ_AT: usize = ROWS_PER_BLOCK / 16;

/// One derivation: of what, how, to where, and how far it is.
pub struct Derivation {
    query: Arc<dyn UnitQuery>,
    inputs: Vec<Input>,
    target: Target,
    state: Mutex<State>,
    stopped: AtomicBool,
}

struct Input {
    source: Source,
    /// Layout positions of the columns that the query reads.
    columns: Vec<usize>,
    lineage: Mutex<Lineage>,
    /// Rows that the owner had written before [D3]; what they were to the query, once that has read
    /// them.
    kept: Mutex<HashMap<RowId, Option<Row>>>,
}

#[derive(Default)]
struct State {
    /// Rows that have changed while the scan was under way, by space; `None` from its end on.
    waiting: Option<HashMap<SpaceId, Vec<RowId>>>,
    /// The units of target rows.
    made: Lineage,
    /// Units that are to be made again: those of a failure, too, which may be mended.
    unmade: HashSet<Unit>,
}

impl Derivation {
    /// A derivation for a transaction, of nothing yet. `sources`: for each input of the query a table,
    /// and the layout positions of the columns that are read.
    pub fn new(
        txn: &mut Transaction,
        query: Arc<dyn UnitQuery>,
        sources: Vec<(Source, Vec<usize>)>,
        target: Arc<dyn Table>,
    ) -> Derivation {
        let target = Target::new(txn, target);
        let inputs = sources.into_iter().map(|(source, columns)| {
            let own = txn.part().rows_written(source.table.space());
            Input {
                columns,
                source,
                lineage: Mutex::default(),
                kept: Mutex::new(own.into_iter().map(|rid| (rid, None)).collect()),
            }
        });
        let inputs = inputs.collect();
        let state = State { waiting: Some(HashMap::new()), ..State::default() };
        let stopped = AtomicBool::new(false);
        Derivation { query, inputs, target, state: Mutex::new(state), stopped }
    }

    /// Rows of the target that were made of others.
    pub fn rows(&self) -> u64 {
        self.target.rows()
    }

    /// Blocks of a table that the scan reads: those of one that is read twice count twice.
    pub fn blocks_of(&self, space: SpaceId) -> u64 {
        let of_it = self.inputs.iter().filter(|input| input.source.table.space() == space);
        of_it.map(|input| u64::from(input.source.table.block_count())).sum()
    }

    /// Ends a scan that is under way.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Whether a scan is to end.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// The owner has ended.
    pub fn release(&self) {
        self.target.release();
    }

    /// Runs the query over everything. `progress` is told of each block that was read: its table, and
    /// how many rows it had.
    pub fn scan(
        self: Arc<Self>,
        threads: usize,
        progress: impl Fn(SpaceId, u64) + Send + Sync + 'static,
    ) -> Result<(), SchemaError> {
        let blocks = |input: &Input| input.source.table.block_count();
        let unread = self.inputs.iter().map(|i| Mutex::new((0..blocks(i)).collect())).collect();
        let scan = Arc::new(Scan {
            blocks: self.inputs.iter().map(blocks).collect(),
            derivation: self.clone(),
            unread,
            threads,
            progress: Box::new(progress),
        });
        let mut made = Lineage::default();
        self.query
            .eval(scan.clone(), &mut |units, columns| self.insert(&mut made, units, columns))?;
        // A join with nothing on one side may not have looked at the other.
        for (input, unread) in scan.unread.iter().enumerate() {
            let blocks: Vec<u32> = unread.lock().iter().copied().collect();
            blocks.into_iter().try_for_each(|block| scan.part(input, block).map(|_| ()))?;
        }
        for input in &self.inputs {
            input.lineage.lock().seal();
        }
        made.seal();
        self.state.lock().made = made;
        Ok(())
    }

    fn insert(
        &self,
        made: &mut Lineage,
        units: &[Unit],
        columns: &[ArrayRef],
    ) -> Result<(), SchemaError> {
        let types = self.target.types();
        for start in (0..units.len()).step_by(ROWS_PER_BLOCK) {
            let range = start..units.len().min(start + ROWS_PER_BLOCK);
            let new = range.clone().map(|at| row_at(columns, &types, at)).collect();
            let writes = Writes { new, ..Writes::default() };
            let rids = self.target.write(&writes, || Ok(()))?;
            for (rid, at) in rids.into_iter().zip(range) {
                made.set(rid, Some(units[at]));
            }
        }
        Ok(())
    }

    /// The scan is over. Returns the rows of each table that are to be captured now.
    pub fn end_scan(&self) -> HashMap<SpaceId, Vec<RowId>> {
        let mut state = self.state.lock();
        self.target.end_scan();
        state.waiting.take().unwrap_or_default()
    }

    /// Makes the units of these rows of a table, ascending, again: capture.
    pub fn run_rows(&self, space: SpaceId, rows: &[RowId]) -> Result<(), SchemaError> {
        let mut state = self.state.lock();
        if let Some(waiting) = &mut state.waiting {
            waiting.entry(space).or_default().extend_from_slice(rows);
            return Ok(());
        }
        rows.chunks(BATCH_ROWS).try_for_each(|rows| self.run_batch(&mut state, space, rows))
    }

    fn run_batch(
        &self,
        state: &mut State,
        space: SpaceId,
        rows: &[RowId],
    ) -> Result<(), SchemaError> {
        let of_it = self.inputs.iter().enumerate();
        let of_it = of_it.filter(|(_, input)| input.source.table.space() == space);
        // All that may fail comes before anything is noted.
        let looked = of_it.map(|(at, input)| {
            let rows: Vec<RowId> = {
                let kept = input.kept.lock();
                rows.iter().filter(|rid| !kept.contains_key(rid)).copied().collect()
            };
            let committed = self.target.committed();
            let read = read_rows(&*input.source.table, &committed, &rows, &input.columns);
            let noted = self.noted(at, &read)?;
            Ok((at, rows, read.rids.into_iter().zip(noted)))
        });
        let looked = looked.collect::<Result<Vec<_>, SchemaError>>()?;
        for (at, rows, there) in looked {
            let mut there = there.peekable();
            let (mut keys, mut changed) = (HashSet::new(), Vec::new());
            let mut lineage = self.inputs[at].lineage.lock();
            for row in rows {
                let now = there.next_if(|(rid, _)| *rid == row).map(|(_, now)| now);
                // Most changes of a table are of columns that the query does not read.
                let (is_changed, was) = lineage.note(row, now);
                if is_changed {
                    changed.push(row);
                    keys.extend(was);
                    keys.extend(now.map(|(unit, _)| unit));
                }
            }
            drop(lineage);
            match self.query.driver() {
                None => state.unmade.extend(keys),
                Some(driver) if driver == at => {
                    state.unmade.extend(changed.iter().map(|row| row.0));
                }
                Some(driver) => {
                    let driving = self.inputs[driver].lineage.lock().rows_of(keys.into_iter());
                    state.unmade.extend(driving.into_iter().map(|row| row.0));
                }
            }
        }
        let dirty = std::mem::take(&mut state.unmade);
        if dirty.is_empty() {
            return Ok(());
        }
        CrashPoint::LineageNoted.reached();
        self.make(state, &dirty).inspect_err(|_| state.unmade = dirty)
    }

    /// Makes units again, from the latest committed version of their rows [D2].
    fn make(&self, state: &mut State, dirty: &HashSet<Unit>) -> Result<(), SchemaError> {
        let committed = self.target.committed();
        let mut parts: Vec<Option<(RecordBatch, Vec<Unit>)>> = vec![None; self.inputs.len()];
        let driven;
        let keys = match self.query.driver() {
            None => dirty,
            Some(driver) => {
                let input = &self.inputs[driver];
                let mut rows: Vec<RowId> = dirty.iter().map(|unit| RowId(*unit)).collect();
                rows.sort_unstable();
                let read = self.read_of(input, &committed, &rows)?;
                let noted = self.noted(driver, &read)?;
                let mut lineage = input.lineage.lock();
                // One that is gone is to be looked at again, if its place is taken.
                rows.iter().for_each(|row| lineage.doubt(*row));
                for (row, now) in read.rids.iter().zip(&noted) {
                    lineage.note(*row, Some(*now));
                }
                let rids = read.rids.iter().map(|row| row.0).collect();
                parts[driver] = Some((read.batch, rids));
                driven = noted.into_iter().map(|(key, _)| key).collect();
                &driven
            }
        };
        for (at, input) in self.inputs.iter().enumerate() {
            if parts[at].is_none() {
                parts[at] = Some(self.part_of(at, input, &committed, keys)?);
            }
        }
        let parts = parts.into_iter().flatten().collect();
        let some = Arc::new(SomeRows { parts, snapshot: committed.clone() });

        let types = self.target.types();
        let mut made: HashMap<Unit, Vec<Row>> = HashMap::new();
        self.query.eval(some, &mut |units, columns| {
            for (at, unit) in units.iter().enumerate().filter(|(_, unit)| dirty.contains(unit)) {
                made.entry(*unit).or_default().push(row_at(columns, &types, at));
            }
            Ok(())
        })?;

        let mut writes = Writes::default();
        let mut new_units = Vec::new();
        let mut before: HashMap<Unit, Vec<(RowId, Row)>> = HashMap::new();
        for rid in state.made.rows_of(dirty.iter().copied()) {
            let unit = state.made.unit_of(rid).expect("it was found by its unit");
            before.entry(unit).or_default().push((rid, self.target.row(&committed, rid)));
        }
        for unit in dirty {
            let (old, new) = (before.remove(unit), made.remove(unit));
            differences(old.unwrap_or_default(), new.unwrap_or_default(), &mut writes);
            new_units.resize(writes.new.len(), *unit);
        }
        if writes.is_empty() {
            return Ok(());
        }
        let rids = self.target.write(&writes, || Err(changed_under_owner()))?;
        CrashPoint::UnitsMade.reached();
        for (rid, unit) in rids.into_iter().zip(new_units) {
            state.made.set(rid, Some(unit));
        }
        for rid in &writes.gone {
            state.made.set(*rid, None);
        }
        Ok(())
    }

    /// The rows of an input that are of some units.
    fn part_of(
        &self,
        at: usize,
        input: &Input,
        committed: &Snapshot,
        units: &HashSet<Unit>,
    ) -> Result<(RecordBatch, Vec<Unit>), SchemaError> {
        let mut lineage = input.lineage.lock();
        let rows = lineage.rows_of(units.iter().copied());
        let read = self.read_of(input, committed, &rows)?;
        let noted = self.noted(at, &read)?;
        let counts = read.rids.iter().zip(&noted);
        let counts: BooleanArray =
            counts.map(|(row, now)| Some(lineage.unit_of(*row) == Some(now.0))).collect();
        // All that is made of the rows of a unit is made now, but of a lookup row only what some
        // drivers make of it: then its change is yet to be captured.
        let is_noted = self.query.driver().is_none();
        let stays = |((row, now), counts): ((RowId, (Unit, u64)), bool)| {
            let is_known = lineage.print_of(row) == Some(now.1);
            (counts && (is_noted || is_known)).then_some((row, now))
        };
        let found = read.rids.iter().copied().zip(noted.iter().copied());
        let noted_now: Vec<_> = found.zip(counts.values()).filter_map(stays).collect();
        rows.iter().for_each(|row| lineage.doubt(*row));
        for (row, now) in noted_now {
            lineage.note(row, Some(now));
        }
        let of = noted.iter().zip(counts.values()).filter(|(_, counts)| *counts);
        let of = of.map(|((unit, _), _)| *unit).collect();
        Ok((filter_record_batch(&read.batch, &counts).map_err(internal)?, of))
    }

    /// Unit and print of each of some rows of an input.
    fn noted(&self, at: usize, rows: &BlockRows) -> Result<Vec<(Unit, u64)>, SchemaError> {
        let prints = self.query.prints(at, rows)?;
        Ok(self.query.units(at, rows)?.into_iter().zip(prints).collect())
    }

    /// Some rows of an input, ascending, as they count: those that are there, in any order.
    fn read_of(
        &self,
        input: &Input,
        committed: &Snapshot,
        rows: &[RowId],
    ) -> Result<BlockRows, SchemaError> {
        let table = &*input.source.table;
        let kept = input.kept.lock();
        let (own, rows): (Vec<RowId>, Vec<RowId>) =
            rows.iter().partition(|rid| kept.contains_key(rid));
        let own_rows = own.iter().filter_map(|rid| Some((*rid, kept[rid].clone()?)));
        let (rids, own_rows): (Vec<RowId>, Vec<Row>) = own_rows.unzip();
        let types = types_of(table, &input.columns);
        let mut parts = vec![BlockRows { rids, batch: batch::batch_of(&types, &own_rows) }];
        let mut few = Vec::new();
        for rows in rows.chunk_by(|a, b| a.block() == b.block()) {
            if rows.len() < BLOCK_IS_READ_AT {
                few.extend_from_slice(rows);
                continue;
            }
            let read = table.read_block(committed, rows[0].block(), &input.columns)?;
            let mut wanted = rows.iter().peekable();
            let mut is_wanted = |rid: &RowId| {
                while wanted.next_if(|row| *row < rid).is_some() {}
                wanted.next_if_eq(&rid).is_some()
            };
            let is_wanted: BooleanArray =
                read.rids.iter().map(|rid| Some(is_wanted(rid))).collect();
            let found = read.rids.iter().zip(is_wanted.values());
            parts.push(BlockRows {
                rids: found.filter(|(_, is_wanted)| *is_wanted).map(|(rid, _)| *rid).collect(),
                batch: filter_record_batch(&read.batch, &is_wanted).map_err(internal)?,
            });
        }
        parts.push(read_rows(table, committed, &few, &input.columns));
        let schema = parts[0].batch.schema();
        let batch = concat_batches(&schema, parts.iter().map(|part| &part.batch));
        let rids = parts.into_iter().flat_map(|part| part.rids).collect();
        Ok(BlockRows { rids, batch: batch.map_err(internal)? })
    }
}

impl Maker for Derivation {
    fn target(&self) -> &Target {
        &self.target
    }

    fn hold(&self, txn: &mut dyn EngineTxn, base: Ts, row: RowId) -> Result<(), WriteStop> {
        let Some(unit) = self.state.lock().made.unit_of(row) else { return Ok(()) };
        let driver = self.query.driver();
        let key = match driver {
            None => Some(unit),
            Some(driver) => self.inputs[driver].lineage.lock().unit_of(RowId(unit)),
        };
        for (at, input) in self.inputs.iter().enumerate() {
            let rows = match driver {
                Some(driver) if driver == at => vec![RowId(unit)],
                _ => input.lineage.lock().rows_of(key.into_iter()),
            };
            let mut changed = Vec::new();
            for row in rows {
                if self.target.hold_source(txn, base, &input.source, row)? {
                    changed.push(row);
                }
            }
            self.run_rows(input.source.table.space(), &changed).map_err(stop_of)?;
        }
        Ok(())
    }
}

/// What the scan reads: everything, a block at a time.
struct Scan {
    derivation: Arc<Derivation>,
    /// Blocks of each input.
    blocks: Vec<u32>,
    /// Those that were not read yet.
    unread: Vec<Mutex<HashSet<u32>>>,
    threads: usize,
    progress: Box<dyn Fn(SpaceId, u64) + Send + Sync>,
}

impl UnitRows for Scan {
    fn parts(&self, input: usize) -> u32 {
        self.blocks[input]
    }

    fn part(&self, at: usize, block: u32) -> Result<(RecordBatch, Vec<Unit>), SchemaError> {
        let Derivation { query, inputs, target, state, .. } = &*self.derivation;
        if self.derivation.is_stopped() {
            return Err(TxnError::Canceled.into());
        }
        let input = &inputs[at];
        let table = &input.source.table;
        let (read, changed) = target.scan_block(&input.source, block, &input.columns)?;
        let noted = self.derivation.noted(at, &read)?;
        let rows = read.rids.iter().copied().zip(noted.iter().copied());
        input.lineage.lock().note_block(block, rows);
        let mut kept = input.kept.lock();
        if !kept.is_empty() {
            let types = types_of(&**table, &input.columns);
            for (row, rid) in read.rids.iter().enumerate() {
                if let Some(own) = kept.get_mut(rid) {
                    *own = Some(row_at(read.batch.columns(), &types, row));
                }
            }
        }
        drop(kept);
        if let Some(waiting) = &mut state.lock().waiting {
            waiting.entry(table.space()).or_default().extend(changed);
        }
        self.unread[at].lock().remove(&block);
        (self.progress)(table.space(), read.rids.len() as u64);
        let is_driver = query.driver() == Some(at);
        let units = match is_driver {
            true => read.rids.iter().map(|row| row.0).collect(),
            false => noted.into_iter().map(|(unit, _)| unit).collect(),
        };
        Ok((read.batch, units))
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        let target = &self.derivation.target;
        target.scan_snapshot().unwrap_or_else(|| target.committed())
    }
}

/// The rows of some units.
pub(crate) struct SomeRows {
    /// Of each input.
    pub parts: Vec<(RecordBatch, Vec<Unit>)>,
    pub snapshot: Arc<Snapshot>,
}

impl UnitRows for SomeRows {
    fn parts(&self, _input: usize) -> u32 {
        1
    }

    fn part(&self, input: usize, _number: u32) -> Result<(RecordBatch, Vec<Unit>), SchemaError> {
        Ok(self.parts[input].clone())
    }

    fn threads(&self) -> usize {
        1
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.clone()
    }
}

/// What makes rows of these: those that are there stay where they are, of the others as many as can
/// are written over.
fn differences(old: Vec<(RowId, Row)>, new: Vec<Row>, writes: &mut Writes) {
    let encoded = |row: &Row| key::encode(row, repeat(&key::ASCENDING));
    let mut old: Vec<_> = old.into_iter().map(|(rid, row)| (encoded(&row), rid)).collect();
    let mut new: Vec<_> = new.into_iter().map(|row| (encoded(&row), row)).collect();
    // Rows with the same first columns, which a key may be made of, come together.
    old.sort_unstable();
    new.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    let (mut places, mut rows) = (Vec::new(), Vec::new());
    loop {
        match (old.peek(), new.peek()) {
            (Some((a, _)), Some((b, _))) if a == b => {
                old.next();
                new.next();
            }
            (Some((a, _)), b) if b.is_none_or(|(b, _)| a < b) => {
                places.extend(old.next().map(|(_, rid)| rid));
            }
            (_, Some(_)) => rows.extend(new.next().map(|(_, row)| row)),
            (_, None) => break,
        }
    }
    let rest = places.split_off(places.len().min(rows.len()));
    writes.gone.extend(rest);
    let mut rows = rows.into_iter();
    writes.changed.extend(places.into_iter().zip(rows.by_ref()));
    writes.new.extend(rows);
}

fn changed_under_owner() -> SchemaError {
    SchemaError::refused(
        SqlState::SERIALIZATION_FAILURE,
        "could not serialize access due to concurrent update",
    )
    .with_detail(
        "Rows were added to those that a row of the new table was made of, after this transaction had \
         written to it.",
    )
    .with_hint("Run the transaction again.")
}

fn internal(e: arrow_schema::ArrowError) -> SchemaError {
    SchemaError::refused(SqlState::INTERNAL_ERROR, e.to_string())
}

#[cfg(test)]
mod tests {
    use froglet_engine::Value;

    use super::*;

    fn row(values: &[i64]) -> Row {
        values.iter().map(|v| Value::Int64(*v)).collect()
    }

    #[test]
    fn a_unit_is_brought_in_line_with_few_writes() {
        let old: Vec<_> = [(1, [1, 10]), (2, [2, 20]), (3, [2, 20]), (4, [3, 30]), (5, [5, 50])]
            .map(|(n, values)| (RowId(n), row(&values)))
            .into();
        let new = [[3, 31], [2, 20], [1, 10], [2, 20]].map(|values| row(&values)).into();
        let mut writes = Writes::default();
        differences(old, new, &mut writes);
        assert_eq!(writes.changed, [(RowId(4), row(&[3, 31]))]);
        assert_eq!((writes.gone, writes.new), (vec![RowId(5)], vec![]));

        let (mut writes, old) = (Writes::default(), vec![(RowId(1), row(&[1]))]);
        differences(old, [[1], [0], [2]].map(|values| row(&values)).into(), &mut writes);
        assert_eq!((writes.changed, writes.gone), (vec![], vec![]));
        assert_eq!(writes.new, [row(&[0]), row(&[2])]);
    }
}
