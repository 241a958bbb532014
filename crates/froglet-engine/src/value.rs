//! Values and their types: one row at a time, as the short path and the log see them.
//! Batches are Arrow; [`ColumnType::arrow`] is the bridge.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use compact_str::CompactString;

use crate::numeric;

/// How a column's cells are stored and which [`Value`]s it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum ColumnType {
    /// true, false
    Bool,
    /// 2-byte integer
    Int16,
    /// 4-byte integer
    Int32,
    /// 8-byte integer
    Int64,
    /// IEEE single
    Float32,
    /// IEEE double
    Float64,
    /// Exact decimal of at most 38 digits, `scale` of them after the point.
    Decimal {
        /// Digits in all, 1..=38.
        precision: u8,
        /// Digits after the point, 0..=precision.
        scale: i8,
    },
    /// UTF-8 text
    Text,
    /// Bytes
    Bytes,
    /// Days since 1970-01-01
    Date,
    /// Microseconds since 1970-01-01 00:00, no time zone
    Timestamp,
    /// Microseconds since 1970-01-01 00:00 UTC
    TimestampTz,
    /// 16 bytes
    Uuid,
    /// Microseconds since midnight, 24:00 among them
    Time,
    /// Months, days and a time: [`Interval`]
    Interval,
    /// Exact numbers of any size, each with the digits that it shows: [`crate::numeric`]
    Numeric,
}

/// A span of time as PostgreSQL keeps it: a month has no fixed number of days, a day none of hours.
///
/// Two that are not the same may compare as equal, see [`Interval::span_us`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Interval {
    /// Months, twelve to the year.
    pub months: i32,
    /// Days
    pub days: i32,
    /// The rest in microseconds. Arrow counts nanoseconds: at most [`Interval::MAX_US`] from zero.
    pub us: i64,
}

/// Microseconds of a day.
const DAY_US: i128 = 86_400_000_000;

impl Interval {
    /// The longest time that Arrow's nanoseconds hold: about 292 years.
    pub const MAX_US: i64 = i64::MAX / 1_000;

    /// Microseconds, by the rule by which PostgreSQL compares: months of 30 days of 24 hours.
    pub fn span_us(self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * DAY_US + i128::from(self.us)
    }

    /// An interval that is as long, of days and less if they suffice. Of no span of an interval do its
    /// parts overflow.
    pub fn of_span_us(span_us: i128) -> Interval {
        let narrow = |n: i128| n.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let whole_days = span_us / DAY_US;
        let months = if i32::try_from(whole_days).is_ok() { 0 } else { narrow(whole_days / 30) };
        let days = narrow(whole_days - i128::from(months) * 30);
        let rest = span_us - Interval { months, days, us: 0 }.span_us();
        Interval { months, days, us: rest as i64 }
    }

    /// The time in Arrow's nanoseconds.
    pub fn nanoseconds(self) -> i64 {
        self.us.saturating_mul(1_000)
    }

    /// From Arrow's parts.
    pub fn of_arrow(months: i32, days: i32, nanoseconds: i64) -> Interval {
        Interval { months, days, us: nanoseconds / 1_000 }
    }
}

impl ColumnType {
    /// Whether its values have no bound but memory.
    pub fn may_be_long(self) -> bool {
        matches!(self, ColumnType::Text | ColumnType::Bytes | ColumnType::Numeric)
    }

    /// The least and the greatest, if its values are integers.
    pub fn integers(self) -> Option<(i64, i64)> {
        match self {
            ColumnType::Int16 => Some((i16::MIN.into(), i16::MAX.into())),
            ColumnType::Int32 => Some((i32::MIN.into(), i32::MAX.into())),
            ColumnType::Int64 => Some((i64::MIN, i64::MAX)),
            _ => None,
        }
    }

