//! An index is built over rows that are there, while every gateway writes: by name here, and from a seed in `by_seed`.
//!
//! ```text
//!   A   change ─▶ build ─▶ delete-only ─▶ write-only ─▶ filled ─▶ enter ─▶ commit, or given up
//!   B   │ writes rows under the layout without it, before, in each phase, and after               │ writes under the one
//!   C   │ holds a phase: it has a commit under way that takes long                                │ that has it
//! ```
//! What must hold is checked in the store ([`At::check`](place::At::check)): as of any timestamp from the commit on, the
//! entries of the index are those of the rows, neither more nor less. Of a build that came to nothing there are none.

pub mod by_seed;
pub mod place;

use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use froglet_engine::online::NoNull;
use froglet_engine::{
    BuildOf, Built, EngineError, EngineTxn, KeyRange, NullKeys, OnlineCheck, Row, SqlState, Ts,
    Value, Within,
};
use froglet_testkit::ranges::{Fault, Ranges};

use crate::fences::{
    Gateway, LEASE_MS, Outcome, at, gateway, gateways, insist, silence, space, wait_until,
};
use place::{
    At, CODE, ID, LATER, Line, MISSING, NAME, Shape, TAG, index, keyed, keyless, list, sorted,
    wait_until_gone,
};

/// The index of codes, and that of tags.
const CODES: u32 = 10;
const TAGS: u32 = 11;
/// It is unique, or not.
const BOTH: [bool; 2] = [true, false];

fn line(id: i64) -> Line {
    vec![Some(id), Some(1_000 + id), Some(id % 3)]
}

fn lines(ids: std::ops::Range<i64>) -> Vec<Line> {
    ids.map(line).collect()
}

fn codes(at: &Gateway, shape: &Shape, is_unique: bool) -> At {
    shape.at(at, &[index(CODES, CODE, is_unique)])
}

fn is_refused<T: std::fmt::Debug>(outcome: Outcome<T>, state: SqlState) -> String {
    let error = outcome.expect_err("it is refused");
    assert_eq!(error.sqlstate(), state, "{error}");
    error.to_string()
}

fn is_in(ranges: &Ranges, stage: &str) -> bool {
    list(ranges).is_some_and(|list| list.contains(stage))
}

fn has_all_rows(shape: Shape, is_unique: bool) {
    let (ranges, a, b) = gateways();
    // Several pages, in several regions.
    let mut rows = lines(0..1_100);
    rows.extend((2_000..2_010).map(|id| vec![Some(id), None, None]));
    shape.at(&b, &[]).put(&rows).expect("nobody is in the way");
    let specs = [index(CODES, CODE, is_unique), index(TAGS, TAG, false)];
    let (at_a, at_b) = (shape.at(&a, &specs), shape.at(&b, &specs));
    let f = at_a.publish(1, &[CODES, TAGS]).expect("nobody is in the way");
    assert_eq!(list(&ranges), None, "it is nobody's any more");
    for at in [&at_a, &at_b] {
        at.check(f, CODES);
        at.check(f, TAGS);
    }
    at_b.put(&[vec![Some(3_000), Some(1), Some(1)]]).expect("nobody is in the way");
    at_a.alone(|txn| at_a.delete_of(txn, 7)).expect("nobody is in the way");
    at_a.alone(|txn| at_a.set_of(txn, 8, &[(CODE, Some(2)), (TAG, None)]))
        .expect("nobody is in the way");
    let twice = at_b.put(&[vec![Some(3_001), Some(1_009), None]]);
    match is_unique {
        true => assert!(is_refused(twice, SqlState::SERIALIZATION_FAILURE).contains("Dup")),
        false => _ = twice.expect("nobody is in the way"),
    }
    for at in [&at_a, &at_b] {
        at.check(at.gateway.now().ts, CODES);
        at.check(at.gateway.now().ts, TAGS);
    }
}

/// With primary keys and without, unique and not.
fn for_all(check: fn(Shape, bool)) {
    let all = [keyed(), keyless()].map(|shape| BOTH.map(|is_unique| (shape, is_unique)));
    thread::scope(|scope| {
        for (shape, is_unique) in all.into_iter().flatten() {
            scope.spawn(move || check(shape, is_unique));
        }
    });
}

#[test]
fn an_index_has_all_rows_and_what_is_written_from_then_on() {
    for_all(has_all_rows);
}

type Change = fn(&At, &mut dyn EngineTxn, i64) -> Outcome<()>;

