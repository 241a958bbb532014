//! Clients of the microbenchmark: a transaction accesses ten rows picked uniformly at random, some of them on disk.
//!
//! Accesses do not wait for each other's answers, so they are sent together, to every server alike. Updates are in one
//! order in all transactions, so that no two of them wait for each other.

use futures::future::try_join_all;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use tokio::try_join;
use tokio_postgres::{Error, Statement};

use anyhow::Result;
use froglet_engine::Home;

use super::servers::{Commit, Server};
use super::tables::{self, TABLES};
use crate::closed;
use crate::tpccd::micro::in_transaction;

/// Of a transaction.
pub const ACCESSES: usize = 10;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Ten point reads.
    ReadOnly,
    /// Eight, and two updates.
    ReadWrite,
    /// Ten updates.
    WriteOnly,
}

impl Workload {
    /// Every one.
    pub const ALL: [Workload; 3] = [Workload::ReadOnly, Workload::ReadWrite, Workload::WriteOnly];

    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Workload::ReadOnly => "read-only",
            Workload::ReadWrite => "read-write",
            Workload::WriteOnly => "write-only",
        }
    }

    fn updates(self) -> usize {
        match self {
            Workload::ReadOnly => 0,
            Workload::ReadWrite => 2,
            Workload::WriteOnly => ACCESSES,
        }
    }
}

/// One access. Ordered by table, then by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Access {
    /// Its position among the session's tables.
    table: usize,
    id: i32,
}

/// A table's statements.
struct Prepared {
    read: Statement,
    update: Statement,
}

/// A client's connection.
pub struct Session {
    client: tokio_postgres::Client,
    /// Those on disk, then those in memory, if there are any.
    tables: Vec<Prepared>,
    /// Of each table.
    rows: i32,
    rng: SmallRng,
    workload: Workload,
    /// Of the ten accesses.
    on_disk: usize,
    reads: Vec<Access>,
    updates: Vec<Access>,
    updated: i64,
}

impl Session {
    /// Prepares the statements. `rows` of one engine's tables in all; `homes` that the server has tables in, disk first.
    pub async fn open(server: &Server, homes: &[Home], rows: u64, seed: u64) -> Result<Session> {
        let client = server.client(Commit::Asynchronous).await?;
        let mut tables = Vec::new();
        for (home, table) in homes.iter().flat_map(|home| (0..TABLES).map(move |n| (*home, n))) {
            let name = tables::name(home, table);
            let read = client.prepare(&format!("SELECT k, pad FROM {name} WHERE id = $1")).await?;
            let update = format!("UPDATE {name} SET k = k + 1 WHERE id = $1");
            tables.push(Prepared { read, update: client.prepare(&update).await? });
        }
        Ok(Session {
            client,
            tables,
            rows: i32::try_from(rows / TABLES as u64)?,
            rng: SmallRng::seed_from_u64(seed),
            workload: Workload::ReadOnly,
            on_disk: 0,
            reads: Vec::new(),
            updates: Vec::new(),
            updated: 0,
        })
    }

    /// What transactions do from now on, with so many of the ten accesses on disk.
    pub fn set(&mut self, workload: Workload, on_disk: usize) {
        (self.workload, self.on_disk) = (workload, on_disk);
    }

    /// Updates that were committed.
    pub fn updated(&self) -> i64 {
        self.updated
    }

    fn draw(&mut self) {
        let Session { rng, rows, on_disk, .. } = self;
        let mut accesses: Vec<Access> = (0..ACCESSES)
            .map(|n| {
                let first = if n < *on_disk { 0 } else { TABLES };
                Access {
                    table: first + rng.random_range(0..TABLES),
                    id: rng.random_range(0..*rows),
                }
            })
            .collect();
        accesses.shuffle(rng);
        self.updates = accesses.split_off(ACCESSES - self.workload.updates());
        self.updates.sort_unstable();
        self.reads = accesses;
    }

    async fn attempt(&mut self) -> Result<(), Error> {
        let Session { client, tables, reads, updates, .. } = &*self;
        let reads = reads.iter().map(|access| async {
            client.query_one(&tables[access.table].read, &[&access.id]).await
        });
        let updates = updates.iter().map(|access| async move {
            let updated = client.execute(&tables[access.table].update, &[&access.id]).await?;
            assert_eq!(updated, 1, "{access:?} is one row");
            Ok(())
        });
        let work = async { try_join!(try_join_all(reads), try_join_all(updates)).map(drop) };
        in_transaction(client, work).await?;
        self.updated += self.updates.len() as i64;
        Ok(())
    }
}

/// All its transactions are of one type.
impl closed::Client for Session {
    async fn transaction(&mut self) -> Result<usize, Error> {
        self.draw();
        self.attempt().await.map(|()| 0)
    }

    async fn again(&mut self) -> Result<usize, Error> {
        self.attempt().await.map(|()| 0)
    }
}
