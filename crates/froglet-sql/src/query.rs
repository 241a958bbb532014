//! Queries through DataFusion: planned once under a catalog version, run under many snapshots.
//!
//! ```text
//!   AST ─ rewrite ─ SqlToRel ─ casts ─ analyzer ─ optimizer ─▶ PlannedQuery      plan()
//!   PlannedQuery + values of $n ─ physical plan ─ froglet-query runtime ─▶ QueryStream   run()
//! ```
//!
//! Types of parameters: a first planning with what the client says tells what their contexts say;
//! what nothing tells is text; a second planning has them all.

pub(crate) mod account;
pub(crate) mod batch_rows;
pub(crate) mod concatenation;
pub(crate) mod counts;
pub(crate) mod held_rows;
pub mod index_join;
pub(crate) mod named_windows;
pub(crate) mod recursion;
pub(crate) mod shadowed_parts;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, ParamValues, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::planner::PlannerContext;
use datafusion::sql::sqlparser::ast;
use froglet_engine::{Snapshot, SqlState, Value};
use froglet_schema::{CatalogVersion, SqlType};
use froglet_txn::Limits;

use crate::context::{EvalContext, SessionFunctions, bind_params};
use crate::decorrelate;
use crate::df_error::map_df_error;
use crate::error::SqlError;
use crate::expr::param_index;
use crate::lazy_query::plan_reads_catalog;
use crate::once::{self, OnceRows};
use crate::planning::{PlanContext, param_fields};
use crate::prepared::Field;
use crate::provider::{CatalogTables, Hidden, QueryScope};
use crate::pull_up;
use crate::query_run::{self, QueryStream};
use crate::recursive;
use crate::resolve::Names;
use crate::semantics::{
    casts, copies, grouping_sets, held, merged_columns, named, null_in, operators, sort_keys,
    told_in, unnested, windows,
};
use crate::stack;
use crate::subplan;
use crate::types::record::Shape;
use crate::types::{self, oids, sql_type_of_field};
use crate::{rewrite_records, rewrite_scalar, rewrite_subquery};
use crate::{view, walk};

/// What planning and running need from the session.
#[derive(Clone)]
pub struct QueryEnv {
    /// The catalog that the statement sees.
    pub catalog: Arc<CatalogVersion>,
    /// The session.
    pub session: Arc<dyn SessionFunctions>,
    /// Partitions of a scan; 1 runs a query on one thread.
    pub target_partitions: usize,
    /// What parts of the statement return that are before the query ([`crate::with_plan`]).
    pub(crate) returned_schemas: Vec<SchemaRef>,
    /// Their rows, when it runs.
    pub(crate) returned: Vec<RecordBatch>,
    /// What it does not see of what they have written.
    pub(crate) hidden: Hidden,
}

impl QueryEnv {
    /// On one thread.
    pub fn new(catalog: Arc<CatalogVersion>, session: Arc<dyn SessionFunctions>) -> QueryEnv {
        QueryEnv {
            catalog,
            session,
            target_partitions: 1,
            returned_schemas: Vec::new(),
            returned: Vec::new(),
            hidden: Hidden::default(),
        }
    }

    pub(crate) fn tables(&self) -> CatalogTables {
        CatalogTables {
            catalog: self.catalog.clone(),
            search_path: self.session.search_path(),
            database: self.session.database(),
            options: query_run::options(self),
            depth: 0,
            returned: self.returned_schemas.clone(),
        }
    }
}

/// A planned query. Good for as long as the catalog's stamp is the same.
#[derive(Debug, Clone)]
pub struct PlannedQuery {
    plan: LogicalPlan,
    schema: SchemaRef,
    fields: Arc<[Field]>,
    params: Vec<SqlType>,
}

