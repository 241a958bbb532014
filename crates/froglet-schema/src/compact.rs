//! Compaction: rows of cold, sparse blocks move together, in transactions like any other.
//!
//! ```text
//!   engine: plan_moves ──▶ move ─ held shared? undo it ─ move ─ … ──▶ commit ──▶ next chunk
//! ```
//!
//! "Mainlining Databases" (VLDB 2021), section 4.3. The engine knows which rows to move where; here is
//! what makes it a transaction: it writes a table under a version of its schema, as every writer does, so a
//! schema change carries its rows over or has it end for nothing.
//!
//! A table that is being migrated is left alone: the engine plans no moves where somebody listens to changes or
//! keeps the past, and a table whose rows or columns are made lazily has none: its places are its units' numbers.
//!
//! A row is not moved while somebody holds it shared: a share is entered under the row's place. Mover and
//! sharer keep to rules R1 and R2 in `froglet_txn::rowlocks`, the mover as one who deletes the row.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use froglet_engine::{CrashPoint, EngineError, RowId, WriteStop};
use froglet_txn::{Isolation, SchemaUse, Strength, Transaction};

use crate::catalog::{Catalog, TableVersion};
use crate::def::ObjectId;
use crate::error::SchemaError;

/// Moves of one transaction, at most: whoever wants such a row waits for its end.
const CHUNK_ROWS: usize = 1024;
/// What they copy, about: their records are in memory until the end.
const CHUNK_BYTES: u64 = 8 << 20;
/// Between two looks for cold, sparse blocks.
const INTERVAL: Duration = Duration::from_millis(500);
/// After one that failed: for want of memory, say.
const INTERVAL_AFTER_ERROR: Duration = Duration::from_secs(30);

impl Catalog {
    /// Moves the rows of a table's sparse blocks together, of all or of the cold ones. Returns how many
    /// were moved; fewer than could be where others are at work.
    pub fn compact(&self, table: ObjectId, cold_only: bool) -> Result<u64, SchemaError> {
        let mut moved = 0;
        loop {
            let Some(version) = self.latest().tables.get(&table).cloned() else { return Ok(moved) };
            // Asked of what is stored: after a restart nothing stands before the table until its migration goes on.
            if version.def.is_being_made() {
                return Ok(moved);
            }
            let plan = version.table.plan_moves(cold_only);
            let mut of_plan = 0;
            for chunk in plan.chunks(chunk_rows(&version)) {
                match self.move_rows(table, chunk)? {
                    Some(rows) => of_plan += rows,
                    None => return Ok(moved + of_plan),
                }
            }
            moved += of_plan;
            // What others are at work on stays as it is.
            if of_plan * 2 < plan.len() as u64 || plan.is_empty() {
                return Ok(moved);
            }
        }
    }

    /// One transaction; none if a schema change is in its way.
    fn move_rows(
        &self,
        table: ObjectId,
        moves: &[(RowId, RowId)],
    ) -> Result<Option<u64>, SchemaError> {
        let mut txn = self.manager().begin(Isolation::ReadCommitted);
        let view = self.begin_statement_at_once(&mut txn, true);
        let version = view.and_then(|view| view.tables.get(&table).cloned());
        let Some(version) = version else { return Ok(None) };
        let used = SchemaUse { table, space: version.def.space, version: version.version };
        txn.note_schema(used);
        let mut moved = 0;
        for &(from, to) in moves {
            moved += u64::from(move_one(&mut txn, &version, from, to)?);
        }
        CrashPoint::CompactionMoved.reached();
        match self.manager().commit_at_once(&mut txn) {
            Some(committed) => {
                committed?;
                CrashPoint::CompactionCommitted.reached();
                Ok(Some(moved))
            }
            None => {
                txn.abort();
                Ok(None)
            }
        }
    }
}

fn chunk_rows(version: &TableVersion) -> usize {
    let (bytes, rows) = (version.table.bytes_estimate(), version.table.row_estimate());
    let row_bytes = (bytes / rows.max(1)).max(1);
    usize::try_from(CHUNK_BYTES / row_bytes).unwrap_or(CHUNK_ROWS).clamp(1, CHUNK_ROWS)
}

/// Whether a row could be moved.
fn move_one(
    txn: &mut Transaction,
    version: &Arc<TableVersion>,
    from: RowId,
    to: RowId,
) -> Result<bool, EngineError> {
    let before = txn.savepoint();
    match version.table.move_row(txn.part(), from, to) {
        Ok(()) => {}
        Err(WriteStop::Engine(error)) => return Err(error),
        Err(_) => return Ok(false),
    }
    let (place, locks) = ((version.def.space, from), txn.manager().row_locks());
    if locks.other_holder(place, txn.id(), Strength::KeyShare).is_some() {
        txn.rollback_to(before);
        return Ok(false);
    }
    Ok(true)
}

/// Runs on the thread `froglet-compactor`.
pub(crate) fn run(catalog: &Weak<Catalog>) {
    while let Some(catalog) = catalog.upgrade() {
        let tables: Vec<ObjectId> = catalog.latest().tables.keys().copied().collect();
        let mut interval = INTERVAL;
        for table in tables {
            if let Err(error) = catalog.compact(table, true) {
                tracing::debug!(table, %error, "a table is not compacted");
                interval = INTERVAL_AFTER_ERROR;
            }
        }
        drop(catalog);
        thread::sleep(interval);
    }
}
