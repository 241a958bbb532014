//! Movers and transactions at several gateways, from a seed: what holds at any timestamp.
//!
//! ```text
//!   a, b   movers, in batches and one by one, in new views and old ones      requests and answers are lost,
//!          transactions: move, and update, delete, insert; a receipt each    regions split, leaders move,
//!          readers: everything as of a timestamp                             c dies in the midst of all that
//! ```
//! No request comes late: a prewrite without a lock that does lays down again what is committed (see `engine`).
//!
//! [V2] each row is in the source or in both targets, or was deleted; never in both or neither. The sum of all numbers is
//! what it was, and what receipts say. Who was told that he has committed finds his receipt, from then on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use froglet_engine::{EngineTxn, Snapshot, SqlState, Ts};
use froglet_testkit::ranges::{Faults, Ranges};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::place::{
    BOTH, FIRST, Lines, Place, SECOND, State, check_keys, in_the_way, locked, target,
};
use super::some;
use crate::fences::{LEASE_MS, Outcome, at, caught, gateway, gateways, insist};

const IDS: i64 = 48;
/// Ids of receipts begin there. They are in the second target.
const RECEIPTS: i64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Done { at: u64 },
    Failed,
    Nothing,
}

/// A transaction: whom it has deleted, if anybody, and what was heard of it.
#[derive(Debug)]
struct Tale {
    deleted: Option<i64>,
    told: Told,
}

type Tales = BTreeMap<i64, Tale>;

/// What a transaction does; by how much it changes the sum.
fn change(
    place: &Place,
    txn: &mut dyn EngineTxn,
    random: &mut StdRng,
    deleted: &mut Option<i64>,
) -> Outcome<i64> {
    let (view, id) = (txn.snapshot().clone(), random.random_range(0..IDS));
    let found = BOTH.map(|n| place.find(&view, n, id).map(|(_, line)| line));
    let [Some(first), Some(second)] = found else {
        assert_eq!(found, [None, None], "{id} at {}", view.ts);
        let (a, b) = (random.random_range(0..100), random.random_range(0..100));
        place.insert(txn, FIRST, &[id, 1_000 + id, a])?;
        place.insert(txn, SECOND, &[id, b])?;
        return Ok(a + b);
    };
    let by = random.random_range(1..100);
    match random.random_range(0..10) {
        0..4 => place.update(txn, FIRST, id, (2, first[2] + by)).map(|()| by),
        4..8 => place.update(txn, SECOND, id, (1, second[1] + by)).map(|()| by),
        // From one target to the other.
        8 => {
            place.update(txn, FIRST, id, (2, first[2] - by))?;
            place.update(txn, SECOND, id, (1, second[1] + by)).map(|()| 0)
        }
        _ => {
            *deleted = Some(id);
            place.delete(txn, id).map(|()| -first[2] - second[1])
        }
    }
}

fn transaction(place: &Place, receipt: i64, random: &mut StdRng) -> Tale {
    let mut deleted = None;
    let prewritten = caught(|| -> Outcome<Box<dyn EngineTxn>> {
        let mut txn = place.gateway.begin();
        if random.random_bool(0.3) {
            // As for a later statement, READ COMMITTED.
            thread::sleep(Duration::from_millis(random.random_range(0..50)));
            txn.refresh();
        }
        let before = txn.savepoint();
        let mut by = change(place, &mut *txn, random, &mut deleted)?;
        if deleted.is_none() && random.random_bool(0.2) {
            txn.rollback_to(before);
            by = change(place, &mut *txn, random, &mut deleted)?;
        }
        if random.random_bool(0.1) {
            thread::sleep(Duration::from_millis(random.random_range(0..200)));
        }
        place.insert(&mut *txn, SECOND, &[receipt, by])?;
        place.gateway.reserve(&mut *txn)?;
        Ok(txn)
    });
    let told = match prewritten.flatten().map(|txn| place.gateway.publish(txn)) {
        Ok(Ok(_)) => {
            caught(|| place.gateway.now().ts.0).map_or(Told::Nothing, |at| Told::Done { at })
        }
        Ok(Err(error)) if error.sqlstate() == SqlState::SERIALIZATION_FAILURE => Told::Failed,
        Ok(Err(_)) => Told::Nothing,
        Err(_) => Told::Failed,
    };
    Tale { deleted, told }
}

/// Transactions, one after the other.
fn session(place: &Place, first: i64, seed: u64, going: &AtomicBool) -> Tales {
    let (mut random, mut tales) = (StdRng::seed_from_u64(seed), Tales::new());
    for receipt in first.. {
        if !going.load(Ordering::SeqCst) {
            break;
        }
        let tale = transaction(place, receipt, &mut random);
        if tale.told == Told::Failed {
            thread::sleep(Duration::from_millis(5));
        }
        tales.insert(receipt, tale);
    }
    tales
}

