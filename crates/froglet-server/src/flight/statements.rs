//! Statements: text and prepared, with rows or without.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow_flight::{FlightInfo, IpcMessage, SchemaAsIpc};
use arrow_ipc::writer::IpcWriteOptions;
use bytes::Bytes;
use froglet_engine::Value;
use froglet_sql::columnar::{Answer, Strings, parameter_schema, slices};
use froglet_sql::{Prepared, Session, SqlError};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::HeaderMap;
use parking_lot::Mutex;
use tonic::Status;

use super::handles::Handle;
use super::results::Held;
use super::sessions::{FlightSession, Fork};
use super::status;

/// The header that asks for another layout of strings: `views` or `plain`.
const STRINGS: &str = "froglet-strings";

/// How a request wants its strings.
pub(super) fn strings(headers: &HeaderMap) -> Result<Strings, Status> {
    let Some(value) = headers.get(STRINGS) else { return Ok(Strings::default()) };
    match value.to_str() {
        Ok("views") => Ok(Strings::Views),
        Ok("plain") => Ok(Strings::Plain),
        _ => Err(status::malformed(format_args!("{STRINGS} is {value:?}, not views or plain"))),
    }
}

/// A prepared statement.
pub(super) struct Statement {
    pub(super) prepared: Arc<Prepared>,
    transaction: Option<Bytes>,
    /// Rows of values for its parameters, that the next query takes.
    bound: Mutex<Vec<RecordBatch>>,
}

impl Statement {
    pub(super) fn bind(&self, batches: Vec<RecordBatch>) {
        *self.bound.lock() = batches;
    }
}

type Work<T> =
    Box<dyn for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, SqlError>> + Send>;

impl FlightSession {
    /// Does something in a transaction or, where none is named, in one of its own.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        transaction: Option<&Bytes>,
        work: Work<T>,
    ) -> Result<(T, Option<Fork>), Status> {
        match transaction.filter(|id| !id.is_empty()) {
            None => {
                let (value, fork) = self.alone(work).await?;
                Ok((value, Some(fork)))
            }
            Some(id) => Ok((self.transaction(id)?.1.run(work).await?, None)),
        }
    }

    /// Runs a text whose rows are to be fetched.
    pub(super) async fn query(
        self: &Arc<Self>,
        text: String,
        transaction: Option<&Bytes>,
        strings: Strings,
    ) -> Result<FlightInfo, Status> {
        let work: Work<Answer> =
            Box::new(move |session| async move { session.answer_text(&text).await }.boxed());
        self.info(self.run(transaction, work).await?, strings)
    }

    /// Runs a text whose rows nobody wants.
    pub(super) async fn update(
        self: &Arc<Self>,
        text: String,
        transaction: Option<&Bytes>,
    ) -> Result<i64, Status> {
        let work: Work<i64> = Box::new(move |session| {
            async move { count(session.answer_text(&text).await?).await }.boxed()
        });
        Ok(self.run(transaction, work).await?.0)
    }

    /// The schema of a text's result.
    pub(super) async fn schema_of_text(
        self: &Arc<Self>,
        text: String,
        transaction: Option<&Bytes>,
    ) -> Result<Schema, Status> {
        let work: Work<Arc<Prepared>> =
            Box::new(move |session| async move { session.prepare_text(&text).await }.boxed());
        let (prepared, ..) = self.run(transaction, work).await?;
        Ok(prepared.result_schema().unwrap_or_else(Schema::empty))
    }

    /// Prepares a statement. Returns its handle.
    pub(super) async fn prepare(
        self: &Arc<Self>,
        text: String,
        transaction: Option<Bytes>,
    ) -> Result<(Handle, Arc<Prepared>), Status> {
        let work: Work<Arc<Prepared>> =
            Box::new(move |session| async move { session.prepare_text(&text).await }.boxed());
        let (prepared, ..) = self.run(transaction.as_ref(), work).await?;
        let handle = Handle::new();
        let statement =
            Statement { prepared: prepared.clone(), transaction, bound: Mutex::default() };
        self.statements.lock().insert(handle, Arc::new(statement));
        Ok((handle, prepared))
    }

    pub(super) fn statement(&self, handle: &[u8]) -> Result<Arc<Statement>, Status> {
        let found = self.statements.lock().get(&Handle::read(handle)?).cloned();
        found.ok_or_else(|| {
            status::of(&SqlError::new(
                froglet_engine::SqlState::INVALID_SQL_STATEMENT_NAME,
                "there is no such prepared statement: it has been closed, or is another session's",
            ))
        })
    }

    /// Runs a prepared statement whose rows are to be fetched.
    pub(super) async fn query_prepared(
        self: &Arc<Self>,
        handle: &[u8],
        strings: Strings,
    ) -> Result<FlightInfo, Status> {
        let statement = self.statement(handle)?;
        let transaction = statement.transaction.clone();
        // However the execution goes, the rows are not those of the next one.
        let bound = std::mem::take(&mut *statement.bound.lock());
        let work: Work<Answer> = Box::new(move |session| {
            async move {
                let mut rows = Executions::new(&statement.prepared, bound);
                let mut answer = match rows.next(session).await? {
                    Some(row) => session.answer(&statement.prepared, row).await?,
                    None => Answer::Done(0),
                };
                while let Some(row) = rows.next(session).await? {
                    // Executed once for each row, a statement without rows has one answer; a query
                    // would have many.
                    let (Answer::Done(before), Answer::Done(now)) =
                        (&answer, session.answer(&statement.prepared, row).await?)
                    else {
                        return Err(SqlError::unsupported(
                            "a query with more than one row of parameters",
                        ));
                    };
                    answer = Answer::Done(before + now);
                }
                Ok(answer)
            }
            .boxed()
        });
        self.info(self.run(transaction.as_ref(), work).await?, strings)
    }

    /// Runs a prepared statement for each row of its parameters, all in one transaction.
    pub(super) async fn update_prepared(
        self: &Arc<Self>,
        handle: &[u8],
        bound: Vec<RecordBatch>,
    ) -> Result<i64, Status> {
        let statement = self.statement(handle)?;
        let transaction = statement.transaction.clone();
        let work: Work<i64> = Box::new(move |session| {
            async move {
                let mut total = 0;
                let mut rows = Executions::new(&statement.prepared, bound);
                while let Some(row) = rows.next(session).await? {
                    total += count(session.answer(&statement.prepared, row).await?).await?;
                }
                Ok(total)
            }
            .boxed()
        });
        Ok(self.run(transaction.as_ref(), work).await?.0)
    }

    fn info(
        self: &Arc<Self>,
        (answer, fork): (Answer, Option<Fork>),
        strings: Strings,
    ) -> Result<FlightInfo, Status> {
        match answer {
            Answer::Rows(pinned) => Held::keep(self, pinned, strings, fork).info(),
            // It has run, and there is nothing to fetch.
            Answer::Done(rows) => Ok(FlightInfo::new()
                .try_with_schema(&Schema::empty())
                .map_err(|e| Status::internal(e.to_string()))?
                .with_total_records(i64::try_from(rows).unwrap_or(-1))),
        }
    }
}

