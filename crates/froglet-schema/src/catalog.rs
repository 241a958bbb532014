//! The catalog as statements see it: decoded versions by commit timestamp, and a transaction's
//! own uncommitted changes on top.

mod accesses;
mod load;
mod refresh;
mod statements;

use accesses::Observed;
pub use accesses::{Accesses, Counted, Recent, Totals};
pub(crate) use load::in_use;
use load::{load, recover_ids};

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use froglet_engine::{
    CrashPoint, Engine, IdMap, KeyRange, Lsn, Snapshot, SpaceId, Table, Ts, TxnId,
};
use froglet_txn::{Isolation, Past, Transaction, TxnManager, aside};
use parking_lot::{Mutex, RwLock};

use crate::change_log::ChangeLog;
use crate::compact;
use crate::def::{FIRST_USER_ID, IndexName, ObjectDef, ObjectId, SequenceDef, TableDef};
use crate::error::SchemaError;
use crate::flip::carry::Flip;
use crate::flip::moved::Move;
use crate::flip::outcome::flips;
use crate::flip::{Hook, TableState};
use crate::history::History;
use crate::lazy::LazyMigration;
use crate::lazy::moved::Siblings;
use crate::lazy_columns::LazyColumn;
use crate::lazy_driver::{Recompile, Retired};
use crate::local::{Changed, Changes, Local, Remains, local, local_mut};
use crate::migration::{Migration, spawn_in_background};
use crate::own_view::OwnView;
use crate::plain::{PlainDef, ViewDef};
use crate::role::RoleDef;
use crate::sequence::{SequenceState, Sequences};
use crate::status::{Control, MigrationOptions, MigrationPhase, MigrationStatus};
use crate::step::Step;
use crate::store::{CATALOG_SPACES, Store, rebuild_indexes};
use crate::target::Maker;
use crate::unreadable::Unreadable;

/// One table under one schema version, bound to its rows.
pub struct TableVersion {
    /// What the catalog says.
    pub def: TableDef,
    /// The commit timestamp of this version; `Ts(0)` while it is uncommitted.
    pub version: Ts,
    /// The rows. Layout positions are positions in `def.columns` and `def.indexes`.
    pub table: Arc<dyn Table>,
    /// Where the rows are to everybody else, if the transaction whose version it is moves them.
    pub(crate) moved_from: Option<SpaceId>,
    /// A place for what the SQL crate compiles once per schema version.
    pub compiled: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// See [`TableVersion::accesses`].
    accesses: OnceLock<Arc<Accesses>>,
}

impl TableVersion {
    /// A version with nothing compiled.
    pub(crate) fn new(def: TableDef, version: Ts, table: Arc<dyn Table>) -> TableVersion {
        let (compiled, accesses) = (OnceLock::new(), OnceLock::new());
        TableVersion { def, version, table, moved_from: None, compiled, accesses }
    }

    /// As many blocks as there are, for whoever reads them all.
    pub fn scan_blocks(&self, snapshot: &Snapshot) -> u32 {
        self.note_scan(snapshot);
        self.table.scan_blocks()
    }

    /// Every row is read: known to whoever certifies the reads of a snapshot.
    pub fn note_scan(&self, snapshot: &Snapshot) {
        if let Some(reads) = snapshot.reads() {
            reads.note_all(self.table.space());
            self.moved_from.iter().for_each(|space| reads.note_all(*space));
        }
    }

    /// The rows in a range of the keys of the index at a layout position are read: known in the same way.
    pub fn note_range(&self, snapshot: &Snapshot, index: usize, range: impl FnOnce() -> KeyRange) {
        if let Some(reads) = snapshot.reads() {
            let (index, range) = (self.def.indexes[index].spec.id, range());
            if let Some(space) = self.moved_from {
                reads.note_range(space, index, range.clone());
            }
            reads.note_range(self.table.space(), index, range);
        }
    }

    /// Whether rows may have NULL in a column. Under an uncommitted version others' may, whatever the
    /// definition says: it is held against them at the commit.
    pub fn may_be_null(&self, column: usize) -> bool {
        self.version == Ts(0) || !self.def.columns[column].not_null
    }
}

