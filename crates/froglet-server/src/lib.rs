//! The server: PostgreSQL's wire protocol, and Arrow Flight SQL, over froglet-sql's sessions.
//!
//! ```text
//!   config ──▶ server ──accept──▶ connection ──▶ froglet_sql::Session
//!                 │                   │
//!                 │                  wire      bytes ◀─▶ messages
//!                 ├─ flight       gRPC, the same sessions, rows as Arrow
//!                 ├─ open         lock, engine, recovery, catalog
//!                 └─ checkpoint   when one is due; whether the log lives
//! ```
//!
//! A connection is a task on one of the [`loops`]. It owns its socket, its session, and one
//! buffer each way. It knows nothing of blocks, row ids or logs: only [`open`] and [`error`] name
//! the engine that is below.

pub mod auth;
mod checkpoint;
pub mod config;
mod connection;
mod error;
mod flight;
mod gateway;
mod loops;
mod open;
mod run;
mod server;
mod tls;
mod vigil;
pub mod wire;

pub use config::{Config, ConfigError};
pub use error::ServerError;
pub use run::{raise_file_limit, run};
pub use server::Server;
