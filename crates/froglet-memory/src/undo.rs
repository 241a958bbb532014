//! Undo records: what a row was before a write, chained from the row's head, newest first.
//!
//! ```text
//!   head ──▶ ┌ Update ─┐ next ┌ Update ─┐ next ┌ Insert ─┐ next
//!            │ word    │─────▶│ word    │─────▶│ word    │─────▶ null: visible to everybody
//!            │ images  │      │ images  │      │ (absent)│
//!            └─────────┘      └─────────┘      └─────────┘
//! ```
//!
//! A record is immutable once it is linked, except `word` (stamped once), `next` (moved on by the collector: to
//! null by a cut, to an older record by pruning, see `prune`) and the collector's own flags. It stands by itself: strings
//! that do not fit their view are copied behind it, so that it never depends on a block's heap; of one that has a chunk
//! for itself the buffer keeps a share of the chunk instead.
//!
//! Records live in segments that belong to their transaction, then to the collector. **[U1]** A
//! segment is recycled only after all its records are unlinked and every thread that was pinned at
//! that moment has unpinned. So a record found under an epoch pin stays readable under that pin.

use std::ptr::NonNull;
use std::sync::Arc;

use crossbeam_epoch::Guard;
use froglet_engine::{ColumnId, IdMap};
// Not a model checker's: segments come back from whoever moves the epoch, in a later schedule.
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::column::{Cell, Long, Tag};
use crate::heap::Chunk;
use crate::memory::Budget;
use crate::reclaim;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// What a write did to its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Before it there was no row.
    Insert,
    /// Before it the row had the cells of the images.
    Update,
    /// Before it the row was there, with the cells that are still in place.
    Delete,
    /// The same, and the row is at another place since.
    Move,
    /// The row is held; nothing changed.
    Lock,
}

/// A cell before a write.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Image {
    pub column: ColumnId,
    tag: Tag,
    lo: u64,
    hi: u64,
}

impl Image {
    /// The cell.
    #[inline]
    pub fn cell(&self) -> Cell {
        Cell { lo: self.lo, hi: self.hi, tag: self.tag }
    }
}

/// An undo record; its images follow it in memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Undo {
    /// The version's timestamp word, see `clock`.
    pub word: AtomicU64,
    next: AtomicPtr<Undo>,
    /// The row.
    pub rid: u64,
    /// Bytes of redo that the transaction had before this write.
    pub redo_at: u64,
    /// Writes of the transaction before this one.
    pub seq: u32,
    images: u16,
    /// The row's space, in the list of its transaction.
    pub space: u16,
    /// What was done.
    pub kind: Kind,
    /// Set by the collector when the record is no longer in a chain.
    pub unlinked: AtomicBool,
    /// Nobody has noted which keys the state before it has: who unlinks it sees to them, see `collector`, [G6].
    /// Of what recovery has linked, and set by the collector.
    pub unnoted: AtomicBool,
}

#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Undo>() == 48, "a record's header is six words");
const _: () = assert!(size_of::<Image>() == 24, "an image is three words");

impl Undo {
    /// The next older record.
    pub fn next<'g>(&self, _guard: &'g Guard) -> Option<&'g Undo> {
        // SAFETY: [U1] the record was reached from a head under this pin.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// Before linking: what the record stands on. After, by the collector: null, or what lies behind.
    pub fn set_next(&self, next: *mut Undo) {
        self.next.store(next, Ordering::Release);
    }

    /// The cells before the write.
    pub fn images(&self) -> &[Image] {
        let behind = std::ptr::from_ref(self).addr() + size_of::<Undo>();
        let start = std::ptr::with_exposed_provenance(behind);
        // SAFETY: `UndoBuffer::push` wrote as many images behind the header, in the same segment
        // (whose provenance is exposed), before the record was linked; they never change.
        unsafe { std::slice::from_raw_parts(start, usize::from(self.images)) }
    }

    /// Whether the write changed a column.
    pub fn changes(&self, column: ColumnId) -> bool {
        self.images().iter().any(|image| image.column == column)
    }
}

/// A pointer to a record in a segment that is kept by whoever has this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record(NonNull<Undo>);

impl Record {
    pub fn as_ptr(self) -> *mut Undo {
        self.0.as_ptr()
    }
}

/// Of a transaction's segments the first is small, so that a short transaction holds little, and
/// those behind are larger. The first two sizes are pooled.
const SEGMENT_WORDS: [usize; 3] = [128, 1024, 32 * 1024];
const POOLED_MAX: usize = 4096;

/// A piece of memory for records.
#[derive(Debug)]
struct Segment {
    start: NonNull<u64>,
    words: usize,
    used: usize,
    budget: Arc<Budget>,
}

// SAFETY: the segment owns its memory.
unsafe impl Send for Segment {}

