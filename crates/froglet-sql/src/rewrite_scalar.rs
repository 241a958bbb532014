//! Functions that return one value, in FROM.
//!
//! | written | becomes |
//! |---|---|
//! | `FROM lower('X') AS a(c)` | `FROM (SELECT lower('X') AS c) AS a` |
//! | `FROM t, upper(t.b) u` | `FROM t, LATERAL (SELECT upper(t.b) AS u) AS u` |
//! | `FROM lower('X') WITH ORDINALITY` | `FROM (SELECT lower('X') AS lower, 1::int8 AS ordinality) AS lower` |
//! | `FROM current_user` | `FROM (SELECT current_user AS current_user) AS current_user` |
//! | `FROM nextval('s')` | `FROM (SELECT nextval FROM (SELECT nextval('s') AS nextval) c WHERE froglet_called(nextval)) AS nextval` |
//!
//! What has effects is called even if nobody reads its value, and once however often it is read: the condition reads it,
//! and nothing is moved through it.

use datafusion::logical_expr::Volatility;
use datafusion::sql::sqlparser::ast::{self, Expr, Ident, TableFactor};
use datafusion::sql::sqlparser::parser::Parser;
use froglet_engine::SqlState;
use froglet_schema::SqlType;

use crate::dialect::Postgres;
use crate::error::SqlError;
use crate::expr::param_index;
use crate::planning::registry;
use crate::rewrite::folded;
use crate::rewrite_sets::has_columns;
use crate::types::oids;
use crate::udf::CALLED;
use crate::walk::{self, Change, Flow, GO_ON};

/// The functions that PostgreSQL calls without parentheses, in FROM, too.
const WITHOUT_PARENTHESES: [&str; 11] = [
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "user",
];

/// Whether a function is one of these.
pub(crate) fn is_scalar(name: &str) -> bool {
    registry().scalar(name).is_some()
}

/// Puts a query in the place of a call. Its parts are rewritten afterwards.
pub(crate) fn in_from(factor: &mut TableFactor) -> Result<(), SqlError> {
    let Some(call) = Call::of(factor) else { return Ok(()) };
    call.check()?;
    if let Some(subquery) = call.query() {
        let alias =
            ast::TableAlias { explicit: true, name: call.table(), columns: Vec::new(), at: None };
        let lateral = call.lateral;
        *factor = TableFactor::Derived { lateral, subquery, alias: Some(alias), sample: None };
    }
    Ok(())
}

struct Call {
    function: String,
    text: String,
    with_ordinality: bool,
    lateral: bool,
    alias: Option<ast::TableAlias>,
}

impl Call {
    fn of(factor: &TableFactor) -> Option<Call> {
        let (name, args, alias, with_ordinality) = match factor {
            TableFactor::Table { name, args, alias, with_ordinality, .. } => {
                (name, args.as_ref().map(|args| &args.args), alias, *with_ordinality)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                (name, Some(args), alias, *with_ordinality)
            }
            _ => return None,
        };
        let ident = name.0.last()?.as_ident()?;
        let function = match folded(ident) {
            trim if trim == "trim" => "btrim".to_owned(),
            function => function,
        };
        let (text, lateral) = match args {
            Some(args) if !registry().is_table_function(&name.to_string().to_ascii_lowercase()) => {
                let written: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
                (format!("{name}({})", written.join(", ")), args.iter().any(has_columns))
            }
            None if is_keyword(name, ident) => (function.clone(), false),
            _ => return None,
        };
        Some(Call { function, text, with_ordinality, lateral, alias: alias.clone() })
    }

    fn columns(&self) -> &[ast::TableAliasColumnDef] {
        self.alias.as_ref().map_or(&[], |alias| &alias.columns)
    }

    fn table(&self) -> Ident {
        let function = || Ident::with_quote('"', &self.function);
        self.alias.as_ref().map_or_else(function, |alias| alias.name.clone())
    }

