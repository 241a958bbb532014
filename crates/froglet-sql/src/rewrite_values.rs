//! Types of literals that DataFusion would take for texts, where the parsed statement tells them.
//!
//! ```text
//!   VALUES (date '2024-01-01'), ('2024-01-02')    the second is a date, too
//!   VALUES ((SELECT 1)), (2)                      SELECT (SELECT 1) AS column1 UNION ALL SELECT 2
//!   t, LATERAL (VALUES (t.a))                     t, LATERAL (SELECT t.a AS column1)
//!   x IS DISTINCT FROM '2024-01-01'               a call, which is given its types when x has one
//!   ARRAY[x, 1]                                   a call within a subquery: x may be a column of outside
//! ```

use datafusion::sql::sqlparser::ast::{self, Expr};

use crate::expr::untyped;
use crate::parse::parse_query;
use crate::rewrite::{call, null};
use crate::semantics::common;
use crate::target::has_subquery;
use crate::walk;

/// VALUES with subqueries as SELECTs: DataFusion computes VALUES before it runs what is within them. So those that
/// read columns, which are of outside.
pub fn as_selects(body: &mut ast::SetExpr) {
    match body {
        ast::SetExpr::SetOperation { left, right, .. } => {
            as_selects(left);
            as_selects(right);
        }
        ast::SetExpr::Values(values) => {
            let rows: Vec<Vec<Expr>> = values.rows.iter().map(|row| row.content.clone()).collect();
            let alike = rows.iter().all(|row| row.len() == rows[0].len());
            if alike
                && (has_subquery(values) || walk::any_expr(values, is_column))
                && let Some(selects) = union_all(&rows)
            {
                *body = selects;
            }
        }
        _ => {}
    }
}

/// Rows as a union of SELECTs, which is no deeper than it has to be.
fn union_all(rows: &[Vec<Expr>]) -> Option<ast::SetExpr> {
    if let [row] = rows {
        let mut body = *parse_query("SELECT 1").ok()?.body;
        let ast::SetExpr::Select(select) = &mut body else { return None };
        let named = row.iter().enumerate().map(|(at, expr)| ast::SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: ast::Ident::new(format!("column{}", at + 1)),
        });
        select.projection = named.collect();
        return Some(body);
    }
    let (left, right) = rows.split_at_checked(rows.len() / 2)?;
    Some(ast::SetExpr::SetOperation {
        op: ast::SetOperator::Union,
        set_quantifier: ast::SetQuantifier::All,
        left: Box::new(union_all(left)?),
        right: Box::new(union_all(right)?),
    })
}

/// Texts without a type that stand for conditions are booleans.
pub fn conditions(select: &mut ast::Select) {
    use ast::{JoinConstraint::On, JoinOperator::*};
    let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
    let on = joins.filter_map(|join| match &mut join.join_operator {
        Join(On(c)) | Inner(On(c)) | Left(On(c)) | LeftOuter(On(c)) | Right(On(c))
        | RightOuter(On(c)) | FullOuter(On(c)) => Some(c),
        _ => None,
    });
    on.chain(&mut select.selection).chain(&mut select.having).for_each(condition);
}

fn condition(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: inner } => {
            condition(inner);
        }
        Expr::BinaryOp { left, op: ast::BinaryOperator::And | ast::BinaryOperator::Or, right } => {
            condition(left);
            condition(right);
        }
        Expr::Value(value) if matches!(value.value, ast::Value::SingleQuotedString(_)) => {
            let text = std::mem::replace(expr, null());
            *expr = cast(text, ast::DataType::Boolean);
        }
        _ => {}
    }
}

