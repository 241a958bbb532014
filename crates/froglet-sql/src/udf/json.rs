//! Functions of json and jsonb, those behind their operators among them.
//!
//! A value is its text. What is cut out of a text that is canonical is canonical, too, so that looking
//! into json and jsonb is one function.

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use froglet_engine::SqlState;

use super::simple::Out;
use super::typed::{Argument, Body, Typed};
use crate::error::SqlError;
use crate::types::cell::{Cell, cell_at};
use crate::types::json::change::{self, Edit};
use crate::types::json::path::{at_path, contains, has};
use crate::types::json::{self, Json, Node, canonical, key, parse, read, write};
use crate::types::oids::*;
use crate::types::{datetime, element_oid, input, numeric, output};

type Answer = Result<Out, SqlError>;

const MANY: usize = usize::MAX;

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let mut all = looking();
    all.extend(making());
    all.extend(gathering());
    all.extend(changing());
    all.extend(of_records());
    all.extend(asking());
    all.into_iter().map(Typed::build).collect()
}

fn looking() -> Vec<Typed> {
    let mut whole = Vec::new();
    let one = |name, returns, body: Body| Typed::new(name, 2, returns, body);
    for (prefix, ty) in [("json", JSON), ("jsonb", JSONB)] {
        let mut all = Vec::new();
        let named = |name: &str| -> &'static str {
            // Made once, with the registry.
            Box::leak(format!("{prefix}_{name}").into_boxed_str())
        };
        all.push(one(named("object_field"), ty, |a| get(a, raw)));
        all.push(one(named("object_field_text"), TEXT, |a| get(a, text)));
        all.push(one(named("path"), ty, |a| follow(a, raw)));
        all.push(one(named("path_text"), TEXT, |a| follow(a, text)));
        all.push(Typed::new(named("extract_path"), 1, ty, |a| extract(a, raw)).at_most(MANY));
        all.push(
            Typed::new(named("extract_path_text"), 1, TEXT, |a| extract(a, text)).at_most(MANY),
        );
        all.push(Typed::new(named("typeof"), 1, TEXT, |a| {
            Ok(Out::Text(node(a, 0)?.json.type_name().to_owned()))
        }));
        all.push(Typed::new(named("array_length"), 1, INT4, array_length));
        all.push(Typed::new(named("keys_list"), 1, TEXT_ARRAY, keys));
        all.push(Typed::new(named("members_list"), 1, TEXT_ARRAY, |a| members(a, raw)));
        all.push(Typed::new(named("member_texts_list"), 1, TEXT_ARRAY, |a| members(a, text)));
        all.push(Typed::new(named("elements_list"), 1, TEXT_ARRAY, |a| elements(a, raw)));
        all.push(Typed::new(named("element_texts_list"), 1, TEXT_ARRAY, |a| elements(a, text)));
        let of_jsonb = |function: Typed| if ty == JSONB { function.of_jsonb() } else { function };
        whole.extend(all.into_iter().map(of_jsonb));
    }
    whole
}

fn making() -> Vec<Typed> {
    vec![
        Typed::new("to_json", 1, JSON, |a| Ok(Out::Text(text_of(&a[0])))),
        Typed::new("to_jsonb", 1, JSONB, |a| binary(text_of(&a[0]))),
        // Of a row, which is in the place of the call before that is run.
        Typed::new(ROW_TO_JSON, 1, JSON, |_| Err(SqlError::unsupported("row_to_json here"))),
        Typed::new("array_to_json", 1, JSON, |a| Ok(Out::Text(text_of(&a[0])))),
        Typed::new("json_build_array", 0, JSON, |a| Ok(Out::Text(array(a))))
            .at_most(MANY)
            .not_strict(),
        Typed::new("jsonb_build_array", 0, JSONB, |a| binary(array(a))).at_most(MANY).not_strict(),
        Typed::new("json_build_object", 0, JSON, |a| object(a).map(Out::Text))
            .at_most(MANY)
            .not_strict(),
        Typed::new("jsonb_build_object", 0, JSONB, |a| binary(object(a)?))
            .at_most(MANY)
            .not_strict(),
        Typed::new("json_object", 1, JSON, |a| of_texts(a).map(Out::Text)).at_most(2),
        Typed::new("jsonb_object", 1, JSONB, |a| binary(of_texts(a)?)).at_most(2),
    ]
}

