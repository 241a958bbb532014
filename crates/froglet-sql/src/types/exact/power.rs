//! Exponential function, logarithms and powers: what they give for special values, and how many digits are shown.
//!
//! The scales follow exp_var, ln_var, log_var, power_var and power_var_int of PostgreSQL 15, which estimate the
//! result's size with double precision numbers; the same estimates are made here, since they decide how many digits
//! are shown.

use num_bigint::{BigInt, BigUint};

use super::arith::{COMPUTED_SCALE_MAX, SIGNIFICANT_DIGITS};
use super::bytes::{BASE, GROUP_DIGITS, Groups};
use super::fixed::{self, Approximation, bits_of_digits, settle};
use super::int::Int;
use super::{Decimal, Exact, NumericError, WHOLE_DIGITS_MAX};

/// log10 e, as numeric.c writes it.
#[allow(clippy::approx_constant, reason = "the scale of a result depends on each of its digits")]
const LOG10_E: f64 = 0.434294481903252;

/// NUMERIC_MAX_RESULT_SCALE: exponential functions are computed to three times this, either side of zero.
const RESULT_SCALE_MAX: f64 = 2000.0;
const EXPONENT_MAX: f64 = RESULT_SCALE_MAX * 3.0;

/// Exponents up to this have their power of e computed by the plain series.
const SERIES_MAX: f64 = 0.01;

/// Digits beyond those of the result that intermediate results have.
const GUARD_DIGITS: i32 = 8;

/// Decimal digits of a power up to which it is computed exactly, and rounded then.
const EXACT_DIGITS_MAX: u64 = 4000;

/// The result's scale for a decimal weight, which is one less than the digits before the point, and the arguments'.
fn result_scale(weight: i32, scales: &[u32]) -> u32 {
    let shown = scales.iter().copied().max().unwrap_or_default() as i32;
    (SIGNIFICANT_DIGITS - weight).max(shown).clamp(0, COMPUTED_SCALE_MAX) as u32
}

impl Exact {
    /// e to the power of the value, with at least sixteen significant digits.
    pub fn exp(&self) -> Result<Exact, NumericError> {
        let number = match self {
            Exact::NegInfinity => return Ok(Exact::ZERO),
            Exact::Finite(number) => number,
            special => return Ok(special.clone()),
        };
        let exponent = number.to_f64();
        let weight = (exponent * LOG10_E).clamp(-RESULT_SCALE_MAX, RESULT_SCALE_MAX) as i32;
        let scale = result_scale(weight, &[number.scale]);
        Exact::checked(exp(number, scale)?)
    }

    /// The natural logarithm, with at least sixteen significant digits.
    pub fn ln(&self) -> Result<Exact, NumericError> {
        self.check_logarithm()?;
        let Exact::Finite(number) = self else { return Ok(self.clone()) };
        let scale = result_scale(ln_weight(number), &[number.scale]);
        Exact::checked(ln(number, scale))
    }

    /// The logarithm to base 10.
    pub fn log10(&self) -> Result<Exact, NumericError> {
        self.log(&Exact::from(10i64))
    }

    /// The logarithm to a base, with at least sixteen significant digits.
    pub fn log(&self, base: &Exact) -> Result<Exact, NumericError> {
        if self.is_nan() || base.is_nan() {
            return Ok(Exact::NaN);
        }
        // A negative argument is told first if one is infinite, and else the base's error.
        let special = !self.is_finite() || !base.is_finite();
        if special && (self.signum() < 0 || base.signum() < 0) {
            return Err(NumericError::LogarithmOfNegative);
        }
        base.check_logarithm()?;
        self.check_logarithm()?;
        match (self, base) {
            (Exact::Finite(number), Exact::Finite(base)) => Exact::checked(log(number, base)?),
            (Exact::Finite(_), _) => Ok(Exact::ZERO),
            (_, Exact::Finite(_)) => Ok(Exact::Infinity),
            _ => Ok(Exact::NaN),
        }
    }

    fn check_logarithm(&self) -> Result<(), NumericError> {
        match self.signum() {
            0 => Err(NumericError::LogarithmOfZero),
            ..0 => Err(NumericError::LogarithmOfNegative),
            _ => Ok(()),
        }
    }

