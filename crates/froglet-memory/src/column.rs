//! One column of one block: 8,192 cells in Arrow's layout, as atomics.
//!
//! ```text
//!   validity  1 bit per row, 1 = not NULL
//!   cells     1, 2, 4, 8 or 16 bytes per row, little-endian; bool one byte
//!             text, bytes and numeric: Arrow views, long strings in the column's heap
//! ```
//!
//! A column has cells for as many rows as its block has reserved, see [`crate::cells`]. It is hot, as above, or
//! frozen (see [`frozen`]): then its cells are an Arrow array too, and stay. They may lie in a file, see
//! [`mapped`].
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
use froglet_engine::{ColumnId, ColumnType, Interval, Value, numeric};

pub(crate) use self::frozen::Freezing;
use self::frozen::Frozen;
use crate::block::Directory;
use crate::cells::{Bits, Cells, Run};
use crate::heap::{Chunk, Heap, HeapState, INLINE_MAX, Move};
use crate::memory::Budget;
use crate::sync::atomic::Ordering;

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

/// What an undo record keeps of a long string.
#[derive(Clone, Debug)]
pub(crate) enum Long<'g> {
    /// Bytes to be copied; none of what is no long string.
    Copied(&'g [u8]),
    /// The chunk that the string has for itself.
    Shared(Arc<Chunk>),
}

impl<'g> Long<'g> {
    /// What is to be copied.
    pub fn copied(&self) -> &'g [u8] {
        match self {
            Long::Copied(bytes) => bytes,
            Long::Shared(_) => &[],
        }
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
    cells: Cells,
    validity: Bits,
    heap: Option<Arc<Heap>>,
    frozen: Option<Box<Frozen>>,
}

impl Column {
    /// A column whose every cell has the missing value, for so many rows, not yet published.
    pub fn new(
        id: ColumnId,
        ty: ColumnType,
        missing: &Value,
        rows: usize,
        budget: &Arc<Budget>,
    ) -> Column {
        debug_assert!(ty.accepts(missing), "a missing value is of its column's type");
        let column = Column {
            id,
            ty,
            missing: missing.clone(),
            width: ty.width(),
            cells: Cells::new(ty.width(), Self::beside_bytes(ty), budget),
            validity: Bits::default(),
            heap: ty.is_view().then(|| Arc::new(Heap::new(Arc::clone(budget)))),
            frozen: None,
        };
        column.grow(rows);
        column.fill_missing(rows);
        column
    }

    /// What a column takes beside its cells. Most have more rows than the first word of validity has bits.
    fn beside_bytes(ty: ColumnType) -> usize {
        let heap = if ty.is_view() { size_of::<Heap>() } else { 0 };
        size_of::<Column>() + heap + Bits::REST_BYTES
    }

    /// What a new column will take for so many rows.
    pub fn bytes_for(ty: ColumnType, rows: usize) -> usize {
        Self::beside_bytes(ty) + rows * ty.width()
    }

    /// What [`Column::grow`] will take.
    pub fn lacking_bytes(&self, rows: usize) -> usize {
        self.cells.lacking_bytes(rows)
    }

    /// Makes the cells of the first `rows` rows that are not there, of a column that is not frozen. Who inserts a
    /// row there stores every column. Under the block's latch `growth`, or before the column is published.
    pub fn grow(&self, rows: usize) {
        debug_assert!(self.frozen.is_none(), "a frozen column has its rows");
        self.validity.grow(rows);
        self.cells.grow(rows);
    }

    /// Rows that are there before the column have the missing value.
    fn fill_missing(&self, rows: usize) {
        if self.missing.is_null() || rows == 0 {
            return;
        }
        self.validity.store_all(&vec![u64::MAX; rows.div_ceil(64)]);
        let (lo, mut hi) = match string_bytes(&self.missing) {
            Some(bytes) => halves(view_of(bytes)),
            None => fixed_cell(&self.missing),
        };
        if let Some(bytes) = string_bytes(&self.missing).filter(|b| b.len() > INLINE_MAX) {
            let heap = self.heap.as_ref().expect("a string column has a heap");
            let mut state = heap.latch.lock();
            // Rows share the one copy.
            hi = heap.append(&mut state, bytes);
            state.refer(hi, bytes.len(), rows - 1);
        }
        if (lo, hi) != (0, 0) {
            (0..rows).for_each(|slot| self.put(slot, lo, hi));
        }
    }

    /// Bytes on the account, heap apart.
    pub fn bytes(&self) -> usize {
        self.cells.bytes()
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
        self.validity.get(slot)
    }

