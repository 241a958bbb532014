//! SQL over the versioned catalog.
//!
//! ```text
//!   text ─ sqlparser ─▶ statement ──┬─▶ short path   point and range reads, INSERT, UPDATE, DELETE
//!                                   ├─▶ DataFusion   every other query, over the table provider
//!                                   ├─▶ ddl          Change, with compiled transforms and checks
//!                                   └─▶ session      BEGIN, SET, SHOW, COPY, …
//! ```
//!
//! One semantics: the short path evaluates the same compiled physical expressions as DataFusion.
//! This crate never touches raw memory: rows come and go through [`froglet_engine::Table`].

mod bind;
pub mod command;
pub mod copy;
pub mod copy_out;
pub mod database;
pub mod error;
mod execute;
pub mod functions;
pub mod parse;
pub mod prepared;
pub mod sequence_ddl;
pub mod session;
mod setting_specs;
pub mod settings;
pub mod stream;
mod transaction;

pub use copy::CopyIn;
pub use copy_out::CopyOut;
pub use database::{ConnectOptions, Database, Defaults, SessionInfo};
pub use error::{Notice, SqlError};
pub use parse::ParsedStatement;
pub use prepared::{Field, Prepared};
pub use session::{Session, TransactionStatus};
pub use settings::check_setting;
pub use stream::{Outcome, RowStream, Rows};
