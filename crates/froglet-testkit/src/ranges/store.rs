//! A store: each request is admitted, done at one moment, and answered.
//!
//! ```text
//!   request ─▶ is the store up? ─▶ does it lead the region, as the sender knows it? ─▶ what the records say
//!                  │ no                │ no                                             ├─▶ an answer, and what changes
//!                  ▼                   ▼                                                └─▶ a wait for a lock
//!              unreachable         region error, nothing is done
//! ```
//! A request is done under one lock of everything: they come one after the other, in the order of their arrival. All
//! stores have the same records, as if each change had reached all of them before it was answered.

use std::time::Duration;

use froglet_cluster::network::{Request, Response, Unreachable};
use froglet_cluster::wire::kv::{self, KeyError, RegionError};
use tokio::sync::oneshot;

use super::errors::{self, Refusal};
use super::places::Region;
use super::record::{Change, Changes};
use super::waits::{Edge, Woken, timeout_of};
use super::{State, commit, locking, prewrite, reads, status, unreachable};

/// A request that waits for a lock.
pub(super) struct Waiting {
    pub waiter: u64,
    pub woken: oneshot::Receiver<Woken>,
    pub timeout: Duration,
    /// The lock that it met.
    pub lock: kv::LockInfo,
    pub start_ts: u64,
}

/// What has come of a request.
pub(super) enum Done {
    Answer(Box<Response>),
    Wait(Box<Waiting>),
}

pub(super) fn unavailable(store: u64) -> Unreachable {
    unreachable(&format!("store {store}"), "it is down")
}

/// The answer of a request that a region has refused.
pub(super) fn refused(request: &Request, error: RegionError) -> Response {
    macro_rules! refuse {
        ($($name:ident: $response:ident)*) => {
            match request {
                $(Request::$name(_) => Response::$name(kv::$response {
                    region_error: Some(error),
                    ..kv::$response::default()
                }),)*
            }
        };
    }
    refuse! {
        Get: GetResponse
        BatchGet: BatchGetResponse
        Scan: ScanResponse
        PessimisticLock: PessimisticLockResponse
        PessimisticRollback: PessimisticRollbackResponse
        Prewrite: PrewriteResponse
        Commit: CommitResponse
        BatchRollback: BatchRollbackResponse
        TxnHeartBeat: TxnHeartBeatResponse
        CheckTxnStatus: CheckTxnStatusResponse
        ResolveLock: ResolveLockResponse
        ScanLock: ScanLockResponse
        SplitRegion: SplitRegionResponse
    }
}

fn all(keys: &[Vec<u8>]) -> Vec<&[u8]> {
    keys.iter().map(Vec::as_slice).collect()
}

fn written(mutations: &[kv::Mutation]) -> Vec<&[u8]> {
    mutations.iter().map(|mutation| mutation.key.as_slice()).collect()
}

/// Keys that have to be in the region of a request; ranges are clipped to it.
fn keys_of(request: &Request) -> Vec<&[u8]> {
    match request {
        Request::Get(request) => vec![&request.key],
        Request::BatchGet(request) => all(&request.keys),
        Request::PessimisticLock(request) => written(&request.mutations),
        Request::PessimisticRollback(request) => all(&request.keys),
        Request::Prewrite(request) => written(&request.mutations),
        Request::Commit(request) => all(&request.keys),
        Request::BatchRollback(request) => all(&request.keys),
        Request::TxnHeartBeat(request) => vec![&request.primary_lock],
        Request::CheckTxnStatus(request) => vec![&request.primary_key],
        Request::ResolveLock(request) => all(&request.keys),
        Request::SplitRegion(request) => all(&request.split_keys),
        Request::Scan(_) | Request::ScanLock(_) => Vec::new(),
    }
}

