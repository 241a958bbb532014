//! CREATE, ALTER and DROP VIEW.
//!
//! What a view reads is written down when it is made ([`crate::view`]), so that names may change beneath it.

use datafusion::sql::sqlparser::ast::{self, ObjectName};
use froglet_engine::{ColumnId, SqlState};
use froglet_schema::plain::{PlainDef, ViewColumn, ViewDef, ViewSource};
use froglet_schema::{Change, Expression, ObjectId};
use std::collections::HashSet;

use crate::apply::Stop;
use crate::command::fold;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::object_ddl::{CreateView, Kind};
use crate::query::{self, QueryEnv};
use crate::resolve::{Names, Relation};
use crate::storage_options;
use crate::stored;
use crate::types::{self, oids};
use crate::view;
use crate::walk::{self, Flow, GO_ON, Look};

impl Ddl<'_> {
    pub(crate) async fn create_view(&mut self, create: &CreateView) -> Result<String, Stop> {
        if create.materialized {
            return self.create_materialized_view(create).await;
        }
        let (schema, name) = Names::parts(&create.name)?;
        let schema = match create.temporary {
            true => self.temporary_schema_of(schema).await?,
            false => self.names().creation_schema(schema)?,
        };
        crate::ddl_column::check_name(&name)?;
        let before = match self.names().find(Some(&schema), &name) {
            None => None,
            Some(Relation::View(view)) if create.or_replace => Some(view.clone()),
            Some(_) if create.or_replace => {
                let message = format!("\"{name}\" is not a view");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
            }
            Some(_) => {
                let message = format!("relation \"{name}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message).into());
            }
        };
        let env = QueryEnv::new(self.version.clone(), self.session.clone());
        let columns = columns(&create.query, &create.columns, &env)?;
        let mut sources = sources(&create.query, &env)?;
        // What is asked for beside a part of WITH of this name.
        let is_part =
            |with: &ast::With| with.cte_tables.iter().any(|p| fold(&p.alias.name) == name);
        if create.query.with.as_ref().is_some_and(is_part) {
            sources.retain(|source| source.schema.is_some() || source.name != name);
        }
        crate::stored_names::check_names(&create.query, self.session.as_ref())?;
        let mut query = create.query.clone();
        crate::stored_names::to_numbers(&mut query, &self.names());
        let def = ViewDef {
            id: before.as_ref().map_or(0, |view| view.id),
            schema,
            name,
            columns,
            query: Expression(stored::text_of(&query)),
            path: self.path.to_vec(),
            keys: view::keys(&create.query, &env, &sources),
            sources,
            check_option: storage_options::of_view(&create.options)?.or(create.check_option),
            materialized: None,
        };
        match before {
            None => {
                self.apply(Change::CreatePlain(PlainDef::View(def))).await?;
            }
            Some(before) => {
                may_replace(&before, &def)?;
                self.refuse_circle(&def)?;
                self.apply(Change::ReplacePlain(PlainDef::View(def))).await?;
            }
        }
        Ok("CREATE VIEW".to_owned())
    }

    /// A view that reads itself, by way of others or not, has no rows to begin with.
    fn refuse_circle(&self, def: &ViewDef) -> Result<(), SqlError> {
        let mut left: Vec<ObjectId> = def.sources.iter().map(|s| s.relation).collect();
        let mut seen = HashSet::new();
        while let Some(relation) = left.pop() {
            if relation == def.id {
                return Err(SqlError::new(
                    SqlState::new("42P17"),
                    format!("infinite recursion detected in rules for relation \"{}\"", def.name),
                ));
            }
            if let Some(view) = self.version.view(relation)
                && seen.insert(relation)
            {
                left.extend(view.sources.iter().map(|s| s.relation));
            }
        }
        Ok(())
    }

    pub(crate) async fn rename_object(
        &mut self,
        kind: Kind,
        if_exists: bool,
        name: &ObjectName,
        to: &str,
    ) -> Result<String, Stop> {
        let tag = kind.tag("ALTER");
        let Some(object) = self.object(kind, if_exists, name)? else { return Ok(tag) };
        crate::ddl_column::check_name(to)?;
        if let Some(table) = self.version.tables.get(&object) {
            let schema = table.def.schema.clone();
            self.refuse_taken(&schema, to)?;
            let name = to.to_owned();
            self.apply(Change::RenameTable { table: object, schema, name }).await?;
            return Ok(tag);
        }
        let mut def = (**self.version.plain.get(&object).ok_or(Stop::Restart)?).clone();
        match &mut def {
            PlainDef::View(view) => {
                self.refuse_taken(&view.schema, to)?;
                to.clone_into(&mut view.name);
            }
            PlainDef::Enum(def) => {
                if self.version.types.contains_key(&(def.schema.clone(), to.to_owned())) {
                    let message = format!("type \"{to}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).into());
                }
                to.clone_into(&mut def.name);
            }
            _ => return Err(Stop::Restart),
        }
        self.apply(Change::ReplacePlain(def)).await?;
        Ok(tag)
    }

    pub(crate) async fn rename_view_column(
        &mut self,
        kind: Kind,
        if_exists: bool,
        name: &ObjectName,
        column: &str,
        to: &str,
    ) -> Result<String, Stop> {
        let tag = kind.tag("ALTER");
        let Some(object) = self.object(kind, if_exists, name)? else { return Ok(tag) };
        crate::ddl_column::check_name(to)?;
        let relation = Names::parts(name)?.1;
        let names: Vec<String> = match self.version.tables.get(&object) {
            Some(table) => table.def.columns.iter().map(|c| c.name.clone()).collect(),
            None => self
                .version
                .view(object)
                .map(|view| view.columns.iter().map(|c| c.name.clone()).collect())
                .unwrap_or_default(),
        };
        let Some(at) = names.iter().position(|known| known == column) else {
            let message = format!("column \"{column}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).into());
        };
        if names.iter().any(|known| known == to) {
            let message = format!("column \"{to}\" of relation \"{relation}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).into());
        }
        if self.version.tables.contains_key(&object) {
            let (column, name) = (column.to_owned(), to.to_owned());
            self.apply(Change::RenameColumn { table: object, column, name }).await?;
            return Ok(tag);
        }
        let Some(mut def) = self.version.view(object).cloned() else { return Err(Stop::Restart) };
        to.clone_into(&mut def.columns[at].name);
        self.apply(Change::ReplacePlain(PlainDef::View(def))).await?;
        Ok(tag)
    }

    pub(crate) async fn drop_views(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<String, Stop> {
        let mut views = Vec::new();
        for name in names {
            if self.drop_unreadable(name, cascade).await? {
                continue;
            }
            let bare = Names::parts(name)?.1;
            match self.names().relation(name)? {
                Some(Relation::View(view)) => views.push(view.id),
                Some(_) => {
                    let message = format!("\"{bare}\" is not a view");
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                        .hint(self.how_to_drop(name)?)
                        .into());
                }
                None if if_exists => self.skip("view", name)?,
                None => {
                    let message = format!("view \"{bare}\" does not exist");
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).into());
                }
            }
        }
        // A view that another one of them reads needs no CASCADE: the other first.
        while !views.is_empty() {
            let is_read =
                |id: &ObjectId| self.version.views_over(*id).any(|v| views.contains(&v.id));
            let at = views.iter().position(|id| !is_read(id)).unwrap_or(0);
            let view = views.swap_remove(at);
            self.drop_view(view, cascade).await?;
        }
        Ok("DROP VIEW".to_owned())
    }

    /// The hint of a DROP that is not for the kind of relation that a name means.
    pub(crate) fn how_to_drop(&self, name: &ObjectName) -> Result<String, SqlError> {
        let what = match self.names().relation(name)? {
            Some(Relation::Table(table)) if self.version.materialized(table.def.id).is_some() => {
                "a materialized view"
            }
            Some(Relation::Table(_)) | None => "a table",
            Some(Relation::View(_)) => "a view",
            Some(Relation::Sequence(_)) => "a sequence",
            Some(Relation::Index(..)) => "an index",
        };
        let words = what.split_once(' ').map_or(what, |(_, words)| words);
        Ok(format!("Use DROP {} to remove {what}.", words.to_uppercase()))
    }

    /// A view that may have gone already.
    pub(crate) async fn drop_view(&mut self, view: ObjectId, cascade: bool) -> Result<(), Stop> {
        let Some(def) = self.version.view(view) else { return Ok(()) };
        if let Some(materialized) = def.materialized {
            let table = materialized.table;
            self.apply(Change::DropTable { table, cascade }).await?;
            return Ok(());
        }
        let name = def.name.clone();
        let over: Vec<(ObjectId, String)> =
            self.version.views_over(view).map(|v| (v.id, self.version.called(v))).collect();
        if let (Some((_, other)), false) = (over.first(), cascade) {
            return Err(SqlError::new(
                SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                format!("cannot drop view {name} because other objects depend on it"),
            )
            .detail(format!("{other} depends on view {name}"))
            .hint("Use DROP ... CASCADE to drop the dependent objects too.")
            .into());
        }
        for (other, _) in over {
            Box::pin(self.drop_view(other, true)).await?;
        }
        Box::pin(self.release(view, &format!("view {name}"), &[], cascade)).await?;
        self.apply(Change::DropPlain { object: view }).await?;
        Ok(())
    }
}

/// The columns of a view's query, the first of which have these names.
pub(crate) fn columns(
    query: &ast::Query,
    names: &[String],
    env: &QueryEnv,
) -> Result<Vec<ViewColumn>, SqlError> {
    let planned = query::plan(query, env, &[], &[])?;
    if !planned.params().is_empty() {
        return Err(SqlError::new(SqlState::new("42P02"), "there is no parameter $1"));
    }
    let mut columns: Vec<ViewColumn> = planned
        .fields()
        .iter()
        .map(|field| {
            let sql_type = match field.sql_type.oid {
                oids::UNKNOWN => types::plain(oids::TEXT),
                _ => field.sql_type,
            };
            ViewColumn { name: field.name.clone(), sql_type }
        })
        .collect();
    if names.len() > columns.len() {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "CREATE VIEW specifies more column names than columns",
        ));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name.clone_from(name);
    }
    crate::ddl_table::refuse_duplicates(columns.iter().map(|column| column.name.as_str()))?;
    Ok(columns)
}

