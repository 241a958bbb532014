//! Relations and their columns: pg_class, pg_attribute, pg_attrdef, pg_index, pg_sequence,
//! pg_depend.

use froglet_engine::{ColumnId, Dictionary, Home, NullKeys};
use froglet_schema::{
    CatalogVersion, ColumnDef, ConstraintKind, IndexDef, SequenceDef, TableDef, TableVersion,
};

use super::type_io::type_io;
use super::{Columns, OWNER, Rows, SPECS, Spec, deparse, objects, privileges, schema_oid_of};
use crate::ddl_sequence::draws_from;
use crate::provider::QueryScope;
use crate::stored::{DefaultKind, default_kind};
use crate::system_row as row;
use crate::temporary::is_temporary;
use crate::types::array::is_array;
use crate::types::{names, oids};

/// pg_am.oid of the memory engine; PostgreSQL's heap.
pub const MEMORY: u32 = 2;
/// pg_am.oid of the disk engine.
pub(super) const DISK: u32 = 9_001;
/// That of tables in a cluster.
pub(super) const CLUSTER: u32 = 9_002;
/// pg_am.oid of btree.
pub const BTREE: u32 = 403;
/// pg_am.oid of hash.
pub const HASH: u32 = 405;
/// pg_class's own oid.
pub const PG_CLASS: u32 = 1_259;

pub(super) fn fill_of(schema: &str, name: &str) -> Option<fn(&QueryScope, &mut Rows)> {
    Some(match (schema, name) {
        ("pg_catalog", "pg_class") => classes,
        ("pg_catalog", "pg_attribute") => attributes,
        ("pg_catalog", "pg_attrdef") => defaults,
        ("pg_catalog", "pg_index") => indexes,
        ("pg_catalog", "pg_sequence") => sequences,
        ("pg_catalog", "pg_depend") => dependencies,
        ("pg_catalog", "pg_opclass") => operator_classes,
        _ => return None,
    })
}

/// Tables, in the order of their ids.
pub fn tables(catalog: &CatalogVersion) -> Vec<&TableVersion> {
    let mut all: Vec<&TableVersion> = catalog.tables.values().map(|t| &**t).collect();
    all.sort_by_key(|t| t.def.id);
    all
}

/// Sequences, in the order of their ids.
pub fn all_sequences(catalog: &CatalogVersion) -> Vec<&SequenceDef> {
    let mut all: Vec<&SequenceDef> = catalog.sequences.values().map(|s| &**s).collect();
    all.sort_by_key(|s| s.id);
    all
}

/// The attribute number of a column: its position, from 1.
pub fn attnum(table: &TableDef, column: ColumnId) -> i64 {
    table.columns.iter().position(|c| c.id == column).map_or(0, |at| at as i64 + 1)
}

fn classes(scope: &QueryScope, rows: &mut Rows) {
    for table in tables(&scope.catalog) {
        table_class(scope, table, rows);
        for index in &table.def.indexes {
            index_class(scope, table, index, rows);
        }
    }
    for sequence in all_sequences(&scope.catalog) {
        let (owner, acl) = privileges::of(&scope.catalog, PG_CLASS, sequence.id);
        row!(rows;
            oid: sequence.id,
            relname: &sequence.name,
            relnamespace: schema_oid_of(&scope.catalog, &sequence.schema),
            relowner: owner,
            relacl: acl,
            relfilenode: sequence.id,
            relpages: 1,
            reltuples: 1.0,
            relpersistence: persistence(&sequence.schema),
            relkind: 'S',
            relnatts: 3,
            relispopulated: true,
            relreplident: 'n',
        );
    }
    objects::view_classes(scope, rows);
    for spec in SPECS {
        let columns = Columns::parse(spec.columns).iter().count();
        row!(rows;
            oid: spec.oid,
            relname: spec.name,
            relnamespace: schema_oid_of(&scope.catalog, spec.schema),
            reltype: spec.oid,
            relowner: OWNER,
            relam: if spec.kind == 'r' { MEMORY } else { 0 },
            relpersistence: 'p',
            relkind: spec.kind,
            relnatts: columns,
            relispopulated: true,
            relreplident: 'n',
        );
    }
}

