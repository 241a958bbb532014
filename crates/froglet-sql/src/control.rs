//! Statements about the session: transactions, settings, prepared statements.

use std::pin::pin;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use froglet_engine::{Row, SqlState, Value};

use crate::bind::{self, text_fields};
use crate::command::{Command, Discard, TransactionModes};
use crate::context::{EvalContext, SessionFunctions};
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope};
use crate::notify::Wish;
use crate::parse::ParsedStatement;
use crate::prepared::Prepared;
use crate::roles;
use crate::session::{Block, Session};
use crate::stream::{Outcome, RowStream, TagKind};
use crate::types;

pub(crate) async fn run(
    session: &mut Session,
    command: &Command,
    source: &Arc<str>,
) -> Result<Outcome, SqlError> {
    let tag = match command {
        Command::Empty => return Ok(Outcome::Empty),
        Command::Begin { modes, tag } => {
            session.begin(*modes)?;
            tag
        }
        Command::Commit { chain } => pin!(session.commit(*chain)).await?,
        Command::Rollback { chain } => {
            session.rollback(*chain)?;
            "ROLLBACK"
        }
        Command::Savepoint(name) => {
            session.savepoint(name)?;
            "SAVEPOINT"
        }
        Command::Release(name) => {
            session.release(name)?;
            "RELEASE"
        }
        Command::RollbackTo(name) => {
            session.rollback_to(name)?;
            "ROLLBACK"
        }
        Command::SetTransaction(modes) => {
            session.set_transaction(*modes)?;
            "SET"
        }
        Command::SetSnapshot(name) => {
            session.set_snapshot(name)?;
            "SET"
        }
        Command::SetCharacteristics(modes) => {
            set_characteristics(session, *modes)?;
            "SET"
        }
        Command::SetConstraints { names, deferred } => {
            Box::pin(session.set_constraints(names.as_deref(), *deferred)).await?;
            "SET CONSTRAINTS"
        }
        Command::Set { local, name, value } => {
            set(session, name, value.as_deref(), *local)?;
            "SET"
        }
        Command::Reset(name) => {
            set(session, name, None, false)?;
            "RESET"
        }
        Command::ResetAll => {
            session.settings.reset_all();
            session.publish_settings();
            "RESET"
        }
        Command::Show(_) | Command::ShowAll => return show(session, command),
        Command::Discard(what) => {
            let outcome = discard(session, *what)?;
            if matches!(what, Discard::All | Discard::Temp) {
                Box::pin(session.discard_temporary()).await?;
            }
            return Ok(outcome);
        }
        Command::Prepare { name, types, statement, text } => {
            Box::pin(prepare(session, name, types, statement, text, source)).await?;
            "PREPARE"
        }
        Command::Deallocate(None) => {
            session.close_statements();
            session.cache.clear();
            "DEALLOCATE ALL"
        }
        Command::Deallocate(Some(name)) => {
            bind::named(session, name)?;
            session.close_statement(name);
            "DEALLOCATE"
        }
        Command::Listen(channel) => {
            session.wish(Wish::Listen(channel.clone()))?;
            "LISTEN"
        }
        Command::Unlisten(channel) => {
            let one = |channel: &String| Wish::Unlisten(channel.clone());
            session.wish(channel.as_ref().map_or(Wish::UnlistenAll, one))?;
            "UNLISTEN"
        }
        Command::Notify { channel, payload } => {
            session.transaction()?;
            session.state.said().notify(session.pid(), channel, payload)?;
            "NOTIFY"
        }
        Command::Checkpoint if !session.state.is_superuser() => {
            return Err(roles::denied("must be superuser to do CHECKPOINT"));
        }
        Command::Checkpoint => {
            let engine = session.db.manager().engine().clone();
            let done = tokio::task::spawn_blocking(move || engine.checkpoint()).await;
            done.map_err(|e| SqlError::new(SqlState::INTERNAL_ERROR, e.to_string()))??;
            "CHECKPOINT"
        }
        Command::Unsupported(what) => {
            let refused = SqlError::unsupported(what);
            return Err(match what.ends_with(" DATABASE") {
                true => refused.hint(
                    "A server has one database: CREATE SCHEMA keeps applications apart, another \
                     server with a data directory of its own does so altogether.",
                ),
                false => refused,
            });
        }
        _ => return Err(SqlError::unsupported("this statement")),
    };
    Ok(Outcome::Done(tag.into()))
}

fn set_characteristics(session: &mut Session, modes: TransactionModes) -> Result<(), SqlError> {
    if let Some(name) = modes.isolation {
        session.settings.set("default_transaction_isolation", Some(name.as_str()), false)?;
    }
    if let Some(read_only) = modes.read_only {
        let value = if read_only { "on" } else { "off" };
        session.settings.set("default_transaction_read_only", Some(value), false)?;
    }
    Ok(())
}