/// What is done with ten rows, from an id on: their codes stay unlike.
const CHANGES: [Change; 12] = [
    |at, txn, id| at.set_of(txn, id, &[(CODE, Some(id + 10_000)), (TAG, Some(5))]),
    |at, txn, id| at.set_of(txn, id, &[(CODE, Some(id + 1_000))]),
    // There and back in one transaction.
    |at, txn, id| {
        at.set_of(txn, id + 1, &[(CODE, Some(id + 20_000))])?;
        at.set_of(txn, id + 1, &[(CODE, Some(id + 1_001))])
    },
    |at, txn, id| at.delete_of(txn, id + 2),
    |at, txn, id| {
        at.delete_of(txn, id + 3)?;
        at.insert(txn, &line(id + 3))
    },
    |at, txn, id| {
        at.insert(txn, &line(id + 100_000))?;
        at.delete_of(txn, id + 100_000)
    },
    |at, txn, id| {
        let before = txn.savepoint();
        at.set_of(txn, id + 4, &[(CODE, Some(id + 30_000))])?;
        at.insert(txn, &line(id + 100_001))?;
        at.delete_of(txn, id + 9)?;
        txn.rollback_to(before);
        Ok(())
    },
    // Elsewhere, if it is kept by its id.
    |at, txn, id| at.set_of(txn, id + 5, &[(ID, Some(id + 100_002))]),
    |at, txn, id| at.set_of(txn, id + 6, &[(CODE, None), (TAG, None)]),
    |at, txn, id| {
        let (one, other) = (Some(id + 1_007), Some(id + 1_008));
        if at.has_unique() {
            at.set_of(txn, id + 7, &[(CODE, None)])?;
        }
        at.set_of(txn, id + 8, &[(CODE, one)])?;
        at.set_of(txn, id + 7, &[(CODE, other)])
    },
    |at, txn, id| at.insert(txn, &line(id + 100_003)),
    |at, txn, id| {
        at.set_of(txn, id + 9, &[(ID, Some(id + 100_004))])?;
        at.set_of(txn, id + 100_004, &[(ID, Some(id + 9)), (TAG, Some(6))])
    },
];

/// All of them, each in a transaction of its own.
fn change_each(at: &At, id: i64) {
    for (n, change) in CHANGES.iter().enumerate() {
        let done = at.alone(|txn| change(at, txn, id));
        done.unwrap_or_else(|error| panic!("change {n} of {id}: {error}"));
    }
}

/// All of them, in one that is yet to be committed.
fn change_all(at: &At, id: i64) -> Box<dyn EngineTxn> {
    let mut txn = at.gateway.begin();
    for change in CHANGES {
        change(at, &mut *txn, id).expect("nobody is in the way");
    }
    txn
}

/// A gateway begins a commit that takes its time: until it has ended, nobody can be sure that a later stage is followed.
fn hold(gateway: &Gateway, at: &At, id: i64) -> JoinHandle<()> {
    let before = gateway.way.asked("KvPrewrite");
    gateway.way.on_next("KvPrewrite", Fault::Delay(Duration::from_millis(500)));
    let at = at.clone();
    let committing = thread::spawn(move || {
        at.put(&[vec![Some(id), None, None]]).expect("nobody is in the way");
    });
    wait_until("it prewrites", || gateway.way.asked("KvPrewrite") > before);
    committing
}

fn in_every_phase(shape: Shape, is_unique: bool) {
    let (ranges, a, b) = gateways();
    let c = gateway(&ranges, "c");
    let [new_a, new_b] = [&a, &b].map(|gateway| codes(gateway, &shape, is_unique));
    let [old_b, old_c] = [&b, &c].map(|gateway| shape.at(gateway, &[]));
    old_b.put(&lines(0..90)).expect("nobody is in the way");
    let mut late = vec![change_all(&old_b, 0)];
    let mut held = vec![hold(&c, &old_c, 500_000)];
    let ((tell, built), (commit, told)) = (mpsc::channel(), mpsc::channel());
    let building = thread::spawn(move || {
        let mut txn = a.closing(1, &[]).expect("nobody is in the way");
        tell.send(new_a.build(&mut *txn, CODES)).expect("it is waited for");
        told.recv().expect("it goes on");
        new_a.enter(&mut *txn, CODES).expect("nobody is in the way");
        (a.commit(txn).expect("no key is there twice"), new_a)
    });
    wait_until("it is announced", || is_in(&ranges, "DeleteOnly"));
    change_each(&old_b, 10);
    late.push(change_all(&old_b, 20));
    held.push(hold(&c, &old_c, 500_001));
    wait_until("entries are written", || is_in(&ranges, "WriteOnly"));
    change_each(&old_b, 30);
    late.push(change_all(&old_b, 40));
    let built = built.recv().expect("it ends").expect("nobody is in the way");
    assert_eq!(built, Built::Whole);
    change_each(&old_b, 50);
    late.push(change_all(&old_b, 60));
    commit.send(()).expect("it goes on");
    let (f, new_a) = building.join().expect("no panic");
    new_b.check(f, CODES);
    for txn in late {
        b.commit(txn).expect("it takes along what it does not know");
    }
    new_a.check(b.now().ts, CODES);
    change_each(&new_b, 70);
    for at in [&new_a, &new_b] {
        at.check(f, CODES);
        at.check(b.now().ts, CODES);
    }
    held.into_iter().for_each(|held| held.join().expect("no panic"));
    assert_eq!(list(&ranges), None);
}

