//! Planning of MERGE.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr,
    MergeInsertKind, SetExpr, Statement, TableWithJoins,
};
use froglet_engine::SqlState;
use froglet_schema::{ColumnDef, SqlType, TableVersion};

use crate::apply::Stop;
use crate::command::fold;
use crate::error::SqlError;
use crate::insert::Inserter;
use crate::insert_plan::{self, CastTarget, target_of};
use crate::merge::{Action, BEFORE_VALUES, MergePlan, Place};
use crate::modify::Change;
use crate::modify_plan;
use crate::modify_query::{parse_written, typed};
use crate::plan::Planner;
use crate::provider::{ROW_ID, ROW_ID_SCHEMA};
use crate::query_rows::QueryPlan;
use crate::resolve::Relation;
use crate::table::{Compiled, compiled};
use crate::target::{is_default, written_table};
use crate::types::cast::{assignable, not_assignable};
use crate::udf::lookup::quoted;
use crate::walk::{self, Flow, GO_ON, STOP};

/// Plans a MERGE; with it the types of its parameters.
pub(crate) async fn plan(
    planner: &mut Planner<'_>,
    query: &ast::Query,
    given: &[SqlType],
) -> Result<(MergePlan, Vec<SqlType>), Stop> {
    let SetExpr::Merge(Statement::Merge(merge)) = &*query.body else {
        return Err(SqlError::unsupported("this form of MERGE").into());
    };
    refuse_unreachable(merge)?;
    let target = TableWithJoins { relation: merge.table.clone(), joins: Vec::new() };
    let target = written_table(&target)?;
    let refused = match planner.names().relation(target.name)? {
        Some(Relation::View(view)) => Some((&view.name, "views")),
        Some(Relation::Table(table)) if planner.catalog.materialized(table.def.id).is_some() => {
            Some((&table.def.name, "materialized views"))
        }
        _ => None,
    };
    if let Some((name, kind)) = refused {
        let message = format!("cannot execute MERGE on relation \"{name}\"");
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .detail(format!("This operation is not supported for {kind}."))
            .into());
    }
    let table = planner.names().table(target.name)?.clone();
    let compiled = compiled(&table)?;
    let name = target.alias.unwrap_or_else(|| table.def.name.clone());
    let with = query.with.as_ref().map(|with| format!("{with} ")).unwrap_or_default();
    let source = merge.source.to_string();
    let columns = columns_of(planner, &format!("{with}SELECT * FROM {source}"), given).await?;
    if columns.iter().any(|(qualifier, _)| *qualifier == name) {
        let message = format!("name \"{name}\" specified more than once");
        return Err(SqlError::new(SqlState::new("42712"), message)
            .detail("The name is used both as MERGE target table and data source.")
            .into());
    }
    let mut parts = Parts::new(&table, &compiled, planner);
    for clause in &merge.clauses {
        let mut clause = clause.clone();
        if clause.clause_kind != MergeClauseKind::Matched {
            of_source(&mut clause, &columns, &table, &name)?;
        }
        parts.add(&clause)?;
    }
    let qualifier = quoted(&name);
    let join = if parts.inserts { "LEFT JOIN" } else { "JOIN" };
    let text = format!(
        "{with}SELECT {qualifier}.{ROW_ID}, {} FROM {source} {join} \"{ROW_ID_SCHEMA}\".\"{}\" AS {qualifier} ON {}",
        parts.selected(&format!("{qualifier}.{ROW_ID}")),
        table.def.id,
        merge.on
    );
    let (targets, actions) = (parts.targets, parts.actions);
    let (query, params) = QueryPlan::plan(planner, &parse_written(&text)?, given).await?;
    for (field, (name, _, to)) in query.fields()[BEFORE_VALUES..].iter().zip(&targets) {
        if !assignable(field.sql_type.oid, to.oid) {
            return Err(not_assignable(name, *to, field.sql_type).into());
        }
    }
    Ok((MergePlan { name: table.def.name.clone(), query, targets, actions }, params))
}

/// 42601 for a clause behind one of its kind that has no condition.
fn refuse_unreachable(merge: &Merge) -> Result<(), SqlError> {
    let mut closed = [false; 2];
    for clause in &merge.clauses {
        let closed = &mut closed[usize::from(clause.clause_kind == MergeClauseKind::Matched)];
        if *closed {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "unreachable WHEN clause specified after unconditional WHEN clause",
            ));
        }
        *closed = clause.predicate.is_none();
    }
    Ok(())
}

