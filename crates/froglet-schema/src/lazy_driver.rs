//! Lazy migrations in the catalog: begun by a statement, committed with its transaction, worked at in the
//! background, ended by a transaction of their own, and taken up again after a restart.
//!
//! ```text
//!   CREATE TABLE AS   def.lazy = how ─ commit: go live ─ … ─ nothing left: def.lazy = none ─ commit
//!   restart           def.lazy, notes of installs ─▶ tracker ─ go live ─ …
//! ```
//!
//! What a table's definition says of its migration (`LazyDef`) is versioned, logged and rolled back with
//! the table. The running part is found by the table's row space.
//!
//! D1: while a migration is live, the row spaces that it reads are there, with every column and index that
//!     they had ([`Catalog::is_read_lazily`]).
//! D2: what must hold of all rows of the new table is known of the source when its transaction commits
//!     (`lazy_verify.rs`), or it is not made lazily.
//! D3: what reads a table that is itself being made lazily has its migration in hand. So that goes on being
//!     able to make rows when its own table is gone, until nobody reads through it ([`Catalog::release_lazies`]);
//!     after a restart the definition of the one that reads says how.

use std::collections::BTreeSet;
use std::sync::Arc;

use froglet_engine::{ColumnType, EngineError, Home, SpaceId, SqlState, Table, Ts, TxnId};
use froglet_txn::{Limits, Transaction};

use crate::apply::set_home::Whole;
use crate::apply::{Applied, Scope, in_cluster};
use crate::background::spawn;
use crate::catalog::{Catalog, CatalogVersion, TableVersion};
use crate::change::{LazyQuery, NewTable, Transform};
use crate::course::rolled_back;
use crate::def::{ObjectDef, ObjectId, TableDef};
use crate::edit::{Edited, Work};
use crate::error::SchemaError;
use crate::lazy::moved::{LazyMoved, Siblings};
use crate::lazy::moved_query::NOT_MOVED;
use crate::lazy::rewritten::Rewritten;
use crate::lazy::{LazyDef, LazyMigration, LazySource};
use crate::lazy_pairs::LazyPairs;
use crate::lazy_rows::LazyRows;
use crate::lazy_table::LazyTable;
use crate::lazy_units::LazyUnits;
use crate::lazy_verify::{implied, not_lazily};
use crate::local::{Changed, Remains, local, local_mut};
use crate::store::rebuild_index;
use crate::unreadable::Unreadable;

/// Of tables that are made of each other, all lazily, so many may be unfinished: each costs whoever reads the last
/// a step more, and keeps its sources.
const DEEPEST: usize = 4;

const WHEN_WHOLE: &str =
    "Do it in a transaction of its own, when froglet.migrations says that the table is whole.";

/// When a migration ended that is resumed for others that read through it: not before these are resumed, too.
const RESUMING: Ts = Ts::LATEST;

/// A migration that has ended, and when.
pub(crate) type Retired = (Ts, Arc<dyn LazyMigration>);

/// Compiles again what recovery has found, or another server says, of its recipe.
pub trait Recompile: Send + Sync {
    /// The query of a table, in a catalog that has its sources as they were, under the names that they had, and
    /// nothing else.
    fn query(&self, recipe: &str, catalog: CatalogVersion) -> Result<LazyQuery, SchemaError>;
    /// The expression of a column, over its table as it was.
    fn column(&self, recipe: &str, table: &TableDef) -> Result<Arc<dyn Transform>, SchemaError>;
    /// A condition on each row, as a column that is false where it does not hold, and the types of what it reads.
    fn check(&self, recipe: &str) -> Result<(Arc<dyn Transform>, Vec<ColumnType>), SchemaError>;
}

impl CatalogVersion {
    /// Has a table under the name that it had, for what is compiled again over it.
    pub(crate) fn add_source(&mut self, source: &TableDef, table: Arc<dyn Table>) {
        let version = TableVersion::new(source.clone(), Ts(1), table);
        self.names.insert((source.schema.clone(), source.name.clone()), source.id);
        self.tables.insert(source.id, Arc::new(version));
    }
}

