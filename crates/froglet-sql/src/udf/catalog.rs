//! Functions of the catalog: what psql, drivers and ORMs ask about objects.

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use froglet_schema::SqlType;

use super::lookup;
use super::simple::{ANY, Out, RELATION, Simple, int, oid, text, truth};
use super::typed::Typed;
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::pgcatalog::{cluster, constraints, deparse, procs};
use crate::semantics::enums;
use crate::types::cell::{Cell, cell_at};
use crate::types::names;
use crate::types::oids::*;

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let mut all = definitions();
    all.extend(visibility());
    all.extend(texts());
    all.extend(signatures());
    all.extend(sizes());
    all.extend(names_and_oids());
    all.extend(acl_defaults());
    all.extend(crate::privileges::functions::all());
    all.extend(writes());
    all.extend(nothing());
    all
}

fn format_type(session: &dyn SessionFunctions, cells: &[Cell<'_>]) -> Out {
    let Some(id) = int(cells, 0) else { return Out::Null };
    let id = u32::try_from(id).unwrap_or(0);
    match (id, names::type_row(id)) {
        (0, _) => Out::Text("-".to_owned()),
        (_, None) => Out::Text(enums::name_in(session, id).unwrap_or_else(|| "???".to_owned())),
        (_, Some(_)) => {
            let modifier = int(cells, 1).and_then(|m| i32::try_from(m).ok());
            let name = match (id, modifier) {
                // A column of type bpchar without a length is not a character(1).
                (BPCHAR, Some(-1)) => lookup::quote_ident("bpchar"),
                (_, modifier) => {
                    names::shown_type_name(SqlType { oid: id, modifier: modifier.unwrap_or(-1) })
                }
            };
            Out::Text(name)
        }
    }
}

fn definitions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Simple::new("oidvectortypes", &[OIDVECTOR], TEXT, |s, cells| {
            let Cell::List(items) = &cells[0] else { return Ok(Out::Null) };
            let names = (0..items.len()).map(|at| {
                let id = match cell_at(items, at) {
                    Cell::Oid(id) => id,
                    Cell::Int32(id) => id as u32,
                    Cell::Int64(id) => id as u32,
                    _ => 0,
                };
                let users = || enums::name_in(s, id).unwrap_or_else(|| "???".to_owned());
                names::type_row(id).map_or_else(users, |row| row.sql_name.to_owned())
            });
            Ok(Out::Text(names.collect::<Vec<_>>().join(", ")))
        })
        .build(),
        Simple::new("format_type", &[OID, INT4], TEXT, |s, cells| Ok(format_type(s, cells)))
            .not_strict()
            .build(),
        Simple::new("pg_get_expr", &[TEXT, OID, BOOL], TEXT, |s, cells| {
            let written = text(cells, 0);
            if truth(cells, 2) != Some(true) || !written.starts_with('(') {
                return Ok(Out::Text(written.to_owned()));
            }
            let catalog = s.catalog();
            let table = catalog.tables.get(&oid(cells, 1));
            let pretty = table.and_then(|table| deparse::pretty_text(written, &table.def));
            Ok(Out::Text(pretty.unwrap_or_else(|| without_parentheses(written).to_owned())))
        })
        .optional(1)
        .build(),
        Simple::new("pg_get_indexdef", &[OID, INT4, BOOL], TEXT, |s, cells| {
            let column = int(cells, 1).unwrap_or(0);
            let pretty = truth(cells, 2) == Some(true);
            Ok(constraints::index_text(&s.catalog(), oid(cells, 0), column, pretty).into())
        })
        .optional(2)
        .build(),
        Simple::new("pg_get_constraintdef", &[OID, BOOL], TEXT, |s, cells| {
            let pretty = truth(cells, 1) == Some(true);
            Ok(constraints::constraint_text(s, oid(cells, 0), pretty).into())
        })
        .optional(1)
        .build(),
        Simple::new("pg_get_userbyid", &[OID], NAME, |s, cells| {
            let id = oid(cells, 0);
            let name = cluster::role_name(&s.catalog(), id);
            Ok(Out::Text(name.unwrap_or_else(|| format!("unknown (OID={id})"))))
        })
        .build(),
        Simple::new("pg_get_serial_sequence", &[TEXT, TEXT], TEXT, |s, cells| {
            serial_sequence(s, text(cells, 0), text(cells, 1))
        })
        .build(),
        Simple::new("pg_encoding_to_char", &[INT4], NAME, |_, cells| {
            let name = if int(cells, 0) == Some(6) { "UTF8" } else { "SQL_ASCII" };
            Ok(Out::Text(name.to_owned()))
        })
        .build(),
        Simple::new("pg_char_to_encoding", &[TEXT], INT4, |_, cells| {
            let utf8 =
                matches!(text(cells, 0).to_lowercase().as_str(), "utf8" | "utf-8" | "unicode");
            Ok(Out::Int(if utf8 { 6 } else { -1 }))
        })
        .build(),
        Simple::new("getdatabaseencoding", &[], NAME, |_, _| Ok(Out::Text("UTF8".to_owned())))
            .build(),
        Typed::new("pg_typeof", 1, REGTYPE, |arguments| {
            Ok(Out::Int(
                match arguments[0].cell {
                    Cell::Null if arguments[0].oid == TEXT => UNKNOWN,
                    _ => arguments[0].oid,
                }
                .into(),
            ))
        })
        .not_strict()
        .build(),
    ]
}