fn table_class(scope: &QueryScope, table: &TableVersion, rows: &mut Rows) {
    let def = &table.def;
    let foreign = def.foreign_keys().next().is_some() || !def.referenced_by.is_empty();
    let view = scope.catalog.materialized(def.id);
    let (owner, acl) = privileges::of(&scope.catalog, PG_CLASS, def.id);
    row!(rows;
        oid: def.id,
        relname: &def.name,
        relnamespace: schema_oid_of(&scope.catalog, &def.schema),
        // Nothing is known of the type of its rows but that there is one, for which clients look.
        reltype: def.id,
        relowner: owner,
        relacl: acl,
        relam: match def.space.home() {
            Home::Memory => MEMORY,
            Home::Disk => DISK,
            Home::Cluster => CLUSTER,
        },
        relfilenode: def.id,
        relpages: i64::from(table.table.block_count()),
        reltuples: table.table.rows_for_plans() as f64,
        relallvisible: i64::from(table.table.block_count()),
        relhasindex: !def.indexes.is_empty(),
        relpersistence: persistence(&def.schema),
        relkind: if view.is_some() { 'm' } else { 'r' },
        relhasrules: view.is_some(),
        relnatts: def.columns.len(),
        relchecks: def.checks().count(),
        // Foreign keys are triggers in PostgreSQL; psql asks for them only where this says so.
        relhastriggers: foreign,
        relispopulated: view.and_then(|view| view.materialized).is_none_or(|m| m.populated),
        relreplident: 'd',
        reloptions: storage_options(def.dictionary),
    );
}

/// pg_class.relpersistence of what is in a schema.
pub(super) fn persistence(schema: &str) -> char {
    if is_temporary(schema) { 't' } else { 'p' }
}

/// Options as pg_class and pg_attribute have them.
fn storage_options(dictionary: Option<Dictionary>) -> Option<Vec<String>> {
    dictionary.map(|dictionary| vec![format!("dictionary={}", dictionary.name())])
}

fn index_class(scope: &QueryScope, table: &TableVersion, index: &IndexDef, rows: &mut Rows) {
    row!(rows;
        oid: index.id,
        relname: &index.name,
        relnamespace: schema_oid_of(&scope.catalog, &table.def.schema),
        relowner: scope.catalog.owner(PG_CLASS, table.def.id),
        relam: if index.notes.method.is_some() { HASH } else { BTREE },
        relfilenode: index.id,
        relpages: 1,
        reltuples: table.table.rows_for_plans() as f64,
        relpersistence: persistence(&table.def.schema),
        relkind: 'i',
        relnatts: index.written_parts().len() + index.notes.include.len(),
        relispopulated: true,
        relreplident: 'n',
        reloptions: Some(index.notes.options.clone()).filter(|options| !options.is_empty()),
    );
}

