//! Expressions over one table's rows, compiled once and evaluated often: values of INSERT and
//! UPDATE, conditions of the short path, defaults, checks, the USING of ALTER TYPE.
//!
//! ```text
//!   AST ─ rewrite ─ SqlToRel ─ casts ─ coerce ─ simplify ─▶ logical ─▶ physical
//!                                                             │  $n is a column beside the table's,
//!                                                             ▼  then a ParamExpr
//!                                                       Column | Constant | Quick | General
//! ```
//!
//! The physical expressions are DataFusion's own, those of its filters and projections: one
//! semantics. For a single row, columns, constants, parameters and what is small ([`Quick`]) are
//! answered without them.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ScalarValue, TableReference};
use datafusion::error::DataFusionError;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{ColumnarValue, Expr, ExprSchemable};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::expressions::{Column as PhysicalColumn, Literal};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::sql::planner::PlannerContext;
use datafusion::sql::sqlparser::ast;
use froglet_engine::{ColumnType, SqlState, Value};
use froglet_schema::{SqlType, TableDef};

use crate::context::EvalContext;
use crate::df_error::map_df_error;
use crate::error::SqlError;
use crate::lazy_query::reads_catalog;
use crate::migrate::may_fail::{self, CastKind};
use crate::names::volatility;
use crate::planning::{NoTables, PlanContext, param_fields};
use crate::query::account;
use crate::quick::Quick;
use crate::semantics::param::ParamExpr;
use crate::semantics::{casts, operators};
use crate::types::cast::{CastContext, assignable, not_assignable};
use crate::types::{self, cast_array, oids, sql_field, sql_type_of_field};
use crate::walk;

/// The qualifier of parameters while an expression is planned.
const PARAMS: &str = "froglet param";
const TEXT: SqlType = types::plain(oids::TEXT);

/// The columns an expression may name.
#[derive(Clone)]
pub struct Scope {
    schema: DFSchemaRef,
    columns: Arc<[(ColumnType, SqlType)]>,
}

/// A column of a table beside the one that a statement writes.
pub(crate) struct Other {
    pub(crate) qualifier: String,
    pub(crate) column: (String, ColumnType, SqlType),
}

impl Scope {
    /// No columns.
    pub fn empty() -> Scope {
        Scope { schema: Arc::new(DFSchema::empty()), columns: Arc::from([]) }
    }

    /// The columns of a table under its name or an alias.
    pub fn table(def: &TableDef, alias: Option<&str>) -> Scope {
        let qualifier = TableReference::bare(alias.unwrap_or(&def.name));
        let mut scope = Scope::empty();
        scope.extend(&qualifier, def);
        scope
    }

    /// A table and the row proposed for insertion, `excluded` (ON CONFLICT). Positions of the
    /// latter follow those of the table.
    pub fn table_and_excluded(def: &TableDef, alias: Option<&str>) -> Scope {
        let mut scope = Scope::table(def, alias);
        scope.extend(&TableReference::bare("excluded"), def);
        scope
    }

    /// Columns of other tables after these; 42712 where two have the same name.
    pub(crate) fn beside(&self, others: &[Other]) -> Result<Scope, SqlError> {
        let more = others.iter().map(|other| {
            let (_, ty, sql_type) = other.column;
            let arrow = types::computed_type(sql_type, ty);
            let qualifier = TableReference::bare(other.qualifier.as_str());
            (Some(qualifier), sql_field(&other.column.0, sql_type, arrow, true))
        });
        let old = self.schema.iter().map(|(q, f)| (q.cloned(), f.clone()));
        let schema = DFSchema::new_with_metadata(old.chain(more).collect(), Default::default())
            .map_err(map_df_error)?;
        let columns = others.iter().map(|other| (other.column.1, other.column.2));
        let columns = self.columns.iter().copied().chain(columns).collect();
        Ok(Scope { schema: Arc::new(schema), columns })
    }

