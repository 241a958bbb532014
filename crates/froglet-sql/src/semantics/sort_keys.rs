//! What an aggregate's arguments are sorted by, as columns of a projection below it: DataFusion looks for what the
//! aggregates of a node have in common and computes it once, and then no longer knows its order again.
//!
//! ```text
//!   Aggregate: sum(DISTINCT d), array_agg(a ORDER BY greatest(d, 1))
//!
//!   Aggregate: sum(DISTINCT d), array_agg(a ORDER BY "froglet key 0") AS …
//!     Projection: *, greatest(d, 1) AS "froglet key 0"
//! ```
//!
//! Aggregates to which no order matters forget theirs: DataFusion would give them what they are sorted by as arguments.

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use froglet_engine::SqlState;

use crate::error::SqlError;

/// Aggregates whose result is the same in any order, but for the rounding of floats.
const UNORDERED: [&str; 30] = [
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "every",
    "max",
    "min",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
    "var",
];

/// Puts such projections below.
pub fn lower(plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = &node else { return Ok(Transformed::no(node)) };
        let input = aggregate.input.clone();
        let mut keys: Vec<Expr> = Vec::new();
        let mut any_changed = false;
        let preserver = NamePreserver::new(&node);
        let exprs = node.expressions().into_iter().map(|expr| {
            let name = preserver.save(&expr);
            let changed = expr.transform_up(|part| {
                without_order(part)?.transform_data(|part| Ok(with_columns(part, &mut keys)))
            })?;
            any_changed |= changed.transformed;
            Ok(if changed.transformed { name.restore(changed.data) } else { changed.data })
        });
        let exprs = exprs.collect::<Result<Vec<Expr>>>()?;
        if !any_changed {
            return Ok(Transformed::no(node));
        }
        let mut below = input.as_ref().clone();
        if !keys.is_empty() {
            let named = keys.into_iter().enumerate().map(|(at, key)| key.alias(name_of(at)));
            let all: Vec<Expr> = input.schema().iter().map(Expr::from).chain(named).collect();
            below = LogicalPlanBuilder::from(below).project(all)?.build()?;
        }
        node.with_new_exprs(exprs, vec![below]).map(Transformed::yes)
    })?;
    Ok(changed.data)
}

/// An aggregate to which order is nothing, without one.
fn without_order(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::AggregateFunction(mut call)
            if !call.params.order_by.is_empty() && UNORDERED.contains(&call.func.name()) =>
        {
            let keys = std::mem::take(&mut call.params.order_by);
            if call.params.distinct && !keys.iter().all(|key| call.params.args.contains(&key.expr))
            {
                let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).into());
            }
            Transformed::yes(Expr::AggregateFunction(call))
        }
        expr => Transformed::no(expr),
    })
}

/// An aggregate whose keys are columns: those that are none yet are added to the list.
fn with_columns(expr: Expr, keys: &mut Vec<Expr>) -> Transformed<Expr> {
    let Expr::AggregateFunction(mut call) = expr else { return Transformed::no(expr) };
    let mut changed = false;
    // Of DISTINCT the keys are among the arguments.
    for key in call.params.order_by.iter_mut().filter(|_| !call.params.distinct) {
        if key.expr.any_column_refs()
            && !matches!(key.expr, Expr::Column(_))
            && !key.expr.contains_outer()
            && !key.expr.is_volatile()
        {
            let key = &mut key.expr;
            let at = keys.iter().position(|known| known == key).unwrap_or_else(|| {
                keys.push(key.clone());
                keys.len() - 1
            });
            *key = Expr::Column(Column::new_unqualified(name_of(at)));
            changed = true;
        }
    }
    let expr = Expr::AggregateFunction(call);
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

fn name_of(at: usize) -> String {
    format!("froglet key {at}")
}
