//! Intervals as PostgreSQL reads them.
//!
//! ```text
//!   1 year 2 mons -3 days 04:05:06.7 ago      numbers with units, a clock, the other way round
//!   1-2 3 4:05                                SQL's year-month, days, clock
//!   P1Y2M3DT4H5M6.7S   P1-2-3T4:5:6           ISO 8601, with designators and without (P00010203T040506)
//! ```
//! A fraction of a unit goes on in smaller ones: of a year in months, of a month in days of 30 to the
//! month, of a day in time. A number without a unit is of the smallest unit of the type's fields
//! (`interval '1' day`), else seconds; before a clock it is days.

use froglet_engine::{Interval, SqlState};

use super::datetime::DAY_US;
use super::interval::{Fields, out_of_range};
use super::style::IntervalStyle;
use super::zone::Zone;
use crate::error::SqlError;

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;

enum Fault {
    Syntax,
    Field,
}

type Read<T> = Result<T, Fault>;

/// Reads an interval of a type with these fields.
pub fn parse(text: &str, fields: Fields) -> Result<Interval, SqlError> {
    read(text, fields).map_err(|fault| match fault {
        Fault::Syntax => SqlError::new(
            SqlState::new("22007"),
            format!("invalid input syntax for type interval: \"{text}\""),
        ),
        Fault::Field => SqlError::new(
            SqlState::new("22015"),
            format!("interval field value out of range: \"{text}\""),
        ),
    })
}

fn read(text: &str, fields: Fields) -> Read<Interval> {
    let lower = text.trim().to_ascii_lowercase();
    let mut sum = Sum::default();
    match lower.strip_prefix('p') {
        Some(rest) => iso(rest, &mut sum)?,
        None => traditional(&lower, fields, &mut sum)?,
    }
    if Zone::current().style().intervals == IntervalStyle::SqlStandard && is_signed_once(&lower) {
        // SQL's sign is that of all that follows.
        let negative = |part: i64| -part.saturating_abs();
        (sum.months, sum.days) = (negative(sum.months), negative(sum.days));
        sum.us = negative(sum.us);
    }
    sum.finish()
}

/// Whether a text begins with a minus, and no other part of it has a sign.
fn is_signed_once(text: &str) -> bool {
    let mut parts = text.split_ascii_whitespace();
    parts.next().is_some_and(|first| first.starts_with('-'))
        && !parts.any(|part| part.starts_with(['-', '+']))
}

/// A unit, as how many of months, days or microseconds it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

impl Unit {
    fn named(word: &str) -> Option<Unit> {
        Some(match word {
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" | "microsecond"
            | "microseconds" => Unit::Microsecond,
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" | "millisecond"
            | "milliseconds" => Unit::Millisecond,
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
            "d" | "day" | "days" => Unit::Day,
            "w" | "week" | "weeks" => Unit::Week,
            "mon" | "mons" | "month" | "months" => Unit::Month,
            "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
            "dec" | "decs" | "decade" | "decades" => Unit::Decade,
            "c" | "cent" | "century" | "centuries" => Unit::Century,
            "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
            _ => return None,
        })
    }
}

/// What has been read so far.
#[derive(Default)]
struct Sum {
    months: i64,
    days: i64,
    us: i64,
    seen: u16,
}

impl Sum {
    fn once(&mut self, unit: Unit) -> Read<()> {
        let bit = 1 << unit as u16;
        if self.seen & bit != 0 {
            return Err(Fault::Syntax);
        }
        self.seen |= bit;
        Ok(())
    }

    fn add(&mut self, number: Number, unit: Unit) -> Read<()> {
        self.once(unit)?;
        match unit {
            Unit::Microsecond => self.time(number, 1),
            Unit::Millisecond => self.time(number, 1_000),
            Unit::Second => self.time(number, SECOND_US),
            Unit::Minute => self.time(number, MINUTE_US),
            Unit::Hour => self.time(number, HOUR_US),
            Unit::Day => self.days(number, 1),
            Unit::Week => self.days(number, 7),
            Unit::Month => {
                add(&mut self.months, number.whole, 1)?;
                self.days(Number::of(number.fraction * 30.0), 1)
            }
            Unit::Year => self.years(number, 1),
            Unit::Decade => self.years(number, 10),
            Unit::Century => self.years(number, 100),
            Unit::Millennium => self.years(number, 1_000),
        }
    }

    fn years(&mut self, number: Number, years: i64) -> Read<()> {
        add(&mut self.months, number.whole, years * 12)?;
        let months = (number.fraction * years as f64 * 12.0).round_ties_even();
        add(&mut self.months, months as i64, 1)
    }

    fn days(&mut self, number: Number, days: i64) -> Read<()> {
        add(&mut self.days, number.whole, days)?;
        let fraction = number.fraction * days as f64;
        add(&mut self.days, fraction.trunc() as i64, 1)?;
        self.time(Number { whole: 0, fraction: fraction.fract() }, DAY_US)
    }

    fn time(&mut self, number: Number, unit_us: i64) -> Read<()> {
        add(&mut self.us, number.whole, unit_us)?;
        add(&mut self.us, (number.fraction * unit_us as f64).round() as i64, 1)
    }

