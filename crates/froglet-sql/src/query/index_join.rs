//! Joins of few rows with many, which are looked up by an index.
//!
//! ```text
//!   IndexJoinExec                              once the rows of A are read, their keys are
//!   ├─ A, read first and hashed                known, and what reads B is told of them:
//!   └─ B: filters, groups, other joins         ranges of an index instead of all blocks
//!        └─ TableScan                          (`provider_access.rs`), if there are few
//! ```
//! Which one is read first, the optimizer has said from what it knows of sizes; here nothing is moved. What the index returns
//! is a superset of what matches, and the join looks at every row as before: **[J1]** rows of B that equal no key of A
//! are in no result of these joins, so it is of no concern who leaves them out.
//!
//! The keys are made anew with every run of the plan, so a recursive term looks up what its last round has found.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Operator, Volatility};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, Literal, lit,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

use crate::kept_order::with_children;
use crate::provider_access::KeyRows;
use crate::provider_exec::TableScan;
use crate::semantics::numerics;
use crate::udf::nothing::{OR_EMPTY, OR_NULL};

/// The most different keys that are looked up.
pub(crate) const KEYS_MAX: usize = 10_000;
/// The most bytes of the keys of all rows that are read first, which DataFusion copies one by one.
pub(crate) const KEY_BYTES_MAX: usize = 128 << 10;

/// The rule that finds such joins. Behind all that move operators.
#[derive(Debug)]
pub struct IndexJoins;

