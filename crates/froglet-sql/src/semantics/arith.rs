//! `+ - * / %` with PostgreSQL's types and errors: integers do not wrap, floats do not silently
//! become infinite, division by zero is an error, decimals are exact.
//!
//! Result types: the wider integer; double precision unless both are real; numeric with integers.
//! Scales of numeric: the larger for `+ - %`; the sum for `*`. A quotient's is chosen by its size, so it is an
//! exact numeric ([`super::numerics`]), as is what is computed of one, and a product of very many digits.

use std::sync::{Arc, LazyLock};

use arrow::array::*;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Float32Type, Float64Type, Int32Type, i256,
};
use arrow::error::ArrowError;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use froglet_engine::SqlState;

use super::{expr_names, numerics};
use crate::error::SqlError;
use crate::types::EXACT;
use crate::types::cell::cell_at;
use crate::types::datetime::{DATE_INFINITY, DATE_MINUS_INFINITY};
use crate::types::exact::Exact;
use crate::types::numeric::{exact_of, power};

/// Most digits that the type of a result has, which values of columns hardly have. One more means that there may
/// be as many as there is room for: of a sum, or of a column that was made for them.
const COMPUTED_DIGITS: u8 = DECIMAL128_MAX_PRECISION - 1;
/// Factors of so many digits that values of columns would have to be large ones for a product to need them all.
const MAX_PRODUCT_DIGITS: u8 = 50;
/// Most digits after the point of a product that is a decimal.
const MAX_PRODUCT_SCALE: i8 = 20;

/// The operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
}

impl Op {
    /// As SQL writes it.
    pub fn symbol(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul => "*",
            Op::Div => "/",
            Op::Rem => "%",
        }
    }
}

/// The function behind an operator.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Arith {
    op: Op,
    signature: Signature,
}

impl Arith {
    pub(crate) fn op(&self) -> Op {
        self.op
    }
}

/// The shared function of an operator.
pub fn function(op: Op) -> Arc<ScalarUDF> {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 5]> = LazyLock::new(|| {
        [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem].map(|op| {
            let signature = Signature::user_defined(Volatility::Immutable);
            Arc::new(ScalarUDF::new_from_impl(Arith { op, signature }))
        })
    });
    FUNCTIONS[op as usize].clone()
}

/// The types two operands are brought to, or `None` where there is no such operator here.
pub fn operand_types(op: Op, left: &DataType, right: &DataType) -> Option<(DataType, DataType)> {
    use DataType::*;
    let same = |t: DataType| Some((t.clone(), t));
    match (left, right) {
        (Null, Null) => same(Int32),
        (Null, t) => operand_types(op, t, t),
        (t, Null) => operand_types(op, t, t),
        (Date32, Int16 | Int32 | Int64) if matches!(op, Op::Add | Op::Sub) => Some((Date32, Int32)),
        (Int16 | Int32 | Int64, Date32) if op == Op::Add => Some((Int32, Date32)),
        (Date32, Date32) if op == Op::Sub => same(Date32),
        (l, r) if is_integer(l) && is_integer(r) => {
            same([Int16, Int32, Int64][rank(l).max(rank(r))].clone())
        }
        (Float32, Float32) => same(Float32),
        (l, r) if (is_float(l) && is_number(r)) || (is_number(l) && is_float(r)) => {
            (op != Op::Rem).then_some((Float64, Float64))
        }
        (l, r) if is_number(l) && is_number(r) => Some((decimal_of(l), decimal_of(r))),
        _ => None,
    }
}

fn rank(ty: &DataType) -> usize {
    match ty {
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => 0,
        DataType::UInt16 | DataType::Int32 => 1,
        _ => 2,
    }
}

fn is_integer(ty: &DataType) -> bool {
    ty.is_integer()
}

fn is_float(ty: &DataType) -> bool {
    matches!(ty, DataType::Float32 | DataType::Float64)
}

fn is_number(ty: &DataType) -> bool {
    is_integer(ty) || is_float(ty) || matches!(ty, DataType::Decimal128(..) | &EXACT)
}

fn decimal_of(ty: &DataType) -> DataType {
    match ty {
        DataType::Decimal128(precision, scale) => DataType::Decimal128(*precision, *scale),
        &EXACT => EXACT,
        DataType::Int64 | DataType::UInt64 => DataType::Decimal128(20, 0),
        _ => DataType::Decimal128(10, 0),
    }
}

