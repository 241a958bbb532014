//! How many rows a batch has beside long constants.
//!
//! ```text
//!   SELECT g, '…100 kB…' FROM … ORDER BY g       a column of the constant: a copy for each row of a batch
//!   SELECT … WHERE f(g, '…100 kB…')              none: it stays a constant
//! ```
//!
//! DataFusion makes such columns on no account. So batches are as short as keeps them small, from the scan on.

use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use froglet_engine::id::ROWS_PER_BLOCK;

/// What the copies of a constant in a batch may come to.
const COPIES_BYTES: usize = 8 << 20;

/// Makes the batches of a run as short as its plan's constants want.
pub(crate) fn shorten(state: &mut SessionState, plan: &LogicalPlan) -> Result<()> {
    let mut longest = 0;
    plan.apply_with_subqueries(|node| {
        let makes_columns = matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Window(_)
        );
        if makes_columns {
            node.apply_expressions(|expr| {
                longest = longest.max(copied_bytes(expr));
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let rows = COPIES_BYTES / longest.max(1);
    if rows < ROWS_PER_BLOCK {
        let rows = ConfigNonZeroUsize::try_new(rows.max(1))?;
        state.config_mut().options_mut().execution.batch_size = rows;
    }
    Ok(())
}

/// Bytes of the longest constant that an expression may be for a row.
fn copied_bytes(expr: &Expr) -> usize {
    let longest = |exprs: &[Expr]| exprs.iter().map(copied_bytes).max().unwrap_or(0);
    match expr {
        Expr::Literal(value, _) => text_bytes(value),
        Expr::Alias(alias) => copied_bytes(&alias.expr),
        Expr::Cast(cast) => copied_bytes(&cast.expr),
        Expr::Case(case) => {
            let then = case.when_then_expr.iter().map(|(_, then)| &**then);
            then.chain(case.else_expr.as_deref()).map(copied_bytes).max().unwrap_or(0)
        }
        Expr::ScalarFunction(call) if call.func.name() == "coalesce" => longest(&call.args),
        Expr::AggregateFunction(call) => longest(&call.params.args),
        Expr::WindowFunction(call) => longest(&call.params.args),
        _ => 0,
    }
}

/// A list is one value beside which elements are looked for, again for each batch: it is to be there once.
fn text_bytes(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) => {
            text.as_ref().map_or(0, String::len)
        }
        ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) => {
            bytes.as_ref().map_or(0, Vec::len)
        }
        _ => 0,
    }
}
