//! What functions see of their session: the time, the user, its sequences.
//!
//! Expressions outlive the statement's borrow of the session (a portal may be suspended), so this
//! part of it is shared.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::database::{Database, SessionShared};
use crate::error::Notice;
use crate::settings::Settings;

/// The shared part of a session.
pub struct SessionState {
    pub(crate) db: Arc<Database>,
    pub(crate) shared: Arc<SessionShared>,
    inner: Mutex<Inner>,
}

struct Inner {
    settings: Settings,
    transaction_start: Option<SystemTime>,
    statement_start: SystemTime,
    /// Sequence id → the last value given here.
    given: HashMap<u32, i64>,
    last_given: Option<u32>,
    notices: Vec<Notice>,
}

impl SessionState {
    pub(crate) fn new(
        db: &Arc<Database>,
        shared: &Arc<SessionShared>,
        settings: &Settings,
    ) -> SessionState {
        SessionState {
            db: db.clone(),
            shared: shared.clone(),
            inner: Mutex::new(Inner {
                settings: settings.clone(),
                transaction_start: None,
                statement_start: SystemTime::now(),
                given: HashMap::new(),
                last_given: None,
                notices: Vec::new(),
            }),
        }
    }

    pub(crate) fn begin_transaction(&self) {
        self.inner.lock().transaction_start = None;
    }

    pub(crate) fn begin_statement(&self, now: SystemTime) {
        self.inner.lock().statement_start = now;
    }

    pub(crate) fn set_settings(&self, settings: &Settings) {
        self.inner.lock().settings = settings.clone();
    }

    pub(crate) fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.inner.lock().notices)
    }

    pub(crate) fn forget_sequences(&self) {
        let mut inner = self.inner.lock();
        inner.given.clear();
        inner.last_given = None;
    }
}
