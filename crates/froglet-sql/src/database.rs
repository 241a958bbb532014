//! One database: the engine, its transactions, its catalog, and who is connected.
//!
//! ```text
//!   Database ── Catalog ── TxnManager ── Engine
//!      │
//!      ├─ connect ─▶ Session  (one task's; aborts its transaction when it is dropped)
//!      └─ registry: pid ─▶ SessionShared  what others may see of a session, and how they stop it
//! ```
//!
//! A session's statement text is shared, not copied, into the registry, so that being visible in
//! `pg_stat_activity` costs a statement two short locks.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use datafusion::execution::runtime_env::RuntimeEnv;
use froglet_engine::{ColumnType, Engine, Snapshot, SqlState, TxnId};
use froglet_schema::role::INITIAL_ROLE;
use froglet_schema::{
    Catalog, CatalogVersion, LazyQuery, Recompile, SchemaError, TableDef, Transform,
};
use froglet_txn::{CancelReason, CancelToken, TxnManager};
use parking_lot::Mutex;

use crate::copy::directory::CopyDirectory;
use crate::copy::progress::{CopyRow, Progress};
use crate::ddl_compile::refusal;
use crate::error::SqlError;
use crate::exported::Exported;
use crate::functions::SessionState;
use crate::notify::{Channels, Mail};
use crate::query::account::Pool;
use crate::roles::login::{self, Logins};
use crate::session::Session;
use crate::settings::{SESSION_AUTHORIZATION, Settings};
use crate::types;
use crate::write::table_locks::{Held, TableLocks};

/// What a configuration file, the environment and the command line say.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// Settings by name, as `SET` would take them.
    pub settings: Vec<(String, String)>,
    /// Where COPY reads and writes files, if it may.
    pub copy_directory: Option<Arc<CopyDirectory>>,
    /// The password of the initial superuser, until it is given one by ALTER ROLE: as it is, or as it is stored.
    pub superuser_password: Option<String>,
}

/// What a client says when it connects.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// A role that may log in.
    pub user: String,
    /// Only `postgres` exists.
    pub database: String,
    /// For `pg_stat_activity`.
    pub application_name: String,
    /// Startup parameters and `options=-c …`.
    pub settings: Vec<(String, String)>,
    /// Where it comes from.
    pub ends: Ends,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            user: "postgres".to_owned(),
            database: "postgres".to_owned(),
            application_name: String::new(),
            settings: Vec::new(),
            ends: Ends::default(),
        }
    }
}

/// Between which addresses a session is, where it is one of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The client's.
    pub client: Option<SocketAddr>,
    /// The server's.
    pub server: Option<SocketAddr>,
    /// Whether it speaks TLS.
    pub is_tls: bool,
}

/// What a session is doing, in the words of `pg_stat_activity.state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// `active`
    Active,
    /// `idle`
    Idle,
    /// `idle in transaction`
    IdleInTransaction,
    /// `idle in transaction (aborted)`
    IdleInFailedTransaction,
}

impl Activity {
    /// PostgreSQL's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Activity::Active => "active",
            Activity::Idle => "idle",
            Activity::IdleInTransaction => "idle in transaction",
            Activity::IdleInFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

/// One row of `pg_stat_activity`.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// The number a cancel request names.
    pub pid: i32,
    /// As given.
    pub user: String,
    /// Where it comes from.
    pub ends: Ends,
    /// As set last.
    pub application_name: String,
    /// What it does.
    pub activity: Activity,
    /// The statement under way, or the last one.
    pub query: Arc<str>,
    /// When it connected.
    pub connected: SystemTime,
    /// When `query` began.
    pub query_start: Option<SystemTime>,
    /// When its activity last changed.
    pub state_change: SystemTime,
    /// Whether it waits for another transaction.
    pub waits: bool,
    /// The session of that one, where it has one.
    pub waits_for: Option<i32>,
    /// Whether it waits for an advisory lock.
    pub waits_for_advisory: bool,
}

