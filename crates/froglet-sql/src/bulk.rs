//! Rows into a table in bulk, as COPY … FROM and Flight's ingest bring them.
//!
//! ```text
//!   begin ─ the table, its columns, the catalog version ─▶ Bulk
//!   complete ─ values of a row ─▶ a row with defaults, generated columns and its own rules
//!   insert ─ some complete rows ─▶ the session's transaction          … end
//! ```
//! Rows are inserted as the data arrives, so that a long load needs no more memory than the table
//! it fills. Under READ COMMITTED a schema change may commit while the client sends: the rows of
//! later batches go on under the version the load began with, and are carried over at the commit
//! like any writer's.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use froglet_engine::{ColumnType, Row, SqlState, Value};
use froglet_schema::{CatalogVersion, SqlType, TableDef};
use froglet_txn::Limits;

use crate::apply::Stop;
use crate::context::EvalContext;
use crate::ddl_run;
use crate::error::SqlError;
use crate::insert::Inserter;
use crate::insert_plan::refuse_given;
use crate::plan::read_only;
use crate::privileges::bits;
use crate::privileges::check::check_columns;
use crate::resolve::{self, Names};
use crate::session::Session;
use crate::table::compiled;
use crate::write::table_locks;

/// Rows inserted at once.
pub(crate) const BATCH_ROWS: usize = 1000;

/// A column that is given: its name, and how its values are stored and typed.
pub(crate) type GivenColumn = (String, ColumnType, SqlType);

/// A load under way.
pub(crate) struct Bulk {
    inserter: Inserter,
    version: Arc<CatalogVersion>,
    /// The columns that the client sends.
    pub(crate) columns: Vec<GivenColumn>,
    context: EvalContext,
    pub(crate) limits: Limits,
    /// Inserted so far.
    pub(crate) rows: u64,
}

impl Bulk {
    /// Begins one, into these columns (none: all that can be given), in the session's transaction.
    /// `what` is named where that may not write.
    pub(crate) async fn begin(
        session: &mut Session,
        what: &str,
        table_name: &ObjectName,
        columns: &[Ident],
    ) -> Result<Bulk, SqlError> {
        session.transaction()?;
        if session.read_only {
            return Err(read_only(what));
        }
        let limits = session.limits();
        let db = session.db.clone();
        let path = session.settings.hot().search_path.clone();
        let txn = session.txn.as_mut().expect("just begun");
        let mut version = db.catalog().begin_statement(txn, true, &limits).await?;
        let id = Names { catalog: &version, path: &path }.table(table_name)?.def.id;
        let uses = table_locks::uses_of_insert(&version, id);
        if session.enter_uses(&uses, &limits).await? {
            return Box::pin(Bulk::begin(session, what, table_name, columns)).await;
        }
        let txn = session.txn.as_mut().expect("just begun");
        db.catalog().will_write(txn, id);
        if db.catalog().has_outgrown(txn) {
            db.catalog().end_statement(txn);
            ddl_run::make_outgrown(session, &limits).await?;
            let txn = session.txn.as_mut().expect("it goes on");
            version = db.catalog().begin_statement(txn, true, &limits).await?;
        }
        let txn = session.txn.as_mut().expect("it goes on");
        session.state.set_catalog(&version, txn.id().0, &limits);
        let names = Names { catalog: &version, path: &path };
        let table = names.table(table_name)?.clone();
        if version.materialized(table.def.id).is_some() {
            let message = format!("cannot copy to materialized view \"{}\"", table.def.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        // Defaults name types by their numbers, which the session tells.
        let context = EvalContext::new(session.state.clone());
        let compiled = context.enter(|| compiled(&table))?;
        let mut positions = Vec::new();
        for ident in columns {
            let at = resolve::column(&table.def, ident)?;
            if positions.contains(&at) {
                return Err(twice(&table.def.columns[at].name));
            }
            refuse_given(&table.def, &compiled, at).or_else(|e| {
                // COPY gives identity columns their values, as in PostgreSQL; generated ones never.
                if compiled.generated.contains(&at) { Err(e) } else { Ok(()) }
            })?;
            positions.push(at);
        }
        if columns.is_empty() {
            let given = (0..table.def.columns.len()).filter(|at| !compiled.generated.contains(at));
            positions.extend(given);
        }
        let into: Vec<_> = positions.iter().map(|at| table.def.columns[*at].id).collect();
        check_columns(&session.state, &version, table.def.id, bits::INSERT, &into)?;
        let described = positions.iter().map(|at| {
            let column = &table.def.columns[*at];
            (column.name.clone(), column.ty, column.sql_type)
        });
        let columns = described.collect();
        let inserter = Inserter::new(&table, compiled, positions, &version)?;
        Ok(Bulk { inserter, version, columns, context, limits, rows: 0 })
    }

    /// The table.
    pub(crate) fn table(&self) -> &TableDef {
        &self.inserter.table.def
    }

    /// Only these of the columns are given after all, in this order; the others have their defaults.
    pub(crate) fn narrow(&mut self, chosen: &[usize]) -> Result<(), SqlError> {
        self.columns = chosen.iter().map(|at| self.columns[*at].clone()).collect();
        let positions = chosen.iter().map(|at| self.inserter.columns[*at]).collect();
        let table = self.inserter.table.clone();
        let compiled = self.inserter.compiled.clone();
        self.inserter = Inserter::new(&table, compiled, positions, &self.version)?;
        Ok(())
    }

    /// A complete row of values for the columns given.
    pub(crate) fn complete(
        &self,
        values: impl Iterator<Item = Result<Option<Value>, SqlError>>,
    ) -> Result<Row, SqlError> {
        self.inserter.complete(values, &self.context)
    }

    /// Inserts complete rows. With an error comes which of them was a duplicate, if one was.
    pub(crate) async fn insert(
        &mut self,
        session: &mut Session,
        rows: &[Row],
    ) -> Result<(), (SqlError, Option<usize>)> {
        let writer = session.writer(self.version.clone(), &self.limits, &self.context);
        let mut writer = writer.map_err(|e| (e, None))?;
        let mut outcome = self.inserter.insert(&mut writer, rows).await;
        if outcome.is_ok() {
            // Rows that come later take no key away.
            outcome = writer.check_keys().await;
        }
        let duplicate = writer.duplicate;
        outcome.map_err(|stop| match stop {
            Stop::Error(e) => (e, duplicate),
            Stop::Restart => (SqlError::from(froglet_schema::SchemaError::Stale), None),
        })?;
        self.rows += rows.len() as u64;
        Ok(())
    }
}

/// The end of the statement of a load, however it went.
pub(crate) fn end(session: &mut Session) {
    if let Some(txn) = &mut session.txn {
        session.db.catalog().end_statement(txn);
    }
}

/// 42701
pub(crate) fn twice(column: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_COLUMN,
        format!("column \"{column}\" specified more than once"),
    )
}
