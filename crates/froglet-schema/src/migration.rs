//! The eager driver: scan and capture (Tesseract, paper 000, section 5).
//!
//! ```text
//!        open feed                      statement returns                    commit
//!            │                                 │                               │
//!   scan     ├──block 0──┬──block 1──┬── … ────┤                               │
//!   threads  │           └ in any order        │                               │
//!   capture  ├─ drain ─ migrate again ─ drain ─┼─ … until the flip ────────────┤ final drain
//! ```
//!
//! One [`Migration`] per transaction, table and row space, with the steps of every statement in order.
//! Snapshots are relaxed: each row is migrated from its version committed when it is read, whenever that
//! is, and again whenever a commit changes it afterwards.
//!
//! An index is built from all rows at once, if the engine can: its step loads after the scan, and
//! captured rows wait for that (`build.rs`).
//!
//! M1: the feed is open before the scan counts the blocks, so a row is either in a block that is
//!     scanned, or its insert reaches the feed.
//! M2: steps run on a row in order, so a column computed from another new column follows it.
//! M3: once writers stand still and the feed is drained, every step holds for every row.
//! M4: what has changed a row since it was looked at is in the feed, or was drained and not applied.
//!
//! Capture is in `migration/capture.rs`. Left out on purpose: the driver knows nothing of flips; see
//! `flip.rs`.

mod capture;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use froglet_engine::{CrashPoint, Feed, RowId, SpaceId, SqlState, Table, TxnId};
use froglet_txn::{Limits, TxnError, aside};
use parking_lot::{Mutex, RwLock};
use rustix::process::setpriority_process;
use tokio::sync::oneshot;

use crate::def::{ObjectId, TableDef};
use crate::derive::Derivation;
use crate::error::SchemaError;
use crate::flip::TableState;
use crate::pace::Pace;
use crate::status::{MigrationOptions, MigrationPhase, MigrationStatus};
use crate::step::{Step, StepKind};

/// How old the migrating transaction's read view may grow while it scans: garbage is not collected
/// below it, and writers pay for fresh memory instead.
const VIEW_AGE: Duration = Duration::from_millis(5);
/// Looks at rows that violate and are changed all the time, before they are left for the flip.
const SETTLE_ROUNDS: usize = 8;
/// With this many suspects a scan does not go on before it has looked at them again: many rows of
/// an index that is not to be may share a key.
const SUSPECTS_AT_ONCE: usize = 64;

/// The migration of one table by one transaction.
pub struct Migration {
    /// Its number.
    pub id: u64,
    /// Whose.
    pub owner: TxnId,
    /// The table.
    pub table_id: ObjectId,
    /// What writers of the table look at; of one that others have.
    state: Option<Arc<TableState>>,
    table_name: String,
    table: Arc<dyn Table>,
    /// Closed when the migration ends: an open feed costs every writer of the table.
    feed: Mutex<Option<Box<dyn Feed>>>,
    /// Changed rows that the feed has handed over and that are not migrated again yet.
    drained: Mutex<Vec<RowId>>,
    steps: RwLock<Vec<Arc<Step>>>,
    /// Held while captured changes are applied; whoever needs capture to stand still holds it.
    applying: Mutex<()>,
    paused: AtomicBool,
    /// The timestamp of the read view that everything migrated is in line with, while capture stands still for a
    /// statement of the owner's; else 0.
    steady: Arc<AtomicU64>,
    stopped: AtomicBool,
    cancelled: AtomicBool,
    /// It has a step that writers are to fail at.
    rejecting: AtomicBool,
    capture_threads: AtomicUsize,
    pace: Pace,
    phase: AtomicU32,
    blocks: AtomicU64,
    blocks_done: AtomicU64,
    rows_scanned: AtomicU64,
    rows_to_load: AtomicU64,
    rows_loaded: AtomicU64,
    rows_captured: AtomicU64,
    started_us: i64,
    ended_us: AtomicU64,
    kind: Mutex<&'static str>,
    statement: Mutex<String>,
    failure: Mutex<Option<SchemaError>>,
    failure_text: Mutex<Option<String>>,
}

