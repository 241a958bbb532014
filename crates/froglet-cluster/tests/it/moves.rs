//! Rows that move from one table to two others, at several gateways: by name here, and from a seed in `by_seed`.
//!
//! ```text
//!   source          id │ code │ a │ b                               closed, as of a lazy schema change
//!                       ├──────────────▶ first    id │ code │ a      both in the transaction in which the row goes
//!                       └──────────────▶ second   id │ b
//! ```
//! [`Place`] does at one gateway what the lazy migration of a cluster does there (`froglet-schema`, `lazy::moved_table`):
//! a read is rows of a target ∪ what is made of rows of the source, at one timestamp; a write holds the row of the source,
//! moves it, and writes the target then. With and without primary keys: where there is none, rows have keys of their own,
//! and are found by a unique index.

mod by_seed;
mod place;

use std::ops::Bound;
use std::thread;
use std::time::Duration;

use froglet_engine::{
    Ask, Engine, EngineError, KeyRange, Moved, RowId, RowWrite, Snapshot, SqlState, Table, Ts,
    Value, Which, WriteStop,
};
use froglet_testkit::ranges::{Fault, Ranges};

use crate::fences::{LEASE_MS, at, gateway, gateways, insist, is_replaced, wait_until};
use place::{
    BOTH, FIRST, Line, Place, SECOND, State, check_keys, in_the_way, line, locked, moving, prefix,
    target,
};

/// Some rows.
fn some(count: i64) -> Vec<Line> {
    (0..count).map(|id| vec![id, 1_000 + id, id % 3, 10 * id]).collect()
}

fn state(lines: &[Line], moved: impl Fn(i64) -> bool) -> State {
    let mut state = State::default();
    for line in lines {
        match moved(line[0]) {
            true => state.move_line(line),
            false => _ = state.source.insert(line[0], line.clone()),
        }
    }
    state
}

/// With and without primary keys: of the source, and of the targets.
const KEYED: [(bool, bool); 4] = [(true, true), (true, false), (false, true), (false, false)];

#[test]
fn a_row_moves_with_all_that_is_made_of_it_or_stays() {
    for keyed in KEYED {
        let (_ranges, a, b) = gateways();
        let (a, b) = (Place::new(&a, keyed), Place::new(&b, keyed));
        let lines = some(6);
        a.fill(&lines);
        let left = state(&lines, |_| false);
        let one = state(&lines, |id| id == 2);
        let two = state(&lines, |id| id == 2 || id == 4);

        let mut txn = a.gateway.begin();
        let before = txn.savepoint();
        assert_eq!(a.state(txn.snapshot()), left);
        a.take_all(&mut *txn, &[2]);
        assert_eq!(a.state(txn.snapshot()), one, "to itself it has moved");
        assert_eq!(b.state(&b.gateway.now()), left, "to others it has not");
        assert_eq!(a.state(&a.gateway.now()), left, "to others here it has not");
        let after = txn.savepoint();
        a.take_all(&mut *txn, &[4]);
        assert_eq!(a.state(txn.snapshot()), two);
        txn.rollback_to(after);
        assert_eq!(a.state(txn.snapshot()), one);
        txn.rollback_to(before);
        assert_eq!(a.state(txn.snapshot()), left);
        assert!(!txn.wrote(), "nothing is left of it");
        // It is held, and can be moved again.
        a.take_all(&mut *txn, &[2]);
        assert_eq!(a.state(txn.snapshot()), one);
        txn.abort();
        assert_eq!(b.state(&b.gateway.now()), left);

        let (view, mut txn) = (b.gateway.now(), b.gateway.begin());
        b.take_all(&mut *txn, &[4, 2]);
        b.take_all(&mut *txn, &[2]);
        assert_eq!(b.state(txn.snapshot()), two, "what has moved moves once");
        b.gateway.commit(txn).expect("nobody is in the way");
        for place in [&a, &b] {
            assert_eq!(place.state(&place.gateway.now()), two);
        }
        assert_eq!(b.state(&view), left, "as it was");
        check_keys(&a.gateway, &two);
    }
}

