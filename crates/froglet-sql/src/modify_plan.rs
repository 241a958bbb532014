//! Planning of UPDATE and DELETE.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, FunctionArg, FunctionArgExpr,
    FunctionArguments, Query, SelectItem, SetExpr, TableWithJoins, Update, UpdateTableFromKind,
    With,
};
use froglet_engine::SqlState;
use froglet_schema::{SqlType, TableDef, TableVersion};

use crate::access;
use crate::apply::Stop;
use crate::bound::{BoundExpr, projection_of};
use crate::error::SqlError;
use crate::expr::{Other, RowExpr, Scope, infer_params};
use crate::modify::{Change, ModifyPlan, SetValue, Source, wants_whole};
use crate::modify_query::{self, QuerySource};
use crate::plan::Planner;
use crate::resolve;
use crate::returning::{self, OutputList};
use crate::rewrite_subquery::is_grouped;
use crate::stored::DefaultKind;
use crate::table::{Compiled, compiled};
use crate::target::{TableRef, has_subquery, is_default, written_table};
use crate::view_write::{self, ViewCheck};
use crate::write::foreignkey::Key;

/// A statement's parts, whichever of the two it is.
pub(crate) struct Modification<'a> {
    pub(crate) target: TableRef<'a>,
    pub(crate) with: Option<With>,
    pub(crate) assignments: Option<Cow<'a, [Assignment]>>,
    pub(crate) others: &'a [TableWithJoins],
    pub(crate) selection: Option<&'a Expr>,
    pub(crate) returning: Option<&'a [SelectItem]>,
    /// WITH CHECK OPTION, if it is through a view.
    pub(crate) checks: Arc<[ViewCheck]>,
    pub(crate) through_view: bool,
}

pub(crate) fn of_update(update: &Update) -> Result<Modification<'_>, SqlError> {
    if update.limit.is_some() || !update.order_by.is_empty() || update.or.is_some() {
        return Err(SqlError::unsupported("UPDATE with ORDER BY, LIMIT or OR"));
    }
    let others: &[TableWithJoins] = match &update.from {
        None => &[],
        Some(UpdateTableFromKind::AfterSet(from) | UpdateTableFromKind::BeforeSet(from)) => from,
    };
    Ok(Modification {
        target: written_table(&update.table)?,
        with: None,
        assignments: Some(single(&update.assignments)),
        others,
        selection: update.selection.as_ref(),
        returning: update.returning.as_deref(),
        checks: Arc::from([]),
        through_view: false,
    })
}

pub(crate) fn of_delete(delete: &Delete) -> Result<Modification<'_>, SqlError> {
    if delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() {
        return Err(SqlError::unsupported("this form of DELETE"));
    }
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [target] = from.as_slice() else {
        return Err(SqlError::unsupported("DELETE FROM several tables"));
    };
    Ok(Modification {
        target: written_table(target)?,
        with: None,
        assignments: None,
        others: delete.using.as_deref().unwrap_or(&[]),
        selection: delete.selection.as_ref(),
        returning: delete.returning.as_deref(),
        checks: Arc::from([]),
        through_view: false,
    })
}

/// `(a, b) = (SELECT x, y …)` as `a = (SELECT x …), b = (SELECT y …)`, `(a, b) = ROW (…)` alike.
pub(crate) fn single(assignments: &[Assignment]) -> Cow<'_, [Assignment]> {
    let is_plain = |a: &Assignment| matches!(a.target, AssignmentTarget::ColumnName(_));
    if assignments.iter().all(is_plain) {
        return Cow::Borrowed(assignments);
    }
    let mut all = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let AssignmentTarget::Tuple(names) = &assignment.target else {
            all.push(assignment.clone());
            continue;
        };
        let Some(values) = values_of(&assignment.value, names.len()) else {
            all.push(assignment.clone());
            continue;
        };
        all.extend(names.iter().zip(values).map(|(name, value)| Assignment {
            target: AssignmentTarget::ColumnName(name.clone()),
            value,
        }));
    }
    Cow::Owned(all)
}

