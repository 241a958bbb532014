//! What is rewritten in the parsed statement before DataFusion plans it, and why.
//!
//! | written | becomes | because |
//! |---|---|---|
//! | `1` | `1::int4` | PostgreSQL's literal is an integer, DataFusion's a bigint; not where the number is a position (ORDER BY 1, GROUP BY 1) or a count (LIMIT) |
//! | `x OPERATOR(pg_catalog.~) y` | `x ~ y` | psql writes it so |
//! | `x COLLATE "default"` | `x` | there is one collation |
//! | `pg_catalog.f(x)` | `f(x)` | functions have no schemas here |
//! | `ARRAY(SELECT …)` | `froglet_list((SELECT array_agg(…) FROM (SELECT …)))` | DataFusion has no array subquery; the function makes an empty list of NULL |
//! | `(SELECT x FROM t)` | `(SELECT froglet_single_value(x) FROM t)` | DataFusion decorrelates aggregates only |
//! | `SELECT EXISTS (SELECT …)` | `SELECT (SELECT count(*) …) > 0` | DataFusion knows EXISTS only as a condition |
//! | conditions of correlated subqueries | [`crate::rewrite_correlated`] | DataFusion pulls up only equalities |
//! | `(a, b) = (1, 2)` | `a = 1 AND b = 2` | DataFusion makes structs |
//! | `c.reloptions \|\| …` | `c.reloptions` | psql's `\d+`; there are no tables of TOAST |
//! | a select over a table that is always empty | one that finds nothing | only where the query cannot be planned otherwise: [`crate::rewrite_subquery::empty_selects`] |
//! | `SELECT a, a`, `SELECT 1` | aliases | DataFusion wants different names, PostgreSQL gives `?column?`; see [`name_columns`] |
//! | `SELECT f(v) AS v … ORDER BY t.v` | another alias | DataFusion sorts by a column beside the result and cannot tell the two `v` apart: [`crate::rewrite_order`] |
//! | `t.tableoid` | the number of `t` | [`crate::rewrite_tableoid`] |
//! | `pg_listening_channels()` | `unnest(…)` | a function here has one value, which may be an array |
//! | `x ~~ y`, `x !~~ y` | `x LIKE y` | DataFusion plans only the keyword |
//! | `interval '1' day` | `'1'::interval day` | [`crate::rewrite_interval`]: DataFusion reads fewer texts |
//! | `FROM jsonb_each(x)` | `FROM UNNEST(…)` | [`crate::rewrite_json`]: table functions take constants only |
//! | `SELECT e FROM jsonb_array_elements(x) e` | `SELECT e.value …` | [`crate::rewrite_elements`]: `e` is a row |
//! | `-x` | a checked call | DataFusion's minus wraps |
//! | `extract(…)`, `a ^ b`, … | calls | [`crate::rewrite_calls`] |
//! | `FROM lower('X')` | `FROM (SELECT lower('X'))` | [`crate::rewrite_scalar`]: DataFusion has functions of tables there |
//! | functions that return sets | lists, unnested | [`crate::rewrite_sets`] |
//! | `VALUES (date '2024-01-01'), ('2024-01-02')`, `x IS DISTINCT FROM '1'` | types are given to literals, a call | [`crate::rewrite_values`] |
//! | `x > ALL (SELECT …)` | comparisons with extremes | [`crate::rewrite_quantified`] |
//! | `1e20`, `1e308` | digits, or a double precision where no decimal holds them | DataFusion makes decimals of negative scale |

use std::collections::HashSet;
use std::fmt::Display;

use datafusion::sql::sqlparser::ast::{self, Expr, VisitMut};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::error::SqlError;
use crate::plan::rewrite::numbers::{self, marked, unmark};
use crate::plan::rewrite::{alike_in_sets, beside_sets, exists, hidden_tables, stars, table_calls};
use crate::planning::registry;
use crate::query::{named_windows, recursion, shadowed_parts};
use crate::semantics::cast_names;
use crate::semantics::fieldnames::figure_name;
use crate::semantics::merged_columns;
use crate::walk::{self, Change, Flow, GO_ON, STOP};
use crate::{
    once, rewrite_calls, rewrite_correlated, rewrite_elements, rewrite_interval, rewrite_json,
    rewrite_order, rewrite_quantified, rewrite_records, rewrite_rows, rewrite_scalar, rewrite_sets,
    rewrite_subquery, rewrite_tableoid, rewrite_tuple, rewrite_whole,
};

