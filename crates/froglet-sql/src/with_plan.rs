//! WITH whose parts write or lock, and WITH in front of a statement that writes.
//!
//! ```text
//!   WITH a AS (INSERT … RETURNING x), b AS (SELECT … FROM a) DELETE FROM t USING b …
//!
//!   plan   in order; what a part returns is a table for those after it (returned.rs)
//!   run    every part collects its rows, and what it returns, under the statement's view;
//!          then all is written, in order
//! ```
//!
//! So no part sees what another writes, as PostgreSQL promises. A row that somebody has changed in the
//! meantime makes the statement begin again: what was returned of it may have been read. INSERT … ON
//! CONFLICT knows what it does only when it does it, so it writes in its turn: what DO NOTHING has inserted is
//! hidden from the queries after it, and where DO UPDATE writes, or others write, its table may not be mentioned
//! again.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::sql::sqlparser::ast::{self, Cte, SetExpr, Statement, With};
use froglet_engine::{Row, RowId, Snapshot, SpaceId, SqlState};
use froglet_schema::SqlType;

use crate::apply::{Stop, Targets, Writer};
use crate::error::SqlError;
use crate::expr::param_index;
use crate::insert::InsertPlan;
use crate::lock_parts::{self, is_part as is_lock};
use crate::modify::{ModifyPlan, Written};
use crate::on_conflict::OnConflict;
use crate::plan::{Plan, Planner};
use crate::prepared::Field;
use crate::provider::Hidden;
use crate::query_rows::{QueryPlan, next};
use crate::returned::{RETURNED_SCHEMA, batch_of, schema_of};
use crate::stream::TagKind;
use crate::{insert_plan, modify_plan, once, returning_query, walk};

/// Whether a query writes, or locks for a statement around it: its own body, or a part of its WITH.
pub(crate) fn has_parts(query: &ast::Query) -> bool {
    let mut parts = query.with.iter().flat_map(|with| &with.cte_tables);
    is_write(&query.body) || parts.any(|part| is_write(&part.query.body) || is_lock(part))
}

fn is_write(body: &SetExpr) -> bool {
    matches!(body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
}

/// What a read-only transaction calls it.
pub(crate) fn name_of(query: &ast::Query) -> &'static str {
    match &*query.body {
        SetExpr::Insert(_) => "INSERT",
        SetExpr::Update(_) => "UPDATE",
        SetExpr::Delete(_) => "DELETE",
        _ if query.with.iter().flat_map(|with| &with.cte_tables).any(is_lock) => {
            "SELECT FOR UPDATE"
        }
        _ => "SELECT",
    }
}

/// A part that writes, or is run once.
struct Part {
    plan: Plan,
    /// Of what it returns, if others may read it.
    schema: Option<SchemaRef>,
}

/// A planned statement.
pub(crate) struct WithPlan {
    parts: Vec<Part>,
    main: Plan,
    /// Of what the query at the end returns.
    tag: TagKind,
}

/// What it has come to.
pub(crate) enum Done {
    Written(Written, TagKind),
    Batches(Vec<RecordBatch>, TagKind),
}

impl WithPlan {
    pub(crate) fn fields(&self) -> Option<&Arc<[Field]>> {
        self.main.fields()
    }
}

/// Plans it; with it the types of its parameters.
pub(crate) async fn plan(
    planner: &mut Planner<'_>,
    query: &ast::Query,
    given: &[SqlType],
) -> Result<(WithPlan, Vec<SqlType>), Stop> {
    let mut params = given.to_vec();
    let mut query = query.clone();
    let tag = returning_query::lift(&planner.names(), &mut query).unwrap_or(TagKind::Select);
    let plan = WithPlan { tag, ..plan_once(planner, &query, &mut params).await? };
    if params.is_empty() {
        return Ok((plan, params));
    }
    // A part knows only its own parameters: now each is told those of the others.
    let mut known = params.clone();
    Ok((WithPlan { tag, ..plan_once(planner, &query, &mut known).await? }, params))
}

