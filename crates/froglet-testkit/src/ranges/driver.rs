//! What the placement driver keeps beside regions and timestamps: leases with what is said under them, and since when
//! somebody reads.
//!
//! ```text
//!   lease ─ until ─▶ what was said under it is gone          service ─ until ─▶ what it kept may go
//! ```
//! All by the oracle's clock. Who is late is late: nothing is brought back by being asked for.

use std::collections::BTreeMap;

use froglet_cluster::network::Said;

/// The service that stands for all who collect: it is there from the first that comes, and for ever.
const WORKER: &str = "gc_worker";

fn until(now_ms: u64, seconds: u32) -> u64 {
    match seconds {
        u32::MAX => u64::MAX,
        some => now_ms + u64::from(some) * 1000,
    }
}

#[derive(Debug)]
struct Lease {
    seconds: u32,
    until_ms: u64,
}

/// Leases, and what is said under them.
#[derive(Debug, Default)]
pub(super) struct Leases {
    next: i64,
    leases: BTreeMap<i64, Lease>,
    /// By whom, under which lease, what.
    said: BTreeMap<Vec<u8>, (i64, Vec<u8>)>,
}

impl Leases {
    pub fn grant(&mut self, now_ms: u64, seconds: u32) -> i64 {
        self.expire(now_ms);
        self.next += 1;
        self.leases.insert(self.next, Lease { seconds, until_ms: until(now_ms, seconds) });
        self.next
    }

    pub fn keep(&mut self, now_ms: u64, lease: i64) -> bool {
        self.expire(now_ms);
        match self.leases.get_mut(&lease) {
            Some(lease) => {
                lease.until_ms = until(now_ms, lease.seconds);
                true
            }
            None => false,
        }
    }

    pub fn end(&mut self, now_ms: u64, lease: i64) {
        self.leases.remove(&lease);
        self.expire(now_ms);
    }

    pub fn say(&mut self, now_ms: u64, lease: i64, key: &[u8], value: &[u8]) -> bool {
        self.expire(now_ms);
        let lives = self.leases.contains_key(&lease);
        if lives {
            self.said.insert(key.to_vec(), (lease, value.to_vec()));
        }
        lives
    }

    pub fn said(&mut self, now_ms: u64, prefix: &[u8]) -> Vec<Said> {
        self.expire(now_ms);
        let found = self.said.iter().filter(|(key, _)| key.starts_with(prefix));
        found.map(|(key, (_, value))| Said { key: key.clone(), value: value.clone() }).collect()
    }

    fn expire(&mut self, now_ms: u64) {
        self.leases.retain(|_, lease| now_ms <= lease.until_ms);
        self.said.retain(|_, (lease, _)| self.leases.contains_key(lease));
    }
}

#[derive(Debug)]
struct Service {
    until_ms: u64,
    ts: u64,
}

/// Since when somebody reads.
#[derive(Debug, Default)]
pub(super) struct Services {
    services: BTreeMap<String, Service>,
    /// What is older may be gone.
    safe_point: u64,
}

impl Services {
    /// Keeps what is read since a timestamp, for 0 seconds no longer; the oldest that anybody keeps. Whoever comes with
    /// less than that has kept nothing.
    pub fn keep(&mut self, now_ms: u64, who: &str, ts: u64, seconds: u32) -> u64 {
        self.services.retain(|_, service| now_ms <= service.until_ms);
        if seconds == 0 {
            self.services.remove(who);
        }
        let oldest = self.oldest().unwrap_or(0);
        let worker = Service { until_ms: u64::MAX, ts: oldest };
        self.services.entry(WORKER.to_owned()).or_insert(worker);
        if seconds > 0 && ts >= oldest {
            let service = Service { until_ms: until(now_ms, seconds), ts };
            self.services.insert(who.to_owned(), service);
        }
        self.oldest().expect("one is always there")
    }

    fn oldest(&self) -> Option<u64> {
        self.services.values().map(|service| service.ts).min()
    }

    /// The safe point after somebody has said where it may be: it never goes back.
    pub fn collect_before(&mut self, ts: u64) -> u64 {
        self.safe_point = self.safe_point.max(ts);
        self.safe_point
    }

    pub fn safe_point(&self) -> u64 {
        self.safe_point
    }
}
