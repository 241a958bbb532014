//! Clients in a closed loop: each on a connection of its own, the next transaction when the last has ended.
//!
//! ```text
//!   client   ── run ── run ─┼─ run ─ refused, run again ── run ─┼      what ends in between counts,
//!                         from                                until    with its latency from the first try
//! ```
//! What the server refuses for the sake of others (40001, 40P01) is run again, and counts once.

use std::future::Future;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::histogram::Histogram;
use crate::tpcc::inputs::Kind;
use crate::tpccd::transactions::Session;

/// A transaction that is refused more often has failed for another reason.
const TRIES: u64 = 1000;

/// Whoever runs transactions. After an error the transaction is rolled back.
pub trait Client: Send + 'static {
    /// Runs the next; returns its type, a small number.
    fn transaction(&mut self) -> impl Future<Output = Result<usize, Error>> + Send;
    /// Runs the one that failed once more.
    fn again(&mut self) -> impl Future<Output = Result<usize, Error>> + Send;
}

/// Its types are [`Kind`]s.
impl Client for Session {
    async fn transaction(&mut self) -> Result<usize, Error> {
        Session::transaction(self).await.map(|kind| kind as usize)
    }

    async fn again(&mut self) -> Result<usize, Error> {
        Session::again(self).await.map(|kind| kind as usize)
    }
}

/// What a measurement has shown.
#[derive(Clone, Default)]
pub struct Round {
    /// By type, of transactions that ended while it was measured.
    latency: Vec<Histogram>,
    /// Tries that the server refused, by 40001 or 40P01.
    pub again: u64,
    /// How long.
    pub seconds: f64,
}

impl Round {
    /// Counts a transaction that has ended.
    pub fn record(&mut self, class: usize, latency: Duration) {
        if self.latency.len() <= class {
            self.latency.resize_with(class + 1, Histogram::default);
        }
        self.latency[class].record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    fn merge(&mut self, other: &Round) {
        let classes = self.latency.len().max(other.latency.len());
        self.latency.resize_with(classes, Histogram::default);
        self.latency.iter_mut().zip(&other.latency).for_each(|(a, b)| a.merge(b));
        self.again += other.again;
    }

    /// Latencies of a type of TPC-C's transactions.
    pub fn of(&self, kind: Kind) -> Histogram {
        self.latency.get(kind as usize).cloned().unwrap_or_default()
    }

    /// Latencies of all transactions.
    pub fn all(&self) -> Histogram {
        let mut all = Histogram::default();
        self.latency.iter().for_each(|of_class| all.merge(of_class));
        all
    }

    /// Transactions that have ended.
    pub fn transactions(&self) -> u64 {
        self.latency.iter().map(Histogram::count).sum()
    }

    /// Transactions a second.
    pub fn per_second(&self) -> f64 {
        self.transactions() as f64 / self.seconds
    }

    /// Of all tries those that the server refused, in percent.
    pub fn refused_percent(&self) -> f64 {
        let tries = self.transactions() + self.again;
        if tries == 0 { 0.0 } else { self.again as f64 / tries as f64 * 100.0 }
    }
}

/// Lets the first `count` of the clients run for `measure`, after a fifth of it to warm up (caches, and plans that are
/// made at the first use). After an error they are not there any more.
pub async fn run<C: Client>(clients: &mut Vec<C>, count: u16, measure: Duration) -> Result<Round> {
    let from = Instant::now() + measure.div_f64(5.0);
    let counted = from..from + measure;
    let running = clients.drain(..usize::from(count));
    let tasks = running.map(|client| tokio::spawn(work(client, counted.clone())));
    let tasks: Vec<_> = tasks.collect();
    let mut all = Round { seconds: measure.as_secs_f64(), ..Round::default() };
    for (at, task) in tasks.into_iter().enumerate() {
        let (client, seen) = task.await.context("a client panicked")??;
        all.merge(&seen);
        clients.insert(at, client);
    }
    Ok(all)
}

/// One client.
async fn work<C: Client>(mut client: C, counted: Range<Instant>) -> Result<(C, Round)> {
    let mut seen = Round::default();
    loop {
        let begun = Instant::now();
        if begun >= counted.end {
            return Ok((client, seen));
        }
        let mut tried = client.transaction().await;
        let mut refused = 0;
        let class = loop {
            match tried {
                Ok(class) => break class,
                Err(e) if is_refusal(&e) && refused < TRIES => refused += 1,
                Err(e) => return Err(e).context("a client's transaction"),
            }
            tried = client.again().await;
        };
        let ended = Instant::now();
        if counted.contains(&ended) {
            seen.record(class, ended - begun);
            seen.again += refused;
        }
    }
}

/// Whether a transaction was refused for the sake of others, and may be run again. Of statements
/// that were sent together, one behind the refused one may answer first, that the transaction has
/// failed.
fn is_refusal(error: &Error) -> bool {
    let refusals = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::IN_FAILED_SQL_TRANSACTION,
    ];
    error.code().is_some_and(|state| refusals.contains(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_count_by_type_and_what_was_refused() {
        let mut round = Round { seconds: 2.0, again: 1, ..Round::default() };
        (0..2).for_each(|_| round.record(Kind::Delivery as usize, Duration::from_micros(5)));
        let mut other = Round::default();
        other.record(Kind::NewOrder as usize, Duration::from_micros(7));
        round.merge(&other);
        let counts = [Kind::NewOrder, Kind::Payment, Kind::StockLevel];
        assert_eq!(counts.map(|kind| round.of(kind).count()), [1, 0, 0]);
        assert_eq!((round.of(Kind::Delivery).count(), round.all().count()), (2, 3));
        assert_eq!((round.per_second(), round.refused_percent()), (1.5, 25.0));
        assert_eq!(Round::default().refused_percent(), 0.0);
    }
}
