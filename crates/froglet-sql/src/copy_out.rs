//! COPY … TO STDOUT: a query whose batches become lines or tuples.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use compact_str::format_compact;
use datafusion::sql::sqlparser::ast::{CopySource, CopyTarget, Ident, Query, Statement};
use datafusion::sql::sqlparser::parser::Parser;
use froglet_engine::SqlState;
use froglet_txn::Limits;

use crate::apply::Stop;
use crate::copy_format::{CopyOptions, Format};
use crate::dialect::Postgres;
use crate::error::SqlError;
use crate::plan::Planner;
use crate::prepared::Field;
use crate::query_rows::{BatchStream, QueryPlan, next};
use crate::resolve::{self, Names};
use crate::session::Session;
use crate::stream::{Outcome, Tag};
use crate::types::{Zone, write_binary, write_text};

/// Some rows of a COPY, each a message of its own: clients may rely on that, as libpq's do.
#[derive(Debug, Default)]
pub struct CopyRows {
    bytes: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
}

impl CopyRows {
    /// The data of each message.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[*start..*end])
    }

    fn end_message(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

/// A COPY that gives rows to the client.
pub struct CopyOut {
    stream: BatchStream,
    fields: Arc<[Field]>,
    options: CopyOptions,
    forced: Vec<bool>,
    zone: Zone,
    limits: Limits,
    begun: bool,
    ended: bool,
    rows: u64,
}

pub(crate) async fn begin(
    session: &mut Session,
    statement: &Statement,
) -> Result<Outcome, SqlError> {
    let Statement::Copy { source, target, options, legacy_options, .. } = statement else {
        return Err(SqlError::unsupported("this statement"));
    };
    if !matches!(target, CopyTarget::Stdout) {
        return Err(SqlError::unsupported("COPY to a file or program of the server")
            .hint("Use COPY TO STDOUT, or psql's \\copy."));
    }
    let options = CopyOptions::parse(options, legacy_options)?;
    session.transaction()?;
    let limits = session.limits();
    let db = session.db.clone();
    let path = session.settings.hot().search_path.clone();
    let txn = session.txn.as_mut().expect("just begun");
    let version = db.catalog().begin_statement(txn, false, &limits).await?;
    session.state.set_catalog(&version, txn.id().0, &limits);
    let query = query(source, &Names { catalog: &version, path: &path })?;
    let mut planner =
        Planner { catalog: &version, path: &path, fast: false, session: &session.state };
    let error = |stop| match stop {
        Stop::Error(e) => e,
        Stop::Restart => SqlError::from(froglet_schema::SchemaError::Stale),
    };
    let (plan, _) = QueryPlan::plan(&mut planner, &query, &[]).await.map_err(error)?;
    let txn = session.txn.as_mut().expect("just begun");
    let snapshot = txn.snapshot();
    let stream = plan.run(&session.state, snapshot, &[], &limits).await.map_err(error)?;
    if let Some(txn) = &mut session.txn {
        db.catalog().end_statement(txn);
    }
    let fields = plan.fields().clone();
    let all = options.force_quote.iter().any(|name| name == "*");
    let forced = fields.iter().map(|f| all || options.force_quote.contains(&f.name)).collect();
    Ok(Outcome::CopyOut(Box::new(CopyOut {
        stream,
        fields,
        options,
        forced,
        zone: session.zone(),
        limits,
        begun: false,
        ended: false,
        rows: 0,
    })))
}

fn query(source: &CopySource, names: &Names<'_>) -> Result<Query, SqlError> {
    let (table_name, columns) = match source {
        CopySource::Query(query) => return Ok((**query).clone()),
        CopySource::Table { table_name, columns } => (table_name, columns),
    };
    let table = names.table(table_name)?;
    let mut list = Vec::new();
    for ident in columns {
        let at = resolve::column(&table.def, ident)?;
        list.push(Ident::with_quote('"', table.def.columns[at].name.clone()).to_string());
    }
    if list.is_empty() {
        let quoted = |c: &froglet_schema::ColumnDef| Ident::with_quote('"', c.name.clone());
        list.extend(table.def.columns.iter().map(|c| quoted(c).to_string()));
    }
    let text = format!("SELECT {} FROM {table_name}", list.join(", "));
    let parsed =
        Parser::new(&Postgres).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
    match parsed {
        Ok(query) => Ok(*query),
        Err(e) => Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("{e} in {text}"))),
    }
}

