//! Calls of functions in FROM, as the planner reads them.

use datafusion::sql::sqlparser::ast;

use crate::rewrite::{different, folded};

/// The alias of a function in FROM names its one column too: `generate_series(1, 3) AS n`.
pub(crate) fn name_column(name: &ast::ObjectName, alias: &mut Option<ast::TableAlias>) {
    let series = name
        .0
        .last()
        .and_then(|p| p.as_ident())
        .is_some_and(|i| matches!(folded(i).as_str(), "generate_series" | "range" | "unnest"));
    if let (true, Some(alias)) = (series, alias)
        && alias.columns.is_empty()
    {
        let column = ast::TableAliasColumnDef { name: alias.name.clone(), data_type: None };
        alias.columns.push(column);
    }
}

/// The column of `unnest(list)` is called as the table is.
pub(crate) fn name_unnested(alias: &mut Option<ast::TableAlias>) {
    let alias = alias.get_or_insert_with(|| ast::TableAlias {
        explicit: false,
        name: ast::Ident::new("unnest"),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        let name = alias.name.clone();
        alias.columns.push(ast::TableAliasColumnDef { name, data_type: None });
    }
}

/// Functions have no schemas here.
pub(crate) fn without_catalog(name: &mut ast::ObjectName) {
    let parts = &mut name.0;
    if parts.len() == 2
        && parts[0].as_ident().is_some_and(|i| i.value.eq_ignore_ascii_case("pg_catalog"))
    {
        parts.remove(0);
    }
}

/// The planner looks at the first part of a table function's name alone, and takes calls of one name for the same,
/// whatever their arguments.
pub(crate) fn in_one_part(
    name: &mut ast::ObjectName,
    args: &[ast::FunctionArg],
    alias: &mut Option<ast::TableAlias>,
) {
    if let [schema, function] = name.0.as_slice()
        && let (Some(schema), Some(function)) = (schema.as_ident(), function.as_ident())
        && folded(schema) == "froglet"
    {
        alias.get_or_insert_with(|| ast::TableAlias {
            explicit: false,
            name: function.clone(),
            columns: Vec::new(),
            at: None,
        });
        let whole = format!("{}.{}", folded(schema), folded(function));
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let whole = different(&whole, args.join(", "));
        *name = ast::ObjectName::from(vec![ast::Ident::with_quote('"', whole)]);
    }
}
