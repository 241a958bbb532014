//! Locks that a model checker can stand behind: `parking_lot`'s, or under `--cfg shuttle` its interface over
//! [shuttle](https://docs.rs/shuttle)'s, where a task that waits lets other tasks run.
//!
//! For what is explored under shuttle only; everything else takes `parking_lot` as it is.

#[cfg(not(shuttle))]
pub use parking_lot::{Mutex, MutexGuard, RwLock};

#[cfg(shuttle)]
pub use shuttled::{Mutex, MutexGuard, RwLock};

#[cfg(shuttle)]
mod shuttled {
    pub use shuttle::sync::MutexGuard;

    const POISONED: &str = "a task that panics ends the schedule";

    /// A lock.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// An open one.
        pub fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        /// Waits for it.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect(POISONED)
        }

        /// Takes it, if nobody has it.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// A lock for many readers or one writer.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        /// An open one.
        pub fn new(value: T) -> RwLock<T> {
            RwLock(shuttle::sync::RwLock::new(value))
        }

        /// Waits for it, to read.
        pub fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
            self.0.read().expect(POISONED)
        }

        /// Waits for it, to write.
        pub fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
            self.0.write().expect(POISONED)
        }
    }
}
