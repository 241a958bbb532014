//! What functions see of their session: the time, the user, its settings and sequences.
//!
//! Expressions outlive the statement's borrow of the session (a portal may be suspended), so this
//! part of it is shared. What a function changes in it (`set_config`) the session takes over when
//! it is next asked for anything.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::execution::runtime_env::RuntimeEnv;
use froglet_engine::{BlockCounts, EngineFigures, IdMap, Lsn, Snapshot, SpaceId, SqlState, TxnId};
use froglet_schema::access::PG_CLASS;
use froglet_schema::{
    CatalogVersion, Control, MigrationStatus, ObjectId, SchemaChange, SequenceDef,
};
use froglet_txn::{AdvisoryKey, AdvisoryLock, AdvisoryMode, CancelReason, Limits};
use parking_lot::{Mutex, MutexGuard};

use crate::advisory::{Lasts, Owners};
use crate::context::{ActivityRow, CursorRow, PreparedRow, SessionFunctions, SettingRow};
use crate::copy::progress::CopyRow;
use crate::database::{Database, Ends, SessionShared};
use crate::error::{Notice, SqlError};
use crate::exported::ExportedView;
use crate::notify::Said;
use crate::plan::read_only;
use crate::prepared::Named;
use crate::privileges::{self, Kind, Who, bits};
use crate::query::account::Meter;
use crate::roles;
use crate::session::held_back::HeldBackRow;
use crate::settings::{SESSION_AUTHORIZATION, Settings};
use crate::stored::default_kind;
use crate::temporary::is_temporary;
use crate::types::Zone;
use crate::write::table_locks::TableLockRow;

/// A setting that a function has set: name, value, local.
pub(crate) type SetByFunction = (String, String, bool);

/// The shared part of a session.
pub struct SessionState {
    db: Arc<Database>,
    shared: Arc<SessionShared>,
    inner: Mutex<Inner>,
    owners: Mutex<Owners>,
    said: Said,
    /// Where the log must be durable before the client is told of what sequences have given, or where they stand.
    rests_on: AtomicU64,
    meter: Meter,
    /// The session's statements, for pg_prepared_statements.
    named: Mutex<IdMap<String, Arc<Named>>>,
}

struct Inner {
    settings: Settings,
    set: Vec<SetByFunction>,
    transaction_id: u64,
    transaction_start: Option<SystemTime>,
    statement_start: SystemTime,
    catalog: Arc<CatalogVersion>,
    limits: Limits,
    /// Sequence id → the last value given here.
    given: HashMap<ObjectId, i64>,
    last_given: Option<ObjectId>,
    allowed: Allowed,
    notices: Vec<Notice>,
    cursors: Vec<CursorRow>,
    /// Whether the transaction writes nothing.
    read_only: bool,
    /// Snapshots that the transaction has exported.
    exported: Vec<ExportedView>,
}

/// Whether a sequence is an identity column's of a table that somebody may insert into.
fn inserts_identity(who: &Who<'_>, catalog: &CatalogVersion, sequence: ObjectId) -> bool {
    let owner = catalog.sequences.get(&sequence).and_then(|sequence| sequence.owned_by);
    let Some((table, column)) = owner else { return false };
    let def = catalog.tables.get(&table).and_then(|table| table.def.column_by_id(column));
    let identity = def.is_some_and(|def| default_kind(def).is_identity());
    let access = catalog.access(PG_CLASS, table);
    let of_columns = access.iter().flat_map(|access| &access.columns);
    identity
        && (who.on_relation(table) & bits::INSERT != 0
            || of_columns.into_iter().any(|(id, _)| who.on_column(access, *id) & bits::INSERT != 0))
}

/// What a user may do with a sequence; 42501 if that is none of these.
pub(crate) fn may_use(
    catalog: &CatalogVersion,
    user: &str,
    sequence: ObjectId,
    privilege: u16,
) -> Result<u16, SqlError> {
    let who = Who::named(catalog, user);
    let mut given = who.privileges(Kind::Sequence, sequence);
    if given & privilege == 0 && inserts_identity(&who, catalog, sequence) {
        // Who inserts rows need not ask for the numbers that they get.
        given |= bits::USAGE;
    }
    if given & privilege == 0 {
        let (what, name) = privileges::called(catalog, sequence);
        return Err(privileges::no_privilege(what, &name));
    }
    Ok(given)
}

