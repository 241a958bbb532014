//! The memory of queries, on the account of the rows: one limit for the server.
//!
//! ```text
//!   operators (sorts, groups, joins) ──▶ Pool ────┐
//!   functions ──▶ Room, while they make values    ├──▶ Engine::borrow_memory ──▶ 53200 past the limit
//!                 Meter, while these are held ────┤
//!   statements that write ──▶ Gathering, of rows ─┘
//! ```
//!
//! DataFusion's operators say what they use and spill where they can. A function says nothing: it is asked for its
//! room here, before it makes one large value and while it makes many, and there it hears of a cancel and of the
//! time that its statement has, too. A large result stays on the account until nobody but the [`Meter`] has its
//! bytes any more. What is constant is computed while the statement is planned, if it is small: a plan is copied often.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use froglet_engine::{Engine, EngineError, Row, SqlState, Value};
use parking_lot::Mutex;

use crate::context::SessionFunctions;
use crate::error::SqlError;

/// The longest value, PostgreSQL's limit.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 30;
/// What is smaller than this is not worth asking for.
const STEP_BYTES: usize = 256 << 10;
/// Buffers from this size on are followed.
const LARGE_BYTES: usize = 1 << 20;

/// The longest value that planning computes.
const FOLDED_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static IS_FOLDING: Cell<bool> = const { Cell::new(false) };
}

/// Optimizes a plan or an expression. A constant that is large stays the call that it is, for the optimizer takes an
/// error as a reason not to compute it.
pub(crate) fn folding<T>(optimize: impl FnOnce() -> T) -> T {
    struct Was(bool);
    impl Drop for Was {
        fn drop(&mut self) {
            IS_FOLDING.set(self.0);
        }
    }
    let _was = Was(IS_FOLDING.replace(true));
    optimize()
}

/// 54000
pub(crate) fn too_large() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
        .detail("A value has at most 1 GB.")
}

/// DataFusion's door to the account.
pub(crate) struct Pool {
    engine: Arc<dyn Engine>,
    reserved: AtomicUsize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} bytes)", self.reserved.load(Ordering::Relaxed))
    }
}

impl std::fmt::Display for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("froglet")
    }
}

impl Pool {
    /// Where the queries over an engine run.
    pub(crate) fn environment(engine: Arc<dyn Engine>) -> Arc<RuntimeEnv> {
        RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(Pool { engine, reserved: AtomicUsize::new(0) }))
            .build_arc()
            .expect("a runtime environment without files can be made")
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        "froglet"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        self.engine.borrow_memory_anyway(additional as u64);
        self.reserved.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        self.reserved.fetch_sub(shrink, Ordering::Relaxed);
        self.engine.return_memory(shrink as u64);
    }

    fn try_grow(&self, _reservation: &MemoryReservation, additional: usize) -> PlanResult<()> {
        let borrowed = self.engine.borrow_memory(additional as u64);
        borrowed.map_err(|e| DataFusionError::ResourcesExhausted(e.to_string()))?;
        self.reserved.fetch_add(additional, Ordering::Relaxed);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        let (used, limit) = self.engine.memory();
        MemoryLimit::Finite(limit.saturating_sub(used) as usize + self.reserved())
    }
}

/// What a session's functions have made, and what its statement has gathered.
pub struct Meter {
    engine: Arc<dyn Engine>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Of results, as long as somebody else has them.
    buffers: Vec<Buffer>,
    /// Rows that the statement has read and has still to write, or to answer with.
    gathered_bytes: u64,
}

impl Meter {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Meter {
        Meter { engine, held: Mutex::default() }
    }

    /// Asks for memory, once more after looking who has let go of what.
    fn borrow(&self, bytes: usize) -> Result<(), EngineError> {
        let borrowed = self.engine.borrow_memory(bytes as u64);
        if borrowed.is_ok() || self.sweep() == 0 {
            return borrowed;
        }
        self.engine.borrow_memory(bytes as u64)
    }

    /// Lets go of what nobody else has; how much that was.
    fn sweep(&self) -> u64 {
        let mut gone = 0;
        self.held.lock().buffers.retain(|buffer| {
            let is_held = buffer.strong_count() > 1;
            gone += if is_held { 0 } else { buffer.capacity() as u64 };
            is_held
        });
        self.engine.return_memory(gone);
        gone
    }

    /// The large buffers of a result stay on the account.
    fn follow(&self, array: &dyn Array) {
        let mut large = Vec::new();
        large_buffers(array, &mut large);
        if large.is_empty() {
            return;
        }
        self.sweep();
        for buffer in large {
            self.engine.borrow_memory_anyway(buffer.capacity() as u64);
            self.held.lock().buffers.push(buffer);
        }
    }

    /// The statement is over.
    pub(crate) fn end_statement(&self) {
        let mut held = self.held.lock();
        if held.buffers.is_empty() && held.gathered_bytes == 0 {
            return;
        }
        let gathered = std::mem::take(&mut held.gathered_bytes);
        drop(held);
        self.engine.return_memory(gathered);
        self.sweep();
    }

