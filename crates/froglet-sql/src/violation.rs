//! Errors of constraints, in PostgreSQL's words.

use froglet_engine::{ColumnId, IndexId, SqlState, Value};
use froglet_schema::TableDef;
use froglet_schema::def::ForeignKeyDef;

use crate::error::SqlError;
use crate::pgcatalog::deparse;
use crate::types::output::display_value;

/// The longest value that an error shows, in characters.
const SHOWN_CHARS: usize = 64;

/// 23502
pub(crate) fn not_null(table: &TableDef, column: usize, row: &[Value]) -> SqlError {
    let name = &table.columns[column].name;
    let message = format!(
        "null value in column \"{name}\" of relation \"{}\" violates not-null constraint",
        table.name
    );
    SqlError {
        column: Some(name.clone()),
        table: Some(table.name.clone()),
        ..SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
    }
    .showing(table.id, all_of(table), failing_row(table, row), None)
}

/// 23514
pub(crate) fn check(table: &TableDef, constraint: &str, row: &[Value]) -> SqlError {
    let message = format!(
        "new row for relation \"{}\" violates check constraint \"{constraint}\"",
        table.name
    );
    SqlError {
        constraint: Some(constraint.to_owned()),
        table: Some(table.name.clone()),
        ..SqlError::new(SqlState::CHECK_VIOLATION, message)
    }
    .showing(table.id, all_of(table), failing_row(table, row), None)
}

/// 23505; `row` is in layout order.
pub(crate) fn unique(table: &TableDef, index: IndexId, row: &[Value]) -> SqlError {
    let index = table.index_by_id(index);
    let name = index.map_or("?", |index| match table.constraint_of_index(index.spec.id) {
        Some(constraint) => constraint.name.as_str(),
        None => index.name.as_str(),
    });
    let error = SqlError {
        constraint: Some(name.to_owned()),
        table: Some(table.name.clone()),
        ..SqlError::new(
            SqlState::UNIQUE_VIOLATION,
            format!("duplicate key value violates unique constraint \"{name}\""),
        )
    };
    let Some(index) = index else { return error };
    let columns: Vec<ColumnId> = index.written_parts().iter().map(|part| part.column).collect();
    let value = |at: usize| row.get(at).cloned().unwrap_or(Value::Null);
    let values: Vec<Value> =
        columns.iter().map(|id| table.position_of(*id).map_or(Value::Null, value)).collect();
    let detail = format!("{} already exists.", key(table, &columns, &values));
    error.showing(table.id, columns_read(table, &columns), detail, None)
}

/// 23503, from the child's side; `values` are those of the key's columns.
pub(crate) fn no_parent(
    child: &TableDef,
    constraint: &str,
    foreign_key: &ForeignKeyDef,
    parent: &TableDef,
    values: &[Value],
) -> SqlError {
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{constraint}\"",
        child.name
    );
    SqlError {
        constraint: Some(constraint.to_owned()),
        table: Some(child.name.clone()),
        ..SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
    }
    .showing(
        child.id,
        foreign_key.columns.clone(),
        format!(
            "{} is not present in table \"{}\".",
            key(
                child,
                &foreign_key.as_declared(&foreign_key.columns),
                &foreign_key.as_declared(values)
            ),
            parent.name
        ),
        Some(format!("Key is not present in table \"{}\".", parent.name)),
    )
}

/// 23503, from the parent's side; `values` are those of the parent's key.
pub(crate) fn still_referenced(
    parent: &TableDef,
    foreign_key: &ForeignKeyDef,
    child: &TableDef,
    constraint: &str,
    values: &[Value],
) -> SqlError {
    let message = format!(
        "update or delete on table \"{}\" violates foreign key constraint \"{constraint}\" on table \"{}\"",
        parent.name, child.name
    );
    SqlError {
        constraint: Some(constraint.to_owned()),
        table: Some(child.name.clone()),
        ..SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
    }
    .showing(
        parent.id,
        foreign_key.parent_columns.clone(),
        format!(
            "{} is still referenced from table \"{}\".",
            key(
                parent,
                &foreign_key.as_declared(&foreign_key.parent_columns),
                &foreign_key.as_declared(values)
            ),
            child.name
        ),
        Some(format!("Key is still referenced from table \"{}\".", child.name)),
    )
}

pub(crate) fn all_of(table: &TableDef) -> Vec<ColumnId> {
    table.columns.iter().map(|column| column.id).collect()
}

/// The columns that a key is computed of.
fn columns_read(table: &TableDef, key: &[ColumnId]) -> Vec<ColumnId> {
    let read = |id: &ColumnId| match table.hidden_column(*id) {
        Some(hidden) => hidden.inputs.clone(),
        None => vec![*id],
    };
    key.iter().flat_map(read).collect()
}

/// `Key (a, b)=(1, x)`
fn key(table: &TableDef, columns: &[ColumnId], values: &[Value]) -> String {
    let mut names = Vec::new();
    let mut texts = Vec::new();
    for (id, value) in columns.iter().zip(values) {
        if let Some(at) = table.position_of(*id) {
            names.push(match table.hidden_column(*id) {
                Some(_) => deparse::key_text(table, *id, true),
                None => table.columns[at].name.clone(),
            });
            texts.push(shown(table, at, value));
        }
    }
    format!("Key ({})=({})", names.join(", "), texts.join(", "))
}

/// `Failing row contains (1, null).`
pub(crate) fn failing_row(table: &TableDef, row: &[Value]) -> String {
    let values: Vec<String> = row
        .iter()
        .take(table.columns.len())
        .enumerate()
        .map(|(at, value)| shown(table, at, value))
        .collect();
    format!("Failing row contains ({}).", values.join(", "))
}

fn shown(table: &TableDef, column: usize, value: &Value) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let text = display_value(value, table.column_at(column).ty);
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
