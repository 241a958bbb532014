//! Rows as lines or tuples, in PostgreSQL's three formats.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};

use super::options::{CopyOptions, Format, Header};
use crate::prepared::Field;
use crate::types::{write_binary, write_text};

/// Some rows of a COPY, each a message of its own: clients may rely on that, as libpq's do.
#[derive(Debug, Default)]
pub struct CopyRows {
    pub(super) bytes: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
}

impl CopyRows {
    /// The data of each message.
    pub fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[*start..*end])
    }

    /// Whether there is no whole message.
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn end_message(&mut self) {
        self.ends.push(self.bytes.len());
    }
}

/// How rows are written.
pub(super) struct RowFormat {
    pub(super) fields: Arc<[Field]>,
    options: CopyOptions,
    /// CSV: columns whose values are always quoted.
    forced: Vec<bool>,
}

impl RowFormat {
    pub(super) fn new(fields: Arc<[Field]>, options: CopyOptions) -> RowFormat {
        let forced = fields.iter().map(|f| options.force_quote.has(&f.name)).collect();
        RowFormat { fields, options, forced }
    }

    pub(super) fn binary(&self) -> bool {
        self.options.format == Format::Binary
    }

    /// What comes before the first row.
    pub(super) fn begin(&self, out: &mut CopyRows) {
        match self.options.format {
            // No message of its own: the first row or the trailer follows in the same.
            Format::Binary => {
                out.bytes.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
                out.bytes.extend_from_slice(&[0; 8]);
            }
            _ if self.options.header == Header::Yes => {
                for (at, field) in self.fields.iter().enumerate() {
                    if at > 0 {
                        out.bytes.push(self.options.delimiter);
                    }
                    self.field(field.name.as_bytes(), false, &mut out.bytes);
                }
                out.bytes.push(b'\n');
                out.end_message();
            }
            _ => {}
        }
    }

    /// What comes after the last.
    pub(super) fn end(&self, out: &mut CopyRows) {
        if self.binary() {
            out.bytes.extend_from_slice(&(-1_i16).to_be_bytes());
            out.end_message();
        }
    }

    /// Some rows.
    pub(super) fn batch(&self, batch: &RecordBatch, out: &mut CopyRows) {
        let mut scratch = Vec::new();
        for row in 0..batch.num_rows() {
            if self.binary() {
                let count = i16::try_from(batch.num_columns()).unwrap_or(i16::MAX);
                out.bytes.extend_from_slice(&count.to_be_bytes());
            }
            for (at, array) in batch.columns().iter().enumerate() {
                scratch.clear();
                self.cell(array.as_ref(), row, at, &mut scratch, &mut out.bytes);
            }
            if !self.binary() {
                out.bytes.push(b'\n');
            }
            out.end_message();
        }
    }

    fn cell(
        &self,
        array: &dyn Array,
        row: usize,
        at: usize,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        let null = array.is_null(row);
        let oid = self.fields[at].sql_type.oid;
        if self.binary() {
            if null {
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                return;
            }
            write_binary(array, row, oid, scratch);
            let length = i32::try_from(scratch.len()).unwrap_or(i32::MAX);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(scratch);
            return;
        }
        if at > 0 {
            out.push(self.options.delimiter);
        }
        if null {
            out.extend_from_slice(self.options.null.as_bytes());
            return;
        }
        write_text(array, row, oid, scratch);
        self.field(scratch, self.forced[at], out);
    }

    fn field(&self, text: &[u8], forced: bool, out: &mut Vec<u8>) {
        let delimiter = self.options.delimiter;
        if self.options.format == Format::Csv {
            let (quote, escape) = (self.options.quote, self.options.escape);
            let special = |b: &u8| *b == delimiter || *b == quote || *b == b'\n' || *b == b'\r';
            let needs = forced
                || text.iter().any(special)
                || text == self.options.null.as_bytes()
                || text == b"\\.";
            if !needs {
                out.extend_from_slice(text);
                return;
            }
            out.push(quote);
            for byte in text {
                if *byte == quote || *byte == escape {
                    out.push(escape);
                }
                out.push(*byte);
            }
            out.push(quote);
            return;
        }
        for byte in text {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                8 => out.extend_from_slice(b"\\b"),
                12 => out.extend_from_slice(b"\\f"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                11 => out.extend_from_slice(b"\\v"),
                b if *b == delimiter => out.extend_from_slice(&[b'\\', *b]),
                b => out.push(*b),
            }
        }
    }
}
