//! The second phase of a write: rows collected under the statement's read view are written, one
//! conflict at a time.
//!
//! ```text
//!   write ─▶ done
//!     │ Busy      wait for the holder, write again
//!     │ Changed   READ COMMITTED: a new read view, the row as it is now, the predicate and the
//!     │           new values again (Recheck), write with the new view as base
//!     │           REPEATABLE READ: 40001
//!     │ Gone      READ COMMITTED: skip;  REPEATABLE READ: 40001
//!     │ Moved     READ COMMITTED: the statement begins again;  REPEATABLE READ: 40001
//!     └ Duplicate 23505
//! ```
//!
//! The new view is taken before the newest catalog is asked for: when the table's version is still
//! the statement's, whatever the view shows was written under that version, and reading it in the
//! statement's columns is right. When it is not, the statement restarts under the new version.
//! Statements whose predicate is not a matter of one row (subqueries) restart, too.
//!
//! Rows that others hold (FOR SHARE, or whatever is in the way of this write) are waited for before they are written;
//! see froglet-txn, R2, for the look afterwards.

use std::sync::Arc;

use arrow::array::RecordBatch;
use froglet_engine::{Row, RowId, RowWrite, Snapshot, SqlState, Ts, TxnId, Value, WriteStop};
use froglet_schema::{Catalog, CatalogVersion, Counted, SchemaError, TableVersion};
use froglet_txn::{Isolation, Limits, SchemaUse, Transaction, TxnError};
use smallvec::SmallVec;

use crate::context::EvalContext;
use crate::deferred::Deferred;
use crate::error::SqlError;
use crate::functions::SessionState;
use crate::provider::Hidden;
use crate::unique_key::UniqueKey;
use crate::violation;

/// Why a statement stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Undo what it wrote and run it again under a new read view (READ COMMITTED only).
    Restart,
    /// It failed.
    Error(SqlError),
}

impl From<SqlError> for Stop {
    fn from(e: SqlError) -> Stop {
        Stop::Error(e)
    }
}

impl From<TxnError> for Stop {
    fn from(e: TxnError) -> Stop {
        Stop::Error(e.into())
    }
}

impl From<SchemaError> for Stop {
    fn from(e: SchemaError) -> Stop {
        match e {
            SchemaError::Stale => Stop::Restart,
            e => Stop::Error(e.into()),
        }
    }
}

/// What happens when a row is held by another transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnBusy {
    /// Wait.
    #[default]
    Wait,
    /// 55P03
    NoWait,
    /// Leave the row out.
    Skip,
}

/// A statement that writes.
pub(crate) struct Writer<'a> {
    pub(crate) txn: &'a mut Transaction,
    pub(crate) catalog: &'a Arc<Catalog>,
    /// The statement's catalog version.
    pub(crate) version: Arc<CatalogVersion>,
    pub(crate) limits: &'a Limits,
    /// What is checked at the end of the transaction.
    pub(crate) deferred: &'a mut Deferred,
    /// Parameters and session of the statement's expressions.
    pub(crate) eval: &'a EvalContext,
    pub(crate) session: &'a Arc<SessionState>,
    /// The first view under which the statement has found rows, once it has left it. It is kept: what
    /// becomes of a row is known for as long as somebody may have seen it before.
    pub(crate) first_view: Option<Arc<Snapshot>>,
    /// Which of the rows of an insert is the duplicate that it failed with.
    pub(crate) duplicate: Option<usize>,
    /// What parts of the statement have returned ([`crate::with_plan`]).
    pub(crate) returned: Vec<RecordBatch>,
    /// What parts of the statement that come later do not see, though it is written; `None` where there are no parts.
    pub(crate) hidden: Option<Hidden>,
}

/// The values a row takes; nothing for a delete or a lock.
pub(crate) type NewValues = Vec<Value>;

/// What one row of a statement became when its conflict was looked at.
pub(crate) type Rechecked = Result<Option<(NewValues, Row)>, SqlError>;

/// Looks at a row again under a new view; `None`: it no longer concerns the statement.
pub(crate) type Recheck<'r> = &'r mut (dyn FnMut(&Snapshot, RowId) -> Rechecked + Send);

/// What is done to each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'c> {
    /// The columns set, ascending.
    Update(&'c [usize]),
    Delete,
    /// FOR NO KEY UPDATE
    Lock,
    /// FOR UPDATE
    LockAll,
    /// FOR SHARE: held exclusively for a moment, so that what others hold shared is no obstacle.
    Share,
}

