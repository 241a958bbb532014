//! The bytes of one column's long strings in one block.
//!
//! ```text
//!   view (16 bytes, Arrow's): length u32 | 12 bytes inline
//!                         or: length u32 | prefix 4 bytes | chunk u32 | offset u32
//!
//!   chunks  [ 0: 1 KiB ][ 1: 1 KiB ][ 2: one string of 50 MB ][ 3: 1.5 KiB ] …     as many as it takes
//! ```
//!
//! Strings share chunks, which grow with the heap, so that a small table stays small. A string of
//! [`ALONE_BYTES`] or more has a chunk for itself: the bytes go when the string goes, and nobody ever copies
//! them, whether the column is frozen, the string replaced, or its writer aborted.
//!
//! **[H1]** Bytes below a chunk's `used` never change. So readers, undo records, and Arrow arrays handed out
//! share chunks without a copy.
//! **[H2]** Every store to a view cell of the column, and every append, is made under the latch.
//! **[H3]** Moving a string changes only the second word of its view, in one store. A reader that
//! has the old word finds the old chunk: its pointer is cleared only after every thread pinned at
//! that moment has unpinned. No other cell content changes by moving, so readers need no retry.
//! **[H4]** Nothing here fails: a heap takes any number of chunks, and memory was admitted before. So a
//! writer that has linked its record, and one that takes its writes back, always comes to an end.
//!
//! An updated string leaves its old bytes behind. A chunk without a string is given back at once. When more
//! than half of a heap is waste, the writer that noticed moves what is left in the emptiest chunks, under
//! the latch it holds.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
// Not a model checker's: retired chunks are cleared by whoever moves the epoch, in a later schedule.
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::sync::Mutex;
use arrow_buffer::Buffer;
use crossbeam_epoch::Guard;
use froglet_engine::IdMap;
use smallvec::SmallVec;

use crate::memory::Budget;
use crate::reclaim;

/// The longest string that lies in its view.
pub(crate) const INLINE_MAX: usize = 12;
/// A string that is as long has a chunk for itself.
pub(crate) const ALONE_BYTES: usize = if cfg!(any(miri, shuttle)) { 40 } else { 16 << 10 };
const CHUNK_BYTES_MIN: usize = 1024;
/// Chunks that grow with their heap are not longer; so their offsets have 32 bits by far.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// What is gathered at once may lie in longer ones.
const ROOM_BYTES_MAX: usize = 1 << 30;
const WASTE_BYTES_MIN: usize = 64 * 1024;

/// Append-only bytes.
#[derive(Debug)]
pub(crate) struct Chunk {
    start: NonNull<u8>,
    bytes: usize,
    used: AtomicUsize,
    budget: Arc<Budget>,
    /// Whose bytes they are, if not ours. There is no room for more.
    lender: Option<Buffer>,
}

// SAFETY: bytes below `used` are immutable [H1]; those above belong to the holder of the latch [H2].
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn new(bytes: usize, budget: &Arc<Budget>) -> Chunk {
        let layout = Self::layout(bytes);
        // SAFETY: a chunk is made for a string, so its size is above zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        budget.charge(bytes);
        Chunk { start, bytes, used: AtomicUsize::new(0), budget: Arc::clone(budget), lender: None }
    }

    /// A full one, of somebody else's bytes.
    fn lent(lender: Buffer, budget: &Arc<Budget>) -> Option<Chunk> {
        let (start, bytes) = (NonNull::new(lender.as_ptr().cast_mut())?, lender.len());
        budget.charge(bytes);
        let used = AtomicUsize::new(bytes);
        Some(Chunk { start, bytes, used, budget: Arc::clone(budget), lender: Some(lender) })
    }

    fn layout(bytes: usize) -> Layout {
        Layout::array::<u8>(bytes).expect("a chunk is smaller than the address space")
    }

    fn room(&self) -> usize {
        self.bytes - self.used.load(Ordering::Relaxed)
    }

    /// The bytes that are final.
    pub fn published(&self) -> &[u8] {
        let used = self.used.load(Ordering::Acquire);
        // SAFETY: [H1], and the chunk is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), used) }
    }

    /// Appends under the latch; where. There is room.
    fn append(&self, bytes: &[u8]) -> usize {
        debug_assert!(bytes.len() <= self.room(), "{} bytes of {}", bytes.len(), self.room());
        let used = self.used.load(Ordering::Relaxed);
        // SAFETY: [H2] bytes above `used` are ours, and there is room.
        unsafe {
            let to = self.start.as_ptr().add(used);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        self.used.store(used + bytes.len(), Ordering::Release);
        used
    }

    /// The final bytes as an Arrow buffer without a copy.
    fn share(self: Arc<Self>) -> Buffer {
        let (start, used) = (self.start, self.used.load(Ordering::Acquire));
        // SAFETY: [H1] these bytes never change, and the buffer keeps a share of the chunk.
        unsafe { Buffer::from_custom_allocation(start, used, self) }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
        if self.lender.is_some() {
            return;
        }
        // SAFETY: allocated in `new` with this layout; the last owner is gone.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.bytes)) };
    }
}

