//! Capture: rows that commits change while a migration is under way are migrated again (Tesseract, paper
//! 000, section 5.2).
//!
//! ```text
//!   commits ──▶ feed ──drain──▶ changed rows ──every step, in order──▶ migrated again
//!                                    ▲                 │
//!                                    └── a step fails ─┘
//!
//!   rounds    one after another, beside writers   ever shorter, writers slowed down    the last, writers
//!                                                 where that is needed                 stand still
//!             capture thread                      reduce_backlogs                      catch_up_and_pause
//! ```
//!
//! A round takes all that has changed since the one before, each row once.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use froglet_engine::{CrashPoint, RowId, SqlState, Ts};
use parking_lot::MutexGuard;

use super::Migration;
use crate::error::SchemaError;
use crate::step::{Step, StepKind};

/// How long capture rests when there is little to do.
const CAPTURE_REST: Duration = Duration::from_millis(1);
/// Captured rows below which that is little: what is written meanwhile comes with the next, and
/// writers seldom meet capture at the feed.
const CAPTURE_LITTLE: usize = 1024;
/// A round of capture that takes no longer may be left for writers to wait for: at once, and where few
/// rows have come meanwhile.
const FLIP_TIME: Range<Duration> = Duration::from_millis(2)..Duration::from_millis(50);
/// So many are few.
const FLIP_BACKLOG: usize = 256;
/// Rounds of capture that are none the shorter for writers that are held up as long as they may be, before
/// writers wait in any case.
const FUTILE_ROUNDS: u32 = 8;
/// By how much the commits of writers are held up where capture does not keep up with them: at first,
/// and at most.
const WRITER_DELAY: Range<Duration> = Duration::from_micros(200)..Duration::from_millis(20);

impl Migration {
    /// Brings everything captured so far in line, and keeps capture still until
    /// [`Migration::resume`]. The caller has made writers stand still.
    pub fn catch_up_and_pause(&self) -> Result<(), SchemaError> {
        let _still = self.applying.lock();
        self.steady.store(0, Ordering::SeqCst);
        self.paused.store(true, Ordering::SeqCst);
        self.slow_writers(Duration::ZERO);
        self.check_failure()?;
        while self.remember(self.apply_captured())? > 0 {}
        Ok(())
    }

    /// Capture stands still, in line with the read view of a statement.
    pub(crate) fn is_in_line_with(&self, ts: Ts) {
        self.steady.store(ts.0, Ordering::SeqCst);
    }

    /// Lets capture go on.
    pub fn resume(&self) {
        self.steady.store(0, Ordering::SeqCst);
        self.paused.store(false, Ordering::SeqCst);
    }

    /// How much waits to be captured.
    pub fn backlog(&self) -> usize {
        let waiting = self.feed.lock().as_ref().map_or(0, |feed| feed.backlog());
        waiting + self.drained.lock().len()
    }

    /// Works the backlogs of a transaction's migrations down, round by round, while writers still write,
    /// so that they stand still for less afterwards. Where a round does not take half as long as the
    /// one before, the writers of all its tables are slowed down, the more the longer that goes on, until they
    /// have stood still or the caller has failed. Gives up where that does not help: a flip must
    /// come, whatever the load.
    pub fn reduce_backlogs(migrations: &[Arc<Migration>]) -> Result<(), SchemaError> {
        let (mut delay, mut before, mut futile) = (Duration::ZERO, Duration::MAX, 0);
        while futile < FUTILE_ROUNDS {
            let started = Instant::now();
            // In the order in which they were begun: a table comes before those that are made of it.
            for migration in migrations {
                let _still = migration.applying.lock();
                migration.check_failure()?;
                migration.remember(migration.apply_captured())?;
            }
            let took = started.elapsed();
            let backlog: usize = migrations.iter().map(|migration| migration.backlog()).sum();
            if took <= FLIP_TIME.start || took <= FLIP_TIME.end && backlog <= FLIP_BACKLOG {
                break;
            }
            if took > before / 2 {
                futile += u32::from(delay == WRITER_DELAY.end);
                // Long rounds are few: what they need is not to be found out step by step alone.
                delay = (4 * delay).max(took / 100).clamp(WRITER_DELAY.start, WRITER_DELAY.end);
                migrations.iter().for_each(|migration| migration.slow_writers(delay));
            }
            before = took;
        }
        Ok(())
    }

