//! Names and oids: regclass, regtype, regnamespace.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::UInt32Type;
use froglet_engine::SqlState;
use froglet_schema::CatalogVersion;

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
            while let Some(c) = chars.next_if(|c| *c != '.' && !c.is_whitespace()) {
                part.push(c.to_ascii_lowercase());
            }
        }
        if part.is_empty() {
            return Err(bad());
        }
        parts.push(part);
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        match chars.next() {
            None => return Ok(parts),
            Some('.') => {}
            Some(_) => return Err(bad()),
        }
    }
}

/// An object's number as a text may give it: `-` is none.
fn written_oid(text: &str) -> Option<u32> {
    match text.trim() {
        "-" => Some(0),
        number => number.parse().ok(),
    }
}

/// The oid of a relation by name: user objects along the search path, then system tables.
pub fn relation_oid(session: &dyn SessionFunctions, text: &str) -> Result<u32, SqlError> {
    if let Some(oid) = written_oid(text) {
        return Ok(oid);
    }
    if let Some(oid) = find_relation(session, text)? {
        return Ok(oid);
    }
    known_schema(session, text)?;
    Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{text}\" does not exist")))
}

/// 3F000 where a name in two parts is in a schema that there is not.
fn known_schema(session: &dyn SessionFunctions, text: &str) -> Result<(), SqlError> {
    match &split_name(text)?[..] {
        [.., schema, _] if crate::pgcatalog::schema_oid(&session.catalog(), schema).is_none() => {
            let message = format!("schema \"{schema}\" does not exist");
            Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message))
        }
        _ => Ok(()),
    }
}

/// The oid of a relation by name, or `None`.
pub fn find_relation(session: &dyn SessionFunctions, text: &str) -> Result<Option<u32>, SqlError> {
    let mut parts = split_name(text)?;
    let Some(name) = parts.pop() else { return Ok(None) };
    let catalog = session.catalog();
    let schemas = match parts.pop() {
        Some(schema) => {
            of_this_database(session, &parts, text)?;
            vec![schema]
        }
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

/// Refuses what stands before a schema's name unless it is this database's.
fn of_this_database(
    session: &dyn SessionFunctions,
    before: &[String],
    text: &str,
) -> Result<(), SqlError> {
    match before {
        [] => Ok(()),
        [database] if *database == session.database() => Ok(()),
        [_] => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("cross-database references are not implemented: {text}"),
        )),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("improper relation name (too many dotted names): {text}"),
        )),
    }
}

/// The oid of a type by name.
pub fn type_oid(session: &dyn SessionFunctions, text: &str) -> Result<u32, SqlError> {
    if let Some(oid) = written_oid(text) {
        return Ok(oid);
    }
    if let Some(oid) = find_type(session, text)? {
        return Ok(oid);
    }
    known_schema(session, text.trim().trim_end_matches("[]"))?;
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{text}\" does not exist")))
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
    let find = |name: &str| {
        let of = |schema: &String| catalog.types.get(&(schema.clone(), name.to_owned())).copied();
        schemas.iter().find_map(of).and_then(|id| catalog.enum_type(id))
    };
    if let Some(def) = find(&name) {
        return Ok(Some(if is_array { def.array } else { def.id }));
    }
    // An array type has its element's name behind an underscore.
    let element = name.strip_prefix('_').filter(|_| !is_array);
    Ok(element.and_then(find).map(|def| def.array))
}

/// The oid of a function by name. Those that types are read and written by have one.
pub fn function_oid(text: &str) -> Result<u32, SqlError> {
    if let Some(oid) = written_oid(text) {
        return Ok(oid);
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

/// The oid of a function by its name and the types of its arguments: `lower(text)`.
pub fn procedure_oid(session: &dyn SessionFunctions, text: &str) -> Result<u32, SqlError> {
    if let Some(oid) = written_oid(text) {
        return Ok(oid);
    }
    let bad = |what: &str| SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, what.to_owned());
    let (name, rest) = text.split_once('(').ok_or_else(|| bad("expected a left parenthesis"))?;
    let list =
        rest.trim_end().strip_suffix(')').ok_or_else(|| bad("expected a right parenthesis"))?;
    let undefined = || {
        let message = format!("function \"{text}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
    };
    let mut parts = split_name(name.trim_end())?;
    let name = parts.pop().unwrap_or_default();
    if parts.pop().is_some_and(|schema| schema != "pg_catalog") {
        return Err(undefined());
    }
    let written: Vec<&str> = match list.trim() {
        "" => Vec::new(),
        list => list.split(',').map(str::trim).collect(),
    };
    // Functions that types are read and written by take what no value has the type of.
    let is_pseudo = |name: &str| {
        matches!(name, "cstring" | "internal" | "any" | "anyelement" | "anyarray" | "record")
    };
    if written.iter().any(|name| is_pseudo(name)) {
        return crate::pgcatalog::type_io::function_oid(&name).ok_or_else(undefined);
    }
    let arguments: Vec<i64> = written
        .iter()
        .map(|ty| type_oid(session, ty).map(i64::from))
        .collect::<Result<_, SqlError>>()?;
    let mut named = procs::named(&name);
    named.find(|proc| proc.arguments == arguments).map(|proc| proc.oid).ok_or_else(undefined)
}

/// A function as regprocedure shows it.
fn procedure_text(session: &dyn SessionFunctions, oid: u32) -> Option<String> {
    let Some(proc) = procs::by_oid(oid) else {
        return crate::pgcatalog::type_io::function_name(oid).map(str::to_owned);
    };
    let ty = |oid: &i64| {
        let oid = u32::try_from(*oid).unwrap_or(0);
        match names::type_row(oid) {
            Some(_) => names::type_name(types::plain(oid)),
            None => enums::name_in(session, oid).unwrap_or_else(|| pseudo_type(oid).to_owned()),
        }
    };
    let arguments: Vec<String> = proc.arguments.iter().map(ty).collect();
    Some(format!("{}({})", quote_ident(proc.name), arguments.join(",")))
}

/// Types of arguments that no value has.
fn pseudo_type(oid: u32) -> &'static str {
    match oid {
        2275 => "cstring",
        2276 => "\"any\"",
        2277 => "anyarray",
        2281 => "internal",
        2283 => "anyelement",
        2776 => "anynonarray",
        3500 => "anyenum",
        5077 => "anycompatible",
        5078 => "anycompatiblearray",
        _ => "???",
    }
}

/// The oid of a role by name.
pub fn role_oid(session: &dyn SessionFunctions, text: &str) -> Result<u32, SqlError> {
    if let Some(oid) = written_oid(text) {
        return Ok(oid);
    }
    let name = one_name(text)?;
    let catalog = session.catalog();
    catalog.role(&name).map(|role| role.id).ok_or_else(|| crate::roles::no_role(&name))
}

/// The oid of a schema by name.
pub fn schema_oid(session: &dyn SessionFunctions, text: &str) -> Result<u32, SqlError> {
    if let Some(oid) = written_oid(text) {
        return Ok(oid);
    }
    find_schema(session, text)?.ok_or_else(|| {
        SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{text}\" does not exist"))
    })
}

