//! INSERT … ON CONFLICT.
//!
//! Rows are inserted one by one. A row that meets its key in another row does nothing, or updates
//! that row; the other row may be gone again when it is looked at, and then the insert is tried
//! again.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, ConflictTarget, Expr, OnConflict as Clause, OnConflictAction,
};
use froglet_engine::{IndexId, Row, RowId, Snapshot, SqlState, Value, WriteStop};
use froglet_schema::{SqlType, TableDef, TableVersion};
use froglet_txn::{Isolation, TxnError};

use crate::apply::{Kind, OnBusy, Stop, Targets, Writer, internal};
use crate::bound::BoundExpr;
use crate::command::fold;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope, infer_params};
use crate::foreignkey::{ChangedParent, Key};
use crate::insert::Inserter;
use crate::modify::overlaid;
use crate::plan::Planner;
use crate::resolve;
use crate::table::{ColumnSource, Compiled};
use crate::target::is_default;
use crate::violation;

/// What a conflict does.
pub(crate) struct OnConflict {
    /// The unique index whose conflicts are meant; `None` for any (DO NOTHING only).
    index: Option<IndexId>,
    update: Option<DoUpdate>,
}

struct DoUpdate {
    /// Ascending.
    columns: Vec<usize>,
    /// Over the existing row followed by the one proposed; `None` is DEFAULT or generated.
    values: Vec<Option<BoundExpr>>,
    condition: Option<BoundExpr>,
    parents: Vec<Key>,
}

impl OnConflict {
    pub(crate) fn plan(
        table: &Arc<TableVersion>,
        compiled: &Compiled,
        alias: Option<&str>,
        clause: &Clause,
        params: &[SqlType],
        planner: &Planner<'_>,
    ) -> Result<(OnConflict, Vec<SqlType>), SqlError> {
        let index = match &clause.conflict_target {
            None => None,
            Some(target) => Some(arbiter(&table.def, target)?),
        };
        let OnConflictAction::DoUpdate(update) = &clause.action else {
            return Ok((OnConflict { index, update: None }, params.to_vec()));
        };
        if index.is_none() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            )
            .hint("For example, ON CONFLICT (column_name)."));
        }
        let def = &table.def;
        let scope = Scope::table_and_excluded(def, alias);
        let mut sets: Vec<(usize, &Expr)> = Vec::new();
        let assignments = crate::modify_plan::single(&update.assignments);
        for assignment in &*assignments {
            let AssignmentTarget::ColumnName(name) = &assignment.target else {
                return Err(SqlError::unsupported("this form of multiple assignment"));
            };
            let ident = name
                .0
                .last()
                .and_then(|part| part.as_ident())
                .ok_or_else(|| SqlError::unsupported(format!("the assignment to {name}")))?;
            let column = resolve::column(def, ident)?;
            if !is_default(&assignment.value) {
                crate::insert_plan::refuse_given(def, compiled, column)?;
            }
            sets.push((column, &assignment.value));
        }
        sets.sort_by_key(|(column, _)| *column);
        let mut exprs: Vec<(&Expr, Option<SqlType>)> = sets
            .iter()
            .filter(|(_, value)| !is_default(value))
            .map(|(column, value)| (*value, Some(def.columns[*column].sql_type)))
            .collect();
        exprs.extend(update.selection.as_ref().map(|condition| (condition, None)));
        let params = infer_params(&scope, &exprs, params)?;
        let mut columns = Vec::new();
        let mut values = Vec::new();
        for at in 0..def.columns.len() {
            let set = sets.iter().find(|(column, _)| *column == at);
            if set.is_none() && !compiled.generated.contains(&at) {
                continue;
            }
            columns.push(at);
            values.push(match set {
                Some((_, value)) if !is_default(value) => {
                    let column = &def.columns[at];
                    let (ty, sql_type) = (column.ty, column.sql_type);
                    let expr =
                        RowExpr::compile_for(&scope, value, &params, &column.name, ty, sql_type)?;
                    Some(BoundExpr::whole(expr))
                }
                _ => None,
            });
        }
        let condition = match &update.selection {
            Some(condition) => Some(BoundExpr::whole(RowExpr::compile_condition(
                &scope, condition, &params, "WHERE",
            )?)),
            None => None,
        };
        let parents = Key::of_parent(def, planner.catalog)
            .into_iter()
            .filter(|key| key.parent_columns().iter().any(|c| columns.contains(c)))
            .collect();
        let update = Some(DoUpdate { columns, values, condition, parents });
        Ok((OnConflict { index, update }, params))
    }

    /// Inserts or updates each row; returns those that were written, as they are now.
    pub(crate) async fn insert(
        &self,
        inserter: &Inserter,
        writer: &mut Writer<'_>,
        rows: Vec<Row>,
    ) -> Result<Vec<Row>, Stop> {
        writer.note(&inserter.table);
        let mut written = Vec::new();
        let mut touched: Vec<RowId> = Vec::new();
        for row in rows {
            if let Some(now) = self.insert_one(inserter, writer, row, &mut touched).await? {
                written.push(now);
            }
        }
        inserter.hold_parents(writer, &written).await?;
        Ok(written)
    }

    async fn insert_one(
        &self,
        inserter: &Inserter,
        writer: &mut Writer<'_>,
        row: Row,
        touched: &mut Vec<RowId>,
    ) -> Result<Option<Row>, Stop> {
        let table = &inserter.table;
        let mut rids = Vec::new();
        loop {
            let outcome =
                table.table.insert(writer.txn.part(), std::slice::from_ref(&row), &mut rids);
            let Err((_, stop)) = outcome else {
                touched.append(&mut rids);
                return Ok(Some(row));
            };
            match stop {
                WriteStop::Busy { holder } => writer.wait_for(holder).await?,
                WriteStop::Duplicate { index, other } => {
                    if self.index.is_some_and(|wanted| wanted != index) {
                        return Err(violation::unique(&table.def, index, &row).into());
                    }
                    let Some(update) = &self.update else { return Ok(None) };
                    if touched.contains(&other) {
                        return Err(twice().into());
                    }
                    if let Some(outcome) = update.run(inserter, writer, &row, other).await? {
                        touched.push(other);
                        return Ok(outcome);
                    }
                }
                WriteStop::Engine(e) => return Err(SqlError::from(e).into()),
                WriteStop::Changed { .. } | WriteStop::Gone | WriteStop::Moved => {
                    return Err(internal("an insert met an older version of its own row"));
                }
            }
        }
    }
}

