//! A block: 8,192 rows of a space, their version chains and their columns.
//!
//! ```text
//!            heads              presence   columns, by column id
//!   slot 0   ──▶ undo ──▶ undo     1        [ 7 | ∅ | 3 ]
//!   slot 1   null                  1        [ 9 | 4 | 1 ]
//!   slot 2   null                  0        [ –         ]    free
//! ```
//!
//! Cells hold the newest version, committed or not. The protocol, whose one word is the row's head:
//!
//! ```text
//!   writer: link the undo record (CAS head) ─ fence(release) ─ store cells
//!   reader: load head ─ copy cells ─ fence(acquire) ─ load head again: changed? again
//! ```
//!
//! **[B1]** An undo record is linked before a cell it covers is stored, and an aborting writer restores
//! its cells while its records are still in the chain. So a reader that copied a cell of a write sees
//! that write's record in the head it validates against (the fences synchronise), and applies the
//! before-image, which covers every cell that may be torn.
//! **[B2]** A head goes back to null only by the collector, and only when the end timestamp of every
//! record in the chain is at or below the oldest registered snapshot. A reader registers a value
//! `p` before it loads a head; whatever is linked after that load ends at a timestamp taken later,
//! so above `p`. Hence no record comes and goes between a reader's two loads of a head: equal
//! heads mean that nothing happened in between (no ABA). The same holds for a writer between its
//! load and its CAS.
//! **[B3]** `version` counts linked records (low half) and links ever made (high half). A link is
//! counted after the CAS and before the release fence. A reader that finds nothing linked, copies, and
//! finds the same count has copied the cells of versions that everybody sees.
//! **[B4]** A migration stores cells of columns that no committed schema has; it makes `fill` odd
//! meanwhile, which sends readers back.
//!
//! **[B5]** The first `reserved` rows have their heads, presence bits, and cells in every hot column. A row is
//! reserved before its record is linked. Both more rows and more columns come under `growth`, in memory of their
//! own ([S1] of `cells`), so neither readers nor writers of other rows notice; and a row that is there was
//! reserved: who stores to it need not ask.
//!
//! A column may be frozen, and is made hot before a cell of it is stored: see `freeze`.

use std::sync::Arc;

use crate::sync::{Mutex, MutexGuard};
use crossbeam_epoch::{Atomic, Guard, Owned};
use froglet_engine::{ColumnId, ColumnSpec, EngineError};

#[cfg(not(shuttle))]
use crate::cells::Cells;
use crate::cells::{Bits, whole_segments};
use crate::clock::pause;
use crate::column::{Cell, Column, Found};
use crate::freeze::life;
use crate::memory::Budget;
use crate::reclaim;
use crate::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
};
use crate::transform::Observed;
use crate::undo::{Record, Undo};

const LINK: u64 = (1 << 32) | 1;
const LINKED: u64 = u32::MAX as u64;

/// The columns of a block, by id. Immutable: replaced as a whole.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    columns: Vec<Arc<Column>>,
}

impl Directory {
    /// The column with this id. `hint` is where it probably is.
    #[inline]
    pub fn find(&self, id: ColumnId, hint: usize) -> Option<&Arc<Column>> {
        if let Some(column) = self.columns.get(hint)
            && column.id == id
        {
            return Some(column);
        }
        let at = self.columns.binary_search_by_key(&id, |c| c.id).ok()?;
        Some(&self.columns[at])
    }

    /// All columns, by ascending id.
    pub fn columns(&self) -> &[Arc<Column>] {
        &self.columns
    }
}

/// Whether a column is not among `columns`, which are sorted.
fn is_gone(columns: &[Arc<Column>], column: &Arc<Column>) -> bool {
    let at = columns.binary_search_by_key(&column.id, |c| c.id);
    at.map_or(true, |at| !Arc::ptr_eq(&columns[at], column))
}

/// The newest record of each row that is reserved.
#[cfg(not(shuttle))]
#[derive(Debug)]
struct Heads(Cells);

#[cfg(not(shuttle))]
impl Heads {
    const WIDTH: usize = size_of::<AtomicPtr<Undo>>();

    fn new(budget: &Arc<Budget>) -> Heads {
        Heads(Cells::new(Self::WIDTH, size_of::<Block>() + Bits::REST_BYTES, budget))
    }

    #[inline]
    fn get(&self, slot: usize) -> Option<&AtomicPtr<Undo>> {
        // SAFETY: a zeroed word is a null pointer; the memory is used as this type only, and kept as long
        // as `self`.
        self.0.at(slot).map(|head| unsafe { head.cast().as_ref() })
    }

