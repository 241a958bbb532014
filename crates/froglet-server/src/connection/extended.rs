//! The extended protocol: statements prepared, bound, described and run in steps, answered in one
//! go at Sync, where the implicit transaction of all steps since the last Sync ends.

use std::pin::pin;
use std::sync::Arc;

use froglet_engine::{SqlState, Value};
use froglet_sql::types::binary::utf8;
use froglet_sql::types::{from_binary, from_text};
use froglet_sql::{Outcome, Prepared, RowStream, Rows, SqlError, Tag, TransactionStatus};

use super::at_once::SYNC;
use super::portal::{Cursor, Portal, State};
use super::rows::{Formats, describe, unsupported_format, write_row};
use super::{Connection, Stop};
use crate::wire::frontend::{Bind, Frontend, Parse, Target};

impl Connection {
    /// One message of the extended protocol.
    pub(super) async fn extended(&mut self, message: Frontend<'_>) -> Result<(), Stop> {
        let outcome = match message {
            Frontend::Parse(parse) => self.parse(parse).await,
            Frontend::Bind(bind) => self.bind(&bind),
            Frontend::Describe(target) => self.describe(target),
            Frontend::Execute { portal, max_rows } => self.execute(portal, max_rows).await,
            Frontend::Close(target) => {
                self.close(target);
                Ok(())
            }
            Frontend::Flush => Ok(self.flush().await?),
            other => unreachable!("{other:?} is not of the extended protocol"),
        };
        if outcome.is_err() {
            self.session.note_failure();
        }
        outcome
    }

    /// Sync: errors are over, the implicit transaction ends, the client is told.
    pub(super) async fn sync(&mut self) -> Result<(), Stop> {
        let ok = !std::mem::take(&mut self.skipping);
        self.end_implicit(ok).await?;
        Ok(self.ready().await?)
    }

