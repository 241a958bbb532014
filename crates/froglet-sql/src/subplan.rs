//! Correlated subqueries that nothing turns into joins: a function that runs the subquery for each row.
//!
//! ```text
//!   (SELECT … WHERE x = outer.a)   ─▶   froglet_subplan(a)       once for each different value of a
//!   EXISTS (…)                     ─▶   froglet_subplan(a), of bool
//!   x IN (SELECT y …)              ─▶   froglet_subplan(a, x): the rows of x = y, whether one is true or NULL
//!   LATERAL (SELECT …)             ─▶   unnest(froglet_subplan(a)), of a list of rows
//! ```
//!
//! Arguments are what the subquery reads of outside, parameters among them. A batch's subqueries run one after
//! the other on a thread and a runtime of their own: the thread of the query waits, and what a subquery starts
//! may not wait for that.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, RecordBatch, StructArray, new_empty_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, DataFusionError, ScalarValue, TableReference, UnnestOptions,
};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::{
    Exists, InSubquery, Placeholder, ScalarFunction, SetComparison, SetQuantifier,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, Volatility,
    binary_expr, lit,
};
use datafusion::physical_plan::collect;
use froglet_engine::SqlState;

use crate::decorrelate;
use crate::error::SqlError;
use crate::planning::internal;
use crate::provider::QueryScope;
use crate::query::{QueryEnv, account};
use crate::query_run;
use crate::semantics::fields::field_of;
use crate::semantics::first_seen::FirstSeen;
use crate::semantics::{casts, measures, sort_keys, unnested, windows};
use crate::stack;
use crate::types::zone::Zone;
use crate::types::{oids, plain, sql_field};

/// What the rows of IN are compared with.
const COMPARED: &str = "froglet compared";

/// Puts functions in the place of a plan's correlated subqueries.
pub fn run_by_row(plan: LogicalPlan) -> Result<LogicalPlan> {
    replaced(plan, reads_outside)
}

/// Puts functions in the place of every subquery that is a condition, also of those that read nothing from outside:
/// joins take them where they filter rows, and nowhere else.
pub fn run_conditions(plan: LogicalPlan) -> Result<LogicalPlan> {
    replaced(plan, |expr| {
        let is_condition =
            matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_));
        Ok(is_condition || reads_outside(expr)?)
    })
}

fn replaced(plan: LogicalPlan, which: fn(&Expr) -> Result<bool>) -> Result<LogicalPlan> {
    // Subqueries within come first: what they read of further out, the ones around them read.
    let changed = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let preserver = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = preserver.save(&expr);
            let changed = expr.transform_up(|expr| match which(&expr)? {
                true => in_place(expr, &schema),
                false => Ok(Transformed::no(expr)),
            })?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })?
        .map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(changed.data)
}

/// Whether a plan runs subqueries row by row: what they read is none of the plan's inputs.
pub(crate) fn runs_by_row(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        let mut found = false;
        node.apply_expressions(|expr| {
            found |= expr.exists(|part| Ok(is_subplan(part)))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(found)
    })
}

fn is_subplan(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<Subplan>())
}

fn reads_outside(expr: &Expr) -> Result<bool> {
    let subquery = match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => subquery,
        _ => return Ok(false),
    };
    let read = outside_of(&subquery.subquery)?;
    Ok(read.iter().any(|part| matches!(part, Expr::OuterReferenceColumn(..))))
}

