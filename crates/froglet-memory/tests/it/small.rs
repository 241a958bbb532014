//! Every path through the modules with `unsafe` in a few steps: what `cargo xtask miri` runs.
//! Miri finds what no assertion can: a read of freed memory, a data race, a reference that lies.

use std::sync::Arc;

use froglet_engine::env::MemEnv;
use froglet_engine::{
    ColumnType, Direction, Engine, KeyRange, RowId, Savepoint, TxnId, Value, batch,
};
use froglet_log::{Flusher, LogOptions};
use froglet_memory::MemoryOptions;

use crate::support::*;

fn values(n: i64) -> [Value; 2] {
    // Long and short strings in turn, and NULL.
    let name = match n % 3 {
        0 => Value::Null,
        1 => Value::text(long(n)),
        _ => Value::text(format!("short {n}")),
    };
    [name, Value::Int64(n)]
}

/// A row whose name belongs to its number.
fn assert_whole(row: &[Value]) {
    let Value::Int64(n) = row[2] else { panic!("{row:?} has no number") };
    assert_eq!(row[1..3], values(n), "a row is of one version");
}

#[test]
fn one_thread_writes_reads_rolls_back_and_collects() {
    let db = Db::new();
    let rids = db.insert(&(0..6).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    let old = db.engine.snapshot();
    let before = db.scan(&old);
    for round in 0..4 {
        let mut txn = db.begin();
        for rid in &rids[..4] {
            update(&*db.table, &mut *txn, *rid, &[1, 2], &values(round)).expect("free");
        }
        let point = txn.savepoint();
        delete(&*db.table, &mut *txn, rids[0]).expect("own");
        insert(&*db.table, &mut *txn, account(100 + round, "new", 7)).expect("a new key");
        update(&*db.table, &mut *txn, rids[1], &[1], &[Value::text(long(9))]).expect("own");
        txn.rollback_to(point);
        lock(&*db.table, &mut *txn, rids[5]).expect("free");
        match round {
            3 => txn.abort(),
            _ => commit(txn),
        }
        db.engine.collect_garbage();
        assert_eq!(db.scan(&old), before);
        assert_eq!(seek(&*db.table, &old, 1, &KeyRange::all(), Direction::Backward).len(), 6);
    }
    drop(old);
    db.engine.collect_garbage();
    let now = db.engine.snapshot();
    assert_eq!(read(&*db.table, &now, rids[1]).expect("there")[1..3], values(2));
    assert_eq!(seek(&*db.table, &now, 0, &KeyRange::all(), Direction::Forward).len(), 6);
    let mut txn = db.begin();
    rids.iter().for_each(|rid| delete(&*db.table, &mut *txn, *rid).expect("free"));
    commit(txn);
    drop(now);
    db.engine.collect_garbage();
    assert_eq!(db.insert(&[account(1, &long(1), 1)]).len(), 1, "a slot is used again");
}

#[test]
fn a_kept_space_reads_as_it_was_until_it_is_released() {
    let db = Db::new();
    let rids = db.insert(&(0..3).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    let mut txn = db.begin();
    txn.keep(1, &[SPACE]).expect("kept");
    commit(txn);
    let before = db.scan(&db.engine.kept(1).expect("kept"));
    for round in 0..3 {
        let mut txn = db.begin();
        update(&*db.table, &mut *txn, rids[0], &[1, 2], &values(round)).expect("free");
        if round == 1 {
            delete(&*db.table, &mut *txn, rids[1]).expect("free");
        }
        commit(txn);
        db.engine.collect_garbage();
    }
    let view = db.engine.kept(1).expect("kept");
    assert_eq!(db.scan(&view), before);
    assert_eq!(seek(&*db.table, &view, 1, &KeyRange::all(), Direction::Forward).len(), 3);
    db.engine.release(1).expect("released");
    assert_eq!(db.scan(&view), before, "while it is read");
    drop(view);
    db.engine.collect_garbage();
    assert_eq!(db.insert(&[account(1, &long(1), 1)]), [rids[1]], "a slot is used again");
}

#[test]
fn strings_move_to_a_new_heap_while_readers_hold_arrays_of_the_old_one() {
    let db = Db::new();
    let rid = db.insert(&[account(1, &long(0), 0)])[0];
    let view = db.engine.snapshot();
    let held = db.table.read_block(&view, 0, &[1]).expect("a block is read");
    drop(view);
    for round in 1..6 {
        let mut txn = db.begin();
        let name = Value::text(long(round).repeat(60));
        update(&*db.table, &mut *txn, rid, &[1], &[name]).expect("free");
        commit(txn);
        db.engine.collect_garbage();
    }
    let text =
        froglet_engine::batch::value_at(held.batch.column(0), 0, froglet_engine::ColumnType::Text);
    assert_eq!(text, Value::text(long(0)), "an array keeps its bytes");
}

#[test]
fn columns_come_and_go_and_are_filled() {
    let db = Db::new();
    let rids = db.insert(&(0..4).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    let mut wide = froglet_engine::Layout::clone(&accounts());
    wide.columns.push(column(4, froglet_engine::ColumnType::Text));
    let new = db.engine.open(SPACE, Arc::new(wide)).expect("opens");
    let mut txn = db.begin();
    update(&*new, &mut *txn, rids[0], &[3], &[Value::text(long(4))]).expect("free");
    commit(txn);
    new.migrate_block(TxnId(0), Savepoint(0), 0, None, &[1], &[3], &mut |rows| {
        Ok(vec![rows.batch.column(0).clone()].into())
    })
    .expect("a block is migrated");
    let row = read(&*new, &db.engine.snapshot(), rids[2]).expect("there");
    assert_eq!(row[3], row[1]);
    drop(new);
    db.engine.drop_column(SPACE, froglet_engine::ColumnId(4));
    assert_eq!(db.scan(&db.engine.snapshot()).len(), 4);
}

#[test]
fn threads_read_write_and_collect() {
    beside_a_writer(|db| {
        db.engine.collect_garbage();
    });
}

/// And with arrays held over cells that are thawed and frozen again.
#[test]
fn threads_read_write_and_freeze() {
    let mut held = Vec::new();
    beside_a_writer(move |db| {
        db.engine.collect_garbage();
        db.engine.freeze(SPACE);
        let read = db.table.read_batch(&db.engine.snapshot(), 0, &[0, 1, 2]).expect("read");
        let name = |at| batch::value_at(read.column(1), at, ColumnType::Text);
        assert_eq!(name(0), name(1), "both rows are of one commit");
        held.push((read.clone(), name(0)));
        let (old, name) = &held[held.len() / 2];
        assert_eq!(
            batch::value_at(old.column(1), 0, ColumnType::Text),
            *name,
            "it stays as it was"
        );
    });
}

#[test]
fn rows_move_and_their_blocks_freeze() {
    let db = Db::new();
    let rids = db.insert(&(0..6).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    let mut txn = db.begin();
    for at in [0, 2] {
        delete(&*db.table, &mut *txn, rids[at]).expect("free");
    }
    commit(txn);
    db.engine.freeze(SPACE);
    let before = db.scan(&db.engine.snapshot());
    assert_eq!(move_rows(&db), 2);
    db.engine.freeze(SPACE);
    assert_eq!(db.scan(&db.engine.snapshot()), before);
    let view = db.engine.snapshot();
    assert_eq!(seek(&*db.table, &view, 1, &KeyRange::all(), Direction::Forward).len(), 4);
}

/// Blocks grow while others read and write rows that are there; strings with a chunk for themselves are shared by
/// heaps, undo records, and arrays.
#[test]
fn rows_come_beside_readers_and_writers() {
    let db = Arc::new(Db::new());
    let rids = db.insert(&[account(0, &long(0), 0), account(1, &long(1), 1)]);
    let rows = if cfg!(miri) { 14 } else { 700 };
    let inserter = {
        let db = Arc::clone(&db);
        std::thread::spawn(move || {
            for n in 2..rows {
                db.insert(&[account(n, &long(10 * n), n)]);
            }
        })
    };
    let writer = {
        let (db, rids) = (Arc::clone(&db), rids.clone());
        std::thread::spawn(move || {
            for n in 0..rows / 2 {
                let mut txn = db.begin();
                let name = [Value::text(long(1_000_000 + n))];
                update(&*db.table, &mut *txn, rids[1], &[1], &name).expect("one writer");
                if n % 3 == 0 {
                    txn.abort()
                } else {
                    commit(txn)
                }
                db.engine.collect_garbage();
            }
        })
    };
    let mut seen = 2;
    while seen < rows as usize {
        let view = db.engine.snapshot();
        let found = db.scan(&view);
        assert!(found.len() >= seen, "no row goes");
        seen = found.len();
        for (n, row) in found.iter().enumerate().filter(|(n, _)| *n != 1) {
            let name = if n == 0 { long(0) } else { long(10 * n as i64) };
            assert_eq!(*row, account(n as i64, &name, n as i64));
        }
        assert_eq!(read(&*db.table, &view, rids[0]), Some(found[0].clone()));
        assert_eq!(read(&*db.table, &view, rids[1]), Some(found[1].clone()));
        std::thread::yield_now();
    }
    inserter.join().expect("the inserter failed");
    writer.join().expect("the writer failed");
    db.engine.collect_garbage();
    db.engine.freeze(SPACE);
    db.insert(&[account(rows, &long(3), 3)]);
    assert_eq!(db.scan(&db.engine.snapshot()).len(), rows as usize + 1);
}

/// Beside a thread that writes and one that does `work`, everybody reads whole rows.
fn beside_a_writer(mut work: impl FnMut(&Db) + Send + 'static) {
    let db = Arc::new(Db::new());
    let rids: Vec<RowId> = db.insert(
        &(0..2).map(|i| [vec![Value::Int64(i)], values(0).to_vec()].concat()).collect::<Vec<_>>(),
    );
    let rounds = if cfg!(miri) { 6 } else { 2000 };
    let writer = {
        let (db, rids) = (Arc::clone(&db), rids.clone());
        std::thread::spawn(move || {
            for n in 1..=rounds {
                let mut txn = db.begin();
                for rid in &rids {
                    update(&*db.table, &mut *txn, *rid, &[1, 2], &values(n)).expect("one writer");
                }
                if n % 4 == 0 { txn.abort() } else { commit(txn) }
            }
        })
    };
    let collector = {
        let db = Arc::clone(&db);
        std::thread::spawn(move || {
            for _ in 0..rounds {
                work(&db);
                std::thread::yield_now();
            }
        })
    };
    for _ in 0..rounds {
        let view = db.engine.snapshot();
        rids.iter().for_each(|rid| assert_whole(&read(&*db.table, &view, *rid).expect("there")));
        let rows = db.scan(&view);
        assert_eq!(rows[0][2], rows[1][2], "both rows are of one commit");
        let rows = seek(&*db.table, &view, 1, &KeyRange::all(), Direction::Forward);
        assert_eq!(rows.len(), 2);
        rows.iter().for_each(|row| assert_whole(row));
    }
    writer.join().expect("the writer failed");
    collector.join().expect("the collector failed");
}

#[test]
#[cfg_attr(miri, ignore = "megabytes of buffers, and no module with `unsafe` that is not above")]
fn a_checkpoint_and_a_log_come_back() {
    let env = MemEnv::new(1);
    let options = || MemoryOptions {
        data_dir: Some("/data".into()),
        env: Arc::new(env.program()),
        collector_thread: false,
        log: LogOptions { flusher: Flusher::Manual, zeros_ahead_bytes: 0, ..LogOptions::default() },
        ..MemoryOptions::default()
    };
    let db = Db::with(accounts(), options());
    let rids = db.insert(&(0..3).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    db.engine.checkpoint().expect("there is space");
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rids[1], &[1], &[Value::text(long(7))]).expect("free");
    delete(&*db.table, &mut *txn, rids[2]).expect("free");
    commit(txn);
    let want = db.scan(&db.engine.snapshot());
    drop(db);
    let db = Db::with(accounts(), options());
    assert_eq!(db.scan(&db.engine.snapshot()), want);
}