impl PhysicalOptimizerRule for IndexJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !config.optimizer.enable_join_dynamic_filter_pushdown {
            return Ok(plan);
        }
        let found = plan.transform_up(|node| {
            let of = node.downcast_ref::<HashJoinExec>().and_then(IndexJoinExec::of);
            Ok(of.map_or(Transformed::no(node), |join| Transformed::yes(Arc::new(join) as _)))
        })?;
        Ok(found.data)
    }

    fn name(&self) -> &str {
        "index_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The keys of a join, known while it runs.
#[derive(Debug, Clone)]
pub struct JoinKeys {
    filter: Arc<DynamicFilterPhysicalExpr>,
    /// Columns of the operator that is told, and of which place in a key each is.
    columns: Vec<(usize, usize)>,
}

impl JoinKeys {
    /// None yet, of the right side of a join.
    fn of(join: &HashJoinExec) -> JoinKeys {
        let keys: Vec<_> = join.on().iter().map(|(_, right)| Arc::clone(right)).collect();
        let is_boolean = |key: &Arc<dyn PhysicalExpr>| {
            matches!(key.data_type(&join.right().schema()), Ok(DataType::Boolean))
        };
        // Two keys of any number of rows.
        let column = |(place, key)| {
            (!is_boolean(key)).then(|| column_of(key)).flatten().map(|column| (column, place))
        };
        JoinKeys {
            columns: keys.iter().enumerate().filter_map(column).collect(),
            filter: Arc::new(DynamicFilterPhysicalExpr::new(keys, lit(true))),
        }
    }

    /// As the operator below names the columns; those that it does not have are left out.
    pub(crate) fn below(&self, name: impl Fn(usize) -> Option<usize>) -> JoinKeys {
        let columns = self.columns.iter();
        let below = columns.filter_map(|(column, place)| Some((name(*column)?, *place)));
        JoinKeys { filter: Arc::clone(&self.filter), columns: below.collect() }
    }

    /// Columns of a scan that are told of.
    pub(crate) fn columns(&self) -> Vec<usize> {
        self.columns.iter().map(|(column, _)| *column).collect()
    }

    /// What the join is told by.
    pub(crate) fn filter(&self) -> Arc<dyn PhysicalExpr> {
        Arc::clone(&self.filter) as _
    }

    /// The keys, if they are known and few: each with the values of [`JoinKeys::columns`].
    pub(crate) fn rows(&self) -> Result<Option<KeyRows>> {
        let told = self.filter.current()?;
        let Some(list) = list_of(&told) else { return Ok(None) };
        let mut rows = Vec::with_capacity(list.len());
        for key in list {
            let Some(key) = key.downcast_ref::<Literal>() else { return Ok(None) };
            let value = |(_, place): &(usize, usize)| match key.value() {
                ScalarValue::Struct(values) => {
                    ScalarValue::try_from_array(values.column(*place), 0)
                }
                value => Ok(value.clone()),
            };
            rows.push(self.columns.iter().map(value).collect::<Result<_>>()?);
        }
        Ok(Some(rows))
    }
}

/// A column, also as another type of integers, or by the order of its numbers.
fn column_of(shown: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    use DataType::{Int16, Int32, Int64};
    if let Some(call) = shown.downcast_ref::<ScalarFunctionExpr>() {
        return numerics::is_order(call.fun()).then(|| column_of(call.args().first()?)).flatten();
    }
    if let Some(cast) = shown.downcast_ref::<CastExpr>() {
        let is_integer = matches!(cast.cast_type(), Int16 | Int32 | Int64);
        return is_integer.then(|| column_of(cast.expr())).flatten();
    }
    shown.downcast_ref::<Column>().map(Column::index)
}

/// The list of keys in what a join says of its other side: bounds and a list.
fn list_of(told: &Arc<dyn PhysicalExpr>) -> Option<&[Arc<dyn PhysicalExpr>]> {
    if let Some(both) = told.downcast_ref::<BinaryExpr>() {
        let of = || list_of(both.right()).or_else(|| list_of(both.left()));
        return (*both.op() == Operator::And).then(of).flatten();
    }
    told.downcast_ref::<InListExpr>().filter(|list| !list.negated()).map(InListExpr::list)
}

/// A plan in which a scan is told of keys, if there is one that an index helps.
fn told(plan: &Arc<dyn ExecutionPlan>, keys: &JoinKeys) -> Option<Arc<dyn ExecutionPlan>> {
    // Of fewer rows a limit would choose others.
    if keys.columns.is_empty() || plan.fetch().is_some() {
        return None;
    }
    if let Some(scan) = plan.downcast_ref::<TableScan>() {
        return scan.told(keys).map(|scan| Arc::new(scan) as _);
    }
    if plan.is::<CooperativeExec>() {
        return with_told_child(plan, 0, keys);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        if draws(filter.predicate()) {
            return None;
        }
        let shown = filter.projection().as_ref();
        let below = keys.below(|column| shown.map_or(Some(column), |at| at.get(column).copied()));
        return with_told_child(plan, 0, &below);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        if projection.expr().iter().any(|shown| draws(&shown.expr)) {
            return None;
        }
        let below = keys.below(|column| column_of(&projection.expr().get(column)?.expr));
        return with_told_child(plan, 0, &below);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return told_groups(plan, aggregate, keys);
    }
    let join = match plan.downcast_ref::<IndexJoinExec>() {
        Some(by_index) => &by_index.join,
        None => plan.downcast_ref::<HashJoinExec>()?,
    };
    told_sides(plan, join, keys)
}

/// The groups of other keys are in no result.
fn told_groups(
    plan: &Arc<dyn ExecutionPlan>,
    aggregate: &AggregateExec,
    keys: &JoinKeys,
) -> Option<Arc<dyn ExecutionPlan>> {
    let group = aggregate.group_expr();
    let values = aggregate.aggr_expr().iter().flat_map(|of| of.expressions());
    let filters = aggregate.filter_expr().iter().flatten().cloned();
    let is_drawn = values.chain(filters).any(|value| draws(&value));
    if is_drawn || !group.is_single() || aggregate.limit_options().is_some() {
        return None;
    }
    with_told_child(plan, 0, &keys.below(|column| column_of(&group.expr().get(column)?.0)))
}

/// Rows of a side of which a join shows every one, or those that match: what is left out of it is in no result.
fn told_sides(
    plan: &Arc<dyn ExecutionPlan>,
    join: &HashJoinExec,
    keys: &JoinKeys,
) -> Option<Arc<dyn ExecutionPlan>> {
    use JoinType::{Full, Inner, Left, LeftAnti, LeftMark, LeftSemi};
    use JoinType::{Right, RightAnti, RightMark, RightSemi};
    // Columns before those of the right side.
    let width = match join.join_type() {
        RightSemi | RightAnti | RightMark => 0,
        _ => join.left().schema().fields().len(),
    };
    let joined = |column| match join.projection.as_ref() {
        Some(shown) => shown.get(column).copied(),
        None => Some(column),
    };
    let left = || {
        let left = keys.below(|column| joined(column).filter(|at| *at < width));
        with_told_child(plan, 0, &left)
    };
    let right = || {
        let right = keys.below(|column| joined(column)?.checked_sub(width));
        with_told_child(plan, 1, &right)
    };
    match join.join_type() {
        Inner => left().or_else(right),
        Left | LeftSemi | LeftAnti | LeftMark => left(),
        Right | RightSemi | RightAnti | RightMark => right(),
        Full => None,
    }
}

/// Whether an expression has to be computed for every row: nextval(), random().
fn draws(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_volatile = |part: &Arc<dyn PhysicalExpr>| {
        let call = part.downcast_ref::<ScalarFunctionExpr>();
        Ok(call.is_some_and(|call| {
            call.fun().signature().volatility == Volatility::Volatile
                && ![OR_NULL, OR_EMPTY].contains(&call.name())
        }))
    };
    expr.exists(is_volatile).unwrap_or(true)
}

fn with_told_child(
    plan: &Arc<dyn ExecutionPlan>,
    child: usize,
    keys: &JoinKeys,
) -> Option<Arc<dyn ExecutionPlan>> {
    let mut children: Vec<_> = plan.children().into_iter().cloned().collect();
    children[child] = told(&children[child], keys)?;
    with_children(Arc::clone(plan), children).ok()
}

/// See the module.
pub struct IndexJoinExec {
    join: HashJoinExec,
}

impl fmt::Debug for IndexJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexJoinExec({:?})", self.join.join_type())
    }
}

