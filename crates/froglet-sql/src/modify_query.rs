//! UPDATE and DELETE whose rows a query finds.
//!
//! ```text
//!   UPDATE t SET a = e FROM u WHERE c    SELECT t._rid, e, t.* FROM t, u WHERE c
//! ```
//!
//! The query hands out row ids, the new values, and the whole old row where the table's rules want
//! it. A row that several rows of the others match is written once, with the first.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{Expr, Query, Statement, TableFactor, TableWithJoins};
use datafusion::sql::sqlparser::parser::Parser;
use froglet_engine::{ColumnType, Row, RowId, Snapshot, SqlState, Value};
use froglet_schema::{SqlType, TableDef};

use crate::apply::{Stop, Targets, Writer};
use crate::command::fold;
use crate::dialect::Postgres;
use crate::error::SqlError;
use crate::expr::Other;
use crate::insert_plan::{CastTarget, target_of};
use crate::modify::{Change, ModifyPlan};
use crate::modify_plan::{Modification, Set};
use crate::plan::Planner;
use crate::provider::{ROW_ID, ROW_ID_SCHEMA};
use crate::query::account::Gathering;
use crate::query_rows::{QueryPlan, next};
use crate::target::is_default;
use crate::types::cast::{CastContext, assignable, not_assignable};
use crate::types::{self, cast_array, value_at};
use crate::udf::lookup::quoted;

/// A query for the rows of an UPDATE or DELETE.
pub(crate) struct QuerySource {
    plan: QueryPlan,
    /// For each column that is set: its place after the row id, or its default, or generated.
    sets: Vec<Place>,
    /// The types of the values that the query computes.
    targets: Vec<CastTarget>,
    /// The columns after those, of other tables, for RETURNING.
    pub(crate) others: Vec<Other>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Query(usize),
    Default,
    Generated,
}

impl QuerySource {
    /// The columns of old rows.
    pub(crate) fn projection(plan: &ModifyPlan) -> Vec<usize> {
        if plan.whole { (0..plan.table.def.columns.len()).collect() } else { Vec::new() }
    }

    pub(crate) async fn collect(
        &self,
        plan: &ModifyPlan,
        writer: &mut Writer<'_>,
        view: &Snapshot,
    ) -> Result<Targets, Stop> {
        let limits = writer.limits;
        let mut stream = self.plan.run_within(writer).await?;
        let mut targets = Targets::new();
        let mut gathering = Gathering::new(&**writer.session);
        let mut seen = HashSet::new();
        while let Some(batch) = next(&mut stream, limits).await? {
            let mut computed = Vec::with_capacity(self.targets.len());
            for (at, (_, ty, sql_type)) in self.targets.iter().enumerate() {
                let array = batch.column(1 + at);
                computed.push((cast_array(array, *ty, *sql_type, CastContext::Assignment)?, *ty));
            }
            let mut others = Vec::with_capacity(self.others.len());
            for (at, Other { column: (_, ty, sql_type), .. }) in self.others.iter().enumerate() {
                let array = batch.column(1 + self.targets.len() + at);
                others.push((cast_array(array, *ty, *sql_type, CastContext::Assignment)?, *ty));
            }
            for row in 0..batch.num_rows() {
                let rid = row_id(&batch, row)?;
                if !seen.insert(rid) {
                    continue;
                }
                let mut old = Vec::new();
                if plan.whole && !plan.table.table.read_row(view, rid, &plan.projection, &mut old) {
                    continue;
                }
                if let Change::Update(columns) = &plan.change {
                    let mut values = Vec::with_capacity(columns.len());
                    for (column, place) in columns.iter().zip(&self.sets) {
                        values.push(match place {
                            Place::Query(at) => {
                                let (array, ty) = &computed[*at];
                                value_at(array.as_ref(), row, *ty)
                            }
                            Place::Default => plan.compiled.default(*column, writer.eval)?,
                            Place::Generated => Value::Null,
                        });
                    }
                    plan.complete(columns, &mut values, &old, rid, view, writer.eval)?;
                    gathering.row(&values)?;
                    targets.values.push(values);
                }
                targets.rids.push(rid);
                if !others.is_empty() {
                    let values = others.iter().map(|(a, ty)| value_at(a.as_ref(), row, *ty));
                    let values: Row = values.collect();
                    gathering.row(&values)?;
                    targets.others.push(values);
                }
                if plan.whole {
                    gathering.row(&old)?;
                    targets.olds.push(old);
                }
            }
        }
        Ok(targets)
    }
}

fn row_id(batch: &arrow::array::RecordBatch, row: usize) -> Result<RowId, SqlError> {
    match value_at(batch.column(0).as_ref(), row, froglet_engine::ColumnType::Int64) {
        Value::Int64(rid) => Ok(RowId(rid as u64)),
        other => {
            Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("a row id came as {other:?}")))
        }
    }
}

