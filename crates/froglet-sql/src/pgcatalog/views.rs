//! Views over the catalog: pg_tables, pg_indexes, pg_sequences, information_schema, and
//! froglet.blocks, froglet.engines, froglet.held_back, froglet.migrations, froglet.waits.

use froglet_engine::ColumnId;
use froglet_schema::def::Timing;
use froglet_schema::{
    CatalogVersion, ConstraintDef, ConstraintKind, Counted, ForeignKeyAction, KeptColumn,
    SequenceDef, TableDef, TableVersion,
};

use super::constraints::{index_of, index_text};
use super::relations::{PG_CLASS, all_sequences, tables};
use super::{Rows, SPECS, V, cluster, deparse, privileges};
use crate::privileges::Who;
use crate::provider::QueryScope;
use crate::semantics::enums;
use crate::stored::{DefaultKind, default_kind};
use crate::system_row as row;
use crate::types::array::is_array;
use crate::types::{names, numeric, oids, plain, type_name};

pub(super) fn fill_of(schema: &str, name: &str) -> Option<fn(&QueryScope, &mut Rows)> {
    Some(match (schema, name) {
        ("pg_catalog", "pg_tables") => pg_tables,
        ("pg_catalog", "pg_indexes") => pg_indexes,
        ("pg_catalog", "pg_sequences") => pg_sequences,
        ("pg_catalog", "pg_stat_user_tables") => user_tables,
        ("pg_catalog", "pg_stat_all_tables") => all_tables,
        ("pg_catalog", "pg_statio_user_tables") => user_tables_io,
        ("pg_catalog", "pg_statio_all_tables") => all_tables_io,
        ("pg_catalog", "pg_cursors") => cursors,
        ("pg_catalog", "pg_prepared_statements") => prepared_statements,
        ("information_schema", "tables") => is_tables,
        ("information_schema", "columns") => is_columns,
        ("information_schema", "table_constraints") => is_constraints,
        ("information_schema", "key_column_usage") => is_keys,
        ("information_schema", "constraint_column_usage") => is_usage,
        ("information_schema", "referential_constraints") => is_references,
        ("information_schema", "check_constraints") => is_checks,
        ("information_schema", "schemata") => is_schemata,
        ("information_schema", "sequences") => is_sequences,
        ("froglet", "blocks") => blocks,
        ("froglet", "engines") => engines,
        ("froglet", "held_back") => held_back,
        ("froglet", "placement") => crate::catalogs::placement::placement,
        ("froglet", "migrations") => migrations,
        ("froglet", "regions") => crate::catalogs::regions::regions,
        ("froglet", "schema_changes") => schema_changes,
        ("froglet", "unreadable") => unreadable,
        ("froglet", "waits") => waits,
        _ => return None,
    })
}

/// Tables but for those of materialized views.
fn plain_tables(catalog: &CatalogVersion) -> impl Iterator<Item = &TableVersion> {
    tables(catalog).into_iter().filter(|table| catalog.materialized(table.def.id).is_none())
}

fn pg_tables(scope: &QueryScope, rows: &mut Rows) {
    for table in plain_tables(&scope.catalog) {
        let def = &table.def;
        row!(rows;
            schemaname: &def.schema,
            tablename: &def.name,
            tableowner: privileges::owner_name(&scope.catalog, PG_CLASS, def.id),
            hasindexes: !def.indexes.is_empty(),
            hasrules: false,
            hastriggers: def.foreign_keys().next().is_some() || !def.referenced_by.is_empty(),
            rowsecurity: false,
        );
    }
    for spec in SPECS.iter().filter(|s| s.kind == 'r') {
        row!(rows; schemaname: spec.schema, tablename: spec.name, tableowner: "postgres",
            hasindexes: false, hasrules: false, hastriggers: false, rowsecurity: false);
    }
}

fn pg_indexes(scope: &QueryScope, rows: &mut Rows) {
    for table in tables(&scope.catalog) {
        for index in &table.def.indexes {
            row!(rows;
                schemaname: &table.def.schema,
                tablename: &table.def.name,
                indexname: &index.name,
                indexdef: index_text(&scope.catalog, index.id, 0, false),
            );
        }
    }
}

