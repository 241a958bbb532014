//! One client's connection.
//!
//! ```text
//!   startup ──▶ idle ──Query──▶ simple ─────────────────▶ ReadyForQuery ──▶ idle
//!                │                                              ▲
//!                └──Parse, Bind, …──▶ extended ──Sync───────────┤
//!                                        │ error                │
//!                                        └──▶ skipping ──Sync───┘
//!   Terminate, a vanished client, a fatal error: the session is dropped, its transaction aborts
//! ```
//!
//! C1: a statement's answer is in the buffer before its transaction may end, and leaves it after
//!     the commit is durable. A larger one leaves in pieces, each after the commits that its
//!     transaction has seen so far are durable.
//! C2: between ReadyForQuery and the next message nothing of an implicit transaction is left, and
//!     no portal of one.
//! C3: a panic in a session ends that session with XX000; its transaction aborts as it is dropped.
//! C4: where what a session has written cannot be settled, it is cut off before the last words
//!     (`wire/backend.rs`, O1).

mod at_once;
pub mod channel;
mod copy;
mod extended;
pub(crate) mod login;
mod portal;
mod rows;
mod simple;
pub mod startup;
pub mod stream;

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use froglet_engine::SqlState;
use froglet_sql::{Session, SqlError, TransactionStatus};
use froglet_txn::{CancelToken, TxnError};
use futures::FutureExt;
use tokio::time::sleep;

use crate::loops::{is_alone, was_busy};
use crate::wire::frame;
use crate::wire::frontend::{self, Frontend};
use at_once::Progress;
use channel::{Channel, End};
use portal::Portals;

/// How long a client that is told goodbye may take to listen.
const GOODBYE: Duration = Duration::from_secs(2);
/// So much of answers that came together is sent without waiting for the others.
const TOGETHER_BYTES: usize = 8 << 10;

/// Why a statement, or a message, or the connection is over.
#[derive(Debug)]
pub(crate) enum Stop {
    /// An error: the client is told, and the connection goes on.
    Error(Box<SqlError>),
    /// The connection ends.
    End(End),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        if error.fatal { Stop::End(error.into()) } else { Stop::Error(Box::new(error)) }
    }
}

impl From<End> for Stop {
    fn from(end: End) -> Stop {
        Stop::End(end)
    }
}

/// One client's connection, from its startup on.
pub(crate) struct Connection {
    channel: Channel,
    session: Session,
    cancel: Arc<CancelToken>,
    portals: Portals,
    /// The unnamed statement.
    unnamed: Option<Arc<froglet_sql::Prepared>>,
    /// After an error in the extended protocol: everything up to Sync is ignored.
    skipping: bool,
    /// The next statement was tried at once and has something to wait for.
    declined: bool,
    /// Bytes of the output that answer requests which are over, and have not been sent yet.
    owed_bytes: usize,
}

impl Connection {
    pub(crate) fn new(channel: Channel, mut session: Session) -> Connection {
        session.can_be_notified();
        Connection {
            cancel: session.cancel_token(),
            channel,
            session,
            portals: Portals::default(),
            unnamed: None,
            skipping: false,
            declined: false,
            owed_bytes: 0,
        }
    }

    /// Serves the client until it goes. Returns its last words.
    pub(crate) async fn serve(mut self) {
        let served = AssertUnwindSafe(self.serve_messages()).catch_unwind().await;
        let end = served.unwrap_or_else(|panic| {
            tracing::error!(panic = panic_text(&*panic), "a session panicked");
            self.channel.output.cut_to_settled();
            End::fatal(SqlState::INTERNAL_ERROR, format!("internal error: {}", panic_text(&*panic)))
        });
        let Connection { mut channel, mut session, portals, .. } = self;
        let End::Fatal(error) = end else { return };
        let settling = (!channel.output.is_settled()).then(|| session.settling());
        // Others may wait for this session's rows: they are let go before the goodbye.
        drop(portals);
        drop(session);
        if let Some(settling) = settling {
            match tokio::time::timeout(GOODBYE, settling.wait()).await {
                Ok(Ok(())) => channel.output.cut_to_whole(),
                Ok(Err(_)) | Err(_) => channel.output.cut_to_settled(),
            }
        }
        channel.output.error(&error);
        let _ = tokio::time::timeout(GOODBYE, channel.flush_plain()).await;
    }