/// Plans a query. `params`: what the client says of `$1…` (oid 0: nothing). `targets`: types of
/// the columns that its results go into (INSERT … SELECT), which literals and parameters without
/// a type take; empty, or one for each column of the select list.
pub fn plan(
    query: &ast::Query,
    env: &QueryEnv,
    params: &[SqlType],
    targets: &[SqlType],
) -> Result<PlannedQuery, SqlError> {
    recursion::check(query)?;
    counts::check(query)?;
    let without_void = rewrite_scalar::without_void(query, params);
    let query = without_void.as_ref().unwrap_or(query);
    let names = Names { catalog: &env.catalog, path: &env.session.search_path() };
    let with_columns = rewrite_records::with_columns(query, &names)?;
    let query = with_columns.as_ref().unwrap_or(query);
    stack::for_query(query, || match plan_counted(query, env, params, targets) {
        Err(_) if rewrite_subquery::mentions_nothing(query) => {
            let mut simpler = query.clone();
            rewrite_subquery::empty_selects(&mut simpler);
            plan_counted(&simpler, env, params, targets)
        }
        outcome => outcome,
    })
}

/// With counts in the place of IN where that can be planned.
fn plan_counted(
    query: &ast::Query,
    env: &QueryEnv,
    params: &[SqlType],
    targets: &[SqlType],
) -> Result<PlannedQuery, SqlError> {
    crate::rewrite::with_counts_for_in(query)
        .and_then(|query| plan_as_is(&query, env, params, targets).ok())
        .map_or_else(|| plan_as_is(query, env, params, targets), Ok)
}

fn plan_as_is(
    query: &ast::Query,
    env: &QueryEnv,
    params: &[SqlType],
    targets: &[SqlType],
) -> Result<PlannedQuery, SqlError> {
    let mut query = crate::rewrite::rewrite_query(query)?;
    EvalContext::new(env.session.clone()).enter(|| {
        crate::rewrite::type_targets(&mut query, targets);
        recursive::type_terms(&mut query, &|term| {
            let logical = to_logical(term, env, params)?;
            let logical = casts::rewrite_plan(logical).map_err(map_df_error)?;
            Ok(logical.schema().fields().iter().cloned().collect())
        })?;
        let found = infer(&query, env, params)?;
        let logical = to_logical(&query, env, &found)?;
        let logical = once::place(logical).map_err(map_df_error)?;
        let logical = grouping_sets::name_expressions(logical).map_err(map_df_error)?;
        let logical = copies::number_copies(logical).map_err(map_df_error)?;
        let logical = windows::lower_subqueries(logical).map_err(map_df_error)?;
        let logical = merged_columns::merge(logical).map_err(map_df_error)?;
        let logical = counts::typed(logical).map_err(map_df_error)?;
        let optimized = match pull_up::is_wrong(&logical).map_err(map_df_error)? {
            _ if pull_up::reads_past_a_level(&logical).map_err(map_df_error)? => {
                optimize(subplan::run_by_row(logical).map_err(map_df_error)?, env)?
            }
            true => without_outer_columns(logical, env)?,
            false => match optimize(logical.clone(), env) {
                Ok(found) if decorrelate::is_sound(&found.plan) => found,
                _ if decorrelate::is_correlated(&logical) => without_outer_columns(logical, env)?,
                Err(refused) if refused.state == SqlState::FEATURE_NOT_SUPPORTED => {
                    let run = subplan::run_conditions(logical).map_err(map_df_error)?;
                    optimize(run, env).map_err(|_| refused)?
                }
                outcome => outcome?,
            },
        };
        let schema = Arc::new(optimized.plan.schema().as_arrow().clone());
        let fields = optimized.fields();
        Ok(PlannedQuery { plan: optimized.plan, schema, fields, params: found })
    })
}

/// What the optimizer could not turn into joins is turned into joins here, or is run row by row.
fn without_outer_columns(logical: LogicalPlan, env: &QueryEnv) -> Result<Optimized, SqlError> {
    let optimize = |plan: Result<LogicalPlan, DataFusionError>| {
        let plan = plan.map_err(map_df_error)?;
        if pull_up::is_wrong(&plan).map_err(map_df_error)? {
            return Err(unsupported_here("LATERAL"));
        }
        let optimized = optimize(plan, env)?;
        match decorrelate::is_sound(&optimized.plan) {
            true => Ok(optimized),
            false => Err(unsupported_here("a correlated subquery")),
        }
    };
    optimize(decorrelate::decorrelate(logical.clone())).or_else(|refused| {
        optimize(subplan::run_by_row(logical.clone()))
            .or_else(|_| optimize(subplan::run_conditions(logical)))
            .map_err(|_| refused)
    })
}

