//! The servers that are compared: each with a cache of the same size, and the same limit where the data is larger.
//!
//! ```text
//!   in cache                  cache = 2 x data                   no limit
//!   ten times the cache       cache = data / 10 ──┐
//!     memory limit = 2 x cache + 256 MB + what tables in memory take
//!                    └─ its own, and as much for the kernel's pages of its files
//! ```
//! `disk_cache` and `shared_buffers` are the cache. A limit is set when everything is loaded, written and at rest.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use froglet_engine::Home;
use tempfile::TempDir;
use tokio_postgres::Client;

use super::memory_group::{MemoryGroup, drop_page_cache};
use super::{Bench, engines};
use crate::postgres::Postgres;
use crate::progress;
use crate::report::Report;
use crate::server::Froglet;
use crate::store::temporary;
use crate::tpccd::workload::connect;

/// Whoever is beside.
pub const POSTGRES: &str = "PostgreSQL 15";
/// What a server takes besides caches: code, 32 sessions with their plans, what waits to be written, compactions.
const ITSELF_BYTES: u64 = 256 << 20;
/// PostgreSQL and we refuse to have less.
const LEAST_CACHE_BYTES: u64 = 1 << 20;
/// For reports.
const NO_LIMIT: &str = "no memory limit: page caches are dropped instead";

/// How much of the data the cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// All of it.
    Holds,
    /// A tenth of it.
    Tenth,
}

impl Cache {
    /// For tables.
    pub fn name(self) -> &'static str {
        match self {
            Cache::Holds => "in cache",
            Cache::Tenth => "ten times the cache",
        }
    }

    /// Of data of this size.
    pub fn bytes(self, data_bytes: u64) -> u64 {
        match self {
            Cache::Holds => data_bytes * 2 + (64 << 20),
            Cache::Tenth => (data_bytes / 10).max(LEAST_CACHE_BYTES),
        }
    }
}

/// When a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Before it is on the disk, which is the paper's logs on tmpfs: everything but the device.
    Asynchronous,
    /// When it is.
    Durable,
}

impl Commit {
    fn setting(self) -> &'static str {
        match self {
            Commit::Asynchronous => "off",
            Commit::Durable => "on",
        }
    }
}

/// A server's process.
enum Process {
    Froglet(Froglet),
    Postgres(Postgres),
}

/// One of the servers. Fields are dropped in this order: a group is removed when its processes have ended.
pub struct Server {
    name: String,
    process: Process,
    group: Option<MemoryGroup>,
    cache_bytes: u64,
    /// See [`Bench::still`].
    still: Duration,
    _config: Option<TempDir>,
}

impl Server {
    /// A froglet; `memory_bytes`: about what its tables in memory will take.
    pub fn froglet(
        bench: &Bench<'_>,
        name: &str,
        cache_bytes: u64,
        memory_bytes: u64,
    ) -> Result<Server> {
        let config = temporary(&bench.args.dir)?;
        let file = config.path().join("froglet.toml");
        fs::write(&file, format!("disk_cache = \"{}kB\"\n", cache_bytes >> 10))?;
        // The cache is a part of it, at most half.
        let limit = format!("{}kB", ((512 << 20) + 3 * memory_bytes + 2 * cache_bytes) >> 10);
        let file = file.to_str().context("a path that is no text")?;
        let options = ["--config", file, "--memory-limit", &limit];
        let froglet = Froglet::start(&bench.args.binary()?, &bench.args.dir, &options)?;
        Ok(Server {
            name: name.to_owned(),
            process: Process::Froglet(froglet),
            group: None,
            cache_bytes,
            still: bench.still(),
            _config: Some(config),
        })
    }

    /// A PostgreSQL.
    pub fn postgres(bench: &Bench<'_>, cache_bytes: u64) -> Result<Server> {
        let cache = format!("shared_buffers={}kB", cache_bytes >> 10);
        let postgres = Postgres::start(&bench.args.postgres, &bench.args.dir, &[&cache])?;
        Ok(Server {
            name: POSTGRES.to_owned(),
            process: Process::Postgres(postgres),
            group: None,
            cache_bytes,
            still: bench.still(),
            _config: None,
        })
    }

