//! One step of a migration: what is done to a migration unit (a row) for one schema change.
//!
//! A step is idempotent: running it again for a row brings the target in line with the row's
//! latest committed version. So scan and capture run the same code, and so does the carry-over
//! of a writer that began under the older schema.
//!
//! Verifying steps do not fail at the first violation: a writer may mend it before the commit.
//! They keep *suspects*: rows that violated, or may have, when they were last looked at.
//!
//! S1: a row leaves the suspects only when whoever keeps capture still (or is capture) looks at it
//!     again and it is in order. So no older look removes what a newer one has found.
//! S2: two rows share a key if both have it at one timestamp; what an open writer has not committed
//!     counts once it has, and then capture looks at it. Of two rows that share a key and change no
//!     more the one that was looked at last is suspect.
//! S3: before the flip a suspect is a violation only if neither it nor the row that it shares a key
//!     with has changed since the look, for a column that is being filled may be behind its source. Where the
//!     parent's key is being filled, that is captured first.
//!     At the flip nothing is behind and nobody writes: every suspect that is left is a violation.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use froglet_engine::{
    BlockRows, ColumnFill, ColumnId, ColumnType, Direction, Engine, KeyRange, Loaded, Loading,
    MigrateError, Row, RowId, Savepoint, Snapshot, SqlState, Table, TxnId, Value, key, numeric,
};
use parking_lot::Mutex;

use crate::build::{Building, Deferred};
use crate::change::{Check, Transform};
use crate::def::{ConstraintKind, ForeignKeyDef, ObjectId, TableDef};
use crate::derive::Derivation;
use crate::drawn::Drawn;
use crate::eager::copy::Copy;
use crate::edit::Demand;
use crate::error::SchemaError;
use crate::front::Front;
use crate::migration::Migration;
use crate::rows::{read_rows, row_at, types_of};

/// What a step does.
pub enum StepKind {
    /// Computes a new column.
    Fill {
        /// Layout positions of the transform's inputs.
        source: Vec<usize>,
        /// Layout position of the new column.
        target: usize,
        /// Its type.
        ty: ColumnType,
        /// How.
        transform: Arc<dyn Transform>,
        /// Layout position of a flag, where some rows of the owner's have the column already.
        filled: Option<usize>,
        /// The error for a NULL, where the column is NOT NULL.
        not_null: Option<Arc<dyn Fn() -> SchemaError + Send + Sync>>,
        /// Of a volatile transform: which rows have their value.
        drawn: Option<Drawn>,
    },
    /// Checks a condition.
    Verify {
        /// Layout positions of the check's inputs.
        source: Vec<usize>,
        /// The condition.
        check: Arc<dyn Check>,
        /// Why.
        demand: Demand,
    },
    /// Enters rows into a new index.
    Index {
        /// Its layout position.
        position: usize,
        /// Its name.
        name: String,
        /// Its key, as errors show it.
        key: String,
        /// Parts of the key that were not written: the predicate of a partial index.
        unwritten: usize,
    },
    /// Looks for every child's parent.
    Child(Arc<ForeignKeyWatch>),
    /// Watches parents that children have been found to refer to.
    Parent(Arc<ForeignKeyWatch>),
    /// Makes rows of another table, each of one row.
    Copy(Arc<Copy>),
    /// Makes rows of another table, of those of several. Whoever adds it runs its scan.
    Derive(Arc<Derivation>),
}

/// Looks at a batch and tells the rows that violate.
type Look<'a> =
    dyn FnMut(&BlockRows, &mut Vec<(RowId, SchemaError)>) -> Result<(), SchemaError> + 'a;

/// One step of a migration.
pub struct Step {
    /// What it does.
    pub kind: StepKind,
    /// The rows, under a layout that has the old columns and the new.
    pub table: Arc<dyn Table>,
    /// The migrating transaction's own later writes already follow the new schema.
    pub since: Savepoint,
    engine: Arc<dyn Engine>,
    suspects: Mutex<BTreeMap<RowId, Suspect>>,
    /// A writer that violates it fails.
    rejects: AtomicBool,
    front: Front,
    /// While an index is built from all rows at once.
    building: Mutex<Option<Arc<Building>>>,
}

/// A row that violated when it was last looked at, or may have.
struct Suspect {
    /// The row that it shared a key with.
    other: Option<RowId>,
    /// What to say; none of a candidate that is to be looked at first.
    error: Option<SchemaError>,
}

