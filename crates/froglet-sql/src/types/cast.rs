//! Casts with PostgreSQL's rules: what is rounded, what is out of range, what is too long.
//!
//! A cast to the same stored type costs a length check at most. Casts between number types run
//! over primitive arrays; everything that passes through text is done cell by cell.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::CastOptions;
use arrow::datatypes::DataType;
use froglet_engine::{ColumnType, Interval, SqlState, Value};
use froglet_schema::SqlType;

use super::cell::{Cell, cell_at, cell_of};
use super::datetime::{DATE_INFINITY, DATE_MINUS_INFINITY, DAY_US, INFINITY, MINUS_INFINITY};
use super::exact::Modifier;
use super::{
    Zone, array, array_of, arrow_of_column, convert, element_oid, input, interval, json, names,
    numeric, oids, output,
};
use crate::error::SqlError;

/// How hard a cast may try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CastContext {
    /// INSERT, UPDATE: text that is too long is an error.
    Assignment,
    /// CAST, `::`: text that is too long is cut.
    Explicit,
}

/// Whether PostgreSQL has an assignment cast (implicit ones included).
pub fn assignable(from: u32, to: u32) -> bool {
    use oids::*;
    if from == to || from == UNKNOWN {
        return true;
    }
    if let (Some(from), Some(to)) = (element_oid(from), element_oid(to)) {
        return assignable(from, to);
    }
    let number = |oid| matches!(oid, INT2 | INT4 | INT8 | FLOAT4 | FLOAT8 | NUMERIC);
    let string = |oid| matches!(oid, TEXT | VARCHAR | BPCHAR | NAME);
    match (from, to) {
        _ if number(from) && number(to) => true,
        // Anything may be assigned to a string type.
        _ if string(to) => true,
        (DATE, TIMESTAMP | TIMESTAMPTZ) => true,
        (TIMESTAMP, DATE | TIMESTAMPTZ | TIME) => true,
        (TIMESTAMPTZ, DATE | TIMESTAMP | TIME) => true,
        (TIME, INTERVAL) | (INTERVAL, TIME) => true,
        (JSON, JSONB) | (JSONB, JSON) => true,
        (INT2 | INT4 | INT8, OID | REGCLASS) | (OID | REGCLASS, INT4 | INT8 | OID) => true,
        _ => false,
    }
}

/// 42804, for a column that an expression's type cannot be assigned to.
pub fn not_assignable(column: &str, to: SqlType, from: SqlType) -> SqlError {
    SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!(
            "column \"{column}\" is of type {} but expression is of type {}",
            input::input_name(to),
            input::input_name(from)
        ),
    )
    .hint("You will need to rewrite or cast the expression.")
}

/// Whether PostgreSQL has an explicit cast.
pub fn castable(from: u32, to: u32) -> bool {
    use oids::*;
    let string = |oid| matches!(oid, TEXT | VARCHAR | BPCHAR | NAME | UNKNOWN | CHAR);
    assignable(from, to)
        || string(from)
        || string(to)
        || matches!((from, to), (BOOL, INT4) | (INT4, BOOL))
        || from == JSONB && matches!(to, BOOL | INT2 | INT4 | INT8 | FLOAT4 | FLOAT8 | NUMERIC)
}

/// The array in another type. `to` says how values are stored, `ty` which SQL type it is.
pub fn cast_array(
    array: &ArrayRef,
    to: ColumnType,
    ty: SqlType,
    context: CastContext,
) -> Result<ArrayRef, SqlError> {
    let wanted = arrow_of_column(to);
    if matches!(array.data_type(), DataType::Decimal256(..)) && to != ColumnType::Text {
        return cast_array(&narrowed(array, &wanted)?, to, ty, context);
    }
    if array.data_type() == &wanted && !has_length(ty) {
        return Ok(array.clone());
    }
    if array.data_type() == &wanted && to == ColumnType::Text && all_fit(array, ty) {
        return Ok(array.clone());
    }
    if array.null_count() == array.len() {
        return Ok(new_null_array(&wanted, array.len()));
    }
    if !has_length(ty)
        && let Some(widened) = widen(array, to)
    {
        return Ok(widened);
    }
    let mut values = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        values.push(cast_cell(&cell_at(array.as_ref(), row), to, ty, context)?);
    }
    Ok(array_of(to, &mut values.iter()))
}

