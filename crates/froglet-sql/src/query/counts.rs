//! LIMIT and OFFSET: any expression without columns, as PostgreSQL has them.
//!
//! ```text
//!   LIMIT '1'   LIMIT $1 (int4)   LIMIT 2.5   LIMIT (SELECT …)
//!      │ typed()      before the optimizer: assigned to bigint, as a value is to a column
//!      ▼
//!   a constant ─▶ the optimizer uses it
//!   anything else ─ known()   when the plan is to run: evaluated once, before it begins
//! ```
//!
//! DataFusion's physical planner takes bigint literals and nothing else.

use std::borrow::Cow;

use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, Limit, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::collect;
use datafusion::sql::sqlparser::ast;
use froglet_engine::SqlState;
use froglet_schema::SqlType;

use crate::command::fold;
use crate::error::SqlError;
use crate::planning::registry;
use crate::rewrite_rows;
use crate::semantics::casts;
use crate::semantics::fields::field_of;
use crate::semantics::operators::unknown_literal;
use crate::types::cast::assignable;
use crate::types::{self, input, oids, sql_type_of_field};
use crate::walk::{self, Flow, GO_ON, Look, STOP};

const BIGINT: SqlType = types::plain(oids::INT8);

/// 42P10 where a count reads a column.
pub(crate) fn check(query: &ast::Query) -> Result<(), SqlError> {
    struct Counts {
        failed: Option<SqlError>,
    }
    impl Look for Counts {
        fn query(&mut self, query: &ast::Query) -> Flow {
            let Some(ast::LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause
            else {
                return GO_ON;
            };
            let limit = limit.iter().map(|count| (count, "LIMIT"));
            let counts = limit.chain(offset.iter().map(|offset| (&offset.value, "OFFSET")));
            for (_, clause) in counts.filter(|(count, _)| reads_column(count, &query.body)) {
                let message = format!("argument of {clause} must not contain variables");
                self.failed = Some(SqlError::new(SqlState::new("42P10"), message));
            }
            if self.failed.is_some() { STOP } else { GO_ON }
        }
    }
    let mut counts = Counts { failed: None };
    walk::look(query, &mut counts);
    counts.failed.map_or(Ok(()), Err)
}

/// Whether a count reads a column of the query itself; those of queries around it are its to read.
fn reads_column(count: &ast::Expr, body: &ast::SetExpr) -> bool {
    match count {
        ast::Expr::Nested(inner)
        | ast::Expr::Cast { expr: inner, .. }
        | ast::Expr::UnaryOp { expr: inner, .. } => reads_column(inner, body),
        ast::Expr::BinaryOp { left, right, .. } => {
            reads_column(left, body) || reads_column(right, body)
        }
        ast::Expr::Identifier(name) => registry().scalar(&fold(name)).is_none(),
        ast::Expr::CompoundIdentifier(parts) => match &parts[..] {
            [.., table, _] => is_of(&fold(table), body),
            _ => true,
        },
        _ => false,
    }
}

/// Whether a table of a query's FROM is called so.
fn is_of(name: &str, body: &ast::SetExpr) -> bool {
    let ast::SetExpr::Select(select) = body else { return false };
    let mut factors = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    factors.any(|factor| rewrite_rows::name_of(factor).as_deref() == Some(name))
}

/// Gives the counts of a plan and its subqueries the type bigint; 42804 where they have none that goes there.
pub(crate) fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let typed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Limit(limit) = node else { return Ok(Transformed::no(node)) };
        let Limit { skip, fetch, input } = limit;
        let skip = skip.map(|count| bigint(*count, "OFFSET").map(Box::new)).transpose()?;
        let fetch = fetch.map(|count| bigint(*count, "LIMIT").map(Box::new)).transpose()?;
        Ok(Transformed::yes(LogicalPlan::Limit(Limit { skip, fetch, input })))
    })?;
    Ok(typed.data)
}

