//! PostgreSQL's binary format of numeric.
//!
//! ```text
//!   digits (u16)  weight (i16)  sign (u16)  display scale (u16)  digit (i16, base 10000) …
//! ```

use smallvec::SmallVec;

use super::bytes::{BASE, GROUP_DIGITS, Groups};
use super::int::Int;
use super::{Decimal, Exact, NumericError, SCALE_MAX};

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const NEG_INFINITY: u16 = 0xF000;

/// PostgreSQL sends this with infinities: bits of their header, read as a display scale.
const INFINITY_SCALE: u16 = 32;

impl Exact {
    /// Appends the value as numeric_send does.
    pub fn write_binary(&self, out: &mut Vec<u8>) {
        let number = match self {
            Exact::NaN => return header(out, 0, 0, NAN, 0),
            Exact::Infinity => return header(out, 0, 0, INFINITY, INFINITY_SCALE),
            Exact::NegInfinity => return header(out, 0, 0, NEG_INFINITY, INFINITY_SCALE),
            Exact::Finite(number) => number,
        };
        let groups = Groups::of(number);
        let sign = if number.unscaled.signum() < 0 { NEGATIVE } else { POSITIVE };
        header(out, groups.digits.len() as u16, groups.weight as i16, sign, number.scale as u16);
        groups.digits.iter().for_each(|digit| out.extend(digit.to_be_bytes()));
    }

    /// The value that a client sent, as numeric_recv reads it: digits beyond the display scale are cut off.
    pub fn from_binary(bytes: &[u8]) -> Result<Exact, NumericError> {
        let (pairs, odd) = bytes.as_chunks::<2>();
        let mut words = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
        let mut next = || words.next().ok_or(NumericError::Short);
        let (count, weight, sign, scale) = (next()?, next()? as i16, next()?, next()?);
        if !matches!(sign, POSITIVE | NEGATIVE | NAN | INFINITY | NEG_INFINITY) {
            return Err(NumericError::Binary("invalid sign in external \"numeric\" value"));
        }
        if u32::from(scale) > SCALE_MAX {
            return Err(NumericError::Binary("invalid scale in external \"numeric\" value"));
        }
        let mut digits = SmallVec::<[u16; 12]>::new();
        for _ in 0..count {
            let digit = next()?;
            if digit >= BASE {
                return Err(NumericError::Binary("invalid digit in external \"numeric\" value"));
            }
            digits.push(digit);
        }
        if words.next().is_some() || !odd.is_empty() {
            return Err(NumericError::Binary("incorrect binary data format"));
        }
        match sign {
            NAN => Ok(Exact::NaN),
            INFINITY => Ok(Exact::Infinity),
            NEG_INFINITY => Ok(Exact::NegInfinity),
            _ => number(sign == NEGATIVE, i32::from(weight), digits, u32::from(scale)),
        }
    }
}

fn header(out: &mut Vec<u8>, digits: u16, weight: i16, sign: u16, scale: u16) {
    for word in [digits, weight as u16, sign, scale] {
        out.extend(word.to_be_bytes());
    }
}

fn number(
    negative: bool,
    mut weight: i32,
    mut digits: SmallVec<[u16; 12]>,
    scale: u32,
) -> Result<Exact, NumericError> {
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..leading);
    weight -= leading as i32;
    // Digits of which nothing is shown; then what of the last one is not.
    let kept = weight + 1 + scale.div_ceil(GROUP_DIGITS) as i32;
    digits.truncate(kept.max(0) as usize);
    let hidden = (GROUP_DIGITS - scale % GROUP_DIGITS) % GROUP_DIGITS;
    if digits.len() as i32 == kept
        && let Some(last) = digits.last_mut()
    {
        *last -= *last % 10u16.pow(hidden);
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    if digits.is_empty() {
        return Ok(Exact::Finite(Decimal::new(Int::ZERO, scale)));
    }
    let groups = Groups { weight, digits };
    groups.decimal(negative, scale).map(Exact::Finite).ok_or(NumericError::Overflow)
}
