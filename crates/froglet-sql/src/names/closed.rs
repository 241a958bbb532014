//! What a recipe refers to, kept with it: a lazy migration is compiled again after a restart in a catalog of its own.
//!
//! ```text
//!   CREATE TABLE n AS SELECT id, m = 'ok'::mood FROM t
//!   recipe     SELECT id, m = 'ok'::froglet."16384" FROM t     + type 16384 and table t (LazyDef) as they were
//!   restart    t, 16384, and nothing else: t and mood may have been dropped, renamed, moved or swapped since
//! ```
//!
//! C1: a recipe is compiled in its own catalog when it is written down. What cannot be is not made lazily.
//!     So no later change of the catalog can keep it from being compiled.

use std::collections::BTreeSet;

use datafusion::sql::sqlparser::ast::VisitMut;
use froglet_schema::plain::EnumDef;
use froglet_schema::{CatalogVersion, ObjectId, SqlType, TableDef};

use crate::resolve::Names;
use crate::stored_names;

/// Puts numbers in the place of names; the types that it refers to then, and those of columns.
pub(crate) fn numbered<'a, T: VisitMut + Clone>(
    node: &mut T,
    names: &Names<'_>,
    tables: impl IntoIterator<Item = &'a TableDef>,
    made: impl IntoIterator<Item = SqlType>,
) -> Vec<EnumDef> {
    stored_names::to_numbers(node, names);
    let columns = tables.into_iter().flat_map(|table| &table.columns);
    let oids = columns.map(|column| column.sql_type.oid).chain(made.into_iter().map(|ty| ty.oid));
    let ids = stored_names::numbers_in(node).into_iter().chain(oids);
    let ids: BTreeSet<ObjectId> =
        ids.filter_map(|oid| Some(names.catalog.enum_of(oid)?.id)).collect();
    ids.into_iter().filter_map(|id| names.catalog.enum_type(id)).cloned().collect()
}

/// Just these tables of a catalog, under the names that they have there.
pub(crate) fn only_tables(catalog: &CatalogVersion, tables: &[ObjectId]) -> CatalogVersion {
    let mut only = CatalogVersion::default();
    for table in tables.iter().filter_map(|id| catalog.tables.get(id)) {
        let TableDef { id, schema, name, .. } = &table.def;
        only.tables.insert(*id, table.clone());
        only.names.insert((schema.clone(), name.clone()), *id);
    }
    only
}

/// Types for a recipe from before there were any in it.
pub(crate) fn all_types(catalog: &CatalogVersion) -> Vec<EnumDef> {
    catalog.enum_types().into_iter().cloned().collect()
}
