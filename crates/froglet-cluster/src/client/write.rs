//! What one transaction locks and commits.
//!
//! ```text
//!   lock ───────▶ prewrite ──────▶ commit the primary ──▶ it is committed     ▶ secondaries, behind its back
//!     │ each as     │ all keys        at one timestamp
//!     │ it is       │ and values,
//!     │ written     │ at once
//!     └─────────────┴─ roll back: as if nothing had been
//! ```
//! A key that others may write is locked before its new value is derived from what it is, or while: a lock is given
//! `for_update_ts`, and is had only if the key has no commit after that. So whoever gets it holds what he has read there.
//! Keys that nobody else can write need none (rows under new numbers, entries of a row that is held).
//!
//! **[W1]** The primary is the first key that was locked, or written; the fate of all is what it says.
//! **[W2]** Whatever may be locked is noted before it is asked for: a lock whose answer was lost is given back, too.
//! **[W3]** A key that is locked and not written is prewritten as a lock. Whoever has lost it, for he was silent for too long,
//! does not commit: what he has decided by it may not hold any more.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::locks::Fate;
use super::{Client, StoreError, of_key_error};
use crate::wire::kv::{self, Assertion, Op, PessimisticAction};

/// For so long others believe that a transaction lives which has not said so.
pub const LOCK_TTL: Duration = Duration::from_secs(10);
/// The same of one that does nothing but change a key or two, and does not say so again.
const LOCK_TTL_OF_BRIEF: Duration = Duration::from_secs(3);
/// Whoever fails where a lock does not go waits for so long: longer than the dead have theirs.
pub const LONGEST_LOCK: Duration = Duration::from_secs(15);
const _: () = assert!(LONGEST_LOCK.as_secs() >= LOCK_TTL.as_secs() + 5, "clocks differ");
/// How often it says so.
pub const HEARTBEAT: Duration = Duration::from_secs(3);

/// A key to be locked.
#[derive(Clone, Debug)]
pub struct Locking {
    /// The key.
    pub key: Vec<u8>,
    /// It must not be there.
    pub is_new: bool,
}

/// A key and what it is to be.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// The key.
    pub key: Vec<u8>,
    /// None: it is deleted.
    pub value: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Held {
    primary: Option<Vec<u8>>,
    /// Keys that are locked (true), or may be.
    keys: BTreeMap<Vec<u8>, bool>,
    /// The highest timestamp that was locked with.
    for_update_ts: u64,
    is_prewritten: bool,
    has_ended: bool,
}

/// See the module. Whoever drops one that has not ended leaves its locks to time.
#[derive(Debug)]
pub struct WriteSet {
    client: Arc<Client>,
    /// The transaction's start, and its name.
    pub start_ts: u64,
    begun: Instant,
    lock_ttl: Duration,
    held: Mutex<Held>,
}

impl WriteSet {
    /// Of a transaction that began at a timestamp which was given just now.
    pub fn new(client: Arc<Client>, start_ts: u64) -> WriteSet {
        let (begun, lock_ttl) = (Instant::now(), LOCK_TTL);
        WriteSet { client, start_ts, begun, lock_ttl, held: Mutex::default() }
    }

    /// The same of one that is over in a few round trips: if its gateway dies, others have its keys the sooner.
    pub fn brief(client: Arc<Client>, start_ts: u64) -> WriteSet {
        WriteSet { lock_ttl: LOCK_TTL_OF_BRIEF, ..WriteSet::new(client, start_ts) }
    }

    /// Whether it may hold anything.
    pub fn holds_any(&self) -> bool {
        !self.held.lock().keys.is_empty()
    }

    fn ttl_ms(&self) -> u64 {
        u64::try_from((self.begun.elapsed() + self.lock_ttl).as_millis()).unwrap_or(u64::MAX)
    }