impl IndexJoinExec {
    /// If an index helps.
    fn of(join: &HashJoinExec) -> Option<IndexJoinExec> {
        // [J1] holds of those whose other side may be filtered by their condition.
        let (_, is_told) = join.join_type().on_lr_is_preserved();
        let is_one = join.properties().output_partitioning().partition_count() == 1
            && join.right().output_partitioning().partition_count() == 1;
        let null_is_none = join.null_equality() == NullEquality::NullEqualsNothing;
        if !is_told || !is_one || !null_is_none || join.null_aware {
            return None;
        }
        told(join.right(), &JoinKeys::of(join))?;
        let join = join.builder().build().ok()?;
        Some(IndexJoinExec { join })
    }
}

impl DisplayAs for IndexJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = told(self.join.right(), &JoinKeys::of(&self.join));
        let index = told.as_ref().and_then(index_of);
        write!(f, "IndexJoinExec: using {}, ", index.as_deref().unwrap_or("no index"))?;
        self.join.fmt_as(format, f)
    }
}

/// The index of the scan that is told of keys.
fn index_of(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    match plan.downcast_ref::<TableScan>() {
        Some(scan) => scan.index_of_keys(),
        None => plan.children().into_iter().find_map(index_of),
    }
}

impl ExecutionPlan for IndexJoinExec {
    fn name(&self) -> &str {
        "IndexJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().with_new_children(children)?.build()?;
        Ok(Arc::new(IndexJoinExec { join }))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().reset_state().build()?;
        Ok(Arc::new(IndexJoinExec { join }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let keys = JoinKeys::of(&self.join);
        let Some(right) = told(self.join.right(), &keys) else {
            return self.join.execute(partition, context);
        };
        let children = vec![Arc::clone(self.join.left()), right];
        let join = self.join.builder().with_new_children(children)?.build()?;
        join.with_dynamic_filter_expr(keys.filter)?.execute(partition, context)
    }

    fn fetch(&self) -> Option<usize> {
        self.join.fetch()
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.join.metrics()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.join.maintains_input_order()
    }
}