fn pg_sequences(scope: &QueryScope, rows: &mut Rows) {
    for sequence in all_sequences(&scope.catalog) {
        let last = scope.session.sequence_state(sequence.id).filter(|(_, called)| *called);
        row!(rows;
            schemaname: &sequence.schema,
            sequencename: &sequence.name,
            sequenceowner: privileges::owner_name(&scope.catalog, PG_CLASS, sequence.id),
            data_type: sequence.type_oid,
            start_value: sequence.start,
            min_value: sequence.min,
            max_value: sequence.max,
            increment_by: sequence.increment,
            cycle: sequence.cycle,
            cache_size: 1,
            last_value: last.map(|(value, _)| value),
        );
    }
}

fn user_tables(scope: &QueryScope, rows: &mut Rows) {
    for table in tables(&scope.catalog) {
        let (totals, indexed) = (table.accesses().totals(), !table.def.indexes.is_empty());
        let counted = |access| totals.of(access);
        row!(rows;
            relid: table.def.id,
            schemaname: &table.def.schema,
            relname: &table.def.name,
            seq_scan: counted(Counted::Scans),
            seq_tup_read: counted(Counted::ScannedRows),
            idx_scan: indexed.then(|| counted(Counted::Lookups)),
            idx_tup_fetch: indexed.then(|| counted(Counted::FoundRows)),
            n_tup_ins: counted(Counted::Inserted),
            n_tup_upd: counted(Counted::Updated),
            n_tup_del: counted(Counted::Deleted),
            n_live_tup: table.table.rows_for_plans(),
        );
    }
}

fn all_tables(scope: &QueryScope, rows: &mut Rows) {
    user_tables(scope, rows);
    system_tables(rows);
}

/// Without numbers: nothing is read or written in the blocks that PostgreSQL counts.
fn user_tables_io(scope: &QueryScope, rows: &mut Rows) {
    for table in tables(&scope.catalog) {
        let def = &table.def;
        row!(rows; relid: def.id, schemaname: &def.schema, relname: &def.name);
    }
}

fn all_tables_io(scope: &QueryScope, rows: &mut Rows) {
    user_tables_io(scope, rows);
    system_tables(rows);
}

fn system_tables(rows: &mut Rows) {
    for spec in SPECS.iter().filter(|spec| spec.kind == 'r') {
        row!(rows; relid: spec.oid, schemaname: spec.schema, relname: spec.name);
    }
}

fn is_tables(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    let mut add = |schema: &str, name: &str, kind: &str, writable: &str| {
        row!(rows;
            table_catalog: &database,
            table_schema: schema,
            table_name: name,
            table_type: kind,
            is_insertable_into: writable,
            is_typed: "NO",
        );
    };
    for table in plain_tables(&scope.catalog) {
        add(&table.def.schema, &table.def.name, "BASE TABLE", "YES");
    }
    for view in scope.catalog.views() {
        let writable = crate::view_write::is_updatable(&*scope.session, &scope.catalog, view);
        add(&view.schema, &view.name, "VIEW", if writable { "YES" } else { "NO" });
    }
    for spec in SPECS {
        let kind = if spec.kind == 'v' { "VIEW" } else { "BASE TABLE" };
        add(spec.schema, spec.name, kind, "NO");
    }
}

/// What information_schema.columns says of a type.
#[derive(Default)]
struct Limits {
    characters: Option<i64>,
    octets: Option<i64>,
    precision: Option<i64>,
    radix: Option<i64>,
    scale: Option<i64>,
    time: Option<i64>,
}

fn limits(ty: froglet_schema::SqlType) -> Limits {
    let integer = |bits: i64| Limits {
        precision: Some(bits),
        radix: Some(2),
        scale: Some(0),
        ..Limits::default()
    };
    let float = |bits: i64| Limits { precision: Some(bits), radix: Some(2), ..Limits::default() };
    match ty.oid {
        oids::INT2 => integer(16),
        oids::INT4 => integer(32),
        oids::INT8 => integer(64),
        oids::FLOAT4 => float(24),
        oids::FLOAT8 => float(53),
        oids::NUMERIC if ty.modifier >= 4 => {
            let (precision, scale) = numeric::precision_scale(ty.modifier);
            Limits {
                precision: Some(precision.into()),
                radix: Some(10),
                scale: Some(scale.into()),
                ..Limits::default()
            }
        }
        oids::NUMERIC => Limits { radix: Some(10), ..Limits::default() },
        oids::VARCHAR | oids::BPCHAR if ty.modifier >= 4 => Limits {
            characters: Some(i64::from(ty.modifier) - 4),
            octets: Some((i64::from(ty.modifier) - 4) * 4),
            ..Limits::default()
        },
        oids::TEXT | oids::VARCHAR => Limits { octets: Some(1 << 30), ..Limits::default() },
        oids::DATE => Limits { time: Some(0), ..Limits::default() },
        oids::TIMESTAMP | oids::TIMESTAMPTZ => Limits { time: Some(6), ..Limits::default() },
        _ => Limits::default(),
    }
}

