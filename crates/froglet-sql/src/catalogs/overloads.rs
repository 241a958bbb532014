//! Which of several functions or operators of a name PostgreSQL chooses, and what its arguments are made into:
//! the rules of "Type Conversion" in its documentation.
//!
//! ```text
//!   lower(v)    v varchar     lower(text)            v becomes a text
//!   j ->> 'k'   j jsonb       jsonb ->> text         'k' is a text
//!   x > '5'     x int4        int4 > int4            a literal is what its neighbour is
//!   a || b      text[], text  anycompatiblearray || anycompatible
//! ```
//!
//! A type that is not known here makes no choice: then nothing is said of the arguments.

use super::operators;
use crate::pgcatalog::procs;
use crate::semantics::enums;
use crate::types::names::type_row;
use crate::types::{element_oid, oids};

pub(crate) const ANY: u32 = 2276;
const ANYARRAY: u32 = 2277;
const ANYELEMENT: u32 = 2283;
const ANYNONARRAY: u32 = 2776;
const ANYENUM: u32 = 3500;
const ANYCOMPATIBLE: u32 = 5077;
const ANYCOMPATIBLEARRAY: u32 = 5078;
const ANYCOMPATIBLENONARRAY: u32 = 5079;

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// What each argument is made into; `ANY` where it stays.
    pub(crate) arguments: Vec<u32>,
    pub(crate) result: u32,
}

struct Candidate {
    arguments: Vec<u32>,
    result: u32,
}

/// The operator between two operands; `left` is `None` for one that stands before its operand.
pub(crate) fn operator(name: &str, left: Option<u32>, right: u32) -> Option<Chosen> {
    let candidates: Vec<Candidate> = operators::named(name)
        .iter()
        .filter(|operator| (operator.left == 0) == left.is_none())
        .map(|operator| Candidate {
            arguments: left.map(|_| operator.left).into_iter().chain([operator.right]).collect(),
            result: operator.result,
        })
        .collect();
    let given: Vec<u32> = left.into_iter().chain([right]).collect();
    // A literal beside a value is first of all of the value's own type.
    if let [l, r] = given[..]
        && (l == oids::UNKNOWN) != (r == oids::UNKNOWN)
    {
        let known = if l == oids::UNKNOWN { r } else { l };
        if let Some(exact) = candidates.iter().find(|c| c.arguments == [known, known]) {
            return Some(Chosen { arguments: vec![known, known], result: exact.result });
        }
    }
    choose(&candidates, &given)
}

/// The function of a name for some arguments.
pub(crate) fn function(name: &str, given: &[u32]) -> Option<Chosen> {
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let candidates: Vec<Candidate> = procs::named(name)
        .filter_map(|proc| {
            let mut arguments = proc.argument_types();
            let (least, most) = (arguments.len() - proc.default_count(), arguments.len());
            match proc.variadic_type() {
                None if (least..=most).contains(&given.len()) => arguments.truncate(given.len()),
                Some(element) if given.len() + 1 >= most => {
                    arguments.pop();
                    let element = if element == ANY { ANY } else { element };
                    arguments.resize(given.len(), element);
                }
                _ => return None,
            }
            Some(Candidate { arguments, result: proc.result_type() })
        })
        .collect();
    choose(&candidates, given)
}

fn choose(candidates: &[Candidate], given: &[u32]) -> Option<Chosen> {
    if given.contains(&0) {
        return None;
    }
    let is_unknown = |oid: u32| oid == oids::UNKNOWN;
    let exact = candidates.iter().find(|c| c.arguments == given);
    if let Some(exact) = exact {
        return resolved(exact, given);
    }
    let mut left: Vec<&Candidate> = candidates
        .iter()
        .filter(|c| c.arguments.iter().zip(given).all(|(to, from)| accepts(*to, *from)))
        .filter(|c| resolved(c, given).is_some())
        .collect();
    let count = |c: &Candidate, fits: &dyn Fn(u32, u32) -> bool| {
        let pairs = c.arguments.iter().zip(given);
        pairs.filter(|(to, from)| !is_unknown(**from) && fits(**to, **from)).count()
    };
    keep_best(&mut left, |c| count(c, &|to, from| to == from));
    keep_best(&mut left, |c| {
        count(c, &|to, from| to == from || (is_preferred(to) && category(to) == category(from)))
    });
    if left.len() > 1 && given.iter().any(|oid| is_unknown(*oid)) {
        by_categories(&mut left, given);
    }
    if left.len() > 1 {
        let known: Vec<u32> = given.iter().copied().filter(|oid| !is_unknown(*oid)).collect();
        if let Some(first) = known.first()
            && known.iter().all(|oid| oid == first)
        {
            let all = vec![*first; given.len()];
            let fits = |c: &Candidate| {
                c.arguments.iter().all(|to| accepts(*to, *first)) && resolved(c, &all).is_some()
            };
            let same: Vec<&Candidate> = left.iter().copied().filter(|c| fits(c)).collect();
            if same.len() == 1 {
                left = same;
            }
        }
    }
    match left[..] {
        [one] => resolved(one, given),
        _ => None,
    }
}

