//! Running data definition, and EXPLAIN of it.

use std::pin::pin;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Statement;
use froglet_engine::{SqlState, Value};
use froglet_schema::MigrationOptions;
use froglet_schema::access::PG_CLASS;
use froglet_txn::{Limits, aside_async};

use crate::apply::Stop;
use crate::bind::text_fields;
use crate::command::Command;
use crate::context::{EvalContext, SessionFunctions};
use crate::ddl::Ddl;
use crate::error::{Notice, SqlError};
use crate::execute::StatementMark;
use crate::functions::SessionState;
use crate::plan::read_only;
use crate::prepared::Prepared;
use crate::privileges::check::check_query;
use crate::privileges::{Who, not_owner};
use crate::resolve::{Names, Relation};
use crate::revert::run as revert;
use crate::session::{Block, Session};
use crate::settings::Hot;
use crate::stream::{Outcome, RowStream, TagKind};

pub(crate) async fn run(
    session: &mut Session,
    prepared: &Arc<Prepared>,
    params: &[Value],
) -> Result<Outcome, SqlError> {
    if let (Command::Ddl(statement), Block::Explicit) =
        (&*prepared.statement.command, session.block)
        && matches!(&**statement, Statement::CreateIndex(create) if create.concurrently)
    {
        return Err(SqlError::new(
            SqlState::ACTIVE_SQL_TRANSACTION,
            "CREATE INDEX CONCURRENTLY cannot run inside a transaction block",
        )
        .hint("CREATE INDEX alone can, and blocks nobody here."));
    }
    let stands_alone = std::mem::take(&mut session.is_last) && session.block == Block::Idle;
    session.transaction()?;
    if session.read_only {
        return Err(read_only("DDL"));
    }
    let revert = match &*prepared.statement.command {
        Command::Revert(revert) => {
            Some(revert::arguments(revert, &prepared.params, params, session.state.clone())?)
        }
        _ => None,
    };
    if prepared.statement.command.is_temporary() {
        session.use_temporary_schema();
    }
    let limits = session.limits();
    let mut restarts = 0;
    loop {
        let mark = session.mark(true);
        match attempt(session, prepared, revert, stands_alone, &limits).await {
            Ok((done, notices)) => {
                session.notices.extend(notices);
                return Ok(match done {
                    Done::Tag(tag) => Outcome::Done(tag.into()),
                    Done::Number(number) => {
                        let (fields, row) = (revert::fields(), vec![Value::Int64(number)]);
                        Outcome::Rows(RowStream::ready(fields, vec![row], TagKind::Select))
                    }
                });
            }
            Err(Stop::Error(e)) if session.has_outgrown(&e) => {
                session.make_way(mark, e, &limits).await?;
                continue;
            }
            Err(Stop::Error(e)) => return Err(with_reason(session, e)),
            Err(Stop::Restart) => {}
        }
        restarts += 1;
        session.restart(mark, restarts, &limits).await?;
        session.db.catalog().catch_up()?;
    }
}

/// Who was in the way of a schema change that has waited too long, or came second: another one.
fn with_reason(session: &Session, e: SqlError) -> SqlError {
    let came_second =
        matches!(e.state, SqlState::LOCK_NOT_AVAILABLE | SqlState::SERIALIZATION_FAILURE);
    if !came_second || e.detail.is_some() {
        return e;
    }
    let own = session.txn.as_ref().map(|txn| txn.id().0);
    let migrations = session.db.catalog().migrations();
    let other = migrations.iter().rev().find(|m| m.ended_us.is_none() && Some(m.txn) != own);
    match other {
        None => e,
        Some(m) => e.detail(format!(
            "Schema change {} of table \"{}\" is under way: {}, {} %; {}",
            m.id,
            m.table_name,
            m.phase.name(),
            m.percent(),
            m.statement
        )),
    }
}

impl Session {
    /// Whether a statement has failed as it needs rows that are to be made after the commit, and that can
    /// be made before ([`make_outgrown`]).
    pub(crate) fn has_outgrown(&self, e: &SqlError) -> bool {
        e.state == SqlState::FEATURE_NOT_SUPPORTED
            && self.txn.as_ref().is_some_and(|txn| self.db.catalog().has_outgrown(txn))
    }

    /// Undoes such a statement and does what it needs: it is to be run again. The error is its own, if it was
    /// itself what made tables lazily.
    pub(crate) async fn make_way(
        &mut self,
        mark: Option<StatementMark>,
        e: SqlError,
        limits: &Limits,
    ) -> Result<(), SqlError> {
        self.undo_statement(mark);
        if !self.has_outgrown(&e) {
            return Err(e);
        }
        make_outgrown(self, limits).await
    }
}

/// Makes the rows of tables that were to be made lazily, and that the transaction needs before its commit.
pub(crate) async fn make_outgrown(session: &mut Session, limits: &Limits) -> Result<(), SqlError> {
    let db = session.db.clone();
    let catalog = db.catalog();
    let options = options(session.settings.hot(), String::new());
    let txn = session.txn.as_mut().expect("a statement has failed in it");
    catalog.begin_statement(txn, true, limits).await?;
    let made = aside_async(pin!(catalog.make_outgrown(txn, &options, limits))).await;
    catalog.end_statement(txn);
    for table in made? {
        let notice = format!(
            "table \"{table}\" is made before the commit after all: its transaction needs the rows"
        );
        session.notices.push(Notice::new("NOTICE", SqlState::SUCCESSFUL_COMPLETION, notice));
    }
    Ok(())
}

