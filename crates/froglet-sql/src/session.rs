//! A session: one client's transaction, settings and statements.
//!
//! ```text
//!             BEGIN                    error                ROLLBACK, COMMIT
//!   Idle ───────────▶ Explicit ───────────────▶ Failed ───────────────────▶ Idle
//!     │  statement                                │ ROLLBACK TO
//!     ▼                                           ▼
//!   Implicit ── BEGIN ──▶ Explicit             Explicit
//!     │ finish_implicit: end of a simple message, or Sync
//!     ▼
//!   Idle, committed and durable (or aborted)
//! ```
//!
//! A session belongs to one task. Dropped, it aborts what it had begun: a client that vanishes
//! leaves nothing behind.

pub(crate) mod do_block;
pub mod held_back;
pub(crate) mod in_cluster;
pub(crate) mod maintenance;
pub(crate) mod postgres_settings;
pub(crate) mod setting_units;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use froglet_engine::{IdMap, Lsn, SqlState, Ts, Value};
use froglet_schema::CatalogSavepoint;
use froglet_schema::access::PG_CLASS;
use froglet_txn::{CancelToken, Limits, Transaction, aside};

use crate::command::{Command, TransactionModes};
use crate::context::SessionFunctions;
use crate::cursor::Cursors;
use crate::database::{Activity, Database, SessionShared};
use crate::deferred::{self, Deferred};
use crate::error::{Notice, SqlError};
use crate::functions::SessionState;
use crate::notify::SaidMark;
use crate::parse::{self, ParsedStatement};
use crate::prepared::{Field, Named, Prepared};
use crate::privileges::{Who, bits};
use crate::query_run;
use crate::roles;
use crate::semantics::named;
use crate::settings::{Settings, SettingsMark};
use crate::statement_cache::StatementCache;
use crate::stream::{Outcome, RowStream, Rows};
use crate::temporary::AtCommit;
use crate::types::zone::{self, Zone};

mod settle;
mod stale;

pub use settle::Settling;

/// What ReadyForQuery says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// `I`
    Idle,
    /// `T`
    InTransaction,
    /// `E`
    Failed,
}

/// Where the session's transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    Idle,
    Implicit,
    Explicit,
    Failed,
}

/// A savepoint by name, with all that a rollback to it restores.
pub(crate) struct NamedSavepoint {
    pub(crate) name: String,
    pub(crate) rows: froglet_engine::Savepoint,
    pub(crate) catalog: CatalogSavepoint,
    pub(crate) settings: SettingsMark,
    pub(crate) cursors: u64,
    /// Advisory locks of the transaction.
    pub(crate) advisory: usize,
    /// Tables that the transaction holds.
    pub(crate) tables: usize,
    pub(crate) said: SaidMark,
    pub(crate) constraints: deferred::Modes,
}

/// One client's session.
pub struct Session {
    pub(crate) db: Arc<Database>,
    pub(crate) shared: Arc<SessionShared>,
    pub(crate) settings: Settings,
    pub(crate) txn: Option<Transaction>,
    pub(crate) block: Block,
    /// This transaction may not write.
    pub(crate) read_only: bool,
    /// What this transaction was begun with, for AND CHAIN.
    pub(crate) modes: TransactionModes,
    pub(crate) savepoints: Vec<NamedSavepoint>,
    /// The settings to which a rollback of this transaction goes back.
    pub(crate) begin_settings: Option<SettingsMark>,
    pub(crate) notices: Vec<Notice>,
    /// The newest possibly undurable commit that what the client is told may rest on.
    pub(crate) seen: Ts,
    /// Where the log must be durable before the client is told of the newest own commit.
    pub(crate) committed: Lsn,
    /// Statements seen before.
    pub(crate) cache: StatementCache,
    /// PREPARE's statements.
    pub(crate) named: IdMap<String, Arc<Named>>,
    /// What this transaction checks at its end.
    pub(crate) deferred: Deferred,
    /// Temporary tables that something becomes of at the end of transactions.
    pub(crate) on_commit: Vec<AtCommit>,
    pub(crate) cursors: Cursors,
    /// What runs now goes on after its statement: `statement_timeout` does not end it.
    pub(crate) unlimited: bool,
    /// Nobody else is served by this thread: it may wait for the disk.
    pub(crate) alone: bool,
    /// Its client sends no other statement before the transaction ends, if that is implicit.
    pub(crate) is_last: bool,
    /// The statement that runs is of a simple query: its result is described with its rows.
    pub(crate) undescribed: bool,
    /// Queries are kept for whoever fetches their rows (`columnar/mod.rs`).
    pub(crate) pinning: bool,
    /// Its client can be told of notifications.
    pub(crate) can_listen: bool,
    /// What functions like now() and currval() look at.
    pub(crate) state: Arc<SessionState>,
    reported: Vec<Arc<str>>,
    pub(crate) reported_at: SettingsMark,
}

