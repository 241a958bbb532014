//! Stacks: most that is done with a statement recurses as deeply as it nests.
//!
//! ```text
//!   threads of sessions and queries      64 MiB each; pages that nobody touches cost nothing
//!   planning on other threads, views     a stack of its own if little is left
//! ```
//!
//! How deeply a query may nest at all, the parser says (`parse.rs`), and for views `view.rs`: within those limits
//! a stack is never the reason for an error, and its end never that of the server. Subqueries within expressions
//! have a limit of their own: DataFusion's coercion of types takes twice the time for each level of them.

use datafusion::sql::sqlparser::ast::{Expr, Query, Select};
use froglet_engine::SqlState;

use crate::error::SqlError;
use crate::walk::{self, Flow, GO_ON, Look};

/// Of a thread that works on statements. The deepest of them need half of it in builds without optimization.
pub const STACK_BYTES: usize = 64 << 20;
/// What planning one query of a few SELECTs may need, and one of many.
const ROOM_BYTES: usize = 1 << 20;
const BIG_ROOM_BYTES: usize = STACK_BYTES / 2;
/// SELECTs.
const FEW: usize = 4;

/// What the planner's own recursions (`recursive`) need to go on without a new stack. A frame of a build
/// without optimization has up to a hundred kilobytes.
const PLANNER_ROOM_BYTES: usize = 1 << 20;

/// Makes DataFusion's recursions safe in builds without optimization; once, before the first query.
pub(crate) fn set_planner_room() {
    recursive::set_minimum_stack_size(PLANNER_ROOM_BYTES);
    recursive::set_stack_allocation_size(STACK_BYTES);
}

/// Subqueries in expressions of subqueries in expressions.
const MAX_SUBQUERIES: usize = 12;

/// Runs what recurses over a query; 54001 if the query nests too deeply.
pub(crate) fn for_query<T>(
    query: &Query,
    run: impl FnOnce() -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let mut shape = Shape::default();
    walk::look(query, &mut shape);
    if shape.deepest > MAX_SUBQUERIES {
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
            .detail(format!(
                "At most {MAX_SUBQUERIES} subqueries within each other's expressions are supported."
            ))
            .hint("Use WITH, or subqueries in FROM, for the inner ones."));
    }
    let room = if shape.selects > FEW { BIG_ROOM_BYTES } else { ROOM_BYTES };
    stacker::maybe_grow(room, STACK_BYTES, run)
}

/// Runs what recurses over a statement that has been parsed.
pub(crate) fn with_room<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(BIG_ROOM_BYTES, STACK_BYTES, run)
}

/// How a query nests.
#[derive(Default)]
struct Shape {
    selects: usize,
    /// The next query is an expression's.
    in_expression: bool,
    /// Of each query around: whether it is an expression's.
    around: Vec<bool>,
    deepest: usize,
}

impl Look for Shape {
    fn expr(&mut self, expr: &Expr) -> Flow {
        let is_subquery = matches!(
            expr,
            Expr::Subquery(_)
                | Expr::Exists { .. }
                | Expr::InSubquery { .. }
                | Expr::AnyOp { .. }
                | Expr::AllOp { .. }
        );
        self.in_expression |= is_subquery;
        GO_ON
    }

    fn select(&mut self, _select: &Select) -> Flow {
        self.selects += 1;
        GO_ON
    }

    fn query(&mut self, _query: &Query) -> Flow {
        self.around.push(std::mem::take(&mut self.in_expression));
        let depth = self.around.iter().filter(|is_expression| **is_expression).count();
        self.deepest = self.deepest.max(depth);
        GO_ON
    }

    fn query_end(&mut self) {
        self.around.pop();
    }
}
