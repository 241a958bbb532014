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

/// Explores random schedules of a scenario and, for rare orders of few switches, prioritised ones.
#[cfg(all(test, shuttle))]
pub(crate) fn explore(scenario: impl Fn() + Send + Sync + Copy + 'static, schedules: usize) {
    shuttle::check_random(scenario, schedules);
    shuttle::check_pct(scenario, schedules, 3);
    // What the epochs have deferred may come through this door, where only a schedule may: it is run
    // in one, and not by the end of the test's thread.
    let collect = || (0..1_000).for_each(|_| crossbeam_epoch::pin().flush());
    shuttle::check_random(collect, 1);
}

#[cfg(not(shuttle))]
pub(crate) use std::{hint, sync::atomic, thread};

#[cfg(shuttle)]
pub(crate) use shuttle::{hint, sync::atomic, thread};

pub(crate) use froglet_engine::locks::{Mutex, MutexGuard, RwLock};