/// Plans the query; with it the types of the statement's parameters.
pub(crate) async fn plan(
    planner: &mut Planner<'_>,
    plan: &ModifyPlan,
    modification: &Modification<'_>,
    sets: Option<&[Set<'_>]>,
    given: &[SqlType],
) -> Result<(QuerySource, Vec<SqlType>), Stop> {
    let def = &plan.table.def;
    let mut selected = Vec::new();
    let mut targets = Vec::new();
    let mut places = Vec::new();
    if let Change::Update(columns) = &plan.change {
        for column in columns {
            let set = sets.unwrap_or_default().iter().find(|set| set.column == *column);
            places.push(match set {
                Some(set) if is_default(set.value) => Place::Default,
                Some(set) => {
                    selected.push(typed(set.value, &def.columns[*column]));
                    targets.push(target_of(&def.columns[*column]));
                    Place::Query(targets.len() - 1)
                }
                None => Place::Generated,
            });
        }
    }
    if modification.returning.is_some() {
        for name in names(modification.others)? {
            selected.push(format!("{}.*", quoted(&name)));
        }
    }
    let query = query(def, modification, &selected, targets.len())?;
    let (query, params) = QueryPlan::plan(planner, &query, given).await?;
    for (field, (name, _, to)) in query.fields()[1..].iter().zip(&targets) {
        if !assignable(field.sql_type.oid, to.oid) {
            return Err(not_assignable(name, *to, field.sql_type).into());
        }
    }
    let others = (1 + targets.len()..query.fields().len()).map(|at| other(&query, at));
    let others = others.collect::<Result<_, _>>()?;
    Ok((QuerySource { plan: query, sets: places, targets, others }, params))
}

/// A column of another table.
fn other(query: &QueryPlan, at: usize) -> Result<Other, SqlError> {
    let field = &query.fields()[at];
    let ty = field.sql_type;
    let stored = match types::array::is_array(ty.oid) {
        true => Some(ColumnType::Text),
        false => field.ty.or_else(|| types::column_type_of(ty.oid, ty.modifier)),
    };
    match (query.qualifier(at), stored) {
        (Some(qualifier), Some(stored)) => {
            Ok(Other { qualifier, column: (field.name.clone(), stored, ty) })
        }
        _ => Err(SqlError::unsupported(format!("RETURNING beside column \"{}\"", field.name))),
    }
}

/// The names under which other tables go.
pub(crate) fn names(others: &[TableWithJoins]) -> Result<Vec<String>, SqlError> {
    fn tables(item: &TableWithJoins) -> impl Iterator<Item = &TableFactor> {
        std::iter::once(&item.relation).chain(item.joins.iter().map(|join| &join.relation))
    }
    let name = |factor: &TableFactor| match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => Ok(fold(&alias.name)),
        TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
            let last = name.0.last().and_then(|part| part.as_ident()).map(fold);
            last.ok_or_else(|| SqlError::unsupported(format!("RETURNING beside {factor}")))
        }
        other => Err(SqlError::unsupported(format!("RETURNING beside {other}"))),
    };
    others.iter().flat_map(tables).map(name).collect()
}

/// A literal or parameter without a type takes the column's.
pub(crate) fn typed(value: &Expr, column: &froglet_schema::ColumnDef) -> String {
    if crate::expr::untyped(value) {
        // character is character(1), which would cut what the column takes.
        let oid = match column.sql_type.oid {
            types::oids::BPCHAR => types::oids::TEXT,
            oid => oid,
        };
        format!("CAST({value} AS {})", types::type_name(types::plain(oid)))
    } else {
        format!("({value})")
    }
}

/// The target is written as the relation that has its row ids, under the name it has in the
/// statement.
fn query(
    def: &TableDef,
    modification: &Modification<'_>,
    selected: &[String],
    values: usize,
) -> Result<Query, SqlError> {
    let name = modification.target.alias.as_deref().unwrap_or(&def.name);
    let qualifier = quoted(name);
    let mut from = format!("\"{ROW_ID_SCHEMA}\".\"{}\" AS {qualifier}", def.id);
    for other in modification.others {
        from.push_str(&format!(", {other}"));
    }
    let mut text = match &modification.with {
        Some(with) => format!("{with} SELECT {qualifier}.{ROW_ID}"),
        None => format!("SELECT {qualifier}.{ROW_ID}"),
    };
    for (at, value) in selected.iter().enumerate() {
        match at < values {
            true => text.push_str(&format!(", {value} AS \"value {at}\"")),
            false => text.push_str(&format!(", {value}")),
        }
    }
    text.push_str(&format!(" FROM {from}"));
    if let Some(condition) = modification.selection {
        text.push_str(&format!(" WHERE {condition}"));
    }
    parse_written(&text)
}

/// Parses a query that was put together.
pub(crate) fn parse_written(text: &str) -> Result<Query, SqlError> {
    let statements = stacker::maybe_grow(1 << 20, 64 << 20, || {
        Parser::new(&Postgres)
            .with_recursion_limit(512)
            .try_with_sql(text)
            .and_then(|mut parser| parser.parse_statements())
    })
    // What was parsed once and is not when it is written out (`u. 3`) was no SQL the first time.
    .map_err(|e| SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error: {e} in {text}")))?;
    match statements.into_iter().next() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("not a query: {text}"))),
    }
}
