//! Functions of text. What DataFusion does as PostgreSQL does it (trim, replace, translate)
//! stays DataFusion's.

use froglet_engine::SqlState;

use super::items::Items;
use super::overload::Overload;
use super::simple::{ANY, Out, int, text};
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::query::account::{VALUE_BYTES_MAX, admit, too_large};
use crate::types::cell::Cell;
use crate::types::oids::*;
use crate::types::output::cell_text;

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

/// The function that makes the text of a row, known to be one.
pub const ROW_TEXT: &str = "froglet_row_text";

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("length", &[TEXT], INT4, |_, c| Ok(characters(c))),
    Overload::new("length", &[BPCHAR], INT4, |_, c| Ok(unpadded(c))),
    Overload::new("length", &[BYTEA], INT4, |_, c| Ok(bytes(c, 1))),
    Overload::new("char_length", &[TEXT], INT4, |_, c| Ok(characters(c))),
    Overload::new("char_length", &[BPCHAR], INT4, |_, c| Ok(unpadded(c))),
    Overload::new("character_length", &[TEXT], INT4, |_, c| Ok(characters(c))),
    Overload::new("character_length", &[BPCHAR], INT4, |_, c| Ok(unpadded(c))),
    Overload::new("octet_length", &[TEXT], INT4, |_, c| Ok(bytes(c, 1))),
    Overload::new("octet_length", &[BPCHAR], INT4, |_, c| Ok(bytes(c, 1))),
    Overload::new("octet_length", &[BYTEA], INT4, |_, c| Ok(bytes(c, 1))),
    Overload::new("bit_length", &[TEXT], INT4, |_, c| Ok(bytes(c, 8))),
    Overload::new("bit_length", &[BYTEA], INT4, |_, c| Ok(bytes(c, 8))),
    Overload::new("substr", &[TEXT, INT4, INT4], TEXT, |_, c| substring(c)).optional(1),
    Overload::new("substring", &[TEXT, INT4, INT4], TEXT, |_, c| substring(c)).optional(1),
    Overload::new("overlay", &[TEXT, TEXT, INT4, INT4], TEXT, |_, c| overlay(c)).optional(1),
    Overload::new("strpos", &[TEXT, TEXT], INT4, |_, c| Ok(strpos(c))),
    Overload::new("position", &[TEXT, TEXT], INT4, |_, c| Ok(strpos(c))),
    Overload::new("left", &[TEXT, INT4], TEXT, |_, c| Ok(left(c))),
    Overload::new("right", &[TEXT, INT4], TEXT, |_, c| Ok(right(c))),
    Overload::new("lpad", &[TEXT, INT4, TEXT], TEXT, |s, c| padded(s, c, true)).optional(1),
    Overload::new("rpad", &[TEXT, INT4, TEXT], TEXT, |s, c| padded(s, c, false)).optional(1),
    Overload::new("repeat", &[TEXT, INT4], TEXT, repeat),
    Overload::new("split_part", &[TEXT, TEXT, INT4], TEXT, |_, c| split_part(c)),
    Overload::new("ascii", &[TEXT], INT4, |_, c| {
        Ok(Out::Int(text(c, 0).chars().next().map_or(0, |c| i64::from(u32::from(c)))))
    }),
    Overload::new("chr", &[INT4], TEXT, |_, c| chr(c)),
    Overload::new("to_hex", &[INT4], TEXT, |_, c| {
        Ok(Out::Text(format!("{:x}", int(c, 0).unwrap_or(0) as i32)))
    }),
    Overload::new("to_hex", &[INT8], TEXT, |_, c| {
        Ok(Out::Text(format!("{:x}", int(c, 0).unwrap_or(0))))
    }),
    Overload::new("concat", &[ANY], TEXT, |s, c| Ok(Out::Text(joined(s, "", c)?)))
        .variadic()
        .not_strict(),
    Overload::new("concat_ws", &[TEXT, ANY], TEXT, concat_ws).variadic().not_strict(),
    Overload::new("num_nulls", &[ANY], INT4, |_, c| Ok(Out::Int(nulls(c)))).variadic().not_strict(),
    Overload::new("num_nonnulls", &[ANY], INT4, |_, c| Ok(Out::Int(c.len() as i64 - nulls(c))))
        .variadic()
        .not_strict(),
    Overload::new("format", &[TEXT], TEXT, super::format::format),
    Overload::new("format", &[TEXT, ANY], TEXT, super::format::format).variadic().not_strict(),
    Overload::new(ROW_TEXT, &[ANY], TEXT, |_, c| Ok(Out::Text(row(c)))).variadic().not_strict(),
    Overload::new("row", &[ANY], RECORD, |_, c| Ok(Out::Text(row(c))))
        .variadic()
        .optional(1)
        .not_strict(),
    Overload::new("quote_literal", &[TEXT], TEXT, |_, c| {
        Ok(Out::Text(super::format::quote_literal(text(c, 0))))
    }),
    Overload::new("quote_literal", &[ANY], TEXT, |_, c| {
        Ok(Out::Text(super::format::quote_literal(&shown(&c[0]))))
    }),
    Overload::new("quote_nullable", &[TEXT], TEXT, |_, c| Ok(quote_nullable(c))).not_strict(),
    Overload::new("quote_nullable", &[ANY], TEXT, |_, c| Ok(quote_nullable(c))).not_strict(),
    Overload::new("like_escape", &[TEXT, TEXT], TEXT, |_, c| like_escape(c)),
    Overload::new("hashtext", &[TEXT], INT4, |_, c| {
        Ok(Out::Int(i64::from(super::hash::hash_bytes(text(c, 0).as_bytes()) as i32)))
    }),
    Overload::new("string_to_table", &[TEXT, TEXT, TEXT], TEXT, string_to_table)
        .optional(1)
        .not_strict()
        .set(),
];

