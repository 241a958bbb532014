//! The flip: how a schema change becomes everybody's, and what writers under the older schema do.
//!
//! ```text
//!   DDL                                           writer under the older schema
//!   ───                                           ─────────────────────────────
//!   publish pending on its tables                 pending? park until the verdict
//!   barrier t_pre                                 newer version? carry the rows over
//!   wait for writers committing below t_pre       take commit_ts
//!   drain capture, verify, hold the flip          pending or newer now? retreat, again
//!   commit: new catalog version                   commit
//! ```
//!
//! F1 (design, section 5): the writer takes its timestamp and then looks for "pending"; the DDL
//!    publishes "pending" and then takes t_pre and waits for writers below it. All sequentially
//!    consistent: a writer the DDL did not wait for has seen "pending" and has retreated.
//! F2: between t_pre and the DDL's commit nobody commits a write to its tables, so that its commit
//!    timestamp, taken at the very end, stands for t_pre, and no reader ever waits for a drain.
//! F3: all tables of a transaction flip in one catalog version.
//! F4: a statement that takes its snapshot during a flip waits for the catalog version (the few
//!    instructions between commit timestamp and publication), so it never reads a version older
//!    than its snapshot.

pub(crate) mod carry;
pub(crate) mod made_by;
pub(crate) mod moved;
pub(crate) mod outcome;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use froglet_engine::{CrashPoint, Engine, Home, SpaceId, Ts, TxnId};
use froglet_txn::{
    CommitHook, Limits, SchemaUse, Transaction, TxnError, Verdict, Writes, aside_async,
};

use crate::catalog::{Catalog, TableVersion};
use crate::def::ObjectId;
use crate::error::SchemaError;
use crate::flip::carry::{Follows, NO_LONGER_ITS};
use crate::local::{Changed, local, local_mut};
use crate::migration::Migration;
use crate::status::MigrationPhase;
use crate::step::{Step, StepKind};

/// What every writer looks at when it commits.
#[derive(Default)]
pub struct TableState {
    /// The transaction that is about to flip this table; 0 for nobody.
    pub pending: AtomicU64,
    /// The commit timestamp of the newest schema version, or of the drop.
    pub version: AtomicU64,
    /// Migrations that a writer is to fail at, if it violates what they add (`reject.rs`).
    pub rejecting: AtomicI64,
    /// By how much the commits of writers are held up, so that capture keeps up with them.
    pub delay_us: AtomicU64,
}

/// How a schema version that a writer wrote under stands to the newest.
#[derive(PartialEq, Eq)]
enum Standing {
    /// It is the newest.
    Current,
    /// A transaction is about to flip the table, or looks at it in a statement of its own.
    Pending(TxnId),
    /// The table has a newer one, or is dropped.
    Outdated,
}

impl Catalog {
    /// Makes the tables pending, in order, so that two flips cannot wait for each other unseen.
    async fn publish_pending(
        &self,
        txn: &mut Transaction,
        limits: &Limits,
    ) -> Result<(), TxnError> {
        let me = txn.id();
        let Some(own) = local(txn) else { return Ok(()) };
        // Those it migrates the rows of, too, whether it changes them or makes others of them.
        let migrated = own.migrations.iter().map(|migration| migration.table_id);
        let lazies = own.changes.lazies.values();
        let read = lazies.flat_map(|lazy| lazy.state().def.sources().map(|source| source.id));
        let mut tables: Vec<ObjectId> =
            own.changes.objects.keys().copied().chain(migrated).chain(read).collect();
        tables.sort_unstable();
        tables.dedup();
        for table in tables {
            let Some(state) = self.state(table) else { continue };
            loop {
                match state.pending.compare_exchange(0, me.0, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(_) => {
                        local_mut(txn).pending.push(table);
                        break;
                    }
                    Err(other) if other == me.0 => break,
                    Err(other) => txn.wait_for(TxnId(other), limits).await?,
                }
            }
        }
        Ok(())
    }

    fn withdraw_pending(&self, txn: &mut Transaction) {
        let me = txn.id().0;
        for table in std::mem::take(&mut local_mut(txn).pending) {
            if let Some(state) = self.state(table) {
                let was = state.pending.swap(0, Ordering::SeqCst);
                assert_eq!(was, me, "only its owner withdraws a pending flip");
            }
        }
    }