/// The whole catalog at one commit timestamp. Immutable.
#[derive(Default, Clone)]
pub struct CatalogVersion {
    /// When it became current.
    pub ts: Ts,
    /// Differs between any two catalog versions that differ, uncommitted ones too: a plan made
    /// under the same stamp is still good.
    pub stamp: u64,
    /// Tables by id.
    pub tables: IdMap<ObjectId, Arc<TableVersion>>,
    /// Sequences by id.
    pub sequences: HashMap<ObjectId, Arc<SequenceDef>>,
    /// Objects without rows by id.
    pub plain: HashMap<ObjectId, Arc<PlainDef>>,
    /// Roles by id, but for the initial one as long as nobody has altered it.
    pub roles: HashMap<ObjectId, Arc<RoleDef>>,
    /// Relations (tables, sequences, indexes, views) by schema and name.
    pub names: HashMap<(String, String), ObjectId>,
    /// Schemas by name.
    pub schemas: HashMap<String, ObjectId>,
    /// Types by schema and name.
    pub types: HashMap<(String, String), ObjectId>,
    /// The queries of materialized views by their tables.
    pub materialized: HashMap<ObjectId, ObjectId>,
    /// What recovery could make nothing of, by id.
    pub(crate) unreadable: Arc<HashMap<ObjectId, Arc<Unreadable>>>,
    /// What is said of owners and grants, by the system catalog of an object and its id.
    pub(crate) access: HashMap<(ObjectId, ObjectId), ObjectId>,
    pub(crate) observed: Arc<Observed>,
}

impl CatalogVersion {
    /// The table of a name.
    pub fn table(&self, schema: &str, name: &str) -> Option<&Arc<TableVersion>> {
        self.tables.get(self.names.get(&(schema.to_owned(), name.to_owned()))?)
    }

    /// The sequence of a name.
    pub fn sequence(&self, schema: &str, name: &str) -> Option<&Arc<SequenceDef>> {
        self.sequences.get(self.names.get(&(schema.to_owned(), name.to_owned()))?)
    }

    /// The table of an index and its position there, by the index's object id.
    pub fn index(&self, id: ObjectId) -> Option<(&Arc<TableVersion>, usize)> {
        self.tables.values().find_map(|t| Some((t, t.def.indexes.iter().position(|i| i.id == id)?)))
    }

    /// With a transaction's changes; committed at `ts` (`Ts(0)`: not yet).
    fn with(&self, objects: &HashMap<ObjectId, Option<Changed>>, ts: Ts, stamp: u64) -> Self {
        let mut next = CatalogVersion { ts: ts.max(self.ts), stamp, ..self.clone() };
        for (id, changed) in objects {
            next.tables.remove(id);
            next.sequences.remove(id);
            next.plain.remove(id);
            next.roles.remove(id);
            if next.unreadable.contains_key(id) {
                Arc::make_mut(&mut next.unreadable).remove(id);
            }
            match changed {
                None => {}
                Some(Changed::Table(t)) if ts == t.version => {
                    next.tables.insert(*id, t.clone());
                }
                Some(Changed::Table(t)) => {
                    let version = TableVersion::new(t.def.clone(), ts, t.table.clone());
                    next.tables.insert(*id, Arc::new(version));
                }
                Some(Changed::Sequence(s)) => {
                    next.sequences.insert(*id, s.clone());
                }
                Some(Changed::Plain(def)) => {
                    next.plain.insert(*id, def.clone());
                }
                Some(Changed::Role(r)) => {
                    next.roles.insert(*id, r.clone());
                }
            }
        }
        next.rename();
        next.observe();
        next
    }