/// What others may see of a session.
pub(crate) struct SessionShared {
    pub(crate) pid: i32,
    pub(crate) secret: i32,
    pub(crate) user: String,
    pub(crate) ends: Ends,
    pub(crate) connected: SystemTime,
    pub(crate) cancel: Arc<CancelToken>,
    /// Its transaction, or the last one it had; 0 before the first.
    pub(crate) txn: Arc<AtomicU64>,
    pub(crate) mail: Mail,
    /// Rows of tables were freed that it may remember (`session/stale.rs`).
    pub(crate) is_stale: AtomicBool,
    pub(crate) visible: Mutex<Visible>,
    /// The COPY under way.
    pub(crate) copy: Mutex<Option<Arc<Progress>>>,
    /// Tables that its transaction holds.
    pub(crate) tables: Held,
}

pub(crate) struct Visible {
    pub(crate) application_name: String,
    pub(crate) activity: Activity,
    pub(crate) query: Arc<str>,
    pub(crate) query_start: Option<SystemTime>,
    pub(crate) state_change: SystemTime,
}

/// One database.
pub struct Database {
    catalog: Arc<Catalog>,
    defaults: Settings,
    sessions: Mutex<HashMap<i32, Arc<SessionShared>>>,
    next_pid: AtomicI32,
    stopping: AtomicBool,
    started: SystemTime,
    copy_directory: Option<Arc<CopyDirectory>>,
    /// What passwords are checked against.
    pub(crate) logins: Logins,
    pub(crate) channels: Channels,
    pub(crate) exported: Arc<Exported>,
    environment: Arc<RuntimeEnv>,
    table_locks: TableLocks,
}

impl Database {
    /// Opens the catalog over an engine that has recovered. A setting that does not exist or
    /// does not parse is an error here, not at the first connection.
    pub async fn open(
        engine: Arc<dyn Engine>,
        defaults: Defaults,
    ) -> Result<Arc<Database>, SqlError> {
        froglet_schema::write_values_with(types::output::display_value);
        let mut settings = Settings::default();
        for (name, value) in &defaults.settings {
            settings.set_default(name, value)?;
        }
        let environment = Pool::environment(engine.clone());
        let manager = TxnManager::new(engine);
        let catalog = Catalog::open(manager).await?;
        catalog.past().keep_for(settings.retention());
        // From the start on, and not from the first round of housekeeping.
        catalog.past().sample(&**catalog.engine());
        let logins = Logins::open(&**catalog.engine(), defaults.superuser_password.as_deref())?;
        let db = Arc::new(Database {
            catalog,
            defaults: settings,
            sessions: Mutex::default(),
            next_pid: AtomicI32::new(1),
            stopping: AtomicBool::new(false),
            started: SystemTime::now(),
            copy_directory: defaults.copy_directory,
            logins,
            channels: Channels::default(),
            exported: Arc::default(),
            environment,
            table_locks: TableLocks::default(),
        });
        let weak = Arc::downgrade(&db);
        db.catalog.on_freed(Box::new(move || {
            if let Some(db) = weak.upgrade() {
                db.rows_were_freed();
            }
        }));
        db.resume_lazies()?;
        db.drop_all_temporary().await?;
        Ok(db)
    }

    /// Goes on with lazy migrations that a restart has interrupted.
    fn resume_lazies(self: &Arc<Self>) -> Result<(), SqlError> {
        let compiler: Arc<dyn Recompile> = Arc::new(Compiler(Arc::downgrade(self)));
        Ok(self.catalog.resume_lazies(&compiler)?)
    }

    /// A session of the database's own: no role, and no default that somebody has set, limits it.
    pub(crate) fn own_session(self: &Arc<Self>) -> Result<Session, SqlError> {
        let mut settings = Settings::default();
        // Whatever the superuser is called by now.
        if let Some(role) = self.catalog.latest().role_by_id(INITIAL_ROLE) {
            settings.set_default(SESSION_AUTHORIZATION, &role.name)?;
        }
        self.session_with(settings)
    }

    fn session_with(self: &Arc<Self>, settings: Settings) -> Result<Session, SqlError> {
        let options = ConnectOptions::default();
        let shared = self.register_as(&options.user, &settings, None, options.ends)?;
        Ok(Session::new(self.clone(), shared, settings))
    }