/// What a user may do with sequences under a catalog version, as far as it was asked.
#[derive(Default)]
struct Allowed {
    stamp: u64,
    user: Arc<str>,
    sequences: HashMap<ObjectId, u16>,
}

impl SessionState {
    pub(crate) fn new(
        db: &Arc<Database>,
        shared: &Arc<SessionShared>,
        settings: &Settings,
    ) -> SessionState {
        SessionState {
            db: db.clone(),
            shared: shared.clone(),
            inner: Mutex::new(Inner {
                settings: settings.clone(),
                set: Vec::new(),
                transaction_id: 0,
                transaction_start: None,
                statement_start: SystemTime::now(),
                catalog: Arc::default(),
                limits: Limits::none(),
                given: HashMap::new(),
                last_given: None,
                allowed: Allowed::default(),
                notices: Vec::new(),
                cursors: Vec::new(),
                read_only: false,
                exported: Vec::new(),
            }),
            owners: Mutex::default(),
            said: Said::default(),
            rests_on: AtomicU64::new(0),
            meter: Meter::new(db.manager().engine().clone()),
            named: Mutex::default(),
        }
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.db
    }

    pub(crate) fn shared(&self) -> &Arc<SessionShared> {
        &self.shared
    }

    /// Of advisory locks.
    pub(crate) fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock()
    }

    pub(crate) fn named(&self) -> MutexGuard<'_, IdMap<String, Arc<Named>>> {
        self.named.lock()
    }

    /// The client is told nothing more until the log is durable up to here.
    pub(crate) fn rest_on(&self, noted: Lsn) {
        self.rests_on.fetch_max(noted.0, Ordering::Relaxed);
    }

    pub(crate) fn rests_on(&self) -> Lsn {
        Lsn(self.rests_on.load(Ordering::Relaxed))
    }

    /// What the transaction notifies of.
    pub(crate) fn said(&self) -> &Said {
        &self.said
    }

    /// The transaction under way, and what limits its waits.
    pub(crate) fn waiter(&self) -> (TxnId, Limits) {
        let inner = self.inner.lock();
        (TxnId(inner.transaction_id), inner.limits.clone())
    }

    pub(crate) fn begin_transaction(&self) {
        let mut inner = self.inner.lock();
        inner.transaction_start = Some(inner.statement_start);
    }

    pub(crate) fn end_transaction(&self) {
        self.inner.lock().transaction_start = None;
        self.take_back_exported();
    }

    /// What the transaction has exported nobody takes any more.
    pub(crate) fn take_back_exported(&self) {
        let exported = std::mem::take(&mut self.inner.lock().exported);
        drop(exported);
    }

    /// The statement is over, and all that planning has computed for it.
    pub(crate) fn end_statement(&self) {
        self.meter.end_statement();
    }

    /// What the statement has done is undone.
    pub(crate) fn end_attempt(&self) {
        self.meter.end_attempt();
    }

    /// What functions of the statement that begins now see.
    pub(crate) fn begin_statement(&self, now: SystemTime) {
        self.inner.lock().statement_start = now;
    }

    pub(crate) fn set_catalog(&self, catalog: &Arc<CatalogVersion>, txn: u64, limits: &Limits) {
        let mut inner = self.inner.lock();
        if !Arc::ptr_eq(&inner.catalog, catalog) {
            inner.catalog = catalog.clone();
        }
        inner.transaction_id = txn;
        inner.limits = limits.clone();
    }

    /// Functions that are looked at while a statement is planned see this catalog.
    pub(crate) fn set_planning(&self, catalog: &Arc<CatalogVersion>) {
        let mut inner = self.inner.lock();
        if !Arc::ptr_eq(&inner.catalog, catalog) {
            inner.catalog = catalog.clone();
        }
    }

    /// The catalog of the statement under way.
    pub(crate) fn catalog_now(&self) -> Arc<CatalogVersion> {
        self.inner.lock().catalog.clone()
    }

    /// Whether statements read a time gone by.
    pub(crate) fn reads_past(&self) -> bool {
        self.inner.lock().settings.hot().as_of.is_some()
    }

    /// 42501 if the user may not do this with a sequence. It is asked once for a catalog version.
    fn check_sequence(&self, id: ObjectId, privilege: u16) -> Result<(), SqlError> {
        let (catalog, user) = {
            let mut inner = self.inner.lock();
            let user = inner.settings.hot().user.clone();
            let stamp = inner.catalog.stamp;
            if inner.allowed.stamp != stamp || inner.allowed.user != user {
                inner.allowed = Allowed { stamp, user: user.clone(), sequences: HashMap::new() };
            }
            if inner.allowed.sequences.get(&id).is_some_and(|known| known & privilege != 0) {
                return Ok(());
            }
            (inner.catalog.clone(), user)
        };
        let given = may_use(&catalog, &user, id, privilege)?;
        self.inner.lock().allowed.sequences.insert(id, given);
        Ok(())
    }

    /// Sequences have no past, and are not to be written from there, nor where nothing is to be written; but for a
    /// session's own.
    fn refuse_to_write(&self, what: &str, sequence: &SequenceDef) -> Result<(), SqlError> {
        let inner = self.inner.lock();
        let is_own = is_temporary(&sequence.schema);
        match inner.settings.hot().as_of.is_some() || inner.read_only && !is_own {
            true => Err(read_only(what)),
            false => Ok(()),
        }
    }

    pub(crate) fn set_read_only(&self, read_only: bool) {
        self.inner.lock().read_only = read_only;
    }

    pub(crate) fn set_settings(&self, settings: &Settings) {
        self.inner.lock().settings = settings.clone();
    }

    pub(crate) fn set_cursors(&self, cursors: Vec<CursorRow>) {
        self.inner.lock().cursors = cursors;
    }

    pub(crate) fn take_set(&self) -> Vec<SetByFunction> {
        std::mem::take(&mut self.inner.lock().set)
    }

    pub(crate) fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.inner.lock().notices)
    }

    pub(crate) fn forget_sequences(&self) {
        let mut inner = self.inner.lock();
        inner.given.clear();
        inner.last_given = None;
    }

    fn sequence(&self, id: ObjectId) -> Result<Arc<SequenceDef>, SqlError> {
        self.inner.lock().catalog.sequences.get(&id).cloned().ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("sequence {id} does not exist"))
        })
    }
}

