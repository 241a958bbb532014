//! What is known of one key: who has it locked, and what was committed.
//!
//! ```text
//!   key ─▶ lock        of one transaction: only that it will write (pessimistic), or what it writes (prewritten)
//!      ├─▶ writes      by commit timestamp: put, deleted, or only locked, and which transaction did it
//!      └─▶ rollbacks   start timestamps: none of these will ever write here
//! ```
//! A request works out [`Changes`] from records that stay as they are, and they are made together at its end: a request
//! that fails halfway has done nothing.
//!
//! **[K1]** Only who holds the lock writes, but for a commit in one phase, whose lock nobody would ever see.
//! **[K2]** A key is committed at most once at one timestamp.
//!
//! TiKV keeps a rollback as a write at the start timestamp, and marks a commit that is there already; here they are kept
//! apart, and [`Record::newest`] looks at both, because a rollback is a conflict like a commit. Left out: TiKV drops an
//! older rollback of an optimistic transaction when it adds a newer one. Whoever comes late meets the newer one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use froglet_cluster::wire::kv::{self, Op};

/// A lock, and what it says.
#[derive(Clone, Debug)]
pub(super) struct Lock {
    pub start_ts: u64,
    pub primary: Vec<u8>,
    /// [`Op::Put`], [`Op::Del`], [`Op::Lock`] or [`Op::PessimisticLock`].
    pub op: Op,
    pub value: Vec<u8>,
    /// From the start timestamp on.
    pub ttl_ms: u64,
    /// 0 of an optimistic transaction.
    pub for_update_ts: u64,
    /// 0: nobody may put its commit off.
    pub min_commit_ts: u64,
    pub txn_size: u64,
}

impl Lock {
    pub fn is_pessimistic(&self) -> bool {
        self.op == Op::PessimisticLock
    }

    pub fn info(&self, key: &[u8]) -> kv::LockInfo {
        kv::LockInfo {
            primary_lock: self.primary.clone(),
            lock_version: self.start_ts,
            key: key.to_vec(),
            lock_ttl: self.ttl_ms,
            txn_size: self.txn_size,
            lock_type: self.op as i32,
            lock_for_update_ts: self.for_update_ts,
            use_async_commit: false,
            min_commit_ts: self.min_commit_ts,
        }
    }

    /// Whether a reader has to know what becomes of it.
    fn hinders(&self, key: &[u8], version: u64, resolved: &[u64]) -> bool {
        let is_write = matches!(self.op, Op::Put | Op::Del);
        // Who reads the newest there is needs no commit that has not begun when he asks the primary.
        let is_newest_of_primary = version == u64::MAX && self.primary == key;
        is_write
            && self.start_ts <= version
            && self.min_commit_ts <= version
            && !resolved.contains(&self.start_ts)
            && !is_newest_of_primary
    }

    /// What it leaves when it is committed.
    pub fn outcome(&self) -> Outcome {
        match self.op {
            Op::Put => Outcome::Put(self.value.clone()),
            Op::Del => Outcome::Del,
            Op::Lock => Outcome::Lock,
            // A lock that is no more than that is never to be committed: the worst of the kind (unistore) delete the key.
            _ => Outcome::Del,
        }
    }
}

/// What a commit has done to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Put(Vec<u8>),
    Del,
    Lock,
}

/// A commit of a key.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub start_ts: u64,
    pub outcome: Outcome,
}

/// The newest that has happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    /// Of a rollback, the start timestamp.
    pub commit_ts: u64,
    pub start_ts: u64,
}

/// What a record knows of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Unknown,
    RolledBack,
    Committed(u64),
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub lock: Option<Lock>,
    pub writes: BTreeMap<u64, Write>,
    pub rollbacks: BTreeSet<u64>,
}

impl Record {
    /// What a reader sees, or the lock in his way.
    pub fn read(&self, key: &[u8], version: u64, resolved: &[u64]) -> Result<Option<&[u8]>, &Lock> {
        match &self.lock {
            Some(lock) if lock.hinders(key, version, resolved) => Err(lock),
            _ => Ok(self.value_at(version)),
        }
    }

