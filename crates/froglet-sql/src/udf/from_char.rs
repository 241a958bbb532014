//! `to_date` and `to_timestamp`: texts read by a template.
//!
//! A field takes as many digits as it has, or all there are where no other digit field follows;
//! blanks in the text are skipped, and what is no field takes one character.

use froglet_engine::SqlState;

use super::fields::zone_of;
use super::overload::Overload;
use super::simple::{Out, text};
use super::template::{DAYS, Key, MONTHS, Part, ROMAN, parse};
use crate::error::SqlError;
use crate::types::Zone;
use crate::types::cell::Cell;
use crate::types::datetime::{DAY_US, civil_from_days, days_from_civil};
use crate::types::oids::*;

type Cells<'a> = &'a [Cell<'a>];

const EPOCH_JULIAN: i64 = 2_440_588;
const SECOND_US: i64 = 1_000_000;

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("to_date", &[TEXT, TEXT], DATE, |_, c| {
        let (days, _, _) = read(c)?;
        Ok(Out::Time(days))
    }),
    Overload::new("to_timestamp", &[TEXT, TEXT], TIMESTAMPTZ, |_, c| {
        let (days, us, offset) = read(c)?;
        let local = days.checked_mul(DAY_US).and_then(|day| day.checked_add(us));
        let local = local.ok_or_else(|| overflow(text(c, 0)))?;
        Ok(Out::Time(match offset {
            Some(offset) => local - offset * SECOND_US,
            None => Zone::current().to_utc(local),
        }))
    }),
];

#[derive(Default)]
struct Read {
    year: Option<i64>,
    before_christ: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    julian: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    weekday: Option<i64>,
    iso_day_of_year: Option<i64>,
    week: Option<i64>,
    week_of_month: Option<i64>,
    century: Option<i64>,
    /// The year was read by so many letters of the template.
    year_letters: usize,
    /// FF1 to FF6: so many digits of a second are kept.
    fraction_digits: Option<u32>,
    hour: i64,
    afternoon: Option<bool>,
    minute: i64,
    second: i64,
    us: i64,
    second_of_day: Option<i64>,
    zone_s: Option<i64>,
}

/// 22007
fn invalid(value: &str, field: &str) -> SqlError {
    SqlError::new(SqlState::new("22007"), format!("invalid value \"{value}\" for \"{field}\""))
}

/// 22008
fn overflow(source: &str) -> SqlError {
    SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("date/time field value out of range: \"{source}\""),
    )
}

/// Days, microseconds of the day, seconds east of UTC if the text says.
fn read(cells: Cells<'_>) -> Result<(i64, i64, Option<i64>), SqlError> {
    let source = text(cells, 0);
    let parts = parse(text(cells, 1));
    let mut rest = source;
    let mut read = Read::default();
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Text { text, quoted } => {
                for _ in text.chars() {
                    let mut chars = rest.chars();
                    match chars.next() {
                        // A separator stands for any separator, and for none.
                        Some(c) if *quoted || !c.is_ascii_alphanumeric() => rest = chars.as_str(),
                        _ => {}
                    }
                }
            }
            Part::Field { key, fill, ordinal, .. } => {
                let next = parts.get(at + 1);
                let is_fixed = matches!(next, Some(Part::Field { .. })) && *fill;
                rest = rest.trim_start();
                rest = read.take(*key, rest, is_fixed)?;
                if ordinal.is_some() {
                    rest = rest.get(2..).unwrap_or_default();
                }
            }
        }
    }
    read.finish(source)
}

/// Takes a number off the front: at most so many digits.
fn digits(rest: &str, most: usize, signed: bool) -> Option<(i64, &str)> {
    let sign = usize::from(signed && rest.starts_with(['-', '+']));
    let end = rest[sign..].bytes().take_while(u8::is_ascii_digit).take(most).count() + sign;
    rest[..end].parse().ok().map(|value| (value, &rest[end..]))
}

/// The name that a text begins with, by its whole length or by its first letters.
fn named<'t>(rest: &'t str, names: &[&str], letters: Option<usize>) -> Option<(i64, &'t str)> {
    names.iter().enumerate().rev().find_map(|(at, name)| {
        let name = &name[..letters.unwrap_or(name.len())];
        let (begin, after) = rest.split_at_checked(name.len())?;
        begin.eq_ignore_ascii_case(name).then_some((at as i64, after))
    })
}