#[test]
fn rows_written_in_every_phase_have_their_entries() {
    for_all(in_every_phase);
}

/// A key passes from a row to another where entries are only deleted yet, when somebody else has begun to write them.
fn key_passes(pass: Change, is_deleted: bool) {
    let (ranges, a, b) = gateways();
    let c = gateway(&ranges, "c");
    let new = codes(&a, &keyed(), true);
    let [old_b, old_c] = [&b, &c].map(|gateway| keyed().at(gateway, &[]));
    old_b.put(&lines(0..4)).expect("nobody is in the way");
    let mut txn = a.closing(1, &[]).expect("nobody is in the way");
    let build = new.online().build_online(&mut *txn, 1, NAME).expect("it begins");
    // What it knows is older than what the others know.
    for _ in 0..20 {
        c.way.on_next("KvBatchGet", Fault::Delay(Duration::from_millis(400)));
    }
    wait_until("entries are written", || is_in(&ranges, "WriteOnly"));
    wait_until("B writes them", || {
        old_b.alone(|txn| old_b.set_of(txn, 1, &[(TAG, Some(9))])).expect("nobody is in the way");
        new.has_entries(CODES)
    });
    old_c.alone(|txn| pass(&old_c, txn, 1)).expect("nobody is in the way");
    if is_deleted {
        let rows = old_b.with_ids(&b.now()).expect("the store answers");
        let (rid, _) =
            rows.iter().find(|(_, line)| line[CODE] == Some(1_001)).expect("it is there");
        old_b.alone(|txn| old_b.delete(txn, *rid)).expect("nobody is in the way");
    }
    let built = a.engine.handle().block_on(build).expect("nobody is in the way");
    assert_eq!(built, Built::Whole, "no key is there twice");
    new.enter(&mut *txn, CODES).expect("nobody is in the way");
    let f = a.commit(txn).expect("no key is there twice");
    new.check(f, CODES);
}

#[test]
fn a_key_that_passes_from_row_to_row_is_that_of_the_last() {
    let passes: [Change; 4] = [
        |at, txn, id| at.set_of(txn, id, &[(ID, Some(100))]),
        |at, txn, id| {
            at.delete_of(txn, id)?;
            at.insert(txn, &[Some(100), Some(1_000 + id), None])
        },
        |at, txn, id| {
            at.set_of(txn, id, &[(CODE, Some(1_002))])?;
            at.set_of(txn, 2, &[(CODE, Some(1_000 + id))])
        },
        |at, txn, id| {
            at.set_of(txn, id, &[(CODE, None)])?;
            at.set_of(txn, 2, &[(CODE, Some(1_000 + id))])
        },
    ];
    thread::scope(|scope| {
        for pass in passes {
            scope.spawn(move || key_passes(pass, false));
            scope.spawn(move || key_passes(pass, true));
        }
    });
}

#[test]
fn what_its_builder_writes_is_in_it() {
    for shape in [keyed(), keyless()] {
        for is_unique in BOTH {
            let (_ranges, a, b) = gateways();
            let (old, new) = (shape.at(&a, &[]), codes(&a, &shape, is_unique));
            old.put(&lines(0..30)).expect("nobody is in the way");
            let mut txn = a.closing(1, &[]).expect("nobody is in the way");
            for change in CHANGES {
                change(&old, &mut *txn, 0).expect("nobody is in the way");
            }
            assert_eq!(new.build(&mut *txn, CODES).expect("nobody is in the way"), Built::Whole);
            let elsewhere = shape.at(&b, &[]);
            elsewhere.put(&lines(900..905)).expect("nobody is in the way");
            new.enter(&mut *txn, CODES).expect("nobody is in the way");
            txn.refresh();
            let rows = new.rows(txn.snapshot()).expect("the store answers");
            new.check_sought(txn.snapshot(), CODES, &rows);
            for change in CHANGES {
                change(&new, &mut *txn, 10).expect("nobody is in the way");
            }
            let before = txn.savepoint();
            for change in CHANGES {
                change(&new, &mut *txn, 20).expect("nobody is in the way");
            }
            txn.rollback_to(before);
            let rows = new.rows(txn.snapshot()).expect("the store answers");
            new.check_sought(txn.snapshot(), CODES, &rows);
            let f = a.commit(txn).expect("no key is there twice");
            for at in [&new, &codes(&b, &shape, is_unique)] {
                at.check(f, CODES);
            }
        }
    }
}

/// Where a builder gives up.
#[derive(Clone, Copy, Debug)]
enum Until {
    Begun,
    WriteOnly,
    Whole,
    Entered,
    Prewritten,
    /// And commits what it did before.
    Savepoint,
}