    /// Before a statement of a transaction that is itself migrating tables: brings the migrated
    /// data up to the statement's read view and keeps it there until the statement ends.
    pub(crate) async fn steady_own_migrations(
        &self,
        txn: &mut Transaction,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        let migrations = local(txn).map(|l| l.migrations.clone()).unwrap_or_default();
        let steady = self.steady(txn, &migrations, limits).await;
        // All of them, whichever has failed.
        migrations.iter().for_each(|migration| migration.slow_writers(Duration::ZERO));
        steady
    }

    /// Moves the read view of a statement under way to the present: what the transaction itself migrates
    /// follows, as at the statement's start.
    pub async fn refresh_statement(
        &self,
        txn: &mut Transaction,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        txn.refresh();
        if local(txn).is_some_and(|own| !own.migrations.is_empty()) {
            aside_async(Box::pin(self.steady_own_migrations(txn, limits)).as_mut()).await?;
        }
        Ok(())
    }

    async fn steady(
        &self,
        txn: &mut Transaction,
        migrations: &[Arc<Migration>],
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        Migration::reduce_backlogs(migrations)?;
        self.publish_pending(txn, limits).await?;
        self.engine().settle();
        let caught_up = migrations.iter().try_for_each(|m| m.catch_up_and_pause());
        txn.begin_statement();
        let ts = txn.snapshot().ts;
        migrations.iter().for_each(|migration| migration.is_in_line_with(ts));
        self.withdraw_pending(txn);
        self.manager().waits().released(txn.id());
        caught_up
    }

