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

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use froglet_engine::{
    BlockRows, CrashPoint, Engine, EngineTxn, IndexSpec, Row, RowId, RowWrite, Snapshot, SpaceId,
    SqlState, Table, Ts, TxnId, Value, WriteStop, batch,
};
use froglet_txn::{CommitHook, Limits, SchemaUse, Strength, Transaction, TxnError, Verdict};

use crate::catalog::{Catalog, CatalogVersion};
use crate::change::Check;
use crate::copy::Copy;
use crate::course::Who;
use crate::def::ObjectId;
use crate::error::SchemaError;
use crate::lazy_columns::LazyColumns;
use crate::lazy_rows::LazyRows;
use crate::lazy_table::LazyTable;
use crate::local::{Changed, local, local_mut};
use crate::migration::Migration;
use crate::rows::{read_rows, row_at, types_of};
use crate::status::MigrationPhase;
use crate::step::{ForeignKeyWatch, Step, StepKind};

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

/// A committed change of one table, kept while a writer may need to be carried over it.
pub struct Flip {
    /// The table.
    pub table: ObjectId,
    /// When.
    pub ts: Ts,
    /// What to do with a row written under the version before.
    pub steps: Vec<Arc<Step>>,
    /// Columns that were added lazily, each with those before it.
    pub lazy_columns: Vec<Arc<LazyColumns>>,
    /// Why a row has no place in the table any more.
    pub refuses: Option<&'static str>,
    /// Where it has one instead.
    pub copies: Vec<CopyTo>,
}

/// A table that was made of one that is gone.
pub struct CopyTo {
    /// How.
    pub made: MadeBy,
    /// The new table.
    pub table: ObjectId,
    /// What was done with its rows in the same transaction.
    pub steps: Vec<Arc<Step>>,
}

/// What makes the rows of a table of those of another.
pub enum MadeBy {
    /// Before the commit.
    Copy(Arc<Copy>),
    /// After it.
    Lazy(Arc<LazyRows>),
}

impl MadeBy {
    /// The row space that it makes.
    fn space(&self) -> SpaceId {
        match self {
            MadeBy::Copy(copy) => copy.target_space(),
            MadeBy::Lazy(lazy) => lazy.state.course.space,
        }
    }

    /// What a writer's own version of source rows makes of their target rows, where that differs.
    fn changes_of(
        &self,
        own: &Snapshot,
        rows: &[RowId],
    ) -> Result<Vec<(RowId, Option<Row>)>, SchemaError> {
        match self {
            MadeBy::Copy(copy) => copy.changes_of(own, rows),
            MadeBy::Lazy(lazy) => lazy.changes_of(own, rows),
        }
    }

