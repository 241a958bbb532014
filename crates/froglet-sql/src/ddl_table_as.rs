//! CREATE TABLE AS.
//!
//! ```text
//!   CREATE TABLE n [(names)] AS SELECT list FROM t WHERE condition
//!                                │              │        └─ which rows of t
//!                                └─ columns     └─ migrated by froglet-schema: n follows t until
//!                                                  the commit
//! ```
//!
//! How the query is run: `table_query.rs`. Whether before the commit or after it: [`Choice`].

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Query;
use froglet_engine::{Home, SqlState};
use froglet_schema::lazy::NO_WAY;
use froglet_schema::{
    Applied, Change, LazyQuery, LazyVerify, MadeOf, NewColumn, NewTable, ObjectId, SqlType,
    TableQuery,
};

use crate::apply::Stop;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::insert_plan::target_of;
use crate::lazy_query::{Mode, refused};
use crate::table_as_parse::TableAs;
use crate::table_query::{self, Lazily, MadeTable};
use crate::temporary::AtCommit;

/// A query of more rows than this takes long enough that somebody wants to know when it is run.
const ROWS_RUN_AT_ONCE: u64 = 100_000;

impl Ddl<'_> {
    pub(crate) async fn create_table_as(&mut self, table_as: &TableAs) -> Result<String, Stop> {
        let TableAs { create, names, with_data } = table_as;
        if !create.columns.is_empty() || !create.constraints.is_empty() {
            let message = "column definitions and constraints have no place in CREATE TABLE AS";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message)
                .hint("Name the columns without types, or ALTER TABLE in the same transaction.")
                .into());
        }
        let options = crate::storage_options::of_new_table(&create.table_options)?;
        let (dictionary, home) = (options.dictionary, self.home(options.method)?);
        let Some((schema, name)) = self.free_name(create).await? else {
            return Ok("CREATE TABLE AS".to_owned());
        };
        let given = create.query.as_ref().expect("CREATE TABLE AS has a query");
        let snapshot = self.txn.snapshot();
        let mut made = table_query::plan(&self.names(), self.session, &snapshot, given)?;
        let mut columns = std::mem::take(&mut made.columns);
        rename(names, &mut columns)?;
        crate::ddl_table::refuse_duplicates(columns.iter().map(|column| column.name.as_str()))?;

        let made_of = crate::revert::made_of::made_of(&self.names(), given, columns.len());
        let constraints = Vec::new();
        let table = NewTable { schema, name, columns, constraints, dictionary, home };
        if !with_data {
            let id = self.apply(Change::CreateTable(table)).await?.ok_or(Stop::Restart)?;
            self.on_commit.extend(AtCommit::of(id, create.on_commit));
            return Ok("CREATE TABLE AS".to_owned());
        }
        let is_run_again = made.units.rows_of_one > ROWS_RUN_AT_ONCE;
        if is_run_again && !self.stands_alone {
            let notice = "all rows of a table are one migration unit of the query: whenever they have \
                          changed it is run over them again, at last while their writers wait";
            self.notice(SqlState::SUCCESSFUL_COMPLETION, notice);
        }
        // Who makes a temporary table wants its rows at once, and nobody else waits for it.
        let said = if create.temporary { Mode::Eager } else { self.migration };
        let mode = Mode::of(&create.table_options)?.unwrap_or(said);
        self.options.is_hybrid = mode == Mode::Hybrid;
        let hindrance = |query: &_| self.catalog.lazy_hindrance(self.txn, &self.version, query);
        let is_large = made.row_estimate >= self.auto_rows;
        let MadeTable { query, lazily, .. } = made;
        let choice = Choice::of(mode, lazily, &hindrance, is_large, &table.name)?;
        match choice {
            Choice::Lazy(lazily, why) => {
                let fallback = (mode == Mode::Auto).then(|| Arc::new(query));
                let made = self.create_lazily(table, lazily, why, fallback).await?;
                self.note_made_of(&made, made_of);
                Ok("CREATE TABLE AS".to_owned())
            }
            Choice::Eager(why) => {
                if mode == Mode::Auto && is_large {
                    let name = &table.name;
                    let notice = format!("table \"{name}\" is made before the commit: {why}");
                    self.notice(SqlState::SUCCESSFUL_COMPLETION, notice);
                }
                // What a cluster has is read and written by statements alone.
                if (is_run_again && self.stands_alone) || table.home == Home::Cluster {
                    let (id, rows) = Box::pin(self.create_as_of_now(table, given)).await?;
                    self.catalog.note_made_of(self.txn, id, made_of);
                    self.on_commit.extend(AtCommit::of(id, create.on_commit));
                    return Ok(format!("SELECT {rows}"));
                }
                let made = self.apply_counted(Change::CreateTableAs { table, query }).await?;
                self.note_made_of(&made, made_of);
                let id = made.object.ok_or(Stop::Restart)?;
                self.on_commit.extend(AtCommit::of(id, create.on_commit));
                Ok(format!("SELECT {}", made.rows))
            }
        }
    }

    /// The table with the rows that the query has now, which is all that anybody knows of it where no other
    /// statement is in the transaction: writers of what it reads are not in its way, nor it in theirs.
    async fn create_as_of_now(
        &mut self,
        table: NewTable,
        query: &Query,
    ) -> Result<(ObjectId, u64), Stop> {
        let types: Vec<SqlType> = table.columns.iter().map(|column| column.sql_type).collect();
        // By the names that there are without it.
        let query = self.rows_query(query, &types).await?;
        let id = self.apply(Change::CreateTable(table)).await?.ok_or(Stop::Restart)?;
        let table = self.table_by_id(id)?;
        let targets = table.def.columns.iter().map(target_of).collect();
        let rows = self.insert_rows(&table, query.cast_to(targets)?).await?;
        Ok((id, rows))
    }

    /// Of what a table was made, for who reverts it.
    fn note_made_of(&mut self, made: &Applied, made_of: MadeOf) {
        if let Some(table) = made.object {
            self.catalog.note_made_of(self.txn, table, made_of);
        }
    }

    async fn create_lazily(
        &mut self,
        table: NewTable,
        lazily: Lazily,
        why: &str,
        fallback: Option<Arc<TableQuery>>,
    ) -> Result<Applied, Stop> {
        let Lazily { query, verify, recipe, unit, join, .. } = lazily;
        let name = &table.name;
        let join = join.as_ref().map(|join| format!("; join: {}", join.text())).unwrap_or_default();
        let notice = format!(
            "table \"{name}\" is made lazily, usable from the commit on: {why} (unit: {unit}{join})"
        );
        let query = TableQuery::Lazy { query, verify, recipe, fallback };
        let made = self.apply_counted(Change::CreateTableAs { table, query }).await?;
        self.notice(SqlState::SUCCESSFUL_COMPLETION, notice);
        Ok(made)
    }
}

