//! The catalog's own table: row space 0, one row per object.
//!
//! ```text
//!   id int8 (unique) │ definition text: JSON of ObjectDef │ key text: ObjectDef::key (unique)
//! ```
//!
//! An index has a row of its own beside its table's, so that the unique key on names covers every
//! relation. Locks, conflicts, rollback, log and recovery are those of any row.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, CrashPoint, Direction, Engine, EngineError, IndexId,
    IndexSpec, KeyPart, KeyRange, Layout, Loaded, Row, RowId, RowWrite, Snapshot, SpaceId,
    SqlState, Table, Ts, TxnId, Value, WriteStop, key,
};
use froglet_txn::{Isolation, Limits, Strength, Transaction, TxnError, TxnManager};

use crate::change_log::CHANGES_SPACE;
use crate::def::{ObjectDef, ObjectId};
use crate::error::SchemaError;
use crate::history::HISTORY_SPACE;
use crate::unreadable::Unreadable;

/// The catalog's row space.
pub const CATALOG_SPACE: SpaceId = SpaceId(0);
/// Where the catalog is: its objects, their history, and what changes of them left.
pub const CATALOG_SPACES: &[SpaceId] = &[CATALOG_SPACE, HISTORY_SPACE, CHANGES_SPACE];
const BY_ID: usize = 0;
const BY_NAME: IndexId = IndexId(1);

/// The catalog's own table.
pub struct Store {
    table: Arc<dyn Table>,
    by_id: KeyPart,
    /// Other servers change the catalog, too.
    is_shared: bool,
}

/// A row of the catalog that a transaction holds locked.
#[derive(Clone, Copy, Debug)]
pub struct Locked {
    rid: RowId,
}

fn layout() -> Layout {
    let column = |id, ty| ColumnSpec { id: ColumnId(id), ty, missing: Value::Null };
    let part = |id| KeyPart { column: ColumnId(id), descending: false, nulls_first: false };
    Layout {
        columns: vec![
            column(1, ColumnType::Int64),
            column(2, ColumnType::Text),
            column(3, ColumnType::Text),
        ],
        indexes: vec![
            IndexSpec {
                id: IndexId(0),
                key: vec![part(1)],
                unique: true,
                unique_at_commit: false,
                nulls: Default::default(),
            },
            IndexSpec {
                id: BY_NAME,
                key: vec![part(3)],
                unique: true,
                unique_at_commit: false,
                nulls: Default::default(),
            },
        ],
        row_key: None,
    }
}

impl Store {
    /// Opens row space 0; makes it in a new database, fills its indexes in a recovered one.
    pub fn open(engine: &dyn Engine) -> Result<Store, SchemaError> {
        let recovered = engine.spaces().contains(&CATALOG_SPACE);
        if !recovered {
            engine.create_space(CATALOG_SPACE)?;
        }
        let layout = layout();
        let by_id = layout.indexes[BY_ID].key[0];
        let table = engine.open(CATALOG_SPACE, Arc::new(layout))?;
        if recovered && let Some((_, error)) = rebuild_indexes(&[Arc::clone(&table)]).pop() {
            return Err(error);
        }
        Ok(Store { table, by_id, is_shared: engine.is_shared() })
    }

    /// As of when a statement knows the objects.
    fn known_as_of(&self, txn: &mut Transaction) -> Ts {
        if self.is_shared { txn.catalog_as_of } else { txn.snapshot().ts }
    }

    /// Every object that a snapshot sees; what cannot be read among them.
    pub fn load(&self, snapshot: &Snapshot) -> Vec<Result<ObjectDef, Unreadable>> {
        let mut rows = Vec::new();
        self.table.seek(
            snapshot,
            BY_ID,
            &KeyRange::all(),
            Direction::Forward,
            &[0, 1, 2],
            &mut |_, row| {
                rows.push(std::mem::take(row));
                ControlFlow::Continue(())
            },
        );
        rows.into_iter().enumerate().map(decode).collect()
    }

    /// Holds an object's row until the transaction ends. `Stale` if somebody has changed it since
    /// the statement's snapshot.
    pub async fn lock(
        &self,
        txn: &mut Transaction,
        id: ObjectId,
        limits: &Limits,
    ) -> Result<Locked, SchemaError> {
        let rid = self.find(txn, id).ok_or(SchemaError::Stale)?;
        self.write(txn, limits, RowWrite::Lock { rid }, None).await?;
        CrashPoint::CatalogLocked.reached();
        Ok(Locked { rid })
    }

    /// Writes a new version of a locked object.
    pub async fn update(
        &self,
        txn: &mut Transaction,
        locked: Locked,
        def: &ObjectDef,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        let row = encode(def);
        let write = RowWrite::Update { rid: locked.rid, columns: &[1, 2], values: &row[1..] };
        self.write(txn, limits, write, Some(def)).await?;
        CrashPoint::CatalogWritten.reached();
        Ok(())
    }

