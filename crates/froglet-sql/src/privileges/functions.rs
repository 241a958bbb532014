//! has_table_privilege and its kind: `([user,] object, privileges)`.

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use froglet_engine::{ColumnId, SqlState};
use froglet_schema::access::PG_CLASS;
use froglet_schema::def::FIRST_USER_ID;
use froglet_schema::{CatalogVersion, ObjectId};

use super::{DATABASE_OID, Kind, PRIVILEGES, Who, bits};
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::pgcatalog::{self, relations};
use crate::roles::no_role;
use crate::types::cell::Cell;
use crate::types::names;
use crate::types::oids::BOOL;
use crate::udf::lookup;
use crate::udf::simple::{ANY, Out, Simple, int, oid, text};

pub(crate) fn all() -> Vec<Arc<ScalarUDF>> {
    let function = |name, body| Simple::new(name, &[ANY, ANY, ANY], BOOL, body).optional(1).build();
    vec![
        function("has_table_privilege", |s, cells| answer(s, cells, of_table)),
        function("has_sequence_privilege", |s, cells| answer(s, cells, of_sequence)),
        function("has_any_column_privilege", |s, cells| answer(s, cells, of_any_column)),
        function("has_schema_privilege", |s, cells| answer(s, cells, of_schema)),
        function("has_database_privilege", |s, cells| answer(s, cells, of_database)),
        function("has_type_privilege", |s, cells| answer(s, cells, of_type)),
        // There is nothing to grant on these.
        function("has_function_privilege", |s, cells| answer(s, cells, |_, _, _| Ok(Some(true)))),
        function("has_tablespace_privilege", |s, cells| {
            answer(s, cells, |_, who, _| Ok(Some(who.superuser)))
        }),
        function("pg_has_role", |s, cells| answer(s, cells, has_role)),
        Simple::new("has_column_privilege", &[ANY, ANY, ANY, ANY], BOOL, |s, cells| {
            let catalog = s.catalog();
            let (who, rest) = asked(s, &catalog, cells, 3)?;
            let Some(who) = who else { return Ok(Out::Null) };
            Ok(of_column(s, &who, rest)?.map_or(Out::Null, Out::Bool))
        })
        .optional(1)
        .build(),
    ]
}

type Answer = fn(&dyn SessionFunctions, &Who<'_>, &[Cell<'_>]) -> Result<Option<bool>, SqlError>;

