//! What a change is applied within, and which table it is of.

use super::*;

impl Scope<'_> {
    pub(crate) fn table(&self, id: ObjectId) -> Result<&Arc<TableVersion>, SchemaError> {
        self.view.tables.get(&id).ok_or(SchemaError::Stale)
    }

    /// A table that is read.
    pub(crate) fn source(&self, id: ObjectId) -> Result<&Arc<TableVersion>, SchemaError> {
        match self.then.iter().find(|then| then.def.id == id) {
            Some(then) => Ok(then),
            None => self.table(id),
        }
    }

    pub(super) fn taken<'a>(&'a self, schema: &'a str) -> impl Fn(&str) -> bool + 'a {
        move |name| self.view.names.contains_key(&(schema.to_owned(), name.to_owned()))
    }
}

impl Change {
    /// The existing table that a change is about.
    pub fn table(&self) -> Option<ObjectId> {
        match self {
            Change::CreateTable(_)
            | Change::CreateTableAs { .. }
            | Change::CreateSequence(_)
            | Change::DropSequence { .. }
            | Change::AlterSequence(_)
            | Change::CreatePlain(_)
            | Change::ReplacePlain(_)
            | Change::DropPlain { .. }
            | Change::DropUnreadable { .. }
            | Change::Role(_) => None,
            Change::DropTable { table, .. }
            | Change::Truncate { table }
            | Change::SetHome { table, .. }
            | Change::RenameTable { table, .. }
            | Change::AddColumn { table, .. }
            | Change::DropColumn { table, .. }
            | Change::RestoreColumn { table, .. }
            | Change::RenameColumn { table, .. }
            | Change::AlterTypes { table, .. }
            | Change::SetNotNull { table, .. }
            | Change::DropNotNull { table, .. }
            | Change::SetDefault { table, .. }
            | Change::SetDictionary { table, .. }
            | Change::AddConstraint { table, .. }
            | Change::AddNotValid { table, .. }
            | Change::ValidateConstraint { table, .. }
            | Change::AddConstraintOfIndex { table, .. }
            | Change::DropConstraint { table, .. }
            | Change::AlterConstraint { table, .. }
            | Change::RenameConstraint { table, .. }
            | Change::CreateIndex { table, .. }
            | Change::DropIndex { table, .. }
            | Change::RenameIndex { table, .. } => Some(*table),
        }
    }
}