fn micros(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |us| -us),
    }
}

impl SessionFunctions for SessionState {
    fn export_snapshot(&self, view: &Arc<Snapshot>) -> Result<String, SqlError> {
        let mut inner = self.inner.lock();
        let exported = self.db.exported.add(inner.transaction_id, view);
        let name = exported.name().to_owned();
        inner.exported.push(exported);
        Ok(name)
    }

    fn user(&self) -> String {
        let inner = self.inner.lock();
        match inner.settings.get("role") {
            roles::NO_ROLE => inner.settings.get(SESSION_AUTHORIZATION).to_owned(),
            role => role.to_owned(),
        }
    }

    fn is_superuser(&self) -> bool {
        self.db.catalog().latest().role(&self.user()).is_some_and(|role| role.superuser)
    }

    fn session_user(&self) -> String {
        self.inner.lock().settings.get(SESSION_AUTHORIZATION).to_owned()
    }

    fn ends(&self) -> Ends {
        self.shared.ends
    }

    fn backend_pid(&self) -> i32 {
        self.shared.pid
    }

    fn search_path(&self) -> Vec<String> {
        self.inner.lock().settings.hot().search_path.to_vec()
    }

    fn setting(&self, name: &str) -> Option<String> {
        self.inner.lock().settings.show(name).ok().map(|(_, value)| value.to_owned())
    }

    fn set_setting(&self, name: &str, value: &str, local: bool) -> Result<String, SqlError> {
        let mut inner = self.inner.lock();
        if roles::is_identity(name) {
            let Inner { settings, catalog, .. } = &mut *inner;
            roles::set_identity(settings, catalog, &self.shared.user, name, Some(value), local)?;
        } else {
            inner.settings.set(name, Some(value), local)?;
        }
        inner.set.push((name.to_owned(), value.to_owned(), local));
        let (_, value) = inner.settings.show(name)?;
        Ok(value.to_owned())
    }