    /// Tables that `owner` changes are read and written as it is to see them.
    fn as_owner_sees(&mut self, owner: TxnId, isolation: Isolation, local: &Local) {
        let changes = &local.changes;
        for lazy in changes.lazies.values().filter(|lazy| !lazy.state().is_move()) {
            for source in lazy.state().def.sources() {
                if let Some(version) = self.tables.get(&source.id) {
                    let table = OwnView::sealed(version.table.clone(), owner, lazy.clone());
                    let version = TableVersion::new(version.def.clone(), version.version, table);
                    self.tables.insert(source.id, Arc::new(version));
                }
            }
        }
        for id in changes.objects.keys() {
            let Some(version) = self.tables.get(id) else { continue };
            let steps = changes.steps_of(version.def.space);
            let maker = changes.makers.get(id);
            let follows = isolation == Isolation::ReadCommitted;
            let migration = local.migration(*id, version.def.space).filter(|_| follows);
            let steady = migration.map(|migration| migration.steady().clone());
            let table = OwnView::over(version.table.clone(), owner, steps, maker, steady);
            let mut version = TableVersion::new(version.def.clone(), version.version, table);
            version.moved_from = changes.moved.get(id).and_then(|spaces| spaces.first()).copied();
            self.tables.insert(*id, Arc::new(version));
        }
        self.observe();
    }

    /// Names follow from the objects.
    fn rename(&mut self) {
        self.names.clear();
        self.schemas.clear();
        self.types.clear();
        self.materialized.clear();
        self.access.clear();
        for (id, def) in &self.plain {
            match &**def {
                PlainDef::Schema(def) => {
                    self.schemas.insert(def.name.clone(), *id);
                }
                PlainDef::View(ViewDef { materialized: Some(materialized), .. }) => {
                    self.materialized.insert(materialized.table, *id);
                }
                PlainDef::View(def) => {
                    self.names.insert((def.schema.clone(), def.name.clone()), *id);
                }
                PlainDef::Enum(def) => {
                    self.types.insert((def.schema.clone(), def.name.clone()), *id);
                }
                PlainDef::Access(def) => {
                    self.access.insert((def.class, def.object), *id);
                }
                PlainDef::Comment(_) | PlainDef::DefaultAccess(_) => {}
            }
        }
        for (id, table) in &self.tables {
            let def = &table.def;
            self.names.insert((def.schema.clone(), def.name.clone()), *id);
            for index in &def.indexes {
                self.names.insert((def.schema.clone(), index.name.clone()), index.id);
            }
        }
        for (id, sequence) in &self.sequences {
            self.names.insert((sequence.schema.clone(), sequence.name.clone()), *id);
        }
        for found in self.unreadable.values() {
            let Some(schema) = &found.schema else { continue };
            let names = if found.kind == "type" { &mut self.types } else { &mut self.names };
            names.insert((schema.clone(), found.name.clone()), found.id);
            for index in &found.indexes {
                self.names.insert((index.schema.clone(), index.name.clone()), index.id);
            }
        }
    }
}

/// Where a transaction's schema changes stand; taken and restored with the engine savepoint.
#[derive(Clone, Default)]
pub struct CatalogSavepoint {
    /// `None`: there were none.
    then: Option<Box<ChangesThen>>,
}

#[derive(Clone, Default)]
struct ChangesThen {
    changes: Changes,
    /// Steps of each migration then.
    steps: Vec<(u64, usize)>,
}

/// Object ids logged ahead.
const IDS_AHEAD: u32 = 64;
/// The note that holds the next object id.
const NEXT_ID_NOTE: u64 = 0;
/// Versions of the catalog that a statement may still need are kept; this many at the least.
const HOUSEKEEPING: std::time::Duration = std::time::Duration::from_millis(100);

