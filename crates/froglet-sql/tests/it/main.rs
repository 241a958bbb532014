//! Sessions driven in process, over the memory engine.
//!
//! `stories` are about what several sessions see of each other; `logic` runs the files in
//! `tests/sql`, each through both execution paths and without the plan cache; `plan_cache` compares
//! what clients are told with it and without it.

mod at_once;
mod basics;
mod copies;
mod copy_files;
mod durability;
mod fuzzed;
mod logic;
mod long_statements;
mod mutated;
mod plan_cache;
mod stories;
mod support;
