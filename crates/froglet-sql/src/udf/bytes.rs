//! Functions of bytea, and texts that stand for bytes.

use froglet_engine::SqlState;

use super::overload::Overload;
use super::simple::{Out, int, text};
use super::strings::{invalid, window};
use crate::error::SqlError;
use crate::types::cell::Cell;
use crate::types::oids::*;

type Cells<'a> = &'a [Cell<'a>];
type Answer = Result<Out, SqlError>;

/// Letters of a line of base64.
const LINE: usize = 76;

/// The functions.
pub static ALL: &[Overload] = &[
    Overload::new("froglet_bytes", &[BYTEA, BYTEA], BYTEA, |_, c| {
        Ok(Out::Bytes([bytes(c, 0), bytes(c, 1)].concat()))
    }),
    Overload::new("substr", &[BYTEA, INT4, INT4], BYTEA, |_, c| substring(c)).optional(1),
    Overload::new("substring", &[BYTEA, INT4, INT4], BYTEA, |_, c| substring(c)).optional(1),
    Overload::new("overlay", &[BYTEA, BYTEA, INT4, INT4], BYTEA, |_, c| overlay(c)).optional(1),
    Overload::new("strpos", &[BYTEA, BYTEA], INT4, |_, c| Ok(position(c))),
    Overload::new("position", &[BYTEA, BYTEA], INT4, |_, c| Ok(position(c))),
    Overload::new("get_byte", &[BYTEA, INT4], INT4, |_, c| get_byte(c)),
    Overload::new("set_byte", &[BYTEA, INT4, INT4], BYTEA, |_, c| set_byte(c)),
    Overload::new("encode", &[BYTEA, TEXT], TEXT, |_, c| encode(c)),
    Overload::new("decode", &[TEXT, TEXT], BYTEA, |_, c| decode(text(c, 0), text(c, 1))),
    Overload::new("convert_from", &[BYTEA, NAME], TEXT, |_, c| convert_from(c)),
    Overload::new("convert_to", &[TEXT, NAME], BYTEA, |_, c| {
        utf8(text(c, 1), "destination")?;
        Ok(Out::Bytes(text(c, 0).as_bytes().to_vec()))
    }),
];

fn bytes<'a>(cells: &'a [Cell<'a>], at: usize) -> &'a [u8] {
    match cells.get(at) {
        Some(Cell::Bytes(bytes)) => bytes,
        _ => &[],
    }
}

fn substring(cells: Cells<'_>) -> Answer {
    let source = bytes(cells, 0);
    let (start, end) = window(source.len(), int(cells, 1).unwrap_or(1), int(cells, 2))?;
    Ok(Out::Bytes(source[start..end.max(start)].to_vec()))
}

fn overlay(cells: Cells<'_>) -> Answer {
    let (source, new) = (bytes(cells, 0), bytes(cells, 1));
    let from = int(cells, 2).unwrap_or(1);
    let length = int(cells, 3).unwrap_or(new.len() as i64);
    if from <= 0 {
        return Err(SqlError::new(SqlState::new("22011"), "negative substring length not allowed"));
    }
    let index = |at: i64| usize::try_from(at).unwrap_or(0).min(source.len());
    let (before, after) = (index(from - 1), index((from - 1).saturating_add(length)));
    Ok(Out::Bytes([&source[..before], new, &source[after..]].concat()))
}

fn position(cells: Cells<'_>) -> Out {
    let (source, wanted) = (bytes(cells, 0), bytes(cells, 1));
    let found = match wanted {
        [] => Some(0),
        wanted => source.windows(wanted.len()).position(|part| part == wanted),
    };
    Out::Int(found.map_or(0, |at| at as i64 + 1))
}

fn index(cells: Cells<'_>) -> Result<usize, SqlError> {
    let (length, at) = (bytes(cells, 0).len(), int(cells, 1).unwrap_or(0));
    let known = usize::try_from(at).ok().filter(|at| *at < length);
    known.ok_or_else(|| {
        let last = length as i64 - 1;
        SqlError::new(SqlState::new("2202E"), format!("index {at} out of valid range, 0..{last}"))
    })
}

fn get_byte(cells: Cells<'_>) -> Answer {
    Ok(Out::Int(bytes(cells, 0)[index(cells)?].into()))
}

fn set_byte(cells: Cells<'_>) -> Answer {
    let mut changed = bytes(cells, 0).to_vec();
    changed[index(cells)?] = int(cells, 2).unwrap_or(0) as u8;
    Ok(Out::Bytes(changed))
}

fn unrecognized(encoding: &str) -> SqlError {
    invalid(format!("unrecognized encoding: \"{encoding}\""))
}

fn encode(cells: Cells<'_>) -> Answer {
    let (source, encoding) = (bytes(cells, 0), text(cells, 1));
    Ok(Out::Text(match encoding.to_ascii_lowercase().as_str() {
        "hex" => source.iter().map(|byte| format!("{byte:02x}")).collect(),
        "base64" => base64(source),
        "escape" => source
            .iter()
            .map(|byte| match byte {
                0 | 128.. => format!("\\{byte:03o}"),
                b'\\' => "\\\\".to_owned(),
                byte => char::from(*byte).to_string(),
            })
            .collect(),
        _ => return Err(unrecognized(encoding)),
    }))
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(source: &[u8]) -> String {
    let mut out = String::with_capacity(source.len() * 4 / 3 + 4);
    for (at, chunk) in source.chunks(3).enumerate() {
        if at > 0 && at * 4 % LINE == 0 {
            out.push('\n');
        }
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = char::from(LETTERS[(bits >> (18 - 6 * place) & 63) as usize]);
            out.push(if place <= chunk.len() { letter } else { '=' });
        }
    }
    out
}

fn decode(source: &str, encoding: &str) -> Answer {
    Ok(Out::Bytes(match encoding.to_ascii_lowercase().as_str() {
        "hex" => hex(source)?,
        "base64" => of_base64(source)?,
        "escape" => crate::types::input::bytea_escaped(source)?,
        _ => return Err(unrecognized(encoding)),
    }))
}

fn hex(source: &str) -> Result<Vec<u8>, SqlError> {
    let mut digits = Vec::with_capacity(source.len());
    for c in source.chars().filter(|c| !c.is_ascii_whitespace()) {
        let digit = c.to_digit(16);
        digits.push(digit.ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{c}\"")))?);
    }
    if digits.len() % 2 == 1 {
        return Err(invalid("invalid hexadecimal data: odd number of digits"));
    }
    Ok(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

fn of_base64(source: &str) -> Result<Vec<u8>, SqlError> {
    let mut out = Vec::with_capacity(source.len() * 3 / 4);
    let (mut bits, mut letters, mut ended) = (0u32, 0, 0);
    for c in source.chars().filter(|c| !c.is_ascii_whitespace()) {
        let value = match LETTERS.iter().position(|letter| char::from(*letter) == c) {
            Some(value) if ended == 0 => value as u32,
            None if c == '=' && letters % 4 >= 2 => {
                ended += 1;
                0
            }
            None if c == '=' => {
                return Err(invalid("unexpected \"=\" while decoding base64 sequence"));
            }
            _ => {
                return Err(invalid(format!(
                    "invalid symbol \"{c}\" found while decoding base64 sequence"
                )));
            }
        };
        bits = bits << 6 | value;
        letters += 1;
        if letters % 4 == 0 {
            out.extend_from_slice(&bits.to_be_bytes()[1..4 - ended.min(2)]);
            bits = 0;
        }
    }
    if letters % 4 != 0 {
        return Err(invalid("invalid base64 end sequence")
            .hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

/// UTF8 is the one encoding.
fn utf8(name: &str, what: &str) -> Result<(), SqlError> {
    match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "utf8" | "unicode" => Ok(()),
        "sqlascii" | "latin1" | "iso88591" | "win1252" => {
            Err(SqlError::unsupported(format!("encoding {name}")))
        }
        _ => Err(invalid(format!("invalid {what} encoding name \"{name}\""))),
    }
}

fn convert_from(cells: Cells<'_>) -> Answer {
    utf8(text(cells, 1), "source")?;
    crate::types::binary::utf8(bytes(cells, 0)).map(|text| Out::Text(text.to_owned()))
}
