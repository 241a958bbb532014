//! Names of relations: from what a statement says to what its catalog version has.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use froglet_engine::SqlState;
use froglet_schema::plain::{EnumDef, ViewDef};
use froglet_schema::{CatalogVersion, SequenceDef, TableDef, TableVersion, Unreadable};

use crate::command::fold;
use crate::ddl_schema::no_schema;
use crate::error::SqlError;
use crate::pgcatalog;
use crate::temporary::{ALIAS, is_temporary};

/// Where unqualified names are looked up.
pub(crate) struct Names<'a> {
    /// The statement's catalog.
    pub(crate) catalog: &'a CatalogVersion,
    /// Schemas, in order.
    pub(crate) path: &'a [String],
}

/// What a name means.
pub(crate) enum Relation<'a> {
    Table(&'a Arc<TableVersion>),
    Sequence(&'a Arc<SequenceDef>),
    /// An index: its table and its position there.
    Index(&'a Arc<TableVersion>, usize),
    View(&'a ViewDef),
}

impl<'a> Names<'a> {
    /// Schema and name, folded; the schema only where it is given.
    pub(crate) fn parts(name: &ObjectName) -> Result<(Option<String>, String), SqlError> {
        let idents: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
        match idents.as_deref() {
            Some([table]) => Ok((None, fold(table))),
            Some([schema, table]) => Ok((Some(fold(schema)), fold(table))),
            Some([database, schema, table]) if fold(database) == "postgres" => {
                Ok((Some(fold(schema)), fold(table)))
            }
            Some([_, _, _]) => {
                Err(SqlError::unsupported(format!("the cross-database reference {name}")))
            }
            _ => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("improper qualified name (too many dotted names): {name}"),
            )),
        }
    }

    pub(crate) fn relation(&self, name: &ObjectName) -> Result<Option<Relation<'a>>, SqlError> {
        let (schema, name) = Self::parts(name)?;
        match self.find(schema.as_deref(), &name) {
            None => match self.unreadable(schema.as_deref(), &name) {
                Some(found) => Err(found.error().into()),
                None => Ok(None),
            },
            found => Ok(found),
        }
    }

    /// What recovery could make nothing of, under a relation's name.
    pub(crate) fn unreadable(&self, schema: Option<&str>, name: &str) -> Option<&'a Unreadable> {
        let of = |schema: &str| {
            let id = self.catalog.names.get(&(schema.to_owned(), name.to_owned()))?;
            self.catalog.unreadable(*id)
        };
        match schema {
            Some(schema) => of(schema),
            None => self.path.iter().find_map(|schema| of(schema)),
        }
    }

    pub(crate) fn find(&self, schema: Option<&str>, name: &str) -> Option<Relation<'a>> {
        match schema {
            Some(ALIAS) => self.own().and_then(|schema| self.find_in(schema, name)),
            // Nobody finds what others have for themselves.
            Some(schema) if is_temporary(schema) && self.own() != Some(schema) => None,
            Some(schema) => self.find_in(schema, name),
            None => {
                let key = |schema: &String| (schema.clone(), name.to_owned());
                let there = |schema: &&String| self.catalog.names.contains_key(&key(schema));
                // What is there and cannot be read hides what comes later all the same.
                self.find_in(self.path.iter().find(there)?, name)
            }
        }
    }

    /// The session's own schema.
    fn own(&self) -> Option<&'a str> {
        self.path.iter().map(String::as_str).find(|schema| is_temporary(schema))
    }

    fn find_in(&self, schema: &str, name: &str) -> Option<Relation<'a>> {
        let id = self.catalog.names.get(&(schema.to_owned(), name.to_owned()))?;
        if let Some(table) = self.catalog.tables.get(id) {
            return Some(Relation::Table(table));
        }
        if let Some(sequence) = self.catalog.sequences.get(id) {
            return Some(Relation::Sequence(sequence));
        }
        if let Some(view) = self.catalog.view(*id) {
            return Some(Relation::View(view));
        }
        self.catalog.tables.values().find_map(|table| {
            let at = table.def.indexes.iter().position(|index| index.id == *id)?;
            Some(Relation::Index(table, at))
        })
    }

    /// Whether a name is that of a system catalog's table or view.
    pub(crate) fn is_system_table(&self, name: &ObjectName) -> Result<bool, SqlError> {
        let (schema, name) = Self::parts(name)?;
        let schema = schema.as_deref().unwrap_or("pg_catalog");
        Ok(pgcatalog::system_table(schema, &name).is_some())
    }

    /// The table of a name; 42P01 or 42809 where there is none.
    pub(crate) fn table(&self, name: &ObjectName) -> Result<&'a Arc<TableVersion>, SqlError> {
        match self.relation(name)? {
            Some(Relation::Table(table)) => Ok(table),
            Some(Relation::Sequence(_) | Relation::Index(..) | Relation::View(_)) => {
                Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("\"{}\" is not a table", Self::parts(name)?.1),
                ))
            }
            None => Err(self.missing(name)),
        }
    }

    /// The table of a name, for a statement that writes it.
    pub(crate) fn written(&self, name: &ObjectName) -> Result<&'a Arc<TableVersion>, SqlError> {
        let table = self.table(name)?;
        if self.catalog.materialized(table.def.id).is_some() {
            let message = format!("cannot change materialized view \"{}\"", table.def.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Ok(table)
    }

    /// The table of a name, for what materialized views have no part in.
    pub(crate) fn plain_table(&self, name: &ObjectName) -> Result<&'a Arc<TableVersion>, SqlError> {
        let table = self.table(name)?;
        if self.catalog.materialized(table.def.id).is_some() {
            let message = format!("\"{}\" is not a table", table.def.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Ok(table)
    }

    fn missing(&self, name: &ObjectName) -> SqlError {
        let Ok((schema, relation)) = Self::parts(name) else {
            return no_relation(&name.to_string());
        };
        match schema.as_deref() {
            Some(schema) if is_system_schema(schema) => SqlError::new(
                SqlState::new("42501"),
                format!("permission denied: \"{relation}\" is a system catalog"),
            ),
            Some(schema) => {
                let shown = format!("{schema}.{relation}");
                no_table(self.catalog, &[schema.to_owned()], &relation, &shown)
            }
            None => no_table(self.catalog, self.path, &relation, &relation),
        }
    }

    /// The enum type of a name.
    pub(crate) fn enum_type(&self, name: &ObjectName) -> Result<Option<&'a EnumDef>, SqlError> {
        let (schema, name) = Self::parts(name)?;
        let of = |schema: &String| self.catalog.types.get(&(schema.clone(), name.clone()));
        let id = match &schema {
            Some(schema) => of(schema),
            None => self.path.iter().find_map(of),
        };
        if let Some(id) = id {
            self.catalog.readable(*id)?;
        }
        Ok(id.and_then(|id| self.catalog.enum_type(*id)))
    }

    /// The schema in which a name is made: the first of the path that there is, if none is given.
    pub(crate) fn creation_schema(&self, schema: Option<String>) -> Result<String, SqlError> {
        match schema {
            Some(schema) if self.catalog.schema(&schema).is_some() => Ok(schema),
            Some(schema) if is_system_schema(&schema) || schema.starts_with("pg_") => {
                Err(SqlError::new(
                    SqlState::new("42501"),
                    format!("permission denied to create in \"{schema}\""),
                ))
            }
            Some(schema) => Err(no_schema(&schema)),
            None => {
                let there = |schema: &&String| {
                    !is_temporary(schema) && self.catalog.schema(schema).is_some()
                };
                self.path.iter().find(there).cloned().ok_or_else(|| {
                    SqlError::new(
                        SqlState::INVALID_SCHEMA_NAME,
                        "no schema has been selected to create in",
                    )
                })
            }
        }
    }
}