    fn extend(&mut self, qualifier: &TableReference, def: &TableDef) {
        // A row that is being checked may hold NULL where its column does not allow it.
        let more = def.columns.iter().map(|c| {
            let arrow = types::computed_type(c.sql_type, c.ty);
            (Some(qualifier.clone()), sql_field(&c.name, c.sql_type, arrow, true))
        });
        let old = self.schema.iter().map(|(q, f)| (q.cloned(), f.clone()));
        let fields = old.chain(more).collect();
        self.schema = Arc::new(
            DFSchema::new_with_metadata(fields, Default::default())
                .expect("column names of a table differ"),
        );
        let columns = def.columns.iter().map(|c| (c.ty, c.sql_type));
        self.columns = self.columns.iter().copied().chain(columns).collect();
    }
}

/// What an expression comes down to.
#[derive(Debug)]
enum Shape {
    /// The first input as it is.
    Column,
    /// Always the same.
    Constant(ScalarValue),
    /// Small enough to be evaluated value by value; with the type it has.
    Quick(Quick, ColumnType),
    /// Anything else.
    General,
}

/// What an assignment makes of the result.
#[derive(Debug, Clone, Copy)]
struct Target {
    column: ColumnType,
    ty: SqlType,
}

/// A compiled expression. Shared by sessions.
#[derive(Debug)]
pub struct RowExpr {
    physical: Arc<dyn PhysicalExpr>,
    shape: Shape,
    inputs: Vec<usize>,
    input_types: Vec<ColumnType>,
    schema: SchemaRef,
    data_type: DataType,
    sql_type: SqlType,
    volatile: bool,
    may_fail: bool,
    reads_catalog: bool,
    uses_params: bool,
    target: Option<Target>,
}

fn options() -> Arc<ConfigOptions> {
    static OPTIONS: LazyLock<Arc<ConfigOptions>> = LazyLock::new(|| {
        let mut options = ConfigOptions::new();
        options.execution.time_zone = Some("+00:00".to_owned());
        Arc::new(options)
    });
    OPTIONS.clone()
}

impl RowExpr {
    /// Compiles an expression. `params` are the types of `$1…`; an oid of 0 is inferred.
    pub fn compile(
        scope: &Scope,
        expr: &ast::Expr,
        params: &[SqlType],
    ) -> Result<RowExpr, SqlError> {
        let planned = plan(scope, expr, params)?;
        RowExpr::of_logical(scope, planned)
    }

