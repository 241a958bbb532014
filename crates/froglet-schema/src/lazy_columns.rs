//! The lazy driver, column by column: a computed column is there at once, its values follow in the same rows.
//!
//! ```text
//!                        x    c = 2x   filled
//!   row from before F    7      –      false     a reader computes c from the version that it sees
//!   UPDATE … x = 9:
//!     first, in place    7     14      true      what c was as of F, for every view
//!     then, a version    9     14      true
//!   INSERT … x = 5       5     10      true
//! ```
//!
//! F is the commit of the schema change. What remembers which rows are done is a column itself, `filled`, that
//! nobody sees: so it is versioned, logged, checkpointed and rolled back with the row, and there is nothing
//! to be claimed, rebuilt after a crash, or forgotten.
//!
//! K1: a version of a row with `filled` false was written by somebody who did not know the column, and
//!     committed before F, or is not committed. Whoever reads it computes, whichever view he has.
//! K2: whoever knows the column fills a row before he writes or deletes it ([`LazyColumns::fill`]), in place:
//!     the newest committed version, which is the one as of F, gets its value without being another version.
//!     It is computed before the block is latched, and stored if nobody else has: so exactly once. When no
//!     row is left, none is in any view.
//! K3: a writer who began before F and commits after it fills his rows as well, and then computes the
//!     column again for his own versions (`carry.rs`).
//! K4: before F others still write the rows, and nothing is filled; the owner's own writes bring the
//!     column's value along as of what they write over.
//! K5: a row that is inserted by who knows the column has `filled` true for as long as a definition names it,
//!     even when everything is filled: a restart asks again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_select::filter::filter;
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    BlockRows, ColumnFill, ColumnId, ColumnSpec, ColumnType, CrashPoint, Engine, EngineError,
    Layout, MigrateError, Row, RowId, Savepoint, Snapshot, Table, TxnId, Value, batch,
};
use serde::{Deserialize, Serialize};

use crate::background::Background;
use crate::change::Transform;
use crate::course::{Begun, Course, Who};
use crate::def::TableDef;
use crate::error::SchemaError;
use crate::lazy::batch_with;
use crate::rows::{read_rows, types_of};
use crate::status::MigrationStatus;
use crate::step::positions;

/// Rows that the background stores at once: somebody may wait for the block's latch.
const FILLED_AT_ONCE: usize = 256;

/// What a table's definition says of a column that is being computed lazily.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LazyColumnDef {
    /// How it was begun.
    pub begun: Begun,
    /// What the expression can be compiled of again.
    pub recipe: String,
    /// The column.
    pub target: ColumnId,
    /// How it is stored.
    pub ty: ColumnType,
    /// A column that nobody sees: whether a row has its value.
    pub filled: ColumnId,
    /// What it is computed from: columns of `source`, which the table may have lost since.
    pub inputs: Vec<ColumnId>,
    /// The table, as it was.
    pub source: Box<TableDef>,
}

impl LazyColumnDef {
    /// Whether a column has to be stored for it.
    fn needs(&self, id: ColumnId) -> bool {
        id == self.target || id == self.filled || self.inputs.contains(&id)
    }

    /// The columns that have to be stored for it.
    fn columns(&self) -> impl Iterator<Item = ColumnSpec> {
        let target = ColumnSpec { id: self.target, ty: self.ty, missing: Value::Null };
        let missing = Value::Bool(false);
        let filled = ColumnSpec { id: self.filled, ty: ColumnType::Bool, missing };
        let source = self.source.layout().columns.into_iter();
        [target, filled].into_iter().chain(source.filter(|spec| self.inputs.contains(&spec.id)))
    }
}

impl TableDef {
    /// The layout, and behind it what is stored that nobody sees.
    pub(crate) fn whole_layout(&self) -> Layout {
        let mut layout = self.layout();
        for column in self.lazy_columns.iter().flat_map(LazyColumnDef::columns) {
            if layout.position(column.id).is_none() {
                layout.columns.push(column);
            }
        }
        layout
    }

    /// Whether rows have a column, seen or not.
    pub(crate) fn stores(&self, id: ColumnId) -> bool {
        self.column_by_id(id).is_some() || self.lazy_columns.iter().any(|lazy| lazy.needs(id))
    }

