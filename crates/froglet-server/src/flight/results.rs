//! Results that wait to be fetched.
//!
//! ```text
//!   held ──ticket──▶ read ──▶ read … all parts to their ends ──▶ gone
//!    │ nobody comes in time, cancelled, its session has ended ──▶ gone
//! ```
//! A part may be fetched again as long as the result is held. What is being read goes on when its
//! session ends: the connection that reads it may be another one.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use arrow_flight::{FlightEndpoint, FlightInfo, Ticket};
use froglet_engine::SqlState;
use froglet_sql::SqlError;
use froglet_sql::columnar::{Batches, Pinned, Strings};
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::watch;
use tonic::Status;

use arrow_flight::sql::{ProstMessageExt, TicketStatementQuery};

use super::handles::{Handle, PartHandle};
use super::sessions::{FlightSession, Fork, Registry};
use super::status;

/// A result.
pub(super) struct Held {
    handle: Handle,
    pinned: Pinned,
    strings: Strings,
    user: String,
    owner: Weak<FlightSession>,
    registry: Arc<Registry>,
    /// Becomes true when it is cancelled.
    cancelled: watch::Sender<bool>,
    reads: Mutex<Reads>,
    /// The session that it was made in, where that is no transaction's: its query is cancelled with it.
    _fork: Mutex<Option<Fork>>,
}

struct Reads {
    open: usize,
    /// Which parts have been read to their ends.
    whole: Vec<bool>,
    last: Instant,
}

/// Somebody reads a part.
pub(super) struct Reading {
    held: Arc<Held>,
    part: usize,
    cancelled: watch::Receiver<bool>,
}

impl Held {
    /// Keeps a result in its session.
    pub(super) fn keep(
        owner: &Arc<FlightSession>,
        pinned: Pinned,
        strings: Strings,
        fork: Option<Fork>,
    ) -> Arc<Held> {
        let whole = vec![false; pinned.parts()];
        let held = Arc::new(Held {
            handle: Handle::new(),
            pinned,
            strings,
            user: owner.caller.user.clone(),
            owner: Arc::downgrade(owner),
            registry: owner.registry().clone(),
            cancelled: watch::Sender::new(false),
            reads: Mutex::new(Reads { open: 0, whole, last: Instant::now() }),
            _fork: Mutex::new(fork),
        });
        let known = Arc::downgrade(&held);
        owner.registry().results.lock().insert(held.handle, known);
        owner.results.lock().insert(held.handle, held.clone());
        held
    }

    /// What the client is told of it.
    pub(super) fn info(&self) -> Result<FlightInfo, Status> {
        let parts = self.pinned.parts();
        let expires = SystemTime::now() + self.registry.result_timeout;
        let expires = expires.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let endpoint = |part| {
            let handle = PartHandle { result: self.handle, part };
            let ticket = TicketStatementQuery { statement_handle: handle.bytes() };
            let ticket = Ticket::new(ticket.as_any().encode_to_vec());
            let mut endpoint = FlightEndpoint::new().with_ticket(ticket);
            endpoint.expiration_time.get_or_insert_default().seconds = expires.as_secs() as i64;
            endpoint
        };
        let endpoints = (0..parts as u32).map(endpoint).collect();
        let rows = self.pinned.rows().and_then(|rows| i64::try_from(rows).ok());
        Ok(FlightInfo::new()
            .try_with_schema(&self.pinned.schema(self.strings))
            .map_err(|e| Status::internal(e.to_string()))?
            .with_endpoints(endpoints)
            .with_ordered(parts == 1)
            .with_total_records(rows.unwrap_or(-1)))
    }

    /// A result by its handle, if it is this user's.
    pub(super) fn find(
        registry: &Registry,
        handle: Handle,
        user: &str,
    ) -> Result<Arc<Held>, Status> {
        let found = registry.results.lock().get(&handle).and_then(Weak::upgrade);
        found.filter(|held| held.user == user).ok_or_else(|| {
            status::of(&SqlError::new(
                SqlState::INVALID_CURSOR_NAME,
                "there is no such result: it has been read, has expired or been cancelled, or its \
                 session has ended",
            ))
        })
    }

    /// Begins to read a part.
    pub(super) fn read(self: &Arc<Held>, part: u32) -> Result<(Batches, Reading), Status> {
        let part = part as usize;
        let parts = self.pinned.parts();
        if part >= parts {
            return Err(status::malformed(format_args!(
                "part {part} of a result of {parts} parts"
            )));
        }
        let batches = self.pinned.open(part, self.strings).map_err(|e| status::of(&e))?;
        self.reads.lock().open += 1;
        let cancelled = self.cancelled.subscribe();
        Ok((batches, Reading { held: self.clone(), part, cancelled }))
    }

    /// Ends it, also for who reads it.
    pub(super) fn cancel(&self) {
        self.cancelled.send_replace(true);
        self.let_go();
    }

    /// Lets it go if nobody has come for it so long.
    pub(super) fn expire(&self, timeout: Duration) {
        let reads = self.reads.lock();
        let late = reads.open == 0 && reads.last.elapsed() > timeout;
        drop(reads);
        if late {
            self.let_go();
        }
    }

    fn let_go(&self) {
        let owned = self.owner.upgrade().and_then(|o| o.results.lock().remove(&self.handle));
        drop(owned);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.registry.results.lock().remove(&self.handle);
    }
}

impl Reading {
    /// Resolves with an error when the result is cancelled.
    pub(super) async fn cancelled(&mut self) -> Status {
        // The sender is in the result, which this keeps.
        let _ = self.cancelled.wait_for(|cancelled| *cancelled).await;
        let why = "canceling statement: its result was cancelled";
        status::of(&SqlError::new(SqlState::QUERY_CANCELED, why))
    }

    /// The part has been read to its end.
    pub(super) fn whole(&self) {
        let mut reads = self.held.reads.lock();
        reads.whole[self.part] = true;
        let all = reads.whole.iter().all(|whole| *whole);
        drop(reads);
        if all {
            self.held.let_go();
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut reads = self.held.reads.lock();
        reads.open -= 1;
        reads.last = Instant::now();
    }
}