fn is_columns(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    for table in plain_tables(&scope.catalog) {
        let def = &table.def;
        for (at, column) in def.columns.iter().enumerate() {
            let kind = default_kind(column);
            let text = deparse::default_text(&*scope.session, column, def);
            let generated = kind == DefaultKind::Generated;
            let identity = match kind {
                DefaultKind::IdentityAlways => Some("ALWAYS"),
                DefaultKind::IdentityByDefault => Some("BY DEFAULT"),
                _ => None,
            };
            let limits = limits(column.sql_type);
            let (udt_schema, udt_name) = udt(&scope.catalog, column.sql_type.oid);
            row!(rows;
                table_catalog: &database,
                table_schema: &def.schema,
                table_name: &def.name,
                column_name: &column.name,
                ordinal_position: at + 1,
                column_default: text.clone().filter(|_| kind == DefaultKind::Plain),
                is_nullable: if column.not_null { "NO" } else { "YES" },
                data_type: data_type(column.sql_type.oid),
                character_maximum_length: limits.characters,
                character_octet_length: limits.octets,
                numeric_precision: limits.precision,
                numeric_precision_radix: limits.radix,
                numeric_scale: limits.scale,
                datetime_precision: limits.time,
                udt_catalog: &database,
                udt_schema: udt_schema,
                udt_name: udt_name,
                dtd_identifier: (at + 1).to_string(),
                is_self_referencing: "NO",
                is_identity: if identity.is_some() { "YES" } else { "NO" },
                identity_generation: identity,
                is_generated: if generated { "ALWAYS" } else { "NEVER" },
                generation_expression: text.filter(|_| generated),
                is_updatable: "YES",
            );
        }
    }
    for view in scope.catalog.views() {
        for (at, column) in view.columns.iter().enumerate() {
            let limits = limits(column.sql_type);
            let (udt_schema, udt_name) = udt(&scope.catalog, column.sql_type.oid);
            row!(rows;
                table_catalog: &database,
                table_schema: &view.schema,
                table_name: &view.name,
                column_name: &column.name,
                ordinal_position: at + 1,
                is_nullable: "YES",
                data_type: data_type(column.sql_type.oid),
                character_maximum_length: limits.characters,
                character_octet_length: limits.octets,
                numeric_precision: limits.precision,
                numeric_precision_radix: limits.radix,
                numeric_scale: limits.scale,
                datetime_precision: limits.time,
                udt_catalog: &database,
                udt_schema: udt_schema,
                udt_name: udt_name,
                dtd_identifier: (at + 1).to_string(),
                is_self_referencing: "NO",
                is_identity: "NO",
                is_generated: "NEVER",
                is_updatable: "NO",
            );
        }
    }
}

fn kind_word(constraint: &ConstraintDef) -> &'static str {
    match constraint.kind {
        ConstraintKind::PrimaryKey(_) => "PRIMARY KEY",
        ConstraintKind::Unique(_) => "UNIQUE",
        ConstraintKind::Check(_) => "CHECK",
        ConstraintKind::ForeignKey(_) => "FOREIGN KEY",
    }
}

fn each_constraint(scope: &QueryScope, mut f: impl FnMut(&TableDef, &ConstraintDef)) {
    for table in tables(&scope.catalog) {
        for constraint in &table.def.constraints {
            f(&table.def, constraint);
        }
    }
}

fn is_constraints(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    each_constraint(scope, |table, constraint| {
        let timing = constraint.checked();
        row!(rows;
            constraint_catalog: &database,
            constraint_schema: &table.schema,
            constraint_name: &constraint.name,
            table_catalog: &database,
            table_schema: &table.schema,
            table_name: &table.name,
            constraint_type: kind_word(constraint),
            is_deferrable: if timing.is_deferrable() { "YES" } else { "NO" },
            initially_deferred: if timing == Timing::InitiallyDeferred { "YES" } else { "NO" },
            enforced: "YES",
        );
    });
}

