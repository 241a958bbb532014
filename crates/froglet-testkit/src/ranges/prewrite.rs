//! Prewrite: all that a transaction writes is laid down under locks, or committed at once if that is all of it.
//!
//! ```text
//!                   optimistic                            pessimistic
//!   own lock        it is a repetition                    pessimistic: it becomes the write; else a repetition
//!   another's       locked                                locked, ttl 0; where a lock was due: abort
//!   none            conflict if there is anything newer   where a lock was due: abort if there is anything newer;
//!                   than its start, or its own rollback   else nothing is checked
//! ```
//! Locked keys are told together; any other error ends the request at once. Nothing is written if there is an error.
//! Where a key of a request was committed by an earlier attempt whose answer was lost, the whole request is answered as
//! that attempt was.
//!
//! In one phase it is committed later than everything that was read on this store, and not at a timestamp of the oracle:
//! whoever needs more says so with `min_commit_ts`. If that is later than allowed, or a key was prewritten by an earlier
//! attempt, the request becomes one of two phases.

use froglet_cluster::wire::kv::{self, KeyError, Op, PessimisticAction};

use super::errors::{self, Refusal};
use super::record::{Change, Changes, Fate, Lock, Newest, Record, Records, Write};

/// What a prewrite does.
#[derive(Debug, Default)]
pub(super) struct Prewritten {
    pub changes: Changes,
    /// 0: it was only prewritten.
    pub one_phase_ts: u64,
}

/// What comes of one key.
enum Step {
    Lock(Lock),
    /// It was prewritten already.
    Repeated,
    /// It was only looked at.
    Checked,
}

/// Why one key stops the request.
enum Stop {
    /// An earlier attempt may have committed it.
    Perhaps(Refusal),
    Surely(Refusal),
}

