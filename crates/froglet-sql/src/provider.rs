//! Tables of a catalog version as DataFusion sees them.
//!
//! ```text
//!   plan      CatalogTables ─ name ─▶ BaseTable      bound to a table version, to no snapshot
//!   execute   BaseTable::scan ─ QueryScope ─▶ TableScan   snapshot, projection, access path
//! ```
//!
//! A logical plan may be kept and run under many snapshots of one catalog version: what a run adds
//! travels in the session configuration ([`QueryScope`]).

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{Constraint, Constraints, Statistics, TableReference};
use datafusion::datasource::{TableProvider, TableType, provider_as_source};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableSource};
use datafusion::physical_plan::ExecutionPlan;
use froglet_engine::{RowId, Snapshot, SpaceId};
use froglet_schema::{CatalogVersion, ColumnDef, ObjectId, SequenceDef, TableVersion};

use crate::context::SessionFunctions;
use crate::ddl_materialized::unpopulated;
use crate::error::SqlError;
use crate::once::OnceRows;
use crate::pgcatalog::{self, Columns, Fill, Rows};
use crate::planning::{Tables, internal};
use crate::provider_access::{self, Access};
use crate::provider_exec::TableScan;
use crate::prune;
use crate::resolve;
use crate::returned::{RETURNED_SCHEMA, ReturnedTable};
use crate::system_row as row;
use crate::temporary::{ALIAS, is_temporary};
use crate::types::{computed_type, sql_field};
use crate::view;

/// The schema in which a base table has its row ids as a column ([`ROW_ID`]), under the table's
/// own object id as its name. For the session's UPDATE and DELETE; users cannot write its name by
/// accident.
pub const ROW_ID_SCHEMA: &str = "froglet row ids";
/// The column of row ids (bigint), after the table's own.
pub const ROW_ID: &str = "_rid";

/// What a run of a query adds to its plan.
#[derive(Clone)]
pub struct QueryScope {
    /// The read view.
    pub snapshot: Arc<Snapshot>,
    /// The catalog that it sees.
    pub catalog: Arc<CatalogVersion>,
    /// The session.
    pub session: Arc<dyn SessionFunctions>,
    /// What parts of the statement have returned.
    pub(crate) returned: Vec<RecordBatch>,
    /// Rows that parts of the statement have inserted before it read them.
    pub(crate) hidden: Hidden,
    /// Of parts that are run once.
    pub(crate) once: OnceRows,
}

/// Rows that are not there for those who read, though their transaction has written them.
pub(crate) type Hidden = Arc<HashSet<(SpaceId, RowId)>>;

/// The scope of the run under way.
pub fn scope_of(state: &dyn Session) -> Result<Arc<QueryScope>> {
    state.config().get_extension::<QueryScope>().ok_or_else(|| internal("a scan outside a query"))
}

/// Names of a catalog version.
#[derive(Clone)]
pub struct CatalogTables {
    /// The catalog.
    pub catalog: Arc<CatalogVersion>,
    /// Schemas searched for a name without one, after pg_catalog.
    pub search_path: Vec<String>,
    /// The database's name, which may stand before a schema's.
    pub database: String,
    /// How a view's text is planned.
    pub options: Arc<ConfigOptions>,
    /// So many views are around.
    pub depth: usize,
    /// What parts of the statement return.
    pub(crate) returned: Vec<SchemaRef>,
}

impl Tables for CatalogTables {
    fn table(&self, name: &TableReference) -> Result<Arc<dyn TableSource>, SqlError> {
        if let Some(catalog) = name.catalog()
            && catalog != self.database
        {
            return Err(SqlError::unsupported(format!(
                "a reference to another database ({})",
                name.to_string().replace('"', "")
            )));
        }
        let found = match name.schema() {
            Some(ALIAS) => {
                let own = self.search_path.iter().find(|schema| is_temporary(schema));
                own.and_then(|schema| self.lookup(schema, name.table()))
            }
            Some(schema)
                if is_temporary(schema) && !self.search_path.iter().any(|s| s == schema) =>
            {
                None
            }
            Some(schema) => self.lookup(schema, name.table()),
            None => std::iter::once("pg_catalog")
                .chain(self.search_path.iter().map(String::as_str))
                .find_map(|schema| self.lookup(schema, name.table())),
        };
        found.unwrap_or_else(|| {
            let (schemas, shown) = match name.schema() {
                Some(schema) => (vec![schema.to_owned()], format!("{schema}.{}", name.table())),
                None => (self.search_path.clone(), name.table().to_owned()),
            };
            Err(resolve::no_table(&self.catalog, &schemas, name.table(), &shown))
        })
    }
}

/// A table, or why it cannot be read.
type Found = Result<Arc<dyn TableSource>, SqlError>;

impl CatalogTables {
    fn lookup(&self, schema: &str, name: &str) -> Option<Found> {
        if let Some(system) = pgcatalog::system_table(schema, name) {
            return Some(Ok(provider_as_source(system)));
        }
        if schema == RETURNED_SCHEMA {
            let at: usize = name.parse().ok()?;
            let schema = self.returned.get(at)?.clone();
            return Some(Ok(provider_as_source(Arc::new(ReturnedTable { at, schema }))));
        }
        if schema == ROW_ID_SCHEMA {
            let table = self.catalog.tables.get(&name.parse::<ObjectId>().ok()?)?;
            return Some(Ok(provider_as_source(Arc::new(BaseTable::with_row_ids(table.clone())))));
        }
        self.by_id(*self.catalog.names.get(&(schema.to_owned(), name.to_owned()))?)
    }

