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

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use froglet_engine::{ColumnType, SqlState};
use froglet_schema::SqlType;

use super::options::Format;
use crate::bulk::{GivenColumn, twice};
use crate::error::SqlError;
use crate::prepared::Field as ResultField;
use crate::types::cast::text_array;
use crate::types::{self, CastContext, assignable, cast_array, column_type_of_arrow, input};

/// A string column of one batch is not longer: its offsets have 32 bits.
const STRING_BYTES_MAX: usize = 1 << 30;

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
        let longest = batch.columns().iter().map(string_bytes).max().unwrap_or(0);
        if longest > STRING_BYTES_MAX && batch.num_rows() > 1 {
            let half = batch.num_rows() / 2;
            let mut pieces = self.convert(&batch.slice(0, half))?;
            pieces.extend(self.convert(&batch.slice(half, batch.num_rows() - half))?);
            return Ok(pieces);
        }
        let mut arrays = Vec::with_capacity(batch.num_columns());
        for ((array, field), oid) in
            batch.columns().iter().zip(self.schema.fields()).zip(&self.oids)
        {
            arrays.push(to_file(array, field.data_type(), *oid)?);
        }
        let batch = RecordBatch::try_new(self.schema.clone(), arrays);
        Ok(vec![batch.map_err(crate::df_error::arrow)?])
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
        Binary | LargeBinary | BinaryView => Binary,
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

fn string_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(|l| l as usize).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(|l| l as usize).sum(),
        _ => 0,
    }
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
    // Times and intervals are no columns of ours, but any text column takes them.
    let known = known || matches!(plain, DataType::Time32(_) | DataType::Time64(_));
    if !known || matches!(from, DataType::Union(..) | DataType::Struct(_) | DataType::Map(..)) {
        return Err(SqlError::unsupported(format!(
            "column \"{name}\" of file \"{file}\": its type, {from},"
        ))
        .hint("COPY reads numbers, strings, binary, dates and timestamps; not lists or structs."));
    }
    let oid = types::oid_of_arrow(&plain);
    if plain == DataType::Null || assignable(oid, to.oid) {
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

/// The type in which a column of a file is cast: one that our casts know.
fn plain_type(ty: &DataType, to: ColumnType) -> DataType {
    use DataType::*;
    match ty {
        Dictionary(_, value) => match &**value {
            Utf8 | LargeUtf8 => Utf8View,
            Binary | LargeBinary => BinaryView,
            other => plain_type(other, to),
        },
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

impl Matched {
    /// A part of the file's column in the type of the table's. It must be short: what is the same value many
    /// times in the file is not so afterwards.
    pub(super) fn convert(&self, array: &ArrayRef) -> Result<ArrayRef, SqlError> {
        let plain = plain_type(array.data_type(), self.ty);
        let array = match &plain == array.data_type() {
            true => array,
            // What does not fit is an error, not NULL.
            false => &cast_with_options(
                array,
                &plain,
                &CastOptions { safe: false, ..CastOptions::default() },
            )
            .map_err(|e| {
                let name = types::names::type_name(self.sql_type);
                SqlError::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("value out of range for type {name}"),
                )
                .detail(e.to_string())
            })?,
        };
        let array = cast_array(array, self.ty, self.sql_type, CastContext::Assignment)?;
        if let Some(texts) = array.as_any().downcast_ref::<StringViewArray>() {
            refuse_zeros(texts)?;
        }
        Ok(array)
    }

    pub(super) fn column_type(&self) -> ColumnType {
        self.ty
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

/// Whether the column is one of UUIDs, which Parquet wants to be told.
pub(super) fn is_uuid(field: &Field) -> bool {
    *field.data_type() == DataType::FixedSizeBinary(16)
}