impl Segment {
    fn new(words: usize, budget: &Arc<Budget>) -> Segment {
        let memory: Box<[u64]> = vec![0; words].into_boxed_slice();
        budget.charge(words * 8);
        let start: *mut u64 = Box::into_raw(memory).cast();
        // Images and strings are found by address, see `Undo::images`.
        let _ = start.expose_provenance();
        Segment {
            start: NonNull::new(start).expect("a box is not null"),
            words,
            used: 0,
            budget: Arc::clone(budget),
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // Whoever panics may drop records that are still linked: they stay for whoever reads them until the process ends.
        if std::thread::panicking() {
            return;
        }
        self.budget.release(self.words * 8);
        let memory = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.words);
        // SAFETY: made by `Box::into_raw` in `new`; [U1] nobody reads its records any more.
        drop(unsafe { Box::from_raw(memory) });
    }
}

/// Segments that are ready for the next transactions.
#[derive(Debug)]
pub(crate) struct Pool {
    free: [Mutex<Vec<Segment>>; 2],
    budget: Arc<Budget>,
}

impl Pool {
    pub fn new(budget: Arc<Budget>) -> Pool {
        Pool { free: [const { Mutex::new(Vec::new()) }; 2], budget }
    }

    /// A segment of at least this many words.
    fn take(&self, words: usize) -> Segment {
        let class = SEGMENT_WORDS[..2].iter().position(|&size| words <= size);
        let pooled = class.and_then(|class| self.free[class].lock().pop());
        pooled.unwrap_or_else(|| {
            Segment::new(class.map_or(words, |class| SEGMENT_WORDS[class]), &self.budget)
        })
    }

    /// Gives back what no transaction has.
    pub fn clear(&self) {
        for free in &self.free {
            // Freed after the lock.
            let _segments = std::mem::take(&mut *free.lock());
        }
    }

    /// Takes segments back. The caller has waited as [U1] says.
    fn put(&self, segments: impl IntoIterator<Item = Segment>) {
        for mut segment in segments {
            let class = SEGMENT_WORDS[..2].iter().position(|&size| segment.words == size);
            if let Some(class) = class {
                segment.used = 0;
                let mut free = self.free[class].lock();
                if free.len() < POOLED_MAX >> (3 * class) {
                    free.push(segment);
                }
            }
        }
    }
}

/// The undo records of one transaction.
#[derive(Debug, Default)]
pub(crate) struct UndoBuffer {
    segments: SmallVec<[Segment; 1]>,
    /// Records of writes that stand, oldest first.
    live: Vec<Record>,
    /// Records of writes that were rolled back while the transaction went on.
    dead: Vec<Record>,
    /// Strings of images that are shared, by their address.
    shared: IdMap<u64, Arc<Chunk>>,
    shared_bytes: usize,
    /// What the lists of records have on the account.
    listed_bytes: usize,
    /// What the transaction has there beside its records.
    beside_bytes: usize,
}

// SAFETY: records are shared through atomics and immutable otherwise; the buffer owns the memory.
unsafe impl Send for UndoBuffer {}

// SAFETY: through a shared reference only records can be read, whose fields are atomics or never
// change; making, burying and retiring records takes `&mut`.
unsafe impl Sync for UndoBuffer {}

/// What goes into a record beside its images.
pub(crate) struct Header {
    pub word: u64,
    pub rid: u64,
    pub redo_at: u64,
    pub seq: u32,
    pub space: u16,
    pub kind: Kind,
    pub unnoted: bool,
}