/// How far the scan stands behind whoever else wants a core: at 5 a thread gets a third of what one of
/// the server's other threads gets. Capture does not stand behind, or a backlog would grow.
const SCAN_NICENESS: i32 = 5;

/// Runs a part of a scan on a thread of its own.
fn spawn(
    name: String,
    work: impl FnOnce() -> Result<(), SchemaError> + Send + 'static,
) -> oneshot::Receiver<Result<(), SchemaError>> {
    let (tx, rx) = oneshot::channel();
    thread::Builder::new()
        .name(name)
        .spawn(move || {
            // Linux: of this thread. Where it is refused the scan has its full share.
            let _ = setpriority_process(None, SCAN_NICENESS);
            // The waiting statement may have been dropped with its session.
            let _ = tx.send(work());
        })
        .expect("a thread can be started");
    rx
}

/// Starts work that is in nobody's hurry.
pub(crate) fn spawn_in_background(name: String, work: impl FnOnce() + Send + 'static) {
    drop(spawn(name, || {
        work();
        Ok(())
    }));
}

async fn joined(part: oneshot::Receiver<Result<(), SchemaError>>) -> Result<(), SchemaError> {
    part.await.unwrap_or_else(|_| {
        Err(SchemaError::refused(SqlState::INTERNAL_ERROR, "a scan thread panicked"))
    })
}

/// Waits for a scan. Meanwhile `renew` is called every few milliseconds; `stop` is called if the scan is
/// to end before its time.
async fn until_done(
    scanned: impl Future<Output = Result<(), SchemaError>>,
    limits: &Limits,
    renew: &mut (dyn FnMut() + Send),
    stop: &(dyn Fn() + Sync),
) -> Result<(), SchemaError> {
    tokio::pin!(scanned);
    let interrupted = loop {
        tokio::select! {
            outcome = &mut scanned => return outcome,
            e = limits.exceeded() => break e,
            () = tokio::time::sleep(VIEW_AGE) => renew(),
        }
    };
    // The scan threads stop at their next block; nobody may see their work afterwards.
    stop();
    let _ = scanned.await;
    Err(interrupted.into())
}

pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

impl Migration {
    /// Opens the feed and starts the capture thread.
    pub fn start(
        id: u64,
        owner: TxnId,
        def: &TableDef,
        state: Option<Arc<TableState>>,
        table: Arc<dyn Table>,
    ) -> Arc<Migration> {
        let migration = Arc::new(Migration {
            id,
            owner,
            table_id: def.id,
            table_name: def.name.clone(),
            state,
            feed: Mutex::new(Some(table.open_feed())),
            drained: Mutex::default(),
            table,
            steps: RwLock::default(),
            applying: Mutex::new(()),
            paused: AtomicBool::new(false),
            steady: Arc::default(),
            stopped: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            rejecting: AtomicBool::new(false),
            capture_threads: AtomicUsize::new(1),
            pace: Pace::default(),
            phase: AtomicU32::new(MigrationPhase::Scan as u32),
            blocks: AtomicU64::new(0),
            blocks_done: AtomicU64::new(0),
            rows_scanned: AtomicU64::new(0),
            rows_to_load: AtomicU64::new(0),
            rows_loaded: AtomicU64::new(0),
            rows_captured: AtomicU64::new(0),
            started_us: now_us(),
            ended_us: AtomicU64::new(0),
            kind: Mutex::new("verify"),
            statement: Mutex::default(),
            failure: Mutex::default(),
            failure_text: Mutex::default(),
        });
        let capture = migration.clone();
        thread::Builder::new()
            .name("froglet-capture".to_owned())
            .spawn(move || capture.capture())
            .expect("a thread can be started");
        CrashPoint::MigrationStarted.reached();
        migration
    }

