//! What there is in the catalog, as Flight SQL's metadata commands ask for it.

use std::collections::BTreeSet;

use arrow::datatypes::Schema;
use froglet_engine::ColumnId;
use froglet_schema::{CatalogVersion, ForeignKeyAction, TableDef};

use super::edge::{Strings, field_of};
use crate::pgcatalog::SCHEMAS;
use crate::session::Session;
use crate::types::arrow_of_column;

/// A table.
#[derive(Clone, Debug)]
pub struct TableDescription {
    /// Its schema's name.
    pub schema: String,
    /// Its own.
    pub name: String,
    /// Its columns.
    pub columns: Schema,
    /// Name and columns of its primary key.
    pub primary_key: Option<(String, Vec<String>)>,
    /// Where it refers to.
    pub foreign_keys: Vec<ForeignKeyDescription>,
}

/// A foreign key.
#[derive(Clone, Debug)]
pub struct ForeignKeyDescription {
    /// Its name.
    pub name: String,
    /// Columns of the table that has it.
    pub columns: Vec<String>,
    /// Schema and name of the table it refers to.
    pub parent: (String, String),
    /// Columns of that, one for each of `columns`.
    pub parent_columns: Vec<String>,
    /// The name of the key they are.
    pub parent_key: Option<String>,
    /// JDBC's number of what an UPDATE there does.
    pub update_rule: u8,
    /// And a DELETE.
    pub delete_rule: u8,
}

impl Session {
    /// All schemas that a client has use for.
    pub fn schema_names(&self) -> Vec<String> {
        let made = self.db.catalog().latest();
        let made = made.tables.values().map(|table| table.def.schema.clone());
        let always = SCHEMAS.iter().map(|(_, name)| (*name).to_owned());
        let names: BTreeSet<String> = made.chain(always).filter(|n| n != "pg_toast").collect();
        names.into_iter().collect()
    }

    /// All tables, by schema and name.
    pub fn describe_tables(&self) -> Vec<TableDescription> {
        let catalog = self.db.catalog().latest();
        let mut tables: Vec<_> =
            catalog.tables.values().map(|table| describe(&table.def, &catalog)).collect();
        tables.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        tables
    }
}

fn describe(table: &TableDef, catalog: &CatalogVersion) -> TableDescription {
    let columns = table.columns.iter().map(|c| {
        field_of(&c.name, c.sql_type, Strings::Views.outside(&arrow_of_column(c.ty)))
            .with_nullable(!c.not_null)
    });
    let primary_key = table.primary_key().map(|index| {
        let name = table.constraint_of_index(index.spec.id).map_or(&index.name, |c| &c.name);
        (name.clone(), names(table, index.spec.key.iter().map(|part| &part.column)))
    });
    let foreign_keys = table.foreign_keys().filter_map(|(name, key)| {
        let parent = &catalog.tables.get(&key.parent)?.def;
        Some(ForeignKeyDescription {
            name: name.to_owned(),
            columns: names(table, key.as_declared(&key.columns).iter()),
            parent: (parent.schema.clone(), parent.name.clone()),
            parent_columns: names(parent, key.as_declared(&key.parent_columns).iter()),
            parent_key: parent.constraint_of_index(key.parent_index).map(|c| c.name.clone()),
            update_rule: rule(key.on_update),
            delete_rule: rule(key.on_delete),
        })
    });
    TableDescription {
        schema: table.schema.clone(),
        name: table.name.clone(),
        columns: Schema::new(columns.collect::<Vec<_>>()),
        primary_key,
        foreign_keys: foreign_keys.collect(),
    }
}

fn names<'a>(table: &TableDef, ids: impl Iterator<Item = &'a ColumnId>) -> Vec<String> {
    ids.filter_map(|id| Some(table.column_by_id(*id)?.name.clone())).collect()
}

/// `java.sql.DatabaseMetaData.importedKey…`
fn rule(action: ForeignKeyAction) -> u8 {
    match action {
        ForeignKeyAction::Cascade => 0,
        ForeignKeyAction::Restrict => 1,
        ForeignKeyAction::SetNull => 2,
        ForeignKeyAction::NoAction => 3,
        ForeignKeyAction::SetDefault => 4,
    }
}