    /// Compiles a condition: 42804 unless it is boolean.
    pub fn compile_condition(
        scope: &Scope,
        expr: &ast::Expr,
        params: &[SqlType],
        clause: &str,
    ) -> Result<RowExpr, SqlError> {
        let boolean = types::plain(oids::BOOL);
        let compiled = match untyped(expr) {
            true => RowExpr::compile_for(scope, expr, params, "", ColumnType::Bool, boolean)?,
            false => RowExpr::compile(scope, expr, params)?,
        };
        if !matches!(compiled.data_type, DataType::Boolean | DataType::Null) {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "argument of {clause} must be type boolean, not type {}",
                    types::input::input_name(compiled.sql_type)
                ),
            ));
        }
        Ok(compiled)
    }

    /// Compiles an expression whose value is assigned to a column: a literal or parameter without
    /// a type takes the column's, another type is cast as an assignment does, or is 42804.
    pub fn compile_for(
        scope: &Scope,
        expr: &ast::Expr,
        params: &[SqlType],
        column_name: &str,
        column: ColumnType,
        ty: SqlType,
    ) -> Result<RowExpr, SqlError> {
        let bare = strip(expr);
        if untyped(bare) {
            match typed_by(bare, ty) {
                Typed::Literal(value) => {
                    let scalar = types::scalar_of(&value, column);
                    return RowExpr::constant(scalar, column, ty);
                }
                Typed::Failed(e) => return Err(*e),
                Typed::Param(index) => {
                    let known = params.get(index).filter(|known| known.oid != 0);
                    let given = known.copied().unwrap_or(types::plain(ty.oid));
                    return RowExpr::parameter(index, given, column_name, column, ty);
                }
                Typed::No => {}
            }
        }
        let expr = bare;
        RowExpr::compile_assigned(scope, expr, params, column_name, column, ty)
    }

    fn compile_assigned(
        scope: &Scope,
        expr: &ast::Expr,
        params: &[SqlType],
        column_name: &str,
        column: ColumnType,
        ty: SqlType,
    ) -> Result<RowExpr, SqlError> {
        let mut compiled = RowExpr::compile(scope, expr, params)?;
        let null = compiled.data_type.is_null();
        if !null && !assignable(compiled.sql_type.oid, ty.oid) {
            return Err(not_assignable(column_name, ty, compiled.sql_type));
        }
        compiled.target = Some(Target { column, ty });
        if let (Shape::Constant(_), false) = (&compiled.shape, compiled.volatile) {
            // Cast once, here.
            let array = compiled.eval(&compiled.no_rows(1)?, &EvalContext::none())?;
            let scalar = ScalarValue::try_from_array(&array, 0).map_err(map_df_error)?;
            return RowExpr::constant(scalar, column, ty);
        }
        Ok(compiled)
    }

    /// The parameter at an index, of type `given`, which is assigned to a column.
    fn parameter(
        index: usize,
        given: SqlType,
        column_name: &str,
        column: ColumnType,
        ty: SqlType,
    ) -> Result<RowExpr, SqlError> {
        if !assignable(given.oid, ty.oid) {
            return Err(not_assignable(column_name, ty, given));
        }
        let field = param_fields_of(&[(index, given)])?.remove(0).1;
        let data_type = field.data_type().clone();
        let physical: Arc<dyn PhysicalExpr> = Arc::new(ParamExpr { index, field });
        Ok(RowExpr {
            shape: shape_of(&physical, &[], &data_type),
            physical,
            inputs: Vec::new(),
            input_types: Vec::new(),
            schema: Arc::new(Schema::empty()),
            data_type,
            sql_type: given,
            volatile: false,
            reads_catalog: false,
            may_fail: false,
            uses_params: true,
            target: Some(Target { column, ty }),
        })
    }

    /// The same, its value cast to a column's type where it is of another.
    pub fn assigned_to(mut self, column: ColumnType, ty: SqlType) -> RowExpr {
        self.target.get_or_insert(Target { column, ty });
        self
    }

    /// A constant of a column's type.
    pub fn constant(
        value: ScalarValue,
        column: ColumnType,
        ty: SqlType,
    ) -> Result<RowExpr, SqlError> {
        Ok(RowExpr {
            physical: Arc::new(Literal::new(value.clone())),
            shape: Shape::Constant(value),
            inputs: Vec::new(),
            input_types: Vec::new(),
            schema: Arc::new(Schema::empty()),
            data_type: types::arrow_of_column(column),
            sql_type: ty,
            volatile: false,
            may_fail: false,
            reads_catalog: false,
            uses_params: false,
            target: None,
        })
    }

    fn of_logical(scope: &Scope, planned: Planned) -> Result<RowExpr, SqlError> {
        let Planned { logical, params, reads_catalog } = planned;
        let inputs = columns_of(scope, &logical)?;
        let fields: Vec<Arc<Field>> =
            inputs.iter().map(|i| scope.schema.field(*i).clone()).collect();
        let schema = Arc::new(Schema::new(fields));
        let params = param_fields_of(&params)?;
        let full = input_schema(scope, &inputs, &params).map_err(map_df_error)?;
        let field = logical.to_field(&full).map_err(map_df_error)?.1;
        let props = execution_props();
        let physical =
            create_physical_expr(&logical, &full, &props, &PhysicalPlanningContext::default())
                .map_err(map_df_error)?;
        let physical = bind_params(physical, inputs.len(), &params)?;
        let input_types: Vec<ColumnType> = inputs.iter().map(|i| scope.columns[*i].0).collect();
        Ok(RowExpr {
            shape: shape_of(&physical, &input_types, field.data_type()),
            input_types,
            schema,
            data_type: field.data_type().clone(),
            sql_type: sql_type_of_field(&field),
            volatile: logical.is_volatile(),
            may_fail: may_fail::of_expr(&logical, &full),
            reads_catalog,
            uses_params: logical.column_refs().into_iter().any(is_param),
            physical,
            inputs,
            target: None,
        })
    }

    /// Positions in the scope of the columns it reads; batches have exactly these, in this order.
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    /// The Arrow type of its result.
    pub fn data_type(&self) -> DataType {
        match &self.target {
            Some(target) => types::arrow_of_column(target.column),
            None => self.data_type.clone(),
        }
    }

    /// The SQL type of its result.
    pub fn sql_type(&self) -> SqlType {
        self.target.map_or(self.sql_type, |t| t.ty)
    }

    /// How its result is stored as a [`Value`]; `None` for types that only results have.
    pub fn column_type(&self) -> Option<ColumnType> {
        match &self.target {
            Some(target) => Some(target.column),
            None => types::column_type_of_arrow(&self.data_type),
        }
    }

    /// Whether two evaluations may differ (random(), nextval()).
    pub fn volatile(&self) -> bool {
        self.volatile
    }

    /// Whether evaluating it may fail for some row.
    pub fn may_fail(&self) -> bool {
        let is_same = |target: &Target| {
            let wanted = types::arrow_of_column(target.column);
            wanted == self.data_type && target.ty == self.sql_type
                || may_fail::cast(self.sql_type.oid, target.ty, CastKind::Assigned)
        };
        self.may_fail || self.target.as_ref().is_some_and(|target| !is_same(target))
    }

    /// Whether it may be another value once there are other tables.
    pub fn reads_catalog(&self) -> bool {
        self.reads_catalog
    }

    /// Whether it reads parameters.
    pub fn uses_params(&self) -> bool {
        self.uses_params
    }

    /// The value, if it is the same for every row and every execution.
    pub fn constant_value(&self) -> Option<Value> {
        match &self.shape {
            Shape::Constant(value) if self.target.is_none() => {
                types::value_of_scalar(value, self.column_type()?).ok()
            }
            _ => None,
        }
    }

    /// Whether it is just its one input.
    pub fn is_column(&self) -> bool {
        matches!(self.shape, Shape::Column)
    }

    /// The compiled expression itself. Its columns are positions in a batch of its inputs.
    pub fn physical(&self) -> &Arc<dyn PhysicalExpr> {
        &self.physical
    }

    /// Evaluates it for every row of a batch of its inputs.
    pub fn eval(&self, batch: &RecordBatch, context: &EvalContext) -> Result<ArrayRef, SqlError> {
        let rows = batch.num_rows();
        let array = context
            .enter(|| self.physical.evaluate(batch)?.into_array(rows))
            .map_err(map_df_error)?;
        self.cast(array, context)
    }

    /// To what the expression is assigned to.
    fn cast(&self, array: ArrayRef, context: &EvalContext) -> Result<ArrayRef, SqlError> {
        match &self.target {
            None => Ok(array),
            Some(t) => {
                context.zone.run(|| cast_array(&array, t.column, t.ty, CastContext::Assignment))
            }
        }
    }

    /// Evaluates it for one row, given as the values of its inputs.
    pub fn eval_row(&self, row: &[Value], context: &EvalContext) -> Result<Value, SqlError> {
        debug_assert_eq!(row.len(), self.inputs.len(), "a row has the expression's inputs");
        let column = self.column_type().ok_or_else(|| {
            SqlError::unsupported(format!("a value of type {}", types::type_name(self.sql_type)))
        })?;
        let stored = types::column_type_of_arrow(&self.data_type);
        let (value, from) = match &self.shape {
            Shape::Column => (row[0].clone(), self.input_types[0]),
            Shape::Constant(value) if self.target.is_none() => {
                return types::value_of_scalar(value, column);
            }
            Shape::Quick(quick, from) => (quick.eval(row, context)?, *from),
            _ => {
                let batch = self.batch_of(row)?;
                match context.enter(|| self.physical.evaluate(&batch)).map_err(map_df_error)? {
                    ColumnarValue::Scalar(value) if let Some(from) = stored => {
                        (types::value_of_scalar(&value, from)?, from)
                    }
                    value => {
                        let array =
                            self.cast(value.into_array(1).map_err(map_df_error)?, context)?;
                        return Ok(types::value_at(array.as_ref(), 0, column));
                    }
                }
            }
        };
        match &self.target {
            None => Ok(value),
            Some(t) => context
                .zone
                .run(|| types::cast_value(value, from, t.column, t.ty, CastContext::Assignment)),
        }
    }

    /// A batch of one row of its inputs.
    pub fn batch_of(&self, row: &[Value]) -> Result<RecordBatch, SqlError> {
        let columns = row
            .iter()
            .zip(&self.input_types)
            .map(|(value, ty)| types::array_of(*ty, &mut std::iter::once(value)))
            .collect();
        self.batch(columns, 1)
    }

    /// A batch of columns in the order of its inputs.
    pub fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, SqlError> {
        let columns = casts::computed(columns, &self.schema)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(crate::df_error::arrow)
    }

    fn no_rows(&self, rows: usize) -> Result<RecordBatch, SqlError> {
        self.batch(Vec::new(), rows)
    }
}

