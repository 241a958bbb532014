//! `x NOT IN (SELECT …)` of an x that is NULL whatever the row is: true where the query has no rows, and NULL where
//! it has some. DataFusion's join by a key that is NULL finds no partner, and takes that for true.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use crate::query::account;

/// Puts NOT EXISTS in the place of such conditions.
pub fn rewrite(plan: LogicalPlan, options: &Arc<ConfigOptions>) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Filter(mut filter) = node else { return Ok(Transformed::no(node)) };
        let schema = filter.input.schema().clone();
        let predicate = filter.predicate.transform_down(|expr| {
            let not_in = match &expr {
                Expr::InSubquery(found) if found.negated => Some(found),
                Expr::Not(inner) => match &**inner {
                    Expr::InSubquery(found) if !found.negated => Some(found),
                    _ => None,
                },
                _ => None,
            };
            Ok(match not_in {
                Some(InSubquery { expr: value, subquery, .. })
                    if is_null(value, &schema, options) =>
                {
                    let exists = Exists { subquery: subquery.clone(), negated: true };
                    Transformed::yes(Expr::Exists(exists))
                }
                _ => Transformed::no(expr),
            })
        })?;
        filter.predicate = predicate.data;
        Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), predicate.transformed))
    })?;
    Ok(changed.data)
}

fn is_null(value: &Expr, schema: &Arc<DFSchema>, options: &Arc<ConfigOptions>) -> bool {
    matches!(simplified(value, schema, options), Ok(Expr::Literal(value, _)) if value.is_null())
}

/// What the optimizer will make of an expression.
pub(super) fn simplified(
    value: &Expr,
    schema: &Arc<DFSchema>,
    options: &Arc<ConfigOptions>,
) -> Result<Expr> {
    let context = SimplifyContext::builder()
        .with_schema(schema.clone())
        .with_config_options(options.clone())
        .build();
    let simplifier = ExprSimplifier::new(context);
    let value = simplifier.coerce(value.clone(), schema)?;
    account::folding(|| simplifier.simplify(value))
}