/// One value in another type.
pub fn cast_value(
    value: Value,
    from: ColumnType,
    to: ColumnType,
    ty: SqlType,
    context: CastContext,
) -> Result<Value, SqlError> {
    if from == to {
        return check_length(&value, ty, context).map(|cut| cut.unwrap_or(value));
    }
    cast_cell(&cell_of(&value, from), to, ty, context)
}

/// Whether a type keeps less than its stored type.
pub fn has_length(ty: SqlType) -> bool {
    match ty.oid {
        oids::VARCHAR | oids::BPCHAR => ty.modifier >= 4,
        oids::NAME | oids::CHAR | oids::JSON | oids::JSONB | oids::JSONPATH => true,
        oids::TIME | oids::TIMESTAMP | oids::TIMESTAMPTZ | oids::INTERVAL => ty.modifier >= 0,
        oids::NUMERIC => {
            ty.modifier >= 4 && super::numeric_type(ty.modifier) == Some(ColumnType::Numeric)
        }
        oid => array::is_array(oid),
    }
}

/// Whether no text is longer than the type allows (and none needs padding).
fn all_fit(array: &ArrayRef, ty: SqlType) -> bool {
    let Some(views) = array.as_any().downcast_ref::<StringViewArray>() else {
        return false;
    };
    let limit = usize::try_from(ty.modifier - 4).unwrap_or(0);
    ty.oid == oids::VARCHAR && views.iter().flatten().all(|s| s.len() <= limit)
}

/// Casts that cannot fail, as Arrow does them.
fn widen(array: &ArrayRef, to: ColumnType) -> Option<ArrayRef> {
    use DataType::*;
    let exact = matches!(
        (array.data_type(), to),
        (Int8 | UInt8, ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64)
            | (Int16 | UInt16, ColumnType::Int32 | ColumnType::Int64)
            | (Int32 | UInt32, ColumnType::Int64)
            | (Int16 | Int32 | Int64 | Float32, ColumnType::Float64)
            | (Utf8 | LargeUtf8 | Utf8View, ColumnType::Text)
            | (Binary | BinaryView, ColumnType::Bytes)
    );
    exact.then(|| arrow::compute::cast(array, &to.arrow()).ok()).flatten()
}