/// The catalog of one database.
pub struct Catalog {
    manager: Arc<TxnManager>,
    pub(crate) store: Store,
    sequences: Sequences,
    latest: ArcSwap<CatalogVersion>,
    /// Older versions that a snapshot may need, ascending.
    history: RwLock<Vec<Arc<CatalogVersion>>>,
    states: RwLock<IdMap<ObjectId, Arc<TableState>>>,
    flips: Mutex<Vec<Arc<Flip>>>,
    /// Tables whose rows have gone elsewhere, by where they are, while who does not know it may write them.
    pub(crate) moves: RwLock<HashMap<SpaceId, Arc<Move>>>,
    /// The transaction between commit timestamp and publication; 0 for none.
    pub(crate) flipping: AtomicU64,
    /// When that one commits, once nothing can keep it from it; 0: not yet.
    pub(crate) deciding: AtomicU64,
    /// A catalog that was committed then or before is durable, as far as that was asked.
    durable_ts: AtomicU64,
    /// Whoever puts a newer catalog in the place of the latest.
    publishing: Mutex<()>,
    pub(crate) garbage: Mutex<Vec<(Ts, Remains)>>,
    /// Under way, or ended a moment ago.
    migrations: Mutex<Vec<Arc<Migration>>>,
    pub(crate) ended_migrations: History,
    pub(crate) change_log: ChangeLog,
    next_migration: AtomicU64,
    /// Row spaces that may be needed by what cannot be read [X1].
    pub(crate) kept_unread: RwLock<HashSet<SpaceId>>,
    /// Lazy migrations, by the row space that they make.
    pub(crate) lazies: RwLock<HashMap<SpaceId, Arc<dyn LazyMigration>>>,
    /// Columns that are being computed lazily, by their migrations' numbers.
    pub(crate) lazy_columns: RwLock<HashMap<u64, Arc<LazyColumn>>>,
    /// What has become of those that were rolled back.
    pub(crate) aborted_lazies: Mutex<Vec<MigrationStatus>>,
    /// Of those that move rows, by the row space that they move them out of.
    pub(crate) siblings: Mutex<HashMap<SpaceId, Arc<Siblings>>>,
    /// For what other servers begin.
    pub(crate) recompile: OnceLock<Arc<dyn Recompile>>,
    /// Those that have ended, and when: older snapshots may still read through them.
    pub(crate) retired_lazies: Mutex<Vec<Retired>>,
    own: Weak<Catalog>,
    /// Is told when rows of tables were freed.
    on_freed: OnceLock<Box<dyn Fn() + Send + Sync>>,
    next_stamp: AtomicU64,
    ids: Mutex<Ids>,
    past: Past,
}

struct Ids {
    next: u32,
    logged: u32,
}

impl Catalog {
    /// Reads the catalog from row space 0 (makes it, in a new database), rebuilds every index
    /// after a restart, and installs itself as the commit hook.
    pub async fn open(manager: Arc<TxnManager>) -> Result<Arc<Catalog>, SchemaError> {
        let engine = manager.engine().clone();
        let store = Store::open(&*engine)?;
        let mut objects = store.load(&engine.snapshot());
        if objects.is_empty() {
            // A new database; or one of which nothing is left, and which is one again.
            store.begin_with(&manager, &Self::first_objects()).await?;
            objects = store.load(&engine.snapshot());
        }
        CrashPoint::RecoveryCatalog.reached();
        let (first, mut garbage) = load(&*engine, objects);
        let ids = recover_ids(&*engine, &first);
        let states = first.tables.iter().map(|(id, t)| {
            let state = TableState::default();
            state.version.store(t.version.0, Ordering::SeqCst);
            (*id, Arc::new(state))
        });
        let states = RwLock::new(states.collect());
        let begun = |t: &Arc<TableVersion>| t.def.begun().map(|begun| begun.migration).collect();
        let lazy: HashSet<u64> = first.tables.values().flat_map::<Vec<u64>, _>(begun).collect();
        let kept_unread = first.unreadable.values().flat_map(|found| found.spaces()).collect();
        let ended_migrations = History::open(manager.clone(), &lazy)?;
        let change_log = ChangeLog::open(manager.clone())?;
        let sequences = Sequences::recover(engine.clone());
        let noted = sequences.ids().into_iter().map(Remains::Sequence);
        let is_known = |noted: &Remains| in_use(&first, noted) || change_log.keeps(noted);
        garbage.extend(noted.filter(|noted| !is_known(noted)).map(|noted| (Ts(0), noted)));
        let next_ids = [ended_migrations.next_id(), change_log.next_id()];
        let next_migration = lazy.iter().map(|id| id + 1).chain(next_ids);
        let next_migration = next_migration.max().unwrap_or(1);
        let catalog = Arc::new_cyclic(|own| Catalog {
            own: own.clone(),
            on_freed: OnceLock::new(),
            kept_unread: RwLock::new(kept_unread),
            lazies: RwLock::default(),
            lazy_columns: RwLock::default(),
            retired_lazies: Mutex::default(),
            aborted_lazies: Mutex::default(),
            siblings: Mutex::default(),
            recompile: OnceLock::new(),
            store,
            sequences,
            states,
            latest: ArcSwap::from_pointee(first),
            history: RwLock::default(),
            flips: Mutex::default(),
            moves: RwLock::default(),
            flipping: AtomicU64::new(0),
            deciding: AtomicU64::new(0),
            durable_ts: AtomicU64::new(0),
            publishing: Mutex::default(),
            garbage: Mutex::new(garbage),
            migrations: Mutex::default(),
            next_migration: AtomicU64::new(next_migration),
            ended_migrations,
            change_log,
            next_stamp: AtomicU64::new(2),
            ids: Mutex::new(ids),
            past: Past::default(),
            manager: manager.clone(),
        });
        let weak = Arc::downgrade(&catalog);
        manager.set_hook(Arc::new(Hook { catalog: weak.clone() }));
        std::thread::Builder::new()
            .name("froglet-catalog".to_owned())
            .spawn(move || housekeep(&weak))
            .expect("a thread can be started");
        let weak = Arc::downgrade(&catalog);
        spawn_in_background("froglet-compactor".to_owned(), move || compact::run(&weak));
        Ok(catalog)
    }

