//! The expressions of the catalog as PostgreSQL's functions show them: defaults, checks, keys and predicates of
//! indexes. See [`crate::catalogs::print`].

use datafusion::sql::sqlparser::ast::{self, Expr};
use froglet_engine::ColumnId;
use froglet_schema::{CheckDef, ColumnDef, IndexDef, TableDef};

use crate::catalogs::print::{Columns, Printer, stripped};
use crate::context::SessionFunctions;
use crate::index_expr;
use crate::parse::parse_expression;
use crate::stored;
use crate::udf::lookup::quote_ident;

/// A column's default, as pg_get_expr prints it for a session.
pub fn default_text(
    session: &dyn SessionFunctions,
    column: &ColumnDef,
    table: &TableDef,
) -> Option<String> {
    let text = stored::default_text(column, table)?;
    let Some(expr) = parse(&text) else { return Some(text) };
    let is_null = matches!(&expr, Expr::Value(value) if value.value == ast::Value::Null);
    // A default of NULL is none; a generated column that is always NULL is generated all the same.
    if is_null && stored::default_kind(column) != stored::DefaultKind::Generated {
        return None;
    }
    let printer = Printer::new(Columns::Of(table), false, Some(session));
    Some(printer.assigned(&expr, column.sql_type.oid))
}

/// What was printed with parentheses around every operator, with those alone that it needs.
pub fn pretty_text(text: &str, table: &TableDef) -> Option<String> {
    let expr = parse(text)?;
    let printer = Printer::new(Columns::Of(table), true, None).of_printed();
    let text = printer.text(&expr);
    (!printer.guessed.get()).then_some(text)
}

/// A check's condition.
pub fn check_text(check: &CheckDef, table: &TableDef, pretty: bool) -> String {
    let text = stored::check_text(check, table);
    match parse(&text) {
        Some(expr) => Printer::new(Columns::Of(table), pretty, None).text(&expr),
        None => text,
    }
}

/// A column of an index's key: its name, or the expression that a hidden one has, in parentheses unless it is
/// a function's call.
pub fn key_text(table: &TableDef, column: ColumnId, pretty: bool) -> String {
    let Some(hidden) = table.hidden_column(column) else {
        return table.column_by_id(column).map_or_else(String::new, |c| quote_ident(&c.name));
    };
    let Ok(expr) = index_expr::expression(table, hidden) else { return String::new() };
    expression_text(table, &expr, pretty)
}

/// The expression of a part of a key.
pub fn expression_text(table: &TableDef, expr: &Expr, pretty: bool) -> String {
    let text = expr_text(table, expr, pretty);
    match stripped(expr) {
        Expr::Function(_)
        | Expr::Trim { .. }
        | Expr::Substring { .. }
        | Expr::Extract { .. }
        | Expr::Position { .. }
        | Expr::Overlay { .. }
        | Expr::Ceil { .. }
        | Expr::Floor { .. } => text,
        _ => format!("({text})"),
    }
}

/// The expressions of an index, as pg_get_expr prints them.
pub fn index_expressions(table: &TableDef, index: &IndexDef) -> Option<String> {
    let hidden = index.written_parts().iter().filter_map(|p| table.hidden_column(p.column));
    let texts: Vec<String> = hidden
        .filter_map(|hidden| index_expr::expression(table, hidden).ok())
        .map(|expr| expr_text(table, &expr, false))
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// The predicate of a partial index.
pub fn predicate_text(table: &TableDef, index: &IndexDef, pretty: bool) -> Option<String> {
    Some(expr_text(table, &index_expr::predicate(table, index)?, pretty))
}

fn expr_text(table: &TableDef, expr: &Expr, pretty: bool) -> String {
    let mut expr = expr.clone();
    crate::stored_names::to_names(&mut expr);
    Printer::new(Columns::Of(table), pretty, None).text(&expr)
}

fn parse(text: &str) -> Option<Expr> {
    parse_expression(text).ok()
}
