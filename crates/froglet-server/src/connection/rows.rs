//! Rows on their way into DataRow messages.
//!
//! Cells go from Arrow arrays or values straight into the write buffer, in the format their column
//! was asked in; nothing is allocated per row.

use std::panic::AssertUnwindSafe;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use bytes::BufMut;
use froglet_engine::{Row, SqlState};
use froglet_sql::types::cell::{cell_at, cell_of};
use froglet_sql::types::names::type_row;
use froglet_sql::types::record;
use froglet_sql::types::{value_binary, value_text, write_binary, write_text};
use froglet_sql::{Field, Rows, SqlError, query_run};

use crate::wire::backend::Output;
use crate::wire::frontend::Bind;

/// Result formats, by column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Formats {
    /// For every column, unless `each` says otherwise.
    all_binary: bool,
    each: Vec<bool>,
}

impl Formats {
    /// Of a Bind: none is text, one is for all, else one for each column.
    pub(crate) fn of(bind: &Bind<'_>, columns: usize) -> Result<Formats, SqlError> {
        let codes = bind.result_formats;
        if let Some(code) = (0..codes.len()).find_map(|i| codes.get(i).filter(|code| *code > 1)) {
            return Err(unsupported_format(code));
        }
        let binary = |i| codes.get(i) == Some(1);
        match codes.len() {
            0 | 1 => Ok(Formats { all_binary: binary(0), each: Vec::new() }),
            n if n == columns => {
                Ok(Formats { all_binary: false, each: (0..n).map(binary).collect() })
            }
            n => Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("bind message has {n} result formats but query has {columns} columns"),
            )),
        }
    }

    /// The same for all.
    pub(crate) fn all(binary: bool) -> Formats {
        Formats { all_binary: binary, each: Vec::new() }
    }

    /// Whether a column is binary.
    pub(crate) fn is_binary(&self, column: usize) -> bool {
        self.each.get(column).copied().unwrap_or(self.all_binary)
    }
}

/// Writes a RowDescription.
pub(crate) fn describe(output: &mut Output, fields: &[Field], formats: &Formats) {
    output.infallible(b'T', |out| {
        out.put_u16(columns(fields));
        for (i, field) in fields.iter().enumerate() {
            out.put_slice(field.name.as_bytes());
            out.put_u8(0);
            out.put_u32(field.table);
            out.put_i16(field.attnum);
            out.put_u32(field.sql_type.oid);
            out.put_i16(type_row(field.sql_type.oid).map_or(-1, |row| row.length));
            out.put_i32(field.sql_type.modifier);
            out.put_u16(u16::from(formats.is_binary(i)));
        }
    });
}

fn columns(fields: &[Field]) -> u16 {
    u16::try_from(fields.len()).expect("a result has at most 1664 columns")
}

/// The longest message that clients take.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// Writes the `row`-th of these rows as a DataRow: all of it, or nothing and an error of its statement.
pub(crate) fn write_row(
    output: &mut Output,
    rows: &Rows,
    row: usize,
    fields: &[Field],
    formats: &Formats,
) -> Result<(), SqlError> {
    let written = std::panic::catch_unwind(AssertUnwindSafe(|| {
        output.message(b'D', |out| {
            out.put_u16(columns(fields));
            match rows {
                Rows::Values(rows) => values(out, &rows[row], fields, formats),
                Rows::Batch(batch) => cells(out, batch, row, fields, formats),
            }
        })
    }));
    written.unwrap_or_else(|panic| {
        output.cut_to_whole();
        Err(query_run::panicked(panic))
    })
}

fn values(
    out: &mut Vec<u8>,
    row: &Row,
    fields: &[Field],
    formats: &Formats,
) -> Result<(), SqlError> {
    assert_eq!(row.len(), fields.len(), "a row has the columns described");
    for (i, (value, field)) in row.iter().zip(fields).enumerate() {
        let oid = field.sql_type.oid;
        let ty = field.ty.expect("a type that no column has comes in batches");
        measured(out, value.is_null(), |out| {
            if formats.is_binary(i) {
                match &field.record {
                    Some(shape) => record::write_binary(&cell_of(value, ty), shape, out),
                    None => value_binary(value, ty, oid, out),
                }
            } else {
                value_text(value, ty, oid, out);
            }
        })?;
    }
    Ok(())
}

fn cells(
    out: &mut Vec<u8>,
    batch: &RecordBatch,
    row: usize,
    fields: &[Field],
    formats: &Formats,
) -> Result<(), SqlError> {
    let arrays = batch.columns();
    assert_eq!(arrays.len(), fields.len(), "a batch has the columns described");
    for (i, (array, field)) in arrays.iter().zip(fields).enumerate() {
        let oid = field.sql_type.oid;
        // An array of the null type has no validity buffer that would say so.
        let null = array.is_null(row) || *array.data_type() == DataType::Null;
        // Seen before it is written: it may be many times what anybody can send.
        if !null && out.len().saturating_add(least_bytes(array.as_ref(), row)) > MESSAGE_BYTES_MAX {
            return Err(too_long());
        }
        measured(out, null, |out| {
            if formats.is_binary(i) {
                match &field.record {
                    Some(shape) => record::write_binary(&cell_at(array, row), shape, out),
                    None => write_binary(array.as_ref(), row, oid, out),
                }
            } else {
                write_text(array.as_ref(), row, oid, out);
            }
        })?;
    }
    Ok(())
}

/// What a value takes at least: of an array, what its elements do.
fn least_bytes(array: &dyn Array, row: usize) -> usize {
    match array.data_type() {
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|item| least_bytes(items.as_ref(), item)).sum()
        }
        DataType::Utf8View => array.as_string_view().value(row).len(),
        DataType::BinaryView => array.as_binary_view().value(row).len(),
        DataType::Utf8 => array.as_string::<i32>().value(row).len(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).len(),
        _ => 1,
    }
}

fn too_long() -> SqlError {
    let message = "a row of the result is longer than 1 GB, which is more than a client takes";
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// One cell behind its length; −1 for NULL.
fn measured(
    out: &mut Vec<u8>,
    null: bool,
    cell: impl FnOnce(&mut Vec<u8>),
) -> Result<(), SqlError> {
    let start = out.len();
    out.extend_from_slice(&(-1i32).to_be_bytes());
    if !null {
        cell(out);
        let length = i32::try_from(out.len() - start - 4).map_err(|_| too_long())?;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

/// A format code that is neither 0 nor 1.
pub(crate) fn unsupported_format(code: u16) -> SqlError {
    let message = format!("unsupported format code: {}", code as i16);
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
