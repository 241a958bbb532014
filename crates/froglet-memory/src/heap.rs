//! The bytes of one column's long strings in one block.
//!
//! ```text
//!   view (16 bytes, Arrow's): length u32 | 12 bytes inline
//!                         or: length u32 | prefix 4 bytes | chunk u32 | offset u32
//!
//!   chunks  [ 0: 1 KiB ][ 1: 1 KiB ][ 2: 1 KiB ][ 3: 1.5 KiB ] …        a fixed array of pointers
//! ```
//!
//! Chunks grow with the heap, so that a small table stays small and 64 of them hold any heap.
//!
//! **[H1]** Bytes below a chunk's `used` never change. So readers, and Arrow arrays handed out, share
//! chunks without a copy.
//! **[H2]** Every store to a view cell of the column, and every append, is made under the latch.
//! **[H3]** Moving a string changes only the second word of its view, in one store. A reader that
//! has the old word finds the old chunk: its pointer is cleared only after every thread pinned at
//! that moment has unpinned. No other cell content changes by moving, so readers need no retry.
//!
//! An updated string leaves its old bytes behind. When more than half of a heap is waste, the writer
//! that noticed moves what is left into one new chunk, under the latch it holds.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
// Not a model checker's: retired chunks are cleared by whoever moves the epoch, in a later schedule.
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::sync::Mutex;
use arrow_buffer::Buffer;
use crossbeam_epoch::Guard;
use froglet_engine::IdMap;

use crate::memory::Budget;

