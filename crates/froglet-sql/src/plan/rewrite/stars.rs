//! The star among a function's arguments: the grammar has `count(*)`, the parser lets more pass.

use datafusion::sql::sqlparser::ast::{self, Expr};
use froglet_engine::SqlState;

use crate::error::SqlError;
use crate::rewrite::folded;

/// `count(*)` has nothing beside the star, and of nothing else is there a star.
pub(crate) fn alone(expr: &Expr) -> Result<(), SqlError> {
    let Expr::Function(ast::Function { name, args: ast::FunctionArguments::List(list), .. }) = expr
    else {
        return Ok(());
    };
    let is_star = |arg: &ast::FunctionArg| {
        matches!(arg, ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard))
    };
    let Some(at) = list.args.iter().position(is_star) else { return Ok(()) };
    let near = match &list.clauses[..] {
        _ if at > 0 || list.duplicate_treatment.is_some() => "*",
        _ if list.args.len() > 1 => ",",
        [ast::FunctionArgumentClause::OrderBy(_), ..] => "order",
        _ if name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .is_some_and(|n| folded(n) == "count") =>
        {
            return Ok(());
        }
        _ => {
            let message = format!("function {name}() does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        }
    };
    let message = format!("syntax error at or near \"{near}\"");
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}