    fn finish(self) -> Read<Interval> {
        let narrow = |n: i64| i32::try_from(n).map_err(|_| Fault::Field);
        if self.us.unsigned_abs() > Interval::MAX_US.unsigned_abs() {
            return Err(Fault::Field);
        }
        Ok(Interval { months: narrow(self.months)?, days: narrow(self.days)?, us: self.us })
    }
}

fn add(sum: &mut i64, number: i64, factor: i64) -> Read<()> {
    let more = number.checked_mul(factor).and_then(|more| sum.checked_add(more));
    *sum = more.ok_or(Fault::Field)?;
    Ok(())
}

/// A number and its fraction, both of its sign.
#[derive(Clone, Copy)]
struct Number {
    whole: i64,
    fraction: f64,
}

impl Number {
    fn of(value: f64) -> Number {
        Number { whole: value.trunc() as i64, fraction: value.fract() }
    }

    /// `[+-]1`, `1.`, `.5`, `-1.5`
    fn read(text: &str) -> Read<Number> {
        let (sign, body) = signed(text);
        let (whole, fraction) = body.split_once('.').unwrap_or((body, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(Fault::Syntax);
        }
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) {
            return Err(Fault::Syntax);
        }
        let whole = match whole {
            "" => 0,
            digits => format!("{sign}{digits}").parse().map_err(|_| Fault::Field)?,
        };
        let fraction = match fraction {
            "" => 0.0,
            digits => format!("{sign}0.{digits}").parse().map_err(|_| Fault::Syntax)?,
        };
        Ok(Number { whole, fraction })
    }
}

/// The sign and what follows it.
fn signed(text: &str) -> (&'static str, &str) {
    match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    }
}

#[derive(Clone, Copy)]
enum Token<'a> {
    Number(&'a str),
    Clock(&'a str),
    YearMonth(&'a str),
    Word(&'a str),
}

fn tokens(lower: &str) -> Read<Vec<Token<'_>>> {
    let mut found = Vec::new();
    let mut rest = lower.trim_start_matches(['@', ' ']);
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_whitespace() {
            rest = rest.trim_start();
            continue;
        }
        let word = first.is_ascii_alphabetic();
        let body = usize::from(matches!(first, '+' | '-'));
        let part = |c: char| match word {
            true => c.is_ascii_alphabetic(),
            false => c.is_ascii_digit() || matches!(c, '.' | ':' | '-'),
        };
        let end = rest[body..].find(|c| !part(c)).map_or(rest.len(), |at| at + body);
        let token = &rest[..end];
        if end == body {
            return Err(Fault::Syntax);
        }
        found.push(match word {
            true => Token::Word(token),
            false if token.contains(':') => Token::Clock(token),
            false if token[body..].contains('-') => Token::YearMonth(token),
            false => Token::Number(token),
        });
        rest = &rest[end..];
    }
    Ok(found)
}

fn traditional(lower: &str, fields: Fields, sum: &mut Sum) -> Read<()> {
    let mut tokens = tokens(lower)?;
    let mut ago = false;
    if let Some(Token::Word("ago")) = tokens.last() {
        ago = true;
        tokens.pop();
    }
    if tokens.is_empty() {
        return Err(Fault::Syntax);
    }
    let mut at = 0;
    while at < tokens.len() {
        let next = tokens.get(at + 1);
        match tokens[at] {
            Token::Number(number) => {
                let number = Number::read(number)?;
                let unit = match next {
                    Some(Token::Word(word)) => {
                        at += 1;
                        Unit::named(word).ok_or(Fault::Syntax)?
                    }
                    Some(Token::Clock(_)) => Unit::Day,
                    Some(_) => return Err(Fault::Syntax),
                    None => default_unit(fields),
                };
                sum.add(number, unit)?;
            }
            Token::Clock(clock) => {
                for unit in [Unit::Hour, Unit::Minute, Unit::Second] {
                    sum.once(unit)?;
                }
                let us = clock_us(clock, fields)?;
                add(&mut sum.us, us, 1)?;
            }
            Token::YearMonth(text) => {
                for unit in [Unit::Year, Unit::Month] {
                    sum.once(unit)?;
                }
                add(&mut sum.months, year_month(text)?, 1)?;
            }
            Token::Word(_) => return Err(Fault::Syntax),
        }
        at += 1;
    }
    if ago {
        (sum.months, sum.days, sum.us) = (-sum.months, -sum.days, -sum.us);
    }
    Ok(())
}

fn default_unit(fields: Fields) -> Unit {
    match fields.smallest() {
        Some(Fields::YEAR) => Unit::Year,
        Some(Fields::MONTH) => Unit::Month,
        Some(Fields::DAY) => Unit::Day,
        Some(Fields::HOUR) => Unit::Hour,
        Some(Fields::MINUTE) => Unit::Minute,
        _ => Unit::Second,
    }
}

/// Months of `[-]y-m`.
fn year_month(text: &str) -> Read<i64> {
    let (sign, body) = signed(text);
    let (years, months) = body.split_once('-').ok_or(Fault::Syntax)?;
    let (years, months) = (whole(years)?, whole(months)?);
    if months >= 12 {
        return Err(Fault::Field);
    }
    let total = years.checked_mul(12).and_then(|m| m.checked_add(months)).ok_or(Fault::Field)?;
    Ok(if sign == "-" { -total } else { total })
}

fn whole(text: &str) -> Read<i64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    text.parse().map_err(|_| Fault::Field)
}

