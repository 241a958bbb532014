//! Running a statement for an Arrow client.

use std::pin::pin;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use froglet_engine::{ColumnType, Row, Snapshot, SqlState, TxnId, Value};

use super::edge::schema_of;
use super::parts;
use super::pinned::{Convert, Pinned, Source, TimeLimits, Unstarted};
use crate::command::Command;
use crate::error::SqlError;
use crate::plan::Plan;
use crate::prepared::{Field, Prepared};
use crate::query_rows::QueryPlan;
use crate::query_run::guard;
use crate::semantics::numerics;
use crate::session::Session;
use crate::stream::{Outcome, RowStream, Rows};
use crate::types::{array_of, zone};
use crate::udf::simple::Simple;

/// What a statement has come to.
#[derive(Debug)]
pub enum Answer {
    /// It has rows.
    Rows(Pinned),
    /// It has run, and changed so many rows.
    Done(u64),
}

impl Session {
    /// Runs the statements of a text, of which the last one's answer counts. Afterwards
    /// [`Session::finish_implicit`] ends an implicit transaction; a result outlives it.
    pub async fn answer_text(&mut self, text: &str) -> Result<Answer, SqlError> {
        let statements = self.split(text).map_err(|e| self.failed(e))?;
        let Some((last, before)) = statements.split_last() else { return Ok(Answer::Done(0)) };
        for statement in &statements {
            refuse_block(&statement.command)?;
        }
        self.set_last(false);
        for statement in before {
            match self.simple(statement).await? {
                // A query may do something, too.
                Outcome::Rows(stream) => self.read_out(stream, |_| Ok(())).await?,
                outcome => drop(self.answer_of(outcome).await?),
            }
        }
        self.set_last(true);
        self.pinning = true;
        let outcome = self.simple(last).await;
        self.pinning = false;
        self.answer_of(outcome?).await
    }

    /// Binds the one statement of a text, for [`Session::answer`].
    pub async fn prepare_text(&mut self, text: &str) -> Result<Arc<Prepared>, SqlError> {
        let statements = self.split(text)?;
        match &statements[..] {
            [] => Ok(Prepared::empty()),
            [statement] => {
                refuse_block(&statement.command)?;
                self.prepare(statement, &[]).await
            }
            _ => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            )),
        }
    }

    /// Runs a prepared statement.
    pub async fn answer(
        &mut self,
        prepared: &Arc<Prepared>,
        params: Vec<Value>,
    ) -> Result<Answer, SqlError> {
        self.pinning = true;
        let outcome = self.run(prepared, params).await;
        self.pinning = false;
        self.answer_of(outcome?).await
    }

    async fn answer_of(&mut self, outcome: Outcome) -> Result<Answer, SqlError> {
        match outcome {
            Outcome::Done(tag) => Ok(Answer::Done(rows_of_tag(&tag))),
            Outcome::Empty => Ok(Answer::Done(0)),
            Outcome::Rows(stream) => match self.pin(stream).await {
                Ok(pinned) => Ok(Answer::Rows(pinned)),
                Err(e) => Err(self.failed(e)),
            },
            Outcome::CopyIn(copy) => {
                copy.fail(self, "there is nobody who would send rows");
                Err(copies())
            }
            Outcome::CopyOut(_) => Err(self.failed(copies())),
        }
    }

    async fn pin(&mut self, stream: RowStream) -> Result<Pinned, SqlError> {
        let fields = stream.fields().clone();
        let (schema, source) = match stream.unstarted() {
            Ok(query) => {
                let schema = schema_of(&fields, query.schema().map(|schema| &**schema));
                let parts = {
                    let found = pin!(guard(parts::of(&query)));
                    zone::scope(self.zone(), found).await?
                };
                (schema, Source::Query { query: Box::new(query), parts })
            }
            Err(stream) => {
                let schema = schema_of(&fields, None);
                let mut batches = Vec::new();
                let keep = |rows| {
                    batches.push(batch_of(&fields, &schema, rows)?);
                    Ok(())
                };
                self.read_out(stream, keep).await?;
                (schema, Source::Rows(batches))
            }
        };
        let durable = self.settings.hot().synchronous_commit;
        let pinned = Pinned { schema, source, manager: self.db.manager().clone(), durable };
        // Somebody may come for the rows when the transaction has written over what it had written, or
        // has ended; and what a function changes is changed once, and now.
        let changes =
            matches!(&pinned.source, Source::Query { query, .. } if changes(query.logical()));
        if self.has_written() || changes {
            return pinned.collected().await;
        }
        Ok(pinned)
    }

    /// Reads a result to its end.
    async fn read_out(
        &mut self,
        mut stream: RowStream,
        mut each: impl FnMut(Rows) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let mut outcome = Ok(());
        while outcome.is_ok()
            && let Some(rows) = stream.next().await
        {
            outcome = rows.and_then(&mut each);
        }
        // An error, too, may rest on what was read.
        self.note_read(&stream);
        outcome.map_err(|e| self.failed(e))
    }

    fn has_written(&self) -> bool {
        self.txn.as_ref().is_some_and(|txn| txn.wrote())
    }

    /// Another session of the same user with the same settings, beside this one.
    pub fn fork(&self) -> Result<Session, SqlError> {
        let shared =
            self.db.register_as(&self.shared.user, &self.settings, None, self.shared.ends)?;
        Ok(Session::new(self.db.clone(), shared, self.settings.clone()))
    }

    /// Takes over the settings of a session that was forked from this one.
    pub fn adopt_settings(&mut self, fork: &mut Session) {
        fork.take_set();
        // Others may have changed them since, whom a fork that has not must not undo.
        if !fork.settings.same_as(&fork.reported_at) {
            self.settings = fork.settings.clone();
            self.publish_settings();
        }
    }

    /// Keeps a query as it is about to be run, if results are pinned now.
    pub(crate) fn unstarted(
        &self,
        plan: &QueryPlan,
        snapshot: &Arc<Snapshot>,
        params: &[Value],
        convert: Option<Convert>,
    ) -> Option<Unstarted> {
        // What a serializable transaction reads, it reads before it is certified.
        if !self.pinning || snapshot.reads().is_some() {
            return None;
        }
        // No result that is run later sees what its transaction writes until then.
        let snapshot = match snapshot.own == TxnId(0) || self.has_written() {
            true => snapshot.clone(),
            false => Arc::new(Snapshot::new(snapshot.ts, TxnId(0), Box::new(snapshot.clone()))),
        };
        let hot = self.settings.hot();
        let time = TimeLimits {
            lock_timeout: hot.lock_timeout,
            statement_timeout: hot.statement_timeout,
            cancel: self.shared.cancel.clone(),
        };
        Some(plan.unstarted(&self.state, snapshot, params, convert, self.zone(), time))
    }
}

