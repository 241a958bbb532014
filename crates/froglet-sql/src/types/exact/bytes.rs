//! The bytes of a value ([`froglet_engine::numeric`] draws them), and the digits of base 10000 they are made of.

use froglet_engine::numeric::{
    self, ABOVE, BELOW, END, INVERTED, IS_NAN, NEGATIVE, POSITIVE, WEIGHT_BIAS, ZERO,
    display_scale, order,
};
use num_bigint::BigUint;
use smallvec::SmallVec;

use super::int::Int;
use super::{Decimal, Exact, NumericError, SCALE_MAX};

/// A number's weight, at most: 131072 digits before the point.
const WEIGHT_MAX: i32 = 32767;

/// Decimal digits in one digit of base 10000.
pub(super) const GROUP_DIGITS: u32 = 4;
pub(super) const BASE: u16 = 10_000;

/// Four decimal digits each, as many as a u64 holds: larger numbers are taken apart by this, u64 by u64.
const CHUNK: u128 = 10u128.pow(16);
const CHUNK_GROUPS: u32 = 4;

/// As many digits of base 10000 as a u128 holds, whatever they are.
const SMALL_GROUPS: usize = 9;

impl Exact {
    /// The value's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        self.encode_into(&mut out);
        out
    }

    /// Appends the value's bytes.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        let number = match self {
            Exact::NegInfinity => return out.extend(numeric::NEGATIVE_INFINITY),
            Exact::Infinity => return out.extend(numeric::INFINITY),
            Exact::NaN => return out.extend(numeric::NAN),
            Exact::Finite(number) => number,
        };
        assert!(number.scale <= SCALE_MAX, "a value's display scale has been checked");
        match number.unscaled.signum() {
            0 => out.push(ZERO),
            1 => {
                let groups = Groups::of(number);
                out.push(POSITIVE);
                out.extend(biased(groups.weight).to_be_bytes());
                groups.digits.iter().for_each(|digit| out.extend(digit.to_be_bytes()));
            }
            _ => {
                let groups = Groups::of(number);
                out.push(NEGATIVE);
                out.extend((!biased(groups.weight)).to_be_bytes());
                groups.digits.iter().for_each(|digit| out.extend((INVERTED - digit).to_be_bytes()));
                out.extend(END);
            }
        }
        out.extend((number.scale as u16).to_be_bytes());
    }

    /// The value of these bytes; `Corrupt` for others than `encode` writes.
    pub fn decode(bytes: &[u8]) -> Result<Exact, NumericError> {
        let shown = u32::from(display_scale(bytes));
        if bytes.len() < 3 || shown > SCALE_MAX {
            return Err(NumericError::Corrupt);
        }
        let (kind, rest) = (bytes[0], &order(bytes)[1..]);
        match (kind, rest.is_empty()) {
            (NEGATIVE | POSITIVE, false) => decode_number(kind == NEGATIVE, rest, shown)
                .map(Exact::Finite)
                .ok_or(NumericError::Corrupt),
            (ZERO, true) => Ok(Exact::Finite(Decimal::zero(shown))),
            (BELOW, true) if shown == 0 => Ok(Exact::NegInfinity),
            (ABOVE, true) if shown == 0 => Ok(Exact::Infinity),
            (IS_NAN, true) if shown == 0 => Ok(Exact::NaN),
            _ => Err(NumericError::Corrupt),
        }
    }
}

fn biased(weight: i32) -> u16 {
    u16::try_from(weight + WEIGHT_BIAS).expect("a value's digits have been counted")
}

fn decode_number(negative: bool, rest: &[u8], scale: u32) -> Option<Decimal> {
    let (pairs, odd) = rest.as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    let mut words = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
    let weight = words.next()?;
    if negative && words.next_back()?.to_be_bytes() != END {
        return None;
    }
    let weight = i32::from(if negative { !weight } else { weight }) - WEIGHT_BIAS;
    let digits = words.map(|word| if negative { INVERTED.wrapping_sub(word) } else { word });
    let groups = Groups { weight, digits: digits.collect() };
    let ends = [groups.digits.first()?, groups.digits.last()?];
    if ends.contains(&&0) || groups.digits.iter().any(|digit| *digit >= BASE) {
        return None;
    }
    groups.decimal(negative, scale)
}

