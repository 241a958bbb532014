//! What stands beside a function that returns a set, in a select list. DataFusion evaluates it below the set, under its
//! alias, and finds that ambiguous where a column is called the same:
//!
//! ```text
//!   SELECT id AS b, b AS c, unnest(a) …      b: the alias, or the column?
//!   SELECT froglet_cast(id, unnest(a)) AS b, …
//! ```
//!
//! What reads the set is evaluated above it, and has its alias there alone. The call is no more than that, and goes when
//! the plan's casts are looked at.

use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SelectItem};

use crate::rewrite::{call, folded, take};
use crate::semantics::cast_names;
use crate::walk::{self, Flow, GO_ON, Look, STOP};

/// Lets items that are called as columns are read the set that is beside them.
pub(crate) fn name_apart(select: &mut Select) {
    let sets = select.projection.iter().filter_map(expression_of);
    let Some(set) = sets.clone().find_map(set_of) else { return };
    let mut names = Vec::new();
    let mut is_all = false;
    for item in &select.projection {
        match expression_of(item) {
            Some(expr) => walk::each_expr(expr, |part| match part {
                Expr::Identifier(name) => names.push(folded(name)),
                Expr::CompoundIdentifier(parts) => names.extend(parts.last().map(folded)),
                _ => {}
            }),
            None => is_all = true,
        }
    }
    for item in &mut select.projection {
        if let SelectItem::ExprWithAlias { expr, alias } = item
            && (is_all || names.contains(&folded(alias)))
            && set_of(expr).is_none()
        {
            *expr = call(cast_names::NAME, vec![take(expr), set.clone()]);
        }
    }
}

fn expression_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// The set that an expression has a row for each item of, if it has one that is not in a query within.
fn set_of(expr: &Expr) -> Option<Expr> {
    let mut found = Set::default();
    walk::look(expr, &mut found);
    found.set
}

#[derive(Default)]
struct Set {
    set: Option<Expr>,
    depth: usize,
}

impl Look for Set {
    fn query(&mut self, _: &Query) -> Flow {
        self.depth += 1;
        GO_ON
    }

    fn query_end(&mut self) {
        self.depth -= 1;
    }

    fn expr(&mut self, expr: &Expr) -> Flow {
        let Expr::Function(function) = expr else { return GO_ON };
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
        if self.depth > 0 || name.as_deref() != Some("unnest") {
            return GO_ON;
        }
        self.set = Some(expr.clone());
        STOP
    }
}