fn keep_best(left: &mut Vec<&Candidate>, score: impl Fn(&Candidate) -> usize) {
    let best = left.iter().map(|c| score(c)).max().unwrap_or(0);
    left.retain(|c| score(c) == best);
}

/// A literal is a string where it may be one, otherwise of the category that all of them agree on.
fn by_categories(left: &mut Vec<&Candidate>, given: &[u32]) {
    for (at, _) in given.iter().enumerate().filter(|(_, oid)| **oid == oids::UNKNOWN) {
        let categories: Vec<char> = left.iter().map(|c| category(c.arguments[at])).collect();
        let Some(first) = categories.first().copied() else { return };
        let wanted = match categories.contains(&'S') {
            true => 'S',
            false if categories.iter().all(|category| *category == first) => first,
            false => return,
        };
        let of_category = |c: &&Candidate| category(c.arguments[at]) == wanted;
        let any_preferred = left.iter().any(|c| of_category(c) && is_preferred(c.arguments[at]));
        left.retain(|c| of_category(c) && (!any_preferred || is_preferred(c.arguments[at])));
    }
}

fn accepts(to: u32, from: u32) -> bool {
    if to == from || from == oids::UNKNOWN || operators::is_implicit(from, to) {
        return true;
    }
    match to {
        ANY | ANYELEMENT | ANYCOMPATIBLE => true,
        ANYNONARRAY | ANYCOMPATIBLENONARRAY => element_of(from).is_none(),
        ANYARRAY | ANYCOMPATIBLEARRAY => element_of(from).is_some(),
        ANYENUM => enums::labels_of(from).is_some(),
        // Arrays follow their elements.
        _ => match (element_of(from), element_of(to)) {
            (Some(from), Some(to)) => operators::is_implicit(from, to),
            _ => false,
        },
    }
}

/// A candidate with types in the place of ANYELEMENT and its like.
fn resolved(candidate: &Candidate, given: &[u32]) -> Option<Chosen> {
    let pairs = || candidate.arguments.iter().copied().zip(given.iter().copied());
    let known = |(to, from): (u32, u32)| match to {
        _ if from == oids::UNKNOWN => None,
        ANYELEMENT | ANYNONARRAY | ANYENUM | ANYCOMPATIBLE | ANYCOMPATIBLENONARRAY => Some(from),
        ANYARRAY | ANYCOMPATIBLEARRAY => element_of(from),
        _ => None,
    };
    let elements: Vec<u32> = pairs().filter_map(known).collect();
    let is_polymorphic = |oid: u32| is_element(oid) || matches!(oid, ANYARRAY | ANYCOMPATIBLEARRAY);
    let is_strict =
        pairs().any(|(to, _)| matches!(to, ANYELEMENT | ANYARRAY | ANYNONARRAY | ANYENUM));
    let element = match is_strict {
        true if elements.windows(2).any(|pair| pair[0] != pair[1]) => return None,
        true => elements.first().copied(),
        false => common(&elements),
    };
    if element.is_none() && !elements.is_empty() {
        return None;
    }
    let element = element.unwrap_or(oids::TEXT);
    let place = |oid: u32| match oid {
        oid if is_element(oid) => Some(element),
        oid if is_polymorphic(oid) => array_of(element),
        oid => Some(oid),
    };
    Some(Chosen {
        arguments: candidate.arguments.iter().map(|oid| place(*oid)).collect::<Option<_>>()?,
        result: place(candidate.result)?,
    })
}

fn is_element(oid: u32) -> bool {
    matches!(oid, ANYELEMENT | ANYNONARRAY | ANYENUM | ANYCOMPATIBLE | ANYCOMPATIBLENONARRAY)
}

/// The type that values of several types have together, as in CASE, UNION and ARRAY[]; literals go along.
pub(crate) fn common(types: &[u32]) -> Option<u32> {
    let mut known = types.iter().copied().filter(|oid| *oid != oids::UNKNOWN);
    let Some(mut chosen) = known.next() else { return Some(oids::TEXT) };
    for oid in known {
        if oid == chosen {
            continue;
        }
        if category(oid) != category(chosen) {
            return None;
        }
        if !is_preferred(chosen) && accepts(oid, chosen) && !accepts(chosen, oid) {
            chosen = oid;
        }
    }
    types.iter().all(|oid| accepts(chosen, *oid)).then_some(chosen)
}

