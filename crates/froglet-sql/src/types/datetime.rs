//! Dates and timestamps: proleptic Gregorian days and microseconds since 1970-01-01.
//!
//! Input: ISO 8601 and PostgreSQL's usual forms (`2024-02-29 12:30:45.5+02`, `20240229T123045Z`,
//! `2/29/2024` as month/day/year, `Feb 29, 2024`, a trailing `BC`, `AM`/`PM`), and the words epoch, infinity, now,
//! today, tomorrow, yesterday. Zones are offsets or names; without one a time is in the
//! session's zone, which is that of the output, too.

use froglet_engine::SqlState;

use super::zone::{Zone, canonical, offset_text};
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Syntax,
    Field,
    MonthField,
    Zone,
}

/// A point in time as written.
#[derive(Clone, Copy)]
enum Parsed {
    Infinity,
    MinusInfinity,
    /// Days, microseconds of the day, seconds east of UTC if given.
    At(i64, i64, Option<i64>),
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
            return clock_us(&format!("{}:{}:{seconds}", &digits[..2], &digits[2..4]));
        }
        _ => {}
    }
    let mut fields = Fields::default();
    for token in tokens(lower.strip_prefix('t').unwrap_or(&lower)) {
        fields.take(token)?;
    }
    if fields.time_us.is_none() {
        return Err(Fault::Syntax);
    }
    fields.clock()
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

fn parse(text: &str) -> Result<Parsed, Fault> {
    let lower = text.trim().to_ascii_lowercase();
    let now = || Zone::current().to_local(now_us());
    let today = || now().div_euclid(DAY_US);
    match lower.as_str() {
        "epoch" => return Ok(Parsed::At(0, 0, Some(0))),
        "infinity" | "+infinity" => return Ok(Parsed::Infinity),
        "-infinity" => return Ok(Parsed::MinusInfinity),
        "now" => {
            let (offset, now) = (Zone::current().offset_s(now_us()).into(), now());
            return Ok(Parsed::At(now.div_euclid(DAY_US), now.rem_euclid(DAY_US), Some(offset)));
        }
        "today" => return Ok(Parsed::At(today(), 0, None)),
        "tomorrow" => return Ok(Parsed::At(today() + 1, 0, None)),
        "yesterday" => return Ok(Parsed::At(today() - 1, 0, None)),
        _ => {}
    }
    let mut fields = Fields::default();
    for token in tokens(&lower) {
        fields.take(token)?;
    }
    fields.finish()
}

/// Splits at blanks, commas, and the T between date and time.
fn tokens(lower: &str) -> impl Iterator<Item = &str> {
    let bytes = lower.as_bytes();
    let is_digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    lower
        .split(|c: char| c.is_ascii_whitespace() || c == ',')
        .flat_map(move |word| {
            let start = word.as_ptr() as usize - lower.as_ptr() as usize;
            let at = word
                .char_indices()
                .find(|(i, c)| {
                    *c == 't' && *i > 0 && is_digit(start + i - 1) && is_digit(start + i + 1)
                })
                .map(|(i, _)| i);
            match at {
                Some(i) => [&word[..i], &word[i + 1..]],
                None => [word, ""],
            }
        })
        .filter(|word| !word.is_empty())
}

#[derive(Default)]
struct Fields<'a> {
    date: Option<(i64, i64, i64)>,
    month: Option<i64>,
    numbers: Vec<&'a str>,
    time_us: Option<i64>,
    zone: Option<i64>,
    named: Option<Zone>,
    before_christ: bool,
    afternoon: Option<bool>,
}

impl<'a> Fields<'a> {
    fn take(&mut self, token: &'a str) -> Result<(), Fault> {
        match token {
            "bc" => self.before_christ = true,
            "ad" => {}
            "am" => self.afternoon = Some(false),
            "pm" => self.afternoon = Some(true),
            "z" | "utc" | "gmt" | "zulu" => self.zone = Some(0),
            "at" | "on" => {}
            _ if token.starts_with(['+', '-'])
                && (self.time_us.is_some() || self.date.is_some()) =>
            {
                self.zone = Some(offset(token)?);
            }
            _ if token.contains(':') => self.take_time(token)?,
            _ if token.bytes().all(|b| b.is_ascii_digit()) => self.take_number(token)?,
            _ if token.as_bytes()[0].is_ascii_digit() => self.take_date(token)?,
            _ => self.take_word(token)?,
        }
        Ok(())
    }

