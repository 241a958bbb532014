//! What expressions see beside their rows: parameter values and the session.
//!
//! Compiled expressions are shared (a table version's checks and defaults by every session, a
//! prepared plan by every execution), so neither is baked in. [`EvalContext`] is put in place for
//! the evaluating thread around each evaluation; a query, which DataFusion may poll on any thread
//! of its runtime, carries its session in the configuration instead ([`SessionRef`]).

use std::cell::RefCell;
use std::sync::{Arc, LazyLock, OnceLock};

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::execution::runtime_env::RuntimeEnv;
use froglet_engine::{BlockCounts, ColumnType, EngineFigures, Snapshot, SpaceId, Value};
use froglet_schema::{
    CatalogVersion, Control, MigrationStatus, ObjectId, SchemaChange, SequenceDef, SqlType,
};

use froglet_txn::{AdvisoryKey, AdvisoryLock, AdvisoryMode};

use crate::advisory::Lasts;
use crate::copy::progress::CopyRow;
use crate::database::Ends;
use crate::error::SqlError;
use crate::query::account::Meter;
use crate::session::held_back::HeldBackRow;
use crate::types::{self, Zone};
use crate::write::table_locks::TableLockRow;

/// One row of pg_settings.
#[derive(Clone, Debug, Default)]
pub struct SettingRow {
    /// name
    pub name: String,
    /// setting
    pub value: String,
    /// unit
    pub unit: Option<String>,
    /// category
    pub category: String,
    /// short_desc
    pub description: String,
    /// context: user, postmaster, internal
    pub context: String,
    /// vartype: bool, integer, real, string, enum
    pub kind: String,
    /// source
    pub source: String,
    /// min_val
    pub min: Option<String>,
    /// max_val
    pub max: Option<String>,
    /// enumvals
    pub values: Option<Vec<String>>,
    /// boot_val
    pub boot: Option<String>,
    /// reset_val
    pub reset: Option<String>,
}

/// One row of pg_stat_activity.
#[derive(Clone, Debug, Default)]
pub struct ActivityRow {
    /// pid
    pub pid: i32,
    /// usename
    pub user: String,
    /// application_name
    pub application: String,
    /// client_addr, as text
    pub client: Option<String>,
    /// client_port
    pub port: Option<i32>,
    /// backend_start, microseconds since 1970
    pub backend_start_us: i64,
    /// xact_start
    pub transaction_start_us: Option<i64>,
    /// query_start
    pub query_start_us: Option<i64>,
    /// state_change
    pub state_change_us: i64,
    /// state: active, idle, idle in transaction, …
    pub state: String,
    /// wait_event_type and wait_event
    pub wait: Option<(&'static str, &'static str)>,
    /// pid of the session that it waits for
    pub waits_for: Option<i32>,
    /// query
    pub query: String,
}

/// One row of pg_cursors.
#[derive(Clone, Debug)]
pub struct CursorRow {
    /// name
    pub name: String,
    /// statement
    pub statement: String,
    /// is_holdable
    pub holdable: bool,
    /// is_binary
    pub binary: bool,
    /// is_scrollable
    pub scrollable: bool,
    /// creation_time
    /// In microseconds since 1970.
    pub created_us: i64,
}

/// One row of pg_prepared_statements.
#[derive(Clone, Debug)]
pub struct PreparedRow {
    /// name
    pub name: String,
    /// statement
    pub statement: String,
    /// prepare_time, in microseconds since 1970.
    pub prepared_us: i64,
    /// parameter_types
    pub parameters: Vec<u32>,
    /// from_sql
    pub from_sql: bool,
    /// generic_plans
    pub runs: u64,
}

