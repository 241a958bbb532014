//! Names and oids: regclass, regtype, regnamespace.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::UInt32Type;
use froglet_engine::SqlState;
use froglet_schema::CatalogVersion;

use crate::catalogs::keywords;
use crate::context::{SessionFunctions, quotes_all};
use crate::error::SqlError;
use crate::pgcatalog::procs;
use crate::semantics::enums;
use crate::types::{self, names, oids};

/// Splits `schema.name`, with quotes, into its parts in PostgreSQL's case.
pub fn split_name(text: &str) -> Result<Vec<String>, SqlError> {
    let bad = || SqlError::new(SqlState::new("42602"), format!("invalid name syntax: \"{text}\""));
    let mut parts = Vec::new();
    let mut chars = text.trim().chars().peekable();
    loop {
        let mut part = String::new();
        if chars.next_if_eq(&'"').is_some() {
            loop {
                match chars.next().ok_or_else(bad)? {
                    '"' if chars.next_if_eq(&'"').is_some() => part.push('"'),
                    '"' => break,
                    c => part.push(c),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| *c != '.') {
                part.push(c.to_ascii_lowercase());
            }
        }
        if part.is_empty() {
            return Err(bad());
        }
        parts.push(part);
        match chars.next() {
            None => return Ok(parts),
            Some('.') => {}
            Some(_) => return Err(bad()),
        }
    }
}

/// The oid of a relation by name: user objects along the search path, then system tables.
pub fn relation_oid(session: &dyn SessionFunctions, text: &str) -> Result<u32, SqlError> {
    if let Ok(oid) = text.trim().parse::<u32>() {
        return Ok(oid);
    }
    find_relation(session, text)?.ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{text}\" does not exist"))
    })
}

/// The oid of a relation by name, or `None`.
pub fn find_relation(session: &dyn SessionFunctions, text: &str) -> Result<Option<u32>, SqlError> {
    let mut parts = split_name(text)?;
    let Some(name) = parts.pop() else { return Ok(None) };
    let catalog = session.catalog();
    let schemas = match parts.pop() {
        Some(schema) => vec![schema],
        None => {
            let mut path = vec!["pg_catalog".to_owned()];
            path.extend(session.search_path());
            path
        }
    };
    Ok(schemas.into_iter().find_map(|schema| {
        crate::pgcatalog::system_relation(&schema, &name)
            .or_else(|| catalog.names.get(&(schema, name.clone())).copied())
    }))
}

/// The oid of a type by name.
pub fn type_oid(session: &dyn SessionFunctions, text: &str) -> Result<u32, SqlError> {
    if let Ok(oid) = text.trim().parse::<u32>() {
        return Ok(oid);
    }
    find_type(session, text)?.ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{text}\" does not exist"))
    })
}

/// The oid of a type by name, or `None`: the system's types, then users' along the search path.
pub fn find_type(session: &dyn SessionFunctions, text: &str) -> Result<Option<u32>, SqlError> {
    if let Some(row) = names::type_by_name(text) {
        return Ok(Some(row.oid));
    }
    let (name, is_array) = match text.trim().strip_suffix("[]") {
        Some(element) => (element, true),
        None => (text.trim(), false),
    };
    if let Some((before, rest)) = name.split_once('(')
        && let Some((modifiers, behind)) = rest.split_once(')')
        && modifiers.chars().all(|c| c.is_ascii_digit() || matches!(c, ' ' | ',' | '-'))
    {
        // A type is the same whatever its modifiers.
        let array = if is_array { "[]" } else { "" };
        return find_type(session, &format!("{}{behind}{array}", before.trim_end()));
    }
    let mut parts = split_name(name)?;
    let Some(name) = parts.pop() else { return Ok(None) };
    let catalog = session.catalog();
    let schemas = parts.pop().map_or_else(|| session.search_path(), |schema| vec![schema]);
    let of = |schema| catalog.types.get(&(schema, name.clone())).copied();
    let found = schemas.into_iter().find_map(of).and_then(|id| catalog.enum_type(id));
    Ok(found.map(|def| if is_array { def.array } else { def.id }))
}

/// The oid of a function by name. Those that types are read and written by have one.
pub fn function_oid(text: &str) -> Result<u32, SqlError> {
    if let Ok(oid) = text.trim().parse::<u32>() {
        return Ok(oid);
    }
    if text.trim() == "-" {
        return Ok(0);
    }
    let mut parts = split_name(text)?;
    let name = parts.pop().unwrap_or_default();
    let found = match parts.pop().as_deref() {
        None | Some("pg_catalog") => {
            let mut named = procs::named(&name);
            let first = named.next().map(|proc| proc.oid);
            if named.next().is_some() {
                return Err(SqlError::new(
                    SqlState::new("42725"),
                    format!("more than one function named \"{text}\""),
                ));
            }
            first.or_else(|| crate::pgcatalog::type_io::function_oid(&name))
        }
        Some(_) => None,
    };
    found.ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist"))
    })
}

