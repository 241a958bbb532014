//! Where queries run: DataFusion's state, the second runtime, the channel back.
//!
//! A query runs on a runtime of its own, so that a heavy one cannot starve point statements. Its
//! batches come back through a short channel: a reader that stops reading stops the query, one
//! that goes away (a closed portal, a vanished client) ends it.

use std::any::Any;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::execution::context::SessionConfig;
use datafusion::execution::{
    SendableRecordBatchStream, SessionState, SessionStateBuilder, SessionStateDefaults, TaskContext,
};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use froglet_engine::{ReadFailed, SqlState};
use froglet_txn::Limits;
use futures::{FutureExt, Stream, StreamExt};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::context::SessionRef;
use crate::df_error::map_df_error;
use crate::error::SqlError;
use crate::in_order::in_order;
use crate::kept_order::KeepOrder;
use crate::once;
use crate::plan::mend::null_keys::NullKeys;
use crate::provider::QueryScope;
use crate::query::held_rows::{CountWindows, TableStrings};
use crate::query::index_join::{self, IndexJoins};
use crate::query::{QueryEnv, account};
use crate::stack;
use crate::subplan::ScopeRef;
use crate::types::zone::{self, Zone};

/// Batches between a query and its reader.
const CHANNEL_BATCHES: usize = 2;
/// What a sort that may have to spill asks for at its start.
const SPILL_BYTES: usize = 1 << 20;

/// The runtime of queries.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread()
            .thread_name("froglet-query")
            .worker_threads(std::thread::available_parallelism().map_or(2, |n| n.get()))
            .thread_stack_size(stack::STACK_BYTES)
            // Each session may wait for an advisory lock in one, and whoever lets it go needs one as well.
            .max_blocking_threads(1 << 14)
            .enable_all()
            .build()
            .expect("the query runtime's threads can be started")
    });
    &RUNTIME
}

fn config() -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(1)
        .with_batch_size(froglet_engine::id::ROWS_PER_BLOCK)
        .with_information_schema(false)
        .with_create_default_catalog_and_schema(false);
    let options = config.options_mut();
    options.execution.sort_spill_reservation_bytes = SPILL_BYTES;
    options.optimizer.hash_join_inlist_pushdown_max_distinct_values = index_join::KEYS_MAX;
    options.optimizer.hash_join_inlist_pushdown_max_size = index_join::KEY_BYTES_MAX;
    options.execution.time_zone = Some("+00:00".to_owned());
    options.execution.parquet.pushdown_filters = false;
    // Field metadata names SQL types; operators may drop it on the way, which changes nothing.
    options.execution.skip_physical_aggregate_schema_check = true;
    options.sql_parser.parse_float_as_decimal = true;
    // Whoever sorts a subquery, a view or a CTE sees its order, as in PostgreSQL.
    options.sql_parser.enable_subquery_sort_elimination = false;
    options.explain.show_statistics = false;
    config
}

/// The state all others are cloned from: rules and planners, no session.
pub fn template() -> &'static SessionState {
    static TEMPLATE: LazyLock<SessionState> = LazyLock::new(|| {
        stack::set_planner_room();
        SessionStateBuilder::new()
            .with_config(config())
            .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
            .with_optimizer_rules(logical_rules())
            .with_physical_optimizer_rules(physical_rules())
            .with_query_planner(Arc::new(once::Planner))
            .build()
    });
    &TEMPLATE
}

/// DataFusion's, and ours ([`NullKeys`]) before each that makes keys of a join.
fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let makes_keys =
        |name: &str| matches!(name, "extract_equijoin_predicate" | "eliminate_cross_join");
    let with_ours = |rule: Arc<dyn OptimizerRule + Send + Sync>| {
        let ours: Option<Arc<dyn OptimizerRule + Send + Sync>> =
            makes_keys(rule.name()).then(|| Arc::new(NullKeys) as _);
        ours.into_iter().chain([rule])
    };
    Optimizer::new().rules.into_iter().flat_map(with_ours).collect()
}

/// DataFusion's, but
/// - those that move filters: the logical plan's are where they can be, no scan here takes others, and a condition over
///   both sides of an outer join whose columns have one name was moved to one side;
/// - the one that answers aggregates from statistics: ours are never exact, and of an aggregate with FILTER over one of
///   no rows it answered the inner one.
///
/// And ours, [`KeepOrder`] before them, [`IndexJoins`] and [`CountWindows`] behind.
fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let is_left_out =
        |name: &str| name.starts_with("FilterPushdown") || name == "aggregate_statistics";
    let theirs = PhysicalOptimizer::new().rules.into_iter();
    let first: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(KeepOrder);
    let joins: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(IndexJoins);
    let last: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(CountWindows);
    let theirs = theirs.filter(|rule| !is_left_out(rule.name()));
    [first].into_iter().chain(theirs).chain([joins, last]).collect()
}

/// Configuration of a session.
pub fn options(env: &QueryEnv) -> Arc<ConfigOptions> {
    let mut options = ConfigOptions::clone(template().config_options());
    options.extensions.insert(SessionRef(env.session.clone()));
    Arc::new(options)
}

fn base_state(env: &QueryEnv) -> SessionState {
    let mut state = template().clone();
    let config = state.config_mut();
    config.options_mut().extensions.insert(SessionRef(env.session.clone()));
    config.options_mut().execution.target_partitions = env.target_partitions.max(1);
    state
}

