//! Values of parameters out of Arrow arrays.

use std::pin::pin;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Schema;
use froglet_engine::{SqlState, Value};

use super::assign::{assigned, rows_of};
use super::edge::{Strings, field_of};
use crate::error::SqlError;
use crate::prepared::Prepared;
use crate::session::Session;
use crate::types::{arrow_of_column, zone};

/// The schema of a statement's parameters: `$1`, `$2`, ….
pub fn parameter_schema(prepared: &Prepared) -> Schema {
    let types = prepared.params().iter().zip(prepared.param_types()).enumerate();
    let fields = types.map(|(at, (sql, ty))| {
        field_of(&format!("${}", at + 1), *sql, Strings::Views.outside(&arrow_of_column(*ty)))
    });
    Schema::new(fields.collect::<Vec<_>>())
}

impl Session {
    /// The values that each row of a batch gives the parameters of a statement, by position. The batch
    /// is short: one of [`super::slices`].
    pub async fn parameter_rows(
        &self,
        prepared: &Prepared,
        batch: &RecordBatch,
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let types = prepared.params();
        if batch.num_columns() != types.len() {
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement requires {}",
                    batch.num_columns(),
                    types.len()
                ),
            ));
        }
        let read = pin!(async {
            let columns = batch.columns().iter().zip(types).zip(prepared.param_types());
            let columns = columns.enumerate().map(|(at, ((array, sql), ty))| {
                let place = || format!("parameter ${}", at + 1);
                assigned(array, *ty, *sql).map_err(|e| e.context(place()))
            });
            let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
            Ok(rows_of(&columns, prepared.param_types(), batch.num_rows()))
        });
        zone::scope(self.zone(), read).await
    }
}
