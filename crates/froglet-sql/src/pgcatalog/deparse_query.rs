//! The queries of views as PostgreSQL prints them: each column with its relation, each clause on a line.
//!
//! ```text
//!   create view v as select a, upper(b) as u from t where a > 1
//!
//!    SELECT t.a,
//!       upper(t.b) AS u
//!      FROM t
//!     WHERE (t.a > 1);
//! ```
//!
//! What is not known here is not printed at all: the caller has the query's own text.

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, JoinConstraint, JoinOperator, LimitClause, ObjectName,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    TableWithJoins, Value,
};
use froglet_schema::CatalogVersion;
use froglet_schema::plain::ViewDef;

use crate::catalogs::print::{Columns, Printer, Source};
use crate::context::SessionFunctions;
use crate::rewrite::folded;
use crate::udf::lookup::{find_relation, quote_ident, relation_text};

/// A view's query, under the names of today. `None` if it has something that is not known here.
pub(crate) fn query_text(
    session: &dyn SessionFunctions,
    catalog: &CatalogVersion,
    view: &ViewDef,
    query: &Query,
    pretty: bool,
) -> Option<String> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_plain = query.with.is_none() && query.fetch.is_none() && query.locks.is_empty();
    let mut from = FromClause { session, catalog, pretty, sources: Vec::new(), merged: Vec::new() };
    let items = select.from.iter().map(|item| from.item(item)).collect::<Option<Vec<_>>>()?;
    if !is_plain || !is_known(select) {
        return None;
    }
    let FromClause { sources, merged, .. } = from;
    let printer = Printer::new(Columns::From(&sources), pretty, Some(session)).in_clause();
    let printing = Printing { printer, sources: &sources, merged };
    let columns = printing.columns(select)?;
    if columns.len() != view.columns.len() {
        return None;
    }
    let list: Vec<String> = columns
        .iter()
        .zip(&view.columns)
        .map(|(column, named)| match &column.name {
            Some(name) if *name == named.name => column.text.clone(),
            _ => format!("{} AS {}", column.text, quote_ident(&named.name)),
        })
        .collect();
    let distinct = if select.distinct.is_some() { "DISTINCT " } else { "" };
    let mut text = format!(" SELECT {distinct}");
    for (at, column) in list.iter().enumerate() {
        let separator = match column.starts_with('\n') {
            _ if at == 0 => "",
            true => ",",
            false => ",\n    ",
        };
        text.push_str(separator);
        append(&mut text, column);
    }
    if !items.is_empty() {
        text.push_str(&format!("\n   FROM {}", items.join(",\n    ")));
    }
    if let Some(condition) = &select.selection {
        text.push_str("\n  WHERE ");
        append(&mut text, &printing.printer.text(condition));
    }
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return None };
    if !groups.is_empty() {
        let groups = groups.iter().map(|group| printing.place(group, &columns));
        let groups = groups.collect::<Option<Vec<_>>>()?;
        text.push_str(&format!("\n  GROUP BY {}", groups.join(", ")));
    }
    if let Some(condition) = &select.having {
        text.push_str("\n HAVING ");
        append(&mut text, &printing.printer.text(condition));
    }
    if let Some(order) = &query.order_by {
        let OrderByKind::Expressions(orders) = &order.kind else { return None };
        let mut parts = Vec::new();
        for order in orders {
            let descends = order.options.asc == Some(false);
            let nulls = match order.options.nulls_first {
                Some(first) if first != descends => {
                    if first {
                        " NULLS FIRST"
                    } else {
                        " NULLS LAST"
                    }
                }
                _ => "",
            };
            let direction = if descends { " DESC" } else { "" };
            parts.push(format!("{}{direction}{nulls}", printing.place(&order.expr, &columns)?));
        }
        text.push_str(&format!("\n  ORDER BY {}", parts.join(", ")));
    }
    match &query.limit_clause {
        None => {}
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            if let Some(offset) = offset {
                text.push_str(&format!("\n OFFSET {}", number(&offset.value)?));
            }
            if let Some(limit) = limit {
                text.push_str(&format!("\n LIMIT {}", number(limit)?));
            }
        }
        Some(_) => return None,
    }
    (!printing.printer.guessed.get()).then(|| format!("{text};"))
}

/// What begins a line of its own leaves no blank behind.
fn append(text: &mut String, part: &str) {
    if part.starts_with('\n') {
        text.truncate(text.trim_end_matches(' ').len());
    }
    text.push_str(part);
}

fn is_known(select: &Select) -> bool {
    matches!(select.distinct, None | Some(Distinct::Distinct))
        && select.qualify.is_none()
        && select.into.is_none()
        && select.named_window.is_empty()
        && select.lateral_views.is_empty()
        && matches!(&select.group_by, GroupByExpr::Expressions(_, with) if with.is_empty())
}

fn number(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits),
            _ => None,
        },
        _ => None,
    }
}

/// A column of the result; its name, if it is a column of FROM.
struct Column {
    text: String,
    name: Option<String>,
    alias: Option<String>,
}

struct Printing<'a> {
    printer: Printer<'a>,
    sources: &'a [Source],
    /// Columns that a join has made one.
    merged: Vec<String>,
}

