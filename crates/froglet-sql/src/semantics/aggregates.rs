//! Result types of aggregates, by the types of their arguments.
//!
//! | | PostgreSQL | DataFusion | here |
//! |---|---|---|---|
//! | sum(bigint) | numeric | bigint, wraps | argument as decimal(20, 0) |
//! | avg(integer) | numeric | double precision | argument as decimal(34, 12): 16 digits after the point |
//! | avg(numeric) | numeric, 16 digits | scale + 4 | argument with at least 12 digits after the point |

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{AggregateUDF, Cast, Expr};

use super::fields::arrow_type_of;
use crate::udf::intervals;

/// Scale of an average's argument; DataFusion adds 4.
const AVERAGE_SCALE: i8 = 12;

/// Puts what computes an aggregate in the place of what it was planned with; whether that is another.
pub fn compute(function: &mut Arc<AggregateUDF>, args: &[Expr], schema: &DFSchema) -> bool {
    let [arg] = args else { return false };
    let Ok(ty) = arrow_type_of(arg, schema) else { return false };
    match intervals::computed(function, &ty) {
        Some(other) => {
            *function = other;
            true
        }
        None => false,
    }
}

/// Casts the argument of an aggregate whose result DataFusion would give another type.
pub fn widen(function: &str, args: &mut [Expr], schema: &DFSchema) -> bool {
    let [arg] = args else { return false };
    let Ok(ty) = arrow_type_of(arg, schema) else { return false };
    let Some(wanted) = wider(function, &ty) else { return false };
    let inner = std::mem::replace(arg, Expr::Literal(datafusion::common::ScalarValue::Null, None));
    *arg = Expr::Cast(Cast::new(Box::new(inner), wanted));
    true
}

/// The type that an aggregate's argument is cast to; `None` where it is right as it is.
pub fn wider(function: &str, argument: &DataType) -> Option<DataType> {
    Some(match (function, argument) {
        ("sum", DataType::Int64 | DataType::UInt64 | DataType::UInt32) => {
            DataType::Decimal128(20, 0)
        }
        ("avg" | "mean", t) if t.is_integer() => DataType::Decimal128(34, AVERAGE_SCALE),
        ("avg" | "mean", DataType::Decimal128(_, scale)) if *scale < AVERAGE_SCALE => {
            DataType::Decimal128(34, AVERAGE_SCALE)
        }
        _ => return None,
    })
}
