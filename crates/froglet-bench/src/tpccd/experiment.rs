//! One run: a server with a fresh population, clients, and one schema change or none.
//!
//! ```text
//!   clients   ── warm-up ──┬── calm ──┬───── during ─────┬── calm ──▶ stop
//!   DDL                               BEGIN … COMMIT                        undo
//!   verify    ── warm-up ──┬ BEGIN … ─ clients stop ─ COMMIT ─ compare
//! ```
//!
//! PostgreSQL is compared with its query only where it makes tables: other changes of its keep the
//! clients out until COMMIT, so nothing is written that could be missed, and nobody could stop.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls};

use super::arrivals::Arrivals;
use super::clients::Clients;
use super::operations::Operation;
use super::processor::{Accounts, Spent};
use super::recording::{Recording, Span};
use super::system::{System, Systems};
use super::workload::{Workload, connect};

/// How a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    /// Not at all, but the clients are watched for as long, and at least for a calm, so that what a
    /// short change is compared with is not chance.
    NoDdl,
    /// While no client has a transaction.
    Blocking,
    /// While they go on.
    Tesseract,
    /// As PostgreSQL makes it.
    Postgres,
}

impl Approach {
    /// The paper's name, or PostgreSQL's.
    pub fn name(self) -> &'static str {
        match self {
            Approach::NoDdl => "NoDDL",
            Approach::Blocking => "Blocking",
            Approach::Tesseract => "Tesseract",
            Approach::Postgres => "PostgreSQL",
        }
    }
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Experiment<'a> {
    /// The clients' transactions.
    pub workload: Workload,
    /// The schema change.
    pub operation: &'a Operation,
    /// How many clients.
    pub clients: u16,
    /// When they want their transactions.
    pub arrivals: Arrivals,
    /// Before anything counts.
    pub warm_up: Duration,
    /// Before the change and after it.
    pub calm: Duration,
    /// A change that takes longer is given up: capture need not ever catch up with the clients.
    pub patience: Duration,
}

/// What came of a run.
pub struct Outcome {
    /// The clients' transactions.
    pub recording: Recording,
    /// What counts: from the end of the warm-up to the end of the second calm.
    pub counted: Span,
    /// The change: from its BEGIN to the answer to its COMMIT.
    pub change: Span,
    /// Whether the change came to its COMMIT; if not, it was cancelled where it ends here.
    pub committed: bool,
    /// Transactions wanted that no client had begun at the end; 0 in a closed loop.
    pub unserved: usize,
    /// Processor time during the change, where a system has one process.
    pub spent: Option<Spent>,
    /// What the verification found wrong; `None` where nothing was verified.
    pub wrong: Option<i64>,
}

