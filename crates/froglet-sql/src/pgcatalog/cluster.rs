//! What a cluster has beside relations: databases, schemas, types, settings, sessions.

use std::collections::BTreeSet;

use froglet_schema::CatalogVersion;
use froglet_schema::access::{PG_DATABASE, PG_TYPE};
use froglet_txn::{AdvisoryKey, AdvisoryMode};

use super::relations::PG_CLASS;
use super::roles::DATABASE_OWNER;
use super::type_io::type_io;
use super::{OWNER, Rows, SCHEMAS, SPECS, V, privileges, schema_oid_of};
use crate::privileges::DATABASE_OID;
use crate::provider::QueryScope;
use crate::system_row as row;
use crate::types::names;

/// pg_extension.oid of plpgsql, which every database of PostgreSQL has.
const PLPGSQL: u32 = 13_567;

pub(super) fn fill_of(schema: &str, name: &str) -> Option<fn(&QueryScope, &mut Rows)> {
    if schema != "pg_catalog" {
        return None;
    }
    Some(match name {
        "pg_namespace" => schemas,
        "pg_type" => types,
        "pg_am" => access_methods,
        "pg_database" => databases,
        "pg_tablespace" => tablespaces,
        "pg_collation" => collations,
        "pg_settings" => settings,
        "pg_stat_activity" => activity,
        "pg_stat_progress_copy" => copies,
        "pg_locks" => locks,
        "pg_extension" => extensions,
        _ => return None,
    })
}

/// Names of roles by oid, for pg_get_userbyid.
pub fn role_name(catalog: &CatalogVersion, oid: u32) -> Option<String> {
    match oid {
        DATABASE_OWNER => Some("pg_database_owner".to_owned()),
        oid => catalog.role_by_id(oid).map(|role| role.name.clone()),
    }
}

/// Every schema's name.
pub fn schema_names(scope: &QueryScope) -> BTreeSet<String> {
    let built_in = SCHEMAS.iter().map(|(_, name)| (*name).to_owned());
    built_in.chain(scope.catalog.schemas.keys().cloned()).collect()
}

fn schemas(scope: &QueryScope, rows: &mut Rows) {
    for name in schema_names(scope) {
        let (owner, acl) = privileges::of_schema(&scope.catalog, &name);
        row!(rows;
            oid: schema_oid_of(&scope.catalog, &name),
            nspname: &name,
            nspowner: owner,
            nspacl: acl,
        );
    }
}

fn types(scope: &QueryScope, rows: &mut Rows) {
    enum_types(scope, rows);
    for ty in names::TYPES {
        let pseudo = ty.category == 'P' || ty.category == 'X';
        let by_value = (1..=8).contains(&ty.length);
        let letters = if ty.length == -1 { ('i', 'x') } else { ('i', 'p') };
        let io = type_io(ty.oid);
        let functions = io.map_or([0; 8], |io| io.functions);
        row!(rows;
            oid: ty.oid,
            typname: ty.name,
            typnamespace: 11,
            typowner: OWNER,
            typlen: ty.length,
            typbyval: io.map_or(by_value, |io| io.by_value),
            typtype: if pseudo { 'p' } else { 'b' },
            typcategory: ty.category,
            typispreferred: io.is_some_and(|io| io.preferred),
            typisdefined: true,
            typdelim: ',',
            typelem: ty.element,
            typarray: ty.array,
            typinput: functions[0],
            typoutput: functions[1],
            typreceive: functions[2],
            typsend: functions[3],
            typmodin: functions[4],
            typmodout: functions[5],
            typanalyze: functions[6],
            typsubscript: functions[7],
            typalign: io.map_or(letters.0, |io| io.align),
            typstorage: io.map_or(letters.1, |io| io.storage),
            typtypmod: -1,
            typcollation: ty.collation,
        );
    }
}

fn enum_types(scope: &QueryScope, rows: &mut Rows) {
    for def in scope.catalog.enum_types() {
        let schema = schema_oid_of(&scope.catalog, &def.schema);
        let (owner, acl) = privileges::of(&scope.catalog, PG_TYPE, def.id);
        row!(rows;
            oid: def.id, typname: &def.name, typnamespace: schema, typowner: owner, typacl: acl, typlen: 4,
            typbyval: true, typtype: 'e', typcategory: 'E', typispreferred: false,
            typisdefined: true, typdelim: ',', typelem: 0, typarray: def.array, typinput: 3_506,
            typoutput: 3_507, typreceive: 3_532, typsend: 3_533, typalign: 'i',
            typstorage: 'p', typtypmod: -1, typcollation: 0,
        );
        row!(rows;
            oid: def.array, typname: format!("_{}", def.name), typnamespace: schema, typowner: owner,
            typlen: -1, typbyval: false, typtype: 'b', typcategory: 'A', typispreferred: false,
            typisdefined: true, typdelim: ',', typelem: def.id, typarray: 0, typinput: 750,
            typoutput: 751, typreceive: 2_400, typsend: 2_401, typanalyze: 3_816,
            typsubscript: 6_179, typalign: 'i',
            typstorage: 'x', typtypmod: -1, typcollation: 0,
        );
    }
}

fn access_methods(_scope: &QueryScope, rows: &mut Rows) {
    row!(rows; oid: super::relations::MEMORY, amname: "heap", amtype: 't');
    row!(rows; oid: super::relations::DISK, amname: "disk", amtype: 't');
    row!(rows; oid: super::relations::CLUSTER, amname: "cluster", amtype: 't');
    row!(rows; oid: super::relations::BTREE, amname: "btree", amtype: 'i');
    row!(rows; oid: super::relations::HASH, amname: "hash", amtype: 'i');
}

