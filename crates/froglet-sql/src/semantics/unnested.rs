//! Items of a list that is unnested have the type that the list's says: Arrow keeps it beside the list, and
//! DataFusion does not hand it down to the items.

use std::sync::{Arc, LazyLock};

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, ScalarUDF, Unnest};
use froglet_schema::SqlType;

use super::common::marked;
use crate::types::array::element_type;
use crate::types::sql_type_of_field;

/// Says it of the columns that are items.
pub fn type_items(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Unnest(unnest) = plan else { return Ok(plan) };
    // The lists may have other types by now than when the plan was made.
    let Unnest { input, exec_columns, options, .. } = unnest;
    let unnest = Unnest::try_new(input, exec_columns, options)?;
    let types: Vec<Option<SqlType>> =
        (0..unnest.schema.fields().len()).map(|at| item_type(&unnest, at)).collect();
    let plan = LogicalPlan::Unnest(unnest);
    if types.iter().all(Option::is_none) {
        return Ok(plan);
    }
    let column = |(at, ty): (usize, &Option<SqlType>)| {
        let (qualifier, field) = plan.schema().qualified_field(at);
        let column = Expr::from((qualifier, field));
        match ty {
            Some(ty) => marked(column, *ty).alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        }
    };
    let exprs: Vec<Expr> = types.iter().enumerate().map(column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
}

/// The type of a column that is of items, if its field says another one.
fn item_type(unnest: &Unnest, at: usize) -> Option<SqlType> {
    let from = *unnest.dependency_indices.get(at)?;
    let (_, list) = unnest.list_type_columns.iter().find(|(list, _)| *list == from)?;
    if list.depth != 1 {
        return None;
    }
    let ty = element_type(sql_type_of_field(unnest.input.schema().field(from)))?;
    (sql_type_of_field(unnest.schema.field(at)).oid != ty.oid).then_some(ty)
}

/// Keys of an order of unnested rows. A row's columns determine its list, not the list's items, but DataFusion says so
/// of an Unnest's columns and leaves out keys behind those that determine them. What is no column it leaves in.
pub fn keep_order(plan: LogicalPlan) -> Result<LogicalPlan> {
    static SORTED: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| super::identity::function("froglet_sorted"));
    let kept = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Sort(mut sort) if sort.expr.len() > 1 && unnests(&sort.input)? => {
            for key in &mut sort.expr[1..] {
                key.expr = Expr::ScalarFunction(ScalarFunction::new_udf(
                    SORTED.clone(),
                    vec![key.expr.clone()],
                ));
            }
            Ok(Transformed::yes(LogicalPlan::Sort(sort)))
        }
        node => Ok(Transformed::no(node)),
    })?;
    Ok(kept.data)
}

fn unnests(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Unnest(_))))
}
