//! UPDATE and DELETE.
//!
//! ```text
//!   plan     target, new values, rules touched         once per catalog stamp
//!   collect  rows under the statement's view, their new values
//!   apply    write them (apply.rs), foreign keys, RETURNING
//! ```
//!
//! Rows are collected either by this crate's own scan ([`Source::Short`]) or by a query that
//! DataFusion plans and that hands out row ids and new values ([`Source::Query`]): conditions with
//! subqueries, other tables in FROM or USING, and everything under `froglet.fast_path = off`.

use std::sync::Arc;

use froglet_engine::{Direction, Row, RowId, Snapshot, Value};
use froglet_schema::TableVersion;

use crate::access::Access;
use crate::apply::{Kind, OnBusy, Recheck, Stop, Targets, Writer};
use crate::bound::BoundExpr;
use crate::context::EvalContext;
use crate::error::SqlError;
use crate::modify_query::QuerySource;
use crate::query::account::Gathering;
use crate::returning::OutputList;
use crate::scan::Scan;
use crate::table::{ColumnSource, Compiled};
use crate::view_write::ViewCheck;
use crate::write::foreignkey::{ChangedParent, Key};
use crate::{at_once, violation};

/// What is written to each row.
#[derive(Debug)]
pub(crate) enum Change {
    Delete,
    /// Layout positions, ascending, generated columns among them.
    Update(Vec<usize>),
}

impl Change {
    pub(crate) fn kind(&self) -> Kind<'_> {
        match self {
            Change::Delete => Kind::Delete,
            Change::Update(columns) => Kind::Update(columns),
        }
    }
}

/// Where the value of a column that is set comes from.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // a few per plan
pub(crate) enum SetValue {
    /// Over the row's projection.
    Expr(BoundExpr),
    /// The column's default.
    Default,
    /// Computed from the new row.
    Generated,
}

/// How the rows are found.
#[allow(clippy::large_enum_variant)] // one per plan
pub(crate) enum Source {
    Short {
        access: Option<Access>,
        /// Over the projection: what the access does not answer.
        residual: Option<BoundExpr>,
        /// All conditions, over rows in layout order; for rows that have changed.
        condition: Option<BoundExpr>,
        sets: Vec<SetValue>,
    },
    Query(Box<QuerySource>),
}

/// A planned UPDATE or DELETE.
pub(crate) struct ModifyPlan {
    pub(crate) table: Arc<TableVersion>,
    pub(crate) compiled: Arc<Compiled>,
    pub(crate) change: Change,
    pub(crate) source: Source,
    /// Columns read of each row; all of them when `whole`.
    pub(crate) projection: Vec<usize>,
    /// Checks, foreign keys, generated columns or RETURNING want the whole row.
    pub(crate) whole: bool,
    /// Foreign keys whose columns change here.
    pub(crate) child_keys: Vec<Key>,
    /// Foreign keys that point to what changes here.
    pub(crate) parent_keys: Vec<Key>,
    pub(crate) returning: Option<OutputList>,
    /// WITH CHECK OPTION of views that it is through.
    pub(crate) view_checks: Arc<[ViewCheck]>,
    pub(crate) through_view: bool,
}

/// What a write has done.
pub(crate) struct Written {
    pub(crate) rows: u64,
    pub(crate) returned: Option<Vec<Row>>,
}

impl ModifyPlan {
    pub(crate) async fn run(&self, writer: &mut Writer<'_>) -> Result<Written, Stop> {
        let (view, mut targets) = self.gather(writer).await?;
        self.write(writer, &view, &mut targets, true).await?;
        let returned = self.all_returned(&targets, writer.eval)?;
        Ok(Written { rows: targets.rids.len() as u64, returned })
    }

    /// The rows under the statement's view, and their new values.
    pub(crate) async fn gather(
        &self,
        writer: &mut Writer<'_>,
    ) -> Result<(Arc<Snapshot>, Targets), Stop> {
        let view = writer.txn.part().snapshot().clone();
        let targets = match &self.source {
            Source::Short { access, residual, sets, .. } => {
                let (access, residual) = (access.as_ref(), residual.as_ref());
                self.collect(writer, &view, access, residual, sets, usize::MAX)?
                    .expect("all rows were asked for")
            }
            Source::Query(query) => Box::pin(query.collect(self, writer, &view)).await?,
        };
        Ok((view, targets))
    }

    /// Writes them. Rows that somebody has changed are looked at again, or the statement restarts.
    pub(crate) async fn write(
        &self,
        writer: &mut Writer<'_>,
        view: &Snapshot,
        targets: &mut Targets,
        looks_again: bool,
    ) -> Result<(), Stop> {
        if targets.rids.is_empty() {
            return Ok(());
        }
        writer.note(&self.table);
        self.apply(writer, view, targets, looks_again).await?;
        if !self.child_keys.is_empty() || !self.parent_keys.is_empty() {
            Box::pin(self.keys(writer, targets)).await?;
        }
        Ok(())
    }

