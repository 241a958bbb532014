//! Tables in a cluster: by which key their rows are kept, and what cannot be done to them so far.
//!
//! A change there is the catalog's alone: it touches no row, and a server that has not heard of it yet may go on writing
//! under the version before it.

use froglet_engine::{Home, KeyPart, RowKey, SqlState, Within};
use froglet_txn::Transaction;

use crate::catalog::Catalog;
use crate::change::{LazyQuery, NewTable, TableQuery};
use crate::def::{ConstraintKind, IndexDef, TableDef, Timing};
use crate::edit::Edited;
use crate::error::SchemaError;
use crate::lazy::LazyMigration;
use crate::local::Local;

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
        if !edited.work.is_empty() {
            return Err(unsupported("a change that reads or writes the rows").with_detail(
                "It would compute a column, check rows that are there, or index them. Of a table that the same \
                 transaction has made, it is possible as long as that has no rows.",
            ));
        }
        if let Some(key) = before.row_key
            && edited.def.index_by_id(key.index).is_none()
        {
            return Err(unsupported("dropping the primary key that a table was made with"));
        }
        check(&edited.def)
    }
}
