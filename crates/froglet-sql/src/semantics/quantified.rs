//! `x op ANY (array)` and `x op ALL (array)`.
//!
//! ```text
//!   x = ANY (a)       froglet_any(x, a, '=')    ─▶ array_has(a, x) (`member.rs`)
//!   x <> ALL (a)      froglet_all(x, a, '<>')   ─▶ NOT array_has(a, x)
//!   x like ALL (a)    froglet_all(x, a, 'like') ─▶ Quantified, which compares x with each element
//! ```
//! The planner sees the first form, which takes any types; a literal is given its type where the others
//! are known ([`resolve`]). ANY is true of no element, ALL of every one; NULLs are unknown, as in WHERE.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Scalar, StringViewArray};
use arrow::compute::kernels::cmp;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator};
use froglet_engine::SqlState;
use froglet_schema::SqlType;
use froglet_schema::def::FIRST_USER_ID;

use super::casts::trimmed;
use super::fields::arrow_type_of;
use super::{casts, common, json_ops, member, numerics, operators};
use crate::error::SqlError;
use crate::types::array::is_array;
use crate::types::cell::{Cell, cell_at};
use crate::types::datetime::DAY_US;
use crate::types::{EXACT, element_oid, json, oids, plain, sql_field, sql_type_of_field};
use crate::udf::{arguments, case};

/// `x op ANY (array)`, of three arguments.
pub const ANY: &str = "froglet_any";
/// `x op ALL (array)`
pub const ALL: &str = "froglet_all";

/// The operators that are compared here.
const OPERATORS: &[&str] =
    &["=", "<>", "<", "<=", ">", ">=", "LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"];

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    [false, true].map(|all| quantified(all, "")).to_vec()
}

fn quantified(all: bool, op: &'static str) -> Arc<ScalarUDF> {
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Quantified { all, op, signature }))
}

/// The call for an expression of the parser, whose right side is no subquery.
pub fn call_of(expr: &mut ast::Expr) {
    let (left, op, right, all) = match expr {
        ast::Expr::AnyOp { left, compare_op, right, .. } => {
            (left, symbol(compare_op), right, false)
        }
        ast::Expr::AllOp { left, compare_op, right } => (left, symbol(compare_op), right, true),
        ast::Expr::Like { any: true, negated, expr, pattern, .. } => {
            (expr, if *negated { "NOT LIKE" } else { "LIKE" }.to_owned(), pattern, false)
        }
        ast::Expr::ILike { any: true, negated, expr, pattern, .. } => {
            (expr, if *negated { "NOT ILIKE" } else { "ILIKE" }.to_owned(), pattern, false)
        }
        _ => return,
    };
    if matches!(**right, ast::Expr::Subquery(_)) || !OPERATORS.contains(&op.as_str()) {
        return;
    }
    let mut right = &mut **right;
    while let ast::Expr::Nested(inner) = right {
        right = &mut **inner;
    }
    let take = |part: &mut ast::Expr| std::mem::replace(part, crate::rewrite::null());
    let op = ast::Value::SingleQuotedString(op).with_empty_span();
    let args = vec![take(left), take(right), ast::Expr::Value(op)];
    *expr = crate::rewrite::call(if all { ALL } else { ANY }, args);
}

fn symbol(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::PGLikeMatch => "LIKE".to_owned(),
        BinaryOperator::PGNotLikeMatch => "NOT LIKE".to_owned(),
        BinaryOperator::PGILikeMatch => "ILIKE".to_owned(),
        BinaryOperator::PGNotILikeMatch => "NOT ILIKE".to_owned(),
        BinaryOperator::PGCustomBinaryOperator(parts) => match parts.last().map(String::as_str) {
            Some("~~") => "LIKE".to_owned(),
            Some("!~~") => "NOT LIKE".to_owned(),
            Some("~~*") => "ILIKE".to_owned(),
            Some("!~~*") => "NOT ILIKE".to_owned(),
            other => other.unwrap_or_default().to_owned(),
        },
        other => other.to_string(),
    }
}

