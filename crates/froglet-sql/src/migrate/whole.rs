//! Queries that may be made lazily all at once, where no smaller unit has a key:
//!
//! ```text
//!   SELECT count(*), max(v) FROM t                             a row
//!   SELECT lower(s), count(*) FROM t GROUP BY lower(s)         no more rows than t, which is not too large
//! ```
//!
//! All rows are one record of the log, and in memory while it is written. So there may not be many; and as what
//! a crash takes away is made again, they may depend on nothing but the rows that are read: not on their order.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::{Distinct, LogicalPlan};

use crate::units::Source;

/// So many rows of a table may all come out again.
const ROWS_AT_MOST: u64 = 1 << 20;

/// Whether a query makes no more rows than can be made at once, and the same if it is run again.
pub(crate) fn may_be(plan: &LogicalPlan) -> Result<bool> {
    Ok(is_small(plan)? && !may_depend_on_order(plan)?)
}

/// Ties, and what is counted before there is an order.
fn may_depend_on_order(plan: &LogicalPlan) -> Result<bool> {
    let mut depends = false;
    plan.apply_with_subqueries(|node| {
        depends |= match node {
            LogicalPlan::Limit(_) | LogicalPlan::Window(_) => true,
            LogicalPlan::Distinct(distinct) => matches!(distinct, Distinct::On(_)),
            LogicalPlan::Sort(sort) => sort.fetch.is_some(),
            _ => false,
        };
        Ok(if depends { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(depends)
}

/// Groups of a table that is not too large, or of all rows.
fn is_small(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection) => is_small(&projection.input),
        LogicalPlan::Filter(filter) => is_small(&filter.input),
        LogicalPlan::Sort(sort) => is_small(&sort.input),
        LogicalPlan::SubqueryAlias(alias) => is_small(&alias.input),
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => Ok(true),
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => {
            let (mut tables, mut rows) = (0, 0);
            plan.apply_with_subqueries(|node| {
                if let LogicalPlan::TableScan(scan) = node
                    && let Some(Source::Table(table)) = Source::of(scan)
                {
                    tables += 1;
                    rows += table.table.row_estimate();
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
            Ok(tables == 1 && rows <= ROWS_AT_MOST)
        }
        _ => Ok(false),
    }
}
