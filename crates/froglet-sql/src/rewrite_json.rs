//! Functions that answer rows out of a json value, over `unnest` of lists of its parts; aggregates that
//! make one of rows, over `array_agg`, which knows orders.
//!
//! | written | becomes |
//! |---|---|
//! | `FROM jsonb_each_text(x)` | `FROM UNNEST(jsonb_keys_list(x), jsonb_member_texts_list(x)) AS jsonb_each_text(key, value)` |
//! | `FROM json_array_elements('…') e` | `FROM (SELECT value::json AS value FROM UNNEST(json_elements_list('…')) f(value)) e` |
//! | `json_agg(x ORDER BY y)` | `froglet_json_agg(array_agg(froglet_json_part(x) ORDER BY y))` |
//! | `SELECT jsonb_array_elements(x)` | `SELECT unnest(jsonb_elements_list(x))::jsonb` |
//! | `SELECT jsonb_path_query(x, '$.a')` | `SELECT unnest(jsonb_path_query_list(x, '$.a'))::jsonb` |
//! | `FROM t, json_array_elements(t.x) e` | `FROM t, LATERAL (SELECT unnest(json_elements_list(t.x))::json AS c0) e(value)` |
//!
//! An element of a list does not know that it is json, so its type is said again.

use datafusion::sql::sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, TableFactor};

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::command::fold;
use crate::dialect::Postgres;
use crate::rewrite::call;
use crate::udf::json::{MEMBER, PART, ROW};
use crate::walk;

/// The lists whose elements a function's rows are, and the names of its columns; no name where it is
/// that of the function.
fn lists(name: &str) -> Option<(&'static str, Vec<&'static str>, &'static [&'static str])> {
    let (prefix, rest) = match name.strip_prefix("jsonb_") {
        Some(rest) => ("jsonb_", rest),
        None => ("json_", name.strip_prefix("json_")?),
    };
    let (lists, columns): (&[&str], &[&str]) = match rest {
        "each" => (&["keys_list", "members_list"], &["key", "value"]),
        "each_text" => (&["keys_list", "member_texts_list"], &["key", "value"]),
        "array_elements" => (&["elements_list"], &["value"]),
        "array_elements_text" => (&["element_texts_list"], &["value"]),
        "object_keys" => (&["keys_list"], &[]),
        "path_query" | "path_query_tz" if prefix == "jsonb_" => (&["path_query_list"], &[]),
        _ => return None,
    };
    Some((prefix, lists.to_vec(), columns))
}

/// The names of the columns of a function in FROM; none where it is that of the function.
pub(crate) fn columns(name: &str) -> Option<&'static [&'static str]> {
    lists(name).map(|(_, _, columns)| columns)
}

/// The lists of a call, as texts, with the names of their columns and the types that their items do not know.
pub(crate) fn lists_of_call(
    function: &str,
    args: &[FunctionArg],
) -> Option<Vec<(String, &'static str, Option<&'static str>)>> {
    let (prefix, lists, columns) = lists(function)?;
    let argument = comma_separated(&arguments(function, args)?);
    let last = lists.len() - 1;
    let own = match function {
        "jsonb_path_query" => "jsonb_path_query",
        "jsonb_path_query_tz" => "jsonb_path_query_tz",
        _ if function.starts_with("jsonb") => "jsonb_object_keys",
        _ => "json_object_keys",
    };
    let one = |(at, list): (usize, &&str)| {
        let ty = json_column(function).filter(|_| at == last);
        (format!("{prefix}{list}({argument})"), columns.get(at).copied().unwrap_or(own), ty)
    };
    Some(lists.iter().enumerate().map(one).collect())
}

fn folded(name: &ast::ObjectName) -> Option<String> {
    name.0.last()?.as_ident().map(fold)
}

fn is_path_query(function: &str) -> bool {
    function.starts_with("jsonb_path_query")
}

/// The arguments of a call: two to four of a path's, else one.
fn arguments(function: &str, args: &[FunctionArg]) -> Option<Vec<Expr>> {
    let counts = if is_path_query(function) { 2..=4 } else { 1..=1 };
    let args = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    args.collect::<Option<Vec<Expr>>>().filter(|args| counts.contains(&args.len()))
}

fn comma_separated(args: &[Expr]) -> String {
    args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>().join(", ")
}

/// A function in FROM.
pub(crate) fn rewrite_table(factor: &mut TableFactor) {
    let (name, args, alias, with_ordinality) = match &*factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
            (name, &args.args, alias, *with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            (name, args, alias, *with_ordinality)
        }
        _ => return,
    };
    let Some(function) = folded(name) else { return };
    let Some((prefix, lists, columns)) = lists(&function) else { return };
    let Some(arguments) = arguments(&function, args) else { return };
    let array_exprs = lists.iter().map(|list| call(&format!("{prefix}{list}"), arguments.clone()));
    let array_exprs = array_exprs.collect();
    let mut alias = alias.clone().unwrap_or_else(|| ast::TableAlias {
        explicit: true,
        name: ast::Ident::with_quote('"', function.clone()),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        let own = [alias.name.value.clone()];
        let names: Vec<String> = match columns {
            [] => own.to_vec(),
            names => names.iter().map(|name| (*name).to_owned()).collect(),
        };
        alias.columns = names
            .into_iter()
            .chain(with_ordinality.then(|| "ordinality".to_owned()))
            .map(|name| ast::TableAliasColumnDef {
                name: ast::Ident::with_quote('"', name),
                data_type: None,
            })
            .collect();
    }
    let lateral = walk::any_expr(&arguments, |expr| {
        matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
    });
    if with_ordinality || lateral {
        let arguments = comma_separated(&arguments);
        let lists = lists.iter().map(|list| format!("{prefix}{list}({arguments})")).collect();
        let query = query_of(lists, json_column(&function), with_ordinality);
        if let Some(subquery) = query {
            let alias = Some(alias);
            *factor = TableFactor::Derived { lateral, subquery, alias, sample: None };
        }
        return;
    }
    let unnested = TableFactor::UNNEST {
        alias: Some(alias.clone()),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    };
    *factor = match json_column(&function) {
        Some(ty) => typed(unnested, alias, ty),
        None => unnested,
    };
}

