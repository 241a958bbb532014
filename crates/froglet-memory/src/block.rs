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
//! A column may be frozen, and is made hot before a cell of it is stored: see `freeze`.

use std::sync::Arc;

use crate::sync::{Mutex, MutexGuard};
use crossbeam_epoch::{Atomic, Guard, Owned};
use froglet_engine::ColumnId;
#[cfg(not(shuttle))]
use froglet_engine::id::ROWS_PER_BLOCK;

use crate::clock::pause;
use crate::column::{BITMAP_WORDS, Cell, Column, Found, set_bit};
use crate::freeze::life;
use crate::memory::Budget;
#[cfg(not(shuttle))]
use crate::memory::Zeroed;
use crate::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence,
};
use crate::transform::Observed;
use crate::undo::{Record, Undo};

const LINK: u64 = (1 << 32) | 1;
const LINKED: u64 = u32::MAX as u64;
/// Rows whose memory is charged at once.
const CHARGED_ROWS: usize = 1024;

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

/// The newest record of each row.
#[cfg(not(shuttle))]
#[derive(Debug)]
struct Heads(Zeroed);

#[cfg(not(shuttle))]
impl Heads {
    fn new() -> Heads {
        Heads(Zeroed::new(ROWS_PER_BLOCK * size_of::<AtomicPtr<Undo>>()))
    }

    #[inline]
    fn as_slice(&self) -> &[AtomicPtr<Undo>] {
        let start = self.0.start().as_ptr().cast();
        // SAFETY: as many zeroed words as rows; a zero word is a null pointer; the memory is used
        // as this type only.
        unsafe { std::slice::from_raw_parts(start, ROWS_PER_BLOCK) }
    }
}

/// A model checker's atomics cannot be laid over zeroed memory. Its blocks use the first rows only.
#[cfg(shuttle)]
#[derive(Debug)]
struct Heads(Box<[AtomicPtr<Undo>]>);

#[cfg(shuttle)]
impl Heads {
    fn new() -> Heads {
        Heads((0..64).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect())
    }

    fn as_slice(&self) -> &[AtomicPtr<Undo>] {
        &self.0
    }
}

/// 8,192 rows.
#[derive(Debug)]
pub(crate) struct Block {
    version: AtomicU64,
    fill: AtomicU64,
    directory: Atomic<Directory>,
    heads: Heads,
    presence: Box<[AtomicU64]>,
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
    charged_rows: AtomicUsize,
    charged_bytes: AtomicUsize,
}

impl Block {
    pub fn new(budget: Arc<Budget>) -> Block {
        Block {
            version: AtomicU64::new(0),
            fill: AtomicU64::new(0),
            directory: Atomic::new(Directory::default()),
            heads: Heads::new(),
            presence: (0..BITMAP_WORDS).map(|_| AtomicU64::new(0)).collect(),
            life: AtomicU8::new(life::HOT),
            growth: Mutex::new(()),
            migration: Mutex::new(()),
            dirty: AtomicBool::new(true),
            observed: Observed::default(),
            budget,
            charged_rows: AtomicUsize::new(0),
            charged_bytes: AtomicUsize::new(0),
        }
    }

    #[inline]
    fn heads(&self) -> &[AtomicPtr<Undo>] {
        self.heads.as_slice()
    }