fn gives_up(until: Until) {
    let (ranges, a, b) = gateways();
    let (shape, old) = (keyed(), keyed().at(&b, &[]));
    old.put(&lines(0..40)).expect("nobody is in the way");
    let new = codes(&a, &shape, true);
    let mut txn = a.closing(1, &[]).expect("nobody is in the way");
    let own = vec![Some(9_000), Some(9_000), None];
    new.insert(&mut *txn, &own).expect("nobody is in the way");
    let before = txn.savepoint();
    match until {
        Until::Begun => drop(new.online().build_online(&mut *txn, 1, NAME).expect("it begins")),
        Until::WriteOnly => {
            drop(new.online().build_online(&mut *txn, 1, NAME).expect("it begins"));
            wait_until("entries are written", || is_in(&ranges, "WriteOnly"));
        }
        _ => assert_eq!(new.build(&mut *txn, CODES).expect("nobody is in the way"), Built::Whole),
    }
    let late = change_all(&old, 0);
    change_each(&old, 10);
    if matches!(until, Until::Entered | Until::Prewritten) {
        new.enter(&mut *txn, CODES).expect("nobody is in the way");
    }
    match until {
        Until::Savepoint => {
            txn.rollback_to(before);
            a.commit(txn).expect("it builds nothing");
        }
        Until::Prewritten => {
            a.reserve(&mut *txn).expect("nobody is in the way");
            txn.abort();
        }
        _ => txn.abort(),
    }
    change_each(&old, 20);
    b.commit(late).expect("nobody is in the way");
    wait_until_gone(&ranges, &b, shape.space, &[CODES]);
    change_each(&old, 30);
    wait_until_gone(&ranges, &b, shape.space, &[CODES]);
    let rows = old.rows(&b.now()).expect("the store answers");
    assert_eq!(rows.contains(&own), matches!(until, Until::Savepoint));
    // Another one is as if there had been none.
    let again = shape.at(&a, &[index(TAGS, TAG, false)]);
    let f = again.publish(2, &[TAGS]).expect("nobody is in the way");
    again.check(f, TAGS);
}

#[test]
fn nothing_is_left_of_a_build_that_is_given_up() {
    use Until::{Begun, Entered, Prewritten, Savepoint, Whole, WriteOnly};
    thread::scope(|scope| {
        for until in [Begun, WriteOnly, Whole, Entered, Prewritten, Savepoint] {
            scope.spawn(move || gives_up(until));
        }
    });
}

#[test]
fn two_rows_with_a_key_are_found() {
    for shape in [keyed(), keyless()] {
        let (ranges, a, b) = gateways();
        let old = shape.at(&b, &[]);
        old.put(&lines(0..600)).expect("nobody is in the way");
        // NULLs are unlike each other, unless somebody says otherwise.
        let some = [[601, 1_007], [602, 0], [603, 0]];
        let some = some.map(|[id, code]| vec![Some(id), (code > 0).then_some(code), None]);
        old.put(&some).expect("nobody is in the way");
        let mut nulls = index(TAGS, CODE, true);
        nulls.nulls = NullKeys::Equal;
        let (new, equal) = (codes(&a, &shape, true), shape.at(&a, &[nulls]));
        let build = |at: &At, index: u32, key: Value| {
            let mut txn = a.closing(i64::from(index), &[]).expect("nobody is in the way");
            let built = at.build(&mut *txn, index).expect("nobody is in the way");
            assert_eq!(built, Built::Duplicate(Row::from([key])));
            txn.abort();
            wait_until_gone(&ranges, &b, shape.space, &[index]);
        };
        build(&new, CODES, Value::Int64(1_007));
        old.alone(|txn| old.set_of(txn, 7, &[(CODE, Some(9_000))])).expect("it goes on");
        build(&equal, TAGS, Value::Null);
        let specs = [index(20, CODE, true)];
        let f = shape.at(&a, &specs).publish(3, &[20]).expect("no key is there twice");
        shape.at(&b, &specs).check(f, 20);
    }
}

/// A key is taken twice when the build is whole.
fn taken_twice(shape: Shape, is_begun_before: bool, is_prewritten: bool) {
    let (ranges, a, b) = gateways();
    let old = shape.at(&b, &[]);
    old.put(&lines(0..20)).expect("nobody is in the way");
    let new = codes(&a, &shape, true);
    let twice = vec![Some(500), Some(1_003), Some(1)];
    let begin = || {
        let mut txn = b.begin();
        old.insert(&mut *txn, &twice).expect("it knows nothing of it");
        old.set_of(&mut *txn, 4, &[(CODE, Some(1_005))]).expect("it knows nothing of it");
        txn
    };
    let early = is_begun_before.then(begin);
    let mut txn = a.closing(1, &[]).expect("nobody is in the way");
    assert_eq!(new.build(&mut *txn, CODES).expect("nobody is in the way"), Built::Whole);
    let mut other = early.unwrap_or_else(begin);
    if is_prewritten {
        b.reserve(&mut *other).expect("it is not refused for what may never be");
        b.publish(other).expect("it is not refused for what may never be");
    } else {
        b.commit(other).expect("it is not refused for what may never be");
    }
    let entered = new.enter(&mut *txn, CODES);
    let error = is_refused(entered.and_then(|()| a.commit(txn)), SqlState::UNIQUE_VIOLATION);
    assert!(error.contains(NAME), "{error}");
    wait_until_gone(&ranges, &b, shape.space, &[CODES]);
    let rows = old.rows(&a.now()).expect("the store answers");
    assert!(rows.contains(&twice) && rows.len() == 21, "{rows:?}");
    assert!(rows.contains(&vec![Some(4), Some(1_005), Some(1)]), "{rows:?}");
    for id in [3, 4] {
        old.alone(|txn| old.set_of(txn, id, &[(CODE, None)])).expect("nobody is in the way");
    }
    let again = shape.at(&a, &[index(20, CODE, true)]);
    let f = again.publish(2, &[20]).expect("no key is there twice");
    again.check(f, 20);
}

