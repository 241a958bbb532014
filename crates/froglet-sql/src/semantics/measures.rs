//! Types whose values Arrow compares otherwise than PostgreSQL are compared by a measure of them:
//! intervals by their lengths ([`super::time_arith::span`]), jsonb by the bytes of
//! [`crate::types::json::key`].
//!
//! | written | becomes |
//! |---|---|
//! | `a < b`, BETWEEN, IN, IS DISTINCT FROM | the same of `measure(a)`, … |
//! | ORDER BY a | ORDER BY measure(a) |
//! | sum, avg, min, max of intervals | [`crate::udf::intervals`] |
//!
//! GROUP BY and DISTINCT tell '1 mon' from '30 days', and 1 from 1.0 in jsonb, which PostgreSQL takes
//! for one.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{ScalarFunction, Sort};
use datafusion::logical_expr::{Expr, Operator};

use super::fields::field_of;
use super::{json_ops, time_arith};
use crate::types::{oids, sql_type_of_field};

/// The types that are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Interval,
    Jsonb,
}

impl Kind {
    fn of(expr: &Expr, schema: &DFSchema) -> Option<Kind> {
        let field = field_of(expr, schema).ok()?;
        match (field.data_type(), sql_type_of_field(&field).oid) {
            (DataType::Interval(_), _) => Some(Kind::Interval),
            (_, oids::JSONB) => Some(Kind::Jsonb),
            _ => None,
        }
    }

    fn oid(self) -> u32 {
        match self {
            Kind::Interval => oids::INTERVAL,
            Kind::Jsonb => oids::JSONB,
        }
    }

    /// Takes the measure of a value; what has no type becomes one first.
    fn measure(self, expr: &mut Expr) -> Result<()> {
        let inner = std::mem::replace(expr, Expr::Literal(ScalarValue::Null, None));
        let inner = json_ops::typed(inner, self.oid())?;
        *expr = match self {
            Kind::Interval => {
                Expr::ScalarFunction(ScalarFunction::new_udf(time_arith::span(), vec![inner]))
            }
            Kind::Jsonb => json_ops::call(crate::udf::json::KEY, vec![inner])
                .expect("the function is registered"),
        };
        Ok(())
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Makes a comparison of such values one of their measures; whether it was.
pub fn compare(expr: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let subject = match expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => &binary.left,
        Expr::Between(between) => &between.expr,
        Expr::InList(list) => &list.expr,
        _ => return Ok(false),
    };
    let Some(kind) = Kind::of(subject, schema) else { return Ok(false) };
    let measured: Vec<&mut Expr> = match expr {
        Expr::BinaryExpr(binary)
            if json_ops::oid_of(&binary.right, schema).is_none_or(|oid| oid == kind.oid()) =>
        {
            vec![&mut binary.left, &mut binary.right]
        }
        Expr::Between(between) => vec![&mut between.expr, &mut between.low, &mut between.high],
        Expr::InList(list) => std::iter::once(&mut *list.expr).chain(&mut list.list).collect(),
        _ => return Ok(false),
    };
    measured.into_iter().try_for_each(|value| kind.measure(value))?;
    Ok(true)
}

/// Makes an order by such values one by their measures; whether there was one.
pub fn order(keys: &mut [Sort], schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    for key in keys {
        if let Some(kind) = Kind::of(&key.expr, schema) {
            kind.measure(&mut key.expr)?;
            changed = true;
        }
    }
    Ok(changed)
}