    /// How its lazy migrations were begun.
    pub(crate) fn begun(&self) -> impl Iterator<Item = &Begun> {
        let columns = self.lazy_columns.iter().map(|lazy| &lazy.begun);
        self.lazy.iter().map(|lazy| &lazy.begun).chain(columns)
    }

    /// Takes out what is being computed for a column that is gone, and that no other is computed from.
    pub(crate) fn drop_unneeded_lazy_columns(&mut self) {
        while let Some(at) = self.lazy_columns.iter().rposition(|lazy| {
            let is_input = |other: &LazyColumnDef| other.inputs.contains(&lazy.target);
            self.column_by_id(lazy.target).is_none() && !self.lazy_columns.iter().any(is_input)
        }) {
            self.lazy_columns.remove(at);
        }
    }
}

/// A column that is being computed lazily.
pub(crate) struct LazyColumn {
    pub course: Course,
    pub def: LazyColumnDef,
    pub transform: Arc<dyn Transform>,
    /// Where its transaction stood: what it has written later has the column.
    pub since: Savepoint,
    is_live: AtomicBool,
    is_complete: AtomicBool,
    blocks_done: AtomicU32,
    blocks: AtomicU32,
}

impl LazyColumn {
    pub fn new(
        def: LazyColumnDef,
        table: &TableDef,
        owner: TxnId,
        since: Savepoint,
        transform: Arc<dyn Transform>,
    ) -> LazyColumn {
        LazyColumn {
            course: Course::new(def.begun.clone(), "column", table, owner),
            def,
            transform,
            since,
            is_live: AtomicBool::new(false),
            is_complete: AtomicBool::new(false),
            blocks_done: AtomicU32::new(0),
            blocks: AtomicU32::new(0),
        }
    }

    /// From now on everybody has the column.
    pub fn go_live(&self, blocks: u32) {
        self.blocks.store(blocks, Ordering::Relaxed);
        self.is_live.store(true, Ordering::SeqCst);
    }

    /// Whether it is committed.
    pub fn is_live(&self) -> bool {
        self.is_live.load(Ordering::SeqCst)
    }

    /// Whether every row has its value.
    pub fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::SeqCst)
    }

    /// Whether a definition has it.
    pub fn is_of(&self, def: &TableDef) -> bool {
        let migration = self.def.begun.migration;
        def.space == self.course.space
            && def.lazy_columns.iter().any(|lazy| lazy.begun.migration == migration)
    }

    /// One row of `froglet.migrations`; `rows`: of the table.
    pub fn status(&self, rows: u64) -> MigrationStatus {
        let blocks = self.blocks.load(Ordering::Relaxed);
        let done = self.blocks_done.load(Ordering::Relaxed).min(blocks);
        let left = if self.is_complete() { 0 } else { blocks - done };
        let backlog = rows * u64::from(left) / u64::from(blocks.max(1));
        self.course.status((u64::from(done), u64::from(blocks)), backlog)
    }
}

/// A lazy column, by positions in the whole layout of its table.
struct Placed {
    column: Arc<LazyColumn>,
    target: usize,
    filled: usize,
    inputs: Vec<usize>,
}

/// The lazy columns of a table under a definition, in the order in which they came: a later one may be computed
/// from an earlier.
pub(crate) struct LazyColumns {
    engine: Arc<dyn Engine>,
    /// The table with what nobody sees.
    pub whole: Arc<dyn Table>,
    placed: Vec<Placed>,
}

/// What has to be read for a projection, and computed then.
pub(crate) struct Demand {
    /// Positions in the whole layout: first the projection.
    pub positions: Vec<usize>,
    width: usize,
    /// By place among the lazy columns, in their order.
    lazy: Vec<usize>,
}

impl Demand {
    /// Whether there is nothing to compute.
    pub fn is_plain(&self) -> bool {
        self.lazy.is_empty()
    }

    /// Where a column of the whole layout was read.
    fn place(&self, position: usize) -> usize {
        let found = self.positions.iter().position(|at| *at == position);
        found.expect("what a lazy column needs is read with it")
    }
}