enum Typed {
    Literal(Value),
    Failed(Box<SqlError>),
    /// The parameter at this index.
    Param(usize),
    No,
}

/// Without parentheses.
fn strip(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => strip(inner),
        other => other,
    }
}

/// A literal or parameter that takes its type from where it stands.
pub(crate) fn untyped(expr: &ast::Expr) -> bool {
    use ast::Value as V;
    match strip(expr) {
        ast::Expr::Value(v) => matches!(
            v.value,
            V::SingleQuotedString(_)
                | V::EscapedStringLiteral(_)
                | V::DollarQuotedString(_)
                | V::Null
                | V::Placeholder(_)
        ),
        _ => false,
    }
}

fn typed_by(expr: &ast::Expr, ty: SqlType) -> Typed {
    use ast::Value as V;
    let ast::Expr::Value(v) = expr else { return Typed::No };
    let text = match &v.value {
        V::SingleQuotedString(s) | V::EscapedStringLiteral(s) => s,
        V::DollarQuotedString(s) => &s.value,
        V::Null => return Typed::Literal(Value::Null),
        V::Placeholder(name) => return param_index(name).map_or(Typed::No, Typed::Param),
        _ => return Typed::No,
    };
    let Some(column) = types::column_type_of(ty.oid, ty.modifier) else { return Typed::No };
    match types::from_text(ty, column, text) {
        Ok(value) => Typed::Literal(value),
        Err(e) => Typed::Failed(Box::new(e)),
    }
}