/// Numbers of more than 38 digits, as literals may be, in as many as a numeric has; 22003 if they are more.
fn narrowed(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, SqlError> {
    let numeric = match wanted {
        DataType::Decimal128(..) => wanted.clone(),
        _ => DataType::Decimal128(38, 10),
    };
    let options = CastOptions { safe: false, ..CastOptions::default() };
    arrow::compute::cast_with_options(array, &numeric, &options).map_err(|_| numeric::too_wide())
}

fn range_error(to: ColumnType) -> SqlError {
    let name = names::type_name(super::default_sql_type(to));
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
}

/// 42846
pub fn cannot_cast(from: &str, to: SqlType) -> SqlError {
    SqlError::new(
        SqlState::CANNOT_COERCE,
        format!("cannot cast type {from} to {}", input::input_name(to)),
    )
}

/// One cell in another type.
pub fn cast_cell(
    cell: &Cell<'_>,
    to: ColumnType,
    ty: SqlType,
    context: CastContext,
) -> Result<Value, SqlError> {
    let value = match cell {
        Cell::Null => return Ok(Value::Null),
        Cell::Text(text) if to != ColumnType::Text => return input::from_text(ty, to, text),
        _ => match to {
            ColumnType::Bool => to_bool(cell, ty)?,
            ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64 => to_integer(cell, to, ty)?,
            ColumnType::Float32 | ColumnType::Float64 => to_float(cell, to, ty)?,
            ColumnType::Decimal { precision, scale } => to_decimal(cell, precision, scale, ty)?,
            ColumnType::Numeric => match numeric::exact_of(cell) {
                Some(value) => Value::Numeric(value.encode().into()),
                None => return Err(cannot_cast(kind(cell), ty)),
            },
            ColumnType::Text => match cell {
                Cell::List(items) => of_elements(items, ty, context)?,
                _ => to_text(cell, ty.oid),
            },
            ColumnType::Bytes => match cell {
                Cell::Bytes(v) => Value::Bytes((*v).into()),
                _ => return Err(cannot_cast(kind(cell), ty)),
            },
            ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz => {
                to_time(cell, to, ty)?
            }
            ColumnType::Time => match cell {
                Cell::Time(v) => Value::Time(*v),
                Cell::Timestamp(INFINITY | MINUS_INFINITY)
                | Cell::TimestampTz(INFINITY | MINUS_INFINITY) => return Ok(Value::Null),
                Cell::Timestamp(us) => Value::Time(us.rem_euclid(DAY_US)),
                Cell::TimestampTz(us) => {
                    Value::Time(Zone::current().to_local(*us).rem_euclid(DAY_US))
                }
                Cell::Interval(_, _, us) => Value::Time(us.rem_euclid(DAY_US)),
                _ => return Err(cannot_cast(kind(cell), ty)),
            },
            ColumnType::Interval => match cell {
                Cell::Interval(months, days, us) => {
                    Value::Interval(Interval { months: *months, days: *days, us: *us })
                }
                Cell::Time(us) => Value::Interval(Interval { us: *us, ..Interval::default() }),
                _ => return Err(cannot_cast(kind(cell), ty)),
            },
            ColumnType::Uuid => match cell {
                Cell::Uuid(v) => Value::Uuid(*v),
                _ => return Err(cannot_cast(kind(cell), ty)),
            },
        },
    };
    check_length(&value, ty, context).map(|cut| cut.unwrap_or(value))
}

/// An array as its column keeps it, each element in the type of the column's.
fn of_elements(items: &ArrayRef, ty: SqlType, context: CastContext) -> Result<Value, SqlError> {
    let element = array::element_type(ty).filter(|_| !items.data_type().is_nested());
    let column = element.and_then(|ty| Some((ty, super::column_type_of(ty.oid, ty.modifier)?)));
    Ok(match column {
        Some((element, column)) => {
            let items = cast_array(items, column, element, context)?;
            to_text(&Cell::List(convert::as_computed(&items, column)), ty.oid)
        }
        None => to_text(&Cell::List(items.clone()), ty.oid),
    })
}

fn kind(cell: &Cell<'_>) -> &'static str {
    match cell {
        Cell::Null => "unknown",
        Cell::Bool(_) => "boolean",
        Cell::Int16(_) => "smallint",
        Cell::Int32(_) => "integer",
        Cell::Int64(_) | Cell::UInt64(_) => "bigint",
        Cell::Oid(_) => "oid",
        Cell::Float32(_) => "real",
        Cell::Float64(_) => "double precision",
        Cell::Decimal(..) | Cell::Exact(_) => "numeric",
        Cell::Text(_) | Cell::Other(_) => "text",
        Cell::Bytes(_) => "bytea",
        Cell::Date(_) => "date",
        Cell::Time(_) => "time without time zone",
        Cell::Timestamp(_) => "timestamp without time zone",
        Cell::TimestampTz(_) => "timestamp with time zone",
        Cell::Uuid(_) => "uuid",
        Cell::Interval(..) => "interval",
        Cell::List(_) => "anyarray",
    }
}

fn to_bool(cell: &Cell<'_>, ty: SqlType) -> Result<Value, SqlError> {
    match cell {
        Cell::Bool(v) => Ok(Value::Bool(*v)),
        Cell::Int32(v) => Ok(Value::Bool(*v != 0)),
        _ => Err(cannot_cast(kind(cell), ty)),
    }
}

/// An integer, floats rounded half to even, decimals half away from zero.
fn to_integer(cell: &Cell<'_>, to: ColumnType, ty: SqlType) -> Result<Value, SqlError> {
    let wide: i128 = match cell {
        Cell::Bool(v) if to == ColumnType::Int32 => i128::from(*v),
        Cell::Int16(v) => (*v).into(),
        Cell::Int32(v) => (*v).into(),
        Cell::Int64(v) => (*v).into(),
        Cell::Oid(v) => (*v).into(),
        Cell::UInt64(v) => (*v).into(),
        Cell::Float32(v) => rounded(f64::from(*v), to)?,
        Cell::Float64(v) => rounded(*v, to)?,
        Cell::Decimal(v, scale) => {
            numeric::rescale(*v, *scale, 0).ok_or_else(|| range_error(to))?
        }
        Cell::Exact(bytes) => {
            let exact = numeric::of_bytes(bytes);
            match to {
                ColumnType::Int16 => exact.to_i16()?.into(),
                ColumnType::Int32 => exact.to_i32()?.into(),
                _ => exact.to_i64()?.into(),
            }
        }
        _ => return Err(cannot_cast(kind(cell), ty)),
    };
    let value = match to {
        ColumnType::Int16 => i16::try_from(wide).map(Value::Int16),
        ColumnType::Int32 => i32::try_from(wide).map(Value::Int32),
        _ => i64::try_from(wide).map(Value::Int64),
    };
    value.map_err(|_| range_error(to))
}

fn rounded(v: f64, to: ColumnType) -> Result<i128, SqlError> {
    let whole = v.round_ties_even();
    // 2^63 is the first float out of every integer's range; NaN compares false.
    if whole.abs() <= 9.3e18 { Ok(whole as i128) } else { Err(range_error(to)) }
}

fn to_float(cell: &Cell<'_>, to: ColumnType, ty: SqlType) -> Result<Value, SqlError> {
    let wide = match cell {
        Cell::Int16(v) => f64::from(*v),
        Cell::Int32(v) => f64::from(*v),
        Cell::Int64(v) => *v as f64,
        Cell::UInt64(v) => *v as f64,
        Cell::Oid(v) => f64::from(*v),
        Cell::Float32(v) => f64::from(*v),
        Cell::Float64(v) => *v,
        Cell::Decimal(v, scale) => {
            let mut text = Vec::new();
            numeric::write(*v, *scale, &mut text);
            let text = String::from_utf8_lossy(&text).into_owned();
            text.parse().map_err(|_| range_error(to))?
        }
        Cell::Exact(bytes) if to == ColumnType::Float32 => {
            return Ok(Value::Float32(numeric::of_bytes(bytes).to_f32()?));
        }
        Cell::Exact(bytes) => numeric::of_bytes(bytes).to_f64()?,
        _ => return Err(cannot_cast(kind(cell), ty)),
    };
    if to == ColumnType::Float64 {
        return Ok(Value::Float64(wide));
    }
    let narrow = wide as f32;
    let finite_lost = (narrow.is_infinite() && wide.is_finite()) || (narrow == 0.0 && wide != 0.0);
    match (finite_lost, narrow.is_infinite()) {
        (false, _) => Ok(Value::Float32(narrow)),
        (true, overflow) => Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value out of range: {}", if overflow { "overflow" } else { "underflow" }),
        )),
    }
}

