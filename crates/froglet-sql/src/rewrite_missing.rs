//! Tables of which a whole row is wanted though it may be missing, and that have no column that says so.
//!
//! ```text
//!   t LEFT JOIN (SELECT a FROM u) s ON …      t LEFT JOIN (SELECT a, true AS "froglet row of s" FROM u) s ON …
//!   t LEFT JOIN w ON …                        t LEFT JOIN (SELECT *, true AS "froglet row of w" FROM w) w ON …
//! ```
//! The added column is NULL where the row is missing, and nowhere else.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
};

use crate::parse::parse_query;
use crate::rewrite_rows::{Row, Sight, merges, name_of};

/// Adds the columns to a select, for those of its tables that are named; and to what is known of them.
pub(crate) fn tell(
    select: &mut Select,
    sight: &Sight<'_>,
    rows: &mut [Row],
    named: &HashSet<String>,
) {
    let is_column = |name: &String| rows.iter().any(|row| row.columns.contains(name));
    let is_untold = |row: &&Row| {
        row.may_be_missing
            && row.witness.is_none()
            && named.contains(&row.name)
            && !is_column(&row.name)
    };
    let untold: HashSet<String> = rows.iter().filter(is_untold).map(|r| r.name.clone()).collect();
    if untold.is_empty() || select.from.iter().any(merges) {
        return;
    }
    // Nobody else is to see the column.
    sight.expand(select, true);
    let is_wildcard = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    if select.projection.iter().any(is_wildcard) {
        return;
    }
    let mut told = HashSet::new();
    select.from.iter_mut().for_each(|from| tell_in(from, &untold, &mut told));
    for row in rows.iter_mut().filter(|row| told.contains(&row.name)) {
        row.witness = Some(column_of(&row.name));
    }
}

fn column_of(table: &str) -> String {
    format!("froglet row of {table}")
}

fn tell_in(from: &mut TableWithJoins, untold: &HashSet<String>, told: &mut HashSet<String>) {
    let joined = from.joins.iter_mut().map(|join| &mut join.relation);
    for factor in std::iter::once(&mut from.relation).chain(joined) {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            tell_in(table_with_joins, untold, told);
        } else if let Some(name) = name_of(factor).filter(|name| untold.contains(name))
            && add_to(factor, &name).is_some()
        {
            told.insert(name);
        }
    }
}

/// A table with the column behind its own; none if it cannot have one.
fn add_to(factor: &mut TableFactor, name: &str) -> Option<()> {
    let column = Ident::with_quote('"', column_of(name));
    if let TableFactor::Derived { subquery, alias, .. } = factor
        && let SetExpr::Select(select) = &mut *subquery.body
    {
        let expr = Expr::value(ast::Value::Boolean(true));
        select.projection.push(SelectItem::ExprWithAlias { expr, alias: column.clone() });
        if let Some(alias) = alias.as_mut().filter(|alias| !alias.columns.is_empty()) {
            alias.columns.push(ast::TableAliasColumnDef { name: column, data_type: None });
        }
        return Some(());
    }
    let lateral = match factor {
        TableFactor::Derived { lateral, .. } => *lateral,
        TableFactor::Table { args: None, .. } => false,
        _ => return None,
    };
    let own = Ident::with_quote('"', name);
    let mut subquery = Box::new(parse_query(&format!("SELECT *, true AS {column} FROM f")).ok()?);
    let SetExpr::Select(select) = &mut *subquery.body else { return None };
    let alias = ast::TableAlias { explicit: true, name: own, columns: Vec::new(), at: None };
    let whole = TableFactor::Derived {
        lateral,
        subquery: Box::new(parse_query("SELECT 1").ok()?),
        alias: Some(alias),
        sample: None,
    };
    select.from[0].relation = std::mem::replace(factor, whole);
    if let TableFactor::Derived { subquery: place, .. } = factor {
        *place = subquery;
    }
    Some(())
}
