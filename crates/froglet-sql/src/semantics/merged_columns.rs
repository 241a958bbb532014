//! The columns that USING and NATURAL merge.
//!
//! DataFusion takes the left side's; where that side may have no row, of a right or a full join, the
//! column is the right side's. Above such a join a projection makes of the left column what PostgreSQL
//! makes of both: `r.a` or `coalesce(l.a, r.a)`, in the one type of both.

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Expr, Join, JoinConstraint, JoinType, LogicalPlan, LogicalPlanBuilder,
};

use super::numerics;

/// A plan of the SQL planner.
pub fn merge(plan: LogicalPlan) -> Result<LogicalPlan> {
    let merged = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if is_merging(&join) => merged(join).map(Transformed::yes),
        node => Ok(Transformed::no(node)),
    })?;
    Ok(merged.data)
}

fn is_merging(join: &Join) -> bool {
    join.join_constraint == JoinConstraint::Using
        && matches!(join.join_type, JoinType::Right | JoinType::Full)
}

fn merged(join: Join) -> Result<LogicalPlan> {
    let pairs: Vec<(Expr, Expr)> = join.on.clone();
    let columns: Vec<Expr> = join
        .schema
        .iter()
        .map(|(qualifier, field)| {
            let column = Expr::from((qualifier, field));
            let Some((left, right)) = pairs.iter().find(|(left, _)| *left == column) else {
                return column;
            };
            let (mut left, mut right) = (left.clone(), right.clone());
            numerics::to_one(vec![&mut left, &mut right], &join.schema);
            // Of a right join each row has the right side's.
            let merged = match join.join_type {
                JoinType::Right => right,
                _ => {
                    let coalesce = datafusion::functions::core::coalesce();
                    Expr::ScalarFunction(ScalarFunction::new_udf(coalesce, vec![left, right]))
                }
            };
            merged.alias_qualified(qualifier.cloned(), field.name())
        })
        .collect();
    LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(columns)?.build()
}
