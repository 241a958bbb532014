//! Being told to stop, and by when.

use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Context;
use std::time::Instant;

use futures::task::AtomicWaker;
use tokio::sync::Notify;

use crate::error::TxnError;

/// Why a statement must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CancelReason {
    /// A cancel request (or `froglet migrations cancel`).
    User = 1,
    /// The server goes down.
    Shutdown = 2,
    /// `statement_timeout`.
    StatementTimeout = 3,
}

/// Set by another task to stop a statement. Armed anew for each statement.
#[derive(Debug, Default)]
pub struct CancelToken {
    reason: AtomicU8,
    wake: Notify,
    /// The session's own task, while it waits for its client.
    session: AtomicWaker,
}

impl CancelToken {
    /// Asks the statement under way to stop.
    pub fn cancel(&self, reason: CancelReason) {
        self.mark(reason);
        self.ring();
    }

    /// The first half of [`CancelToken::cancel`]: whoever looks from now on finds the request.
    pub fn mark(&self, reason: CancelReason) {
        self.reason.store(reason as u8, Ordering::SeqCst);
    }

    /// The second half: whoever waits looks.
    pub fn ring(&self) {
        self.wake.notify_waiters();
        self.session.wake();
    }

    /// The session's task is woken by the next request. It looks with [`CancelToken::check`] after this.
    /// (One task only, but without the cost of [`CancelToken::cancelled`].)
    pub fn listen(&self, cx: &Context<'_>) {
        self.session.register(cx.waker());
    }

    /// Forgets a request that came too late for the statement before. A shutdown stays.
    pub fn rearm(&self) {
        let user = [CancelReason::User as u8, CancelReason::StatementTimeout as u8];
        for reason in user {
            let _ = self.reason.compare_exchange(reason, 0, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// The error of a request made, if one was.
    pub fn check(&self) -> Result<(), TxnError> {
        match self.reason.load(Ordering::SeqCst) {
            0 => Ok(()),
            r if r == CancelReason::Shutdown as u8 => Err(TxnError::Shutdown),
            r if r == CancelReason::StatementTimeout as u8 => Err(TxnError::StatementTimeout),
            _ => Err(TxnError::Canceled),
        }
    }

    /// Resolves when a request has been made.
    pub async fn cancelled(&self) -> TxnError {
        loop {
            let notified = self.wake.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Err(e) = self.check() {
                return e;
            }
            notified.await;
        }
    }
}

/// How long a statement may go on and wait.
#[derive(Clone, Debug)]
pub struct Limits {
    /// `lock_timeout`: the longest single wait.
    pub lock_timeout: Option<std::time::Duration>,
    /// `statement_timeout`: when the statement must have ended.
    pub deadline: Option<Instant>,
    /// Cancel requests.
    pub cancel: std::sync::Arc<CancelToken>,
}

impl Limits {
    /// No limits; for internal work and tests.
    pub fn none() -> Limits {
        Limits { lock_timeout: None, deadline: None, cancel: Default::default() }
    }

    /// The error of a limit passed, if one was. Call it between batches.
    pub fn check(&self) -> Result<(), TxnError> {
        self.cancel.check()?;
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(TxnError::StatementTimeout),
            _ => Ok(()),
        }
    }

    /// Resolves when a cancel request is made or the deadline passes.
    pub async fn exceeded(&self) -> TxnError {
        match self.deadline {
            None => self.cancel.cancelled().await,
            Some(deadline) => {
                tokio::select! {
                    e = self.cancel.cancelled() => e,
                    () = tokio::time::sleep_until(deadline.into()) => TxnError::StatementTimeout,
                }
            }
        }
    }
}
