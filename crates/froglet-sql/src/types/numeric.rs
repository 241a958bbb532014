//! Decimals: an unscaled 128-bit integer and a scale; text, rounding, base-10000 digits. What has more digits than
//! that, and what has no fixed scale, is an [`Exact`].

use std::cmp::Ordering;

use datafusion::common::ScalarValue;
use froglet_engine::SqlState;
use smallvec::SmallVec;

use super::cell::Cell;
use super::exact::{Exact, NumericError};
use super::output::unsigned;
use crate::error::SqlError;

/// 10 to the power of `n`, for n up to 38.
pub fn power(n: u32) -> i128 {
    10i128.pow(n.min(38))
}

/// numeric(precision, scale) as a type modifier.
pub fn modifier_of(precision: u32, scale: u32) -> i32 {
    ((precision << 16) | (scale & 0x7FF)) as i32 + 4
}

/// Precision and scale of a type modifier.
pub fn precision_scale(modifier: i32) -> (i32, i32) {
    let packed = modifier - 4;
    let scale = ((packed & 0x7FF) ^ 1024) - 1024;
    ((packed >> 16) & 0xFFFF, scale)
}

/// `numeric field overflow`, with PostgreSQL's detail.
pub fn field_overflow(precision: u8, scale: i8) -> SqlError {
    let whole = i32::from(precision) - i32::from(scale);
    let bound = if whole == 0 { "1".to_owned() } else { format!("10^{whole}") };
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}."
    ))
}

/// A number with too many digits for any decimal here.
pub fn too_wide() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
        .detail("A numeric of a fixed scale has at most 38 digits.")
        .hint("Cast an operand to numeric.")
}

/// The unscaled value at another scale, rounded half away from zero. `None` on overflow.
pub fn rescale(unscaled: i128, from: i8, to: i8) -> Option<i128> {
    let shift = i32::from(to) - i32::from(from);
    if shift >= 0 {
        if unscaled == 0 {
            return Some(0);
        }
        if shift > 38 {
            return None;
        }
        return unscaled.checked_mul(power(shift as u32));
    }
    if -shift > 38 {
        return Some(0);
    }
    let divisor = power((-shift) as u32);
    let (quotient, rest) = (unscaled / divisor, unscaled % divisor);
    let up = rest.unsigned_abs() * 2 >= divisor.unsigned_abs();
    Some(if up { quotient + unscaled.signum() } else { quotient })
}

/// Fits a value into numeric(precision, scale), or says what PostgreSQL says.
pub fn fit(unscaled: i128, from: i8, precision: u8, scale: i8) -> Result<i128, SqlError> {
    rescale(unscaled, from, scale)
        .filter(|v| v.unsigned_abs() < power(u32::from(precision)).unsigned_abs())
        .ok_or_else(|| field_overflow(precision, scale))
}

fn is_special(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    matches!(lower.trim_start_matches(['+', '-']), "nan" | "inf" | "infinity")
}

/// An exact numeric in text.
pub fn parse_exact(text: &str) -> Result<Exact, SqlError> {
    Ok(Exact::parse(text)?)
}

/// A literal: a decimal, if one has all of its digits.
pub fn literal(text: &str) -> Result<ScalarValue, SqlError> {
    let exact = parse_exact(text)?;
    let scale = exact.scale().and_then(|scale| i8::try_from(scale).ok());
    let decimal = scale.and_then(|scale| Some((exact.to_unscaled(38, scale).ok()?, scale)));
    Ok(match decimal {
        Some((unscaled, scale)) if scale <= 38 => {
            ScalarValue::Decimal128(Some(unscaled), 38, scale)
        }
        _ => ScalarValue::LargeBinary(Some(exact.encode())),
    })
}

/// A number as an exact numeric; `None` of what is no number.
pub fn exact_of(cell: &Cell<'_>) -> Option<Exact> {
    Some(match cell {
        Cell::Int16(v) => Exact::from(i64::from(*v)),
        Cell::Int32(v) => Exact::from(i64::from(*v)),
        Cell::Int64(v) => Exact::from(*v),
        Cell::UInt64(v) => Exact::from(i128::from(*v)),
        Cell::Oid(v) => Exact::from(i64::from(*v)),
        Cell::Decimal(v, scale) => Exact::from_unscaled(*v, *scale),
        Cell::Exact(bytes) => of_bytes(bytes),
        Cell::Float32(v) => Exact::from_f32(*v),
        Cell::Float64(v) => Exact::from_f64(*v),
        _ => return None,
    })
}

