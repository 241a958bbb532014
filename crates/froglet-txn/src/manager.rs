//! Where transactions begin and commit.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use async_trait::async_trait;
use froglet_engine::{Engine, EngineError, LogRoom, Lsn, SpaceId, Ts, TxnId};

use crate::advisory::{AdvisoryLocks, Owner};
use crate::cancel::Limits;
use crate::certify::{Certifier, Writes};
use crate::error::TxnError;
use crate::rowlocks::RowLocks;
use crate::transaction::{Committed, Isolation, Transaction};
use crate::waits::WaitGraph;

/// What the check between commit timestamp and commit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Commit.
    Go,
    /// Give the timestamp back, prepare again, take another.
    Retreat,
}

/// The crate above takes part in a commit.
#[async_trait]
pub trait CommitHook: Send + Sync {
    /// Whether [`CommitHook::prepare`] has nothing to do, as for nearly every transaction.
    fn prepared(&self, txn: &Transaction) -> bool;
    /// Before a commit timestamp is taken. May wait, and may write in the transaction.
    async fn prepare(&self, txn: &mut Transaction, limits: &Limits) -> Result<(), TxnError>;
    /// After it is taken. Must not wait.
    fn check(&self, txn: &mut Transaction, commit_ts: Ts) -> Verdict;
    /// What a transaction that is about to commit has written, by the keys of rows before and after.
    fn written(&self, txn: &Transaction) -> Writes;
    /// Whether a space is no table's any more that a transaction has read: what became of its rows is not to be
    /// found there. Must not wait.
    fn is_replaced(&self, txn: &Transaction, space: SpaceId) -> bool;
    /// The transaction is visible to all.
    fn committed(&self, txn: &mut Transaction, commit_ts: Ts);
    /// The transaction will not commit; its rows are still held.
    fn aborting(&self, txn: &mut Transaction);
}

/// The transactions of one database.
pub struct TxnManager {
    engine: Arc<dyn Engine>,
    next: AtomicU64,
    waits: WaitGraph,
    row_locks: RowLocks,
    advisory: AdvisoryLocks,
    certifier: Certifier,
    hook: OnceLock<Arc<dyn CommitHook>>,
}

impl TxnManager {
    /// Over the anchor engine.
    pub fn new(engine: Arc<dyn Engine>) -> Arc<TxnManager> {
        Arc::new(TxnManager {
            engine,
            next: AtomicU64::new(1),
            waits: WaitGraph::default(),
            row_locks: RowLocks::default(),
            advisory: AdvisoryLocks::default(),
            certifier: Certifier::default(),
            hook: OnceLock::new(),
        })
    }

    /// Installs the crate above. Once.
    pub fn set_hook(&self, hook: Arc<dyn CommitHook>) {
        assert!(self.hook.set(hook).is_ok(), "the commit hook is installed once");
    }

    pub(crate) fn hook(&self) -> Option<&Arc<dyn CommitHook>> {
        self.hook.get()
    }

    /// The anchor engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Who waits for whom.
    pub fn waits(&self) -> &WaitGraph {
        &self.waits
    }

    /// Shared row locks.
    pub fn row_locks(&self) -> &RowLocks {
        &self.row_locks
    }

    /// Advisory locks.
    pub fn advisory(&self) -> &AdvisoryLocks {
        &self.advisory
    }

    /// What serializable transactions have read and written.
    pub(crate) fn certifier(&self) -> &Certifier {
        &self.certifier
    }

    /// An owner of advisory locks in a session, of which `current` is the transaction, or the last one. It is to be
    /// ended ([`TxnManager::end_owner`]).
    pub fn new_owner(&self, session: i32, current: &Arc<AtomicU64>) -> Owner {
        let id = TxnId(self.next.fetch_add(1, Ordering::Relaxed));
        self.waits.owner_started(id, current.clone());
        Owner { id, session }
    }

    /// An owner lets go of all its locks, and is no more.
    pub fn end_owner(&self, owner: Owner) {
        self.advisory.unlock_all(owner.id);
        self.waits.ended(owner.id);
    }

    /// A new transaction. Nothing is taken from an engine until its first statement.
    pub fn begin(self: &Arc<Self>, isolation: Isolation) -> Transaction {
        let id = TxnId(self.next.fetch_add(1, Ordering::Relaxed));
        Transaction::new(self.clone(), id, isolation)
    }

    /// Commits. On an error the transaction is aborted. Does not wait for durability:
    /// [`TxnManager::wait_durable`] does.
    pub async fn commit(
        &self,
        mut txn: Transaction,
        limits: &Limits,
    ) -> Result<Committed, TxnError> {
        if txn.wrote() {
            txn.part().set_lock_timeout(limits.lock_timeout);
        }
        if let Some(outcome) = self.commit_at_once(&mut txn) {
            return outcome;
        }
        loop {
            if let Some(hook) = self.hook.get()
                && !hook.prepared(&txn)
                && let Err(e) = hook.prepare(&mut txn, limits).await
            {
                txn.abort();
                return Err(e);
            }
            if let Err(e) = self.reserve_log(&mut txn, limits).await {
                txn.abort();
                return Err(e);
            }
            if let Some(outcome) = self.check_and_commit(&mut txn) {
                return outcome;
            }
        }
    }

