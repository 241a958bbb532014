//! Which blocks a scan may leave out.
//!
//! A frozen block knows bounds of its columns' values. DataFusion turns the filters above a scan into
//! a condition on bounds; a block whose bounds refute it is not read. Of a block that is hot nothing
//! is known, and it is read.
//!
//! The bounds are asked for after the scan's snapshot was taken, so they hold for what it sees
//! ([`froglet_engine::Table::block_stats`]).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use froglet_engine::{ColumnStats, Value, batch};
use froglet_schema::TableVersion;

/// To look at the bounds of fewer blocks costs more than to read them.
const FEW_BLOCKS: u32 = 4;

/// The blocks of a table that may have rows for which all filters are true, if they are not all of
/// its `blocks`.
pub fn blocks(
    table: &TableVersion,
    schema: &SchemaRef,
    filters: &[Expr],
    blocks: u32,
    state: &dyn Session,
) -> Option<Vec<u32>> {
    if blocks < FEW_BLOCKS {
        return None;
    }
    let predicate = predicate(schema, conjunction(filters.to_vec())?, state).ok()?;
    if predicate.always_true() {
        return None;
    }
    let statistics = BlockStatistics { table, blocks, asked: RefCell::default() };
    let kept = predicate.prune(&statistics).ok()?;
    let left: Vec<u32> = (0..blocks).filter(|block| kept[*block as usize]).collect();
    (left.len() < kept.len()).then_some(left)
}

fn predicate(schema: &SchemaRef, all: Expr, state: &dyn Session) -> Result<PruningPredicate> {
    let names = DFSchema::try_from(schema.as_ref().clone())?;
    let all = state.create_physical_expr(all, &names)?;
    PruningPredicateBuilder::new().with_file_schema(schema.clone()).try_build(all)
}

/// The statistics of all blocks in one column.
type OfBlocks = Arc<[Option<ColumnStats>]>;

struct BlockStatistics<'a> {
    table: &'a TableVersion,
    blocks: u32,
    /// By the position of the column.
    asked: RefCell<HashMap<usize, OfBlocks>>,
}

impl BlockStatistics<'_> {
    fn of(&self, column: &Column) -> Option<(usize, OfBlocks)> {
        let at = self.table.def.columns.iter().position(|c| c.name == column.name)?;
        let ask =
            || (0..self.blocks).map(|block| self.table.table.block_stats(block, at)).collect();
        Some((at, self.asked.borrow_mut().entry(at).or_insert_with(ask).clone()))
    }

    fn bounds(
        &self,
        column: &Column,
        bound: impl Fn(&ColumnStats) -> Option<&Value>,
    ) -> Option<ArrayRef> {
        let (at, stats) = self.of(column)?;
        let bounds = stats.iter().map(|stats| stats.as_ref().and_then(&bound));
        let bounds = bounds.map(|bound| bound.unwrap_or(&Value::Null));
        Some(batch::array_of(self.table.def.columns[at].ty, bounds))
    }
}

impl PruningStatistics for BlockStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |stats| stats.min.as_ref())
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |stats| stats.max.as_ref())
    }

    fn num_containers(&self) -> usize {
        self.blocks as usize
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let (_, stats) = self.of(column)?;
        let nulls = stats.iter().map(|stats| stats.as_ref().map(|stats| stats.nulls as u64));
        Some(Arc::new(nulls.collect::<UInt64Array>()))
    }

    /// They belong to a column's bounds, which here are of a moment of their own: so a count of rows of
    /// another moment is not given.
    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