    /// The catalog committed at or below a timestamp.
    pub fn at(&self, ts: Ts) -> Arc<CatalogVersion> {
        // Other servers go on under the version before it for a while, anyway.
        while !self.engine().is_shared() && self.flipping.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        let latest = self.latest.load();
        if latest.ts <= ts {
            return latest.clone();
        }
        let history = self.history.read();
        let older = history.iter().rev().find(|v| v.ts <= ts);
        older.expect("versions are kept while a snapshot may need them").clone()
    }

    /// When the newest catalog was committed, if that may not be durable yet: it is everybody's before.
    pub fn undurable_ts(&self) -> Option<Ts> {
        let ts = self.latest.load().ts;
        (ts.0 > self.durable_ts.load(Ordering::Relaxed)).then_some(ts)
    }

    /// The catalog that was committed then is durable.
    pub fn note_durable(&self, ts: Ts) {
        self.durable_ts.fetch_max(ts.0, Ordering::Relaxed);
    }

    /// The newest committed catalog.
    pub fn latest(&self) -> Arc<CatalogVersion> {
        self.latest.load_full()
    }

    /// Where the transaction's schema changes stand.
    pub fn savepoint(&self, txn: &Transaction) -> CatalogSavepoint {
        let then = local(txn).map(|local| {
            let steps = local.migrations.iter().map(|m| (m.id, m.step_count())).collect();
            Box::new(ChangesThen { changes: local.changes.clone(), steps })
        });
        CatalogSavepoint { then }
    }

    /// Undoes schema changes after `to`. Call it before [`Transaction::rollback_to`].
    pub fn rollback_to(&self, txn: &mut Transaction, to: &CatalogSavepoint) {
        if local(txn).is_none() {
            return;
        }
        let local = local_mut(txn);
        let to = to.then.as_deref().cloned().unwrap_or_default();
        local.changes = to.changes;
        local.view = None;
        // It waits for capture to stand still.
        aside(|| {
            local.migrations.retain(|m| match to.steps.iter().find(|(id, _)| *id == m.id) {
                Some((_, count)) => {
                    m.truncate_steps(*count);
                    // The statement that failed may have ended before it could say so.
                    m.resume();
                    true
                }
                None => {
                    m.stop(MigrationPhase::Aborted);
                    false
                }
            });
        });
    }

    /// Who is told when rows of tables were freed: whoever still holds such a table keeps their memory.
    pub fn on_freed(&self, told: Box<dyn Fn() + Send + Sync>) {
        assert!(self.on_freed.set(told).is_ok(), "one is told");
    }

    /// For threads that must not keep it.
    pub(crate) fn weak(&self) -> Weak<Catalog> {
        self.own.clone()
    }

