//! Running a prepared statement.
//!
//! ```text
//!   run ─┬─ about the session: SET, BEGIN, …         control.rs
//!        └─ begin_statement ─▶ catalog ─▶ plan ─▶ rows
//!              ▲                                   │
//!              └─────────── Stop::Restart ─────────┘  undo what it wrote, take a new view
//! ```

use std::pin::pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use froglet_engine::{SqlState, Value};
use froglet_txn::{Limits, Transaction, TxnError, aside_async};
use futures::StreamExt;

use crate::apply::{Stop, Writer};
use crate::columnar::{Convert, converted};
use crate::command::Command;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::lock_query::LockQueryPlan;
use crate::modify::Written;
use crate::plan::{Plan, read_only};
use crate::prepared::{CachedPlan, Field, Prepared};
use crate::query_run::read_to_the_end;
use crate::resolve::Names;
use crate::select::Found;
use crate::session::{Session, do_block, maintenance};
use crate::stream::{Outcome, RowStream, Tag, TagKind};
use crate::with_plan::{self, WithPlan};
use crate::write::table_locks::{self, Use};
use crate::{advisory, bind, control, copy, cursor, ddl_run, explain_run};

/// Restarts of one statement before it is told to give up.
const MAX_RESTARTS: u32 = 1000;

pub(crate) async fn run(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    params: Vec<Value>,
) -> Result<Outcome, SqlError> {
    let command = prepared.statement.command.clone();
    if command.is_control() {
        return pin!(control::run(session, &command, &prepared.statement.source)).await;
    }
    if params.len() != prepared.params.len() {
        return Err(SqlError::new(
            SqlState::PROTOCOL_VIOLATION,
            format!(
                "bind message supplies {} parameters, but prepared statement requires {}",
                params.len(),
                prepared.params.len()
            ),
        ));
    }
    match &*command {
        Command::Query(_)
        | Command::Insert(_)
        | Command::Update(_)
        | Command::Delete(_)
        | Command::Merge(_)
        | Command::With(_) => pin!(run_planned(session, prepared, params)).await,
        Command::Execute { name, arguments } => {
            let target = bind::named(session, name)?.to_run().clone();
            let params = control::arguments(session, name, &target, arguments)?;
            Box::pin(run(session, &target, params)).await
        }
        _ => {
            let other = run_other(session, prepared, &command, params);
            Box::pin(read_to_the_end(other)).await
        }
    }
}

/// What is not run often: its state would make that of every statement longer.
async fn run_other(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    command: &Command,
    params: Vec<Value>,
) -> Result<Outcome, SqlError> {
    match command {
        command if command.is_ddl() => {
            aside_async(pin!(ddl_run::run(session, prepared, &params))).await
        }
        Command::ExplainDdl(statement) => ddl_run::explain(session, statement).await,
        Command::Explain { options, statement } => {
            let explained = explain_run::explained(session, prepared, statement, params)?;
            explain_run::run(session, options.clone()?, explained).await
        }
        Command::Declare { name, options, .. } => {
            cursor::declare(session, prepared, name, options, params).await
        }
        Command::Fetch { name, direction, moves } => {
            cursor::fetch(session, prepared, name, *direction, *moves).await
        }
        Command::CloseCursor(name) => cursor::close(session, name.as_deref()),
        Command::Maintenance { tag, full, tables } => {
            aside_async(pin!(maintenance::run(session, tag, *full, tables))).await
        }
        Command::LockTable(lock) => session.lock_tables(lock).await,
        Command::Copy(statement) => copy::run(session, statement).await,
        Command::Do(block) => {
            do_block::run(session, block).await?;
            Ok(Outcome::Done(Tag::from("DO")))
        }
        _ => Err(SqlError::unsupported("this statement")),
    }
}

