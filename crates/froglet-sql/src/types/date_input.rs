//! Dates and timestamps as PostgreSQL reads them.
//!
//! ```text
//!   Jan 8, 99 BC 04:05:06.7 PM +02     99-Jan-08     1999.008     J2451187     990108T040506Z
//!
//!   text ─ split ─▶ fields: Date Time Zone Number Word ─ decode ─▶ year, month, day, clock, zone
//! ```
//! A number says what it is by how long it is, by what is known already, and by DateStyle's order: this is
//! PostgreSQL's `DecodeDateTime`, rule for rule. What a field gives is in a mask; nothing is given twice.

use super::datetime::{DAY_US, civil_from_days, days_from_civil, days_in_month, now_us};
use super::style::DateOrder;
use super::zone::{Zone, canonical};

/// Why a text is no moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Syntax,
    Field,
    /// A month or a day that would do in another order.
    MonthField,
    Zone,
}

/// A moment as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Infinity,
    MinusInfinity,
    /// Days, microseconds of the day, seconds east of UTC if given.
    At(i64, i64, Option<i64>),
}

type Read<T> = Result<T, Fault>;

const YEAR: u32 = 1;
const MONTH: u32 = 2;
const DAY: u32 = 4;
const DATE: u32 = YEAR | MONTH | DAY;
const TIME: u32 = 8;
const ZONE: u32 = 16;
const DAY_OF_YEAR: u32 = 32;
const WEEKDAY: u32 = 64;
const HALF: u32 = 128;
const ERA: u32 = 256;
const EPOCH_JULIAN: i64 = 2_440_588;

/// What a part of the text looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Number,
    Date,
    Time,
    Zone,
    Word,
}

/// A prefix that says what the next field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefix {
    Julian,
    Time,
}

/// Reads a date or a timestamp.
pub(super) fn parse(text: &str) -> Read<Parsed> {
    let lower = text.trim().to_ascii_lowercase();
    match lower.as_str() {
        "infinity" | "+infinity" => return Ok(Parsed::Infinity),
        "-infinity" => return Ok(Parsed::MinusInfinity),
        _ => {}
    }
    let mut moment = Moment::default();
    moment.read(&split(&lower)?)?;
    moment.finish()
}

/// Reads a time of day. A date or a zone beside it says nothing.
pub(super) fn parse_time(text: &str) -> Read<i64> {
    let mut moment = Moment::default();
    moment.read(&split(text)?)?;
    match moment.known & TIME {
        0 => Err(Fault::Syntax),
        _ => moment.clock(),
    }
}

/// The fields of a text in lower case.
fn split(lower: &str) -> Read<Vec<(Form, &str)>> {
    let bytes = lower.as_bytes();
    let is = |at: usize, class: fn(&u8) -> bool| bytes.get(at).is_some_and(class);
    let run = |mut at: usize, in_it: &dyn Fn(u8) -> bool| {
        while bytes.get(at).is_some_and(|byte| in_it(*byte)) {
            at += 1;
        }
        at
    };
    let digits = |at: usize| run(at, &|byte| byte.is_ascii_digit());
    let letters = |at: usize| run(at, &|byte| byte.is_ascii_alphabetic());
    let (mut fields, mut at) = (Vec::new(), 0);
    while let Some(first) = bytes.get(at) {
        let from = at;
        let form = match first {
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'0'..=b'9' => {
                at = digits(at);
                match bytes.get(at) {
                    Some(b':') => {
                        at = run(at, &|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
                        Form::Time
                    }
                    Some(mark @ (b'-' | b'/' | b'.')) => {
                        let mark = *mark;
                        at += 1;
                        if is(at, u8::is_ascii_digit) {
                            at = digits(at);
                            if bytes.get(at) == Some(&mark) {
                                at = run(at, &|byte| byte.is_ascii_digit() || byte == mark);
                                Form::Date
                            } else if mark == b'.' {
                                Form::Number
                            } else {
                                Form::Date
                            }
                        } else {
                            at = run(at, &|byte| byte.is_ascii_alphanumeric() || byte == mark);
                            Form::Date
                        }
                    }
                    _ => Form::Number,
                }
            }
            b'.' => {
                at = digits(at + 1);
                Form::Number
            }
            b'a'..=b'z' => {
                at = letters(at);
                let is_date = match bytes.get(at) {
                    Some(b'-' | b'/' | b'.') => true,
                    Some(b'+' | b'0'..=b'9') => word(&lower[from..at]).is_none(),
                    _ => false,
                };
                if is_date {
                    at = run(at, &|byte| {
                        byte.is_ascii_alphanumeric()
                            || matches!(byte, b'+' | b'-' | b'/' | b'_' | b'.' | b':')
                    });
                    Form::Date
                } else {
                    Form::Word
                }
            }
            b'+' | b'-' => {
                at = run(at + 1, &|byte| byte.is_ascii_whitespace());
                match bytes.get(at) {
                    Some(b'0'..=b'9') => {
                        at = run(at, &|byte| {
                            byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'-')
                        });
                        Form::Zone
                    }
                    _ => return Err(Fault::Syntax),
                }
            }
            byte if byte.is_ascii_punctuation() => {
                at += 1;
                continue;
            }
            _ => return Err(Fault::Syntax),
        };
        fields.push((form, &lower[from..at]));
    }
    Ok(fields)
}

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Now,
    Today,
    Tomorrow,
    Yesterday,
    Epoch,
    AllBalls,
    Month(i64),
    Weekday,
    Morning,
    Afternoon,
    BeforeChrist,
    AfterChrist,
    Julian,
    IsoTime,
    Ignored,
    Offset(i64),
}

