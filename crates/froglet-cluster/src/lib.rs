//! Tables in a distributed store that speaks TiKV's protocol: any number of servers over one database (SLSM, paper 001;
//! DESIGN section 11).
//!
//! ```text
//!   gateway ─ engine ─▶ client ─▶ network ─▶ placement driver: timestamps, regions, leases
//!   gateway ─ engine ─▶ client ─▶    │   └─▶ stores: regions of keys, each led by one of them
//!                                    └ in tests: froglet_testkit::ranges
//! ```
//! - `wire`: the messages; `network`: how they travel;
//! - `client`: reads at a timestamp, locks, commits (Percolator's);
//! - `engine`: rows, indexes and transactions over it.

pub mod client;
mod engine;
pub mod network;
pub mod wire;

pub use engine::{ClusterEngine, ClusterOptions, SHORTEST_HISTORY};