/// What both sides of a new foreign key share while it is verified.
pub struct ForeignKeyWatch {
    /// The constraint, its table and its parent, for messages.
    pub names: ForeignKeyNames,
    /// Layout positions of the child's columns, in the order of the parent's index.
    pub child: Vec<usize>,
    /// Their types.
    child_types: Vec<ColumnType>,
    /// The parent's rows.
    pub parent: Arc<dyn Table>,
    /// Layout position of the parent's index.
    pub parent_index: usize,
    /// Layout positions of the parent's columns, in the same order.
    pub parent_key: Vec<usize>,
    /// Parents found, with the hash of the key they had then.
    referenced: Mutex<HashMap<RowId, u64>>,
    /// A parent that was found has changed its key or gone: children must be looked at again.
    dirty: AtomicBool,
    /// The constraint.
    pub constraint: ObjectId,
    /// The child's columns.
    pub columns: Vec<ColumnId>,
    /// It holds of all rows, as they are known to, and only writers under the older schema are asked.
    pub is_kept: bool,
    /// It may be asked at the end of a transaction.
    pub is_deferrable: bool,
    /// Writers under the older schema know the child's columns.
    pub is_child_as_it_was: bool,
    /// They look for parents where these are.
    pub is_parent_in_place: bool,
    /// What captures the parent's rows, while the same transaction builds their index.
    pub beside: Option<Weak<Migration>>,
}

/// Names for the messages of a foreign key.
#[derive(Clone, Debug)]
pub struct ForeignKeyNames {
    /// The constraint.
    pub constraint: String,
    /// The child table.
    pub child: String,
    /// The child's columns.
    pub columns: Vec<String>,
    /// The parent table.
    pub parent: String,
}

impl ForeignKeyNames {
    pub(crate) fn violation(&self, values: &[Value], types: &[ColumnType]) -> SchemaError {
        SchemaError::refused(
            SqlState::FOREIGN_KEY_VIOLATION,
            format!(
                "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                self.child, self.constraint
            ),
        )
        .with_detail(format!(
            "Key ({})=({}) is not present in table \"{}\".",
            self.columns.join(", "),
            show(values, types),
            self.parent
        ))
    }
}

impl ForeignKeyWatch {
    /// A watch over a constraint that has seen nothing yet: of all children, for all writers, with nobody beside it.
    pub fn new(
        (constraint, key): (ObjectId, &ForeignKeyDef),
        names: ForeignKeyNames,
        child: Vec<(usize, ColumnType)>,
        parent: Arc<dyn Table>,
        parent_index: usize,
        parent_key: Vec<usize>,
    ) -> ForeignKeyWatch {
        let (child, child_types) = child.into_iter().unzip();
        ForeignKeyWatch {
            names,
            child,
            child_types,
            parent,
            parent_index,
            parent_key,
            referenced: Mutex::default(),
            dirty: AtomicBool::new(false),
            constraint,
            columns: key.columns.clone(),
            is_kept: false,
            is_deferrable: key.timing.is_deferrable(),
            is_child_as_it_was: false,
            is_parent_in_place: true,
            beside: None,
        }
    }

    /// Whether a definition of the child has the foreign key between the columns that are looked at here.
    pub(crate) fn is_of(&self, child: &TableDef) -> bool {
        let index = self.parent.layout().indexes[self.parent_index].id;
        child.constraints.iter().any(|constraint| match &constraint.kind {
            ConstraintKind::ForeignKey(key) => {
                constraint.id == self.constraint
                    && key.columns == self.columns
                    && key.parent_index == index
            }
            _ => false,
        })
    }

    /// The keys of parents have changed: every child is to be looked at.
    pub(crate) fn ask_all(&self) {
        self.dirty.store(true, Ordering::SeqCst);
    }

    /// The error for the first of these rows of a child that has no parent.
    pub(crate) fn verify_own(
        &self,
        child: &dyn Table,
        (own, now): (&Snapshot, &Snapshot),
        rows: &[RowId],
    ) -> Result<(), SchemaError> {
        let BlockRows { rids, batch } = read_rows(child, own, rows, &self.child);
        let children = (0..rids.len()).map(|at| row_at(batch.columns(), &self.child_types, at));
        let is_orphan = |values: &Row| {
            !values.iter().any(Value::is_null) && self.find_parent(now, values).is_none()
        };
        match children.into_iter().find(is_orphan) {
            Some(values) => Err(self.missing_parent(&values)),
            None => Ok(()),
        }
    }

