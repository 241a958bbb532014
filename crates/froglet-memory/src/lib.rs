//! The memory engine: tables in memory as Apache Arrow, with multi-version concurrency control.
//!
//! ```text
//!   engine ── table ──▶ space ──▶ block ──▶ column ──▶ heap          rows, newest versions, in place
//!      │         │                  │ heads
//!      │         ▼                  ▼
//!      │        keys ──▶ index     undo ◀── txn ──▶ redo ──▶ log     versions; what survives a crash
//!      │                            ▲        │
//!      └── clock (timeline, snapshots, writers)
//!                                   │        ▼
//!          recovery, checkpoint   collector ◀┘                        what nobody needs goes
//! ```
//!
//! After "Mainlining Databases" (Li et al., VLDB 2021), section 3: transactions work on Arrow's own
//! bytes in place; before-images live in the transaction's buffers. Deviations: rows live in blocks of
//! 8,192 (not 1 MB), columns come and go by id, strings are Arrow views, and commit has no global
//! critical section.

#[cfg(not(target_endian = "little"))]
compile_error!("cells are Arrow's little-endian bytes");

mod arrow;
mod block;
mod build;
mod cells;
mod checkpoint;
mod clock;
mod collector;
mod column;
mod commit_log;
mod compact;
mod engine;
mod files;
mod freeze;
mod heap;
pub mod index;
mod index_snapshot;
mod install;
mod ipc;
mod keepers;
mod kept_rows;
mod keys;
mod load;
pub mod lock_file;
mod manifest;
mod memory;
mod migrate;
mod prune;
mod read;
mod reclaim;
mod recovery;
mod redo_buffer;
mod replay;
#[cfg(all(test, shuttle))]
mod schedules;
mod slots;
mod space;
mod sync;
mod table;
mod transform;
mod txn;
mod undo;
mod write;

pub use engine::{Agree, MemoryEngine, MemoryOptions};
pub use recovery::RecoveryTimes;
pub use table::MemoryTable;
pub use transform::FreezeOptions;
pub use txn::MemoryTxn;
