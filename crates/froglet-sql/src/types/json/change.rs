//! Changes of JSON values: what `||`, `-`, `#-`, jsonb_set, jsonb_insert and strip_nulls answer.

use froglet_engine::SqlState;

use super::{Json, Node, deeper, position};
use crate::error::SqlError;

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// `left || right`: members of both, else their elements.
pub fn concat(left: Json, right: Json) -> Json {
    let items = |json: Json| match json {
        Json::Array(items) => items,
        other => vec![other.into()],
    };
    match (left, right) {
        (Json::Object(mut members), Json::Object(more)) => {
            members.extend(more);
            let mut all = Json::Object(members);
            all.normalize();
            all
        }
        (left, right) => {
            let mut all = items(left);
            all.extend(items(right));
            Json::Array(all)
        }
    }
}

/// `json - keys`
pub fn without_keys(json: Json, keys: &[&str]) -> Result<Json, SqlError> {
    match json {
        Json::Object(mut members) => {
            members.retain(|(name, _)| !keys.contains(&name.as_str()));
            Ok(Json::Object(members))
        }
        Json::Array(mut items) => {
            let is_key = |node: &Node| matches!(&node.json, Json::String(text) if keys.contains(&text.as_str()));
            items.retain(|item| !is_key(item));
            Ok(Json::Array(items))
        }
        _ => Err(invalid("cannot delete from scalar")),
    }
}

/// `json - position`
pub fn without_element(json: Json, at: i64) -> Result<Json, SqlError> {
    match json {
        Json::Array(mut items) => {
            if let Some(at) = position(at, items.len()) {
                items.remove(at);
            }
            Ok(Json::Array(items))
        }
        Json::Object(_) => Err(invalid("cannot delete from object using integer index")),
        _ => Err(invalid("cannot delete from scalar")),
    }
}

/// What is done at the end of a path.
#[derive(Clone, Copy)]
pub enum Edit<'j> {
    /// Puts a value there, if need be and `create`.
    Set {
        /// The value.
        value: &'j Json,
        /// Where there was none, too.
        create: bool,
    },
    /// Puts a value before or after what is there.
    Insert {
        /// The value.
        value: &'j Json,
        /// After what is there.
        after: bool,
    },
    /// Takes away what is there.
    Delete,
}

/// Edits what a path leads to; a path that leads nowhere changes nothing.
pub fn edit(json: &mut Json, path: &[&str], edit: Edit<'_>) -> Result<(), SqlError> {
    if !matches!(json, Json::Array(_) | Json::Object(_)) {
        return Err(invalid(match edit {
            Edit::Delete => "cannot delete path in scalar",
            _ => "cannot set path in scalar",
        }));
    }
    match path {
        [] => Ok(()),
        _ => step(json, path, 0, edit),
    }
}

fn step(json: &mut Json, path: &[&str], depth: usize, edit: Edit<'_>) -> Result<(), SqlError> {
    let last = depth + 1 == path.len();
    match json {
        Json::Object(members) => {
            let found = members.iter().position(|(name, _)| name == path[depth]);
            match (found, last, edit) {
                (Some(at), false, _) => {
                    deeper(|| step(&mut members[at].1.json, path, depth + 1, edit))?
                }
                (None, false, _) => {}
                (Some(at), true, Edit::Set { value, .. }) => members[at].1.json = value.clone(),
                (Some(at), true, Edit::Delete) => drop(members.remove(at)),
                (Some(_), true, Edit::Insert { .. }) => {
                    return Err(invalid("cannot replace existing key")
                        .hint("Try using the function jsonb_set to replace key value."));
                }
                (None, true, Edit::Set { value, create: true } | Edit::Insert { value, .. }) => {
                    members.push((path[depth].to_owned(), value.clone().into()));
                    json.normalize();
                }
                (None, true, _) => {}
            }
        }
        Json::Array(items) => {
            let wanted: i64 = path[depth].trim().parse().map_err(|_| {
                SqlError::new(
                    SqlState::INVALID_TEXT_REPRESENTATION,
                    format!(
                        "path element at position {} is not an integer: \"{}\"",
                        depth + 1,
                        path[depth]
                    ),
                )
            })?;
            let end = if wanted < 0 { 0 } else { items.len() };
            let found = position(wanted, items.len());
            match (found, last, edit) {
                (Some(at), false, _) => {
                    deeper(|| step(&mut items[at].json, path, depth + 1, edit))?
                }
                (None, false, _) => {}
                (Some(at), true, Edit::Set { value, .. }) => items[at].json = value.clone(),
                (Some(at), true, Edit::Delete) => drop(items.remove(at)),
                (Some(at), true, Edit::Insert { value, after }) => {
                    items.insert(at + usize::from(after), value.clone().into());
                }
                (None, true, Edit::Set { value, create: true } | Edit::Insert { value, .. }) => {
                    items.insert(end, value.clone().into());
                }
                (None, true, _) => {}
            }
        }
        _ => {}
    }
    Ok(())
}

/// Without members that are null; nulls of arrays stay.
pub fn strip_nulls(json: &mut Json) {
    match json {
        Json::Array(items) => {
            deeper(|| items.iter_mut().for_each(|item| strip_nulls(&mut item.json)));
        }
        Json::Object(members) => {
            members.retain(|(_, member)| member.json != Json::Null);
            deeper(|| members.iter_mut().for_each(|(_, member)| strip_nulls(&mut member.json)));
        }
        _ => {}
    }
}
