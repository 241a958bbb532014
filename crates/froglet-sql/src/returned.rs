//! What parts of a statement return, as tables for the parts after them ([`crate::with_plan`]).

use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use froglet_engine::{Row, SqlState};

use crate::error::SqlError;
use crate::planning::internal;
use crate::prepared::Field;
use crate::provider::scope_of;
use crate::semantics::casts;
use crate::types::{array_of, computed_type, sql_field};

/// The schema in which parts of a statement have their rows, each under its number. Users cannot
/// write its name by accident.
pub(crate) const RETURNED_SCHEMA: &str = "froglet returned rows";

/// The Arrow schema of the rows that a part returns; 0A000 where no table could have such a column.
pub(crate) fn schema_of(fields: &[Field]) -> Result<SchemaRef, SqlError> {
    let field = |field: &Field| match field.ty {
        Some(ty) => {
            let arrow = computed_type(field.sql_type, ty);
            Ok(sql_field(&field.name, field.sql_type, arrow, true))
        }
        None => Err(SqlError::unsupported(format!(
            "column \"{}\" of this type in RETURNING within WITH",
            field.name
        ))),
    };
    let fields = fields.iter().map(field).collect::<Result<Vec<_>, SqlError>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

/// The rows as that schema has them.
pub(crate) fn batch_of(
    fields: &[Field],
    schema: &SchemaRef,
    rows: &[Row],
) -> Result<RecordBatch, SqlError> {
    let columns = fields.iter().enumerate().filter_map(|(at, field)| {
        let ty = field.ty?;
        Some(array_of(ty, &mut rows.iter().map(|row: &Row| &row[at])))
    });
    let columns = casts::computed(columns.collect(), schema)?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|e| SqlError::new(SqlState::INTERNAL_ERROR, e.to_string()))
}

/// The rows of the part of a number.
pub(crate) struct ReturnedTable {
    pub(crate) at: usize,
    pub(crate) schema: SchemaRef,
}

impl fmt::Debug for ReturnedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReturnedTable({})", self.at)
    }
}

#[async_trait]
impl TableProvider for ReturnedTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scope = scope_of(state)?;
        let batch = scope.returned.get(self.at).ok_or_else(|| internal("a part has not run"))?;
        Ok(MemorySourceConfig::try_new_exec(
            &[vec![batch.clone()]],
            self.schema.clone(),
            projection.cloned(),
        )?)
    }
}