    async fn serve_messages(&mut self) -> End {
        if let Err(end) = self.greet().await {
            return end;
        }
        loop {
            if let Err(end) = self.serve_next().await {
                return end;
            }
        }
    }

    /// Handles what has arrived, or waits for more.
    async fn serve_next(&mut self) -> Result<(), End> {
        self.session.set_alone(is_alone());
        match self.at_once() {
            Ok(Progress::Ready) => return self.flush_unless_more().await,
            Ok(Progress::Executed) => return Ok(()),
            Ok(Progress::None) => {}
            Err(stop) => return self.fail(b'E', stop).await,
        }
        self.send_owed().await?;
        let Some((kind, body)) = self.channel.arrived()? else {
            was_busy();
            if self.session.has_notifications() {
                self.notifications();
                self.flush().await?;
            }
            return self.more().await;
        };
        let outcome = self.handle(kind, &body).await;
        self.channel.done_with(body);
        outcome
    }

    async fn greet(&mut self) -> Result<(), End> {
        let output = &mut self.channel.output;
        output.authentication_ok();
        for (name, value) in self.session.parameters() {
            output.parameter_status(name, &value);
        }
        output.backend_key_data(self.session.pid(), self.session.secret());
        self.ready().await
    }

    /// Returns when more of the next message has arrived, or why there will be none.
    async fn more(&mut self) -> Result<(), End> {
        let Connection { channel, cancel, session, unnamed, .. } = self;
        let mut too_long = session.idle_timeout().map(|timeout| Box::pin(sleep(timeout)));
        poll_fn(|cx| {
            if let Poll::Ready(more) = channel.poll_more(cx) {
                return Poll::Ready(more);
            }
            cancel.listen(cx);
            if session.has_notifications() {
                return Poll::Ready(Ok(()));
            }
            if session.is_stale() {
                session.forget_stale();
                unnamed.iter().for_each(|prepared| session.forget_stale_plan(prepared));
            }
            match cancel.check() {
                Ok(()) => {}
                Err(TxnError::Shutdown) => {
                    return Poll::Ready(Err(SqlError::from(TxnError::Shutdown).into()));
                }
                // A cancel request that finds nothing to cancel is over.
                Err(_) => cancel.rearm(),
            }
            match &mut too_long {
                Some(sleep) => {
                    sleep.as_mut().poll(cx).map(|()| Err(session.idle_timeout_error().into()))
                }
                None => Poll::Pending,
            }
        })
        .await
    }

    async fn handle(&mut self, kind: u8, body: &[u8]) -> Result<(), End> {
        let message = match frontend::decode(kind, body) {
            Ok(message) => message,
            Err(_) if self.skipping && kind != b'S' => return Ok(()),
            Err(e) => {
                self.session.note_failure();
                self.fail(kind, SqlError::from(&e).into()).await?;
                return Ok(());
            }
        };
        if self.skipping && !matches!(message, Frontend::Sync | Frontend::Terminate) {
            return Ok(());
        }
        let outcome = match message {
            Frontend::Query(text) => self.query(text).await,
            Frontend::Sync => self.sync().await,
            Frontend::Terminate => return Err(End::Closed),
            // What is left of a COPY that failed.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => Ok(()),
            Frontend::Password => Err(End::fatal(
                SqlState::PROTOCOL_VIOLATION,
                "a password was sent and none was asked for",
            )
            .into()),
            Frontend::FunctionCall => {
                self.session.note_failure();
                Err(SqlError::unsupported("the function call protocol").into())
            }
            other => self.extended(other).await,
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(stop) => self.fail(kind, stop).await,
        }
    }