fn optimize(logical: LogicalPlan, env: &QueryEnv) -> Result<Optimized, SqlError> {
    let logical = casts::rewrite_plan(logical).map_err(map_df_error)?;
    let logical = counts::typed(logical).map_err(map_df_error)?;
    let options = query_run::options(env);
    let logical = null_in::rewrite(logical, &options).map_err(map_df_error)?;
    let logical = told_in::rewrite(logical, &options).map_err(map_df_error)?;
    let logical = sort_keys::lower(logical).map_err(map_df_error)?;
    let logical = windows::type_frames(logical).map_err(map_df_error)?;
    let logical = held::hold(logical).map_err(map_df_error)?;
    let logical = unnested::keep_order(logical).map_err(map_df_error)?;
    let logical = printable(logical).map_err(map_df_error)?;
    let schema = logical.schema().clone();
    let optimized = query_run::optimize(logical, env).map_err(not_the_users)?;
    refuse_correlated(&optimized)?;
    Ok(Optimized { plan: optimized, schema })
}

/// An optimized plan, and the schema that it had before: the optimizer forgets the types of what it finds empty.
struct Optimized {
    plan: LogicalPlan,
    schema: DFSchemaRef,
}

impl Optimized {
    fn fields(&self) -> Arc<[Field]> {
        let now = self.plan.schema().fields().iter();
        let before = self.schema.fields().iter();
        let types = now.zip(before).map(|(now, before)| match now.data_type() {
            same if same == before.data_type() => result_field(before),
            _ => result_field(now),
        });
        types.collect()
    }
}

/// Names that the optimizer does not find were not the query's, which has been planned.
fn not_the_users(e: SqlError) -> SqlError {
    match e.state {
        SqlState::UNDEFINED_COLUMN
        | SqlState::UNDEFINED_TABLE
        | SqlState::AMBIGUOUS_COLUMN
        | SqlState::DUPLICATE_COLUMN => unsupported_here("a correlated subquery"),
        _ => e,
    }
}

/// What the optimizer could not turn into joins cannot be run.
fn refuse_correlated(plan: &LogicalPlan) -> Result<(), SqlError> {
    let mut left = None;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                left = match expr {
                    Expr::Exists(_) => Some("EXISTS"),
                    Expr::InSubquery(_) => Some("IN (SELECT …)"),
                    Expr::SetComparison(_) => Some("ANY (SELECT …)"),
                    Expr::OuterReferenceColumn(..) => Some("a correlated subquery"),
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                Ok(TreeNodeRecursion::Stop)
            })
        })
    })
    .map_err(map_df_error)?;
    match left {
        None => Ok(()),
        Some(what) => Err(unsupported_here(what)),
    }
}

fn unsupported_here(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} in this place"))
        .hint("A join, or the subquery in WHERE, may say the same.")
}

/// A lazy migration's query would find another catalog after the commit, or after a restart.
pub(crate) const READS_CATALOG: &str = "its query reads the catalog";

/// Why a query may not be planned again under another catalog, which the planned one may be.
pub(crate) fn not_under_another_catalog(
    query: &ast::Query,
    env: &QueryEnv,
) -> Option<&'static str> {
    let catalog = env.session.catalog();
    match (view::sources(query, env), reads_catalog(query, env)) {
        (Ok(sources), _) if sources.iter().any(|s| catalog.view(s.relation).is_some()) => {
            Some("its query reads a view")
        }
        (_, Ok(true)) => Some(READS_CATALOG),
        (Ok(_), Ok(false)) => None,
        (Err(_), _) | (_, Err(_)) => Some("its query has to be rewritten before it is planned"),
    }
}