impl LazyColumns {
    /// Those of a definition.
    pub fn open(
        engine: &Arc<dyn Engine>,
        def: &TableDef,
        columns: impl IntoIterator<Item = Arc<LazyColumn>>,
    ) -> Result<LazyColumns, EngineError> {
        let whole = engine.open(def.space, Arc::new(def.whole_layout()))?;
        let place = |column: Arc<LazyColumn>| Placed {
            target: positions(&*whole, &[column.def.target])[0],
            filled: positions(&*whole, &[column.def.filled])[0],
            inputs: positions(&*whole, column.transform.inputs()),
            column,
        };
        let placed = columns.into_iter().map(place).collect();
        Ok(LazyColumns { engine: engine.clone(), placed, whole })
    }

    /// What has to be read for columns of the table.
    pub fn demand(&self, projection: &[usize]) -> Demand {
        let mut positions = projection.to_vec();
        let mut lazy = Vec::new();
        for (at, placed) in self.placed.iter().enumerate().rev() {
            if !positions.contains(&placed.target) || placed.column.is_complete() {
                continue;
            }
            lazy.push(at);
            for position in placed.inputs.iter().chain([&placed.filled]) {
                if !positions.contains(position) {
                    positions.push(*position);
                }
            }
        }
        lazy.reverse();
        Demand { positions, width: projection.len(), lazy }
    }