impl Session {
    pub(crate) fn new(
        db: Arc<Database>,
        shared: Arc<SessionShared>,
        settings: Settings,
    ) -> Session {
        let state = Arc::new(SessionState::new(&db, &shared, &settings));
        Session {
            reported: settings.reported().map(|(_, value)| value.clone()).collect(),
            reported_at: settings.mark(),
            db,
            shared,
            settings,
            txn: None,
            block: Block::Idle,
            read_only: false,
            modes: TransactionModes::default(),
            savepoints: Vec::new(),
            begin_settings: None,
            notices: Vec::new(),
            seen: Ts(0),
            committed: Lsn(0),
            cache: StatementCache::default(),
            named: IdMap::default(),
            deferred: Deferred::default(),
            on_commit: Vec::new(),
            cursors: Cursors::default(),
            unlimited: false,
            alone: false,
            is_last: false,
            undescribed: false,
            pinning: false,
            can_listen: false,
            state,
        }
    }

    /// The number that a cancel request names.
    pub fn pid(&self) -> i32 {
        self.shared.pid
    }

    /// The number that a cancel request must know.
    pub fn secret(&self) -> i32 {
        self.shared.secret
    }

    /// Keeps a statement under a name, for EXECUTE and Bind alike. `text`: as its client wrote it.
    pub fn store_statement(
        &mut self,
        name: &str,
        prepared: Arc<Prepared>,
        text: Arc<str>,
        from_sql: bool,
    ) -> Result<(), SqlError> {
        if self.named.contains_key(name) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        let named = Arc::new(Named::new(prepared, text, from_sql));
        self.state.named().insert(name.to_owned(), named.clone());
        self.named.insert(name.to_owned(), named);
        Ok(())
    }

    /// What its functions see.
    pub(crate) fn functions(&self) -> Arc<SessionState> {
        self.state.clone()
    }

    /// The statement of a name.
    pub fn statement(&self, name: &str) -> Option<&Arc<Prepared>> {
        self.named.get(name).map(|named| &named.prepared)
    }

    /// The same, which is to run now.
    pub fn statement_to_run(&self, name: &str) -> Option<&Arc<Prepared>> {
        self.named.get(name).map(|named| named.to_run())
    }

    /// Forgets the statement of a name; nothing, if there is none.
    pub fn close_statement(&mut self, name: &str) {
        if self.named.remove(name).is_some() {
            self.state.named().remove(name);
        }
    }

    /// Forgets the statements of all names.
    pub(crate) fn close_statements(&mut self) {
        self.named.clear();
        self.state.named().clear();
    }

    /// The database.
    pub fn database(&self) -> &Arc<Database> {
        &self.db
    }

    /// For ReadyForQuery.
    pub fn status(&self) -> TransactionStatus {
        match self.block {
            Block::Idle | Block::Implicit => TransactionStatus::Idle,
            Block::Explicit => TransactionStatus::InTransaction,
            Block::Failed => TransactionStatus::Failed,
        }
    }

