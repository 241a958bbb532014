//! What of the catalog refers to an object in its stored text: pg_depend's role, in one place.
//!
//! ```text
//!   DEFAULT nextval('16390')          the column's default       goes with DROP … CASCADE, or keeps the object
//!   GENERATED … ('a'::froglet."16384")  the column itself        likewise
//!   CHECK, an index's expressions and predicate, a view's query  likewise
//! ```
//! What columns a view uses is in its definition ([`super::uses`]); columns of a type name it themselves.

use datafusion::sql::sqlparser::ast::Ident;
use froglet_engine::SqlState;
use froglet_schema::{CatalogVersion, Change, ColumnDef, ConstraintKind, ObjectId, SequenceDef};

use crate::apply::Stop;
use crate::ddl::Ddl;
use crate::ddl_sequence;
use crate::error::SqlError;
use crate::parse::{parse_expression, parse_query};
use crate::stored::{self, DefaultKind};
use crate::stored_names;

/// Something whose text refers to an object.
pub(crate) enum Dependent {
    /// A column's default.
    Default {
        table: ObjectId,
        column: String,
    },
    /// A generated column.
    Column {
        table: ObjectId,
        column: String,
    },
    Check {
        table: ObjectId,
        name: String,
    },
    Index {
        table: ObjectId,
        index: ObjectId,
    },
    View(ObjectId),
}

impl Dependent {
    /// As errors call it.
    fn shown(&self, catalog: &CatalogVersion) -> String {
        let name = |id: &ObjectId| {
            catalog.tables.get(id).map_or_else(String::new, |table| table.def.name.clone())
        };
        match self {
            Dependent::Default { table, column } => {
                format!("default value for column {column} of table {}", name(table))
            }
            Dependent::Column { table, column } => {
                format!("column {column} of table {}", name(table))
            }
            Dependent::Check { table, name: check } => {
                format!("constraint {check} on table {}", name(table))
            }
            Dependent::Index { table, index } => {
                let table = catalog.tables.get(table);
                let found = table.and_then(|t| t.def.indexes.iter().find(|i| i.id == *index));
                format!("index {}", found.map_or("", |index| &index.name))
            }
            Dependent::View(view) => {
                catalog.view(*view).map_or_else(String::new, |view| catalog.called(view))
            }
        }
    }

    /// The table that it is of.
    pub(crate) fn table(&self) -> Option<ObjectId> {
        match self {
            Dependent::Default { table, .. }
            | Dependent::Column { table, .. }
            | Dependent::Check { table, .. }
            | Dependent::Index { table, .. } => Some(*table),
            Dependent::View(_) => None,
        }
    }
}

/// Whether an expression's text refers to an object by its number.
pub(crate) fn expression_refers(text: &str, object: ObjectId) -> bool {
    text.contains(&object.to_string())
        && match parse_expression(stored::bare_text(text)) {
            Ok(expr) => stored_names::numbers_in(&expr).contains(&object),
            // What cannot be read is not to be without anything.
            Err(_) => true,
        }
}

fn query_refers(text: &str, object: ObjectId) -> bool {
    text.contains(&object.to_string())
        && parse_query(text).map_or(true, |q| stored_names::numbers_in(&q).contains(&object))
}

/// Whether a column's default refers to an object; to a sequence by its name, if it is an old one.
pub(crate) fn default_refers(
    column: &ColumnDef,
    object: ObjectId,
    sequence: Option<&SequenceDef>,
) -> bool {
    column.default.as_ref().is_some_and(|default| expression_refers(&default.0, object))
        || sequence.is_some_and(|sequence| ddl_sequence::draws_by_name(column, sequence))
}

