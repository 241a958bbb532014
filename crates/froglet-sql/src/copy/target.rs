//! The table that a COPY fills, wherever its rows come from.
//!
//! Rows are inserted in batches as they come, so that a long COPY needs no more memory than the table it fills.
//! Under READ COMMITTED a schema change may commit meanwhile: the rows of later batches go on under the version
//! the COPY began with, and are carried over at the commit like any writer's.

use std::sync::Arc;

use compact_str::format_compact;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use froglet_engine::{ColumnType, Row, SqlState, Value};
use froglet_schema::{CatalogVersion, SchemaError, SqlType};
use froglet_txn::Limits;

use super::progress::Shown;
use crate::apply::Stop;
use crate::context::EvalContext;
use crate::ddl_run;
use crate::error::SqlError;
use crate::insert::Inserter;
use crate::insert_plan::refuse_given;
use crate::plan::read_only;
use crate::resolve::{self, Names};
use crate::session::Session;
use crate::stream::Tag;
use crate::table::compiled;

/// Rows inserted at once.
pub(super) const BATCH_ROWS: usize = 1000;

/// A column that is given: its name, and how its values are stored and typed.
pub(super) type GivenColumn = (String, ColumnType, SqlType);

/// The table that a COPY fills.
pub(super) struct Target {
    inserter: Inserter,
    version: Arc<CatalogVersion>,
    /// The columns that are given, in the order of their values.
    pub(super) columns: Vec<GivenColumn>,
    batch: Vec<Row>,
    /// The lines of the rows of `batch`.
    lines: Vec<u64>,
    context: EvalContext,
    pub(super) limits: Limits,
    pub(super) progress: Shown,
}

impl Target {
    /// Finds the table and begins the statement.
    pub(super) async fn open(
        session: &mut Session,
        name: &ObjectName,
        columns: &[Ident],
        file: bool,
    ) -> Result<Target, SqlError> {
        session.transaction()?;
        if session.read_only {
            return Err(read_only("COPY FROM"));
        }
        let limits = session.limits();
        let db = session.db.clone();
        let path = session.settings.hot().search_path.clone();
        let txn = session.txn.as_mut().expect("just begun");
        let mut version = db.catalog().begin_statement(txn, true, &limits).await?;
        let id = Names { catalog: &version, path: &path }.table(name)?.def.id;
        db.catalog().will_write(txn, id);
        if db.catalog().has_outgrown(txn) {
            db.catalog().end_statement(txn);
            ddl_run::make_outgrown(session, &limits).await?;
            let txn = session.txn.as_mut().expect("it goes on");
            version = db.catalog().begin_statement(txn, true, &limits).await?;
        }
        let txn = session.txn.as_mut().expect("it goes on");
        session.state.set_catalog(&version, txn.id().0, &limits);
        let table = Names { catalog: &version, path: &path }.table(name)?.clone();
        let compiled = compiled(&table)?;
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
        let described = positions.iter().map(|at| {
            let column = &table.def.columns[*at];
            (column.name.clone(), column.ty, column.sql_type)
        });
        Ok(Target {
            columns: described.collect(),
            inserter: Inserter::new(&table, compiled, positions, &version),
            progress: Shown::begin(&session.shared, table.def.id, false, file),
            version,
            batch: Vec::new(),
            lines: Vec::new(),
            context: EvalContext::new(session.state.clone()),
            limits,
        })
    }

    /// The table's name.
    pub(super) fn table(&self) -> &str {
        &self.inserter.table.def.name
    }

    /// The command tag.
    pub(super) fn tag(&self) -> Tag {
        format_compact!("COPY {}", self.progress.rows())
    }

    /// Only these of the columns are given after all, in this order; the others have their defaults.
    pub(super) fn narrow(&mut self, chosen: &[usize]) {
        self.columns = chosen.iter().map(|at| self.columns[*at].clone()).collect();
        let positions = chosen.iter().map(|at| self.inserter.columns[*at]).collect();
        let table = self.inserter.table.clone();
        let compiled = self.inserter.compiled.clone();
        self.inserter = Inserter::new(&table, compiled, positions, &self.version);
    }

    /// The complete row of the columns' values.
    pub(super) fn complete(
        &self,
        values: impl Iterator<Item = Result<Value, SqlError>>,
    ) -> Result<Row, SqlError> {
        self.inserter.complete(values.map(|value| value.map(Some)), &self.context)
    }

    /// Takes a complete row. `line` says where it comes from. True if it is time to [`Target::flush`].
    pub(super) fn push(&mut self, row: Row, line: u64) -> bool {
        self.batch.push(row);
        self.lines.push(line);
        self.batch.len() >= BATCH_ROWS
    }

    /// Inserts the rows taken. An error names the line by `place`.
    pub(super) async fn flush(
        &mut self,
        session: &mut Session,
        place: impl Fn(&str, u64) -> String,
    ) -> Result<(), SqlError> {
        self.limits.check()?;
        let rows = std::mem::take(&mut self.batch);
        let mut writer = session.writer(self.version.clone(), &self.limits, &self.context)?;
        let outcome = self.inserter.insert(&mut writer, &rows).await;
        let duplicate = writer.duplicate;
        outcome.map_err(|stop| match (stop, duplicate) {
            (Stop::Error(e), Some(at)) => e.context(place(self.table(), self.lines[at])),
            (Stop::Error(e), None) => e,
            (Stop::Restart, _) => SqlError::from(SchemaError::Stale),
        })?;
        self.progress.add_rows(rows.len());
        self.batch = rows;
        self.batch.clear();
        self.lines.clear();
        Ok(())
    }
}

/// 42701
pub(super) fn twice(column: &str) -> SqlError {
    SqlError::new(
        SqlState::DUPLICATE_COLUMN,
        format!("column \"{column}\" specified more than once"),
    )
}

/// The end of a statement that copies into a table, however it ended.
pub(super) fn end(session: &mut Session) {
    if let Some(txn) = &mut session.txn {
        session.db.catalog().end_statement(txn);
    }
}
