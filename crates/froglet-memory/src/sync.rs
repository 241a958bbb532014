//! The one door to atomics, spinning and yielding, so that a model checker can stand behind it.
//!
//! Code of this crate which threads race through imports from here and never from `std::sync`.
//! Under `--cfg shuttle` every operation becomes a scheduling point of
//! [shuttle](https://docs.rs/shuttle); otherwise this module is `std` by another name.
//!
//! What stays outside: `crossbeam-epoch` keeps its own `std` atomics under shuttle. Shuttle runs one
//! task at a time on one OS thread, so epoch pins of all tasks nest in one participant: memory is
//! then freed no earlier than it would be with real threads, and the code under test sees the same
//! pointers. Shuttle explores schedules under sequential consistency only; weak memory is the
//! business of Miri, which runs the same tests on `std`.

#[cfg(not(shuttle))]
pub(crate) use std::{hint, sync::atomic, thread};

#[cfg(shuttle)]
pub(crate) use shuttle::{hint, sync::atomic, thread};
