//! Between cells and Arrow arrays.
//!
//! A hot column is Arrow already but for being shared with writers, so materialising it is a copy of
//! its words, validity bits and views. The bytes of long strings are not copied: arrays share the
//! heap's chunks.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ByteViewType, Date32Type, Decimal128Type, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, GenericByteViewArray,
    PrimitiveArray, RecordBatch, RecordBatchOptions, StringViewArray,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_data::ByteView;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use crossbeam_epoch::Guard;
use froglet_engine::{ColumnType, IdMap, Value};

use crate::column::{
    Cell, Column, Found, Tag, Wanted, cell_of, outside_bytes, string_bytes, view_of,
};
use crate::heap::INLINE_MAX;
use crate::sync::atomic::Ordering;

/// Cells of one width.
#[derive(Debug)]
enum Data {
    W1(Vec<u8>),
    W2(Vec<u16>),
    W4(Vec<u32>),
    W8(Vec<u64>),
    W16(Vec<u128>),
}

macro_rules! each_width {
    ($data:expr, $cells:ident => $body:expr) => {
        match $data {
            Data::W1($cells) => $body,
            Data::W2($cells) => $body,
            Data::W4($cells) => $body,
            Data::W8($cells) => $body,
            Data::W16($cells) => $body,
        }
    };
}

impl Data {
    fn new(width: usize, rows: usize) -> Data {
        match width {
            1 => Data::W1(Vec::with_capacity(rows)),
            2 => Data::W2(Vec::with_capacity(rows)),
            4 => Data::W4(Vec::with_capacity(rows)),
            8 => Data::W8(Vec::with_capacity(rows)),
            _ => Data::W16(Vec::with_capacity(rows)),
        }
    }

    fn set(&mut self, at: usize, cell: u128) {
        match self {
            Data::W1(cells) => cells[at] = cell as u8,
            Data::W2(cells) => cells[at] = cell as u16,
            Data::W4(cells) => cells[at] = cell as u32,
            Data::W8(cells) => cells[at] = cell as u64,
            Data::W16(cells) => cells[at] = cell,
        }
    }

    fn extend(&mut self, n: usize, cell: u128) {
        match self {
            Data::W1(cells) => cells.resize(cells.len() + n, cell as u8),
            Data::W2(cells) => cells.resize(cells.len() + n, cell as u16),
            Data::W4(cells) => cells.resize(cells.len() + n, cell as u32),
            Data::W8(cells) => cells.resize(cells.len() + n, cell as u64),
            Data::W16(cells) => cells.resize(cells.len() + n, cell),
        }
    }

    /// Replaces everything by the first `rows` cells of a column; where it has no cells, by zeros.
    fn copy(&mut self, column: &Column, rows: usize) {
        each_width!(self, cells => cells.clear());
        for (run, count) in column.runs(rows) {
            let Some(run) = run else {
                self.extend(count, 0);
                continue;
            };
            match self {
                Data::W1(out) => out.extend(run.as_u8().iter().map(|c| c.load(RELAXED))),
                Data::W2(out) => out.extend(run.as_u16().iter().map(|c| c.load(RELAXED))),
                Data::W4(out) => out.extend(run.as_u32().iter().map(|c| c.load(RELAXED))),
                Data::W8(out) => out.extend(run.as_u64().iter().map(|c| c.load(RELAXED))),
                Data::W16(out) => out.extend(run.as_u64().chunks_exact(2).map(|pair| {
                    let lo = pair[0].load(RELAXED);
                    u128::from(lo) | (u128::from(pair[1].load(RELAXED)) << 64)
                })),
            }
        }
    }
}

const RELAXED: Ordering = Ordering::Relaxed;
/// No heap has a chunk with such a number: the first of the gather's own buffers.
const OWN_FIRST: u32 = 1 << 31;
/// They are not longer, or have one string: so offsets stay far below what 32 bits hold.
const OWN_BYTES_MAX: usize = 16 << 20;

