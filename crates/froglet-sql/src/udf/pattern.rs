//! PostgreSQL's regular expressions, as the crate `regex` reads them.
//!
//! The two agree on most of the syntax. Translated is what they write or mean differently: `\m`, `\M`,
//! `\y` and `\Z`, a `{` that is no bound, brackets, the options. Not there: references back and looks
//! around (0A000), which no automaton follows. Of alternatives the first counts that matches, not the
//! longest one.

use std::cell::RefCell;
use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use froglet_engine::SqlState;
use regex::{Captures, Regex, RegexBuilder};

use super::strings::invalid;
use crate::error::SqlError;

/// Compiled expressions that a thread keeps.
const KEPT: usize = 32;

/// A compiled expression and what its options say beside it.
#[derive(Clone)]
pub struct Pattern {
    regex: Arc<Regex>,
    /// `g`
    pub is_global: bool,
}

thread_local! {
    static RECENT: RefCell<Vec<(String, String, Pattern)>> = const { RefCell::new(Vec::new()) };
}

impl Pattern {
    /// Compiles an expression with options (`gin`), or takes it from those compiled lately.
    pub fn new(pattern: &str, options: &str) -> Result<Pattern, SqlError> {
        let known = RECENT.with_borrow_mut(|recent| {
            let at = recent.iter().position(|(p, o, _)| p == pattern && o == options)?;
            let entry = recent.remove(at);
            let found = entry.2.clone();
            recent.push(entry);
            Some(found)
        });
        if let Some(found) = known {
            return Ok(found);
        }
        let compiled = compile(pattern, options)?;
        RECENT.with_borrow_mut(|recent| {
            if recent.len() >= KEPT {
                recent.remove(0);
            }
            recent.push((pattern.to_owned(), options.to_owned(), compiled.clone()));
        });
        Ok(compiled)
    }

    /// The matches from a byte on, one after the other. After an empty one the search goes on at the next
    /// character.
    pub fn matches<'t>(&self, text: &'t str, from: usize) -> Matches<'_, 't> {
        Matches { pattern: self, text, at: Some(from) }
    }

    /// Subexpressions in parentheses.
    pub fn groups(&self) -> usize {
        self.regex.captures_len() - 1
    }

    /// Whether it matches anywhere.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// See [`Pattern::matches`].
pub struct Matches<'p, 't> {
    pattern: &'p Pattern,
    text: &'t str,
    at: Option<usize>,
}

impl<'t> Iterator for Matches<'_, 't> {
    type Item = Captures<'t>;

    fn next(&mut self) -> Option<Captures<'t>> {
        let found = self.pattern.regex.captures_at(self.text, self.at?);
        self.at = found.as_ref().and_then(|found| {
            let whole = found.get_match();
            if !whole.is_empty() {
                return Some(whole.end());
            }
            let next = self.text[whole.end()..].chars().next()?;
            Some(whole.end() + next.len_utf8())
        });
        found
    }
}

/// The pattern as an operator of DataFusion takes it. An error if it is none.
pub fn for_operator(pattern: &str) -> Result<String, SqlError> {
    Pattern::new(pattern, "")?;
    let translated = match pattern.strip_prefix("***=") {
        Some(rest) => return Ok(regex::escape(rest)),
        None => translate(pattern.strip_prefix("***:").unwrap_or(pattern))?,
    };
    // A dot stands for a new line too.
    Ok(if translated.contains('.') { format!("(?s){translated}") } else { translated })
}

/// 2201B
fn malformed(reason: &str) -> SqlError {
    SqlError::new(SqlState::new("2201B"), format!("invalid regular expression: {reason}"))
}

fn compile(pattern: &str, options: &str) -> Result<Pattern, SqlError> {
    let mut is_global = false;
    let mut builder_options = (false, true, false, false);
    let mut literal = false;
    for option in options.chars() {
        let (insensitive, dot_all, multi_line, expanded) = &mut builder_options;
        match option {
            'g' => is_global = true,
            'i' => *insensitive = true,
            'c' => *insensitive = false,
            'n' | 'm' => (*dot_all, *multi_line) = (false, true),
            's' => (*dot_all, *multi_line) = (true, false),
            'p' => (*dot_all, *multi_line) = (false, false),
            'w' => (*dot_all, *multi_line) = (true, true),
            'x' => *expanded = true,
            't' => *expanded = false,
            'q' => literal = true,
            'e' => {}
            'b' => return Err(SqlError::unsupported("a basic regular expression")),
            other => {
                return Err(invalid(format!("invalid regular expression option: \"{other}\"")));
            }
        }
    }
    let (insensitive, dot_all, multi_line, expanded) = builder_options;
    let translated = match (literal, pattern.strip_prefix("***=")) {
        (true, _) => regex::escape(pattern),
        (_, Some(rest)) => regex::escape(rest),
        _ => translate(pattern.strip_prefix("***:").unwrap_or(pattern))?,
    };
    let regex = RegexBuilder::new(&translated)
        .case_insensitive(insensitive)
        .dot_matches_new_line(dot_all)
        .multi_line(multi_line)
        .ignore_whitespace(expanded)
        .build()
        .map_err(|e| match e {
            regex::Error::CompiledTooBig(_) => malformed("regular expression is too complex"),
            e => malformed(e.to_string().lines().last().unwrap_or_default().trim()),
        })?;
    Ok(Pattern { regex: Arc::new(regex), is_global })
}

