//! DoGet: the rows of a ticket.
//!
//! ```text
//!   request ─ the ticket's bytes, few ─▶ result or metadata ─▶ schema ‖ batch ‖ batch … ‖ grpc-status
//! ```
//! tonic never sees it: its encoder wants every message in one piece. A body is asked for its next
//! frame when HTTP/2 has room for it, and asks the query's channel then.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow_flight::Ticket;
use arrow_flight::sql::{Any, Command};
use bytes::{Buf, Bytes};
use froglet_sql::columnar::Batches;
use futures::stream::{BoxStream, unfold};
use futures::{Stream, StreamExt};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Request, Response};
use prost::Message;
use tonic::Status;

use super::encode::Encoder;
use super::handles::PartHandle;
use super::results::{Held, Reading};
use super::rope::Rope;
use super::sessions::Guest;
use super::{metadata, status};

/// No ticket of ours is longer: the longest have the patterns of a search in the catalog.
const MOST_TICKET_BYTES: usize = 64 << 10;
/// Compressed or not, length.
const GRPC_PREFIX_BYTES: usize = 5;

/// The body of an answer.
#[derive(Default)]
pub(super) enum AnswerBody {
    #[default]
    Empty,
    /// Of a method that tonic serves.
    Tonic(tonic::body::Body),
    /// Rows.
    Rows(BoxStream<'static, Frame<Rope>>),
}

impl Body for AnswerBody {
    type Data = Rope;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Rope>, Status>>> {
        match self.get_mut() {
            AnswerBody::Empty => Poll::Ready(None),
            AnswerBody::Tonic(body) => {
                let frame = Pin::new(body).poll_frame(cx);
                frame.map_ok(|frame| frame.map_data(Rope::from))
            }
            AnswerBody::Rows(frames) => frames.poll_next_unpin(cx).map(|frame| frame.map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Empty => true,
            AnswerBody::Tonic(body) => body.is_end_stream(),
            AnswerBody::Rows(_) => false,
        }
    }
}

/// Answers a DoGet.
pub(super) async fn answer(guest: &Guest, request: Request<Incoming>) -> Response<AnswerBody> {
    match rows(guest, request).await {
        Ok(rows) => {
            let mut response = Response::new(AnswerBody::Rows(frames(rows).boxed()));
            let grpc = HeaderValue::from_static("application/grpc");
            response.headers_mut().insert(CONTENT_TYPE, grpc);
            response
        }
        Err(status) => status.into_http(),
    }
}

async fn rows(guest: &Guest, request: Request<Incoming>) -> Result<Rows, Status> {
    let (head, body) = request.into_parts();
    let caller = guest.caller(&head.headers)?;
    let ticket = ticket(body).await?;
    let any =
        Any::decode(ticket.ticket).map_err(|e| status::malformed(format_args!("a ticket: {e}")))?;
    let command =
        Command::try_from(any).map_err(|e| status::malformed(format_args!("a ticket: {e}")))?;
    let handle = match command {
        Command::TicketStatementQuery(ticket) => ticket.statement_handle,
        command => {
            let session = guest.session(&head.headers)?;
            let (schema, batch) = metadata::rows(&session, command).await?;
            return Rows::new(&schema, Source::Batch(Some(batch)));
        }
    };
    let handle = PartHandle::read(&handle)?;
    let held = Held::find(&guest.registry, handle.result, &caller.user)?;
    let (batches, reading) = held.read(handle.part)?;
    let schema = batches.schema().clone();
    Rows::new(&schema, Source::Result(batches, reading))
}

/// The one message of a request.
async fn ticket(body: Incoming) -> Result<Ticket, Status> {
    let whole = Limited::new(body, MOST_TICKET_BYTES + GRPC_PREFIX_BYTES).collect().await;
    let mut bytes: Bytes = match whole {
        Ok(whole) => whole.to_bytes(),
        Err(e) if e.is::<http_body_util::LengthLimitError>() => {
            let what = format_args!("a ticket of more than {MOST_TICKET_BYTES} bytes");
            return Err(status::malformed(what));
        }
        Err(e) => return Err(status::malformed(e)),
    };
    if bytes.len() < GRPC_PREFIX_BYTES {
        return Err(status::malformed("there is no ticket"));
    }
    let (compressed, length) = (bytes.get_u8(), bytes.get_u32() as usize);
    if compressed != 0 {
        return Err(status::unsupported("a compressed ticket"));
    }
    if length != bytes.len() {
        let what = format_args!("{} bytes of a message of {length} bytes", bytes.len());
        return Err(status::malformed(what));
    }
    Ticket::decode(bytes).map_err(|e| status::malformed(format_args!("a ticket: {e}")))
}

enum Source {
    Batch(Option<RecordBatch>),
    Result(Batches, Reading),
}

struct Rows {
    source: Source,
    encoder: Encoder,
    /// Messages that are ready.
    ready: VecDeque<Rope>,
    ended: bool,
}

impl Rows {
    fn new(schema: &Schema, source: Source) -> Result<Rows, Status> {
        let (encoder, first) = Encoder::new(schema).map_err(not_sent)?;
        Ok(Rows { source, encoder, ready: VecDeque::from([first]), ended: false })
    }

    async fn next(&mut self) -> Option<Frame<Rope>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(Frame::data(message));
            }
            if self.ended {
                return None;
            }
            let outcome = match self.batch().await {
                Ok(Some(batch)) => match self.encoder.batch(&batch) {
                    Ok(messages) => {
                        self.ready = messages;
                        continue;
                    }
                    Err(e) => not_sent(e),
                },
                Ok(None) => {
                    if let Source::Result(_, reading) = &self.source {
                        reading.whole();
                    }
                    Status::ok("")
                }
                Err(status) => status,
            };
            self.ended = true;
            let mut trailers = HeaderMap::new();
            if outcome.add_header(&mut trailers).is_err() {
                trailers.insert("grpc-status", HeaderValue::from_static("13"));
            }
            return Some(Frame::trailers(trailers));
        }
    }

    async fn batch(&mut self) -> Result<Option<RecordBatch>, Status> {
        match &mut self.source {
            Source::Batch(batch) => Ok(batch.take()),
            Source::Result(batches, reading) => tokio::select! {
                biased;
                status = reading.cancelled() => Err(status),
                batch = batches.next() => batch.map_err(|e| status::of(&e)),
            },
        }
    }
}

fn frames(rows: Rows) -> impl Stream<Item = Frame<Rope>> {
    unfold(rows, |mut rows| async { rows.next().await.map(|frame| (frame, rows)) })
}

fn not_sent(e: arrow::error::ArrowError) -> Status {
    Status::internal(format!("a result cannot be sent: {e} (SQLSTATE XX000)"))
}
