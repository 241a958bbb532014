//! Rows out of json, in FROM.
//!
//! | written | becomes |
//! |---|---|
//! | `jsonb_to_recordset(x) AS r(a int, b text)` | `(SELECT CAST(froglet_record_text(v, 'a') AS int) AS a, … FROM (SELECT unnest(jsonb_elements_list(x)) AS v) r) AS r` |
//! | `json_to_record(x) AS r(a int[])` | `(SELECT CAST(froglet_record_array(v, 'a') AS int[]) AS a FROM (SELECT x AS v) r) AS r` |
//! | `jsonb_populate_recordset(NULL::t, x) AS r` | `jsonb_to_recordset(x) AS r(…)`, with the columns of t |
//!
//! The last of these needs the catalog, and is done before the others ([`with_columns`]).

use datafusion::sql::sqlparser::ast::{
    self, DataType, Expr, FunctionArg, FunctionArgExpr, TableFactor,
};
use froglet_engine::SqlState;

use crate::error::SqlError;
use crate::parse::parse_query;
use crate::resolve::Names;
use crate::rewrite::folded;
use crate::types::type_name;
use crate::udf::json::{RECORD_ARRAY, RECORD_JSON, RECORD_TEXT};
use crate::walk::{self, Change, Flow, GO_ON, Look, STOP};

/// A call in FROM.
struct Call<'f> {
    /// Without its schema.
    function: String,
    args: Vec<&'f Expr>,
    alias: &'f Option<ast::TableAlias>,
    lateral: bool,
}

impl Call<'_> {
    fn of(factor: &TableFactor) -> Option<Call<'_>> {
        let (name, args, alias, lateral) = match factor {
            TableFactor::Table {
                name, args: Some(args), alias, with_ordinality: false, ..
            } => (name, &args.args, alias, false),
            TableFactor::Function { name, args, alias, lateral, with_ordinality: false } => {
                (name, args, alias, *lateral)
            }
            _ => return None,
        };
        let function = folded(name.0.last()?.as_ident()?);
        let args = args.iter().map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        });
        Some(Call { function, args: args.collect::<Option<_>>()?, alias, lateral })
    }

    /// `json` or `jsonb`, and what the function is called without it.
    fn parts(&self) -> Option<(&'static str, &str)> {
        match self.function.strip_prefix("jsonb_") {
            Some(rest) => Some(("jsonb", rest)),
            None => Some(("json", self.function.strip_prefix("json_")?)),
        }
    }
}

/// Puts a query in the place of `json_to_record` and its like.
pub(crate) fn in_from(factor: &mut TableFactor) -> Result<(), SqlError> {
    let Some(call) = Call::of(factor) else { return Ok(()) };
    let Some((ty, kind @ ("to_record" | "to_recordset"))) = call.parts() else { return Ok(()) };
    let [json] = call.args[..] else { return Ok(()) };
    let columns = call.alias.as_ref().map(|alias| &alias.columns[..]).unwrap_or_default();
    let typed = columns.iter().map(|column| Some((&column.name, column.data_type.as_ref()?)));
    let Some(columns) = typed.collect::<Option<Vec<_>>>().filter(|columns| !columns.is_empty())
    else {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "a column definition list is required for functions returning \"record\"",
        ));
    };
    let columns: Vec<String> = columns
        .into_iter()
        .map(|(name, data_type)| {
            let (key, cut) = (literal(&folded(name)), literal(&call.function));
            let part = match data_type {
                DataType::JSON | DataType::JSONB => RECORD_JSON,
                DataType::Array(_) => RECORD_ARRAY,
                _ => RECORD_TEXT,
            };
            let length = longest(data_type).map(|n| format!(", {n}")).unwrap_or_default();
            format!("CAST({part}(v, {key}, {cut}{length}) AS {data_type}) AS {name}")
        })
        .collect();
    let values = match kind {
        "to_record" => format!("CAST({json} AS {ty})"),
        _ => format!("CAST(unnest({ty}_elements_list(CAST({json} AS {ty}))) AS {ty})"),
    };
    let text = format!("SELECT {} FROM (SELECT {values} AS v) AS r", columns.join(", "));
    let lateral = call.lateral || walk::any_expr(json, is_column);
    let alias =
        call.alias.as_ref().map(|alias| ast::TableAlias { columns: Vec::new(), ..alias.clone() });
    let subquery = Box::new(parse_query(&text)?);
    *factor = TableFactor::Derived { lateral, subquery, alias, sample: None };
    Ok(())
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The characters that a column's type has room for, of those for which a cast would cut them off.
fn longest(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::Varchar(Some(ast::CharacterLength::IntegerLength { length, .. }))
        | DataType::CharacterVarying(Some(ast::CharacterLength::IntegerLength {
            length, ..
        }))
        | DataType::Char(Some(ast::CharacterLength::IntegerLength { length, .. }))
        | DataType::Character(Some(ast::CharacterLength::IntegerLength { length, .. })) => {
            Some(*length)
        }
        _ => None,
    }
}