/// The oid of a schema by name, or `None`.
pub fn find_schema(session: &dyn SessionFunctions, text: &str) -> Result<Option<u32>, SqlError> {
    Ok(crate::pgcatalog::schema_oid(&session.catalog(), &one_name(text)?))
}

/// A name of one part, with or without quotes.
fn one_name(text: &str) -> Result<String, SqlError> {
    let mut parts = split_name(text)?;
    match (parts.pop(), parts.is_empty()) {
        (Some(name), true) => Ok(name),
        _ => Err(SqlError::new(SqlState::new("42602"), "invalid name syntax")),
    }
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
        && !is_reserved(name);
    if plain && !quotes_all() { name.to_owned() } else { quoted(name) }
}

/// A name in quotes, for the text of a statement: what is in the name stays a name.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn is_reserved(name: &str) -> bool {
    const RESERVED: &[&str] = &[
        "all",
        "analyse",
        "analyze",
        "and",
        "any",
        "array",
        "as",
        "asc",
        "asymmetric",
        "authorization",
        "between",
        "bigint",
        "binary",
        "bit",
        "boolean",
        "both",
        "case",
        "cast",
        "char",
        "character",
        "check",
        "coalesce",
        "collate",
        "collation",
        "column",
        "concurrently",
        "constraint",
        "create",
        "cross",
        "current_date",
        "current_role",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_user",
        "dec",
        "decimal",
        "default",
        "deferrable",
        "desc",
        "distinct",
        "do",
        "else",
        "end",
        "except",
        "exists",
        "extract",
        "false",
        "fetch",
        "float",
        "for",
        "foreign",
        "freeze",
        "from",
        "full",
        "grant",
        "greatest",
        "group",
        "grouping",
        "having",
        "ilike",
        "in",
        "initially",
        "inner",
        "inout",
        "int",
        "integer",
        "intersect",
        "interval",
        "into",
        "is",
        "isnull",
        "join",
        "lateral",
        "leading",
        "least",
        "left",
        "like",
        "limit",
        "localtime",
        "localtimestamp",
        "national",
        "natural",
        "nchar",
        "none",
        "normalize",
        "not",
        "notnull",
        "null",
        "nullif",
        "numeric",
        "offset",
        "on",
        "only",
        "or",
        "order",
        "out",
        "outer",
        "overlaps",
        "overlay",
        "placing",
        "position",
        "precision",
        "primary",
        "real",
        "references",
        "returning",
        "right",
        "row",
        "select",
        "session_user",
        "setof",
        "similar",
        "smallint",
        "some",
        "substring",
        "symmetric",
        "table",
        "tablesample",
        "then",
        "time",
        "timestamp",
        "to",
        "trailing",
        "treat",
        "trim",
        "true",
        "union",
        "unique",
        "user",
        "using",
        "values",
        "varchar",
        "variadic",
        "verbose",
        "when",
        "where",
        "window",
        "with",
        "xmlattributes",
        "xmlconcat",
        "xmlelement",
        "xmlexists",
        "xmlforest",
        "xmlnamespaces",
        "xmlparse",
        "xmlpi",
        "xmlroot",
        "xmlserialize",
        "xmltable",
    ];
    RESERVED.binary_search(&name).is_ok()
}

/// A relation as regclass prints it: with its schema where the search path does not find it.
pub fn relation_text(session: &dyn SessionFunctions, oid: u32) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    match relation_of(&session.catalog(), oid) {
        None => oid.to_string(),
        Some((schema, name)) => {
            let found = schema == "pg_catalog" || session.search_path().contains(&schema);
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
            oids::REGNAMESPACE | oids::REGPROCEDURE if oid == 0 => "-".to_owned(),
            oids::REGPROCEDURE => procedure_text(session, oid).unwrap_or_else(|| oid.to_string()),
            oids::REGNAMESPACE => crate::pgcatalog::schema_name(&session.catalog(), oid)
                .map_or_else(|| oid.to_string(), |name| quote_ident(&name)),
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
