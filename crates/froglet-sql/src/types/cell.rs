//! One cell of a result, wherever it comes from: an Arrow array or a [`Value`]. The formats of
//! [`super::output`] are written once, over cells.

use super::EXACT;
use arrow::array::*;
use arrow::datatypes::*;
use froglet_engine::{ColumnType, Value};

/// A borrowed cell.
#[derive(Clone, Debug)]
pub enum Cell<'a> {
    /// NULL
    Null,
    /// boolean
    Bool(bool),
    /// smallint and smaller
    Int16(i16),
    /// integer
    Int32(i32),
    /// bigint
    Int64(i64),
    /// oid
    Oid(u32),
    /// Unsigned bigint, which PostgreSQL does not have.
    UInt64(u64),
    /// real
    Float32(f32),
    /// double precision
    Float64(f64),
    /// numeric: unscaled, scale
    Decimal(i128, i8),
    /// numeric: the bytes of [`super::exact`]
    Exact(&'a [u8]),
    /// text
    Text(&'a str),
    /// bytea
    Bytes(&'a [u8]),
    /// date
    Date(i32),
    /// time
    Time(i64),
    /// timestamp
    Timestamp(i64),
    /// timestamptz
    TimestampTz(i64),
    /// uuid
    Uuid([u8; 16]),
    /// interval: months, days, microseconds
    Interval(i32, i32, i64),
    /// An array
    List(ArrayRef),
    /// Of a type that has no PostgreSQL form: Arrow's own text.
    Other(String),
}

fn down<T: 'static>(array: &dyn Array) -> &T {
    array.as_any().downcast_ref().expect("an array's type and its class agree")
}

/// The cell of a row of an array. The row must exist.
pub fn cell_at(array: &dyn Array, row: usize) -> Cell<'_> {
    if array.is_null(row) {
        return Cell::Null;
    }
    match array.data_type() {
        DataType::Null => Cell::Null,
        DataType::Boolean => Cell::Bool(down::<BooleanArray>(array).value(row)),
        DataType::Int8 => Cell::Int16(down::<Int8Array>(array).value(row).into()),
        DataType::UInt8 => Cell::Int16(down::<UInt8Array>(array).value(row).into()),
        DataType::Int16 => Cell::Int16(down::<Int16Array>(array).value(row)),
        DataType::UInt16 => Cell::Int32(down::<UInt16Array>(array).value(row).into()),
        DataType::Int32 => Cell::Int32(down::<Int32Array>(array).value(row)),
        DataType::UInt32 => Cell::Oid(down::<UInt32Array>(array).value(row)),
        DataType::Int64 => Cell::Int64(down::<Int64Array>(array).value(row)),
        DataType::UInt64 => {
            let v = down::<UInt64Array>(array).value(row);
            i64::try_from(v).map_or(Cell::UInt64(v), Cell::Int64)
        }
        DataType::Float32 => Cell::Float32(down::<Float32Array>(array).value(row)),
        DataType::Float64 => Cell::Float64(down::<Float64Array>(array).value(row)),
        DataType::Decimal128(_, scale) => {
            Cell::Decimal(down::<Decimal128Array>(array).value(row), *scale)
        }
        DataType::Utf8 => Cell::Text(down::<StringArray>(array).value(row)),
        DataType::LargeUtf8 => Cell::Text(down::<LargeStringArray>(array).value(row)),
        DataType::Utf8View => Cell::Text(down::<StringViewArray>(array).value(row)),
        DataType::Binary => Cell::Bytes(down::<BinaryArray>(array).value(row)),
        &EXACT => Cell::Exact(down::<LargeBinaryArray>(array).value(row)),
        DataType::BinaryView => Cell::Bytes(down::<BinaryViewArray>(array).value(row)),
        DataType::FixedSizeBinary(_) => {
            let bytes = down::<FixedSizeBinaryArray>(array).value(row);
            <[u8; 16]>::try_from(bytes).map_or(Cell::Bytes(bytes), Cell::Uuid)
        }
        DataType::Date32 => Cell::Date(down::<Date32Array>(array).value(row)),
        DataType::Timestamp(..) | DataType::Time64(_) | DataType::Time32(_) => time_at(array, row),
        DataType::Interval(_) => interval_at(array, row),
        DataType::Duration(unit) => duration_at(array, *unit, row),
        DataType::List(_) => Cell::List(down::<ListArray>(array).value(row)),
        DataType::LargeList(_) => Cell::List(down::<LargeListArray>(array).value(row)),
        _ => other_at(array, row),
    }
}