/// An expression without the parentheses around all of it.
fn without_parentheses(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return text;
    };
    let mut depth = 0_i32;
    let mut quoted = false;
    for c in inner.chars() {
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return text;
        }
    }
    inner
}

fn serial_sequence(
    session: &dyn SessionFunctions,
    table: &str,
    column: &str,
) -> Result<Out, SqlError> {
    let table = lookup::relation_oid(session, table)?;
    let catalog = session.catalog();
    let id = catalog.tables.get(&table).and_then(|t| t.def.column(column)).map(|c| c.id);
    let Some(id) = id else {
        return Err(SqlError::new(
            froglet_engine::SqlState::UNDEFINED_COLUMN,
            format!("column \"{column}\" of relation \"{table}\" does not exist"),
        ));
    };
    let owned = catalog.sequences.values().find(|s| s.owned_by == Some((table, id)));
    let name = |s: &Arc<froglet_schema::SequenceDef>| {
        format!("{}.{}", lookup::quote_ident(&s.schema), lookup::quote_ident(&s.name))
    };
    Ok(owned.map(name).into())
}

fn visibility() -> Vec<Arc<ScalarUDF>> {
    let mut all = vec![
        Simple::new("pg_table_is_visible", &[OID], BOOL, |s, cells| {
            let found = lookup::relation_of(&s.catalog(), oid(cells, 0));
            Ok(found.map_or(Out::Null, |(schema, _)| {
                Out::Bool(schema == "pg_catalog" || s.search_path().contains(&schema))
            }))
        })
        .volatile()
        .build(),
    ];
    for name in [
        "pg_type_is_visible",
        "pg_function_is_visible",
        "pg_collation_is_visible",
        "pg_operator_is_visible",
        "pg_opclass_is_visible",
        "pg_opfamily_is_visible",
        "pg_conversion_is_visible",
        "pg_statistics_obj_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
        "pg_relation_is_publishable",
    ] {
        all.push(Simple::new(name, &[ANY], BOOL, |_, _| Ok(Out::Bool(true))).build());
    }
    for name in ["pg_is_in_recovery", "pg_is_wal_replay_paused"] {
        all.push(Simple::new(name, &[], BOOL, |_, _| Ok(Out::Bool(false))).build());
    }
    all.push(
        Simple::new("pg_is_other_temp_schema", &[OID], BOOL, |_, _| Ok(Out::Bool(false))).build(),
    );
    all.push(Simple::new("pg_my_temp_schema", &[], OID, |_, _| Ok(Out::Int(0))).build());
    all
}

/// The bytes of a relation; indexes and sequences count as one page.
fn size_of(session: &dyn SessionFunctions, cell: &Cell<'_>) -> Result<Option<i64>, SqlError> {
    let id = match cell {
        Cell::Text(name) => lookup::relation_oid(session, name)?,
        Cell::Oid(id) => *id,
        Cell::Int32(id) => u32::try_from(*id).unwrap_or(0),
        Cell::Int64(id) => u32::try_from(*id).unwrap_or(0),
        _ => return Ok(None),
    };
    let catalog = session.catalog();
    if let Some(table) = catalog.tables.get(&id) {
        return Ok(i64::try_from(table.table.bytes_estimate()).ok());
    }
    Ok(lookup::relation_of(&catalog, id).map(|_| 8_192))
}

fn sizes() -> Vec<Arc<ScalarUDF>> {
    let size = |name, arguments: &'static [u32]| {
        Simple::new(name, arguments, INT8, |s, cells| {
            Ok(size_of(s, &cells[0])?.map_or(Out::Null, Out::Int))
        })
        .optional(arguments.len() - 1)
        .volatile()
        .build()
    };
    vec![
        size("pg_total_relation_size", &[ANY]),
        size("pg_table_size", &[ANY]),
        size("pg_relation_size", &[ANY, TEXT]),
        Simple::new("pg_indexes_size", &[ANY], INT8, |_, _| Ok(Out::Int(0))).build(),
        Simple::new("pg_database_size", &[ANY], INT8, |s, _| {
            let total: u64 = s.catalog().tables.values().map(|t| t.table.bytes_estimate()).sum();
            Ok(Out::Int(i64::try_from(total).unwrap_or(i64::MAX)))
        })
        .volatile()
        .build(),
        // There are no tablespaces but the database's own.
        Simple::new("pg_tablespace_size", &[ANY], INT8, |s, _| {
            let total: u64 = s.catalog().tables.values().map(|t| t.table.bytes_estimate()).sum();
            Ok(Out::Int(i64::try_from(total).unwrap_or(i64::MAX)))
        })
        .volatile()
        .build(),
        Simple::new("pg_column_size", &[ANY], INT4, |_, cells| {
            let mut out = Vec::new();
            crate::types::binary::cell_binary(&cells[0], 0, &mut out);
            Ok(Out::Int(out.len() as i64))
        })
        .build(),
    ]
}