    /// The Arrow type of this column in a batch.
    pub fn arrow(self) -> DataType {
        match self {
            ColumnType::Bool => DataType::Boolean,
            ColumnType::Int16 => DataType::Int16,
            ColumnType::Int32 => DataType::Int32,
            ColumnType::Int64 => DataType::Int64,
            ColumnType::Float32 => DataType::Float32,
            ColumnType::Float64 => DataType::Float64,
            ColumnType::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            ColumnType::Text => DataType::Utf8View,
            ColumnType::Bytes | ColumnType::Numeric => DataType::BinaryView,
            ColumnType::Date => DataType::Date32,
            ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            ColumnType::TimestampTz => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
            }
            ColumnType::Uuid => DataType::FixedSizeBinary(16),
            ColumnType::Time => DataType::Time64(TimeUnit::Microsecond),
            ColumnType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        }
    }

    /// Bytes of one cell.
    pub fn width(self) -> usize {
        match self {
            ColumnType::Bool => 1,
            ColumnType::Int16 => 2,
            ColumnType::Int32 | ColumnType::Float32 | ColumnType::Date => 4,
            ColumnType::Int64
            | ColumnType::Float64
            | ColumnType::Timestamp
            | ColumnType::TimestampTz
            | ColumnType::Time => 8,
            ColumnType::Decimal { .. }
            | ColumnType::Text
            | ColumnType::Bytes
            | ColumnType::Uuid
            | ColumnType::Interval
            | ColumnType::Numeric => 16,
        }
    }

    /// Whether cells are views into a heap.
    pub fn is_view(self) -> bool {
        matches!(self, ColumnType::Text | ColumnType::Bytes | ColumnType::Numeric)
    }

    /// Whether `value` may be stored in a column of this type. NULL fits every type here;
    /// NOT NULL is the schema's affair.
    pub fn accepts(self, value: &Value) -> bool {
        matches!(
            (self, value),
            (_, Value::Null)
                | (ColumnType::Bool, Value::Bool(_))
                | (ColumnType::Int16, Value::Int16(_))
                | (ColumnType::Int32, Value::Int32(_))
                | (ColumnType::Int64, Value::Int64(_))
                | (ColumnType::Float32, Value::Float32(_))
                | (ColumnType::Float64, Value::Float64(_))
                | (ColumnType::Decimal { .. }, Value::Decimal(_))
                | (ColumnType::Text, Value::Text(_))
                | (ColumnType::Bytes, Value::Bytes(_))
                | (ColumnType::Date, Value::Date(_))
                | (ColumnType::Timestamp, Value::Timestamp(_))
                | (ColumnType::TimestampTz, Value::TimestampTz(_))
                | (ColumnType::Uuid, Value::Uuid(_))
                | (ColumnType::Time, Value::Time(_))
                | (ColumnType::Interval, Value::Interval(_))
                | (ColumnType::Numeric, Value::Numeric(_))
        )
    }
}

