//! What committed schema changes were, so that they can be reverted: rows of row space 2, which outlive the server.
//!
//! ```text
//!   record text: JSON of SchemaChange
//!
//!   written    by the changing transaction, before its commit timestamp
//!   cleared    by a transaction of its own: the columns that it keeps are given up
//!   deleted    by a transaction of its own: there are too many younger ones
//! ```
//!
//! A dropped column's values stay in its rows: nothing but [`Remains`] in the catalog's garbage takes them
//! away, and a record that keeps the column keeps it from becoming garbage.
//!
//! C1: a record is there if and only if its transaction has committed.
//! C2: a column that some record keeps, or that somebody restores, is not freed. A row that is written
//!     meanwhile has the column's missing value: the engine stores it in every column of the block that
//!     the writer's layout does not have.
//! C3: what is freed is not restored: both are decided under one lock.

use std::collections::HashMap;
use std::sync::Arc;

use froglet_engine::{ColumnId, IndexId, RowId, SpaceId, SqlState, TxnId};
use froglet_txn::{Transaction, TxnManager};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, CatalogVersion};
use crate::change::Change;
use crate::def::{CheckDef, ConstraintKind, IndexDef, ObjectDef, ObjectId, TableDef};
use crate::error::SchemaError;
use crate::local::{Changed, Changes, Local, Remains, local, local_mut};
use crate::migration::now_us;
use crate::records::Records;

/// The row space of the records.
pub(crate) const CHANGES_SPACE: SpaceId = SpaceId(2);
/// Changes that are remembered.
const REMEMBERED: usize = 256;

/// A committed transaction that changed schemas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SchemaChange {
    /// Its number: that of its first migration, or one of its own in the same series.
    pub id: u64,
    /// The numbers of its migrations.
    pub migrations: Vec<u64>,
    /// Microseconds since 1970 UTC.
    pub committed_us: i64,
    /// Its statements.
    pub statements: Vec<String>,
    /// What it changed.
    pub objects: Vec<ObjectChange>,
    /// The change that it reverts.
    pub reverts: Option<u64>,
    /// Columns that it dropped, of which the values are still in the rows.
    pub kept: Vec<KeptColumn>,
    /// Until then: microseconds since 1970 UTC.
    pub kept_until_us: i64,
}

/// What a transaction made of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectChange {
    /// `None`: it was made.
    pub before: Option<ObjectDef>,
    /// `None`: it was dropped.
    pub after: Option<ObjectDef>,
    /// Columns that were computed into others.
    pub retyped: Vec<Retyped>,
    /// What its rows were made of.
    pub made_of: Option<MadeOf>,
}

/// A column that has got other values, of the same type or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retyped {
    /// What it was.
    pub from: ColumnId,
    /// What it is.
    pub to: ColumnId,
    /// By an expression of the user's.
    pub is_computed: bool,
}

/// A dropped column that is still stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptColumn {
    /// The rows.
    pub space: SpaceId,
    /// The column.
    pub column: ColumnId,
}

/// Of which tables a table was made, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MadeOf {
    /// The tables.
    pub sources: Vec<ObjectId>,
    /// For each of its columns, in order, the source by its place and the column there that it is, if it is
    /// just that.
    pub columns: Vec<Option<(usize, ColumnId)>>,
    /// What became of the rows.
    pub rows: MadeRows,
}

/// How the rows of a table were made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum MadeRows {
    /// One of each row of its one source.
    Each,
    /// One of each pair of rows of its two sources that have the same values in some columns.
    Pairs {
        /// These: of the first, of the second.
        columns: Vec<(ColumnId, ColumnId)>,
        /// Whether every row of the first, of the second, is in one.
        keeps: [bool; 2],
    },
    /// Otherwise; the reason why its sources cannot be made of it, in words.
    Otherwise(String),
}

impl ObjectChange {
    /// The object's id.
    pub fn id(&self) -> ObjectId {
        let def = self.before.as_ref().or(self.after.as_ref());
        def.expect("a change has one or the other").id()
    }
}

impl SchemaChange {
    /// The change of an object.
    pub fn object(&self, id: ObjectId) -> Option<&ObjectChange> {
        self.objects.iter().find(|object| object.id() == id)
    }

