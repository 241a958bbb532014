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

use std::sync::Arc;

use froglet_engine::{EngineError, SpaceId, Table, Ts, TxnId};
use froglet_txn::{Limits, Transaction};

use crate::apply::{Applied, Scope};
use crate::background::spawn;
use crate::catalog::{Catalog, CatalogVersion, TableVersion};
use crate::change::{LazyQuery, NewTable, Transform};
use crate::course::rolled_back;
use crate::def::{ObjectDef, ObjectId, TableDef};
use crate::edit::Edited;
use crate::error::SchemaError;
use crate::lazy::{LazyDef, LazyMigration, LazySource};
use crate::lazy_rows::LazyRows;
use crate::lazy_units::LazyUnits;
use crate::lazy_verify::{implied, not_lazily};
use crate::local::{Changed, local, local_mut};
use crate::store::rebuild_index;

/// Compiles again what recovery has found, of its recipe.
pub trait Recompile {
    /// The query of a table, in a catalog that has its sources.
    fn query(&self, recipe: &str, catalog: CatalogVersion) -> Result<LazyQuery, SchemaError>;
    /// The expression of a column, over its table as it was.
    fn column(&self, recipe: &str, table: &TableDef) -> Result<Arc<dyn Transform>, SchemaError>;
}

impl Catalog {
    /// A table under a definition, as everybody reads and writes it.
    pub(crate) fn open_table(&self, def: &TableDef) -> Result<Arc<dyn Table>, EngineError> {
        let table = self.engine().open(def.space, Arc::new(def.layout()))?;
        match self.lazy_of(def) {
            Some(lazy) => Ok(lazy.over(table)),
            None => self.with_lazy_columns(def, table),
        }
    }

    /// The migration that makes the rows of a table.
    pub(crate) fn lazy_of(&self, def: &TableDef) -> Option<Arc<dyn LazyMigration>> {
        def.lazy.as_ref()?;
        self.lazies.read().get(&def.space).cloned()
    }

