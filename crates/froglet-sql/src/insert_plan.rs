//! Planning of INSERT.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Insert, ObjectName, OnInsert, Query, SetExpr, Setting, TableObject, UnaryOperator,
    Value as Ast,
};
use froglet_engine::{ColumnType, SqlState, Value};
use froglet_schema::{ColumnDef, SqlType, TableDef, TableVersion};

use crate::apply::Stop;
use crate::command::fold;
use crate::error::SqlError;
use crate::expr::{RowExpr, Scope, infer_params};
use crate::insert::{InsertPlan, Inserter, Source};
use crate::modify_query::typed;
use crate::on_conflict::OnConflict;
use crate::parse::{parse_expression, parse_query};
use crate::plan::Planner;
use crate::query_rows::RowsQuery;
use crate::resolve;
use crate::returning::{self, OutputList};
use crate::stored::{self, DefaultKind};
use crate::table::{Compiled, compiled};
use crate::target::is_default;
use crate::{types, view_write};

/// Plans an INSERT; with it the types of its parameters.
pub(crate) async fn plan(
    planner: &mut Planner<'_>,
    insert: &Insert,
    given: &[SqlType],
) -> Result<(InsertPlan, Vec<SqlType>), Stop> {
    let name = target(insert)?;
    if let Some(view) = view_write::view_of(planner, name)? {
        let (of_table, checks) = view_write::insert(planner, view, insert)?;
        let (mut planned, params) = Box::pin(plan(planner, &of_table, given)).await?;
        planned.inserter.view_checks = checks;
        planned.inserter.through_view = true;
        return Ok((planned, params));
    }
    let table = planner.names().written(name)?.clone();
    let compiled = compiled(&table)?;
    let alias = insert.table_alias.as_ref().map(|alias| fold(&alias.alias));
    let columns = columns_named(&table.def, &insert.columns)?;
    let (source, columns, mut params) = match values_of(insert.source.as_deref()) {
        Body::Defaults => (Source::Values(vec![Vec::new()]), Vec::new(), given.to_vec()),
        Body::Values(rows) => values(&table, &compiled, insert, columns, &rows, given)?,
        Body::Query(query) => {
            query_source(planner, &table, &compiled, insert, columns, query, given).await?
        }
        Body::Queries(query, rows) => {
            let columns = shortened(!insert.columns.is_empty(), columns, width(&rows)?)?;
            let (columns, query) = union_of(&table.def, columns, query, &rows)?;
            query_source(planner, &table, &compiled, insert, columns, &query, given).await?
        }
    };
    let scope = Scope::table(&table.def, alias.as_deref());
    let on_conflict = match &insert.on {
        None => None,
        Some(OnInsert::OnConflict(clause)) => {
            let (on_conflict, found) =
                OnConflict::plan(&table, &compiled, alias.as_deref(), clause, &params, planner)?;
            params = found;
            Some(on_conflict)
        }
        Some(_) => return Err(SqlError::unsupported("this form of INSERT").into()),
    };
    let returning = match &insert.returning {
        Some(list) => {
            params = infer_params(&scope, &crate::modify_plan::expressions(list), &params)?;
            let outputs = returning::compile(list, &table.def, alias.as_deref(), &scope, &params)?;
            let all: Vec<usize> = (0..table.def.columns.len()).collect();
            Some(OutputList::bind(outputs, &all))
        }
        None => None,
    };
    let inserter = Inserter::new(&table, compiled, columns, planner.catalog);
    Ok((InsertPlan { inserter, source, on_conflict, returning }, params))
}

/// What a query gives, as the columns take it.
async fn query_source(
    planner: &mut Planner<'_>,
    table: &TableVersion,
    compiled: &Compiled,
    insert: &Insert,
    columns: Vec<usize>,
    query: &Query,
    given: &[SqlType],
) -> Result<(Source, Vec<usize>, Vec<SqlType>), Stop> {
    let types: Vec<SqlType> = columns.iter().map(|c| table.def.columns[*c].sql_type).collect();
    let (query, params) = RowsQuery::plan(planner, query, given, &types).await?;
    let columns = shortened(!insert.columns.is_empty(), columns, query.width())?;
    for column in &columns {
        let kind = compiled.kinds[*column];
        if is_overridden(overriding(insert), kind) {
            return Err(SqlError::unsupported("OVERRIDING USER VALUE of a query").into());
        }
        if !is_let(overriding(insert), kind) {
            refuse_given(&table.def, compiled, *column)?;
        }
    }
    let targets = columns.iter().map(|c| target_of(&table.def.columns[*c])).collect();
    Ok((Source::Query(Box::new(query.cast_to(targets)?)), columns, params))
}