fn reads_catalog(query: &ast::Query, env: &QueryEnv) -> Result<bool, SqlError> {
    // The optimizer puts what it finds there in the place of what looks for it.
    let query = crate::rewrite::rewrite_query(query)?;
    EvalContext::new(env.session.clone()).enter(|| {
        let logical = casts::rewrite_plan(to_logical(&query, env, &[])?).map_err(map_df_error)?;
        Ok(plan_reads_catalog(&logical))
    })
}

/// The SQL planner's plan.
fn to_logical(
    query: &ast::Query,
    env: &QueryEnv,
    params: &[SqlType],
) -> Result<LogicalPlan, SqlError> {
    let tables = env.tables();
    let context = PlanContext::new(&tables, query_run::options(env));
    let mut planner = PlannerContext::new().with_prepare_param_data_types(param_fields(params)?);
    let statement = ast::Statement::Query(Box::new(query.clone()));
    context
        .planner()
        .sql_statement_to_plan_with_context(statement, &mut planner)
        .map_err(map_df_error)
}

/// Types of all parameters.
fn infer(query: &ast::Query, env: &QueryEnv, params: &[SqlType]) -> Result<Vec<SqlType>, SqlError> {
    let highest = highest_param(query);
    let mut found: Vec<SqlType> = params.to_vec();
    if found.len() < highest {
        found.resize(highest, types::plain(0));
    }
    let unknown = |ty: &SqlType| ty.oid == 0 || ty.oid == oids::UNKNOWN;
    if found.iter().any(unknown) {
        let contexts = to_logical(query, env, &found)
            .and_then(|plan| casts::rewrite_plan(plan).map_err(map_df_error))
            .and_then(|plan| contexts_of(plan).map_err(map_df_error))
            .unwrap_or_default();
        for (index, ty) in found.iter_mut().enumerate().filter(|(_, ty)| unknown(ty)) {
            let field: Option<&FieldRef> = contexts.get(&index);
            *ty = field.map_or(types::plain(oids::TEXT), |f| sql_type_of_field(f));
        }
    }
    Ok(found)
}

fn highest_param(query: &ast::Query) -> usize {
    let mut highest = 0;
    walk::each_expr(query, |expr| {
        if let ast::Expr::Value(v) = expr
            && let ast::Value::Placeholder(name) = &v.value
        {
            highest = highest.max(param_index(name).map_or(0, |i| i + 1));
        }
    });
    highest
}

