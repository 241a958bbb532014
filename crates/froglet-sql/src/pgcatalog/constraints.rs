//! pg_constraint, and the texts of constraints and indexes.

use froglet_engine::{KeyPart, NullKeys};
use froglet_schema::{
    CatalogVersion, ConstraintDef, ConstraintKind, ForeignKeyAction, IndexDef, TableDef,
};

use froglet_schema::def::{ForeignKeyDef, Timing};

use super::objects::PG_CONSTRAINT;
use super::relations::{PG_CLASS, attnum, tables};
use super::{Rows, deparse, schema_oid_of};
use crate::context::SessionFunctions;
use crate::provider::QueryScope;
use crate::system_row as row;
use crate::udf::lookup::{quote_ident, relation_text};

pub(super) fn fill_of(schema: &str, name: &str) -> Option<fn(&QueryScope, &mut Rows)> {
    match (schema, name) {
        ("pg_catalog", "pg_constraint") => Some(constraints),
        _ => None,
    }
}

/// pg_constraint.contype
pub fn kind(constraint: &ConstraintDef) -> char {
    match constraint.kind {
        ConstraintKind::PrimaryKey(_) => 'p',
        ConstraintKind::Unique(_) => 'u',
        ConstraintKind::Check(_) => 'c',
        ConstraintKind::ForeignKey(_) => 'f',
    }
}

fn action(action: ForeignKeyAction) -> char {
    match action {
        ForeignKeyAction::NoAction => 'a',
        ForeignKeyAction::Restrict => 'r',
        ForeignKeyAction::Cascade => 'c',
        ForeignKeyAction::SetNull => 'n',
        ForeignKeyAction::SetDefault => 'd',
    }
}

fn constraints(scope: &QueryScope, rows: &mut Rows) {
    for table in tables(&scope.catalog) {
        for constraint in &table.def.constraints {
            match &constraint.kind {
                ConstraintKind::ForeignKey(key) => {
                    foreign_key(&scope.catalog, &table.def, constraint, key, rows);
                }
                _ => plain_constraint(&scope.catalog, &table.def, constraint, rows),
            }
        }
    }
}

fn plain_constraint(
    catalog: &CatalogVersion,
    table: &TableDef,
    constraint: &ConstraintDef,
    rows: &mut Rows,
) {
    let index = index_of(table, constraint);
    let key: Vec<i64> = match (&constraint.kind, index) {
        (ConstraintKind::Check(check), _) => {
            check.columns.iter().map(|c| attnum(table, *c)).collect()
        }
        (_, Some(index)) => index.spec.key.iter().map(|p| attnum(table, p.column)).collect(),
        _ => Vec::new(),
    };
    let text = match &constraint.kind {
        ConstraintKind::Check(check) => Some(deparse::check_text(check, table, false)),
        _ => None,
    };
    row!(rows;
        oid: constraint.id,
        conname: &constraint.name,
        connamespace: schema_oid_of(catalog, &table.schema),
        contype: kind(constraint),
        condeferrable: constraint.timing.is_deferrable(),
        condeferred: constraint.timing == Timing::InitiallyDeferred,
        convalidated: !constraint.not_valid,
        conrelid: table.id,
        conindid: index.map_or(0, |i| i.id),
        confupdtype: ' ',
        confdeltype: ' ',
        confmatchtype: ' ',
        conislocal: true,
        connoinherit: !matches!(constraint.kind, ConstraintKind::Check(_)),
        conkey: key,
        conbin: text,
    );
}

fn foreign_key(
    catalog: &CatalogVersion,
    table: &TableDef,
    constraint: &ConstraintDef,
    key: &ForeignKeyDef,
    rows: &mut Rows,
) {
    let parent = catalog.tables.get(&key.parent).map(|t| &t.def);
    let index = parent.and_then(|p| p.index_by_id(key.parent_index));
    let numbers = |of: &TableDef, ids: &[froglet_engine::ColumnId]| {
        key.as_declared(ids).iter().map(|c| attnum(of, *c)).collect::<Vec<_>>()
    };
    row!(rows;
        oid: constraint.id,
        conname: &constraint.name,
        connamespace: schema_oid_of(catalog, &table.schema),
        contype: 'f',
        condeferrable: key.timing.is_deferrable(),
        condeferred: key.timing == Timing::InitiallyDeferred,
        convalidated: !constraint.not_valid,
        conrelid: table.id,
        conindid: index.map_or(0, |i| i.id),
        confrelid: key.parent,
        confupdtype: action(key.on_update),
        confdeltype: action(key.on_delete),
        confmatchtype: 's',
        conislocal: true,
        connoinherit: true,
        conkey: numbers(table, &key.columns),
        confkey: parent.map(|p| numbers(p, &key.parent_columns)),
    );
}