    /// A new session. 3D000 for any database but `postgres`.
    pub fn connect(self: &Arc<Self>, options: ConnectOptions) -> Result<Session, SqlError> {
        if options.database != "postgres" {
            return Err(SqlError {
                fatal: true,
                ..SqlError::new(
                    SqlState::INVALID_CATALOG_NAME,
                    format!("database \"{}\" does not exist", options.database),
                )
            });
        }
        let fatal = |e| SqlError { fatal: true, ..e };
        let catalog = self.catalog.latest();
        let role = login::may_connect(&catalog, &options.user).map_err(fatal)?;
        let mut settings = self.defaults.clone();
        let said = [&role.settings[..], &role.database_settings].concat();
        settings.connect(&options, &said).map_err(fatal)?;
        login::may_use_database(&catalog, &role)?;
        login::take_role(&mut settings, &catalog, &role).map_err(fatal)?;
        let limit = usize::try_from(role.connection_limit).ok().filter(|_| !role.superuser);
        let shared = self.register_as(&options.user, &settings, limit, options.ends)?;
        Ok(Session::new(self.clone(), shared, settings))
    }

    /// Enters a session, if its user has fewer than `limit` already.
    pub(crate) fn register_as(
        &self,
        user: &str,
        settings: &Settings,
        limit: Option<usize>,
        ends: Ends,
    ) -> Result<Arc<SessionShared>, SqlError> {
        let now = SystemTime::now();
        let mut sessions = self.sessions.lock();
        // Under the lock: a shutdown finds every session that has come so far, and none comes after.
        if self.stopping.load(Ordering::SeqCst) {
            return Err(SqlError {
                fatal: true,
                ..SqlError::new(
                    SqlState::CANNOT_CONNECT_NOW,
                    "the database system is shutting down",
                )
            });
        }
        let taken = || sessions.values().filter(|session| session.user == user).count();
        if limit.is_some_and(|limit| taken() >= limit) {
            let message = format!("too many connections for role \"{user}\"");
            let e = SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message);
            return Err(SqlError { fatal: true, ..e });
        }
        let pid = loop {
            let pid = self.next_pid.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if pid != 0 && !sessions.contains_key(&pid) {
                break pid;
            }
        };
        let shared = Arc::new(SessionShared {
            pid,
            secret: rand::random(),
            user: user.to_owned(),
            ends,
            connected: now,
            cancel: Arc::default(),
            txn: Arc::default(),
            mail: Mail::default(),
            is_stale: AtomicBool::new(false),
            visible: Mutex::new(Visible {
                application_name: settings.application_name().to_owned(),
                activity: Activity::Idle,
                query: Arc::from(""),
                query_start: None,
                state_change: now,
            }),
            copy: Mutex::default(),
            tables: Held::default(),
        });
        sessions.insert(pid, shared.clone());
        Ok(shared)
    }

    pub(crate) fn forget(&self, session: &SessionShared) {
        self.channels.forget(session);
        self.sessions.lock().remove(&session.pid);
    }

    /// Stops the statement under way of the session that has this pid and secret. False where
    /// there is none such; a client is not told which.
    pub fn cancel(&self, pid: i32, secret: i32) -> bool {
        match self.sessions.lock().get(&pid) {
            Some(session) if session.secret == secret => {
                session.cancel.cancel(CancelReason::User);
                true
            }
            _ => false,
        }
    }

    /// `pg_cancel_backend` and `pg_terminate_backend`: as [`Database::cancel`], by one who is
    /// allowed to. After a `Shutdown` the server closes the connection.
    pub fn signal(&self, pid: i32, reason: CancelReason) -> bool {
        match self.sessions.lock().get(&pid) {
            Some(session) => {
                session.cancel.cancel(reason);
                true
            }
            None => false,
        }
    }

    /// Stops every session and takes no new ones.
    pub fn shutdown(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let sessions = self.sessions.lock();
        // All are told before the first one lets its rows go: who waited for them stops, too.
        sessions.values().for_each(|session| session.cancel.mark(CancelReason::Shutdown));
        sessions.values().for_each(|session| session.cancel.ring());
    }

    /// Who is connected, by pid.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let waits = self.manager().waits().waiting();
        let waiting: HashMap<TxnId, TxnId> =
            waits.into_iter().map(|wait| (wait.waiter, wait.holder)).collect();
        let sessions = self.sessions.lock();
        let advisory = self.manager().advisory().all();
        let owner_of = |holder: &TxnId| advisory.iter().find(|lock| lock.owner.id == *holder);
        let txn_of = |session: &SessionShared| TxnId(session.txn.load(Ordering::Relaxed));
        let mut infos: Vec<SessionInfo> = sessions
            .values()
            .map(|session| {
                let visible = session.visible.lock();
                let holder = waiting.get(&txn_of(session));
                let owner = holder.and_then(owner_of).map(|lock| lock.owner.session);
                let holds = |other: &&Arc<SessionShared>| {
                    Some(&txn_of(other)) == holder || Some(other.pid) == owner
                };
                SessionInfo {
                    pid: session.pid,
                    user: session.user.clone(),
                    ends: session.ends,
                    application_name: visible.application_name.clone(),
                    activity: visible.activity,
                    query: visible.query.clone(),
                    connected: session.connected,
                    query_start: visible.query_start,
                    state_change: visible.state_change,
                    waits: holder.is_some(),
                    waits_for_advisory: owner.is_some(),
                    waits_for: sessions.values().find(holds).map(|other| other.pid),
                }
            })
            .collect();
        infos.sort_by_key(|info| info.pid);
        infos
    }

    /// What LOCK TABLE holds.
    pub(crate) fn table_locks(&self) -> &TableLocks {
        &self.table_locks
    }

    /// A session of which something is so.
    pub(crate) fn find_session(
        &self,
        mut is_it: impl FnMut(&Arc<SessionShared>) -> bool,
    ) -> Option<Arc<SessionShared>> {
        self.sessions.lock().values().find(|session| is_it(session)).cloned()
    }

    /// The session whose transaction this is.
    pub(crate) fn pid_of(&self, txn: TxnId) -> Option<i32> {
        let sessions = self.sessions.lock();
        let mut all = sessions.values();
        all.find(|session| session.txn.load(Ordering::Relaxed) == txn.0).map(|session| session.pid)
    }

    /// The COPYs under way, by pid.
    pub(crate) fn copies(&self) -> Vec<CopyRow> {
        let sessions = self.sessions.lock();
        let mut rows: Vec<CopyRow> = sessions
            .values()
            .filter_map(|s| s.copy.lock().as_ref().map(|copy| CopyRow::of(s.pid, copy)))
            .collect();
        rows.sort_by_key(|row| row.pid);
        rows
    }

    /// Where queries run.
    pub(crate) fn environment(&self) -> &Arc<RuntimeEnv> {
        &self.environment
    }

    /// Where COPY reads and writes files, if it may.
    pub(crate) fn copy_directory(&self) -> Option<&Arc<CopyDirectory>> {
        self.copy_directory.as_ref()
    }

    /// The catalog.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The transactions.
    pub fn manager(&self) -> &Arc<TxnManager> {
        self.catalog.manager()
    }

    /// When it was opened.
    pub fn started(&self) -> SystemTime {
        self.started
    }
}