    fn grow(&self, rows: usize) {
        self.0.grow(rows);
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// A model checker's atomics cannot be laid over zeroed memory. Its blocks use the first rows only.
#[cfg(shuttle)]
#[derive(Debug)]
struct Heads(Box<[AtomicPtr<Undo>]>);

#[cfg(shuttle)]
impl Heads {
    const WIDTH: usize = 8;

    fn new(_budget: &Arc<Budget>) -> Heads {
        let rows = crate::cells::ROWS;
        Heads((0..rows).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect())
    }

    fn get(&self, slot: usize) -> Option<&AtomicPtr<Undo>> {
        self.0.get(slot)
    }

    fn grow(&self, _rows: usize) {}

    fn bytes(&self) -> usize {
        0
    }
}

/// 8,192 rows.
#[derive(Debug)]
pub(crate) struct Block {
    version: AtomicU64,
    fill: AtomicU64,
    directory: Atomic<Directory>,
    heads: Heads,
    presence: Bits,
    /// See [B5].
    reserved: AtomicUsize,
    /// Whether columns are frozen, see `freeze`.
    pub life: AtomicU8,
    /// Held while the directory is replaced.
    pub growth: Mutex<()>,
    /// Held while rows are migrated, and by a checkpoint while it copies.
    pub migration: Mutex<()>,
    /// Something was written since the last checkpoint copied the block.
    pub dirty: AtomicBool,
    /// What the access observer knows, see `transform`.
    pub observed: Observed,
    budget: Arc<Budget>,
}

impl Block {
    pub fn new(budget: Arc<Budget>) -> Block {
        Block {
            version: AtomicU64::new(0),
            fill: AtomicU64::new(0),
            directory: Atomic::new(Directory::default()),
            heads: Heads::new(&budget),
            presence: Bits::default(),
            reserved: AtomicUsize::new(0),
            life: AtomicU8::new(life::HOT),
            growth: Mutex::new(()),
            migration: Mutex::new(()),
            dirty: AtomicBool::new(true),
            observed: Observed::default(),
            budget,
        }
    }

    /// The newest record of a row.
    #[inline]
    pub fn head<'g>(&self, slot: usize, _guard: &'g Guard) -> Option<&'g Undo> {
        // SAFETY: [U1] records reachable from a head under a pin stay until the unpin.
        unsafe { self.head_ptr(slot).as_ref() }
    }

    /// The same as a pointer; null of a row that is not reserved, too.
    #[inline]
    pub fn head_ptr(&self, slot: usize) -> *mut Undo {
        self.heads.get(slot).map_or(std::ptr::null_mut(), |head| head.load(Ordering::Acquire))
    }

    /// Whether the head is still what a consistent copy was based on. Call it after the copy.
    #[inline]
    pub fn is_head(&self, slot: usize, head: *const Undo) -> bool {
        fence(Ordering::Acquire);
        let now = self.heads.get(slot).map(|now| now.load(Ordering::Relaxed).cast_const());
        std::ptr::eq(now.unwrap_or(std::ptr::null()), head)
    }

    #[inline]
    fn head_of(&self, slot: usize) -> &AtomicPtr<Undo> {
        self.heads.get(slot).expect("a row is reserved before it is written")
    }

    /// Links a record onto `head`; false if the head has changed. After it, cells may be stored [B1].
    pub fn link(&self, slot: usize, head: *const Undo, record: Record, undo: &Undo) -> bool {
        undo.set_next(head.cast_mut());
        let linked = self
            .head_of(slot)
            .compare_exchange(head.cast_mut(), record.as_ptr(), Ordering::SeqCst, Ordering::Relaxed)
            .is_ok();
        if linked {
            self.version.fetch_add(LINK, Ordering::SeqCst);
            if !self.dirty.load(Ordering::SeqCst) {
                self.dirty.store(true, Ordering::SeqCst);
            }
            fence(Ordering::Release);
        }
        linked
    }

