//! Columns of Parquet and Arrow files: our types in theirs, and theirs in ours.
//!
//! | ours | in the file |
//! |---|---|
//! | boolean, smallint … double precision, date, time | the same |
//! | numeric(p, s) | decimal128(p, s); numeric is stored as numeric(38, 10) |
//! | text, varchar, char | string, so that every reader reads them |
//! | bytea | binary |
//! | timestamp, timestamptz | timestamp in microseconds, without a zone and of UTC |
//! | uuid | 16 bytes, of Parquet's and Arrow's type for UUIDs |
//! | interval | Arrow: month-day-nano; Parquet, which has no such type: text |
//! | arrays (of results) | lists |
//!
//! 'infinity' is the extreme value of a date or timestamp, as in PostgreSQL's binary format.
//! On the way in, columns are matched by name, and values are cast as by an assignment. Strings may be of any
//! layout, or dictionary-encoded; timestamps of any unit (what is finer than a microsecond is cut off, towards
//! the past). A list, struct, map or union is refused: no column here holds one.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef};
use froglet_engine::{ColumnType, SqlState};
use froglet_schema::SqlType;

use super::options::Format;
use crate::bulk::{GivenColumn, twice};
use crate::columnar::{STRING_BYTES_MAX, assigned, is_nested, plain_type, string_pieces};
use crate::error::SqlError;
use crate::prepared::Field as ResultField;
use crate::types::cast::text_array;
use crate::types::{self, EXACT, assignable, column_type_of_arrow, input, oids};

/// The columns of a result as a file has them.
pub(super) struct FileColumns {
    pub(super) schema: SchemaRef,
    oids: Vec<u32>,
}

impl FileColumns {
    /// Of a result of these columns. A name that comes twice is refused: nobody could read it back.
    pub(super) fn new(
        fields: &[ResultField],
        result: &Schema,
        format: Format,
    ) -> Result<FileColumns, SqlError> {
        let mut columns = Vec::with_capacity(fields.len());
        for (at, (field, arrow)) in fields.iter().zip(result.fields()).enumerate() {
            if fields[..at].iter().any(|before| before.name == field.name) {
                return Err(
                    twice(&field.name).hint("Give the columns of the query names, with AS.")
                );
            }
            let ty = file_type(arrow.data_type(), format);
            let column = Field::new(&field.name, ty, true);
            columns.push(match column.data_type() {
                DataType::FixedSizeBinary(16) => column.with_metadata(uuid_metadata()),
                _ => column,
            });
        }
        let oids = fields.iter().map(|field| field.sql_type.oid).collect();
        Ok(FileColumns { schema: Arc::new(Schema::new(columns)), oids })
    }

    /// A batch of the result in the file's types, in pieces that are not too long.
    pub(super) fn convert(&self, batch: &RecordBatch) -> Result<Vec<RecordBatch>, SqlError> {
        let pieces = string_pieces(batch.clone(), STRING_BYTES_MAX);
        pieces.iter().map(|piece| self.convert_piece(piece)).collect()
    }

    fn convert_piece(&self, batch: &RecordBatch) -> Result<RecordBatch, SqlError> {
        let mut arrays = Vec::with_capacity(batch.num_columns());
        for ((array, field), oid) in
            batch.columns().iter().zip(self.schema.fields()).zip(&self.oids)
        {
            arrays.push(to_file(array, field.data_type(), *oid)?);
        }
        let batch = RecordBatch::try_new(self.schema.clone(), arrays);
        batch.map_err(crate::df_error::arrow)
    }
}