/// The query with the columns of tables in the place of `NULL::t`, if it has such a call.
pub(crate) fn with_columns(
    query: &ast::Query,
    names: &Names<'_>,
) -> Result<Option<ast::Query>, SqlError> {
    struct Columns<'n> {
        names: &'n Names<'n>,
        changed: bool,
        failed: Option<SqlError>,
    }
    impl Change for Columns<'_> {
        fn table_factor(&mut self, factor: &mut TableFactor) {
            match of_table(factor, self.names) {
                Ok(Some(columns)) => {
                    *factor = columns;
                    self.changed = true;
                }
                Ok(None) => {}
                Err(e) => self.failed = Some(e),
            }
        }
    }
    struct Any;
    impl Look for Any {
        fn select(&mut self, select: &ast::Select) -> Flow {
            if select.from.iter().any(has_populated) { STOP } else { GO_ON }
        }
    }
    if !walk::look(query, &mut Any) {
        return Ok(None);
    }
    let (mut query, mut columns) = (query.clone(), Columns { names, changed: false, failed: None });
    walk::change(&mut query, &mut columns);
    match columns.failed {
        Some(e) => Err(e),
        None => Ok(columns.changed.then_some(query)),
    }
}

fn has_populated(from: &ast::TableWithJoins) -> bool {
    let joined = from.joins.iter().map(|join| &join.relation);
    std::iter::once(&from.relation).chain(joined).any(|factor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => has_populated(table_with_joins),
        factor => Call::of(factor).is_some_and(|call| {
            matches!(call.parts(), Some((_, "populate_record" | "populate_recordset")))
        }),
    })
}

fn of_table(factor: &TableFactor, names: &Names<'_>) -> Result<Option<TableFactor>, SqlError> {
    let Some(call) = Call::of(factor) else { return Ok(None) };
    let Some((ty, kind @ ("populate_record" | "populate_recordset"))) = call.parts() else {
        return Ok(None);
    };
    let [base, json] = call.args[..] else { return Ok(None) };
    let Expr::Cast { expr, data_type: DataType::Custom(table, modifiers), .. } = base else {
        return Err(not_of_null(&call.function));
    };
    let is_null = matches!(&**expr, Expr::Value(value) if value.value == ast::Value::Null);
    if !is_null || !modifiers.is_empty() {
        return Err(not_of_null(&call.function));
    }
    let table = names.table(table)?;
    let columns = table.def.columns.iter().map(|column| {
        format!("{} {}", ast::Ident::with_quote('"', &column.name), type_name(column.sql_type))
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    let to = kind.replace("populate", "to");
    let own = ast::Ident::with_quote('"', &call.function);
    let alias = call.alias.as_ref().map_or(own, |alias| alias.name.clone());
    let text = match call.alias.as_ref().map(|alias| &alias.columns[..]) {
        None | Some([]) => format!("SELECT * FROM {ty}_{to}({json}) AS {alias}({columns})"),
        Some(written) => {
            let rest = table.def.columns.iter().skip(written.len());
            let rest = rest.map(|column| ast::Ident::with_quote('"', &column.name));
            let written = written.iter().map(|column| column.name.clone()).chain(rest);
            let written: Vec<String> = written.map(|name| name.to_string()).collect();
            let rows = format!("SELECT * FROM {ty}_{to}({json}) AS r({columns})");
            let lateral = if walk::any_expr(json, is_column) { "LATERAL " } else { "" };
            format!("SELECT * FROM {lateral}({rows}) AS {alias}({})", written.join(", "))
        }
    };
    let ast::SetExpr::Select(mut select) = *parse_query(&text)?.body else { return Ok(None) };
    Ok(select.from.pop().map(|from| from.relation))
}

fn not_of_null(function: &str) -> SqlError {
    SqlError::unsupported(format!("{function} of anything but NULL::table"))
        .hint("Give the columns in a list: jsonb_to_recordset(…) AS r(a integer, …).")
}
