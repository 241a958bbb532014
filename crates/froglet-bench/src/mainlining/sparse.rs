//! The table of figures 11 to 14: full blocks of which rows were deleted at random, and the ways to make
//! Arrow of it.
//!
//! ```text
//!   hybrid     compact (moves, in transactions) ─ collect ─ … ─▶ freeze (gather)
//!   snapshot   every block read in a transaction, copied by Arrow's builders
//!   in place   the same moves, and every row that is left rewritten by an UPDATE
//! ```
//!
//! Section 6.2 has 16 million rows of a bigint and a text of 12 to 24 bytes, no index. Nothing else is at work:
//! the engine has no threads of its own here. Moves are made as `froglet-schema`'s `compact` makes them,
//! without the locks that it asks for.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow};
use arrow_array::builder::{Int64Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, EngineTxn, Layout, Row, RowId, RowWrite, Snapshot, SpaceId,
    Table, TxnId, Value,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::store::{Background, Durability, Store};

const SPACE: SpaceId = SpaceId(1);
/// Moves of one transaction, as in `froglet-schema`'s `compact`.
const CHUNK_ROWS: usize = 1024;

/// What columns a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// A bigint and a text.
    Mixed,
    /// Two bigints.
    Fixed,
    /// Two texts.
    Varlen,
}

impl Columns {
    pub fn name(self) -> &'static str {
        match self {
            Columns::Mixed => "bigint and text",
            Columns::Fixed => "fixed-length",
            Columns::Varlen => "variable-length",
        }
    }

    fn types(self) -> [ColumnType; 2] {
        match self {
            Columns::Mixed => [ColumnType::Int64, ColumnType::Text],
            Columns::Fixed => [ColumnType::Int64; 2],
            Columns::Varlen => [ColumnType::Text; 2],
        }
    }
}

/// What compaction did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compacted {
    /// Time of planning and moving, and of collecting after it.
    pub moving_s: f64,
    pub collecting_s: f64,
    pub moves: u64,
    /// Groups of blocks that had something to move.
    pub groups: u64,
    /// Of the group that had the most.
    pub most_moves: u64,
}

/// The table.
pub struct Sparse {
    store: Store,
    table: Arc<dyn Table>,
    next_txn: u64,
    blocks: u32,
}

impl Sparse {
    /// So many blocks, of whose rows each is deleted with a probability.
    pub fn make(columns: Columns, blocks: u32, empty_percent: u32, dir: &Path) -> Result<Sparse> {
        let nothing = Background { collects: false, ..Background::default() };
        let store = Store::open_with(Durability::Off, dir, nothing)?;
        store.engine.create_space(SPACE)?;
        let column = |(id, ty)| ColumnSpec { id: ColumnId(id), ty, missing: Value::Null };
        let layout = Layout {
            columns: (1..).zip(columns.types()).map(column).collect(),
            indexes: vec![],
            row_key: None,
        };
        let table = store.engine.open(SPACE, Arc::new(layout))?;
        let mut sparse = Sparse { store, table, next_txn: 1, blocks };
        let mut random = StdRng::seed_from_u64(u64::from(empty_percent));
        // All before the first is deleted: an insert would take its place.
        let full: Vec<Vec<RowId>> =
            (0..blocks).map(|_| sparse.fill_block(columns, &mut random)).collect::<Result<_>>()?;
        for mut rids in full {
            rids.retain(|_| random.random_range(0..100) < empty_percent);
            let delete = |&rid: &RowId| RowWrite::Delete { rid };
            let deletes: Vec<RowWrite<'_>> = rids.iter().map(delete).collect();
            sparse.write(&deletes)?;
        }
        sparse.store.collect_garbage();
        Ok(sparse)
    }

