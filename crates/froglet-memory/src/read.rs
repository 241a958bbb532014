//! Reading rows and blocks under a snapshot.
//!
//! ```text
//!   copy the newest state ──▶ validate ──▶ apply before-images until a visible version ──▶ values
//!   (cells, presence, head)   (head same?)
//! ```
//!
//! **[R1]** A view has its timestamp before anything is read in it: a version visible at it has all its
//! cells stored before they are copied ([T3]); a version that commits during the copy may be
//! copied half, and is not visible. For the same reason columns are looked for after it: [F2] in `freeze`.

use arrow_array::{ArrayRef, RecordBatch};
use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{BlockRows, Direction, EngineError, KeyRange, Row, RowId, Snapshot, Ts};
use smallvec::SmallVec;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use crate::arrow::Gather;
use crate::block::Block;
use crate::clock::{OWN, Timeline};
use crate::column::{Cell, Column, Found};
use crate::index;
use crate::sync::atomic::{Ordering, fence};
use crate::table::MemoryTable;
use crate::undo::{Kind, Undo};

/// Columns of a read.
pub(crate) type Columns<'a> = SmallVec<[Found<'a>; 12]>;
/// Cells of a read.
pub(crate) type Cells = SmallVec<[Cell; 12]>;

/// Bulk copies of a block that were disturbed before rows are read one by one.
const BULK_TRIES: usize = 3;

/// Takes a state back to what it was before a write.
#[inline]
pub(crate) fn apply(undo: &Undo, columns: &[Found<'_>], cells: &mut [Cell], present: &mut bool) {
    match undo.kind {
        Kind::Insert => *present = false,
        Kind::Delete | Kind::Move => *present = true,
        Kind::Lock => {}
        Kind::Update => {
            for image in undo.images() {
                for (cell, column) in cells.iter_mut().zip(columns) {
                    if column.wanted.id == image.column {
                        *cell = image.cell();
                    }
                }
            }
        }
    }
}

/// A snapshot resolved for one read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadView<'a> {
    pub timeline: &'a Timeline,
    pub ts: u64,
    pub own: u64,
    pub snapshot: &'a Snapshot,
}

