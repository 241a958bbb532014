//! upper, lower and initcap: character by character, as the C library's towupper and towlower have it. What
//! Unicode makes two letters of (ß in upper case) stays as it is.

use super::overload::Overload;
use super::simple::{ANY, Out, text};
use crate::types::oids::TEXT;

/// lower of a text as it is, the blanks of a char(n) with it: what ILIKE compares.
pub const LOWER: &str = "froglet_lower";

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("upper", &[TEXT], TEXT, |_, c| Ok(Out::Text(upper(text(c, 0))))),
    Overload::new("lower", &[TEXT], TEXT, |_, c| Ok(Out::Text(lower(text(c, 0))))),
    Overload::new("initcap", &[TEXT], TEXT, |_, c| Ok(Out::Text(initcap(text(c, 0))))),
    Overload::new(LOWER, &[ANY], TEXT, |_, c| Ok(Out::Text(lower(text(c, 0))))),
];

fn upper(text: &str) -> String {
    match text.is_ascii() {
        true => text.to_ascii_uppercase(),
        false => text.chars().map(upper_of).collect(),
    }
}

/// A text in lower case.
pub fn lower(text: &str) -> String {
    match text.is_ascii() {
        true => text.to_ascii_lowercase(),
        false => text.chars().map(lower_of).collect(),
    }
}

/// The first letter of each word in upper case, the others in lower case.
fn initcap(text: &str) -> String {
    let mut is_within = false;
    let cased = text.chars().map(|c| {
        let cased = if is_within { lower_of(c) } else { upper_of(c) };
        is_within = c.is_alphabetic() || is_digit(c);
        cased
    });
    cased.collect()
}

/// Decimal digits of any script; not what only counts, as ½ and ².
fn is_digit(c: char) -> bool {
    static DIGITS: std::sync::LazyLock<regex::Regex> =
        std::sync::LazyLock::new(|| regex::Regex::new(r"\A\p{Nd}\z").expect("it is one"));
    match c.is_ascii() {
        true => c.is_ascii_digit(),
        false => c.is_numeric() && DIGITS.is_match(c.encode_utf8(&mut [0; 4])),
    }
}

fn upper_of(c: char) -> char {
    // Greek letters with an iota beneath, of which Unicode makes two; the capital beside them has it, too.
    let offset = match c {
        '\u{1F80}'..='\u{1F87}' | '\u{1F90}'..='\u{1F97}' | '\u{1FA0}'..='\u{1FA7}' => 8,
        '\u{1FB3}' | '\u{1FC3}' | '\u{1FF3}' => 9,
        c => return only(c, c.to_uppercase()),
    };
    char::from_u32(u32::from(c) + offset).unwrap_or(c)
}

fn lower_of(c: char) -> char {
    match c {
        // Unicode puts the dot behind it.
        '\u{130}' => 'i',
        c => only(c, c.to_lowercase()),
    }
}

/// The one character that another is mapped to, or itself.
fn only(c: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}
