//! CREATE, REFRESH and DROP MATERIALIZED VIEW.
//!
//! ```text
//!   the catalog    a table with the view's name and indexes, and its query, an object of its own, which rests
//!                  on what it reads as a view does: plain.rs
//!   REFRESH        TRUNCATE and INSERT: the rows are new ones in a new row space, from the commit on; who reads
//!                  meanwhile reads those there were, and a second REFRESH waits for the first
//! ```

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{ObjectName, Query};
use froglet_engine::SqlState;
use froglet_schema::plain::{Materialized, PlainDef, ViewDef};
use froglet_schema::{
    Change, Expression, NewColumn, NewTable, ObjectId, SqlType, TableDef, TableVersion,
};

use crate::apply::{Stop, Writer};
use crate::ddl::Ddl;
use crate::deferred::Deferred;
use crate::error::SqlError;
use crate::insert::Inserter;
use crate::insert_plan::target_of;
use crate::object_ddl::CreateView;
use crate::plan::Planner;
use crate::query::QueryEnv;
use crate::query_rows::RowsQuery;
use crate::resolve::{Names, Relation};
use crate::table::compiled;
use crate::table_query::new_column;
use crate::temporary::is_temporary;
use crate::{ddl_view, storage_options, view};

impl Ddl<'_> {
    pub(crate) async fn create_materialized_view(
        &mut self,
        create: &CreateView,
    ) -> Result<String, Stop> {
        let (schema, name) = Names::parts(&create.name)?;
        let schema = self.names().creation_schema(schema)?;
        crate::ddl_column::check_name(&name)?;
        if self.names().find(Some(&schema), &name).is_some() {
            let message = format!("relation \"{name}\" already exists");
            if !create.if_not_exists {
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message).into());
            }
            self.notice(SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
            return Ok("CREATE MATERIALIZED VIEW".to_owned());
        }
        let env = QueryEnv::new(self.version.clone(), self.session.clone());
        let columns =
            ddl_view::columns(&create.query, &create.columns, &env).map_err(|e| {
                match e.message.as_str() {
                    "CREATE VIEW specifies more column names than columns" => {
                        SqlError::new(e.state, "too many column names were specified")
                    }
                    _ => e,
                }
            })?;
        let sources = ddl_view::sources(&create.query, &env)?;
        let keys = crate::view::keys(&create.query, &env, &sources);
        let of_session = |id: ObjectId| match self.version.tables.get(&id) {
            Some(table) => is_temporary(&table.def.schema),
            None => self.version.view(id).is_some_and(|view| is_temporary(&view.schema)),
        };
        if sources.iter().any(|source| of_session(source.relation)) {
            let message = "materialized views must not use temporary tables or views";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        }
        let mut query = create.query.clone();
        crate::stored_names::to_numbers(&mut query, &self.names());
        let stored = columns.iter().map(|column| new_column(column.name.clone(), column.sql_type));
        let stored: Vec<NewColumn> = stored.collect::<Result<_, SqlError>>()?;
        let table = NewTable {
            schema: schema.clone(),
            name: name.clone(),
            columns: stored,
            constraints: Vec::new(),
            dictionary: storage_options::of_table(&create.options)?.flatten(),
            home: self.home(create.method.clone())?,
        };
        let table = self.apply(Change::CreateTable(table)).await?.ok_or(Stop::Restart)?;
        let def = ViewDef {
            id: 0,
            schema,
            name,
            columns,
            query: Expression(crate::stored::text_of(&query)),
            path: self.path.to_vec(),
            keys,
            sources,
            check_option: None,
            materialized: Some(Materialized { table, populated: create.with_data }),
        };
        self.apply(Change::CreatePlain(PlainDef::View(def))).await?;
        if !create.with_data {
            return Ok("CREATE MATERIALIZED VIEW".to_owned());
        }
        let rows = Box::pin(self.populate(table)).await?;
        Ok(format!("SELECT {rows}"))
    }

    pub(crate) async fn refresh(
        &mut self,
        name: &ObjectName,
        concurrently: bool,
        with_data: bool,
    ) -> Result<String, Stop> {
        let bare = Names::parts(name)?.1;
        if !matches!(self.names().relation(name)?, Some(Relation::Table(_)) | None) {
            let message = format!("\"{bare}\" is not a table or materialized view");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).into());
        }
        let table = self.table(name)?;
        let Some(view) = self.version.materialized(table.def.id).cloned() else {
            let message = format!("\"{bare}\" is not a materialized view");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).into());
        };
        let was = view.materialized.ok_or(Stop::Restart)?;
        if concurrently {
            refuse_concurrently(&table.def, was.populated, with_data)?;
        }
        let table = table.def.id;
        self.apply(Change::Truncate { table }).await?;
        if was.populated != with_data {
            let materialized = Some(Materialized { populated: with_data, ..was });
            let def = ViewDef { materialized, ..view };
            self.apply(Change::ReplacePlain(PlainDef::View(def))).await?;
        }
        if with_data {
            Box::pin(self.populate(table)).await?;
        }
        Ok("REFRESH MATERIALIZED VIEW".to_owned())
    }

    /// Runs the query of a materialized view that has no rows; how many it has then.
    async fn populate(&mut self, table: ObjectId) -> Result<u64, Stop> {
        let view = self.version.materialized(table).ok_or(Stop::Restart)?;
        let query = view::current_query(&**self.session, &self.version, view)?;
        let table = self.table_by_id(table)?;
        let targets = table.def.columns.iter().map(target_of).collect();
        let types: Vec<SqlType> = table.def.columns.iter().map(|c| c.sql_type).collect();
        let query = self.rows_query(&query, &types).await?;
        self.insert_rows(&table, query.cast_to(targets)?).await
    }

    /// A query of rows for columns of these types.
    pub(crate) async fn rows_query(
        &self,
        query: &Query,
        types: &[SqlType],
    ) -> Result<RowsQuery, Stop> {
        let mut planner = Planner {
            catalog: &self.version,
            path: &self.path,
            fast: false,
            session: self.session,
            returned: Vec::new(),
        };
        Ok(RowsQuery::plan(&mut planner, query, &[], types).await?.0)
    }

    /// Writes the rows of a query to a table that has none; how many they are.
    pub(crate) async fn insert_rows(
        &mut self,
        table: &Arc<TableVersion>,
        query: RowsQuery,
    ) -> Result<u64, Stop> {
        let all = (0..table.def.columns.len()).collect();
        // What its indexes are over beside its columns is computed.
        let inserter = Inserter::new(table, compiled(table)?, all, &self.version)?;
        let mut deferred = Deferred::default();
        let mut writer = Writer {
            txn: self.txn,
            catalog: self.catalog,
            version: self.version.clone(),
            limits: self.limits,
            deferred: &mut deferred,
            eval: self.eval,
            session: self.session,
            first_view: None,
            duplicate: None,
            returned: Vec::new(),
            hidden: None,
        };
        inserter.fill(&query, &mut writer).await
    }

    pub(crate) async fn drop_materialized_views(
        &mut self,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<String, Stop> {
        let mut tables = Vec::new();
        for name in names {
            let bare = Names::parts(name)?.1;
            let what = match self.names().relation(name)? {
                Some(Relation::Table(table)) => {
                    if self.version.materialized(table.def.id).is_some() {
                        tables.push(table.def.id);
                        continue;
                    }
                    "table"
                }
                Some(Relation::View(_)) => "view",
                Some(Relation::Sequence(_)) => "sequence",
                Some(Relation::Index(..)) => "index",
                None if if_exists => {
                    self.skip("materialized view", name)?;
                    continue;
                }
                None => {
                    let message = format!("materialized view \"{bare}\" does not exist");
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).into());
                }
            };
            let article = if what == "index" { "an" } else { "a" };
            let message = format!("\"{bare}\" is not a materialized view");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .hint(format!("Use DROP {} to remove {article} {what}.", what.to_uppercase()))
                .into());
        }
        // One that another of them reads needs no CASCADE: the other first.
        while !tables.is_empty() {
            let is_read = |id: &ObjectId| {
                let mut over = self.version.views_over(*id).filter_map(|v| v.materialized);
                over.any(|m| tables.contains(&m.table))
            };
            let at = tables.iter().position(|id| !is_read(id)).unwrap_or(0);
            let table = tables.swap_remove(at);
            if self.version.tables.contains_key(&table) {
                self.apply(Change::DropTable { table, cascade }).await?;
            }
        }
        Ok("DROP MATERIALIZED VIEW".to_owned())
    }
}

fn refuse_concurrently(table: &TableDef, populated: bool, with_data: bool) -> Result<(), SqlError> {
    if !populated {
        let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if !with_data {
        let message = "CONCURRENTLY and WITH NO DATA options cannot be used together";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    if !table.indexes.iter().any(|index| index.spec.unique) {
        let message = format!(
            "cannot refresh materialized view \"{}.{}\" concurrently",
            table.schema, table.name
        );
        return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(
            "Create a unique index with no WHERE clause on one or more columns of the materialized view.",
        ));
    }
    Ok(())
}

/// 55000 of a materialized view whose query has not been run.
pub(crate) fn unpopulated(name: &str) -> SqlError {
    SqlError::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("materialized view \"{name}\" has not been populated"),
    )
    .hint("Use the REFRESH MATERIALIZED VIEW command.")
}
