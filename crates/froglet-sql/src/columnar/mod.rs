//! Statements as Arrow clients run them: results, parameters and rows in record batches.
//!
//! ```text
//!   answer ─▶ Answer::Done   it has run: so many rows
//!        └──▶ Answer::Rows ─▶ Pinned ── open(part) ─▶ Batches     any part, any time, any number of times
//!                              │ schema, read view, plan; nothing runs until a part is opened
//!   parameters ◀─ a batch, one row for each execution
//!   Ingest     ◀─ batches, into a table that is there or is made of their schema
//! ```
//! The same sessions, transactions, settings, limits and errors as for any other client.
//!
//! A query is *pinned*: planned, and given the read view under which it runs whenever its rows are
//! asked for. A large one that only scans, filters and projects has parts, each some blocks of its
//! table under the one view. What the short path or a write has found is kept as rows, and so is what
//! a transaction reads that has written, or calls functions that change something (`nextval`).
//!
//! R1: all parts of a result, however often they are opened, are of one read view.
//! R2: no batch is handed out before the commits that it rests on are durable.
//! R3: a result that is not read runs nothing; one that is read slowly holds a few batches, its read
//!     view, and nobody else.
//! R4: what is run later sees no writes of its own transaction; so it goes on when that has ended.
//!
//! Left out: results that outlive their server, and parts of queries that group, join or sort.

mod answer;
mod assign;
mod describe;
mod edge;
mod ingest;
mod ipc_check;
mod parameters;
mod parts;
mod pinned;

pub use answer::Answer;
pub use assign::slices;
pub(crate) use assign::{assigned, is_nested, plain_type};
pub use describe::{ForeignKeyDescription, TableDescription};
pub(crate) use edge::{STRING_BYTES_MAX, string_pieces};
pub use edge::{Strings, compacted};
pub use ingest::{IfExists, IfMissing, Ingest, IngestTarget};
pub use ipc_check::{Refused, batch_in, check_batch};
pub use parameters::parameter_schema;
pub use pinned::{Batches, Pinned};
pub(crate) use pinned::{Convert, TimeLimits, Unstarted, converted};
