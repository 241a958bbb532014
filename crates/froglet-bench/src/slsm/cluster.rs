//! A cluster whose machines are apart, made by the scripts of `cluster/`.
//!
//! ```text
//!   h1   PD, store 1; the gateway, and the benchmark with its clients
//!   h2   store 2     ─┐  a packet between two of them takes so many milliseconds
//!   h3   store 3     ─┘
//! ```

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio_postgres::Client;

use crate::Args;
use crate::server::Froglet;
use crate::store::temporary;

/// Servers of a cluster, for as long as it lasts.
pub struct Cluster {
    script: PathBuf,
    dir: TempDir,
    pd: String,
    databases: Cell<u32>,
    /// Between its machines, one way, in milliseconds; none: they are one machine.
    delay_ms: Cell<Option<f64>>,
}

/// On which machines the parts of a database are led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaders {
    /// The table that is split.
    pub old: u8,
    /// Tables that are made later.
    pub new: u8,
}

/// No two of the gateway, the old table and the new ones are together: the paper's usual case.
pub const APART: Leaders = Leaders { old: 2, new: 3 };

impl Cluster {
    /// Three machines, or one.
    pub fn start(args: &Args, machines: u8) -> Result<Cluster> {
        let script = args.slsm.cluster.join("servers.py");
        if !script.is_file() {
            let script = script.display();
            bail!("{script} is not there: name the directory of a checkout with --cluster");
        }
        let dir = temporary(&args.dir)?;
        let delay_ms = (machines > 1).then_some(0.0);
        let mut cluster = Cluster {
            script,
            pd: String::new(),
            dir,
            databases: Cell::new(0),
            delay_ms: Cell::new(delay_ms),
        };
        let machines = machines.to_string();
        let mut words = vec!["--stores", &machines];
        if delay_ms.is_some() {
            words.extend(["--delay", "0"]);
        }
        cluster.tell("start", &words)?;
        let said = fs::read_to_string(cluster.home().join("cluster.json"))?;
        let said: serde_json::Value = serde_json::from_str(&said)?;
        said["pd"].as_str().context("cluster.json does not name PD")?.clone_into(&mut cluster.pd);
        Ok(cluster)
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("cluster")
    }

    fn tell(&self, command: &str, words: &[&str]) -> Result<String> {
        let mut told = Command::new("python3");
        told.arg(&self.script).arg(command).arg(self.home()).args(words).stdin(Stdio::null());
        let output = told.output().with_context(|| format!("{told:?} cannot be run"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!("{} {command}: {}", self.script.display(), why.trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Packets between its machines take so long from now on, one way.
    pub fn set_delay_ms(&self, ms: f64) -> Result<()> {
        let Some(now) = self.delay_ms.get() else { return Ok(()) };
        if now.to_bits() != ms.to_bits() {
            self.tell("delay", &[&ms.to_string()])?;
            self.delay_ms.set(Some(ms));
        }
        Ok(())
    }

    /// A database with nothing in it.
    pub fn database(&self) -> String {
        let number = self.databases.get() + 1;
        self.databases.set(number);
        format!("tikv://{}/bench_{number}", self.pd)
    }

    /// A gateway to a database of its own.
    pub fn gateway(&self, binary: &Path, parent: &Path) -> Result<Froglet> {
        Froglet::start(binary, parent, &["--store", &self.database()])
    }

    /// Has the regions of some tables, and of tables that are made later, led where it is said; everything else is led
    /// beside the gateway.
    pub async fn place(&self, client: &Client, tables: &[&str], leaders: Leaders) -> Result<()> {
        if self.delay_ms.get().is_none() {
            return Ok(());
        }
        let sql = "SELECT DISTINCT table_start, table_end, table_name = ANY($1) FROM froglet.regions ORDER BY 1";
        let rows = client.query(sql, &[&tables]).await.context(sql)?;
        let (mut ranges, mut last) = (Vec::new(), String::new());
        for row in &rows {
            let [start, end] =
                [0, 1].map(|at| row.get::<_, &str>(at).trim_start_matches("\\x").to_owned());
            if last.is_empty() {
                // A database is a prefix, `tF` and four bytes.
                start[..12].clone_into(&mut last);
            }
            let is_old = row.get::<_, bool>(2);
            ranges.push((last, start.clone(), 1));
            ranges.push((start, end.clone(), if is_old { leaders.old } else { 1 }));
            last = end;
        }
        let prefix =
            last.get(..12).with_context(|| format!("there is none of the tables {tables:?}"))?;
        let next = format!("{:012x}", u64::from_str_radix(prefix, 16)? + 1);
        ranges.push((last, next, leaders.new));
        // What is on one machine may be one region.
        let mut joined: Vec<(String, String, u8)> = Vec::new();
        for (from, to, host) in ranges.into_iter().filter(|(from, to, _)| from < to) {
            match joined.last_mut() {
                Some((_, end, same)) if *same == host => *end = to,
                _ => joined.push((from, to, host)),
            }
        }
        let mut cuts: Vec<&str> = joined.iter().map(|(from, ..)| &**from).collect();
        cuts.extend(joined.last().map(|(_, to, _)| &**to));
        self.tell("split", &cuts)?;
        let pins: Vec<String> =
            joined.iter().map(|(from, to, host)| format!("{from}:{to}:h{host}")).collect();
        self.tell("pin", &pins.iter().map(String::as_str).collect::<Vec<_>>())?;
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.tell("stop", &[]) {
            eprintln!("the cluster was not stopped: {error:#}");
        }
    }
}
