//! INSERT, and the part of it that COPY shares.

use std::sync::Arc;

use froglet_engine::{Row, Value};
use froglet_schema::TableVersion;
use futures::FutureExt;

use crate::apply::{CHUNK_ROWS, Stop, Writer};
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::expr::RowExpr;
use crate::functions::SessionState;
use crate::modify::Written;
use crate::on_conflict::OnConflict;
use crate::query::account::Gathering;
use crate::returning::OutputList;
use crate::table::Compiled;
use crate::view_write::ViewCheck;
use crate::write::foreignkey::Key;
use crate::{at_once, query_rows};

/// Where the values of INSERT come from.
pub(crate) enum Source {
    /// For each row and each column of `columns`; `None` is DEFAULT.
    Values(Vec<Vec<Option<RowExpr>>>),
    /// A query of as many columns as `columns`.
    Query(Box<query_rows::RowsQuery>),
}

/// What every way of inserting needs of its table.
pub(crate) struct Inserter {
    pub(crate) table: Arc<TableVersion>,
    pub(crate) compiled: Arc<Compiled>,
    /// The columns that are given, in the order of the values.
    pub(crate) columns: Vec<usize>,
    /// The others.
    pub(crate) rest: Vec<usize>,
    pub(crate) keys: Vec<Key>,
    /// WITH CHECK OPTION of views that it is through.
    pub(crate) view_checks: Vec<ViewCheck>,
    pub(crate) through_view: bool,
}

/// A planned INSERT.
pub(crate) struct InsertPlan {
    pub(crate) inserter: Inserter,
    pub(crate) source: Source,
    pub(crate) on_conflict: Option<OnConflict>,
    pub(crate) returning: Option<OutputList>,
}

impl Inserter {
    pub(crate) fn new(
        table: &Arc<TableVersion>,
        compiled: Arc<Compiled>,
        columns: Vec<usize>,
        catalog: &froglet_schema::CatalogVersion,
    ) -> Result<Inserter, SqlError> {
        let rest = (0..table.def.columns.len()).filter(|c| !columns.contains(c)).collect();
        Ok(Inserter {
            table: table.clone(),
            compiled,
            columns,
            rest,
            keys: Key::of_child(table, catalog)?,
            view_checks: Vec::new(),
            through_view: false,
        })
    }

    /// A row in layout order out of given values; defaults, generated columns and the row's own
    /// rules included.
    pub(crate) fn complete(
        &self,
        values: impl Iterator<Item = Result<Option<Value>, SqlError>>,
        context: &EvalContext,
    ) -> Result<Row, SqlError> {
        let mut row = vec![Value::Null; self.table.def.width()];
        for (column, value) in self.columns.iter().zip(values) {
            row[*column] = match value? {
                Some(value) => value,
                None => self.compiled.default(*column, context)?,
            };
        }
        for column in &self.rest {
            row[*column] = self.compiled.default(*column, context)?;
        }
        self.compiled.generate(&mut row, context)?;
        self.compiled.check(&self.table.def, &row, context)?;
        self.check_views(&row, context)?;
        Ok(row)
    }

    pub(crate) fn check_views(&self, row: &[Value], context: &EvalContext) -> Result<(), SqlError> {
        self.view_checks.iter().try_for_each(|check| check.check(&self.table.def, row, context))
    }

    /// Inserts complete rows and holds their parents.
    pub(crate) async fn insert(&self, writer: &mut Writer<'_>, rows: &[Row]) -> Result<(), Stop> {
        if rows.is_empty() {
            return Ok(());
        }
        writer.note(&self.table);
        writer.insert(&self.table, rows).await?;
        if self.keys.is_empty() {
            return Ok(());
        }
        Box::pin(self.hold_parents(writer, rows)).await
    }

    /// The complete rows of a query, all before the first is inserted; in memory until the statement ends.
    pub(crate) async fn all_rows(
        &self,
        query: &query_rows::RowsQuery,
        writer: &mut Writer<'_>,
    ) -> Result<Vec<Row>, Stop> {
        let mut stream = query.start(writer).await?;
        let mut gathering = Gathering::new(&**writer.session);
        let mut all = Vec::new();
        while let Some(given) = query.next(&mut stream, writer.limits).await? {
            for row in given {
                all.push(self.completed(row, writer.eval, &mut gathering)?);
            }
        }
        Ok(all)
    }

    /// Inserts the rows of a query that does not see them, and shows `written` those of each chunk; how many
    /// they are.
    async fn insert_as_they_come(
        &self,
        query: &query_rows::RowsQuery,
        writer: &mut Writer<'_>,
        written: &mut (dyn FnMut(&[Row]) -> Result<(), SqlError> + Send),
    ) -> Result<u64, Stop> {
        let session: &SessionState = writer.session;
        let mut count = 0;
        let mut stream = query.start(writer).await?;
        while let Some(given) = query.next(&mut stream, writer.limits).await? {
            let mut given = given.peekable();
            while given.peek().is_some() {
                let mut gathering = Gathering::new(session);
                let mut rows = Vec::new();
                while rows.len() < CHUNK_ROWS
                    && !gathering.is_large()
                    && let Some(row) = given.next()
                {
                    rows.push(self.completed(row, writer.eval, &mut gathering)?);
                }
                self.insert(writer, &rows).await?;
                count += rows.len() as u64;
                written(&rows)?;
                gathering.written();
            }
        }
        Ok(count)
    }