    /// Whether a number is its own, or that of one of its migrations.
    pub fn has_number(&self, id: u64) -> bool {
        self.id == id || self.migrations.contains(&id)
    }

    fn keeps(&self, remains: &Remains) -> bool {
        match *remains {
            Remains::Column(space, column) => self.kept.contains(&KeptColumn { space, column }),
            Remains::Sequence(id) => self.sequences().any(|sequence| sequence == id),
            Remains::Index(..) | Remains::Space(_) => false,
        }
    }

    /// Sequences that it dropped: whoever reverts it asks for their last values.
    fn sequences(&self) -> impl Iterator<Item = ObjectId> {
        self.objects.iter().filter(|object| object.after.is_none()).filter_map(|object| {
            match &object.before {
                Some(ObjectDef::Sequence(sequence)) => Some(sequence.id),
                _ => None,
            }
        })
    }
}

/// See the module.
pub(crate) struct ChangeLog {
    records: Records<SchemaChange>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In the order of their commits, as far as they have to do with each other.
    changes: Vec<Arc<SchemaChange>>,
    /// Where the records are.
    rows: HashMap<u64, RowId>,
    /// Columns that are being restored, and by whom.
    restored: Vec<(KeptColumn, TxnId)>,
}

impl ChangeLog {
    /// Reads the records; makes their row space, in a new database.
    pub(crate) fn open(manager: Arc<TxnManager>) -> Result<ChangeLog, SchemaError> {
        let records: Records<SchemaChange> = Records::open(manager, CHANGES_SPACE, ColumnId(1))?;
        let mut state = State::default();
        for (rid, change) in records.read()? {
            state.rows.insert(change.id, rid);
            state.changes.push(Arc::new(change));
        }
        state.changes.sort_by_key(|change| (change.committed_us, change.id));
        Ok(ChangeLog { records, state: Mutex::new(state) })
    }

    /// A number above those of all changes and their migrations.
    pub(crate) fn next_id(&self) -> u64 {
        let state = self.state.lock();
        let ids = state.changes.iter().flat_map(|c| c.migrations.iter().copied().chain([c.id]));
        ids.max().map_or(1, |id| id + 1)
    }

    /// Those that are remembered, oldest first.
    pub(crate) fn changes(&self) -> Vec<Arc<SchemaChange>> {
        self.state.lock().changes.clone()
    }

    /// Its transaction is committed.
    pub(crate) fn committed(&self, recorded: Recorded) {
        let Recorded { change, rid } = recorded;
        let mut state = self.state.lock();
        state.rows.insert(change.id, rid);
        state.changes.push(change);
    }

    /// Whether something is to stay for a revert.
    pub(crate) fn keeps(&self, remains: &Remains) -> bool {
        self.state.lock().keeps(remains)
    }

    /// Holds a column that a transaction restores; false if its values are gone.
    pub(crate) fn restore(&self, column: KeptColumn, by: TxnId) -> bool {
        let mut state = self.state.lock();
        let is_kept = state.keeps(&Remains::Column(column.space, column.column));
        if is_kept {
            state.restored.push((column, by));
        }
        is_kept
    }

    /// The transaction has ended.
    pub(crate) fn ended(&self, by: TxnId) {
        self.state.lock().restored.retain(|(_, restorer)| *restorer != by);
    }