/// One column of a batch in the making.
#[derive(Debug)]
pub(crate) struct Gather<'a> {
    wanted: &'a Wanted,
    column: Option<&'a Column>,
    data: Data,
    validity: Vec<u64>,
    len: usize,
    /// Bytes of long strings that are not in the column's heap: those of old versions.
    own: Vec<Vec<u8>>,
}

impl<'a> Gather<'a> {
    /// For `rows` rows of a column.
    pub fn of(found: &Found<'a>, rows: usize) -> Gather<'a> {
        let Found { wanted, column } = *found;
        Gather {
            wanted,
            column,
            data: Data::new(wanted.ty.width(), rows),
            validity: Vec::with_capacity(rows.div_ceil(64)),
            len: 0,
            own: Vec::new(),
        }
    }

    /// Replaces everything by the newest cells of the first `rows` rows.
    pub fn copy(&mut self, rows: usize) {
        self.validity.clear();
        self.own.clear();
        self.len = rows;
        if let Some(column) = self.column {
            self.data.copy(column, rows);
            column.copy_validity(rows, &mut self.validity);
            return;
        }
        each_width!(&mut self.data, cells => cells.clear());
        let missing = &self.wanted.missing;
        let cell = self.encode_value(missing);
        self.data.extend(rows, cell);
        self.validity.resize(rows.div_ceil(64), if missing.is_null() { 0 } else { u64::MAX });
    }

    fn encode_value(&mut self, value: &Value) -> u128 {
        match string_bytes(value) {
            Some(bytes) => self.encode_bytes(bytes),
            None => cell_of(value),
        }
    }

    fn encode_bytes(&mut self, bytes: &[u8]) -> u128 {
        let view = view_of(bytes);
        if bytes.len() <= INLINE_MAX {
            return view;
        }
        if self.own.last().is_none_or(|own| own.len() + bytes.len() > OWN_BYTES_MAX) {
            self.own.push(Vec::new());
        }
        let number = OWN_FIRST + self.own.len() as u32 - 1;
        let own = self.own.last_mut().expect("one was made");
        let offset = own.len() as u128;
        own.extend_from_slice(bytes);
        view | (u128::from(number) << 64) | (offset << 96)
    }

    fn encode(&mut self, cell: &Cell) -> (u128, bool) {
        match cell.tag {
            Tag::Value => (u128::from(cell.lo) | (u128::from(cell.hi) << 64), true),
            Tag::Null => (0, false),
            Tag::Missing => {
                let missing = &self.wanted.missing;
                (self.encode_value(missing), !missing.is_null())
            }
            Tag::Outside => (self.encode_bytes(outside_bytes(cell)), true),
        }
    }

    /// Replaces one cell.
    pub fn set(&mut self, at: usize, cell: &Cell) {
        let (cell, valid) = self.encode(cell);
        self.data.set(at, cell);
        let bit = 1u64 << (at % 64);
        if valid {
            self.validity[at / 64] |= bit;
        } else {
            self.validity[at / 64] &= !bit;
        }
    }

    /// Appends one cell.
    pub fn push(&mut self, cell: &Cell) {
        if self.len.is_multiple_of(64) {
            self.validity.push(0);
        }
        self.data.extend(1, 0);
        self.len += 1;
        self.set(self.len - 1, cell);
    }

    /// Keeps the cells at these positions, which ascend.
    pub fn keep(&mut self, positions: &[u32]) {
        each_width!(&mut self.data, cells => {
            for (to, &from) in positions.iter().enumerate() {
                cells[to] = cells[from as usize];
            }
            cells.truncate(positions.len());
        });
        let mut validity = vec![0u64; positions.len().div_ceil(64)];
        for (to, &from) in positions.iter().enumerate() {
            let from = from as usize;
            validity[to / 64] |= (self.validity[from / 64] >> (from % 64) & 1) << (to % 64);
        }
        self.validity = validity;
        self.len = positions.len();
    }

    /// The array. Views into the heap are followed under the pin they were copied under.
    pub fn finish(self, guard: &Guard) -> ArrayRef {
        let Gather { wanted, column, mut data, validity, len, own } = self;
        let mut strings = Vec::new();
        if let (true, Data::W16(views)) = (wanted.ty.is_view(), &mut data) {
            strings = share_strings(column, views, own, guard);
        }
        let cells = each_width!(data, cells => Buffer::from_vec(cells));
        // SAFETY: views come from validated cells, and their chunks are `strings` in their order.
        unsafe { array_of(wanted.ty, cells, validity, len, strings) }
    }
}

/// The chunks that views lie in, as buffers; the views then name the buffer instead of the chunk.
fn share_strings(
    column: Option<&Column>,
    views: &mut [u128],
    own: Vec<Vec<u8>>,
    guard: &Guard,
) -> Vec<Buffer> {
    let mut buffers: Vec<Buffer> = own.into_iter().map(Buffer::from_vec).collect();
    let mut places = IdMap::<u32, u32>::default();
    // Neighbours mostly lie in one chunk.
    let mut last = None;
    for view in views {
        if *view as u32 as usize <= INLINE_MAX {
            continue;
        }
        let chunk = (*view >> 64) as u32;
        let place = match last {
            Some((known, place)) if known == chunk => place,
            _ if chunk >= OWN_FIRST => chunk - OWN_FIRST,
            _ => *places.entry(chunk).or_insert_with(|| {
                let heap =
                    column.and_then(Column::heap).expect("a long string in place has a heap");
                buffers.push(heap.share(chunk as usize, guard));
                buffers.len() as u32 - 1
            }),
        };
        last = Some((chunk, place));
        *view = (*view & !(u128::from(u32::MAX) << 64)) | (u128::from(place) << 64);
    }
    buffers
}

fn primitive<T: ArrowPrimitiveType>(
    ty: ColumnType,
    cells: Buffer,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let array = PrimitiveArray::<T>::new(ScalarBuffer::from(cells), nulls);
    Arc::new(array.with_data_type(ty.arrow()))
}

/// Strings in buffers that hold nothing else. Rows that share a string still do.
pub(crate) fn compact_strings(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(compact_views(array.as_string_view())),
        DataType::BinaryView => Arc::new(compact_views(array.as_binary_view())),
        _ => Arc::clone(array),
    }
}

