//! Owners and grants, as the catalog shows them.

use froglet_engine::ColumnId;
use froglet_schema::access::{EVERYBODY, Grant, PG_CLASS, PG_NAMESPACE};
use froglet_schema::{CatalogVersion, ObjectId};

use super::cluster::role_name;
use super::{OWNER, Rows};
use crate::privileges::acl::{all_printed, effective, said};
use crate::privileges::{Kind, PRIVILEGES, Who, bits, kind_of};
use crate::provider::QueryScope;
use crate::system_row as row;

pub(super) fn fill_of(schema: &str, name: &str) -> Option<fn(&QueryScope, &mut Rows)> {
    Some(match (schema, name) {
        ("pg_catalog", "pg_default_acl") => defaults,
        ("information_schema", "enabled_roles") => enabled,
        ("information_schema", "applicable_roles") => applicable,
        ("information_schema", "table_privileges") => |scope, rows| tables(scope, rows, true),
        ("information_schema", "role_table_grants") => |scope, rows| tables(scope, rows, false),
        ("information_schema", "column_privileges") => |scope, rows| columns(scope, rows, true),
        ("information_schema", "role_column_grants") => |scope, rows| columns(scope, rows, false),
        ("information_schema", "usage_privileges") => |scope, rows| usage(scope, rows, true),
        ("information_schema", "role_usage_grants") => |scope, rows| usage(scope, rows, false),
        _ => return None,
    })
}

/// The owner of an object, and what is granted on it.
pub(super) fn of(
    catalog: &CatalogVersion,
    class: ObjectId,
    object: ObjectId,
) -> (ObjectId, Option<Vec<String>>) {
    let access = catalog.access_or_unsaid(class, object);
    (access.owner, all_printed(catalog, said(&access).as_deref()))
}

/// The same of a schema.
pub(super) fn of_schema(catalog: &CatalogVersion, name: &str) -> (ObjectId, Option<Vec<String>>) {
    match catalog.schema(name) {
        Some(def) => of(catalog, PG_NAMESPACE, def.id),
        // What they begin with, pg_dump would take for granted by somebody.
        None => (OWNER, None),
    }
}

pub(super) fn schema_owner(catalog: &CatalogVersion, name: &str) -> String {
    role_name(catalog, of_schema(catalog, name).0).unwrap_or_default()
}

pub(super) fn owner_name(catalog: &CatalogVersion, class: ObjectId, object: ObjectId) -> String {
    role_name(catalog, catalog.owner(class, object)).unwrap_or_default()
}

/// What is granted on a column alone.
pub(super) fn of_column(
    catalog: &CatalogVersion,
    relation: ObjectId,
    column: ColumnId,
) -> Option<Vec<String>> {
    let grants = catalog.access(PG_CLASS, relation)?.column(column);
    all_printed(catalog, Some(grants).filter(|grants| !grants.is_empty()))
}

fn defaults(scope: &QueryScope, rows: &mut Rows) {
    for def in scope.catalog.default_access() {
        row!(rows;
            oid: def.id,
            defaclrole: def.role,
            defaclnamespace: def.schema,
            defaclobjtype: def.kind,
            defaclacl: all_printed(&scope.catalog, Some(&def.grants)),
        );
    }
}

fn enabled(scope: &QueryScope, rows: &mut Rows) {
    let who = Who::named(&scope.catalog, &scope.session.user());
    let mut all = scope.catalog.all_roles();
    all.sort_by_key(|role| role.id);
    for role in all.iter().filter(|role| who.has(role.id)) {
        row!(rows; role_name: &role.name);
    }
}

fn applicable(scope: &QueryScope, rows: &mut Rows) {
    let who = Who::named(&scope.catalog, &scope.session.user());
    let mut all = scope.catalog.all_roles();
    all.sort_by_key(|role| role.id);
    for member in all.iter().filter(|role| who.has(role.id)) {
        for membership in &member.member_of {
            row!(rows;
                grantee: &member.name,
                role_name: role_name(&scope.catalog, membership.role),
                is_grantable: yes(membership.admin),
            );
        }
    }
}

fn yes(is_so: bool) -> &'static str {
    if is_so { "YES" } else { "NO" }
}

/// A relation, as the views here show it.
struct Shown {
    id: ObjectId,
    schema: String,
    name: String,
    columns: Vec<(String, ColumnId)>,
}

