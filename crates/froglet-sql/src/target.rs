//! The table that a statement writes, and the syntax around it.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, ObjectName, TableAlias, TableFactor, TableWithJoins, Visit,
};

use crate::command::fold;
use crate::error::SqlError;
use crate::walk;

/// A table by name, with its alias.
pub(crate) struct TableRef<'a> {
    pub(crate) name: &'a ObjectName,
    pub(crate) alias: Option<String>,
}

/// The one plain table of a FROM item; `None` if it is anything else.
pub(crate) fn plain_table(item: &TableWithJoins) -> Option<TableRef<'_>> {
    if !item.joins.is_empty() {
        return None;
    }
    let TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = &item.relation
    else {
        return None;
    };
    if !with_hints.is_empty() || !partitions.is_empty() || !index_hints.is_empty() {
        return None;
    }
    Some(TableRef { name, alias: alias_of(alias.as_ref())? })
}

/// `None` for an alias with column names.
fn alias_of(alias: Option<&TableAlias>) -> Option<Option<String>> {
    match alias {
        None => Some(None),
        Some(alias) if alias.columns.is_empty() => Some(Some(fold(&alias.name))),
        Some(_) => None,
    }
}

/// The table of an UPDATE or DELETE.
pub(crate) fn written_table(item: &TableWithJoins) -> Result<TableRef<'_>, SqlError> {
    plain_table(item).ok_or_else(|| SqlError::unsupported(format!("{item} as a target")))
}

/// Whether a query hides in an expression.
pub(crate) fn has_subquery(node: &impl Visit) -> bool {
    walk::any_expr(node, |expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
            matches!(**right, Expr::Subquery(_))
        }
        // ARRAY(SELECT …)
        Expr::Function(function) => matches!(function.args, FunctionArguments::Subquery(_)),
        _ => false,
    })
}

/// The keyword DEFAULT where a value could stand.
pub(crate) fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}