    pub(crate) fn next_migration(&self) -> u64 {
        self.next_migration.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn next_stamp(&self) -> u64 {
        self.next_stamp.fetch_add(1, Ordering::Relaxed)
    }

    /// Puts another catalog in the place of the newest, as of the same time: while nobody is connected.
    pub(crate) fn replace_latest(&self, next: CatalogVersion) {
        next.observe();
        self.latest.store(Arc::new(next));
    }

    /// Read views of times gone by, with the catalogs of these.
    pub fn past(&self) -> &Past {
        &self.past
    }

    /// Migrations under way and ended ones that are still remembered, oldest first.
    pub fn migrations(&self) -> Vec<MigrationStatus> {
        // Both are held, and what is live is read before what has ended, so that none becomes history unseen.
        let (current, aborted) = (self.migrations.lock(), self.aborted_lazies.lock());
        let mut live: Vec<MigrationStatus> =
            self.lazies.read().values().map(|lazy| lazy.status()).collect();
        live.extend(self.lazy_columns.read().values().map(|column| self.status_of_column(column)));
        let mut all = self.ended_migrations.ended();
        all.extend(aborted.iter().cloned());
        let has_ended: HashSet<u64> = all.iter().map(|status| status.id).collect();
        all.extend(live.into_iter().filter(|status| !has_ended.contains(&status.id)));
        all.extend(current.iter().map(|m| m.status()));
        all.sort_by_key(|status| status.id);
        all
    }

    /// Ended migrations give up what they hold, and become history: those that cannot be recorded (their
    /// transaction may be about to end) the next time. It is done all the time, and once more by whoever
    /// ends the server.
    pub fn bury_migrations(&self) {
        let bury = |status: MigrationStatus| {
            if status.phase == MigrationPhase::Aborted {
                self.ended_migrations.aborted(&status)?;
            }
            self.ended_migrations.remember(status)
        };
        self.migrations
            .lock()
            .retain(|migration| !migration.has_ended() || bury(migration.status()).is_err());
        self.aborted_lazies.lock().retain(|status| bury(status.clone()).is_err());
    }

    /// Controls a migration under way; false if there is none of this number. One that is committed cannot
    /// be cancelled.
    pub fn control_migration(&self, id: u64, control: Control) -> Result<bool, SchemaError> {
        if let Some(lazy) =
            self.lazies.read().values().find(|lazy| lazy.course().begun.migration == id)
        {
            return lazy.course().control(control).map(|()| true);
        }
        if let Some(column) = self.lazy_columns.read().get(&id) {
            return column.course.control(control).map(|()| true);
        }
        let migrations = self.migrations.lock();
        let Some(migration) = migrations.iter().find(|m| m.id == id && !m.has_ended()) else {
            return Ok(false);
        };
        match control {
            Control::Cancel => migration.cancel(),
            Control::Pause => migration.pause_scan(true),
            Control::Resume => migration.pause_scan(false),
            Control::Throttle(rows_per_second) => migration.throttle_scan(rows_per_second),
        }
        Ok(true)
    }

    /// A transaction's migrations.
    pub(crate) fn migrations_of(&self, owner: TxnId) -> Vec<Arc<Migration>> {
        self.migrations.lock().iter().filter(|m| m.owner == owner).cloned().collect()
    }

    /// Migrations of a table's rows that its writers are to fail at, if they violate them.
    pub(crate) fn rejecting(&self, table: ObjectId, space: SpaceId) -> Vec<Arc<Migration>> {
        let migrations = self.migrations.lock();
        let is_of_it = |m: &&Arc<Migration>| m.table_id == table && m.space() == space;
        migrations.iter().filter(is_of_it).filter(|m| m.is_rejecting()).cloned().collect()
    }

    /// The transaction's migration of a table; begun here, for this step, if it has none.
    pub(crate) fn migration(
        &self,
        txn: &mut Transaction,
        table: &TableDef,
        step: &Step,
        options: &MigrationOptions,
    ) -> Result<Arc<Migration>, SchemaError> {
        let (owner, rows) = (txn.id(), step.table.clone());
        let local = local_mut(txn);
        if let Some(migration) = local.migration(table.id, rows.space()) {
            migration.is_for(step, options);
            return Ok(migration.clone());
        }
        let id = self.next_migration();
        let state = self.state(table.id);
        let migration = Migration::start(id, owner, table, state, rows);
        local.migrations.push(migration.clone());
        self.migrations.lock().push(migration.clone());
        migration.is_for(step, options);
        self.ended_migrations.begun(&migration.status())?;
        Ok(migration)
    }

    /// nextval: outside transactions, durable before any commit that can depend on it. Whoever is told of the value
    /// without a commit is told when the log is durable up to the position.
    pub fn next_value(&self, sequence: &SequenceDef) -> Result<(i64, Lsn), SchemaError> {
        self.sequences.next(sequence)
    }

    /// The last value given and whether it has been given.
    pub fn sequence_state(&self, sequence: &SequenceDef) -> SequenceState {
        self.sequences.state(sequence)
    }

    /// setval
    pub fn set_value(
        &self,
        sequence: &SequenceDef,
        value: i64,
        called: bool,
    ) -> Result<Lsn, SchemaError> {
        self.sequences.set(sequence, value, called)
    }

    /// The transactions under this catalog.
    pub fn manager(&self) -> &Arc<TxnManager> {
        &self.manager
    }

    /// The engine under this catalog.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        self.manager.engine()
    }

