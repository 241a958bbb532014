//! SQL text of what the catalog says: what a revert runs.

use froglet_engine::NullKeys;
use froglet_schema::def::ForeignKeyDef;
use froglet_schema::{ColumnDef, ConstraintDef, ConstraintKind, IndexDef, SequenceDef, TableDef};

use crate::pgcatalog::constraints::{actions_text, index_clauses, timing_text};
use crate::stored;
use crate::types::{oids, type_name};
use crate::udf::lookup::quote_ident;

/// A relation's name as statements of this search path have it.
pub(super) fn relation(path: &[String], schema: &str, name: &str) -> String {
    match path.iter().any(|searched| searched == schema) {
        true => quote_ident(name),
        false => format!("{}.{}", quote_ident(schema), quote_ident(name)),
    }
}

/// Names in a list.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(quote_ident).collect();
    names.join(", ")
}

fn columns_of(table: &TableDef, ids: impl IntoIterator<Item = froglet_engine::ColumnId>) -> String {
    let columns = ids.into_iter().filter_map(|id| table.column_by_id(id));
    let names: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
    list(names)
}

/// The columns of an index, in its order.
pub(super) fn key_columns(table: &TableDef, index: &IndexDef) -> Vec<String> {
    let columns = index.spec.key.iter().filter_map(|part| table.column_by_id(part.column));
    columns.map(|column| column.name.clone()).collect()
}

/// `name type [GENERATED …]`
pub(super) fn column(column: &ColumnDef, table: &TableDef) -> String {
    let mut text = format!("{} {}", quote_ident(&column.name), type_name(column.sql_type));
    if stored::default_kind(column) == stored::DefaultKind::Generated
        && let Some(expression) = stored::default_text(column, table)
    {
        text.push_str(&format!(" GENERATED ALWAYS AS ({expression}) STORED"));
    }
    text
}

/// `CONSTRAINT name PRIMARY KEY (…)` and its kind; `parent` is what a foreign key's parent is called, and its
/// columns.
pub(super) fn constraint(
    constraint: &ConstraintDef,
    table: &TableDef,
    parent: impl FnOnce(&ForeignKeyDef) -> Option<(String, String)>,
) -> Option<String> {
    let index = |id| table.index_by_id(id).map(|index| key_columns(table, index));
    let keys = |names: Vec<String>| list(names.iter().map(String::as_str));
    let text = match &constraint.kind {
        ConstraintKind::PrimaryKey(id) => format!("PRIMARY KEY ({})", keys(index(*id)?)),
        ConstraintKind::Unique(id) => {
            let nulls = match table.index_by_id(*id)?.spec.nulls {
                NullKeys::Distinct => "",
                NullKeys::Equal | NullKeys::EqualButFirst => " NULLS NOT DISTINCT",
            };
            format!("UNIQUE{nulls} ({})", keys(index(*id)?))
        }
        ConstraintKind::Check(check) => {
            format!("CHECK ({})", stored::check_text(check, table))
        }
        ConstraintKind::ForeignKey(key) => {
            let (parent, columns) = parent(key)?;
            let own = columns_of(table, key.as_declared(&key.columns));
            let mut text = format!("FOREIGN KEY ({own}) REFERENCES {parent} ({columns})");
            text.push_str(&actions_text(key));
            text
        }
    };
    let not_valid = if constraint.not_valid { " NOT VALID" } else { "" };
    let (name, timing) = (quote_ident(&constraint.name), timing_text(constraint.timing));
    Some(format!("CONSTRAINT {name} {text}{timing}{not_valid}"))
}

/// The columns of a foreign key's parent.
pub(super) fn parent_columns(key: &ForeignKeyDef, parent: &TableDef) -> String {
    columns_of(parent, key.as_declared(&key.parent_columns))
}

/// `CREATE INDEX …` on a table of this name.
pub(super) fn index(index: &IndexDef, def: &TableDef, table: &str) -> String {
    let unique = if index.spec.unique { "UNIQUE " } else { "" };
    let name = quote_ident(&index.name);
    format!("CREATE {unique}INDEX {name} ON {table} {}", index_clauses(def, index, false))
}

/// `CREATE SEQUENCE …` that goes on after the last value.
pub(super) fn sequence(def: &SequenceDef, name: &str, last: Option<i64>) -> String {
    let ty = match def.type_oid {
        oids::INT2 => "smallint",
        oids::INT4 => "integer",
        _ => "bigint",
    };
    let next = last.and_then(|last| last.checked_add(def.increment));
    let start = next.filter(|next| (def.min..=def.max).contains(next)).unwrap_or(def.start);
    let cycle = if def.cycle { " CYCLE" } else { "" };
    format!(
        "CREATE SEQUENCE {name} AS {ty} INCREMENT BY {} MINVALUE {} MAXVALUE {} START WITH {start}{cycle}",
        def.increment, def.min, def.max
    )
}