fn word(text: &str) -> Option<Word> {
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
    let is = |full: &&str| text == *full || text == &full[..3];
    if let Some(at) = MONTHS.iter().position(is) {
        return Some(Word::Month(at as i64 + 1));
    }
    if DAYS.iter().any(is) {
        return Some(Word::Weekday);
    }
    Some(match text {
        "now" => Word::Now,
        "today" => Word::Today,
        "tomorrow" => Word::Tomorrow,
        "yesterday" => Word::Yesterday,
        "epoch" => Word::Epoch,
        "allballs" => Word::AllBalls,
        "sept" => Word::Month(9),
        "tues" | "wednes" | "thur" | "thurs" | "weds" => Word::Weekday,
        "am" => Word::Morning,
        "pm" => Word::Afternoon,
        "bc" => Word::BeforeChrist,
        "ad" => Word::AfterChrist,
        "j" | "jd" | "julian" => Word::Julian,
        "t" => Word::IsoTime,
        "at" | "on" => Word::Ignored,
        other => Word::Offset(offset_named(other)?),
    })
}

/// Seconds east of UTC of an abbreviation that stands for one offset.
fn offset_named(name: &str) -> Option<i64> {
    let minutes = match name {
        "z" | "zulu" | "utc" | "gmt" | "ut" | "uct" | "wet" => 0,
        "bst" | "cet" | "met" | "mez" | "west" => 60,
        "cest" | "eet" | "mest" | "sast" => 120,
        "eest" | "msk" => 180,
        "ist" => 120,
        "jst" | "kst" => 540,
        "aest" => 600,
        "aedt" => 660,
        "nzst" => 720,
        "nzdt" => 780,
        "nst" => -210,
        "ast" => -240,
        "adt" => -180,
        "est" => -300,
        "edt" => -240,
        "cst" => -360,
        "cdt" => -300,
        "mst" => -420,
        "mdt" => -360,
        "pst" => -480,
        "pdt" => -420,
        "akst" => -540,
        "akdt" => -480,
        "hst" => -600,
        _ => return None,
    };
    Some(minutes * 60)
}

#[derive(Default)]
struct Moment {
    known: u32,
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    us: i64,
    zone: Option<i64>,
    named: Option<Zone>,
    /// The year has one or two digits.
    is_short: bool,
    is_julian: bool,
    before_christ: bool,
    afternoon: Option<bool>,
    has_text_month: bool,
    prefix: Option<Prefix>,
}

impl Moment {
    fn read(&mut self, fields: &[(Form, &str)]) -> Read<()> {
        for (at, (form, text)) in fields.iter().enumerate() {
            let given = match form {
                Form::Date => self.take_date_field(text)?,
                Form::Time => {
                    if self.prefix.take() == Some(Prefix::Julian) {
                        return Err(Fault::Syntax);
                    }
                    self.us = clock_us(text)?;
                    TIME
                }
                Form::Zone => {
                    self.zone = Some(offset(text)?);
                    ZONE
                }
                Form::Number => self.take_number_field(text)?,
                Form::Word => self.take_word(text, fields.get(at + 1).map(|(form, _)| *form))?,
            };
            if given & self.known != 0 {
                return Err(Fault::Syntax);
            }
            self.known |= given;
        }
        if self.prefix.is_some() { Err(Fault::Syntax) } else { Ok(()) }
    }