fn compact_views<T: ByteViewType>(array: &GenericByteViewArray<T>) -> GenericByteViewArray<T> {
    let len = |view: &u128| *view as u32 as usize;
    let long: usize = array.views().iter().map(len).filter(|len| *len > INLINE_MAX).sum();
    let there: usize = array.data_buffers().iter().map(Buffer::len).sum();
    if long == there {
        // As a rule no string is there twice: then the buffers hold nothing else.
        return array.clone();
    }
    // Offsets have 32 bits.
    if long < there || there > i32::MAX as usize {
        return array.gc();
    }
    let (mut strings, mut moved) = (Vec::new(), IdMap::<u128, u32>::default());
    let place = |view: &u128| {
        if len(view) <= INLINE_MAX {
            return *view;
        }
        let old = ByteView::from(*view);
        let offset = *moved.entry(*view).or_insert_with(|| {
            let (start, at) = (old.offset as usize, strings.len() as u32);
            let buffer = &array.data_buffers()[old.buffer_index as usize];
            strings.extend_from_slice(&buffer[start..start + old.length as usize]);
            at
        });
        ByteView { buffer_index: 0, offset, ..old }.as_u128()
    };
    let views: ScalarBuffer<u128> = array.views().iter().map(place).collect();
    let strings = vec![Buffer::from_vec(strings)];
    // SAFETY: each view has the length and the prefix of its string, which is in the one buffer.
    unsafe { GenericByteViewArray::new_unchecked(views, strings, array.nulls().cloned()) }
}

