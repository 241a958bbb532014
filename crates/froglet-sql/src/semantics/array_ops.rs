//! Operators of arrays that DataFusion's planner lacks or resolves otherwise: `@>`, `<@`, `&&`, and
//! `||` with a literal. A literal beside an array is an array of its type.

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::json_ops::{call, oid_of, typed};
use super::operators::is_null;
use super::{array_keys, casts, numerics};
use crate::types::array::is_array;
use crate::types::{oids, plain};

/// The call that an operator is, if it is one of two arrays.
pub(super) fn plan(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let (name, swapped) = match op {
        BinaryOperator::AtArrow => ("array_has_all", false),
        BinaryOperator::ArrowAt => ("array_has_all", true),
        BinaryOperator::PGOverlap => ("array_has_any", false),
        BinaryOperator::StringConcat => ("array_concat", false),
        _ => return Ok(None),
    };
    let (l, r) = (oid_of(left, schema), oid_of(right, schema));
    // NULL beside an array is an array, and adds nothing to it.
    if name == "array_concat" {
        if is_null(right) && l.is_some_and(is_array) {
            return Ok(Some(left.clone()));
        }
        if is_null(left) && r.is_some_and(is_array) {
            return Ok(Some(right.clone()));
        }
    }
    if let ("array_concat", Some(l), Some(r)) = (name, l, r) {
        if let Some(joined) = numerics_joined((left, l), (right, r)) {
            return Ok(Some(joined));
        }
        let name = match (is_array(l), is_array(r)) {
            (true, true) => name,
            (true, false) => "array_append",
            (false, true) => "array_prepend",
            (false, false) => return Ok(None),
        };
        return Ok(call(name, vec![left.clone(), right.clone()]));
    }
    let (l, r) = (l.filter(|_| !is_null(left)), r.filter(|_| !is_null(right)));
    let known = l.or(r).filter(|oid| is_array(*oid));
    let (Some(l), Some(r)) = (l.or(known), r.or(known)) else { return Ok(None) };
    if !is_array(l) || !is_array(r) {
        return Ok(None);
    }
    let (left, right) = (typed(left.clone(), l)?, typed(right.clone(), r)?);
    let (whole, part) = if swapped { (right, left) } else { (left, right) };
    if name == "array_concat" {
        return Ok(call(name, vec![whole, part]));
    }
    let whole = array_keys::elements_of(whole, schema);
    let part = array_keys::elements_of(part, schema);
    // DataFusion takes two NULLs for the same element; they are none.
    let null = Expr::Literal(ScalarValue::Null, None);
    Ok(call("array_remove", vec![whole, null]).and_then(|known| call(name, vec![known, part])))
}

/// `||` of an array of numerics with a number, or an array of numbers, of another type.
fn numerics_joined((left, l): (&Expr, u32), (right, r): (&Expr, u32)) -> Option<Expr> {
    const NUMBERS: [(u32, u32); 4] = [
        (oids::INT2, oids::INT2_ARRAY),
        (oids::INT4, oids::INT4_ARRAY),
        (oids::INT8, oids::INT8_ARRAY),
        (oids::NUMERIC, oids::NUMERIC_ARRAY),
    ];
    if ![l, r].contains(&oids::NUMERIC_ARRAY) {
        return None;
    }
    let as_numeric = |expr: &Expr, oid: u32| {
        let (_, array) = NUMBERS.iter().find(|(number, array)| [*number, *array].contains(&oid))?;
        let wanted = if *array == oid { oids::NUMERIC_ARRAY } else { oids::NUMERIC };
        Some(if wanted == oids::NUMERIC {
            numerics::exact(expr.clone())
        } else if oid == wanted {
            expr.clone()
        } else {
            casts::call(expr.clone(), plain(wanted))
        })
    };
    let name = match (is_array(l), is_array(r)) {
        (true, true) => "array_concat",
        (true, false) => "array_append",
        _ => "array_prepend",
    };
    call(name, vec![as_numeric(left, l)?, as_numeric(right, r)?])
}
