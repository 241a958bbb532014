//! Requests on the new schema alone: of each of TPC-C's transactions what it asks of customers, while nothing is migrated in the
//! background (the paper's figures 8, below, 9, 10 and 11, and table 1).
//!
//! ```text
//!   customer, filled ─▶ regions placed ─▶ COMMIT of the split ─▶ clients, each customer named once
//! ```
//! A customer that is named by number is one that nobody has named before; one of three is named by last name, as TPC-C does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::try_join;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

use super::cluster::{Cluster, Leaders};
use super::modes::Mode;
use crate::Args;
use crate::closed;
use crate::histogram::Histogram;
use crate::server::Froglet;
use crate::tpcc::db::{DISTRICTS, Scale};
use crate::tpcc::inputs::{Kind, Terminal, Who};
use crate::tpccd::flip::change::SPLIT;
use crate::tpccd::load;
use crate::tpccd::money::Cents;
use crate::tpccd::statements::{Customers, Place};
use crate::tpccd::transactions::each;
use crate::tpccd::workload::connect;

/// Transactions that ask something of customers.
pub const KINDS: [Kind; 4] = [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery];

/// Of all customers, by the index of their names.
const NAMED: &str = "c_w_id = 1 AND c_d_id IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10) AND c_last >= ''";

/// A gateway whose customers are split, and whose rows are where they were.
pub struct Split {
    gateway: Froglet,
    scale: Scale,
    next: Arc<AtomicI32>,
    /// What COMMIT took, if there was one.
    pub commit: Option<Duration>,
    /// From then to the first answer of the new tables.
    pub first_answer: Duration,
}

impl Split {
    /// Splits customers in a database of its own.
    pub async fn make(
        args: &Args,
        cluster: &Cluster,
        mode: Mode,
        leaders: Leaders,
        scale: Scale,
        delay_ms: f64,
    ) -> Result<Split> {
        cluster.set_delay_ms(0.0)?;
        let gateway = cluster.gateway(&args.binary()?, &args.dir)?;
        let ddl = connect(gateway.port()).await?;
        load::load_customers(&ddl, scale).await?;
        cluster.place(&ddl, &["customer"], leaders).await?;
        let commit = match mode {
            Mode::Upperbound => {
                fill(&ddl).await?;
                cluster.set_delay_ms(delay_ms)?;
                None
            }
            _ => {
                cluster.set_delay_ms(delay_ms)?;
                Some(split(&ddl, mode).await?)
            }
        };
        // The last customer of the last district: nobody else names it.
        let answered =
            "SELECT c_balance FROM customer_private WHERE c_w_id = 1 AND c_d_id = 10 AND c_id = 1";
        let begun = Instant::now();
        ddl.query_one(answered, &[]).await.context(answered)?;
        let first_answer = begun.elapsed();
        Ok(Split { gateway, scale, next: Arc::default(), commit, first_answer })
    }

    /// A client of it.
    pub async fn client(&self, seed: u64, only: Option<Kind>) -> Result<Requests> {
        let client = connect(self.gateway.port()).await?;
        let customers = Customers::prepare(&client, Place::New).await?;
        let terminal = Terminal::new(1, self.scale, seed);
        Ok(Requests {
            client,
            customers,
            terminal,
            next: Arc::clone(&self.next),
            only,
            entered: seed as usize,
            scale: self.scale,
            last: None,
        })
    }

    /// Clients in a closed loop.
    pub async fn measure(&self, clients: u16, measure: Duration) -> Result<closed::Round> {
        let mut all = Vec::new();
        for n in 0..clients {
            all.push(self.client(1 + u64::from(n), None).await?);
        }
        closed::run(&mut all, clients, measure).await
    }

    /// What one transaction of a type costs, while there are no others.
    pub async fn cost(&self, kind: Kind, transactions: u32) -> Result<Cost> {
        let ddl = connect(self.gateway.port()).await?;
        let mut client = self.client(77, Some(kind)).await?;
        cost_of(&ddl, &mut client, transactions).await
    }

    /// Ends it.
    pub fn stop(self) -> Result<()> {
        self.gateway.stop()
    }
}

/// Of one transaction.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// To stores.
    pub requests: f64,
    /// Waits for these and for timestamps.
    pub round_trips: f64,
    /// Latency.
    pub p50_ms: f64,
}

/// Makes the new tables lazily; what COMMIT took.
async fn split(ddl: &Client, mode: Mode) -> Result<Duration> {
    let settings = ["SET froglet.migration_delay = '1d'", "SET froglet.migration = lazy"];
    let settings = settings.map(str::to_owned).into_iter().chain(mode.settings());
    for sql in settings.chain(["BEGIN".to_owned()]).chain(SPLIT.statements(&[])) {
        ddl.batch_execute(&sql).await.with_context(|| sql.clone())?;
    }
    let begun = Instant::now();
    ddl.batch_execute("COMMIT").await.context("COMMIT of the split")?;
    Ok(begun.elapsed())
}

/// Makes the new tables and fills them; the old one stays, and nobody uses it.
async fn fill(ddl: &Client) -> Result<()> {
    ddl.batch_execute("BEGIN").await?;
    for sql in SPLIT.empty() {
        ddl.batch_execute(&sql).await.context(sql)?;
    }
    ddl.batch_execute("COMMIT").await?;
    for table in SPLIT.tables {
        let sql = format!("INSERT INTO {} {}", table.name, table.query);
        ddl.batch_execute(&sql).await.context(sql)?;
    }
    // Whoever reads rows and entries finishes what their commit has left to do.
    for (table, condition) in
        [("customer_private", "true"), ("customer_public", "true"), ("customer_public", NAMED)]
    {
        let sql = format!("SELECT count(*) FROM {table} WHERE {condition}");
        ddl.batch_execute(&sql).await.context(sql)?;
    }
    Ok(())
}

