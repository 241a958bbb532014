//! The cells of one column in one block, or the heads of its rows: memory that comes as rows do.
//!
//! ```text
//!   segment    0        1          2           3                   7
//!   slots      0 ─ 63 │ 64 ─ 127 │ 128 ─ 255 │ 256 ─ 511 │ … │ 4096 ─ 8191
//!              └────── one piece: frozen, thawed, or mapped ─┘   └ made by itself
//! ```
//!
//! So a table of ten rows costs kilobytes, and one of a million no more than its rows.
//!
//! **[S1]** A segment comes once, zeroed, and never moves or goes: who grows a block disturbs neither readers nor
//! writers. Which segments there are changes under the block's latch `growth` only.
//! **[S2]** Nothing is stored to a slot that has no segment: see `block`, [B5]. Who loads from one reads zeros,
//! and is about to find that there is no row, or that the head has changed.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
// Cells are laid over raw memory, which a model checker's atomics cannot be; and where segments start is asked
// when a column goes, which may be in a later schedule.
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64 as RawU64};

use froglet_engine::id::ROWS_PER_BLOCK;

use crate::memory::{Budget, Zeroed};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Rows of the first segment. A model checker's blocks have 64 rows, and grow all the same; so do Miri's.
const FIRST_ROWS: usize = if cfg!(any(shuttle, miri)) { 2 } else { 64 };
const SEGMENTS: usize = match () {
    () if cfg!(shuttle) => 6,
    () if cfg!(miri) => 13,
    () => 8,
};
/// Rows that a block has room for.
pub(crate) const ROWS: usize = FIRST_ROWS << (SEGMENTS - 1);
const _: () = assert!(cfg!(shuttle) || ROWS == ROWS_PER_BLOCK, "segments make up a block");
const BIT_WORDS: usize = ROWS.div_ceil(64);

/// A segment, and a slot's position in it.
#[inline]
fn place(slot: usize) -> (usize, usize) {
    if slot < FIRST_ROWS {
        return (0, slot);
    }
    let doubled = (slot / FIRST_ROWS).ilog2() as usize;
    (doubled + 1, slot - (FIRST_ROWS << doubled))
}

fn first_of(segment: usize) -> usize {
    if segment == 0 { 0 } else { FIRST_ROWS << (segment - 1) }
}

fn rows_of(segment: usize) -> usize {
    (FIRST_ROWS << segment) - first_of(segment)
}

/// So many rows and the rest of their last segment.
pub(crate) fn whole_segments(rows: usize) -> usize {
    debug_assert!(rows <= ROWS, "{rows} rows in a block");
    if rows == 0 { 0 } else { rows.max(FIRST_ROWS).next_power_of_two() }
}

/// Bytes of a piece for so many rows: whole words, and not none.
pub(crate) fn piece_bytes(rows: usize, width: usize) -> usize {
    (rows * width).next_multiple_of(8).max(8)
}

/// Cells that lie one behind the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    start: NonNull<u8>,
    /// The cells' own atomics.
    bytes: usize,
    owner: std::marker::PhantomData<&'a Cells>,
}

impl<'a> Run<'a> {
    pub fn as_u8(&self) -> &'a [AtomicU8] {
        // SAFETY: zeroed before it was published, kept as long as `Cells`; every access goes through
        // atomics of one width, because a column's width never changes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes) }
    }

    pub fn as_u16(&self) -> &'a [AtomicU16] {
        // SAFETY: as in `as_u8`; the start is aligned to its cells.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / 2) }
    }

    pub fn as_u32(&self) -> &'a [AtomicU32] {
        // SAFETY: as in `as_u16`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / 4) }
    }

    pub fn as_u64(&self) -> &'a [RawU64] {
        // SAFETY: as in `as_u16`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes / 8) }
    }

    /// Copies the cells to a place in a piece, which nobody else has. Loads are of the cells' width, for somebody may
    /// store meanwhile.
    fn copy_to(&self, piece: &Zeroed, first: usize, width: usize) {
        const RELAXED: Ordering = Ordering::Relaxed;
        macro_rules! copy {
            ($cells:ident, $first:expr) => {
                for (to, from) in piece.$cells()[$first..].iter().zip(self.$cells()) {
                    to.store(from.load(RELAXED), RELAXED);
                }
            };
        }
        match width {
            1 => copy!(as_u8, first),
            2 => copy!(as_u16, first),
            4 => copy!(as_u32, first),
            8 => copy!(as_u64, first),
            _ => copy!(as_u64, 2 * first),
        }
    }
}

