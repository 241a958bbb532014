//! `x IN (SELECT …)` of which false and NULL are not the same, where nothing has made counts of it
//! (`rewrite_quantified.rs`): DataFusion's joins know no NULL.
//!
//! ```text
//!   HAVING (max(v) IN (…)) IS NOT FALSE          x is an aggregate
//!   t LEFT JOIN u ON t.a IN (…)                  no join can be made of it
//!   EXISTS (… WHERE t.a NOT IN (…))              t.a is of outside, where its join comes to be
//! ```
//!
//! Such an IN is a function of x, which looks at the query's rows for each of its values (`subplan.rs`).

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, JoinType, LogicalPlan, Operator};

use crate::subplan;

/// Puts functions in the place of such IN.
pub fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
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
                true => in_condition(expr, &schema, true)?,
                false => all(expr, &schema)?,
            };
            Ok(changed.update_data(|expr| name.restore(expr)))
        })?
        .map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(changed.data)
}

/// `whole`: where the condition holds or no row does, and DataFusion's NOT IN knows of NULL.
fn in_condition(expr: Expr, schema: &DFSchema, whole: bool) -> Result<Transformed<Expr>> {
    let negated = match &expr {
        Expr::InSubquery(found) => Some(found.negated),
        Expr::Not(inner) => match &**inner {
            Expr::InSubquery(found) => Some(!found.negated),
            _ => None,
        },
        _ => None,
    };
    match (expr, negated) {
        (expr, Some(negated)) if !negated || whole && !expr.contains_outer() => {
            Ok(Transformed::no(expr))
        }
        (Expr::BinaryExpr(BinaryExpr { left, op, right }), _)
            if matches!(op, Operator::And | Operator::Or) =>
        {
            let whole = whole && op == Operator::And;
            let left = in_condition(*left, schema, whole)?;
            let right = in_condition(*right, schema, whole)?;
            let changed = left.transformed || right.transformed;
            let both = BinaryExpr::new(Box::new(left.data), op, Box::new(right.data));
            let both = Expr::BinaryExpr(both);
            Ok(if changed { Transformed::yes(both) } else { Transformed::no(both) })
        }
        (expr, _) => all(expr, schema),
    }
}

fn all(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|part| match part {
        Expr::InSubquery(_) => subplan::in_place(part, schema),
        part => Ok(Transformed::no(part)),
    })
}
