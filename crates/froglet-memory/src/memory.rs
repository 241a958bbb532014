//! The memory budget, and zeroed memory that pages lend lazily.
//!
//! Every long-lived allocation of the engine (blocks, columns, heaps, undo segments, index nodes)
//! is on one account. A write asks [`Budget::admit`] before it changes anything; past that check it
//! allocates without failing. So a write at the limit fails with nothing half done, and the limit
//! may be overshot by what the small writes under way need; a large one has its bytes charged from the
//! moment it is admitted ([`Admitted`]).

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
// Cells are laid over raw memory, which a model checker's atomics cannot be.
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use arrow_buffer::Buffer;
use arrow_buffer::alloc::Allocation;
use froglet_engine::EngineError;

use crate::reclaim;

/// Writes of fewer bytes are not charged before they allocate.
const HELD_BYTES_MIN: usize = 64 << 10;

/// See [`Budget::hold`].
#[derive(Debug)]
pub(crate) struct Admitted<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.release(self.bytes);
        }
    }
}

/// Queries have always this part of the limit, and so many bytes.
const LENT_PART: u64 = 8;
const LENT_BYTES_MIN: u64 = 16 << 20;

/// What may be used of the account of the engine's memory.
#[derive(Debug)]
pub(crate) struct Budget {
    account: Arc<Account>,
    /// So much may be in use.
    most_bytes: u64,
}

/// The engine's memory, what queries use beside it, and the engine beside it.
#[derive(Debug)]
struct Account {
    limit_bytes: u64,
    used_bytes: AtomicU64,
    /// What queries have borrowed.
    borrowed_bytes: AtomicU64,
    /// What is reserved for the engine beside, whether it is in use or not.
    beside_bytes: AtomicU64,
}

impl Budget {
    pub fn new(limit_bytes: u64) -> Budget {
        let account = Account {
            limit_bytes,
            used_bytes: AtomicU64::new(0),
            borrowed_bytes: AtomicU64::new(0),
            beside_bytes: AtomicU64::new(0),
        };
        Budget { account: Arc::new(account), most_bytes: limit_bytes }
    }

    /// Of the same account, for what says where rows are: it may go beyond the limit as removals may. So who has no room left
    /// can move a table elsewhere, or drop it.
    pub fn of_catalog(&self) -> Budget {
        Budget { account: Arc::clone(&self.account), most_bytes: self.reserve_bytes() }
    }

    /// The limit and a quarter of it.
    fn reserve_bytes(&self) -> u64 {
        self.limit_bytes().saturating_add(self.limit_bytes() / 4)
    }

    /// Whether `bytes` more may be used.
    pub fn admit(&self, bytes: usize) -> Result<(), EngineError> {
        self.admit_up_to(self.most_bytes, bytes)
    }