    /// Locks keys that have no commit after `for_update_ts`, all or none, and returns what they are. With `wait` it
    /// waits for others so long, or does not.
    pub async fn lock(
        &self,
        keys: &[Locking],
        for_update_ts: u64,
        wait: Duration,
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let (primary, is_first, fresh) = {
            let mut held = self.held.lock();
            assert!(!held.has_ended, "nobody locks after the end");
            let is_first = held.primary.is_none();
            // It is the primary once it is had: a wait may be given up.
            let primary = held.primary.clone().unwrap_or_else(|| keys[0].key.clone());
            let fresh: Vec<Vec<u8>> = keys
                .iter()
                .filter(|locking| !held.keys.contains_key(&locking.key))
                .map(|locking| locking.key.clone())
                .collect();
            held.keys.extend(fresh.iter().map(|key| (key.clone(), false)));
            held.for_update_ts = held.for_update_ts.max(for_update_ts);
            (primary, is_first, fresh)
        };
        let until = Instant::now() + wait;
        loop {
            match self.lock_once(keys, &primary, is_first, for_update_ts, until).await {
                Ok(values) => {
                    let mut held = self.held.lock();
                    held.primary.get_or_insert(primary);
                    held.keys.extend(keys.iter().map(|locking| (locking.key.clone(), true)));
                    return Ok(values);
                }
                Err(Stopped::Retry) => {}
                // They stay noted, and go back at the end: nobody waits twice for a store that is silent.
                Err(Stopped::Error(error)) if error.is_silence() => return Err(error),
                Err(Stopped::Error(error)) => {
                    self.give_back(&fresh).await;
                    return Err(error);
                }
            }
        }
    }

    async fn lock_once(
        &self,
        keys: &[Locking],
        primary: &[u8],
        is_first: bool,
        for_update_ts: u64,
        until: Instant,
    ) -> Result<Vec<Option<Vec<u8>>>, Stopped> {
        const LONGEST_MS: u128 = 1_000;
        let left_ms = until.saturating_duration_since(Instant::now()).as_millis();
        let wait_timeout = match left_ms {
            0 => -1,
            some => i64::try_from(some.min(LONGEST_MS)).expect("a second fits"),
        };
        let request = |some: &[(usize, Locking)]| kv::PessimisticLockRequest {
            context: None,
            mutations: some.iter().map(|(_, locking)| mutation_of(locking)).collect(),
            primary_lock: primary.to_vec(),
            start_version: self.start_ts,
            lock_ttl: self.ttl_ms(),
            for_update_ts,
            is_first_lock: is_first && keys.len() == 1,
            wait_timeout,
            return_values: true,
        };
        let numbered: Vec<(usize, Locking)> = keys.iter().cloned().enumerate().collect();
        let bytes_of = |(_, locking): &(usize, Locking)| locking.key.len();
        let answers = self.client.ask_for(numbered, key_of, bytes_of, request).await?;
        let mut values = vec![None; keys.len()];
        let mut stopped = None;
        for (asked, answer) in answers {
            if let Some(error) = answer.errors.into_iter().next() {
                let is_woken =
                    |conflict: &kv::WriteConflict| conflict.conflict_commit_ts <= for_update_ts;
                stopped = Some(match (error.locked, stopped) {
                    (_, Some(Stopped::Error(earlier))) => Stopped::Error(earlier),
                    // Whoever was waited for has gone without a commit that matters.
                    (None, _) if error.conflict.as_ref().is_some_and(is_woken) => Stopped::Retry,
                    (None, _) => {
                        Stopped::Error(of_key_error(kv::KeyError { locked: None, ..error }))
                    }
                    (Some(lock), _) if self.client.is_lock_gone(&lock).await? => Stopped::Retry,
                    (Some(_), _) if Instant::now() < until => Stopped::Retry,
                    (Some(lock), _) => Stopped::Error(StoreError::Locked {
                        holder: lock.lock_version,
                        key: lock.key,
                    }),
                });
                continue;
            }
            if answer.values.len() != asked.len() {
                return Err(StoreError::Protocol("locks without their values".to_owned()).into());
            }
            for ((at, _), value) in asked.into_iter().zip(answer.values) {
                values[at] = (!value.is_empty()).then_some(value);
            }
        }
        match stopped {
            None => Ok(values),
            Some(stopped) => Err(stopped),
        }
    }

    /// Gives keys back that were not got after all.
    async fn give_back(&self, keys: &[Vec<u8>]) {
        let for_update_ts = {
            let mut held = self.held.lock();
            for key in keys {
                held.keys.remove(key);
            }
            held.for_update_ts
        };
        self.roll_back_locks(keys.to_vec(), for_update_ts).await;
    }

    async fn roll_back_locks(&self, keys: Vec<Vec<u8>>, for_update_ts: u64) {
        let request = |keys: &[Vec<u8>]| kv::PessimisticRollbackRequest {
            context: None,
            start_version: self.start_ts,
            for_update_ts,
            keys: keys.to_vec(),
        };
        if let Err(error) = self.client.ask_for(keys, |key| key, Vec::len, request).await {
            tracing::debug!(%error, start_ts = self.start_ts, "locks are left to time");
        }
    }

