//! What a statement needs: relations, and what on them or on which of their columns.
//!
//! ```text
//!   SELECT u.a FROM t JOIN u ON t.id = u.id WHERE b > 1
//!     t  SELECT id, b      b: of the relations in the innermost scope that have a column of this name
//!     u  SELECT id, a
//! ```
//!
//! N1: names of relations are found as the planners find them; where these might differ, both are needed.
//! N2: a name that could be of several columns is of all of them; one that could be of a column and of a row, of both.
//! N3: a name that an alias gives a column stands for the column in that place, and for no other of that name. Where
//!     places are not known (a join in parentheses), it stands for all.

use std::collections::{BTreeSet, HashMap};

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, Expr, FromTable, FunctionArg,
    FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Insert, Join, JoinConstraint,
    JoinOperator, Merge, MergeAction, MergeInsertKind, ObjectName, OnConflictAction, OnInsert,
    OrderBy, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    Statement, TableAlias, TableFactor, TableObject, TableWithJoins, Update, UpdateTableFromKind,
};
use froglet_schema::ObjectId;

use super::bits;
use super::sources::{Of, Source, SourceColumn, of_query, renamed};
use crate::command::fold;
use crate::pgcatalog::{self, Columns};
use crate::resolve::{Names, Relation};
use crate::walk::{self, Flow, GO_ON, Look};

/// Columns of a relation, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Marked {
    pub(super) whole: bool,
    pub(super) names: BTreeSet<String>,
}

/// What is needed on one relation that a statement mentions.
#[derive(Clone, Debug)]
pub(super) struct Need {
    pub(super) relation: ObjectId,
    /// So many queries are around it: outer ones are asked for first, as in PostgreSQL.
    pub(super) depth: usize,
    /// The schema that its name was found in.
    pub(super) schema: String,
    /// Whether the statement says the schema.
    pub(super) qualified: bool,
    pub(super) required: u16,
    pub(super) selected: Marked,
    pub(super) inserted: Marked,
    pub(super) updated: Marked,
}

/// Walks over a statement.
pub(super) struct Walk<'a> {
    names: Names<'a>,
    pub(super) needs: Vec<Need>,
    scopes: Vec<Vec<Source>>,
    /// The columns of the queries of WITH, innermost last.
    with: Vec<HashMap<String, Vec<String>>>,
    /// So many queries are around the expression that is looked at, beside that which it is of.
    within: usize,
    depth: usize,
    /// There is a statement of which it is not known what it needs.
    pub(super) unknown: bool,
}

/// What stands for an output column that has no name.
const UNNAMED: &str = "?column?";

