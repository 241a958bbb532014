//! Queries that DataFusion plans and runs, as the session and as INSERT … SELECT use them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::TableScan;
use datafusion::sql::sqlparser::ast::Query;
use froglet_engine::{Row, Snapshot, Value};
use froglet_schema::{ObjectId, SqlType};
use froglet_txn::{Limits, aside};
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::apply::{Stop, Writer};
use crate::columnar::{Convert, TimeLimits, Unstarted};
use crate::error::SqlError;
use crate::explain::{self, ExplainOptions};
use crate::functions::SessionState;
use crate::insert_plan::CastTarget;
use crate::plan::Planner;
use crate::prepared::Field;
use crate::query::{self, PlannedQuery, QueryEnv};
use crate::types::Zone;
use crate::types::cast::{CastContext, assignable, not_assignable};
use crate::types::{cast_array, value_at};
use crate::units::{self, Source};

/// Batches as they come.
pub(crate) type BatchStream = BoxStream<'static, Result<RecordBatch, SqlError>>;

/// A planned query.
pub(crate) struct QueryPlan {
    planned: PlannedQuery,
    fields: Arc<[Field]>,
}

impl QueryPlan {
    /// Plans a query; with it the types of its parameters.
    pub(crate) async fn plan(
        planner: &mut Planner<'_>,
        query: &Query,
        given: &[SqlType],
    ) -> Result<(QueryPlan, Vec<SqlType>), Stop> {
        Ok(aside(|| QueryPlan::plan_for(planner, query, given, &[]))?)
    }

    /// Plans a query whose columns go into columns of these types.
    fn plan_for(
        planner: &Planner<'_>,
        query: &Query,
        given: &[SqlType],
        targets: &[SqlType],
    ) -> Result<(QueryPlan, Vec<SqlType>), SqlError> {
        let mut env = QueryEnv::new(planner.catalog.clone(), planner.session.clone());
        env.returned_schemas.clone_from(&planner.returned);
        let planned = query::plan(query, &env, given, targets)?;
        let params = planned.params().to_vec();
        let mut fields = planned.fields().to_vec();
        for (field, origin) in fields.iter_mut().zip(crate::select::origins(planner, query)) {
            if let Some((table, at)) = origin {
                field.table = table;
                field.attnum = i16::try_from(at + 1).unwrap_or(0);
            }
        }
        Ok((QueryPlan { planned, fields: fields.into() }, params))
    }

    pub(crate) fn fields(&self) -> &Arc<[Field]> {
        &self.fields
    }

    /// The table of a column of its result.
    pub(crate) fn qualifier(&self, at: usize) -> Option<String> {
        let (qualifier, _) = self.planned.logical().schema().iter().nth(at)?;
        qualifier.map(|qualifier| qualifier.table().to_owned())
    }

    /// The Arrow schema of its batches.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.planned.schema()
    }

    /// Everything that it needs to be run later.
    pub(crate) fn unstarted(
        &self,
        session: &Arc<SessionState>,
        snapshot: Arc<Snapshot>,
        params: &[Value],
        convert: Option<Convert>,
        zone: Zone,
        time: TimeLimits,
    ) -> Unstarted {
        let env = QueryEnv::new(session.catalog_now(), session.clone());
        let params = params[..params.len().min(self.planned.params().len())].to_vec();
        Unstarted { planned: self.planned.clone(), env, snapshot, params, convert, zone, time }
    }

    /// Starts it. The stream keeps what it needs.
    pub(crate) async fn run(
        &self,
        session: &Arc<SessionState>,
        snapshot: Arc<Snapshot>,
        params: &[Value],
        limits: &Limits,
    ) -> Result<BatchStream, Stop> {
        let env = QueryEnv::new(session.catalog_now(), session.clone());
        // Parameters of RETURNING, say, are not the query's.
        let params = &params[..params.len().min(self.planned.params().len())];
        Ok(self.planned.run(&env, snapshot, params, limits)?.boxed())
    }

    /// Starts it within a statement that writes.
    pub(crate) async fn run_within(&self, writer: &mut Writer<'_>) -> Result<BatchStream, Stop> {
        let snapshot = writer.txn.part().snapshot().clone();
        let mut env = QueryEnv::new(writer.session.catalog_now(), writer.session.clone());
        env.returned.clone_from(&writer.returned);
        env.hidden = writer.hidden.clone().unwrap_or_default();
        let params = writer.eval.values();
        let params = &params[..params.len().min(self.planned.params().len())];
        Ok(self.planned.run(&env, snapshot, params, writer.limits)?.boxed())
    }

    /// The plan as EXPLAIN (VERBOSE, FORMAT JSON) has it.
    pub(crate) fn tree(&self, params: &[Value]) -> Result<serde_json::Value, SqlError> {
        let params = &params[..params.len().min(self.planned.params().len())];
        explain::tree(&self.planned, params)
    }

    /// The lines of EXPLAIN.
    pub(crate) async fn explain(
        &self,
        session: &Arc<SessionState>,
        snapshot: Arc<Snapshot>,
        params: &[Value],
        options: ExplainOptions,
        limits: &Limits,
    ) -> Result<Vec<String>, SqlError> {
        let env = QueryEnv::new(session.catalog_now(), session.clone());
        let params = &params[..params.len().min(self.planned.params().len())];
        explain::explain(&self.planned, &env, snapshot, params, options, limits).await
    }
}