/// All that refers to an object in its text.
pub(crate) fn on(catalog: &CatalogVersion, object: ObjectId) -> Vec<Dependent> {
    let sequence = catalog.sequences.get(&object).map(|sequence| &**sequence);
    let mut found = Vec::new();
    let mut tables: Vec<_> = catalog.tables.values().map(|table| &table.def).collect();
    tables.sort_by_key(|def| def.id);
    for def in tables {
        let table = def.id;
        for column in def.columns.iter().filter(|c| default_refers(c, object, sequence)) {
            let name = column.name.clone();
            found.push(match stored::default_kind(column) {
                DefaultKind::Generated => Dependent::Column { table, column: name },
                _ => Dependent::Default { table, column: name },
            });
        }
        for constraint in &def.constraints {
            if let ConstraintKind::Check(check) = &constraint.kind
                && expression_refers(&check.expression.0, object)
            {
                found.push(Dependent::Check { table, name: constraint.name.clone() });
            }
        }
        let hidden = def.hidden.iter().filter(|h| default_refers(&h.column, object, None));
        let hidden: Vec<_> = hidden.map(|h| h.column.id).collect();
        let is_of = |index: &&froglet_schema::IndexDef| {
            index.spec.key.iter().any(|part| hidden.contains(&part.column))
        };
        let indexes = def.indexes.iter().filter(is_of);
        found.extend(indexes.map(|index| Dependent::Index { table, index: index.id }));
    }
    let views = catalog.views_of_all_kinds().into_iter();
    let views = views.filter(|view| query_refers(&view.query.0, object));
    found.extend(views.map(|view| Dependent::View(view.id)));
    found
}

impl Ddl<'_> {
    /// Before an object goes that errors call `what`: what refers to it goes, or keeps it. Not asked is what is of
    /// a table that goes with it.
    pub(crate) async fn release(
        &mut self,
        object: ObjectId,
        what: &str,
        with: Option<ObjectId>,
        cascade: bool,
    ) -> Result<(), Stop> {
        let mut dependents = on(&self.version, object);
        dependents.retain(|dependent| with.is_none() || dependent.table() != with);
        let Some(first) = dependents.first() else { return Ok(()) };
        if !cascade {
            let first = first.shown(&self.version);
            let message = format!("cannot drop {what} because other objects depend on it");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(format!("{first} depends on {what}"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too.")
                .into());
        }
        let texts: Vec<String> = dependents.iter().map(|d| d.shown(&self.version)).collect();
        self.notice(
            SqlState::SUCCESSFUL_COMPLETION,
            match texts.as_slice() {
                [only] => format!("drop cascades to {only}"),
                texts => format!("drop cascades to {} other objects", texts.len()),
            },
        );
        for dependent in dependents {
            self.drop_dependent(dependent).await?;
        }
        Ok(())
    }

    /// One that may have gone with another.
    async fn drop_dependent(&mut self, dependent: Dependent) -> Result<(), Stop> {
        let table = dependent.table().and_then(|id| self.version.tables.get(&id)).cloned();
        match dependent {
            Dependent::View(view) => return self.drop_view(view, true).await,
            _ if table.is_none() => return Ok(()),
            _ => {}
        }
        let table = table.expect("just asked");
        let id = table.def.id;
        let change = match dependent {
            Dependent::View(_) => return Ok(()),
            Dependent::Column { column, .. } => {
                return match table.def.column(&column) {
                    Some(_) => {
                        let name = Ident::with_quote('"', column);
                        Box::pin(self.drop_columns_cascading(&table, &[name])).await
                    }
                    None => Ok(()),
                };
            }
            Dependent::Default { column, .. } => {
                if table.def.column(&column).is_none() {
                    return Ok(());
                }
                Change::SetDefault { table: id, column, default: None }
            }
            Dependent::Check { name, .. } => {
                if table.def.constraint(&name).is_none() {
                    return Ok(());
                }
                Change::DropConstraint { table: id, name, cascade: true }
            }
            Dependent::Index { index, .. } => {
                if !table.def.indexes.iter().any(|known| known.id == index) {
                    return Ok(());
                }
                Change::DropIndex { table: id, index }
            }
        };
        self.apply(change).await?;
        Ok(())
    }

    /// Before a table, or a column of it, goes: the sequences that go with it, and what else draws from them.
    pub(crate) async fn release_sequences(
        &mut self,
        table: ObjectId,
        column: Option<froglet_engine::ColumnId>,
        cascade: bool,
    ) -> Result<(), Stop> {
        let is_its = |sequence: &SequenceDef| {
            sequence.owned_by.is_some_and(|(owner, of)| {
                owner == table && column.is_none_or(|column| column == of)
            })
        };
        let owned = self.version.sequences.values().filter(|sequence| is_its(sequence));
        let owned: Vec<(ObjectId, String)> = owned.map(|s| (s.id, s.name.clone())).collect();
        for (sequence, name) in owned {
            let what = format!("sequence {name}");
            self.release(sequence, &what, Some(table), cascade).await?;
        }
        Ok(())
    }
}
