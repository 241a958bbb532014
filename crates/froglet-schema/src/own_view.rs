//! A table that a transaction is migrating or making, as that transaction sees it.
//!
//! ```text
//!   row unchanged since the snapshot    as stored: it was filled from the version that is seen
//!   row changed by a later commit       columns being filled: computed from the version that is seen
//!   index being built                   not asked: it has no keys of versions before the newest
//!   table made of others                read as it was when it was made of them; a write holds the rows
//!                                       that its row was made of (`target.rs`)
//! ```
//!
//! Scan and capture fill columns from the latest committed version of each row, and those cells have
//! no versions. Under READ COMMITTED what is migrated is brought in line with a statement's read view before it
//! begins (`flip.rs`), and stands still until it has ended; but a result that is still being fetched then, and a
//! cursor, go on reading in their view. Under REPEATABLE READ and SERIALIZABLE the snapshot stays. So this stands
//! between the view and the rows.
//!
//! A1: whether a row has changed is asked after its cells were copied. If it has not by then, neither
//!     had it when they were filled last.
//! A2: a row that the transaction has itself written is not changed by anybody else after the snapshot:
//!     the write would have failed. So what it wrote to a column being filled is never computed over.
//!
//! A3: the keys of an index over a column being filled are those of the stored cells: right while capture stands
//!     still in line with the view. Whether it did all the while is asked after the look.
//!
//! Left out on purpose: an expression that fails for the version that is seen leaves the stored value. A look
//! through an index being built reads all rows, but for A3.

use std::ops::{ControlFlow, Deref};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    BlockRows, ColumnId, Direction, EngineError, EngineTxn, KeyPart, KeyRange, Row, RowId,
    RowWrite, Snapshot, SqlState, Table, Ts, TxnId, Value, WriteStop, batch,
};

use crate::delegate::{delegate_migration_to_table, delegate_to_table};
use crate::keyed_rows::KeyedRows;
use crate::lazy::LazyMigration;
use crate::rows::types_of;
use crate::step::{Step, StepKind};
use crate::target::Maker;

/// With as many rows a look through an index is no shorter than a look at all rows.
const MOST_STEADY: usize = 100_000;

/// See the module.
pub(crate) struct OwnView {
    owner: TxnId,
    table: Arc<dyn Table>,
    /// The steps that fill columns, in order.
    fills: Vec<Arc<Step>>,
    /// Layout positions of the columns that they fill.
    filled: Vec<usize>,
    /// Layout positions of the indexes being built; under READ COMMITTED of those over columns being filled.
    built: Vec<usize>,
    /// Of an owner whose views move: [`Migration::steady`](crate::migration::Migration::steady).
    steady: Option<Arc<AtomicU64>>,
    /// What the table is made by.
    maker: Option<Arc<dyn Maker>>,
    /// What is made of it lazily is to be as the owner saw it: he must not write to it.
    sealed_by: Option<Arc<dyn LazyMigration>>,
}

/// A read view in place of another, which learns what was seen in it.
struct Seen<'a> {
    snapshot: &'a Snapshot,
    view: Option<Arc<Snapshot>>,
}

impl Deref for Seen<'_> {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        self.view.as_deref().unwrap_or(self.snapshot)
    }
}

impl Drop for Seen<'_> {
    fn drop(&mut self) {
        if let Some(view) = &self.view {
            self.snapshot.note_seen(view.newest_seen());
        }
    }
}

impl OwnView {
    /// The table for transaction `owner`; as it is, if nothing stands between. `steady`: of an owner whose views
    /// move.
    pub fn over(
        table: Arc<dyn Table>,
        owner: TxnId,
        steps: &[Arc<Step>],
        maker: Option<&Arc<dyn Maker>>,
        steady: Option<Arc<AtomicU64>>,
    ) -> Arc<dyn Table> {
        let (mut fills, mut filled, mut built) = (Vec::new(), Vec::new(), Vec::new());
        for step in steps.iter().filter(|step| step.table.space() == table.space()) {
            let layout = step.table.layout();
            match step.kind {
                StepKind::Fill { target, .. } => {
                    filled.extend(table.layout().position(layout.columns[target].id));
                    fills.push(step.clone());
                }
                StepKind::Index { position, .. } => {
                    let spec = &layout.indexes[position];
                    let is_filled = |part: &KeyPart| {
                        table.layout().position(part.column).is_some_and(|at| filled.contains(&at))
                    };
                    if steady.is_none() || spec.key.iter().any(is_filled) {
                        built.extend(table.layout().index_position(spec.id));
                    }
                }
                _ => {}
            }
        }
        // A table whose rows were replaced later (TRUNCATE) is made of no other's.
        let maker = maker.filter(|maker| maker.target().space() == table.space()).cloned();
        if filled.is_empty() && built.is_empty() && maker.is_none() {
            return table;
        }
        Arc::new(OwnView { owner, table, fills, filled, built, steady, maker, sealed_by: None })
    }