#[test]
fn a_row_that_was_moved_is_changed_and_deleted_in_the_same_transaction() {
    for keyed in KEYED {
        let (_ranges, a, b) = gateways();
        let (a, b) = (Place::new(&a, keyed), Place::new(&b, keyed));
        let lines = some(4);
        a.fill(&lines);
        let mut txn = a.gateway.begin();
        // Its code is taken away, and had by another.
        a.update(&mut *txn, FIRST, 1, (1, 77)).expect("nobody is in the way");
        a.update(&mut *txn, FIRST, 2, (1, 1_001)).expect("the code is free");
        a.delete(&mut *txn, 3).expect("nobody is in the way");
        a.take_key(&mut *txn, 0).expect("nobody is in the way");
        let rows = [vec![Value::Int64(9), Value::Int64(1_000), Value::Int64(0)]];
        let stop = a.targets[FIRST].insert(&mut *txn, &rows, &mut Vec::new());
        let (_, stop) = stop.expect_err("the code is that of a row that has moved");
        let WriteStop::Duplicate { other, .. } = stop else { panic!("{stop:?}") };
        assert_eq!(a.find(txn.snapshot(), FIRST, 0).expect("it is there").0, other);
        let mut should = state(&lines, |_| true);
        should.first.insert(1, vec![1, 77, 1]);
        should.first.insert(2, vec![2, 1_001, 2]);
        should.first.remove(&3);
        should.second.remove(&3);
        assert_eq!(a.state(txn.snapshot()), should);
        a.gateway.commit(txn).expect("nobody is in the way");
        assert_eq!(b.state(&b.gateway.now()), should);
        check_keys(&b.gateway, &should);
    }
}

/// Two transactions want a row, and the second has to wait.
fn two_want_one(is_one_gateway: bool, is_changed: bool, keyed: (bool, bool)) {
    let (_ranges, a, b) = gateways();
    let b = if is_one_gateway { a.clone() } else { b };
    let (a, b) = (Place::new(&a, keyed), Place::new(&b, keyed));
    a.fill(&some(3));
    let (mut first, mut second) = (a.gateway.begin(), b.gateway.begin());
    let base = second.snapshot().ts;
    let (rid, was) = b.find(second.snapshot(), FIRST, 1).expect("it is there");
    let from = moving(&*b.targets[FIRST]).made_of(rid).expect("it is left");
    match is_changed {
        true => a.update(&mut *first, FIRST, 1, (2, 50)).expect("nobody is in the way"),
        false => a.take_all(&mut *first, &[1]),
    }
    let Err(WriteStop::Busy { holder }) = b.take(&mut *second, base, from) else {
        panic!("somebody has it");
    };
    let wait = b.gateway.engine.wait_elsewhere(holder).expect("it is elsewhere");
    let waiting = b.gateway.engine.handle().spawn(wait);
    thread::sleep(Duration::from_millis(100));
    assert!(!waiting.is_finished());
    a.gateway.commit(first).expect("nobody is in the way");
    b.gateway.engine.handle().block_on(waiting).expect("no panic").expect("no deadlock");
    let again = b.take(&mut *second, base, from);
    assert!(matches!(again, Err(WriteStop::Changed)), "it has moved since: {again:?}");
    let left = b.take(&mut *second, Ts::LATEST, from).expect("nobody is in the way");
    assert!(!left, "it is not there any more");
    let values = [Value::Int64(was[2] + 7)];
    let write = RowWrite::Update { rid, columns: &[2], values: &values };
    let written = b.write(&mut *second, FIRST, &was, &write);
    if is_changed {
        assert!(matches!(written, Err(WriteStop::Changed)), "no update is lost: {written:?}");
        drop(second);
        second = b.gateway.begin();
        b.update(&mut *second, FIRST, 1, (2, 57)).expect("nobody is in the way");
    } else {
        written.expect("it has moved, and is what it was");
    }
    b.gateway.commit(second).expect("nobody is in the way");
    let found = a.find(&a.gateway.now(), FIRST, 1).expect("it is there").1;
    assert_eq!(found, [1, 1_001, if is_changed { 57 } else { 8 }]);
    assert!(a.state(&a.gateway.now()).second.contains_key(&1));
}

#[test]
fn who_wants_a_row_that_is_being_moved_waits_and_finds_it_moved() {
    for is_one_gateway in [true, false] {
        for is_changed in [true, false] {
            two_want_one(is_one_gateway, is_changed, (true, true));
            two_want_one(is_one_gateway, is_changed, (true, false));
        }
    }
}

