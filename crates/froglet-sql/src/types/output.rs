//! Values to PostgreSQL's text and binary formats.

use arrow::array::{Array, ArrayRef};
use froglet_engine::{ColumnType, Value};

use super::cell::{Cell, cell_at, cell_of};
use super::{
    array, binary, datetime, element_oid, float, interval, numeric, oids, plain, type_name,
};

/// Appends the text format of a cell that is not NULL. NULL appends nothing: ask before.
pub fn write_text(array: &dyn Array, row: usize, oid: u32, out: &mut Vec<u8>) {
    cell_text(&cell_at(array, row), oid, out);
}

/// Appends the binary format of a cell that is not NULL, without its length.
pub fn write_binary(array: &dyn Array, row: usize, oid: u32, out: &mut Vec<u8>) {
    binary::cell_binary(&cell_at(array, row), oid, out);
}

/// Appends the text format of a value that is not NULL.
pub fn value_text(value: &Value, column: ColumnType, oid: u32, out: &mut Vec<u8>) {
    cell_text(&cell_of(value, column), oid, out);
}

/// Appends the binary format of a value that is not NULL, without its length.
pub fn value_binary(value: &Value, column: ColumnType, oid: u32, out: &mut Vec<u8>) {
    binary::cell_binary(&cell_of(value, column), oid, out);
}

/// The text of a value, for messages and details.
pub fn display_value(value: &Value, column: ColumnType) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let mut out = Vec::new();
    value_text(value, column, 0, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends the text format of a cell.
pub fn cell_text(cell: &Cell<'_>, oid: u32, out: &mut Vec<u8>) {
    match cell {
        Cell::Null => {}
        Cell::Bool(v) => out.push(if *v { b't' } else { b'f' }),
        Cell::Int16(v) => integer(i64::from(*v), out),
        Cell::Int32(v) => integer(i64::from(*v), out),
        Cell::Int64(v) => integer(*v, out),
        Cell::Oid(v) => integer(i64::from(*v), out),
        Cell::UInt64(v) => out.extend_from_slice(v.to_string().as_bytes()),
        Cell::Float32(v) => float::write_f32(*v, out),
        Cell::Float64(v) => float::write_f64(*v, out),
        Cell::Decimal(v, scale) => numeric::write(*v, *scale, out),
        Cell::Exact(bytes) => numeric::of_bytes(bytes).write(out),
        Cell::Text(v) if oid == oids::TIMESTAMPTZ_ARRAY => array::write_text(v, oid, out),
        Cell::Text(v) => out.extend_from_slice(v.as_bytes()),
        Cell::Bytes(v) => hex(v, out),
        Cell::Date(v) => datetime::write_date(*v, out),
        Cell::Time(v) => datetime::write_clock(*v, out),
        Cell::Timestamp(v) => datetime::write_timestamp(*v, "", out),
        Cell::TimestampTz(v) => datetime::write_timestamptz(*v, out),
        Cell::Uuid(v) => uuid(v, out),
        Cell::Interval(months, days, us) => interval::write(*months, *days, *us, out),
        Cell::List(items) => list(items, oid, out),
        Cell::Other(text) => out.extend_from_slice(text.as_bytes()),
    }
}

/// Appends an integer.
pub fn integer(v: i64, out: &mut Vec<u8>) {
    if v < 0 {
        out.push(b'-');
    }
    unsigned(v.unsigned_abs(), out);
}

/// The digits of every number below a hundred.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// Appends the digits of a number.
pub fn unsigned(v: u64, out: &mut Vec<u8>) {
    if v < 10 {
        out.push(b'0' + v as u8);
        return;
    }
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = v;
    while rest >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    if rest >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[rest as usize]);
    } else {
        at -= 1;
        digits[at] = b'0' + rest as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// A bytea.
pub(crate) fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    for byte in bytes {
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

fn uuid(bytes: &[u8; 16], out: &mut Vec<u8>) {
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

/// `{1,NULL,"a b"}`; the vectors of the catalog are `1 2`.
fn list(items: &ArrayRef, oid: u32, out: &mut Vec<u8>) {
    let vector = matches!(oid, oids::INT2VECTOR | oids::OIDVECTOR);
    let element = element_oid(oid).unwrap_or(oids::TEXT);
    if !vector {
        out.push(b'{');
    }
    for row in 0..items.len() {
        if row > 0 {
            out.push(if vector { b' ' } else { b',' });
        }
        if items.is_null(row) {
            out.extend_from_slice(b"NULL");
            continue;
        }
        let start = out.len();
        let cell = cell_at(items.as_ref(), row);
        match cell {
            Cell::Oid(named) if element == oids::REGTYPE => {
                out.extend_from_slice(type_name(plain(named)).as_bytes());
            }
            _ => cell_text(&cell, element, out),
        }
        if !matches!(cell, Cell::List(_)) {
            quote_item(start, out);
        }
    }
    if !vector {
        out.push(b'}');
    }
}

/// Puts an array's element, from `start` on, in quotes if it needs them.
pub(super) fn quote_item(start: usize, out: &mut Vec<u8>) {
    if needs_quotes(&out[start..]) {
        quote(start, out);
    }
}

fn needs_quotes(item: &[u8]) -> bool {
    item.is_empty()
        || item.eq_ignore_ascii_case(b"null")
        || item
            .iter()
            .any(|b| matches!(b, b'{' | b'}' | b',' | b'"' | b'\\') || b.is_ascii_whitespace())
}

fn quote(start: usize, out: &mut Vec<u8>) {
    let item = out.split_off(start);
    out.push(b'"');
    for byte in item {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}