/// The values of each execution of a statement, of which few are in memory.
struct Executions {
    prepared: Arc<Prepared>,
    slices: BoxIterator<RecordBatch>,
    rows: std::vec::IntoIter<Vec<Value>>,
    begun: u64,
}

type BoxIterator<T> = Box<dyn Iterator<Item = T> + Send>;

impl Executions {
    /// So many go on before others of this thread are served.
    const UNTIL_OTHERS: u64 = 100;

    fn new(prepared: &Arc<Prepared>, bound: Vec<RecordBatch>) -> Executions {
        // Where there are no parameters, the JDBC driver binds a batch without columns and rows. Where
        // there are and nothing is bound, the error is that of too few values.
        let once = prepared.params().is_empty() || bound.is_empty();
        let rows = if once { vec![Vec::new()] } else { Vec::new() };
        let bound = if once { Vec::new() } else { bound };
        Executions {
            prepared: prepared.clone(),
            slices: Box::new(bound.into_iter().flat_map(|batch| slices(&batch))),
            rows: rows.into_iter(),
            begun: 0,
        }
    }

    async fn next(&mut self, session: &mut Session) -> Result<Option<Vec<Value>>, SqlError> {
        if self.begun > 0 {
            // Each execution forgets what was cancelled before it.
            session.cancel_token().check()?;
        }
        if self.begun % Executions::UNTIL_OTHERS == Executions::UNTIL_OTHERS - 1 {
            tokio::task::yield_now().await;
        }
        self.begun += 1;
        loop {
            if let Some(row) = self.rows.next() {
                return Ok(Some(row));
            }
            let Some(slice) = self.slices.next() else { return Ok(None) };
            self.rows = session.parameter_rows(&self.prepared, &slice).await?.into_iter();
        }
    }
}

/// How many rows were changed; those of a query are counted as they are read to the end.
async fn count(answer: Answer) -> Result<i64, SqlError> {
    let rows = match answer {
        Answer::Done(rows) => rows,
        Answer::Rows(pinned) => pinned.count().await?,
    };
    Ok(i64::try_from(rows).unwrap_or(i64::MAX))
}

/// A schema as Flight SQL's messages have it.
pub(super) fn schema_bytes(schema: &Schema) -> Result<Bytes, Status> {
    let options = IpcWriteOptions::default();
    let message: Result<IpcMessage, _> = SchemaAsIpc::new(schema, &options).try_into();
    Ok(message.map_err(|e| Status::internal(e.to_string()))?.0)
}

/// What a client is told of a statement that it has prepared.
pub(super) fn described(prepared: &Prepared, strings: Strings) -> Result<(Bytes, Bytes), Status> {
    let rows = match prepared.result_schema() {
        Some(schema) => schema_bytes(&strings.of(&schema))?,
        None => Bytes::new(),
    };
    Ok((rows, schema_bytes(&Strings::Plain.of(&parameter_schema(prepared)))?))
}
