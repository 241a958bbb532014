//! What IN, BETWEEN and CASE compare a value with: 42883 where that is of another kind, as for operators. DataFusion
//! would compare what both are printed as.

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Case, Expr};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::fields::field_of;
use super::operators::{no_operator, unknown_literal};
use super::{casts, numerics};
use crate::types::{self, oids, sql_type_of_field};

/// Types whose values are compared with each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Bool,
    Moment,
    Time,
    Span,
    Uuid,
}

/// The same expression, if its values are compared at all.
pub fn checked(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let (value, others): (&Expr, Vec<(BinaryOperator, &Expr)>) = match &expr {
        Expr::InList(list) => {
            let op = if list.negated { NotEq } else { Eq };
            (&list.expr, list.list.iter().map(|item| (op.clone(), item)).collect())
        }
        Expr::Between(between) => {
            let (low, high) = if between.negated { (Lt, Gt) } else { (GtEq, LtEq) };
            (&between.expr, vec![(low, &*between.low), (high, &*between.high)])
        }
        Expr::Case(Case { expr: Some(value), when_then_expr, .. }) => {
            (value, when_then_expr.iter().map(|(when, _)| (Eq, &**when)).collect())
        }
        _ => return Ok(expr),
    };
    // What CASE compares is a text where nothing says otherwise; a list says it.
    let is_text = matches!(expr, Expr::Case(_)) && unknown_literal(value).is_some();
    let own = if is_text { Some(Kind::Text) } else { kind_of(value, schema) };
    let stranger = others
        .into_iter()
        .find(|(_, other)| kind_of(other, schema).zip(own).is_some_and(|(kind, own)| kind != own));
    let Some((op, other)) = stranger else { return Ok(expr) };
    let text = is_text.then(|| casts::call(value.clone(), types::plain(oids::TEXT)));
    Err(no_operator(&op, text.as_ref().unwrap_or(value), other, schema).into())
}

/// `None` of what has no type yet, and of types that have their own rules.
fn kind_of(expr: &Expr, schema: &DFSchema) -> Option<Kind> {
    if unknown_literal(expr).is_some()
        || matches!(expr, Expr::Placeholder(Placeholder { field: None, .. }))
    {
        return None;
    }
    let field = field_of(expr, schema).ok()?;
    let oid = sql_type_of_field(&field).oid;
    match field.data_type() {
        _ if oid == oids::XID || types::names_objects(oid) => None,
        ty if ty.is_string() => {
            matches!(oid, oids::TEXT | oids::VARCHAR | oids::BPCHAR).then_some(Kind::Text)
        }
        ty if numerics::is_number(ty) => Some(Kind::Number),
        DataType::Boolean => Some(Kind::Bool),
        DataType::Timestamp(..) | DataType::Date32 => Some(Kind::Moment),
        DataType::Time64(_) => Some(Kind::Time),
        DataType::Interval(_) => Some(Kind::Span),
        DataType::FixedSizeBinary(_) => Some(Kind::Uuid),
        _ => None,
    }
}