/// The values of a row, or of a query of one row.
fn values_of(value: &Expr, count: usize) -> Option<Vec<Expr>> {
    let values: Vec<Expr> = match value {
        Expr::Function(f) if f.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &f.args else { return None };
            let value = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            };
            list.args.iter().map(value).collect::<Option<_>>()?
        }
        Expr::Subquery(query) => {
            let SetExpr::Select(select) = &*query.body else { return None };
            let item = |item: &SelectItem| {
                let mut one = query.clone();
                if let SetExpr::Select(select) = &mut *one.body {
                    select.projection = vec![item.clone()];
                }
                match item {
                    // Beside an aggregate, what is none would be of every row.
                    SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
                        if is_aggregate(&one) == is_aggregate(query) =>
                    {
                        Some(Expr::Subquery(one))
                    }
                    _ => None,
                }
            };
            // Which row of several would be taken, is not said for each column alone.
            if select.distinct.is_some() {
                return None;
            }
            select.projection.iter().map(item).collect::<Option<_>>()?
        }
        Expr::Tuple(values) => values.clone(),
        Expr::Nested(inner) => return values_of(inner, count),
        _ => return None,
    };
    (values.len() == count).then_some(values)
}

fn is_aggregate(query: &Query) -> bool {
    matches!(&*query.body, SetExpr::Select(select) if is_grouped(select))
}

/// One `column = value` of SET.
pub(crate) struct Set<'a> {
    pub(crate) column: usize,
    pub(crate) value: &'a Expr,
}

/// Plans an UPDATE or DELETE; with it the types of its parameters.
pub(crate) async fn plan(
    planner: &mut Planner<'_>,
    modification: &Modification<'_>,
    given: &[SqlType],
) -> Result<(ModifyPlan, Vec<SqlType>), Stop> {
    if let Some(view) = view_write::view_of(planner, modification.target.name)? {
        let of_table = view_write::OfTable::new(planner, view, modification)?;
        let modification = of_table.modification(modification);
        return Box::pin(plan(planner, &modification, given)).await;
    }
    let table = planner.names().written(modification.target.name)?.clone();
    let compiled = compiled(&table)?;
    let alias = modification.target.alias.as_deref();
    let sets = match &modification.assignments {
        Some(assignments) => Some(sets(&table.def, &compiled, assignments)?),
        None => None,
    };
    let long = !planner.fast
        || modification.with.is_some()
        || !modification.others.is_empty()
        || modification.selection.is_some_and(has_subquery)
        || sets.iter().flatten().any(|set| has_subquery(set.value));
    let change = change_of(&table.def, &compiled, sets.as_deref());
    let scope = Scope::table(&table.def, alias);
    let params = match long {
        true => given.to_vec(),
        false => params(&table.def, &scope, &sets, modification, given)?,
    };
    let (child_keys, parent_keys) = keys(&table, &change, planner)?;
    let whole = modification.returning.is_some()
        || !modification.checks.is_empty()
        || !child_keys.is_empty()
        || !parent_keys.is_empty()
        || matches!(&change, Change::Update(columns) if wants_whole(&compiled, columns));
    let mut plan = ModifyPlan {
        table: table.clone(),
        compiled,
        change,
        source: Source::Short { access: None, residual: None, condition: None, sets: Vec::new() },
        projection: Vec::new(),
        whole,
        child_keys,
        parent_keys,
        returning: None,
        view_checks: modification.checks.clone(),
        through_view: modification.through_view,
    };
    let mut params = params;
    if long {
        let (query, found) =
            modify_query::plan(planner, &plan, modification, sets.as_deref(), &params).await?;
        params = found;
        plan.projection = QuerySource::projection(&plan);
        plan.source = Source::Query(Box::new(query));
    } else {
        short(&mut plan, &scope, sets.as_deref(), modification, &params)?;
    }
    if let Some(list) = modification.returning {
        let others: &[Other] = match &plan.source {
            Source::Query(query) => &query.others,
            Source::Short { .. } => &[],
        };
        let scope = scope.beside(others)?;
        params = infer_params(&scope, &expressions(list), &params)?;
        let outputs = match others.is_empty() {
            true => returning::compile(list, &table.def, alias, &scope, &params)?,
            false => returning::compile_beside(list, &table.def, alias, others, &scope, &params)?,
        };
        let all: Vec<usize> = (0..table.def.columns.len() + others.len()).collect();
        plan.returning = Some(OutputList::bind(outputs, &all));
    }
    Ok((plan, params))
}

