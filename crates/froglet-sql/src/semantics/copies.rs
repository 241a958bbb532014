//! EXCEPT ALL and INTERSECT ALL, which count rows.
//!
//! DataFusion plans them as it plans EXCEPT and INTERSECT, as an anti or a semi join, but of rows that may be
//! there twice: two of the left side and one of the right leave none. Here the copies of a row are
//! numbered on both sides, and number n of the one meets number n of the other.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality};
use datafusion::error::Result;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, Projection, Window,
    WindowFunctionDefinition,
};

/// The number of a copy.
const COPY: &str = "froglet copy";

/// A plan of the SQL planner, in which nothing but these makes such joins.
pub fn number_copies(plan: LogicalPlan) -> Result<LogicalPlan> {
    let numbered = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if is_of_all(&join) => Ok(Transformed::yes(numbered(join)?)),
        node => Ok(Transformed::no(node)),
    })?;
    Ok(numbered.data)
}

fn is_of_all(join: &Join) -> bool {
    let counts = matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi);
    // Of rows that are there once, the first copy is the only one.
    let is_distinct = matches!(&*join.left, LogicalPlan::Distinct(Distinct::All(_)));
    counts && join.null_equality == NullEquality::NullEqualsNull && !is_distinct
}

fn numbered(join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().iter().map(Expr::from).collect();
    let copy = || Expr::Column(Column::new_unqualified(COPY));
    let mut on = join.on;
    on.push((copy(), copy()));
    let numbered = Join::try_new(
        Arc::new(with_copies(join.left)?),
        Arc::new(with_copies(join.right)?),
        on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let numbered = Arc::new(LogicalPlan::Join(numbered));
    Ok(LogicalPlan::Projection(Projection::try_new(columns, numbered)?))
}

fn with_copies(side: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let row_number = WindowFunctionDefinition::WindowUDF(row_number_udwf());
    let row_number = Expr::from(WindowFunction::new(row_number, Vec::new()))
        .partition_by(side.schema().iter().map(Expr::from).collect())
        .build()?;
    Ok(LogicalPlan::Window(Window::try_new(vec![row_number.alias(COPY)], side)?))
}