impl Catalog {
    /// A table under a definition, as everybody reads and writes it.
    pub(crate) fn open_table(&self, def: &TableDef) -> Result<Arc<dyn Table>, EngineError> {
        let table = self.engine().open(def.space, Arc::new(def.layout()))?;
        match self.lazy_of(def) {
            Some(lazy) => Ok(self.with_move(lazy.over(table))),
            None => self.with_lazy_columns(def, self.with_move(table)),
        }
    }

    /// The migration that makes the rows of a table.
    pub(crate) fn lazy_of(&self, def: &TableDef) -> Option<Arc<dyn LazyMigration>> {
        def.lazy.as_ref()?;
        self.lazies.read().get(&def.space).cloned()
    }

    /// Whether a migration that is live, or has readers, reads a row space [D1].
    pub(crate) fn is_read_lazily(&self, space: SpaceId) -> bool {
        self.kept_unread.read().contains(&space)
            || self.is_read_by(&self.retired_lazies.lock(), space)
    }

    fn is_read_by(&self, retired: &[Retired], space: SpaceId) -> bool {
        self.find_lazy(retired, |lazy| lazy.state().reads(space)).is_some()
    }

    /// One that is live, or has ended and is still held.
    fn find_lazy(
        &self,
        retired: &[Retired],
        is_it: impl Fn(&dyn LazyMigration) -> bool,
    ) -> Option<Arc<dyn LazyMigration>> {
        let lazies = self.lazies.read();
        let mut all = lazies.values().chain(retired.iter().map(|(_, lazy)| lazy));
        all.find(|lazy| is_it(&***lazy)).cloned()
    }

    /// CREATE TABLE AS: the rows come later.
    pub(crate) async fn make_lazily(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        new: NewTable,
        query: LazyQuery,
        recipe: String,
    ) -> Result<Applied, SchemaError> {
        let tables = query.tables();
        let mut in_order = tables.clone();
        // So that two such statements do not wait for each other.
        in_order.sort_unstable();
        in_order.dedup();
        for table in in_order {
            self.store.lock(txn, table, scope.limits).await?;
        }
        let mut defs = Vec::with_capacity(tables.len());
        let mut sources = Vec::with_capacity(tables.len());
        for id in tables {
            let base = scope.table(id)?;
            if local(txn).is_some_and(|own| own.changes.objects.contains_key(&id)) {
                return Err(not_lazily(format!(
                    "Table \"{}\" was made or changed by the same transaction",
                    base.def.name
                )));
            }
            self.can_move_all(txn, &base.def)?;
            let (source, def) = self.lazy_source(base, scope.limits)?;
            sources.push(source);
            defs.push(def);
        }
        let source = Box::new(defs.remove(0));
        let id = self.create_table(txn, scope, new).await?;
        let made = local(txn).and_then(|own| own.changes.objects.get(&id)?.as_ref()?.table());
        let mut def = made.expect("just made").def.clone();
        def.lazy = Some(Box::new(LazyDef {
            begun: self.begin_lazy(scope.options),
            recipe,
            computed: Vec::new(),
            source,
            lookups: defs,
            outputs: def.columns.iter().map(|column| column.id).collect(),
            blocks: 0,
            granule_rows: scope.options.granule_rows,
            detection: scope.options.detection,
            is_fused: scope.options.is_fused,
            colocates: scope.options.colocates,
        }));
        self.set_lazy_table(txn, scope, def, sources, query).await?;
        Ok(Applied { object: Some(id), rows: 0 })
    }

    /// Gives a table a definition that says how its rows are made from the commit on.
    pub(crate) async fn set_lazy_table(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: TableDef,
        sources: Vec<LazySource>,
        query: LazyQuery,
    ) -> Result<(), SchemaError> {
        let lazily = (**def.lazy.as_ref().expect("it says how")).clone();
        let lazy = self.made_by(lazily, &def, txn.id(), sources, query)?;
        lazy.course().pace.throttle(scope.options.rows_per_second);
        self.lazies.write().insert(def.space, lazy.clone());
        self.ended_migrations.begun(&lazy.status())?;
        let locked = self.store.lock(txn, def.id, scope.limits).await?;
        self.store.update(txn, locked, &ObjectDef::Table(def.clone()), scope.limits).await?;
        let table = self.open_table(&def)?;
        let local = local_mut(txn);
        local.changes.lazies.insert(def.id, lazy);
        local.set_table(TableVersion::new(def, Ts(0), table));
        Ok(())
    }