/// Cells of 1, 2, 4, 8 or 16 bytes by slot.
#[derive(Debug)]
pub(crate) struct Cells {
    /// Where each segment starts; null: there is none.
    starts: [AtomicPtr<u8>; SEGMENTS],
    width: usize,
    /// What the first segments lie in, and how many rows that are.
    piece: Option<(Zeroed, usize)>,
    /// On the account beside the cells.
    beside_bytes: usize,
    budget: Arc<Budget>,
}

impl Cells {
    /// No cells. `beside_bytes` are charged as long as these live, for what has them.
    pub fn new(width: usize, beside_bytes: usize, budget: &Arc<Budget>) -> Cells {
        budget.charge(beside_bytes);
        Cells {
            starts: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            width,
            piece: None,
            beside_bytes,
            budget: Arc::clone(budget),
        }
    }

    /// The cells of so many rows, whole segments of them, in one piece.
    pub fn of(
        piece: Zeroed,
        rows: usize,
        width: usize,
        beside_bytes: usize,
        budget: &Arc<Budget>,
    ) -> Cells {
        assert_eq!(rows, whole_segments(rows), "whole segments in one piece");
        assert!(piece.bytes() >= rows * width, "{} bytes for {rows} rows", piece.bytes());
        let mut cells = Cells::new(width, beside_bytes, budget);
        for segment in (0..SEGMENTS).filter(|segment| first_of(*segment) < rows) {
            let start = piece.start().as_ptr().wrapping_add(first_of(segment) * width);
            cells.starts[segment].store(start, Ordering::Relaxed);
        }
        cells.piece = Some((piece, rows));
        cells
    }

    /// Bytes of the segments that are not there, of so many rows.
    pub fn lacking_bytes(&self, rows: usize) -> usize {
        self.lacking(rows).map(|segment| rows_of(segment) * self.width).sum()
    }

    fn lacking(&self, rows: usize) -> impl Iterator<Item = usize> {
        let is_lacking = move |segment: &usize| {
            first_of(*segment) < rows && self.starts[*segment].load(Ordering::Relaxed).is_null()
        };
        (0..SEGMENTS).filter(is_lacking)
    }

    /// Makes the segments of the first `rows` rows that are not there, of zeros. Under the block's latch `growth`,
    /// or before the cells are published.
    pub fn grow(&self, rows: usize) {
        for segment in self.lacking(rows) {
            let layout = self.layout(segment);
            // SAFETY: a segment has rows, and a row a width.
            let start = unsafe { alloc_zeroed(layout) };
            if start.is_null() {
                handle_alloc_error(layout);
            }
            self.budget.charge(layout.size());
            // [S1] Whoever acquires the pointer finds zeros.
            self.starts[segment].store(start, Ordering::Release);
        }
    }

    fn layout(&self, segment: usize) -> Layout {
        Layout::from_size_align(rows_of(segment) * self.width, align_of::<u64>())
            .expect("a segment fits the address space")
    }

    /// The address of a cell [S2].
    #[inline]
    pub fn at(&self, slot: usize) -> Option<NonNull<u8>> {
        let (segment, index) = place(slot);
        let start = self.starts[segment].load(Ordering::Acquire);
        // SAFETY: the segment has its rows, and `index` is one of them.
        NonNull::new(start).map(|start| unsafe { start.add(index * self.width) })
    }

    #[inline]
    fn cell<A>(&self, slot: usize) -> Option<&A> {
        // SAFETY: a cell is `width` bytes, which the callers below match with `A`; it is aligned, zeroed,
        // kept as long as `self`, and seen through atomics of one width only.
        self.at(slot).map(|cell| unsafe { cell.cast::<A>().as_ref() })
    }

    /// Loads a cell, torn if somebody stores to it. `between` runs between the halves of a wide one.
    #[inline]
    pub fn load(&self, slot: usize, between: impl FnOnce()) -> (u64, u64) {
        const RELAXED: Ordering = Ordering::Relaxed;
        let lo = match self.width {
            1 => self.cell::<AtomicU8>(slot).map(|cell| cell.load(RELAXED).into()),
            2 => self.cell::<AtomicU16>(slot).map(|cell| cell.load(RELAXED).into()),
            4 => self.cell::<AtomicU32>(slot).map(|cell| cell.load(RELAXED).into()),
            8 => self.cell::<RawU64>(slot).map(|cell| cell.load(RELAXED)),
            _ => {
                let Some([lo, hi]) = self.cell::<[RawU64; 2]>(slot) else { return (0, 0) };
                let lo = lo.load(RELAXED);
                between();
                return (lo, hi.load(RELAXED));
            }
        };
        (lo.unwrap_or(0), 0)
    }

