//! Rows: in a select list, and comparisons of them: `(a, b) = (1, 2)`, `(a, b) < (1, 2)`, `(a, b) IN ((1, 2), (3, 4))`.
//!
//! ```text
//!   (a, b) = (c, d)      a = c AND b = d
//!   (a, b) <> (c, d)     a <> c OR b <> d
//!   (a, b) <= (c, d)     a < c OR (a = c AND b <= d)
//! ```

use datafusion::sql::sqlparser::ast::{self, BinaryOperator as Op, Expr, UnaryOperator};

use datafusion::sql::sqlparser::parser::Parser;

use crate::dialect::Postgres;
use crate::error::SqlError;
use crate::rewrite::{call, null};

/// The comparison of two rows as one of their fields; `None` if it is none.
pub fn rewrite(expr: &mut Expr) -> Result<(), SqlError> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            let (Some(l), Some(r)) = (fields(left), fields(right)) else { return Ok(()) };
            *expr = compare(&l, op, &r)?;
        }
        Expr::InList { expr: value, list, negated } => {
            let Some(l) = fields(value) else { return Ok(()) };
            let mut any: Option<Expr> = None;
            for item in list {
                let Some(r) = fields(item) else { return Ok(()) };
                let equal = compare(&l, &Op::Eq, &r)?;
                any = Some(match any {
                    None => equal,
                    Some(others) => join(others, Op::Or, equal),
                });
            }
            let any = Expr::Nested(Box::new(any.unwrap_or_else(null)));
            *expr = match negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(any) },
                false => any,
            };
        }
        // A row is null where all of its fields are, and not null where none is.
        Expr::IsNull(row) | Expr::IsNotNull(row) => {
            let Some(fields) = fields(row) else { return Ok(()) };
            let is_null = matches!(expr, Expr::IsNull(_));
            let test = |field| match is_null {
                true => Expr::IsNull(Box::new(field)),
                false => Expr::IsNotNull(Box::new(field)),
            };
            let all = fields.into_iter().map(test).reduce(|a, b| join(a, Op::And, b));
            *expr = nested(all.unwrap_or_else(null));
        }
        _ => {}
    }
    Ok(())
}

/// `(a, b) IN (SELECT …)` as an EXISTS; before its parts are rewritten.
pub fn in_subquery(expr: &mut Expr) {
    let Expr::InSubquery { expr: row, subquery, negated } = expr else { return };
    let Some(alike) = Alike::of(row, subquery) else { return };
    let text = match negated {
        false => format!("EXISTS (SELECT 1 {} WHERE {})", alike.from, alike.condition),
        // A row that may be the same is no row that is not there.
        true => {
            format!("NOT EXISTS (SELECT 1 {} WHERE ({}) IS NOT FALSE)", alike.from, alike.condition)
        }
    };
    if let Some(parsed) = parse(&text) {
        *expr = parsed;
    }
}

/// `(a, b) IN (SELECT …)` in a select list, where EXISTS cannot be and NULL is told from false:
///
/// ```text
///   CASE WHEN (SELECT count(*) FROM q WHERE c0 = a AND c1 = b) > 0              THEN true
///        WHEN (SELECT count(*) FROM q WHERE (c0 = a AND c1 = b) IS NULL) > 0    THEN NULL
///        ELSE false END
/// ```
pub fn in_item(row: &Expr, subquery: &ast::Query) -> Option<Expr> {
    let Alike { from, condition } = Alike::of(row, subquery)?;
    parse(&format!(
        "(CASE WHEN (SELECT count(*) {from} WHERE {condition}) > 0 THEN true \
         WHEN (SELECT count(*) {from} WHERE ({condition}) IS NULL) > 0 THEN NULL ELSE false END)"
    ))
}

/// The rows of a query that are like a row.
struct Alike {
    from: String,
    condition: String,
}

impl Alike {
    fn of(row: &Expr, query: &ast::Query) -> Option<Alike> {
        let fields = fields(row)?;
        let names: Vec<String> = (0..fields.len()).map(|at| format!("c{at}")).collect();
        let equal = fields.iter().zip(&names);
        let equal: Vec<String> =
            equal.map(|(field, name)| format!("froglet_in.{name} = ({field})")).collect();
        let from = format!("FROM ({query}) AS froglet_in ({})", names.join(", "));
        Some(Alike { from, condition: format!("({})", equal.join(" AND ")) })
    }
}

fn parse(text: &str) -> Option<Expr> {
    Parser::new(&Postgres).try_with_sql(text).and_then(|mut parser| parser.parse_expr()).ok()
}

/// Rows that become an array's elements, as calls of the function that makes their texts.
pub fn in_array_agg(function: &mut ast::Function) {
    let name = function.name.0.last().and_then(|part| part.as_ident());
    let ast::FunctionArguments::List(list) = &mut function.args else { return };
    if name.is_none_or(|name| !name.value.eq_ignore_ascii_case("array_agg")) {
        return;
    }
    for arg in &mut list.args {
        if let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(row)) = arg {
            in_list(row);
        }
    }
}

/// A row in a select list, as a call of the function that makes its text.
pub fn in_list(expr: &mut Expr) {
    if let Expr::Tuple(items) = expr {
        *expr = call("row", std::mem::take(items));
    }
}

fn fields(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(items) if items.len() > 1 => Some(items.clone()),
        Expr::Nested(inner) => fields(inner),
        Expr::Function(f) if f.name.to_string().eq_ignore_ascii_case("row") => {
            let ast::FunctionArguments::List(list) = &f.args else { return None };
            let field = |arg: &ast::FunctionArg| match arg {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            };
            list.args.iter().map(field).collect()
        }
        _ => None,
    }
}

fn join(left: Expr, op: Op, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn compare(left: &[Expr], op: &Op, right: &[Expr]) -> Result<Expr, SqlError> {
    if left.len() != right.len() {
        return Err(SqlError::new(
            froglet_engine::SqlState::SYNTAX_ERROR,
            "unequal number of entries in row expressions",
        ));
    }
    let pair = |at: usize, op: Op| join(left[at].clone(), op, right[at].clone());
    let all = |op: Op, by: Op| {
        let parts = (1..left.len()).map(|at| pair(at, op.clone()));
        nested(parts.fold(pair(0, op.clone()), |whole, part| join(whole, by.clone(), part)))
    };
    Ok(match op {
        Op::Eq => all(Op::Eq, Op::And),
        Op::NotEq => all(Op::NotEq, Op::Or),
        Op::Lt | Op::LtEq | Op::Gt | Op::GtEq => {
            let strict = match op {
                Op::Lt | Op::LtEq => Op::Lt,
                _ => Op::Gt,
            };
            let last = left.len() - 1;
            (0..last).rev().fold(pair(last, op.clone()), |rest, at| {
                let tie = nested(join(pair(at, Op::Eq), Op::And, rest));
                nested(join(pair(at, strict.clone()), Op::Or, tie))
            })
        }
        other => return Err(SqlError::unsupported(format!("operator {other} on rows"))),
    })
}
