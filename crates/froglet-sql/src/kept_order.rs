//! Aggregates that show the order of their rows, over a subquery that says one, and limits of such subqueries.
//!
//! ```text
//!   AggregateExec: array_agg(a) ─ … ─ SortExec                    nobody asks for an order: the sort is taken away
//!   AggregateExec: array_agg(a) ─ … ─ KeptOrderExec ─ SortExec    it stays
//! ```
//! PostgreSQL's manual (9.21): "supplying the input values from a sorted subquery will usually work". Between the
//! two are operators that keep the order of rows; for others no order is promised here either.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties,
};

/// The first of the physical rules.
#[derive(Debug)]
pub struct KeepOrder;

impl PhysicalOptimizerRule for KeepOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let kept = plan.transform_up(|node| match node.downcast_ref::<AggregateExec>() {
            Some(aggregate) if shows_order(aggregate) => {
                match with_kept_order(aggregate.input())? {
                    Some(input) => with_children(node, vec![input]).map(Transformed::yes),
                    None => Ok(Transformed::no(node)),
                }
            }
            // Which rows are the first of a subquery, its order says. A LIMIT that is a parameter is not yet known
            // to the sort, as a number is.
            None if node.is::<GlobalLimitExec>() || node.is::<LocalLimitExec>() => {
                match with_kept_order(node.children()[0])? {
                    Some(input) => with_children(node, vec![input]).map(Transformed::yes),
                    None => Ok(Transformed::no(node)),
                }
            }
            _ => Ok(Transformed::no(node)),
        })?;
        Ok(kept.data)
    }

    fn name(&self) -> &str {
        "keep_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether what is computed shows the order of the input. The aggregates of json are made of array_agg.
fn shows_order(aggregate: &AggregateExec) -> bool {
    aggregate.aggr_expr().iter().any(|of| {
        let by_itself = of.order_bys().is_empty() && !of.is_distinct();
        by_itself && matches!(of.fun().name(), "array_agg" | "string_agg")
    })
}

/// A plan whose rows come out of a sort in its order, if they do, with the sort kept.
fn with_kept_order(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return Ok(Some(KeptOrderExec::of(plan.clone(), sort.expr().clone())));
    }
    match (&plan.children()[..], &plan.maintains_input_order()[..]) {
        ([child], [true]) => {
            let kept = with_kept_order(child)?;
            kept.map(|child| with_children(plan.clone(), vec![child])).transpose()
        }
        _ => Ok(None),
    }
}

/// A plan over others than it had.
pub(crate) fn with_children(
    plan: Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let anew = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.replace_children(children, anew)
}

/// Asks for an order, and passes the rows on.
#[derive(Debug)]
struct KeptOrderExec {
    input: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
}

impl KeptOrderExec {
    fn of(input: Arc<dyn ExecutionPlan>, order: LexOrdering) -> Arc<dyn ExecutionPlan> {
        Arc::new(KeptOrderExec { input, order })
    }
}

impl DisplayAs for KeptOrderExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "KeptOrderExec")
    }
}

impl ExecutionPlan for KeptOrderExec {
    fn name(&self) -> &str {
        "KeptOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(OrderingRequirements::from(self.order.clone()))]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut told = TreeNodeRecursion::Continue;
        for key in self.order.iter() {
            told = told.visit_sibling(|| f(&key.expr))?;
        }
        Ok(told)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(KeptOrderExec::of(children.swap_remove(0), self.order.clone()))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
