//! What a view is of, for who writes through it: one table, some of its columns, and a condition.
//!
//! ```text
//!   CREATE VIEW w AS SELECT id AS i, v * 2 AS twice FROM t WHERE v > 5
//!
//!   table t,  columns  i = w.id (can be written),  twice = w.v * 2,  condition w.v > 5
//! ```
//!
//! Expressions are over the table under the name that the view has in the statement. What PostgreSQL lets nobody
//! write through without a rule or trigger is refused in its words.

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, Visit,
};
use froglet_schema::plain::{CheckOption, ViewDef};
use froglet_schema::{CatalogVersion, TableDef};

use crate::command::fold;
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::resolve::{Names, Relation};
use crate::rewrite_subquery::is_grouped;
use crate::semantics::fieldnames::figure_name;
use crate::view;
use crate::walk::{self, Flow, GO_ON};

/// A column of a view, over the table beneath.
#[derive(Clone)]
pub(crate) struct BaseColumn {
    pub(crate) name: String,
    pub(crate) expr: Expr,
}

impl BaseColumn {
    /// The column of the table that it is, if it is one.
    pub(crate) fn written(&self) -> Option<&Ident> {
        match &self.expr {
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        }
    }
}

/// The condition of one of the views.
pub(crate) struct Level {
    pub(crate) view: String,
    pub(crate) condition: Expr,
    /// WITH CHECK OPTION, its own or that of a view over it.
    pub(crate) checked: bool,
}

/// See the module.
pub(crate) struct Base<'a> {
    pub(crate) table: &'a TableDef,
    pub(crate) columns: Vec<BaseColumn>,
    /// From the table up.
    pub(crate) levels: Vec<Level>,
}

/// Why a view cannot be written through, as PostgreSQL words it.
pub(crate) type Reason = &'static str;

const NOT_ONE: Reason =
    "Views that do not select from a single table or view are not automatically updatable.";

/// Where views are looked at.
pub(crate) struct Views<'a> {
    pub(crate) names: Names<'a>,
    pub(crate) session: &'a dyn SessionFunctions,
    /// What the table is called in the statement.
    pub(crate) alias: &'a str,
}

impl<'a> Views<'a> {
    pub(crate) fn base(&self, def: &ViewDef) -> Result<Result<Base<'a>, Reason>, SqlError> {
        let catalog: &CatalogVersion = self.names.catalog;
        let query = view::current_query(self.session, catalog, def)?;
        let mut base = match self.of_query(&query, &def.name)? {
            Ok(base) => base,
            Err(reason) => return Ok(Err(reason)),
        };
        for (column, named) in base.columns.iter_mut().zip(&def.columns) {
            column.name.clone_from(&named.name);
        }
        match def.check_option {
            None => {}
            Some(CheckOption::Cascaded) => base.levels.iter_mut().for_each(|l| l.checked = true),
            Some(CheckOption::Local) => {
                let own = base.levels.iter_mut().filter(|level| level.view == def.name);
                own.for_each(|level| level.checked = true);
            }
        }
        if !base.columns.iter().any(|column| column.written().is_some()) {
            return Ok(Err(
                "Views that have no updatable columns are not automatically updatable.",
            ));
        }
        Ok(Ok(base))
    }

    fn of_query(&self, query: &Query, view: &str) -> Result<Result<Base<'a>, Reason>, SqlError> {
        let select = match unfit(query) {
            Ok(select) => select,
            Err(reason) => return Ok(Err(reason)),
        };
        let [TableWithJoins { relation, joins }] = select.from.as_slice() else {
            return Ok(Err(NOT_ONE));
        };
        if !joins.is_empty() {
            return Ok(Err(NOT_ONE));
        }
        let (name, mut base) = match relation {
            TableFactor::Table { name, alias, args: None, sample: None, .. } => {
                let base = match self.names.relation(name)? {
                    Some(Relation::Table(table)) => self.of_table(&table.def),
                    Some(Relation::View(under)) => match self.base(under)? {
                        Ok(base) => base,
                        Err(reason) => return Ok(Err(reason)),
                    },
                    _ => return Ok(Err(NOT_ONE)),
                };
                if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
                    return Ok(Err(NOT_ONE));
                }
                let bare = Names::parts(name)?.1;
                (alias.as_ref().map_or(bare, |alias| fold(&alias.name)), base)
            }
            TableFactor::Table { sample: Some(_), .. } => {
                return Ok(Err("Views containing TABLESAMPLE are not automatically updatable."));
            }
            // A table with names that it had once.
            TableFactor::Derived { lateral: false, subquery, alias: Some(alias), .. }
                if alias.columns.is_empty() =>
            {
                match self.of_query(subquery, "")? {
                    Ok(base) => (fold(&alias.name), base),
                    Err(reason) => return Ok(Err(reason)),
                }
            }
            _ => return Ok(Err(NOT_ONE)),
        };
        let over = Over { qualifiers: &[&name], columns: &base.columns };
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::Wildcard(_) => columns.extend(base.columns.iter().cloned()),
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(_),
                    _,
                ) => columns.extend(base.columns.iter().cloned()),
                SelectItem::UnnamedExpr(expr) => {
                    columns.push(BaseColumn { name: figure_name(expr), expr: over.put_into(expr) })
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    columns.push(BaseColumn { name: fold(alias), expr: over.put_into(expr) });
                }
                _ => return Ok(Err(NOT_ONE)),
            }
        }
        if let Some(condition) = &select.selection {
            let condition = over.put_into(condition);
            let view = view.to_owned();
            base.levels.push(Level { view, condition, checked: false });
        }
        base.columns = columns;
        Ok(Ok(base))
    }

    fn of_table(&self, table: &'a TableDef) -> Base<'a> {
        let quote = |name: &str| Ident::with_quote('"', name);
        let column = |name: &str| BaseColumn {
            name: name.to_owned(),
            expr: Expr::CompoundIdentifier(vec![quote(self.alias), quote(name)]),
        };
        let columns = table.columns.iter().map(|c| column(&c.name)).collect();
        Base { table, columns, levels: Vec::new() }
    }
}

