//! Workers: each runs the mix against a warehouse of its own.
//!
//! Commit is pipelined: a worker hands a transaction over to the log and goes on with the next
//! one. What waits to be durable is a queue of its own; now and then, between two transactions,
//! it looks how far the log has come.
//!
//! ```text
//!   worker   run ─ commit ─ run ─ commit ─ run …        latency: begin to commit
//!   queue    └ (lsn, when) … durable ≥ lsn ─▶ acknowledged        durable: begin to here
//! ```

use std::collections::VecDeque;
use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use froglet_engine::Lsn;

use super::db::{Desk, Receipt, Stop, Tpcc, Tx};
use super::delivery::delivery;
use super::inputs::{self, KINDS, Kind, Terminal};
use super::load::now_us;
use super::new_order::new_order;
use super::payment::payment;
use super::profile::Ops;
use super::queries::{order_status, stock_level};
use crate::histogram::Histogram;
use crate::machine;

/// Transactions that one worker may have under way to the disk.
const IN_FLIGHT: usize = 50_000;

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const STOP: u8 = 2;

/// What one type of transaction did.
#[derive(Clone, Default)]
pub struct KindStats {
    /// From begin to commit, of those that committed.
    pub latency: Histogram,
    /// Runs that another transaction cut short.
    pub conflicts: u64,
    /// Runs that rolled themselves back.
    pub rollbacks: u64,
    /// What it did.
    pub ops: Ops,
}

/// What all workers did while it was measured.
#[derive(Clone, Default)]
pub struct Stats {
    /// By [`Kind`].
    pub kinds: [KindStats; KINDS.len()],
    /// From begin to durable, of those that wrote.
    pub durable: Histogram,
    /// How long.
    pub seconds: f64,
    /// Processor time of the workers, where the kernel says.
    pub cpu_seconds: f64,
    /// Bytes appended to the log.
    pub log_bytes: u64,
}

impl Stats {
    /// Transactions that ended as they wanted to.
    pub fn transactions(&self) -> u64 {
        self.kinds.iter().map(|k| k.latency.count()).sum()
    }

    fn merge(&mut self, other: &Stats) {
        for (a, b) in self.kinds.iter_mut().zip(&other.kinds) {
            a.latency.merge(&b.latency);
            a.conflicts += b.conflicts;
            a.rollbacks += b.rollbacks;
            a.ops.merge(&b.ops);
        }
        self.durable.merge(&other.durable);
        self.seconds = self.seconds.max(other.seconds);
        self.cpu_seconds += other.cpu_seconds;
    }
}

/// How to run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Workers.
    pub workers: u16,
    /// Before measuring.
    pub warm_up: Duration,
    /// Measured.
    pub measure: Duration,
    /// Whether the clock runs for every operation.
    pub profile: bool,
    /// Whether there is a log to wait for.
    pub logged: bool,
}

/// Runs the mix.
pub fn run(db: &Tpcc, how: Run) -> Result<Stats> {
    let phase = AtomicU8::new(WARM_UP);
    thread::scope(|scope| {
        let start = |n: u16| {
            let phase = &phase;
            let work = move || {
                let outcome = Worker::new(db, n, how).work(phase);
                if outcome.is_err() {
                    phase.store(STOP, Ordering::Relaxed);
                }
                outcome
            };
            // A name, so that a profiler can tell workers from the engine's threads.
            thread::Builder::new().name(format!("worker-{n}")).spawn_scoped(scope, work)
        };
        let workers = (0..how.workers).map(start).collect::<io::Result<Vec<_>>>()?;
        wait(&phase, how.warm_up);
        let _ = phase.compare_exchange(WARM_UP, MEASURE, Ordering::Relaxed, Ordering::Relaxed);
        let log_start = db.engine().appended().0;
        wait(&phase, how.measure);
        let log_end = db.engine().appended().0;
        phase.store(STOP, Ordering::Relaxed);
        let mut all = Stats { log_bytes: log_end - log_start, ..Stats::default() };
        for worker in workers {
            let stats = worker.join().map_err(|_| anyhow!("a worker panicked"))??;
            all.merge(&stats);
        }
        Ok(all)
    })
}

/// Waits, but not for workers that have stopped.
fn wait(phase: &AtomicU8, time: Duration) {
    let end = Instant::now() + time;
    while phase.load(Ordering::Relaxed) != STOP {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(20)));
    }
}

struct Worker<'a> {
    db: &'a Tpcc,
    terminal: Terminal,
    desk: Desk,
    stats: Stats,
    pipeline: Pipeline,
    logged: bool,
}