/// What aggregates are made of: [`crate::rewrite_json`].
fn gathering() -> Vec<Typed> {
    fn joined(arguments: &[Argument<'_>], open: &str, close: &str) -> Result<String, SqlError> {
        let mut out = open.to_owned();
        for (at, part) in texts(&arguments[0])?.into_iter().flatten().enumerate() {
            let (line, part) = match part.strip_prefix(ON_A_LINE) {
                Some(part) => (", \n ", part),
                None => (", ", part.as_str()),
            };
            out.push_str(if at > 0 { line } else { "" });
            out.push_str(part);
        }
        out.push_str(close);
        Ok(out)
    }
    vec![
        Typed::new(PART, 1, TEXT, |a| {
            let text = text_of(&a[0]);
            Ok(Out::Text(match a[0].cell {
                Cell::List(_) => format!("{ON_A_LINE}{text}"),
                _ => text,
            }))
        })
        .not_strict(),
        Typed::new(MEMBER, 2, TEXT, |a| match a[0].cell {
            Cell::Null => Err(invalid("field name must not be null")),
            _ => Ok(Out::Text(format!("{} : {}", name_of(&a[0])?, text_of(&a[1])))),
        })
        .not_strict(),
        Typed::new("froglet_json_agg", 1, JSON, |a| Ok(Out::Text(joined(a, "[", "]")?))),
        Typed::new("froglet_json_rows_agg", 1, JSON, |a| {
            let parts: Vec<String> = texts(&a[0])?.into_iter().flatten().collect();
            Ok(Out::Text(format!("[{}]", parts.join(", \n "))))
        }),
        Typed::new(ROW, 0, JSON, |a| {
            let members = a.chunks_exact(2);
            let member =
                |pair: &[Argument<'_>]| Ok(format!("{}:{}", name_of(&pair[0])?, text_of(&pair[1])));
            let members = members.map(member).collect::<Result<Vec<_>, SqlError>>()?;
            Ok(Out::Text(format!("{{{}}}", members.join(","))))
        })
        .at_most(MANY)
        .not_strict(),
        Typed::new("froglet_jsonb_agg", 1, JSONB, |a| binary(joined(a, "[", "]")?)),
        Typed::new("froglet_json_object_agg", 1, JSON, |a| Ok(Out::Text(joined(a, "{ ", " }")?))),
        Typed::new("froglet_jsonb_object_agg", 1, JSONB, |a| binary(joined(a, "{ ", " }")?)),
    ]
}

/// Stands before an element of json_agg that begins a line; no value of json begins with it.
const ON_A_LINE: char = '\u{1}';
/// The function that makes an element of json_agg.
pub const PART: &str = "froglet_json_part";
/// The function that makes an object of a row.
pub const ROW: &str = "froglet_json_row";
/// The function of rows alone.
pub const ROW_TO_JSON: &str = "row_to_json";
/// The function that makes a member of json_object_agg.
pub const MEMBER: &str = "froglet_json_member";

/// A column's value out of an object, as text.
pub const RECORD_TEXT: &str = "froglet_record_text";
/// The same of an array: as an array's text.
pub const RECORD_ARRAY: &str = "froglet_record_array";
/// The same as json.
pub const RECORD_JSON: &str = "froglet_record_json";

/// Behind [`crate::rewrite_records`]: the object, the key, the function, and how long a text may be.
fn of_records() -> Vec<Typed> {
    fn with_member(arguments: &[Argument<'_>], f: impl Fn(&str, &Node) -> Answer) -> Answer {
        let (whole, key) = (node(arguments, 0)?, arguments[1].text().unwrap_or_default());
        let function = arguments[2].text().unwrap_or_default();
        let what = match &whole.json {
            Json::Object(_) => {
                return match whole.json.member(key) {
                    None | Some(Node { json: Json::Null, .. }) => Ok(Out::Null),
                    Some(member) => f(source(arguments, 0)?, member),
                };
            }
            _ if function.ends_with("set") => {
                return Err(invalid(&format!(
                    "argument of {function} must be an array of objects"
                )));
            }
            Json::Array(_) => "an array",
            _ => "a scalar",
        };
        Err(invalid(&format!("cannot call {function} on {what}")))
    }
    vec![
        Typed::new(RECORD_TEXT, 3, TEXT, |a| {
            with_member(a, |whole, member| {
                let text = text(whole, member).unwrap_or_default();
                let room = a.get(3).map(|a| a.cell.clone());
                let room = match room {
                    Some(Cell::Int32(room)) => usize::try_from(room).ok(),
                    Some(Cell::Int64(room)) => usize::try_from(room).ok(),
                    _ => None,
                };
                if let Some(room) = room
                    && text.trim_end_matches(' ').chars().count() > room
                {
                    return Err(SqlError::new(
                        SqlState::STRING_DATA_RIGHT_TRUNCATION,
                        format!("value too long for type character varying({room})"),
                    ));
                }
                Ok(Out::Text(text))
            })
        })
        .at_most(4),
        Typed::new(RECORD_ARRAY, 3, TEXT, |a| {
            with_member(a, |whole, member| match &member.json {
                Json::String(text) => Ok(Out::Text(text.clone())),
                Json::Array(items) => Ok(Out::Text(array_literal(whole, items))),
                _ => {
                    Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected JSON array")
                        .hint(format!(
                            "See the value of key \"{}\".",
                            a[1].text().unwrap_or_default()
                        )))
                }
            })
        }),
        Typed::new(RECORD_JSON, 3, JSON, |a| {
            with_member(a, |whole, member| Ok(raw(whole, member).into()))
        }),
    ]
}

/// An array as SQL writes it.
fn array_literal(whole: &str, items: &[Node]) -> String {
    let item = |item: &Node| match &item.json {
        Json::Array(items) => array_literal(whole, items),
        _ => text(whole, item).map_or_else(
            || "NULL".to_owned(),
            |text| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        ),
    };
    format!("{{{}}}", items.iter().map(item).collect::<Vec<_>>().join(","))
}

fn changing() -> Vec<Typed> {
    vec![
        Typed::new("jsonb_concat", 2, JSONB, |a| {
            Ok(out(&change::concat(value(a, 0)?, value(a, 1)?)))
        }),
        Typed::new("jsonb_delete", 2, JSONB, delete),
        Typed::new("jsonb_delete_path", 2, JSONB, |a| edited(a, Edit::Delete)),
        Typed::new("jsonb_set", 3, JSONB, |a| {
            let new = value(a, 2)?;
            edited(a, Edit::Set { value: &new, create: truth(a, 3, true) })
        })
        .at_most(4),
        Typed::new("jsonb_insert", 3, JSONB, |a| {
            let new = value(a, 2)?;
            edited(a, Edit::Insert { value: &new, after: truth(a, 3, false) })
        })
        .at_most(4),
        Typed::new("jsonb_strip_nulls", 1, JSONB, |a| {
            let mut json = value(a, 0)?;
            change::strip_nulls(&mut json);
            Ok(out(&json))
        }),
        Typed::new("json_strip_nulls", 1, JSON, |a| {
            let mut json = node(a, 0)?.json;
            change::strip_nulls(&mut json);
            Ok(Out::Text(write::compact(&json)))
        }),
        Typed::new("jsonb_pretty", 1, TEXT, |a| Ok(Out::Text(write::pretty(&value(a, 0)?)))),
    ]
}

fn asking() -> Vec<Typed> {
    vec![
        Typed::new("jsonb_contains", 2, BOOL, |a| {
            Ok(Out::Bool(contains(&value(a, 0)?, &value(a, 1)?)))
        }),
        Typed::new("jsonb_exists", 2, BOOL, |a| {
            let wanted = a[1].text().unwrap_or_default();
            Ok(Out::Bool(has(&value(a, 0)?, wanted)))
        }),
        Typed::new("jsonb_exists_any", 2, BOOL, |a| {
            let (json, wanted) = (value(a, 0)?, texts(&a[1])?);
            Ok(Out::Bool(wanted.iter().flatten().any(|key| has(&json, key))))
        }),
        Typed::new("jsonb_exists_all", 2, BOOL, |a| {
            let (json, wanted) = (value(a, 0)?, texts(&a[1])?);
            Ok(Out::Bool(wanted.iter().flatten().all(|key| has(&json, key))))
        }),
        Typed::new(KEY, 1, BYTEA, |a| Ok(Out::Bytes(key::of(&value(a, 0)?)))),
    ]
}

/// The name of the function that gives the bytes by which jsonb is compared.
pub const KEY: &str = "froglet_jsonb_key";

fn source<'a>(arguments: &'a [Argument<'_>], at: usize) -> Result<&'a str, SqlError> {
    arguments[at].text().ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_FUNCTION, "function of json does not exist")
            .hint("No function matches the given argument types.")
    })
}

