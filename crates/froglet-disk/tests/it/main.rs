//! The disk engine, always beside an anchor: it has no life of its own.

mod anomalies;
mod histories;
mod parts;
mod support;
mod threads;
mod two_spaces;
