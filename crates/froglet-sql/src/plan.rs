//! Plans: what a statement has been made into under one catalog.

pub(crate) mod mend;
pub(crate) mod rewrite;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::Query;
use froglet_schema::{CatalogVersion, SqlType, TableDef};

use crate::apply::Stop;
use crate::command::Command;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::functions::SessionState;
use crate::insert::InsertPlan;
use crate::lock_query::{self, LockQueryPlan};
use crate::merge::MergePlan;
use crate::modify::ModifyPlan;
use crate::prepared::Field;
use crate::query_rows::QueryPlan;
use crate::resolve::Names;
use crate::select::SelectPlan;
use crate::with_plan::{self, WithPlan};
use crate::{insert, insert_plan, merge_plan, modify, modify_plan, returning_query, select};

/// What a statement is planned against.
pub(crate) struct Planner<'a> {
    pub(crate) catalog: &'a Arc<CatalogVersion>,
    pub(crate) path: &'a [String],
    /// `froglet.fast_path`
    pub(crate) fast: bool,
    pub(crate) session: &'a Arc<SessionState>,
    /// What parts of the statement return that are planned already ([`crate::with_plan`]).
    pub(crate) returned: Vec<SchemaRef>,
}

impl<'a> Planner<'a> {
    pub(crate) fn names(&self) -> Names<'a> {
        Names { catalog: self.catalog, path: self.path }
    }
}

/// A plan.
pub(crate) enum Plan {
    Select(Box<SelectPlan>),
    Query(Box<QueryPlan>),
    Insert(Box<InsertPlan>),
    Update(Box<ModifyPlan>),
    Delete(Box<ModifyPlan>),
    Merge(Box<MergePlan>),
    With(Box<WithPlan>),
    Locking(Box<LockQueryPlan>),
}

impl Plan {
    /// The table of a plan that runs without the analytical planner.
    pub(crate) fn short_table(&self) -> Option<&TableDef> {
        let table = match self {
            Plan::Select(plan) => &plan.table,
            // Literals of a statement are not those of the columns that a view renames.
            Plan::Insert(plan) if plan.inserter.through_view => return None,
            Plan::Update(plan) | Plan::Delete(plan) if plan.through_view => return None,
            Plan::Insert(plan) if matches!(plan.source, insert::Source::Values(_)) => {
                &plan.inserter.table
            }
            Plan::Update(plan) | Plan::Delete(plan)
                if matches!(plan.source, modify::Source::Short { .. }) =>
            {
                &plan.table
            }
            Plan::Query(_)
            | Plan::Insert(_)
            | Plan::Update(_)
            | Plan::Delete(_)
            | Plan::Merge(_)
            | Plan::With(_)
            | Plan::Locking(_) => return None,
        };
        Some(&table.def)
    }

    /// The columns of its result, if it has one.
    pub(crate) fn fields(&self) -> Option<&Arc<[Field]>> {
        match self {
            Plan::Select(plan) => Some(&plan.outputs.fields),
            Plan::Query(plan) => Some(plan.fields()),
            Plan::With(plan) => plan.fields(),
            Plan::Merge(_) => None,
            Plan::Locking(plan) => Some(plan.fields()),
            Plan::Insert(plan) => plan.returning.as_ref().map(|list| &list.fields),
            Plan::Update(plan) | Plan::Delete(plan) => {
                plan.returning.as_ref().map(|list| &list.fields)
            }
        }
    }
}

/// Plans a statement; with it the types of its parameters. `None` for statements that have no
/// plan.
pub(crate) async fn plan(
    planner: &mut Planner<'_>,
    command: &Command,
    given: &[SqlType],
) -> Result<Option<(Plan, Vec<SqlType>)>, Stop> {
    let context = EvalContext::new(planner.session.clone());
    context.within(plan_here(planner, command, given)).await
}

async fn plan_here(
    planner: &mut Planner<'_>,
    command: &Command,
    given: &[SqlType],
) -> Result<Option<(Plan, Vec<SqlType>)>, Stop> {
    if let Some(query) = returning_query::of_command(command) {
        let (plan, params) = Box::pin(with_plan::plan(planner, &query, given)).await?;
        return Ok(Some((Plan::With(Box::new(plan)), params)));
    }
    Ok(Some(match command {
        Command::Query(query) => plan_query(planner, query, given).await?,
        Command::With(query) => {
            let (plan, params) = Box::pin(with_plan::plan(planner, query, given)).await?;
            (Plan::With(Box::new(plan)), params)
        }
        Command::Insert(insert) => {
            let (plan, params) = insert_plan::plan(planner, insert, given).await?;
            (Plan::Insert(Box::new(plan)), params)
        }
        Command::Update(update) => {
            let parts = modify_plan::of_update(update)?;
            let (plan, params) = modify_plan::plan(planner, &parts, given).await?;
            (Plan::Update(Box::new(plan)), params)
        }
        Command::Delete(delete) => {
            let parts = modify_plan::of_delete(delete)?;
            let (plan, params) = modify_plan::plan(planner, &parts, given).await?;
            (Plan::Delete(Box::new(plan)), params)
        }
        Command::Merge(query) => {
            let (plan, params) = Box::pin(merge_plan::plan(planner, query, given)).await?;
            (Plan::Merge(Box::new(plan)), params)
        }
        _ => return Ok(None),
    }))
}

/// Plans a query that writes nothing; it may lock its rows.
pub(crate) async fn plan_query(
    planner: &mut Planner<'_>,
    query: &Query,
    given: &[SqlType],
) -> Result<(Plan, Vec<SqlType>), Stop> {
    Ok(match select::plan(planner, query, given)? {
        Some((plan, params)) => (Plan::Select(Box::new(plan)), params),
        None if !query.locks.is_empty() => {
            let (plan, params) = Box::pin(lock_query::plan(planner, query, given)).await?;
            (Plan::Locking(Box::new(plan)), params)
        }
        None => {
            let (plan, params) = QueryPlan::plan(planner, query, given).await?;
            (Plan::Query(Box::new(plan)), params)
        }
    })
}

/// 25006
pub(crate) fn read_only(what: &str) -> SqlError {
    SqlError::new(
        froglet_engine::SqlState::READ_ONLY_SQL_TRANSACTION,
        format!("cannot execute {what} in a read-only transaction"),
    )
}
