//! What rows are compared by: bytes in the order of their fields, in which NULL comes last and is NULL's equal.

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use froglet_engine::SqlState;

use super::simple::Out;
use super::typed::{Argument, Typed};
use crate::error::SqlError;
use crate::semantics::measures;
use crate::types::cell::Cell;
use crate::types::json::{key, read};
use crate::types::numeric::exact_of;
use crate::types::oids;

/// The function of a row's fields.
pub const ROW_KEY: &str = "froglet_row_key";

/// It.
pub fn function() -> Arc<ScalarUDF> {
    let body = |fields: &[Argument<'_>]| {
        let mut bytes = Vec::new();
        for field in fields {
            append(field, &mut bytes)?;
        }
        Ok(Out::Bytes(bytes))
    };
    Typed::new(ROW_KEY, 0, oids::BYTEA, body).at_most(usize::MAX).not_strict().build()
}

fn append(field: &Argument<'_>, out: &mut Vec<u8>) -> Result<(), SqlError> {
    if let Cell::Null = field.cell {
        out.push(1);
        return Ok(());
    }
    out.push(0);
    match (&field.cell, field.oid) {
        (Cell::Text(_), oids::JSON | oids::JSONPATH) => {
            let name = if field.oid == oids::JSON { "json" } else { "jsonpath" };
            let message = format!("could not identify an equality operator for type {name}");
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        }
        (Cell::Text(text), oids::JSONB) => several(&key::of(&read(text)?), out),
        (Cell::Text(text), oids::BPCHAR) => several(text.trim_end_matches(' ').as_bytes(), out),
        (Cell::Text(text), _) => several(text.as_bytes(), out),
        (Cell::Bytes(bytes), _) => several(bytes, out),
        (Cell::Uuid(bytes), _) => out.extend_from_slice(bytes.as_ref()),
        (Cell::Bool(value), _) => out.push(u8::from(*value)),
        (&Cell::Date(days), _) => whole(days.into(), out),
        (&Cell::Time(us) | &Cell::Timestamp(us) | &Cell::TimestampTz(us), _) => whole(us, out),
        (&Cell::Oid(number), _) => whole(number.into(), out),
        (&Cell::Float32(value), _) => float(value.into(), out),
        (&Cell::Float64(value), _) => float(value, out),
        (cell @ Cell::Interval(..), _) => {
            several(&measures::of_cell(cell).unwrap_or_default(), out);
        }
        (cell, _) => match exact_of(cell) {
            Some(number) => several(crate::types::exact::order(&number.encode()), out),
            None => return Err(SqlError::unsupported("comparing rows with such fields")),
        },
    }
    Ok(())
}

/// Bytes, and an end that comes before all that may follow.
fn several(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

fn whole(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value ^ i64::MIN).to_be_bytes());
}

/// -0 is 0, and NaN is greater than all others.
fn float(value: f64, out: &mut Vec<u8>) {
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = value.to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    out.extend_from_slice(&ordered.to_be_bytes());
}
