//! What callers have.
//!
//! ```text
//!   Guest (a connection) ══▶ FlightSession ─┬─ base           settings; SET stays in it
//!   Guest ═══════════════════════▶          ├─ transactions   a fork each
//!        Registry ╌╌by token╌╌▶             ├─ statements     prepared ones
//!        Registry ╌╌by handle╌╌╌╌╌╌╌╌╌╌╌▶   └─ results        a fork each, until they are read
//! ```
//! Double arrows own, dotted ones only know: with the last guest goes the session and all that it has.
//! A ticket may be used on any connection of the same user, for clients fetch parts side by side.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use froglet_engine::SqlState;
use froglet_sql::database::Ends;
use froglet_sql::roles::login::Login;
use froglet_sql::{ConnectOptions, Database, Session, SqlError, TransactionStatus};
use froglet_txn::{CancelReason, CancelToken};
use futures::future::BoxFuture;
use hyper::HeaderMap;
use hyper::header::USER_AGENT;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tonic::Status;

use super::handles::Handle;
use super::results::Held;
use super::statements::Statement;
use super::status;
use super::users::{Caller, Claim, Proof, Users};
use crate::auth::rules::{Method, Peer, Rules};
use crate::connection::login::allowed;

/// How often what nobody comes back to is looked for.
const SWEEP: Duration = Duration::from_millis(500);
/// How often a statement whose caller has gone is told so, until it has ended.
const AGAIN: Duration = Duration::from_millis(50);

/// Everybody's.
pub(super) struct Registry {
    db: Arc<Database>,
    slots: Arc<Semaphore>,
    rules: Rules,
    pub(super) users: Users,
    sessions: Mutex<Vec<Weak<FlightSession>>>,
    pub(super) results: Mutex<HashMap<Handle, Weak<Held>>>,
    /// How long a result waits to be fetched.
    pub(super) result_timeout: Duration,
}

/// A connection, as far as it is somebody's.
pub(super) struct Guest {
    pub(super) registry: Arc<Registry>,
    ends: Ends,
    sessions: Mutex<HashMap<Caller, Arc<FlightSession>>>,
}

/// One caller's.
pub(super) struct FlightSession {
    registry: Arc<Registry>,
    pub(super) caller: Caller,
    pub(super) base: Mutex<Session>,
    pub(super) transactions: Mutex<HashMap<Handle, Arc<Transaction>>>,
    pub(super) statements: Mutex<HashMap<Handle, Arc<Statement>>>,
    pub(super) results: Mutex<HashMap<Handle, Arc<Held>>>,
    _slot: OwnedSemaphorePermit,
}

/// A session of a statement's, a transaction's or a result's own.
pub(super) struct Fork {
    pub(super) session: Session,
    _slot: OwnedSemaphorePermit,
}

/// A transaction that was begun by its message.
pub(super) struct Transaction {
    /// Whoever uses it takes it, and puts it back; what panics leaves none.
    fork: Arc<tokio::sync::Mutex<Option<Fork>>>,
    cancel: Arc<CancelToken>,
    used: Mutex<Instant>,
}

impl Registry {
    pub(super) fn new(
        db: Arc<Database>,
        slots: Arc<Semaphore>,
        rules: Rules,
        result_timeout: Duration,
    ) -> Arc<Registry> {
        Arc::new(Registry {
            db,
            slots,
            rules,
            users: Users::default(),
            sessions: Mutex::default(),
            results: Mutex::default(),
            result_timeout,
        })
    }

    fn slot(&self) -> Result<OwnedSemaphorePermit, Status> {
        self.slots.clone().try_acquire_owned().map_err(|_| {
            let error =
                SqlError::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already");
            status::of(&error.hint(
                "Close connections, end transactions and fetch results, or start the server with a \
                 larger max_connections.",
            ))
        })
    }

    /// Lets go what nobody has come back to in time.
    pub(super) async fn sweep(self: Arc<Registry>) {
        loop {
            tokio::time::sleep(SWEEP).await;
            let results: Vec<_> = self.results.lock().values().filter_map(Weak::upgrade).collect();
            results.iter().for_each(|held| held.expire(self.result_timeout));
            drop(results);
            let mut sessions = self.sessions.lock();
            sessions.retain(|session| session.strong_count() > 0);
            let alive: Vec<_> = sessions.iter().filter_map(Weak::upgrade).collect();
            drop(sessions);
            for session in alive {
                session.end_idle_transactions();
                session.forget_stale();
            }
        }
    }
}

impl Guest {
    pub(super) fn new(registry: Arc<Registry>, ends: Ends) -> Guest {
        Guest { registry, ends, sessions: Mutex::default() }
    }