impl CopyOut {
    /// How many columns it sends.
    pub fn columns(&self) -> usize {
        self.fields.len()
    }

    /// Whether it sends the binary format.
    pub fn binary(&self) -> bool {
        self.options.format == Format::Binary
    }

    /// The next rows; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<CopyRows, SqlError>> {
        if self.ended {
            return None;
        }
        let mut out = CopyRows::default();
        if !self.begun {
            self.begun = true;
            self.header(&mut out);
        }
        match next(&mut self.stream, &self.limits).await {
            Ok(Some(batch)) => {
                if let Err(e) = self.zone.run(|| self.batch(&batch, &mut out)) {
                    self.ended = true;
                    return Some(Err(e));
                }
            }
            Ok(None) => {
                self.ended = true;
                if self.binary() {
                    out.bytes.extend_from_slice(&(-1_i16).to_be_bytes());
                    out.end_message();
                }
                if out.ends.is_empty() {
                    return None;
                }
            }
            Err(e) => {
                self.ended = true;
                return Some(Err(e));
            }
        }
        Some(Ok(out))
    }

    /// The command tag.
    pub fn tag(&self) -> Tag {
        format_compact!("COPY {}", self.rows)
    }

    fn header(&self, out: &mut CopyRows) {
        match self.options.format {
            // No message of its own: the first row or the trailer follows in the same.
            Format::Binary => {
                out.bytes.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
                out.bytes.extend_from_slice(&[0; 8]);
            }
            Format::Text | Format::Csv if self.options.header => {
                for (at, field) in self.fields.iter().enumerate() {
                    if at > 0 {
                        out.bytes.push(self.options.delimiter);
                    }
                    self.field(field.name.as_bytes(), false, &mut out.bytes);
                }
                out.bytes.push(b'\n');
                out.end_message();
            }
            Format::Text | Format::Csv => {}
        }
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut CopyRows) -> Result<(), SqlError> {
        let mut scratch = Vec::new();
        for row in 0..batch.num_rows() {
            if self.binary() {
                let count = i16::try_from(batch.num_columns()).unwrap_or(i16::MAX);
                out.bytes.extend_from_slice(&count.to_be_bytes());
            }
            for (at, array) in batch.columns().iter().enumerate() {
                scratch.clear();
                self.cell(array.as_ref(), row, at, &mut scratch, &mut out.bytes)?;
            }
            if !self.binary() {
                out.bytes.push(b'\n');
            }
            out.end_message();
            self.rows += 1;
        }
        Ok(())
    }

    fn cell(
        &self,
        array: &dyn Array,
        row: usize,
        at: usize,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let null = array.is_null(row);
        let oid = self.fields[at].sql_type.oid;
        if self.binary() {
            if null {
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                return Ok(());
            }
            write_binary(array, row, oid, scratch);
            let length = i32::try_from(scratch.len()).unwrap_or(i32::MAX);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(scratch);
            return Ok(());
        }
        if at > 0 {
            out.push(self.options.delimiter);
        }
        if null {
            out.extend_from_slice(self.options.null.as_bytes());
            return Ok(());
        }
        write_text(array, row, oid, scratch);
        self.field(scratch, self.forced[at], out);
        Ok(())
    }

    fn field(&self, text: &[u8], forced: bool, out: &mut Vec<u8>) {
        let delimiter = self.options.delimiter;
        if self.options.format == Format::Csv {
            let (quote, escape) = (self.options.quote, self.options.escape);
            let special = |b: &u8| *b == delimiter || *b == quote || *b == b'\n' || *b == b'\r';
            let needs = forced
                || text.iter().any(special)
                || text == self.options.null.as_bytes()
                || text == b"\\.";
            if !needs {
                out.extend_from_slice(text);
                return;
            }
            out.push(quote);
            for byte in text {
                if *byte == quote || *byte == escape {
                    out.push(escape);
                }
                out.push(*byte);
            }
            out.push(quote);
            return;
        }
        for byte in text {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                8 => out.extend_from_slice(b"\\b"),
                12 => out.extend_from_slice(b"\\f"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                11 => out.extend_from_slice(b"\\v"),
                b if *b == delimiter => out.extend_from_slice(&[b'\\', *b]),
                b => out.push(*b),
            }
        }
    }
}