/// The columns of a query's result, each with the name of its table.
async fn columns_of(
    planner: &mut Planner<'_>,
    query: &str,
    given: &[SqlType],
) -> Result<Vec<(String, String)>, Stop> {
    let (query, _) = QueryPlan::plan(planner, &parse_written(query)?, given).await?;
    let names = query.fields().iter().enumerate();
    Ok(names
        .map(|(at, field)| (query.qualifier(at).unwrap_or_default(), field.name.clone()))
        .collect())
}

/// WHEN NOT MATCHED sees the source alone: its columns' names are those of the source, whatever else has them.
fn of_source(
    clause: &mut MergeClause,
    columns: &[(String, String)],
    table: &TableVersion,
    target: &str,
) -> Result<(), SqlError> {
    let mut qualify = OfSource { columns, table, target, depth: 0, error: None };
    let mut exprs: Vec<&mut Expr> = clause.predicate.iter_mut().collect();
    if let MergeAction::Insert(MergeInsertExpr { kind: MergeInsertKind::Values(values), .. }) =
        &mut clause.action
    {
        exprs.extend(values.rows.iter_mut().flat_map(|row| row.content.iter_mut()));
    }
    for expr in exprs {
        if !is_default(expr) {
            walk::change(expr, &mut qualify);
        }
    }
    qualify.error.map_or(Ok(()), Err)
}

struct OfSource<'a> {
    /// With the names of their tables.
    columns: &'a [(String, String)],
    table: &'a TableVersion,
    target: &'a str,
    /// Queries around what is walked over.
    depth: usize,
    error: Option<SqlError>,
}

impl OfSource<'_> {
    fn resolve(&self, ident: &Ident) -> Result<Option<Expr>, SqlError> {
        let name = fold(ident);
        let mut found = self.columns.iter().filter(|(_, column)| *column == name);
        match (found.next(), found.next()) {
            (Some((qualifier, _)), None) if !qualifier.is_empty() => {
                let quote = |name: &str| Ident::with_quote('"', name);
                Ok(Some(Expr::CompoundIdentifier(vec![quote(qualifier), quote(&name)])))
            }
            (Some(_), None) => Ok(None),
            (Some(_), Some(_)) => Err(SqlError::new(
                SqlState::AMBIGUOUS_COLUMN,
                format!("column reference \"{name}\" is ambiguous"),
            )),
            (None, _) if self.table.def.columns.iter().any(|c| c.name == name) => {
                Err(SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{name}\" does not exist"),
                )
                .hint(format!(
                    "There is a column named \"{name}\" in table \"{}\", but it cannot be referenced from this part of the query.",
                    self.target
                )))
            }
            // A system column, say, or one that is in no table.
            (None, _) => Ok(None),
        }
    }
}

impl walk::Change for OfSource<'_> {
    fn expr(&mut self, expr: &mut Expr) -> Flow {
        let found = match expr {
            Expr::Identifier(ident) if self.depth == 0 => self.resolve(ident),
            Expr::CompoundIdentifier(parts)
                if self.depth == 0 && parts.len() == 2 && fold(&parts[0]) == self.target =>
            {
                let message =
                    format!("invalid reference to FROM-clause entry for table \"{}\"", self.target);
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).hint(format!(
                    "There is an entry for table \"{}\", but it cannot be referenced from this part of the query.",
                    self.target
                )))
            }
            _ => Ok(None),
        };
        match found {
            Ok(None) => GO_ON,
            Ok(Some(column)) => {
                *expr = column;
                GO_ON
            }
            Err(e) => {
                self.error.get_or_insert(e);
                STOP
            }
        }
    }

    fn query(&mut self, _query: &mut ast::Query) {
        self.depth += 1;
    }

    fn query_end(&mut self, _query: &mut ast::Query) {
        self.depth -= 1;
    }
}

/// The clauses, as they are put together.
struct Parts<'a, 'p> {
    table: &'a Arc<TableVersion>,
    compiled: &'a Arc<Compiled>,
    planner: &'a Planner<'p>,
    actions: Vec<Action>,
    /// For each clause: of rows that match, and on which condition.
    conditions: Vec<(bool, Option<String>)>,
    targets: Vec<CastTarget>,
    /// For each target the number of its clause, and its value.
    values: Vec<(usize, String)>,
    /// Some clause is about rows that do not match.
    inserts: bool,
}

