//! Functions that make dates and times, and count between them.

use froglet_engine::SqlState;

use super::fields::zone_of;
use super::math::float;
use super::overload::Overload;
use super::sets::after;
use super::simple::{Out, int, text};
use super::strings::invalid;
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::types::Zone;
use crate::types::cell::Cell;
use crate::types::datetime::{
    DATE_INFINITY, DATE_MINUS_INFINITY, DAY_US, INFINITY, MINUS_INFINITY, civil_from_days,
    days_from_civil, now_us,
};
use crate::types::oids::*;

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

const SECOND_US: i64 = 1_000_000;
const TIMESTAMPS: &[u32] = &[INT4, INT4, INT4, INT4, INT4, FLOAT8];
const TIMESTAMPS_IN: &[u32] = &[INT4, INT4, INT4, INT4, INT4, FLOAT8, TEXT];
const PERIODS: &[u32] = &[TIMESTAMP, TIMESTAMP, TIMESTAMP, TIMESTAMP];
const PERIODS_TZ: &[u32] = &[TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ];
const LASTING: &[u32] = &[TIMESTAMP, INTERVAL, TIMESTAMP, INTERVAL];
const LASTING_TZ: &[u32] = &[TIMESTAMPTZ, INTERVAL, TIMESTAMPTZ, INTERVAL];
const LENGTHS: &[u32] = &[INT4, INT4, INT4, INT4, INT4, INT4, FLOAT8];

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("make_date", &[INT4, INT4, INT4], DATE, |_, c| Ok(Out::Time(days(c)?))),
    Overload::new("make_time", &[INT4, INT4, FLOAT8], TIME, |_, c| clock(c, 0).map(Out::Time)),
    Overload::new("make_timestamp", TIMESTAMPS, TIMESTAMP, |_, c| local(c).map(Out::Time)),
    Overload::new("make_timestamptz", TIMESTAMPS, TIMESTAMPTZ, |_, c| {
        Ok(Out::Time(Zone::current().to_utc(local(c)?)))
    }),
    Overload::new("make_timestamptz", TIMESTAMPS_IN, TIMESTAMPTZ, |_, c| {
        Ok(Out::Time(iso_zone(text(c, 6))?.to_utc(local(c)?)))
    }),
    Overload::new("make_interval", LENGTHS, INTERVAL, |_, c| interval(c)).optional(7),
    Overload::new("age", &[TIMESTAMP, TIMESTAMP], INTERVAL, |_, c| Ok(age(us(c, 0), us(c, 1)))),
    Overload::new("age", &[TIMESTAMPTZ, TIMESTAMPTZ], INTERVAL, |_, c| {
        Ok(age(local_us(c, 0), local_us(c, 1)))
    }),
    Overload::new("age", &[TIMESTAMP], INTERVAL, |s, c| Ok(age(today(s), us(c, 0)))).volatile(),
    Overload::new("age", &[TIMESTAMPTZ], INTERVAL, |s, c| Ok(age(today(s), local_us(c, 0))))
        .volatile(),
    Overload::new("isfinite", &[DATE], BOOL, |_, c| {
        Ok(Out::Bool(!matches!(c[0], Cell::Date(DATE_INFINITY | DATE_MINUS_INFINITY))))
    }),
    Overload::new("isfinite", &[TIMESTAMP], BOOL, |_, c| Ok(finite(c))),
    Overload::new("isfinite", &[TIMESTAMPTZ], BOOL, |_, c| Ok(finite(c))),
    Overload::new("isfinite", &[INTERVAL], BOOL, |_, _| Ok(Out::Bool(true))),
    Overload::new("date_bin", &[INTERVAL, TIMESTAMP, TIMESTAMP], TIMESTAMP, |_, c| bin(c)),
    Overload::new("date_bin", &[INTERVAL, TIMESTAMPTZ, TIMESTAMPTZ], TIMESTAMPTZ, |_, c| bin(c)),
    Overload::new("to_timestamp", &[FLOAT8], TIMESTAMPTZ, |_, c| of_seconds(float(c, 0))),
    Overload::new("timezone", &[TEXT, TIMESTAMPTZ], TIMESTAMP, |_, c| {
        Ok(Out::Time(zone_of(text(c, 0))?.to_local(us(c, 1))))
    }),
    Overload::new("timezone", &[TEXT, TIMESTAMP], TIMESTAMPTZ, |_, c| {
        Ok(Out::Time(zone_of(text(c, 0))?.to_utc(us(c, 1))))
    }),
    Overload::new("timezone", &[INTERVAL, TIMESTAMPTZ], TIMESTAMP, |_, c| {
        Ok(Out::Time(us(c, 1).saturating_add(offset(c)?)))
    }),
    Overload::new("timezone", &[INTERVAL, TIMESTAMP], TIMESTAMPTZ, |_, c| {
        Ok(Out::Time(us(c, 1).saturating_sub(offset(c)?)))
    }),
    Overload::new("overlaps", PERIODS, BOOL, |_, c| Ok(overlaps(c))).not_strict(),
    Overload::new("overlaps", PERIODS_TZ, BOOL, |_, c| Ok(overlaps(c))).not_strict(),
    Overload::new("overlaps", LASTING, BOOL, |_, c| Ok(overlaps(c))).not_strict(),
    Overload::new("overlaps", LASTING_TZ, BOOL, |_, c| Ok(overlaps(c))).not_strict(),
    Overload::new("overlaps", &[TIME, TIME, TIME, TIME], BOOL, |_, c| Ok(overlaps(c))).not_strict(),
    Overload::new("timeofday", &[], TEXT, |_, _| Ok(Out::Text(time_of_day()))).volatile(),
];