impl<'a> ReadView<'a> {
    /// The view of a snapshot [R1].
    #[inline]
    pub fn new(timeline: &'a Timeline, snapshot: &'a Snapshot) -> ReadView<'a> {
        debug_assert!(snapshot.ts < Ts::LATEST, "a view is of a time");
        let ts = snapshot.ts.0;
        // Nobody's id is no writer's.
        let own = if snapshot.own.0 == 0 { u64::MAX } else { snapshot.own.0 };
        ReadView { timeline, ts, own, snapshot }
    }

    /// Walks from a copied state to the visible one; whether the row is there.
    #[inline]
    pub fn walk(
        &self,
        head: Option<&Undo>,
        mut present: bool,
        columns: &[Found<'_>],
        cells: &mut [Cell],
        guard: &Guard,
    ) -> bool {
        let mut next = head;
        while let Some(undo) = next {
            match self.timeline.visible(&undo.word, self.ts, self.own) {
                // An own lock is no version: what is seen below it is for the snapshot to say.
                Some(OWN) if undo.kind == Kind::Lock => {}
                Some(ts) => {
                    if ts > self.timeline.durable() {
                        self.snapshot.note_seen(Ts(ts));
                    }
                    break;
                }
                None => apply(undo, columns, cells, &mut present),
            }
            next = undo.next(guard);
        }
        present
    }

    /// Copies the visible version of a row; false if there is none.
    #[inline]
    pub fn row(
        &self,
        block: &Block,
        slot: usize,
        columns: &[Found<'_>],
        cells: &mut [Cell],
        guard: &Guard,
    ) -> bool {
        let (head, present) = block.copy_row(slot, columns, cells, guard);
        match head {
            None => present,
            Some(_) => self.walk(head, present, columns, cells, guard),
        }
    }
}

impl MemoryTable {
    pub(crate) fn view<'a>(&'a self, snapshot: &'a Snapshot) -> ReadView<'a> {
        ReadView::new(&self.core.timeline, snapshot)
    }

    /// The columns at layout positions, as a block has them.
    #[inline]
    pub(crate) fn find<'a>(
        &'a self,
        block: &'a Block,
        projection: &[usize],
        guard: &'a Guard,
    ) -> Columns<'a> {
        let directory = block.directory(guard);
        projection.iter().map(|&p| self.columns[p].find(directory)).collect()
    }

    /// See [`froglet_engine::Table::read_row`].
    #[inline]
    pub fn get(
        &self,
        snapshot: &Snapshot,
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
    ) -> bool {
        let guard = epoch::pin();
        let Some(block) = self.space.block(rid.block()) else { return false };
        let view = self.view(snapshot);
        let columns = self.find(block, projection, &guard);
        let mut cells: Cells = SmallVec::from_elem(Cell::MISSING, columns.len());
        if !view.row(block, rid.slot(), &columns, &mut cells, &guard) {
            return false;
        }
        out.extend(columns.iter().zip(&cells).map(|(column, cell)| column.value(cell, &guard)));
        true
    }

    /// See [`froglet_engine::Table::get_by_key`].
    pub(crate) fn row_by_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        projection: &[usize],
        out: &mut Row,
    ) -> Option<RowId> {
        let guard = epoch::pin();
        let mut rids = SmallVec::<[u64; 8]>::new();
        self.indexes[index].tree.get(key, &mut rids);
        let mut scratch = Vec::with_capacity(key.len());
        rids.into_iter().map(RowId).find(|&rid| {
            self.read_if_key(snapshot, index, key, rid, projection, out, &mut scratch, &guard)
        })
    }

    /// Reads a row if its visible version has the key of the index entry that led to it.
    #[allow(clippy::too_many_arguments)]
    fn read_if_key(
        &self,
        snapshot: &Snapshot,
        index: usize,
        key: &[u8],
        rid: RowId,
        projection: &[usize],
        out: &mut Row,
        scratch: &mut Vec<u8>,
        guard: &Guard,
    ) -> bool {
        let Some(block) = self.space.block(rid.block()) else { return false };
        let index = &self.indexes[index];
        let view = self.view(snapshot);
        let mut columns = self.find(block, projection, guard);
        let directory = block.directory(guard);
        columns.extend(index.parts.iter().map(|part| part.find(directory)));
        let mut cells: Cells = SmallVec::from_elem(Cell::MISSING, columns.len());
        if !view.row(block, rid.slot(), &columns, &mut cells, guard) {
            return false;
        }
        let n = projection.len();
        index.key_of_cells(&columns[n..], &cells[n..], guard, scratch);
        if scratch != key {
            return false;
        }
        out.extend(columns[..n].iter().zip(&cells).map(|(column, cell)| column.value(cell, guard)));
        true
    }

    pub(crate) fn seek_rows(
        &self,
        snapshot: &Snapshot,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        projection: &[usize],
        visit: &mut dyn FnMut(RowId, &mut Row) -> ControlFlow<()>,
    ) {
        let mut row = Row::with_capacity(projection.len());
        let mut scratch = Vec::new();
        self.scan_index(index, range, direction, &mut |key, rid| {
            row.clear();
            let found = {
                let guard = epoch::pin();
                self.read_if_key(
                    snapshot,
                    index,
                    key,
                    rid,
                    projection,
                    &mut row,
                    &mut scratch,
                    &guard,
                )
            };
            if found { visit(rid, &mut row) } else { ControlFlow::Continue(()) }
        });
    }

    /// The entries of an index in a range.
    pub(crate) fn scan_index(
        &self,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], RowId) -> ControlFlow<()>,
    ) {
        let direction = match direction {
            Direction::Forward => index::Direction::Ascending,
            Direction::Backward => index::Direction::Descending,
        };
        let (lower, upper) = (as_slice(&range.lower), as_slice(&range.upper));
        let tree = &self.indexes[index].tree;
        tree.scan(lower, upper, direction, &mut |key, rid| visit(key, RowId(rid)));
    }

    /// See [`froglet_engine::Table::read_block`].
    pub(crate) fn read_all(
        &self,
        snapshot: &Snapshot,
        number: u32,
        projection: &[usize],
    ) -> Result<BlockRows, EngineError> {
        let (seen, batch) = self.batch_of_block(snapshot, number, projection);
        Ok(BlockRows { rids: seen.row_ids(number), batch })
    }

    /// See [`froglet_engine::Table::read_batch`]; and which rows of the block these are.
    pub(crate) fn batch_of_block(
        &self,
        snapshot: &Snapshot,
        number: u32,
        projection: &[usize],
    ) -> (Seen, RecordBatch) {
        let guard = epoch::pin();
        let Some(block) = self.space.block(number) else {
            return (Seen::new(Vec::new(), 0), self.no_rows(projection, &guard).batch);
        };
        // The view first: what it sees was given a row id before, and is in the columns found next.
        let view = self.view(snapshot);
        let find = || self.find(block, projection, &guard);
        let rows = || self.space.rows_in_block(number);
        let Copied { rows, columns, seen, copies } = copy_block(&view, block, rows, find, &guard);
        let mut copies = copies.into_iter();
        let arrays = columns.iter().map(|found| match found.column.and_then(Column::frozen) {
            // [F3]
            Some(frozen) if seen.count == frozen.array.len() => Arc::clone(&frozen.array),
            Some(frozen) if seen.is_prefix() => frozen.array.slice(0, seen.count),
            Some(_) => {
                let mut copy = Gather::of(found, rows);
                copy.copy(rows);
                seen.keep(copy).finish(&guard)
            }
            None => seen.keep(copies.next().expect("a copy for each hot column")).finish(&guard),
        });
        let batch = crate::arrow::batch(self.schema(projection), arrays.collect(), seen.count);
        (seen, batch)
    }

    /// Every column of this layout, with a place for every row id that was handed out.
    pub(crate) fn read_slots(&self, snapshot: &Snapshot, block: &Block, number: u32) -> Slots {
        let guard = epoch::pin();
        let view = self.view(snapshot);
        let find = || {
            let directory = block.directory(&guard);
            self.columns.iter().map(|column| column.find(directory)).collect()
        };
        let rows = || self.space.rows_in_block(number);
        let Copied { rows, columns, seen, copies } = copy_block(&view, block, rows, find, &guard);
        let mut copies = copies.into_iter();
        let arrays = columns.iter().map(|found| match found.column.and_then(Column::frozen) {
            // [F3]
            Some(frozen) if frozen.array.len() == rows => (Arc::clone(&frozen.array), true),
            Some(_) => {
                let mut copy = Gather::of(found, rows);
                copy.copy(rows);
                (seen.blank(copy, rows).finish(&guard), false)
            }
            None => {
                let copy = copies.next().expect("a copy for each hot column");
                (seen.blank(copy, rows).finish(&guard), false)
            }
        });
        let arrays = arrays.collect();
        Slots { rows, count: seen.count, there: seen.presence, arrays }
    }

    /// Asks the column at a layout position of a block something.
    pub(crate) fn stats<T>(
        &self,
        number: u32,
        at: usize,
        of: impl FnOnce(&Column) -> Option<T>,
    ) -> Option<T> {
        let guard = epoch::pin();
        let block = self.space.block(number)?;
        let wanted = &self.columns[at];
        of(wanted.find(block.directory(&guard)).column?)
    }

    /// Some rows of one block, in the order given; those that are not visible are left out.
    pub(crate) fn read_some(
        &self,
        snapshot: &Snapshot,
        number: u32,
        rows: &[RowId],
        projection: &[usize],
    ) -> Result<BlockRows, EngineError> {
        let guard = epoch::pin();
        let Some(block) = self.space.block(number) else {
            return Ok(self.no_rows(projection, &guard));
        };
        let view = self.view(snapshot);
        let columns = self.find(block, projection, &guard);
        let mut copies: Vec<Gather<'_>> =
            columns.iter().map(|found| Gather::of(found, rows.len())).collect();
        let mut cells: Cells = SmallVec::from_elem(Cell::MISSING, columns.len());
        let mut rids = Vec::with_capacity(rows.len());
        for &rid in rows {
            debug_assert_eq!(rid.block(), number, "rows of one block are asked for");
            if view.row(block, rid.slot(), &columns, &mut cells, &guard) {
                rids.push(rid);
                for (copy, cell) in copies.iter_mut().zip(&cells) {
                    copy.push(cell);
                }
            }
        }
        let arrays = copies.into_iter().map(|copy| copy.finish(&guard)).collect();
        Ok(self.block_rows(rids, arrays, projection))
    }

    fn block_rows(
        &self,
        rids: Vec<RowId>,
        arrays: Vec<ArrayRef>,
        projection: &[usize],
    ) -> BlockRows {
        let batch = crate::arrow::batch(self.schema(projection), arrays, rids.len());
        BlockRows { rids, batch }
    }

    /// What is read of a block that is not there.
    fn no_rows(&self, projection: &[usize], guard: &Guard) -> BlockRows {
        let found = projection.iter().map(|&p| Found { wanted: &self.columns[p], column: None });
        let arrays = found.map(|found| Gather::of(&found, 0).finish(guard)).collect();
        self.block_rows(Vec::new(), arrays, projection)
    }
}

