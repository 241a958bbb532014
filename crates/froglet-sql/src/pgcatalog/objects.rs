//! Objects without rows: schemas, views, enum types, comments, and what depends on what.

use froglet_engine::ColumnId;
use froglet_schema::plain::{CheckOption, PUBLIC, ViewDef};
use froglet_schema::{CatalogVersion, ObjectId};

use super::relations::{PG_CLASS, attnum, attribute};
use super::{Rows, SPECS, privileges, schema_oid_of};
use crate::context::SessionFunctions;
use crate::provider::QueryScope;
use crate::semantics::enums;
use crate::system_row as row;
use crate::types::names;
use crate::udf::lookup::{quote_ident, relation_of, relation_text};
use crate::{view, view_write};

/// pg_rewrite's own oid.
const PG_REWRITE: u32 = 2_618;
/// pg_type's own oid.
const PG_TYPE: u32 = 1_247;
/// pg_authid and pg_database: what is said of theirs is in pg_shdescription.
const SHARED: [u32; 2] = [1_260, 1_262];
/// pg_constraint's own oid.
pub(super) const PG_CONSTRAINT: u32 = 2_606;

pub(super) fn fill_of(schema: &str, name: &str) -> Option<fn(&QueryScope, &mut Rows)> {
    Some(match (schema, name) {
        ("pg_catalog", "pg_views") => views,
        ("pg_catalog", "pg_matviews") => materialized_views,
        ("pg_catalog", "pg_rewrite") => rules,
        ("pg_catalog", "pg_description") => descriptions,
        ("pg_catalog", "pg_shdescription") => shared_descriptions,
        ("pg_catalog", "pg_enum") => labels,
        ("information_schema", "views") => is_views,
        _ => return None,
    })
}

/// The oid of a view's rule: views have one each, and no other object has the number.
fn rule_oid(view: &ViewDef) -> i64 {
    i64::from(view.id) + (1 << 31)
}

fn views(scope: &QueryScope, rows: &mut Rows) {
    for def in scope.catalog.views() {
        row!(rows;
            schemaname: &def.schema,
            viewname: &def.name,
            viewowner: privileges::owner_name(&scope.catalog, PG_CLASS, def.id),
            definition: view::definition(&*scope.session, &scope.catalog, def, false),
        );
    }
}

fn materialized_views(scope: &QueryScope, rows: &mut Rows) {
    for table in super::relations::tables(&scope.catalog) {
        let Some(view) = scope.catalog.materialized(table.def.id) else { continue };
        row!(rows;
            schemaname: &table.def.schema,
            matviewname: &table.def.name,
            matviewowner: "postgres",
            hasindexes: !table.def.indexes.is_empty(),
            ispopulated: view.materialized.is_none_or(|m| m.populated),
            definition: view::definition(&*scope.session, &scope.catalog, view, false),
        );
    }
}

/// The relation whose rule a view's query is.
fn ruled(view: &ViewDef) -> ObjectId {
    view.materialized.map_or(view.id, |m| m.table)
}

fn is_views(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    for def in scope.catalog.views() {
        let updatable = if view_write::is_updatable(&*scope.session, &scope.catalog, def) {
            "YES"
        } else {
            "NO"
        };
        let check = match def.check_option {
            None => "NONE",
            Some(CheckOption::Local) => "LOCAL",
            Some(CheckOption::Cascaded) => "CASCADED",
        };
        row!(rows;
            table_catalog: &database,
            table_schema: &def.schema,
            table_name: &def.name,
            view_definition: view::definition(&*scope.session, &scope.catalog, def, false),
            check_option: check,
            is_updatable: updatable,
            is_insertable_into: updatable,
            is_trigger_updatable: "NO",
            is_trigger_deletable: "NO",
            is_trigger_insertable_into: "NO",
        );
    }
}

fn rules(scope: &QueryScope, rows: &mut Rows) {
    for def in scope.catalog.views_of_all_kinds() {
        row!(rows;
            oid: rule_oid(def),
            rulename: "_RETURN",
            ev_class: ruled(def),
            ev_type: '1',
            ev_enabled: 'O',
            is_instead: true,
            ev_qual: "<>",
            ev_action: &def.query.0,
        );
    }
}

/// pg_class's rows of views.
pub(super) fn view_classes(scope: &QueryScope, rows: &mut Rows) {
    for def in scope.catalog.views() {
        let option = def.check_option.map(|option| match option {
            CheckOption::Local => vec!["check_option=local".to_owned()],
            CheckOption::Cascaded => vec!["check_option=cascaded".to_owned()],
        });
        let (owner, acl) = privileges::of(&scope.catalog, PG_CLASS, def.id);
        row!(rows;
            oid: def.id,
            relname: &def.name,
            relnamespace: schema_oid_of(&scope.catalog, &def.schema),
            reltype: def.id,
            relowner: owner,
            relacl: acl,
            relpersistence: 'p',
            relkind: 'v',
            relnatts: def.columns.len(),
            relhasrules: true,
            relispopulated: true,
            relreplident: 'n',
            reloptions: option,
        );
    }
}

/// pg_attribute's rows of views.
pub(super) fn view_attributes(scope: &QueryScope, rows: &mut Rows) {
    for def in scope.catalog.views() {
        for (at, column) in def.columns.iter().enumerate() {
            let id = ColumnId(u32::try_from(at).unwrap_or(0) + 1);
            let acl = privileges::of_column(&scope.catalog, def.id, id);
            let acl = [("attacl", acl.into())];
            attribute(rows, def.id, at as i64 + 1, &column.name, column.sql_type, acl);
        }
    }
}