/// Chunks that every heap has a place for.
const FIRST: usize = 4;
/// Each twice as long as the one before: places for more chunks than memory has kilobytes.
const BUCKETS: usize = 28;
type Bucket = OnceLock<Box<[AtomicPtr<Chunk>]>>;

/// Chunks by their number. A place never moves.
#[derive(Debug)]
struct Places {
    first: [AtomicPtr<Chunk>; FIRST],
    more: OnceLock<Box<[Bucket; BUCKETS]>>,
}

const fn empty() -> AtomicPtr<Chunk> {
    AtomicPtr::new(std::ptr::null_mut())
}

impl Places {
    fn bucket(at: usize) -> (usize, usize) {
        let bucket = (at / FIRST).ilog2() as usize;
        (bucket, at - (FIRST << bucket))
    }

    #[inline]
    fn get(&self, at: usize) -> Option<&AtomicPtr<Chunk>> {
        if at < FIRST {
            return Some(&self.first[at]);
        }
        let (bucket, at) = Self::bucket(at);
        self.more.get()?.get(bucket)?.get()?.get(at)
    }

    /// Makes the place if need be. Under the latch.
    fn make(&self, at: usize) -> &AtomicPtr<Chunk> {
        if at >= FIRST {
            let more = self.more.get_or_init(|| Box::new([const { OnceLock::new() }; BUCKETS]));
            let (bucket, _) = Self::bucket(at);
            more[bucket].get_or_init(|| (0..FIRST << bucket).map(|_| empty()).collect());
        }
        self.get(at).expect("the place was made")
    }
}

/// Is told the view of one string.
pub(crate) type Visit<'a> = dyn FnMut(u64, u64) + 'a;

/// Moves one string: from its view to the second word that its view is to have.
pub(crate) type Move<'a> = dyn FnMut(u64, u64) -> u64 + 'a;

/// What is known of the chunk with a number.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Not retired.
    in_use: bool,
    /// Bytes appended.
    used: usize,
    /// Bytes of the strings that cells refer to, once for each cell.
    live: usize,
}

impl Held {
    fn waste(&self) -> usize {
        if self.in_use { self.used.saturating_sub(self.live) } else { 0 }
    }
}

/// What the latch protects.
#[derive(Debug, Default)]
pub(crate) struct HeapState {
    /// The chunk that is appended to.
    current: Option<usize>,
    /// By number.
    chunks: Vec<Held>,
    /// Bytes appended to chunks in use.
    total: usize,
    /// Of these, bytes that no cell refers to any more.
    wasted: usize,
    /// Where a number that is free again is looked for first.
    free_from: usize,
}

impl HeapState {
    fn change(&mut self, at: usize, change: impl FnOnce(&mut Held)) {
        let held = &mut self.chunks[at];
        let before = (held.used, held.waste());
        change(held);
        self.total = self.total + held.used - before.0;
        self.wasted = self.wasted + held.waste() - before.1;
    }