/// Gives the operands their types and says what compares them.
pub fn resolve(call: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let all = match call.func.inner().downcast_ref::<Quantified>() {
        Some(found) if found.op.is_empty() => found.all,
        _ => return Ok(Transformed::no(Expr::ScalarFunction(call))),
    };
    let Ok([left, right, op]) = <[Expr; 3]>::try_from(call.args) else {
        return Err(crate::df_error::no_function(if all { ALL } else { ANY }).into());
    };
    let text = operators::unknown_literal(&op).unwrap_or_default();
    let Some(op) = OPERATORS.iter().copied().find(|known| *known == text) else {
        return Err(SqlError::unsupported(format!("{text} ANY")).into());
    };
    let (left, right, ty) = typed(left, right, schema)?;
    // Intervals and exact numerics are equal that Arrow takes for different ones; NULL is in no array without
    // elements, which DataFusion does not know.
    let is_typed = |value: &ScalarValue| !value.data_type().is_null();
    let is_null = matches!(&left, Expr::Literal(value, _) if value.is_null() && is_typed(value));
    let measured = matches!(ty.oid, oids::INTERVAL | oids::JSONB | oids::BPCHAR)
        || arrow_type_of(&left, schema).is_ok_and(|ty| ty == EXACT)
        || numerics::is_exact_list(&right, schema);
    if matches!((op, all), ("=", false) | ("<>", true)) && !is_null && !measured {
        let found = member::call(right, left);
        return Ok(Transformed::yes(if all { !found } else { found }));
    }
    let call = ScalarFunction::new_udf(quantified(all, op), vec![left, right]);
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

/// The operands as a value of a type and an array of it.
fn typed(left: Expr, right: Expr, schema: &DFSchema) -> Result<(Expr, Expr, SqlType)> {
    let (value, list) = (json_ops::oid_of(&left, schema), json_ops::oid_of(&right, schema));
    let is_null = |expr: &Expr| matches!(expr, Expr::Literal(v, _) if v.is_null());
    let (value, list) = (value.filter(|_| !is_null(&left)), list.filter(|_| !is_null(&right)));
    let element = match list {
        Some(list) if is_array(list) || is_vector(list) => element_oid(list),
        Some(_) => {
            return Err(SqlError::new(
                SqlState::new("42809"),
                "op ANY/ALL (array) requires array on right side",
            )
            .into());
        }
        None => None,
    };
    let field = |oid| {
        sql_field(
            "",
            plain(oid),
            crate::types::arrow_of(plain(oid)).unwrap_or(DataType::Utf8View),
            true,
        )
    };
    let both = [value, element].into_iter().flatten().map(field).collect::<Vec<_>>();
    let one = match common::common_type("=", &both) {
        Ok(ty) => ty.unwrap_or(plain(oids::TEXT)),
        // A parameter beside an enum is a text.
        Err(_) if is_label(value, element) => return Ok((left, right, plain(oids::TEXT))),
        Err(_) => {
            let name = |oid: Option<u32>| crate::types::type_name(plain(oid.unwrap_or(oids::TEXT)));
            let message = format!("operator does not exist: {} = {}", name(value), name(element));
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message).into());
        }
    };
    let wanted = common::array_type(&field(one.oid)).unwrap_or(plain(oids::TEXT_ARRAY));
    let left = match value {
        Some(oid) if oid != one.oid => cast(left, one.oid, schema)?,
        Some(_) => left,
        None => common::bring(left, one, schema)?,
    };
    let text = |oid| matches!(oid, Some(oids::TEXT | oids::VARCHAR | oids::BPCHAR | oids::NAME));
    let right = match element {
        Some(oid) if oid != one.oid && !(text(Some(oid)) && text(Some(one.oid))) => {
            cast(right, wanted.oid, schema)?
        }
        Some(_) => right,
        None => common::bring(right, wanted, schema)?,
    };
    let (left, right) = match one.oid {
        oids::NUMERIC => same_scale(left, right, schema)?,
        _ => (left, right),
    };
    Ok((left, right, one))
}

/// Whether a type is one of the catalog's vectors, which are arrays but for their texts.
fn is_vector(oid: u32) -> bool {
    matches!(oid, oids::INT2VECTOR | oids::OIDVECTOR)
}

fn is_label(value: Option<u32>, element: Option<u32>) -> bool {
    value.is_some_and(|oid| oid >= FIRST_USER_ID) && element == Some(oids::TEXT)
}

/// Decimals of one scale, exact numerics where theirs differ.
fn same_scale(left: Expr, right: Expr, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let (Ok(value), Ok(DataType::List(item))) =
        (arrow_type_of(&left, schema), arrow_type_of(&right, schema))
    else {
        return Ok((left, right));
    };
    if value == *item.data_type() {
        return Ok((left, right));
    }
    Ok((numerics::exact(left), casts::call(right, plain(oids::NUMERIC_ARRAY))))
}

fn cast(expr: Expr, oid: u32, schema: &DFSchema) -> Result<Expr> {
    let arrow = crate::types::arrow_of(plain(oid))
        .ok_or_else(|| SqlError::unsupported(crate::types::type_name(plain(oid))))?;
    let field = sql_field("", plain(oid), arrow, true);
    let cast = Cast::new_from_field(Box::new(expr), field);
    Ok(super::casts::rewrite_cast(cast, schema)?.data)
}