/// Transactions are begun and ended by messages, not by text: the session of a statement is not
/// that of the next one.
fn refuse_block(command: &Command) -> Result<(), SqlError> {
    let word = match command {
        Command::Begin { .. } => "BEGIN",
        Command::Commit { .. } => "COMMIT",
        Command::Rollback { .. } => "ROLLBACK",
        _ => return Ok(()),
    };
    Err(SqlError::unsupported(format!("{word} as a statement here")).hint(
        "Begin and end transactions by the means of your driver (autocommit, commit, rollback).",
    ))
}

fn copies() -> SqlError {
    SqlError::unsupported("COPY here").hint("Send rows by ingest, and fetch them by a query.")
}

/// Whether a plan calls functions that change something.
fn changes(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let looked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr {
                    let simple = call.func.inner().downcast_ref::<Simple>();
                    found |= simple.is_some_and(Simple::changes);
                }
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    });
    found || looked.is_err()
}

/// The number at the end of a command tag.
fn rows_of_tag(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn batch_of(fields: &[Field], schema: &Schema, rows: Rows) -> Result<RecordBatch, SqlError> {
    match rows {
        Rows::Batch(batch) => Ok(batch),
        Rows::Values(rows) => {
            let columns = fields.iter().enumerate().map(|(at, field)| {
                let ty = field.ty.unwrap_or(ColumnType::Text);
                numerics::outside(&array_of(ty, &mut rows.iter().map(|row: &Row| &row[at])))
            });
            let columns = columns.collect::<Result<Vec<_>, SqlError>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
            RecordBatch::try_new_with_options(Arc::new(schema.clone()), columns, &options)
                .map_err(|e| SqlError::new(SqlState::INTERNAL_ERROR, e.to_string()))
        }
    }
}

impl Prepared {
    /// The schema of its result, if it has rows.
    pub fn result_schema(&self) -> Option<Schema> {
        let fields = self.fields()?;
        let plan = self.plan.lock();
        let as_planned = plan.as_ref().filter(|plan| plan.conversion.is_none());
        let planned = as_planned.and_then(|cached| match &cached.plan {
            Plan::Query(plan) => Some(plan.schema().clone()),
            _ => None,
        });
        Some(schema_of(fields, planned.as_deref()))
    }
}
