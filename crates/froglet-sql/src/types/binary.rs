//! PostgreSQL's binary formats: big-endian integers and IEEE bits, days and microseconds since
//! 2000-01-01, numeric in base 10000, arrays with a header.

use arrow::array::{Array, ArrayRef};
use froglet_engine::{ColumnType, SqlState, Value};
use froglet_schema::SqlType;

use super::cell::{Cell, cell_at};
use super::datetime::{
    DATE_INFINITY, DATE_MINUS_INFINITY, DAY_US, EPOCH_2000_DAYS, EPOCH_2000_US, INFINITY,
    MINUS_INFINITY,
};
use super::exact::Exact;
use super::interval_input::checked;
use super::{array, cast, element_oid, names, numeric, oids, output, record};
use crate::error::SqlError;

/// Reads a value in binary format.
pub fn from_binary(ty: SqlType, column: ColumnType, bytes: &[u8]) -> Result<Value, SqlError> {
    let value = match column {
        ColumnType::Bool => Value::Bool(fixed::<1>(ty, bytes)?[0] != 0),
        ColumnType::Int16 => Value::Int16(i16::from_be_bytes(fixed(ty, bytes)?)),
        ColumnType::Int32 => Value::Int32(i32::from_be_bytes(fixed(ty, bytes)?)),
        ColumnType::Int64 if matches!(ty.oid, oids::OID | oids::XID) => {
            Value::Int64(u32::from_be_bytes(fixed(ty, bytes)?).into())
        }
        ColumnType::Int64 => Value::Int64(i64::from_be_bytes(fixed(ty, bytes)?)),
        ColumnType::Float32 => Value::Float32(f32::from_be_bytes(fixed(ty, bytes)?)),
        ColumnType::Float64 => Value::Float64(f64::from_be_bytes(fixed(ty, bytes)?)),
        ColumnType::Decimal { precision, scale } => {
            let (unscaled, from) = numeric::from_binary(bytes)?;
            Value::Decimal(numeric::fit(unscaled, from, precision, scale)?)
        }
        ColumnType::Numeric => Value::Numeric(Exact::from_binary(bytes)?.encode().into()),
        ColumnType::Text => text_value(ty, bytes)?,
        ColumnType::Bytes => Value::Bytes(bytes.into()),
        ColumnType::Date => Value::Date(match i32::from_be_bytes(fixed(ty, bytes)?) {
            infinite @ (DATE_INFINITY | DATE_MINUS_INFINITY) => infinite,
            days => days.checked_add(EPOCH_2000_DAYS).ok_or_else(|| out_of_range("date"))?,
        }),
        ColumnType::Timestamp => Value::Timestamp(micros(ty, bytes)?),
        ColumnType::TimestampTz => Value::TimestampTz(micros(ty, bytes)?),
        ColumnType::Uuid => Value::Uuid(fixed(ty, bytes)?),
        ColumnType::Time => match i64::from_be_bytes(fixed(ty, bytes)?) {
            us @ 0..=DAY_US => Value::Time(us),
            _ => return Err(out_of_range("time")),
        },
        ColumnType::Interval => {
            let all: [u8; 16] = fixed(ty, bytes)?;
            let (us, rest) = all.split_at(8);
            let (days, months) = rest.split_at(4);
            let word = |half: &[u8]| i32::from_be_bytes(half.try_into().expect("four bytes"));
            let us = i64::from_be_bytes(us.try_into().expect("eight bytes"));
            Value::Interval(checked(word(months).into(), word(days).into(), us.into())?)
        }
    };
    cast::check_length(&value, ty, cast::CastContext::Assignment)
        .map(|shorter| shorter.unwrap_or(value))
}

/// Stands before the text of a jsonb.
const JSONB_VERSION: u8 = 1;

/// The message for a value that goes on after its end; Bind says in which parameter.
pub const INCORRECT: &str = "incorrect binary data format";