    /// Whether the keys of these rows of the parent are others now than a view has them. Those that it does not have
    /// are not counted; nor are those that are no more, where who deletes a row is met by everybody.
    pub(crate) fn has_new_keys(&self, before: &Snapshot, now: &Snapshot, rows: &[RowId]) -> bool {
        rows.iter().any(|rid| {
            let (mut was, mut is) = (Row::new(), Row::new());
            self.parent.read_row(before, *rid, &self.parent_key, &mut was)
                && match self.parent.read_row(now, *rid, &self.parent_key, &mut is) {
                    true => was != is,
                    false => !self.is_parent_in_place,
                }
        })
    }

    /// The parent of a child's key values, if the snapshot sees it.
    pub fn find_parent(&self, snapshot: &Snapshot, values: &[Value]) -> Option<RowId> {
        let parts = &self.parent.layout().indexes[self.parent_index].key;
        let encoded = key::encode(&self.as_parent(values)?, parts);
        let mut found = None;
        self.parent.seek(
            snapshot,
            self.parent_index,
            &KeyRange::prefix(encoded),
            Direction::Forward,
            &[],
            &mut |rid, _| {
                found = Some(rid);
                ControlFlow::Break(())
            },
        );
        found
    }

    /// The error for a child without a parent.
    pub fn missing_parent(&self, values: &[Value]) -> SchemaError {
        self.names.violation(values, &self.child_types)
    }

    /// Looks for a child's parent and remembers it. View and look are under the lock that
    /// [`Step::watch_parents`] takes, so that a parent that goes is either not found or known to have been found.
    fn refer_to_parent(
        &self,
        engine: &dyn Engine,
        owner: TxnId,
        values: &[Value],
        key: &[u8],
    ) -> bool {
        let mut referenced = self.referenced.lock();
        let parent = self.find_parent(&engine.fresh(owner), values);
        if let Some(parent) = parent {
            referenced.insert(parent, hash_of(key));
        }
        parent.is_some()
    }

    /// The key of values as the parent's index has it; empty where no parent can have them.
    fn key_of(&self, values: &[Value]) -> Vec<u8> {
        let parts = &self.parent.layout().indexes[self.parent_index].key;
        self.as_parent(values).map_or_else(Vec::new, |values| key::encode(&values, parts))
    }

    /// Values of the key as the parent stores them: its numbers may be of another type. `None` where the
    /// parent cannot have them.
    fn as_parent(&self, values: &[Value]) -> Option<Vec<Value>> {
        let columns = &self.parent.layout().columns;
        values
            .iter()
            .zip(&self.child_types)
            .zip(&self.parent_key)
            .map(|((value, from), place)| value.counterpart(*from, columns[*place].ty))
            .collect()
    }

    /// Whether children must be looked at once more; asking clears it.
    pub fn take_dirty(&self) -> bool {
        self.dirty.swap(false, Ordering::SeqCst)
    }
}

fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

impl Step {
    /// A step over a table.
    pub fn new(
        kind: StepKind,
        table: Arc<dyn Table>,
        since: Savepoint,
        engine: Arc<dyn Engine>,
    ) -> Step {
        Step {
            kind,
            table,
            since,
            engine,
            suspects: Mutex::default(),
            rejects: AtomicBool::new(false),
            front: Front::default(),
            building: Mutex::default(),
        }
    }