    /// Who sends a request with these headers, if the rules let them in and the password is right.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Status> {
        let Registry { db, rules, users, .. } = &*self.registry;
        let Claim { user, proof } = users.claim(headers)?;
        if let Some(client) = self.ends.client {
            let peer = Peer { address: client.ip(), is_tls: self.ends.is_tls };
            let allowed = allowed(db, rules, peer, database(headers), &user);
            let method = allowed.map_err(|e| Status::unauthenticated(e.to_string()))?;
            let proved = match &proof {
                Proof::Token(_) => true,
                Proof::None => method == Method::Trust,
                Proof::Password(given) => method == Method::Trust || db.login(&user).accepts(given),
            };
            if !proved {
                tracing::warn!(?user, address = %peer.address, "a password was wrong");
                return Err(Status::unauthenticated(Login::failure(&user).to_string()));
            }
        }
        let token = match proof {
            Proof::Token(token) => Some(token),
            Proof::None | Proof::Password(_) => None,
        };
        Ok(Caller { user, token })
    }

    /// The session of whoever sends a request with these headers.
    pub(super) fn session(&self, headers: &HeaderMap) -> Result<Arc<FlightSession>, Status> {
        let caller = self.caller(headers)?;
        let mut mine = self.sessions.lock();
        if let Some(session) = mine.get(&caller) {
            return Ok(session.clone());
        }
        let mut all = self.registry.sessions.lock();
        let known = all.iter().filter(|_| caller.token.is_some()).filter_map(Weak::upgrade);
        let session = match known.into_iter().find(|session| session.caller == caller) {
            Some(session) => session,
            None => {
                let session = FlightSession::open(self, &caller, headers)?;
                all.push(Arc::downgrade(&session));
                session
            }
        };
        mine.insert(caller, session.clone());
        Ok(session)
    }

    /// This connection has done with its caller's session.
    pub(super) fn leave(&self, headers: &HeaderMap) -> Result<(), Status> {
        let caller = self.caller(headers)?;
        let left = self.sessions.lock().remove(&caller);
        drop(left);
        Ok(())
    }
}

/// The database that a caller wants.
fn database(headers: &HeaderMap) -> &str {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    text("database").or(text("catalog")).filter(|name| !name.is_empty()).unwrap_or("postgres")
}

