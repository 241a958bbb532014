//! What one old view or pin holds back is what it sees, and not all that came after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use froglet_engine::{
    Direction, Engine, HeldBack, Holder, KeyRange, Row, RowId, Snapshot, TxnId, Value,
};
use froglet_memory::MemoryOptions;

use crate::support::*;

fn name(n: i64) -> Value {
    Value::text(if n % 2 == 0 { format!("short {n}") } else { long(n) })
}

/// Sets the columns of a row in turn: the name, the number, both.
fn set(db: &Db, rid: RowId, n: i64) {
    let mut txn = db.begin();
    let both = [name(n), Value::Int64(n)];
    let positions: &[usize] = [&[1][..], &[2], &[1, 2]][n as usize % 3];
    let values: Vec<Value> = positions.iter().map(|at| both[at - 1].clone()).collect();
    update(&*db.table, &mut *txn, rid, positions, &values).expect("free");
    if n % 7 == 0 { txn.abort() } else { commit(txn) }
}

fn versions(db: &Db) -> u64 {
    db.engine.block_counts(SPACE).versions
}

/// What a view sees, by every way to look.
fn seen(db: &Db, view: &Snapshot, rids: &[RowId]) -> Vec<Row> {
    let rows = db.scan(view);
    let one_by_one: Vec<Row> = rids.iter().filter_map(|rid| read(&*db.table, view, *rid)).collect();
    assert_eq!(rows, one_by_one);
    for index in [0, 1] {
        let mut by_index = seek(&*db.table, view, index, &KeyRange::all(), Direction::Forward);
        by_index.sort_by_key(|row| format!("{:05?}", row[0]));
        let mut rows = rows.clone();
        rows.sort_by_key(|row| format!("{:05?}", row[0]));
        assert_eq!(by_index, rows, "by index {index}");
    }
    rows
}