/// What functions and system tables need from the session. Every method has a default, so that
/// expressions can be compiled and evaluated without a session (recovery, tests).
#[allow(missing_docs)] // the methods are what the functions of their names return
pub trait SessionFunctions: Send + Sync {
    fn user(&self) -> String {
        "postgres".to_owned()
    }
    /// Whether the user is a superuser, as of now.
    fn is_superuser(&self) -> bool {
        true
    }
    fn session_user(&self) -> String {
        self.user()
    }
    fn database(&self) -> String {
        "postgres".to_owned()
    }
    /// Between which addresses the session is.
    fn ends(&self) -> Ends {
        Ends::default()
    }
    fn backend_pid(&self) -> i32 {
        0
    }
    /// Schemas searched for a name without one, pg_catalog apart.
    fn search_path(&self) -> Vec<String> {
        vec!["public".to_owned()]
    }
    /// A setting's value as SHOW prints it; `None` if there is no such setting.
    fn setting(&self, name: &str) -> Option<String> {
        let _ = name;
        None
    }
    /// set_config: returns the new value.
    fn set_setting(&self, name: &str, value: &str, local: bool) -> Result<String, SqlError> {
        let _ = (name, value, local);
        Err(SqlError::unsupported("set_config without a session"))
    }
    fn settings(&self) -> Vec<SettingRow> {
        Vec::new()
    }
    /// The time zone that timestamps are read and printed in.
    fn zone(&self) -> Zone {
        Zone::current()
    }
    fn cursors(&self) -> Vec<CursorRow> {
        Vec::new()
    }
    fn prepared_statements(&self) -> Vec<PreparedRow> {
        Vec::new()
    }
    fn activity(&self) -> Vec<ActivityRow> {
        Vec::new()
    }
    /// How each engine is doing.
    fn engines(&self) -> Vec<EngineFigures> {
        Vec::new()
    }
    /// Bytes of memory in use, and their limit.
    fn memory(&self) -> (u64, u64) {
        (0, 0)
    }
    /// The state of a table's blocks.
    fn block_counts(&self, space: SpaceId) -> BlockCounts {
        let _ = space;
        BlockCounts::default()
    }
    fn copies(&self) -> Vec<CopyRow> {
        Vec::new()
    }
    /// now(): microseconds since 1970, the same in the whole transaction.
    fn transaction_time_us(&self) -> i64 {
        types::datetime::now_us()
    }
    fn statement_time_us(&self) -> i64 {
        types::datetime::now_us()
    }
    fn transaction_id(&self) -> u64 {
        0
    }
    fn server_start_us(&self) -> i64 {
        0
    }
    /// The catalog that the statement under way sees.
    fn catalog(&self) -> Arc<CatalogVersion> {
        Arc::new(CatalogVersion::default())
    }
    fn next_value(&self, sequence: ObjectId) -> Result<i64, SqlError> {
        let _ = sequence;
        Err(SqlError::unsupported("nextval without a session"))
    }
    /// The next value of a sequence that there was when a statement of transaction `txn` began, which was allowed
    /// to ask for it: also after the statement, whatever has become of the session and the sequence.
    fn draw(&self, sequence: &SequenceDef, txn: u64) -> Result<i64, SqlError> {
        let _ = txn;
        self.next_value(sequence.id)
    }
    fn current_value(&self, sequence: ObjectId) -> Result<i64, SqlError> {
        let _ = sequence;
        Err(SqlError::unsupported("currval without a session"))
    }
    fn last_value(&self) -> Result<i64, SqlError> {
        Err(SqlError::unsupported("lastval without a session"))
    }
    fn set_value(&self, sequence: ObjectId, value: i64, called: bool) -> Result<(), SqlError> {
        let _ = (sequence, value, called);
        Err(SqlError::unsupported("setval without a session"))
    }
    /// last_value and is_called of a sequence.
    fn sequence_state(&self, sequence: ObjectId) -> Option<(i64, bool)> {
        let _ = sequence;
        None
    }
    /// Where the memory of its queries is accounted for.
    fn meter(&self) -> Option<&Meter> {
        None
    }
    /// Where its queries run.
    fn environment(&self) -> Option<Arc<RuntimeEnv>> {
        None
    }
    /// Who keeps old versions from being collected.
    fn held_back(&self) -> Vec<HeldBackRow> {
        Vec::new()
    }
    fn migrations(&self) -> Vec<MigrationStatus> {
        Vec::new()
    }
    /// The last value that a sequence has given, which may be dropped.
    fn last_of_sequence(&self, sequence: &SequenceDef) -> Option<i64> {
        let _ = sequence;
        None
    }
    fn schema_changes(&self) -> Vec<Arc<SchemaChange>> {
        Vec::new()
    }
    /// pg_export_snapshot: the name under which other transactions take this view.
    fn export_snapshot(&self, view: &Arc<Snapshot>) -> Result<String, SqlError> {
        let _ = view;
        Err(SqlError::unsupported("pg_export_snapshot without a session"))
    }
    /// pg_cancel_backend, pg_terminate_backend: whether there was such a session.
    fn signal_backend(&self, pid: i32, terminate: bool) -> Result<bool, SqlError> {
        let _ = (pid, terminate);
        Ok(false)
    }
    /// Controls a migration under way; whether there is one of this number.
    fn control_migration(&self, id: u64, control: Control) -> Result<bool, SqlError> {
        let _ = (id, control);
        Ok(false)
    }
    /// Takes an advisory lock; whether it has it.
    fn lock_advisory(
        &self,
        key: AdvisoryKey,
        mode: AdvisoryMode,
        lasts: Lasts,
        wait: bool,
    ) -> Result<bool, SqlError> {
        let _ = (key, mode, lasts, wait);
        Err(SqlError::unsupported("an advisory lock without a session"))
    }
    /// Lets go of one of the session's own; whether it held it.
    fn unlock_advisory(&self, key: AdvisoryKey, mode: AdvisoryMode) -> bool {
        let _ = (key, mode);
        false
    }
    fn unlock_all_advisory(&self) {}
    /// Tables that sessions hold.
    fn table_locks(&self) -> Vec<TableLockRow> {
        Vec::new()
    }
    fn advisory_locks(&self) -> Vec<AdvisoryLock> {
        Vec::new()
    }
    /// pg_notify
    fn notify(&self, channel: &str, payload: &str) -> Result<(), SqlError> {
        let _ = (channel, payload);
        Err(SqlError::unsupported("pg_notify without a session"))
    }
    fn listening_channels(&self) -> Vec<String> {
        Vec::new()
    }
    /// A WARNING for the client.
    fn warn(&self, message: String) {
        let _ = message;
    }
    /// The error of a cancel request or of a limit passed. Long functions ask between steps.
    fn check_limits(&self) -> Result<(), SqlError> {
        Ok(())
    }
}