    /// An object id that was never used.
    pub(crate) fn next_id(&self) -> Result<ObjectId, SchemaError> {
        let mut ids = self.ids.lock();
        if ids.next == ids.logged {
            // Only what is noted is given: a full disk refuses the note, and is not full for ever.
            if self.engine().is_shared() {
                return self.next_shared_id(&mut ids);
            }
            let logged = ids.logged + IDS_AHEAD;
            let noted = self.engine().put_note(NEXT_ID_NOTE, &logged.to_le_bytes())?;
            ids.logged = logged;
            noted
                .waits_for_nothing("nobody meets an id but by a commit, whose record is behind it");
        }
        ids.next += 1;
        Ok(ids.next - 1)
    }

    /// The same where other servers take ids, too.
    fn next_shared_id(&self, ids: &mut Ids) -> Result<ObjectId, SchemaError> {
        let known = ids.logged;
        let mut first = known;
        self.engine().change_note(NEXT_ID_NOTE, &mut |noted| {
            let noted = noted.and_then(|noted| Some(u32::from_le_bytes(noted.try_into().ok()?)));
            first = noted.unwrap_or(known).max(known);
            (first + IDS_AHEAD).to_le_bytes().to_vec()
        })?;
        (ids.next, ids.logged) = (first + 1, first + IDS_AHEAD);
        Ok(first)
    }

    pub(crate) fn state(&self, table: ObjectId) -> Option<Arc<TableState>> {
        self.states.read().get(&table).cloned()
    }

    pub(crate) fn flips_after(&self, table: ObjectId, version: Ts) -> Vec<Arc<Flip>> {
        let flips = self.flips.lock();
        flips.iter().filter(|f| f.table == table && f.ts > version).cloned().collect()
    }

    /// Makes a transaction's changes everybody's, as of its commit timestamp.
    pub(crate) fn publish(&self, txn: &mut Transaction, ts: Ts) {
        let local = local_mut(txn);
        assert!(local.flipping, "one transaction at a time publishes what it has changed");
        let mut changes = std::mem::take(&mut local.changes);
        let created = std::mem::take(&mut local.created);
        let recorded = local.recorded.take();
        let _publishing = self.publishing.lock();
        let before = self.latest.load_full();
        self.begin_moves(&mut changes, &before, ts);
        let stamp = self.next_stamp();
        let after = Arc::new(before.with(&changes.objects, ts, stamp));
        assert!(after.ts > before.ts, "flips are published in the order of their timestamps");

        if let Some(recorded) = recorded {
            self.change_log.committed(recorded);
        }
        self.change_log.ended(txn.id());
        let mut garbage = self.garbage.lock();
        let unused = created.into_iter().filter(|r| !in_use(&after, r));
        // A column that was dropped may be what another is computed from.
        let replaced = changes.replaced.iter().copied().filter(|r| !in_use(&after, r));
        let dropped = changes.objects.iter().filter(|(_, changed)| changed.is_none());
        let dropped = dropped.map(|(id, _)| *id).filter(|id| before.sequences.contains_key(id));
        let gone = replaced.chain(unused).chain(dropped.map(Remains::Sequence));
        garbage.extend(gone.filter(|r| !self.change_log.keeps(r)).map(|r| (ts, r)));
        drop(garbage);
        self.flips.lock().extend(flips(&changes, &before, ts).map(Arc::new));
        let mut states = self.states.write();
        for id in changes.objects.keys() {
            states.entry(*id).or_default().version.store(ts.0, Ordering::SeqCst);
        }
        drop(states);
        let objects: Vec<ObjectId> = changes.objects.keys().copied().collect();
        for table in objects.iter().filter_map(|id| after.tables.get(id)) {
            self.engine().set_dictionaries(table.def.space, table.def.dictionaries());
        }
        self.commit_lazies(txn.id(), &after, &objects);
        self.commit_lazy_columns(txn.id(), &after, &objects);
        self.history.write().push(before);
        self.latest.store(after);
    }