fn twice() -> SqlError {
    SqlError::new(
        SqlState::CARDINALITY_VIOLATION,
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
    )
    .hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")
}

impl DoUpdate {
    /// Updates the row that has the key. `None`: it is gone; `Some(None)`: the condition says no.
    async fn run(
        &self,
        inserter: &Inserter,
        writer: &mut Writer<'_>,
        proposed: &Row,
        other: RowId,
    ) -> Result<Option<Option<Row>>, Stop> {
        let table = &inserter.table;
        let all: Vec<usize> = (0..table.def.columns.len()).collect();
        let view = writer.fresh_view().await?;
        let mut existing = Row::new();
        let is_there = table.table.read_row(&view, other, &all, &mut existing);
        if writer.is_outrun(table) {
            // Others may have written it in columns that the statement does not know.
            return Err(Stop::Restart);
        }
        if !is_there {
            return match writer.isolation() {
                Isolation::ReadCommitted => Ok(None),
                Isolation::RepeatableRead | Isolation::Serializable => {
                    Err(TxnError::Serialization.into())
                }
            };
        }
        let eval = writer.eval;
        let Some(values) = self.new_values(inserter, &existing, proposed, eval)? else {
            return Ok(Some(None));
        };
        let mut targets = Targets {
            rids: vec![other],
            values: vec![values],
            olds: vec![existing],
            ..Targets::new()
        };
        let mut recheck = |view: &Snapshot, rid: RowId| {
            let mut row = Row::new();
            if !table.table.read_row(view, rid, &all, &mut row) {
                return Ok(None);
            }
            let values = self.new_values(inserter, &row, proposed, eval)?;
            Ok(values.map(|values| (values, row)))
        };
        let kind = Kind::Update(&self.columns);
        writer.modify(table, kind, view.ts, &mut targets, OnBusy::Wait, Some(&mut recheck)).await?;
        let (Some(old), Some(values)) = (targets.olds.pop(), targets.values.pop()) else {
            return Ok(None);
        };
        let new = overlaid(&old, &self.columns, &values);
        if !self.parents.is_empty() {
            let changed = [ChangedParent { rid: other, old, new: Some(new.clone()) }];
            writer.parents_changed(table, &self.parents, &changed, 0).await?;
        }
        Ok(Some(Some(new)))
    }

    fn new_values(
        &self,
        inserter: &Inserter,
        existing: &Row,
        proposed: &Row,
        eval: &crate::context::EvalContext,
    ) -> Result<Option<Vec<Value>>, SqlError> {
        let both: Row = existing.iter().chain(proposed).cloned().collect();
        if let Some(condition) = &self.condition
            && !condition.holds(&both, eval)?
        {
            return Ok(None);
        }
        let compiled = &inserter.compiled;
        let mut values = Vec::with_capacity(self.columns.len());
        for (column, value) in self.columns.iter().zip(&self.values) {
            values.push(match value {
                Some(expr) => expr.eval(&both, eval)?,
                None => compiled.default(*column, eval)?,
            });
        }
        let mut new = overlaid(existing, &self.columns, &values);
        compiled.generate(&mut new, eval)?;
        compiled.check(&inserter.table.def, &new, eval)?;
        inserter.check_views(&new, eval)?;
        for (column, value) in self.columns.iter().zip(&mut values) {
            if matches!(compiled.sources[*column], ColumnSource::Generated(_)) {
                *value = new[*column].clone();
            }
        }
        Ok(Some(values))
    }
}

/// The unique index that a conflict target means.
fn arbiter(def: &TableDef, target: &ConflictTarget) -> Result<IndexId, SqlError> {
    match target {
        ConflictTarget::Columns(columns) => {
            let mut wanted = Vec::new();
            for ident in columns {
                wanted.push(def.columns[resolve::column(def, ident)?].id);
            }
            wanted.sort_unstable();
            wanted.dedup();
            let index = def.indexes.iter().find(|index| {
                let mut key: Vec<_> = index.spec.key.iter().map(|part| part.column).collect();
                key.sort_unstable();
                index.spec.unique && key == wanted
            });
            index.map(|index| index.spec.id).ok_or_else(|| {
                SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                )
            })
        }
        ConflictTarget::OnConstraint(name) => {
            use froglet_schema::ConstraintKind as K;
            let name = name.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
            match def.constraint(&name).map(|c| &c.kind) {
                Some(K::PrimaryKey(id) | K::Unique(id)) => Ok(*id),
                _ => Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("constraint \"{name}\" for table \"{}\" does not exist", def.name),
                )),
            }
        }
    }
}