fn names_and_oids() -> Vec<Arc<ScalarUDF>> {
    vec![
        Simple::new("quote_ident", &[TEXT], TEXT, |_, cells| {
            Ok(Out::Text(lookup::quote_ident(text(cells, 0))))
        })
        .build(),
        Simple::new("to_regclass", &[TEXT], RELATION, |s, cells| {
            let found = lookup::find_relation(s, text(cells, 0))?;
            Ok(found.map_or(Out::Null, |id| Out::Int(id.into())))
        })
        .build(),
        Simple::new("to_regtype", &[TEXT], REGTYPE, |s, cells| {
            let found = lookup::find_type(s, text(cells, 0))?;
            Ok(found.map_or(Out::Null, |oid| Out::Int(oid.into())))
        })
        .build(),
        Simple::new("to_regnamespace", &[TEXT], REGNAMESPACE, |s, cells| {
            let found = lookup::find_schema(s, text(cells, 0))?;
            Ok(found.map_or(Out::Null, |id| Out::Int(id.into())))
        })
        .build(),
        Simple::new("to_regproc", &[TEXT], REGPROC, |_, cells| {
            found_or_null(lookup::function_oid(text(cells, 0)), NO_FUNCTION)
        })
        .build(),
        Simple::new("to_regprocedure", &[TEXT], REGPROCEDURE, |s, cells| {
            found_or_null(lookup::procedure_oid(s, text(cells, 0)), NO_FUNCTION)
        })
        .build(),
        Simple::new("to_regrole", &[TEXT], REGROLE, |s, cells| {
            found_or_null(lookup::role_oid(s, text(cells, 0)), &["42704"])
        })
        .build(),
        // No table has partitions: an ordinary one has no ancestors.
        Simple::new("pg_partition_ancestors", &[ANY], OID, |_, _| Ok(Out::Null)).build(),
        Simple::new("pg_partition_root", &[ANY], OID, |_, _| Ok(Out::Null)).build(),
    ]
}

/// There is no such function, or there are several.
const NO_FUNCTION: &[&str] = &["42883", "42725"];

/// NULL where an error says that there is no such object.
fn found_or_null(found: Result<u32, SqlError>, missing: &[&str]) -> Result<Out, SqlError> {
    match found {
        Ok(oid) => Ok(Out::Int(oid.into())),
        Err(e) if missing.contains(&e.state.to_string().as_str()) => Ok(Out::Null),
        Err(e) => Err(e),
    }
}

/// What is granted on an object of which nothing is said.
fn acl_defaults() -> Vec<Arc<ScalarUDF>> {
    vec![Simple::new("acldefault", &[CHAR, OID], ACLITEM_ARRAY, default_acl).build()]
}

/// Comments, and the texts of views.
fn texts() -> Vec<Arc<ScalarUDF>> {
    vec![
        Simple::new("obj_description", &[OID, TEXT], TEXT, |s, cells| {
            let class = cells.get(1).map(|_| text(cells, 1));
            Ok(crate::pgcatalog::comment_on(&s.catalog(), oid(cells, 0), class, 0).into())
        })
        .optional(1)
        .build(),
        Simple::new("shobj_description", &[OID, TEXT], TEXT, |s, cells| {
            let class = Some(text(cells, 1));
            Ok(crate::pgcatalog::comment_on(&s.catalog(), oid(cells, 0), class, 0).into())
        })
        .build(),
        Simple::new("pg_describe_object", &[OID, OID, INT4], TEXT, |s, cells| {
            let column = int(cells, 2).unwrap_or(0);
            Ok(crate::pgcatalog::described(s, oid(cells, 0), oid(cells, 1), column).into())
        })
        .build(),
        Simple::new("col_description", &[OID, INT4], TEXT, |s, cells| {
            let column = int(cells, 1).unwrap_or(0);
            Ok(match column {
                0 => Out::Null,
                _ => crate::pgcatalog::comment_on(&s.catalog(), oid(cells, 0), None, column).into(),
            })
        })
        .build(),
        Simple::new("pg_get_viewdef", &[ANY, ANY], TEXT, |s, cells| {
            let catalog = s.catalog();
            let relation = match &cells[0] {
                Cell::Text(name) => lookup::relation_oid(s, name)?,
                Cell::Int64(id) => u32::try_from(*id).unwrap_or(0),
                _ => oid(cells, 0),
            };
            let view = catalog.view(relation).or_else(|| catalog.materialized(relation));
            // A number is the width of lines, which there are enough of.
            let pretty = matches!(cells.get(1), Some(Cell::Bool(true) | Cell::Int32(_)));
            Ok(view.map(|view| crate::view::definition(s, &catalog, view, pretty)).into())
        })
        .optional(1)
        .build(),
    ]
}

