//! Mathematics over numeric.
//!
//! Rounding, remainders and square roots are exact. Powers, logarithms and exponentials are computed
//! in double precision, of which 16 digits after the point are shown: PostgreSQL computes as many as
//! it shows.

use arrow::datatypes::i256;
use datafusion::common::ScalarValue;

use super::math::{bad_logarithm, bad_power, out_of_range, power};
use super::overload::{Given, Overload};
use super::simple::{Out, int};
use crate::error::SqlError;
use crate::semantics::arith::division_by_zero;
use crate::types::cell::Cell;
use crate::types::numeric::{power as ten, rescale, too_wide};
use crate::types::oids::*;

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

/// Digits after the point of what is computed in double precision.
const SHOWN: i8 = 16;
/// Digits after the point of the square root of less than 10000.
const ROOT_SCALE: i8 = 15;

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("abs", &[NUMERIC], NUMERIC, |_, c| {
        let (value, scale) = decimal(c, 0);
        Ok(Out::Numeric(value.abs(), scale))
    })
    .numeric(|given| given.scale(0)),
    Overload::new("sign", &[NUMERIC], NUMERIC, |_, c| {
        Ok(Out::Numeric(decimal(c, 0).0.signum(), 0))
    })
    .numeric(|_| 0),
    Overload::new("floor", &[NUMERIC], NUMERIC, |_, c| Ok(Out::Numeric(floor(c), 0)))
        .numeric(|_| 0),
    Overload::new("ceil", &[NUMERIC], NUMERIC, |_, c| Ok(Out::Numeric(ceil(c), 0))).numeric(|_| 0),
    Overload::new("ceiling", &[NUMERIC], NUMERIC, |_, c| Ok(Out::Numeric(ceil(c), 0)))
        .numeric(|_| 0),
    Overload::new("round", &[NUMERIC], NUMERIC, |_, c| round(c, 0)).numeric(|_| 0),
    Overload::new("round", &[NUMERIC, INT4], NUMERIC, |_, c| round(c, digits(c))).numeric(asked),
    Overload::new("trunc", &[NUMERIC], NUMERIC, |_, c| trunc(c, 0)).numeric(|_| 0),
    Overload::new("trunc", &[NUMERIC, INT4], NUMERIC, |_, c| trunc(c, digits(c))).numeric(asked),
    Overload::new("mod", &[NUMERIC, NUMERIC], NUMERIC, |_, c| remainder(c))
        .numeric(|given| given.scale(0).max(given.scale(1))),
    Overload::new("div", &[NUMERIC, NUMERIC], NUMERIC, |_, c| quotient(c)).numeric(|_| 0),
    Overload::new("gcd", &[NUMERIC, NUMERIC], NUMERIC, |_, c| divisor(c))
        .numeric(|given| given.scale(0).max(given.scale(1))),
    Overload::new("factorial", &[INT8], NUMERIC, |_, c| factorial(c)).numeric(|_| 0),
    Overload::new("scale", &[NUMERIC], INT4, |_, c| Ok(Out::Int(decimal(c, 0).1.into()))),
    Overload::new("min_scale", &[NUMERIC], INT4, |_, c| {
        Ok(Out::Int(trimmed(decimal(c, 0)).1.into()))
    }),
    Overload::new("trim_scale", &[NUMERIC], NUMERIC, |_, c| {
        let (value, scale) = trimmed(decimal(c, 0));
        Ok(Out::Numeric(value, scale))
    })
    .numeric(|given| constant(given, 0).map_or(given.scale(0), |value| trimmed(value).1)),
    Overload::new("sqrt", &[NUMERIC], NUMERIC, |_, c| square_root(c)).numeric(root_scale),
    Overload::new("exp", &[NUMERIC], NUMERIC, |_, c| shown(float(c, 0).exp())).numeric(|_| SHOWN),
    Overload::new("ln", &[NUMERIC], NUMERIC, |_, c| logarithm(c, 0, f64::ln)).numeric(|_| SHOWN),
    Overload::new("log", &[NUMERIC], NUMERIC, |_, c| logarithm(c, 0, f64::log10))
        .numeric(|_| SHOWN),
    Overload::new("log10", &[NUMERIC], NUMERIC, |_, c| logarithm(c, 0, f64::log10))
        .numeric(|_| SHOWN),
    Overload::new("log", &[NUMERIC, NUMERIC], NUMERIC, |_, c| logarithm_to(c)).numeric(|_| SHOWN),
    Overload::new("power", &[NUMERIC, NUMERIC], NUMERIC, |_, c| raised(c)).numeric(|_| SHOWN),
    Overload::new("pow", &[NUMERIC, NUMERIC], NUMERIC, |_, c| raised(c)).numeric(|_| SHOWN),
];

