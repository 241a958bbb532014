//! Pessimistic locks: a key is taken before it is known what will be written there.
//!
//! ```text
//!   key ─┬─ another's lock ───────────────────▶ locked: the caller may wait (`waits`)
//!        ├─ one's own ────────────────────────▶ it is had already; its for_update_ts only rises
//!        ├─ newest record > for_update_ts ────▶ conflict: what the caller has read is old
//!        ├─ rolled back by somebody ──────────▶ abort
//!        ├─ must not be there, and is ────────▶ already_exist
//!        └─ else ─────────────────────────────▶ locked for the caller, with what is there
//! ```
//! All keys of a request are locked, or none.

use froglet_cluster::wire::kv::{self, Assertion, Op};

use super::errors::{self, Refusal};
use super::record::{Change, Changes, Lock, Record, Records};

/// The locks of a request, and the values that it asked for.
pub(super) fn lock(
    records: &Records,
    request: &kv::PessimisticLockRequest,
) -> Result<(Changes, Vec<Vec<u8>>), Refusal> {
    let (mut changes, mut values) = (Changes::new(), Vec::new());
    for mutation in &request.mutations {
        let (key, record) = (&mutation.key, records.of(&mutation.key));
        let seen = match is_held(record, key, request)? {
            Some(for_update_ts) => {
                if for_update_ts < request.for_update_ts {
                    changes.push((key.clone(), Change::Lock(lock_of(request))));
                }
                record.value_at(request.for_update_ts)
            }
            None => {
                let is_new = mutation.assertion == Assertion::NotExist as i32;
                check(record, key, request, is_new)?;
                changes.push((key.clone(), Change::Lock(lock_of(request))));
                record.value_at(u64::MAX)
            }
        };
        if request.return_values {
            values.push(seen.unwrap_or_default().to_vec());
        }
    }
    Ok((changes, values))
}

/// Whether the transaction has the key already: with which `for_update_ts`.
fn is_held(
    record: &Record,
    key: &[u8],
    request: &kv::PessimisticLockRequest,
) -> Result<Option<u64>, Refusal> {
    match &record.lock {
        None => Ok(None),
        Some(lock) if lock.start_ts != request.start_version => Err(errors::locked_by(key, lock)),
        Some(lock) if lock.is_pessimistic() => Ok(Some(lock.for_update_ts)),
        Some(_) => Err(errors::aborted(format!("{}: lock type not match", request.start_version))),
    }
}

fn check(
    record: &Record,
    key: &[u8],
    request: &kv::PessimisticLockRequest,
    is_new: bool,
) -> Result<(), Refusal> {
    let start_ts = request.start_version;
    match record.newest() {
        Some(newest) if newest.commit_ts > request.for_update_ts => {
            return Err(errors::conflict(key, start_ts, newest));
        }
        _ => {}
    }
    if record.rollbacks.contains(&start_ts) {
        return Err(errors::aborted(format!("{start_ts}: pessimistic lock rolled back")));
    }
    match is_new && record.value_at(u64::MAX).is_some() {
        true => Err(errors::exists(key)),
        false => Ok(()),
    }
}

fn lock_of(request: &kv::PessimisticLockRequest) -> Lock {
    Lock {
        start_ts: request.start_version,
        primary: request.primary_lock.clone(),
        op: Op::PessimisticLock,
        value: Vec::new(),
        ttl_ms: request.lock_ttl,
        for_update_ts: request.for_update_ts,
        min_commit_ts: 0,
        txn_size: 0,
    }
}

/// Gives pessimistic locks back that are not younger than asked for. It leaves no trace: they may be taken again.
pub(super) fn give_back(records: &Records, request: &kv::PessimisticRollbackRequest) -> Changes {
    let is_own = |lock: &Lock| {
        lock.is_pessimistic()
            && lock.start_ts == request.start_version
            && lock.for_update_ts <= request.for_update_ts
    };
    let held = request.keys.iter().filter(|key| records.of(key).lock.as_ref().is_some_and(is_own));
    held.map(|key| (key.clone(), Change::Unlock)).collect()
}