/// A value of a type whose values are all `N` bytes long.
fn fixed<const N: usize>(ty: SqlType, bytes: &[u8]) -> Result<[u8; N], SqlError> {
    <[u8; N]>::try_from(bytes).map_err(|_| {
        let error = match bytes.len() < N {
            true => short(),
            false => SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, INCORRECT),
        };
        let name = names::type_name(ty);
        error.detail(format!("A value of type {name} takes {N} bytes, not {}.", bytes.len()))
    })
}

/// 08P01: a value that ends before it should.
pub(super) fn short() -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
}

fn micros(ty: SqlType, bytes: &[u8]) -> Result<i64, SqlError> {
    match i64::from_be_bytes(fixed(ty, bytes)?) {
        infinite @ (INFINITY | MINUS_INFINITY) => Ok(infinite),
        us => us.checked_add(EPOCH_2000_US).ok_or_else(|| out_of_range("timestamp")),
    }
}

fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

fn text_value(ty: SqlType, bytes: &[u8]) -> Result<Value, SqlError> {
    if let oids::JSONB | oids::JSONPATH = ty.oid {
        return match bytes.split_first() {
            Some((&JSONB_VERSION, text)) => utf8(text).map(Value::text),
            Some((version, _)) => Err(SqlError::new(
                SqlState::INTERNAL_ERROR,
                format!("unsupported jsonb version number {version}"),
            )),
            None => Err(short()),
        };
    }
    if let Some(element) = element_oid(ty.oid) {
        return array_text(element, bytes).map(Value::text);
    }
    utf8(bytes).map(Value::text)
}

/// Bytes as text: 22021 where they are not UTF-8 or hold a zero.
pub fn utf8(bytes: &[u8]) -> Result<&str, SqlError> {
    let bad = |at: usize| {
        let sequence: Vec<String> =
            bytes[at..].iter().take(1).map(|b| format!("0x{b:02x}")).collect();
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": {}", sequence.join(" ")),
        )
    };
    if let Some(at) = bytes.iter().position(|b| *b == 0) {
        return Err(bad(at));
    }
    std::str::from_utf8(bytes).map_err(|e| bad(e.valid_up_to()))
}

/// A binary array as array text, which is how array parameters travel inside Froglet.
///
/// ```text
///   dimensions  has-nulls  element oid  { length  lower bound }…  { byte length (-1: NULL)  bytes }…
/// ```
fn array_text(element: u32, bytes: &[u8]) -> Result<String, SqlError> {
    let bad = || {
        SqlError::new(
            SqlState::INVALID_BINARY_REPRESENTATION,
            "incorrect binary data format in array",
        )
    };
    let word = |at: usize| -> Result<i32, SqlError> {
        let raw = bytes.get(at..at + 4).ok_or_else(short)?;
        Ok(i32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]))
    };
    match word(0)? {
        0 => return Ok("{}".to_owned()),
        1 => {}
        _ => return Err(SqlError::unsupported("an array of more than one dimension")),
    }
    let count = usize::try_from(word(12)?).map_err(|_| bad())?;
    let ty = super::plain(element);
    let column = super::column_type_of(element, -1).ok_or_else(bad)?;
    let mut items = Vec::new();
    let mut at = 20;
    for _ in 0..count {
        let length = word(at)?;
        at += 4;
        let Ok(length) = usize::try_from(length) else {
            items.push("NULL".to_owned());
            continue;
        };
        let end = at.checked_add(length).ok_or_else(bad)?;
        let value = from_binary(ty, column, bytes.get(at..end).ok_or_else(short)?)?;
        at = end;
        let text = output::display_value(&value, column);
        items.push(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    if at < bytes.len() {
        return Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, INCORRECT));
    }
    Ok(format!("{{{}}}", items.join(",")))
}