/// Moves some of what is left as of a view; how many rows.
fn move_some(place: &Place, view: &Snapshot, random: &mut StdRng) -> Outcome<usize> {
    let rows = place.lines(view, &*place.source);
    let (size, mut count) = (random.random_range(1..6), 0);
    let from = random.random_range(0..=rows.len());
    for some in rows[from..].chunks(size).take(2) {
        if place.move_alone(view, some)? {
            count += some.len();
            continue;
        }
        for one in some {
            count += usize::from(place.move_alone(view, std::slice::from_ref(one))?);
        }
    }
    Ok(count)
}

/// Moves what is left; how many rows.
fn mover(place: &Place, seed: u64, going: &AtomicBool) -> usize {
    let (mut random, mut count, mut kept) = (StdRng::seed_from_u64(seed), 0, None);
    while going.load(Ordering::SeqCst) {
        let moved = caught(|| {
            let view = kept.take().unwrap_or_else(|| place.gateway.now());
            let moved = move_some(place, &view, &mut random);
            kept = random.random_bool(0.3).then_some(view);
            moved
        });
        count += moved.flatten().unwrap_or(0);
        thread::sleep(Duration::from_millis(random.random_range(5..120)));
    }
    count
}

/// Everything, again and again.
fn reader(place: &Place, going: &AtomicBool) -> Vec<(Ts, State)> {
    let mut seen = Vec::new();
    while going.load(Ordering::SeqCst) {
        let read = caught(|| {
            let view = place.gateway.now();
            (view.ts, place.state(&view))
        });
        seen.extend(read);
        thread::sleep(Duration::from_millis(10));
    }
    seen
}

/// What must hold at a timestamp.
fn check(ts: Ts, state: &State, tales: &Tales) {
    let (receipts, second): (Lines, Lines) =
        state.second.clone().into_iter().partition(|(id, _)| *id >= RECEIPTS);
    for id in 0..IDS {
        let there = (
            state.source.contains_key(&id),
            state.first.contains_key(&id),
            second.contains_key(&id),
        );
        let may_be_deleted = || {
            let mut tales = tales.values();
            tales.any(|tale| tale.deleted == Some(id) && tale.told != Told::Failed)
        };
        match there {
            (true, false, false) | (false, true, true) => {}
            (false, false, false) if may_be_deleted() => {}
            there => panic!("{id} at {ts} is in the source, and in targets: {there:?}"),
        }
    }
    let sum = |lines: &Lines, at: &[usize]| -> i64 {
        lines.values().flat_map(|line| at.iter().map(|at| line[*at])).sum()
    };
    let before: i64 = some(IDS).iter().map(|line| line[2] + line[3]).sum();
    let now = sum(&state.source, &[2, 3]) + sum(&state.first, &[2]) + sum(&second, &[1]);
    assert_eq!(now, before + sum(&receipts, &[1]), "at {ts}");
    for (receipt, tale) in tales {
        let is_there = receipts.contains_key(receipt);
        match tale.told {
            Told::Done { at } => assert!(is_there || at > ts.0, "{receipt} at {ts}: {tale:?}"),
            Told::Failed => assert!(!is_there, "{receipt} at {ts}: {tale:?}"),
            Told::Nothing => {}
        }
    }
}

fn disturb(ranges: &Ranges, random: &mut StdRng) {
    let locks = locked(ranges);
    if let Some((key, _)) = locks.get(random.random_range(0..locks.len().max(1))) {
        match random.random_bool(0.2) {
            true => ranges.split_at(key),
            false => ranges.move_leader(key, random.random_range(1..=2)),
        }
    }
}

/// What goes on at a gateway.
struct Course {
    sessions: Vec<JoinHandle<Tales>>,
    movers: Vec<JoinHandle<usize>>,
    readers: Vec<JoinHandle<Vec<(Ts, State)>>>,
}

/// What happens in a run, beside all that happens in each.
#[derive(Clone, Copy, Default)]
struct Events {
    /// A gateway dies.
    dies: bool,
    /// A target is closed.
    closes: bool,
}

/// A run, as far as it has come.
struct Run {
    ranges: Arc<Ranges>,
    random: StdRng,
    going: Arc<AtomicBool>,
    course: Course,
}

impl Run {
    /// Work at a gateway.
    fn begin(&mut self, place: &Place, sessions: u32) {
        let faults = Faults {
            seed: self.random.random(),
            lose_request: 0.01,
            lose_answer: 0.01,
            ..Faults::default()
        };
        place.gateway.way.set_faults(faults);
        for _ in 0..sessions {
            let (place, going, seed) =
                (place.clone(), Arc::clone(&self.going), self.random.random());
            let nth = i64::try_from(self.course.sessions.len()).expect("a few");
            let first = RECEIPTS * (1 + nth);
            self.course.sessions.push(thread::spawn(move || session(&place, first, seed, &going)));
        }
        let (moves, going, seed) = (place.clone(), Arc::clone(&self.going), self.random.random());
        self.course.movers.push(thread::spawn(move || mover(&moves, seed, &going)));
        let (reads, going) = (place.clone(), Arc::clone(&self.going));
        self.course.readers.push(thread::spawn(move || reader(&reads, &going)));
    }

