//! Rows as lines or tuples, in PostgreSQL's three formats.

use std::sync::Arc;

use arrow::array::RecordBatch;

use super::cells::{Column, Special};
use super::options::{CopyOptions, Format, Header};
use crate::prepared::Field;

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

/// Whether a byte may be a part of a number, a time or a boolean.
fn in_numbers(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b':' | b' ')
}

/// How rows are written.
pub(super) struct RowFormat {
    pub(super) fields: Arc<[Field]>,
    options: CopyOptions,
    /// CSV: columns whose values are always quoted.
    forced: Vec<bool>,
    /// What may need quotes or escapes in a text.
    special: Special,
    /// Numbers, times and booleans never need them.
    plain: bool,
}

impl RowFormat {
    pub(super) fn new(fields: Arc<[Field]>, options: CopyOptions) -> RowFormat {
        let forced = fields.iter().map(|f| options.force_quote.has(&f.name)).collect();
        let csv = options.format == Format::Csv;
        let special = match csv {
            true => Special::new(false, [options.delimiter, options.quote, b'\n', b'\r']),
            false => Special::new(true, [options.delimiter, b'\\', b'\\', b'\\']),
        };
        // In CSV a value that looks like NULL is quoted, too.
        let looks_like_null = options.null.bytes().next().is_some_and(in_numbers);
        let in_csv = in_numbers(options.quote) || looks_like_null;
        let plain = !(in_numbers(options.delimiter) || csv && in_csv);
        RowFormat { fields, options, forced, special, plain }
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
        let oids = self.fields.iter().map(|field| field.sql_type.oid);
        match self.binary() {
            true => self.tuples(batch, &Column::for_binary(batch, oids), out),
            false => self.lines(batch, &mut Column::for_text(batch, oids, self.plain), out),
        }
    }