/// Views depend, by their rules, on the columns that they read.
pub(super) fn view_dependencies(scope: &QueryScope, rows: &mut Rows) {
    for def in scope.catalog.views_of_all_kinds() {
        row!(rows;
            classid: PG_REWRITE,
            objid: rule_oid(def),
            refclassid: PG_CLASS,
            refobjid: ruled(def),
            deptype: 'i',
        );
        for key in &def.keys {
            row!(rows;
                classid: PG_REWRITE,
                objid: rule_oid(def),
                refclassid: PG_CONSTRAINT,
                refobjid: *key,
                deptype: 'n',
            );
        }
        for source in &def.sources {
            for column in source.used.iter().copied().chain([ColumnId(0)]) {
                row!(rows;
                    classid: PG_REWRITE,
                    objid: rule_oid(def),
                    refclassid: PG_CLASS,
                    refobjid: source.relation,
                    refobjsubid: column_number(&scope.catalog, source.relation, column),
                    deptype: 'n',
                );
            }
        }
    }
    for table in super::relations::tables(&scope.catalog) {
        for column in &table.def.columns {
            if let Some(def) = scope.catalog.enum_of(column.sql_type.oid) {
                row!(rows;
                    classid: PG_CLASS,
                    objid: table.def.id,
                    objsubid: attnum(&table.def, column.id),
                    refclassid: PG_TYPE,
                    refobjid: def.id,
                    deptype: 'n',
                );
            }
        }
    }
}

/// A column's number, from 1; 0 for the whole relation.
fn column_number(catalog: &CatalogVersion, relation: ObjectId, column: ColumnId) -> i64 {
    match catalog.tables.get(&relation) {
        Some(table) => attnum(&table.def, column),
        None => column.0.into(),
    }
}

fn descriptions(scope: &QueryScope, rows: &mut Rows) {
    for comment in scope.catalog.comments().into_iter().filter(|c| !SHARED.contains(&c.class)) {
        let class = comment.class;
        let column = match class == PG_CLASS {
            true => column_number(&scope.catalog, comment.object, comment.column),
            false => 0,
        };
        row!(rows;
            objoid: comment.object,
            classoid: class,
            objsubid: column,
            description: &comment.text,
        );
    }
    if scope.catalog.schema(PUBLIC).is_some() {
        // As initdb says; pg_dump leaves it out.
        let id = froglet_schema::plain::PUBLIC_ID;
        if scope.catalog.comment(2_615, id, ColumnId(0)).is_none() {
            row!(rows; objoid: id, classoid: 2_615, objsubid: 0, description: "standard public schema");
        }
    }
}

fn shared_descriptions(scope: &QueryScope, rows: &mut Rows) {
    for comment in scope.catalog.comments().into_iter().filter(|c| SHARED.contains(&c.class)) {
        row!(rows;
            objoid: comment.object,
            classoid: comment.class,
            description: &comment.text,
        );
    }
}

fn labels(scope: &QueryScope, rows: &mut Rows) {
    for def in scope.catalog.enum_types() {
        for (at, (id, label)) in def.labels.iter().enumerate() {
            row!(rows;
                oid: *id,
                enumtypid: def.id,
                enumsortorder: (at + 1) as f64,
                enumlabel: label,
            );
        }
    }
}

/// pg_describe_object: an object of a system catalog, or a column of a relation, in words.
pub fn described(
    session: &dyn SessionFunctions,
    class: u32,
    object: u32,
    column: i64,
) -> Option<String> {
    let catalog = session.catalog();
    match class {
        PG_CLASS => {
            relation_of(&catalog, object)?;
            let kind = match catalog.tables.contains_key(&object) {
                true => "table",
                false if catalog.sequences.contains_key(&object) => "sequence",
                false if catalog.view(object).is_some() => "view",
                false => match SPECS.iter().find(|spec| spec.oid == object) {
                    Some(spec) if spec.kind == 'v' => "view",
                    Some(_) => "table",
                    None => "index",
                },
            };
            let relation = format!("{kind} {}", relation_text(session, object));
            if column == 0 {
                return Some(relation);
            }
            let at = usize::try_from(column - 1).ok()?;
            let columns = &catalog.tables.get(&object)?.def.columns;
            Some(format!("column {} of {relation}", quote_ident(&columns.get(at)?.name)))
        }
        PG_TYPE => {
            let built_in = names::type_row(object).map(|row| row.sql_name.to_owned());
            let name = built_in.or_else(|| enums::name_in(session, object))?;
            Some(format!("type {name}"))
        }
        PG_CONSTRAINT => catalog.tables.values().find_map(|table| {
            let found = table.def.constraints.iter().find(|c| c.id == object)?;
            let relation = relation_text(session, table.def.id);
            Some(format!("constraint {} on table {relation}", quote_ident(&found.name)))
        }),
        2_615 => Some(format!("schema {}", quote_ident(&super::schema_name(&catalog, object)?))),
        _ => None,
    }
}

/// What is said of an object of a system catalog, or of any of them.
pub fn comment_on(
    catalog: &CatalogVersion,
    object: ObjectId,
    class: Option<&str>,
    column: i64,
) -> Option<String> {
    let class = match class {
        None | Some("pg_class") => PG_CLASS,
        Some("pg_type") => PG_TYPE,
        Some("pg_constraint") => PG_CONSTRAINT,
        Some("pg_namespace") => 2_615,
        Some("pg_database") => 1_262,
        Some("pg_authid") => 1_260,
        Some(_) => return None,
    };
    let is_it = |c: &&froglet_schema::plain::CommentDef| {
        c.class == class
            && c.object == object
            && (class != PG_CLASS || column_number(catalog, object, c.column) == column)
    };
    catalog.comments().into_iter().find(is_it).map(|c| c.text.clone())
}
