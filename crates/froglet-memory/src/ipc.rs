//! Batches of an Arrow IPC file as they lie in it.
//!
//! ```text
//!   ARROW1 │ schema │ batch 0: message │ buffers … │ batch 1 … │ footer: schema, where batches are │ ARROW1
//!                                        ▲
//!                     a buffer handed out is a part of the file, aligned to 64 bytes
//! ```
//!
//! Arrow's own reader makes arrays, and goes through every value to see that they may be made. What a
//! checkpoint needs are the bytes: they are the cells of columns. So this reads the two structures that
//! say where buffers are (checked by `flatbuffers`), and checks each place against the file. Nothing in
//! a file is believed: what does not fit is an error that says what, and no number is a size by itself.
//!
//! Left out, because this program does not write it: dictionaries, nested types, compressed buffers,
//! other byte orders.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc::{
    DateUnit, Endianness, Field, IntervalUnit, MessageHeader, Precision, RecordBatch, TimeUnit,
    Type, root_as_footer, root_as_message,
};
use arrow_schema::DataType;
use smallvec::SmallVec;

const MAGIC: &[u8] = b"ARROW1";
/// Behind the footer: its length, and the magic again.
const TRAILER_BYTES: usize = 4 + MAGIC.len();
/// In front of a message: a mark, and its length.
const PREFIX_BYTES: usize = 8;
const MARK: [u8; 4] = [0xff; 4];

/// A file of batches, in memory.
#[derive(Debug)]
pub(crate) struct IpcFile {
    bytes: Buffer,
    fields: Vec<(String, DataType)>,
    /// Where each batch's message is, and its body.
    batches: Vec<(Range<usize>, Range<usize>)>,
}

/// One batch.
#[derive(Debug)]
pub(crate) struct IpcBatch<'f> {
    file: &'f IpcFile,
    pub rows: usize,
    columns: Vec<IpcColumn>,
}

/// A column of a batch.
#[derive(Clone, Debug)]
pub(crate) struct IpcColumn {
    pub nulls: usize,
    /// A bit for each row; empty where there is no NULL.
    pub validity: Buffer,
    /// Values, views or bits; of binaries offsets and bytes; of views then their strings.
    pub buffers: SmallVec<[Buffer; 2]>,
}

type Problem = String;

fn problem(error: impl std::fmt::Display) -> Problem {
    error.to_string()
}

/// From `start` so many bytes, if they are there.
fn within(all: &Range<usize>, start: i64, len: i64) -> Option<Range<usize>> {
    let start = all.start.checked_add(usize::try_from(start).ok()?)?;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    (end <= all.end).then_some(start..end)
}

fn type_of(field: &Field<'_>) -> Option<DataType> {
    if field.dictionary().is_some() {
        return None;
    }
    Some(match field.type_type() {
        Type::Bool => DataType::Boolean,
        Type::Int => {
            let int = field.type_as_int()?;
            match (int.is_signed(), int.bitWidth()) {
                (true, 16) => DataType::Int16,
                (true, 32) => DataType::Int32,
                (true, 64) => DataType::Int64,
                (false, 64) => DataType::UInt64,
                _ => return None,
            }
        }
        Type::FloatingPoint => match field.type_as_floating_point()?.precision() {
            Precision::SINGLE => DataType::Float32,
            Precision::DOUBLE => DataType::Float64,
            _ => return None,
        },
        Type::Decimal => {
            let decimal = field.type_as_decimal()?;
            let precision = u8::try_from(decimal.precision()).ok()?;
            let scale = i8::try_from(decimal.scale()).ok()?;
            (decimal.bitWidth() == 128).then_some(DataType::Decimal128(precision, scale))?
        }
        Type::Date => {
            (field.type_as_date()?.unit() == DateUnit::DAY).then_some(DataType::Date32)?
        }
        Type::Timestamp => {
            let timestamp = field.type_as_timestamp()?;
            let zone = timestamp.timezone().map(Arc::from);
            let unit = arrow_schema::TimeUnit::Microsecond;
            (timestamp.unit() == TimeUnit::MICROSECOND)
                .then_some(DataType::Timestamp(unit, zone))?
        }
        Type::Time => {
            let unit = arrow_schema::TimeUnit::Microsecond;
            (field.type_as_time()?.unit() == TimeUnit::MICROSECOND)
                .then_some(DataType::Time64(unit))?
        }
        Type::Interval => {
            let unit = arrow_schema::IntervalUnit::MonthDayNano;
            (field.type_as_interval()?.unit() == IntervalUnit::MONTH_DAY_NANO)
                .then_some(DataType::Interval(unit))?
        }
        Type::FixedSizeBinary => {
            DataType::FixedSizeBinary(field.type_as_fixed_size_binary()?.byteWidth())
        }
        Type::Utf8View => DataType::Utf8View,
        Type::BinaryView => DataType::BinaryView,
        Type::Binary => DataType::Binary,
        _ => return None,
    })
}