    /// Makes the target row of a source row this, for a writer, if nobody has written it after `base`.
    /// Returns the row that it wrote.
    fn apply(
        &self,
        txn: &mut dyn EngineTxn,
        base: Ts,
        source: RowId,
        made: &Option<Row>,
    ) -> Result<Option<RowId>, WriteStop> {
        match self {
            MadeBy::Copy(copy) => copy.apply(txn, base, source, made),
            MadeBy::Lazy(lazy) => LazyTable::carry_over(lazy, txn, base, source, made),
        }
    }
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
        for migration in &migrations {
            // What does not hold of rows that are no more keeps nobody from committing.
            if local(txn).is_some_and(|own| own.changes.keep(migration.table_id, migration.space()))
            {
                migration.verify_at_flip()?;
            }
            self.ended_migrations.record(txn, &migration.status_if_done())?;
        }
        self.prepare_lazies(txn, limits).await?;
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
        let mut i = 0;
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
                    self.carry_over(txn, used, &behind, limits).await?;
                }
            }
        }
        Ok(())
    }

    /// Carries the rows that a transaction wrote under an older version over to the newest. `behind`
    /// is a read view from before that, and keeps what is needed.
    pub(crate) async fn carry_over(
        &self,
        txn: &mut Transaction,
        used: SchemaUse,
        behind: &Arc<Snapshot>,
        limits: &Limits,
    ) -> Result<(), TxnError> {
        let flips = self.flips_after(used.table, used.version);
        let mut reached = used.version;
        for flip in &flips {
            if !flip.copies.is_empty() {
                self.carry_to_copies(txn, flip, used.space, limits).await?;
                // The table's own later flips are no matter of these rows.
                reached = flips.last().map_or(flip.ts, |last| last.ts);
                break;
            }
            // What was rolled back to a savepoint has lost nothing.
            if let Some(why) = flip.refuses
                && !txn.part().rows_written(used.space).is_empty()
            {
                return Err(TxnError::Refused {
                    state: SqlState::SERIALIZATION_FAILURE,
                    message: "could not serialize access due to a concurrent schema change".into(),
                    detail: Some(format!(
                        "Table {} {why} after this transaction had written to it.",
                        self.name_in(behind, used.table)
                    )),
                    hint: Some("Run the transaction again.".into()),
                });
            }
            if !flip.steps.is_empty() || !flip.lazy_columns.is_empty() {
                let rows = txn.part().rows_written(used.space);
                for step in &flip.steps {
                    carry_rows(txn, step, &rows, None, limits).await?;
                    CrashPoint::CarriedStep.reached();
                }
                for columns in &flip.lazy_columns {
                    carry_lazy_column(txn, columns, &rows, limits).await?;
                    CrashPoint::CarriedStep.reached();
                }
            }
            reached = flip.ts;
        }
        txn.note_carried_over(used, reached, behind.clone());
        if flips.is_empty() {
            let state = self.state(used.table);
            let newest = state.map_or(0, |s| s.version.load(Ordering::SeqCst));
            return Err(TxnError::Refused {
                state: SqlState::SERIALIZATION_FAILURE,
                message: "could not serialize access due to a concurrent schema change".into(),
                detail: Some(format!(
                    "Table {} is at schema version {newest}, this transaction wrote under {}.",
                    self.name_in(behind, used.table),
                    used.version
                )),
                hint: Some("Run the transaction again.".into()),
            });
        }
        Ok(())
    }

    /// What a read view calls a table, for a message.
    fn name_in(&self, view: &Snapshot, table: ObjectId) -> String {
        let catalog = self.at(view.ts);
        let named = catalog.tables.get(&table);
        named.map_or_else(|| table.to_string(), |version| format!("\"{}\"", version.def.name))
    }

    /// Whether a view has a newer version of a table than it was written under, or had it. What was
    /// written has then to follow, or the statement would not meet it.
    pub(crate) fn moves_on(&self, view: &CatalogVersion, used: &SchemaUse) -> bool {
        match view.tables.get(&used.table) {
            Some(table) => table.version > used.version,
            None => {
                let flips = self.flips_after(used.table, used.version);
                flips.iter().any(|flip| flip.ts <= view.ts)
            }
        }
    }

    /// Rows that a transaction wrote to a table which is gone go where copies have them: as if it had
    /// committed before they did.
    async fn carry_to_copies(
        &self,
        txn: &mut Transaction,
        flip: &Flip,
        from: SpaceId,
        limits: &Limits,
    ) -> Result<(), TxnError> {
        let rows = txn.part().rows_written(from);
        for step in &flip.steps {
            if let StepKind::Copy(copy) = &step.kind {
                let is_it = |to: &&CopyTo| match &to.made {
                    MadeBy::Copy(made) => Arc::ptr_eq(made, copy),
                    MadeBy::Lazy(_) => false,
                };
                if let Some(to) = flip.copies.iter().find(is_it) {
                    self.carry_to_copy(txn, to, flip.ts, &rows, limits).await?;
                }
            } else {
                // The copy may have been made of a column that was filled before.
                carry_rows(txn, step, &rows, None, limits).await?;
            }
        }
        for to in flip.copies.iter().filter(|to| matches!(to.made, MadeBy::Lazy(_))) {
            self.carry_to_copy(txn, to, flip.ts, &rows, limits).await?;
        }
        Ok(())
    }

    async fn carry_to_copy(
        &self,
        txn: &mut Transaction,
        to: &CopyTo,
        flip: Ts,
        rows: &[RowId],
        limits: &Limits,
    ) -> Result<(), TxnError> {
        let changes = to.made.changes_of(&txn.snapshot(), rows)?;
        let latest = self.latest();
        let referenced =
            latest.tables.get(&to.table).is_some_and(|t| !t.def.referenced_by.is_empty());
        if referenced && !changes.is_empty() {
            // Others may refer to these rows by now, and nobody has asked them.
            return Err(TxnError::Serialization);
        }
        if let MadeBy::Lazy(lazy) = &to.made
            && changes.len() > 1
        {
            self.give_keys_up(txn, lazy, flip, &changes, limits).await?;
        }
        let mut written = Vec::new();
        for (source, change) in changes {
            loop {
                // Whoever has written the new row since the flip knew nothing of this transaction, nor
                // did the flip's owner, whose own writes have its timestamp.
                match to.made.apply(txn.part(), Ts(flip.0 - 1), source, &change) {
                    Ok(rid) => {
                        written.extend(rid);
                        CrashPoint::CarriedToCopy.reached();
                        break;
                    }
                    Err(WriteStop::Gone) => return Err(TxnError::Serialization),
                    // Among the rows as of the flip, and among the writer's, the source's keys differed:
                    // somebody has taken this one since.
                    Err(WriteStop::Duplicate { .. }) if matches!(to.made, MadeBy::Lazy(_)) => {
                        return Err(TxnError::Serialization);
                    }
                    Err(stop) => stopped(txn, stop, "", limits).await?,
                }
            }
        }
        for step in &to.steps {
            carry_rows(txn, step, &written, Some(flip), limits).await?;
        }
        txn.note_schema(SchemaUse { table: to.table, space: to.made.space(), version: flip });
        Ok(())
    }

    /// Rows that have passed keys on give up the old ones before any takes a new one: a table that is made
    /// lazily has its unique indexes from the start.
    async fn give_keys_up(
        &self,
        txn: &mut Transaction,
        lazy: &Arc<LazyRows>,
        flip: Ts,
        changes: &[(RowId, Option<Row>)],
        limits: &Limits,
    ) -> Result<(), TxnError> {
        for (source, _) in changes {
            loop {
                match LazyTable::give_keys_up(lazy, txn.part(), Ts(flip.0 - 1), *source) {
                    Ok(()) => break,
                    Err(WriteStop::Gone) => return Err(TxnError::Serialization),
                    Err(stop) => stopped(txn, stop, "", limits).await?,
                }
            }
        }
        Ok(())
    }
}