fn bigint(count: Expr, clause: &str) -> Result<Expr> {
    if let Expr::Placeholder(Placeholder { id, field: None }) = count {
        let arrow = arrow::datatypes::DataType::Int64;
        let field = Some(types::sql_field("", BIGINT, arrow, true));
        return Ok(Expr::Placeholder(Placeholder { id, field }));
    }
    // What has no type yet has one when the plan's casts are written out.
    let Ok(field) = field_of(&count, &DFSchema::empty()) else { return Ok(count) };
    if field.data_type().is_null() {
        return Ok(Expr::Literal(ScalarValue::Int64(None), None));
    }
    let ty = sql_type_of_field(&field);
    if ty.oid == oids::INT8 {
        return not_negative(count, clause);
    }
    if unknown_literal(&count).is_none() && !assignable(ty.oid, oids::INT8) {
        let given = input::input_name(ty);
        let message = format!("argument of {clause} must be type bigint, not type {given}");
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).into());
    }
    let written = match &count {
        Expr::Cast(cast) if ty.oid == oids::INT4 => &*cast.expr,
        count => count,
    };
    if let Expr::Literal(value, _) = written
        && let Some(converted) = casts::literal(value, BIGINT)?
    {
        return not_negative(converted, clause);
    }
    Ok(casts::call(count, BIGINT))
}

/// 2201W, 2201X
fn not_negative(count: Expr, clause: &str) -> Result<Expr> {
    match count {
        Expr::Literal(ScalarValue::Int64(Some(..0)), _) => {
            let state = SqlState::new(if clause == "LIMIT" { "2201W" } else { "2201X" });
            Err(SqlError::new(state, format!("{clause} must not be negative")).into())
        }
        count => Ok(count),
    }
}

/// The plan with numbers for counts that are expressions still; 2201W and 2201X where one is negative.
pub(crate) async fn known<'a>(
    plan: &'a LogicalPlan,
    session: &dyn Session,
) -> Result<Cow<'a, LogicalPlan>> {
    let mut open: Vec<(Expr, Expr)> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            let counts = limit.skip.iter().chain(&limit.fetch);
            open.extend(counts.filter(|c| !is_known(c)).map(|c| ((**c).clone(), (**c).clone())));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if open.is_empty() {
        return Ok(Cow::Borrowed(plan));
    }
    for (_, count) in &mut open {
        *count = Expr::Literal(evaluated(count.clone(), session).await?, None);
    }
    let number = |count: Option<Box<Expr>>, clause: &str| -> Result<Option<Box<Expr>>> {
        let Some(count) = count else { return Ok(None) };
        let known = open.iter().find(|(expr, _)| *expr == *count).map(|(_, known)| known.clone());
        let known = known.unwrap_or(*count);
        not_negative(known, clause).map(|known| Some(Box::new(known)))
    };
    let plan = plan.clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::Limit(Limit { skip, fetch, input }) = node else {
            return Ok(Transformed::no(node));
        };
        let skip = number(skip, "OFFSET")?;
        let fetch = number(fetch, "LIMIT")?;
        Ok(Transformed::yes(LogicalPlan::Limit(Limit { skip, fetch, input })))
    })?;
    Ok(Cow::Owned(plan.data))
}

/// Whether the physical planner takes it; a negative number is refused here rather than there.
fn is_known(count: &Expr) -> bool {
    matches!(count, Expr::Literal(ScalarValue::Int64(None | Some(0..)), _))
}

/// Its value, by a query of one row.
async fn evaluated(count: Expr, session: &dyn Session) -> Result<ScalarValue> {
    if let Expr::Literal(value @ ScalarValue::Int64(_), _) = count {
        return Ok(value);
    }
    let plan = LogicalPlanBuilder::empty(true).project([count.alias("count")])?.build()?;
    let physical = session.create_physical_plan(&plan).await?;
    let batches = collect(physical, session.task_ctx()).await?;
    let row = batches.iter().find(|batch| batch.num_rows() > 0);
    match row {
        Some(batch) => ScalarValue::try_from_array(batch.column(0), 0),
        None => Ok(ScalarValue::Int64(None)),
    }
}