fn to_decimal(cell: &Cell<'_>, precision: u8, scale: i8, ty: SqlType) -> Result<Value, SqlError> {
    let (unscaled, from) = match cell {
        Cell::Int16(v) => (i128::from(*v), 0),
        Cell::Int32(v) => (i128::from(*v), 0),
        Cell::Int64(v) => (i128::from(*v), 0),
        Cell::UInt64(v) => (i128::from(*v), 0),
        Cell::Oid(v) => (i128::from(*v), 0),
        Cell::Decimal(v, from) => (*v, *from),
        // PostgreSQL keeps 6 and 15 significant digits of a float.
        Cell::Exact(_) | Cell::Float32(_) | Cell::Float64(_) => {
            let exact = numeric::exact_of(cell).ok_or_else(|| cannot_cast(kind(cell), ty))?;
            return Ok(Value::Decimal(exact.to_unscaled(precision, scale)?));
        }
        _ => return Err(cannot_cast(kind(cell), ty)),
    };
    numeric::fit(unscaled, from, precision, scale).map(Value::Decimal)
}

fn to_text(cell: &Cell<'_>, oid: u32) -> Value {
    match cell {
        Cell::Text(v) => Value::text(v),
        // A boolean prints as t and casts as true.
        Cell::Bool(v) => Value::text(if *v { "true" } else { "false" }),
        _ => {
            let mut out = Vec::new();
            output::cell_text(cell, oid, &mut out);
            Value::text(String::from_utf8_lossy(&out))
        }
    }
}

fn to_time(cell: &Cell<'_>, to: ColumnType, ty: SqlType) -> Result<Value, SqlError> {
    let us = match cell {
        Cell::Date(v) if to == ColumnType::Date => return Ok(Value::Date(*v)),
        Cell::Date(DATE_INFINITY) => INFINITY,
        Cell::Date(DATE_MINUS_INFINITY) => MINUS_INFINITY,
        Cell::Date(days) => i64::from(*days).checked_mul(DAY_US).ok_or_else(|| {
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")
        })?,
        Cell::Timestamp(us) | Cell::TimestampTz(us) => *us,
        _ => return Err(cannot_cast(kind(cell), ty)),
    };
    let us = match (cell, to) {
        (Cell::TimestampTz(_), ColumnType::TimestampTz) => us,
        (Cell::TimestampTz(_), _) => Zone::current().to_local(us),
        (_, ColumnType::TimestampTz) => Zone::current().to_utc(us),
        _ => us,
    };
    Ok(match to {
        ColumnType::Timestamp => Value::Timestamp(us),
        ColumnType::TimestampTz => Value::TimestampTz(us),
        _ => Value::Date(match us {
            INFINITY => DATE_INFINITY,
            MINUS_INFINITY => DATE_MINUS_INFINITY,
            us => i32::try_from(us.div_euclid(DAY_US)).unwrap_or(DATE_INFINITY),
        }),
    })
}