fn result_type(op: Op, left: &DataType, right: &DataType) -> DataType {
    match (left, right) {
        (&EXACT, _) | (_, &EXACT) => EXACT,
        (DataType::Decimal128(p, l), DataType::Decimal128(q, r)) => match op {
            Op::Div => EXACT,
            _ if *p.max(q) == DECIMAL128_MAX_PRECISION => EXACT,
            Op::Mul if l + r > MAX_PRODUCT_SCALE || p + q > MAX_PRODUCT_DIGITS => EXACT,
            Op::Mul => DataType::Decimal128((p + q).min(COMPUTED_DIGITS), l + r),
            _ => {
                let (scale, whole) = (*l.max(r), (*p as i8 - l).max(*q as i8 - r));
                let digits = (scale + whole + 1).unsigned_abs().min(COMPUTED_DIGITS);
                DataType::Decimal128(digits.max(1), scale)
            }
        },
        (DataType::Date32, DataType::Date32) => DataType::Int32,
        (DataType::Int32, DataType::Date32) => DataType::Date32,
        (l, _) => l.clone(),
    }
}

impl ScalarUDFImpl for Arith {
    fn name(&self) -> &str {
        self.op.symbol()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(expr_names::infix(self.name(), args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [l, r] => operand_types(self.op, l, r).map(|(l, r)| vec![l, r]),
            _ => None,
        }
        .ok_or_else(|| {
            DataFusionError::Plan(format!("no operator {} for {types:?}", self.op.symbol()))
        })
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [l, r] => Ok(result_type(self.op, l, r)),
            _ => Err(DataFusionError::Internal("an operator has two operands".to_owned())),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = &args.args[..] else {
            return Err(DataFusionError::Internal("an operator has two operands".to_owned()));
        };
        evaluate(self.op, left, right, args.return_field.data_type())
    }
}

/// The operator over columns and scalars.
fn evaluate(
    op: Op,
    left: &ColumnarValue,
    right: &ColumnarValue,
    result: &DataType,
) -> Result<ColumnarValue> {
    match (left.data_type(), right.data_type()) {
        _ if *result == EXACT => apply(left, right, |a, b| exacts(op, a, b)),
        (DataType::Decimal128(_, l), DataType::Decimal128(_, r)) => {
            let DataType::Decimal128(_, scale) = result else {
                return Err(DataFusionError::Internal("decimals make decimals".to_owned()));
            };
            let scales = Scales { left: l, right: r, result: *scale };
            apply(left, right, |a, b| decimals(op, a, b, scales, result))
        }
        (DataType::Float64, _) => apply(left, right, |a, b| floats::<Float64Type>(op, a, b, |v| v)),
        (DataType::Float32, _) => {
            apply(left, right, |a, b| floats::<Float32Type>(op, a, b, f64::from))
        }
        (DataType::Date32, _) | (_, DataType::Date32) => {
            apply(left, right, |a, b| dates(op, a, b, result))
        }
        _ => apply(left, right, |a, b| integers(op, a, b)),
    }
    .map_err(|e| out_of_range(e, result))
}

fn integers(op: Op, a: &dyn Datum, b: &dyn Datum) -> Result<ArrayRef, ArrowError> {
    match op {
        Op::Add => numeric::add(a, b),
        Op::Sub => numeric::sub(a, b),
        Op::Mul => numeric::mul(a, b),
        Op::Div => numeric::div(a, b),
        Op::Rem => numeric::rem(a, b),
    }
}

fn exacts(op: Op, a: &dyn Datum, b: &dyn Datum) -> Result<ArrayRef, ArrowError> {
    let ((left, left_scalar), (right, right_scalar)) = (a.get(), b.get());
    let rows = if left_scalar { right.len() } else { left.len() };
    let number = |array: &dyn Array, is_scalar: bool, row: usize| {
        exact_of(&cell_at(array, if is_scalar { 0 } else { row }))
    };
    let of_row = |row: usize| {
        let left = number(left, left_scalar, row);
        match (left, number(right, right_scalar, row)) {
            (Some(left), Some(right)) => exact(op, &left, &right).map(Some),
            _ => Ok(None),
        }
    };
    let values = (0..rows).map(of_row).collect::<Result<Vec<_>, SqlError>>();
    Ok(numerics::array(values.map_err(external)?))
}

fn exact(op: Op, left: &Exact, right: &Exact) -> Result<Exact, SqlError> {
    Ok(match op {
        Op::Add => left.add(right)?,
        Op::Sub => left.sub(right)?,
        Op::Mul => left.mul(right)?,
        Op::Div => left.div(right)?,
        Op::Rem => left.rem(right)?,
    })
}

/// Arrow's overflow becomes PostgreSQL's, which names the type.
fn out_of_range(e: DataFusionError, result: &DataType) -> DataFusionError {
    let DataFusionError::ArrowError(arrow, _) = &e else { return e };
    if !matches!(**arrow, ArrowError::ArithmeticOverflow(_)) {
        return e;
    }
    overflow(result).into()
}

/// 22003
pub(crate) fn overflow(result: &DataType) -> SqlError {
    let name = match result {
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::Date32 => "date",
        _ => "numeric",
    };
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
}

fn external(e: SqlError) -> ArrowError {
    ArrowError::ExternalError(Box::new(e))
}

/// 22012
pub fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// Both operands as arrays of one length; a scalar is repeated by index.
struct Pair<'a, T> {
    left: &'a T,
    right: &'a T,
    left_scalar: bool,
    right_scalar: bool,
    len: usize,
}

