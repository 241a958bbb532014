//! Order-preserving keys: bytes whose order is the order of the values.
//!
//! ```text
//!   part = marker  body
//!   marker: 01 value | 00 NULL, nulls first | 02 NULL, nulls last
//!   body:   integers   big-endian, sign bit flipped
//!           floats     big-endian; negative: all bits flipped, else sign bit flipped; NaN last, -0 = 0
//!           interval   its span (PostgreSQL's rule) as a 16-byte integer: '1 mon' = '30 days'
//!           numeric    its order part (see `numeric`) as bytes are: 1.0 = 1.00
//!           text,bytes each 00 becomes 00 FF; ends with 00 00
//!   descending: the body's bytes are inverted (markers are not)
//! ```
//!
//! Invariants: K1, two rows have equal keys exactly when their key values are equal (NULL equals
//! NULL here; uniqueness treats NULL apart). K2, `memcmp` orders keys as SQL orders the values
//! under the parts' directions. K3, no part's encoding is a proper prefix of another encoding of
//! the same part, so concatenation keeps the order.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, StringViewArray,
};
use arrow_buffer::{IntervalMonthDayNano, NullBuffer};

use crate::error::{EngineError, SqlState};
use crate::id::{ColumnId, Home};
use crate::layout::{KeyPart, NullKeys};
use crate::numeric;
use crate::value::{ColumnType, Interval, Value};

const NULL_FIRST: u8 = 0;
const VALUE: u8 = 1;
const NULL_LAST: u8 = 2;

/// A part of a key that is in no index: ascending, NULL last.
pub const ASCENDING: KeyPart =
    KeyPart { column: ColumnId(0), descending: false, nulls_first: false };

/// The key of values, one for each part. Ends with whichever there are fewer of.
pub fn encode<'v, 'p>(
    values: impl IntoIterator<Item = &'v Value>,
    parts: impl IntoIterator<Item = &'p KeyPart>,
) -> Vec<u8> {
    let mut key = Vec::new();
    for (value, part) in values.into_iter().zip(parts) {
        encode_part(&mut key, value, part);
    }
    key
}

/// Refuses a key that is too long for an index of a table there.
pub fn check_length(key: &[u8], home: Home) -> Result<(), EngineError> {
    match home.longest_key() {
        Some(most) if key.len() > most => Err(EngineError::Refused {
            state: SqlState::PROGRAM_LIMIT_EXCEEDED,
            message: format!(
                "index row size {} exceeds maximum {most} of tables on {}: index a hash or the first part of the value",
                key.len(),
                home.name()
            ),
        }),
        _ => Ok(()),
    }
}

/// Whether SQL takes two values of one type for one, NULL for NULL: whether their keys are the same [K1].
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float32(a), Value::Float32(b)) => f32_body(*a) == f32_body(*b),
        (Value::Float64(a), Value::Float64(b)) => f64_body(*a) == f64_body(*b),
        (Value::Interval(a), Value::Interval(b)) => a.span_us() == b.span_us(),
        (Value::Numeric(a), Value::Numeric(b)) => numeric::order(a) == numeric::order(b),
        _ => a == b,
    }
}

/// Appends one part of a key.
pub fn encode_part(out: &mut Vec<u8>, value: &Value, part: &KeyPart) {
    encode_with(out, part, value.is_null(), |out| encode_body(out, value));
}