    /// Forgets the oldest, and gives up columns that have been kept for long enough: those that nobody has any
    /// more are returned.
    fn tidy(&self, latest: impl Fn() -> Arc<CatalogVersion>) -> Vec<Remains> {
        let (mut cleared, mut deleted, mut freed) = (Vec::new(), Vec::new(), Vec::new());
        let mut sequences = Vec::new();
        let now = now_us();
        let mut state = self.state.lock();
        let excess = state.changes.len().saturating_sub(REMEMBERED);
        for change in state.changes.drain(..excess).collect::<Vec<_>>() {
            deleted.extend(state.rows.remove(&change.id));
            freed.extend(change.kept.iter().copied());
            sequences.extend(change.sequences().map(Remains::Sequence));
        }
        let State { changes, rows, restored } = &mut *state;
        for change in changes {
            let is_restored = |kept: &KeptColumn| restored.iter().any(|(column, _)| column == kept);
            let is_over = change.kept_until_us <= now && !change.kept.is_empty();
            if is_over && !change.kept.iter().any(is_restored) {
                let change = Arc::make_mut(change);
                freed.append(&mut change.kept);
                cleared.extend(rows.get(&change.id).map(|rid| (*rid, change.clone())));
            }
        }
        let latest = latest();
        let remains = freed.iter().map(|kept| Remains::Column(kept.space, kept.column));
        let remains: Vec<Remains> = remains
            .chain(sequences)
            .filter(|remains| !state.keeps(remains) && !crate::catalog::in_use(&latest, remains))
            .collect();
        drop(state);
        // What cannot be written now is found again by the next start.
        for (rid, change) in &cleared {
            let _ = self.records.alone(|txn| self.records.update(txn, *rid, change));
        }
        for rid in deleted {
            let _ = self.records.alone(|txn| self.records.delete(txn, rid));
        }
        remains
    }
}

impl State {
    fn keeps(&self, remains: &Remains) -> bool {
        self.changes.iter().any(|change| change.keeps(remains))
            || matches!(*remains, Remains::Column(space, column)
                if self.restored.iter().any(|(kept, _)| *kept == KeptColumn { space, column }))
    }
}

/// A change whose record is written.
pub struct Recorded {
    change: Arc<SchemaChange>,
    rid: RowId,
}

/// What a transaction notes of itself, statement by statement, for its record.
#[derive(Clone, Default)]
pub struct Notes {
    id: Option<u64>,
    statements: Vec<String>,
    reverts: Option<u64>,
    dropped: Vec<KeptColumn>,
    retyped: Vec<(ObjectId, ColumnId, ColumnId)>,
    computed: Vec<(ObjectId, ColumnId)>,
    made_of: HashMap<ObjectId, MadeOf>,
    retention_us: i64,
}

impl Notes {
    /// Whether it reverts another.
    pub(crate) fn is_revert(&self) -> bool {
        self.reverts.is_some()
    }
}

impl Catalog {
    /// Schema changes that are remembered, oldest first.
    pub fn schema_changes(&self) -> Vec<Arc<SchemaChange>> {
        self.change_log.changes()
    }

    /// The schema change that the transaction itself reverts.
    pub fn own_revert(&self, txn: &Transaction) -> Option<u64> {
        local(txn)?.changes.notes.reverts
    }

    /// The number of the transaction's schema change: that of its first migration, or one of its own.
    pub fn number_change(&self, txn: &mut Transaction) -> u64 {
        let own = local_mut(txn);
        if let Some(id) = own.changes.notes.id {
            return id;
        }
        let migrations = own.begun(&self.latest());
        let id = migrations.first().copied().unwrap_or_else(|| self.next_migration());
        own.changes.notes.id = Some(id);
        id
    }

    /// The transaction's schema change is the revert of another: what it demands of rows that it drops is
    /// demanded until its commit.
    pub fn note_revert(&self, txn: &mut Transaction, of: u64) {
        local_mut(txn).changes.notes.reverts = Some(of);
    }

    /// The values of a column are computed from now on by an expression of the user's.
    pub fn note_computed(&self, txn: &mut Transaction, table: ObjectId, from: ColumnId) {
        local_mut(txn).changes.notes.computed.push((table, from));
    }

    /// Of what a new table of the transaction was made.
    pub fn note_made_of(&self, txn: &mut Transaction, table: ObjectId, made_of: MadeOf) {
        local_mut(txn).changes.notes.made_of.insert(table, made_of);
    }