/// Nobody's session.
#[derive(Debug, Default)]
pub struct NoSession;

impl SessionFunctions for NoSession {}

/// What an evaluation sees beside its rows. Cheap to clone.
#[derive(Clone)]
pub struct EvalContext {
    params: Arc<Params>,
    /// The session.
    pub session: Arc<dyn SessionFunctions>,
    /// Its time zone when the statement began.
    pub zone: Zone,
}

/// Parameter values, `$1` first, and what Arrow makes of them when it is asked to.
#[derive(Default)]
struct Params {
    values: Vec<Value>,
    types: Arc<[SqlType]>,
    scalars: OnceLock<Result<Vec<ScalarValue>, SqlError>>,
}

impl EvalContext {
    /// Without parameters.
    pub fn new(session: Arc<dyn SessionFunctions>) -> EvalContext {
        static NO_PARAMS: LazyLock<Arc<Params>> = LazyLock::new(Arc::default);
        EvalContext { params: NO_PARAMS.clone(), zone: session.zone(), session }
    }

    /// With parameters of these types.
    pub fn with_params(
        session: Arc<dyn SessionFunctions>,
        values: Vec<Value>,
        types: &Arc<[SqlType]>,
    ) -> EvalContext {
        if values.is_empty() {
            return EvalContext::new(session);
        }
        let params = Params { values, types: types.clone(), scalars: OnceLock::new() };
        EvalContext { params: Arc::new(params), zone: session.zone(), session }
    }

    /// Without parameters or session.
    pub fn none() -> EvalContext {
        EvalContext::new(Arc::new(NoSession))
    }

    /// The parameters as they came.
    pub(crate) fn values(&self) -> &[Value] {
        &self.params.values
    }

    /// A parameter (from 0) as a value of this type.
    pub(crate) fn param(&self, index: usize, as_type: ColumnType) -> Result<Value, SqlError> {
        let Params { values, types, .. } = &*self.params;
        if let (Some(value), Some(ty)) = (values.get(index), types.get(index))
            && types::column_type_of(ty.oid, ty.modifier) == Some(as_type)
        {
            return Ok(value.clone());
        }
        types::value_of_scalar(self.scalar(index)?, as_type)
    }