    #[inline]
    fn get(&self, slot: usize) -> (u64, u64) {
        self.cells.load(slot, || self.between_halves(slot))
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
        self.cells.store(slot, (lo, hi), || self.between_halves(slot));
    }

    #[inline]
    fn set_valid(&self, slot: usize, valid: bool) {
        self.validity.set(slot, valid);
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

    /// Stores what was copied into an undo record, which may share the chunk of a string. See
    /// [`Column::store`].
    pub fn restore(&self, slot: usize, cell: &Cell, shared: Option<&Arc<Chunk>>, guard: &Guard) {
        match (cell.tag, shared) {
            (Tag::Null | Tag::Missing, _) => self.store_null(slot, guard),
            (Tag::Outside, Some(chunk)) => {
                let chunk = Arc::clone(chunk);
                let heap = self.heap.as_ref().expect("a string column has a heap");
                self.store_view(slot, true, guard, |state| (cell.lo, heap.adopt(state, chunk)));
            }
            (Tag::Outside, None) => {
                let bytes = outside_bytes(cell);
                self.store_string(slot, Some(bytes), guard);
            }
            (Tag::Value, _) if self.heap.is_some() => {
                debug_assert!(!cell.is_long(), "an undo record has its own copy of a long string");
                let view = whole(cell.lo, cell.hi).to_le_bytes();
                self.store_string(slot, Some(&view[4..4 + cell.lo as u32 as usize]), guard);
            }
            (Tag::Value, _) => {
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
        self.store_view(slot, bytes.is_some(), guard, |state| {
            let (lo, hi) = bytes.map_or((0, 0), |bytes| halves(view_of(bytes)));
            match bytes {
                Some(bytes) if bytes.len() > INLINE_MAX => (lo, heap.append(state, bytes)),
                _ => (lo, hi),
            }
        });
    }

    /// Stores a view that is made under the heap's latch.
    fn store_view(
        &self,
        slot: usize,
        valid: bool,
        guard: &Guard,
        view: impl FnOnce(&mut HeapState) -> (u64, u64),
    ) {
        let heap = self.heap.as_ref().expect("a string column has a heap");
        let mut state = heap.latch.lock();
        let (old_lo, old_hi) = self.get(slot);
        let (lo, hi) = view(&mut state);
        self.put(slot, lo, hi);
        self.set_valid(slot, valid);
        let old_len = old_lo as u32 as usize;
        if old_len > INLINE_MAX {
            heap.forget(&mut state, old_hi, old_len, guard);
            if state.is_wasteful() {
                heap.compact(&mut state, guard, &mut |relocate| self.relocate(relocate));
            }
        }
    }

    /// Every long view in place, by slot. Under the heap's latch.
    fn long_views(&self, mut visit: impl FnMut(usize, u64, u64)) {
        let mut slot = 0;
        for (run, rows) in self.cells.runs(crate::cells::ROWS) {
            for pair in run.iter().flat_map(|run| run.as_u64().chunks_exact(2)) {
                let lo = pair[0].load(Ordering::Relaxed);
                if lo as u32 as usize > INLINE_MAX {
                    visit(slot, lo, pair[1].load(Ordering::Relaxed));
                }
                slot += 1;
            }
            slot += if run.is_none() { rows } else { 0 };
        }
    }

    /// Under the heap's latch: gives long views a new second word.
    fn relocate(&self, relocate: &mut Move<'_>) {
        self.long_views(|slot, lo, hi| {
            let new = relocate(lo, hi);
            if new != hi {
                // Readers that load a new second word acquire the chunk it points into.
                self.cells.store_second(slot, new);
            }
        });
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

    /// What an undo record keeps of a validated cell.
    pub fn long<'g>(&self, cell: &Cell, guard: &'g Guard) -> Long<'g> {
        match (&self.heap, cell.tag) {
            (Some(heap), Tag::Value) if cell.is_long() => {
                let alone = heap.alone(cell.lo, cell.hi, guard);
                let copied = || Long::Copied(heap.bytes(cell.lo, cell.hi, guard));
                alone.map_or_else(copied, Long::Shared)
            }
            _ => Long::Copied(&[]),
        }
    }

    /// The heap of a string column.
    pub fn heap(&self) -> Option<&Arc<Heap>> {
        self.heap.as_ref()
    }

    /// Copies the validity bits of the first `rows` rows.
    pub fn copy_validity(&self, rows: usize, out: &mut Vec<u64>) {
        self.validity.copy(rows, out);
    }

    /// The cells of the first rows, in runs.
    pub fn runs(&self, rows: usize) -> impl Iterator<Item = (Option<Run<'_>>, usize)> {
        self.cells.runs(rows)
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