/// Compiles again what recovery has found.
struct Compiler(Weak<Database>);

impl Compiler {
    /// What it compiles with: functions, a view, and the types of today.
    #[allow(clippy::type_complexity)]
    fn with(&self) -> Result<(Arc<SessionState>, Arc<Snapshot>, Arc<CatalogVersion>), SchemaError> {
        let gone = || SchemaError::refused(SqlState::ADMIN_SHUTDOWN, "the server is shutting down");
        let db = self.0.upgrade().ok_or_else(gone)?;
        let session = db.session_with(db.defaults.clone()).map_err(refusal)?;
        Ok((session.functions(), db.manager().engine().snapshot(), db.catalog.latest()))
    }
}

impl Recompile for Compiler {
    fn query(&self, recipe: &str, catalog: CatalogVersion) -> Result<LazyQuery, SchemaError> {
        let (session, snapshot, today) = self.with()?;
        let query = crate::lazy_query::recompile;
        query(recipe, session, catalog, &today, &snapshot).map_err(refusal)
    }

    fn column(&self, recipe: &str, table: &TableDef) -> Result<Arc<dyn Transform>, SchemaError> {
        let (session, _, today) = self.with()?;
        let column = crate::lazy_column::recompile;
        column(recipe, session, table, &today).map_err(refusal)
    }

    fn check(&self, recipe: &str) -> Result<(Arc<dyn Transform>, Vec<ColumnType>), SchemaError> {
        let (session, _, today) = self.with()?;
        crate::lazy_column::recompile_condition(recipe, session, &today).map_err(refusal)
    }
}
