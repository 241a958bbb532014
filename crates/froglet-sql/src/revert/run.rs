//! `SELECT froglet.revert_migration(n [, lossy => true])`, and `ALTER TABLE t UNDROP COLUMN c`.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Query, SelectItem,
    SetExpr,
};
use froglet_engine::{ColumnType, SqlState, Value};
use froglet_schema::{Change, KeptColumn, ObjectDef, SqlType};

use super::{Around, Plan, plan, text};
use crate::apply::Stop;
use crate::command::{Command, fold};
use crate::context::SessionFunctions;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::lazy_query::Mode;
use crate::prepared::Field;
use crate::stored::{self, DefaultKind};
use crate::types::{column_type_of, oids, plain};
use crate::udf::lookup::quote_ident;

/// The function that reverts.
pub(crate) const REVERT: &str = "froglet.revert_migration";

/// A call of [`REVERT`].
#[derive(Debug)]
pub struct Revert {
    /// The number of the change.
    pub(crate) id: Expr,
    /// Whether it may lose something.
    pub(crate) lossy: Option<Expr>,
}

/// ALTER TABLE … UNDROP COLUMN
#[derive(Debug)]
pub struct Undrop {
    /// The table.
    pub(crate) table: ObjectName,
    /// The dropped column.
    pub(crate) column: String,
}

/// The call, if a query is nothing else.
pub(crate) fn call(query: &Query) -> Option<Revert> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && select.from.is_empty()
        && select.selection.is_none()
        && select.distinct.is_none();
    let [item] = select.projection.as_slice() else { return None };
    let SelectItem::UnnamedExpr(expr) = item else { return None };
    let Expr::Function(function) = expr else { return None };
    if !plain || !function.name.to_string().replace('"', "").eq_ignore_ascii_case(REVERT) {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let mut arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some((None, expr.clone())),
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
            Some((Some(fold(name)), expr.clone()))
        }
        _ => None,
    });
    let (name, id) = arguments.next()??;
    if name.is_some_and(|name| name != "id") {
        return None;
    }
    let lossy = match arguments.next() {
        None => None,
        Some(argument) => {
            let (name, lossy) = argument?;
            if name.is_some_and(|name| name != "lossy") || arguments.next().is_some() {
                return None;
            }
            Some(lossy)
        }
    };
    Some(Revert { id, lossy })
}

impl Revert {
    /// Its parameters' types, by number: what the client says, or what the arguments are.
    pub(crate) fn params(&self, given: &[u32]) -> Arc<[SqlType]> {
        let mut types = Vec::new();
        let arguments = [(Some(&self.id), oids::INT8), (self.lossy.as_ref(), oids::BOOL)];
        for (expr, oid) in arguments {
            let Some(expr) = expr else { continue };
            crate::walk::each_expr(expr, |expr| {
                if let Expr::Value(value) = expr
                    && let ast::Value::Placeholder(name) = &value.value
                    && let Some(at) = crate::expr::param_index(name)
                {
                    types.resize(types.len().max(at + 1), oids::INT8);
                    types[at] = oid;
                }
            });
        }
        for (ty, given) in types.iter_mut().zip(given) {
            if ![0, oids::UNKNOWN].contains(given) {
                *ty = *given;
            }
        }
        types.into_iter().map(plain).collect()
    }
}

/// Its result: the number of the schema change that it is.
pub(crate) fn fields() -> Arc<[Field]> {
    let (name, sql_type) = ("revert_migration".to_owned(), plain(oids::INT8));
    let ty = Some(ColumnType::Int64);
    Arc::from([Field { name, sql_type, ty, table: 0, attnum: 0, record: None }])
}