    /// A statement changes schemas.
    pub(crate) fn note_statement(
        &self,
        txn: &mut Transaction,
        statement: &str,
        retention: std::time::Duration,
    ) {
        let notes = &mut local_mut(txn).changes.notes;
        let statement = statement.trim_end_matches([';', ' ', '\n']);
        if notes.statements.last().is_none_or(|last| last != statement) {
            notes.statements.push(statement.to_owned());
        }
        notes.retention_us = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX / 2);
    }

    /// What a change does to the columns of a table. Returns the places and the ids of those that may get others.
    pub(crate) fn note_columns(
        &self,
        txn: &mut Transaction,
        def: &TableDef,
        change: &Change,
    ) -> Result<Vec<(usize, ColumnId)>, SchemaError> {
        let place = |name: &str| def.columns.iter().position(|column| column.name == name);
        match change {
            Change::DropColumn { column, .. } => {
                let dropped = def.column(column).map(|c| c.id);
                let dropped = dropped.map(|column| KeptColumn { space: def.space, column });
                local_mut(txn).changes.notes.dropped.extend(dropped);
            }
            Change::AlterTypes { columns, .. } => {
                let places = columns.iter().filter_map(|new| place(&new.column));
                return Ok(places.map(|at| (at, def.columns[at].id)).collect());
            }
            Change::RestoreColumn { column, .. } => {
                let kept = KeptColumn { space: def.space, column: column.id };
                if !self.change_log.restore(kept, txn.id()) {
                    let message = format!(
                        "values of dropped column \"{}\" of relation \"{}\" are no longer stored",
                        column.name, def.name
                    );
                    let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
                    return Err(SchemaError::refused(state, message));
                }
            }
            _ => {}
        }
        Ok(Vec::new())
    }

    /// A column has got another type, and another id.
    pub(crate) fn note_retyped(
        &self,
        txn: &mut Transaction,
        table: ObjectId,
        from: ColumnId,
        to: ColumnId,
    ) {
        local_mut(txn).changes.notes.retyped.push((table, from, to));
    }

    /// Writes what the transaction has changed, once, before it commits.
    pub(crate) fn record_change(&self, txn: &mut Transaction) -> Result<(), SchemaError> {
        let Some(own) = local(txn) else { return Ok(()) };
        if own.recorded.is_some() {
            return Ok(());
        }
        if own.changes.notes.statements.is_empty() {
            return Ok(());
        }
        let latest = self.latest();
        let migrations = own.begun(&latest);
        let Some(mut change) = own.changes.change(&latest, migrations) else { return Ok(()) };
        change.id = self.number_change(txn);
        let rid = self.change_log.records.insert(txn, &change)?;
        local_mut(txn).recorded = Some(Recorded { change: Arc::new(change), rid });
        Ok(())
    }

    /// Gives up what has been kept for reverts for long enough.
    pub(crate) fn tidy_changes(&self) {
        self.forget_after_now(self.change_log.tidy(|| self.latest()));
    }
}

