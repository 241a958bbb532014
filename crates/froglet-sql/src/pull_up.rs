//! What DataFusion may not turn into a join.
//!
//! Its way is to pull the conditions that read from outside up out of the subquery, past whatever is above them:
//!
//! ```text
//!   subquery                                     pulled up past it, the condition
//!   row_number() OVER (…) over rows WHERE …      no longer says which rows are numbered
//!   a LEFT JOIN (b WHERE …), a LEFT JOIN b ON …  takes rows away instead of finding none for them
//!   EXISTS (SELECT max(x) … WHERE …)             takes away the row that is always there
//!   EXISTS (… WHERE … OFFSET 1)                  comes after the count
//!   (a WHERE …) JOIN (b WHERE …)                 is no longer of one side
//! ```
//!
//! Such a subquery is for [`crate::decorrelate`].

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Distinct, Expr, FetchType, Join, JoinType, Limit, LogicalPlan, SkipType, Subquery, lit,
};

use crate::subplan::outside_of;
use crate::udf::nothing::OR_NULL;

/// Where a subquery stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Value,
    Exists,
    In,
    Lateral,
    /// LATERAL … ON true: every row of the left is kept where a row is always found.
    LateralOnTrue,
}

/// Whether a plan has a subquery, in an expression or behind LATERAL, that is not for DataFusion.
pub(crate) fn is_wrong(plan: &LogicalPlan) -> Result<bool> {
    let mut wrong = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(join) = node {
            wrong |= is_wrong_for_lateral(join)?;
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                wrong |= is_wrong_for(part)?;
                Ok(if wrong { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(wrong)
}

/// Whether a subquery within another reads columns from outside both, and of the one around it: DataFusion takes all
/// for that one's.
pub(crate) fn reads_past_a_level(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let known = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let (Expr::ScalarSubquery(subquery)
                | Expr::Exists(Exists { subquery, .. })
                | Expr::InSubquery(InSubquery { subquery, .. })
                | Expr::SetComparison(SetComparison { subquery, .. })) = part
                else {
                    return Ok(TreeNodeRecursion::Continue);
                };
                let read = outside_of(&subquery.subquery)?;
                let of_around = |read: &Expr| match read {
                    Expr::OuterReferenceColumn(_, column) => known.has_column(column),
                    _ => true,
                };
                found |= read.iter().any(of_around) && !read.iter().all(of_around);
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

/// Whether an expression is a subquery that is not for DataFusion.
pub(crate) fn is_wrong_for(expr: &Expr) -> Result<bool> {
    match expr {
        Expr::ScalarSubquery(subquery) => misread(&subquery.subquery, Place::Value),
        Expr::Exists(Exists { subquery, .. }) => misread(&subquery.subquery, Place::Exists),
        Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => {
            misread(&subquery.subquery, Place::In)
        }
        _ => Ok(false),
    }
}

/// The query behind LATERAL, at a join's right, and the name that its rows have.
pub(crate) fn lateral_of(join: &Join) -> Option<(&LogicalPlan, Option<&TableReference>)> {
    match join.right.as_ref() {
        LogicalPlan::Subquery(Subquery { subquery, .. }) => Some((subquery, None)),
        LogicalPlan::SubqueryAlias(named) => match named.input.as_ref() {
            LogicalPlan::Subquery(Subquery { subquery, .. }) => {
                Some((subquery, Some(&named.alias)))
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_wrong_for_lateral(join: &Join) -> Result<bool> {
    let Some((subquery, _)) = lateral_of(join) else { return Ok(false) };
    let is_true = |filter: &Expr| *filter == lit(true);
    misread(
        subquery,
        match join.filter.as_ref().is_none_or(is_true) {
            true => Place::LateralOnTrue,
            false => Place::Lateral,
        },
    )
}

/// Whether EXISTS of a plan is true whatever it finds.
pub(crate) fn has_always_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Sort(_) => {
            has_always_a_row(plan.inputs()[0])
        }
        _ => false,
    }
}

fn misread(subquery: &LogicalPlan, place: Place) -> Result<bool> {
    let outside = outside_of(subquery)?.into_iter().filter_map(|part| match part {
        Expr::OuterReferenceColumn(_, column) => Some(column),
        _ => None,
    });
    let mut reader = Reader { outside: outside.collect(), place, misread: false };
    if !reader.outside.is_empty() {
        reader.look(subquery, true)?;
    }
    Ok(reader.misread)
}

struct Reader {
    outside: Vec<Column>,
    place: Place,
    misread: bool,
}

impl Reader {
    /// Whether a plan, or one below it, reads from outside. `top`: only a select list may be above it.
    fn look(&mut self, plan: &LogicalPlan, top: bool) -> Result<bool> {
        let passes = matches!(plan, LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_));
        let mut below = Vec::new();
        for input in plan.inputs() {
            below.push(self.look(input, top && passes)?);
        }
        let own = self.is_read_by(plan)?;
        let any = below.contains(&true);
        self.misread |= match plan {
            LogicalPlan::Window(_)
            | LogicalPlan::Distinct(Distinct::On(_))
            | LogicalPlan::Unnest(_)
            | LogicalPlan::RecursiveQuery(_) => any,
            LogicalPlan::Join(Join { join_type, .. }) => match (join_type, &below[..]) {
                // The conditions of both sides would be taken for those of one.
                (JoinType::Inner, [left, right]) => *left && *right,
                (JoinType::Left, [_, right]) => own || *right,
                (JoinType::Right, [left, _]) => own || *left,
                _ => own || any,
            },
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                any && !(top
                    && match self.place {
                        Place::Value => true,
                        Place::LateralOnTrue => aggregate.aggr_expr.iter().all(is_null_of_nothing),
                        _ => false,
                    })
            }
            LogicalPlan::Aggregate(aggregate) => {
                let sets = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
                any && aggregate.group_expr.iter().any(sets)
            }
            // DataFusion knows what some expressions over a count of nothing are.
            LogicalPlan::Projection(projection) if any && self.place == Place::Value => {
                has_always_a_row(&projection.input) && !projection.expr.iter().all(is_plain)
            }
            LogicalPlan::Projection(projection) if any && self.place == Place::LateralOnTrue => {
                has_always_a_row(&projection.input) && !projection.expr.iter().all(is_column)
            }
            LogicalPlan::Limit(limit) => any && !(top && self.is_one_of_exists(limit)?),
            _ => false,
        };
        Ok(own || any)
    }

    /// EXISTS … LIMIT n
    fn is_one_of_exists(&self, limit: &Limit) -> Result<bool> {
        let counts = (limit.get_skip_type()?, limit.get_fetch_type()?);
        let some =
            matches!(counts, (SkipType::Literal(0), FetchType::Literal(fetch)) if fetch != Some(0));
        Ok(some && self.place == Place::Exists)
    }

    /// Whether a node's own expressions, or subqueries in them, read from outside.
    fn is_read_by(&self, plan: &LogicalPlan) -> Result<bool> {
        let mut found = false;
        plan.apply_expressions(|expr| {
            expr.apply(|part| {
                found |= match part {
                    Expr::OuterReferenceColumn(_, column) => self.outside.contains(column),
                    Expr::ScalarSubquery(subquery)
                    | Expr::Exists(Exists { subquery, .. })
                    | Expr::InSubquery(InSubquery { subquery, .. })
                    | Expr::SetComparison(SetComparison { subquery, .. }) => {
                        let read = outside_of(&subquery.subquery)?;
                        read.iter().any(|part| {
                            matches!(part, Expr::OuterReferenceColumn(_, column)
                                if self.outside.contains(column))
                        })
                    }
                    _ => false,
                };
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(found)
    }
}

/// An aggregate that is NULL where nothing is found, which is what an outer join has there.
fn is_null_of_nothing(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_null_of_nothing(&alias.expr),
        Expr::AggregateFunction(call) => {
            matches!(call.func.name(), "max" | "min" | "sum" | "avg")
        }
        _ => false,
    }
}

fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_column(&alias.expr),
        expr => matches!(expr, Expr::Column(_)),
    }
}

/// Of whose value over nothing DataFusion knows.
fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::Alias(alias) => is_plain(&alias.expr),
        Expr::Cast(cast) => is_plain(&cast.expr),
        Expr::BinaryExpr(binary) => is_plain(&binary.left) && is_plain(&binary.right),
        Expr::ScalarFunction(call) => {
            matches!(call.func.name(), OR_NULL | "coalesce") && call.args.iter().all(is_plain)
        }
        _ => false,
    }
}