    /// Deletes a locked object.
    pub async fn delete(
        &self,
        txn: &mut Transaction,
        locked: Locked,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        self.write(txn, limits, RowWrite::Delete { rid: locked.rid }, None).await
    }

    /// Writes a new object.
    pub async fn insert(
        &self,
        txn: &mut Transaction,
        def: &ObjectDef,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        let row = encode(def);
        loop {
            let outcome =
                self.table.insert(txn.part(), std::slice::from_ref(&row), &mut Vec::new());
            match outcome {
                Ok(()) => return Ok(()),
                Err((_, stop)) => self.stopped(txn, limits, stop, Some(def)).await?,
            }
        }
    }

    /// Keeps an object until the transaction ends, as others may as well: it is not deleted meanwhile.
    /// `Stale` if it is gone.
    pub async fn hold(
        &self,
        txn: &mut Transaction,
        id: ObjectId,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        self.hold_row(txn, id, &[0], limits).await.map(drop)
    }

    /// The same of an object whose definition what is being made takes over: nor is it changed, by whoever asks
    /// [`Store::unheld`]. `Stale` if it has been since the statement's snapshot.
    pub async fn hold_as_seen(
        &self,
        txn: &mut Transaction,
        id: ObjectId,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        let rid = self.hold_row(txn, id, &[0, 1, 2], limits).await?;
        match self.table.changed_since(rid, self.known_as_of(txn)) {
            true => Err(outrun(txn)),
            false => Ok(()),
        }
    }

    async fn hold_row(
        &self,
        txn: &mut Transaction,
        id: ObjectId,
        columns: &[usize],
        limits: &Limits,
    ) -> Result<RowId, SchemaError> {
        let find = |view: &Snapshot| Ok::<_, TxnError>(self.find_in(view, id));
        let held = txn.hold_found(&*self.table, columns, find, limits).await?;
        held.ok_or_else(|| outrun(txn))
    }

    /// Waits until nobody else keeps an object that the transaction has deleted or changed.
    pub async fn unheld(
        &self,
        txn: &mut Transaction,
        deleted: Locked,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        let (place, me) = ((CATALOG_SPACE, deleted.rid), txn.id());
        let manager = txn.manager().clone();
        while let Some(holder) = manager.row_locks().other_holder(place, me, Strength::KeyShare) {
            txn.wait_for(holder, limits).await?;
        }
        Ok(())
    }

    /// Writes the objects of a new database.
    pub async fn begin_with(
        &self,
        manager: &Arc<TxnManager>,
        objects: &[ObjectDef],
    ) -> Result<(), SchemaError> {
        let limits = Limits::none();
        let mut txn = manager.begin(Isolation::ReadCommitted);
        txn.part();
        for object in objects {
            self.insert(&mut txn, object, &limits).await?;
        }
        manager.commit(txn, &limits).await?;
        Ok(())
    }

    async fn write(
        &self,
        txn: &mut Transaction,
        limits: &Limits,
        write: RowWrite<'_>,
        def: Option<&ObjectDef>,
    ) -> Result<(), SchemaError> {
        let base = self.known_as_of(txn);
        loop {
            match self.table.write(txn.part(), base, std::slice::from_ref(&write)) {
                Ok(()) => return Ok(()),
                Err((_, stop)) => self.stopped(txn, limits, stop, def).await?,
            }
        }
    }

    /// Waits where waiting helps; otherwise says why it does not.
    async fn stopped(
        &self,
        txn: &mut Transaction,
        limits: &Limits,
        stop: WriteStop,
        def: Option<&ObjectDef>,
    ) -> Result<(), SchemaError> {
        match stop {
            WriteStop::Busy { holder } => Ok(txn.wait_for(holder, limits).await?),
            WriteStop::Changed | WriteStop::Gone | WriteStop::Moved => Err(outrun(txn)),
            // An id is used twice by what has one before it has a row: the initial role.
            WriteStop::Duplicate { index, .. } if index != BY_NAME => Err(SchemaError::Stale),
            WriteStop::Duplicate { .. } => {
                Err(def.expect("only a definition has a name").already_exists())
            }
            WriteStop::Engine(e) => Err(e.into()),
        }
    }

    fn find(&self, txn: &mut Transaction, id: ObjectId) -> Option<RowId> {
        self.find_in(&txn.snapshot(), id)
    }

    fn find_in(&self, snapshot: &Snapshot, id: ObjectId) -> Option<RowId> {
        let mut encoded = Vec::new();
        key::encode_part(&mut encoded, &Value::Int64(i64::from(id)), &self.by_id);
        self.table.get_by_key(snapshot, BY_ID, &encoded, &[], &mut Row::new())
    }
}

