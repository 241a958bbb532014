//! What needs the columns of tables in FROM before the query is planned.
//!
//! | written | becomes |
//! |---|---|
//! | `FROM t AS q (p)` | `FROM t AS q (p, b)`: the other columns keep their names |
//! | `SELECT t FROM t`, `row_to_json(t)` | [`crate::rewrite_whole`] |
//! | `row_to_json((SELECT t FROM …))` | `(SELECT row_to_json(t) FROM …)` |
//! | `FROM l JOIN r USING (a) WHERE a > 1` | `WHERE l.a > 1` |
//! | `SELECT * FROM l JOIN r USING (a)` | `SELECT l.a, l.b, r.c FROM …` |
//! | `SELECT a, * FROM t`, `SELECT t.*, a FROM t` | `SELECT a, t.a, t.b FROM t`: of which those that are called alike get other names |
//!
//! DataFusion finds `a` ambiguous in WHERE, and everywhere if two joins merge it; that `l.a` is what is merged is
//! seen to by [`crate::semantics::merged_columns`]. Of a `*` it takes the column of the table whose name is first in
//! the alphabet.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, Ident, Query, Select, SelectItem, SetExpr,
    TableFactor, TableWithJoins,
};
use froglet_schema::CatalogVersion;

use crate::command::fold;
use crate::context::{SessionFunctions, session_here};
use crate::error::SqlError;
use crate::pgcatalog;
use crate::provider::ROW_ID;
use crate::resolve::{Names, Relation};
use crate::rewrite::{self, each_select};
use crate::rewrite_whole::{Rows, is_of_row, table_of};
use crate::semantics::fieldnames::figure_name;
use crate::walk::{self, Flow, GO_ON};
use crate::{rewrite_json, rewrite_missing, rewrite_scalar};

/// The names of parts of WITH, and of their columns where these are plain to see.
pub(crate) type Parts = Vec<(String, Option<Vec<String>>)>;

/// Names of columns that may be meant; `None`: nobody knows which there are.
pub(crate) type Columns = Option<Vec<String>>;

/// The parts of a query's WITH, for what is within it.
pub(crate) fn parts_of(query: &Query, around: &Parts) -> Parts {
    let mut parts = around.clone();
    for part in query.with.iter().flat_map(|with| &with.cte_tables) {
        let columns = Sight::new(&parts).and_then(|sight| sight.of_query(&part.query));
        let columns = columns.map(|columns| named(columns, Some(&part.alias)));
        parts.push((fold(&part.alias.name), columns));
    }
    parts
}

/// Writes out what a `*` stands for that DataFusion would take for other columns, or for the same ones twice.
pub(crate) fn expand_wildcards(query: &mut Query, parts: &Parts) {
    each_select(&mut query.body, &mut |select| {
        let repeats = repeats(&select.projection);
        let is_all = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_));
        let is_merged = select.projection.iter().any(is_all) && select.from.iter().any(merges);
        if (repeats || is_merged)
            && let Some(sight) = Sight::new(parts)
        {
            sight.expand(select, repeats);
        }
    });
}

/// Whether a column may be in a select list by itself and in a `*`, or in two.
fn repeats(items: &[SelectItem]) -> bool {
    let mut wildcards = Vec::new();
    let mut columns = false;
    for item in items {
        match item {
            SelectItem::Wildcard(_) => wildcards.push("*".to_owned()),
            SelectItem::QualifiedWildcard(kind, _) => wildcards.push(kind.to_string()),
            // A query for rows to write (`modify_query.rs`) tells tables' columns apart by their tables.
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names))
                if names.last().is_some_and(|name| name.value == ROW_ID) =>
            {
                return false;
            }
            SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            | SelectItem::ExprWithAlias { .. } => columns = true,
            _ => {}
        }
    }
    let count = wildcards.len();
    let all = wildcards.iter().any(|kind| kind == "*");
    wildcards.sort_unstable();
    wildcards.dedup();
    columns && count > 0 || all && count > 1 || wildcards.len() < count
}

