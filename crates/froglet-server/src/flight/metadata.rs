//! What is in the catalog, as Flight SQL asks for it.
//!
//! A command's ticket is the command: nothing is kept for it, and whoever fetches it sees the catalog
//! as it is then.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, UInt8Array};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow_flight::sql::Command;
use arrow_flight::{FlightEndpoint, FlightInfo, Ticket};
use froglet_sql::columnar::{Strings, TableDescription};
use prost::Message;
use tonic::Status;

use super::sessions::FlightSession;
use super::{sql_info, status};

/// The one catalog.
const CATALOG: &str = "postgres";
const TABLE: &str = "TABLE";

/// The schema and the rows of a command, when the catalog that they tell of is durable.
pub(super) async fn rows(
    session: &Arc<FlightSession>,
    command: Command,
) -> Result<(Schema, RecordBatch), Status> {
    let rows = rows_now(session, command)?;
    let settling = session.base.lock().settling();
    settling.wait().await.map_err(|e| status::of(&e))?;
    Ok(rows)
}

fn rows_now(
    session: &Arc<FlightSession>,
    command: Command,
) -> Result<(Schema, RecordBatch), Status> {
    let unknown = command.type_url().to_owned();
    let base = || session.base.lock();
    let batch = match command {
        Command::CommandGetCatalogs(command) => {
            let mut builder = command.into_builder();
            builder.append(CATALOG);
            builder.build().map_err(external)
        }
        Command::CommandGetDbSchemas(command) => {
            let mut builder = command.into_builder();
            let names = base().schema_names();
            names.iter().for_each(|name| builder.append(CATALOG, name));
            builder.build().map_err(external)
        }
        Command::CommandGetTables(command) => {
            let mut builder = command.into_builder();
            for table in base().describe_tables() {
                let columns = Strings::default().of(&table.columns);
                let appended = builder.append(CATALOG, &table.schema, &table.name, TABLE, &columns);
                appended.map_err(|e| Status::internal(e.to_string()))?;
            }
            builder.build().map_err(external)
        }
        Command::CommandGetTableTypes(command) => {
            let mut builder = command.into_builder();
            builder.append(TABLE);
            builder.build().map_err(external)
        }
        Command::CommandGetPrimaryKeys(command) => {
            primary_keys(&base().describe_tables(), |table| {
                table.name == command.table && is_schema(&command.db_schema, &table.schema)
            })
        }
        Command::CommandGetImportedKeys(command) => {
            foreign_keys(&base().describe_tables(), |_, child| {
                child.1 == command.table && is_schema(&command.db_schema, child.0)
            })
        }
        Command::CommandGetExportedKeys(command) => {
            foreign_keys(&base().describe_tables(), |parent, _| {
                parent.1 == command.table && is_schema(&command.db_schema, parent.0)
            })
        }
        Command::CommandGetCrossReference(command) => {
            foreign_keys(&base().describe_tables(), |parent, child| {
                parent.1 == command.pk_table
                    && child.1 == command.fk_table
                    && is_schema(&command.pk_db_schema, parent.0)
                    && is_schema(&command.fk_db_schema, child.0)
            })
        }
        Command::CommandGetSqlInfo(command) => sql_info::infos(command),
        Command::CommandGetXdbcTypeInfo(command) => sql_info::types(command),
        _ if unknown.is_empty() => return Err(status::malformed("there is no command")),
        _ => return Err(status::unsupported(format_args!("{unknown} in this place"))),
    };
    let batch = batch.map_err(|e| Status::internal(e.to_string()))?;
    Ok((batch.schema().as_ref().clone(), batch))
}

/// Where to fetch the rows of a command.
pub(super) async fn info(
    session: &Arc<FlightSession>,
    command: Command,
) -> Result<FlightInfo, Status> {
    let ticket = Ticket::new(command.clone().into_any().encode_to_vec());
    let (schema, batch) = rows(session, command).await?;
    Ok(FlightInfo::new()
        .try_with_schema(&schema)
        .map_err(|e| Status::internal(e.to_string()))?
        .with_endpoint(FlightEndpoint::new().with_ticket(ticket))
        .with_total_records(batch.num_rows() as i64)
        .with_ordered(true))
}

