//! A bound statement on its way to being run.
//!
//! ```text
//!   Bound ──Execute──▶ Rows ──limit reached──▶ Rows ──the end──▶ Exhausted
//!     └────Execute──▶ Spent                       (a command without rows runs once)
//! ```

use std::sync::Arc;

use froglet_engine::{IdMap, Value};
use froglet_sql::{Prepared, RowStream, Rows, Tag};

use super::rows::Formats;

/// The portals of a connection. Most clients only ever use the unnamed one.
#[derive(Default)]
pub(crate) struct Portals {
    unnamed: Option<Portal>,
    named: IdMap<String, Portal>,
}

impl Portals {
    pub(super) fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    pub(super) fn insert(&mut self, name: &str, portal: Portal) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name.to_owned(), portal);
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Portal> {
        if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) }
    }

    pub(super) fn clear(&mut self) {
        self.unnamed = None;
        self.named.clear();
    }
}

/// A portal.
pub(crate) struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) formats: Formats,
    pub(super) state: State,
}

/// How far a portal has come.
pub(super) enum State {
    /// Not begun; the parameters wait.
    Bound(Vec<Value>),
    /// Some rows may be left.
    Rows(Box<Cursor>),
    /// All rows are sent: more executions return none, with this tag.
    Exhausted(Tag),
    /// It cannot be run again.
    Spent,
}

/// A result, and how far it was sent.
pub(super) struct Cursor {
    pub(super) stream: RowStream,
    /// Rows the stream has handed out, of which the first `next` are sent.
    pub(super) rows: Option<Rows>,
    pub(super) next: usize,
}
