//! Views in queries: the text of a view, planned over what it read when it was made.
//!
//! ```text
//!   CREATE VIEW v AS SELECT a FROM t      sources: t = relation 16385 with columns a = #1, b = #2
//!   ALTER TABLE t RENAME a TO aa, ADD c   the view's text stays; t in it is still (#1 AS a, #2 AS b)
//!
//!   SELECT … FROM v    ─▶  SubqueryAlias v ( Projection v's columns ( plan of the text ( t as it was )))
//! ```
//!
//! DataFusion puts the plan in place of the view while it plans, so predicates and projections go through.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableSource};
use datafusion::sql::planner::PlannerContext;
use datafusion::sql::sqlparser::ast;
use froglet_engine::ColumnId;
use froglet_schema::plain::{ViewDef, ViewSource};
use froglet_schema::{CatalogVersion, ObjectId};

use crate::command::fold;
use crate::context::SessionFunctions;
use crate::df_error::map_df_error;
use crate::error::SqlError;
use crate::names::uses;
use crate::parse::parse_query;
use crate::planning::{PlanContext, Tables};
use crate::provider::CatalogTables;
use crate::query::QueryEnv;
use crate::resolve::Names;
use crate::rewrite_subquery;
use crate::semantics::fieldnames::figure_name;
use crate::semantics::{casts, copies, grouping_sets, windows};
use crate::stack;
use crate::stored;
use crate::types::sql_type_of_field;
use crate::udf::lookup::{self, quote_ident};
use crate::walk::{self, Change};
use crate::{ddl_view, recursive, resolve};

/// Views within views.
const MAX_DEPTH: usize = 64;

/// A plan in place of a table.
pub(crate) struct Inlined {
    plan: LogicalPlan,
    schema: SchemaRef,
}

impl fmt::Debug for Inlined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inlined")
    }
}

impl TableSource for Inlined {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_logical_plan(&'_ self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }
}

fn inlined(plan: LogicalPlan) -> Arc<dyn TableSource> {
    let schema = Arc::new(plan.schema().as_arrow().clone());
    Arc::new(Inlined { plan, schema })
}

/// A view as queries read it.
pub(crate) fn source(
    view: &ViewDef,
    tables: &CatalogTables,
) -> Result<Arc<dyn TableSource>, SqlError> {
    if tables.depth >= MAX_DEPTH {
        return Err(SqlError::new(
            froglet_engine::SqlState::STATEMENT_TOO_COMPLEX,
            format!("views are nested more than {MAX_DEPTH} deep"),
        ));
    }
    let what = || format!("view \"{}\"", view.name);
    let query = parse_query(&view.query.0).map_err(|e| stored::unreadable(e, &what()))?;
    let within = CatalogTables { depth: tables.depth + 1, ..tables.clone() };
    let own = OfView { sources: &view.sources, keyless: None, tables: &within };
    let plan = match plan_of(&query, &own, tables) {
        Err(_) if rewrite_subquery::mentions_nothing(&query) => {
            let mut simpler = query.clone();
            rewrite_subquery::empty_selects(&mut simpler);
            plan_of(&simpler, &own, tables)?
        }
        planned => planned?,
    };
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .zip(&view.columns)
        .map(|((qualifier, field), column)| {
            let expr = Expr::from((qualifier, field));
            let expr = match sql_type_of_field(field) == column.sql_type {
                true => expr,
                false => casts::call(expr, column.sql_type),
            };
            expr.alias(&column.name)
        })
        .collect();
    let project = |plan| LogicalPlanBuilder::from(plan).project(columns)?.build();
    Ok(inlined(project(plan).map_err(map_df_error)?))
}

fn plan_of(
    query: &ast::Query,
    tables: &dyn Tables,
    outer: &CatalogTables,
) -> Result<LogicalPlan, SqlError> {
    stack::for_query(query, || {
        let mut query = crate::rewrite::rewrite_query(query)?;
        let context = PlanContext::new(tables, outer.options.clone());
        let planned = |query: &ast::Query| {
            let statement = ast::Statement::Query(Box::new(query.clone()));
            context
                .planner()
                .sql_statement_to_plan_with_context(statement, &mut PlannerContext::new())
                .and_then(grouping_sets::name_expressions)
                .and_then(copies::number_copies)
                .and_then(windows::lower_subqueries)
                .and_then(casts::rewrite_plan)
                .map_err(map_df_error)
        };
        recursive::type_terms(&mut query, &|term| {
            Ok(planned(term)?.schema().fields().iter().cloned().collect())
        })?;
        planned(&query)
    })
}

/// Names within a view's text.
struct OfView<'a> {
    sources: &'a [ViewSource],
    /// A table that is read as if it had no primary key.
    keyless: Option<ObjectId>,
    tables: &'a CatalogTables,
}