/// Appends the binary format of a cell, without its length.
pub fn cell_binary(cell: &Cell<'_>, oid: u32, out: &mut Vec<u8>) {
    match cell {
        Cell::Null => {}
        Cell::Bool(v) => out.push(u8::from(*v)),
        Cell::Int16(v) => sized_integer(i64::from(*v), oid, 2, out),
        Cell::Int32(v) => sized_integer(i64::from(*v), oid, 4, out),
        Cell::Int64(v) => sized_integer(*v, oid, 8, out),
        Cell::Oid(v) => sized_integer(i64::from(*v), oid, 4, out),
        Cell::UInt64(v) => out.extend_from_slice(&v.to_be_bytes()),
        Cell::Float32(v) if oid == oids::FLOAT8 => {
            out.extend_from_slice(&f64::from(*v).to_be_bytes());
        }
        Cell::Float32(v) => out.extend_from_slice(&v.to_be_bytes()),
        Cell::Float64(v) => out.extend_from_slice(&v.to_be_bytes()),
        Cell::Decimal(v, scale) => numeric::write_binary(*v, *scale, out),
        Cell::Exact(bytes) => numeric::of_bytes(bytes).write_binary(out),
        Cell::Text(v) if array::is_array(oid) => array::write_binary(v, oid, out),
        Cell::Text(v) if oid == oids::RECORD => record::row(v, &record::Shape::default(), out),
        // The one byte of a "char" that has none is 0.
        Cell::Text("") if oid == oids::CHAR => out.push(0),
        Cell::Text(v) => {
            if let oids::JSONB | oids::JSONPATH = oid {
                out.push(JSONB_VERSION);
            }
            out.extend_from_slice(v.as_bytes());
        }
        Cell::Bytes(v) => out.extend_from_slice(v),
        Cell::Date(v) => {
            let days = match *v {
                infinite @ (DATE_INFINITY | DATE_MINUS_INFINITY) => infinite,
                days => days.saturating_sub(EPOCH_2000_DAYS),
            };
            out.extend_from_slice(&days.to_be_bytes());
        }
        Cell::Time(v) => out.extend_from_slice(&v.to_be_bytes()),
        Cell::Timestamp(v) | Cell::TimestampTz(v) => {
            let us = match *v {
                infinite @ (INFINITY | MINUS_INFINITY) => infinite,
                us => us.saturating_sub(EPOCH_2000_US),
            };
            out.extend_from_slice(&us.to_be_bytes());
        }
        Cell::Uuid(v) => out.extend_from_slice(v),
        Cell::Interval(months, days, us) => {
            out.extend_from_slice(&us.to_be_bytes());
            out.extend_from_slice(&days.to_be_bytes());
            out.extend_from_slice(&months.to_be_bytes());
        }
        Cell::List(items) => list(items, oid, out),
        Cell::Other(text) => out.extend_from_slice(text.as_bytes()),
    }
}

/// An integer in the width of the type announced, which may differ from Arrow's.
fn sized_integer(v: i64, oid: u32, width: usize, out: &mut Vec<u8>) {
    let width = integer_width(oid, width);
    out.extend_from_slice(&v.to_be_bytes()[8 - width..]);
}

/// How many bytes an integer of a type has; `own` where the type does not say.
pub fn integer_width(oid: u32, own: usize) -> usize {
    match oid {
        oids::INT2 => 2,
        oids::INT4 | oids::OID | oids::XID => 4,
        registered if super::names_objects(registered) => 4,
        oids::INT8 => 8,
        _ => own,
    }
}

/// Appends the elements of an array behind its header.
pub(super) fn list(items: &ArrayRef, oid: u32, out: &mut Vec<u8>) {
    let element = element_oid(oid).unwrap_or_else(|| super::oid_of_arrow(items.data_type()));
    let dimensions = i32::from(!items.is_empty());
    out.extend_from_slice(&dimensions.to_be_bytes());
    out.extend_from_slice(&i32::from(items.null_count() > 0).to_be_bytes());
    out.extend_from_slice(&element.to_be_bytes());
    if items.is_empty() {
        return;
    }
    out.extend_from_slice(&(items.len() as i32).to_be_bytes());
    let first = i32::from(!matches!(oid, oids::INT2VECTOR | oids::OIDVECTOR));
    out.extend_from_slice(&first.to_be_bytes());
    for row in 0..items.len() {
        if items.is_null(row) {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            continue;
        }
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        cell_binary(&cell_at(items.as_ref(), row), element, out);
        let length = (out.len() - at - 4) as i32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}