/// In each column of VALUES what has no type takes the type of the first row that names one.
pub fn type_columns(body: &mut ast::SetExpr) {
    let ast::SetExpr::Values(values) = body else { return };
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..columns {
        let cells = || values.rows.iter().filter_map(|row| row.content.get(column));
        let named: Vec<ast::DataType> = cells().filter_map(named_type).collect();
        let Some(first) = named.first() else { continue };
        let is_open = cells().any(untyped);
        let differ = named.len() == values.rows.len() && named.iter().any(|ty| ty != first);
        // A length is the column's only if every row has it.
        let bare = without_length(first);
        if let (true, Some(bare)) = (is_open || differ, &bare)
            && named.iter().all(|ty| without_length(ty).as_ref().unwrap_or(ty) == bare)
        {
            for row in &mut values.rows {
                if let Some(cell) = row.content.get_mut(column).filter(|cell| !untyped(cell)) {
                    let inner = std::mem::replace(cell, null());
                    *cell = match bare {
                        // A sum keeps every digit, and has no scale of its own.
                        ast::DataType::Numeric(_) => {
                            let zero = ast::Value::Number("0".to_owned(), false);
                            Expr::BinaryOp {
                                left: Box::new(Expr::Nested(Box::new(inner))),
                                op: ast::BinaryOperator::Plus,
                                right: Box::new(cast(Expr::value(zero), bare.clone())),
                            }
                        }
                        bare => cast(inner, bare.clone()),
                    };
                }
            }
        }
        if !is_open {
            continue;
        }
        let ty = bare.unwrap_or_else(|| first.clone());
        for row in &mut values.rows {
            let Some(cell) = row.content.get_mut(column).filter(|cell| untyped(cell)) else {
                continue;
            };
            let inner = std::mem::replace(cell, null());
            *cell = cast(inner, ty.clone());
        }
    }
}

/// The type that an expression names.
fn named_type(expr: &Expr) -> Option<ast::DataType> {
    match expr {
        Expr::Nested(inner) => named_type(inner),
        Expr::Cast { data_type, .. } => Some(data_type.clone()),
        Expr::TypedString(typed) => Some(typed.data_type.clone()),
        Expr::Interval(_) => Some(ast::DataType::Interval { fields: None, precision: None }),
        _ => None,
    }
}

/// The same type without a length or a precision, if it has one.
fn without_length(ty: &ast::DataType) -> Option<ast::DataType> {
    use ast::{CharacterLength, DataType as Type, ExactNumberInfo as Digits};
    let is_long = |length: &Option<CharacterLength>| length.is_some();
    Some(match ty {
        Type::Varchar(n) | Type::CharacterVarying(n) | Type::CharVarying(n) if is_long(n) => {
            Type::Varchar(None)
        }
        // char without a length is char(1).
        Type::Char(_) | Type::Character(_) => {
            Type::Custom(ast::ObjectName::from(vec![ast::Ident::new("bpchar")]), Vec::new())
        }
        Type::Numeric(digits) | Type::Decimal(digits) | Type::Dec(digits)
            if *digits != Digits::None =>
        {
            Type::Numeric(Digits::None)
        }
        Type::Timestamp(Some(_), zone) => Type::Timestamp(None, *zone),
        Type::Time(Some(_), zone) => Type::Time(None, *zone),
        _ => return None,
    })
}

fn cast(expr: Expr, data_type: ast::DataType) -> Expr {
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    }
}

/// A slice without a bound is one from the first element, or to the last.
pub fn slices(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { access_chain, .. } = expr else { return };
    let number = |n: i32| Expr::Value(ast::Value::Number(n.to_string(), false).with_empty_span());
    for access in access_chain {
        if let ast::AccessExpr::Subscript(ast::Subscript::Slice {
            lower_bound, upper_bound, ..
        }) = access
        {
            lower_bound.get_or_insert_with(|| number(1));
            upper_bound.get_or_insert_with(|| number(i32::MAX));
        }
    }
}

/// IS DISTINCT FROM as a call: DataFusion asks for a type that both sides come to.
pub fn distinct(expr: &mut Expr) {
    let (left, right, negated) = match expr {
        Expr::IsDistinctFrom(left, right) => (left, right, false),
        Expr::IsNotDistinctFrom(left, right) => (left, right, true),
        _ => return,
    };
    let take = |part: &mut Box<Expr>| std::mem::replace(&mut **part, null());
    let call = call(common::DISTINCT, vec![take(left), take(right)]);
    *expr = match negated {
        true => Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: Box::new(call) },
        false => call,
    };
}

/// ARRAY[…] within a subquery: DataFusion plans its elements as if nothing were around.
pub fn arrays(expr: &mut Expr) {
    let Expr::Array(array) = expr else { return };
    let plain = |element: &Expr| !matches!(element, Expr::Array(_));
    let reads = |element: &Expr| walk::any_expr(element, is_column);
    if array.elem.iter().all(plain) && array.elem.iter().any(reads) {
        *expr = call(common::ARRAY, std::mem::take(&mut array.elem));
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}