fn databases(scope: &QueryScope, rows: &mut Rows) {
    let name = scope.session.database();
    let acl = || vec!["=c/postgres".to_owned(), "postgres=CTc/postgres".to_owned()];
    for (oid, name, template, acl) in [
        (5, name.as_str(), false, privileges::of(&scope.catalog, PG_DATABASE, DATABASE_OID).1),
        (1, "template1", true, Some(acl())),
        (4, "template0", true, Some(acl())),
    ] {
        row!(rows;
            oid: oid,
            datname: name,
            datdba: OWNER,
            encoding: 6,
            datlocprovider: 'c',
            datistemplate: template,
            // There is one database; the templates stand for PostgreSQL's.
            datallowconn: !template,
            datconnlimit: -1,
            dattablespace: 1_663,
            datcollate: "C.UTF-8",
            datctype: "C.UTF-8",
            datacl: acl,
        );
    }
}

/// The one that PostgreSQL has in every database.
fn extensions(_scope: &QueryScope, rows: &mut Rows) {
    row!(rows;
        oid: PLPGSQL,
        extname: "plpgsql",
        extowner: OWNER,
        extnamespace: 11,
        extrelocatable: false,
        extversion: "1.0",
    );
}

/// What is the server's own, and no part of a dump: pg_dump leaves out what belongs to an extension that is built
/// in. An extension of our own would be in every application's dump of its schema.
pub(super) fn extension_members(rows: &mut Rows) {
    let schema =
        SCHEMAS.iter().filter(|(_, name)| *name == "froglet").map(|(oid, _)| (2_615, *oid));
    let views =
        SPECS.iter().filter(|spec| spec.schema == "froglet").map(|spec| (PG_CLASS, spec.oid));
    for (class, oid) in schema.chain(views) {
        row!(rows;
            classid: class,
            objid: oid,
            refclassid: 3_079,
            refobjid: PLPGSQL,
            deptype: 'e',
        );
    }
}

fn tablespaces(_scope: &QueryScope, rows: &mut Rows) {
    row!(rows; oid: 1_663, spcname: "pg_default", spcowner: OWNER);
    row!(rows; oid: 1_664, spcname: "pg_global", spcowner: OWNER);
}

fn collations(_scope: &QueryScope, rows: &mut Rows) {
    for (oid, name) in [(100, "default"), (950, "C"), (951, "POSIX")] {
        row!(rows;
            oid: oid,
            collname: name,
            collnamespace: 11,
            collowner: OWNER,
            collprovider: if oid == 100 { 'd' } else { 'c' },
            collisdeterministic: true,
            collencoding: -1,
            collcollate: (oid != 100).then_some(name),
            collctype: (oid != 100).then_some(name),
        );
    }
}

pub(crate) fn settings(scope: &QueryScope, rows: &mut Rows) {
    for setting in scope.session.settings() {
        row!(rows;
            name: &setting.name,
            setting: &setting.value,
            unit: setting.unit.clone(),
            category: &setting.category,
            short_desc: &setting.description,
            context: &setting.context,
            vartype: &setting.kind,
            source: &setting.source,
            min_val: setting.min.clone(),
            max_val: setting.max.clone(),
            enumvals: setting.values.clone(),
            boot_val: setting.boot.clone(),
            reset_val: setting.reset.clone(),
            pending_restart: false,
        );
    }
}

fn activity(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    for session in scope.session.activity() {
        let (wait_type, wait) = session.wait.unzip();
        row!(rows;
            datid: 5,
            datname: &database,
            pid: session.pid,
            usesysid: scope.catalog.role(&session.user).map(|role| role.id),
            usename: &session.user,
            application_name: &session.application,
            client_addr: session.client.clone(),
            client_port: session.port,
            backend_start: V::Time(session.backend_start_us),
            xact_start: session.transaction_start_us.map_or(V::Null, V::Time),
            query_start: session.query_start_us.map_or(V::Null, V::Time),
            state_change: V::Time(session.state_change_us),
            wait_event_type: wait_type,
            wait_event: wait,
            state: &session.state,
            query: &session.query,
            backend_type: "client backend",
        );
    }
}

fn copies(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    for copy in scope.session.copies() {
        row!(rows;
            pid: copy.pid,
            datid: 5,
            datname: &database,
            relid: copy.relid,
            command: copy.command,
            type: copy.kind,
            bytes_processed: copy.bytes,
            bytes_total: copy.bytes_total,
            tuples_processed: copy.rows,
            tuples_excluded: 0,
        );
    }
}

fn locks(scope: &QueryScope, rows: &mut Rows) {
    for lock in scope.session.table_locks() {
        row!(rows;
            locktype: "relation",
            database: 5,
            relation: lock.table,
            virtualtransaction: format!("{}/0", lock.pid),
            pid: lock.pid,
            mode: lock.mode,
            granted: lock.granted,
            fastpath: false,
        );
    }
    for lock in scope.session.advisory_locks() {
        // A bigint stands in both oids, its upper half first.
        let (class, object, parts) = match lock.key {
            AdvisoryKey::One(key) => ((key >> 32) as u32, key as u32, 1),
            AdvisoryKey::Two(first, second) => (first as u32, second as u32, 2),
        };
        row!(rows;
            locktype: "advisory",
            database: 5,
            classid: class,
            objid: object,
            objsubid: parts,
            virtualtransaction: format!("{}/0", lock.owner.session),
            pid: lock.owner.session,
            mode: match lock.mode {
                AdvisoryMode::Shared => "ShareLock",
                AdvisoryMode::Exclusive => "ExclusiveLock",
            },
            granted: lock.is_granted,
            fastpath: false,
        );
    }
}
