//! The ends of a transaction: commit, rollback, and what others make of the locks it has left.
//!
//! ```text
//!                 its lock is there         committed        rolled back      unknown
//!   commit        committed                 done             retryable        retryable
//!   roll back     rolled back               abort            done             rolled back, in case it comes late
//! ```
//! A commit that comes before the lock's `min_commit_ts` is told so: a reader has been promised that it comes later.

use froglet_cluster::wire::kv;

use super::errors::{self, Refusal};
use super::record::{Change, Changes, Fate, Records, Write};

/// Commits one key, as the transaction itself or as somebody else who has asked its primary.
fn commit_key(
    records: &Records,
    key: &[u8],
    (start_ts, commit_ts): (u64, u64),
    changes: &mut Changes,
) -> Result<(), Refusal> {
    let record = records.of(key);
    match &record.lock {
        Some(lock) if lock.start_ts == start_ts => {
            if commit_ts < lock.min_commit_ts {
                return Err(errors::commit_too_early(key, commit_ts, lock));
            }
            let write = Write { start_ts, outcome: lock.outcome() };
            changes.push((key.to_vec(), Change::Commit(commit_ts, write)));
            changes.push((key.to_vec(), Change::Unlock));
            Ok(())
        }
        _ => match record.fate_of(start_ts) {
            Fate::Committed(_) => Ok(()),
            Fate::RolledBack | Fate::Unknown => {
                Err(errors::retryable(format!("{start_ts}: transaction lock not found")))
            }
        },
    }
}

/// Rolls one key back, whatever its lock says of its time.
fn roll_back_key(
    records: &Records,
    key: &[u8],
    start_ts: u64,
    changes: &mut Changes,
) -> Result<(), Refusal> {
    let record = records.of(key);
    match (&record.lock, record.fate_of(start_ts)) {
        (Some(lock), _) if lock.start_ts == start_ts => {
            changes.push((key.to_vec(), Change::Unlock));
            changes.push((key.to_vec(), Change::Rollback(start_ts)));
            Ok(())
        }
        (_, Fate::Committed(ts)) => {
            Err(errors::aborted(format!("{start_ts}: already committed at {ts}")))
        }
        (_, Fate::RolledBack) => Ok(()),
        (_, Fate::Unknown) => {
            changes.push((key.to_vec(), Change::Rollback(start_ts)));
            Ok(())
        }
    }
}

/// What a commit writes: the values with it, in some stores (unistore).
pub(super) fn written_bytes(records: &Records, request: &kv::CommitRequest) -> usize {
    let value = |key: &Vec<u8>| records.of(key).lock.as_ref().map_or(0, |lock| lock.value.len());
    request.keys.iter().map(|key| key.len() + value(key)).sum()
}

pub(super) fn commit(records: &Records, request: &kv::CommitRequest) -> Result<Changes, Refusal> {
    let times = (request.start_version, request.commit_version);
    if times.1 <= times.0 {
        return Err(errors::aborted(format!(
            "a commit at {} of what began at {}",
            times.1, times.0
        )));
    }
    let mut changes = Changes::new();
    for key in &request.keys {
        commit_key(records, key, times, &mut changes)?;
    }
    Ok(changes)
}

pub(super) fn roll_back(
    records: &Records,
    request: &kv::BatchRollbackRequest,
) -> Result<Changes, Refusal> {
    let mut changes = Changes::new();
    for key in &request.keys {
        roll_back_key(records, key, request.start_version, &mut changes)?;
    }
    Ok(changes)
}

/// Ends the locks of a transaction as its primary has said: of some keys, or of all in the region.
pub(super) fn resolve(
    records: &Records,
    request: &kv::ResolveLockRequest,
    (region_start, region_end): (&[u8], &[u8]),
) -> Result<Changes, Refusal> {
    let start_ts = request.start_version;
    let all: Vec<Vec<u8>>;
    let keys = match request.keys.is_empty() {
        false => &request.keys,
        true => {
            let in_region = records.range(region_start, region_end).filter(|(_, record)| {
                record.lock.as_ref().is_some_and(|lock| lock.start_ts == start_ts)
            });
            all = in_region.map(|(key, _)| key.to_vec()).collect();
            &all
        }
    };
    let mut changes = Changes::new();
    for key in keys {
        match request.commit_version {
            0 => roll_back_key(records, key, start_ts, &mut changes)?,
            ts => commit_key(records, key, (start_ts, ts), &mut changes)?,
        }
    }
    Ok(changes)
}