/// Rewrites an expression that stands alone.
pub fn rewrite_expr(expr: &Expr) -> Result<Expr, SqlError> {
    let mut expr = expr.clone();
    run(&mut expr)?;
    Ok(expr)
}

/// Rewrites a query.
pub fn rewrite_query(query: &ast::Query) -> Result<ast::Query, SqlError> {
    let mut query = query.clone();
    shadowed_parts::rename(&mut query);
    recursion::without_parentheses(&mut query);
    once::mark(&mut query);
    run(&mut query)?;
    rewrite_order::part_names(&mut query);
    Ok(query)
}

fn run(node: &mut impl VisitMut) -> Result<(), SqlError> {
    let mut rewriter = Rewriter::default();
    walk::change(node, &mut rewriter);
    rewriter.failed.map_or(Ok(()), Err)
}

/// The query with each IN (SELECT …) that is told from NULL as [`rewrite_quantified::in_item`] has it, if it has one:
/// those of select lists, and those of WHERE that are not alternatives there.
pub fn with_counts_for_in(query: &ast::Query) -> Option<ast::Query> {
    struct Counts {
        any: bool,
    }
    impl Change for Counts {
        fn query(&mut self, query: &mut ast::Query) {
            crate::rewrite_values::as_selects(&mut query.body);
            // Names come from what is written.
            name_columns(query);
        }
        fn select(&mut self, select: &mut ast::Select) {
            for item in &mut select.projection {
                if let ast::SelectItem::UnnamedExpr(expr)
                | ast::SelectItem::ExprWithAlias { expr, .. } = item
                {
                    self.any |= rewrite_quantified::in_item(expr);
                }
            }
            if let Some(condition) = &mut select.selection {
                self.any |= rewrite_quantified::in_condition(condition, true);
            }
        }
    }
    if !walk::any_expr(query, rewrite_quantified::is_in_subquery) {
        return None;
    }
    let (mut query, mut counts) = (query.clone(), Counts { any: false });
    walk::change(&mut query, &mut counts);
    counts.any.then_some(query)
}

#[derive(Default)]
struct Rewriter {
    failed: Option<SqlError>,
    /// The parts of WITH around, for each query that is being walked over.
    parts: Vec<rewrite_rows::Parts>,
    levels: rewrite_whole::Levels,
}

impl Change for Rewriter {
    fn expr(&mut self, expr: &mut Expr) -> Flow {
        count_of_constant(expr);
        exists::of_something(expr);
        rewrite_quantified::rewrite(expr);
        rewrite_quantified::like_all(expr);
        field_names(expr);
        rewrite_rows::into_subquery(expr);
        rewrite_tuple::in_value(expr);
        rewrite_tuple::in_arguments(expr);
        if let Err(e) = stars::alone(expr)
            .and(rewrite_tuple::with_subquery(expr))
            .and(rewrite_tuple::distinct(expr))
        {
            self.failed = Some(e);
            return STOP;
        }
        crate::semantics::quantified::call_of(expr);
        crate::rewrite_values::distinct(expr);
        crate::rewrite_values::slices(expr);
        if self.parts.len() > 1 {
            crate::rewrite_values::arrays(expr);
        }
        GO_ON
    }

