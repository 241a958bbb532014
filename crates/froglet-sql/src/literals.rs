//! Finds the literals of a statement's text without parsing it.
//!
//! ```text
//!   UPDATE t SET a = a + -5 WHERE name = 'it''s'
//!                         ▲              ▲
//!   key        UPDATE t SET a = a + -•i WHERE name = •s        • is the byte 1, then the class
//!   literals   5  (integer)          'it''s'  (string)
//! ```
//!
//! Two texts with one key are made of the same tokens but for the values of their literals. What
//! this module is not certain of (comments, `E'…'`, dollar quotes, parameters, letters beyond
//! ASCII outside of strings, `1.`, `1e3`, several statements, …) has no key at all. What it finds
//! is what sqlparser's tokenizer finds; a test compares the two on random texts.

use std::borrow::Cow;

/// Stands before the class of a literal in a key. No text with a key contains it outside strings.
const LIFTED: u8 = 1;
/// The longest name that is not cut, in bytes.
const MAX_NAME_BYTES: usize = 63;
/// A statement with more literals has no key.
const MAX_LITERALS: usize = 64;

/// What a literal is by PostgreSQL's rule. Part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A whole number that fits into int4.
    Int4,
    /// A larger one that fits into int8.
    Int8,
    /// `'…'`, of unknown type until something gives it one.
    Text,
}

/// A literal in a text. A sign before a number is no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub(crate) class: Class,
    /// Bytes of the text, a string's quotes included.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// A number's value.
    pub(crate) number: i64,
    /// A string with `''` inside.
    doubled: bool,
}

impl Literal {
    /// A string's value.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        debug_assert_eq!(self.class, Class::Text, "a number has no text");
        let inside = &text[self.start + 1..self.end - 1];
        if self.doubled { Cow::Owned(inside.replace("''", "'")) } else { Cow::Borrowed(inside) }
    }
}

/// A text's key and literals, in buffers that are used again.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) key: Vec<u8>,
    pub(crate) literals: Vec<Literal>,
}

impl Scanned {
    /// Scans a text; `None` if it has no key.
    pub(crate) fn scan(&mut self, text: &str) -> Option<()> {
        self.key.clear();
        self.literals.clear();
        let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, scanned: self };
        while scanner.at < scanner.bytes.len() {
            scanner.token()?;
        }
        Some(())
    }
}

struct Scanner<'t, 's> {
    bytes: &'t [u8],
    at: usize,
    scanned: &'s mut Scanned,
}

impl Scanner<'_, '_> {
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(b' ')
    }

    /// Passes everything up to here into the key.
    fn copy_to(&mut self, end: usize) {
        self.scanned.key.extend_from_slice(&self.bytes[self.at..end]);
        self.at = end;
    }

    fn token(&mut self) -> Option<()> {
        let next = self.byte(self.at + 1);
        match self.byte(self.at) {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            b'0'..=b'9' => self.number(),
            b'\'' => self.string(),
            b'"' => self.quoted_name(),
            b';' => self.end_of_statement(),
            // Comments; a fraction without a whole part, or a name of digits.
            b'-' if next == b'-' => None,
            b'/' if next == b'*' => None,
            b'.' if next.is_ascii_digit() || next == b'_' => None,
            b':' if next == b':' => {
                self.copy_to(self.at + 2);
                Some(())
            }
            b' ' | b'\t' | b'\n' | b'(' | b')' | b',' | b'.' | b'=' | b'<' | b'>' | b'+' | b'-'
            | b'*' | b'/' | b'%' | b'!' | b'|' | b'[' | b']' => {
                self.copy_to(self.at + 1);
                Some(())
            }
            _ => None,
        }
    }

    /// What may not follow a word or number directly: it would belong to it.
    fn apart(&self, end: usize) -> Option<()> {
        let next = self.byte(end);
        let belongs = next.is_ascii_alphanumeric() || !next.is_ascii();
        (!belongs && !matches!(next, b'_' | b'$' | b'\'' | b'"' | b'&')).then_some(())
    }

    fn word(&mut self) -> Option<()> {
        let rest = &self.bytes[self.at..];
        let part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let length = rest.iter().position(|b| !part(b)).unwrap_or(rest.len());
        let end = self.at + length;
        self.apart(end).filter(|()| length <= MAX_NAME_BYTES)?;
        self.copy_to(end);
        Some(())
    }

    fn digits(&self, from: usize) -> usize {
        let rest = &self.bytes[from..];
        from + rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len())
    }

    fn number(&mut self) -> Option<()> {
        let mut end = self.digits(self.at);
        let whole = self.byte(end) != b'.';
        if !whole {
            let fraction = end + 1;
            end = self.digits(fraction);
            if end == fraction || self.byte(end) == b'.' {
                return None;
            }
        }
        self.apart(end)?;
        let digits = std::str::from_utf8(&self.bytes[self.at..end]).expect("digits are ASCII");
        match digits.parse::<i64>() {
            Ok(number) if whole => {
                let int4 = i32::try_from(number).is_ok();
                let class = if int4 { Class::Int4 } else { Class::Int8 };
                self.literal(class, end, number, false)
            }
            // Numerics stay as they are, in the key.
            _ => {
                self.copy_to(end);
                Some(())
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        let mut end = self.at + 1;
        let mut doubled = false;
        loop {
            end += self.bytes.get(end..)?.iter().position(|b| *b == b'\'')? + 1;
            if self.byte(end) != b'\'' {
                break;
            }
            doubled = true;
            end += 1;
        }
        // Strings that follow each other may be one.
        let after = self.bytes[end..].iter().find(|b| !b.is_ascii_whitespace());
        if after == Some(&b'\'') || self.bytes[self.at..end].contains(&0) {
            return None;
        }
        self.literal(Class::Text, end, 0, doubled)
    }

    fn literal(&mut self, class: Class, end: usize, number: i64, doubled: bool) -> Option<()> {
        if self.scanned.literals.len() >= MAX_LITERALS {
            return None;
        }
        let literal = Literal { class, start: self.at, end, number, doubled };
        self.scanned.literals.push(literal);
        let letter = match class {
            Class::Int4 => b'i',
            Class::Int8 => b'b',
            Class::Text => b's',
        };
        self.scanned.key.extend_from_slice(&[LIFTED, letter]);
        self.at = end;
        Some(())
    }

    fn quoted_name(&mut self) -> Option<()> {
        let rest = &self.bytes[self.at + 1..];
        let length = rest.iter().position(|b| *b == b'"')?;
        let plain = rest[..length].iter().all(|b| matches!(b, b' '..=b'~'));
        let end = self.at + length + 2;
        if !plain || length > MAX_NAME_BYTES || matches!(self.byte(end), b'"' | b'\'') {
            return None;
        }
        self.copy_to(end);
        Some(())
    }

    /// Only the last statement of a text may be followed by a semicolon.
    fn end_of_statement(&mut self) -> Option<()> {
        let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\n');
        self.bytes[self.at + 1..].iter().all(blank).then(|| self.copy_to(self.bytes.len()))
    }
}

#[cfg(test)]
#[path = "literals_tests.rs"]
mod tests;
