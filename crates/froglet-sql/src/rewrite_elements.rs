//! The alias of a function whose rows have one column that is called otherwise.
//!
//! | written | becomes |
//! |---|---|
//! | `SELECT e ->> 'x' FROM jsonb_array_elements(j) AS e` | `SELECT e.value ->> 'x' FROM …` |
//! | `SELECT n FROM generate_series(1, 3) AS n(i)` | `SELECT n.i FROM …` |
//!
//! `e` is a row there, and a row of such a function is its value. What is a column of some table by this
//! name is that column; where tables stand beside it whose columns are not plain to see, nothing is done.

use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SelectItem, TableFactor};

use crate::command::fold;
use crate::rewrite::each_select;
use crate::rewrite_json;
use crate::rewrite_rows::{Parts, Row, Sight, is_of_one_column, name_of};
use crate::semantics::fieldnames::figure_name;
use crate::walk::{self, Flow, GO_ON};

/// Rewrites the selects of a query that are not within others; see the module.
pub(crate) fn rewrite(query: &mut Query, parts: &Parts) {
    let Query { body, order_by, .. } = query;
    each_select(body, &mut |select| {
        let joined = select.from.iter().flat_map(|from| &from.joins).map(|join| &join.relation);
        let factors = select.from.iter().map(|from| &from.relation).chain(joined);
        let mut values: Vec<Value> = factors.filter_map(value_of).collect();
        if values.is_empty() {
            return;
        }
        let Some(sight) = Sight::new(parts) else { return };
        let mut rows = Vec::new();
        let mut is_known = true;
        for from in &select.from {
            is_known &= sight.relations(from, &mut rows);
        }
        let is_column = |name: &String| rows.iter().any(|row: &Row| row.columns.contains(name));
        values.retain(|value| is_known && !is_column(&value.name));
        if values.is_empty() {
            return;
        }
        // ORDER BY and GROUP BY may mean a column of the result.
        let named = select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
            _ => None,
        });
        let results: Vec<String> = named.collect();
        let mut change = Values { values: &values, sight: &sight, hidden: Vec::new() };
        for item in &mut select.projection {
            let written = match item {
                SelectItem::UnnamedExpr(expr) => Some(figure_name(expr)),
                _ => None,
            };
            walk::change(item, &mut change);
            if let (Some(name), SelectItem::UnnamedExpr(expr)) = (written, &mut *item)
                && figure_name(expr) != name
            {
                let (expr, alias) = (expr.clone(), Ident::with_quote('"', name));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        for expr in select.selection.iter_mut().chain(&mut select.having) {
            walk::change(expr, &mut change);
        }
        select.from.iter_mut().for_each(|from| _ = walk::change(from, &mut change));
        values.retain(|value| !results.contains(&value.name));
        let mut change = Values { values: &values, sight: &sight, hidden: Vec::new() };
        walk::change(&mut select.group_by, &mut change);
        if let Some(order_by) = order_by.as_mut() {
            walk::change(order_by, &mut change);
        }
    });
}

/// A function in FROM: what its rows are called, and their column.
struct Value {
    name: String,
    column: Ident,
}

fn value_of(factor: &TableFactor) -> Option<Value> {
    let (function, alias) = match factor {
        TableFactor::Table { name, args: Some(_), alias, with_ordinality: false, .. }
        | TableFactor::Function { name, alias, with_ordinality: false, .. } => (name, alias),
        _ => return None,
    };
    let function = function.0.last()?.as_ident().map(fold)?;
    let renamed = alias.as_ref().and_then(|alias| alias.columns.first()).map(|c| c.name.clone());
    let column = match rewrite_json::columns(&function) {
        Some([column]) => renamed.unwrap_or_else(|| Ident::with_quote('"', *column)),
        Some([_, _, ..]) => return None,
        // It is called as its table is, if it has no name of its own.
        of_json => renamed.filter(|_| of_json.is_some() || is_of_one_column(&function))?,
    };
    Some(Value { name: name_of(factor)?, column })
}

/// Puts the column in the place of the row.
struct Values<'a> {
    values: &'a [Value],
    sight: &'a Sight<'a>,
    /// For each query within that is being walked over, the names that mean something else there; `None`: nobody
    /// knows which.
    hidden: Vec<Option<Vec<String>>>,
}

impl walk::Change for Values<'_> {
    fn query(&mut self, query: &mut Query) {
        let mut names = Some(Vec::new());
        each_select(&mut query.body, &mut |select| {
            let mut rows = Vec::new();
            for from in &select.from {
                if !self.sight.relations(from, &mut rows) {
                    names = None;
                }
            }
            if let Some(names) = &mut names {
                let here = rows.into_iter();
                names.extend(here.flat_map(|row| row.columns.into_iter().chain([row.name])));
            }
        });
        self.hidden.push(names);
    }

    fn query_end(&mut self, _: &mut Query) {
        self.hidden.pop();
    }

    fn expr_end(&mut self, expr: &mut Expr) -> Flow {
        let Expr::Identifier(ident) = &*expr else { return GO_ON };
        let name = fold(ident);
        let Some(value) = self.values.iter().find(|value| value.name == name) else { return GO_ON };
        let is_free =
            |hidden: &Option<Vec<String>>| hidden.as_ref().is_some_and(|h| !h.contains(&name));
        if self.hidden.iter().all(is_free) {
            let table = Ident::with_quote('"', name);
            *expr = Expr::CompoundIdentifier(vec![table, value.column.clone()]);
        }
        GO_ON
    }
}
