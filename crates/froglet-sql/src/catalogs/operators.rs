//! pg_operator and pg_cast, of the types that Froglet has, with the numbers of PostgreSQL 15.
//!
//! `operators.txt`: oid, name, kind, may merge, may hash, left, right and result type, commutator, negator, function,
//! and the two estimators. `casts.txt`: oid, source, target, function, context, method.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::pgcatalog::{OWNER, Rows};
use crate::provider::QueryScope;
use crate::system_row as row;

static OPERATORS: &str = include_str!("operators.txt");
static CASTS: &str = include_str!("casts.txt");

/// pg_namespace.oid of pg_catalog.
const PG_CATALOG: u32 = 11;

/// An operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operator {
    name: &'static str,
    oid: u32,
    kind: char,
    merges: bool,
    hashes: bool,
    /// 0 if it stands before its operand.
    pub(crate) left: u32,
    pub(crate) right: u32,
    pub(crate) result: u32,
    /// commutator, negator, function, its estimators
    rest: [u32; 5],
}

/// A cast between two types.
#[derive(Clone, Copy, Debug)]
struct Cast {
    oid: u32,
    source: u32,
    target: u32,
    function: u32,
    context: char,
    method: char,
}

fn operators() -> &'static [Operator] {
    static ALL: LazyLock<Vec<Operator>> =
        LazyLock::new(|| OPERATORS.lines().filter_map(read_operator).collect());
    &ALL
}

fn casts() -> &'static [Cast] {
    static ALL: LazyLock<Vec<Cast>> =
        LazyLock::new(|| CASTS.lines().filter_map(read_cast).collect());
    &ALL
}

/// The operators of a name.
pub(crate) fn named(name: &str) -> &'static [Operator] {
    static BY_NAME: LazyLock<HashMap<&'static str, Vec<Operator>>> = LazyLock::new(|| {
        let mut map: HashMap<&'static str, Vec<Operator>> = HashMap::new();
        for operator in operators() {
            map.entry(operator.name).or_default().push(*operator);
        }
        map
    });
    BY_NAME.get(name).map_or(&[], Vec::as_slice)
}

/// Whether a value of one type stands for one of another without being asked.
pub(crate) fn is_implicit(source: u32, target: u32) -> bool {
    casts().iter().any(|c| c.source == source && c.target == target && c.context == 'i')
}

fn read_operator(line: &'static str) -> Option<Operator> {
    let fields: Vec<&'static str> = line.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse().ok();
    Some(Operator {
        oid: number(0)?,
        name: fields.get(1)?,
        kind: fields.get(2)?.chars().next()?,
        merges: *fields.get(3)? == "1",
        hashes: *fields.get(4)? == "1",
        left: number(5)?,
        right: number(6)?,
        result: number(7)?,
        rest: [number(8)?, number(9)?, number(10)?, number(11)?, number(12)?],
    })
}

fn read_cast(line: &'static str) -> Option<Cast> {
    let fields: Vec<&'static str> = line.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse().ok();
    let letter = |at: usize| fields.get(at)?.chars().next();
    Some(Cast {
        oid: number(0)?,
        source: number(1)?,
        target: number(2)?,
        function: number(3)?,
        context: letter(4)?,
        method: letter(5)?,
    })
}

/// What fills their tables.
pub(crate) fn fill_of(schema: &str, name: &str) -> Option<fn(&QueryScope, &mut Rows)> {
    match (schema, name) {
        ("pg_catalog", "pg_operator") => Some(operator_rows),
        ("pg_catalog", "pg_cast") => Some(cast_rows),
        _ => None,
    }
}

fn operator_rows(_scope: &QueryScope, rows: &mut Rows) {
    for operator in operators() {
        let [commutator, negator, function, restriction, join] = operator.rest;
        row!(rows;
            oid: operator.oid,
            oprname: operator.name,
            oprnamespace: PG_CATALOG,
            oprowner: OWNER,
            oprkind: operator.kind,
            oprcanmerge: operator.merges,
            oprcanhash: operator.hashes,
            oprleft: operator.left,
            oprright: operator.right,
            oprresult: operator.result,
            oprcom: commutator,
            oprnegate: negator,
            oprcode: function,
            oprrest: restriction,
            oprjoin: join,
        );
    }
}

fn cast_rows(_scope: &QueryScope, rows: &mut Rows) {
    for cast in casts() {
        row!(rows;
            oid: cast.oid,
            castsource: cast.source,
            casttarget: cast.target,
            castfunc: cast.function,
            castcontext: cast.context,
            castmethod: cast.method,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::oids;

    #[test]
    fn every_line_is_an_operator_or_a_cast() {
        assert_eq!(operators().len(), OPERATORS.lines().count());
        assert_eq!(casts().len(), CASTS.lines().count());
        assert!(is_implicit(oids::INT4, oids::NUMERIC) && !is_implicit(oids::TEXT, oids::INT4));
        assert!(named("->>").iter().all(|o| o.result == oids::TEXT));
    }
}
