//! Functions that return sets: in FROM, in the select list, beside the rows that they depend on.
//!
//! | written | becomes |
//! |---|---|
//! | `SELECT f(x)` | `SELECT unnest(f(x))`: the function returns a list |
//! | `FROM f(x) AS a(c)` | `FROM (SELECT unnest(f(x)) AS c) AS a` |
//! | `… WITH ORDINALITY` | another column beside it, the list of the numbers from 1 |
//! | `FROM t, f(t.x)` | `FROM t, LATERAL (SELECT unnest(f(t.x)))` |
//! | `ROWS FROM (f(x), g(y))` | lists that are unnested together; one item where a function returns one value |
//! | `FROM generate_series(1, 10)` | DataFusion's, cast: it makes its rows one batch at a time |

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{self, Expr, Ident};
use datafusion::sql::sqlparser::parser::Parser;

use crate::dialect::Postgres;
use crate::error::SqlError;
use crate::rewrite::{call, different, folded};
use crate::semantics::fieldnames::figure_name;
use crate::udf::is_set;
use crate::udf::lists::{EXPAND, NTH};
use crate::{rewrite_json, rewrite_scalar, walk};

/// The name under which DataFusion's series is registered.
pub const SERIES: &str = "froglet_series";

/// The schema that marks a list which is not to be unnested.
const LIST: &str = "froglet_list";

/// What ROWS FROM is read as ([`crate::token_forms::rows_from`]): a function of its functions.
pub(crate) const ROWS_FROM: &str = "froglet_rows_from";

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
pub fn in_from(factor: &mut ast::TableFactor) -> Result<(), SqlError> {
    let Some(call) = Call::of(factor)? else { return Ok(()) };
    if let Some((subquery, name)) = call.query() {
        let alias = ast::TableAlias { explicit: true, name, columns: Vec::new(), at: None };
        let lateral = call.lateral;
        *factor = ast::TableFactor::Derived { lateral, subquery, alias: Some(alias), sample: None };
    }
    Ok(())
}

/// A function in FROM, or several in ROWS FROM.
struct Call {
    function: String,
    args: String,
    columns: Vec<Column>,
    constant: Option<&'static str>,
    with_ordinality: bool,
    lateral: bool,
    alias: Option<ast::TableAlias>,
}

/// A column of what functions return.
#[derive(Clone)]
struct Column {
    /// The list whose items are its values.
    list: String,
    name: String,
    /// The type that its items do not know of themselves.
    ty: Option<&'static str>,
    /// The list has one item.
    is_one: bool,
}

impl Column {
    fn of(list: String, name: &str) -> Column {
        Column { list, name: name.to_owned(), ty: None, is_one: false }
    }
}