    /// More cells refer to the string with this second word of its view.
    pub fn refer(&mut self, hi: u64, len: usize, cells: usize) {
        self.change(chunk_of(hi), |held| held.live += len * cells);
    }

    /// Whether most of the heap is waste, and enough of it.
    pub fn is_wasteful(&self) -> bool {
        self.wasted > WASTE_BYTES_MIN && self.wasted > self.total / 2
    }
}

/// The chunk that the second word of a long view names.
pub(crate) fn chunk_of(hi: u64) -> usize {
    hi as u32 as usize
}

fn word(at: usize, offset: usize) -> u64 {
    let at = u32::try_from(at).expect("a heap has fewer chunks than memory has kilobytes");
    u64::from(at) | ((offset as u64) << 32)
}

/// One column's heap in one block.
#[derive(Debug)]
pub(crate) struct Heap {
    places: Places,
    /// How many places have become empty, and were not used again.
    cleared: AtomicUsize,
    /// See [H2].
    pub latch: Mutex<HeapState>,
    budget: Arc<Budget>,
}

impl Heap {
    pub fn new(budget: Arc<Budget>) -> Heap {
        Heap {
            places: Places { first: [const { empty() }; FIRST], more: OnceLock::new() },
            cleared: AtomicUsize::new(0),
            latch: Mutex::new(HeapState::default()),
            budget,
        }
    }

    /// A heap with a chunk for so many bytes, and the state that goes under its latch.
    pub fn with_room(budget: Arc<Budget>, bytes: usize) -> (Heap, HeapState) {
        let (heap, mut state) = (Heap::new(budget), HeapState::default());
        if bytes > 0 {
            let chunk = Chunk::new(bytes.min(ROOM_BYTES_MAX), &heap.budget);
            state.current = Some(heap.put(&mut state, Arc::new(chunk)));
        }
        (heap, state)
    }

    /// A heap of somebody else's strings, each buffer a chunk. What is wrong with them.
    pub fn lent(budget: Arc<Budget>, strings: &[Buffer]) -> Result<Heap, String> {
        let (heap, mut state) = (Heap::new(budget), HeapState::default());
        for buffer in strings {
            let chunk = Chunk::lent(buffer.clone(), &heap.budget).ok_or("strings at no address")?;
            let at = heap.put(&mut state, Arc::new(chunk));
            // Who stores to its cells counts what they refer to.
            state.change(at, |held| held.live = held.used);
        }
        *heap.latch.lock() = state;
        Ok(heap)
    }

    /// Appends a long string under the latch; returns the second word of its view.
    pub fn append(&self, state: &mut HeapState, bytes: &[u8]) -> u64 {
        if bytes.len() < ALONE_BYTES {
            return self.append_packed(state, bytes);
        }
        let chunk = Chunk::new(bytes.len(), &self.budget);
        chunk.append(bytes);
        self.adopt(state, Arc::new(chunk))
    }

    /// The same behind other strings, however long it is.
    pub fn append_packed(&self, state: &mut HeapState, bytes: &[u8]) -> u64 {
        debug_assert!(bytes.len() > INLINE_MAX, "short strings lie in their view");
        let current = state.current.map(|at| (at, self.chunk_latched(at)));
        let at = match current.filter(|(_, chunk)| chunk.room() >= bytes.len()) {
            Some((at, _)) => at,
            None => {
                let size = (state.total / 2).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
                let chunk = Chunk::new(size.max(bytes.len()), &self.budget);
                self.put(state, Arc::new(chunk))
            }
        };
        state.current = Some(at);
        let offset = self.chunk_latched(at).append(bytes);
        state.change(at, |held| {
            held.used += bytes.len();
            held.live += bytes.len();
        });
        word(at, offset)
    }

    /// Takes over a chunk of one string; returns the second word of its view.
    pub fn adopt(&self, state: &mut HeapState, chunk: Arc<Chunk>) -> u64 {
        let at = self.put(state, chunk);
        state.change(at, |held| held.live = held.used);
        word(at, 0)
    }