    /// Fills a table that has no rows with those of a query; how many they are.
    pub(crate) async fn fill(
        &self,
        query: &query_rows::RowsQuery,
        writer: &mut Writer<'_>,
    ) -> Result<u64, Stop> {
        if !query.may_read(self.table.def.id) {
            return self.insert_as_they_come(query, writer, &mut |_| Ok(())).await;
        }
        let rows = self.all_rows(query, writer).await?;
        self.insert(writer, &rows).await?;
        Ok(rows.len() as u64)
    }

    /// A row of a query, complete.
    fn completed(
        &self,
        given: Row,
        context: &EvalContext,
        gathering: &mut Gathering<'_>,
    ) -> Result<Row, SqlError> {
        let row = self.complete(given.into_iter().map(|value| Ok(Some(value))), context)?;
        gathering.row(&row)?;
        Ok(row)
    }

    /// Whether a row may refer to another that comes later.
    fn refers_to_itself(&self) -> bool {
        self.keys.iter().any(|key| key.is_to_itself())
    }

    pub(crate) async fn hold_parents(
        &self,
        writer: &mut Writer<'_>,
        rows: &[Row],
    ) -> Result<(), Stop> {
        for key in &self.keys {
            let values = |row: &Row| key.child_columns().iter().map(|c| row[*c].clone()).collect();
            writer.hold_parents(key, rows.iter().map(values)).await?;
        }
        Ok(())
    }
}

impl InsertPlan {
    pub(crate) async fn run(&self, writer: &mut Writer<'_>) -> Result<Written, Stop> {
        if let Source::Query(query) = &self.source
            && self.on_conflict.is_none()
            && !self.inserter.refers_to_itself()
            && !query.may_read(self.inserter.table.def.id)
        {
            return Box::pin(self.insert_as_they_come(query, writer)).await;
        }
        let rows = self.rows(writer).await?;
        let (count, returned) = match &self.on_conflict {
            None => {
                self.inserter.insert(writer, &rows).await?;
                (rows.len(), rows)
            }
            Some(on_conflict) => {
                let written = Box::pin(on_conflict.insert(&self.inserter, writer, rows)).await?;
                (written.len(), written)
            }
        };
        let returned = self.returned(&returned, writer.eval)?;
        Ok(Written { rows: count as u64, returned })
    }

    /// Inserts the rows of a query that does not see them.
    async fn insert_as_they_come(
        &self,
        query: &query_rows::RowsQuery,
        writer: &mut Writer<'_>,
    ) -> Result<Written, Stop> {
        let (session, eval): (&SessionState, _) = (writer.session, writer.eval);
        let mut returned = self.returning.as_ref().map(|_| vec![]);
        let mut answer = Gathering::new(session);
        let mut written = |rows: &[Row]| {
            if let (Some(all), Some(mut more)) = (&mut returned, self.returned(rows, eval)?) {
                more.iter().try_for_each(|row| answer.row(row))?;
                all.append(&mut more);
            }
            Ok(())
        };
        let rows = self.inserter.insert_as_they_come(query, writer, &mut written).await?;
        Ok(Written { rows, returned })
    }

    /// The complete rows, before any is inserted.
    pub(crate) async fn rows(&self, writer: &mut Writer<'_>) -> Result<Vec<Row>, Stop> {
        match &self.source {
            Source::Values(rows) => Ok(self.values(rows, writer.eval)?),
            Source::Query(query) => Box::pin(self.inserter.all_rows(query, writer)).await,
        }
    }

    /// Whether it may take longer than others can be kept waiting.
    pub(crate) fn is_long(&self) -> bool {
        match &self.source {
            Source::Values(rows) => rows.len() > at_once::FEW,
            Source::Query(_) => true,
        }
    }

    /// See `at_once.rs`.
    pub(crate) fn may_run_at_once(&self) -> bool {
        matches!(&self.source, Source::Values(rows) if rows.len() <= at_once::FEW)
            && self.on_conflict.is_none()
    }

    /// The same as [`InsertPlan::run`], if nobody is in its way.
    pub(crate) fn run_at_once(&self, writer: &mut Writer<'_>) -> Option<Written> {
        let Source::Values(rows) = &self.source else { return None };
        let rows = self.values(rows, writer.eval).ok()?;
        writer.note(&self.inserter.table);
        writer.insert_at_once(&self.inserter.table, &rows)?;
        if !self.inserter.keys.is_empty() {
            // It waits only for whoever deletes a parent.
            self.inserter.hold_parents(writer, &rows).now_or_never()?.ok()?;
        }
        let returned = self.returned(&rows, writer.eval).ok()?;
        Some(Written { rows: rows.len() as u64, returned })
    }

    /// RETURNING.
    pub(crate) fn returned(
        &self,
        rows: &[Row],
        context: &EvalContext,
    ) -> Result<Option<Vec<Row>>, SqlError> {
        let Some(list) = &self.returning else { return Ok(None) };
        rows.iter().map(|row| list.row(row, context)).collect::<Result<_, _>>().map(Some)
    }

    /// The complete rows of VALUES, all before the first is inserted.
    fn values(
        &self,
        rows: &[Vec<Option<RowExpr>>],
        context: &EvalContext,
    ) -> Result<Vec<Row>, SqlError> {
        let complete = |values: &Vec<Option<RowExpr>>| {
            let values = values.iter().map(|value| match value {
                Some(expr) => expr.eval_row(&[], context).map(Some),
                None => Ok(None),
            });
            self.inserter.complete(values, context)
        };
        rows.iter().map(complete).collect()
    }
}