impl<'a> Walk<'a> {
    pub(super) fn new(names: Names<'a>) -> Walk<'a> {
        Walk {
            names,
            needs: Vec::new(),
            scopes: Vec::new(),
            with: Vec::new(),
            within: 0,
            depth: 0,
            unknown: false,
        }
    }

    /// What a name means: relations, each with its columns.
    fn found(&self, name: &ObjectName) -> Vec<(ObjectId, String, Vec<String>)> {
        let Ok((schema, bare)) = Names::parts(name) else { return Vec::new() };
        let mut found = Vec::new();
        let system = schema.as_deref().unwrap_or("pg_catalog");
        if let Some(spec) = pgcatalog::spec_of(system, &bare) {
            let columns = Columns::parse(spec.columns).schema();
            let columns = columns.fields().iter().map(|field| field.name().clone()).collect();
            found.push((spec.oid, spec.schema.to_owned(), columns));
        }
        match self.names.find(schema.as_deref(), &bare) {
            Some(Relation::Table(table)) => {
                let columns = table.def.columns.iter().map(|c| c.name.clone()).collect();
                found.push((table.def.id, table.def.schema.clone(), columns));
            }
            Some(Relation::View(view)) => {
                let columns = view.columns.iter().map(|c| c.name.clone()).collect();
                found.push((view.id, view.schema.clone(), columns));
            }
            Some(Relation::Sequence(sequence)) => {
                let columns = ["last_value", "log_cnt", "is_called"].map(str::to_owned).to_vec();
                found.push((sequence.id, sequence.schema.clone(), columns));
            }
            Some(Relation::Index(..)) | None => {}
        }
        found
    }

    /// A relation that is mentioned.
    fn relation(&mut self, name: &ObjectName, required: u16) -> Source {
        let (schema, bare) = Names::parts(name).unwrap_or_default();
        let mut source =
            Source { schema: schema.clone(), name: bare, columns: Vec::new(), needs: Vec::new() };
        for (relation, place, columns) in self.found(name) {
            let need = self.needs.len();
            source.needs.push(need);
            source.columns.extend(
                columns
                    .into_iter()
                    .map(|name| SourceColumn { of: Of::Column(need, name.clone()), name }),
            );
            self.needs.push(Need {
                relation,
                depth: self.depth,
                schema: place,
                qualified: schema.is_some(),
                required,
                selected: Marked::default(),
                inserted: Marked::default(),
                updated: Marked::default(),
            });
        }
        source
    }

    fn select_from(&mut self, needs: &[usize], column: Option<&str>) {
        for need in needs {
            let need = &mut self.needs[*need];
            need.required |= bits::SELECT;
            match column {
                Some(name) => _ = need.selected.names.insert(name.to_owned()),
                None => need.selected.whole = true,
            }
        }
    }

    fn select_of(&mut self, of: Of) {
        match of {
            Of::Column(need, name) => self.select_from(&[need], Some(&name)),
            Of::Whole(needs) => self.select_from(&needs, None),
            Of::Query => {}
        }
    }

    /// A name of a column, or of what stands in FROM as a whole.
    fn mention(&mut self, idents: &[Ident]) {
        let names: Vec<String> = idents.iter().map(fold).collect();
        let mut is_row = false;
        for at in (0..self.scopes.len()).rev() {
            let mut marks = Vec::new();
            for source in &self.scopes[at] {
                let column = match names.as_slice() {
                    [column] => Some(column),
                    [table, column, ..] if *table == source.name && source.has(column) => {
                        Some(column)
                    }
                    [schema, table, column, ..]
                        if *table == source.name
                            && source.schema.as_ref().is_none_or(|s| s == schema) =>
                    {
                        Some(column)
                    }
                    _ => None,
                };
                marks.extend(column.into_iter().flat_map(|column| source.of(column)));
            }
            let is_found = !marks.is_empty();
            if !is_found && !is_row {
                // Perhaps a row; a column further out comes before that, as some look for it.
                let first = names.first();
                let rows = self.scopes[at].iter().filter(|s| first == Some(&s.name));
                marks.extend(rows.map(|source| Of::Whole(source.needs.clone())));
                is_row = !marks.is_empty();
            }
            marks.into_iter().for_each(|of| self.select_of(of));
            if is_found {
                return;
            }
        }
    }

    /// All columns of the innermost that has this name, or of everything.
    fn mark_all(&mut self, of: Option<&str>) {
        for at in (0..self.scopes.len()).rev() {
            let named = |source: &&Source| of.is_none_or(|name| name == source.name);
            let found: Vec<&Source> = self.scopes[at].iter().filter(named).collect();
            if found.is_empty() && of.is_some() {
                continue;
            }
            let needs: Vec<usize> = found.iter().flat_map(|source| source.needs.clone()).collect();
            return self.select_from(&needs, None);
        }
    }

    /// All columns of what a name in FROM stands for.
    fn mark_row(&mut self, name: &ObjectName) {
        let of = name.0.last().and_then(|part| part.as_ident()).map(fold);
        self.mark_all(of.as_deref());
    }

    pub(super) fn expr(&mut self, expr: &Expr) {
        let within = std::mem::take(&mut self.within);
        walk::look(expr, self);
        self.within = within;
    }

    /// A query; the names of its columns.
    pub(super) fn query(&mut self, query: &Query) -> Vec<String> {
        let within = std::mem::take(&mut self.within);
        self.with.push(HashMap::new());
        self.depth += 1;
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = fold(&cte.alias.name);
            let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
            if recursive {
                let columns = renamed(Vec::new(), &cte.alias);
                self.add_with(name.clone(), columns);
            }
            let columns = self.query(&cte.query);
            self.add_with(name, renamed(columns, &cte.alias));
        }
        let first = self.needs.len();
        self.depth -= 1;
        let columns = self.set_expr(&query.body, query.order_by.as_ref());
        // What LIMIT and the like say has no columns, but may have subqueries.
        if let Some(limit) = &query.limit_clause {
            let within = std::mem::take(&mut self.within);
            walk::look(limit, self);
            self.within = within;
        }
        for lock in &query.locks {
            let of = crate::lock_parts::named(lock);
            let of = of.and_then(|of| Names::parts(&of).ok()).map(|(_, name)| name);
            self.lock(first, &query.body, of.as_deref());
        }
        self.with.pop();
        self.within = within;
        columns
    }