/// A block with its empty places.
pub(crate) struct Slots {
    pub rows: usize,
    /// How many there are of `there`.
    pub count: usize,
    /// A bit for each row that the view sees.
    pub there: Vec<u64>,
    /// The columns, and whether each is a frozen one's own array: that has something in empty places.
    pub arrays: Vec<(ArrayRef, bool)>,
}

/// What was read of a block.
struct Copied<'a> {
    /// Rows that were handed out.
    rows: usize,
    columns: Columns<'a>,
    seen: Seen,
    copies: Vec<Gather<'a>>,
}

/// Finds columns, and copies what a view sees. Rows that are installed have no version, so that a view sees
/// them at once; what they were stored into are the columns of the directory that is there by then.
fn copy_block<'a>(
    view: &ReadView<'_>,
    block: &'a Block,
    rows: impl Fn() -> usize,
    find: impl Fn() -> Columns<'a>,
    guard: &'a Guard,
) -> Copied<'a> {
    loop {
        let directory = block.directory(guard);
        let (rows, columns) = (rows(), find());
        let (seen, copies) = copy_seen(view, block, rows, &columns, guard);
        fence(Ordering::Acquire);
        if std::ptr::eq(block.directory(guard), directory) {
            return Copied { rows, columns, seen, copies };
        }
    }
}