fn time_at(array: &dyn Array, row: usize) -> Cell<'_> {
    // Only microseconds are stored; the others come out of functions.
    let (us, zone) = match array.data_type() {
        DataType::Timestamp(unit, zone) => {
            let us = match unit {
                TimeUnit::Second => {
                    down::<TimestampSecondArray>(array).value(row).saturating_mul(1_000_000)
                }
                TimeUnit::Millisecond => {
                    down::<TimestampMillisecondArray>(array).value(row).saturating_mul(1_000)
                }
                TimeUnit::Microsecond => down::<TimestampMicrosecondArray>(array).value(row),
                TimeUnit::Nanosecond => {
                    down::<TimestampNanosecondArray>(array).value(row).div_euclid(1_000)
                }
            };
            (us, zone.is_some())
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            return Cell::Time(down::<Time64MicrosecondArray>(array).value(row));
        }
        DataType::Time64(_) => {
            return Cell::Time(down::<Time64NanosecondArray>(array).value(row) / 1_000);
        }
        _ => return other_at(array, row),
    };
    if zone { Cell::TimestampTz(us) } else { Cell::Timestamp(us) }
}

fn interval_at(array: &dyn Array, row: usize) -> Cell<'_> {
    match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let v = down::<IntervalMonthDayNanoArray>(array).value(row);
            Cell::Interval(v.months, v.days, v.nanoseconds / 1_000)
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            Cell::Interval(down::<IntervalYearMonthArray>(array).value(row), 0, 0)
        }
        _ => {
            let v = down::<IntervalDayTimeArray>(array).value(row);
            Cell::Interval(0, v.days, i64::from(v.milliseconds) * 1_000)
        }
    }
}

/// The difference of two timestamps is days and a time in PostgreSQL.
fn duration_at(array: &dyn Array, unit: TimeUnit, row: usize) -> Cell<'_> {
    let us = match unit {
        TimeUnit::Second => down::<DurationSecondArray>(array).value(row).saturating_mul(1_000_000),
        TimeUnit::Millisecond => {
            down::<DurationMillisecondArray>(array).value(row).saturating_mul(1_000)
        }
        TimeUnit::Microsecond => down::<DurationMicrosecondArray>(array).value(row),
        TimeUnit::Nanosecond => down::<DurationNanosecondArray>(array).value(row) / 1_000,
    };
    let days = us / super::datetime::DAY_US;
    let days = i32::try_from(days).unwrap_or(0);
    Cell::Interval(0, days, us - i64::from(days) * super::datetime::DAY_US)
}

fn other_at(array: &dyn Array, row: usize) -> Cell<'_> {
    let text = arrow::util::display::array_value_to_string(array, row);
    Cell::Other(text.unwrap_or_default())
}

/// The cell of a value stored in a column type.
pub fn cell_of(value: &Value, column: ColumnType) -> Cell<'_> {
    match value {
        Value::Null => Cell::Null,
        Value::Bool(v) => Cell::Bool(*v),
        Value::Int16(v) => Cell::Int16(*v),
        Value::Int32(v) => Cell::Int32(*v),
        Value::Int64(v) => Cell::Int64(*v),
        Value::Float32(v) => Cell::Float32(*v),
        Value::Float64(v) => Cell::Float64(*v),
        Value::Decimal(v) => match column {
            ColumnType::Decimal { scale, .. } => Cell::Decimal(*v, scale),
            _ => Cell::Decimal(*v, 0),
        },
        Value::Numeric(v) => Cell::Exact(v),
        Value::Text(v) => Cell::Text(v),
        Value::Bytes(v) => Cell::Bytes(v),
        Value::Date(v) => Cell::Date(*v),
        Value::Timestamp(v) => Cell::Timestamp(*v),
        Value::TimestampTz(v) => Cell::TimestampTz(*v),
        Value::Uuid(v) => Cell::Uuid(*v),
        Value::Time(v) => Cell::Time(*v),
        Value::Interval(v) => Cell::Interval(v.months, v.days, v.us),
    }
}