fn relations(scope: &QueryScope) -> Vec<Shown> {
    let catalog = &scope.catalog;
    let mut all = Vec::new();
    for table in catalog.tables.values() {
        let columns = table.def.columns.iter().map(|c| (c.name.clone(), c.id)).collect();
        let (schema, name) = (table.def.schema.clone(), table.def.name.clone());
        all.push(Shown { id: table.def.id, schema, name, columns });
    }
    for view in catalog.views() {
        let columns = crate::ddl_view::column_ids(view);
        let (schema, name) = (view.schema.clone(), view.name.clone());
        all.push(Shown { id: view.id, schema, name, columns });
    }
    all.sort_by_key(|shown| shown.id);
    all
}

/// Each privilege that the user is to see, of one object: grantor, grantee, its name, whether it may be granted.
fn each(
    scope: &QueryScope,
    grants: &[Grant],
    owner: ObjectId,
    everybody: bool,
    wanted: u16,
    mut add: impl FnMut(String, String, &'static str, bool),
) {
    let catalog = &scope.catalog;
    let who = Who::named(catalog, &scope.session.user());
    for grant in grants {
        let public = grant.grantee == EVERYBODY;
        let seen =
            who.has(grant.grantor) || (public && everybody) || (!public && who.has(grant.grantee));
        if !seen {
            continue;
        }
        let grantee = match public {
            true => "PUBLIC".to_owned(),
            false => role_name(catalog, grant.grantee).unwrap_or_default(),
        };
        let owns = !public && Who::of_id(catalog, grant.grantee).has(owner);
        for (name, _, bit) in
            PRIVILEGES.iter().filter(|(.., bit)| grant.privileges & wanted & bit != 0)
        {
            let grantor = role_name(catalog, grant.grantor).unwrap_or_default();
            add(grantor, grantee.clone(), name, owns || grant.options & bit != 0);
        }
    }
}

fn tables(scope: &QueryScope, rows: &mut Rows, everybody: bool) {
    let database = scope.session.database();
    for shown in relations(scope) {
        let access = scope.catalog.access_or_unsaid(PG_CLASS, shown.id);
        let grants = effective(Kind::Table, &access);
        let all = Kind::Table.all();
        each(scope, &grants, access.owner, everybody, all, |grantor, grantee, name, grantable| {
            row!(rows;
                grantor: grantor,
                grantee: grantee,
                table_catalog: &database,
                table_schema: &shown.schema,
                table_name: &shown.name,
                privilege_type: name,
                is_grantable: yes(grantable),
                with_hierarchy: yes(name == "SELECT"),
            );
        });
    }
}

fn columns(scope: &QueryScope, rows: &mut Rows, everybody: bool) {
    let database = scope.session.database();
    for shown in relations(scope) {
        let access = scope.catalog.access_or_unsaid(PG_CLASS, shown.id);
        let whole = effective(Kind::Table, &access);
        for (column, id) in &shown.columns {
            let both: Vec<Grant> = whole.iter().chain(access.column(*id)).copied().collect();
            let grants = crate::privileges::acl::with_owner(&both, OWNER, OWNER);
            let all = Kind::Column.all();
            each(
                scope,
                &grants,
                access.owner,
                everybody,
                all,
                |grantor, grantee, name, grantable| {
                    row!(rows;
                        grantor: grantor,
                        grantee: grantee,
                        table_catalog: &database,
                        table_schema: &shown.schema,
                        table_name: &shown.name,
                        column_name: column,
                        privilege_type: name,
                        is_grantable: yes(grantable),
                    );
                },
            );
        }
    }
}

fn usage(scope: &QueryScope, rows: &mut Rows, everybody: bool) {
    let database = scope.session.database();
    for sequence in super::relations::all_sequences(&scope.catalog) {
        debug_assert_eq!(kind_of(&scope.catalog, sequence.id), Kind::Sequence);
        let access = scope.catalog.access_or_unsaid(PG_CLASS, sequence.id);
        let grants = effective(Kind::Sequence, &access);
        let wanted = bits::USAGE;
        each(
            scope,
            &grants,
            access.owner,
            everybody,
            wanted,
            |grantor, grantee, name, grantable| {
                row!(rows;
                    grantor: grantor,
                    grantee: grantee,
                    object_catalog: &database,
                    object_schema: &sequence.schema,
                    object_name: &sequence.name,
                    object_type: "SEQUENCE",
                    privilege_type: name,
                    is_grantable: yes(grantable),
                );
            },
        );
    }
}