    /// Says that it lives.
    pub async fn heartbeat(&self) -> Result<(), StoreError> {
        let primary = {
            let held = self.held.lock();
            match &held.primary {
                Some(primary) if !held.has_ended => primary.clone(),
                _ => return Ok(()),
            }
        };
        let request = kv::TxnHeartBeatRequest {
            context: None,
            primary_lock: primary.clone(),
            start_version: self.start_ts,
            advise_lock_ttl: self.ttl_ms(),
        };
        let (answer, _) = self.client.ask_region(&primary, request).await?;
        answer.error.map_or(Ok(()), |error| Err(of_key_error(error)))
    }

    /// Prewrites, and takes the commit timestamp. On an error everything is rolled back. With `is_pushed` a reader
    /// that meets it may go on, and put the commit off: it is then later than the timestamp.
    pub async fn prewrite(
        self: &Arc<Self>,
        mutations: Vec<Mutation>,
        is_pushed: bool,
    ) -> Result<PendingCommit, StoreError> {
        self.prewrite_or(mutations, is_pushed, OnLock::Wait).await
    }

    /// The same of keys that are not locked, and that others may be about to prewrite in another order: whoever is in
    /// the way is not waited for.
    pub async fn try_prewrite(
        self: &Arc<Self>,
        mutations: Vec<Mutation>,
    ) -> Result<PendingCommit, StoreError> {
        self.prewrite_or(mutations, true, OnLock::Fail).await
    }

    async fn prewrite_or(
        self: &Arc<Self>,
        mutations: Vec<Mutation>,
        is_pushed: bool,
        on_lock: OnLock,
    ) -> Result<PendingCommit, StoreError> {
        assert!(!mutations.is_empty(), "there is something to commit");
        let mut written: Vec<Written> = mutations.iter().map(Written::of).collect();
        let (primary, for_update_ts, mutations) = {
            let mut held = self.held.lock();
            held.is_prewritten = true;
            let primary = held.primary.get_or_insert_with(|| mutations[0].key.clone()).clone();
            let mut all: Vec<Writing> =
                mutations.into_iter().map(|m| Writing::of(m, &held.keys)).collect();
            let known: HashSet<&[u8]> = all.iter().map(|writing| &writing.key[..]).collect();
            let is_locked =
                |(key, is_had): &(&Vec<u8>, &bool)| **is_had && !known.contains(&key[..]);
            // [W1], [W3]
            let locked = held.keys.iter().filter(is_locked);
            let locked: Vec<_> = locked.map(|(key, _)| Writing::of_lock(key)).collect();
            written.extend(locked.iter().map(|lock| Written { key: lock.key.clone(), bytes: 0 }));
            all.extend(locked);
            // Without a lock it is optimistic: every key is checked.
            let for_update_ts = if held.keys.is_empty() { 0 } else { held.for_update_ts };
            (primary, for_update_ts, all)
        };
        let prewritten =
            match self.prewrite_all(mutations, &primary, for_update_ts, (is_pushed, on_lock)).await
            {
                Ok(min_commit_ts) => self.client.timestamp().await.map(|ts| (ts, min_commit_ts)),
                Err(error) => Err(error),
            };
        match prewritten {
            Ok((commit_ts, min_commit_ts)) => Ok(PendingCommit {
                commit_ts: commit_ts.max(min_commit_ts),
                primary,
                written,
                of: Arc::clone(self),
            }),
            Err(error) if error.is_silence() => {
                let own = Arc::clone(self);
                tokio::spawn(super::behind(async move { own.roll_back_written(written).await }));
                Err(error)
            }
            Err(error) => {
                self.roll_back_written(written).await;
                Err(error)
            }
        }
    }