async fn plan_once(
    planner: &mut Planner<'_>,
    query: &ast::Query,
    params: &mut Vec<SqlType>,
) -> Result<WithPlan, Stop> {
    planner.returned.clear();
    let mut with = query.with.clone();
    let mut before: Vec<Cte> = Vec::new();
    let mut parts = Vec::new();
    let ctes = with.as_mut().map(|with| std::mem::take(&mut with.cte_tables)).unwrap_or_default();
    for mut cte in ctes {
        let is_once = once::is_part(&cte, with.as_ref().is_some_and(|with| with.recursive));
        if !is_write(&cte.query.body) && !is_lock(&cte) && !is_once {
            before.push(cte);
            continue;
        }
        let own = cte.query.with.take().map(|with| with.cte_tables).unwrap_or_default();
        let here = with_of(&with, before.iter().cloned().chain(own).collect());
        let plan = if is_lock(&cte) {
            let part = ast::Query { with: here, ..(*cte.query).clone() };
            match plan_query(planner, part, params).await {
                Err(stop) => return Err(refusal(planner, query, stop, params).await),
                planned => planned?,
            }
        } else if is_write(&cte.query.body) {
            plan_write(planner, &cte.query.body, here, params).await?
        } else {
            let part = ast::Query { with: here, ..(*cte.query).clone() };
            plan_query(planner, part, params).await?
        };
        let schema = plan.fields().map(|fields| schema_of(fields)).transpose()?;
        if let Some(schema) = &schema {
            let at = planner.returned.len();
            planner.returned.push(schema.clone());
            let text = format!("SELECT * FROM \"{RETURNED_SCHEMA}\".\"{at}\"");
            *cte.query = crate::parse::parse_query(&text)?;
            before.push(cte);
        }
        parts.push(Part { plan, schema });
    }
    let main = match is_write(&query.body) {
        true => {
            let with = with_of(&with, before);
            plan_write(planner, &query.body, with, params).await?
        }
        false => {
            let query = ast::Query { with: with_of(&with, before), ..query.clone() };
            plan_query(planner, query, params).await?
        }
    };
    refuse_conflicts(&parts, &main, query)?;
    Ok(WithPlan { parts, main, tag: TagKind::Select })
}

fn with_of(with: &Option<With>, ctes: Vec<Cte>) -> Option<With> {
    let with = with.as_ref().filter(|_| !ctes.is_empty())?;
    Some(With { cte_tables: ctes, ..with.clone() })
}

/// Plans a part that locks, or the query at the end.
async fn plan_query(
    planner: &mut Planner<'_>,
    query: ast::Query,
    params: &mut Vec<SqlType>,
) -> Result<Plan, Stop> {
    let (plan, found) = crate::plan::plan_query(planner, &query, params).await?;
    adopt(params, &found, &query);
    Ok(plan)
}

/// Why a part that locks cannot be planned: it reads what is around it, if all is well without the locks.
async fn refusal(
    planner: &mut Planner<'_>,
    query: &ast::Query,
    stop: Stop,
    params: &mut Vec<SqlType>,
) -> Stop {
    let plain = lock_parts::without_parts(query);
    match Box::pin(plan_once(planner, &plain, params)).await {
        Ok(_) if is_name_error(&stop) => SqlError::unsupported(
            "locking rows (FOR UPDATE, FOR SHARE) by a subquery that reads the query around it",
        )
        .into(),
        _ => stop,
    }
}

fn is_name_error(stop: &Stop) -> bool {
    let states = [SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_TABLE];
    matches!(stop, Stop::Error(error) if states.contains(&error.state))
}

