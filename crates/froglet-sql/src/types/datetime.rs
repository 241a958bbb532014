//! Dates and timestamps: proleptic Gregorian days and microseconds since 1970-01-01.
//!
//! Input is [`date_input`]'s. Zones are offsets or names; without one a time is in the session's zone, which is
//! that of the output, too.

use froglet_engine::SqlState;

use super::date_input::{self, Fault, Parsed, parse};
use super::zone::{Zone, offset_text};
use crate::error::SqlError;

/// Microseconds of a day.
pub const DAY_US: i64 = 86_400_000_000;
/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL's binary formats begin.
pub const EPOCH_2000_DAYS: i32 = 10_957;
/// Microseconds from 1970-01-01 to 2000-01-01.
pub const EPOCH_2000_US: i64 = EPOCH_2000_DAYS as i64 * DAY_US;
/// The date 'infinity'.
pub const DATE_INFINITY: i32 = i32::MAX;
/// The date '-infinity'.
pub const DATE_MINUS_INFINITY: i32 = i32::MIN;
/// The timestamp 'infinity'.
pub const INFINITY: i64 = i64::MAX;
/// The timestamp '-infinity'.
pub const MINUS_INFINITY: i64 = i64::MIN;

/// 4713-01-01 BC, PostgreSQL's first date.
const FIRST_DAY: i64 = days_from_civil(-4712, 1, 1);
/// The last date of PostgreSQL's timestamps is in 294276; microseconds since 1970 end a little
/// before that, in 294247.
const LAST_TIMESTAMP_DAY: i64 = i64::MAX / DAY_US - 1;
/// 5874897-12-31
const LAST_DAY: i64 = days_from_civil(5_874_897, 12, 31);

/// Days since 1970-01-01 of a civil date (astronomical years: 0 is 1 BC).
pub const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y - era * 400;
    let shifted = (month + 9) % 12;
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The civil date of days since 1970-01-01.
pub const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z - era * 146_097;
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// How many days a month has.
pub fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Microseconds since 1970 now.
pub fn now_us() -> i64 {
    chrono::Utc::now().timestamp_micros()
}

/// Reads a date.
pub fn parse_date(text: &str) -> Result<i32, SqlError> {
    let days = match parse(text).map_err(|f| fault(f, "date", text))? {
        Parsed::Infinity => return Ok(DATE_INFINITY),
        Parsed::MinusInfinity => return Ok(DATE_MINUS_INFINITY),
        Parsed::At(days, _, _) => days,
    };
    if !(FIRST_DAY..=LAST_DAY).contains(&days) {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date out of range: \"{text}\""),
        ));
    }
    i32::try_from(days).map_err(|_| fault(Fault::Field, "date", text))
}

/// Reads a timestamp. A zone is ignored without time zone, as in PostgreSQL.
pub fn parse_timestamp(text: &str, with_zone: bool) -> Result<i64, SqlError> {
    let name = if with_zone { "timestamp with time zone" } else { "timestamp" };
    let (days, time, zone) = match parse(text).map_err(|f| fault(f, name, text))? {
        Parsed::Infinity => return Ok(INFINITY),
        Parsed::MinusInfinity => return Ok(MINUS_INFINITY),
        Parsed::At(days, time, zone) => (days, time, zone),
    };
    if !(FIRST_DAY..=LAST_TIMESTAMP_DAY).contains(&days) {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("timestamp out of range: \"{text}\""),
        ));
    }
    let local = days * DAY_US + time;
    Ok(match (with_zone, zone) {
        (false, _) => local,
        (true, Some(offset)) => local - offset * 1_000_000,
        (true, None) => Zone::current().to_utc(local),
    })
}

/// Reads a time of day, 24:00 among them. A date or a zone beside it says nothing.
pub fn parse_time(text: &str) -> Result<i64, SqlError> {
    parse_clock(text).map_err(|f| fault(f, "time", text))
}

