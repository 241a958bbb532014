//! RETURNING with subqueries. What a written row returns is computed of the row alone, so these are of a query over
//! what is returned, within one statement ([`crate::with_plan`]):
//!
//! ```text
//!   INSERT INTO t … RETURNING a, (SELECT … WHERE x = t.b)
//!
//!   WITH "froglet written 0" AS (INSERT INTO t … RETURNING *)
//!   SELECT a, (SELECT … WHERE x = t.b)
//!   FROM (SELECT *, row_number() OVER () AS "froglet row" FROM "froglet written 0") AS t ORDER BY t."froglet row"
//! ```
//!
//! So the subqueries see nothing of what is written, as PostgreSQL has it. Left out, and 0A000: such a RETURNING beside
//! the tables of FROM or USING.

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, FromTable, Ident, ObjectName, Query, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, Statement, TableFactor, TableObject, TableWithJoins, WildcardAdditionalOptions,
};

use crate::command::{Command, fold};
use crate::parse::parse_query;
use crate::resolve::{Names, Relation};
use crate::stream::TagKind;
use crate::target::has_subquery;

/// A command that writes, and has such a RETURNING, as a query that writes.
pub(crate) fn of_command(command: &Command) -> Option<Query> {
    let has = |list: &Option<Vec<SelectItem>>| list.as_ref().is_some_and(has_subquery);
    let body = match command {
        Command::Insert(insert) if has(&insert.returning) => {
            SetExpr::Insert(Statement::Insert((**insert).clone()))
        }
        Command::Update(update) if has(&update.returning) => {
            SetExpr::Update(Statement::Update((**update).clone()))
        }
        Command::Delete(delete) if has(&delete.returning) => {
            SetExpr::Delete(Statement::Delete((**delete).clone()))
        }
        _ => return None,
    };
    let mut query = parse_query("SELECT 1").ok()?;
    *query.body = body;
    Some(query)
}

/// Makes two parts of each part of a WITH that has such a RETURNING, and a part of the statement at the end, if it has
/// one: the tag of what it is then.
pub(crate) fn lift(names: &Names<'_>, query: &mut Query) -> Option<TagKind> {
    let mut parts = Vec::new();
    if let Some(with) = &mut query.with {
        for mut part in std::mem::take(&mut with.cte_tables) {
            if let Some((written, list)) = split(names, &part, parts.len()) {
                parts.push(written);
                part.query = Box::new(list);
            }
            parts.push(part);
        }
        with.cte_tables = parts;
    }
    let tag = tag_of(&query.body)?;
    let mut template = parse_query("WITH froglet AS (SELECT 1) SELECT 1").ok()?.with?;
    let mut main = template.cte_tables.pop()?;
    main.query.body = query.body.clone();
    let with = query.with.get_or_insert(template);
    if let Some((written, list)) = split(names, &main, with.cte_tables.len()) {
        with.cte_tables.push(written);
        (query.body, query.order_by) = (list.body, list.order_by);
        return Some(tag);
    }
    query.with.take_if(|with| with.cte_tables.is_empty());
    None
}

fn tag_of(body: &SetExpr) -> Option<TagKind> {
    Some(match body {
        SetExpr::Insert(_) => TagKind::Insert,
        SetExpr::Update(_) => TagKind::Update,
        SetExpr::Delete(_) => TagKind::Delete,
        _ => return None,
    })
}

/// A part that writes and returns all, and the query of what was to be returned.
fn split(names: &Names<'_>, part: &Cte, number: usize) -> Option<(Cte, Query)> {
    let mut written = part.clone();
    let (SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement)) =
        &mut *written.query.body
    else {
        return None;
    };
    let (table, alias, returning) = target(statement)?;
    if !has_subquery(returning) {
        return None;
    }
    let columns = columns_of(names, &table)?;
    let name = match alias {
        Some(alias) => alias,
        None => table.0.last()?.as_ident()?.clone(),
    };
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let list = std::mem::replace(returning, vec![all]);
    let table = Ident::with_quote('"', format!("froglet written {number}"));
    let mut query = parse_query(&format!(
        "SELECT 1 FROM (SELECT *, row_number() OVER () AS {ROW} FROM {table}) AS {name} ORDER BY {name}.{ROW}"
    ))
    .ok()?;
    let SetExpr::Select(select) = &mut *query.body else { return None };
    select.projection = list.into_iter().flat_map(|item| plain(item, &name, &columns)).collect();
    written.alias.name = table;
    written.alias.columns.clear();
    Some((written, query))
}

/// The place of a row among those that are written.
const ROW: &str = "\"froglet row\"";

/// A star as the columns of the table.
fn plain(item: SelectItem, table: &Ident, columns: &[String]) -> Vec<SelectItem> {
    let is_all = match &item {
        SelectItem::Wildcard(_) => true,
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            let named = name.0.last().and_then(|part| part.as_ident());
            named.is_some_and(|named| fold(named) == fold(table))
        }
        _ => false,
    };
    if !is_all {
        return vec![item];
    }
    let column = |name: &String| {
        let column = vec![table.clone(), Ident::with_quote('"', name)];
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(column))
    };
    columns.iter().map(column).collect()
}

fn columns_of(names: &Names<'_>, table: &ObjectName) -> Option<Vec<String>> {
    Some(match names.relation(table).ok()?? {
        Relation::Table(table) => table.def.columns.iter().map(|c| c.name.clone()).collect(),
        Relation::View(view) => view.columns.iter().map(|c| c.name.clone()).collect(),
        Relation::Sequence(_) | Relation::Index(..) => return None,
    })
}

/// The only table of a statement, its alias, and the list of RETURNING.
fn target(statement: &mut Statement) -> Option<(ObjectName, Option<Ident>, &mut Vec<SelectItem>)> {
    match statement {
        Statement::Insert(insert) => {
            let TableObject::TableName(name) = &insert.table else { return None };
            let alias = insert.table_alias.as_ref().map(|alias| alias.alias.clone());
            Some((name.clone(), alias, insert.returning.as_mut()?))
        }
        Statement::Update(update) if update.from.is_none() => {
            let (name, alias) = name_of(&update.table)?;
            Some((name, alias, update.returning.as_mut()?))
        }
        Statement::Delete(delete) if delete.using.is_none() => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            let [table] = from.as_slice() else { return None };
            let (name, alias) = name_of(table)?;
            Some((name, alias, delete.returning.as_mut()?))
        }
        _ => None,
    }
}

fn name_of(table: &TableWithJoins) -> Option<(ObjectName, Option<Ident>)> {
    match &table.relation {
        TableFactor::Table { name, alias, .. } => {
            Some((name.clone(), alias.as_ref().map(|alias| alias.name.clone())))
        }
        _ => None,
    }
}