impl FlightSession {
    fn open(
        guest: &Guest,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Arc<FlightSession>, Status> {
        let registry = &guest.registry;
        let slot = registry.slot()?;
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let options = ConnectOptions {
            user: caller.user.clone(),
            database: database(headers).to_owned(),
            application_name: text(USER_AGENT.as_str()).unwrap_or_default().to_owned(),
            settings: Vec::new(),
            ends: guest.ends,
        };
        let base = registry.db.connect(options).map_err(|e| status::of(&e))?;
        Ok(Arc::new(FlightSession {
            registry: registry.clone(),
            caller: caller.clone(),
            base: Mutex::new(base),
            transactions: Mutex::default(),
            statements: Mutex::default(),
            results: Mutex::default(),
            _slot: slot,
        }))
    }

    pub(super) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    fn fork(&self) -> Result<Fork, Status> {
        let slot = self.registry.slot()?;
        let session = self.base.lock().fork().map_err(|e| status::of(&e))?;
        Ok(Fork { session, _slot: slot })
    }

    /// Does something in a transaction of its own, and commits it. The fork is handed back for a
    /// result that needs it.
    pub(super) async fn alone<T, W>(self: &Arc<Self>, work: W) -> Result<(T, Fork), Status>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, SqlError>> + Send + 'static,
    {
        let mut fork = self.fork()?;
        let owner = self.clone();
        let cancel = fork.session.cancel_token();
        to_the_end(cancel, async move {
            let session = &mut fork.session;
            let outcome = work(session).await;
            let value = concluded(session, outcome).await?;
            owner.base.lock().adopt_settings(session);
            Ok((value, fork))
        })
        .await
    }

    /// Begins a transaction.
    pub(super) async fn begin(&self) -> Result<Handle, Status> {
        let mut fork = self.fork()?;
        let cancel = fork.session.cancel_token();
        let fork = to_the_end(cancel.clone(), async move {
            let session = &mut fork.session;
            let outcome = session.run_text("BEGIN").await;
            concluded(session, outcome).await?;
            Ok(fork)
        })
        .await?;
        let fork = Arc::new(tokio::sync::Mutex::new(Some(fork)));
        let used = Mutex::new(Instant::now());
        let handle = Handle::new();
        self.transactions.lock().insert(handle, Arc::new(Transaction { fork, cancel, used }));
        Ok(handle)
    }

    pub(super) fn transaction(&self, id: &[u8]) -> Result<(Handle, Arc<Transaction>), Status> {
        let handle = Handle::read(id)?;
        let found = self.transactions.lock().get(&handle).cloned();
        Ok((handle, found.ok_or_else(|| status::of(&no_transaction()))?))
    }

    /// Ends a transaction. One that has failed cannot be committed: it is rolled back, and that is
    /// an error.
    pub(super) async fn end(self: &Arc<Self>, id: &[u8], commit: bool) -> Result<(), Status> {
        let (handle, _) = self.transaction(id)?;
        let Some(transaction) = self.transactions.lock().remove(&handle) else {
            return Err(status::of(&no_transaction()));
        };
        let owner = self.clone();
        let mut place = transaction.fork.clone().lock_owned().await;
        to_the_end(transaction.cancel.clone(), async move {
            let mut fork = place.take().ok_or_else(no_transaction)?;
            let session = &mut fork.session;
            let failed = session.status() == TransactionStatus::Failed;
            let ended = session.run_text(if commit { "COMMIT" } else { "ROLLBACK" }).await;
            settled(session, ended).await?;
            if commit && failed {
                return Err(SqlError::new(
                    SqlState::IN_FAILED_SQL_TRANSACTION,
                    "a statement of the transaction has failed: it is rolled back",
                ));
            }
            owner.base.lock().adopt_settings(session);
            Ok(())
        })
        .await
    }

    /// Lets go of what it remembers of tables whose rows were freed; a transaction at work does so later.
    fn forget_stale(&self) {
        self.base.lock().forget_stale();
        for transaction in self.transactions.lock().values() {
            if let Ok(mut fork) = transaction.fork.try_lock()
                && let Some(fork) = fork.as_mut()
            {
                fork.session.forget_stale();
            }
        }
    }

    fn end_idle_transactions(&self) {
        let mut transactions = self.transactions.lock();
        let ended: Vec<_> =
            transactions.extract_if(|_, transaction| transaction.is_over()).collect();
        drop(transactions);
        // To undo a large one takes long, and nobody waits for the lock meanwhile.
        drop(ended);
    }
}

impl Transaction {
    /// Whether it has waited longer than it may, or a panic has ended it.
    fn is_over(&self) -> bool {
        // Otherwise it is at work.
        let Ok(fork) = self.fork.try_lock() else { return false };
        let idle = self.used.lock().elapsed();
        let timeout = |fork: &Fork| fork.session.idle_timeout();
        fork.as_ref().is_none_or(|fork| timeout(fork).is_some_and(|timeout| idle >= timeout))
    }

    /// Does something in it.
    pub(super) async fn run<T, W>(&self, work: W) -> Result<T, Status>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<T, SqlError>> + Send + 'static,
    {
        let mut place = self.fork.clone().lock_owned().await;
        *self.used.lock() = Instant::now();
        let outcome = to_the_end(self.cancel.clone(), async move {
            let mut fork = place.take().ok_or_else(no_transaction)?;
            let session = &mut fork.session;
            let outcome = work(session).await;
            let outcome = concluded(session, outcome).await;
            *place = Some(fork);
            outcome
        })
        .await;
        *self.used.lock() = Instant::now();
        outcome
    }
}

/// The end of a statement, before its client is told: all that its answer rests on is durable, an
/// error, too. Not every error was seen by the session.
async fn concluded<T>(session: &mut Session, outcome: Result<T, SqlError>) -> Result<T, SqlError> {
    if outcome.is_err() {
        session.note_failure();
    }
    let ended = session.finish_implicit(outcome.is_ok()).await;
    session.take_notices();
    let outcome = settled(session, outcome).await;
    settled(session, ended).await?;
    outcome
}

/// What is told to a client, once all that it rests on is durable; else why it never will be.
async fn settled<T>(session: &mut Session, outcome: Result<T, SqlError>) -> Result<T, SqlError> {
    match outcome {
        // There is nothing to wait for any more.
        Err(error) if error.fatal => Err(error),
        Err(error) => {
            session.note_error(&error);
            session.settle().await.and(Err(error))
        }
        Ok(value) => session.settle().await.map(|()| value),
    }
}

fn no_transaction() -> SqlError {
    SqlError::new(
        SqlState::new("25000"),
        "there is no such transaction: it has ended, or is another session's",
    )
}

/// Runs work in a task of its own, which is cancelled when nobody waits for it any more.
pub(super) async fn to_the_end<T: Send + 'static>(
    cancel: Arc<CancelToken>,
    work: impl Future<Output = Result<T, SqlError>> + Send + 'static,
) -> Result<T, Status> {
    let mut waited_for = WaitedFor { work: Some(tokio::spawn(work)), cancel };
    let outcome = waited_for.work.as_mut().expect("it is there until it has ended").await;
    waited_for.work = None;
    match outcome {
        Ok(outcome) => outcome.map_err(|e| status::of(&e)),
        Err(panic) => {
            tracing::error!(%panic, "a statement of a Flight client panicked");
            Err(Status::internal(format!("internal error: {panic} (SQLSTATE XX000)")))
        }
    }
}