/// Rewrites the selects of a query that are not within others; see the module.
/// `around`: the columns of the queries that it is in. The columns of its own.
pub(crate) fn rewrite(
    query: &mut Query,
    parts: &Parts,
    around: &[&Columns],
) -> Result<Columns, SqlError> {
    let mut wanted = Wanted::default();
    walk::look(&*query, &mut wanted);
    let mut columns = Some(Vec::new());
    if !wanted.is_any() {
        // So there is nothing to do in queries within.
        return Ok(columns);
    }
    let Some(sight) = Sight::new(parts) else { return Ok(None) };
    let is_select = matches!(*query.body, SetExpr::Select(_));
    let Query { body, order_by, locks, .. } = query;
    let mut outcome = Ok(());
    each_select(body, &mut |select| {
        select.from.iter_mut().for_each(|from| sight.extend(from));
        let mut relations = Vec::new();
        let mut is_known = true;
        for from in &select.from {
            is_known &= sight.relations(from, &mut relations);
        }
        if is_known && locks.is_empty() {
            rewrite_missing::tell(select, &sight, &mut relations, &wanted.names);
        }
        let order_by = order_by.as_mut().filter(|_| is_select);
        match &mut columns {
            Some(columns) if is_known => {
                columns.extend(relations.iter().flat_map(|row| row.columns.iter().cloned()));
            }
            _ => columns = None,
        }
        let rows = Rows::new(&relations, is_known, around);
        if let Err(e) = rows.rewrite(select, order_by) {
            outcome = Err(e);
        }
        if select.from.iter().any(merges) {
            sight.qualify_merged(select);
        }
    });
    outcome.map(|()| columns)
}

/// Functions in FROM that have a column without a name of its own.
const OF_ONE_COLUMN: [&str; 5] = [
    "generate_series",
    "generate_subscripts",
    "unnest",
    "regexp_split_to_table",
    "string_to_table",
];

/// Whether a function in FROM that is none of json has one column.
pub(crate) fn is_of_one_column(function: &str) -> bool {
    OF_ONE_COLUMN.contains(&function) || rewrite_scalar::is_scalar(function)
}

/// Whether there is anything to do at all.
#[derive(Default)]
struct Wanted {
    any: bool,
    tables: HashSet<String>,
    names: HashSet<String>,
}

impl Wanted {
    fn is_any(&self) -> bool {
        self.any || self.tables.intersection(&self.names).next().is_some()
    }
}

impl walk::Look for Wanted {
    fn expr(&mut self, expr: &Expr) -> Flow {
        match expr {
            Expr::Identifier(ident) => _ = self.names.insert(fold(ident)),
            Expr::Function(function) => {
                self.any |= is_of_row(function);
                self.names.extend(table_of(function));
            }
            Expr::Tuple(_) | Expr::QualifiedWildcard(..) => self.any = true,
            _ => {}
        }
        GO_ON
    }

    fn select(&mut self, select: &Select) -> Flow {
        fn factors<'f>(from: &'f TableWithJoins, all: &mut Vec<&'f TableFactor>) {
            let joined = from.joins.iter().map(|join| &join.relation);
            for factor in std::iter::once(&from.relation).chain(joined) {
                match factor {
                    TableFactor::NestedJoin { table_with_joins, .. } => {
                        factors(table_with_joins, all);
                    }
                    factor => all.push(factor),
                }
            }
        }
        let mut all = Vec::new();
        select.from.iter().for_each(|from| factors(from, &mut all));
        self.any |= select.from.iter().any(merges);
        for factor in all {
            self.tables.extend(name_of(factor));
            self.any |= match factor {
                TableFactor::Table { alias: Some(alias), args: None, .. }
                | TableFactor::Derived { alias: Some(alias), .. } => !alias.columns.is_empty(),
                _ => false,
            };
        }
        GO_ON
    }
}

