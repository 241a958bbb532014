//! What a transaction may fail with.

use froglet_engine::{EngineError, SqlState, TxnId};

/// An error that ends a statement or the whole transaction.
#[derive(Debug, thiserror::Error)]
pub enum TxnError {
    /// Waiting would close a circle of waiters.
    #[error("deadlock detected")]
    Deadlock {
        /// Who waits for whom, from the victim on; the last waits for the first.
        circle: Vec<TxnId>,
    },
    /// `lock_timeout` passed.
    #[error("canceling statement due to lock timeout")]
    LockTimeout,
    /// `statement_timeout` passed.
    #[error("canceling statement due to statement timeout")]
    StatementTimeout,
    /// Somebody asked for it.
    #[error("canceling statement due to user request")]
    Canceled,
    /// The server is going down.
    #[error("terminating connection due to administrator command")]
    Shutdown,
    /// Snapshot isolation: somebody committed a newer version first.
    #[error("could not serialize access due to concurrent update")]
    Serialization,
    /// SERIALIZABLE: somebody has written what this transaction has read.
    #[error("could not serialize access due to read/write dependencies among transactions")]
    ReadWriteDependency,
    /// The check at commit refused.
    #[error("{message}")]
    Refused {
        /// PostgreSQL's code.
        state: SqlState,
        /// What was wrong.
        message: String,
        /// More of it.
        detail: Option<String>,
        /// What to do.
        hint: Option<String>,
    },
    /// A commit was logged, and the log failed before it was durable.
    #[error("the commit is in doubt: {0}")]
    InDoubt(EngineError),
    /// An engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl TxnError {
    /// As it is for whoever waits for a commit of his own.
    pub(crate) fn of_commit(self) -> TxnError {
        match self {
            // The engine knows that it is not committed.
            TxnError::Engine(EngineError::Refused { state, message })
                if state == SqlState::SERIALIZATION_FAILURE =>
            {
                TxnError::Refused { state, message, detail: None, hint: None }
            }
            TxnError::Engine(e) => TxnError::InDoubt(e),
            other => other,
        }
    }

    /// PostgreSQL's code.
    pub fn sqlstate(&self) -> SqlState {
        match self {
            TxnError::Deadlock { .. } => SqlState::DEADLOCK_DETECTED,
            TxnError::LockTimeout => SqlState::LOCK_NOT_AVAILABLE,
            TxnError::StatementTimeout | TxnError::Canceled => SqlState::QUERY_CANCELED,
            TxnError::Shutdown => SqlState::ADMIN_SHUTDOWN,
            TxnError::Serialization | TxnError::ReadWriteDependency => {
                SqlState::SERIALIZATION_FAILURE
            }
            TxnError::Refused { state, .. } => *state,
            TxnError::InDoubt(_) => SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
            TxnError::Engine(e) => e.sqlstate(),
        }
    }

    /// Whether the whole transaction may succeed when it is tried again.
    pub fn retryable(&self) -> bool {
        match self {
            TxnError::Deadlock { .. }
            | TxnError::LockTimeout
            | TxnError::Serialization
            | TxnError::ReadWriteDependency => true,
            TxnError::StatementTimeout
            | TxnError::Canceled
            | TxnError::Shutdown
            | TxnError::InDoubt(_) => false,
            TxnError::Refused { state, .. } => *state == SqlState::SERIALIZATION_FAILURE,
            TxnError::Engine(e) => e.retryable(),
        }
    }
}
