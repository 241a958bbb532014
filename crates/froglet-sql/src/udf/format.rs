//! `format(…)` and the quotes of literals.

use super::simple::{Out, text};
use super::strings::{invalid, shown};
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::query::account::Growing;
use crate::types::cell::Cell;
use crate::udf::lookup::quote_ident;

/// A text in quotes, as a literal that reads back to it.
pub fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// One `%[position$][-][width]type`.
#[derive(Default)]
struct Specifier {
    position: Option<usize>,
    left: bool,
    width: usize,
}

/// The widest field.
const MAX_WIDTH: i64 = 1 << 24;

/// The values in the places of their specifiers.
pub fn format(session: &dyn SessionFunctions, cells: &[Cell<'_>]) -> Result<Out, SqlError> {
    if matches!(cells[0], Cell::Null) {
        return Ok(Out::Null);
    }
    let mut out = String::new();
    let mut growing = Growing::new(session);
    let mut rest = text(cells, 0).chars().peekable();
    let mut next = 1;
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if rest.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let specifier = specifier(&mut rest, cells, &mut next)?;
        let kind = rest.next().ok_or_else(unterminated)?;
        let at = specifier.position.unwrap_or(next);
        let cell = cells.get(at).ok_or_else(|| invalid("too few arguments for format()"))?;
        next = at + 1;
        let value = converted(kind, cell)?;
        let fill = " ".repeat(specifier.width.saturating_sub(value.chars().count()));
        match specifier.left {
            true => out.extend([value, fill]),
            false => out.extend([fill, value]),
        }
        growing.at(out.len())?;
    }
    Ok(Out::Text(out))
}

fn unterminated() -> SqlError {
    invalid("unterminated format() type specifier").hint("For a single \"%\" use \"%%\".")
}

fn converted(kind: char, cell: &Cell<'_>) -> Result<String, SqlError> {
    Ok(match (kind, cell) {
        ('s', cell) => shown(cell),
        ('I', Cell::Null) => {
            return Err(SqlError::new(
                froglet_engine::SqlState::new("22004"),
                "null values cannot be formatted as an SQL identifier",
            ));
        }
        ('I', cell) => quote_ident(&shown(cell)),
        ('L', Cell::Null) => "NULL".to_owned(),
        ('L', cell) => quote_literal(&shown(cell)),
        (other, _) => {
            return Err(invalid(format!("unrecognized format() type specifier \"{other}\""))
                .hint("For a single \"%\" use \"%%\"."));
        }
    })
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn number(chars: &mut Chars<'_>) -> Result<Option<i64>, SqlError> {
    let mut value = None;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        chars.next();
        let sum = value.unwrap_or(0i64) * 10 + i64::from(digit);
        if sum > MAX_WIDTH {
            return Err(SqlError::new(
                froglet_engine::SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                "number is out of range",
            ));
        }
        value = Some(sum);
    }
    Ok(value)
}

fn specifier(
    chars: &mut Chars<'_>,
    cells: &[Cell<'_>],
    next: &mut usize,
) -> Result<Specifier, SqlError> {
    let mut found = Specifier::default();
    let first = number(chars)?;
    match first {
        Some(position) if chars.next_if_eq(&'$').is_some() => {
            found.position = Some(argument(position)?);
        }
        Some(width) => {
            found.width = width as usize;
            return Ok(found);
        }
        None => {}
    }
    while chars.next_if_eq(&'-').is_some() {
        found.left = true;
    }
    if chars.next_if_eq(&'*').is_none() {
        found.width = number(chars)?.unwrap_or(0) as usize;
        return Ok(found);
    }
    // The width is an argument itself.
    let at = match number(chars)? {
        Some(position) => {
            chars
                .next_if_eq(&'$')
                .ok_or_else(|| invalid("width argument position must be ended by \"$\""))?;
            argument(position)?
        }
        None => *next,
    };
    let cell = cells.get(at).ok_or_else(|| invalid("too few arguments for format()"))?;
    *next = at + 1;
    let width = match cell {
        Cell::Null => 0,
        cell => shown(cell).parse::<i64>().map_err(|_| invalid("width is no integer"))?,
    };
    if width.abs() > MAX_WIDTH {
        return Err(invalid(format!("width {width} is too large")));
    }
    found.left |= width < 0;
    found.width = width.unsigned_abs() as usize;
    Ok(found)
}

fn argument(position: i64) -> Result<usize, SqlError> {
    match position {
        0 => Err(invalid("format specifies argument 0, but arguments are numbered from 1")),
        position => Ok(position as usize),
    }
}