    /// See the field.
    pub(crate) fn steady(&self) -> &Arc<AtomicU64> {
        &self.steady
    }

    /// The row space that it watches.
    pub fn space(&self) -> SpaceId {
        self.table.space()
    }

    /// Steps so far, for savepoints.
    pub fn step_count(&self) -> usize {
        self.steps.read().len()
    }

    /// Forgets steps after a savepoint, and how one of them failed.
    pub fn truncate_steps(&self, count: usize) {
        let _still = self.applying.lock();
        self.steps.write().truncate(count);
        if !self.cancelled.load(Ordering::SeqCst) {
            *self.failure.lock() = None;
        }
        self.slow_writers(Duration::ZERO);
    }

    /// The steps.
    pub fn steps(&self) -> Vec<Arc<Step>> {
        self.steps.read().clone()
    }

    /// Adds a step and scans the table for it. Returns when the scan is done and its suspects
    /// have been looked at again. Meanwhile `renew` is called every few milliseconds.
    pub async fn run_step(
        self: &Arc<Self>,
        step: Step,
        options: &MigrationOptions,
        limits: &Limits,
        renew: &mut (dyn FnMut() + Send),
    ) -> Result<(), SchemaError> {
        let outcome = self.scan_for(step, options, limits, renew).await;
        self.remember(outcome)
    }

    /// Keeps the text of the first error for `froglet.migrations`.
    fn remember<T>(&self, outcome: Result<T, SchemaError>) -> Result<T, SchemaError> {
        if let Err(e) = &outcome {
            self.failure_text.lock().get_or_insert_with(|| e.to_string());
        }
        outcome
    }

    async fn scan_for(
        self: &Arc<Self>,
        step: Step,
        options: &MigrationOptions,
        limits: &Limits,
        renew: &mut (dyn FnMut() + Send),
    ) -> Result<(), SchemaError> {
        let step = Arc::new(step);
        let blocks = step.table.block_count();
        step.begin_scan(blocks);
        self.capture_for(&step, options);
        if !step.scans() {
            return Ok(());
        }
        self.set_phase(MigrationPhase::Scan);
        let scanned = self.scan(&step, blocks, options.scan_threads.max(1));
        let stop = || self.cancelled.store(true, Ordering::SeqCst);
        let outcome = until_done(scanned, limits, renew, &stop).await;
        step.end_build();
        outcome?;
        self.check_failure()?;
        self.end_scan(&step, step.end_scan())
    }

    /// Which step of which statement it is at.
    pub(crate) fn is_for(&self, step: &Step, options: &MigrationOptions) {
        *self.kind.lock() = step.kind_name();
        self.statement.lock().clone_from(&options.statement);
    }

    /// Captured rows are this step's, too, from now on.
    fn capture_for(&self, step: &Arc<Step>, options: &MigrationOptions) {
        self.capture_threads.fetch_max(options.capture_threads, Ordering::Relaxed);
        if options.rows_per_second > 0 {
            self.pace.throttle(options.rows_per_second);
        }
        if options.reject_writers {
            step.reject_writers();
            if !self.rejecting.swap(true, Ordering::SeqCst) {
                self.count_rejecting(1);
            }
        }
        let _still = self.applying.lock();
        self.steps.write().push(step.clone());
    }

    fn count_rejecting(&self, more: i64) {
        if let Some(state) = &self.state {
            state.rejecting.fetch_add(more, Ordering::SeqCst);
        }
    }

    /// Whether it is under way and has steps that writers of the table are to fail at.
    pub(crate) fn is_rejecting(&self) -> bool {
        self.rejecting.load(Ordering::SeqCst) && !self.stopped.load(Ordering::SeqCst)
    }

    /// A step's scan is over: what waited for that is captured now, and its suspects are looked at.
    fn end_scan(&self, step: &Step, waiting: Vec<RowId>) -> Result<(), SchemaError> {
        CrashPoint::ScanDone.reached();
        self.drained.lock().extend(waiting);
        {
            let _still = self.applying.lock();
            self.settle(step)?;
        }
        if matches!(step.kind, StepKind::Verify { .. } | StepKind::Child(_)) {
            CrashPoint::ConstraintScanned.reached();
        }
        self.set_phase(MigrationPhase::Capture);
        Ok(())
    }

