//! The Arrow types that leave the server.
//!
//! | inside | outside |
//! |---|---|
//! | Utf8, LargeUtf8, dictionaries of these | Utf8View, or Utf8 for clients that cannot read views |
//! | Binary | BinaryView, or Binary |
//! | an exact numeric | Decimal128(38, 10), rounded; 22003 of what has more digits before the point |
//! | FixedSizeBinary(16) of a uuid | the same, with Arrow's extension name `arrow.uuid` |
//! | everything else | the same |
//!
//! Which SQL type a column has is in its metadata: [`crate::types::OID_KEY`], and the keys that
//! Flight SQL defines.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::array::{ByteView, GenericByteViewArray};
use arrow::datatypes::{ByteViewType, DataType, Field as ArrowField, Schema, SchemaRef};
use froglet_engine::SqlState;
use froglet_schema::SqlType;

use crate::error::SqlError;
use crate::prepared::Field;
use crate::semantics::numerics;
use crate::types::{EXACT, MODIFIER_KEY, OID_KEY, arrow_of, arrow_of_column, names, numeric, oids};

/// A string column of one batch is not longer: where it is no view its offsets have 32 bits.
pub(crate) const STRING_BYTES_MAX: usize = 1 << 30;

/// How strings and binaries leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Strings {
    /// As views: the layout of the tables, which goes out as it is.
    #[default]
    Views,
    /// As Utf8 and Binary, copied.
    Plain,
}

impl Strings {
    pub(crate) fn outside(self, inside: &DataType) -> DataType {
        match (inside, self) {
            (&EXACT, _) => numerics::OUTSIDE,
            (DataType::Dictionary(_, value), _) => self.outside(value),
            (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, Strings::Views) => {
                DataType::Utf8View
            }
            (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, Strings::Plain) => {
                DataType::Utf8
            }
            (DataType::Binary | DataType::BinaryView, Strings::Views) => DataType::BinaryView,
            (DataType::Binary | DataType::BinaryView, Strings::Plain) => DataType::Binary,
            (DataType::List(item), _) => {
                let item = ArrowField::new("item", self.outside(item.data_type()), true);
                DataType::List(Arc::new(item))
            }
            (other, _) => other.clone(),
        }
    }

