//! Arrays from outside, from files and from clients, as columns of tables store them.
//!
//! ```text
//!   array ─ plain_type ─▶ no encodings and widths that tables do not have ─ assignment cast ─▶ column
//! ```
//! What does not fit is an error, not NULL and not the nearest value. Text has no zero bytes, as
//! everywhere else. A struct, map or union is refused: no column here holds one.
//!
//! An array without buffers of its own (NULLs, runs) may stand for more rows than there is memory for
//! once they are values: whoever calls this gives it slices of [`crate::bulk::BATCH_ROWS`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringViewArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, TimeUnit};
use froglet_engine::{ColumnType, Row, SqlState};
use froglet_schema::SqlType;

use crate::bulk::BATCH_ROWS;
use crate::error::SqlError;
use crate::types::cast::CastContext;
use crate::types::{cast_array, names, value_at};

/// A batch in pieces that may become values all at once.
pub fn slices(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + Send + use<> {
    let batch = batch.clone();
    (0..batch.num_rows())
        .step_by(BATCH_ROWS)
        .map(move |offset| batch.slice(offset, BATCH_ROWS.min(batch.num_rows() - offset)))
}

/// The type in which an array is cast to a column's: one that our casts know.
pub(crate) fn plain_type(ty: &DataType, to: ColumnType) -> DataType {
    use DataType::*;
    match ty {
        Dictionary(_, value) => match &**value {
            Utf8 | LargeUtf8 => Utf8View,
            Binary | LargeBinary => BinaryView,
            other => plain_type(other, to),
        },
        RunEndEncoded(_, values) => plain_type(values.data_type(), to),
        // Ours is of numerics: nobody else's bytes may pass for these, in a list neither.
        LargeBinary => BinaryView,
        List(item) | LargeList(item) | FixedSizeList(item, _) => {
            let plain = plain_type(item.data_type(), to);
            List(Arc::new(Field::new("item", plain, true)))
        }
        // Sixteen bytes are a UUID unless they are wanted as bytes.
        FixedSizeBinary(n) if *n != 16 || to == ColumnType::Bytes => Binary,
        Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
            Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        Date64 => Date32,
        Float16 => Float32,
        Decimal32(precision, scale) | Decimal64(precision, scale) => Decimal128(*precision, *scale),
        Decimal256(_, scale) => Decimal128(38, *scale),
        _ => ty.clone(),
    }
}

/// Whether values of a type have parts, so that no column of ours holds them.
pub(crate) fn is_nested(ty: &DataType) -> bool {
    match ty {
        DataType::Dictionary(_, value) => is_nested(value),
        DataType::RunEndEncoded(_, values) => is_nested(values.data_type()),
        other => matches!(other, DataType::Struct(_) | DataType::Map(..) | DataType::Union(..)),
    }
}

/// An array as a column of a type stores it.
pub(crate) fn assigned(
    array: &ArrayRef,
    ty: ColumnType,
    sql_type: SqlType,
) -> Result<ArrayRef, SqlError> {
    let given = array.data_type();
    if is_nested(given) {
        return Err(SqlError::unsupported(format!("a value of Arrow type {given}"))
            .hint("Cast it before, to text perhaps."));
    }
    let plain = plain_type(given, ty);
    let array = match plain == *given {
        true => array,
        false => {
            &cast_with_options(array, &plain, &CastOptions { safe: false, ..Default::default() })
                .map_err(|e| out_of_range(&plain, sql_type).detail(e.to_string()))?
        }
    };
    let array = cast_array(array, ty, sql_type, CastContext::Assignment)?;
    if let Some(texts) = array.as_any().downcast_ref::<StringViewArray>() {
        refuse_zeros(texts)?;
    }
    Ok(array)
}

fn out_of_range(plain: &DataType, to: SqlType) -> SqlError {
    match plain {
        DataType::Timestamp(..) => {
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
        }
        DataType::Date32 => SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range"),
        _ => {
            let name = names::type_name(to);
            let message = format!("value out of range for type {name}");
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
        }
    }
}

/// PostgreSQL's text has no zero bytes.
fn refuse_zeros(texts: &StringViewArray) -> Result<(), SqlError> {
    match texts.iter().flatten().any(|text| text.as_bytes().contains(&0)) {
        true => Err(SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        )),
        false => Ok(()),
    }
}

/// The rows of columns of these types.
pub(super) fn rows_of(columns: &[ArrayRef], types: &[ColumnType], rows: usize) -> Vec<Row> {
    let row = |at| -> Row {
        let cells = columns.iter().zip(types);
        cells.map(|(array, ty)| value_at(array.as_ref() as &dyn Array, at, *ty)).collect()
    };
    (0..rows).map(row).collect()
}
