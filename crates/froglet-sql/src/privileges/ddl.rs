//! Whether a schema change may be made: asked before anything is changed.
//!
//! What is not found is left to the change itself, which says so.

use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation, CascadeOption, CreateTable, ObjectName, ObjectType, Statement,
    Truncate, TruncateIdentityOption,
};
use froglet_engine::{ColumnId, SqlState};
use froglet_schema::access::{PG_NAMESPACE, PG_TYPE};
use froglet_schema::{ObjectId, TableDef};

use super::check::{check_query, check_sources};
use super::{Who, bits, called, no_privilege, not_owner};
use crate::command::Command;
use crate::context::SessionFunctions;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::object_ddl::{Commented, Kind, ObjectDdl};
use crate::resolve::{Names, Relation};
use crate::roles::denied;
use crate::temporary::is_temporary;

impl Ddl<'_> {
    /// 42501 if the user may not do this [W1].
    pub(crate) fn check_ddl(&self, command: &Command) -> Result<(), SqlError> {
        let catalog = self.version.clone();
        let who = Who::named(&catalog, &self.session.user());
        if let Command::Object(object) = command {
            self.check_refresh(object)?;
        }
        if who.superuser {
            return Ok(());
        }
        let check = Check { ddl: self, who };
        match command {
            Command::CreateTableAs(table) => {
                if let Some(query) = &table.create.query {
                    check_query(self.session, &self.names(), query)?;
                }
                check.create_table(&table.create)
            }
            Command::CreateSequence(create) => {
                check.make_in(&create.name)?;
                check.linked(&create.options.owned_by)
            }
            Command::AlterSequence(alter) => {
                check.owns_named(&alter.name)?;
                if alter.rename.is_some() {
                    check.make_beside(&alter.name)?;
                }
                check.linked(&alter.options.owned_by)
            }
            // These ask themselves.
            Command::Role(_) | Command::Privileges(_) => Ok(()),
            Command::Undrop(undrop) => check.owns_named(&undrop.table),
            Command::Revert(_) => Err(denied("must be superuser to revert a schema change")),
            Command::Ddl(statement) => check.statement(statement),
            Command::Object(object) => check.object(object),
            _ => Err(SqlError::unsupported("this statement, but for superusers,")),
        }
    }

    /// What a materialized view reads, it reads as its owner, whoever refreshes it.
    fn check_refresh(&self, object: &ObjectDdl) -> Result<(), SqlError> {
        let ObjectDdl::Refresh { view: name, with_data: true, .. } = object else {
            return Ok(());
        };
        let Some(Relation::Table(table)) = self.names().relation(name)? else { return Ok(()) };
        let (catalog, id) = (&self.version, table.def.id);
        let who = Who::named(catalog, &self.session.user());
        match catalog.materialized(id) {
            Some(view) if who.owns_relation(id) => {
                check_sources(catalog, catalog, (view, id), 0, 0)
            }
            _ => Ok(()),
        }
    }

    /// 42501 if the user may not let a foreign key refer to columns of a table.
    pub(crate) fn check_references(
        &self,
        parent: &TableDef,
        columns: &[String],
    ) -> Result<(), SqlError> {
        let who = Who::named(&self.version, &self.session.user());
        let access = self.version.access(froglet_schema::access::PG_CLASS, parent.id);
        let of_key = || -> Vec<ColumnId> {
            let key = parent.primary_key().map(|key| key.spec.key.iter().map(|part| part.column));
            match columns.is_empty() {
                true => key.into_iter().flatten().collect(),
                false => columns.iter().filter_map(|c| Some(parent.column(c)?.id)).collect(),
            }
        };
        let may = who.on_relation(parent.id) & bits::REFERENCES != 0 || {
            let key = of_key();
            let given = |id: &ColumnId| who.on_column(access, *id) & bits::REFERENCES != 0;
            !key.is_empty() && key.iter().all(given)
        };
        match may {
            true => Ok(()),
            false => Err(no_privilege("table", &parent.name)),
        }
    }

    /// 42501 if the user may not make a column of a type.
    pub(crate) fn check_type(&self, oid: ObjectId) -> Result<(), SqlError> {
        let Some(def) = self.version.enum_of(oid) else { return Ok(()) };
        let who = Who::named(&self.version, &self.session.user());
        match who.privileges(super::Kind::Type, def.id) & bits::USAGE != 0 {
            true => Ok(()),
            false => Err(no_privilege("type", &def.name)),
        }
    }

    /// 42501 if the user may not make something in a schema.
    pub(crate) fn check_make_in(&self, schema: &str) -> Result<(), SqlError> {
        let who = Who::named(&self.version, &self.session.user());
        match who.may_in_schema(schema, bits::CREATE) {
            true => Ok(()),
            false => Err(no_privilege("schema", schema)),
        }
    }
}