fn change_of(def: &TableDef, compiled: &Compiled, sets: Option<&[Set<'_>]>) -> Change {
    let Some(sets) = sets else { return Change::Delete };
    let set: Vec<usize> = sets.iter().map(|set| set.column).collect();
    Change::Update(compiled.with_generated(def, &set))
}

/// An UPDATE, or without `sets` a DELETE, of rows that somebody else finds; it is given whole rows.
pub(crate) fn of_found_rows(
    planner: &Planner<'_>,
    table: &Arc<TableVersion>,
    compiled: &Arc<Compiled>,
    sets: Option<&[Set<'_>]>,
) -> Result<ModifyPlan, SqlError> {
    let change = change_of(&table.def, compiled, sets);
    let (child_keys, parent_keys) = keys(table, &change, planner)?;
    Ok(ModifyPlan {
        table: table.clone(),
        compiled: compiled.clone(),
        change,
        source: Source::Short { access: None, residual: None, condition: None, sets: Vec::new() },
        projection: (0..table.def.columns.len()).collect(),
        whole: true,
        child_keys,
        parent_keys,
        returning: None,
        view_checks: Arc::from([]),
        through_view: false,
    })
}

/// The expressions of an output list, as [`infer_params`] takes them.
pub(crate) fn expressions(list: &[SelectItem]) -> Vec<(&Expr, Option<SqlType>)> {
    list.iter()
        .filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                Some((expr, None))
            }
            _ => None,
        })
        .collect()
}

fn params(
    def: &TableDef,
    scope: &Scope,
    sets: &Option<Vec<Set<'_>>>,
    modification: &Modification<'_>,
    given: &[SqlType],
) -> Result<Vec<SqlType>, SqlError> {
    let mut exprs: Vec<(&Expr, Option<SqlType>)> = Vec::new();
    for set in sets.iter().flatten() {
        if !is_default(set.value) {
            exprs.push((set.value, Some(def.columns[set.column].sql_type)));
        }
    }
    exprs.extend(modification.selection.map(|condition| (condition, None)));
    infer_params(scope, &exprs, given)
}

fn keys(
    table: &Arc<TableVersion>,
    change: &Change,
    planner: &Planner<'_>,
) -> Result<(Vec<Key>, Vec<Key>), SqlError> {
    let touched = |columns: &[usize]| match change {
        Change::Delete => true,
        Change::Update(set) => columns.iter().any(|c| set.contains(c)),
    };
    let children = match change {
        Change::Delete => Vec::new(),
        Change::Update(_) => Key::of_child(table, planner.catalog)?
            .into_iter()
            .filter(|key| touched(key.child_columns()))
            .collect(),
    };
    let parents = Key::of_parent(&table.def, planner.catalog)?
        .into_iter()
        .filter(|key| touched(key.parent_columns()))
        .collect();
    Ok((children, parents))
}

/// The columns that SET names, with their values; ascending.
pub(crate) fn sets<'a>(
    def: &TableDef,
    compiled: &Compiled,
    assignments: &'a [Assignment],
) -> Result<Vec<Set<'a>>, SqlError> {
    let mut sets: Vec<Set<'a>> = Vec::new();
    let mut add = |name: &datafusion::sql::sqlparser::ast::ObjectName, value: &'a Expr| {
        let ident = name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .ok_or_else(|| SqlError::unsupported(format!("the assignment to {name}")))?;
        let column = resolve::column(def, ident)?;
        if sets.iter().any(|set| set.column == column) {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("multiple assignments to same column \"{}\"", def.columns[column].name),
            ));
        }
        refuse_generated(def, compiled, column, is_default(value))?;
        // A generated column set to DEFAULT stays generated.
        if compiled.kinds[column] != DefaultKind::Generated {
            sets.push(Set { column, value });
        }
        Ok(())
    };
    for assignment in assignments {
        match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(name), value) => add(name, value)?,
            (AssignmentTarget::Tuple(names), Expr::Tuple(values))
                if names.len() == values.len() =>
            {
                for (name, value) in names.iter().zip(values) {
                    add(name, value)?;
                }
            }
            (AssignmentTarget::Tuple(names), Expr::Nested(value)) if names.len() == 1 => {
                add(&names[0], value)?;
            }
            _ => return Err(SqlError::unsupported("this form of multiple assignment")),
        }
    }
    sets.sort_by_key(|set| set.column);
    Ok(sets)
}

