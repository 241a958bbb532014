//! One run: a server with a fresh population, clients, one big flip or none, and what is wrong then.
//!
//! ```text
//!   clients   ── warm-up ──┬── calm ──┬─────────────── window ───────────────┬─ stop
//!   change                            BEGIN … COMMIT ┊ rows, on access       ┊ … end of the
//!                                                    ┊ and in the background ┊ migration, checks
//! ```
//!
//! The window is as long under every approach and begins where the change does. Where a client that
//! knows nothing would go on as before (the old tables are kept), clients begin no transaction
//! while COMMIT is on its way: the gate is closed once those under way have ended.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls};

use super::super::arrivals::Arrivals;
use super::super::clients::Clients;
use super::super::cutover::Cutover;
use super::super::recording::{Recording, Span};
use super::super::statements::Place;
use super::super::system::{System, Systems};
use super::super::transactions::{self, Mix};
use super::super::workload::{Session, Workload, connect};
use super::approach::Approach;
use super::change::{Change, FOREIGN_KEYS};
use super::{check, multi_step, tracking};
use crate::tpcc::db::Scale;
use crate::tpcc::inputs::Terminal;

/// The end of a migration is not waited for longer, once the clients have stopped.
const PATIENCE: Duration = Duration::from_secs(300);

/// What to run.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The schema change.
    pub change: &'a Change,
    /// The population.
    pub scale: Scale,
    /// How many clients.
    pub clients: u16,
    /// When they want their transactions.
    pub arrivals: Arrivals,
    /// Before anything counts.
    pub warm_up: Duration,
    /// Between that and the change.
    pub calm: Duration,
    /// From the change on.
    pub window: Duration,
    /// Customers of a district that are named by clients; all, and not uniformly, if not said.
    pub hot_customers: Option<i32>,
    /// Leaves out transactions that know no customer.
    pub only_customers: bool,
    /// Of [`FOREIGN_KEYS`].
    pub foreign_keys: usize,
    /// Touches nearly all rows of the split table after the change (`tracking.rs`).
    pub touch_all: bool,
    /// SQL for the session that makes the change, besides that of the approach.
    pub settings: Vec<String>,
}

/// What came of it. Times of the clients are since they began.
pub struct Outcome {
    /// The clients' transactions.
    pub recording: Recording,
    /// From the end of the warm-up to the change.
    pub before: Span,
    /// From BEGIN to the answer to COMMIT.
    pub change: Span,
    /// From the change's BEGIN on.
    pub window: Span,
    /// Whether the change came to its COMMIT.
    pub committed: bool,
    /// What COMMIT took.
    pub commit: Option<Duration>,
    /// From COMMIT to the first answer on the new schema.
    pub first_answer: Option<Duration>,
    /// When all rows were migrated, since the clients began.
    pub ended: Option<Duration>,
    /// Rows migrated because a client touched them.
    pub on_access: u64,
    /// And by others: the scan, the background, the filling client.
    pub in_background: u64,
    /// Transactions that were begun again, by SQLSTATE.
    pub retries: BTreeMap<String, u64>,
    /// Transactions wanted that nobody had begun at the end.
    pub unserved: usize,
    /// What was checked, and how many rows were wrong.
    pub wrong: Vec<(&'static str, i64)>,
}

/// How a change went.
struct Flip {
    commit: Duration,
    /// Rows that a client has copied.
    copied: u64,
    /// Parts that it began again.
    again: u64,
}

impl Run<'_> {
    /// Runs it on a server of its own.
    pub fn on(&self, systems: &Systems<'_>, approach: Approach) -> Result<Outcome> {
        let system = systems.start(super::SERVER)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(self.with(&system, approach))?;
        drop(runtime);
        system.stop()?;
        Ok(outcome)
    }

    async fn with(&self, system: &System<'_>, approach: Approach) -> Result<Outcome> {
        let ddl = connect(system.port()).await?;
        self.prepare(&ddl, system).await?;
        let never_ordered = Arc::new(self.never_ordered(&ddl).await?);
        let mix = Mix { only_customers: self.only_customers, never_ordered, ..Mix::default() };
        let cutover = Arc::new(Cutover::to(self.change.version(Place::New)));
        let mut sessions = Vec::new();
        for n in 0..self.clients {
            let home = i32::from(n) % self.scale.warehouses + 1;
            let mut terminal = Terminal::new(home, self.scale, 1000 + u64::from(n));
            if let Some(hot) = self.hot_customers {
                terminal = terminal.with_hot_customers(hot);
            }
            let client = connect(system.port()).await?;
            let session = transactions::Session::open(client, terminal, mix.clone()).await;
            sessions.push(Session::Tpcc(Box::new(session.context("preparing a client")?)));
        }
        for sql in approach.settings().iter().chain(&self.settings) {
            ddl.batch_execute(sql).await.context(sql.clone())?;
        }
        let clients = Clients::begin(sessions, self.arrivals, Some(cutover.clone()))?;
        let began = clients.began();
        sleep(self.warm_up + self.calm).await;
        let (start, clock) = (began.elapsed(), SystemTime::now());
        let flip = self.flip(approach, &ddl, &clients, &cutover).await?;
        let end = began.elapsed();
        if self.touch_all {
            tracking::touch(&ddl, self.scale).await.context("touching all rows")?;
        }
        sleep((start + self.window).saturating_sub(began.elapsed())).await;
        let unserved = clients.waiting();
        let window = Span { start, end: start + self.window };
        let recording = clients.stop().await?;

        let mut outcome = Outcome {
            recording,
            before: Span { start: self.warm_up, end: start },
            change: Span { start, end },
            window,
            committed: flip.is_some(),
            commit: flip.as_ref().map(|flip| flip.commit),
            first_answer: cutover.first_answer(),
            ended: None,
            on_access: 0,
            in_background: 0,
            retries: cutover.retries(),
            unserved,
            wrong: Vec::new(),
        };
        if let Some(Flip { copied, again, .. }) = flip.filter(|_| approach != Approach::NoDdl) {
            outcome.in_background = copied;
            if again > 0 {
                outcome.retries.insert("parts filled again".to_owned(), again);
            }
            let last = self.migrated(&ddl, &mut outcome).await?;
            let last = last.and_then(|last| last.duration_since(clock).ok());
            outcome.ended = Some(last.map_or(end, |last| end.max(start + last)));
        }
        system.gather()?;
        let is_new = outcome.committed && approach != Approach::NoDdl;
        for (what, sql) in check::queries(self.change, is_new, self.scale) {
            let row = ddl.query_one(&sql, &[]).await.with_context(|| sql.clone())?;
            outcome.wrong.push((what, row.get(0)));
        }
        Ok(outcome)
    }

