//! Intervals: months, days and a time. What they print, which fields a type of theirs has, and
//! arithmetic.

use froglet_engine::{Interval, SqlState};

use super::Zone;
use super::datetime::{
    DAY_US, INFINITY, MINUS_INFINITY, civil_from_days, days_from_civil, days_in_month,
    write_fraction,
};
use super::interval_input::checked;
use super::style::IntervalStyle;
use crate::error::SqlError;

/// Which fields an interval type keeps (`interval day to second`): the bits of PostgreSQL's typmod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields(pub u16);

impl Fields {
    /// Every field.
    pub const ALL: Fields = Fields(0x7FFF);
    /// year
    pub const YEAR: Fields = Fields(1 << 2);
    /// month
    pub const MONTH: Fields = Fields(1 << 1);
    /// day
    pub const DAY: Fields = Fields(1 << 3);
    /// hour
    pub const HOUR: Fields = Fields(1 << 10);
    /// minute
    pub const MINUTE: Fields = Fields(1 << 11);
    /// second
    pub const SECOND: Fields = Fields(1 << 12);
    /// minute to second
    pub const MINUTE_TO_SECOND: Fields = Fields(Self::MINUTE.0 | Self::SECOND.0);
    /// From the largest to the smallest, with their names.
    const NAMES: [(Fields, &str); 6] = [
        (Fields::YEAR, "year"),
        (Fields::MONTH, "month"),
        (Fields::DAY, "day"),
        (Fields::HOUR, "hour"),
        (Fields::MINUTE, "minute"),
        (Fields::SECOND, "second"),
    ];

    /// Those of a type's modifier.
    pub fn of_modifier(modifier: i32) -> Fields {
        if modifier < 0 { Fields::ALL } else { Fields((modifier >> 16) as u16 & 0x7FFF) }
    }

    /// From one field to another, both named.
    pub fn between(from: &str, to: &str) -> Option<Fields> {
        let at = |name: &str| Fields::NAMES.iter().position(|(_, n)| *n == name);
        let (from, to) = (at(from)?, at(to)?);
        (from <= to).then(|| {
            Fields(Fields::NAMES[from..=to].iter().map(|(field, _)| field.0).fold(0, |a, b| a | b))
        })
    }

    /// The smallest of them; none of all.
    pub fn smallest(self) -> Option<Fields> {
        if self == Fields::ALL {
            return None;
        }
        Fields::NAMES.iter().rev().map(|(field, _)| *field).find(|f| self.0 & f.0 != 0)
    }

    /// As a type's modifier.
    pub fn modifier(self, precision: Option<u8>) -> i32 {
        match (self, precision) {
            (Fields::ALL, None) => -1,
            (fields, precision) => i32::from(fields.0) << 16 | precision.map_or(0xFFFF, i32::from),
        }
    }

    /// What follows `interval` in a type's name.
    pub fn suffix(modifier: i32) -> String {
        let fields = Fields::of_modifier(modifier);
        let mut named = Fields::NAMES.iter().filter(|(field, _)| fields.0 & field.0 != 0);
        let mut text = match (fields, named.next(), named.next_back()) {
            (Fields::ALL, ..) | (_, None, _) => String::new(),
            (_, Some((_, one)), None) => format!(" {one}"),
            (_, Some((_, first)), Some((_, last))) => format!(" {first} to {last}"),
        };
        if let Some(precision) = precision_of(modifier) {
            text.push_str(&format!("({precision})"));
        }
        text
    }
}

/// Digits of a second that an interval type keeps, if not all.
fn precision_of(modifier: i32) -> Option<i32> {
    (modifier >= 0).then_some(modifier & 0xFFFF).filter(|p| *p <= 6)
}

