//! Values to and from Arrow arrays and DataFusion scalars.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::ScalarValue;
use froglet_engine::{ColumnType, Interval, SqlState, Value};

use super::cell::{Cell, cell_at};
use super::{EXACT, Zone, arrow_of_column, oid_of_arrow, output};
use crate::error::SqlError;

/// The value of a row of an array, as a column of this type stores it. The array's type need only
/// be of the same kind (any string array for text). What does not fit is NULL: cast first.
pub fn value_at(array: &dyn Array, row: usize, column: ColumnType) -> Value {
    match (column, cell_at(array, row)) {
        (_, Cell::Null) => Value::Null,
        (ColumnType::Bool, Cell::Bool(v)) => Value::Bool(v),
        (ColumnType::Int16, Cell::Int16(v)) => Value::Int16(v),
        (ColumnType::Int32, Cell::Int32(v)) => Value::Int32(v),
        (ColumnType::Int32, Cell::Int16(v)) => Value::Int32(v.into()),
        (ColumnType::Int64, Cell::Int64(v)) => Value::Int64(v),
        (ColumnType::Int64, Cell::Int32(v)) => Value::Int64(v.into()),
        (ColumnType::Int64, Cell::Int16(v)) => Value::Int64(v.into()),
        (ColumnType::Int64, Cell::Oid(v)) => Value::Int64(v.into()),
        (ColumnType::Float32, Cell::Float32(v)) => Value::Float32(v),
        (ColumnType::Float64, Cell::Float64(v)) => Value::Float64(v),
        (ColumnType::Float64, Cell::Float32(v)) => Value::Float64(v.into()),
        (ColumnType::Decimal { scale, .. }, Cell::Decimal(v, from)) => {
            super::numeric::rescale(v, from, scale).map_or(Value::Null, Value::Decimal)
        }
        (ColumnType::Numeric, Cell::Exact(v)) => Value::Numeric(v.into()),
        (ColumnType::Numeric, cell) => match super::numeric::exact_of(&cell) {
            Some(value) => Value::Numeric(value.encode().into()),
            None => Value::Null,
        },
        (ColumnType::Text, Cell::Text(v)) => Value::text(v),
        (ColumnType::Text, list @ Cell::List(_)) => {
            let mut text = Vec::new();
            Zone::UTC.run(|| output::cell_text(&list, oid_of_arrow(array.data_type()), &mut text));
            Value::text(String::from_utf8_lossy(&text))
        }
        (ColumnType::Bytes, Cell::Bytes(v)) => Value::Bytes(v.into()),
        (ColumnType::Bytes, Cell::Uuid(v)) => Value::Bytes(v.to_vec().into_boxed_slice()),
        (ColumnType::Date, Cell::Date(v)) => Value::Date(v),
        (ColumnType::Timestamp, Cell::Timestamp(v) | Cell::TimestampTz(v)) => Value::Timestamp(v),
        (ColumnType::TimestampTz, Cell::Timestamp(v) | Cell::TimestampTz(v)) => {
            Value::TimestampTz(v)
        }
        (ColumnType::Uuid, Cell::Uuid(v)) => Value::Uuid(v),
        (ColumnType::Time, Cell::Time(v)) => Value::Time(v),
        (ColumnType::Interval, Cell::Interval(months, days, us)) => {
            Value::Interval(Interval { months, days, us })
        }
        _ => Value::Null,
    }
}

macro_rules! collect {
    ($values:ident, $builder:expr, $variant:ident) => {{
        let mut builder = $builder;
        for value in $values {
            match value {
                Value::$variant(v) => builder.append_value(v.clone()),
                _ => builder.append_null(),
            }
        }
        Arc::new(builder.finish()) as ArrayRef
    }};
}