impl UndoBuffer {
    /// Makes a record that is not linked yet. `images` are consistent cells of the row; the bytes of a
    /// long string are given beside its cell and copied.
    pub fn push(
        &mut self,
        pool: &Pool,
        header: Header,
        images: &[(ColumnId, Cell, Long<'_>)],
    ) -> Record {
        const HEADER_WORDS: usize = size_of::<Undo>() / 8;
        const IMAGE_WORDS: usize = size_of::<Image>() / 8;
        let strings: usize =
            images.iter().map(|(_, _, long)| long.copied().len().div_ceil(8)).sum();
        let words = HEADER_WORDS + IMAGE_WORDS * images.len() + strings;
        let start = self.allocate(pool, words);
        let record = start.cast::<Undo>();
        let undo = Undo {
            word: AtomicU64::new(header.word),
            next: AtomicPtr::new(std::ptr::null_mut()),
            rid: header.rid,
            redo_at: header.redo_at,
            seq: header.seq,
            images: u16::try_from(images.len()).expect("a table has fewer than 2^16 columns"),
            space: header.space,
            kind: header.kind,
            unlinked: AtomicBool::new(false),
            unnoted: AtomicBool::new(header.unnoted),
        };
        // SAFETY: `allocate` gave `words` words of our own, aligned to eight; header, images and
        // strings lie in them one behind the other.
        unsafe {
            record.write(undo);
            let mut image = start.add(HEADER_WORDS).cast::<Image>();
            let mut string = start.add(HEADER_WORDS + IMAGE_WORDS * images.len());
            for &(column, mut cell, ref long) in images {
                let bytes = long.copied();
                if let Long::Shared(chunk) = long {
                    cell = Cell { tag: Tag::Outside, lo: cell.lo, hi: self.share(chunk) };
                } else if !bytes.is_empty() {
                    std::ptr::copy_nonoverlapping(
                        bytes.as_ptr(),
                        string.cast().as_ptr(),
                        bytes.len(),
                    );
                    cell =
                        Cell { tag: Tag::Outside, lo: cell.lo, hi: string.as_ptr().addr() as u64 };
                    string = string.add(bytes.len().div_ceil(8));
                }
                image.write(Image { column, tag: cell.tag, lo: cell.lo, hi: cell.hi });
                image = image.add(1);
            }
        }
        self.live.push(Record(record));
        let listed_bytes = (self.live.capacity() + self.dead.capacity()) * size_of::<Record>();
        if listed_bytes > self.listed_bytes {
            pool.budget.charge(listed_bytes - self.listed_bytes);
            self.listed_bytes = listed_bytes;
        }
        Record(record)
    }

    /// Keeps a share of a string's chunk; the string's address.
    fn share(&mut self, chunk: &Arc<Chunk>) -> u64 {
        let address = chunk.published().as_ptr().expose_provenance() as u64;
        if self.shared.insert(address, Arc::clone(chunk)).is_none() {
            self.shared_bytes += chunk.published().len();
        }
        address
    }

    /// The chunk that an image of this buffer shares.
    pub fn shared(&self, cell: &Cell) -> Option<&Arc<Chunk>> {
        if cell.tag == Tag::Outside { self.shared.get(&cell.hi) } else { None }
    }

    /// Puts what the transaction keeps beside its records on the account, until they are retired.
    pub fn charge_beside(&mut self, pool: &Pool, bytes: usize) {
        pool.budget.charge(bytes);
        self.beside_bytes += bytes;
    }

    /// Takes the newest record back, which was never linked.
    pub fn unpush(&mut self) {
        let record = self.live.pop().expect("the record that is taken back was pushed");
        let segment = self.segments.last_mut().expect("a record lies in a segment");
        let start = segment.start.as_ptr() as usize;
        let at = record.as_ptr() as usize;
        debug_assert!(
            at >= start && at < start + segment.words * 8,
            "the newest record is in the newest segment"
        );
        segment.used = (at - start) / 8;
    }

    fn allocate(&mut self, pool: &Pool, words: usize) -> NonNull<u64> {
        let fits = self.segments.last().is_some_and(|s| s.words - s.used >= words);
        if !fits {
            let size = match self.segments.len() {
                0 => SEGMENT_WORDS[0],
                1..4 => SEGMENT_WORDS[1],
                _ => SEGMENT_WORDS[2],
            };
            self.segments.push(pool.take(size.max(words)));
        }
        let segment = self.segments.last_mut().expect("there is a segment by now");
        // SAFETY: `used + words` is within the segment.
        let start = unsafe { segment.start.add(segment.used) };
        segment.used += words;
        start
    }

    /// Writes that stand.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// How many writes stand that were made before the one with this number.
    pub fn len_before(&self, seq: u32) -> usize {
        self.live.partition_point(|record| record_ref(record).seq < seq)
    }

    /// Whether no write stands.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Whether there are records at all, of undone writes too.
    pub fn has_records(&self) -> bool {
        !self.live.is_empty() || !self.dead.is_empty()
    }

    /// The i-th write that stands.
    pub fn get(&self, i: usize) -> &Undo {
        record_ref(&self.live[i])
    }

    /// The newest write that stands.
    pub fn last(&self) -> Option<&Undo> {
        self.live.last().map(record_ref)
    }

    /// The writes that stand, oldest first.
    pub fn live(&self) -> impl DoubleEndedIterator<Item = &Undo> {
        self.live.iter().map(record_ref)
    }

    /// All records, those of undone writes too.
    pub fn all(&self) -> impl Iterator<Item = &Undo> {
        self.live.iter().chain(&self.dead).map(record_ref)
    }

    /// Moves the writes from the n-th on to the dead ones.
    pub fn bury(&mut self, n: usize) {
        self.dead.extend(self.live.drain(n..));
    }

    /// Bytes of memory held.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|s| s.words * 8).sum::<usize>() + self.shared_bytes
    }

    /// Gives the memory back to the pool once [U1] allows it. All records must be unlinked.
    pub fn retire(&mut self, pool: &Arc<Pool>, guard: &Guard) {
        let bytes = self.bytes();
        pool.budget.release(self.listed_bytes + self.beside_bytes);
        let UndoBuffer { segments, shared, .. } = std::mem::take(self);
        if segments.is_empty() {
            return;
        }
        let garbage = Box::new((segments, shared, Arc::clone(pool)));
        reclaim::defer(guard, bytes, move || {
            let (segments, _shared, pool) = *garbage;
            pool.put(segments);
        });
    }
}

fn record_ref(record: &Record) -> &Undo {
    // SAFETY: the record lies in a segment of the buffer that is borrowed with it.
    unsafe { record.0.as_ref() }
}