/// What a view's query reads. Which of the columns it needs is said by its plan. Where that does not tell, it is
/// said by their names: a column of which the query has no name, and which no `*` stands for, it can be without.
pub(crate) fn sources(query: &ast::Query, env: &QueryEnv) -> Result<Vec<ViewSource>, SqlError> {
    let mut sources = view::sources(query, env)?;
    let mut mentioned = Mentioned::default();
    walk::look(query, &mut mentioned);
    if view::find_used(query, env, &mut sources, &mentioned.names) {
        return Ok(sources);
    }
    for source in &mut sources {
        let is_used = |name: &str| mentioned.all || mentioned.names.contains(name);
        let used = source.columns.iter().filter(|(name, _)| is_used(name));
        source.used = used.map(|(_, id)| *id).collect();
    }
    Ok(sources)
}

/// The names in a query.
#[derive(Default)]
struct Mentioned {
    names: HashSet<String>,
    /// There is a `*`, or a join by the names that two tables share.
    all: bool,
}

impl Look for Mentioned {
    fn expr(&mut self, expr: &ast::Expr) -> Flow {
        match expr {
            ast::Expr::Identifier(ident) => {
                self.names.insert(fold(ident));
            }
            ast::Expr::CompoundIdentifier(idents) => {
                self.names.extend(idents.iter().map(fold));
            }
            ast::Expr::CompoundFieldAccess { .. } => self.all = true,
            _ => {}
        }
        GO_ON
    }

