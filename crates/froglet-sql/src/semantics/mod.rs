//! PostgreSQL's semantics where DataFusion's differ: operators, casts, names of types, literals.
//!
//! ```text
//!   AST ─ rewrite.rs ─▶ AST ─ SqlToRel ─▶ plan ─ casts.rs ─▶ plan ─▶ DataFusion's analyzer, optimizer
//!                               │  operators.rs  a + b becomes a checked call
//!                               └  type_names.rs varchar(20), regclass, pg_catalog.text
//! ```

pub mod aggregates;
pub mod arith;
pub mod array_keys;
mod array_ops;
pub mod calls;
pub mod cast_names;
pub mod casts;
pub mod common;
pub mod copies;
pub mod enums;
mod expr_names;
pub mod fieldnames;
pub mod fields;
pub mod first_seen;
pub mod grouped;
pub mod grouping_sets;
pub mod held;
pub mod identity;
mod json_ops;
mod kinds;
pub mod measures;
mod member;
pub mod merged_columns;
pub mod named;
pub mod null_in;
pub mod numerics;
pub mod operators;
mod outer_types;
pub mod param;
pub mod quantified;
pub mod records;
pub mod sort_keys;
pub mod time_arith;
pub mod told_in;
pub mod type_names;
pub mod unions;
pub mod unnested;
pub mod windows;
pub mod zeros;