/// Whether a schema has system catalogs, and no tables.
pub(crate) fn is_system_schema(schema: &str) -> bool {
    ["pg_catalog", "information_schema", "froglet"].contains(&schema)
}

/// 42P01 for a table that is looked for in some schemas: one of which others are being made says so.
pub(crate) fn no_table(
    catalog: &CatalogVersion,
    schemas: &[String],
    relation: &str,
    shown: &str,
) -> SqlError {
    let is_it = |source: &TableDef| source.name == relation && schemas.contains(&source.schema);
    let mut made: Vec<(u64, &str)> = Vec::new();
    for table in catalog.tables.values() {
        let lazy = table.def.lazy.as_ref().filter(|lazy| !lazy.is_move_of(table.def.id));
        let lazy = lazy.filter(|lazy| lazy.sources().any(is_it));
        made.extend(lazy.map(|lazy| (lazy.begun.migration, table.def.name.as_str())));
    }
    made.sort_unstable();
    let error = no_relation(shown);
    let [(migration, _), ..] = made[..] else { return error };
    let tables: Vec<String> = made.iter().map(|(_, name)| format!("\"{name}\"")).collect();
    error.hint(format!(
        "Migration {migration} has replaced it: its rows are in {}.",
        tables.join(", ")
    ))
}

/// 42P01
pub(crate) fn no_relation(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}

/// The position of a column by name; 42703 where there is none.
pub(crate) fn column(table: &TableDef, name: &Ident) -> Result<usize, SqlError> {
    let folded = fold(name);
    table.columns.iter().position(|c| c.name == folded).ok_or_else(|| {
        SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{folded}\" of relation \"{}\" does not exist", table.name),
        )
    })
}