    fn chunk_latched(&self, at: usize) -> &Chunk {
        let place = self.places.get(at).map(|place| place.load(Ordering::Acquire));
        // SAFETY: a chunk in use is not cleared while the latch is held.
        place.and_then(|chunk| unsafe { chunk.as_ref() }).expect("a chunk in use is there")
    }

    /// Gives a chunk a number, under the latch.
    fn put(&self, state: &mut HeapState, chunk: Arc<Chunk>) -> usize {
        let at = self.free_number(state);
        let used = chunk.used.load(Ordering::Relaxed);
        self.places.make(at).store(Arc::into_raw(chunk).cast_mut(), Ordering::Release);
        state.change(at, |held| *held = Held { in_use: true, used, live: 0 });
        at
    }

    fn free_number(&self, state: &mut HeapState) -> usize {
        let len = state.chunks.len();
        if self.cleared.load(Ordering::Acquire) > 0 {
            let is_empty = |at: &usize| {
                let place = self.places.get(*at).expect("a number has a place");
                place.load(Ordering::Acquire).is_null()
            };
            let from = state.free_from;
            let mut numbers = (0..len).map(|i| (from + i) % len);
            if let Some(at) = numbers.find(is_empty) {
                self.cleared.fetch_sub(1, Ordering::Relaxed);
                state.free_from = at + 1;
                return at;
            }
        }
        state.chunks.push(Held::default());
        len
    }

    /// A cell no longer refers to this string. Under the latch.
    pub fn forget(self: &Arc<Self>, state: &mut HeapState, hi: u64, len: usize, guard: &Guard) {
        let at = chunk_of(hi);
        state.change(at, |held| {
            debug_assert!(held.in_use && held.live >= len, "{len} bytes of {held:?}");
            held.live = held.live.saturating_sub(len);
        });
        let is_worth_keeping = state.current == Some(at)
            && self.chunk_latched(at).room() > self.chunk_latched(at).bytes / 2;
        if state.chunks[at].live == 0 && !is_worth_keeping {
            self.retire(state, SmallVec::from_slice(&[at]), guard);
        }
    }

    /// Clears these chunks as soon as [H3] allows it.
    fn retire(
        self: &Arc<Self>,
        state: &mut HeapState,
        chunks: SmallVec<[usize; 2]>,
        guard: &Guard,
    ) {
        let mut bytes = 0;
        for &at in &chunks {
            bytes += self.chunk_latched(at).bytes;
            state.change(at, |held| *held = Held::default());
            state.current = state.current.filter(|current| *current != at);
        }
        let heap = Arc::clone(self);
        reclaim::defer(guard, bytes, move || chunks.iter().for_each(|at| heap.clear(*at)));
    }