    fn table_factor(&mut self, factor: &mut ast::TableFactor) {
        if let ast::TableFactor::Table { sample: Some(_), .. }
        | ast::TableFactor::Derived { sample: Some(_), .. } = factor
        {
            self.failed.get_or_insert(
                SqlError::unsupported("TABLESAMPLE")
                    .hint("A condition such as random() < 0.01 takes a part of the rows, too."),
            );
        }
        if let Err(e) = rewrite_records::in_from(factor) {
            self.failed.get_or_insert(e);
        }
        rewrite_json::rewrite_table(factor);
        match factor {
            ast::TableFactor::Derived { lateral: true, subquery, .. } => {
                each_select(&mut subquery.body, &mut name_outer_columns);
            }
            // Over nothing every column is one of outside.
            ast::TableFactor::Derived { subquery, .. } => {
                each_select(&mut subquery.body, &mut |select| {
                    if select.from.is_empty() {
                        name_outer_columns(select);
                    }
                });
            }
            ast::TableFactor::Table { name, args: Some(call), alias, .. } => {
                table_calls::without_catalog(name);
                table_calls::in_one_part(name, &call.args, alias);
                table_calls::name_column(name, alias);
            }
            ast::TableFactor::Function { name, .. } => table_calls::without_catalog(name),
            ast::TableFactor::UNNEST { array_exprs, alias, .. } if array_exprs.len() == 1 => {
                table_calls::name_unnested(alias);
            }
            _ => {}
        }
        if let Err(e) = rewrite_sets::in_from(factor).and_then(|()| rewrite_scalar::in_from(factor))
        {
            self.failed.get_or_insert(e);
        }
        self.levels.table_factor(factor);
    }

    fn expr_end(&mut self, expr: &mut Expr) -> Flow {
        match rewrite_one(expr) {
            Ok(()) => GO_ON,
            Err(e) => {
                self.failed = Some(e);
                STOP
            }
        }
    }

    fn query(&mut self, query: &mut ast::Query) {
        if self.parts.is_empty() {
            hidden_tables::rename(query);
        }
        if let Err(e) = named_windows::write_out(query) {
            self.failed.get_or_insert(e);
        }
        crate::rewrite_values::as_selects(&mut query.body);
        each_select(&mut query.body, &mut rewrite_tableoid::resolve);
        crate::rewrite_values::type_columns(&mut query.body);
        let parts = match (self.parts.last(), &query.with) {
            (Some(around), None) => around.clone(),
            (around, _) => rewrite_rows::parts_of(query, around.unwrap_or(&Vec::new())),
        };
        // What `*` stands for is qualified, too, and merged all the same.
        each_select(&mut query.body, &mut merged_columns::mark_own);
        rewrite_rows::expand_wildcards(query, &parts);
        // Names come from what is written, not from what it is rewritten to.
        name_columns(query);
        cast_names::distinguish(query);
        alike_in_sets::distinguish(query, &parts);
        rewrite_elements::rewrite(query, &parts);
        if let Err(e) = self.levels.enter(query, &parts) {
            self.failed.get_or_insert(e);
        }
        self.parts.push(parts);
    }

    fn query_end(&mut self, query: &mut ast::Query) {
        self.parts.pop();
        self.levels.leave();
        restore_counts(query);
    }

    fn select(&mut self, select: &mut ast::Select) {
        if let Err(e) = named_windows::in_select(select) {
            self.failed.get_or_insert(e);
        }
        group_for_having(select);
        distinct_on_positions(select);
        crate::rewrite_values::conditions(select);
        each_condition(select, &mut rewrite_tuple::in_condition);
        for item in &mut select.projection {
            if let ast::SelectItem::UnnamedExpr(expr)
            | ast::SelectItem::ExprWithAlias { expr, .. } = item
            {
                rewrite_correlated::exists_as_count(expr);
                rewrite_tuple::in_list(expr);
            }
        }
    }

    fn select_end(&mut self, select: &mut ast::Select) {
        beside_sets::name_apart(select);
        restore_positions(select);
    }
}

/// `DISTINCT ON (1)` is by the first column of the select list.
fn distinct_on_positions(select: &mut ast::Select) {
    let Some(ast::Distinct::On(keys)) = &mut select.distinct else { return };
    for key in keys {
        let Expr::Value(value) = &*key else { continue };
        let ast::Value::Number(digits, _) = &value.value else { continue };
        let place = digits.parse::<usize>().ok().and_then(|at| at.checked_sub(1));
        if let Some(
            ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. },
        ) = place.and_then(|at| select.projection.get(at))
        {
            *key = expr.clone();
        }
    }
}

/// `count(1)` is `count(*)`; DataFusion gives both one name and refuses them beside each other.
fn count_of_constant(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let is_count = function.name.0.last().and_then(|part| part.as_ident());
    let ast::FunctionArguments::List(list) = &mut function.args else { return };
    if let [ast::FunctionArg::Unnamed(argument)] = &mut list.args[..]
        && list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
        && is_count.is_some_and(|name| folded(name) == "count")
        && let ast::FunctionArgExpr::Expr(Expr::Value(value)) = argument
        && matches!(value.value, ast::Value::Number(..) | ast::Value::Boolean(_))
    {
        *argument = ast::FunctionArgExpr::Wildcard;
    }
}

