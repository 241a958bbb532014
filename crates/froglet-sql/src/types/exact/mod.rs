//! PostgreSQL's numeric: decimal numbers of any size that carry the digits they are shown with.
//!
//! A value is a number and a display scale (how many digits after the point are shown): 1.0 and 1.00 are equal, and
//! are shown differently. Beside the numbers there are NaN, which equals itself and is greater than all else, and two
//! infinities. Up to 131072 digits stand before the point and up to 16383 after it.
//!
//! The bytes of a value are the same in memory, on disk and in plans: [`froglet_engine::numeric`] draws them, and says
//! why they are ordered as the numbers are.
//!
//! How many digits a result shows follows PostgreSQL 15's numeric.c (functions are named where a rule is taken from
//! one). The digits themselves are computed anew and rounded correctly, but for results next to the middle of two
//! decimals where numeric.c's own intermediate rounding decides the last digit: `power` says where.
//!
//! Left out on purpose: to_char, and everything that knows of Arrow or SQL's expressions.

mod aggregate;
mod arith;
mod bytes;
#[cfg(test)]
mod cases;
mod convert;
mod error;
mod fixed;
mod functions;
mod int;
mod power;
#[cfg(test)]
mod tests;
mod text;
mod wire;

use std::cmp::Ordering;

pub use aggregate::{Moments, Sum};
pub use error::NumericError;
pub use froglet_engine::numeric::{display_scale, order};
pub use functions::{factorial, width_bucket};
use int::Int;

/// Digits before the point, at most.
pub const WHOLE_DIGITS_MAX: u32 = 131_072;

/// Digits after the point, at most.
pub const SCALE_MAX: u32 = 16_383;

/// A value of type numeric.
///
/// Comparisons are PostgreSQL's: display scales do not matter, NaN equals NaN and is greater than all else.
#[derive(Clone, Debug)]
pub enum Exact {
    /// -Infinity.
    NegInfinity,
    /// A number.
    Finite(Decimal),
    /// Infinity.
    Infinity,
    /// Not a number.
    NaN,
}

/// A number and how many digits after the point are shown. There are no digits beyond those shown.
#[derive(Clone, Debug)]
pub struct Decimal {
    /// The number times 10 to the power of `scale`.
    unscaled: Int,
    /// Digits after the point. At most [`SCALE_MAX`] within an [`Exact`]; intermediate results may have more.
    scale: u32,
}

/// numeric(precision, scale).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modifier {
    /// Decimal digits, 1 to 1000.
    pub precision: i32,
    /// Digits after the point, -1000 to 1000: less than zero rounds before the point.
    pub scale: i32,
}

impl Exact {
    /// 0.
    pub const ZERO: Exact = Exact::Finite(Decimal { unscaled: Int::ZERO, scale: 0 });
    /// 1.
    pub const ONE: Exact = Exact::Finite(Decimal { unscaled: Int::ONE, scale: 0 });

    /// The value of a result, if it has at most as many digits as a numeric may have.
    fn checked(number: Decimal) -> Result<Exact, NumericError> {
        if number.scale > SCALE_MAX || number.whole_digits() > i64::from(WHOLE_DIGITS_MAX) {
            return Err(NumericError::Overflow);
        }
        Ok(Exact::Finite(number))
    }

    /// Whether this is NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self, Exact::NaN)
    }

    /// Whether this is a number: neither NaN nor an infinity.
    pub fn is_finite(&self) -> bool {
        matches!(self, Exact::Finite(_))
    }

    /// -1, 0 or 1; 1 for NaN, which is greater than all numbers.
    pub fn signum(&self) -> i32 {
        match self {
            Exact::NegInfinity => -1,
            Exact::Finite(number) => number.unscaled.signum(),
            Exact::Infinity | Exact::NaN => 1,
        }
    }

    /// Whether this is the number zero.
    pub fn is_zero(&self) -> bool {
        self.signum() == 0
    }

    /// Digits after the point that are shown; none for NaN and the infinities.
    pub fn scale(&self) -> Option<u32> {
        match self {
            Exact::Finite(number) => Some(number.scale),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Exact::NegInfinity => 0,
            Exact::Finite(_) => 1,
            Exact::Infinity => 2,
            Exact::NaN => 3,
        }
    }
}

impl Decimal {
    fn new(unscaled: Int, scale: u32) -> Decimal {
        Decimal { unscaled, scale }
    }

    fn integer(n: i128) -> Decimal {
        Decimal::new(Int::Small(n), 0)
    }

    fn zero(scale: u32) -> Decimal {
        Decimal::new(Int::ZERO, scale)
    }

    /// Decimal digits before the point; less than zero if zeros follow the point, and for zero.
    fn whole_digits(&self) -> i64 {
        i64::from(self.unscaled.decimal_digits()) - i64::from(self.scale)
    }
}

impl PartialEq for Exact {
    fn eq(&self, other: &Exact) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Exact {}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Exact) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Exact {
    fn cmp(&self, other: &Exact) -> Ordering {
        match (self, other) {
            (Exact::Finite(a), Exact::Finite(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        match self.scale.cmp(&other.scale) {
            Ordering::Equal => self.unscaled.cmp(&other.unscaled),
            Ordering::Less => {
                let up = other.scale - self.scale;
                self.unscaled.times_power_of_ten(up).cmp(&other.unscaled)
            }
            Ordering::Greater => other.cmp(self).reverse(),
        }
    }
}
