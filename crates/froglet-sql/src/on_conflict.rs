//! INSERT … ON CONFLICT.
//!
//! Rows are inserted together, as long as none is in the way. A row that meets its key in another row does nothing, or updates
//! that row; the other row may be gone again when it is looked at, and then the insert is tried
//! again.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, ConflictTarget, Expr, Ident, OnConflict as Clause, OnConflictAction,
    SelectItem, SetExpr,
};
use froglet_engine::{
    ColumnId, Direction, IndexId, KeyRange, Row, RowId, Snapshot, SqlState, Value, WriteStop, key,
};
use froglet_schema::{ConstraintDef, Counted, IndexDef, SqlType, TableDef, TableVersion};
use froglet_txn::{Isolation, TxnError};

use crate::access::conjuncts;
use crate::apply::{Kind, OnBusy, Stop, Targets, Writer, internal};
use crate::bound::BoundExpr;
use crate::command::fold;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope, infer_params};
use crate::index_expr;
use crate::insert::Inserter;
use crate::modify::overlaid;
use crate::plan::Planner;
use crate::resolve;
use crate::table::{ColumnSource, Compiled};
use crate::target::is_default;
use crate::violation;
use crate::walk;
use crate::write::foreignkey::{ChangedParent, Key};

/// Rows that are inserted at once, at most.
const MOST_TOGETHER: usize = 1024;

/// What a conflict does.
pub(crate) struct OnConflict {
    /// The unique indexes whose conflicts are meant; `None` for any (DO NOTHING only).
    indexes: Option<Vec<IndexId>>,
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
    /// Whether it may write rows that were there before.
    pub(crate) fn updates(&self) -> bool {
        self.update.is_some()
    }

    pub(crate) fn plan(
        table: &Arc<TableVersion>,
        compiled: &Compiled,
        alias: Option<&str>,
        clause: &Clause,
        params: &[SqlType],
        planner: &Planner<'_>,
    ) -> Result<(OnConflict, Vec<SqlType>), SqlError> {
        let indexes = match &clause.conflict_target {
            None => None,
            Some(target) => Some(arbiters(&table.def, target)?),
        };
        let is_meant = |index: &IndexDef| {
            indexes.as_ref().is_none_or(|indexes| indexes.contains(&index.spec.id))
        };
        if table.def.indexes.iter().any(|index| index.spec.unique_at_commit && is_meant(index)) {
            return Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters",
            ));
        }
        let OnConflictAction::DoUpdate(update) = &clause.action else {
            return Ok((OnConflict { indexes, update: None }, params.to_vec()));
        };
        if indexes.is_none() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "ON CONFLICT DO UPDATE requires inference specification or constraint name",
            )
            .hint("For example, ON CONFLICT (column_name)."));
        }
        let assigned = update.assignments.iter().map(|assignment| &assignment.value);
        if assigned.chain(&update.selection).any(crate::target::has_subquery) {
            return Err(SqlError::unsupported("a subquery in ON CONFLICT DO UPDATE"));
        }
        let def = &table.def;
        let scope = match alias.unwrap_or(&def.name) == EXCLUDED {
            // Both are called so: neither can be named.
            true => {
                refuse_excluded(update)?;
                Scope::table_and_excluded(def, Some("froglet target"))
            }
            false => Scope::table_and_excluded(def, alias),
        };
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
        for at in 0..def.width() {
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
        let parents = Key::of_parent(def, planner.catalog)?
            .into_iter()
            .filter(|key| key.parent_columns().iter().any(|c| columns.contains(c)))
            .collect();
        let update = Some(DoUpdate { columns, values, condition, parents });
        Ok((OnConflict { indexes, update }, params))
    }

    /// Inserts or updates each row; returns those that were written, as they are now.
    pub(crate) async fn insert(
        &self,
        inserter: &Inserter,
        writer: &mut Writer<'_>,
        rows: Vec<Row>,
    ) -> Result<Vec<Row>, Stop> {
        writer.note(&inserter.table);
        let table = &inserter.table;
        let mut written = Vec::new();
        let mut touched: Vec<RowId> = Vec::new();
        let (mut left, mut together) = (rows.into_iter(), MOST_TOGETHER);
        while !left.as_slice().is_empty() {
            let some = &left.as_slice()[..together.min(left.len())];
            let mut rids = Vec::new();
            let is_stopped = table.table.insert(writer.txn.part(), some, &mut rids).is_err();
            table.accesses().add(Counted::Inserted, rids.len());
            writer.note_keys(table, &rids, None);
            written.extend(left.by_ref().take(rids.len()));
            touched.append(&mut rids);
            together = (together * 2).min(MOST_TOGETHER);
            if is_stopped && let Some(row) = left.next() {
                // Where one is in the way, others may be.
                together = 1;
                written.extend(self.insert_one(inserter, writer, row, &mut touched).await?);
            }
        }
        inserter.hold_parents(writer, &written).await?;
        if let (Some(hidden), None) = (&mut writer.hidden, &self.update) {
            let space = inserter.table.def.space;
            Arc::make_mut(hidden).extend(touched.into_iter().map(|rid| (space, rid)));
        }
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
                table.accesses().add(Counted::Inserted, 1);
                writer.note_keys(table, &rids, None);
                touched.append(&mut rids);
                return Ok(Some(row));
            };
            match stop {
                WriteStop::Busy { holder } => writer.wait_for(holder).await?,
                WriteStop::Duplicate { index, mut other } => {
                    if self.indexes.as_ref().is_some_and(|wanted| !wanted.contains(&index)) {
                        // A conflict that is meant comes before one that is not.
                        let view = writer.fresh_view().await?;
                        match self.meant(table, &view, &row) {
                            Some(row) => other = row,
                            None => return Err(violation::unique(&table.def, index, &row).into()),
                        }
                    }
                    let view = writer.txn.part().snapshot().clone();
                    if writer.isolation().keeps_view() && table.table.changed_since(other, view.ts)
                    {
                        // What keeps the row out is not to be seen: nothing was in its way.
                        return Err(TxnError::Serialization.into());
                    }
                    let Some(update) = &self.update else { return Ok(None) };
                    if touched.contains(&other) {
                        return Err(twice().into());
                    }
                    if let Some(outcome) = update.run(inserter, writer, &row, other).await? {
                        // A row whose condition said no may be proposed again.
                        touched.extend(outcome.as_ref().map(|_| other));
                        return Ok(outcome);
                    }
                }
                WriteStop::Engine(e) => return Err(SqlError::from(e).into()),
                WriteStop::Moved => return Err(writer.moved()),
                WriteStop::Changed | WriteStop::Gone => {
                    return Err(internal("an insert met an older version of its own row"));
                }
            }
        }
    }
}

