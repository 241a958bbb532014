//! `to_char` of numbers and `to_number`: templates such as `FM9,999.00`.
//!
//! ```text
//!   S9,999.99PR     ─ parse ─▶  digits before the point, digits after it, groups, signs
//!   -1234.5         ─ rounded to the digits after the point ─ placed from the right
//! ```

use froglet_engine::SqlState;

use super::decimal::exact;
use super::math::float;
use super::overload::Overload;
use super::simple::{Out, text};
use super::to_char::suffix;
use crate::error::SqlError;
use crate::types::cell::Cell;
use crate::types::exact::Exact;
use crate::types::numeric;
use crate::types::oids::*;

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("to_char", &[INT4, TEXT], TEXT, |_, c| shown(&exact(c, 0), text(c, 1))),
    Overload::new("to_char", &[INT8, TEXT], TEXT, |_, c| shown(&exact(c, 0), text(c, 1))),
    Overload::new("to_char", &[NUMERIC, TEXT], TEXT, |_, c| shown(&exact(c, 0), text(c, 1))),
    Overload::new("to_char", &[FLOAT8, TEXT], TEXT, |_, c| of_float(c)),
    Overload::new("to_char", &[FLOAT4, TEXT], TEXT, |_, c| of_float(c)),
    Overload::new("to_number", &[TEXT, TEXT], NUMERIC, |_, c| to_number(c)),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    /// 9, or 0 from which on zeros are shown.
    Digit {
        zero: bool,
    },
    Point,
    Group,
    /// A sign beside the number: S
    Sign,
    /// MI, PL, SG
    Minus,
    Plus,
    Either,
    /// TH, th
    Ordinal {
        upper: bool,
    },
    Other(char),
}

#[derive(Default)]
struct Template {
    items: Vec<Item>,
    fill: bool,
    roman: Option<bool>,
    brackets: bool,
    /// Digits by which V moves the point.
    shift: Option<i8>,
}

/// 42601
fn bad(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message.to_owned())
}

