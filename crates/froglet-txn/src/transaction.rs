//! One transaction.

use std::any::Any;
use std::sync::Arc;

use froglet_engine::{
    EngineError, EngineTxn, Lsn, RowId, Savepoint, Snapshot, SpaceId, Table, Ts, TxnId,
};
use smallvec::SmallVec;

use crate::aside::aside;
use crate::cancel::Limits;
use crate::certify::Certified;
use crate::error::TxnError;
use crate::manager::{CommitHook, TxnManager};
use crate::rowlocks::{Shared, Strength};

/// Row writes whose commit or rollback others are not kept waiting for.
const LONG_WRITES: u32 = 2_000;

/// Does something with so many row writes, aside if they are many.
fn over_writes<T>(writes: u32, work: impl FnOnce() -> T) -> T {
    if writes > LONG_WRITES { aside(work) } else { work() }
}

/// Waits for what another server may hold.
async fn wait_elsewhere(
    wait: impl Future<Output = Result<(), EngineError>>,
    limits: &Limits,
) -> Result<(), TxnError> {
    limits.check()?;
    let timeout = async {
        match limits.lock_timeout {
            Some(t) => tokio::time::sleep(t).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        waited = wait => Ok(waited?),
        e = limits.exceeded() => Err(e),
        () = timeout => Err(TxnError::LockTimeout),
    }
}

/// Isolation levels. READ UNCOMMITTED is READ COMMITTED, as in PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Every statement has a read view of its own.
    #[default]
    ReadCommitted,
    /// Snapshot isolation: one read view, first updater wins.
    RepeatableRead,
    /// The same, and what was read is certified at the commit (`certify.rs`).
    Serializable,
}

impl Isolation {
    /// Whether all statements have one read view.
    pub fn keeps_view(self) -> bool {
        self != Isolation::ReadCommitted
    }
}

/// A transaction wrote a table under this schema version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaUse {
    /// The table.
    pub table: u32,
    /// Its row space.
    pub space: SpaceId,
    /// The commit timestamp of the schema version.
    pub version: Ts,
}

/// Rows that were carried over from one schema version to a newer one.
struct CarriedOver {
    /// Where the transaction stood afterwards.
    at: Savepoint,
    from: SchemaUse,
    to: Ts,
    /// Keeps what they would be carried over with again.
    view: Arc<Snapshot>,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its commit timestamp; `None` if it wrote nothing.
    pub ts: Option<Ts>,
    /// Where the log must be durable before a client may be told.
    pub lsn: Lsn,
    /// The newest possibly undurable commit that its reads have seen.
    pub seen: Ts,
}

/// One transaction. Dropped without a commit, it aborts.
pub struct Transaction {
    manager: Arc<TxnManager>,
    id: TxnId,
    isolation: Isolation,
    /// Its part on the anchor engine, from its first write on (REPEATABLE READ: first statement).
    part: Option<Box<dyn EngineTxn>>,
    /// The read view of a transaction that has no part yet.
    view: Option<Arc<Snapshot>>,
    /// The view stays for good: the transaction reads the past, and cannot write.
    is_past: bool,
    seen: Ts,
    shared: Vec<(SpaceId, RowId)>,
    /// Rows that it holds FOR UPDATE since it stood there, and how it did before: a rollback beyond that undoes
    /// the write that holds them, too.
    locked: Vec<(Savepoint, Shared, Option<Strength>)>,
    /// Schema versions it wrote under (Tesseract's schema set).
    schema_set: SmallVec<[SchemaUse; 4]>,
    /// SERIALIZABLE: what it has read, to be certified.
    certified: Option<Certified>,
    /// What a rollback to a savepoint may take back of it.
    carried_over: Vec<CarriedOver>,
    /// The read view that the statement under way began with, if it has moved on since: what a
    /// carry-over from its schema needs is kept for it. Also after a rollback that took one back.
    pub behind: Option<Arc<Snapshot>>,
    /// As of when the statement under way knows the catalog, which may be before its view.
    pub catalog_as_of: Ts,
    /// What the crate above asks of it at its commit, of rows that have followed to a newer schema before.
    pub asked_at_end: Vec<Arc<dyn Any + Send + Sync>>,
    /// What the crate above keeps with the transaction: its uncommitted schema changes.
    pub extension: Option<Box<dyn Any + Send + Sync>>,
}