#[test]
fn who_wants_a_row_whose_mover_gives_up_moves_it_itself() {
    let (_ranges, a, b) = gateways();
    let (a, b) = (Place::new(&a, (true, true)), Place::new(&b, (true, true)));
    let lines = some(3);
    a.fill(&lines);
    let (mut first, mut second) = (a.gateway.begin(), b.gateway.begin());
    a.take_all(&mut *first, &[1]);
    let waiting = thread::spawn({
        let b = b.clone();
        move || {
            b.update(&mut *second, FIRST, 1, (2, 50)).expect("he gives up");
            b.gateway.commit(second).expect("nobody is in the way");
        }
    });
    thread::sleep(Duration::from_millis(100));
    assert!(!waiting.is_finished());
    first.abort();
    waiting.join().expect("no panic");
    let mut should = state(&lines, |id| id == 1);
    should.first.insert(1, vec![1, 1_001, 50]);
    assert_eq!(a.state(&a.gateway.now()), should);
    check_keys(&a.gateway, &should);
}

/// Rows of these ids as they are in a view, moved alone.
fn move_alone(place: &Place, view: &Snapshot, ids: &[i64]) -> bool {
    let rows: Vec<(RowId, Line)> = ids.iter().map(|id| place.left(view, *id)).collect();
    place.move_alone(view, &rows).expect("the store answers")
}

/// None of what a transaction of `ids` needs is taken, and nothing is left of it.
fn is_in_the_way(ranges: &Ranges, place: &Place, view: &Snapshot, ids: &[i64], before: &State) {
    let locks = locked(ranges);
    assert!(!move_alone(place, view, ids), "somebody is at one of {ids:?}");
    assert_eq!(place.state(&place.gateway.now()), *before, "nothing is done");
    wait_until("its locks are given back", || locked(ranges) == locks);
}

#[test]
fn who_is_at_one_of_the_rows_keeps_all_of_a_batch_where_they_are() {
    for keyed in [(true, true), (false, false)] {
        let (ranges, a, b) = gateways();
        let (a, b) = (Place::new(&a, keyed), Place::new(&b, keyed));
        let lines = some(140);
        a.fill(&lines);
        wait_until("all is settled", || locked(&ranges).is_empty());
        let batch: Vec<i64> = (0..128).collect();
        let (left, view) = (state(&lines, |_| false), b.gateway.now());
        for holder in [&a, &b] {
            // Held, and no more.
            let mut txn = holder.gateway.begin();
            let (from, _) = holder.left(txn.snapshot(), 64);
            let base = txn.snapshot().ts;
            holder.hold(&mut *txn, base, &[from]).expect("nobody is in the way");
            is_in_the_way(&ranges, &b, &view, &batch, &left);
            is_in_the_way(&ranges, &b, &view, &[64], &left);
            // Moved, and not committed.
            holder.take_all(&mut *txn, &[64]);
            is_in_the_way(&ranges, &b, &view, &batch, &left);
            txn.abort();
            wait_until("its locks are given back", || locked(&ranges).is_empty());
        }
        // Moved, and committed, after the view.
        assert!(move_alone(&a, &a.gateway.now(), &[64]));
        let one = state(&lines, |id| id == 64);
        wait_until("all is settled", || locked(&ranges).is_empty());
        is_in_the_way(&ranges, &b, &view, &batch, &one);
        is_in_the_way(&ranges, &b, &view, &[64], &one);
        // Whoever is not in the way of one is in the way of no other, in the same view.
        assert!(move_alone(&b, &view, &batch[..64]));
        assert!(move_alone(&b, &view, &batch[65..]));
        assert!(move_alone(&b, &view, &[]), "there is nothing to do");
        let all = state(&lines, |id| id < 128);
        for place in [&a, &b] {
            assert_eq!(place.state(&place.gateway.now()), all);
        }
        check_keys(&a.gateway, &all);
        // As a view of a transaction that has moved some has them.
        let mut txn = a.gateway.begin();
        a.take_all(&mut *txn, &[130]);
        assert!(move_alone(&a, &txn.snapshot().clone(), &[131]));
        a.gateway.commit(txn).expect("nobody is in the way");
        let all = state(&lines, |id| id < 128 || id == 130 || id == 131);
        assert_eq!(b.state(&b.gateway.now()), all);
    }
}

