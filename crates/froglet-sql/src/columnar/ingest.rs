//! Record batches into a table, which may be made for them.
//!
//! ```text
//!   the table │ is there                    │ is not there
//!   ──────────┼─────────────────────────────┼───────────────────────────────
//!   IfExists  │ Fail 42P07, Append, Replace │
//!   IfMissing │                             │ Create (of the batches' schema), Fail 42P01
//! ```
//! Everything is of one transaction: of the session's, or of the ingest alone. Columns go by their
//! names; those that are not sent have their defaults.

use std::pin::pin;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use froglet_engine::{ColumnType, Row, SqlState};
use froglet_schema::SqlType;

use super::assign::{assigned, is_nested, plain_type, rows_of, slices};
use crate::bulk::{self, Bulk};
use crate::error::SqlError;
use crate::resolve::Names;
use crate::session::Session;
use crate::types::cast::{assignable, not_assignable};
use crate::types::{oid_of_arrow, oids, plain, zone};
use crate::udf::lookup::quoted;

/// Where an ingest goes.
#[derive(Clone, Debug)]
pub struct IngestTarget {
    /// Schema, if it is named.
    pub schema: Option<String>,
    /// Table.
    pub table: String,
    /// What is done where there is such a table.
    pub if_exists: IfExists,
    /// And where there is none.
    pub if_missing: IfMissing,
}

impl IngestTarget {
    /// Its name as SQL has it.
    fn text(&self) -> String {
        let parts = self.schema.iter().chain([&self.table]);
        parts.map(|name| quoted(name)).collect::<Vec<_>>().join(".")
    }
}

/// For a table that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// 42P07
    Fail,
    /// Its rows stay.
    Append,
    /// It is dropped and made anew.
    Replace,
}

/// For a table that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    /// It is made.
    Create,
    /// 42P01
    Fail,
}

/// An ingest under way.
pub struct Ingest {
    bulk: Bulk,
    types: Vec<ColumnType>,
}

impl Session {
    /// Begins an ingest of batches of a schema.
    pub async fn ingest(
        &mut self,
        target: &IngestTarget,
        schema: &Schema,
    ) -> Result<Ingest, SqlError> {
        let begun = self.ingest_inner(target, schema).await;
        begun.map_err(|e| self.failed(e))
    }

    async fn ingest_inner(
        &mut self,
        target: &IngestTarget,
        schema: &Schema,
    ) -> Result<Ingest, SqlError> {
        self.take_set();
        let text = target.text();
        let statement = Arc::from(format!("INGEST INTO {text}"));
        self.begin_activity(&statement)?;
        self.refuse_in_failed()?;
        let ident = |name: &String| Ident::with_quote('"', name.clone());
        let parts = target.schema.iter().chain([&target.table]).map(ident);
        let name = ObjectName::from(parts.collect::<Vec<_>>());
        let columns: Vec<Ident> = schema.fields().iter().map(|f| ident(f.name())).collect();
        if columns.is_empty() {
            let message = format!("there is no column to ingest into {text}");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let (drop, create) = match (self.has_table(&name).await?, target) {
            (true, IngestTarget { if_exists: IfExists::Fail, .. }) => {
                let message = format!("relation \"{}\" already exists", target.table);
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message)
                    .hint("Append to it, or replace it."));
            }
            (true, IngestTarget { if_exists: IfExists::Append, .. }) => (false, false),
            (true, IngestTarget { if_exists: IfExists::Replace, .. }) => (true, true),
            (false, IngestTarget { if_missing: IfMissing::Create, .. }) => (false, true),
            // The error is the one of any statement on it.
            (false, IngestTarget { if_missing: IfMissing::Fail, .. }) => (false, false),
        };
        if drop {
            self.run_text(&format!("DROP TABLE {text}")).await?;
        }
        if create {
            self.run_text(&create_table(&text, schema)?).await?;
            self.begin_activity(&statement)?;
        }
        let bulk = Bulk::begin(self, "INSERT", &name, &columns).await?;
        for ((column, ty, to), field) in bulk.columns.iter().zip(schema.fields()) {
            if is_nested(field.data_type()) {
                return Err(unsupported(field));
            }
            let from = sent_type(field, *ty, *to);
            // Text is read as COPY reads it.
            if from != oids::TEXT && !assignable(from, to.oid) {
                return Err(not_assignable(column, *to, plain(from)));
            }
        }
        let types = bulk.columns.iter().map(|(_, ty, _)| *ty).collect();
        Ok(Ingest { bulk, types })
    }

    async fn has_table(&mut self, name: &ObjectName) -> Result<bool, SqlError> {
        self.transaction()?;
        let db = self.db.clone();
        let path = self.settings.hot().search_path.clone();
        let catalog = db.catalog().next_view(self.txn.as_mut().expect("just begun"));
        Ok(Names { catalog: &catalog, path: &path }.table(name).is_ok())
    }

    /// Runs statements whose answer nobody needs.
    pub async fn run_text(&mut self, text: &str) -> Result<(), SqlError> {
        for statement in self.split(text)? {
            self.simple(&statement).await?;
        }
        Ok(())
    }
}

