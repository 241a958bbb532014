//! The settings of PostgreSQL 15 beside our own: names, types, bounds and defaults are those of its pg_settings.
//!
//! `postgres_settings.txt` has a line for each, of fields between tabs: name, type, unit, context, least and greatest
//! value, the values of an enumeration, the values that are taken here (`*`: all), the default, and the category.
//!
//! ```text
//!   context         SET
//!   user            by everybody
//!   superuser       by superusers
//!   backend, …      not after the session's start
//!   sighup          not by a session
//!   postmaster      not by a session, and not while the server runs
//!   internal        never
//! ```
//! One that would change an answer, and does not here, takes the value alone that Froglet answers by.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::setting_units::Unit;
use crate::setting_specs::{Context, Kind, OWN, Spec};

static TEXT: &str = include_str!("postgres_settings.txt");

/// Every setting: our own, with what PostgreSQL says of them, and PostgreSQL's others.
pub(crate) fn all() -> &'static [Spec] {
    static ALL: LazyLock<Vec<Spec>> = LazyLock::new(|| {
        let mut theirs: HashMap<&'static str, Spec> =
            TEXT.lines().filter_map(read).map(|spec| (spec.name, spec)).collect();
        let own = OWN.iter().map(|own| match theirs.remove(own.name) {
            Some(known) => Spec {
                category: known.category,
                // What cannot be set here says why in PostgreSQL's words, where it cannot be set there.
                context: match (own.context, known.context) {
                    (Context::Internal, Context::User | Context::Superuser) => Context::Internal,
                    (Context::User | Context::Internal, known) => known,
                    (own, _) => own,
                },
                ..*own
            },
            None => *own,
        });
        let mut all: Vec<Spec> = own.collect();
        all.extend(theirs.into_values());
        all.sort_by_cached_key(|spec| spec.name.to_ascii_lowercase());
        all
    });
    &ALL
}

/// Where a setting is among [`all`].
pub(crate) fn place_of(name: &str) -> Option<usize> {
    static PLACES: LazyLock<HashMap<String, usize>> = LazyLock::new(|| {
        let names = all().iter().map(|spec| spec.name.to_ascii_lowercase());
        names.enumerate().map(|(at, name)| (name, at)).collect()
    });
    match PLACES.get(name) {
        Some(at) => Some(*at),
        None => PLACES.get(&name.to_ascii_lowercase()).copied(),
    }
}

fn read(line: &'static str) -> Option<Spec> {
    let fields: Vec<&'static str> = line.split('\t').collect();
    let [name, kind, unit, context, min, max, values, taken, default, category] = fields[..] else {
        return None;
    };
    let unit = Unit::named(unit);
    let list = |text: &'static str| -> &'static [&'static str] {
        text.split(',').collect::<Vec<_>>().leak()
    };
    let kind = match kind {
        "bool" => Kind::Bool,
        "integer" | "real" => Kind::Number {
            min: min.parse().ok()?,
            max: max.parse().ok()?,
            unit,
            whole: kind == "integer",
        },
        "enum" => Kind::Enum(list(values)),
        _ => Kind::Text,
    };
    Some(Spec {
        name,
        kind,
        default,
        context: Context::named(context)?,
        report: false,
        hidden: false,
        no_reset_all: false,
        taken: if taken == "*" { &[] } else { list(taken) },
        category,
        description: "PostgreSQL's; it changes nothing here.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::canonical;

    #[test]
    fn every_line_is_a_setting_that_takes_its_default() {
        for line in TEXT.lines() {
            let spec = read(line).unwrap_or_else(|| panic!("{line}"));
            assert!(canonical(&spec, spec.default, spec.default).is_ok(), "{line}");
        }
        assert!(all().len() > 300);
        assert_eq!(place_of("datestyle"), place_of("DateStyle"));
    }
}
