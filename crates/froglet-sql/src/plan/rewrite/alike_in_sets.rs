//! Columns of a select list that are the same expression, in grouping sets: by each rows are grouped by itself, if it is
//! named there by its alias or its place. DataFusion takes them for one.
//!
//! ```text
//!   SELECT g AS a, g AS b … GROUP BY a, ROLLUP (b)
//!   SELECT g AS a, froglet_apart(g, '2') AS b … GROUP BY g, ROLLUP (froglet_apart(g, '2'))
//! ```
//!
//! The call stays in the plan ([`crate::semantics::identity`]): of two columns that it knows to be the same DataFusion
//! sorts by one.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Query, Select, SelectItem, Value};

use crate::rewrite::{call, each_select, folded};
use crate::rewrite_rows::{Parts, Sight};

/// The function's name.
pub(crate) const APART: &str = "froglet_apart";

/// Tells such columns apart.
pub(crate) fn distinguish(query: &mut Query, parts: &Parts) {
    each_select(&mut query.body, &mut |select| {
        let GroupByExpr::Expressions(keys, _) = &select.group_by else { return };
        let mut keys = keys.clone();
        let has_sets = keys.iter().any(|key| sets_of(&mut key.clone()).is_some());
        if has_sets && keys.iter_mut().fold(false, |any, key| any | in_key(key, select, parts)) {
            let GroupByExpr::Expressions(written, _) = &mut select.group_by else { return };
            *written = keys;
        }
    });
}

fn sets_of(key: &mut Expr) -> Option<&mut Vec<Vec<Expr>>> {
    match key {
        Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => Some(sets),
        _ => None,
    }
}

/// Whether a key names a column that is like one before it.
fn in_key(key: &mut Expr, select: &mut Select, parts: &Parts) -> bool {
    if let Some(sets) = sets_of(key) {
        let keys = sets.iter_mut().flatten();
        return keys.fold(false, |any, key| any | in_key(key, select, parts));
    }
    let Some(at) = place_of(key, select, parts) else { return false };
    let Some(expr) = expr_at(select, at) else { return false };
    let text = expr.to_string();
    let is_first = !(0..at).any(|at| expr_at(select, at).is_some_and(|e| e.to_string() == text));
    // An earlier key may have told it already.
    let is_told = matches!(expr, Expr::Function(function)
        if function.name.0.last().and_then(|part| part.as_ident())
            .is_some_and(|name| name.value == APART));
    let expr = match is_first || is_told {
        true => expr.clone(),
        false => {
            let place = Value::SingleQuotedString((at + 1).to_string());
            call(APART, vec![expr.clone(), Expr::value(place)])
        }
    };
    if let Some(SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) =
        select.projection.get_mut(at)
    {
        *item = expr.clone();
    }
    *key = expr;
    !is_first
}

fn expr_at(select: &Select, at: usize) -> Option<&Expr> {
    match select.projection.get(at)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// The place of the column that a key names. A name is rather that of a table's column.
fn place_of(key: &Expr, select: &Select, parts: &Parts) -> Option<usize> {
    match key {
        Expr::Nested(inner) => place_of(inner, select, parts),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        Expr::Identifier(name) => {
            let name = folded(name);
            let mut rows = Vec::new();
            let sight = Sight::new(parts)?;
            for from in &select.from {
                sight.relations(from, &mut rows);
            }
            if rows.iter().flat_map(|row| &row.columns).any(|column| *column == name) {
                return None;
            }
            select.projection.iter().position(|item| {
                matches!(item, SelectItem::ExprWithAlias { alias, .. } if folded(alias) == name)
            })
        }
        _ => None,
    }
}
