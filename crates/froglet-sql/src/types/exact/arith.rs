//! The four operations and rounding: what they give for NaN and infinities, and how many digits are shown.

use std::cmp::Ordering;

use super::bytes::{GROUP_DIGITS, Groups};
use super::int::Int;
use super::{Decimal, Exact, NumericError, SCALE_MAX, WHOLE_DIGITS_MAX};

/// Significant digits that functions compute at least (NUMERIC_MIN_SIG_DIGITS).
pub(super) const SIGNIFICANT_DIGITS: i32 = 16;

/// Digits after the point that functions compute at most (NUMERIC_MAX_DISPLAY_SCALE).
pub(super) const COMPUTED_SCALE_MAX: i32 = 1000;

impl Exact {
    /// The value with its sign changed.
    pub fn neg(&self) -> Exact {
        match self {
            Exact::NegInfinity => Exact::Infinity,
            Exact::Finite(number) => Exact::Finite(number.neg()),
            Exact::Infinity => Exact::NegInfinity,
            Exact::NaN => Exact::NaN,
        }
    }

    /// The value without its sign.
    pub fn abs(&self) -> Exact {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    /// -1, 0, 1 or NaN.
    pub fn sign(&self) -> Exact {
        match self {
            Exact::NaN => Exact::NaN,
            _ => Exact::Finite(Decimal::integer(i128::from(self.signum()))),
        }
    }

    /// The sum, shown with the larger display scale.
    pub fn add(&self, other: &Exact) -> Result<Exact, NumericError> {
        match (self, other) {
            (Exact::Finite(a), Exact::Finite(b)) => Exact::checked(a.add(b)),
            (Exact::Finite(_), special) | (special, Exact::Finite(_)) => Ok(special.clone()),
            (Exact::Infinity, Exact::Infinity) => Ok(Exact::Infinity),
            (Exact::NegInfinity, Exact::NegInfinity) => Ok(Exact::NegInfinity),
            _ => Ok(Exact::NaN),
        }
    }

    /// The difference, shown with the larger display scale.
    pub fn sub(&self, other: &Exact) -> Result<Exact, NumericError> {
        match (self, other) {
            (Exact::Finite(a), Exact::Finite(b)) => Exact::checked(a.sub(b)),
            _ => self.add(&other.neg()),
        }
    }

    /// The product, shown with the sum of the display scales.
    pub fn mul(&self, other: &Exact) -> Result<Exact, NumericError> {
        match (self, other) {
            (Exact::Finite(a), Exact::Finite(b)) => {
                let product = a.mul(b);
                match product.scale > SCALE_MAX {
                    true => Exact::checked(product.round(SCALE_MAX as i32)),
                    false => Exact::checked(product),
                }
            }
            (Exact::NaN, _) | (_, Exact::NaN) => Ok(Exact::NaN),
            _ => Ok(Exact::infinite(self.signum() * other.signum())),
        }
    }

    /// The quotient, with at least sixteen significant digits (see [`quotient_scale`]).
    pub fn div(&self, divisor: &Exact) -> Result<Exact, NumericError> {
        match (self, divisor) {
            (Exact::Finite(a), Exact::Finite(b)) => {
                Exact::checked(a.div(b, quotient_scale(a, b)).ok_or(NumericError::DivisionByZero)?)
            }
            _ => self.special_quotient(divisor),
        }
    }

    /// The quotient's whole part, SQL's `div`.
    pub fn div_trunc(&self, divisor: &Exact) -> Result<Exact, NumericError> {
        match (self, divisor) {
            (Exact::Finite(_), Exact::Finite(b)) if b.unscaled.is_zero() => {
                Err(NumericError::DivisionByZero)
            }
            (Exact::Finite(a), Exact::Finite(b)) => {
                let (a, b, _) = aligned(a, b);
                Exact::checked(Decimal::new(a.div_rem(&b).0, 0))
            }
            _ => self.special_quotient(divisor),
        }
    }

    /// The rest of the division that [`Exact::div_trunc`] is; it has the dividend's sign.
    pub fn rem(&self, divisor: &Exact) -> Result<Exact, NumericError> {
        match (self, divisor) {
            (Exact::NaN, _) | (_, Exact::NaN) => Ok(Exact::NaN),
            (_, Exact::Finite(b)) if b.unscaled.is_zero() => Err(NumericError::DivisionByZero),
            (Exact::Finite(a), Exact::Finite(b)) => {
                let (a, b, scale) = aligned(a, b);
                Exact::checked(Decimal::new(a.div_rem(&b).1, scale))
            }
            (Exact::Finite(_), _) => Ok(self.clone()),
            _ => Ok(Exact::NaN),
        }
    }

    /// A quotient of which one part is NaN or an infinity.
    fn special_quotient(&self, divisor: &Exact) -> Result<Exact, NumericError> {
        match (self, divisor) {
            (Exact::NaN, _) | (_, Exact::NaN) => Ok(Exact::NaN),
            (Exact::Finite(_), _) => Ok(Exact::ZERO),
            (_, Exact::Finite(b)) if b.unscaled.is_zero() => Err(NumericError::DivisionByZero),
            (_, Exact::Finite(_)) => Ok(Exact::infinite(self.signum() * divisor.signum())),
            _ => Ok(Exact::NaN),
        }
    }

    /// Infinity of a sign; NaN for sign 0.
    fn infinite(sign: i32) -> Exact {
        match sign.cmp(&0) {
            Ordering::Less => Exact::NegInfinity,
            Ordering::Equal => Exact::NaN,
            Ordering::Greater => Exact::Infinity,
        }
    }

    /// Rounded half away from zero to so many digits after the point; less than zero rounds before the point.
    pub fn round(&self, scale: i32) -> Result<Exact, NumericError> {
        let scale = scale.clamp(-(WHOLE_DIGITS_MAX as i32) - 1, SCALE_MAX as i32);
        self.map(|number| number.round(scale))
    }

    /// Rounded towards zero to so many digits after the point; less than zero rounds before the point.
    pub fn trunc(&self, scale: i32) -> Result<Exact, NumericError> {
        let scale = scale.clamp(-(WHOLE_DIGITS_MAX as i32) - 1, SCALE_MAX as i32);
        self.map(|number| number.trunc(scale))
    }

    /// The least integer that is not less.
    pub fn ceil(&self) -> Result<Exact, NumericError> {
        self.map(|number| number.integer_towards(1))
    }

    /// The greatest integer that is not greater.
    pub fn floor(&self) -> Result<Exact, NumericError> {
        self.map(|number| number.integer_towards(-1))
    }

    /// The fewest digits after the point that show the whole value; `None` for NaN and the infinities.
    pub fn min_scale(&self) -> Option<u32> {
        match self {
            Exact::Finite(number) => Some(number.min_scale()),
            _ => None,
        }
    }

    /// The value without zeros at the end of its digits after the point.
    pub fn trim_scale(&self) -> Exact {
        match self {
            Exact::Finite(number) => Exact::Finite(number.trunc(number.min_scale() as i32)),
            special => special.clone(),
        }
    }

    /// A function of numbers that leaves NaN and infinities as they are.
    fn map(&self, f: impl FnOnce(&Decimal) -> Decimal) -> Result<Exact, NumericError> {
        match self {
            Exact::Finite(number) => Exact::checked(f(number)),
            special => Ok(special.clone()),
        }
    }
}

/// How many digits after the point a quotient has (select_div_scale): at least sixteen significant ones, counted in
/// digits of base 10000, and at least those of either input.
pub(super) fn quotient_scale(dividend: &Decimal, divisor: &Decimal) -> u32 {
    let (weight, first) = dividend.leading();
    let (divisor_weight, divisor_first) = divisor.leading();
    let borrow = i32::from(first <= divisor_first);
    let quotient_weight = weight - divisor_weight - borrow;
    (SIGNIFICANT_DIGITS - quotient_weight * GROUP_DIGITS as i32)
        .max(dividend.scale as i32)
        .max(divisor.scale as i32)
        .clamp(0, COMPUTED_SCALE_MAX) as u32
}

/// Both numbers unscaled, at the larger scale.
pub(super) fn aligned(a: &Decimal, b: &Decimal) -> (Int, Int, u32) {
    let scale = a.scale.max(b.scale);
    (
        a.unscaled.times_power_of_ten(scale - a.scale),
        b.unscaled.times_power_of_ten(scale - b.scale),
        scale,
    )
}

impl Decimal {
    pub(super) fn neg(&self) -> Decimal {
        Decimal::new(self.unscaled.neg(), self.scale)
    }

