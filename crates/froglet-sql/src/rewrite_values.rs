//! Types of literals that DataFusion would take for texts, where the parsed statement tells them.
//!
//! ```text
//!   VALUES (date '2024-01-01'), ('2024-01-02')    the second is a date, too
//!   x IS DISTINCT FROM '2024-01-01'               a call, which is given its types when x has one
//!   ARRAY[x, 1]                                   a call within a subquery: x may be a column of outside
//! ```

use datafusion::sql::sqlparser::ast::{self, Expr};

use crate::expr::untyped;
use crate::rewrite::{call, null};
use crate::semantics::common;
use crate::walk;

/// In each column of VALUES what has no type takes the type of the first row that names one.
pub fn type_columns(body: &mut ast::SetExpr) {
    let ast::SetExpr::Values(values) = body else { return };
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..columns {
        let cells = || values.rows.iter().filter_map(|row| row.content.get(column));
        if !cells().any(untyped) {
            continue;
        }
        let Some(ty) = cells().find_map(named_type) else { continue };
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

/// IS DISTINCT FROM a literal.
pub fn distinct(expr: &mut Expr) {
    let (left, right, negated) = match expr {
        Expr::IsDistinctFrom(left, right) => (left, right, false),
        Expr::IsNotDistinctFrom(left, right) => (left, right, true),
        _ => return,
    };
    if !untyped(left) && !untyped(right) {
        return;
    }
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
