//! The session's time zone and [`Style`], in which timestamps with time zone are read and printed.
//!
//! Reading and printing happen far below the session: in casts, in literals, in rows on their way
//! to the client. The zone is therefore the thread's, put in place around each piece of work:
//! [`Zone::run`] for a call, [`scope`] for a future, whichever thread polls it. Elsewhere it is UTC.
//! What the catalog stores (defaults, checks) is compiled under UTC, whoever compiles it.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::array::timezone::Tz;
use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeZone};

use super::datetime::{DAY_US, INFINITY, MINUS_INFINITY};
use super::style::Style;

/// The Gregorian calendar repeats itself after 400 years.
const CYCLE_US: i64 = 146_097 * DAY_US;
const SECOND_US: i64 = 1_000_000;
const HOUR_S: i32 = 3600;

/// A time zone, and the style of the session whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    rule: Rule,
    style: Style,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    Utc,
    /// Always this many seconds east of UTC.
    Fixed(i32),
    /// By its rules.
    Named(Tz),
}

thread_local! {
    static CURRENT: Cell<Zone> = const { Cell::new(Zone::UTC) };
}

/// Puts back the zone that was there.
struct Restore(Zone);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl Zone {
    /// UTC, in the style of what is stored.
    pub const UTC: Zone = Zone { rule: Rule::Utc, style: Style::DEFAULT };

    const fn of(rule: Rule) -> Zone {
        Zone { rule, style: Style::DEFAULT }
    }

    /// Of the settings that say so: TimeZone and those of [`Style::of`].
    pub fn of_settings<S: AsRef<str>>(setting: impl Fn(&'static str) -> S) -> Zone {
        Zone::parse(setting("TimeZone").as_ref()).unwrap_or(Zone::UTC).in_style(Style::of(
            setting("DateStyle").as_ref(),
            setting("IntervalStyle").as_ref(),
            setting("extra_float_digits").as_ref(),
        ))
    }

    /// The same in another style.
    pub fn in_style(self, style: Style) -> Zone {
        Zone { style, ..self }
    }

    /// The style that goes with it.
    pub fn style(self) -> Style {
        self.style
    }

    /// The zone of the work under way on this thread.
    pub fn current() -> Zone {
        CURRENT.get()
    }

    /// Runs `f` in this zone.
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        let _restore = Restore(CURRENT.replace(self));
        f()
    }

    /// Whether it is UTC.
    pub fn is_utc(self) -> bool {
        matches!(self.rule, Rule::Utc)
    }

    /// A zone by its canonical name.
    pub fn parse(name: &str) -> Option<Zone> {
        if matches!(name, "UTC" | "GMT" | "Etc/UTC") {
            return Some(Zone::UTC);
        }
        // POSIX counts westwards: <+02>-02 is two hours east, and so is -02 without a name.
        let posix = match name.strip_prefix('<') {
            Some(rest) => rest.split_once('>')?.1,
            None => name,
        };
        if posix.starts_with(['+', '-']) || posix.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(Zone::of(Rule::Fixed(-posix_seconds(posix)?)));
        }
        name.parse().ok().map(|zone| Zone::of(Rule::Named(zone)))
    }

    /// Seconds east of UTC at a point in time.
    pub fn offset_s(self, us: i64) -> i32 {
        match self.rule {
            Rule::Utc => 0,
            Rule::Fixed(seconds) => seconds,
            Rule::Named(tz) => tz.offset_from_utc_datetime(&civil(us)).fix().local_minus_utc(),
        }
    }

    /// What a clock in the zone shows at a point in time.
    pub fn to_local(self, us: i64) -> i64 {
        match us {
            INFINITY | MINUS_INFINITY => us,
            _ => us.saturating_add(i64::from(self.offset_s(us)) * SECOND_US),
        }
    }

    /// The point in time at which a clock in the zone shows this. Of a time that comes twice the
    /// second, of a time that is left out what the clock would show had it not been put forward:
    /// as PostgreSQL decides.
    pub fn to_utc(self, local_us: i64) -> i64 {
        let offset_s = match self.rule {
            _ if matches!(local_us, INFINITY | MINUS_INFINITY) => return local_us,
            Rule::Utc => 0,
            Rule::Fixed(seconds) => seconds,
            Rule::Named(tz) => match tz.offset_from_local_datetime(&civil(local_us)) {
                LocalResult::Single(offset) => offset.fix().local_minus_utc(),
                LocalResult::Ambiguous(_, second) => second.fix().local_minus_utc(),
                LocalResult::None => self.offset_s(local_us.saturating_sub(DAY_US)),
            },
        };
        local_us.saturating_sub(i64::from(offset_s) * SECOND_US)
    }
}

/// The civil time, some cycles earlier or later where chrono's calendar has ended.
fn civil(us: i64) -> NaiveDateTime {
    let time = DateTime::from_timestamp_micros(us)
        .or_else(|| DateTime::from_timestamp_micros(us.rem_euclid(CYCLE_US)));
    time.unwrap_or_default().naive_utc()
}