async fn run_planned(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    params: Vec<Value>,
) -> Result<Outcome, SqlError> {
    let writes = writes(&prepared.statement.command);
    if let (Some(what), true) = (writes, session.read_only) {
        return Err(read_only(what));
    }
    session.transaction()?;
    if let (Some(what), true) = (writes, session.read_only) {
        return Err(read_only(what));
    }
    let limits = session.limits();
    let context = EvalContext::with_params(session.state.clone(), params, &prepared.params);
    let mut restarts = 0;
    loop {
        let mark = session.mark(writes.is_some());
        let attempt = attempt(session, prepared, &context, writes.is_some(), &limits);
        let outcome = pin!(read_to_the_end(attempt)).await;
        match outcome {
            Ok(outcome) => return Ok(outcome),
            Err(Stop::Error(e)) if advisory::is_wait(&e) => {
                session.undo_statement(mark);
                Box::pin(session.wait_for_advisory(e, &limits)).await?;
                continue;
            }
            Err(Stop::Error(e)) if table_locks::is_waited(&e) => {
                session.undo_statement(mark);
                continue;
            }
            Err(Stop::Error(e)) if writes.is_some() && session.has_outgrown(&e) => {
                Box::pin(session.make_way(mark, e, &limits)).await?;
                continue;
            }
            Err(Stop::Error(e)) => return Err(e),
            Err(Stop::Restart) => {}
        }
        restarts += 1;
        Box::pin(session.restart(mark, restarts, &limits)).await?;
    }
}

/// What a statement does that a read-only transaction may not.
pub(crate) fn writes(command: &Command) -> Option<&'static str> {
    match command {
        Command::Insert(_) => Some("INSERT"),
        Command::Update(_) => Some("UPDATE"),
        Command::Delete(_) => Some("DELETE"),
        Command::Merge(_) => Some("MERGE"),
        Command::With(query) => Some(with_plan::name_of(query)),
        Command::Query(query) if !query.locks.is_empty() => Some("SELECT FOR UPDATE"),
        _ => None,
    }
}

/// Where a statement began.
pub(crate) struct StatementMark {
    rows: froglet_engine::Savepoint,
    catalog: froglet_schema::CatalogSavepoint,
}

impl Session {
    /// The tables that a statement uses, found once for each plan.
    pub(crate) fn uses_of<'c>(
        &self,
        prepared: &Prepared,
        cached: &'c CachedPlan,
        version: &Arc<froglet_schema::CatalogVersion>,
    ) -> &'c [Use] {
        cached.uses.get_or_init(|| {
            let path = &self.settings.hot().search_path;
            let names = Names { catalog: version, path };
            table_locks::uses_of(&names, &prepared.statement.command)
        })
    }

    pub(crate) fn mark(&self, writes: bool) -> Option<StatementMark> {
        let txn = self.txn.as_ref().filter(|_| writes)?;
        Some(StatementMark { rows: txn.savepoint(), catalog: self.db.catalog().savepoint(txn) })
    }

    /// Undoes what a statement has written, and lets go of the rows that it has gathered.
    pub(crate) fn undo_statement(&mut self, mark: Option<StatementMark>) {
        if let (Some(txn), Some(mark)) = (&mut self.txn, mark) {
            self.db.catalog().rollback_to(txn, &mark.catalog);
            txn.rollback_to(mark.rows);
        }
        self.state.end_attempt();
    }

    /// Undoes a statement that is to run again.
    pub(crate) async fn restart(
        &mut self,
        mark: Option<StatementMark>,
        restarts: u32,
        limits: &Limits,
    ) -> Result<(), SqlError> {
        limits.check()?;
        let writes = mark.is_some();
        self.undo_statement(mark);
        let keeps_view = |txn: &Transaction| txn.isolation().keeps_view();
        if writes && self.txn.as_ref().is_some_and(keeps_view) {
            return Err(TxnError::Serialization.into());
        }
        if restarts > MAX_RESTARTS {
            return Err(TxnError::Serialization.into());
        }
        tokio::task::yield_now().await;
        Ok(())
    }
}

async fn attempt(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    context: &EvalContext,
    writes: bool,
    limits: &Limits,
) -> Result<Outcome, Stop> {
    let db = session.db.clone();
    let catalog = db.catalog();
    let txn = session.txn.as_mut().expect("run_planned has begun it");
    let version = pin!(catalog.begin_statement(txn, writes, limits)).await?;
    let id = txn.id().0;
    session.state.set_catalog(&version, id, limits);
    let again;
    let (prepared, cached) = match bind::known_plan(session, prepared, &version) {
        Some(known) => (prepared, known),
        None if session.undescribed => {
            let bound = Box::pin(bind::bound_again(session, prepared, &version)).await?;
            again = bound.0;
            (&again, bound.1)
        }
        None => (prepared, Box::pin(bind::new_plan(session, prepared, &version)).await?),
    };
    if let Some(denied) = &cached.denied {
        return Err(Stop::Error((**denied).clone()));
    }
    let uses = session.uses_of(prepared, &cached, &version);
    if !session.state.enter_uses_at_once(uses) && Box::pin(session.enter_uses(uses, limits)).await?
    {
        return Err(table_locks::waited());
    }
    let outcome = match &cached.plan {
        Plan::Select(_) | Plan::Query(_) => {
            pin!(read(session, prepared, &cached, context, limits)).await
        }
        Plan::With(plan) => {
            let running = write_with(session, prepared, &cached, plan, context, limits, version);
            Box::pin(running).await
        }
        Plan::Locking(plan) => {
            let running = read_locking(session, prepared, &cached, plan, context, limits, version);
            Box::pin(running).await
        }
        Plan::Insert(_) | Plan::Update(_) | Plan::Delete(_) | Plan::Merge(_) => {
            pin!(write(session, prepared, &cached, context, limits, version)).await
        }
    };
    if let Some(txn) = &mut session.txn {
        catalog.end_statement(txn);
    }
    outcome
}