fn parse(template: &str) -> Result<Template, SqlError> {
    let mut found = Template { fill: true, ..Template::default() };
    let mut rest = template;
    let mut point = false;
    while let Some(c) = rest.chars().next() {
        let upper = rest.get(..2).unwrap_or_default().to_ascii_uppercase();
        let two = match upper.as_str() {
            "FM" => {
                found.fill = false;
                true
            }
            "MI" => push(&mut found.items, Item::Minus),
            "PL" => push(&mut found.items, Item::Plus),
            "SG" => push(&mut found.items, Item::Either),
            "PR" => {
                found.brackets = true;
                true
            }
            "TH" => push(&mut found.items, Item::Ordinal { upper: rest.starts_with('T') }),
            "RN" => {
                found.roman = Some(rest.starts_with('R'));
                true
            }
            "EE" => return Err(SqlError::unsupported("\"EEEE\" in a template of a number")),
            _ => false,
        };
        if two {
            rest = &rest[2..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '9' | '0' => {
                if let Some(shift) = &mut found.shift {
                    *shift += 1;
                }
                found.items.push(Item::Digit { zero: c == '0' });
            }
            '.' | 'D' | 'd' if point => return Err(bad("multiple decimal points")),
            '.' | 'D' | 'd' => {
                point = true;
                found.items.push(Item::Point);
            }
            ',' | 'G' | 'g' => found.items.push(Item::Group),
            'S' | 's' => found.items.push(Item::Sign),
            'V' | 'v' => found.shift = Some(0),
            // The currency's sign of the locale "C" is a blank.
            'L' | 'l' => found.items.push(Item::Other(' ')),
            '"' => {
                let end = rest.find('"').unwrap_or(rest.len());
                found.items.extend(rest[..end].chars().map(Item::Other));
                rest = rest.get(end + 1..).unwrap_or_default();
            }
            '\\' => {
                if let Some(next) = rest.chars().next() {
                    found.items.push(Item::Other(next));
                    rest = &rest[next.len_utf8()..];
                }
            }
            other => found.items.push(Item::Other(other)),
        }
    }
    Ok(found)
}

fn push(items: &mut Vec<Item>, item: Item) -> bool {
    items.push(item);
    true
}

fn of_float(cells: Cells<'_>) -> Answer {
    let value = float(cells, 0);
    if !value.is_finite() {
        return Err(SqlError::unsupported(format!("to_char of {value}")));
    }
    shown(&numeric::parse_exact(&format!("{value}"))?, text(cells, 1))
}

fn shown(value: &Exact, template: &str) -> Answer {
    if !value.is_finite() {
        return Err(SqlError::unsupported(format!("to_char of {value}")));
    }
    let template = parse(template)?;
    if let Some(upper) = template.roman {
        return Ok(Out::Text(roman(value, upper, template.fill)));
    }
    let after = template.items.iter().skip_while(|item| **item != Item::Point);
    let decimals = after.filter(|item| matches!(item, Item::Digit { .. })).count() as i32;
    let moved = 10_i128.pow(template.shift.unwrap_or(0).max(0).unsigned_abs().into());
    let rounded = value.mul(&Exact::from(moved))?.round(decimals)?;
    let text = rounded.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let whole = whole.trim_start_matches('0');
    Ok(Out::Text(placed(&template, rounded < Exact::ZERO, whole, fraction)))
}

/// The number in the places of the template.
fn placed(template: &Template, negative: bool, whole: &str, fraction: &str) -> String {
    let before = template.items.iter().take_while(|item| **item != Item::Point);
    let places = before.filter(|item| matches!(item, Item::Digit { .. })).count();
    let fits = whole.len() <= places;
    let padded = format!("{whole:>places$}");
    let mut digits: Vec<char> = if fits {
        padded.chars().chain(fraction.chars()).collect()
    } else {
        vec!['#'; places + fraction.len()]
    };
    let first_zero = zero_from(&template.items, places);
    for digit in digits.iter_mut().take(places).skip(first_zero) {
        if *digit == ' ' {
            *digit = '0';
        }
    }
    if !template.fill && fits {
        drop_zeros(template, &mut digits, places);
    }
    let mut out = String::new();
    let mut at = 0;
    let mut shown = false;
    let has_sign =
        template.items.iter().any(|item| matches!(item, Item::Sign | Item::Minus | Item::Either));
    let sign_behind = matches!(template.items.iter().rposition(|i| *i == Item::Sign), Some(p)
        if template.items[..p].iter().any(|i| matches!(i, Item::Digit { .. })));
    let lead = match (negative, template.brackets, has_sign) {
        (true, true, _) => "<",
        (_, true, _) => " ",
        (true, false, false) => "-",
        (false, false, false) => " ",
        _ if template.items.contains(&Item::Sign) && !sign_behind => {
            if negative {
                "-"
            } else {
                "+"
            }
        }
        _ => "",
    };
    let mut signed = lead.is_empty();
    for item in &template.items {
        match item {
            Item::Digit { .. } => {
                let digit = digits.get(at).copied().unwrap_or(' ');
                at += 1;
                if digit != ' ' && !signed {
                    put_sign(lead, template.fill, &mut out);
                    signed = true;
                }
                if digit != ' ' || template.fill && at <= places {
                    out.push(digit);
                }
                shown |= digit != ' ';
            }
            Item::Point => {
                if !signed {
                    put_sign(lead, template.fill, &mut out);
                    signed = true;
                }
                out.push('.');
                shown = true;
            }
            Item::Group if shown => out.push(','),
            Item::Group if template.fill => out.push(' '),
            Item::Group => {}
            Item::Sign if sign_behind => out.push(if negative { '-' } else { '+' }),
            Item::Sign => {}
            Item::Minus if negative => out.push('-'),
            Item::Plus if !negative => out.push('+'),
            Item::Minus | Item::Plus if template.fill => out.push(' '),
            Item::Minus | Item::Plus => {}
            Item::Either => out.push(if negative { '-' } else { '+' }),
            Item::Ordinal { .. } if negative || !fraction.is_empty() => {}
            Item::Ordinal { upper } => {
                let ending = suffix(whole);
                out.push_str(&if *upper { ending.to_uppercase() } else { ending.to_owned() });
            }
            Item::Other(c) => out.push(*c),
        }
    }
    if template.brackets {
        out.push_str(if negative {
            ">"
        } else if template.fill {
            " "
        } else {
            ""
        });
    }
    out
}

fn put_sign(sign: &str, fill: bool, out: &mut String) {
    if fill || sign != " " {
        out.push_str(sign);
    }
}

/// The digit from which on zeros are shown: the first 0 of the template; one before a point.
fn zero_from(items: &[Item], places: usize) -> usize {
    let mut at = 0;
    for item in items.iter().take_while(|item| **item != Item::Point) {
        match item {
            Item::Digit { zero: true } => return at,
            Item::Digit { .. } => at += 1,
            _ => {}
        }
    }
    let has_point = items.contains(&Item::Point);
    if has_point { places } else { places.saturating_sub(1) }
}

/// Zeros at the end, up to the last 0 of the template, are not shown without filling.
fn drop_zeros(template: &Template, digits: &mut Vec<char>, places: usize) {
    let after = template.items.iter().skip_while(|item| **item != Item::Point);
    let kinds: Vec<bool> = after
        .filter_map(|item| match item {
            Item::Digit { zero } => Some(*zero),
            _ => None,
        })
        .collect();
    let keep = kinds.iter().rposition(|zero| *zero).map_or(0, |at| at + 1);
    while digits.len() > places + keep && digits.last() == Some(&'0') {
        digits.pop();
    }
}

fn roman(value: &Exact, upper: bool, fill: bool) -> String {
    const WIDTH: usize = 15;
    const NUMERALS: [(i128, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut rest = value.to_i32().map_or(0, i128::from);
    if !(1..4000).contains(&rest) {
        return "#".repeat(WIDTH);
    }
    let mut text = String::new();
    for (number, numeral) in NUMERALS {
        while rest >= number {
            text.push_str(numeral);
            rest -= number;
        }
    }
    let text = if upper { text } else { text.to_lowercase() };
    if fill { format!("{text:>WIDTH$}") } else { text }
}

fn to_number(cells: Cells<'_>) -> Answer {
    let (source, template) = (text(cells, 0), parse(text(cells, 1))?);
    let invalid = || {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type numeric: \"{source}\""),
        )
    };
    if template.roman.is_some() {
        return Err(SqlError::unsupported("\"RN\" in to_number"));
    }
    let mut rest = source.trim_start().chars().peekable();
    let negative = source.contains('-') || source.trim_start().starts_with('<');
    while rest.next_if(|c| matches!(c, '-' | '+' | '<' | ' ')).is_some() {}
    let mut number = String::from(if negative { "-" } else { "" });
    let mut in_fraction = false;
    for item in &template.items {
        match item {
            Item::Digit { .. } => {
                rest.next_if_eq(&' ');
                if !number.bytes().any(|b| b.is_ascii_digit()) {
                    rest.next_if(|c| matches!(c, '-' | '+'));
                }
                // A point in the text ends the digits before it.
                if !in_fraction && rest.peek() == Some(&'.') {
                    continue;
                }
                if let Some(digit) = rest.next_if(char::is_ascii_digit) {
                    number.push(digit);
                }
            }
            Item::Point => {
                in_fraction = true;
                rest.next_if_eq(&' ');
                if rest.next_if_eq(&'.').is_some() {
                    number.push('.');
                }
            }
            Item::Group => {
                rest.next_if_eq(&',');
            }
            Item::Other(_) => {
                // What a number is written with is never taken for a letter of the template.
                rest.next_if(|c| !c.is_ascii_digit() && !matches!(c, '.' | ',' | '+' | '-'));
            }
            _ => {}
        }
    }
    let has_digit = number.bytes().any(|b| b.is_ascii_digit());
    if !has_digit {
        return Err(invalid());
    }
    Ok(Out::Exact(numeric::parse_exact(number.trim_end_matches('.'))?))
}
