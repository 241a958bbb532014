//! Pinned results. See the module above.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::execution::SessionState as QueryState;
use datafusion::logical_expr::LogicalPlan;
use froglet_engine::{Snapshot, Value};
use froglet_txn::{CancelToken, Limits, TxnManager};
use futures::StreamExt;

use super::edge::{STRING_BYTES_MAX, Strings, conform, string_pieces};
use super::parts::Parts;
use crate::error::SqlError;
use crate::query::{PlannedQuery, QueryEnv};
use crate::query_rows::BatchStream;
use crate::query_run;
use crate::types::zone::{self, Zone};

/// What becomes of each batch before it is a result's.
pub(crate) type Convert = Arc<dyn Fn(RecordBatch) -> Result<RecordBatch, SqlError> + Send + Sync>;

pub(crate) fn converted(stream: BatchStream, convert: Option<Convert>) -> BatchStream {
    match convert {
        None => stream,
        Some(convert) => stream.map(move |batch| batch.and_then(|batch| convert(batch))).boxed(),
    }
}

/// A query with all that it needs to run.
#[derive(Clone)]
pub(crate) struct Unstarted {
    pub(crate) planned: PlannedQuery,
    pub(crate) env: QueryEnv,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) params: Vec<Value>,
    /// To the types that the statement was described with.
    pub(crate) convert: Option<Convert>,
    pub(crate) zone: Zone,
    pub(crate) time: TimeLimits,
}

/// Limits of a statement that has not begun.
#[derive(Clone)]
pub(crate) struct TimeLimits {
    pub(crate) lock_timeout: Option<Duration>,
    pub(crate) statement_timeout: Option<Duration>,
    pub(crate) cancel: Arc<CancelToken>,
}

impl TimeLimits {
    /// Of one that begins now.
    pub(crate) fn begin(&self) -> Limits {
        Limits {
            lock_timeout: self.lock_timeout,
            deadline: self.statement_timeout.map(|timeout| Instant::now() + timeout),
            cancel: self.cancel.clone(),
        }
    }
}

impl Unstarted {
    pub(crate) fn logical(&self) -> &LogicalPlan {
        self.planned.logical()
    }

    /// The types of its batches, where these are as planned.
    pub(crate) fn schema(&self) -> Option<&SchemaRef> {
        self.convert.is_none().then(|| self.planned.schema())
    }

    /// To run in so many partitions.
    pub(crate) fn ready(&self, partitions: usize) -> Result<(LogicalPlan, QueryState), SqlError> {
        let env = QueryEnv { target_partitions: partitions, ..self.env.clone() };
        self.zone.run(|| self.planned.ready(&env, self.snapshot.clone(), &self.params))
    }

    /// Runs it.
    pub(crate) fn start(&self, limits: &Limits) -> Result<BatchStream, SqlError> {
        let run = || self.planned.run(&self.env, self.snapshot.clone(), &self.params, limits);
        Ok(self.converted(self.zone.run(run)?.boxed()))
    }

    fn start_part(&self, parts: &Parts, part: usize, limits: Limits) -> BatchStream {
        let schema = self.planned.schema().clone();
        let (plan, context) = (parts.plan.clone(), parts.context.clone());
        let run = || query_run::spawn_partition(plan, context, part, schema, limits);
        self.converted(self.zone.run(run).boxed())
    }

    fn converted(&self, stream: BatchStream) -> BatchStream {
        converted(stream, self.convert.clone())
    }
}

pub(super) enum Source {
    Rows(Vec<RecordBatch>),
    Query { query: Box<Unstarted>, parts: Option<Parts> },
}

/// A result whose rows can be fetched.
pub struct Pinned {
    pub(super) schema: Schema,
    pub(super) source: Source,
    pub(super) manager: Arc<TxnManager>,
    /// `synchronous_commit`
    pub(super) durable: bool,
}

