//! EXPLAIN of queries and of data changes.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Statement;
use froglet_engine::{Asked, Snapshot, Value};
use froglet_schema::SqlType;
use froglet_txn::aside;

use crate::apply::Stop;
use crate::bind::{self, text_fields};
use crate::command::{Command, fold};
use crate::context::EvalContext;
use crate::control;
use crate::error::SqlError;
use crate::explain::{self, ExplainOptions};
use crate::modify::Source;
use crate::plan::{self, Plan, Planner};
use crate::prepared::{Field, Prepared};
use crate::session::Session;
use crate::stream::{Outcome, RowStream, TagKind};
use crate::types;

pub(crate) async fn run(
    session: &mut Session,
    options: ExplainOptions,
    explained: Explained,
) -> Result<Outcome, SqlError> {
    let analyze = options.analyze;
    let Explained { command, given, params } = explained;
    session.transaction()?;
    let limits = session.limits();
    let db = session.db.clone();
    let catalog = db.catalog();
    let hot = session.settings.hot().clone();
    let txn = session.txn.as_mut().expect("just begun");
    let version = catalog.begin_statement(txn, false, &limits).await?;
    session.state.set_catalog(&version, txn.id().0, &limits);
    let mut planner = Planner {
        catalog: &version,
        path: &hot.search_path,
        fast: hot.fast_path,
        session: &session.state,
        returned: Vec::new(),
    };
    let planned = plan::plan(&mut planner, &command, &given).await.map_err(|stop| match stop {
        Stop::Error(e) => e,
        Stop::Restart => SqlError::from(froglet_schema::SchemaError::Stale),
    })?;
    let Some((plan, _)) = planned else {
        return Err(SqlError::unsupported("EXPLAIN of this statement"));
    };
    if let Some(denied) = session.refusal(&command, &version) {
        return Err(*denied);
    }
    let tree = match &plan {
        Plan::Query(query) if options.json && options.verbose => Some(query.tree(&params)?),
        Plan::Locking(plan) if options.json && options.verbose => Some(plan.query().tree(&params)?),
        _ => None,
    };
    let lines = match &plan {
        Plan::Query(query) => {
            let snapshot = session.txn.as_mut().expect("just begun").snapshot();
            let asked = analyze.then(|| Asking::of(&snapshot));
            let mut lines =
                query.explain(&session.state, snapshot, &params, options, &limits).await?;
            lines.extend(asked.and_then(|asked| asked.line()));
            lines
        }
        Plan::Select(select) if analyze => {
            let types: Arc<[SqlType]> = given.into();
            let context = EvalContext::with_params(session.state.clone(), params, &types);
            let snapshot = session.txn.as_mut().expect("just begun").snapshot();
            let (begun, asked) = (std::time::Instant::now(), Asking::of(&snapshot));
            let ran = aside(|| select.run(&snapshot, &context, &limits, usize::MAX))?;
            let rows = match ran {
                crate::select::Found::Rows(rows) => rows.len(),
                crate::select::Found::Many => 0,
            };
            let mut lines = select.describe();
            lines[0].push_str(&format!("  (actual rows={rows})"));
            lines.extend(asked.line());
            if options.says_times() {
                lines.push(explain::execution(begun.elapsed()));
            }
            lines
        }
        _ if analyze => return Err(SqlError::unsupported("EXPLAIN ANALYZE of a data change")),
        Plan::Locking(plan) => {
            let snapshot = session.txn.as_mut().expect("just begun").snapshot();
            plan.query().explain(&session.state, snapshot, &params, options, &limits).await?
        }
        Plan::Select(select) => select.describe(),
        Plan::Insert(insert) => vec![format!("Insert on {}", insert.inserter.table.def.name)],
        Plan::Update(modify) => describe("Update", modify),
        Plan::Delete(modify) => describe("Delete", modify),
        Plan::Merge(merge) => vec![format!("Merge on {}", merge.name)],
        Plan::With(_) => return Err(SqlError::unsupported("EXPLAIN of WITH that writes")),
    };
    if let Some(txn) = &mut session.txn {
        catalog.end_statement(txn);
    }
    let fields = fields(options);
    let lines = if options.json { vec![explain::as_json(&lines, tree)] } else { lines };
    let rows = lines.into_iter().map(|line| vec![Value::text(line)]).collect();
    Ok(Outcome::Rows(RowStream::ready(fields, rows, TagKind::Word("EXPLAIN"))))
}

/// What a distributed store is asked for a statement.
struct Asking {
    asked: Arc<Asked>,
    /// Before it, under the same view.
    before: (u64, u64, usize),
}

impl Asking {
    fn of(snapshot: &Snapshot) -> Asking {
        let asked = Arc::clone(snapshot.count_asked());
        Asking { before: asked.figures(), asked }
    }

    /// None where it has no part in it.
    fn line(&self) -> Option<String> {
        let (requests, round_trips, regions) = self.asked.figures();
        let (requests, round_trips) = (requests - self.before.0, round_trips - self.before.1);
        (requests > 0).then(|| {
            format!("Store: requests={requests} round trips={round_trips} regions={regions}")
        })
    }
}

/// What is planned.
pub(crate) struct Explained {
    command: Arc<Command>,
    given: Vec<SqlType>,
    params: Vec<Value>,
}

/// The statement with its parameters, or the prepared one that it executes, with its arguments.
pub(crate) fn explained(
    session: &Session,
    prepared: &Prepared,
    statement: &Statement,
    params: Vec<Value>,
) -> Result<Explained, SqlError> {
    if let Some(inner) = &prepared.inner {
        let command = inner.statement.command.clone();
        return Ok(Explained { command, given: inner.params.to_vec(), params });
    }
    let Statement::Execute { name: Some(name), parameters, .. } = statement else {
        let command = Arc::new(Command::from_statement(statement.clone()));
        return Ok(Explained { command, given: Vec::new(), params: Vec::new() });
    };
    let name = name.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
    let target = &bind::named(session, &name)?.prepared;
    let params = control::arguments(session, &name, target, parameters)?;
    let (command, given) = target.to_plan()?;
    Ok(Explained { command, given: given.to_vec(), params })
}

/// The column of a plan.
pub(crate) fn fields(options: ExplainOptions) -> Arc<[Field]> {
    let mut fields = text_fields(&["QUERY PLAN"]).to_vec();
    if let ([field], true) = (&mut fields[..], options.json) {
        field.sql_type = types::plain(explain::JSON);
    }
    fields.into()
}

fn describe(what: &str, plan: &crate::modify::ModifyPlan) -> Vec<String> {
    let table = &plan.table;
    let mut lines = vec![format!("{what} on {}", table.def.name)];
    match &plan.source {
        Source::Short { access, residual, .. } => {
            lines.push(match access {
                Some(access) => {
                    let index = &table.def.indexes[access.index].name;
                    format!("  ->  Index Scan using {index} on {}", table.def.name)
                }
                None => format!("  ->  Seq Scan on {}", table.def.name),
            });
            if residual.is_some() {
                lines.push("        Filter: conditions that the index does not answer".to_owned());
            }
        }
        Source::Query(_) => lines.push("  ->  Query for row ids and new values".to_owned()),
    }
    lines
}