    /// RETURNING, of all rows.
    pub(crate) fn all_returned(
        &self,
        targets: &Targets,
        context: &EvalContext,
    ) -> Result<Option<Vec<Row>>, SqlError> {
        self.returning.as_ref().map(|list| self.returned(list, targets, context)).transpose()
    }

    /// See `at_once.rs`.
    pub(crate) fn may_run_at_once(&self) -> bool {
        matches!(self.source, Source::Short { access: Some(_), .. })
            && self.child_keys.is_empty()
            && self.parent_keys.is_empty()
    }

    /// The same as [`ModifyPlan::run`], if it finds few rows and nobody in its way.
    pub(crate) fn run_at_once(&self, writer: &mut Writer<'_>) -> Option<Written> {
        let Source::Short { access, residual, sets, .. } = &self.source else { return None };
        let view = writer.txn.part().snapshot().clone();
        let targets = self
            .collect(writer, &view, access.as_ref(), residual.as_ref(), sets, at_once::FEW)
            .ok()??;
        if !targets.rids.is_empty() {
            writer.note(&self.table);
            writer.modify_at_once(&self.table, self.change.kind(), view.ts, &targets)?;
        }
        let returned = match &self.returning {
            Some(list) => Some(self.returned(list, &targets, writer.eval).ok()?),
            None => None,
        };
        Some(Written { rows: targets.rids.len() as u64, returned })
    }

    /// The rows and their new values; `None` if more than `most` rows are to be looked at
    /// ([`usize::MAX`]: as many as there are).
    fn collect(
        &self,
        writer: &Writer<'_>,
        view: &Snapshot,
        access: Option<&Access>,
        residual: Option<&BoundExpr>,
        sets: &[SetValue],
        most: usize,
    ) -> Result<Option<Targets>, SqlError> {
        let scan = Scan {
            table: &self.table,
            access,
            projection: &self.projection,
            residual,
            direction: Direction::Forward,
        };
        let mut gathering = Gathering::new(&**writer.session);
        let mut visit = |targets: &mut Targets, rid: RowId, row: &mut Row| {
            if let Change::Update(columns) = &self.change {
                let values = self.new_values(columns, sets, row, rid, view, writer.eval)?;
                gathering.row(&values)?;
                targets.values.push(values);
            }
            targets.rids.push(rid);
            if self.whole {
                gathering.row(row)?;
                targets.olds.push(std::mem::take(row));
            }
            Ok(match access {
                Some(access) if access.unique => std::ops::ControlFlow::Break(()),
                _ => std::ops::ControlFlow::Continue(()),
            })
        };
        match most {
            usize::MAX => scan.gather(view, writer.eval, writer.limits, &mut visit).map(Some),
            most => scan.gather_few(view, writer.eval, writer.limits, most, &mut visit),
        }
    }

    /// The values of the columns that are set, checked.
    fn new_values(
        &self,
        columns: &[usize],
        sets: &[SetValue],
        row: &[Value],
        rid: RowId,
        view: &Snapshot,
        context: &EvalContext,
    ) -> Result<Vec<Value>, SqlError> {
        let mut values = Vec::with_capacity(columns.len());
        for (column, set) in columns.iter().zip(sets) {
            values.push(match set {
                SetValue::Expr(expr) => expr.eval(row, context)?,
                SetValue::Default => self.compiled.default(*column, context)?,
                SetValue::Generated => Value::Null,
            });
        }
        self.complete(columns, &mut values, row, rid, view, context)?;
        Ok(values)
    }

    /// Computes generated columns and checks the row's own rules.
    pub(crate) fn complete(
        &self,
        columns: &[usize],
        values: &mut [Value],
        row: &[Value],
        rid: RowId,
        view: &Snapshot,
        context: &EvalContext,
    ) -> Result<(), SqlError> {
        if self.whole {
            let mut new = overlaid(row, columns, values);
            new.resize(self.table.def.width(), Value::Null);
            self.compiled.generate(&mut new, context)?;
            for column in &self.compiled.generated {
                if let Some(at) = columns.iter().position(|c| c == column) {
                    values[at] = new[*column].clone();
                }
            }
            self.compiled.check(&self.table.def, &new, context)?;
            let mut checks = self.view_checks.iter();
            return checks.try_for_each(|c| c.check(&self.table.def, &new, context));
        }
        for (column, value) in columns.iter().zip(values.iter()) {
            if value.is_null() && self.table.def.column_at(*column).not_null {
                let old = self.whole_row(view, rid);
                let new = overlaid(&old, columns, values);
                return Err(violation::not_null(&self.table.def, *column, &new));
            }
        }
        Ok(())
    }

    fn whole_row(&self, view: &Snapshot, rid: RowId) -> Row {
        let all: Vec<usize> = (0..self.table.def.columns.len()).collect();
        let mut row = Row::new();
        if !self.table.table.read_row(view, rid, &all, &mut row) {
            row = vec![Value::Null; all.len()];
        }
        row
    }