    fn take_date_field(&mut self, text: &str) -> Read<u32> {
        if self.prefix == Some(Prefix::Julian) {
            // Julian days with a zone.
            self.prefix = None;
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            self.set_julian(number(&text[..end])?)?;
            self.zone = Some(offset(&text[end..])?);
            return Ok(DATE | TIME | ZONE);
        }
        let has_day = self.known & (MONTH | DAY) == MONTH | DAY;
        if self.prefix.is_none() && !has_day {
            return self.take_date(text);
        }
        self.prefix = None;
        // A zone's name, or a clock without colons before a zone.
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            let zone = canonical(text).and_then(|name| Zone::parse(&name));
            self.named = Some(zone.ok_or(Fault::Zone)?);
            return Ok(ZONE);
        }
        if self.known & TIME != 0 {
            return Err(Fault::Syntax);
        }
        let at = text.find('-').ok_or(Fault::Syntax)?;
        self.zone = Some(offset(&text[at..])?);
        Ok(self.take_run(&text[..at], self.known)? | ZONE)
    }

    /// A date's parts between marks: a month's name first, since it is what it is.
    fn take_date(&mut self, text: &str) -> Read<u32> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            let first = rest.chars().next().ok_or(Fault::Syntax)?;
            let of_digits = first.is_ascii_digit();
            let in_it = |c: char| match of_digits {
                true => c.is_ascii_digit(),
                false => c.is_ascii_alphabetic(),
            };
            let end = rest.find(|c| !in_it(c)).unwrap_or(rest.len());
            parts.push((of_digits, &rest[..end]));
            rest = &rest[end..];
            let mut after = rest.chars();
            if after.next().is_some() {
                rest = after.as_str();
                if rest.is_empty() {
                    // The mark was the last of it.
                    break;
                }
            }
        }
        let before = self.known;
        let mut given = 0;
        let mut has_text_month = false;
        for (_, name) in parts.iter().filter(|(of_digits, _)| !of_digits) {
            match word(name) {
                Some(Word::Ignored) => continue,
                Some(Word::Month(month)) => self.month = month,
                _ => return Err(Fault::Syntax),
            }
            has_text_month = true;
            if (before | given) & MONTH != 0 {
                return Err(Fault::Syntax);
            }
            given |= MONTH;
        }
        for (_, digits) in parts.iter().filter(|(of_digits, _)| *of_digits) {
            let more = self.take_number(digits, has_text_month, before | given)?;
            if (before | given) & more != 0 {
                return Err(Fault::Syntax);
            }
            given |= more;
        }
        match (before | given) & !(DAY_OF_YEAR | ZONE) == DATE {
            true => Ok(given),
            false => Err(Fault::Syntax),
        }
    }

    fn take_number_field(&mut self, text: &str) -> Read<u32> {
        match self.prefix.take() {
            Some(Prefix::Julian) => {
                let (days, fraction) = text.split_once('.').unwrap_or((text, ""));
                self.set_julian(number(days)?)?;
                if fraction.is_empty() {
                    return Ok(DATE);
                }
                let part: f64 = format!("0.{fraction}").parse().map_err(|_| Fault::Syntax)?;
                self.us = (part * DAY_US as f64) as i64;
                return Ok(DATE | TIME);
            }
            Some(Prefix::Time) => {
                return match self.take_run(text, self.known | DATE)? {
                    TIME => Ok(TIME),
                    _ => Err(Fault::Syntax),
                };
            }
            None => {}
        }
        let point = text.find('.');
        match point {
            Some(_) if self.known & DATE == 0 => self.take_date(text),
            Some(at) if at > 2 => self.take_run(text, self.known),
            _ if text.len() >= 6 && (self.known & DATE == 0 || self.known & TIME == 0) => {
                self.take_run(text, self.known)
            }
            _ => self.take_number(text, self.has_text_month, self.known),
        }
    }

    /// One number of a date, or of a time once the date is known.
    fn take_number(&mut self, text: &str, has_text_month: bool, known: u32) -> Read<u32> {
        let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
        if text.contains('.') && digits.len() > 2 {
            return self.take_run(text, known | DATE);
        }
        if !fraction.is_empty() {
            number(fraction)?;
        }
        let value = number(digits)?;
        let length = text.len();
        if length == 3 && known & DATE == YEAR && (1..=366).contains(&value) {
            self.day_of_year = value;
            return Ok(DAY_OF_YEAR | MONTH | DAY);
        }
        let order = Zone::current().style().order;
        const YEAR_MONTH: u32 = YEAR | MONTH;
        const MONTH_DAY: u32 = MONTH | DAY;
        let given = match known & DATE {
            0 if length >= 3 || order == DateOrder::Ymd => YEAR,
            0 if order == DateOrder::Dmy => DAY,
            0 => MONTH,
            YEAR => MONTH,
            MONTH if has_text_month && (length >= 3 || order == DateOrder::Ymd) => YEAR,
            MONTH => DAY,
            YEAR_MONTH if has_text_month && length >= 3 && self.is_short => {
                // The day came first after all.
                (self.day, self.year, self.is_short) = (self.year, value, false);
                return Ok(DAY);
            }
            YEAR_MONTH => DAY,
            DAY => MONTH,
            MONTH_DAY => YEAR,
            DATE => return self.take_run(text, known),
            _ => return Err(Fault::Syntax),
        };
        match given {
            YEAR => (self.year, self.is_short) = (value, length <= 2),
            MONTH => self.month = value,
            _ => self.day = value,
        }
        Ok(given)
    }

    /// Digits without marks: `yymmdd`, `yyyymmdd`, and `hhmm`, `hhmmss[.fff]` once there is a date.
    fn take_run(&mut self, text: &str, known: u32) -> Read<u32> {
        let (digits, fraction) = text.split_once('.').unwrap_or((text, ""));
        let length = digits.len();
        let has_point = text.contains('.');
        number(digits)?;
        if !has_point && known & DATE != DATE && length >= 6 {
            self.day = number(&digits[length - 2..])?;
            self.month = number(&digits[length - 4..length - 2])?;
            self.year = number(&digits[..length - 4])?;
            self.is_short = length == 6;
            return Ok(DATE);
        }
        if known & TIME != 0 {
            return Err(Fault::Syntax);
        }
        let point = if fraction.is_empty() { "" } else { "." };
        let (hours, rest) = digits.split_at_checked(2).ok_or(Fault::Syntax)?;
        let clock = match length {
            6 => format!("{hours}:{}:{}{point}{fraction}", &rest[..2], &rest[2..]),
            4 => format!("{hours}:{rest}:00{point}{fraction}"),
            _ => return Err(Fault::Syntax),
        };
        self.us = clock_us(&clock)?;
        Ok(TIME)
    }

    fn take_word(&mut self, text: &str, next: Option<Form>) -> Read<u32> {
        let now = || Zone::current().to_local(now_us());
        let Some(found) = word(text) else {
            let zone = canonical(text).and_then(|name| Zone::parse(&name));
            self.named = Some(zone.ok_or(Fault::Syntax)?);
            return Ok(ZONE);
        };
        Ok(match found {
            Word::Now => {
                let now = now();
                self.set_day(now.div_euclid(DAY_US));
                self.us = now.rem_euclid(DAY_US);
                self.zone = Some(Zone::current().offset_s(now_us()).into());
                DATE | TIME | ZONE
            }
            Word::Today => self.set_day(now().div_euclid(DAY_US)),
            Word::Tomorrow => self.set_day(now().div_euclid(DAY_US) + 1),
            Word::Yesterday => self.set_day(now().div_euclid(DAY_US) - 1),
            Word::Epoch => {
                self.set_day(0);
                self.zone = Some(0);
                DATE | TIME | ZONE
            }
            Word::AllBalls => {
                (self.us, self.zone) = (0, Some(0));
                TIME | ZONE
            }
            Word::Month(month) => {
                let mut given = MONTH;
                let has_number = self.known & MONTH != 0 && !self.has_text_month;
                if has_number && self.known & DAY == 0 && (1..=31).contains(&self.month) {
                    // What was taken for the month is the day.
                    self.day = self.month;
                    given = DAY;
                }
                (self.has_text_month, self.month) = (true, month);
                given
            }
            Word::Weekday => WEEKDAY,
            Word::Morning => {
                self.afternoon = Some(false);
                HALF
            }
            Word::Afternoon => {
                self.afternoon = Some(true);
                HALF
            }
            Word::BeforeChrist => {
                self.before_christ = true;
                ERA
            }
            Word::AfterChrist => ERA,
            Word::Ignored => 0,
            Word::Julian => {
                self.prefix = Some(Prefix::Julian);
                0
            }
            Word::IsoTime => {
                let may_be = matches!(next, Some(Form::Number | Form::Time | Form::Date));
                if self.known & DATE != DATE || !may_be {
                    return Err(Fault::Syntax);
                }
                self.prefix = Some(Prefix::Time);
                0
            }
            Word::Offset(seconds) => {
                self.zone = Some(seconds);
                ZONE
            }
        })
    }

    fn set_julian(&mut self, days: i64) -> Read<()> {
        if i32::try_from(days).is_err() {
            return Err(Fault::Field);
        }
        self.set_day(days - EPOCH_JULIAN);
        Ok(())
    }

    /// A year that needs no more looking at.
    fn set_day(&mut self, days: i64) -> u32 {
        (self.year, self.month, self.day) = civil_from_days(days);
        self.is_julian = true;
        DATE
    }

    fn finish(mut self) -> Read<Parsed> {
        if self.known & DATE != DATE {
            return Err(Fault::Syntax);
        }
        if !self.is_julian {
            self.year = match self.year {
                0 if !self.is_short || self.before_christ => return Err(Fault::Field),
                year if self.before_christ => 1 - year,
                year @ 0..70 if self.is_short => year + 2000,
                year @ 70..100 if self.is_short => year + 1900,
                year => year,
            };
        }
        if self.year.abs() > 6_000_000 {
            return Err(Fault::Field);
        }
        let days = match self.known & DAY_OF_YEAR {
            0 => self.days()?,
            _ => days_from_civil(self.year, 1, 1) + self.day_of_year - 1,
        };
        let time = self.clock()?;
        if let (Some(zone), Some(local)) = (self.named, days.checked_mul(DAY_US)) {
            let local = local.saturating_add(time);
            self.zone = Some((local - zone.to_utc(local)) / 1_000_000);
        }
        Ok(Parsed::At(days, time, self.zone))
    }

    fn days(&self) -> Read<i64> {
        if !(1..=12).contains(&self.month) || !(1..=31).contains(&self.day) {
            return Err(Fault::MonthField);
        }
        match self.day <= days_in_month(self.year, self.month) {
            true => Ok(days_from_civil(self.year, self.month, self.day)),
            false => Err(Fault::Field),
        }
    }

    /// The time of the day.
    fn clock(&self) -> Read<i64> {
        const NOON: i64 = DAY_US / 2;
        const HOUR: i64 = DAY_US / 24;
        match self.afternoon {
            Some(_) if self.us >= NOON + HOUR => Err(Fault::Field),
            Some(false) if self.us >= NOON => Ok(self.us - NOON),
            Some(true) if self.us < NOON => Ok(self.us + NOON),
            _ => Ok(self.us),
        }
    }
}

fn number(text: &str) -> Read<i64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    match text.parse() {
        Ok(value) if value <= i64::from(i32::MAX) => Ok(value),
        _ => Err(Fault::Field),
    }
}

/// `hh:mm[:ss[.fraction]]`, rounded to microseconds.
fn clock_us(text: &str) -> Read<i64> {
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
        if !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Fault::Syntax);
        }
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
fn offset(text: &str) -> Read<i64> {
    let body = text.strip_prefix(['+', '-']).ok_or(Fault::Syntax)?.trim_start();
    let parts: Vec<i64> = if body.contains(':') {
        body.split(':').map(number).collect::<Read<_>>()?
    } else if body.len() > 2 && body.is_ascii() {
        let split = body.len() - 2;
        vec![number(&body[..split])?, number(&body[split..])?]
    } else {
        vec![number(body)?]
    };
    if parts.len() > 3 || parts[0] > 15 || parts[1..].iter().any(|p| *p > 59) {
        return Err(Fault::Field);
    }
    let seconds = parts.iter().zip([3600, 60, 1]).map(|(p, unit)| p * unit).sum::<i64>();
    Ok(if text.starts_with('-') { -seconds } else { seconds })
}
