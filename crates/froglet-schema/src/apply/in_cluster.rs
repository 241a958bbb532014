//! Tables in a cluster: by which key their rows are kept, and what cannot be done to them so far.
//!
//! A change there is the catalog's alone: it touches no row, and a server that has not heard of it yet may go on writing
//! under the version before it. Indexes are built by the engine, which sees to it that the entries of such writers are
//! there.

use froglet_engine::{Built, Home, IndexId, KeyPart, RowKey, SqlState, Table, Within, WriteStop};
use froglet_txn::Transaction;

use crate::catalog::Catalog;
use crate::change::{LazyQuery, NewTable, TableQuery};
use crate::def::{ConstraintKind, IndexDef, TableDef, Timing};
use crate::edit::{Edited, Work};
use crate::error::SchemaError;
use crate::lazy::LazyMigration;
use crate::local::Local;
use crate::rows::types_of;
use crate::step::show;

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
        (Home::Cluster, TableQuery::Lazy { query: LazyQuery::Rows(..), .. }) => Ok(()),
        (Home::Cluster, TableQuery::Lazy { .. }) => {
            Err(unsupported("a table that is made lazily of several rows each")
                .with_detail("Each of its rows would be made of several rows of one table."))
        }
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

impl Catalog {
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
        if !edited.work.iter().all(|work| matches!(work, Work::Index(_))) {
            return Err(unsupported("a change that reads or writes the rows").with_detail(
                "It would compute a column, or check rows that are there. Of a table that the same transaction has \
                 made, it is possible as long as that has no rows.",
            ));
        }
        if !edited.work.is_empty() {
            self.check_indexed(txn, before)?;
        }
        if let Some(key) = before.row_key
            && edited.def.index_by_id(key.index).is_none()
        {
            return Err(unsupported("dropping the primary key that a table was made with"));
        }
        check(&edited.def)
    }

    fn check_indexed(&self, txn: &Transaction, before: &TableDef) -> Result<(), SchemaError> {
        if txn.isolation().keeps_view() {
            let error = unsupported("an index over rows that are there, at this isolation level,");
            return Err(error.with_hint("Use READ COMMITTED: the view would be older than the index."));
        }
        match self.lazy_of(before) {
            None => Ok(()),
            Some(_) => {
                let error = unsupported("an index of a table whose rows are still being moved there");
                Err(error.with_hint("Wait until froglet.migrations says that it is whole."))
            }
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
        let built = tokio::select! {
            built = building => built?,
            // The statement is undone, and the build with it.
            e = scope.limits.exceeded() => return Err(e.into()),
        };
        if let Built::Duplicate(values) = built {
            let columns: Vec<usize> = layout.key_positions(&layout.indexes[position]).collect();
            let (key, values) = (def.key_shown(index), show(&values, &types_of(rows, &columns)));
            let message = format!("could not create unique index \"{}\"", index.name);
            return Err(SchemaError::refused(SqlState::UNIQUE_VIOLATION, message)
                .with_detail(format!("Key ({key})=({values}) is duplicated.")));
        }
        match online().enter_own(txn.part(), position) {
            Ok(()) => Ok(()),
            Err(WriteStop::Engine(error)) => Err(error.into()),
            Err(stop) => unreachable!("whoever is in the way was waited for: {stop:?}"),
        }
    }
}
