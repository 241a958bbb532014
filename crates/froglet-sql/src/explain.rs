//! EXPLAIN and EXPLAIN ANALYZE of a query: DataFusion's physical plan, indented, or as JSON.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::sql::sqlparser::ast::UtilityOption;
use froglet_engine::{Snapshot, SqlState};
use froglet_txn::Limits;
use futures::StreamExt;
use serde_json::Value;

use crate::command::fold;
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
    /// Without the times of each step.
    pub untimed: bool,
    /// How long planning and running took; as PostgreSQL, by itself with `analyze` only.
    pub summary: Option<bool>,
}

impl ExplainOptions {
    /// Whether the times of the whole are told.
    pub fn says_times(&self) -> bool {
        self.summary.unwrap_or(self.analyze)
    }
}

/// An option of EXPLAIN that cannot be.
#[derive(Debug, Clone)]
pub enum BadOption {
    /// There is no such option.
    Unknown(String),
    /// Its value is neither true nor false.
    NotBoolean(String),
    /// There is no such format.
    UnknownFormat(String),
    /// PostgreSQL has the format.
    Format(String),
    /// It says something of running, and nothing is run.
    NeedsAnalyze(&'static str),
}

impl From<BadOption> for SqlError {
    fn from(option: BadOption) -> SqlError {
        match option {
            BadOption::Unknown(name) => SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("unrecognized EXPLAIN option \"{name}\""),
            ),
            BadOption::NotBoolean(name) => {
                SqlError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value"))
            }
            BadOption::UnknownFormat(format) => SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("unrecognized value for EXPLAIN option \"format\": \"{format}\""),
            ),
            BadOption::Format(format) => {
                SqlError::unsupported(format!("EXPLAIN (FORMAT {format})"))
            }
            BadOption::NeedsAnalyze(name) => SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("EXPLAIN option {name} requires ANALYZE"),
            ),
        }
    }
}

/// pg_type.oid of json.
pub const JSON: u32 = 114;

/// The options of a statement. What it says of costs, buffers and settings changes nothing.
pub fn options(
    analyze: bool,
    verbose: bool,
    given: Option<&[UtilityOption]>,
) -> Result<ExplainOptions, BadOption> {
    let mut options = ExplainOptions { analyze, verbose, ..ExplainOptions::default() };
    let (mut timing, mut wal) = (None, false);
    for option in given.unwrap_or_default() {
        let name = fold(&option.name);
        let value = option.arg.as_ref().map(|arg| arg.to_string().to_ascii_lowercase());
        let value = value.as_deref().map(|value| value.trim_matches('\''));
        let on = || match value {
            None | Some("on" | "true" | "1") => Ok(true),
            Some("off" | "false" | "0") => Ok(false),
            Some(_) => Err(BadOption::NotBoolean(name.clone())),
        };
        match name.as_str() {
            "analyze" => options.analyze = on()?,
            "verbose" => options.verbose = on()?,
            "summary" => options.summary = Some(on()?),
            "timing" => timing = Some(on()?),
            "wal" => wal = on()?,
            "costs" | "buffers" | "settings" => _ = on()?,
            "format" => match value {
                Some("json") => options.json = true,
                Some("text") => options.json = false,
                Some(known @ ("xml" | "yaml")) => return Err(BadOption::Format(known.to_owned())),
                other => {
                    return Err(BadOption::UnknownFormat(other.unwrap_or_default().to_owned()));
                }
            },
            _ => return Err(BadOption::Unknown(name)),
        }
    }
    match (options.analyze, wal, timing) {
        (false, true, _) => return Err(BadOption::NeedsAnalyze("WAL")),
        (false, _, Some(true)) => return Err(BadOption::NeedsAnalyze("TIMING")),
        _ => options.untimed = timing == Some(false),
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
            if options.says_times() {
                lines.push(planning(planned));
            }
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
        lines.extend(shown.lines().map(|line| match options.untimed {
            true => without_times(line),
            false => line.to_owned(),
        }));
        lines.push(format!("Rows: {rows}"));
        if options.says_times() {
            lines.push(planning(planned));
            lines.push(execution(ran));
        }
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

fn planning(took: Duration) -> String {
    format!("Planning Time: {:.3} ms", took.as_secs_f64() * 1e3)
}

/// How long running took.
pub(crate) fn execution(took: Duration) -> String {
    format!("Execution Time: {:.3} ms", took.as_secs_f64() * 1e3)
}

/// A line of metrics without those that are times.
fn without_times(line: &str) -> String {
    let Some((node, metrics)) = line.split_once("metrics=[") else { return line.to_owned() };
    let is_time = |metric: &&str| {
        let name = metric.split('=').next().unwrap_or_default();
        name.ends_with("_time") || name.starts_with("elapsed_")
    };
    let kept = metrics.trim_end_matches(']').split(", ").filter(|metric| !is_time(metric));
    format!("{node}metrics=[{}]", kept.collect::<Vec<_>>().join(", "))
}