/// The oid of a role by name.
pub fn role_oid(session: &dyn SessionFunctions, text: &str) -> Result<u32, SqlError> {
    if let Ok(oid) = text.trim().parse::<u32>() {
        return Ok(oid);
    }
    if text.trim() == "-" {
        return Ok(0);
    }
    let name = split_name(text)?.pop().unwrap_or_default();
    let catalog = session.catalog();
    catalog.role(&name).map(|role| role.id).ok_or_else(|| crate::roles::no_role(&name))
}

/// The oid of a schema by name.
pub fn schema_oid(session: &dyn SessionFunctions, text: &str) -> Result<u32, SqlError> {
    crate::pgcatalog::schema_oid(&session.catalog(), text).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{text}\" does not exist"))
    })
}

/// Where an oid's relation is: schema and name.
pub fn relation_of(catalog: &CatalogVersion, oid: u32) -> Option<(String, String)> {
    if let Some((schema, name)) = crate::pgcatalog::system_relation_name(oid) {
        return Some((schema.to_owned(), name.to_owned()));
    }
    if let Some(table) = catalog.tables.get(&oid) {
        return Some((table.def.schema.clone(), table.def.name.clone()));
    }
    if let Some(sequence) = catalog.sequences.get(&oid) {
        return Some((sequence.schema.clone(), sequence.name.clone()));
    }
    if let Some(view) = catalog.view(oid) {
        return Some((view.schema.clone(), view.name.clone()));
    }
    catalog.tables.values().find_map(|table| {
        let index = table.def.indexes.iter().find(|i| i.id == oid)?;
        Some((table.def.schema.clone(), index.name.clone()))
    })
}

/// A name in quotes where PostgreSQL needs them, or where the session wants them.
pub fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !keywords::needs_quotes(name);
    if plain && !quotes_all() { name.to_owned() } else { quoted(name) }
}

/// A name in quotes, for the text of a statement: what is in the name stays a name.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A relation as regclass prints it: with its schema where the search path does not find it.
pub fn relation_text(session: &dyn SessionFunctions, oid: u32) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    match relation_of(&session.catalog(), oid) {
        None => oid.to_string(),
        Some((schema, name)) => {
            // Another of the name may be found before it.
            let path = session.search_path();
            let names = &session.catalog().names;
            let first = path.iter().find(|s| names.contains_key(&((*s).clone(), name.clone())));
            let found = schema == "pg_catalog" || first == Some(&schema);
            if found {
                quote_ident(&name)
            } else {
                format!("{}.{}", quote_ident(&schema), quote_ident(&name))
            }
        }
    }
}

/// The texts of oids of a kind (regclass, regtype, …; plain oids are numbers).
pub fn names_of(session: &dyn SessionFunctions, kind: u32, array: &ArrayRef) -> ArrayRef {
    let ids = array.as_primitive::<UInt32Type>();
    let mut builder = StringViewBuilder::with_capacity(ids.len());
    for row in 0..ids.len() {
        if ids.is_null(row) {
            builder.append_null();
            continue;
        }
        let oid = ids.value(row);
        builder.append_value(match kind {
            oids::REGCLASS => relation_text(session, oid),
            oids::REGTYPE if oid == 0 => "-".to_owned(),
            oids::REGTYPE => match names::type_row(oid) {
                Some(_) => names::type_name(types::plain(oid)),
                None => enums::name_in(session, oid).unwrap_or_else(|| oid.to_string()),
            },
            oids::REGNAMESPACE => crate::pgcatalog::schema_name(&session.catalog(), oid)
                .unwrap_or_else(|| oid.to_string()),
            oids::REGROLE if oid == 0 => "-".to_owned(),
            oids::REGROLE => crate::pgcatalog::cluster::role_name(&session.catalog(), oid)
                .map_or_else(|| oid.to_string(), |name| quote_ident(&name)),
            oids::REGPROC if oid == 0 => "-".to_owned(),
            oids::REGPROC => {
                let listed = || procs::by_oid(oid).map(|proc| proc.name);
                let name = crate::pgcatalog::type_io::function_name(oid).or_else(listed);
                name.map_or_else(|| oid.to_string(), str::to_owned)
            }
            _ => oid.to_string(),
        });
    }
    Arc::new(builder.finish())
}
