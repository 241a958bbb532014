//! The text of a value, as numeric_in reads and numeric_out writes it.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use num_bigint::BigUint;

use super::bytes::{GROUP_DIGITS, Groups};
use super::int::Int;
use super::{Decimal, Exact, Modifier, NumericError, SCALE_MAX, WHOLE_DIGITS_MAX};

/// Exponents from here on are errors, whatever the digits: numeric_in's limit, half of an int's.
const EXPONENT_LIMIT: i64 = i32::MAX as i64 / 2;

/// What a u128 holds, whatever the digits.
const SMALL_DIGITS: usize = 38;

const SPECIAL: [(&str, Exact); 7] = [
    ("nan", Exact::NaN),
    ("infinity", Exact::Infinity),
    ("+infinity", Exact::Infinity),
    ("-infinity", Exact::NegInfinity),
    ("inf", Exact::Infinity),
    ("+inf", Exact::Infinity),
    ("-inf", Exact::NegInfinity),
];

impl Exact {
    /// Reads a number, with or without exponent, 'NaN', 'Infinity' or 'inf', blanks around it.
    pub fn parse(text: &str) -> Result<Exact, NumericError> {
        Exact::parse_as(text, None)
    }

    /// Reads a value of type numeric(precision, scale) as COPY and parameters are read: digits beyond are rounded away
    /// before they are counted. (A literal that is cast is read without precision, and then made to [`Exact::fit`].)
    pub fn parse_as(text: &str, modifier: Option<Modifier>) -> Result<Exact, NumericError> {
        let body = text.trim_matches(is_blank);
        if let Some((_, special)) = SPECIAL.iter().find(|(name, _)| name.eq_ignore_ascii_case(body))
        {
            return match modifier {
                Some(modifier) => special.clone().fit(modifier),
                None => Ok(special.clone()),
            };
        }
        match scan(body) {
            None => Err(NumericError::Syntax(text.to_owned())),
            Some(scanned) => scanned.value(modifier),
        }
    }

    /// Appends the value's text.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Exact::NegInfinity => out.extend(b"-Infinity"),
            Exact::Infinity => out.extend(b"Infinity"),
            Exact::NaN => out.extend(b"NaN"),
            Exact::Finite(number) => number.write(out),
        }
    }
}

impl FromStr for Exact {
    type Err = NumericError;

    fn from_str(text: &str) -> Result<Exact, NumericError> {
        Exact::parse(text)
    }
}

impl Display for Exact {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text);
        f.pad(&String::from_utf8_lossy(&text))
    }
}

impl Decimal {
    fn write(&self, out: &mut Vec<u8>) {
        let Groups { weight, digits } = Groups::of(self);
        let digit = |power: i32| {
            let at = usize::try_from(weight - power).ok();
            at.and_then(|at| digits.get(at)).copied().unwrap_or_default()
        };
        if self.unscaled.signum() < 0 {
            out.push(b'-');
        }
        let highest = decimal_text(digit(weight.max(0)));
        let zeros = highest.iter().take(highest.len() - 1).take_while(|c| **c == b'0').count();
        out.extend(&highest[zeros..]);
        (0..weight.max(0)).rev().for_each(|power| out.extend(decimal_text(digit(power))));
        if self.scale == 0 {
            return;
        }
        out.push(b'.');
        let groups = self.scale.div_ceil(GROUP_DIGITS) as i32;
        (1..=groups).for_each(|power| out.extend(decimal_text(digit(-power))));
        let excess = groups as u32 * GROUP_DIGITS - self.scale;
        out.truncate(out.len() - excess as usize);
    }

    /// The nearest double precision number; an infinity for what is beyond them.
    pub(super) fn to_f64(&self) -> f64 {
        let mut text = Vec::new();
        self.write(&mut text);
        std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
    }
}

fn decimal_text(group: u16) -> [u8; GROUP_DIGITS as usize] {
    [1000, 100, 10, 1].map(|unit| b'0' + (group / unit % 10) as u8)
}

/// Blanks as C's isspace has them, which counts the vertical tab.
fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0B'
}

/// A number's text taken apart: digits times 10 to the power of `power`.
struct Scanned {
    negative: bool,
    /// Without zeros in front.
    digits: Vec<u8>,
    power: i64,
    /// The exponent is beyond all limits.
    overflows: bool,
}

fn scan(text: &str) -> Option<Scanned> {
    let bytes = text.as_bytes();
    let negative = bytes.first() == Some(&b'-');
    let signed = negative || bytes.first() == Some(&b'+');
    let body = &bytes[usize::from(signed)..];
    let mantissa = body.iter().take_while(|c| c.is_ascii_digit() || **c == b'.').count();
    let (mantissa, exponent) = body.split_at(mantissa);
    let point = mantissa.iter().position(|c| *c == b'.').unwrap_or(mantissa.len());
    let (whole, fraction) = (&mantissa[..point], mantissa.get(point + 1..).unwrap_or_default());
    if whole.len() + fraction.len() == 0 || fraction.contains(&b'.') {
        return None;
    }
    let exponent = match exponent {
        [] => 0,
        [b'e' | b'E', exponent @ ..] => scan_exponent(exponent)?,
        _ => return None,
    };
    let digits = whole.iter().chain(fraction).copied().skip_while(|c| *c == b'0').collect();
    Some(Scanned {
        negative,
        digits,
        power: exponent - fraction.len() as i64,
        overflows: exponent.abs() >= EXPONENT_LIMIT,
    })
}

/// An exponent as strtol reads it, which allows blanks in front. Bounded, so that it can be computed with.
fn scan_exponent(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let step = |n: i64, c: &u8| (n * 10 + i64::from(c - b'0')).min(EXPONENT_LIMIT);
    let magnitude = digits.iter().fold(0, step);
    Some(if negative { -magnitude } else { magnitude })
}

impl Scanned {
    fn value(&self, modifier: Option<Modifier>) -> Result<Exact, NumericError> {
        if self.overflows {
            return Err(NumericError::Overflow);
        }
        let scale = (-self.power).max(0);
        let whole = self.digits.len() as i64 + self.power;
        let zero = self.digits.is_empty();
        match modifier {
            None if scale > i64::from(SCALE_MAX) => Err(NumericError::Overflow),
            None if zero => Ok(Exact::Finite(Decimal::zero(scale as u32))),
            None if whole > i64::from(WHOLE_DIGITS_MAX) => Err(NumericError::Overflow),
            None => Ok(Exact::Finite(self.number())),
            // Neither a number that is certain to be too large nor one that vanishes is written out: an exponent is
            // quickly typed.
            Some(m) if !zero && whole > i64::from(m.precision - m.scale) => {
                Err(NumericError::FieldOverflow(m))
            }
            Some(m) if zero || whole < -i64::from(m.scale) => Exact::ZERO.fit(m),
            Some(m) => Ok(Exact::Finite(self.number().fit(m)?)),
        }
    }

    fn number(&self) -> Decimal {
        let magnitude = if self.digits.len() <= SMALL_DIGITS {
            let step = |n: u128, c: &u8| n * 10 + u128::from(c - b'0');
            Int::from_magnitude(self.negative, self.digits.iter().fold(0, step))
        } else {
            let digits: Vec<u8> = self.digits.iter().map(|c| c - b'0').collect();
            let magnitude = BigUint::from_radix_be(&digits, 10).unwrap_or_default();
            Int::from_big_magnitude(self.negative, magnitude)
        };
        let up = self.power.max(0) as u32;
        Decimal::new(magnitude.times_power_of_ten(up), (-self.power).max(0) as u32)
    }
}