/// Fits text into varchar(n), char(n), name or "char". `None`: it fits as it is.
pub fn check_length(
    value: &Value,
    ty: SqlType,
    context: CastContext,
) -> Result<Option<Value>, SqlError> {
    let text = match value {
        Value::Text(text) => text,
        Value::Numeric(bytes) if ty.modifier >= 4 => {
            let (precision, scale) = numeric::precision_scale(ty.modifier);
            let fitted = numeric::of_bytes(bytes).fit(Modifier { precision, scale })?.encode();
            return Ok((fitted[..] != bytes[..]).then(|| Value::Numeric(fitted.into())));
        }
        _ => return Ok(rounded_time(value, ty.modifier)),
    };
    if let oids::JSON | oids::JSONB = ty.oid {
        return Ok(json::fit(text, ty.oid == oids::JSONB)?.map(Value::text));
    }
    if ty.oid == oids::JSONPATH {
        return Ok(json::jsonpath::fit(text)?.map(Value::text));
    }
    if array::is_array(ty.oid) {
        return Ok(array::fit(text, ty)?.map(Value::text));
    }
    let (limit, bytes) = match ty.oid {
        oids::VARCHAR | oids::BPCHAR if ty.modifier >= 4 => ((ty.modifier - 4) as usize, false),
        oids::NAME => (63, true),
        oids::CHAR => (1, true),
        _ => return Ok(None),
    };
    if bytes {
        let mut end = limit.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        return Ok((end < text.len()).then(|| Value::text(&text[..end])));
    }
    let length = if text.len() <= limit { text.len() } else { text.chars().count() };
    if length > limit {
        let end = text.char_indices().nth(limit).map_or(text.len(), |(at, _)| at);
        let only_blanks = text[end..].bytes().all(|b| b == b' ');
        if context == CastContext::Assignment && !only_blanks {
            return Err(SqlError::new(
                SqlState::STRING_DATA_RIGHT_TRUNCATION,
                format!("value too long for type {}", names::type_name(ty)),
            ));
        }
        return Ok(Some(Value::text(&text[..end])));
    }
    if ty.oid == oids::BPCHAR {
        let length = text.chars().count();
        if length < limit {
            return Ok(Some(Value::text(format!("{text}{}", " ".repeat(limit - length)))));
        }
    }
    Ok(None)
}

/// What a type with fewer digits of a second (or fields of an interval) keeps of a value; `None`: all.
fn rounded_time(value: &Value, modifier: i32) -> Option<Value> {
    if modifier < 0 {
        return None;
    }
    let round = |us: i64| match us {
        INFINITY | MINUS_INFINITY => us,
        us => interval::round_us(us, modifier),
    };
    match value {
        Value::Time(us) => Some(Value::Time(round(*us))),
        Value::Timestamp(us) => Some(Value::Timestamp(round(*us))),
        Value::TimestampTz(us) => Some(Value::TimestampTz(round(*us))),
        Value::Interval(v) => Some(Value::Interval(interval::fit(*v, modifier))),
        _ => None,
    }
}

/// An array of SQL text of each row; NULL stays NULL. What `::text` does.
pub fn text_array(array: &ArrayRef, oid: u32) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(array.len());
    let mut buffer = Vec::new();
    for row in 0..array.len() {
        match cell_at(array.as_ref(), row) {
            Cell::Null => builder.append_null(),
            Cell::Bool(v) => builder.append_value(if v { "true" } else { "false" }),
            cell => {
                buffer.clear();
                output::cell_text(&cell, oid, &mut buffer);
                builder.append_value(String::from_utf8_lossy(&buffer));
            }
        }
    }
    Arc::new(builder.finish())
}

/// An array of one value repeated.
pub fn repeat(value: &Value, column: ColumnType, count: usize) -> ArrayRef {
    convert::array_of(column, &mut std::iter::repeat_n(value, count))
}