    /// A query within another.
    fn deeper(&mut self, query: &Query) -> Vec<String> {
        self.depth += 1;
        let columns = Walk::query(self, query);
        self.depth -= 1;
        columns
    }

    /// FOR UPDATE: of what stands in FROM, under that name if one is given.
    fn lock(&mut self, first: usize, body: &SetExpr, of: Option<&str>) {
        let mut locked = BTreeSet::new();
        self.locked(body, of, &mut locked);
        for need in &mut self.needs[first..] {
            if locked.contains(&need.relation) {
                need.required |= bits::UPDATE;
            }
        }
    }

    fn locked(&self, body: &SetExpr, of: Option<&str>, found: &mut BTreeSet<ObjectId>) {
        let from = match body {
            SetExpr::Select(select) => &select.from,
            SetExpr::Query(query) => return self.locked(&query.body, of, found),
            _ => return,
        };
        let mut left: Vec<&TableWithJoins> = from.iter().collect();
        while let Some(table) = left.pop() {
            let first = std::iter::once(&table.relation);
            for factor in first.chain(table.joins.iter().map(|join| &join.relation)) {
                let is_meant = |alias: &Option<TableAlias>, name: &str| match (of, alias) {
                    (None, _) => true,
                    (Some(of), Some(alias)) => fold(&alias.name) == of,
                    (Some(of), None) => name == of,
                };
                match factor {
                    TableFactor::Table { name, alias, args: None, .. } => {
                        let bare = Names::parts(name).unwrap_or_default().1;
                        if is_meant(alias, &bare) {
                            found.extend(self.found(name).into_iter().map(|(id, ..)| id));
                        }
                    }
                    TableFactor::Derived { subquery, alias, .. } if is_meant(alias, "") => {
                        self.locked(&subquery.body, None, found);
                    }
                    TableFactor::NestedJoin { table_with_joins, .. } => left.push(table_with_joins),
                    _ => {}
                }
            }
        }
    }

    fn add_with(&mut self, name: String, columns: Vec<String>) {
        if let Some(with) = self.with.last_mut() {
            with.insert(name, columns);
        }
    }

