//! Templates of dates and times (`YYYY-MM-DD HH24:MI`), which `to_char` fills and `to_timestamp` reads.

/// A field of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are what PostgreSQL's manual calls them (table 9.27)
pub enum Key {
    Hour12,
    Hour24,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    /// So many digits of a second.
    Fraction(u32),
    SecondOfDay,
    Meridiem {
        dots: bool,
    },
    YearWithComma,
    Year(usize),
    IsoYear(usize),
    Era {
        dots: bool,
    },
    MonthName,
    MonthShort,
    Month,
    DayName,
    DayShort,
    DayOfYear,
    IsoDayOfYear,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    WeekOfMonth,
    Week,
    IsoWeek,
    Century,
    Julian,
    Quarter,
    MonthRoman,
    ZoneName,
    ZoneHour,
    ZoneMinute,
    ZoneOffset,
}

/// The case in which a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Case {
    Upper,
    Capital,
    Lower,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A field.
    Field {
        /// Which.
        key: Key,
        /// Of names.
        case: Case,
        /// FM: without zeros and blanks that fill it.
        fill: bool,
        /// TH or th.
        ordinal: Option<Case>,
    },
    /// Anything else.
    Text {
        /// As it is written.
        text: String,
        /// It stood in quotes.
        quoted: bool,
    },
}

/// The names of fields in capitals, longer ones before those that they begin with.
const KEYS: &[(&str, Key)] = &[
    ("A.D.", Key::Era { dots: true }),
    ("A.M.", Key::Meridiem { dots: true }),
    ("AD", Key::Era { dots: false }),
    ("AM", Key::Meridiem { dots: false }),
    ("B.C.", Key::Era { dots: true }),
    ("BC", Key::Era { dots: false }),
    ("CC", Key::Century),
    ("DAY", Key::DayName),
    ("DDD", Key::DayOfYear),
    ("DD", Key::Day),
    ("DY", Key::DayShort),
    ("D", Key::DayOfWeek),
    ("FF1", Key::Fraction(1)),
    ("FF2", Key::Fraction(2)),
    ("FF3", Key::Fraction(3)),
    ("FF4", Key::Fraction(4)),
    ("FF5", Key::Fraction(5)),
    ("FF6", Key::Fraction(6)),
    ("HH24", Key::Hour24),
    ("HH12", Key::Hour12),
    ("HH", Key::Hour12),
    ("IDDD", Key::IsoDayOfYear),
    ("ID", Key::IsoDayOfWeek),
    ("IW", Key::IsoWeek),
    ("IYYY", Key::IsoYear(4)),
    ("IYY", Key::IsoYear(3)),
    ("IY", Key::IsoYear(2)),
    ("I", Key::IsoYear(1)),
    ("J", Key::Julian),
    ("MI", Key::Minute),
    ("MM", Key::Month),
    ("MONTH", Key::MonthName),
    ("MON", Key::MonthShort),
    ("MS", Key::Millisecond),
    ("OF", Key::ZoneOffset),
    ("P.M.", Key::Meridiem { dots: true }),
    ("PM", Key::Meridiem { dots: false }),
    ("Q", Key::Quarter),
    ("RM", Key::MonthRoman),
    ("SSSSS", Key::SecondOfDay),
    ("SSSS", Key::SecondOfDay),
    ("SS", Key::Second),
    ("TZH", Key::ZoneHour),
    ("TZM", Key::ZoneMinute),
    ("TZ", Key::ZoneName),
    ("US", Key::Microsecond),
    ("WW", Key::Week),
    ("W", Key::WeekOfMonth),
    ("Y,YYY", Key::YearWithComma),
    ("YYYY", Key::Year(4)),
    ("YYY", Key::Year(3)),
    ("YY", Key::Year(2)),
    ("Y", Key::Year(1)),
];

/// The parts of a template.
pub fn parse(template: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let (fill, after) = modifiers(rest);
        if let Some((key, length)) = key_of(after) {
            let (name, tail) = after.split_at(length);
            let ordinal = match tail.get(..2) {
                Some("TH") => Some(Case::Upper),
                Some("th") => Some(Case::Lower),
                _ => None,
            };
            rest = if ordinal.is_some() { &tail[2..] } else { tail };
            parts.push(Part::Field { key, case: case_of(name), fill, ordinal });
            continue;
        }
        let (text, tail, quoted) = text(after);
        rest = tail;
        match parts.last_mut() {
            Some(Part::Text { text: before, quoted: was }) if *was == quoted => {
                before.push_str(&text);
            }
            _ if text.is_empty() => {}
            _ => parts.push(Part::Text { text, quoted }),
        }
    }
    parts
}

/// Takes FM, FX and TM off the front. `true`: the field is filled.
fn modifiers(mut rest: &str) -> (bool, &str) {
    let mut fill = true;
    while let Some(word) = rest.get(..2) {
        match word {
            "FM" | "fm" => fill = false,
            "FX" | "fx" | "TM" | "tm" => {}
            _ => break,
        }
        rest = &rest[2..];
    }
    (fill, rest)
}

fn key_of(rest: &str) -> Option<(Key, usize)> {
    let begins =
        |name: &str| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    KEYS.iter().find(|(name, _)| begins(name)).map(|(name, key)| (*key, name.len()))
}

fn case_of(name: &str) -> Case {
    let mut letters = name.chars().filter(char::is_ascii_alphabetic);
    let first = letters.next().is_some_and(|c| c.is_ascii_uppercase());
    let second = letters.next().is_some_and(|c| c.is_ascii_uppercase());
    match (first, second) {
        (true, true) => Case::Upper,
        (true, false) => Case::Capital,
        (false, _) => Case::Lower,
    }
}

fn text(rest: &str) -> (String, &str, bool) {
    let mut chars = rest.chars();
    match chars.next() {
        Some('"') => {
            let mut text = String::new();
            while let Some(c) = chars.next() {
                match c {
                    '"' => break,
                    '\\' => text.extend(chars.next()),
                    c => text.push(c),
                }
            }
            (text, chars.as_str(), true)
        }
        Some('\\') if chars.as_str().starts_with('"') => {
            chars.next();
            ("\"".to_owned(), chars.as_str(), false)
        }
        Some(c) => (c.to_string(), chars.as_str(), false),
        None => (String::new(), "", false),
    }
}

/// Names of months.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// Names of days, Sunday first.
pub const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// Roman numbers of months.
pub const ROMAN: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