    /// The value to the power of another one.
    pub fn power(&self, exponent: &Exact) -> Result<Exact, NumericError> {
        if self.is_nan() {
            return Ok(if exponent.is_zero() { Exact::ONE } else { Exact::NaN });
        }
        if exponent.is_nan() {
            return Ok(if *self == Exact::ONE { Exact::ONE } else { Exact::NaN });
        }
        if self.is_zero() && exponent.signum() < 0 {
            return Err(NumericError::ZeroToNegativePower);
        }
        if self.signum() < 0 && !exponent.is_integral() {
            return Err(NumericError::ComplexPower);
        }
        match (self, exponent) {
            (Exact::Finite(base), Exact::Finite(exponent)) => {
                Exact::checked(power(base, exponent)?)
            }
            _ => Ok(self.infinite_power(exponent)),
        }
    }

    /// A power with an infinity for base or exponent, by the rules of POSIX's pow.
    fn infinite_power(&self, exponent: &Exact) -> Exact {
        let grows = exponent.signum() > 0;
        let limit = |infinite: bool| if infinite { Exact::Infinity } else { Exact::ZERO };
        if *self == Exact::ONE || exponent.is_zero() {
            return Exact::ONE;
        }
        if self.is_zero() {
            return Exact::ZERO;
        }
        match (self, exponent) {
            (base, Exact::Infinity | Exact::NegInfinity) => match base.abs() {
                absolute if absolute == Exact::ONE => Exact::ONE,
                absolute => limit((absolute > Exact::ONE) == grows),
            },
            (Exact::NegInfinity, Exact::Finite(exponent)) if grows && is_odd(exponent) => {
                Exact::NegInfinity
            }
            _ => limit(grows),
        }
    }

    /// Whether this is an integer; infinities count as such.
    fn is_integral(&self) -> bool {
        self.min_scale().is_none_or(|scale| scale == 0)
    }
}

/// Whether this integer is odd.
fn is_odd(number: &Decimal) -> bool {
    number.trunc(0).unscaled.is_odd()
}

/// e to the power of a number, rounded to `scale` digits after the point.
fn exp(number: &Decimal, scale: u32) -> Result<Decimal, NumericError> {
    let exponent = number.to_f64();
    if exponent.abs() >= EXPONENT_MAX {
        return if exponent > 0.0 { Err(NumericError::Overflow) } else { Ok(Decimal::zero(scale)) };
    }
    if exponent.abs() <= SERIES_MAX {
        return Ok(exp_near_one(number, scale as i32));
    }
    let binary_weight = (exponent * std::f64::consts::LOG2_E) as i64;
    Ok(settle(scale, |guard| {
        let wanted = bits_of_digits(scale.into()) + binary_weight + guard as i64;
        let bits = wanted.max(guard as i64) as u64;
        let (units, power) = fixed::exp(&fixed::units_of(number, bits), bits);
        Approximation { units, bits: bits as i64 - power }
    }))
}

/// 1 + x + x²/2 + …, term by term as exp_var computes it: near one, results close to the middle of two decimals are
/// common (exp(-1e-8)), and where such a series ends decides their last digit.
fn exp_near_one(x: &Decimal, scale: i32) -> Decimal {
    let term_scale = scale + GUARD_DIGITS;
    let mut sum = x.add(&Decimal::integer(1));
    let mut term = x.clone();
    for n in 2.. {
        let divisor = Int::Small(n);
        term = term.mul(x).round(term_scale);
        term.unscaled = term.unscaled.div_round(&divisor);
        if term.unscaled.is_zero() {
            break;
        }
        sum = sum.add(&term);
    }
    sum.round(scale)
}

/// The natural logarithm of a number greater than zero, to `scale` digits after the point.
fn ln(number: &Decimal, scale: u32) -> Decimal {
    if *number == Decimal::integer(1) {
        return Decimal::zero(scale);
    }
    settle(scale, |guard| {
        let bits = bits_of_digits(scale.into()) as u64 + guard;
        Approximation { units: fixed::ln(number, bits), bits: bits as i64 }
    })
}

