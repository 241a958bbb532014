//! The memory engine from outside, through the engine contract.

mod collection;
mod conflicts;
mod histories;
mod indexes;
mod migration;
mod recovery;
mod support;
mod visibility;