impl Kind<'_> {
    /// Rows were written so.
    fn count(self, table: &TableVersion, rows: usize) {
        match self {
            Kind::Update(_) => table.accesses().add(Counted::Updated, rows),
            Kind::Delete => table.accesses().add(Counted::Deleted, rows),
            Kind::Lock | Kind::LockAll | Kind::Share => {}
        }
    }
}

/// The rows of an UPDATE, DELETE or lock, as collected.
#[derive(Default)]
pub(crate) struct Targets {
    pub(crate) rids: Vec<RowId>,
    /// UPDATE: for each row a value for each column set.
    pub(crate) values: Vec<NewValues>,
    /// What the statement keeps of the row it read (for RETURNING and foreign keys).
    pub(crate) olds: Vec<Row>,
    /// What RETURNING reads of other tables beside each row.
    pub(crate) others: Vec<Row>,
}

impl Targets {
    pub(crate) fn new() -> Targets {
        Targets { rids: Vec::new(), values: Vec::new(), olds: Vec::new(), others: Vec::new() }
    }

    fn write<'v>(&'v self, at: usize, kind: Kind<'v>) -> RowWrite<'v> {
        let rid = self.rids[at];
        match kind {
            Kind::Update(columns) => RowWrite::Update { rid, columns, values: &self.values[at] },
            Kind::Delete => RowWrite::Delete { rid },
            Kind::Lock | Kind::LockAll | Kind::Share => RowWrite::Lock { rid },
        }
    }

    /// Takes out the rows at these places, which ascend.
    pub(crate) fn remove(&mut self, rows: &[usize]) {
        let mut doomed = rows.iter().copied().peekable();
        let mut keep = Vec::with_capacity(self.rids.len());
        for at in 0..self.rids.len() {
            keep.push(doomed.next_if_eq(&at).is_none());
        }
        let mut flags = keep.iter();
        self.rids.retain(|_| *flags.next().expect("a flag for each row"));
        for list in [&mut self.values, &mut self.olds, &mut self.others] {
            if !list.is_empty() {
                let mut flags = keep.iter();
                list.retain(|_| *flags.next().expect("a flag for each row"));
            }
        }
    }
}

/// Rows handed to the engine at once.
pub(crate) const CHUNK_ROWS: usize = 1024;

