//! Expressions of schema changes, compiled for the data: what fills a new column, what converts
//! an old one, what every row is checked against.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use datafusion::sql::sqlparser::ast::{Expr, Value as Ast};
use froglet_engine::{ColumnId, ColumnType, Home, SqlState, Value};
use froglet_schema::{Check, ColumnDef, Fill, NewColumn, SchemaError, TableDef, Transform};

use crate::context::EvalContext;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope, is_immutable, untyped};
use crate::frozen::Frozen;
use crate::types::cast::{CastContext, assignable};
use crate::types::numeric::precision_scale;
use crate::types::{self, Zone, cast_array};
use crate::walk;
use crate::{stored, stored_names};

/// A column computed by an expression.
pub(crate) struct Computed {
    expr: RowExpr,
    inputs: Vec<ColumnId>,
    context: EvalContext,
}

impl Computed {
    /// From the columns of a table, in the session of a context.
    pub(crate) fn new(
        expr: &Expr,
        table: &TableDef,
        column: &NewColumn,
        context: EvalContext,
    ) -> Result<Computed, SqlError> {
        let scope = Scope::table(table, None);
        let expr =
            RowExpr::compile_for(&scope, expr, &[], &column.name, column.ty, column.sql_type)
                .map_err(|e| match e.state {
                    SqlState::DATATYPE_MISMATCH => SqlError::new(
                        e.state,
                        format!(
                            "result of USING clause for column \"{}\" cannot be cast automatically to type {}",
                            column.name,
                            types::type_name(column.sql_type)
                        ),
                    )
                    .hint("You might need to add an explicit cast."),
                    _ => e,
                })?;
        let inputs = expr.inputs().iter().map(|at| table.columns[*at].id).collect();
        Ok(Computed { expr, inputs, context })
    }

    /// Why it may be another value when it is computed later.
    pub(crate) fn not_later(&self) -> Option<&'static str> {
        match () {
            () if self.expr.volatile() => Some("its expression has a volatile function"),
            () if self.expr.reads_catalog() => Some("its expression reads the catalog"),
            () => None,
        }
    }

    /// Whether computing it may fail for some row.
    pub(crate) fn may_fail(&self) -> bool {
        self.expr.may_fail()
    }
}

impl Transform for Computed {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn eval(&self, batch: &RecordBatch) -> Result<ArrayRef, SchemaError> {
        Ok(types::as_stored(&eval(&self.expr, batch, &self.context)?))
    }

    fn is_volatile(&self) -> bool {
        self.expr.volatile()
    }
}

fn eval(
    expr: &RowExpr,
    batch: &RecordBatch,
    context: &EvalContext,
) -> Result<ArrayRef, SchemaError> {
    let batch = expr.batch(batch.columns().to_vec(), batch.num_rows()).map_err(refusal)?;
    expr.eval(&batch, context).map_err(refusal)
}

/// A column converted as an assignment converts.
pub(crate) struct Converted {
    input: [ColumnId; 1],
    from: ColumnType,
    to: NewColumn,
    zone: Zone,
}

impl Converted {
    /// To its new type.
    pub(crate) fn new(old: &ColumnDef, new: &NewColumn, zone: Zone) -> Result<Converted, SqlError> {
        if !assignable(old.sql_type.oid, new.sql_type.oid) {
            let ty = types::type_name(new.sql_type);
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("column \"{}\" cannot be cast automatically to type {ty}", old.name),
            )
            .hint(format!(
                "You might need to specify \"USING {}::{ty}\".",
                crate::ddl_sequence::quote(&old.name)
            )));
        }
        Ok(Converted { input: [old.id], from: old.ty, to: new.clone(), zone })
    }
}

impl Transform for Converted {
    fn inputs(&self) -> &[ColumnId] {
        &self.input
    }

    fn eval(&self, batch: &RecordBatch) -> Result<ArrayRef, SchemaError> {
        let (array, to) = (types::as_computed(batch.column(0), self.from), &self.to);
        let cast = || cast_array(&array, to.ty, to.sql_type, CastContext::Assignment);
        Ok(types::as_stored(&self.zone.run(cast).map_err(refusal)?))
    }
}

/// A condition on every row.
struct Condition {
    expr: RowExpr,
    inputs: Vec<ColumnId>,
    context: EvalContext,
    violation: SqlError,
    recipe: Option<String>,
}

impl Check for Condition {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn eval(&self, batch: &RecordBatch) -> Result<BooleanArray, SchemaError> {
        let array = eval(&self.expr, batch, &self.context)?;
        match array.as_any().downcast_ref::<BooleanArray>() {
            Some(flags) => Ok(flags.clone()),
            // A condition that is always NULL holds.
            None => Ok(BooleanArray::new_null(batch.num_rows())),
        }
    }