/// A subquery's value as a call.
pub(crate) fn in_place(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (subquery, kind, negated) = match &expr {
        Expr::ScalarSubquery(subquery) => (subquery, Kind::Value, false),
        Expr::Exists(Exists { subquery, negated }) => (subquery, Kind::Exists, *negated),
        Expr::InSubquery(InSubquery { subquery, negated, .. }) => (subquery, Kind::In, *negated),
        // Of all rows, where it is not that of one the opposite is true.
        Expr::SetComparison(SetComparison { subquery, quantifier, .. }) => {
            (subquery, Kind::In, *quantifier == SetQuantifier::All)
        }
        _ => return Ok(Transformed::no(expr)),
    };
    let mut read = outside_of(&subquery.subquery)?;
    let mut args = as_arguments(&read, schema);
    let plan = LogicalPlanBuilder::from((*subquery.subquery).clone());
    let compared = match &expr {
        Expr::InSubquery(InSubquery { expr: value, .. }) => Some((value, Operator::Eq)),
        Expr::SetComparison(SetComparison { expr: value, op, .. }) => Some((value, *op)),
        _ => None,
    };
    let plan = match (&expr, compared) {
        (_, Some((value, op))) => {
            let field = field_of(value, schema)?;
            let given = Expr::OuterReferenceColumn(field, Column::new_unqualified(COMPARED));
            read.push(given.clone());
            args.push((**value).clone());
            let found = Expr::from(subquery.subquery.schema().qualified_field(0));
            let (given, found) = measures::pair(given, op, found, subquery.subquery.schema())?;
            let holds = binary_expr(given, op, found);
            let holds = match matches!(expr, Expr::SetComparison(_)) && negated {
                true => !holds,
                false => holds,
            };
            plan.project([holds.alias(COMPARED)])?
        }
        (Expr::Exists(_), _) => plan.limit(0, Some(1))?,
        _ => plan,
    };
    let call = call(plan.build()?, kind, read, args)?;
    Ok(Transformed::yes(if negated { !call } else { call }))
}

/// A join with a LATERAL subquery: each row of the left has a list of the rows that are found for it.
pub(crate) fn beside(
    join: &Join,
    subquery: &LogicalPlan,
    alias: Option<&TableReference>,
    number: usize,
) -> Result<Option<LogicalPlan>> {
    let keeps_left = join.join_type == JoinType::Left;
    let condition = join.filter.clone().filter(|filter| *filter != lit(true));
    if keeps_left && condition.is_some() {
        return Ok(None);
    }
    let list = Column::new_unqualified(format!("froglet rows {number}"));
    let read = outside_of(subquery)?;
    let args = as_arguments(&read, join.left.schema());
    let rows = call(subquery.clone(), Kind::Rows, read, args)?.alias(&list.name);
    let left = || join.left.schema().iter().map(Expr::from);
    let given: Vec<Expr> = left().chain([rows]).collect();
    let found = subquery.schema().iter().enumerate().map(|(at, (table, field))| {
        let value = datafusion::functions::core::expr_fn::get_field(
            Expr::Column(list.clone()),
            member(at).as_str(),
        );
        value.alias_qualified(alias.cloned().or(table.cloned()), field.name())
    });
    let both: Vec<Expr> = left().chain(found).collect();
    let options = UnnestOptions::new().with_preserve_nulls(keeps_left);
    let plan = LogicalPlanBuilder::from(join.left.as_ref().clone())
        .project(given)?
        .unnest_column_with_options(list.clone(), options)?
        .project(both)?;
    match condition {
        Some(condition) => plan.filter(condition)?.build().map(Some),
        None => plan.build().map(Some),
    }
}

fn member(at: usize) -> String {
    format!("c{at}")
}

/// What a subquery reads of outside, as the rows beside it have that.
fn as_arguments(read: &[Expr], schema: &DFSchema) -> Vec<Expr> {
    let args = read.iter().map(|part| match part {
        Expr::OuterReferenceColumn(_, column) if schema.has_column(column) => {
            Expr::Column(column.clone())
        }
        // Of further out.
        other => other.clone(),
    });
    args.collect()
}

fn call(plan: LogicalPlan, kind: Kind, read: Vec<Expr>, mut args: Vec<Expr>) -> Result<Expr> {
    // A function of any number of arguments has one at least.
    if args.is_empty() {
        args.push(lit(true));
    }
    // What LATERAL reads within is joined; what it reads of outside is given when the subquery runs.
    let plan = decorrelate::decorrelate(plan)?;
    let plan = casts::rewrite_plan(without_lateral(plan)?)?;
    let plan = windows::type_frames(sort_keys::lower(plan)?)?;
    let plan = unnested::keep_order(plan)?;
    let signature = Signature::variadic_any(Volatility::Volatile);
    let function = Arc::new(ScalarUDF::new_from_impl(Subplan { plan, kind, read, signature }));
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(function, args)))
}

/// The plan with queries in FROM that read only what is given in the place of lateral ones.
fn without_lateral(plan: LogicalPlan) -> Result<LogicalPlan> {
    let read = outside_of(&plan)?;
    let changed = plan.transform_down(|node| match node {
        LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns, .. })
            if outer_ref_columns.iter().all(|column| read.contains(column)) =>
        {
            Ok(Transformed::yes((*subquery).clone()))
        }
        node => Ok(Transformed::no(node)),
    })?;
    Ok(changed.data)
}