impl Transaction {
    pub(crate) fn new(manager: Arc<TxnManager>, id: TxnId, isolation: Isolation) -> Transaction {
        Transaction {
            manager,
            id,
            isolation,
            part: None,
            view: None,
            is_past: false,
            seen: Ts(0),
            shared: Vec::new(),
            locked: Vec::new(),
            schema_set: SmallVec::new(),
            certified: None,
            carried_over: Vec::new(),
            behind: None,
            catalog_as_of: Ts::LATEST,
            asked_at_end: Vec::new(),
            extension: None,
        }
    }

    /// Its id.
    pub fn id(&self) -> TxnId {
        self.id
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Changes the isolation level; only before the first statement.
    pub fn set_isolation(&mut self, isolation: Isolation) -> bool {
        let fresh = self.part.is_none() && self.view.is_none();
        if fresh {
            self.isolation = isolation;
        }
        fresh || isolation == self.isolation
    }

    /// The manager.
    pub fn manager(&self) -> &Arc<TxnManager> {
        &self.manager
    }

    /// Before the first statement: the transaction reads as of this view to its end, whatever its
    /// isolation, and writes nothing.
    pub fn stay_at(&mut self, view: Arc<Snapshot>) {
        assert!(self.part.is_none() && self.view.is_none(), "it has read the present");
        self.view = Some(view);
        self.is_past = true;
    }

    /// Whether it reads the past, and writes nothing.
    pub fn is_past(&self) -> bool {
        self.is_past
    }

    /// Whether each of its statements sees the present.
    pub fn moves(&self) -> bool {
        self.isolation == Isolation::ReadCommitted && !self.is_past
    }

    /// Begins a statement: READ COMMITTED takes a new read view.
    pub fn begin_statement(&mut self) {
        self.note_seen();
        if self.is_past {
            return;
        }
        match (&mut self.part, self.isolation.keeps_view()) {
            (Some(part), false) => part.refresh(),
            (Some(_), true) => {}
            (None, false) => self.view = Some(self.manager.engine().snapshot_for(self.id)),
            (None, true) => self.start_part(),
        }
    }

    /// Moves the read view to the present in the middle of a statement, which may go on to write
    /// under the schema that it began with.
    pub fn refresh(&mut self) {
        if self.behind.is_none() {
            self.behind = Some(self.snapshot());
        }
        self.part().refresh();
    }

    /// The read view of the statement under way.
    pub fn snapshot(&mut self) -> Arc<Snapshot> {
        if self.part.is_none() && self.view.is_none() {
            self.begin_statement();
        }
        match (&self.part, &self.view) {
            (Some(part), _) => part.snapshot().clone(),
            (None, Some(view)) => view.clone(),
            (None, None) => unreachable!("a statement has begun, so there is a view"),
        }
    }

    /// Its part on the anchor engine, begun here if it has none. A READ COMMITTED statement that
    /// will write calls this before it takes its snapshot.
    pub fn part(&mut self) -> &mut dyn EngineTxn {
        if self.part.is_none() {
            self.start_part();
        }
        self.part.as_deref_mut().expect("just started")
    }

    fn start_part(&mut self) {
        assert!(!self.is_past, "nobody writes to the past");
        self.note_seen();
        self.view = None;
        self.manager.waits().started(self.id);
        let begin = || self.manager.engine().begin(self.id);
        self.part = Some(match self.isolation {
            Isolation::ReadCommitted | Isolation::RepeatableRead => begin(),
            Isolation::Serializable => {
                let (part, certified) = self.manager.certifier().begin(begin);
                self.certified = Some(certified);
                part
            }
        });
    }

    fn note_seen(&mut self) {
        let view = match (&self.part, &self.view) {
            (Some(part), _) => part.snapshot(),
            (None, Some(view)) => view,
            (None, None) => return,
        };
        self.seen = self.seen.max(view.newest_seen());
    }

    /// The newest possibly undurable commit that its reads have seen so far.
    pub fn seen(&mut self) -> Ts {
        self.note_seen();
        self.seen
    }

    /// Whether there is anything to commit.
    pub fn wrote(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.wrote()) || self.extension.is_some()
    }

