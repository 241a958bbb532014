//! Columns of outside, with the types that they have when what is outside has been rewritten: subqueries are rewritten
//! before the inputs of the node that they stand in, and a UNION of several types comes to one there
//! ([`super::unions`]).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

use super::casts;

/// The node with subqueries that know the types of its inputs' columns.
pub fn refresh(node: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    if schema.fields().is_empty() {
        return Ok(node);
    }
    let changed = node.map_subqueries(|subquery| {
        let LogicalPlan::Subquery(Subquery { subquery: plan, outer_ref_columns, spans }) = subquery
        else {
            return Ok(Transformed::no(subquery));
        };
        if !outer_ref_columns.iter().any(|column| now(column, schema).is_some()) {
            let same = Subquery { subquery: plan, outer_ref_columns, spans };
            return Ok(Transformed::no(LogicalPlan::Subquery(same)));
        }
        let refreshed = Arc::unwrap_or_clone(plan).transform_up(|node| {
            node.map_expressions(|expr| {
                expr.transform_up(|part| {
                    Ok(match now(&part, schema) {
                        Some(column) => Transformed::yes(column),
                        None => Transformed::no(part),
                    })
                })
            })?
            .map_data(LogicalPlan::recompute_schema)
        })?;
        let plan = casts::rewrite_plan(refreshed.data)?;
        let outer_ref_columns = plan.all_out_ref_exprs();
        let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans };
        let subquery = LogicalPlan::Subquery(subquery);
        Ok(Transformed::new(subquery, true, TreeNodeRecursion::Continue))
    })?;
    Ok(changed.data)
}

/// A column of outside that has another type now.
fn now(column: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::OuterReferenceColumn(field, column) = column else { return None };
    let now = schema.field_from_column(column).ok()?;
    let differs = now.data_type() != field.data_type();
    differs.then(|| Expr::OuterReferenceColumn(now.clone(), column.clone()))
}