/// A table of which nobody knows that it has a primary key.
struct Keyless(Arc<dyn TableSource>);

impl fmt::Debug for Keyless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyless")
    }
}

impl TableSource for Keyless {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        self.0.table_type()
    }
}

impl Tables for OfView<'_> {
    fn table(&self, name: &TableReference) -> Result<Arc<dyn TableSource>, SqlError> {
        let known = self.sources.iter().find(|source| {
            source.name == name.table() && source.schema.as_deref() == name.schema()
        });
        // What is not one of its sources is the system's.
        let gone = || resolve::no_relation(name.table());
        let Some(known) = known else {
            // A part of WITH is asked for here, too: it may have the name of the view itself.
            return match self.tables.relation(name) {
                Some(_) => Err(gone()),
                None => self.tables.table(name),
            };
        };
        let mut current = self.tables.by_id(known.relation).ok_or_else(gone)??;
        if self.keyless == Some(known.relation) {
            current = Arc::new(Keyless(current));
        }
        let names = columns_of(&self.tables.catalog, known.relation).ok_or_else(gone)?;
        let columns: Vec<Expr> = known
            .columns
            .iter()
            .filter_map(|(was, id)| {
                let at = names.iter().position(|(_, known)| known == id)?;
                let field = current.schema().field(at).name().clone();
                Some(Expr::Column(datafusion::common::Column::new_unqualified(field)).alias(was))
            })
            .collect();
        let scan = |current| LogicalPlanBuilder::scan(name.clone(), current, None);
        let plan = scan(current).and_then(|scan| scan.project(columns)?.build());
        Ok(inlined(plan.map_err(map_df_error)?))
    }
}

/// What a query reads of the catalog.
pub(crate) fn sources(query: &ast::Query, env: &QueryEnv) -> Result<Vec<ViewSource>, SqlError> {
    let tables = env.tables();
    let recording = Recording { tables: &tables, is_closed: false, seen: RefCell::default() };
    plan_of(query, &recording, &tables)?;
    Ok(recording.seen.into_inner())
}

/// Says of the sources of a query, which has names, which columns it uses; false if that cannot be said exactly.
/// A query that has just these columns is the same: it is planned over them.
pub(crate) fn find_used(
    query: &ast::Query,
    env: &QueryEnv,
    sources: &mut [ViewSource],
    mentioned: &HashSet<String>,
) -> bool {
    let tables = env.tables();
    let closed = Recording { tables: &tables, is_closed: true, seen: RefCell::default() };
    let Ok(plan) = plan_of(query, &closed, &tables) else { return false };
    let mut used = uses::of_plan(&plan, sources, mentioned);
    for (source, used) in sources.iter().zip(&mut used) {
        let key = env.catalog.tables.get(&source.relation).and_then(|t| t.def.primary_key());
        let needs_key = key.is_some() && needs_key(query, &tables, sources, source.relation);
        used.extend(
            key.filter(|_| needs_key)
                .into_iter()
                .flat_map(|index| index.spec.key.iter().map(|part| part.column)),
        );
    }
    let only: Vec<ViewSource> = sources
        .iter()
        .zip(&used)
        .map(|(source, used)| {
            let mut only = source.clone();
            only.columns.retain(|(_, id)| used.contains(id));
            only
        })
        .collect();
    let over_only = OfView { sources: &only, keyless: None, tables: &tables };
    let Ok(again) = plan_of(query, &over_only, &tables) else { return false };
    if again.schema().fields() != plan.schema().fields() {
        return false;
    }
    for (source, used) in sources.iter_mut().zip(used) {
        source.used = used.into_iter().collect();
    }
    true
}

