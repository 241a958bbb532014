//! Tables that are called as a column of a query within: DataFusion takes `n.id` for a field of the column `n` of the
//! nearest query that has one, where PostgreSQL knows no such field and finds the table around.
//!
//! ```text
//!   SELECT … FROM t n WHERE EXISTS (SELECT FROM u WHERE u.x = n.id)       u has a column n
//!   SELECT … FROM t "froglet n" WHERE EXISTS (SELECT FROM u WHERE u.x = "froglet n".id)
//! ```
//!
//! Every table of that name gets the other one, in all of the statement: so each is still found where it was.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind as Kind,
    SetExpr, TableAlias, TableFactor,
};

use crate::rewrite::folded;
use crate::rewrite_rows::{Parts, Row, Sight, name_of, parts_of};
use crate::walk::{self, Change, Flow, GO_ON, Look};

/// Renames such tables of a statement's query.
pub(crate) fn rename(query: &mut Query) {
    let mut correlated = Correlated::default();
    walk::look(&*query, &mut correlated);
    if !correlated.any {
        return;
    }
    let mut hidden = Hidden::default();
    walk::look(&*query, &mut hidden);
    let names = &hidden.names - &hidden.kept;
    if !names.is_empty() {
        walk::change(query, &mut Rename(names));
    }
}

/// Whether a query within reads tables of those around, as far as that shows without the catalog.
#[derive(Default)]
struct Correlated {
    levels: Vec<HashSet<String>>,
    any: bool,
}

impl Look for Correlated {
    fn query(&mut self, query: &Query) -> Flow {
        self.levels.push(tables_of(query));
        GO_ON
    }

    fn query_end(&mut self) {
        self.levels.pop();
    }

    fn expr(&mut self, expr: &Expr) -> Flow {
        if let Expr::CompoundIdentifier(parts) = expr
            && let ([.., own], [table, _]) = (&self.levels[..], &parts[..])
        {
            self.any |= !own.contains(&folded(table));
        }
        GO_ON
    }
}

/// A query's tables.
struct Level {
    parts: Parts,
    tables: HashSet<String>,
    /// What is known of them.
    rows: Vec<Row>,
}

/// Finds the names of tables that a column hides somewhere.
#[derive(Default)]
struct Hidden {
    levels: Vec<Level>,
    names: HashSet<String>,
    /// Those that stand where only the name itself is understood.
    kept: HashSet<String>,
}

impl Look for Hidden {
    fn query(&mut self, query: &Query) -> Flow {
        let none = Parts::new();
        let parts = parts_of(query, self.levels.last().map_or(&none, |level| &level.parts));
        let mut rows = Vec::new();
        if let Some(sight) = Sight::new(&parts) {
            each_select_of(query, &mut |select| {
                for from in &select.from {
                    sight.relations(from, &mut rows);
                }
            });
        }
        self.levels.push(Level { parts, tables: tables_of(query), rows });
        GO_ON
    }

    fn query_end(&mut self) {
        self.levels.pop();
    }

    fn expr(&mut self, expr: &Expr) -> Flow {
        match expr {
            Expr::CompoundIdentifier(parts) if parts.len() == 2 => {
                let table = folded(&parts[0]);
                let has_table = |level: &&Level| level.tables.contains(&table);
                let within = self.levels.iter().rev().take_while(|level| !has_table(level));
                let mut columns = within.flat_map(|level| &level.rows).flat_map(|row| &row.columns);
                if self.levels.iter().any(|level| has_table(&level))
                    && columns.any(|column| *column == table)
                {
                    self.names.insert(table);
                }
            }
            Expr::CompoundIdentifier(parts) => {
                self.kept.extend(parts.iter().rev().nth(1).map(folded));
            }
            // A whole row, if it is no column.
            Expr::Identifier(name) => {
                let name = folded(name);
                let rows = self.levels.iter().flat_map(|level| &level.rows);
                if !rows.flat_map(|row| &row.columns).any(|column| *column == name) {
                    self.kept.insert(name);
                }
            }
            _ => {}
        }
        GO_ON
    }
}

/// The names in FROM.
fn tables_of(query: &Query) -> HashSet<String> {
    let mut tables = HashSet::new();
    each_select_of(query, &mut |select| {
        let joined = select.from.iter().flat_map(|from| &from.joins).map(|join| &join.relation);
        let factors = select.from.iter().map(|from| &from.relation).chain(joined);
        tables.extend(factors.filter_map(name_of));
    });
    tables
}

fn each_select_of(query: &Query, f: &mut dyn FnMut(&Select)) {
    fn within(body: &SetExpr, f: &mut dyn FnMut(&Select)) {
        match body {
            SetExpr::Select(select) => f(select),
            SetExpr::SetOperation { left, right, .. } => {
                within(left, f);
                within(right, f);
            }
            _ => {}
        }
    }
    within(&query.body, f);
}

fn other(name: &str) -> Ident {
    Ident::with_quote('"', format!("froglet {name}"))
}

struct Rename(HashSet<String>);

impl Rename {
    fn rename(&self, ident: &mut Ident) {
        let name = folded(ident);
        if self.0.contains(&name) {
            *ident = other(&name);
        }
    }

    fn rename_object(&self, name: &mut ObjectName) {
        if let [part] = &name.0[..]
            && let Some(mut ident) = part.as_ident().cloned()
        {
            self.rename(&mut ident);
            *name = ObjectName::from(vec![ident]);
        }
    }
}

impl Change for Rename {
    fn table_factor(&mut self, factor: &mut TableFactor) {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. } => self.rename(&mut alias.name),
            TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } => {
                let name = name.0.last().and_then(|part| part.as_ident()).map(folded);
                if let Some(name) = name.filter(|name| self.0.contains(name)) {
                    let name = other(&name);
                    *alias =
                        Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
                }
            }
            _ => {}
        }
    }

    fn expr(&mut self, expr: &mut Expr) -> Flow {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, _] = &mut parts[..]
        {
            self.rename(table);
        }
        GO_ON
    }

    fn select(&mut self, select: &mut Select) {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(Kind::ObjectName(name), _) = item {
                self.rename_object(name);
            }
        }
    }

    fn query(&mut self, query: &mut Query) {
        for name in query.locks.iter_mut().filter_map(|lock| lock.of.as_mut()) {
            self.rename_object(name);
        }
    }
}