/// Appends one part of a key whose body `body` appends.
#[inline]
fn encode_with(out: &mut Vec<u8>, part: &KeyPart, is_null: bool, body: impl FnOnce(&mut Vec<u8>)) {
    if is_null {
        out.push(if part.nulls_first { NULL_FIRST } else { NULL_LAST });
        return;
    }
    out.push(VALUE);
    let start = out.len();
    body(out);
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
        Value::Int16(v) => out.extend_from_slice(&i16_body(*v)),
        Value::Int32(v) | Value::Date(v) => out.extend_from_slice(&i32_body(*v)),
        Value::Int64(v) | Value::Timestamp(v) | Value::TimestampTz(v) | Value::Time(v) => {
            out.extend_from_slice(&i64_body(*v));
        }
        Value::Float32(v) => out.extend_from_slice(&f32_body(*v)),
        Value::Float64(v) => out.extend_from_slice(&f64_body(*v)),
        Value::Decimal(v) => out.extend_from_slice(&i128_body(*v)),
        Value::Text(s) => encode_bytes(out, s.as_bytes()),
        Value::Bytes(b) => encode_bytes(out, b),
        Value::Numeric(b) => encode_bytes(out, numeric::order(b)),
        Value::Uuid(u) => out.extend_from_slice(u),
        Value::Interval(v) => out.extend_from_slice(&i128_body(v.span_us())),
    }
}

fn i16_body(v: i16) -> [u8; 2] {
    (v ^ i16::MIN).to_be_bytes()
}

fn i32_body(v: i32) -> [u8; 4] {
    (v ^ i32::MIN).to_be_bytes()
}

fn i64_body(v: i64) -> [u8; 8] {
    (v ^ i64::MIN).to_be_bytes()
}

fn i128_body(v: i128) -> [u8; 16] {
    (v ^ i128::MIN).to_be_bytes()
}

fn f32_body(v: f32) -> [u8; 4] {
    let bits = if v.is_nan() { f32::NAN.to_bits() } else { (v + 0.0).to_bits() };
    if bits >> 31 == 1 { !bits } else { bits | (1 << 31) }.to_be_bytes()
}

fn f64_body(v: f64) -> [u8; 8] {
    let bits = if v.is_nan() { f64::NAN.to_bits() } else { (v + 0.0).to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }.to_be_bytes()
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

/// The parts of a key as columns of a batch: keys of many rows without a [`Value`] for each.
pub struct KeyColumns<'a> {
    parts: Vec<(KeyPart, Option<&'a NullBuffer>, Cells<'a>)>,
    nulls: NullKeys,
}

