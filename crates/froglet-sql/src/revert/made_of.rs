//! What CREATE TABLE AS makes its rows of, as far as a revert can make the sources of them again.
//!
//! ```text
//!   SELECT k, x FROM s                      each row of s          s is made of it, if no column is missing
//!   SELECT … FROM a JOIN b USING (k)        each pair of rows      a and b are
//!   everything else                         otherwise              they are not, and the reason is kept
//! ```

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
};
use froglet_engine::ColumnId;
use froglet_schema::{MadeOf, MadeRows, ObjectId, TableDef};

use crate::command::fold;
use crate::resolve::{Names, Relation};
use crate::walk::{Flow, GO_ON, Look};

/// What a query makes, of `width` columns.
pub(crate) fn made_of(names: &Names<'_>, query: &Query, width: usize) -> MadeOf {
    let mut read = Read { names, sources: Vec::new() };
    crate::walk::look(query, &mut read);
    let sources = read.sources;
    let otherwise = |why: &str| MadeOf {
        sources: sources.clone(),
        columns: vec![None; width],
        rows: MadeRows::Otherwise(why.to_owned()),
    };
    match shape(names, query) {
        Ok(made) if made.columns.len() == width => made,
        Ok(_) => otherwise("its query has other columns than it seems to"),
        Err(why) => otherwise(why),
    }
}

/// The tables that a query reads, wherever.
struct Read<'a> {
    names: &'a Names<'a>,
    sources: Vec<ObjectId>,
}

impl Look for Read<'_> {
    fn select(&mut self, select: &Select) -> Flow {
        let joined = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        for factor in joined {
            if let TableFactor::Table { name, .. } = factor
                && let Ok(Some(Relation::Table(table))) = self.names.relation(name)
                && !self.sources.contains(&table.def.id)
            {
                self.sources.push(table.def.id);
            }
        }
        GO_ON
    }
}

/// A table in FROM.
struct Source<'a> {
    def: &'a TableDef,
    name: String,
}

fn shape(names: &Names<'_>, query: &Query) -> Result<MadeOf, &'static str> {
    let mut query = query;
    while let SetExpr::Query(inner) = query.body.as_ref() {
        if query.limit_clause.is_some() || query.fetch.is_some() || query.with.is_some() {
            return Err("not all rows were taken");
        }
        query = inner;
    }
    if query.with.is_some() {
        return Err("its query has a WITH clause");
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return Err("not all rows were taken");
    }
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Err("its query is a set operation");
    };
    refuse_groups(select)?;
    let From { sources, pairs, outer } = from(names, select)?;
    let columns = projection(select, &sources, &pairs)?;
    let rows = match sources.len() {
        1 => MadeRows::Each,
        _ => {
            let [left, right] = [0, 1].map(|at| sources[at].def);
            let id = |def: &TableDef, name: &String| def.column(name).map(|column| column.id);
            let pair = |(a, b): &(String, String)| Some((id(left, a)?, id(right, b)?));
            let pairs: Option<Vec<_>> = pairs.iter().map(pair).collect();
            let columns = pairs.ok_or("a column of its join is not of its tables")?;
            let turned: Vec<_> = columns.iter().map(|(a, b)| (*b, *a)).collect();
            let refers = [refers(left, right, &columns), refers(right, left, &turned)];
            let keeps = [0, 1].map(|side| outer[side] || refers[side]);
            MadeRows::Pairs { columns, keeps }
        }
    };
    Ok(MadeOf { sources: sources.iter().map(|source| source.def.id).collect(), columns, rows })
}

/// Whether every row of a table has one of another with the same values in these columns.
fn refers(child: &TableDef, parent: &TableDef, pairs: &[(ColumnId, ColumnId)]) -> bool {
    let not_null = |(id, _): &(ColumnId, ColumnId)| {
        child.column_by_id(*id).is_some_and(|column| column.not_null)
    };
    let holds = child.foreign_keys().any(|(_, key)| {
        let known: Vec<_> = key.columns.iter().zip(&key.parent_columns).collect();
        key.parent == parent.id && pairs.iter().all(|(a, b)| known.contains(&(a, b)))
    });
    holds && pairs.iter().all(not_null)
}

