//! One history, operation by operation, on the engine and on the model.

use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};

use froglet_engine::env::{Fault, FaultKind, FaultPoint, MemEnv};
use froglet_engine::{
    Direction, Engine, EngineError, EngineTxn, Feed, RowId, Savepoint, Snapshot, SqlState, Table,
    TxnId,
};

use crate::Host;
use crate::check::{Outcome, Reader, ensure};
use crate::history::{CrashOp, History, Op, ViewOp};
use crate::model::{Event, Model, put_note};
use crate::recover;
use crate::tables::TABLES;

const OPEN_TXNS_MAX: usize = 5;
const OPEN_VIEWS_MAX: usize = 5;
const OPEN_FEEDS_MAX: usize = 3;

/// An open transaction and its savepoints: the engine's, and the model's count of writes.
pub(crate) struct OpenTxn {
    pub txn: Box<dyn EngineTxn>,
    pub marks: Vec<(Savepoint, usize)>,
}

/// An engine that is up, with its tables under both layouts: narrow and wide.
pub(crate) struct Up {
    pub engine: Arc<dyn Engine>,
    pub tables: [[Arc<dyn Table>; 2]; TABLES],
}

/// A history under way.
pub(crate) struct Run<'h> {
    pub host: &'h dyn Host,
    pub env: MemEnv,
    /// None only while the engine is down.
    pub up: Option<Up>,
    /// The log has failed: only a restart helps.
    pub log_failed: bool,
    pub model: Model,
    pub txns: Vec<OpenTxn>,
    pub views: Vec<Arc<Snapshot>>,
    pub feeds: Vec<(usize, Box<dyn Feed>)>,
    next_txn: u64,
    /// For each keeper that there ever was its tables.
    pub keepers: Vec<Vec<usize>>,
    checks: usize,
}

/// See [`crate::run_history`].
pub(crate) fn run(host: &dyn Host, history: &History) -> Outcome {
    let env = MemEnv::new(history.env_seed);
    let model = Model::new(host.homes());
    let up = recover::open(host, &env, &model)?;
    let mut run = Run {
        host,
        env,
        up: Some(up),
        log_failed: false,
        model,
        txns: Vec::new(),
        views: Vec::new(),
        feeds: Vec::new(),
        next_txn: 1,
        keepers: Vec::new(),
        checks: 0,
    };
    if history.straddles {
        run.fill_block()?;
    }
    for (n, op) in history.ops.iter().enumerate() {
        run.perform(*op).map_err(|what| format!("operation {n}, {op:?}: {what}"))?;
    }
    run.finish().map_err(|what| format!("after the last operation: {what}"))
}

pub(crate) fn engine_error(error: EngineError) -> String {
    format!("the engine failed: {error}")
}

