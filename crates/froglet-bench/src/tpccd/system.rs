//! Who serves a run: a froglet of its own, the benchmark's PostgreSQL with an empty database, or a gateway of a cluster.
//!
//! The first two have `synchronous_commit` off. One PostgreSQL serves all runs, because a new cluster takes
//! longer than many of them.

use anyhow::{Context, Result};
use tokio_postgres::Client;

use super::experiment::Approach;
use super::workload::Workload;
use crate::Args;
use crate::postgres::Postgres;
use crate::server::Froglet;
use crate::slsm::cluster::{APART, Cluster};

const ASYNCHRONOUS: &str = "synchronous_commit=off";

/// Whoever can serve.
pub struct Systems<'a> {
    args: &'a Args,
    postgres: Option<Postgres>,
    /// With the delay between its machines, one way, in milliseconds.
    cluster: Option<(&'a Cluster, f64)>,
}

/// Who serves a run.
pub enum System<'a> {
    /// With a data directory of its own.
    Froglet(Froglet),
    /// Everybody's.
    Postgres(&'a Postgres),
    /// To a database of its own.
    Gateway(Froglet, &'a Cluster, f64),
}

impl<'a> Systems<'a> {
    /// Starts PostgreSQL, if it is to be compared with.
    pub fn new(args: &'a Args) -> Result<Systems<'a>> {
        let options = &args.tpccd;
        let is_compared = !options.no_postgres && !options.loops().is_empty();
        let start = || Postgres::start(&args.postgres, &args.dir, &[ASYNCHRONOUS]);
        let postgres = is_compared.then(start).transpose()?;
        Ok(Systems { args, postgres, cluster: None })
    }

    /// Without PostgreSQL.
    pub fn of_froglet(args: &'a Args) -> Systems<'a> {
        Systems { args, postgres: None, cluster: None }
    }

    /// Of gateways, to a cluster whose machines are so many milliseconds apart, one way.
    pub fn of_cluster(args: &'a Args, cluster: &'a Cluster, delay_ms: f64) -> Systems<'a> {
        Systems { args, postgres: None, cluster: Some((cluster, delay_ms)) }
    }

    /// Whether there is somebody to serve an approach.
    pub fn has(&self, approach: Approach) -> bool {
        approach != Approach::Postgres || self.postgres.is_some()
    }

    /// Who serves an approach.
    pub fn start(&self, approach: Approach) -> Result<System<'_>> {
        if approach == Approach::Postgres {
            let postgres = self.postgres.as_ref().context("PostgreSQL was left out")?;
            return Ok(System::Postgres(postgres));
        }
        if let Some((cluster, delay_ms)) = self.cluster {
            cluster.set_delay_ms(0.0)?;
            let gateway = cluster.gateway(&self.args.binary()?, &self.args.dir)?;
            return Ok(System::Gateway(gateway, cluster, delay_ms));
        }
        let options = ["--set", ASYNCHRONOUS];
        Ok(System::Froglet(Froglet::start(&self.args.binary()?, &self.args.dir, &options)?))
    }

    /// Stops PostgreSQL.
    pub fn stop(self) -> Result<()> {
        self.postgres.map_or(Ok(()), Postgres::stop)
    }
}

impl System<'_> {
    /// Where it listens on the loopback interface.
    pub fn port(&self) -> u16 {
        match self {
            System::Froglet(froglet) | System::Gateway(froglet, ..) => froglet.port(),
            System::Postgres(postgres) => postgres.port(),
        }
    }

    /// The process whose threads do everything; PostgreSQL has no such process.
    pub fn pid(&self) -> Option<u32> {
        match self {
            System::Froglet(froglet) | System::Gateway(froglet, ..) => Some(froglet.pid()),
            System::Postgres(_) => None,
        }
    }

    /// Fills the database, whatever was in PostgreSQL's before.
    pub async fn load(&self, client: &Client, workload: Workload) -> Result<()> {
        self.load_indexed(client, workload, &[]).await
    }

    /// The same with more indexes than TPC-C's.
    pub async fn load_indexed(
        &self,
        client: &Client,
        workload: Workload,
        indexes: &[&str],
    ) -> Result<()> {
        let each = async |statements: &[&str]| {
            for &statement in statements {
                client.batch_execute(statement).await.context(statement.to_owned())?;
            }
            anyhow::Ok(())
        };
        let is_postgres = matches!(self, System::Postgres(_));
        if is_postgres {
            each(&["DROP SCHEMA public CASCADE", "CREATE SCHEMA public"]).await?;
        }
        workload.load_indexed(client, indexes).await?;
        if is_postgres {
            each(&["VACUUM (ANALYZE)", "CHECKPOINT"]).await?;
        }
        Ok(())
    }

    /// In a cluster, these tables are away from the gateway and from tables that are made later, and its machines are apart from now
    /// on.
    pub async fn spread(&self, client: &Client, tables: &[&str]) -> Result<()> {
        if let System::Gateway(_, cluster, delay_ms) = self {
            cluster.place(client, tables, APART).await?;
            cluster.set_delay_ms(*delay_ms)?;
        }
        Ok(())
    }

    /// In a cluster, its machines are not apart any more: what is looked at now is not measured.
    pub fn gather(&self) -> Result<()> {
        match self {
            System::Gateway(_, cluster, _) => cluster.set_delay_ms(0.0),
            System::Froglet(_) | System::Postgres(_) => Ok(()),
        }
    }

    /// Stops a server of one run.
    pub fn stop(self) -> Result<()> {
        match self {
            System::Froglet(froglet) | System::Gateway(froglet, ..) => froglet.stop(),
            System::Postgres(_) => Ok(()),
        }
    }
}