/// Takes a function of a row into the subquery that the row is of.
pub(crate) fn into_subquery(expr: &mut Expr) {
    let Expr::Function(function) = &mut *expr else { return };
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(fold);
    let ast::FunctionArguments::List(list) = &mut function.args else { return };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_mut_slice() else {
        return;
    };
    if !matches!(name.as_deref(), Some("row_to_json" | "to_json" | "to_jsonb")) {
        return;
    }
    let mut inner = &*argument;
    while let Expr::Nested(nested) = inner {
        inner = nested;
    }
    let Expr::Subquery(query) = inner else { return };
    let mut query = query.clone();
    let SetExpr::Select(select) = &mut *query.body else { return };
    let [SelectItem::UnnamedExpr(row @ Expr::Identifier(_))] = select.projection.as_mut_slice()
    else {
        return;
    };
    let Expr::Identifier(ident) = &*row else { return };
    let joined =
        |from: &TableWithJoins| from.joins.iter().any(|join| is_named(&join.relation, ident));
    if !select.from.iter().any(|from| is_named(&from.relation, ident) || joined(from)) {
        return;
    }
    *argument = row.clone();
    *row = Expr::Function(function.clone());
    *expr = Expr::Subquery(query);
}

fn is_named(factor: &TableFactor, ident: &Ident) -> bool {
    name_of(factor).is_some_and(|name| name == fold(ident))
}

/// A table in FROM.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) columns: Vec<String>,
    /// What its members are called: those of a table of the catalog have no other names than its columns.
    pub(crate) members: Vec<String>,
    /// Of the side of an outer join that may be missing.
    pub(crate) may_be_missing: bool,
    /// A column that is NULL only where the row is missing.
    pub(crate) witness: Option<String>,
}

impl Row {
    fn of_table(&self) -> Vec<OfTable> {
        let of = |name: &String| OfTable { relation: self.name.clone(), name: name.clone() };
        self.columns.iter().map(of).collect()
    }
}

/// What can be seen of tables' columns.
pub(crate) struct Sight<'a> {
    session: std::sync::Arc<dyn SessionFunctions>,
    catalog: std::sync::Arc<CatalogVersion>,
    parts: &'a Parts,
}

