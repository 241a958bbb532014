//! CREATE TABLE AS.
//!
//! ```text
//!   CREATE TABLE n [(names)] AS SELECT list FROM t WHERE condition
//!                                │              │        └─ which rows of t
//!                                └─ columns     └─ migrated by froglet-schema: n follows t until
//!                                                  the commit
//! ```
//!
//! A query that makes at most one row of each row of one table is compiled here. Others are planned
//! by DataFusion and divided into units (`units.rs`).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use datafusion::sql::sqlparser::ast::{ObjectName, Query};
use froglet_engine::{ColumnId, SqlState};
use froglet_schema::{
    Change, Made, NewColumn, NewTable, RowQuery, SchemaError, SqlType, TableDef, TableQuery,
};

use crate::apply::Stop;
use crate::bound::{BoundExpr, projection_of};
use crate::context::EvalContext;
use crate::ddl::Ddl;
use crate::ddl_compile::refusal;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope};
use crate::query::QueryEnv;
use crate::resolve::{self, Names};
use crate::returning::{self, Item};
use crate::semantics::fieldnames::figure_name;
use crate::table_as_parse::TableAs;
use crate::types::{self, oids, plain};
use crate::unit_query::DividedQuery;
use crate::{df_error, query, select, units};

/// A query of more rows than this takes long enough that somebody wants to know when it is run.
const ROWS_RUN_AT_ONCE: u64 = 100_000;

/// Some rows of a table, and what is made of each.
struct RowsQuery {
    inputs: Vec<ColumnId>,
    condition: Option<BoundExpr>,
    columns: Vec<BoundExpr>,
    context: EvalContext,
}

impl RowsQuery {
    fn eval(&self, batch: &RecordBatch) -> Result<Made, SqlError> {
        let Some(condition) = &self.condition else {
            let rows = (0..batch.num_rows()).collect();
            return Ok(Made { rows, columns: self.columns(batch)? });
        };
        let holds = condition.eval_batch(batch, &self.context)?;
        // A condition that is always NULL keeps nothing.
        let Some(holds) = holds.as_any().downcast_ref::<BooleanArray>() else {
            return Ok(Made { rows: Vec::new(), columns: self.columns(&batch.slice(0, 0))? });
        };
        let keeps = |at: &usize| holds.is_valid(*at) && holds.value(*at);
        let rows = (0..batch.num_rows()).filter(keeps).collect();
        let kept = filter_record_batch(batch, holds).map_err(df_error::arrow)?;
        Ok(Made { rows, columns: self.columns(&kept)? })
    }

    fn columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, SqlError> {
        self.columns.iter().map(|column| column.eval_batch(batch, &self.context)).collect()
    }
}

impl RowQuery for RowsQuery {
    fn inputs(&self) -> &[ColumnId] {
        &self.inputs
    }

    fn eval(&self, batch: &RecordBatch) -> Result<Made, SchemaError> {
        RowsQuery::eval(self, batch).map_err(refusal)
    }
}