/// The primary keys without which a query of a view is none: it groups by them.
pub(crate) fn keys(query: &ast::Query, env: &QueryEnv, sources: &[ViewSource]) -> Vec<ObjectId> {
    let tables = env.tables();
    let mut keys: Vec<ObjectId> = sources
        .iter()
        .filter_map(|source| {
            let table = &env.catalog.tables.get(&source.relation)?.def;
            let key = table.constraint_of_index(table.primary_key()?.spec.id)?;
            needs_key(query, &tables, sources, source.relation).then_some(key.id)
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn needs_key(
    query: &ast::Query,
    tables: &CatalogTables,
    sources: &[ViewSource],
    table: ObjectId,
) -> bool {
    let over = |keyless| plan_of(query, &OfView { sources, keyless, tables }, tables);
    over(Some(table)).is_err() && over(None).is_ok()
}

/// What has the columns of a view, and no plan of its own.
#[derive(Debug)]
struct Closed(SchemaRef);

impl TableSource for Closed {
    fn schema(&self) -> SchemaRef {
        self.0.clone()
    }
}

/// Writes down which relations are asked for.
struct Recording<'a> {
    tables: &'a CatalogTables,
    /// Views are not looked into.
    is_closed: bool,
    seen: RefCell<Vec<ViewSource>>,
}

impl Tables for Recording<'_> {
    fn table(&self, name: &TableReference) -> Result<Arc<dyn TableSource>, SqlError> {
        let source = self.tables.table(name)?;
        let mut seen = self.seen.borrow_mut();
        let is_known =
            |s: &ViewSource| s.name == name.table() && s.schema.as_deref() == name.schema();
        if let Some(relation) = self.tables.relation(name)
            && !seen.iter().any(is_known)
        {
            seen.push(ViewSource {
                schema: name.schema().map(str::to_owned),
                name: name.table().to_owned(),
                relation,
                columns: columns_of(&self.tables.catalog, relation).unwrap_or_default(),
                used: Vec::new(),
            });
        }
        if self.is_closed && source.get_logical_plan().is_some() {
            return Ok(Arc::new(Closed(source.schema())));
        }
        Ok(source)
    }
}

/// A view's query as a text that means the same under the names there are now; names that the search path does
/// not find have their schema.
pub(crate) fn definition(
    session: &dyn SessionFunctions,
    catalog: &CatalogVersion,
    view: &ViewDef,
    pretty: bool,
) -> String {
    let Ok(query) = current_query(session, catalog, view) else { return view.query.0.clone() };
    let text = crate::pgcatalog::query_text(session, catalog, view, &query, pretty);
    text.unwrap_or_else(|| format!(" {query};"))
}

/// A view's query under the names there are now.
pub(crate) fn current_query(
    session: &dyn SessionFunctions,
    catalog: &CatalogVersion,
    view: &ViewDef,
) -> Result<ast::Query, SqlError> {
    let mut query = parse_query(&view.query.0)?;
    let path = session.search_path();
    walk::change(&mut query, &mut Renaming { catalog, view, path: &path });
    crate::stored_names::to_names(&mut query);
    name_outputs(&mut query, catalog, view);
    Ok(query)
}

/// Gives what a query selects the names that the view's columns have, where they are others.
fn name_outputs(query: &mut ast::Query, catalog: &CatalogVersion, view: &ViewDef) {
    let relation = view.materialized.map_or(view.id, |m| m.table);
    let ast::SetExpr::Select(select) = &mut *query.body else { return };
    let Some(columns) = columns_of(catalog, relation) else { return };
    if columns.len() != select.projection.len() {
        return;
    }
    for (item, (name, _)) in select.projection.iter_mut().zip(&columns) {
        let alias = ast::Ident::new(quote_ident(name));
        match item {
            ast::SelectItem::UnnamedExpr(expr) if figure_name(expr) != *name => {
                *item = ast::SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
            ast::SelectItem::ExprWithAlias { alias: known, .. } if fold(known) != *name => {
                *known = alias;
            }
            _ => {}
        }
    }
}

/// Puts relations under today's names in place of those that a view's text knows.
struct Renaming<'a> {
    catalog: &'a CatalogVersion,
    view: &'a ViewDef,
    path: &'a [String],
}

impl Change for Renaming<'_> {
    // What is put in is not walked over: it mentions today's names.
    fn table_factor_end(&mut self, factor: &mut ast::TableFactor) {
        let ast::TableFactor::Table { name, alias, args: None, .. } = factor else { return };
        let Ok((schema, known)) = Names::parts(name) else { return };
        let is_it = |s: &&ViewSource| s.name == known && s.schema == schema;
        let Some(source) = self.view.sources.iter().find(is_it) else { return };
        let Some((schema, now)) = lookup::relation_of(self.catalog, source.relation) else {
            return;
        };
        let Some(columns) = columns_of(self.catalog, source.relation) else { return };
        let renamed: Vec<(&str, &str)> = source
            .columns
            .iter()
            .filter_map(|(was, id)| {
                let (is, _) = columns.iter().find(|(_, known)| known == id)?;
                Some((is.as_str(), was.as_str()))
            })
            .collect();
        let place = (schema.clone(), now.clone());
        let first = self
            .path
            .iter()
            .find(|schema| self.catalog.names.contains_key(&((*schema).clone(), now.clone())));
        let bare = first == Some(&place.0);
        let shown = match bare {
            true => quote_ident(&now),
            false => format!("{}.{}", quote_ident(&schema), quote_ident(&now)),
        };
        // A `*` stands for the columns that there were.
        let is_as_it_was =
            columns.len() == renamed.len() && renamed.iter().all(|(is, was)| is == was);
        let what = match is_as_it_was {
            true => shown,
            false => {
                let column = |(is, was): &(&str, &str)| match is == was {
                    true => quote_ident(is),
                    false => format!("{} AS {}", quote_ident(is), quote_ident(was)),
                };
                let list: Vec<String> = renamed.iter().map(column).collect();
                format!("(SELECT {} FROM {shown})", list.join(", "))
            }
        };
        let called = match (&alias, now == known && is_as_it_was) {
            (Some(alias), _) => format!(" AS {alias}").replacen("AS AS", "AS", 1),
            (None, true) => String::new(),
            (None, false) => format!(" AS {}", quote_ident(&known)),
        };
        let Ok(made) = parse_query(&format!("SELECT 1 FROM {what}{called}")) else { return };
        if let ast::SetExpr::Select(mut select) = *made.body
            && let Some(from) = select.from.pop()
        {
            *factor = from.relation;
        }
    }
}

/// The names of a relation's columns, and which they are.
fn columns_of(catalog: &CatalogVersion, relation: ObjectId) -> Option<Vec<(String, ColumnId)>> {
    if let Some(table) = catalog.tables.get(&relation) {
        return Some(table.def.columns.iter().map(|c| (c.name.clone(), c.id)).collect());
    }
    if catalog.sequences.contains_key(&relation) {
        let names = ["last_value", "log_cnt", "is_called"].map(str::to_owned);
        return Some(names.into_iter().zip((1..).map(ColumnId)).collect());
    }
    catalog.view(relation).map(ddl_view::column_ids)
}