    fn settings(&self) -> Vec<SettingRow> {
        self.inner.lock().settings.rows()
    }

    fn cursors(&self) -> Vec<CursorRow> {
        self.inner.lock().cursors.clone()
    }

    fn prepared_statements(&self) -> Vec<PreparedRow> {
        let mut rows: Vec<PreparedRow> =
            self.named().iter().map(|(name, named)| named.row(name)).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    }

    fn zone(&self) -> Zone {
        self.inner.lock().settings.hot().zone
    }

    fn activity(&self) -> Vec<ActivityRow> {
        let (is_superuser, me) = (self.is_superuser(), self.user());
        self.db
            .sessions()
            .into_iter()
            .map(|info| ActivityRow {
                query: match is_superuser || info.user == me {
                    true => info.query.to_string(),
                    false => "<insufficient privilege>".to_owned(),
                },
                pid: info.pid,
                user: info.user,
                application: info.application_name,
                client: info.ends.client.map(|client| client.ip().to_canonical().to_string()),
                port: info.ends.client.map(|client| client.port().into()),
                backend_start_us: micros(info.connected),
                transaction_start_us: None,
                query_start_us: info.query_start.map(micros),
                state: info.activity.as_str().to_owned(),
                state_change_us: micros(info.state_change),
                wait: info.waits.then_some(match info.waits_for_advisory {
                    true => ("Lock", "advisory"),
                    false => ("Lock", "transactionid"),
                }),
                waits_for: info.waits_for,
            })
            .collect()
    }

    fn copies(&self) -> Vec<CopyRow> {
        self.db.copies()
    }

    fn transaction_time_us(&self) -> i64 {
        let inner = self.inner.lock();
        micros(inner.transaction_start.unwrap_or(inner.statement_start))
    }

    fn statement_time_us(&self) -> i64 {
        micros(self.inner.lock().statement_start)
    }

    fn transaction_id(&self) -> u64 {
        self.inner.lock().transaction_id
    }

    fn server_start_us(&self) -> i64 {
        micros(self.db.started())
    }

    fn catalog(&self) -> Arc<CatalogVersion> {
        self.inner.lock().catalog.clone()
    }

    fn next_value(&self, sequence: ObjectId) -> Result<i64, SqlError> {
        let def = self.sequence(sequence)?;
        self.refuse_to_write("nextval()", &def)?;
        self.set_may_restart(false);
        self.check_sequence(sequence, bits::USAGE | bits::UPDATE)?;
        let (value, noted) = self.db.catalog().next_value(&def)?;
        self.rest_on(noted);
        let mut inner = self.inner.lock();
        inner.given.insert(sequence, value);
        inner.last_given = Some(sequence);
        Ok(value)
    }

    fn draw(&self, sequence: &SequenceDef, txn: u64) -> Result<i64, SqlError> {
        let catalog = self.db.catalog();
        let latest = catalog.latest();
        let today = latest.sequences.get(&sequence.id);
        let (value, noted) = catalog.next_value(today.map_or(sequence, |def| def))?;
        self.rest_on(noted);
        let mut inner = self.inner.lock();
        if inner.transaction_id == txn {
            inner.given.insert(sequence.id, value);
            inner.last_given = Some(sequence.id);
        }
        Ok(value)
    }

