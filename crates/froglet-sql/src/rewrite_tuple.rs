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
use crate::rewrite_quantified;

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
            *expr = nested(all.unwrap_or_else(|| constant(true)));
        }
        _ => {}
    }
    Ok(())
}

/// Each `(a, b) IN (SELECT …)` of a condition, where NULL counts as what does not hold, as an EXISTS; before its
/// parts are rewritten.
pub fn in_condition(condition: &mut Expr) {
    rewrite_quantified::rewrite(condition);
    match condition {
        Expr::Nested(inner) => in_condition(inner),
        Expr::BinaryOp { left, op: Op::And | Op::Or, right } => {
            in_condition(left);
            in_condition(right);
        }
        // What is NULL is not NULL's opposite: NOT is brought to the IN that it is of.
        Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => {
            if let Some(mut opposite) = opposite(inner) {
                as_exists(&mut opposite);
                *condition = opposite;
            }
        }
        other => as_exists(other),
    }
}

/// The IN that holds where a row's IN does not.
fn opposite(condition: &mut Expr) -> Option<Expr> {
    rewrite_quantified::rewrite(condition);
    match condition {
        Expr::Nested(inner) => opposite(inner),
        Expr::InSubquery { expr: row, subquery, negated } if fields(row).is_some() => {
            let (expr, subquery) = (row.clone(), subquery.clone());
            Some(Expr::InSubquery { expr, subquery, negated: !*negated })
        }
        _ => None,
    }
}

fn as_exists(expr: &mut Expr) {
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

/// `(a, b) IN (SELECT …)` where NULL is told from false; before its parts are rewritten.
pub fn in_value(expr: &mut Expr) {
    let Expr::InSubquery { expr: row, subquery, negated } = expr else { return };
    if let Some(found) = in_item(row, subquery) {
        *expr = match negated {
            true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) },
            false => found,
        };
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

/// `(a, b) = (SELECT x, y …)` as `(SELECT a = c0 AND b = c1 FROM (SELECT x, y …) AS froglet_in (c0, c1))`: of the
/// only row, NULL of none; before its parts are rewritten.
pub fn with_subquery(expr: &mut Expr) -> Result<(), SqlError> {
    let Expr::BinaryOp { left, op, right } = &*expr else { return Ok(()) };
    let (Some(row), Some(query)) = (fields(left), subquery(right)) else { return Ok(()) };
    let found = found_columns(row.len());
    let found: Option<Vec<Expr>> = found.iter().map(|column| parse(column)).collect();
    let Some(found) = found else { return Ok(()) };
    let compared = compare(&row, op, &found)?;
    if let Some(parsed) = parse(&format!("(SELECT {compared} {})", from_found(query, row.len()))) {
        *expr = parsed;
    }
    Ok(())
}

fn subquery(expr: &Expr) -> Option<&ast::Query> {
    match expr {
        Expr::Nested(inner) => subquery(inner),
        Expr::Subquery(query) => Some(query),
        _ => None,
    }
}

/// `row IS DISTINCT FROM row`: where one pair of their fields is; before its parts are rewritten.
pub fn distinct(expr: &mut Expr) -> Result<(), SqlError> {
    let (left, right, is_distinct) = match &*expr {
        Expr::IsDistinctFrom(left, right) => (left, right, true),
        Expr::IsNotDistinctFrom(left, right) => (left, right, false),
        _ => return Ok(()),
    };
    let (Some(left), Some(right)) = (fields(left), fields(right)) else { return Ok(()) };
    of_one_length(&left, &right)?;
    let pairs = left.into_iter().zip(right).map(|(left, right)| {
        let (left, right) = (Box::new(nested(left)), Box::new(nested(right)));
        match is_distinct {
            true => Expr::IsDistinctFrom(left, right),
            false => Expr::IsNotDistinctFrom(left, right),
        }
    });
    let by = if is_distinct { Op::Or } else { Op::And };
    let whole = pairs.reduce(|whole, pair| join(whole, by.clone(), pair));
    *expr = nested(whole.unwrap_or_else(|| constant(!is_distinct)));
    Ok(())
}

/// The rows of a query that are like a row.
struct Alike {
    from: String,
    condition: String,
}

impl Alike {
    fn of(row: &Expr, query: &ast::Query) -> Option<Alike> {
        let fields = fields(row).filter(|fields| !fields.is_empty())?;
        let found = found_columns(fields.len());
        let equal = fields.iter().zip(&found);
        let equal: Vec<String> =
            equal.map(|(field, found)| format!("{found} = ({field})")).collect();
        let from = from_found(query, fields.len());
        Some(Alike { from, condition: format!("({})", equal.join(" AND ")) })
    }
}

/// The columns of [`from_found`], whose names no column around has.
fn found_columns(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("froglet_in.\"froglet {at}\"")).collect()
}

fn from_found(query: &ast::Query, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|at| format!("\"froglet {at}\"")).collect();
    format!("FROM ({query}) AS froglet_in ({})", names.join(", "))
}

fn parse(text: &str) -> Option<Expr> {
    Parser::new(&Postgres).try_with_sql(text).and_then(|mut parser| parser.parse_expr()).ok()
}

/// Rows that a function is given, as calls of the function that makes their texts; before its parts are rewritten.
pub fn in_arguments(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let ast::FunctionArguments::List(list) = &mut function.args else { return };
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
        Expr::Function(function) => fields_of_call(function),
        _ => None,
    }
}

/// The fields of `row(…)`.
pub(crate) fn fields_of_call(function: &ast::Function) -> Option<Vec<Expr>> {
    let name = function.name.0.last()?.as_ident()?;
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let field = |arg: &ast::FunctionArg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    match name.value.eq_ignore_ascii_case("row") {
        true => list.args.iter().map(field).collect(),
        false => None,
    }
}

fn join(left: Expr, op: Op, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn constant(value: bool) -> Expr {
    Expr::value(ast::Value::Boolean(value))
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn of_one_length(left: &[Expr], right: &[Expr]) -> Result<(), SqlError> {
    match left.len() == right.len() {
        true => Ok(()),
        false => Err(SqlError::new(
            froglet_engine::SqlState::SYNTAX_ERROR,
            "unequal number of entries in row expressions",
        )),
    }
}

fn compare(left: &[Expr], op: &Op, right: &[Expr]) -> Result<Expr, SqlError> {
    of_one_length(left, right)?;
    if left.is_empty() {
        return Err(SqlError::unsupported("comparing rows of zero length"));
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