/// The longest string that lies in its view.
pub(crate) const INLINE_MAX: usize = 12;
/// Chunks of one heap, those that wait for their last reader included.
pub(crate) const CHUNKS: usize = 64;
const _: () = assert!(CHUNKS == 64, "chunks in use are the bits of one word");
const CHUNK_BYTES_MIN: usize = 1024;
/// Chunks of many strings are not longer, so that offsets have 32 bits.
const CHUNK_BYTES_MAX: usize = 1 << 30;
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
        // SAFETY: the size is at least CHUNK_BYTES_MIN.
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

    /// Where the bytes start, and how many of them are final.
    fn published(&self) -> (NonNull<u8>, usize) {
        (self.start, self.used.load(Ordering::Acquire))
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

/// Moves one string: from its view to the new second word of that.
pub(crate) type Move<'a> = dyn FnMut(u64, u64) -> u64 + 'a;

/// What the latch protects.
#[derive(Debug, Default)]
pub(crate) struct HeapState {
    /// The chunk that is appended to.
    current: Option<usize>,
    /// A bit for each chunk that is not retired.
    in_use: u64,
    /// Bytes appended to chunks in use.
    total: usize,
    /// Of these, bytes that no cell refers to any more.
    wasted: usize,
}

impl HeapState {
    /// A cell no longer refers to a string of this length.
    pub fn waste(&mut self, bytes: usize) {
        self.wasted += bytes;
    }

    /// Whether most of the heap is waste, and enough of it.
    pub fn is_wasteful(&self) -> bool {
        self.wasted > WASTE_BYTES_MIN && self.wasted > self.total / 2
    }
}

/// One column's heap in one block.
#[derive(Debug)]
pub(crate) struct Heap {
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    /// See [H2].
    pub latch: Mutex<HeapState>,
    budget: Arc<Budget>,
}

impl Heap {
    pub fn new(budget: Arc<Budget>) -> Heap {
        Heap {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            latch: Mutex::new(HeapState::default()),
            budget,
        }
    }

    /// A heap with a chunk for so many bytes, and the state that goes under its latch.
    pub fn with_room(budget: Arc<Budget>, bytes: usize) -> (Heap, HeapState) {
        let (heap, mut state) = (Heap::new(budget), HeapState::default());
        if bytes > 0 {
            heap.add_chunk(&mut state, bytes.min(CHUNK_BYTES_MAX));
        }
        (heap, state)
    }

    /// A heap of somebody else's strings, each buffer a chunk. What is wrong with them.
    pub fn lent(budget: Arc<Budget>, strings: &[Buffer]) -> Result<Heap, String> {
        let heap = Heap::new(budget);
        if strings.len() > CHUNKS / 2 {
            return Err(format!("{} buffers of strings", strings.len()));
        }
        let mut state = HeapState::default();
        for (at, buffer) in strings.iter().enumerate() {
            let chunk = Chunk::lent(buffer.clone(), &heap.budget).ok_or("strings at no address")?;
            heap.chunks[at].store(Arc::into_raw(Arc::new(chunk)).cast_mut(), Ordering::Release);
            state.in_use |= 1 << at;
            state.total += buffer.len();
        }
        *heap.latch.lock() = state;
        Ok(heap)
    }

    /// Appends a long string under the latch; returns the second word of its view.
    pub fn append(&self, state: &mut HeapState, bytes: &[u8]) -> u64 {
        debug_assert!(bytes.len() > INLINE_MAX, "short strings lie in their view");
        let room = state.current.is_some_and(|at| {
            let chunk = self.chunk_latched(at);
            chunk.bytes - chunk.used.load(Ordering::Relaxed) >= bytes.len()
        });
        if !room {
            let size = bytes.len().max(CHUNK_BYTES_MIN).max((state.total / 2).min(CHUNK_BYTES_MAX));
            self.add_chunk(state, size);
        }
        let at = state.current.expect("there is a chunk by now");
        let chunk = self.chunk_latched(at);
        let used = chunk.used.load(Ordering::Relaxed);
        // SAFETY: [H2] bytes above `used` are ours, and there is room.
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                chunk.start.as_ptr().add(used),
                bytes.len(),
            );
        }
        chunk.used.store(used + bytes.len(), Ordering::Release);
        state.total += bytes.len();
        (at as u64) | ((used as u64) << 32)
    }

    fn chunk_latched(&self, at: usize) -> &Chunk {
        // SAFETY: a chunk in use is not cleared while the latch is held.
        unsafe { self.chunks[at].load(Ordering::Acquire).as_ref() }
            .expect("a chunk in use is there")
    }

    fn add_chunk(&self, state: &mut HeapState, bytes: usize) {
        let at = self
            .chunks
            .iter()
            .position(|chunk| chunk.load(Ordering::Acquire).is_null())
            .expect("chunks grow with the heap, so their count stays small");
        let chunk = Arc::new(Chunk::new(bytes, &self.budget));
        self.chunks[at].store(Arc::into_raw(chunk).cast_mut(), Ordering::Release);
        state.current = Some(at);
        state.in_use |= 1 << at;
    }

    /// The bytes of a long string with this view, which was read consistently under the pin.
    pub fn bytes<'g>(&self, lo: u64, hi: u64, _guard: &'g Guard) -> &'g [u8] {
        let (at, offset, len) = (hi as u32 as usize, (hi >> 32) as usize, lo as u32 as usize);
        // SAFETY: [H3] the pointer of a view read under this pin is cleared after the unpin.
        let chunk = unsafe { self.chunks[at].load(Ordering::Acquire).as_ref() }
            .expect("a chunk outlives the views that refer to it");
        let (start, used) = chunk.published();
        assert!(offset + len <= used, "a view stays within its chunk");
        // SAFETY: [H1] and the check above.
        unsafe { std::slice::from_raw_parts(start.as_ptr().add(offset), len) }
    }

    /// The final bytes of a chunk as an Arrow buffer without a copy; under the pin of the read
    /// that met the chunk in a view.
    pub fn share(&self, at: usize, guard: &Guard) -> Buffer {
        let chunk = self.share_chunk(at, guard);
        let (start, used) = (chunk.start, chunk.used.load(Ordering::Acquire));
        // SAFETY: [H1] these bytes never change, and the buffer keeps a share of the chunk.
        unsafe { Buffer::from_custom_allocation(start, used, chunk) }
    }

    /// All chunks of a heap that was made with room and appended to by its maker alone.
    pub fn share_all(&self, guard: &Guard) -> Vec<Buffer> {
        let chunks =
            self.chunks.iter().take_while(|chunk| !chunk.load(Ordering::Acquire).is_null());
        (0..chunks.count()).map(|at| self.share(at, guard)).collect()
    }

    fn share_chunk(&self, at: usize, _guard: &Guard) -> Arc<Chunk> {
        let chunk = self.chunks[at].load(Ordering::Acquire);
        assert!(!chunk.is_null(), "a chunk outlives the views that refer to it");
        // SAFETY: made by `Arc::into_raw`; [H3] the heap's own share is not given up under this pin.
        unsafe {
            Arc::increment_strong_count(chunk);
            Arc::from_raw(chunk)
        }
    }

    /// Moves every string into a new chunk and retires the old ones. `live` goes through the cells
    /// with a function that moves one string.
    pub fn compact(
        self: &Arc<Self>,
        state: &mut HeapState,
        guard: &Guard,
        live: &mut dyn FnMut(&mut Move<'_>),
    ) {
        let taken =
            self.chunks.iter().filter(|chunk| !chunk.load(Ordering::Acquire).is_null()).count();
        if taken > CHUNKS / 2 {
            // Readers still hold chunks of an earlier move. Growth takes few chunks; wait for them.
            return;
        }
        let bytes = (state.total - state.wasted.min(state.total)).max(CHUNK_BYTES_MIN);
        let mut fresh = HeapState::default();
        self.add_chunk(&mut fresh, (bytes + bytes / 4).min(CHUNK_BYTES_MAX));
        // Rows may share a string: they do in a column that was frozen with a dictionary.
        let mut moved = IdMap::<(u32, u64), u64>::default();
        live(&mut |lo, hi| {
            *moved.entry((lo as u32, hi)).or_insert_with(|| {
                let bytes = self.bytes(lo, hi, guard);
                self.append(&mut fresh, bytes)
            })
        });
        let old = std::mem::replace(state, fresh).in_use;
        let retired = Box::new((Arc::clone(self), old));
        guard.defer(move || {
            let (heap, old) = *retired;
            for at in (0..CHUNKS).filter(|at| old >> at & 1 == 1) {
                heap.clear(at);
            }
        });
    }

    /// Bytes in use, waste included.
    pub fn bytes_used(&self) -> u64 {
        self.latch.lock().total as u64
    }

    fn clear(&self, at: usize) {
        let chunk = self.chunks[at].swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !chunk.is_null() {
            // SAFETY: made by `Arc::into_raw`; the swap made the heap's share ours.
            drop(unsafe { Arc::from_raw(chunk) });
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for at in 0..CHUNKS {
            self.clear(at);
        }
    }
}
