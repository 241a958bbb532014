//! The one door to what trackers wait with, so that a model checker can stand behind it: as `sync.rs` of
//! froglet-memory, for `tracker.rs`, `key_tracker.rs` and `pair_tracker.rs` only.

pub(crate) use froglet_engine::locks::Mutex;
use froglet_engine::locks::MutexGuard;

#[cfg(not(shuttle))]
pub(crate) use std::{hint, sync::atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::{hint, sync::atomic};

/// `parking_lot`'s condition variable, or shuttle's.
#[derive(Default)]
pub(crate) struct Condvar(Inner);

#[cfg(not(shuttle))]
type Inner = parking_lot::Condvar;

#[cfg(shuttle)]
type Inner = shuttle::sync::Condvar;

impl Condvar {
    /// Gives the lock up, and has it again once it is notified, or for no reason.
    #[cfg(not(shuttle))]
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(&mut guard);
        guard
    }

    #[cfg(shuttle)]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).expect("a task that panics ends the schedule")
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