impl IpcFile {
    /// Looks where the batches are.
    pub fn open(bytes: Buffer) -> Result<IpcFile, Problem> {
        let trailer = bytes.len().checked_sub(TRAILER_BYTES).filter(|at| *at >= MAGIC.len());
        let trailer = trailer.ok_or("too short for an Arrow file")?;
        let (len, magic) = bytes[trailer..].split_at(4);
        if !bytes.starts_with(MAGIC) || magic != MAGIC {
            return Err("not an Arrow file".into());
        }
        let len = i32::from_le_bytes(len.try_into().expect("four bytes"));
        let footer_at = usize::try_from(len).ok().and_then(|len| trailer.checked_sub(len));
        let footer_at = footer_at.ok_or("the footer does not fit into the file")?;
        // A copy, aligned as the structures in it want it.
        let footer_bytes = Buffer::from_slice_ref(&bytes[footer_at..trailer]);
        let footer = root_as_footer(&footer_bytes).map_err(problem)?;
        let schema = footer.schema().ok_or("no schema")?;
        if schema.endianness() != Endianness::Little {
            return Err("of another byte order".into());
        }
        let mut fields = Vec::new();
        for field in schema.fields().into_iter().flatten() {
            let name = field.name().unwrap_or_default();
            let ty = type_of(&field).ok_or_else(|| format!("column {name} is of no known type"))?;
            fields.push((name.to_owned(), ty));
        }
        let mut batches = Vec::new();
        for block in footer.recordBatches().into_iter().flatten() {
            let all = 0..footer_at;
            let message = within(&all, block.offset(), i64::from(block.metaDataLength()));
            let place = message.and_then(|message| {
                let body = within(&(message.end..footer_at), 0, block.bodyLength())?;
                Some((message, body))
            });
            batches.push(place.ok_or("a batch does not lie within the file")?);
        }
        Ok(IpcFile { bytes, fields, batches })
    }

    /// How many batches there are.
    pub fn len(&self) -> usize {
        self.batches.len()
    }

