//! What has become of migrations, for `froglet.migrations`: rows of row space 1, which outlive the server.
//!
//! ```text
//!   record text: JSON of MigrationStatus
//!
//!   begun     written by a transaction of its own
//!   done      written by the migrating transaction
//!   aborted   written by a transaction of its own, soon after its end
//! ```
//!
//! H1: a record says that a migration is done if and only if its transaction has committed.
//! H2: a record without an end that a restart finds is of a migration that ended with the server, but for
//!     lazy ones: of these the definitions of their tables say that they go on.
//! H3: where several servers have the database each remembers what it has begun itself, and records nothing: to a server
//!     that starts the others' migrations are not over.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use froglet_engine::{ColumnId, RowId, SpaceId};
use froglet_txn::{Transaction, TxnManager};
use parking_lot::Mutex;

use crate::error::SchemaError;
use crate::migration::now_us;
use crate::records::Records;
use crate::status::{MigrationPhase, MigrationStatus};

/// The row space of the records.
pub(crate) const HISTORY_SPACE: SpaceId = SpaceId(1);
/// Column 1 of the row space has been of another type, and may be in its checkpoint.
const RECORD: ColumnId = ColumnId(2);
/// Migrations that have ended, and are remembered.
const REMEMBERED: usize = 256;

/// See the module.
pub(crate) struct History {
    records: Records<MigrationStatus>,
    /// Nothing is recorded [H3].
    is_shared: bool,
    /// Ended, by number.
    ended: Mutex<VecDeque<MigrationStatus>>,
    /// Where the records are.
    rows: Mutex<HashMap<u64, RowId>>,
}

impl History {
    /// Reads the records; makes their row space, in a new database. These migrations go on.
    pub(crate) fn open(
        manager: Arc<TxnManager>,
        goes_on: &HashSet<u64>,
    ) -> Result<History, SchemaError> {
        let is_shared = manager.engine().is_shared();
        let records: Records<MigrationStatus> = Records::open(manager, HISTORY_SPACE, RECORD)?;
        let (mut found, mut rows) = (Vec::new(), HashMap::new());
        let recorded = if is_shared { Vec::new() } else { records.read()? };
        for (rid, status) in recorded {
            rows.insert(status.id, rid);
            found.push(status);
        }
        found.sort_by_key(|status| status.id);
        let (ended, rows) = (Mutex::default(), Mutex::new(rows));
        let history = History { records, is_shared, ended, rows };
        for mut status in found {
            if goes_on.contains(&status.id) {
                continue;
            }
            if status.ended_us.is_none() {
                status.phase = MigrationPhase::Aborted;
                status.ended_us = Some(now_us());
                status.error = Some("the server ended while it was under way".to_owned());
                history.aborted(&status)?;
            }
            history.remember(status)?;
        }
        Ok(history)
    }

    /// A number that no migration has had.
    pub(crate) fn next_id(&self) -> u64 {
        self.ended.lock().back().map_or(1, |status| status.id + 1)
    }

    /// Those that have ended, oldest first.
    pub(crate) fn ended(&self) -> Vec<MigrationStatus> {
        self.ended.lock().iter().cloned().collect()
    }

    /// A migration begins.
    pub(crate) fn begun(&self, status: &MigrationStatus) -> Result<(), SchemaError> {
        if self.is_shared {
            return Ok(());
        }
        let rid = self.records.alone(|txn| self.records.insert(txn, status))?;
        self.rows.lock().insert(status.id, rid);
        Ok(())
    }

    /// It stands, or has ended, like this if the transaction commits.
    pub(crate) fn record(
        &self,
        txn: &mut Transaction,
        status: &MigrationStatus,
    ) -> Result<(), SchemaError> {
        let Some(rid) = self.rows.lock().get(&status.id).copied() else { return Ok(()) };
        self.records.update(txn, rid, status)
    }

    /// It has ended without being done.
    pub(crate) fn aborted(&self, status: &MigrationStatus) -> Result<(), SchemaError> {
        match self.is_shared {
            true => Ok(()),
            false => self.records.alone(|txn| self.record(txn, status)),
        }
    }

    /// One that has ended is remembered from now on, instead of the oldest.
    pub(crate) fn remember(&self, status: MigrationStatus) -> Result<(), SchemaError> {
        let mut ended = self.ended.lock();
        let at = ended.partition_point(|other| other.id < status.id);
        ended.insert(at, status);
        while ended.len() > REMEMBERED {
            let Some(oldest) = ended.pop_front() else { break };
            let Some(rid) = self.rows.lock().remove(&oldest.id) else { continue };
            self.records.alone(|txn| self.records.delete(txn, rid))?;
        }
        Ok(())
    }
}
