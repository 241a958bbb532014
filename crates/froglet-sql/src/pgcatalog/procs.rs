//! pg_proc: the functions that Froglet has, with the numbers and the signatures that PostgreSQL 15 gives them.
//!
//! `functions.txt` has a line for each, by oid, of fields between tabs: oid, name, letters (kind, volatility,
//! parallel safety, strict, set), how many arguments have defaults, the variadic type, the result's type, types of
//! the arguments, source, types, modes and names of all arguments, and how PostgreSQL writes the arguments, those
//! that tell the function (`=`: the same), and the result.

use std::sync::LazyLock;

use super::{OWNER, Rows};
use crate::provider::QueryScope;
use crate::system_row as row;

static TEXT: &str = include_str!("functions.txt");

/// pg_language.oid of what is built in, and of SQL.
const INTERNAL: u32 = 12;
const SQL: u32 = 14;

/// A function.
pub(crate) struct Proc {
    pub(crate) oid: u32,
    pub(crate) name: &'static str,
    /// kind, volatility, parallel safety, strict, set
    letters: [char; 5],
    defaults: i64,
    variadic: i64,
    result: i64,
    /// Their types.
    pub(crate) arguments: Vec<i64>,
    source: &'static str,
    all_types: Vec<i64>,
    modes: Vec<String>,
    names: Vec<String>,
    /// pg_get_function_arguments
    pub(crate) written: &'static str,
    /// pg_get_function_identity_arguments
    pub(crate) identity: &'static str,
    /// pg_get_function_result
    pub(crate) written_result: &'static str,
}

/// All of them, by oid.
pub(crate) fn all() -> &'static [Proc] {
    static ALL: LazyLock<Vec<Proc>> = LazyLock::new(|| TEXT.lines().filter_map(read).collect());
    &ALL
}

/// The function of an oid.
pub(crate) fn by_oid(oid: u32) -> Option<&'static Proc> {
    let at = all().binary_search_by_key(&oid, |proc| proc.oid).ok()?;
    all().get(at)
}

/// The functions of a name.
pub(crate) fn named(name: &str) -> impl Iterator<Item = &'static Proc> {
    all().iter().filter(move |proc| proc.name == name)
}

fn read(line: &'static str) -> Option<Proc> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    let oid = next()?.parse().ok()?;
    let name = next()?;
    let mut letters = ['f'; 5];
    for (letter, given) in letters.iter_mut().zip(next()?.chars()) {
        *letter = given;
    }
    let (defaults, variadic, result) =
        (next()?.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
    let arguments = numbers(next()?);
    let source = next()?;
    let all_types = numbers(next()?);
    let (modes, names) = (texts(next()?), texts(next()?));
    let written = next()?;
    let identity = match next()? {
        "=" => written,
        other => other,
    };
    let written_result = next()?;
    Some(Proc {
        oid,
        name,
        letters,
        defaults,
        variadic,
        result,
        arguments,
        source,
        all_types,
        modes,
        names,
        written,
        identity,
        written_result,
    })
}

fn texts(list: &str) -> Vec<String> {
    if list.is_empty() { Vec::new() } else { list.split(',').map(str::to_owned).collect() }
}

fn numbers(list: &str) -> Vec<i64> {
    list.split(',').filter_map(|number| number.parse().ok()).collect()
}

/// A list that is NULL where it is empty.
fn filled<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}

pub(super) fn fill_of(schema: &str, name: &str) -> Option<fn(&QueryScope, &mut Rows)> {
    match (schema, name) {
        ("pg_catalog", "pg_proc") => Some(functions),
        _ => None,
    }
}

fn functions(_scope: &QueryScope, rows: &mut Rows) {
    for proc in all() {
        let [kind, volatility, parallel, strict, set] = proc.letters;
        row!(rows;
            oid: proc.oid,
            proname: proc.name,
            pronamespace: 11,
            proowner: OWNER,
            prolang: if proc.source.is_empty() { SQL } else { INTERNAL },
            procost: 1.0,
            prorows: if set == 't' { 1000.0 } else { 0.0 },
            provariadic: proc.variadic,
            prokind: kind,
            proisstrict: strict == 't',
            proretset: set == 't',
            provolatile: volatility,
            proparallel: parallel,
            pronargs: proc.arguments.len(),
            pronargdefaults: proc.defaults,
            prorettype: proc.result,
            proargtypes: proc.arguments.clone(),
            proallargtypes: filled(&proc.all_types),
            proargmodes: filled(&proc.modes),
            proargnames: filled(&proc.names),
            prosrc: proc.source,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_function() {
        assert_eq!(all().len(), TEXT.lines().count());
        assert!(all().is_sorted_by_key(|proc| proc.oid));
        let lower = by_oid(870).expect("lower is a function");
        assert_eq!((lower.name, lower.written, lower.written_result), ("lower", "text", "text"));
    }
}
