//! Equalities that come to a join where NULL equals NULL.
//!
//! ```text
//!   Filter: l.b = r.v
//!     Join: l.id <=> r.id
//!
//!   Join: l.id <=> r.id, l.b <=> r.v              what DataFusion makes of it
//!
//!   Join: l.id <=> r.id, l.b <=> r.v              what it makes of a filter that says more: l.b = r.v AND l.b IS NOT NULL
//!     Filter: l.b IS NOT NULL
//! ```
//!
//! A join has one rule for all its keys. [`NullKeys`] runs before the rules that make keys of conditions.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Says of an equality's left side that it is not NULL, where a join would take two NULLs for equal.
#[derive(Debug)]
pub(crate) struct NullKeys;

impl OptimizerRule for NullKeys {
    fn name(&self) -> &str {
        "null_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let takes_nulls = match &plan {
            LogicalPlan::Filter(filter) => takes_nulls(&filter.input),
            LogicalPlan::Join(join) => join.null_equality == NullEquality::NullEqualsNull,
            _ => false,
        };
        Ok(match plan {
            LogicalPlan::Filter(mut filter) if takes_nulls => {
                known(std::mem::take(&mut filter.predicate)).update_data(|predicate| {
                    filter.predicate = predicate;
                    LogicalPlan::Filter(filter)
                })
            }
            LogicalPlan::Join(mut join) if takes_nulls => match join.filter.take() {
                None => Transformed::no(LogicalPlan::Join(join)),
                Some(filter) => known(filter).update_data(|filter| {
                    join.filter = Some(filter);
                    LogicalPlan::Join(join)
                }),
            },
            plan => Transformed::no(plan),
        })
    }
}

/// Whether a filter's equalities may become keys of a join below where NULL equals NULL.
fn takes_nulls(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => {
            join.null_equality == NullEquality::NullEqualsNull
                || takes_nulls(&join.left)
                || takes_nulls(&join.right)
        }
        LogicalPlan::Filter(filter) => takes_nulls(&filter.input),
        _ => false,
    }
}

/// A condition that holds for the same rows, and says so of each equality that it has.
fn known(condition: Expr) -> Transformed<Expr> {
    let mut changed = false;
    let all = split_conjunction_owned(condition).into_iter().map(|one| match one {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (left, right) = (known(*left), known(*right));
            changed |= left.transformed || right.transformed;
            left.data.or(right.data)
        }
        one => one,
    });
    let mut all: Vec<Expr> = all.collect();
    let not_null = |one: &Expr| match one {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, .. }) => {
            Some(left.as_ref().clone().is_not_null())
        }
        _ => None,
    };
    for one in all.iter().filter_map(not_null).collect::<Vec<Expr>>() {
        if !all.contains(&one) {
            all.push(one);
            changed = true;
        }
    }
    let condition = conjunction(all).expect("a condition has at least one part");
    if changed { Transformed::yes(condition) } else { Transformed::no(condition) }
}