/// An array of truth values.
pub(crate) fn booleans(
    is_true: impl FnMut(usize) -> bool,
    nulls: Option<NullBuffer>,
    len: usize,
) -> ArrayRef {
    Arc::new(BooleanArray::new(BooleanBuffer::collect_bool(len, is_true), nulls))
}

/// The NULLs of `len` cells; bit 1 of `validity` is a value.
pub(crate) fn nulls_of(validity: Vec<u64>, len: usize) -> Option<NullBuffer> {
    let validity = BooleanBuffer::new(Buffer::from_vec(validity), 0, len);
    Some(NullBuffer::new(validity)).filter(|nulls| nulls.null_count() > 0)
}

/// An array of `len` cells in the layout of a column's; bit 1 of `validity` is a value.
///
/// # Safety
/// Views lie within their buffer of `strings`, their prefix is that of the string, and strings of a
/// text column are UTF-8. NULL cells are empty views [C2].
pub(crate) unsafe fn array_of(
    ty: ColumnType,
    cells: Buffer,
    validity: Vec<u64>,
    len: usize,
    strings: Vec<Buffer>,
) -> ArrayRef {
    let nulls = nulls_of(validity, len);
    match ty {
        ColumnType::Bool => booleans(|i| cells[i] != 0, nulls, len),
        ColumnType::Int16 => primitive::<Int16Type>(ty, cells, nulls),
        ColumnType::Int32 => primitive::<Int32Type>(ty, cells, nulls),
        ColumnType::Date => primitive::<Date32Type>(ty, cells, nulls),
        ColumnType::Float32 => primitive::<Float32Type>(ty, cells, nulls),
        ColumnType::Int64 => primitive::<Int64Type>(ty, cells, nulls),
        ColumnType::Float64 => primitive::<Float64Type>(ty, cells, nulls),
        ColumnType::Timestamp | ColumnType::TimestampTz => {
            primitive::<TimestampMicrosecondType>(ty, cells, nulls)
        }
        ColumnType::Decimal { .. } => primitive::<Decimal128Type>(ty, cells, nulls),
        ColumnType::Time => primitive::<Time64MicrosecondType>(ty, cells, nulls),
        ColumnType::Interval => primitive::<IntervalMonthDayNanoType>(ty, cells, nulls),
        ColumnType::Uuid => Arc::new(FixedSizeBinaryArray::new(16, cells, nulls)),
        ColumnType::Text => {
            // SAFETY: as the caller promises.
            let array = unsafe { StringViewArray::new_unchecked(cells.into(), strings, nulls) };
            Arc::new(array)
        }
        ColumnType::Bytes | ColumnType::Numeric => {
            // SAFETY: as the caller promises; bytes need not be UTF-8.
            let array = unsafe { BinaryViewArray::new_unchecked(cells.into(), strings, nulls) };
            Arc::new(array)
        }
    }
}

/// A schema for columns of these types, named by position.
pub(crate) fn schema_of<'a>(columns: impl Iterator<Item = &'a Wanted>) -> SchemaRef {
    let fields: Vec<Field> =
        columns.map(|c| Field::new(format!("c{}", c.id.0), c.ty.arrow(), true)).collect();
    Arc::new(Schema::new(fields))
}

/// A batch; `rows` counts where there are no columns.
pub(crate) fn batch(schema: SchemaRef, arrays: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, arrays, &options)
        .expect("arrays are of their columns' types")
}

/// The value at a position of an array of `ty.arrow()`; none if the array is of another type.
pub(crate) fn value_at(array: &dyn Array, ty: ColumnType, at: usize) -> Option<Value> {
    (array.data_type() == &ty.arrow()).then(|| froglet_engine::batch::value_at(array, at, ty))
}
