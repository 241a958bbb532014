//! Functions that return sets, as lists that the query unnests ([`crate::rewrite_sets`]).

use froglet_engine::SqlState;

use super::decimal::exact;
use super::items::Items;
use super::overload::Overload;
use super::simple::{Out, int, truth};
use super::strings::invalid;
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::types::Zone;
use crate::types::cell::Cell;
use crate::types::datetime::{DAY_US, INFINITY, MINUS_INFINITY, civil_from_days, days_from_civil};
use crate::types::exact::Exact;
use crate::types::oids::*;

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

/// The longest list.
const MAX_ITEMS: usize = 50_000_000;

const INSTANTS: &[u32] = &[TIMESTAMPTZ, TIMESTAMPTZ, INTERVAL];

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("generate_series", &[INT4, INT4, INT4], INT4, |s, c| integers(s, c))
        .optional(1)
        .set(),
    Overload::new("generate_series", &[INT8, INT8, INT8], INT8, |s, c| integers(s, c))
        .optional(1)
        .set(),
    Overload::new("generate_series", &[NUMERIC, NUMERIC, NUMERIC], NUMERIC, |s, c| numerics(s, c))
        .optional(1)
        .set(),
    Overload::new("generate_series", &[TIMESTAMP, TIMESTAMP, INTERVAL], TIMESTAMP, |s, c| {
        times(s, c, Zone::UTC)
    })
    .set(),
    Overload::new("generate_series", INSTANTS, TIMESTAMPTZ, |s, c| times(s, c, Zone::current()))
        .set(),
    Overload::new("generate_subscripts", &[super::simple::ANY, INT4, BOOL], INT4, |_, c| {
        Ok(subscripts(c, 1))
    })
    .optional(1)
    .set(),
    Overload::new("generate_subscripts", &[INT2VECTOR, INT4, BOOL], INT4, |_, c| {
        Ok(subscripts(c, 0))
    })
    .optional(1)
    .set(),
    Overload::new("generate_subscripts", &[OIDVECTOR, INT4, BOOL], INT4, |_, c| {
        Ok(subscripts(c, 0))
    })
    .optional(1)
    .set(),
    Overload::new("froglet_ordinals", &[super::simple::ANY], INT8, |_, c| Ok(ordinals(c))).set(),
];

fn no_step() -> SqlError {
    invalid("step size cannot equal zero")
}

fn collect(session: &dyn SessionFunctions, items: impl Iterator<Item = Out>) -> Answer {
    let mut list = Items::new(session);
    for (number, item) in items.enumerate() {
        if number >= MAX_ITEMS {
            let message = format!("a series of more than {MAX_ITEMS} values in one row");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .hint("From and to integers that stand in FROM it has any length."));
        }
        list.push(item)?;
    }
    Ok(list.list())
}

/// The numbers from the first to the last, which is not passed.
fn series<T: Copy + PartialOrd>(
    first: T,
    last: T,
    up: bool,
    next: impl Fn(T) -> Option<T>,
) -> impl Iterator<Item = T> {
    let inside = move |value: &T| if up { *value <= last } else { *value >= last };
    std::iter::successors(Some(first), move |value| next(*value)).take_while(inside)
}

fn integers(session: &dyn SessionFunctions, cells: Cells<'_>) -> Answer {
    let (first, last) = (int(cells, 0).unwrap_or(0), int(cells, 1).unwrap_or(0));
    let step = int(cells, 2).unwrap_or(1);
    if step == 0 {
        return Err(no_step());
    }
    collect(session, series(first, last, step > 0, |v| v.checked_add(step)).map(Out::Int))
}

fn numerics(session: &dyn SessionFunctions, cells: Cells<'_>) -> Answer {
    let step = if cells.len() > 2 { exact(cells, 2) } else { Exact::ONE };
    let (first, last) = (exact(cells, 0), exact(cells, 1));
    let named = [("start", &first), ("stop", &last), ("step size", &step)];
    for (name, value) in named {
        if !value.is_finite() {
            let what = if value.is_nan() { "NaN" } else { "infinity" };
            let message = format!("{name} value cannot be {what}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    let zero = Exact::ZERO;
    if step == zero {
        return Err(no_step());
    }
    let mut next = Some(first);
    let numbers = std::iter::from_fn(|| {
        let here =
            next.take().filter(|here| if step > zero { *here <= last } else { *here >= last })?;
        next = here.add(&step).ok();
        Some(Out::Exact(here))
    });
    collect(session, numbers)
}

/// A local time some months, days and microseconds later. A day that a month does not have is its last.
fn later(local: i64, months: i64, days: i64) -> Option<i64> {
    let (day_number, clock) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
    let (year, month, day) = civil_from_days(day_number);
    let month = year.checked_mul(12)?.checked_add(month - 1)?.checked_add(months)?;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    let first = days_from_civil(year, month, 1);
    let next = days_from_civil(year + month / 12, month % 12 + 1, 1);
    let day_number = (first + day - 1).min(next - 1).checked_add(days)?;
    day_number.checked_mul(DAY_US)?.checked_add(clock)
}

/// A point in time after an interval.
pub fn after(zone: Zone, at: i64, months: i64, days: i64, us: i64) -> Option<i64> {
    match (months, days) {
        (0, 0) => at.checked_add(us),
        _ => zone.to_utc(later(zone.to_local(at), months, days)?).checked_add(us),
    }
}

fn times(session: &dyn SessionFunctions, cells: Cells<'_>, zone: Zone) -> Answer {
    let moment = |at: usize| match cells[at] {
        Cell::Timestamp(us) | Cell::TimestampTz(us) => us,
        _ => 0,
    };
    let Cell::Interval(months, days, us) = cells[2] else { return Ok(Out::Null) };
    let (first, last) = (moment(0), moment(1));
    let (months, days) = (i64::from(months), i64::from(days));
    let length = i128::from(months * 30 + days) * i128::from(DAY_US) + i128::from(us);
    if length == 0 {
        return Err(no_step());
    }
    let endless = |us| matches!(us, INFINITY | MINUS_INFINITY);
    if endless(first) || endless(last) {
        return Err(SqlError::unsupported("generate_series to infinity"));
    }
    let next = |at: i64| after(zone, at, months, days, us);
    collect(session, series(first, last, length > 0, next).map(Out::Time))
}

fn subscripts(cells: Cells<'_>, first: i64) -> Out {
    let (Cell::List(items), Some(1)) = (&cells[0], int(cells, 1)) else {
        return Out::List(Vec::new());
    };
    let all = (first..first + items.len() as i64).map(Out::Int);
    match truth(cells, 2) {
        Some(true) => Out::List(all.rev().collect()),
        _ => Out::List(all.collect()),
    }
}

/// The numbers of a list's items.
fn ordinals(cells: Cells<'_>) -> Out {
    match &cells[0] {
        Cell::List(items) => Out::List((1..=items.len() as i64).map(Out::Int).collect()),
        _ => Out::Null,
    }
}
