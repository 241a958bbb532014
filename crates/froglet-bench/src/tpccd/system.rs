//! Who serves a run: a froglet of its own, or the benchmark's PostgreSQL with an empty database.
//!
//! Both have `synchronous_commit` off. One PostgreSQL serves all runs, because a new cluster takes
//! longer than many of them.

use anyhow::{Context, Result};
use tokio_postgres::Client;

use super::experiment::Approach;
use super::workload::Workload;
use crate::Args;
use crate::postgres::Postgres;
use crate::server::Froglet;

const ASYNCHRONOUS: &str = "synchronous_commit=off";

/// Whoever can serve.
pub struct Systems<'a> {
    args: &'a Args,
    postgres: Option<Postgres>,
}

/// Who serves a run.
pub enum System<'a> {
    /// With a data directory of its own.
    Froglet(Froglet),
    /// Everybody's.
    Postgres(&'a Postgres),
}

impl Systems<'_> {
    /// Starts PostgreSQL, if it is to be compared with.
    pub fn new(args: &Args) -> Result<Systems<'_>> {
        let options = &args.tpccd;
        let is_compared = !options.no_postgres && !options.loops().is_empty();
        let start = || Postgres::start(&args.postgres, &args.dir, &[ASYNCHRONOUS]);
        let postgres = is_compared.then(start).transpose()?;
        Ok(Systems { args, postgres })
    }

    /// Without PostgreSQL.
    pub fn of_froglet(args: &Args) -> Systems<'_> {
        Systems { args, postgres: None }
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
            System::Froglet(froglet) => froglet.port(),
            System::Postgres(postgres) => postgres.port(),
        }
    }

    /// The process whose threads do everything; PostgreSQL has no such process.
    pub fn pid(&self) -> Option<u32> {
        match self {
            System::Froglet(froglet) => Some(froglet.pid()),
            System::Postgres(_) => None,
        }
    }

    /// Fills the database, whatever was in PostgreSQL's before.
    pub async fn load(&self, client: &Client, workload: Workload) -> Result<()> {
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
        workload.load(client).await?;
        if is_postgres {
            each(&["VACUUM (ANALYZE)", "CHECKPOINT"]).await?;
        }
        Ok(())
    }

    /// Stops a server of one run.
    pub fn stop(self) -> Result<()> {
        match self {
            System::Froglet(froglet) => froglet.stop(),
            System::Postgres(_) => Ok(()),
        }
    }
}