/// The columns of a key constraint, in its order.
fn key_columns(table: &TableDef, constraint: &ConstraintDef) -> Vec<ColumnId> {
    match (&constraint.kind, index_of(table, constraint)) {
        (ConstraintKind::ForeignKey(key), _) => key.as_declared(&key.columns),
        (_, Some(index)) => index.spec.key.iter().map(|p| p.column).collect(),
        _ => Vec::new(),
    }
}

fn is_keys(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    each_constraint(scope, |table, constraint| {
        // Where the parent's key has its counterpart, in whose order a foreign key has its columns.
        let in_key = |at: usize| match &constraint.kind {
            ConstraintKind::ForeignKey(key) => {
                Some(key.declared.get(at).map_or(at + 1, |place| usize::from(*place) + 1))
            }
            _ => None,
        };
        for (at, id) in key_columns(table, constraint).into_iter().enumerate() {
            let Some(column) = table.column_by_id(id) else { continue };
            row!(rows;
                constraint_catalog: &database,
                constraint_schema: &table.schema,
                constraint_name: &constraint.name,
                table_catalog: &database,
                table_schema: &table.schema,
                table_name: &table.name,
                column_name: &column.name,
                ordinal_position: at + 1,
                position_in_unique_constraint: in_key(at),
            );
        }
    });
}

fn is_usage(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    each_constraint(scope, |table, constraint| {
        let parent;
        let (used, columns): (&TableDef, Vec<ColumnId>) = match &constraint.kind {
            ConstraintKind::ForeignKey(key) => {
                parent = scope.catalog.tables.get(&key.parent);
                let Some(parent) = parent else { return };
                (&parent.def, key.as_declared(&key.parent_columns))
            }
            ConstraintKind::Check(check) => (table, check.columns.clone()),
            _ => (table, key_columns(table, constraint)),
        };
        for column in columns.into_iter().filter_map(|id| used.column_by_id(id)) {
            row!(rows;
                table_catalog: &database,
                table_schema: &used.schema,
                table_name: &used.name,
                column_name: &column.name,
                constraint_catalog: &database,
                constraint_schema: &table.schema,
                constraint_name: &constraint.name,
            );
        }
    });
}

fn rule(action: ForeignKeyAction) -> &'static str {
    match action {
        ForeignKeyAction::NoAction => "NO ACTION",
        ForeignKeyAction::Restrict => "RESTRICT",
        ForeignKeyAction::Cascade => "CASCADE",
        ForeignKeyAction::SetNull => "SET NULL",
        ForeignKeyAction::SetDefault => "SET DEFAULT",
    }
}

fn is_references(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    each_constraint(scope, |table, constraint| {
        let ConstraintKind::ForeignKey(key) = &constraint.kind else { return };
        let Some(parent) = scope.catalog.tables.get(&key.parent) else { return };
        let unique = parent.def.constraint_of_index(key.parent_index);
        row!(rows;
            constraint_catalog: &database,
            constraint_schema: &table.schema,
            constraint_name: &constraint.name,
            unique_constraint_catalog: &database,
            unique_constraint_schema: &parent.def.schema,
            unique_constraint_name: unique.map(|c| c.name.clone()),
            match_option: "NONE",
            update_rule: rule(key.on_update),
            delete_rule: rule(key.on_delete),
        );
    });
}

fn is_checks(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    each_constraint(scope, |table, constraint| {
        let ConstraintKind::Check(check) = &constraint.kind else { return };
        row!(rows;
            constraint_catalog: &database,
            constraint_schema: &table.schema,
            constraint_name: &constraint.name,
            check_clause: format!("({})", deparse::check_text(check, table, false)),
        );
    });
}

fn is_schemata(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    for name in cluster::schema_names(scope) {
        row!(rows;
            catalog_name: &database,
            schema_name: &name,
            schema_owner: privileges::schema_owner(&scope.catalog, &name),
        );
    }
}