    /// One batch.
    pub fn batch(&self, at: usize) -> Result<IpcBatch<'_>, Problem> {
        let (message, body) = self.batches.get(at).ok_or("there is no such batch")?.clone();
        let message = self.bytes.slice_with_length(message.start, message.len());
        let (prefix, rest) =
            message.split_at_checked(PREFIX_BYTES).ok_or("its message is short")?;
        let len = i32::from_le_bytes(prefix[4..].try_into().expect("four bytes"));
        let root = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let root = root.filter(|_| prefix[..4] == MARK).ok_or("its message does not fit")?;
        let message = root_as_message(root).map_err(problem)?;
        if message.header_type() != MessageHeader::RecordBatch {
            return Err("it is no batch of rows".into());
        }
        let batch = message.header_as_record_batch().ok_or("it has no header")?;
        if batch.compression().is_some() {
            return Err("it is compressed".into());
        }
        let rows = usize::try_from(batch.length()).map_err(problem)?;
        let columns = self.columns(&batch, rows, &body)?;
        Ok(IpcBatch { file: self, rows, columns })
    }

    fn columns(
        &self,
        batch: &RecordBatch<'_>,
        rows: usize,
        body: &Range<usize>,
    ) -> Result<Vec<IpcColumn>, Problem> {
        let mut nodes = batch.nodes().into_iter().flatten();
        let mut places = batch.buffers().into_iter().flatten();
        let mut variadic = batch.variadicBufferCounts().into_iter().flatten();
        let mut next = || {
            let place = places.next().ok_or("it has too few buffers")?;
            let place = within(body, place.offset(), place.length());
            let place = place.ok_or("a buffer does not lie within the batch")?;
            Ok::<Buffer, Problem>(self.bytes.slice_with_length(place.start, place.len()))
        };
        let mut columns = Vec::with_capacity(self.fields.len());
        for (name, ty) in &self.fields {
            let node = nodes.next().ok_or("it has too few columns")?;
            let nulls = usize::try_from(node.null_count()).map_err(problem)?;
            if usize::try_from(node.length()) != Ok(rows) || nulls > rows {
                return Err(format!("column {name} has {} rows, not {rows}", node.length()));
            }
            let validity = next()?;
            if nulls > 0 && validity.len() < rows.div_ceil(8) {
                return Err(format!("column {name} has a bitmap of {} bytes", validity.len()));
            }
            let more = match ty {
                DataType::Utf8View | DataType::BinaryView => {
                    variadic.next().ok_or("it does not count the strings of its views")?
                }
                DataType::Binary => 1,
                _ => 0,
            };
            let buffers = (0..=more).map(|_| next()).collect::<Result<_, _>>()?;
            columns.push(IpcColumn { nulls, validity, buffers });
        }
        Ok(columns)
    }
}

impl IpcBatch<'_> {
    /// The column of this name, which is to be of this type; none if there is none of this name.
    pub fn column(&self, name: &str, ty: &DataType) -> Result<Option<&IpcColumn>, Problem> {
        let fields = &self.file.fields;
        let Some(at) = fields.iter().position(|(known, _)| known == name) else { return Ok(None) };
        if fields[at].1 != *ty {
            return Err(format!("column {name} is of type {}, not {ty}", fields[at].1));
        }
        Ok(Some(&self.columns[at]))
    }

    /// The bits of a column of booleans without NULL.
    pub fn bits(&self, name: &str) -> Result<Vec<u64>, Problem> {
        let column = self.column(name, &DataType::Boolean)?;
        let column = column.filter(|column| column.nulls == 0);
        let column = column.ok_or_else(|| format!("there is no column {name} without NULL"))?;
        words(&column.buffers[0], self.rows).ok_or_else(|| format!("column {name} is too short"))
    }

    /// The numbers of a column of `UInt64` without NULL.
    pub fn numbers(&self, name: &str) -> Result<Vec<u64>, Problem> {
        let column = self.column(name, &DataType::UInt64)?;
        let column = column.filter(|column| column.nulls == 0);
        let column = column.ok_or_else(|| format!("there is no column {name} without NULL"))?;
        let bytes = self.rows.checked_mul(8).and_then(|bytes| column.buffers[0].get(..bytes));
        let bytes = bytes.ok_or_else(|| format!("column {name} is too short"))?;
        let word = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("eight bytes"));
        Ok(bytes.chunks_exact(8).map(word).collect())
    }
}

impl IpcColumn {
    /// The validity bits of so many rows, in words.
    pub fn validity_words(&self, rows: usize) -> Result<Vec<u64>, Problem> {
        if self.nulls == 0 {
            let mut all = vec![u64::MAX; rows.div_ceil(64)];
            mask(&mut all, rows);
            return Ok(all);
        }
        words(&self.validity, rows).ok_or_else(|| "a bitmap is too short".into())
    }
}

/// A bitmap in words; what is behind the rows is zero.
fn words(bits: &[u8], rows: usize) -> Option<Vec<u64>> {
    let bytes = bits.get(..rows.div_ceil(8))?;
    let mut words = Vec::with_capacity(rows.div_ceil(64));
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        words.push(u64::from_le_bytes(word));
    }
    mask(&mut words, rows);
    Some(words)
}

/// Clears the bits behind the last row.
fn mask(words: &mut [u64], rows: usize) {
    if !rows.is_multiple_of(64)
        && let Some(last) = words.last_mut()
    {
        *last &= (1 << (rows % 64)) - 1;
    }
}