/// An array of values of one column type, in [`arrow_of_column`]'s type. A value of another
/// kind is NULL.
pub fn array_of(column: ColumnType, values: &mut dyn Iterator<Item = &Value>) -> ArrayRef {
    match column {
        ColumnType::Bool => collect!(values, BooleanBuilder::new(), Bool),
        ColumnType::Int16 => collect!(values, Int16Builder::new(), Int16),
        ColumnType::Int32 => collect!(values, Int32Builder::new(), Int32),
        ColumnType::Int64 => collect!(values, Int64Builder::new(), Int64),
        ColumnType::Float32 => collect!(values, Float32Builder::new(), Float32),
        ColumnType::Float64 => collect!(values, Float64Builder::new(), Float64),
        ColumnType::Decimal { .. } => {
            let builder = Decimal128Builder::new().with_data_type(column.arrow());
            collect!(values, builder, Decimal)
        }
        ColumnType::Text => {
            let mut builder = StringViewBuilder::new();
            for value in values {
                match value {
                    Value::Text(v) => builder.append_value(v.as_str()),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        ColumnType::Numeric => {
            let mut builder = LargeBinaryBuilder::new();
            for value in values {
                match value {
                    Value::Numeric(v) => builder.append_value(v),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        ColumnType::Bytes => {
            let mut builder = BinaryViewBuilder::new();
            for value in values {
                match value {
                    Value::Bytes(v) => builder.append_value(v),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        ColumnType::Date => collect!(values, Date32Builder::new(), Date),
        ColumnType::Timestamp => collect!(values, TimestampMicrosecondBuilder::new(), Timestamp),
        ColumnType::TimestampTz => {
            let builder = TimestampMicrosecondBuilder::new().with_data_type(column.arrow());
            collect!(values, builder, TimestampTz)
        }
        ColumnType::Uuid => uuid_array(values),
        ColumnType::Time => collect!(values, Time64MicrosecondBuilder::new(), Time),
        ColumnType::Interval => {
            let native = |value: &Value| match value {
                Value::Interval(v) => Some(arrow_interval(*v)),
                _ => None,
            };
            Arc::new(values.map(native).collect::<IntervalMonthDayNanoArray>())
        }
    }
}

fn arrow_interval(v: Interval) -> IntervalMonthDayNano {
    IntervalMonthDayNano::new(v.months, v.days, v.nanoseconds())
}

fn uuid_array(values: &mut dyn Iterator<Item = &Value>) -> ArrayRef {
    let mut builder = FixedSizeBinaryBuilder::new(16);
    for value in values {
        match value {
            Value::Uuid(v) => builder.append_value(v).expect("a UUID has 16 bytes"),
            _ => builder.append_null(),
        }
    }
    Arc::new(builder.finish())
}

/// What is computed, as a table stores it.
pub fn as_stored(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        &EXACT => arrow::compute::cast(array, &ColumnType::Numeric.arrow())
            .expect("bytes are bytes in any layout"),
        _ => array.clone(),
    }
}

/// What a column stores, as it is computed with.
pub fn as_computed(array: &ArrayRef, column: ColumnType) -> ArrayRef {
    match column {
        ColumnType::Numeric => {
            arrow::compute::cast(array, &EXACT).expect("bytes are bytes in any layout")
        }
        _ => array.clone(),
    }
}

/// A value as a DataFusion scalar, in [`arrow_of_column`]'s type.
pub fn scalar_of(value: &Value, column: ColumnType) -> ScalarValue {
    match (column, value) {
        (ColumnType::Bool, Value::Bool(v)) => ScalarValue::Boolean(Some(*v)),
        (ColumnType::Int16, Value::Int16(v)) => ScalarValue::Int16(Some(*v)),
        (ColumnType::Int32, Value::Int32(v)) => ScalarValue::Int32(Some(*v)),
        (ColumnType::Int64, Value::Int64(v)) => ScalarValue::Int64(Some(*v)),
        (ColumnType::Float32, Value::Float32(v)) => ScalarValue::Float32(Some(*v)),
        (ColumnType::Float64, Value::Float64(v)) => ScalarValue::Float64(Some(*v)),
        (ColumnType::Decimal { precision, scale }, Value::Decimal(v)) => {
            ScalarValue::Decimal128(Some(*v), precision, scale)
        }
        (ColumnType::Numeric, Value::Numeric(v)) => ScalarValue::LargeBinary(Some(v.to_vec())),
        (ColumnType::Text, Value::Text(v)) => ScalarValue::Utf8View(Some(v.to_string())),
        (ColumnType::Bytes, Value::Bytes(v)) => ScalarValue::BinaryView(Some(v.to_vec())),
        (ColumnType::Date, Value::Date(v)) => ScalarValue::Date32(Some(*v)),
        (ColumnType::Timestamp, Value::Timestamp(v)) => {
            ScalarValue::TimestampMicrosecond(Some(*v), None)
        }
        (ColumnType::TimestampTz, Value::TimestampTz(v)) => {
            ScalarValue::TimestampMicrosecond(Some(*v), Some("UTC".into()))
        }
        (ColumnType::Time, Value::Time(v)) => ScalarValue::Time64Microsecond(Some(*v)),
        (ColumnType::Interval, Value::Interval(v)) => {
            ScalarValue::IntervalMonthDayNano(Some(arrow_interval(*v)))
        }
        (ColumnType::Uuid, Value::Uuid(v)) => ScalarValue::FixedSizeBinary(16, Some(v.to_vec())),
        _ => null_of(&arrow_of_column(column)),
    }
}

fn null_of(ty: &DataType) -> ScalarValue {
    ScalarValue::try_from(ty).unwrap_or(ScalarValue::Null)
}

/// A DataFusion scalar as a value of a column type.
pub fn value_of_scalar(scalar: &ScalarValue, column: ColumnType) -> Result<Value, SqlError> {
    if scalar.is_null() {
        return Ok(Value::Null);
    }
    let array = scalar.to_array().map_err(crate::df_error::map_df_error)?;
    if *array.data_type() == arrow_of_column(column) {
        return Ok(value_at(array.as_ref(), 0, column));
    }
    match value_at(array.as_ref(), 0, column) {
        Value::Null => Err(SqlError::new(
            SqlState::INTERNAL_ERROR,
            format!("a scalar of type {} is no value of {column:?}", array.data_type()),
        )),
        value => Ok(value),
    }
}