impl Ddl<'_> {
    pub(crate) async fn create_table_as(&mut self, table_as: &TableAs) -> Result<String, Stop> {
        let TableAs { create, names, with_data } = table_as;
        if !create.columns.is_empty() || !create.constraints.is_empty() {
            let message = "column definitions and constraints have no place in CREATE TABLE AS";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
                .hint("Name the columns without types, or ALTER TABLE in the same transaction.")
                .into());
        }
        let Some((schema, name)) = self.free_name(create)? else {
            return Ok("CREATE TABLE AS".to_owned());
        };
        let query = create.query.as_ref().expect("CREATE TABLE AS has a query");
        let (mut columns, query) = match self.of_rows(query)? {
            Some(of_rows) => of_rows,
            None => self.of_units(query)?,
        };
        rename(names, &mut columns)?;
        crate::ddl_table::refuse_duplicates(columns.iter().map(|column| column.name.as_str()))?;

        let table = NewTable { schema, name, columns, constraints: Vec::new() };
        if !with_data {
            self.apply(Change::CreateTable(table)).await?;
            return Ok("CREATE TABLE AS".to_owned());
        }
        let change = Change::CreateTableAs { table, query };
        let made = self.apply_counted(change).await?;
        Ok(format!("SELECT {}", made.rows))
    }

    /// The columns and the rows of a query that makes at most one row of each row of one table; `None`
    /// for others.
    fn of_rows(&self, query: &Query) -> Result<Option<(Vec<NewColumn>, TableQuery)>, Stop> {
        let Some((from, select)) = select::of_one_table(query)? else { return Ok(None) };
        if is_system(from.name)? && self.names().relation(from.name)?.is_none() {
            return Ok(None);
        }
        let source = self.table(from.name)?;
        let scope = Scope::table(&source.def, from.alias.as_deref());
        let condition = select.selection.as_ref();
        let condition = condition
            .map(|condition| RowExpr::compile_condition(&scope, condition, &[], "WHERE"))
            .transpose()?;
        let items = returning::items(&select.projection, &source.def, from.alias.as_deref())?;
        let mut columns = Vec::with_capacity(items.len());
        let mut exprs = Vec::with_capacity(items.len());
        for item in &items {
            let (column, expr) = match output(item, &source.def, &scope) {
                // Aggregates and window functions make a row of several.
                Err(e) if e.state == SqlState::GROUPING_ERROR => return Ok(None),
                outcome => outcome?,
            };
            columns.push(column);
            exprs.push(expr);
        }
        let read = projection_of(exprs.iter().chain(&condition), []);
        let query = RowsQuery {
            inputs: read.iter().map(|column| source.def.columns[*column].id).collect(),
            condition: condition.map(|condition| BoundExpr::new(condition, &read)),
            columns: exprs.into_iter().map(|expr| BoundExpr::new(expr, &read)).collect(),
            context: self.eval.clone(),
        };
        let query = TableQuery::Rows { source: source.def.id, query: Arc::new(query) };
        Ok(Some((columns, query)))
    }

    /// The same for any query.
    fn of_units(&mut self, query: &Query) -> Result<(Vec<NewColumn>, TableQuery), Stop> {
        let env = QueryEnv::new(self.version.clone(), self.session.clone());
        let planned = query::plan(query, &env, &[], &[])?;
        let plan = planned.bound(&[])?;
        let divided = units::divide(&plan).map_err(df_error::map_df_error)?;
        if divided.is_one && divided.row_estimate() > ROWS_RUN_AT_ONCE {
            let notice = "all rows of the query are one migration unit: whenever one of its tables has \
                          changed it is run again, at last while writers of these wait";
            self.notice(SqlState::SUCCESSFUL_COMPLETION, notice);
        }
        let columns = planned.fields().iter().map(|f| new_column(f.name.clone(), f.sql_type));
        let columns: Vec<NewColumn> = columns.collect::<Result<_, SqlError>>()?;
        let targets = columns.iter().map(|c| (c.name.clone(), c.ty, c.sql_type)).collect();
        let query = DividedQuery::new(divided, targets, env, self.eval.clone())?;
        Ok((columns, TableQuery::Units(Arc::new(query))))
    }
}

/// Whether a name that no table has is meant for a system catalog.
fn is_system(name: &ObjectName) -> Result<bool, SqlError> {
    let (schema, name) = Names::parts(name)?;
    Ok(match schema.as_deref() {
        Some(schema) => resolve::is_system_schema(schema),
        None => name.starts_with("pg_"),
    })
}

/// A column of the new table, and what computes it.
fn output(
    item: &Item<'_>,
    table: &TableDef,
    scope: &Scope,
) -> Result<(NewColumn, RowExpr), SqlError> {
    let (expr, name) = match item {
        Item::Column(column) => {
            let name = table.columns[*column].name.clone();
            (returning::column_expr(table, *column, scope)?, name)
        }
        Item::Expr(expr, name) => {
            let name = name.clone().unwrap_or_else(|| figure_name(expr));
            let text = plain(oids::TEXT);
            // A literal without a type is text.
            let compiled = match types::column_type_of(text.oid, text.modifier) {
                Some(ty) if crate::expr::untyped(expr) => {
                    RowExpr::compile_for(scope, expr, &[], &name, ty, text)?
                }
                _ => RowExpr::compile(scope, expr, &[])?,
            };
            (compiled, name)
        }
    };
    let sql_type = expr.sql_type();
    let column = new_column(name, sql_type)?;
    let expr = expr.assigned_to(column.ty, sql_type);
    Ok((column, expr))
}

fn new_column(name: String, sql_type: SqlType) -> Result<NewColumn, SqlError> {
    let Some(ty) = types::column_type_of(sql_type.oid, sql_type.modifier) else {
        return Err(SqlError::unsupported(format!(
            "a column of type {}",
            types::type_name(sql_type)
        )));
    };
    Ok(NewColumn { name, ty, sql_type, not_null: false, default: None })
}

/// CREATE TABLE n (names) AS …: the first columns have these names.
fn rename(names: &[String], columns: &mut [NewColumn]) -> Result<(), SqlError> {
    if names.len() > columns.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name.clone_from(name);
    }
    Ok(())
}