/// What the plan says of parameters; a limit is a bigint.
fn contexts_of(plan: LogicalPlan) -> Result<HashMap<usize, FieldRef>, DataFusionError> {
    let mut found = HashMap::new();
    plan.apply_with_subqueries(|node| {
        let limit = matches!(node, LogicalPlan::Limit(_));
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                for index in operators::beside_varchar(expr) {
                    let text = types::plain(oids::TEXT);
                    let view = arrow::datatypes::DataType::Utf8View;
                    found.entry(index).or_insert_with(|| types::sql_field("", text, view, true));
                }
                if let Expr::Placeholder(Placeholder { id, field }) = expr
                    && let Some(index) = param_index(id)
                {
                    let counted = || {
                        types::sql_field(
                            "",
                            types::plain(oids::INT8),
                            arrow::datatypes::DataType::Int64,
                            true,
                        )
                    };
                    let field = if limit { Some(counted()) } else { field.clone() };
                    if let Some(field) = field {
                        found.entry(index).or_insert(field);
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Whether a union's column has several types: numbers and names of objects together are numbers.
fn is_mixed(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::Union(union) => {
            let types =
                union.inputs.iter().map(|i| sql_type_of_field(&i.schema().fields()[at]).oid);
            let all: std::collections::HashSet<u32> = types.collect();
            all.len() > 1
        }
        LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => is_mixed(plan.inputs()[0], at),
        _ => false,
    }
}

/// Results whose text needs the catalog (regclass, regtype) become that text here, of their own types.
fn printable(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    let schema = plan.schema().clone();
    // A column of NULLs alone has no type; PostgreSQL calls it text.
    let textual = |field: &FieldRef| {
        field.data_type().is_null() || types::names_objects(sql_type_of_field(field).oid)
    };
    if !schema.fields().iter().any(textual) {
        return Ok(plan);
    }
    let columns: Vec<Expr> = schema
        .iter()
        .enumerate()
        .map(|(at, (qualifier, field))| {
            let column = Expr::from((qualifier, field));
            match textual(field) {
                true if is_mixed(&plan, at) => casts::call(column, types::plain(oids::OID))
                    .alias_qualified(qualifier.cloned(), field.name()),
                true => named::shown(column, sql_type_of_field(field))
                    .alias_qualified(qualifier.cloned(), field.name()),
                false => column,
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

fn result_field(field: &FieldRef) -> Field {
    let sql_type = sql_type_of_field(field);
    Field {
        name: crate::rewrite::shown_name(field.name()).to_owned(),
        sql_type,
        ty: types::column_type_of_arrow(field.data_type())
            .filter(|column| types::arrow_of_column(*column) == *field.data_type()),
        table: 0,
        attnum: 0,
        record: Shape::of_field(field).map(Arc::new),
    }
}

impl PlannedQuery {
    /// Its columns.
    pub fn fields(&self) -> &Arc<[Field]> {
        &self.fields
    }

    /// Types of its parameters.
    pub fn params(&self) -> &[SqlType] {
        &self.params
    }

    /// The Arrow schema of its batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The optimised logical plan.
    pub fn logical(&self) -> &LogicalPlan {
        &self.plan
    }

    /// Runs it under a snapshot. The stream holds everything it needs; dropping it stops the query.
    pub fn run(
        &self,
        env: &QueryEnv,
        snapshot: Arc<Snapshot>,
        params: &[Value],
        limits: &Limits,
    ) -> Result<QueryStream, SqlError> {
        let (plan, state) = self.ready(env, snapshot, params)?;
        Ok(query_run::spawn(plan, state, self.schema.clone(), limits.clone()))
    }

    /// The plan with its parameters bound, and the state to run it in.
    pub(crate) fn ready(
        &self,
        env: &QueryEnv,
        snapshot: Arc<Snapshot>,
        params: &[Value],
    ) -> Result<(LogicalPlan, SessionState), SqlError> {
        // Names of objects are looked up.
        let plan = EvalContext::new(env.session.clone()).enter(|| self.bound(params))?;
        let scope = QueryScope {
            snapshot,
            catalog: env.catalog.clone(),
            session: env.session.clone(),
            returned: env.returned.clone(),
            hidden: env.hidden.clone(),
            once: OnceRows::default(),
        };
        let mut state = query_run::state(env, Some(scope));
        batch_rows::shorten(&mut state, &plan).map_err(map_df_error)?;
        Ok((plan, state))
    }

    /// The plan with its parameters bound.
    pub(crate) fn bound(&self, params: &[Value]) -> Result<LogicalPlan, SqlError> {
        if params.len() < self.params.len() {
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement requires {}",
                    params.len(),
                    self.params.len()
                ),
            ));
        }
        if self.params.is_empty() {
            return Ok(self.plan.clone());
        }
        let values = bind_params(params, &self.params)?;
        bind(self.plan.clone(), values).map_err(map_df_error)
    }
}

/// Parameters replaced by values.
fn bind(plan: LogicalPlan, values: Vec<ScalarValue>) -> Result<LogicalPlan, DataFusionError> {
    let bound = plan.replace_params_with_values(&ParamValues::from(values))?;
    // A filter with a constant inside an alias would hide it from index selection.
    bound
        .transform_up(|node| match node {
            LogicalPlan::TableScan(mut scan) => {
                for filter in &mut scan.filters {
                    *filter = filter.clone().unalias_nested().data;
                }
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            other => Ok(Transformed::no(other)),
        })
        .map(|t| t.data)
}