    fn check(&self) -> Result<(), SqlError> {
        check_kind(&self.function)?;
        if !is_scalar(&self.function) {
            return Ok(());
        }
        if self.columns().iter().any(|column| column.data_type.is_some()) {
            let message =
                "a column definition list is only allowed for functions returning \"record\"";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        check_names(&self.table(), self.columns(), 1 + usize::from(self.with_ordinality))
    }

    fn query(&self) -> Option<Box<ast::Query>> {
        let mut names = self.columns().iter().map(|column| column.name.clone());
        let column = names.next().unwrap_or_else(|| self.table());
        let ordinality = names.next().unwrap_or_else(|| Ident::new("ordinality"));
        let number = match self.with_ordinality {
            true => format!(", 1::int8 AS {ordinality}"),
            false => String::new(),
        };
        let call = &self.text;
        let text = match self.has_effects() {
            false => format!("SELECT {call} AS {column}{number}"),
            true => format!(
                "SELECT {column}{number} FROM (SELECT {call} AS {column}) AS froglet_call \
                 WHERE {CALLED}({column})"
            ),
        };
        let parsed = Parser::new(&Postgres).try_with_sql(&text).and_then(|mut p| p.parse_query());
        parsed.ok()
    }

    fn has_effects(&self) -> bool {
        let function = registry().scalar(&self.function);
        function.is_some_and(|f| f.signature().volatility == Volatility::Volatile)
    }
}

/// 42803 for an aggregate, 42809 for a function of windows.
pub(crate) fn check_kind(name: &str) -> Result<(), SqlError> {
    if is_scalar(name) {
        return Ok(());
    }
    if registry().is_aggregate(name) {
        let message = "aggregate functions are not allowed in functions in FROM";
        return Err(SqlError::new(SqlState::GROUPING_ERROR, message));
    }
    if registry().is_window(name) {
        let message = format!("window function {name} requires an OVER clause");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    Ok(())
}

/// 42P10 for more names than there are columns.
pub(crate) fn check_names(
    table: &Ident,
    names: &[ast::TableAliasColumnDef],
    there: usize,
) -> Result<(), SqlError> {
    let given = names.len();
    if given <= there {
        return Ok(());
    }
    let table = folded(table);
    let message =
        format!("table \"{table}\" has {there} columns available but {given} columns specified");
    Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message))
}

/// The query without those arguments that are parameters of type void, if there are any: JDBC has one for the result
/// of a function that it calls.
pub(crate) fn without_void(query: &ast::Query, params: &[SqlType]) -> Option<ast::Query> {
    if !params.iter().any(|ty| ty.oid == oids::VOID) {
        return None;
    }
    let mut query = query.clone();
    walk::change(&mut query, &mut WithoutVoid { params });
    Some(query)
}

struct WithoutVoid<'a> {
    params: &'a [SqlType],
}

impl WithoutVoid<'_> {
    fn drop(&self, args: &mut Vec<ast::FunctionArg>) {
        args.retain(|arg| {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(Expr::Value(value))) = arg
            else {
                return true;
            };
            let ast::Value::Placeholder(name) = &value.value else { return true };
            let ty = param_index(name).and_then(|at| self.params.get(at));
            ty.is_none_or(|ty| ty.oid != oids::VOID)
        });
    }
}

impl Change for WithoutVoid<'_> {
    fn expr(&mut self, expr: &mut Expr) -> Flow {
        if let Expr::Function(function) = expr
            && let ast::FunctionArguments::List(list) = &mut function.args
        {
            self.drop(&mut list.args);
        }
        GO_ON
    }

    fn table_factor(&mut self, factor: &mut TableFactor) {
        match factor {
            TableFactor::Table { args: Some(args), .. } => self.drop(&mut args.args),
            TableFactor::Function { args, .. } => self.drop(args),
            _ => {}
        }
    }
}

/// Whether a name of a table is a function's that is called without parentheses.
fn is_keyword(name: &ast::ObjectName, ident: &Ident) -> bool {
    let is_bare = name.0.len() == 1 && ident.quote_style.is_none();
    is_bare && WITHOUT_PARENTHESES.contains(&folded(ident).as_str())
}
