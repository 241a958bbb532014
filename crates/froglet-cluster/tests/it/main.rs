//! The client and the engine of a gateway from outside, over `froglet_testkit::ranges`.
//!
//! ```text
//!   builds      indexes over rows that are there, while all write: by name, and from a seed
//!   commits     one thing that goes wrong each, by name
//!   engine      two gateways against a map, from a seed
//!   fences      what a schema change closes: by name, and from a seed
//!   history     old versions that the store collects, and who still reads them: by name, and from a seed
//!   moves       rows that move from table to table: by name, and from a seed
//!   references  parents that go and children that come, and foreign keys that are added: by name, and from a seed
//!   transfers   many that go wrong by chance, from a seed: what must hold whatever happens
//! ```

mod builds;
mod commits;
mod engine;
mod fences;
mod history;
mod map;
mod moves;
mod references;
mod support;
mod transfers;