impl Read {
    fn take<'t>(&mut self, key: Key, rest: &'t str, is_fixed: bool) -> Result<&'t str, SqlError> {
        let name = format!("{key:?}");
        let shown = || invalid(rest.split_whitespace().next().unwrap_or_default(), &name);
        let number =
            |most: usize| digits(rest, if is_fixed { most } else { 18 }, true).ok_or_else(shown);
        let (value, rest) = match key {
            Key::Meridiem { dots } | Key::Era { dots } => {
                let length = if dots { 4 } else { 2 };
                let word = rest.get(..length).ok_or_else(shown)?;
                match word.to_ascii_uppercase().replace('.', "").as_str() {
                    "AM" => self.afternoon = Some(false),
                    "PM" => self.afternoon = Some(true),
                    "BC" => self.before_christ = true,
                    "AD" => {}
                    _ => return Err(shown()),
                }
                return Ok(&rest[length..]);
            }
            Key::MonthName => named(rest, &MONTHS, None).ok_or_else(shown)?,
            Key::MonthShort => named(rest, &MONTHS, Some(3)).ok_or_else(shown)?,
            Key::MonthRoman => named(rest, &ROMAN, None).ok_or_else(shown)?,
            Key::DayName => named(rest, &DAYS, None).ok_or_else(shown)?,
            Key::DayShort => named(rest, &DAYS, Some(3)).ok_or_else(shown)?,
            Key::ZoneName => return self.take_zone(rest),
            Key::Millisecond => return self.take_fraction(rest, 3, shown),
            Key::Microsecond => return self.take_fraction(rest, 6, shown),
            Key::Fraction(kept) => {
                self.fraction_digits = Some(kept);
                // Where nothing of digits follows, all are read, and rounded in the end.
                let most = if is_fixed { kept } else { 18 };
                return self.take_fraction(rest, most, shown);
            }
            Key::Year(most) | Key::IsoYear(most) => number(most)?,
            Key::YearWithComma => {
                let (thousands, after) = digits(rest, 3, false).ok_or_else(shown)?;
                let (ones, after) =
                    after.strip_prefix(',').and_then(|t| digits(t, 3, false)).ok_or_else(shown)?;
                (thousands * 1000 + ones, after)
            }
            Key::DayOfYear | Key::IsoDayOfYear => number(3)?,
            Key::SecondOfDay => number(5)?,
            Key::Julian => digits(rest, 18, false).ok_or_else(shown)?,
            Key::Quarter | Key::DayOfWeek | Key::IsoDayOfWeek | Key::WeekOfMonth => number(1)?,
            _ => number(2)?,
        };
        // So that nothing that is computed of it overflows.
        if i32::try_from(value).is_err() {
            let message = format!("value for \"{name}\" in source string is out of range");
            return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
                .detail("Value must be in the range -2147483648 to 2147483647."));
        }
        self.put(key, value)?;
        Ok(rest)
    }

    fn put(&mut self, key: Key, value: i64) -> Result<(), SqlError> {
        match key {
            Key::Hour12 if !(1..=12).contains(&value) => {
                return Err(SqlError::new(
                    SqlState::new("22007"),
                    format!("hour \"{value}\" is invalid for the 12-hour clock"),
                )
                .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            Key::Hour12 => {
                self.hour = value;
                // Noon or midnight: without a word it is the morning's.
                self.afternoon.get_or_insert(false);
            }
            Key::Hour24 => self.hour = value,
            Key::Minute => self.minute = value,
            Key::Second => self.second = value,
            Key::SecondOfDay => self.second_of_day = Some(value),
            Key::YearWithComma => self.year = Some(value),
            Key::Year(digits) => {
                self.year_letters = digits;
                self.year = Some(nearest(value, digits));
            }
            Key::IsoYear(digits) => self.iso_year = Some(nearest(value, digits)),
            Key::MonthName | Key::MonthShort | Key::MonthRoman => self.month = Some(value + 1),
            Key::Month => self.month = Some(value),
            Key::Day => self.day = Some(value),
            Key::DayOfYear => self.day_of_year = Some(value),
            Key::IsoWeek => self.iso_week = Some(value),
            Key::IsoDayOfYear => self.iso_day_of_year = Some(value),
            Key::Week => self.week = Some(value),
            Key::WeekOfMonth => self.week_of_month = Some(value),
            Key::Century => self.century = Some(value),
            Key::IsoDayOfWeek => self.weekday = Some(value),
            Key::DayName | Key::DayShort => self.weekday = Some((value + 6) % 7 + 1),
            Key::Julian => self.julian = Some(value),
            Key::ZoneHour => self.zone_s = Some(value * 3600),
            Key::ZoneMinute => {
                let hours = self.zone_s.unwrap_or(0);
                let sign = if hours < 0 { -1 } else { 1 };
                self.zone_s = Some(hours + sign * value * 60);
            }
            // These say nothing that a date follows from.
            _ => {}
        }
        Ok(())
    }

    fn take_fraction<'t>(
        &mut self,
        rest: &'t str,
        most: u32,
        shown: impl Fn() -> SqlError,
    ) -> Result<&'t str, SqlError> {
        let (value, after) = digits(rest, most as usize, false).ok_or_else(shown)?;
        let read = (rest.len() - after.len()) as u32;
        if read > 6 && value >= SECOND_US {
            return Err(overflow(rest));
        }
        self.us += value * 10i64.pow(6 - read.min(6));
        Ok(after)
    }

    fn take_zone<'t>(&mut self, rest: &'t str) -> Result<&'t str, SqlError> {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let zone = zone_of(&rest[..end])?;
        self.zone_s = Some(i64::from(zone.offset_s(0)));
        Ok(&rest[end..])
    }

    fn finish(self, source: &str) -> Result<(i64, i64, Option<i64>), SqlError> {
        let hour = match self.afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let in_day = (0..24).contains(&hour) || (hour, self.minute, self.second) == (24, 0, 0);
        let known = in_day && (0..60).contains(&self.minute) && (0..60).contains(&self.second);
        if !known {
            return Err(overflow(source));
        }
        let seconds = self.second_of_day.unwrap_or((hour * 60 + self.minute) * 60 + self.second);
        let days = self.days(source)?;
        let us = match self.fraction_digits {
            Some(digits) => {
                let unit = 10_i64.pow(6_u32.saturating_sub(digits));
                (self.us + unit / 2) / unit * unit
            }
            None => self.us,
        };
        Ok((days, seconds * SECOND_US + us, self.zone_s))
    }

    /// The year, of which 0 is 1 BC; without one it is that.
    fn astronomers_year(&self) -> i64 {
        let sign = if self.before_christ { -1 } else { 1 };
        let of_era = |year: i64| if year < 0 { year + 1 } else { year };
        match (self.year, self.century.map(|century| century * sign)) {
            (Some(year), Some(century)) if self.year_letters <= 2 => match year % 100 {
                0 => century * 100 + i64::from(century < 0),
                year if century >= 0 => year + (century - 1) * 100,
                year => (century + 1) * 100 - year + 1,
            },
            (Some(year), _) => of_era(year * sign),
            (None, Some(century)) if century >= 0 => (century - 1) * 100 + 1,
            (None, Some(century)) => century * 100 + 1,
            (None, None) => 0,
        }
    }

    fn days(&self, source: &str) -> Result<i64, SqlError> {
        if let Some(julian) = self.julian {
            return Ok(julian - EPOCH_JULIAN);
        }
        if let Some(week) = self.iso_week {
            let year = self.iso_year.or(self.year).unwrap_or(1);
            let january_4 = days_from_civil(year, 1, 4);
            let monday = january_4 - (january_4 + 3).rem_euclid(7);
            return Ok(monday + (week - 1) * 7 + self.weekday.unwrap_or(1) - 1);
        }
        let year = self.astronomers_year();
        if !(-4_713..=5_874_897).contains(&year) {
            return Err(overflow(source));
        }
        if let Some(day) = self.iso_day_of_year {
            let year = self.iso_year.unwrap_or(year);
            let january_4 = days_from_civil(year, 1, 4);
            return Ok(january_4 - (january_4 + 3).rem_euclid(7) + day - 1);
        }
        let of_week = self.week.map(|week| (week - 1) * 7 + 1);
        if let (Some(day), None) = (of_week.or(self.day_of_year), self.month) {
            if self.year.is_none() && self.century.is_none() && !self.before_christ {
                let message = "cannot calculate day of year without year information";
                return Err(SqlError::new(SqlState::new("22007"), message));
            }
            return Ok(days_from_civil(year, 1, 1) + day - 1);
        }
        let of_month = self.week_of_month.map(|week| (week - 1) * 7 + 1);
        let (month, day) = (self.month.unwrap_or(1), of_month.or(self.day).unwrap_or(1));
        let days = days_from_civil(year, month.clamp(1, 12), day.clamp(1, 31));
        if civil_from_days(days) != (year, month, day) {
            return Err(overflow(source));
        }
        Ok(days)
    }
}

/// A year of fewer digits than four is the one nearest to 2020.
fn nearest(value: i64, digits: usize) -> i64 {
    match (digits, value) {
        (3, 100..=519) => value + 2000,
        (3, 520..=999) => value + 1000,
        (1, 0..=9) => value + 2020,
        (1..=3, 0..=69) => value + 2000,
        (1..=3, 70..=99) => value + 1900,
        _ => value,
    }
}