struct WaitedFor<T: Send + 'static> {
    work: Option<JoinHandle<T>>,
    cancel: Arc<CancelToken>,
}

impl<T: Send + 'static> Drop for WaitedFor<T> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        let cancel = self.cancel.clone();
        // A statement that begins just now forgets what it was told before.
        tokio::spawn(async move {
            while !work.is_finished() {
                cancel.cancel(CancelReason::User);
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use froglet_engine::Engine;
    use froglet_engine::env::MemEnv;
    use froglet_log::LogOptions;
    use froglet_memory::{MemoryEngine, MemoryOptions};
    use froglet_sql::Defaults;
    use futures::FutureExt;

    use super::*;

    /// A session of a database whose log is flushed only when somebody waits for it.
    async fn session() -> (Arc<MemoryEngine>, Guest, Arc<FlightSession>) {
        let hour = Duration::from_secs(3600);
        let options = MemoryOptions {
            data_dir: Some("/data".into()),
            env: Arc::new(MemEnv::new(1)),
            collector_thread: false,
            log: LogOptions { flush_interval: hour, ..LogOptions::default() },
            ..MemoryOptions::default()
        };
        let engine = MemoryEngine::open(options).expect("an empty log opens");
        let db =
            Database::open(engine.clone(), Defaults::default()).await.expect("a catalog opens");
        let guest = Guest::new(
            Registry::new(db, Arc::new(Semaphore::new(10)), Rules::default(), hour),
            Ends::default(),
        );
        let session = guest.session(&HeaderMap::new()).expect("a place is free");
        (engine, guest, session)
    }

    fn run(
        text: &'static str,
    ) -> impl for<'a> FnOnce(&'a mut Session) -> BoxFuture<'a, Result<(), SqlError>> + Send + 'static
    {
        move |session| session.run_text(text).boxed()
    }

    fn panics(_: &mut Session) -> BoxFuture<'_, Result<(), SqlError>> {
        async { panic!("as a test wants it") }.boxed()
    }

    #[tokio::test]
    async fn an_error_is_told_when_what_it_rests_on_is_durable() {
        for in_transaction in [false, true] {
            let (engine, _guest, session) = session().await;
            session.alone(run("CREATE TABLE t (k int PRIMARY KEY)")).await.expect("it is made");
            session.alone(run("SET synchronous_commit = off")).await.expect("a setting");
            session.alone(run("INSERT INTO t VALUES (1)")).await.expect("the key is new");
            let appended = engine.appended();
            session.alone(run("SET synchronous_commit = on")).await.expect("a setting");
            assert!(engine.durable() < appended, "nobody waits for the row to be durable");
            let again = run("INSERT INTO t VALUES (1)");
            let outcome = match in_transaction {
                false => session.alone(again).await.map(|_| ()),
                true => {
                    let handle = session.begin().await.expect("it begins").bytes();
                    let (_, transaction) = session.transaction(&handle).expect("it is there");
                    transaction.run(again).await
                }
            };
            assert_eq!(outcome.expect_err("the key is there").code(), tonic::Code::AlreadyExists);
            assert!(engine.durable() >= appended, "in a transaction: {in_transaction}");
        }
    }

    #[tokio::test]
    async fn a_panic_ends_its_transaction() {
        let (_engine, _guest, session) = session().await;
        session.alone(run("CREATE TABLE t (k int PRIMARY KEY)")).await.expect("it is made");
        let handle = session.begin().await.expect("it begins").bytes();
        let (_, transaction) = session.transaction(&handle).expect("it is there");
        transaction.run(run("INSERT INTO t VALUES (1)")).await.expect("the key is new");
        transaction.run(panics).await.expect_err("it panics");
        transaction.run(run("SELECT 1")).await.expect_err("there is no transaction");
        // Nothing of it is left: the same key waits for nobody.
        session.alone(run("INSERT INTO t VALUES (1)")).await.expect("the key is new");
        session.end(&handle, true).await.expect_err("it cannot be committed");
        let handle = session.begin().await.expect("it begins").bytes();
        let (_, transaction) = session.transaction(&handle).expect("it is there");
        transaction.run(panics).await.expect_err("it panics");
        session.end_idle_transactions();
        assert!(session.transactions.lock().is_empty(), "it is let go");
    }
}
