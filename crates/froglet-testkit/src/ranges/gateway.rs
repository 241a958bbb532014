//! One gateway's way to the stores and to the placement driver.
//!
//! ```text
//!   request ─▶ counted ─▶ cut off? ─▶ fault ─▶ the way there ─▶ done ─▶ the way back ─▶ cut off? ─▶ answer
//! ```
//! What a gateway suffers is its own: others that share the stores notice nothing, but for what it has left there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use froglet_cluster::network::{Network, Place, Request, Response, Said, Unreachable};
use froglet_cluster::wire::kv::RegionError;
use parking_lot::Mutex;

use super::faults::{Fault, Faults, Trouble};
use super::store::refused;
use super::{Ranges, State, unreachable};

/// Whom a gateway asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// A store, by its id.
    Store(u64),
    /// The placement driver.
    Driver,
}

impl std::fmt::Display for Whom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Whom::Store(id) => write!(f, "store {id}"),
            Whom::Driver => write!(f, "the placement driver"),
        }
    }
}

/// How long one way takes between a gateway, by its name, and whom it asks.
pub type Delay = dyn Fn(&str, Whom) -> Duration + Send + Sync;

/// See the module; [`Ranges::network`] makes one.
pub struct Gateway {
    name: String,
    ranges: Arc<Ranges>,
    trouble: Mutex<Trouble>,
    is_cut_off: AtomicBool,
    delay: Mutex<Option<Arc<Delay>>>,
    /// Requests by method.
    asked: Mutex<BTreeMap<&'static str, u64>>,
    timestamps: Mutex<u64>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let asked = self.asked.lock();
        f.debug_struct("Gateway").field("name", &self.name).field("asked", &*asked).finish()
    }
}

impl Gateway {
    pub(super) fn new(ranges: Arc<Ranges>, name: &str) -> Gateway {
        Gateway {
            name: name.to_owned(),
            ranges,
            trouble: Mutex::default(),
            is_cut_off: AtomicBool::new(false),
            delay: Mutex::new(None),
            asked: Mutex::default(),
            timestamps: Mutex::new(0),
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What happens to its requests by chance from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.trouble.lock().set(faults);
    }

    /// What happens to the next request of a method, after those that were said before. Stores' methods are called as
    /// [`Request::method`] says, those of the placement driver as the trait's functions.
    pub fn on_next(&self, method: &'static str, fault: Fault) {
        self.trouble.lock().script(method, fault);
    }

    /// Whether nothing reaches anybody from here, nor back.
    pub fn cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::SeqCst);
    }

    /// How long each way takes from now on: a request sleeps so long, in tokio's time, before it is done and after.
    pub fn set_delay(&self, delay: Option<Box<Delay>>) {
        *self.delay.lock() = delay.map(Arc::from);
    }

    /// How often something was asked, lost requests included.
    pub fn asked(&self, method: &str) -> u64 {
        self.asked.lock().get(method).copied().unwrap_or(0)
    }

    /// How often what was asked.
    pub fn all_asked(&self) -> BTreeMap<&'static str, u64> {
        self.asked.lock().clone()
    }

    /// How many timestamps it has asked for.
    pub fn timestamps_asked(&self) -> u64 {
        *self.timestamps.lock()
    }

    async fn pass_way(&self, whom: Whom) {
        let delay = self.delay.lock().clone();
        if let Some(delay) = delay {
            sleep(delay(&self.name, whom)).await;
        }
    }

    fn check_reach(&self, whom: Whom) -> Result<(), Unreachable> {
        match self.is_cut_off.load(Ordering::SeqCst) {
            true => Err(unreachable(&whom.to_string(), &format!("{} is cut off", self.name))),
            false => Ok(()),
        }
    }

    /// Counts a request; what happens to it.
    fn begin(&self, whom: Whom, method: &'static str) -> Result<Fault, Unreachable> {
        *self.asked.lock().entry(method).or_default() += 1;
        self.check_reach(whom)?;
        Ok(self.trouble.lock().next(method))
    }

    async fn drive<T: Send + 'static>(
        &self,
        method: &'static str,
        action: impl FnOnce(&mut State) -> T + Send + 'static,
    ) -> Result<T, Unreachable> {
        let whom = Whom::Driver;
        let lost = |what| Err(unreachable(&whom.to_string(), what));
        let fault = self.begin(whom, method)?;
        self.pass_way(whom).await;
        match fault {
            Fault::LoseRequest => return lost("the request was lost"),
            Fault::Late(after) => {
                let ranges = Arc::clone(&self.ranges);
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    drop(action(&mut ranges.state.lock()));
                });
                return lost("the request is late");
            }
            Fault::Refuse(_) => return lost("it refuses"),
            Fault::Delay(time) => sleep(time).await,
            Fault::None | Fault::LoseAnswer => {}
        }
        let answer = action(&mut self.ranges.state.lock());
        self.pass_way(whom).await;
        self.check_reach(whom)?;
        if fault == Fault::LoseAnswer { lost("the answer was lost") } else { Ok(answer) }
    }
}

