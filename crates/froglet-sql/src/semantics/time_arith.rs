//! Arithmetic of times: dates, times of day, timestamps and intervals.
//!
//! ```text
//!   timestamp ± interval, date ± interval   timestamp        time ± interval      time
//!   timestamp - timestamp, time - time      interval         date + time          timestamp
//!   interval ± interval                     interval         interval * / number  interval
//! ```
//! Of a timestamp with time zone months and days are added in the session's zone. [`Span`] is what
//! intervals are compared by: Arrow would compare their months first.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, Decimal128Builder};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use froglet_engine::{ColumnType, Interval, Value};

use super::arith::{Op, division_by_zero};
use super::expr_names;
use crate::context::current_session;
use crate::error::SqlError;
use crate::types::cell::{Cell, cell_at};
use crate::types::interval::{self, shift, turn};
use crate::types::{Zone, array_of};

/// How an interval is in Arrow.
pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

fn is_zoned(ty: &DataType) -> bool {
    matches!(ty, DataType::Timestamp(_, Some(_)))
}

/// The types two operands are brought to and the result's, or `None` where there is no such operator
/// here.
pub fn operand_types(op: Op, left: &DataType, right: &DataType) -> Option<[DataType; 3]> {
    use DataType::{Date32, Float64, Interval, Time64, Timestamp};
    let stamp = |ty: &DataType| if is_zoned(ty) { ty.clone() } else { TIMESTAMP };
    let is_moment = |ty: &DataType| matches!(ty, Date32 | Timestamp(..));
    let is_factor = |ty: &DataType| ty.is_numeric() || ty.is_null();
    Some(match (op, left, right) {
        (Op::Add, Date32, Time64(_)) => [TIMESTAMP, TIME, TIMESTAMP],
        (Op::Add, Time64(_), Date32) => [TIME, TIMESTAMP, TIMESTAMP],
        // As the two are once they have been brought to these types.
        (Op::Add, Timestamp(_, None), Time64(_)) => [TIMESTAMP, TIME, TIMESTAMP],
        (Op::Add, Time64(_), Timestamp(_, None)) => [TIME, TIMESTAMP, TIMESTAMP],
        (Op::Add | Op::Sub, l, Interval(_)) if is_moment(l) => [stamp(l), INTERVAL, stamp(l)],
        (Op::Add, Interval(_), r) if is_moment(r) => [INTERVAL, stamp(r), stamp(r)],
        (Op::Add | Op::Sub, Time64(_), Interval(_)) => [TIME, INTERVAL, TIME],
        (Op::Add, Interval(_), Time64(_)) => [INTERVAL, TIME, TIME],
        (Op::Add | Op::Sub, Interval(_), Interval(_)) => [INTERVAL, INTERVAL, INTERVAL],
        (Op::Sub, Time64(_), Time64(_)) => [TIME, TIME, INTERVAL],
        (Op::Sub, Timestamp(..), r) if is_moment(r) => difference(left, right),
        (Op::Sub, Date32, Timestamp(..)) => difference(left, right),
        (Op::Mul | Op::Div, Interval(_), r) if is_factor(r) => [INTERVAL, Float64, INTERVAL],
        (Op::Mul, l, Interval(_)) if is_factor(l) => [Float64, INTERVAL, INTERVAL],
        _ => return None,
    })
}

fn difference(left: &DataType, right: &DataType) -> [DataType; 3] {
    let zoned = [left, right].into_iter().find(|ty| is_zoned(ty));
    let both = zoned.cloned().unwrap_or(TIMESTAMP);
    [both.clone(), both, INTERVAL]
}

/// The function behind an operator.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct TimeArith {
    op: Op,
    signature: Signature,
}

/// The shared function of an operator.
pub fn function(op: Op) -> Arc<ScalarUDF> {
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 5]> = LazyLock::new(|| {
        [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem].map(|op| {
            let signature = Signature::any(2, Volatility::Stable);
            Arc::new(ScalarUDF::new_from_impl(TimeArith { op, signature }))
        })
    });
    FUNCTIONS[op as usize].clone()
}

