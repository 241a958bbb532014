//! The gateways of a database, as they know of each other: under leases in the placement driver's etcd.
//!
//! ```text
//!   each says, and says again     catalog as of v, whose last change was m; views from o on;    until its lease is over
//!                                 transactions from b on, and nothing below f; which fence it has closed for, which list of
//!                                 builds it follows
//!   a schema change m, committed  waits until everybody says m, or v ≥ its timestamp, or is gone
//!   garbage                       goes when everybody says o, v > when it became that
//! ```
//! **[G1]** A gateway commits only at timestamps within its lease, as it has counted it from before it last asked for it:
//! whoever has waited for the end of the lease finds no commit of it behind that. A commit has the lease under which its
//! prewrite began, and no later one: before a gateway that was gone is back, it looks at what was closed meanwhile
//! (`fences`).
//! **[G2]** Before a schema change is prewritten, everybody has the one before it: at most two versions are in use.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use froglet_engine::{EngineError, SqlState};

use super::builds::Builds;
use super::fences::Fences;
use super::intern::Interned;
use super::{Txns, history, keys, refused};
use crate::client::{Client, LOGICAL_BITS, StoreError, physical_ms};

/// A gateway that has not said for so long that it lives is gone.
const LEASE_S: u32 = 6;
/// It takes itself for gone earlier: clocks differ.
const OWN_LEASE_MS: u64 = 4_000;
/// How often it says so.
const EVERY: Duration = Duration::from_millis(700);
/// What was not heard is said again after so long.
const AGAIN: Duration = Duration::from_millis(100);
/// Whoever cannot be heard so often at the start does not start.
const FIRST_TIMES: u32 = 50;
/// How often whoever waits for others looks.
const LOOK: Duration = Duration::from_millis(15);
/// Whoever reads beyond the lease waits so long for the next word of it.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// A state of the catalog: as of a timestamp, and by which change it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub as_of: u64,
    /// The start of the transaction of the last change; 0: none.
    pub mark: u64,
}

/// What a gateway says: its catalog, the oldest of its views, the first of its transactions, below what it reads nothing,
/// as of when it follows the builds of indexes, and for which fence it has closed (0: none). What makes no sense is a
/// word of somebody who has nothing of all that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Word {
    catalog: State,
    oldest: u64,
    begun: u64,
    floor: u64,
    followed: u64,
    closed: u64,
}

impl Word {
    fn bytes(self) -> Vec<u8> {
        let State { as_of, mark } = self.catalog;
        let Word { oldest, begun, floor, followed, closed, .. } = self;
        format!("{as_of} {mark} {oldest} {begun} {floor} {followed} {closed}").into_bytes()
    }

    /// The oldest timestamp that something is read at, or that a transaction has begun at.
    fn needed(&self) -> u64 {
        self.oldest.min(self.begun).min(self.catalog.as_of)
    }

    /// Whether he has a state of the catalog, or a later one.
    fn has(&self, state: State) -> bool {
        self.catalog.mark == state.mark || self.catalog.as_of >= state.as_of
    }

    fn of(bytes: &[u8]) -> Option<Word> {
        let numbers = std::str::from_utf8(bytes).ok()?.split(' ').map(str::parse);
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
        let [as_of, mark, oldest, begun, floor, followed, closed] = numbers[..] else {
            return None;
        };
        Some(Word { catalog: State { as_of, mark }, oldest, begun, floor, followed, closed })
    }
}

/// Why it may not commit.
pub(super) fn silent() -> StoreError {
    let why = "this server has not been able to tell the others that it lives".to_owned();
    StoreError::Unavailable(why)
}

/// Why it may not read.
fn too_old() -> EngineError {
    let message = "snapshot too old: this server was gone for a while, and what it was reading may have been collected";
    refused(SqlState::SNAPSHOT_TOO_OLD, message)
}

