//! Values from PostgreSQL's text format: parameters, COPY, literals, casts from text.

use froglet_engine::{ColumnType, SqlState, Value};
use froglet_schema::SqlType;

use super::float::{FloatError, parse_f32, parse_f64};
use super::{binary, cast, datetime, interval, interval_input, names, numeric, oids};
use crate::error::SqlError;

/// Reads a value in text format.
pub fn from_text(ty: SqlType, column: ColumnType, text: &str) -> Result<Value, SqlError> {
    if text.contains('\0') {
        binary::utf8(text.as_bytes())?;
    }
    let value = match column {
        ColumnType::Bool => Value::Bool(boolean(text)?),
        ColumnType::Int16 => Value::Int16(integer(text, "smallint")?),
        ColumnType::Int32 => Value::Int32(integer(text, "integer")?),
        ColumnType::Int64 if matches!(ty.oid, oids::OID | oids::XID) => {
            Value::Int64(oid(text)?.into())
        }
        ColumnType::Int64 => Value::Int64(integer(text, "bigint")?),
        ColumnType::Float32 => {
            Value::Float32(parse_f32(text).map_err(|e| float_error(e, text, "real"))?)
        }
        ColumnType::Float64 => {
            Value::Float64(parse_f64(text).map_err(|e| float_error(e, text, "double precision"))?)
        }
        ColumnType::Decimal { precision, scale } => {
            let (unscaled, from) = numeric::parse(text)?;
            Value::Decimal(numeric::fit(unscaled, from, precision, scale)?)
        }
        ColumnType::Numeric => Value::Numeric(numeric::parse_exact(text)?.encode().into()),
        ColumnType::Text => Value::text(text),
        ColumnType::Bytes => Value::Bytes(bytea(text)?.into_boxed_slice()),
        ColumnType::Date => Value::Date(datetime::parse_date(text)?),
        ColumnType::Timestamp => Value::Timestamp(datetime::parse_timestamp(text, false)?),
        ColumnType::TimestampTz => Value::TimestampTz(datetime::parse_timestamp(text, true)?),
        ColumnType::Uuid => Value::Uuid(uuid(text)?),
        ColumnType::Time => Value::Time(datetime::parse_time(text)?),
        ColumnType::Interval => {
            let fields = interval::Fields::of_modifier(ty.modifier);
            Value::Interval(interval_input::parse(text, fields)?)
        }
    };
    cast::check_length(&value, ty, cast::CastContext::Assignment)
        .map(|shorter| shorter.unwrap_or(value))
}

/// 22P02
pub fn syntax(type_name: &str, text: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {type_name}: \"{text}\""),
    )
}

fn integer<T: std::str::FromStr>(text: &str, type_name: &str) -> Result<T, SqlError> {
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    trimmed.parse().map_err(|_| {
        let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
        if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
            out_of_range(text, type_name)
        } else {
            syntax(type_name, text)
        }
    })
}

fn out_of_range(text: &str, type_name: &str) -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        format!("value \"{text}\" is out of range for type {type_name}"),
    )
}

/// An oid: negative numbers wrap, as in PostgreSQL.
pub fn oid(text: &str) -> Result<u32, SqlError> {
    let v: i64 = integer(text, "oid")?;
    u32::try_from(v)
        .or_else(|_| i32::try_from(v).map(|v| v as u32))
        .map_err(|_| out_of_range(text, "oid"))
}

fn float_error(e: FloatError, text: &str, type_name: &str) -> SqlError {
    match e {
        FloatError::Syntax => syntax(type_name, text),
        FloatError::Range => SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{text}\" is out of range for type {type_name}"),
        ),
    }
}

/// Any unambiguous prefix of true, false, yes, no, on, off; 1 and 0.
fn boolean(text: &str) -> Result<bool, SqlError> {
    let word = text.trim_matches(|c: char| c.is_ascii_whitespace()).to_ascii_lowercase();
    let abbreviates = |full: &str, least: usize| word.len() >= least && full.starts_with(&*word);
    if abbreviates("true", 1) || abbreviates("yes", 1) || word == "on" || word == "1" {
        Ok(true)
    } else if abbreviates("false", 1)
        || abbreviates("no", 1)
        || abbreviates("off", 2)
        || word == "0"
    {
        Ok(false)
    } else {
        Err(syntax("boolean", text))
    }
}

