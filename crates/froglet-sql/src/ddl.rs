//! Data definition: from a statement to [`Change`]s.
//!
//! ```text
//!   CREATE TABLE t (id serial, …)          ALTER TABLE t a, b, c
//!      │                                      │ in PostgreSQL's order: drops, types, columns, rest
//!      ▼                                      ▼
//!   CreateSequence, CreateTable,           one Change each, compiled against the catalog that
//!   AlterSequence (owned by)               the changes before it have left
//!      └──────────────── Catalog::apply ──────┘
//! ```
//!
//! A change is compiled (transforms, checks) here and moved through the data by froglet-schema.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType, Statement};
use froglet_engine::SqlState;
use froglet_schema::{
    Applied, Catalog, CatalogVersion, Change, MigrationOptions, ObjectId, SequenceDef, TableVersion,
};
use froglet_txn::{Limits, Transaction};

use crate::apply::Stop;
use crate::command::Command;
use crate::context::EvalContext;
use crate::error::{Notice, SqlError};
use crate::functions::SessionState;
use crate::lazy_query::Mode;
use crate::object_ddl::{Kind, ObjectDdl};
use crate::privileges::Makes;
use crate::resolve::{Names, Relation};
use crate::temporary::AtCommit;
use crate::write::table_locks;

/// A statement that changes the schema.
pub(crate) struct Ddl<'a> {
    pub(crate) txn: &'a mut Transaction,
    pub(crate) catalog: &'a Arc<Catalog>,
    /// With the changes so far.
    pub(crate) version: Arc<CatalogVersion>,
    pub(crate) path: Arc<[String]>,
    pub(crate) limits: &'a Limits,
    pub(crate) options: MigrationOptions,
    pub(crate) migration: Mode,
    /// Of so many rows a table is large enough for `auto` to make it lazily.
    pub(crate) auto_rows: u64,
    pub(crate) eval: &'a EvalContext,
    pub(crate) notices: Vec<Notice>,
    /// Of temporary tables that it has made.
    pub(crate) on_commit: Vec<AtCommit>,
    pub(crate) session: &'a Arc<SessionState>,
    /// No other statement is in its transaction, before it or after it.
    pub(crate) stands_alone: bool,
}