    /// The schema that a schema leaves with.
    pub fn of(self, schema: &Schema) -> SchemaRef {
        let fields = schema.fields().iter().map(|field| {
            let ty = self.outside(field.data_type());
            Arc::new(field.as_ref().clone().with_data_type(ty))
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// The schema of a result, by its fields and, where it is known, the Arrow type of each.
pub(crate) fn schema_of(fields: &[Field], known: Option<&Schema>) -> Schema {
    let types = fields.iter().enumerate().map(|(at, field)| {
        let planned = known.map(|schema| schema.field(at).data_type().clone());
        let stored = || field.ty.map(arrow_of_column).or_else(|| arrow_of(field.sql_type));
        let inside = planned.or_else(stored).unwrap_or(DataType::Utf8View);
        field_of(&field.name, field.sql_type, Strings::Views.outside(&inside))
    });
    Schema::new(types.collect::<Vec<_>>())
}

/// A column of a SQL type.
pub(crate) fn field_of(name: &str, ty: SqlType, arrow: DataType) -> ArrowField {
    let mut metadata = HashMap::from([
        (OID_KEY.to_owned(), ty.oid.to_string()),
        (MODIFIER_KEY.to_owned(), ty.modifier.to_string()),
        ("ARROW:FLIGHT:SQL:TYPE_NAME".to_owned(), names::type_name(ty)),
    ]);
    if ty.oid == oids::NUMERIC && ty.modifier >= 4 {
        let (precision, scale) = numeric::precision_scale(ty.modifier);
        metadata.insert("ARROW:FLIGHT:SQL:PRECISION".to_owned(), precision.to_string());
        metadata.insert("ARROW:FLIGHT:SQL:SCALE".to_owned(), scale.to_string());
    }
    if ty.oid == oids::UUID && arrow == DataType::FixedSizeBinary(16) {
        metadata.insert("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned());
        metadata.insert("ARROW:extension:metadata".to_owned(), String::new());
    }
    ArrowField::new(name, arrow, true).with_metadata(metadata)
}

/// A batch in the types of a schema.
pub(crate) fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, SqlError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(array, field)| column(array, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(internal)
}

/// The same rows without what only other rows need of its buffers.
pub fn compacted(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(without_others);
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns.collect(), &options)
        .expect("the columns have the types and lengths that they had")
}

/// A batch in pieces none of whose string columns is longer than this, if that can be: a row stays whole.
pub(crate) fn string_pieces(batch: RecordBatch, bytes_max: usize) -> Vec<RecordBatch> {
    let longest = batch.columns().iter().map(string_bytes).max().unwrap_or(0);
    if longest <= bytes_max || batch.num_rows() < 2 {
        return vec![batch];
    }
    let half = batch.num_rows() / 2;
    let mut pieces = string_pieces(batch.slice(0, half), bytes_max);
    pieces.extend(string_pieces(batch.slice(half, batch.num_rows() - half), bytes_max));
    pieces
}

fn string_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(|l| l as usize).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(|l| l as usize).sum(),
        _ => 0,
    }
}

fn column(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, SqlError> {
    // The cast has 32 bits for it, and panics.
    if matches!(wanted, DataType::Utf8 | DataType::Binary)
        && string_bytes(array) > i32::MAX as usize
    {
        let message = "a value of more than 2 GB cannot be sent without views";
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .hint("Ask for it without the header froglet-strings."));
    }
    let array = numerics::outside(array)?;
    let array = match array.data_type() == wanted {
        true => array,
        false => arrow::compute::cast(&array, wanted).map_err(internal)?,
    };
    Ok(without_others(&array))
}

fn without_others(array: &ArrayRef) -> ArrayRef {
    let compacted = match array.data_type() {
        DataType::Utf8View => compact(array.as_string_view()),
        DataType::BinaryView => compact(array.as_binary_view()),
        _ => None,
    };
    compacted.unwrap_or_else(|| array.clone())
}

/// The views copied together where most of their buffers is not theirs: an array shares its heap's
/// chunks with other blocks, and a filter leaves few of its views.
fn compact<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    const NO_MATTER_BYTES: usize = 64 << 10;
    let held: usize = array.data_buffers().iter().map(|buffer| buffer.len()).sum();
    if held <= NO_MATTER_BYTES {
        return None;
    }
    let long =
        |view: &u128| Some(ByteView::from(*view).length as usize).filter(|bytes| *bytes > 12);
    let used: usize = array.views().iter().filter_map(long).sum();
    (held / 2 > used).then(|| Arc::new(array.gc()) as ArrayRef)
}

fn internal(e: arrow::error::ArrowError) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, format!("a result cannot be sent: {e}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, StringViewArray};

    use super::*;

    #[test]
    fn pieces_have_the_rows_in_their_order_and_no_long_column() {
        let texts = StringViewArray::from_iter_values((0..1000).map(|i| "x".repeat(i % 90)));
        let numbers = Int32Array::from_iter_values(0..1000);
        let columns = [("n", Arc::new(numbers) as ArrayRef), ("s", Arc::new(texts) as ArrayRef)];
        let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
        assert_eq!(string_pieces(batch.clone(), STRING_BYTES_MAX).len(), 1);
        for bytes_max in [20_000, 1000, 10] {
            let pieces = string_pieces(batch.clone(), bytes_max);
            let long = |piece: &RecordBatch| string_bytes(piece.column(1)) > bytes_max;
            assert!(pieces.iter().all(|piece| piece.num_rows() == 1 || !long(piece)));
            let whole = arrow::compute::concat_batches(&batch.schema(), &pieces);
            assert_eq!(whole.expect("one schema"), batch);
        }
    }
}