    /// The parameters to report when the session starts.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        self.settings.reported().map(|(name, value)| (name, value.to_string())).collect()
    }

    /// The reported parameters that have changed since the last call.
    pub fn parameter_changes(&mut self) -> Vec<(&'static str, String)> {
        self.take_set();
        if self.settings.same_as(&self.reported_at) {
            return Vec::new();
        }
        self.reported_at = self.settings.mark();
        let mut changes = Vec::new();
        for ((name, now), before) in self.settings.reported().zip(&mut self.reported) {
            if now != before {
                changes.push((name, now.to_string()));
                *before = now.clone();
            }
        }
        changes
    }

    /// Notices since the last call that the client wants to see.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.notices);
        notices.append(&mut self.state.take_notices());
        if notices.is_empty() {
            return notices;
        }
        let hot = self.settings.hot();
        notices.retain(|notice| match notice.severity {
            "NOTICE" => hot.notices,
            "WARNING" => hot.warnings,
            _ => true,
        });
        notices
    }

    /// Resolves, while the session waits for its client, when it is to end.
    pub fn cancel_token(&self) -> Arc<CancelToken> {
        self.shared.cancel.clone()
    }

    /// Rows of a result as a client takes them of which some columns are in binary format.
    pub fn in_formats(
        &self,
        rows: Rows,
        fields: &[Field],
        is_binary: impl Fn(usize) -> bool,
    ) -> Result<Rows, SqlError> {
        named::numbered(rows, fields, is_binary, &*self.state)
    }

    /// The time zone in which the client's timestamps are read and printed.
    pub fn zone(&self) -> Zone {
        self.settings.hot().zone
    }

    /// How long the session may wait for its client now; `None` for ever.
    pub fn idle_timeout(&self) -> Option<Duration> {
        match self.block {
            Block::Explicit | Block::Failed => self.settings.hot().idle_in_transaction_timeout,
            Block::Idle => self.settings.hot().idle_timeout,
            Block::Implicit => None,
        }
    }

    /// What ends a session that waited longer.
    pub fn idle_timeout_error(&self) -> SqlError {
        let (state, what) = match self.block {
            Block::Idle => (SqlState::IDLE_SESSION_TIMEOUT, "idle-session timeout"),
            _ => (SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, "idle-in-transaction timeout"),
        };
        let text = format!("terminating connection due to {what}");
        SqlError { fatal: true, ..SqlError::new(state, text) }
    }

    /// Parses a text into statements. Nothing of it runs if any of it does not parse.
    pub fn split(&mut self, text: &str) -> Result<Vec<ParsedStatement>, SqlError> {
        if !self.settings.hot().plan_cache {
            return split_text(text, &mut self.notices);
        }
        if let Some(statements) = self.cache.parsed(text) {
            return Ok(statements.to_vec());
        }
        let noticed = self.notices.len();
        let statements = split_text(text, &mut self.notices)?;
        // Its notices are to be given every time.
        if self.notices.len() == noticed {
            self.cache.keep_parsed(text, &statements);
        }
        Ok(statements)
    }

    /// Binds a statement: its parameters' types (0: to be inferred) and its result.
    pub async fn prepare(
        &mut self,
        statement: &ParsedStatement,
        param_oids: &[u32],
    ) -> Result<Arc<Prepared>, SqlError> {
        let zone = self.zone();
        let outcome = zone::scope(zone, pin!(self.prepare_guarded(statement, param_oids))).await;
        let checked = outcome.and_then(|prepared| prepared.check_parameters().map(|()| prepared));
        checked.map_err(|e| self.failed(parse::locate(statement, e)))
    }

    async fn prepare_guarded(
        &mut self,
        statement: &ParsedStatement,
        param_oids: &[u32],
    ) -> Result<Arc<Prepared>, SqlError> {
        query_run::guard(pin!(self.prepare_inner(statement, param_oids))).await
    }

    async fn prepare_inner(
        &mut self,
        statement: &ParsedStatement,
        param_oids: &[u32],
    ) -> Result<Arc<Prepared>, SqlError> {
        self.refuse_if_failed(&statement.command)?;
        if !self.settings.hot().plan_cache {
            return crate::bind::prepare(self, statement, param_oids).await.map(Arc::new);
        }
        if let Some(known) = self.cache.prepared(statement, param_oids)
            && crate::bind::still_good(known, self.db.catalog(), &self.settings)
            && self.sees_newest_catalog()
        {
            return Ok(known.clone());
        }
        let prepared = crate::bind::prepare(self, statement, param_oids).await.map(Arc::new)?;
        self.cache.keep_prepared(&prepared, param_oids);
        Ok(prepared)
    }

    /// Whether this thread serves nobody else now: then it may wait for the disk by itself.
    pub fn set_alone(&mut self, alone: bool) {
        self.alone = alone;
    }

    /// Whether an implicit transaction ends after the statement that is to run next.
    pub fn set_last(&mut self, is_last: bool) {
        self.is_last = is_last;
    }

    /// Runs a bound statement with values for its parameters.
    pub async fn run(
        &mut self,
        prepared: &Arc<Prepared>,
        params: Vec<Value>,
    ) -> Result<Outcome, SqlError> {
        self.take_set();
        let zone = self.zone();
        self.begin_activity(&prepared.statement.sql)?;
        if let Err(e) = self.refuse_if_failed(&prepared.statement.command) {
            return Err(self.failed(e));
        }
        let outcome = zone::scope(zone, pin!(self.run_guarded(prepared, params))).await;
        outcome.map_err(|e| self.failed(parse::locate(&prepared.statement, e)))
    }

    /// A panic is an error of its statement, unless that ends transactions: then nobody knows how far it has come.
    async fn run_guarded(
        &mut self,
        prepared: &Arc<Prepared>,
        params: Vec<Value>,
    ) -> Result<Outcome, SqlError> {
        let is_control = prepared.statement.command.is_control();
        let run = crate::execute::run(self, prepared, params);
        match is_control {
            true => pin!(run).await,
            false => query_run::guard(pin!(run)).await,
        }
    }

    /// Prepares and runs one statement of a simple query.
    pub async fn simple(&mut self, statement: &ParsedStatement) -> Result<Outcome, SqlError> {
        let zone = self.zone();
        let outcome = zone::scope(zone, pin!(self.prepare_guarded(statement, &[]))).await;
        let prepared = outcome.map_err(|e| self.failed(parse::locate(statement, e)))?;
        if !prepared.params.is_empty() {
            let e = SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1");
            return Err(self.failed(e));
        }
        if self.cache.learns() {
            Box::pin(self.learn(statement, &prepared)).await;
        }
        self.undescribed = true;
        let outcome = self.run(&prepared, Vec::new()).await;
        self.undescribed = false;
        outcome
    }

    /// Rows of a result have been read, perhaps under the view of an earlier statement.
    pub fn note_read(&mut self, stream: &RowStream) {
        self.seen = self.seen.max(stream.seen());
    }

    /// The end of a simple message or a Sync: commits, durably, or aborts what was implicit.
    pub async fn finish_implicit(&mut self, ok: bool) -> Result<(), SqlError> {
        if ok && let Some(outcome) = self.finish_implicit_at_once() {
            return outcome;
        }
        self.take_set();
        let outcome = match (self.block, ok) {
            (Block::Implicit, true) => pin!(self.commit_transaction()).await,
            (Block::Implicit, false) => {
                self.abort_transaction();
                Ok(())
            }
            (Block::Idle | Block::Explicit | Block::Failed, _) => Ok(()),
        };
        self.end_activity();
        outcome.map_err(|e| self.for_the_user(e))
    }

    /// An error that this crate did not see (a malformed Bind, a failed stream).
    pub fn note_failure(&mut self) {
        if self.block == Block::Explicit {
            self.fail_transaction();
        }
    }

    /// An error that ends a statement, and its transaction with it.
    pub fn failed(&mut self, error: SqlError) -> SqlError {
        self.note_failure();
        let error = self.for_the_user(error);
        match error.state == SqlState::OUT_OF_MEMORY && error.hint.is_none() {
            true => held_back::explain(&self.db, error),
            false => error,
        }
    }

    /// An error without the values that the user may not read.
    fn for_the_user(&self, mut error: SqlError) -> SqlError {
        let Some(shown) = error.shows.take() else { return error };
        let catalog = self.db.catalog().latest();
        let who = Who::named(&catalog, &self.state.user());
        let access = catalog.access(PG_CLASS, shown.table);
        let may_read = who.on_relation(shown.table) & bits::SELECT != 0
            || shown.columns.iter().all(|id| who.on_column(access, *id) & bits::SELECT != 0);
        // Nobody else knows of a table that the transaction has made itself.
        let is_known = catalog.tables.contains_key(&shown.table);
        if !who.superuser && is_known && !may_read {
            error.detail = shown.without;
        }
        error
    }

    fn refuse_if_failed(&self, command: &Command) -> Result<(), SqlError> {
        match command.ends_failure() || matches!(command, Command::Empty) {
            true => Ok(()),
            false => self.refuse_in_failed(),
        }
    }

    /// 25P02 in a transaction that has failed.
    pub(crate) fn refuse_in_failed(&self) -> Result<(), SqlError> {
        if self.block != Block::Failed {
            return Ok(());
        }
        Err(SqlError::new(
            SqlState::IN_FAILED_SQL_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        ))
    }

    /// What limits a statement that begins now.
    pub(crate) fn limits(&self) -> Limits {
        let hot = self.settings.hot();
        let timeout = hot.statement_timeout.filter(|_| !self.unlimited);
        Limits {
            lock_timeout: hot.lock_timeout,
            deadline: timeout.map(|timeout| Instant::now() + timeout),
            cancel: self.shared.cancel.clone(),
        }
    }

    pub(crate) fn notice(
        &mut self,
        severity: &'static str,
        state: SqlState,
        message: impl Into<String>,
    ) {
        self.notices.push(Notice::new(severity, state, message));
    }

    /// Refuses if the session is to end.
    pub(crate) fn begin_activity(&mut self, query: &Arc<str>) -> Result<(), SqlError> {
        self.shared.cancel.rearm();
        self.shared.cancel.check()?;
        let now = SystemTime::now();
        let mut visible = self.shared.visible.lock();
        if !Arc::ptr_eq(&visible.query, query) {
            visible.query = query.clone();
        }
        visible.activity = Activity::Active;
        visible.query_start = Some(now);
        visible.state_change = now;
        drop(visible);
        self.state.begin_statement(now);
        Ok(())
    }

    pub(crate) fn end_activity(&mut self) {
        self.state.end_statement();
        let activity = match self.block {
            Block::Idle | Block::Implicit => Activity::Idle,
            Block::Explicit => Activity::IdleInTransaction,
            Block::Failed => Activity::IdleInFailedTransaction,
        };
        let mut visible = self.shared.visible.lock();
        visible.activity = activity;
        visible.state_change = SystemTime::now();
    }

    /// Takes over what functions have set.
    pub(crate) fn take_set(&mut self) {
        for (name, value, local) in self.state.take_set() {
            // The function has checked it.
            let _ = match roles::is_identity(&name) {
                true => self.set_identity(&name, Some(&value), local),
                false => self.settings.set(&name, Some(&value), local),
            };
        }
    }

    /// Others see the session's new application name.
    pub(crate) fn publish_settings(&mut self) {
        let mut visible = self.shared.visible.lock();
        if visible.application_name != self.settings.application_name() {
            self.settings.application_name().clone_into(&mut visible.application_name);
        }
        drop(visible);
        self.state.set_settings(&self.settings);
    }
}

/// A text that is longer may take longer to parse than others of its loop should wait.
const LONG_TO_PARSE_BYTES: usize = 16 << 10;

fn split_text(text: &str, notices: &mut Vec<Notice>) -> Result<Vec<ParsedStatement>, SqlError> {
    match text.len() > LONG_TO_PARSE_BYTES {
        true => aside(|| parse::split(text, notices)),
        false => parse::split(text, notices),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.cursors = Cursors::default();
        self.txn = None;
        // A portal or a query that somebody still holds keeps the state, and nothing of what the transaction had.
        self.state.end_transaction();
        self.state.drop_all_locks();
        self.db.forget(&self.shared);
        if let Some(schema) = self.settings.temporary_schema() {
            self.db.drop_temporary(schema);
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({}, {:?})", self.shared.pid, self.block)
    }
}