#[test]
fn a_row_that_is_named_twice_moves_once() {
    let (ranges, a, b) = gateways();
    let (a, b) = (Place::new(&a, (true, true)), Place::new(&b, (true, true)));
    let lines = some(4);
    a.fill(&lines);
    assert!(move_alone(&b, &b.gateway.now(), &[1, 1, 2]));
    wait_until("all is settled", || locked(&ranges).is_empty());
    let mut txn = a.gateway.begin();
    a.take_all(&mut *txn, &[3, 3]);
    a.gateway.commit(txn).expect("nobody is in the way");
    wait_until("all is settled", || locked(&ranges).is_empty());
    let should = state(&lines, |id| id > 0);
    assert_eq!(a.state(&a.gateway.now()), should);
    check_keys(&b.gateway, &should);
}

#[test]
fn a_row_that_cannot_be_made_keeps_all_of_a_batch_where_they_are() {
    let (ranges, a, b) = gateways();
    let (a, b) = (Place::new(&a, (true, true)), Place::new(&b, (true, false)));
    let lines = some(4);
    a.fill(&lines);
    wait_until("all is settled", || locked(&ranges).is_empty());
    let left = state(&lines, |_| false);
    let (view, mut txn) = (a.gateway.now(), a.gateway.begin());
    let rows: Vec<(RowId, Line)> = [0, 1, 2].map(|id| a.left(&view, id)).into();
    let mut moved: Vec<Moved<'_>> = rows.iter().map(|(from, of)| a.moved(*from, of)).collect();
    moved[1].into[SECOND].1[1] = Value::text("no number");
    let alone = moving(&*a.source).move_out_alone(&view, &moved);
    assert!(matches!(alone, Err(EngineError::WrongType { .. })), "{alone:?}");
    wait_until("its locks are given back", || locked(&ranges).is_empty());
    assert_eq!(b.state(&b.gateway.now()), left);

    let rids: Vec<RowId> = rows.iter().map(|(rid, _)| *rid).collect();
    assert_eq!(a.hold(&mut *txn, Ts::LATEST, &rids).expect("nobody is in the way"), rows);
    let together = moving(&*a.source).move_out(&mut *txn, &moved);
    assert!(matches!(together, Err(EngineError::WrongType { .. })), "{together:?}");
    assert!(!txn.wrote());
    assert_eq!(a.state(txn.snapshot()), left);
    a.move_out(&mut *txn, &rows[..1]).expect("it can be made");
    a.gateway.commit(txn).expect("nobody is in the way");
    let should = state(&lines, |id| id == 0);
    assert_eq!(a.state(&a.gateway.now()), should);
    check_keys(&a.gateway, &should);
}

#[test]
fn a_transaction_that_has_lost_what_it_held_moves_nothing() {
    let (ranges, a, b) = gateways();
    let (a, b) = (Place::new(&a, (true, true)), Place::new(&b, (true, true)));
    let lines = some(4);
    a.fill(&lines);
    // The targets are elsewhere: what is prewritten there is rolled back.
    ranges.split_at(&prefix(target(FIRST)));
    let (mut held, mut moved) = (a.gateway.begin(), a.gateway.begin());
    let (from, of) = a.left(held.snapshot(), 1);
    a.hold(&mut *held, Ts::LATEST, &[from]).expect("nobody is in the way");
    a.take_all(&mut *moved, &[2]);
    a.gateway.way.cut_off(true);
    ranges.advance(LEASE_MS + 30_000);
    insist("moving", || {
        let view = b.gateway.now();
        match b.move_alone(&view, &[b.left(&view, 1), b.left(&view, 2)])? {
            true => Ok(()),
            false => Err(in_the_way()),
        }
    });
    let mut txn = b.gateway.begin();
    b.update(&mut *txn, FIRST, 1, (2, 50)).expect("nobody is in the way");
    b.gateway.commit(txn).expect("nobody is in the way");
    a.gateway.way.cut_off(false);
    // It may commit again.
    insist("moving", || {
        let view = a.gateway.now();
        match a.move_alone(&view, &[a.left(&view, 3)])? {
            true => Ok(()),
            false => Err(in_the_way()),
        }
    });
    // To itself it is there, until it learns otherwise.
    a.move_out(&mut *held, &[(from, of)]).expect("it has not learned of it");
    for lost in [held, moved] {
        let error = a.gateway.commit(lost).expect_err("others have moved it");
        assert_eq!(error.sqlstate(), SqlState::SERIALIZATION_FAILURE, "{error}");
    }
    let mut should = state(&lines, |id| id > 0);
    should.first.insert(1, vec![1, 1_001, 50]);
    for place in [&a, &b] {
        assert_eq!(place.state(&place.gateway.now()), should);
    }
    check_keys(&a.gateway, &should);
}