    /// A table of which another is made lazily, and what is remembered of it. If its own rows are being
    /// made lazily, it is read past what is there of them [D3].
    pub(crate) fn lazy_source(
        &self,
        base: &TableVersion,
        limits: &Limits,
    ) -> Result<(LazySource, TableDef), SchemaError> {
        let table = self.engine().open_closed(base.def.space, Arc::new(base.def.layout()))?;
        let seen = base.table.clone();
        let is_shallow = base.def.lazy.as_ref().is_some_and(|lazy| lazy.depth() < DEEPEST);
        let live = self.lazy_of(&base.def).filter(|lazy| lazy.is_live() && is_shallow);
        if let Some(lazy) = live.and_then(|lazy| lazy.by_rows()) {
            let table = LazyTable::past(table, lazy.clone());
            let source = LazySource { table, seen, made_by: Some(lazy) };
            return Ok((source, base.def.clone()));
        }
        self.make_all_of(&base.def, limits)?;
        let def = TableDef { lazy: None, lazy_columns: Vec::new(), ..base.def.clone() };
        // What has moved to it is in it.
        let has_moved = base.def.space.home() == Home::Cluster && base.def.lazy.is_some();
        let seen =
            if has_moved { self.engine().open(def.space, Arc::new(def.layout()))? } else { seen };
        Ok((LazySource { table, seen, made_by: None }, def))
    }

    /// Before a change of a table whose rows are being made lazily: what the change needs of the data. Of
    /// its own transaction's table it is known to hold, was looked at, or is refused; of one that others have, all rows
    /// are made first.
    pub(crate) fn prepare_lazy(
        &self,
        txn: &Transaction,
        base: &TableDef,
        edited: &mut Edited,
        looked_at: bool,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        let Some(lazy) = self.lazy_of(base) else { return Ok(()) };
        if lazy.is_live() {
            if edited.work.iter().any(Work::is_of_rows) {
                self.can_move_all(txn, base)?;
                lazy.migrate_all(limits)?;
                edited.def.lazy = None;
            }
            return Ok(());
        }
        debug_assert_eq!(lazy.course().owner, txn.id(), "nobody else has it");
        implied(&*lazy, base, edited, looked_at).inspect_err(|_| lazy.state().outgrow()).map_err(
            |error| match lazy.closes_sources() && lazy.state().is_move() {
                true => error.with_hint(WHEN_WHOLE),
                false => error,
            },
        )?;
        // Writers who follow are asked nevertheless.
        edited.work.retain(|work| matches!(work, Work::KeptForeignKey(_)));
        Ok(())
    }

