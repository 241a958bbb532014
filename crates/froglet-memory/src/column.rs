//! One column of one block: 8,192 cells in Arrow's layout, as atomics.
//!
//! ```text
//!   validity  1 bit per row, 1 = not NULL
//!   cells     1, 2, 4, 8 or 16 bytes per row, little-endian; bool one byte
//!             text, bytes and numeric: Arrow views, long strings in the column's heap
//! ```
//!
//! A column is hot, as above, or frozen (see [`frozen`]): then its cells are an Arrow array too, and
//! stay. They may lie in a file, see [`mapped`].
//!
//! **[C1]** Cells of a row are stored only by the transaction that owns the row (its record heads the
//! row's chain), by a migration under the block's fill sequence, or before the column is published.
//! **[C2]** A cell that is NULL has all-zero bytes.
//! A reader copies cells with relaxed loads and then validates (see `block`); what it copied before
//! the validation may be torn and must not be followed.

mod frozen;
mod mapped;

use std::sync::Arc;

use compact_str::CompactString;
use crossbeam_epoch::Guard;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{ColumnId, ColumnType, Interval, Value, numeric};

pub(crate) use self::frozen::Freezing;
use self::frozen::Frozen;
use crate::block::Directory;
use crate::heap::{Heap, INLINE_MAX, Move};
use crate::memory::{Budget, Zeroed};
use crate::sync::atomic::{AtomicU64, Ordering};

/// 64-bit words of a bitmap over a block's rows.
/// A model checker's blocks use the first rows only.
pub(crate) const BITMAP_WORDS: usize = if cfg!(shuttle) { 1 } else { ROWS_PER_BLOCK / 64 };

/// What a copied cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Tag {
    /// The block lacks the column: its missing value.
    Missing,
    /// SQL NULL.
    Null,
    /// `lo` and `hi` are the cell; a long string is in the column's heap.
    Value,
    /// A long string whose bytes are in an undo record, at address `hi`.
    Outside,
}

/// A copied cell.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Cell {
    pub lo: u64,
    pub hi: u64,
    pub tag: Tag,
}

impl Cell {
    pub const MISSING: Cell = Cell { lo: 0, hi: 0, tag: Tag::Missing };
    pub const NULL: Cell = Cell { lo: 0, hi: 0, tag: Tag::Null };

    fn of(lo: u64, hi: u64) -> Cell {
        Cell { lo, hi, tag: Tag::Value }
    }

    /// Whether this is a view whose bytes lie elsewhere.
    pub fn is_long(&self) -> bool {
        self.lo as u32 as usize > INLINE_MAX
    }
}

/// A column as some reader or writer wants it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub id: ColumnId,
    pub ty: ColumnType,
    pub missing: Value,
    /// Where a block's directory probably has it.
    pub hint: usize,
}

impl Wanted {
    /// Looks the column up in a block.
    pub fn find<'a>(&'a self, directory: &'a Directory) -> Found<'a> {
        Found { wanted: self, column: directory.find(self.id, self.hint).map(Arc::as_ref) }
    }
}

/// A wanted column and what a block has of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub wanted: &'a Wanted,
    pub column: Option<&'a Column>,
}

impl Found<'_> {
    /// Copies a cell, see [`Column::load`].
    #[inline]
    pub fn load(&self, slot: usize) -> Cell {
        self.column.map_or(Cell::MISSING, |column| column.load(slot))
    }

    /// Copies a cell as [`Column::load_whole`] does.
    pub fn load_whole(&self, slot: usize) -> Cell {
        self.column.map_or(Cell::MISSING, |column| column.load_whole(slot))
    }

    /// The value of a validated cell.
    pub fn value(&self, cell: &Cell, guard: &Guard) -> Value {
        value_of(cell, self.wanted.ty, self.column, &self.wanted.missing, guard)
    }
}

