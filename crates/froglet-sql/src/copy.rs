//! COPY … FROM STDIN.
//!
//! Bytes become records (copy_format.rs), records become rows, rows are inserted in batches as
//! the data arrives, so that a long COPY needs no more memory than the table it fills. Under READ
//! COMMITTED a schema change may commit while the client sends: the rows of later batches go on
//! under the version the COPY began with, and are carried over at the commit like any writer's.

use std::pin::pin;
use std::sync::Arc;

use compact_str::format_compact;
use datafusion::sql::sqlparser::ast::{CopySource, CopyTarget, Statement};
use froglet_engine::{ColumnType, Row, SqlState, Value};
use froglet_schema::{CatalogVersion, SqlType};
use froglet_txn::Limits;

use crate::apply::Stop;
use crate::context::EvalContext;
use crate::copy_format::{CopyOptions, Format, Record, Splitter, bad};
use crate::ddl_run;
use crate::error::SqlError;
use crate::insert::Inserter;
use crate::insert_plan::refuse_given;
use crate::plan::read_only;
use crate::resolve::{self, Names};
use crate::session::Session;
use crate::stream::{Outcome, Tag};
use crate::table::compiled;
use crate::types::{self, zone};

/// Rows inserted at once.
const BATCH_ROWS: usize = 1000;

/// A COPY that takes rows from the client.
pub struct CopyIn {
    inserter: Inserter,
    version: Arc<CatalogVersion>,
    /// The columns that the client sends.
    columns: Vec<(String, ColumnType, SqlType)>,
    /// CSV: whether an unquoted empty field is text all the same, or a quoted one NULL.
    forced: Vec<Forced>,
    splitter: Splitter,
    record: Record,
    batch: Vec<Row>,
    /// The lines of the rows of `batch`.
    lines: Vec<u64>,
    context: EvalContext,
    limits: Limits,
    rows: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Forced {
    not_null: bool,
    null: bool,
}

/// Whether a COPY takes data.
pub(crate) fn is_from(statement: &Statement) -> bool {
    matches!(statement, Statement::Copy { to: false, .. })
}

pub(crate) async fn begin(
    session: &mut Session,
    statement: &Statement,
) -> Result<Outcome, SqlError> {
    let Statement::Copy { source, target, options, legacy_options, .. } = statement else {
        return Err(SqlError::unsupported("this statement"));
    };
    let CopySource::Table { table_name, columns } = source else {
        return Err(SqlError::unsupported("COPY of a query FROM"));
    };
    if !matches!(target, CopyTarget::Stdin) {
        return Err(SqlError::unsupported("COPY from a file or program of the server")
            .hint("Use COPY FROM STDIN, or psql's \\copy."));
    }
    let options = CopyOptions::parse(options, legacy_options)?;
    session.transaction()?;
    if session.read_only {
        return Err(read_only("COPY FROM"));
    }
    let limits = session.limits();
    let db = session.db.clone();
    let path = session.settings.hot().search_path.clone();
    let txn = session.txn.as_mut().expect("just begun");
    let mut version = db.catalog().begin_statement(txn, true, &limits).await?;
    let id = Names { catalog: &version, path: &path }.table(table_name)?.def.id;
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
    let compiled = compiled(&table)?;
    let mut positions = Vec::new();
    for ident in columns {
        let at = resolve::column(&table.def, ident)?;
        if positions.contains(&at) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{}\" specified more than once", table.def.columns[at].name),
            ));
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
    let described: Vec<(String, ColumnType, SqlType)> = described.collect();
    let forced = described
        .iter()
        .map(|(name, _, _)| Forced {
            not_null: options.force_not_null.contains(name),
            null: options.force_null.contains(name),
        })
        .collect();
    let inserter = Inserter::new(&table, compiled, positions, &version);
    Ok(Outcome::CopyIn(Box::new(CopyIn {
        inserter,
        version,
        splitter: Splitter::new(options, described.len()),
        columns: described,
        forced,
        record: Record::default(),
        batch: Vec::new(),
        lines: Vec::new(),
        context: EvalContext::new(session.state.clone()),
        limits,
        rows: 0,
    })))
}

impl CopyIn {
    /// How many columns the client sends.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Whether it sends the binary format.
    pub fn binary(&self) -> bool {
        self.splitter.options().format == Format::Binary
    }

    /// CopyData. After an error the server drains the client and feeds no more.
    pub async fn feed(&mut self, session: &mut Session, data: &[u8]) -> Result<(), SqlError> {
        let zone = session.zone();
        let outcome = zone::scope(zone, pin!(self.feed_inner(session, data, false))).await;
        outcome.map_err(|e| session.failed(e))
    }

    /// CopyDone: the command tag.
    pub async fn finish(mut self, session: &mut Session) -> Result<Tag, SqlError> {
        let zone = session.zone();
        let outcome = zone::scope(zone, pin!(self.feed_inner(session, &[], true))).await;
        if let Some(txn) = &mut session.txn {
            session.db.catalog().end_statement(txn);
        }
        outcome.map_err(|e| session.failed(e))?;
        Ok(format_compact!("COPY {}", self.rows))
    }

