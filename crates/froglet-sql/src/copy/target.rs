//! The table that a COPY fills, wherever its rows come from (see `bulk`), and how far it has come.

use compact_str::format_compact;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use froglet_engine::{Row, Value};
use froglet_txn::Limits;

use super::options::CopyOptions;
use super::progress::Shown;
use crate::bulk::{BATCH_ROWS, Bulk, GivenColumn};
use crate::error::SqlError;
use crate::session::Session;
use crate::stream::Tag;

/// The table that a COPY fills.
pub(super) struct Target {
    bulk: Bulk,
    batch: Vec<Row>,
    /// The lines of the rows of `batch`.
    lines: Vec<u64>,
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
        let bulk = Bulk::begin(session, "COPY FROM", name, columns).await?;
        let progress = Shown::begin(&session.shared, bulk.table().id, false, file);
        Ok(Target { bulk, batch: Vec::new(), lines: Vec::new(), progress })
    }

    /// The columns that are given, in the order of their values.
    pub(super) fn columns(&self) -> &[GivenColumn] {
        &self.bulk.columns
    }

    /// The table's name.
    pub(super) fn table(&self) -> &str {
        &self.bulk.table().name
    }

    /// Whether the options are about columns that are copied.
    pub(super) fn check(&self, options: &CopyOptions) -> Result<(), SqlError> {
        let named =
            [("FORCE_NOT_NULL", &options.force_not_null), ("FORCE_NULL", &options.force_null)];
        let copied = self.columns().iter().map(|(name, ..)| name.as_str());
        named.iter().try_for_each(|(option, columns)| {
            columns.check(option, Some(self.bulk.table()), copied.clone())
        })
    }

    /// For how long the statement may go on.
    pub(super) fn limits(&self) -> &Limits {
        &self.bulk.limits
    }

    /// The command tag.
    pub(super) fn tag(&self) -> Tag {
        format_compact!("COPY {}", self.progress.rows())
    }

    /// Only these of the columns are given after all, in this order; the others have their defaults.
    pub(super) fn narrow(&mut self, chosen: &[usize]) -> Result<(), SqlError> {
        self.bulk.narrow(chosen)
    }

    /// The complete row of the columns' values.
    pub(super) fn complete(
        &self,
        values: impl Iterator<Item = Result<Value, SqlError>>,
    ) -> Result<Row, SqlError> {
        self.bulk.complete(values.map(|value| value.map(Some)))
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
        self.limits().check()?;
        let inserted = self.bulk.insert(session, &self.batch).await;
        inserted.map_err(|(e, duplicate)| match duplicate {
            Some(at) => e.context(place(self.table(), self.lines[at])),
            None => e,
        })?;
        self.progress.add_rows(self.batch.len());
        self.batch.clear();
        self.lines.clear();
        Ok(())
    }
}