/// The cell of a value of fixed width.
fn fixed_cell(value: &Value) -> (u64, u64) {
    match value {
        Value::Null => (0, 0),
        Value::Bool(v) => (u64::from(*v), 0),
        Value::Int16(v) => (u64::from(*v as u16), 0),
        Value::Int32(v) | Value::Date(v) => (u64::from(*v as u32), 0),
        Value::Int64(v) | Value::Timestamp(v) | Value::TimestampTz(v) | Value::Time(v) => {
            (*v as u64, 0)
        }
        Value::Float32(v) => (u64::from(v.to_bits()), 0),
        Value::Float64(v) => (v.to_bits(), 0),
        Value::Decimal(v) => (*v as u64, (*v as u128 >> 64) as u64),
        Value::Uuid(v) => halves(u128::from_le_bytes(*v)),
        // As Arrow lays it out: months, days, nanoseconds.
        Value::Interval(v) => {
            let lo = u64::from(v.months as u32) | u64::from(v.days as u32) << 32;
            (lo, v.nanoseconds() as u64)
        }
        Value::Text(_) | Value::Bytes(_) | Value::Numeric(_) => unreachable!("strings are views"),
    }
}

/// The cell of a value that is no string, as one number.
pub(crate) fn cell_of(value: &Value) -> u128 {
    let (lo, hi) = fixed_cell(value);
    whole(lo, hi)
}

/// The value of a cell of fixed width.
fn fixed_value(ty: ColumnType, lo: u64, hi: u64) -> Value {
    match ty {
        ColumnType::Bool => Value::Bool(lo != 0),
        ColumnType::Int16 => Value::Int16(lo as i16),
        ColumnType::Int32 => Value::Int32(lo as i32),
        ColumnType::Date => Value::Date(lo as i32),
        ColumnType::Int64 => Value::Int64(lo as i64),
        ColumnType::Timestamp => Value::Timestamp(lo as i64),
        ColumnType::TimestampTz => Value::TimestampTz(lo as i64),
        ColumnType::Float32 => Value::Float32(f32::from_bits(lo as u32)),
        ColumnType::Float64 => Value::Float64(f64::from_bits(lo)),
        ColumnType::Decimal { .. } => Value::Decimal(whole(lo, hi) as i128),
        ColumnType::Uuid => Value::Uuid(whole(lo, hi).to_le_bytes()),
        ColumnType::Time => Value::Time(lo as i64),
        ColumnType::Interval => {
            Value::Interval(Interval::of_arrow(lo as i32, (lo >> 32) as i32, hi as i64))
        }
        ColumnType::Text | ColumnType::Bytes | ColumnType::Numeric => {
            unreachable!("strings are views")
        }
    }
}

fn halves(v: u128) -> (u64, u64) {
    (v as u64, (v >> 64) as u64)
}

fn whole(lo: u64, hi: u64) -> u128 {
    u128::from(lo) | (u128::from(hi) << 64)
}

/// The view of a string: whole if it is short, else length and prefix.
pub(crate) fn view_of(bytes: &[u8]) -> u128 {
    let mut view = [0; 16];
    let len = u32::try_from(bytes.len()).expect("a string is shorter than 4 GiB");
    view[..4].copy_from_slice(&len.to_le_bytes());
    let inline = if bytes.len() <= INLINE_MAX { bytes.len() } else { 4 };
    view[4..4 + inline].copy_from_slice(&bytes[..inline]);
    u128::from_le_bytes(view)
}

/// The bytes of a text, bytea or numeric value.
pub(crate) fn string_bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Text(s) => Some(s.as_bytes()),
        Value::Bytes(b) | Value::Numeric(b) => Some(b),
        _ => None,
    }
}

fn string_value(ty: ColumnType, bytes: &[u8]) -> Value {
    match ty {
        ColumnType::Text => {
            let text = std::str::from_utf8(bytes)
                .expect("a validated text cell holds what a str put there");
            Value::Text(CompactString::new(text))
        }
        ColumnType::Numeric => Value::Numeric(bytes.into()),
        _ => Value::Bytes(bytes.into()),
    }
}

