//! Random transactions on many threads; afterwards every read is checked against a rebuilt history.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use froglet_engine::{Direction, Engine, KeyRange, Row, RowId, RowWrite, Snapshot, Ts, Value};

use crate::support::*;

const KEYS: u64 = 40;

/// What one transaction saw and did.
#[derive(Default)]
struct Record {
    /// Timestamp of the view, key, what was there.
    reads: Vec<(Ts, i64, Option<Row>)>,
    /// Timestamp of the view, everything that was there, by key.
    scans: Vec<(Ts, Vec<Row>)>,
    writes: BTreeMap<i64, Option<Row>>,
    commit: Option<Ts>,
}

fn find(db: &Db, snapshot: &Snapshot, key: i64) -> Option<(RowId, Row)> {
    let mut found = None;
    let range = exactly(&*db.table, 0, &[Value::Int64(key)]);
    db.table.seek(snapshot, 0, &range, Direction::Forward, &[0, 1, 2], &mut |rid, row| {
        assert!(found.is_none(), "key {key} is there twice");
        found = Some((rid, row.clone()));
        std::ops::ControlFlow::Continue(())
    });
    found
}

fn transaction(db: &Db, random: &mut Random, record: &mut Record) {
    let mut txn = db.begin();
    let mut points = Vec::new();
    if random.below(8) == 0 {
        let rows = match random.below(3) {
            0 => db.scan(txn.snapshot()),
            1 => seek(&*db.table, txn.snapshot(), 0, &KeyRange::all(), Direction::Forward),
            _ => {
                let mut rows =
                    seek(&*db.table, txn.snapshot(), 1, &KeyRange::all(), Direction::Backward);
                assert!(rows.is_sorted_by_key(|row| match row[2] {
                    Value::Int64(n) => -n,
                    _ => 0,
                }));
                rows.sort_by_key(|row| format!("{:05?}", row[0]));
                rows
            }
        };
        record.scans.push((txn.snapshot().ts, rows));
    }
    for _ in 0..random.below(6) {
        let key = random.below(KEYS) as i64;
        let found = find(db, txn.snapshot(), key);
        let seen = found.as_ref().map(|(_, row)| row.clone());
        match record.writes.get(&key) {
            Some(own) => assert_eq!(&seen, own, "own write of key {key}"),
            None => record.reads.push((txn.snapshot().ts, key, seen)),
        }
        let n = random.next() as i64 >> 40;
        let name = if random.below(2) == 0 { long(n) } else { format!("{n}") };
        let base = txn.snapshot().ts;
        let stopped = match (found, random.below(10)) {
            (None, _) => {
                let row = account(key, &name, n);
                let done = insert(&*db.table, &mut *txn, row.clone()).is_ok();
                record.writes.insert(key, Some(row));
                !done
            }
            (Some((rid, _)), 0..2) => {
                record.writes.insert(key, None);
                delete(&*db.table, &mut *txn, rid).is_err()
            }
            (Some((rid, _)), 2) => lock(&*db.table, &mut *txn, rid).is_err(),
            (Some((rid, row)), 3) => {
                // Away to another key.
                let to = random.below(KEYS) as i64;
                let moved = find(db, txn.snapshot(), to).is_none();
                let mut new = row;
                new[0] = Value::Int64(to);
                if moved {
                    record.writes.insert(key, None);
                    record.writes.insert(to, Some(new));
                    update(&*db.table, &mut *txn, rid, &[0], &[Value::Int64(to)]).is_err()
                } else {
                    false
                }
            }
            (Some((rid, _)), _) => {
                let row = account(key, &name, n);
                let write = RowWrite::Update { rid, columns: &[1, 2], values: &row[1..] };
                record.writes.insert(key, Some(row.clone()));
                db.table.write(&mut *txn, base, &[write]).is_err()
            }
        };
        if stopped {
            txn.abort();
            return;
        }
        match random.below(12) {
            0 => points.push((txn.savepoint(), record.writes.clone())),
            1 => {
                if let Some((point, writes)) = points.pop() {
                    txn.rollback_to(point);
                    record.writes = writes;
                }
            }
            _ => {}
        }
    }
    if random.below(6) == 0 {
        txn.abort();
    } else {
        record.commit = Some(txn.pre_commit());
        if random.below(10) == 0 {
            txn.retreat();
            record.commit = Some(txn.pre_commit());
        }
        let _ = txn.post_commit().expect("a commit succeeds");
    }
}

