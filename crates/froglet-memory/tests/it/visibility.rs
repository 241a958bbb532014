//! Who sees what.

use froglet_engine::{Engine, Savepoint, TxnId, Value};

use crate::support::*;

#[test]
fn a_commit_is_seen_by_later_snapshots_and_not_by_earlier_ones() {
    let db = Db::new();
    let before = db.engine.snapshot();
    let rids = db.insert(&[account(1, "ann", 10), account(2, &long(2), 20)]);
    let after = db.engine.snapshot();
    assert_eq!(read(&*db.table, &before, rids[0]), None);
    assert_eq!(db.scan(&before), Vec::<Vec<Value>>::new());
    assert_eq!(read(&*db.table, &after, rids[1]), Some(account(2, &long(2), 20)));
    assert_eq!(db.scan(&after), vec![account(1, "ann", 10), account(2, &long(2), 20)]);

    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rids[0], &[1, 2], &[Value::text(long(1)), Value::Null])
        .expect("free");
    delete(&*db.table, &mut *txn, rids[1]).expect("free");
    // Own writes are visible to their transaction and to nobody else.
    assert_eq!(read(&*db.table, txn.snapshot(), rids[1]), None);
    let own = vec![vec![Value::Int64(1), Value::text(long(1)), Value::Null]];
    assert_eq!(db.scan(txn.snapshot()), own);
    assert_eq!(
        db.scan(&db.engine.snapshot()),
        vec![account(1, "ann", 10), account(2, &long(2), 20)]
    );
    commit(txn);
    assert_eq!(db.scan(&after), vec![account(1, "ann", 10), account(2, &long(2), 20)]);
    assert_eq!(db.scan(&before), Vec::<Vec<Value>>::new());
    assert_eq!(db.scan(&db.engine.snapshot()), own);
    drop((before, after));
    db.engine.collect_garbage();
    assert_eq!(db.scan(&db.engine.snapshot()), own);
}

#[test]
fn an_abort_leaves_nothing() {
    let db = Db::new();
    let rids = db.insert(&[account(1, &long(1), 10), account(2, "bob", 20)]);
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rids[0], &[1], &[Value::text("short")]).expect("free");
    update(&*db.table, &mut *txn, rids[0], &[0, 1], &[Value::Int64(9), Value::Null]).expect("own");
    delete(&*db.table, &mut *txn, rids[1]).expect("free");
    let new = insert(&*db.table, &mut *txn, account(3, "cat", 30)).expect("free");
    txn.abort();
    let all = vec![account(1, &long(1), 10), account(2, "bob", 20)];
    assert_eq!(db.scan(&db.engine.snapshot()), all);
    assert_eq!(db.row(new), None);
    db.engine.collect_garbage();
    assert_eq!(db.scan(&db.engine.snapshot()), all);
    // A transaction that is dropped is aborted.
    let mut txn = db.begin();
    delete(&*db.table, &mut *txn, rids[0]).expect("free");
    drop(txn);
    assert_eq!(db.scan(&db.engine.snapshot()), all);
}

#[test]
fn a_savepoint_is_rolled_back_to() {
    let db = Db::new();
    let rids = db.insert(&[account(1, "ann", 10), account(2, "bob", 20)]);
    let mut txn = db.begin();
    assert_eq!(txn.savepoint(), Savepoint(0));
    update(&*db.table, &mut *txn, rids[0], &[2], &[Value::Int64(11)]).expect("free");
    let point = txn.savepoint();
    update(&*db.table, &mut *txn, rids[0], &[2], &[Value::Int64(12)]).expect("own");
    update(&*db.table, &mut *txn, rids[1], &[1], &[Value::text(long(2))]).expect("free");
    insert(&*db.table, &mut *txn, account(3, "cat", 30)).expect("free");
    txn.rollback_to(point);
    assert_eq!(db.scan(txn.snapshot()), vec![account(1, "ann", 11), account(2, "bob", 20)]);
    assert_eq!(txn.rows_written(SPACE), vec![rids[0]]);
    // The row that was given up can be written by others, the one that was kept can not.
    let mut other = db.begin();
    update(&*db.table, &mut *other, rids[1], &[2], &[Value::Int64(21)]).expect("given up");
    assert!(update(&*db.table, &mut *other, rids[0], &[2], &[Value::Int64(0)]).is_err());
    commit(other);
    update(&*db.table, &mut *txn, rids[0], &[2], &[Value::Int64(13)]).expect("own");
    commit(txn);
    let all = vec![account(1, "ann", 13), account(2, "bob", 21)];
    assert_eq!(db.scan(&db.engine.snapshot()), all);
    db.engine.collect_garbage();
    assert_eq!(db.scan(&db.engine.snapshot()), all);
}

#[test]
fn a_row_inserted_and_deleted_by_one_transaction_was_never_there() {
    let db = Db::new();
    let mut txn = db.begin();
    let rid = insert(&*db.table, &mut *txn, account(1, "ann", 10)).expect("free");
    delete(&*db.table, &mut *txn, rid).expect("own");
    // The key is free again at once.
    let again = insert(&*db.table, &mut *txn, account(1, "bob", 11)).expect("free");
    assert_ne!(rid, again);
    commit(txn);
    assert_eq!(db.scan(&db.engine.snapshot()), vec![account(1, "bob", 11)]);
    db.engine.collect_garbage();
    assert_eq!(insert(&*db.table, &mut *db.begin(), account(5, "eve", 0)).expect("free"), rid);
}