    async fn prewrite_all(
        &self,
        mutations: Vec<Writing>,
        primary: &[u8],
        for_update_ts: u64,
        (is_pushed, on_lock): (bool, OnLock),
    ) -> Result<u64, StoreError> {
        let txn_size = mutations.len() as u64;
        let min_commit_ts = if is_pushed { self.start_ts.max(for_update_ts) + 1 } else { 0 };
        let request = |some: &[Writing]| kv::PrewriteRequest {
            context: None,
            mutations: some.iter().map(Writing::as_asked).collect(),
            primary_lock: primary.to_vec(),
            start_version: self.start_ts,
            lock_ttl: self.ttl_ms(),
            pessimistic_actions: match for_update_ts {
                0 => Vec::new(),
                _ => some.iter().map(|writing| writing.action() as i32).collect(),
            },
            txn_size,
            for_update_ts,
            min_commit_ts,
            try_one_pc: false,
            max_commit_ts: 0,
        };
        let (mut left, mut least, mut pause) = (mutations, min_commit_ts, self.client.pause());
        loop {
            let bytes_of = |writing: &Writing| writing.key.len() + writing.value.len();
            let answers =
                self.client.ask_for(left, |writing| &writing.key[..], bytes_of, request).await?;
            left = Vec::new();
            let mut waits_for = None;
            for (asked, answer) in answers {
                least = least.max(answer.min_commit_ts);
                let mut is_stopped = false;
                for error in answer.errors {
                    let lock = error.locked.clone().ok_or_else(|| of_key_error(error))?;
                    is_stopped = true;
                    if !self.client.is_lock_gone(&lock).await? {
                        waits_for = Some(lock);
                    }
                }
                if is_stopped {
                    left.extend(asked);
                }
            }
            if left.is_empty() {
                return Ok(least);
            }
            if let Some(lock) = waits_for {
                let error = StoreError::Locked { holder: lock.lock_version, key: lock.key };
                if on_lock == OnLock::Fail {
                    return Err(error);
                }
                pause.after_at_most(error, Duration::from_millis(20)).await?;
            }
        }
    }

    /// Undoes whatever was prewritten or locked.
    async fn roll_back_written(&self, written: Vec<Written>) {
        let mut keys = self.end();
        keys.extend(written.into_iter().map(|written| written.key));
        keys.sort_unstable();
        keys.dedup();
        let request = |keys: &[Vec<u8>]| kv::BatchRollbackRequest {
            context: None,
            start_version: self.start_ts,
            keys: keys.to_vec(),
        };
        if let Err(error) = self.client.ask_for(keys, |key| key, Vec::len, request).await {
            tracing::debug!(%error, start_ts = self.start_ts, "keys are left to time");
        }
    }

    /// Nothing is locked from now on; what is.
    fn end(&self) -> Vec<Vec<u8>> {
        let mut held = self.held.lock();
        held.has_ended = true;
        std::mem::take(&mut held.keys).into_keys().collect()
    }

    /// Gives everything back.
    pub async fn roll_back(&self) {
        let for_update_ts = self.held.lock().for_update_ts;
        let keys = self.end();
        if !keys.is_empty() {
            self.roll_back_locks(keys, for_update_ts).await;
        }
    }

    async fn commit_keys(&self, keys: Vec<Written>, commit_ts: u64) -> Result<(), StoreError> {
        let request = |some: &[Written]| kv::CommitRequest {
            context: None,
            start_version: self.start_ts,
            keys: some.iter().map(|written| written.key.clone()).collect(),
            commit_version: commit_ts,
        };
        // A store may write the values with it: too many of them it does not take.
        let bytes_of = |written: &Written| written.key.len() + written.bytes;
        let answers = self.client.ask_for(keys, |written| &written.key[..], bytes_of, request);
        let answers = answers.await?;
        let error = answers.into_iter().find_map(|(_, answer)| answer.error);
        error.map_or(Ok(()), |error| Err(of_key_error(error)))
    }
}

/// A key that is prewritten, and the size of its value.
#[derive(Debug)]
struct Written {
    key: Vec<u8>,
    bytes: usize,
}

impl Written {
    fn of(mutation: &Mutation) -> Written {
        let bytes = mutation.value.as_ref().map_or(0, Vec::len);
        Written { key: mutation.key.clone(), bytes }
    }
}

/// What is prewritten and has its timestamp. Dropped without an end, it is left to time.
#[derive(Debug)]
pub struct PendingCommit {
    /// When it is committed, if it is; later, if a reader has put it off.
    pub commit_ts: u64,
    primary: Vec<u8>,
    written: Vec<Written>,
    of: Arc<WriteSet>,
}

impl PendingCommit {
    /// Commits: when this returns its timestamp, it is. An error of the network leaves it in doubt.
    pub async fn commit(self) -> Result<u64, StoreError> {
        self.commit_if(|_| true).await
    }