fn standing(state: &TableState, txn: &Transaction, used: &SchemaUse) -> Standing {
    // One look, pending first: whoever flips withdraws it after the version is there, and
    // whoever only made a statement or rolled back leaves the version as it was.
    let pending = state.pending.load(Ordering::SeqCst);
    if pending != 0 && pending != txn.id().0 {
        Standing::Pending(TxnId(pending))
    } else if state.version.load(Ordering::SeqCst) == used.version.0 {
        Standing::Current
    } else {
        Standing::Outdated
    }
}

pub(crate) fn changes_itself(txn: &Transaction, table: ObjectId) -> bool {
    local(txn).is_some_and(|l| l.changes.objects.contains_key(&table))
}

/// One step for the rows of a writer that began under the older schema, inside its transaction. Of
/// rows that come into another table, whoever has taken their keys after the flip `into` knew nothing.
pub(crate) async fn carry_rows(
    txn: &mut Transaction,
    step: &Step,
    rows: &[RowId],
    into: Option<Ts>,
    limits: &Limits,
) -> Result<(), TxnError> {
    let snapshot = txn.snapshot();
    match &step.kind {
        StepKind::Fill { source, target, ty, transform, filled, not_null } => {
            let rows: &[RowId] = match filled {
                Some(filled) => &without_those_filled(&*step.table, &snapshot, rows, *filled),
                None => rows,
            };
            let BlockRows { rids, batch } = read_rows(&*step.table, &snapshot, rows, source);
            if rids.is_empty() {
                return Ok(());
            }
            let filled = transform.eval(&batch)?;
            let columns = [*target];
            if rids.len() > 1 && is_in_unique_key(step, *target) {
                // Rows that have swapped keys give up the old ones before any takes a new one.
                for rid in &rids {
                    let values = [Value::Null];
                    let write = RowWrite::Update { rid: *rid, columns: &columns, values: &values };
                    write_own(txn, &*step.table, snapshot.ts, write, limits).await?;
                }
            }
            for (i, rid) in rids.iter().enumerate() {
                let value = batch::value_at(&filled, i, *ty);
                if value.is_null()
                    && let Some(error) = not_null
                {
                    return Err(error().into());
                }
                let values = [value];
                let write = RowWrite::Update { rid: *rid, columns: &columns, values: &values };
                write_own(txn, &*step.table, snapshot.ts, write, limits).await?;
            }
            Ok(())
        }
        StepKind::Verify { source, check } => {
            Ok(verify_rows(&*step.table, &snapshot, rows, source, &**check)?)
        }
        StepKind::Index { position, name } => {
            for rid in rows {
                loop {
                    match step.table.index_row(txn.part(), *rid, &[*position]) {
                        Ok(()) => break,
                        Err(WriteStop::Duplicate { other, .. })
                            if into.is_some_and(|flip| step.table.changed_since(other, flip)) =>
                        {
                            return Err(TxnError::Serialization);
                        }
                        Err(stop) => stopped(txn, stop, name, limits).await?,
                    }
                }
            }
            Ok(())
        }
        StepKind::Child(watch) => {
            let BlockRows { rids, batch } = read_rows(&*step.table, &snapshot, rows, &watch.child);
            let types = types_of(&*step.table, &watch.child);
            for i in 0..rids.len() {
                let values = row_at(batch.columns(), &types, i);
                if values.iter().any(Value::is_null) {
                    continue;
                }
                share_parent(txn, watch, &values, limits).await?;
            }
            Ok(())
        }
        StepKind::Parent(watch) => parents_unchanged(txn, watch, rows),
        // The table is still there, and has the rows: the copy is as of the flip.
        StepKind::Copy(_) | StepKind::Derive(_) => Ok(()),
    }
}

