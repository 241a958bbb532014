//! COPY … FROM STDIN, and from files of lines and tuples.
//!
//! Bytes become records (`split.rs`), records become rows (`target.rs`).

use std::pin::pin;

use froglet_engine::{SqlState, Value};

use super::options::{CopyOptions, Format};
use super::split::{Record, Splitter, bad};
use super::target::Target;
use crate::bulk;
use crate::error::SqlError;
use crate::session::Session;
use crate::stream::Tag;
use crate::types::{self, zone};

/// A COPY that takes rows from the client.
pub struct CopyIn {
    target: Target,
    /// CSV: whether an unquoted empty field is text all the same, or a quoted one NULL.
    forced: Vec<Forced>,
    splitter: Splitter,
    record: Record,
}

#[derive(Clone, Copy, Debug, Default)]
struct Forced {
    not_null: bool,
    null: bool,
}

impl CopyIn {
    pub(super) fn new(target: Target, options: CopyOptions) -> CopyIn {
        let forced = target.columns().iter().map(|(name, _, _)| Forced {
            not_null: options.force_not_null.has(name),
            null: options.force_null.has(name),
        });
        CopyIn {
            forced: forced.collect(),
            splitter: Splitter::new(options, target.columns().len()),
            record: Record::default(),
            target,
        }
    }

    /// How many columns the client sends.
    pub fn columns(&self) -> usize {
        self.target.columns().len()
    }

    /// Whether it sends the binary format.
    pub fn binary(&self) -> bool {
        self.splitter.options().format == Format::Binary
    }

    /// Resolves when it must not go on: it is cancelled, or takes longer than it may.
    pub async fn exceeded(&self) -> SqlError {
        self.target.limits().exceeded().await.into()
    }

    /// CopyData. After an error the server drains the client and feeds no more.
    pub async fn feed(&mut self, session: &mut Session, data: &[u8]) -> Result<(), SqlError> {
        let zone = session.zone();
        let outcome = zone::scope(zone, pin!(self.take(session, data, false))).await;
        outcome.map_err(|e| session.failed(e))
    }

    /// CopyDone: the command tag.
    pub async fn finish(mut self, session: &mut Session) -> Result<Tag, SqlError> {
        let zone = session.zone();
        let outcome = zone::scope(zone, pin!(self.take(session, &[], true))).await;
        bulk::end(session);
        outcome.map_err(|e| session.failed(e))?;
        Ok(self.tag())
    }

    pub(super) fn tag(&self) -> Tag {
        self.target.tag()
    }

    /// CopyFail, or the client has gone.
    pub fn fail(self, session: &mut Session, message: &str) -> SqlError {
        let message = format!("COPY from stdin failed: {message}");
        let place = self.place(self.splitter.line() + 1);
        session.failed(SqlError::new(SqlState::QUERY_CANCELED, message).context(place))
    }

    /// More data, perhaps the last.
    pub(super) async fn take(
        &mut self,
        session: &mut Session,
        data: &[u8],
        last: bool,
    ) -> Result<(), SqlError> {
        self.target.limits().check()?;
        self.target.progress.add_bytes(data.len());
        self.splitter.push(data)?;
        while self.next_record(last)? {
            if self.row()? {
                self.target.flush(session, place).await?;
            }
        }
        if last {
            self.target.flush(session, place).await?;
        }
        Ok(())
    }

    fn next_record(&mut self, last: bool) -> Result<bool, SqlError> {
        match self.splitter.next(&mut self.record, last) {
            Ok(true) if self.splitter.at_header() => {
                self.match_header()?;
                self.next_record(last)
            }
            Ok(more) => Ok(more),
            Err(e) if self.splitter.in_header() => Err(e),
            // A binary tuple that cannot be read has not been counted.
            Err(e) if self.binary() => {
                let mut place = self.place(self.splitter.line() + 1);
                if let Some(at) = self.splitter.failed_field() {
                    place.push_str(&format!(", column {}", self.target.columns()[at].0));
                }
                Err(e.context(place))
            }
            Err(e) => Err(self.in_line(e)),
        }
    }

    /// HEADER MATCH: the first line has the columns' names.
    fn match_header(&self) -> Result<(), SqlError> {
        let (found, expected) = (self.record.fields.len(), self.target.columns().len());
        if found != expected {
            let message =
                format!("wrong number of fields in header line: got {found}, expected {expected}");
            return Err(self.in_line(bad(message)));
        }
        for (at, (name, _, _)) in self.target.columns().iter().enumerate() {
            let wrong = match self.record.field(at) {
                Some(field) if field == name.as_bytes() => continue,
                Some(field) => format!("got \"{}\"", String::from_utf8_lossy(field)),
                None => format!("got null value (\"{}\")", self.splitter.options().null),
            };
            let message = format!(
                "column name mismatch in header line field {}: {wrong}, expected \"{name}\"",
                at + 1
            );
            return Err(self.in_line(bad(message)));
        }
        Ok(())
    }

    /// Takes the row of the record at hand. True if it is time to insert.
    fn row(&mut self) -> Result<bool, SqlError> {
        let found = self.record.fields.len();
        let wanted = self.target.columns().len();
        if found > wanted {
            return Err(self.in_line(bad("extra data after last expected column")));
        }
        let completed = self.target.complete((0..wanted).map(|at| self.value(at)));
        let row = completed.map_err(|e| if e.context.is_some() { e } else { self.in_line(e) })?;
        Ok(self.target.push(row, self.splitter.line()))
    }

    fn value(&self, at: usize) -> Result<Value, SqlError> {
        let (name, ty, sql_type) = &self.target.columns()[at];
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
        let column = &self.target.columns()[at].0;
        let mut place = format!("{}, column {column}", self.place(self.splitter.line()));
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
        place(self.target.table(), line)
    }
}

fn place(table: &str, line: u64) -> String {
    format!("COPY {table}, line {line}")
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
