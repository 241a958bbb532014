//! Characters that are written as numbers, put into the words of sqlparser's tokenizer.
//!
//! | written | becomes |
//! |---|---|
//! | `U&'d\0061t'`, `U&'d!0061t' UESCAPE '!'` | `'dat'` |
//! | `U&"d\0061t"` | `"dat"` |
//! | `E'\ud83d\ude00'` | `E'\U0001f600'`: two halves of one character |

use std::borrow::Cow;

use froglet_engine::SqlState;

use crate::error::SqlError;

/// The text with these forms replaced; all else stays as it is.
pub(crate) fn plain(text: &str) -> Result<Cow<'_, str>, SqlError> {
    let has = |form: &str| text.contains(form);
    if !(has("U&") || has("u&") || has("\\u") || has("\\U")) {
        return Ok(Cow::Borrowed(text));
    }
    let mut scanner = Scanner { text, at: 0, out: String::with_capacity(text.len()) };
    while scanner.at < text.len() {
        scanner.token()?;
    }
    Ok(Cow::Owned(scanner.out))
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    out: String,
}

impl<'t> Scanner<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Copies so many bytes.
    fn copy(&mut self, length: usize) {
        let length = length.min(self.text.len() - self.at);
        self.out.push_str(&self.text[self.at..self.at + length]);
        self.at += length;
    }

    fn token(&mut self) -> Result<(), SqlError> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(()) };
        match first {
            '\'' | '"' => self.copy(quoted(rest, first, false)),
            '-' if rest.starts_with("--") => self.copy(rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => self.copy(comment(rest)),
            '$' => self.copy(dollars(rest)),
            c if c.is_alphanumeric() || c == '_' => return self.word(),
            c => self.copy(c.len_utf8()),
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), SqlError> {
        let rest = self.rest();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
        let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        let behind = &rest[word.len()..];
        if word.eq_ignore_ascii_case("e") && behind.starts_with('\'') {
            let length = 1 + quoted(behind, '\'', true);
            self.out.push_str(&joined(&rest[..length]));
            self.at += length;
            return Ok(());
        }
        let quote = behind.strip_prefix('&').and_then(|text| text.chars().next());
        let quote = quote.filter(|quote| matches!(quote, '\'' | '"'));
        let Some(quote) = quote.filter(|_| word.eq_ignore_ascii_case("u")) else {
            self.copy(word.len());
            return Ok(());
        };
        let length = quoted(&behind[1..], quote, false);
        let inside = behind[2..].get(..length.saturating_sub(2)).unwrap_or_default();
        self.at += word.len() + 1 + length;
        let escape = self.escape();
        self.out.push(quote);
        decode(inside, escape, quote, &mut self.out)?;
        self.out.push(quote);
        Ok(())
    }

    /// The character that UESCAPE says, if it is said here.
    fn escape(&mut self) -> char {
        let rest = self.rest().trim_start();
        let said = rest.get(..7).filter(|word| word.eq_ignore_ascii_case("uescape"));
        let literal = said.map(|word| rest[word.len()..].trim_start());
        let mut chars = literal.unwrap_or_default().chars();
        match (chars.next(), chars.next(), chars.next()) {
            (Some('\''), Some(escape), Some('\'')) => {
                self.at = self.text.len() - chars.as_str().len();
                escape
            }
            _ => '\\',
        }
    }
}

/// The length of what is in quotes, with them.
fn quoted(text: &str, quote: char, has_escapes: bool) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && has_escapes {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// The length of a comment; others may be within.
fn comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        match text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a string between dollars, or of the one dollar.
fn dollars(text: &str) -> usize {
    let Some(end) = text[1..].find('$') else { return 1 };
    let tag = &text[..end + 2];
    let is_tag = tag[1..=end].chars().all(|c| c.is_alphanumeric() || c == '_')
        && !tag[1..].starts_with(|c: char| c.is_ascii_digit());
    match text[tag.len()..].find(tag).filter(|_| is_tag) {
        Some(close) => close + 2 * tag.len(),
        None => 1,
    }
}

const HIGH: std::ops::RangeInclusive<u32> = 0xD800..=0xDBFF;
const LOW: std::ops::RangeInclusive<u32> = 0xDC00..=0xDFFF;

fn pair(high: u32, low: u32) -> u32 {
    0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00)
}

/// An `E'…'` with halves of characters put together. What is no pair is the tokenizer's to refuse.
fn joined(literal: &str) -> String {
    let mut out = String::with_capacity(literal.len());
    let mut rest = literal;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let half = |text: &str| {
            let (digits, length) = match text.get(..2)? {
                "\\u" => (text.get(2..6)?, 6),
                "\\U" => (text.get(2..10)?, 10),
                _ => return None,
            };
            u32::from_str_radix(digits, 16).ok().map(|number| (number, length))
        };
        let first = half(rest).filter(|(number, _)| HIGH.contains(number));
        let both = first.and_then(|(high, length)| {
            let (low, more) = half(&rest[length..]).filter(|(low, _)| LOW.contains(low))?;
            Some((pair(high, low), length + more))
        });
        let length = match both {
            Some((character, length)) => {
                out.push_str(&format!("\\U{character:08x}"));
                length
            }
            None => {
                let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..length]);
                length
            }
        };
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// Writes what is between the quotes of a `U&` form.
fn decode(inside: &str, escape: char, quote: char, out: &mut String) -> Result<(), SqlError> {
    let bad = |message: &str| SqlError::new(SqlState::SYNTAX_ERROR, message);
    let mut high = None;
    let mut rest = inside;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let is_escaped = c == escape && !rest.starts_with(escape);
        if !is_escaped {
            if high.is_some() {
                return Err(bad("invalid Unicode surrogate pair"));
            }
            if c == escape {
                rest = &rest[c.len_utf8()..];
            }
            out.push(c);
            continue;
        }
        let (digits, length) = match rest.strip_prefix('+') {
            Some(behind) => (behind.get(..6), 7),
            None => (rest.get(..4), 4),
        };
        let number = digits
            .filter(|digits| digits.chars().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let number = number.ok_or_else(|| {
            bad("invalid Unicode escape").hint("Unicode escapes must be \\XXXX or \\+XXXXXX.")
        })?;
        rest = &rest[length..];
        let number = match high.take() {
            None if HIGH.contains(&number) => {
                high = Some(number);
                continue;
            }
            Some(high) if LOW.contains(&number) => pair(high, number),
            None if !LOW.contains(&number) => number,
            _ => return Err(bad("invalid Unicode surrogate pair")),
        };
        let c = char::from_u32(number).filter(|c| *c != '\0');
        let c = c.ok_or_else(|| bad("invalid Unicode escape value"))?;
        out.push(c);
        if c == quote {
            out.push(c);
        }
    }
    match high {
        Some(_) => Err(bad("invalid Unicode surrogate pair")),
        None => Ok(()),
    }
}