fn us(cells: Cells<'_>, at: usize) -> i64 {
    match cells.get(at) {
        Some(Cell::Timestamp(us) | Cell::TimestampTz(us) | Cell::Time(us)) => *us,
        _ => 0,
    }
}

fn local_us(cells: Cells<'_>, at: usize) -> i64 {
    Zone::current().to_local(us(cells, at))
}

/// Midnight of the transaction's day.
fn today(session: &dyn SessionFunctions) -> i64 {
    let now = Zone::current().to_local(session.transaction_time_us());
    now - now.rem_euclid(DAY_US)
}

fn overflow(message: String) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// Days of a year, a month and a day. A negative year is before Christ.
fn days(cells: Cells<'_>) -> Result<i64, SqlError> {
    let part = |at| int(cells, at).unwrap_or(0);
    let (year, month, day) = (part(0), part(1), part(2));
    let bad = || overflow(format!("date field value out of range: {year}-{month:02}-{day:02}"));
    let astronomical = if year < 0 { year + 1 } else { year };
    if year == 0 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return Err(bad());
    }
    let days = days_from_civil(astronomical, month, day);
    if civil_from_days(days) != (astronomical, month, day) {
        return Err(bad());
    }
    // PostgreSQL's dates: from 4713 BC to 5874897.
    if !(-4_713..=5_874_897).contains(&year) {
        return Err(overflow(format!("date out of range: {year}-{month:02}-{day:02}")));
    }
    Ok(days)
}

/// Microseconds of an hour, a minute and seconds.
fn clock(cells: Cells<'_>, from: usize) -> Result<i64, SqlError> {
    let part = |at| int(cells, from + at).unwrap_or(0);
    let (hour, minute, second) = (part(0), part(1), float(cells, from + 2));
    let us = (second * 1e6).round() as i64;
    let total = (hour * 60 + minute) * 60 * SECOND_US + us;
    let known =
        (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60.0).contains(&second);
    if !known || total > DAY_US {
        return Err(overflow(format!(
            "time field value out of range: {hour}:{minute:02}:{second}"
        )));
    }
    Ok(total)
}

fn local(cells: Cells<'_>) -> Result<i64, SqlError> {
    let out_of_range = || overflow("timestamp out of range".to_owned());
    let days = days(cells)?.checked_mul(DAY_US).ok_or_else(out_of_range)?;
    days.checked_add(clock(cells, 3)?).ok_or_else(out_of_range)
}

fn interval(cells: Cells<'_>) -> Answer {
    let part = |at| int(cells, at).unwrap_or(0);
    let months = part(0) * 12 + part(1);
    let days = part(2) * 7 + part(3);
    let seconds = if cells.len() > 6 { float(cells, 6) } else { 0.0 };
    let us = (seconds * 1e6).round();
    let clock = (part(4) * 60 + part(5)) * 60 * SECOND_US;
    match (i32::try_from(months), i32::try_from(days), clock.checked_add(us as i64)) {
        (Ok(months), Ok(days), Some(total)) if us.abs() < i64::MAX as f64 => {
            Ok(Out::Interval(months, days, total))
        }
        _ => Err(overflow("interval out of range".to_owned())),
    }
}

/// Years, months and days between two local times, counted as a calendar does.
fn age(later: i64, earlier: i64) -> Out {
    let negative = later < earlier;
    let (late, early) = if negative { (earlier, later) } else { (later, earlier) };
    let parts = |us: i64| (civil_from_days(us.div_euclid(DAY_US)), us.rem_euclid(DAY_US));
    let ((year, month, day), mut clock) = parts(late);
    let ((from_year, from_month, from_day), from_clock) = parts(early);
    clock -= from_clock;
    let mut days = day - from_day;
    let mut months = (year - from_year) * 12 + month - from_month;
    if clock < 0 {
        clock += DAY_US;
        days -= 1;
    }
    if days < 0 {
        // The days of the month in which the earlier one is.
        let next = match from_month {
            12 => days_from_civil(from_year + 1, 1, 1),
            month => days_from_civil(from_year, month + 1, 1),
        };
        days += next - days_from_civil(from_year, from_month, 1);
        months -= 1;
    }
    let sign = if negative { -1 } else { 1 };
    let small = |v: i64| i32::try_from(v * sign).unwrap_or(i32::MAX);
    Out::Interval(small(months), small(days), clock * sign)
}

