//! Parts of WITH that are run once, however often they are read: those with functions that tell something else each
//! time, as `nextval` and `random` do.
//!
//! ```text
//!   WITH x AS (SELECT nextval('s') n) SELECT a.n = b.n FROM x a, x b
//!
//!   rewritten   x AS (SELECT * FROM (SELECT nextval('s') n) "froglet once 7")
//!   planned     a and b are copies of a plan that has Once(7) in the place of that alias
//!   run         whoever reads first runs it and keeps the rows, with the run's scope, for the others
//! ```
//!
//! Numbers are those of one process, so that copies of one part have one, and no other part has it.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::{self, Formatter};
use std::hash::Hash;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as Order};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore, Volatility,
};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties, execute_stream,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use datafusion::sql::sqlparser::ast;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::planning::{internal, registry};
use crate::query::held_rows::HeldRows;
use crate::query::{concatenation, counts};
use crate::rewrite::folded;
use crate::{decorrelate, walk};

/// What the alias of such a part begins with.
const ALIAS: &str = "froglet once ";

/// Marks those parts of WITH, before a query is rewritten.
pub(crate) fn mark(node: &mut impl ast::VisitMut) {
    struct Parts;
    impl walk::Change for Parts {
        fn query(&mut self, query: &mut ast::Query) {
            let Some(with) = &mut query.with else { return };
            let parts = with.cte_tables.iter_mut();
            parts.filter(|part| is_part(part, with.recursive)).for_each(mark_part);
        }
    }
    walk::change(node, &mut Parts);
}

/// Whether a part of WITH, or of WITH RECURSIVE, is run once.
pub(crate) fn is_part(part: &ast::Cte, recursive: bool) -> bool {
    let own = folded(&part.alias.name);
    let reads_itself = || {
        let read = ast::visit_relations(&*part.query, |name| {
            match name.0.last().and_then(|part| part.as_ident()).is_some_and(|n| folded(n) == own) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        read.is_break()
    };
    walk::any_expr(&*part.query, is_volatile) && !(recursive && reads_itself())
}

fn mark_part(part: &mut ast::Cte) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Order::Relaxed);
    let text = format!("SELECT * FROM (SELECT 1) \"{ALIAS}{number}\"");
    let Ok(mut around) = crate::parse::parse_query(&text) else { return };
    if let ast::SetExpr::Select(select) = &mut *around.body
        && let Some(from) = select.from.first_mut()
        && let ast::TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        std::mem::swap(subquery, &mut part.query);
        *part.query = around;
    }
}

fn is_volatile(expr: &ast::Expr) -> bool {
    let ast::Expr::Function(function) = expr else { return false };
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
    name.as_deref()
        .and_then(|name| registry().scalar(name))
        .is_some_and(|function| function.signature().volatility == Volatility::Volatile)
}

/// Puts the node in the place of the alias.
pub(crate) fn place(plan: LogicalPlan) -> Result<LogicalPlan> {
    let placed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::SubqueryAlias(alias) = &node else { return Ok(Transformed::no(node)) };
        let number = alias.alias.table().strip_prefix(ALIAS).and_then(|n| n.parse().ok());
        match number {
            // What reads the rows around it is another plan for each of them.
            Some(number) if !decorrelate::is_correlated(&node) => {
                let node = Arc::new(Once { number, input: node });
                Ok(Transformed::yes(LogicalPlan::Extension(Extension { node })))
            }
            _ => Ok(Transformed::no(node)),
        }
    })?;
    Ok(placed.data)
}

/// Rows that are read once.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Once {
    number: u64,
    input: LogicalPlan,
}

impl PartialOrd for Once {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.number.partial_cmp(&other.number)
    }
}

impl UserDefinedLogicalNodeCore for Once {
    fn name(&self) -> &str {
        "Once"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Once")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().ok_or_else(|| internal("rows are read of a plan"))?;
        Ok(Once { number: self.number, input })
    }
}

/// DataFusion's planner, which knows the node.
#[derive(Debug)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Planner)]);
        let plan = concatenation::metered_plan(counts::known(plan, session).await?)?;
        planner.create_physical_plan(&plan, session).await
    }
}

#[async_trait]
impl ExtensionPlanner for Planner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let once = node.as_any().downcast_ref::<Once>();
        Ok(once.zip(inputs.first()).map(|(once, input)| {
            Arc::new(OnceExec::new(once.number, input.clone())) as Arc<dyn ExecutionPlan>
        }))
    }
}

type Rows = Arc<OnceCell<Read>>;

/// What was read, on the account until the run ends.
struct Read {
    batches: Vec<RecordBatch>,
    _held: HeldRows,
}

async fn read(input: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Read> {
    let mut held = HeldRows::new(&context, "Once");
    let (mut rows, mut batches) = (execute_stream(input, context)?, Vec::new());
    while let Some(batch) = rows.try_next().await? {
        held.come(&batch, 1, 0)?;
        batches.push(batch);
    }
    Ok(Read { batches, _held: held })
}

/// The rows of one run, by the parts' numbers.
#[derive(Clone, Default)]
pub(crate) struct OnceRows(Arc<Mutex<HashMap<u64, Rows>>>);

#[derive(Debug)]
struct OnceExec {
    number: u64,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl OnceExec {
    fn new(number: u64, input: Arc<dyn ExecutionPlan>) -> OnceExec {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        OnceExec { number, input, properties }
    }
}

impl DisplayAs for OnceExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("OnceExec")
    }
}

impl ExecutionPlan for OnceExec {
    fn name(&self) -> &str {
        "OnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
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
        let input = children.pop().ok_or_else(|| internal("rows are read of a plan"))?;
        Ok(Arc::new(OnceExec::new(self.number, input)))
    }

    fn execute(
        &self,
        _partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = context.session_config().get_extension::<OnceRows>();
        let rows = rows.map(|rows| rows.0.lock().entry(self.number).or_default().clone());
        let (rows, input) = (rows.unwrap_or_default(), self.input.clone());
        let found = async move {
            let found = rows.get_or_try_init(|| read(input, context)).await?.batches.clone();
            Ok::<_, DataFusionError>(futures::stream::iter(found).map(Ok))
        };
        let stream = futures::stream::once(found).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), stream)))
    }
}