/// Which rows of a block a view sees, and the cells that it sees in every row of the hot columns.
fn copy_seen<'a>(
    view: &ReadView<'_>,
    block: &Block,
    rows: usize,
    columns: &[Found<'a>],
    guard: &Guard,
) -> (Seen, Vec<Gather<'a>>) {
    let is_hot = |found: &Found<'_>| found.column.is_none_or(|c| c.frozen().is_none());
    let hot: Columns<'_> = columns.iter().filter(|found| is_hot(found)).copied().collect();
    let mut presence = Vec::with_capacity(rows.div_ceil(64));
    let mut copies: Vec<Gather<'_>> = hot.iter().map(|found| Gather::of(found, rows)).collect();
    if !bulk(block, rows, &mut presence, &mut copies) {
        patched(view, block, rows, &mut presence, &mut copies, &hot, guard);
    }
    mask_tail(&mut presence, rows);
    (Seen::new(presence, rows), copies)
}

/// Which rows of a block a view sees.
pub(crate) struct Seen {
    presence: Vec<u64>,
    count: usize,
    /// Their positions, if it is not every row.
    positions: Option<Vec<u32>>,
}

impl Seen {
    fn new(presence: Vec<u64>, rows: usize) -> Seen {
        let count = presence.iter().map(|word| word.count_ones() as usize).sum();
        let positions = (count < rows).then(|| bits(&presence).map(|slot| slot as u32).collect());
        Seen { presence, count, positions }
    }

    /// Whether they are the first so many.
    fn is_prefix(&self) -> bool {
        let (whole, rest) = (self.count / 64, self.count % 64);
        self.presence[..whole].iter().all(|word| *word == u64::MAX)
            && (rest == 0 || self.presence[whole] == (1 << rest) - 1)
    }

