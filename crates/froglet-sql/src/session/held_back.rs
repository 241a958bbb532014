//! froglet.held_back: who keeps old versions of rows from being collected, and since when.
//!
//! ```text
//!   engine: read views, keepers ──▶ whose? ──▶ session (by its transaction), time travel, checkpoint, lazy migration
//! ```
//!
//! Of what lies between the oldest view and the present little is kept (see `prune` in froglet-memory), but for rows
//! that have come and gone; and a lazy migration keeps the sources of its own.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use froglet_engine::{HeldBack, Holder};

use crate::database::Database;
use crate::error::SqlError;

/// Whoever holds back so long is named to a client that is refused memory.
const LONG: Duration = Duration::from_secs(5);

/// A row of froglet.held_back.
#[derive(Clone, Debug)]
pub struct HeldBackRow {
    /// The session, if it is one's.
    pub pid: Option<i32>,
    /// Who it is, or what for.
    pub held_by: String,
    /// For how long.
    pub age: Option<Duration>,
    /// The timestamp that is read as of.
    pub as_of: u64,
    /// How many timestamps were given since.
    pub behind: u64,
    /// Of which tables only.
    pub tables: Vec<String>,
}

impl HeldBackRow {
    /// Since when, in microseconds since 1970.
    pub fn since_us(&self) -> Option<i64> {
        let since = SystemTime::now().checked_sub(self.age?)?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_micros()).ok()
    }
}

impl Database {
    /// Everybody, the oldest first.
    pub(crate) fn held_back(&self) -> Vec<HeldBackRow> {
        let engine = self.manager().engine();
        let mut all = engine.held_back();
        let now = engine.now();
        all.sort_by_key(|held| held.ts);
        all.into_iter().map(|held| self.held_back_row(&held, now.0)).collect()
    }

    fn held_back_row(&self, held: &HeldBack, now: u64) -> HeldBackRow {
        let mut pid = None;
        let held_by = match held.holder {
            Holder::Transaction(id) => {
                pid = self.pid_of(id);
                match pid {
                    Some(_) => "transaction".to_owned(),
                    // Its view is kept by a cursor, a result that waits to be fetched, or who takes it.
                    None => format!("what is still read of transaction {id}, which has ended"),
                }
            }
            Holder::Side => "a lookup or a schema change".to_owned(),
            Holder::Past => "time travel (froglet.retention)".to_owned(),
            Holder::Checkpoint => "a checkpoint".to_owned(),
            Holder::Kept => "a reader of a lazy migration's sources".to_owned(),
            Holder::Keeper(_) => "a lazy migration".to_owned(),
        };
        let catalog = self.catalog().latest();
        let is_kept = |space| held.spaces.contains(&space);
        let tables = catalog.tables.values().filter(|table| is_kept(table.def.space));
        let mut tables: Vec<String> =
            tables.map(|table| format!("{}.{}", table.def.schema, table.def.name)).collect();
        tables.sort_unstable();
        HeldBackRow {
            pid,
            held_by,
            age: held.age,
            as_of: held.ts.0,
            behind: now.saturating_sub(held.ts.0),
            tables,
        }
    }
}

/// Says in the hint of a 53200 who holds back old versions, if somebody has for long.
pub(crate) fn explain(db: &Database, error: SqlError) -> SqlError {
    let is_long = |held: &HeldBackRow| held.age.is_none_or(|age| age >= LONG) && held.behind > 0;
    let held = db.held_back();
    let Some(oldest) = held.iter().find(|held| is_long(held)) else { return error };
    let who = match oldest.pid {
        Some(pid) => format!("the transaction of the session with pid {pid}"),
        None => oldest.held_by.clone(),
    };
    let since = match oldest.age {
        Some(age) => format!(" for {} seconds", age.as_secs()),
        None => String::new(),
    };
    error.hint(format!(
        "Old versions of rows are held back by {who}{since}: see froglet.held_back. End it (pg_terminate_backend), \
         delete rows, or start the server with a larger memory_limit."
    ))
}