impl<'a> Worker<'a> {
    fn new(db: &'a Tpcc, n: u16, how: Run) -> Worker<'a> {
        let warehouse = i32::from(n) % db.scale.warehouses + 1;
        let mut desk = Desk::default();
        desk.ops.timed = how.profile;
        Worker {
            db,
            terminal: Terminal::new(warehouse, db.scale, 1000 + u64::from(n)),
            desk,
            stats: Stats::default(),
            pipeline: Pipeline::default(),
            logged: how.logged,
        }
    }

    fn work(mut self, phase: &AtomicU8) -> Result<Stats> {
        let mut measuring = false;
        let mut begun = Instant::now();
        let mut started = begun;
        let cpu = || machine::thread_cpu_time().unwrap_or_default();
        let mut cpu_begun = cpu();
        loop {
            match phase.load(Ordering::Relaxed) {
                STOP => break,
                MEASURE if !measuring => {
                    measuring = true;
                    self.stats = Stats::default();
                    cpu_begun = cpu();
                    begun = Instant::now();
                    started = begun;
                }
                _ => {}
            }
            self.transaction(&mut started)?;
        }
        self.stats.seconds = begun.elapsed().as_secs_f64();
        self.stats.cpu_seconds = cpu().saturating_sub(cpu_begun).as_secs_f64();
        // What is acknowledged after the end is not measured, but it must become so.
        self.pipeline.drain(self.db, &mut Histogram::default())?;
        Ok(self.stats)
    }

    /// One transaction from the mix, run again until it ends as it wants to. `started` is moved
    /// on to its end.
    fn transaction(&mut self, started: &mut Instant) -> Result<()> {
        let kind = Kind::draw(&mut self.terminal.random);
        let input = Input::draw(kind, &mut self.terminal);
        self.desk.ops.reset();
        let stats = &mut self.stats.kinds[kind as usize];
        let receipt = loop {
            match input.run(self.db, &mut self.desk) {
                Ok(receipt) => break Some(receipt),
                Err(Stop::Rollback) => {
                    stats.rollbacks += 1;
                    break None;
                }
                Err(Stop::Conflict) => {
                    stats.conflicts += 1;
                    thread::yield_now();
                }
                Err(Stop::Wrong(e)) => return Err(e.context(kind.name())),
            }
        };
        stats.ops.merge(&self.desk.ops);
        let now = Instant::now();
        stats.latency.record((now - *started).as_nanos() as u64);
        if self.logged {
            if let Some(Receipt(lsn)) = receipt {
                self.pipeline.push(lsn, *started);
            }
            self.pipeline.acknowledge(self.db, &mut self.stats.durable)?;
        }
        *started = now;
        Ok(())
    }
}

/// A transaction's input, whatever its type.
enum Input {
    NewOrder(inputs::NewOrder),
    Payment(inputs::Payment),
    OrderStatus(inputs::OrderStatus),
    Delivery(inputs::Delivery),
    StockLevel(inputs::StockLevel),
}

impl Input {
    fn draw(kind: Kind, terminal: &mut Terminal) -> Input {
        match kind {
            Kind::NewOrder => Input::NewOrder(terminal.new_order()),
            Kind::Payment => Input::Payment(terminal.payment()),
            Kind::OrderStatus => Input::OrderStatus(terminal.order_status()),
            Kind::Delivery => Input::Delivery(terminal.delivery()),
            Kind::StockLevel => Input::StockLevel(terminal.stock_level()),
        }
    }

    fn run(&self, db: &Tpcc, desk: &mut Desk) -> Result<Receipt, Stop> {
        let writes = !matches!(self, Input::OrderStatus(_) | Input::StockLevel(_));
        let mut tx = db.begin(writes, desk);
        match self.steps(&mut tx) {
            Ok(()) => tx.commit().map_err(Stop::Wrong),
            Err(stop) => {
                tx.abort();
                Err(stop)
            }
        }
    }

    fn steps(&self, tx: &mut Tx<'_>) -> Result<(), Stop> {
        match self {
            Input::NewOrder(input) => drop(black_box(new_order(tx, input, now_us())?)),
            Input::Payment(input) => drop(black_box(payment(tx, input, now_us())?)),
            Input::OrderStatus(input) => drop(black_box(order_status(tx, input)?)),
            Input::Delivery(input) => drop(black_box(delivery(tx, input, now_us())?)),
            Input::StockLevel(input) => drop(black_box(stock_level(tx, input)?)),
        }
        Ok(())
    }
}

/// Commits on their way to the disk, oldest first.
#[derive(Default)]
struct Pipeline {
    waiting: VecDeque<(Lsn, Instant)>,
    /// The log has been asked to say when it has come further.
    asked: Arc<AtomicBool>,
}

impl Pipeline {
    fn push(&mut self, lsn: Lsn, started: Instant) {
        if lsn > Lsn(0) {
            self.waiting.push_back((lsn, started));
        }
    }

    /// Acknowledges what is durable by now.
    fn acknowledge(&mut self, db: &Tpcc, latency: &mut Histogram) -> Result<()> {
        let Some(&(newest, _)) = self.waiting.back() else { return Ok(()) };
        let durable = db.engine().durable();
        if self.waiting.front().is_some_and(|(lsn, _)| *lsn <= durable) {
            let now = Instant::now();
            while let Some((_, started)) = self.waiting.pop_front_if(|(lsn, _)| *lsn <= durable) {
                latency.record((now - started).as_nanos() as u64);
            }
        }
        if self.waiting.len() >= IN_FLIGHT {
            return self.drain(db, latency);
        }
        if durable < newest && !self.asked.swap(true, Ordering::Relaxed) {
            let asked = self.asked.clone();
            let done = Box::new(move |_| asked.store(false, Ordering::Relaxed));
            db.engine().when_durable(newest, done);
        }
        Ok(())
    }

    /// Waits until everything is durable.
    fn drain(&mut self, db: &Tpcc, latency: &mut Histogram) -> Result<()> {
        let Some(&(newest, _)) = self.waiting.back() else { return Ok(()) };
        let (tx, rx) = mpsc::channel();
        let done = Box::new(move |outcome| {
            // The receiver waits below, so it is there.
            let _ = tx.send(outcome);
        });
        db.engine().when_durable(newest, done);
        rx.recv().map_err(|_| anyhow!("the log was dropped"))??;
        let now = Instant::now();
        for (_, started) in self.waiting.drain(..) {
            latency.record((now - started).as_nanos() as u64);
        }
        Ok(())
    }
}