impl ScalarUDFImpl for TimeArith {
    fn name(&self) -> &str {
        self.op.symbol()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(expr_names::infix(self.name(), args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [l, r] => operand_types(self.op, l, r).map(|[_, _, result]| result),
            _ => None,
        }
        .ok_or_else(|| DataFusionError::Plan(format!("no operator {} of {types:?}", self.name())))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let column = match args.return_field.data_type() {
            DataType::Interval(_) => ColumnType::Interval,
            DataType::Time64(_) => ColumnType::Time,
            ty if is_zoned(ty) => ColumnType::TimestampTz,
            _ => ColumnType::Timestamp,
        };
        let zone = match column {
            ColumnType::TimestampTz => current_session(&args.config_options).zone(),
            _ => Zone::UTC,
        };
        let scalars = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalars { 1 } else { args.number_rows };
        let operands = args.args.into_iter().map(|arg| arg.into_array(rows));
        let operands = operands.collect::<Result<Vec<ArrayRef>>>()?;
        let [left, right] = &operands[..] else {
            return Err(DataFusionError::Internal("an operator has two operands".to_owned()));
        };
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            let (l, r) = (cell_at(left.as_ref(), row), cell_at(right.as_ref(), row));
            values.push(compute(self.op, l, r, zone)?);
        }
        let array = array_of(column, &mut values.iter());
        match scalars {
            true => ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar),
            false => Ok(ColumnarValue::Array(array)),
        }
    }
}

fn compute(op: Op, left: Cell<'_>, right: Cell<'_>, zone: Zone) -> Result<Value, SqlError> {
    let interval = |months, days, us| Interval { months, days, us };
    Ok(match (op, left, right) {
        (_, Cell::Null, _) | (_, _, Cell::Null) => Value::Null,
        (_, Cell::Interval(m, d, us), Cell::Interval(m2, d2, us2)) => {
            let (a, b) = (interval(m, d, us), interval(m2, d2, us2));
            let b = if op == Op::Sub { interval::negate(b)? } else { b };
            Value::Interval(interval::add(a, b)?)
        }
        (Op::Mul, Cell::Interval(m, d, us), Cell::Float64(by))
        | (Op::Mul, Cell::Float64(by), Cell::Interval(m, d, us)) => {
            Value::Interval(interval::scale(interval(m, d, us), |v| v * by)?)
        }
        (Op::Div, _, Cell::Float64(0.0)) => return Err(division_by_zero()),
        (Op::Div, Cell::Interval(m, d, us), Cell::Float64(by)) => {
            Value::Interval(interval::scale(interval(m, d, us), |v| v / by)?)
        }
        (_, Cell::Time(us), Cell::Interval(m, d, by))
        | (_, Cell::Interval(m, d, by), Cell::Time(us)) => {
            Value::Time(turn(us, signed(op, interval(m, d, by))?))
        }
        (_, Cell::Time(to), Cell::Time(from)) => Value::Interval(interval(0, 0, to - from)),
        (_, Cell::Timestamp(us), Cell::Interval(m, d, by))
        | (_, Cell::Interval(m, d, by), Cell::Timestamp(us)) => {
            Value::Timestamp(shift(us, signed(op, interval(m, d, by))?, zone)?)
        }
        (_, Cell::TimestampTz(us), Cell::Interval(m, d, by))
        | (_, Cell::Interval(m, d, by), Cell::TimestampTz(us)) => {
            Value::TimestampTz(shift(us, signed(op, interval(m, d, by))?, zone)?)
        }
        (_, Cell::Timestamp(day), Cell::Time(us)) | (_, Cell::Time(us), Cell::Timestamp(day)) => {
            Value::Timestamp(shift(day, interval(0, 0, us), zone)?)
        }
        (_, Cell::Timestamp(to), Cell::Timestamp(from))
        | (_, Cell::TimestampTz(to), Cell::TimestampTz(from)) => {
            Value::Interval(interval::between(from, to)?)
        }
        _ => return Err(SqlError::unsupported("this operator of times")),
    })
}

fn signed(op: Op, by: Interval) -> Result<Interval, SqlError> {
    if op == Op::Sub { interval::negate(by) } else { Ok(by) }
}

/// The length of an interval, in microseconds: what it is compared by.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Span {
    signature: Signature,
}

/// The shared function.
pub fn span() -> Arc<ScalarUDF> {
    static SPAN: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Span { signature }))
    });
    SPAN.clone()
}

/// The lengths of intervals, in microseconds.
pub fn spans(intervals: &ArrayRef) -> ArrayRef {
    let mut spans = Decimal128Builder::with_capacity(intervals.len())
        .with_data_type(DataType::Decimal128(38, 0));
    for row in 0..intervals.len() {
        spans.append_option(match cell_at(intervals.as_ref(), row) {
            Cell::Interval(months, days, us) => Some(Interval { months, days, us }.span_us()),
            _ => None,
        });
    }
    Arc::new(spans.finish())
}

impl ScalarUDFImpl for Span {
    fn name(&self) -> &str {
        "froglet_span"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(38, 0))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &args.args[0] {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(spans(array))),
            ColumnarValue::Scalar(scalar) => {
                let array = spans(&scalar.to_array()?);
                ScalarValue::try_from_array(&array, 0).map(ColumnarValue::Scalar)
            }
        }
    }
}
