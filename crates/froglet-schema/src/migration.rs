//! (in work)

use froglet_engine::TxnId;

use crate::def::ObjectId;

/// How a migration runs; from the session's `froglet.migration_*` settings.
#[derive(Clone, Debug)]
pub struct MigrationOptions {
    /// Threads that scan, at least 1.
    pub scan_threads: usize,
    /// The statement, for `froglet.migrations`.
    pub statement: String,
}

/// What a migration is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationPhase {
    /// Scanning (and capturing).
    Scan,
    /// Scanned; capturing until the commit.
    Capture,
    /// Writers wait; the last captured changes are being finished.
    Flip,
    /// Committed.
    Done,
    /// Rolled back, failed or cancelled.
    Aborted,
}

/// One row of `froglet.migrations`.
#[derive(Clone, Debug)]
pub struct MigrationStatus {
    /// Its number.
    pub id: u64,
    /// Whose.
    pub txn: TxnId,
    /// The table.
    pub table: ObjectId,
    /// The table's name.
    pub table_name: String,
    /// metadata, verify, column, index or table
    pub kind: &'static str,
    /// The statement.
    pub statement: String,
    /// Where it is.
    pub phase: MigrationPhase,
    /// Blocks scanned.
    pub blocks_done: u64,
    /// Blocks to scan.
    pub blocks: u64,
    /// Rows migrated by the scan.
    pub rows_scanned: u64,
    /// Rows migrated again because they changed.
    pub rows_captured: u64,
    /// Changes that wait to be captured.
    pub backlog: u64,
    /// Microseconds since 1970 UTC.
    pub started_us: i64,
    /// Microseconds since 1970 UTC.
    pub ended_us: Option<i64>,
    /// Why it failed.
    pub error: Option<String>,
}