impl Ingest {
    /// Inserts the rows of a batch of the schema that the ingest was begun with.
    pub async fn feed(
        &mut self,
        session: &mut Session,
        batch: &RecordBatch,
    ) -> Result<(), SqlError> {
        let zone = session.zone();
        let outcome = zone::scope(zone, pin!(self.feed_inner(session, batch))).await;
        outcome.map_err(|e| session.failed(e))
    }

    async fn feed_inner(
        &mut self,
        session: &mut Session,
        batch: &RecordBatch,
    ) -> Result<(), SqlError> {
        if batch.num_columns() != self.types.len() {
            return Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                format!("a batch has {} columns, not {}", batch.num_columns(), self.types.len()),
            ));
        }
        for slice in slices(batch) {
            self.bulk.limits.check()?;
            let rows = self.complete_rows(&slice)?;
            self.bulk.insert(session, &rows).await.map_err(|(e, _)| e)?;
            // Others are served by this thread, too.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn complete_rows(&self, batch: &RecordBatch) -> Result<Vec<Row>, SqlError> {
        let columns = batch.columns().iter().zip(&self.bulk.columns);
        let columns = columns.map(|(array, (name, ty, sql_type))| {
            assigned(array, *ty, *sql_type).map_err(|e| e.context(format!("column {name}")))
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let given = rows_of(&columns, &self.types, batch.num_rows());
        let complete = |row: Row| self.bulk.complete(row.into_iter().map(|value| Ok(Some(value))));
        given.into_iter().map(complete).collect()
    }

    /// Resolves when it must not go on: it is cancelled, or takes longer than it may.
    pub async fn exceeded(&self) -> SqlError {
        self.bulk.limits.exceeded().await.into()
    }

    /// All has been sent. Returns the number of rows.
    pub fn finish(self, session: &mut Session) -> u64 {
        bulk::end(session);
        self.bulk.rows
    }
}

impl std::fmt::Debug for Ingest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ingest({}, {} rows)", self.bulk.table().name, self.bulk.rows)
    }
}

fn create_table(table: &str, schema: &Schema) -> Result<String, SqlError> {
    let columns = schema.fields().iter().map(|field| {
        let ty = type_for(field).ok_or_else(|| unsupported(field))?;
        Ok(format!("{} {ty}", quoted(field.name())))
    });
    let columns: Vec<String> = columns.collect::<Result<_, SqlError>>()?;
    Ok(format!("CREATE TABLE {table} ({})", columns.join(", ")))
}

fn unsupported(field: &Field) -> SqlError {
    let what = format!("a column of Arrow type {} (\"{}\")", field.data_type(), field.name());
    SqlError::unsupported(what).hint("Cast it before, to text perhaps.")
}

fn value_type(ty: &DataType) -> &DataType {
    match ty {
        DataType::Dictionary(_, value) => value,
        DataType::RunEndEncoded(_, values) => values.data_type(),
        other => other,
    }
}

fn is_uuid(field: &Field) -> bool {
    field.metadata().get("ARROW:extension:name").is_some_and(|name| name == "arrow.uuid")
}

/// The SQL type of a column that is sent. Sixteen bytes may be a uuid without saying so.
fn sent_type(field: &Field, ty: ColumnType, to: SqlType) -> u32 {
    match value_type(field.data_type()) {
        DataType::Null => oids::UNKNOWN,
        DataType::FixedSizeBinary(16) if to.oid == oids::BYTEA => oids::BYTEA,
        given => oid_of_arrow(&plain_type(given, ty)),
    }
}

/// The type of a column that is made for an Arrow field.
fn type_for(field: &Field) -> Option<String> {
    Some(match value_type(field.data_type()) {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => "smallint".to_owned(),
        DataType::UInt16 | DataType::Int32 => "integer".to_owned(),
        DataType::UInt32 | DataType::Int64 => "bigint".to_owned(),
        DataType::UInt64 => "numeric(20,0)".to_owned(),
        DataType::Float16 | DataType::Float32 => "real".to_owned(),
        DataType::Float64 => "double precision".to_owned(),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s)
            if *s >= 0 =>
        {
            format!("numeric({p},{s})")
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
            "text".to_owned()
        }
        DataType::FixedSizeBinary(16) if is_uuid(field) => "uuid".to_owned(),
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "bytea".to_owned(),
        DataType::Date32 | DataType::Date64 => "date".to_owned(),
        DataType::Timestamp(_, None) => "timestamp".to_owned(),
        DataType::Timestamp(_, Some(_)) => "timestamptz".to_owned(),
        _ => return None,
    })
}