    /// The bytes of a long string with this view, which was read consistently under the pin.
    pub fn bytes<'g>(&self, lo: u64, hi: u64, guard: &'g Guard) -> &'g [u8] {
        let (offset, len) = ((hi >> 32) as usize, lo as u32 as usize);
        let published = self.chunk(chunk_of(hi), guard).published();
        published.get(offset..offset + len).expect("a view stays within its chunk")
    }

    fn chunk<'g>(&self, at: usize, _guard: &'g Guard) -> &'g Chunk {
        let place = self.places.get(at).map(|place| place.load(Ordering::Acquire));
        // SAFETY: [H3] the pointer of a view read under this pin is cleared, and the heap's share given up,
        // after the unpin.
        place
            .and_then(|chunk| unsafe { chunk.as_ref() })
            .expect("a chunk outlives the views that refer to it")
    }

    /// The chunk of a string that has one for itself; under the pin of the read that met its view.
    pub fn alone(&self, lo: u64, hi: u64, guard: &Guard) -> Option<Arc<Chunk>> {
        let len = lo as u32 as usize;
        let is_alone = len >= ALONE_BYTES && self.chunk(chunk_of(hi), guard).bytes == len;
        is_alone.then(|| self.share_chunk(chunk_of(hi), guard))
    }

    /// The final bytes of a chunk as an Arrow buffer without a copy; under the pin of the read
    /// that met the chunk in a view.
    pub fn share(&self, at: usize, guard: &Guard) -> Buffer {
        self.share_chunk(at, guard).share()
    }

    /// All chunks of a heap that was appended to by its maker alone, in their order.
    pub fn share_all(&self, guard: &Guard) -> Vec<Buffer> {
        let chunks = self.latch.lock().chunks.len();
        (0..chunks).map(|at| self.share(at, guard)).collect()
    }

    fn share_chunk(&self, at: usize, guard: &Guard) -> Arc<Chunk> {
        let chunk = std::ptr::from_ref(self.chunk(at, guard));
        let place = self.places.get(at).expect("a chunk has a place").load(Ordering::Acquire);
        assert!(std::ptr::eq(place, chunk), "a chunk outlives the views that refer to it");
        // SAFETY: made by `Arc::into_raw`; [H3] the heap's own share is not given up under this pin.
        unsafe {
            Arc::increment_strong_count(place.cast_const());
            Arc::from_raw(place)
        }
    }

    /// Counts anew what cells refer to, and retires what they do not. `live` calls its argument with the
    /// view of every long string.
    pub fn recount(
        self: &Arc<Self>,
        state: &mut HeapState,
        guard: &Guard,
        live: &mut dyn FnMut(&mut Visit<'_>),
    ) {
        for at in 0..state.chunks.len() {
            state.change(at, |held| held.live = 0);
        }
        live(&mut |lo, hi| state.refer(hi, lo as u32 as usize, 1));
        let is_dead = |at: &usize| state.chunks[*at].in_use && state.chunks[*at].live == 0;
        let dead: SmallVec<[usize; 2]> = (0..state.chunks.len()).filter(is_dead).collect();
        if !dead.is_empty() {
            self.retire(state, dead, guard);
        }
    }

    /// Moves the strings of chunks that are mostly waste, and retires those. `live` goes through the cells
    /// with a function that moves one string.
    pub fn compact(
        self: &Arc<Self>,
        state: &mut HeapState,
        guard: &Guard,
        live: &mut dyn FnMut(&mut Move<'_>),
    ) {
        let is_mostly_waste = |at: &usize| state.chunks[*at].waste() > state.chunks[*at].used / 2;
        let victims: SmallVec<[usize; 2]> =
            (0..state.chunks.len()).filter(is_mostly_waste).collect();
        state.current = state.current.filter(|current| !victims.contains(current));
        let mut is_victim = vec![false; state.chunks.len()];
        victims.iter().for_each(|at| is_victim[*at] = true);
        // Rows may share a string: they do in a column that was frozen with a dictionary.
        let mut moved = IdMap::<(u32, u64), u64>::default();
        live(&mut |lo, hi| {
            if !is_victim.get(chunk_of(hi)).copied().unwrap_or(false) {
                return hi;
            }
            let len = lo as u32 as usize;
            if let Some(hi) = moved.get(&(lo as u32, hi)) {
                state.refer(*hi, len, 1);
                return *hi;
            }
            let new = self.append(state, self.bytes(lo, hi, guard));
            moved.insert((lo as u32, hi), new);
            new
        });
        self.retire(state, victims, guard);
    }

    /// Bytes in use, waste included.
    pub fn bytes_used(&self) -> u64 {
        self.latch.lock().total as u64
    }

    fn clear(&self, at: usize) {
        let Some(place) = self.places.get(at) else { return };
        let chunk = place.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !chunk.is_null() {
            self.cleared.fetch_add(1, Ordering::Release);
            // SAFETY: made by `Arc::into_raw`; the swap made the heap's share ours.
            drop(unsafe { Arc::from_raw(chunk) });
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        let mut at = 0;
        while self.places.get(at).is_some() {
            self.clear(at);
            at += 1;
        }
    }
}
