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

mod access;
mod apply;
mod as_of;
mod at_once;
mod bind;
mod bound;
mod bulk;
pub mod columnar;
pub mod command;
pub mod context;
mod control;
mod convert;
pub mod copy;
mod cursor;
pub mod cursor_parse;
pub mod database;
mod ddl;
mod ddl_alter;
mod ddl_column;
mod ddl_compile;
mod ddl_constraint;
mod ddl_index;
mod ddl_run;
mod ddl_sequence;
mod ddl_table;
mod ddl_table_as;
mod demand;
pub mod df_error;
mod dialect;
pub mod error;
mod execute;
pub mod explain;
mod explain_ddl;
mod explain_run;
pub mod expr;
mod find;
mod foreignkey;
mod frozen;
pub mod functions;
mod insert;
mod insert_plan;
mod integers;
mod join_way;
mod key;
mod lazy_column;
mod lazy_query;
mod lift;
mod literals;
mod lookup_query;
mod modify;
mod modify_plan;
mod modify_query;
mod on_conflict;
mod origins;
pub mod parse;
mod partials;
pub mod pgcatalog;
mod plan;
pub mod planning;
pub mod prepared;
pub mod provider;
pub mod provider_access;
pub mod provider_exec;
mod prune;
pub mod query;
mod query_rows;
pub mod query_run;
mod quick;
mod resolve;
mod returning;
mod revert;
pub mod rewrite;
pub mod rewrite_correlated;
mod rewrite_order;
pub mod rewrite_subquery;
pub mod rewrite_tuple;
mod sample;
mod scan;
mod select;
pub mod semantics;
pub mod sequence_ddl;
pub mod session;
mod setting_specs;
pub mod settings;
mod stages;
mod statement_cache;
mod storage_options;
pub mod stored;
pub mod stream;
mod table;
mod table_as_parse;
mod table_query;
mod target;
mod transaction;
pub mod types;
pub mod udf;
mod unit_query;
mod units;
mod violation;
mod walk;

pub use copy::directory::CopyDirectory;
pub use copy::{CopyIn, CopyOut, CopyRows};
pub use database::{ConnectOptions, Database, Defaults, SessionInfo};
pub use error::{Notice, SqlError};
pub use parse::ParsedStatement;
pub use prepared::{Field, Prepared};
pub use session::{Session, TransactionStatus};
pub use settings::check_setting;
pub use stream::{Outcome, RowStream, Rows, Tag};
pub use udf::lookup::quoted;
