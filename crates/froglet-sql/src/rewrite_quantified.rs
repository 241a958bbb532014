//! `x op ANY (SELECT …)` and `x op ALL (SELECT …)`, by the extremes of what the query finds.
//!
//! ```text
//!   x = ANY (q)    x IN (q)              x <> ALL (q)   x NOT IN (q)
//!   x > ALL (q)    CASE WHEN (SELECT count(*) FROM q) = 0          THEN true
//!                       WHEN NOT x > (SELECT max(v) FROM q)        THEN false
//!                       WHEN (SELECT count(*) - count(v) FROM q) > 0 THEN NULL
//!                       ELSE x > (SELECT max(v) FROM q) END
//! ```
//!
//! DataFusion makes of them an EXISTS within a CASE, which it cannot run. Nor can it run IN in a select list:
//!
//! ```text
//!   x IN (q)       CASE WHEN (SELECT count(*) FROM q WHERE v = x) > 0   THEN true
//!                       WHEN (SELECT count(*) - count(v) FROM q) > 0    THEN NULL
//!                       WHEN x IS NULL AND (SELECT count(*) FROM q) > 0 THEN NULL
//!                       ELSE false END
//! ```

use datafusion::sql::sqlparser::ast::{self, BinaryOperator as Op, Expr};
use datafusion::sql::sqlparser::parser::Parser;

use crate::dialect::Postgres;
use crate::rewrite::null;
use crate::rewrite_subquery::{aggregates, is_grouped};
use crate::rewrite_tuple;
use crate::walk::{self, Flow, GO_ON};

/// `x LIKE ALL (list)` is `NOT x NOT LIKE ANY (list)`; sqlparser takes ALL for a function there.
pub fn like_all(expr: &mut Expr) {
    let (Expr::Like { negated, any, pattern, .. } | Expr::ILike { negated, any, pattern, .. }) =
        &mut *expr
    else {
        return;
    };
    let Expr::Function(function) = &**pattern else { return };
    let ast::FunctionArguments::List(list) = &function.args else { return };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] = list.args.as_slice()
    else {
        return;
    };
    if *any || !function.name.to_string().eq_ignore_ascii_case("all") {
        return;
    }
    let argument = Box::new(Expr::Nested(Box::new(argument.clone())));
    (*negated, *any, *pattern) = (!*negated, true, argument);
    let inner = Box::new(Expr::Nested(Box::new(expr.clone())));
    *expr = Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: inner };
}

/// Rewrites one comparison, before its parts are.
pub fn rewrite(expr: &mut Expr) {
    let (left, op, right, all) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, false),
        Expr::AllOp { left, compare_op, right } => (left, compare_op, right, true),
        _ => return,
    };
    let Expr::Subquery(query) = &mut **right else { return };
    let negated = all && *op == Op::NotEq;
    if negated || !all && *op == Op::Eq {
        let subquery = query.clone();
        *expr = Expr::InSubquery { expr: left.clone(), subquery, negated };
        return;
    }
    let extremes: &[&str] = match (&*op, all) {
        (Op::Gt | Op::GtEq, true) | (Op::Lt | Op::LtEq, false) => &["max"],
        (Op::Lt | Op::LtEq, true) | (Op::Gt | Op::GtEq, false) => &["min"],
        (Op::Eq | Op::NotEq, _) => &["min", "max"],
        _ => return,
    };
    let compare = |extreme: &&str| {
        let value = aggregate(query, &format!("{extreme}(froglet.v)"))?;
        Some(binary((**left).clone(), op.clone(), value))
    };
    let Some(compared) = extremes.iter().map(compare).collect::<Option<Vec<Expr>>>() else {
        return;
    };
    let join = if all { Op::And } else { Op::Or };
    let Some(holds) = compared.into_iter().reduce(|a, b| binary(a, join.clone(), b)) else {
        return;
    };
    let decided = match all {
        true => not(holds.clone()),
        false => holds.clone(),
    };
    let (Some(rows), Some(nulls)) =
        (aggregate(query, "count(*)"), aggregate(query, "count(*) - count(froglet.v)"))
    else {
        return;
    };
    let when = |condition, result| ast::CaseWhen { condition, result };
    *expr = Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![
            when(binary(rows, Op::Eq, zero()), boolean(all)),
            when(decided, boolean(!all)),
            when(binary(nulls, Op::Gt, zero()), null()),
        ],
        else_result: Some(Box::new(holds)),
    };
}

/// `x IN (SELECT …)`, and `x = ANY (SELECT …)`
pub fn is_in_subquery(expr: &Expr) -> bool {
    match expr {
        Expr::InSubquery { .. } => true,
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
            matches!(**right, Expr::Subquery(_))
        }
        _ => false,
    }
}

/// Rewrites those IN of a condition of which false and NULL are not the same; whether there is one. `whole`: where
/// the condition holds or no row does, and DataFusion's NOT IN knows of NULL.
pub fn in_condition(condition: &mut Expr, whole: bool) -> bool {
    match condition {
        Expr::Nested(inner) => in_condition(inner, whole),
        Expr::BinaryOp { left, op: Op::And, right } => {
            in_condition(left, whole) | in_condition(right, whole)
        }
        Expr::BinaryOp { left, op: Op::Or, right } => {
            in_condition(left, false) | in_condition(right, false)
        }
        Expr::InSubquery { negated, .. } if whole || !*negated => false,
        Expr::AnyOp { .. } => false,
        Expr::AllOp { .. } if whole => false,
        Expr::UnaryOp { op: ast::UnaryOperator::Not, expr } if whole && is_one(expr) => false,
        other => in_item(other),
    }
}