impl Ddl<'_> {
    /// Runs a statement; its command tag.
    pub(crate) async fn run(&mut self, command: &Command) -> Result<String, Stop> {
        self.check_ddl(command)?;
        let reads = table_locks::uses_of_ddl(&self.names(), command);
        if self.session.enter_reads(self.txn, &reads, self.limits).await? {
            return Err(Stop::Restart);
        }
        match command {
            Command::CreateTableAs(table) => self.create_table_as(table).await,
            Command::CreateSequence(create) => self.create_sequence(create).await,
            Command::AlterSequence(alter) => self.alter_sequence(alter).await,
            Command::Role(role) => self.role(role).await,
            Command::Privileges(command) => self.privileges(command).await,
            Command::Undrop(undrop) => self.undrop_column(undrop).await,
            Command::Ddl(statement) => self.statement(statement).await,
            Command::Object(object) => self.object_ddl(object).await,
            _ => Err(SqlError::unsupported("this statement").into()),
        }
    }

    async fn statement(&mut self, statement: &Statement) -> Result<String, Stop> {
        match statement {
            Statement::CreateTable(create) => self.create_table(create).await,
            Statement::AlterTable(alter) => self.alter_table(alter).await,
            Statement::Truncate(truncate) => self.truncate(truncate).await,
            Statement::CreateIndex(create) => self.create_index(create).await,
            Statement::AlterIndex { name, operation } => self.alter_index(name, operation).await,
            Statement::Drop { object_type, if_exists, names, cascade, .. } => match object_type {
                ObjectType::Table => self.drop_tables(names, *if_exists, *cascade).await,
                ObjectType::Index => self.drop_indexes(names, *if_exists, *cascade).await,
                ObjectType::Sequence => self.drop_sequences(names, *if_exists, *cascade).await,
                ObjectType::View => self.drop_views(names, *if_exists, *cascade).await,
                ObjectType::MaterializedView => {
                    self.drop_materialized_views(names, *if_exists, *cascade).await
                }
                ObjectType::Schema => self.drop_schemas(names, *if_exists, *cascade).await,
                ObjectType::Type => self.drop_types(names, *if_exists, *cascade).await,
                other => Err(SqlError::unsupported(format!("DROP {other}")).into()),
            },
            _ => Err(SqlError::unsupported("this statement").into()),
        }
    }

    async fn object_ddl(&mut self, statement: &ObjectDdl) -> Result<String, Stop> {
        match statement {
            ObjectDdl::CreateSchema { name, if_not_exists, owner } => {
                self.create_schema_of(name, *if_not_exists, owner.as_deref()).await
            }
            ObjectDdl::RenameSchema { name, to } => self.rename_schema(name, to).await,
            ObjectDdl::CreateView(create) => self.create_view(create).await,
            ObjectDdl::Refresh { view, concurrently, with_data } => {
                self.refresh(view, *concurrently, *with_data).await
            }
            ObjectDdl::SetAccessMethod { if_exists, name, method } => {
                let kind = Kind::MaterializedView;
                if let Some(object) = self.object(kind, *if_exists, name)? {
                    self.set_access_method(object, method.clone()).await?;
                }
                Ok(kind.tag("ALTER"))
            }
            ObjectDdl::RenameColumn { kind, if_exists, name, column, to } => {
                self.rename_view_column(*kind, *if_exists, name, column, to).await
            }
            ObjectDdl::CreateEnum { name, labels } => self.create_enum(name, labels).await,
            ObjectDdl::AddLabel { name, if_not_exists, label, place } => {
                self.add_label(name, *if_not_exists, label, place).await
            }
            ObjectDdl::RenameLabel { .. } => {
                Err(SqlError::unsupported("ALTER TYPE … RENAME VALUE").into())
            }
            ObjectDdl::Rename { kind, if_exists, name, to } => {
                self.rename_object(*kind, *if_exists, name, to).await
            }
            ObjectDdl::RenameIndex { name, to } => self.rename_index(name, to, true).await,
            ObjectDdl::SetSchema { kind, if_exists, name, schema } => {
                self.set_schema(*kind, *if_exists, name, schema).await
            }
            ObjectDdl::Owner { kind, if_exists, name, role } => {
                self.set_owner(*kind, *if_exists, name, role).await
            }
            ObjectDdl::CreateExtension { name, if_not_exists } => {
                self.create_extension(name, *if_not_exists)
            }
            ObjectDdl::Comment { on, name, text } => self.comment(*on, name, text.as_deref()).await,
        }
    }

    /// The one that every database of PostgreSQL's has is there, and has nothing in it.
    fn create_extension(&mut self, name: &str, if_not_exists: bool) -> Result<String, Stop> {
        if name != "plpgsql" {
            let message = format!("extension \"{name}\" is not available");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        let message = "extension \"plpgsql\" already exists";
        if !if_not_exists {
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
        }
        self.notice(SqlState::DUPLICATE_OBJECT, format!("{message}, skipping"));
        Ok("CREATE EXTENSION".to_owned())
    }

    /// Makes one change and sees what it has made.
    pub(crate) async fn apply(&mut self, change: Change) -> Result<Option<ObjectId>, Stop> {
        Ok(self.apply_counted(change).await?.object)
    }

    /// The same, of a change that may make rows.
    pub(crate) async fn apply_counted(&mut self, change: Change) -> Result<Applied, Stop> {
        let makes = Makes::of(&change);
        let made = self.apply_alone(change).await?;
        if let (Some(makes), Some(id)) = (makes, made.object) {
            Box::pin(self.own(&makes, id)).await?;
        }
        Ok(made)
    }

    /// The same, of a change that makes nothing that somebody owns.
    pub(crate) async fn apply_alone(&mut self, change: Change) -> Result<Applied, Stop> {
        if self.session.enter_change(self.txn, &change, self.limits).await? {
            return Err(Stop::Restart);
        }
        let made = self.catalog.apply(self.txn, change, &self.options, self.limits).await?;
        let before = std::mem::replace(&mut self.version, self.catalog.view(self.txn));
        self.session.set_planning(&self.version);
        crate::key::refuse_untold(&before, &self.version)?;
        Ok(made)
    }

    pub(crate) fn names(&self) -> Names<'_> {
        Names { catalog: &self.version, path: &self.path }
    }

    pub(crate) fn table(&self, name: &ObjectName) -> Result<Arc<TableVersion>, Stop> {
        Ok(self.names().table(name)?.clone())
    }

    /// The table as the changes so far have left it.
    pub(crate) fn table_by_id(&self, id: ObjectId) -> Result<Arc<TableVersion>, Stop> {
        self.version.tables.get(&id).cloned().ok_or(Stop::Restart)
    }

    pub(crate) fn sequence(&self, name: &ObjectName) -> Result<Option<Arc<SequenceDef>>, SqlError> {
        match self.names().relation(name)? {
            Some(Relation::Sequence(sequence)) => Ok(Some(sequence.clone())),
            Some(_) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a sequence", Names::parts(name)?.1),
            )),
            None => Ok(None),
        }
    }

    /// DROP of what recovery could make nothing of; whether a relation's name means that.
    pub(crate) async fn drop_unreadable(
        &mut self,
        name: &ObjectName,
        cascade: bool,
    ) -> Result<bool, Stop> {
        let (schema, bare) = Names::parts(name)?;
        let found = self.names().unreadable(schema.as_deref(), &bare).map(|found| found.id);
        let Some(object) = found else { return Ok(false) };
        self.apply(Change::DropUnreadable { object, cascade }).await?;
        Ok(true)
    }

    pub(crate) fn notice(&mut self, state: SqlState, message: impl Into<String>) {
        self.notices.push(Notice::new("NOTICE", state, message));
    }

    /// `table "x" does not exist, skipping`
    pub(crate) fn skip(&mut self, what: &str, name: &ObjectName) -> Result<(), SqlError> {
        let name = Names::parts(name)?.1;
        self.notice(
            SqlState::SUCCESSFUL_COMPLETION,
            format!("{what} \"{name}\" does not exist, skipping"),
        );
        Ok(())
    }
}
