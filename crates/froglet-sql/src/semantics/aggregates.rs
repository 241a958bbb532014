//! Result types of aggregates, by the types of their arguments.
//!
//! | | PostgreSQL | DataFusion | here |
//! |---|---|---|---|
//! | sum(bigint) | numeric | bigint, wraps | argument as decimal(20, 0) |
//! | sum(real) | real | double precision | [`crate::udf::real_sum`] |
//! | avg(integer) | numeric | double precision | argument as decimal(20, 0), [`crate::udf::numbers`] |
//! | avg(numeric) | numeric | scale + 4 | [`crate::udf::numbers`] |

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{AggregateUDF, Cast, Expr};

use super::fields::arrow_type_of;
use super::{casts, enums};
use crate::types::{EXACT, oids, plain};
use crate::udf::{intervals, numbers, real_sum, statistics};

/// Puts what computes an aggregate in the place of what it was planned with; whether that is another.
pub fn compute(function: &mut Arc<AggregateUDF>, args: &[Expr], schema: &DFSchema) -> bool {
    let of_type = || {
        let ty = arrow_type_of(args.first().filter(|_| args.len() == 1)?, schema).ok()?;
        numbers::computed(function, &ty)
            .or_else(|| real_sum::computed(function, &ty))
            .or_else(|| intervals::computed(function, &ty))
    };
    match enums::aggregate(function, args, schema).or_else(of_type) {
        Some(other) => {
            *function = other;
            true
        }
        None => false,
    }
}

/// Casts the argument of an aggregate whose result DataFusion would give another type.
pub fn widen(function: &str, args: &mut [Expr], schema: &DFSchema) -> bool {
    let [arg] = args else { return floats(function, args, schema) };
    let Ok(ty) = arrow_type_of(arg, schema) else { return false };
    let Some(wanted) = wider(function, &ty) else { return false };
    let inner = std::mem::replace(arg, Expr::Literal(datafusion::common::ScalarValue::Null, None));
    *arg = Expr::Cast(Cast::new(Box::new(inner), wanted));
    true
}

/// Casts exact numerics that an aggregate takes as double precision.
fn floats(function: &str, args: &mut [Expr], schema: &DFSchema) -> bool {
    let takes_floats = statistics::of_pairs(function) || function == "percentile_cont";
    let mut changed = false;
    for arg in args.iter_mut().filter(|_| takes_floats) {
        if arrow_type_of(arg, schema).is_ok_and(|ty| ty == EXACT) {
            let inner = std::mem::take(arg);
            *arg = casts::call(inner, plain(oids::FLOAT8));
            changed = true;
        }
    }
    changed
}

/// The type that an aggregate's argument is cast to; `None` where it is right as it is.
pub fn wider(function: &str, argument: &DataType) -> Option<DataType> {
    Some(match (function, argument) {
        ("sum", DataType::Int64 | DataType::UInt64 | DataType::UInt32) => {
            DataType::Decimal128(20, 0)
        }
        ("avg" | "mean", t) if t.is_integer() => DataType::Decimal128(20, 0),
        _ => return None,
    })
}
