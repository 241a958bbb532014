//! Sessions driven in process, over the memory engine.
//!
//! `stories` are about what several sessions see of each other; `logic` runs the files in
//! `tests/sql`, each through both execution paths.

mod basics;
mod copies;
mod durability;
mod logic;
mod mutated;
mod stories;
mod support;
