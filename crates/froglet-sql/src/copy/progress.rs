//! How far a COPY is: `pg_stat_progress_copy`.
//!
//! The numbers are counted where the work is done, on whichever thread, and read by others at any time. A
//! session shows its COPY from when it has begun until it is dropped, however it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::database::SessionShared;

/// A COPY's numbers.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    relid: u32,
    to: bool,
    file: bool,
    bytes: AtomicU64,
    bytes_total: AtomicU64,
    rows: AtomicU64,
}

impl Progress {
    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_bytes_total(&self, bytes: u64) {
        self.bytes_total.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

/// A COPY that others can see.
pub(crate) struct Shown {
    progress: Arc<Progress>,
    session: Arc<SessionShared>,
}

impl Shown {
    /// Of a table (0: of a query), to or from a file or the client.
    pub(crate) fn begin(session: &Arc<SessionShared>, relid: u32, to: bool, file: bool) -> Shown {
        let progress = Arc::new(Progress { relid, to, file, ..Progress::default() });
        *session.copy.lock() = Some(progress.clone());
        Shown { progress, session: session.clone() }
    }

    /// To be counted on.
    pub(crate) fn share(&self) -> Arc<Progress> {
        self.progress.clone()
    }
}

impl std::ops::Deref for Shown {
    type Target = Progress;

    fn deref(&self) -> &Progress {
        &self.progress
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let mut shown = self.session.copy.lock();
        if shown.as_ref().is_some_and(|other| Arc::ptr_eq(other, &self.progress)) {
            *shown = None;
        }
    }
}

/// One row of `pg_stat_progress_copy`.
#[derive(Clone, Copy, Debug)]
pub struct CopyRow {
    /// pid
    pub pid: i32,
    /// relid; 0 for a query
    pub relid: u32,
    /// command
    pub command: &'static str,
    /// type
    pub kind: &'static str,
    /// bytes_processed
    pub bytes: i64,
    /// bytes_total; 0 where nobody knows
    pub bytes_total: i64,
    /// tuples_processed
    pub rows: i64,
}

impl CopyRow {
    pub(crate) fn of(pid: i32, progress: &Progress) -> CopyRow {
        let number = |counter: &AtomicU64| {
            i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
        };
        CopyRow {
            pid,
            relid: progress.relid,
            command: if progress.to { "COPY TO" } else { "COPY FROM" },
            kind: if progress.file { "FILE" } else { "PIPE" },
            bytes: number(&progress.bytes),
            bytes_total: number(&progress.bytes_total),
            rows: number(&progress.rows),
        }
    }
}
