//! Reading rows and blocks under a snapshot.
//!
//! ```text
//!   copy the newest state ──▶ validate ──▶ apply before-images until a visible version ──▶ values
//!   (cells, presence, head)   (head same?)
//! ```
//!
//! A snapshot that asks for the latest version takes its timestamp from the clock when a read starts.
//! **[R1]** That is needed: a version visible at a timestamp taken *before* its cells were copied has
//! all its cells stored before the copy ([T3]); a version that commits during the copy may be
//! copied half, so it must not become visible after it.

use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::BlockRows;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{Direction, EngineError, KeyRange, Row, RowId, Snapshot, Ts};
use smallvec::SmallVec;
use std::ops::{Bound, ControlFlow};

use crate::arrow::Gather;
use crate::block::Block;
use crate::clock::{OWN, Timeline};
use crate::column::{Cell, Found};
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
        Kind::Delete => *present = true,
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
    /// The view of a snapshot for a read that starts now [R1].
    #[inline]
    pub fn new(timeline: &'a Timeline, snapshot: &'a Snapshot) -> ReadView<'a> {
        let ts = if snapshot.ts >= Ts::LATEST { timeline.now() } else { snapshot.ts.0 };
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
        let columns = self.find(block, projection, &guard);
        let mut cells: Cells = SmallVec::from_elem(Cell::MISSING, columns.len());
        if !self.view(snapshot).row(block, rid.slot(), &columns, &mut cells, &guard) {
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
        let mut columns = self.find(block, projection, guard);
        let directory = block.directory(guard);
        columns.extend(index.parts.iter().map(|part| part.find(directory)));
        let mut cells: Cells = SmallVec::from_elem(Cell::MISSING, columns.len());
        if !self.view(snapshot).row(block, rid.slot(), &columns, &mut cells, guard) {
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
        let guard = epoch::pin();
        let Some(block) = self.space.block(number) else {
            return self.batch(Vec::new(), self.gathers(projection, &[], 0), projection, &guard);
        };
        // The view first: what it sees was given a row id before.
        let view = self.view(snapshot);
        let rows = self.space.rows_in_block(number);
        let columns = self.find(block, projection, &guard);
        let mut presence = Vec::with_capacity(rows.div_ceil(64));
        let mut gathers = self.gathers(projection, &columns, rows);
        if !bulk(block, rows, &mut presence, &mut gathers) {
            patched(&view, block, rows, &mut presence, &mut gathers, &columns, &guard);
        }
        mask_tail(&mut presence, rows);
        let present: usize = presence.iter().map(|w| w.count_ones() as usize).sum();
        let mut rids = Vec::with_capacity(present);
        for_each_bit(&presence, |slot| rids.push(RowId::of(number, slot)));
        if present < rows {
            let keep: Vec<u32> = rids.iter().map(|rid| rid.slot() as u32).collect();
            gathers.iter_mut().for_each(|gather| gather.keep(&keep));
        }
        self.batch(rids, gathers, projection, &guard)
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
            return self.batch(Vec::new(), self.gathers(projection, &[], 0), projection, &guard);
        };
        let columns = self.find(block, projection, &guard);
        let view = self.view(snapshot);
        let mut gathers = self.gathers(projection, &columns, rows.len());
        let mut cells: Cells = SmallVec::from_elem(Cell::MISSING, columns.len());
        let mut rids = Vec::with_capacity(rows.len());
        for &rid in rows {
            debug_assert_eq!(rid.block(), number, "rows of one block are asked for");
            if view.row(block, rid.slot(), &columns, &mut cells, &guard) {
                rids.push(rid);
                for (gather, cell) in gathers.iter_mut().zip(&cells) {
                    gather.push(cell);
                }
            }
        }
        self.batch(rids, gathers, projection, &guard)
    }

    fn gathers<'a>(
        &'a self,
        projection: &[usize],
        columns: &[Found<'a>],
        rows: usize,
    ) -> Vec<Gather<'a>> {
        let column = |i: usize| columns.get(i).and_then(|found| found.column);
        projection
            .iter()
            .enumerate()
            .map(|(i, &p)| Gather::new(&self.columns[p], column(i), rows))
            .collect()
    }

    fn batch(
        &self,
        rids: Vec<RowId>,
        gathers: Vec<Gather<'_>>,
        projection: &[usize],
        guard: &Guard,
    ) -> Result<BlockRows, EngineError> {
        let rows = rids.len();
        let arrays = gathers.into_iter().map(|gather| gather.finish(guard)).collect();
        let schema = self.schema(projection);
        let batch = crate::arrow::batch(schema, arrays, rows);
        Ok(BlockRows { rids, batch })
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
    for_each_bit(&versioned, |slot| {
        let bit = 1u64 << (slot % 64);
        if view.row(block, slot, columns, &mut cells, guard) {
            presence[slot / 64] |= bit;
            for (gather, cell) in gathers.iter_mut().zip(&cells) {
                gather.set(slot, cell);
            }
        } else {
            presence[slot / 64] &= !bit;
        }
    });
}

fn mask_tail(presence: &mut [u64], rows: usize) {
    debug_assert!(rows <= ROWS_PER_BLOCK, "a block has {ROWS_PER_BLOCK} rows");
    if !rows.is_multiple_of(64)
        && let Some(last) = presence.last_mut()
    {
        *last &= (1 << (rows % 64)) - 1;
    }
}

/// Calls back with the position of every set bit, ascending.
pub(crate) fn for_each_bit(words: &[u64], mut visit: impl FnMut(usize)) {
    for (i, &word) in words.iter().enumerate() {
        let mut word = word;
        while word != 0 {
            visit(i * 64 + word.trailing_zeros() as usize);
            word &= word - 1;
        }
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    match bound {
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
        Bound::Unbounded => Bound::Unbounded,
    }
}
