//! Tables larger than memory, beside those in memory (Skeena, paper 003; DESIGN section 10).
//!
//! ```text
//!   sessions ──▶ overlay: what is written and not committed          readers look here first,
//!                   │ commit: log, a half of a transaction over two engines
//!                   ▼
//!                store: rows │ history │ index                        then here, newest first
//!                   │ gathered in memory ── flushed when both halves are durable ──▶ files
//!                   ▼
//!                garbage: old versions that no view and no keeper sees
//! ```
//! - `overlay`, `txn`, `write`: rows that somebody writes to; `read`: what a view sees;
//! - `store`: ordered maps of bytes over `lsm-tree`, behind what was read lately; `keys`, `version`: what is in them;
//! - `fill`: what migrations store without a version;
//! - `checkpoint`, `manifest`, `recovery`: from memory to files, and back;
//! - `recent`: old versions that go before they are written; `garbage`: what goes.
//!
//! The engine is the one beside the anchor (`froglet_engine::crossing`): it has its own timeline, log and recovery, and
//! knows the anchor only through [`froglet_engine::crossing::Crossings`]. The files have what is committed and durable in
//! both logs, so recovery takes nothing out of them.

mod checkpoint;
mod engine;
mod fill;
mod garbage;
mod keys;
mod manifest;
mod overlay;
mod read;
mod recent;
mod recovery;
mod space;
mod store;
mod table;
mod txn;
mod version;
mod write;

pub use engine::{DiskEngine, DiskOptions};
pub use store::Aside;
pub use table::DiskTable;

/// For `benches/stores.rs`, which compares them.
#[doc(hidden)]
pub mod stores {
    #[cfg(feature = "rocksdb")]
    pub use crate::store::RocksStore;
    pub use crate::store::{LsmStore, SlowReads, Store, Tree, Visit};
}