/// The quotient of the natural logarithms, each computed with eight digits more than the result has: the last digit of
/// a result near the middle of two decimals depends on it (log_var).
fn log(number: &Decimal, base: &Decimal) -> Result<Decimal, NumericError> {
    let (number_weight, base_weight) = (ln_weight(number), ln_weight(base));
    let weight = number_weight - base_weight;
    let scale = result_scale(weight, &[base.scale, number.scale]);
    let ln = |argument: &Decimal, argument_weight: i32| {
        ln(argument, (scale as i32 + weight - argument_weight + GUARD_DIGITS).max(0) as u32)
    };
    let quotient = ln(number, number_weight).div(&ln(base, base_weight), scale);
    quotient.ok_or(NumericError::DivisionByZero)
}

/// The decimal weight of a number's natural logarithm (estimate_ln_dweight).
fn ln_weight(number: &Decimal) -> i32 {
    let group = GROUP_DIGITS as i32;
    let near_one = Decimal::new(Int::Small(9), 1)..=Decimal::new(Int::Small(11), 1);
    if near_one.contains(number) {
        // ln (1 + x) is about x.
        let Groups { weight, digits } = Groups::of(&number.sub(&Decimal::integer(1)));
        let first = digits.first().map_or(0.0, |digit| f64::from(*digit).log10());
        return weight * group + first as i32;
    }
    let Groups { weight, digits } = Groups::of(number);
    let (leading, below) = match digits[..] {
        [] => return 0,
        [first] => (f64::from(first), weight * group),
        [first, second, ..] => {
            let leading = u32::from(first) * u32::from(BASE) + u32::from(second);
            (f64::from(leading), (weight - 1) * group)
        }
    };
    let ln = leading.ln() + f64::from(below) * std::f64::consts::LN_10;
    ln.abs().log10() as i32
}

fn power(base: &Decimal, exponent: &Decimal) -> Result<Decimal, NumericError> {
    if exponent.min_scale() == 0
        && let Int::Small(n) = exponent.trunc(0).unscaled
        && let Ok(n) = i32::try_from(n)
    {
        return integer_power(base, n);
    }
    if base.unscaled.is_zero() {
        return Ok(Decimal::zero(SIGNIFICANT_DIGITS as u32));
    }
    let negative = base.unscaled.signum() < 0 && is_odd(exponent);
    let magnitude = Decimal::new(base.unscaled.abs(), base.scale);
    let result = real_power(&magnitude, exponent)?;
    Ok(if negative { result.neg() } else { result })
}

/// A power of a number greater than zero, by way of logarithm and exponential function, with eight digits more than the
/// result has in between (power_var).
fn real_power(base: &Decimal, exponent: &Decimal) -> Result<Decimal, NumericError> {
    let base_weight = ln_weight(base);
    let exponent_of_e = |digits: i32| {
        let scale = (digits - base_weight).max(0);
        ln(base, scale as u32).mul(exponent).round(scale)
    };
    let estimate = exponent_of_e(GUARD_DIGITS).to_f64();
    if estimate.abs() > RESULT_SCALE_MAX * 3.01 {
        return match estimate > 0.0 {
            true => Err(NumericError::Overflow),
            false => Ok(Decimal::zero(COMPUTED_SCALE_MAX as u32)),
        };
    }
    let weight = (estimate * LOG10_E) as i32;
    let scale = result_scale(weight, &[base.scale, exponent.scale]);
    exp(&exponent_of_e((scale as i32 + weight).max(0) + GUARD_DIGITS), scale)
}