#[test]
fn a_key_that_is_taken_twice_meanwhile_stops_the_builder_and_nobody_else() {
    thread::scope(|scope| {
        for shape in [keyed(), keyless()] {
            for is_begun_before in [true, false] {
                scope.spawn(move || taken_twice(shape, is_begun_before, shape.is_keyed));
            }
        }
    });
}

#[test]
fn who_does_not_know_of_a_unique_index_yet_takes_no_key_twice() {
    for shape in [keyed(), keyless()] {
        let (_ranges, a, b) = gateways();
        let (old, new) = (shape.at(&b, &[]), codes(&a, &shape, true));
        old.put(&lines(0..20)).expect("nobody is in the way");
        let [mut twice, mut both, mut soon] = [(); 3].map(|()| b.begin());
        old.insert(&mut *twice, &[Some(500), Some(1_003), None]).expect("it does not know");
        for id in [501, 502] {
            let line = [Some(id), Some(3), None];
            old.insert(&mut *both, &line).expect("it does not know");
        }
        let f = new.publish(1, &[CODES]).expect("no key is there twice");
        old.set_of(&mut *soon, 4, &[(CODE, Some(1_005))]).expect("it does not know");
        is_refused(b.commit(twice), SqlState::SERIALIZATION_FAILURE);
        is_refused(b.commit(both), SqlState::SERIALIZATION_FAILURE);
        is_refused(b.commit(soon), SqlState::SERIALIZATION_FAILURE);
        new.check(f, CODES);
        new.check(b.now().ts, CODES);
        let rows = new.rows(&b.now()).expect("the store answers");
        assert_eq!(rows, sorted(lines(0..20).into_iter()), "they have left nothing");
    }
}

#[test]
fn who_goes_on_under_the_newer_layout_has_its_rows_there() {
    for shape in [keyed(), keyless()] {
        for is_unique in BOTH {
            let (_ranges, a, b) = gateways();
            let old = shape.at(&b, &[]);
            old.put(&lines(0..30)).expect("nobody is in the way");
            let [mut txn, mut twice] = [(); 2].map(|()| b.begin());
            for change in CHANGES {
                change(&old, &mut *txn, 0).expect("nobody is in the way");
            }
            old.insert(&mut *twice, &[Some(500), Some(1_020), None]).expect("it does not know");
            let [new_a, new] = [&a, &b].map(|gateway| codes(gateway, &shape, is_unique));
            let f = new_a.publish(1, &[CODES]).expect("no key is there twice");
            for txn in [&mut txn, &mut twice] {
                txn.refresh();
            }
            new.online().enter_newer(&mut *txn).expect("nobody is in the way");
            let check_own = |txn: &dyn EngineTxn| {
                let rows = new.rows(txn.snapshot()).expect("the store answers");
                new.check_sought(txn.snapshot(), CODES, &rows);
            };
            check_own(&*txn);
            for change in CHANGES {
                change(&new, &mut *txn, 10).expect("nobody is in the way");
            }
            check_own(&*txn);
            let entered = new.online().enter_newer(&mut *twice).and_then(|()| b.commit(twice));
            match is_unique {
                true => _ = is_refused(entered, SqlState::SERIALIZATION_FAILURE),
                false => _ = entered.expect("nobody is in the way"),
            }
            b.commit(txn).expect("nobody is in the way");
            for at in [&new_a, &new] {
                at.check(f, CODES);
                at.check(b.now().ts, CODES);
            }
        }
    }
}