#[test]
fn a_move_whose_requests_or_answers_are_lost_is_done_once() {
    let late = Fault::Late(Duration::from_millis(300));
    for (n, (method, fault)) in (0..).zip([
        ("KvPessimisticLock", Fault::LoseRequest),
        ("KvPessimisticLock", Fault::LoseAnswer),
        ("KvPessimisticLock", late.clone()),
        ("KvPrewrite", Fault::LoseRequest),
        ("KvPrewrite", Fault::LoseAnswer),
        ("KvCommit", Fault::LoseRequest),
        ("KvCommit", Fault::LoseAnswer),
        ("KvCommit", late),
    ]) {
        let (ranges, a, b) = gateways();
        let keyed = KEYED[n % KEYED.len()];
        let (a, b) = (Place::new(&a, keyed), Place::new(&b, keyed));
        let lines = some(6);
        a.fill(&lines);
        wait_until("all is settled", || locked(&ranges).is_empty());
        ranges.split_at(&prefix(target(FIRST)));
        for times in 1..=2 {
            (0..times).for_each(|_| a.gateway.way.on_next(method, fault.clone()));
            let ids = if times == 1 { [0, 1] } else { [2, 3] };
            assert!(move_alone(&a, &a.gateway.now(), &ids), "{method}: {fault:?}");
            assert_eq!(b.state(&b.gateway.now()), state(&lines, |id| id <= ids[1]));
        }
        thread::sleep(Duration::from_millis(400));
        wait_until("all is settled", || locked(&ranges).is_empty());
        let should = state(&lines, |id| id <= 3);
        assert_eq!(b.state(&b.gateway.now()), should);
        check_keys(&b.gateway, &should);
    }
}

#[test]
fn a_transaction_keeps_what_it_holds_from_moves_in_its_own_view() {
    for is_refreshed in [false, true] {
        let (_ranges, a, b) = gateways();
        let (a, b) = (Place::new(&a, (true, true)), Place::new(&b, (true, true)));
        let lines = some(3);
        a.fill(&lines);
        let mut txn = a.gateway.begin();
        let (from, _) = a.left(txn.snapshot(), 1);
        a.hold(&mut *txn, Ts::LATEST, &[from]).expect("nobody is in the way");
        if is_refreshed {
            txn.refresh();
        }
        let view = txn.snapshot().clone();
        assert!(!move_alone(&a, &view, &[1]), "the transaction is at it");
        a.update(&mut *txn, FIRST, 1, (2, 50)).expect("it has it");
        a.gateway.commit(txn).expect("nobody is in the way");
        let mut should = state(&lines, |id| id == 1);
        should.first.insert(1, vec![1, 1_001, 50]);
        assert_eq!(b.state(&b.gateway.now()), should, "its update is there");
        check_keys(&b.gateway, &should);
    }
}

#[test]
fn a_transaction_changes_what_was_moved_in_its_own_view() {
    let (_ranges, a, b) = gateways();
    let (a, b) = (Place::new(&a, (true, true)), Place::new(&b, (true, true)));
    let lines = some(3);
    a.fill(&lines);
    // A view that is asked for before all of it is moved, and one that is moved before it has written.
    for (id, is_committed) in [(0, false), (1, true)] {
        let mut txn = a.gateway.begin();
        let view = txn.snapshot().clone();
        assert!(move_alone(&a, &view, &[id]));
        a.update(&mut *txn, FIRST, id, (2, 50)).expect("it has moved, and no more");
        a.gateway.reserve(&mut *txn).expect("nobody is in the way");
        match is_committed {
            true => _ = a.gateway.publish(txn).expect("nobody is in the way"),
            false => txn.abort(),
        }
        let mut should = state(&lines, |moved| moved <= id);
        if is_committed {
            should.first.insert(1, vec![1, 1_001, 50]);
        }
        assert_eq!(b.state(&b.gateway.now()), should);
        check_keys(&b.gateway, &should);
    }
}