    /// CopyFail, or the client has gone.
    pub fn fail(self, session: &mut Session, message: &str) -> SqlError {
        let message = format!("COPY from stdin failed: {message}");
        let place = self.place(self.splitter.line() + 1);
        session.failed(SqlError::new(SqlState::QUERY_CANCELED, message).context(place))
    }

    async fn feed_inner(
        &mut self,
        session: &mut Session,
        data: &[u8],
        last: bool,
    ) -> Result<(), SqlError> {
        self.limits.check()?;
        self.splitter.push(data)?;
        loop {
            let more = match self.splitter.next(&mut self.record, last) {
                Ok(more) => more,
                Err(e) if self.splitter.in_header() => return Err(e),
                // A binary tuple that cannot be read has not been counted.
                Err(e) if self.binary() => {
                    let mut place = self.place(self.splitter.line() + 1);
                    if let Some(at) = self.splitter.failed_field() {
                        place.push_str(&format!(", column {}", self.columns[at].0));
                    }
                    return Err(e.context(place));
                }
                Err(e) => return Err(self.in_line(e)),
            };
            if !more {
                break;
            }
            let row = self.row()?;
            self.batch.push(row);
            self.lines.push(self.splitter.line());
            if self.batch.len() >= BATCH_ROWS {
                self.flush(session).await?;
            }
        }
        if last {
            self.flush(session).await?;
        }
        Ok(())
    }

    async fn flush(&mut self, session: &mut Session) -> Result<(), SqlError> {
        let rows = std::mem::take(&mut self.batch);
        let mut writer = session.writer(self.version.clone(), &self.limits, &self.context)?;
        let outcome = self.inserter.insert(&mut writer, &rows).await;
        let duplicate = writer.duplicate;
        outcome.map_err(|stop| match (stop, duplicate) {
            (Stop::Error(e), Some(at)) => e.context(self.place(self.lines[at])),
            (Stop::Error(e), None) => e,
            (Stop::Restart, _) => SqlError::from(froglet_schema::SchemaError::Stale),
        })?;
        self.rows += rows.len() as u64;
        self.batch = rows;
        self.batch.clear();
        self.lines.clear();
        Ok(())
    }

    /// The complete row of the record at hand.
    fn row(&self) -> Result<Row, SqlError> {
        let found = self.record.fields.len();
        let wanted = self.columns.len();
        if found > wanted {
            return Err(self.in_line(bad("extra data after last expected column")));
        }
        let values = (0..wanted).map(|at| self.value(at).map(Some));
        let completed = self.inserter.complete(values, &self.context);
        completed.map_err(|e| if e.context.is_some() { e } else { self.in_line(e) })
    }

    fn value(&self, at: usize) -> Result<Value, SqlError> {
        let (name, ty, sql_type) = &self.columns[at];
        // An empty line is a row of one empty column.
        if at >= self.record.fields.len() {
            return Err(self.in_line(bad(format!("missing data for column \"{name}\""))));
        }
        let null = self.splitter.options().null.as_bytes();
        let forced = self.forced[at];
        let bytes = match self.record.field(at) {
            None if forced.not_null => null,
            None => return Ok(Value::Null),
            Some(bytes) if forced.null && bytes == null => return Ok(Value::Null),
            Some(bytes) => bytes,
        };
        let value = match self.binary() {
            true => types::from_binary(*sql_type, *ty, bytes),
            false => {
                let text = types::binary::utf8(bytes)
                    .map_err(|e| e.context(self.place(self.splitter.line())))?;
                types::from_text(*sql_type, *ty, text)
            }
        };
        value.map_err(|e| self.in_field(e, at, bytes))
    }

    /// Says which field an error is about.
    fn in_field(&self, e: SqlError, at: usize, bytes: &[u8]) -> SqlError {
        let mut place =
            format!("{}, column {}", self.place(self.splitter.line()), self.columns[at].0);
        if !self.binary() {
            place.push_str(&format!(": \"{}\"", shown(bytes)));
        }
        e.context(place)
    }

    /// Says which line an error is about.
    fn in_line(&self, e: SqlError) -> SqlError {
        let mut place = self.place(self.splitter.line());
        if !self.binary() {
            place.push_str(&format!(": \"{}\"", shown(self.splitter.line_text())));
        }
        e.context(place)
    }

    fn place(&self, line: u64) -> String {
        format!("COPY {}, line {line}", self.inserter.table.def.name)
    }
}

/// As much of the data as PostgreSQL shows.
fn shown(bytes: &[u8]) -> String {
    const MOST_BYTES: usize = 100;
    let text = String::from_utf8_lossy(bytes);
    if text.len() <= MOST_BYTES {
        return text.into_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(MOST_BYTES)])
}