    /// verify, column, index or table.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            StepKind::Fill { .. } => "column",
            StepKind::Verify { .. } | StepKind::Child(_) | StepKind::Parent(_) => "verify",
            StepKind::Index { .. } => "index",
            StepKind::Copy(_) | StepKind::Derive(_) => "table",
        }
    }

    /// From now on a writer that violates it fails.
    pub(crate) fn reject_writers(&self) {
        self.rejects.store(true, Ordering::SeqCst);
    }

    /// Whether a writer that violates it fails.
    pub(crate) fn rejects_writers(&self) -> bool {
        self.rejects.load(Ordering::SeqCst)
    }

    /// Whether it is to hold for rows under a definition: what the same transaction has taken back, nobody demands.
    pub(crate) fn is_demanded_by(&self, def: &TableDef) -> bool {
        match &self.kind {
            StepKind::Verify { demand, .. } => demand.is_in(def),
            StepKind::Index { position, .. } => {
                def.index_by_id(self.table.layout().indexes[*position].id).is_some()
            }
            StepKind::Child(watch) => watch.is_of(def),
            _ => true,
        }
    }

    /// Whether it looks at a column that one of these fills.
    pub(crate) fn reads_filled(&self, before: &[Arc<Step>]) -> bool {
        let columns = &self.table.layout().columns;
        let reads: Vec<ColumnId> = match &self.kind {
            StepKind::Verify { source, .. } => source.iter().map(|at| columns[*at].id).collect(),
            StepKind::Index { position, .. } => {
                let key = &self.table.layout().indexes[*position].key;
                key.iter().map(|part| part.column).collect()
            }
            StepKind::Child(watch) => watch.child.iter().map(|at| columns[*at].id).collect(),
            _ => return false,
        };
        before.iter().any(|step| match step.kind {
            StepKind::Fill { target, .. } => {
                reads.contains(&step.table.layout().columns[target].id)
            }
            _ => false,
        })
    }

    /// Whether it has to visit every row at its start.
    pub fn scans(&self) -> bool {
        match &self.kind {
            StepKind::Parent(_) | StepKind::Derive(_) => false,
            StepKind::Child(watch) => !watch.is_kept,
            _ => true,
        }
    }

    /// What captures the rows of the parent that a child is looked for in, beside its own rows.
    pub(crate) fn beside(&self) -> Option<Arc<Migration>> {
        match &self.kind {
            StepKind::Child(watch) => watch.beside.as_ref()?.upgrade(),
            _ => None,
        }
    }

    /// Captured rows are nothing to it.
    fn is_idle(&self) -> bool {
        matches!(&self.kind, StepKind::Child(watch) | StepKind::Parent(watch) if watch.is_kept)
    }

    /// Brings the rows of a block in line with their latest committed version, or with `owner`'s
    /// own: the scan. Returns how many there were.
    pub fn run_block(&self, owner: TxnId, block: u32) -> Result<u64, SchemaError> {
        self.front.claim(block);
        let (position, name) = match &self.kind {
            StepKind::Index { position, name, .. } => (position, name),
            StepKind::Copy(copy) => return copy.run_block(block),
            _ => return self.run(owner, block, None),
        };
        if let Some(building) = self.building.lock().clone() {
            return Ok(building.build.scan_block(owner, block)?);
        }
        let mut duplicates = Vec::new();
        let n = self.table.index_block(owner, *position, block, &mut duplicates)?;
        self.suspect(owner, &duplicates, *position, name);
        Ok(n)
    }

    /// The same for some rows, ascending: capture. The caller keeps capture still, or is capture.
    pub fn run_rows(&self, owner: TxnId, rows: &[RowId]) -> Result<(), SchemaError> {
        if self.is_idle() {
            return Ok(());
        }
        let rows = &*self.without_those_to_be_scanned(rows);
        let mut blocks = rows.chunk_by(|a, b| a.block() == b.block());
        let (position, name) = match &self.kind {
            StepKind::Index { position, name, .. } => (position, name),
            StepKind::Copy(copy) => return copy.run_rows(rows),
            StepKind::Derive(derivation) => return derivation.run_rows(self.table.space(), rows),
            _ => {
                return blocks
                    .try_for_each(|rows| self.run(owner, rows[0].block(), Some(rows)).map(|_| ()));
            }
        };
        if let Some(building) = self.building.lock().clone()
            && building.defer(rows)
        {
            return Ok(());
        }
        let mut duplicates = Vec::new();
        self.table.index_rows(owner, *position, rows, &mut duplicates)?;
        self.acquit(rows);
        self.suspect(owner, &duplicates, *position, name);
        Ok(())
    }

    /// The scan reads their latest version, unless it reads what a fixed snapshot sees.
    fn without_those_to_be_scanned<'a>(&self, rows: &'a [RowId]) -> Cow<'a, [RowId]> {
        let is_fixed = matches!(&self.kind, StepKind::Copy(copy) if copy.is_fixed());
        let to_be_read = self.front.to_be_read();
        if is_fixed || to_be_read.is_empty() {
            return Cow::Borrowed(rows);
        }
        Cow::Owned(rows.iter().filter(|rid| !to_be_read.contains(&rid.block())).copied().collect())
    }

    /// Rows of a block (`None`: all) of their own table.
    fn run(&self, owner: TxnId, block: u32, rows: Option<&[RowId]>) -> Result<u64, SchemaError> {
        match &self.kind {
            StepKind::Fill { source, target, ty, transform, not_null, drawn, .. } => {
                let mut fill = |rows: &BlockRows| -> Result<_, MigrateError> {
                    let fill: ColumnFill = match drawn {
                        Some(drawn) => drawn.fill(rows, *ty, &**transform)?,
                        None => vec![transform.eval(&rows.batch)?].into(),
                    };
                    let has_null = fill.columns.iter().any(|array| array.null_count() > 0);
                    match not_null {
                        Some(error) if has_null => Err(error().into()),
                        _ => Ok(fill),
                    }
                };
                let mut source = Cow::Borrowed(source.as_slice());
                if drawn.is_some() {
                    source.to_mut().push(*target);
                }
                let source = &*source;
                let target = std::slice::from_ref(target);
                let table = &self.table;
                Ok(table
                    .migrate_block(owner, self.since, block, rows, source, target, &mut fill)?)
            }
            StepKind::Verify { source, check, .. } => {
                self.verify(owner, block, rows, source, &mut |batch, violations| {
                    let holds = check.eval(&batch.batch)?;
                    for (i, rid) in batch.rids.iter().enumerate() {
                        if holds.is_valid_at(i) && !holds.value(i) {
                            let row =
                                row_at(batch.batch.columns(), &types_of(&*self.table, source), i);
                            violations.push((*rid, check.violation(&row)));
                        }
                    }
                    Ok(())
                })
            }
            StepKind::Index { .. } | StepKind::Copy(_) | StepKind::Derive(_) => {
                unreachable!("these have their own ways in run_block and run_rows")
            }
            StepKind::Child(watch) => {
                let types = types_of(&*self.table, &watch.child);
                self.verify(owner, block, rows, &watch.child, &mut |batch, violations| {
                    // Many children of a block have the same parent.
                    let mut known: HashMap<Vec<u8>, bool> = HashMap::new();
                    for (i, rid) in batch.rids.iter().enumerate() {
                        let values = row_at(batch.batch.columns(), &types, i);
                        if values.iter().any(Value::is_null) {
                            continue;
                        }
                        let key = watch.key_of(&values);
                        let found = known.entry(key).or_insert_with_key(|key| {
                            watch.refer_to_parent(&*self.engine, owner, &values, key)
                        });
                        if !*found {
                            violations.push((*rid, watch.missing_parent(&values)));
                        }
                    }
                    Ok(())
                })
            }
            StepKind::Parent(watch) => Ok(self.watch_parents(owner, watch, rows.unwrap_or(&[]))),
        }
    }

    fn verify(
        &self,
        owner: TxnId,
        block: u32,
        rows: Option<&[RowId]>,
        source: &[usize],
        look: &mut Look<'_>,
    ) -> Result<u64, SchemaError> {
        let mut violations = Vec::new();
        let mut visit = |batch: &BlockRows| -> Result<_, MigrateError> {
            look(batch, &mut violations)?;
            Ok(ColumnFill { rows: Some(Vec::new()), columns: Vec::new() })
        };
        // It visits nothing where none of the rows is there any more.
        let n =
            self.table.migrate_block(owner, self.since, block, rows, source, &[], &mut visit)?;
        self.acquit(rows.unwrap_or(&[]));
        let suspect = |error| Suspect { other: None, error: Some(error) };
        let violations = violations.into_iter().map(|(rid, error)| (rid, suspect(error)));
        self.suspects.lock().extend(violations);
        Ok(n)
    }

    /// Before the scan of the blocks below `blocks`: an index is built from all of them at once, if
    /// the engine can.
    pub fn begin_scan(&self, blocks: u32) {
        if self.scans() {
            self.front.begin(blocks);
        }
        if let StepKind::Index { position, .. } = &self.kind
            && let Some(build) = self.table.clone().build_index(*position)
        {
            *self.building.lock() = Some(Arc::new(Building::new(build)));
        }
    }

    /// Whether what is scanned is to be loaded.
    pub fn is_built(&self) -> bool {
        self.building.lock().is_some()
    }

    /// After the scan: loads what was built; false if `go_on` said no. It is asked again and again.
    pub fn load_build(
        &self,
        go_on: &mut dyn FnMut(&mut Loading) -> bool,
    ) -> Result<bool, SchemaError> {
        let Some(building) = self.building.lock().clone() else { return Ok(true) };
        match building.build.load(go_on)? {
            Loaded::Whole(loading) => self.suspect_all(&loading.duplicates),
            Loaded::Stopped => return Ok(false),
        }
        Ok(true)
    }

    /// After the load: captured rows that waited for it, by block, for [`Step::run`]. From now on it
    /// enters what is captured at once.
    pub(crate) fn end_deferral(&self) -> Deferred {
        self.building.lock().as_ref().map_or_else(Deferred::default, |b| b.end_deferral())
    }

    /// After the scan: the rows that are to be captured, changed or not.
    pub fn end_scan(&self) -> Vec<RowId> {
        match &self.kind {
            StepKind::Copy(copy) => copy.end_scan(),
            _ => Vec::new(),
        }
    }

    /// The migration has ended.
    pub fn release(&self) {
        match &self.kind {
            StepKind::Copy(copy) => copy.release(),
            StepKind::Derive(derivation) => derivation.release(),
            _ => {}
        }
    }

    /// Forgets the build, whether it was loaded or not.
    pub fn end_build(&self) {
        *self.building.lock() = None;
    }

    /// Rows that were looked at are no suspects unless that look says so [S1].
    fn acquit(&self, looked_at: &[RowId]) {
        let mut suspects = self.suspects.lock();
        if !suspects.is_empty() {
            for rid in looked_at {
                suspects.remove(rid);
            }
        }
    }

    /// Rows that share a key with another.
    fn suspect(&self, owner: TxnId, found: &[(RowId, RowId)], position: usize, name: &str) {
        for (rid, other) in found {
            let error = self.duplicate(owner, *rid, position, name);
            self.suspects.lock().insert(*rid, Suspect { other: Some(*other), error });
        }
    }

    fn duplicate(
        &self,
        owner: TxnId,
        rid: RowId,
        position: usize,
        name: &str,
    ) -> Option<SchemaError> {
        let StepKind::Index { key, unwritten, .. } = &self.kind else { return None };
        let error = SchemaError::refused(
            SqlState::UNIQUE_VIOLATION,
            format!("could not create unique index \"{name}\""),
        );
        Some(match self.key_shown(owner, rid, position, *unwritten) {
            Some(values) => error.with_detail(format!("Key ({key})=({values}) is duplicated.")),
            None => error,
        })
    }

    /// Rows that may share a key, to be looked at once the index can be asked. All of them: where
    /// three have had a key, two may share it when the third has it no more.
    pub(crate) fn suspect_all(&self, candidates: &[(RowId, RowId)]) {
        let mut suspects = self.suspects.lock();
        for (a, b) in candidates {
            for (rid, other) in [(a, b), (b, a)] {
                let suspect = || Suspect { other: Some(*other), error: None };
                suspects.entry(*rid).or_insert_with(suspect);
            }
        }
    }

    /// The first of these pairs whose rows share a key now, and the error that says so.
    pub(crate) fn first_shared(
        &self,
        owner: TxnId,
        candidates: &[(RowId, RowId)],
    ) -> Option<(RowId, RowId, SchemaError)> {
        let StepKind::Index { position, name, .. } = &self.kind else { return None };
        let shared = |(a, b): &&(RowId, RowId)| self.table.share_key(owner, *position, *a, *b);
        let (a, b) = *candidates.iter().find(shared)?;
        let error = self.duplicate(owner, a, *position, name)?;
        Some((a, b, error))
    }

    /// The values of the key of a row, as errors show them.
    fn key_shown(
        &self,
        owner: TxnId,
        rid: RowId,
        position: usize,
        unwritten: usize,
    ) -> Option<String> {
        let layout = self.table.layout();
        let columns: Vec<usize> = layout.key_positions(&layout.indexes[position]).collect();
        let mut row = Row::new();
        let view = self.engine.fresh(owner);
        if !self.table.read_row(&view, rid, &columns[unwritten..], &mut row) {
            return None;
        }
        Some(show(&row, &types_of(&*self.table, &columns[unwritten..])))
    }

    fn watch_parents(&self, owner: TxnId, watch: &ForeignKeyWatch, rows: &[RowId]) -> u64 {
        let snapshot = self.engine.fresh(owner);
        let mut row = Row::new();
        for rid in rows {
            let Some(hash) = watch.referenced.lock().get(rid).copied() else { continue };
            row.clear();
            let there = watch.parent.read_row(&snapshot, *rid, &watch.parent_key, &mut row);
            if !there || hash_of(&watch.key_of(&row)) != hash {
                watch.dirty.store(true, Ordering::SeqCst);
            }
        }
        rows.len() as u64
    }

    /// Looks at the suspects again; false if none are left. The caller keeps capture still.
    pub(crate) fn look_again(&self, owner: TxnId) -> Result<bool, SchemaError> {
        let suspects: Vec<RowId> = self.suspects.lock().keys().copied().collect();
        self.run_rows(owner, &suspects)?;
        Ok(!self.suspects.lock().is_empty())
    }

    /// How many rows violated when they were last looked at, or may have.
    pub(crate) fn suspect_count(&self) -> usize {
        self.suspects.lock().len()
    }

    /// The error of the first suspect that is a violation for sure: one that has not changed since
    /// the look, nor has the row that it shares a key with [S3].
    pub(crate) fn violation(&self, is_changed: &dyn Fn(RowId) -> bool) -> Option<SchemaError> {
        let mut suspects = self.suspects.lock();
        let sure = |(rid, suspect): (&RowId, &Suspect)| {
            let changed = is_changed(*rid) || suspect.other.is_some_and(is_changed);
            (suspect.error.is_some() && !changed).then_some(*rid)
        };
        let rid = suspects.iter().find_map(sure)?;
        suspects.remove(&rid)?.error
    }
}