/// HAVING makes one group of all rows where nothing else groups them.
fn group_for_having(select: &mut ast::Select) {
    let ast::GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    if select.having.is_some() && keys.is_empty() {
        let is_aggregate = |expr: &Expr| {
            matches!(expr, Expr::Function(function) if function.over.is_none()
                && function.name.0.last().and_then(|part| part.as_ident())
                    .is_some_and(|name| registry().is_aggregate(&folded(name))))
        };
        let any = walk::any_expr(&select.projection, is_aggregate)
            || walk::any_expr(&select.having, is_aggregate);
        if !any {
            keys.push(Expr::GroupingSets(vec![Vec::new()]));
        }
    }
}

/// The conditions of a select, of which rows must be true.
fn each_condition(select: &mut ast::Select, f: &mut dyn FnMut(&mut Expr)) {
    use ast::{JoinConstraint::On, JoinOperator::*};
    let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
    let on = joins.filter_map(|join| match &mut join.join_operator {
        Join(On(condition)) | Inner(On(condition)) => Some(condition),
        _ => None,
    });
    on.chain(&mut select.selection).chain(&mut select.having).for_each(f);
}

fn rewrite_one(expr: &mut Expr) -> Result<(), SqlError> {
    rewrite_calls::rewrite(expr)?;
    rewrite_subquery::refuse_empty(expr)?;
    match expr {
        Expr::Value(value) => {
            if let ast::Value::SingleQuotedByteStringLiteral(_) | ast::Value::HexStringLiteral(_) =
                &value.value
            {
                return Err(SqlError::unsupported("a bit string"));
            }
            numbers::literal(expr);
        }
        Expr::UnaryOp { op: ast::UnaryOperator::Plus, .. } => numbers::plus(expr),
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, .. } => numbers::minus(expr),
        Expr::Interval(_) => {
            if let Expr::Interval(interval) = take(expr) {
                *expr = rewrite_interval::cast(interval)?;
            }
        }
        Expr::Collate { expr: inner, collation } => {
            let name = collation.0.last().map(|p| p.to_string().to_lowercase()).unwrap_or_default();
            if !matches!(name.trim_matches('"'), "default" | "c" | "posix" | "c.utf-8" | "c.utf8") {
                return Err(SqlError::unsupported(format!("collation {collation}")));
            }
            *expr = take(inner);
        }
        Expr::BinaryOp { op, .. } => rewrite_operator(op)?,
        Expr::AnyOp { compare_op, .. } | Expr::AllOp { compare_op, .. } => {
            rewrite_operator(compare_op)?;
        }
        Expr::Function(function) => {
            table_calls::without_catalog(&mut function.name);
            rewrite_json::rewrite_call(expr);
            rewrite_json::rewrite_aggregate(expr);
        }
        Expr::Identifier(name) if name.quote_style.is_none() => {
            if let Some(function) = bare_function(&name.value) {
                *expr = call(function, Vec::new());
            }
        }
        _ => {}
    }
    if let Expr::BinaryOp { op, .. } = expr
        && let Some((negated, case_insensitive)) = like_operator(op)
    {
        let Expr::BinaryOp { left, right, .. } = take(expr) else { return Ok(()) };
        *expr = like(left, right, negated, case_insensitive);
    }
    match expr {
        Expr::Function(function) => {
            if function.name.to_string().eq_ignore_ascii_case("pg_listening_channels") {
                *expr = call("unnest", vec![call(crate::udf::notify::LISTENING, Vec::new())]);
                return Ok(());
            }
            if let Some(ast::WindowType::WindowSpec(spec)) = &mut function.over {
                restore_frame(spec);
            }
            match rewrite_subquery::array_subquery(function) {
                Some(query) => {
                    *expr = call(crate::udf::lists::NAME, vec![rewrite_subquery::array_of(query)])
                }
                None => rewrite_sets::in_expression(expr),
            }
            Ok(())
        }
        Expr::Subquery(query) => {
            let counts = rewrite_subquery::aggregates_all(query);
            rewrite_subquery::single_value(query);
            rewrite_subquery::name_apart(query);
            if let Some(outside) = rewrite_correlated::separate(query, counts) {
                let value = take(expr);
                *expr = rewrite_correlated::when(outside, value);
            }
            Ok(())
        }
        Expr::BinaryOp { left, op: ast::BinaryOperator::StringConcat, .. }
            if is_column(left, "reloptions") =>
        {
            let options = take(left);
            *expr = options;
            Ok(())
        }
        _ => rewrite_tuple::rewrite(expr),
    }
}

