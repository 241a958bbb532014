//! What an idle session remembers of tables whose rows are gone.
//!
//! ```text
//!   DROP, TRUNCATE, a move ── no snapshot needs the rows ──▶ they are freed ──▶ every session is rung
//!   an idle session ── its plans and its catalog hold the table ──▶ it lets go of what is not of the newest catalog
//! ```
//! A plan holds its tables, and with them the memory of their rows: a pool's connection that has looked at a table once
//! would keep it for as long as it has nothing else to do.

use std::sync::atomic::Ordering;

use crate::database::Database;
use crate::prepared::Prepared;
use crate::session::{Block, Session};

impl Database {
    /// Rows of tables were freed.
    pub(crate) fn rows_were_freed(&self) {
        self.find_session(|session| {
            if !session.is_stale.swap(true, Ordering::SeqCst) {
                session.cancel.ring();
            }
            false
        });
    }
}

impl Session {
    /// Whether rows of tables were freed since it has let go of what it remembers of them.
    pub fn is_stale(&self) -> bool {
        self.shared.is_stale.load(Ordering::SeqCst)
    }

    /// Lets go of it. What is asked for again is planned again, as after any change of the schema.
    pub fn forget_stale(&mut self) {
        if !self.shared.is_stale.swap(false, Ordering::SeqCst) {
            return;
        }
        self.cache.clear();
        for named in self.named.values() {
            self.forget_stale_plan(&named.prepared);
        }
        if self.block == Block::Idle {
            self.state.set_planning(&self.db.catalog().latest());
        }
    }

    /// The same of a statement that the client has prepared without a name.
    pub fn forget_stale_plan(&self, prepared: &Prepared) {
        let newest = self.db.catalog().latest().stamp;
        prepared.plan.lock().take_if(|plan| plan.stamp != newest);
        if let Some(inner) = &prepared.inner {
            self.forget_stale_plan(inner);
        }
    }
}