impl Call {
    fn of(factor: &ast::TableFactor) -> Result<Option<Call>, SqlError> {
        let (function, args, alias, with_ordinality) = match factor {
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
                let names = alias.as_ref().map_or(0, |alias| alias.columns.len());
                let of = |list: &Expr| Column::of(list.to_string(), "unnest");
                let is_ours = lateral || *with_ordinality || several || names > 1;
                let call = is_ours.then(|| Call {
                    function: "unnest".to_owned(),
                    args: String::new(),
                    columns: array_exprs.iter().map(of).collect(),
                    constant: None,
                    with_ordinality: *with_ordinality,
                    lateral,
                    alias: alias.clone(),
                });
                call.as_ref().map_or(Ok(()), Call::check)?;
                return Ok(call);
            }
            _ => return Ok(None),
        };
        let Some(function) = function.0.last().and_then(|part| part.as_ident()).map(folded) else {
            return Ok(None);
        };
        let columns = match function.as_str() {
            ROWS_FROM => {
                let of_each = args.iter().map(columns_of);
                of_each.collect::<Result<Vec<Vec<Column>>, SqlError>>()?.concat()
            }
            OPTIONS | EXPAND => Vec::new(),
            _ if is_set(&function) || function == "unnest" => columns_of_set(&function, args),
            _ => return Ok(None),
        };
        let call = Call {
            constant: constant_type(&function, args),
            args: joined(args),
            columns,
            with_ordinality,
            lateral: args.iter().any(has_columns),
            alias: alias.clone(),
            function,
        };
        call.check()?;
        Ok(Some(call))
    }

    fn names(&self) -> &[ast::TableAliasColumnDef] {
        self.alias.as_ref().map_or(&[], |alias| &alias.columns)
    }

    /// 42P10 for more names than columns.
    fn check(&self) -> Result<(), SqlError> {
        let there = self.columns.len() + usize::from(self.with_ordinality);
        match &self.alias {
            Some(alias) if !self.columns.is_empty() => {
                rewrite_scalar::check_names(&alias.name, self.names(), there)
            }
            _ => Ok(()),
        }
    }

    /// What the call becomes, and the name of the table.
    fn query(&self) -> Option<(Box<ast::Query>, Ident)> {
        let only = match &self.columns[..] {
            [column] => &column.name,
            _ => &self.function,
        };
        let table = self.alias.as_ref().map(|alias| alias.name.clone());
        let table = table.unwrap_or_else(|| match self.function.as_str() {
            // Such a table has no name of its own; its first function's serves.
            ROWS_FROM => Ident::with_quote('"', &self.columns[0].name),
            _ => Ident::with_quote('"', only),
        });
        if [OPTIONS, EXPAND].contains(&self.function.as_str()) {
            return self.pairs(&self.args).map(|query| (query, table));
        }
        let mut names = self.names().iter().map(|column| column.name.clone());
        let mut taken = HashSet::new();
        let mut items = Vec::new();
        for (at, column) in self.columns.iter().enumerate() {
            // The alias of a function names its one column too.
            let name = names.next().unwrap_or_else(|| match self.columns.len() {
                1 => table.clone(),
                // DataFusion wants different names.
                _ => Ident::with_quote('"', unique_name(&column.name, &mut taken)),
            });
            let item = match self.columns.len() {
                1 => format!("unnest({})", column.list),
                _ => format!("unnest({NTH}({}, {at}))", column.list),
            };
            let ty = column.ty.map(|ty| format!("::{ty}")).unwrap_or_default();
            items.push(format!("{item}{ty} AS {name}"));
        }
        if self.with_ordinality {
            let name = names.next().unwrap_or_else(|| Ident::new("ordinality"));
            items.push(format!("{} AS {name}", self.ordinals()));
        }
        let text = match (self.constant, self.with_ordinality) {
            (Some(ty), false) => {
                let name = columns_or(&self.alias, &table);
                let function = Ident::with_quote('"', different(SERIES, &self.args));
                format!("SELECT value::{ty} AS {name} FROM {function}({})", self.args)
            }
            _ => format!("SELECT {}", items.join(", ")),
        };
        parsed(&text).map(|query| (query, table))
    }

    /// The numbers of the rows: as many as the longest list has items.
    fn ordinals(&self) -> String {
        if let [column] = &self.columns[..] {
            return format!("froglet_ordinals({})", column.list);
        }
        let length = |column: &Column| match column.is_one {
            true => "1".to_owned(),
            false => format!("cardinality({})", column.list),
        };
        let lengths: Vec<String> = self.columns.iter().map(length).collect();
        format!("generate_series(1::int8, greatest({})::int8)", lengths.join(", "))
    }
}

fn unique_name(name: &str, taken: &mut HashSet<String>) -> String {
    let fresh = taken.insert(name.to_owned());
    crate::rewrite::unique(name, taken, fresh)
}

fn parsed(text: &str) -> Option<Box<ast::Query>> {
    Parser::new(&Postgres).try_with_sql(text).and_then(|mut parser| parser.parse_query()).ok()
}

fn joined(args: &[ast::FunctionArg]) -> String {
    args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>().join(", ")
}

/// The columns of a function that returns a set, or of unnest.
fn columns_of_set(function: &str, args: &[ast::FunctionArg]) -> Vec<Column> {
    match function {
        "unnest" => args.iter().map(|arg| Column::of(arg.to_string(), function)).collect(),
        _ => vec![Column::of(format!("{LIST}.{function}({})", joined(args)), function)],
    }
}

/// The columns of a function in ROWS FROM.
fn columns_of(arg: &ast::FunctionArg) -> Result<Vec<Column>, SqlError> {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(call)) = arg else {
        return Err(SqlError::unsupported("this in ROWS FROM"));
    };
    let value =
        |name: &str| vec![Column { is_one: true, ..Column::of(format!("ARRAY[{call}]"), name) }];
    let Expr::Function(function) = call else { return Ok(value(&figure_name(call))) };
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
    let name = name.unwrap_or_default();
    let args: &[ast::FunctionArg] = match &function.args {
        ast::FunctionArguments::List(list) => &list.args,
        _ => &[],
    };
    if let Some(columns) = rewrite_json::lists_of_call(&name, args) {
        let column = |(list, name, ty)| Column { ty, ..Column::of(list, name) };
        return Ok(columns.into_iter().map(column).collect());
    }
    rewrite_scalar::check_kind(&name)?;
    match name.as_str() {
        "unnest" => Ok(columns_of_set(&name, args)),
        OPTIONS | EXPAND => Err(SqlError::unsupported(format!("{name} in ROWS FROM"))),
        _ if is_set(&name) => Ok(columns_of_set(&name, args)),
        _ => Ok(value(&name)),
    }
}

/// Of a list: names and values of what `name=value` says; or its items and their numbers.
impl Call {
    fn pairs(&self, list: &str) -> Option<Box<ast::Query>> {
        let named = |at: usize, name: &str| {
            let column = self.alias.as_ref().and_then(|alias| alias.columns.get(at));
            column.map_or_else(|| Ident::new(name), |column| column.name.clone())
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
        parsed(&text)
    }
}

/// The name of the only column.
fn columns_or(alias: &Option<ast::TableAlias>, table: &Ident) -> Ident {
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
