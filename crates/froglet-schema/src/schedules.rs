//! The trackers of lazy migrations under shuttle: few units, few tasks, many schedules.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test --release -p froglet-schema --lib schedules`
//! (`cargo xtask sim` does). Each test is one promise: a unit is made once, whoever claims it and whoever
//! gives up; who waits comes to an end; what a crash or a checkpoint keeps is what was made.

use std::sync::Arc;

use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{Installs, RowId};
use shuttle::sync::Mutex;
use shuttle::thread;

use crate::key_tracker::{KeyTracker, UnitKey};
use crate::pair_tracker::{Pair, PairTracker};
use crate::tracker::{Claims, Granule, Tracker};

fn explore(scenario: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(scenario, 5_000);
    shuttle::check_pct(scenario, 5_000, 3);
}

/// What claims units and waits for those of others.
trait Tracks: Send + Sync + 'static {
    fn new() -> Self;
    /// Claims some; `made` is told of those that are its own with what recovery is to know of them, and says
    /// whether they are made. Returns those that others are at.
    fn try_all(&self, wanted: &[usize], made: &dyn Fn(&[usize], Vec<u8>) -> bool) -> Vec<usize>;
    fn wait(&self, unit: usize);
    fn is_migrated(&self, unit: usize) -> bool;
    fn mark(&self, note: &[u8]);
    fn note(&self) -> Vec<u8>;
}

/// Two blocks of two granules each.
impl Tracks for Tracker {
    fn new() -> Tracker {
        Tracker::new(2, ROWS_PER_BLOCK as u32 / 2)
    }

    fn try_all(&self, wanted: &[usize], made: &dyn Fn(&[usize], Vec<u8>) -> bool) -> Vec<usize> {
        let wanted: Vec<Granule> = wanted.iter().map(|unit| *unit as Granule).collect();
        let (mut claims, others) = self.claim_all(&wanted);
        let mine: Vec<usize> = claims.granules().iter().map(|granule| *granule as usize).collect();
        if !mine.is_empty() && made(&mine, claims.note()) {
            claims.done();
        }
        drop(claims);
        others.into_iter().map(|granule| granule as usize).collect()
    }

    fn wait(&self, unit: usize) {
        self.wait(unit as Granule);
    }

    fn is_migrated(&self, unit: usize) -> bool {
        let row = self.rows_of(unit as Granule).next().expect("a granule has rows");
        self.is_migrated(row)
    }

    fn mark(&self, note: &[u8]) {
        self.mark(note).expect("a note of its own kind");
    }

    fn note(&self) -> Vec<u8> {
        Installs::note(self)
    }
}

fn key(unit: usize) -> UnitKey {
    Box::new([unit as u8])
}

impl Tracks for KeyTracker {
    fn new() -> KeyTracker {
        KeyTracker::new()
    }

    fn try_all(&self, wanted: &[usize], made: &dyn Fn(&[usize], Vec<u8>) -> bool) -> Vec<usize> {
        let (mut claims, others) = self.claim_all(wanted.iter().map(|unit| key(*unit)).collect());
        let mine: Vec<usize> = claims.keys().iter().map(|key| key[0] as usize).collect();
        if !mine.is_empty() && made(&mine, claims.note()) {
            claims.done();
        }
        drop(claims);
        others.iter().map(|key| key[0] as usize).collect()
    }

    fn wait(&self, unit: usize) {
        self.wait(&key(unit));
    }

    fn is_migrated(&self, unit: usize) -> bool {
        self.is_migrated(&key(unit))
    }

    fn mark(&self, note: &[u8]) {
        self.mark(note).expect("a note of its own kind");
    }

    fn note(&self) -> Vec<u8> {
        Installs::note(self)
    }
}

/// Two rows of two pairs each.
fn pair(unit: usize) -> Pair {
    (RowId(unit as u64 / 2), RowId(unit as u64 % 2 * 100))
}

impl Tracks for PairTracker {
    fn new() -> PairTracker {
        PairTracker::new(1)
    }

    fn try_all(&self, wanted: &[usize], made: &dyn Fn(&[usize], Vec<u8>) -> bool) -> Vec<usize> {
        let unit = |pair: &Pair| (pair.0.0 * 2 + pair.1.0 / 100) as usize;
        let wanted: Vec<Pair> = wanted.iter().map(|unit| pair(*unit)).collect();
        let (mut claims, others) = self.claim_all(&wanted);
        let mine: Vec<usize> = claims.pairs().iter().map(unit).collect();
        if !mine.is_empty() && made(&mine, claims.note()) {
            claims.done();
        }
        drop(claims);
        others.iter().map(unit).collect()
    }