    /// A parameter (from 0) of the Arrow type that expressions compute with.
    fn scalar(&self, index: usize) -> Result<&ScalarValue, SqlError> {
        let Params { values, types, scalars } = &*self.params;
        match scalars.get_or_init(|| bind_params(values, types)) {
            Err(e) => Err(e.clone()),
            Ok(scalars) => scalars.get(index).ok_or_else(|| {
                SqlError::new(
                    froglet_engine::SqlState::UNDEFINED_PARAMETER,
                    format!("there is no parameter ${}", index + 1),
                )
            }),
        }
    }

    /// The future, with this context in place wherever it is polled.
    pub(crate) fn within<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        let mut future = Box::pin(future);
        std::future::poll_fn(move |cx| self.enter(|| future.as_mut().poll(cx)))
    }

    /// Runs `f` with this context in place on this thread.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                CURRENT.with_borrow_mut(|stack| stack.pop());
            }
        }
        CURRENT.with_borrow_mut(|stack| stack.push(self.clone()));
        let _leave = Leave;
        self.zone.run(f)
    }
}

thread_local! {
    static CURRENT: RefCell<Vec<EvalContext>> = const { RefCell::new(Vec::new()) };
}

/// The value of a parameter (from 0) of the evaluation under way on this thread.
pub(crate) fn current_param(index: usize) -> Result<ScalarValue, DataFusionError> {
    CURRENT.with_borrow(|stack| match stack.last() {
        Some(context) => Ok(context.scalar(index)?.clone()),
        None => Ok(EvalContext::none().scalar(index)?.clone()),
    })
}

/// The session of what this thread plans or evaluates, if there is one.
pub(crate) fn session_here() -> Option<Arc<dyn SessionFunctions>> {
    CURRENT.with_borrow(|stack| stack.last().map(|context| context.session.clone()))
}

/// `quote_all_identifiers` of that session.
pub(crate) fn quotes_all() -> bool {
    session_here().and_then(|s| s.setting("quote_all_identifiers")).is_some_and(|v| v == "on")
}

/// The session of the evaluation under way: this thread's, or the configuration's.
pub(crate) fn current_session(options: &ConfigOptions) -> Arc<dyn SessionFunctions> {
    let here = CURRENT.with_borrow(|stack| stack.last().map(|c| c.session.clone()));
    here.or_else(|| options.extensions.get::<SessionRef>().map(|s| s.0.clone()))
        .unwrap_or_else(|| Arc::new(NoSession))
}

/// Values as scalars of the Arrow types that expressions compute with.
pub fn bind_params(values: &[Value], types: &[SqlType]) -> Result<Vec<ScalarValue>, SqlError> {
    values.iter().zip(types).map(|(value, ty)| bind_param(value, *ty)).collect()
}

fn bind_param(value: &Value, ty: SqlType) -> Result<ScalarValue, SqlError> {
    let column = types::column_type_of(ty.oid, ty.modifier).ok_or_else(|| {
        SqlError::unsupported(format!("a parameter of type {}", types::type_name(ty)))
    })?;
    let stored = types::arrow_of_column(column);
    if types::arrow_of(ty).is_none_or(|arrow| arrow == stored) {
        return Ok(types::scalar_of(value, column));
    }
    crate::semantics::casts::cast_scalar(&types::scalar_of(value, column), ty)
}

/// The session in DataFusion's configuration.
#[derive(Clone)]
pub struct SessionRef(pub Arc<dyn SessionFunctions>);

impl std::fmt::Debug for SessionRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionRef")
    }
}

impl ConfigExtension for SessionRef {
    const PREFIX: &'static str = "froglet_session";
}

impl ExtensionOptions for SessionRef {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<(), DataFusionError> {
        Err(DataFusionError::Configuration(format!("{key} is not a setting")))
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

impl From<SqlError> for DataFusionError {
    fn from(e: SqlError) -> DataFusionError {
        DataFusionError::External(Box::new(e))
    }
}