/// See the module.
pub(super) struct Gateways {
    client: Arc<Client>,
    database: u32,
    prefix: Vec<u8>,
    /// Under which it says what it says.
    own: Vec<u8>,
    lease: AtomicI64,
    /// The last timestamp within its lease.
    valid_until: AtomicU64,
    /// Leases under which it could commit, so far.
    leases: AtomicU64,
    /// Whether it could under this one.
    is_back: AtomicBool,
    catalog: Mutex<State>,
    interned: Arc<Interned>,
    fences: Arc<Fences>,
    builds: Arc<Builds>,
    txns: Arc<Txns>,
    others: Mutex<Vec<Word>>,
    /// When it was last heard, by its own clock and by the store's.
    heard: Mutex<Option<(Duration, u64)>>,
    /// Below it nothing is read.
    floor: AtomicU64,
    /// What others have needed, and when that was heard.
    needs: Mutex<HashMap<Vec<u8>, (u64, u64)>>,
    /// So much of what nobody reads is kept.
    history: Duration,
    has_said: Notify,
    is_open: AtomicBool,
    /// Of those that it has heard of, its name is the first.
    is_first: AtomicBool,
}

impl Gateways {
    pub fn new(
        database: u32,
        history: Duration,
        (interned, txns): (Arc<Interned>, Arc<Txns>),
        fences: Arc<Fences>,
        builds: Arc<Builds>,
    ) -> Gateways {
        let prefix = format!("/froglet/{database}/gateways/").into_bytes();
        let name: u128 = rand::random();
        Gateways {
            client: Arc::clone(fences.client()),
            database,
            own: [&prefix[..], format!("{name:032x}").as_bytes()].concat(),
            prefix,
            lease: AtomicI64::new(0),
            valid_until: AtomicU64::new(0),
            leases: AtomicU64::new(0),
            is_back: AtomicBool::new(false),
            catalog: Mutex::default(),
            interned,
            fences,
            builds,
            txns,
            others: Mutex::default(),
            heard: Mutex::default(),
            floor: AtomicU64::new(0),
            needs: Mutex::default(),
            history,
            has_said: Notify::new(),
            is_open: AtomicBool::new(true),
            is_first: AtomicBool::new(false),
        }
    }

    /// Says what there is to say, once; whether the lease still lasted.
    async fn say(&self) -> Result<bool, StoreError> {
        let network = self.client.network();
        let begun = network.clock();
        let now = self.client.timestamp().await?;
        let mut lease = self.lease.load(Ordering::SeqCst);
        let lasts = lease != 0 && network.keep_lease(lease).await?;
        if !lasts {
            lease = network.grant_lease(LEASE_S).await?;
            self.is_back.store(false, Ordering::SeqCst);
            self.lease.store(lease, Ordering::SeqCst);
        }
        let word = self.word(now);
        if !network.say(lease, &self.own, &word.bytes()).await? {
            self.lease.store(0, Ordering::SeqCst);
            return Ok(false);
        }
        // [G1]
        if !self.is_back.load(Ordering::SeqCst) {
            self.fences.look_anew().await?;
            self.builds.look_anew(self.lease() == 0).await?;
            self.look_at_floor(word.needed()).await?;
            self.leases.fetch_add(1, Ordering::SeqCst);
            self.is_back.store(true, Ordering::SeqCst);
        }
        *self.heard.lock() = Some((begun, now));
        self.valid_until.store(now + (OWN_LEASE_MS << LOGICAL_BITS), Ordering::SeqCst);
        self.builds.said(word.catalog.mark);
        self.look().await?;
        Ok(true)
    }

    fn word(&self, now: u64) -> Word {
        let txns = self.txns.read();
        let starts = txns.values().map(|shared| shared.writes.start_ts);
        Word {
            catalog: self.catalog(),
            oldest: self.interned.oldest().map_or(now, |ts| ts.0.min(now)),
            begun: starts.min().map_or(now, |ts| ts.min(now)),
            floor: self.floor.load(Ordering::SeqCst),
            followed: self.builds.followed(),
            closed: self.fences.closed(),
        }
    }

