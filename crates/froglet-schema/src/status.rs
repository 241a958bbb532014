//! How a migration is to run, and how it stands: what `froglet.migrations` shows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::def::ObjectId;

/// How a migration runs; from the session's `froglet.migration_*` settings.
#[derive(Clone, Debug)]
pub struct MigrationOptions {
    /// Threads that scan, at least 1.
    pub scan_threads: usize,
    /// Threads that migrate captured rows again, at least 1.
    pub capture_threads: usize,
    /// The most rows that they scan a second, together; 0 for any number.
    pub rows_per_second: u64,
    /// Whether a writer that violates what is being added fails, instead of the migration.
    pub reject_writers: bool,
    /// Rows that a lazy migration migrates at once, a power of two.
    pub granule_rows: u32,
    /// How it finds out that somebody else is at them.
    pub detection: Detection,
    /// In a cluster: whoever wants rows that are left moves them in his own transaction (SLSM, section 4.2).
    pub is_fused: bool,
    /// In a cluster: rows that are made lazily are to be with those that they are made of.
    pub colocates: bool,
    /// How long after its commit a lazy migration begins with what nobody has touched.
    pub background_delay: Duration,
    /// It begins with that at once, and does not rest while statements are run.
    pub is_hybrid: bool,
    /// How long the values of a dropped column are kept, for who reverts the change.
    pub revert_retention: Duration,
    /// The statement, for `froglet.migrations`.
    pub statement: String,
}

impl Default for MigrationOptions {
    fn default() -> MigrationOptions {
        MigrationOptions {
            scan_threads: 1,
            capture_threads: 1,
            rows_per_second: 0,
            reject_writers: false,
            granule_rows: 1,
            detection: Detection::Tracker,
            is_fused: true,
            colocates: true,
            background_delay: Duration::ZERO,
            is_hybrid: false,
            revert_retention: Duration::ZERO,
            statement: String::new(),
        }
    }
}

/// How a lazy migration finds out that somebody else is at what it is asked for (BullFrog, section 4.3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Detection {
    /// It claims units before it makes their rows: whoever comes second waits.
    #[default]
    Tracker,
    /// It makes the rows first: whoever comes second has made his for nothing.
    OnConflict,
}

/// What an operator may tell a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Ends it: its statement fails.
    Cancel,
    /// It scans nothing for now.
    Pause,
    /// It goes on.
    Resume,
    /// It scans no more rows a second than this; 0 for any number.
    Throttle(u64),
}

/// What a migration is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum MigrationPhase {
    /// Scanning (and capturing).
    Scan = 0,
    /// Loading an index with what was scanned.
    Load = 1,
    /// Scanned; capturing until the commit.
    Capture = 2,
    /// Writers wait; the last captured changes are being finished.
    Flip = 3,
    /// Committed.
    Done = 4,
    /// Rolled back, failed or cancelled.
    Aborted = 5,
    /// Committed; rows are migrated as statements touch them.
    Lazy = 6,
    /// And those that none has touched.
    Background = 7,
}

impl MigrationPhase {
    pub(crate) const ALL: [MigrationPhase; 8] = [
        MigrationPhase::Scan,
        MigrationPhase::Load,
        MigrationPhase::Capture,
        MigrationPhase::Flip,
        MigrationPhase::Done,
        MigrationPhase::Aborted,
        MigrationPhase::Lazy,
        MigrationPhase::Background,
    ];

    /// The word in `froglet.migrations`.
    pub fn name(self) -> &'static str {
        match self {
            MigrationPhase::Scan => "scan",
            MigrationPhase::Load => "load",
            MigrationPhase::Capture => "capture",
            MigrationPhase::Flip => "flip",
            MigrationPhase::Done => "done",
            MigrationPhase::Aborted => "aborted",
            MigrationPhase::Lazy => "lazy",
            MigrationPhase::Background => "background",
        }
    }
}

/// One row of `froglet.migrations`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MigrationStatus {
    /// Its number.
    pub id: u64,
    /// The transaction whose it is.
    pub txn: u64,
    /// The table.
    pub table: ObjectId,
    /// The table's name.
    pub table_name: String,
    /// metadata, verify, column, index or table
    pub kind: String,
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
    /// Rows migrated because a statement touched them.
    pub rows_on_access: u64,
    /// Rows to load into the index that is being loaded, or was last.
    pub rows_to_load: u64,
    /// Of them loaded.
    pub rows_loaded: u64,
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
    /// Its scan is stopped for now.
    pub is_paused: bool,
    /// The most rows that it may scan a second.
    pub rows_per_second: Option<u64>,
    /// The table with whose rows its own are kept, if with any.
    #[serde(default)]
    pub kept_with: Option<String>,
}

impl MigrationStatus {
    /// How far the phase is, in percent: of blocks, or of rows while an index is loaded.
    pub fn percent(&self) -> f64 {
        let (done, of) = match self.phase {
            MigrationPhase::Done => (0, 0),
            MigrationPhase::Load => (self.rows_loaded, self.rows_to_load),
            _ => (self.blocks_done, self.blocks),
        };
        if of == 0 { 100.0 } else { (done as f64 / of as f64 * 1000.0).round() / 10.0 }
    }
}
