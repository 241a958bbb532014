//! CREATE TABLE AS.
//!
//! ```text
//!   CREATE TABLE n [(names)] AS SELECT list FROM t WHERE condition
//!                                │              │        └─ which rows of t
//!                                └─ columns     └─ migrated by froglet-schema: n follows t until
//!                                                  the commit
//! ```
//!
//! How the query is run: `table_query.rs`.

use froglet_engine::SqlState;
use froglet_schema::{Change, NewColumn, NewTable, TableQuery};

use crate::apply::Stop;
use crate::ddl::Ddl;
use crate::error::SqlError;
use crate::lazy_query::{Mode, refused};
use crate::table_as_parse::TableAs;
use crate::table_query::{self, Lazily, MadeTable};

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
        let Some((schema, name)) = self.free_name(create)? else {
            return Ok("CREATE TABLE AS".to_owned());
        };
        let query = create.query.as_ref().expect("CREATE TABLE AS has a query");
        let snapshot = self.txn.snapshot();
        let mut made = table_query::plan(&self.names(), self.session, &snapshot, query)?;
        let mut columns = std::mem::take(&mut made.columns);
        rename(names, &mut columns)?;
        crate::ddl_table::refuse_duplicates(columns.iter().map(|column| column.name.as_str()))?;

        let table = NewTable { schema, name, columns, constraints: Vec::new() };
        if !with_data {
            self.apply(Change::CreateTable(table)).await?;
            return Ok("CREATE TABLE AS".to_owned());
        }
        if made.units.rows_of_one > ROWS_RUN_AT_ONCE {
            let notice = "all rows of a table are one migration unit of the query: whenever they have \
                          changed it is run over them again, at last while their writers wait";
            self.notice(SqlState::SUCCESSFUL_COMPLETION, notice);
        }
        let mode = Mode::of(&create.table_options)?.unwrap_or(self.migration);
        self.options.is_hybrid = mode == Mode::Hybrid;
        if !matches!(mode, Mode::Auto | Mode::Eager) {
            return self.create_lazily(table, made).await;
        }
        let change = Change::CreateTableAs { table, query: made.query };
        let made = self.apply_counted(change).await?;
        Ok(format!("SELECT {}", made.rows))
    }
}

impl Ddl<'_> {
    async fn create_lazily(&mut self, table: NewTable, made: MadeTable) -> Result<String, Stop> {
        let name = &table.name;
        let lazily = made.lazily.map_err(|why| {
            let message = format!("table \"{name}\" cannot be made lazily");
            refused(message, why).hint("Set froglet.migration to eager.")
        })?;
        let notice = format!(
            "table \"{name}\" is made lazily: usable from the commit on, its rows follow (unit: {})",
            lazily.unit
        );
        let Lazily { query, verify, recipe, .. } = lazily;
        let query = TableQuery::Lazy { query, verify, recipe };
        self.apply_counted(Change::CreateTableAs { table, query }).await?;
        self.notice(SqlState::SUCCESSFUL_COMPLETION, notice);
        Ok("CREATE TABLE AS".to_owned())
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