/// When the rows of a table are made, and why.
pub(crate) enum Choice {
    /// Before the commit.
    Eager(&'static str),
    /// After it.
    Lazy(Lazily, &'static str),
}

impl Choice {
    /// What a mode comes to; an error, if it asks for what cannot be. `hindrance` says what there is in the
    /// transaction against it; `is_large`, whether the tables have rows enough that `auto` does not wait
    /// for them.
    pub(crate) fn of(
        mode: Mode,
        lazily: Result<Lazily, &'static str>,
        hindrance: &dyn Fn(&LazyQuery) -> Option<&'static str>,
        is_large: bool,
        table: &str,
    ) -> Result<Choice, SqlError> {
        let lazily = match mode {
            Mode::Eager => return Ok(Choice::Eager("froglet.migration is eager")),
            Mode::Lazy | Mode::Hybrid => {
                let cannot = |why: &str, hint: &str| {
                    refused(format!("table \"{table}\" cannot be made lazily"), why).hint(hint)
                };
                let lazily =
                    lazily.map_err(|why| cannot(why, "Set froglet.migration to auto or eager."))?;
                return match hindrance(&lazily.query) {
                    Some(NO_WAY) => Err(cannot(
                        NO_WAY,
                        "Create such an index on each table that the query reads, or set \
                         froglet.migration to auto or eager.",
                    )),
                    Some(why) => Err(cannot(why, "Set froglet.migration to auto or eager.")),
                    None => Ok(Choice::Lazy(lazily, "froglet.migration says so")),
                };
            }
            Mode::Auto if !is_large => {
                return Ok(Choice::Eager("it is small (froglet.migration_auto_rows)"));
            }
            Mode::Auto => lazily,
        };
        let why = match lazily {
            Err(why) => why,
            Ok(lazily) if lazily.verify != LazyVerify::Nothing => {
                "every row would be looked at, as the query may fail for some"
            }
            Ok(lazily) if lazily.is_whole() => {
                "all its rows are one unit, which the first to read would wait for"
            }
            Ok(lazily) => match hindrance(&lazily.query) {
                None => return Ok(Choice::Lazy(lazily, "nothing is to be verified")),
                Some(why) => why,
            },
        };
        Ok(Choice::Eager(why))
    }
}

/// CREATE TABLE n (names) AS …: the first columns have these names.
fn rename(names: &[String], columns: &mut [NewColumn]) -> Result<(), SqlError> {
    if names.len() > columns.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name.clone_from(name);
    }
    Ok(())
}