pub(crate) fn fields_of(prepared: &Prepared, cached: &CachedPlan) -> Arc<[Field]> {
    let fields = prepared.fields.as_ref().or(cached.plan.fields());
    fields.cloned().unwrap_or_else(|| Arc::from([]))
}

async fn read(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    cached: &Arc<CachedPlan>,
    context: &EvalContext,
    limits: &Limits,
) -> Result<Outcome, Stop> {
    let fields = fields_of(prepared, cached);
    match &cached.plan {
        Plan::Select(plan) => {
            let mut rows = if plan.locks() {
                let version = session.state.catalog_now();
                let mut writer = session.writer(version, limits, context)?;
                Box::pin(plan.run_locking(&mut writer)).await?
            } else {
                let txn = session.txn.as_mut().expect("run_planned has begun it");
                let snapshot = txn.snapshot();
                match plan.run(&snapshot, context, limits, crate::scan::MANY)? {
                    Found::Rows(rows) => rows,
                    Found::Many => {
                        return Box::pin(long_read(session, prepared, context, fields, limits))
                            .await;
                    }
                }
            };
            if let Some(conversion) = &cached.conversion {
                conversion.rows(&mut rows)?;
            }
            Ok(Outcome::Rows(RowStream::ready(fields, rows, TagKind::Select)))
        }
        Plan::Query(plan) => {
            let snapshot = session.txn.as_mut().expect("run_planned has begun it").snapshot();
            let convert = conversion_of(cached);
            let query = session.unstarted(plan, &snapshot, context.values(), convert.clone());
            if let Some(query) = query {
                return Ok(Outcome::Rows(RowStream::pinned(fields, query)));
            }
            let run = plan.run(&session.state, snapshot.clone(), context.values(), limits);
            let stream = match advisory::may_restart(&prepared.statement) {
                true => Box::pin(advisory::first_batch(&session.state, run, limits)).await?,
                false => Box::pin(run).await?,
            };
            let stream = converted(stream, convert);
            Ok(Outcome::Rows(RowStream::batches(fields, stream, snapshot, limits.clone())))
        }
        _ => Err(SqlError::unsupported("this statement").into()),
    }
}

/// A range that is too long to be a lookup goes to DataFusion after all.
async fn long_read(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    context: &EvalContext,
    fields: Arc<[Field]>,
    limits: &Limits,
) -> Result<Outcome, Stop> {
    let (command, params) = prepared.to_plan()?;
    let Command::Query(query) = &*command else {
        return Err(SqlError::unsupported("this statement").into());
    };
    let version = session.state.catalog_now();
    let path = session.settings.hot().search_path.clone();
    let mut planner = crate::plan::Planner {
        catalog: &version,
        path: &path,
        fast: false,
        session: &session.state,
        returned: Vec::new(),
    };
    let (plan, _) = crate::query_rows::QueryPlan::plan(&mut planner, query, params).await?;
    let today = crate::convert::origins(plan.fields(), &version);
    let conversion =
        crate::convert::Conversion::between(&fields, &prepared.origins, plan.fields(), &today)?;
    let snapshot = session.txn.as_mut().expect("run_planned has begun it").snapshot();
    let convert = conversion
        .map(|conversion| Arc::new(move |batch: RecordBatch| conversion.batch(&batch)) as Convert);
    if let Some(query) = session.unstarted(&plan, &snapshot, context.values(), convert.clone()) {
        return Ok(Outcome::Rows(RowStream::pinned(fields, query)));
    }
    let stream = plan.run(&session.state, snapshot.clone(), context.values(), limits).await?;
    Ok(Outcome::Rows(RowStream::batches(
        fields,
        converted(stream, convert),
        snapshot,
        limits.clone(),
    )))
}