/// The cells of one part.
enum Cells<'a> {
    Bool(&'a BooleanArray),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    I128(&'a [i128]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Text(&'a StringViewArray),
    Bytes(&'a BinaryViewArray),
    Numeric(&'a BinaryViewArray),
    Uuid(&'a FixedSizeBinaryArray),
    Interval(&'a [IntervalMonthDayNano]),
}

impl<'a> KeyColumns<'a> {
    /// Parts in key order, each with its column and the column's type.
    ///
    /// Panics if a column is not in the Arrow type of its type.
    pub fn new(parts: impl Iterator<Item = (KeyPart, &'a ArrayRef, ColumnType)>) -> KeyColumns<'a> {
        let cells = |array: &'a ArrayRef, ty| match ty {
            ColumnType::Bool => Cells::Bool(array.as_boolean()),
            ColumnType::Int16 => Cells::I16(array.as_primitive::<Int16Type>().values()),
            ColumnType::Int32 => Cells::I32(array.as_primitive::<Int32Type>().values()),
            ColumnType::Date => Cells::I32(array.as_primitive::<Date32Type>().values()),
            ColumnType::Int64 => Cells::I64(array.as_primitive::<Int64Type>().values()),
            ColumnType::Timestamp | ColumnType::TimestampTz => {
                Cells::I64(array.as_primitive::<TimestampMicrosecondType>().values())
            }
            ColumnType::Float32 => Cells::F32(array.as_primitive::<Float32Type>().values()),
            ColumnType::Float64 => Cells::F64(array.as_primitive::<Float64Type>().values()),
            ColumnType::Decimal { .. } => {
                Cells::I128(array.as_primitive::<Decimal128Type>().values())
            }
            ColumnType::Text => Cells::Text(array.as_string_view()),
            ColumnType::Bytes => Cells::Bytes(array.as_binary_view()),
            ColumnType::Numeric => Cells::Numeric(array.as_binary_view()),
            ColumnType::Uuid => Cells::Uuid(array.as_fixed_size_binary()),
            ColumnType::Time => Cells::I64(array.as_primitive::<Time64MicrosecondType>().values()),
            ColumnType::Interval => {
                Cells::Interval(array.as_primitive::<IntervalMonthDayNanoType>().values())
            }
        };
        let nulls = |array: &'a ArrayRef| array.nulls().filter(|nulls| nulls.null_count() > 0);
        let parts = parts.map(|(part, array, ty)| (part, nulls(array), cells(array, ty))).collect();
        KeyColumns { parts, nulls: NullKeys::Distinct }
    }

    /// For an index in which NULLs are what is said.
    pub fn with_nulls(mut self, nulls: NullKeys) -> KeyColumns<'a> {
        self.nulls = nulls;
        self
    }

    /// Appends the key of one row; whether a NULL makes it unlike every other.
    #[inline]
    pub fn append(&self, row: usize, out: &mut Vec<u8>) -> bool {
        let mut has_null = false;
        for (at, (part, nulls, cells)) in self.parts.iter().enumerate() {
            let is_null = nulls.is_some_and(|nulls| nulls.is_null(row));
            has_null |= is_null && self.nulls.sets_apart(at);
            encode_with(out, part, is_null, |out| match cells {
                Cells::Bool(array) => out.push(u8::from(array.value(row))),
                Cells::I16(cells) => out.extend_from_slice(&i16_body(cells[row])),
                Cells::I32(cells) => out.extend_from_slice(&i32_body(cells[row])),
                Cells::I64(cells) => out.extend_from_slice(&i64_body(cells[row])),
                Cells::I128(cells) => out.extend_from_slice(&i128_body(cells[row])),
                Cells::F32(cells) => out.extend_from_slice(&f32_body(cells[row])),
                Cells::F64(cells) => out.extend_from_slice(&f64_body(cells[row])),
                Cells::Text(array) => encode_bytes(out, array.value(row).as_bytes()),
                Cells::Bytes(array) => encode_bytes(out, array.value(row)),
                Cells::Numeric(array) => encode_bytes(out, numeric::order(array.value(row))),
                Cells::Uuid(array) => out.extend_from_slice(array.value(row)),
                Cells::Interval(cells) => {
                    let v = cells[row];
                    let v = Interval::of_arrow(v.months, v.days, v.nanoseconds);
                    out.extend_from_slice(&i128_body(v.span_us()));
                }
            });
        }
        has_null
    }
}

/// Takes one part, [`ASCENDING`], off the front of a key, as [`encode_part`] has put it there.
///
/// Panics if it has not.
pub fn decode_part(key: &mut &[u8], ty: ColumnType) -> Value {
    let end = part_end(key, 0, &(ASCENDING, ty)).expect("a key has its parts");
    let (whole, rest) = key.split_at(end);
    *key = rest;
    decode_whole(whole, ty).expect("a text is UTF-8, and a number well-formed")
}

/// One part, [`ASCENDING`]; none of what is no text or no number, for the successor of one need not be.
fn decode_whole(part: &[u8], ty: ColumnType) -> Option<Value> {
    match part[0] {
        VALUE => decode_body(&part[1..], ty),
        _ => Some(Value::Null),
    }
}

fn decode_body(body: &[u8], ty: ColumnType) -> Option<Value> {
    fn sized<const N: usize>(body: &[u8]) -> [u8; N] {
        body.try_into().expect("a value of this type has as many bytes")
    }
    let i64_of = |body| i64::from_be_bytes(sized(body)) ^ i64::MIN;
    let i32_of = |body| i32::from_be_bytes(sized(body)) ^ i32::MIN;
    let bytes_of = |body: &[u8]| {
        let (mut bytes, mut rest) = (Vec::new(), &body[..body.len() - 2]);
        while let Some((byte, after)) = rest.split_first() {
            bytes.push(*byte);
            rest = if *byte == 0 { &after[1..] } else { after };
        }
        bytes
    };
    Some(match ty {
        ColumnType::Bool => Value::Bool(body[0] == 1),
        ColumnType::Int16 => Value::Int16(i16::from_be_bytes(sized(body)) ^ i16::MIN),
        ColumnType::Int32 => Value::Int32(i32_of(body)),
        ColumnType::Date => Value::Date(i32_of(body)),
        ColumnType::Int64 => Value::Int64(i64_of(body)),
        ColumnType::Timestamp => Value::Timestamp(i64_of(body)),
        ColumnType::TimestampTz => Value::TimestampTz(i64_of(body)),
        ColumnType::Decimal { .. } => Value::Decimal(i128::from_be_bytes(sized(body)) ^ i128::MIN),
        ColumnType::Float32 => {
            let bits = u32::from_be_bytes(sized(body));
            let bits = if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits };
            Value::Float32(f32::from_bits(bits))
        }
        ColumnType::Float64 => {
            let bits = u64::from_be_bytes(sized(body));
            let bits = if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits };
            Value::Float64(f64::from_bits(bits))
        }
        ColumnType::Text => {
            return String::from_utf8(bytes_of(body)).ok().map(Value::text);
        }
        ColumnType::Bytes => Value::Bytes(bytes_of(body).into()),
        // Its equal that shows the fewest digits: how many it showed is not in the key.
        ColumnType::Numeric => return numeric::of_order(&bytes_of(body)).map(Value::Numeric),
        ColumnType::Uuid => Value::Uuid(sized(body)),
        ColumnType::Time => Value::Time(i64_of(body)),
        ColumnType::Interval => {
            let span_us = i128::from_be_bytes(sized(body)) ^ i128::MIN;
            Value::Interval(Interval::of_span_us(span_us))
        }
    })
}

/// The first parts of a key, if it has them whole and has more; else all of it. `key` may be a bound: an
/// encoding, or the [`successor`] of one.
pub fn leading<'k>(key: &'k [u8], parts: &[(KeyPart, ColumnType)]) -> &'k [u8] {
    let ends = parts.iter().try_fold(0, |at, part| part_end(key, at, part));
    ends.map_or(key, |end| &key[..end])
}

/// The whole parts that a key begins with, each as its value and where it ends. `key` may be a bound, as for
/// [`leading`]: what begins with the bytes of a part has this value.
pub fn whole_parts(key: &[u8], parts: &[(KeyPart, ColumnType)]) -> Vec<(Value, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    for (part, ty) in parts {
        let Some(end) = part_end(key, at, &(*part, *ty)) else { break };
        let mut whole = key[at..end].to_vec();
        if part.descending {
            whole[1..].iter_mut().for_each(|byte| *byte = !*byte);
        }
        let Some(value) = decode_whole(&whole, *ty) else { break };
        found.push((value, end));
        at = end;
    }
    found
}

/// The integer of a type of which a key begins with a part, and the bytes of that; none, if it is no value. `key` may be a
/// bound that ends within the part: the first integer that is not below it.
pub fn integer_at(key: &[u8], (part, ty): &(KeyPart, ColumnType)) -> Option<(i64, usize)> {
    let body = key.strip_prefix(&[VALUE])?;
    let mut whole = vec![0; ty.width()];
    let length = body.len().min(whole.len());
    whole[..length].copy_from_slice(&body[..length]);
    if part.descending {
        whole.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let value = decode_body(&whole, *ty)?.as_integer()?;
    Some((value, 1 + length))
}

/// Where a part ends that begins at `at`; `None` if it is not whole.
fn part_end(key: &[u8], at: usize, (part, ty): &(KeyPart, ColumnType)) -> Option<usize> {
    let body = at + 1;
    match *key.get(at)? {
        NULL_FIRST | NULL_LAST => Some(body),
        VALUE if ty.is_view() => {
            let turned = if part.descending { 0xFF } else { 0 };
            let mut at = body;
            loop {
                at += key.get(at..)?.iter().position(|byte| byte ^ turned == 0)?;
                match key.get(at + 1)? ^ turned {
                    0 => return Some(at + 2),
                    0xFF => at += 2,
                    _ => return None,
                }
            }
        }
        VALUE => Some(body + ty.width()).filter(|end| *end <= key.len()),
        _ => None,
    }
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
            [
                (i32::MIN, i32::MIN, -Interval::MAX_US),
                (-1, 0, 0),
                (0, -29, 0),
                (0, 0, -1),
                (0, 0, 0),
                (0, 1, -1),
                (0, 0, 86_400_000_000),
                (0, 29, 86_400_000_001),
                (1, 1, 0),
                (0, i32::MAX, 0),
                (i32::MAX, i32::MAX, Interval::MAX_US),
            ]
            .map(|(months, days, us)| Value::Interval(Interval { months, days, us }))
            .to_vec(),
            numbers(),
        ]
    }

    fn numbers() -> Vec<Value> {
        let of = |unscaled, scale| numeric::of_unscaled(unscaled, scale);
        let ends = [numeric::NEGATIVE_INFINITY, numeric::INFINITY, numeric::NAN].map(Box::from);
        let [below, above, nan] = ends;
        let numbers = vec![
            below,
            of(i128::MIN, 0),
            of(-10_001, 0),
            of(-10_000, 0),
            of(-99_999, 4),
            of(-1_000_001, 6),
            of(-100, 2),
            of(-9_999, 4),
            of(-1, 200),
            of(0, 7),
            of(1, 200),
            of(1, 4),
            of(10_001, 8),
            of(5, 1),
            of(1, 0),
            of(1_000_001, 6),
            of(256, 0),
            of(10_000, 0),
            of(100_000_000, 0),
            of(100_000_001, 0),
            of(i128::MAX, 0),
            // 10000^32767
            [0x40, 0xFF, 0xFF, 0, 1, 0, 0].into(),
            above,
            nan,
        ];
        numbers.into_iter().map(Value::Numeric).collect()
    }

    #[test]
    fn numbers_that_show_more_digits_are_one_key() {
        for part in [part(false, false), part(true, true)] {
            let of = |unscaled, scale| {
                let value = Value::Numeric(numeric::of_unscaled(unscaled, scale));
                key(&value, &part)
            };
            assert_eq!(of(10, 1), of(1, 0));
            assert_eq!(of(-150, 2), of(-15, 1));
            assert_eq!(of(0, 5), of(0, 0));
            assert_ne!(of(10, 1), of(10, 0));
        }
    }

    #[test]
    fn values_are_equal_where_their_keys_are() {
        for (_, mut values) in typed() {
            values.push(Value::Null);
            if let Value::Numeric(_) = values[0] {
                let more =
                    [(10, 1), (0, 0), (50, 2)].map(|(n, scale)| numeric::of_unscaled(n, scale));
                values.extend(more.map(Value::Numeric));
            }
            for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
                let p = part(false, false);
                assert_eq!(equal(a, b), key(a, &p) == key(b, &p), "{a:?}, {b:?}");
            }
        }
    }

    #[test]
    fn intervals_of_one_length_are_one_key() {
        let p = part(false, false);
        let of = |months, days, us| key(&Value::Interval(Interval { months, days, us }), &p);
        assert_eq!(of(1, 0, 0), of(0, 30, 0));
        assert_eq!(of(0, 1, 0), of(0, 0, 86_400_000_000));
        assert_eq!(of(1, -30, 0), of(0, 0, 0));
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
    fn keys_from_columns_are_the_keys_of_their_values() {
        for (ty, mut values) in typed() {
            values.insert(1, Value::Null);
            let array = crate::batch::array_of(ty, values.iter());
            for part in [part(false, false), part(true, true), part(true, false)] {
                // The same column twice: a key of two parts.
                let columns = KeyColumns::new([(part, &array, ty); 2].into_iter());
                for (row, value) in values.iter().enumerate() {
                    let mut out = vec![1, 2, 3];
                    assert_eq!(columns.append(row, &mut out), value.is_null());
                    let once = key(value, &part);
                    assert_eq!(out, [&[1, 2, 3], &once[..], &once].concat(), "{ty:?} {value:?}");
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
    fn a_part_is_read_back() {
        for (ty, mut values) in typed() {
            values.push(Value::Null);
            let mut whole = Vec::new();
            values.iter().for_each(|value| encode_part(&mut whole, value, &part(false, false)));
            let mut rest = &*whole;
            for value in &values {
                let read = decode_part(&mut rest, ty);
                let again = key(&read, &part(false, false));
                assert_eq!(again, key(value, &part(false, false)), "{ty:?}: {value:?}, {read:?}");
            }
            assert!(rest.is_empty());
        }
    }

    /// Values of every type.
    fn typed() -> Vec<(ColumnType, Vec<Value>)> {
        let all = [
            (ColumnType::Date, [i32::MIN, 0, 9].map(Value::Date).to_vec()),
            (ColumnType::Timestamp, [i64::MIN, -7, 9].map(Value::Timestamp).to_vec()),
            (ColumnType::TimestampTz, [i64::MIN, -7, 9].map(Value::TimestampTz).to_vec()),
            (ColumnType::Bytes, vec![Value::Bytes(vec![0, 0xFF, 0].into())]),
            (ColumnType::Uuid, vec![Value::Uuid([7; 16]), Value::Uuid([0xFF; 16])]),
            (ColumnType::Time, [0, 86_400_000_000].map(Value::Time).to_vec()),
        ];
        let types = [
            ColumnType::Int64,
            ColumnType::Int32,
            ColumnType::Int16,
            ColumnType::Float64,
            ColumnType::Float32,
            ColumnType::Decimal { precision: 38, scale: 2 },
            ColumnType::Text,
            ColumnType::Bool,
            ColumnType::Interval,
            ColumnType::Numeric,
        ];
        types.into_iter().zip(ladders()).chain(all).collect()
    }

    #[test]
    fn the_leading_parts_of_a_key_bound_it() {
        for (ty, mut values) in typed() {
            values.push(Value::Null);
            for part in [part(false, false), part(true, true), part(true, false)] {
                let keys: Vec<Vec<u8>> = values.iter().map(|value| key(value, &part)).collect();
                for (first, second) in keys.iter().flat_map(|a| keys.iter().map(move |b| (a, b))) {
                    let both = [first.as_slice(), second].concat();
                    assert_eq!(leading(&both, &[(part, ty)]), first, "{ty:?}");
                    assert_eq!(leading(&both, &[(part, ty); 2]), both);
                    assert_eq!(leading(first, &[(part, ty); 2]), first, "it has no more");
                    // A bound of one part, of which nothing may be taken away.
                    let above = successor(first).expect("a key is not all ones");
                    assert!(leading(&above, &[(part, ty)]) > first.as_slice());
                }
            }
        }
    }

    #[test]
    fn the_whole_parts_of_a_bound_are_read_back() {
        for (ty, mut values) in typed() {
            values.push(Value::Null);
            for part in [part(false, false), part(true, true), part(true, false)] {
                let parts = [(part, ty); 2];
                for (first, second) in
                    values.iter().flat_map(|a| values.iter().map(move |b| (a, b)))
                {
                    let both = encode([first, second], [&part, &part]);
                    let read = whole_parts(&both, &parts);
                    assert_eq!(encode(read.iter().map(|(value, _)| value), [&part, &part]), both);
                    assert_eq!(read.last().unwrap().1, both.len());
                    assert_eq!(whole_parts(&both[..read[0].1], &parts).len(), 1);
                    // Of a bound it is the bytes that count.
                    let above = successor(&both).expect("a key is not all ones");
                    for (value, end) in whole_parts(&above, &parts[..1]) {
                        let is_bool = ty == ColumnType::Bool;
                        assert!(is_bool || key(&value, &part) == above[..end], "{ty:?} {above:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_successor_bounds_a_prefix() {
        assert_eq!(successor(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(successor(&[1, 0xFF]), Some(vec![2]));
        assert_eq!(successor(&[0xFF, 0xFF]), None);
    }
}