    /// For tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has tables in memory and on disk.
    pub fn is_froglet(&self) -> bool {
        matches!(self.process, Process::Froglet(_))
    }

    fn port(&self) -> u16 {
        match &self.process {
            Process::Froglet(froglet) => froglet.port(),
            Process::Postgres(postgres) => postgres.port(),
        }
    }

    fn pid(&self) -> u32 {
        match &self.process {
            Process::Froglet(froglet) => froglet.pid(),
            Process::Postgres(postgres) => postgres.pid(),
        }
    }

    /// A connection under snapshot isolation, as the paper has it.
    pub async fn client(&self, commit: Commit) -> Result<Client> {
        let client = connect(self.port()).await?;
        let settings = format!(
            "SET synchronous_commit = {}; SET default_transaction_isolation = 'repeatable read'",
            commit.setting()
        );
        client.batch_execute(&settings).await?;
        Ok(client)
    }

    /// What it allocates and reads from now on can be limited. Before anything is loaded.
    fn join_group(&mut self) -> Result<()> {
        let group = MemoryGroup::create()?;
        group.add(self.pid())?;
        self.group = Some(group);
        Ok(())
    }

    /// Writes what is loaded, and waits until it is at rest.
    pub async fn settle(&self) -> Result<()> {
        let client = connect(self.port()).await?;
        if !self.is_froglet() {
            client.batch_execute("VACUUM (ANALYZE)").await?;
            client.batch_execute("CHECKPOINT").await?;
            return Ok(());
        }
        engines::settle(&client, self.still).await.map(drop)
    }

    /// Limits its memory: the same for everybody, and on top what its tables in memory take, with a quarter for versions
    /// and rows to come. Who has no group, or more to come, is not limited.
    async fn confine(&self, report: &mut Report, operation: &str) -> Result<()> {
        let Some(group) = &self.group else { return Ok(()) };
        let mut limit = 2 * self.cache_bytes + ITSELF_BYTES;
        if self.is_froglet() {
            let client = connect(self.port()).await?;
            limit += engines::Figures::read(&client, Home::Memory).await?.memory_bytes * 5 / 4;
        }
        report.add(&self.name, operation, "memory limit", limit as f64, "B");
        group.limit(limit).with_context(|| self.name.clone())
    }

    /// Takes the limit away.
    pub fn release(&self) -> Result<()> {
        self.group.as_ref().map_or(Ok(()), MemoryGroup::lift)
    }

    /// Stops it.
    pub fn stop(self) -> Result<()> {
        match self.process {
            Process::Froglet(froglet) => froglet.stop(),
            Process::Postgres(postgres) => postgres.stop(),
        }
    }
}

/// Gives servers a memory group each. Where there is none, says so; the kernel forgets what it has of files before
/// anything is measured instead.
pub fn join_groups<'a>(servers: impl Iterator<Item = &'a mut Server>, report: &mut Report) {
    let mut servers: Vec<&mut Server> = servers.collect();
    if let Err(error) = servers.iter_mut().try_for_each(|server| server.join_group()) {
        servers.iter_mut().for_each(|server| server.group = None);
        report.add("memory cgroup", NO_LIMIT, "there", 0.0, "");
        report.summary += &format!("        {NO_LIMIT}: {error:#}\n");
    }
}

/// Everything is written and at rest, and limited if it is to be.
pub async fn ready(
    servers: &[Server],
    cache: Cache,
    report: &mut Report,
    operation: &str,
) -> Result<()> {
    for server in servers {
        progress::phase(&format!("{}: until it is at rest", server.name));
        server.settle().await?;
        report.add(&server.name, operation, "cache", server.cache_bytes as f64, "B");
        if cache == Cache::Tenth {
            server.confine(report, operation).await?;
        }
    }
    if cache == Cache::Tenth && !drop_page_cache() {
        report.summary +=
            &format!("        {operation}: the page cache stays, dropping it is not allowed\n");
    }
    Ok(())
}
