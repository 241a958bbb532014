//! The columns that USING and NATURAL merge.
//!
//! DataFusion takes the left side's; where that side may have no row, of a right or a full join, the
//! column is the right side's. Above such a join a projection makes of the left column what PostgreSQL
//! makes of both: `r.a` or `coalesce(l.a, r.a)`, in the one type of both.
//!
//! ```text
//!   SELECT a, l.a … l FULL JOIN r USING (a)
//!     written as    SELECT a, froglet_own(l.a)      before it is planned: both would be l.a
//!     planned       l.a is coalesce(l.a, r.a), and beside it stands l.a as it was: froglet_own's
//! ```

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, Join, JoinConstraint, JoinType, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::sql::sqlparser::ast;

use super::numerics;
use crate::command::fold;
use crate::rewrite::{call, different};
use crate::walk::{self, Change, Flow, GO_ON};

/// A plan of the SQL planner.
pub fn merge(plan: LogicalPlan) -> Result<LogicalPlan> {
    // Below a node of the walk, a join has been merged: its own columns are new, and some may be read.
    let mut any = false;
    let merged = plan.transform_up_with_subqueries(|node| {
        let node = if any { with_own_columns(node)? } else { Transformed::no(node) };
        match node.data {
            LogicalPlan::Join(join) if is_merging(&join) => {
                any = true;
                merged(join).map(Transformed::yes)
            }
            data => Ok(Transformed::new_transformed(data, node.transformed)),
        }
    })?;
    Ok(merged.data)
}

fn is_merging(join: &Join) -> bool {
    join.join_constraint == JoinConstraint::Using
        && matches!(join.join_type, JoinType::Right | JoinType::Full)
}

fn merged(join: Join) -> Result<LogicalPlan> {
    let pairs: Vec<(Expr, Expr)> = join.on.clone();
    let mut columns: Vec<Expr> = join
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
    for (left, _) in &pairs {
        if let Expr::Column(column) = left
            && !join.schema.has_column(&own(column))
        {
            let own = own(column);
            columns.push(left.clone().alias_qualified(own.relation, own.name));
        }
    }
    LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(columns)?.build()
}

/// What a table's own column is called beside the merged one.
fn own(column: &Column) -> Column {
    Column::new(column.relation.clone(), different(&column.name, 0))
}

/// Puts own columns in the place of the calls that stand for them.
fn with_own_columns(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&node.inputs());
    let preserver = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = preserver.save(&expr);
        let changed = expr.transform_up(|part| match part {
            Expr::ScalarFunction(mut function) if function.func.name() == OWN => {
                let column = function.args.swap_remove(0);
                Ok(Transformed::yes(match column {
                    Expr::Column(column) if schema.has_column(&own(&column)) => {
                        Expr::Column(own(&column))
                    }
                    column => column,
                }))
            }
            part => Ok(Transformed::no(part)),
        })?;
        Ok(changed.update_data(|expr| name.restore(expr)))
    })?
    .data
    .recompute_schema()
    .map(Transformed::yes)
}