    fn select(&mut self, select: &ast::Select) -> Flow {
        let is_star = |item: &ast::SelectItem| {
            matches!(item, ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..))
        };
        self.all |= select.projection.iter().any(is_star);
        select.from.iter().for_each(|from| self.joins(from));
        GO_ON
    }
}

impl Mentioned {
    fn joins(&mut self, from: &ast::TableWithJoins) {
        let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|j| &j.relation));
        for factor in factors {
            if let ast::TableFactor::NestedJoin { table_with_joins, .. } = factor {
                self.joins(table_with_joins);
            }
        }
        for join in &from.joins {
            self.join(join);
        }
    }

    fn join(&mut self, join: &ast::Join) {
        use ast::JoinOperator::*;
        let constraint = match &join.join_operator {
            Join(c) | Inner(c) | Left(c) | LeftOuter(c) | Right(c) | RightOuter(c)
            | FullOuter(c) => c,
            _ => return,
        };
        match constraint {
            ast::JoinConstraint::Using(names) => {
                let last = |name: &ObjectName| name.0.last()?.as_ident().map(fold);
                self.names.extend(names.iter().filter_map(last));
            }
            ast::JoinConstraint::Natural => self.all = true,
            ast::JoinConstraint::On(_) | ast::JoinConstraint::None => {}
        }
    }
}

/// CREATE OR REPLACE keeps the columns there are, and may add some.
fn may_replace(before: &ViewDef, after: &ViewDef) -> Result<(), SqlError> {
    let state = SqlState::new("42P16");
    if after.columns.len() < before.columns.len() {
        return Err(SqlError::new(state, "cannot drop columns from view"));
    }
    for (was, is) in before.columns.iter().zip(&after.columns) {
        if was.name != is.name {
            return Err(SqlError::new(
                state,
                format!("cannot change name of view column \"{}\" to \"{}\"", was.name, is.name),
            )
            .hint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead."));
        }
        if was.sql_type != is.sql_type {
            let (from, to) = (types::type_name(was.sql_type), types::type_name(is.sql_type));
            return Err(SqlError::new(
                state,
                format!(
                    "cannot change data type of view column \"{}\" from {from} to {to}",
                    was.name
                ),
            ));
        }
    }
    Ok(())
}

/// A view's columns are numbered from 1.
pub(crate) fn column_ids(view: &ViewDef) -> Vec<(String, ColumnId)> {
    let numbers = (1..).map(ColumnId);
    view.columns.iter().map(|column| column.name.clone()).zip(numbers).collect()
}