    /// Stores a cell. `between` runs between the halves of a wide one.
    #[inline]
    pub fn store(&self, slot: usize, (lo, hi): (u64, u64), between: impl FnOnce()) {
        const RESERVED: &str = "a slot is reserved before it is stored to";
        const RELAXED: Ordering = Ordering::Relaxed;
        match self.width {
            1 => self.cell::<AtomicU8>(slot).expect(RESERVED).store(lo as u8, RELAXED),
            2 => self.cell::<AtomicU16>(slot).expect(RESERVED).store(lo as u16, RELAXED),
            4 => self.cell::<AtomicU32>(slot).expect(RESERVED).store(lo as u32, RELAXED),
            8 => self.cell::<RawU64>(slot).expect(RESERVED).store(lo, RELAXED),
            _ => {
                let [first, second] = self.cell::<[RawU64; 2]>(slot).expect(RESERVED);
                first.store(lo, RELAXED);
                between();
                second.store(hi, RELAXED);
            }
        }
    }

    /// The second half of a wide cell, whose new value whoever loads it acquires.
    pub fn store_second(&self, slot: usize, hi: u64) {
        debug_assert_eq!(self.width, 16, "a view has two halves");
        let [_, second] = self.cell::<[RawU64; 2]>(slot).expect("a view in place is moved");
        second.store(hi, Ordering::Release);
    }

    /// The first `rows` rows in their order, as runs of cells and how many they are; where there are no cells, none.
    pub fn runs(&self, rows: usize) -> impl Iterator<Item = (Option<Run<'_>>, usize)> {
        let mut from = 0;
        std::iter::from_fn(move || {
            if from >= rows {
                return None;
            }
            let (segment, _) = place(from);
            let end = match &self.piece {
                Some((_, end)) if from < *end => *end,
                _ => first_of(segment) + rows_of(segment),
            };
            let count = end.min(rows) - from;
            let start = self.starts[segment].load(Ordering::Acquire);
            let run = NonNull::new(start).map(|start| Run {
                start,
                bytes: count * self.width,
                owner: std::marker::PhantomData,
            });
            from += count;
            Some((run, count))
        })
    }

    /// The account they are on.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Bytes on the account.
    pub fn bytes(&self) -> usize {
        let is_there = |segment: &usize| !self.starts[*segment].load(Ordering::Relaxed).is_null();
        let cells = (0..SEGMENTS).filter(is_there).map(|segment| rows_of(segment) * self.width);
        cells.sum::<usize>() + self.beside_bytes
    }

    /// Whether the first rows lie in one piece.
    pub fn is_in_one_piece(&self, rows: usize) -> bool {
        self.piece.as_ref().is_some_and(|(_, there)| *there >= rows)
    }

    /// The first rows in one piece: their own if they lie so, else a copy. Nobody stores to them any more, or
    /// the copy is thrown away.
    pub fn in_one_piece(&self, rows: usize) -> (Zeroed, usize) {
        match &self.piece {
            Some((piece, there)) if *there >= rows => (piece.share(), *there),
            _ => self.copied(rows),
        }
    }

    /// A copy of the first rows, of whole segments of them.
    pub fn copied(&self, rows: usize) -> (Zeroed, usize) {
        let rows = whole_segments(rows);
        let piece = Zeroed::new(piece_bytes(rows, self.width), &self.budget);
        let mut first = 0;
        for (run, count) in self.runs(rows) {
            if let Some(run) = run {
                run.copy_to(&piece, first, self.width);
            }
            first += count;
        }
        (piece, rows)
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        self.budget.release(self.beside_bytes);
        let piece = self.piece.as_ref().map_or(0, |(_, rows)| *rows);
        for segment in (0..SEGMENTS).filter(|segment| first_of(*segment) >= piece) {
            let start = self.starts[segment].load(Ordering::Relaxed);
            if !start.is_null() {
                let layout = self.layout(segment);
                self.budget.release(layout.size());
                // SAFETY: made in `grow` with this layout; nobody else has the cells any more.
                unsafe { dealloc(start, layout) };
            }
        }
    }
}

/// A bit for each row of a block. The first word is there from the start, the others with the second segment.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    first: AtomicU64,
    rest: OnceLock<Box<[AtomicU64]>>,
}

impl Bits {
    /// What the words beside the first take.
    pub const REST_BYTES: usize = (BIT_WORDS - 1) * 8;

    /// Those set that `words` has, for so many rows.
    pub fn of(words: &[u64], rows: usize) -> Bits {
        let bits = Bits::default();
        bits.grow(rows);
        bits.store_all(words);
        bits
    }

    /// A copy, for so many rows.
    pub fn copied(&self, rows: usize) -> Bits {
        let mut words = Vec::with_capacity(BIT_WORDS);
        self.copy(ROWS, &mut words);
        Bits::of(&words, rows)
    }

