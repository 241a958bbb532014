//! Tables in a cluster: by which key their rows are kept, and what cannot be done to them so far.
//!
//! A change there is the catalog's alone: it touches no row, and a server that has not heard of it yet may go on writing
//! under the version before it. Indexes are built by the engine, which sees to it that the entries of such writers are
//! there.

mod computed;
mod foreign_keys;
mod row_checks;

use std::sync::Arc;

use froglet_engine::online::NoNull;
use froglet_engine::{
    BuildOf, Built, ColumnId, EngineError, Home, IndexId, KeyPart, OnlineBuild, OnlineCheck,
    RowCheck, RowKey, SpaceId, SqlState, Table, Value, Within,
};
use froglet_txn::Transaction;

use crate::catalog::Catalog;
use crate::change::{Check, NewTable, TableQuery};
use crate::def::{ConstraintDef, ConstraintKind, IndexDef, TableDef};
use crate::edit::{Demand, Edited, Work};
use crate::error::SchemaError;
use crate::lazy::{LazyMigration, as_engine};
use crate::local::{Local, local};
use crate::rows::types_of;
use crate::step::{positions, show};

use super::Scope;
use row_checks::{CheckRecipe, Condition};

fn unsupported(what: &str) -> SchemaError {
    let message = format!("{what} is not supported for tables in a cluster");
    SchemaError::refused(SqlState::FEATURE_NOT_SUPPORTED, message)
}

fn is_in_cluster(def: &TableDef) -> bool {
    def.space.home() == Home::Cluster
}

/// Decides where the rows of a new table are, for good.
pub(super) fn place_rows(def: &mut TableDef) -> Result<(), SchemaError> {
    if !is_in_cluster(def) {
        return Ok(());
    }
    check(def)?;
    let row_key = |index: &IndexDef| RowKey { index: index.spec.id, within: None };
    def.row_key = def.primary_key().map(row_key);
    Ok(())
}

/// A table of a query's rows.
pub(super) fn check_made(table: &NewTable, query: &TableQuery) -> Result<(), SchemaError> {
    match (table.home, query) {
        (Home::Memory | Home::Disk, _) => Ok(()),
        // Whether its rows can move is looked at where what moves them is made.
        (Home::Cluster, TableQuery::Lazy { .. }) => Ok(()),
        (Home::Cluster, _) => Err(unsupported("making a table before the commit")),
    }
}

