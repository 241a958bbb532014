//! Clients: each runs transactions on a connection of its own, one after the other, until stopped.
//!
//! When they are wanted is said by [`Arrivals`]. Each client takes a gate, shared, before it begins
//! a transaction and gives it back after its end. A Blocking change takes the gate for itself; the
//! others leave it open, so that every approach pays for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::sync::RwLock;
use tokio::task::JoinHandle;

use super::arrivals::{Arrivals, Queue};
use super::cutover::Cutover;
use super::recording::{Recording, Transaction};
use super::workload::{Session, Workload, connect};

/// Clients at work.
pub struct Clients {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<Result<()>>>,
}

struct Shared {
    began: Instant,
    stop: AtomicBool,
    /// Of an open loop.
    queue: Option<Arc<Queue>>,
    gate: RwLock<()>,
    /// Where clients change their schema.
    cutover: Option<Arc<Cutover>>,
    ended: Mutex<Vec<Transaction>>,
}

impl Clients {
    /// Connects them and lets them begin.
    pub async fn start(
        port: u16,
        workload: Workload,
        clients: u16,
        arrivals: Arrivals,
    ) -> Result<Clients> {
        let mut sessions = Vec::new();
        for n in 0..clients {
            let session = workload.session(connect(port).await?, n).await;
            sessions.push(session.context("a client's statements were not prepared")?);
        }
        Clients::begin(sessions, arrivals, None)
    }

    /// Lets sessions begin, which follow a cutover if there is one.
    pub fn begin(
        sessions: Vec<Session>,
        arrivals: Arrivals,
        cutover: Option<Arc<Cutover>>,
    ) -> Result<Clients> {
        let began = Instant::now();
        let queue = match arrivals {
            Arrivals::BackToBack => None,
            Arrivals::Even { per_second } => Some(Queue::start(began, per_second)?),
        };
        let shared = Arc::new(Shared {
            began,
            stop: AtomicBool::new(false),
            queue,
            gate: RwLock::new(()),
            cutover,
            ended: Mutex::new(Vec::new()),
        });
        let work = |(session, n)| tokio::spawn(work(session, n, shared.clone()));
        let tasks = sessions.into_iter().zip(0..).map(work).collect();
        Ok(Clients { shared, tasks })
    }

    /// When they began.
    pub fn began(&self) -> Instant {
        self.shared.began
    }

    /// Locked for itself, this keeps every client from beginning a transaction.
    pub fn gate(&self) -> &RwLock<()> {
        &self.shared.gate
    }

    /// What has ended since this was asked last.
    pub fn ended(&self) -> Vec<Transaction> {
        std::mem::take(&mut self.shared.ended.lock())
    }

    /// Transactions that are wanted and that no client has begun; 0 in a closed loop.
    pub fn waiting(&self) -> usize {
        self.shared.queue.as_ref().map_or(0, |queue| queue.waiting())
    }

    /// Whether a client has ended, which it does of itself only by an error.
    pub fn any_gone(&self) -> bool {
        self.tasks.iter().any(JoinHandle::is_finished)
    }

    /// Lets each finish its transaction; returns what has ended since [`Clients::ended`] was called.
    pub async fn stop(self) -> Result<Recording> {
        self.shared.end();
        for task in self.tasks {
            task.await.context("a client panicked")??;
        }
        Ok(Recording::new(std::mem::take(&mut self.shared.ended.lock())))
    }
}

impl Shared {
    fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(queue) = &self.queue {
            queue.close();
        }
    }

    /// Waits for the next transaction to be wanted; returns since when it is. `None` at the end.
    async fn wanted(&self) -> Option<Duration> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        match &self.queue {
            Some(queue) => queue.next().await,
            None => Some(self.began.elapsed()),
        }
    }
}

async fn work(mut session: Session, client: u16, shared: Arc<Shared>) -> Result<()> {
    while let Some(begun) = shared.wanted().await {
        let outcome = {
            let _shared = shared.gate.read().await;
            match &shared.cutover {
                Some(cutover) => cutover.transaction(&mut session).await,
                None => session.transaction().await,
            }
        };
        let failure = match outcome {
            Ok(()) => None,
            // Without a SQLSTATE it is the connection that failed, or the benchmark.
            Err(e) => match e.code() {
                Some(state) => Some(state.code().to_owned()),
                None => return Err(e).context("a client's transaction"),
            },
        };
        let ended = shared.began.elapsed();
        shared.ended.lock().push(Transaction { client, begun, ended, failure });
    }
    Ok(())
}