/// Hex (`\x0aff`, blanks between bytes allowed) or escape (`a\\\001`) format.
fn bytea(text: &str) -> Result<Vec<u8>, SqlError> {
    let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    if let Some(hex) = text.strip_prefix("\\x") {
        let mut out = Vec::with_capacity(hex.len() / 2);
        let mut high = None;
        for c in hex.chars() {
            if high.is_none() && c.is_ascii_whitespace() {
                continue;
            }
            let Some(digit) = c.to_digit(16) else {
                return invalid(format!("invalid hexadecimal digit: \"{c}\""));
            };
            match high.take() {
                None => high = Some(digit),
                Some(h) => out.push((h << 4 | digit) as u8),
            }
        }
        if high.is_some() {
            return invalid("invalid hexadecimal data: odd number of digits".to_owned());
        }
        return Ok(out);
    }
    bytea_escaped(text)
}

/// Bytes as they are, but for `\\` and octal numbers of three digits.
pub(crate) fn bytea_escaped(text: &str) -> Result<Vec<u8>, SqlError> {
    let bad = || {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea")
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = match (byte, tail) {
            (b'\\', [b'\\', after @ ..]) => {
                out.push(b'\\');
                after
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            (b'\\', _) => return Err(bad()),
            _ => {
                out.push(byte);
                tail
            }
        };
    }
    Ok(out)
}

/// 32 hex digits, hyphens after any group of four, braces around allowed.
fn uuid(text: &str) -> Result<[u8; 16], SqlError> {
    let bad = || syntax("uuid", text);
    let body = match text.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}').ok_or_else(bad)?,
        None => text,
    };
    let mut out = [0u8; 16];
    let mut digits = 0;
    let mut bytes = body.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let digit = (byte as char).to_digit(16).ok_or_else(bad)? as u8;
        if digits == 32 {
            return Err(bad());
        }
        out[digits / 2] |= if digits % 2 == 0 { digit << 4 } else { digit };
        digits += 1;
        if digits % 4 == 0 && digits < 32 {
            bytes.next_if_eq(&b'-');
        }
    }
    if digits == 32 { Ok(out) } else { Err(bad()) }
}

/// The items of a one-dimensional array in text format; `None` is NULL.
pub fn array_items(text: &str) -> Result<Vec<Option<String>>, SqlError> {
    let malformed = |detail: &str| {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("malformed array literal: \"{text}\""),
        )
        .detail(detail.to_owned())
    };
    let trimmed = text.trim();
    let body = trimmed
        .strip_prefix('{')
        .ok_or_else(|| malformed("Array value must start with \"{\" or dimension information."))?
        .strip_suffix('}')
        .ok_or_else(|| malformed("Unexpected end of input."))?;
    let mut items = Vec::new();
    if body.trim().is_empty() {
        return Ok(items);
    }
    let mut item = String::new();
    let mut quoted = false;
    let mut inside = false;
    let mut chars = body.chars();
    loop {
        let c = chars.next();
        match c {
            Some('\\') => {
                item.push(chars.next().ok_or_else(|| malformed("Unexpected end of input."))?)
            }
            Some('"') => {
                inside = !inside;
                quoted = true;
            }
            Some('{' | '}') if !inside => {
                return Err(SqlError::unsupported("an array of more than one dimension"));
            }
            // Blanks around an element are none of it, before its quotes either.
            Some(c) if !inside && c.is_ascii_whitespace() && (quoted || item.is_empty()) => {}
            Some(c) if inside || (c != ',') => item.push(c),
            None if inside => return Err(malformed("Unexpected end of input.")),
            _ => {
                let done = std::mem::take(&mut item);
                let plain = done.trim();
                items.push(match (quoted, plain) {
                    (false, "") => return Err(malformed("Unexpected \",\" character.")),
                    (false, word) if word.eq_ignore_ascii_case("null") => None,
                    (false, word) => Some(word.to_owned()),
                    (true, _) => Some(done),
                });
                quoted = false;
                if c.is_none() {
                    return Ok(items);
                }
            }
        }
    }
}

/// Reads a literal for an error-free world: the value, or `None` where it does not read.
pub fn try_from_text(ty: SqlType, column: ColumnType, text: &str) -> Option<Value> {
    from_text(ty, column, text).ok()
}

/// The name a type goes by in input errors.
pub fn input_name(ty: SqlType) -> String {
    names::type_name(SqlType { modifier: -1, ..ty })
}