    /// Learns what may have been collected while nobody could hear what it needs [H2].
    async fn look_at_floor(&self, needed: u64) -> Result<(), StoreError> {
        let now = self.client.timestamp().await?;
        let needed = if self.lease() == 0 { now } else { needed };
        let floor = self.client.get(&keys::floor(self.database), now).await?;
        self.raise_floor(floor.as_deref().map_or(0, history::floor_of));
        // In a name of its own: others may need more.
        let service = String::from_utf8_lossy(&self.own);
        let network = self.client.network();
        let seconds = history::kept_until_heard_s(self.history);
        let kept = network.keep_since(&service, needed, seconds).await?;
        // Others of the same store have not waited: what is older may be gone.
        if kept > needed {
            self.raise_floor(kept);
        }
        Ok(())
    }

    /// Below this nothing is read.
    pub fn raise_floor(&self, floor: u64) {
        self.floor.fetch_max(floor, Ordering::SeqCst);
    }

    /// Whether what was just read at a timestamp was there to be read: nobody has been told to collect it.
    pub async fn still_reads(&self, ts: u64) -> Result<(), StoreError> {
        let until = Instant::now() + self.client.patience();
        loop {
            let (at, now) = self.heard.lock().expect("whoever reads has joined");
            let unheard = self.client.network().clock().saturating_sub(at);
            let was_old = physical_ms(now).saturating_sub(physical_ms(ts));
            if unheard + Duration::from_millis(was_old) < history::YOUNG {
                return Ok(());
            }
            if unheard < Duration::from_millis(OWN_LEASE_MS) {
                break;
            }
            if Instant::now() >= until {
                return Err(silent());
            }
            self.speak();
            tokio::time::sleep(LOOK).await;
        }
        match ts < self.floor.load(Ordering::SeqCst) {
            true => Err(StoreError::Refused(too_old())),
            false => Ok(()),
        }
    }

    /// The oldest timestamp that anybody needs, this gateway too; who was heard lately may be back.
    pub async fn oldest_needed(&self) -> Result<u64, StoreError> {
        let now = self.client.timestamp().await?;
        let heard = self.hear().await?;
        let mut needs = self.needs.lock();
        needs.extend(heard.into_iter().map(|(name, word)| (name, (now, word.needed()))));
        needs.retain(|_, (at, _)| physical_ms(now) - physical_ms(*at) < history::GRACE_MS);
        Ok(needs.values().map(|(_, needed)| *needed).fold(self.word(now).needed(), u64::min))
    }

    /// Whether everybody who is heard reads nothing below a floor, or will not, as he knows of it.
    pub async fn have_floor(&self, floor: u64) -> Result<bool, StoreError> {
        let now = self.client.timestamp().await?;
        self.raise_floor(floor);
        let others = self.look().await?;
        let has = |word: &Word| word.floor >= floor || word.needed() >= floor;
        Ok(others.iter().all(has) && has(&self.word(now)))
    }

    async fn look(&self) -> Result<Vec<Word>, StoreError> {
        Ok(self.hear().await?.into_iter().map(|(_, word)| word).collect())
    }

    /// What the others say.
    async fn hear(&self) -> Result<Vec<(Vec<u8>, Word)>, StoreError> {
        let said = self.client.network().said(&self.prefix).await?;
        let others = said.into_iter().filter(|said| said.key != self.own);
        let others: Vec<_> =
            others.map(|said| (said.key, Word::of(&said.value).unwrap_or_default())).collect();
        let is_first = others.iter().all(|(name, _)| *name > self.own);
        self.is_first.store(is_first, Ordering::SeqCst);
        *self.others.lock() = others.iter().map(|(_, word)| *word).collect();
        Ok(others)
    }

