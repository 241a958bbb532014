//! INSERT, UPDATE and DELETE through a view: the same of the table beneath (see [`crate::view_base`]).
//!
//! ```text
//!   UPDATE w SET i = 1 WHERE twice > 9 RETURNING *
//!   UPDATE t AS w SET id = 1 WHERE (w.v * 2) > 9 AND w.v > 5 RETURNING w.id AS i, (w.v * 2) AS twice
//! ```
//!
//! WITH CHECK OPTION is looked at when a new row is complete, as the table's own checks are.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, BinaryOperator, Expr, Ident, Insert, ObjectName,
    OnConflictAction, OnInsert, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableAliasWithoutColumns, TableObject, TableWithJoins,
};
use froglet_engine::{SqlState, Value};
use froglet_schema::plain::ViewDef;
use froglet_schema::{CatalogVersion, TableDef};

use crate::bound::BoundExpr;
use crate::command::fold;
use crate::context::{EvalContext, SessionFunctions};
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope};
use crate::modify_plan::{Modification, single};
use crate::modify_query;
use crate::plan::Planner;
use crate::resolve::{Names, Relation};
use crate::semantics::fieldnames::figure_name;
use crate::target::{TableRef, is_default};
use crate::view_base::{Base, BaseColumn, Level, Over, Views, name_of};
use crate::violation;

/// The view of a name; `None` if it is none.
pub(crate) fn view_of<'a>(
    planner: &Planner<'a>,
    name: &ObjectName,
) -> Result<Option<&'a ViewDef>, SqlError> {
    Ok(match planner.names().relation(name)? {
        Some(Relation::View(view)) => Some(view),
        _ => None,
    })
}

/// Whether it can be written through.
pub(crate) fn is_updatable(
    session: &dyn SessionFunctions,
    catalog: &CatalogVersion,
    view: &ViewDef,
) -> bool {
    let path = session.search_path();
    let names = Names { catalog, path: &path };
    matches!(Views { names, session, alias: &view.name }.base(view), Ok(Ok(_)))
}

/// What is done to a view, as errors say it.
#[derive(Clone, Copy)]
enum Doing {
    Insert,
    Update,
    Delete,
}

fn base_of<'a>(
    planner: &'a Planner<'_>,
    view: &ViewDef,
    alias: &'a str,
    doing: Doing,
) -> Result<Base<'a>, SqlError> {
    let views = Views { names: planner.names(), session: &**planner.session, alias };
    views.base(view)?.map_err(|reason| {
        let (done, ing, event) = match doing {
            Doing::Insert => ("insert into", "inserting into", "INSERT"),
            Doing::Update => ("update", "updating", "UPDATE"),
            Doing::Delete => ("delete from", "deleting from", "DELETE"),
        };
        SqlError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("cannot {done} view \"{}\"", view.name),
        )
        .detail(reason)
        .hint(format!(
            "To enable {ing} the view, provide an INSTEAD OF {event} trigger or an unconditional ON {event} DO INSTEAD rule."
        ))
    })
}

/// A condition that new rows meet.
pub(crate) struct ViewCheck {
    view: String,
    condition: BoundExpr,
}

impl ViewCheck {
    /// 44000 for a row in layout order.
    pub(crate) fn check(
        &self,
        table: &TableDef,
        row: &[Value],
        context: &EvalContext,
    ) -> Result<(), SqlError> {
        if self.condition.holds(row, context)? {
            return Ok(());
        }
        let message = format!("new row violates check option for view \"{}\"", self.view);
        Err(SqlError::new(SqlState::new("44000"), message).showing(
            table.id,
            violation::all_of(table),
            violation::failing_row(table, row),
            None,
        ))
    }
}

/// Those of a statement on a table that goes by a name.
fn checks(table: &TableDef, alias: &str, levels: &[Level]) -> Result<Vec<ViewCheck>, SqlError> {
    let scope = Scope::table(table, Some(alias));
    let compile = |level: &Level| {
        let expr = RowExpr::compile_condition(&scope, &level.condition, &[], "WHERE")?;
        Ok(ViewCheck { view: level.view.clone(), condition: BoundExpr::whole(expr) })
    };
    levels.iter().filter(|level| level.checked).map(compile).collect()
}

/// An UPDATE or DELETE of the table beneath.
pub(crate) struct OfTable {
    name: ObjectName,
    alias: String,
    assignments: Option<Vec<Assignment>>,
    selection: Option<Expr>,
    returning: Option<Vec<SelectItem>>,
    pub(crate) checks: Arc<[ViewCheck]>,
}

