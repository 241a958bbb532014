//! `froglet.on_violation = reject_writers`: who violates a constraint that is being added, fails.
//!
//! ```text
//!   DDL      ADD CHECK: scan, capture ………………………………………………… flip
//!   writer          UPDATE ……………… COMMIT: its rows against the new steps ─ 23514, 23505, 23503
//! ```
//!
//! A writer looks at its own rows before it takes a commit timestamp. What it cannot know (an index
//! that is not loaded yet, a column that is being filled, a writer beside it with the same key, a parent
//! that it takes away or whose key is new) is found by scan or capture, and fails the migration.
//! A row that violated before the statement fails both: whoever writes to it, and the migration.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use froglet_engine::{Direction, KeyRange, Row, RowId, Snapshot, SqlState, Value, key};
use froglet_txn::{Transaction, TxnError};

use crate::catalog::Catalog;
use crate::error::SchemaError;
use crate::flip::carry::verify_rows;
use crate::flip::changes_itself;
use crate::migration::Migration;
use crate::rows::types_of;
use crate::step::{Step, StepKind, show};

impl Catalog {
    /// Fails if the transaction has written a row that violates what another one is adding, and
    /// writers are to fail.
    pub(crate) fn refuse_violations(&self, txn: &mut Transaction) -> Result<(), TxnError> {
        for used in txn.schema_set().to_vec() {
            let state = self.state(used.table);
            let is_asked = state.is_some_and(|s| s.rejecting.load(Ordering::SeqCst) > 0);
            if !is_asked || changes_itself(txn, used.table) {
                continue;
            }
            let rows = txn.part().rows_written(used.space);
            let own = txn.snapshot();
            for migration in self.rejecting(used.table, used.space) {
                if migration.owner == txn.id() {
                    continue;
                }
                let steps = migration.steps();
                for (at, step) in steps.iter().enumerate().filter(|(_, s)| s.rejects_writers()) {
                    if step.reads_filled(&steps[..at]) || self.is_of_new_parent(&migration, step) {
                        continue;
                    }
                    let now = self.engine().fresh(txn.id());
                    let refused = refuse(step, &own, &now, &rows);
                    refused.map_err(|e| because(e, migration.id))?;
                }
            }
        }
        Ok(())
    }

    /// Whether a foreign key is to a key that the same transaction is adding: what writers beside it
    /// have entered there is not known yet.
    fn is_of_new_parent(&self, migration: &Migration, step: &Step) -> bool {
        let StepKind::Child(watch) = &step.kind else { return false };
        let index = watch.parent.layout().indexes[watch.parent_index].id;
        let builds = |step: &Arc<Step>| match step.kind {
            StepKind::Index { position, .. } => step.table.layout().indexes[position].id == index,
            _ => false,
        };
        let space = watch.parent.space();
        let beside = self.migrations_of(migration.owner);
        beside.iter().any(|m| m.space() == space && m.steps().iter().any(builds))
    }
}

/// A writer's rows against one step. `now`: what is committed, and the writer's own.
fn refuse(step: &Step, own: &Snapshot, now: &Snapshot, rows: &[RowId]) -> Result<(), SchemaError> {
    match &step.kind {
        StepKind::Verify { source, check, .. } => {
            verify_rows(&*step.table, own, rows, source, &**check)
        }
        StepKind::Child(watch) => watch.verify_own(&*step.table, (own, now), rows),
        StepKind::Index { position, name, .. } if !step.is_built() => {
            rows.iter().try_for_each(|row| refuse_duplicate(step, *position, name, own, now, *row))
        }
        _ => Ok(()),
    }
}

fn refuse_duplicate(
    step: &Step,
    position: usize,
    name: &str,
    own: &Snapshot,
    now: &Snapshot,
    row: RowId,
) -> Result<(), SchemaError> {
    let layout = step.table.layout();
    let index = &layout.indexes[position];
    let places: Vec<usize> = layout.key_positions(index).collect();
    let mut values = Row::new();
    let is_there = step.table.read_row(own, row, &places, &mut values);
    let sets_apart = |(at, value): (usize, &Value)| value.is_null() && index.nulls.sets_apart(at);
    if !index.keeps_apart() || !is_there || values.iter().enumerate().any(sets_apart) {
        return Ok(());
    }
    let range = KeyRange::prefix(key::encode(&values, &index.key));
    let mut is_duplicate = false;
    step.table.seek(now, position, &range, Direction::Forward, &[], &mut |rid, _| {
        is_duplicate |= rid != row;
        if is_duplicate { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if !is_duplicate {
        return Ok(());
    }
    let shown = show(&values, &types_of(&*step.table, &places));
    Err(SchemaError::refused(
        SqlState::UNIQUE_VIOLATION,
        format!("duplicate key value violates unique constraint \"{name}\""),
    )
    .with_detail(format!("Key ({}) already exists.", shown)))
}

fn because(error: SchemaError, migration: u64) -> SchemaError {
    error.with_hint(format!(
        "Schema change {migration} is adding the constraint, with froglet.on_violation = reject_writers."
    ))
}
