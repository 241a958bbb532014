//! The past: read views of times gone by, for as long as they are kept.
//!
//! ```text
//!   time      ──┬──────┬──────┬──────┬──────┬──▶ now        a sample every tenth of a second
//!   samples     ts 3   ts 9   ts 9   ts 14  ts 20
//!   kept        ▲                    ▲                      a snapshot now and then: what it sees, and
//!                                                           whatever came later, is not collected
//! ```
//!
//! P1: a sample is only handed out while a snapshot at or before it is kept.
//! P2: the present is sampled before the time of the sample is read: what had been committed by a time
//!     of a sample or after the next is seen at that time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use froglet_engine::{Engine, Snapshot, Ts, TxnId};
use parking_lot::Mutex;

/// Parts of the retention in which one snapshot is kept: so much longer it may be than asked for.
const PARTS: u32 = 16;

/// See the module.
#[derive(Default)]
pub struct Past(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    retention: Duration,
    /// Ascending.
    samples: VecDeque<Sample>,
}

struct Sample {
    at: SystemTime,
    ts: Ts,
    keeps: Option<Arc<Snapshot>>,
}

impl Past {
    /// Keeps what was at most so long ago; nothing, if that is zero.
    pub fn keep_for(&self, retention: Duration) {
        let mut kept = self.0.lock();
        kept.retention = retention;
        if retention.is_zero() {
            kept.samples.clear();
        }
    }

    /// Takes a sample of the present, and lets go of what is too old.
    pub fn sample(&self, engine: &dyn Engine) {
        let mut kept = self.0.lock();
        if kept.retention.is_zero() {
            return;
        }
        let present = engine.onward_snapshot();
        kept.add(SystemTime::now(), present);
    }

    /// A view of what had been committed by then, to the last sample before it, for a transaction.
    /// None of a time that is not kept.
    pub fn at(&self, time: SystemTime, own: TxnId) -> Option<Arc<Snapshot>> {
        let kept = self.0.lock();
        let n = kept.samples.partition_point(|sample| sample.at <= time);
        let ts = kept.samples.get(n.checked_sub(1)?)?.ts;
        let keeps = kept.samples.iter().take(n).rev().find_map(|sample| sample.keeps.clone())?;
        Some(Arc::new(Snapshot::new(ts, own, Box::new(keeps))))
    }

    /// The oldest time that is kept.
    pub fn oldest(&self) -> Option<SystemTime> {
        self.0.lock().samples.front().map(|sample| sample.at)
    }
}

impl Kept {
    fn add(&mut self, at: SystemTime, present: Arc<Snapshot>) {
        // A clock that was set back: there is one time, and it goes forward.
        if self.samples.back().is_some_and(|last| last.at > at) {
            return;
        }
        let last = self.samples.iter().rev().find(|sample| sample.keeps.is_some());
        let part = self.retention / PARTS;
        let is_old = |last: &Sample| at.duration_since(last.at).is_ok_and(|age| age >= part);
        let keeps = last.is_none_or(is_old);
        let ts = present.ts;
        self.samples.push_back(Sample { at, ts, keeps: keeps.then_some(present) });
        let Some(limit) = at.checked_sub(self.retention) else { return };
        loop {
            let next = self.samples.iter().skip(1).position(|sample| sample.keeps.is_some());
            match next {
                Some(n) if self.samples[n + 1].at <= limit => drop(self.samples.drain(..=n)),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(ts: u64) -> Arc<Snapshot> {
        Arc::new(Snapshot::new(Ts(ts), TxnId(0), Box::new(())))
    }

    #[test]
    fn what_is_kept_is_as_old_as_it_may_be_and_not_much_older() {
        let past = Past::default();
        let time = |ms: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000 + ms);
        let seen = |ms| past.at(time(ms), TxnId(7)).map(|view| view.ts.0);
        assert_eq!(seen(0), None);
        past.keep_for(Duration::from_millis(1600));
        for n in 0..100 {
            past.0.lock().add(time(n * 50), view(n));
        }
        assert_eq!(seen(4950), Some(99));
        assert_eq!(seen(4949), Some(98));
        assert_eq!(seen(9999), Some(99), "the newest there is");
        assert_eq!(seen(3350), Some(67), "what is to be kept");
        assert_eq!(seen(3249), None, "a part of it more, and no more");
        assert_eq!(past.oldest(), Some(time(3300)));
        let kept = past.0.lock();
        assert!(kept.samples.iter().filter(|sample| sample.keeps.is_some()).count() <= 18);
        drop(kept);
        past.keep_for(Duration::ZERO);
        assert_eq!(seen(4950), None);
    }

    #[test]
    fn a_clock_that_is_set_back_adds_nothing_until_it_has_caught_up() {
        let past = Past::default();
        let time = |ms: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000 + ms);
        past.keep_for(Duration::from_secs(60));
        for (n, ms) in [(1, 100), (2, 50), (3, 150)] {
            past.0.lock().add(time(ms), view(n));
        }
        let seen = |ms| past.at(time(ms), TxnId(7)).map(|view| view.ts.0);
        assert_eq!([seen(60), seen(100), seen(149), seen(150)], [None, Some(1), Some(1), Some(3)]);
    }
}