    async fn prepare(&self, ddl: &Client, system: &System<'_>) -> Result<()> {
        system.load_indexed(ddl, Workload::Tpcc(self.scale), self.change.indexes).await?;
        let keys = FOREIGN_KEYS[..self.foreign_keys].iter().map(|[old, _]| (*old).to_owned());
        for sql in keys.chain(check::remember(self.change)) {
            ddl.batch_execute(&sql).await.context(sql)?;
        }
        system.spread(ddl, self.change.sources).await
    }

    /// Stock that a join with order lines loses.
    async fn never_ordered(&self, ddl: &Client) -> Result<HashSet<(i32, i32)>> {
        if !self.change.sources.contains(&"stock") {
            return Ok(HashSet::new());
        }
        let sql = "SELECT s_w_id, s_i_id FROM stock EXCEPT \
            SELECT ol_supply_w_id, ol_i_id FROM order_line";
        let rows = ddl.query(sql, &[]).await.context(sql)?;
        Ok(rows.into_iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Makes the change; `None` if it was given up because it takes longer than the window.
    async fn flip(
        &self,
        approach: Approach,
        ddl: &Client,
        clients: &Clients,
        cutover: &Cutover,
    ) -> Result<Option<Flip>> {
        let new = self.change.version(Place::New);
        let mut flip = Flip { commit: Duration::ZERO, copied: 0, again: 0 };
        match approach {
            Approach::NoDdl => {}
            Approach::EagerBlocking => {
                let _alone = clients.gate().write().await;
                self.statements(ddl).await?;
                flip.commit = commit(ddl, cutover).await?;
                cutover.tell(new);
            }
            Approach::Tesseract | Approach::Lazy | Approach::Hybrid | Approach::LazyOnConflict => {
                let Ok(made) = timeout(self.window, self.statements(ddl)).await else {
                    ddl.cancel_token().cancel_query(NoTls).await.context("giving up")?;
                    ddl.batch_execute("ROLLBACK").await?;
                    return Ok(None);
                };
                made?;
                let keeps = !self.change.refuses_the_old();
                let _alone = if keeps { Some(clients.gate().write().await) } else { None };
                flip.commit = commit(ddl, cutover).await?;
                cutover.tell(new);
            }
            Approach::MultiStep => {
                let fill = multi_step::fill(self.change, self.scale, ddl, clients, cutover);
                (flip.copied, flip.again) = fill.await.context("filling the new tables")?;
                ddl.batch_execute("BEGIN").await?;
                if let Some(sql) = self.change.drop {
                    ddl.batch_execute(sql).await.context(sql)?;
                }
                flip.commit = commit(ddl, cutover).await?;
                cutover.tell(new);
            }
            Approach::All => bail!("{} cannot be run", approach.name()),
        }
        Ok(Some(flip))
    }

    async fn statements(&self, ddl: &Client) -> Result<()> {
        ddl.batch_execute("BEGIN").await?;
        let keys: Vec<&str> =
            FOREIGN_KEYS[..self.foreign_keys].iter().map(|[_, new]| *new).collect();
        for sql in self.change.statements(&keys) {
            ddl.batch_execute(&sql).await.with_context(|| sql.clone())?;
        }
        Ok(())
    }

    /// Waits until all rows are migrated, and reads when that was and who did it.
    async fn migrated(&self, ddl: &Client, outcome: &mut Outcome) -> Result<Option<SystemTime>> {
        // Of a table that is made at once the view names the source.
        let sql = "SELECT ended, rows_on_access, rows_scanned, error FROM froglet.migrations \
            WHERE kind = 'table' AND statement LIKE $1";
        let waiting = Instant::now();
        let mut last = None;
        for table in self.change.tables {
            let statement = format!("CREATE TABLE {} AS%", table.name);
            loop {
                let rows = ddl.query(sql, &[&statement]).await.context(sql)?;
                if rows.iter().any(|row| row.get::<_, Option<SystemTime>>(0).is_none()) {
                    ensure!(waiting.elapsed() < PATIENCE, "{} is not migrated", table.name);
                    sleep(Duration::from_millis(20)).await;
                    continue;
                }
                for row in rows {
                    if let Some(error) = row.get::<_, Option<String>>(3) {
                        bail!("{} was not migrated: {error}", table.name);
                    }
                    last = last.max(row.get(0));
                    outcome.on_access += row.get::<_, i64>(1) as u64;
                    outcome.in_background += row.get::<_, i64>(2) as u64;
                }
                break;
            }
        }
        Ok(last)
    }
}

async fn commit(ddl: &Client, cutover: &Cutover) -> Result<Duration> {
    let begun = Instant::now();
    cutover.commit_begins();
    ddl.batch_execute("COMMIT").await.context("COMMIT of the change")?;
    Ok(begun.elapsed())
}