/// Plans a part, or the statement, that writes.
async fn plan_write(
    planner: &mut Planner<'_>,
    body: &SetExpr,
    with: Option<With>,
    params: &mut Vec<SqlType>,
) -> Result<Plan, Stop> {
    let (plan, found) = match body {
        SetExpr::Insert(Statement::Insert(insert)) => {
            let mut insert = insert.clone();
            if let (Some(source), Some(mut with)) = (&mut insert.source, with) {
                let own = source.with.take().map(|with| with.cte_tables);
                with.cte_tables.extend(own.unwrap_or_default());
                source.with = Some(with);
            }
            let (plan, found) = insert_plan::plan(planner, &insert, params).await?;
            (Plan::Insert(Box::new(plan)), found)
        }
        SetExpr::Update(Statement::Update(update)) => {
            let parts = modify_plan::Modification { with, ..modify_plan::of_update(update)? };
            let (plan, found) = modify_plan::plan(planner, &parts, params).await?;
            (Plan::Update(Box::new(plan)), found)
        }
        SetExpr::Delete(Statement::Delete(delete)) => {
            let parts = modify_plan::Modification { with, ..modify_plan::of_delete(delete)? };
            let (plan, found) = modify_plan::plan(planner, &parts, params).await?;
            (Plan::Delete(Box::new(plan)), found)
        }
        SetExpr::Merge(_) => {
            let message = "MERGE not supported in WITH query";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        _ => return Err(SqlError::unsupported("this statement in WITH").into()),
    };
    adopt(params, &found, body);
    Ok(plan)
}

/// Types found for the parameters that stand in a part.
fn adopt(params: &mut Vec<SqlType>, found: &[SqlType], part: &impl ast::Visit) {
    walk::each_expr(part, |expr| {
        if let ast::Expr::Value(value) = expr
            && let ast::Value::Placeholder(name) = &value.value
            && let Some(at) = param_index(name)
            && let Some(ty) = found.get(at)
        {
            if params.len() <= at {
                params.resize(at + 1, crate::types::plain(0));
            }
            if params[at].oid == 0 {
                params[at] = *ty;
            }
        }
    });
}

/// See the module.
fn refuse_conflicts(parts: &[Part], main: &Plan, query: &ast::Query) -> Result<(), SqlError> {
    let updates = |insert: &InsertPlan| insert.on_conflict.as_ref().map(OnConflict::updates);
    let all_hide = parts.iter().map(|part| &part.plan).chain([main]).all(|plan| match plan {
        Plan::Insert(insert) => updates(insert) != Some(true),
        plan => matches!(plan, Plan::Query(_)),
    });
    for part in parts {
        let Plan::Insert(insert) = &part.plan else { continue };
        let table = &insert.inserter.table.def.name;
        let mentioned = || walk::relations(query, table);
        if updates(insert).is_some_and(|updates| updates || !all_hide) && mentioned() > 1 {
            return Err(SqlError::unsupported(format!(
                "INSERT INTO {table} … ON CONFLICT within a WITH that mentions {table} again"
            )));
        }
    }
    Ok(())
}

/// What is still to be written.
enum Pending<'p> {
    Insert(&'p InsertPlan, Vec<Row>),
    Modify(&'p ModifyPlan, Arc<Snapshot>, Targets),
}

type Seen = HashSet<(SpaceId, RowId)>;

impl WithPlan {
    pub(crate) async fn run(&self, writer: &mut Writer<'_>) -> Result<Done, Stop> {
        let mut pending = Vec::new();
        let mut seen = Seen::new();
        writer.returned.clear();
        writer.hidden = Some(Hidden::default());
        for part in &self.parts {
            if let (Plan::Locking(plan), Some(schema)) = (&part.plan, &part.schema) {
                let batches = Box::pin(plan.run(writer)).await?;
                writer.returned.push(one_batch(&batches, schema)?);
                continue;
            }
            if let (Plan::Query(query), Some(schema)) = (&part.plan, &part.schema) {
                let batches = Box::pin(read(query, writer)).await?;
                writer.returned.push(one_batch(&batches, schema)?);
                continue;
            }
            let written = Box::pin(collect(&part.plan, writer, &mut pending, &mut seen)).await?;
            if let (Some(schema), Some(fields)) = (&part.schema, part.plan.fields()) {
                let rows = written.returned.unwrap_or_default();
                writer.returned.push(batch_of(fields, schema, &rows)?);
            }
        }
        let done = match &self.main {
            Plan::Query(query) => Done::Batches(Box::pin(read(query, writer)).await?, self.tag),
            Plan::Locking(plan) => Done::Batches(Box::pin(plan.run(writer)).await?, self.tag),
            plan => {
                let written = Box::pin(collect(plan, writer, &mut pending, &mut seen)).await?;
                Done::Written(written, tag_of(plan))
            }
        };
        for part in pending {
            match part {
                Pending::Insert(plan, rows) => plan.inserter.insert(writer, &rows).await?,
                Pending::Modify(plan, view, mut targets) => {
                    let count = targets.rids.len();
                    Box::pin(plan.write(writer, &view, &mut targets, false)).await?;
                    if targets.rids.len() < count {
                        return Err(Stop::Restart);
                    }
                }
            }
        }
        Ok(done)
    }
}

/// What a part that locks has answered.
fn one_batch(batches: &[RecordBatch], schema: &SchemaRef) -> Result<RecordBatch, SqlError> {
    let convert = |batch: &RecordBatch| {
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        RecordBatch::try_new_with_options(schema.clone(), columns, &options)
    };
    let batches = batches.iter().map(convert).collect::<Result<Vec<_>, ArrowError>>();
    batches
        .and_then(|batches| concat_batches(schema, &batches))
        .map_err(|e| SqlError::new(SqlState::INTERNAL_ERROR, e.to_string()))
}

fn tag_of(plan: &Plan) -> TagKind {
    match plan {
        Plan::Insert(_) => TagKind::Insert,
        Plan::Update(_) => TagKind::Update,
        Plan::Delete(_) => TagKind::Delete,
        Plan::Merge(_) => TagKind::Merge,
        Plan::Select(_) | Plan::Query(_) | Plan::With(_) | Plan::Locking(_) => TagKind::Select,
    }
}

/// All rows of the query at the end.
async fn read(query: &QueryPlan, writer: &mut Writer<'_>) -> Result<Vec<RecordBatch>, Stop> {
    let mut stream = query.run_within(writer).await?;
    let mut batches = Vec::new();
    while let Some(batch) = next(&mut stream, writer.limits).await? {
        batches.push(batch);
    }
    Ok(batches)
}

/// The rows that a part writes, and returns.
async fn collect<'p>(
    plan: &'p Plan,
    writer: &mut Writer<'_>,
    pending: &mut Vec<Pending<'p>>,
    seen: &mut Seen,
) -> Result<Written, Stop> {
    match plan {
        Plan::Insert(plan) if plan.on_conflict.is_some() => plan.run(writer).await,
        Plan::Insert(plan) => {
            let rows = plan.rows(writer).await?;
            let returned = plan.returned(&rows, writer.eval)?;
            let written = Written { rows: rows.len() as u64, returned };
            pending.push(Pending::Insert(plan, rows));
            Ok(written)
        }
        Plan::Update(plan) | Plan::Delete(plan) => {
            let (view, mut targets) = plan.gather(writer).await?;
            // Of two parts that write a row the first one does.
            let space = plan.table.def.space;
            let again = targets.rids.iter().enumerate();
            let again = again.filter(|(_, rid)| !seen.insert((space, **rid)));
            let again: Vec<usize> = again.map(|(at, _)| at).collect();
            targets.remove(&again);
            let returned = plan.all_returned(&targets, writer.eval)?;
            let written = Written { rows: targets.rids.len() as u64, returned };
            pending.push(Pending::Modify(plan, view, targets));
            Ok(written)
        }
        Plan::Select(plan) if plan.locks() => {
            let rows = plan.run_locking(writer).await?;
            Ok(Written { rows: rows.len() as u64, returned: Some(rows) })
        }
        Plan::Select(_) | Plan::Query(_) | Plan::With(_) | Plan::Merge(_) | Plan::Locking(_) => {
            Err(SqlError::unsupported("this statement in WITH").into())
        }
    }
}
