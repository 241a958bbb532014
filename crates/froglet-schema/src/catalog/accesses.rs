//! How much tables are read and written: what pg_stat_user_tables says, and what placement goes by.
//!
//! ```text
//!   statements ─▶ a shard of the thread's ─ sum ─▶ totals since the start
//!                                              └── every few seconds ─▶ aged: half of it is forgotten in an hour
//! ```
//! One table's counters are one thing through all versions of its definition, and wherever its rows are. They begin with the
//! table, or the start; nothing of them is stored. Rows are counted where a statement has read or written them, also if it
//! is undone, as PostgreSQL counts them; what schema changes and the background do with rows is not counted.
//!
//! Counting costs a statement one or two additions, for each block or chunk of rows and not for each row, to a line of
//! memory that hardly any other thread writes: some dozen nanoseconds beside the microseconds of the shortest statement.

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use froglet_engine::IdMap;
use parking_lot::Mutex;

use super::{CatalogVersion, TableVersion};
use crate::def::ObjectId;

const SHARDS: usize = 8;
const KINDS: usize = 7;
/// Half of what was counted is forgotten after so long.
pub const HALF_LIFE: Duration = Duration::from_secs(3600);
const AGED_EVERY: Duration = Duration::from_secs(5);
/// So many rows of a scan are as much work as one that is looked for.
pub const SCANNED_ROWS: u64 = 100;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Scans of all rows.
    Scans,
    /// Rows that scans have read.
    ScannedRows,
    /// Looks at a range of an index.
    Lookups,
    /// Rows that were read by an index.
    FoundRows,
    /// Rows inserted.
    Inserted,
    /// Rows updated.
    Updated,
    /// Rows deleted.
    Deleted,
}

#[repr(align(64))]
#[derive(Debug, Default)]
struct Shard([AtomicU64; KINDS]);

/// A table's counters. See the module.
#[derive(Debug)]
pub struct Accesses {
    shards: [Shard; SHARDS],
    since: Instant,
    aged: Mutex<Aged>,
}

/// What a table's counters have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals([u64; KINDS]);

impl Totals {
    /// How much of this.
    pub fn of(&self, what: Counted) -> u64 {
        self.0[what as usize]
    }

    /// Rows read.
    pub fn reads(&self) -> u64 {
        self.of(Counted::ScannedRows) + self.of(Counted::FoundRows)
    }

    /// Rows written.
    pub fn writes(&self) -> u64 {
        self.of(Counted::Inserted) + self.of(Counted::Updated) + self.of(Counted::Deleted)
    }

    /// Both, by how much work they are: a look that finds nothing is one, too.
    fn work(&self) -> u64 {
        let found = self.of(Counted::FoundRows).max(self.of(Counted::Lookups));
        let scanned = self.of(Counted::Scans) + self.of(Counted::ScannedRows) / SCANNED_ROWS;
        found + scanned + self.writes()
    }
}

/// The same, of which the past counts less the longer it is ago.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recent {
    /// Rows read.
    pub reads: f64,
    /// Rows written.
    pub writes: f64,
    /// Both, by how much work they are.
    pub work: f64,
    /// When anything was counted last, to some seconds; `None`: not since the start.
    pub last: Option<SystemTime>,
    /// For how long it has been counted.
    pub observed: Duration,
}

#[derive(Debug)]
struct Aged {
    at: Instant,
    counted: Totals,
    recent: Recent,
}

impl Default for Accesses {
    fn default() -> Accesses {
        let since = Instant::now();
        let aged = Aged { at: since, counted: Totals::default(), recent: Recent::default() };
        Accesses { shards: Default::default(), since, aged: Mutex::new(aged) }
    }
}

impl Accesses {
    /// Counts. One thread mostly has its counters for itself.
    pub fn add(&self, what: Counted, n: usize) {
        self.shard().0[what as usize].fetch_add(n as u64, Ordering::Relaxed);
    }

    /// A look at an index that has found some rows.
    pub fn add_lookup(&self, rows: usize) {
        let shard = self.shard();
        shard.0[Counted::Lookups as usize].fetch_add(1, Ordering::Relaxed);
        shard.0[Counted::FoundRows as usize].fetch_add(rows as u64, Ordering::Relaxed);
    }