    /// Where it stands.
    pub fn savepoint(&self) -> Savepoint {
        self.part.as_ref().map_or(Savepoint(0), |part| part.savepoint())
    }

    /// Undoes the writes after `to` and wakes who waited for them. The caller brings the crate
    /// above in line first.
    pub fn rollback_to(&mut self, to: Savepoint) {
        if let Some(part) = &mut self.part {
            over_writes(part.savepoint().0 - to.0, || part.rollback_to(to));
            while let Some((_, row, before)) = self.locked.pop_if(|(at, ..)| *at > to) {
                self.manager.row_locks().let_go(row, self.id, before);
            }
            self.manager.waits().released(self.id);
        }
        // Rows written before `to` are again as they were written.
        while let Some(undone) = self.carried_over.pop_if(|carried| carried.at > to) {
            for used in &mut self.schema_set {
                if *used == (SchemaUse { version: undone.to, ..undone.from }) {
                    used.version = undone.from.version;
                }
            }
            self.behind = Some(undone.view);
        }
    }

    /// SERIALIZABLE: what it has read.
    pub(crate) fn certified(&self) -> Option<&Certified> {
        self.certified.as_ref()
    }

    /// Whether it has written or locked rows of a table.
    pub fn has_touched(&self, table: &dyn Table) -> bool {
        self.part.as_ref().is_some_and(|part| part.has_touched(table))
    }

    /// The rows that it has written in a space, each once.
    pub fn rows_written(&self, space: SpaceId) -> Vec<RowId> {
        self.part.as_ref().map_or_else(Vec::new, |part| part.rows_written(space))
    }

    /// The schema versions that it wrote under.
    pub fn schema_set(&self) -> &[SchemaUse] {
        &self.schema_set
    }

    /// The rows written under a schema version follow a newer one by now; `view` is a read view from
    /// before the newer version.
    pub fn note_carried_over(&mut self, from: SchemaUse, to: Ts, view: Arc<Snapshot>) {
        let at = self.savepoint();
        for used in self.schema_set.iter_mut().filter(|used| **used == from) {
            used.version = to;
        }
        self.carried_over.push(CarriedOver { at, from, to, view });
    }

    /// Writes under a schema version.
    pub fn note_schema(&mut self, used: SchemaUse) {
        if !self.schema_set.contains(&used) {
            self.schema_set.push(used);
        }
    }

    /// Holds a row until the end, as it did before or stronger; how it did before. Somebody else who holds it
    /// otherwise.
    pub fn hold_row(
        &mut self,
        space: SpaceId,
        rid: RowId,
        strength: Strength,
    ) -> Result<Option<Strength>, TxnId> {
        self.part();
        let before = self.manager.row_locks().hold((space, rid), self.id, strength)?;
        if before.is_none() {
            self.shared.push((space, rid));
        }
        if strength == Strength::Update && before != Some(strength) {
            self.locked.push((self.savepoint(), (space, rid), before));
        }
        Ok(before)
    }

    /// Takes a hold back that was not got after all; who waits for it looks again.
    pub fn let_go(&mut self, space: SpaceId, rid: RowId, to: Option<Strength>) {
        self.manager.row_locks().let_go((space, rid), self.id, to);
        if to.is_none() && self.shared.last() == Some(&(space, rid)) {
            self.shared.pop();
        }
        if self.locked.last().is_some_and(|(_, row, _)| *row == (space, rid)) {
            self.locked.pop();
        }
        self.manager.waits().released(self.id);
    }