fn translate(pattern: &str) -> Result<String, SqlError> {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escape(&mut rest, &mut out)?,
            '[' => bracket(&mut rest, &mut out)?,
            '(' => group(&mut rest, &mut out)?,
            '{' if !rest.peek().is_some_and(char::is_ascii_digit) => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    Ok(out)
}

fn escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), SqlError> {
    let c = rest.next().ok_or_else(|| malformed("invalid escape \\ sequence"))?;
    match c {
        'y' => out.push_str("\\b"),
        'Y' => out.push_str("\\B"),
        'm' => out.push_str("\\b{start}"),
        'M' => out.push_str("\\b{end}"),
        'Z' => out.push_str("\\z"),
        'B' => out.push_str("\\\\"),
        'e' => out.push_str("\\x1B"),
        'b' => out.push_str("\\x08"),
        c if shorthand(c, out) => {}
        '1'..='9' => return Err(SqlError::unsupported("a reference back in a regular expression")),
        c if c.is_alphanumeric() => out.extend(['\\', c]),
        c => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
    }
    Ok(())
}

fn group(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), SqlError> {
    out.push('(');
    if rest.next_if_eq(&'?').is_none() {
        return Ok(());
    }
    out.push('?');
    match rest.peek() {
        Some('=' | '!' | '<') => {
            Err(SqlError::unsupported("looking around in a regular expression"))
        }
        _ => Ok(()),
    }
}

fn bracket(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), SqlError> {
    let unbalanced = || malformed("brackets [] not balanced");
    out.push('[');
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    // A bracket that comes first is one of the characters.
    if rest.next_if_eq(&']').is_some() {
        out.push_str("\\]");
    }
    loop {
        match rest.next().ok_or_else(unbalanced)? {
            ']' => {
                out.push(']');
                return Ok(());
            }
            '[' => match rest.peek() {
                Some(':') => class(rest, out)?,
                Some('=' | '.') => {
                    return Err(SqlError::unsupported("a collating element"));
                }
                _ => out.push_str("\\["),
            },
            '\\' => match rest.next().ok_or_else(unbalanced)? {
                c if shorthand(c, out) => {}
                'b' => out.push_str("\\x08"),
                c if c.is_alphanumeric() => out.extend(['\\', c]),
                c => out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
            },
            c @ ('&' | '~' | '^') => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
}

/// `[:alpha:]`
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), SqlError> {
    let mut name = String::from("[");
    for c in rest.by_ref() {
        name.push(c);
        if name.ends_with(":]") && name.len() > 3 {
            let found = CLASSES.iter().find(|(known, _)| *known == &name[2..name.len() - 2]);
            let (_, set) = found.ok_or_else(|| malformed("invalid character class"))?;
            out.push_str(set);
            return Ok(());
        }
    }
    Err(malformed("invalid character class"))
}

/// The classes of the C library, of all of Unicode: digits are those of ASCII, those of other scripts are letters;
/// blanks that do not break are none; punctuation is what else is seen.
const CLASSES: &[(&str, &str)] = &[
    ("alpha", r"[[\p{Alphabetic}\p{Nd}]--[0-9\u{363}-\u{36F}]]"),
    ("alnum", ALNUM),
    ("word", WORD),
    ("digit", "[0-9]"),
    ("xdigit", "[0-9A-Fa-f]"),
    ("upper", r"[\p{Uppercase}\p{Changes_When_Lowercased}]"),
    ("lower", r"[\p{Lowercase}\p{Changes_When_Uppercased}]"),
    ("space", SPACE),
    ("blank", r"[\t ]"),
    ("cntrl", r"[\p{Cc}\p{Zl}\p{Zp}]"),
    (
        "punct",
        r"[[[^\p{Cc}\p{Cn}\s]\u{A0}\u{2007}\u{202F}]--[[\p{Alphabetic}\p{Nd}]--[\u{363}-\u{36F}]]]",
    ),
    ("graph", r"[[^\p{Cc}\p{Cn}\s]\u{A0}\u{2007}\u{202F}]"),
    ("print", r"[^\p{Cc}\p{Cn}\p{Zl}\p{Zp}]"),
    ("ascii", r"[\x00-\x7F]"),
];
// Unicode counts the letters above others among the letters only lately.
const ALNUM: &str = r"[[\p{Alphabetic}\p{Nd}]--[\u{363}-\u{36F}]]";
const WORD: &str = r"[[\p{Alphabetic}\p{Nd}_]--[\u{363}-\u{36F}]]";
const SPACE: &str = r"[\s--[\u{A0}\u{2007}\u{202F}\u{85}]]";

/// Writes the class that a letter behind a backslash stands for, if it does.
fn shorthand(letter: char, out: &mut String) -> bool {
    let set = match letter.to_ascii_lowercase() {
        'd' => "[0-9]",
        's' => SPACE,
        'w' => WORD,
        _ => return false,
    };
    match letter.is_ascii_uppercase() {
        true => out.extend(["[^", set, "]"]),
        false => out.push_str(set),
    }
    true
}