    /// Says it for the first time: before, it may not commit.
    pub async fn join(&self) -> Result<(), StoreError> {
        let mut left = FIRST_TIMES;
        loop {
            match self.say().await {
                Ok(true) => return Ok(()),
                Err(error) if left == 0 => return Err(error),
                Ok(false) | Err(_) => left = left.saturating_sub(1),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Says it again and again, until it is closed.
    pub async fn keep_saying(self: Arc<Gateways>) {
        while self.is_open.load(Ordering::SeqCst) {
            let pause = match self.say().await {
                Ok(true) => EVERY,
                Ok(false) => continue,
                Err(error) => {
                    tracing::warn!(%error, "other servers of the cluster cannot be told that this one lives");
                    AGAIN
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.has_said.notified() => {}
            }
        }
        let lease = self.lease.swap(0, Ordering::SeqCst);
        // [G1], of what is still under way.
        self.valid_until.store(0, Ordering::SeqCst);
        if lease != 0 {
            // What it says goes by itself otherwise.
            _ = self.client.network().end_lease(lease).await;
        }
    }

    pub fn close(&self) {
        self.is_open.store(false, Ordering::SeqCst);
        self.has_said.notify_one();
    }

    /// Whether it is the one that does what one of them is to do.
    pub fn leads(&self) -> bool {
        self.is_first.load(Ordering::SeqCst)
    }

    /// Its catalog is in this state from now on.
    pub fn set_catalog(&self, state: State) {
        let mut catalog = self.catalog.lock();
        let is_changed = catalog.mark != state.mark || catalog.as_of == 0;
        *catalog = state;
        if is_changed {
            self.has_said.notify_one();
        }
    }

    /// The state of its catalog.
    pub fn catalog(&self) -> State {
        *self.catalog.lock()
    }

    /// Its name.
    pub fn own(&self) -> &[u8] {
        &self.own
    }

    /// The number of its lease.
    pub fn lease(&self) -> u64 {
        self.leases.load(Ordering::SeqCst)
    }

    /// Whether it may commit at a timestamp what began under a lease [G1].
    pub fn may_commit(&self, lease: u64, ts: u64) -> bool {
        // In this order: what is read of a later lease says so.
        ts <= self.valid_until.load(Ordering::SeqCst) && lease == self.lease()
    }

    /// Whether a timestamp is within its lease.
    pub fn reaches(&self, ts: u64) -> bool {
        ts <= self.valid_until.load(Ordering::SeqCst)
    }

    /// Waits until a timestamp is within its lease.
    pub async fn reach(&self, ts: u64) -> Result<(), StoreError> {
        let until = Instant::now() + LONGEST_SILENCE;
        while !self.reaches(ts) {
            if Instant::now() >= until {
                return Err(silent());
            }
            self.speak();
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// What it says has changed.
    pub fn speak(&self) {
        self.has_said.notify_one();
    }

    /// Whether a gateway says that it lives. This one does.
    pub async fn lives(&self, name: &[u8]) -> Result<bool, StoreError> {
        let said = self.client.network().said(name).await?;
        Ok(name == self.own || said.iter().any(|said| said.key == name))
    }

    /// Whether every other gateway has closed for a fence and has this one's catalog, or is gone.
    pub async fn have_closed(&self, fence: u64) -> Result<bool, StoreError> {
        let (others, catalog) = (self.look().await?, self.catalog());
        Ok(others.iter().all(|word| word.closed == fence && word.has(catalog)))
    }

    /// Whether every other gateway follows the builds of indexes as of a timestamp, or is gone.
    pub async fn have_followed(&self, ts: u64) -> Result<bool, StoreError> {
        Ok(self.look().await?.iter().all(|word| word.followed >= ts))
    }

    /// The oldest timestamp that somebody reads, or has the catalog of.
    pub fn oldest(&self, own: u64) -> u64 {
        let others = self.others.lock();
        others.iter().map(|word| word.oldest.min(word.catalog.as_of)).fold(own, u64::min)
    }

    /// Waits until every other gateway has the catalog of a state, or is gone.
    pub async fn wait_for_others(&self, state: State) -> Result<(), StoreError> {
        loop {
            if self.look().await?.iter().all(|word| word.has(state)) {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