    /// What the statement has done is undone: the rows that it has gathered are gone.
    pub(crate) fn end_attempt(&self) {
        let gathered = std::mem::take(&mut self.held.lock().gathered_bytes);
        self.engine.return_memory(gathered);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let held = self.held.get_mut();
        let buffers: u64 = held.buffers.iter().map(|buffer| buffer.capacity() as u64).sum();
        self.engine.return_memory(buffers + held.gathered_bytes);
    }
}

fn large_buffers(array: &dyn Array, out: &mut Vec<Buffer>) {
    let mut add = |buffer: &Buffer| {
        if buffer.capacity() >= LARGE_BYTES {
            out.push(buffer.clone());
        }
    };
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().data_buffers().iter().for_each(add),
        DataType::BinaryView => array.as_binary_view().data_buffers().iter().for_each(add),
        DataType::List(_) => large_buffers(array.as_list::<i32>().values().as_ref(), out),
        _ => array.to_data().buffers().iter().for_each(&mut add),
    }
}

/// Whether there is room for a value of so many bytes, which is about to be made. 54000 if no value is so long.
pub(crate) fn admit(session: &dyn SessionFunctions, bytes: usize) -> Result<(), SqlError> {
    if bytes >= VALUE_BYTES_MAX {
        return Err(too_large());
    }
    if bytes >= STEP_BYTES {
        Room::new(session).grow(bytes)?;
    }
    Ok(())
}

/// Rows that a statement gathers, in memory until it ends, or until they are written.
pub(crate) struct Gathering<'s> {
    session: &'s dyn SessionFunctions,
    borrowed: u64,
    /// Not asked for yet.
    pending: usize,
}

impl<'s> Gathering<'s> {
    pub(crate) fn new(session: &'s dyn SessionFunctions) -> Gathering<'s> {
        Gathering { session, borrowed: 0, pending: 0 }
    }

    /// One more row.
    pub(crate) fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        let beside: usize = row.iter().map(Value::heap_bytes).sum();
        self.pending += size_of::<Row>() + size_of_val(row) + beside;
        if self.pending < STEP_BYTES {
            return Ok(());
        }
        if let Some(meter) = self.session.meter() {
            meter.borrow(self.pending)?;
            meter.held.lock().gathered_bytes += self.pending as u64;
            self.borrowed += self.pending as u64;
        }
        self.pending = 0;
        Ok(())
    }

    /// Whether they are better written before more are gathered.
    pub(crate) fn is_large(&self) -> bool {
        self.borrowed >= LARGE_BYTES as u64
    }

    /// They are in memory no more.
    pub(crate) fn written(self) {
        if let Some(meter) = self.session.meter().filter(|_| self.borrowed > 0) {
            meter.held.lock().gathered_bytes -= self.borrowed;
            meter.engine.return_memory(self.borrowed);
        }
    }
}

/// One value that grows, nobody knows how long.
pub(crate) struct Growing<'s> {
    room: Room<'s>,
    bytes: usize,
}

impl<'s> Growing<'s> {
    pub(crate) fn new(session: &'s dyn SessionFunctions) -> Growing<'s> {
        Growing { room: Room::new(session), bytes: 0 }
    }

    /// It has so many bytes by now.
    pub(crate) fn at(&mut self, bytes: usize) -> Result<(), SqlError> {
        if bytes >= VALUE_BYTES_MAX {
            return Err(too_large());
        }
        let more = bytes.saturating_sub(self.bytes);
        self.bytes = bytes;
        self.room.grow(more)
    }
}

/// Memory that a function uses while it works; given back when it has ended.
pub(crate) struct Room<'s> {
    session: &'s dyn SessionFunctions,
    meter: Option<&'s Meter>,
    borrowed: usize,
    /// Not asked for yet.
    pending: usize,
    values: usize,
    is_folding: bool,
}

/// Values after which a function looks whether its statement is to end.
const VALUES_BETWEEN_LOOKS: usize = 256;

impl<'s> Room<'s> {
    pub(crate) fn new(session: &'s dyn SessionFunctions) -> Room<'s> {
        let is_folding = IS_FOLDING.get();
        Room { session, meter: session.meter(), borrowed: 0, pending: 0, values: 0, is_folding }
    }

    /// One more value of so many bytes.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), SqlError> {
        if bytes >= VALUE_BYTES_MAX {
            return Err(too_large());
        }
        self.pending += bytes;
        self.values += 1;
        if self.is_folding && self.pending > FOLDED_BYTES_MAX {
            return Err(too_large());
        }
        if self.pending < STEP_BYTES && !self.values.is_multiple_of(VALUES_BETWEEN_LOOKS) {
            return Ok(());
        }
        self.session.check_limits()?;
        if self.pending >= STEP_BYTES
            && let Some(meter) = self.meter
        {
            meter.borrow(self.pending)?;
            self.borrowed += self.pending;
            self.pending = 0;
        }
        Ok(())
    }

    /// Whether what has been made is large.
    pub(crate) fn has_grown(&self) -> bool {
        self.borrowed > 0
    }

    /// What has been made is handed on.
    pub(crate) fn made(self, array: &ArrayRef) {
        if let Some(meter) = self.meter.filter(|_| self.borrowed > 0) {
            meter.follow(array.as_ref());
        }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if let Some(meter) = self.meter {
            meter.engine.return_memory(self.borrowed as u64);
        }
    }
}