/// A power whose exponent is an integer of 32 bits; at least sixteen digits after the point are shown.
fn integer_power(base: &Decimal, exponent: i32) -> Result<Decimal, NumericError> {
    let scale = result_scale(0, &[base.scale]);
    match exponent {
        0 => return Ok(Decimal::integer(1).round(scale as i32)),
        1 => return Ok(base.round(scale as i32)),
        2 => return Ok(base.mul(base).round(scale as i32)),
        -1 => {
            return Decimal::integer(1).div(base, scale).ok_or(NumericError::DivisionByZero);
        }
        _ if base.unscaled.is_zero() => return Ok(Decimal::zero(scale)),
        _ => {}
    }
    let weight = f64::from(exponent) * log10_estimate(base);
    if weight > f64::from(WHOLE_DIGITS_MAX) + 0.5 {
        return Err(NumericError::Overflow);
    }
    if weight + 1.0 < -f64::from(scale) {
        return Ok(Decimal::zero(scale));
    }
    let base = base.trunc(base.min_scale() as i32);
    let times = exponent.unsigned_abs();
    let digits = u64::from(base.scale.max(base.unscaled.decimal_digits())) * u64::from(times);
    if digits <= EXACT_DIGITS_MAX || (base.scale == 0 && exponent > 0) {
        let power = Int::from_big(base.unscaled.to_big().pow(times));
        let power = Decimal::new(power, base.scale * times);
        return match exponent > 0 {
            true => Ok(power.round(scale as i32)),
            false => Decimal::integer(1).div(&power, scale).ok_or(NumericError::DivisionByZero),
        };
    }
    let negative = base.unscaled.signum() < 0 && times % 2 == 1;
    let magnitude = settle(scale, |guard| {
        let wanted = bits_of_digits(i64::from(scale) + weight as i64 + 2) + guard as i64;
        approximate_power(&base, exponent, wanted.max(guard as i64) as u64)
    });
    Ok(if negative { magnitude.neg() } else { magnitude })
}

/// The decimal logarithm of a number's magnitude from its first digits, as power_var_int estimates it.
fn log10_estimate(number: &Decimal) -> f64 {
    let Groups { weight, digits } = Groups::of(number);
    let leading = digits.iter().take(4);
    let below = (weight + 1 - leading.len() as i32) * GROUP_DIGITS as i32;
    let leading = leading.fold(0.0, |n, digit| n * f64::from(BASE) + f64::from(*digit));
    leading.log10() + f64::from(below)
}

/// The magnitude of a power, `bits` of it: squares and products are cut to their first bits.
fn approximate_power(base: &Decimal, exponent: i32, bits: u64) -> Approximation {
    // Each product adds its own error to those of its factors: all of them, not more than four times the exponent.
    let lost = 40;
    let kept = bits + lost;
    let times = exponent.unsigned_abs();
    let mut square = Floating::of(base, kept);
    let mut power: Option<Floating> = None;
    for bit in 0..u32::BITS - times.leading_zeros() {
        if bit > 0 {
            square = square.mul(&square, kept);
        }
        if times >> bit & 1 == 1 {
            power = Some(power.map_or_else(|| square.clone(), |power| power.mul(&square, kept)));
        }
    }
    let power = power.expect("the exponent is not zero");
    let result = if exponent < 0 { power.inverse(kept) } else { power };
    Approximation {
        units: BigInt::from(result.mantissa >> lost),
        bits: -(result.exponent + lost as i64),
    }
}

/// mantissa times 2 to the power of `exponent`.
#[derive(Clone)]
struct Floating {
    mantissa: BigUint,
    exponent: i64,
}

impl Floating {
    fn of(number: &Decimal, bits: u64) -> Floating {
        let (numerator, denominator) =
            (number.unscaled.magnitude(), super::int::power_of_ten(number.scale));
        let up = (bits + denominator.bits()).saturating_sub(numerator.bits()) + 1;
        let mantissa = (numerator << up) / denominator;
        Floating { mantissa, exponent: -(up as i64) }.cut(bits)
    }

    fn cut(self, bits: u64) -> Floating {
        let excess = self.mantissa.bits().saturating_sub(bits);
        Floating { mantissa: self.mantissa >> excess, exponent: self.exponent + excess as i64 }
    }

    fn mul(&self, other: &Floating, bits: u64) -> Floating {
        let mantissa = &self.mantissa * &other.mantissa;
        Floating { mantissa, exponent: self.exponent + other.exponent }.cut(bits)
    }

    fn inverse(&self, bits: u64) -> Floating {
        let up = bits + self.mantissa.bits();
        let mantissa = (BigUint::from(1u32) << up) / &self.mantissa;
        Floating { mantissa, exponent: -self.exponent - up as i64 }
    }
}