    fn take_word(&mut self, word: &str) -> Result<(), Fault> {
        const MONTHS: [&str; 12] = [
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ];
        const DAYS: [&str; 7] =
            ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
        let abbreviates = |full: &&str| word.len() >= 3 && full.starts_with(word);
        if let Some(month) = MONTHS.iter().position(&abbreviates) {
            return match self.month.replace(month as i64 + 1) {
                None => Ok(()),
                Some(_) => Err(Fault::Syntax),
            };
        }
        if DAYS.iter().any(abbreviates) {
            return Ok(());
        }
        let named = self.time_us.and_then(|_| Zone::parse(&canonical(word)?));
        if named.is_some() {
            self.named = named;
            return Ok(());
        }
        Err(if self.time_us.is_some() && word.contains('/') { Fault::Zone } else { Fault::Syntax })
    }

    fn take_number(&mut self, token: &'a str) -> Result<(), Fault> {
        if self.date.is_some() || self.month.is_some() || token.len() < 6 {
            // hhmmss after a date
            if self.date.is_some() && self.time_us.is_none() && token.len() == 6 {
                let clock = format!("{}:{}:{}", &token[..2], &token[2..4], &token[4..]);
                self.time_us = Some(clock_us(&clock)?);
                return Ok(());
            }
            self.numbers.push(token);
            return Ok(());
        }
        let split = token.len() - 4;
        let (year, rest) = token.split_at(split);
        if token.len() < 8 {
            return Err(Fault::Syntax);
        }
        self.set_date(number(year)?, number(&rest[..2])?, number(&rest[2..])?)
    }

    fn take_date(&mut self, token: &str) -> Result<(), Fault> {
        // 10:00 without blanks before a zone is a time; 2024-01-01+02 is a date and a zone.
        let separator = token.find(|c: char| !c.is_ascii_digit()).ok_or(Fault::Syntax)?;
        let sign = token.as_bytes()[separator];
        if !matches!(sign, b'-' | b'/' | b'.') {
            return Err(Fault::Syntax);
        }
        let (body, zone) = match token.find(['+', 'z']) {
            Some(at) => (&token[..at], Some(&token[at..])),
            None => (token, None),
        };
        if let Some(zone) = zone {
            self.zone = Some(if zone == "z" { 0 } else { offset(zone)? });
        }
        let parts: Vec<&str> = body.split(sign as char).collect();
        let [a, b, c] = parts[..] else { return Err(Fault::Syntax) };
        if b.bytes().next().is_some_and(|x| x.is_ascii_alphabetic()) {
            self.take_word(b)?;
            let month = self.month.take().ok_or(Fault::Syntax)?;
            return self.set_date(number(c)?, month, number(a)?);
        }
        let (a, b, c, a_length, c_length) = (number(a)?, number(b)?, number(c)?, a.len(), c.len());
        if a_length > 2 {
            self.set_date(a, b, c)
        } else {
            self.set_date(full_year(c, c_length), a, b)
        }
    }

    fn take_time(&mut self, token: &str) -> Result<(), Fault> {
        if self.time_us.is_some() {
            return Err(Fault::Syntax);
        }
        let end = token
            .find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.'))
            .unwrap_or(token.len());
        self.time_us = Some(clock_us(&token[..end])?);
        match &token[end..] {
            "" => {}
            "z" | "utc" | "gmt" => self.zone = Some(0),
            "am" => self.afternoon = Some(false),
            "pm" => self.afternoon = Some(true),
            zone if zone.starts_with(['+', '-']) => self.zone = Some(offset(zone)?),
            _ => return Err(Fault::Syntax),
        }
        Ok(())
    }

