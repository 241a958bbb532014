//! Functions of regular expressions.

use regex::Captures;

use super::items::Items;
use super::overload::Overload;
use super::pattern::Pattern;
use super::simple::{ANY, Out, int, text};
use super::strings::invalid;
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::query::account::Growing;
use crate::types::cell::Cell;
use crate::types::oids::*;

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

const TEXT_3: &[u32] = &[TEXT, TEXT, TEXT];

/// What SIMILAR TO asks, of a text as it is.
pub const SIMILAR: &str = "froglet_similar";

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("substring", &[TEXT, TEXT], TEXT, |_, c| substring(c)),
    Overload::new("regexp_replace", TEXT_3, TEXT, |s, c| replace(s, c, "", 1, None)),
    Overload::new("regexp_replace", &[TEXT, TEXT, TEXT, TEXT], TEXT, |s, c| {
        replace(s, c, text(c, 3), 1, None)
    }),
    Overload::new("regexp_replace", &[TEXT, TEXT, TEXT, INT4], TEXT, |s, c| {
        replace(s, c, "", position(c, 3, "start")?, Some(1))
    }),
    Overload::new("regexp_replace", &[TEXT, TEXT, TEXT, INT4, INT4, TEXT], TEXT, |s, c| {
        let number = int(c, 4).unwrap_or(1);
        if number < 0 {
            return Err(bad("n", number));
        }
        replace(s, c, text(c, 5), position(c, 3, "start")?, Some(number))
    })
    .optional(1),
    Overload::new("regexp_match", TEXT_3, TEXT_ARRAY, |_, c| first_match(c)).optional(1),
    Overload::new("regexp_matches", TEXT_3, TEXT_ARRAY, |s, c| all_matches(s, c)).optional(1).set(),
    Overload::new("regexp_split_to_array", TEXT_3, TEXT_ARRAY, |s, c| split(s, c, "array"))
        .optional(1),
    Overload::new("regexp_split_to_table", TEXT_3, TEXT, |s, c| split(s, c, "table"))
        .optional(1)
        .set(),
    Overload::new("regexp_like", TEXT_3, BOOL, |_, c| {
        let pattern = single(c, 2, "regexp_like")?;
        Ok(Out::Bool(pattern.is_match(text(c, 0))))
    })
    .optional(1),
    Overload::new(SIMILAR, &[ANY, TEXT], BOOL, |_, c| {
        Ok(Out::Bool(Pattern::new(text(c, 1), "s")?.is_match(text(c, 0))))
    }),
    Overload::new("regexp_count", &[TEXT, TEXT, INT4, TEXT], INT4, |_, c| {
        let pattern = single(c, 3, "regexp_count")?;
        let from = start(c, 2)?;
        let count = from.map_or(0, |from| pattern.matches(text(c, 0), from).count());
        Ok(Out::Int(count as i64))
    })
    .optional(2),
    Overload::new("regexp_substr", &[TEXT, TEXT, INT4, INT4, TEXT, INT4], TEXT, |_, c| {
        let found = nth(c, 4, 5, "regexp_substr")?;
        Ok(found.map(|(start, end)| text(c, 0)[start..end].to_owned()).into())
    })
    .optional(4),
    Overload::new("regexp_instr", &[TEXT, TEXT, INT4, INT4, INT4, TEXT, INT4], INT4, |_, c| {
        instr(c)
    })
    .optional(5),
    Overload::new("similar_to_escape", &[TEXT, TEXT], TEXT, |_, c| {
        similar(text(c, 0), if c.len() > 1 { text(c, 1) } else { "\\" }).map(Out::Text)
    })
    .optional(1),
];

fn bad(name: &str, value: i64) -> SqlError {
    invalid(format!("invalid value for parameter \"{name}\": {value}"))
}

/// A position, from 1, that an argument gives.
fn position(cells: Cells<'_>, at: usize, name: &str) -> Result<i64, SqlError> {
    match int(cells, at) {
        None => Ok(1),
        Some(value) if value < 1 => Err(bad(name, value)),
        Some(value) => Ok(value),
    }
}

/// The byte where the character of a position (from 1) begins; `None` past the end.
fn byte_of(text: &str, position: i64) -> Option<usize> {
    let skip = usize::try_from(position - 1).ok()?;
    let ends = std::iter::once(text.len());
    text.char_indices().map(|(at, _)| at).chain(ends).nth(skip)
}

fn start(cells: Cells<'_>, at: usize) -> Result<Option<usize>, SqlError> {
    Ok(byte_of(text(cells, 0), position(cells, at, "start")?))
}

/// The pattern of a function that knows no `g`.
fn single(cells: Cells<'_>, options: usize, function: &str) -> Result<Pattern, SqlError> {
    let pattern = Pattern::new(text(cells, 1), text(cells, options))?;
    if pattern.is_global {
        return Err(invalid(format!("{function}() does not support the \"global\" option")));
    }
    Ok(pattern)
}

/// The first subexpression of a match, or all of it if there are none.
fn first<'t>(found: &Captures<'t>) -> Option<&'t str> {
    found.get(usize::from(found.len() > 1)).map(|part| part.as_str())
}

fn substring(cells: Cells<'_>) -> Answer {
    let pattern = Pattern::new(text(cells, 1), "")?;
    let found = pattern.matches(text(cells, 0), 0).next();
    Ok(found.and_then(|found| first(&found).map(str::to_owned)).into())
}

