//! One run: a server with a fresh population, clients, and one schema change or none.
//!
//! ```text
//!   clients   ── warm-up ──┬── calm ──┬───── during ─────┬── calm ──▶ stop
//!   DDL                               BEGIN … COMMIT                        undo
//!   verify    ── warm-up ──┬ BEGIN … ─ clients stop ─ COMMIT ─ compare
//! ```

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls};

use super::clients::Clients;
use super::operations::Operation;
use super::recording::{Recording, Span};
use super::workload::{Workload, connect};
use crate::Args;
use crate::server::Froglet;

/// A change is given up after so many calms: capture need not ever catch up with the clients.
const PATIENCE_CALMS: u32 = 10;

/// How a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    /// Not at all, but the clients are watched for as long.
    NoDdl,
    /// While no client has a transaction.
    Blocking,
    /// While they go on.
    Tesseract,
}

impl Approach {
    /// The paper's name.
    pub fn name(self) -> &'static str {
        match self {
            Approach::NoDdl => "NoDDL",
            Approach::Blocking => "Blocking",
            Approach::Tesseract => "Tesseract",
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
    /// Before anything counts.
    pub warm_up: Duration,
    /// Before the change and after it.
    pub calm: Duration,
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
    /// What the verification found wrong; `None` where nothing was verified.
    pub wrong: Option<i64>,
}

impl Experiment<'_> {
    /// Runs it on a server of its own. NoDDL goes on for `instead` where others make the change.
    pub fn run(&self, args: &Args, approach: Approach, instead: Duration) -> Result<Outcome> {
        let options = ["--set", "synchronous_commit=off"];
        let server = Froglet::start(&args.binary()?, &args.dir, &options)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let port = server.port();
        let outcome = runtime.block_on(async {
            let ddl = connect(port).await?;
            self.workload.load(&ddl).await?;
            let mut outcome = self.measure(&ddl, port, approach, instead).await?;
            if approach == Approach::Tesseract && outcome.committed {
                outcome.wrong = self.verify(&ddl, port).await.context("verifying")?;
            }
            anyhow::Ok(outcome)
        })?;
        drop(runtime);
        server.stop()?;
        Ok(outcome)
    }

    async fn measure(
        &self,
        ddl: &Client,
        port: u16,
        approach: Approach,
        instead: Duration,
    ) -> Result<Outcome> {
        let clients = Clients::start(port, self.workload, self.clients).await?;
        let began = clients.began();
        sleep(self.warm_up + self.calm).await;
        let start = began.elapsed();
        let committed = match approach {
            Approach::NoDdl => {
                sleep(instead).await;
                false
            }
            Approach::Blocking => {
                let _alone = clients.gate().write().await;
                self.change(ddl).await? && commit(ddl).await?
            }
            Approach::Tesseract => self.change(ddl).await? && commit(ddl).await?,
        };
        let end = began.elapsed();
        // Every approach is watched for as long as the one whose change took `instead`.
        sleep((start + instead).saturating_sub(end) + self.calm).await;
        let counted = Span { start: self.warm_up, end: began.elapsed() };
        let recording = clients.stop().await?;
        Ok(Outcome { recording, counted, change: Span { start, end }, committed, wrong: None })
    }

    /// Everything up to the COMMIT. False if it took too long: then it is cancelled.
    async fn change(&self, ddl: &Client) -> Result<bool> {
        let statements = async {
            ddl.batch_execute("BEGIN").await?;
            for &statement in self.operation.statements {
                ddl.batch_execute(statement).await.context(statement)?;
            }
            anyhow::Ok(())
        };
        if let Ok(done) = timeout(PATIENCE_CALMS * self.calm, statements).await {
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
        let clients = Clients::start(port, self.workload, self.clients).await?;
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
