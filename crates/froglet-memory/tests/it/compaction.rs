//! Compaction: rows move to other places, and nobody sees them twice or not at all.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use froglet_engine::batch::value_at;
use froglet_engine::env::MemEnv;
use froglet_engine::{ColumnType, Direction, Engine, KeyRange, Row, TxnId, Value, WriteStop};
use froglet_memory::{FreezeOptions, MemoryOptions, MemoryTable};

use crate::support::*;

fn options() -> MemoryOptions {
    let freeze =
        FreezeOptions { after: Some(Duration::ZERO), threads: 0, ..FreezeOptions::default() };
    MemoryOptions { collector_thread: false, freeze, ..MemoryOptions::default() }
}

fn accounts_of(ids: impl Iterator<Item = i64>) -> Vec<Row> {
    ids.map(|i| account(i, &long(i), i % 50)).collect()
}

/// Collects until no version is left.
fn collect_all(db: &Db) {
    db.engine.make_durable(db.engine.appended()).expect("durable");
    let end = Instant::now() + Duration::from_secs(20);
    while db.engine.block_counts(SPACE).versions > 0 {
        assert!(Instant::now() < end, "{:?}", db.engine.block_counts(SPACE));
        db.engine.collect_garbage();
    }
}

/// Three whole blocks and a little, of which only some rows are left.
fn sparse(db: &Db, stays: impl Fn(i64) -> bool) -> Vec<Row> {
    let rows = accounts_of(0..25_000);
    let rids = db.insert(&rows);
    let mut txn = db.begin();
    for (id, rid) in rids.iter().enumerate().filter(|(id, _)| !stays(*id as i64)) {
        delete(&*db.table, &mut *txn, *rid).unwrap_or_else(|stop| panic!("row {id}: {stop:?}"));
    }
    commit(txn);
    collect_all(db);
    rows.into_iter().enumerate().filter(|(id, _)| stays(*id as i64)).map(|(_, row)| row).collect()
}

fn by_index(db: &Db, index: usize) -> Vec<Row> {
    let mut rows =
        seek(&*db.table, &db.engine.snapshot(), index, &KeyRange::all(), Direction::Forward);
    rows.sort_by_key(|row| if let Value::Int64(id) = row[0] { id } else { 0 });
    rows
}

fn row_blocks(db: &Db) -> BTreeSet<u32> {
    let view = db.engine.snapshot();
    let has_rows =
        |block: &u32| !db.table.read_block(&view, *block, &[]).expect("read").rids.is_empty();
    (0..db.table.block_count()).filter(has_rows).collect()
}

fn assert_whole(db: &Db, want: &[Row]) {
    assert_eq!(db.scan(&db.engine.snapshot()), want);
    assert_eq!(by_index(db, 0), want);
    assert_eq!(by_index(db, 1), want);
}

#[test]
fn sparse_blocks_become_few_and_their_memory_comes_back() {
    let db = Db::with(accounts(), options());
    let want = sparse(&db, |id| id % 4 == 1);
    let before = db.engine.memory().0;
    assert_eq!(row_blocks(&db).len(), 4);
    let moved = move_rows(&db);
    // The optimum: what was among the first 6,250 places of the block that is filled has stayed.
    assert_eq!(moved, 25_000 / 4 - 6_250 / 4 - 1);
    assert_whole(&db, &want);
    collect_all(&db);
    assert_whole(&db, &want);
    assert_eq!(row_blocks(&db).len(), 1);
    assert_eq!(db.table.plan_moves(false), vec![], "there is nothing left to gain");
    let table = db.table.as_any().downcast_ref::<MemoryTable>().expect("ours");
    assert_eq!(table.index_entries(0), want.len());
    assert_eq!(table.index_entries(1), want.len());
    // What other tests' threads may still look at is freed when they have moved on.
    let end = Instant::now() + Duration::from_secs(20);
    while db.engine.memory().0 >= before {
        assert!(Instant::now() < end, "{before} bytes, then {}", db.engine.memory().0);
        db.engine.collect_garbage();
    }
    // The places are handed out again before new blocks are made.
    let more = accounts_of(100_000..118_000);
    db.insert(&more);
    assert_eq!(db.table.block_count(), 4);
    let all: Vec<Row> = want.into_iter().chain(more).collect();
    assert_whole(&db, &all);
}