/// The value of a cell's bytes.
pub fn of_bytes(bytes: &[u8]) -> Exact {
    Exact::decode(bytes).expect("what is stored is checked when it is read")
}

impl From<NumericError> for SqlError {
    fn from(error: NumericError) -> SqlError {
        let sql = SqlError::new(SqlState::new(error.sqlstate()), error.message());
        match error.detail() {
            Some(detail) => sql.detail(detail),
            None => sql,
        }
    }
}

/// A parsed decimal literal: digits and where the point is. Trailing zeros are kept.
pub fn parse(text: &str) -> Result<(i128, i8), SqlError> {
    let bad = || {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type numeric: \"{text}\""),
        )
    };
    let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if is_special(trimmed) && !trimmed.eq_ignore_ascii_case("nan") {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
            .detail("A field with a precision cannot hold an infinite value."));
    }
    if is_special(trimmed) {
        return Err(SqlError::unsupported(format!("{trimmed} as a value of type numeric(p, s)"))
            .hint("Use numeric without precision, or double precision, for NaN and infinity."));
    }
    let (negative, body) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => {
            let exponent = body[at + 1..].parse::<i32>().map_err(|_| bad())?;
            (&body[..at], exponent)
        }
        None => (body, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return Err(bad());
    }
    assemble(negative, whole, fraction, exponent).ok_or_else(too_wide)
}

/// Digits to an unscaled value; fraction digits that no 38-digit decimal has room for are rounded.
fn assemble(negative: bool, whole: &str, fraction: &str, exponent: i32) -> Option<(i128, i8)> {
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
    let first = digits.iter().position(|d| *d != 0).unwrap_or(digits.len());
    let mut scale = i64::try_from(fraction.len()).ok()? - i64::from(exponent);
    let mut significant = &digits[first..];
    let mut round_up = false;
    let whole_digits = significant.len() as i64 - scale;
    let room = if whole_digits > 38 {
        return None;
    } else {
        (38 - whole_digits.max(0)).min(38)
    };
    if scale > room {
        let drop = usize::try_from(scale - room).ok()?;
        let keep = significant.len().saturating_sub(drop);
        round_up = drop <= significant.len() && significant.get(keep).is_some_and(|d| *d >= 5);
        significant = &significant[..keep];
        scale = room;
    }
    let mut value: i128 = 0;
    for digit in significant {
        value = value.checked_mul(10)?.checked_add(i128::from(*digit))?;
    }
    value += i128::from(round_up);
    if scale < 0 {
        if value != 0 {
            value = value.checked_mul(10i128.checked_pow(u32::try_from(-scale).ok()?)?)?;
        }
        scale = 0;
    }
    if value >= power(38) {
        return None;
    }
    Some((if negative { -value } else { value }, i8::try_from(scale).ok()?))
}

/// Appends a decimal as PostgreSQL prints it: every digit of its scale.
pub fn write(unscaled: i128, scale: i8, out: &mut Vec<u8>) {
    if let (Ok(small), 0..=18) = (i64::try_from(unscaled), scale) {
        return write_small(small, scale.unsigned_abs(), out);
    }
    let digits = unscaled.unsigned_abs().to_string();
    if unscaled < 0 {
        out.push(b'-');
    }
    let scale = usize::from(scale.unsigned_abs());
    if scale == 0 {
        out.extend_from_slice(digits.as_bytes());
        return;
    }
    if digits.len() > scale {
        out.extend_from_slice(&digits.as_bytes()[..digits.len() - scale]);
        out.push(b'.');
        out.extend_from_slice(&digits.as_bytes()[digits.len() - scale..]);
    } else {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', scale - digits.len()));
        out.extend_from_slice(digits.as_bytes());
    }
}