    /// Parks the task until the log has a place for the commit.
    async fn reserve_log(&self, txn: &mut Transaction, limits: &Limits) -> Result<(), TxnError> {
        while let LogRoom::Wait(room) = txn.part().reserve_log()? {
            tokio::select! {
                biased;
                () = room => {}
                e = limits.exceeded() => return Err(e),
            }
        }
        Ok(())
    }

    /// As [`TxnManager::commit_at_once`], of work in the background: it waits in its thread where the log has no
    /// place for it yet.
    pub fn commit_here(&self, txn: &mut Transaction) -> Option<Result<Committed, TxnError>> {
        if txn.wrote() && self.hook.get().is_none_or(|hook| hook.prepared(txn)) {
            loop {
                match txn.part().reserve_log() {
                    Ok(LogRoom::Reserved) => break,
                    Ok(LogRoom::Wait(room)) => wait_here(room),
                    Err(e) => return Some(Err(e.into())),
                }
            }
        }
        self.commit_at_once(txn)
    }

    /// Commits if nothing has to be waited for; else the transaction goes on as if nothing had
    /// been tried.
    pub fn commit_at_once(&self, txn: &mut Transaction) -> Option<Result<Committed, TxnError>> {
        if !txn.wrote() {
            return Some(Ok(txn.end_read_only()));
        }
        match self.hook.get() {
            Some(hook) if !hook.prepared(txn) => None,
            _ => match txn.part().reserve_log() {
                Ok(LogRoom::Reserved) => self.check_and_commit(txn),
                Ok(LogRoom::Wait(_)) => None,
                Err(e) => Some(Err(e.into())),
            },
        }
    }

    /// `None` if the check says that the transaction has to prepare (again).
    fn check_and_commit(&self, txn: &mut Transaction) -> Option<Result<Committed, TxnError>> {
        let Some(hook) = self.hook.get().filter(|_| txn.certified().is_some()) else {
            let ts = self.take_timestamp(txn)?;
            return Some(txn.finish(self.hook.get(), ts));
        };
        // Its rows are held: nobody changes them from here on.
        let writes = hook.written(txn);
        let mut certifying = self.certifier.certifying();
        let replaced = |space| hook.is_replaced(txn, space);
        if !certifying.allows(txn.certified()?, &replaced) {
            return Some(Err(TxnError::ReadWriteDependency));
        }
        let ts = self.take_timestamp(txn)?;
        certifying.committed(ts, writes);
        drop(certifying);
        Some(txn.finish(Some(hook), ts))
    }

    fn take_timestamp(&self, txn: &mut Transaction) -> Option<Ts> {
        let ts = txn.part().pre_commit();
        let verdict = match self.hook.get() {
            Some(hook) => hook.check(txn, ts),
            None => Verdict::Go,
        };
        match verdict {
            Verdict::Go => Some(ts),
            Verdict::Retreat => {
                txn.part().retreat();
                None
            }
        }
    }

    /// Parks the task until the log is durable up to `lsn`.
    pub async fn wait_durable(&self, lsn: Lsn) -> Result<(), TxnError> {
        if self.engine.durable() >= lsn {
            return Ok(());
        }
        let (tx, rx) = tokio::sync::oneshot::channel();
        self.engine.when_durable(
            lsn,
            Box::new(move |outcome: Result<(), EngineError>| {
                // The waiter may be gone (its client vanished); the commit stands all the same.
                let _ = tx.send(outcome);
            }),
        );
        match rx.await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(TxnError::Shutdown),
        }
    }

    /// The same of a commit, which is in doubt if that fails: the log has its record, and nobody knows
    /// how much of it the disk has.
    pub async fn wait_committed(&self, lsn: Lsn) -> Result<(), TxnError> {
        self.wait_durable(lsn).await.map_err(TxnError::of_commit)
    }

    /// Makes a commit durable, up to `lsn`, in this thread; false if another thread is at it.
    pub fn make_durable(&self, lsn: Lsn) -> Result<bool, TxnError> {
        self.engine.make_durable(lsn).map_err(|e| TxnError::from(e).of_commit())
    }

    /// Whether every commit at or below `seen` is durable.
    pub fn is_durable(&self, seen: Ts) -> bool {
        seen <= self.engine.durable_ts() || self.engine.durable() >= self.engine.appended()
    }

    /// Parks the task until every commit at or below `seen` is durable: what a read-only
    /// transaction does before it answers.
    pub async fn wait_durable_ts(&self, seen: Ts) -> Result<(), TxnError> {
        if seen <= self.engine.durable_ts() {
            return Ok(());
        }
        self.wait_durable(self.engine.appended()).await
    }
}

/// Waits in this thread, which may be in the midst of an executor's work: those do not nest.
fn wait_here<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