impl OnConflict {
    /// The row that shares its key in one of the indexes meant with a row that is proposed.
    fn meant(&self, table: &TableVersion, view: &Snapshot, row: &Row) -> Option<RowId> {
        let layout = table.table.layout();
        self.indexes.iter().flatten().find_map(|id| {
            let position = layout.index_position(*id)?;
            let spec = &layout.indexes[position];
            let values: Row = layout.key_positions(spec).map(|at| row[at].clone()).collect();
            let is_apart =
                |(part, value): (usize, &Value)| value.is_null() && spec.nulls.sets_apart(part);
            if values.iter().enumerate().any(is_apart) {
                return None;
            }
            let range = KeyRange::prefix(key::encode(&values, &spec.key));
            let mut found = None;
            table.table.seek(view, position, &range, Direction::Forward, &[], &mut |rid, _| {
                found = Some(rid);
                ControlFlow::Break(())
            });
            found
        })
    }
}

/// What the row proposed for insertion is called.
const EXCLUDED: &str = "excluded";

/// 42P09 where a column of `excluded` is named.
fn refuse_excluded(update: &ast::DoUpdate) -> Result<(), SqlError> {
    let names_it = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(parts) => parts.first().is_some_and(|part| fold(part) == EXCLUDED),
        _ => false,
    };
    let values = update.assignments.iter().map(|assignment| &assignment.value);
    if values.chain(&update.selection).any(|expr| walk::any_expr(expr, names_it)) {
        let message = "table reference \"excluded\" is ambiguous";
        return Err(SqlError::new(SqlState::new("42P09"), message)
            .hint("Give the table another alias: INSERT INTO excluded AS t …"));
    }
    Ok(())
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

