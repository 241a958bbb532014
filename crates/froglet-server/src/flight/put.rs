//! DoPut: batches from the client.
//!
//! ```text
//!   FlightData ─▶ Incoming ─ batch ─▶ a short channel ─▶ the ingest's task ─ rows ─▶ its transaction
//!      │ ends early, cannot be read                        │ all rows have come ─▶ committed
//!      └─▶ the channel closes without its last word ───────┴▶ undone
//! ```
//! What comes is checked: where its buffers are before it is decoded, offsets and UTF-8 as it is. A
//! malformed message is an error of its call, and so is a panic in whoever decodes it. Compressed
//! batches are not taken: the limit of a message bounds only what is packed.
//!
//! An error is sent when the client has ended its side: Go's gRPC, and so ADBC, tells one who is still
//! sending that the stream has ended, and not why.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    Any, Command, CommandStatementIngest, DoPutPreparedStatementResult, DoPutUpdateResult,
    TableExistsOption, TableNotExistOption,
};
use arrow_flight::{FlightData, PutResult};
use froglet_engine::SqlState;
use froglet_sql::columnar::{IfExists, IfMissing, IngestTarget, Refused, batch_in, check_batch};
use froglet_sql::{Session, SqlError};
use froglet_txn::aside;
use futures::channel::mpsc as feed;
use futures::{FutureExt, StreamExt};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::sessions::FlightSession;
use super::status;

/// Parameters that are bound wait in memory.
const MOST_BOUND_BYTES: usize = 256 << 20;

/// A client that is refused and sends nothing for so long waits for the answer.
const MOST_SILENCE: Duration = Duration::from_secs(1);

/// A client that is refused and goes on sending for so long may never end.
const MOST_UNHEARD: Duration = Duration::from_secs(30);

/// Reads what a client that is refused still sends, and forgets it.
pub(super) async fn forget(messages: &mut Streaming<FlightData>) {
    let mut next = async || timeout(MOST_SILENCE, messages.message()).await;
    let ended = async { while let Ok(Ok(Some(_))) = next().await {} };
    let _ = timeout(MOST_UNHEARD, ended).await;
}

/// Answers a DoPut.
pub(super) async fn put(
    session: &Arc<FlightSession>,
    messages: &mut Streaming<FlightData>,
) -> Result<PutResult, Status> {
    let (command, mut incoming) = Incoming::begin(messages).await?;
    let updated = |record_count| DoPutUpdateResult { record_count }.encode_to_vec();
    let answer = match command {
        Command::CommandStatementUpdate(update) => {
            updated(session.update(update.query, update.transaction_id.as_ref()).await?)
        }
        Command::CommandPreparedStatementUpdate(update) => {
            let handle = update.prepared_statement_handle;
            session.statement(&handle)?;
            let bound = incoming.all().await?;
            updated(session.update_prepared(&handle, bound).await?)
        }
        Command::CommandPreparedStatementQuery(query) => {
            let handle = query.prepared_statement_handle;
            session.statement(&handle)?.bind(incoming.all().await?);
            DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) }.encode_to_vec()
        }
        Command::CommandStatementIngest(command) => {
            updated(ingest(session, command, incoming).await?)
        }
        other => return Err(status::unsupported(format_args!("DoPut of {}", other.type_url()))),
    };
    Ok(PutResult { app_metadata: answer.into() })
}

/// Batches as they come.
struct Incoming<'m> {
    first: Option<FlightData>,
    messages: &'m mut Streaming<FlightData>,
    /// One message at a time is given to the decoder, and decoded before the next.
    feed: feed::UnboundedSender<Result<FlightData, FlightError>>,
    decoder: FlightDataDecoder,
}

impl<'m> Incoming<'m> {
    async fn begin(
        messages: &'m mut Streaming<FlightData>,
    ) -> Result<(Command, Incoming<'m>), Status> {
        let first = messages.message().await?;
        let first = first.ok_or_else(|| status::malformed("there is no message"))?;
        let descriptor = first.flight_descriptor.as_ref();
        let descriptor = descriptor.ok_or_else(|| status::malformed("there is no descriptor"))?;
        let command = command(&descriptor.cmd)?;
        let (feed, fed) = feed::unbounded();
        let decoder = FlightDataDecoder::new(fed);
        Ok((command, Incoming { first: Some(first), messages, feed, decoder }))
    }

    /// What is next: a schema, a batch, or nothing more.
    async fn next(&mut self) -> Result<Option<DecodedPayload>, Status> {
        loop {
            let message = match self.first.take() {
                Some(first) => Some(first),
                None => self.messages.message().await?,
            };
            let Some(message) = message else { return Ok(None) };
            if message.data_header.is_empty() {
                continue;
            }
            let bad = |e: &dyn std::fmt::Display| status::malformed(format_args!("a batch: {e}"));
            check(&message)?;
            self.feed.unbounded_send(Ok(message)).map_err(|e| bad(&e))?;
            let decoder = &mut self.decoder;
            let decode = AssertUnwindSafe(|| decoder.next().now_or_never());
            match aside(|| std::panic::catch_unwind(decode)) {
                Ok(Some(Some(Ok(decoded)))) => return Ok(Some(decoded.payload)),
                Ok(Some(Some(Err(e)))) => return Err(bad(&e)),
                // A dictionary is kept for the batches that need it.
                Ok(Some(None) | None) => {}
                Err(_) => return Err(bad(&"it cannot be decoded")),
            }
        }
    }