    /// Whether there is so much, as it is.
    #[inline]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used_bytes().saturating_add(bytes as u64) <= self.most_bytes
    }

    /// The same as `admit` of what gives memory back in the end, and may go beyond the limit by a quarter of it: who is over it,
    /// because the collector has not come round yet, can delete.
    pub fn admit_removal(&self, bytes: usize) -> Result<(), EngineError> {
        self.admit_up_to(self.reserve_bytes(), bytes)
    }

    fn admit_up_to(&self, limit_bytes: u64, bytes: usize) -> Result<(), EngineError> {
        let fits = || self.used_bytes().saturating_add(bytes as u64) <= limit_bytes;
        if fits() {
            return Ok(());
        }
        // What waits for readers who are gone is nobody's.
        reclaim::advance();
        if fits() { Ok(()) } else { Err(self.refusal(bytes as u64)) }
    }

    /// What a write that was admitted is about to allocate, charged until it has: so many large writes at
    /// once do not all take the same free memory.
    pub fn hold(&self, bytes: usize) -> Admitted<'_> {
        let bytes = if bytes < HELD_BYTES_MIN { 0 } else { bytes };
        if bytes > 0 {
            self.charge(bytes);
        }
        Admitted { budget: self, bytes }
    }

    /// The error for memory that is not to be had.
    pub fn refusal(&self, asked_bytes: u64) -> EngineError {
        EngineError::MemoryLimit {
            limit_bytes: self.limit_bytes(),
            used_bytes: self.used_bytes(),
            asked_bytes,
        }
    }

    pub fn charge(&self, bytes: usize) {
        self.account.used_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn release(&self, bytes: usize) {
        let before = self.account.used_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        debug_assert!(before >= bytes as u64, "released {bytes} bytes of {before}");
    }

    /// Lends memory to a query: within the limit, or of the part of it that is always theirs.
    pub fn borrow(&self, bytes: u64) -> Result<(), EngineError> {
        let always = (self.limit_bytes() / LENT_PART).max(LENT_BYTES_MIN);
        let before = self.account.borrowed_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= always || self.used_bytes() <= self.limit_bytes() {
            return Ok(());
        }
        self.give_back(bytes);
        Err(self.refusal(bytes))
    }

    /// The same of what is in use already.
    pub fn borrow_anyway(&self, bytes: u64) {
        self.account.borrowed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn give_back(&self, bytes: u64) {
        let before = self.account.borrowed_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "{bytes} bytes of {before} are given back");
    }

    /// Reserves so much, in all, for the engine beside, which asks one at a time. As of a removal: what moves there leaves
    /// memory.
    pub fn reserve_beside(&self, bytes: u64) -> Result<(), EngineError> {
        let more = bytes.saturating_sub(self.account.beside_bytes.load(Ordering::Relaxed));
        self.admit_removal(usize::try_from(more).unwrap_or(usize::MAX))?;
        self.reserve_beside_anyway(bytes);
        Ok(())
    }

    /// The same of what is in use already.
    pub fn reserve_beside_anyway(&self, bytes: u64) {
        self.account.beside_bytes.store(bytes, Ordering::Relaxed);
    }

    pub fn used_bytes(&self) -> u64 {
        self.own_bytes() + self.account.beside_bytes.load(Ordering::Relaxed)
    }

    /// Without what is reserved for the engine beside.
    pub fn own_bytes(&self) -> u64 {
        let parts = [&self.account.used_bytes, &self.account.borrowed_bytes];
        parts.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    pub fn limit_bytes(&self) -> u64 {
        self.account.limit_bytes
    }

    /// Whether less than a quarter of the memory is left.
    pub fn is_short(&self) -> bool {
        self.used_bytes() >= self.limit_bytes() - self.limit_bytes() / 4
    }
}

/// Memory on the engine's account, given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Charge {
    pub fn new(budget: &Arc<Budget>) -> Charge {
        Charge { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Makes the charge this large.
    pub fn set(&mut self, bytes: usize) -> Result<(), EngineError> {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            self.budget.admit(more)?;
            self.budget.charge(more);
        } else {
            self.budget.release(self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

/// Where [`Zeroed`] memory starts: at a multiple of this.
const ALIGNMENT: usize = 16;

/// Memory that starts as zeros, which the operating system lends page by page on first touch, seen
/// only through atomics; or, once nobody stores to it any more, as an Arrow buffer too. Or the bytes of
/// such a buffer, which nobody ever stores to.
#[derive(Debug)]
pub(crate) struct Zeroed {
    start: NonNull<u8>,
    memory: Arc<Memory>,
}

/// What is given back when its last owner goes.
#[derive(Debug)]
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    budget: Arc<Budget>,
    /// Whose memory it is, if not ours.
    lender: Option<Buffer>,
}

// SAFETY: the memory is owned by this value and reached only through atomics, or never stored to.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}
// SAFETY: `start` is that of the memory, which is kept.
unsafe impl Send for Zeroed {}
// SAFETY: as above.
unsafe impl Sync for Zeroed {}

impl Memory {
    fn of(layout: Layout, budget: &Arc<Budget>) -> Memory {
        // SAFETY: the layout has a size above zero, see `Zeroed::new`.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        budget.charge(layout.size());
        Memory { start, layout, budget: Arc::clone(budget), lender: None }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.budget.release(self.layout.size());
        if self.lender.is_some() {
            return;
        }
        // SAFETY: allocated in `of` with the same layout; nobody holds a reference any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

impl Zeroed {
    pub fn new(bytes: usize, budget: &Arc<Budget>) -> Zeroed {
        assert!(bytes > 0, "empty memory has no address");
        let layout =
            |align| Layout::from_size_align(bytes, align).expect("a column fits the address space");
        // An allocator aligns what is this long anyway; asked to, mimalloc takes more.
        let unasked = Memory::of(layout(1), budget);
        let memory = match unasked.start.as_ptr().addr().is_multiple_of(ALIGNMENT) {
            true => unasked,
            false => Memory::of(layout(ALIGNMENT), budget),
        };
        Zeroed { start: memory.start, memory: Arc::new(memory) }
    }

    /// The bytes of a buffer, which may lie in pages that must not be written to: they are only loaded,
    /// with relaxed loads of at most eight bytes, which every target allows there. None if the bytes are
    /// not aligned.
    pub fn lent(lender: Buffer, budget: &Arc<Budget>) -> Option<Zeroed> {
        let start = NonNull::new(lender.as_ptr().cast_mut())?;
        let layout = Layout::from_size_align(lender.len(), ALIGNMENT).ok()?;
        if lender.is_empty() || !start.as_ptr().addr().is_multiple_of(ALIGNMENT) {
            return None;
        }
        budget.charge(layout.size());
        let memory = Memory { start, layout, budget: Arc::clone(budget), lender: Some(lender) };
        Some(Zeroed { start, memory: Arc::new(memory) })
    }

    /// The same memory once more.
    pub fn share(&self) -> Zeroed {
        Zeroed { start: self.start, memory: Arc::clone(&self.memory) }
    }

    /// The first bytes as an Arrow buffer, which keeps the memory.
    ///
    /// # Safety
    /// Nobody stores to the memory any more.
    pub unsafe fn as_buffer(&self, bytes: usize) -> Buffer {
        assert!(bytes <= self.bytes(), "a buffer of {bytes} bytes of {}", self.bytes());
        let owner: Arc<dyn Allocation> = self.memory.clone();
        // SAFETY: the bytes are initialised, within the memory, and kept by their owner; the caller
        // promises that they do not change.
        unsafe { Buffer::from_custom_allocation(self.start, bytes, owner) }
    }

    pub fn bytes(&self) -> usize {
        self.memory.layout.size()
    }

    pub fn as_u8(&self) -> &[AtomicU8] {
        // SAFETY: zeroed, owned, live as long as self; every access goes through atomics of one
        // width, because a column's width never changes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes()) }
    }

    pub fn as_u16(&self) -> &[AtomicU16] {
        // SAFETY: as in `as_u8`; the start is aligned to 16.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes() / 2) }
    }

    pub fn as_u32(&self) -> &[AtomicU32] {
        // SAFETY: as in `as_u8`; the start is aligned to 16.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes() / 4) }
    }

    pub fn as_u64(&self) -> &[AtomicU64] {
        // SAFETY: as in `as_u8`; the start is aligned to 16.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes() / 8) }
    }

    /// The start of the memory.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}
