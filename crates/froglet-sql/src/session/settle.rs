//! What the client may be told: what an answer rests on is durable first.
//!
//! ```text
//!   rows read ───────────── the newest commit met that may not be durable ─┐
//!   the catalog ─────────── the commit that made its version               ├─▶ seen      ─┐
//!   an error, a note heard ─ whatever was committed by then ───────────────┘              ├─▶ settle
//!   nextval, setval ─────── their note in the log ─────────────────────────▶ rests_on    ─┤
//!   an own commit ───────── its record in the log ─────────────────────────▶ committed   ─┘
//! ```
//! An own commit whose record cannot be made durable is in doubt: its bytes may be in the file or not, and only a
//! restart tells. Nothing of it, and nothing that others have read of it, is told to anybody; the session
//! ends with 08007 (docs/notes/2026-11-25-durable-answers.md).

use std::sync::Arc;

use froglet_engine::{Lsn, SqlState, Ts};
use froglet_txn::{Committed, TxnError};

use crate::database::Database;
use crate::error::SqlError;
use crate::session::Session;

/// A wait for what has been told so far, which needs no session.
pub struct Settling {
    db: Arc<Database>,
    seen: Ts,
    catalog: Ts,
    rests_on: Lsn,
    committed: Lsn,
}

impl Settling {
    /// Returns when it is durable; an error ends the connection.
    pub async fn wait(self) -> Result<(), SqlError> {
        let manager = self.db.manager();
        let settled = async {
            manager.wait_committed(self.committed).await?;
            manager.wait_durable(self.rests_on).await?;
            manager.wait_durable_ts(self.seen.max(self.catalog)).await
        };
        settled.await.map_err(|e: TxnError| SqlError { fatal: true, ..SqlError::from(e) })?;
        self.db.catalog().note_durable(self.catalog);
        Ok(())
    }
}

/// Whether an error tells of what others have committed. A conflict only says that it is worth trying again.
fn tells_of_commits(state: SqlState) -> bool {
    !matches!(&state.as_str()[..2], "08" | "40" | "53" | "57" | "58")
}

impl Session {
    /// Before anything is told to the client: returns when every commit that it may rest on is
    /// durable (unless `synchronous_commit` is off).
    pub async fn settle(&mut self) -> Result<(), SqlError> {
        if self.is_settled() {
            return Ok(());
        }
        self.settling().wait().await
    }

    /// The same wait, for when the session is gone.
    pub fn settling(&mut self) -> Settling {
        let db = self.db.clone();
        if self.is_settled() {
            let none = Ts(0);
            return Settling { db, seen: none, catalog: none, rests_on: Lsn(0), committed: Lsn(0) };
        }
        let catalog = db.catalog().undurable_ts().unwrap_or_default();
        let rests_on = self.state.rests_on();
        Settling { db, seen: self.seen, catalog, rests_on, committed: self.committed }
    }

    /// Whether all that the client is told now rests on what is durable, or need not.
    pub fn is_settled(&mut self) -> bool {
        if let Some(txn) = &mut self.txn {
            self.seen = self.seen.max(txn.seen());
        }
        if !self.settings.hot().synchronous_commit {
            return true;
        }
        let (manager, catalog) = (self.db.manager(), self.db.catalog());
        let position = self.state.rests_on().max(self.committed);
        if position != Lsn(0) && manager.engine().durable() < position {
            return false;
        }
        // Whatever it was answered by, no later catalog was at hand.
        let Some(made) = catalog.undurable_ts() else { return manager.is_durable(self.seen) };
        let is_durable = manager.is_durable(self.seen.max(made));
        if is_durable {
            catalog.note_durable(made);
        }
        is_durable
    }

    /// The client is told of an error.
    pub fn note_error(&mut self, error: &SqlError) {
        if tells_of_commits(error.state) {
            self.note_everything();
        }
    }

    /// The client is told of something that may rest on all that is committed by now.
    pub fn note_everything(&mut self) {
        self.seen = self.seen.max(self.db.manager().engine().now());
    }

    /// The transaction has committed: the client is told when that is durable, if it waits for it.
    pub(crate) fn note_committed(&mut self, committed: Committed, durably: bool) {
        self.seen = self.seen.max(committed.seen);
        if durably && committed.ts.is_some() {
            self.committed = self.committed.max(committed.lsn);
        }
    }
}