impl Printing<'_> {
    fn columns(&self, select: &Select) -> Option<Vec<Column>> {
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => columns.push(self.column(expr, None)),
                SelectItem::ExprWithAlias { expr, alias } => {
                    columns.push(self.column(expr, Some(folded(alias))));
                }
                SelectItem::Wildcard(_) if self.merged.is_empty() => {
                    self.sources.iter().for_each(|source| Self::all_of(source, &mut columns));
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let name = folded(name.0.last()?.as_ident()?);
                    let source = self.sources.iter().find(|source| source.name == name)?;
                    Self::all_of(source, &mut columns);
                }
                _ => return None,
            }
        }
        Some(columns)
    }

    fn all_of(source: &Source, columns: &mut Vec<Column>) {
        for (name, _) in &source.columns {
            let text = format!("{}.{}", quote_ident(&source.name), quote_ident(name));
            columns.push(Column { text, name: Some(name.clone()), alias: None });
        }
    }

    fn column(&self, expr: &Expr, alias: Option<String>) -> Column {
        let name = match expr {
            Expr::Identifier(ident) => Some(folded(ident)),
            Expr::CompoundIdentifier(parts) => parts.last().map(folded),
            _ => None,
        };
        Column { text: self.printer.output(expr), name, alias }
    }

    /// What stands in GROUP BY and ORDER BY: a column's number, its alias, or an expression.
    fn place(&self, expr: &Expr, columns: &[Column]) -> Option<String> {
        let named = |name: String| columns.iter().find(|c| c.alias.as_ref() == Some(&name));
        let column = match expr {
            Expr::Identifier(ident) => named(folded(ident)),
            other => match number(other) {
                Some(at) => Some(columns.get(at.parse::<usize>().ok()?.checked_sub(1)?)?),
                None => None,
            },
        };
        let (text, is_column) = match column {
            Some(column) => (column.text.clone(), column.name.is_some()),
            None => {
                let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                (self.printer.text(expr), is_column)
            }
        };
        let is_grouped = text.starts_with('(') && text.ends_with(')');
        Some(if is_column || is_grouped { text } else { format!("({text})") })
    }
}

/// What is in FROM.
struct FromClause<'a> {
    session: &'a dyn SessionFunctions,
    catalog: &'a CatalogVersion,
    pretty: bool,
    sources: Vec<Source>,
    merged: Vec<String>,
}

impl FromClause<'_> {
    fn item(&mut self, item: &TableWithJoins) -> Option<String> {
        use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
        let mut text = self.factor(&item.relation)?;
        for join in &item.joins {
            let right = self.factor(&join.relation)?;
            let (word, constraint) = match &join.join_operator {
                Join(on) | Inner(on) => ("JOIN", on),
                Left(on) | LeftOuter(on) => ("LEFT JOIN", on),
                Right(on) | RightOuter(on) => ("RIGHT JOIN", on),
                FullOuter(on) => ("FULL JOIN", on),
                _ => return None,
            };
            let on = match constraint {
                JoinConstraint::On(condition) => {
                    let columns = Columns::From(&self.sources);
                    let printer =
                        Printer::new(columns, self.pretty, Some(self.session)).in_clause();
                    let condition = printer.text(condition);
                    if printer.guessed.get() {
                        return None;
                    }
                    if self.pretty {
                        format!("ON {condition}")
                    } else {
                        format!("ON ({condition})")
                    }
                }
                // Columns that are one are whose they were first.
                JoinConstraint::Using(names) => {
                    let name = |name: &ObjectName| Some(folded(name.0.last()?.as_ident()?));
                    let names = names.iter().map(name).collect::<Option<Vec<_>>>()?;
                    if word != "JOIN" && word != "LEFT JOIN" {
                        return None;
                    }
                    let list: Vec<String> = names.iter().map(|name| quote_ident(name)).collect();
                    self.merged.extend(names);
                    format!("USING ({})", list.join(", "))
                }
                _ => return None,
            };
            text = match self.pretty {
                true => format!("{text}\n     {word} {right} {on}"),
                false => format!("({text}\n     {word} {right} {on})"),
            };
        }
        Some(text)
    }

    fn factor(&mut self, factor: &TableFactor) -> Option<String> {
        let TableFactor::Table { name, alias, args: None, sample: None, .. } = factor else {
            return None;
        };
        let oid = find_relation(self.session, &name.to_string()).ok().flatten()?;
        let columns = match (self.catalog.tables.get(&oid), self.catalog.view(oid)) {
            (Some(table), _) => {
                table.def.columns.iter().map(|c| (c.name.clone(), c.sql_type.oid)).collect()
            }
            (None, Some(view)) => {
                view.columns.iter().map(|c| (c.name.clone(), c.sql_type.oid)).collect()
            }
            _ => return None,
        };
        let bare = folded(name.0.last()?.as_ident()?);
        let shown = relation_text(self.session, oid);
        let (called, text) = match alias {
            Some(alias) if !alias.columns.is_empty() => return None,
            Some(alias) if folded(&alias.name) != bare => {
                let called = folded(&alias.name);
                let text = format!("{shown} {}", quote_ident(&called));
                (called, text)
            }
            _ => (bare, shown),
        };
        self.sources.push(Source { name: called, columns });
        Some(text)
    }
}
