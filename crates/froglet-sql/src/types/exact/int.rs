//! Integers of any size; those of 128 bits, which nearly all are, need no allocation.

use std::cmp::Ordering;

use num_bigint::{BigInt, BigUint, Sign};
use num_integer::Integer;

/// An integer. `Small` whenever it fits, so that equal integers are equal values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Int {
    Small(i128),
    Big(BigInt),
}

/// Powers of ten that an i128 holds: 0 to this.
const SMALL_POWER_MAX: u32 = 38;

const SMALL_POWERS: [i128; SMALL_POWER_MAX as usize + 1] = {
    let mut powers = [1; SMALL_POWER_MAX as usize + 1];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// 10 to the power of `n`.
pub(super) fn power_of_ten(n: u32) -> BigUint {
    match SMALL_POWERS.get(n as usize) {
        Some(power) => BigUint::from(power.unsigned_abs()),
        None => BigUint::from(5u32).pow(n) << n,
    }
}

/// How many decimal digits a number has; zero has none.
pub(super) fn decimal_digits(n: &BigUint) -> u32 {
    if let Ok(small) = u128::try_from(n) {
        return small.checked_ilog10().map_or(0, |log| log + 1);
    }
    let below = |bits: u64| (bits as f64 * std::f64::consts::LOG10_2) as u32;
    let (least, most) = (below(n.bits() - 1), below(n.bits()));
    if least == most || *n < power_of_ten(most) { least + 1 } else { most + 1 }
}

impl Int {
    pub(super) const ZERO: Int = Int::Small(0);
    pub(super) const ONE: Int = Int::Small(1);

    pub(super) fn from_big(n: BigInt) -> Int {
        i128::try_from(&n).map_or(Int::Big(n), Int::Small)
    }

    pub(super) fn from_magnitude(negative: bool, magnitude: u128) -> Int {
        match i128::try_from(magnitude) {
            Ok(n) => Int::Small(if negative { -n } else { n }),
            Err(_) => {
                let sign = if negative { Sign::Minus } else { Sign::Plus };
                Int::from_big(BigInt::from_biguint(sign, magnitude.into()))
            }
        }
    }

    pub(super) fn from_big_magnitude(negative: bool, magnitude: BigUint) -> Int {
        let sign = if negative { Sign::Minus } else { Sign::Plus };
        Int::from_big(BigInt::from_biguint(sign, magnitude))
    }

    pub(super) fn power_of_ten(n: u32) -> Int {
        match SMALL_POWERS.get(n as usize) {
            Some(&power) => Int::Small(power),
            None => Int::Big(power_of_ten(n).into()),
        }
    }

    pub(super) fn to_big(&self) -> BigInt {
        match self {
            Int::Small(n) => BigInt::from(*n),
            Int::Big(n) => n.clone(),
        }
    }

    pub(super) fn magnitude(&self) -> BigUint {
        match self {
            Int::Small(n) => BigUint::from(n.unsigned_abs()),
            Int::Big(n) => n.magnitude().clone(),
        }
    }

    /// -1, 0 or 1.
    pub(super) fn signum(&self) -> i32 {
        match self {
            Int::Small(n) => n.signum() as i32,
            Int::Big(n) if n.sign() == Sign::Minus => -1,
            Int::Big(_) => 1,
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        *self == Int::ZERO
    }

    pub(super) fn is_odd(&self) -> bool {
        match self {
            Int::Small(n) => n & 1 == 1,
            Int::Big(n) => n.bit(0),
        }
    }

    /// How many decimal digits the number has; zero has none.
    pub(super) fn decimal_digits(&self) -> u32 {
        match self {
            Int::Small(n) => n.unsigned_abs().checked_ilog10().map_or(0, |log| log + 1),
            Int::Big(n) => decimal_digits(n.magnitude()),
        }
    }

    pub(super) fn neg(&self) -> Int {
        match self {
            Int::Small(n) => {
                n.checked_neg().map_or_else(|| Int::Big(-BigInt::from(*n)), Int::Small)
            }
            Int::Big(n) => Int::from_big(-n),
        }
    }

    pub(super) fn abs(&self) -> Int {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    pub(super) fn add(&self, other: &Int) -> Int {
        if let (Int::Small(a), Int::Small(b)) = (self, other)
            && let Some(sum) = a.checked_add(*b)
        {
            return Int::Small(sum);
        }
        Int::from_big(self.to_big() + other.to_big())
    }

    pub(super) fn sub(&self, other: &Int) -> Int {
        if let (Int::Small(a), Int::Small(b)) = (self, other)
            && let Some(difference) = a.checked_sub(*b)
        {
            return Int::Small(difference);
        }
        Int::from_big(self.to_big() - other.to_big())
    }

    pub(super) fn mul(&self, other: &Int) -> Int {
        match (self, other) {
            (Int::Small(a), Int::Small(b)) => match a.checked_mul(*b) {
                Some(product) => Int::Small(product),
                None => Int::Big(BigInt::from(*a) * b),
            },
            (Int::Big(a), Int::Big(b)) => Int::Big(a * b),
            (Int::Small(a), Int::Big(b)) | (Int::Big(b), Int::Small(a)) => Int::from_big(b * a),
        }
    }

    /// The quotient, rounded towards zero, and the rest. The divisor must not be zero.
    pub(super) fn div_rem(&self, divisor: &Int) -> (Int, Int) {
        if let (Int::Small(a), Int::Small(b)) = (self, divisor)
            && let (Some(quotient), Some(rest)) = (a.checked_div(*b), a.checked_rem(*b))
        {
            return (Int::Small(quotient), Int::Small(rest));
        }
        let (quotient, rest) = self.to_big().div_rem(&divisor.to_big());
        (Int::from_big(quotient), Int::from_big(rest))
    }

    /// The quotient, rounded half away from zero. The divisor must not be zero.
    pub(super) fn div_round(&self, divisor: &Int) -> Int {
        let (quotient, rest) = self.div_rem(divisor);
        let (rest, whole) = (rest.abs(), divisor.abs());
        if rest.cmp(&whole.sub(&rest)) == Ordering::Less {
            return quotient;
        }
        quotient.add(&Int::Small(if self.signum() == divisor.signum() { 1 } else { -1 }))
    }

    pub(super) fn times_power_of_ten(&self, n: u32) -> Int {
        match self {
            _ if n == 0 => self.clone(),
            Int::Small(0) => Int::ZERO,
            _ => self.mul(&Int::power_of_ten(n)),
        }
    }

    /// Divided by 10 to the power of `n`, rounded half away from zero.
    pub(super) fn round_power_of_ten(&self, n: u32) -> Int {
        match n {
            0 => self.clone(),
            // The quotient is below 0.1.
            _ if n > self.decimal_digits() => Int::ZERO,
            _ => self.div_round(&Int::power_of_ten(n)),
        }
    }

    /// Divided by 10 to the power of `n`: the quotient, rounded towards zero, and whether there is a rest.
    pub(super) fn trunc_power_of_ten(&self, n: u32) -> (Int, bool) {
        match n {
            0 => (self.clone(), false),
            _ if n > self.decimal_digits() => (Int::ZERO, !self.is_zero()),
            _ => {
                let (quotient, rest) = self.div_rem(&Int::power_of_ten(n));
                (quotient, !rest.is_zero())
            }
        }
    }

    /// The largest integer whose square is at most this one, which must not be negative.
    pub(super) fn sqrt(&self) -> Int {
        match self {
            Int::Small(n) => Int::from_magnitude(false, n.unsigned_abs().isqrt()),
            Int::Big(n) => Int::from_big(n.sqrt()),
        }
    }

    pub(super) fn gcd(&self, other: &Int) -> Int {
        if let (Int::Small(a), Int::Small(b)) = (self, other) {
            return Int::from_magnitude(false, a.unsigned_abs().gcd(&b.unsigned_abs()));
        }
        // The library subtracts, bit by bit: divisions first bring numbers of different sizes together.
        let (mut a, mut b) = (self.to_big(), other.to_big());
        while b.bits().abs_diff(a.bits()) > 64 && b.sign() != num_bigint::Sign::NoSign {
            (a, b) = (b.clone(), a % b);
        }
        Int::from_big(a.gcd(&b))
    }
}

impl PartialOrd for Int {
    fn partial_cmp(&self, other: &Int) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Int {
    fn cmp(&self, other: &Int) -> Ordering {
        match (self, other) {
            (Int::Small(a), Int::Small(b)) => a.cmp(b),
            (Int::Big(a), Int::Big(b)) => a.cmp(b),
            // A big integer is beyond all small ones.
            (Int::Big(_), Int::Small(_)) => self.signum().cmp(&0),
            (Int::Small(_), Int::Big(_)) => 0.cmp(&other.signum()),
        }
    }
}
