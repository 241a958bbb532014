//! Conditions of correlated subqueries, brought into the shape that DataFusion can decorrelate:
//! `inner column = outer column`, and nothing else that looks outside.
//!
//! | condition | becomes |
//! |---|---|
//! | `inner = outer AND f(outer, …)` | `inner = outer AND f(inner, …)`: the two are equal |
//! | `g(outer alone)`, of no aggregate | `CASE WHEN g(outer) THEN (subquery) END` |
//!
//! Which names are outer ones is told by their qualifiers: one that is no alias of the subquery's
//! own FROM. Names without a qualifier count as inner.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{self, BinaryOperator as Op, Expr};

use crate::rewrite::{call, folded};
use crate::rewrite_subquery::{is_grouped, take};
use crate::walk::{self, GO_ON};

/// Rewrites the conditions of a scalar subquery. Returns what has to hold outside of it, for a value to be there;
/// nothing where the query `counts`: it has a value of no rows, too.
pub fn separate(query: &mut ast::Query, counts: bool) -> Option<Expr> {
    let ast::SetExpr::Select(select) = &mut *query.body else { return None };
    let local = aliases(select)?;
    let mut conjuncts = Vec::new();
    split(select.selection.take()?, &mut conjuncts);
    substitute(&mut conjuncts, &local);
    if counts {
        select.selection = join(conjuncts);
        return None;
    }
    let (outside, inside): (Vec<Expr>, Vec<Expr>) =
        conjuncts.into_iter().partition(|c| only_outer(c, &local));
    select.selection = join(inside);
    join(outside)
}

/// `CASE WHEN condition THEN value END`
pub fn when(condition: Expr, value: Expr) -> Expr {
    Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![ast::CaseWhen { condition, result: value }],
        else_result: None,
    }
}

fn split(expr: Expr, out: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: Op::And, right } => {
            split(*left, out);
            split(*right, out);
        }
        Expr::Nested(inner) if matches!(*inner, Expr::BinaryOp { op: Op::And, .. }) => {
            split(*inner, out);
        }
        other => out.push(other),
    }
}

fn join(conjuncts: Vec<Expr>) -> Option<Expr> {
    conjuncts.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: Op::And,
        right: Box::new(right),
    })
}

/// The names under which the subquery's own tables go.
pub(crate) fn aliases(select: &ast::Select) -> Option<HashSet<String>> {
    let mut names = HashSet::new();
    for from in &select.from {
        let joined = from.joins.iter().map(|j| &j.relation);
        for factor in std::iter::once(&from.relation).chain(joined) {
            match factor {
                ast::TableFactor::Table { name, alias, .. } => {
                    let ident = match alias {
                        Some(alias) => folded(&alias.name),
                        None => folded(name.0.last()?.as_ident()?),
                    };
                    names.insert(ident);
                }
                ast::TableFactor::Derived { alias: Some(alias), .. } => {
                    names.insert(folded(&alias.name));
                }
                _ => return None,
            }
        }
    }
    (!names.is_empty()).then_some(names)
}

/// A column and whether its qualifier is an outer one.
fn column(expr: &Expr, local: &HashSet<String>) -> Option<bool> {
    match expr {
        Expr::Identifier(_) => Some(false),
        Expr::CompoundIdentifier(parts) if parts.len() >= 2 => {
            Some(!local.contains(&folded(&parts[parts.len() - 2])))
        }
        Expr::Nested(inner) => column(inner, local),
        _ => None,
    }
}

/// In the other conjuncts, an outer column that equals an inner one becomes it.
fn substitute(conjuncts: &mut [Expr], local: &HashSet<String>) {
    let equalities: Vec<(usize, Expr, Expr)> = conjuncts
        .iter()
        .enumerate()
        .filter_map(|(at, conjunct)| {
            let Expr::BinaryOp { left, op: Op::Eq, right } = conjunct else { return None };
            match (column(left, local)?, column(right, local)?) {
                (true, false) => Some((at, (**left).clone(), (**right).clone())),
                (false, true) => Some((at, (**right).clone(), (**left).clone())),
                _ => None,
            }
        })
        .collect();
    for (at, outer, inner) in equalities {
        for (other, conjunct) in conjuncts.iter_mut().enumerate() {
            let equality = matches!(conjunct, Expr::BinaryOp { op: Op::Eq, .. });
            // A condition on the outer row alone stays one.
            if other == at || equality || only_outer(conjunct, local) {
                continue;
            }
            walk::change_exprs(conjunct, |e| {
                if *e == outer {
                    *e = inner.clone();
                }
                GO_ON
            });
        }
    }
}