fn node(arguments: &[Argument<'_>], at: usize) -> Result<Node, SqlError> {
    parse(source(arguments, at)?, false)
}

fn value(arguments: &[Argument<'_>], at: usize) -> Result<Json, SqlError> {
    read(source(arguments, at)?)
}

fn out(json: &Json) -> Out {
    Out::Text(canonical(json))
}

fn binary(text: String) -> Answer {
    Ok(out(&read(&text)?))
}

fn truth(arguments: &[Argument<'_>], at: usize, default: bool) -> bool {
    match arguments.get(at).map(|a| &a.cell) {
        Some(Cell::Bool(value)) => *value,
        _ => default,
    }
}

/// What a function shows of a value found in a text.
type Show = fn(&str, &Node) -> Option<String>;

fn raw(source: &str, node: &Node) -> Option<String> {
    Some(source[node.span.clone()].to_owned())
}

fn text(source: &str, node: &Node) -> Option<String> {
    match &node.json {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        _ => raw(source, node),
    }
}

/// `->` and `->>`
fn get(arguments: &[Argument<'_>], show: Show) -> Answer {
    let whole = node(arguments, 0)?;
    let element = |at: i64| match whole.json {
        Json::Array(_) => whole.json.element(at),
        // A scalar of jsonb is stored as an array of one.
        Json::Object(_) => None,
        _ => Some(&whole).filter(|_| arguments[0].oid == JSONB && matches!(at, 0 | -1)),
    };
    let found = match &arguments[1].cell {
        Cell::Text(key) => whole.json.member(key),
        Cell::Int16(at) => element((*at).into()),
        Cell::Int32(at) => element((*at).into()),
        Cell::Int64(at) => element(*at),
        _ => None,
    };
    Ok(found.and_then(|node| show(source(arguments, 0).unwrap_or_default(), node)).into())
}

/// The texts of a text[].
fn texts(argument: &Argument<'_>) -> Result<Vec<Option<String>>, SqlError> {
    match &argument.cell {
        Cell::Text(text) => input::array_items(text),
        Cell::List(items) => Ok((0..items.len())
            .map(|row| match cell_at(items.as_ref(), row) {
                Cell::Text(text) => Some(text.to_owned()),
                _ => None,
            })
            .collect()),
        _ => Ok(Vec::new()),
    }
}

/// `#>` and `#>>`
fn follow(arguments: &[Argument<'_>], show: Show) -> Answer {
    let steps = texts(&arguments[1])?;
    let Some(steps) = steps.iter().map(Option::as_deref).collect::<Option<Vec<&str>>>() else {
        return Ok(Out::Null);
    };
    shown(arguments, &steps, show)
}

fn extract(arguments: &[Argument<'_>], show: Show) -> Answer {
    let steps: Option<Vec<&str>> = arguments[1..].iter().map(Argument::text).collect();
    match steps {
        Some(steps) => shown(arguments, &steps, show),
        None => Ok(Out::Null),
    }
}

fn shown(arguments: &[Argument<'_>], steps: &[&str], show: Show) -> Answer {
    let whole = node(arguments, 0)?;
    let text = source(arguments, 0)?;
    Ok(at_path(&whole, steps).and_then(|node| show(text, node)).into())
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn array_length(arguments: &[Argument<'_>]) -> Answer {
    match node(arguments, 0)?.json {
        Json::Array(items) => Ok(Out::Int(items.len() as i64)),
        Json::Object(_) => Err(invalid("cannot get array length of a non-array")),
        _ => Err(invalid("cannot get array length of a scalar")),
    }
}

fn members_of(json: Json) -> Result<Vec<(String, Node)>, SqlError> {
    match json {
        Json::Object(members) => Ok(members),
        Json::Array(_) => Err(invalid("cannot call jsonb_each on a non-object")),
        _ => Err(invalid("cannot call jsonb_each on a scalar")),
    }
}

fn keys(arguments: &[Argument<'_>]) -> Answer {
    let members = members_of(node(arguments, 0)?.json)?;
    Ok(Out::Items(members.into_iter().map(|(name, _)| Some(name)).collect()))
}

fn members(arguments: &[Argument<'_>], show: Show) -> Answer {
    let text = source(arguments, 0)?;
    let members = members_of(node(arguments, 0)?.json)?;
    Ok(Out::Items(members.iter().map(|(_, member)| show(text, member)).collect()))
}

fn elements(arguments: &[Argument<'_>], show: Show) -> Answer {
    let text = source(arguments, 0)?;
    match node(arguments, 0)?.json {
        Json::Array(items) => Ok(Out::Items(items.iter().map(|item| show(text, item)).collect())),
        Json::Object(_) => Err(invalid("cannot extract elements from an object")),
        _ => Err(invalid("cannot extract elements from a scalar")),
    }
}

/// A value of any type as JSON text.
fn text_of(argument: &Argument<'_>) -> String {
    cell_text(&argument.cell, argument.oid)
}

fn cell_text(cell: &Cell<'_>, oid: u32) -> String {
    let plain = |cell: &Cell<'_>| {
        let mut bytes = Vec::new();
        output::cell_text(cell, oid, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let quoted = |text: &str| {
        let mut out = String::new();
        json::escape(text, &mut out);
        out
    };
    match cell {
        Cell::Null => "null".to_owned(),
        Cell::Bool(value) => value.to_string(),
        Cell::Float32(value) if !value.is_finite() => quoted(&plain(cell)),
        Cell::Float64(value) if !value.is_finite() => quoted(&plain(cell)),
        Cell::Exact(value) if !numeric::of_bytes(value).is_finite() => quoted(&plain(cell)),
        Cell::Int16(_)
        | Cell::Int32(_)
        | Cell::Int64(_)
        | Cell::UInt64(_)
        | Cell::Float32(_)
        | Cell::Float64(_)
        | Cell::Decimal(..)
        | Cell::Exact(_) => plain(cell),
        Cell::Text(text) if matches!(oid, JSON | JSONB) => (*text).to_owned(),
        // ISO 8601, which has a T where PostgreSQL's own format has a blank.
        Cell::Timestamp(us) | Cell::TimestampTz(us)
            if !matches!(*us, datetime::INFINITY | datetime::MINUS_INFINITY) =>
        {
            let text = plain(cell).replacen(' ', "T", 1);
            let hours =
                matches!(cell, Cell::TimestampTz(_)) && text[text.len() - 3..].find(':').is_none();
            quoted(&if hours { format!("{text}:00") } else { text })
        }
        Cell::List(items) => {
            let element = element_oid(oid).unwrap_or(TEXT);
            let items = (0..items.len()).map(|at| cell_text(&cell_at(items.as_ref(), at), element));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
        _ => quoted(&plain(cell)),
    }
}

fn array(arguments: &[Argument<'_>]) -> String {
    let items: Vec<String> = arguments.iter().map(text_of).collect();
    format!("[{}]", items.join(", "))
}

/// A value as the name of a member, in quotes.
fn name_of(argument: &Argument<'_>) -> Result<String, SqlError> {
    let mut name = Vec::new();
    match &argument.cell {
        Cell::Null => return Err(invalid("argument 1: key must not be null")),
        Cell::Bool(value) => name.extend_from_slice(value.to_string().as_bytes()),
        cell => output::cell_text(cell, argument.oid, &mut name),
    }
    let mut out = String::new();
    json::escape(&String::from_utf8_lossy(&name), &mut out);
    Ok(out)
}

fn object(arguments: &[Argument<'_>]) -> Result<String, SqlError> {
    if !arguments.len().is_multiple_of(2) {
        return Err(invalid("argument list must have even number of elements").hint(
            "The arguments of jsonb_build_object() must consist of alternating keys and values.",
        ));
    }
    let members = arguments.chunks_exact(2);
    let members = members.map(|pair| Ok(format!("{} : {}", name_of(&pair[0])?, text_of(&pair[1]))));
    Ok(format!("{{{}}}", members.collect::<Result<Vec<_>, SqlError>>()?.join(", ")))
}

/// `json_object('{a,1,b,2}')`, or of keys and values apart.
fn of_texts(arguments: &[Argument<'_>]) -> Result<String, SqlError> {
    let first = texts(&arguments[0])?;
    let pairs: Vec<(Option<String>, Option<String>)> = match arguments.get(1) {
        Some(values) => {
            let values = texts(values)?;
            if values.len() != first.len() {
                return Err(SqlError::new(SqlState::new("2202E"), "mismatched array dimensions"));
            }
            first.into_iter().zip(values).collect()
        }
        None if !first.len().is_multiple_of(2) => {
            let state = SqlState::new("2202E");
            return Err(SqlError::new(state, "array must have even number of elements"));
        }
        None => first.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
    };
    let members = pairs.into_iter().map(|(name, value)| {
        let null =
            || SqlError::new(SqlState::new("22004"), "null value not allowed for object key");
        let mut out = String::new();
        json::escape(&name.ok_or_else(null)?, &mut out);
        out.push_str(" : ");
        match value {
            Some(value) => json::escape(&value, &mut out),
            None => out.push_str("null"),
        }
        Ok(out)
    });
    Ok(format!("{{{}}}", members.collect::<Result<Vec<_>, SqlError>>()?.join(", ")))
}

fn delete(arguments: &[Argument<'_>]) -> Answer {
    let json = value(arguments, 0)?;
    let left = match &arguments[1].cell {
        Cell::Int16(at) => change::without_element(json, (*at).into()),
        Cell::Int32(at) => change::without_element(json, (*at).into()),
        Cell::Int64(at) => change::without_element(json, *at),
        Cell::Text(key) => change::without_keys(json, &[key]),
        _ => {
            let keys = texts(&arguments[1])?;
            let keys: Vec<&str> = keys.iter().flatten().map(String::as_str).collect();
            change::without_keys(json, &keys)
        }
    };
    Ok(out(&left?))
}

fn edited(arguments: &[Argument<'_>], edit: Edit<'_>) -> Answer {
    let mut json = value(arguments, 0)?;
    let path = texts(&arguments[1])?;
    let steps = path.iter().enumerate().map(|(at, step)| {
        step.as_deref().ok_or_else(|| {
            let state = SqlState::new("22004");
            SqlError::new(state, format!("path element at position {} is null", at + 1))
        })
    });
    change::edit(&mut json, &steps.collect::<Result<Vec<_>, _>>()?, edit)?;
    Ok(out(&json))
}