    /// Computes what rows lack that were read as demanded, and leaves out what was not asked for.
    pub fn finish(&self, demand: &Demand, read: BlockRows) -> Result<BlockRows, SchemaError> {
        let (schema, rows) = (read.batch.schema(), read.rids.len());
        let mut columns = read.batch.columns().to_vec();
        for placed in demand.lazy.iter().map(|at| &self.placed[*at]) {
            let left = is_left(&columns[demand.place(placed.filled)]);
            if left.true_count() == 0 {
                continue;
            }
            let inputs: Vec<ArrayRef> =
                placed.inputs.iter().map(|at| columns[demand.place(*at)].clone()).collect();
            let made = placed.compute(&inputs, &left)?;
            let target = demand.place(placed.target);
            let spliced = spliced(&columns[target], &made, &left);
            for (column, _) in
                columns.iter_mut().zip(&demand.positions).filter(|(_, at)| **at == placed.target)
            {
                *column = spliced.clone();
            }
        }
        columns.truncate(demand.width);
        let asked: Vec<usize> = (0..demand.width).collect();
        let schema = Arc::new(schema.project(&asked).expect("these columns were read"));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options);
        Ok(BlockRows { rids: read.rids, batch: batch.expect("a value for each row") })
    }

    /// The same for one row, whose values begin at `start`.
    pub fn finish_row(
        &self,
        demand: &Demand,
        row: &mut Row,
        start: usize,
    ) -> Result<(), SchemaError> {
        for placed in demand.lazy.iter().map(|at| &self.placed[*at]) {
            if row[start + demand.place(placed.filled)] == Value::Bool(true) {
                continue;
            }
            let inputs = placed.inputs.iter().map(|at| row[start + demand.place(*at)].clone());
            let value = placed.value(&*self.whole, inputs.collect())?;
            for (at, _) in
                demand.positions.iter().enumerate().filter(|(_, at)| **at == placed.target)
            {
                row[start + at] = value.clone();
            }
        }
        row.truncate(start + demand.width);
        Ok(())
    }

    /// A new row of the table, with what nobody sees.
    pub fn widened(&self, row: &Row) -> Row {
        let width = self.whole.layout().columns.len();
        let is_flag = |at| self.placed.iter().any(|placed| placed.filled == at);
        let hidden = |at| if is_flag(at) { Value::Bool(true) } else { Value::Null };
        row.iter().cloned().chain((row.len()..width).map(hidden)).collect()
    }

    /// Whether all are committed.
    pub fn are_live(&self) -> bool {
        self.placed.iter().all(|placed| placed.column.is_live())
    }

    /// What an update of a row under an uncommitted column has to set beside what it sets, at positions
    /// `set` [K4].
    pub fn brought_along(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        set: &[usize],
    ) -> Result<Vec<(usize, Value)>, SchemaError> {
        let mut more = Vec::new();
        for placed in self.placed.iter().filter(|placed| !placed.column.is_live()) {
            let demand = self.demand(&[placed.target, placed.filled]);
            let mut row = Row::new();
            if !self.whole.read_row(snapshot, rid, &demand.positions, &mut row)
                || row[1] == Value::Bool(true)
            {
                continue;
            }
            self.finish_row(&demand, &mut row, 0)?;
            if !set.contains(&placed.target) {
                more.push((placed.target, row.swap_remove(0)));
            }
            more.push((placed.filled, Value::Bool(true)));
        }
        Ok(more)
    }

    /// Those that are committed, and of which some rows may be left.
    fn unfinished(&self) -> impl Iterator<Item = &Placed> {
        let is_wanted = |placed: &&Placed| placed.column.is_live() && !placed.column.is_complete();
        self.placed.iter().filter(is_wanted)
    }

    /// Makes sure that rows, ascending, are filled in the columns that are committed [K2]. The caller has a view from
    /// after their commit, so that no row that is seen goes.
    pub fn fill(&self, rows: &[RowId], who: Who) -> Result<(), SchemaError> {
        let view = self.engine.fresh(TxnId(0));
        for placed in self.unfinished() {
            for rows in rows.chunk_by(|a, b| a.block() == b.block()) {
                let read = read_rows(&*self.whole, &view, rows, &placed.needs());
                if let Some(made) = placed.make(&read)? {
                    self.store(placed, &made, who)?;
                }
            }
        }
        Ok(())
    }

    /// The same for all rows of a block, some at once for as long as `goes_on`.
    fn fill_block(
        &self,
        block: u32,
        who: Who,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), SchemaError> {
        for placed in self.unfinished() {
            let view = self.engine.fresh(TxnId(0));
            let read = self.whole.read_block(&view, block, &placed.needs())?;
            let Some(made) = placed.make(&read)? else { continue };
            let at_once = if who == Who::Background { FILLED_AT_ONCE } else { ROWS_PER_BLOCK };
            for start in (0..made.rids.len()).step_by(at_once) {
                self.store(placed, &made.slice(start, at_once), who)?;
                if !goes_on() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Stores a column in rows of a block that nobody has filled since it was computed.
    fn store(&self, placed: &Placed, made: &Made, who: Who) -> Result<(), SchemaError> {
        CrashPoint::LazyMade.reached();
        let mut filled = 0;
        let mut fill = |read: &BlockRows| -> Result<ColumnFill, MigrateError> {
            let (mut rows, mut places) = (Vec::new(), Vec::new());
            for (at, is_left) in is_left(read.batch.column(0)).iter().enumerate() {
                // Who comes second finds it filled.
                if let (Some(true), Ok(place)) = (is_left, made.rids.binary_search(&read.rids[at]))
                {
                    rows.push(at);
                    places.push(u32::try_from(place).expect("a row of a block"));
                }
            }
            filled += rows.len();
            let values = match rows.len() == made.rids.len() {
                true => made.values.clone(),
                false => take(&made.values, &UInt32Array::from(places), None).expect("its places"),
            };
            let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true; rows.len()]));
            Ok(ColumnFill { rows: Some(rows), columns: vec![values, flags] })
        };
        let (rows, flag) = (Some(&*made.rids), [placed.filled]);
        let (block, target) = (made.rids[0].block(), [placed.target, placed.filled]);
        let (nobody, since) = (TxnId(0), Savepoint(0));
        self.whole.migrate_block(nobody, since, block, rows, &flag, &target, &mut fill)?;
        CrashPoint::LazyInstalled.reached();
        placed.column.course.count(who, filled);
        Ok(())
    }

    /// The newest column of the versions that a writer has of rows, from before it, and that it has it [K3].
    pub fn carried(
        &self,
        own: &Snapshot,
        rows: &[RowId],
    ) -> Result<Vec<(RowId, [Value; 2])>, SchemaError> {
        let placed = self.newest();
        let BlockRows { rids, batch } = read_rows(&*self.whole, own, rows, &placed.inputs);
        let all = BooleanArray::from(vec![true; rids.len()]);
        let made = placed.compute(batch.columns(), &all)?;
        let ty = placed.column.def.ty;
        let value = |at| [batch::value_at(&made, at, ty), Value::Bool(true)];
        Ok(rids.into_iter().enumerate().map(|(at, rid)| (rid, value(at))).collect())
    }

    /// Where these are in the whole layout.
    pub fn carried_to(&self) -> [usize; 2] {
        [self.newest().target, self.newest().filled]
    }

    fn newest(&self) -> &Placed {
        self.placed.last().expect("it is asked of a table that has got one")
    }
}