/// Answers for the role that is named, or for the current user.
fn answer(s: &dyn SessionFunctions, cells: &[Cell<'_>], answer: Answer) -> Result<Out, SqlError> {
    let catalog = s.catalog();
    let (who, rest) = asked(s, &catalog, cells, 2)?;
    let Some(who) = who else { return Ok(Out::Null) };
    Ok(answer(s, &who, rest)?.map_or(Out::Null, Out::Bool))
}

/// Who is asked about, and the other arguments: so many.
fn asked<'a, 'c>(
    s: &dyn SessionFunctions,
    catalog: &'a CatalogVersion,
    cells: &'c [Cell<'c>],
    others: usize,
) -> Result<(Option<Who<'a>>, &'c [Cell<'c>]), SqlError> {
    match cells.len() > others {
        true => Ok((role(catalog, &cells[0])?, &cells[1..])),
        false => Ok((Some(Who::named(catalog, &s.user())), cells)),
    }
}

fn of_table(
    s: &dyn SessionFunctions,
    who: &Who<'_>,
    cells: &[Cell<'_>],
) -> Result<Option<bool>, SqlError> {
    let wanted = wanted(&cells[1], Kind::Table)?;
    let Some(relation) = relation(s, &cells[0])? else { return Ok(None) };
    Ok(Some(any_of(&wanted, |privilege, option| on_relation(who, relation, privilege, option))))
}

fn of_sequence(
    s: &dyn SessionFunctions,
    who: &Who<'_>,
    cells: &[Cell<'_>],
) -> Result<Option<bool>, SqlError> {
    let wanted = wanted(&cells[1], Kind::Sequence)?;
    let Some(sequence) = relation(s, &cells[0])? else { return Ok(None) };
    if !who.catalog.sequences.contains_key(&sequence) {
        let name = super::called(who.catalog, sequence).1;
        let message = format!("\"{name}\" is not a sequence");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    Ok(Some(any_of(&wanted, |privilege, option| on_relation(who, sequence, privilege, option))))
}

fn of_any_column(
    s: &dyn SessionFunctions,
    who: &Who<'_>,
    cells: &[Cell<'_>],
) -> Result<Option<bool>, SqlError> {
    let wanted = wanted(&cells[1], Kind::Column)?;
    let Some(relation) = relation(s, &cells[0])? else { return Ok(None) };
    let access = who.catalog.access(PG_CLASS, relation);
    Ok(Some(any_of(&wanted, |privilege, option| {
        let column = |id: ColumnId| on_column(who, relation, id, privilege, option);
        on_relation(who, relation, privilege, option)
            || access.is_some_and(|access| access.columns.iter().any(|(id, _)| column(*id)))
    })))
}

fn of_column(
    s: &dyn SessionFunctions,
    who: &Who<'_>,
    cells: &[Cell<'_>],
) -> Result<Option<bool>, SqlError> {
    let wanted = wanted(&cells[2], Kind::Column)?;
    let Some(relation) = relation(s, &cells[0])? else { return Ok(None) };
    let Some(column) = column(who.catalog, relation, cells)? else { return Ok(None) };
    Ok(Some(any_of(&wanted, |privilege, option| {
        on_relation(who, relation, privilege, option)
            || on_column(who, relation, column, privilege, option)
    })))
}

fn of_schema(
    _: &dyn SessionFunctions,
    who: &Who<'_>,
    cells: &[Cell<'_>],
) -> Result<Option<bool>, SqlError> {
    let wanted = wanted(&cells[1], Kind::Schema)?;
    let id = match &cells[0] {
        Cell::Text(name) => pgcatalog::schema_oid(who.catalog, name)
            .ok_or_else(|| crate::ddl_schema::no_schema(name))?,
        _ => oid(cells, 0),
    };
    if pgcatalog::schema_name(who.catalog, id).is_none() {
        return Ok(None);
    }
    Ok(Some(any_of(&wanted, |privilege, option| match who.catalog.plain.contains_key(&id) {
        true => holds(who, Kind::Schema, id, privilege, option),
        false => who.superuser || (privilege == bits::USAGE && !option),
    })))
}

fn of_database(
    _: &dyn SessionFunctions,
    who: &Who<'_>,
    cells: &[Cell<'_>],
) -> Result<Option<bool>, SqlError> {
    let wanted = wanted(&cells[1], Kind::Database)?;
    match &cells[0] {
        Cell::Text(name) if !["postgres", "template0", "template1"].contains(name) => {
            let message = format!("database \"{name}\" does not exist");
            Err(SqlError::new(SqlState::new("3D000"), message))
        }
        _ => Ok(Some(any_of(&wanted, |privilege, option| {
            holds(who, Kind::Database, DATABASE_OID, privilege, option)
        }))),
    }
}

fn of_type(
    s: &dyn SessionFunctions,
    who: &Who<'_>,
    cells: &[Cell<'_>],
) -> Result<Option<bool>, SqlError> {
    let wanted = wanted(&cells[1], Kind::Type)?;
    let id = match &cells[0] {
        Cell::Text(name) => lookup::type_oid(s, name)?,
        _ => oid(cells, 0),
    };
    let id = who.catalog.enum_of(id).map_or(id, |def| def.id);
    if names::type_row(id).is_none() && who.catalog.enum_type(id).is_none() {
        return Ok(None);
    }
    Ok(Some(any_of(&wanted, |privilege, option| holds(who, Kind::Type, id, privilege, option))))
}

/// The role that an argument names; none of an oid that no role has.
fn role<'a>(catalog: &'a CatalogVersion, cell: &Cell<'_>) -> Result<Option<Who<'a>>, SqlError> {
    match cell {
        Cell::Text("public") => Ok(Some(Who::everybody(catalog))),
        Cell::Text("pg_database_owner") => {
            Ok(Some(Who::of_id(catalog, froglet_schema::access::DATABASE_OWNER)))
        }
        Cell::Text(name) => match catalog.role(name) {
            Some(role) => Ok(Some(Who::of(catalog, &role))),
            None => Err(no_role(name)),
        },
        _ => match oid(std::slice::from_ref(cell), 0) {
            0 => Ok(Some(Who::everybody(catalog))),
            id => Ok(Some(Who::of_id(catalog, id))),
        },
    }
}

/// A relation by name or oid; none of an oid that there is not.
fn relation(s: &dyn SessionFunctions, cell: &Cell<'_>) -> Result<Option<ObjectId>, SqlError> {
    match cell {
        Cell::Text(name) => {
            let catalog = s.catalog();
            if let [.., schema, _] = lookup::split_name(name)?.as_slice()
                && !Who::named(&catalog, &s.user()).may_in_schema(schema, bits::USAGE)
            {
                return Err(super::no_privilege("schema", schema));
            }
            lookup::relation_oid(s, name).map(Some)
        }
        _ => {
            let id = oid(std::slice::from_ref(cell), 0);
            Ok(lookup::relation_of(&s.catalog(), id).map(|_| id))
        }
    }
}

fn column(
    catalog: &CatalogVersion,
    relation: ObjectId,
    cells: &[Cell<'_>],
) -> Result<Option<ColumnId>, SqlError> {
    let table = catalog.tables.get(&relation);
    match &cells[1] {
        Cell::Text(name) => {
            let found = match (table, catalog.view(relation)) {
                (Some(table), _) => table.def.column(name).map(|column| column.id),
                (None, Some(view)) => {
                    let all = crate::ddl_view::column_ids(view);
                    all.into_iter().find(|(known, _)| known == name).map(|(_, id)| id)
                }
                (None, None) => Some(ColumnId(0)),
            };
            found.map(Some).ok_or_else(|| {
                let of = super::called(catalog, relation).1;
                let message = format!("column \"{name}\" of relation \"{of}\" does not exist");
                SqlError::new(SqlState::UNDEFINED_COLUMN, message)
            })
        }
        _ => {
            let number = int(cells, 1).unwrap_or(0);
            Ok(match table {
                Some(table) => {
                    let columns = table.def.columns.iter();
                    let mut ids = columns.map(|column| column.id);
                    ids.find(|id| relations::attnum(&table.def, *id) == number)
                }
                None => u32::try_from(number).ok().map(ColumnId),
            })
        }
    }
}

/// `select, insert with grant option`
fn wanted(cell: &Cell<'_>, kind: Kind) -> Result<Vec<(u16, bool)>, SqlError> {
    let Cell::Text(said) = cell else { return Ok(Vec::new()) };
    let one = |part: &str| {
        let part = part.trim();
        let lower = part.to_lowercase();
        let (name, option) = match lower.strip_suffix(" with grant option") {
            Some(name) => (name.trim_end(), true),
            None => (lower.as_str(), false),
        };
        let name = if name == "temp" { "temporary" } else { name };
        let known = PRIVILEGES.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name));
        let bit = known.map(|(.., bit)| *bit).filter(|bit| bit & kind.all() != 0);
        // RULE is no more, and nobody has it.
        let bit = bit.or((name == "rule" && kind == Kind::Table).then_some(0));
        bit.map(|bit| (bit, option)).ok_or_else(|| {
            let message = format!("unrecognized privilege type: \"{part}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })
    };
    said.split(',').map(one).collect()
}

fn any_of(wanted: &[(u16, bool)], holds: impl Fn(u16, bool) -> bool) -> bool {
    wanted.iter().any(|(privilege, option)| holds(*privilege, *option))
}

fn holds(who: &Who<'_>, kind: Kind, object: ObjectId, privilege: u16, option: bool) -> bool {
    if !option {
        return who.privileges(kind, object) & privilege != 0;
    }
    let access = who.catalog.access_or_unsaid(kind.class(), object);
    let grants = super::acl::effective(kind, &access);
    (who.superuser || who.grantable(kind, access.owner, &grants) & privilege != 0)
        && kind.all() & privilege != 0
}

fn on_relation(who: &Who<'_>, relation: ObjectId, privilege: u16, option: bool) -> bool {
    let kind = super::kind_of(who.catalog, relation);
    match kind == Kind::Table && relation < FIRST_USER_ID {
        true => who.superuser || (!option && who.on_relation(relation) & privilege != 0),
        false => holds(who, kind, relation, privilege, option),
    }
}

fn on_column(
    who: &Who<'_>,
    relation: ObjectId,
    column: ColumnId,
    privilege: u16,
    option: bool,
) -> bool {
    let access = who.catalog.access(PG_CLASS, relation);
    match (option, access) {
        (false, access) => who.on_column(access, column) & privilege != 0,
        (true, None) => false,
        (true, Some(access)) => {
            who.grantable(Kind::Column, access.owner, access.column(column)) & privilege != 0
        }
    }
}

fn has_role(
    _: &dyn SessionFunctions,
    who: &Who<'_>,
    cells: &[Cell<'_>],
) -> Result<Option<bool>, SqlError> {
    let id = match &cells[0] {
        Cell::Text("pg_database_owner") => froglet_schema::access::DATABASE_OWNER,
        Cell::Text(name) => who.catalog.role(name).ok_or_else(|| no_role(name))?.id,
        _ => oid(cells, 0),
    };
    let mut holds = false;
    for part in text(cells, 1).split(',') {
        let lower = part.trim().to_lowercase();
        let own = || who.catalog.role_by_id(who.role);
        let admin = || {
            who.superuser
                || own().is_some_and(|own| own.member_of.iter().any(|m| m.role == id && m.admin))
        };
        holds |= match lower.as_str() {
            "usage" => who.has(id),
            "member" => who.is_member(id),
            "usage with grant option"
            | "usage with admin option"
            | "member with grant option"
            | "member with admin option" => admin(),
            _ => {
                let message = format!("unrecognized privilege type: \"{}\"", part.trim());
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        };
    }
    Ok(Some(holds))
}
