//! Stories of transactions, told by what stores answer.
//!
//! ```text
//!   Story ─ begin ─▶ Txn ─ lock, prewrite, commit, … ─▶ one word: "" if it was done, else what stood in the way
//! ```
//! Each asks the leader of a key's region directly, as no client would have to be careful about: what is tested is the
//! store, not who asks it.

mod commits;
mod locks;
mod networks;
mod places;

use std::sync::Arc;

use froglet_cluster::network::{Answer, Ask, Network, Place};
use froglet_cluster::wire::kv::{self, Assertion, KeyError, Op, PessimisticAction};

use super::{Gateway, Ranges};

/// The time of locks, in milliseconds.
const TTL_MS: u64 = 3000;

/// A store, and one gateway.
struct Story {
    ranges: Arc<Ranges>,
    gateway: Arc<Gateway>,
}

fn context(place: &Place) -> kv::Context {
    kv::Context {
        region_id: place.region.id,
        region_epoch: place.region.region_epoch,
        peer: place.leader,
        resolved_locks: Vec::new(),
    }
}

/// In one word.
fn word(error: &KeyError) -> &'static str {
    match error {
        KeyError { locked: Some(_), .. } => "locked",
        KeyError { conflict: Some(_), .. } => "conflict",
        KeyError { already_exist: Some(_), .. } => "exists",
        KeyError { deadlock: Some(_), .. } => "deadlock",
        KeyError { commit_ts_expired: Some(_), .. } => "too early",
        KeyError { txn_not_found: Some(_), .. } => "unknown",
        KeyError { retryable, .. } if !retryable.is_empty() => "gone",
        _ => "abort",
    }
}

