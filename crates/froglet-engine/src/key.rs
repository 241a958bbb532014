//! Order-preserving keys: bytes whose order is the order of the values.
//!
//! ```text
//!   part = marker  body
//!   marker: 01 value | 00 NULL, nulls first | 02 NULL, nulls last
//!   body:   integers   big-endian, sign bit flipped
//!           floats     big-endian; negative: all bits flipped, else sign bit flipped; NaN last, -0 = 0
//!           text,bytes each 00 becomes 00 FF; ends with 00 00
//!   descending: the body's bytes are inverted (markers are not)
//! ```
//!
//! Invariants: K1, two rows have equal keys exactly when their key values are equal (NULL equals
//! NULL here; uniqueness treats NULL apart). K2, `memcmp` orders keys as SQL orders the values
//! under the parts' directions. K3, no part's encoding is a proper prefix of another encoding of
//! the same part, so concatenation keeps the order.

use crate::layout::KeyPart;
use crate::value::Value;

const NULL_FIRST: u8 = 0;
const VALUE: u8 = 1;
const NULL_LAST: u8 = 2;

/// Appends one part of a key.
pub fn encode_part(out: &mut Vec<u8>, value: &Value, part: &KeyPart) {
    if value.is_null() {
        out.push(if part.nulls_first { NULL_FIRST } else { NULL_LAST });
        return;
    }
    out.push(VALUE);
    let start = out.len();
    encode_body(out, value);
    if part.descending {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

fn encode_body(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => unreachable!("NULL is a marker without a body"),
        Value::Bool(b) => out.push(u8::from(*b)),
        Value::Int16(v) => out.extend_from_slice(&(v ^ i16::MIN).to_be_bytes()),
        Value::Int32(v) | Value::Date(v) => out.extend_from_slice(&(v ^ i32::MIN).to_be_bytes()),
        Value::Int64(v) | Value::Timestamp(v) | Value::TimestampTz(v) => {
            out.extend_from_slice(&(v ^ i64::MIN).to_be_bytes());
        }
        Value::Float32(v) => {
            let bits = if v.is_nan() { f32::NAN.to_bits() } else { (v + 0.0).to_bits() };
            let ordered = if bits >> 31 == 1 { !bits } else { bits | (1 << 31) };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        Value::Float64(v) => {
            let bits = if v.is_nan() { f64::NAN.to_bits() } else { (v + 0.0).to_bits() };
            let ordered = if bits >> 63 == 1 { !bits } else { bits | (1 << 63) };
            out.extend_from_slice(&ordered.to_be_bytes());
        }
        Value::Decimal(v) => out.extend_from_slice(&(v ^ i128::MIN).to_be_bytes()),
        Value::Text(s) => encode_bytes(out, s.as_bytes()),
        Value::Bytes(b) => encode_bytes(out, b),
        Value::Uuid(u) => out.extend_from_slice(u),
    }
}

fn encode_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(0xFF);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// The smallest byte string above every string that starts with `key`; `None` if there is none.
pub fn successor(key: &[u8]) -> Option<Vec<u8>> {
    let mut next = key.to_vec();
    while let Some(last) = next.last_mut() {
        if *last < 0xFF {
            *last += 1;
            return Some(next);
        }
        next.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ColumnId;
    use std::cmp::Ordering;

    fn part(descending: bool, nulls_first: bool) -> KeyPart {
        KeyPart { column: ColumnId(1), descending, nulls_first }
    }

    fn key(value: &Value, part: &KeyPart) -> Vec<u8> {
        let mut out = Vec::new();
        encode_part(&mut out, value, part);
        out
    }

    /// Values of one type in SQL's ascending order.
    fn ladders() -> Vec<Vec<Value>> {
        let text = ["", "\0", "\0\0", "\0a", "a", "a\0", "a\0b", "aa", "b", "é"];
        vec![
            [i64::MIN, -1, 0, 1, 255, 256, i64::MAX].map(Value::Int64).to_vec(),
            [i32::MIN, -300, 0, 7, i32::MAX].map(Value::Int32).to_vec(),
            [i16::MIN, -1, 0, i16::MAX].map(Value::Int16).to_vec(),
            [f64::NEG_INFINITY, -1.5, -0.5, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN]
                .map(Value::Float64)
                .to_vec(),
            [f32::NEG_INFINITY, -1.5, 0.0, 2.0, f32::INFINITY, f32::NAN]
                .map(Value::Float32)
                .to_vec(),
            [i128::MIN, -5, 0, 5, i128::MAX].map(Value::Decimal).to_vec(),
            text.iter().map(Value::text).collect(),
            [false, true].map(Value::Bool).to_vec(),
        ]
    }

    #[test]
    fn bytes_are_ordered_as_values_in_both_directions() {
        for ladder in ladders() {
            for (i, a) in ladder.iter().enumerate() {
                for (j, b) in ladder.iter().enumerate() {
                    let up = key(a, &part(false, false)).cmp(&key(b, &part(false, false)));
                    assert_eq!(up, i.cmp(&j), "{a:?} against {b:?}");
                    let down = key(a, &part(true, true)).cmp(&key(b, &part(true, true)));
                    assert_eq!(down, j.cmp(&i), "{a:?} against {b:?}, descending");
                }
            }
        }
    }

    #[test]
    fn nulls_go_where_the_part_says() {
        for descending in [false, true] {
            let first = part(descending, true);
            let last = part(descending, false);
            assert_eq!(
                key(&Value::Null, &first).cmp(&key(&Value::Int32(0), &first)),
                Ordering::Less
            );
            assert_eq!(
                key(&Value::Null, &last).cmp(&key(&Value::Int32(0), &last)),
                Ordering::Greater
            );
        }
    }

    #[test]
    fn negative_zero_and_every_nan_are_one_key() {
        let p = part(false, false);
        assert_eq!(key(&Value::Float64(-0.0), &p), key(&Value::Float64(0.0), &p));
        assert_eq!(key(&Value::Float64(-f64::NAN), &p), key(&Value::Float64(f64::NAN), &p));
    }

    #[test]
    fn the_successor_bounds_a_prefix() {
        assert_eq!(successor(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(successor(&[1, 0xFF]), Some(vec![2]));
        assert_eq!(successor(&[0xFF, 0xFF]), None);
    }
}