    /// What was committed, whoever has it locked.
    pub fn value_at(&self, version: u64) -> Option<&[u8]> {
        let seen = self.writes.range(..=version).rev();
        let mut states = seen.filter_map(|(_, write)| match &write.outcome {
            Outcome::Put(value) => Some(Some(value.as_slice())),
            Outcome::Del => Some(None),
            Outcome::Lock => None,
        });
        states.next().flatten()
    }

    pub fn newest(&self) -> Option<Newest> {
        let write = self.writes.last_key_value();
        let write = write.map(|(&commit_ts, write)| Newest { commit_ts, start_ts: write.start_ts });
        let rollback = self.rollbacks.last().map(|&ts| Newest { commit_ts: ts, start_ts: ts });
        match (write, rollback) {
            (Some(write), Some(rollback)) if write.commit_ts < rollback.commit_ts => Some(rollback),
            (write, rollback) => write.or(rollback),
        }
    }

    pub fn fate_of(&self, start_ts: u64) -> Fate {
        if self.rollbacks.contains(&start_ts) {
            return Fate::RolledBack;
        }
        let mut writes = self.writes.range(start_ts..);
        let own = writes.find(|(_, write)| write.start_ts == start_ts);
        own.map_or(Fate::Unknown, |(&commit_ts, _)| Fate::Committed(commit_ts))
    }

    /// Takes away what nobody needs who reads at a timestamp or later.
    fn collect_before(&mut self, ts: u64) {
        let mut older = self.writes.range(..=ts).rev();
        let base = older.find(|(_, write)| write.outcome != Outcome::Lock);
        let base = base.map(|(&at, write)| (at, write.outcome == Outcome::Del));
        self.writes.retain(|&at, _| at > ts || base == Some((at, false)));
        self.rollbacks.retain(|&at| at > ts);
    }

    fn is_empty(&self) -> bool {
        self.lock.is_none() && self.writes.is_empty() && self.rollbacks.is_empty()
    }
}

/// One of the things that a request does to a key.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// It is locked so from now on.
    Lock(Lock),
    /// Its lock is gone.
    Unlock,
    /// It is committed.
    Commit(u64, Write),
    /// This transaction never writes it.
    Rollback(u64),
}

/// All that a request does.
pub(super) type Changes = Vec<(Vec<u8>, Change)>;

/// The records of all keys.
#[derive(Debug, Default)]
pub(super) struct Records(BTreeMap<Vec<u8>, Record>);

static NOTHING: Record = Record { lock: None, writes: BTreeMap::new(), rollbacks: BTreeSet::new() };

impl Records {
    pub fn of(&self, key: &[u8]) -> &Record {
        self.0.get(key).unwrap_or(&NOTHING)
    }

    /// Those from one key to another, in order; an empty end is none.
    pub fn range<'a>(
        &'a self,
        start: &[u8],
        end: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a Record)> + use<'a> {
        let from = self.0.range::<[u8], _>((Bound::Included(start), Bound::Unbounded));
        from.map(|(key, record)| (key.as_slice(), record))
            .take_while(move |(key, _)| end.is_empty() || *key < end)
    }

    pub fn make(&mut self, changes: Changes) {
        for (key, change) in changes {
            let record = self.0.entry(key).or_default();
            match change {
                Change::Lock(lock) => {
                    let before = record.lock.replace(lock);
                    let holder = record.lock.as_ref().map(|lock| lock.start_ts);
                    assert!(before.is_none_or(|b| Some(b.start_ts) == holder), "[K1] is broken");
                }
                Change::Unlock => record.lock = None,
                Change::Commit(commit_ts, write) => {
                    let before = record.writes.insert(commit_ts, write);
                    assert!(before.is_none(), "[K2] is broken at {commit_ts}");
                }
                Change::Rollback(start_ts) => {
                    record.rollbacks.insert(start_ts);
                }
            }
        }
    }

    pub fn collect_before(&mut self, ts: u64) {
        self.0.values_mut().for_each(|record| record.collect_before(ts));
        self.0.retain(|_, record| !record.is_empty());
    }
}