/// A numeric: unscaled, digits after the point.
pub fn decimal(cells: &[Cell<'_>], at: usize) -> (i128, i8) {
    match cells.get(at) {
        Some(Cell::Decimal(value, scale)) => (*value, *scale),
        other => (other.map_or(0, |_| i128::from(int(cells, at).unwrap_or(0))), 0),
    }
}

/// A numeric as a double precision.
pub fn float(cells: &[Cell<'_>], at: usize) -> f64 {
    let mut text = Vec::new();
    let (value, scale) = decimal(cells, at);
    crate::types::numeric::write(value, scale, &mut text);
    // The shortest way to the nearest double is by the digits.
    String::from_utf8_lossy(&text).parse().unwrap_or(f64::NAN)
}

/// A double precision as numeric.
fn shown(value: f64) -> Answer {
    if !value.is_finite() {
        return Err(too_wide());
    }
    let (value, scale) = crate::types::numeric::parse(&format!("{value:.16}"))?;
    Ok(Out::Numeric(value, scale))
}

fn digits(cells: Cells<'_>) -> i8 {
    int(cells, 1).unwrap_or(0).clamp(-38, 38) as i8
}

/// The digits that the second argument asks for, or all that there are.
fn asked(given: &Given<'_>) -> i8 {
    match given.int(1) {
        Some(digits) => digits.clamp(0, 38) as i8,
        None => given.scale(0),
    }
}

fn constant(given: &Given<'_>, at: usize) -> Option<(i128, i8)> {
    match given.constants.get(at).copied().flatten()? {
        ScalarValue::Decimal128(Some(value), _, scale) => Some((*value, *scale)),
        _ => None,
    }
}

fn trimmed((mut value, mut scale): (i128, i8)) -> (i128, i8) {
    while scale > 0 && value % 10 == 0 {
        value /= 10;
        scale -= 1;
    }
    (value, scale)
}

fn one(scale: i8) -> i128 {
    ten(u32::from(scale.unsigned_abs()))
}

fn floor(cells: Cells<'_>) -> i128 {
    let (value, scale) = decimal(cells, 0);
    value.div_euclid(one(scale))
}

fn ceil(cells: Cells<'_>) -> i128 {
    let (value, scale) = decimal(cells, 0);
    let one = one(scale);
    value.div_euclid(one) + i128::from(value.rem_euclid(one) != 0)
}

/// Rounded to so many digits, of which a negative number is before the point.
fn round(cells: Cells<'_>, digits: i8) -> Answer {
    let (value, scale) = decimal(cells, 0);
    let rounded = rescale(value, scale, digits).ok_or_else(too_wide)?;
    whole(rounded, digits)
}

fn trunc(cells: Cells<'_>, digits: i8) -> Answer {
    let (value, scale) = decimal(cells, 0);
    if digits >= scale {
        return Ok(Out::Numeric(value, scale));
    }
    let drop = u32::from((scale - digits).unsigned_abs());
    whole(if drop > 38 { 0 } else { value / ten(drop) }, digits)
}

/// A number of no negative scale.
fn whole(value: i128, scale: i8) -> Answer {
    if scale >= 0 {
        return Ok(Out::Numeric(value, scale));
    }
    let value = value.checked_mul(one(scale)).ok_or_else(too_wide)?;
    Ok(Out::Numeric(value, 0))
}

/// Two numbers of one scale.
fn pair(cells: Cells<'_>) -> Result<(i128, i128, i8), SqlError> {
    let ((a, a_scale), (b, b_scale)) = (decimal(cells, 0), decimal(cells, 1));
    let scale = a_scale.max(b_scale);
    let at = |value, from| rescale(value, from, scale).ok_or_else(too_wide);
    Ok((at(a, a_scale)?, at(b, b_scale)?, scale))
}

fn remainder(cells: Cells<'_>) -> Answer {
    match pair(cells)? {
        (_, 0, _) => Err(division_by_zero()),
        (a, b, scale) => Ok(Out::Numeric(a % b, scale)),
    }
}

fn quotient(cells: Cells<'_>) -> Answer {
    match pair(cells)? {
        (_, 0, _) => Err(division_by_zero()),
        (a, b, _) => Ok(Out::Numeric(a / b, 0)),
    }
}

fn divisor(cells: Cells<'_>) -> Answer {
    let (a, b, scale) = pair(cells)?;
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    Ok(Out::Numeric(a, scale))
}

fn factorial(cells: Cells<'_>) -> Answer {
    let n = int(cells, 0).unwrap_or(0);
    if n < 0 {
        return Err(out_of_range("factorial of a negative number is undefined"));
    }
    let product = (2..=i128::from(n)).try_fold(1i128, i128::checked_mul);
    let value = product.filter(|value| *value < ten(38)).ok_or_else(too_wide)?;
    Ok(Out::Numeric(value, 0))
}

/// Sixteen digits, the first of them the first of the root.
fn root_scale(given: &Given<'_>) -> i8 {
    let scale = constant(given, 0).map_or(ROOT_SCALE, |(value, scale)| {
        let mut whole = value.abs() / one(scale);
        let mut groups = 0;
        while whole >= 10_000 {
            whole /= 10_000;
            groups += 1;
        }
        ROOT_SCALE - 2 * groups
    });
    scale.max(given.scale(0)).max(0)
}

fn square_root(cells: Cells<'_>) -> Answer {
    let (value, scale) = decimal(cells, 0);
    if value < 0 {
        return Err(bad_power("cannot take square root of a negative number"));
    }
    // The root of value * 10^(2 * more + scale) is the result's digits; one more digit rounds it.
    let more = ROOT_SCALE.max(scale) + 1;
    let shift = 2 * u32::from(more.unsigned_abs()) - u32::from(scale.unsigned_abs());
    let shifted = i256::from_i128(value)
        .checked_mul(i256::from_i128(ten(shift.min(38))))
        .and_then(|v| v.checked_mul(i256::from_i128(ten(shift.saturating_sub(38)))))
        .ok_or_else(too_wide)?;
    let root = integer_root(shifted).to_i128().ok_or_else(too_wide)?;
    Ok(Out::Numeric(root, more))
}

/// The largest integer whose square is not larger (Newton's method from above).
pub fn integer_root(value: i256) -> i256 {
    let (zero, two) = (i256::from_i128(0), i256::from_i128(2));
    if value <= zero {
        return zero;
    }
    let bits = 256 - value.leading_zeros();
    let mut root = i256::from_i128(1) << u8::try_from(bits.div_ceil(2)).unwrap_or(127);
    loop {
        let next = (root + value / root) / two;
        if next >= root {
            return root;
        }
        root = next;
    }
}

fn positive(cells: Cells<'_>, at: usize) -> Result<f64, SqlError> {
    match decimal(cells, at).0 {
        value if value <= 0 => Err(bad_logarithm(value == 0)),
        _ => Ok(float(cells, at)),
    }
}

fn logarithm(cells: Cells<'_>, at: usize, function: fn(f64) -> f64) -> Answer {
    shown(function(positive(cells, at)?))
}

fn logarithm_to(cells: Cells<'_>) -> Answer {
    let (base, value) = (positive(cells, 0)?, positive(cells, 1)?);
    if base == 1.0 {
        return Err(division_by_zero());
    }
    shown(match base {
        2.0 => value.log2(),
        10.0 => value.log10(),
        base => value.ln() / base.ln(),
    })
}

/// Exact where the exponent is a small integer.
fn raised(cells: Cells<'_>) -> Answer {
    let ((base, scale), (exponent, exponent_scale)) = (decimal(cells, 0), decimal(cells, 1));
    let exponent = trimmed((exponent, exponent_scale));
    if let (times @ 0..=64, 0) = exponent {
        let (base, scale) = trimmed((base, scale));
        let digits = i64::from(scale) * times as i64;
        let product = base.checked_pow(times as u32);
        if let (Some(product), Ok(digits @ 0..=38)) = (product, i8::try_from(digits)) {
            return Ok(Out::Numeric(product, digits));
        }
    }
    match power(float(cells, 0), float(cells, 1))? {
        Out::Float(value) => shown(value),
        other => Ok(other),
    }
}