/// 428C9 where a statement gives a value that only the table may give.
fn refuse_generated(
    def: &TableDef,
    compiled: &Compiled,
    column: usize,
    default: bool,
) -> Result<(), SqlError> {
    let what = match compiled.kinds[column] {
        DefaultKind::Generated if !default => "a generated column",
        DefaultKind::IdentityAlways if !default => "an identity column defined as GENERATED ALWAYS",
        _ => return Ok(()),
    };
    let name = &def.columns[column].name;
    Err(SqlError::new(
        SqlState::new("428C9"),
        format!("column \"{name}\" can only be updated to DEFAULT"),
    )
    .detail(format!("Column \"{name}\" is {what}.")))
}

/// Fills in a plan that scans for itself.
fn short(
    plan: &mut ModifyPlan,
    scope: &Scope,
    sets: Option<&[Set<'_>]>,
    modification: &Modification<'_>,
    params: &[SqlType],
) -> Result<(), SqlError> {
    let table = plan.table.clone();
    let mut condition = None;
    let mut found = (None, Vec::new());
    let conjuncts = modification.selection.map(access::conjuncts).unwrap_or_default();
    if let Some(selection) = modification.selection {
        condition = Some(RowExpr::compile_condition(scope, selection, params, "WHERE")?);
        found = access::choose(&table, &conjuncts, params)?;
    }
    let (access, residual) = found;
    let residual = remaining(scope, &conjuncts, &residual, params)?;
    let mut values = Vec::new();
    for set in sets.unwrap_or_default() {
        let column = &table.def.columns[set.column];
        values.push((
            set.column,
            match is_default(set.value) {
                true => None,
                false => Some(RowExpr::compile_for(
                    scope,
                    set.value,
                    params,
                    &column.name,
                    column.ty,
                    column.sql_type,
                )?),
            },
        ));
    }
    let read = values.iter().filter_map(|(_, v)| v.as_ref()).chain(residual.as_ref());
    let all = 0..if plan.whole { table.def.columns.len() } else { 0 };
    let projection = projection_of(read, all);
    let mut bound: Vec<SetValue> = Vec::new();
    if let Change::Update(columns) = &plan.change {
        let mut values = values.into_iter().peekable();
        for column in columns {
            bound.push(match values.next_if(|(c, _)| c == column) {
                Some((_, Some(expr))) => SetValue::Expr(BoundExpr::new(expr, &projection)),
                Some((_, None)) => SetValue::Default,
                None => SetValue::Generated,
            });
        }
    }
    plan.source = Source::Short {
        access,
        residual: residual.map(|expr| BoundExpr::new(expr, &projection)),
        condition: condition.map(BoundExpr::whole),
        sets: bound,
    };
    plan.projection = projection;
    Ok(())
}

/// The conditions at `which`, joined by AND again.
pub(crate) fn remaining(
    scope: &Scope,
    conjuncts: &[&Expr],
    which: &[usize],
    params: &[SqlType],
) -> Result<Option<RowExpr>, SqlError> {
    use datafusion::sql::sqlparser::ast::BinaryOperator;
    let joined = which.iter().map(|at| conjuncts[*at].clone()).reduce(|left, right| {
        let (left, right) = (Expr::Nested(Box::new(left)), Expr::Nested(Box::new(right)));
        Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
    });
    match joined {
        Some(expr) => RowExpr::compile_condition(scope, &expr, params, "WHERE").map(Some),
        None => Ok(None),
    }
}