/// One column of one block.
#[derive(Debug)]
pub(crate) struct Column {
    pub id: ColumnId,
    pub ty: ColumnType,
    /// The value of rows that were there before the column, or whose writer did not know it.
    pub missing: Value,
    width: usize,
    cells: Zeroed,
    validity: Box<[AtomicU64]>,
    heap: Option<Arc<Heap>>,
    frozen: Option<Box<Frozen>>,
}

impl Column {
    /// A column whose every cell has the missing value, not yet published.
    pub fn new(
        id: ColumnId,
        ty: ColumnType,
        missing: &Value,
        budget: &Arc<Budget>,
        guard: &Guard,
    ) -> Column {
        debug_assert!(ty.accepts(missing), "a missing value is of its column's type");
        let column = Column {
            id,
            ty,
            missing: missing.clone(),
            width: ty.width(),
            cells: Zeroed::new(ROWS_PER_BLOCK * ty.width()),
            validity: (0..BITMAP_WORDS).map(|_| AtomicU64::new(0)).collect(),
            heap: ty.is_view().then(|| Arc::new(Heap::new(Arc::clone(budget)))),
            frozen: None,
        };
        column.fill_missing(guard);
        column
    }

    fn fill_missing(&self, guard: &Guard) {
        if self.missing.is_null() {
            return;
        }
        for word in &self.validity {
            word.store(u64::MAX, Ordering::Relaxed);
        }
        match string_bytes(&self.missing) {
            // Rows share the one copy; moving it later makes a copy for each.
            Some(bytes) if bytes.len() > INLINE_MAX => {
                self.store(0, &self.missing, guard);
                let first = self.load(0);
                (1..ROWS_PER_BLOCK).for_each(|slot| self.put(slot, first.lo, first.hi));
            }
            Some(bytes) => {
                let (lo, hi) = halves(view_of(bytes));
                (0..ROWS_PER_BLOCK).for_each(|slot| self.put(slot, lo, hi));
            }
            None => match fixed_cell(&self.missing) {
                (0, 0) => {}
                (lo, hi) => (0..ROWS_PER_BLOCK).for_each(|slot| self.put(slot, lo, hi)),
            },
        }
    }

    /// Bytes of one row, heap apart.
    pub fn row_bytes(&self) -> usize {
        self.width
    }

    /// Copies a cell. Torn unless the row is validated afterwards.
    #[inline]
    pub fn load(&self, slot: usize) -> Cell {
        if !self.is_valid(slot) {
            return Cell::NULL;
        }
        let (lo, hi) = self.get(slot);
        Cell::of(lo, hi)
    }

    /// Copies a cell that may be followed even while its row is being written: a view is stored
    /// under the heap's latch [H2], so under the latch it is whole.
    pub fn load_whole(&self, slot: usize) -> Cell {
        let _latch = self.heap.as_ref().map(|heap| heap.latch.lock());
        self.load(slot)
    }

    /// The value in place, of a row that nobody else may change.
    pub fn value(&self, slot: usize, guard: &Guard) -> Value {
        let cell = self.load_whole(slot);
        value_of(&cell, self.ty, Some(self), &self.missing, guard)
    }

    #[inline]
    fn is_valid(&self, slot: usize) -> bool {
        let slot = if cfg!(shuttle) { slot % 64 } else { slot };
        self.validity[slot / 64].load(Ordering::Relaxed) >> (slot % 64) & 1 == 1
    }

    #[inline]
    fn get(&self, slot: usize) -> (u64, u64) {
        match self.width {
            1 => (u64::from(self.cells.as_u8()[slot].load(Ordering::Relaxed)), 0),
            2 => (u64::from(self.cells.as_u16()[slot].load(Ordering::Relaxed)), 0),
            4 => (u64::from(self.cells.as_u32()[slot].load(Ordering::Relaxed)), 0),
            8 => (self.cells.as_u64()[slot].load(Ordering::Relaxed), 0),
            _ => {
                let cells = self.cells.as_u64();
                let lo = cells[2 * slot].load(Ordering::Relaxed);
                self.between_halves(slot);
                (lo, cells[2 * slot + 1].load(Ordering::Relaxed))
            }
        }
    }

