//! The versioned catalog and the migrations between its versions (Tesseract, paper 000).
//!
//! ```text
//!   apply(Change)                       commit                       everybody else
//!   ─────────────                       ──────                       ──────────────
//!   lock the object's catalog row       publish "pending"            statements see the catalog
//!   new table version, uncommitted      barrier t_pre                version of their snapshot
//!   scan threads   ┐ migrate rows       wait for writers below it    writers under the older
//!   capture thread ┘ as they change     finish what is captured      version are carried over at
//!                                       commit: one flip             their commit
//! ```
//!
//! The catalog is a table like any other: row space 0, one row per object, so that its versions,
//! its log, its rollback and its conflicts are those of rows. What is decoded from it is cached
//! per commit timestamp in [`CatalogVersion`].
//!
//! This crate knows no SQL text. Expressions pass through it as opaque strings
//! ([`def::Expression`]) and come back compiled, as [`Transform`] and [`Check`].

pub mod access;
mod apply;
mod apply_as;
mod background;
mod build;
pub mod catalog;
pub mod change;
pub mod change_log;
mod compact;
mod course;
pub mod def;
mod delegate;
mod derive;
pub mod drawn;
mod eager;
mod edit;
mod edit_constraint;
pub mod error;
mod flip;
mod front;
mod history;
mod key_tracker;
mod keyed_rows;
pub mod lazy;
mod lazy_column_driver;
pub mod lazy_columns;
mod lazy_columns_table;
mod lazy_driver;
mod lazy_fallback;
mod lazy_pairs;
mod lazy_placed;
mod lazy_rows;
mod lazy_table;
mod lazy_units;
mod lazy_verify;
mod lineage;
mod local;
pub mod migration;
mod own_view;
mod pace;
mod pair_route;
mod pair_tracker;
mod pairing;
pub mod plain;
mod records;
mod reject;
pub mod role;
mod route;
mod rows;
#[cfg(all(test, shuttle))]
mod schedules;
pub mod sequence;
mod status;
mod step;
mod store;
mod sync;
mod target;
mod tracker;
mod unreadable;
mod written;

pub use apply::Applied;
pub use catalog::{
    Accesses, Catalog, CatalogSavepoint, CatalogVersion, Counted, Recent, TableVersion, Totals,
};
pub use change::{
    Change, Check, DrawnOutput, Fill, LazyFill, LazyQuery, LazyVerify, Lookup, Made, Makes,
    NewColumn, NewConstraint, NewForeignKey, NewHidden, NewIndex, NewKey, NewTable, NewType,
    RowQuery, Stage, TableQuery, Transform, UnitInput, UnitQuery, UnitRows,
};
pub use change_log::{KeptColumn, MadeOf, MadeRows, ObjectChange, Retyped, SchemaChange};
pub use def::{
    CheckDef, ColumnDef, ConstraintDef, ConstraintKind, Expression, ForeignKeyAction, HiddenColumn,
    IndexDef, IndexNotes, ObjectDef, ObjectId, SequenceDef, SqlType, TableDef,
};
pub use error::SchemaError;
pub use lazy_driver::Recompile;
pub use role::{Membership, RoleChange, RoleDef};
pub use status::{Control, Detection, MigrationOptions, MigrationPhase, MigrationStatus};
pub use step::write_values_with;
pub use store::CATALOG_SPACES;
pub use unreadable::Unreadable;
