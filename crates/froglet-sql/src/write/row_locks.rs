//! SELECT … FOR UPDATE and the weaker row locks, and what they are to writers.
//!
//! ```text
//!   FOR UPDATE          holds the row as a write does, and enters UPDATE
//!   FOR NO KEY UPDATE   holds the row as a write does
//!   FOR SHARE           holds it so for a moment, and enters SHARE then
//!   FOR KEY SHARE       enters KEY SHARE, and looks for who deletes the row or changes its key
//! ```
//!
//! Which of them meet, and in which order each enters and looks: `froglet_txn::rowlocks`.
//!
//! L1: a row is locked as it is found. One that has changed since the statement's view is looked at again, as before a
//!     write. Whoever asks for FOR KEY SHARE does not mind changes of other columns: he gets the row as he sees it, as
//!     in PostgreSQL; if its key is another, or the row is gone, he waits like others.
//! L2: a key is what a foreign key may refer to: the columns of the unique indexes that are neither partial nor over
//!     expressions. Whether an UPDATE changes it is a matter of values.

use froglet_engine::{Home, Row, RowId, Snapshot, Ts, TxnId};
use froglet_schema::TableVersion;
use froglet_txn::{Strength, TxnError};

use crate::apply::{Kind, OnBusy, Recheck, Stop, Targets, Writer, row_not_available};
use crate::error::SqlError;
use crate::lock_parts::RowLock;
use crate::select::Lock;

impl Kind<'_> {
    /// Who holds a row at least so strongly keeps this away from it, whatever it changes.
    fn kept_out_by(self) -> Option<Strength> {
        match self {
            Kind::Delete | Kind::LockAll => Some(Strength::KeyShare),
            Kind::Update(_) | Kind::Lock => Some(Strength::Share),
            Kind::Share => None,
        }
    }
}

