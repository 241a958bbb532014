//! Schema changes over the memory engine, through this crate's own API.
//!
//! Each module is one story. `world` has what they share: a database, a table of (id, v, s), and
//! transforms and checks written by hand, as the SQL crate would compile them.

mod as_of;
mod carry_over;
mod concurrent;
mod constraints;
mod indexes;
mod lifecycle;
mod swaps;
mod tables;
mod units;
mod world;
mod writers;
