//! A table that was to be made lazily, as nothing stood against it, and is made before the commit after all: a
//! later statement of its transaction needs the rows.
//!
//! ```text
//!   CREATE TABLE n AS s    lazy: n is empty
//!   ALTER TABLE n ADD …    what is known of s to hold (`lazy_verify.rs`)
//!   INSERT INTO n          refused, and undone ─▶ n gets another row space, its rows are made, its
//!                          indexes are built ─▶ INSERT INTO n, again
//! ```
//!
//! Nobody asks at CREATE TABLE what its transaction will do next, so the lazy way is taken where it is
//! likely to do, and this is the way back.
//!
//! F1: rows go to a row space of their own. Whoever goes back to a savepoint before has the lazy table
//!     again, and it is empty.
//! F2: nothing refers to the table yet: whoever deletes a row of its source before the commit knows nothing of
//!     the children of the one that is made of it. A table with children stays lazy, and the refusal stands.
//! F3: what was known to hold for the lazy table's rows holds for these: only indexes are built.

use std::collections::BTreeMap;
use std::sync::Arc;

use froglet_engine::{Home, Layout, Ts};
use froglet_txn::{Limits, Transaction};

use crate::apply::Scope;
use crate::apply_as::Into;
use crate::catalog::{Catalog, CatalogVersion, TableVersion};
use crate::change::{LazyQuery, TableQuery};
use crate::def::{ObjectDef, ObjectId, TableDef};
use crate::edit::Work;
use crate::error::SchemaError;
use crate::lazy::NO_WAY;
use crate::lazy::moved_query::{self, NOT_MOVED};
use crate::lazy_pairs::LazyPairs;
use crate::lazy_units::LazyUnits;
use crate::local::{Changes, Remains, local, local_mut};
use crate::status::MigrationOptions;

/// How a lazy table can be made before the commit.
#[derive(Clone)]
pub(crate) struct Fallback {
    pub query: Arc<TableQuery>,
    /// The tables that it reads, as they were when it was compiled.
    pub sources: Arc<[Arc<TableVersion>]>,
}

impl Catalog {
    /// Why a transaction cannot have a table made lazily by a query now, if so.
    pub fn lazy_hindrance(
        &self,
        txn: &Transaction,
        view: &CatalogVersion,
        query: &LazyQuery,
    ) -> Option<&'static str> {
        let own = local(txn);
        let is_own = |id: &ObjectId| own.is_some_and(|own| own.changes.objects.contains_key(id));
        if query.tables().iter().any(is_own) {
            return Some("it reads a table that the same transaction has made or changed");
        }
        let layout =
            |id| -> Option<Arc<Layout>> { Some(view.tables.get(&id)?.table.layout().clone()) };
        let is_in_cluster = |id: &ObjectId| {
            view.tables.get(id).is_some_and(|table| table.def.space.home() == Home::Cluster)
        };
        if query.tables().iter().any(is_in_cluster) {
            return (!moved_query::can_move(query, &layout)).then_some(NOT_MOVED);
        }
        let has_way = match query {
            LazyQuery::Rows(..) => true,
            LazyQuery::Pairs(source, query) => LazyPairs::has_way(*source, &**query, &layout),
            LazyQuery::Units(query) => LazyUnits::has_way(&**query, &layout),
        };
        (!has_way).then_some(NO_WAY)
    }

    /// Remembers how a lazy table can be made otherwise.
    pub(crate) fn set_fallback(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        table: ObjectId,
        query: Arc<TableQuery>,
    ) -> Result<(), SchemaError> {
        let sources = query.tables().into_iter().map(|id| scope.table(id).cloned());
        let sources = sources.collect::<Result<_, _>>()?;
        local_mut(txn).changes.fallbacks.insert(table, Fallback { query, sources });
        Ok(())
    }

    /// A transaction is about to write to a table in a way that cannot be undone and done again.
    pub fn will_write(&self, txn: &Transaction, table: ObjectId) {
        let Some(own) = local(txn) else { return };
        for (made, lazy) in &own.changes.lazies {
            let mut sources = lazy.state().def.sources();
            if *made == table || sources.any(|source| source.id == table) {
                lazy.state().outgrow();
            }
        }
    }

    /// Whether a statement was refused something that [`Catalog::make_outgrown`] makes possible.
    pub fn has_outgrown(&self, txn: &Transaction) -> bool {
        local(txn).is_some_and(|own| !own.changes.outgrown().is_empty())
    }

    /// Makes the rows of lazy tables that their transaction needs before its commit. To be called within a
    /// statement. Returns the names of the tables.
    pub async fn make_outgrown(
        &self,
        txn: &mut Transaction,
        options: &MigrationOptions,
        limits: &Limits,
    ) -> Result<Vec<String>, SchemaError> {
        let outgrown = local(txn).map(|own| own.changes.outgrown()).unwrap_or_default();
        let mut names = Vec::with_capacity(outgrown.len());
        for (id, Fallback { query, sources }) in outgrown {
            let view = self.view(txn);
            let def = view.tables.get(&id).ok_or(SchemaError::Stale)?.def.clone();
            names.push(def.name.clone());
            let space = def.space.home().space(self.next_id()?);
            self.engine().create_space(space)?;
            let whole = TableDef { space, lazy: None, ..def };
            let bare = TableDef { indexes: Vec::new(), constraints: Vec::new(), ..whole.clone() };
            let rows = self.engine().open(space, Arc::new(bare.layout()))?;
            let own = local_mut(txn);
            own.created.push(Remains::Space(space));
            own.changes.fallbacks.remove(&id);
            if let Some(lazy) = own.changes.lazies.remove(&id) {
                let why = "its transaction has needed its rows before the commit";
                lazy.course().fail(Some(&SchemaError::refused(
                    froglet_engine::SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    why,
                )));
            }
            own.set_table(TableVersion::new(bare, Ts(0), rows));
            let scope = Scope { view: self.view(txn), options, limits, then: &sources };
            self.make_eagerly(txn, scope, Into::Empty(id), &query).await?;

            let scope = Scope { view: self.view(txn), options, limits, then: &sources };
            let bare = scope.table(id)?.clone();
            let work = whole.indexes.iter().map(|index| Work::Index(index.spec.id)).collect();
            self.migrate(txn, &scope, (&bare, &bare), &whole, work).await?;
            let locked = self.store.lock(txn, id, limits).await?;
            self.store.update(txn, locked, &ObjectDef::Table(whole.clone()), limits).await?;
            let rows = self.open_table(&whole)?;
            local_mut(txn).set_table(TableVersion::new(whole, Ts(0), rows));
        }
        Ok(names)
    }
}

impl Changes {
    /// Lazy tables that are to be made before the commit, and how; in order.
    fn outgrown(&self) -> BTreeMap<ObjectId, Fallback> {
        let has_children = |id: &ObjectId| {
            let own = self.objects.get(id).and_then(|changed| changed.as_ref()?.table());
            own.is_some_and(|own| own.def.referenced_by.iter().any(|child| child != id))
        };
        let is_outgrown = |id: &ObjectId| {
            self.lazies.get(id).is_some_and(|lazy| {
                lazy.state().is_outgrown()
                    && self.keep(*id, lazy.course().space)
                    && !has_children(id)
            })
        };
        let found = self.fallbacks.iter().filter(|(id, _)| is_outgrown(id));
        found.map(|(id, fallback)| (*id, fallback.clone())).collect()
    }
}
