//! A session's advisory locks, and how a function waits for one.
//!
//! ```text
//!   function ── free? ─ yes ─▶ held
//!                 │ no
//!                 ├─ a SELECT without FROM that has done nothing yet: it stops, its task waits, it runs again
//!                 └─ otherwise: the function waits where it is, and a thread with it
//! ```
//! Functions are evaluated in the middle of a plan, from where no task can be parked. But a statement of one row
//! that has called nothing that changes anything can as well begin again: that is nearly every statement that waits
//! for an advisory lock.
//!
//! A1: transaction locks are let go when the transaction is visible to others or undone, session locks when the
//!     session lets go of them or ends.
//! A2: a transaction lock that was taken after a savepoint is let go by a rollback to it.

use std::future::Future;

use datafusion::sql::sqlparser::ast::SetExpr;
use froglet_engine::{SqlState, TxnId};
use froglet_txn::{AdvisoryKey, AdvisoryLock, AdvisoryMode, Limits, NotLocked, Owner, TxnManager};
use futures::StreamExt;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::apply::Stop;
use crate::command::Command;
use crate::error::SqlError;
use crate::functions::SessionState;
use crate::parse::ParsedStatement;
use crate::query_rows::{BatchStream, next};
use crate::session::{Session, in_cluster};

/// What ends a statement that is to wait and begin again. No client sees it.
const WAIT: SqlState = SqlState::new("FRGLW");

/// How long a lock lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// As long as the session.
    Session,
    /// As long as the transaction.
    Transaction,
}

/// The owners of a session's locks, as far as it has taken any.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    session: Option<Owner>,
    transaction: Option<Owner>,
    /// The transaction's locks, in order [A2].
    taken: Vec<(AdvisoryKey, AdvisoryMode)>,
    /// Whoever holds what the statement under way is to wait for.
    holder: Option<TxnId>,
    /// Whether that statement may begin again.
    may_restart: bool,
}

impl SessionState {
    fn manager(&self) -> &TxnManager {
        self.database().manager()
    }

    /// A statement may begin again from now on, or may not any more.
    pub(crate) fn set_may_restart(&self, may_restart: bool) {
        self.owners().may_restart = may_restart;
    }

    fn owner(&self, lasts: Lasts) -> Owner {
        let mut owners = self.owners();
        let owner = match lasts {
            Lasts::Session => &mut owners.session,
            Lasts::Transaction => &mut owners.transaction,
        };
        let shared = self.shared();
        *owner.get_or_insert_with(|| self.manager().new_owner(shared.pid, &shared.txn))
    }

    /// Takes a lock; whether it has it. Without `wait` it may be somebody else's.
    pub(crate) fn take_advisory(
        &self,
        key: AdvisoryKey,
        mode: AdvisoryMode,
        lasts: Lasts,
        wait: bool,
    ) -> Result<bool, SqlError> {
        in_cluster::refuse(self.manager(), "an advisory lock")?;
        let owner = self.owner(lasts);
        let locks = self.manager().advisory();
        loop {
            let holder = match locks.try_lock(key, mode, owner) {
                Ok(()) => break,
                Err(NotLocked::Held(_)) if !wait => return Ok(false),
                Err(NotLocked::Held(holder)) => holder,
                Err(NotLocked::TooMany) => {
                    let message = "out of shared memory: too many advisory locks";
                    return Err(SqlError::new(SqlState::OUT_OF_MEMORY, message));
                }
            };
            locks.waits(key, mode, owner);
            let mut owners = self.owners();
            if owners.may_restart {
                owners.holder = Some(holder);
                return Err(SqlError::new(WAIT, "an advisory lock is waited for"));
            }
            drop(owners);
            let waited = self.wait_here(holder);
            locks.waited(owner.session);
            waited?;
        }
        let mut owners = self.owners();
        owners.may_restart = false;
        if lasts == Lasts::Transaction {
            owners.taken.push((key, mode));
        }
        Ok(true)
    }

