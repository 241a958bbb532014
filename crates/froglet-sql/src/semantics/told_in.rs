//! `x IN (SELECT …)` of which false and NULL are not the same, where nothing has made counts of it
//! (`rewrite_quantified.rs`): DataFusion's joins know no NULL.
//!
//! ```text
//!   HAVING (max(v) IN (…)) IS NOT FALSE          x is an aggregate
//!   t LEFT JOIN u ON t.a IN (…)                  no join can be made of it
//!   EXISTS (… WHERE t.a NOT IN (…))              t.a is of outside, where its join comes to be
//! ```
//!
//! Such an IN is a function of x, which looks at the query's rows for each of its values (`subplan.rs`). The join
//! that knows of NULL has a key of both sides and no other condition. Where NOT IN cannot be that, and nobody tells
//! false from NULL, it is NOT EXISTS:
//!
//! ```text
//!   3 NOT IN (SELECT y …)                        NOT EXISTS (SELECT … WHERE (3 = y) IS NOT FALSE)
//!   t.a NOT IN (SELECT y … WHERE u.b = t.b)      NOT EXISTS (SELECT … WHERE u.b = t.b AND (t.a = y) IS NOT FALSE)
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
};

use super::measures;
use super::null_in::simplified;
use crate::subplan;
use crate::udf::nothing;

/// Puts functions in the place of such IN.
pub fn rewrite(plan: LogicalPlan, options: &Arc<ConfigOptions>) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expr| expr.transform_up(with_head))?.data;
        let schema = Arc::new(merge_schema(&node.inputs()));
        let preserver = NamePreserver::new(&node);
        let is_condition = match &node {
            LogicalPlan::Filter(_) => true,
            LogicalPlan::Join(join) => join.join_type == JoinType::Inner,
            LogicalPlan::Projection(_) => false,
            _ => return Ok(Transformed::no(node)),
        };
        node.map_expressions(|expr| {
            let name = preserver.save(&expr);
            let changed = match is_condition {
                true => in_condition(expr, &schema, options, true)?,
                false => all(expr, &schema)?,
            };
            Ok(changed.update_data(|expr| name.restore(expr)))
        })?
        .map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(changed.data)
}

/// A query in IN that says which expression its column is: DataFusion asks for that, and VALUES has none.
fn with_head(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::InSubquery(mut found) = expr else { return Ok(Transformed::no(expr)) };
    let query = &found.subquery.subquery;
    if query.head_output_expr()?.is_some() {
        return Ok(Transformed::no(Expr::InSubquery(found)));
    }
    let columns: Vec<Expr> = query.schema().iter().map(Expr::from).collect();
    let plan = LogicalPlanBuilder::from(query.as_ref().clone()).project(columns)?.build()?;
    found.subquery.subquery = Arc::new(plan);
    Ok(Transformed::yes(Expr::InSubquery(found)))
}

/// `whole`: where the condition holds or no row does, and DataFusion's NOT IN knows of NULL.
fn in_condition(
    expr: Expr,
    schema: &Arc<DFSchema>,
    options: &Arc<ConfigOptions>,
    whole: bool,
) -> Result<Transformed<Expr>> {
    let one = match &expr {
        Expr::InSubquery(found) => Some((found, found.negated)),
        Expr::Not(inner) => match &**inner {
            Expr::InSubquery(found) => Some((found, !found.negated)),
            _ => None,
        },
        _ => None,
    };
    if let Some((found, negated)) = one {
        if !negated {
            return Ok(Transformed::no(expr));
        }
        if whole && is_join(found, schema, options) {
            return knowing_null(expr, schema);
        }
        if whole && let Some(exists) = not_exists(found, schema)? {
            return Ok(Transformed::yes(exists));
        }
    }
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::And | Operator::Or) =>
        {
            let whole = whole && op == Operator::And;
            let left = in_condition(*left, schema, options, whole)?;
            let right = in_condition(*right, schema, options, whole)?;
            let changed = left.transformed || right.transformed;
            let both = BinaryExpr::new(Box::new(left.data), op, Box::new(right.data));
            let both = Expr::BinaryExpr(both);
            Ok(if changed { Transformed::yes(both) } else { Transformed::no(both) })
        }
        expr => all(expr, schema),
    }
}

/// Whether DataFusion's join says of NOT IN what is true: one by a key of both sides, and by nothing else.
fn is_join(found: &InSubquery, schema: &Arc<DFSchema>, options: &Arc<ConfigOptions>) -> bool {
    let has_key = || match simplified(&found.expr, schema, options) {
        Ok(value) => value.any_column_refs(),
        Err(_) => found.expr.any_column_refs(),
    };
    !found.expr.contains_outer() && found.subquery.outer_ref_columns.is_empty() && has_key()
}

/// NOT IN by a join. Whether a key may be NULL DataFusion asks of the columns that it reads alone, which says nothing of
/// `nullif(x, 3)`; of a query whose column may be NULL, it looks for itself.
fn knowing_null(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_down(|part| {
        let Expr::InSubquery(mut found) = part else { return Ok(Transformed::no(part)) };
        let query = &found.subquery.subquery;
        let (qualifier, field) = query.schema().qualified_field(0);
        let is_known = matches!(*found.expr, Expr::Column(_)) || field.is_nullable();
        if is_known || !found.expr.nullable(schema)? {
            return Ok(Transformed::no(Expr::InSubquery(found)));
        }
        let column = Expr::from((qualifier, field));
        let column = nothing::or_null(column).alias_qualified(qualifier.cloned(), field.name());
        let plan = LogicalPlanBuilder::from(query.as_ref().clone()).project([column])?.build()?;
        found.subquery.subquery = Arc::new(plan);
        Ok(Transformed::new(Expr::InSubquery(found), true, TreeNodeRecursion::Jump))
    })
}

/// NOT IN as NOT EXISTS of the rows that are not known to be another; `None` where its value is of further out, or
/// must not be computed for each of the query's rows.
fn not_exists(found: &InSubquery, schema: &DFSchema) -> Result<Option<Expr>> {
    let value = &*found.expr;
    if value.contains_outer() || value.is_volatile() || value.exists(|part| Ok(is_query(part)))? {
        return Ok(None);
    }
    let value = value.clone().transform(|part| match part {
        Expr::Column(column) => {
            let field = schema.field_from_column(&column)?.clone();
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        part => Ok(Transformed::no(part)),
    })?;
    let query = found.subquery.subquery.as_ref();
    let column = Expr::from(query.schema().qualified_field(0));
    let (value, column) = measures::pair(value.data, Operator::Eq, column, query.schema())?;
    let plan = LogicalPlanBuilder::from(query.clone());
    let plan = plan.filter(value.eq(column).is_not_false())?.build()?;
    let outer_ref_columns = plan.all_out_ref_exprs();
    let subquery =
        Subquery { subquery: Arc::new(plan), outer_ref_columns, ..found.subquery.clone() };
    Ok(Some(Expr::Exists(Exists { subquery, negated: true })))
}

fn is_query(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))
}

fn all(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|part| match part {
        Expr::InSubquery(_) => subplan::in_place(part, schema),
        part => Ok(Transformed::no(part)),
    })
}