    fn current_value(&self, sequence: ObjectId) -> Result<i64, SqlError> {
        let def = self.sequence(sequence)?;
        self.check_sequence(sequence, bits::USAGE | bits::SELECT)?;
        self.inner.lock().given.get(&sequence).copied().ok_or_else(|| {
            SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("currval of sequence \"{}\" is not yet defined in this session", def.name),
            )
        })
    }

    fn last_value(&self) -> Result<i64, SqlError> {
        let last = self.inner.lock().last_given;
        if let Some(id) = last {
            self.check_sequence(id, bits::USAGE | bits::SELECT)?;
        }
        let inner = self.inner.lock();
        inner.last_given.and_then(|id| inner.given.get(&id).copied()).ok_or_else(|| {
            SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "lastval is not yet defined in this session",
            )
        })
    }

    fn set_value(&self, sequence: ObjectId, value: i64, called: bool) -> Result<(), SqlError> {
        let def = self.sequence(sequence)?;
        self.refuse_to_write("setval()", &def)?;
        self.set_may_restart(false);
        self.check_sequence(sequence, bits::UPDATE)?;
        if !(def.min..=def.max).contains(&value) {
            return Err(SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                format!(
                    "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
                    def.name, def.min, def.max
                ),
            ));
        }
        self.rest_on(self.db.catalog().set_value(&def, value, called)?);
        if called {
            let mut inner = self.inner.lock();
            inner.given.insert(sequence, value);
        }
        Ok(())
    }

    fn engines(&self) -> Vec<EngineFigures> {
        self.db.manager().engine().figures()
    }

    fn memory(&self) -> (u64, u64) {
        self.db.manager().engine().memory()
    }

    fn block_counts(&self, space: SpaceId) -> BlockCounts {
        self.db.manager().engine().block_counts(space)
    }

    fn sequence_state(&self, sequence: ObjectId) -> Option<(i64, bool)> {
        let def = self.sequence(sequence).ok()?;
        let state = self.db.catalog().sequence_state(&def);
        self.rest_on(state.noted);
        Some((state.value, state.is_called))
    }

    fn meter(&self) -> Option<&Meter> {
        Some(&self.meter)
    }

    fn environment(&self) -> Option<Arc<RuntimeEnv>> {
        Some(self.db.environment().clone())
    }

    fn held_back(&self) -> Vec<HeldBackRow> {
        self.db.held_back()
    }

    fn migrations(&self) -> Vec<MigrationStatus> {
        self.db.catalog().migrations()
    }

    fn last_of_sequence(&self, sequence: &SequenceDef) -> Option<i64> {
        let state = self.db.catalog().sequence_state(sequence);
        self.rest_on(state.noted);
        state.is_called.then_some(state.value)
    }

    fn schema_changes(&self) -> Vec<Arc<SchemaChange>> {
        self.db.catalog().schema_changes()
    }

    fn signal_backend(&self, pid: i32, terminate: bool) -> Result<bool, SqlError> {
        self.set_may_restart(false);
        self.may_signal(pid, terminate)?;
        let reason = if terminate { CancelReason::Shutdown } else { CancelReason::User };
        Ok(self.db.signal(pid, reason))
    }

    fn control_migration(&self, id: u64, control: Control) -> Result<bool, SqlError> {
        self.set_may_restart(false);
        if !self.is_superuser() {
            return Err(roles::denied("must be superuser to control a schema change"));
        }
        Ok(self.db.catalog().control_migration(id, control)?)
    }

    fn lock_advisory(
        &self,
        key: AdvisoryKey,
        mode: AdvisoryMode,
        lasts: Lasts,
        wait: bool,
    ) -> Result<bool, SqlError> {
        self.take_advisory(key, mode, lasts, wait)
    }

    fn unlock_advisory(&self, key: AdvisoryKey, mode: AdvisoryMode) -> bool {
        self.drop_advisory(key, mode)
    }

    fn unlock_all_advisory(&self) {
        self.drop_session_locks();
    }

    fn table_locks(&self) -> Vec<TableLockRow> {
        self.all_table_locks()
    }

    fn advisory_locks(&self) -> Vec<AdvisoryLock> {
        self.all_advisory()
    }

    fn notify(&self, channel: &str, payload: &str) -> Result<(), SqlError> {
        self.set_may_restart(false);
        self.said.notify(self.shared.pid, channel, payload)
    }

    fn listening_channels(&self) -> Vec<String> {
        self.db.channels.of(self.shared.pid).into_iter().collect()
    }

    fn warn(&self, message: String) {
        self.inner.lock().notices.push(Notice::new("WARNING", SqlState::WARNING, message));
    }

    fn check_limits(&self) -> Result<(), SqlError> {
        let limits = self.inner.lock().limits.clone();
        limits.check().map_err(SqlError::from)
    }
}