/// The statement's snapshot has been outrun: it is to run again, under a view that has what others have made since.
pub(crate) fn outrun(txn: &Transaction) -> SchemaError {
    match txn.isolation() {
        Isolation::ReadCommitted => SchemaError::Stale,
        Isolation::RepeatableRead | Isolation::Serializable => TxnError::Serialization.into(),
    }
}

/// Builds the indexes of tables that recovery leaves to be built: the largest tables first, on as many threads
/// as there are cores. Those that could not be, by row spaces.
pub fn rebuild_indexes(tables: &[Arc<dyn Table>]) -> Vec<(SpaceId, SchemaError)> {
    let mut jobs: Vec<(&Arc<dyn Table>, usize)> = Vec::new();
    for table in tables {
        let positions = 0..table.layout().indexes.len();
        jobs.extend(positions.filter(|at| !table.has_recovered(*at)).map(|at| (table, at)));
    }
    jobs.sort_by_key(|(table, _)| std::cmp::Reverse(table.block_count()));
    let next = AtomicUsize::new(0);
    let run = || {
        let mut failed = Vec::new();
        while let Some((table, position)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let rebuilt = rebuild_unique(table, *position);
            failed.extend(rebuilt.err().map(|e| (table.space(), e)));
            CrashPoint::RecoveryIndex.reached();
        }
        failed
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // What is small is done before a thread has started.
    let large = jobs.iter().filter(|(table, _)| table.block_count() > 1).count();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..cores.min(large)).map(|_| scope.spawn(run)).collect();
        let mut failed = run();
        for other in others {
            failed.extend(other.join().expect("a build does not panic"));
        }
        failed
    })
}

fn rebuild_unique(table: &Arc<dyn Table>, position: usize) -> Result<(), SchemaError> {
    let Some((a, b)) = rebuild_index(table, position)?.first().copied() else { return Ok(()) };
    let (space, index) = (table.space(), table.layout().indexes[position].id);
    Err(SchemaError::refused(
        SqlState::DATA_CORRUPTED,
        format!("rows {a} and {b} of space {space} share a key of unique index {index}"),
    ))
}

/// Fills an index after a restart, if recovery has not; pairs of newest rows that share a key of a unique one.
pub fn rebuild_index(
    table: &Arc<dyn Table>,
    position: usize,
) -> Result<Vec<(RowId, RowId)>, SchemaError> {
    let mut duplicates = Vec::new();
    if table.has_recovered(position) {
        return Ok(duplicates);
    }
    match build_at_once(table, position, &mut duplicates) {
        // What fitted before the restart fits now, if more slowly.
        Ok(false) | Err(EngineError::MemoryLimit { .. }) => {
            for block in 0..table.block_count() {
                table.index_block(TxnId(0), position, block, &mut duplicates)?;
            }
        }
        built => _ = built?,
    }
    Ok(duplicates)
}

/// Builds an index from all rows at once, while nobody else is there; false if the engine cannot.
fn build_at_once(
    table: &Arc<dyn Table>,
    position: usize,
    duplicates: &mut Vec<(RowId, RowId)>,
) -> Result<bool, EngineError> {
    let Some(build) = table.clone().build_index(position) else { return Ok(false) };
    for block in 0..table.block_count() {
        build.scan_block(TxnId(0), block)?;
    }
    if let Loaded::Whole(loading) = build.load(&mut |_| true)? {
        duplicates.extend(loading.duplicates);
    }
    Ok(true)
}

fn encode(def: &ObjectDef) -> Vec<Value> {
    let json = serde_json::to_string(def).expect("a definition has only string keys");
    vec![Value::Int64(i64::from(def.id())), Value::text(json), Value::text(def.key())]
}

/// `at`: a place among the rows, for one that has no id.
fn decode((at, row): (usize, Vec<Value>)) -> Result<ObjectDef, Unreadable> {
    let text = |value: Option<&Value>| match value {
        Some(Value::Text(text)) => Some(text.to_string()),
        _ => None,
    };
    let id = match row.first() {
        Some(Value::Int64(id)) => ObjectId::try_from(*id).ok(),
        _ => None,
    };
    let key = text(row.get(2)).unwrap_or_default();
    // Ids are given out from below.
    let unknown = || ObjectId::MAX - u32::try_from(at).unwrap_or(0);
    let unreadable = |why: String| Unreadable::of_key(id.unwrap_or_else(unknown), &key, why);
    let json = text(row.get(1)).ok_or_else(|| unreadable("it has no definition".to_owned()))?;
    let def: ObjectDef = serde_json::from_str(&json).map_err(|e| unreadable(e.to_string()))?;
    match def {
        def if id != Some(def.id()) => {
            Err(unreadable(format!("its definition is that of object {}", def.id())))
        }
        ObjectDef::Table(def) => match def.contradiction() {
            Some(why) => Err(Unreadable::of_table(&def, why)),
            None => Ok(ObjectDef::Table(def)),
        },
        def => Ok(def),
    }
}
