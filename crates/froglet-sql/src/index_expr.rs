//! Expressions and predicates of indexes, kept in hidden generated columns of their table.
//!
//! ```text
//!   CREATE INDEX ON t (lower(name))           key (h1)       h1 = lower(name)
//!   CREATE UNIQUE INDEX ON t (a) WHERE b > 0  key (h2, a)    h2 = CASE WHEN b > 0 THEN true END
//! ```
//!
//! A key with a NULL is unlike every other, so rows for which a predicate is not true share their keys with
//! nobody. Whoever looks something up in the index gives `true` for its first part. See
//! `docs/notes/2026-11-24-partial-and-expression-indexes.md`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, Ident, visit_expressions};
use froglet_engine::ColumnId;
use froglet_schema::{HiddenColumn, IndexDef, TableDef};

use crate::access::conjuncts;
use crate::command::fold;
use crate::error::SqlError;
use crate::stored;
use crate::walk::{self, GO_ON};

/// The expression of a hidden column, over columns by their present names.
pub(crate) fn expression(table: &TableDef, hidden: &HiddenColumn) -> Result<Expr, SqlError> {
    match stored::default_expression(&hidden.column, table)? {
        Some((_, expr)) => Ok(expr),
        None => Err(SqlError::new(
            froglet_engine::SqlState::DATA_CORRUPTED,
            "a hidden column has no expression",
        )),
    }
}

/// What is stored for a predicate.
pub(crate) fn of_predicate(predicate: Expr) -> Expr {
    let yes = Expr::Value(ast::Value::Boolean(true).into());
    let when = ast::CaseWhen { condition: predicate, result: yes };
    Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![when],
        else_result: None,
    }
}

/// The predicate of a partial index.
pub(crate) fn predicate(table: &TableDef, index: &IndexDef) -> Option<Expr> {
    if !index.notes.partial {
        return None;
    }
    let hidden = table.hidden_column(index.spec.key.first()?.column)?;
    match expression(table, hidden).ok()? {
        Expr::Case { mut conditions, .. } => Some(conditions.pop()?.condition),
        _ => None,
    }
}

/// A form in which two expressions over a table are equal if they are written alike, whatever they call its
/// columns; `None` for what has a column of no such table.
pub(crate) fn canonical(table: &TableDef, expr: &Expr) -> Option<Expr> {
    let mut expr = expr.clone();
    let mut is_own = true;
    walk::change_exprs(&mut expr, |e| {
        let name = match e {
            Expr::Nested(inner) => {
                let inner = std::mem::replace(&mut **inner, Expr::Identifier(Ident::new("")));
                *e = inner;
                return GO_ON;
            }
            Expr::Function(function) => {
                for part in &mut function.name.0 {
                    if let ast::ObjectNamePart::Identifier(ident) = part {
                        *ident = Ident::new(fold(ident));
                    }
                }
                return GO_ON;
            }
            Expr::Identifier(ident) => fold(ident),
            Expr::CompoundIdentifier(parts) => parts.last().map(fold).unwrap_or_default(),
            _ => return GO_ON,
        };
        match table.column(&name) {
            Some(column) => *e = Expr::Identifier(Ident::new(format!("#{}", column.id.0))),
            None => is_own = false,
        }
        GO_ON
    });
    is_own.then_some(expr)
}

/// The position in the layout of the hidden column that has an expression.
pub(crate) fn column_of(table: &TableDef, expr: &Expr) -> Option<usize> {
    if table.hidden.is_empty() || !has_column(expr) {
        return None;
    }
    let wanted = canonical(table, expr)?;
    let same = |hidden: &HiddenColumn| {
        expression(table, hidden).ok().and_then(|known| canonical(table, &known)).as_ref()
            == Some(&wanted)
    };
    table.hidden.iter().position(same).map(|at| table.columns.len() + at)
}

fn has_column(expr: &Expr) -> bool {
    let is_column = |e: &Expr| match e {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, is_column).is_break()
}

/// Whether conditions joined by AND imply the predicate of a partial index: each of its conjuncts is one of
/// them, or says that a column is not NULL which one of them compares.
pub(crate) fn implied(table: &TableDef, predicate: &Expr, conditions: &[&Expr]) -> bool {
    let known: Vec<Option<Expr>> = conditions.iter().map(|c| canonical(table, c)).collect();
    conjuncts(predicate).into_iter().all(|part| {
        let Some(wanted) = canonical(table, part) else { return false };
        known.iter().flatten().any(|known| *known == wanted)
            || match part {
                Expr::IsNotNull(inner) => {
                    canonical(table, inner).is_some_and(|of| is_compared(table, &of, conditions))
                }
                _ => false,
            }
    })
}

/// Whether a condition compares an expression: it is not true of NULL.
fn is_compared(table: &TableDef, of: &Expr, conditions: &[&Expr]) -> bool {
    use BinaryOperator as Op;
    let is_it = |e: &Expr| canonical(table, e).as_ref() == Some(of);
    conditions.iter().any(|condition| match condition {
        Expr::BinaryOp {
            left,
            op: Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq,
            right,
        } => is_it(left) || is_it(right),
        Expr::Between { expr, negated: false, .. } | Expr::InList { expr, negated: false, .. } => {
            is_it(expr)
        }
        _ => false,
    })
}

/// Whether the predicate of a partial index reads a column: what it is compared with is not a parameter.
pub(crate) fn in_predicate(table: &TableDef, column: ColumnId) -> bool {
    table.indexes.iter().any(|index| {
        let hidden = index.spec.key.first().and_then(|part| table.hidden_column(part.column));
        index.notes.partial && hidden.is_some_and(|hidden| hidden.inputs.contains(&column))
    })
}
