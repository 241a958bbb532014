//! Long work, done beside the event loop.

use std::pin::Pin;

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work that may take longer than others can be kept waiting: those who share this thread go
/// on, on another one. Handing them over wakes a thread, so short work is better done without it.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    // A runtime of one thread, as in tests, has nobody to hand over to.
    if hands_over() { tokio::task::block_in_place(work) } else { work() }
}

/// The same for work that also waits now and then, as a schema change does: of all that waits, only
/// this keeps a thread meanwhile.
pub async fn aside_async<F: Future>(work: Pin<&mut F>) -> F::Output {
    if hands_over() {
        tokio::task::block_in_place(|| Handle::current().block_on(work))
    } else {
        work.await
    }
}

fn hands_over() -> bool {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    matches!(flavor, Ok(RuntimeFlavor::MultiThread))
}
