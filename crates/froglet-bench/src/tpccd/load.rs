//! Filling a server's empty database by COPY.

use std::fmt::Write;
use std::mem;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use chrono::DateTime;
use froglet_engine::{ColumnType, Value};
use futures::SinkExt;
use tokio::sync::mpsc;
use tokio_postgres::Client;

use super::schema::{INDEXES, TABLES};
use crate::tpcc::db::Scale;
use crate::tpcc::load::populate;
use crate::tpcc::schema::{self, TableName};

/// Text of one COPY.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that are made ahead.
const AHEAD: usize = 4;

/// A table by its position in [`TABLES`], and lines for it.
type Chunk = (usize, String);

/// Makes the tables and fills them.
pub async fn load(client: &Client, scale: Scale) -> Result<()> {
    load_indexed(client, scale, &[]).await
}

/// The same with more indexes.
pub async fn load_indexed(client: &Client, scale: Scale, indexes: &[&str]) -> Result<()> {
    load_some(client, scale, |_| Some(""), indexes).await
}

/// Customers alone.
pub async fn load_customers(client: &Client, scale: Scale) -> Result<()> {
    load_some(client, scale, |table| (table == TableName::Customer).then_some(""), &[]).await
}

/// The same; `place` has what stands behind a table's definition: ` USING disk`, or nothing.
pub async fn load_placed(
    client: &Client,
    scale: Scale,
    place: impl Fn(TableName) -> &'static str,
) -> Result<()> {
    load_some(client, scale, |table| Some(place(table)), &[]).await
}

/// Tables without a place are left out.
async fn load_some(
    client: &Client,
    scale: Scale,
    place: impl Fn(TableName) -> Option<&'static str>,
    indexes: &[&str],
) -> Result<()> {
    let places = schema::TABLES.map(place);
    // Not every engine makes an index of a table that others may write already.
    client.batch_execute("BEGIN").await?;
    for ((name, definition), place) in TABLES.into_iter().zip(places) {
        let Some(place) = place else { continue };
        let sql = format!("CREATE TABLE {name} ({definition}){place}");
        client.batch_execute(&sql).await.context(sql)?;
    }
    for (table, sql) in INDEXES {
        if places[table as usize].is_some() {
            client.batch_execute(sql).await.context(sql)?;
        }
    }
    for &sql in indexes {
        client.batch_execute(sql).await.context(sql.to_owned())?;
    }
    client.batch_execute("COMMIT").await?;
    // Rows are made on a thread of their own while the server takes those before.
    let (chunks, mut made) = mpsc::channel(AHEAD);
    let maker =
        tokio::task::spawn_blocking(move || make(scale, places.map(|p| p.is_some()), &chunks));
    while let Some((table, lines)) = made.recv().await {
        let name = TABLES[table].0;
        copy(client, name, lines).await.with_context(|| format!("COPY {name}"))?;
    }
    maker.await.context("the population was not made")?
}

/// Appends lines to a table.
pub async fn copy(client: &Client, table: &str, lines: String) -> Result<()> {
    let sink = client.copy_in(&format!("COPY {table} FROM STDIN")).await?;
    let mut sink = std::pin::pin!(sink);
    sink.send(Bytes::from(lines)).await?;
    sink.finish().await?;
    Ok(())
}

fn make(scale: Scale, wanted: [bool; TABLES.len()], chunks: &mpsc::Sender<Chunk>) -> Result<()> {
    let mut lines: [String; TABLES.len()] = Default::default();
    let send = |chunk: Chunk| {
        chunks.blocking_send(chunk).map_err(|_| anyhow!("nobody takes the population any more"))
    };
    populate(scale, &mut |table, row| {
        let at = table as usize;
        if !wanted[at] {
            return Ok(());
        }
        line(&mut lines[at], &row, table.types())?;
        if lines[at].len() >= CHUNK_BYTES {
            send((at, mem::take(&mut lines[at])))?;
        }
        Ok(())
    })?;
    lines.into_iter().enumerate().filter(|(_, lines)| !lines.is_empty()).try_for_each(send)
}

/// Appends a row in COPY's text format. TPC-C's strings have nothing in them to be escaped.
pub fn line(out: &mut String, row: &[Value], types: &[ColumnType]) -> Result<()> {
    for (at, (value, ty)) in row.iter().zip(types).enumerate() {
        if at > 0 {
            out.push('\t');
        }
        match value {
            Value::Null => out.push_str("\\N"),
            Value::Int32(n) => write!(out, "{n}")?,
            Value::Text(text) => out.push_str(text),
            Value::Decimal(unscaled) => {
                let ColumnType::Decimal { scale, .. } = ty else { bail!("{ty:?} has no scale") };
                write!(out, "{unscaled}e-{scale}")?;
            }
            Value::Timestamp(us) => {
                let time = DateTime::from_timestamp_micros(*us).context("a date out of range")?;
                write!(out, "{}", time.naive_utc())?;
            }
            other => bail!("TPC-C has no {other:?}"),
        }
    }
    out.push('\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_lines() {
        let types = [
            ColumnType::Int32,
            ColumnType::Decimal { precision: 12, scale: 2 },
            ColumnType::Timestamp,
            ColumnType::Text,
            ColumnType::Int32,
        ];
        let time = Value::Timestamp(1_000_000);
        let row = [Value::Int32(-7), Value::Decimal(-1050), time, Value::text("a-b"), Value::Null];
        let mut out = String::new();
        line(&mut out, &row, &types).unwrap();
        assert_eq!(out, "-7\t-1050e-2\t1970-01-01 00:00:01\ta-b\t\\N\n");
    }

    #[test]
    fn every_chunk_names_its_table_and_nothing_is_lost() {
        let (chunks, mut made) = mpsc::channel(1000);
        make(Scale::small(1), [true; TABLES.len()], &chunks).unwrap();
        drop(chunks);
        let mut rows = [0; TABLES.len()];
        while let Ok((table, lines)) = made.try_recv() {
            rows[table] += lines.lines().count();
        }
        assert_eq!(&rows[..6], [1, 10, 300, 300, 90, 300]);
        assert_eq!(&rows[7..], [1000, 1000]);
        assert!(rows[6] > 300 * 5);
    }
}