fn parse_clock(text: &str) -> Result<i64, Fault> {
    let lower = text.trim().to_ascii_lowercase();
    match lower.as_str() {
        "now" => return Ok(Zone::current().to_local(now_us()).rem_euclid(DAY_US)),
        "allballs" => return Ok(0),
        // hhmm and hhmmss
        digits if matches!(digits.len(), 4 | 6) && digits.bytes().all(|b| b.is_ascii_digit()) => {
            let seconds = if digits.len() == 6 { &digits[4..] } else { "00" };
            let clock = format!("{}:{}:{seconds}", &digits[..2], &digits[2..4]);
            return date_input::parse_time(&clock);
        }
        _ => {}
    }
    date_input::parse_time(lower.strip_prefix('t').unwrap_or(&lower))
}

fn fault(fault: Fault, type_name: &str, text: &str) -> SqlError {
    match fault {
        Fault::Syntax => SqlError::new(
            SqlState::new("22007"),
            format!("invalid input syntax for type {type_name}: \"{text}\""),
        ),
        Fault::Zone => SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone in \"{text}\" not recognized"),
        )
        .hint("Write the offset from UTC, such as +02:00."),
        Fault::Field | Fault::MonthField => {
            let error = SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("date/time field value out of range: \"{text}\""),
            );
            match fault {
                Fault::MonthField => {
                    error.hint("Perhaps you need a different \"datestyle\" setting.")
                }
                _ => error,
            }
        }
    }
}

/// Appends a date.
pub fn write_date(days: i32, out: &mut Vec<u8>) {
    match days {
        DATE_INFINITY => out.extend_from_slice(b"infinity"),
        DATE_MINUS_INFINITY => out.extend_from_slice(b"-infinity"),
        _ => {
            let year = write_day(i64::from(days), out);
            write_era(year, out);
        }
    }
}

/// Appends a timestamp; `zone` is what follows the time (`+00`, or nothing).
pub fn write_timestamp(us: i64, zone: &str, out: &mut Vec<u8>) {
    match us {
        INFINITY => return out.extend_from_slice(b"infinity"),
        MINUS_INFINITY => return out.extend_from_slice(b"-infinity"),
        _ => {}
    }
    let year = write_day(us.div_euclid(DAY_US), out);
    out.push(b' ');
    write_clock(us.rem_euclid(DAY_US), out);
    out.extend_from_slice(zone.as_bytes());
    write_era(year, out);
}

/// Appends a timestamp with time zone, in the session's.
pub fn write_timestamptz(us: i64, out: &mut Vec<u8>) {
    let zone = Zone::current();
    match zone.is_utc() {
        true => write_timestamp(us, "+00", out),
        false => write_timestamp(zone.to_local(us), &offset_text(zone.offset_s(us)), out),
    }
}

fn write_day(days: i64, out: &mut Vec<u8>) -> i64 {
    let (year, month, day) = civil_from_days(days);
    let shown = if year <= 0 { 1 - year } else { year };
    if shown < 10_000 {
        let shown = shown as u16;
        push_two((shown / 100) as u8, out);
        push_two((shown % 100) as u8, out);
    } else {
        out.extend_from_slice(shown.to_string().as_bytes());
    }
    out.push(b'-');
    push_two(month as u8, out);
    out.push(b'-');
    push_two(day as u8, out);
    year
}

fn write_era(year: i64, out: &mut Vec<u8>) {
    if year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

/// Appends `hh:mm:ss[.ffffff]` of microseconds since midnight.
pub fn write_clock(us: i64, out: &mut Vec<u8>) {
    let seconds = us / 1_000_000;
    push_two((seconds / 3600) as u8, out);
    out.push(b':');
    push_two((seconds / 60 % 60) as u8, out);
    out.push(b':');
    push_two((seconds % 60) as u8, out);
    write_fraction(us % 1_000_000, out);
}

/// Appends `.ffffff` without trailing zeros, or nothing.
pub fn write_fraction(us: i64, out: &mut Vec<u8>) {
    if us != 0 {
        let digits = format!("{us:06}");
        out.push(b'.');
        out.extend_from_slice(digits.trim_end_matches('0').as_bytes());
    }
}

fn push_two(v: u8, out: &mut Vec<u8>) {
    out.push(b'0' + v / 10);
    out.push(b'0' + v % 10);
}