fn refuse_groups(select: &Select) -> Result<(), &'static str> {
    use datafusion::sql::sqlparser::ast::GroupByExpr;
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, with) if by.is_empty() && with.is_empty());
    let is_aggregate = |expr: &Expr| {
        matches!(expr, Expr::Function(f) if f.over.is_none()
            && crate::planning::registry().is_aggregate(&f.name.to_string().to_lowercase()))
    };
    if is_grouped
        || select.having.is_some()
        || crate::walk::any_expr(&select.projection, is_aggregate)
    {
        return Err("several rows were made into one");
    }
    if select.distinct.is_some() || select.top.is_some() || select.qualify.is_some() {
        return Err("not all rows were taken");
    }
    Ok(())
}

/// FROM, and what of WHERE belongs to it.
struct From<'a> {
    sources: Vec<Source<'a>>,
    /// The names of the columns in which rows that were paired are the same.
    pairs: Vec<(String, String)>,
    /// Whether rows without a partner are there too, of the first and of the second.
    outer: [bool; 2],
}

fn from<'a>(names: &Names<'a>, select: &Select) -> Result<From<'a>, &'static str> {
    let mut sources = Vec::new();
    let mut outer = [false; 2];
    let mut on: Vec<&Expr> = select.selection.iter().collect();
    let mut using: Vec<String> = Vec::new();
    for TableWithJoins { relation, joins } in &select.from {
        sources.push(source(names, relation)?);
        for join in joins {
            sources.push(source(names, &join.relation)?);
            let constraint = match &join.join_operator {
                JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => constraint,
                JoinOperator::CrossJoin(_) => continue,
                other if select.selection.is_none() => {
                    let (constraint, sides) =
                        match other {
                            JoinOperator::FullOuter(constraint) => (constraint, [true, true]),
                            JoinOperator::Left(constraint)
                            | JoinOperator::LeftOuter(constraint) => (constraint, [true, false]),
                            JoinOperator::Right(constraint)
                            | JoinOperator::RightOuter(constraint) => (constraint, [false, true]),
                            _ => return Err("it is a join of a kind that is not known"),
                        };
                    outer = sides;
                    constraint
                }
                _ => return Err("it is an outer join with a WHERE clause"),
            };
            match constraint {
                JoinConstraint::On(condition) => on.push(condition),
                JoinConstraint::Using(columns) => {
                    let column = |name: &ObjectName| name.0.last()?.as_ident().map(fold);
                    using.extend(columns.iter().filter_map(column));
                }
                _ => return Err("it is a natural join"),
            }
        }
    }
    match sources.len() {
        1 if on.is_empty() => return Ok(From { sources, pairs: Vec::new(), outer }),
        1 => return Err("only the rows that its WHERE clause takes are in it"),
        2 => {}
        _ => return Err("it is made of more than two tables"),
    }
    let mut pairs: Vec<_> = using.into_iter().map(|column| (column.clone(), column)).collect();
    on.into_iter().try_for_each(|condition| equal(condition, &sources, &mut pairs))?;
    if pairs.is_empty() {
        return Err("its tables were joined without a key");
    }
    Ok(From { sources, pairs, outer })
}

fn source<'a>(names: &Names<'a>, factor: &TableFactor) -> Result<Source<'a>, &'static str> {
    let TableFactor::Table { name, alias, args: None, .. } = factor else {
        return Err("it is made of what is no table");
    };
    let table = names.table(name).map_err(|_| "it is made of what is no table")?;
    let alias = alias.as_ref().map(|alias| fold(&alias.name));
    Ok(Source { name: alias.unwrap_or_else(|| table.def.name.clone()), def: &table.def })
}