impl Run<'_> {
    fn up(&self) -> &Up {
        self.up.as_ref().expect("the engine is up between operations")
    }

    pub fn engine(&self) -> &dyn Engine {
        &*self.up().engine
    }

    pub fn table(&self, table: u8, wide: bool) -> (usize, Arc<dyn Table>) {
        let at = usize::from(table) % TABLES;
        (at, Arc::clone(&self.up().tables[at][usize::from(wide)]))
    }

    pub fn reader<'a>(&'a self, at: usize, table: &'a dyn Table) -> Reader<'a> {
        Reader { model: &self.model, at, table, durable: self.engine().durable() }
    }

    /// The transaction that a number names; one is begun if there is none.
    pub fn pick(&mut self, txn: u8) -> usize {
        if self.txns.is_empty() {
            self.begin();
        }
        usize::from(txn) % self.txns.len()
    }

    pub fn begin(&mut self) {
        let id = TxnId(self.next_txn);
        self.next_txn += 1;
        let txn = self.engine().begin(id);
        self.txns.push(OpenTxn { txn, marks: Vec::new() });
    }

    /// A row id that has been in use.
    pub fn pick_row(&self, table: usize, row: u8) -> Option<RowId> {
        let slots = &self.model.slots[table];
        let at = usize::from(row).checked_rem(slots.len())?;
        slots.keys().nth(at).copied()
    }

    /// The views of the open transactions, then the others.
    pub fn all_views(&self) -> Vec<&Snapshot> {
        let own = self.txns.iter().map(|open| &**open.txn.snapshot());
        own.chain(self.views.iter().map(|view| &**view)).collect()
    }

    fn pick_view(&self, view: u8) -> Arc<Snapshot> {
        let n = self.txns.len() + self.views.len();
        match usize::from(view).checked_rem(n) {
            None => self.engine().snapshot(),
            Some(at) if at < self.txns.len() => Arc::clone(self.txns[at].txn.snapshot()),
            Some(at) => Arc::clone(&self.views[at - self.txns.len()]),
        }
    }

    fn perform(&mut self, op: Op) -> Outcome {
        match op {
            Op::Begin if self.txns.len() < OPEN_TXNS_MAX => self.begin(),
            Op::Begin => {}
            Op::Refresh { txn } => {
                let at = self.pick(txn);
                self.txns[at].txn.refresh();
            }
            Op::Insert { txn, table, wide, rows, codes } => {
                self.insert(txn, table, wide, rows, codes)?;
            }
            Op::Update { txn, table, wide, row, columns, codes } => {
                self.update(txn, table, wide, row, columns, codes)?;
            }
            Op::Delete { txn, table, row } => self.mark_row(txn, table, row, false)?,
            Op::Lock { txn, table, row } => self.mark_row(txn, table, row, true)?,
            Op::Mark { txn } => {
                let at = self.pick(txn);
                let open = &mut self.txns[at];
                let count = self.model.write_count(open.txn.id());
                open.marks.push((open.txn.savepoint(), count));
            }
            Op::RollBack { txn, mark } => {
                let at = self.pick(txn);
                let open = &mut self.txns[at];
                let Some(mark) = usize::from(mark).checked_rem(open.marks.len()) else {
                    return Ok(());
                };
                let (savepoint, count) = open.marks[mark];
                open.marks.truncate(mark + 1);
                open.txn.rollback_to(savepoint);
                self.model.roll_back(open.txn.id(), count);
                self.check_views()?;
            }
            Op::Commit { txn, retreats } => {
                let at = self.pick(txn);
                self.commit(at, retreats)?;
            }
            Op::CommitCrossed { txn, .. } if !self.host.is_one() => {
                let at = self.pick(txn);
                self.commit(at, false)?;
            }
            Op::CommitCrossed { txn, other } => self.commit_crossed(txn, other)?,
            Op::Abort { txn, drops } => {
                let at = self.pick(txn);
                let open = self.txns.swap_remove(at);
                self.model.abort(open.txn.id());
                if drops {
                    drop(open)
                } else {
                    open.txn.abort()
                }
                self.check_views()?;
            }
            Op::Keep { txn, tables } => self.keep(txn, tables)?,
            Op::Release { keeper } => {
                let keepers = &self.model.kept;
                if let Some(at) = usize::from(keeper).checked_rem(keepers.len()) {
                    let keeper = *keepers.keys().nth(at).expect("counted above");
                    self.release(keeper)?;
                }
            }
            // An empty note takes it back.
            Op::Note { key, value } => {
                let value = if value % 4 == 0 { Vec::new() } else { vec![value] };
                self.note(u64::from(key % 4), value)?;
            }
            Op::OpenView { kind, txn } => self.open_view(kind, txn),
            Op::CloseView { view } => {
                if let Some(at) = usize::from(view).checked_rem(self.views.len()) {
                    self.views.swap_remove(at);
                }
            }
            Op::ReadRow { .. } | Op::Scan { .. } | Op::Seek { .. } | Op::Changer { .. } => {
                self.read(op)?;
            }
            Op::OpenFeed { table } => {
                let (at, table) = self.table(table, false);
                if self.feeds.len() < OPEN_FEEDS_MAX {
                    self.feeds.push((at, table.open_feed()));
                }
            }
            Op::CloseFeed { feed } => {
                if let Some(at) = usize::from(feed).checked_rem(self.feeds.len()) {
                    self.feeds.swap_remove(at);
                }
            }
            Op::Collect => self.collect()?,
            Op::Sync => self.sync().map_err(engine_error)?,
            Op::Checkpoint => {
                let appended = self.engine().appended();
                self.engine().checkpoint().map_err(engine_error)?;
                ensure!(self.engine().durable() >= appended, "a checkpoint of an undurable log");
                self.check_views()?;
            }
            Op::FullCheckpoint { nth } => self.full_checkpoint(nth)?,
            Op::FullLog { .. } if !self.host.is_one() => recover::crash(self, CrashOp::Now)?,
            Op::FullLog { crash } => self.full_log(crash)?,
            Op::Crash { kind } => recover::crash(self, kind)?,
        }
        self.check_txns()
    }

    pub fn note(&mut self, key: u64, value: Vec<u8>) -> Outcome {
        let lsn = self.engine().put_note(key, &value).map_err(engine_error)?;
        put_note(&mut self.model.notes, key, &value);
        self.model.events.push((lsn, Event::Note(key, value)));
        let notes: Vec<_> = self.model.notes.clone().into_iter().collect();
        ensure!(self.engine().notes() == notes, "notes are {:?}", self.engine().notes());
        Ok(())
    }

    fn open_view(&mut self, kind: ViewOp, txn: u8) {
        if self.views.len() >= OPEN_VIEWS_MAX {
            self.views.remove(0);
        }
        let view = match kind {
            ViewOp::Snapshot => self.engine().snapshot(),
            ViewOp::Fresh => {
                let at = self.pick(txn);
                self.engine().fresh(self.txns[at].txn.id())
            }
            ViewOp::Kept => {
                let at = self.pick(txn);
                Arc::clone(self.txns[at].txn.snapshot())
            }
        };
        self.views.push(view);
    }

    fn read(&mut self, op: Op) -> Outcome {
        match op {
            Op::ReadRow { view, table, wide, row, columns } => {
                let (at, table) = self.table(table, wide);
                let Some(rid) = self.pick_row(at, row) else { return Ok(()) };
                let reader = self.reader(at, &*table);
                reader.row(&self.pick_view(view), rid, &reader.projection(columns))
            }
            Op::Scan { view, table, wide, columns } => {
                let (at, table) = self.table(table, wide);
                let reader = self.reader(at, &*table);
                reader.scan(&self.pick_view(view), &reader.projection(columns))
            }
            Op::Seek { view, table, wide, index, range, backward, limit } => {
                let (at, table) = self.table(table, wide);
                let index = usize::from(index) % table.layout().indexes.len();
                let direction = if backward { Direction::Backward } else { Direction::Forward };
                let reader = self.reader(at, &*table);
                let range = reader.range(index, range);
                reader.seek(&self.pick_view(view), index, &range, direction, limit.map(usize::from))
            }
            Op::Changer { txn, table, row, columns } => {
                let at = self.pick(txn);
                let own = if columns >= 128 { self.txns[at].txn.id() } else { TxnId(0) };
                let (at, table) = self.table(table, true);
                let Some(rid) = self.pick_row(at, row) else { return Ok(()) };
                let columns = self.reader(at, &*table).projection(columns);
                let (found, want) = (
                    table.changer(rid, &columns, own),
                    self.model.changer((at, rid), &columns, own),
                );
                ensure!(found == want, "{found:?} changes row {rid}; it should be {want:?}");
                Ok(())
            }
            other => unreachable!("{other:?} reads nothing"),
        }
    }

    pub fn collect(&mut self) -> Outcome {
        self.host.collect(self.engine());
        // What the collector asked to be flushed is flushed now, not at some moment.
        self.sync().map_err(engine_error)?;
        self.check_views()
    }

    /// Waits until everything committed so far is durable.
    pub fn sync(&self) -> Result<(), EngineError> {
        let (send, receive) = mpsc::channel();
        let done = move |outcome| send.send(outcome).expect("the caller waits");
        self.engine().when_durable(self.engine().appended(), Box::new(done));
        receive.recv().expect("the engine calls back")
    }

    /// The disk has no space for a checkpoint, and then has again: nothing else has happened.
    fn full_checkpoint(&mut self, nth: u8) -> Outcome {
        self.sync().map_err(engine_error)?;
        self.host.settle(self.engine());
        let (nth, kind) = (u64::from(nth), FaultKind::DiskFull);
        self.env.inject(Fault { point: FaultPoint::Write, nth, kind });
        if let Err(error) = self.engine().checkpoint() {
            says_full(&error, "checkpoint").or_else(|_| says_full(&error, "manifest"))?;
        }
        self.env.clear_faults();
        self.check_views()?;
        self.engine().checkpoint().map_err(engine_error)
    }

    /// The disk has no space for the log: commits are refused, reads go on, what was
    /// acknowledged is there after a restart.
    fn full_log(&mut self, crash: CrashOp) -> Outcome {
        self.note(9, vec![9])?;
        self.env.inject(Fault { point: FaultPoint::Write, nth: 1, kind: FaultKind::DiskFull });
        let Err(error) = self.sync() else { return Err("durable on a full disk".into()) };
        self.log_failed = true;
        says_full(&error, ".frlog")?;
        // What is not durable must not be collected: who reads it depends on it.
        self.host.collect(self.engine());
        self.check_views()?;
        if let Some(mut open) = self.txns.pop() {
            let id = open.txn.id();
            let writes = !self.model.changed(id).is_empty() || !self.model.keeps(id).is_empty();
            open.txn.pre_commit();
            match open.txn.post_commit() {
                Err(error) if writes => says_full(&error, ".frlog")?,
                Ok(_) if !writes => {}
                other => return Err(format!("a commit on a full disk: {other:?}")),
            }
            self.model.abort(id);
            self.check_views()?;
        }
        ensure!(self.engine().put_note(1, b"x").is_err(), "a note on a full disk");
        ensure!(self.engine().checkpoint().is_err(), "a checkpoint without its log");
        self.check_views()?;
        let crash = match crash {
            CrashOp::InFlush(_) | CrashOp::InCheckpoint(_) => CrashOp::Now,
            other => other,
        };
        recover::crash(self, crash)
    }

    /// Everybody scans everything; one of them, each time another, reads in every other way too.
    pub fn check_views(&mut self) -> Outcome {
        self.checks += 1;
        let now = self.engine().snapshot();
        let mut views = self.all_views();
        views.push(&now);
        let chosen = self.checks % views.len();
        for (at, tables) in self.up().tables.iter().enumerate() {
            for (n, view) in views.iter().enumerate() {
                let reader = self.reader(at, &*tables[n % 2]);
                if n == chosen {
                    reader.everything(view)?
                } else {
                    reader.scan(view, &reader.all())?
                }
            }
        }
        self.check_kept()?;
        let oldest = self.engine().oldest_snapshot();
        let below = self.all_views().into_iter().find(|view| view.ts < oldest);
        ensure!(below.is_none(), "the oldest snapshot is said to be {oldest}, and {below:?} lives");
        Ok(())
    }

    /// Every transaction knows what it has written.
    fn check_txns(&self) -> Outcome {
        for open in &self.txns {
            let id = open.txn.id();
            let wrote = self.model.write_count(id) > 0;
            ensure!(open.txn.wrote() == wrote, "{id} wrote: {}", open.txn.wrote());
            let changed = self.model.changed(id);
            let mut spaces = BTreeSet::new();
            for (at, spec) in self.model.specs.iter().enumerate() {
                let want: BTreeSet<RowId> =
                    changed.iter().filter(|(table, _)| *table == at).map(|(_, rid)| *rid).collect();
                let rows = open.txn.rows_written(spec.space);
                ensure!(
                    rows.len() == want.len() && rows.iter().all(|rid| want.contains(rid)),
                    "{id} wrote {want:?} in {} and says {rows:?}",
                    spec.space
                );
                if !want.is_empty() {
                    spaces.insert(spec.space);
                }
            }
            let said: BTreeSet<_> = open.txn.spaces_written().into_iter().collect();
            ensure!(said == spaces, "{id} wrote in {spaces:?} and says {said:?}");
        }
        Ok(())
    }

    /// Ends everything; then only the rows are left, now and after a restart.
    fn finish(&mut self) -> Outcome {
        self.check_views()?;
        while !self.txns.is_empty() {
            self.commit(0, false)?;
        }
        self.views.clear();
        self.feeds.clear();
        self.check_views()?;
        for keeper in self.model.kept.clone().into_keys() {
            self.release(keeper)?;
        }
        // The first pass learns what has become durable, the second one collects it.
        for _ in 0..3 {
            self.collect()?;
        }
        let view = self.engine().snapshot();
        for (at, tables) in self.up().tables.iter().enumerate() {
            let rows = self.model.slots[at].values().filter(|slot| slot.visible(&view).is_some());
            self.host.check_rest(&*tables[1], rows.count())?;
        }
        drop(view);
        recover::crash(self, CrashOp::Stop)
    }
}

/// An error that says that the disk is full, and which file it concerns.
fn says_full(error: &EngineError, file: &str) -> Outcome {
    ensure!(error.sqlstate() == SqlState::DISK_FULL, "{}: {error}", error.sqlstate());
    ensure!(error.to_string().contains(file), "it names no {file}: {error}");
    Ok(())
}