impl Sight<'_> {
    pub(crate) fn new(parts: &Parts) -> Option<Sight<'_>> {
        let session = session_here()?;
        let catalog = session.catalog();
        Some(Sight { session, catalog, parts })
    }

    /// The names of a query's columns, if they are plain to see.
    fn of_query(&self, query: &Query) -> Option<Vec<String>> {
        let parts = parts_of(query, self.parts);
        Sight { parts: &parts, session: self.session.clone(), catalog: self.catalog.clone() }
            .of_body(&query.body)
    }

    fn of_body(&self, body: &SetExpr) -> Option<Vec<String>> {
        match body {
            SetExpr::Select(select) => self.of_select(select),
            SetExpr::SetOperation { left, .. } => self.of_body(left),
            SetExpr::Query(query) => self.of_query(query),
            SetExpr::Values(values) => {
                let width = values.rows.first().map_or(0, |row| row.content.len());
                Some((1..=width).map(|at| format!("column{at}")).collect())
            }
            _ => None,
        }
    }

    fn of_select(&self, select: &Select) -> Option<Vec<String>> {
        let mut columns = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => columns.push(figure_name(expr)),
                SelectItem::ExprWithAlias { alias, .. } => columns.push(fold(alias)),
                SelectItem::Wildcard(options) if options.to_string().is_empty() => {
                    // Joins by names merge columns.
                    if select.from.iter().any(merges) {
                        return None;
                    }
                    let mut rows = Vec::new();
                    let mut is_known = true;
                    for from in &select.from {
                        is_known &= self.relations(from, &mut rows);
                    }
                    if !is_known {
                        return None;
                    }
                    columns.extend(rows.into_iter().flat_map(|row| row.columns));
                }
                SelectItem::QualifiedWildcard(
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let name = name.0.last()?.as_ident().map(fold)?;
                    let mut rows = Vec::new();
                    for from in &select.from {
                        self.relations(from, &mut rows);
                    }
                    columns.extend(rows.into_iter().find(|row| row.name == name)?.columns);
                }
                _ => return None,
            }
        }
        let wildcards = select.projection.iter().any(|item| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        });
        told_apart(columns, wildcards)
    }

    /// Adds the tables of an item of FROM whose columns are plain to see; whether all are.
    pub(crate) fn relations(&self, from: &TableWithJoins, rows: &mut Vec<Row>) -> bool {
        use ast::JoinOperator as Op;
        let first = rows.len();
        let mut is_known = self.relation(&from.relation, rows);
        for join in &from.joins {
            let at = rows.len();
            is_known &= self.relation(&join.relation, rows);
            let op = &join.join_operator;
            let (left, right) = match op {
                Op::Left(_) | Op::LeftOuter(_) => (false, true),
                Op::Right(_) | Op::RightOuter(_) => (true, false),
                Op::FullOuter(_) => (true, true),
                _ => (false, false),
            };
            let before = rows[first..at].iter_mut();
            before.for_each(|row| row.may_be_missing |= left);
            rows[at..].iter_mut().for_each(|row| row.may_be_missing |= right);
        }
        is_known
    }

    fn relation(&self, factor: &TableFactor, rows: &mut Vec<Row>) -> bool {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return self.relations(table_with_joins, rows);
        }
        let alias = match factor {
            TableFactor::Table { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::Derived { alias, .. } => alias,
            _ => return false,
        };
        let Some(own) = self.of_factor(factor) else { return false };
        let columns = named(own.clone(), alias.as_ref());
        let members = if self.is_of_catalog(factor) { own } else { columns.clone() };
        let name = name_of(factor).unwrap_or_default();
        let witness = self.never_null(factor).map(|at| columns[at].clone());
        rows.push(Row { name, columns, members, may_be_missing: false, witness });
        true
    }

    /// The first column of a table in which no row has NULL.
    fn never_null(&self, factor: &TableFactor) -> Option<usize> {
        let TableFactor::Table { name, args: None, .. } = factor else { return None };
        if !self.is_of_catalog(factor) {
            return None;
        }
        let path = self.session.search_path();
        let names = Names { catalog: &self.catalog, path: &path };
        match names.relation(name).ok()?? {
            Relation::Table(table) => {
                (0..table.def.columns.len()).find(|at| !table.may_be_null(*at))
            }
            _ => None,
        }
    }

    /// Says of which table the merged columns of a select are, where DataFusion would not know.
    fn qualify_merged(&self, select: &mut Select) {
        let mut merged: Vec<Merged> = Vec::new();
        let mut before: Vec<OfTable> = Vec::new();
        for from in &select.from {
            let mut own = Vec::new();
            let columns = self.merged(from, &mut own).unwrap_or_default();
            // Two items of FROM that have a column are two tables: there it is ambiguous.
            let has = |columns: &[OfTable], name: &str| columns.iter().any(|c| c.name == name);
            merged.retain(|column| !has(&columns, &column.of.name));
            merged.extend(own.into_iter().filter(|column| !has(&before, &column.of.name)));
            before.extend(columns);
        }
        let Select { projection, selection, group_by, having, .. } = select;
        if let Some(condition) = selection {
            walk::change(condition, &mut Qualify { merged: &merged, depth: 0 });
        }
        merged.retain(|column| column.joins > 1);
        let mut change = Qualify { merged: &merged, depth: 0 };
        projection.iter_mut().for_each(|item| _ = walk::change(item, &mut change));
        walk::change(group_by, &mut change);
        if let Some(condition) = having {
            walk::change(condition, &mut change);
        }
    }

    /// Writes out what each `*` stands for, as far as that is plain to see.
    pub(crate) fn expand(&self, select: &mut Select, qualified: bool) {
        let mut rows = Vec::new();
        select.from.iter().for_each(|from| _ = self.relations(from, &mut rows));
        let columns = select.from.iter().map(|from| self.merged(from, &mut Vec::new()));
        let all = columns.collect::<Option<Vec<_>>>().map(|columns| columns.concat());
        let expand = |item| match &item {
            SelectItem::Wildcard(options) if options.to_string().is_empty() => match &all {
                Some(all) => items(all),
                None => vec![item],
            },
            SelectItem::QualifiedWildcard(
                ast::SelectItemQualifiedWildcardKind::ObjectName(name),
                options,
            ) if qualified && options.to_string().is_empty() => {
                let name = name.0.last().and_then(|part| part.as_ident()).map(fold);
                match rows.iter().find(|row| Some(&row.name) == name.as_ref()) {
                    Some(row) => items(&row.of_table()),
                    None => vec![item],
                }
            }
            _ => vec![item],
        };
        select.projection =
            std::mem::take(&mut select.projection).into_iter().flat_map(expand).collect();
    }

    /// The columns of an item of FROM as `*` has them, if all are plain to see; with those that are merged, as far
    /// as it is plain to see where they are.
    fn merged(&self, from: &TableWithJoins, merged: &mut Vec<Merged>) -> Option<Vec<OfTable>> {
        let mut left = self.columns_of(&from.relation, merged);
        let first = name_of(&from.relation);
        for (at, join) in from.joins.iter().enumerate() {
            let right = self.columns_of(&join.relation, merged);
            let names = match (constraint(join), &left, &right) {
                (Some(ast::JoinConstraint::Using(names)), ..) => names
                    .iter()
                    .filter_map(|name| name.0.last()?.as_ident().map(fold))
                    .collect::<Vec<String>>(),
                (Some(ast::JoinConstraint::Natural), Some(left), Some(right)) => {
                    let there = |name: &String| right.iter().any(|column| column.name == *name);
                    left.iter().map(|column| column.name.clone()).filter(there).collect()
                }
                (Some(ast::JoinConstraint::Natural), ..) => return None,
                _ => Vec::new(),
            };
            let mut columns = Vec::new();
            for name in &names {
                let of = match &left {
                    Some(left) => left.iter().find(|column| column.name == *name).cloned(),
                    None => first
                        .clone()
                        .filter(|_| at == 0)
                        .map(|relation| OfTable { relation, name: name.clone() }),
                };
                let Some(of) = of else { continue };
                match merged.iter_mut().find(|column| column.of.name == *name) {
                    Some(column) => column.joins += 1,
                    None => merged.push(Merged { of: of.clone(), joins: 1 }),
                }
                columns.push(of);
            }
            left = left.zip(right).map(|(left, right)| {
                let others = left.into_iter().chain(right);
                columns.extend(others.filter(|column| !names.contains(&column.name)));
                columns
            });
        }
        left
    }

    fn columns_of(&self, factor: &TableFactor, merged: &mut Vec<Merged>) -> Option<Vec<OfTable>> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = factor {
            return self.merged(table_with_joins, merged);
        }
        let mut rows = Vec::new();
        let is_known = self.relation(factor, &mut rows);
        let columns: Vec<OfTable> = rows.iter().flat_map(Row::of_table).collect();
        let is_named = columns.iter().all(|column| !column.relation.is_empty());
        (is_known && is_named).then_some(columns)
    }

    fn is_of_catalog(&self, factor: &TableFactor) -> bool {
        let TableFactor::Table { name, .. } = factor else { return false };
        match Names::parts(name) {
            Ok((None, bare)) => !self.parts.iter().any(|(part, _)| *part == bare),
            Ok((Some(_), _)) => true,
            Err(_) => false,
        }
    }

    /// The columns of a table before it gets other names.
    fn of_factor(&self, factor: &TableFactor) -> Option<Vec<String>> {
        match factor {
            TableFactor::Table { name, args: None, .. } => {
                let (schema, bare) = Names::parts(name).ok()?;
                if schema.is_none()
                    && let Some((_, columns)) = self.parts.iter().rev().find(|(n, _)| *n == bare)
                {
                    return columns.clone();
                }
                let path = self.session.search_path();
                let names = Names { catalog: &self.catalog, path: &path };
                match names.relation(name).ok()? {
                    Some(Relation::Table(table)) => {
                        Some(table.def.columns.iter().map(|c| c.name.clone()).collect())
                    }
                    Some(Relation::View(view)) => {
                        Some(view.columns.iter().map(|c| c.name.clone()).collect())
                    }
                    Some(_) => None,
                    None => {
                        let schema = schema.as_deref().unwrap_or("pg_catalog");
                        let spec = pgcatalog::spec_of(schema, &bare)?;
                        let columns = pgcatalog::Columns::parse(spec.columns);
                        Some(columns.iter().map(|column| column.name.clone()).collect())
                    }
                }
            }
            TableFactor::Table { name, args: Some(_), with_ordinality: false, .. }
            | TableFactor::Function { name, with_ordinality: false, .. } => {
                let function = name.0.last()?.as_ident().map(fold)?;
                match rewrite_json::columns(&function) {
                    Some(columns @ [_, ..]) => {
                        Some(columns.iter().map(|name| (*name).to_owned()).collect())
                    }
                    // The column of such a function is called as its table is.
                    of_json => (of_json.is_some() || is_of_one_column(&function))
                        .then(|| name_of(factor))?
                        .map(|c| vec![c]),
                }
            }
            TableFactor::Derived { subquery, .. } => self.of_query(subquery),
            _ => None,
        }
    }

    /// Completes lists of names that are shorter than their tables.
    fn extend(&self, from: &mut TableWithJoins) {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut from.relation).chain(joined) {
            if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
                self.extend(table_with_joins);
                continue;
            }
            let given = match factor {
                TableFactor::Table { alias: Some(alias), args: None, .. }
                | TableFactor::Derived { alias: Some(alias), .. } => alias.columns.len(),
                _ => 0,
            };
            if given == 0 {
                continue;
            }
            let Some(columns) = self.of_factor(factor) else { continue };
            if let TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. } = factor
            {
                alias.columns.extend(columns.into_iter().skip(given).map(|name| {
                    ast::TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None }
                }));
            }
        }
    }
}