/// The select of a query that is nothing else.
fn unfit(query: &Query) -> Result<&Select, Reason> {
    let select = match &*query.body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => {
            return Err(
                "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.",
            );
        }
        _ => return Err(NOT_ONE),
    };
    if select.distinct.is_some() {
        return Err("Views containing DISTINCT are not automatically updatable.");
    }
    if !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty()) {
        return Err("Views containing GROUP BY are not automatically updatable.");
    }
    if select.having.is_some() {
        return Err("Views containing HAVING are not automatically updatable.");
    }
    if query.with.is_some() {
        return Err("Views containing WITH are not automatically updatable.");
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return Err("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    if is_grouped(select) {
        return Err(match calls(&select.projection, |_, is_over| is_over) {
            true => "Views that return window functions are not automatically updatable.",
            false => "Views that return aggregate functions are not automatically updatable.",
        });
    }
    let is_set = |name: &str, _| {
        let sets = ["generate_series", "unnest", "generate_subscripts", "regexp_split_to_table"];
        sets.contains(&name) || name.starts_with("json") && name.contains("_each")
    };
    if calls(&select.projection, is_set) {
        return Err("Views that return set-returning functions are not automatically updatable.");
    }
    Ok(select)
}

/// Whether there is a call of a function, by name and whether it is OVER something.
fn calls(node: &impl Visit, wanted: impl Fn(&str, bool) -> bool) -> bool {
    walk::any_expr(node, |expr| match expr {
        Expr::Function(f) => {
            let name = f.name.0.last().and_then(|part| part.as_ident()).map(fold);
            wanted(&name.unwrap_or_default(), f.over.is_some())
        }
        _ => false,
    })
}

/// Columns that expressions are over, and the names before them.
pub(crate) struct Over<'a> {
    pub(crate) qualifiers: &'a [&'a str],
    pub(crate) columns: &'a [BaseColumn],
}

impl Over<'_> {
    /// The expression over what the columns are of. Within its queries only qualified names are known for theirs.
    pub(crate) fn put_into(&self, expr: &Expr) -> Expr {
        let mut new = expr.clone();
        walk::change(&mut new, &mut Putting { over: self, depth: 0 });
        new
    }

    fn column(&self, name: &Ident) -> Option<Expr> {
        let name = fold(name);
        let column = self.columns.iter().find(|column| column.name == name)?;
        Some(match column.written() {
            Some(_) => column.expr.clone(),
            None => Expr::Nested(Box::new(column.expr.clone())),
        })
    }
}

struct Putting<'a> {
    over: &'a Over<'a>,
    depth: usize,
}

impl walk::Change for Putting<'_> {
    // What is put in is not walked over: its names are others.
    fn expr_end(&mut self, expr: &mut Expr) -> Flow {
        let found = match expr {
            Expr::Identifier(name) if self.depth == 0 => self.over.column(name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] if self.over.qualifiers.contains(&fold(qualifier).as_str()) => {
                    self.over.column(name)
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(found) = found {
            *expr = found;
        }
        GO_ON
    }

    fn query(&mut self, _query: &mut Query) {
        self.depth += 1;
    }

    fn query_end(&mut self, _query: &mut Query) {
        self.depth -= 1;
    }
}

/// A table by its full name.
pub(crate) fn name_of(table: &TableDef) -> ObjectName {
    let quote = |name: &str| Ident::with_quote('"', name);
    ObjectName::from(vec![quote(&table.schema), quote(&table.name)])
}
