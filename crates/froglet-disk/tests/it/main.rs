//! The disk engine, always beside an anchor: it has no life of its own.

mod histories;
mod support;
