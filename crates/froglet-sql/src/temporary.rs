//! Temporary tables and views: objects of a schema that a session has to itself.
//!
//! ```text
//!   first CREATE TEMPORARY    schema pg_temp_<pid> is made with it, and stands first in the search path
//!   COMMIT                    ON COMMIT DROP, DELETE ROWS
//!   end of the session        DROP SCHEMA pg_temp_<pid> CASCADE, in the background
//!   start of the server       the same for what a crash has left
//! ```
//!
//! They are tables like any other, with versions and a log: nothing is gained by their being temporary but
//! that they go by themselves, and that nobody else finds them by name.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{OnCommit, Statement};
use froglet_schema::plain::{PlainDef, SchemaDef, TEMPORARY_PREFIX};
use froglet_schema::{CatalogVersion, Change, MigrationOptions, ObjectId};

use crate::apply::Stop;
use crate::command::Command;
use crate::database::Database;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::object_ddl::ObjectDdl;
use crate::session::Session;

/// What a session may call its own.
pub(crate) const ALIAS: &str = "pg_temp";

/// Whether a schema is some session's own.
pub(crate) fn is_temporary(schema: &str) -> bool {
    schema.starts_with(TEMPORARY_PREFIX)
}

/// What becomes of a temporary table at the end of each transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtCommit {
    pub(crate) table: ObjectId,
    /// Else its rows are deleted.
    pub(crate) drops: bool,
}

impl AtCommit {
    pub(crate) fn of(table: ObjectId, said: Option<OnCommit>) -> Option<AtCommit> {
        match said? {
            OnCommit::PreserveRows => None,
            OnCommit::DeleteRows => Some(AtCommit { table, drops: false }),
            OnCommit::Drop => Some(AtCommit { table, drops: true }),
        }
    }
}

impl Command {
    /// Whether it makes something temporary.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Command::Ddl(statement) => {
                matches!(&**statement, Statement::CreateTable(create) if create.temporary)
            }
            Command::CreateTableAs(table) => table.create.temporary,
            Command::Object(object) => {
                matches!(&**object, ObjectDdl::CreateView(create) if create.temporary)
            }
            _ => false,
        }
    }
}

impl Ddl<'_> {
    /// Where something temporary goes that is given this schema, or none.
    pub(crate) async fn temporary_schema_of(
        &mut self,
        given: Option<String>,
    ) -> Result<String, Stop> {
        match given {
            Some(schema) if schema != ALIAS && !self.path.contains(&schema) => Err(SqlError::new(
                froglet_engine::SqlState::new("42P16"),
                "cannot create temporary relation in non-temporary schema",
            )
            .into()),
            _ => self.temporary_schema().await,
        }
    }

    /// The session's own schema; made now if it is not there yet.
    pub(crate) async fn temporary_schema(&mut self) -> Result<String, Stop> {
        let own = self.path.iter().find(|schema| is_temporary(schema)).cloned();
        let name = own.ok_or_else(|| SqlError::unsupported("a temporary table of nobody"))?;
        if self.version.schema(&name).is_none() {
            let schema = SchemaDef { id: 0, name: name.clone() };
            self.apply(Change::CreatePlain(PlainDef::Schema(schema))).await?;
        }
        Ok(name)
    }
}

impl Session {
    /// From now on names are looked for in the session's own schema first.
    pub(crate) fn use_temporary_schema(&mut self) {
        let name = format!("{TEMPORARY_PREFIX}{}", self.shared.pid);
        if self.settings.set_temporary_schema(&name) {
            self.publish_settings();
        }
    }

    /// ON COMMIT of the session's tables, before the commit.
    pub(crate) async fn run_on_commit(&mut self) -> Result<(), SqlError> {
        let limits = self.limits();
        let db = self.db.clone();
        let catalog = db.catalog();
        let Some(txn) = &mut self.txn else { return Ok(()) };
        let version = catalog.begin_statement(txn, true, &limits).await?;
        let wrote = txn.wrote();
        let mut left = Vec::new();
        for at_commit in std::mem::take(&mut self.on_commit) {
            let AtCommit { table, drops } = at_commit;
            if !version.tables.contains_key(&table) {
                continue;
            }
            let change = match drops {
                true => Change::DropTable { table, cascade: true },
                false => {
                    left.push(at_commit);
                    Change::Truncate { table }
                }
            };
            if wrote {
                catalog.apply(txn, change, &MigrationOptions::default(), &limits).await?;
            }
        }
        self.on_commit = left;
        catalog.end_statement(txn);
        Ok(())
    }

    /// DISCARD TEMP
    pub(crate) async fn discard_temporary(&mut self) -> Result<(), SqlError> {
        match self.settings.temporary_schema() {
            Some(name) => self.drop_schema(&name).await,
            None => Ok(()),
        }
    }

    async fn drop_schema(&mut self, name: &str) -> Result<(), SqlError> {
        let sql = format!("DROP SCHEMA IF EXISTS \"{name}\" CASCADE");
        for statement in crate::parse::split(&sql, &mut Vec::new())? {
            self.simple(&statement).await?;
        }
        self.finish_implicit(true).await?;
        self.notices.clear();
        Ok(())
    }
}

impl Database {
    /// Takes away what a session has left.
    pub(crate) fn drop_temporary(self: &Arc<Self>, schema: Arc<str>) {
        // A server that stops leaves it to the next start.
        let (Ok(runtime), Ok(session)) =
            (tokio::runtime::Handle::try_current(), self.own_session())
        else {
            return;
        };
        runtime.spawn(drop_or_warn(session, schema.to_string()));
    }

    /// Takes away what sessions have left that a crash has ended.
    pub(crate) async fn drop_all_temporary(self: &Arc<Self>) -> Result<(), SqlError> {
        for name in temporary_schemas(&self.catalog().latest()) {
            drop_or_warn(self.own_session()?, name).await;
        }
        Ok(())
    }
}

async fn drop_or_warn(mut session: Session, schema: String) {
    if let Err(e) = session.drop_schema(&schema).await {
        tracing::warn!(schema, error = %e.message, "temporary tables are left behind");
    }
}

fn temporary_schemas(catalog: &CatalogVersion) -> Vec<String> {
    catalog.schemas.keys().filter(|name| is_temporary(name)).cloned().collect()
}