/// What a plan reads of outside.
pub(crate) fn outside_of(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut found: Vec<Expr> = Vec::new();
    let mut beside_lateral: Vec<DFSchemaRef> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(join) = node {
            beside_lateral.push(join.left.schema().clone());
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let is_outside = match part {
                    Expr::OuterReferenceColumn(_, column) => {
                        !beside_lateral.iter().any(|beside| beside.has_column(column))
                    }
                    part => matches!(part, Expr::Placeholder(_)),
                };
                if is_outside && !found.contains(part) {
                    found.push(part.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// The value of the only row, NULL of none.
    Value,
    /// Whether there is a row.
    Exists,
    /// Whether one of the values, which are booleans, is true, or else NULL.
    In,
    /// A list of the rows, NULL of none.
    Rows,
}

/// A subquery as a function of what it reads of outside.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Subplan {
    plan: LogicalPlan,
    kind: Kind,
    read: Vec<Expr>,
    signature: Signature,
}

impl ScalarUDFImpl for Subplan {
    fn name(&self) -> &str {
        "froglet_subplan"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field()?.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        self.field()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ScalarFunctionArgs { args, number_rows, config_options, .. } = args;
        let arrays = args
            .into_iter()
            .map(|arg| arg.into_array(number_rows))
            .collect::<Result<Vec<ArrayRef>>>()?;
        if number_rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(self.field()?.data_type())));
        }
        let scope = ScopeRef::of(&config_options)?;
        let env = QueryEnv::new(scope.catalog.clone(), scope.session.clone());
        let state = query_run::state(&env, Some((*scope).clone()));
        let zone = Zone::current();
        let run = || zone.run(|| self.run_all(&arrays, number_rows, &state));
        let values = std::thread::scope(|threads| {
            let thread = std::thread::Builder::new()
                .name("froglet-subplan".to_owned())
                .stack_size(stack::STACK_BYTES)
                .spawn_scoped(threads, run)?;
            thread.join().map_err(|_| internal("a subquery panicked"))?
        })?;
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
    }
}

impl Subplan {
    fn field(&self) -> Result<FieldRef> {
        match self.kind {
            Kind::Exists => Ok(sql_field("exists", plain(oids::BOOL), DataType::Boolean, false)),
            Kind::In => Ok(sql_field("in", plain(oids::BOOL), DataType::Boolean, true)),
            Kind::Value => {
                let first = self.plan.schema().fields().first();
                let field = first.ok_or_else(|| internal("a subquery has no column"))?;
                Ok(Arc::new(field.as_ref().clone().with_nullable(true)))
            }
            Kind::Rows => {
                let members = self.plan.schema().fields().iter().enumerate();
                let members = members.map(|(at, field)| {
                    field.as_ref().clone().with_name(member(at)).with_nullable(true)
                });
                let row = DataType::Struct(members.collect());
                Ok(Arc::new(Field::new_list("rows", Field::new_list_field(row, true), true)))
            }
        }
    }