    fn fill_block(&mut self, columns: Columns, random: &mut StdRng) -> Result<Vec<RowId>> {
        let mut value = |ty: ColumnType| match ty {
            ColumnType::Int64 => Value::Int64(random.random()),
            _ => {
                let digits = format!("{:024}", random.random::<u64>());
                Value::text(&digits[..random.random_range(12..=24)])
            }
        };
        let rows: Vec<Row> =
            (0..ROWS_PER_BLOCK).map(|_| columns.types().map(&mut value).to_vec()).collect();
        let table = self.table.clone();
        let mut rids = Vec::with_capacity(ROWS_PER_BLOCK);
        self.transaction(|txn| {
            let inserted = table.insert(txn, &rows, &mut rids);
            inserted.map_err(|(n, stop)| anyhow!("row {n} was refused: {stop:?}"))
        })?;
        Ok(rids)
    }

    fn write(&mut self, writes: &[RowWrite<'_>]) -> Result<()> {
        let table = self.table.clone();
        self.transaction(|txn| {
            let base = txn.snapshot().ts;
            let written = table.write(txn, base, writes);
            written.map_err(|(n, stop)| anyhow!("write {n} was refused: {stop:?}"))
        })
    }

    fn transaction(&mut self, work: impl FnOnce(&mut dyn EngineTxn) -> Result<()>) -> Result<()> {
        self.next_txn += 1;
        let mut txn = self.store.engine.begin(TxnId(self.next_txn));
        work(&mut *txn)?;
        txn.pre_commit();
        let _ = txn.post_commit()?;
        Ok(())
    }

    pub fn set_group_blocks(&self, blocks: usize) {
        self.store.set_group_blocks(blocks);
    }

    /// The places of each block that are taken.
    pub fn places(&self) -> Result<Vec<Vec<usize>>> {
        let snapshot = self.store.engine.snapshot();
        let places = |block| -> Result<Vec<usize>> {
            let rids = self.table.read_block(&snapshot, block, &[])?.rids;
            Ok(rids.into_iter().map(RowId::slot).collect())
        };
        (0..self.blocks).map(places).collect()
    }

    /// Moves rows together until there is nothing left to gain.
    pub fn compact(&mut self) -> Result<Compacted> {
        let mut done = Compacted::default();
        loop {
            let begun = Instant::now();
            let plan = self.table.plan_moves(false);
            if plan.is_empty() {
                done.moving_s += begun.elapsed().as_secs_f64();
                return Ok(done);
            }
            for chunk in plan.chunks(CHUNK_ROWS) {
                let table = self.table.clone();
                self.transaction(|txn| {
                    let mut moves = chunk.iter();
                    let moved = moves.try_for_each(|(from, to)| table.move_row(txn, *from, *to));
                    moved.map_err(|stop| anyhow!("a row could not be moved: {stop:?}"))
                })?;
            }
            done.moving_s += begun.elapsed().as_secs_f64();
            let begun = Instant::now();
            self.store.collect_garbage();
            done.collecting_s += begun.elapsed().as_secs_f64();
            done.moves += plan.len() as u64;
            done.most_moves = done.most_moves.max(plan.len() as u64);
            done.groups += 1;
        }
    }

    /// Freezes all blocks; says how long it took.
    pub fn freeze(&self) -> Result<f64> {
        let begun = Instant::now();
        self.store.engine.freeze(SPACE);
        let seconds = begun.elapsed().as_secs_f64();
        let counts = self.store.engine.block_counts(SPACE);
        // Emptied blocks have nothing to freeze.
        anyhow::ensure!(counts.versions == 0 && counts.cooling == 0, "left hot: {counts:?}");
        Ok(seconds)
    }

    /// Reads every block in a transaction and copies it with Arrow's builders; says how long it took.
    pub fn snapshot(&self) -> Result<f64> {
        let begun = Instant::now();
        let snapshot = self.store.engine.snapshot();
        for block in 0..self.blocks {
            let batch = self.table.read_batch(&snapshot, block, &[0, 1])?;
            black_box(copied(&batch));
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Compacts, and rewrites every row; says how long it took.
    pub fn in_place(&mut self) -> Result<f64> {
        let begun = Instant::now();
        self.compact()?;
        for block in 0..self.blocks {
            let snapshot = self.store.engine.snapshot();
            let read = self.table.read_block(&snapshot, block, &[0, 1])?;
            drop(snapshot);
            let both = |n| [0, 1].map(|at| value(read.batch.column(at), n));
            let updates: Vec<(RowId, [Value; 2])> =
                read.rids.iter().enumerate().map(|(n, rid)| (*rid, both(n))).collect();
            let writes: Vec<RowWrite<'_>> = updates
                .iter()
                .map(|(rid, values)| RowWrite::Update { rid: *rid, columns: &[0, 1], values })
                .collect();
            self.write(&writes)?;
        }
        self.store.collect_garbage();
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Sets the first column of the first row of each block; says how long each took, in microseconds.
    pub fn write_to_each_block(&mut self, value: i64) -> Result<Vec<f64>> {
        let table = self.table.clone();
        let mut waits_us = Vec::new();
        for block in 0..table.block_count() {
            let values = [Value::Int64(value)];
            let rid = RowId::of(block, 0);
            let begun = Instant::now();
            self.write(&[RowWrite::Update { rid, columns: &[0], values: &values }])?;
            waits_us.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        Ok(waits_us)
    }

    /// What a reader holds: a view, and every block as Arrow.
    pub fn hold(&self) -> Result<Held> {
        let snapshot = self.store.engine.snapshot();
        let read = |block| self.table.read_batch(&snapshot, block, &[0, 1]);
        let batches = (0..self.table.block_count()).map(read).collect::<Result<_, _>>()?;
        Ok(Held { batches, _snapshot: snapshot })
    }

    pub fn collect_garbage(&self) {
        self.store.collect_garbage();
    }
}

/// What a reader holds.
pub struct Held {
    batches: Vec<RecordBatch>,
    _snapshot: Arc<Snapshot>,
}

impl Held {
    /// The sum of the first column, a bigint.
    pub fn sum(&self) -> i64 {
        let values = self
            .batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().iter());
        values.fold(0, |sum, value| sum.wrapping_add(*value))
    }
}

fn value(array: &ArrayRef, n: usize) -> Value {
    match array.as_primitive_opt::<Int64Type>() {
        Some(array) => Value::Int64(array.value(n)),
        None => Value::text(array.as_string_view().value(n)),
    }
}

/// A copy in Arrow's canonical form: offsets into one buffer of bytes.
fn copied(batch: &RecordBatch) -> Vec<ArrayRef> {
    let copy = |array: &ArrayRef| -> ArrayRef {
        match array.as_primitive_opt::<Int64Type>() {
            Some(array) => {
                let mut to = Int64Builder::with_capacity(array.len());
                to.append_slice(array.values());
                Arc::new(to.finish())
            }
            None => {
                let array = array.as_string_view();
                let mut to = StringBuilder::with_capacity(array.len(), 24 * array.len());
                array.iter().for_each(|text| to.append_option(text));
                Arc::new(to.finish())
            }
        }
    };
    batch.columns().iter().map(copy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(sparse: &Sparse) -> usize {
        sparse.places().unwrap().iter().map(Vec::len).sum()
    }

    #[test]
    fn every_way_keeps_the_rows_and_compaction_leaves_no_gap() {
        let dir = std::env::temp_dir();
        let mut sparse = Sparse::make(Columns::Mixed, 3, 60, &dir).unwrap();
        let before = rows(&sparse);
        let places = sparse.places().unwrap();
        for block in &places {
            let share = block.len() as f64 / ROWS_PER_BLOCK as f64;
            assert!((0.38..0.42).contains(&share), "{share} of a block's rows are there");
        }
        let fewest = super::super::optimum::moves(&places, ROWS_PER_BLOCK);
        let sum = sparse.hold().unwrap().sum();
        sparse.snapshot().unwrap();
        let done = sparse.compact().unwrap();
        assert!(done.moves >= fewest && fewest > 0, "{done:?}, at least {fewest}");
        sparse.freeze().unwrap();
        assert_eq!((rows(&sparse), sparse.hold().unwrap().sum()), (before, sum));
        let left: Vec<usize> = sparse.places().unwrap().iter().map(Vec::len).collect();
        assert_eq!(left.iter().filter(|rows| **rows > 0).count(), 2, "{left:?}");
        sparse.in_place().unwrap();
        assert_eq!((rows(&sparse), sparse.hold().unwrap().sum()), (before, sum));
    }
}