    fn wait(&self, unit: usize) {
        self.wait(pair(unit));
    }

    fn is_migrated(&self, unit: usize) -> bool {
        self.is_migrated(pair(unit))
    }

    fn mark(&self, note: &[u8]) {
        self.mark(note).expect("a note of its own kind");
    }

    fn note(&self) -> Vec<u8> {
        Installs::note(self)
    }
}

const UNITS: usize = 4;

/// Units as they were made, and the notes that went into the log with them.
#[derive(Default)]
struct Log {
    made: [u32; UNITS],
    notes: Vec<Vec<u8>>,
}

/// It fails, and does not come back.
const FOR_GOOD: u32 = u32::MAX;

/// Migrates units as `LazyRows::install` does. So many attempts fail before one does not.
fn migrate<T: Tracks>(tracker: &T, log: &Mutex<Log>, wanted: &[usize], mut failing: u32) {
    let mut wanted = wanted.to_vec();
    while !wanted.is_empty() {
        let fails = failing > 0;
        let others = tracker.try_all(&wanted, &|units, note| {
            thread::yield_now();
            if fails {
                return false;
            }
            // Rows and note are one record of the log.
            let mut log = log.lock().unwrap();
            units.iter().for_each(|unit| log.made[*unit] += 1);
            log.notes.push(note);
            true
        });
        match failing {
            0 => {}
            FOR_GOOD => return,
            _ => {
                failing -= 1;
                continue;
            }
        }
        others.iter().for_each(|unit| tracker.wait(*unit));
        wanted = others;
    }
}

