//! Work of a COPY that waits for a disk, done beside the session.

use froglet_engine::SqlState;
use froglet_txn::Limits;

use crate::error::SqlError;
use crate::query_run;
use crate::types::Zone;

/// Batches between a session and the thread that reads or writes its file.
pub(super) const CHANNEL_BATCHES: usize = 2;

/// Starts work that reads a file: a panic is the file's error, for the libraries that read files were not all
/// written for files of strangers.
pub(super) fn reading<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SqlError> + Send + 'static,
) -> impl Future<Output = Result<T, SqlError>> {
    on_thread(work, || {
        SqlError::new(
            SqlState::BAD_COPY_FILE_FORMAT,
            "the file is malformed in a way that its reader did not expect",
        )
    })
}

/// Starts any other work: a panic is an error of ours.
pub(super) fn working<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SqlError> + Send + 'static,
) -> impl Future<Output = Result<T, SqlError>> {
    on_thread(work, || {
        SqlError::new(SqlState::INTERNAL_ERROR, "COPY has met an error of the server's own")
            .hint("The server's log says where.")
    })
}

/// Starts work on a thread of the queries' runtime, in the session's time zone.
fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SqlError> + Send + 'static,
    panicked: impl FnOnce() -> SqlError,
) -> impl Future<Output = Result<T, SqlError>> {
    let zone = Zone::current();
    let thread = query_run::runtime().spawn_blocking(move || zone.run(work));
    async move { thread.await.unwrap_or_else(|_| Err(panicked())) }
}

/// The outcome of waiting, unless a limit of the statement is passed first.
pub(super) async fn unless<T>(
    limits: &Limits,
    waiting: impl Future<Output = Result<T, SqlError>>,
) -> Result<T, SqlError> {
    tokio::select! {
        biased;
        e = limits.exceeded() => Err(e.into()),
        outcome = waiting => outcome,
    }
}

/// The session does not want it any more; it has an error that says why.
pub(super) fn given_up() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "COPY was given up")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_is_the_files_error_only_where_one_is_read() {
        let panics = || -> Result<(), SqlError> { panic!("as a test wants it") };
        let read = reading(panics).await.expect_err("it panics");
        let written = working(panics).await.expect_err("it panics");
        assert_eq!(
            (read.state, written.state),
            (SqlState::BAD_COPY_FILE_FORMAT, SqlState::INTERNAL_ERROR)
        );
    }
}