fn words(errors: &[KeyError]) -> String {
    errors.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn keys(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

fn mutation(op: Op, key: &str, value: &str) -> kv::Mutation {
    let (key, value) = (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    kv::Mutation { op: op as i32, key, value, assertion: Assertion::None as i32 }
}

impl Story {
    fn new(stores: u64) -> Story {
        let ranges = Ranges::new(stores);
        let gateway = ranges.network("a");
        Story { ranges, gateway }
    }

    /// As the leader of the region that has the key answers.
    async fn ask<A: Ask>(&self, key: &str, mut request: A) -> A::Answer {
        let place = self.gateway.place_of(key.as_bytes()).await.expect("the driver answers");
        let leader = place.leader.expect("every region has a leader");
        request.place_at(context(&place));
        let answer = self.gateway.ask(leader.store_id, request.wrapped()).await;
        let answer = answer.expect("the leader answers");
        let mut answer = A::answer_of(answer).expect("it is of the same kind");
        assert_eq!(answer.take_region_error(), None);
        answer
    }

    fn begin<'a>(&'a self, primary: &'a str) -> Txn<'a> {
        Txn { story: self, start_ts: self.ranges.timestamp(), primary, for_update_ts: 0 }
    }

    /// What a reader sees: a value, nothing, or a word.
    async fn get_at(&self, key: &str, version: u64) -> String {
        let request = kv::GetRequest { context: None, key: key.as_bytes().to_vec(), version };
        let answer = self.ask(key, request).await;
        match answer.error {
            Some(error) => word(&error).to_owned(),
            None => String::from_utf8(answer.value).expect("values of tests are text"),
        }
    }

    async fn get(&self, key: &str) -> String {
        self.get_at(key, self.ranges.timestamp()).await
    }

    /// What a primary says; the time that has passed is the oracle's.
    async fn status(&self, of: &Txn<'_>, caller_start_ts: u64) -> kv::CheckTxnStatusResponse {
        let request = kv::CheckTxnStatusRequest {
            primary_key: of.primary.as_bytes().to_vec(),
            lock_ts: of.start_ts,
            caller_start_ts,
            current_ts: self.ranges.timestamp(),
            rollback_if_not_exist: true,
            ..kv::CheckTxnStatusRequest::default()
        };
        self.ask(of.primary, request).await
    }

    /// Ends locks of a transaction; of all keys in the region of its primary, if none is named.
    async fn resolve(&self, of: &Txn<'_>, commit_version: u64, names: &[&str]) -> String {
        let request = kv::ResolveLockRequest {
            context: None,
            start_version: of.start_ts,
            commit_version,
            keys: keys(names),
        };
        let at = names.first().copied().unwrap_or(of.primary);
        self.ask(at, request).await.error.as_ref().map_or("", word).to_owned()
    }

    fn locked(&self) -> Vec<String> {
        let locks = self.ranges.locks();
        let text = |lock: kv::LockInfo| String::from_utf8(lock.key).expect("keys are text");
        locks.into_iter().map(text).collect()
    }
}

/// A transaction, as far as the tests are it.
#[derive(Clone, Copy)]
struct Txn<'a> {
    story: &'a Story,
    start_ts: u64,
    primary: &'a str,
    /// 0: it is optimistic.
    for_update_ts: u64,
}

impl<'a> Txn<'a> {
    fn prewriting(&self, mutations: &[kv::Mutation]) -> kv::PrewriteRequest {
        kv::PrewriteRequest {
            mutations: mutations.to_vec(),
            primary_lock: self.primary.as_bytes().to_vec(),
            start_version: self.start_ts,
            lock_ttl: TTL_MS,
            txn_size: mutations.len() as u64,
            for_update_ts: self.for_update_ts,
            ..kv::PrewriteRequest::default()
        }
    }

    async fn send(&self, request: kv::PrewriteRequest) -> kv::PrewriteResponse {
        let key = String::from_utf8(request.mutations[0].key.clone()).expect("keys are text");
        self.story.ask(&key, request).await
    }

    async fn prewrite(&self, mutations: &[kv::Mutation]) -> String {
        words(&self.send(self.prewriting(mutations)).await.errors)
    }

    async fn put(&self, key: &str, value: &str) -> String {
        self.prewrite(&[mutation(Op::Put, key, value)]).await
    }

    /// Prewrites keys that have to be locked.
    async fn put_locked(&self, key: &str, value: &str) -> String {
        let mut request = self.prewriting(&[mutation(Op::Put, key, value)]);
        request.pessimistic_actions = vec![PessimisticAction::DoPessimisticCheck as i32];
        words(&self.send(request).await.errors)
    }

    async fn commit_at(&self, names: &[&str], commit_version: u64) -> String {
        let request = kv::CommitRequest {
            context: None,
            start_version: self.start_ts,
            keys: keys(names),
            commit_version,
        };
        let answer = self.story.ask(names[0], request).await;
        answer.error.as_ref().map_or("", word).to_owned()
    }

    async fn commit(&self, names: &[&str]) -> String {
        self.commit_at(names, self.story.ranges.timestamp()).await
    }

    async fn roll_back(&self, names: &[&str]) -> String {
        let start_version = self.start_ts;
        let request = kv::BatchRollbackRequest { context: None, start_version, keys: keys(names) };
        let answer = self.story.ask(names[0], request).await;
        answer.error.as_ref().map_or("", word).to_owned()
    }

    async fn live_for(&self, advise_lock_ttl: u64) -> Result<u64, &'static str> {
        let request = kv::TxnHeartBeatRequest {
            context: None,
            primary_lock: self.primary.as_bytes().to_vec(),
            start_version: self.start_ts,
            advise_lock_ttl,
        };
        let answer = self.story.ask(self.primary, request).await;
        answer.error.map_or(Ok(answer.lock_ttl), |error| Err(word(&error)))
    }

    /// As of now, for what it locks from now on.
    fn refreshed(self) -> Txn<'a> {
        Txn { for_update_ts: self.story.ranges.timestamp(), ..self }
    }

    fn locking(&self, names: &[&str], wait_timeout: i64) -> kv::PessimisticLockRequest {
        let lock = |name: &&str| mutation(Op::PessimisticLock, name, "");
        kv::PessimisticLockRequest {
            mutations: names.iter().map(lock).collect(),
            primary_lock: self.primary.as_bytes().to_vec(),
            start_version: self.start_ts,
            lock_ttl: TTL_MS,
            for_update_ts: self.for_update_ts,
            wait_timeout,
            return_values: true,
            ..kv::PessimisticLockRequest::default()
        }
    }

    /// Values of what is locked, or why it is not.
    async fn send_lock(&self, request: kv::PessimisticLockRequest) -> Result<String, KeyError> {
        let key = String::from_utf8(request.mutations[0].key.clone()).expect("keys are text");
        let answer = self.story.ask(&key, request).await;
        match answer.errors.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(String::from_utf8(answer.values.join(&b' ')).expect("values are text")),
        }
    }

    /// Locks without waiting.
    async fn lock(&self, names: &[&str]) -> Result<String, &'static str> {
        self.send_lock(self.locking(names, -1)).await.map_err(|error| word(&error))
    }

    async fn wait_for(&self, name: &str, wait_ms: i64) -> Result<String, &'static str> {
        self.send_lock(self.locking(&[name], wait_ms)).await.map_err(|error| word(&error))
    }

    async fn give_back(&self, names: &[&str]) {
        let request = kv::PessimisticRollbackRequest {
            context: None,
            start_version: self.start_ts,
            for_update_ts: self.for_update_ts,
            keys: keys(names),
        };
        let answer = self.story.ask(names[0], request).await;
        assert_eq!(answer.errors, vec![]);
    }
}
