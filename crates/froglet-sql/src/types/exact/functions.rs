//! Square root, divisors and multiples, factorial, histogram buckets.

use num_bigint::BigUint;

use super::arith::{COMPUTED_SCALE_MAX, SIGNIFICANT_DIGITS, aligned};
use super::bytes::{GROUP_DIGITS, Groups};
use super::int::Int;
use super::{Decimal, Exact, NumericError};

/// The greatest number whose factorial is a numeric.
const FACTORIAL_MAX: i64 = 32_177;

/// Factors that are multiplied one by one.
const FACTORS: u64 = 16;

impl Exact {
    /// The square root, with at least sixteen significant digits.
    pub fn sqrt(&self) -> Result<Exact, NumericError> {
        let number = match self {
            _ if self.signum() < 0 => return Err(NumericError::SquareRootOfNegative),
            Exact::Finite(number) => number,
            special => return Ok(special.clone()),
        };
        // Digits before the point that the root has, less one (numeric_sqrt).
        let weight = (Groups::of(number).weight + 1) * GROUP_DIGITS as i32 / 2 - 1;
        let scale = (SIGNIFICANT_DIGITS - weight).max(number.scale as i32);
        Exact::checked(number.sqrt(scale.clamp(0, COMPUTED_SCALE_MAX) as u32))
    }

    /// The greatest common divisor, which is not negative; of fractions too. NaN if one is no number.
    pub fn gcd(&self, other: &Exact) -> Result<Exact, NumericError> {
        let (Exact::Finite(a), Exact::Finite(b)) = (self, other) else { return Ok(Exact::NaN) };
        let (a, b, scale) = aligned(a, b);
        Exact::checked(Decimal::new(a.gcd(&b), scale))
    }

    /// The least common multiple, which is not negative; of fractions too. NaN if one is no number.
    pub fn lcm(&self, other: &Exact) -> Result<Exact, NumericError> {
        let (Exact::Finite(a), Exact::Finite(b)) = (self, other) else { return Ok(Exact::NaN) };
        let (a, b, scale) = aligned(a, b);
        let divisor = a.gcd(&b);
        let multiple = if divisor.is_zero() { Int::ZERO } else { a.div_rem(&divisor).0.mul(&b) };
        Exact::checked(Decimal::new(multiple.abs(), scale))
    }
}

impl Decimal {
    /// The square root of a number that is not negative, rounded to `scale` digits after the point.
    pub(super) fn sqrt(&self, scale: u32) -> Decimal {
        // One digit more, cut off, says to which side to round.
        let shift = 2 * (i64::from(scale) + 1) - i64::from(self.scale);
        let square = match u32::try_from(shift) {
            Ok(up) => self.unscaled.times_power_of_ten(up),
            Err(_) => self.unscaled.trunc_power_of_ten(shift.unsigned_abs() as u32).0,
        };
        Decimal::new(square.sqrt().round_power_of_ten(1), scale)
    }
}

/// The product of the integers from 1 to `n`.
pub fn factorial(n: i64) -> Result<Exact, NumericError> {
    match n {
        ..0 => Err(NumericError::FactorialOfNegative),
        0..=FACTORIAL_MAX => {
            let product = Int::from_big_magnitude(false, product(1, n.unsigned_abs()));
            Exact::checked(Decimal::new(product, 0))
        }
        _ => Err(NumericError::Overflow),
    }
}

/// The product of the integers from `first` to `last`, of numbers of similar size.
fn product(first: u64, last: u64) -> BigUint {
    if last.saturating_sub(first) < FACTORS {
        return (first..=last).map(BigUint::from).product();
    }
    let middle = first.midpoint(last);
    product(first, middle) * product(middle + 1, last)
}

/// The number of the bucket, of `count` equal ones from `low` to `high`, that holds `operand`: 0 below them, `count`
/// + 1 from `high` on. With `low` greater than `high` the buckets go down.
pub fn width_bucket(
    operand: &Exact,
    low: &Exact,
    high: &Exact,
    count: i32,
) -> Result<i32, NumericError> {
    if count <= 0 {
        return Err(NumericError::WidthBucket("count must be greater than zero"));
    }
    if [operand, low, high].into_iter().any(Exact::is_nan) {
        let message = "operand, lower bound, and upper bound cannot be NaN";
        return Err(NumericError::WidthBucket(message));
    }
    let (Exact::Finite(first), Exact::Finite(last)) = (low, high) else {
        return Err(NumericError::WidthBucket("lower and upper bounds must be finite"));
    };
    if first == last {
        return Err(NumericError::WidthBucket("lower bound cannot equal upper bound"));
    }
    let up = first < last;
    let (below, beyond) =
        if up { (operand < low, operand >= high) } else { (operand > low, operand <= high) };
    match operand {
        _ if below => Ok(0),
        Exact::Finite(number) if !beyond => bucket(number, first, last, count),
        _ => count.checked_add(1).ok_or(NumericError::IntegerOutOfRange("integer")),
    }
}

fn bucket(
    number: &Decimal,
    first: &Decimal,
    last: &Decimal,
    count: i32,
) -> Result<i32, NumericError> {
    let (offset, width, _) = aligned(&number.sub(first), &last.sub(first));
    let full = offset.mul(&Int::Small(count.into())).div_rem(&width).0;
    let number = Decimal::new(full.add(&Int::ONE), 0);
    Exact::Finite(number).to_i32()
}