    pub(super) fn add(&self, other: &Decimal) -> Decimal {
        let (a, b, scale) = aligned(self, other);
        Decimal::new(a.add(&b), scale)
    }

    pub(super) fn sub(&self, other: &Decimal) -> Decimal {
        let (a, b, scale) = aligned(self, other);
        Decimal::new(a.sub(&b), scale)
    }

    pub(super) fn mul(&self, other: &Decimal) -> Decimal {
        Decimal::new(self.unscaled.mul(&other.unscaled), self.scale + other.scale)
    }

    /// The quotient rounded to `scale` digits after the point; `None` for a divisor that is zero.
    pub(super) fn div(&self, divisor: &Decimal, scale: u32) -> Option<Decimal> {
        if divisor.unscaled.is_zero() {
            return None;
        }
        let up = i64::from(scale) + i64::from(divisor.scale) - i64::from(self.scale);
        let quotient = match u32::try_from(up) {
            Ok(up) => self.unscaled.times_power_of_ten(up).div_round(&divisor.unscaled),
            Err(_) => {
                let down = up.unsigned_abs() as u32;
                self.unscaled.div_round(&divisor.unscaled.times_power_of_ten(down))
            }
        };
        Some(Decimal::new(quotient, scale))
    }

    pub(super) fn round(&self, scale: i32) -> Decimal {
        self.at_scale(scale, Int::round_power_of_ten)
    }