    /// Refuses to move what is left of a table of a cluster where that cannot be: others cannot move what a transaction has
    /// locked, and rows that have moved since its view are not where that has them.
    pub(crate) fn can_move_all(
        &self,
        txn: &Transaction,
        def: &TableDef,
    ) -> Result<(), SchemaError> {
        let live = self.lazy_of(def).filter(|lazy| lazy.is_live());
        let Some(source) = live.as_ref().and_then(|lazy| lazy.moved_source()) else {
            return Ok(());
        };
        let refused = |message: String| {
            let error = SchemaError::refused(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
            error.with_hint(WHEN_WHOLE)
        };
        if txn.isolation().keeps_view() {
            return Err(refused(format!(
                "at this isolation level table \"{}\" cannot be changed while rows are moved to it",
                def.name
            )));
        }
        if txn.has_touched(&*source.table) {
            return Err(refused(format!(
                "table \"{}\" cannot be changed by a transaction that has written or locked rows of it while rows are moved to it",
                def.name
            )));
        }
        Ok(())
    }

    /// Makes all rows of a table that is to be read as it is stored.
    pub(crate) fn make_all_of(&self, def: &TableDef, limits: &Limits) -> Result<(), SchemaError> {
        match self.lazy_of(def) {
            None => self.complete_lazy_columns(def, limits),
            Some(lazy) if lazy.is_live() => lazy.migrate_all(limits),
            Some(lazy) => {
                lazy.state().outgrow();
                Err(not_lazily("Another table is to be made of it before that"))
            }
        }
    }

    /// Before the commit of a transaction that has made tables lazily, or ends what others have begun. Nobody
    /// else commits a write to their sources any more.
    pub(crate) async fn prepare_lazies(
        &self,
        txn: &mut Transaction,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        for lazy in self.lazies_of(txn.id()) {
            self.ended_migrations.record(txn, &lazy.status())?;
            let id = lazy.course().table;
            let own = local(txn).and_then(|own| own.changes.objects.get(&id)?.as_ref()?.table());
            let own = own.filter(|own| lazy.state().is_of(Some(&own.def)));
            let Some(own) = own.cloned() else { continue };
            let mut def = own.def.clone();
            def.lazy.as_mut().expect("it is made lazily").blocks = lazy.source_blocks();
            let locked = self.store.lock(txn, id, limits).await?;
            self.store.update(txn, locked, &ObjectDef::Table(def.clone()), limits).await?;
            local_mut(txn).set_table(TableVersion::new(def, own.version, own.table.clone()));
            let spaces: Vec<SpaceId> = lazy.state().def.sources().map(|s| s.space).collect();
            if lazy.closes_sources() {
                in_cluster::check_closed(local(txn).expect("it has made a table"), &*lazy)?;
                txn.part().close(&spaces)?;
            } else if lazy.state().begins_to_keep() {
                txn.part().keep(lazy.state().keeper(), &spaces)?;
            }
        }
        for lazy in self.live_lazies() {
            let own = local(txn).expect("who flips has changed something");
            let changed = own.changes.objects.get(&lazy.course().table);
            let changed = changed.map(|changed| changed.as_ref().and_then(Changed::table));
            if changed.is_some_and(|table| !lazy.state().is_of(table.map(|table| &table.def))) {
                let has_readers = self.is_read_lazily(lazy.course().space);
                self.ended_migrations.record(txn, &lazy.status_at_end(has_readers))?;
            }
        }
        self.record_lazy_columns(txn)
    }

    fn live_lazies(&self) -> Vec<Arc<dyn LazyMigration>> {
        self.lazies.read().values().filter(|lazy| lazy.is_live()).cloned().collect()
    }

    fn lazies_of(&self, owner: TxnId) -> Vec<Arc<dyn LazyMigration>> {
        let lazies = self.lazies.read();
        let of_it =
            |lazy: &&Arc<dyn LazyMigration>| !lazy.is_live() && lazy.course().owner == owner;
        lazies.values().filter(of_it).cloned().collect()
    }

    /// A transaction is committed: what it has made lazily goes live, before anybody can have it. What has
    /// lost its table ends.
    pub(crate) fn commit_lazies(&self, owner: TxnId, after: &CatalogVersion, objects: &[ObjectId]) {
        let mut begun = Vec::new();
        for lazy in self.lazies_of(owner) {
            let table = after.tables.get(&lazy.course().table);
            let Some(table) = table.filter(|table| lazy.state().is_of(Some(&table.def))) else {
                let later = table.and_then(|table| table.def.lazy.as_ref());
                match later.is_some_and(|later| later.goes_on_from(&lazy.state().def)) {
                    true => self.forget_lazy(&*lazy),
                    false => self.abort_lazy(&*lazy),
                }
                continue;
            };
            let target = self.engine().open(table.def.space, Arc::new(table.def.layout()));
            let target = target.expect("it was opened before");
            let blocks = table.def.lazy.as_ref().map_or(0, |lazy| lazy.blocks);
            let engine = self.engine().clone();
            lazy.go_live(engine, target, blocks).expect("it has no rows yet");
            begun.push(lazy);
        }
        // Not before all are there that move rows of the same source.
        self.spawn_lazies(begun);
        for lazy in self.live_lazies() {
            let def = after.tables.get(&lazy.course().table).map(|table| &table.def);
            if objects.contains(&lazy.course().table) && !lazy.state().is_of(def) {
                // What cannot be written now is found at the next start.
                let has_readers = self.is_read_lazily(lazy.course().space);
                let _ = self.ended_migrations.remember(lazy.status_at_end(has_readers));
                self.retire_lazy(after.ts, lazy);
            }
        }
    }

    /// A transaction is rolled back.
    pub(crate) fn abort_lazies(&self, owner: TxnId) {
        self.lazies_of(owner).iter().for_each(|lazy| self.abort_lazy(&**lazy));
        self.abort_lazy_columns(owner);
    }

    fn abort_lazy(&self, lazy: &dyn LazyMigration) {
        // At no moment is it in neither place.
        self.aborted_lazies.lock().push(rolled_back(lazy.status()));
        self.forget_lazy(lazy);
    }

    /// It has ended: what it reads is kept for as long as there are views from before.
    fn retire_lazy(&self, ended: Ts, lazy: Arc<dyn LazyMigration>) {
        // At no moment is it in neither place: what it reads would be given up.
        self.retired_lazies.lock().push((ended, Arc::clone(&lazy)));
        self.forget_lazy(&*lazy);
    }

    fn forget_lazy(&self, lazy: &dyn LazyMigration) {
        lazy.course().end();
        self.lazies.write().remove(&lazy.course().space);
    }

    /// Lets go of the sources of migrations that have ended, once no snapshot, and no other migration, may
    /// read through them.
    pub(crate) fn release_lazies(&self, oldest: Ts) {
        let mut retired = self.retired_lazies.lock();
        let has_readers = |lazy: &dyn LazyMigration| {
            !lazy.is_complete() && self.is_read_by(&retired, lazy.course().space)
        };
        let is_needed: Vec<bool> =
            retired.iter().map(|(ts, lazy)| *ts >= oldest || has_readers(&**lazy)).collect();
        let mut is_needed = is_needed.into_iter();
        retired.retain(|(_, lazy)| {
            // A log that has failed fails the next commit.
            is_needed.next().expect("one answer each")
                || self.engine().release(lazy.state().keeper()).is_err()
        });
    }

    /// Goes on with the migrations that recovery has found. To be called before anybody connects.
    pub fn resume_lazies(
        self: &Arc<Self>,
        recompile: &Arc<dyn Recompile>,
    ) -> Result<(), SchemaError> {
        // Who else has the database may begin others.
        if self.engine().is_shared() && self.recompile.set(Arc::clone(recompile)).is_err() {
            unreachable!("a database is opened once");
        }
        let recompile = &**recompile;
        let mut begun = Vec::new();
        let latest = self.latest();
        let mut next = CatalogVersion { stamp: self.next_stamp(), ..(*latest).clone() };
        for table in latest.tables.values().filter(|table| table.def.lazy.is_some()) {
            let lazy = match self.resume_lazy(&table.def, &latest, recompile) {
                Ok(lazy) => lazy,
                Err(e) => {
                    let found = Unreadable::of_table(&table.def, e.to_string());
                    self.leave_unread(&table.def);
                    self.kept_unread.write().extend(found.spaces());
                    next.set_unreadable(found);
                    continue;
                }
            };
            let version = TableVersion::new(
                table.def.clone(),
                table.version,
                lazy.clone().over(table.table.clone()),
            );
            next.tables.insert(table.def.id, Arc::new(version));
            begun.push(lazy);
        }
        begun.into_iter().for_each(|lazy| spawn(self.weak(), lazy));
        self.resume_lazy_columns(&mut next, recompile);
        let unread = next.all_unreadable();
        // Of what has no definition nobody knows what it needs [X1].
        let all_known = unread.iter().all(|found| found.def.is_some());
        let unread: Vec<u64> =
            unread.iter().flat_map(|found| found.spaces()).map(|s| s.0.into()).collect();
        self.replace_latest(next);
        let mut retired = self.retired_lazies.lock();
        retired.iter_mut().filter(|(ts, _)| *ts == RESUMING).for_each(|(ts, _)| *ts = Ts(0));
        drop(retired);
        let is_needed = |keeper: u64| {
            if !all_known || unread.contains(&keeper) {
                return true;
            }
            let retired = self.retired_lazies.lock();
            self.find_lazy(&retired, |lazy| lazy.state().keeper() == keeper).is_some()
        };
        for keeper in self.engine().keepers().into_iter().filter(|keeper| !is_needed(*keeper)) {
            self.engine().release(keeper)?;
        }
        // Sources that no table has any more go with the last that reads them.
        let has_table = |space: &SpaceId| latest.tables.values().any(|t| t.def.space == *space);
        let mut read: BTreeSet<SpaceId> = BTreeSet::new();
        let lazies = latest.tables.values().filter_map(|table| table.def.lazy.as_ref());
        read.extend(lazies.flat_map(|lazy| lazy.spaces_read()));
        read.retain(|space| !has_table(space) && self.engine().spaces().contains(space));
        let read = read.into_iter().map(|space| (Ts(0), Remains::Space(space)));
        self.garbage.lock().extend(read);
        Ok(())
    }

    /// It is not known how a table's rows are made [V3 of `lazy/moved.rs`].
    fn leave_unread(&self, table: &TableDef) {
        let source = table.lazy.as_ref().map(|lazy| lazy.source.space);
        if let Some(source) = source.filter(|space| space.home() == Home::Cluster) {
            self.siblings_of(source).without(&table.name);
        }
    }

    /// What another server has begun: its table, as everybody here is to have it. None: it was begun here, and is about to be
    /// committed.
    pub(crate) fn follow_lazy(
        &self,
        def: &TableDef,
        next: &CatalogVersion,
        begun: &mut Vec<Arc<dyn LazyMigration>>,
    ) -> Option<Result<Arc<dyn Table>, SchemaError>> {
        if let Some(lazy) = self.lazy_of(def) {
            return lazy.is_live().then(|| Ok(self.open_table(def)?));
        }
        let recompile =
            self.recompile.get().expect("whoever follows others has opened the database");
        let resumed = self.resume_lazy(def, next, &**recompile);
        Some(match resumed {
            Ok(lazy) => {
                begun.push(lazy);
                self.open_table(def).map_err(SchemaError::from)
            }
            Err(error) => {
                self.leave_unread(def);
                Err(error)
            }
        })
    }

    /// Goes on with what others have begun.
    pub(crate) fn spawn_lazies(&self, begun: Vec<Arc<dyn LazyMigration>>) {
        begun.into_iter().for_each(|lazy| spawn(self.weak(), lazy));
    }

    /// Others have ended lazy migrations of tables.
    pub(crate) fn follow_ends(&self, next: &CatalogVersion) {
        for lazy in self.live_lazies() {
            let def = next.tables.get(&lazy.course().table).map(|table| &table.def);
            if lazy.state().is_of(def) {
                continue;
            }
            if self.engine().leads() {
                let sources = lazy.state().def.sources().map(|source| source.space);
                let remains = sources.map(|space| (next.ts, Remains::Space(space)));
                self.garbage.lock().extend(remains);
            }
            self.retire_lazy(next.ts, lazy);
        }
    }

    /// The migration of a table, at work again. It has those before it that it reads through [D3].
    fn resume_lazy(
        &self,
        target: &TableDef,
        latest: &CatalogVersion,
        recompile: &dyn Recompile,
    ) -> Result<Arc<dyn LazyMigration>, SchemaError> {
        let retired = self.retired_lazies.lock();
        let resumed = self.find_lazy(&retired, |lazy| lazy.course().space == target.space);
        drop(retired);
        if let Some(lazy) = resumed {
            return Ok(lazy);
        }
        let def = target.lazy.as_ref().expect("it was being made lazily");
        let mut with_sources = CatalogVersion::default();
        let mut sources = Vec::new();
        for source in def.sources() {
            let mut table = self.engine().open_closed(source.space, Arc::new(source.layout()))?;
            // The table may have lost indexes since, and its rows keys in common: no duplicates
            // to speak of, as these are read as of the flip.
            let known = latest.tables.values().find(|t| t.def.space == source.space);
            for (position, index) in table.layout().indexes.iter().enumerate() {
                if known.is_none_or(|known| known.def.index_by_id(index.id).is_none()) {
                    rebuild_index(&table, position)?;
                }
            }
            // What has ended keeps nothing any more.
            let is_kept = self.engine().keepers().contains(&u64::from(source.space.0));
            let mut made_by = None;
            if source.lazy.is_some() && is_kept {
                let lazy = self.resume_lazy(source, latest, recompile)?.by_rows();
                let lazy = lazy.expect("what is read past makes rows of rows");
                table = LazyTable::past(table, lazy.clone());
                made_by = Some(lazy);
            }
            with_sources.add_source(source, table.clone());
            sources.push(LazySource { table: table.clone(), seen: table, made_by });
        }
        let query = match def.is_move_of(target.id) {
            true if def.computed.is_empty() => Whole::of(&def.source),
            true => {
                let query = Rewritten::compile(&def.source, &def.computed, recompile)?;
                LazyQuery::Rows(target.id, Arc::new(query))
            }
            false => recompile.query(&def.recipe, with_sources)?,
        };
        if !query.tables().into_iter().eq(def.sources().map(|source| source.id)) {
            return Err(not_as_it_was("reads other tables"));
        }
        let lazy = self.made_by((**def).clone(), target, TxnId(0), sources, query)?;
        let known = latest.tables.values().find(|table| table.def.space == target.space);
        let table = match known {
            Some(known) => known.table.clone(),
            None => self.engine().open(target.space, Arc::new(target.layout()))?,
        };
        lazy.go_live(self.engine().clone(), table, def.blocks)?;
        if known.is_some_and(|known| known.def.lazy.is_some()) {
            self.lazies.write().insert(target.space, lazy.clone());
        } else {
            lazy.course().end();
            self.retired_lazies.lock().push((RESUMING, lazy.clone()));
        }
        Ok(lazy)
    }
}

/// What has been compiled again is something else.
pub(crate) fn not_as_it_was(how: &str) -> SchemaError {
    let message = format!("a lazy migration that was compiled again {how}");
    SchemaError::refused(SqlState::DATA_CORRUPTED, message)
}

/// Nobody asks for what has no way; but a way may have gone since.
const NO_WAY_NOW: &str = "The rows of a group, or of a key of a join, are not found by an index of each table \
                          that begins with a column of it";

impl Catalog {
    /// What makes the rows of a table.
    fn made_by(
        &self,
        def: LazyDef,
        target: &TableDef,
        owner: TxnId,
        sources: Vec<LazySource>,
        query: LazyQuery,
    ) -> Result<Arc<dyn LazyMigration>, SchemaError> {
        let is_in_cluster = target.space.home() == Home::Cluster;
        Ok(match query {
            query if is_in_cluster => {
                let siblings = self.siblings_of(def.source.space);
                let lazy = LazyMoved::new(def, target, owner, sources, query, siblings);
                lazy.ok_or_else(|| not_lazily(NOT_MOVED))?
            }
            LazyQuery::Rows(_, query) => {
                Arc::new(LazyRows::new(def, target, owner, sources, query))
            }
            LazyQuery::Pairs(_, query) => {
                let lazy = LazyPairs::new(def, target, owner, sources, query);
                Arc::new(lazy.ok_or_else(|| not_lazily(NO_WAY_NOW))?)
            }
            LazyQuery::Units(query) => {
                let lazy = LazyUnits::new(def, target, owner, sources, query);
                Arc::new(lazy.ok_or_else(|| not_lazily(NO_WAY_NOW))?)
            }
        })
    }

    /// The tables whose rows are made of those of a row space.
    pub(crate) fn siblings_of(&self, source: SpaceId) -> Arc<Siblings> {
        self.siblings.lock().entry(source).or_default().clone()
    }
}