/// The rows that do not have a flag.
fn without_those_filled(
    table: &dyn Table,
    own: &Snapshot,
    rows: &[RowId],
    filled: usize,
) -> Vec<RowId> {
    let is_filled = |rid: &RowId| {
        let mut flag = Row::new();
        table.read_row(own, *rid, &[filled], &mut flag) && flag[0] == Value::Bool(true)
    };
    rows.iter().filter(|rid| !is_filled(rid)).copied().collect()
}

/// The newest lazy column for the rows of a writer that began under the older schema [K3].
async fn carry_lazy_column(
    txn: &mut Transaction,
    columns: &LazyColumns,
    rows: &[RowId],
    limits: &Limits,
) -> Result<(), TxnError> {
    let mut in_order = rows.to_vec();
    in_order.sort_unstable();
    columns.fill(&in_order, Who::Access)?;
    let snapshot = txn.snapshot();
    let positions = columns.carried_to();
    for (rid, values) in columns.carried(&snapshot, &in_order)? {
        let write = RowWrite::Update { rid, columns: &positions, values: &values };
        write_own(txn, &*columns.whole, snapshot.ts, write, limits).await?;
    }
    Ok(())
}

/// The error of the first of a writer's rows for which a condition does not hold.
pub(crate) fn verify_rows(
    table: &dyn Table,
    snapshot: &Snapshot,
    rows: &[RowId],
    source: &[usize],
    check: &dyn Check,
) -> Result<(), SchemaError> {
    let BlockRows { rids, batch } = read_rows(table, snapshot, rows, source);
    if rids.is_empty() {
        return Ok(());
    }
    let holds = check.eval(&batch)?;
    let is_violated = |at: &usize| arrow_array::Array::is_valid(&holds, *at) && !holds.value(*at);
    match (0..rids.len()).find(is_violated) {
        Some(at) => Err(check.violation(&row_at(batch.columns(), &types_of(table, source), at))),
        None => Ok(()),
    }
}