    /// Makes the bits of the first `rows` rows. Under the block's latch `growth`, or before they are published.
    pub fn grow(&self, rows: usize) {
        if rows > 64 {
            self.rest.get_or_init(|| (1..BIT_WORDS).map(|_| AtomicU64::new(0)).collect());
        }
    }

    /// Sets the first words.
    pub fn store_all(&self, words: &[u64]) {
        for (to, from) in self.words().zip(words) {
            to.store(*from, Ordering::Relaxed);
        }
    }

    fn words(&self) -> impl Iterator<Item = &AtomicU64> {
        std::iter::once(&self.first).chain(self.rest.get().into_iter().flatten())
    }

    #[inline]
    fn word(&self, at: usize) -> Option<&AtomicU64> {
        if at == 0 { Some(&self.first) } else { self.rest.get()?.get(at - 1) }
    }

    /// Whether a bit is there and set.
    #[inline]
    pub fn get(&self, at: usize) -> bool {
        self.word(at / 64).is_some_and(|word| word.load(Ordering::Relaxed) >> (at % 64) & 1 == 1)
    }

    /// Sets or clears one bit that only the caller may change, among bits that others change.
    #[inline]
    pub fn set(&self, at: usize, on: bool) {
        let word = self.word(at / 64).expect("a slot is reserved before it is stored to");
        let bit = 1u64 << (at % 64);
        if (word.load(Ordering::Relaxed) & bit != 0) == on {
            return;
        }
        if on {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Copies the words of the first `rows` rows.
    pub fn copy(&self, rows: usize, out: &mut Vec<u64>) {
        let end = out.len() + rows.div_ceil(64);
        out.extend(self.words().take(rows.div_ceil(64)).map(|word| word.load(Ordering::Relaxed)));
        out.resize(end, 0);
    }

    /// Every set bit is among the first so many.
    pub fn end(&self) -> usize {
        let words = self.words().map(|word| word.load(Ordering::Relaxed));
        let last = words.enumerate().filter(|(_, word)| *word != 0).last();
        last.map_or(0, |(at, word)| 64 * (at + 1) - word.leading_zeros() as usize)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_one_place() {
        let mut next = (0, 0);
        for slot in 0..ROWS {
            assert_eq!(place(slot), next, "slot {slot}");
            assert_eq!(first_of(next.0) + next.1, slot);
            let is_last = next.1 + 1 == rows_of(next.0);
            next = if is_last { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
        }
        assert_eq!(next, (SEGMENTS, 0));
        if !cfg!(miri) {
            assert_eq!([0, 1, 64, 65, 8192].map(whole_segments), [0, 64, 64, 128, 8192]);
        }
    }

    #[test]
    fn cells_come_with_their_rows_and_go_from_the_account() {
        let budget = Arc::new(Budget::new(1 << 30));
        for width in [1, 2, 4, 8, 16] {
            let cells = Cells::new(width, 100, &budget);
            assert_eq!((cells.load(70, || ()), cells.bytes()), ((0, 0), 100));
            cells.grow(100);
            (0..128).for_each(|slot| cells.store(slot, (7, 7), || ()));
            assert_eq!(cells.bytes(), 100 + 128 * width);
            assert_eq!(cells.lacking_bytes(200), 128 * width);
            let wide = if width == 16 { 7 } else { 0 };
            assert_eq!([0, 63, 64, 127, 128].map(|at| cells.load(at, || ()).0), [7, 7, 7, 7, 0]);
            assert_eq!(cells.load(99, || ()), (7, wide));
            cells.store(99, (5, 6), || ());
            let (piece, rows) = cells.copied(100);
            let copy = Cells::of(piece, rows, width, 0, &budget);
            copy.grow(ROWS);
            cells.store(99, (1, 1), || ());
            assert_eq!(copy.load(99, || ()), (5, if width == 16 { 6 } else { 0 }));
            let runs: Vec<_> = copy.runs(300).map(|(run, rows)| (run.is_some(), rows)).collect();
            assert_eq!(runs, [(true, 128), (true, 128), (true, 44)]);
            assert_eq!(budget.used_bytes() as usize, 100 + 128 * width + ROWS * width);
        }
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn bits_grow_as_they_are_told() {
        let bits = Bits::default();
        bits.set(3, true);
        assert_eq!((bits.get(3), bits.get(4), bits.get(64), bits.end()), (true, false, false, 4));
        bits.grow(65);
        bits.set(100, true);
        assert_eq!((bits.get(99), bits.get(100), bits.end()), (false, true, 101));
        let mut words = Vec::new();
        bits.copy(128, &mut words);
        assert_eq!(words, [8, 1 << 36]);
        assert!(bits.copied(10).get(3) && !bits.copied(10).get(100));
    }
}