    /// The relation of an id; none, if it is an index.
    pub(crate) fn by_id(&self, id: ObjectId) -> Option<Found> {
        if let Some(table) = self.catalog.tables.get(&id) {
            return Some(Ok(provider_as_source(Arc::new(BaseTable::new(table.clone())))));
        }
        if let Some(view) = self.catalog.view(id) {
            return Some(view::source(view, self));
        }
        if let Err(e) = self.catalog.readable(id) {
            return Some(Err(e.into()));
        }
        Some(Ok(provider_as_source(sequence_table(self.catalog.sequences.get(&id)?))))
    }

    /// The relation of a name, if it is one of the catalog's own.
    pub(crate) fn relation(&self, name: &TableReference) -> Option<ObjectId> {
        let of = |schema: &str| {
            let system = pgcatalog::system_relation(schema, name.table()).map(|_| None);
            let place = (schema.to_owned(), name.table().to_owned());
            system.or_else(|| self.catalog.names.get(&place).map(|id| Some(*id)))
        };
        match name.schema() {
            Some(schema) => of(schema)?,
            None => std::iter::once("pg_catalog")
                .chain(self.search_path.iter().map(String::as_str))
                .find_map(of)?,
        }
    }
}

/// A sequence as a table of one row.
fn sequence_table(sequence: &Arc<SequenceDef>) -> Arc<dyn TableProvider> {
    let id = sequence.id;
    let columns = Columns::parse("last_value int8!, log_cnt int8!, is_called bool!");
    let fill: Fill = Arc::new(move |scope: &QueryScope, rows: &mut Rows| {
        let (value, called) = scope.session.sequence_state(id).unwrap_or((1, false));
        row!(rows; last_value: value, log_cnt: 0, is_called: called);
        Ok(())
    });
    pgcatalog::virtual_table(columns, fill)
}

/// A table version.
pub struct BaseTable {
    table: Arc<TableVersion>,
    schema: SchemaRef,
    row_ids: bool,
    /// The primary key, on which all columns depend.
    constraints: Constraints,
}

impl fmt::Debug for BaseTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BaseTable({})", self.table.def.name)
    }
}

impl BaseTable {
    fn new(table: Arc<TableVersion>) -> BaseTable {
        let schema = Arc::new(Schema::new(fields_of(&table)));
        let constraints = constraints_of(&table);
        BaseTable { table, schema, row_ids: false, constraints }
    }

    fn with_row_ids(table: Arc<TableVersion>) -> BaseTable {
        let mut fields = fields_of(&table);
        fields.push(Arc::new(Field::new(ROW_ID, DataType::Int64, false)));
        let schema = Arc::new(Schema::new(fields));
        BaseTable { table, schema, row_ids: true, constraints: Constraints::default() }
    }

    /// The table version.
    pub fn table(&self) -> &Arc<TableVersion> {
        &self.table
    }
}

fn constraints_of(table: &TableVersion) -> Constraints {
    let place = |id| table.def.columns.iter().position(|column| column.id == id);
    // Of a deferrable one two rows may share a key for a while.
    let key = table.def.primary_key().filter(|index| index.spec.unique).and_then(|index| {
        index.spec.key.iter().map(|part| place(part.column)).collect::<Option<Vec<usize>>>()
    });
    Constraints::new_unverified(key.map(Constraint::PrimaryKey).into_iter().collect())
}

fn fields_of(table: &TableVersion) -> Vec<Arc<Field>> {
    let field = |(at, c): (usize, &ColumnDef)| {
        let arrow = computed_type(c.sql_type, c.ty);
        sql_field(&c.name, c.sql_type, arrow, table.may_be_null(at))
    };
    table.def.columns.iter().enumerate().map(field).collect()
}

#[async_trait]
impl TableProvider for BaseTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scope = scope_of(state)?;
        let view = scope.catalog.materialized(self.table.def.id);
        if view.and_then(|view| view.materialized).is_some_and(|m| !m.populated) {
            return Err(unpopulated(&self.table.def.name).into());
        }
        let width = self.table.def.columns.len();
        let wanted: Vec<usize> = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let access = match provider_access::choose(&self.table.def, filters) {
            Some(seek) => Access::Index(seek),
            None => {
                let all = self.table.table.scan_blocks();
                let left = prune::blocks(&self.table, &self.schema, filters, all, state);
                Access::Blocks { all, left: left.map(Arc::from) }
            }
        };
        let schema = Arc::new(self.schema.project(&wanted)?);
        let row_id_at = wanted.iter().position(|c| self.row_ids && *c == width);
        let columns = wanted.into_iter().filter(|c| *c < width).collect();
        // A filter above still drops rows, so a limit below it would lose some.
        let limit = if filters.is_empty() { limit } else { None };
        Ok(Arc::new(TableScan::new(
            self.table.clone(),
            scope.snapshot.clone(),
            scope.hidden.clone(),
            schema,
            columns,
            row_id_at,
            access,
            Arc::from(filters),
            limit,
            state.config().target_partitions(),
        )))
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match provider_access::usable(filter) {
                true => TableProviderFilterPushDown::Inexact,
                false => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        let table = &self.table.table;
        let (rows, all, bytes) =
            (table.rows_for_plans(), table.row_estimate(), table.bytes_estimate());
        let bytes = if rows == all { bytes } else { rows.saturating_mul(bytes / all.max(1)) };
        statistics.num_rows = Precision::Inexact(rows as usize);
        statistics.total_byte_size = Precision::Inexact(bytes as usize);
        Some(statistics)
    }
}
