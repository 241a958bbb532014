//! Subqueries in a shape that DataFusion can decorrelate, and selects that find nothing.

use std::hash::{DefaultHasher, Hash, Hasher};

use datafusion::sql::sqlparser::ast::{self, Expr};
use datafusion::sql::sqlparser::tokenizer::Span;
use froglet_engine::SqlState;

use crate::error::SqlError;
use crate::planning::registry;
use crate::rewrite::{call, different, figure_alias, folded, null};
use crate::rewrite_order;
use crate::udf::nothing::{OR_EMPTY, OR_NULL};
use crate::udf::single;
use crate::walk::{self, Change, Flow, GO_ON, Look, STOP};

/// 42601 for a subquery without columns where a value is wanted: the planner would look for its first.
pub(crate) fn refuse_empty(expr: &ast::Expr) -> Result<(), SqlError> {
    fn is_empty(body: &ast::SetExpr) -> bool {
        match body {
            ast::SetExpr::Select(select) => select.projection.is_empty(),
            ast::SetExpr::SetOperation { left, .. } => is_empty(left),
            ast::SetExpr::Query(query) => is_empty(&query.body),
            _ => false,
        }
    }
    let message = match expr {
        ast::Expr::Subquery(query) if is_empty(&query.body) => {
            "subquery must return only one column"
        }
        ast::Expr::InSubquery { subquery, .. } if is_empty(&subquery.body) => {
            "subquery has too few columns"
        }
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

/// A scalar subquery's column becomes the aggregate that holds the one value, unless it is an
/// aggregate already, or has a limit: then only its type says that it may be NULL, of no row.
pub fn single_value(query: &mut ast::Query) {
    let limited = query.limit_clause.is_some() || query.fetch.is_some();
    let ast::SetExpr::Select(select) = &mut *query.body else { return };
    let one_row = select.from.is_empty() && select.selection.is_none() && !limited;
    if one_row && !is_grouped(select) {
        return;
    }
    let as_it_is = limited || select.distinct.is_some() || is_grouped(select);
    let [item] = &mut select.projection[..] else { return };
    let (expr, alias) = match item {
        ast::SelectItem::UnnamedExpr(expr) => (take(expr), None),
        ast::SelectItem::ExprWithAlias { expr, alias } => (take(expr), Some(alias.clone())),
        _ => return,
    };
    let alias = alias.unwrap_or_else(|| figure_alias(&expr));
    if as_it_is {
        let expr = call(OR_NULL, vec![expr]);
        *item = ast::SelectItem::ExprWithAlias { expr, alias };
        rewrite_order::part_names(query);
        return;
    }
    *item = ast::SelectItem::ExprWithAlias { expr: call(single::NAME, vec![expr]), alias };
    // The order of one row does not matter, and its keys may not be selected any more.
    query.order_by = None;
}

/// Gives a scalar subquery's column a name that no column around has: where it is grouped by, the planner finds names
/// of tables' columns ambiguous beside it. The same query has the same name.
pub fn name_apart(query: &mut ast::Query) {
    if query.order_by.is_some() {
        return;
    }
    let text = query.to_string();
    let ast::SetExpr::Select(select) = &mut *query.body else { return };
    if has_groups(select) || select.having.is_some() {
        return;
    }
    if let [ast::SelectItem::ExprWithAlias { alias, .. }] = &mut select.projection[..] {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let name = different(&folded(alias), hasher.finish() as usize);
        *alias = ast::Ident::with_quote('"', name);
    }
}

pub(crate) fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, null())
}

/// Whether a select groups, or has aggregates or window functions in its list.
pub(crate) fn is_grouped(select: &ast::Select) -> bool {
    has_groups(select)
        || select.having.is_some()
        || walk::look(&select.projection, &mut Aggregates { depth: 0 })
}

fn has_groups(select: &ast::Select) -> bool {
    match &select.group_by {
        ast::GroupByExpr::All(_) => true,
        ast::GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    }
}

/// Whether a query has a row of all rows together, be there any or none.
pub(crate) fn aggregates_all(query: &ast::Query) -> bool {
    matches!(&*query.body, ast::SetExpr::Select(select) if is_grouped(select) && !has_groups(select))
}

/// Whether an expression has aggregates or window functions of its own.
pub(crate) fn aggregates(expr: &Expr) -> bool {
    walk::look(expr, &mut Aggregates { depth: 0 })
}

/// Finds aggregates and window functions of a select list, not those of its subqueries.
struct Aggregates {
    depth: usize,
}

impl Look for Aggregates {
    fn query(&mut self, _query: &ast::Query) -> Flow {
        self.depth += 1;
        GO_ON
    }

    fn query_end(&mut self) {
        self.depth -= 1;
    }

    fn expr(&mut self, expr: &Expr) -> Flow {
        let Expr::Function(f) = expr else { return GO_ON };
        let name = f.name.0.last().and_then(|p| p.as_ident()).map(folded);
        let aggregate = f.over.is_some() || name.is_some_and(|n| registry().is_aggregate(&n));
        if aggregate && self.depth == 0 { STOP } else { GO_ON }
    }
}