/// A value of an array that may be NULL.
trait ValidAt {
    fn is_valid_at(&self, i: usize) -> bool;
}

impl ValidAt for arrow_array::BooleanArray {
    fn is_valid_at(&self, i: usize) -> bool {
        arrow_array::Array::is_valid(self, i)
    }
}

/// Who knows how a value is written. What its bits mean is not for this crate.
static WRITTEN: OnceLock<fn(&Value, ColumnType) -> String> = OnceLock::new();

/// From now on values in errors are written so; the first who says it is heard.
pub fn write_values_with(written: fn(&Value, ColumnType) -> String) {
    let _ = WRITTEN.set(written);
}

/// Values of these types in an error's detail line.
pub fn show(values: &[Value], types: &[ColumnType]) -> String {
    if let Some(written) = WRITTEN.get() {
        let texts = values.iter().zip(types).map(|(value, ty)| written(value, *ty));
        return texts.collect::<Vec<_>>().join(", ");
    }
    let shown = values.iter().zip(types).map(|(value, ty)| match ty {
        // Of a decimal only its type knows where the point is.
        ColumnType::Decimal { .. } => {
            show_one(&value.counterpart(*ty, ColumnType::Numeric).unwrap_or_else(|| value.clone()))
        }
        _ => show_one(value),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn show_one(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => if *b { "t" } else { "f" }.to_owned(),
        Value::Int16(v) => v.to_string(),
        Value::Int32(v) | Value::Date(v) => v.to_string(),
        Value::Int64(v) | Value::Timestamp(v) | Value::TimestampTz(v) | Value::Time(v) => {
            v.to_string()
        }
        Value::Interval(v) => format!("{} mons {} days {} us", v.months, v.days, v.us),
        Value::Float32(v) => v.to_string(),
        Value::Float64(v) => v.to_string(),
        Value::Decimal(v) => v.to_string(),
        Value::Text(s) => s.to_string(),
        Value::Numeric(v) => numeric::show(v),
        Value::Bytes(b) => b.iter().fold("\\x".to_owned(), |mut s, byte| {
            s.push_str(&format!("{byte:02x}"));
            s
        }),
        Value::Uuid(u) => format!("{:032x}", u128::from_be_bytes(*u)),
    }
}

/// Columns by id, as positions in a layout.
pub fn positions(table: &dyn Table, columns: &[ColumnId]) -> Vec<usize> {
    columns
        .iter()
        .map(|id| table.layout().position(*id).expect("a migration's layout has its columns"))
        .collect()
}
