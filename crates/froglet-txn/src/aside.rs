//! Long work that does not wait, done beside the event loop.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work that may take longer than others can be kept waiting: those who share this thread go
/// on, on another one. Handing them over costs some ten microseconds, so short work is better done
/// without it.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // A runtime of one thread, as in tests, has nobody to hand over to.
        _ => work(),
    }
}
