//! json and jsonb.
//!
//! Both are stored as text: json as it was written, jsonb in PostgreSQL's canonical form, so that equal
//! values are equal texts (but for zeros at the end of a fraction, which PostgreSQL keeps and does not
//! compare: [`key`]).
//!
//! ```text
//!   {"bb": 1, "a": 2.50, "a" : 3e1}      json     {"bb": 1, "a": 2.50, "a" : 3e1}
//!                                        jsonb    {"a": 30, "bb": 1}
//! ```
//! Canonical: keys by length, then by bytes, the last of equal ones; numbers as numeric prints them;
//! a blank after `:` and `,`.

pub mod change;
pub mod jsonpath;
pub mod key;
pub mod parse;
pub mod path;
pub mod write;

use std::ops::Range;

pub use parse::parse;
pub use write::{canonical, escape};

use crate::error::SqlError;

/// A value, and where it stands in its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Bytes of the text.
    pub span: Range<usize>,
    /// The value.
    pub json: Json,
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// null
    Null,
    /// true, false
    Bool(bool),
    /// A number's text.
    Number(String),
    /// A string, unescaped.
    String(String),
    /// An array
    Array(Vec<Node>),
    /// Members in the order of the text, duplicates among them.
    Object(Vec<(String, Node)>),
}

impl From<Json> for Node {
    fn from(json: Json) -> Node {
        Node { span: 0..0, json }
    }
}

impl Json {
    /// As `json_typeof` says it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// Keys in canonical order, the last of equal ones, all the way down.
    pub fn normalize(&mut self) {
        match self {
            Json::Array(items) => {
                deeper(|| items.iter_mut().for_each(|item| item.json.normalize()));
            }
            Json::Object(members) => {
                deeper(|| members.iter_mut().for_each(|(_, member)| member.json.normalize()));
                // Stable: of equal keys the last one stays last.
                members.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
                let mut kept: Vec<(String, Node)> = Vec::with_capacity(members.len());
                for member in members.drain(..) {
                    match kept.last_mut() {
                        Some(last) if last.0 == member.0 => *last = member,
                        _ => kept.push(member),
                    }
                }
                *members = kept;
            }
            _ => {}
        }
    }

    /// The member of a key, the last of equal ones.
    pub fn member(&self, key: &str) -> Option<&Node> {
        match self {
            Json::Object(members) => {
                members.iter().rev().find(|(name, _)| name == key).map(|(_, member)| member)
            }
            _ => None,
        }
    }

    /// An element of an array; negative positions count from the end.
    pub fn element(&self, at: i64) -> Option<&Node> {
        let Json::Array(items) = self else { return None };
        items.get(position(at, items.len())?)
    }
}

/// Does something of one level of a value, with stack enough for it.
fn deeper<R>(level: impl FnOnce() -> R) -> R {
    stacker::maybe_grow(128 << 10, 1 << 20, level)
}

/// A position, of which negative ones count from the end.
pub fn position(at: i64, length: usize) -> Option<usize> {
    let at = if at < 0 { at + i64::try_from(length).ok()? } else { at };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// A jsonb value out of its text, canonical.
pub fn read(text: &str) -> Result<Json, SqlError> {
    let mut json = parse(text, true)?.json;
    json.normalize();
    Ok(json)
}

/// What a column of type json or jsonb keeps of a text.
pub fn fit(text: &str, binary: bool) -> Result<Option<String>, SqlError> {
    if !binary {
        parse(text, false)?;
        return Ok(None);
    }
    let kept = canonical(&read(text)?);
    Ok((kept != text).then_some(kept))
}