fn options(hot: &Hot, statement: String) -> MigrationOptions {
    MigrationOptions {
        scan_threads: hot.scan_threads,
        capture_threads: hot.capture_threads,
        rows_per_second: hot.scan_rows_per_second,
        reject_writers: hot.reject_writers,
        granule_rows: hot.granule_rows,
        detection: hot.detection,
        is_fused: hot.slsm_fuse,
        colocates: hot.slsm_colocate,
        background_delay: hot.migration_delay,
        is_hybrid: false,
        revert_retention: hot.revert_retention,
        statement,
    }
}

/// What a statement comes to.
enum Done {
    Tag(String),
    Number(i64),
}

async fn attempt(
    session: &mut Session,
    prepared: &Prepared,
    revert: Option<(i64, bool)>,
    stands_alone: bool,
    limits: &Limits,
) -> Result<(Done, Vec<Notice>), Stop> {
    let db = session.db.clone();
    let catalog = db.catalog();
    let hot = session.settings.hot().clone();
    let txn = session.txn.as_mut().expect("the caller has begun it");
    let version = catalog.begin_statement(txn, true, limits).await?;
    session.state.set_catalog(&version, txn.id().0, limits);
    let eval = EvalContext::new(session.state.clone());
    let shown = match &*prepared.statement.command {
        // Its text may have a password in it.
        Command::Role(role) => role.shown().to_owned(),
        _ => prepared.statement.sql.to_string(),
    };
    let options = options(&hot, shown);
    let mut ddl = Ddl {
        txn,
        catalog,
        version,
        path: hot.search_path,
        limits,
        options,
        migration: hot.migration,
        auto_rows: hot.migration_auto_rows,
        eval: &eval,
        notices: Vec::new(),
        on_commit: Vec::new(),
        session: &session.state,
        stands_alone,
    };
    let outcome = match revert {
        Some((id, lossy)) => match ddl.check_ddl(&prepared.statement.command) {
            Ok(()) => ddl.revert(id, lossy).await.map(Done::Number),
            Err(e) => Err(e.into()),
        },
        None => eval.clone().within(ddl.run(&prepared.statement.command)).await.map(Done::Tag),
    };
    let notices = std::mem::take(&mut ddl.notices);
    let on_commit = std::mem::take(&mut ddl.on_commit);
    if let Some(txn) = &mut session.txn {
        catalog.end_statement(txn);
    }
    session.on_commit.extend(on_commit);
    Ok((outcome?, notices))
}

/// 42501 if the user may not make the change that is explained.
fn may_explain(
    state: &SessionState,
    names: &Names<'_>,
    statement: &Statement,
) -> Result<(), SqlError> {
    let who = Who::named(names.catalog, &state.user());
    match statement {
        _ if who.superuser => Ok(()),
        Statement::AlterTable(alter) => match names.relation(&alter.name)? {
            Some(Relation::Table(table)) if !who.owns(PG_CLASS, table.def.id) => {
                Err(not_owner("table", &table.def.name))
            }
            _ => Ok(()),
        },
        Statement::CreateTable(create) => match &create.query {
            Some(query) => check_query(state, names, query),
            None => Ok(()),
        },
        Statement::CreateIndex(create) => match names.relation(&create.table_name)? {
            Some(Relation::Table(table)) if !who.owns(PG_CLASS, table.def.id) => {
                Err(not_owner("table", &table.def.name))
            }
            _ => Ok(()),
        },
        _ => Err(SqlError::unsupported("EXPLAIN of this statement, but for superusers,")),
    }
}

/// EXPLAIN of a schema change: what it would cost, without making it.
pub(crate) async fn explain(
    session: &mut Session,
    statement: &Statement,
) -> Result<Outcome, SqlError> {
    session.transaction()?;
    let limits = session.limits();
    let db = session.db.clone();
    let catalog = db.catalog();
    let hot = session.settings.hot().clone();
    let txn = session.txn.as_mut().expect("just begun");
    let version = catalog.begin_statement(txn, false, &limits).await?;
    session.state.set_catalog(&version, txn.id().0, &limits);
    let names = Names { catalog: &version, path: &hot.search_path };
    let (settings, state) = (&session.settings, &session.state);
    may_explain(state, &names, statement)?;
    let snapshot = txn.snapshot();
    let hindrance = |query: &_| catalog.lazy_hindrance(txn, &version, query);
    let lines =
        crate::explain_ddl::lines(&names, statement, settings, state, &snapshot, &hindrance);
    catalog.end_statement(txn);
    let rows = lines?.into_iter().map(|line| vec![Value::text(line)]).collect();
    let fields = text_fields(&["QUERY PLAN"]);
    Ok(Outcome::Rows(RowStream::ready(fields, rows, TagKind::Word("EXPLAIN"))))
}

impl Command {
    /// Whether it changes the schema.
    pub fn is_ddl(&self) -> bool {
        matches!(
            self,
            Command::Ddl(_)
                | Command::CreateTableAs(_)
                | Command::CreateSequence(_)
                | Command::AlterSequence(_)
                | Command::Object(_)
                | Command::Role(_)
                | Command::Privileges(_)
                | Command::Revert(_)
                | Command::Undrop(_)
        )
    }
}