    async fn parse(&mut self, parse: Parse<'_>) -> Result<(), Stop> {
        if parse.name.is_empty() {
            self.unnamed = None;
        } else if self.session.statement(parse.name).is_some() {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{}\" already exists", parse.name),
            )
            .into());
        }
        let statements = self.session.split(parse.query)?;
        let prepared = match &statements[..] {
            [] => Prepared::empty(),
            [statement] => {
                let types: Vec<u32> = parse.types.iter().collect();
                let outcome = self
                    .channel
                    .watch(&self.cancel, pin!(self.session.prepare(statement, &types)))
                    .await;
                outcome?
            }
            _ => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "cannot insert multiple commands into a prepared statement",
                )
                .into());
            }
        };
        if parse.name.is_empty() {
            self.unnamed = Some(prepared);
        } else {
            self.session.store_statement(parse.name, prepared, parse.query.into(), false)?;
        }
        self.channel.output.parse_complete();
        Ok(())
    }

    /// The statement of a name, which is bound to run or not.
    fn statement(&self, name: &str, runs: bool) -> Result<Arc<Prepared>, Stop> {
        let unnamed = name.is_empty();
        let found = match runs {
            _ if unnamed => self.unnamed.as_ref(),
            true => self.session.statement_to_run(name),
            false => self.session.statement(name),
        };
        found.cloned().ok_or_else(|| {
            let what = match unnamed {
                true => "unnamed prepared statement".to_owned(),
                false => format!("prepared statement \"{name}\""),
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, format!("{what} does not exist"))
                .into()
        })
    }

    fn bind(&mut self, bind: &Bind<'_>) -> Result<(), Stop> {
        // What was not answered at once has been counted.
        let prepared = self.statement(bind.statement, !self.declined)?;
        self.refuse_if_failed(&prepared)?;
        if !bind.portal.is_empty() && self.portals.get(bind.portal).is_some() {
            return Err(SqlError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{}\" already exists", bind.portal),
            )
            .into());
        }
        let values = self.session.zone().run(|| parameters(bind, &prepared))?;
        let columns = prepared.fields().map_or(0, |fields| fields.len());
        let formats = Formats::of(bind, columns)?;
        if !bind.portal.is_empty() {
            self.session.name_portal(bind.portal)?;
        }
        let portal = Portal { prepared, formats, state: State::Bound(values) };
        self.portals.insert(bind.portal, portal);
        self.channel.output.bind_complete();
        Ok(())
    }

    fn refuse_if_failed(&self, prepared: &Prepared) -> Result<(), Stop> {
        let failed = self.session.status() == TransactionStatus::Failed;
        if !failed || prepared.allowed_in_failed() || prepared.is_empty() {
            return Ok(());
        }
        Err(SqlError::new(
            SqlState::IN_FAILED_SQL_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        )
        .into())
    }

    fn describe(&mut self, target: Target<'_>) -> Result<(), Stop> {
        let text = Formats::default();
        let (prepared, formats) = match target {
            Target::Statement(name) => {
                let prepared = self.statement(name, false)?;
                let oids = prepared.params().iter().map(|ty| ty.oid).collect();
                self.channel.output.parameter_description(oids);
                (prepared, &text)
            }
            Target::Portal(name) => {
                if let Some((fields, binary)) = self.session.cursor(name) {
                    describe(&mut self.channel.output, fields, &Formats::all(binary));
                    return Ok(());
                }
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                (portal.prepared.clone(), &portal.formats)
            }
        };
        match prepared.fields() {
            Some(fields) => describe(&mut self.channel.output, fields, formats),
            None => self.channel.output.no_data(),
        }
        Ok(())
    }

    fn close(&mut self, target: Target<'_>) {
        match target {
            Target::Statement("") => self.unnamed = None,
            Target::Statement(name) => self.session.close_statement(name),
            Target::Portal(name) => {
                self.portals.remove(name);
                self.session.close_portal(name);
            }
        }
        self.channel.output.close_complete();
    }

    async fn execute(&mut self, name: &str, max_rows: u32) -> Result<(), Stop> {
        // Out of the map while it runs: the statement may end the transaction and every portal.
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        let before = self.session.status();
        let outcome = self.run_portal(&mut portal, name, max_rows).await;
        if before != TransactionStatus::Idle {
            self.drop_portals_when_idle();
        }
        if self.session.status() != TransactionStatus::Idle || before == TransactionStatus::Idle {
            self.portals.insert(name, portal);
        }
        outcome
    }

    async fn run_portal(
        &mut self,
        portal: &mut Portal,
        name: &str,
        max_rows: u32,
    ) -> Result<(), Stop> {
        self.session.set_last(self.channel.input().starts_with(SYNC));
        let tag = match std::mem::replace(&mut portal.state, State::Spent) {
            State::Bound(values) => match self.run_statement(&portal.prepared, values).await? {
                Outcome::Rows(stream) => {
                    let cursor = Cursor { stream, rows: None, next: 0 };
                    return self.fetch(portal, Box::new(cursor), max_rows).await;
                }
                Outcome::Done(tag) => tag,
                Outcome::CopyIn(copy) => self.copy_in(*copy).await?,
                Outcome::CopyOut(copy) => self.copy_out(*copy).await?,
                Outcome::Empty => {
                    self.channel.output.empty_query();
                    return Ok(());
                }
            },
            State::Rows(cursor) => {
                self.refuse_if_failed(&portal.prepared)?;
                return self.fetch(portal, cursor, max_rows).await;
            }
            State::Exhausted(tag) => {
                portal.state = State::Exhausted(tag.clone());
                tag
            }
            State::Spent => {
                return Err(cannot_run(name).into());
            }
        };
        self.complete(&tag);
        Ok(())
    }

    /// Runs a bound statement, at once if it has nothing to wait for.
    pub(super) async fn run_statement(
        &mut self,
        prepared: &Arc<Prepared>,
        mut values: Vec<Value>,
    ) -> Result<Outcome, SqlError> {
        if !std::mem::take(&mut self.declined)
            && let Some(outcome) = self.session.run_at_once(prepared, &mut values)
        {
            return outcome;
        }
        self.channel.watch(&self.cancel, pin!(self.session.run(prepared, values))).await
    }

    /// Sends at most `max_rows` more rows (0: all). The portal is suspended where the limit ends
    /// it, also when no row is left: PostgreSQL does not look ahead either.
    async fn fetch(
        &mut self,
        portal: &mut Portal,
        mut cursor: Box<Cursor>,
        max_rows: u32,
    ) -> Result<(), Stop> {
        let fields = cursor.stream.fields().clone();
        let zone = self.session.zone();
        let limit = if max_rows == 0 { u64::MAX } else { u64::from(max_rows) };
        let mut sent = 0;
        while sent < limit {
            let rows = match cursor.rows.take() {
                Some(rows) => rows,
                None => match self.next_rows(&mut cursor.stream).await? {
                    Some(rows) => {
                        let is_binary = |at| portal.formats.is_binary(at);
                        self.session.in_formats(rows, &fields, is_binary)?
                    }
                    None => {
                        portal.state = State::Exhausted(cursor.stream.tag(0));
                        self.complete(&cursor.stream.tag(sent));
                        return Ok(());
                    }
                },
            };
            while cursor.next < rows.len() && sent < limit {
                let output = &mut self.channel.output;
                let formats = &portal.formats;
                let written = zone.run(|| write_row(output, &rows, cursor.next, &fields, formats));
                written.map_err(|e| self.session.failed(e))?;
                cursor.next += 1;
                sent += 1;
                if output.is_large() {
                    self.flush().await?;
                }
            }
            if cursor.next < rows.len() {
                cursor.rows = Some(rows);
            } else {
                cursor.next = 0;
            }
        }
        portal.state = State::Rows(cursor);
        self.notices();
        self.channel.output.portal_suspended();
        Ok(())
    }

    /// MOVE over at most `count` rows of a portal. Returns its tag.
    pub(super) async fn move_portal(&mut self, name: &str, count: u64) -> Result<Tag, Stop> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        let moved = self.pass_rows(&mut portal, name, count).await;
        self.portals.insert(name, portal);
        if moved.is_err() {
            self.session.note_failure();
        }
        Ok(Tag::from(format!("MOVE {}", moved?)))
    }

    async fn pass_rows(
        &mut self,
        portal: &mut Portal,
        name: &str,
        count: u64,
    ) -> Result<u64, Stop> {
        self.refuse_if_failed(&portal.prepared)?;
        let mut cursor = match std::mem::replace(&mut portal.state, State::Spent) {
            State::Bound(values) => match self.run_statement(&portal.prepared, values).await? {
                Outcome::Rows(stream) => Box::new(Cursor { stream, rows: None, next: 0 }),
                _ => return Err(cannot_run(name).into()),
            },
            State::Rows(cursor) => cursor,
            State::Exhausted(tag) => {
                portal.state = State::Exhausted(tag);
                return Ok(0);
            }
            State::Spent => return Err(cannot_run(name).into()),
        };
        let mut passed = 0;
        while passed < count {
            let rows = match cursor.rows.take() {
                Some(rows) => rows,
                None => match self.next_rows(&mut cursor.stream).await? {
                    Some(rows) => rows,
                    None => {
                        portal.state = State::Exhausted(cursor.stream.tag(0));
                        return Ok(passed);
                    }
                },
            };
            let step = (rows.len() - cursor.next)
                .min(usize::try_from(count - passed).unwrap_or(usize::MAX));
            cursor.next += step;
            passed += step as u64;
            if cursor.next < rows.len() {
                cursor.rows = Some(rows);
            } else {
                cursor.next = 0;
            }
        }
        portal.state = State::Rows(cursor);
        Ok(passed)
    }

    /// The next rows of a result.
    pub(super) async fn next_rows(&mut self, stream: &mut RowStream) -> Result<Option<Rows>, Stop> {
        let next = self.channel.watch(&self.cancel, pin!(stream.next())).await;
        self.session.note_read(stream);
        match next {
            None => Ok(None),
            Some(Ok(rows)) => Ok(Some(rows)),
            Some(Err(error)) => Err(self.session.failed(error).into()),
        }
    }
}