/// A number's magnitude as digits of base 10000, the first one counting 10000 to the power of `weight`. The first and
/// the last digit are not zero; zero has none, and weight 0.
pub(super) struct Groups {
    pub(super) weight: i32,
    pub(super) digits: SmallVec<[u16; 12]>,
}

impl Groups {
    pub(super) fn of(number: &Decimal) -> Groups {
        // The lowest digit of base 10000 may hold fewer decimal digits than four, and zeros below them.
        let partial = number.scale % GROUP_DIGITS;
        let lowest = -(number.scale.div_ceil(GROUP_DIGITS) as i32);
        let digits = match &number.unscaled {
            Int::Small(n) => small_digits(n.unsigned_abs(), partial),
            Int::Big(n) => big_digits(n.magnitude(), partial),
        };
        Groups::trimmed(lowest, digits)
    }

    /// Of digits from the lowest, which counts 10000 to the power of `lowest`, to the highest.
    fn trimmed(lowest: i32, mut digits: SmallVec<[u16; 12]>) -> Groups {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        if digits.is_empty() {
            return Groups { weight: 0, digits };
        }
        let weight = lowest + digits.len() as i32 - 1;
        digits.reverse();
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Groups { weight, digits }
    }

    /// The number, if it has no digits beyond `scale`, nor more digits than a numeric may have.
    pub(super) fn decimal(&self, negative: bool, scale: u32) -> Option<Decimal> {
        let Some((&last, others)) = self.digits.split_last() else {
            return Some(Decimal::zero(scale));
        };
        let group = GROUP_DIGITS as i32;
        let last_power = (self.weight - others.len() as i32) * group;
        let shift = last_power + scale as i32;
        if self.weight > WEIGHT_MAX || shift <= -group {
            return None;
        }
        // Of the last digit, only the decimal digits that are shown are taken.
        let hidden = (-shift).max(0) as u32;
        let (taken, rest) = (last / 10u16.pow(hidden), last % 10u16.pow(hidden));
        if rest != 0 {
            return None;
        }
        let last_base = 10u16.pow(GROUP_DIGITS - hidden);
        let magnitude = if self.digits.len() <= SMALL_GROUPS {
            let high =
                others.iter().fold(0u128, |n, digit| n * u128::from(BASE) + u128::from(*digit));
            Int::from_magnitude(negative, high * u128::from(last_base) + u128::from(taken))
        } else {
            let hundreds: Vec<u8> = others
                .iter()
                .flat_map(|digit| [(digit / 100) as u8, (digit % 100) as u8])
                .collect();
            let high = BigUint::from_radix_be(&hundreds, 100)?;
            Int::from_big_magnitude(negative, high * last_base + taken)
        };
        Some(Decimal::new(magnitude.times_power_of_ten(shift.max(0) as u32), scale))
    }
}

fn small_digits(mut n: u128, partial: u32) -> SmallVec<[u16; 12]> {
    let mut digits = SmallVec::new();
    if partial > 0 {
        let unit = 10u128.pow(partial);
        digits.push((n % unit) as u16 * 10u16.pow(GROUP_DIGITS - partial));
        n /= unit;
    }
    let base = u64::from(BASE);
    while n > u128::from(u64::MAX) {
        let mut chunk = (n % CHUNK) as u64;
        n /= CHUNK;
        for _ in 0..CHUNK_GROUPS {
            digits.push((chunk % base) as u16);
            chunk /= base;
        }
    }
    let mut n = n as u64;
    while n > 0 {
        digits.push((n % base) as u16);
        n /= base;
    }
    digits
}

fn big_digits(n: &BigUint, partial: u32) -> SmallVec<[u16; 12]> {
    let hundreds = match partial {
        0 => n.to_radix_le(100),
        _ => (n * 10u16.pow(GROUP_DIGITS - partial)).to_radix_le(100),
    };
    let digit = |pair: &[u8]| {
        u16::from(pair[0]) + 100 * u16::from(pair.get(1).copied().unwrap_or_default())
    };
    hundreds.chunks(2).map(digit).collect()
}