/// A cell as text.
pub fn shown(cell: &Cell<'_>) -> String {
    let mut out = Vec::new();
    cell_text(cell, 0, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// 22023
pub fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// 54000
fn too_long(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

fn characters(cells: Cells<'_>) -> Out {
    Out::Int(text(cells, 0).chars().count() as i64)
}

/// Without the blanks that fill a char(n).
fn unpadded(cells: Cells<'_>) -> Out {
    Out::Int(text(cells, 0).trim_end_matches(' ').chars().count() as i64)
}

fn bytes(cells: Cells<'_>, bits: i64) -> Out {
    let length = match &cells[0] {
        Cell::Bytes(bytes) => bytes.len(),
        _ => text(cells, 0).len(),
    };
    Out::Int(length as i64 * bits)
}

/// The part of `length` items from position `from` (from 1) on, as a range of indexes.
pub fn window(items: usize, from: i64, length: Option<i64>) -> Result<(usize, usize), SqlError> {
    if length.is_some_and(|length| length < 0) {
        return Err(SqlError::new(SqlState::new("22011"), "negative substring length not allowed"));
    }
    let end = length.map_or(i64::MAX, |length| from.saturating_add(length));
    let index = |position: i64| usize::try_from(position.max(1) - 1).unwrap_or(0).min(items);
    Ok((index(from), index(end)))
}

fn substring(cells: Cells<'_>) -> Answer {
    let source = text(cells, 0);
    let (start, end) = window(source.len(), int(cells, 1).unwrap_or(1), int(cells, 2))?;
    let part = source.chars().skip(start).take(end.saturating_sub(start));
    Ok(Out::Text(part.collect()))
}

fn overlay(cells: Cells<'_>) -> Answer {
    let (source, new) = (text(cells, 0), text(cells, 1));
    let from = int(cells, 2).unwrap_or(1);
    let length = int(cells, 3).unwrap_or(new.chars().count() as i64);
    if from <= 0 {
        return Err(SqlError::new(SqlState::new("22011"), "negative substring length not allowed"));
    }
    let before = source.chars().take(usize::try_from(from - 1).unwrap_or(0));
    let rest = usize::try_from((from - 1).saturating_add(length)).unwrap_or(0);
    Ok(Out::Text(before.chain(new.chars()).chain(source.chars().skip(rest)).collect()))
}

fn strpos(cells: Cells<'_>) -> Out {
    let (source, wanted) = (text(cells, 0), text(cells, 1));
    Out::Int(source.find(wanted).map_or(0, |at| source[..at].chars().count() as i64 + 1))
}

/// How many characters a count from the one end means: a negative one leaves out as many.
fn count(source: &str, n: i64) -> usize {
    let wanted = if n < 0 { source.chars().count() as i64 + n } else { n };
    usize::try_from(wanted).unwrap_or(0)
}

fn left(cells: Cells<'_>) -> Out {
    let source = text(cells, 0);
    Out::Text(source.chars().take(count(source, int(cells, 1).unwrap_or(0))).collect())
}

fn right(cells: Cells<'_>) -> Out {
    let source = text(cells, 0);
    let wanted = count(source, int(cells, 1).unwrap_or(0));
    let all = source.chars().count();
    Out::Text(source.chars().skip(all.saturating_sub(wanted)).collect())
}

fn padded(session: &dyn SessionFunctions, cells: Cells<'_>, front: bool) -> Answer {
    let source = text(cells, 0);
    let width = usize::try_from(int(cells, 1).unwrap_or(0)).unwrap_or(0);
    let fill: Vec<char> = if cells.len() > 2 { text(cells, 2) } else { " " }.chars().collect();
    if width > VALUE_BYTES_MAX / 4 {
        return Err(too_large());
    }
    let length = source.chars().count();
    if length >= width || fill.is_empty() {
        return Ok(Out::Text(source.chars().take(width).collect()));
    }
    let longest = fill.iter().map(|c| c.len_utf8()).max().unwrap_or(1);
    admit(session, source.len() + longest * (width - length))?;
    let padding = fill.iter().cycle().take(width - length);
    Ok(Out::Text(match front {
        true => padding.copied().chain(source.chars()).collect(),
        false => source.chars().chain(padding.copied()).collect(),
    }))
}

fn repeat(session: &dyn SessionFunctions, cells: Cells<'_>) -> Answer {
    let source = text(cells, 0);
    let times = usize::try_from(int(cells, 1).unwrap_or(0)).unwrap_or(0);
    admit(session, source.len().saturating_mul(times))?;
    Ok(Out::Text(source.repeat(times)))
}

fn split_part(cells: Cells<'_>) -> Answer {
    let (source, by, at) = (text(cells, 0), text(cells, 1), int(cells, 2).unwrap_or(0));
    if at == 0 {
        return Err(invalid("field position must not be zero"));
    }
    let parts: Vec<&str> = match by {
        _ if source.is_empty() => Vec::new(),
        "" => vec![source],
        by => source.split(by).collect(),
    };
    let index = if at > 0 { at - 1 } else { parts.len() as i64 + at };
    let part = usize::try_from(index).ok().and_then(|at| parts.get(at));
    Ok(Out::Text(part.copied().unwrap_or_default().to_owned()))
}

fn chr(cells: Cells<'_>) -> Answer {
    let code = int(cells, 0).unwrap_or(0);
    if code == 0 {
        return Err(too_long("null character not permitted"));
    }
    let known = u32::try_from(code).ok().and_then(char::from_u32);
    match known {
        Some(c) => Ok(Out::Text(c.to_string())),
        None if code < 0 => Err(invalid("character number must be positive")),
        None => Err(too_long(format!("requested character too large for encoding: {code}"))),
    }
}

fn joined(
    session: &dyn SessionFunctions,
    by: &str,
    cells: &[Cell<'_>],
) -> Result<String, SqlError> {
    // Texts are looked at before any is copied.
    let texts = cells.iter().map(|cell| match cell {
        Cell::Text(text) => text.len() + by.len(),
        _ => by.len(),
    });
    admit(session, texts.sum())?;
    let known = cells.iter().filter(|cell| !matches!(cell, Cell::Null));
    Ok(known.map(shown).collect::<Vec<_>>().join(by))
}

fn concat_ws(session: &dyn SessionFunctions, cells: Cells<'_>) -> Answer {
    Ok(match &cells[0] {
        Cell::Null => Out::Null,
        _ => Out::Text(joined(session, text(cells, 0), &cells[1..])?),
    })
}

/// The text of a row: a field in quotes where it would not read back otherwise.
fn row(cells: Cells<'_>) -> String {
    let special = |c: char| c.is_whitespace() || matches!(c, '"' | '\\' | '(' | ')' | ',');
    let field = |cell: &Cell<'_>| match cell {
        Cell::Null => String::new(),
        cell => {
            let text = shown(cell);
            match text.is_empty() || text.contains(special) {
                true => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\"")),
                false => text,
            }
        }
    };
    format!("({})", cells.iter().map(field).collect::<Vec<_>>().join(","))
}

fn nulls(cells: Cells<'_>) -> i64 {
    cells.iter().filter(|cell| matches!(cell, Cell::Null)).count() as i64
}

fn quote_nullable(cells: Cells<'_>) -> Out {
    Out::Text(match &cells[0] {
        Cell::Null => "NULL".to_owned(),
        cell => super::format::quote_literal(&shown(cell)),
    })
}

/// A pattern of LIKE whose escape is a backslash, of one with another.
fn like_escape(cells: Cells<'_>) -> Answer {
    let (pattern, escape) = (text(cells, 0), text(cells, 1));
    let mut chars = escape.chars();
    let escape = chars.next();
    if chars.next().is_some() {
        return Err(SqlError::new(SqlState::new("22025"), "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            c if Some(c) == escape => {
                let escaped = rest.next().ok_or_else(|| {
                    SqlError::new(
                        SqlState::new("22025"),
                        "LIKE pattern must not end with escape character",
                    )
                })?;
                out.extend(['\\', escaped]);
            }
            '\\' => out.push_str("\\\\"),
            c => out.push(c),
        }
    }
    Ok(Out::Text(out))
}

fn string_to_table(session: &dyn SessionFunctions, cells: Cells<'_>) -> Answer {
    if matches!(cells[0], Cell::Null) {
        return Ok(Out::Null);
    }
    let source = text(cells, 0);
    let null = match cells.get(2) {
        Some(Cell::Text(text)) => Some(*text),
        _ => None,
    };
    let mut items = Items::new(session);
    let mut add = |part: &str| {
        items.push(if null == Some(part) { Out::Null } else { Out::Text(part.to_owned()) })
    };
    match &cells[1] {
        _ if source.is_empty() => {}
        Cell::Text("") => add(source)?,
        Cell::Text(by) => source.split(by).try_for_each(add)?,
        _ => source.split_inclusive(|_: char| true).try_for_each(add)?,
    }
    Ok(items.list())
}