struct Check<'a> {
    ddl: &'a Ddl<'a>,
    who: Who<'a>,
}

impl Check<'_> {
    fn names(&self) -> Names<'_> {
        self.ddl.names()
    }

    /// A relation that a statement names, as far as it may look there.
    fn find(&self, name: &ObjectName) -> Result<Option<ObjectId>, SqlError> {
        if let (Some(schema), _) = Names::parts(name)?
            && !self.who.may_in_schema(&schema, bits::USAGE)
        {
            return Err(no_privilege("schema", &schema));
        }
        Ok(self.names().relation(name)?.map(|relation| match relation {
            Relation::Table(table) => table.def.id,
            Relation::Sequence(sequence) => sequence.id,
            Relation::View(view) => view.id,
            Relation::Index(table, at) => table.def.indexes[at].id,
        }))
    }

    fn owns(&self, relation: ObjectId) -> Result<(), SqlError> {
        if self.who.owns_relation(relation) {
            return Ok(());
        }
        let (what, name) = called(&self.ddl.version, relation);
        Err(not_owner(what, &name))
    }

    fn owns_named(&self, name: &ObjectName) -> Result<(), SqlError> {
        match self.find(name)? {
            Some(id) => self.owns(id),
            None => Ok(()),
        }
    }

    fn owns_schema(&self, schema: &str) -> bool {
        let def = self.ddl.version.schema(schema);
        let own = is_temporary(schema) && self.ddl.path.iter().any(|known| known == schema);
        own || def.is_some_and(|def| self.who.owns(PG_NAMESPACE, def.id))
    }

    fn schema_of(&self, name: &ObjectName) -> Result<Option<String>, SqlError> {
        Ok(self.names().relation(name)?.map(|relation| match relation {
            Relation::Table(table) | Relation::Index(table, _) => table.def.schema.clone(),
            Relation::Sequence(sequence) => sequence.schema.clone(),
            Relation::View(view) => view.schema.clone(),
        }))
    }

    fn make_in_schema(&self, schema: &str) -> Result<(), SqlError> {
        self.ddl.check_make_in(schema)
    }

    /// Something is to be made under this name.
    fn make_in(&self, name: &ObjectName) -> Result<(), SqlError> {
        match self.names().creation_schema(Names::parts(name)?.0) {
            Ok(schema) => self.make_in_schema(&schema),
            Err(_) => Ok(()),
        }
    }

    /// Something is to be in the schema of this relation under another name.
    fn make_beside(&self, name: &ObjectName) -> Result<(), SqlError> {
        match self.schema_of(name)? {
            Some(schema) => self.make_in_schema(&schema),
            None => Ok(()),
        }
    }

    fn temporary(&self) -> Result<(), SqlError> {
        match self.who.may_with_database(bits::TEMPORARY) {
            true => Ok(()),
            false => {
                Err(denied("permission denied to create temporary tables in database \"postgres\""))
            }
        }
    }

    fn create_table(&self, create: &CreateTable) -> Result<(), SqlError> {
        match create.temporary {
            true => self.temporary(),
            false => self.make_in(&create.name),
        }
    }

    /// OWNED BY: of a table with the same owner.
    fn linked(&self, owned_by: &Option<Option<ObjectName>>) -> Result<(), SqlError> {
        let Some(Some(column)) = owned_by else { return Ok(()) };
        let parts = &column.0[..column.0.len().saturating_sub(1)];
        if parts.is_empty() {
            return Ok(());
        }
        match self.find(&ObjectName(parts.to_vec()))? {
            Some(table) if !self.who.owns_relation(table) => Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "sequence must have same owner as table it is linked to",
            )),
            _ => Ok(()),
        }
    }

    fn statement(&self, statement: &Statement) -> Result<(), SqlError> {
        match statement {
            Statement::CreateTable(create) => self.create_table(create),
            Statement::AlterTable(alter) => self.alter_table(alter),
            Statement::Truncate(truncate) => self.truncate(truncate),
            Statement::CreateIndex(create) => {
                self.owns_named(&create.table_name)?;
                self.make_beside(&create.table_name)
            }
            Statement::AlterIndex { name, .. } => {
                self.owns_named(name)?;
                self.make_beside(name)
            }
            Statement::Drop { object_type, names, .. } => {
                names.iter().try_for_each(|name| self.drop(*object_type, name))
            }
            _ => Err(SqlError::unsupported("this statement, but for superusers,")),
        }
    }

    fn alter_table(&self, alter: &AlterTable) -> Result<(), SqlError> {
        self.owns_named(&alter.name)?;
        let renames = |operation: &AlterTableOperation| {
            matches!(operation, AlterTableOperation::RenameTable { .. })
        };
        match alter.operations.iter().any(renames) {
            true => self.make_beside(&alter.name),
            false => Ok(()),
        }
    }

    fn truncate(&self, truncate: &Truncate) -> Result<(), SqlError> {
        let catalog = &self.ddl.version;
        let mut tables = Vec::new();
        for target in &truncate.table_names {
            tables.extend(self.find(&target.name)?);
        }
        let mut at = 0;
        while let Some(id) = tables.get(at).copied() {
            at += 1;
            if self.who.on_relation(id) & bits::TRUNCATE == 0 {
                let (what, name) = called(catalog, id);
                return Err(no_privilege(what, &name));
            }
            if let Some(table) = catalog.tables.get(&id)
                && truncate.cascade == Some(CascadeOption::Cascade)
            {
                let more = table.def.referenced_by.iter().filter(|child| !tables.contains(child));
                let more: Vec<ObjectId> = more.copied().collect();
                tables.extend(more);
            }
            if truncate.identity == Some(TruncateIdentityOption::Restart) {
                let owned = catalog.sequences.values();
                let mut owned = owned.filter(|s| s.owned_by.is_some_and(|(table, _)| table == id));
                owned.try_for_each(|sequence| self.owns(sequence.id))?;
            }
        }
        Ok(())
    }

    /// Who owns a schema may drop what is in it.
    fn drop(&self, kind: ObjectType, name: &ObjectName) -> Result<(), SqlError> {
        match kind {
            ObjectType::Schema => self.owns_schema_named(&Names::parts(name)?.1),
            ObjectType::Type => self.owns_type(name, true),
            _ => {
                let Some(id) = self.find(name)? else { return Ok(()) };
                let schema = self.schema_of(name)?;
                match schema.is_some_and(|schema| self.owns_schema(&schema)) {
                    true => Ok(()),
                    false => self.owns(id),
                }
            }
        }
    }

    fn owns_schema_named(&self, schema: &str) -> Result<(), SqlError> {
        match self.ddl.version.schema(schema).is_none() || self.owns_schema(schema) {
            true => Ok(()),
            false => Err(not_owner("schema", schema)),
        }
    }

    fn owns_type(&self, name: &ObjectName, or_schema: bool) -> Result<(), SqlError> {
        let Some(def) = self.names().enum_type(name)? else { return Ok(()) };
        let may = self.who.owns(PG_TYPE, def.id) || (or_schema && self.owns_schema(&def.schema));
        match may {
            true => Ok(()),
            false => Err(not_owner("type", &def.name)),
        }
    }

    fn owns_kind(&self, kind: Kind, name: &ObjectName) -> Result<(), SqlError> {
        match kind {
            Kind::Type => self.owns_type(name, false),
            _ => self.owns_named(name),
        }
    }

    fn make_schema(&self) -> Result<(), SqlError> {
        match self.who.may_with_database(bits::CREATE) {
            true => Ok(()),
            false => Err(no_privilege("database", "postgres")),
        }
    }

    fn object(&self, object: &ObjectDdl) -> Result<(), SqlError> {
        match object {
            ObjectDdl::CreateSchema { .. } => self.make_schema(),
            ObjectDdl::RenameSchema { name, .. } => {
                self.owns_schema_named(name)?;
                self.make_schema()
            }
            ObjectDdl::CreateView(create) => {
                if create.temporary {
                    return self.temporary();
                }
                self.make_in(&create.name)?;
                if create.materialized && create.with_data {
                    return check_query(self.ddl.session, &self.names(), &create.query);
                }
                match create.or_replace {
                    true => self.owns_named(&create.name),
                    false => Ok(()),
                }
            }
            ObjectDdl::CreateEnum { name, .. } => self.make_in(name),
            ObjectDdl::AddLabel { name, .. } | ObjectDdl::RenameLabel { name, .. } => {
                self.owns_type(name, false)
            }
            ObjectDdl::Rename { kind, name, .. } => {
                self.owns_kind(*kind, name)?;
                match kind {
                    Kind::Type => Ok(()),
                    _ => self.make_beside(name),
                }
            }
            ObjectDdl::RenameIndex { name, .. } => {
                self.owns_named(name)?;
                self.make_beside(name)
            }
            ObjectDdl::SetSchema { kind, name, schema, .. } => {
                self.owns_kind(*kind, name)?;
                self.make_in_schema(schema)
            }
            // It asks itself.
            ObjectDdl::Owner { .. } | ObjectDdl::CreateExtension { .. } => Ok(()),
            ObjectDdl::SetAccessMethod { name, .. } => self.owns_kind(Kind::MaterializedView, name),
            ObjectDdl::Refresh { view: name, .. } | ObjectDdl::RenameColumn { name, .. } => {
                self.owns_named(name)
            }
            ObjectDdl::Comment { on, name, .. } => self.comment(*on, name),
        }
    }

    fn comment(&self, on: Commented, name: &ObjectName) -> Result<(), SqlError> {
        match on {
            Commented::Relation(kind) => self.owns_kind(kind, name),
            Commented::Index => self.owns_named(name),
            Commented::Type => self.owns_type(name, false),
            Commented::Schema => self.owns_schema_named(&Names::parts(name)?.1),
            Commented::Column | Commented::Constraint => {
                let table = ObjectName(name.0[..name.0.len().saturating_sub(1)].to_vec());
                let Some(id) = self.find(&table)? else { return Ok(()) };
                match self.who.owns_relation(id) {
                    true => Ok(()),
                    false => Err(not_owner("relation", &called(&self.ddl.version, id).1)),
                }
            }
            Commented::Database => Err(not_owner("database", "postgres")),
            Commented::Role => {
                let me = self.ddl.current_role()?;
                let other = self.ddl.version.role(&Names::parts(name)?.1);
                match (me.create_role, other) {
                    (_, Some(other)) if other.superuser => Err(denied("must be superuser")),
                    (true, _) | (_, None) => Ok(()),
                    (false, Some(_)) => Err(denied("must have CREATEROLE privilege")),
                }
            }
        }
    }
}