/// What a column is in rows of a block that are not filled, ascending.
struct Made {
    rids: Vec<RowId>,
    values: ArrayRef,
}

impl Made {
    /// At most so many, from one on.
    fn slice(&self, start: usize, most: usize) -> Made {
        let rids = self.rids[start..].iter().take(most).copied().collect::<Vec<_>>();
        Made { values: self.values.slice(start, rids.len()), rids }
    }
}

impl Placed {
    /// Positions of what says whether a row is filled, and of what it is computed from.
    fn needs(&self) -> Vec<usize> {
        std::iter::once(self.filled).chain(self.inputs.iter().copied()).collect()
    }

    /// The column of the rows that are left, of some that were read so.
    fn make(&self, read: &BlockRows) -> Result<Option<Made>, SchemaError> {
        let left = is_left(read.batch.column(0));
        if left.true_count() == 0 {
            return Ok(None);
        }
        let values = self.compute(&read.batch.columns()[1..], &left)?;
        let rids = read.rids.iter().zip(left.values()).filter(|(_, left)| *left);
        Ok(Some(Made { rids: rids.map(|(rid, _)| *rid).collect(), values }))
    }

    /// The column of the rows that are left.
    fn compute(&self, inputs: &[ArrayRef], left: &BooleanArray) -> Result<ArrayRef, SchemaError> {
        let chosen = |column: &ArrayRef| filter(column, left).expect("a flag for each row");
        let rows = left.true_count();
        let inputs =
            if rows == left.len() { inputs.to_vec() } else { inputs.iter().map(chosen).collect() };
        self.column.transform.eval(&batch_with(inputs, rows))
    }

    /// The column of one row.
    fn value(&self, whole: &dyn Table, inputs: Row) -> Result<Value, SchemaError> {
        let batch = batch::batch_of(&types_of(whole, &self.inputs), &[inputs]);
        let batch = batch_with(batch.columns().to_vec(), 1);
        Ok(batch::value_at(&self.column.transform.eval(&batch)?, 0, self.column.def.ty))
    }
}

/// The rows whose flag says that they are not filled.
fn is_left(filled: &ArrayRef) -> BooleanArray {
    let is_left = |flag: Option<bool>| Some(flag != Some(true));
    filled.as_boolean().iter().map(is_left).collect()
}

/// A column in which the rows that were left have what was made for them.
fn spliced(column: &ArrayRef, made: &ArrayRef, left: &BooleanArray) -> ArrayRef {
    if made.len() == column.len() {
        return made.clone();
    }
    let mut next = 0;
    let place = |(at, is_left): (usize, Option<bool>)| match is_left {
        Some(true) => {
            next += 1;
            (1, next - 1)
        }
        _ => (0, at),
    };
    let places: Vec<_> = left.iter().enumerate().map(place).collect();
    interleave(&[column, made], &places).expect("both are of the column's type")
}

/// A lazy column as the background works at it, with those that it may be computed from.
pub(crate) struct Filling {
    pub column: Arc<LazyColumn>,
    pub columns: LazyColumns,
}

impl Background for Filling {
    fn course(&self) -> &Course {
        &self.column.course
    }

    fn blocks(&self) -> u32 {
        self.column.blocks.load(Ordering::Relaxed)
    }

    fn is_complete(&self) -> bool {
        self.column.is_complete()
    }

    fn migrate_block(
        &self,
        block: u32,
        who: Who,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), SchemaError> {
        let mut is_whole = true;
        self.columns.fill_block(block, who, &mut || {
            is_whole = goes_on();
            is_whole
        })?;
        if is_whole {
            self.column.blocks_done.fetch_max(block + 1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn passed(&self) {
        self.column.is_complete.store(true, Ordering::SeqCst);
    }

    fn struck_from(&self, def: &TableDef) -> Option<TableDef> {
        if !self.column.is_of(def) {
            return None;
        }
        let migration = self.column.def.begun.migration;
        let mut def = def.clone();
        def.lazy_columns.retain(|lazy| lazy.begun.migration != migration);
        Some(def)
    }
}