/// OVERRIDING … VALUE is kept among an INSERT's settings, of which PostgreSQL has none.
const OVERRIDING: &str = "overriding";

pub(crate) fn override_with(insert: &mut Insert, value: &str) {
    let setting =
        Setting { key: Ident::new(OVERRIDING), value: Expr::Identifier(Ident::new(value)) };
    insert.settings = Some(vec![setting]);
}

/// `system`, `user`
fn overriding(insert: &Insert) -> Option<&str> {
    let setting = insert.settings.iter().flatten().find(|s| s.key.value == OVERRIDING)?;
    match &setting.value {
        Expr::Identifier(value) => Some(&value.value),
        _ => None,
    }
}

/// Whether a value given for a column is not used: OVERRIDING USER VALUE.
pub(crate) fn is_overridden(overriding: Option<&str>, kind: DefaultKind) -> bool {
    kind.is_identity() && overriding == Some("user")
}

pub(crate) fn is_let(overriding: Option<&str>, kind: DefaultKind) -> bool {
    kind == DefaultKind::IdentityAlways && overriding == Some("system")
}

/// A column as the target of a cast: name, stored type, SQL type.
pub(crate) type CastTarget = (String, ColumnType, SqlType);

pub(crate) fn target_of(column: &ColumnDef) -> CastTarget {
    (column.name.clone(), column.ty, column.sql_type)
}

fn target(insert: &Insert) -> Result<&ObjectName, SqlError> {
    if insert.overwrite || insert.replace_into || insert.or.is_some() || insert.ignore {
        return Err(SqlError::unsupported("this form of INSERT"));
    }
    match &insert.table {
        TableObject::TableName(name) => Ok(name),
        other => Err(SqlError::unsupported(format!("INSERT INTO {other}"))),
    }
}

/// The columns named, or all of them.
pub(crate) fn columns_named(def: &TableDef, names: &[ObjectName]) -> Result<Vec<usize>, SqlError> {
    if names.is_empty() {
        return Ok((0..def.columns.len()).collect());
    }
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let ident = name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .ok_or_else(|| SqlError::unsupported(format!("the column {name}")))?;
        let column = resolve::column(def, ident)?;
        if columns.contains(&column) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{}\" specified more than once", def.columns[column].name),
            ));
        }
        columns.push(column);
    }
    Ok(columns)
}

#[allow(clippy::large_enum_variant)] // one per statement
enum Body<'a> {
    Defaults,
    Values(Vec<&'a [Expr]>),
    /// VALUES with queries inside.
    Queries(&'a Query, Vec<&'a [Expr]>),
    Query(&'a Query),
}

fn values_of(source: Option<&Query>) -> Body<'_> {
    let Some(mut query) = source else { return Body::Defaults };
    // Parentheses around all of it.
    while let SetExpr::Query(inner) = query.body.as_ref()
        && query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
    {
        query = inner;
    }
    match query.body.as_ref() {
        SetExpr::Values(values) if query.order_by.is_none() && query.limit_clause.is_none() => {
            let rows: Vec<&[Expr]> = values.rows.iter().map(|row| row.content.as_slice()).collect();
            if rows.iter().any(|row| row.iter().any(crate::target::has_subquery)) {
                return Body::Queries(query, rows);
            }
            Body::Values(rows)
        }
        _ => Body::Query(query),
    }
}