impl Local {
    /// The numbers of the migrations that the transaction has begun, ascending.
    fn begun(&self, before: &CatalogVersion) -> Vec<u64> {
        let known = |id: &ObjectId| before.tables.get(id).into_iter().flat_map(|t| t.def.begun());
        let tables = self
            .changes
            .objects
            .iter()
            .filter_map(|(id, changed)| Some((id, changed.as_ref()?.table()?)));
        let lazily = tables.flat_map(|(id, table)| {
            let is_new = |number: &u64| known(id).all(|begun| begun.migration != *number);
            table.def.begun().map(|begun| begun.migration).filter(is_new).collect::<Vec<_>>()
        });
        let mut all: Vec<u64> = self.migrations.iter().map(|m| m.id).chain(lazily).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Changes {
    /// What there is to remember; `None` where statements have changed nothing that could be reverted.
    fn change(&self, before: &CatalogVersion, migrations: Vec<u64>) -> Option<SchemaChange> {
        let notes = &self.notes;
        let mut kept = Vec::new();
        let mut objects = Vec::new();
        for (object, changed) in &self.objects {
            // Roles are no schema: they are not reverted with one.
            let is_role = matches!(changed, Some(Changed::Role(_)));
            if is_role || before.roles.contains_key(object) {
                continue;
            }
            let table = before.tables.get(object).map(|table| &table.def);
            let sequence = before.sequences.get(object);
            let plain_before = before.plain.get(object);
            let before = table
                .map(|def| ObjectDef::Table(plain(def)))
                .or_else(|| sequence.map(|def| ObjectDef::Sequence((**def).clone())))
                .or_else(|| plain_before.map(|def| ObjectDef::Plain((**def).clone())));
            let after = changed.as_ref().map(|changed| match changed {
                Changed::Table(table) => ObjectDef::Table(plain(&table.def)),
                Changed::Sequence(def) => ObjectDef::Sequence((**def).clone()),
                Changed::Plain(def) => ObjectDef::Plain((**def).clone()),
                Changed::Role(def) => ObjectDef::Role((**def).clone()),
            });
            if let (Some(table), Some(ObjectDef::Table(after))) = (table, &after) {
                kept.extend(notes.dropped.iter().filter(|c| is_whole(table, after, c)));
            }
            let of_it = notes.retyped.iter().filter(|(table, ..)| table == object);
            let retyped = of_it.map(|&(_, from, to)| Retyped {
                from,
                to,
                is_computed: notes.computed.contains(&(*object, from)),
            });
            let retyped: Vec<Retyped> = retyped.collect();
            let of = after.as_ref().or(before.as_ref());
            if of.is_some_and(ObjectDef::is_temporary) {
                continue;
            }
            let is_same = match (&before, &after) {
                (Some(ObjectDef::Table(before)), Some(ObjectDef::Table(after))) => {
                    same(before, after, &retyped)
                }
                (before, after) => before == after,
            };
            if !is_same {
                let made_of = notes.made_of.get(object).cloned();
                objects.push(ObjectChange { before, after, retyped, made_of });
            }
        }
        if objects.is_empty() {
            return None;
        }
        objects.sort_by_key(ObjectChange::id);
        let committed_us = now_us();
        Some(SchemaChange {
            id: 0,
            migrations,
            committed_us,
            statements: notes.statements.clone(),
            objects,
            reverts: notes.reverts,
            kept,
            kept_until_us: committed_us.saturating_add(notes.retention_us),
        })
    }
}

/// A definition without what goes on in the background.
fn plain(def: &TableDef) -> TableDef {
    TableDef { lazy: None, lazy_columns: Vec::new(), ..def.clone() }
}

/// Whether two versions differ in nothing but their rows, who refers to them, and what was converted there and
/// back again.
fn same(before: &TableDef, after: &TableDef, retyped: &[Retyped]) -> bool {
    let was = |id: ColumnId| {
        let undo = |id, r: &Retyped| if r.to == id && !r.is_computed { r.from } else { id };
        retyped.iter().rev().fold(id, undo)
    };
    let index = |id: IndexId| {
        let object = after.index_by_id(id).map(|index| index.id);
        let known = before.indexes.iter().find(|index| Some(index.id) == object);
        known.map_or(id, |index| index.spec.id)
    };
    let mut bare = TableDef {
        space: before.space,
        referenced_by: before.referenced_by.clone(),
        ..after.clone()
    };
    for column in &mut bare.columns {
        column.id = was(column.id);
        if let Some(known) = before.column_by_id(column.id) {
            column.missing.clone_from(&known.missing);
        }
    }
    for IndexDef { spec, .. } in &mut bare.indexes {
        spec.id = index(spec.id);
        spec.key.iter_mut().for_each(|part| part.column = was(part.column));
    }
    let known = |id| before.constraints.iter().find(|c| c.id == id).map(|c| &c.kind);
    for constraint in &mut bare.constraints {
        match &mut constraint.kind {
            ConstraintKind::PrimaryKey(id) | ConstraintKind::Unique(id) => *id = index(*id),
            ConstraintKind::Check(CheckDef { columns, .. }) => {
                columns.iter_mut().for_each(|column| *column = was(*column));
            }
            ConstraintKind::ForeignKey(key) => {
                key.columns.iter_mut().for_each(|column| *column = was(*column));
                // It follows its parent to other columns; to other ones it is another constraint.
                if let Some(ConstraintKind::ForeignKey(known)) = known(constraint.id) {
                    key.parent_columns.clone_from(&known.parent_columns);
                    key.parent_index = known.parent_index;
                }
            }
        }
    }
    *before == bare
}

/// Whether every row of a table has its value in a column that was dropped.
fn is_whole(before: &TableDef, after: &TableDef, column: &KeptColumn) -> bool {
    before.space == column.space
        && after.space == column.space
        && before.lazy.is_none()
        && before.column_by_id(column.column).is_some()
        && after.column_by_id(column.column).is_none()
        && before.lazy_columns.iter().all(|lazy| lazy.target != column.column)
}
