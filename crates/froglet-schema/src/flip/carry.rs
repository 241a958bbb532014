//! The carry-over: rows that a writer has written under an older schema follow to the newest, in its own
//! transaction. Parents come before children: a foreign key is asked when all tables have followed.
//!
//! ```text
//!   the table has a newer version     its steps, for the writer's rows: fill, check, enter into indexes
//!   the table's rows are elsewhere    the writer's rows go there, too
//!   the table is gone, copies stay    the writer's rows go where copies have them
//!   the table is gone                 40001: the transaction runs again
//! ```

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use froglet_engine::{
    BlockRows, CrashPoint, Home, IndexId, IndexSpec, Row, RowId, RowWrite, Snapshot, SpaceId,
    SqlState, Table, Ts, TxnId, Value, WriteStop, batch,
};
use froglet_txn::{Limits, SchemaUse, Strength, Transaction, TxnError};

use crate::catalog::{Catalog, CatalogVersion, TableVersion};
use crate::change::Check;
use crate::course::Who;
use crate::def::{ObjectId, TableDef};
use crate::drawn::Drawn;
use crate::error::SchemaError;
use crate::flip::made_by::MadeBy;
use crate::flip::moved::kept_out_by;
use crate::lazy_columns::LazyColumns;
use crate::lazy_rows::LazyRows;
use crate::lazy_table::LazyTable;
use crate::rows::{read_rows, row_at, types_of};
use crate::step::{ForeignKeyWatch, Step, StepKind, show};

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

/// The version of rows that have gone elsewhere: no schema version is newer.
pub(crate) const NO_LONGER_ITS: Ts = Ts::LATEST;

/// When a writer's rows follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// Before another statement of it. What may be asked at the end is asked there.
    Statement,
    /// Before its commit; all has been asked.
    Commit,
}

impl Catalog {
    /// The foreign keys of a writer's rows that have followed. One that has changed again since has another step, and
    /// one that is gone asks nothing.
    pub(crate) async fn carry_children(
        &self,
        txn: &mut Transaction,
        steps: &[Arc<Step>],
        follows: Follows,
        limits: &Limits,
    ) -> Result<(), TxnError> {
        let latest = self.latest();
        for step in steps {
            let StepKind::Child(watch) = &step.kind else { continue };
            let space = step.table.space();
            let is_its = |version: &&Arc<TableVersion>| version.def.space == space;
            let is_asked = latest.tables.values().find(is_its).is_some_and(|v| watch.is_of(&v.def));
            if is_asked && follows == Follows::Statement && watch.is_deferrable {
                txn.asked_at_end.push(step.clone());
                continue;
            }
            if !is_asked {
                continue;
            }
            let rows = txn.part().rows_written(space);
            carry_rows(txn, step, None, &rows, None, limits).await?;
            CrashPoint::CarriedStep.reached();
        }
        Ok(())
    }

