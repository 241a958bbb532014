//! Mathematics over integers and double precision; [`super::decimal`] has numeric's.
//!
//! What has no value is an error, as in PostgreSQL, and no NaN or infinity: 22003 where a result is
//! too large, 2201E and 2201F for logarithms and powers, 22012 for a division by zero.

use froglet_engine::SqlState;

use super::overload::Overload;
use super::simple::{Out, int};
use crate::error::SqlError;
use crate::semantics::arith::division_by_zero;
use crate::types::cell::Cell;
use crate::types::oids::*;

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

macro_rules! of_float {
    ($name:literal, $function:expr) => {
        Overload::new($name, &[FLOAT8], FLOAT8, |_, c| {
            let function: fn(f64) -> f64 = $function;
            finite(function(float(c, 0)), &[float(c, 0)])
        })
    };
}

macro_rules! bounded {
    ($name:literal, $function:expr) => {
        Overload::new($name, &[FLOAT8], FLOAT8, |_, c| {
            let function: fn(f64) -> f64 = $function;
            in_domain(float(c, 0), function)
        })
    };
}

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("abs", &[INT2], INT2, |_, c| absolute(c, i64::from(i16::MAX), "smallint")),
    Overload::new("abs", &[INT4], INT4, |_, c| absolute(c, i64::from(i32::MAX), "integer")),
    Overload::new("abs", &[INT8], INT8, |_, c| absolute(c, i64::MAX, "bigint")),
    Overload::new("abs", &[FLOAT4], FLOAT4, |_, c| Ok(Out::Float(float(c, 0).abs()))),
    Overload::new("abs", &[FLOAT8], FLOAT8, |_, c| Ok(Out::Float(float(c, 0).abs()))),
    Overload::new("sign", &[FLOAT8], FLOAT8, |_, c| Ok(Out::Float(sign(float(c, 0))))),
    of_float!("floor", f64::floor),
    of_float!("ceil", f64::ceil),
    of_float!("ceiling", f64::ceil),
    of_float!("round", f64::round_ties_even),
    of_float!("trunc", f64::trunc),
    Overload::new("mod", &[INT2, INT2], INT2, |_, c| remainder(c)),
    Overload::new("mod", &[INT4, INT4], INT4, |_, c| remainder(c)),
    Overload::new("mod", &[INT8, INT8], INT8, |_, c| remainder(c)),
    Overload::new("gcd", &[INT4, INT4], INT4, |_, c| divisor(c, i64::from(i32::MAX), "integer")),
    Overload::new("gcd", &[INT8, INT8], INT8, |_, c| divisor(c, i64::MAX, "bigint")),
    Overload::new("lcm", &[INT4, INT4], INT4, |_, c| multiple(c, i64::from(i32::MAX), "integer")),
    Overload::new("lcm", &[INT8, INT8], INT8, |_, c| multiple(c, i64::MAX, "bigint")),
    Overload::new("sqrt", &[FLOAT8], FLOAT8, |_, c| square_root(float(c, 0))),
    of_float!("cbrt", f64::cbrt),
    of_float!("exp", f64::exp),
    Overload::new("ln", &[FLOAT8], FLOAT8, |_, c| logarithm(float(c, 0), f64::ln)),
    Overload::new("log", &[FLOAT8], FLOAT8, |_, c| logarithm(float(c, 0), f64::log10)),
    Overload::new("log10", &[FLOAT8], FLOAT8, |_, c| logarithm(float(c, 0), f64::log10)),
    Overload::new("power", &[FLOAT8, FLOAT8], FLOAT8, |_, c| power(float(c, 0), float(c, 1))),
    Overload::new("pow", &[FLOAT8, FLOAT8], FLOAT8, |_, c| power(float(c, 0), float(c, 1))),
    of_float!("degrees", f64::to_degrees),
    of_float!("radians", |x| x * (std::f64::consts::PI / 180.0)),
    of_float!("sin", f64::sin),
    of_float!("cos", f64::cos),
    of_float!("tan", f64::tan),
    of_float!("cot", |x| 1.0 / x.tan()),
    of_float!("sind", sine_of_degrees),
    of_float!("cosd", |x| sine_of_degrees(x + 90.0)),
    bounded!("asin", f64::asin),
    bounded!("acos", f64::acos),
    bounded!("atanh", f64::atanh),
    Overload::new("atan", &[FLOAT8], FLOAT8, |_, c| Ok(Out::Float(float(c, 0).atan()))),
    Overload::new("atan2", &[FLOAT8, FLOAT8], FLOAT8, |_, c| {
        Ok(Out::Float(float(c, 0).atan2(float(c, 1))))
    }),
    Overload::new("sinh", &[FLOAT8], FLOAT8, |_, c| Ok(Out::Float(float(c, 0).sinh()))),
    Overload::new("cosh", &[FLOAT8], FLOAT8, |_, c| Ok(Out::Float(float(c, 0).cosh()))),
    Overload::new("tanh", &[FLOAT8], FLOAT8, |_, c| Ok(Out::Float(float(c, 0).tanh()))),
    Overload::new("asinh", &[FLOAT8], FLOAT8, |_, c| Ok(Out::Float(float(c, 0).asinh()))),
    Overload::new("acosh", &[FLOAT8], FLOAT8, |_, c| match float(c, 0) {
        x if x < 1.0 => Err(out_of_range("input is out of range")),
        x => Ok(Out::Float(x.acosh())),
    }),
    Overload::new("width_bucket", &[FLOAT8, FLOAT8, FLOAT8, INT4], INT4, |_, c| bucket(c)),
    Overload::new("froglet_xor", &[INT2, INT2], INT2, |_, c| bits(c, |a, b| a ^ b)),
    Overload::new("froglet_xor", &[INT4, INT4], INT4, |_, c| bits(c, |a, b| a ^ b)),
    Overload::new("froglet_xor", &[INT8, INT8], INT8, |_, c| bits(c, |a, b| a ^ b)),
    Overload::new("froglet_not", &[INT2], INT2, |_, c| Ok(Out::Int(!int(c, 0).unwrap_or(0)))),
    Overload::new("froglet_not", &[INT4], INT4, |_, c| Ok(Out::Int(!int(c, 0).unwrap_or(0)))),
    Overload::new("froglet_not", &[INT8], INT8, |_, c| Ok(Out::Int(!int(c, 0).unwrap_or(0)))),
];

