//! What two engines promise whose tables are written in one transaction (Skeena, paper 003, chapter 4).
//!
//! ```text
//!                 anchor                                   beside
//!   begin         its view, at the start                   its view, when its first table is touched
//!   commit        timestamp a  ──────── one latch ───────  timestamp b
//!                 half n in its log, behind                half n in its log
//!   visible       at a                                     at b
//! ```
//! Each has its own timeline, its own log, its own recovery. Who joins them (froglet-txn) knows only these traits, and
//! the second engine knows of the first only what [`Crossings`] answers.
//!
//! **[H1] One order.** Transactions over both take their timestamps and log their halves one after the other: their order
//! is the same in both timelines and in both logs. So what a cut of one log takes away is told by a number.
//! **[H2] The other engine first.** The half of the engine beside is logged before the anchor's: if it cannot be, nothing is
//! anywhere; and if the anchor's cannot be, the anchor's log has failed, and the process ends.

use std::any::Any;
use std::sync::{Arc, Weak};

use crate::engine::{Engine, EngineTxn, LogRoom, Savepoint, Table, Vacuum};
use crate::error::EngineError;
use crate::figures::EngineFigures;
use crate::id::{ColumnId, Home, IndexId, Lsn, RowId, SpaceId, Ts, TxnId};
use crate::layout::Layout;
use crate::snapshot::{HeldBack, Snapshot};

/// What a checkpoint asks of who joins two engines.
pub trait Halves: Send + Sync {
    /// The newest half that both engines have logged; none is under way when this returns.
    fn newest(&self) -> u64;
    /// Waits, in this thread, until every half that is logged by now is durable in both logs.
    fn settle_durable(&self) -> Result<(), EngineError>;
}

/// What is called when a position is durable, or the log has failed.
pub type WhenDurable = Box<dyn FnOnce(Result<(), EngineError>) + Send>;

/// The engine whose views transactions begin with.
pub trait Anchor: Engine {
    /// As [`Engine::begin`].
    fn begin_anchor(&self, id: TxnId) -> Box<dyn AnchorTxn>;
    /// The newest half that its log or its checkpoint has; 0 for none.
    fn newest_half(&self) -> u64;
    /// What is seen by views that are registered, or will be: these timestamps, ascending, and any from the other on.
    fn views(&self) -> (Vec<Ts>, Ts);
    /// Who knows the halves. A checkpoint has what they have written: before it is put in place they are durable in both
    /// logs, for what the other engine may still lose must not be in it. Once.
    fn set_halves(&self, halves: Weak<dyn Halves>);
    /// Keeps so much memory, in all, for the engine beside, on the same account: an error if there is no room, a quarter
    /// above the limit.
    fn reserve_memory(&self, bytes: u64) -> Result<(), EngineError>;
    /// The same of what is in use already.
    fn reserve_memory_anyway(&self, bytes: u64);
}

/// A transaction's part on the anchor.
pub trait AnchorTxn: EngineTxn {
    /// It will commit with a half, even if nothing is written here: what that needs is there from now on.
    fn cross(&mut self) -> Result<(), EngineError>;
    /// So many of the transaction's writes, which savepoints count, were on the other engine.
    fn set_beside(&mut self, writes: u32);
    /// Between `pre_commit` and `post_commit`: it is to be logged as this half. An error if it cannot be.
    fn set_half(&mut self, number: u64) -> Result<(), EngineError>;
}

