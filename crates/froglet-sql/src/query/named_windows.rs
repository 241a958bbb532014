//! Windows that build on others: `OVER (w ORDER BY x)`, `WINDOW w2 AS (w1)`.
//!
//! DataFusion knows `OVER w` and forgets the name in front of a definition, so the definition is written out here:
//! the other window's PARTITION BY, its ORDER BY where there is none of one's own, and no frame (SQL's rule).

use datafusion::sql::sqlparser::ast::{
    self, Expr, NamedWindowDefinition, NamedWindowExpr, Query, Select, WindowSpec, WindowType,
};
use froglet_engine::SqlState;

use crate::command::fold;
use crate::error::SqlError;
use crate::walk::{self, Change, Flow, GO_ON, STOP};

/// Writes out the windows of a query that is a select, those in its ORDER BY too.
pub(crate) fn write_out(query: &mut Query) -> Result<(), SqlError> {
    let ast::SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
    in_select(select)?;
    let windows = select.named_window.clone();
    match &mut query.order_by {
        Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(keys), .. }) => {
            keys.iter_mut().try_for_each(|key| of_node(&mut key.expr, &windows))
        }
        _ => Ok(()),
    }
}

/// Writes out the windows of one select.
pub(crate) fn in_select(select: &mut Select) -> Result<(), SqlError> {
    define(&mut select.named_window)?;
    let windows = select.named_window.clone();
    select.projection.iter_mut().try_for_each(|item| of_node(item, &windows))
}

/// Each definition may build on those before it.
fn define(windows: &mut [NamedWindowDefinition]) -> Result<(), SqlError> {
    for at in 0..windows.len() {
        let (before, rest) = windows.split_at_mut(at);
        let NamedWindowDefinition(name, expr) = &mut rest[0];
        if before.iter().any(|NamedWindowDefinition(other, _)| fold(other) == fold(name)) {
            return Err(error("42P20", format!("window \"{}\" is already defined", fold(name))));
        }
        match expr {
            NamedWindowExpr::NamedWindow(other) => {
                let spec = find(before, other)?.clone();
                *expr = NamedWindowExpr::WindowSpec(spec);
            }
            NamedWindowExpr::WindowSpec(spec) => written(spec, before)?,
        }
    }
    Ok(())
}

fn of_node(
    node: &mut impl ast::VisitMut,
    windows: &[NamedWindowDefinition],
) -> Result<(), SqlError> {
    struct Calls<'a> {
        windows: &'a [NamedWindowDefinition],
        /// Queries within have windows of their own.
        depth: usize,
        failed: Option<SqlError>,
    }
    impl Change for Calls<'_> {
        fn query(&mut self, _: &mut Query) {
            self.depth += 1;
        }
        fn query_end(&mut self, _: &mut Query) {
            self.depth -= 1;
        }
        fn expr(&mut self, expr: &mut Expr) -> Flow {
            if let Expr::Function(function) = expr
                && self.depth == 0
                && let Some(WindowType::WindowSpec(spec)) = &mut function.over
                && let Err(e) = written(spec, self.windows)
            {
                self.failed = Some(e);
                return STOP;
            }
            GO_ON
        }
    }
    let mut calls = Calls { windows, depth: 0, failed: None };
    walk::change(node, &mut calls);
    calls.failed.map_or(Ok(()), Err)
}

fn written(spec: &mut WindowSpec, windows: &[NamedWindowDefinition]) -> Result<(), SqlError> {
    let Some(name) = spec.window_name.take() else { return Ok(()) };
    let other = find(windows, &name)?;
    let shown = fold(&name);
    if !spec.partition_by.is_empty() {
        return Err(error(
            "42P20",
            format!("cannot override PARTITION BY clause of window \"{shown}\""),
        ));
    }
    if !spec.order_by.is_empty() && !other.order_by.is_empty() {
        return Err(error(
            "42P20",
            format!("cannot override ORDER BY clause of window \"{shown}\""),
        ));
    }
    if other.window_frame.is_some() {
        return Err(error(
            "42P20",
            format!("cannot copy window \"{shown}\" because it has a frame clause"),
        ));
    }
    spec.partition_by.clone_from(&other.partition_by);
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&other.order_by);
    }
    Ok(())
}

fn find<'a>(
    windows: &'a [NamedWindowDefinition],
    name: &ast::Ident,
) -> Result<&'a WindowSpec, SqlError> {
    let wanted = fold(name);
    let found = windows.iter().find_map(|NamedWindowDefinition(other, expr)| match expr {
        NamedWindowExpr::WindowSpec(spec) if fold(other) == wanted => Some(spec),
        _ => None,
    });
    found.ok_or_else(|| error("42704", format!("window \"{wanted}\" does not exist")))
}

fn error(state: &'static str, message: String) -> SqlError {
    SqlError::new(SqlState::new(state), message)
}