#[test]
fn two_rows_of_one_transaction_that_share_a_key_stop_its_build() {
    let (ranges, a, b) = gateways();
    let (shape, old, new) = (keyed(), keyed().at(&a, &[]), codes(&a, &keyed(), true));
    old.put(&lines(0..20)).expect("nobody is in the way");
    for (n, code) in (1..).zip([1_003, 1]) {
        let mut txn = a.closing(n, &[]).expect("nobody is in the way");
        for id in [500, 501] {
            old.insert(&mut *txn, &[Some(id), Some(code), None]).expect("nobody is in the way");
        }
        assert_eq!(new.build(&mut *txn, CODES).expect("nobody is in the way"), Built::Whole);
        let entered = new.enter(&mut *txn, CODES);
        is_refused(entered.and_then(|()| a.commit(txn)), SqlState::UNIQUE_VIOLATION);
        wait_until_gone(&ranges, &b, shape.space, &[CODES]);
    }
}

#[test]
fn a_column_that_came_later_is_what_is_missing() {
    for shape in [keyed(), keyless()] {
        let (_ranges, a, b) = gateways();
        let (specs, old) = ([index(CODES, LATER, false)], shape.at(&b, &[]));
        let [new_a, new_b] =
            [&a, &b].map(|gateway| At::new(gateway, &shape, shape.layout(4, &specs)));
        old.put(&lines(0..30)).expect("nobody is in the way");
        let mut late = b.begin();
        for change in CHANGES {
            change(&old, &mut *late, 0).expect("nobody is in the way");
        }
        let mut txn = a.closing(1, &[]).expect("nobody is in the way");
        assert_eq!(new_a.build(&mut *txn, CODES).expect("nobody is in the way"), Built::Whole);
        change_each(&old, 10);
        let wide = At::new(&b, &shape, shape.layout(4, &[]));
        wide.alone(|txn| wide.set_of(txn, 20, &[(LATER, Some(1))])).expect("it goes on");
        new_a.enter(&mut *txn, CODES).expect("nobody is in the way");
        let f = a.commit(txn).expect("nobody is in the way");
        b.commit(late).expect("nobody is in the way");
        new_b.check(f, CODES);
        new_b.check(b.now().ts, CODES);
        let key = froglet_engine::key::encode(&[Value::Int64(MISSING)], &specs[0].key);
        let found = new_b.sought(&b.now(), CODES, &KeyRange::exactly(&key));
        assert_eq!(found.expect("the store answers").len(), 29, "but one, one more, one less");
    }
}

/// Verifies that no code is NULL.
fn verify(at: &At, txn: &mut dyn EngineTxn) -> Outcome<Built> {
    let message = "a code is NULL".to_owned();
    let check = OnlineCheck {
        of: BuildOf::NotNull(at.table.layout().columns[CODE].id),
        columns: vec![CODE],
        check: Arc::new(NoNull),
        recipe: None,
        violated: EngineError::Refused { state: SqlState::NOT_NULL_VIOLATION, message },
    };
    let verifying = at.online().verify_online(txn, check)?;
    at.gateway.engine.handle().block_on(verifying)
}

#[test]
fn a_condition_holds_for_everybody_from_its_commit_on() {
    for shape in [keyed(), keyless()] {
        let (ranges, a, b) = gateways();
        let (at_a, at_b) = (shape.at(&a, &[]), shape.at(&b, &[]));
        at_b.put(&lines(0..600)).expect("nobody is in the way");
        let null = |id| vec![Some(id), None, None];
        let begin = |line: Line| {
            let mut txn = b.begin();
            at_b.insert(&mut *txn, &line).expect("it does not know");
            txn
        };
        let (late, good) = (begin(null(700)), begin(line(701)));

        at_b.put(&[null(702)]).expect("nobody is in the way");
        let mut txn = a.closing(1, &[]).expect("nobody is in the way");
        let built = verify(&at_a, &mut *txn).expect("nobody is in the way");
        assert_eq!(built, Built::Violated(Row::from([Value::Null])));
        txn.abort();
        wait_until("the list is empty", || list(&ranges).is_none());

        at_b.alone(|txn| at_b.delete_of(txn, 702)).expect("nobody is in the way");
        let mut txn = a.closing(2, &[]).expect("nobody is in the way");
        assert_eq!(verify(&at_a, &mut *txn).expect("nobody is in the way"), Built::Whole);
        at_b.put(&[null(703)]).expect("it is not refused for what may never be");
        is_refused(a.commit(txn), SqlState::NOT_NULL_VIOLATION);
        wait_until("the list is empty", || list(&ranges).is_none());

        at_b.alone(|txn| at_b.set_of(txn, 703, &[(CODE, Some(0))])).expect("it goes on");
        let mut txn = a.closing(3, &[]).expect("nobody is in the way");
        at_a.insert(&mut *txn, &line(704)).expect("nobody is in the way");
        assert_eq!(verify(&at_a, &mut *txn).expect("nobody is in the way"), Built::Whole);
        at_b.put(&[line(705)]).expect("nobody is in the way");
        a.commit(txn).expect("no code is NULL");
        is_refused(b.commit(late), SqlState::SERIALIZATION_FAILURE);
        b.commit(good).expect("nobody is in the way");
        assert_eq!(list(&ranges), None);
    }
}

