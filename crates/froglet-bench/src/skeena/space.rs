//! What the files take after churn, over what the same rows take when they have just been loaded; beside PostgreSQL.
//!
//! Churn: every row is updated, and every third deleted and inserted again, three times over. PostgreSQL is vacuumed after each
//! pass; we clean up ourselves, and are looked at when the files do not change any more.

use anyhow::{Context, Result};
use froglet_engine::Home;
use tokio_postgres::Client;

use super::servers::{Cache, Commit, POSTGRES, Server};
use super::tables::{self, RECORD_BYTES, TABLES};
use super::{Bench, engines};
use crate::progress;
use crate::report::Report;

/// For reports.
pub const OPERATION: &str = "space: after churn";
/// For reports.
pub const FROGLET: &str = "froglet";
/// For reports.
pub const METRIC: &str = "after churn / as loaded";
const PASSES: u32 = 3;

/// Runs it.
pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let rows = bench.rows();
    let data_bytes = rows * RECORD_BYTES;
    let cache_bytes = Cache::Holds.bytes(data_bytes);
    report.add("data", OPERATION, "records", data_bytes as f64, "B");
    let servers = [
        Server::froglet(bench, FROGLET, cache_bytes, data_bytes)?,
        Server::postgres(bench, cache_bytes)?,
    ];
    for server in servers {
        bench.runtime.block_on(churn(&server, rows, report)).context(server.name().to_owned())?;
        server.stop()?;
    }
    Ok(())
}

async fn churn(server: &Server, rows: u64, report: &mut Report) -> Result<()> {
    let name = server.name();
    progress::phase(&format!("{name}: loading {rows} rows"));
    let client = server.client(Commit::Asynchronous).await?;
    tables::load(&client, Home::Disk, rows, server.is_froglet()).await?;
    let loaded = file_bytes(server, &client).await?;
    for pass in 1..=PASSES {
        progress::phase(&format!("{name}: churn, {pass} of {PASSES}"));
        for table in 0..TABLES {
            change_all(&client, &tables::name(Home::Disk, table)).await?;
        }
        if name == POSTGRES {
            client.batch_execute("VACUUM").await?;
        }
    }
    let churned = file_bytes(server, &client).await?;
    let found = tables::count(&client, Home::Disk).await?;
    let expected = (rows as i64, rows as i64 * i64::from(PASSES));
    if found != expected {
        report.fail(format!("{name}: rows and updates are {found:?}, not {expected:?}"));
    }
    for (metric, bytes) in [("as loaded", loaded), ("files", churned)] {
        report.add(name, OPERATION, metric, bytes as f64, "B");
    }
    let records = (rows * RECORD_BYTES) as f64;
    report.add(name, OPERATION, METRIC, churned as f64 / loaded.max(1) as f64, "x");
    report.add(name, OPERATION, "after churn / records", churned as f64 / records, "x");
    Ok(())
}

/// One pass over a table: its texts are turned round, and every third row goes and comes back.
async fn change_all(client: &Client, table: &str) -> Result<()> {
    let update = format!("UPDATE {table} SET k = k + 1, pad = reverse(pad)");
    let keep = format!("CREATE TABLE kept AS SELECT * FROM {table} WHERE id % 3 = 0");
    let delete = format!("DELETE FROM {table} WHERE id % 3 = 0");
    let insert = format!("INSERT INTO {table} SELECT * FROM kept");
    for sql in [&*update, &keep, &delete, &insert, "DROP TABLE kept"] {
        client.batch_execute(sql).await.with_context(|| sql.to_owned())?;
    }
    Ok(())
}

/// What the tables take on disk, at rest.
async fn file_bytes(server: &Server, client: &Client) -> Result<u64> {
    server.settle().await?;
    if server.is_froglet() {
        return Ok(engines::Figures::read(client, Home::Disk).await?.file_bytes);
    }
    let sql = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class \
               WHERE relkind = 'r' AND relname LIKE 'on\\_disk\\_%'";
    let bytes: i64 = client.query_one(sql, &[]).await.context(sql)?.get(0);
    Ok(u64::try_from(bytes)?)
}