/// What a type of this modifier keeps of an interval.
pub fn fit(interval: Interval, modifier: i32) -> Interval {
    let Interval { months, us, .. } = interval;
    let cut = |unit: i64| us / unit * unit;
    let mut kept = match Fields::of_modifier(modifier).smallest() {
        Some(Fields::YEAR) => Interval { months: months / 12 * 12, days: 0, us: 0 },
        Some(Fields::MONTH) => Interval { months, days: 0, us: 0 },
        Some(Fields::DAY) => Interval { us: 0, ..interval },
        Some(Fields::HOUR) => Interval { us: cut(3_600_000_000), ..interval },
        Some(Fields::MINUTE) => Interval { us: cut(60_000_000), ..interval },
        _ => interval,
    };
    if let Some(precision) = precision_of(modifier) {
        kept.us = round_us(kept.us, precision);
    }
    kept
}

/// Microseconds rounded to so many digits of a second, half away from zero.
pub fn round_us(us: i64, precision: i32) -> i64 {
    let unit = match u32::try_from(6 - precision) {
        Ok(digits @ 1..) => 10_i64.pow(digits),
        _ => return us,
    };
    let half = if us < 0 { -unit / 2 } else { unit / 2 };
    us.saturating_add(half) / unit * unit
}

/// 22008
pub fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

/// a + b
pub fn add(a: Interval, b: Interval) -> Result<Interval, SqlError> {
    checked(
        i64::from(a.months) + i64::from(b.months),
        i64::from(a.days) + i64::from(b.days),
        i128::from(a.us) + i128::from(b.us),
    )
}

/// -a
pub fn negate(a: Interval) -> Result<Interval, SqlError> {
    checked(-i64::from(a.months), -i64::from(a.days), -i128::from(a.us))
}

/// Intervals times a number: what is left of months becomes days, of days time.
pub fn scale(a: Interval, by: impl Fn(f64) -> f64) -> Result<Interval, SqlError> {
    // As PostgreSQL, which rounds off what floats add to the sixth digit.
    let rounded = |v: f64| (v * 1e6).round_ties_even() / 1e6;
    let (months, days) = (by(f64::from(a.months)), by(f64::from(a.days)));
    if !months.is_finite() || !days.is_finite() {
        return Err(out_of_range());
    }
    let month_days = rounded((months - months.trunc()) * 30.0);
    let mut seconds = rounded((days - days.trunc() + month_days - month_days.trunc()) * 86_400.0);
    let mut whole_days = days.trunc() + month_days.trunc();
    if seconds.abs() >= 86_400.0 {
        whole_days += (seconds / 86_400.0).trunc();
        seconds -= (seconds / 86_400.0).trunc() * 86_400.0;
    }
    let us = (by(a.us as f64) + seconds * 1e6).round_ties_even();
    if !us.is_finite() {
        return Err(out_of_range());
    }
    checked(months.trunc() as i64, whole_days as i64, us as i128)
}

/// The time between two timestamps, in days and less.
pub fn between(from_us: i64, to_us: i64) -> Result<Interval, SqlError> {
    let infinite = |us| matches!(us, INFINITY | MINUS_INFINITY);
    if infinite(from_us) || infinite(to_us) {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "cannot subtract infinite timestamps",
        ));
    }
    let us = i128::from(to_us) - i128::from(from_us);
    let day = i128::from(DAY_US);
    checked(0, (us / day) as i64, us % day)
}

/// A timestamp and an interval: months first (the day stays in its month), then days, then time.
/// With a zone months and days are those of its calendar.
pub fn shift(us: i64, by: Interval, zone: Zone) -> Result<i64, SqlError> {
    if matches!(us, INFINITY | MINUS_INFINITY) {
        return Ok(us);
    }
    let out = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range");
    let mut at = us;
    if by.months != 0 || by.days != 0 {
        let local = zone.to_local(at);
        let (mut days, time) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
        if by.months != 0 {
            let (year, month, day) = civil_from_days(days);
            let months = year * 12 + month - 1 + i64::from(by.months);
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
            days = days_from_civil(year, month, day.min(days_in_month(year, month)));
        }
        let local = (days + i64::from(by.days)).checked_mul(DAY_US);
        at = zone.to_utc(local.and_then(|us| us.checked_add(time)).ok_or_else(out)?);
    }
    at.checked_add(by.us).filter(|us| !matches!(*us, INFINITY | MINUS_INFINITY)).ok_or_else(out)
}