/// The signatures of functions.
fn signatures() -> Vec<Arc<ScalarUDF>> {
    fn said(cells: &[Cell<'_>], of: fn(&procs::Proc) -> &'static str) -> Result<Out, SqlError> {
        Ok(procs::by_oid(oid(cells, 0)).map(|proc| of(proc).to_owned()).into())
    }
    vec![
        Simple::new("pg_get_function_arguments", &[OID], TEXT, |_, cells| {
            said(cells, |proc| proc.written)
        })
        .build(),
        Simple::new("pg_get_function_identity_arguments", &[OID], TEXT, |_, cells| {
            said(cells, |proc| proc.identity)
        })
        .build(),
        Simple::new("pg_get_function_result", &[OID], TEXT, |_, cells| {
            said(cells, |proc| proc.written_result)
        })
        .build(),
    ]
}

/// acldefault: what may be done with an object of a kind that nothing has been granted on.
fn default_acl(session: &dyn SessionFunctions, cells: &[Cell<'_>]) -> Result<Out, SqlError> {
    let owner = oid(cells, 1);
    let owner = cluster::role_name(&session.catalog(), owner).unwrap_or_else(|| owner.to_string());
    let owner = lookup::quote_ident(&owner);
    // Of everybody, and of the owner.
    let (world, own) = match text(cells, 0) {
        "c" => ("", ""),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "p" => ("", "sA"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        other => {
            let message = format!("unrecognized objtype abbreviation: {other}");
            return Err(SqlError::new(froglet_engine::SqlState::INTERNAL_ERROR, message));
        }
    };
    let item = |who: &str, what: &str| format!("{who}={what}/{owner}");
    let mut items = Vec::new();
    items.extend((!world.is_empty()).then(|| item("", world)));
    items.extend((!own.is_empty()).then(|| item(&owner, own)));
    Ok(Out::Texts(items))
}

/// Functions over objects that do not exist here.
/// What may be written, by bits of what may be done: UPDATE, INSERT, DELETE; and who waits for whom.
fn writes() -> Vec<Arc<ScalarUDF>> {
    const ALL: i64 = 1 << 2 | 1 << 3 | 1 << 4;
    fn updatable(session: &dyn SessionFunctions, relation: u32) -> bool {
        let catalog = session.catalog();
        let plain = catalog.tables.contains_key(&relation);
        let written = |view| crate::view_write::is_updatable(session, &catalog, view);
        catalog.materialized(relation).is_none()
            && (plain || catalog.view(relation).is_some_and(written))
    }
    vec![
        Simple::new("pg_relation_is_updatable", &[RELATION, BOOL], INT4, |s, cells| {
            Ok(Out::Int(if updatable(s, oid(cells, 0)) { ALL } else { 0 }))
        })
        .build(),
        Simple::new("pg_column_is_updatable", &[RELATION, INT2, BOOL], BOOL, |s, cells| {
            let column = int(cells, 1).is_some_and(|column| column > 0);
            Ok(Out::Bool(column && updatable(s, oid(cells, 0))))
        })
        .build(),
        Simple::new("pg_blocking_pids", &[INT4], INT4_ARRAY, |s, cells| {
            let waiter = int(cells, 0);
            let sessions = s.activity();
            let found = sessions.iter().filter(|session| Some(i64::from(session.pid)) == waiter);
            let pids = found.filter_map(|session| session.waits_for);
            Ok(Out::List(pids.map(|pid| Out::Int(pid.into())).collect()))
        })
        .volatile()
        .build(),
    ]
}

fn nothing() -> Vec<Arc<ScalarUDF>> {
    let names = [
        "pg_get_ruledef",
        "pg_get_triggerdef",
        "pg_get_functiondef",
        "pg_get_function_sqlbody",
        "pg_get_statisticsobjdef_columns",
        "pg_get_partkeydef",
        "pg_get_partition_constraintdef",
        "pg_tablespace_location",
    ];
    names
        .into_iter()
        .map(|name| {
            Simple::new(name, &[ANY, ANY, ANY], TEXT, |_, _| Ok(Out::Null)).optional(3).build()
        })
        .collect()
}
