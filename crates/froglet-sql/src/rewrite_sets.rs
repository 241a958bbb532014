//! Functions that return sets: in FROM, in the select list, beside the rows that they depend on.
//!
//! | written | becomes |
//! |---|---|
//! | `SELECT f(x)` | `SELECT unnest(f(x))`: the function returns a list |
//! | `FROM f(x) AS a(c)` | `FROM (SELECT unnest(f(x)) AS c) AS a` |
//! | `… WITH ORDINALITY` | another column beside it, the list of the numbers from 1 |
//! | `FROM t, f(t.x)` | `FROM t, LATERAL (SELECT unnest(f(t.x)))` |
//! | `FROM generate_series(1, 10)` | DataFusion's, cast: it makes its rows one batch at a time |

use datafusion::sql::sqlparser::ast::{self, Expr};
use datafusion::sql::sqlparser::parser::Parser;

use crate::dialect::Postgres;
use crate::rewrite::{call, folded};
use crate::udf::is_set;
use crate::udf::lists::{EXPAND, NTH};
use crate::walk;

/// The name under which DataFusion's series is registered.
pub const SERIES: &str = "froglet_series";

/// The schema that marks a list which is not to be unnested.
const LIST: &str = "froglet_list";

/// Functions of a list that have two columns.
const OPTIONS: &str = "pg_options_to_table";

/// A call in an expression.
pub fn in_expression(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let parts = &mut function.name.0;
    if parts.len() == 2 && parts[0].as_ident().is_some_and(|schema| schema.value == LIST) {
        parts.remove(0);
        return;
    }
    let name = parts.last().and_then(|part| part.as_ident()).map(folded);
    if name.is_some_and(|name| is_set(&name)) && function.over.is_none() {
        // Functions have no schemas here.
        let last = parts.len().saturating_sub(1);
        parts.drain(..last);
        let list = std::mem::replace(expr, crate::rewrite::null());
        *expr = call("unnest", vec![list]);
    }
}

/// A call in FROM. Its parts are rewritten afterwards.
pub fn in_from(factor: &mut ast::TableFactor) {
    let Some(call) = Call::of(factor) else { return };
    if let Some((subquery, name)) = call.query() {
        let alias = ast::TableAlias { explicit: true, name, columns: Vec::new(), at: None };
        let lateral = call.lateral;
        *factor = ast::TableFactor::Derived { lateral, subquery, alias: Some(alias), sample: None };
    }
}

/// A function in FROM.
struct Call {
    function: String,
    /// The lists whose items are the rows, or the arguments of the function that makes one.
    args: Vec<String>,
    constant: Option<&'static str>,
    with_ordinality: bool,
    lateral: bool,
    alias: Option<ast::TableAlias>,
}