    /// The same; where a reader has put it off, only at a timestamp that it may have. Else it is rolled back.
    pub async fn commit_if(self, may: impl Fn(u64) -> bool + Send) -> Result<u64, StoreError> {
        let Some(commit_ts) = self.commit_primary(may).await? else {
            self.roll_back().await;
            let why = "a reader has put its commit off for too long".to_owned();
            return Err(StoreError::Lost(why));
        };
        let PendingCommit { primary, written, of, .. } = self;
        let held = of.end();
        // Nobody waits for it: whoever meets one of these keys looks at the primary.
        tokio::spawn(super::behind(async move {
            let keys: HashSet<&[u8]> = written.iter().map(|written| &written.key[..]).collect();
            let is_only_locked = |key: &Vec<u8>| !keys.contains(&key[..]);
            let only_locked: Vec<_> = held.into_iter().filter(is_only_locked).collect();
            let secondaries: Vec<_> =
                written.into_iter().filter(|written| written.key != primary).collect();
            if !secondaries.is_empty()
                && let Err(error) = of.commit_keys(secondaries, commit_ts).await
            {
                tracing::debug!(%error, start_ts = of.start_ts, "keys are left to who meets them");
            }
            if !only_locked.is_empty() {
                of.roll_back_locks(only_locked, u64::MAX).await;
            }
        }));
        Ok(commit_ts)
    }

    /// None: it was put off to a timestamp that it may not have, and is not committed.
    async fn commit_primary(
        &self,
        may: impl Fn(u64) -> bool + Send,
    ) -> Result<Option<u64>, StoreError> {
        let (of, mut commit_ts) = (&self.of, self.commit_ts);
        loop {
            let request = kv::CommitRequest {
                context: None,
                start_version: of.start_ts,
                keys: vec![self.primary.clone()],
                commit_version: commit_ts,
            };
            let (answer, _) = of.client.ask_region(&self.primary, request).await?;
            let Some(error) = answer.error else { return Ok(Some(commit_ts)) };
            if error.commit_ts_expired.is_some() {
                commit_ts = of.client.timestamp().await?;
                if !may(commit_ts) {
                    return Ok(None);
                }
                continue;
            }
            // It may have been committed by an attempt whose answer was lost [T1].
            let lock = kv::LockInfo {
                primary_lock: self.primary.clone(),
                lock_version: of.start_ts,
                key: self.primary.clone(),
                ..kv::LockInfo::default()
            };
            return match of.client.fate_of(&lock, 0).await? {
                Fate::Committed(ts) => Ok(Some(ts)),
                Fate::RolledBack | Fate::Alive { .. } => Err(of_key_error(error)),
            };
        }
    }

    /// Gives it up.
    pub async fn roll_back(self) {
        self.of.roll_back_written(self.written).await;
    }
}

/// What a prewrite does that meets a lock of somebody who lives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnLock {
    Wait,
    Fail,
}

/// A key as it is prewritten.
#[derive(Clone, Debug)]
struct Writing {
    op: Op,
    key: Vec<u8>,
    value: Vec<u8>,
    is_locked: bool,
}

impl Writing {
    fn of_lock(key: &[u8]) -> Writing {
        Writing { op: Op::Lock, key: key.to_owned(), value: Vec::new(), is_locked: true }
    }

    fn of(mutation: Mutation, locked: &BTreeMap<Vec<u8>, bool>) -> Writing {
        let is_locked = locked.contains_key(&mutation.key);
        let Mutation { key, value } = mutation;
        match value {
            Some(value) => {
                assert!(!value.is_empty(), "no value is empty: to the store that is none");
                Writing { op: Op::Put, key, value, is_locked }
            }
            None => Writing { op: Op::Del, key, value: Vec::new(), is_locked },
        }
    }

    fn action(&self) -> PessimisticAction {
        match self.is_locked {
            true => PessimisticAction::DoPessimisticCheck,
            false => PessimisticAction::SkipPessimisticCheck,
        }
    }

    fn as_asked(&self) -> kv::Mutation {
        kv::Mutation {
            op: self.op as i32,
            key: self.key.clone(),
            value: self.value.clone(),
            assertion: Assertion::None as i32,
        }
    }
}

fn mutation_of(locking: &Locking) -> kv::Mutation {
    let assertion = if locking.is_new { Assertion::NotExist } else { Assertion::None };
    kv::Mutation {
        op: Op::PessimisticLock as i32,
        key: locking.key.clone(),
        value: Vec::new(),
        assertion: assertion as i32,
    }
}

fn key_of((_, locking): &(usize, Locking)) -> &[u8] {
    &locking.key
}

/// Why an attempt has not locked all.
enum Stopped {
    /// What was in the way is gone, or may be.
    Retry,
    Error(StoreError),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Stopped {
        Stopped::Error(error)
    }
}
