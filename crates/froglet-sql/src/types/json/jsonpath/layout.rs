//! Where a value stands in the bytes that PostgreSQL stores of a jsonb value: keyvalue() makes an object's id of it.
//!
//! ```text
//!   container   header (4 bytes) | an entry of 4 bytes for each key, value or element | keys | values
//!   string      its bytes                      number      numeric's bytes, at a multiple of 4
//!   null, true, false   nothing                container   at a multiple of 4
//! ```
//! Sources: jsonb.h and numeric.c of PostgreSQL 15.

use crate::types::json::{Json, deeper};

/// Where the parts of an array or object begin, seen from its own beginning.
pub(super) fn offsets(json: &Json) -> Vec<usize> {
    let mut at = start(json);
    parts(json)
        .map(|part| {
            let begin = aligned(part, at);
            at = begin + size(part);
            begin
        })
        .collect()
}

fn parts(json: &Json) -> Box<dyn Iterator<Item = &Json> + '_> {
    match json {
        Json::Array(items) => Box::new(items.iter().map(|item| &item.json)),
        Json::Object(members) => Box::new(members.iter().map(|(_, member)| &member.json)),
        _ => Box::new(std::iter::empty()),
    }
}

/// Where a container's first value or element may begin.
fn start(json: &Json) -> usize {
    match json {
        Json::Array(items) => 4 + 4 * items.len(),
        Json::Object(members) => {
            4 + 8 * members.len() + members.iter().map(|(key, _)| key.len()).sum::<usize>()
        }
        _ => 0,
    }
}

fn aligned(json: &Json, at: usize) -> usize {
    match json {
        Json::Number(_) | Json::Array(_) | Json::Object(_) => at.next_multiple_of(4),
        _ => at,
    }
}

fn size(json: &Json) -> usize {
    match json {
        Json::Null | Json::Bool(_) => 0,
        Json::String(text) => text.len(),
        Json::Number(text) => numeric_size(text),
        container => {
            let end = |at, part| aligned(part, at) + deeper(|| size(part));
            parts(container).fold(start(container), end)
        }
    }
}

/// A header of 6 bytes, or 8 of one that has more digits, and 2 for each digit of base 10000.
fn numeric_size(text: &str) -> usize {
    let digits = text.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = fraction.len();
    let width = whole.len().next_multiple_of(4);
    let all = format!("{whole:0>width$}{fraction}");
    let all = format!("{all:0<width$}", width = all.len().next_multiple_of(4));
    let groups: Vec<bool> =
        all.as_bytes().chunks(4).map(|group| group.iter().any(|digit| *digit != b'0')).collect();
    let first = groups.iter().position(|group| *group);
    let last = groups.iter().rposition(|group| *group);
    let (count, weight) = match (first, last) {
        (Some(first), Some(last)) => (last - first + 1, (width / 4) as i64 - 1 - first as i64),
        _ => (0, 0),
    };
    let is_short = scale <= 63 && (-64..=63).contains(&weight);
    (if is_short { 6 } else { 8 }) + 2 * count
}