    fn tuples(&self, batch: &RecordBatch, columns: &[Column<'_>], out: &mut CopyRows) {
        let count = i16::try_from(columns.len()).unwrap_or(i16::MAX).to_be_bytes();
        for row in 0..batch.num_rows() {
            out.bytes.extend_from_slice(&count);
            for column in columns {
                column.write_binary(row, &mut out.bytes);
            }
            out.end_message();
        }
    }

    fn lines(&self, batch: &RecordBatch, columns: &mut [Column<'_>], out: &mut CopyRows) {
        let mut scratch = Vec::new();
        for row in 0..batch.num_rows() {
            let bytes = &mut out.bytes;
            for (at, column) in columns.iter_mut().enumerate() {
                if at > 0 {
                    bytes.push(self.options.delimiter);
                }
                if column.is_null(row) {
                    bytes.extend_from_slice(self.options.null.as_bytes());
                } else if let Some(text) = column.text(row) {
                    self.field(text, self.forced[at], bytes);
                } else if self.forced[at] || !column.write_plain(row, bytes) {
                    scratch.clear();
                    column.write_text(row, &mut scratch);
                    self.field(&scratch, self.forced[at], bytes);
                }
            }
            bytes.push(b'\n');
            out.end_message();
        }
    }

    /// A field that is not NULL, quoted or escaped where that is needed.
    fn field(&self, text: &[u8], forced: bool, out: &mut Vec<u8>) {
        let special = self.special.is_in(text);
        let delimiter = self.options.delimiter;
        if self.options.format == Format::Csv {
            let (quote, escape) = (self.options.quote, self.options.escape);
            let needs = forced || special || text == self.options.null.as_bytes() || text == b"\\.";
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
        if !special {
            out.extend_from_slice(text);
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

#[cfg(test)]
mod tests {
    use arrow::array::*;
    use arrow::datatypes::{DataType, Field as ArrowField, Schema};
    use froglet_testkit::mutate::Random;

    use super::*;
    use crate::copy::tests::parsed;
    use crate::types::{Zone, oid_of_arrow, oids, plain};

    const ROWS: usize = 3000;

    /// Numbers of every size.
    fn number(random: &mut Random) -> i64 {
        let raw = random.next_u64() as i64;
        raw >> random.below(64)
    }

    fn text(random: &mut Random) -> String {
        const PARTS: [&str; 16] = [
            "a",
            "Größe",
            "🐸",
            "\t",
            "\n",
            "\r",
            "\\",
            "\"",
            "'",
            ",",
            ";",
            "\u{1}",
            "\\.",
            "NULL",
            " ",
            "0123456789",
        ];
        (0..random.below(8)).map(|_| *random.pick(&PARTS)).collect()
    }

    fn column<T>(random: &mut Random, mut value: impl FnMut(&mut Random) -> T) -> Vec<Option<T>> {
        (0..ROWS).map(|_| (random.below(7) > 0).then(|| value(random))).collect()
    }

    fn times(random: &mut Random) -> Vec<Option<i64>> {
        let mut day = 0;
        column(random, |random| {
            if random.below(20) == 0 {
                day = number(random);
            }
            match random.below(100) {
                0 => i64::MAX,
                1 => i64::MIN,
                _ => day.wrapping_add(number(random) >> 20),
            }
        })
    }

    fn decimals(random: &mut Random, precision: u8, scale: i8) -> ArrayRef {
        let values = column(random, |random| {
            let high = i128::from(number(random)) << random.below(60);
            (high | i128::from(number(random))) % 10_i128.pow(u32::from(precision))
        });
        let array = Decimal128Array::from(values);
        Arc::new(array.with_precision_and_scale(precision, scale).expect("they fit"))
    }

    /// A column of each type that results have.
    fn batch(random: &mut Random) -> RecordBatch {
        let texts = column(random, text);
        let bytes = texts.iter().map(|text| text.as_ref().map(|text| text.as_bytes()));
        let mut lists = ListBuilder::new(Int32Builder::new());
        (0..ROWS).for_each(|_| lists.append_value([Some(1), None, Some(random.below(9) as i32)]));
        let mut uuids = FixedSizeBinaryBuilder::new(16);
        (0..ROWS).for_each(|row| match row % 5 {
            0 => uuids.append_null(),
            _ => uuids.append_value(u128::from(random.next_u64()).to_le_bytes()).expect("16"),
        });
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(BooleanArray::from(column(random, |r| r.below(2) == 0))),
            Arc::new(Int16Array::from(column(random, |r| number(r) as i16))),
            Arc::new(Int32Array::from(column(random, |r| number(r) as i32))),
            Arc::new(Int64Array::from(column(random, number))),
            Arc::new(UInt32Array::from(column(random, |r| number(r) as u32))),
            Arc::new(UInt64Array::from(column(random, |r| number(r) as u64))),
            Arc::new(Float32Array::from(column(random, |r| f32::from_bits(r.next_u64() as u32)))),
            Arc::new(Float64Array::from(column(random, |r| f64::from_bits(r.next_u64())))),
            decimals(random, 6, 2),
            decimals(random, 38, 10),
            decimals(random, 18, 0),
            decimals(random, 38, 38),
            Arc::new(StringViewArray::from_iter(texts.clone())),
            Arc::new(StringArray::from_iter(texts.clone())),
            Arc::new(BinaryViewArray::from_iter(bytes)),
            Arc::new(Date32Array::from(column(random, |r| number(r) as i32))),
            Arc::new(TimestampMicrosecondArray::from(times(random))),
            Arc::new(TimestampMicrosecondArray::from(times(random)).with_timezone("UTC")),
            Arc::new(uuids.finish()),
            Arc::new(lists.finish()),
            Arc::new(NullArray::new(ROWS)),
            Arc::new(Int32Array::from_iter_values(0..ROWS as i32)),
        ];
        let field = |(at, array): (usize, &ArrayRef)| {
            ArrowField::new(format!("c{at}"), array.data_type().clone(), true)
        };
        let fields: Vec<ArrowField> = arrays.iter().enumerate().map(field).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a batch")
    }

    fn fields(batch: &RecordBatch) -> Arc<[Field]> {
        let field = |field: &Arc<ArrowField>| Field {
            name: field.name().clone(),
            sql_type: plain(match field.data_type() {
                // Integers may be announced as narrower than they are stored.
                DataType::Int64 => oids::INT4,
                ty => oid_of_arrow(ty),
            }),
            ty: None,
            table: 0,
            attnum: 0,
            record: None,
        };
        batch.schema().fields().iter().map(field).collect()
    }

    /// Prepared columns are written as cells are anywhere else, in every format and zone.
    #[test]
    fn both_ways_agree() {
        let mut random = Random(froglet_testkit::seed());
        for options in [
            "",
            "(format csv)",
            "(format csv, force_quote *)",
            "(format binary)",
            "(delimiter '-')",
            "(delimiter ' ')",
            "(null '')",
            "(format csv, delimiter ':', quote '''', null 'NULL')",
            "(format csv, null '1')",
            "(format csv, quote '0', escape '\\')",
            "(format csv, force_quote (c2, c12))",
        ] {
            let copy = parsed(&format!("copy t to stdout {options}"));
            let batch = batch(&mut random);
            let format = RowFormat::new(fields(&batch), CopyOptions::of(&copy).expect(options));
            for zone in ["UTC", "America/New_York"] {
                Zone::parse(zone).expect("a zone").run(|| agree(&format, &batch, options));
            }
        }
    }

    fn agree(format: &RowFormat, batch: &RecordBatch, options: &str) {
        let (mut fast, mut slow) = (CopyRows::default(), CopyRows::default());
        format.batch(batch, &mut fast);
        let oids = format.fields.iter().map(|field| field.sql_type.oid);
        let mut columns = Column::unprepared(batch, oids);
        match format.binary() {
            true => format.tuples(batch, &columns, &mut slow),
            false => format.lines(batch, &mut columns, &mut slow),
        }
        assert_eq!(fast.messages().count(), ROWS);
        for (row, (fast, slow)) in fast.messages().zip(slow.messages()).enumerate() {
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(shown(fast), shown(slow), "{options}, row {row}");
            assert_eq!(fast, slow, "{options}, row {row}");
        }
    }

    #[test]
    fn special_bytes_are_found() {
        let mut random = Random(froglet_testkit::seed());
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..random.below(30)).map(|_| random.next_u64() as u8).collect();
            let csv = Special::new(false, *b",\"\n\r");
            let wanted = bytes.iter().any(|b| matches!(b, b',' | b'"' | b'\n' | b'\r'));
            assert_eq!(csv.is_in(&bytes), wanted, "{bytes:?}");
            let text = Special::new(true, *b"\t\\\\\\");
            let wanted = bytes.iter().any(|b| *b < 32 || *b == b'\\');
            assert_eq!(text.is_in(&bytes), wanted, "{bytes:?}");
        }
    }
}