    /// Finds a row in the present, and holds it KEY SHARE: it stays, under its key (the columns at these layout
    /// positions). `None` if there is none, once nobody is about to change that. What refers to a row holds it so.
    ///
    /// Each look is at one timestamp of its own. The first may find a row that is deleted, or moves elsewhere, before
    /// it is held; so the look that counts is one after that [R1 of `rowlocks`].
    pub async fn hold_found<E: From<TxnError>>(
        &mut self,
        table: &dyn Table,
        key: &[usize],
        mut find: impl FnMut(&Snapshot) -> Result<Option<RowId>, E> + Send,
        limits: &Limits,
    ) -> Result<Option<RowId>, E> {
        let space = table.space();
        let mut held = None;
        loop {
            let found = find(&self.manager.engine().fresh(self.id))?;
            if held == found {
                return Ok(found);
            }
            if let Some(elsewhere) = held.take() {
                self.let_go(space, elsewhere, None);
            }
            let Some(rid) = found else { return Ok(None) };
            match self.hold_row(space, rid, Strength::KeyShare) {
                Ok(Some(_)) => return Ok(found),
                Ok(None) => held = found,
                Err(holder) => self.wait_for(holder, limits).await?,
            }
            if held.is_some()
                && let Some(holder) = table.changer(rid, key, self.id)
            {
                // Nothing is held while waiting: who changes the row waits for holders [R4].
                self.let_go(space, rid, None);
                held = None;
                self.wait_for(holder, limits).await?;
            }
        }
    }

    /// Waits for another transaction's end (or for it to release something).
    pub async fn wait_for(&mut self, holder: TxnId, limits: &Limits) -> Result<(), TxnError> {
        if let Some(wait) = self.manager.engine().wait_elsewhere(holder) {
            return wait_elsewhere(wait, limits).await;
        }
        self.manager.waits().wait(self.id, holder, limits).await
    }

    /// Restores everything and ends.
    pub fn abort(mut self) {
        self.abort_in_place();
    }

    fn abort_in_place(&mut self) {
        let manager = self.manager.clone();
        if self.extension.is_some()
            && let Some(hook) = manager.hook()
        {
            hook.aborting(self);
            self.extension = None;
        }
        if let Some(part) = self.part.take() {
            over_writes(part.savepoint().0, || part.abort());
            self.ended();
        }
        self.view = None;
    }

    fn ended(&mut self) {
        for row in self.shared.drain(..) {
            self.manager.row_locks().let_go(row, self.id, None);
        }
        self.locked.clear();
        self.manager.waits().ended(self.id);
        if let Some(certified) = self.certified.take() {
            self.manager.certifier().end(&certified);
        }
    }

    pub(crate) fn end_read_only(&mut self) -> Committed {
        let seen = self.seen();
        self.view = None;
        if let Some(part) = self.part.take() {
            part.abort();
            self.ended();
        }
        Committed { ts: None, lsn: Lsn(0), seen }
    }

    pub(crate) fn finish(
        &mut self,
        hook: Option<&Arc<dyn CommitHook>>,
        ts: Ts,
    ) -> Result<Committed, TxnError> {
        let seen = self.seen();
        let part = self.part.take().expect("a transaction that wrote has a part");
        let outcome = over_writes(part.savepoint().0, || part.post_commit());
        if let Some(hook) = hook {
            match outcome {
                Ok(_) => hook.committed(self, ts),
                Err(_) => hook.aborting(self),
            }
        }
        self.extension = None;
        self.ended();
        Ok(Committed { ts: Some(ts), lsn: outcome?, seen })
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.part.is_some() || self.extension.is_some() {
            self.abort_in_place();
        }
    }
}
