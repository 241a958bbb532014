//! Roles and who is a member of which: pg_authid and the views over it.

use std::sync::Arc;

use froglet_schema::RoleDef;

use super::{Rows, V};
use crate::privileges::DATABASE_OID;
use crate::provider::QueryScope;
use crate::system_row as row;

/// The role that owns schema public.
pub(super) const DATABASE_OWNER: u32 = 6_171;
/// What views show of every password.
const HIDDEN: &str = "********";

pub(super) fn fill_of(schema: &str, name: &str) -> Option<fn(&QueryScope, &mut Rows)> {
    if schema != "pg_catalog" {
        return None;
    }
    Some(match name {
        "pg_roles" => roles,
        "pg_authid" => authorizations,
        "pg_user" => users,
        "pg_shadow" => shadow,
        "pg_group" => groups,
        "pg_auth_members" => members,
        "pg_db_role_setting" => settings_of_roles,
        _ => return None,
    })
}

/// All roles, by id, with the one that is built in.
fn all(scope: &QueryScope) -> Vec<Arc<RoleDef>> {
    let mut all = scope.catalog.all_roles();
    all.push(Arc::new(RoleDef { id: DATABASE_OWNER, ..RoleDef::new("pg_database_owner") }));
    all.sort_by_key(|role| role.id);
    all
}

fn settings(role: &RoleDef) -> Option<Vec<String>> {
    let shown = role.settings.iter().map(|(name, value)| format!("{name}={value}"));
    Some(shown.collect::<Vec<String>>()).filter(|shown| !shown.is_empty())
}

fn settings_of_roles(scope: &QueryScope, rows: &mut Rows) {
    let shown = |settings: &[(String, String)]| {
        let all = settings.iter().map(|(name, value)| format!("{name}={value}"));
        Some(all.collect::<Vec<String>>()).filter(|all| !all.is_empty())
    };
    for role in all(scope) {
        for (database, settings) in [(0, &role.settings), (DATABASE_OID, &role.database_settings)] {
            if let Some(settings) = shown(settings) {
                row!(rows; setdatabase: database, setrole: role.id, setconfig: settings);
            }
        }
    }
}

fn valid_until(role: &RoleDef) -> V {
    role.valid_until_us.map_or(V::Null, V::Time)
}

/// What passwords are checked against is for superusers to see.
fn password(scope: &QueryScope, role: &RoleDef) -> Option<String> {
    role.password.clone().filter(|text| !text.is_empty() && scope.session.is_superuser())
}

fn roles(scope: &QueryScope, rows: &mut Rows) {
    for role in all(scope) {
        row!(rows;
            oid: role.id,
            rolname: &role.name,
            rolsuper: role.superuser,
            rolinherit: role.inherit,
            rolcreaterole: role.create_role,
            rolcreatedb: role.create_db,
            rolcanlogin: role.login,
            rolreplication: role.replication,
            rolconnlimit: role.connection_limit,
            rolpassword: HIDDEN,
            rolvaliduntil: valid_until(&role),
            rolbypassrls: role.bypass_rls,
            rolconfig: settings(&role),
        );
    }
}

fn authorizations(scope: &QueryScope, rows: &mut Rows) {
    for role in all(scope) {
        row!(rows;
            oid: role.id,
            rolname: &role.name,
            rolsuper: role.superuser,
            rolinherit: role.inherit,
            rolcreaterole: role.create_role,
            rolcreatedb: role.create_db,
            rolcanlogin: role.login,
            rolreplication: role.replication,
            rolbypassrls: role.bypass_rls,
            rolconnlimit: role.connection_limit,
            rolpassword: password(scope, &role),
            rolvaliduntil: valid_until(&role),
        );
    }
}

fn users(scope: &QueryScope, rows: &mut Rows) {
    for role in all(scope).into_iter().filter(|role| role.login) {
        row!(rows;
            usename: &role.name,
            usesysid: role.id,
            usecreatedb: role.create_db,
            usesuper: role.superuser,
            userepl: role.replication,
            usebypassrls: role.bypass_rls,
            passwd: HIDDEN,
            valuntil: valid_until(&role),
            useconfig: settings(&role),
        );
    }
}

fn shadow(scope: &QueryScope, rows: &mut Rows) {
    for role in all(scope).into_iter().filter(|role| role.login) {
        row!(rows;
            usename: &role.name,
            usesysid: role.id,
            usecreatedb: role.create_db,
            usesuper: role.superuser,
            userepl: role.replication,
            usebypassrls: role.bypass_rls,
            passwd: password(scope, &role),
            valuntil: valid_until(&role),
            useconfig: settings(&role),
        );
    }
}

fn groups(scope: &QueryScope, rows: &mut Rows) {
    let all = all(scope);
    for group in all.iter().filter(|role| !role.login) {
        let is_member = |role: &&Arc<RoleDef>| role.member_of.iter().any(|m| m.role == group.id);
        let list = all.iter().filter(is_member).map(|role| i64::from(role.id));
        row!(rows;
            groname: &group.name,
            grosysid: group.id,
            grolist: list.collect::<Vec<i64>>(),
        );
    }
}

fn members(scope: &QueryScope, rows: &mut Rows) {
    for member in all(scope) {
        for membership in &member.member_of {
            row!(rows;
                roleid: membership.role,
                member: member.id,
                grantor: membership.grantor,
                admin_option: membership.admin,
            );
        }
    }
}