/// A query of the lists' items; WITH ORDINALITY of their numbers from 1, too.
fn query_of(
    lists: Vec<String>,
    last_type: Option<&str>,
    with_ordinality: bool,
) -> Option<Box<ast::Query>> {
    let last = lists.len().checked_sub(1)?;
    let mut items: Vec<String> = lists.iter().map(|list| format!("unnest({list})")).collect();
    if let Some(ty) = last_type {
        items[last] = format!("{}::{ty}", items[last]);
    }
    if with_ordinality {
        items.push(format!("froglet_ordinals({})", lists[0]));
    }
    let named = items.iter().enumerate().map(|(at, item)| format!("{item} AS c{at}"));
    let text = format!("SELECT {}", named.collect::<Vec<_>>().join(", "));
    let parsed = Parser::new(&Postgres).try_with_sql(&text).and_then(|mut p| p.parse_query());
    parsed.ok()
}

/// The type of a function's last column, if it is json or jsonb.
fn json_column(function: &str) -> Option<&'static str> {
    let json =
        function.ends_with("_each") || function.ends_with("_elements") || is_path_query(function);
    json.then(|| if function.starts_with("jsonb") { "jsonb" } else { "json" })
}

/// A query of the same columns, the last one of this type.
fn typed(unnested: TableFactor, alias: ast::TableAlias, ty: &str) -> TableFactor {
    let names: Vec<&ast::Ident> = alias.columns.iter().map(|column| &column.name).collect();
    let (last, keys) = names.split_last().expect("a function has columns");
    let keys: String = keys.iter().map(|key| format!("{key}, ")).collect();
    let text = format!("SELECT {keys}{last}::{ty} AS {last} FROM f");
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, &text);
    let Ok([ast::Statement::Query(query)]) = parsed.as_deref() else { return unnested };
    let mut subquery = query.clone();
    if let ast::SetExpr::Select(select) = &mut *subquery.body {
        select.from[0].relation = unnested;
    }
    TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None }
}

/// json_agg and its like.
pub(crate) fn rewrite_aggregate(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let Some(name) = folded(&function.name) else { return };
    let part = match name.as_str() {
        "json_agg" | "jsonb_agg" => PART,
        "json_object_agg" | "jsonb_object_agg" => MEMBER,
        _ => return,
    };
    let ast::FunctionArguments::List(list) = &mut function.args else { return };
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let Some(args) = args.collect::<Option<Vec<Expr>>>() else { return };
    if args.len() != if part == PART { 1 } else { 2 } {
        return;
    }
    let is_sorted =
        list.clauses.iter().any(|c| matches!(c, ast::FunctionArgumentClause::OrderBy(_)));
    if part == PART
        && is_sorted
        && list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct)
    {
        // Sorted by the argument itself, which its part is not.
        function.name = ast::ObjectName::from(vec![ast::Ident::new("array_agg")]);
        let array = call("to_jsonb", vec![expr.clone()]);
        let cast = |expr, data_type| Expr::Cast {
            kind: ast::CastKind::DoubleColon,
            expr: Box::new(expr),
            data_type,
            array: false,
            format: None,
        };
        *expr = match name.as_str() {
            "json_agg" => cast(cast(array, ast::DataType::Text), ast::DataType::JSON),
            _ => array,
        };
        return;
    }
    let of_rows = matches!(&args[..], [row] if is_row(row));
    let name = match of_rows && name == "json_agg" {
        true => "json_rows_agg".to_owned(),
        false => name,
    };
    list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(call(part, args)))];
    function.name = ast::ObjectName::from(vec![ast::Ident::new("array_agg")]);
    *expr = call(&format!("froglet_{name}"), vec![expr.clone()]);
}

/// Whether an expression is the row of a table, which may be missing.
fn is_row(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => {
            matches!(folded(&function.name).as_deref(), Some("row" | ROW))
        }
        Expr::Case { conditions, else_result: None, .. } => {
            matches!(&conditions[..], [when] if is_row(&when.result))
        }
        _ => false,
    }
}

/// A function in a select list, of one column.
pub(crate) fn rewrite_call(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let Some(name) = folded(&function.name) else { return };
    let Some((prefix, lists, _)) = lists(&name) else { return };
    let ast::FunctionArguments::List(list) = &function.args else { return };
    let (Some(arguments), [one]) = (arguments(&name, &list.args), &lists[..]) else { return };
    let list = call(&format!("{prefix}{one}"), arguments);
    let unnested = call("unnest", vec![list]);
    *expr = match json_column(&name) {
        Some(ty) => Expr::Cast {
            kind: ast::CastKind::DoubleColon,
            expr: Box::new(unnested),
            data_type: if ty == "jsonb" { ast::DataType::JSONB } else { ast::DataType::JSON },
            array: false,
            format: None,
        },
        None => unnested,
    };
}
