//! When clients want their transactions.
//!
//! ```text
//!   closed loop   a client wants the next when its last has ended: a stall is one long latency
//!   open loop     wanted at n / rate, whoever is free takes it:    everything that waits is late
//!                 ──┬──┬──┬──┬──┬──┬──▶
//!                   └ latency counts from here ┘
//! ```
//!
//! In an open loop a stall is seen as users see it: those who came meanwhile have waited, too (no
//! coordinated omission). Arrivals are evenly spaced, not at random, so that what is done in a
//! hundred milliseconds can be compared. A thread of its own announces them, because timers of the
//! clients' runtime are good to a millisecond only, which would be in each latency.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::Semaphore;

/// How transactions come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Each client's one after the other.
    BackToBack,
    /// Evenly spaced, for all clients together.
    Even {
        /// How many a second.
        per_second: f64,
    },
}

/// Arrivals of an open loop, on the clock of the clients.
pub struct Queue {
    began: Instant,
    per_second: f64,
    due: Semaphore,
    taken: AtomicU64,
}

impl Queue {
    /// Announces arrivals on a thread, until closed.
    pub fn start(began: Instant, per_second: f64) -> Result<Arc<Queue>> {
        let due = Semaphore::new(0);
        let queue = Arc::new(Queue { began, per_second, due, taken: AtomicU64::new(0) });
        let announcing = queue.clone();
        let announce = move || announcing.announce();
        thread::Builder::new().name("arrivals".to_owned()).spawn(announce)?;
        Ok(queue)
    }

    fn announce(&self) {
        for n in 0.. {
            let at = due(n, self.per_second);
            thread::sleep(at.saturating_sub(self.began.elapsed()));
            if self.due.is_closed() {
                return;
            }
            self.due.add_permits(1);
        }
    }

    /// Takes the next arrival: when it was due, since the clients began. `None` once closed.
    pub async fn next(&self) -> Option<Duration> {
        self.due.acquire().await.ok()?.forget();
        Some(due(self.taken.fetch_add(1, Ordering::Relaxed), self.per_second))
    }

    /// Nothing arrives any more.
    pub fn close(&self) {
        self.due.close();
    }

    /// Arrivals that nobody has taken yet.
    pub fn waiting(&self) -> usize {
        self.due.available_permits()
    }
}

/// When arrival `n` (0, 1, …) is due.
fn due(n: u64, per_second: f64) -> Duration {
    Duration::from_secs_f64(n as f64 / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_evenly_spaced_and_do_not_drift() {
        assert_eq!(due(0, 400.0), Duration::ZERO);
        assert_eq!(due(1, 400.0), Duration::from_micros(2500));
        assert_eq!(due(4_000_000, 400.0), Duration::from_secs(10_000));
    }

    #[tokio::test]
    async fn who_comes_late_to_the_queue_finds_when_each_was_due() {
        let queue = Queue::start(Instant::now(), 1000.0).unwrap();
        thread::sleep(Duration::from_millis(30));
        for n in 0..20 {
            assert_eq!(queue.next().await, Some(due(n, 1000.0)));
        }
        thread::sleep(Duration::from_millis(5));
        assert!(queue.waiting() > 0);
        queue.close();
        assert_eq!(queue.next().await, None);
    }
}
