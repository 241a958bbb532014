//! Writers that meet.

use froglet_engine::{Engine, Ts, Value, WriteStop};

use crate::support::*;

fn n(value: i64) -> [Value; 1] {
    [Value::Int64(value)]
}

#[test]
fn the_first_updater_wins() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let (mut one, mut two) = (db.begin(), db.begin());
    update(&*db.table, &mut *one, rid, &[2], &n(11)).expect("free");
    let holder = one.id();
    assert!(matches!(
        update(&*db.table, &mut *two, rid, &[2], &n(12)),
        Err(WriteStop::Busy { holder: h }) if h == holder
    ));
    one.pre_commit();
    assert!(matches!(delete(&*db.table, &mut *two, rid), Err(WriteStop::Busy { .. })));
    let _ = one.post_commit().expect("a commit succeeds");
    assert!(matches!(update(&*db.table, &mut *two, rid, &[2], &n(12)), Err(WriteStop::Changed)));
    two.refresh();
    update(&*db.table, &mut *two, rid, &[2], &n(12)).expect("read again");
    commit(two);
    assert_eq!(db.row(rid), Some(account(1, "ann", 12)));
}

#[test]
fn a_row_deleted_meanwhile_is_gone() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let mut two = db.begin();
    let mut one = db.begin();
    delete(&*db.table, &mut *one, rid).expect("free");
    assert!(matches!(update(&*db.table, &mut *one, rid, &[2], &n(1)), Err(WriteStop::Gone)));
    assert!(matches!(lock(&*db.table, &mut *one, rid), Err(WriteStop::Gone)));
    commit(one);
    assert!(matches!(update(&*db.table, &mut *two, rid, &[2], &n(12)), Err(WriteStop::Gone)));
    two.refresh();
    assert!(matches!(update(&*db.table, &mut *two, rid, &[2], &n(12)), Err(WriteStop::Gone)));
}

#[test]
fn an_aborted_write_is_no_conflict() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let (mut one, mut two) = (db.begin(), db.begin());
    update(&*db.table, &mut *one, rid, &[2], &n(11)).expect("free");
    one.abort();
    update(&*db.table, &mut *two, rid, &[2], &n(12)).expect("the other aborted");
    assert_eq!(db.row(rid), Some(account(1, "ann", 10)));
    commit(two);
    assert_eq!(db.row(rid), Some(account(1, "ann", 12)));
}

#[test]
fn a_lock_holds_the_row_and_changes_nothing() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let (mut one, mut two) = (db.begin(), db.begin());
    lock(&*db.table, &mut *one, rid).expect("free");
    lock(&*db.table, &mut *one, rid).expect("held");
    assert!(one.wrote());
    assert!(matches!(
        update(&*db.table, &mut *two, rid, &[2], &n(12)),
        Err(WriteStop::Busy { .. })
    ));
    assert_eq!(db.row(rid), Some(account(1, "ann", 10)));
    commit(one);
    // What was derived from the row before the lock still holds.
    update(&*db.table, &mut *two, rid, &[2], &n(12)).expect("a committed lock is no change");
    commit(two);
    assert_eq!(db.row(rid), Some(account(1, "ann", 12)));
}

#[test]
fn retreat_goes_on_as_if_nothing_had_been() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let mut one = db.begin();
    update(&*db.table, &mut *one, rid, &[2], &n(11)).expect("free");
    let first = one.pre_commit();
    one.retreat();
    assert_eq!(db.row(rid), Some(account(1, "ann", 10)));
    update(&*db.table, &mut *one, rid, &[2], &n(12)).expect("own");
    let second = one.pre_commit();
    assert!(second > first);
    let _ = one.post_commit().expect("a commit succeeds");
    assert_eq!(db.row(rid), Some(account(1, "ann", 12)));
}

#[test]
fn an_unfinished_change_of_a_column_has_a_changer() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let nobody = froglet_engine::TxnId(0);
    let mut one = db.begin();
    assert_eq!(db.table.changer(rid, &[0], nobody), None);
    lock(&*db.table, &mut *one, rid).expect("free");
    update(&*db.table, &mut *one, rid, &[2], &n(11)).expect("own");
    assert_eq!(db.table.changer(rid, &[0], nobody), None);
    assert_eq!(db.table.changer(rid, &[0, 2], nobody), Some(one.id()));
    assert_eq!(db.table.changer(rid, &[2], one.id()), None);
    delete(&*db.table, &mut *one, rid).expect("own");
    assert_eq!(db.table.changer(rid, &[0], nobody), Some(one.id()));
    commit(one);
    assert_eq!(db.table.changer(rid, &[0], nobody), None);
}

#[test]
fn values_of_another_type_are_refused() {
    let db = Db::new();
    let mut txn = db.begin();
    let row = vec![Value::text("no"), Value::Null, Value::Null];
    assert!(matches!(insert(&*db.table, &mut *txn, row), Err(WriteStop::Engine(_))));
    assert!(!txn.wrote());
    assert_eq!(db.engine.spaces(), vec![SPACE]);
    let _ = Ts::LATEST;
}