impl Writer<'_> {
    /// Locks the collected rows. Those that turn out not to concern the statement leave `targets`.
    pub(crate) async fn lock(
        &mut self,
        table: &TableVersion,
        lock: Lock,
        base: Ts,
        targets: &mut Targets,
        recheck: Recheck<'_>,
    ) -> Result<(), Stop> {
        match lock.strength {
            RowLock::Update | RowLock::NoKeyUpdate => {
                let is_all = lock.strength == RowLock::Update;
                let kind = if is_all { Kind::LockAll } else { Kind::Lock };
                self.modify(table, kind, base, targets, lock.busy, Some(recheck)).await?;
            }
            RowLock::Share | RowLock::KeyShare if table.def.space.home() == Home::Cluster => {
                let what = "FOR SHARE and FOR KEY SHARE of tables in a cluster";
                return Err(SqlError::unsupported(what).into());
            }
            RowLock::Share => {
                let share = Strength::Share;
                self.share(table, share, base, targets, lock.busy, recheck).await?;
            }
            RowLock::KeyShare => {
                Box::pin(self.key_share(table, lock.busy, base, targets, recheck)).await?;
            }
        }
        // Where the rows were, nobody says that they have changed since.
        match self.has_moved(table) {
            true if self.isolation().keeps_view() => Err(TxnError::Serialization.into()),
            true => Err(Stop::Restart),
            false => Ok(()),
        }
    }

    /// Holds rows as a write does, and meanwhile enters that they are held more weakly.
    async fn share(
        &mut self,
        table: &TableVersion,
        strength: Strength,
        base: Ts,
        targets: &mut Targets,
        on_busy: OnBusy,
        recheck: Recheck<'_>,
    ) -> Result<(), Stop> {
        let before = self.txn.savepoint();
        self.modify(table, Kind::Share, base, targets, on_busy, Some(recheck)).await?;
        for rid in &targets.rids {
            // Whoever let go of the row has not yet let go of its entry.
            while let Err(holder) = self.txn.hold_row(table.def.space, *rid, strength) {
                self.wait_for(holder).await?;
            }
        }
        self.txn.rollback_to(before);
        Ok(())
    }

    async fn key_share(
        &mut self,
        table: &TableVersion,
        on_busy: OnBusy,
        base: Ts,
        targets: &mut Targets,
        recheck: Recheck<'_>,
    ) -> Result<(), Stop> {
        let columns = key_columns(table);
        let (mut at, mut skipped) = (0, Vec::new());
        while at < targets.rids.len() {
            let rid = targets.rids[at];
            let before = match self.hold_key(table, rid, &columns) {
                Ok(before) => before,
                Err(holder) => {
                    match on_busy {
                        OnBusy::Wait => self.wait_for_row(table, holder).await?,
                        OnBusy::NoWait => return Err(row_not_available(table)),
                        OnBusy::Skip => {
                            skipped.push(at);
                            at += 1;
                        }
                    }
                    continue;
                }
            };
            if table.table.changed_since(rid, base) && self.has_other_key(table, rid, &columns) {
                // [L1]
                self.txn.let_go(table.def.space, rid, before);
                let olds = targets.olds.get_mut(at).map(std::mem::take).into_iter().collect();
                let mut one = Targets { rids: vec![rid], olds, ..Targets::new() };
                let key = Strength::KeyShare;
                self.share(table, key, base, &mut one, on_busy, &mut *recheck).await?;
                if one.rids.is_empty() {
                    skipped.push(at);
                } else if let (Some(place), Some(now)) = (targets.olds.get_mut(at), one.olds.pop())
                {
                    *place = now;
                }
            }
            at += 1;
        }
        targets.remove(&skipped);
        Ok(())
    }

    /// Enters KEY SHARE, unless somebody deletes the row, changes its key, or holds it FOR UPDATE. How the row was
    /// held before.
    fn hold_key(
        &mut self,
        table: &TableVersion,
        rid: RowId,
        columns: &[usize],
    ) -> Result<Option<Strength>, TxnId> {
        let space = table.def.space;
        let before = self.txn.hold_row(space, rid, Strength::KeyShare)?;
        match table.table.changer(rid, columns, self.txn.id()) {
            Some(holder) if before.is_none() => {
                self.txn.let_go(space, rid, None);
                Err(holder)
            }
            _ => Ok(before),
        }
    }

    /// The first of some rows that somebody else holds in the way of what is to be done to them.
    pub(crate) fn first_held(
        &self,
        table: &TableVersion,
        kind: Kind<'_>,
        rids: &[RowId],
    ) -> Option<(usize, TxnId)> {
        let least = kind.kept_out_by()?;
        let locks = self.txn.manager().row_locks();
        if !locks.any(least) {
            return None;
        }
        let holder =
            |rid: &RowId| locks.other_holder((table.def.space, *rid), self.txn.id(), least);
        rids.iter().enumerate().find_map(|(at, rid)| Some((at, holder(rid)?)))
    }

    /// The same of rows that are written, and whose keys are known to have changed or not.
    pub(crate) fn held_late(
        &self,
        table: &TableVersion,
        kind: Kind<'_>,
        rids: &[RowId],
    ) -> Option<TxnId> {
        if let Some((_, holder)) = self.first_held(table, kind, rids) {
            return Some(holder);
        }
        let Kind::Update(set) = kind else { return None };
        let locks = self.txn.manager().row_locks();
        if !locks.any(Strength::KeyShare) {
            return None;
        }
        let key = key_columns(table);
        if !key.iter().any(|column| set.contains(column)) {
            return None;
        }
        let me = self.txn.id();
        rids.iter().find_map(|rid| {
            let holder = locks.other_holder((table.def.space, *rid), me, Strength::KeyShare)?;
            self.has_new_key(table, *rid, &key).then_some(holder)
        })
    }

    /// Whether a row that others have changed has another key than the statement sees, or is gone.
    fn has_other_key(&mut self, table: &TableVersion, rid: RowId, key: &[usize]) -> bool {
        let seen = self.txn.snapshot();
        let now = self.now();
        let read = |view: &Snapshot| {
            let mut row = Row::new();
            table.table.read_row(view, rid, key, &mut row).then_some(row)
        };
        let key = read(&now);
        key.is_none() || key != read(&seen)
    }

    /// Whether a row that the transaction has written has another key than everybody else sees [L2].
    fn has_new_key(&self, table: &TableVersion, rid: RowId, key: &[usize]) -> bool {
        let engine = self.txn.manager().engine();
        let read = |own: TxnId| {
            let mut row = Row::new();
            table.table.read_row(&engine.fresh(own), rid, key, &mut row).then_some(row)
        };
        read(TxnId(0)) != read(self.txn.id())
    }

    /// FOR UPDATE: rows that are held as a write holds them are held by nobody else at all. On an error nothing is
    /// entered.
    pub(crate) fn hold_all(&mut self, table: &TableVersion, rids: &[RowId]) -> Result<(), TxnId> {
        let space = table.def.space;
        let mut held = Vec::new();
        for rid in rids {
            match self.txn.hold_row(space, *rid, Strength::Update) {
                Ok(before) => held.push((*rid, before)),
                Err(holder) => {
                    for (rid, before) in held.into_iter().rev() {
                        self.txn.let_go(space, rid, before);
                    }
                    return Err(holder);
                }
            }
        }
        Ok(())
    }
}

/// Layout positions of the columns that foreign keys may refer to [L2].
fn key_columns(table: &TableVersion) -> Vec<usize> {
    let layout = table.table.layout();
    let visible = table.def.columns.len();
    let mut columns: Vec<usize> = Vec::new();
    for index in layout.indexes.iter().filter(|index| index.unique) {
        let positions: Vec<usize> = layout.key_positions(index).collect();
        if positions.iter().all(|position| *position < visible) {
            columns.extend(positions);
        }
    }
    columns.sort_unstable();
    columns.dedup();
    columns
}