    async fn schema(&mut self) -> Result<SchemaRef, Status> {
        loop {
            match self.next().await? {
                Some(DecodedPayload::Schema(schema)) => return Ok(schema),
                Some(DecodedPayload::None) => {}
                Some(DecodedPayload::RecordBatch(_)) | None => {
                    return Err(status::malformed("there is no schema before the batches"));
                }
            }
        }
    }

    async fn batch(&mut self) -> Result<Option<RecordBatch>, Status> {
        loop {
            match self.next().await? {
                Some(DecodedPayload::RecordBatch(batch)) => return Ok(Some(batch)),
                Some(DecodedPayload::None) => {}
                Some(DecodedPayload::Schema(_)) => {
                    return Err(status::malformed("a second schema"));
                }
                None => return Ok(None),
            }
        }
    }

    /// All batches; there may be none, and no schema.
    async fn all(&mut self) -> Result<Vec<RecordBatch>, Status> {
        let (mut batches, mut bytes) = (Vec::new(), 0);
        while let Some(payload) = self.next().await? {
            let DecodedPayload::RecordBatch(batch) = payload else { continue };
            bytes += batch.get_array_memory_size();
            if bytes > MOST_BOUND_BYTES {
                let limit = MOST_BOUND_BYTES >> 20;
                let error = format!("parameters of more than {limit} MB");
                return Err(status::of(&SqlError::new(SqlState::new("54000"), error)));
            }
            batches.push(batch);
        }
        Ok(batches)
    }
}

/// Whether what a message tells of its body is so: the decoder takes that for granted.
fn check(message: &FlightData) -> Result<(), Status> {
    let bad = |e: &dyn std::fmt::Display| status::malformed(format_args!("a batch: {e}"));
    let header = arrow_ipc::root_as_message(&message.data_header).map_err(|e| bad(&e))?;
    let Some(batch) = batch_in(header) else { return Ok(()) };
    check_batch(batch, &message.data_body, None).map_err(|refused| match refused {
        Refused::Compressed => {
            let error = SqlError::unsupported("a compressed batch");
            status::of(&error.hint("Send batches uncompressed."))
        }
        other => bad(&other),
    })
}

/// A command of Flight SQL.
pub(super) fn command(bytes: &[u8]) -> Result<Command, Status> {
    let any = Any::decode(bytes).map_err(|e| status::malformed(format_args!("a command: {e}")))?;
    Command::try_from(any).map_err(|e| status::malformed(format_args!("a command: {e}")))
}

enum Part {
    Batch(RecordBatch),
    End,
}

async fn ingest(
    session: &Arc<FlightSession>,
    command: CommandStatementIngest,
    mut incoming: Incoming<'_>,
) -> Result<i64, Status> {
    let target = target(&command)?;
    let schema = incoming.schema().await?;
    let (sender, parts) = mpsc::channel(1);
    let work = session.run(
        command.transaction_id.as_ref(),
        Box::new(move |session| {
            async move { insert(session, &target, &schema, parts).await }.boxed()
        }),
    );
    let forward = async move {
        loop {
            let batch = tokio::select! {
                biased;
                // The work has failed, and says why.
                () = sender.closed() => return Ok(()),
                batch = incoming.batch() => batch?,
            };
            let Some(batch) = batch else { break };
            let _ = sender.send(Part::Batch(batch)).await;
        }
        let _ = sender.send(Part::End).await;
        Ok(())
    };
    let (ingested, forwarded): (_, Result<(), Status>) = tokio::join!(work, forward);
    forwarded?;
    Ok(ingested?.0)
}

async fn insert(
    session: &mut Session,
    target: &IngestTarget,
    schema: &Schema,
    mut parts: mpsc::Receiver<Part>,
) -> Result<i64, SqlError> {
    let mut ingest = session.ingest(target, schema).await?;
    loop {
        let part = tokio::select! {
            biased;
            part = parts.recv() => part,
            e = ingest.exceeded() => return Err(e),
        };
        match part {
            Some(Part::Batch(batch)) => ingest.feed(session, &batch).await?,
            Some(Part::End) => break,
            None => {
                let message = "the client has not sent all of its batches";
                return Err(SqlError::new(SqlState::QUERY_CANCELED, message));
            }
        }
    }
    Ok(i64::try_from(ingest.finish(session)).unwrap_or(i64::MAX))
}

fn target(command: &CommandStatementIngest) -> Result<IngestTarget, Status> {
    if command.temporary {
        return Err(status::unsupported("ingest into a temporary table"));
    }
    if let Some(catalog) = command.catalog.as_ref().filter(|name| *name != "postgres") {
        let what = format_args!("ingest into another database ({catalog})");
        return Err(status::unsupported(what));
    }
    let options = command.table_definition_options.unwrap_or_default();
    let if_exists = match options.if_exists() {
        TableExistsOption::Append => IfExists::Append,
        TableExistsOption::Replace => IfExists::Replace,
        TableExistsOption::Fail | TableExistsOption::Unspecified => IfExists::Fail,
    };
    let if_missing = match options.if_not_exist() {
        TableNotExistOption::Create => IfMissing::Create,
        TableNotExistOption::Fail | TableNotExistOption::Unspecified => IfMissing::Fail,
    };
    Ok(IngestTarget {
        schema: command.schema.clone().filter(|name| !name.is_empty()),
        table: command.table.clone(),
        if_exists,
        if_missing,
    })
}
