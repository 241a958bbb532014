//! Looking into JSON values: members, elements, paths, containment.

use super::{Json, Node, deeper};

/// The value at the end of a path of keys and positions.
pub fn at_path<'j>(json: &'j Node, path: &[&str]) -> Option<&'j Node> {
    path.iter().try_fold(json, |node, step| match &node.json {
        Json::Object(_) => node.json.member(step),
        Json::Array(_) => node.json.element(step.trim().parse().ok()?),
        _ => None,
    })
}

/// Whether `left` contains `right`, as `@>` of jsonb says.
pub fn contains(left: &Json, right: &Json) -> bool {
    // An array contains a scalar, at the top alone.
    if let (Json::Array(items), false) = (left, matches!(right, Json::Array(_) | Json::Object(_))) {
        return items.iter().any(|item| same(&item.json, right));
    }
    within(left, right)
}

fn within(left: &Json, right: &Json) -> bool {
    deeper(|| match (left, right) {
        (Json::Object(_), Json::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            left.member(name).is_some_and(|found| within(&found.json, &wanted.json))
        }),
        (Json::Array(items), Json::Array(wanted)) => {
            wanted.iter().all(|wanted| items.iter().any(|item| within(&item.json, &wanted.json)))
        }
        _ => same(left, right),
    })
}

/// Whether two scalars are equal.
fn same(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Array(_) | Json::Object(_), _) | (_, Json::Array(_) | Json::Object(_)) => false,
        (left, right) => super::key::of(left) == super::key::of(right),
    }
}

/// Whether a string is a key of an object, an element of an array, or the string itself.
pub fn has(json: &Json, key: &str) -> bool {
    match json {
        Json::Object(_) => json.member(key).is_some(),
        Json::Array(items) => {
            items.iter().any(|item| matches!(&item.json, Json::String(text) if text == key))
        }
        Json::String(text) => text == key,
        _ => false,
    }
}