fn is_sequences(scope: &QueryScope, rows: &mut Rows) {
    let database = scope.session.database();
    // The standard takes those of identity columns for a part of these.
    let is_identity = |sequence: &SequenceDef| {
        sequence.owned_by.is_some_and(|(table, column)| {
            let table = tables(&scope.catalog).into_iter().find(|t| t.def.id == table);
            table.and_then(|t| t.def.column_by_id(column)).is_some_and(|column| {
                let kind = default_kind(column);
                matches!(kind, DefaultKind::IdentityAlways | DefaultKind::IdentityByDefault)
            })
        })
    };
    for sequence in all_sequences(&scope.catalog).into_iter().filter(|s| !is_identity(s)) {
        let bits = match sequence.type_oid {
            oids::INT2 => 16,
            oids::INT4 => 32,
            _ => 64,
        };
        row!(rows;
            sequence_catalog: &database,
            sequence_schema: &sequence.schema,
            sequence_name: &sequence.name,
            data_type: type_name(plain(sequence.type_oid)),
            numeric_precision: bits,
            numeric_precision_radix: 2,
            numeric_scale: 0,
            start_value: sequence.start.to_string(),
            minimum_value: sequence.min.to_string(),
            maximum_value: sequence.max.to_string(),
            increment: sequence.increment.to_string(),
            cycle_option: if sequence.cycle { "YES" } else { "NO" },
        );
    }
}

fn cursors(scope: &QueryScope, rows: &mut Rows) {
    for cursor in scope.session.cursors() {
        row!(rows;
            name: cursor.name,
            statement: cursor.statement,
            is_holdable: cursor.holdable,
            is_binary: cursor.binary,
            is_scrollable: cursor.scrollable,
            creation_time: V::Time(cursor.created_us),
        );
    }
}

fn prepared_statements(scope: &QueryScope, rows: &mut Rows) {
    for statement in scope.session.prepared_statements() {
        let types: Vec<i64> = statement.parameters.into_iter().map(i64::from).collect();
        row!(rows;
            name: statement.name,
            statement: statement.statement,
            prepare_time: V::Time(statement.prepared_us),
            parameter_types: types,
            from_sql: statement.from_sql,
            generic_plans: statement.runs,
            custom_plans: 0,
        );
    }
}

/// What users are told of statements that are not theirs to see.
const HIDDEN: &str = "<insufficient privilege>";

fn migrations(scope: &QueryScope, rows: &mut Rows) {
    let who = Who::named(&scope.catalog, &scope.session.user());
    for m in scope.session.migrations() {
        // Statements and errors have values in them.
        let is_seen = who.owns(PG_CLASS, m.table);
        let statement = if is_seen { m.statement.as_str() } else { HIDDEN };
        row!(rows;
            id: m.id,
            txn: m.txn,
            table_name: &m.table_name,
            kind: &m.kind,
            statement: statement,
            phase: m.phase.name(),
            blocks_done: m.blocks_done,
            blocks: m.blocks,
            percent: m.percent(),
            rows_scanned: m.rows_scanned,
            rows_on_access: m.rows_on_access,
            rows_captured: m.rows_captured,
            backlog: m.backlog,
            started: V::Time(m.started_us),
            ended: m.ended_us.map_or(V::Null, V::Time),
            error: m.error.clone().map(|error| if is_seen { error } else { HIDDEN.to_owned() }),
            paused: m.is_paused,
            rows_per_second: m.rows_per_second.map_or(V::Null, V::from),
            kept_with: m.kept_with.clone(),
        );
    }
}

fn schema_changes(scope: &QueryScope, rows: &mut Rows) {
    let changes = scope.session.schema_changes();
    let (is_seen, tables) = (scope.session.is_superuser(), &scope.catalog.tables);
    for change in &changes {
        // What was kept beside rows that have gone elsewhere since is gone.
        let is_there = |kept: &&KeptColumn| tables.values().any(|t| t.def.space == kept.space);
        let kept = change.kept.iter().filter(is_there).count();
        row!(rows;
            id: change.id,
            migrations: change.migrations.iter().map(|id| *id as i64).collect::<Vec<_>>(),
            committed: V::Time(change.committed_us),
            statements: match is_seen {
                true => change.statements.clone(),
                false => vec![HIDDEN.to_owned(); change.statements.len()],
            },
            reverts: change.reverts,
            reverted_by: crate::revert::reverted_by(&changes, change.id),
            kept_columns: kept,
            kept_until: if kept > 0 { V::Time(change.kept_until_us) } else { V::Null },
        );
    }
}