/// Whether a condition is an IN by itself.
fn is_one(condition: &Expr) -> bool {
    match condition {
        Expr::Nested(inner) => is_one(inner),
        other => matches!(other, Expr::InSubquery { .. }),
    }
}

/// Rewrites every IN of an item of a select list that is not within a query of its own; whether there is one.
pub fn in_item(item: &mut Expr) -> bool {
    struct In {
        depth: usize,
        any: bool,
    }
    impl walk::Change for In {
        fn query(&mut self, _: &mut ast::Query) {
            self.depth += 1;
        }
        fn query_end(&mut self, _: &mut ast::Query) {
            self.depth -= 1;
        }
        fn expr_end(&mut self, expr: &mut Expr) -> Flow {
            if self.depth > 0 {
                return GO_ON;
            }
            rewrite(expr);
            if let Expr::InSubquery { expr: left, subquery, negated } = &*expr
                && let Some(found) = is_in(left, subquery)
            {
                *expr = if *negated { not(found) } else { found };
                self.any = true;
            }
            GO_ON
        }
    }
    let mut change = In { depth: 0, any: false };
    walk::change(item, &mut change);
    change.any
}

fn is_in(left: &Expr, query: &ast::Query) -> Option<Expr> {
    // What is grouped around the query has no value within it.
    if aggregates(left) {
        return None;
    }
    if let Some(found) = rewrite_tuple::in_item(left, query) {
        return Some(found);
    }
    // A name that no column around has.
    let name = ast::Ident::with_quote('"', "froglet value");
    let column = Expr::CompoundIdentifier(vec![ast::Ident::new("froglet"), name.clone()]);
    let mut equal = around(query, "count(*)")?;
    let ast::SetExpr::Select(select) = &mut *equal.body else { return None };
    if let ast::TableFactor::Derived { alias: Some(alias), .. } =
        &mut select.from.first_mut()?.relation
    {
        alias.columns[0].name = name;
    }
    select.selection = Some(binary(column, Op::Eq, left.clone()));
    let some = |count: Expr| binary(count, Op::Gt, zero());
    let is_null = Expr::IsNull(Box::new(Expr::Nested(Box::new(left.clone()))));
    let nulls = some(aggregate(query, "count(*) - count(froglet.v)")?);
    let rows = some(aggregate(query, "count(*)")?);
    let when = |condition, result| ast::CaseWhen { condition, result };
    Some(Expr::Nested(Box::new(Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![
            when(some(Expr::Subquery(Box::new(equal))), boolean(true)),
            when(nulls, null()),
            when(binary(is_null, Op::And, rows), null()),
        ],
        else_result: Some(Box::new(boolean(false))),
    })))
}

fn binary(left: Expr, op: Op, right: Expr) -> Expr {
    let nested = |expr| Box::new(Expr::Nested(Box::new(expr)));
    Expr::Nested(Box::new(Expr::BinaryOp { left: nested(left), op, right: nested(right) }))
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: Box::new(expr) }
}

fn boolean(value: bool) -> Expr {
    Expr::Value(ast::Value::Boolean(value).with_empty_span())
}

fn zero() -> Expr {
    Expr::Value(ast::Value::Number("0".to_owned(), false).with_empty_span())
}

/// `(SELECT aggregate FROM (query) froglet(v))`, or the same without another query around where the
/// query is one select of its rows.
fn aggregate(query: &ast::Query, aggregate: &str) -> Option<Expr> {
    let mut outer = around(query, aggregate)?;
    let ast::SetExpr::Select(select) = &mut *outer.body else { return None };
    if let Some((simple, value)) = simple(query) {
        let mut item = select.projection.pop()?;
        if let ast::SelectItem::UnnamedExpr(expr) = &mut item {
            walk::change_exprs(expr, |part| {
                if matches!(part, Expr::CompoundIdentifier(names) if names[0].value == "froglet") {
                    *part = value.clone();
                }
                GO_ON
            });
        }
        let mut query = simple;
        if let ast::SetExpr::Select(select) = &mut *query.body {
            select.projection = vec![item];
        }
        return Some(Expr::Subquery(Box::new(query)));
    }
    Some(Expr::Subquery(Box::new(outer)))
}

/// `SELECT aggregate FROM (query) froglet(v)`
fn around(query: &ast::Query, aggregate: &str) -> Option<ast::Query> {
    let text = format!("SELECT {aggregate} FROM (SELECT 1) froglet(v)");
    let parsed = Parser::new(&Postgres).try_with_sql(&text);
    let mut outer = *parsed.and_then(|mut parser| parser.parse_query()).ok()?;
    let ast::SetExpr::Select(select) = &mut *outer.body else { return None };
    if let ast::TableFactor::Derived { subquery, .. } = &mut select.from.first_mut()?.relation {
        **subquery = query.clone();
    }
    Some(outer)
}

/// A query of one select of one value for each row.
fn simple(query: &ast::Query) -> Option<(ast::Query, Expr)> {
    let ast::SetExpr::Select(select) = &*query.body else { return None };
    let limited = query.limit_clause.is_some() || query.fetch.is_some() || query.with.is_some();
    if limited || select.distinct.is_some() || select.from.is_empty() || is_grouped(select) {
        return None;
    }
    let value = match &select.projection[..] {
        [ast::SelectItem::UnnamedExpr(expr)] => expr.clone(),
        [ast::SelectItem::ExprWithAlias { expr, .. }] => expr.clone(),
        _ => return None,
    };
    Some((ast::Query { order_by: None, ..query.clone() }, value))
}