    fn violation(&self, _row: &[Value]) -> SchemaError {
        refusal(self.violation.clone())
    }

    fn recipe(&self) -> Option<&str> {
        self.recipe.as_deref()
    }
}

/// A column without NULLs.
struct NotNull {
    input: [ColumnId; 1],
    violation: SqlError,
}

impl Check for NotNull {
    fn inputs(&self) -> &[ColumnId] {
        &self.input
    }

    fn eval(&self, batch: &RecordBatch) -> Result<BooleanArray, SchemaError> {
        let column = batch.column(0);
        Ok((0..column.len()).map(|row| Some(!column.is_null(row))).collect())
    }

    fn violation(&self, _row: &[Value]) -> SchemaError {
        refusal(self.violation.clone())
    }
}

/// What of an error goes through froglet-schema.
pub(crate) fn refusal(e: SqlError) -> SchemaError {
    SchemaError::Refused { state: e.state, message: e.message, detail: e.detail, hint: e.hint }
}

/// Whether every old cell is a cell of the new type as it stands.
pub(crate) fn keeps_cells(old: &ColumnDef, new: &NewColumn) -> bool {
    if old.ty != new.ty {
        return false;
    }
    let (from, to) = (old.sql_type, new.sql_type);
    if from == to {
        return true;
    }
    use types::oids::{NUMERIC, TEXT, VARCHAR};
    match (from.oid, to.oid) {
        (TEXT | VARCHAR, TEXT) => true,
        (TEXT | VARCHAR, VARCHAR) => {
            to.modifier < 0
                || (from.oid == VARCHAR && from.modifier >= 0 && from.modifier <= to.modifier)
        }
        // Decimals of one stored type are of one precision and scale; exact ones may have any.
        (NUMERIC, NUMERIC) if old.ty != ColumnType::Numeric || to.modifier < 0 => true,
        (NUMERIC, NUMERIC) if from.modifier >= 0 => {
            let (old, new) = (precision_scale(from.modifier), precision_scale(to.modifier));
            old.1 == new.1 && old.0 <= new.0
        }
        _ => false,
    }
}

