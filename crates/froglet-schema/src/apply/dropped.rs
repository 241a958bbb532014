//! What a change takes away that the foreign keys of other tables may need, in PostgreSQL's words.

use froglet_engine::{ColumnId, SqlState};

use crate::change::Change;
use crate::def::{ForeignKeyDef, TableDef};
use crate::error::SchemaError;

/// What goes.
pub(super) enum Dropped {
    Constraint(String),
    Column(String, ColumnId),
    Other,
}

impl Dropped {
    pub(super) fn of(def: &TableDef, change: &Change) -> Dropped {
        match change {
            Change::DropConstraint { name, .. } => Dropped::Constraint(name.clone()),
            Change::DropColumn { column, .. } => match def.column(column) {
                Some(found) => Dropped::Column(column.clone(), found.id),
                None => Dropped::Other,
            },
            _ => Dropped::Other,
        }
    }

    /// 2BP01: a foreign key of another table is in the way.
    pub(super) fn refused(
        &self,
        def: &TableDef,
        child: &TableDef,
        constraint: &str,
        key: &ForeignKeyDef,
    ) -> SchemaError {
        let table = &def.name;
        let refused = |what: &str, on: &str| {
            SchemaError::refused(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot {what} because other objects depend on it"),
            )
            .with_detail(format!("constraint {constraint} on table {} depends on {on}", child.name))
        };
        let cascade = "Use DROP ... CASCADE to drop the dependent objects too.";
        match self {
            Dropped::Constraint(name) => {
                let index = def.indexes.iter().find(|index| index.spec.id == key.parent_index);
                let index = index.map_or(name.as_str(), |index| index.name.as_str());
                let what = format!("drop constraint {name} on table {table}");
                refused(&what, &format!("index {index}")).with_hint(cascade)
            }
            Dropped::Column(name, id) => {
                let what = format!("drop column {name} of table {table}");
                let on = match key.parent_columns.contains(id) {
                    true => format!("column {name} of table {table}"),
                    false => format!("an index of table {table}"),
                };
                refused(&what, &on).with_hint(cascade)
            }
            Dropped::Other => {
                refused(&format!("change table {table}"), &format!("an index of table {table}"))
                    .with_hint(
                        "Drop the foreign key first, or use CASCADE where the command has it.",
                    )
            }
        }
    }
}