    fn go_on(&mut self, for_ms: u64) {
        let until = Instant::now() + Duration::from_millis(for_ms);
        while Instant::now() < until {
            disturb(&self.ranges, &mut self.random);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// A gateway dies that holds, moves and commits.
    fn die(&mut self, place: Place) {
        let mut held = Vec::new();
        for ids in [[1, 2], [3, 4]] {
            let taken = caught(|| -> Outcome<Box<dyn EngineTxn>> {
                let mut txn = place.gateway.begin();
                ids.iter().try_for_each(|id| place.take_key(&mut *txn, *id))?;
                Ok(txn)
            });
            held.extend(taken.flatten());
        }
        if let Some(txn) = held.last_mut() {
            _ = caught(|| place.gateway.reserve(&mut **txn));
        }
        place.gateway.way.cut_off(true);
        drop((held, place));
        self.go_on(300);
        // Its lease is over, and its locks; and those of the others.
        self.ranges.advance(LEASE_MS + 30_000);
    }
}

/// From a seed, of tables with primary keys or without.
fn run(seed: u64, keyed: (bool, bool), events: Events) {
    let (ranges, a, b) = gateways();
    let (a, b) = (Place::new(&a, keyed), Place::new(&b, keyed));
    a.fill(&some(IDS));
    let (sessions, movers, readers) = Default::default();
    let mut run = Run {
        ranges: Arc::clone(&ranges),
        random: StdRng::seed_from_u64(seed),
        going: Arc::new(AtomicBool::new(true)),
        course: Course { sessions, movers, readers },
    };
    run.begin(&a, 1);
    run.begin(&b, 2);
    let dying = events.dies.then(|| Place::new(&gateway(&ranges, "c"), keyed));
    if let Some(c) = &dying {
        run.begin(c, 1);
    }
    run.go_on(600);
    if let Some(c) = dying {
        run.die(c);
    }
    let mut row = 0;
    let closed = events.closes.then(|| {
        insist("closing", || {
            row += 1;
            a.gateway.close(row, &[target(FIRST)])
        })
    });
    run.go_on(900);
    run.going.store(false, Ordering::SeqCst);
    let Run { course: Course { sessions, movers, readers }, .. } = run;
    let moved: usize = movers.into_iter().map(|mover| mover.join().expect("no panic")).sum();
    let mut tales = Tales::new();
    sessions.into_iter().for_each(|one| tales.extend(one.join().expect("no panic")));
    let seen: Vec<(Ts, State)> =
        readers.into_iter().flat_map(|reader| reader.join().expect("no panic")).collect();
    for place in [&a, &b] {
        place.gateway.way.set_faults(Faults::default());
    }
    let done = tales.values().filter(|tale| matches!(tale.told, Told::Done { .. })).count();
    assert!(moved > 0 && done > 0, "{moved} rows moved, {done} transactions done");
    let [a, b] = [a, b].map(Place::past_fences);
    for (ts, state) in &seen {
        check(*ts, state, &tales);
        assert_eq!(b.state(&at(*ts)), *state, "it is what it was at {ts}");
    }
    let view = insist("reading", || caught(|| a.gateway.now()));
    let last = a.state(&view);
    check(view.ts, &last, &tales);
    assert_eq!(b.state(&at(view.ts)), last);
    check_keys(&b.gateway, &last);
    if let Some(f) = closed {
        let then = a.state(&at(f));
        check(f, &then, &tales);
        assert_eq!((then.source, then.first), (last.source, last.first), "nothing came after {f}");
        return;
    }
    // What is left moves, in the end.
    insist("moving", || {
        caught(|| {
            let view = b.gateway.now();
            let rows = b.lines(&view, &*b.source);
            rows.chunks(7).try_for_each(|some| match b.move_alone(&view, some)? {
                true => Ok(()),
                false => Err(in_the_way()),
            })
        })
        .flatten()
    });
    let last = a.state(&a.gateway.now());
    assert!(last.source.is_empty());
    check_keys(&a.gateway, &last);
}

#[test]
fn each_row_is_in_the_source_or_in_all_targets() {
    for (seed, keyed) in [(1, (true, true)), (2, (true, false)), (3, (false, false))] {
        run(seed, keyed, Events::default());
    }
}

#[test]
fn a_gateway_that_dies_leaves_each_row_in_the_source_or_in_all_targets() {
    run(4, (true, true), Events { dies: true, ..Events::default() });
}

#[test]
fn a_gateway_that_dies_leaves_each_row_without_a_key_where_it_is() {
    run(5, (false, true), Events { dies: true, ..Events::default() });
}

#[test]
fn no_row_comes_into_a_target_that_was_closed_meanwhile() {
    for (seed, keyed) in [(6, (true, true)), (7, (true, false)), (8, (false, false))] {
        run(seed, keyed, Events { closes: true, ..Events::default() });
    }
}