#[test]
fn a_frozen_table_is_compacted_and_frozen_again() {
    let db = Db::with(accounts(), options());
    let want = sparse(&db, |id| id % 10 != 0);
    db.engine.freeze(SPACE);
    assert_eq!(db.engine.block_counts(SPACE).frozen, 4);
    assert!(move_rows(&db) > 0);
    assert_whole(&db, &want);
    while db.engine.collect_garbage() > 0 {}
    db.engine.freeze(SPACE);
    assert_whole(&db, &want);
    let view = db.engine.snapshot();
    let rows = |block| db.table.read_block(&view, block, &[]).expect("read").rids.len();
    let mut left: Vec<usize> = (0..4).map(rows).collect();
    left.sort_unstable();
    assert_eq!(left, [0, want.len() - 2 * 8192, 8192, 8192]);
}

/// What a foreign key's check does: it looks at block after block, or entry after entry, while rows move from where it
/// has not been to where it has.
#[test]
fn a_look_at_one_time_meets_every_row_once_that_moves_beneath_it() {
    let id_of = |row: &Row| if let Value::Int64(id) = row[0] { id } else { -1 };
    let ids = |rows: &[Row]| -> Vec<i64> { rows.iter().map(id_of).collect() };
    for by_index in [false, true] {
        let db = Db::with(accounts(), options());
        let want = sparse(&db, |id| id % 4 == 1);
        let view = db.engine.fresh(TxnId(0));
        let mut seen = Vec::new();
        let mut moved = 0;
        if by_index {
            let all = KeyRange::all();
            db.table.seek(&view, 0, &all, Direction::Forward, &[0], &mut |_, row| {
                seen.push(id_of(row));
                if moved == 0 {
                    moved = move_rows(&db);
                    while db.engine.collect_garbage() > 0 {}
                }
                ControlFlow::Continue(())
            });
        } else {
            for block in 0..db.table.block_count() {
                let read = db.table.read_block(&view, block, &[0]).expect("read");
                let column = read.batch.column(0);
                seen.extend(
                    (0..read.rids.len())
                        .map(|at| id_of(&vec![value_at(column, at, ColumnType::Int64)])),
                );
                if block == 1 {
                    moved = move_rows(&db);
                    while db.engine.collect_garbage() > 0 {}
                }
            }
        }
        assert!(moved > 0);
        seen.sort_unstable();
        assert_eq!(seen, ids(&want), "by index: {by_index}");
        assert_eq!(ids(&db.scan(&db.engine.fresh(TxnId(0)))), ids(&want));
    }
}

#[test]
fn who_saw_a_row_before_it_moved_sees_it_where_it_was() {
    let db = Db::with(accounts(), options());
    let want = sparse(&db, |id| id % 3 == 0);
    let old = db.engine.snapshot();
    let plan = db.table.plan_moves(false);
    assert!(move_rows(&db) > 0);
    let new = db.engine.snapshot();
    assert_eq!(db.scan(&old), want);
    assert_eq!(db.scan(&new), want);
    let (from, to) = plan[0];
    assert!(read(&*db.table, &old, from).is_some() && read(&*db.table, &old, to).is_none());
    assert!(read(&*db.table, &new, from).is_none() && read(&*db.table, &new, to).is_some());
    while db.engine.collect_garbage() > 0 {}
    assert_eq!(db.scan(&old), want, "what somebody sees is not collected");
}

