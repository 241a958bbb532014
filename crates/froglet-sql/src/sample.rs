//! How large the groups of an aggregate are, about: from one block of each table.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, TableScan};
use datafusion::physical_expr::create_physical_expr;
use froglet_engine::Snapshot;

use crate::demand::{Demand, is_over};
use crate::error::SqlError;
use crate::unit_query::hashes_of_all;
use crate::units::{Source, columns, columns_read};

/// What a block says of groups.
pub(crate) struct Groups {
    /// How many there are in it, at most.
    pub groups: u64,
    /// Of how many rows.
    rows: u64,
    /// There is no other block.
    is_all: bool,
}

impl Groups {
    /// Whether there are so few in a block that others will hardly have more.
    pub(crate) fn is_few(&self) -> bool {
        self.is_all || self.groups <= self.rows / 16
    }

    fn none() -> Groups {
        Groups { groups: 1, rows: 0, is_all: true }
    }

    /// Every one of these may meet every one of those.
    fn with(self, other: Groups) -> Groups {
        Groups {
            groups: self.groups.saturating_mul(other.groups),
            rows: self.rows.max(other.rows),
            is_all: self.is_all && other.is_all,
        }
    }
}

/// The groups of a plan's rows by these expressions; `None` where a block does not tell.
pub(crate) fn groups(
    plan: &LogicalPlan,
    by: &[Expr],
    snapshot: &Snapshot,
) -> Result<Option<Groups>> {
    if by.is_empty() {
        return Ok(Some(Groups::none()));
    }
    let below = |schema: &DFSchema, made_by: &[Expr]| {
        let below = Demand::All(by.to_vec()).below(schema, |at| made_by.get(at))?;
        if let Demand::All(keys) = below { Some(keys) } else { None }
    };
    match plan {
        LogicalPlan::TableScan(scan) => of_table(scan, by, snapshot),
        LogicalPlan::Filter(filter) => groups(&filter.input, by, snapshot),
        LogicalPlan::Sort(sort) => groups(&sort.input, by, snapshot),
        LogicalPlan::Projection(projection) => match below(&projection.schema, &projection.expr) {
            Some(by) => groups(&projection.input, &by, snapshot),
            None => Ok(None),
        },
        LogicalPlan::SubqueryAlias(alias) => {
            match below(&alias.schema, &columns(alias.input.schema())) {
                Some(by) => groups(&alias.input, &by, snapshot),
                None => Ok(None),
            }
        }
        LogicalPlan::Aggregate(aggregate) => {
            match below(&aggregate.schema, &aggregate.group_expr) {
                Some(by) => groups(&aggregate.input, &by, snapshot),
                None => Ok(None),
            }
        }
        LogicalPlan::Join(join) if join.join_type != JoinType::LeftMark => {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            for key in by {
                if is_over(key, join.left.schema()) {
                    left.push(key.clone());
                } else if is_over(key, join.right.schema()) {
                    right.push(key.clone());
                } else {
                    return Ok(None);
                }
            }
            let sides =
                (groups(&join.left, &left, snapshot)?, groups(&join.right, &right, snapshot)?);
            let (Some(left), Some(right)) = sides else { return Ok(None) };
            Ok(Some(left.with(right)))
        }
        _ => Ok(None),
    }
}

fn of_table(scan: &TableScan, by: &[Expr], snapshot: &Snapshot) -> Result<Option<Groups>> {
    let Some(Source::Table(version)) = Source::of(scan) else { return Ok(None) };
    if by.iter().any(Expr::contains_scalar_subquery) {
        return Ok(None);
    }
    let table = &version.table;
    let (props, planning) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let physical = |expr| create_physical_expr(expr, &scan.projected_schema, &props, &planning);
    let keys = by.iter().map(physical).collect::<Result<Vec<_>>>()?;
    let blocks = table.block_count();
    // The one in the middle: the first may be of times when things were otherwise.
    let read = table.read_block(snapshot, blocks / 2, &columns_read(scan));
    let read = read.map_err(SqlError::from)?;
    let schema: Arc<Schema> = Arc::new(scan.projected_schema.as_arrow().clone());
    let hashes: HashSet<u64> = hashes_of_all(&keys, &schema, &read.batch).into_iter().collect();
    Ok(Some(Groups {
        groups: hashes.len().max(1) as u64,
        rows: read.rids.len() as u64,
        is_all: blocks <= 1,
    }))
}