/// The same of what one machine word holds, which is most of them.
fn write_small(unscaled: i64, scale: u8, out: &mut Vec<u8>) {
    if unscaled < 0 {
        out.push(b'-');
    }
    let one = 10_u64.pow(u32::from(scale));
    let (whole, mut fraction) = (unscaled.unsigned_abs() / one, unscaled.unsigned_abs() % one);
    unsigned(whole, out);
    if scale == 0 {
        return;
    }
    let mut digits = [b'0'; 19];
    digits[0] = b'.';
    for digit in digits[1..=usize::from(scale)].iter_mut().rev() {
        *digit = b'0' + (fraction % 10) as u8;
        fraction /= 10;
    }
    out.extend_from_slice(&digits[..=usize::from(scale)]);
}

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;

/// Appends the binary format.
///
/// ```text
///   ndigits  weight  sign  dscale  digit…      each 2 bytes, digits in base 10000, the first
///                                              one times 10000^weight
/// ```
pub fn write_binary(unscaled: i128, scale: i8, out: &mut Vec<u8>) {
    let scale = u32::from(scale.unsigned_abs());
    // Base-10000 digits are aligned at the decimal point: widen the fraction to full groups.
    let pad = (4 - scale % 4) % 4;
    let mut groups = SmallVec::<[u16; 12]>::new();
    let mut whole = unscaled.unsigned_abs();
    let fraction_groups = ((scale + pad) / 4) as usize;
    if fraction_groups > 0 {
        // The last group takes only 4 - pad digits of the unscaled value.
        let unit = 10u128.pow(4 - pad);
        groups.push(((whole % unit) * 10u128.pow(pad)) as u16);
        whole /= unit;
    }
    while u64::try_from(whole).is_err() {
        groups.push((whole % 10_000) as u16);
        whole /= 10_000;
    }
    // Most fit in a word, in which divisions are cheap.
    let mut whole = whole as u64;
    while whole > 0 || groups.len() < fraction_groups {
        groups.push((whole % 10_000) as u16);
        whole /= 10_000;
    }
    groups.reverse();
    let mut weight = groups.len() as i32 - fraction_groups as i32 - 1;
    let lead = groups.iter().take_while(|g| **g == 0).count();
    weight -= lead as i32;
    let mut digits = &groups[lead..];
    while let Some((0, rest)) = digits.split_last() {
        digits = rest;
    }
    if digits.is_empty() {
        weight = 0;
    }
    out.extend_from_slice(&(digits.len() as u16).to_be_bytes());
    out.extend_from_slice(&(weight as i16).to_be_bytes());
    let sign = if unscaled < 0 { NEGATIVE } else { POSITIVE };
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&(scale as u16).to_be_bytes());
    for digit in digits {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

/// Reads the binary format.
pub fn from_binary(bytes: &[u8]) -> Result<(i128, i8), SqlError> {
    let bad = |what: &str| {
        SqlError::new(
            SqlState::INVALID_BINARY_REPRESENTATION,
            format!("invalid {what} in external \"numeric\" value"),
        )
    };
    if bytes.len() < 8 {
        return Err(super::binary::short());
    }
    let word = |i: usize| u16::from_be_bytes([bytes[2 * i], bytes[2 * i + 1]]);
    let (count, weight, sign, dscale) = (word(0), word(1) as i16, word(2), word(3));
    match bytes.len().cmp(&(8 + 2 * usize::from(count))) {
        Ordering::Less => return Err(super::binary::short()),
        Ordering::Equal => {}
        Ordering::Greater => {
            let message = super::binary::INCORRECT;
            return Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message));
        }
    }
    if matches!(sign, 0xC000 | 0xD000 | 0xF000) {
        return Err(SqlError::unsupported("NaN or infinity as a value of type numeric(p, s)"));
    }
    if sign != POSITIVE && sign != NEGATIVE {
        return Err(bad("sign"));
    }
    if dscale > 0x3FFF {
        return Err(bad("scale"));
    }
    let mut text = String::new();
    for i in 0..usize::from(count) {
        let digit = word(4 + i);
        if digit >= 10_000 {
            return Err(bad("digit"));
        }
        text.push_str(&format!("{digit:04}"));
    }
    let exponent = 4 * (i32::from(weight) - i32::from(count) + 1);
    let (value, scale) = assemble(sign == NEGATIVE, &text, "", exponent).ok_or_else(too_wide)?;
    let shown = i8::try_from(dscale.min(38)).unwrap_or(38);
    Ok(match rescale(value, scale, shown) {
        Some(v) if shown > scale || rescale(v, shown, scale) == Some(value) => (v, shown),
        _ => (value, scale),
    })
}
