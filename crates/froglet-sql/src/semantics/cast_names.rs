//! Casts of one expression to several types, which DataFusion takes for one column where rows are grouped: a
//! cast has its operand's name.
//!
//! ```text
//!   SELECT max(a::int2), max(a::int8)     max(froglet_cast(a::int2, 'int2')), …
//!   GROUP BY a::int2, a::float8           the same, in the select list and in ORDER BY, too
//! ```
//!
//! The call is there for its name alone, and goes when the plan's casts are looked at.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{self, Expr};

use crate::rewrite::{call, each_select};
use crate::rewrite_subquery::is_grouped;
use crate::walk::{self, Change, Flow, GO_ON, Look};

/// The function's name ([`super::identity`]).
pub const NAME: &str = "froglet_cast";

/// Names the casts of a query's grouped selects whose operands are there more than once.
pub fn distinguish(query: &mut ast::Query) {
    let mut alike = HashSet::new();
    each_select(&mut query.body, &mut |select| {
        let mut casts = Casts::default();
        walk::look(&*select, &mut casts);
        casts.found.extend(grouped_by_place(select));
        if casts.found.is_empty() || !is_grouped(select) {
            return;
        }
        let text = select.to_string();
        let again = |(_, operand): &(String, String)| text.matches(operand).count() > 1;
        let casts = casts.found.into_iter().filter(again).collect();
        let mut named = Named { casts, ..Named::default() };
        walk::change(select, &mut named);
        alike.extend(named.casts);
    });
    if let Some(order) = &mut query.order_by
        && !alike.is_empty()
    {
        walk::change(order, &mut Named { casts: alike, ..Named::default() });
    }
}

/// What a function of one argument is called with.
fn only_argument(expr: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = expr else { return None };
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    match &list.args[..] {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] => Some(argument),
        _ => None,
    }
}

/// Casts of literals, by the places of which rows are grouped.
fn grouped_by_place(select: &ast::Select) -> Vec<(String, String)> {
    let ast::GroupByExpr::Expressions(keys, _) = &select.group_by else { return Vec::new() };
    let cast_at = |key: &Expr| {
        let place: usize = key.to_string().parse().ok()?;
        let (ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. }) =
            select.projection.get(place.checked_sub(1)?)?
        else {
            return None;
        };
        match expr {
            Expr::Cast { expr: operand, .. } => Some((expr.to_string(), operand.to_string())),
            _ => None,
        }
    };
    keys.iter().filter_map(cast_at).collect()
}

/// Finds casts that are not in queries within, and their operands.
#[derive(Default)]
struct Casts {
    found: HashSet<(String, String)>,
    depth: usize,
}

impl Look for Casts {
    fn query(&mut self, _: &ast::Query) -> Flow {
        self.depth += 1;
        GO_ON
    }

    fn query_end(&mut self) {
        self.depth -= 1;
    }

    fn expr(&mut self, expr: &Expr) -> Flow {
        if self.depth > 0 {
            return GO_ON;
        }
        // A literal that is no aggregate's is a column to nobody.
        let cast = only_argument(expr).unwrap_or(expr);
        if let Expr::Cast { expr: operand, .. } = cast
            && (!std::ptr::eq(cast, expr) || !matches!(**operand, Expr::Value(_)))
        {
            self.found.insert((cast.to_string(), operand.to_string()));
        }
        GO_ON
    }
}

#[derive(Default)]
struct Named {
    casts: HashSet<(String, String)>,
    depth: usize,
    /// The cast that comes next has its name.
    is_named: bool,
}

impl Change for Named {
    fn query(&mut self, _: &mut ast::Query) {
        self.depth += 1;
    }

    fn query_end(&mut self, _: &mut ast::Query) {
        self.depth -= 1;
    }

    fn expr(&mut self, expr: &mut Expr) -> Flow {
        if !std::mem::take(&mut self.is_named)
            && self.depth == 0
            && let Expr::Cast { expr: operand, data_type, .. } = &*expr
            && self.casts.contains(&(expr.to_string(), operand.to_string()))
        {
            let ty = ast::Value::SingleQuotedString(data_type.to_string());
            let ty = Expr::Value(ty.with_empty_span());
            *expr = call(NAME, vec![expr.clone(), ty]);
            self.is_named = true;
        }
        GO_ON
    }
}