#[test]
fn batches_of_one_view_are_transactions_of_their_own() {
    let (ranges, a, b) = gateways();
    let (a, b) = (Place::new(&a, (true, true)), Place::new(&b, (true, true)));
    let lines = some(8);
    a.fill(&lines);
    wait_until("all is settled", || locked(&ranges).is_empty());
    // The source's rows are in one region, and all that is made of them in another.
    ranges.split_at(&prefix(target(FIRST)));
    let (view, commits) = (a.gateway.now(), a.gateway.way.asked("KvCommit"));
    // The first batch is committed, and the rest of it left to whoever meets it; the other is in the midst.
    a.gateway.way.on_next("KvCommit", Fault::None);
    a.gateway.way.on_next("KvCommit", Fault::Delay(Duration::from_millis(1_500)));
    a.gateway.way.on_next("KvCommit", Fault::Delay(Duration::from_millis(1_500)));
    a.gateway.way.on_next("KvCommit", Fault::Delay(Duration::from_millis(1_500)));
    assert!(move_alone(&a, &view, &[4, 5, 6, 7]));
    wait_until("the rest is on its way", || a.gateway.way.asked("KvCommit") >= commits + 3);
    let other = thread::spawn({
        let a = a.clone();
        move || assert!(move_alone(&a, &view, &[0, 1, 2, 3]))
    });
    wait_until("the other is on its way", || a.gateway.way.asked("KvCommit") >= commits + 4);
    assert_eq!(b.state(&b.gateway.now()), state(&lines, |id| id >= 4));
    other.join().expect("no panic");
    assert_eq!(b.state(&b.gateway.now()), state(&lines, |_| true));
}

#[test]
fn a_row_has_the_same_number_before_and_after() {
    for keyed in KEYED {
        let (_ranges, a, b) = gateways();
        let (a, b) = (Place::new(&a, keyed), Place::new(&b, keyed));
        let lines = some(4);
        a.fill(&lines);
        let early = a.gateway.now();
        let (from, was) = a.left(&early, 3);
        let numbers = BOTH.map(|n| {
            let (rid, _) = a.find(&early, n, 3).expect("it is left");
            let table = moving(&*a.targets[n]);
            assert_eq!(table.made_of(rid), Some(from));
            assert_eq!(a.number(n, from, &was), rid, "whoever asks");
            rid
        });
        assert_eq!(moving(&*a.source).made_of(from), None);
        assert!(move_alone(&b, &b.gateway.now(), &[3]));
        for n in BOTH {
            let (rid, _) = a.found_there(&a.gateway.now(), n, 3).expect("it has moved");
            assert_eq!(rid, numbers[n], "it is the same row");
            assert_eq!(moving(&*a.targets[n]).made_of(rid), Some(from), "it is known");
            assert_eq!(a.find(&early, n, 3).expect("as it was").0, rid);
        }
        // More numbers than are kept of whoever has gone.
        if keyed.1 {
            for id in 1_000..141_000 {
                a.number(FIRST, from, &[id, 0, 0, 0]);
            }
        }
        for n in BOTH {
            assert_eq!(moving(&*a.targets[n]).made_of(numbers[n]), Some(from), "a view has it");
        }
        let mut row = Vec::new();
        assert!(a.source.read_row(&early, from, &[0, 1, 2, 3], &mut row));
        assert_eq!(line(&row), was);
        let mut txn = a.gateway.begin();
        assert!(a.hold(&mut *txn, Ts::LATEST, &[from]).expect("it is known").is_empty());
        txn.abort();
        let mut txn = a.gateway.begin();
        let unknown = a.hold(&mut *txn, Ts::LATEST, &[RowId(77)]);
        assert!(matches!(unknown, Err(WriteStop::Gone)), "{unknown:?}");
    }
}

/// What is asked: each kind of question, of a table with these indexes.
fn questions(place: &Place, table: &dyn Table, known: &[RowId]) -> Vec<(Option<usize>, Asked)> {
    let mut questions = Vec::new();
    for index in 0..table.layout().indexes.len() {
        let key = |number: i64| place.key(table, index, number);
        let base = if index == 1 && table.layout().indexes.len() == 3 { 1_000 } else { 0 };
        let exactly = |number| KeyRange::exactly(&key(base + number));
        let between = KeyRange {
            lower: Bound::Excluded(key(base + 1)),
            upper: Bound::Included(key(base + 6)),
        };
        for ranges in [
            vec![],
            vec![exactly(1)],
            vec![exactly(2), exactly(0), exactly(2), exactly(99), exactly(5), exactly(7)],
            vec![exactly(3), between.clone()],
            vec![KeyRange::all(), between, KeyRange::prefix(key(base + 1))],
        ] {
            questions.push((Some(index), Asked::Ranges(ranges)));
        }
    }
    for rows in [vec![], vec![known[0]], known.to_vec(), [known, &known[..2]].concat()] {
        questions.push((None, Asked::Rows(rows)));
    }
    questions.push((None, Asked::Rows(vec![known[1], RowId(77), known[0]])));
    questions
}