    /// For the collector: cuts the whole chain that starts at `head` [B2].
    pub fn cut_head(&self, slot: usize, head: *const Undo) -> bool {
        self.head_of(slot)
            .compare_exchange(
                head.cast_mut(),
                std::ptr::null_mut(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// For the collector: `n` records are no longer linked.
    pub fn uncount(&self, n: u64) {
        let before = self.version.fetch_sub(n, Ordering::Release);
        debug_assert!(before & LINKED >= n, "more records unlinked than linked");
    }

    /// The count of [B3].
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The count, for who has said before what he is about to do: a checkpoint, a freezer.
    pub fn version_after_all(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// How many records are linked.
    pub fn linked(&self) -> u64 {
        self.version() & LINKED
    }

    /// Whether a count says that nothing is linked.
    pub fn nothing_linked(version: u64) -> bool {
        version & LINKED == 0
    }

    /// The columns.
    #[inline]
    pub fn directory<'g>(&self, guard: &'g Guard) -> &'g Directory {
        // SAFETY: never null; a replaced directory is destroyed only after this pin.
        unsafe { self.directory.load(Ordering::Acquire, guard).deref() }
    }

    /// Replaces the directory.
    fn change_directory(&self, guard: &Guard, change: impl FnOnce(&mut Vec<Arc<Column>>)) {
        let growing = self.growth.lock();
        self.change_latched(&growing, guard, change);
    }

    /// The same under the latch `growth`.
    pub fn change_latched(
        &self,
        _growing: &MutexGuard<'_, ()>,
        guard: &Guard,
        change: impl FnOnce(&mut Vec<Arc<Column>>),
    ) {
        let before = self.directory(guard);
        let mut columns = before.columns.clone();
        change(&mut columns);
        debug_assert!(columns.is_sorted_by_key(|c| c.id), "a directory is sorted by column id");
        let directory = size_of_val(&*before.columns);
        let gone: usize =
            before.columns.iter().filter(|c| is_gone(&columns, c)).map(|c| c.bytes()).sum();
        let new = Owned::new(Directory { columns });
        let old = self.directory.swap(new, Ordering::AcqRel, guard);
        // SAFETY: no longer reachable, and nobody else takes it; the pins of those who have it are waited for.
        let old = unsafe { old.into_owned() };
        reclaim::defer(guard, gone + directory, move || drop(old));
    }

    /// Makes sure that the first `rows` rows are reserved [B5], if there is the memory for it.
    #[inline]
    pub fn reserve(&self, rows: usize, guard: &Guard) -> Result<(), EngineError> {
        if rows <= self.reserved.load(Ordering::Acquire) {
            return Ok(());
        }
        self.reserve_more(rows, guard, |bytes| self.budget.admit(bytes))
    }

    /// The same of rows that are in a checkpoint or in the log.
    pub fn reserve_known(&self, rows: usize, guard: &Guard) {
        let reserved = self.reserve_more(rows, guard, |_| Ok(()));
        debug_assert!(reserved.is_ok(), "nobody was asked");
    }

    #[cold]
    fn reserve_more(
        &self,
        rows: usize,
        guard: &Guard,
        admit: impl FnOnce(usize) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let _growing = self.growth.lock();
        let (before, rows) = (self.reserved.load(Ordering::Relaxed), whole_segments(rows));
        if rows <= before {
            return Ok(());
        }
        let hot = self.directory(guard).columns.iter().filter(|column| column.frozen().is_none());
        let lacking: usize = hot.clone().map(|column| column.lacking_bytes(rows)).sum();
        admit(lacking + (rows - before) * Heads::WIDTH)?;
        self.heads.grow(rows);
        self.presence.grow(rows);
        hot.for_each(|column| column.grow(rows));
        self.reserved.store(rows, Ordering::Release);
        Ok(())
    }

    /// Whether there is so much memory.
    pub fn admit(&self, bytes: usize) -> Result<(), EngineError> {
        self.budget.admit(bytes)
    }

    /// A hot copy of a column, under the latch `growth`.
    pub fn thaw(&self, column: &Column, guard: &Guard) -> Column {
        column.thaw(self.reserved(), &self.budget, guard)
    }

    /// How many rows are reserved. Under the latch `growth` that stays.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Acquire)
    }

    /// Makes sure that the block has these columns, if there is the memory for them.
    pub fn add_columns(&self, specs: &[&ColumnSpec], guard: &Guard) -> Result<(), EngineError> {
        let directory = self.directory(guard);
        let lacking = specs.iter().filter(|spec| directory.find(spec.id, usize::MAX).is_none());
        let rows = self.reserved();
        self.budget.admit(lacking.map(|spec| Column::bytes_for(spec.ty, rows)).sum())?;
        self.add_known_columns(specs, guard);
        Ok(())
    }

    /// The same where it was asked before, or must not fail.
    pub fn add_known_columns(&self, specs: &[&ColumnSpec], guard: &Guard) {
        let directory = self.directory(guard);
        if specs.iter().all(|spec| directory.find(spec.id, usize::MAX).is_some()) {
            return;
        }
        self.change_directory(guard, |columns| {
            for spec in specs {
                if let Err(at) = columns.binary_search_by_key(&spec.id, |c| c.id) {
                    let (rows, budget) = (self.reserved(), &self.budget);
                    let column = Column::new(spec.id, spec.ty, &spec.missing, rows, budget);
                    columns.insert(at, Arc::new(column));
                }
            }
        });
    }

    /// For recovery: what a block has in a checkpoint. `there` has a bit for each row, columns are sorted.
    pub fn put(&self, columns: Vec<Arc<Column>>, there: &[u64], rows: usize, guard: &Guard) {
        self.reserve_known(rows, guard);
        let growing = self.growth.lock();
        self.change_latched(&growing, guard, |known| *known = columns);
        self.settle_life(guard);
        self.presence.store_all(there);
        drop(growing);
        self.dirty.store(false, Ordering::Relaxed);
    }

    /// Takes a column away.
    pub fn drop_column(&self, id: ColumnId, guard: &Guard) {
        if self.directory(guard).find(id, 0).is_none() {
            return;
        }
        self.change_directory(guard, |columns| {
            if let Ok(at) = columns.binary_search_by_key(&id, |c| c.id) {
                columns.remove(at);
            }
        });
        self.dirty.store(true, Ordering::SeqCst);
    }

    /// Takes every column away, of a block without rows.
    pub fn drop_columns(&self, guard: &Guard) {
        self.change_directory(guard, |columns| {
            columns.clear();
            // Nobody has a row here: columns come again as rows do. Heads stay, for readers may look at them.
            self.reserved.store(0, Ordering::Release);
        });
        self.dirty.store(true, Ordering::SeqCst);
    }

    /// Bytes of heads and cells, heaps apart.
    pub fn bytes(&self, guard: &Guard) -> usize {
        let columns = self.directory(guard).columns.iter().map(|column| column.bytes());
        columns.sum::<usize>() + self.heads.bytes()
    }

    #[inline]
    pub fn is_present(&self, slot: usize) -> bool {
        self.presence.get(slot)
    }

    /// A cell like any other: see [B1] and [C1].
    pub fn set_present(&self, slot: usize, present: bool) {
        self.presence.set(slot, present);
    }

    /// Every row that is there is among the first so many.
    pub fn rows_present(&self) -> usize {
        self.presence.end()
    }

    /// Copies the presence bits of the first `rows` rows.
    pub fn copy_presence(&self, rows: usize, out: &mut Vec<u64>) {
        self.presence.copy(rows, out);
    }

    /// Copies the newest state of a row: its cells in `columns`, whether it is there, and the head
    /// of the chain that this state belongs to. Consistent, but for the cells that the records of
    /// unfinished writers in that chain cover.
    #[inline]
    pub fn copy_row<'g>(
        &self,
        slot: usize,
        columns: &[Found<'_>],
        cells: &mut [Cell],
        guard: &'g Guard,
    ) -> (Option<&'g Undo>, bool) {
        self.copy_row_by(|found, slot| found.load(slot), slot, columns, cells, guard)
    }

    /// The same for whoever follows views of rows that are being written.
    pub fn copy_row_whole<'g>(
        &self,
        slot: usize,
        columns: &[Found<'_>],
        cells: &mut [Cell],
        guard: &'g Guard,
    ) -> (Option<&'g Undo>, bool) {
        self.copy_row_by(|found, slot| found.load_whole(slot), slot, columns, cells, guard)
    }

    #[inline]
    fn copy_row_by<'g>(
        &self,
        load: impl Fn(&Found<'_>, usize) -> Cell,
        slot: usize,
        columns: &[Found<'_>],
        cells: &mut [Cell],
        guard: &'g Guard,
    ) -> (Option<&'g Undo>, bool) {
        let mut spins = 0;
        loop {
            let fill = self.fill.load(Ordering::Acquire);
            let head = self.head(slot, guard);
            let present = self.is_present(slot);
            for (cell, column) in cells.iter_mut().zip(columns) {
                *cell = load(column, slot);
            }
            let head_ptr = head.map_or(std::ptr::null(), std::ptr::from_ref);
            if self.is_head(slot, head_ptr) && self.is_filled(fill) {
                return (head, present);
            }
            pause(&mut spins);
        }
    }

    /// The fill sequence at the start of a copy.
    pub fn fill(&self) -> u64 {
        self.fill.load(Ordering::Acquire)
    }

    /// Whether no migration stored cells since `fill`. Call it after an acquire fence.
    pub fn is_filled(&self, fill: u64) -> bool {
        fill.is_multiple_of(2) && self.fill.load(Ordering::Relaxed) == fill
    }

    /// Runs the stores of a migration [B4]. The caller holds the migration latch.
    pub fn fill_cells(&self, store: impl FnOnce()) {
        let fill = self.fill.load(Ordering::Relaxed);
        debug_assert!(fill.is_multiple_of(2), "one migration at a time stores cells");
        self.fill.store(fill + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        store();
        self.fill.store(fill + 2, Ordering::Release);
        self.dirty.store(true, Ordering::SeqCst);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: nobody else has the block any more.
        drop(unsafe { std::mem::take(&mut self.directory).into_owned() });
    }
}