    /// The values of all rows, on a runtime of this thread alone.
    fn run_all(
        &self,
        arrays: &[ArrayRef],
        rows: usize,
        state: &SessionState,
    ) -> Result<Vec<ScalarValue>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut known: HashMap<Vec<ScalarValue>, ScalarValue> = HashMap::new();
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            let given = arrays
                .iter()
                .map(|array| ScalarValue::try_from_array(array, row))
                .collect::<Result<Vec<_>>>()?;
            let value = match known.get(&given) {
                Some(value) => value.clone(),
                None => {
                    let value = runtime.block_on(self.run(&given, state))?;
                    known.insert(given, value.clone());
                    value
                }
            };
            values.push(value);
        }
        Ok(values)
    }

    async fn run(&self, given: &[ScalarValue], state: &SessionState) -> Result<ScalarValue> {
        let plan = self.with_values(given)?;
        let plan = account::folding(|| state.optimize(&plan))?;
        let physical = state.query_planner().create_physical_plan(&plan, state).await?;
        let batches = collect(physical, query_run::task_context(state)).await?;
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        if self.kind == Kind::Exists {
            return Ok(ScalarValue::Boolean(Some(rows > 0)));
        }
        if self.kind == Kind::In {
            let found = batches.iter().flat_map(|batch| batch.column(0).as_boolean());
            let any = found.reduce(|a, b| match (a, b) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            });
            return Ok(ScalarValue::Boolean(any.unwrap_or(Some(false))));
        }
        let field = self.field()?;
        let ty = field.data_type();
        if self.kind == Kind::Rows {
            return match rows {
                0 => ScalarValue::try_from(ty),
                _ => list_of(&batches, ty),
            };
        }
        let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else {
            return ScalarValue::try_from(ty);
        };
        if rows > 1 {
            return Err(SqlError::new(
                SqlState::new("21000"),
                "more than one row returned by a subquery used as an expression",
            )
            .into());
        }
        let value = ScalarValue::try_from_array(batch.column(0), 0)?;
        if value.data_type() == *ty { Ok(value) } else { value.cast_to(ty) }
    }

    /// The plan with values in the place of what it reads of outside.
    fn with_values(&self, given: &[ScalarValue]) -> Result<LogicalPlan> {
        let value_of = |part: &Expr| {
            let at = self.read.iter().position(|read| read == part)?;
            let metadata = match part {
                Expr::OuterReferenceColumn(field, _) => Some(field),
                Expr::Placeholder(Placeholder { field, .. }) => field.as_ref(),
                _ => None,
            };
            let metadata = metadata
                .filter(|field| !field.metadata().is_empty())
                .map(|field| FieldMetadata::from(field.as_ref()));
            Some(Expr::Literal(given.get(at)?.clone(), metadata))
        };
        let changed = self.plan.clone().transform_up_with_subqueries(|node| {
            let preserver = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = preserver.save(&expr);
                let changed = expr.transform_up(|part| {
                    Ok(match value_of(&part) {
                        Some(value) => Transformed::yes(value),
                        None => Transformed::no(part),
                    })
                })?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })
        })?;
        Ok(changed.data)
    }
}

/// Rows as a list of structs.
fn list_of(batches: &[RecordBatch], ty: &DataType) -> Result<ScalarValue> {
    let DataType::List(item) = ty else { return Err(internal("rows are a list")) };
    let DataType::Struct(members) = item.data_type() else {
        return Err(internal("a row is a struct"));
    };
    let rows = batches.iter().map(|batch| batch.num_rows()).sum();
    let columns = members.iter().enumerate().map(|(at, member)| {
        let parts: Vec<&dyn Array> =
            batches.iter().map(|batch| batch.column(at).as_ref()).collect();
        Ok(cast(&concat(&parts)?, member.data_type())?)
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let structs = StructArray::try_new_with_length(members.clone(), columns, None, rows)?;
    let offsets = OffsetBuffer::from_lengths([rows]);
    let list = ListArray::try_new(item.clone(), offsets, Arc::new(structs), None)?;
    Ok(ScalarValue::List(Arc::new(list)))
}

/// The scope of the run under way, for functions.
#[derive(Clone)]
pub(crate) struct ScopeRef {
    scope: Arc<QueryScope>,
    first_seen: Arc<FirstSeen>,
}

impl ScopeRef {
    pub(crate) fn new(scope: Arc<QueryScope>) -> ScopeRef {
        ScopeRef { scope, first_seen: Arc::default() }
    }

    /// Of the functions' configuration.
    pub(crate) fn of(options: &ConfigOptions) -> Result<Arc<QueryScope>, DataFusionError> {
        Ok(ScopeRef::found(options)?.scope.clone())
    }

    /// What recursive queries of this run have seen.
    pub(crate) fn first_seen(options: &ConfigOptions) -> Result<Arc<FirstSeen>, DataFusionError> {
        Ok(ScopeRef::found(options)?.first_seen.clone())
    }

    fn found(options: &ConfigOptions) -> Result<&ScopeRef, DataFusionError> {
        let found = options.extensions.get::<ScopeRef>();
        found.ok_or_else(|| internal("a subquery outside a query"))
    }
}

impl std::fmt::Debug for ScopeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScopeRef")
    }
}

impl ConfigExtension for ScopeRef {
    const PREFIX: &'static str = "froglet_scope";
}

impl ExtensionOptions for ScopeRef {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, _: &str, _: &str) -> Result<()> {
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}
