//! EXPLAIN and EXPLAIN ANALYZE of a query: DataFusion's physical plan, indented, or as JSON.

use std::sync::Arc;
use std::time::Instant;

use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::sql::sqlparser::ast::UtilityOption;
use froglet_engine::Snapshot;
use froglet_txn::Limits;
use futures::StreamExt;
use serde_json::Value;

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
    /// As one JSON document.
    pub json: bool,
}

/// pg_type.oid of json.
pub const JSON: u32 = 114;

/// The options of a statement. What it says of costs, buffers and times changes nothing; an option that
/// is none, or a format that there is not, is the error's name.
pub fn options(
    analyze: bool,
    verbose: bool,
    given: Option<&[UtilityOption]>,
) -> Result<ExplainOptions, String> {
    let mut options = ExplainOptions { analyze, verbose, json: false };
    for option in given.unwrap_or_default() {
        let name = option.name.value.to_ascii_lowercase();
        let value = option.arg.as_ref().map(|arg| arg.to_string().to_ascii_lowercase());
        let value = value.as_deref().map(|value| value.trim_matches('\''));
        let on = !matches!(value, Some("off" | "false" | "0"));
        match name.as_str() {
            "analyze" => options.analyze = on,
            "verbose" => options.verbose = on,
            "format" => match value {
                Some("json") => options.json = true,
                Some("text") => options.json = false,
                other => return Err(format!("EXPLAIN (FORMAT {})", other.unwrap_or_default())),
            },
            "costs" | "buffers" | "settings" | "summary" | "timing" | "wal" => {}
            other => return Err(format!("EXPLAIN ({other})")),
        }
    }
    Ok(options)
}

/// The lines of a plan as PostgreSQL's JSON: a node, and within it those that are indented below it; or its `tree`,
/// and the lines as details.
pub fn as_json(lines: &[String], tree: Option<Value>) -> String {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let nodes: Vec<(usize, &str)> =
        lines.iter().filter(|line| !line.trim().is_empty()).map(|l| (depth(l), l.trim())).collect();
    let mut at = 0;
    let mut plans = Vec::new();
    while at < nodes.len() {
        plans.push(node(&nodes, &mut at));
    }
    let first = match tree {
        Some(tree) => tree,
        None if plans.is_empty() => Value::Null,
        None => plans.remove(0),
    };
    let mut document = serde_json::json!({ "Plan": first });
    if !plans.is_empty() {
        document["Details"] = plans.into();
    }
    serde_json::to_string_pretty(&serde_json::json!([document])).unwrap_or_default()
}

fn node(nodes: &[(usize, &str)], at: &mut usize) -> Value {
    let (depth, line) = nodes[*at];
    *at += 1;
    let line = line.trim_start_matches("->").trim_start();
    let (kind, details) = line.split_once(": ").unwrap_or((line, ""));
    let mut object = serde_json::json!({ "Node Type": kind });
    if !details.is_empty() {
        object["Details"] = details.into();
    }
    let mut plans = Vec::new();
    while nodes.get(*at).is_some_and(|(inner, _)| *inner > depth) {
        plans.push(node(nodes, at));
    }
    if !plans.is_empty() {
        object["Plans"] = plans.into();
    }
    object
}

/// The plan of a query with its parameters bound, as a tree.
pub fn tree(query: &PlannedQuery, params: &[froglet_engine::Value]) -> Result<Value, SqlError> {
    Ok(crate::explain_json::node(&query.bound(params)?))
}

/// The lines of QUERY PLAN.
pub async fn explain(
    query: &PlannedQuery,
    env: &QueryEnv,
    snapshot: Arc<Snapshot>,
    params: &[froglet_engine::Value],
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
