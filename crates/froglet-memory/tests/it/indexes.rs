//! Index entries follow the rows; uniqueness.

use std::ops::ControlFlow;

use froglet_engine::{Direction, Engine, IndexId, KeyRange, Value, WriteStop};

use crate::support::*;

#[test]
fn a_unique_key_is_taken_once() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let mut one = db.begin();
    assert!(matches!(
        insert(&*db.table, &mut *one, account(1, "bob", 0)),
        Err(WriteStop::Duplicate { index: IndexId(1), other }) if other == rid
    ));
    // Nothing was half done.
    assert!(!one.wrote());
    let two_rid = insert(&*db.table, &mut *one, account(2, "bob", 0)).expect("free");
    let mut two = db.begin();
    let holder = one.id();
    assert!(matches!(
        insert(&*db.table, &mut *two, account(2, "cat", 0)),
        Err(WriteStop::Busy { holder: h }) if h == holder
    ));
    assert!(matches!(
        update(&*db.table, &mut *one, two_rid, &[0], &[Value::Int64(1)]),
        Err(WriteStop::Duplicate { .. })
    ));
    one.abort();
    insert(&*db.table, &mut *two, account(2, "cat", 0)).expect("the other aborted");
    commit(two);
    assert_eq!(db.scan(&db.engine.snapshot()), vec![account(1, "ann", 10), account(2, "cat", 0)]);
}

#[test]
fn a_key_that_is_unique_at_the_commit_may_be_shared_and_its_rivals_are_told() {
    let mut layout = froglet_engine::Layout::clone(&accounts());
    layout.indexes[0].unique = false;
    layout.indexes[0].unique_at_commit = true;
    let db = Db::with(layout.into(), froglet_memory::MemoryOptions::default());
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let rival = |own: &dyn froglet_engine::EngineTxn, row| db.table.rival(own.id(), 0, row);

    let (mut one, mut two) = (db.begin(), db.begin());
    let bob = insert(&*db.table, &mut *one, account(1, "bob", 0)).expect("not asked");
    assert!(matches!(
        rival(&*one, bob),
        Some(WriteStop::Duplicate { index: IndexId(1), other }) if other == rid
    ));
    let cat = insert(&*db.table, &mut *two, account(2, "cat", 0)).expect("not asked");
    assert!(rival(&*two, cat).is_none(), "alone");
    update(&*db.table, &mut *one, bob, &[0], &[Value::Int64(2)]).expect("own");
    let (first, second) = (one.id(), two.id());
    assert!(matches!(rival(&*one, bob), Some(WriteStop::Busy { holder }) if holder == second));
    assert!(matches!(rival(&*two, cat), Some(WriteStop::Busy { holder }) if holder == first));
    commit(two);
    assert!(matches!(rival(&*one, bob), Some(WriteStop::Duplicate { other, .. }) if other == cat));
    // Rows that change keys with each other have none in common.
    update(&*db.table, &mut *one, bob, &[0], &[Value::Int64(1)]).expect("own");
    update(&*db.table, &mut *one, rid, &[0], &[Value::Int64(3)]).expect("free");
    assert!(rival(&*one, bob).is_none() && rival(&*one, rid).is_none());
    delete(&*db.table, &mut *one, bob).expect("own");
    assert!(rival(&*one, bob).is_none(), "gone");
    one.abort();

    // Who enters rows that are there already tells of those that share a key.
    let both = db.insert(&[account(5, "dan", 0), account(5, "eve", 0)]);
    let mut duplicates = Vec::new();
    db.table.index_block(next_id(), 0, 0, &mut duplicates).expect("indexed");
    assert_eq!(duplicates, [(both[0], both[1]), (both[1], both[0])]);
}

#[test]
fn a_key_that_an_unfinished_delete_would_free_is_busy() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let mut one = db.begin();
    delete(&*db.table, &mut *one, rid).expect("free");
    let mut two = db.begin();
    assert!(matches!(
        insert(&*db.table, &mut *two, account(1, "bob", 0)),
        Err(WriteStop::Busy { .. })
    ));
    insert(&*db.table, &mut *one, account(1, "new", 0)).expect("own delete");
    commit(one);
    assert!(matches!(
        insert(&*db.table, &mut *two, account(1, "bob", 0)),
        Err(WriteStop::Duplicate { .. })
    ));
    let mut three = db.begin();
    let mut rids = Vec::new();
    db.table.seek(
        three.snapshot(),
        0,
        &exactly(&*db.table, 0, &[Value::Int64(1)]),
        Direction::Forward,
        &[],
        &mut |rid, _| {
            rids.push(rid);
            ControlFlow::Continue(())
        },
    );
    update(&*db.table, &mut *three, rids[0], &[0], &[Value::Int64(5)]).expect("free");
    assert!(matches!(
        insert(&*db.table, &mut *two, account(1, "bob", 0)),
        Err(WriteStop::Busy { .. })
    ));
    commit(three);
    insert(&*db.table, &mut *two, account(1, "bob", 0)).expect("moved away");
}