    /// A cell of two words may be torn between them. Cells are no model checker's atomics, so the
    /// point where it may switch tasks is made here.
    #[inline]
    fn between_halves(&self, slot: usize) {
        if cfg!(shuttle) {
            self.is_valid(slot);
        }
    }

    #[inline]
    fn put(&self, slot: usize, lo: u64, hi: u64) {
        debug_assert!(self.frozen.is_none(), "nothing is stored to a frozen column");
        match self.width {
            1 => self.cells.as_u8()[slot].store(lo as u8, Ordering::Relaxed),
            2 => self.cells.as_u16()[slot].store(lo as u16, Ordering::Relaxed),
            4 => self.cells.as_u32()[slot].store(lo as u32, Ordering::Relaxed),
            8 => self.cells.as_u64()[slot].store(lo, Ordering::Relaxed),
            _ => {
                let cells = self.cells.as_u64();
                cells[2 * slot].store(lo, Ordering::Relaxed);
                self.between_halves(slot);
                cells[2 * slot + 1].store(hi, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    fn set_valid(&self, slot: usize, valid: bool) {
        set_bit(&self.validity, slot, valid);
    }

    /// Stores a value; the caller is allowed to by [C1]. Never fails: memory was admitted before.
    pub fn store(&self, slot: usize, value: &Value, guard: &Guard) {
        debug_assert!(self.ty.accepts(value), "{value:?} in a column of type {:?}", self.ty);
        if let Value::Numeric(bytes) = value {
            debug_assert!(numeric::is_well_formed(bytes), "{value:02x?} is no number");
        }
        if self.heap.is_some() {
            self.store_string(slot, string_bytes(value), guard);
            return;
        }
        self.set_valid(slot, !value.is_null());
        let (lo, hi) = fixed_cell(value);
        self.put(slot, lo, hi);
    }

    /// Stores what was copied into an undo record. See [`Column::store`].
    pub fn restore(&self, slot: usize, cell: &Cell, guard: &Guard) {
        match cell.tag {
            Tag::Null | Tag::Missing => self.store_null(slot, guard),
            Tag::Outside => {
                let bytes = outside_bytes(cell);
                self.store_string(slot, Some(bytes), guard);
            }
            Tag::Value if self.heap.is_some() => {
                debug_assert!(!cell.is_long(), "an undo record has its own copy of a long string");
                let view = whole(cell.lo, cell.hi).to_le_bytes();
                self.store_string(slot, Some(&view[4..4 + cell.lo as u32 as usize]), guard);
            }
            Tag::Value => {
                self.set_valid(slot, true);
                self.put(slot, cell.lo, cell.hi);
            }
        }
    }

    fn store_null(&self, slot: usize, guard: &Guard) {
        if self.heap.is_some() {
            self.store_string(slot, None, guard);
        } else {
            self.set_valid(slot, false);
            self.put(slot, 0, 0);
        }
    }

    fn store_string(&self, slot: usize, bytes: Option<&[u8]>, guard: &Guard) {
        let heap = self.heap.as_ref().expect("a string column has a heap");
        let mut state = heap.latch.lock();
        let (old, _) = self.get(slot);
        let (mut lo, mut hi) = (0, 0);
        if let Some(bytes) = bytes {
            (lo, hi) = halves(view_of(bytes));
            if bytes.len() > INLINE_MAX {
                hi = heap.append(&mut state, bytes);
            }
        }
        self.put(slot, lo, hi);
        self.set_valid(slot, bytes.is_some());
        let old_len = old as u32 as usize;
        if old_len > INLINE_MAX {
            state.waste(old_len);
            if state.is_wasteful() {
                heap.compact(&mut state, guard, &mut |relocate| self.relocate(relocate));
            }
        }
    }

    /// Under the heap's latch: gives every long view a new second word.
    fn relocate(&self, relocate: &mut Move<'_>) {
        // Readers that load a new second word acquire the chunk it points into.
        let cells = self.cells.as_u64();
        for slot in 0..ROWS_PER_BLOCK {
            let lo = cells[2 * slot].load(Ordering::Relaxed);
            if lo as u32 as usize > INLINE_MAX {
                let hi = relocate(lo, cells[2 * slot + 1].load(Ordering::Relaxed));
                cells[2 * slot + 1].store(hi, Ordering::Release);
            }
        }
    }

    /// Forgets a string in a slot that no reader can see any more. A frozen column keeps it.
    pub fn clear_string(&self, slot: usize, guard: &Guard) {
        if self.heap.is_some() && self.frozen.is_none() {
            self.store_string(slot, None, guard);
        }
    }

    /// The bytes of a long string in a validated cell; empty for every other cell.
    pub fn long_bytes<'g>(&self, cell: &Cell, guard: &'g Guard) -> &'g [u8] {
        match (&self.heap, cell.tag) {
            (Some(heap), Tag::Value) if cell.is_long() => heap.bytes(cell.lo, cell.hi, guard),
            _ => &[],
        }
    }

    /// The heap of a string column.
    pub fn heap(&self) -> Option<&Arc<Heap>> {
        self.heap.as_ref()
    }

    /// Copies the validity bits of the first `rows` rows.
    pub fn copy_validity(&self, rows: usize, out: &mut Vec<u64>) {
        out.extend(self.validity[..rows.div_ceil(64)].iter().map(|w| w.load(Ordering::Relaxed)));
    }

    /// The cells as bytes (bool), or as words of the cell's width.
    pub fn cells(&self) -> &Zeroed {
        &self.cells
    }
}

/// The value of a validated cell. `column` is the column in its block, if the block has it.
pub(crate) fn value_of(
    cell: &Cell,
    ty: ColumnType,
    column: Option<&Column>,
    missing: &Value,
    guard: &Guard,
) -> Value {
    match cell.tag {
        Tag::Missing => missing.clone(),
        Tag::Null => Value::Null,
        Tag::Value if !ty.is_view() => fixed_value(ty, cell.lo, cell.hi),
        Tag::Value if !cell.is_long() => {
            let view = whole(cell.lo, cell.hi).to_le_bytes();
            string_value(ty, &view[4..4 + cell.lo as u32 as usize])
        }
        Tag::Value => {
            let heap = column.and_then(Column::heap).expect("a long string in place has a heap");
            string_value(ty, heap.bytes(cell.lo, cell.hi, guard))
        }
        Tag::Outside => string_value(ty, outside_bytes(cell)),
    }
}

/// The bytes of a long string that an undo record holds.
pub(crate) fn outside_bytes(cell: &Cell) -> &[u8] {
    assert!(cell.tag == Tag::Outside, "only an undo record's cell points outside");
    let start = std::ptr::with_exposed_provenance(cell.hi as usize);
    // SAFETY: `UndoBuffer::push` wrote as many bytes there; cells are copied out of records and
    // used under one epoch pin or by the record's owner ([U1]).
    unsafe { std::slice::from_raw_parts(start, cell.lo as u32 as usize) }
}

/// Sets or clears one bit that only the caller may change, among bits that others change.
#[inline]
pub(crate) fn set_bit(words: &[AtomicU64], at: usize, on: bool) {
    let (word, bit) = (&words[at / 64], 1u64 << (at % 64));
    if (word.load(Ordering::Relaxed) & bit != 0) == on {
        return;
    }
    if on {
        word.fetch_or(bit, Ordering::Relaxed);
    } else {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}