impl Call {
    fn of(factor: &ast::TableFactor) -> Option<Call> {
        let (function, args, alias, ordinality) = match factor {
            ast::TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
                (name, &args.args, alias, *with_ordinality)
            }
            ast::TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                (name, args, alias, *with_ordinality)
            }
            ast::TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let lateral = array_exprs.iter().any(has_columns);
                // Of lists that stand there DataFusion makes a table by itself.
                let several = array_exprs.len() > 1;
                return (lateral || *with_ordinality || several).then(|| Call {
                    function: "unnest".to_owned(),
                    args: array_exprs.iter().map(|list| list.to_string()).collect(),
                    constant: None,
                    with_ordinality: *with_ordinality,
                    lateral,
                    alias: alias.clone(),
                });
            }
            _ => return None,
        };
        let function = function.0.last().and_then(|part| part.as_ident()).map(folded)?;
        let of_lists = ["unnest", OPTIONS, EXPAND].contains(&&*function);
        (is_set(&function) || of_lists).then(|| Call {
            constant: constant_type(&function, args),
            function,
            args: args.iter().map(|arg| arg.to_string()).collect(),
            with_ordinality: ordinality,
            lateral: args.iter().any(has_columns),
            alias: alias.clone(),
        })
    }

    /// What the call becomes, and the name of the table.
    fn query(&self) -> Option<(Box<ast::Query>, ast::Ident)> {
        let args = self.args.join(", ");
        let lists = match self.function.as_str() {
            "unnest" => self.args.clone(),
            function => vec![format!("{LIST}.{function}({args})")],
        };
        // The alias of a function names its one column too.
        let table = self.alias.as_ref().map(|alias| alias.name.clone());
        let table = table.unwrap_or_else(|| ast::Ident::new(&self.function));
        if [OPTIONS, EXPAND].contains(&self.function.as_str()) {
            return self.pairs(&args).map(|query| (query, table));
        }
        let columns = self.alias.iter().flat_map(|alias| &alias.columns);
        let mut names = columns.map(|column| column.name.clone());
        let only = if lists.len() == 1 { &table } else { &ast::Ident::new(&self.function) };
        let mut items: Vec<String> = lists
            .iter()
            .enumerate()
            .map(|(at, list)| {
                // DataFusion wants different names, PostgreSQL gives them all the same.
                let unnamed = || match at {
                    0 => only.clone(),
                    at => ast::Ident::new(format!("{}_{at}", only.value)),
                };
                let name = names.next().unwrap_or_else(unnamed);
                match lists.len() {
                    1 => format!("unnest({list}) AS {name}"),
                    _ => format!("unnest({NTH}({list}, {at})) AS {name}"),
                }
            })
            .collect();
        if self.with_ordinality {
            let name = names.next().unwrap_or_else(|| ast::Ident::new("ordinality"));
            items.push(match &lists[..] {
                [list] => format!("froglet_ordinals({list}) AS {name}"),
                lists => {
                    // As many as the longest list has items.
                    let lengths = lists.iter().map(|list| format!("cardinality({list})"));
                    let longest = lengths.collect::<Vec<_>>().join(", ");
                    format!("generate_series(1::int8, greatest({longest})::int8) AS {name}")
                }
            });
        }
        let text = match (self.constant, self.with_ordinality) {
            (Some(ty), false) => {
                let name = columns_or(&self.alias, &table);
                format!("SELECT value::{ty} AS {name} FROM {SERIES}({args})")
            }
            _ => format!("SELECT {}", items.join(", ")),
        };
        let parsed = Parser::new(&Postgres).try_with_sql(&text).and_then(|mut p| p.parse_query());
        parsed.ok().map(|query| (query, table))
    }
}

/// Of a list: names and values of what `name=value` says; or its items and their numbers.
impl Call {
    fn pairs(&self, list: &str) -> Option<Box<ast::Query>> {
        let named = |at: usize, name: &str| {
            let column = self.alias.as_ref().and_then(|alias| alias.columns.get(at));
            column.map_or_else(|| ast::Ident::new(name), |column| column.name.clone())
        };
        let text = match self.function.as_str() {
            OPTIONS => format!(
                "SELECT split_part(o, '=', 1) AS {}, \
                 CASE WHEN strpos(o, '=') > 0 THEN substr(o, strpos(o, '=') + 1) END AS {} \
                 FROM (SELECT unnest({list}) AS o) AS froglet_options",
                named(0, "option_name"),
                named(1, "option_value"),
            ),
            _ => format!(
                "SELECT unnest({list}) AS {}, froglet_ordinals({list})::int4 AS {}",
                named(0, "x"),
                named(1, "n"),
            ),
        };
        let parsed = Parser::new(&Postgres).try_with_sql(&text).and_then(|mut p| p.parse_query());
        parsed.ok()
    }
}

/// The name of the only column.
fn columns_or(alias: &Option<ast::TableAlias>, table: &ast::Ident) -> ast::Ident {
    let column = alias.as_ref().and_then(|alias| alias.columns.first());
    column.map_or_else(|| table.clone(), |column| column.name.clone())
}

pub(crate) fn has_columns(arg: &impl ast::Visit) -> bool {
    walk::any_expr(arg, |expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
}

/// The type of a series from and to numbers that stand there.
fn constant_type(function: &str, args: &[ast::FunctionArg]) -> Option<&'static str> {
    if function != "generate_series" || !(2..=3).contains(&args.len()) {
        return None;
    }
    let numbers = args.iter().map(|arg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => number(expr),
        _ => None,
    });
    let numbers: Vec<i64> = numbers.collect::<Option<_>>()?;
    // A step of 0 is the function's to refuse.
    if numbers.get(2) == Some(&0) {
        return None;
    }
    let small = numbers.iter().all(|number| i32::try_from(*number).is_ok());
    Some(if small { "int4" } else { "int8" })
}

fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            ast::Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => {
            number(expr).and_then(i64::checked_neg)
        }
        Expr::Nested(inner) => number(inner),
        _ => None,
    }
}