/// Columns under the names that an alias gives the first of them.
fn named(mut columns: Vec<String>, alias: Option<&ast::TableAlias>) -> Vec<String> {
    let names = alias.into_iter().flat_map(|alias| &alias.columns);
    for (column, name) in columns.iter_mut().zip(names) {
        *column = fold(&name.name);
    }
    columns
}

pub(crate) fn merges(from: &TableWithJoins) -> bool {
    use ast::JoinConstraint::{Natural, Using};
    from.joins.iter().any(|join| matches!(constraint(join), Some(Using(_) | Natural)))
}

fn constraint(join: &ast::Join) -> Option<&ast::JoinConstraint> {
    use ast::JoinOperator::*;
    match &join.join_operator {
        Join(c) | Inner(c) | Left(c) | LeftOuter(c) | Right(c) | RightOuter(c) | FullOuter(c) => {
            Some(c)
        }
        _ => None,
    }
}

/// Under which name a relation goes.
pub(crate) fn name_of(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(fold(&alias.name)),
        TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
            name.0.last()?.as_ident().map(fold)
        }
        _ => None,
    }
}

/// A column of a table in FROM.
#[derive(Clone)]
struct OfTable {
    relation: String,
    name: String,
}

impl OfTable {
    fn expr(&self) -> Expr {
        let names = [&self.relation, &self.name];
        Expr::CompoundIdentifier(names.map(|name| Ident::with_quote('"', name)).to_vec())
    }
}

