//! parse_ident, and Unicode's normal forms.

use unicode_normalization::UnicodeNormalization;

use super::overload::Overload;
use super::simple::{Out, text, truth};
use super::strings::invalid;
use crate::error::SqlError;
use crate::types::cell::Cell;
use crate::types::oids::{BOOL, TEXT, TEXT_ARRAY};

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("parse_ident", &[TEXT, BOOL], TEXT_ARRAY, |_, c| {
        parse_ident(text(c, 0), truth(c, 1).unwrap_or(true)).map(Out::Texts)
    })
    .optional(1),
    Overload::new("normalize", &[TEXT, TEXT], TEXT, |_, c| {
        normalized(text(c, 0), form(c)?).map(Out::Text)
    })
    .optional(1),
    Overload::new("is_normalized", &[TEXT, TEXT], BOOL, is_normalized).optional(1),
];

fn form<'a>(cells: &'a [Cell<'_>]) -> Result<&'a str, SqlError> {
    Ok(if cells.len() > 1 { text(cells, 1) } else { "NFC" })
}

/// A text in a normal form.
fn normalized(text: &str, form: &str) -> Result<String, SqlError> {
    Ok(match form.to_ascii_uppercase().as_str() {
        "NFC" => text.nfc().collect(),
        "NFD" => text.nfd().collect(),
        "NFKC" => text.nfkc().collect(),
        "NFKD" => text.nfkd().collect(),
        _ => return Err(invalid(format!("invalid normalization form: {form}"))),
    })
}

fn is_normalized(_: &dyn crate::context::SessionFunctions, cells: Cells<'_>) -> Answer {
    Ok(Out::Bool(normalized(text(cells, 0), form(cells)?)? == text(cells, 0)))
}

/// The parts of a qualified name. What stands behind it counts if `strict`.
fn parse_ident(whole: &str, strict: bool) -> Result<Vec<String>, SqlError> {
    let bad = |detail: Option<String>| {
        let error = invalid(format!("string is not a valid identifier: \"{whole}\""));
        detail.map_or(error.clone(), |detail| error.detail(detail))
    };
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let is_part = |c: char| is_start(c) || c.is_ascii_digit() || c == '$';
    let mut parts = Vec::new();
    let mut rest = whole.trim_start_matches(is_space);
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut from = quoted;
            loop {
                let close = from
                    .find('"')
                    .ok_or_else(|| bad(Some("String has unclosed double quotes.".to_owned())))?;
                part.push_str(&from[..close]);
                from = &from[close + 1..];
                match from.strip_prefix('"') {
                    Some(behind) => {
                        part.push('"');
                        from = behind;
                    }
                    None => break,
                }
            }
            if part.is_empty() {
                return Err(bad(Some("Quoted identifier must not be empty.".to_owned())));
            }
            parts.push(part);
            rest = from;
        } else if rest.starts_with(is_start) {
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            parts.push(rest[..end].to_ascii_lowercase());
            rest = &rest[end..];
        } else {
            return Err(bad(match (rest.starts_with('.'), parts.is_empty()) {
                (true, _) => Some("No valid identifier before \".\".".to_owned()),
                (false, false) => Some("No valid identifier after \".\".".to_owned()),
                (false, true) => None,
            }));
        }
        rest = rest.trim_start_matches(is_space);
        match rest.strip_prefix('.') {
            Some(behind) => rest = behind.trim_start_matches(is_space),
            None if rest.is_empty() || !strict => return Ok(parts),
            None => return Err(bad(None)),
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}