/// How many values the rows have.
fn width(rows: &[&[Expr]]) -> Result<usize, SqlError> {
    let width = rows.first().map_or(0, |row| row.len());
    if rows.iter().any(|row| row.len() != width) {
        let message = "VALUES lists must all be the same length";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    Ok(width)
}

/// VALUES with queries inside, as a union of SELECTs: DataFusion's VALUES takes no queries. A column of which
/// every row says DEFAULT is not given.
fn union_of(
    def: &TableDef,
    columns: Vec<usize>,
    values: &Query,
    rows: &[&[Expr]],
) -> Result<(Vec<usize>, Query), SqlError> {
    let is_given = |at: usize| rows.iter().any(|row| !is_default(&row[at]));
    let given: Vec<usize> = (0..columns.len()).filter(|at| is_given(*at)).collect();
    let value = |expr: &Expr, column: usize| {
        let column = &def.columns[column];
        let default = || parse_expression(&stored::default_text(column, def)?).ok();
        match is_default(expr) {
            true => typed(&default().unwrap_or_else(crate::rewrite::null), column),
            false => typed(expr, column),
        }
    };
    let select = |row: &&[Expr]| {
        let list: Vec<String> =
            given.iter().map(|at| value(&row[*at], columns[*at]).to_string()).collect();
        format!("SELECT {}", list.join(", "))
    };
    // Branch after branch ([`crate::in_order`]): numbers of sequences go up with the rows.
    let selects: Vec<String> = rows.iter().map(select).collect();
    let mut union = parse_query(&selects.join(" UNION ALL "))?;
    union.with.clone_from(&values.with);
    Ok((given.iter().map(|at| columns[*at]).collect(), union))
}

/// Without a column list a row may be shorter than the table, and never longer.
pub(crate) fn shortened(
    named: bool,
    mut columns: Vec<usize>,
    width: usize,
) -> Result<Vec<usize>, SqlError> {
    let message = if width > columns.len() {
        "INSERT has more expressions than target columns"
    } else if width < columns.len() && named {
        "INSERT has more target columns than expressions"
    } else {
        columns.truncate(width);
        return Ok(columns);
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

fn values(
    table: &TableVersion,
    compiled: &Compiled,
    insert: &Insert,
    columns: Vec<usize>,
    rows: &[&[Expr]],
    given: &[SqlType],
) -> Result<(Source, Vec<usize>, Vec<SqlType>), SqlError> {
    let width = width(rows)?;
    let columns = shortened(!insert.columns.is_empty(), columns, width)?;
    let scope = Scope::empty();
    let mut exprs: Vec<(&Expr, Option<SqlType>)> = Vec::new();
    for row in rows {
        for (column, expr) in columns.iter().zip(*row) {
            if !is_default(expr) && !matches!(expr, Expr::Value(v) if is_literal(&v.value)) {
                exprs.push((expr, Some(table.def.columns[*column].sql_type)));
            }
        }
    }
    let params = infer_params(&scope, &exprs, given)?;
    let mut source = Vec::with_capacity(rows.len());
    for row in rows {
        let mut values = Vec::with_capacity(width);
        for (column, expr) in columns.iter().zip(*row) {
            let kind = compiled.kinds[*column];
            if is_default(expr) || is_overridden(overriding(insert), kind) {
                values.push(None);
                continue;
            }
            if !is_let(overriding(insert), kind) {
                refuse_given(&table.def, compiled, *column)?;
            }
            values.push(Some(value(&scope, expr, &params, &table.def.columns[*column])?));
        }
        source.push(values);
    }
    Ok((Source::Values(source), columns, params))
}

fn is_literal(value: &Ast) -> bool {
    !matches!(value, Ast::Placeholder(_))
}

/// One value of VALUES. Small whole numbers, which is what bulk loads are made of, need no planner.
fn value(
    scope: &Scope,
    expr: &Expr,
    params: &[SqlType],
    column: &ColumnDef,
) -> Result<RowExpr, SqlError> {
    if let Some(value) = small_number(expr).and_then(|n| number_of(n, column.ty)) {
        let scalar = types::scalar_of(&value, column.ty);
        return RowExpr::constant(scalar, column.ty, column.sql_type);
    }
    RowExpr::compile_for(scope, expr, params, &column.name, column.ty, column.sql_type)
}

fn small_number(expr: &Expr) -> Option<i32> {
    match expr {
        Expr::Value(v) => match &v.value {
            Ast::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            small_number(expr).and_then(i32::checked_neg)
        }
        _ => None,
    }
}

fn number_of(n: i32, ty: ColumnType) -> Option<Value> {
    match ty {
        ColumnType::Float64 => Some(Value::Float64(f64::from(n))),
        _ => Value::of_integer(i64::from(n), ty),
    }
}

/// 428C9 where a statement gives a value that only the table may give.
pub(crate) fn refuse_given(
    def: &TableDef,
    compiled: &Compiled,
    column: usize,
) -> Result<(), SqlError> {
    let name = &def.columns[column].name;
    let error = SqlError::new(
        SqlState::new("428C9"),
        format!("cannot insert a non-DEFAULT value into column \"{name}\""),
    );
    match compiled.kinds[column] {
        DefaultKind::Generated => {
            Err(error.detail(format!("Column \"{name}\" is a generated column.")))
        }
        DefaultKind::IdentityAlways => Err(error
            .detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."))
            .hint("Leave the column out, or give DEFAULT for it.")),
        _ => Ok(()),
    }
}