fn together<T: Tracks>(tasks: &[(&'static [usize], u32)]) {
    let tracker = Arc::new(T::new());
    let log = Arc::new(Mutex::new(Log::default()));
    let spawn = |(units, failing): (&'static [usize], u32)| {
        let (tracker, log) = (tracker.clone(), log.clone());
        thread::spawn(move || {
            migrate(&*tracker, &log, units, failing);
            let has_all = units.iter().all(|unit| tracker.is_migrated(*unit));
            assert!(has_all || failing == FOR_GOOD, "it has what it asked for");
        })
    };
    let tasks: Vec<_> = tasks.iter().copied().map(spawn).collect();
    tasks.into_iter().for_each(|task| task.join().unwrap());
    let log = log.lock().unwrap();
    assert!(log.made.iter().all(|made| *made <= 1), "{:?}", log.made);
}

/// Two claimers of the same units, one after the other's order.
fn two_claimers<T: Tracks>() {
    together::<T>(&[(&[0, 1, 2], 0), (&[1, 2, 3], 0)]);
}

/// Who is waited for gives up; who has waited takes over.
fn an_abort_while_waited_on<T: Tracks>() {
    together::<T>(&[(&[0, 1], 2), (&[0, 1], 0), (&[1], 1)]);
    together::<T>(&[(&[0, 1], FOR_GOOD), (&[0, 1], 0)]);
}

/// The background goes through everything, others want what they touch.
fn background_and_foreground<T: Tracks>() {
    let tracker = Arc::new(T::new());
    let log = Arc::new(Mutex::new(Log::default()));
    let others: Vec<_> = [[0, 3], [2, 1]]
        .into_iter()
        .map(|units| {
            let (tracker, log) = (tracker.clone(), log.clone());
            thread::spawn(move || {
                units.iter().for_each(|unit| migrate(&*tracker, &log, &[*unit], 0))
            })
        })
        .collect();
    (0..UNITS).for_each(|unit| migrate(&*tracker, &log, &[unit], 0));
    others.into_iter().for_each(|task| task.join().unwrap());
    assert_eq!(log.lock().unwrap().made, [1; UNITS]);
}

/// A crash between a log record and its mark: what the log has is not made again, the rest is.
fn a_crash_between_migrate_and_mark<T: Tracks>() {
    let tracker = Arc::new(T::new());
    let log = Arc::new(Mutex::new(Log::default()));
    let tasks: Vec<_> = [&[0_usize, 1][..], &[1, 2]]
        .into_iter()
        .map(|units| {
            let (tracker, log) = (tracker.clone(), log.clone());
            thread::spawn(move || migrate(&*tracker, &log, units, 0))
        })
        .collect();
    thread::yield_now();
    let Log { made, notes } = {
        let log = log.lock().unwrap();
        Log { made: log.made, notes: log.notes.clone() }
    };
    let (after, logged) = (Arc::new(T::new()), Mutex::new(Log { made, notes: Vec::new() }));
    notes.iter().for_each(|note| after.mark(note));
    assert!((0..UNITS).all(|unit| after.is_migrated(unit) == (made[unit] == 1)));
    migrate(&*after, &logged, &[0, 1, 2, 3], 0);
    assert_eq!(logged.lock().unwrap().made, [1; UNITS]);
    tasks.into_iter().for_each(|task| task.join().unwrap());
}

/// One note in place of all: it has what was done before it was asked for, and nothing that was not made.
fn a_checkpoint_meanwhile<T: Tracks>() {
    let tracker = Arc::new(T::new());
    let log = Arc::new(Mutex::new(Log::default()));
    migrate(&*tracker, &log, &[0], 0);
    let task = {
        let (tracker, log) = (tracker.clone(), log.clone());
        thread::spawn(move || migrate(&*tracker, &log, &[1, 2], 0))
    };
    let note = tracker.note();
    let made = log.lock().unwrap().made;
    let after = T::new();
    after.mark(&note);
    assert!(after.is_migrated(0));
    assert!((0..UNITS).all(|unit| !after.is_migrated(unit) || made[unit] == 1));
    task.join().unwrap();
}

/// Rows let their pairs go while others want these, and while a checkpoint asks.
fn rows_that_stand_for_their_pairs() {
    let tracker = Arc::new(<PairTracker as Tracks>::new());
    let log = Arc::new(Mutex::new(Log::default()));
    let tasks: Vec<_> = [&[0_usize, 1][..], &[1, 0], &[3, 1]]
        .into_iter()
        .map(|units| {
            let (tracker, log) = (tracker.clone(), log.clone());
            thread::spawn(move || {
                migrate(&*tracker, &log, units, 0);
                if units.contains(&0) {
                    tracker.complete(RowId(0));
                }
                assert!(units.iter().all(|unit| tracker.is_migrated(pair(*unit))));
            })
        })
        .collect();
    let note = Installs::note(&*tracker);
    let made = log.lock().unwrap().made;
    let after = PairTracker::new(1);
    after.mark(&note).expect("a note of its own kind");
    assert!((0..UNITS).all(|unit| !after.is_migrated(pair(unit)) || made[unit] == 1));
    tasks.into_iter().for_each(|task| task.join().unwrap());
    assert_eq!(log.lock().unwrap().made, [1, 1, 0, 1]);
    after.mark(&Installs::note(&*tracker)).expect("a note of its own kind");
    assert!((0..UNITS).all(|unit| after.is_migrated(pair(unit)) == (unit != 2)));
}

/// Two make sure of all granules, and one fails at first: each comes back to nothing left, in any block or at all.
fn who_comes_second_waits() {
    let tracker = Arc::new(<Tracker as Tracks>::new());
    let tasks = [false, true].map(|fails| {
        let tracker = tracker.clone();
        thread::spawn(move || {
            let wanted: Vec<Granule> = (0..UNITS as Granule).collect();
            let mut fails = fails;
            let mut once = |claims: &mut Claims<'_>| {
                thread::yield_now();
                if std::mem::take(&mut fails) {
                    return Err(());
                }
                claims.done();
                Ok(())
            };
            while tracker.migrate_all(wanted.clone(), &mut once).is_err() {}
            assert!(tracker.is_complete() && (0..2).all(|block| tracker.is_block_migrated(block)));
        })
    });
    tasks.into_iter().for_each(|task| task.join().unwrap());
}

macro_rules! of_each {
    ($($promise:ident)*) => {
        mod rows {
            $(#[test] fn $promise() { super::explore(super::$promise::<super::Tracker>); })*

            #[test]
            fn who_comes_second_waits() {
                super::explore(super::who_comes_second_waits);
            }
        }
        mod keys {
            $(#[test] fn $promise() { super::explore(super::$promise::<super::KeyTracker>); })*
        }
        mod pairs {
            $(#[test] fn $promise() { super::explore(super::$promise::<super::PairTracker>); })*

            #[test]
            fn rows_that_stand_for_their_pairs() {
                super::explore(super::rows_that_stand_for_their_pairs);
            }
        }
    };
}

of_each! {
    two_claimers
    an_abort_while_waited_on
    background_and_foreground
    a_crash_between_migrate_and_mark
    a_checkpoint_meanwhile
}
