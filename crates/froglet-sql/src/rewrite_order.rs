//! `SELECT v::text AS v FROM t ORDER BY t.v`: the result's `v` and the table's are different columns.
//!
//! DataFusion sorts by adding the table's column to the result for a while, and then has a `t.v` and
//! a `v` in one schema, which it calls ambiguous. So the result's column is given another name, which
//! the client does not see ([`crate::rewrite::shown_name`]), and keys that mean the result's column
//! follow. Only the outermost query: the names of others are seen by the queries around them.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{self, Expr};

use crate::rewrite::{different, folded};
use crate::walk;

/// Names of a result's columns that its ORDER BY uses for columns of tables are made different.
pub(crate) fn part_names(query: &mut ast::Query) {
    let ast::SetExpr::Select(select) = &mut *query.body else { return };
    let Some(order) = &mut query.order_by else { return };
    let ast::OrderByKind::Expressions(keys) = &mut order.kind else { return };
    let mut qualified = HashSet::new();
    for key in &*keys {
        walk::each_expr(key, |expr| {
            if let Expr::CompoundIdentifier(parts) = expr
                && let Some(last) = parts.last()
            {
                qualified.insert(folded(last));
            }
        });
    }
    // Columns that are called the same have the first numbers.
    let count = select.projection.len();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let ast::SelectItem::ExprWithAlias { alias, .. } = item else { continue };
        let name = folded(alias);
        if !qualified.contains(&name) {
            continue;
        }
        *alias = ast::Ident::with_quote('"', different(&name, count + at));
        for key in &mut *keys {
            if let Expr::Identifier(ident) = &mut key.expr
                && folded(ident) == name
            {
                *ident = alias.clone();
            }
        }
    }
}