impl<'a, T: Array + 'static> Pair<'a, T> {
    fn of(a: &'a dyn Datum, b: &'a dyn Datum) -> Result<Self, ArrowError> {
        let (left, left_scalar) = a.get();
        let (right, right_scalar) = b.get();
        let down = |array: &'a dyn Array| {
            array.as_any().downcast_ref::<T>().ok_or_else(|| {
                ArrowError::ComputeError(format!("unexpected operand {}", array.data_type()))
            })
        };
        let len = if left_scalar { right.len() } else { left.len() };
        Ok(Pair { left: down(left)?, right: down(right)?, left_scalar, right_scalar, len })
    }

    /// Indexes of both sides for each row where neither is NULL.
    fn rows(&self) -> impl Iterator<Item = Option<(usize, usize)>> + '_ {
        (0..self.len).map(|row| {
            let l = if self.left_scalar { 0 } else { row };
            let r = if self.right_scalar { 0 } else { row };
            (self.left.is_valid(l) && self.right.is_valid(r)).then_some((l, r))
        })
    }
}

fn floats<T: ArrowPrimitiveType>(
    op: Op,
    a: &dyn Datum,
    b: &dyn Datum,
    wide: fn(T::Native) -> f64,
) -> Result<ArrayRef, ArrowError> {
    let computed = integers(op, a, b)?;
    let pair = Pair::<PrimitiveArray<T>>::of(a, b)?;
    let values = computed.as_primitive::<T>();
    for (row, indexes) in pair.rows().enumerate() {
        let Some((l, r)) = indexes else { continue };
        let value = wide(values.value(row));
        if value.is_finite() && value != 0.0 {
            continue;
        }
        let (left, right) = (wide(pair.left.value(l)), wide(pair.right.value(r)));
        check_float(op, left, right, value).map_err(external)?;
    }
    Ok(computed)
}

fn check_float(op: Op, left: f64, right: f64, value: f64) -> Result<(), SqlError> {
    let out = |what| {
        Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value out of range: {what}"),
        ))
    };
    if op == Op::Div && right == 0.0 && !left.is_nan() {
        return Err(division_by_zero());
    }
    if value.is_infinite() && left.is_finite() && right.is_finite() {
        return out("overflow");
    }
    match op {
        Op::Mul if value == 0.0 && left != 0.0 && right != 0.0 => out("underflow"),
        Op::Div if value == 0.0 && left != 0.0 && right.is_finite() => out("underflow"),
        _ => Ok(()),
    }
}

fn dates(op: Op, a: &dyn Datum, b: &dyn Datum, result: &DataType) -> Result<ArrayRef, ArrowError> {
    // Days are plain integers underneath.
    let plain = |d: &dyn Datum| -> Result<ArrayRef, ArrowError> {
        arrow::compute::cast(&make_array(d.get().0.to_data()), &DataType::Int32)
    };
    let (left, right) = (plain(a)?, plain(b)?);
    let is_date = |d: &dyn Datum| *d.get().0.data_type() == DataType::Date32;
    if [(&left, a), (&right, b)].iter().any(|(days, of)| is_date(*of) && has_infinity(days)) {
        return infinite_dates(op, (a, &left), (b, &right), result);
    }
    let (left_scalar, right_scalar) = (a.get().1, b.get().1);
    let days = match (left_scalar, right_scalar) {
        (false, false) => integers(op, &left, &right),
        (true, false) => integers(op, &Scalar::new(left), &right),
        (false, true) => integers(op, &left, &Scalar::new(right)),
        (true, true) => integers(op, &Scalar::new(left), &Scalar::new(right)),
    }?;
    arrow::compute::cast(&days, result)
}

fn has_infinity(days: &ArrayRef) -> bool {
    days.as_primitive::<Int32Type>().iter().flatten().any(|day| day_of(day).is_none())
}

/// A day that is one; `None` for the infinities.
fn day_of(day: i32) -> Option<i32> {
    (day != DATE_INFINITY && day != DATE_MINUS_INFINITY).then_some(day)
}