/// A time of day and an interval, of which only the time counts; midnight is passed.
pub fn turn(us: i64, by: Interval) -> i64 {
    (us + by.us % DAY_US).rem_euclid(DAY_US)
}

/// Days out of 24 hours.
pub fn justify_hours(a: Interval) -> Result<Interval, SqlError> {
    let (mut days, mut us) = (i64::from(a.days) + a.us / DAY_US, a.us % DAY_US);
    if days > 0 && us < 0 {
        (days, us) = (days - 1, us + DAY_US);
    } else if days < 0 && us > 0 {
        (days, us) = (days + 1, us - DAY_US);
    }
    checked(a.months.into(), days, us.into())
}

/// Months out of 30 days.
pub fn justify_days(a: Interval) -> Result<Interval, SqlError> {
    let (mut months, mut days) = (i64::from(a.months) + i64::from(a.days / 30), a.days % 30);
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - 30);
    }
    checked(months, days.into(), a.us.into())
}

/// Both, and every part of one sign.
pub fn justify(a: Interval) -> Result<Interval, SqlError> {
    let (mut days, mut us) = (i64::from(a.days) + a.us / DAY_US, a.us % DAY_US);
    let mut months = i64::from(a.months) + days / 30;
    days %= 30;
    if months > 0 && (days < 0 || days == 0 && us < 0) {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && (days > 0 || days == 0 && us > 0) {
        (months, days) = (months + 1, days - 30);
    }
    if days > 0 && us < 0 {
        (days, us) = (days - 1, us + DAY_US);
    } else if days < 0 && us > 0 {
        (days, us) = (days + 1, us - DAY_US);
    }
    checked(months, days, us.into())
}

/// Appends an interval in the session's style.
pub fn write(months: i32, days: i32, us: i64, out: &mut Vec<u8>) {
    let write = match Zone::current().style().intervals {
        IntervalStyle::Postgres => write_postgres,
        IntervalStyle::PostgresVerbose => write_verbose,
        IntervalStyle::SqlStandard => write_sql,
        IntervalStyle::Iso8601 => write_iso,
    };
    write(months, days, us, out);
}

/// Hours, minutes, seconds and what is left of microseconds, all of the sign of the whole.
fn clock_of(us: i64) -> (i64, i64, i64, i64) {
    let seconds = us / 1_000_000;
    (seconds / 3600, seconds / 60 % 60, seconds % 60, us % 1_000_000)
}

/// The digits of seconds, without a sign.
fn seconds_text(second: i64, us: i64, two_digits: bool) -> String {
    let mut text = match two_digits {
        true => format!("{:02}", second.abs()),
        false => second.abs().to_string(),
    };
    let mut fraction = Vec::new();
    write_fraction(us.abs(), &mut fraction);
    text.push_str(&String::from_utf8_lossy(&fraction));
    text
}

/// `@ 1 year 2 mons -3 days 4 hours 5 mins 6.7 secs`, behind it `ago` where the first part is negative.
fn write_verbose(months: i32, days: i32, us: i64, out: &mut Vec<u8>) {
    let (hour, minute, second, fraction) = clock_of(us);
    let mut text = "@".to_owned();
    let mut ago = None;
    let units = [
        (i64::from(months / 12), "year"),
        (i64::from(months % 12), "mon"),
        (i64::from(days), "day"),
        (hour, "hour"),
        (minute, "min"),
    ];
    for (value, unit) in units.into_iter().filter(|(value, _)| *value != 0) {
        let value = if *ago.get_or_insert(value < 0) { -value } else { value };
        let plural = if value == 1 { "" } else { "s" };
        text.push_str(&format!(" {value} {unit}{plural}"));
    }
    if (second, fraction) != (0, 0) {
        let negative = second < 0 || fraction < 0;
        let sign = if *ago.get_or_insert(negative) == negative { "" } else { "-" };
        let plural = if second.abs() == 1 && fraction == 0 { "" } else { "s" };
        text.push_str(&format!(" {sign}{} sec{plural}", seconds_text(second, fraction, false)));
    }
    text.push_str(match ago {
        None => " 0",
        Some(true) => " ago",
        Some(false) => "",
    });
    out.extend_from_slice(text.as_bytes());
}

/// SQL's literals: years and months, or days and time; with all signs where it is both, or of both signs.
fn write_sql(months: i32, days: i32, us: i64, out: &mut Vec<u8>) {
    let negative = months < 0 || days < 0 || us < 0;
    let positive = months > 0 || days > 0 || us > 0;
    let of_both = months != 0 && (days != 0 || us != 0);
    let (hour, minute, second, fraction) = clock_of(us);
    let (hour, minute) = (hour.abs(), minute.abs());
    let (year, month) = ((months / 12).abs(), (months % 12).abs());
    let second = seconds_text(second, fraction, true);
    let sign = |is_negative: bool| if is_negative { '-' } else { '+' };
    let text = match (negative, positive) {
        (false, false) => "0".to_owned(),
        _ if negative && positive || of_both => format!(
            "{}{year}-{month} {}{} {}{hour}:{minute:02}:{second}",
            sign(months < 0),
            sign(days < 0),
            days.unsigned_abs(),
            sign(us < 0),
        ),
        _ => {
            let minus = if negative { "-" } else { "" };
            match (months, days) {
                (0, 0) => format!("{minus}{hour}:{minute:02}:{second}"),
                (0, _) => {
                    format!("{minus}{} {hour}:{minute:02}:{second}", days.unsigned_abs())
                }
                _ => format!("{minus}{year}-{month}"),
            }
        }
    };
    out.extend_from_slice(text.as_bytes());
}

/// `P1Y2M-3DT4H5M6.7S`
fn write_iso(months: i32, days: i32, us: i64, out: &mut Vec<u8>) {
    if (months, days, us) == (0, 0, 0) {
        return out.extend_from_slice(b"PT0S");
    }
    let (hour, minute, second, fraction) = clock_of(us);
    let part = |value: i64, unit: char| match value {
        0 => String::new(),
        value => format!("{value}{unit}"),
    };
    let mut text = "P".to_owned();
    text.push_str(&part((months / 12).into(), 'Y'));
    text.push_str(&part((months % 12).into(), 'M'));
    text.push_str(&part(days.into(), 'D'));
    if us != 0 {
        text.push('T');
        text.push_str(&part(hour, 'H'));
        text.push_str(&part(minute, 'M'));
    }
    if (second, fraction) != (0, 0) {
        let sign = if second < 0 || fraction < 0 { "-" } else { "" };
        text.push_str(&format!("{sign}{}S", seconds_text(second, fraction, false)));
    }
    out.extend_from_slice(text.as_bytes());
}

/// `1 year 2 mons -3 days +04:05:06.789`, as it is stored, too.
fn write_postgres(months: i32, days: i32, us: i64, out: &mut Vec<u8>) {
    let mut text = String::new();
    let mut negative_before = false;
    let mut part = |n: i64, unit: &str| {
        if n == 0 {
            return;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        let plus = if negative_before && n > 0 { "+" } else { "" };
        negative_before = n < 0;
        let plural = if n == 1 { "" } else { "s" };
        text.push_str(&format!("{plus}{n} {unit}{plural}"));
    };
    part(i64::from(months / 12), "year");
    part(i64::from(months % 12), "mon");
    part(i64::from(days), "day");
    let empty = text.is_empty();
    out.extend_from_slice(text.as_bytes());
    if us == 0 && !empty {
        return;
    }
    if !empty {
        out.push(b' ');
    }
    if us < 0 {
        out.push(b'-');
    } else if negative_before {
        out.push(b'+');
    }
    let seconds = us.unsigned_abs() / 1_000_000;
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    out.extend_from_slice(clock.as_bytes());
    write_fraction((us.unsigned_abs() % 1_000_000) as i64, out);
}