impl Experiment<'_> {
    /// Runs it with a fresh population. `instead` is how long the change takes online, as far as is
    /// known.
    pub fn run(
        &self,
        systems: &Systems<'_>,
        approach: Approach,
        instead: Duration,
    ) -> Result<Outcome> {
        self.on(systems, approach, async |ddl, system| {
            let mut outcome = self.measure(ddl, system, approach, instead).await?;
            let comparable = match approach {
                Approach::NoDdl | Approach::Blocking => false,
                Approach::Tesseract => true,
                Approach::Postgres => self.operation.makes_tables(),
            };
            if comparable && outcome.committed {
                outcome.wrong = self.verify(ddl, system.port()).await.context("verifying")?;
            }
            Ok(outcome)
        })
    }

    /// Transactions a second without a change, on the system of an approach.
    pub fn saturate(&self, systems: &Systems<'_>, approach: Approach) -> Result<f64> {
        let outcome = self.on(systems, approach, async |ddl, system| {
            self.measure(ddl, system, Approach::NoDdl, Duration::ZERO).await
        })?;
        let per_second = outcome.recording.per_second(outcome.counted);
        ensure!(per_second > 0.0, "no client committed anything");
        Ok(per_second)
    }

    /// Does something on the system of an approach with a fresh population.
    fn on(
        &self,
        systems: &Systems<'_>,
        approach: Approach,
        work: impl AsyncFnOnce(&Client, &System<'_>) -> Result<Outcome>,
    ) -> Result<Outcome> {
        let system = systems.start(approach)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(async {
            let ddl = connect(system.port()).await?;
            system.load(&ddl, self.workload).await?;
            work(&ddl, &system).await
        })?;
        drop(runtime);
        system.stop()?;
        Ok(outcome)
    }

    /// Makes the change once, on a population that is there.
    pub async fn measure(
        &self,
        ddl: &Client,
        system: &System<'_>,
        approach: Approach,
        instead: Duration,
    ) -> Result<Outcome> {
        let accounts = || system.pid().map(Accounts::read).transpose().context("processor time");
        let clients =
            Clients::start(system.port(), self.workload, self.clients, self.arrivals).await?;
        let began = clients.began();
        sleep(self.warm_up + self.calm).await;
        let before = accounts()?;
        let start = began.elapsed();
        let committed = match approach {
            Approach::NoDdl => {
                sleep(instead.max(self.calm)).await;
                false
            }
            Approach::Blocking => {
                let _alone = clients.gate().write().await;
                self.change(ddl).await? && commit(ddl).await?
            }
            Approach::Tesseract | Approach::Postgres => {
                self.change(ddl).await? && commit(ddl).await?
            }
        };
        let end = began.elapsed();
        let after = accounts()?;
        // Every approach is watched for as long as the one whose change took `instead`.
        sleep((start + instead).saturating_sub(end) + self.calm).await;
        let counted = Span { start: self.warm_up, end: began.elapsed() };
        let unserved = clients.waiting();
        let recording = clients.stop().await?;
        let change = Span { start, end };
        let spent = before.zip(after).map(|(before, after)| after.since(&before));
        Ok(Outcome { recording, counted, change, committed, unserved, spent, wrong: None })
    }

    /// Everything up to the COMMIT. False if it took too long: then it is cancelled.
    async fn change(&self, ddl: &Client) -> Result<bool> {
        let statements = async {
            // What is measured is the migration before the commit; to PostgreSQL this means nothing.
            ddl.batch_execute("BEGIN; SET LOCAL froglet.migration = eager").await?;
            for &statement in self.operation.statements {
                ddl.batch_execute(statement).await.context(statement)?;
            }
            anyhow::Ok(())
        };
        if let Ok(done) = timeout(self.patience, statements).await {
            return done.map(|()| true);
        }
        ddl.cancel_token().cancel_query(NoTls).await.context("cancelling the change")?;
        ddl.batch_execute("ROLLBACK").await?;
        Ok(false)
    }

    /// Takes the change back and makes it again, but stops the clients just before its COMMIT:
    /// nothing has been written since, so that what was migrated can be compared. `None` if the
    /// change did not come to its COMMIT this time.
    async fn verify(&self, ddl: &Client, port: u16) -> Result<Option<i64>> {
        let undo = self.operation.undo;
        ddl.batch_execute(undo).await.context(undo)?;
        let clients = Clients::start(port, self.workload, self.clients, self.arrivals).await?;
        let started = Instant::now();
        sleep(self.warm_up).await;
        let changed = self.change(ddl).await?;
        let recording = clients.stop().await?;
        if !changed {
            return Ok(None);
        }
        commit(ddl).await?;
        let all = Span { start: Duration::ZERO, end: started.elapsed() };
        ensure!(recording.per_second(all) > 0.0, "no client wrote while the change was made");
        let sql = self.operation.count_wrong;
        Ok(Some(ddl.query_one(sql, &[]).await.context(sql)?.get(0)))
    }
}

async fn commit(ddl: &Client) -> Result<bool> {
    ddl.batch_execute("COMMIT").await.context("COMMIT of the change")?;
    Ok(true)
}
