//! When a checkpoint is due, and whether the log still works.
//!
//! A checkpoint is due when so much log has been written since the last one that replaying it
//! would take long, or so much time has passed that an idle machine may as well. Once a second, and
//! when the log fails, this task looks at both, and asks whether the log is alive: after a failed write
//! nothing can be acknowledged, so the server says so and ends at once rather than guess. A disk that is full
//! refuses commits before they are in the log (`froglet_memory`'s `log/room.rs`), which is no failure of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use froglet_engine::{Engine, EngineError, Lsn};
use tokio::sync::Notify;

use crate::config::Config;
use crate::open::Opened;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The checkpoint task of a server.
pub(crate) struct Checkpointer {
    engine: Arc<dyn Engine>,
    log_failed: Arc<Notify>,
    timeout: Duration,
    max_log_bytes: u64,
    last: Lsn,
    last_at: Instant,
}

impl Checkpointer {
    pub(crate) fn new(opened: &Opened, config: &Config) -> Checkpointer {
        let engine = opened.engine.clone();
        Checkpointer {
            last: engine.appended(),
            engine,
            log_failed: opened.log_failed.clone(),
            timeout: config.checkpoint_timeout,
            max_log_bytes: config.max_log_bytes,
            last_at: Instant::now(),
        }
    }

    /// Runs until the log fails. A failed checkpoint is reported and tried again later: the log
    /// that it would have cut is still there.
    pub(crate) async fn run(mut self) -> EngineError {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.log_failed.notified() => {}
            }
            if let Err(error) = log_alive(&self.engine).await {
                return error;
            }
            if self.due() {
                self.last = self.engine.appended();
                self.last_at = Instant::now();
                match checkpoint(&self.engine).await {
                    Ok(()) => tracing::info!(took = ?self.last_at.elapsed(), "checkpoint"),
                    Err(e) => tracing::error!(error = %e, "the checkpoint failed"),
                }
            }
        }
    }

    fn due(&self) -> bool {
        let written_bytes = self.engine.appended().0.saturating_sub(self.last.0);
        written_bytes >= self.max_log_bytes
            || (written_bytes > 0 && self.last_at.elapsed() >= self.timeout)
    }
}

/// Writes a checkpoint, on a thread that may block.
pub(crate) async fn checkpoint(engine: &Arc<dyn Engine>) -> Result<(), EngineError> {
    let engine = engine.clone();
    match tokio::task::spawn_blocking(move || engine.checkpoint()).await {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

/// An error if what has been written so far cannot become durable.
async fn log_alive(engine: &Arc<dyn Engine>) -> Result<(), EngineError> {
    if engine.is_shared() {
        // It has no log: what cannot be committed is told to whoever commits it.
        return Ok(());
    }
    let (tx, rx) = tokio::sync::oneshot::channel();
    let done = move |outcome| {
        // The server may have ended meanwhile.
        let _ = tx.send(outcome);
    };
    engine.when_durable(engine.appended(), Box::new(done));
    // A callback dropped without a call is an engine that is shutting down.
    rx.await.unwrap_or(Ok(()))
}
