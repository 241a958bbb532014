//! `EXISTS (SELECT FROM …)`: DataFusion's join with a subquery needs a column of it, to be told from others by.

use datafusion::sql::sqlparser::ast::{Expr, SelectItem, Value};

use crate::rewrite::each_select;

/// Gives a subquery without columns one.
pub(crate) fn of_something(expr: &mut Expr) {
    let Expr::Exists { subquery, .. } = expr else { return };
    each_select(&mut subquery.body, &mut |select| {
        if select.projection.is_empty() {
            let one = Value::Number("1".to_owned(), false).with_empty_span();
            select.projection.push(SelectItem::UnnamedExpr(Expr::Value(one)));
        }
    });
}