impl<'a, 'p> Parts<'a, 'p> {
    fn new(
        table: &'a Arc<TableVersion>,
        compiled: &'a Arc<Compiled>,
        planner: &'a Planner<'p>,
    ) -> Parts<'a, 'p> {
        Parts {
            table,
            compiled,
            planner,
            actions: Vec::new(),
            conditions: Vec::new(),
            targets: Vec::new(),
            values: Vec::new(),
            inserts: false,
        }
    }

    fn add(&mut self, clause: &MergeClause) -> Result<(), SqlError> {
        let matched = clause.clause_kind == MergeClauseKind::Matched;
        let action = match &clause.action {
            MergeAction::Update(update) if update.assignments.is_empty() => Action::Nothing,
            MergeAction::Update(update) => self.update(&update.assignments)?,
            MergeAction::Delete { .. } => {
                let (table, compiled) = (self.table, self.compiled);
                let plan = modify_plan::of_found_rows(self.planner, table, compiled, None)?;
                Action::Modify(plan, Vec::new())
            }
            MergeAction::Insert(insert) => self.insert(insert)?,
        };
        self.inserts |= !matched;
        self.actions.push(action);
        self.conditions.push((matched, clause.predicate.as_ref().map(ToString::to_string)));
        Ok(())
    }

    /// A value of the clause that is being added.
    fn value(&mut self, value: &Expr, column: &ColumnDef) -> Place {
        if is_default(value) {
            return Place::Default;
        }
        self.values.push((self.actions.len(), typed(value, column)));
        self.targets.push(target_of(column));
        Place::Query(self.targets.len() - 1)
    }

    fn update(&mut self, assignments: &[ast::Assignment]) -> Result<Action, SqlError> {
        let table = self.table;
        let assignments = modify_plan::single(assignments);
        let sets = modify_plan::sets(&table.def, self.compiled, &assignments)?;
        let plan = modify_plan::of_found_rows(self.planner, table, self.compiled, Some(&sets))?;
        let mut places = Vec::new();
        if let Change::Update(columns) = &plan.change {
            for column in columns {
                places.push(match sets.iter().find(|set| set.column == *column) {
                    Some(set) => self.value(set.value, &table.def.columns[*column]),
                    None => Place::Generated,
                });
            }
        }
        Ok(Action::Modify(plan, places))
    }

    fn insert(&mut self, insert: &MergeInsertExpr) -> Result<Action, SqlError> {
        let (table, compiled) = (self.table, self.compiled);
        let overriding = match &insert.insert_predicate {
            Some(Expr::Identifier(ident)) => Some(ident.value.as_str()),
            _ => None,
        };
        let MergeInsertKind::Values(values) = &insert.kind else {
            return Err(SqlError::unsupported("this form of INSERT in MERGE"));
        };
        let values: &[Expr] = values.rows.first().map_or(&[], |row| &row.content);
        let columns = insert_plan::columns_named(&table.def, &insert.columns)?;
        let columns = match values.is_empty() {
            true => Vec::new(),
            false => insert_plan::shortened(!insert.columns.is_empty(), columns, values.len())?,
        };
        let mut places = Vec::with_capacity(columns.len());
        for (column, value) in columns.iter().zip(values) {
            let kind = compiled.kinds[*column];
            if is_default(value) || insert_plan::is_overridden(overriding, kind) {
                places.push(Place::Default);
                continue;
            }
            if !insert_plan::is_let(overriding, kind) {
                insert_plan::refuse_given(&table.def, compiled, *column)?;
            }
            places.push(self.value(value, &table.def.columns[*column]));
        }
        let inserter = Inserter::new(table, compiled.clone(), columns, self.planner.catalog)?;
        Ok(Action::Insert(inserter, places))
    }

    /// The output list behind the row id: the number of the clause, and every clause's values.
    fn selected(&self, row_id: &str) -> String {
        let mut clause = "CASE".to_owned();
        for (at, (matched, condition)) in self.conditions.iter().enumerate() {
            let not = if *matched { " NOT" } else { "" };
            clause.push_str(&format!(" WHEN {row_id} IS{not} NULL"));
            if let Some(condition) = condition {
                clause.push_str(&format!(" AND ({condition})"));
            }
            clause.push_str(&format!(" THEN {at}"));
        }
        clause.push_str(" END");
        let mut selected = format!("{clause} AS \"clause\"");
        for (at, (of, value)) in self.values.iter().enumerate() {
            selected.push_str(&format!(
                ", CASE WHEN ({clause}) = {of} THEN {value} END AS \"value {at}\""
            ));
        }
        selected
    }
}