/// Whether an expression holds a subquery, so that no [`RowExpr`] can be made of it.
pub fn has_subquery(expr: &ast::Expr) -> bool {
    walk::any_expr(expr, |e| match e {
        ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => true,
        ast::Expr::Function(f) => matches!(f.args, ast::FunctionArguments::Subquery(_)),
        _ => false,
    })
}

/// `$3` is 2.
pub(crate) fn param_index(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

fn execution_props() -> ExecutionProps {
    let mut props = ExecutionProps::new();
    props.mark_start_execution(options());
    props
}

/// An expression, planned as far as it goes without rows.
struct Planned {
    logical: Expr,
    /// The parameters that it has, by their numbers in the statement, and their types.
    params: Vec<(usize, SqlType)>,
    /// Also if what it finds there is a constant of `logical` now.
    reads_catalog: bool,
}

/// Whether an expression over a scope has the same value whoever asks, and whenever.
pub(crate) fn is_immutable(scope: &Scope, expr: &ast::Expr) -> Result<bool, SqlError> {
    let written = as_written(scope, crate::rewrite::rewrite_expr(expr)?, &[])?;
    let is_immutable = |logical: &Expr| volatility::is_immutable(logical, &scope.schema);
    Ok(is_immutable(&written) && is_immutable(&with_casts(scope, written)?))
}

/// The SQL planner's expression.
fn as_written(scope: &Scope, expr: ast::Expr, params: &[SqlType]) -> Result<Expr, SqlError> {
    let context = PlanContext::new(&NoTables, options());
    let mut planner_context =
        PlannerContext::new().with_prepare_param_data_types(param_fields(params)?);
    let logical = context
        .planner()
        .sql_to_expr(expr, &scope.schema, &mut planner_context)
        .map_err(map_df_error)?;
    forbid_aggregates(&logical)?;
    Ok(logical)
}

/// The same with PostgreSQL's casts.
fn with_casts(scope: &Scope, logical: Expr) -> Result<Expr, SqlError> {
    Ok(casts::rewrite_expr(logical, &scope.schema).map_err(map_df_error)?.data)
}

/// Plans an expression. It knows its own parameters alone, numbered anew: a statement may have thousands of
/// expressions and of parameters, and each is looked at once.
fn plan(scope: &Scope, expr: &ast::Expr, params: &[SqlType]) -> Result<Planned, SqlError> {
    let mut expr = crate::rewrite::rewrite_expr(expr)?;
    let numbers = renumber(&mut expr);
    let given: Vec<SqlType> =
        numbers.iter().map(|at| params.get(*at).copied().unwrap_or(types::plain(0))).collect();
    let logical = with_casts(scope, as_written(scope, expr, &given)?)?;
    let reads_catalog = reads_catalog(&logical);
    let (logical, found) = type_params(logical, &given)?;
    let params: Vec<(usize, SqlType)> = numbers.into_iter().zip(found).collect();
    let schema =
        input_schema(scope, &all(scope), &param_fields_of(&params)?).map_err(map_df_error)?;
    let simplify = SimplifyContext::builder()
        .with_config_options(options())
        .with_schema(Arc::new(schema.clone()))
        .build();
    let simplifier = ExprSimplifier::new(simplify);
    let logical = simplifier
        .coerce(logical, &schema)
        .and_then(|e| account::folding(|| simplifier.simplify(e)))
        .map_err(map_df_error)?;
    Ok(Planned { logical, params, reads_catalog })
}

/// Numbers the parameters of an expression from 1; which of the statement's (from 0) they are.
fn renumber(expr: &mut ast::Expr) -> Vec<usize> {
    let mut numbers: Vec<usize> = Vec::new();
    walk::change_exprs(expr, |expr| {
        if let ast::Expr::Value(value) = expr
            && let ast::Value::Placeholder(name) = &mut value.value
            && let Some(index) = param_index(name)
        {
            let own = numbers.iter().position(|known| *known == index).unwrap_or_else(|| {
                numbers.push(index);
                numbers.len() - 1
            });
            *name = format!("${}", own + 1);
        }
        walk::GO_ON
    });
    numbers
}

fn all(scope: &Scope) -> Vec<usize> {
    (0..scope.columns.len()).collect()
}

fn forbid_aggregates(expr: &Expr) -> Result<(), SqlError> {
    let mut found = None;
    expr.apply(|node| {
        found = match node {
            Expr::AggregateFunction(_) => Some("aggregate functions"),
            Expr::WindowFunction(_) => Some("window functions"),
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        Ok(TreeNodeRecursion::Stop)
    })
    .map_err(map_df_error)?;
    match found {
        None => Ok(()),
        Some(what) => Err(SqlError::new(
            SqlState::GROUPING_ERROR,
            format!("{what} are not allowed in this expression"),
        )),
    }
}

/// Turns placeholders into columns, and collects their types: what the client says, or what has
/// been inferred, or oid 0.
fn type_params(logical: Expr, params: &[SqlType]) -> Result<(Expr, Vec<SqlType>), SqlError> {
    let mut found: Vec<SqlType> = params.to_vec();
    let beside = |expr: &Expr| {
        for index in operators::beside_varchar(expr) {
            found.resize(found.len().max(index + 1), types::plain(0));
            if found[index].oid == 0 || found[index].oid == oids::UNKNOWN {
                found[index] = types::plain(oids::TEXT);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    };
    logical.apply(beside).map_err(map_df_error)?;
    let logical = logical
        .transform(|node| {
            let Expr::Placeholder(Placeholder { id, field }) = node else {
                return Ok(Transformed::no(node));
            };
            let index = param_index(&id).ok_or_else(|| {
                DataFusionError::from(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("parameter {id} has no number"),
                ))
            })?;
            if found.len() <= index {
                found.resize(index + 1, types::plain(0));
            }
            let ty = field.as_ref().map(|f| sql_type_of_field(f));
            if found[index].oid == 0 || found[index].oid == oids::UNKNOWN {
                found[index] = ty.unwrap_or(types::plain(0));
            }
            Ok(Transformed::yes(Expr::Column(param_column(index))))
        })
        .map_err(map_df_error)?
        .data;
    Ok((logical, found))
}

fn param_column(index: usize) -> Column {
    Column::new(Some(TableReference::bare(PARAMS)), format!("${}", index + 1))
}

/// Fields of an expression's parameters. One whose type nothing tells is text.
fn param_fields_of(params: &[(usize, SqlType)]) -> Result<Vec<(usize, Arc<Field>)>, SqlError> {
    let field = |(own, (index, ty)): (usize, &(usize, SqlType))| {
        let ty = if ty.oid == 0 { TEXT } else { *ty };
        let arrow = types::arrow_of(ty).ok_or_else(|| {
            SqlError::unsupported(format!("a parameter of type {}", types::type_name(ty)))
        })?;
        Ok((*index, sql_field(&format!("${}", own + 1), ty, arrow, true)))
    };
    params.iter().enumerate().map(field).collect()
}

/// The columns at `inputs`, then the parameters.
fn input_schema(
    scope: &Scope,
    inputs: &[usize],
    params: &[(usize, Arc<Field>)],
) -> Result<DFSchema, DataFusionError> {
    let columns = inputs.iter().map(|i| {
        let (qualifier, field) = scope.schema.qualified_field(*i);
        (qualifier.cloned(), field.clone())
    });
    let qualifier = TableReference::bare(PARAMS);
    let params = params.iter().map(|(_, field)| (Some(qualifier.clone()), field.clone()));
    DFSchema::new_with_metadata(columns.chain(params).collect(), Default::default())
}

fn is_param(column: &Column) -> bool {
    column.relation.as_ref().is_some_and(|r| r.table() == PARAMS)
}

/// Positions of the columns that an expression reads, ascending.
fn columns_of(scope: &Scope, logical: &Expr) -> Result<Vec<usize>, SqlError> {
    let mut inputs = Vec::new();
    for column in logical.column_refs() {
        if is_param(column) {
            continue;
        }
        inputs.push(scope.schema.index_of_column(column).map_err(map_df_error)?);
    }
    inputs.sort_unstable();
    inputs.dedup();
    Ok(inputs)
}

/// Replaces the columns that stand for parameters.
fn bind_params(
    physical: Arc<dyn PhysicalExpr>,
    columns: usize,
    params: &[(usize, Arc<Field>)],
) -> Result<Arc<dyn PhysicalExpr>, SqlError> {
    physical
        .transform(|node| {
            let Some(column) = node.downcast_ref::<PhysicalColumn>() else {
                return Ok(Transformed::no(node));
            };
            let Some((index, field)) =
                column.index().checked_sub(columns).and_then(|i| params.get(i))
            else {
                return Ok(Transformed::no(node));
            };
            let param = ParamExpr { index: *index, field: field.clone() };
            Ok(Transformed::yes(Arc::new(param) as Arc<dyn PhysicalExpr>))
        })
        .map(|t| t.data)
        .map_err(map_df_error)
}

fn shape_of(physical: &Arc<dyn PhysicalExpr>, inputs: &[ColumnType], ty: &DataType) -> Shape {
    if physical.downcast_ref::<PhysicalColumn>().is_some() {
        return Shape::Column;
    }
    if let Some(literal) = physical.downcast_ref::<Literal>() {
        return Shape::Constant(literal.value().clone());
    }
    let Some(ty) = types::column_type_of_arrow(ty) else { return Shape::General };
    let quick = match physical.downcast_ref::<ParamExpr>() {
        Some(param) => Some(Quick::Param(param.index, ty)),
        None => Quick::of(physical, inputs),
    };
    quick.map_or(Shape::General, |quick| Shape::Quick(quick, ty))
}

/// The types of the parameters of expressions over a table, `given` where the client says (an oid
/// other than 0). With an expression comes the column it is assigned to, if it is.
pub fn infer_params(
    scope: &Scope,
    exprs: &[(&ast::Expr, Option<SqlType>)],
    given: &[SqlType],
) -> Result<Vec<SqlType>, SqlError> {
    let mut types = given.to_vec();
    for (expr, target) in exprs {
        if let (Some(ty), true) = (target, untyped(expr)) {
            if let Typed::Param(index) = typed_by(strip(expr), *ty) {
                learn(&mut types, index, types::plain(ty.oid));
            }
            continue;
        }
        for (index, ty) in plan(scope, expr, &types)?.params {
            learn(&mut types, index, ty);
        }
    }
    for ty in &mut types {
        if ty.oid == 0 || ty.oid == oids::UNKNOWN {
            *ty = TEXT;
        }
    }
    Ok(types)
}

/// Notes the type of a parameter, unless it has one.
fn learn(types: &mut Vec<SqlType>, index: usize, ty: SqlType) {
    if types.len() <= index {
        types.resize(index + 1, types::plain(0));
    }
    let known = &mut types[index];
    if known.oid == 0 || known.oid == oids::UNKNOWN {
        *known = ty;
    }
}

#[cfg(test)]
#[path = "expr_tests.rs"]
mod tests;
