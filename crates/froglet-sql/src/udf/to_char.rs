//! `to_char` of dates, times and intervals.

use froglet_engine::SqlState;

use super::fields::iso_week;
use super::overload::Overload;
use super::simple::{Out, text};
use super::template::{Case, DAYS, Key, MONTHS, Part, ROMAN, parse};
use crate::error::SqlError;
use crate::types::Zone;
use crate::types::cell::Cell;
use crate::types::datetime::{DAY_US, INFINITY, MINUS_INFINITY, civil_from_days, days_from_civil};
use crate::types::oids::*;

type Cells<'a> = &'a [Cell<'a>];

/// The Julian day of 1970-01-01.
const EPOCH_JULIAN: i64 = 2_440_588;
const SECOND_US: i64 = 1_000_000;

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("to_char", &[TIMESTAMP, TEXT], TEXT, |_, c| of_time(c)),
    Overload::new("to_char", &[TIMESTAMPTZ, TEXT], TEXT, |_, c| of_time(c)),
    Overload::new("to_char", &[INTERVAL, TEXT], TEXT, |_, c| of_time(c)),
];

/// A point in time, or an interval, in its parts.
struct Moment {
    year: i64,
    month: i64,
    day: i64,
    /// Days since 1970-01-01; `None` of an interval.
    days: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    us: i64,
    zone: Option<(Zone, i64)>,
}

impl Moment {
    fn at(local: i64, zone: Option<(Zone, i64)>) -> Moment {
        let days = local.div_euclid(DAY_US);
        let (year, month, day) = civil_from_days(days);
        let mut moment = Moment::clock(local.rem_euclid(DAY_US));
        (moment.year, moment.month, moment.day) = (year, month, day);
        (moment.days, moment.zone) = (Some(days), zone);
        moment
    }

    fn clock(us: i64) -> Moment {
        let seconds = us / SECOND_US;
        Moment {
            year: 0,
            month: 0,
            day: 0,
            days: None,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            us: us % SECOND_US,
            zone: None,
        }
    }
}

fn of_time(cells: Cells<'_>) -> Result<Out, SqlError> {
    let moment = match cells[0] {
        Cell::Timestamp(INFINITY | MINUS_INFINITY)
        | Cell::TimestampTz(INFINITY | MINUS_INFINITY) => {
            return Ok(Out::Null);
        }
        Cell::Timestamp(us) => Moment::at(us, None),
        Cell::TimestampTz(us) => {
            let zone = Zone::current();
            Moment::at(zone.to_local(us), Some((zone, us)))
        }
        Cell::Interval(months, days, us) => {
            let mut moment = Moment::clock(us);
            moment.year = i64::from(months / 12);
            moment.month = i64::from(months % 12);
            moment.day = i64::from(days);
            moment
        }
        _ => return Ok(Out::Null),
    };
    let mut out = String::new();
    for part in parse(text(cells, 1)) {
        match part {
            Part::Text { text, .. } => out.push_str(&text),
            Part::Field { key, case, fill, ordinal } => {
                let before = out.len();
                write(&moment, key, case, fill, &mut out)?;
                if let Some(ordinal) = ordinal {
                    let suffix = suffix(&out[before..]);
                    out.push_str(&in_case(suffix, ordinal));
                }
            }
        }
    }
    // PostgreSQL has no empty template's text.
    Ok(if text(cells, 1).is_empty() { Out::Null } else { Out::Text(out) })
}

/// The ending of an ordinal number.
pub fn suffix(number: &str) -> &'static str {
    let digits: Vec<u8> = number.bytes().filter(u8::is_ascii_digit).collect();
    let tens = digits.len().checked_sub(2).and_then(|at| digits.get(at));
    match (tens, digits.last()) {
        (Some(b'1'), _) => "th",
        (_, Some(b'1')) => "st",
        (_, Some(b'2')) => "nd",
        (_, Some(b'3')) => "rd",
        _ => "th",
    }
}

fn in_case(name: &str, case: Case) -> String {
    match case {
        Case::Upper => name.to_ascii_uppercase(),
        Case::Capital => name.to_owned(),
        Case::Lower => name.to_ascii_lowercase(),
    }
}

fn number(value: i64, width: usize, fill: bool, out: &mut String) {
    let sign = if value < 0 { "-" } else { "" };
    let digits = value.unsigned_abs();
    match fill {
        true => out.push_str(&format!("{sign}{digits:0width$}")),
        false => out.push_str(&format!("{sign}{digits}")),
    }
}

fn name(name: &str, width: usize, case: Case, fill: bool, out: &mut String) {
    let width = if fill { width } else { 0 };
    out.push_str(&format!("{:width$}", in_case(name, case)));
}

fn of_interval() -> SqlError {
    SqlError::new(SqlState::new("22007"), "invalid format specification for an interval value")
        .hint("Intervals are not tied to specific calendar dates.")
}

/// Years are counted without a year 0.
fn shown_year(moment: &Moment, year: i64) -> i64 {
    if moment.days.is_some() && year <= 0 { 1 - year } else { year }
}