enum Asked {
    Ranges(Vec<KeyRange>),
    Rows(Vec<RowId>),
}

fn ask<'a>((index, asked): &'a (Option<usize>, Asked), projection: &'a [usize]) -> Ask<'a> {
    let which = match asked {
        Asked::Ranges(ranges) => Which::Ranges(index.expect("of an index"), ranges),
        Asked::Rows(rows) => Which::Rows(rows),
    };
    Ask { which, projection }
}

#[test]
fn two_tables_asked_at_once_answer_as_each_does_alone() {
    for keyed in KEYED {
        let (ranges, a, b) = gateways();
        let (a, b) = (Place::new(&a, keyed), Place::new(&b, keyed));
        a.fill(&some(9));
        ranges.split_at(&prefix(target(FIRST)));
        assert!(move_alone(&b, &b.gateway.now(), &[1, 5, 6]));
        let mut txn = a.gateway.begin();
        a.take_all(&mut *txn, &[2]);
        a.update(&mut *txn, FIRST, 3, (2, 50)).expect("nobody is in the way");
        a.update(&mut *txn, FIRST, 5, (1, 1_099)).expect("nobody is in the way");
        a.delete(&mut *txn, 6).expect("nobody is in the way");
        a.delete(&mut *txn, 7).expect("nobody is in the way");
        let fresh = a.gateway.now();
        for view in [&**txn.snapshot(), &*fresh] {
            let sources: Vec<RowId> =
                (0..9).filter_map(|id| Some(a.left_there(&fresh, id)?.0)).collect();
            let there = questions(&a, &*a.source, &sources);
            for n in BOTH {
                let table = &*a.targets[n];
                let made: Vec<RowId> =
                    (0..9).filter_map(|id| Some(a.find(&fresh, n, id)?.0)).collect();
                let here = questions(&a, table, &made);
                for (x, here) in here.iter().enumerate() {
                    for (y, there) in there.iter().enumerate() {
                        let (here, there) = (ask(here, &[1, 0]), ask(there, &[3, 0, 3]));
                        let alone = (here.of(table, view), there.of(&*a.source, view));
                        let both = moving(table).ask_both(view, here, &*a.source, there);
                        assert_eq!(both, alone, "{x} and {y} of {n}, keyed {keyed:?}");
                    }
                    let (here, there) = (ask(here, &[]), ask(&there[x % there.len()], &[]));
                    let alone = (there.of(&*a.source, view), here.of(table, view));
                    let both = moving(&*a.source).ask_both(view, there, table, here);
                    assert_eq!(both, alone, "{x} of {n}, the other way round");
                }
            }
        }
    }
}

/// A target is closed, and what happens there is over.
fn check_closed(places: [&Place; 2], at_close: &State, f: Ts) {
    for place in places {
        let view = place.gateway.now();
        let rows: Vec<_> = at_close.source.keys().map(|id| place.left(&view, *id)).collect();
        for row in rows.iter().take(2) {
            is_replaced(place.move_alone(&view, std::slice::from_ref(row)));
            let (mut txn, mut held) = (place.gateway.begin(), Vec::new());
            let holding = place.gateway.patiently(|| {
                held = place.hold(&mut *txn, Ts::LATEST, &[row.0])?;
                Ok(())
            });
            holding.expect("who was in the way gives up");
            assert_eq!(held.len(), 1);
            is_replaced(place.move_out(&mut *txn, &held));
        }
        let closed = place.clone().past_fences();
        assert_eq!(closed.state(&place.gateway.now()), *at_close, "nothing came after {f}");
    }
}

#[test]
fn nothing_moves_into_a_target_after_it_was_closed() {
    for which in BOTH {
        let (_ranges, a, b) = gateways();
        let (a, b) = (Place::new(&a, (true, false)), Place::new(&b, (true, false)));
        let lines = some(8);
        a.fill(&lines);
        assert!(move_alone(&b, &b.gateway.now(), &[0, 1]));
        let mut late = b.gateway.begin();
        b.take_all(&mut *late, &[2]);
        let f = a.gateway.close(1, &[target(which)]).expect("nobody is in the way");
        is_replaced(b.gateway.commit(late));
        check_closed([&a, &b], &state(&lines, |id| id < 2), f);
    }
}