fn finite(cells: Cells<'_>) -> Out {
    Out::Bool(!matches!(us(cells, 0), INFINITY | MINUS_INFINITY))
}

fn bin(cells: Cells<'_>) -> Answer {
    let Cell::Interval(months, days, time) = cells[0] else { return Ok(Out::Null) };
    if months != 0 {
        return Err(SqlError::unsupported(
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let stride = i64::from(days) * DAY_US + time;
    if stride <= 0 {
        return Err(overflow("stride must be greater than zero".to_owned()));
    }
    let (source, origin) = (us(cells, 1), us(cells, 2));
    if matches!(source, INFINITY | MINUS_INFINITY) {
        return Ok(Out::Time(source));
    }
    if matches!(origin, INFINITY | MINUS_INFINITY) {
        return Err(overflow("origin out of range".to_owned()));
    }
    let since =
        source.checked_sub(origin).ok_or_else(|| overflow("interval out of range".to_owned()))?;
    Ok(Out::Time(source - since.rem_euclid(stride)))
}

fn of_seconds(seconds: f64) -> Answer {
    let out_of_range = || Err(overflow(format!("timestamp out of range: \"{seconds}\"")));
    if seconds.is_nan() {
        return Err(overflow("timestamp cannot be NaN".to_owned()));
    }
    match seconds {
        f64::INFINITY => Ok(Out::Time(INFINITY)),
        f64::NEG_INFINITY => Ok(Out::Time(MINUS_INFINITY)),
        // PostgreSQL's first timestamp is of 4713 BC, ours the last of 294247.
        s if !(-210_866_803_200.0..9_223_372_036_854.0).contains(&s) => out_of_range(),
        s => Ok(Out::Time((s * 1e6).round() as i64)),
    }
}

/// The offset from UTC that an interval says.
fn offset(cells: Cells<'_>) -> Result<i64, SqlError> {
    match cells[0] {
        Cell::Interval(0, 0, us) => Ok(us - us % SECOND_US),
        _ => Err(invalid("interval time zone must not include months or days")),
    }
}

/// Whether two periods have a moment in common, of which one that is a moment counts as one.
fn overlaps(cells: Cells<'_>) -> Out {
    let moment = |at: usize| match cells[at] {
        Cell::Null => None,
        // The end of a period is a moment, or how long after its beginning.
        Cell::Interval(months, days, time) => match cells[at - 1] {
            Cell::Timestamp(from) => after(Zone::UTC, from, months.into(), days.into(), time),
            Cell::TimestampTz(from) => {
                after(Zone::current(), from, months.into(), days.into(), time)
            }
            _ => None,
        },
        _ => Some(us(cells, at)),
    };
    let period = |from: usize| match (moment(from), moment(from + 1)) {
        (None, None) => None,
        (None, Some(only)) | (Some(only), None) => Some((only, None)),
        (Some(a), Some(b)) => Some((a.min(b), Some(a.max(b)))),
    };
    let (Some((start_1, end_1)), Some((start_2, end_2))) = (period(0), period(2)) else {
        return Out::Null;
    };
    let (first_end, second_end, second_start) = match start_1.cmp(&start_2) {
        std::cmp::Ordering::Greater => (end_2, end_1, start_1),
        std::cmp::Ordering::Less => (end_1, end_2, start_2),
        std::cmp::Ordering::Equal => {
            return if end_1.is_none() || end_2.is_none() { Out::Null } else { Out::Bool(true) };
        }
    };
    match (first_end, second_end) {
        (None, _) => Out::Null,
        (Some(end), _) if second_start < end => Out::Bool(true),
        (_, None) => Out::Null,
        _ => Out::Bool(false),
    }
}

/// A zone in which `+2` is east of UTC; everywhere else a zone is POSIX's, and west.
fn iso_zone(text: &str) -> Result<Zone, SqlError> {
    match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => zone_of(&format!("-{rest}")),
        (_, Some(rest)) => zone_of(&format!("+{rest}")),
        _ => zone_of(text),
    }
}

fn time_of_day() -> String {
    let zone = Zone::current();
    let now = now_us();
    let local = chrono::DateTime::from_timestamp_micros(zone.to_local(now)).unwrap_or_default();
    let offset = zone.offset_s(now);
    let name = match zone.is_utc() {
        true => "UTC".to_owned(),
        false => format!("{}{:02}", if offset < 0 { '-' } else { '+' }, offset.abs() / 3600),
    };
    format!("{} {name}", local.format("%a %b %d %H:%M:%S%.6f %Y"))
}