/// `[+-]hh[:mm[:ss]]` in seconds.
fn posix_seconds(text: &str) -> Option<i32> {
    let (negative, body) = match text.strip_prefix('-') {
        Some(body) => (true, body),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut seconds = 0;
    let mut unit = HOUR_S;
    for part in body.split(':') {
        let value: i32 = part.parse().ok().filter(|v| (0..=167).contains(v))?;
        seconds += value * unit;
        unit /= 60;
    }
    Some(if negative { -seconds } else { seconds })
}

/// The name under which a zone is kept and shown; `None` if there is no such zone.
pub fn canonical(value: &str) -> Option<String> {
    let value = value.trim();
    match value.to_ascii_lowercase().as_str() {
        "utc" | "zulu" => return Some("UTC".to_owned()),
        "gmt" => return Some("GMT".to_owned()),
        "etc/utc" => return Some("Etc/UTC".to_owned()),
        _ => {}
    }
    // A bare number counts hours eastwards, unlike everything else with a sign.
    if let Ok(hours) = value.parse::<f64>() {
        let seconds = (hours * f64::from(HOUR_S)).round();
        return (seconds.abs() < 168.0 * f64::from(HOUR_S)).then(|| {
            let (name, posix) = if seconds < 0.0 { ('-', '+') } else { ('+', '-') };
            let text = hours_text((seconds as i32).unsigned_abs());
            format!("<{name}{text}>{posix}{text}")
        });
    }
    let segment = |text: &str| {
        let mut start = true;
        let capital = |c: char| {
            let shown = if start { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() };
            start = !c.is_ascii_alphanumeric();
            shown
        };
        text.chars().map(capital).collect::<String>()
    };
    let spellings = [value.to_owned(), segment(value), value.to_ascii_uppercase()];
    spellings.into_iter().find(|name| Zone::parse(name).is_some())
}

/// `hh[:mm[:ss]]`
fn hours_text(seconds: u32) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{hours:02}"),
        (_, 0) => format!("{hours:02}:{minutes:02}"),
        _ => format!("{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// An offset as it stands behind a time: `+02`, `+05:30`.
pub fn offset_text(seconds: i32) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    format!("{sign}{}", hours_text(seconds.unsigned_abs()))
}

/// A future whose work is done in a zone. (By reference: the state of a statement is long.)
pub async fn scope<F: Future>(zone: Zone, mut work: Pin<&mut F>) -> F::Output {
    std::future::poll_fn(|cx| poll(zone, work.as_mut(), cx)).await
}

fn poll<F: Future>(zone: Zone, work: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
    zone.run(|| work.poll(cx))
}

#[cfg(test)]
mod tests {
    use super::super::datetime::parse_timestamp;
    use super::super::output::display_value;
    use super::*;
    use froglet_engine::{ColumnType, Value};

    fn shown(zone: &str, text: &str) -> String {
        let zone = Zone::parse(&canonical(zone).expect("a zone")).expect("a canonical zone");
        zone.run(|| {
            let us = parse_timestamp(text, true).expect("a timestamp");
            display_value(&Value::TimestampTz(us), ColumnType::TimestampTz)
        })
    }

    #[test]
    fn timestamps_are_read_and_printed_in_the_zone() {
        for (zone, text, expected) in [
            ("UTC", "2024-07-01 12:00", "2024-07-01 12:00:00+00"),
            ("europe/berlin", "2024-07-01 12:00+00", "2024-07-01 14:00:00+02"),
            ("Europe/Berlin", "2024-07-01 12:00", "2024-07-01 12:00:00+02"),
            ("Europe/Berlin", "2024-01-01 12:00", "2024-01-01 12:00:00+01"),
            // Left out, and twice.
            ("Europe/Berlin", "2024-03-31 02:30", "2024-03-31 03:30:00+02"),
            ("Europe/Berlin", "2024-10-27 02:30", "2024-10-27 02:30:00+01"),
            ("Asia/Kolkata", "2024-01-01 00:00Z", "2024-01-01 05:30:00+05:30"),
            ("Europe/Berlin", "1850-01-01 00:00", "1850-01-01 00:00:00+00:53:28"),
            ("2", "2024-01-01 00:00Z", "2024-01-01 02:00:00+02"),
            ("-3.5", "2024-01-01 00:00Z", "2023-12-31 20:30:00-03:30"),
            ("+02:00", "2024-01-01 00:00Z", "2023-12-31 22:00:00-02"),
            ("Europe/Berlin", "infinity", "infinity"),
            ("America/New_York", "290000-07-01 12:00", "290000-07-01 12:00:00-04"),
        ] {
            assert_eq!(shown(zone, text), expected, "{text} in {zone}");
        }
        assert_eq!(canonical("2").as_deref(), Some("<+02>-02"));
        assert_eq!(canonical("america/new_york").as_deref(), Some("America/New_York"));
        assert_eq!(canonical("Nowhere/Atlantis"), None);
    }
}