async fn sleep(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

#[async_trait]
impl Network for Gateway {
    async fn ask(&self, store: u64, request: Request) -> Result<Response, Unreachable> {
        let whom = Whom::Store(store);
        let lost = |what| Err(unreachable(&whom.to_string(), what));
        let fault = self.begin(whom, request.method())?;
        self.pass_way(whom).await;
        match &fault {
            Fault::LoseRequest => return lost("the request was lost"),
            Fault::Late(after) => {
                let (ranges, after) = (Arc::clone(&self.ranges), *after);
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    // Nobody is there to be told.
                    drop(ranges.ask(store, &request).await);
                });
                return lost("the request is late");
            }
            Fault::Refuse(error) => return Ok(refused(&request, RegionError::clone(error))),
            Fault::Delay(time) => sleep(*time).await,
            Fault::None | Fault::LoseAnswer => {}
        }
        let answer = self.ranges.ask(store, &request).await?;
        self.pass_way(whom).await;
        self.check_reach(whom)?;
        if fault == Fault::LoseAnswer { lost("the answer was lost") } else { Ok(answer) }
    }

    async fn timestamps(&self, count: u32) -> Result<u64, Unreachable> {
        *self.timestamps.lock() += u64::from(count);
        self.drive("timestamps", move |state| state.oracle.give(count)).await
    }

    fn clock(&self) -> Duration {
        Duration::from_millis(self.ranges.now_ms())
    }

    async fn place_of(&self, key: &[u8]) -> Result<Place, Unreachable> {
        let key = key.to_vec();
        self.drive("place_of", move |state| state.places.place(state.places.of(&key))).await
    }

    fn forget_store(&self, _store: u64) {}

    async fn grant_lease(&self, seconds: u32) -> Result<i64, Unreachable> {
        self.drive("grant_lease", move |state| state.leases.grant(state.oracle.now_ms(), seconds))
            .await
    }

    async fn keep_lease(&self, lease: i64) -> Result<bool, Unreachable> {
        self.drive("keep_lease", move |state| state.leases.keep(state.oracle.now_ms(), lease)).await
    }

    async fn end_lease(&self, lease: i64) -> Result<(), Unreachable> {
        self.drive("end_lease", move |state| state.leases.end(state.oracle.now_ms(), lease)).await
    }

    async fn say(&self, lease: i64, key: &[u8], value: &[u8]) -> Result<bool, Unreachable> {
        let (key, value) = (key.to_vec(), value.to_vec());
        let say =
            move |state: &mut State| state.leases.say(state.oracle.now_ms(), lease, &key, &value);
        self.drive("say", say).await
    }

    async fn said(&self, prefix: &[u8]) -> Result<Vec<Said>, Unreachable> {
        let prefix = prefix.to_vec();
        self.drive("said", move |state| state.leases.said(state.oracle.now_ms(), &prefix)).await
    }

    async fn keep_since(&self, who: &str, ts: u64, seconds: u32) -> Result<u64, Unreachable> {
        let who = who.to_owned();
        let keep =
            move |state: &mut State| state.services.keep(state.oracle.now_ms(), &who, ts, seconds);
        self.drive("keep_since", keep).await
    }

    async fn collect_before(&self, ts: u64) -> Result<(), Unreachable> {
        let collect = move |state: &mut State| {
            let safe_point = state.services.collect_before(ts);
            state.records.collect_before(safe_point);
        };
        self.drive("collect_before", collect).await
    }
}