/// Prewrites a request; `read_ts` is the latest that anybody has read at.
pub(super) fn prewrite(
    records: &Records,
    request: &kv::PrewriteRequest,
    read_ts: u64,
) -> Result<Prewritten, Vec<KeyError>> {
    let (mut locks, mut errors, mut is_repeated) = (Vec::new(), Vec::new(), false);
    for (at, mutation) in request.mutations.iter().enumerate() {
        let (key, record) = (&mutation.key, records.of(&mutation.key));
        match step(record, mutation, is_lock_due(request, at), request) {
            Ok(Step::Lock(lock)) => locks.push((key.clone(), lock)),
            Ok(Step::Repeated) => is_repeated = true,
            Ok(Step::Checked) => {}
            Err(Stop::Surely(error)) => return Err(vec![*error]),
            Err(Stop::Perhaps(error)) => match record.fate_of(request.start_version) {
                Fate::Committed(ts) => {
                    let one_phase_ts = if request.try_one_pc { ts } else { 0 };
                    return Ok(Prewritten { changes: Vec::new(), one_phase_ts });
                }
                _ if error.locked.is_some() => errors.push(*error),
                _ => return Err(vec![*error]),
            },
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if request.try_one_pc && !is_repeated {
        let least = read_ts.max(request.start_version).max(request.for_update_ts) + 1;
        let pushed = locks.iter().map(|(_, lock)| lock.min_commit_ts);
        let commit_ts = pushed.fold(least, u64::max);
        if request.max_commit_ts == 0 || commit_ts <= request.max_commit_ts {
            return Ok(committed(locks, commit_ts));
        }
    }
    let changes = locks.into_iter().map(|(key, lock)| (key, Change::Lock(lock))).collect();
    Ok(Prewritten { changes, one_phase_ts: 0 })
}

fn committed(locks: Vec<(Vec<u8>, Lock)>, commit_ts: u64) -> Prewritten {
    let mut changes = Changes::new();
    for (key, lock) in locks {
        let write = Write { start_ts: lock.start_ts, outcome: lock.outcome() };
        // It may have had a pessimistic lock.
        changes.push((key.clone(), Change::Unlock));
        changes.push((key, Change::Commit(commit_ts, write)));
    }
    Prewritten { changes, one_phase_ts: commit_ts }
}

fn is_lock_due(request: &kv::PrewriteRequest, at: usize) -> bool {
    let action = request.pessimistic_actions.get(at);
    action == Some(&(PessimisticAction::DoPessimisticCheck as i32))
}

fn step(
    record: &Record,
    mutation: &kv::Mutation,
    is_lock_due: bool,
    request: &kv::PrewriteRequest,
) -> Result<Step, Stop> {
    let (key, start_ts) = (&mutation.key, request.start_version);
    let is_pessimistic = request.for_update_ts > 0;
    let op = Op::try_from(mutation.op).unwrap_or(Op::Rollback);
    let is_fit = match op {
        Op::Put | Op::Del | Op::Lock | Op::Insert => true,
        Op::CheckNotExists => !is_pessimistic,
        Op::Rollback | Op::PessimisticLock => false,
    };
    if !is_fit {
        return Err(Stop::Surely(errors::aborted(format!("{start_ts}: invalid mutation {op:?}"))));
    }
    let mut lock = lock_of(mutation, op, request);
    match &record.lock {
        Some(own) if own.start_ts == start_ts && !own.is_pessimistic() => {
            return Ok(Step::Repeated);
        }
        Some(own) if own.start_ts == start_ts && is_pessimistic => {
            lock.ttl_ms = lock.ttl_ms.max(own.ttl_ms);
            lock.min_commit_ts = lock.min_commit_ts.max(own.min_commit_ts);
            return Ok(Step::Lock(lock));
        }
        Some(own) if own.start_ts == start_ts => {
            return Err(Stop::Surely(errors::aborted(format!("{start_ts}: lock type not match"))));
        }
        Some(_) if is_lock_due => return Err(lost(start_ts)),
        Some(other) => {
            let mut info = other.info(key);
            if is_pessimistic {
                // Who holds it ought to be gone: the keys that are written without a lock have one writer.
                info.lock_ttl = 0;
            }
            return Err(Stop::Perhaps(errors::locked(info)));
        }
        None if is_lock_due => check_unchanged(record, start_ts)?,
        None if is_pessimistic => {}
        None => check_optimistic(record, key, op, start_ts)?,
    }
    Ok(if op == Op::CheckNotExists { Step::Checked } else { Step::Lock(lock) })
}

fn lost(start_ts: u64) -> Stop {
    Stop::Perhaps(errors::aborted(format!("{start_ts}: pessimistic lock not found")))
}

/// A lock that was due is not there. It is as if it were as long as nothing has come since the transaction began, because
/// TiKV may lose pessimistic locks that it has promised.
fn check_unchanged(record: &Record, start_ts: u64) -> Result<(), Stop> {
    match record.newest() {
        Some(newest) if newest.commit_ts >= start_ts => Err(lost(start_ts)),
        _ => Ok(()),
    }
}

fn check_optimistic(record: &Record, key: &[u8], op: Op, start_ts: u64) -> Result<(), Stop> {
    match record.newest() {
        Some(newest) if newest.commit_ts > start_ts => {
            return Err(Stop::Perhaps(errors::conflict(key, start_ts, newest)));
        }
        _ => {}
    }
    if record.rollbacks.contains(&start_ts) {
        let own = Newest { commit_ts: start_ts, start_ts };
        return Err(Stop::Surely(errors::conflict(key, start_ts, own)));
    }
    let must_be_new = matches!(op, Op::Insert | Op::CheckNotExists);
    match must_be_new && record.value_at(u64::MAX).is_some() {
        true => Err(Stop::Surely(errors::exists(key))),
        false => Ok(()),
    }
}

fn lock_of(mutation: &kv::Mutation, op: Op, request: &kv::PrewriteRequest) -> Lock {
    Lock {
        start_ts: request.start_version,
        primary: request.primary_lock.clone(),
        op: if op == Op::Insert { Op::Put } else { op },
        value: mutation.value.clone(),
        ttl_ms: request.lock_ttl,
        for_update_ts: request.for_update_ts,
        min_commit_ts: request.min_commit_ts,
        txn_size: request.txn_size,
    }
}
