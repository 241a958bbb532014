//! A socket with its two buffers.
//!
//! One read may bring many messages, and many answers leave in one write: at a Sync after which no
//! statement has arrived yet, at Flush, after an error, or when [`Output`] is large. Whoever sends to a
//! client that does not read waits here, with a bounded buffer and no thread.
//!
//! Long messages are paid for from a budget that all connections share, as their bytes arrive, so
//! that neither a length field nor five hundred clients at once take more memory than that.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use froglet_engine::SqlState;
use froglet_sql::SqlError;
use froglet_txn::{CancelReason, CancelToken, TxnError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::stream::Stream;
use crate::wire::WireError;
use crate::wire::backend::Output;
use crate::wire::frame::{self, Frame};

/// What a connection's input may hold without asking the budget.
const FREE_BYTES: usize = 64 << 10;
/// The least that is read at once.
const READ_BYTES: usize = 8 << 10;

/// How a message, or a packet before startup, is taken off the input.
type Take = fn(&mut BytesMut, &mut BytesMut) -> Result<Frame, WireError>;

/// Why a connection ends.
#[derive(Debug)]
pub enum End {
    /// The client said goodbye, or is gone.
    Closed,
    /// It is told why.
    Fatal(Box<SqlError>),
}

impl End {
    /// The server's doing.
    pub fn fatal(state: SqlState, message: impl Into<String>) -> End {
        End::from(SqlError::new(state, message))
    }
}

impl From<SqlError> for End {
    fn from(error: SqlError) -> End {
        End::Fatal(Box::new(SqlError { fatal: true, ..error }))
    }
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        // There is nobody left to tell.
        End::Closed
    }
}

impl From<&WireError> for SqlError {
    fn from(error: &WireError) -> SqlError {
        SqlError { fatal: error.fatal(), ..SqlError::new(error.sqlstate(), error.to_string()) }
    }
}

/// Memory for long messages, shared by all connections.
#[derive(Debug)]
pub struct Budget {
    free_bytes: AtomicU64,
}

impl Budget {
    /// So much in all.
    pub fn new(bytes: u64) -> Arc<Budget> {
        Arc::new(Budget { free_bytes: AtomicU64::new(bytes) })
    }
}

/// What one connection has taken from the budget.
#[derive(Debug)]
struct Held {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Held {
    fn hold(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let free = &self.budget.free_bytes;
        let taken =
            free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |f| f.checked_sub(more));
        if taken.is_ok() {
            self.bytes += more;
        }
        taken.is_ok()
    }

    fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes > 0 {
            self.budget.free_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

/// A socket with its two buffers.
#[derive(Debug)]
pub struct Channel {
    stream: Stream,
    input: BytesMut,
    /// How long the message is whose beginning has arrived, as far as that is known.
    message_bytes: usize,
    /// What the last short message was in.
    spare: BytesMut,
    held: Held,
    /// Answers to send.
    pub output: Output,
}

impl Channel {
    /// Over a connected socket.
    pub fn new(stream: TcpStream, budget: Arc<Budget>) -> Channel {
        Channel {
            stream: Stream::Plain(stream),
            input: BytesMut::new(),
            message_bytes: 0,
            spare: BytesMut::new(),
            held: Held { budget, bytes: 0 },
            output: Output::default(),
        }
    }

    /// Goes on within TLS. What the client has sent before is nothing that anybody could have put there.
    pub async fn secure(&mut self, acceptor: &TlsAcceptor) -> Result<(), End> {
        if !self.input.is_empty() {
            return Err(End::fatal(
                SqlState::PROTOCOL_VIOLATION,
                "received unencrypted data after SSL request",
            ));
        }
        self.stream.secure(acceptor).await.map_err(|error| {
            tracing::debug!(%error, "a client does not go on with TLS");
            End::Closed
        })
    }

    /// Whether it is within TLS.
    pub fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }

    /// What has arrived and was not taken yet.
    pub fn input(&self) -> &[u8] {
        &self.input
    }

    /// So much of it has been handled where it is.
    pub fn consume(&mut self, bytes: usize) {
        self.input.advance(bytes);
    }

    /// The next message, if it has arrived already.
    pub fn arrived(&mut self) -> Result<Option<(u8, BytesMut)>, End> {
        self.take(frame::take)
    }

    fn take(&mut self, take: Take) -> Result<Option<(u8, BytesMut)>, End> {
        match take(&mut self.input, &mut self.spare).map_err(|e| SqlError::from(&e))? {
            Frame::Whole(kind, body) => Ok(Some((kind, body))),
            Frame::Partial { total_bytes } => {
                self.message_bytes = total_bytes.unwrap_or(0);
                Ok(None)
            }
        }
    }

    /// A message has been handled: the next short one may have its memory.
    pub fn done_with(&mut self, body: BytesMut) {
        if frame::is_copy(&body) {
            self.spare = body;
        }
    }

    /// The next message.
    pub async fn receive(&mut self) -> Result<(u8, BytesMut), End> {
        self.next(frame::take).await
    }

    /// The next packet before startup.
    pub async fn receive_startup(&mut self) -> Result<BytesMut, End> {
        Ok(self.next(frame::take_startup).await?.1)
    }

    /// The body of the next message, which can be nothing but a password's.
    pub async fn receive_password(&mut self) -> Result<BytesMut, End> {
        Ok(self.next(frame::take_password).await?.1)
    }

    /// Dropped while it waits, it loses nothing that has arrived.
    async fn next(&mut self, take: Take) -> Result<(u8, BytesMut), End> {
        loop {
            if let Some(message) = self.take(take)? {
                return Ok(message);
            }
            poll_fn(|cx| self.poll_more(cx)).await?;
        }
    }

    /// Ready when more of the message has arrived that is not there as a whole.
    pub fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), End>> {
        self.make_room(self.message_bytes)?;
        match ready!(pin!(self.stream.read_buf(&mut self.input)).poll(cx))? {
            0 => Poll::Ready(Err(End::Closed)),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn make_room(&mut self, total_bytes: usize) -> Result<(), End> {
        let have = self.input.len();
        if have == 0 && self.input.capacity() > FREE_BYTES {
            self.input = BytesMut::new();
            self.held.release();
        }
        // A long message's buffer doubles as its bytes come, whatever its length field says.
        let want = total_bytes.saturating_sub(have).min(have.max(FREE_BYTES)).max(READ_BYTES);
        if have + want > FREE_BYTES && !self.held.hold((have + want) as u64) {
            return Err(End::fatal(
                SqlState::OUT_OF_MEMORY,
                format!("out of memory: no room for a message of {total_bytes} bytes"),
            ));
        }
        self.input.reserve(want);
        Ok(())
    }

    /// Sends of what is settled as much as the socket takes now.
    fn send_at_once(&mut self) -> Result<(), End> {
        let sent = match self.stream.try_write(self.output.to_send()) {
            Ok(sent) => sent,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            Err(e) => return Err(e.into()),
        };
        self.output.sent(sent);
        Ok(())
    }

    /// Sends what is settled.
    pub async fn send(&mut self, cancel: &CancelToken) -> Result<(), End> {
        self.send_at_once()?;
        let bytes = self.output.to_send().len();
        if bytes == 0 {
            return Ok(());
        }
        let stream = &mut self.stream;
        let mut write = std::pin::pin!(async {
            stream.write_all(self.output.to_send()).await?;
            stream.flush().await
        });
        tokio::select! {
            biased;
            sent = &mut write => sent?,
            why = cancel.cancelled() => match why {
                // Half a message may be out: there is no telling this client anything more.
                TxnError::Shutdown => return Err(End::Closed),
                _ => write.await?,
            },
        }
        self.output.sent(bytes);
        Ok(())
    }

    /// Sends what has been written to a client that has no session: it rests on nothing that others do, or
    /// has been settled.
    pub async fn flush_plain(&mut self) -> Result<(), End> {
        self.output.settle_all();
        let bytes = self.output.to_send().len();
        self.stream.write_all(self.output.to_send()).await?;
        self.stream.flush().await?;
        self.output.sent(bytes);
        Ok(())
    }

    /// Does work for the client. When the client vanishes meanwhile, the work is cancelled: nobody
    /// wants its result, and what it holds others may be waiting for. (The work comes by reference:
    /// the state of a statement is many kilobytes long, too much to be moved for each message.)
    pub async fn watch<T>(
        &self,
        cancel: &CancelToken,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> T {
        tokio::select! {
            biased;
            out = work.as_mut() => return out,
            () = self.stream.vanished() => cancel.cancel(CancelReason::User),
        }
        work.await
    }
}
