//! The one door to what trackers wait with, so that a model checker can stand behind it: as `sync.rs` of
//! froglet-memory, for `tracker.rs`, `key_tracker.rs` and `pair_tracker.rs` only.

#[cfg(not(shuttle))]
pub(crate) use {parking_lot::Mutex, std::hint, std::sync::atomic};

#[cfg(shuttle)]
pub(crate) use {locks::Mutex, shuttle::hint, shuttle::sync::atomic};

#[cfg(not(shuttle))]
type MutexGuard<'a, T> = parking_lot::MutexGuard<'a, T>;

#[cfg(shuttle)]
type MutexGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

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

#[cfg(shuttle)]
mod locks {
    use super::MutexGuard;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a task that panics ends the schedule")
        }
    }
}