/// Before the commit of a transaction that has made a table lazily: that its sources can be closed to all others.
pub(crate) fn check_closed(own: &Local, lazy: &dyn LazyMigration) -> Result<(), SchemaError> {
    let def = &lazy.state().def;
    let is_dropped = |source: &&TableDef| matches!(own.changes.objects.get(&source.id), Some(None));
    let stays = |source: &&TableDef| !is_dropped(source) && !lazy.state().is_move();
    if let Some(stays) = def.sources().find(stays) {
        let (name, made) = (&stays.name, &lazy.course().table_name);
        let message = format!("table \"{made}\" cannot be made lazily of \"{name}\", which stays");
        return Err(SchemaError::refused(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(
            "In a cluster rows are moved: drop the table that they are moved out of in the same transaction, or set \
             froglet.migration to eager.",
        ));
    }
    let moves = |space| {
        let mut others = own.changes.lazies.values();
        others.any(|other| other.state().def.source.space == space)
    };
    if let Some(both) = def.lookups.iter().find(|lookup| moves(lookup.space)) {
        let what = format!("looking up rows of \"{}\", which move themselves,", both.name);
        return Err(unsupported(&what));
    }
    Ok(())
}

fn check(def: &TableDef) -> Result<(), SchemaError> {
    let is_deferrable = |constraint: &ConstraintDef| match &constraint.kind {
        ConstraintKind::ForeignKey(key) => key.timing.is_deferrable(),
        _ => constraint.timing.is_deferrable(),
    };
    match def.constraints.iter().any(is_deferrable) {
        true => Err(unsupported("DEFERRABLE")),
        false => Ok(()),
    }
}

/// Whose rows a table's can be with (SLSM, section 4.2): those that they are made of, if their whole row key is what the
/// table's begins with. `origin` gives the column of the source that one of the table is, if it is just that.
fn host_of(
    def: &TableDef,
    source: &TableDef,
    origin: &dyn Fn(ColumnId) -> Option<ColumnId>,
) -> Option<Within> {
    let host = source.row_key.filter(|row_key| row_key.within.is_none())?;
    let host = &source.index_by_id(host.index)?.spec.key;
    let own = &def.primary_key()?.spec.key;
    let ty = |def: &TableDef, id| def.column_by_id(id).map(|column| column.ty);
    let is_same = |(own, host): (&KeyPart, &KeyPart)| {
        origin(own.column) == Some(host.column)
            && ty(def, own.column) == ty(source, host.column)
            && (own.descending, own.nulls_first) == (host.descending, host.nulls_first)
    };
    let begins_with_it = own.len() >= host.len() && own.iter().zip(host).all(is_same);
    begins_with_it.then_some(Within { space: source.space, parts: host.len() })
}

/// Waits for a build. If it takes too long the statement is undone, and the build with it.
async fn until_built(building: OnlineBuild, scope: &Scope<'_>) -> Result<Built, SchemaError> {
    tokio::select! {
        built = building => Ok(built?),
        e = scope.limits.exceeded() => Err(e.into()),
    }
}

/// What may have been built for a table that a transaction has changed.
struct BuiltFor {
    /// As it is, and as it was where its rows are until they have moved.
    defs: Vec<TableDef>,
    /// Where they are, if they are to move, or others to be made of them.
    sources: Vec<SpaceId>,
}

impl BuiltFor {
    fn new(def: &TableDef, own: &Local) -> BuiltFor {
        let lazy = own.changes.lazies.get(&def.id).filter(|lazy| lazy.state().is_of(Some(def)));
        let mut defs = vec![def.clone()];
        let of = lazy.map(|lazy| &lazy.state().def);
        defs.extend(of.filter(|of| of.is_move_of(def.id)).map(|of| (*of.source).clone()));
        let sources = of.into_iter().flat_map(|of| of.sources()).map(|source| source.space);
        BuiltFor { sources: sources.collect(), defs }
    }

    /// Whether a build over a row space is needed still.
    fn needs(&self, space: SpaceId, of: BuildOf) -> bool {
        let is_source = self.sources.contains(&space);
        let mut defs = self.defs.iter().filter(|def| def.space == space || is_source);
        match of {
            BuildOf::Index(id) => defs.any(|def| def.index_by_id(id).is_some()),
            // It has its number wherever its rows are; the table as it is says whether it is demanded.
            BuildOf::Constraint(id) => {
                defs.next().is_some_and(|def| Demand::Constraint(id).is_in(def))
            }
            BuildOf::NotNull(id) => defs.any(|def| Demand::NotNull(id).is_in(def)),
            BuildOf::ForeignKey(id) => defs.any(|def| def.constraints.iter().any(|c| c.id == id)),
            BuildOf::Made(_) => is_source,
        }
    }
}

impl Catalog {
    /// Before a commit: what is built for indexes and constraints that the transaction has dropped again is given up.
    pub(crate) fn retain_builds(&self, txn: &mut Transaction) {
        if !self.engine().is_shared() {
            return;
        }
        let Some(own) = local(txn) else { return };
        let changed = own.changes.objects.values().flatten().filter_map(|changed| changed.table());
        let built: Vec<BuiltFor> = changed.map(|table| BuiltFor::new(&table.def, own)).collect();
        txn.part().retain_builds(&|space, of| built.iter().any(|built| built.needs(space, of)));
    }

    /// Whether a change can be made, which may need more than the catalog.
    pub(super) fn check_in_cluster(
        &self,
        txn: &Transaction,
        before: &TableDef,
        edited: &mut Edited,
    ) -> Result<(), SchemaError> {
        if !is_in_cluster(before) {
            return Ok(());
        }
        if let Some(lazy) = self.lazy_of(before).filter(|lazy| !lazy.is_live()) {
            // It has no rows yet.
            foreign_keys::check_of_moved(before, &edited.def)?;
            place_rows(&mut edited.def)?;
            let origin = |id| lazy.origin(id).filter(|(input, _)| *input == 0).map(|(_, id)| id);
            let host = || host_of(&edited.def, &lazy.state().def.source, &origin);
            let within = lazy.state().def.colocates.then(host).flatten();
            if let (Some(row_key), Some(within)) = (&mut edited.def.row_key, within) {
                self.engine().place_within(edited.def.space, within.space)?;
                row_key.within = Some(within);
            }
            return Ok(());
        }
        if self.is_empty_own(txn, before) {
            edited.work.clear();
            return place_rows(&mut edited.def);
        }
        for work in &edited.work {
            self.check_online(txn, before, work)?;
        }
        if let Some(key) = before.row_key
            && edited.def.index_by_id(key.index).is_none()
        {
            return Err(unsupported("dropping the primary key that a table was made with"));
        }
        check(&edited.def)
    }

    /// Before a table's rows are in another space, and those that there are in none: who does not know of that yet does
    /// not write them any more, nor look for children among them.
    pub(super) fn empty_in_cluster(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        table: &TableDef,
    ) -> Result<(), SchemaError> {
        if !is_in_cluster(table) {
            return Ok(());
        }
        self.check_own_keys(scope, table)?;
        match self.knows(table) {
            true => Ok(txn.part().close(&[table.space])?),
            false => Ok(()),
        }
    }

    /// Whether a table is where others have it.
    fn knows(&self, table: &TableDef) -> bool {
        let latest = self.latest();
        latest.tables.get(&table.id).is_some_and(|known| known.def.space == table.space)
    }

    /// Whether nobody has written a row of a table, and nobody else can.
    fn is_empty_own(&self, txn: &Transaction, table: &TableDef) -> bool {
        !self.knows(table) && txn.rows_written(table.space).is_empty()
    }

    /// Whether something can be done with the rows while others write them.
    fn check_online(
        &self,
        txn: &Transaction,
        before: &TableDef,
        work: &Work,
    ) -> Result<(), SchemaError> {
        match work {
            Work::Index(_) if txn.isolation().keeps_view() => {
                let error =
                    unsupported("an index over rows that are there, at this isolation level,");
                let hint = "Use READ COMMITTED: the view would be older than the index.";
                return Err(error.with_hint(hint));
            }
            Work::Verify(check, Demand::Constraint(_)) if check.recipe().is_none() => {
                return Err(unsupported("a constraint that other servers cannot evaluate"));
            }
            Work::Index(_) | Work::Verify(_, Demand::Constraint(_) | Demand::NotNull(_)) => {}
            Work::Fill { .. } | Work::Verify(_, Demand::Change) => {
                return Err(unsupported(computed::OF_OWN_ROWS));
            }
            Work::ForeignKey(_) => {}
            // It follows a parent that moves: who does not know of that is kept from where its rows were.
            Work::KeptForeignKey(_) => return Ok(()),
        }
        match self.lazy_of(before) {
            None => Ok(()),
            Some(_) => {
                let error =
                    unsupported("a change of a table whose rows are still being moved there");
                Err(error.with_hint("Wait until froglet.migrations says that it is whole."))
            }
        }
    }

    /// Does with the rows what a change needs, while others go on to write them.
    pub(super) async fn work_online(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: &TableDef,
        (rows, work): (&dyn Table, Work),
    ) -> Result<(), SchemaError> {
        match work {
            Work::Index(id) => self.index_online(txn, scope, def, (rows, id)).await,
            Work::Verify(check, demand) => {
                self.verify_online(txn, scope, (rows, check, demand)).await
            }
            // Looked at already, with those that are not to hold for rows that are there.
            Work::ForeignKey(_) | Work::KeptForeignKey(_) => Ok(()),
            Work::Fill { .. } => unreachable!("done elsewhere, or refused before"),
        }
    }

    /// Looks at all rows, and sees to it that others do at what they write.
    async fn verify_online(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        (rows, check, demand): (&dyn Table, Arc<dyn Check>, Demand),
    ) -> Result<(), SchemaError> {
        let (of, columns) = match demand {
            Demand::NotNull(id) => (BuildOf::NotNull(id), vec![id]),
            Demand::Constraint(id) => (BuildOf::Constraint(id), check.inputs().to_vec()),
            Demand::Change => unreachable!("refused before"),
        };
        let columns = positions(rows, &columns);
        let types = types_of(rows, &columns);
        let (condition, recipe): (Arc<dyn RowCheck>, _) = match demand {
            Demand::NotNull(_) => (Arc::new(NoNull), None),
            _ => {
                let recipe = check.recipe().expect("looked at before").to_owned();
                let recipe = CheckRecipe::Condition(recipe).text();
                (Arc::new(Condition::of_check(types, Arc::clone(&check))), Some(recipe))
            }
        };
        let nulls = vec![Value::Null; check.inputs().len()];
        let violated = as_engine(&check.violation(&nulls));
        let wanted = OnlineCheck { of, columns, check: condition, recipe, violated };
        let online = || rows.online_indexes().expect("tables in a cluster are verified so");
        let building = online().verify_online(txn.part(), wanted)?;
        match until_built(building, scope).await? {
            Built::Violated(row) => Err(check.violation(&row)),
            Built::Whole | Built::Duplicate(_) => Ok(()),
        }
    }

    /// Builds an index over rows that others go on to write.
    pub(super) async fn index_online(
        &self,
        txn: &mut Transaction,
        scope: &Scope<'_>,
        def: &TableDef,
        (rows, id): (&dyn Table, IndexId),
    ) -> Result<(), SchemaError> {
        let index = def.index_by_id(id).expect("the edit added the index");
        let layout = rows.layout();
        let position = layout.index_position(id).expect("the layout has the new index");
        let online = || rows.online_indexes().expect("tables in a cluster are indexed so");
        let building = online().build_online(txn.part(), position, &index.name)?;
        if let Built::Duplicate(values) = until_built(building, scope).await? {
            let columns: Vec<usize> = layout.key_positions(&layout.indexes[position]).collect();
            let (key, values) = (def.key_shown(index), show(&values, &types_of(rows, &columns)));
            let message = format!("could not create unique index \"{}\"", index.name);
            return Err(SchemaError::refused(SqlState::UNIQUE_VIOLATION, message)
                .with_detail(format!("Key ({key})=({values}) is duplicated.")));
        }
        Ok(online().enter_own(txn.part(), position)?)
    }
}
