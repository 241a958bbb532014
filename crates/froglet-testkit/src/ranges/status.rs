//! What a primary says of its transaction: to the one who keeps it alive, and to those who meet its locks.
//!
//! ```text
//!   lock ─┬─ its time is over ─┬─ only a pessimistic lock, and asked because of one ─▶ given back, without a trace
//!         │                    └─ else ─────────────────────────────────────────────▶ rolled back
//!         └─ alive ── a commit may be put off until after whoever asks ─────────────▶ min_commit_ts is pushed
//!   none ─┬─ committed, rolled back ────────────────────────────────────────────────▶ so it is
//!         └─ unknown ─┬─ asked because of a pessimistic lock ───────────────────────▶ nothing is done
//!                     └─ else ──────────────────────────────────────────────────────▶ rolled back, if that is wanted
//! ```

use froglet_cluster::wire::kv::{self, Action};

use super::clock::physical_ms;
use super::errors::{self, Refusal};
use super::record::{Change, Changes, Fate, Lock, Records};

/// The time of a lock becomes longer, never shorter; what it is then.
pub(super) fn heart_beat(
    records: &Records,
    request: &kv::TxnHeartBeatRequest,
) -> Result<(Changes, u64), Refusal> {
    let key = &request.primary_lock;
    match &records.of(key).lock {
        Some(lock) if lock.start_ts == request.start_version => {
            let ttl_ms = lock.ttl_ms.max(request.advise_lock_ttl);
            let lock = Lock { ttl_ms, ..lock.clone() };
            Ok((vec![(key.clone(), Change::Lock(lock))], ttl_ms))
        }
        _ => Err(errors::unknown(key, request.start_version)),
    }
}

/// See the module.
pub(super) fn check(
    records: &Records,
    request: &kv::CheckTxnStatusRequest,
) -> Result<(Changes, kv::CheckTxnStatusResponse), Refusal> {
    let (key, start_ts) = (&request.primary_key, request.lock_ts);
    let record = records.of(key);
    if let Some(lock) = record.lock.as_ref().filter(|lock| lock.start_ts == start_ts) {
        return Ok(of_lock(lock, request));
    }
    let mut answer = kv::CheckTxnStatusResponse::default();
    let mut changes = Changes::new();
    match record.fate_of(start_ts) {
        Fate::Committed(ts) => answer.commit_version = ts,
        Fate::RolledBack => {}
        Fate::Unknown if !request.rollback_if_not_exist => {
            return Err(errors::unknown(key, start_ts));
        }
        Fate::Unknown if request.resolving_pessimistic_lock => {
            answer.action = Action::LockNotExistDoNothing as i32;
        }
        Fate::Unknown => {
            answer.action = Action::LockNotExistRollback as i32;
            changes.push((key.clone(), Change::Rollback(start_ts)));
        }
    }
    Ok((changes, answer))
}

fn of_lock(
    lock: &Lock,
    request: &kv::CheckTxnStatusRequest,
) -> (Changes, kv::CheckTxnStatusResponse) {
    let key = request.primary_key.clone();
    let mut answer = kv::CheckTxnStatusResponse::default();
    if physical_ms(lock.start_ts).saturating_add(lock.ttl_ms) < physical_ms(request.current_ts) {
        let mut changes = vec![(key.clone(), Change::Unlock)];
        if request.resolving_pessimistic_lock && lock.is_pessimistic() {
            answer.action = Action::TtlExpirePessimisticRollback as i32;
        } else {
            answer.action = Action::TtlExpireRollback as i32;
            changes.push((key, Change::Rollback(lock.start_ts)));
        }
        return (changes, answer);
    }
    let (mut lock, mut changes) = (lock.clone(), Changes::new());
    let (caller_ts, is_newest) = (request.caller_start_ts, request.caller_start_ts == u64::MAX);
    if lock.min_commit_ts > 0 && !is_newest && caller_ts >= lock.min_commit_ts {
        lock.min_commit_ts = (caller_ts + 1).max(request.current_ts);
        changes.push((key.clone(), Change::Lock(lock.clone())));
    }
    if is_newest || (caller_ts > 0 && lock.min_commit_ts > caller_ts) {
        answer.action = Action::MinCommitTsPushed as i32;
    }
    answer.lock_ttl = lock.ttl_ms;
    answer.lock_info = Some(lock.info(&key));
    (changes, answer)
}
