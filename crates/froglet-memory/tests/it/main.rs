//! The memory engine from outside, through the engine contract.

mod collection;
mod compaction;
mod conflicts;
mod frozen;
mod histories;
mod indexes;
mod installs;
mod kept;
mod mapped;
mod memory;
mod migration;
mod model;
mod mutated;
mod recovery;
mod small;
mod support;
mod visibility;
