//! Statements that have nothing to wait for, done in one go.
//!
//! ```text
//!   known plan ─▶ read view ─▶ rows ─▶ Done          no future, no second pass over the messages
//!       │            │           │
//!       └────────────┴───────────┴──▶ None           anything out of the ordinary
//! ```
//!
//! Nearly every statement of an application is one of these: a row by its key, under a plan that is
//! still good, with nobody in the way. What is out of the ordinary (a plan to be made, a row held by
//! somebody else, a conflict, an error, many rows) is left to `execute.rs`.
//!
//! A1: a statement that answers `None` has changed nothing but the read view of READ COMMITTED,
//!     which the next statement takes anew, and what it holds of its tables: it can be run from its beginning.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use froglet_engine::Value;

use crate::apply::Writer;
use crate::command::Command;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::execute::{fields_of, writes};
use crate::modify::Written;
use crate::plan::Plan;
use crate::prepared::Prepared;
use crate::query_run::{panicked, read_or_none};
use crate::select::Found;
use crate::session::{Block, Session};
use crate::stream::{Outcome, RowStream, TagKind};

/// Rows that a statement may look at here. Beyond that, the work done twice is no longer small
/// beside the work.
pub(crate) const FEW: usize = 256;

impl Session {
    /// Runs a bound statement, if it has nothing to wait for. Otherwise `None`: the parameters are
    /// still there, and [`Session::run`] is to be asked. The only errors are that of a COMMIT, and a panic.
    pub fn run_at_once(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &mut Vec<Value>,
    ) -> Option<Result<Outcome, SqlError>> {
        if self.block == Block::Failed || params.len() != prepared.params.len() {
            return None;
        }
        match &*prepared.statement.command {
            Command::Query(_) | Command::Insert(_) | Command::Update(_) | Command::Delete(_) => {
                let run = || self.planned_at_once(prepared, params).map(Ok);
                let outcome = std::panic::catch_unwind(AssertUnwindSafe(run));
                outcome.unwrap_or_else(|panic| Some(Err(self.failed(panicked(panic)))))
            }
            Command::Begin { modes, tag } if self.block == Block::Idle => {
                self.begin_at_once(prepared)?;
                self.begin(*modes).ok()?;
                Some(Ok(Outcome::Done((*tag).into())))
            }
            Command::Commit { chain: false } if self.block == Block::Explicit => {
                self.begin_at_once(prepared)?;
                let committed = self.commit_at_once()?;
                Some(committed.map(|()| Outcome::Done("COMMIT".into())))
            }
            _ => None,
        }
    }

    fn begin_at_once(&mut self, prepared: &Prepared) -> Option<()> {
        self.take_set();
        self.begin_activity(&prepared.statement.sql).ok()
    }

    fn planned_at_once(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &mut Vec<Value>,
    ) -> Option<Outcome> {
        let cached = prepared.plan.lock().clone()?;
        let ordinary = cached.conversion.is_none() && cached.denied.is_none();
        if !ordinary || !cached.plan.may_run_at_once() {
            return None;
        }
        self.begin_at_once(prepared)?;
        let writes = writes(&prepared.statement.command).is_some();
        self.transaction().ok()?;
        if writes && self.read_only {
            return None;
        }
        let limits = self.limits();
        let txn = self.txn.as_mut().expect("just begun");
        let id = txn.id().0;
        let version = self.db.catalog().begin_statement_at_once(txn, writes)?;
        if !cached.was_made_under(version.stamp, self.settings.hot()) {
            return None;
        }
        if !self.state.enter_uses_at_once(self.uses_of(prepared, &cached, &version)) {
            return None;
        }
        self.state.set_catalog(&version, id, &limits);
        let given = std::mem::take(params);
        let context = EvalContext::with_params(self.state.clone(), given, &prepared.params);
        let zone = self.zone();
        let outcome = zone.run(|| match &cached.plan {
            Plan::Select(plan) => {
                let snapshot = self.txn.as_mut().expect("begun above").snapshot();
                match read_or_none(|| plan.run(&snapshot, &context, &limits, FEW))? {
                    Ok(Found::Rows(rows)) => {
                        let fields = fields_of(prepared, &cached);
                        Some(Outcome::Rows(RowStream::ready(fields, rows, TagKind::Select)))
                    }
                    Ok(Found::Many) | Err(_) => None,
                }
            }
            Plan::Query(_) | Plan::With(_) | Plan::Merge(_) | Plan::Locking(_) => None,
            Plan::Insert(_) | Plan::Update(_) | Plan::Delete(_) => {
                let mark = self.mark(true);
                let mut writer = self.writer(version, &limits, &context).ok()?;
                let written = read_or_none(|| write(&cached.plan, &mut writer));
                let Some((written, tag)) = written.flatten() else {
                    self.undo_statement(mark);
                    return None;
                };
                let Written { rows, returned } = written;
                Some(match returned {
                    None => Outcome::Done(tag.with(rows)),
                    Some(rows) => {
                        Outcome::Rows(RowStream::ready(fields_of(prepared, &cached), rows, tag))
                    }
                })
            }
        });
        if outcome.is_none() {
            *params = context.values().to_vec();
        }
        outcome
    }

    /// The end of an implicit transaction, if it has nothing to wait for.
    pub fn finish_implicit_at_once(&mut self) -> Option<Result<(), SqlError>> {
        let outcome = match self.block {
            Block::Implicit => {
                self.take_set();
                self.commit_at_once()?
            }
            Block::Idle | Block::Explicit | Block::Failed => Ok(()),
        };
        self.end_activity();
        Some(outcome)
    }
}

impl Plan {
    /// Whether it may find all it needs without waiting.
    fn may_run_at_once(&self) -> bool {
        match self {
            Plan::Select(plan) => plan.may_run_at_once(),
            Plan::Query(_) | Plan::With(_) | Plan::Merge(_) | Plan::Locking(_) => false,
            Plan::Insert(plan) => plan.may_run_at_once(),
            Plan::Update(plan) | Plan::Delete(plan) => plan.may_run_at_once(),
        }
    }
}

fn write(plan: &Plan, writer: &mut Writer<'_>) -> Option<(Written, TagKind)> {
    match plan {
        Plan::Insert(plan) => Some((plan.run_at_once(writer)?, TagKind::Insert)),
        Plan::Update(plan) => Some((plan.run_at_once(writer)?, TagKind::Update)),
        Plan::Delete(plan) => Some((plan.run_at_once(writer)?, TagKind::Delete)),
        Plan::Select(_) | Plan::Query(_) | Plan::With(_) | Plan::Merge(_) | Plan::Locking(_) => {
            None
        }
    }
}