/// The engine beside the anchor.
pub trait Beside: Send + Sync + 'static {
    /// The word after USING.
    fn home(&self) -> Home;
    /// Who knows the anchor. Once, before anything else.
    fn join(&self, crossings: Arc<dyn Crossings>);
    /// As [`Engine::create_space`].
    fn create_space(&self, space: SpaceId) -> Result<(), EngineError>;
    /// As [`Engine::drop_space`].
    fn drop_space(&self, space: SpaceId);
    /// As [`Engine::spaces`].
    fn spaces(&self) -> Vec<SpaceId>;
    /// As [`Engine::open`].
    fn open(&self, space: SpaceId, layout: Arc<Layout>) -> Result<Arc<dyn Table>, EngineError>;
    /// As [`Engine::drop_column`].
    fn drop_column(&self, space: SpaceId, column: ColumnId);
    /// As [`Engine::drop_index`].
    fn drop_index(&self, space: SpaceId, index: IndexId);
    /// As [`Engine::retain_indexes`].
    fn retain_indexes(&self, space: SpaceId, known: &[IndexId]);
    /// Begins a transaction's part.
    fn begin(&self, id: TxnId) -> Box<dyn BesideTxn>;
    /// The newest timestamp of its timeline.
    fn now(&self) -> Ts;
    /// What is kept for a keeper is read at this timestamp, and stays while the other thing lives.
    fn kept(&self, keeper: u64) -> Option<(Ts, Box<dyn Any + Send + Sync>)>;
    /// For whom something is kept, at which timestamps of its timeline, of which spaces.
    fn held_back(&self) -> Vec<HeldBack>;
    /// As [`Engine::release`].
    fn release(&self, keeper: u64) -> Result<(), EngineError>;
    /// As [`Engine::durable`].
    fn durable(&self) -> Lsn;
    /// As [`Engine::appended`].
    fn appended(&self) -> Lsn;
    /// As [`Engine::make_durable`].
    fn make_durable(&self, lsn: Lsn) -> Result<bool, EngineError>;
    /// As [`Engine::when_durable`].
    fn when_durable(&self, lsn: Lsn, done: WhenDurable);
    /// As [`Engine::checkpoint`].
    fn checkpoint(&self) -> Result<(), EngineError>;
    /// As [`Engine::vacuum`].
    fn vacuum(&self, spaces: &[SpaceId], extent: Vacuum) -> Result<(), EngineError>;
    /// How it is doing.
    fn figures(&self) -> EngineFigures;
    /// The newest half that its log or its checkpoint has; 0 for none.
    fn newest_half(&self) -> u64;
}

/// A transaction's part on the engine beside the anchor.
pub trait BesideTxn: Send + Sync + Any {
    /// Before it writes: so many of the transaction's writes were on the anchor.
    fn set_beside(&mut self, writes: u32);
    /// Its own writes.
    fn writes(&self) -> u32;
    /// Undoes every write after a point that is counted in writes of both.
    fn rollback_to(&mut self, to: Savepoint);
    /// As [`EngineTxn::rows_written`].
    fn rows_written(&self, space: SpaceId) -> Vec<RowId>;
    /// As [`EngineTxn::spaces_written`].
    fn spaces_written(&self) -> Vec<SpaceId>;
    /// As [`EngineTxn::keep`].
    fn keep(&mut self, keeper: u64, spaces: &[SpaceId]) -> Result<(), EngineError>;
    /// As [`EngineTxn::reserve_log`].
    fn reserve_log(&mut self) -> Result<LogRoom, EngineError>;
    /// As [`EngineTxn::pre_commit`].
    fn pre_commit(&mut self) -> Ts;
    /// As [`EngineTxn::retreat`].
    fn retreat(&mut self);
    /// Logs it as this half. Nobody sees it yet.
    fn log(&mut self, number: u64) -> Result<Lsn, EngineError>;
    /// Makes what is logged visible.
    fn publish(self: Box<Self>);
    /// Restores every row.
    fn abort(self: Box<Self>);
    /// For its tables.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// What the engine beside asks of who joins it with the anchor.
pub trait Crossings: Halves {
    /// Where its timeline stands for a timestamp of the anchor's that a registered view has, or is below: what is
    /// committed at or below is what a view at that timestamp sees.
    fn at(&self, anchor: Ts) -> Ts;
    /// A view at the present, see [`Engine::fresh`].
    fn fresh(&self, own: TxnId) -> Arc<Snapshot>;
    /// No view will read its timeline at an older timestamp, but of what is kept; and what is committed at or below it
    /// is durable in both logs.
    fn oldest(&self) -> Ts;
    /// Somebody has read, under a view, what was committed at or below `ts`: if that is not durable in both logs, the
    /// view says so.
    fn seen(&self, snapshot: &Snapshot, ts: Ts);
    /// What was logged here beside transactions belongs to this one: it is to commit with a half, and so behind it.
    fn depends(&self, txn: TxnId);
    /// Charges memory to the account; an error if there is no room.
    fn borrow_memory(&self, bytes: u64) -> Result<(), EngineError>;
    /// The same of what is in use already.
    fn borrow_memory_anyway(&self, bytes: u64);
    /// Takes it off again.
    fn return_memory(&self, bytes: u64);
    /// As [`Anchor::reserve_memory`]; one at a time.
    fn reserve_memory(&self, bytes: u64) -> Result<(), EngineError>;
    /// As [`Anchor::reserve_memory_anyway`].
    fn reserve_memory_anyway(&self, bytes: u64);
}
