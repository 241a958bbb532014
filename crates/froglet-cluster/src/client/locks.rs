//! Locks of others that are in the way: what became of who left them.
//!
//! ```text
//!   a lock ─▶ its primary ─┬─ committed at c ──▶ so is the key, at c
//!                          ├─ rolled back ─────▶ the key is as before
//!                          └─ alive ─┬─ reader: its commit will be later than the reader's timestamp, or it is waited for
//!                                    └─ writer: waits
//! ```

use std::collections::HashMap;
use std::time::Duration;

use super::{Client, Pause, StoreError, of_key_error};
use crate::wire::kv::{self, Action, Op};

/// What has become of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Committed(u64),
    RolledBack,
    /// Its lock lasts for so many milliseconds more, perhaps; whether its commit will be later than the reader.
    Alive {
        is_later: bool,
    },
}

/// Milliseconds of a timestamp are above these bits.
pub const LOGICAL_BITS: u32 = 18;

/// Milliseconds of a timestamp.
pub fn physical_ms(ts: u64) -> u64 {
    ts >> LOGICAL_BITS
}

impl Client {
    /// What the primary of a transaction says. It is rolled back where it has not said that it lives for too long.
    pub(super) async fn fate_of(
        &self,
        lock: &kv::LockInfo,
        reader_ts: u64,
    ) -> Result<Fate, StoreError> {
        let now = self.timestamp().await?;
        let is_expired = physical_ms(lock.lock_version) + lock.lock_ttl < physical_ms(now);
        let is_pessimistic = lock.lock_type == Op::PessimisticLock as i32;
        let request = kv::CheckTxnStatusRequest {
            context: None,
            primary_key: lock.primary_lock.clone(),
            lock_ts: lock.lock_version,
            caller_start_ts: reader_ts,
            current_ts: now,
            // Its primary may be on the way as long as the lock is young.
            rollback_if_not_exist: is_expired,
            resolving_pessimistic_lock: is_pessimistic,
        };
        let (answer, _) = self.ask_region(&lock.primary_lock, request).await?;
        if let Some(error) = answer.error {
            return match (&error.txn_not_found, is_expired) {
                (Some(_), false) => Ok(Fate::Alive { is_later: false }),
                _ => Err(of_key_error(error)),
            };
        }
        if answer.commit_version > 0 {
            return Ok(Fate::Committed(answer.commit_version));
        }
        match answer.lock_ttl > 0 {
            true => {
                let is_later = answer.action == Action::MinCommitTsPushed as i32;
                Ok(Fate::Alive { is_later })
            }
            false => Ok(Fate::RolledBack),
        }
    }

    /// Gives a key back that a transaction of this fate has left locked.
    pub(super) async fn settle_lock(
        &self,
        lock: &kv::LockInfo,
        fate: Fate,
    ) -> Result<(), StoreError> {
        let commit_version = match fate {
            Fate::Committed(ts) => ts,
            Fate::RolledBack => 0,
            Fate::Alive { .. } => return Ok(()),
        };
        if lock.lock_type == Op::PessimisticLock as i32 {
            return self.give_up_lock(lock).await;
        }
        let request = kv::ResolveLockRequest {
            context: None,
            start_version: lock.lock_version,
            commit_version,
            keys: vec![lock.key.clone()],
        };
        let (answer, _) = self.ask_region(&lock.key, request).await?;
        answer.error.map_or(Ok(()), |error| Err(of_key_error(error)))
    }

    /// Gives a key back that is only locked, if it is.
    async fn give_up_lock(&self, lock: &kv::LockInfo) -> Result<(), StoreError> {
        let request = kv::PessimisticRollbackRequest {
            context: None,
            start_version: lock.lock_version,
            for_update_ts: u64::MAX,
            keys: vec![lock.key.clone()],
        };
        let (answer, _) = self.ask_region(&lock.key, request).await?;
        answer.errors.into_iter().next().map_or(Ok(()), |error| Err(of_key_error(error)))
    }