/// The unique indexes that a conflict target means.
fn arbiters(def: &TableDef, target: &ConflictTarget) -> Result<Vec<IndexId>, SqlError> {
    match target {
        ConflictTarget::Columns(columns) => {
            let (wanted, predicate) = inference(def, columns)?;
            let conditions = predicate.as_ref().map(conjuncts).unwrap_or_default();
            let is_meant = |index: &IndexDef| {
                let implied = index_expr::predicate(def, index)
                    .is_none_or(|predicate| index_expr::implied(def, &predicate, &conditions));
                let mut key: Vec<_> = index.written_parts().iter().map(|p| p.column).collect();
                key.sort_unstable();
                key.dedup();
                index.spec.keeps_apart() && implied && is_same(def, &key, &wanted)
            };
            let meant = def.indexes.iter().filter(|index| is_meant(index));
            let meant: Vec<IndexId> = meant.map(|index| index.spec.id).collect();
            if meant.is_empty() {
                return Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                ));
            }
            Ok(meant)
        }
        ConflictTarget::OnConstraint(name) => {
            use froglet_schema::ConstraintKind as K;
            let name = name.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
            match def.constraint(&name) {
                Some(ConstraintDef { kind: K::PrimaryKey(id) | K::Unique(id), .. }) => {
                    Ok(vec![*id])
                }
                _ => Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("constraint \"{name}\" for table \"{}\" does not exist", def.name),
                )),
            }
        }
    }
}

/// What a conflict target has: a column, or an expression.
enum Inferred {
    Column(ColumnId),
    Expression(Box<Expr>),
}

/// The parts of a conflict target's key, each once, and its predicate (see `token_forms::conflict_targets`).
fn inference(def: &TableDef, names: &[Ident]) -> Result<(Vec<Inferred>, Option<Expr>), SqlError> {
    let mut exprs: Vec<Expr> = Vec::new();
    let mut predicate = None;
    match names {
        [one] if one.value.starts_with('\0') => {
            let (list, given) = one.value[1..].split_once('\0').unwrap_or_default();
            let query = crate::parse::parse_query(&format!("SELECT {list}"))?;
            if let SetExpr::Select(select) = *query.body {
                for item in select.projection {
                    match item {
                        SelectItem::UnnamedExpr(expr) => exprs.push(expr),
                        // What looks like an alias is an operator class; there is one order.
                        SelectItem::ExprWithAlias { expr, .. } => exprs.push(expr),
                        other => {
                            return Err(SqlError::unsupported(format!("ON CONFLICT ({other})")));
                        }
                    }
                }
            }
            if !given.is_empty() {
                predicate = Some(crate::parse::parse_expression(given)?);
            }
        }
        names => exprs.extend(names.iter().cloned().map(Expr::Identifier)),
    }
    let mut found: Vec<Inferred> = Vec::new();
    for mut expr in exprs {
        while let Expr::Nested(inner) | Expr::Collate { expr: inner, .. } = expr {
            expr = *inner;
        }
        found.push(match &expr {
            Expr::Identifier(ident) => {
                Inferred::Column(def.columns[resolve::column(def, ident)?].id)
            }
            other => match index_expr::canonical(def, other) {
                Some(canonical) => Inferred::Expression(Box::new(canonical)),
                None => {
                    RowExpr::compile(&Scope::table(def, None), other, &[])?;
                    return Err(SqlError::unsupported(format!("ON CONFLICT ({other})")));
                }
            },
        });
    }
    Ok((found, predicate))
}

/// Whether the key of an index has what was inferred, and nothing else.
fn is_same(def: &TableDef, key: &[ColumnId], wanted: &[Inferred]) -> bool {
    let is_it = |id: ColumnId, wanted: &Inferred| match (def.hidden_column(id), wanted) {
        (None, Inferred::Column(column)) => *column == id,
        (Some(hidden), Inferred::Expression(expr)) => index_expr::expression(def, hidden)
            .ok()
            .and_then(|known| index_expr::canonical(def, &known))
            .is_some_and(|known| known == **expr),
        _ => false,
    };
    key.iter().all(|id| wanted.iter().any(|wanted| is_it(*id, wanted)))
        && wanted.iter().all(|wanted| key.iter().any(|id| is_it(*id, wanted)))
}