/// A double precision.
pub fn float(cells: &[Cell<'_>], at: usize) -> f64 {
    match cells.get(at) {
        Some(Cell::Float64(v)) => *v,
        Some(Cell::Float32(v)) => f64::from(*v),
        _ => 0.0,
    }
}

/// 22003
pub fn out_of_range(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

/// 2201F
pub fn bad_power(message: &str) -> SqlError {
    SqlError::new(SqlState::new("2201F"), message.to_owned())
}

/// 2201E
pub fn bad_logarithm(is_zero: bool) -> SqlError {
    let what = if is_zero { "zero" } else { "a negative number" };
    SqlError::new(SqlState::new("2201E"), format!("cannot take logarithm of {what}"))
}

/// A result that is infinite though no argument was, or no number, is out of range.
fn finite(value: f64, arguments: &[f64]) -> Answer {
    if value.is_infinite() && arguments.iter().all(|x| x.is_finite()) {
        return Err(out_of_range("value out of range: overflow"));
    }
    if value.is_nan() && !arguments.iter().any(|x| x.is_nan()) {
        return Err(out_of_range("input is out of range"));
    }
    Ok(Out::Float(value))
}

fn in_domain(value: f64, function: fn(f64) -> f64) -> Answer {
    match value {
        x if !x.is_nan() && !(-1.0..=1.0).contains(&x) => {
            Err(out_of_range("input is out of range"))
        }
        x => Ok(Out::Float(function(x))),
    }
}

/// Exact where the sine is a half, one or nothing.
fn sine_of_degrees(degrees: f64) -> f64 {
    match degrees.rem_euclid(360.0) {
        0.0 | 180.0 => 0.0,
        30.0 | 150.0 => 0.5,
        90.0 => 1.0,
        210.0 | 330.0 => -0.5,
        270.0 => -1.0,
        degrees => degrees.to_radians().sin(),
    }
}

fn sign(value: f64) -> f64 {
    match value {
        x if x > 0.0 => 1.0,
        x if x < 0.0 => -1.0,
        _ => 0.0,
    }
}

fn whole(value: Option<i64>, most: i64, name: &str) -> Answer {
    match value {
        Some(value) if value <= most => Ok(Out::Int(value)),
        _ => Err(out_of_range(format!("{name} out of range"))),
    }
}

fn absolute(cells: Cells<'_>, most: i64, name: &str) -> Answer {
    whole(int(cells, 0).and_then(i64::checked_abs), most, name)
}

fn remainder(cells: Cells<'_>) -> Answer {
    let (left, right) = (int(cells, 0).unwrap_or(0), int(cells, 1).unwrap_or(0));
    match right {
        0 => Err(division_by_zero()),
        right => Ok(Out::Int(left.wrapping_rem(right))),
    }
}

fn common(cells: Cells<'_>) -> u64 {
    let size = |at| int(cells, at).unwrap_or(0).unsigned_abs();
    let (mut a, mut b) = (size(0), size(1));
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn divisor(cells: Cells<'_>, most: i64, name: &str) -> Answer {
    whole(i64::try_from(common(cells)).ok(), most, name)
}

fn multiple(cells: Cells<'_>, most: i64, name: &str) -> Answer {
    let size = |at| int(cells, at).unwrap_or(0).unsigned_abs();
    let common = common(cells);
    if size(0) == 0 || size(1) == 0 {
        return Ok(Out::Int(0));
    }
    let product = (size(0) / common).checked_mul(size(1));
    whole(product.and_then(|v| i64::try_from(v).ok()), most, name)
}

fn square_root(value: f64) -> Answer {
    match value {
        x if x < 0.0 => Err(bad_power("cannot take square root of a negative number")),
        x => Ok(Out::Float(x.sqrt())),
    }
}

fn logarithm(value: f64, function: fn(f64) -> f64) -> Answer {
    match value {
        x if x <= 0.0 => Err(bad_logarithm(x == 0.0)),
        x => Ok(Out::Float(function(x))),
    }
}

/// `base ^ exponent`
pub fn power(base: f64, exponent: f64) -> Answer {
    if base == 0.0 && exponent < 0.0 {
        return Err(bad_power("zero raised to a negative power is undefined"));
    }
    if base < 0.0 && base.is_finite() && exponent.is_finite() && exponent.fract() != 0.0 {
        return Err(bad_power(
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    let value = base.powf(exponent);
    if value == 0.0 && base != 0.0 && base.is_finite() && exponent.is_finite() {
        return Err(out_of_range("value out of range: underflow"));
    }
    finite(value, &[base, exponent])
}

fn bits(cells: Cells<'_>, function: fn(i64, i64) -> i64) -> Answer {
    Ok(Out::Int(function(int(cells, 0).unwrap_or(0), int(cells, 1).unwrap_or(0))))
}

fn bucket(cells: Cells<'_>) -> Answer {
    let (value, low, high) = (float(cells, 0), float(cells, 1), float(cells, 2));
    let count = int(cells, 3).unwrap_or(0);
    let bad = |message: &str| Err(SqlError::new(SqlState::new("2201G"), message.to_owned()));
    if count <= 0 {
        return bad("count must be greater than zero");
    }
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return bad("operand, lower bound, and upper bound cannot be NaN");
    }
    if low.is_infinite() || high.is_infinite() {
        return bad("lower and upper bounds must be finite");
    }
    if low == high {
        return bad("lower bound cannot equal upper bound");
    }
    let part = (value - low) / (high - low);
    let bucket = match part {
        part if part < 0.0 => 0,
        part if part >= 1.0 => count + 1,
        part => (count as f64 * part) as i64 + 1,
    };
    whole(Some(bucket), i64::from(i32::MAX), "integer")
}