    /// A reader has met locks: those that are later than it are added to `later`, the others are gone when this
    /// returns, or it waits for a while.
    pub(super) async fn pass_locks(
        &self,
        locks: Vec<kv::LockInfo>,
        reader_ts: u64,
        later: &mut Vec<u64>,
        pause: &mut Pause,
    ) -> Result<(), StoreError> {
        let mut waits_for = None;
        for lock in locks {
            if later.contains(&lock.lock_version) {
                continue;
            }
            match self.fate_of(&lock, reader_ts).await? {
                Fate::Alive { is_later: true } => later.push(lock.lock_version),
                Fate::Alive { is_later: false } => waits_for = Some(lock),
                fate => self.settle_lock(&lock, fate).await?,
            }
        }
        match waits_for {
            None => Ok(()),
            Some(lock) => {
                let error = StoreError::Locked { holder: lock.lock_version, key: lock.key };
                pause.after_at_most(error, Duration::from_millis(20)).await
            }
        }
    }

    /// A writer has met a lock: whether it is gone by now.
    pub(super) async fn is_lock_gone(&self, lock: &kv::LockInfo) -> Result<bool, StoreError> {
        // 0: nobody is pushed.
        match self.fate_of(lock, 0).await? {
            Fate::Alive { .. } => Ok(false),
            fate => self.settle_lock(lock, fate).await.map(|()| true),
        }
    }

    /// Settles what the dead have left locked in a range since before a timestamp; an empty end is none. Up to what it
    /// returns nothing is locked there: up to that timestamp, or to the first of those who live, or who commit in another
    /// way than here.
    pub async fn settle_range(
        &self,
        start: &[u8],
        end: &[u8],
        before_ts: u64,
    ) -> Result<u64, StoreError> {
        const LIMIT: u32 = 256;
        let (mut from, mut settled) = (start.to_vec(), before_ts);
        let mut fates = HashMap::new();
        let mut pause = self.pause();
        loop {
            let request = kv::ScanLockRequest {
                context: None,
                max_version: before_ts,
                start_key: from.clone(),
                limit: LIMIT,
                end_key: end.to_vec(),
            };
            let (answer, known) = self.ask_region(&from, request).await?;
            if let Some(error) = answer.error {
                return Err(of_key_error(error));
            }
            let mut was_dead = None;
            for lock in &answer.locks {
                // A store may not stop at the end of what it was asked for.
                if !end.is_empty() && lock.key.as_slice() >= end {
                    continue;
                }
                let fate = match fates.get(&lock.lock_version) {
                    Some(fate) => *fate,
                    None if lock.use_async_commit => Fate::Alive { is_later: false },
                    // 0: nobody is pushed.
                    None => self.fate_of(lock, 0).await?,
                };
                fates.insert(lock.lock_version, fate);
                if matches!(fate, Fate::Alive { .. }) {
                    settled = settled.min(lock.lock_version - 1);
                    continue;
                }
                // Not every store says of a lock that it is no more than that, and would commit nothing to its key.
                self.give_up_lock(lock).await?;
                match self.settle_lock(lock, fate).await {
                    // It was no more than that. Whether it is gone is seen below.
                    Ok(()) | Err(StoreError::Lost(_)) => was_dead = Some(lock),
                    Err(error) => return Err(error),
                }
            }
            if let Some(lock) = was_dead {
                let error = StoreError::Locked { holder: lock.lock_version, key: lock.key.clone() };
                pause.after_at_most(error, Duration::from_millis(20)).await?;
                continue;
            }
            pause = self.pause();
            let (region_end, is_full) = (known.end_key(), answer.locks.len() >= LIMIT as usize);
            from = match answer.locks.last() {
                // A store that begins with the same key each time does not come further.
                Some(last) if is_full && last.key < from => return Ok(0),
                Some(last) if is_full => [&last.key[..], &[0]].concat(),
                _ if region_end.is_empty() => return Ok(settled),
                _ => region_end.to_vec(),
            };
            if !end.is_empty() && from.as_slice() >= end {
                return Ok(settled);
            }
        }
    }
}