    /// Frees these once nobody can have them in use.
    pub(crate) fn forget_after_now(&self, remains: Vec<Remains>) {
        if !remains.is_empty() {
            let ts = self.engine().barrier();
            self.garbage.lock().extend(remains.into_iter().map(|r| (ts, r)));
        }
    }

    /// Frees what no snapshot needs any more: columns, indexes, spaces, flips, catalog versions.
    pub(crate) fn collect_garbage(&self) {
        let has_older = !self.history.read().is_empty();
        if has_older && self.latest.load().ts >= self.engine().now() {
            // Nobody has committed since: without that every view would be as old as the change.
            self.engine().barrier();
        }
        let oldest = self.engine().oldest_snapshot();
        self.release_lazies(oldest);
        self.end_moves(oldest);
        let mut free = Vec::new();
        self.garbage.lock().retain(|(ts, remains)| {
            let is_read = match *remains {
                Remains::Column(space, _) | Remains::Index(space, _) | Remains::Space(space) => {
                    self.is_read_lazily(space)
                }
                Remains::Sequence(_) => false,
            };
            let keep = *ts >= oldest || is_read;
            if !keep {
                free.push(*remains);
            }
            keep
        });
        let frees_rows = free.iter().any(|remains| matches!(remains, Remains::Space(_)));
        for remains in free {
            match remains {
                Remains::Column(space, column) => self.engine().drop_column(space, column),
                Remains::Index(space, index) => self.engine().drop_index(space, index),
                Remains::Space(space) => self.engine().drop_space(space),
                Remains::Sequence(id) => self.sequences.forget(id),
            }
            CrashPoint::GarbageFreed.reached();
        }
        if let Some(told) = self.on_freed.get().filter(|_| frees_rows) {
            told();
        }
        let flips = take_out(&mut self.flips.lock(), |flip| flip.ts < oldest);
        let mut history = self.history.write();
        let latest = self.latest.load().ts;
        let next: Vec<Ts> =
            history.iter().skip(1).map(|v| v.ts).chain(std::iter::once(latest)).collect();
        let mut next = next.into_iter();
        let versions =
            take_out(&mut history, |_| next.next().expect("one successor each") <= oldest);
        drop(history);
        if !flips.is_empty() || !versions.is_empty() {
            // They may be the last that hold rows and indexes of millions: nobody is to wait for those to be freed,
            // with or without a lock.
            spawn_in_background("froglet-free".to_owned(), move || drop((flips, versions)));
        }
    }
}

/// Takes out what is such.
fn take_out<T>(all: &mut Vec<T>, mut is_such: impl FnMut(&T) -> bool) -> Vec<T> {
    let (such, others) = std::mem::take(all).into_iter().partition(|one| is_such(one));
    *all = others;
    such
}

/// Collects garbage for as long as the catalog lives.
fn housekeep(catalog: &Weak<Catalog>) {
    while let Some(catalog) = catalog.upgrade() {
        catalog.past.sample(&**catalog.engine());
        catalog.collect_garbage();
        catalog.bury_migrations();
        catalog.tidy_changes();
        catalog.latest().age_accesses();
        drop(catalog);
        std::thread::sleep(HOUSEKEEPING);
    }
}

impl Local {
    /// Enters what makes a new table.
    pub(crate) fn set_maker(&mut self, table: ObjectId, maker: Arc<dyn Maker>) {
        self.changes.makers.insert(table, maker);
        self.view = None;
    }

    /// Enters a table's new version.
    pub(crate) fn set_table(&mut self, version: TableVersion) {
        let id = version.def.id;
        self.changes.objects.insert(id, Some(Changed::Table(Arc::new(version))));
        self.view = None;
    }
}