    pub(super) fn trunc(&self, scale: i32) -> Decimal {
        self.at_scale(scale, |n, power| n.trunc_power_of_ten(power).0)
    }

    /// The number at another scale; `cut` divides by a power of ten.
    fn at_scale(&self, scale: i32, cut: impl FnOnce(&Int, u32) -> Int) -> Decimal {
        let shift = i64::from(scale) - i64::from(self.scale);
        let shown = scale.max(0) as u32;
        match u32::try_from(shift) {
            Ok(up) => Decimal::new(self.unscaled.times_power_of_ten(up), shown),
            Err(_) => {
                let cut = cut(&self.unscaled, shift.unsigned_abs() as u32);
                Decimal::new(cut.times_power_of_ten((-scale).max(0) as u32), shown)
            }
        }
    }

    /// The nearest integer that is not on the other side than `direction`, 1 or -1.
    fn integer_towards(&self, direction: i32) -> Decimal {
        let (whole, rest) = self.unscaled.trunc_power_of_ten(self.scale);
        match rest && self.unscaled.signum() == direction {
            true => Decimal::new(whole.add(&Int::Small(i128::from(direction))), 0),
            false => Decimal::new(whole, 0),
        }
    }

    pub(super) fn min_scale(&self) -> u32 {
        let Groups { weight, digits } = Groups::of(self);
        let Some(last) = digits.last() else { return 0 };
        let zeros = [10, 100, 1000].iter().filter(|unit| last % **unit == 0).count() as i32;
        let below = (digits.len() as i32 - 1 - weight) * GROUP_DIGITS as i32;
        (below - zeros).max(0) as u32
    }

    /// The first digit of base 10000 and its weight; both 0 for zero.
    fn leading(&self) -> (i32, u16) {
        if self.unscaled.is_zero() {
            return (0, 0);
        }
        let group = GROUP_DIGITS as i32;
        let weight = (self.whole_digits() as i32 - 1).div_euclid(group);
        let below = self.scale as i32 + weight * group;
        let first = match u32::try_from(below) {
            Ok(down) => self.unscaled.trunc_power_of_ten(down).0,
            Err(_) => self.unscaled.times_power_of_ten(below.unsigned_abs()),
        };
        let first = match first {
            Int::Small(first) => u16::try_from(first.unsigned_abs()).ok(),
            Int::Big(_) => None,
        };
        (weight, first.expect("the weight leaves one digit of base 10000"))
    }
}