    /// Carries the rows that a transaction wrote under an older version over to the newest. `behind`
    /// is a read view from before that, and keeps what is needed. Foreign keys are left to `children`.
    pub(crate) async fn carry_over(
        &self,
        txn: &mut Transaction,
        used: SchemaUse,
        behind: &Arc<Snapshot>,
        children: &mut Vec<Arc<Step>>,
        limits: &Limits,
    ) -> Result<(), TxnError> {
        if used.space.home() == Home::Cluster {
            // Its rows are rows of every later version [Q2 of `catalog/refresh.rs`]; their entries follow.
            let latest = self.latest();
            let table =
                latest.tables.get(&used.table).filter(|table| table.def.space == used.space);
            if let Some(online) = table.and_then(|table| table.table.online_indexes())
                && !txn.part().rows_written(used.space).is_empty()
            {
                online.enter_newer(txn.part())?;
            }
            let now = latest.tables.get(&used.table).map_or(used.version, |table| table.version);
            txn.note_carried_over(used, now, behind.clone());
            return Ok(());
        }
        let flips = self.flips_after(used.table, used.version);
        let mut reached = used.version;
        for flip in &flips {
            if !flip.copies.is_empty() {
                self.carry_to_copies(txn, flip, used.space, children, limits).await?;
                // What happens to the table later is no matter of these rows.
                reached = NO_LONGER_ITS;
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
                let latest = self.latest();
                let def = latest.tables.get(&used.table).map(|version| &version.def);
                for step in &flip.steps {
                    if matches!(step.kind, StepKind::Child(_)) {
                        children.push(step.clone());
                        continue;
                    }
                    carry_rows(txn, step, def, &rows, None, limits).await?;
                    CrashPoint::CarriedStep.reached();
                }
                for columns in &flip.lazy_columns {
                    carry_lazy_column(txn, columns, def, &rows, limits).await?;
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
            _ if used.version == NO_LONGER_ITS => false,
            Some(table) => table.version > used.version,
            None => {
                let flips = self.flips_after(used.table, used.version);
                flips.iter().any(|flip| flip.ts <= view.ts)
            }
        }
    }

    /// Rows that a transaction wrote to a table which is gone, or has its rows elsewhere, go where copies have them: as
    /// if it had committed before they did.
    async fn carry_to_copies(
        &self,
        txn: &mut Transaction,
        flip: &Flip,
        from: SpaceId,
        children: &mut Vec<Arc<Step>>,
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
                    self.carry_to_copy(txn, to, flip.ts, &rows, children, limits).await?;
                }
            } else if matches!(step.kind, StepKind::Fill { .. }) {
                // The copy may have been made of the column. What is demanded is asked where the rows have gone.
                carry_rows(txn, step, None, &rows, None, limits).await?;
            }
        }
        for to in flip.copies.iter().filter(|to| matches!(to.made, MadeBy::Lazy(_))) {
            self.carry_to_copy(txn, to, flip.ts, &rows, children, limits).await?;
        }
        Ok(())
    }

    async fn carry_to_copy(
        &self,
        txn: &mut Transaction,
        to: &CopyTo,
        flip: Ts,
        rows: &[RowId],
        children: &mut Vec<Arc<Step>>,
        limits: &Limits,
    ) -> Result<(), TxnError> {
        let changes = to.made.changes_of(&txn.snapshot(), rows)?;
        let latest = self.latest();
        let def = latest.tables.get(&to.table).map(|version| &version.def);
        let is_referred_to = def.is_some_and(|def| !def.referenced_by.is_empty());
        if is_referred_to && !to.made.is_move() && !changes.is_empty() {
            // Others may refer to these rows by now, and nobody has asked them.
            return Err(TxnError::Serialization);
        }
        if to.made.is_move() {
            // What it has held, and left as it was, others have left as it was.
            let changed: HashSet<RowId> = changes.iter().map(|(source, _)| *source).collect();
            for rid in rows.iter().filter(|rid| !changed.contains(rid)) {
                if let Some(place) = to.made.place_of(*rid)?
                    && to.made.is_changed_since(place, Ts(flip.0 - 1))
                {
                    return Err(TxnError::Serialization);
                }
            }
            self.wait_for_holders(txn, to, &changes, limits).await?;
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
                    // A copy has its indexes after its rows.
                    Err(stop) => stopped(txn, stop, None, limits).await?,
                }
            }
        }
        for step in &to.steps {
            if matches!(step.kind, StepKind::Child(_)) {
                // Its parent may be among the rows of another table that are still to follow.
                children.push(step.clone());
                continue;
            }
            carry_rows(txn, step, def, &written, Some(flip), limits).await?;
        }
        txn.note_schema(SchemaUse { table: to.table, space: to.made.space(), version: flip });
        Ok(())
    }

    /// Who holds a row where it is now, and not where it was when this transaction wrote it, is waited for.
    async fn wait_for_holders(
        &self,
        txn: &mut Transaction,
        CopyTo { made, steps, .. }: &CopyTo,
        changes: &[(RowId, Option<Row>)],
        limits: &Limits,
    ) -> Result<(), TxnError> {
        if !txn.manager().row_locks().any(Strength::KeyShare) {
            return Ok(());
        }
        // With its indexes, if it has any: they say what a key is.
        let is_index = |step: &&Arc<Step>| matches!(step.kind, StepKind::Index { .. });
        let indexed = steps.iter().rfind(is_index).map(|step| step.table.clone());
        let table = indexed.unwrap_or_else(|| made.target_table());
        let all: Vec<usize> = (0..made.source_table().layout().columns.len()).collect();
        for (source, change) in changes {
            let Some(rid) = made.place_of(*source)? else { continue };
            let write = match change {
                None => RowWrite::Delete { rid },
                Some(values) => RowWrite::Update { rid, columns: &all, values },
            };
            let committed = txn.manager().engine().fresh(TxnId(0));
            let least = kept_out_by(&*table, &committed, &write);
            let held = |txn: &Transaction| {
                let place = (made.space(), rid);
                txn.manager().row_locks().other_holder(place, txn.id(), least)
            };
            while let Some(holder) = held(txn) {
                txn.wait_for(holder, limits).await?;
            }
        }
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
                    Err(stop) => stopped(txn, stop, None, limits).await?,
                }
            }
        }
        Ok(())
    }
}

