//! Between values and Arrow arrays of a [`ColumnType`].

use std::sync::Arc;

use arrow_array::builder::{
    BinaryViewBuilder, BooleanBuilder, FixedSizeBinaryBuilder, PrimitiveBuilder, StringViewBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::{Field, Schema};

use crate::value::{ColumnType, Interval, Row, Value};

/// The value at `row` of an array in the Arrow type of `ty`.
///
/// Panics if the array has another type: what comes from outside is cast first.
pub fn value_at(array: &dyn Array, row: usize, ty: ColumnType) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match ty {
        ColumnType::Bool => Value::Bool(array.as_boolean().value(row)),
        ColumnType::Int16 => Value::Int16(array.as_primitive::<Int16Type>().value(row)),
        ColumnType::Int32 => Value::Int32(array.as_primitive::<Int32Type>().value(row)),
        ColumnType::Int64 => Value::Int64(array.as_primitive::<Int64Type>().value(row)),
        ColumnType::Float32 => Value::Float32(array.as_primitive::<Float32Type>().value(row)),
        ColumnType::Float64 => Value::Float64(array.as_primitive::<Float64Type>().value(row)),
        ColumnType::Decimal { .. } => {
            Value::Decimal(array.as_primitive::<Decimal128Type>().value(row))
        }
        ColumnType::Text => Value::text(array.as_string_view().value(row)),
        ColumnType::Bytes => Value::Bytes(array.as_binary_view().value(row).into()),
        ColumnType::Numeric => Value::Numeric(array.as_binary_view().value(row).into()),
        ColumnType::Date => Value::Date(array.as_primitive::<Date32Type>().value(row)),
        ColumnType::Timestamp => {
            Value::Timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        ColumnType::TimestampTz => {
            Value::TimestampTz(array.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        ColumnType::Uuid => {
            let bytes = array.as_fixed_size_binary().value(row);
            Value::Uuid(bytes.try_into().expect("a uuid array has 16-byte values"))
        }
        ColumnType::Time => Value::Time(array.as_primitive::<Time64MicrosecondType>().value(row)),
        ColumnType::Interval => {
            let v = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            Value::Interval(Interval::of_arrow(v.months, v.days, v.nanoseconds))
        }
    }
}

/// An array of `ty` from values that `ty` accepts.
pub fn array_of<'a>(ty: ColumnType, values: impl Iterator<Item = &'a Value>) -> ArrayRef {
    match ty {
        ColumnType::Bool => {
            let mut builder = BooleanBuilder::new();
            values.for_each(|v| match v {
                Value::Bool(b) => builder.append_value(*b),
                other => builder.append_option(null_only(ty, other)),
            });
            Arc::new(builder.finish())
        }
        ColumnType::Int16 => primitive::<Int16Type>(ty, values, |v| match v {
            Value::Int16(v) => Some(*v),
            other => null_only(ty, other),
        }),
        ColumnType::Int32 => primitive::<Int32Type>(ty, values, |v| match v {
            Value::Int32(v) => Some(*v),
            other => null_only(ty, other),
        }),
        ColumnType::Int64 => primitive::<Int64Type>(ty, values, |v| match v {
            Value::Int64(v) => Some(*v),
            other => null_only(ty, other),
        }),
        ColumnType::Float32 => primitive::<Float32Type>(ty, values, |v| match v {
            Value::Float32(v) => Some(*v),
            other => null_only(ty, other),
        }),
        ColumnType::Float64 => primitive::<Float64Type>(ty, values, |v| match v {
            Value::Float64(v) => Some(*v),
            other => null_only(ty, other),
        }),
        ColumnType::Decimal { .. } => primitive::<Decimal128Type>(ty, values, |v| match v {
            Value::Decimal(v) => Some(*v),
            other => null_only(ty, other),
        }),
        ColumnType::Date => primitive::<Date32Type>(ty, values, |v| match v {
            Value::Date(v) => Some(*v),
            other => null_only(ty, other),
        }),
        ColumnType::Timestamp | ColumnType::TimestampTz => {
            primitive::<TimestampMicrosecondType>(ty, values, |v| match v {
                Value::Timestamp(v) | Value::TimestampTz(v) => Some(*v),
                other => null_only(ty, other),
            })
        }
        ColumnType::Time => primitive::<Time64MicrosecondType>(ty, values, |v| match v {
            Value::Time(v) => Some(*v),
            other => null_only(ty, other),
        }),
        ColumnType::Interval => primitive::<IntervalMonthDayNanoType>(ty, values, |v| match v {
            Value::Interval(v) => {
                Some(IntervalMonthDayNano::new(v.months, v.days, v.nanoseconds()))
            }
            other => null_only(ty, other),
        }),
        ColumnType::Text => {
            let mut builder = StringViewBuilder::new();
            values.for_each(|v| match v {
                Value::Text(s) => builder.append_value(s),
                other => builder.append_option(null_only::<&str>(ty, other)),
            });
            Arc::new(builder.finish())
        }
        ColumnType::Bytes | ColumnType::Numeric => {
            let mut builder = BinaryViewBuilder::new();
            values.for_each(|v| match v {
                Value::Bytes(b) | Value::Numeric(b) => builder.append_value(b),
                other => builder.append_option(null_only::<&[u8]>(ty, other)),
            });
            Arc::new(builder.finish())
        }
        ColumnType::Uuid => {
            let mut builder = FixedSizeBinaryBuilder::new(16);
            values.for_each(|v| match v {
                Value::Uuid(u) => builder.append_value(u).expect("a uuid has 16 bytes"),
                other => {
                    null_only::<()>(ty, other);
                    builder.append_null();
                }
            });
            Arc::new(builder.finish())
        }
    }
}

fn null_only<T>(ty: ColumnType, value: &Value) -> Option<T> {
    assert!(value.is_null(), "{value:?} in an array of {ty:?}");
    None
}

fn primitive<'a, T: ArrowPrimitiveType>(
    ty: ColumnType,
    values: impl Iterator<Item = &'a Value>,
    get: impl Fn(&Value) -> Option<T::Native>,
) -> ArrayRef {
    let mut builder =
        PrimitiveBuilder::<T>::with_capacity(values.size_hint().0).with_data_type(ty.arrow());
    values.for_each(|v| builder.append_option(get(v)));
    Arc::new(builder.finish())
}

/// A batch of rows, all of the given column types. Fields are named `c0`, `c1`, ….
pub fn batch_of(types: &[ColumnType], rows: &[Row]) -> RecordBatch {
    let fields: Vec<Field> = types
        .iter()
        .enumerate()
        .map(|(i, ty)| Field::new(format!("c{i}"), ty.arrow(), true))
        .collect();
    let columns = types
        .iter()
        .enumerate()
        .map(|(i, ty)| array_of(*ty, rows.iter().map(|row| &row[i])))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .expect("columns were built with the types of their fields and one length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric;

    #[test]
    fn every_type_comes_back_from_its_array() {
        let rows: Vec<(ColumnType, Value)> = vec![
            (ColumnType::Bool, Value::Bool(true)),
            (ColumnType::Int16, Value::Int16(-2)),
            (ColumnType::Int32, Value::Int32(7)),
            (ColumnType::Int64, Value::Int64(i64::MIN)),
            (ColumnType::Float32, Value::Float32(1.5)),
            (ColumnType::Float64, Value::Float64(-0.25)),
            (ColumnType::Decimal { precision: 10, scale: 2 }, Value::Decimal(-123)),
            (ColumnType::Text, Value::text("longer than twelve bytes")),
            (ColumnType::Bytes, Value::Bytes([0, 255].into())),
            (ColumnType::Numeric, Value::Numeric(numeric::of_unscaled(-12_300, 3))),
            (ColumnType::Date, Value::Date(-1)),
            (ColumnType::Timestamp, Value::Timestamp(5)),
            (ColumnType::TimestampTz, Value::TimestampTz(6)),
            (ColumnType::Uuid, Value::Uuid([9; 16])),
            (ColumnType::Time, Value::Time(86_400_000_000)),
            (
                ColumnType::Interval,
                Value::Interval(Interval { months: -1, days: 40, us: -Interval::MAX_US }),
            ),
        ];
        for (ty, value) in rows {
            assert!(ty.accepts(&value));
            let array = array_of(ty, [&value, &Value::Null].into_iter());
            assert_eq!(array.data_type(), &ty.arrow());
            assert_eq!(value_at(&array, 0, ty), value);
            assert_eq!(value_at(&array, 1, ty), Value::Null);
        }
    }
}
