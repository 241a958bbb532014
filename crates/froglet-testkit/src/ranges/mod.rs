//! A store that speaks TiKV's protocol, in one process: what stands in for a cluster in tests.
//!
//! ```text
//!   Gateway a ─┐ faults, delays        ┌─▶ clock, driver    timestamps, leases
//!   Gateway b ─┼──────────────▶ Ranges ┼─▶ places           which store leads which keys
//!   Gateway c ─┘ trait Network         ├─▶ store            a request of a store, from its arrival to its answer
//!                                      │     ├─ reads, locking, prewrite, commit, status ─▶ record   of each key
//!                                      │     └─ waits       for locks
//!                                      └─  the test: splits, moves leaders, stops stores, moves the clock
//! ```
//! It answers as TiKV does (8.x, with pessimistic locks; Peng and Dabek, OSDI 2010, for what it stands on), in the cases
//! that a client may meet: a client that is right here should be right there.
//!
//! **[R1]** Nothing happens on its own. Time, places and faults are the test's, so that a run with one task at a time, or
//! with tokio's time stopped and one thread, is the same each time.
//! **[R2]** A request is done as a whole at one moment, or not at all.
//! **[R3]** What was done stays. A store that is down has lost nothing: it stands for one that is replicated.
//!
//! Left out: async commit, which needs fields that the client does not send; reads from followers; merges; the raw
//! interface; encoded keys.

mod clock;
mod commit;
mod driver;
mod errors;
mod faults;
mod gateway;
mod locking;
mod places;
mod prewrite;
mod reads;
mod record;
mod status;
mod store;
mod waits;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use froglet_cluster::network::{Place, Request, Response, Unreachable};
use froglet_cluster::wire::kv;
use parking_lot::Mutex;

pub use faults::{Fault, Faults};
pub use gateway::{Delay, Gateway, Whom};

use clock::Oracle;
use driver::{Leases, Services};
use places::Places;
use record::{Newest, Records};
use store::{Done, Waiting};
use waits::{Waits, Woken};

fn unreachable(whom: &str, why: &str) -> Unreachable {
    Unreachable { whom: whom.to_owned(), why: why.to_owned() }
}

/// All that there is.
#[derive(Debug)]
struct State {
    oracle: Oracle,
    places: Places,
    records: Records,
    waits: Waits,
    leases: Leases,
    services: Services,
}

/// See the module.
#[derive(Debug)]
pub struct Ranges {
    state: Mutex<State>,
}

impl Ranges {
    /// So many stores, numbered from 1. One region has all keys, led by store 1.
    pub fn new(stores: u64) -> Arc<Ranges> {
        let state = State {
            oracle: Oracle::new(),
            places: Places::new(stores),
            records: Records::default(),
            waits: Waits::default(),
            leases: Leases::default(),
            services: Services::default(),
        };
        Arc::new(Ranges { state: Mutex::new(state) })
    }

    /// The network of a gateway.
    pub fn network(self: &Arc<Self>, name: &str) -> Arc<Gateway> {
        Arc::new(Gateway::new(Arc::clone(self), name))
    }

    /// The clock moves on.
    pub fn advance(&self, ms: u64) {
        self.state.lock().oracle.advance(ms);
    }

    /// The clock runs with tokio's time from now on, beside what it is moved by hand.
    pub fn let_clock_run(&self) {
        self.state.lock().oracle.let_run();
    }