    fn row_ids(&self, number: u32) -> Vec<RowId> {
        match &self.positions {
            None => (0..self.count).map(|slot| RowId::of(number, slot)).collect(),
            Some(slots) => slots.iter().map(|slot| RowId::of(number, *slot as usize)).collect(),
        }
    }

    /// All cells, those of other rows NULL.
    fn blank<'a>(&self, mut copy: Gather<'a>, rows: usize) -> Gather<'a> {
        if self.count < rows {
            let is_seen = |slot: usize| self.presence[slot / 64] >> (slot % 64) & 1 == 1;
            (0..rows).filter(|slot| !is_seen(*slot)).for_each(|slot| copy.set(slot, &Cell::NULL));
        }
        copy
    }

    /// The cells of these rows.
    fn keep<'a>(&self, mut copy: Gather<'a>) -> Gather<'a> {
        if let Some(positions) = &self.positions {
            copy.keep(positions);
        }
        copy
    }
}

/// Copies whole columns of a block in which everybody sees the newest version of every row [B3].
/// False, with nothing kept, if there are versions.
fn bulk(block: &Block, rows: usize, presence: &mut Vec<u64>, gathers: &mut [Gather<'_>]) -> bool {
    for _ in 0..BULK_TRIES {
        let version = block.version();
        let fill = block.fill();
        if !Block::nothing_linked(version) {
            return false;
        }
        copy(block, rows, presence, gathers);
        fence(Ordering::Acquire);
        if block.version() == version && block.is_filled(fill) {
            return true;
        }
    }
    false
}

fn copy(block: &Block, rows: usize, presence: &mut Vec<u64>, gathers: &mut [Gather<'_>]) {
    presence.clear();
    block.copy_presence(rows, presence);
    for gather in gathers {
        gather.copy(rows);
    }
}

/// Copies whole columns, then reads those rows again that had versions before or after the copy. A
/// row whose head was null both times is consistent, as in a read of that row alone.
fn patched(
    view: &ReadView<'_>,
    block: &Block,
    rows: usize,
    presence: &mut Vec<u64>,
    gathers: &mut [Gather<'_>],
    columns: &[Found<'_>],
    guard: &Guard,
) {
    let mut versioned = vec![0u64; rows.div_ceil(64)];
    let mut spins = 0;
    let mark = |versioned: &mut [u64]| {
        for slot in 0..rows {
            if !block.head_ptr(slot).is_null() {
                versioned[slot / 64] |= 1 << (slot % 64);
            }
        }
    };
    loop {
        let fill = block.fill();
        mark(&mut versioned);
        copy(block, rows, presence, gathers);
        fence(Ordering::Acquire);
        mark(&mut versioned);
        if block.is_filled(fill) {
            break;
        }
        crate::clock::pause(&mut spins);
    }
    let mut cells: Cells = SmallVec::from_elem(Cell::MISSING, columns.len());
    for slot in bits(&versioned) {
        let bit = 1u64 << (slot % 64);
        if view.row(block, slot, columns, &mut cells, guard) {
            presence[slot / 64] |= bit;
            for (gather, cell) in gathers.iter_mut().zip(&cells) {
                gather.set(slot, cell);
            }
        } else {
            presence[slot / 64] &= !bit;
        }
    }
}

fn mask_tail(presence: &mut [u64], rows: usize) {
    debug_assert!(rows <= ROWS_PER_BLOCK, "a block has {ROWS_PER_BLOCK} rows");
    if !rows.is_multiple_of(64)
        && let Some(last) = presence.last_mut()
    {
        *last &= (1 << (rows % 64)) - 1;
    }
}

/// The positions of set bits, ascending.
pub(crate) fn bits(words: &[u64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(i, &word)| {
        let next = |word: &u64| Some(word & (word - 1)).filter(|word| *word != 0);
        let words = std::iter::successors(Some(word).filter(|word| *word != 0), next);
        words.map(move |word| i * 64 + word.trailing_zeros() as usize)
    })
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}
