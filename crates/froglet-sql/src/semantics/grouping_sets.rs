//! Expressions in ROLLUP, CUBE and GROUPING SETS.
//!
//! A grouping set has no place for the names that its expressions have above the aggregate, so what rewrites
//! these would change the names. Each becomes a column of a projection below, under the name it has:
//!
//! ```text
//!   Aggregate rollup (a % 2), b    ─▶    Aggregate rollup ("a % 2"), b
//!     Scan t                               Projection *, a % 2 AS "a % 2"
//!                                            Scan t
//! ```

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, Projection};

/// A plan of the SQL planner.
pub fn name_expressions(plan: LogicalPlan) -> Result<LogicalPlan> {
    let named = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) => {
            let expressions = expressions_of(&aggregate);
            match expressions.is_empty() {
                true => Ok(Transformed::no(LogicalPlan::Aggregate(aggregate))),
                false => Ok(Transformed::yes(named(aggregate, &expressions)?)),
            }
        }
        node => Ok(Transformed::no(node)),
    })?;
    Ok(named.data)
}

/// What grouping sets have that is no column.
fn expressions_of(aggregate: &Aggregate) -> Vec<Expr> {
    let mut found: Vec<Expr> = Vec::new();
    for expr in &aggregate.group_expr {
        let all: Vec<&Expr> = match expr {
            Expr::GroupingSet(GroupingSet::Rollup(all) | GroupingSet::Cube(all)) => {
                all.iter().collect()
            }
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter().flatten().collect(),
            _ => Vec::new(),
        };
        for expr in all {
            if !matches!(expr, Expr::Column(_)) && !found.contains(expr) {
                found.push(expr.clone());
            }
        }
    }
    found
}

fn named(aggregate: Aggregate, expressions: &[Expr]) -> Result<LogicalPlan> {
    let name = |expr: &Expr| expr.schema_name().to_string();
    let columns = aggregate.input.schema().iter().map(Expr::from);
    let added = expressions.iter().map(|expr| expr.clone().alias(name(expr)));
    let below = Projection::try_new(columns.chain(added).collect(), aggregate.input)?;
    let put = |expr: Expr| {
        expr.transform_down(|expr| {
            Ok(match expressions.contains(&expr) {
                true => {
                    let column = Expr::Column(Column::new_unqualified(name(&expr)));
                    Transformed::new(column, true, TreeNodeRecursion::Jump)
                }
                false => Transformed::no(expr),
            })
        })
        .map(|put| put.data)
    };
    // GROUPING asks for what is grouped by, under its name; other aggregates compute it.
    let of_groups = |expr: &Expr| matches!(expr, Expr::AggregateFunction(call) if call.func.name() == "grouping");
    let group = aggregate.group_expr.into_iter().map(put).collect::<Result<Vec<_>>>()?;
    let computed = aggregate.aggr_expr.into_iter().map(|expr| match of_groups(&expr) {
        true => put(expr),
        false => Ok(expr),
    });
    let computed = computed.collect::<Result<Vec<_>>>()?;
    let below = Arc::new(LogicalPlan::Projection(below));
    Ok(LogicalPlan::Aggregate(Aggregate::try_new(below, group, computed)?))
}
