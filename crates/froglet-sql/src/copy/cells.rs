//! Cells of a batch in PostgreSQL's formats, column by column prepared and row by row written.
//!
//! What a cell is made of is found out once for a column and not for each of its cells: typed slices, the width
//! of an integer, whether a NULL can be at all. Within a row there is then one branch for each column, always
//! the same one.
//!
//! ```text
//!   order_line   4711 │ 3 │ 12.50 │ 2024-02-29 12:34:56 │ dist-info…
//!                digits, two at a time      │ the day's text is that of the row before,
//!                                           │ mostly       │ eight bytes at a time: is any special?
//! ```
//! Types that are not here (and every type where a delimiter might be a part of a number) are written by
//! [`write_text`] and [`write_binary`] as everywhere else; a test compares the two ways.

use arrow::array::AsArray;
use arrow::array::{Array, BooleanArray, RecordBatch, StringViewArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};

use crate::types::datetime::{
    DAY_US, EPOCH_2000_US, INFINITY, MINUS_INFINITY, write_clock, write_date,
};
use crate::types::{Zone, binary, element_oid, numeric, oids, output, write_binary, write_text};

/// A column of a batch.
pub(super) struct Column<'a> {
    array: &'a dyn Array,
    nulls: Option<&'a NullBuffer>,
    cells: Cells<'a>,
    oid: u32,
    day: Day,
}

enum Cells<'a> {
    Bool(&'a BooleanArray),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    /// Unscaled; the scale.
    Decimal(&'a [i128], i8),
    /// What follows the time: nothing, or the offset of UTC.
    Timestamp(&'a [i64], &'static [u8]),
    Text(&'a StringViewArray),
    /// Only their bits, for the binary format.
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    /// A column of nothing but NULL.
    Null,
    Other,
}

/// The text of the day of the last timestamp written.
struct Day {
    number: i64,
    text: [u8; 11],
}

impl<'a> Column<'a> {
    /// The columns of a batch, for text. Where `plain` is false a delimiter or a quote may be a part of a number.
    pub(super) fn for_text(
        batch: &'a RecordBatch,
        oids: impl Iterator<Item = u32>,
        plain: bool,
    ) -> Vec<Column<'a>> {
        Column::all(batch, oids, |ty, array| {
            let cells = cells_of(ty, array);
            match cells {
                Cells::Text(_) | Cells::Null => cells,
                Cells::Float32(_) | Cells::Float64(_) => Cells::Other,
                _ if plain => cells,
                _ => Cells::Other,
            }
        })
    }

    /// The columns of a batch, for the binary format.
    pub(super) fn for_binary(
        batch: &'a RecordBatch,
        oids: impl Iterator<Item = u32>,
    ) -> Vec<Column<'a>> {
        let mut columns = Column::all(batch, oids, cells_of);
        for column in &mut columns {
            // What is stored as text is sent otherwise.
            let otherwise = column.oid == oids::JSONB || element_oid(column.oid).is_some();
            if otherwise && matches!(column.cells, Cells::Text(_)) {
                column.cells = Cells::Other;
            }
        }
        columns
    }

    /// Those of a batch without anything prepared.
    #[cfg(test)]
    pub(super) fn unprepared(
        batch: &'a RecordBatch,
        oids: impl Iterator<Item = u32>,
    ) -> Vec<Column<'a>> {
        Column::all(batch, oids, |ty, _| match ty {
            DataType::Null => Cells::Null,
            _ => Cells::Other,
        })
    }

    fn all(
        batch: &'a RecordBatch,
        oids: impl Iterator<Item = u32>,
        cells: impl Fn(&DataType, &'a dyn Array) -> Cells<'a>,
    ) -> Vec<Column<'a>> {
        let column = |(array, oid): (&'a arrow::array::ArrayRef, u32)| Column {
            array: array.as_ref(),
            nulls: array.nulls().filter(|nulls| nulls.null_count() > 0),
            cells: cells(array.data_type(), array.as_ref()),
            oid,
            day: Day { number: i64::MAX, text: [b' '; 11] },
        };
        batch.columns().iter().zip(oids).map(column).collect()
    }

    /// Whether a cell is NULL.
    pub(super) fn is_null(&self, row: usize) -> bool {
        match self.nulls {
            Some(nulls) => nulls.is_null(row),
            None => matches!(self.cells, Cells::Null),
        }
    }

    /// The bytes of a cell that is text and not NULL.
    pub(super) fn text(&self, row: usize) -> Option<&'a [u8]> {
        match &self.cells {
            Cells::Text(texts) => Some(texts.value(row).as_bytes()),
            _ => None,
        }
    }

    /// Appends a cell that is neither NULL nor text and has no special bytes; false if it is none of these.
    pub(super) fn write_plain(&mut self, row: usize, out: &mut Vec<u8>) -> bool {
        match &self.cells {
            Cells::Bool(values) => out.push(if values.value(row) { b't' } else { b'f' }),
            Cells::Int16(values) => output::integer(i64::from(values[row]), out),
            Cells::Int32(values) => output::integer(i64::from(values[row]), out),
            Cells::Int64(values) => output::integer(values[row], out),
            Cells::Decimal(values, scale) => numeric::write(values[row], *scale, out),
            Cells::Timestamp(values, zone) => self.day.write(values[row], zone, out),
            Cells::Text(_) | Cells::Float32(_) | Cells::Float64(_) => return false,
            Cells::Null | Cells::Other => return false,
        }
        true
    }

    /// Appends the text of any cell that is not NULL, as it is before it is escaped.
    pub(super) fn write_text(&self, row: usize, out: &mut Vec<u8>) {
        write_text(self.array, row, self.oid, out);
    }

    /// Appends the binary format of a cell, with its length.
    pub(super) fn write_binary(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            return;
        }
        match &self.cells {
            Cells::Bool(values) => {
                out.extend_from_slice(&[0, 0, 0, 1, u8::from(values.value(row))])
            }
            Cells::Int16(values) => self.integer(i64::from(values[row]), 2, out),
            Cells::Int32(values) => self.integer(i64::from(values[row]), 4, out),
            Cells::Int64(values) => self.integer(values[row], 8, out),
            Cells::Float32(values) if self.oid == crate::types::oids::FLOAT4 => {
                out.extend_from_slice(&4_i32.to_be_bytes());
                out.extend_from_slice(&values[row].to_be_bytes());
            }
            Cells::Float64(values) => {
                out.extend_from_slice(&8_i32.to_be_bytes());
                out.extend_from_slice(&values[row].to_be_bytes());
            }
            Cells::Timestamp(values, _) => {
                let us = match values[row] {
                    infinite @ (INFINITY | MINUS_INFINITY) => infinite,
                    us => us.saturating_sub(EPOCH_2000_US),
                };
                out.extend_from_slice(&8_i32.to_be_bytes());
                out.extend_from_slice(&us.to_be_bytes());
            }
            Cells::Text(texts) => {
                let text = texts.value(row).as_bytes();
                out.extend_from_slice(&i32::try_from(text.len()).unwrap_or(i32::MAX).to_be_bytes());
                out.extend_from_slice(text);
            }
            Cells::Decimal(values, scale) => {
                measured(out, |out| numeric::write_binary(values[row], *scale, out));
            }
            Cells::Float32(_) | Cells::Null | Cells::Other => {
                measured(out, |out| write_binary(self.array, row, self.oid, out));
            }
        }
    }

    fn integer(&self, value: i64, own: usize, out: &mut Vec<u8>) {
        let width = binary::integer_width(self.oid, own);
        out.extend_from_slice(&(width as i32).to_be_bytes());
        match width {
            4 => out.extend_from_slice(&(value as i32).to_be_bytes()),
            2 => out.extend_from_slice(&(value as i16).to_be_bytes()),
            _ => out.extend_from_slice(&value.to_be_bytes()),
        }
    }
}