    /// Holds the commits of the table's writers up by so much.
    pub(crate) fn slow_writers(&self, delay: Duration) {
        if let Some(state) = &self.state {
            let us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
            state.delay_us.store(us, Ordering::SeqCst);
        }
    }

    /// The capture thread.
    pub(super) fn capture(&self) {
        while !self.stopped.load(Ordering::SeqCst) {
            if self.capture_once() < CAPTURE_LITTLE {
                thread::sleep(CAPTURE_REST);
            }
        }
    }

    /// Captures what there is, unless it is to stand still or has failed.
    fn capture_once(&self) -> usize {
        let _still = self.applying.lock();
        if self.paused.load(Ordering::SeqCst) || self.failure.lock().is_some() {
            return 0;
        }
        self.apply_captured().unwrap_or_else(|e| {
            self.fail(e);
            0
        })
    }

    /// Migrates again what has changed. The caller holds `applying`.
    pub(super) fn apply_captured(&self) -> Result<usize, SchemaError> {
        let rows = std::mem::take(&mut *self.drain_changed());
        if rows.is_empty() {
            return Ok(0);
        }
        for step in &self.steps() {
            if let Err(e) = self.run_step_for(step, &rows) {
                // The transaction may go back to before this step, and on.
                self.drained.lock().extend(rows);
                return Err(e);
            }
            CrashPoint::CaptureStepDone.reached();
        }
        CrashPoint::CaptureRoundDone.reached();
        self.rows_captured.fetch_add(rows.len() as u64, Ordering::Relaxed);
        Ok(rows.len())
    }

    /// The rows that have changed since they were migrated, ascending. The caller holds `applying`.
    pub(super) fn drain_changed(&self) -> MutexGuard<'_, Vec<RowId>> {
        let mut rows = self.drained.lock();
        if let Some(feed) = self.feed.lock().as_mut() {
            feed.drain(&mut rows);
        }
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Runs a step for captured rows, ascending: on several threads, if there are many and may be several.
    fn run_step_for(&self, step: &Step, rows: &[RowId]) -> Result<(), SchemaError> {
        // Units are made under one lock.
        let is_apart = !matches!(step.kind, StepKind::Derive(_));
        let threads = if is_apart { self.capture_threads.load(Ordering::Relaxed) } else { 1 };
        let parts = parts_of(rows, threads.min(rows.len() / CAPTURE_LITTLE));
        let [first, others @ ..] = &parts[..] else { return step.run_rows(self.owner, rows) };
        thread::scope(|scope| {
            let run = |rows| move || step.run_rows(self.owner, rows);
            let others: Vec<_> = others.iter().map(|rows| scope.spawn(run(*rows))).collect();
            let mut outcome = step.run_rows(self.owner, first);
            for other in others {
                let panicked = |_| {
                    Err(SchemaError::refused(SqlState::INTERNAL_ERROR, "a capture thread panicked"))
                };
                outcome = outcome.and(other.join().unwrap_or_else(panicked));
            }
            outcome
        })
    }
}

/// Rows, ascending, in about so many parts of which no two have rows of one block; none, if there is to
/// be but one.
fn parts_of(rows: &[RowId], parts: usize) -> Vec<&[RowId]> {
    if parts < 2 {
        return Vec::new();
    }
    let mut found = Vec::with_capacity(parts);
    let (mut rest, size) = (rows, rows.len().div_ceil(parts));
    while !rest.is_empty() {
        let at = rest.len().min(size);
        let block = rest[at - 1].block();
        let end = at + rest[at..].partition_point(|row| row.block() == block);
        let (part, others) = rest.split_at(end);
        found.push(part);
        rest = others;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_rows_are_parted_at_blocks() {
        let rows = |blocks: &[u32]| -> Vec<RowId> {
            let rows = blocks.iter().enumerate().map(|(slot, block)| RowId::of(*block, slot));
            rows.collect()
        };
        let parted = |blocks: &[u32], parts| -> Vec<usize> {
            parts_of(&rows(blocks), parts).into_iter().map(<[RowId]>::len).collect()
        };
        assert!(parted(&[0, 0, 1, 1], 1).is_empty());
        assert_eq!(parted(&[0, 0, 1, 1], 2), [2, 2]);
        assert_eq!(parted(&[0, 0, 0, 1], 2), [3, 1]);
        assert_eq!(parted(&[0, 0, 0, 0], 3), [4]);
        assert_eq!(parted(&[0, 1, 2, 3, 4, 5], 4), [2, 2, 2]);
        assert!(parted(&[], 2).is_empty());
    }
}