/// What Arrow calls the type of UUIDs.
fn uuid_metadata() -> HashMap<String, String> {
    let pairs = [("ARROW:extension:name", "arrow.uuid"), ("ARROW:extension:metadata", "")];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn file_type(ty: &DataType, format: Format) -> DataType {
    use DataType::*;
    match ty {
        // A column of decimals has one scale: texts have every digit.
        &EXACT => Utf8,
        Binary | BinaryView => Binary,
        Dictionary(_, value) => file_type(value, format),
        Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float32
        | Float64 | Date32 | Time32(_) | Time64(_) | Decimal128(..) => ty.clone(),
        FixedSizeBinary(16) => FixedSizeBinary(16),
        FixedSizeBinary(_) => Binary,
        Float16 => Float32,
        Timestamp(unit, zone) => Timestamp(*unit, zone.as_ref().map(|_| "UTC".into())),
        Interval(_) if format == Format::Arrow => Interval(IntervalUnit::MonthDayNano),
        List(item) | LargeList(item) => {
            List(Arc::new(Field::new("item", file_type(item.data_type(), format), true)))
        }
        _ => Utf8,
    }
}

fn to_file(array: &ArrayRef, ty: &DataType, oid: u32) -> Result<ArrayRef, SqlError> {
    if array.data_type() == ty {
        return Ok(array.clone());
    }
    let textual = |ty: &DataType| {
        matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
    };
    let printed = *ty == DataType::Utf8
        && !match array.data_type() {
            DataType::Dictionary(_, value) => textual(value),
            other => textual(other),
        };
    let array = if printed { &text_array(array, oid) } else { array };
    cast(array, ty).map_err(crate::df_error::arrow)
}

/// A column of a file that goes into a column of the table.
#[derive(Clone, Debug)]
pub(super) struct Matched {
    /// Its place among the columns that the table is given.
    pub(super) target: usize,
    /// Its place in the file.
    pub(super) source: usize,
    pub(super) name: String,
    ty: ColumnType,
    sql_type: SqlType,
}

/// Which columns of a file go into which of the table. `all`: the statement names none, so that those which the
/// file does not have are left to their defaults.
pub(super) fn match_columns(
    file: &str,
    schema: &Schema,
    given: &[GivenColumn],
    all: bool,
) -> Result<Vec<Matched>, SqlError> {
    let mut extra = Vec::new();
    for (at, field) in schema.fields().iter().enumerate() {
        if schema.fields()[..at].iter().any(|before| before.name() == field.name()) {
            return Err(twice(field.name()).detail(format!("It is in file \"{file}\" twice.")));
        }
        if !given.iter().any(|(name, _, _)| name == field.name()) {
            extra.push(format!("\"{}\"", field.name()));
        }
    }
    if !extra.is_empty() {
        let what = if extra.len() == 1 { "a column" } else { "columns" };
        return Err(SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("file \"{file}\" has {what} that COPY does not fill: {}", extra.join(", ")),
        )
        .hint("Write the file without, or add such columns to the table and to COPY's list."));
    }
    let mut matched = Vec::new();
    for (target, (name, ty, sql_type)) in given.iter().enumerate() {
        let Some((source, field)) = schema.column_with_name(name) else {
            if all {
                continue;
            }
            return Err(SqlError::new(
                SqlState::BAD_COPY_FILE_FORMAT,
                format!("file \"{file}\" has no column \"{name}\""),
            ));
        };
        check_type(file, field, *ty, *sql_type)?;
        let (ty, sql_type) = (*ty, *sql_type);
        matched.push(Matched { target, source, name: name.clone(), ty, sql_type });
    }
    if matched.is_empty() {
        let message = format!("file \"{file}\" has no column");
        return Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message));
    }
    Ok(matched)
}

fn check_type(file: &str, field: &Field, ty: ColumnType, to: SqlType) -> Result<(), SqlError> {
    let from = field.data_type();
    let (name, plain) = (field.name(), plain_type(from, ty));
    let known = plain == DataType::Null || column_type_of_arrow(&plain).is_some();
    // Times of other units are no columns of ours, but any text column takes them.
    let known = known || matches!(plain, DataType::Time32(_) | DataType::Time64(_));
    if !known || is_nested(from) || matches!(from, DataType::RunEndEncoded(..)) {
        return Err(SqlError::unsupported(format!(
            "column \"{name}\" of file \"{file}\": its type, {from},"
        ))
        .hint("COPY reads numbers, strings, binary, dates and timestamps; not structs."));
    }
    let oid = types::oid_of_arrow(&plain);
    let has_digits = ty == ColumnType::Numeric && oid == oids::TEXT;
    let is_read = assignable(oid, to.oid) || is_read_as_text(oid, to.oid) || has_digits;
    if plain == DataType::Null || is_read {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!(
            "column \"{name}\" is of type {} but in file \"{file}\" it is {from}",
            input::input_name(to)
        ),
    )
    .hint("Cast it where the file is written, or COPY into a table of its type and INSERT from there."))
}

/// Whether a file has a column's values as texts, for want of a type for them.
fn is_read_as_text(from: u32, to: u32) -> bool {
    match (types::element_oid(from), types::element_oid(to)) {
        (Some(from), Some(to)) => is_read_as_text(from, to),
        (None, Some(_)) => from == oids::TEXT,
        _ => from == oids::TEXT && matches!(to, oids::JSON | oids::JSONB | oids::INTERVAL),
    }
}

impl Matched {
    /// A part of the file's column in the type of the table's. It must be short: what is the same value many
    /// times in the file is not so afterwards.
    pub(super) fn convert(&self, array: &ArrayRef) -> Result<ArrayRef, SqlError> {
        assigned(array, self.ty, self.sql_type)
    }

    pub(super) fn column_type(&self) -> ColumnType {
        self.ty
    }
}

/// Whether the column is one of UUIDs, which Parquet wants to be told.
pub(super) fn is_uuid(field: &Field) -> bool {
    *field.data_type() == DataType::FixedSizeBinary(16)
}