/// As [`dates`], where some are infinite: they stay so, and have no difference.
fn infinite_dates(
    op: Op,
    (a, left): (&dyn Datum, &ArrayRef),
    (b, right): (&dyn Datum, &ArrayRef),
    result: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let range = |text: &str| external(SqlError::new(SqlState::new("22008"), text));
    let rows = if a.get().1 { right.len() } else { left.len() };
    let (left, right) = (left.as_primitive::<Int32Type>(), right.as_primitive::<Int32Type>());
    let is_date = |d: &dyn Datum| *d.get().0.data_type() == DataType::Date32;
    let mut days = Int32Builder::with_capacity(rows);
    for row in 0..rows {
        let at = |d: &dyn Datum| if d.get().1 { 0 } else { row };
        let (l, r) = (at(a), at(b));
        if left.is_null(l) || right.is_null(r) {
            days.append_null();
            continue;
        }
        let (x, y) = (left.value(l), right.value(r));
        let infinite = [(x, is_date(a)), (y, is_date(b))]
            .into_iter()
            .find(|(day, date)| *date && day_of(*day).is_none());
        let value = match infinite {
            Some(_) if is_date(a) && is_date(b) => {
                return Err(range("cannot subtract infinite dates"));
            }
            Some((day, _)) => Some(day),
            None if op == Op::Sub => x.checked_sub(y),
            None => x.checked_add(y),
        };
        days.append_value(value.ok_or_else(|| range("date out of range"))?);
    }
    let days: ArrayRef = Arc::new(days.finish());
    arrow::compute::cast(&days, result)
}

#[derive(Clone, Copy)]
struct Scales {
    left: i8,
    right: i8,
    result: i8,
}

fn decimals(
    op: Op,
    a: &dyn Datum,
    b: &dyn Datum,
    scales: Scales,
    result: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let pair = Pair::<PrimitiveArray<Decimal128Type>>::of(a, b)?;
    let mut builder = Decimal128Builder::with_capacity(pair.len).with_data_type(result.clone());
    for indexes in pair.rows() {
        match indexes {
            None => builder.append_null(),
            Some((l, r)) => {
                let value = decimal(op, pair.left.value(l), pair.right.value(r), scales)
                    .map_err(external)?;
                builder.append_value(value);
            }
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn decimal(op: Op, left: i128, right: i128, scales: Scales) -> Result<i128, SqlError> {
    if right == 0 && op == Op::Rem {
        return Err(division_by_zero());
    }
    let wide =
        |v: i128, by: i8| i256::from_i128(v).checked_mul(i256::from_i128(power(by.max(0) as u32)));
    let value = match op {
        Op::Add | Op::Sub | Op::Rem => {
            let l = wide(left, scales.result - scales.left);
            let r = wide(right, scales.result - scales.right);
            match (l, r) {
                (Some(l), Some(r)) => match op {
                    Op::Add => l.checked_add(r),
                    Op::Sub => l.checked_sub(r),
                    _ => l.checked_rem(r),
                },
                _ => None,
            }
        }
        Op::Mul => i256::from_i128(left).checked_mul(i256::from_i128(right)),
        Op::Div => unreachable!("a quotient is exact"),
    };
    value
        .and_then(|v| v.to_i128())
        .filter(|v| v.unsigned_abs() < power(38).unsigned_abs())
        .ok_or_else(crate::types::numeric::too_wide)
}

/// The name under which the checked minus of one operand is registered.
pub const NEGATIVE: &str = "-";

/// `-x`, checked.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Negative {
    signature: Signature,
}

impl Default for Negative {
    fn default() -> Self {
        Negative { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Negative {
    fn name(&self) -> &str {
        NEGATIVE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [t] if is_number(t) || t.is_null() => Ok(t.clone()),
            [t @ (DataType::Interval(_) | DataType::Duration(_))] => Ok(t.clone()),
            _ => Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, "operator does not exist: -")
                .hint("No operator matches the given name and argument type.")
                .into()),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let result = args.return_field.data_type();
        let run = |array: &ArrayRef| match array.data_type() {
            DataType::Null => Ok(array.clone()),
            &EXACT => Ok(numerics::array(
                (0..array.len()).map(|row| Some(exact_of(&cell_at(array.as_ref(), row))?.neg())),
            )),
            _ => numeric::neg(array).map_err(|e| out_of_range(e.into(), result)),
        };
        match &args.args[0] {
            ColumnarValue::Array(array) => run(array).map(ColumnarValue::Array),
            ColumnarValue::Scalar(scalar) => {
                let array = run(&scalar.to_array()?)?;
                datafusion::common::ScalarValue::try_from_array(&array, 0)
                    .map(ColumnarValue::Scalar)
            }
        }
    }
}