fn unreadable(scope: &QueryScope, rows: &mut Rows) {
    for found in scope.catalog.all_unreadable() {
        row!(rows;
            id: found.id,
            kind: &found.kind,
            schema_name: found.schema.clone(),
            name: &found.name,
            error: &found.why,
        );
    }
}

fn blocks(scope: &QueryScope, rows: &mut Rows) {
    for table in tables(&scope.catalog) {
        let counts = scope.session.block_counts(table.def.space);
        row!(rows;
            schema_name: &table.def.schema,
            table_name: &table.def.name,
            hot: counts.hot,
            cooling: counts.cooling,
            frozen: counts.frozen,
            free_rows: counts.free_rows,
            versions: counts.versions,
            bytes: counts.bytes,
            dictionaries: counts.dictionaries,
        );
    }
}

fn engines(scope: &QueryScope, rows: &mut Rows) {
    for engine in scope.session.engines() {
        let of_engine = |table: &TableVersion| table.def.space.home() == engine.home;
        let tables = || tables(&scope.catalog).into_iter().filter(|table| of_engine(table));
        row!(rows;
            engine: engine.home.name(),
            tables: tables().count() as u64,
            rows: tables().map(|table| table.table.rows_for_plans()).sum::<u64>(),
            row_bytes: tables().map(|table| table.table.bytes_estimate()).sum::<u64>(),
            memory_bytes: engine.memory_bytes,
            unwritten_bytes: engine.unwritten_bytes,
            cache_bytes: engine.cache_bytes,
            cache_limit_bytes: engine.cache_limit_bytes,
            files: engine.files,
            file_bytes: engine.file_bytes,
            runs: engine.runs,
            versions: engine.versions,
            registry_entries: engine.registry_entries,
            cache_hits: engine.cache_hits,
            cache_misses: engine.cache_misses,
            put_bytes: engine.put_bytes,
            written_bytes: engine.written_bytes,
            requests: engine.requests,
            round_trips: engine.round_trips,
        );
    }
}

fn held_back(scope: &QueryScope, rows: &mut Rows) {
    let sessions = scope.session.activity();
    for held in scope.session.held_back() {
        let session = sessions.iter().find(|session| Some(session.pid) == held.pid);
        row!(rows;
            pid: held.pid,
            held_by: &held.held_by,
            statement: session.map(|session| session.query.clone()),
            since: held.since_us().map_or(V::Null, V::Time),
            age_seconds: held.age.map(|age| age.as_secs_f64()),
            as_of: held.as_of,
            behind: held.behind,
            tables: if held.tables.is_empty() { V::Null } else { V::from(held.tables) },
        );
    }
}

fn waits(scope: &QueryScope, rows: &mut Rows) {
    let sessions = scope.session.activity();
    for waiter in sessions.iter().filter(|session| session.wait.is_some()) {
        let holder = sessions.iter().find(|other| Some(other.pid) == waiter.waits_for);
        row!(rows;
            pid: waiter.pid,
            statement: &waiter.query,
            waits_for: waiter.waits_for.map_or(V::Null, V::from),
            holder_state: holder.map_or(V::Null, |holder| V::from(&holder.state)),
            holder_statement: holder.map_or(V::Null, |holder| V::from(&holder.query)),
        );
    }
}

/// As information_schema calls a type: of every array the same.
fn data_type(oid: u32) -> String {
    match names::type_row(oid) {
        Some(_) if is_array(oid) => "ARRAY".to_owned(),
        Some(_) => type_name(plain(oid)),
        None if enums::element_of(oid).is_some() => "ARRAY".to_owned(),
        None => "USER-DEFINED".to_owned(),
    }
}

/// The schema and the name of a type.
fn udt(catalog: &CatalogVersion, oid: u32) -> (String, Option<String>) {
    match (names::type_row(oid), catalog.enum_of(oid)) {
        (None, Some(def)) => {
            let array = if def.array == oid { "_" } else { "" };
            (def.schema.clone(), Some(format!("{array}{}", def.name)))
        }
        (row, _) => ("pg_catalog".to_owned(), row.map(|row| row.name.to_owned())),
    }
}
