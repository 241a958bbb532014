//! Fields of dates, times and intervals: `extract`, `date_part`, `date_trunc`.
//!
//! Of a timestamp with time zone they mean the clock of the session's zone.

use froglet_engine::SqlState;

use super::overload::{Given, Overload};
use super::simple::{Out, text};
use super::strings::invalid;
use crate::error::SqlError;
use crate::types::Zone;
use crate::types::cell::Cell;
use crate::types::datetime::{
    DATE_INFINITY, DATE_MINUS_INFINITY, DAY_US, INFINITY, MINUS_INFINITY, civil_from_days,
    days_from_civil,
};
use crate::types::oids::*;
use crate::types::zone;

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
/// The Julian day of 1970-01-01.
const EPOCH_JULIAN: i64 = 2_440_588;
/// Days that a year of an interval counts for, times four.
const YEAR_DAYS_4: i64 = 1_461;

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("extract", &[TEXT, TIMESTAMP], NUMERIC, |_, c| extract(c)).numeric(scale),
    Overload::new("extract", &[TEXT, TIMESTAMPTZ], NUMERIC, |_, c| extract(c)).numeric(scale),
    Overload::new("extract", &[TEXT, DATE], NUMERIC, |_, c| extract(c)).numeric(scale),
    Overload::new("extract", &[TEXT, TIME], NUMERIC, |_, c| extract(c)).numeric(scale),
    Overload::new("extract", &[TEXT, INTERVAL], NUMERIC, |_, c| extract(c)).numeric(scale),
    Overload::new("date_part", &[TEXT, TIMESTAMP], FLOAT8, |_, c| date_part(c)),
    Overload::new("date_part", &[TEXT, TIMESTAMPTZ], FLOAT8, |_, c| date_part(c)),
    Overload::new("date_part", &[TEXT, DATE], FLOAT8, |_, c| date_part(c)),
    Overload::new("date_part", &[TEXT, TIME], FLOAT8, |_, c| date_part(c)),
    Overload::new("date_part", &[TEXT, INTERVAL], FLOAT8, |_, c| date_part(c)),
    Overload::new("date_trunc", &[TEXT, TIMESTAMP], TIMESTAMP, |_, c| truncated(c, Zone::UTC)),
    Overload::new("date_trunc", &[TEXT, TIMESTAMPTZ], TIMESTAMPTZ, |_, c| {
        truncated(c, Zone::current())
    }),
    Overload::new("date_trunc", &[TEXT, TIMESTAMPTZ, TEXT], TIMESTAMPTZ, |_, c| {
        truncated(c, zone_of(text(c, 2))?)
    }),
    Overload::new("date_trunc", &[TEXT, INTERVAL], INTERVAL, |_, c| truncated_interval(c)),
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Field {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Epoch,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Julian,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

fn field_of(name: &str) -> Option<Field> {
    use Field::*;
    Some(match name.to_ascii_lowercase().as_str() {
        "microseconds" | "microsecond" | "us" | "usec" | "usecs" | "useconds" => Microsecond,
        "milliseconds" | "millisecond" | "ms" | "msec" | "msecs" | "mseconds" => Millisecond,
        "second" | "seconds" | "sec" | "secs" | "s" => Second,
        "minute" | "minutes" | "min" | "mins" | "m" => Minute,
        "hour" | "hours" | "hr" | "hrs" | "h" => Hour,
        "day" | "days" | "d" => Day,
        "week" | "weeks" | "w" => Week,
        "month" | "months" | "mon" | "mons" => Month,
        "quarter" | "qtr" => Quarter,
        "year" | "years" | "yr" | "yrs" | "y" => Year,
        "decade" | "decades" | "dec" | "decs" => Decade,
        "century" | "centuries" | "cent" | "c" => Century,
        "millennium" | "millennia" | "mil" | "mils" => Millennium,
        "epoch" => Epoch,
        "dow" => DayOfWeek,
        "isodow" => IsoDayOfWeek,
        "doy" => DayOfYear,
        "isoyear" => IsoYear,
        "julian" | "j" | "jd" => Julian,
        "timezone" => Timezone,
        "timezone_hour" | "timezone_h" => TimezoneHour,
        "timezone_minute" | "timezone_m" => TimezoneMinute,
        _ => return None,
    })
}

/// The zone of a name; 22023 if there is none.
pub fn zone_of(name: &str) -> Result<Zone, SqlError> {
    // A bare number is POSIX's here, which counts westwards.
    let bare = name
        .trim()
        .strip_prefix(['+', '-'])
        .is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
    let known = match bare {
        true => Zone::parse(name.trim()),
        false => zone::canonical(name).and_then(|name| Zone::parse(&name)),
    };
    known.ok_or_else(|| invalid(format!("time zone \"{name}\" not recognized")))
}

fn type_name(cell: &Cell<'_>) -> &'static str {
    match cell {
        Cell::Date(_) => "date",
        Cell::Time(_) => "time without time zone",
        Cell::Timestamp(_) => "timestamp without time zone",
        Cell::Interval(..) => "interval",
        _ => "timestamp with time zone",
    }
}

fn unknown(name: &str, cell: &Cell<'_>) -> SqlError {
    invalid(format!("unit \"{name}\" not recognized for type {}", type_name(cell)))
}

fn unsupported(name: &str, cell: &Cell<'_>) -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("unit \"{name}\" not supported for type {}", type_name(cell)),
    )
}

/// Digits after the point of a field.
fn scale(given: &Given<'_>) -> Option<i8> {
    let is_date =
        given.fields.get(1).is_some_and(|f| f.data_type() == &arrow::datatypes::DataType::Date32);
    Some(match given.text(0).map(field_of) {
        Some(Some(Field::Second)) => 6,
        Some(Some(Field::Epoch)) if !is_date => 6,
        Some(Some(Field::Millisecond)) => 3,
        Some(Some(Field::Julian)) if !is_date => 16,
        Some(_) => 0,
        None => 6,
    })
}

fn extract(cells: Cells<'_>) -> Answer {
    match value(cells)? {
        Found::Value(value, scale) => Ok(Out::Numeric(value, scale)),
        Found::Nothing => Ok(Out::Null),
        Found::Infinite(_) => Err(SqlError::unsupported("infinity as a value of type numeric")),
    }
}

fn date_part(cells: Cells<'_>) -> Answer {
    // Of a date it is that of its midnight, infinities apart.
    let midnight = match cells[1] {
        Cell::Date(days) if !matches!(days, DATE_INFINITY | DATE_MINUS_INFINITY) => {
            Cell::Timestamp(i64::from(days).saturating_mul(DAY_US))
        }
        ref other => other.clone(),
    };
    Ok(match value(&[cells[0].clone(), midnight])? {
        Found::Value(value, scale) => Out::Float(value as f64 / 10f64.powi(scale.into())),
        Found::Nothing => Out::Null,
        Found::Infinite(positive) if positive => Out::Float(f64::INFINITY),
        Found::Infinite(_) => Out::Float(f64::NEG_INFINITY),
    })
}

enum Found {
    /// Unscaled, digits after the point.
    Value(i128, i8),
    /// Infinity has none of those that repeat themselves.
    Nothing,
    Infinite(bool),
}

fn value(cells: Cells<'_>) -> Result<Found, SqlError> {
    let (name, cell) = (text(cells, 0), &cells[1]);
    let field = field_of(name).ok_or_else(|| unknown(name, cell))?;
    let infinite = |positive: bool| match field {
        Field::Year
        | Field::Decade
        | Field::Century
        | Field::Millennium
        | Field::Julian
        | Field::IsoYear
        | Field::Epoch => Found::Infinite(positive),
        _ => Found::Nothing,
    };
    let found = match *cell {
        Cell::Date(DATE_INFINITY) | Cell::Timestamp(INFINITY) | Cell::TimestampTz(INFINITY) => {
            return Ok(infinite(true));
        }
        Cell::Date(DATE_MINUS_INFINITY)
        | Cell::Timestamp(MINUS_INFINITY)
        | Cell::TimestampTz(MINUS_INFINITY) => return Ok(infinite(false)),
        Cell::Date(days) => of_date(field, i64::from(days)),
        Cell::Time(us) => of_time(field, us),
        Cell::Timestamp(us) => of_timestamp(field, us),
        Cell::TimestampTz(us) => of_instant(field, us),
        Cell::Interval(months, days, us) => of_interval(field, months.into(), days.into(), us),
        _ => None,
    };
    let (value, scale) = found.ok_or_else(|| unsupported(name, cell))?;
    Ok(Found::Value(value, scale))
}

fn whole(value: i64) -> Option<(i128, i8)> {
    Some((value.into(), 0))
}

/// 0 is Sunday.
fn day_of_week(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// The year and number of an ISO week.
pub fn iso_week(days: i64) -> (i64, i64) {
    // A week is of the year of its Thursday.
    let thursday = days - (day_of_week(days) + 6) % 7 + 3;
    let (year, _, _) = civil_from_days(thursday);
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

/// The year as it is counted: there is none between 1 BC and 1 AD.
fn counted(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

fn period(year: i64, length: i64) -> i64 {
    match year {
        year if year > 0 => (year + length - 1) / length,
        year => -((length - 1 - (year - 1)) / length),
    }
}

fn of_date(field: Field, days: i64) -> Option<(i128, i8)> {
    use Field::*;
    let (year, month, day) = civil_from_days(days);
    whole(match field {
        Day => day,
        Month => month,
        Year => counted(year),
        Quarter => (month - 1) / 3 + 1,
        Week => iso_week(days).1,
        IsoYear => counted(iso_week(days).0),
        DayOfWeek => day_of_week(days),
        IsoDayOfWeek => (day_of_week(days) + 6) % 7 + 1,
        DayOfYear => days - days_from_civil(year, 1, 1) + 1,
        Decade => year.div_euclid(10),
        Century => period(year, 100),
        Millennium => period(year, 1000),
        Julian => days + EPOCH_JULIAN,
        Epoch => days * (DAY_US / SECOND_US),
        _ => return None,
    })
}

fn of_time(field: Field, us: i64) -> Option<(i128, i8)> {
    let of_minute = us % MINUTE_US;
    match field {
        Field::Microsecond => whole(of_minute),
        Field::Millisecond => Some((of_minute.into(), 3)),
        Field::Second => Some((of_minute.into(), 6)),
        Field::Minute => whole(us % HOUR_US / MINUTE_US),
        Field::Hour => whole(us / HOUR_US),
        Field::Epoch => Some((us.into(), 6)),
        _ => None,
    }
}

fn of_timestamp(field: Field, us: i64) -> Option<(i128, i8)> {
    let (days, clock) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
    match field {
        Field::Epoch => Some((us.into(), 6)),
        Field::Julian => {
            let day = i128::from(days + EPOCH_JULIAN) * 10i128.pow(16);
            Some((day + i128::from(clock) * 10i128.pow(16) / i128::from(DAY_US), 16))
        }
        field if field < Field::Day => of_time(field, clock),
        field => of_date(field, days),
    }
}

fn of_instant(field: Field, us: i64) -> Option<(i128, i8)> {
    let zone = Zone::current();
    let offset = i64::from(zone.offset_s(us));
    match field {
        Field::Epoch => Some((us.into(), 6)),
        Field::Timezone => whole(offset),
        Field::TimezoneHour => whole(offset / 3600),
        Field::TimezoneMinute => whole(offset % 3600 / 60),
        field => of_timestamp(field, zone.to_local(us)),
    }
}

fn of_interval(field: Field, months: i64, days: i64, us: i64) -> Option<(i128, i8)> {
    use Field::*;
    let years = months / 12;
    match field {
        Day => whole(days),
        Month => whole(months % 12),
        Quarter => whole(months % 12 / 3 + 1),
        Year => whole(years),
        Decade => whole(years / 10),
        Century => whole(years / 100),
        Millennium => whole(years / 1000),
        Epoch => {
            let of_years = i128::from(years) * i128::from(YEAR_DAYS_4 * (DAY_US / 4));
            let rest = i128::from(months % 12 * 30 + days) * i128::from(DAY_US);
            Some((of_years + rest + i128::from(us), 6))
        }
        Microsecond | Millisecond | Second | Minute | Hour => of_time(field, us),
        _ => None,
    }
}

/// The beginning of the field's period that a local time is in.
fn begin(field: Field, us: i64) -> Option<i64> {
    let unit = match field {
        Field::Microsecond => 1,
        Field::Millisecond => 1_000,
        Field::Second => SECOND_US,
        Field::Minute => MINUTE_US,
        Field::Hour => HOUR_US,
        Field::Day => DAY_US,
        field => {
            let days = us.div_euclid(DAY_US);
            return Some(first_day(field, days)?.saturating_mul(DAY_US));
        }
    };
    Some(us - us.rem_euclid(unit))
}

fn first_day(field: Field, days: i64) -> Option<i64> {
    let (year, month, _) = civil_from_days(days);
    // Centuries and millennia begin with a year 1.
    let counted_from_1 = |length: i64| match year {
        year if year > 0 => (year - 1) / length * length + 1,
        year => -((length - 1 - (year - 1)) / length * length) + 1,
    };
    let (year, month) = match field {
        Field::Week => return Some(days - (day_of_week(days) + 6) % 7),
        Field::Month => (year, month),
        Field::Quarter => (year, (month - 1) / 3 * 3 + 1),
        Field::Year => (year, 1),
        Field::Decade => (year.div_euclid(10) * 10, 1),
        Field::Century => (counted_from_1(100), 1),
        Field::Millennium => (counted_from_1(1000), 1),
        _ => return None,
    };
    Some(days_from_civil(year, month, 1))
}

fn truncated(cells: Cells<'_>, zone: Zone) -> Answer {
    let (name, cell) = (text(cells, 0), &cells[1]);
    let (Cell::Timestamp(us) | Cell::TimestampTz(us)) = *cell else { return Ok(Out::Null) };
    let field = field_of(name).ok_or_else(|| unknown(name, cell))?;
    if matches!(us, INFINITY | MINUS_INFINITY) {
        return Ok(Out::Time(us));
    }
    let local = zone.to_local(us);
    let begin = begin(field, local).ok_or_else(|| unsupported(name, cell))?;
    // Within a day the clock is not put forward or back.
    let begin = if field < Field::Day { us - (local - begin) } else { zone.to_utc(begin) };
    Ok(Out::Time(begin))
}

fn truncated_interval(cells: Cells<'_>) -> Answer {
    let (name, cell) = (text(cells, 0), &cells[1]);
    let Cell::Interval(months, days, us) = *cell else { return Ok(Out::Null) };
    let field = field_of(name).ok_or_else(|| unknown(name, cell))?;
    let of_months = |unit: i32| Out::Interval(months - months % unit, 0, 0);
    let of_time = |unit: i64| Out::Interval(months, days, us - us % unit);
    Ok(match field {
        Field::Microsecond => Out::Interval(months, days, us),
        Field::Millisecond => of_time(1_000),
        Field::Second => of_time(SECOND_US),
        Field::Minute => of_time(MINUTE_US),
        Field::Hour => of_time(HOUR_US),
        Field::Day => Out::Interval(months, days, 0),
        Field::Month => of_months(1),
        Field::Quarter => of_months(3),
        Field::Year => of_months(12),
        Field::Decade => of_months(120),
        Field::Century => of_months(1_200),
        Field::Millennium => of_months(12_000),
        _ => return Err(unsupported(name, cell)),
    })
}
