//! Conditions that stay where they are.
//!
//! DataFusion moves a condition that reads no columns below an aggregate without groups, which then has a row
//! of nothing where there was to be none:
//!
//! ```text
//!   SELECT n FROM (SELECT count(*) AS n FROM t) q WHERE $1 = 1       no row, not one of 0
//!   FROM t LEFT JOIN (SELECT count(*) AS n FROM u) q ON 1 = 2        n is NULL, not 0
//! ```
//!
//! What is held is a call of a function that has its first argument's value, and reads columns of the aggregate.

use std::sync::{Arc, LazyLock};

use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};

use super::identity;

/// Holds such conditions above what is aggregated without groups.
pub fn hold(plan: LogicalPlan) -> Result<LogicalPlan> {
    let held = plan.transform_up_with_subqueries(|node| match node {
        // What is true or false leaves all of its input, or nothing; DataFusion does not see that NULL does.
        LogicalPlan::Filter(mut filter) => {
            let known = |part: &Expr| matches!(part, Expr::Literal(value, _) if !value.is_null());
            let moves = |part: &Expr| !known(part) && reads_nothing(part);
            let held = held(filter.predicate.clone(), moves, &[&filter.input])?;
            if let Some(predicate) = &held {
                filter.predicate = predicate.clone();
            }
            Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), held.is_some()))
        }
        LogicalPlan::Join(mut join) => {
            let (free, on) = join.on.iter().cloned().partition::<Vec<_>, _>(|(left, right)| {
                reads_nothing(left) && reads_nothing(right)
            });
            let free = free.into_iter().map(|(left, right)| left.eq(right));
            let condition = conjunction(join.filter.clone().into_iter().chain(free));
            let sides = [&*join.left, &*join.right];
            let held = condition.map_or(Ok(None), |one| held(one, reads_nothing, &sides))?;
            let changes = held.is_some();
            if changes {
                join.filter = held;
                join.on = on;
            }
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), changes))
        }
        node => Ok(Transformed::no(node)),
    })?;
    Ok(held.data)
}

fn reads_nothing(condition: &Expr) -> bool {
    condition.column_refs().is_empty() && !condition.contains_outer()
}

/// A condition over inputs with those of its parts held that may move; `None` if none may, or to where it matters.
fn held(
    condition: Expr,
    moves: impl Fn(&Expr) -> bool,
    inputs: &[&LogicalPlan],
) -> Result<Option<Expr>> {
    let parts = split_conjunction_owned(condition);
    if !parts.iter().any(&moves) {
        return Ok(None);
    }
    let mut columns: Vec<Expr> = Vec::new();
    for input in inputs {
        if has_ungrouped(input)? {
            columns.extend(input.schema().iter().map(Expr::from));
        }
    }
    if columns.is_empty() {
        return Ok(None);
    }
    let held = parts.into_iter().map(|part| match moves(&part) {
        true => {
            let part = match part {
                Expr::Literal(value, _) if value.is_null() => {
                    Expr::Literal(ScalarValue::Boolean(None), None)
                }
                part => part,
            };
            let args = std::iter::once(part).chain(columns.iter().cloned()).collect();
            Expr::ScalarFunction(ScalarFunction::new_udf(HELD.clone(), args))
        }
        false => part,
    });
    Ok(conjunction(held))
}

fn has_ungrouped(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        found |= matches!(node, LogicalPlan::Aggregate(one) if one.group_expr.is_empty());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

static HELD: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| identity::function("froglet_held"));