/// Takes a conjunction of equalities between the two tables apart.
fn equal(
    condition: &Expr,
    sources: &[Source<'_>],
    pairs: &mut Vec<(String, String)>,
) -> Result<(), &'static str> {
    match condition {
        Expr::Nested(inner) => equal(inner, sources, pairs),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            equal(left, sources, pairs)?;
            equal(right, sources, pairs)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            match (column(left, sources), column(right, sources)) {
                (Some((0, a)), Some((1, b))) | (Some((1, b)), Some((0, a))) => {
                    pairs.push((a, b));
                    Ok(())
                }
                _ => Err("its tables were not joined by their columns alone"),
            }
        }
        _ => Err("its tables were not joined by their columns alone"),
    }
}

/// The table, by its place, and the column there that an expression is.
fn column(expr: &Expr, sources: &[Source<'_>]) -> Option<(usize, String)> {
    match expr {
        Expr::Nested(inner) => column(inner, sources),
        Expr::Identifier(ident) => {
            let name = fold(ident);
            let at = sources.iter().position(|source| source.def.column(&name).is_some())?;
            Some((at, name))
        }
        Expr::CompoundIdentifier(parts) => {
            let [.., of, ident] = parts.as_slice() else { return None };
            let (of, name) = (fold(of), fold(ident));
            let at = sources.iter().position(|source| source.name == of)?;
            sources[at].def.column(&name).is_some().then_some((at, name))
        }
        _ => None,
    }
}

/// The same of `coalesce(a.k, b.k)` where the tables are joined by these.
fn merged(
    expr: &Expr,
    sources: &[Source<'_>],
    pairs: &[(String, String)],
) -> Option<(usize, String)> {
    use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr, FunctionArguments};
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => column(expr, sources),
        _ => None,
    };
    let arguments: Option<Vec<_>> = list.args.iter().map(argument).collect();
    let is_coalesce = function.name.to_string().eq_ignore_ascii_case("coalesce");
    match arguments?.as_slice() {
        [(0, a), (1, b)] if is_coalesce && pairs.contains(&(a.clone(), b.clone())) => {
            Some((0, a.clone()))
        }
        _ => None,
    }
}

/// For each output the column that it is, if it is one.
fn projection(
    select: &Select,
    sources: &[Source<'_>],
    pairs: &[(String, String)],
) -> Result<Vec<Option<(usize, ColumnId)>>, &'static str> {
    let all = |at: usize| sources[at].def.columns.iter().map(move |c| Some((at, c.id)));
    let mut columns = Vec::new();
    for item in &select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                let found = column(expr, sources).or_else(|| merged(expr, sources, pairs));
                let id = found.and_then(|(at, name)| Some((at, sources[at].def.column(&name)?.id)));
                columns.push(id);
            }
            SelectItem::Wildcard(_) if sources.len() == 1 => columns.extend(all(0)),
            SelectItem::Wildcard(_) => {
                // USING: its columns come once, and first.
                let merged: Vec<&String> =
                    pairs.iter().filter(|(a, b)| a == b).map(|(a, _)| a).collect();
                let is_merged = |def: &TableDef, id: ColumnId| {
                    def.column_by_id(id).is_some_and(|c| merged.contains(&&c.name))
                };
                let first = merged.iter().filter_map(|name| sources[0].def.column(name));
                columns.extend(first.map(|column| Some((0, column.id))));
                for (at, source) in sources.iter().enumerate() {
                    let is_left = |c: &Option<(usize, _)>| {
                        c.is_some_and(|(_, id)| !is_merged(source.def, id))
                    };
                    let rest = all(at).filter(is_left);
                    columns.extend(rest);
                }
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let last: Option<&Ident> = name.0.last().and_then(|part| part.as_ident());
                let of = last.map(fold);
                let at = sources.iter().position(|source| Some(&source.name) == of.as_ref());
                columns.extend(all(at.ok_or("its query has a form of * that is not known")?));
            }
            _ => return Err("its query has a form of * that is not known"),
        }
    }
    Ok(columns)
}
