//! Types whose values Arrow compares otherwise than PostgreSQL are compared by a measure of them:
//! intervals by their lengths ([`super::time_arith::span`]), jsonb by the bytes of
//! [`crate::types::json::key`], exact numerics by their bytes without the display scale, arrays by [`array_keys`].
//!
//! | written | becomes |
//! |---|---|
//! | `a < b`, BETWEEN, IN, IS DISTINCT FROM | the same of `measure(a)`, … |
//! | ORDER BY a, PARTITION BY a | ORDER BY measure(a), … |
//! | GROUP BY a, DISTINCT, joins | [`super::grouped`] |
//! | sum, avg, min, max of intervals | [`crate::udf::intervals`] |

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{ScalarFunction, Sort};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, ScalarUDF};
use froglet_engine::Interval;

use super::array_keys::{self, Elements};
use super::fields::{arrow_type_of, field_of};
use super::operators::{does_not_exist, unknown_literal};
use super::{common, json_ops, numerics, records, time_arith};
use crate::types::cell::Cell;
use crate::types::{EXACT, exact, oids, plain, sql_type_of_field, type_name};

/// The types that are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Interval,
    Jsonb,
    Numeric,
    /// An array.
    Array(Elements, u32),
    /// A row, as far as it is known what it is made of.
    Record,
}

impl Kind {
    fn of(expr: &Expr, schema: &DFSchema) -> Option<Kind> {
        let field = field_of(expr, schema).ok()?;
        match (field.data_type(), sql_type_of_field(&field).oid) {
            (DataType::Interval(_), _) => Some(Kind::Interval),
            (&EXACT, _) => Some(Kind::Numeric),
            (DataType::List(_), _) => Elements::of(expr, schema)
                .filter(|(elements, _)| elements.have_several_forms())
                .map(|(elements, oid)| Kind::Array(elements, oid)),
            (_, oids::JSONB) => Some(Kind::Jsonb),
            (_, oids::RECORD) => Some(Kind::Record),
            _ => None,
        }
    }

    fn oid(self) -> u32 {
        match self {
            Kind::Interval => oids::INTERVAL,
            Kind::Jsonb => oids::JSONB,
            Kind::Numeric => oids::NUMERIC,
            Kind::Array(_, oid) => oid,
            Kind::Record => oids::RECORD,
        }
    }

    /// Takes the measure of a value; what has no type becomes one first.
    fn measure(self, expr: &mut Expr, schema: &DFSchema) -> Result<()> {
        let inner = std::mem::replace(expr, Expr::Literal(ScalarValue::Null, None));
        let inner = json_ops::typed(inner, self.oid())?;
        *expr = match self {
            Kind::Interval => {
                Expr::ScalarFunction(ScalarFunction::new_udf(time_arith::span(), vec![inner]))
            }
            Kind::Jsonb => json_ops::call(crate::udf::json::KEY, vec![inner])
                .expect("the function is registered"),
            Kind::Numeric => numerics::order_of(inner),
            Kind::Array(elements, _) => array_keys::key_of(inner, elements),
            Kind::Record => records::key_of(inner, schema)?,
        };
        Ok(())
    }
}

/// Whether values of a type have such bytes ([`of_cell`]).
pub fn has_bytes(ty: &DataType) -> bool {
    *ty == EXACT || matches!(ty, DataType::Interval(_))
}

/// Whether a function takes the measure of an exact numeric or an interval.
pub fn is_measure(function: &ScalarUDF) -> bool {
    numerics::is_order(function) || function.name() == time_arith::span().name()
}

