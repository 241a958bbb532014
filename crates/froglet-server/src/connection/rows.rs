//! Rows on their way into DataRow messages.
//!
//! Cells go from Arrow arrays or values straight into the write buffer, in the format their column
//! was asked in; nothing is allocated per row.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use bytes::BufMut;
use froglet_engine::{Row, SqlState};
use froglet_sql::types::names::type_row;
use froglet_sql::types::{value_binary, value_text, write_binary, write_text};
use froglet_sql::{Field, Rows, SqlError};

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

/// Writes the `row`-th of these rows as a DataRow.
pub(crate) fn write_row(
    output: &mut Output,
    rows: &Rows,
    row: usize,
    fields: &[Field],
    formats: &Formats,
) {
    output.infallible(b'D', |out| {
        out.put_u16(columns(fields));
        match rows {
            Rows::Values(rows) => values(out, &rows[row], fields, formats),
            Rows::Batch(batch) => cells(out, batch, row, fields, formats),
        }
    });
}

fn values(out: &mut Vec<u8>, row: &Row, fields: &[Field], formats: &Formats) {
    assert_eq!(row.len(), fields.len(), "a row has the columns described");
    for (i, (value, field)) in row.iter().zip(fields).enumerate() {
        let oid = field.sql_type.oid;
        let ty = field.ty.expect("a type that no column has comes in batches");
        measured(out, value.is_null(), |out| {
            if formats.is_binary(i) {
                value_binary(value, ty, oid, out);
            } else {
                value_text(value, ty, oid, out);
            }
        });
    }
}

fn cells(out: &mut Vec<u8>, batch: &RecordBatch, row: usize, fields: &[Field], formats: &Formats) {
    let arrays = batch.columns();
    assert_eq!(arrays.len(), fields.len(), "a batch has the columns described");
    for (i, (array, field)) in arrays.iter().zip(fields).enumerate() {
        let oid = field.sql_type.oid;
        // An array of the null type has no validity buffer that would say so.
        let null = array.is_null(row) || *array.data_type() == DataType::Null;
        measured(out, null, |out| {
            if formats.is_binary(i) {
                write_binary(array.as_ref(), row, oid, out);
            } else {
                write_text(array.as_ref(), row, oid, out);
            }
        });
    }
}

/// One cell behind its length; −1 for NULL.
fn measured(out: &mut Vec<u8>, null: bool, cell: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&(-1i32).to_be_bytes());
    if !null {
        cell(out);
        let length = i32::try_from(out.len() - start - 4).expect("a cell is shorter than 2 GiB");
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// A format code that is neither 0 nor 1.
pub(crate) fn unsupported_format(code: u16) -> SqlError {
    let message = format!("unsupported format code: {}", code as i16);
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