/// `only`: which of the matches; 0 is all of them, nothing is the first or, with `g`, all.
fn replace(
    session: &dyn SessionFunctions,
    cells: Cells<'_>,
    options: &str,
    from: i64,
    only: Option<i64>,
) -> Answer {
    let source = text(cells, 0);
    if let (4, Some(digit)) = (cells.len(), options.chars().next().filter(char::is_ascii_digit)) {
        return Err(invalid(format!("invalid regular expression option: \"{digit}\"")).hint(
            "If you meant to use regexp_replace() with a start parameter, \
             cast the fourth argument to integer explicitly.",
        ));
    }
    let pattern = Pattern::new(text(cells, 1), options)?;
    let only = only.unwrap_or(if pattern.is_global { 0 } else { 1 });
    let mut out = String::with_capacity(source.len());
    let mut growing = Growing::new(session);
    let mut end = 0;
    let from = byte_of(source, from).unwrap_or(source.len() + 1);
    let matches = (from <= source.len()).then(|| pattern.matches(source, from));
    for (number, found) in (1i64..).zip(matches.into_iter().flatten()) {
        if only != 0 && number != only {
            continue;
        }
        let whole = found.get_match();
        out.push_str(&source[end..whole.start()]);
        substitute(text(cells, 2), &found, &mut out);
        growing.at(out.len())?;
        end = whole.end();
        if number == only {
            break;
        }
    }
    out.push_str(&source[end..]);
    Ok(Out::Text(out))
}

/// The replacement: `\1` to `\9` are subexpressions, `\&` is the whole match.
fn substitute(replacement: &str, found: &Captures<'_>, out: &mut String) {
    let mut rest = replacement.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('&') => out.push_str(&found[0]),
            Some(digit @ '1'..='9') => {
                let part = found.get(digit as usize - '0' as usize);
                out.push_str(part.map_or("", |part| part.as_str()));
            }
            Some('\\') | None => out.push('\\'),
            Some(other) => out.extend(['\\', other]),
        }
    }
}

fn parts(found: &Captures<'_>) -> Out {
    let part = |at| {
        found
            .get(at)
            .map_or(Out::Null, |part: regex::Match<'_>| Out::Text(part.as_str().to_owned()))
    };
    Out::List(match found.len() {
        1 => vec![part(0)],
        groups => (1..groups).map(part).collect(),
    })
}

fn first_match(cells: Cells<'_>) -> Answer {
    let pattern = single(cells, 2, "regexp_match")
        .map_err(|e| e.hint("Use the regexp_matches function instead."))?;
    let found = pattern.matches(text(cells, 0), 0).next();
    Ok(found.map_or(Out::Null, |found| parts(&found)))
}

fn all_matches(session: &dyn SessionFunctions, cells: Cells<'_>) -> Answer {
    let pattern = Pattern::new(text(cells, 1), text(cells, 2))?;
    let most = if pattern.is_global { usize::MAX } else { 1 };
    let found = pattern.matches(text(cells, 0), 0).take(most);
    Items::of(session, found.map(|found| parts(&found)))
}

/// Empty matches at the ends, or beside another match, part nothing.
fn split(session: &dyn SessionFunctions, cells: Cells<'_>, kind: &str) -> Answer {
    let source = text(cells, 0);
    let pattern = single(cells, 2, &format!("regexp_split_to_{kind}"))?;
    let mut items = Items::new(session);
    let mut end = 0;
    for found in pattern.matches(source, 0) {
        let whole = found.get_match();
        let at_an_end = whole.start() == end || whole.start() >= source.len();
        if whole.is_empty() && at_an_end {
            continue;
        }
        items.push(Out::Text(source[end..whole.start()].to_owned()))?;
        end = whole.end();
    }
    items.push(Out::Text(source[end..].to_owned()))?;
    Ok(items.list())
}

/// Where the wanted match, or the wanted part of it, is.
fn nth(
    cells: Cells<'_>,
    options: usize,
    part: usize,
    function: &str,
) -> Result<Option<(usize, usize)>, SqlError> {
    let from = start(cells, 2)?;
    let number = position(cells, 3, "n")?;
    let group = int(cells, part).unwrap_or(0);
    if group < 0 {
        return Err(bad("subexpr", group));
    }
    let pattern = single(cells, options, function)?;
    let (Some(from), Ok(number), Ok(group)) =
        (from, usize::try_from(number - 1), usize::try_from(group))
    else {
        return Ok(None);
    };
    let found = pattern.matches(text(cells, 0), from).nth(number);
    let found = found.filter(|_| group <= pattern.groups());
    Ok(found.and_then(|found| found.get(group).map(|part| (part.start(), part.end()))))
}

fn instr(cells: Cells<'_>) -> Answer {
    let after = match int(cells, 4).unwrap_or(0) {
        after @ (0 | 1) => after == 1,
        other => return Err(bad("endoption", other)),
    };
    let found = nth(cells, 5, 6, "regexp_instr")?;
    let position = found.map_or(0, |(start, end)| {
        let at = if after { end } else { start };
        text(cells, 0)[..at].chars().count() as i64 + 1
    });
    Ok(Out::Int(position))
}

/// A pattern of SIMILAR TO as a regular expression.
fn similar(pattern: &str, escape: &str) -> Result<String, SqlError> {
    let mut chars = escape.chars();
    let escape = chars.next();
    if chars.next().is_some() {
        return Err(SqlError::new(froglet_engine::SqlState::new("22025"), "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    let mut out = String::from("^(?:");
    let mut rest = pattern.chars();
    let mut in_brackets = false;
    while let Some(c) = rest.next() {
        match c {
            c if Some(c) == escape => {
                if let Some(next) = rest.next() {
                    out.push_str(&regex::escape(next.encode_utf8(&mut [0; 4])));
                }
            }
            ']' if in_brackets => {
                in_brackets = false;
                out.push(']');
            }
            '\\' => out.push_str("\\\\"),
            c if in_brackets => out.push(c),
            '[' => {
                in_brackets = true;
                out.push('[');
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '.' | '^' | '$' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push_str(")$");
    Ok(out)
}