fn cannot_run(name: &str) -> SqlError {
    let message = format!("portal \"{name}\" cannot be run");
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

/// The values of a Bind, as many and of the types that its statement takes.
pub(super) fn parameters(bind: &Bind<'_>, prepared: &Prepared) -> Result<Vec<Value>, Stop> {
    let types = prepared.params();
    let given = bind.parameters.len();
    if given != types.len() {
        return Err(SqlError::new(
            SqlState::PROTOCOL_VIOLATION,
            format!(
                "bind message supplies {given} parameters, but prepared statement \"{}\" requires {}",
                bind.statement,
                types.len()
            ),
        )
        .into());
    }
    let formats = bind.parameter_formats;
    let mut values = Vec::with_capacity(given);
    for (i, bytes) in bind.parameters.iter().enumerate() {
        let (ty, column) = (types[i], prepared.param_types()[i]);
        let format = formats.get(if formats.len() == 1 { 0 } else { i });
        let value = match (bytes, format.unwrap_or(0)) {
            (_, code @ 2..) => Err(unsupported_format(code)),
            (None, _) => Ok(Value::Null),
            (Some(bytes), 1) => from_binary(ty, column, bytes),
            (Some(bytes), _) => utf8(bytes).and_then(|text| from_text(ty, column, text)),
        };
        values.push(value.map_err(|e| in_parameter(e, bind, i, bytes))?);
    }
    Ok(values)
}

/// Says which parameter an error is about.
fn in_parameter(mut e: SqlError, bind: &Bind<'_>, i: usize, bytes: Option<&[u8]>) -> SqlError {
    let number = i + 1;
    if e.message == froglet_sql::types::binary::INCORRECT {
        e.message = format!("{} in bind parameter {number}", e.message);
    }
    let portal = match bind.portal {
        "" => "unnamed portal".to_owned(),
        name => format!("portal \"{name}\""),
    };
    let formats = bind.parameter_formats;
    let text = formats.get(if formats.len() == 1 { 0 } else { i }).unwrap_or(0) == 0;
    // As with PostgreSQL's default of log_parameter_max_length_on_error: no value is repeated.
    match bytes.filter(|bytes| text && std::str::from_utf8(bytes).is_ok()) {
        Some(b"") => e.context(format!("{portal} parameter ${number} = ''")),
        Some(_) => e.context(format!("{portal} parameter ${number} = '...'")),
        None => e.context(format!("{portal} parameter ${number}")),
    }
}