/// Constraints and indexes depend on their columns, a foreign key on those of its parent and their index as well.
pub(super) fn dependencies(scope: &QueryScope, rows: &mut Rows) {
    for table in tables(&scope.catalog) {
        let def = &table.def;
        for index in &def.indexes {
            let object = (PG_CLASS, index.id);
            match def.constraint_of_index(index.spec.id) {
                Some(constraint) => depends(rows, object, (PG_CONSTRAINT, constraint.id, 0), 'i'),
                None => {
                    for part in &index.spec.key {
                        depends(rows, object, (PG_CLASS, def.id, attnum(def, part.column)), 'a');
                    }
                }
            }
        }
        for constraint in &def.constraints {
            let object = (PG_CONSTRAINT, constraint.id);
            let own = |column| (PG_CLASS, def.id, attnum(def, column));
            match &constraint.kind {
                ConstraintKind::Check(check) => {
                    check.columns.iter().for_each(|c| depends(rows, object, own(*c), 'a'));
                }
                ConstraintKind::PrimaryKey(_) | ConstraintKind::Unique(_) => {
                    let key = index_of(def, constraint).map(|index| index.spec.key.iter());
                    key.into_iter()
                        .flatten()
                        .for_each(|part| depends(rows, object, own(part.column), 'a'));
                }
                ConstraintKind::ForeignKey(key) => {
                    key.columns.iter().for_each(|c| depends(rows, object, own(*c), 'a'));
                    let Some(parent) = scope.catalog.tables.get(&key.parent).map(|t| &t.def) else {
                        continue;
                    };
                    for column in &key.parent_columns {
                        let on = (PG_CLASS, parent.id, attnum(parent, *column));
                        depends(rows, object, on, 'n');
                    }
                    if let Some(index) = parent.index_by_id(key.parent_index) {
                        depends(rows, object, (PG_CLASS, index.id, 0), 'n');
                    }
                }
            }
        }
    }
}

/// An object (class, oid) that depends on another, or on a column of it.
fn depends(rows: &mut Rows, object: (u32, u32), on: (u32, u32, i64), kind: char) {
    row!(rows;
        classid: object.0,
        objid: object.1,
        refclassid: on.0,
        refobjid: on.1,
        refobjsubid: on.2,
        deptype: kind,
    );
}

/// The index that a constraint is kept by.
pub fn index_of<'a>(table: &'a TableDef, constraint: &ConstraintDef) -> Option<&'a IndexDef> {
    match constraint.kind {
        ConstraintKind::PrimaryKey(id) | ConstraintKind::Unique(id) => table.index_by_id(id),
        ConstraintKind::Check(_) | ConstraintKind::ForeignKey(_) => None,
    }
}

fn column_list(table: &TableDef, ids: impl Iterator<Item = froglet_engine::ColumnId>) -> String {
    let names: Vec<String> =
        ids.filter_map(|id| table.column_by_id(id)).map(|c| quote_ident(&c.name)).collect();
    names.join(", ")
}

/// pg_get_constraintdef
pub fn constraint_text(session: &dyn SessionFunctions, oid: u32, pretty: bool) -> Option<String> {
    let catalog = session.catalog();
    let (table, constraint) = catalog.tables.values().find_map(|t| {
        let found = t.def.constraints.iter().find(|c| c.id == oid)?;
        Some((&t.def, found))
    })?;
    let text = match &constraint.kind {
        ConstraintKind::PrimaryKey(_) | ConstraintKind::Unique(_) => {
            let word = if kind(constraint) == 'p' { "PRIMARY KEY" } else { "UNIQUE" };
            let index = index_of(table, constraint)?;
            let key = index.spec.key.iter().map(|p| p.column);
            let nulls = match index.spec.nulls {
                NullKeys::Distinct => "",
                NullKeys::Equal | NullKeys::EqualButFirst => " NULLS NOT DISTINCT",
            };
            let mut text = format!("{word}{nulls} ({})", column_list(table, key));
            if !index.notes.include.is_empty() {
                let included = column_list(table, index.notes.include.iter().copied());
                text.push_str(&format!(" INCLUDE ({included})"));
            }
            text + timing_text(constraint.timing)
        }
        ConstraintKind::Check(check) => {
            let text = deparse::check_text(check, table, pretty);
            format!("CHECK ({text})")
        }
        ConstraintKind::ForeignKey(key) => {
            let parent = &catalog.tables.get(&key.parent)?.def;
            let mut text = format!(
                "FOREIGN KEY ({}) REFERENCES {}({})",
                column_list(table, key.as_declared(&key.columns).into_iter()),
                relation_text(session, parent.id),
                column_list(parent, key.as_declared(&key.parent_columns).into_iter()),
            );
            text.push_str(&actions_text(key));
            text
        }
    };
    Some(if constraint.not_valid { text + " NOT VALID" } else { text })
}