#[test]
fn moves_that_are_in_the_midst_are_waited_for() {
    for is_in_one_view in [false, true] {
        let (_ranges, a, b) = gateways();
        let (a, b) = (Place::new(&a, (true, true)), Place::new(&b, (true, true)));
        let lines = some(8);
        a.fill(&lines);
        let before = b.gateway.way.asked("KvPrewrite");
        let view = b.gateway.now();
        b.gateway.way.on_next("KvPrewrite", Fault::Delay(Duration::from_millis(2_000)));
        let moves = thread::spawn({
            let (b, view) = (b.clone(), view.clone());
            move || move_alone(&b, &view, &[0, 1])
        });
        wait_until("it prewrites", || b.gateway.way.asked("KvPrewrite") > before);
        // One that goes by meanwhile.
        let other = if is_in_one_view { view } else { b.gateway.now() };
        assert!(move_alone(&b, &other, &[2]));
        let f = a.gateway.close(1, &[target(FIRST)]).expect("nobody is in the way for long");
        let closed = a.clone().past_fences();
        let at_close = closed.state(&at(f));
        let moved = moves.join().expect("no panic");
        assert!(moved, "it is waited for");
        assert_eq!(at_close, state(&lines, |id| id <= 2), "they are before {f}");
        check_closed([&a, &b], &at_close, f);
    }
}

#[test]
fn a_move_that_began_before_its_gateway_was_gone_is_none() {
    let (ranges, a, b) = gateways();
    let (a, b) = (Place::new(&a, (true, true)), Place::new(&b, (true, true)));
    let lines = some(6);
    a.fill(&lines);
    let before = b.gateway.way.asked("KvPrewrite");
    b.gateway.way.on_next("KvPrewrite", Fault::Delay(Duration::from_millis(3_500)));
    let moves = thread::spawn({
        let b = b.clone();
        move || {
            let view = b.gateway.now();
            let rows = vec![b.left(&view, 0), b.left(&view, 1)];
            b.move_alone(&view, &rows)
        }
    });
    wait_until("it prewrites", || b.gateway.way.asked("KvPrewrite") > before);
    for _ in 0..20 {
        b.gateway.way.on_next("keep_lease", Fault::LoseRequest);
    }
    ranges.advance(LEASE_MS);
    let f = insist("closing", || a.gateway.close(1, &[target(FIRST)]));
    let moved = moves.join().expect("no panic");
    assert!(!matches!(moved, Ok(true)), "it comes too late: {moved:?}");
    let left = state(&lines, |_| false);
    let closed = a.clone().past_fences();
    assert_eq!(closed.state(&at(f)), left);
    check_closed([&a, &b], &left, f);
}

#[test]
fn what_a_gateway_that_died_has_moved_is_moved_or_left() {
    let (ranges, a, c) = gateways();
    let deaf = gateway(&ranges, "c");
    let (a, b, c) = (
        Place::new(&a, (true, true)),
        Place::new(&c, (true, true)),
        Place::new(&deaf, (true, true)),
    );
    let lines = some(12);
    a.fill(&lines);
    // Held; moved; prewritten; and committed, but for what is done behind its back.
    let mut held = c.gateway.begin();
    c.take_all(&mut *held, &[0, 1]);
    let mut prewritten = c.gateway.begin();
    c.take_all(&mut *prewritten, &[2, 3]);
    c.gateway.reserve(&mut *prewritten).expect("nobody is in the way");
    c.gateway.way.on_next("KvCommit", Fault::None);
    for _ in 0..200 {
        c.gateway.way.on_next("KvCommit", Fault::LoseRequest);
    }
    assert!(move_alone(&c, &c.gateway.now(), &[4, 5]));
    assert_eq!(b.state(&b.gateway.now()), state(&lines, |id| [4, 5].contains(&id)));
    c.gateway.way.cut_off(true);
    drop((held, prewritten, c, deaf));
    assert!(!move_alone(&a, &a.gateway.now(), &[0]), "it may live");
    ranges.advance(LEASE_MS + 30_000);
    for id in [0, 3, 6] {
        insist("moving", || {
            let view = a.gateway.now();
            match a.move_alone(&view, &[a.left(&view, id)])? {
                true => Ok(()),
                false => Err(in_the_way()),
            }
        });
    }
    let should = state(&lines, |id| [0, 3, 4, 5, 6].contains(&id));
    for place in [&a, &b] {
        assert_eq!(place.state(&place.gateway.now()), should);
    }
    check_keys(&a.gateway, &should);
}