    /// A table of which `lazy` makes another: its owner must not write to it.
    pub fn sealed(
        table: Arc<dyn Table>,
        owner: TxnId,
        lazy: Arc<dyn LazyMigration>,
    ) -> Arc<dyn Table> {
        let (fills, filled, built) = Default::default();
        let sealed_by = Some(lazy);
        Arc::new(OwnView {
            owner,
            table,
            fills,
            filled,
            built,
            steady: None,
            maker: None,
            sealed_by,
        })
    }

    fn refuse_if_sealed(&self) -> Result<(), (usize, WriteStop)> {
        let Some(lazy) = &self.sealed_by else { return Ok(()) };
        lazy.state().outgrow();
        let message = "writing to a table of which the same transaction makes another lazily is not \
                       supported (commit first, or set froglet.migration to eager)";
        let (state, message) = (SqlState::FEATURE_NOT_SUPPORTED, message.to_owned());
        Err((0, WriteStop::Engine(EngineError::Refused { state, message })))
    }

    /// The view in which the table is read.
    fn seen<'a>(&self, snapshot: &'a Snapshot) -> Seen<'a> {
        let target = self.maker.as_ref().map(|maker| maker.target());
        Seen { snapshot, view: target.and_then(|target| target.as_seen(snapshot)) }
    }

    fn ts_as_seen(&self, ts: Ts) -> Ts {
        self.maker.as_ref().map_or(ts, |maker| maker.target().ts_as_seen(ts))
    }

    /// Whether it is the owner who reads, in its snapshot or a later view.
    fn concerns(&self, snapshot: &Snapshot) -> bool {
        snapshot.own == self.owner
    }

    /// Computes a column of a row for the version that the snapshot sees, by the first `n` fills.
    /// None where none of them fills it, or where the expression fails for this version.
    fn compute(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        column: ColumnId,
        n: usize,
    ) -> Option<Value> {
        let fills = |step: &Arc<Step>| match step.kind {
            StepKind::Fill { target, .. } => step.table.layout().columns[target].id == column,
            _ => false,
        };
        let at = self.fills[..n].iter().rposition(fills)?;
        let step = &self.fills[at];
        let StepKind::Fill { source, ty, transform, drawn, .. } = &step.kind else { return None };
        let columns = &step.table.layout().columns;
        let mut row = Row::new();
        if !step.table.read_row(snapshot, rid, source, &mut row) {
            return None;
        }
        for (value, &place) in row.iter_mut().zip(source) {
            if let Some(computed) = self.compute(snapshot, rid, columns[place].id, at) {
                *value = computed;
            }
        }
        let types = types_of(&*step.table, source);
        let compute = || {
            let computed =
                transform.eval(&batch::batch_of(&types, std::slice::from_ref(&row))).ok()?;
            Some(batch::value_at(&computed, 0, *ty))
        };
        match drawn {
            Some(drawn) => drawn.of_version(rid, &row, compute),
            None => compute(),
        }
    }

    /// Whether everything that is stored is in line with a view [A3].
    fn is_steady(&self, snapshot: &Snapshot) -> bool {
        let steady = self.steady.as_ref().map_or(0, |steady| steady.load(Ordering::SeqCst));
        steady != 0 && steady == snapshot.ts.0
    }

    /// The rows in a range of keys of an index being built, in line with the view; `None` if it was not all the
    /// while.
    fn seek_steady(
        &self,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        projection: &[usize],
    ) -> Option<Vec<(RowId, Row)>> {
        if !self.is_steady(snapshot) {
            return None;
        }
        let mut found = Vec::new();
        self.table.seek(snapshot, index, range, direction, projection, &mut |rid, row| {
            found.push((rid, row.clone()));
            match found.len() < MOST_STEADY {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        (self.is_steady(snapshot) && found.len() < MOST_STEADY).then_some(found)
    }

    /// Puts into a row, read in a projection, what is to be computed.
    fn correct(&self, snapshot: &Snapshot, rid: RowId, projection: &[usize], row: &mut [Value]) {
        for (value, &place) in row.iter_mut().zip(projection) {
            if self.filled.contains(&place) {
                let column = self.layout().columns[place].id;
                if let Some(computed) = self.compute(snapshot, rid, column, self.fills.len()) {
                    *value = computed;
                }
            }
        }
    }

    /// The same, if it is the owner who has read, and the row has changed since.
    fn correct_own(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        row: &mut [Value],
    ) {
        if self.concerns(snapshot)
            && self.has_filled(projection)
            && self.table.changed_since(rid, snapshot.ts)
        {
            self.correct(snapshot, rid, projection, row);
        }
    }

    fn has_filled(&self, projection: &[usize]) -> bool {
        projection.iter().any(|place| self.filled.contains(place))
    }

    /// The rows in a range of keys of an index being built, from all rows.
    fn seek_all(
        &self,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
        projection: &[usize],
    ) -> KeyedRows {
        let layout = self.layout();
        let spec = &layout.indexes[index];
        let places = KeyedRows::places(layout, spec, projection);
        let slots = |block| (0..ROWS_PER_BLOCK).map(move |slot| RowId::of(block, slot));
        let read = |rid| {
            let mut row = Row::new();
            self.read_row(snapshot, rid, &places, &mut row).then_some((rid, row))
        };
        let rows = (0..self.block_count()).flat_map(slots).filter_map(read);
        KeyedRows::new(rows, spec, range)
    }
}

impl Table for OwnView {
    fn read_block(
        &self,
        snapshot: &Snapshot,
        block: u32,
        projection: &[usize],
    ) -> Result<BlockRows, EngineError> {
        let seen = self.seen(snapshot);
        let snapshot = &*seen;
        let mut read = self.table.read_block(snapshot, block, projection)?;
        if !self.concerns(snapshot) || !self.has_filled(projection) {
            return Ok(read);
        }
        let is_changed = |i: &usize| self.table.changed_since(read.rids[*i], snapshot.ts);
        let changed: Vec<usize> = (0..read.rids.len()).filter(is_changed).collect();
        if changed.is_empty() {
            return Ok(read);
        }
        let columns = &self.layout().columns;
        let mut arrays = read.batch.columns().to_vec();
        for (array, &place) in arrays.iter_mut().zip(projection) {
            if !self.filled.contains(&place) {
                continue;
            }
            let ty = columns[place].ty;
            let values = 0..read.rids.len();
            let mut values: Vec<Value> = values.map(|i| batch::value_at(array, i, ty)).collect();
            for &i in &changed {
                let value = std::slice::from_mut(&mut values[i]);
                self.correct(snapshot, read.rids[i], &[place], value);
            }
            *array = batch::array_of(ty, values.iter());
        }
        let batch = RecordBatch::try_new(read.batch.schema(), arrays);
        read.batch = batch.expect("the columns have the types and the length of those before");
        Ok(read)
    }

    fn read_row(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
    ) -> bool {
        let seen = self.seen(snapshot);
        let snapshot = &*seen;
        let start = out.len();
        if !self.table.read_row(snapshot, rid, projection, out) {
            return false;
        }
        self.correct_own(snapshot, rid, projection, &mut out[start..]);
        true
    }

    fn get_by_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        projection: &[usize],
        out: &mut Row,
    ) -> Option<RowId> {
        let seen = self.seen(snapshot);
        let snapshot = &*seen;
        if self.concerns(snapshot) && self.built.contains(&index) {
            let range = KeyRange::exactly(key);
            if let Some(found) =
                self.seek_steady(snapshot, index, &range, Direction::Forward, projection)
            {
                let (rid, row) = found.into_iter().next()?;
                out.extend(row);
                return Some(rid);
            }
            return self.seek_all(snapshot, index, &range, projection).first(out);
        }
        let start = out.len();
        let rid = self.table.get_by_key(snapshot, index, key, projection, out)?;
        self.correct_own(snapshot, rid, projection, &mut out[start..]);
        Some(rid)
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
        let seen = self.seen(snapshot);
        let snapshot = &*seen;
        if !self.concerns(snapshot) {
            return self.table.seek(snapshot, index, range, direction, projection, visit);
        }
        if !self.built.contains(&index) {
            let has_filled = self.has_filled(projection);
            let mut corrected = |rid: RowId, row: &mut Row| {
                if has_filled && self.table.changed_since(rid, snapshot.ts) {
                    self.correct(snapshot, rid, projection, row);
                }
                visit(rid, row)
            };
            return self.table.seek(snapshot, index, range, direction, projection, &mut corrected);
        }
        match self.seek_steady(snapshot, index, range, direction, projection) {
            Some(found) => {
                for (rid, mut row) in found {
                    if visit(rid, &mut row).is_break() {
                        return;
                    }
                }
            }
            None => self.seek_all(snapshot, index, range, projection).visit(direction, visit),
        }
    }

    fn row_estimate(&self) -> u64 {
        self.table.row_estimate()
    }

    fn rows_for_plans(&self) -> u64 {
        self.table.rows_for_plans()
    }

    fn block_count(&self) -> u32 {
        self.table.block_count()
    }

    fn scan_blocks(&self) -> u32 {
        self.table.scan_blocks()
    }

    fn insert(
        &self,
        txn: &mut dyn EngineTxn,
        rows: &[Row],
        rids: &mut Vec<RowId>,
    ) -> Result<(), (usize, WriteStop)> {
        self.refuse_if_sealed()?;
        self.table.insert(txn, rows, rids)
    }

    fn write(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        writes: &[RowWrite<'_>],
    ) -> Result<(), (usize, WriteStop)> {
        self.refuse_if_sealed()?;
        let Some(maker) = &self.maker else { return self.table.write(txn, base, writes) };
        for (n, write) in writes.iter().enumerate() {
            maker.hold(txn, base, write.rid()).map_err(|stop| (n, stop))?;
            let written = self.table.write(txn, self.ts_as_seen(base), std::slice::from_ref(write));
            written.map_err(|(_, stop)| (n, stop))?;
        }
        Ok(())
    }

    fn changed_since(&self, rid: RowId, ts: Ts) -> bool {
        self.table.changed_since(rid, self.ts_as_seen(ts))
    }

    delegate_to_table!();
    delegate_migration_to_table!();
}