#[test]
fn a_writer_that_found_a_row_before_it_moved_is_told() {
    let db = Db::with(accounts(), options());
    sparse(&db, |id| id % 3 == 0);
    let mut writer = db.begin();
    let (from, to) = db.table.plan_moves(false)[0];
    assert!(move_rows(&db) > 0);
    while db.engine.collect_garbage() > 0 {}
    let stop = update(&*db.table, &mut *writer, from, &[2], &[Value::Int64(1)]);
    assert!(matches!(stop, Err(WriteStop::Moved)), "{stop:?}");
    assert!(matches!(delete(&*db.table, &mut *writer, from), Err(WriteStop::Moved)));
    assert!(matches!(lock(&*db.table, &mut *writer, from), Err(WriteStop::Moved)));
    writer.refresh();
    update(&*db.table, &mut *writer, to, &[2], &[Value::Int64(1)]).expect("it is there now");
    commit(writer);
    assert_eq!(db.row(to).expect("there")[2], Value::Int64(1));
}

#[test]
fn a_row_that_is_being_written_stays() {
    let db = Db::with(accounts(), options());
    let want = sparse(&db, |id| id % 3 == 0);
    let (from, to) = db.table.plan_moves(false)[0];
    let mut writer = db.begin();
    lock(&*db.table, &mut *writer, from).expect("free");
    let mut txn = db.begin();
    let stop = db.table.move_row(&mut *txn, from, to);
    assert!(matches!(stop, Err(WriteStop::Busy { .. })), "{stop:?}");
    writer.abort();
    txn.abort();
    // And one that is about to move is another writer's to wait for.
    while db.engine.collect_garbage() > 0 {}
    let mut txn = db.begin();
    db.table.move_row(&mut *txn, from, to).expect("free");
    let mut writer = db.begin();
    let stop = lock(&*db.table, &mut *writer, from);
    assert!(matches!(stop, Err(WriteStop::Busy { .. })), "{stop:?}");
    txn.abort();
    assert_whole(&db, &want);
    lock(&*db.table, &mut *writer, from).expect("nobody has it");
}

#[test]
fn a_move_that_is_rolled_back_never_was() {
    let db = Db::with(accounts(), options());
    let want = sparse(&db, |id| id % 3 == 0);
    let free = db.engine.block_counts(SPACE).free_rows;
    let mut txn = db.begin();
    for (from, to) in db.table.plan_moves(false) {
        db.table.move_row(&mut *txn, from, to).expect("free");
    }
    txn.abort();
    assert_whole(&db, &want);
    while db.engine.collect_garbage() > 0 {}
    assert_whole(&db, &want);
    assert_eq!(db.engine.block_counts(SPACE).free_rows, free);
    let table = db.table.as_any().downcast_ref::<MemoryTable>().expect("ours");
    assert_eq!(table.index_entries(0), want.len());
}

#[test]
fn a_unique_key_stays_taken_while_its_row_moves() {
    let db = Db::with(accounts(), options());
    sparse(&db, |id| id % 3 == 0);
    let plan = db.table.plan_moves(false);
    let key = db.row(plan[0].0).expect("there")[0].clone();
    let Value::Int64(id) = key else { panic!("{key:?}") };
    let mut txn = db.begin();
    db.table.move_row(&mut *txn, plan[0].0, plan[0].1).expect("free");
    let mut rival = db.begin();
    let stop = insert(&*db.table, &mut *rival, account(id, "again", 0));
    assert!(matches!(stop, Err(WriteStop::Busy { .. })), "{stop:?}");
    commit(txn);
    let stop = insert(&*db.table, &mut *rival, account(id, "again", 0));
    assert!(matches!(stop, Err(WriteStop::Duplicate { .. })), "{stop:?}");
}

#[test]
fn moves_come_back_after_a_crash() {
    let env = MemEnv::new(5);
    let open = |env: &MemEnv| {
        let at = MemoryOptions {
            data_dir: Some("/data".into()),
            env: Arc::new(env.program()),
            ..options()
        };
        Db::with(accounts(), at)
    };
    let db = open(&env);
    let want = sparse(&db, |id| id % 5 == 0);
    db.engine.checkpoint().expect("there is space");
    assert!(move_rows(&db) > 0);
    db.engine.make_durable(db.engine.appended()).expect("durable");
    let before = row_blocks(&db);
    drop(db);
    let db = open(&env);
    assert_eq!(db.scan(&db.engine.snapshot()), want);
    assert_eq!(row_blocks(&db), before);
}