fn is_in_unique_key(step: &Step, position: usize) -> bool {
    let layout = step.table.layout();
    let column = layout.columns[position].id;
    let has_column = |index: &IndexSpec| index.key.iter().any(|part| part.column == column);
    layout.indexes.iter().any(|index| index.unique && has_column(index))
}

/// A child's parent, held shared so that it stays.
async fn share_parent(
    txn: &mut Transaction,
    watch: &ForeignKeyWatch,
    values: &[Value],
    limits: &Limits,
) -> Result<(), TxnError> {
    let me = txn.id();
    let relaxed = txn.manager().engine().relaxed(me);
    while let Some(parent) = watch.find_parent(&relaxed, values) {
        txn.share_row(watch.parent.space(), parent, Strength::Key);
        match watch.parent.changer(parent, &watch.parent_key, me) {
            Some(holder) => txn.wait_for(holder, limits).await?,
            None if watch.find_parent(&relaxed, values) == Some(parent) => return Ok(()),
            None => {}
        }
    }
    Err(watch.missing_parent(values).into())
}

/// A writer of the parent table that knew nothing of the foreign key may go on if it left every
/// key alone; whoever deleted a parent or changed its key has to run again.
fn parents_unchanged(
    txn: &mut Transaction,
    watch: &ForeignKeyWatch,
    rows: &[RowId],
) -> Result<(), TxnError> {
    let mine = txn.snapshot();
    let committed = txn.manager().engine().relaxed(TxnId(0));
    for rid in rows {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        if !watch.parent.read_row(&committed, *rid, &watch.parent_key, &mut before) {
            continue;
        }
        let there = watch.parent.read_row(&mine, *rid, &watch.parent_key, &mut after);
        if !there || before != after {
            return Err(TxnError::Refused {
                state: SqlState::SERIALIZATION_FAILURE,
                message: "could not serialize access due to a concurrent schema change".into(),
                detail: Some(format!(
                    "Foreign key \"{}\" was added while this transaction changed keys of \"{}\".",
                    watch.names.constraint, watch.names.parent
                )),
                hint: Some("Run the transaction again.".into()),
            });
        }
    }
    Ok(())
}

async fn write_own(
    txn: &mut Transaction,
    table: &dyn Table,
    base: Ts,
    write: RowWrite<'_>,
    limits: &Limits,
) -> Result<(), TxnError> {
    loop {
        match table.write(txn.part(), base, std::slice::from_ref(&write)) {
            Ok(()) => return Ok(()),
            Err((_, stop)) => stopped(txn, stop, "", limits).await?,
        }
    }
}

async fn stopped(
    txn: &mut Transaction,
    stop: WriteStop,
    index: &str,
    limits: &Limits,
) -> Result<(), TxnError> {
    match stop {
        WriteStop::Busy { holder } => txn.wait_for(holder, limits).await,
        WriteStop::Changed { .. } => Err(TxnError::Serialization),
        // The row was deleted by this transaction itself: there is nothing to carry.
        WriteStop::Gone => Ok(()),
        WriteStop::Duplicate { .. } => Err(SchemaError::refused(
            SqlState::UNIQUE_VIOLATION,
            format!("duplicate key value violates unique constraint \"{index}\""),
        )
        .into()),
        WriteStop::Engine(e) => Err(TxnError::Engine(e)),
    }
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
        local(txn).is_none() && catalog.is_undisturbed(txn)
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

    fn check(&self, txn: &mut Transaction, _commit_ts: Ts) -> Verdict {
        let Ok(catalog) = self.catalog() else { return Verdict::Go };
        if catalog.is_current(txn) {
            if local(txn).is_some() {
                CrashPoint::FlipTimestamp.reached();
            }
            return Verdict::Go;
        }
        if local(txn).is_some() {
            catalog.release_flip(txn);
        }
        Verdict::Retreat
    }

    fn committed(&self, txn: &mut Transaction, commit_ts: Ts) {
        if local(txn).is_none() {
            return;
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
            Changed::Sequence(_) => None,
        }
    }
}
