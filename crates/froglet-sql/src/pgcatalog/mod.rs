//! pg_catalog, information_schema and froglet: tables computed from the catalog version that a
//! query sees, when it scans them.
//!
//! ```text
//!   specs.rs       names, oids and columns, as PostgreSQL 15 has them
//!   rows.rs        rows by column name ─▶ a record batch
//!   relations.rs   pg_class, pg_attribute, pg_attrdef, pg_index, pg_sequence, pg_depend
//!   constraints.rs pg_constraint; the texts of constraints and indexes
//!   cluster.rs     databases, schemas, types, settings, sessions
//!   roles.rs       roles and their members
//!   privileges.rs  owners, grants, information_schema's views of them
//!   views.rs       pg_tables, pg_indexes, information_schema, froglet.blocks, froglet.migrations, …
//!   objects.rs     pg_views, pg_description, pg_enum; what depends on what
//!   procs.rs       functions
//!   type_io.rs     the functions that types are read and written by
//!   deparse.rs     expressions as PostgreSQL prints them; deparse_query.rs: views' queries
//! ```
//!
//! A table without rows here is one whose kind of object Froglet does not have: queries over it
//! find nothing, which is the truth.

pub mod cluster;
pub mod constraints;
pub mod deparse;
mod deparse_query;
mod objects;
mod privileges;
pub(crate) mod procs;
pub mod relations;
mod roles;
pub mod rows;
pub mod specs;
pub mod type_io;
pub mod views;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use froglet_schema::CatalogVersion;
use froglet_schema::plain::PlainDef;

use crate::context::EvalContext;
use crate::provider::{QueryScope, scope_of};
pub(crate) use deparse_query::query_text;
pub use objects::{comment_on, described};
pub use rows::{Columns, Rows, V};
pub use specs::{SPECS, Spec};

/// Fills a system table.
pub type Fill = Arc<dyn Fn(&QueryScope, &mut Rows) -> Result<()> + Send + Sync>;

/// Schemas that always exist.
pub const SCHEMAS: &[(u32, &str)] =
    &[(11, "pg_catalog"), (99, "pg_toast"), (13_200, "information_schema"), (13_980, "froglet")];

/// The oid of the built-in superuser.
pub const OWNER: u32 = 10;

/// A schema's oid.
pub fn schema_oid(catalog: &CatalogVersion, name: &str) -> Option<u32> {
    let of_users = || catalog.schema(name).map(|schema| schema.id);
    SCHEMAS.iter().find(|(_, n)| *n == name).map(|(oid, _)| *oid).or_else(of_users)
}

/// The oid of a schema that something is in.
pub fn schema_oid_of(catalog: &CatalogVersion, name: &str) -> u32 {
    schema_oid(catalog, name).unwrap_or(0)
}

/// A schema's name.
pub fn schema_name(catalog: &CatalogVersion, oid: u32) -> Option<String> {
    let system = SCHEMAS.iter().find(|(o, _)| *o == oid).map(|(_, name)| (*name).to_owned());
    system.or_else(|| match &**catalog.plain.get(&oid)? {
        PlainDef::Schema(def) => Some(def.name.clone()),
        _ => None,
    })
}

fn by_name() -> &'static HashMap<(&'static str, &'static str), &'static Spec> {
    static MAP: LazyLock<HashMap<(&'static str, &'static str), &'static Spec>> =
        LazyLock::new(|| SPECS.iter().map(|s| ((s.schema, s.name), s)).collect());
    &MAP
}

/// The spec of a system table.
pub fn spec_of(schema: &str, name: &str) -> Option<&'static Spec> {
    by_name().get(&(schema, name)).copied()
}

/// The oid of a system table.
pub fn system_relation(schema: &str, name: &str) -> Option<u32> {
    spec_of(schema, name).map(|spec| spec.oid)
}

/// Schema and name of a system table.
pub fn system_relation_name(oid: u32) -> Option<(&'static str, &'static str)> {
    SPECS.iter().find(|spec| spec.oid == oid).map(|spec| (spec.schema, spec.name))
}

/// Whether a system table never has rows.
pub fn always_empty(schema: Option<&str>, name: &str) -> bool {
    let schema = schema.unwrap_or("pg_catalog");
    spec_of(schema, name).is_some_and(|spec| fill_of(spec.schema, spec.name).is_none())
}

/// A system table.
pub fn system_table(schema: &str, name: &str) -> Option<Arc<dyn TableProvider>> {
    let spec = spec_of(schema, name)?;
    let columns = Columns::parse(spec.columns);
    let fill: Fill = match fill_of(spec.schema, spec.name) {
        Some(fill) => Arc::new(move |scope: &QueryScope, rows: &mut Rows| {
            // Types are called by the names that the session knows.
            EvalContext::new(scope.session.clone()).enter(|| fill(scope, rows));
            Ok(())
        }),
        None => Arc::new(|_: &QueryScope, _: &mut Rows| Ok(())),
    };
    Some(virtual_table(columns, fill))
}

fn fill_of(schema: &str, name: &str) -> Option<fn(&QueryScope, &mut Rows)> {
    relations::fill_of(schema, name)
        .or_else(|| constraints::fill_of(schema, name))
        .or_else(|| cluster::fill_of(schema, name))
        .or_else(|| objects::fill_of(schema, name))
        .or_else(|| privileges::fill_of(schema, name))
        .or_else(|| roles::fill_of(schema, name))
        .or_else(|| procs::fill_of(schema, name))
        .or_else(|| crate::catalogs::operators::fill_of(schema, name))
        .or_else(|| views::fill_of(schema, name))
}

/// A table computed at each scan.
pub fn virtual_table(columns: Columns, fill: Fill) -> Arc<dyn TableProvider> {
    Arc::new(VirtualTable { schema: columns.schema(), columns, fill })
}

struct VirtualTable {
    columns: Columns,
    schema: SchemaRef,
    fill: Fill,
}

impl fmt::Debug for VirtualTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VirtualTable")
    }
}

#[async_trait]
impl TableProvider for VirtualTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scope = scope_of(state)?;
        let mut rows = Rows::new(self.columns.clone());
        (self.fill)(&scope, &mut rows)?;
        let batch = rows.finish(&self.schema)?;
        Ok(MemorySourceConfig::try_new_exec(
            &[vec![batch]],
            self.schema.clone(),
            projection.cloned(),
        )?)
    }
}