/// The query of `ARRAY(SELECT …)`.
pub fn array_subquery(function: &ast::Function) -> Option<&ast::Query> {
    let name = function.name.0.last()?.as_ident()?;
    match &function.args {
        ast::FunctionArguments::Subquery(query) if name.value.eq_ignore_ascii_case("array") => {
            Some(query)
        }
        _ => None,
    }
}

/// `(SELECT array_agg(s.c) FROM (query) s(c))`, and an empty array of no rows; a query that finds nothing is `'{}'::text[]`.
pub fn array_of(query: &ast::Query) -> Expr {
    if let ast::SetExpr::Select(select) = &*query.body
        && finds_nothing(select)
    {
        return empty_array();
    }
    call(OR_EMPTY, vec![array_or_null(query)])
}

fn array_or_null(query: &ast::Query) -> Expr {
    let mut simple = query.clone();
    if crate::rewrite_correlated::aggregate_array(&mut simple) {
        let outside = crate::rewrite_correlated::separate(&mut simple, false);
        let value = Expr::Subquery(Box::new(simple));
        return match outside {
            Some(condition) => crate::rewrite_correlated::when(condition, value),
            None => value,
        };
    }
    let sql = "SELECT array_agg(froglet_array.item) FROM (SELECT 1) froglet_array(item)";
    let dialect = datafusion::sql::sqlparser::dialect::PostgreSqlDialect {};
    let parsed = datafusion::sql::sqlparser::parser::Parser::parse_sql(&dialect, sql);
    let Ok([ast::Statement::Query(outer)]) = parsed.as_deref() else {
        unreachable!("a constant text parses");
    };
    let mut outer = (**outer).clone();
    if let ast::SetExpr::Select(select) = &mut *outer.body
        && let Some(ast::TableFactor::Derived { subquery, .. }) =
            select.from.first_mut().map(|t| &mut t.relation)
    {
        **subquery = query.clone();
    }
    Expr::Subquery(Box::new(outer))
}

/// `'{}'::text[]`
pub fn empty_array() -> Expr {
    let text = ast::Value::SingleQuotedString("{}".to_owned());
    let element = Box::new(ast::DataType::Text);
    Expr::Cast {
        kind: ast::CastKind::DoubleColon,
        expr: Box::new(Expr::Value(ast::ValueWithSpan { value: text, span: Span::empty() })),
        data_type: ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, None)),
        array: false,
        format: None,
    }
}

/// Whether a select joins a system table that never has rows.
pub fn finds_nothing(select: &ast::Select) -> bool {
    select.from.iter().any(|from| {
        let inner = from.joins.iter().filter(|join| {
            matches!(
                join.join_operator,
                ast::JoinOperator::Join(_)
                    | ast::JoinOperator::Inner(_)
                    | ast::JoinOperator::CrossJoin(_)
            )
        });
        std::iter::once(&from.relation).chain(inner.map(|j| &j.relation)).any(is_empty_table)
    })
}

fn is_empty_table(factor: &ast::TableFactor) -> bool {
    let ast::TableFactor::Table { name, args: None, .. } = factor else { return false };
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    match &parts[..] {
        [name] => crate::pgcatalog::always_empty(None, name),
        [schema, name] => crate::pgcatalog::always_empty(Some(schema), name),
        _ => false,
    }
}

/// Whether any select of a query joins a table that never has rows.
pub fn mentions_nothing(query: &ast::Query) -> bool {
    struct Finder;
    impl Look for Finder {
        fn select(&mut self, select: &ast::Select) -> Flow {
            if finds_nothing(select) { STOP } else { GO_ON }
        }
    }
    walk::look(query, &mut Finder)
}

/// Replaces selects over tables that never have rows by ones that find nothing either, and that
/// any planner can plan. For queries that it cannot plan otherwise (psql's for publications,
/// triggers, policies): their columns have no type of their own.
pub fn empty_selects(query: &mut ast::Query) {
    struct Emptier;
    impl Change for Emptier {
        fn query(&mut self, query: &mut ast::Query) {
            if let ast::SetExpr::Select(select) = &*query.body
                && can_be_emptied(select)
            {
                query.order_by = None;
            }
        }

        fn select(&mut self, select: &mut ast::Select) {
            if can_be_emptied(select) {
                empty(select);
            }
        }
    }
    walk::change(query, &mut Emptier);
}

fn can_be_emptied(select: &ast::Select) -> bool {
    let named = select.projection.iter().all(|item| {
        matches!(item, ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. })
    });
    named && finds_nothing(select) && !is_grouped(select)
}

fn empty(select: &mut ast::Select) {
    for item in &mut select.projection {
        let alias = match item {
            ast::SelectItem::UnnamedExpr(expr) => figure_alias(expr),
            ast::SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
            _ => continue,
        };
        *item = ast::SelectItem::ExprWithAlias { expr: null(), alias };
    }
    select.from.clear();
    let never = ast::Value::Boolean(false);
    select.selection = Some(Expr::Value(ast::ValueWithSpan { value: never, span: Span::empty() }));
}
