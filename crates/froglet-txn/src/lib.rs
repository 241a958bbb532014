//! One transaction over the engines.
//!
//! ```text
//!   begin ──▶ statements ──▶ commit ─────────────────────────────────────────────▶ answer
//!                              │ hook.prepare   waits for a pending schema, carries rows over
//!                              │ pre_commit     commit timestamp taken
//!                              │ hook.check     a schema became pending meanwhile: retreat, again
//!                              │ post_commit    logged, visible, stamped
//!                              └ wait durable   group commit; the task is parked, no thread is
//! ```
//!
//! What is below (an engine) is known only through [`froglet_engine::Engine`]; what is above (the
//! schema check at commit) only through [`CommitHook`]. One engine, the anchor, is enough today;
//! a second one joins in [`Transaction`] without its callers noticing (Skeena, paper 003).

mod advisory;
mod aside;
mod cancel;
mod certify;
mod error;
mod joint;
mod manager;
mod past;
mod rowlocks;
mod transaction;
mod waits;

pub use advisory::{AdvisoryKey, AdvisoryLock, AdvisoryLocks, AdvisoryMode, NotLocked, Owner};
pub use aside::{aside, aside_async};
pub use cancel::{CancelReason, CancelToken, Limits};
pub use certify::{SpaceWrites, Writes};
pub use error::TxnError;
pub use joint::{Joint, RegistryOptions};
pub use manager::{CommitHook, TxnManager, Verdict};
pub use past::Past;
pub use rowlocks::{RowLocks, Shared, Strength};
pub use transaction::{Committed, Isolation, SchemaUse, Transaction};
pub use waits::{WaitGraph, Waiting};