#[test]
fn null_keys_are_never_duplicates() {
    let layout = froglet_engine::Layout {
        columns: accounts().columns.clone(),
        indexes: vec![index(9, &[1, 3], true)],
        row_key: None,
    };
    let db = Db::with(layout.into(), Default::default());
    let row = vec![Value::Int64(1), Value::Null, Value::Null];
    db.insert(&[row.clone(), row.clone()]);
    assert_eq!(
        seek(&*db.table, &db.engine.snapshot(), 0, &KeyRange::all(), Direction::Forward).len(),
        2
    );
    let mut txn = db.begin();
    insert(&*db.table, &mut *txn, account(1, "a", 1)).expect("free");
    assert!(insert(&*db.table, &mut *txn, account(1, "b", 1)).is_err());
}

#[test]
fn seek_gives_each_visible_row_once_in_key_order() {
    let db = Db::new();
    let rids = db.insert(&(0..100).map(|i| account(i, "x", 100 - i)).collect::<Vec<_>>());
    let old = db.engine.snapshot();
    let mut txn = db.begin();
    for (i, rid) in rids.iter().enumerate().skip(1) {
        // Same key again, and a chain of keys.
        update(&*db.table, &mut *txn, *rid, &[2], &[Value::Int64(1000 + i as i64)]).expect("free");
        update(&*db.table, &mut *txn, *rid, &[2], &[Value::Int64(i as i64)]).expect("own");
    }
    delete(&*db.table, &mut *txn, rids[0]).expect("free");
    let by_n = |snapshot: &froglet_engine::Snapshot, direction| {
        let rows = seek(&*db.table, snapshot, 1, &KeyRange::all(), direction);
        rows.into_iter().map(|row| (row[2].clone(), row[0].clone())).collect::<Vec<_>>()
    };
    let before: Vec<_> = (0..100).rev().map(|i| (Value::Int64(100 - i), Value::Int64(i))).collect();
    let after: Vec<_> = (1..100).map(|i| (Value::Int64(i), Value::Int64(i))).collect();
    assert_eq!(by_n(txn.snapshot(), Direction::Forward), after);
    assert_eq!(by_n(&old, Direction::Forward), before);
    commit(txn);
    db.engine.collect_garbage();
    assert_eq!(by_n(&old, Direction::Forward), before, "a snapshot keeps its entries");
    let new = db.engine.snapshot();
    assert_eq!(by_n(&new, Direction::Forward), after);
    assert_eq!(by_n(&new, Direction::Backward), after.into_iter().rev().collect::<Vec<_>>());
    drop(old);
    db.engine.collect_garbage();
    let range = exactly(&*db.table, 1, &[Value::Int64(7)]);
    assert_eq!(seek(&*db.table, &new, 1, &range, Direction::Forward), vec![account(7, "x", 7)]);
}

#[test]
fn entries_lead_to_every_row_that_a_snapshot_may_see() {
    let db = Db::new();
    let rids = db.insert(&[account(1, "ann", 10), account(2, "bob", 20), account(3, "cat", 30)]);
    let before = db.engine.snapshot();
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rids[0], &[2], &[Value::Int64(35)]).expect("free");
    delete(&*db.table, &mut *txn, rids[1]).expect("free");
    commit(txn);
    let entries = |n: i64, direction| {
        let mut found = Vec::new();
        db.table.seek_entries(
            1,
            &exactly(&*db.table, 1, &[Value::Int64(n)]),
            direction,
            &mut |rid| {
                found.push(rid);
                ControlFlow::Continue(())
            },
        );
        found
    };
    for direction in [Direction::Forward, Direction::Backward] {
        // What only an older snapshot sees, too.
        assert_eq!(entries(10, direction), [rids[0]]);
        assert_eq!(entries(20, direction), [rids[1]]);
        assert_eq!(entries(35, direction), [rids[0]]);
        assert_eq!(entries(11, direction), []);
        let mut first = Vec::new();
        db.table.seek_entries(1, &KeyRange::all(), direction, &mut |rid| {
            first.push(rid);
            ControlFlow::Break(())
        });
        assert_eq!(first.len(), 1, "it can be ended");
    }
    drop(before);
}

#[test]
fn rolled_back_keys_leave_the_index() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let entries = || {
        let table = db.table.as_any().downcast_ref::<froglet_memory::MemoryTable>().expect("ours");
        (table.index_entries(0), table.index_entries(1))
    };
    assert_eq!(entries(), (1, 1));
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rid, &[2], &[Value::Int64(11)]).expect("free");
    let point = txn.savepoint();
    update(&*db.table, &mut *txn, rid, &[2], &[Value::Int64(12)]).expect("own");
    update(&*db.table, &mut *txn, rid, &[2], &[Value::Int64(13)]).expect("own");
    insert(&*db.table, &mut *txn, account(2, "bob", 20)).expect("free");
    assert_eq!(entries(), (2, 5));
    txn.rollback_to(point);
    assert_eq!(entries(), (2, 3), "an insert's entries go with its slot");
    txn.abort();
    db.engine.collect_garbage();
    assert_eq!(entries(), (1, 1));
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rid, &[2], &[Value::Int64(11)]).expect("free");
    commit(txn);
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rid, &[2], &[Value::Int64(10)]).expect("free");
    commit(txn);
    db.engine.collect_garbage();
    assert_eq!(entries(), (1, 1));
    let mut txn = db.begin();
    delete(&*db.table, &mut *txn, rid).expect("free");
    commit(txn);
    db.engine.collect_garbage();
    assert_eq!(entries(), (0, 0));
}
