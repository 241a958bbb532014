//! Values of parameters out of Arrow arrays.

use std::pin::pin;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use froglet_engine::{ColumnType, Row, SqlState, Value};
use froglet_schema::SqlType;

use super::edge::field_of;
use crate::error::SqlError;
use crate::prepared::Prepared;
use crate::session::Session;
use crate::types::cast::CastContext;
use crate::types::{cast_array, value_at, zone};

/// The schema of a statement's parameters: `$1`, `$2`, ….
pub fn parameter_schema(prepared: &Prepared) -> Schema {
    let types = prepared.params().iter().zip(prepared.param_types()).enumerate();
    let fields = types.map(|(at, (sql, ty))| field_of(&format!("${}", at + 1), *sql, ty.arrow()));
    Schema::new(fields.collect::<Vec<_>>())
}

impl Session {
    /// The values that each row of a batch gives the parameters of a statement, by position.
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
            Ok(rows_of(&columns, prepared.param_types(), 0, batch.num_rows()))
        });
        zone::scope(self.zone(), read).await
    }
}

/// An array from outside as a column of a type stores it.
pub(super) fn assigned(
    array: &ArrayRef,
    ty: ColumnType,
    sql_type: SqlType,
) -> Result<ArrayRef, SqlError> {
    cast_array(&plain(array, ty)?, ty, sql_type, CastContext::Assignment)
}

/// Without the encodings and widths that tables do not have.
fn plain(array: &ArrayRef, to: ColumnType) -> Result<ArrayRef, SqlError> {
    let value = match array.data_type() {
        DataType::FixedSizeBinary(_) if to == ColumnType::Bytes => &DataType::BinaryView,
        DataType::Dictionary(_, value) => value.as_ref(),
        DataType::RunEndEncoded(_, value) => value.data_type(),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => &DataType::Decimal128(*p, *s),
        DataType::Decimal256(_, s) => &DataType::Decimal128(38, *s),
        DataType::Date64 => &DataType::Date32,
        DataType::Float16 => &DataType::Float32,
        _ => return Ok(array.clone()),
    };
    let options = arrow::compute::CastOptions { safe: false, ..Default::default() };
    arrow::compute::cast_with_options(array, value, &options)
        .map_err(|e| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, e.to_string()))
}

/// Some rows of arrays of these types.
pub(super) fn rows_of(
    columns: &[ArrayRef],
    types: &[ColumnType],
    offset: usize,
    length: usize,
) -> Vec<Row> {
    let row = |at| -> Row {
        let cells = columns.iter().zip(types);
        cells.map(|(array, ty)| value_at(array.as_ref() as &dyn Array, at, *ty)).collect()
    };
    (offset..offset + length).map(row).collect()
}