/// `[+-]h:m[:s[.f]]`; of fields minute to second `m:s`.
fn clock_us(text: &str, fields: Fields) -> Read<i64> {
    let (sign, body) = signed(text);
    let parts: Vec<&str> = body.split(':').collect();
    let minutes_first = fields == Fields::MINUTE_TO_SECOND;
    let (hours, minutes, seconds) = match parts[..] {
        [minutes, seconds] if minutes_first || seconds.contains('.') => ("0", minutes, seconds),
        [hours, minutes] => (hours, minutes, "0"),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return Err(Fault::Syntax),
    };
    let seconds = Number::read(seconds)?;
    let (hours, minutes) = (whole(hours)?, whole(minutes)?);
    if minutes > 59 || seconds.whole > 60 || seconds.whole < 0 {
        return Err(Fault::Field);
    }
    let mut us = 0;
    add(&mut us, hours, HOUR_US)?;
    add(&mut us, minutes, MINUTE_US)?;
    add(&mut us, seconds.whole, SECOND_US)?;
    add(&mut us, (seconds.fraction * SECOND_US as f64).round() as i64, 1)?;
    Ok(if sign == "-" { -us } else { us })
}

/// ISO 8601 after its P, in lower case.
fn iso(text: &str, sum: &mut Sum) -> Read<()> {
    if text.is_empty() {
        return Err(Fault::Syntax);
    }
    let (date, time) = match text.split_once('t') {
        Some((_, "")) => return Err(Fault::Syntax),
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let designated = |part: &str| part.ends_with(|c: char| c.is_ascii_alphabetic());
    if designated(date) || date.is_empty() {
        iso_units(date, false, sum)?;
    } else if let Some((years, (months, days))) = digits(date, 8) {
        for (part, unit) in [(years, Unit::Year), (months, Unit::Month), (days, Unit::Day)] {
            sum.add(Number::read(part)?, unit)?;
        }
    } else {
        let (sign, body) = signed(date);
        let parts: Vec<&str> = body.split('-').collect();
        let units = [Unit::Year, Unit::Month, Unit::Day];
        if parts.len() > 3 {
            return Err(Fault::Syntax);
        }
        for (part, unit) in parts.into_iter().zip(units) {
            sum.add(Number::read(&format!("{sign}{part}"))?, unit)?;
        }
    }
    match time {
        None => Ok(()),
        Some(time) if designated(time) => iso_units(time, true, sum),
        Some(time) if let Some((hours, (minutes, seconds))) = digits(time, 6) => {
            let parts = [(hours, Unit::Hour), (minutes, Unit::Minute), (seconds, Unit::Second)];
            parts.into_iter().try_for_each(|(part, unit)| sum.add(Number::read(part)?, unit))
        }
        Some(time) => {
            let (sign, body) = signed(time);
            let parts: Vec<&str> = body.split(':').collect();
            if parts.len() > 3 {
                return Err(Fault::Syntax);
            }
            for (part, unit) in parts.into_iter().zip([Unit::Hour, Unit::Minute, Unit::Second]) {
                sum.add(Number::read(&format!("{sign}{part}"))?, unit)?;
            }
            Ok(())
        }
    }
}

/// A run of so many digits as its first, its middle two and its last two.
fn digits(part: &str, length: usize) -> Option<(&str, (&str, &str))> {
    let is_run = part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
    let (first, rest) = part.split_at_checked(length - 4).filter(|_| is_run)?;
    Some((first, rest.split_at_checked(2)?))
}

/// `1y2m`, or behind the T `3h4m5.6s`.
fn iso_units(text: &str, time: bool, sum: &mut Sum) -> Read<()> {
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or(Fault::Syntax)?;
        let unit = match (time, rest.as_bytes()[end]) {
            (false, b'y') => Unit::Year,
            (false, b'm') => Unit::Month,
            (false, b'w') => Unit::Week,
            (false, b'd') => Unit::Day,
            (true, b'h') => Unit::Hour,
            (true, b'm') => Unit::Minute,
            (true, b's') => Unit::Second,
            _ => return Err(Fault::Syntax),
        };
        sum.add(Number::read(&rest[..end])?, unit)?;
        rest = &rest[end + 1..];
    }
    Ok(())
}

/// Months, days and microseconds, if they fit.
pub fn checked(months: i64, days: i64, us: i128) -> Result<Interval, SqlError> {
    let us = i64::try_from(us).ok().filter(|us| us.unsigned_abs() <= Interval::MAX_US as u64);
    match (i32::try_from(months), i32::try_from(days), us) {
        (Ok(months), Ok(days), Some(us)) => Ok(Interval { months, days, us }),
        _ => Err(out_of_range()),
    }
}