/// Compares a value with each element of an array.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Quantified {
    all: bool,
    /// Empty as long as it is to be resolved.
    op: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Quantified {
    fn name(&self) -> &str {
        if self.all { ALL } else { ANY }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _given: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.op.is_empty() {
            return Err(SqlError::unsupported("ANY in this place").into());
        }
        let rows = args.number_rows;
        let oid = args.arg_fields.first().map(|field| sql_type_of_field(field).oid);
        let labels = oid.and_then(super::enums::labels_of);
        let arrays = args.args.iter().map(arguments::array_once).collect::<Result<Vec<_>>>()?;
        let [left, right] = &arrays[..] else {
            return Err(crate::planning::internal("two operands"));
        };
        let answer = |row: usize| -> Result<Option<bool>> {
            let Some(lists) = right.as_list_opt::<i32>() else { return Ok(None) };
            let of_row = arguments::row_of(right, row);
            if lists.is_null(of_row) {
                return Ok(None);
            }
            let value = left.slice(arguments::row_of(left, row), 1);
            let items = lists.value(of_row);
            match oid {
                // Numbers in them are equal whatever their digits.
                // The elements of an array are not filled to its length.
                Some(oids::BPCHAR) => self.one(&trimmed(&value), &trimmed(&items), None),
                Some(oids::JSONB) => self.one(&keys(&value)?, &keys(&items)?, None),
                _ => self.one(&value, &items, labels.as_deref()),
            }
        };
        let answers = (0..rows).map(answer).collect::<Result<BooleanArray>>()?;
        Ok(ColumnarValue::Array(Arc::new(answers)))
    }
}

/// Texts as ILIKE compares them.
fn lowered(array: &ArrayRef) -> ArrayRef {
    let texts = (0..array.len()).map(|row| match cell_at(array.as_ref(), row) {
        Cell::Text(text) => Some(case::lower(text)),
        _ => None,
    });
    Arc::new(texts.collect::<StringViewArray>())
}

/// The bytes by which values of jsonb are compared.
pub(super) fn keys(array: &ArrayRef) -> Result<ArrayRef> {
    let key = |row| match cell_at(array.as_ref(), row) {
        Cell::Text(text) => Ok(Some(json::key::of(&json::read(text)?))),
        _ => Ok(None),
    };
    let keys = (0..array.len()).map(key).collect::<Result<Vec<_>, SqlError>>()?;
    Ok(Arc::new(keys.iter().map(Option::as_deref).collect::<BinaryArray>()))
}

impl Quantified {
    /// Of one row.
    fn one(
        &self,
        value: &ArrayRef,
        items: &ArrayRef,
        labels: Option<&[String]>,
    ) -> Result<Option<bool>> {
        let items = match items.data_type() == value.data_type() {
            true => items.clone(),
            false if *value.data_type() == EXACT => numerics::exacts(items),
            false => arrow::compute::cast(items, value.data_type())?,
        };
        let (value, items) = match labels {
            Some(labels) => (places(value, labels)?, places(&items, labels)?),
            None => (value.clone(), items),
        };
        let (value, items) = match value.data_type() {
            DataType::Interval(_) => (spans(&value), spans(&items)),
            &EXACT => (numerics::orders(&value), numerics::orders(&items)),
            _ => (value, items),
        };
        let (value, items) = match self.op {
            "ILIKE" | "NOT ILIKE" => (lowered(&value), lowered(&items)),
            _ => (value, items),
        };
        let value = Scalar::new(value);
        use datafusion::arrow::compute::kernels::comparison as like;
        let held = match self.op {
            "=" => cmp::eq(&value, &items)?,
            "<>" => cmp::neq(&value, &items)?,
            "<" => cmp::lt(&value, &items)?,
            "<=" => cmp::lt_eq(&value, &items)?,
            ">" => cmp::gt(&value, &items)?,
            ">=" => cmp::gt_eq(&value, &items)?,
            "LIKE" => like::like(&value, &items)?,
            "NOT LIKE" => like::nlike(&value, &items)?,
            "ILIKE" => like::like(&value, &items)?,
            _ => like::nlike(&value, &items)?,
        };
        // ANY ends at a true one, ALL at a false one.
        let decided = held.iter().flatten().any(|holds| holds != self.all);
        Ok(match (decided, held.null_count() > 0) {
            (true, _) => Some(!self.all),
            (false, true) => None,
            (false, false) => Some(self.all),
        })
    }
}

/// Intervals as their lengths, of months of 30 days.
fn spans(intervals: &ArrayRef) -> ArrayRef {
    let span = |row| match cell_at(intervals.as_ref(), row) {
        Cell::Interval(months, days, us) => {
            let days = i128::from(months) * 30 + i128::from(days);
            Some(days * i128::from(DAY_US) + i128::from(us))
        }
        _ => None,
    };
    let spans = (0..intervals.len()).map(span);
    Arc::new(spans.collect::<arrow::array::Decimal128Array>())
}

/// Labels as their places among those of their type.
fn places(labels: &ArrayRef, all: &[String]) -> Result<ArrayRef> {
    let texts = arrow::compute::cast(labels, &DataType::Utf8View)?;
    let place =
        |text: &str| all.iter().position(|l| l == text).and_then(|at| i32::try_from(at).ok());
    let places = texts.as_string_view().iter().map(|text| text.and_then(place));
    Ok(Arc::new(places.collect::<arrow::array::Int32Array>()))
}