    /// The newest record of a row.
    #[inline]
    pub fn head<'g>(&self, slot: usize, _guard: &'g Guard) -> Option<&'g Undo> {
        // SAFETY: [U1] records reachable from a head under a pin stay until the unpin.
        unsafe { self.heads()[slot].load(Ordering::Acquire).as_ref() }
    }

    #[inline]
    pub fn head_ptr(&self, slot: usize) -> *mut Undo {
        self.heads()[slot].load(Ordering::Acquire)
    }

    /// Whether the head is still what a consistent copy was based on. Call it after the copy.
    #[inline]
    pub fn is_head(&self, slot: usize, head: *const Undo) -> bool {
        fence(Ordering::Acquire);
        std::ptr::eq(self.heads()[slot].load(Ordering::Relaxed), head)
    }

    /// Links a record onto `head`; false if the head has changed. After it, cells may be stored [B1].
    pub fn link(&self, slot: usize, head: *const Undo, record: Record, undo: &Undo) -> bool {
        undo.set_next(head.cast_mut());
        let linked = self.heads()[slot]
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
        self.heads()[slot]
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
        let mut columns = self.directory(guard).columns.clone();
        change(&mut columns);
        debug_assert!(columns.is_sorted_by_key(|c| c.id), "a directory is sorted by column id");
        let new = Owned::new(Directory { columns });
        let old = self.directory.swap(new, Ordering::AcqRel, guard);
        // SAFETY: no longer reachable; the pins of those who have it are waited for.
        unsafe { guard.defer_destroy(old) };
    }

    /// Makes sure that the block has a column.
    pub fn add_column(&self, id: ColumnId, make: impl FnOnce() -> Column, guard: &Guard) {
        self.change_directory(guard, |columns| {
            if let Err(at) = columns.binary_search_by_key(&id, |c| c.id) {
                let column = make();
                self.charge(self.charged_rows.load(Ordering::Relaxed) * column.row_bytes());
                columns.insert(at, Arc::new(column));
            }
        });
    }

    /// For recovery: what a block has in a checkpoint. `there` has a bit for each row, columns are sorted.
    pub fn put(&self, columns: Vec<Arc<Column>>, there: &[u64], rows: usize, guard: &Guard) {
        let growing = self.growth.lock();
        self.change_latched(&growing, guard, |known| *known = columns);
        self.settle_life(guard);
        for (word, bits) in self.presence.iter().zip(there) {
            word.store(*bits, Ordering::Relaxed);
        }
        drop(growing);
        self.charge_rows(rows, guard);
        self.dirty.store(false, Ordering::Relaxed);
    }

    /// Takes a column away.
    pub fn drop_column(&self, id: ColumnId, guard: &Guard) {
        if self.directory(guard).find(id, 0).is_none() {
            return;
        }
        self.change_directory(guard, |columns| {
            if let Ok(at) = columns.binary_search_by_key(&id, |c| c.id) {
                self.uncharge(columns.remove(at).row_bytes());
            }
        });
        self.dirty.store(true, Ordering::SeqCst);
    }

    /// Takes every column away, of a block without rows.
    pub fn drop_columns(&self, guard: &Guard) {
        self.change_directory(guard, |columns| {
            self.uncharge(columns.drain(..).map(|column| column.row_bytes()).sum());
        });
        self.dirty.store(true, Ordering::SeqCst);
    }

    /// Puts memory on the account as rows come into use.
    pub fn charge_rows(&self, rows: usize, guard: &Guard) {
        if rows <= self.charged_rows.load(Ordering::Relaxed) {
            return;
        }
        let rows = rows.next_multiple_of(CHARGED_ROWS);
        let before = self.charged_rows.fetch_max(rows, Ordering::Relaxed);
        if before < rows {
            let cells: usize = self.directory(guard).columns.iter().map(|c| c.row_bytes()).sum();
            self.charge((rows - before) * (cells + size_of::<AtomicPtr<Undo>>()));
        }
    }

    fn charge(&self, bytes: usize) {
        self.budget.charge(bytes);
        self.charged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Columns with so many bytes a row are gone.
    fn uncharge(&self, row_bytes: usize) {
        let bytes = row_bytes * self.charged_rows.load(Ordering::Relaxed);
        self.charged_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.release(bytes);
    }

    /// Bytes of heads and cells, heaps apart.
    pub fn bytes(&self) -> usize {
        self.charged_bytes.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn is_present(&self, slot: usize) -> bool {
        self.presence[slot / 64].load(Ordering::Relaxed) >> (slot % 64) & 1 == 1
    }

    /// A cell like any other: see [B1] and [C1].
    pub fn set_present(&self, slot: usize, present: bool) {
        set_bit(&self.presence, slot, present);
    }

    /// Every row that is there is among the first so many.
    pub fn rows_present(&self) -> usize {
        let words = self.presence.iter().map(|word| word.load(Ordering::Relaxed));
        let last = words.enumerate().filter(|(_, word)| *word != 0).last();
        last.map_or(0, |(at, word)| 64 * (at + 1) - word.leading_zeros() as usize)
    }

    /// Copies the presence bits of the first `rows` rows.
    pub fn copy_presence(&self, rows: usize, out: &mut Vec<u64>) {
        out.extend(self.presence[..rows.div_ceil(64)].iter().map(|w| w.load(Ordering::Relaxed)));
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
        self.budget.release(self.charged_bytes.load(Ordering::Relaxed));
        // SAFETY: nobody else has the block any more.
        drop(unsafe { std::mem::take(&mut self.directory).into_owned() });
    }
}