/// The state of one run; without a scope it can read no table of the catalog.
pub fn state(env: &QueryEnv, scope: Option<QueryScope>) -> SessionState {
    let mut state = base_state(env);
    let once = scope.as_ref().map(|scope| scope.once.clone()).unwrap_or_default();
    state.config_mut().set_extension(Arc::new(once));
    if let Some(scope) = scope {
        state.config_mut().set_extension(Arc::new(TableStrings::default()));
        let scope = Arc::new(scope);
        state.config_mut().options_mut().extensions.insert(ScopeRef::new(scope.clone()));
        state.config_mut().set_extension(scope);
    }
    let options = state.config_options().clone();
    state.execution_props_mut().mark_start_execution(options);
    state
}

/// Analyses and optimises.
pub fn optimize(plan: LogicalPlan, env: &QueryEnv) -> Result<LogicalPlan, SqlError> {
    let mut state = base_state(env);
    let options = state.config_options().clone();
    state.execution_props_mut().mark_start_execution(options);
    account::folding(|| state.optimize(&plan)).map_err(map_df_error)
}

/// The physical plan of an optimised logical plan.
pub async fn physical(
    plan: &LogicalPlan,
    state: &SessionState,
) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
    let planned = state.query_planner().create_physical_plan(plan, state).await;
    planned.and_then(in_order).map_err(map_df_error)
}

/// The context a physical plan is executed in: on the account of its session's database.
pub fn task_context(state: &SessionState) -> Arc<TaskContext> {
    let session = state.config_options().extensions.get::<SessionRef>();
    let environment = session.and_then(|session| session.0.environment());
    Arc::new(TaskContext::new(
        None,
        state.session_id().to_owned(),
        state.config().clone(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        HashMap::new(),
        environment.unwrap_or_else(|| state.runtime_env().clone()),
    ))
}

/// Rows of a running query.
pub struct QueryStream {
    schema: SchemaRef,
    batches: mpsc::Receiver<Result<RecordBatch, SqlError>>,
}

impl QueryStream {
    /// The schema of its batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Stream for QueryStream {
    type Item = Result<RecordBatch, SqlError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_recv(cx)
    }
}

/// Starts a query.
pub fn spawn(
    plan: LogicalPlan,
    state: SessionState,
    schema: SchemaRef,
    limits: Limits,
) -> QueryStream {
    spawn_work(schema, limits, |sender| produce(plan, state, sender))
}

/// Starts one partition of a physical plan.
pub(crate) fn spawn_partition(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    partition: usize,
    schema: SchemaRef,
    limits: Limits,
) -> QueryStream {
    spawn_work(schema, limits, |sender| async move {
        forward(plan.execute(partition, context).map_err(map_df_error)?, sender).await
    })
}

type Sender = mpsc::Sender<Result<RecordBatch, SqlError>>;

fn spawn_work<W>(schema: SchemaRef, limits: Limits, work: impl FnOnce(Sender) -> W) -> QueryStream
where
    W: Future<Output = Result<(), SqlError>> + Send + 'static,
{
    let (sender, batches) = mpsc::channel(CHANNEL_BATCHES);
    let stream = QueryStream { schema, batches };
    let zone = Zone::current();
    let work = work(sender.clone());
    runtime().spawn(async move {
        let work = pin!(guard(work));
        let work = zone::scope(zone, work);
        let outcome = tokio::select! {
            biased;
            () = sender.closed() => return,
            e = limits.exceeded() => Err(SqlError::from(e)),
            outcome = work => outcome,
        };
        if let Err(e) = outcome {
            // The reader may be gone; then nobody wants to know.
            let _ = sender.send(Err(e)).await;
        }
    });
    stream
}

/// Runs a part of a query on this thread, whether that is one of a runtime or not. What it starts runs
/// on the queries' runtime.
pub fn here<T>(work: impl Future<Output = T>) -> T {
    let _queries = runtime().enter();
    // This thread's task does not give way before the work is done.
    futures::executor::block_on(tokio::task::unconstrained(work))
}

/// A panic is an error of the query, not the end of the server.
pub async fn guard<T>(work: impl Future<Output = Result<T, SqlError>>) -> Result<T, SqlError> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => Err(panicked(panic)),
    }
}

/// The error of a statement that has panicked.
pub fn panicked(panic: Box<dyn Any + Send>) -> SqlError {
    if panic.is::<ReadFailed>() {
        return ReadFailed::caught(panic).into();
    }
    let text = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic".to_owned());
    tracing::error!(panic = %text, "a statement panicked");
    SqlError::new(SqlState::INTERNAL_ERROR, format!("internal error: {text}"))
}

/// A read that ends in the middle is an error of its statement.
pub async fn read_to_the_end<T, E: From<SqlError>>(
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let outcome = AssertUnwindSafe(work).catch_unwind().await;
    outcome.unwrap_or_else(|panic| Err(E::from(ReadFailed::caught(panic).into())))
}

/// The same of work that can be done again: then there is no outcome.
pub fn read_or_none<T>(work: impl FnOnce() -> T) -> Option<T> {
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(work));
    outcome.map_err(|panic| drop(ReadFailed::caught(panic))).ok()
}

async fn produce(plan: LogicalPlan, state: SessionState, sender: Sender) -> Result<(), SqlError> {
    let physical = physical(&plan, &state).await?;
    let rows = execute_stream(physical, task_context(&state)).map_err(map_df_error)?;
    forward(rows, sender).await
}

async fn forward(mut rows: SendableRecordBatchStream, sender: Sender) -> Result<(), SqlError> {
    while let Some(batch) = rows.next().await {
        let batch = batch.map_err(map_df_error)?;
        if batch.num_rows() > 0 && sender.send(Ok(batch)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
