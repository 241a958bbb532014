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

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use froglet_engine::batch::value_at;
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Layout, Row, RowId, RowWrite, SpaceId, Table, Ts, TxnId,
    Value,
};
use froglet_txn::{Isolation, Transaction, TxnManager};
use parking_lot::Mutex;

use crate::error::SchemaError;
use crate::migration::now_us;
use crate::status::{MigrationPhase, MigrationStatus};

/// The row space of the records.
pub(crate) const HISTORY_SPACE: SpaceId = SpaceId(1);
/// Migrations that have ended, and are remembered.
const REMEMBERED: usize = 256;

/// See the module.
pub(crate) struct History {
    manager: Arc<TxnManager>,
    table: Arc<dyn Table>,
    /// Ended, by number.
    ended: Mutex<VecDeque<MigrationStatus>>,
    /// Where the records are.
    rows: Mutex<HashMap<u64, RowId>>,
}

fn layout() -> Layout {
    // Column 1 of the row space has been of another type, and may be in its checkpoint.
    let record = ColumnSpec { id: ColumnId(2), ty: ColumnType::Text, missing: Value::Null };
    Layout { columns: vec![record], indexes: Vec::new() }
}

impl History {
    /// Reads the records; makes their row space, in a new database. These migrations go on.
    pub(crate) fn open(
        manager: Arc<TxnManager>,
        goes_on: &HashSet<u64>,
    ) -> Result<History, SchemaError> {
        let engine = manager.engine().clone();
        if !engine.spaces().contains(&HISTORY_SPACE) {
            engine.create_space(HISTORY_SPACE)?;
        }
        let table = engine.open(HISTORY_SPACE, Arc::new(layout()))?;
        let (mut found, mut rows) = (Vec::new(), HashMap::new());
        let snapshot = engine.relaxed(TxnId(0));
        for block in 0..table.block_count() {
            let read = table.read_block(&snapshot, block, &[0])?;
            for (at, rid) in read.rids.iter().enumerate() {
                let record = value_at(read.batch.column(0), at, ColumnType::Text);
                // A record of a later version is none that could be shown.
                let Some(status) = decode(&record) else { continue };
                rows.insert(status.id, *rid);
                found.push(status);
            }
        }
        found.sort_by_key(|status| status.id);
        let history = History { manager, table, ended: Mutex::default(), rows: Mutex::new(rows) };
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
        let mut rids = Vec::new();
        self.write(|table, txn| {
            let inserted = table.insert(txn.part(), &[encode(status)], &mut rids);
            inserted.map_err(|(_, stop)| crate::target::unexpected(&stop))
        })?;
        self.rows.lock().extend(rids.first().map(|rid| (status.id, *rid)));
        Ok(())
    }

    /// It stands, or has ended, like this if the transaction commits.
    pub(crate) fn record(
        &self,
        txn: &mut Transaction,
        status: &MigrationStatus,
    ) -> Result<(), SchemaError> {
        let Some(rid) = self.rows.lock().get(&status.id).copied() else { return Ok(()) };
        let write = RowWrite::Update { rid, columns: &[0], values: &encode(status) };
        let written = self.table.write(txn.part(), Ts::LATEST, &[write]);
        written.map_err(|(_, stop)| crate::target::unexpected(&stop))
    }

    /// It has ended without being done.
    pub(crate) fn aborted(&self, status: &MigrationStatus) -> Result<(), SchemaError> {
        self.write(|_, txn| self.record(txn, status))
    }

    /// One that has ended is remembered from now on, instead of the oldest.
    pub(crate) fn remember(&self, status: MigrationStatus) -> Result<(), SchemaError> {
        let mut ended = self.ended.lock();
        let at = ended.partition_point(|other| other.id < status.id);
        ended.insert(at, status);
        while ended.len() > REMEMBERED {
            let Some(oldest) = ended.pop_front() else { break };
            let Some(rid) = self.rows.lock().remove(&oldest.id) else { continue };
            self.write(|table, txn| {
                let deleted = table.write(txn.part(), Ts::LATEST, &[RowWrite::Delete { rid }]);
                deleted.map_err(|(_, stop)| crate::target::unexpected(&stop))
            })?;
        }
        Ok(())
    }

    fn write(
        &self,
        work: impl FnOnce(&dyn Table, &mut Transaction) -> Result<(), SchemaError>,
    ) -> Result<(), SchemaError> {
        let mut txn = self.manager.begin(Isolation::ReadCommitted);
        work(&*self.table, &mut txn)?;
        let committed = self.manager.commit_at_once(&mut txn);
        committed.expect("a transaction of no table's schema has nothing to prepare")?;
        Ok(())
    }
}

fn encode(status: &MigrationStatus) -> Row {
    let json = serde_json::to_string(status).expect("a status has only string keys");
    vec![Value::text(json)]
}

fn decode(record: &Value) -> Option<MigrationStatus> {
    match record {
        Value::Text(json) => serde_json::from_str(json).ok(),
        _ => None,
    }
}
