//! The microbenchmark (paper 000, section 6.2): one table of three 8-byte integers, transactions of
//! ten statements on rows picked uniformly at random.

use std::fmt::Write;
use std::future::Future;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::try_join;
use tokio_postgres::{Client, Error, Statement};

use super::load::copy;
use crate::progress;

/// Rows and updates of a transaction.
const STATEMENTS: usize = 10;
/// Rows of one COPY.
const BATCH: u64 = 50_000;

/// What the columns have that no client uses.
const UNUSED: u32 = 7;

/// Makes the table and fills it. Besides the paper's three columns it has `unused` more that no
/// client uses: `t`, an integer, then bigints.
pub async fn load(client: &Client, rows: u64, unused: u16) -> Result<()> {
    let mut table = "CREATE TABLE usertable (id bigint PRIMARY KEY, a bigint, b bigint".to_owned();
    for n in 0..unused {
        table += &if n == 0 { ", t integer".to_owned() } else { format!(", u{n} bigint") };
    }
    table.push(')');
    client.batch_execute(&table).await.context(table)?;
    let unused = format!("\t{UNUSED}").repeat(unused.into());
    let bar = progress::bar("loading rows", rows);
    for start in (0..rows).step_by(BATCH as usize) {
        let mut lines = String::new();
        for id in start..rows.min(start + BATCH) {
            writeln!(lines, "{id}\t{}\t{}{unused}", id % 1000, id % 7)?;
        }
        copy(client, "usertable", lines).await.context("COPY usertable")?;
        bar.inc(BATCH);
    }
    bar.finish_and_clear();
    Ok(())
}

/// A client's connection.
pub struct Session {
    client: Client,
    read: Statement,
    update: Statement,
    rng: SmallRng,
    rows: u64,
    reads: usize,
}

impl Session {
    /// Prepares both statements. `reads_percent` of the statements read.
    pub async fn open(
        client: Client,
        rows: u64,
        reads_percent: u32,
        seed: u64,
    ) -> Result<Session, Error> {
        let read = client.prepare("SELECT a, b FROM usertable WHERE id = $1").await?;
        let update = "UPDATE usertable SET a = $1, b = $2 WHERE id = $3";
        let update = client.prepare(update).await?;
        let reads = STATEMENTS * reads_percent as usize / 100;
        Ok(Session { client, read, update, rng: SmallRng::seed_from_u64(seed), rows, reads })
    }

    /// One transaction. After an error it is rolled back.
    pub async fn transaction(&mut self) -> Result<(), Error> {
        let mut ids: Vec<i64> =
            (0..STATEMENTS).map(|_| self.rng.random_range(0..self.rows) as i64).collect();
        // Updates in the order of ids, so that no two transactions wait for each other.
        ids[self.reads..].sort_unstable();
        let sum: i64 = self.rng.random_range(0..1_000_000);
        let (reads, updates) = ids.split_at(self.reads);
        let client = &self.client;
        let reads = reads.iter().map(|id| async { client.query_one(&self.read, &[id]).await });
        let updates = updates
            .iter()
            .map(|id| async { client.execute(&self.update, &[&sum, &(sum % 1000), id]).await });
        let work = async { try_join!(try_join_all(reads), try_join_all(updates)).map(drop) };
        in_transaction(client, work).await
    }
}

/// Runs what does not wait for any answer in one transaction: BEGIN is sent with it. After an error it is rolled back.
pub async fn in_transaction(
    client: &Client,
    work: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    let ended = match try_join!(client.batch_execute("BEGIN"), work) {
        Ok(_) => client.batch_execute("COMMIT").await,
        Err(e) => Err(e),
    };
    if ended.is_err() {
        client.batch_execute("ROLLBACK").await?;
    }
    ended
}
