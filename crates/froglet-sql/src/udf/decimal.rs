//! Mathematics over numeric, exact to the digits that PostgreSQL shows.
//!
//! Where the display scale follows from the arguments' types the result is a decimal, else each value has its
//! own ([`crate::types::exact`]).

use super::math::out_of_range;
use super::overload::{Given, Overload};
use super::simple::{Out, int};
use crate::error::SqlError;
use crate::types::cell::Cell;
use crate::types::exact::{Exact, NumericError, factorial as factorial_of, width_bucket};
use crate::types::numeric::exact_of;
use crate::types::oids::*;

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

macro_rules! of_one {
    ($name:literal, $function:expr) => {
        Overload::new($name, &[NUMERIC], NUMERIC, |_, c| {
            let function: fn(&Exact) -> Result<Exact, NumericError> = $function;
            Ok(Out::Exact(function(&exact(c, 0))?))
        })
    };
}

macro_rules! of_two {
    ($name:literal, $function:expr) => {
        Overload::new($name, &[NUMERIC, NUMERIC], NUMERIC, |_, c| {
            let function: fn(&Exact, &Exact) -> Result<Exact, NumericError> = $function;
            Ok(Out::Exact(function(&exact(c, 0), &exact(c, 1))?))
        })
    };
}

/// The functions.
pub static ALL: &[Overload] = &[
    of_one!("abs", |x| Ok(x.abs())).numeric(|given| given.scale(0)),
    of_one!("sign", |x| Ok(x.sign())).numeric(whole),
    of_one!("floor", |x| x.floor()).numeric(whole),
    of_one!("ceil", |x| x.ceil()).numeric(whole),
    of_one!("ceiling", |x| x.ceil()).numeric(whole),
    of_one!("round", |x| x.round(0)).numeric(whole),
    of_one!("trunc", |x| x.trunc(0)).numeric(whole),
    Overload::new("round", &[NUMERIC, INT4], NUMERIC, |_, c| {
        Ok(Out::Exact(exact(c, 0).round(digits(c))?))
    })
    .numeric(asked),
    Overload::new("trunc", &[NUMERIC, INT4], NUMERIC, |_, c| {
        Ok(Out::Exact(exact(c, 0).trunc(digits(c))?))
    })
    .numeric(asked),
    of_two!("mod", Exact::rem).numeric(larger),
    of_two!("div", Exact::div_trunc).numeric(|given| larger(given).map(|_| 0)),
    of_two!("gcd", Exact::gcd).numeric(larger),
    of_two!("lcm", Exact::lcm).numeric(larger),
    Overload::new("factorial", &[INT8], NUMERIC, |_, c| factorial(c)).numeric(of_value),
    Overload::new("scale", &[NUMERIC], INT4, |_, c| Ok(scale(exact(c, 0).scale()))),
    Overload::new("min_scale", &[NUMERIC], INT4, |_, c| Ok(scale(exact(c, 0).min_scale()))),
    of_one!("trim_scale", |x| Ok(x.trim_scale())).numeric(of_value),
    of_one!("sqrt", Exact::sqrt).numeric(of_value),
    of_one!("exp", Exact::exp).numeric(of_value),
    of_one!("ln", Exact::ln).numeric(of_value),
    of_one!("log", Exact::log10).numeric(of_value),
    of_one!("log10", Exact::log10).numeric(of_value),
    of_two!("log", |base, x| x.log(base)).numeric(of_value),
    of_two!("power", Exact::power).numeric(of_value),
    of_two!("pow", Exact::power).numeric(of_value),
    Overload::new("width_bucket", &[NUMERIC, NUMERIC, NUMERIC, INT4], INT4, |_, c| bucket(c)),
];

/// A numeric argument.
pub fn exact(cells: &[Cell<'_>], at: usize) -> Exact {
    cells.get(at).and_then(exact_of).unwrap_or(Exact::ZERO)
}

fn digits(cells: Cells<'_>) -> i32 {
    int(cells, 1).and_then(|digits| i32::try_from(digits).ok()).unwrap_or(0)
}

/// Each value has its own scale.
fn of_value(_given: &Given<'_>) -> Option<i8> {
    None
}

/// None after the point.
fn whole(given: &Given<'_>) -> Option<i8> {
    given.scale(0).map(|_| 0)
}

/// As many as the one of two that has more.
fn larger(given: &Given<'_>) -> Option<i8> {
    Some(given.scale(0)?.max(given.scale(1)?))
}

/// As many as the second argument asks for.
fn asked(given: &Given<'_>) -> Option<i8> {
    given.scale(0)?;
    let digits = given.int(1)?;
    i8::try_from(digits.max(0)).ok().filter(|digits| *digits <= MOST_ASKED)
}

/// A decimal has room for a number before so many digits.
const MOST_ASKED: i8 = 20;

fn scale(digits: Option<u32>) -> Out {
    digits.map_or(Out::Null, |digits| Out::Int(digits.into()))
}

fn factorial(cells: Cells<'_>) -> Answer {
    match int(cells, 0).unwrap_or(0) {
        n if n < 0 => Err(out_of_range("factorial of a negative number is undefined")),
        n => Ok(Out::Exact(factorial_of(n)?)),
    }
}

fn bucket(cells: Cells<'_>) -> Answer {
    let count = int(cells, 3).and_then(|count| i32::try_from(count).ok()).unwrap_or(0);
    let found = width_bucket(&exact(cells, 0), &exact(cells, 1), &exact(cells, 2), count)?;
    Ok(Out::Int(found.into()))
}