/// One step for the rows of a writer that began under the older schema, inside its transaction. Of
/// rows that come into another table, whoever has taken their keys after the flip `into` knew nothing.
/// `def` is the step's table, for messages.
pub(crate) async fn carry_rows(
    txn: &mut Transaction,
    step: &Step,
    def: Option<&TableDef>,
    rows: &[RowId],
    into: Option<Ts>,
    limits: &Limits,
) -> Result<(), TxnError> {
    let snapshot = txn.snapshot();
    let table = Named { rows: &*step.table, def };
    match &step.kind {
        StepKind::Fill { source, target, ty, transform, filled, not_null, drawn } => {
            let rows: &[RowId] = match (filled, drawn) {
                (Some(filled), _) => &without_those_filled(&*step.table, &snapshot, rows, *filled),
                (None, Some(drawn)) => &without_those_drawn(txn, step, source, drawn, rows),
                (None, None) => rows,
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
                    write_own(txn, table, snapshot.ts, write, limits).await?;
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
                write_own(txn, table, snapshot.ts, write, limits).await?;
            }
            Ok(())
        }
        StepKind::Verify { source, check, .. } => {
            Ok(verify_rows(&*step.table, &snapshot, rows, source, &**check)?)
        }
        StepKind::Index { position, .. } => {
            for rid in rows {
                loop {
                    match step.table.index_row(txn.part(), *rid, &[*position]) {
                        Ok(()) => break,
                        Err(WriteStop::Duplicate { other, .. })
                            if into.is_some_and(|flip| step.table.changed_since(other, flip)) =>
                        {
                            return Err(TxnError::Serialization);
                        }
                        Err(stop) => stopped(txn, stop, Some(table), limits).await?,
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

/// The rows that have no value of a volatile expression yet: those that the writer has inserted, and those of which
/// it has changed what the value was drawn of. What the others have was published with the schema.
fn without_those_drawn(
    txn: &mut Transaction,
    step: &Step,
    inputs: &[usize],
    drawn: &Drawn,
    rows: &[RowId],
) -> Vec<RowId> {
    // They are held: what is committed is what there was when the schema changed.
    let (committed, own) = (txn.manager().engine().fresh(TxnId(0)), txn.snapshot());
    let is_new = |rid: &RowId| {
        let (mut before, mut after) = (Row::new(), Row::new());
        !step.table.read_row(&committed, *rid, inputs, &mut before)
            || step.table.read_row(&own, *rid, inputs, &mut after)
                && !drawn.are_same(&before, &after)
    };
    rows.iter().filter(|rid| is_new(rid)).copied().collect()
}

/// Writes what the scan of a volatile fill has stored for rows of the owner's as versions of its own.
pub(crate) async fn take_over_drawn(
    txn: &mut Transaction,
    step: &Step,
    def: &TableDef,
    rows: &[RowId],
    limits: &Limits,
) -> Result<(), TxnError> {
    let StepKind::Fill { target, .. } = &step.kind else { return Ok(()) };
    let (snapshot, columns) = (txn.snapshot(), [*target]);
    let table = Named { rows: &*step.table, def: Some(def) };
    for rid in rows {
        let mut values = Row::new();
        if step.table.read_row(&snapshot, *rid, &columns, &mut values) {
            let write = RowWrite::Update { rid: *rid, columns: &columns, values: &values };
            write_own(txn, table, snapshot.ts, write, limits).await?;
        }
    }
    Ok(())
}

/// The newest lazy column for the rows of a writer that began under the older schema [K3].
async fn carry_lazy_column(
    txn: &mut Transaction,
    columns: &LazyColumns,
    def: Option<&TableDef>,
    rows: &[RowId],
    limits: &Limits,
) -> Result<(), TxnError> {
    let mut in_order = rows.to_vec();
    in_order.sort_unstable();
    columns.fill(&in_order, Who::Access)?;
    let snapshot = txn.snapshot();
    let positions = columns.carried_to();
    let table = Named { rows: &*columns.whole, def };
    for (rid, values) in columns.carried(&snapshot, &in_order)? {
        let write = RowWrite::Update { rid, columns: &positions, values: &values };
        write_own(txn, table, snapshot.ts, write, limits).await?;
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
    loop {
        let find = |view: &Snapshot| Ok::<_, TxnError>(watch.find_parent(view, values));
        let found = txn.hold_found(&*watch.parent, &watch.parent_key, find, limits).await?;
        let Some(rid) = found else { return Err(watch.missing_parent(values).into()) };
        // It may be held from before the key was in this column.
        match watch.parent.changer(rid, &watch.parent_key, txn.id()) {
            Some(holder) => txn.wait_for(holder, limits).await?,
            None => return Ok(()),
        }
    }
}

/// A writer of the parent table that knew nothing of the foreign key may go on if it left every
/// key alone; whoever deleted a parent or changed its key has to run again. Where the foreign key is only to other
/// columns than it was, who has deleted a parent has looked for children, and who came after it has waited.
fn parents_unchanged(
    txn: &mut Transaction,
    watch: &ForeignKeyWatch,
    rows: &[RowId],
) -> Result<(), TxnError> {
    let mine = txn.snapshot();
    let committed = txn.manager().engine().fresh(TxnId(0));
    for rid in rows {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        if !watch.parent.read_row(&committed, *rid, &watch.parent_key, &mut before) {
            continue;
        }
        let there = watch.parent.read_row(&mine, *rid, &watch.parent_key, &mut after);
        if !there && watch.is_kept && watch.is_child_as_it_was {
            continue;
        }
        if !there || before != after {
            return Err(TxnError::Refused {
                state: SqlState::SERIALIZATION_FAILURE,
                message: "could not serialize access due to a concurrent schema change".into(),
                detail: Some(format!(
                    "Foreign key \"{}\" was added, got other types, or has a table that was moved, while this transaction changed keys of \"{}\".",
                    watch.names.constraint, watch.names.parent
                )),
                hint: Some("Run the transaction again.".into()),
            });
        }
    }
    Ok(())
}

/// A table, and what its indexes and columns are called.
#[derive(Clone, Copy)]
struct Named<'a> {
    rows: &'a dyn Table,
    def: Option<&'a TableDef>,
}

impl Named<'_> {
    /// The error of a writer whose row has the key of another.
    fn duplicate(&self, me: &Transaction, index: IndexId, other: RowId) -> Option<SchemaError> {
        let index = self.def?.index_by_id(index)?;
        let error = duplicate(format!("unique constraint \"{}\"", index.name));
        let layout = self.rows.layout();
        let positions = index.written_parts().iter().map(|part| layout.position(part.column));
        let positions: Vec<usize> = positions.collect::<Option<_>>()?;
        let mut values = Row::new();
        let view = me.manager().engine().fresh(me.id());
        if !self.rows.read_row(&view, other, &positions, &mut values) {
            return Some(error);
        }
        let columns = self.def?.key_shown(index);
        let values = show(&values, &types_of(self.rows, &positions));
        Some(error.with_detail(format!("Key ({columns})=({values}) already exists.")))
    }
}

/// 23505
fn duplicate(violated: String) -> SchemaError {
    let message = format!("duplicate key value violates {violated}");
    SchemaError::refused(SqlState::UNIQUE_VIOLATION, message)
}

async fn write_own(
    txn: &mut Transaction,
    table: Named<'_>,
    base: Ts,
    write: RowWrite<'_>,
    limits: &Limits,
) -> Result<(), TxnError> {
    loop {
        match table.rows.write(txn.part(), base, std::slice::from_ref(&write)) {
            Ok(()) => return Ok(()),
            Err((_, stop)) => stopped(txn, stop, Some(table), limits).await?,
        }
    }
}

async fn stopped(
    txn: &mut Transaction,
    stop: WriteStop,
    table: Option<Named<'_>>,
    limits: &Limits,
) -> Result<(), TxnError> {
    match stop {
        WriteStop::Busy { holder } => txn.wait_for(holder, limits).await,
        WriteStop::Changed | WriteStop::Moved => Err(TxnError::Serialization),
        // The row was deleted by this transaction itself: there is nothing to carry.
        WriteStop::Gone => Ok(()),
        WriteStop::Duplicate { index, other } => {
            let named = table.and_then(|table| table.duplicate(txn, index, other));
            Err(named.unwrap_or_else(|| duplicate("a unique constraint".to_owned())).into())
        }
        WriteStop::Engine(e) => Err(TxnError::Engine(e)),
    }
}