/// The functions that are called without parentheses, where sqlparser takes them for columns.
fn bare_function(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "current_role" => Some("current_user"),
        "current_schema" => Some("current_schema"),
        "current_catalog" => Some("current_database"),
        _ => None,
    }
}

/// Whether an expression is a column of this name.
fn is_column(expr: &Expr, name: &str) -> bool {
    match expr {
        Expr::Identifier(ident) => folded(ident) == name,
        Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|p| folded(p) == name),
        _ => false,
    }
}

/// NULL
pub fn null() -> Expr {
    Expr::Value(ast::ValueWithSpan { value: ast::Value::Null, span: Span::empty() })
}

pub(crate) fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, null())
}

/// The name of a select list's column, as an alias.
pub fn figure_alias(expr: &Expr) -> ast::Ident {
    ast::Ident::with_quote('"', figure_name(expr))
}

/// A call of a function.
pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args =
        args.into_iter().map(|arg| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg)));
    Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::with_quote('"', name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A number of rows; one with digits after the point is rounded.
fn unmark_count(expr: &mut Expr) {
    unmark(expr);
    if let Expr::Value(value) = expr
        && let ast::Value::Number(digits, _) = &mut value.value
        && let Some((whole, rest)) = digits.split_once('.')
        && let Ok(whole) = format!("0{whole}").parse::<u64>()
    {
        let up = rest.starts_with(|digit: char| digit >= '5');
        *digits = (whole + u64::from(up)).to_string();
    }
}

/// Numbers that count rows.
fn restore_counts(query: &mut ast::Query) {
    if let Some(order_by) = &mut query.order_by
        && let ast::OrderByKind::Expressions(keys) = &mut order_by.kind
    {
        keys.iter_mut().for_each(|key| unmark(&mut key.expr));
    }
    match &mut query.limit_clause {
        Some(ast::LimitClause::LimitOffset { limit, offset, .. }) => {
            limit.iter_mut().for_each(unmark_count);
            offset.iter_mut().for_each(|o| unmark_count(&mut o.value));
        }
        Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => {
            unmark(offset);
            unmark(limit);
        }
        None => {}
    }
    if let Some(fetch) = query.fetch.take() {
        let one = ast::Value::Number("1".to_owned(), false);
        let mut quantity = fetch.quantity.unwrap_or(Expr::Value(one.with_empty_span()));
        unmark_count(&mut quantity);
        match &mut query.limit_clause {
            Some(ast::LimitClause::LimitOffset { limit, .. }) => *limit = Some(quantity),
            other => {
                *other = Some(ast::LimitClause::LimitOffset {
                    limit: Some(quantity),
                    offset: None,
                    limit_by: Vec::new(),
                });
            }
        }
    }
}

/// A position in the select list, within a grouping set, as what stands there.
fn in_place(key: &mut Expr, list: &[ast::SelectItem]) {
    let Some(Expr::Value(number)) = marked(key) else { return };
    let ast::Value::Number(digits, _) = &number.value else { return };
    let place = digits.parse::<usize>().ok().and_then(|at| list.get(at.checked_sub(1)?));
    if let Some(ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) =
        place
    {
        *key = expr.clone();
    }
}

/// Numbers that are positions in the select list.
fn restore_positions(select: &mut ast::Select) {
    if let ast::GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        for key in keys {
            unmark(key);
            let (Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets)) = key else {
                continue;
            };
            sets.iter_mut().flatten().for_each(|key| in_place(key, &select.projection));
        }
    }
    select.sort_by.iter_mut().for_each(|key| unmark(&mut key.expr));
    for ast::NamedWindowDefinition(_, window) in &mut select.named_window {
        if let ast::NamedWindowExpr::WindowSpec(spec) = window {
            restore_frame(spec);
        }
    }
}

