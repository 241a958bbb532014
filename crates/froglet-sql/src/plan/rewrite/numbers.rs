//! Literals of numbers: `1` is an int4 and `1e3` a numeric, where DataFusion has other types, and a sign is part of them.
//!
//! | written | becomes |
//! |---|---|
//! | `1`, `-5`, `-2147483648` | `1::int4`, with a type that marks what was not written |
//! | `1e3`, more than 38 digits | `'1e3'::numeric` |
//! | `9223372036854775808` | `9223372036854775808.`: no bigint, and nothing unsigned |
//! | `-(-2147483648)` | `2147483648`, a bigint |
//! | `- x` | the checked minus |

use datafusion::sql::sqlparser::ast::{self, Expr};

use crate::rewrite::{call, take};

/// The type that marks a literal rewritten here.
const MARK: ast::DataType = ast::DataType::Int4(None);

/// Digits that the planner's numbers have at most.
const DECIMAL_DIGITS: usize = 38;

/// A literal by itself.
pub(crate) fn literal(expr: &mut Expr) {
    let Expr::Value(value) = expr else { return };
    let ast::Value::Number(digits, _) = &mut value.value else { return };
    if digits.replace('_', "").parse::<i32>().is_ok() {
        *expr = cast_mark(take(expr));
    } else if digits.contains(['e', 'E']) || digits.len() > DECIMAL_DIGITS {
        // 1e3 is a numeric, and so is what has more digits than the planner's numbers.
        *expr = numeric_literal(digits.clone());
    } else if digits.parse::<u64>().is_ok_and(|number| i64::try_from(number).is_err()) {
        // No bigint, so a numeric; the planner would make it an unsigned integer.
        digits.push('.');
    }
}

/// A sign that says nothing. DataFusion has it of numbers of its own alone.
pub(crate) fn plus(expr: &mut Expr) {
    let Expr::UnaryOp { expr: inner, .. } = expr else { return };
    if matches!(**inner, Expr::Value(_)) {
        return;
    }
    let zero = Expr::Value(ast::Value::Number("0".to_owned(), false).with_empty_span());
    *expr = Expr::BinaryOp {
        left: Box::new(cast_mark(zero)),
        op: ast::BinaryOperator::Plus,
        right: Box::new(Expr::Nested(Box::new(take(inner)))),
    };
}

/// `-5` is one literal, not the negative of one.
pub(crate) fn minus(expr: &mut Expr) {
    let Expr::UnaryOp { expr: inner, .. } = expr else { return };
    if let Expr::Value(value) = &mut **inner
        && let ast::Value::Number(digits, _) = &mut value.value
        && digits == "9223372036854775808."
    {
        // The smallest bigint.
        digits.pop();
    }
    if let Some(number) = negated(inner) {
        // Of another type than it had with one sign, perhaps.
        *expr = number.clone();
        literal(expr);
    } else if is_smallest_integer(inner) {
        *expr = cast_mark(take(expr));
    } else if let Some(number) = marked(inner) {
        **inner = number.clone();
        *expr = cast_mark(take(expr));
    } else if !matches!(**inner, Expr::Value(_)) {
        *expr = negative(take(inner));
    }
}

/// The number of a literal with a sign before it.
fn negated(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::Nested(inner) => negated(inner),
        Expr::Cast { kind: ast::CastKind::DoubleColon, expr, data_type, .. } => {
            let is_signed = *data_type == MARK && matches!(**expr, Expr::UnaryOp { .. });
            if is_signed { negated(expr) } else { None }
        }
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => {
            let is_number =
                matches!(&**expr, Expr::Value(v) if matches!(v.value, ast::Value::Number(..)));
            is_number.then_some(expr)
        }
        _ => None,
    }
}

/// Whether it is an integer with a sign before it, if not without.
fn is_smallest_integer(inner: &Expr) -> bool {
    match inner {
        Expr::Value(value) => {
            matches!(&value.value, ast::Value::Number(digits, _) if digits == "2147483648")
        }
        Expr::Nested(inner) => is_smallest_integer(inner),
        _ => false,
    }
}

fn cast_mark(number: Expr) -> Expr {
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(number),
        data_type: MARK,
        array: false,
        format: None,
    }
}

fn numeric_literal(digits: String) -> Expr {
    let text = ast::Value::SingleQuotedString(digits.replace('_', "")).with_empty_span();
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(Expr::Value(text)),
        data_type: ast::DataType::Numeric(ast::ExactNumberInfo::None),
        array: false,
        format: None,
    }
}

/// A call of the checked minus.
fn negative(operand: Expr) -> Expr {
    call(crate::semantics::arith::NEGATIVE, vec![operand])
}

/// The number inside a literal rewritten here.
pub(crate) fn marked(expr: &Expr) -> Option<&Expr> {
    let Expr::Cast { kind: ast::CastKind::DoubleColon, expr, data_type, .. } = expr else {
        return None;
    };
    let number = matches!(&**expr, Expr::Value(v) if matches!(v.value, ast::Value::Number(..)));
    (number && *data_type == MARK).then_some(expr)
}

pub(crate) fn unmark(expr: &mut Expr) {
    if let Some(number) = marked(expr) {
        *expr = number.clone();
    }
}