    fn shard(&self) -> &Shard {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
        }
        &self.shards[SHARD.with(|shard| *shard)]
    }

    /// Since the table was made, or the start.
    pub fn totals(&self) -> Totals {
        let sum = |kind: usize| -> u64 {
            self.shards.iter().map(|shard| shard.0[kind].load(Ordering::Relaxed)).sum()
        };
        Totals(std::array::from_fn(sum))
    }

    /// Lately, up to now.
    pub fn recent(&self) -> Recent {
        self.age(Instant::now(), SystemTime::now())
    }

    /// What was counted since the last time is of now.
    fn age(&self, now: Instant, time: SystemTime) -> Recent {
        let mut aged = self.aged.lock();
        let totals = self.totals();
        let kept = 0.5_f64
            .powf(now.saturating_duration_since(aged.at).as_secs_f64() / HALF_LIFE.as_secs_f64());
        let (before, recent) = (aged.counted, aged.recent);
        let more = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let next = Recent {
            reads: recent.reads * kept + more(totals.reads(), before.reads()),
            writes: recent.writes * kept + more(totals.writes(), before.writes()),
            work: recent.work * kept + more(totals.work(), before.work()),
            last: if totals == before { recent.last } else { Some(time) },
            observed: now.saturating_duration_since(self.since),
        };
        *aged = Aged { at: aged.at.max(now), counted: totals, recent: next };
        next
    }
}

/// The counters of all tables, which live as long as some version of their table does.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    tables: Mutex<IdMap<ObjectId, Weak<Accesses>>>,
    aged: Mutex<Option<Instant>>,
}

impl Observed {
    fn of(&self, table: ObjectId) -> Arc<Accesses> {
        match self.tables.lock().entry(table) {
            Entry::Occupied(mut known) => known.get().upgrade().unwrap_or_else(|| {
                let new = Arc::default();
                known.insert(Arc::downgrade(&new));
                new
            }),
            Entry::Vacant(free) => {
                let new = Arc::default();
                free.insert(Arc::downgrade(&new));
                new
            }
        }
    }

    /// Ages everything, and forgets tables that are gone.
    fn age(&self) {
        let mut known = Vec::new();
        self.tables.lock().retain(|_, accesses| {
            known.extend(accesses.upgrade());
            accesses.strong_count() > 0
        });
        for accesses in known {
            accesses.recent();
        }
    }
}

impl TableVersion {
    /// Its counters.
    pub fn accesses(&self) -> &Accesses {
        self.accesses.get_or_init(Arc::default)
    }
}

impl CatalogVersion {
    /// Every version of a table has the counters of the table.
    pub(super) fn observe(&self) {
        for (id, table) in &self.tables {
            table.accesses.get_or_init(|| self.observed.of(*id));
        }
    }

    /// To be called again and again.
    pub(super) fn age_accesses(&self) {
        let mut aged = self.observed.aged.lock();
        if aged.is_none_or(|at| at.elapsed() >= AGED_EVERY) {
            *aged = Some(Instant::now());
            self.observed.age();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_counts_less_and_less() {
        let (accesses, begun) = (Accesses::default(), Instant::now());
        let time = SystemTime::now();
        assert_eq!(accesses.age(begun, time).last, None);
        accesses.add(Counted::ScannedRows, 1_000);
        accesses.add_lookup(3);
        accesses.add_lookup(0);
        accesses.add(Counted::Updated, 7);
        let now = accesses.age(begun, time);
        assert_eq!((now.reads, now.writes, now.work), (1_003.0, 7.0, 20.0));
        assert_eq!(now.last, Some(time));
        let later = accesses.age(begun + 2 * HALF_LIFE, time + 2 * HALF_LIFE);
        assert!((later.reads - 250.75).abs() < 0.01 && (later.writes - 1.75).abs() < 0.01);
        assert_eq!(later.last, Some(time), "nothing was read since");
        assert_eq!(accesses.totals().of(Counted::Lookups), 2);
        // In many steps as in one.
        let (once, often) = (Accesses::default(), Accesses::default());
        for accesses in [&once, &often] {
            accesses.add(Counted::Inserted, 1_000_000);
            accesses.age(begun, time);
        }
        for n in 1..=100 {
            often.age(begun + n * Duration::from_secs(10), time);
        }
        let end = begun + Duration::from_secs(1_000);
        assert!((once.age(end, time).writes - often.age(end, time).writes).abs() < 0.1);
    }

    #[test]
    fn counters_are_the_tables_as_long_as_somebody_has_it() {
        let observed = Observed::default();
        let one = observed.of(7);
        one.add(Counted::Deleted, 5);
        assert_eq!(observed.of(7).totals().writes(), 5);
        observed.age();
        drop(one);
        observed.age();
        assert!(observed.tables.lock().is_empty());
        assert_eq!(observed.of(7).totals(), Totals::default());
    }

    #[test]
    fn threads_lose_nothing() {
        let accesses = Accesses::default();
        std::thread::scope(|scope| {
            for _ in 0..4 * SHARDS {
                scope.spawn(|| (0..1_000).for_each(|_| accesses.add_lookup(2)));
            }
        });
        let totals = accesses.totals();
        let all = 4_000 * SHARDS as u64;
        assert_eq!((totals.of(Counted::Lookups), totals.of(Counted::FoundRows)), (all, 2 * all));
    }
}