/// Marks the columns of a select that are a table's own though USING merges them.
pub fn mark_own(select: &mut ast::Select) {
    let joins = select.from.iter().flat_map(|from| &from.joins);
    let mut merged: Vec<String> = Vec::new();
    let mut all = false;
    for join in joins {
        use ast::JoinOperator::{FullOuter, Right, RightOuter};
        let (Right(constraint) | RightOuter(constraint) | FullOuter(constraint)) =
            &join.join_operator
        else {
            continue;
        };
        match constraint {
            ast::JoinConstraint::Using(names) => {
                let last = |name: &ast::ObjectName| name.0.last()?.as_ident().map(fold);
                merged.extend(names.iter().filter_map(last));
            }
            ast::JoinConstraint::Natural => all = true,
            _ => {}
        }
    }
    if !all && (merged.is_empty() || as_condition(select, &merged)) {
        return;
    }
    struct Mark {
        merged: Vec<String>,
        all: bool,
        depth: usize,
    }
    impl Mark {
        fn is_own(&self, expr: &ast::Expr) -> bool {
            let ast::Expr::CompoundIdentifier(parts) = expr else { return false };
            self.depth == 0
                && parts.len() > 1
                && parts.last().is_some_and(|name| self.all || self.merged.contains(&fold(name)))
        }
    }
    impl Change for Mark {
        fn query(&mut self, _: &mut ast::Query) {
            self.depth += 1;
        }
        fn query_end(&mut self, _: &mut ast::Query) {
            self.depth -= 1;
        }
        fn expr_end(&mut self, expr: &mut ast::Expr) -> Flow {
            if self.is_own(expr) {
                let column = std::mem::replace(expr, crate::rewrite::null());
                *expr = call(OWN, vec![column]);
            }
            GO_ON
        }
    }
    let mut mark = Mark { merged, all, depth: 0 };
    for item in &mut select.projection {
        if let ast::SelectItem::UnnamedExpr(expr) = item
            && mark.is_own(expr)
            && let ast::Expr::CompoundIdentifier(parts) = &*expr
            && let Some(name) = parts.last()
        {
            let alias = ast::Ident::with_quote('"', fold(name));
            let expr = std::mem::replace(expr, crate::rewrite::null());
            *item = ast::SelectItem::ExprWithAlias { expr, alias };
        }
    }
    walk::change(select, &mut mark);
}

/// A join whose merged columns nobody reads, `SELECT l.*, r.* … l FULL JOIN r USING (a)`, as one ON l.a = r.a: then the
/// columns of each table are its own, those of its wildcard too.
fn as_condition(select: &mut ast::Select, merged: &[String]) -> bool {
    use ast::SelectItem::{QualifiedWildcard, Wildcard};
    let any = |item: fn(&ast::SelectItem) -> bool| select.projection.iter().any(item);
    let reads_merged = |expr: &ast::Expr| matches!(expr, ast::Expr::Identifier(name) if merged.contains(&fold(name)));
    if !any(|item| matches!(item, QualifiedWildcard(..)))
        || any(|item| matches!(item, Wildcard(_)))
        || walk::any_expr(&*select, reads_merged)
    {
        return false;
    }
    let [from] = &mut select.from[..] else { return false };
    let (Some(left), [join]) = (name_of(&from.relation), &mut from.joins[..]) else { return false };
    let Some(right) = name_of(&join.relation) else { return false };
    use ast::JoinOperator::{FullOuter, Right, RightOuter};
    let (Right(constraint) | RightOuter(constraint) | FullOuter(constraint)) =
        &mut join.join_operator
    else {
        return false;
    };
    let column = |table: &ast::Ident, name: &str| {
        let name = ast::Ident::with_quote('"', name);
        Box::new(ast::Expr::CompoundIdentifier(vec![table.clone(), name]))
    };
    let equal = merged.iter().map(|name| ast::Expr::BinaryOp {
        left: column(&left, name),
        op: ast::BinaryOperator::Eq,
        right: column(&right, name),
    });
    let all = equal.reduce(|all, one| ast::Expr::BinaryOp {
        left: Box::new(all),
        op: ast::BinaryOperator::And,
        right: Box::new(one),
    });
    match all {
        Some(condition) => *constraint = ast::JoinConstraint::On(condition),
        None => return false,
    }
    true
}

/// What a table of FROM is called.
fn name_of(factor: &ast::TableFactor) -> Option<ast::Ident> {
    match factor {
        ast::TableFactor::Table { alias: Some(alias), .. }
        | ast::TableFactor::Derived { alias: Some(alias), .. } => Some(alias.name.clone()),
        ast::TableFactor::Table { name, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

/// A column of a table's own, whatever USING makes of it.
pub const OWN: &str = "froglet_own";