/// What a transaction of a client costs, who is alone at a gateway, after one that is not counted.
pub async fn cost_of(
    ddl: &Client,
    client: &mut impl closed::Client,
    transactions: u32,
) -> Result<Cost> {
    client.transaction().await?;
    let before = counters(ddl).await?;
    let mut latency = Histogram::default();
    for _ in 0..transactions {
        let begun = Instant::now();
        client.transaction().await?;
        latency.record(begun.elapsed().as_nanos() as u64);
    }
    let after = counters(ddl).await?;
    let nothing = counters(ddl).await?;
    // What asking costs is not the transactions'.
    let of = |at: usize| (after[at] - before[at]) - (nothing[at] - after[at]);
    let [requests, round_trips] = [0, 1].map(|at| of(at) as f64 / f64::from(transactions));
    Ok(Cost { requests, round_trips, p50_ms: latency.quantile_us(0.5) / 1000.0 })
}

/// Requests of stores that a gateway has waited for so far, and round trips.
async fn counters(client: &Client) -> Result<[i64; 2]> {
    let sql = "SELECT requests, round_trips FROM froglet.engines WHERE engine = 'cluster'";
    let row = client.query_one(sql, &[]).await.context(sql)?;
    Ok([row.get(0), row.get(1)])
}

/// A client's connection.
pub struct Requests {
    client: Client,
    customers: Customers,
    terminal: Terminal,
    /// Customers that were named, of all clients together.
    next: Arc<AtomicI32>,
    /// Transactions of this type alone; else of each in turn.
    only: Option<Kind>,
    entered: usize,
    scale: Scale,
    /// What has not come to its end.
    last: Option<Entered>,
}

/// What a client asks: of which customers, by their districts.
struct Entered {
    kind: Kind,
    customers: Vec<(i32, Who)>,
}

impl Requests {
    /// One that nobody has named.
    fn fresh(&self) -> (i32, i32) {
        let n = self.next.fetch_add(1, Ordering::Relaxed) % (self.scale.customers * DISTRICTS);
        (n % DISTRICTS + 1, n / DISTRICTS + 1)
    }

    fn enter(&mut self) -> Entered {
        let kind = self.only.unwrap_or_else(|| {
            self.entered += 1;
            KINDS[self.entered % KINDS.len()]
        });
        let who = match kind {
            Kind::Payment => self.terminal.payment().customer,
            Kind::OrderStatus => self.terminal.order_status().customer,
            _ => Who::Number(0),
        };
        let count = if kind == Kind::Delivery { DISTRICTS } else { 1 };
        let named = |_| {
            let (district, customer) = self.fresh();
            let is_named = matches!(who, Who::LastName(_));
            (district, if is_named { who.clone() } else { Who::Number(customer) })
        };
        let mut customers: Vec<(i32, Who)> = (0..count).map(named).collect();
        // In one order, so that no two transactions wait for each other.
        customers.sort_by_key(|(district, _)| *district);
        Entered { kind, customers }
    }

    async fn run(&mut self, entered: Entered) -> Result<usize, Error> {
        let ended = match self.ask(&entered).await {
            Ok(()) => self.client.batch_execute("COMMIT").await,
            Err(e) => Err(e),
        };
        if let Err(e) = ended {
            self.last = Some(entered);
            self.client.batch_execute("ROLLBACK").await?;
            return Err(e);
        }
        Ok(entered.kind as usize)
    }

    async fn ask(&self, entered: &Entered) -> Result<(), Error> {
        let (client, s) = (&self.client, &self.customers);
        let (w, amount) = (1, Cents(1_000));
        client.batch_execute("BEGIN").await?;
        for (d, who) in &entered.customers {
            let c = match who {
                Who::LastName(name) => {
                    let found = client.query(&s.by_last_name, &[&w, d, name]).await?;
                    found.get(found.len().saturating_sub(1) / 2).map_or(0, |row| row.get(0))
                }
                Who::Number(c) => *c,
            };
            let key: [&(dyn ToSql + Sync); 3] = [&w, d, &c];
            let change: [&(dyn ToSql + Sync); 4] = [&amount, &w, d, &c];
            match entered.kind {
                Kind::NewOrder => drop(each(client, &s.buyer, &key).await?),
                Kind::OrderStatus => drop(each(client, &s.status, &key).await?),
                Kind::Delivery => drop(each(client, &s.credit, &change).await?),
                Kind::Payment => {
                    let charge = each(client, &s.charge, &change);
                    let (charged, _) = try_join!(charge, each(client, &s.names, &key))?;
                    if charged.is_some_and(|row| row.get::<_, &str>(0) == "BC") {
                        each(client, &s.remember, &[&"note", &w, d, &c]).await?;
                    }
                }
                Kind::StockLevel => unreachable!("it asks nothing of customers"),
            }
        }
        Ok(())
    }
}

impl closed::Client for Requests {
    async fn transaction(&mut self) -> Result<usize, Error> {
        let entered = self.enter();
        self.run(entered).await
    }

    async fn again(&mut self) -> Result<usize, Error> {
        match self.last.take() {
            Some(entered) => self.run(entered).await,
            None => closed::Client::transaction(self).await,
        }
    }
}