    /// The thread waits, and others take over what else it had to do.
    fn wait_here(&self, holder: TxnId) -> Result<(), SqlError> {
        let (me, limits) = self.waiter();
        match Handle::try_current() {
            Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
                let wait = self.manager().waits().wait(me, holder, &limits);
                tokio::task::block_in_place(|| handle.block_on(wait)).map_err(SqlError::from)
            }
            _ => {
                std::thread::sleep(std::time::Duration::from_millis(1));
                limits.check().map_err(SqlError::from)
            }
        }
    }

    /// Lets go of one of the session's own locks.
    pub(crate) fn drop_advisory(&self, key: AdvisoryKey, mode: AdvisoryMode) -> bool {
        let session = {
            let mut owners = self.owners();
            owners.may_restart = false;
            owners.session
        };
        let Some(owner) = session else { return false };
        let manager = self.manager();
        let was_held = manager.advisory().unlock(key, mode, owner.id);
        manager.waits().released(owner.id);
        was_held
    }

    /// The session has ended.
    pub(crate) fn drop_all_locks(&self) {
        self.drop_transaction_locks();
        self.drop_session_locks();
        self.manager().advisory().waited(self.shared().pid);
    }

    /// Lets go of all of the session's own locks.
    pub(crate) fn drop_session_locks(&self) {
        let session = {
            let mut owners = self.owners();
            owners.may_restart = false;
            owners.session.take()
        };
        if let Some(owner) = session {
            self.manager().end_owner(owner);
        }
    }

    /// The transaction is over [A1].
    pub(crate) fn drop_transaction_locks(&self) {
        self.drop_tables_since(0);
        let transaction = {
            let mut owners = self.owners();
            owners.taken.clear();
            owners.transaction.take()
        };
        if let Some(owner) = transaction {
            self.manager().end_owner(owner);
        }
    }

    /// How many locks the transaction has taken so far.
    pub(crate) fn advisory_mark(&self) -> usize {
        self.owners().taken.len()
    }

    /// Lets go of those that it has taken since [A2].
    pub(crate) fn drop_locks_since(&self, mark: usize) {
        let mut owners = self.owners();
        let Some(owner) = owners.transaction else { return };
        if owners.taken.len() <= mark {
            return;
        }
        for (key, mode) in owners.taken.split_off(mark) {
            self.manager().advisory().unlock(key, mode, owner.id);
        }
        self.manager().waits().released(owner.id);
    }

    /// All advisory locks of the database.
    pub(crate) fn all_advisory(&self) -> Vec<AdvisoryLock> {
        self.manager().advisory().all()
    }
}

impl Session {
    /// Waits for what a statement has stopped for, so that it can begin again; any other error stays one.
    pub(crate) fn wait_for_advisory(
        &mut self,
        error: SqlError,
        limits: &Limits,
    ) -> impl Future<Output = Result<(), SqlError>> {
        let holder = self.state.owners().holder.take().filter(|_| error.state == WAIT);
        let limits = limits.clone();
        async move {
            let (Some(holder), Some(txn)) = (holder, &mut self.txn) else { return Err(error) };
            let waited = txn.wait_for(holder, &limits).await;
            if waited.is_err() {
                self.db.manager().advisory().waited(self.shared.pid);
            }
            Ok(waited?)
        }
    }
}

/// Whether a statement has one row at the most, and may wait for an advisory lock.
pub(crate) fn may_restart(statement: &ParsedStatement) -> bool {
    let Command::Query(query) = &*statement.command else { return false };
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let word = b"advisory";
    let named = |text: &[u8]| text.windows(word.len()).any(|w| w.eq_ignore_ascii_case(word));
    select.from.is_empty() && query.with.is_none() && named(statement.sql.as_bytes())
}

/// A query's stream once its first batch is there, until when it may stop to wait and begin again.
pub(crate) async fn first_batch(
    session: &SessionState,
    run: impl Future<Output = Result<BatchStream, Stop>>,
    limits: &Limits,
) -> Result<BatchStream, Stop> {
    session.set_may_restart(true);
    let begun = async {
        let mut stream = run.await?;
        let first = next(&mut stream, limits).await?;
        Ok(futures::stream::iter(first.map(Ok)).chain(stream).boxed())
    };
    let begun = begun.await;
    session.set_may_restart(false);
    begun
}

/// Whether a statement has stopped to wait and begin again.
pub(crate) fn is_wait(error: &SqlError) -> bool {
    error.state == WAIT
}