impl OfTable {
    pub(crate) fn new(
        planner: &Planner<'_>,
        view: &ViewDef,
        modification: &Modification<'_>,
    ) -> Result<OfTable, SqlError> {
        let alias = modification.target.alias.clone().unwrap_or_else(|| view.name.clone());
        let doing = match modification.assignments {
            Some(_) => Doing::Update,
            None => Doing::Delete,
        };
        let base = base_of(planner, view, &alias, doing)?;
        let over = Over { qualifiers: &[&alias], columns: &base.columns };
        let assignments = match &modification.assignments {
            Some(all) => {
                let one = |assignment: &Assignment| {
                    Ok(Assignment {
                        target: assigned(&assignment.target, view, &base, "update")?,
                        value: put_value(&over, &assignment.value),
                    })
                };
                Some(all.iter().map(one).collect::<Result<Vec<_>, SqlError>>()?)
            }
            None => None,
        };
        let own = modification.selection.map(|condition| over.put_into(condition));
        let conditions = own.into_iter().chain(base.levels.iter().map(|l| l.condition.clone()));
        let returning = match modification.returning {
            Some(list) => {
                let mut items = Vec::new();
                let others = match modification.others.is_empty() {
                    true => Vec::new(),
                    false => other_names(modification.others)?,
                };
                output(list, &over, &others, &mut items);
                Some(items)
            }
            None => None,
        };
        Ok(OfTable {
            name: name_of(base.table),
            assignments,
            selection: conditions.reduce(and),
            returning,
            checks: match doing {
                Doing::Delete => Arc::from([]),
                _ => checks(base.table, &alias, &base.levels)?.into(),
            },
            alias,
        })
    }

    pub(crate) fn modification<'m>(&'m self, of: &Modification<'m>) -> Modification<'m> {
        Modification {
            target: TableRef { name: &self.name, alias: Some(self.alias.clone()) },
            with: of.with.clone(),
            assignments: self.assignments.as_deref().map(Cow::Borrowed),
            others: of.others,
            selection: self.selection.as_ref(),
            returning: self.returning.as_deref(),
            checks: self.checks.clone(),
            through_view: true,
        }
    }
}

fn and(left: Expr, right: Expr) -> Expr {
    let nested = |expr| Box::new(Expr::Nested(Box::new(expr)));
    Expr::BinaryOp { left: nested(left), op: BinaryOperator::And, right: nested(right) }
}

fn put_value(over: &Over<'_>, value: &Expr) -> Expr {
    match is_default(value) {
        true => value.clone(),
        false => over.put_into(value),
    }
}

/// The table's column that a view's is.
fn column_of(
    view: &ViewDef,
    columns: &[BaseColumn],
    name: &ObjectName,
    doing: &str,
) -> Result<ObjectName, SqlError> {
    let wanted = name.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
    let Some(column) = columns.iter().find(|column| column.name == wanted) else {
        let message = format!("column \"{wanted}\" of relation \"{}\" does not exist", view.name);
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
    };
    let Some(written) = column.written() else {
        let message = format!("cannot {doing} column \"{wanted}\" of view \"{}\"", view.name);
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(
            "View columns that are not columns of their base relation are not updatable.",
        ));
    };
    Ok(ObjectName::from(vec![written.clone()]))
}

fn assigned(
    target: &AssignmentTarget,
    view: &ViewDef,
    base: &Base<'_>,
    doing: &str,
) -> Result<AssignmentTarget, SqlError> {
    let one = |name: &ObjectName| column_of(view, &base.columns, name, doing);
    Ok(match target {
        AssignmentTarget::ColumnName(name) => AssignmentTarget::ColumnName(one(name)?),
        AssignmentTarget::Tuple(names) => {
            AssignmentTarget::Tuple(names.iter().map(one).collect::<Result<_, SqlError>>()?)
        }
    })
}

fn other_names(others: &[TableWithJoins]) -> Result<Vec<String>, SqlError> {
    modify_query::names(others)
}

/// RETURNING: what stands for columns of the view is over the table, under the view's names.
fn output(list: &[SelectItem], over: &Over<'_>, others: &[String], items: &mut Vec<SelectItem>) {
    let quote = |name: &str| Ident::with_quote('"', name);
    let all = |items: &mut Vec<SelectItem>| {
        items.extend(over.columns.iter().map(|column| SelectItem::ExprWithAlias {
            expr: column.expr.clone(),
            alias: quote(&column.name),
        }));
    };
    for item in list {
        match item {
            SelectItem::Wildcard(options) => {
                all(items);
                items.extend(others.iter().map(|name| {
                    let name = ObjectName::from(vec![quote(name)]);
                    SelectItem::QualifiedWildcard(
                        SelectItemQualifiedWildcardKind::ObjectName(name),
                        options.clone(),
                    )
                }));
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _)
                if name.0.last().and_then(|part| part.as_ident()).map(fold).as_deref()
                    == over.qualifiers.first().copied() =>
            {
                all(items);
            }
            SelectItem::UnnamedExpr(expr) => items.push(SelectItem::ExprWithAlias {
                expr: over.put_into(expr),
                alias: quote(&figure_name(expr)),
            }),
            SelectItem::ExprWithAlias { expr, alias } => items.push(SelectItem::ExprWithAlias {
                expr: over.put_into(expr),
                alias: alias.clone(),
            }),
            other => items.push(other.clone()),
        }
    }
}