impl Ddl<'_> {
    /// 42804 and the like where a default does not suit its column.
    pub(crate) fn check_default(&self, expr: &Expr, column: &NewColumn) -> Result<(), SqlError> {
        self.compile_default(expr, column)?;
        stored_names::check_names(expr, self.session.as_ref())
    }

    fn compile_default(&self, expr: &Expr, column: &NewColumn) -> Result<RowExpr, SqlError> {
        let mut parameter = None;
        walk::each_expr(expr, |part| {
            if let Expr::Value(value) = part
                && let Ast::Placeholder(name) = &value.value
            {
                parameter.get_or_insert_with(|| name.clone());
            }
        });
        if let Some(name) = parameter {
            let message = format!("there is no parameter {name}");
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, message));
        }
        let no_columns = |_: &str| false;
        if let Err(e) = stored::columns_of(expr, "", &no_columns) {
            return Err(match e.state {
                SqlState::UNDEFINED_COLUMN => {
                    SqlError::unsupported("a column reference in a DEFAULT expression")
                        .hint("GENERATED ALWAYS AS (…) STORED computes a column from others.")
                }
                _ => e,
            });
        }
        let scope = Scope::empty();
        RowExpr::compile_for(&scope, expr, &[], &column.name, column.ty, column.sql_type)
    }

    pub(crate) fn check_generated(
        &self,
        expr: &Expr,
        table: &TableDef,
        column: &NewColumn,
    ) -> Result<(), SqlError> {
        let exists = |name: &str| table.column(name).is_some();
        for name in stored::columns_of(expr, &table.name, &exists)? {
            let source = table.column(&name).expect("columns_of has asked");
            if name == column.name || stored::default_kind(source) == stored::DefaultKind::Generated
            {
                return Err(SqlError::new(
                    SqlState::new("42P17"),
                    format!(
                        "cannot use generated column \"{name}\" in column generation expression"
                    ),
                )
                .detail("A generated column cannot reference another generated column."));
            }
        }
        let scope = Scope::table(table, None);
        RowExpr::compile_for(&scope, expr, &[], &column.name, column.ty, column.sql_type)?;
        if !is_immutable(&scope, expr)? {
            return Err(SqlError::new(
                SqlState::new("42P17"),
                "generation expression is not immutable",
            ));
        }
        Ok(())
    }

    /// What the rows that are there get from a default: one value for all where every evaluation
    /// within this transaction gives the same, else one each.
    pub(crate) fn default_fill(&self, expr: &Expr, column: &NewColumn) -> Result<Fill, SqlError> {
        let compiled = self.compile_default(expr, column)?;
        if !compiled.volatile() {
            return Ok(Fill::Constant(compiled.eval_row(&[], self.eval)?));
        }
        let computed =
            Computed { expr: compiled, inputs: vec![], context: EvalContext::new(self.lasting()) };
        Ok(Fill::Compute(Arc::new(computed), None))
    }

    /// The session as it is, for what is evaluated for rows of writers after the statement, and perhaps after the
    /// session.
    fn lasting(&self) -> Arc<Frozen> {
        Arc::new(Frozen::new(self.session.clone()))
    }

    /// A check's condition over a table.
    pub(crate) fn condition(&self, expr: &Expr, table: &TableDef) -> Result<RowExpr, SqlError> {
        let scope = Scope::table(table, None);
        RowExpr::compile_condition(&scope, expr, &[], "CHECK")
    }

    /// A condition on every row, which `expr` was compiled of.
    pub(crate) fn row_check(
        &self,
        (text, expr): (&Expr, RowExpr),
        table: &TableDef,
        violation: SqlError,
    ) -> Arc<dyn Check> {
        let inputs = expr.inputs().iter().map(|at| table.columns[*at].id).collect();
        let frozen = self.lasting();
        let is_shared = table.space.home() == Home::Cluster;
        let recipe = || crate::lazy_column::recipe_of_condition(text, table, &frozen);
        let recipe = is_shared.then(recipe).flatten();
        Arc::new(Condition { expr, inputs, context: EvalContext::new(frozen), violation, recipe })
    }

    pub(crate) fn not_null_check(&self, table: &TableDef, column: &ColumnDef) -> Arc<dyn Check> {
        let violation = SqlError::new(
            SqlState::NOT_NULL_VIOLATION,
            format!(
                "column \"{}\" of relation \"{}\" contains null values",
                column.name, table.name
            ),
        );
        Arc::new(NotNull { input: [column.id], violation })
    }

    /// The default of a column that changes its type, or what generates it, must suit the new one.
    pub(crate) fn recheck_default(
        &self,
        table: &TableDef,
        old: &ColumnDef,
        new: &NewColumn,
    ) -> Result<(), SqlError> {
        let Ok(Some((kind, expr))) = stored::default_expression(old, table) else { return Ok(()) };
        let (what, suits) = match kind {
            stored::DefaultKind::Generated => {
                ("generation expression", self.check_generated(&expr, table, new).is_ok())
            }
            // A literal without a type has the column's, and is cast as an assignment casts.
            _ => {
                let is_null = matches!(&expr, Expr::Value(value) if value.value == Ast::Null);
                let is_cast =
                    !untyped(&expr) || is_null || assignable(old.sql_type.oid, new.sql_type.oid);
                ("default", is_cast && self.compile_default(&expr, new).is_ok())
            }
        };
        if suits {
            return Ok(());
        }
        Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "{what} for column \"{}\" cannot be cast automatically to type {}",
                new.name,
                types::type_name(new.sql_type)
            ),
        ))
    }

    /// Checks that read columns must still make sense when these change their types, and hold: the
    /// same text may compare otherwise (`'9' < '10'`).
    pub(crate) fn recheck_constraints(
        &self,
        table: &TableDef,
        retyped: &[(usize, NewColumn)],
    ) -> Result<Vec<Arc<dyn Check>>, SqlError> {
        let mut changed = table.clone();
        for (at, new) in retyped {
            let place = &mut changed.columns[*at];
            (place.ty, place.sql_type) = (new.ty, new.sql_type);
        }
        let is_retyped = |id: &ColumnId| retyped.iter().any(|(at, _)| table.columns[*at].id == *id);
        let checks = changed.checks().filter(|(_, check)| check.columns.iter().any(is_retyped));
        checks
            .map(|(name, check)| {
                let expr = stored::check_expression(check, &changed)?;
                let compiled = self.condition(&expr, &changed)?;
                Ok(self.row_check(
                    (&expr, compiled),
                    &changed,
                    violated_by_some_row(&changed, name),
                ))
            })
            .collect()
    }
}

/// 23514, of rows that were there before the check.
pub(crate) fn violated_by_some_row(table: &TableDef, check: &str) -> SqlError {
    let message = format!(
        "check constraint \"{check}\" of relation \"{}\" is violated by some row",
        table.name
    );
    SqlError {
        constraint: Some(check.to_owned()),
        table: Some(table.name.clone()),
        ..SqlError::new(SqlState::CHECK_VIOLATION, message)
    }
}