pub(super) fn attribute(
    rows: &mut Rows,
    relation: u32,
    number: i64,
    name: &str,
    ty: froglet_schema::SqlType,
    extra: impl IntoIterator<Item = (&'static str, super::V)>,
) {
    let info = names::type_row(ty.oid);
    // An enum's value is its number.
    let length = info.map_or(4, |t| t.length);
    let by_length = match length {
        -1 => ('i', 'x', false),
        _ => ('i', 'p', true),
    };
    let (align, storage, by_value) =
        type_io(ty.oid).map_or(by_length, |io| (io.align, io.storage, io.by_value));
    let base: [(&'static str, super::V); 14] = [
        ("attrelid", relation.into()),
        ("attname", name.into()),
        ("atttypid", ty.oid.into()),
        ("attstattarget", (-1).into()),
        ("attlen", length.into()),
        ("attnum", number.into()),
        ("attndims", i64::from(is_array(ty.oid)).into()),
        ("attcacheoff", (-1).into()),
        ("atttypmod", ty.modifier.into()),
        ("attbyval", by_value.into()),
        ("attalign", align.into()),
        ("attstorage", storage.into()),
        ("attislocal", true.into()),
        ("attcollation", info.map_or(0, |t| t.collation).into()),
    ];
    rows.add(base.into_iter().chain(extra));
}

fn attributes(scope: &QueryScope, rows: &mut Rows) {
    for table in tables(&scope.catalog) {
        for (at, column) in table.def.columns.iter().enumerate() {
            let (identity, generated) = match default_kind(column) {
                DefaultKind::IdentityAlways => ("a", ""),
                DefaultKind::IdentityByDefault => ("d", ""),
                DefaultKind::Generated => ("", "s"),
                DefaultKind::None | DefaultKind::Plain => ("", ""),
            };
            attribute(
                rows,
                table.def.id,
                at as i64 + 1,
                &column.name,
                column.sql_type,
                [
                    ("attnotnull", column.not_null.into()),
                    ("attoptions", storage_options(column.dictionary).into()),
                    ("atthasdef", has_default(column).into()),
                    ("attidentity", identity.into()),
                    ("attgenerated", generated.into()),
                    (
                        "attacl",
                        privileges::of_column(&scope.catalog, table.def.id, column.id).into(),
                    ),
                ],
            );
        }
        for index in &table.def.indexes {
            index_attributes(&table.def, index, rows);
        }
    }
    for sequence in all_sequences(&scope.catalog) {
        let columns =
            [("last_value", oids::INT8), ("log_cnt", oids::INT8), ("is_called", oids::BOOL)];
        for (at, (name, oid)) in columns.into_iter().enumerate() {
            let extra = [("attnotnull", true.into())];
            attribute(rows, sequence.id, at as i64 + 1, name, crate::types::plain(oid), extra);
        }
    }
    objects::view_attributes(scope, rows);
    SPECS.iter().for_each(|spec| system_attributes(spec, rows));
}

/// Identity columns have no row in pg_attrdef, as in PostgreSQL, nor has a default of NULL.
fn has_default(column: &ColumnDef) -> bool {
    let null = column.default.as_ref().is_some_and(|d| d.0.trim().eq_ignore_ascii_case("null"));
    !null && matches!(default_kind(column), DefaultKind::Plain | DefaultKind::Generated)
}

/// pg_attrdef's own oid.
const PG_ATTRDEF: u32 = 2_604;

/// The oid of a column's default; no other object has the number.
fn default_oid(table: &TableDef, number: i64) -> i64 {
    i64::from(table.id.wrapping_mul(1_600).wrapping_add(1 << 31)) + number
}

/// The columns of an index, those that it includes behind those of its key.
fn stored_columns(index: &IndexDef) -> impl Iterator<Item = ColumnId> {
    let key = index.written_parts().iter().map(|part| part.column);
    key.chain(index.notes.include.iter().copied())
}

fn index_attributes(table: &TableDef, index: &IndexDef, rows: &mut Rows) {
    for (at, id) in stored_columns(index).enumerate() {
        if let Some(column) = table.column_by_id(id) {
            let name = column.name.trim_start_matches('\0');
            attribute(rows, index.id, at as i64 + 1, name, column.sql_type, []);
        }
    }
}

fn system_attributes(spec: &Spec, rows: &mut Rows) {
    for (at, column) in Columns::parse(spec.columns).iter().enumerate() {
        let extra = [("attnotnull", column.not_null.into())];
        attribute(rows, spec.oid, at as i64 + 1, &column.name, column.ty, extra);
    }
}

fn defaults(scope: &QueryScope, rows: &mut Rows) {
    for table in tables(&scope.catalog) {
        for (at, column) in table.def.columns.iter().enumerate() {
            if !has_default(column) {
                continue;
            }
            let number = at as i64 + 1;
            row!(rows;
                oid: default_oid(&table.def, number),
                adrelid: table.def.id,
                adnum: number,
                adbin: deparse::default_text(&*scope.session, column, &table.def),
            );
        }
    }
}

/// The operator classes of btree that keys have without being told: pg_opclass's oid, name, family and type.
const OPERATOR_CLASSES: &[(u32, &str, u32, u32)] = &[
    (1_978, "int4_ops", 1_976, oids::INT4),
    (1_979, "int2_ops", 1_976, oids::INT2),
    (1_981, "oid_ops", 1_989, oids::OID),
    (3_122, "date_ops", 434, oids::DATE),
    (3_123, "float8_ops", 1_970, oids::FLOAT8),
    (3_124, "int8_ops", 1_976, oids::INT8),
    (3_125, "numeric_ops", 1_988, oids::NUMERIC),
    (TEXT_OPS, "text_ops", 1_994, oids::TEXT),
    (3_127, "timestamptz_ops", 434, oids::TIMESTAMPTZ),
    (3_128, "timestamp_ops", 434, oids::TIMESTAMP),
    (10_003, "bool_ops", 424, oids::BOOL),
    (10_004, "bpchar_ops", 426, oids::BPCHAR),
    (10_006, "bytea_ops", 428, oids::BYTEA),
    (10_012, "float4_ops", 1_970, oids::FLOAT4),
    (10_022, "interval_ops", 1_982, oids::INTERVAL),
    (10_028, "name_ops", 1_994, oids::NAME),
    (10_038, "time_ops", 1_996, oids::TIME),
    (10_065, "uuid_ops", 2_968, oids::UUID),
    (ENUM_OPS, "enum_ops", 3_522, 3_500),
    (10_088, "jsonb_ops", 4_033, oids::JSONB),
];
/// Those that keys have only if they are told.
const SAID_CLASSES: &[(u32, &str, u32, u32)] = &[
    (4_217, "text_pattern_ops", 2_095, oids::TEXT),
    (4_218, "varchar_pattern_ops", 2_095, oids::TEXT),
    (4_219, "bpchar_pattern_ops", 2_097, oids::BPCHAR),
    (10_044, "varchar_ops", 1_994, oids::TEXT),
];
const TEXT_OPS: u32 = 3_126;
const ENUM_OPS: u32 = 10_069;

/// The class of a key column of a type, and what was said of it.
fn operator_class(oid: u32, said: Option<&str>) -> i64 {
    let said = said.and_then(|said| SAID_CLASSES.iter().find(|(_, name, ..)| *name == said));
    if let Some((class, ..)) = said {
        return (*class).into();
    }
    let found = OPERATOR_CLASSES.iter().find(|(.., input)| *input == oid);
    let users = if oid >= froglet_schema::def::FIRST_USER_ID { ENUM_OPS } else { TEXT_OPS };
    found.map_or(users, |(class, ..)| *class).into()
}

fn operator_classes(_scope: &QueryScope, rows: &mut Rows) {
    let own = OPERATOR_CLASSES.iter().map(|class| (class, true));
    let all = own.chain(SAID_CLASSES.iter().map(|class| (class, false)));
    for ((oid, name, family, input), is_own) in all {
        row!(rows;
            oid: *oid,
            opcmethod: BTREE,
            opcname: *name,
            opcnamespace: 11,
            opcowner: OWNER,
            opcfamily: *family,
            opcintype: *input,
            opcdefault: is_own,
        );
    }
}

/// pg_index.indoption: 1 for DESC, 2 for NULLS FIRST.
fn options(index: &IndexDef) -> Vec<i64> {
    index
        .written_parts()
        .iter()
        .map(|part| i64::from(part.descending) | (i64::from(part.nulls_first) << 1))
        .collect()
}

fn indexes(scope: &QueryScope, rows: &mut Rows) {
    for table in tables(&scope.catalog) {
        let def = &table.def;
        for index in &def.indexes {
            let primary = def
                .constraint_of_index(index.spec.id)
                .is_some_and(|c| matches!(c.kind, ConstraintKind::PrimaryKey(_)));
            let parts = index.written_parts();
            let columns = || parts.iter().filter_map(|p| def.column_by_id(p.column));
            row!(rows;
                indexrelid: index.id,
                indrelid: def.id,
                indnatts: parts.len() + index.notes.include.len(),
                indnkeyatts: parts.len(),
                indisunique: index.spec.keeps_apart(),
                indnullsnotdistinct: index.spec.nulls != NullKeys::Distinct,
                indisprimary: primary,
                indimmediate: !index.spec.unique_at_commit,
                indisvalid: true,
                indisready: true,
                indislive: true,
                indkey: stored_columns(index).map(|id| attnum(def, id)).collect::<Vec<_>>(),
                indcollation: columns()
                    .map(|c| names::type_row(c.sql_type.oid).map_or(0, |t| t.collation.into()))
                    .collect::<Vec<i64>>(),
                indclass: columns()
                    .zip(usize::from(index.notes.partial)..)
                    .map(|(c, at)| operator_class(c.sql_type.oid, index.notes.class(at)))
                    .collect::<Vec<i64>>(),
                indoption: options(index),
                indexprs: deparse::index_expressions(def, index),
                indpred: deparse::predicate_text(def, index, false),
            );
        }
    }
}

fn sequences(scope: &QueryScope, rows: &mut Rows) {
    for sequence in all_sequences(&scope.catalog) {
        row!(rows;
            seqrelid: sequence.id,
            seqtypid: sequence.type_oid,
            seqstart: sequence.start,
            seqincrement: sequence.increment,
            seqmax: sequence.max,
            seqmin: sequence.min,
            seqcache: 1,
            seqcycle: sequence.cycle,
        );
    }
}

/// Defaults depend on their columns, and on the sequences that they draw from.
fn default_dependencies(scope: &QueryScope, rows: &mut Rows) {
    for table in tables(&scope.catalog) {
        for (at, column) in table.def.columns.iter().enumerate() {
            if !has_default(column) {
                continue;
            }
            let number = at as i64 + 1;
            row!(rows;
                classid: PG_ATTRDEF,
                objid: default_oid(&table.def, number),
                refclassid: PG_CLASS,
                refobjid: table.def.id,
                refobjsubid: number,
                deptype: 'a',
            );
            let drawn = all_sequences(&scope.catalog);
            for sequence in drawn.into_iter().filter(|s| draws_from(column, s)) {
                row!(rows;
                    classid: PG_ATTRDEF,
                    objid: default_oid(&table.def, number),
                    refclassid: PG_CLASS,
                    refobjid: sequence.id,
                    deptype: 'n',
                );
            }
        }
    }
}

/// Sequences depend on their columns: automatically (serial) or internally (identity).
fn dependencies(scope: &QueryScope, rows: &mut Rows) {
    default_dependencies(scope, rows);
    super::constraints::dependencies(scope, rows);
    objects::view_dependencies(scope, rows);
    super::cluster::extension_members(rows);
    for sequence in all_sequences(&scope.catalog) {
        let Some((table, column)) = sequence.owned_by else { continue };
        let Some(table) = scope.catalog.tables.get(&table) else { continue };
        let identity =
            table.def.column_by_id(column).is_some_and(|c| default_kind(c).is_identity());
        row!(rows;
            classid: PG_CLASS,
            objid: sequence.id,
            refclassid: PG_CLASS,
            refobjid: table.def.id,
            refobjsubid: attnum(&table.def, column),
            deptype: if identity { 'i' } else { 'a' },
        );
    }
}