    /// The clock, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.state.lock().oracle.now_ms()
    }

    /// A timestamp above all that were given before.
    pub fn timestamp(&self) -> u64 {
        self.state.lock().oracle.give(1)
    }

    /// A region begins at a key from now on. Nothing happens if one does.
    pub fn split_at(&self, key: &[u8]) {
        let places = &mut self.state.lock().places;
        let region = places.of(key).clone();
        if region.start != key {
            places.split(&region, vec![key.to_vec()]);
        }
    }

    /// A store leads the region of a key from now on.
    pub fn move_leader(&self, key: &[u8], store: u64) {
        let state = &mut *self.state.lock();
        state.places.move_leader(key, store, state.oracle.newest());
    }

    /// A store answers nobody. With `is_failed_over` others lead what it led, else it still leads.
    pub fn stop_store(&self, store: u64, is_failed_over: bool) {
        let state = &mut *self.state.lock();
        state.places.set_up(store, false);
        state.waits.store_down(store);
        if is_failed_over {
            state.places.fail_over(store, state.oracle.newest());
        }
    }

    /// Others lead what a store leads.
    pub fn fail_over(&self, store: u64) {
        let state = &mut *self.state.lock();
        state.places.fail_over(store, state.oracle.newest());
    }

    /// A store answers again.
    pub fn start_store(&self, store: u64) {
        self.state.lock().places.set_up(store, true);
    }

    /// All regions, in the order of their keys.
    pub fn regions(&self) -> Vec<Place> {
        let places = &self.state.lock().places;
        places.all().map(|region| places.place(region)).collect()
    }

    /// What was committed of a key at a timestamp or before, whoever has it locked.
    pub fn value_at(&self, key: &[u8], ts: u64) -> Option<Vec<u8>> {
        self.state.lock().records.of(key).value_at(ts).map(<[u8]>::to_vec)
    }

    /// When a key was committed or rolled back last.
    pub fn changed_at(&self, key: &[u8]) -> Option<u64> {
        self.state.lock().records.of(key).newest().map(|newest| newest.commit_ts)
    }

    /// All locks there are, in the order of their keys.
    pub fn locks(&self) -> Vec<kv::LockInfo> {
        let state = self.state.lock();
        let all = state.records.range(&[], &[]);
        all.filter_map(|(key, record)| record.lock.as_ref().map(|lock| lock.info(key))).collect()
    }

    /// Who waits for a lock of whom, by their start timestamps.
    pub fn waiting(&self) -> Vec<(u64, u64)> {
        self.state.lock().waits.edges()
    }

    /// What nobody reads at this timestamp or later is gone.
    pub fn safe_point(&self) -> u64 {
        self.state.lock().services.safe_point()
    }

    /// A request, from its arrival at a store to its answer.
    async fn ask(&self, store: u64, request: &Request) -> Result<Response, Unreachable> {
        let done = self.state.lock().ask(store, request)?;
        match done {
            Done::Answer(answer) => Ok(*answer),
            Done::Wait(waiting) => self.wait(store, *waiting).await,
        }
    }

    async fn wait(&self, store: u64, waiting: Waiting) -> Result<Response, Unreachable> {
        // Whoever asked may be gone before the wait is over.
        let _waiter = Leaves { ranges: self, waiter: waiting.waiter };
        let (lock, until) = (waiting.lock, tokio::time::Instant::now() + waiting.timeout);
        let error = match tokio::time::timeout_at(until, waiting.woken).await {
            Ok(Ok(Woken::Released { commit_ts, after })) => {
                tokio::time::sleep_until(until.min(tokio::time::Instant::now() + after)).await;
                let with = Newest { commit_ts, start_ts: lock.lock_version };
                errors::conflict(&lock.key, waiting.start_ts, with)
            }
            Ok(Ok(Woken::StoreDown)) => return Err(store::unavailable(store)),
            // The sender is dropped only with the state, which whoever waits still has.
            Ok(Err(_)) | Err(_) => errors::locked(lock),
        };
        let errors = vec![*error];
        Ok(Response::PessimisticLock(kv::PessimisticLockResponse {
            errors,
            ..kv::PessimisticLockResponse::default()
        }))
    }
}

/// Takes a waiter away, however its wait ends.
struct Leaves<'a> {
    ranges: &'a Ranges,
    waiter: u64,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.ranges.state.lock().waits.leave(self.waiter);
    }
}