    fn set_expr(&mut self, body: &SetExpr, order: Option<&OrderBy>) -> Vec<String> {
        match body {
            SetExpr::Select(select) => self.select(select, order),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, right, .. } => {
                let columns = self.set_expr(left, None);
                self.set_expr(right, None);
                columns
            }
            SetExpr::Values(values) => {
                values.rows.iter().flat_map(|row| row.iter()).for_each(|expr| self.expr(expr));
                let width = values.rows.first().map_or(0, |row| row.iter().count());
                (1..=width).map(|at| format!("column{at}")).collect()
            }
            SetExpr::Insert(statement)
            | SetExpr::Update(statement)
            | SetExpr::Delete(statement)
            | SetExpr::Merge(statement) => self.statement(statement),
            SetExpr::Table(table) => {
                let parts = table.schema_name.iter().chain(&table.table_name);
                let idents: Vec<Ident> = parts.map(|part| Ident::with_quote('"', part)).collect();
                let source = self.relation(&ObjectName::from(idents), bits::SELECT);
                self.select_from(&source.needs, None);
                source.names().cloned().collect()
            }
        }
    }

    fn select(&mut self, select: &Select, order: Option<&OrderBy>) -> Vec<String> {
        self.scopes.push(Vec::new());
        select.from.iter().for_each(|from| self.from(from));
        let mut columns = Vec::new();
        for item in &select.projection {
            self.item(item, &mut columns);
        }
        for expr in select.selection.iter().chain(&select.having).chain(&select.qualify) {
            self.expr(expr);
        }
        if let GroupByExpr::Expressions(exprs, _) = &select.group_by {
            exprs.iter().for_each(|expr| self.expr(expr));
        }
        let within = std::mem::take(&mut self.within);
        walk::look(&select.named_window, self);
        walk::look(&select.distinct, self);
        self.within = within;
        if let Some(OrderByKind::Expressions(exprs)) = order.map(|order| &order.kind) {
            for expr in exprs {
                // A name of an output column is that.
                let is_output = matches!(&expr.expr, Expr::Identifier(ident)
                    if columns.contains(&fold(ident)));
                if !is_output {
                    self.expr(&expr.expr);
                }
            }
        }
        self.scopes.pop();
        columns
    }

    fn item(&mut self, item: &SelectItem, columns: &mut Vec<String>) {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                self.expr(expr);
                columns.push(name_of(expr));
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                self.expr(expr);
                columns.push(fold(alias));
            }
            SelectItem::ExprWithAliases { expr, aliases } => {
                self.expr(expr);
                columns.extend(aliases.iter().map(fold));
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let of = name.0.last().and_then(|part| part.as_ident()).map(fold);
                self.mark_all(of.as_deref());
                self.columns_of(of.as_deref(), columns);
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expr), _) => {
                self.expr(expr);
            }
            SelectItem::Wildcard(_) => {
                self.mark_all(None);
                self.columns_of(None, columns);
            }
        }
    }

    fn columns_of(&self, of: Option<&str>, columns: &mut Vec<String>) {
        for scope in self.scopes.iter().rev() {
            let named = scope.iter().filter(|source| of.is_none_or(|name| name == source.name));
            let before = columns.len();
            columns.extend(named.flat_map(Source::names).cloned());
            if of.is_none() || columns.len() > before {
                return;
            }
        }
    }

    fn from(&mut self, from: &TableWithJoins) {
        let first = self.scopes.last().map_or(0, Vec::len);
        self.factor(&from.relation);
        for join in &from.joins {
            self.join(join, first);
        }
    }

    fn join(&mut self, join: &Join, first: usize) {
        let middle = self.scopes.last().map_or(0, Vec::len);
        self.factor(&join.relation);
        use JoinOperator as J;
        let constraint = match &join.join_operator {
            J::Join(c)
            | J::Inner(c)
            | J::Left(c)
            | J::LeftOuter(c)
            | J::Right(c)
            | J::RightOuter(c)
            | J::FullOuter(c)
            | J::CrossJoin(c)
            | J::Semi(c)
            | J::LeftSemi(c)
            | J::RightSemi(c)
            | J::Anti(c)
            | J::LeftAnti(c)
            | J::RightAnti(c)
            | J::StraightJoin(c) => c,
            J::AsOf { match_condition, constraint } => {
                self.expr(match_condition);
                constraint
            }
            J::CrossApply | J::OuterApply | J::ArrayJoin | J::LeftArrayJoin | J::InnerArrayJoin => {
                return;
            }
        };
        let shared: Vec<String> = match constraint {
            JoinConstraint::On(expr) => return self.expr(expr),
            JoinConstraint::None => return,
            JoinConstraint::Using(names) => {
                let last = |name: &ObjectName| name.0.last()?.as_ident().map(fold);
                names.iter().filter_map(last).collect()
            }
            JoinConstraint::Natural => {
                let scope = self.scopes.last().map_or(&[][..], Vec::as_slice);
                let (left, right) = scope[first..].split_at(middle - first);
                let right: BTreeSet<&String> = right.iter().flat_map(Source::names).collect();
                let left = left.iter().flat_map(Source::names);
                left.filter(|name| right.contains(name)).cloned().collect()
            }
        };
        let scope = self.scopes.last().map_or(&[][..], Vec::as_slice);
        let mut marks = Vec::new();
        for source in &scope[first..] {
            marks.extend(shared.iter().flat_map(|name| source.of(name)));
        }
        marks.into_iter().for_each(|of| self.select_of(of));
    }

    fn factor(&mut self, factor: &TableFactor) {
        let source = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let with = match name.0.as_slice() {
                    [only] => only.as_ident().map(fold).and_then(|name| {
                        let known = self.with.iter().rev().find_map(|with| with.get(&name))?;
                        Some(Source {
                            schema: None,
                            name,
                            columns: of_query(known.clone()),
                            needs: Vec::new(),
                        })
                    }),
                    _ => None,
                };
                let source = with.unwrap_or_else(|| self.relation(name, bits::SELECT));
                source.aliased(alias.as_ref())
            }
            TableFactor::Derived { subquery, alias, .. } => {
                let columns = self.deeper(subquery);
                self.made(columns, alias.as_ref(), "")
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let first = self.scopes.last().map_or(0, Vec::len);
                self.from(table_with_joins);
                if let Some(alias) = alias {
                    // Its columns are the alias's from here on: those that are named stand for all [N3].
                    let Some(scope) = self.scopes.last_mut() else { return };
                    let inner: Vec<Source> = scope.drain(first..).collect();
                    let needs: Vec<usize> = inner.iter().flat_map(|s| s.needs.clone()).collect();
                    let mut columns: Vec<SourceColumn> =
                        inner.into_iter().flat_map(|source| source.columns).collect();
                    if !alias.columns.is_empty() {
                        let all = || Of::Whole(needs.clone());
                        columns.iter_mut().for_each(|column| column.of = all());
                        let names = alias.columns.iter().map(|column| fold(&column.name));
                        columns.extend(names.map(|name| SourceColumn { name, of: all() }));
                    }
                    let name = fold(&alias.name);
                    self.push(Source { schema: None, name, columns, needs });
                }
                return;
            }
            other => {
                // Functions, and what else makes rows of expressions.
                let within = std::mem::take(&mut self.within);
                walk::look(other, self);
                self.within = within;
                let (alias, name) = match other {
                    TableFactor::Table { name, alias, .. } => {
                        (alias.as_ref(), Names::parts(name).unwrap_or_default().1)
                    }
                    TableFactor::TableFunction { alias, .. }
                    | TableFactor::Function { alias, .. }
                    | TableFactor::UNNEST { alias, .. } => (alias.as_ref(), String::new()),
                    _ => {
                        self.unknown = true;
                        (None, String::new())
                    }
                };
                let columns = vec![alias.map_or_else(|| name.clone(), |alias| fold(&alias.name))];
                self.made(columns, alias, &name)
            }
        };
        self.push(source);
    }

    fn push(&mut self, source: Source) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(source);
        }
    }

    fn made(&self, columns: Vec<String>, alias: Option<&TableAlias>, name: &str) -> Source {
        let (name, columns) = (name.to_owned(), of_query(columns));
        Source { schema: None, name, columns, needs: Vec::new() }.aliased(alias)
    }

    /// A statement that writes; the columns that it returns.
    pub(super) fn statement(&mut self, statement: &Statement) -> Vec<String> {
        match statement {
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => self.delete(delete),
            Statement::Query(query) => self.query(query),
            Statement::Merge(merge) => self.merge(merge),
            _ => {
                self.unknown = true;
                Vec::new()
            }
        }
    }

    fn returning(&mut self, items: Option<&Vec<SelectItem>>) -> Vec<String> {
        let mut columns = Vec::new();
        items.into_iter().flatten().for_each(|item| self.item(item, &mut columns));
        columns
    }

    pub(super) fn insert(&mut self, insert: &Insert) -> Vec<String> {
        let TableObject::TableName(name) = &insert.table else {
            self.unknown = true;
            return Vec::new();
        };
        let mut target = self.relation(name, bits::INSERT);
        let last = |name: &ObjectName| name.0.last()?.as_ident().map(fold);
        let mut into: Vec<String> = insert.columns.iter().filter_map(last).collect();
        let mut values = match &insert.source {
            Some(source) => self.deeper(source).len(),
            None => 0,
        };
        if into.is_empty() {
            into = target.names().cloned().collect();
        } else {
            values = into.len();
        }
        for need in &target.needs {
            self.needs[*need].inserted.names.extend(into.iter().take(values).cloned());
        }
        if let Some(alias) = &insert.table_alias {
            target.name = fold(&alias.alias);
        }
        let needs = target.needs.clone();
        self.scopes.push(vec![target]);
        if let Some(OnInsert::OnConflict(conflict)) = &insert.on {
            match &conflict.conflict_target {
                Some(ConflictTarget::Columns(columns)) => {
                    for column in columns {
                        self.select_from(&needs, Some(&fold(column)));
                    }
                }
                Some(ConflictTarget::OnConstraint(constraint)) => {
                    let name = last(constraint).unwrap_or_default();
                    self.constraint(&needs, &name);
                }
                None => {}
            }
            if let OnConflictAction::DoUpdate(update) = &conflict.action {
                let name = "excluded".to_owned();
                // As in PostgreSQL, what was to be inserted is read as the table is.
                let columns = self.scopes.last().map_or_else(Vec::new, |s| s[0].columns.clone());
                self.push(Source { schema: None, name, columns, needs: needs.clone() });
                self.assign(&needs, &update.assignments);
                update.selection.iter().for_each(|expr| self.expr(expr));
                if let Some(scope) = self.scopes.last_mut() {
                    scope.pop();
                }
            }
        }
        let columns = self.returning(insert.returning.as_ref());
        self.scopes.pop();
        columns
    }

    /// ON CONFLICT ON CONSTRAINT: its columns are read.
    fn constraint(&mut self, needs: &[usize], name: &str) {
        let mut columns = Vec::new();
        for need in needs {
            let Some(table) = self.names.catalog.tables.get(&self.needs[*need].relation) else {
                continue;
            };
            let index = table.def.indexes.iter().find(|index| index.name == name);
            for part in index.iter().flat_map(|index| &index.spec.key) {
                columns.extend(table.def.column_by_id(part.column).map(|c| c.name.clone()));
            }
        }
        columns.iter().for_each(|column| self.select_from(needs, Some(column)));
    }

    fn assign(&mut self, needs: &[usize], assignments: &[Assignment]) {
        for need in needs {
            self.needs[*need].required |= bits::UPDATE;
        }
        for assignment in assignments {
            let targets = match &assignment.target {
                AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
                AssignmentTarget::Tuple(names) => names.as_slice(),
            };
            for name in targets.iter().filter_map(|n| n.0.last()?.as_ident()) {
                for need in needs {
                    self.needs[*need].updated.names.insert(fold(name));
                }
            }
            self.expr(&assignment.value);
        }
    }

    /// The table that a statement writes to.
    fn target(&mut self, factor: &TableFactor, required: u16) -> Vec<usize> {
        let TableFactor::Table { name, alias, .. } = factor else {
            self.unknown = true;
            return Vec::new();
        };
        let source = self.relation(name, required);
        let needs = source.needs.clone();
        let source = source.aliased(alias.as_ref());
        self.push(source);
        needs
    }

    pub(super) fn update(&mut self, update: &Update) -> Vec<String> {
        self.scopes.push(Vec::new());
        let needs = self.target(&update.table.relation, bits::UPDATE);
        if let Some(
            UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables),
        ) = &update.from
        {
            tables.iter().for_each(|table| self.from(table));
        }
        self.assign(&needs, &update.assignments);
        update.selection.iter().for_each(|expr| self.expr(expr));
        let columns = self.returning(update.returning.as_ref());
        self.scopes.pop();
        columns
    }

    pub(super) fn merge(&mut self, merge: &Merge) -> Vec<String> {
        self.scopes.push(Vec::new());
        let needs = self.target(&merge.table, 0);
        self.factor(&merge.source);
        self.expr(&merge.on);
        let last = |name: &ObjectName| name.0.last()?.as_ident().map(fold);
        for clause in &merge.clauses {
            clause.predicate.iter().for_each(|expr| self.expr(expr));
            match &clause.action {
                MergeAction::Delete { .. } => self.require(&needs, bits::DELETE),
                // DO NOTHING
                MergeAction::Update(update) if update.assignments.is_empty() => {}
                MergeAction::Update(update) => self.assign(&needs, &update.assignments),
                MergeAction::Insert(insert) => {
                    self.require(&needs, bits::INSERT);
                    let all = |scope: &Vec<Source>| scope[0].names().cloned().collect();
                    let all = self.scopes.last().map_or_else(Vec::new, all);
                    let named: Vec<String> = insert.columns.iter().filter_map(last).collect();
                    let into = if named.is_empty() { all } else { named };
                    let mut width = 0;
                    if let MergeInsertKind::Values(values) = &insert.kind {
                        for row in &values.rows {
                            row.iter().for_each(|expr| self.expr(expr));
                            width = row.iter().count();
                        }
                    }
                    for need in &needs {
                        self.needs[*need].inserted.names.extend(into.iter().take(width).cloned());
                    }
                }
            }
        }
        self.scopes.pop();
        Vec::new()
    }

    fn require(&mut self, needs: &[usize], privilege: u16) {
        for need in needs {
            self.needs[*need].required |= privilege;
        }
    }

    pub(super) fn delete(&mut self, delete: &Delete) -> Vec<String> {
        self.scopes.push(Vec::new());
        let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
        for table in tables {
            self.target(&table.relation, bits::DELETE);
        }
        delete.using.iter().flatten().for_each(|table| self.from(table));
        delete.selection.iter().for_each(|expr| self.expr(expr));
        let columns = self.returning(delete.returning.as_ref());
        self.scopes.pop();
        columns
    }
}