/// ` ON UPDATE … ON DELETE … DEFERRABLE …`, of what is not the default.
pub fn actions_text(key: &ForeignKeyDef) -> String {
    let actions = [("UPDATE", key.on_update), ("DELETE", key.on_delete)].into_iter();
    let text = |(event, action)| Some(format!(" ON {event} {}", action_text(action)?));
    actions.filter_map(text).chain([timing_text(key.timing).to_owned()]).collect()
}

/// ` DEFERRABLE …`
pub fn timing_text(timing: Timing) -> &'static str {
    match timing {
        Timing::NotDeferrable => "",
        Timing::InitiallyImmediate => " DEFERRABLE",
        Timing::InitiallyDeferred => " DEFERRABLE INITIALLY DEFERRED",
    }
}

fn action_text(action: ForeignKeyAction) -> Option<&'static str> {
    match action {
        ForeignKeyAction::NoAction => None,
        ForeignKeyAction::Restrict => Some("RESTRICT"),
        ForeignKeyAction::Cascade => Some("CASCADE"),
        ForeignKeyAction::SetNull => Some("SET NULL"),
        ForeignKeyAction::SetDefault => Some("SET DEFAULT"),
    }
}

/// ` DESC NULLS LAST`, without what is the default.
pub fn order_text(part: &KeyPart) -> &'static str {
    match (part.descending, part.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    }
}

/// pg_get_indexdef; `column` from 1 is one key column alone.
pub fn index_text(catalog: &CatalogVersion, oid: u32, column: i64, pretty: bool) -> Option<String> {
    let (table, index) = catalog.tables.values().find_map(|t| {
        let found = t.def.indexes.iter().find(|i| i.id == oid)?;
        Some((&t.def, found))
    })?;
    if column > 0 {
        let at = usize::try_from(column - 1).ok()?;
        let included = || at.checked_sub(index.written_parts().len());
        let id = match index.written_parts().get(at) {
            Some(part) => part.column,
            None => *index.notes.include.get(included()?)?,
        };
        return Some(deparse::key_text(table, id, pretty));
    }
    Some(format!(
        "CREATE {}INDEX {} ON {}.{} {}",
        if index.spec.keeps_apart() { "UNIQUE " } else { "" },
        quote_ident(&index.name),
        quote_ident(&table.schema),
        quote_ident(&table.name),
        index_clauses(table, index, pretty),
    ))
}

/// `USING …` and what follows, of an index's text.
pub fn index_clauses(table: &TableDef, index: &IndexDef, pretty: bool) -> String {
    let skipped = usize::from(index.notes.partial);
    let parts: Vec<String> = index
        .written_parts()
        .iter()
        .enumerate()
        .map(|(at, part)| {
            let class = index.notes.classes.get(at + skipped).and_then(Option::as_ref);
            let class = class.map_or_else(String::new, |class| format!(" {class}"));
            let key = deparse::key_text(table, part.column, pretty);
            format!("{key}{class}{}", order_text(part))
        })
        .collect();
    let method = index.notes.method.as_deref().unwrap_or("btree");
    let mut text = format!("USING {} ({})", quote_ident(method), parts.join(", "));
    if !index.notes.include.is_empty() {
        let included = column_list(table, index.notes.include.iter().copied());
        text.push_str(&format!(" INCLUDE ({included})"));
    }
    if index.spec.nulls != NullKeys::Distinct {
        text.push_str(" NULLS NOT DISTINCT");
    }
    let options = index.notes.options.iter().filter_map(|option| option.split_once('='));
    let options: Vec<String> = options.map(|(name, value)| format!("{name}='{value}'")).collect();
    if !options.is_empty() {
        text.push_str(&format!(" WITH ({})", options.join(", ")));
    }
    if let Some(predicate) = deparse::predicate_text(table, index, pretty) {
        text.push_str(&format!(" WHERE {predicate}"));
    }
    text
}
