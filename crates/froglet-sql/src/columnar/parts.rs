//! Which queries have parts, and how many.
//!
//! A query has parts if it does nothing but scan one table by its blocks, filter, and compute
//! columns of each row by itself, with functions that answer the same whenever they are asked.
//! Its physical plan is then one of as many partitions, with no operator that would bring them
//! together: each part is a partition of it.

use std::sync::Arc;

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::error::SqlError;
use crate::provider::BaseTable;
use crate::query_run;

use super::pinned::Unstarted;

/// Blocks that are worth a part of their own (131,072 rows).
const BLOCKS_PER_PART: usize = 16;
/// No client has use for more at one time.
const MOST_PARTS: usize = 8;

/// A query by its partitions.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) count: usize,
}

/// The parts of a query, if it has any.
pub(crate) async fn of(query: &Unstarted) -> Result<Option<Parts>, SqlError> {
    let blocks = scanned_blocks(query.logical()).unwrap_or(0);
    let wanted = (blocks / BLOCKS_PER_PART).min(MOST_PARTS);
    if wanted < 2 {
        return Ok(None);
    }
    let (plan, state) = query.ready(wanted)?;
    let plan = query_run::physical(&plan, &state).await?;
    let count = plan.output_partitioning().partition_count();
    let context = query_run::task_context(&state);
    Ok((count > 1 && streams(&plan)).then_some(Parts { plan, context, count }))
}

/// The blocks of the one table of a plain query.
fn scanned_blocks(plan: &LogicalPlan) -> Option<usize> {
    if !plain_expressions(plan) {
        return None;
    }
    match plan {
        LogicalPlan::Projection(node) => scanned_blocks(&node.input),
        LogicalPlan::Filter(node) => scanned_blocks(&node.input),
        LogicalPlan::SubqueryAlias(node) => scanned_blocks(&node.input),
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() => {
            let provider = source_as_provider(&scan.source).ok()?;
            let table = provider.downcast_ref::<BaseTable>()?;
            Some(table.table().table.scan_blocks() as usize)
        }
        _ => None,
    }
}

fn plain_expressions(plan: &LogicalPlan) -> bool {
    let mut plain = true;
    let looked = plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            plain &= match expr {
                Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => false,
                expr => !expr.is_volatile_node(),
            };
            Ok(if plain { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })
    });
    plain && looked.is_ok()
}

/// Whether a partition of the plan reads nothing but its own partition of the scan.
fn streams(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let known =
        ["TableScan", "FilterExec", "ProjectionExec", "CoalesceBatchesExec", "CooperativeExec"];
    known.contains(&plan.name()) && plan.children().into_iter().all(streams)
}