/// The type of the elements of an array type.
pub(crate) fn element_of(oid: u32) -> Option<u32> {
    element_oid(oid).or_else(|| enums::element_of(oid))
}

/// The type of arrays of a type.
pub(crate) fn array_of(oid: u32) -> Option<u32> {
    type_row(oid).map(|row| row.array).filter(|oid| *oid != 0).or_else(|| enums::array_of(oid))
}

fn category(oid: u32) -> char {
    match oid {
        ANY
        | ANYELEMENT
        | ANYNONARRAY
        | ANYCOMPATIBLE
        | ANYCOMPATIBLENONARRAY
        | ANYARRAY
        | ANYCOMPATIBLEARRAY
        | ANYENUM => 'P',
        _ => match type_row(oid) {
            Some(row) => row.category,
            None if enums::element_of(oid).is_some() => 'A',
            None => 'E',
        },
    }
}

fn is_preferred(oid: u32) -> bool {
    use oids::{BOOL, FLOAT8, INTERVAL, OID, TEXT, TIMESTAMPTZ};
    matches!(oid, BOOL | FLOAT8 | INTERVAL | OID | TEXT | TIMESTAMPTZ)
}

#[cfg(test)]
mod tests {
    use super::oids::*;
    use super::*;

    fn of_operator(name: &str, left: u32, right: u32) -> Option<(Vec<u32>, u32)> {
        operator(name, Some(left), right).map(|chosen| (chosen.arguments, chosen.result))
    }

    fn of_function(name: &str, given: &[u32]) -> Option<(Vec<u32>, u32)> {
        function(name, given).map(|chosen| (chosen.arguments, chosen.result))
    }

    #[test]
    fn operators_are_chosen_as_postgresql_does() {
        assert_eq!(of_operator("->>", JSONB, UNKNOWN), Some((vec![JSONB, TEXT], TEXT)));
        assert_eq!(of_operator("->", JSON, INT4), Some((vec![JSON, INT4], JSON)));
        assert_eq!(of_operator(">", INT4, UNKNOWN), Some((vec![INT4, INT4], BOOL)));
        assert_eq!(of_operator("=", VARCHAR, UNKNOWN), Some((vec![TEXT, TEXT], BOOL)));
        assert_eq!(of_operator(">", NUMERIC, INT4), Some((vec![NUMERIC, NUMERIC], BOOL)));
        assert_eq!(of_operator("*", INT4, INT8), Some((vec![INT4, INT8], INT8)));
        assert_eq!(of_operator("*", NUMERIC, FLOAT8), Some((vec![FLOAT8, FLOAT8], FLOAT8)));
        assert_eq!(of_operator("+", DATE, INT4), Some((vec![DATE, INT4], DATE)));
        assert_eq!(of_operator("-", TIMESTAMPTZ, UNKNOWN), Some((vec![TIMESTAMPTZ; 2], INTERVAL)));
        assert_eq!(of_operator("||", TEXT, UNKNOWN), Some((vec![TEXT, TEXT], TEXT)));
        assert_eq!(of_operator("||", UNKNOWN, VARCHAR), Some((vec![TEXT, TEXT], TEXT)));
        assert_eq!(of_operator("||", JSONB, UNKNOWN), Some((vec![JSONB, JSONB], JSONB)));
        assert_eq!(of_operator("~~", BPCHAR, UNKNOWN), Some((vec![BPCHAR, TEXT], BOOL)));
        assert_eq!(of_operator("@>", JSONB, UNKNOWN), Some((vec![JSONB, JSONB], BOOL)));
    }

    #[test]
    fn functions_are_chosen_as_postgresql_does() {
        assert_eq!(of_function("lower", &[VARCHAR]), Some((vec![TEXT], TEXT)));
        assert_eq!(of_function("length", &[UNKNOWN]), Some((vec![TEXT], INT4)));
        assert_eq!(of_function("round", &[NUMERIC, INT4]), Some((vec![NUMERIC, INT4], NUMERIC)));
        assert_eq!(
            of_function("date_trunc", &[UNKNOWN, TIMESTAMP]),
            Some((vec![TEXT, TIMESTAMP], TIMESTAMP))
        );
        assert_eq!(of_function("sum", &[INT4]), Some((vec![INT4], INT8)));
        assert_eq!(of_function("max", &[VARCHAR]), Some((vec![TEXT], TEXT)));
        assert_eq!(of_function("no_such_function", &[INT4]), None);
    }
}