/// What makes a plan's batches what was described.
fn conversion_of(cached: &Arc<CachedPlan>) -> Option<Convert> {
    cached.conversion.as_ref()?;
    let cached = cached.clone();
    Some(Arc::new(move |batch| match &cached.conversion {
        Some(conversion) => conversion.batch(&batch),
        None => Ok(batch),
    }))
}

async fn write(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    cached: &Arc<CachedPlan>,
    context: &EvalContext,
    limits: &Limits,
    version: Arc<froglet_schema::CatalogVersion>,
) -> Result<Outcome, Stop> {
    let mut writer = session.writer(version, limits, context)?;
    let (written, tag) = match &cached.plan {
        Plan::Insert(plan) => {
            let running = pin!(plan.run(&mut writer));
            let written = match plan.is_long() {
                true => aside_async(running).await?,
                false => running.await?,
            };
            (written, TagKind::Insert)
        }
        Plan::Update(plan) => (pin!(plan.run(&mut writer)).await?, TagKind::Update),
        Plan::Delete(plan) => (pin!(plan.run(&mut writer)).await?, TagKind::Delete),
        Plan::Merge(plan) => (Box::pin(plan.run(&mut writer)).await?, TagKind::Merge),
        _ => return Err(SqlError::unsupported("this statement").into()),
    };
    writer.check_keys().await?;
    outcome_of(prepared, cached, written, tag)
}

async fn write_with(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    cached: &Arc<CachedPlan>,
    plan: &WithPlan,
    context: &EvalContext,
    limits: &Limits,
    version: Arc<froglet_schema::CatalogVersion>,
) -> Result<Outcome, Stop> {
    let snapshot = session.txn.as_mut().expect("run_planned has begun it").snapshot();
    let mut writer = session.writer(version, limits, context)?;
    let done = plan.run(&mut writer).await?;
    writer.check_keys().await?;
    match done {
        with_plan::Done::Written(written, tag) => outcome_of(prepared, cached, written, tag),
        with_plan::Done::Batches(batches, tag) => {
            let stream = futures::stream::iter(batches.into_iter().map(Ok)).boxed();
            let stream = converted(stream, conversion_of(cached));
            let fields = fields_of(prepared, cached);
            let stream = RowStream::batches(fields, stream, snapshot, limits.clone());
            Ok(Outcome::Rows(stream.tagged(tag)))
        }
    }
}

async fn read_locking(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    cached: &Arc<CachedPlan>,
    plan: &LockQueryPlan,
    context: &EvalContext,
    limits: &Limits,
    version: Arc<froglet_schema::CatalogVersion>,
) -> Result<Outcome, Stop> {
    let snapshot = session.txn.as_mut().expect("run_planned has begun it").snapshot();
    let mut writer = session.writer(version, limits, context)?;
    let batches = plan.run(&mut writer).await?;
    let stream = futures::stream::iter(batches.into_iter().map(Ok)).boxed();
    let stream = converted(stream, conversion_of(cached));
    let fields = fields_of(prepared, cached);
    Ok(Outcome::Rows(RowStream::batches(fields, stream, snapshot, limits.clone())))
}

fn outcome_of(
    prepared: &Prepared,
    cached: &CachedPlan,
    written: Written,
    tag: TagKind,
) -> Result<Outcome, Stop> {
    let Written { rows, returned } = written;
    let Some(mut returned) = returned else { return Ok(Outcome::Done(tag.with(rows))) };
    if let Some(conversion) = &cached.conversion {
        conversion.rows(&mut returned)?;
    }
    Ok(Outcome::Rows(RowStream::ready(fields_of(prepared, cached), returned, tag)))
}

impl Session {
    /// The session's transaction, ready to be written in.
    pub(crate) fn writer<'a>(
        &'a mut self,
        version: Arc<froglet_schema::CatalogVersion>,
        limits: &'a Limits,
        eval: &'a EvalContext,
    ) -> Result<Writer<'a>, SqlError> {
        let txn = self.txn.as_mut().ok_or_else(|| {
            SqlError::new(SqlState::INTERNAL_ERROR, "a statement runs without a transaction")
        })?;
        Ok(Writer {
            txn,
            catalog: self.db.catalog(),
            version,
            limits,
            deferred: &mut self.deferred,
            eval,
            session: &self.state,
            first_view: None,
            duplicate: None,
            returned: Vec::new(),
            hidden: None,
        })
    }
}