/// Numbers that count rows of a window's frame.
fn restore_frame(spec: &mut ast::WindowSpec) {
    let Some(frame) = &mut spec.window_frame else { return };
    let bounds = std::iter::once(&mut frame.start_bound).chain(frame.end_bound.as_mut());
    for bound in bounds {
        if let ast::WindowFrameBound::Preceding(Some(count))
        | ast::WindowFrameBound::Following(Some(count)) = bound
        {
            unmark(count);
            if let Some(interval) = rewrite_interval::written(count) {
                **count = interval;
            }
        }
    }
}

fn rewrite_operator(op: &mut ast::BinaryOperator) -> Result<(), SqlError> {
    let ast::BinaryOperator::PGCustomBinaryOperator(parts) = op else { return Ok(()) };
    let symbol = parts.last().map(String::as_str).unwrap_or_default();
    use ast::BinaryOperator::*;
    *op = match symbol {
        "=" => Eq,
        "<>" | "!=" => NotEq,
        "<" => Lt,
        "<=" => LtEq,
        ">" => Gt,
        ">=" => GtEq,
        "+" => Plus,
        "-" => Minus,
        "*" => Multiply,
        "/" => Divide,
        "%" => Modulo,
        "||" => StringConcat,
        "~" => PGRegexMatch,
        "~*" => PGRegexIMatch,
        "!~" => PGRegexNotMatch,
        "!~*" => PGRegexNotIMatch,
        "~~" => PGLikeMatch,
        "~~*" => PGILikeMatch,
        "!~~" => PGNotLikeMatch,
        "!~~*" => PGNotILikeMatch,
        other => return Err(SqlError::unsupported(format!("operator {other}"))),
    };
    Ok(())
}

fn like_operator(op: &ast::BinaryOperator) -> Option<(bool, bool)> {
    match op {
        ast::BinaryOperator::PGLikeMatch => Some((false, false)),
        ast::BinaryOperator::PGNotLikeMatch => Some((true, false)),
        ast::BinaryOperator::PGILikeMatch => Some((false, true)),
        ast::BinaryOperator::PGNotILikeMatch => Some((true, true)),
        _ => None,
    }
}

fn like(expr: Box<Expr>, pattern: Box<Expr>, negated: bool, case_insensitive: bool) -> Expr {
    if case_insensitive {
        Expr::ILike { negated, any: false, expr, pattern, escape_char: None }
    } else {
        Expr::Like { negated, any: false, expr, pattern, escape_char: None }
    }
}

/// `(x).y`: DataFusion knows fields by texts.
pub(crate) fn field_names(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    // `t.x[1]`: what stands before the subscript is a column.
    if matches!(**root, Expr::Identifier(_)) {
        return;
    }
    for access in access_chain {
        if let ast::AccessExpr::Dot(Expr::Identifier(name)) = access {
            let text = ast::Value::SingleQuotedString(folded(name));
            *access = ast::AccessExpr::Dot(Expr::value(text));
        }
    }
}

/// The selects of a set operation, or the one that there is.
pub(crate) fn each_select(body: &mut ast::SetExpr, f: &mut dyn FnMut(&mut ast::Select)) {
    match body {
        ast::SetExpr::Select(select) => f(select),
        ast::SetExpr::SetOperation { left, right, .. } => {
            each_select(left, f);
            each_select(right, f);
        }
        _ => {}
    }
}

/// A column of a table that is not the select's own has its name, too: DataFusion gives it another.
fn name_outer_columns(select: &mut ast::Select) {
    let own = match rewrite_correlated::aliases(select) {
        Some(own) => own,
        None if select.from.is_empty() => HashSet::new(),
        None => return,
    };
    for item in &mut select.projection {
        let name = match item {
            ast::SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => match &names[..] {
                [table, column] if !own.contains(&folded(table)) => folded(column),
                _ => continue,
            },
            ast::SelectItem::UnnamedExpr(Expr::Identifier(column)) if select.from.is_empty() => {
                folded(column)
            }
            _ => continue,
        };
        realias(item, name);
    }
}