/// Whether a condition reads columns, all of them outer ones.
fn only_outer(expr: &Expr, local: &HashSet<String>) -> bool {
    let mut outer = false;
    let inner = walk::any_expr(expr, |e| match e {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => match column(e, local) {
            Some(true) => {
                outer = true;
                false
            }
            _ => true,
        },
        _ => false,
    });
    outer && !inner
}

/// EXISTS outside of a condition (in a select list) as a count: DataFusion knows it only as a join.
pub fn exists_as_count(expr: &mut Expr) {
    match expr {
        Expr::Exists { subquery, negated } => {
            let limited = subquery.limit_clause.as_ref().is_some_and(|limit| !takes_one(limit));
            let ast::SetExpr::Select(select) = &mut *subquery.body else { return };
            if is_grouped(select) || limited {
                return;
            }
            let star = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard);
            let mut count = call("count", Vec::new());
            if let Expr::Function(f) = &mut count
                && let ast::FunctionArguments::List(list) = &mut f.args
            {
                list.args.push(star);
            }
            select.distinct = None;
            select.projection = vec![ast::SelectItem::UnnamedExpr(count)];
            (subquery.order_by, subquery.limit_clause) = (None, None);
            let query = subquery.clone();
            let zero = ast::Value::Number("0".to_owned(), false).with_empty_span();
            let some = Box::new(Expr::BinaryOp {
                left: Box::new(Expr::Subquery(query)),
                op: Op::Gt,
                right: Box::new(Expr::Value(zero)),
            });
            // A condition on the outer row alone, where it does not hold, leaves no count.
            *expr = if *negated { Expr::IsNotTrue(some) } else { Expr::IsTrue(some) };
        }
        Expr::BinaryOp { left, right, .. } => {
            exists_as_count(left);
            exists_as_count(right);
        }
        Expr::UnaryOp { expr: inner, .. }
        | Expr::Nested(inner)
        | Expr::Cast { expr: inner, .. }
        | Expr::IsTrue(inner)
        | Expr::IsFalse(inner) => exists_as_count(inner),
        Expr::Case { operand, conditions, else_result, .. } => {
            operand.iter_mut().for_each(|e| exists_as_count(e));
            for when in conditions {
                exists_as_count(&mut when.condition);
                exists_as_count(&mut when.result);
            }
            else_result.iter_mut().for_each(|e| exists_as_count(e));
        }
        _ => {}
    }
}

/// Whether a limit leaves a row wherever there is one.
fn takes_one(limit: &ast::LimitClause) -> bool {
    let ast::LimitClause::LimitOffset { limit: Some(Expr::Value(rows)), offset: None, limit_by } =
        limit
    else {
        return false;
    };
    let is_some =
        matches!(&rows.value, ast::Value::Number(n, _) if n.parse().is_ok_and(|n: u64| n > 0));
    is_some && limit_by.is_empty()
}

/// `ARRAY(SELECT x FROM … ORDER BY k)` as `(SELECT array_agg(x ORDER BY k) FROM …)`; false where
/// the query is not that simple.
pub fn aggregate_array(query: &mut ast::Query) -> bool {
    let simple = query.limit_clause.is_none() && query.fetch.is_none() && query.with.is_none();
    let keys = match query.order_by.as_ref().map(|o| &o.kind) {
        Some(ast::OrderByKind::Expressions(keys)) => keys.clone(),
        Some(_) => return false,
        None => Vec::new(),
    };
    let ast::SetExpr::Select(select) = &mut *query.body else { return false };
    if !simple || select.distinct.is_some() || is_grouped(select) {
        return false;
    }
    let [item] = &mut select.projection[..] else { return false };
    let (ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) = item
    else {
        return false;
    };
    let value = take(expr);
    let keys: Vec<ast::OrderByExpr> = keys
        .into_iter()
        .map(|mut key| {
            // ORDER BY 1
            if matches!(&key.expr, Expr::Value(v) if matches!(v.value, ast::Value::Number(..))) {
                key.expr = value.clone();
            }
            key
        })
        .collect();
    let mut aggregate = call("array_agg", vec![value]);
    if let Expr::Function(f) = &mut aggregate
        && let ast::FunctionArguments::List(list) = &mut f.args
        && !keys.is_empty()
    {
        list.clauses.push(ast::FunctionArgumentClause::OrderBy(keys));
    }
    *item = ast::SelectItem::UnnamedExpr(aggregate);
    query.order_by = None;
    true
}