/// Timestamps that a request reads at.
fn read_at(request: &Request) -> Vec<u64> {
    match request {
        Request::Get(request) => vec![request.version],
        Request::BatchGet(request) => vec![request.version],
        Request::Scan(request) => vec![request.version],
        Request::ScanLock(request) => vec![request.max_version],
        Request::CheckTxnStatus(r) => vec![r.lock_ts, r.current_ts, r.caller_start_ts],
        Request::PessimisticLock(request) => {
            let is_new = |m: &kv::Mutation| m.assertion == kv::Assertion::NotExist as i32;
            let reads = request.return_values || request.mutations.iter().any(is_new);
            reads.then_some(request.for_update_ts).into_iter().collect()
        }
        Request::Prewrite(request) => {
            let looks = |m: &kv::Mutation| m.op == kv::Op::CheckNotExists as i32;
            let looks = request.mutations.iter().any(looks);
            looks.then_some(request.start_version).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// A store replicates no more at once, in bytes.
const LARGEST_ENTRY: usize = 8 << 20;

impl State {
    /// Does what a store is asked.
    pub(super) fn ask(&mut self, store: u64, request: &Request) -> Result<Done, Unreachable> {
        if !self.places.is_up(store) {
            return Err(unavailable(store));
        }
        let region = match self.places.admit(store, request.context(), keys_of(request)) {
            Ok(region) => region,
            Err(error) => return Ok(Done::Answer(Box::new(refused(request, *error)))),
        };
        for ts in read_at(request) {
            self.places.saw_read(store, ts);
        }
        match request {
            Request::PessimisticLock(request) => Ok(self.lock(store, request)),
            _ => Ok(Done::Answer(Box::new(self.answer(&region, request)))),
        }
    }

    fn answer(&mut self, region: &Region, request: &Request) -> Response {
        if let Request::Commit(commit) = request
            && commit::written_bytes(&self.records, commit) > LARGEST_ENTRY
        {
            let too_large = kv::RaftEntryTooLarge::default();
            let error = kv::RegionError {
                message: "raft entry is too large".to_owned(),
                raft_entry_too_large: Some(too_large),
                ..kv::RegionError::default()
            };
            return refused(request, error);
        }
        let (records, borders) = (&self.records, (&region.start[..], &region.end[..]));
        match request {
            Request::Get(request) => Response::Get(reads::get(records, request)),
            Request::BatchGet(request) => Response::BatchGet(reads::batch_get(records, request)),
            Request::Scan(request) => Response::Scan(reads::scan(records, request, borders)),
            Request::ScanLock(request) => {
                Response::ScanLock(reads::scan_lock(records, request, borders))
            }
            Request::PessimisticRollback(request) => {
                let changes = locking::give_back(records, request);
                self.make(region.leader, changes);
                Response::PessimisticRollback(kv::PessimisticRollbackResponse::default())
            }
            Request::Prewrite(request) => Response::Prewrite(self.prewrite(region, request)),
            Request::Commit(request) => {
                let (commit_version, done) =
                    (request.commit_version, commit::commit(records, request));
                let error = self.make_all(region, done);
                let commit_version = if error.is_none() { commit_version } else { 0 };
                Response::Commit(kv::CommitResponse { region_error: None, error, commit_version })
            }
            Request::BatchRollback(request) => {
                let error = self.make_all(region, commit::roll_back(records, request));
                Response::BatchRollback(kv::BatchRollbackResponse { region_error: None, error })
            }
            Request::ResolveLock(request) => {
                let error = self.make_all(region, commit::resolve(records, request, borders));
                Response::ResolveLock(kv::ResolveLockResponse { region_error: None, error })
            }
            Request::TxnHeartBeat(request) => {
                let done = status::heart_beat(records, request);
                let (lock_ttl, error) = self.make_with(region, done);
                let answer = kv::TxnHeartBeatResponse { region_error: None, error, lock_ttl };
                Response::TxnHeartBeat(answer)
            }
            Request::CheckTxnStatus(request) => {
                let done = status::check(records, request);
                let (answer, error) = self.make_with(region, done);
                Response::CheckTxnStatus(kv::CheckTxnStatusResponse { error, ..answer })
            }
            Request::SplitRegion(request) => Response::SplitRegion(self.split(region, request)),
            Request::PessimisticLock(_) => unreachable!("it may wait: it is done by `lock`"),
        }
    }

    /// Changes records, and wakes who waits for what is free now.
    fn make(&mut self, store: u64, changes: Changes) {
        let commit_ts = changes.iter().find_map(|(_, change)| match change {
            Change::Commit(ts, _) => Some(*ts),
            _ => None,
        });
        let freed = changes.iter().filter(|(_, change)| matches!(change, Change::Unlock));
        for (key, _) in freed {
            self.waits.released(store, key, commit_ts.unwrap_or(0));
        }
        self.records.make(changes);
    }

    fn make_all(&mut self, region: &Region, done: Result<Changes, Refusal>) -> Option<KeyError> {
        self.make_with(region, done.map(|changes| (changes, ()))).1
    }

    fn make_with<T: Default>(
        &mut self,
        region: &Region,
        done: Result<(Changes, T), Refusal>,
    ) -> (T, Option<KeyError>) {
        match done {
            Ok((changes, answer)) => {
                self.make(region.leader, changes);
                (answer, None)
            }
            Err(error) => (T::default(), Some(*error)),
        }
    }

    fn prewrite(&mut self, region: &Region, request: &kv::PrewriteRequest) -> kv::PrewriteResponse {
        let read_ts = self.places.read_ts(region.leader);
        let mut answer = kv::PrewriteResponse::default();
        match prewrite::prewrite(&self.records, request, read_ts) {
            Ok(done) => {
                self.make(region.leader, done.changes);
                answer.one_pc_commit_ts = done.one_phase_ts;
            }
            Err(errors) => answer.errors = errors,
        }
        answer
    }

    fn split(
        &mut self,
        region: &Region,
        request: &kv::SplitRegionRequest,
    ) -> kv::SplitRegionResponse {
        let mut answer = kv::SplitRegionResponse::default();
        let at_start = request.split_keys.iter().find(|key| **key == region.start);
        match at_start {
            None => answer.regions = self.places.split(region, request.split_keys.clone()),
            Some(key) => {
                let outside = kv::KeyNotInRegion { key: key.clone(), region_id: region.id };
                let message = "a region is not split where it begins".to_owned();
                let key_not_in_region = Some(outside);
                let error = RegionError { message, key_not_in_region, ..RegionError::default() };
                answer.region_error = Some(error);
            }
        }
        answer
    }

    fn lock(&mut self, store: u64, request: &kv::PessimisticLockRequest) -> Done {
        let answered = |errors, values| {
            let answer = kv::PessimisticLockResponse { region_error: None, errors, values };
            Done::Answer(Box::new(Response::PessimisticLock(answer)))
        };
        let error = match locking::lock(&self.records, request) {
            Ok((changes, values)) => {
                self.make(store, changes);
                return answered(Vec::new(), values);
            }
            Err(error) => error,
        };
        let timeout = timeout_of(request.wait_timeout);
        let (Some(lock), Some(timeout)) = (&error.locked, timeout) else {
            return answered(vec![*error], Vec::new());
        };
        let start_ts = request.start_version;
        let edge = Edge {
            start_ts,
            holder: lock.lock_version,
            key: lock.key.clone(),
            store,
            is_first_lock: request.is_first_lock,
        };
        match self.waits.enter(edge) {
            Ok((waiter, woken)) => {
                let lock = lock.clone();
                Done::Wait(Box::new(Waiting { waiter, woken, timeout, lock, start_ts }))
            }
            Err(key_hash) => answered(vec![*errors::deadlock(lock, key_hash)], Vec::new()),
        }
    }
}
