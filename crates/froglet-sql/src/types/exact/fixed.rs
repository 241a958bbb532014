//! Logarithm and exponential function in binary fixed point, and the rounding of what they give.
//!
//! An approximation is an integer counting units of 2 to the power of -bits, off by at most a few units. It is
//! rounded to decimal digits when the error cannot matter, and else computed again with more bits (Ziv's strategy).

use std::cell::RefCell;

use num_bigint::{BigInt, BigUint, Sign};

use super::Decimal;
use super::int::{Int, power_of_ten};

/// Units that an approximation may be off by.
const ERROR_UNITS: u32 = 256;

/// Bits beyond the digits asked for, one attempt after the other.
const GUARD_BITS: [u64; 3] = [64, 256, 1024];

/// Where the logarithm's first approximation ends, a double precision number.
const FIRST_BITS: u64 = 60;

/// A number times 2 to the power of `bits`, off by less than [`ERROR_UNITS`].
pub(super) struct Approximation {
    pub(super) units: BigInt,
    pub(super) bits: i64,
}

/// Bits that so many decimal digits need.
pub(super) fn bits_of_digits(digits: i64) -> i64 {
    digits * 3322 / 1000 + 1
}

/// The number that `approximate` approximates, rounded half away from zero to `scale` digits after the point.
/// `approximate` is given how many bits there are to be beyond those digits.
pub(super) fn settle(scale: u32, approximate: impl Fn(u64) -> Approximation) -> Decimal {
    let rounded = |units: BigInt, bits: i64| round_units(units, bits, scale);
    let mut nearest = BigInt::ZERO;
    for guard in GUARD_BITS {
        let Approximation { units, bits } = approximate(guard);
        nearest = rounded(&units - ERROR_UNITS, bits);
        if nearest == rounded(&units + ERROR_UNITS, bits) {
            break;
        }
        // What lies this near to the middle of two decimals is taken for the middle.
        nearest = rounded(units + ERROR_UNITS, bits);
    }
    Decimal::new(Int::from_big(nearest), scale)
}

fn round_units(units: BigInt, bits: i64, scale: u32) -> BigInt {
    let (sign, magnitude) = units.into_parts();
    let scaled = magnitude * power_of_ten(scale);
    let rounded = match u64::try_from(bits) {
        Ok(0) => scaled,
        Ok(bits) => (scaled + (BigUint::from(1u32) << (bits - 1))) >> bits,
        Err(_) => scaled << bits.unsigned_abs(),
    };
    BigInt::from_biguint(if sign == Sign::NoSign { Sign::Plus } else { sign }, rounded)
}

/// The number in units of 2 to the power of -bits, rounded towards zero.
pub(super) fn units_of(number: &Decimal, bits: u64) -> BigInt {
    (number.unscaled.to_big() << bits) / BigInt::from(power_of_ten(number.scale))
}

/// The natural logarithm of a number greater than zero.
///
/// With y, a double precision number near ln m, and E = exp y, ln m = y + 2 artanh((m - E) / (m + E)), whose series
/// gains a hundred bits with each term.
pub(super) fn ln(number: &Decimal, bits: u64) -> BigInt {
    let (numerator, denominator) = (number.unscaled.magnitude(), power_of_ten(number.scale));
    let exponent = numerator.bits() as i64 - denominator.bits() as i64;
    // The exponent has less than 20 bits, the error of ln 2 is counted so many times.
    let guard = 40;
    let work = bits.max(FIRST_BITS) + guard;
    let up = work as i64 - exponent;
    let mantissa = match u64::try_from(up) {
        Ok(up) => (numerator << up) / denominator,
        Err(_) => numerator / (denominator << up.unsigned_abs()),
    };
    let mantissa = BigInt::from(mantissa);
    let first = BigInt::from(first_ln(&mantissa, work)) << (work - FIRST_BITS);
    let power = exp_below_one(&first, work);
    let t = ((&mantissa - &power) << work) / (&mantissa + &power);
    let ln_mantissa = first + (artanh(t, work) << 1u32);
    (ln_mantissa + ln2(work) * exponent) >> (work - bits)
}

/// The logarithm of a number from 1/2 to 2, in units of 2 to the power of -60, to double precision.
fn first_ln(mantissa: &BigInt, bits: u64) -> i64 {
    let unit = (1i64 << FIRST_BITS) as f64;
    let leading = i64::try_from(mantissa >> (bits - FIRST_BITS)).unwrap_or(i64::MAX);
    ((leading as f64 / unit).ln() * unit) as i64
}

fn artanh(t: BigInt, bits: u64) -> BigInt {
    let square = (&t * &t) >> bits;
    let mut sum = t.clone();
    let mut power = t;
    for n in (3u32..).step_by(2) {
        power = (power * &square) >> bits;
        let term = &power / n;
        if term == BigInt::ZERO {
            break;
        }
        sum += term;
    }
    sum
}

/// e to the power of `x`, given in units of 2 to the power of -bits, as (m, n): m units times 2 to the power of n.
pub(super) fn exp(x: &BigInt, bits: u64) -> (BigInt, i64) {
    // The exponent has less than 16 bits, the error of ln 2 is counted so many times.
    let guard = 24;
    let (x, ln2) = (x << guard, ln2(bits + guard));
    let exponent = &x / &ln2;
    let rest = (x - &exponent * ln2) >> guard;
    let exponent = i64::try_from(exponent).expect("exponents have been checked to be small");
    (exp_below_one(&rest, bits), exponent)
}

/// e to the power of `x`, -1 < x < 1: the series for a smaller x, whose result is squared again and again.
fn exp_below_one(x: &BigInt, bits: u64) -> BigInt {
    let halvings = bits.isqrt();
    let guard = halvings + 16;
    let work = bits + guard;
    let x = (x << guard) >> halvings;
    let mut term = BigInt::from(1) << work;
    let mut sum = term.clone();
    for n in 1u32.. {
        term = ((term * &x) >> work) / n;
        if term == BigInt::ZERO {
            break;
        }
        sum += &term;
    }
    for _ in 0..halvings {
        sum = (&sum * &sum) >> work;
    }
    sum >> guard
}

/// ln 2; the most precise one so far is kept, by thread.
fn ln2(bits: u64) -> BigInt {
    thread_local! {
        static KEPT: RefCell<(u64, BigInt)> = const { RefCell::new((0, BigInt::ZERO)) };
    }
    KEPT.with_borrow_mut(|(kept_bits, kept)| {
        if *kept_bits < bits {
            (*kept_bits, *kept) = (bits, compute_ln2(bits));
        }
        &*kept >> (*kept_bits - bits)
    })
}

/// ln 2 = 18 arcoth 26 - 2 arcoth 4801 + 8 arcoth 8749.
fn compute_ln2(bits: u64) -> BigInt {
    let guard = 24;
    let work = bits + guard;
    let sum = arcoth(26, work) * 18 - arcoth(4801, work) * 2 + arcoth(8749, work) * 8;
    sum >> guard
}

fn arcoth(n: u32, bits: u64) -> BigInt {
    let mut power = (BigInt::from(1) << bits) / n;
    let mut sum = power.clone();
    for k in (3u32..).step_by(2) {
        power /= n * n;
        if power == BigInt::ZERO {
            break;
        }
        sum += &power / k;
    }
    sum
}