/// Gives the columns of a query's select list PostgreSQL's names, made different where they are
/// the same; [`shown_name`] takes the difference away.
pub fn name_columns(query: &mut ast::Query) {
    name_body(&mut query.body);
}

fn name_body(body: &mut ast::SetExpr) {
    match body {
        ast::SetExpr::Select(select) => name_select(select),
        // The first branch's names count; in the others they only have to differ.
        ast::SetExpr::SetOperation { left, right, .. } => {
            name_body(left);
            name_body(right);
        }
        _ => {}
    }
}

fn name_select(select: &mut ast::Select) {
    let mut taken = HashSet::new();
    for item in &mut select.projection {
        let (name, plain) = match item {
            ast::SelectItem::UnnamedExpr(expr) => {
                let plain = matches!(expr, Expr::Identifier(name)
                    if name.quote_style.is_some() || bare_function(&name.value).is_none());
                (figure_name(expr), plain)
            }
            ast::SelectItem::ExprWithAlias { alias, .. } => (folded(alias), true),
            ast::SelectItem::ExprWithAliases { .. }
            | ast::SelectItem::Wildcard(_)
            | ast::SelectItem::QualifiedWildcard(..) => continue,
        };
        let fresh = taken.insert(name.clone());
        let qualified = matches!(item, ast::SelectItem::UnnamedExpr(Expr::CompoundIdentifier(_)));
        if !fresh || (!plain && !qualified) {
            realias(item, unique(&name, &mut taken, fresh));
        }
    }
}

/// Stands between a name and the number that makes it different. Not in anybody's identifiers.
const DIFFERENCE: char = '\u{1}';

/// A column's name as the client sees it.
pub fn shown_name(name: &str) -> &str {
    name.split_once(DIFFERENCE).map_or(name, |(shown, _)| shown)
}

/// A name that is shown as this one; it differs by something from others.
pub(crate) fn different(name: &str, by: impl Display) -> String {
    format!("{name}{DIFFERENCE}{by}")
}

pub(crate) fn unique(name: &str, taken: &mut HashSet<String>, fresh: bool) -> String {
    if fresh {
        return name.to_owned();
    }
    let mut n = 1;
    loop {
        let candidate = different(name, n);
        if taken.insert(candidate.clone()) {
            return candidate;
        }
        n += 1;
    }
}

/// An identifier in PostgreSQL's case.
pub fn folded(ident: &ast::Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

fn realias(item: &mut ast::SelectItem, name: String) {
    let expr = match item {
        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => {
            take(expr)
        }
        _ => return,
    };
    *item = ast::SelectItem::ExprWithAlias { expr, alias: ast::Ident::with_quote('"', name) };
}

/// Literals and parameters without a type in the select list take the types of the columns that
/// they go into (INSERT … SELECT).
pub fn type_targets(query: &mut ast::Query, targets: &[froglet_schema::SqlType]) {
    if targets.is_empty() {
        return;
    }
    let Some(select) = leading_select(&mut query.body) else { return };
    for (item, target) in select.projection.iter_mut().zip(targets) {
        let (ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) =
            item
        else {
            return;
        };
        let untyped = matches!(&*expr, Expr::Value(v) if matches!(
            v.value,
            ast::Value::Placeholder(_) | ast::Value::SingleQuotedString(_) | ast::Value::Null
        ));
        let name = match crate::types::names::type_row(target.oid) {
            Some(row) => Some(ast::ObjectName::from(vec![ast::Ident::new(row.name)])),
            None => crate::stored_names::enum_named(target.oid),
        };
        if let (true, Some(name)) = (untyped, name) {
            *expr = Expr::Cast {
                kind: ast::CastKind::DoubleColon,
                expr: Box::new(take(expr)),
                data_type: ast::DataType::Custom(name, Vec::new()),
                array: false,
                format: None,
            };
        }
    }
}

fn leading_select(body: &mut ast::SetExpr) -> Option<&mut ast::Select> {
    match body {
        ast::SetExpr::Select(select) => Some(select),
        ast::SetExpr::Query(query) => leading_select(&mut query.body),
        // The other branches follow the first one's names.
        ast::SetExpr::SetOperation { left, .. } => leading_select(left),
        _ => None,
    }
}