#[test]
fn an_old_view_keeps_one_version_of_a_row() {
    let db = Db::new();
    let rids = db.insert(&(0..4).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    db.engine.collect_garbage();
    let old = db.engine.snapshot();
    let want = seen(&db, &old, &rids);
    let rounds = if cfg!(miri) { 12 } else { 3_000 };
    for n in 0..rounds {
        set(&db, rids[n as usize % 4], n);
        if n % 5 == 0 {
            db.engine.collect_garbage();
            assert_eq!(read(&*db.table, &old, rids[0]), want.first().cloned());
        }
    }
    db.engine.collect_garbage();
    assert_eq!(seen(&db, &old, &rids), want);
    // Two columns for the view, and the newest version.
    assert!(versions(&db) <= 4 * 4, "{} versions of four rows", versions(&db));
    drop(old);
    (0..2).for_each(|_| _ = db.engine.collect_garbage());
    assert_eq!(versions(&db), 0);
    let now = db.engine.snapshot();
    seen(&db, &now, &rids);
}

#[test]
fn views_at_many_times_keep_what_each_sees() {
    let db = Db::new();
    let rids = db.insert(&(0..3).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    let mut random = Random(11);
    let mut views: Vec<(Arc<Snapshot>, Vec<Row>)> = Vec::new();
    let rounds = if cfg!(miri) { 30 } else { 4_000 };
    for n in 0..rounds {
        set(&db, rids[random.below(3) as usize], n);
        match random.below(12) {
            0 if views.len() < 6 => {
                let view = db.engine.snapshot();
                let rows = seen(&db, &view, &rids);
                views.push((view, rows));
            }
            1 if !views.is_empty() => {
                drop(views.swap_remove(random.below(views.len() as u64) as usize))
            }
            2..5 => drop(db.engine.collect_garbage()),
            _ => {}
        }
        if n % 16 == 0 {
            views.iter().for_each(|(view, rows)| assert_eq!(seen(&db, view, &rids), *rows));
        }
    }
    db.engine.collect_garbage();
    let most = 3 * (2 * views.len() as u64 + 3);
    assert!(versions(&db) <= most, "{} versions for {} views", versions(&db), views.len());
    views.iter().for_each(|(view, rows)| assert_eq!(seen(&db, view, &rids), *rows));
    views.clear();
    (0..2).for_each(|_| _ = db.engine.collect_garbage());
    assert_eq!(versions(&db), 0);
}

#[test]
fn a_kept_space_keeps_what_is_kept() {
    let db = Db::new();
    let rids = db.insert(&(0..3).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    let mut txn = db.begin();
    txn.keep(5, &[SPACE]).expect("kept");
    commit(txn);
    let want = db.scan(&db.engine.kept(5).expect("kept"));
    for n in 0..200 {
        set(&db, rids[n as usize % 3], n);
        db.engine.collect_garbage();
    }
    assert!(versions(&db) <= 3 * 4, "{} versions of three rows", versions(&db));
    let kept = db.engine.kept(5).expect("kept");
    assert_eq!(seen(&db, &kept, &rids), want);
    let pins = |held: &HeldBack| held.holder == Holder::Keeper(5) && held.spaces == [SPACE];
    assert!(db.engine.held_back().iter().any(pins), "{:?}", db.engine.held_back());
    drop(kept);
    db.engine.release(5).expect("released");
    (0..2).for_each(|_| _ = db.engine.collect_garbage());
    assert_eq!(versions(&db), 0);
}

#[test]
fn beside_an_onward_view_every_later_time_can_be_read() {
    let db = Db::new();
    let rid = db.insert(&[account(1, "a", 0)])[0];
    let onward = db.engine.onward_snapshot();
    let mut times = Vec::new();
    for n in 1..20 {
        let mut txn = db.begin();
        update(&*db.table, &mut *txn, rid, &[2], &[Value::Int64(n)]).expect("free");
        commit(txn);
        times.push((db.engine.now(), n));
        db.engine.collect_garbage();
    }
    for (ts, n) in times {
        let view = Snapshot::new(ts, TxnId(0), Box::new(Arc::clone(&onward)));
        assert_eq!(read(&*db.table, &view, rid).expect("there")[2], Value::Int64(n));
    }
}

/// One old view, and a limit that a fifth of the old versions would reach. What is refused while others of this process
/// still keep what is retired is not refused for long.
#[test]
fn writers_go_on_at_the_limit_beside_an_old_view() {
    let options = MemoryOptions { memory_limit_bytes: 48 << 20, ..MemoryOptions::default() };
    let db = Db::with(accounts(), options);
    let rids = db.insert(&(0..100).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    let old = db.engine.snapshot();
    let want = db.scan(&old);
    for n in 0..60_000 {
        let value = [Value::Int64(n)];
        let mut refused = 0;
        loop {
            let mut txn = db.begin();
            match update(&*db.table, &mut *txn, rids[n as usize % 100], &[2], &value) {
                Ok(()) => break commit(txn),
                Err(stop) => assert!(refused < 1000, "{stop:?}"),
            }
            txn.abort();
            refused += 1;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    assert_eq!(db.scan(&old), want);
    let (used, limit) = db.engine.memory();
    assert!(used < limit, "{used} of {limit}");
}

#[test]
fn readers_beside_a_writer_and_a_pruning_collector_see_one_commit() {
    let db = Arc::new(Db::frozen());
    let rids = db.insert(&(0..4).map(|i| account(i, &long(0), 0)).collect::<Vec<_>>());
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|reader| {
            let (db, stop, rids) = (Arc::clone(&db), Arc::clone(&stop), rids.clone());
            std::thread::spawn(move || {
                let mut held: Vec<(Arc<Snapshot>, Value)> = Vec::new();
                let mut random = Random(reader + 1);
                while !stop.load(Ordering::Relaxed) {
                    let view = db.engine.snapshot();
                    let rows = db.scan(&view);
                    assert!(rows.iter().all(|row| row[2] == rows[0][2]), "{rows:?}");
                    held.push((view, rows[0][2].clone()));
                    let at = random.below(held.len() as u64) as usize;
                    let (view, number) = &held[at];
                    for rid in &rids {
                        let row = read(&*db.table, view, *rid).expect("there");
                        assert_eq!(row[2], *number, "as it was");
                        let Value::Int64(n) = row[2] else { panic!("{row:?}") };
                        assert_eq!(row[1], Value::text(long(n)), "of one version");
                    }
                    if held.len() > 5 {
                        held.swap_remove(at);
                    }
                }
            })
        })
        .collect();
    for n in 1..8_000 {
        let mut txn = db.begin();
        for rid in &rids {
            let text = Value::text(long(n));
            update(&*db.table, &mut *txn, *rid, &[1], &[text]).expect("one writer");
            update(&*db.table, &mut *txn, *rid, &[2], &[Value::Int64(n)]).expect("one writer");
        }
        commit(txn);
    }
    stop.store(true, Ordering::Relaxed);
    readers.into_iter().for_each(|reader| reader.join().expect("a reader failed"));
}