fn is_schema(wanted: &Option<String>, schema: &str) -> bool {
    wanted.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == schema)
}

fn text(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8, nullable)
}

fn strings<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn primary_keys(
    tables: &[TableDescription],
    wanted: impl Fn(&TableDescription) -> bool,
) -> Result<RecordBatch, ArrowError> {
    let keys = tables.iter().filter(|table| wanted(table));
    let parts: Vec<(&TableDescription, &str, &str, i32)> = keys
        .filter_map(|table| Some((table, table.primary_key.as_ref()?)))
        .flat_map(|(table, (name, columns))| {
            let columns = columns.iter().zip(1..);
            columns.map(move |(column, at)| (table, name.as_str(), column.as_str(), at))
        })
        .collect();
    let schema = Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        text("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ]);
    let columns = vec![
        strings(parts.iter().map(|_| Some(CATALOG))),
        strings(parts.iter().map(|part| Some(part.0.schema.as_str()))),
        strings(parts.iter().map(|part| Some(part.0.name.as_str()))),
        strings(parts.iter().map(|part| Some(part.2))),
        strings(parts.iter().map(|part| Some(part.1))),
        Arc::new(Int32Array::from_iter_values(parts.iter().map(|part| part.3))),
    ];
    RecordBatch::try_new(Arc::new(schema), columns)
}

/// One column of a foreign key.
struct ForeignColumn<'a> {
    parent: (&'a str, &'a str),
    parent_column: &'a str,
    child: (&'a str, &'a str),
    child_column: &'a str,
    sequence: i32,
    key: &'a str,
    parent_key: Option<&'a str>,
    rules: (u8, u8),
}

fn foreign_keys(
    tables: &[TableDescription],
    wanted: impl Fn((&str, &str), (&str, &str)) -> bool,
) -> Result<RecordBatch, ArrowError> {
    let mut parts = Vec::new();
    for table in tables {
        for key in &table.foreign_keys {
            let parent = (key.parent.0.as_str(), key.parent.1.as_str());
            let child = (table.schema.as_str(), table.name.as_str());
            if !wanted(parent, child) {
                continue;
            }
            let columns = key.parent_columns.iter().zip(&key.columns).zip(1..);
            parts.extend(columns.map(|((parent_column, child_column), sequence)| ForeignColumn {
                parent,
                parent_column,
                child,
                child_column,
                sequence,
                key: &key.name,
                parent_key: key.parent_key.as_deref(),
                rules: (key.update_rule, key.delete_rule),
            }));
        }
    }
    parts.sort_by_key(|p| (p.parent, p.child, p.key, p.sequence));
    let schema = Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]);
    let columns = vec![
        strings(parts.iter().map(|_| Some(CATALOG))),
        strings(parts.iter().map(|p| Some(p.parent.0))),
        strings(parts.iter().map(|p| Some(p.parent.1))),
        strings(parts.iter().map(|p| Some(p.parent_column))),
        strings(parts.iter().map(|_| Some(CATALOG))),
        strings(parts.iter().map(|p| Some(p.child.0))),
        strings(parts.iter().map(|p| Some(p.child.1))),
        strings(parts.iter().map(|p| Some(p.child_column))),
        Arc::new(Int32Array::from_iter_values(parts.iter().map(|p| p.sequence))),
        strings(parts.iter().map(|p| Some(p.key))),
        strings(parts.iter().map(|p| p.parent_key)),
        Arc::new(UInt8Array::from_iter_values(parts.iter().map(|p| p.rules.0))),
        Arc::new(UInt8Array::from_iter_values(parts.iter().map(|p| p.rules.1))),
    ];
    RecordBatch::try_new(Arc::new(schema), columns)
}

fn external(e: arrow_flight::error::FlightError) -> ArrowError {
    ArrowError::ExternalError(Box::new(e))
}
