//! Conditions on the rows that LATERAL stands beside, tested before it runs.
//!
//! ```text
//!   Filter x.id = 1                      Join lateral
//!     Join lateral                 ─▶      Filter x.id = 1
//!       x                                    x
//!       unnest(elements of x.j)            unnest(elements of x.j)
//! ```
//!
//! What is made of LATERAL ([`crate::decorrelate`]) reads the rows beside it twice, and the optimizer would push a
//! condition down to one of them only. A function may fail for a row that the condition leaves out.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::replace_col;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, SubqueryAlias,
};

use crate::pull_up::lateral_of;

/// Moves what conditions it can beneath the plan's lateral joins.
pub fn push(plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => {
            let (input, kept) = push_all((*input).clone(), predicate.clone())?;
            let plan = LogicalPlanBuilder::from(input);
            let plan = match conjunction(kept) {
                Some(predicate) => plan.filter(predicate)?,
                None => plan,
            };
            plan.build().map(Transformed::yes)
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && join.filter.is_some() => {
            let Some(predicate) = join.filter.clone() else { unreachable!("it has a filter") };
            let join = LogicalPlan::Join(Join { filter: None, ..join });
            let (plan, kept) = push_all(join, predicate)?;
            Ok(Transformed::yes(match plan {
                LogicalPlan::Join(join) => {
                    LogicalPlan::Join(Join { filter: conjunction(kept), ..join })
                }
                plan => plan,
            }))
        }
        node => Ok(Transformed::no(node)),
    })?;
    Ok(changed.data)
}

/// The plan with those parts of a condition within that can be, and the others.
fn push_all(mut plan: LogicalPlan, predicate: Expr) -> Result<(LogicalPlan, Vec<Expr>)> {
    let mut kept = Vec::new();
    for part in split_conjunction_owned(predicate) {
        match push_one(&plan, &part)? {
            Some(pushed) => plan = pushed,
            None => kept.push(part),
        }
    }
    Ok((plan, kept))
}

/// The plan with a condition beneath a lateral join; `None` where there is none that it can be beneath.
fn push_one(plan: &LogicalPlan, predicate: &Expr) -> Result<Option<LogicalPlan>> {
    let has_subquery = predicate.exists(|part| {
        Ok(matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_)))
    })?;
    let columns = predicate.column_refs();
    if columns.is_empty() || predicate.is_volatile() || predicate.contains_outer() || has_subquery {
        return Ok(None);
    }
    let all_of = |plan: &LogicalPlan| columns.iter().all(|c| plan.schema().has_column(c));
    match plan {
        LogicalPlan::Join(join) => {
            let is_left = matches!(join.join_type, JoinType::Inner | JoinType::Left);
            let is_right = matches!(join.join_type, JoinType::Inner | JoinType::Right);
            if is_left && all_of(&join.left) {
                let left = match push_one(&join.left, predicate)? {
                    Some(left) => left,
                    None if lateral_of(join).is_some() => filtered(&join.left, predicate)?,
                    None => return Ok(None),
                };
                return Ok(Some(LogicalPlan::Join(Join { left: Arc::new(left), ..join.clone() })));
            }
            if is_right && all_of(&join.right) {
                let right = push_one(&join.right, predicate)?.map(Arc::new);
                return Ok(right.map(|right| LogicalPlan::Join(Join { right, ..join.clone() })));
            }
            Ok(None)
        }
        LogicalPlan::Filter(filter) => {
            let Some(input) = push_one(&filter.input, predicate)? else { return Ok(None) };
            Filter::try_new(filter.predicate.clone(), Arc::new(input))
                .map(|filter| Some(LogicalPlan::Filter(filter)))
        }
        LogicalPlan::Projection(projection) => {
            let source = |at: usize| match projection.expr[at].clone().unalias() {
                Expr::Column(column) => Some(column),
                _ => None,
            };
            let Some(predicate) = through(plan, predicate, source)? else { return Ok(None) };
            let Some(input) = push_one(&projection.input, &predicate)? else { return Ok(None) };
            Projection::try_new(projection.expr.clone(), Arc::new(input))
                .map(|projection| Some(LogicalPlan::Projection(projection)))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let schema = alias.input.schema();
            let source = |at: usize| Some(Column::from(schema.qualified_field(at)));
            let Some(predicate) = through(plan, predicate, source)? else { return Ok(None) };
            let Some(input) = push_one(&alias.input, &predicate)? else { return Ok(None) };
            SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())
                .map(|alias| Some(LogicalPlan::SubqueryAlias(alias)))
        }
        _ => Ok(None),
    }
}

fn filtered(input: &Arc<LogicalPlan>, predicate: &Expr) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(input.as_ref().clone()).filter(predicate.clone())?.build()
}

/// A condition on a node's columns as one on its input's; `None` if one of them is computed there.
fn through(
    plan: &LogicalPlan,
    predicate: &Expr,
    source: impl Fn(usize) -> Option<Column>,
) -> Result<Option<Expr>> {
    let mut sources = Vec::new();
    for column in predicate.column_refs() {
        let Some(at) = plan.schema().maybe_index_of_column(column) else { return Ok(None) };
        let Some(source) = source(at) else { return Ok(None) };
        sources.push((column.clone(), source));
    }
    let replace = sources.iter().map(|(column, source)| (column, source)).collect();
    replace_col(predicate.clone(), &replace).map(Some)
}