fn set(
    session: &mut Session,
    name: &str,
    value: Option<&str>,
    local: bool,
) -> Result<(), SqlError> {
    if local && !matches!(session.block, Block::Explicit) {
        session.notice(
            "WARNING",
            SqlState::NO_ACTIVE_SQL_TRANSACTION,
            "SET LOCAL can only be used in transaction blocks",
        );
        // It holds for what follows in the same message.
        session.transaction()?;
    }
    if roles::is_identity(name) {
        return session.set_identity(name, value, local);
    }
    if name.eq_ignore_ascii_case("froglet.as_of") && session.txn.is_some() {
        return Err(SqlError::new(
            SqlState::ACTIVE_SQL_TRANSACTION,
            "SET froglet.as_of must be called before any query",
        ));
    }
    let modes = match (name.to_ascii_lowercase().as_str(), value) {
        ("transaction_isolation", Some(value)) => Some(TransactionModes {
            isolation: crate::command::IsolationName::parse(value),
            read_only: None,
        }),
        ("transaction_read_only", Some(value)) => {
            let on = ["on", "true", "1", "yes"].contains(&value.to_ascii_lowercase().as_str());
            Some(TransactionModes { isolation: None, read_only: Some(on) })
        }
        _ => None,
    };
    if let Some(modes) = modes {
        session.settings.clone().set(name, value, local)?;
        return session.set_transaction(modes);
    }
    session.settings.set(name, value, local)?;
    session.publish_settings();
    Ok(())
}

fn show(session: &mut Session, command: &Command) -> Result<Outcome, SqlError> {
    let (fields, rows) = match command {
        Command::Show(name) => {
            let (name, value) = session.settings.show(name)?;
            let value = match name {
                "transaction_isolation" => session.isolation_name().as_str(),
                "transaction_read_only" if session.read_only => "on",
                _ => value,
            };
            (text_fields(&[name]), vec![vec![Value::text(value)]])
        }
        _ => {
            let rows: Vec<Row> = session
                .settings
                .all()
                .map(|(name, value, text)| {
                    vec![Value::text(name), Value::text(value), Value::text(text)]
                })
                .collect();
            (text_fields(&["name", "setting", "description"]), rows)
        }
    };
    Ok(Outcome::Rows(RowStream::ready(fields, rows, TagKind::Word("SHOW"))))
}

fn discard(session: &mut Session, what: Discard) -> Result<Outcome, SqlError> {
    let tag = match what {
        Discard::All => {
            if session.block == Block::Explicit {
                return Err(SqlError::new(
                    SqlState::ACTIVE_SQL_TRANSACTION,
                    "DISCARD ALL cannot run inside a transaction block",
                ));
            }
            session.close_statements();
            session.cache.clear();
            session.cursors.clear();
            session.publish_cursors();
            session.state.forget_sequences();
            session.state.drop_session_locks();
            session.wish(Wish::UnlistenAll)?;
            session.settings.reset_all();
            session.set_identity("session_authorization", None, false)?;
            "DISCARD ALL"
        }
        Discard::Plans => {
            for named in session.named.values() {
                *named.prepared.plan.lock() = None;
            }
            session.cache.clear();
            "DISCARD PLANS"
        }
        Discard::Sequences => {
            session.state.forget_sequences();
            "DISCARD SEQUENCES"
        }
        Discard::Temp => "DISCARD TEMP",
    };
    Ok(Outcome::Done(tag.into()))
}

async fn prepare(
    session: &mut Session,
    name: &str,
    types: &[ast::DataType],
    statement: &Arc<Command>,
    text: &str,
    source: &Arc<str>,
) -> Result<(), SqlError> {
    let mut oids = Vec::with_capacity(types.len());
    for ty in types {
        oids.push(types::names::parse_sql_type(ty)?.oid);
    }
    let sql: Arc<str> = Arc::from(text);
    let parsed =
        ParsedStatement { command: statement.clone(), sql: sql.clone(), source: sql, offset: 0 };
    let prepared = bind::prepare(session, &parsed, &oids).await?;
    prepared.check_parameters()?;
    session.store_statement(name, Arc::new(prepared), source.clone(), true)
}

/// The values of EXECUTE's arguments.
pub(crate) fn arguments(
    session: &Session,
    name: &str,
    target: &Prepared,
    arguments: &[ast::Expr],
) -> Result<Vec<Value>, SqlError> {
    if arguments.len() != target.params.len() {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("wrong number of parameters for prepared statement \"{name}\""),
        )
        .detail(format!(
            "Expected {} parameters but got {}.",
            target.params.len(),
            arguments.len()
        )));
    }
    let context = EvalContext::new(session.state.clone());
    let scope = Scope::empty();
    arguments
        .iter()
        .zip(target.params.iter().zip(&*target.param_types))
        .enumerate()
        .map(|(at, (expr, (sql_type, ty)))| {
            let name = format!("${}", at + 1);
            let expr = RowExpr::compile_for(&scope, expr, &[], &name, *ty, *sql_type)?;
            expr.eval_row(&[], &context)
        })
        .collect()
}