    /// The DDL's side of the commit, up to the commit timestamp.
    async fn prepare_flip(&self, txn: &mut Transaction, limits: &Limits) -> Result<(), TxnError> {
        let migrations = local(txn).map(|l| l.migrations.clone()).unwrap_or_default();
        Migration::reduce_backlogs(&migrations)?;
        tokio::task::yield_now().await;
        self.publish_pending(txn, limits).await?;
        CrashPoint::TablesPending.reached();
        self.engine().barrier();
        self.engine().settle();
        CrashPoint::WritersStill.reached();
        for migration in &migrations {
            migration.set_phase(MigrationPhase::Flip);
            migration.catch_up_and_pause()?;
        }
        CrashPoint::LastCaptureDone.reached();
        self.ask_own_writes(txn, &migrations)?;
        let changes = local(txn).map(|own| own.changes.clone()).unwrap_or_default();
        let is_revert = changes.notes.is_revert();
        for migration in &migrations {
            // What does not hold of rows that are no more, or is not demanded any more, keeps nobody from committing.
            let keep = changes.keep(migration.table_id, migration.space());
            let follow = changes.follow_out_of(migration.table_id, migration.space());
            if is_revert || keep || follow {
                let changed = changes.objects.get(&migration.table_id).filter(|_| !is_revert);
                let table = changed.and_then(|changed| changed.as_ref()?.table());
                let is_asked = |step: &Step| {
                    // Keys are asked where the rows are.
                    (!follow || matches!(step.kind, StepKind::Verify { .. }))
                        && table.is_none_or(|table| step.is_demanded_by(&table.def))
                        && !changes.have_left(step)
                };
                migration.verify_at_flip(&is_asked)?;
            }
            self.ended_migrations.record(txn, &migration.status_if_done())?;
        }
        self.prepare_lazies(txn, limits).await?;
        self.retain_builds(txn);
        self.record_change(txn)?;
        CrashPoint::FlipVerified.reached();
        let me = txn.id().0;
        while self.flipping.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            if self.flipping.load(Ordering::SeqCst) == me {
                break;
            }
            limits.check()?;
            tokio::task::yield_now().await;
        }
        local_mut(txn).flipping = true;
        Ok(())
    }

    fn release_flip(&self, txn: &mut Transaction) {
        if std::mem::take(&mut local_mut(txn).flipping) {
            self.deciding.store(0, Ordering::SeqCst);
            let was = self.flipping.swap(0, Ordering::SeqCst);
            assert_eq!(was, txn.id().0, "only its owner ends a flip");
        }
    }

    /// Whether a writer's commit has nothing to do with any schema change.
    fn is_undisturbed(&self, txn: &Transaction) -> bool {
        txn.schema_set().iter().all(|used| match self.state(used.table) {
            None => true,
            Some(state) => {
                state.rejecting.load(Ordering::SeqCst) == 0
                    && state.delay_us.load(Ordering::SeqCst) == 0
                    && standing(&state, txn, used) == Standing::Current
            }
        })
    }

    /// Holds a writer's commit up, where capture of its tables does not keep up. Nobody waits for it who
    /// would not wait for a writer that thinks.
    async fn hold_up(&self, txn: &Transaction) {
        let states = txn.schema_set().iter().filter_map(|used| self.state(used.table));
        let delay = states.map(|state| state.delay_us.load(Ordering::SeqCst)).max().unwrap_or(0);
        if delay > 0 {
            tokio::time::sleep(Duration::from_micros(delay)).await;
        }
    }

    /// How a schema version that the transaction wrote under stands to the newest.
    fn standing(&self, txn: &Transaction, used: &SchemaUse) -> Standing {
        self.state(used.table).map_or(Standing::Current, |state| standing(&state, txn, used))
    }

    /// Whether every table that the transaction wrote and does not itself change is current, and
    /// stays so if its commit timestamp has been taken.
    fn is_current(&self, txn: &Transaction) -> bool {
        txn.schema_set().iter().all(|used| {
            changes_itself(txn, used.table) || self.standing(txn, used) == Standing::Current
        })
    }

    /// Waits for pending flips of the tables the transaction wrote, then carries its rows over.
    async fn catch_up_writer(
        &self,
        txn: &mut Transaction,
        limits: &Limits,
    ) -> Result<(), TxnError> {
        let (mut i, mut children) = (0, Vec::new());
        while let Some(used) = txn.schema_set().get(i).copied() {
            // A table that this transaction itself changes: its own migration has its rows.
            if changes_itself(txn, used.table) {
                i += 1;
                continue;
            }
            match self.standing(txn, &used) {
                Standing::Current => i += 1,
                Standing::Pending(holder) => {
                    CrashPoint::WriterParked.reached();
                    txn.wait_for(holder, limits).await?;
                }
                Standing::Outdated => {
                    let behind = txn.behind.clone().unwrap_or_else(|| txn.snapshot());
                    self.carry_over(txn, used, &behind, &mut children, limits).await?;
                }
            }
        }
        let earlier = std::mem::take(&mut txn.asked_at_end).into_iter();
        children.extend(earlier.filter_map(|step| step.downcast::<Step>().ok()));
        self.carry_children(txn, &children, Follows::Commit, limits).await
    }

    /// What the transaction has itself written since it changed foreign keys, and writers under the older schema could
    /// not see: children that it gave parents whose keys others have changed since, and keys that it has changed
    /// under others' children. They stand still.
    fn ask_own_writes(
        &self,
        txn: &mut Transaction,
        migrations: &[Arc<Migration>],
    ) -> Result<(), SchemaError> {
        let view = self.view(txn);
        let engine = self.engine().clone();
        let (committed, own) = (engine.fresh(TxnId(0)), engine.fresh(txn.id()));
        let changes = local(txn).map(|own| own.changes.clone()).unwrap_or_default();
        let kept = migrations.iter().filter(|m| changes.keep(m.table_id, m.space()));
        for step in kept.flat_map(|migration| migration.steps()) {
            let (StepKind::Child(watch) | StepKind::Parent(watch)) = &step.kind else { continue };
            let has_it = |table: &Arc<TableVersion>| watch.is_of(&table.def);
            if !view.tables.values().any(has_it) || changes.have_left(&step) {
                continue;
            }
            let rows = txn.part().rows_written(step.table.space());
            match step.kind {
                StepKind::Child(_) => watch.verify_own(&*step.table, (&own, &own), &rows)?,
                _ if watch.has_new_keys(&committed, &own, &rows) => watch.ask_all(),
                _ => {}
            }
        }
        Ok(())
    }
}

fn standing(state: &TableState, txn: &Transaction, used: &SchemaUse) -> Standing {
    // No change of a table in a cluster concerns its rows: other servers write under the version before it, too.
    if used.space.home() == Home::Cluster {
        return Standing::Current;
    }
    // One look, pending first: whoever flips withdraws it after the version is there, and
    // whoever only made a statement or rolled back leaves the version as it was.
    let pending = state.pending.load(Ordering::SeqCst);
    if pending != 0 && pending != txn.id().0 {
        Standing::Pending(TxnId(pending))
    } else if used.version == NO_LONGER_ITS
        || state.version.load(Ordering::SeqCst) == used.version.0
    {
        Standing::Current
    } else {
        Standing::Outdated
    }
}

pub(crate) fn changes_itself(txn: &Transaction, table: ObjectId) -> bool {
    local(txn).is_some_and(|l| l.changes.objects.contains_key(&table))
}

