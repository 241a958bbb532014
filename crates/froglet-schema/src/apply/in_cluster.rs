//! Tables in a cluster: by which key their rows are kept, and what cannot be done to them so far.
//!
//! A change there is the catalog's alone: it touches no row, and a server that has not heard of it yet may go on writing
//! under the version before it. Indexes are built by the engine, which sees to it that the entries of such writers are
//! there.

use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch};
use froglet_engine::batch::batch_of;
use froglet_engine::online::NoNull;
use froglet_engine::{
    BuildOf, Built, ColumnType, EngineError, Home, IndexId, KeyPart, OnlineBuild, OnlineCheck, Row,
    RowCheck, RowKey, SqlState, Table, Value, Within,
};
use froglet_txn::Transaction;

use crate::catalog::Catalog;
use crate::change::{Check, NewTable, TableQuery};
use crate::def::{ConstraintKind, IndexDef, TableDef, Timing};
use crate::edit::{Demand, Edited, Work};
use crate::error::SchemaError;
use crate::lazy::{LazyMigration, as_engine};
use crate::local::{Local, local};
use crate::rows::types_of;
use crate::step::{positions, show};

use super::Scope;

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
    if let Some(stays) = def.sources().find(|source| !is_dropped(source)) {
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
    for constraint in &def.constraints {
        if matches!(constraint.kind, ConstraintKind::ForeignKey(_)) {
            return Err(unsupported("FOREIGN KEY"));
        }
        if constraint.timing != Timing::NotDeferrable {
            return Err(unsupported("DEFERRABLE"));
        }
    }
    Ok(())
}

/// Whose rows a table's can be with (SLSM, section 4.2): those that they are made of, if their whole row key is what the
/// table's begins with.
fn host_of(def: &TableDef, lazy: &dyn LazyMigration) -> Option<Within> {
    let source = &lazy.state().def.source;
    let host = source.row_key.filter(|row_key| row_key.within.is_none())?;
    let host = &source.index_by_id(host.index)?.spec.key;
    let own = &def.primary_key()?.spec.key;
    let ty = |def: &TableDef, id| def.column_by_id(id).map(|column| column.ty);
    let is_same = |(own, host): (&KeyPart, &KeyPart)| {
        lazy.origin(own.column) == Some((0, host.column))
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

type Eval = dyn Fn(&RecordBatch) -> Result<BooleanArray, SchemaError> + Send + Sync;

/// A condition on rows of columns of these types.
struct Condition {
    types: Vec<ColumnType>,
    eval: Box<Eval>,
}

impl RowCheck for Condition {
    fn first_violated(&self, rows: &[Row]) -> Result<Option<usize>, EngineError> {
        let flags = (self.eval)(&batch_of(&self.types, rows)).map_err(|error| as_engine(&error))?;
        Ok(flags.iter().position(|flag| flag == Some(false)))
    }
}

impl Catalog {
    /// A condition that another server verifies, of its recipe.
    pub fn row_check(&self, recipe: &[u8]) -> Result<Arc<dyn RowCheck>, EngineError> {
        let broken = |what: &str| EngineError::Refused {
            state: SqlState::DATA_CORRUPTED,
            message: format!("a condition cannot be read: {what}"),
        };
        let recipe = std::str::from_utf8(recipe).map_err(|error| broken(&error.to_string()))?;
        let recompile =
            self.recompile.get().ok_or_else(|| broken("the database is not open yet"))?;
        let (transform, types) = recompile.check(recipe).map_err(|error| as_engine(&error))?;
        let eval = Box::new(move |batch: &RecordBatch| {
            let flags = transform.eval(batch)?;
            let flags = flags.as_any().downcast_ref::<BooleanArray>().cloned();
            Ok(flags.unwrap_or_else(|| BooleanArray::new_null(batch.num_rows())))
        });
        Ok(Arc::new(Condition { types, eval }))
    }

    /// Before a commit: what is built for indexes and constraints that the transaction has dropped again is given up.
    pub(crate) fn retain_builds(&self, txn: &mut Transaction) {
        if !self.engine().is_shared() {
            return;
        }
        let Some(own) = local(txn) else { return };
        let changed = own.changes.objects.values().flatten().filter_map(|changed| changed.table());
        let tables: Vec<TableDef> = changed.map(|table| table.def.clone()).collect();
        txn.part().retain_builds(&|space, of| {
            let mut tables = tables.iter().filter(|table| table.space == space);
            tables.any(|table| match of {
                BuildOf::Index(id) => table.index_by_id(id).is_some(),
                BuildOf::Constraint(id) => Demand::Constraint(id).is_in(table),
                BuildOf::NotNull(id) => Demand::NotNull(id).is_in(table),
            })
        });
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
            place_rows(&mut edited.def)?;
            let within = lazy.state().def.colocates.then(|| host_of(&edited.def, &*lazy)).flatten();
            if let (Some(row_key), Some(within)) = (&mut edited.def.row_key, within) {
                self.engine().place_within(edited.def.space, within.space)?;
                row_key.within = Some(within);
            }
            return Ok(());
        }
        let known = self.latest();
        let is_own = known.tables.get(&before.id).is_none_or(|t| t.def.space != before.space);
        if is_own && txn.rows_written(before.space).is_empty() {
            // Nobody has written a row of it, and nobody else can.
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
                let what = "a change that computes values of rows that are there";
                return Err(unsupported(what).with_detail(
                    "Of a table that the same transaction has made, it is possible as long as that has no rows.",
                ));
            }
            Work::ForeignKey(_) | Work::KeptForeignKey(_) => {
                return Err(unsupported("FOREIGN KEY"));
            }
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
            Work::Fill { .. } | Work::ForeignKey(_) | Work::KeptForeignKey(_) => {
                unreachable!("refused before")
            }
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
                let recipe = check.recipe().map(|recipe| recipe.as_bytes().to_vec());
                let check = Arc::clone(&check);
                let eval = Box::new(move |batch: &RecordBatch| check.eval(batch));
                (Arc::new(Condition { types, eval }), recipe)
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