/// What an exact numeric or an interval is compared by, as bytes in its order; none of other values.
pub fn of_cell(cell: &Cell<'_>) -> Option<Vec<u8>> {
    match cell {
        Cell::Exact(bytes) => Some(exact::order(bytes).to_vec()),
        &Cell::Interval(months, days, us) => {
            // The sign bit is turned: less than nothing comes first.
            let span = Interval { months, days, us }.span_us() ^ i128::MIN;
            Some(span.to_be_bytes().to_vec())
        }
        _ => None,
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// What a comparison compares.
pub(super) fn operands(expr: &mut Expr) -> Vec<&mut Expr> {
    match expr {
        Expr::BinaryExpr(binary) if is_comparison(binary.op) => {
            vec![&mut binary.left, &mut binary.right]
        }
        Expr::Between(between) => vec![&mut between.expr, &mut between.low, &mut between.high],
        Expr::InList(list) => std::iter::once(&mut *list.expr).chain(&mut list.list).collect(),
        _ => Vec::new(),
    }
}

/// Beside a point in time a local one is that of the session's zone; whether there were both in a comparison.
pub fn in_one_zone(expr: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let mut operands = operands(expr);
    if !is_in_two_zones(operands.iter().map(|operand| &**operand), schema) {
        return Ok(false);
    }
    for operand in &mut operands {
        if is_local(operand, schema) {
            **operand = common::bring(std::mem::take(operand), plain(oids::TIMESTAMPTZ), schema)?;
        }
    }
    Ok(true)
}

/// Whether there are points in time among values, and local ones.
pub fn is_in_two_zones<'e>(
    values: impl Iterator<Item = &'e Expr> + Clone,
    schema: &DFSchema,
) -> bool {
    let is_point = |expr: &Expr| {
        arrow_type_of(expr, schema).is_ok_and(|ty| matches!(ty, DataType::Timestamp(_, Some(_))))
    };
    values.clone().any(is_point) && values.into_iter().any(|expr| is_local(expr, schema))
}

fn is_local(expr: &Expr, schema: &DFSchema) -> bool {
    arrow_type_of(expr, schema)
        .is_ok_and(|ty| matches!(ty, DataType::Timestamp(_, None) | DataType::Date32))
}

/// Makes a comparison of such values one of their measures; whether it was.
pub fn compare(expr: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let op = match expr {
        Expr::BinaryExpr(binary) => binary.op,
        Expr::Between(_) => Operator::GtEq,
        _ => Operator::Eq,
    };
    let mut operands = operands(expr);
    if operands.is_empty() {
        return Ok(false);
    }
    let types = operands.iter().filter_map(|operand| arrow_type_of(operand, schema).ok());
    let types: Vec<DataType> = types.collect();
    let has_float = types.iter().any(DataType::is_floating);
    if has_float && types.iter().any(|ty| *ty == EXACT || matches!(ty, DataType::Decimal128(..))) {
        return Ok(numerics::to_one(operands, schema));
    }
    let kind = match types.iter().any(|ty| matches!(ty, DataType::List(_))) {
        true => of_arrays(&operands, &types, op, schema)?,
        false if types.contains(&EXACT) => Some(Kind::Numeric),
        false => Kind::of(operands[0], schema),
    };
    let Some(kind) = kind else { return Ok(false) };
    let is_pair = operands.len() == 2;
    if kind == Kind::Jsonb
        && is_pair
        && json_ops::oid_of(operands[1], schema).is_some_and(|oid| oid != oids::JSONB)
    {
        return Ok(false);
    }
    operands.iter_mut().try_for_each(|operand| kind.measure(operand, schema))?;
    Ok(true)
}

/// By what operands are compared of which one is an array, if it is not the arrays themselves; 42883 for arrays of
/// different types.
fn of_arrays(
    operands: &[&mut Expr],
    types: &[DataType],
    op: Operator,
    schema: &DFSchema,
) -> Result<Option<Kind>> {
    use Operator::{Gt, GtEq, Lt, LtEq};
    // An array beside anything else is compared by no operator, which is found out later.
    let is_array = |(operand, ty): (&&mut Expr, &DataType)| {
        matches!(ty, DataType::List(_) | DataType::Null) || unknown_literal(operand).is_some()
    };
    if operands.len() != types.len() || !operands.iter().zip(types).all(is_array) {
        return Ok(None);
    }
    if let Some(unlike) = Elements::unlike(operands.iter().map(|operand| &**operand), schema) {
        let [first, other] = unlike.map(type_name);
        return Err(does_not_exist(&first, &op, &other).into());
    }
    let orders = matches!(op, Lt | LtEq | Gt | GtEq);
    let array = operands.iter().find_map(|operand| Elements::of(operand, schema));
    // Arrays of arrays may have decimals of several scales, which DataFusion brings to one.
    let item = |ty: &DataType| match ty {
        DataType::List(item) if item.data_type().is_string() => Some(DataType::Utf8View),
        DataType::List(item) => Some(item.data_type().clone()),
        _ => None,
    };
    let mut items = types.iter().filter_map(item);
    let first = items.next();
    let is_one = items.all(|other| Some(other) == first);
    let measured = array.filter(|(elements, _)| elements.have_several_forms() || orders && is_one);
    Ok(measured.map(|(elements, oid)| Kind::Array(elements, oid)))
}

/// The sides of a comparison as they are compared.
pub fn pair(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> Result<(Expr, Expr)> {
    let mut pair = Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
    compare(&mut pair, schema)?;
    match pair {
        Expr::BinaryExpr(pair) => Ok((*pair.left, *pair.right)),
        _ => Err(crate::planning::internal("a comparison stays one")),
    }
}

/// Takes the measures of values in place of them; whether there was one.
pub fn measure_all<'e>(
    exprs: impl IntoIterator<Item = &'e mut Expr>,
    schema: &DFSchema,
) -> Result<bool> {
    let mut changed = false;
    for expr in exprs {
        if let Some(kind) = Kind::of(expr, schema) {
            kind.measure(expr, schema)?;
            changed = true;
        }
    }
    Ok(changed)
}

/// Whether values of an expression are measured.
pub fn is_measured(expr: &Expr, schema: &DFSchema) -> bool {
    Kind::of(expr, schema).is_some()
}

/// Makes an order by such values one by their measures; whether there was one.
pub fn order(keys: &mut [Sort], schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    for key in keys {
        // Arrow has the NULLs among an array's elements where those of the column are.
        let kind = match Elements::of(&key.expr, schema) {
            Some((elements, oid)) if key.nulls_first == key.asc => Some(Kind::Array(elements, oid)),
            _ => Kind::of(&key.expr, schema),
        };
        if let Some(kind) = kind {
            kind.measure(&mut key.expr, schema)?;
            changed = true;
        }
    }
    Ok(changed)
}
