//! Arrow Flight SQL: statements by gRPC, rows as Arrow record batches.
//!
//! ```text
//!   accept ─ TLS? ─ HTTP/2 ─ listener.rs
//!                     │ DoGet ──────▶ get.rs    a ticket's rows, by a body of our own (encode.rs, rope.rs)
//!                     │ the rest ──▶ service.rs  through tonic
//!                     │                 ├─ statements.rs   text, prepared, parameters
//!                     │                 ├─ put.rs          batches from the client: ingest, parameters
//!                     │                 ├─ actions.rs      transactions, savepoints, prepare, cancel
//!                     │                 └─ metadata.rs     what is in the catalog, sql_info.rs
//!                     ▼
//!   users.rs   who calls ──▶ sessions.rs   what a caller has: settings, transactions, statements, results
//! ```
//! HTTP/2 has no sessions, Froglet has. A *Flight session* belongs to a bearer token, or to a
//! connection where there is none, and lives as long as a connection that has used it. It has no
//! transaction of its own: a statement outside a transaction runs in a session forked from it, each
//! transaction has one, and a result that is not fetched yet keeps the one that it was made in.
//!
//! F1: what a client has ends with its last connection: transactions abort, results let their read
//!     views go.
//! F2: each fork counts as one of `max_connections`.
//! F3: a statement runs to its end in a task of its own; a call that is given up cancels it first.
//! F4: for each call that is read slowly there are at most two batches in its query's channel, one in
//!     work and one in the socket's queue. Nothing else waits for it.
//!
//! Left out: DoExchange, Substrait, listings of flights, endpoints on other servers.

mod actions;
mod encode;
mod get;
mod handles;
mod listener;
mod metadata;
mod put;
mod results;
mod rope;
mod service;
mod sessions;
mod sql_info;
mod statements;
mod status;
mod users;

pub(crate) use listener::Flight;