    /// Whether a live migration reads a row space [D1].
    pub(crate) fn is_read_lazily(&self, space: SpaceId) -> bool {
        let retired = self.retired_lazies.lock();
        let lazies = self.lazies.read();
        let mut all = lazies.values().chain(retired.iter().map(|(_, lazy)| lazy));
        all.any(|lazy| lazy.state().reads(space))
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
            // What it is made of goes when it has ended, and may go before this has.
            self.make_all_of(&base.def, scope.limits)?;
            let table = self.engine().open(base.def.space, Arc::new(base.def.layout()))?;
            sources.push(LazySource { table, seen: base.table.clone() });
            let def = base.def.clone();
            defs.push(TableDef { lazy: None, lazy_columns: Vec::new(), ..def });
        }
        let source = Box::new(defs.remove(0));
        let id = self.create_table(txn, scope, new).await?;
        let made = local(txn).and_then(|own| own.changes.objects.get(&id)?.as_ref()?.table());
        let mut def = made.expect("just made").def.clone();
        let lazy_def = LazyDef {
            begun: self.begin_lazy(scope.options),
            recipe,
            source,
            lookups: defs,
            outputs: def.columns.iter().map(|column| column.id).collect(),
            blocks: 0,
            granule_rows: scope.options.granule_rows,
            detection: scope.options.detection,
        };
        def.lazy = Some(Box::new(lazy_def.clone()));
        let owner = txn.id();
        let lazy = made_by(lazy_def, &def, owner, sources, query)?;
        lazy.course().pace.throttle(scope.options.rows_per_second);
        self.lazies.write().insert(def.space, lazy.clone());
        self.ended_migrations.begun(&lazy.status())?;
        let locked = self.store.lock(txn, id, scope.limits).await?;
        self.store.update(txn, locked, &ObjectDef::Table(def.clone()), scope.limits).await?;
        let table = self.open_table(&def)?;
        let local = local_mut(txn);
        local.changes.lazies.insert(id, lazy);
        local.set_table(TableVersion::new(def, Ts(0), table));
        Ok(Applied { object: Some(id), rows: 0 })
    }

    /// Before a change of a table whose rows are being made lazily: what the change needs of the data. Of
    /// its own transaction's table it is known to hold, or refused; of one that others have, all rows
    /// are made first.
    pub(crate) fn prepare_lazy(
        &self,
        txn: &Transaction,
        base: &TableDef,
        edited: &mut Edited,
        limits: &Limits,
    ) -> Result<(), SchemaError> {
        let Some(lazy) = self.lazy_of(base) else { return Ok(()) };
        if lazy.is_live() {
            if !edited.work.is_empty() {
                lazy.migrate_all(limits)?;
                edited.def.lazy = None;
            }
            return Ok(());
        }
        debug_assert_eq!(lazy.course().owner, txn.id(), "nobody else has it");
        implied(&*lazy, base, edited)?;
        edited.work.clear();
        Ok(())
    }

    /// Makes all rows of a table that is to be read as it is stored.
    pub(crate) fn make_all_of(&self, def: &TableDef, limits: &Limits) -> Result<(), SchemaError> {
        match self.lazy_of(def) {
            None => self.complete_lazy_columns(def, limits),
            Some(lazy) if lazy.is_live() => lazy.migrate_all(limits),
            Some(_) => Err(not_lazily("Another table is to be made of it before that")),
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
            if lazy.state().begins_to_keep() {
                txn.part().keep(lazy.state().keeper(), &spaces)?;
            }
        }
        for lazy in self.live_lazies() {
            let own = local(txn).expect("who flips has changed something");
            let changed = own.changes.objects.get(&lazy.course().table);
            let changed = changed.map(|changed| changed.as_ref().and_then(Changed::table));
            if changed.is_some_and(|table| !lazy.state().is_of(table.map(|table| &table.def))) {
                self.ended_migrations.record(txn, &lazy.status_at_end())?;
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
        for lazy in self.lazies_of(owner) {
            let table = after.tables.get(&lazy.course().table);
            let Some(table) = table.filter(|table| table.def.space == lazy.course().space) else {
                self.abort_lazy(&*lazy);
                continue;
            };
            let target = self.engine().open(table.def.space, Arc::new(table.def.layout()));
            let target = target.expect("it was opened before");
            let blocks = table.def.lazy.as_ref().map_or(0, |lazy| lazy.blocks);
            let engine = self.engine().clone();
            lazy.go_live(engine, target, blocks).expect("it has no rows yet");
            spawn(self.weak(), lazy);
        }
        for lazy in self.live_lazies() {
            let def = after.tables.get(&lazy.course().table).map(|table| &table.def);
            if objects.contains(&lazy.course().table) && !lazy.state().is_of(def) {
                // What cannot be written now is found at the next start.
                let _ = self.ended_migrations.remember(lazy.status_at_end());
                self.forget_lazy(&*lazy);
                self.retired_lazies.lock().push((after.ts, lazy));
            }
        }
    }

    /// A transaction is rolled back.
    pub(crate) fn abort_lazies(&self, owner: TxnId) {
        self.lazies_of(owner).iter().for_each(|lazy| self.abort_lazy(&**lazy));
        self.abort_lazy_columns(owner);
    }

    fn abort_lazy(&self, lazy: &dyn LazyMigration) {
        self.forget_lazy(lazy);
        self.aborted_lazies.lock().push(rolled_back(lazy.status()));
    }

    fn forget_lazy(&self, lazy: &dyn LazyMigration) {
        lazy.course().end();
        self.lazies.write().remove(&lazy.course().space);
    }

    /// Lets go of the sources of migrations that have ended, once no snapshot may read through them.
    pub(crate) fn release_lazies(&self, oldest: Ts) {
        self.retired_lazies.lock().retain(|(ts, lazy)| {
            // A log that has failed fails the next commit.
            *ts >= oldest || self.engine().release(lazy.state().keeper()).is_err()
        });
    }

    /// Goes on with the migrations that recovery has found. To be called before anybody connects.
    pub fn resume_lazies(self: &Arc<Self>, recompile: &dyn Recompile) -> Result<(), SchemaError> {
        let latest = self.latest();
        let mut next = CatalogVersion { stamp: self.next_stamp(), ..(*latest).clone() };
        for table in latest.tables.values() {
            let Some(def) = &table.def.lazy else { continue };
            let mut with_sources = (*latest).clone();
            let mut sources = Vec::new();
            for source in def.sources() {
                let table = self.engine().open(source.space, Arc::new(source.layout()))?;
                // The table may have lost indexes since, and its rows keys in common: no duplicates
                // to speak of, as these are read as of the flip.
                let known = latest.tables.values().find(|t| t.def.space == source.space);
                for (position, index) in table.layout().indexes.iter().enumerate() {
                    if known.is_none_or(|known| known.def.index_by_id(index.id).is_none()) {
                        rebuild_index(&table, position)?;
                    }
                }
                let version = TableVersion::new(source.clone(), Ts(1), table.clone());
                with_sources.tables.insert(source.id, Arc::new(version));
                with_sources.names.insert((source.schema.clone(), source.name.clone()), source.id);
                sources.push(LazySource { table: table.clone(), seen: table });
            }
            let query = recompile.query(&def.recipe, with_sources)?;
            assert!(
                query.tables().into_iter().eq(def.sources().map(|source| source.id)),
                "a query is compiled again as it was"
            );
            let lazy = made_by((**def).clone(), &table.def, TxnId(0), sources, query)?;
            lazy.go_live(self.engine().clone(), table.table.clone(), def.blocks)?;
            self.lazies.write().insert(table.def.space, lazy.clone());
            let version = TableVersion::new(
                table.def.clone(),
                table.version,
                lazy.clone().over(table.table.clone()),
            );
            next.tables.insert(table.def.id, Arc::new(version));
            spawn(self.weak(), lazy);
        }
        self.resume_lazy_columns(&mut next, recompile)?;
        self.replace_latest(next);
        let is_needed = |keeper: &u64| {
            let lazies = self.lazies.read();
            lazies.values().any(|lazy| lazy.state().keeper() == *keeper)
        };
        for keeper in self.engine().keepers().into_iter().filter(|keeper| !is_needed(keeper)) {
            self.engine().release(keeper)?;
        }
        Ok(())
    }
}

/// What makes the rows of a table.
fn made_by(
    def: LazyDef,
    target: &TableDef,
    owner: TxnId,
    sources: Vec<LazySource>,
    query: LazyQuery,
) -> Result<Arc<dyn LazyMigration>, SchemaError> {
    Ok(match query {
        LazyQuery::Rows(_, query) => Arc::new(LazyRows::new(def, target, owner, sources, query)),
        LazyQuery::Units(query) => {
            let lazy = LazyUnits::new(def, target, owner, sources, query);
            let no_way = "The rows of a group, or of a key of a join, are not found by an index of \
                          each table that begins with a column of it";
            Arc::new(lazy.ok_or_else(|| not_lazily(no_way))?)
        }
    })
}