    fn set_date(&mut self, year: i64, month: i64, day: i64) -> Result<(), Fault> {
        if self.date.replace((year, month, day)).is_some() {
            return Err(Fault::Syntax);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Parsed, Fault> {
        if let Some(month) = self.month {
            let [a, b] = self.numbers[..] else { return Err(Fault::Syntax) };
            let (day, year) = if a.len() > 2 { (b, a) } else { (a, b) };
            let year = full_year(number(year)?, year.len());
            self.set_date(year, month, number(day)?)?;
        } else if !self.numbers.is_empty() {
            return Err(Fault::Syntax);
        }
        let (mut year, month, day) = self.date.ok_or(Fault::Syntax)?;
        if year == 0 || year > 6_000_000 {
            return Err(Fault::Field);
        }
        if self.before_christ {
            year = 1 - year;
        }
        if !(1..=12).contains(&month) {
            return Err(Fault::MonthField);
        }
        if day < 1 || day > days_in_month(year, month) {
            return Err(Fault::Field);
        }
        let (days, time) = (days_from_civil(year, month, day), self.clock()?);
        if let (Some(zone), Some(local)) = (self.named, days.checked_mul(DAY_US)) {
            let local = local.saturating_add(time);
            self.zone = Some((local - zone.to_utc(local)) / 1_000_000);
        }
        Ok(Parsed::At(days, time, self.zone))
    }

    /// The time of the day.
    fn clock(&self) -> Result<i64, Fault> {
        const HALF: i64 = DAY_US / 2;
        const HOUR: i64 = DAY_US / 24;
        let time = self.time_us.unwrap_or(0);
        match self.afternoon {
            Some(_) if time >= HALF + HOUR => Err(Fault::Field),
            Some(false) if time >= HALF => Ok(time - HALF),
            Some(true) if time < HALF => Ok(time + HALF),
            _ => Ok(time),
        }
    }
}

fn full_year(year: i64, digits: usize) -> i64 {
    match (digits, year) {
        (0..=2, 0..=69) => year + 2000,
        (0..=2, _) => year + 1900,
        _ => year,
    }
}

fn number(text: &str) -> Result<i64, Fault> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    text.parse().map_err(|_| Fault::Field)
}

/// `hh:mm[:ss[.fraction]]`, rounded to microseconds.
fn clock_us(text: &str) -> Result<i64, Fault> {
    let mut parts = text.split(':');
    let hour = number(parts.next().unwrap_or(""))?;
    let minute = number(parts.next().unwrap_or(""))?;
    let seconds = parts.next().unwrap_or("0");
    if parts.next().is_some() {
        return Err(Fault::Syntax);
    }
    let (second, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let second = number(second)?;
    let mut us = 0i64;
    if !fraction.is_empty() {
        number(&fraction[..fraction.len().min(18)])?;
        let padded = format!("{fraction:0<7}");
        us = number(&padded[..6])?;
        us += i64::from(padded.as_bytes()[6] >= b'5');
    }
    if hour > 24 || minute > 59 || second > 60 || (hour == 24 && (minute, second, us) != (0, 0, 0))
    {
        return Err(Fault::Field);
    }
    Ok(((hour * 60 + minute) * 60 + second) * 1_000_000 + us)
}

/// Seconds east of UTC: `+hh`, `+hhmm`, `+hh:mm`, `+hh:mm:ss`.
fn offset(text: &str) -> Result<i64, Fault> {
    let (sign, body) = text.split_at(1);
    let parts: Vec<i64> = if body.contains(':') {
        body.split(':').map(number).collect::<Result<_, _>>()?
    } else if body.len() > 2 {
        let split = body.len() - 2;
        vec![number(&body[..split])?, number(&body[split..])?]
    } else {
        vec![number(body)?]
    };
    if parts.len() > 3 || parts[0] > 15 || parts[1..].iter().any(|p| *p > 59) {
        return Err(Fault::Field);
    }
    let seconds = parts.iter().zip([3600, 60, 1]).map(|(p, unit)| p * unit).sum::<i64>();
    Ok(if sign == "-" { -seconds } else { seconds })
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
    match Zone::current() {
        Zone::Utc => write_timestamp(us, "+00", out),
        zone => write_timestamp(zone.to_local(us), &offset_text(zone.offset_s(us)), out),
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