/// An INSERT into the table beneath, with what new rows are to meet.
pub(crate) fn insert(
    planner: &Planner<'_>,
    view: &ViewDef,
    insert: &Insert,
) -> Result<(Insert, Vec<ViewCheck>), SqlError> {
    let alias = insert.table_alias.as_ref().map(|alias| fold(&alias.alias));
    let alias = alias.unwrap_or_else(|| view.name.clone());
    let base = base_of(planner, view, &alias, Doing::Insert)?;
    let over = Over { qualifiers: &[&alias], columns: &base.columns };
    let mut new = insert.clone();
    new.table = TableObject::TableName(name_of(base.table));
    new.table_alias = Some(TableAliasWithoutColumns {
        explicit: true,
        alias: Ident::with_quote('"', alias.as_str()),
    });
    let quote = |name: &str| ObjectName::from(vec![Ident::with_quote('"', name)]);
    let names: Vec<ObjectName> = match insert.columns.is_empty() {
        false => insert.columns.clone(),
        // Without a column list a row may be shorter than the view.
        true => {
            let given = width(insert).unwrap_or(base.columns.len());
            if given > base.columns.len() {
                let message = "INSERT has more expressions than target columns";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            base.columns[..given].iter().map(|column| quote(&column.name)).collect()
        }
    };
    let of = |name: &ObjectName| column_of(view, &base.columns, name, "insert into");
    new.columns = names.iter().map(of).collect::<Result<_, SqlError>>()?;
    if let Some(OnInsert::OnConflict(clause)) = &mut new.on {
        on_conflict(clause, view, &base, &alias)?;
    }
    if let Some(list) = &insert.returning {
        let mut items = Vec::new();
        output(list, &over, &[], &mut items);
        new.returning = Some(items);
    }
    let checks = checks(base.table, &alias, &base.levels)?;
    Ok((new, checks))
}

/// How many columns an INSERT without a column list gives, if that can be told.
fn width(insert: &Insert) -> Option<usize> {
    match &*insert.source.as_ref()?.body {
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        SetExpr::Select(select) => {
            let is_one = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        _ => None,
    }
}

fn on_conflict(
    clause: &mut datafusion::sql::sqlparser::ast::OnConflict,
    view: &ViewDef,
    base: &Base<'_>,
    alias: &str,
) -> Result<(), SqlError> {
    use datafusion::sql::sqlparser::ast::ConflictTarget;
    if let Some(ConflictTarget::Columns(columns)) = &mut clause.conflict_target {
        for column in columns {
            let name = ObjectName::from(vec![column.clone()]);
            let name = column_of(view, &base.columns, &name, "insert into")?;
            if let Some(ident) = name.0.last().and_then(|part| part.as_ident()) {
                *column = ident.clone();
            }
        }
    }
    let OnConflictAction::DoUpdate(update) = &mut clause.action else { return Ok(()) };
    let over = Over { qualifiers: &[alias], columns: &base.columns };
    // The proposed row is the table's, too.
    let proposed: Vec<BaseColumn> = base
        .columns
        .iter()
        .filter_map(|column| {
            let written = column.written()?.clone();
            let expr = Expr::CompoundIdentifier(vec![Ident::new("excluded"), written]);
            Some(BaseColumn { name: column.name.clone(), expr })
        })
        .collect();
    let put = |expr: &Expr| {
        let mut new = over.put_into(expr);
        crate::walk::change_exprs(&mut new, |expr| {
            if let Expr::CompoundIdentifier(parts) = expr
                && let [qualifier, name] = parts.as_slice()
                && fold(qualifier) == "excluded"
                && let Some(column) = proposed.iter().find(|column| column.name == fold(name))
            {
                *expr = column.expr.clone();
            }
            crate::walk::GO_ON
        });
        new
    };
    let mut assignments = Vec::new();
    for assignment in &*single(&update.assignments) {
        let value = match is_default(&assignment.value) {
            true => assignment.value.clone(),
            false => put(&assignment.value),
        };
        let target = assigned(&assignment.target, view, base, "update")?;
        assignments.push(Assignment { target, value });
    }
    update.assignments = assignments;
    update.selection = update.selection.as_ref().map(put);
    Ok(())
}
