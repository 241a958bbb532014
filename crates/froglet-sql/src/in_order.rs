//! Rows of UNION ALL in the order of its branches.
//!
//! ```text
//!   CoalescePartitionsExec ─ UnionExec ─ A, B      rows of A and B as they come
//!   InOrderExec            ─ UnionExec ─ A, B      the rows of A, then the rows of B
//! ```
//! SQL promises no order there, but PostgreSQL's Append has this one, programs rely on it, and a serial
//! column of `INSERT … VALUES ((SELECT …), …)` shows it. A table that is scanned in parts still is read by
//! all cores at once.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{LimitStream, LocalLimitExec};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::kept_order::with_children;

/// A plan in which partitions that are branches of UNION ALL are read one after the other.
pub fn in_order(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        Ok(match node.downcast_ref::<CoalescePartitionsExec>() {
            Some(any) if are_branches(any.input()) => {
                Transformed::yes(InOrderExec::of(any.input().clone(), any.fetch()))
            }
            // The first of its children is read, the others are computed before.
            _ if node.name() == "ScalarSubqueryExec" && are_branches(node.children()[0]) => {
                let mut children: Vec<_> = node.children().into_iter().cloned().collect();
                children[0] = InOrderExec::of(children[0].clone(), None);
                Transformed::yes(with_children(node, children)?)
            }
            _ => Transformed::no(node),
        })
    })?;
    Ok(match are_branches(&plan.data) {
        true => InOrderExec::of(plan.data, None),
        false => plan.data,
    })
}

/// Whether the partitions of a plan are the branches of a union, each of one partition.
fn are_branches(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_single =
        |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count() == 1;
    if let Some(union) = plan.downcast_ref::<UnionExec>() {
        return union.inputs().iter().all(|branch| is_single(branch) || are_branches(branch));
    }
    let passes_on = plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<CooperativeExec>()
        || plan
            .downcast_ref::<AggregateExec>()
            .is_some_and(|of| *of.mode() == AggregateMode::Partial);
    passes_on && plan.children().into_iter().all(are_branches)
}

/// Reads the partitions of its input one after the other.
#[derive(Debug)]
struct InOrderExec {
    input: Arc<dyn ExecutionPlan>,
    /// How many rows are wanted.
    fetch: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl InOrderExec {
    fn of(input: Arc<dyn ExecutionPlan>, fetch: Option<usize>) -> Arc<dyn ExecutionPlan> {
        let mut equal = input.equivalence_properties().clone();
        equal.clear_orderings();
        equal.clear_per_partition_constants();
        let properties = PlanProperties::new(
            equal,
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Arc::new(InOrderExec { input, fetch, metrics, properties: Arc::new(properties) })
    }
}

impl DisplayAs for InOrderExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match self.fetch {
            Some(fetch) => write!(f, "InOrderExec: fetch={fetch}"),
            None => write!(f, "InOrderExec"),
        }
    }
}

impl ExecutionPlan for InOrderExec {
    fn name(&self) -> &str {
        "InOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(InOrderExec::of(children.swap_remove(0), self.fetch))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (input, schema) = (self.input.clone(), self.schema());
        let partitions = stream::iter(0..input.output_partitioning().partition_count());
        let rows = partitions.map(move |at| input.execute(at, context.clone())).try_flatten();
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
        Ok(match self.fetch {
            Some(fetch) => {
                let metrics = BaselineMetrics::new(&self.metrics, partition);
                Box::pin(LimitStream::new(rows, 0, Some(fetch), metrics))
            }
            None => rows,
        })
    }
}