    /// Adds a step of a derivation to the migration of each of its tables, and runs its scan. Returns
    /// as [`Migration::run_step`] does.
    pub(crate) async fn run_derivation(
        derivation: &Arc<Derivation>,
        sources: &[(Arc<Migration>, Arc<Step>)],
        options: &MigrationOptions,
        limits: &Limits,
        renew: &mut (dyn FnMut() + Send),
    ) -> Result<(), SchemaError> {
        for (migration, step) in sources {
            migration.capture_for(step, options);
            migration.set_phase(MigrationPhase::Scan);
        }
        let mut renew = || {
            renew();
            if !sources.iter().all(|(migration, _)| migration.goes_on()) {
                derivation.stop();
            }
        };
        let scanned = Migration::scan_derivation(derivation, sources, options.scan_threads.max(1));
        let mut outcome = until_done(scanned, limits, &mut renew, &|| derivation.stop()).await;
        for (migration, _) in sources {
            outcome = migration.check_failure().and(outcome);
        }
        let mut waiting = if outcome.is_ok() { derivation.end_scan() } else { HashMap::new() };
        for (migration, step) in sources {
            let rows = waiting.remove(&migration.space()).unwrap_or_default();
            outcome = outcome.and_then(|()| migration.end_scan(step, rows));
            outcome = migration.remember(outcome);
        }
        outcome
    }

    async fn scan_derivation(
        derivation: &Arc<Derivation>,
        sources: &[(Arc<Migration>, Arc<Step>)],
        threads: usize,
    ) -> Result<(), SchemaError> {
        let migrations: Vec<_> = sources.iter().map(|(migration, _)| migration.clone()).collect();
        for (migration, space) in migrations.iter().map(|m| (m, m.space())) {
            migration.blocks.fetch_add(derivation.blocks_of(space), Ordering::Relaxed);
        }
        let stopping = derivation.clone();
        let progress = move |space, rows| {
            if let Some(migration) = migrations.iter().find(|m| m.space() == space) {
                migration.rows_scanned.fetch_add(rows, Ordering::Relaxed);
                migration.blocks_done.fetch_add(1, Ordering::Relaxed);
                CrashPoint::ScanBlockDone.reached();
                let goes_on = || !stopping.is_stopped() && migrations.iter().all(|m| m.goes_on());
                // It may be a task of the queries' runtime that reads.
                aside(|| migration.pace.keep(rows, goes_on));
            }
        };
        let derivation = derivation.clone();
        let scan = move || derivation.scan(threads, progress);
        joined(spawn("froglet-scan-0".to_owned(), scan)).await
    }

    /// Scans the blocks below `blocks`, on threads of its own, and loads an index that was built.
    async fn scan(
        self: &Arc<Self>,
        step: &Arc<Step>,
        blocks: u32,
        threads: usize,
    ) -> Result<(), SchemaError> {
        self.blocks.fetch_add(u64::from(blocks), Ordering::Relaxed);
        let scanned_before = self.rows_scanned.load(Ordering::Relaxed);
        let next = Arc::new(AtomicU32::new(0));
        let scan = |i| {
            let (this, step, next) = (self.clone(), step.clone(), next.clone());
            spawn(format!("froglet-scan-{i}"), move || {
                let outcome = this.scan_blocks(&step, &next, blocks);
                if outcome.is_err() {
                    next.store(blocks, Ordering::Relaxed);
                }
                outcome
            })
        };
        let scans: Vec<_> = (0..threads.min(blocks as usize)).map(scan).collect();
        let mut first = Ok(());
        for scan in scans {
            let outcome = joined(scan).await;
            first = first.and(outcome);
        }
        first?;
        if !step.is_built() {
            return Ok(());
        }
        let rows = self.rows_scanned.load(Ordering::Relaxed) - scanned_before;
        self.rows_loaded.store(0, Ordering::Relaxed);
        self.rows_to_load.store(rows, Ordering::Relaxed);
        self.set_phase(MigrationPhase::Load);
        let (this, step) = (self.clone(), step.clone());
        joined(spawn("froglet-load".to_owned(), move || this.load(&step))).await
    }