/// Columns of a select list by the names that [`rewrite::name_columns`] gives them, by which those that are called the
/// same are told apart; `None` where some of them are from a `*`, which have others.
fn told_apart(columns: Vec<String>, wildcards: bool) -> Option<Vec<String>> {
    let mut taken = HashSet::new();
    let named = columns.into_iter().map(|name| match taken.insert(name.clone()) {
        true => Some(name),
        false if wildcards => None,
        false => Some(rewrite::unique(&name, &mut taken, false)),
    });
    named.collect()
}

fn items(columns: &[OfTable]) -> Vec<SelectItem> {
    columns.iter().map(|column| SelectItem::UnnamedExpr(column.expr())).collect()
}

/// A column that joins have merged: the first table's that has it, and how many joins did.
struct Merged {
    of: OfTable,
    joins: usize,
}

/// Puts `l.a` in the place of `a`.
struct Qualify<'a> {
    merged: &'a [Merged],
    /// As in [`Rows`].
    depth: usize,
}

impl walk::Change for Qualify<'_> {
    fn query(&mut self, _: &mut Query) {
        self.depth += 1;
    }

    fn query_end(&mut self, _: &mut Query) {
        self.depth -= 1;
    }

    fn expr(&mut self, expr: &mut Expr) -> Flow {
        if let (Expr::Identifier(ident), 0) = (&*expr, self.depth)
            && let Some(column) = self.merged.iter().find(|column| column.of.name == fold(ident))
        {
            *expr = column.of.expr();
        }
        GO_ON
    }
}