#[test]
fn a_fresh_view_is_of_one_time_and_sees_own_writes() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let before = db.engine.fresh(TxnId(0));
    assert_eq!(before.ts, db.engine.now());
    let mut txn = db.begin();
    let own = db.engine.fresh(txn.id());
    update(&*db.table, &mut *txn, rid, &[2], &[Value::Int64(11)]).expect("free");
    assert_eq!(read(&*db.table, &before, rid), Some(account(1, "ann", 10)));
    assert_eq!(read(&*db.table, &own, rid), Some(account(1, "ann", 11)));
    commit(txn);
    assert_eq!(read(&*db.table, &before, rid), Some(account(1, "ann", 10)));
    assert!(db.table.changed_since(rid, before.ts), "who took a view may ask what became of it");
    db.engine.collect_garbage();
    assert_eq!(db.scan(&before), vec![account(1, "ann", 10)], "it is registered");
    assert_eq!(db.scan(&db.engine.fresh(TxnId(0))), vec![account(1, "ann", 11)]);
}

#[test]
fn a_refreshed_transaction_sees_what_was_committed_meanwhile() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let mut txn = db.begin();
    let kept = txn.snapshot().clone();
    let mut other = db.begin();
    update(&*db.table, &mut *other, rid, &[2], &[Value::Int64(11)]).expect("free");
    commit(other);
    assert_eq!(read(&*db.table, txn.snapshot(), rid), Some(account(1, "ann", 10)));
    txn.refresh();
    assert_eq!(read(&*db.table, txn.snapshot(), rid), Some(account(1, "ann", 11)));
    assert_eq!(read(&*db.table, &kept, rid), Some(account(1, "ann", 10)));
    assert_eq!(db.engine.oldest_snapshot(), kept.ts);
    drop(kept);
    txn.refresh();
    assert_eq!(db.engine.oldest_snapshot(), txn.snapshot().ts);
}

#[test]
fn many_blocks_are_scanned_whole() {
    let db = Db::new();
    let rows: Vec<_> = (0..20_000)
        .map(|i| account(i, &if i % 3 == 0 { long(i) } else { "x".into() }, -i))
        .collect();
    let rids = db.insert(&rows);
    assert_eq!(db.table.block_count(), 3);
    assert_eq!(db.scan(&db.engine.snapshot()), rows);
    db.engine.collect_garbage();
    assert_eq!(db.scan(&db.engine.snapshot()), rows, "bulk copy");
    let mut txn = db.begin();
    rids.iter().step_by(2).for_each(|rid| delete(&*db.table, &mut *txn, *rid).expect("free"));
    let half: Vec<_> = rows.iter().skip(1).step_by(2).cloned().collect();
    assert_eq!(db.scan(txn.snapshot()), half);
    assert_eq!(db.scan(&db.engine.snapshot()), rows);
    commit(txn);
    assert_eq!(db.scan(&db.engine.snapshot()), half);
    db.engine.collect_garbage();
    assert_eq!(db.scan(&db.engine.snapshot()), half, "bulk copy with gaps");
}

#[test]
fn a_slot_used_again_shows_nothing_of_its_old_row() {
    let db = Db::new();
    let mut wide = froglet_engine::Layout::clone(&accounts());
    wide.columns.push(column(4, froglet_engine::ColumnType::Text));
    wide.columns.push(froglet_engine::ColumnSpec {
        id: froglet_engine::ColumnId(5),
        ty: froglet_engine::ColumnType::Int64,
        missing: Value::Int64(55),
    });
    let new = db.engine.open(SPACE, wide.into()).expect("opens");
    let mut row = account(1, "ann", 10);
    row.extend([Value::text(long(1)), Value::Int64(66)]);
    let mut txn = db.begin();
    let rid = insert(&*new, &mut *txn, row.clone()).expect("free");
    commit(txn);
    assert_eq!(read(&*new, &db.engine.snapshot(), rid), Some(row));
    let mut txn = db.begin();
    delete(&*db.table, &mut *txn, rid).expect("free");
    commit(txn);
    db.engine.collect_garbage();
    // Its writer does not know the new columns: the row has their missing values.
    let again = db.insert(&[account(2, "bob", 20)])[0];
    assert_eq!(again, rid);
    let mut want = account(2, "bob", 20);
    want.extend([Value::Null, Value::Int64(55)]);
    assert_eq!(read(&*new, &db.engine.snapshot(), rid), Some(want.clone()));
    assert_eq!(scan(&*new, &db.engine.snapshot()), vec![want]);
}

#[test]
fn an_own_lock_is_no_version() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "ann", 10)])[0];
    let mut txn = db.begin();
    let kept = txn.snapshot().clone();
    let mut other = db.begin();
    update(&*db.table, &mut *other, rid, &[2], &[Value::Int64(11)]).expect("free");
    commit(other);
    txn.refresh();
    lock(&*db.table, &mut *txn, rid).expect("free");
    assert_eq!(read(&*db.table, txn.snapshot(), rid), Some(account(1, "ann", 11)));
    assert_eq!(read(&*db.table, &kept, rid), Some(account(1, "ann", 10)), "as before the lock");
}