impl Look for Walk<'_> {
    fn expr(&mut self, expr: &Expr) -> Flow {
        if self.within > 0 {
            return GO_ON;
        }
        match expr {
            Expr::Identifier(ident) => self.mention(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(idents) => self.mention(idents),
            Expr::QualifiedWildcard(name, _) => self.mark_row(name),
            Expr::Wildcard(_) => self.mark_all(None),
            Expr::Function(function) => {
                if let FunctionArguments::List(list) = &function.args {
                    for argument in &list.args {
                        let (FunctionArg::Unnamed(argument)
                        | FunctionArg::Named { arg: argument, .. }
                        | FunctionArg::ExprNamed { arg: argument, .. }) = argument;
                        match argument {
                            FunctionArgExpr::QualifiedWildcard(name) => self.mark_row(name),
                            // Of count(*), which reads no column; or nobody's.
                            FunctionArgExpr::Wildcard | FunctionArgExpr::Expr(_) => {}
                            #[allow(unreachable_patterns)]
                            _ => self.mark_all(None),
                        }
                    }
                }
            }
            _ => {}
        }
        GO_ON
    }

    fn query(&mut self, query: &Query) -> Flow {
        // A query in an expression sees its scopes; what is within it, it has looked at itself.
        if self.within == 0 {
            self.deeper(query);
        }
        self.within += 1;
        GO_ON
    }

    fn query_end(&mut self) {
        self.within = self.within.saturating_sub(1);
    }
}

/// The name of an output column that has none of its own.
fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => fold(ident),
        Expr::CompoundIdentifier(idents) => idents.last().map(fold).unwrap_or_default(),
        Expr::Function(function) => {
            function.name.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default()
        }
        Expr::Cast { expr, .. } | Expr::Nested(expr) => name_of(expr),
        _ => UNNAMED.to_owned(),
    }
}
