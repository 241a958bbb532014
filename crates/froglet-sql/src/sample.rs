//! How large the groups of an aggregate are, about: from one block of each table.

use std::collections::HashSet;

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, TableScan};
use froglet_engine::Snapshot;

use crate::demand::{Demand, is_over};
use crate::error::SqlError;
use crate::unit_query::RowKeys;
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
    let below = |input: &LogicalPlan, schema: &DFSchema, made_by: &[Expr]| {
        let below = Demand::All(by.to_vec()).below(schema, |at| made_by.get(at));
        let Some(Demand::All(by)) = below else { return Ok(None) };
        groups(input, &by, snapshot)
    };
    match plan {
        LogicalPlan::TableScan(scan) => of_table(scan, by, snapshot),
        LogicalPlan::Filter(filter) => groups(&filter.input, by, snapshot),
        LogicalPlan::Sort(sort) => groups(&sort.input, by, snapshot),
        LogicalPlan::Projection(projection) => {
            below(&projection.input, &projection.schema, &projection.expr)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            below(&alias.input, &alias.schema, &columns(alias.input.schema()))
        }
        LogicalPlan::Aggregate(aggregate) => {
            below(&aggregate.input, &aggregate.schema, &aggregate.group_expr)
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
    let keys = RowKeys::new(by, &scan.projected_schema)?;
    let blocks = table.block_count();
    // The one in the middle: the first may be of times when things were otherwise.
    let read = table.read_block(snapshot, blocks / 2, &columns_read(scan));
    let read = read.map_err(SqlError::from)?;
    let hashes: HashSet<u64> = keys.hashes_of_all(&read.batch).into_iter().collect();
    Ok(Some(Groups {
        groups: hashes.len().max(1) as u64,
        rows: read.rids.len() as u64,
        is_all: blocks <= 1,
    }))
}