#[test]
fn rows_that_are_with_those_of_another_table_have_entries_of_their_own() {
    let (_ranges, a, b) = gateways();
    let host = keyed();
    let guest = Shape {
        space: space(9),
        is_keyed: true,
        within: Some(Within { space: host.space, parts: 1 }),
    };
    for shape in [host, guest] {
        shape.at(&b, &[]).put(&lines(0..40)).expect("nobody is in the way");
    }
    for (n, shape) in (1..).zip([host, guest]) {
        let (old, new) = (shape.at(&b, &[]), codes(&a, &shape, true));
        let late = change_all(&old, 0);
        let mut txn = a.closing(n, &[]).expect("nobody is in the way");
        assert_eq!(new.build(&mut *txn, CODES).expect("nobody is in the way"), Built::Whole);
        for shape in [host, guest] {
            change_each(&shape.at(&b, &[]), 10 * n);
        }
        new.enter(&mut *txn, CODES).expect("nobody is in the way");
        let f = a.commit(txn).expect("no key is there twice");
        b.commit(late).expect("nobody is in the way");
        for at in [&new, &codes(&b, &shape, true)] {
            at.check(f, CODES);
            at.check(b.now().ts, CODES);
        }
    }
}

#[test]
fn several_are_built_at_once() {
    let (ranges, a, b) = gateways();
    let builds = [(&a, keyed()), (&b, keyless())];
    for (gateway, shape) in builds {
        shape.at(gateway, &[]).put(&lines(0..50)).expect("nobody is in the way");
    }
    let specs = [index(CODES, CODE, true), index(TAGS, TAG, false)];
    let building = [(&a, keyed(), 1), (&b, keyless(), 2)].map(|(gateway, shape, n)| {
        let at = shape.at(gateway, &specs);
        thread::spawn(move || at.publish(n, &[CODES, TAGS]))
    });
    for (n, (gateway, shape)) in (0..).zip(builds) {
        change_each(&shape.at(gateway, &[]), 10 * n);
    }
    let done = building.map(|one| one.join().expect("no panic").expect("each in its turn"));
    let last = done.into_iter().max().expect("two of them");
    for (gateway, shape) in builds {
        for index in [CODES, TAGS] {
            shape.at(gateway, &specs).check(last, index);
            shape.at(gateway, &specs).check(gateway.now().ts, index);
        }
    }
    assert_eq!(list(&ranges), None);
}

/// Whether any keys are locked of a space of the tests', of rows or of entries.
fn has_locks(ranges: &Ranges, kind: &[u8]) -> bool {
    ranges.locks().iter().any(|lock| lock.key[10..].starts_with(kind))
}

/// A builder dies; what is left of it goes, and others are not held up.
fn builder_dies(until: Until) {
    let (ranges, a, b) = gateways();
    let c = gateway(&ranges, "c");
    let (shape, old) = (keyed(), keyed().at(&b, &[]));
    old.put(&lines(0..60)).expect("nobody is in the way");
    let new = codes(&c, &shape, true);
    let mut txn = c.closing(1, &[]).expect("nobody is in the way");
    match until {
        Until::Begun => drop(new.online().build_online(&mut *txn, 1, NAME).expect("it begins")),
        Until::WriteOnly => {
            drop(new.online().build_online(&mut *txn, 1, NAME).expect("it begins"));
            wait_until("entries are written", || is_in(&ranges, "WriteOnly"));
        }
        _ => assert_eq!(new.build(&mut *txn, CODES).expect("nobody is in the way"), Built::Whole),
    }
    if matches!(until, Until::Prewritten) {
        new.enter(&mut *txn, CODES).expect("nobody is in the way");
        c.reserve(&mut *txn).expect("nobody is in the way");
    }
    // Else whoever meets what is left of its pages waits a second each time, until it has looked at their primaries.
    wait_until("pages are committed", || !has_locks(&ranges, b"x"));
    c.way.cut_off(true);
    let late = change_all(&old, 0);
    change_each(&old, 10);
    drop((txn, new, c));
    change_each(&old, 20);
    // Its locks are over, too.
    ranges.advance(LEASE_MS + 30_000);
    insist("writing", || old.alone(|txn| CHANGES[0](&old, txn, 30)));
    // The lease of this one was over, too; it may have to begin again.
    if let Err(error) = b.commit(late) {
        assert!(!matches!(error.sqlstate(), SqlState::INTERNAL_ERROR), "{error}");
    }
    wait_until_gone(&ranges, &b, shape.space, &[CODES]);
    insist("writing", || old.alone(|txn| CHANGES[7](&old, txn, 30)));
    wait_until_gone(&ranges, &a, shape.space, &[CODES]);
    let again = shape.at(&a, &[index(20, CODE, true)]);
    let mut n = 1;
    let f = insist("building", || {
        n += 1;
        again.publish(n, &[20])
    });
    again.check(f, 20);
    change_each(&shape.at(&b, &[index(20, CODE, true)]), 40);
    again.check(b.now().ts, 20);
}