/// A query whose rows are assigned to columns.
pub(crate) struct RowsQuery {
    plan: QueryPlan,
    targets: Vec<CastTarget>,
}

impl RowsQuery {
    pub(crate) async fn plan(
        planner: &mut Planner<'_>,
        query: &Query,
        given: &[SqlType],
        targets: &[SqlType],
    ) -> Result<(RowsQuery, Vec<SqlType>), Stop> {
        let planned = aside(|| QueryPlan::plan_for(planner, query, given, targets));
        let (plan, params) = planned?;
        Ok((RowsQuery { plan, targets: Vec::new() }, params))
    }

    /// How many columns it has.
    pub(crate) fn width(&self) -> usize {
        self.plan.fields().len()
    }

    /// Its columns are assigned to these; 42804 where one cannot be.
    pub(crate) fn cast_to(mut self, targets: Vec<CastTarget>) -> Result<RowsQuery, SqlError> {
        for (field, (name, _, to)) in self.plan.fields().iter().zip(&targets) {
            if !assignable(field.sql_type.oid, to.oid) {
                return Err(not_assignable(name, *to, field.sql_type));
            }
        }
        self.targets = targets;
        Ok(self)
    }

    /// Whether it reads rows of a table, or of one that is made of it while it is read.
    pub(crate) fn may_read(&self, table: ObjectId) -> bool {
        let is_such = |scan: &TableScan| match Source::of(scan) {
            Some(Source::Table(read)) => read.def.id == table || read.def.is_being_made(),
            _ => false,
        };
        units::reads(self.plan.planned.logical(), is_such).unwrap_or(true)
    }

    /// Starts it.
    pub(crate) async fn start(&self, writer: &mut Writer<'_>) -> Result<BatchStream, Stop> {
        self.plan.run_within(writer).await
    }

    /// Its next rows, cast. Only a batch of them is in memory, and what is taken of that.
    pub(crate) async fn next(
        &self,
        stream: &mut BatchStream,
        limits: &Limits,
    ) -> Result<Option<impl Iterator<Item = Row>>, SqlError> {
        let Some(batch) = next(stream, limits).await? else { return Ok(None) };
        let mut columns = Vec::with_capacity(self.targets.len());
        for (array, (_, ty, sql_type)) in batch.columns().iter().zip(&self.targets) {
            columns.push((cast_array(array, *ty, *sql_type, CastContext::Assignment)?, *ty));
        }
        let row = move |at| columns.iter().map(|(array, ty)| value_at(array, at, *ty)).collect();
        Ok(Some((0..batch.num_rows()).map(row)))
    }
}

/// The next batch, unless a limit is passed first.
pub(crate) async fn next(
    stream: &mut BatchStream,
    limits: &Limits,
) -> Result<Option<RecordBatch>, SqlError> {
    tokio::select! {
        biased;
        e = limits.exceeded() => Err(e.into()),
        batch = stream.next() => batch.transpose(),
    }
}
