//! What COPY … TO reads: a table's columns or a query, as batches.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::Query;
use datafusion::sql::sqlparser::parser::Parser;
use froglet_engine::SqlState;
use froglet_schema::{SchemaError, TableDef};
use froglet_txn::Limits;

use super::options::CopyOptions;
use super::parse::{Copy, Source};
use super::progress::Shown;
use crate::apply::Stop;
use crate::command::Command;
use crate::dialect::Postgres;
use crate::error::SqlError;
use crate::plan::Planner;
use crate::prepared::Field;
use crate::privileges::check::check_query;
use crate::query_rows::{self, BatchStream, QueryPlan};
use crate::resolve::{self, Names};
use crate::session::Session;
use crate::stored;
use crate::udf::lookup::quoted;
use crate::write::table_locks;

/// A query under way.
pub(super) struct Reading {
    stream: BatchStream,
    pub(super) fields: Arc<[Field]>,
    /// Of its batches.
    pub(super) schema: SchemaRef,
    pub(super) limits: Limits,
    pub(super) progress: Shown,
}

impl Reading {
    /// Plans and starts it, under the snapshot of a statement that begins now.
    pub(super) async fn begin(
        session: &mut Session,
        copy: &Copy,
        options: &CopyOptions,
        file: bool,
    ) -> Result<Reading, SqlError> {
        session.transaction()?;
        let limits = session.limits();
        let db = session.db.clone();
        let path = session.settings.hot().search_path.clone();
        let txn = session.txn.as_mut().expect("just begun");
        let version = db.catalog().begin_statement(txn, false, &limits).await?;
        session.state.set_catalog(&version, txn.id().0, &limits);
        let names = Names { catalog: &version, path: &path };
        let (query, table) = query(&copy.source, &names)?;
        check_query(&session.state, &names, &query)?;
        let uses = table_locks::uses_of(&names, &Command::Query(Box::new(query.clone())));
        if session.enter_uses(&uses, &limits).await? {
            return Box::pin(Reading::begin(session, copy, options, file)).await;
        }
        let mut planner = Planner {
            catalog: &version,
            path: &path,
            fast: false,
            session: &session.state,
            returned: Vec::new(),
        };
        let error = |stop| match stop {
            Stop::Error(e) => e,
            Stop::Restart => SqlError::from(SchemaError::Stale),
        };
        let (plan, _) = QueryPlan::plan(&mut planner, &query, &[]).await.map_err(error)?;
        let copied = plan.fields().iter().map(|field| field.name.as_str());
        options.force_quote.check("FORCE_QUOTE", table, copied)?;
        let relid = table.map_or(0, |table| table.id);
        let txn = session.txn.as_mut().expect("just begun");
        let snapshot = txn.snapshot();
        let stream = plan.run(&session.state, snapshot, &[], &limits).await.map_err(error)?;
        db.catalog().end_statement(txn);
        let progress = Shown::begin(&session.shared, relid, true, file);
        let (fields, schema) = (plan.fields().clone(), plan.schema().clone());
        Ok(Reading { stream, fields, schema, limits, progress })
    }

    /// The next batch; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>, SqlError> {
        query_rows::next(&mut self.stream, &self.limits).await
    }
}

/// The query, and the table if it is one.
fn query<'a>(
    source: &Source,
    names: &Names<'a>,
) -> Result<(Query, Option<&'a TableDef>), SqlError> {
    let (name, columns) = match source {
        Source::Query(query) => return Ok(((**query).clone(), None)),
        Source::Table { name, columns } => (name, columns),
    };
    let table = names.table(name)?;
    let is_generated =
        |at: usize| stored::default_kind(&table.def.columns[at]) == stored::DefaultKind::Generated;
    let column = |at: usize| quoted(&table.def.columns[at].name);
    let mut list = Vec::new();
    for ident in columns {
        let at = resolve::column(&table.def, ident)?;
        if is_generated(at) {
            let column = &table.def.columns[at].name;
            let message = format!("column \"{column}\" is a generated column");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                .detail("Generated columns cannot be used in COPY.")
                .hint("Use COPY (SELECT …) TO."));
        }
        list.push(column(at));
    }
    if list.is_empty() {
        let stored = (0..table.def.columns.len()).filter(|at| !is_generated(*at));
        list.extend(stored.map(column));
    }
    let (schema, name) = (quoted(&table.def.schema), quoted(&table.def.name));
    let text = format!("SELECT {} FROM {schema}.{name}", list.join(", "));
    let parsed =
        Parser::new(&Postgres).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
    match parsed {
        Ok(query) => Ok((*query, Some(&table.def))),
        Err(e) => Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("{e} in {text}"))),
    }
}
