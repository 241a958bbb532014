//! How long a server with tables on disk takes until it answers, after it was asked to end and after kill -9.
//!
//! Only the log is read again, and of that what is in no file: how much is on disk should not matter. From the start of
//! the process to the first row that is read, as a client sees it (which looks every 20 ms whether anybody listens).

use anyhow::{Context, Result};
use froglet_engine::Home;
use tokio_postgres::Client;

use super::tables::{self, RECORD_BYTES, TABLES};
use super::{Bench, engines};
use crate::progress;
use crate::report::Report;
use crate::server::{End, Froglet};
use crate::tpccd::workload::connect;

/// For reports.
pub const ASKED: &str = "restart: after it was asked to end";
/// See there.
pub const KILLED: &str = "restart: after kill -9, with a log tail";
/// See there.
pub const FROGLET: &str = "froglet";
/// See there.
pub const METRIC: &str = "until it answers";
/// Of all rows, one in so many is updated before the kill, and in the log only.
const TAIL: u64 = 40;

/// Runs it.
pub fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let rows = bench.rows();
    let froglet = Froglet::start(&bench.args.binary()?, &bench.args.dir, &[])?;
    progress::phase(&format!("restart: loading {rows} rows"));
    let files = bench.runtime.block_on(async {
        let client = connect(froglet.port()).await?;
        tables::load(&client, Home::Disk, rows, true).await?;
        engines::settle(&client, bench.still()).await
    })?;
    report.add(FROGLET, "restart", "files", files.file_bytes as f64, "B");
    let froglet = restarted(bench, report, froglet, End::Asked, ASKED)?;
    let updated = bench.runtime.block_on(async {
        let client = connect(froglet.port()).await?;
        client.batch_execute("CHECKPOINT").await?;
        update_some(&client, rows).await
    })?;
    report.add(FROGLET, KILLED, "records in the log tail", (updated * RECORD_BYTES) as f64, "B");
    let froglet = restarted(bench, report, froglet, End::Killed, KILLED)?;
    let found = bench
        .runtime
        .block_on(async { tables::count(&connect(froglet.port()).await?, Home::Disk).await })?;
    let expected = (rows as i64, updated as i64);
    if found != expected {
        report.fail(format!("after kill -9 rows and updates are {found:?}, not {expected:?}"));
    }
    froglet.stop()
}

/// Updates some rows of every table, durably; returns how many.
async fn update_some(client: &Client, rows: u64) -> Result<u64> {
    let mut updated = 0;
    for table in 0..TABLES {
        let name = tables::name(Home::Disk, table);
        let most = rows / TABLES as u64 / TAIL;
        let sql = format!("UPDATE {name} SET k = k + 1 WHERE id < {most}");
        updated += client.execute(&sql, &[]).await.context(sql)?;
    }
    Ok(updated)
}

fn restarted(
    bench: &Bench<'_>,
    report: &mut Report,
    froglet: Froglet,
    end: End,
    operation: &str,
) -> Result<Froglet> {
    progress::phase(operation);
    let froglet = froglet.again(end)?;
    bench.runtime.block_on(async {
        let client = connect(froglet.port()).await?;
        let sql = format!("SELECT pad FROM {} WHERE id = 7", tables::name(Home::Disk, 0));
        client.query_one(&sql, &[]).await.context(sql)
    })?;
    let seconds = froglet.began().elapsed().as_secs_f64();
    report.add(FROGLET, operation, METRIC, seconds, "s");
    Ok(froglet)
}