    /// Loads an index that was built, and enters the captured rows that waited for it.
    fn load(&self, step: &Step) -> Result<(), SchemaError> {
        CrashPoint::IndexScanned.reached();
        let mut judged = Ok(());
        let is_whole = step.load_build(&mut |loading| {
            self.rows_loaded.store(loading.entries, Ordering::Relaxed);
            if loading.duplicates.len() >= SUSPECTS_AT_ONCE {
                judged = self.judge(step, &std::mem::take(&mut loading.duplicates));
            }
            self.pace.keep(0, || self.goes_on());
            CrashPoint::IndexLoaded.reached();
            judged.is_ok() && self.goes_on()
        })?;
        judged?;
        if !is_whole {
            return Err(TxnError::Canceled.into());
        }
        CrashPoint::IndexPublished.reached();
        self.rows_loaded.store(self.rows_to_load.load(Ordering::Relaxed), Ordering::Relaxed);
        for (_, rows) in step.end_deferral() {
            let _still = self.applying.lock();
            if !self.goes_on() {
                return Err(TxnError::Canceled.into());
            }
            step.run_rows(self.owner, &rows)?;
            CrashPoint::IndexCaughtUp.reached();
        }
        Ok(())
    }

    /// Pairs of rows that had the same key when they were scanned: fails if two have it now, so that
    /// an index which is not to be is not loaded to its end.
    fn judge(&self, step: &Step, candidates: &[(RowId, RowId)]) -> Result<(), SchemaError> {
        let _still = self.applying.lock();
        self.apply_captured()?;
        if let Some((a, b, error)) = step.first_shared(self.owner, candidates)
            && ![a, b].iter().any(|rid| self.drain_changed().binary_search(rid).is_ok())
        {
            return Err(error);
        }
        step.suspect_all(candidates);
        Ok(())
    }