/// Appends something behind its length.
fn measured(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = i32::try_from(out.len() - at - 4).unwrap_or(i32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn cells_of<'a>(ty: &DataType, array: &'a dyn Array) -> Cells<'a> {
    match ty {
        DataType::Boolean => Cells::Bool(array.as_boolean()),
        DataType::Int16 => Cells::Int16(array.as_primitive::<Int16Type>().values()),
        DataType::Int32 => Cells::Int32(array.as_primitive::<Int32Type>().values()),
        DataType::Int64 => Cells::Int64(array.as_primitive::<Int64Type>().values()),
        DataType::Float32 => Cells::Float32(array.as_primitive::<Float32Type>().values()),
        DataType::Float64 => Cells::Float64(array.as_primitive::<Float64Type>().values()),
        DataType::Decimal128(_, scale) => {
            Cells::Decimal(array.as_primitive::<Decimal128Type>().values(), *scale)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let values = array.as_primitive::<TimestampMicrosecondType>().values();
            match zone {
                None => Cells::Timestamp(values, b""),
                Some(_) if Zone::current().is_utc() => Cells::Timestamp(values, b"+00"),
                Some(_) => Cells::Other,
            }
        }
        DataType::Utf8View => Cells::Text(array.as_string_view()),
        DataType::Null => Cells::Null,
        _ => Cells::Other,
    }
}

impl Day {
    /// Appends a timestamp.
    fn write(&mut self, us: i64, zone: &[u8], out: &mut Vec<u8>) {
        let number = us.div_euclid(DAY_US);
        if number != self.number && !self.take(number) {
            // An infinite one, one before Christ, or one after the year 9999.
            let zone = std::str::from_utf8(zone).unwrap_or_default();
            return crate::types::datetime::write_timestamp(us, zone, out);
        }
        out.extend_from_slice(&self.text);
        write_clock(us.rem_euclid(DAY_US), out);
        out.extend_from_slice(zone);
    }

    /// Whether the day's text has the usual length; then it is kept.
    fn take(&mut self, number: i64) -> bool {
        let mut text = Vec::with_capacity(16);
        let Ok(days) = i32::try_from(number) else { return false };
        write_date(days, &mut text);
        let Some(text) = text.first_chunk::<10>().filter(|_| text.len() == 10) else {
            return false;
        };
        self.text[..10].copy_from_slice(text);
        self.number = number;
        true
    }
}

/// Which bytes of a text need more than being copied: a set that is looked for eight bytes at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Special {
    /// Control characters, all of them: those that are none after all cost a second look.
    controls: bool,
    bytes: [u8; 4],
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGHS: u64 = u64::from_ne_bytes([128; 8]);

impl Special {
    pub(super) fn new(controls: bool, bytes: [u8; 4]) -> Special {
        Special { controls, bytes }
    }

    /// Whether a text may have such a byte.
    pub(super) fn is_in(self, text: &[u8]) -> bool {
        let (words, rest) = text.as_chunks::<8>();
        if words.iter().any(|word| self.is_in_word(u64::from_ne_bytes(*word))) {
            return true;
        }
        let Some(first) = rest.first() else { return false };
        // What is filled up is special only where the text is.
        let mut last = [*first; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.is_in_word(u64::from_ne_bytes(last))
    }

    fn is_in_word(self, word: u64) -> bool {
        let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
        let mut found = 0;
        if self.controls {
            found = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        }
        for byte in self.bytes {
            found |= zero(word ^ (ONES * u64::from(byte)));
        }
        found != 0
    }
}