impl Pinned {
    /// The schema of its batches.
    pub fn schema(&self, strings: Strings) -> SchemaRef {
        strings.of(&self.schema)
    }

    /// In how many parts it can be fetched; together they are its rows.
    pub fn parts(&self) -> usize {
        match &self.source {
            Source::Query { parts: Some(parts), .. } => parts.count,
            Source::Query { parts: None, .. } | Source::Rows(_) => 1,
        }
    }

    /// How many rows it has, if that is known.
    pub fn rows(&self) -> Option<usize> {
        match &self.source {
            Source::Rows(batches) => Some(batches.iter().map(RecordBatch::num_rows).sum()),
            Source::Query { .. } => None,
        }
    }

    /// With all its rows, for whoever cannot wait.
    pub(super) async fn collected(self) -> Result<Pinned, SqlError> {
        let mut rows = Vec::new();
        self.read(|batch| rows.push(batch)).await?;
        Ok(Pinned { source: Source::Rows(rows), ..self })
    }

    /// How many rows it turns out to have, when it is read to its end.
    pub async fn count(&self) -> Result<u64, SqlError> {
        let mut rows = 0;
        self.read(|batch| rows += batch.num_rows() as u64).await?;
        Ok(rows)
    }

    async fn read(&self, mut each: impl FnMut(RecordBatch)) -> Result<(), SqlError> {
        for part in 0..self.parts() {
            let mut batches = self.open(part, Strings::Views)?;
            while let Some(batch) = batches.next().await? {
                each(batch);
            }
        }
        Ok(())
    }

    /// Runs a part. `part` is below [`Pinned::parts`].
    pub fn open(&self, part: usize, strings: Strings) -> Result<Batches, SqlError> {
        let schema = self.schema(strings);
        let (stream, limits, zone, view) = match &self.source {
            Source::Rows(batches) => {
                let batches: Vec<_> = batches.iter().cloned().map(Ok).collect();
                (futures::stream::iter(batches).boxed(), None, Zone::UTC, None)
            }
            Source::Query { query, parts } => {
                let limits = query.time.begin();
                let stream = match parts {
                    None => query.start(&limits)?,
                    Some(parts) => query.start_part(parts, part, limits.clone()),
                };
                (stream, Some(limits), query.zone, Some(query.snapshot.clone()))
            }
        };
        let manager = self.durable.then(|| self.manager.clone());
        Ok(Batches { schema, stream, limits, zone, view, manager, ready: VecDeque::new() })
    }
}

impl std::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pinned({} columns, {} parts)", self.schema.fields().len(), self.parts())
    }
}

/// Batches of a result as they come.
pub struct Batches {
    schema: SchemaRef,
    stream: BatchStream,
    limits: Option<Limits>,
    zone: Zone,
    view: Option<Arc<Snapshot>>,
    manager: Option<Arc<TxnManager>>,
    /// What is left of a batch that was too long.
    ready: VecDeque<RecordBatch>,
}

impl Batches {
    /// Their schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next one; `None` after the last. After an error there is nothing more to ask for.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        if let Some(batch) = self.ready.pop_front() {
            return conform(&batch, &self.schema).map(Some);
        }
        let batch = match &self.limits {
            None => self.stream.next().await.transpose(),
            Some(limits) => {
                let stream = &mut self.stream;
                let next = pin!(crate::query_rows::next(stream, limits));
                zone::scope(self.zone, next).await
            }
        };
        // An error, too, may rest on a commit that is not durable yet.
        if let (Some(view), Some(manager)) = (&self.view, &self.manager) {
            let seen = view.newest_seen();
            if !manager.is_durable(seen) {
                manager.wait_durable_ts(seen).await?;
            }
        }
        let Some(batch) = batch? else { return Ok(None) };
        self.ready = string_pieces(batch, STRING_BYTES_MAX).into();
        let first = self.ready.pop_front();
        first.map(|batch| conform(&batch, &self.schema)).transpose()
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Batches({} columns)", self.schema.fields().len())
    }
}