    async fn apply(
        &self,
        writer: &mut Writer<'_>,
        view: &Snapshot,
        targets: &mut Targets,
        looks_again: bool,
    ) -> Result<(), Stop> {
        let kind = self.change.kind();
        let eval = writer.eval;
        let mut again = |view: &Snapshot, rid: RowId| match &self.source {
            Source::Short { condition, sets, .. } => {
                self.recheck(view, rid, condition.as_ref(), sets, eval)
            }
            Source::Query(_) => unreachable!("a query is not asked about one row"),
        };
        let recheck: Option<Recheck<'_>> = match &self.source {
            Source::Short { .. } if looks_again => Some(&mut again),
            Source::Short { .. } | Source::Query(_) => None,
        };
        writer.modify(&self.table, kind, view.ts, targets, OnBusy::Wait, recheck).await
    }

    /// A row that somebody has changed: as it is now, if it still meets the conditions.
    fn recheck(
        &self,
        view: &Snapshot,
        rid: RowId,
        condition: Option<&BoundExpr>,
        sets: &[SetValue],
        context: &EvalContext,
    ) -> crate::apply::Rechecked {
        let all: Vec<usize> = (0..self.table.def.columns.len()).collect();
        let mut row = Row::new();
        if !self.table.table.read_row(view, rid, &all, &mut row) {
            return Ok(None);
        }
        if let Some(condition) = condition
            && !condition.holds(&row, context)?
        {
            return Ok(None);
        }
        let projected: Row = self.projection.iter().map(|c| row[*c].clone()).collect();
        let values = match &self.change {
            Change::Delete => Vec::new(),
            Change::Update(columns) => {
                self.new_values(columns, sets, &projected, rid, view, context)?
            }
        };
        Ok(Some((values, row)))
    }

    /// Foreign keys, after all rows are written.
    async fn keys(&self, writer: &mut Writer<'_>, targets: &Targets) -> Result<(), Stop> {
        if let Change::Update(columns) = &self.change {
            for key in &self.child_keys {
                let rows = targets.olds.iter().zip(&targets.values);
                let changed = rows.filter_map(|(old, values)| {
                    let new = overlaid(old, columns, values);
                    let pick = |row: &[Value]| -> Vec<Value> {
                        key.child_columns().iter().map(|c| row[*c].clone()).collect()
                    };
                    let (before, after) = (pick(old), pick(&new));
                    (before != after).then_some(after)
                });
                writer.hold_parents(key, changed).await?;
            }
        }
        if self.parent_keys.is_empty() {
            return Ok(());
        }
        let changed: Vec<ChangedParent> = targets
            .rids
            .iter()
            .enumerate()
            .map(|(at, rid)| ChangedParent {
                rid: *rid,
                old: targets.olds[at].clone(),
                new: self.new_row(targets, at),
            })
            .collect();
        writer.parents_changed(&self.table, &self.parent_keys, &changed, 0).await
    }

    /// The row as it is now; `None` for a deleted one.
    fn new_row(&self, targets: &Targets, at: usize) -> Option<Row> {
        match &self.change {
            Change::Delete => None,
            Change::Update(columns) => {
                let mut row = overlaid(&targets.olds[at], columns, &targets.values[at]);
                row.truncate(self.table.def.columns.len());
                Some(row)
            }
        }
    }

    /// RETURNING: of the new row, or of the deleted one.
    fn returned(
        &self,
        list: &OutputList,
        targets: &Targets,
        context: &EvalContext,
    ) -> Result<Vec<Row>, SqlError> {
        (0..targets.rids.len())
            .map(|at| match (self.new_row(targets, at), targets.others.get(at)) {
                (Some(row), None) => list.row(&row, context),
                (None, None) => list.row(&targets.olds[at], context),
                (row, Some(others)) => {
                    let mut row = row.unwrap_or_else(|| targets.olds[at].clone());
                    row.extend(others.iter().cloned());
                    list.row(&row, context)
                }
            })
            .collect()
    }
}

/// A row with some columns, ascending, replaced.
pub(crate) fn overlaid(row: &[Value], columns: &[usize], values: &[Value]) -> Row {
    let mut new = row.to_vec();
    // What was read of a row has no hidden columns; what is set may.
    if let Some(last) = columns.last()
        && *last >= new.len()
    {
        new.resize(last + 1, Value::Null);
    }
    for (column, value) in columns.iter().zip(values) {
        new[*column] = value.clone();
    }
    new
}

/// Whether a table has rules that want the whole row when these columns are set.
pub(crate) fn wants_whole(compiled: &Compiled, columns: &[usize]) -> bool {
    let touched = |inputs: &[usize]| inputs.iter().any(|c| columns.contains(c));
    compiled.checks.iter().any(|(_, _, inputs)| touched(inputs))
        || touched(&compiled.labelled)
        || columns.iter().any(|c| matches!(compiled.sources[*c], ColumnSource::Generated(_)))
}