/// The hook that [`froglet_txn`] calls.
pub struct Hook {
    /// Weak: the catalog owns the manager that owns this.
    pub catalog: std::sync::Weak<Catalog>,
}

impl Hook {
    fn catalog(&self) -> Result<Arc<Catalog>, TxnError> {
        self.catalog.upgrade().ok_or(TxnError::Shutdown)
    }
}

#[async_trait]
impl CommitHook for Hook {
    fn prepared(&self, txn: &Transaction) -> bool {
        let Ok(catalog) = self.catalog() else { return false };
        local(txn).is_none() && txn.asked_at_end.is_empty() && catalog.is_undisturbed(txn)
    }

    async fn prepare(&self, txn: &mut Transaction, limits: &Limits) -> Result<(), TxnError> {
        let catalog = self.catalog()?;
        catalog.catch_up_writer(txn, limits).await?;
        catalog.refuse_violations(txn)?;
        if local(txn).is_none() {
            catalog.hold_up(txn).await;
        }
        if local(txn).is_some_and(|l| !l.changes.objects.is_empty()) {
            catalog.prepare_flip(txn, limits).await?;
        }
        Ok(())
    }

    fn check(&self, txn: &mut Transaction, commit_ts: Ts) -> Verdict {
        let Ok(catalog) = self.catalog() else { return Verdict::Go };
        if catalog.is_current(txn) {
            if let Some(own) = local(txn) {
                if own.flipping {
                    catalog.deciding.store(commit_ts.0, Ordering::SeqCst);
                }
                CrashPoint::FlipTimestamp.reached();
            }
            return Verdict::Go;
        }
        if local(txn).is_some() {
            catalog.release_flip(txn);
        }
        Verdict::Retreat
    }

    fn written(&self, txn: &Transaction) -> Writes {
        let Ok(catalog) = self.catalog() else { return Writes::new() };
        crate::written::written(&catalog, txn)
    }

    fn is_replaced(&self, txn: &Transaction, space: SpaceId) -> bool {
        let Ok(catalog) = self.catalog() else { return false };
        let is_its = |table: &Arc<TableVersion>| table.def.space == space;
        let mut own = local(txn).into_iter().flat_map(|local| local.changes.objects.values());
        let is_own =
            own.any(|changed| changed.as_ref().and_then(Changed::table).is_some_and(is_its));
        !is_own && !catalog.latest().tables.values().any(is_its)
    }

    fn committed(&self, txn: &mut Transaction, commit_ts: Ts) {
        let Some(own) = local(txn) else { return };
        if !own.flipping {
            // Nothing is left of what it was to change, or nothing had to be: whoever flips now is not met [F4].
            return self.aborting(txn);
        }
        if let Ok(catalog) = self.catalog() {
            CrashPoint::FlipLogged.reached();
            CrashPoint::FlipFlushed.reached_after(|| flush(&**catalog.engine()));
            catalog.publish(txn, commit_ts);
            CrashPoint::FlipPublished.reached();
            catalog.release_flip(txn);
            catalog.withdraw_pending(txn);
            for migration in &local_mut(txn).migrations {
                migration.stop(MigrationPhase::Done);
            }
            CrashPoint::WritersReleased.reached();
            catalog.collect_garbage();
        }
    }

    fn aborting(&self, txn: &mut Transaction) {
        if local(txn).is_none() {
            return;
        }
        if let Ok(catalog) = self.catalog() {
            catalog.release_flip(txn);
            catalog.withdraw_pending(txn);
            catalog.abort_lazies(txn.id());
            let local = local_mut(txn);
            for migration in &local.migrations {
                migration.stop(MigrationPhase::Aborted);
            }
            let created = std::mem::take(&mut local.created);
            catalog.forget_after_now(created);
            catalog.change_log.ended(txn.id());
        }
    }
}

/// Brings what has been logged so far to the disk, whoever else is at it.
fn flush(engine: &dyn Engine) {
    while matches!(engine.make_durable(engine.appended()), Ok(false)) {
        std::thread::yield_now();
    }
}

impl Changed {
    /// The table, if it is one.
    pub fn table(&self) -> Option<&Arc<crate::catalog::TableVersion>> {
        match self {
            Changed::Table(t) => Some(t),
            Changed::Sequence(_) | Changed::Plain(_) | Changed::Role(_) => None,
        }
    }
}
