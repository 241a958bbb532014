//! What is said of a key that is not as it was asked for.
//!
//! ```text
//!   locked · conflict · already_exist · deadlock   the client knows what to do
//!   retryable                                      the transaction is gone: begin again
//!   abort                                          it is gone, or was never right
//! ```
//! TiKV fills `retryable` for a conflict as well, for old clients; so it is done here.

use froglet_cluster::wire::kv::{self, KeyError};

use super::record::{Lock, Newest};

/// Why a key is not done. Boxed, because it is large and comes seldom.
pub(super) type Refusal = Box<KeyError>;

pub(super) fn locked(lock: kv::LockInfo) -> Refusal {
    Box::new(KeyError { locked: Some(lock), ..KeyError::default() })
}

pub(super) fn locked_by(key: &[u8], lock: &Lock) -> Refusal {
    locked(lock.info(key))
}

pub(super) fn conflict(key: &[u8], start_ts: u64, with: Newest) -> Refusal {
    let conflict = kv::WriteConflict {
        start_ts,
        conflict_ts: with.start_ts,
        key: key.to_vec(),
        conflict_commit_ts: with.commit_ts,
    };
    let retryable = format!("write conflict of {start_ts} with {with:?}");
    Box::new(KeyError { conflict: Some(conflict), retryable, ..KeyError::default() })
}

pub(super) fn exists(key: &[u8]) -> Refusal {
    let exists = kv::AlreadyExist { key: key.to_vec() };
    Box::new(KeyError { already_exist: Some(exists), ..KeyError::default() })
}

pub(super) fn deadlock(lock: &kv::LockInfo, key_hash: u64) -> Refusal {
    let deadlock = kv::Deadlock {
        lock_ts: lock.lock_version,
        lock_key: lock.key.clone(),
        deadlock_key_hash: key_hash,
    };
    Box::new(KeyError { deadlock: Some(deadlock), ..KeyError::default() })
}

pub(super) fn commit_too_early(key: &[u8], commit_ts: u64, lock: &Lock) -> Refusal {
    let expired = kv::CommitTsExpired {
        start_ts: lock.start_ts,
        attempted_commit_ts: commit_ts,
        key: key.to_vec(),
        min_commit_ts: lock.min_commit_ts,
    };
    Box::new(KeyError { commit_ts_expired: Some(expired), ..KeyError::default() })
}

pub(super) fn unknown(primary: &[u8], start_ts: u64) -> Refusal {
    let unknown = kv::TxnNotFound { start_ts, primary_key: primary.to_vec() };
    Box::new(KeyError { txn_not_found: Some(unknown), ..KeyError::default() })
}

pub(super) fn retryable(why: String) -> Refusal {
    Box::new(KeyError { retryable: why, ..KeyError::default() })
}

pub(super) fn aborted(why: String) -> Refusal {
    Box::new(KeyError { abort: why, ..KeyError::default() })
}
