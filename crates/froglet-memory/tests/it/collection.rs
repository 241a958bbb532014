//! What nobody needs goes; memory stays bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use froglet_engine::{Engine, Value};
use froglet_memory::MemoryOptions;

use crate::support::*;

#[test]
fn updates_of_strings_stay_within_bounds() {
    let db = Db::collected();
    let rids = db.insert(&(0..100).map(|i| account(i, &long(i), 0)).collect::<Vec<_>>());
    let start = db.engine.memory().0;
    let mut random = Random(1);
    let mut peak = 0;
    for round in 0..30_000i64 {
        let mut txn = db.begin();
        let rid = rids[random.below(100) as usize];
        let name = Value::text(long(round).repeat(1 + random.below(20) as usize));
        update(&*db.table, &mut *txn, rid, &[1, 2], &[name, Value::Int64(round)]).expect("free");
        commit(txn);
        peak = peak.max(db.engine.memory().0);
    }
    let grown = peak - start;
    assert!(grown < 96 << 20, "{grown} bytes more for 100 rows");
}

#[test]
fn slots_of_deleted_rows_are_used_again() {
    let db = Db::new();
    for round in 0..50 {
        let rids =
            db.insert(&(0..1000).map(|i| account(i, &long(i + round), i)).collect::<Vec<_>>());
        let mut txn = db.begin();
        rids.iter().for_each(|rid| delete(&*db.table, &mut *txn, *rid).expect("free"));
        commit(txn);
        db.engine.collect_garbage();
    }
    assert_eq!(db.table.block_count(), 1);
    assert_eq!(db.table.row_estimate(), 0);
}

#[test]
fn an_old_snapshot_keeps_what_it_sees() {
    let db = Db::collected();
    let rids = db.insert(&(0..50).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    let old = db.engine.snapshot();
    let want = db.scan(&old);
    for round in 0..200 {
        let mut txn = db.begin();
        for rid in &rids {
            update(
                &*db.table,
                &mut *txn,
                *rid,
                &[1, 2],
                &[Value::text(long(-round)), Value::Int64(round)],
            )
            .expect("free");
        }
        commit(txn);
    }
    assert_eq!(db.scan(&old), want);
    for rid in &rids {
        assert!(want.contains(&read(&*db.table, &old, *rid).expect("seen")));
    }
    drop(old);
}

#[test]
fn a_write_at_the_memory_limit_fails_and_leaves_nothing() {
    let options = MemoryOptions {
        memory_limit_bytes: 4 << 20,
        collector_thread: false,
        ..MemoryOptions::default()
    };
    let db = Db::with(accounts(), options);
    let mut done = 0;
    let error = loop {
        let mut txn = db.begin();
        match insert(&*db.table, &mut *txn, account(done, &long(done).repeat(30), done)) {
            Ok(_) => commit(txn),
            Err(error) => break error,
        }
        done += 1;
        assert!(done < 100_000, "the limit holds");
    };
    let froglet_engine::WriteStop::Engine(error) = error else { panic!("{error:?}") };
    assert_eq!(error.sqlstate(), froglet_engine::SqlState::OUT_OF_MEMORY);
    assert_eq!(db.scan(&db.engine.snapshot()).len() as i64, done);
}

#[test]
fn readers_never_see_a_torn_row() {
    read_beside_a_writer(Db::collected());
}

#[test]
fn readers_never_see_a_torn_row_while_blocks_freeze() {
    read_beside_a_writer(Db::frozen());
}

fn read_beside_a_writer(db: Db) {
    let db = Arc::new(db);
    let rids = db.insert(&(0..8).map(|i| account(i, &long(0), 0)).collect::<Vec<_>>());
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|reader| {
            let (db, stop, rids) = (Arc::clone(&db), Arc::clone(&stop), rids.clone());
            std::thread::spawn(move || {
                let mut reads = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = db.engine.snapshot();
                    let rows = if reader == 0 {
                        rids.iter()
                            .map(|rid| read(&*db.table, &snapshot, *rid).expect("seen"))
                            .collect()
                    } else {
                        db.scan(&snapshot)
                    };
                    assert_eq!(rows.len(), 8);
                    let Value::Int64(first) = rows[0][2] else { panic!("{:?}", rows[0]) };
                    for row in &rows {
                        assert_eq!(row[2], Value::Int64(first), "all rows are of one commit");
                        assert_eq!(
                            row[1],
                            Value::text(long(first).repeat(1 + first as usize % 7)),
                            "cells match"
                        );
                    }
                    reads += 1;
                }
                reads
            })
        })
        .collect();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(2);
    let mut round = 0i64;
    while std::time::Instant::now() < end {
        round += 1;
        let mut txn = db.begin();
        for rid in &rids {
            let name = Value::text(long(round).repeat(1 + round as usize % 7));
            update(&*db.table, &mut *txn, *rid, &[1, 2], &[name, Value::Int64(round)])
                .expect("one writer");
        }
        if round % 5 == 0 {
            txn.abort();
            round -= 1;
            // The next commit has another number, so that an aborted cell is told from a committed one.
            round += 5;
            continue;
        }
        commit(txn);
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().expect("a reader failed") > 0);
    }
}