/// Numbers that JSON does not have (NaN, the infinities) as texts.
macro_rules! any_float {
    ($module:ident, $float:ty) => {
        mod $module {
            use serde::de::{Deserialize, Deserializer, Error};
            use serde::{Serialize, Serializer};

            #[derive(serde::Deserialize)]
            #[serde(untagged)]
            enum Written {
                Number($float),
                Text(String),
            }

            pub fn serialize<S: Serializer>(
                value: &$float,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                match value.is_finite() {
                    true => value.serialize(serializer),
                    false => value.to_string().serialize(serializer),
                }
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$float, D::Error> {
                match Written::deserialize(deserializer)? {
                    Written::Number(value) => Ok(value),
                    Written::Text(text) => text.parse().map_err(D::Error::custom),
                }
            }
        }
    };
}

any_float!(any_f32, f32);
any_float!(any_f64, f64);

/// One cell.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Value {
    /// SQL NULL
    Null,
    /// boolean
    Bool(bool),
    /// smallint
    Int16(i16),
    /// integer
    Int32(i32),
    /// bigint
    Int64(i64),
    /// real
    Float32(#[serde(with = "any_f32")] f32),
    /// double precision
    Float64(#[serde(with = "any_f64")] f64),
    /// numeric: the unscaled integer; the scale is the column's
    Decimal(i128),
    /// text
    Text(CompactString),
    /// bytea
    Bytes(Box<[u8]>),
    /// days since 1970-01-01
    Date(i32),
    /// microseconds since 1970-01-01
    Timestamp(i64),
    /// microseconds since 1970-01-01 UTC
    TimestampTz(i64),
    /// uuid
    Uuid([u8; 16]),
    /// microseconds since midnight
    Time(i64),
    /// interval
    Interval(Interval),
    /// numeric, in the bytes of [`crate::numeric`]: two that are not the same may be equal to SQL
    Numeric(Box<[u8]>),
}

const _: () = assert!(size_of::<Value>() == 32, "a Value is four words");

impl Value {
    /// Whether this is SQL NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The bytes that it has beside its own.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Value::Text(text) if text.is_heap_allocated() => text.capacity(),
            Value::Bytes(bytes) | Value::Numeric(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// The number, of an integer of any width.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Int16(n) => Some(i64::from(*n)),
            Value::Int32(n) => Some(i64::from(*n)),
            Value::Int64(n) => Some(*n),
            _ => None,
        }
    }

    /// A number as an integer of this type; `None` where it does not fit, and for other types.
    pub fn of_integer(n: i64, ty: ColumnType) -> Option<Value> {
        match ty {
            ColumnType::Int16 => n.try_into().ok().map(Value::Int16),
            ColumnType::Int32 => n.try_into().ok().map(Value::Int32),
            ColumnType::Int64 => Some(Value::Int64(n)),
            _ => None,
        }
    }

    /// The same number in another type, of integers, decimals and numerics or of floats; `None` where there is
    /// none that is equal, and for other types.
    pub fn counterpart(&self, from: ColumnType, to: ColumnType) -> Option<Value> {
        if from == to || self.is_null() {
            return Some(self.clone());
        }
        match to {
            ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64 => {
                Value::of_integer(self.unscaled(from, 0)?.try_into().ok()?, to)
            }
            ColumnType::Decimal { precision, scale } => {
                let unscaled = self.unscaled(from, scale)?;
                let limit = 10_u128.checked_pow(precision.into())?;
                (unscaled.unsigned_abs() < limit).then_some(Value::Decimal(unscaled))
            }
            ColumnType::Numeric => {
                let scale = if let ColumnType::Decimal { scale, .. } = from { scale } else { 0 };
                let unscaled = self.unscaled(from, scale)?;
                Some(Value::Numeric(numeric::of_unscaled(unscaled, scale.try_into().ok()?)))
            }
            _ => match (self, to) {
                (Value::Float32(v), ColumnType::Float64) => Some(Value::Float64((*v).into())),
                (Value::Float64(v), ColumnType::Float32) => {
                    let near = *v as f32;
                    (v.is_nan() || f64::from(near) == *v).then_some(Value::Float32(near))
                }
                _ => None,
            },
        }
    }

    /// A number as an integer of 10^-`scale`; `None` where it is no whole one.
    fn unscaled(&self, ty: ColumnType, scale: i8) -> Option<i128> {
        let (unscaled, had) = match (self, ty) {
            (Value::Numeric(value), _) => {
                return numeric::to_unscaled(value, scale.try_into().ok()?);
            }
            (Value::Decimal(unscaled), ColumnType::Decimal { scale, .. }) => (*unscaled, scale),
            _ => (self.as_integer()?.into(), 0),
        };
        let factor = 10_i128.checked_pow(had.abs_diff(scale).into())?;
        match scale >= had {
            true => unscaled.checked_mul(factor),
            false => (unscaled % factor == 0).then(|| unscaled / factor),
        }
    }

    /// Text from anything that is a string.
    pub fn text(s: impl AsRef<str>) -> Value {
        Value::Text(CompactString::new(s.as_ref()))
    }
}

/// One row, in the order of a layout or of a projection of it.
pub type Row = Vec<Value>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counterpart_is_the_same_number() {
        let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
        let number = |n, scale| Value::Numeric(numeric::of_unscaled(n, scale));
        let nan = Value::Numeric(numeric::NAN.into());
        let (int, numeric) = (ColumnType::Int32, ColumnType::Numeric);
        let cases = [
            (Value::Int16(7), ColumnType::Int16, int, Some(Value::Int32(7))),
            (Value::Int32(70_000), int, ColumnType::Int16, None),
            (Value::Int32(7), int, decimal(3, 2), Some(Value::Decimal(700))),
            (Value::Int32(10), int, decimal(3, 2), None),
            (Value::Int32(-7), int, numeric, Some(number(-7, 0))),
            (Value::Decimal(150), decimal(9, 2), decimal(9, 1), Some(Value::Decimal(15))),
            (Value::Decimal(155), decimal(9, 2), decimal(9, 1), None),
            (Value::Decimal(150), decimal(9, 2), numeric, Some(number(150, 2))),
            (Value::Decimal(200), decimal(9, 2), int, Some(Value::Int32(2))),
            (Value::Decimal(i128::MAX), decimal(38, 0), decimal(38, 1), None),
            (number(200, 2), numeric, int, Some(Value::Int32(2))),
            (number(250, 2), numeric, int, None),
            (number(250, 2), numeric, decimal(5, 1), Some(Value::Decimal(25))),
            (number(100_000, 0), numeric, decimal(5, 0), None),
            (nan, numeric, decimal(5, 0), None),
            (Value::Null, numeric, int, Some(Value::Null)),
            (Value::Float64(1.0), ColumnType::Float64, int, None),
            (
                Value::Float64(0.5),
                ColumnType::Float64,
                ColumnType::Float32,
                Some(Value::Float32(0.5)),
            ),
            (Value::Float64(0.1), ColumnType::Float64, ColumnType::Float32, None),
        ];
        for (value, from, to, same) in cases {
            assert_eq!(value.counterpart(from, to), same, "{value:?} of {from:?} as {to:?}");
        }
    }
}