    /// Looks at a step's suspects again, and fails if one is a violation for sure. Those that are
    /// changed all the time are left for the flip. The caller holds `applying`.
    fn settle(&self, step: &Step) -> Result<(), SchemaError> {
        let beside = step.beside();
        for _ in 0..SETTLE_ROUNDS {
            self.apply_captured()?;
            if let Some(beside) = &beside {
                let _still = beside.applying.lock();
                beside.apply_captured()?;
            }
            if !step.look_again(self.owner)? {
                break;
            }
            let changed = self.drain_changed();
            if let Some(error) = step.violation(&|rid| changed.binary_search(&rid).is_ok()) {
                return Err(error);
            }
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        !self.cancelled.load(Ordering::SeqCst) && !self.stopped.load(Ordering::SeqCst)
    }

    fn scan_blocks(&self, step: &Step, next: &AtomicU32, blocks: u32) -> Result<(), SchemaError> {
        loop {
            let block = next.fetch_add(1, Ordering::Relaxed);
            if block >= blocks {
                return Ok(());
            }
            if !self.goes_on() {
                return Err(TxnError::Canceled.into());
            }
            let rows = step.run_block(self.owner, block)?;
            self.rows_scanned.fetch_add(rows, Ordering::Relaxed);
            self.blocks_done.fetch_add(1, Ordering::Relaxed);
            CrashPoint::ScanBlockDone.reached();
            self.pace.keep(rows, || self.goes_on());
            if step.suspect_count() >= SUSPECTS_AT_ONCE {
                let _still = self.applying.lock();
                self.settle(step)?;
            }
        }
    }

    /// The last word before the commit: writers stand still, capture is paused and caught up.
    pub fn verify_at_flip(&self, is_asked: &dyn Fn(&Step) -> bool) -> Result<(), SchemaError> {
        self.remember(self.verify_steps(is_asked))
    }

    fn verify_steps(&self, is_asked: &dyn Fn(&Step) -> bool) -> Result<(), SchemaError> {
        let steps = self.steps();
        let _still = self.applying.lock();
        for step in steps.iter().filter(|step| is_asked(step)) {
            if let StepKind::Child(watch) = &step.kind
                && watch.take_dirty()
            {
                for block in 0..self.table.block_count() {
                    step.run_block(self.owner, block)?;
                }
            }
            step.look_again(self.owner)?;
            if let Some(error) = step.violation(&|_| false) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Stops it from outside: its statement or commit fails with 57014.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.fail(TxnError::Canceled.into());
    }

    /// Stops its scan for now, or lets it go on. Capture goes on in any case.
    pub fn pause_scan(&self, paused: bool) {
        self.pace.pause(paused);
    }

    /// Its scan reads no more rows a second than this; 0 for any number.
    pub fn throttle_scan(&self, rows_per_second: u64) {
        self.pace.throttle(rows_per_second);
    }

    fn fail(&self, error: SchemaError) {
        self.failure_text.lock().get_or_insert_with(|| error.to_string());
        self.failure.lock().get_or_insert(error);
    }

    /// The error of a capture thread that failed, or of a cancel.
    pub fn check_failure(&self) -> Result<(), SchemaError> {
        match self.failure.lock().take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Where it is.
    pub fn set_phase(&self, phase: MigrationPhase) {
        self.phase.store(phase as u32, Ordering::Relaxed);
    }

    /// Ends the capture thread.
    pub fn stop(&self, phase: MigrationPhase) {
        if self.stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        self.slow_writers(Duration::ZERO);
        if self.rejecting.load(Ordering::SeqCst) {
            self.count_rejecting(-1);
        }
        *self.feed.lock() = None;
        for step in std::mem::take(&mut *self.steps.write()) {
            step.release();
        }
        self.set_phase(phase);
        self.ended_us.store(now_us().unsigned_abs(), Ordering::Release);
    }

    /// What is to be remembered of it if its transaction commits now.
    pub(crate) fn status_if_done(&self) -> MigrationStatus {
        let ended_us = Some(now_us());
        MigrationStatus { phase: MigrationPhase::Done, backlog: 0, ended_us, ..self.status() }
    }

    /// Whether its last word is said: its status stays what it is.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended_us.load(Ordering::Acquire) != 0
    }

    /// One row of `froglet.migrations`.
    pub fn status(&self) -> MigrationStatus {
        let ended = self.ended_us.load(Ordering::Relaxed);
        MigrationStatus {
            id: self.id,
            txn: self.owner.0,
            table: self.table_id,
            table_name: self.table_name.clone(),
            kind: (*self.kind.lock()).to_owned(),
            statement: self.statement.lock().clone(),
            phase: MigrationPhase::ALL[self.phase.load(Ordering::Relaxed) as usize],
            blocks_done: self.blocks_done.load(Ordering::Relaxed),
            blocks: self.blocks.load(Ordering::Relaxed),
            rows_scanned: self.rows_scanned.load(Ordering::Relaxed),
            rows_on_access: 0,
            rows_to_load: self.rows_to_load.load(Ordering::Relaxed),
            rows_loaded: self.rows_loaded.load(Ordering::Relaxed),
            rows_captured: self.rows_captured.load(Ordering::Relaxed),
            backlog: if ended == 0 { self.backlog() as u64 } else { 0 },
            started_us: self.started_us,
            ended_us: (ended != 0).then(|| i64::try_from(ended).unwrap_or(i64::MAX)),
            error: self.failure_text.lock().clone(),
            is_paused: ended == 0 && self.pace.is_paused(),
            rows_per_second: self.pace.limit(),
            kept_with: None,
        }
    }
}
