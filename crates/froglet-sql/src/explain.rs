//! EXPLAIN and EXPLAIN ANALYZE of a query: DataFusion's physical plan, indented.

use std::sync::Arc;
use std::time::Instant;

use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::execute_stream;
use froglet_engine::{Snapshot, Value};
use froglet_txn::Limits;
use futures::StreamExt;

use crate::df_error::map_df_error;
use crate::error::SqlError;
use crate::query::{PlannedQuery, QueryEnv};
use crate::query_run;

/// What EXPLAIN was asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExplainOptions {
    /// Run it, and say what it took.
    pub analyze: bool,
    /// The logical plan too.
    pub verbose: bool,
}

/// The lines of QUERY PLAN.
pub async fn explain(
    query: &PlannedQuery,
    env: &QueryEnv,
    snapshot: Arc<Snapshot>,
    params: &[Value],
    options: ExplainOptions,
    limits: &Limits,
) -> Result<Vec<String>, SqlError> {
    let started = Instant::now();
    let (plan, state) = query.ready(env, snapshot, params)?;
    let limits = limits.clone();
    let work = async move {
        let mut lines = Vec::new();
        if options.verbose {
            lines.push("Logical plan".to_owned());
            lines.extend(plan.display_indent().to_string().lines().map(|l| format!("  {l}")));
            lines.push("Physical plan".to_owned());
        }
        let physical = query_run::physical(&plan, &state).await?;
        let planned = started.elapsed();
        if !options.analyze {
            let shown = DisplayableExecutionPlan::new(physical.as_ref()).indent(false).to_string();
            lines.extend(shown.lines().map(str::to_owned));
            return Ok(lines);
        }
        let running = Instant::now();
        let mut stream = execute_stream(physical.clone(), query_run::task_context(&state))
            .map_err(map_df_error)?;
        let mut rows = 0;
        while let Some(batch) = stream.next().await {
            rows += batch.map_err(map_df_error)?.num_rows();
        }
        let ran = running.elapsed();
        let shown =
            DisplayableExecutionPlan::with_metrics(physical.as_ref()).indent(false).to_string();
        lines.extend(shown.lines().map(str::to_owned));
        lines.push(format!("Rows: {rows}"));
        lines.push(format!("Planning Time: {:.3} ms", planned.as_secs_f64() * 1e3));
        lines.push(format!("Execution Time: {:.3} ms", ran.as_secs_f64() * 1e3));
        Ok(lines)
    };
    let task = query_run::runtime().spawn(query_run::guard(work));
    let abort = task.abort_handle();
    tokio::select! {
        biased;
        e = limits.exceeded() => {
            abort.abort();
            Err(e.into())
        }
        outcome = task => outcome.unwrap_or_else(|e| {
            Err(SqlError::new(froglet_engine::SqlState::INTERNAL_ERROR, e.to_string()))
        }),
    }
}