#[test]
fn others_clean_up_after_a_builder_that_dies() {
    thread::scope(|scope| {
        for until in [Until::Begun, Until::WriteOnly, Until::Whole, Until::Prewritten] {
            scope.spawn(move || builder_dies(until));
        }
    });
}

#[test]
fn a_builder_that_was_gone_publishes_nothing() {
    let (ranges, a, b) = gateways();
    let (shape, old) = (keyed(), keyed().at(&b, &[]));
    old.put(&lines(0..40)).expect("nobody is in the way");
    let new = codes(&a, &shape, true);
    let mut txn = a.closing(1, &[]).expect("nobody is in the way");
    assert_eq!(new.build(&mut *txn, CODES).expect("nobody is in the way"), Built::Whole);
    a.way.cut_off(true);
    ranges.advance(LEASE_MS);
    wait_until("somebody cleans up", || list(&ranges).is_none());
    insist("writing", || old.alone(|txn| CHANGES[0](&old, txn, 0)));
    a.way.cut_off(false);
    let error = new.enter(&mut *txn, CODES).and_then(|()| a.commit(txn)).expect_err("it is late");
    assert!(!matches!(error.sqlstate(), SqlState::INTERNAL_ERROR), "{error}");
    wait_until_gone(&ranges, &b, shape.space, &[CODES]);
    insist("writing", || old.alone(|txn| CHANGES[7](&old, txn, 0)));
    let at_a = shape.at(&a, &[]);
    insist("writing", || at_a.alone(|txn| CHANGES[9](&at_a, txn, 0)));
    wait_until_gone(&ranges, &b, shape.space, &[CODES]);
}

/// One that is not heard of as an index is published, or given up, and is back then.
fn gone_meanwhile(knows: bool, is_published: bool) {
    let (ranges, a, b) = gateways();
    let (shape, old) = (keyed(), keyed().at(&b, &[]));
    old.put(&lines(0..60)).expect("nobody is in the way");
    let new = codes(&a, &shape, true);
    let late = change_all(&old, 0);
    let mut txn = a.closing(1, &[]).expect("nobody is in the way");
    if knows {
        assert_eq!(new.build(&mut *txn, CODES).expect("nobody is in the way"), Built::Whole);
    }
    b.way.cut_off(true);
    ranges.advance(LEASE_MS);
    let mut f = None;
    let mut n = 1;
    if !is_published && knows {
        txn.abort();
        wait_until_gone(&ranges, &a, shape.space, &[CODES]);
    } else {
        // Its own lease was over as well.
        txn.abort();
        wait_until("it is given up", || list(&ranges).is_none());
        f = insist("building", || {
            n += 1;
            let mut txn = a.closing(n, &[])?;
            assert_eq!(new.build(&mut *txn, CODES)?, Built::Whole);
            new.enter(&mut *txn, CODES)?;
            is_published.then(|| a.commit(txn)).transpose()
        });
        wait_until_gone(&ranges, &a, shape.space, if is_published { &[] } else { &[CODES] });
    }
    silence(&b, 5);
    b.way.cut_off(false);
    let late = b.commit(late);
    // It does not know better.
    let other = old.alone(|txn| CHANGES[0](&old, txn, 10));
    thread::sleep(Duration::from_millis(300));
    let now = if is_published { codes(&b, &shape, true) } else { old };
    insist("writing", || now.alone(|txn| CHANGES[7](&now, txn, 20)));
    match f {
        Some(f) => {
            new.check(f, CODES);
            new.check(a.now().ts, CODES);
        }
        None => wait_until_gone(&ranges, &a, shape.space, &[CODES]),
    }
    for outcome in [late, other] {
        if let Err(error) = outcome {
            assert!(!matches!(error.sqlstate(), SqlState::INTERNAL_ERROR), "{error}");
        }
    }
}

#[test]
fn who_was_gone_meanwhile_does_nothing_wrong_when_it_is_back() {
    thread::scope(|scope| {
        for knows in [true, false] {
            for is_published in [true, false] {
                scope.spawn(move || gone_meanwhile(knows, is_published));
            }
        }
    });
}

#[test]
fn a_view_from_before_is_as_it_was() {
    let (_ranges, a, b) = gateways();
    let (shape, old) = (keyed(), keyed().at(&b, &[]));
    old.put(&lines(0..20)).expect("nobody is in the way");
    let (view, rows) = (b.now(), sorted(lines(0..20).into_iter()));
    let new = codes(&a, &shape, true);
    let f = new.publish(1, &[CODES]).expect("nobody is in the way");
    new.alone(|txn| new.delete_of(txn, 3)).expect("nobody is in the way");
    assert_eq!(old.rows(&view).expect("the store answers"), rows);
    assert_eq!(new.rows(&at(Ts(f.0 - 1))).expect("the store answers"), rows);
    new.check_sought(&at(f), CODES, &rows);
}