fn check(records: &[Record]) {
    let mut history: BTreeMap<i64, BTreeMap<Ts, Option<Row>>> = BTreeMap::new();
    for record in records {
        if let Some(ts) = record.commit {
            for (key, row) in &record.writes {
                history.entry(*key).or_default().insert(ts, row.clone());
            }
        }
    }
    let at = |ts: Ts, key: i64| -> Option<Row> {
        history.get(&key)?.range(..=ts).next_back().and_then(|(_, row)| row.clone())
    };
    let mut reads = 0;
    for record in records {
        for (ts, key, seen) in &record.reads {
            assert_eq!(seen, &at(*ts, *key), "key {key} at {ts}");
            reads += 1;
        }
        for (ts, rows) in &record.scans {
            let mut want: Vec<Row> = (0..KEYS as i64).filter_map(|key| at(*ts, key)).collect();
            let mut rows = rows.clone();
            let by_key = |row: &Row| format!("{:?}", row[0]);
            want.sort_by_key(by_key);
            rows.sort_by_key(by_key);
            assert_eq!(rows, want, "everything at {ts}");
            reads += 1;
        }
    }
    assert!(reads > 1000, "{reads} reads are few");
}

fn run(db: Arc<Db>, seed: u64, threads: u64, transactions: usize) {
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let db = Arc::clone(&db);
            std::thread::spawn(move || {
                let mut random = Random(seed * 1000 + thread);
                let one = |_| {
                    let mut record = Record::default();
                    transaction(&db, &mut random, &mut record);
                    record
                };
                (0..transactions).map(one).collect::<Vec<_>>()
            })
        })
        .collect();
    let records: Vec<Record> =
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker failed")).collect();
    let commits = records.iter().filter(|record| record.commit.is_some()).count();
    assert!(commits > records.len() / 4, "{commits} of {} committed", records.len());
    check(&records);
    // In the end nothing is left but the rows.
    let last = db.engine.snapshot();
    let rows = db.scan(&last).len();
    drop(last);
    let table = db.table.as_any().downcast_ref::<froglet_memory::MemoryTable>().expect("ours");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    let all = (rows, rows, rows as u64);
    while (table.index_entries(0), table.index_entries(1), db.table.row_estimate()) != all {
        assert!(
            std::time::Instant::now() < deadline,
            "{rows} rows, {} and {} entries",
            table.index_entries(0),
            table.index_entries(1)
        );
        db.engine.collect_garbage();
    }
    assert_eq!(db.table.row_estimate(), rows as u64);
}

#[test]
fn every_read_is_of_its_snapshot() {
    for seed in 1..5 {
        run(Arc::new(Db::collected()), seed, 4, 3000);
    }
}

#[test]
fn every_read_is_of_its_snapshot_while_blocks_freeze() {
    for seed in 5..9 {
        run(Arc::new(Db::frozen()), seed, 4, 3000);
    }
}

#[test]
fn every_read_is_of_its_snapshot_while_rows_move() {
    let mut moved = 0;
    for seed in 9.. {
        let (db, stop) = (Arc::new(Db::frozen()), Arc::new(AtomicBool::new(false)));
        let mover = {
            let (db, stop) = (Arc::clone(&db), Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut moved = 0;
                while !stop.load(Ordering::Relaxed) {
                    moved += move_rows(&db);
                }
                moved
            })
        };
        run(Arc::clone(&db), seed, 4, 3000);
        stop.store(true, Ordering::Relaxed);
        moved += mover.join().expect("the mover failed");
        // How many there are to be moved is up to the threads.
        if seed >= 12 && moved > 50 {
            break;
        }
        assert!(seed < 40, "{moved} rows have moved");
    }
}