    /// A message of this kind failed: the client is told and put where the protocol says.
    async fn fail(&mut self, kind: u8, stop: Stop) -> Result<(), End> {
        let error = match stop {
            Stop::Error(error) if error.fatal => return Err((*error).into()),
            Stop::Error(error) => error,
            Stop::End(end) => return Err(end),
        };
        self.notices();
        self.tell(&error);
        if matches!(kind, b'Q' | b'F' | b'S') {
            self.skipping = false;
            self.end_implicit(false).await?;
            return self.ready().await;
        }
        self.skipping = true;
        self.flush().await
    }

    /// Outside a transaction block no portal outlives its transaction, nor keeps its read view.
    fn drop_portals_when_idle(&mut self) {
        if self.session.status() == TransactionStatus::Idle {
            self.portals.clear();
            self.session.forget_portals();
        }
    }

    /// Ends an implicit transaction; the client learns if that fails.
    async fn end_implicit(&mut self, ok: bool) -> Result<(), End> {
        self.drop_portals_when_idle();
        let ended = pin!(self.session.finish_implicit(ok)).await;
        self.tell_end(ended)
    }

    fn tell_end(&mut self, ended: Result<(), SqlError>) -> Result<(), End> {
        match ended {
            Ok(()) => Ok(()),
            Err(error) if error.fatal => Err(error.into()),
            Err(error) => {
                self.tell(&error);
                Ok(())
            }
        }
    }

    fn tell(&mut self, error: &SqlError) {
        self.session.note_error(error);
        self.channel.output.error(error);
    }

    /// ReadyForQuery, and everything out.
    async fn ready(&mut self) -> Result<(), End> {
        self.write_ready();
        self.flush().await
    }

    fn write_ready(&mut self) {
        self.notices();
        self.notifications();
        for (name, value) in self.session.parameter_changes() {
            self.channel.output.parameter_status(name, &value);
        }
        self.channel.output.ready_for_query(self.session.status());
    }

    /// Sends what has been written, unless the next statement is there: what needs no waiting is answered
    /// together, as it came.
    async fn flush_unless_more(&mut self) -> Result<(), End> {
        let written = self.channel.output.waiting();
        if written > TOGETHER_BYTES || !frame::peek(self.channel.input()).is_some_and(is_bind) {
            return self.flush().await;
        }
        self.owed_bytes = written;
        Ok(())
    }

    /// Sends the answers that others have been added to, before anything that may wait.
    async fn send_owed(&mut self) -> Result<(), End> {
        let owed = std::mem::take(&mut self.owed_bytes);
        if owed == 0 {
            return Ok(());
        }
        self.settle(owed).await?;
        self.channel.send(&self.cancel).await
    }

    /// Returns when everything is durable that the first bytes of what has been written rest on.
    async fn settle(&mut self, bytes: usize) -> Result<(), End> {
        if !self.session.is_settled() {
            self.session.settle().await?;
        }
        self.channel.output.settle(bytes);
        Ok(())
    }

    /// Sends what has been written, once all that it rests on is durable.
    async fn flush(&mut self) -> Result<(), End> {
        self.owed_bytes = 0;
        self.settle(self.channel.output.waiting()).await?;
        self.channel.send(&self.cancel).await
    }

    fn notices(&mut self) {
        for notice in self.session.take_notices() {
            self.channel.output.notice(&notice);
        }
    }

    fn notifications(&mut self) {
        for note in self.session.take_notifications() {
            self.channel.output.notification(note.pid, &note.channel, &note.payload);
        }
    }

    /// CommandComplete, after what the statement had to say.
    fn complete(&mut self, tag: &str) {
        self.notices();
        self.channel.output.command_complete(tag);
    }
}

fn is_bind((kind, ..): (u8, &[u8], &[u8])) -> bool {
    kind == b'B'
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests;