fn write(
    moment: &Moment,
    key: Key,
    case: Case,
    fill: bool,
    out: &mut String,
) -> Result<(), SqlError> {
    match key {
        Key::Hour12 => {
            let hour = match moment.hour % 12 {
                0 => 12,
                hour => hour,
            };
            number(hour, 2, fill, out);
        }
        Key::Hour24 => number(moment.hour, 2, fill, out),
        Key::Minute => number(moment.minute, 2, fill, out),
        Key::Second => number(moment.second, 2, fill, out),
        Key::Millisecond => number(moment.us / 1_000, 3, true, out),
        Key::Microsecond => number(moment.us, 6, true, out),
        Key::Fraction(digits) => {
            number(moment.us / 10i64.pow(6 - digits), digits as usize, true, out);
        }
        Key::SecondOfDay => {
            let seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second;
            number(seconds, 1, fill, out);
        }
        Key::Meridiem { dots } => {
            let name = match (moment.hour % 24 >= 12, dots) {
                (true, true) => "P.M.",
                (true, false) => "PM",
                (false, true) => "A.M.",
                (false, false) => "AM",
            };
            out.push_str(&in_case(name, if case == Case::Lower { case } else { Case::Upper }));
        }
        Key::ZoneName | Key::ZoneHour | Key::ZoneMinute | Key::ZoneOffset => {
            zone(moment, key, case, out)?;
        }
        key => date(moment, key, case, fill, out)?,
    }
    Ok(())
}

fn zone(moment: &Moment, key: Key, case: Case, out: &mut String) -> Result<(), SqlError> {
    let Some((zone, us)) = moment.zone else {
        return match moment.days {
            None => Err(of_interval()),
            Some(_) if key == Key::ZoneName => Ok(()),
            Some(_) => {
                out.push_str(if key == Key::ZoneMinute { "00" } else { "+00" });
                Ok(())
            }
        };
    };
    let offset = zone.offset_s(us);
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 3600, offset.abs() % 3600 / 60);
    match key {
        Key::ZoneName if zone.is_utc() => out.push_str(&in_case("UTC", case)),
        Key::ZoneMinute => out.push_str(&format!("{minutes:02}")),
        Key::ZoneOffset if minutes != 0 => out.push_str(&format!("{sign}{hours:02}:{minutes:02}")),
        _ => out.push_str(&format!("{sign}{hours:02}")),
    }
    Ok(())
}

fn date(
    moment: &Moment,
    key: Key,
    case: Case,
    fill: bool,
    out: &mut String,
) -> Result<(), SqlError> {
    let year = shown_year(moment, moment.year);
    match key {
        Key::Year(4) => number(year, 4, fill, out),
        Key::Year(digits) => number(year % 10i64.pow(digits as u32), digits, fill, out),
        Key::YearWithComma => out.push_str(&format!("{},{:03}", year / 1000, year % 1000)),
        Key::Month => number(moment.month, 2, fill, out),
        Key::Day => number(moment.day, 2, fill, out),
        Key::MonthRoman if moment.month > 0 => {
            name(ROMAN[moment.month as usize - 1], 4, case, fill, out);
        }
        Key::MonthRoman => {}
        Key::Century => {
            let century = match moment.days {
                Some(_) if moment.year > 0 => (year - 1) / 100 + 1,
                Some(_) => -((year - 1) / 100 + 1),
                None => year / 100,
            };
            number(century, 2, fill, out);
        }
        Key::Quarter => {
            if moment.month > 0 {
                number((moment.month - 1) / 3 + 1, 1, fill, out);
            }
        }
        key => {
            let days = moment.days.ok_or_else(of_interval)?;
            of_day(moment, days, key, case, fill, out);
        }
    }
    Ok(())
}

/// What only a day of the calendar has.
fn of_day(moment: &Moment, days: i64, key: Key, case: Case, fill: bool, out: &mut String) {
    let weekday = (days + 4).rem_euclid(7);
    let of_year = days - days_from_civil(moment.year, 1, 1);
    let (iso_year, week) = iso_week(days);
    let month = MONTHS[moment.month.clamp(1, 12) as usize - 1];
    let day = DAYS[weekday as usize];
    match key {
        Key::MonthName => name(month, 9, case, fill, out),
        Key::MonthShort => name(&month[..3], 3, case, fill, out),
        Key::DayName => name(day, 9, case, fill, out),
        Key::DayShort => name(&day[..3], 3, case, fill, out),
        Key::DayOfYear => number(of_year + 1, 3, fill, out),
        Key::DayOfWeek => number(weekday + 1, 1, fill, out),
        Key::IsoDayOfWeek => number((weekday + 6) % 7 + 1, 1, fill, out),
        Key::IsoDayOfYear => number((week - 1) * 7 + (weekday + 6) % 7 + 1, 3, fill, out),
        Key::WeekOfMonth => number((moment.day - 1) / 7 + 1, 1, fill, out),
        Key::Week => number(of_year / 7 + 1, 2, fill, out),
        Key::IsoWeek => number(week, 2, fill, out),
        Key::IsoYear(digits) => {
            let year = shown_year(moment, iso_year);
            let shown = if digits == 4 { year } else { year % 10i64.pow(digits as u32) };
            number(shown, digits, fill, out);
        }
        Key::Julian => number(days + EPOCH_JULIAN, 1, fill, out),
        Key::Era { dots } => {
            let name = match (moment.year > 0, dots) {
                (true, false) => "AD",
                (true, true) => "A.D.",
                (false, false) => "BC",
                (false, true) => "B.C.",
            };
            out.push_str(&in_case(name, if case == Case::Lower { case } else { Case::Upper }));
        }
        _ => {}
    }
}