impl Ddl<'_> {
    /// Reverts a schema change; the number of the change that this is.
    pub(crate) async fn revert(&mut self, id: i64, lossy: bool) -> Result<i64, Stop> {
        let plan = self.revert_plan(id)?;
        let losses = plan.losses();
        if !losses.is_empty() && !lossy {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("reverting schema change {} would lose data", plan.change.id),
            )
            .detail(format!("Lost would be {}.", losses.join("; ")))
            .hint(format!(
                "See froglet.revert_plan({id}). To do it all the same: SELECT {REVERT}({id}, lossy => true)."
            ))
            .into());
        }
        if let Some(other) = self.catalog.own_revert(self.txn) {
            let message = format!("this transaction reverts schema change {other} already");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .detail("A transaction reverts one schema change.")
                .into());
        }
        let mark = (self.catalog.savepoint(self.txn), self.txn.savepoint());
        match self.run_steps(&plan).await {
            Err(Stop::Error(e))
                if e.state == SqlState::FEATURE_NOT_SUPPORTED && self.migration != Mode::Eager =>
            {
                self.catalog.rollback_to(self.txn, &mark.0);
                self.txn.rollback_to(mark.1);
                self.version = self.catalog.view(self.txn);
                self.session.set_planning(&self.version);
                self.notice(
                    SqlState::SUCCESSFUL_COMPLETION,
                    format!("the revert is made eagerly: {}", e.message),
                );
                self.migration = Mode::Eager;
                self.run_steps(&plan).await?;
            }
            outcome => outcome?,
        }
        self.catalog.note_revert(self.txn, plan.change.id);
        let own = self.catalog.number_change(self.txn);
        Ok(i64::try_from(own).unwrap_or(i64::MAX))
    }

    fn revert_plan(&mut self, id: i64) -> Result<Plan, Stop> {
        let snapshot = self.txn.snapshot();
        let around = Around {
            catalog: &self.version,
            changes: &self.catalog.schema_changes(),
            session: &**self.session,
            snapshot: &snapshot,
            path: &self.path,
            own: self.catalog.own_revert(self.txn),
        };
        Ok(plan(&around, id)?)
    }

    async fn run_steps(&mut self, plan: &Plan) -> Result<(), Stop> {
        for sql in plan.steps.iter().filter_map(|step| step.sql.as_ref()) {
            self.run_sql(sql).await?;
        }
        Ok(())
    }

    async fn run_sql(&mut self, sql: &str) -> Result<(), Stop> {
        let mut statements = crate::parse::split(sql, &mut self.notices)?;
        let statement = statements.pop().ok_or(Stop::Restart)?;
        self.options.statement = sql.to_owned();
        let run = Box::pin(self.run(&statement.command)).await;
        run.map(drop).map_err(|stop| match stop {
            Stop::Error(e) => Stop::Error(e.context(format!("SQL statement \"{sql}\""))),
            Stop::Restart => Stop::Restart,
        })
    }

    /// A dropped column whose values are still stored comes back to where it was.
    pub(crate) async fn undrop_column(&mut self, undrop: &Undrop) -> Result<String, Stop> {
        let table = self.table(&undrop.table)?;
        let changes = self.catalog.schema_changes();
        let found = changes.iter().rev().find_map(|change| {
            let object = change.object(table.def.id)?;
            let Some(ObjectDef::Table(before)) = &object.before else { return None };
            let column = before.column(&undrop.column)?;
            let kept = KeptColumn { space: table.def.space, column: column.id };
            change.kept.contains(&kept).then(|| (before.clone(), column.clone()))
        });
        let found = found.filter(|(_, column)| table.def.column_by_id(column.id).is_none());
        let Some((before, mut column)) = found else {
            return Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!(
                    "relation \"{}\" has no dropped column \"{}\" that is still stored",
                    table.def.name, undrop.column
                ),
            )
            .hint("See froglet.revert_retention.")
            .into());
        };
        if stored::default_kind(&column) == DefaultKind::Generated {
            // What it is computed of may have changed since.
            let (name, text) = (quote_ident(&table.def.name), text::column(&column, &table.def));
            let schema = quote_ident(&table.def.schema);
            self.run_sql(&format!("ALTER TABLE {schema}.{name} ADD COLUMN {text}")).await?;
            return Ok("ALTER TABLE".to_owned());
        }
        let ahead = before.columns.iter().take_while(|c| c.id != column.id);
        let place = |c: &froglet_schema::ColumnDef| {
            table.def.columns.iter().position(|now| now.id == c.id || now.name == c.name)
        };
        let at = ahead.filter_map(place).max().map_or(0, |at| at + 1);
        // Rows that were written meanwhile have NULL.
        column.not_null = false;
        self.apply(Change::RestoreColumn { table: table.def.id, column, at }).await?;
        Ok("ALTER TABLE".to_owned())
    }
}

/// A number and whether it may be lossy, of values for the parameters.
pub(crate) fn arguments(
    revert: &Revert,
    types: &Arc<[SqlType]>,
    params: &[Value],
    session: Arc<dyn SessionFunctions>,
) -> Result<(i64, bool), SqlError> {
    let context = crate::context::EvalContext::with_params(session, params.to_vec(), types);
    let eval = |expr: &Expr, oid: u32| {
        let ty = plain(oid);
        let column = column_type_of(oid, -1).expect("a plain type");
        let scope = crate::expr::Scope::empty();
        let compiled =
            crate::expr::RowExpr::compile_for(&scope, expr, types, "argument", column, ty)?;
        compiled.eval_row(&[], &context)
    };
    let null = || {
        SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("the arguments of {REVERT} must not be null"),
        )
    };
    let id = match eval(&revert.id, oids::INT8)? {
        Value::Int64(id) => id,
        _ => return Err(null()),
    };
    let lossy = match &revert.lossy {
        None => false,
        Some(lossy) => match eval(lossy, oids::BOOL)? {
            Value::Bool(lossy) => lossy,
            _ => return Err(null()),
        },
    };
    Ok((id, lossy))
}

/// Whoever calls the function elsewhere is told where it may stand.
pub(crate) fn misplaced() -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("{REVERT} must be all that its query does"),
    )
    .hint(format!("SELECT {REVERT}(number [, lossy => true])"))
}

/// The command, if a query calls [`REVERT`] and does nothing else.
pub(crate) fn command(query: &Query) -> Option<Command> {
    call(query).map(|revert| Command::Revert(Box::new(revert)))
}