impl Writer<'_> {
    pub(crate) fn isolation(&self) -> Isolation {
        self.txn.isolation()
    }

    /// The transaction writes this table under this version. Call it before the first write.
    pub(crate) fn note(&mut self, table: &TableVersion) {
        if table.version != Ts(0) {
            self.txn.note_schema(SchemaUse {
                table: table.def.id,
                space: table.def.space,
                version: table.version,
            });
        }
    }

    /// Boxed, as all that is rare and long: futures of statements are moved, so they stay short.
    pub(crate) async fn wait_for(&mut self, holder: froglet_engine::TxnId) -> Result<(), TxnError> {
        Box::pin(self.txn.wait_for(holder, self.limits)).await
    }

    /// A read view at the present that sees this transaction's writes (REPEATABLE READ: the
    /// transaction's own view, since it has no other).
    pub(crate) async fn fresh_view(&mut self) -> Result<Arc<Snapshot>, Stop> {
        if self.isolation() == Isolation::ReadCommitted {
            let view = self.txn.part().snapshot();
            self.first_view.get_or_insert_with(|| view.clone());
            self.catalog.refresh_statement(self.txn, self.limits).await?;
        }
        Ok(self.txn.part().snapshot().clone())
    }

    /// Whether the table is no longer what the statement takes it for, which may look again: what it
    /// has met with may be of a schema that is no more, or of rows that went with it.
    pub(crate) fn is_outrun(&self, table: &TableVersion) -> bool {
        if self.isolation().keeps_view() || table.version == Ts(0) {
            return false;
        }
        let latest = self.catalog.latest();
        latest.tables.get(&table.def.id).is_none_or(|now| now.version != table.version)
    }

    /// Whether the table's rows are elsewhere by now than the statement has them.
    pub(crate) fn has_moved(&self, table: &TableVersion) -> bool {
        let latest = self.catalog.latest();
        let known = latest.tables.get(&table.def.id).filter(|_| table.version != Ts(0));
        known.is_some_and(|known| known.def.space != table.def.space)
    }

    /// Waits for who holds a row. Its table's rows may be elsewhere then, where the other, and others after it, have
    /// written to them: the statement looks again.
    pub(crate) async fn wait_for_row(
        &mut self,
        table: &TableVersion,
        holder: TxnId,
    ) -> Result<(), Stop> {
        self.wait_for(holder).await?;
        match self.is_outrun(table) {
            true => Err(Stop::Restart),
            false => Ok(()),
        }
    }

    /// After a whole chunk of rows others of the thread have their turn.
    async fn yield_after(&self, rows: usize) {
        if rows >= CHUNK_ROWS {
            tokio::task::yield_now().await;
        }
    }

    /// Inserts rows in layout order.
    pub(crate) async fn insert(
        &mut self,
        table: &TableVersion,
        rows: &[Row],
    ) -> Result<Vec<RowId>, Stop> {
        let mut rids = Vec::with_capacity(rows.len());
        let mut done = 0;
        while done < rows.len() {
            let chunk = &rows[done..rows.len().min(done + CHUNK_ROWS)];
            let Err((n, stop)) = table.table.insert(self.txn.part(), chunk, &mut rids) else {
                table.accesses().add(Counted::Inserted, chunk.len());
                done += chunk.len();
                self.yield_after(chunk.len()).await;
                continue;
            };
            table.accesses().add(Counted::Inserted, n);
            done += n;
            match stop {
                WriteStop::Busy { holder } => self.wait_for(holder).await?,
                WriteStop::Duplicate { .. } if self.is_outrun(table) => return Err(Stop::Restart),
                WriteStop::Duplicate { index, .. } => {
                    self.duplicate = Some(done);
                    return Err(violation::unique(&table.def, index, &rows[done]).into());
                }
                WriteStop::Engine(e) => return Err(SqlError::from(e).into()),
                WriteStop::Moved => return Err(self.moved()),
                WriteStop::Changed | WriteStop::Gone => {
                    return Err(internal("an insert met an older version of its own row"));
                }
            }
        }
        self.note_keys(table, &rids, None);
        Ok(rids)
    }

    /// Where rows were written the table is not any more.
    pub(crate) fn moved(&self) -> Stop {
        match self.isolation() {
            Isolation::ReadCommitted => Stop::Restart,
            Isolation::RepeatableRead | Isolation::Serializable => TxnError::Serialization.into(),
        }
    }

    /// Inserts rows in layout order, if nothing is in their way; else what was written is to be
    /// undone.
    pub(crate) fn insert_at_once(&mut self, table: &TableVersion, rows: &[Row]) -> Option<()> {
        if UniqueKey::has_any(table) {
            return None;
        }
        let mut rids = Vec::with_capacity(rows.len());
        table.table.insert(self.txn.part(), rows, &mut rids).ok()?;
        table.accesses().add(Counted::Inserted, rows.len());
        Some(())
    }

    /// Writes the collected rows, if nothing is in their way; else what was written is to be undone.
    pub(crate) fn modify_at_once(
        &mut self,
        table: &TableVersion,
        kind: Kind<'_>,
        base: Ts,
        targets: &Targets,
    ) -> Option<()> {
        if self.first_held(table, kind, &targets.rids).is_some() || UniqueKey::has_any(table) {
            return None;
        }
        let writes: SmallVec<[RowWrite<'_>; 1]> =
            (0..targets.rids.len()).map(|row| targets.write(row, kind)).collect();
        table.table.write(self.txn.part(), base, &writes).ok()?;
        kind.count(table, writes.len());
        // Held shared since the look above: froglet-txn, R2.
        self.held_late(table, kind, &targets.rids).is_none().then_some(())
    }

    /// Writes the collected rows. Rows that turn out not to concern the statement any more leave
    /// `targets`; rows that have changed have their new values in it afterwards. Without
    /// `recheck` the statement restarts where a row has changed.
    pub(crate) async fn modify(
        &mut self,
        table: &TableVersion,
        kind: Kind<'_>,
        base: Ts,
        targets: &mut Targets,
        on_busy: OnBusy,
        mut recheck: Option<Recheck<'_>>,
    ) -> Result<(), Stop> {
        let mut at = 0;
        let mut skipped = Vec::new();
        // The base of the row at `at`, when it had to be read again.
        let mut rebased: Option<Ts> = None;
        while at < targets.rids.len() {
            let chunk = if rebased.is_some() { 1 } else { CHUNK_ROWS };
            let mut end = targets.rids.len().min(at + chunk);
            let held = self.first_held(table, kind, &targets.rids[at..end]);
            if let Some((0, holder)) = held {
                match on_busy {
                    OnBusy::Wait => self.wait_for_row(table, holder).await?,
                    OnBusy::NoWait => return Err(row_not_available(table)),
                    OnBusy::Skip => {
                        skipped.push(at);
                        at += 1;
                        rebased = None;
                    }
                }
                continue;
            }
            end = held.map_or(end, |(rows, _)| at + rows);
            let before = self.txn.savepoint();
            let row_base = rebased.unwrap_or(base);
            let outcome = if end == at + 1 {
                let write = targets.write(at, kind);
                table.table.write(self.txn.part(), row_base, std::slice::from_ref(&write))
            } else {
                let writes: Vec<RowWrite<'_>> =
                    (at..end).map(|row| targets.write(row, kind)).collect();
                table.table.write(self.txn.part(), row_base, &writes)
            };
            let Err((n, stop)) = outcome else {
                let rids = &targets.rids[at..end];
                let held = match self.held_late(table, kind, rids) {
                    None if kind == Kind::LockAll => self.hold_all(table, rids).err(),
                    held => held,
                };
                if let Some(holder) = held {
                    // Held since the look above: written again when its holder has ended.
                    self.txn.rollback_to(before);
                    if on_busy == OnBusy::Wait {
                        self.wait_for_row(table, holder).await?;
                    }
                    continue;
                }
                kind.count(table, end - at);
                self.yield_after(end - at).await;
                at = end;
                rebased = None;
                continue;
            };
            if n > 0 {
                rebased = None;
            }
            kind.count(table, n);
            at += n;
            let next = self.conflict(table, kind, stop, at, targets, on_busy, &mut recheck);
            match Box::pin(next).await? {
                Next::Again => {}
                Next::AgainFrom(ts) => rebased = Some(ts),
                Next::Skip => {
                    skipped.push(at);
                    at += 1;
                    rebased = None;
                }
            }
        }
        if !skipped.is_empty() {
            targets.remove(&skipped);
        }
        if let Kind::Update(columns) = kind {
            self.note_keys(table, &targets.rids, Some(columns));
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    async fn conflict(
        &mut self,
        table: &TableVersion,
        kind: Kind<'_>,
        stop: WriteStop,
        at: usize,
        targets: &mut Targets,
        on_busy: OnBusy,
        recheck: &mut Option<Recheck<'_>>,
    ) -> Result<Next, Stop> {
        let read_committed = self.isolation() == Isolation::ReadCommitted;
        match stop {
            WriteStop::Busy { holder } => match on_busy {
                OnBusy::Wait => {
                    self.wait_for_row(table, holder).await?;
                    Ok(Next::Again)
                }
                OnBusy::NoWait => Err(row_not_available(table)),
                OnBusy::Skip => Ok(Next::Skip),
            },
            WriteStop::Changed | WriteStop::Gone | WriteStop::Moved if !read_committed => {
                Err(TxnError::Serialization.into())
            }
            WriteStop::Moved => Err(Stop::Restart),
            WriteStop::Gone => Ok(Next::Skip),
            WriteStop::Changed => {
                let view = self.fresh_view().await?;
                let Some(recheck) = recheck else { return Err(Stop::Restart) };
                let now = recheck(&view, targets.rids[at])?;
                if self.is_outrun(table) {
                    return Err(Stop::Restart);
                }
                let Some((values, old)) = now else { return Ok(Next::Skip) };
                if matches!(kind, Kind::Update(_)) {
                    targets.values[at] = values;
                }
                if let Some(place) = targets.olds.get_mut(at) {
                    *place = old;
                }
                Ok(Next::AgainFrom(view.ts))
            }
            WriteStop::Duplicate { .. } if self.is_outrun(table) => Err(Stop::Restart),
            WriteStop::Duplicate { index, .. } => {
                let row = self.new_row(table, kind, at, targets);
                Err(violation::unique(&table.def, index, &row).into())
            }
            WriteStop::Engine(e) => Err(SqlError::from(e).into()),
        }
    }

    /// The row as the update would have made it, for an error's detail.
    fn new_row(
        &mut self,
        table: &TableVersion,
        kind: Kind<'_>,
        at: usize,
        targets: &Targets,
    ) -> Row {
        let all: Vec<usize> = (0..table.def.width()).collect();
        let mut row = Row::new();
        let view = self.txn.part().snapshot().clone();
        if !table.table.read_row(&view, targets.rids[at], &all, &mut row) {
            row = vec![Value::Null; all.len()];
        }
        if let Kind::Update(columns) = kind {
            for (column, value) in columns.iter().zip(&targets.values[at]) {
                row[*column] = value.clone();
            }
        }
        row
    }
}

/// How [`Writer::modify`] goes on after a conflict.
enum Next {
    /// The same write.
    Again,
    /// The write with its new values, derived from this view.
    AgainFrom(Ts),
    /// The next row.
    Skip,
}

pub(crate) fn row_not_available(table: &TableVersion) -> Stop {
    Stop::Error(SqlError::new(
        SqlState::LOCK_NOT_AVAILABLE,
        format!("could not obtain lock on row in relation \"{}\"", table.def.name),
    ))
}

pub(crate) fn internal(what: &str) -> Stop {
    Stop::Error(SqlError::new(SqlState::INTERNAL_ERROR, what))
}
