//! The protocols under shuttle: few rows, few tasks, many schedules.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test --release -p froglet-memory --lib schedules -- --test-threads=1`
//! (what one test has deferred, no other's end must run).
//! Each test is one promise: no torn rows, commits and aborts all at once, first updater wins, one
//! owner of a unique key, snapshots keep their index entries, what is kept stays, feeds miss nothing.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Direction, Engine, EngineTxn, IndexId, IndexSpec, KeyPart,
    KeyRange, Layout, Row, RowId, Snapshot, SpaceId, Table, TxnId, Value, WriteStop,
};
use shuttle::thread::{self, JoinHandle};

use crate::{FreezeOptions, MemoryEngine, MemoryOptions, MemoryTable, MemoryTxn};

fn explore(scenario: impl Fn() + Send + Sync + Copy + 'static) {
    crate::sync::explore(scenario, 3_000);
}

/// id bigint primary key, n bigint with an index, name text with an index.
fn layout() -> Arc<Layout> {
    let types = [ColumnType::Int64, ColumnType::Int64, ColumnType::Text];
    let column = |(i, ty): (usize, &ColumnType)| ColumnSpec {
        id: ColumnId(i as u32),
        ty: *ty,
        missing: Value::Null,
    };
    let index = |id, column, unique| {
        let part = KeyPart { column: ColumnId(column), descending: false, nulls_first: false };
        IndexSpec {
            id: IndexId(id),
            key: vec![part],
            unique,
            unique_at_commit: false,
            nulls: Default::default(),
        }
    };
    Arc::new(Layout {
        columns: types.iter().enumerate().map(column).collect(),
        indexes: vec![index(1, 0, true), index(2, 1, false), index(3, 2, false)],
        row_key: None,
    })
}

struct Db {
    engine: Arc<MemoryEngine>,
    table: MemoryTable,
}

/// Why nobody waits for what is logged.
const NO_LOG: &str = "these engines have no log";

fn commit(txn: MemoryTxn) {
    txn.commit().expect("commits").waits_for_nothing(NO_LOG);
}

fn name(n: i64) -> Value {
    // Long strings, of which some have a chunk for themselves, and such as fill their view, in turn.
    Value::text(match n % 4 {
        0 | 2 => format!("short {n:06}"),
        1 => format!("a longer name than a view {n}"),
        _ => format!("a name that is long enough to have a chunk for itself {n}"),
    })
}

fn row(id: i64, n: i64) -> Row {
    vec![Value::Int64(id), Value::Int64(n), name(n)]
}

impl Db {
    fn new(rows: i64) -> (Arc<Db>, Vec<RowId>) {
        let freeze =
            FreezeOptions { after: Some(Duration::ZERO), threads: 0, ..FreezeOptions::default() };
        let options = MemoryOptions {
            collector_thread: false,
            freeze,
            prune_bytes_min: 0,
            ..MemoryOptions::default()
        };
        let engine = MemoryEngine::open(options).expect("opens");
        engine.create_space(SpaceId(1)).expect("a space");
        let table = engine.open_table(SpaceId(1), layout()).expect("opens");
        let mut txn = engine.begin_txn(TxnId(1));
        let rids =
            (0..rows).map(|id| table.insert_row(&mut txn, &row(id, 0)).expect("free")).collect();
        commit(txn);
        engine.collect_garbage();
        (Arc::new(Db { engine, table }), rids)
    }

    fn begin(&self, id: u64) -> MemoryTxn {
        self.engine.begin_txn(TxnId(id))
    }

    fn set(&self, txn: &mut MemoryTxn, rid: RowId, n: i64) -> Result<(), WriteStop> {
        let base = txn.snapshot().ts;
        self.table.update_row(txn, base, rid, &[1, 2], &[Value::Int64(n), name(n)])
    }

    /// The number of a row, whose name must belong to it.
    fn number(&self, snapshot: &Snapshot, rid: RowId) -> Option<i64> {
        let mut out = Row::new();
        self.table.get(snapshot, rid, &[1, 2], &mut out).then(|| whole(&out))
    }

    fn scan(&self, snapshot: &Snapshot) -> Vec<i64> {
        let read = self.table.read_block(snapshot, 0, &[1, 2]).expect("read");
        let value = |column: usize, ty, at| {
            froglet_engine::batch::value_at(read.batch.column(column), at, ty)
        };
        (0..read.rids.len())
            .map(|at| whole(&[value(0, ColumnType::Int64, at), value(1, ColumnType::Text, at)]))
            .collect()
    }

    fn seek(&self, snapshot: &Snapshot, index: usize) -> Vec<(RowId, i64)> {
        let mut found = Vec::new();
        self.table.seek(
            snapshot,
            index,
            &KeyRange::all(),
            Direction::Forward,
            &[1, 2],
            &mut |rid, row| {
                found.push((rid, whole(row)));
                ControlFlow::Continue(())
            },
        );
        found
    }
}

fn whole(row: &[Value]) -> i64 {
    let Value::Int64(n) = row[0] else { panic!("{row:?} has no number") };
    assert_eq!(row[1], name(n), "a row is of one version");
    n
}

fn spawn(db: &Arc<Db>, work: impl FnOnce(&Db) + Send + 'static) -> JoinHandle<()> {
    let db = Arc::clone(db);
    thread::spawn(move || work(&db))
}

fn join(tasks: Vec<JoinHandle<()>>) {
    tasks.into_iter().for_each(|task| task.join().expect("a task failed"));
}

fn collector(db: &Arc<Db>) -> JoinHandle<()> {
    spawn(db, |db| {
        for _ in 0..3 {
            db.engine.collect_garbage();
            thread::yield_now();
        }
    })
}

fn freezer(db: &Arc<Db>) -> JoinHandle<()> {
    spawn(db, |db| {
        for _ in 0..3 {
            db.engine.collect_garbage();
            db.engine.freeze_cold();
            thread::yield_now();
        }
    })
}

#[test]
fn what_is_written_while_a_block_freezes_is_not_lost() {
    explore(|| {
        let (db, rids) = Db::new(2);
        let rid = rids[0];
        let writers = [0, 1].map(|at| {
            let rid = rids[at];
            spawn(&db, move |db| {
                for n in 1..3 {
                    let mut txn = db.begin(10 * (at as u64 + 1) + n as u64);
                    db.set(&mut txn, rid, n).expect("one writer a row");
                    match n == 1 && at == 1 {
                        true => Box::new(txn).abort(),
                        false => commit(txn),
                    }
                }
            })
        });
        let reader = spawn(&db, move |db| {
            let mut newest = 0;
            for _ in 0..2 {
                let snapshot = db.engine.fresh(TxnId(0));
                let n = db.number(&snapshot, rid).expect("there");
                assert!(n >= newest, "a later view goes back from {newest} to {n}");
                newest = n;
                let whole = db.scan(&snapshot);
                assert!(whole[0] >= newest, "{whole:?} after {newest}");
            }
        });
        let mut tasks: Vec<_> = writers.into_iter().collect();
        tasks.extend([reader, freezer(&db)]);
        join(tasks);
        assert_eq!(db.scan(&db.engine.snapshot()), vec![2, 2]);
        db.engine.collect_garbage();
        db.engine.freeze_cold();
        assert_eq!(db.scan(&db.engine.snapshot()), vec![2, 2]);
        let by_index: Vec<i64> =
            db.seek(&db.engine.snapshot(), 1).into_iter().map(|(_, n)| n).collect();
        assert_eq!(by_index, vec![2, 2]);
    });
}

#[test]
fn a_row_that_comes_while_a_block_freezes_is_in_it() {
    explore(|| {
        let (db, _) = Db::new(1);
        let inserter = spawn(&db, |db| {
            for id in 1..3 {
                let mut txn = db.begin(10 + id as u64);
                db.table.insert_row(&mut txn, &row(id, 2 * id + 1)).expect("a new key");
                commit(txn);
            }
        });
        let reader = spawn(&db, |db| {
            let whole = db.scan(&db.engine.snapshot());
            assert!([0, 3, 5].starts_with(&whole), "{whole:?}");
        });
        join(vec![inserter, reader, freezer(&db), collector(&db)]);
        assert_eq!(db.scan(&db.engine.snapshot()), [0, 3, 5]);
        // Thawed, too.
        let mut txn = db.begin(20);
        db.set(&mut txn, RowId(0), 8).expect("free");
        commit(txn);
        assert_eq!(db.scan(&db.engine.snapshot()), [8, 3, 5]);
    });
}

#[test]
fn a_row_that_moves_is_there_once_and_no_update_of_it_is_lost() {
    explore(|| {
        let (db, rids) = Db::new(3);
        let mut txn = db.begin(5);
        let base = txn.snapshot().ts;
        db.table.delete_row(&mut txn, base, rids[0]).expect("free");
        commit(txn);
        db.engine.collect_garbage();
        let mover = spawn(&db, |db| {
            for turn in 0..2 {
                for (from, to) in db.table.plan_moves(false) {
                    let mut txn = db.begin(20 + turn);
                    match db.table.move_row(&mut txn, from, to) {
                        Ok(()) => commit(txn),
                        Err(WriteStop::Gone | WriteStop::Busy { .. }) => Box::new(txn).abort(),
                        Err(stop) => panic!("{stop:?}"),
                    }
                }
                thread::yield_now();
            }
        });
        let writer = spawn(&db, |db| {
            for n in 1..3 {
                loop {
                    let mut txn = db.begin(10 + n as u64);
                    let (rid, _) = *db.seek(&txn.snapshot(), 0).last().expect("two rows");
                    match db.set(&mut txn, rid, n) {
                        Ok(()) => break commit(txn),
                        Err(WriteStop::Moved | WriteStop::Busy { .. }) => Box::new(txn).abort(),
                        Err(stop) => panic!("{stop:?}"),
                    }
                    thread::yield_now();
                }
            }
        });
        let reader = spawn(&db, |db| {
            for _ in 0..2 {
                let snapshot = db.engine.snapshot();
                let mut by_index = [0, 1].map(|at| {
                    let mut found = db.seek(&snapshot, at);
                    found.sort_unstable();
                    found
                });
                assert_eq!(by_index[0].len(), 2, "{by_index:?}");
                assert_eq!(by_index[0], by_index[1]);
                let mut whole = db.scan(&snapshot);
                whole.sort_unstable();
                by_index[0].sort_unstable_by_key(|(_, n)| *n);
                assert!(by_index[0].iter().map(|(_, n)| *n).eq(whole));
            }
        });
        join(vec![mover, writer, reader, freezer(&db)]);
        let mut whole = db.scan(&db.engine.snapshot());
        whole.sort_unstable();
        assert_eq!(whole, [0, 2]);
        (0..2).for_each(|_| _ = db.engine.collect_garbage());
        assert_eq!(db.table.index_entries(0), 2, "entries nobody needs are gone");
    });
}

#[test]
fn a_block_grows_beside_its_readers_and_writers() {
    explore(|| {
        let (db, rids) = Db::new(2);
        let inserter = spawn(&db, |db| {
            for id in 2..6 {
                let mut txn = db.begin(10 + id as u64);
                db.table.insert_row(&mut txn, &row(id, id)).expect("free");
                commit(txn);
            }
        });
        let writer = spawn(&db, move |db| {
            for n in [3, 5] {
                let mut txn = db.begin(20 + n as u64);
                db.set(&mut txn, rids[1], n).expect("one writer");
                if n == 3 { commit(txn) } else { Box::new(txn).abort() }
            }
        });
        let reader = spawn(&db, |db| {
            for _ in 0..2 {
                let snapshot = db.engine.snapshot();
                let first = db.scan(&snapshot);
                assert!(first[0] == 0 && (first[1] == 0 || first[1] == 3), "{first:?}");
                assert!(first[2..].iter().copied().eq(2..first.len() as i64), "{first:?}");
                assert_eq!(db.scan(&snapshot), first);
            }
        });
        join(vec![inserter, writer, reader, freezer(&db)]);
        assert_eq!(db.scan(&db.engine.snapshot()), [0, 3, 2, 3, 4, 5]);
    });
}

/// A column comes while rows do: each finds what the other has made.
#[test]
fn a_column_comes_while_a_block_grows() {
    explore(|| {
        let (db, _) = Db::new(2);
        let mut layout = Layout::clone(&layout());
        let missing = name(3);
        layout.columns.push(ColumnSpec {
            id: ColumnId(7),
            ty: ColumnType::Text,
            missing: missing.clone(),
        });
        let new = Arc::new(db.engine.open_table(SpaceId(1), Arc::new(layout)).expect("opens"));
        let inserter = spawn(&db, |db| {
            for id in 2..5 {
                let mut txn = db.begin(10 + id as u64);
                db.table.insert_row(&mut txn, &row(id, id)).expect("free");
                commit(txn);
            }
        });
        let adder = {
            let new = Arc::clone(&new);
            spawn(&db, move |db| {
                let mut txn = db.begin(30);
                let values = [row(9, 9), vec![name(9)]].concat();
                new.insert_row(&mut txn, &values).expect("free");
                commit(txn);
            })
        };
        let reader = {
            let new = Arc::clone(&new);
            spawn(&db, move |db| {
                let read = new.read_block(&db.engine.snapshot(), 0, &[1, 3]).expect("read");
                let value = |column: usize, ty, at| {
                    froglet_engine::batch::value_at(read.batch.column(column), at, ty)
                };
                for at in 0..read.rids.len() {
                    let own = value(0, ColumnType::Int64, at) == Value::Int64(9);
                    let want = if own { name(9) } else { missing.clone() };
                    assert_eq!(value(1, ColumnType::Text, at), want);
                }
            })
        };
        join(vec![inserter, adder, reader, collector(&db)]);
        let mut found = db.scan(&db.engine.snapshot());
        found.sort_unstable();
        assert_eq!(found, [0, 0, 2, 3, 4, 9]);
    });
}

#[test]
fn a_frozen_array_stays_as_it_was_and_its_view_sees_it() {
    explore(|| {
        let (db, rids) = Db::new(2);
        db.engine.freeze_cold();
        let reader = spawn(&db, |db| {
            let snapshot = db.engine.snapshot();
            let first = db.scan(&snapshot);
            assert_eq!(first[0], first[1], "both rows are of one commit");
            assert_eq!(db.scan(&snapshot), first);
        });
        let writer = spawn(&db, move |db| {
            for n in 1..3 {
                let mut txn = db.begin(10 + n as u64);
                rids.iter().for_each(|rid| db.set(&mut txn, *rid, n).expect("one writer"));
                commit(txn);
            }
        });
        join(vec![reader, writer, freezer(&db)]);
        assert_eq!(db.scan(&db.engine.snapshot()), vec![2, 2]);
    });
}

#[test]
fn a_reader_sees_whole_rows_of_one_commit() {
    explore(|| {
        let (db, rids) = Db::new(2);
        let writer = {
            let rids = rids.clone();
            spawn(&db, move |db| {
                for n in 1..3 {
                    let mut txn = db.begin(10 + n as u64);
                    rids.iter().for_each(|rid| db.set(&mut txn, *rid, n).expect("one writer"));
                    commit(txn);
                }
            })
        };
        let reader = spawn(&db, move |db| {
            let snapshot = db.engine.snapshot();
            let first = db.number(&snapshot, rids[0]);
            assert_eq!(db.number(&snapshot, rids[1]), first, "both rows are of one commit");
            assert_eq!(db.scan(&snapshot), vec![first.expect("seen"); 2]);
        });
        join(vec![writer, reader, collector(&db)]);
        assert_eq!(db.scan(&db.engine.snapshot()), vec![2, 2]);
    });
}

#[test]
fn what_lies_between_views_goes_and_no_view_notices() {
    explore(|| {
        let (db, rids) = Db::new(1);
        let rid = rids[0];
        let old = db.engine.snapshot();
        let writer = spawn(&db, move |db| {
            for n in 1..5 {
                let mut txn = db.begin(10 + n as u64);
                // One column, the other, both: of a run there stays what covers it.
                let base = txn.snapshot().ts;
                let set = |txn: &mut MemoryTxn, at: usize, value: Value| {
                    db.table.update_row(txn, base, rid, &[at], &[value]).expect("one writer");
                };
                set(&mut txn, 1, Value::Int64(n));
                if n == 2 {
                    let point = txn.savepoint();
                    set(&mut txn, 2, name(77));
                    txn.rollback_to(point);
                }
                set(&mut txn, 2, name(n));
                commit(txn);
            }
        });
        let readers = (0..2).map(|_| {
            spawn(&db, move |db| {
                let snapshot = db.engine.snapshot();
                let first = db.number(&snapshot, rid).expect("seen");
                thread::yield_now();
                assert_eq!(db.number(&snapshot, rid), Some(first));
                assert_eq!(db.scan(&snapshot), [first]);
                assert_eq!(db.seek(&snapshot, 1), [(rid, first)]);
            })
        });
        let mut tasks: Vec<_> = readers.collect();
        tasks.extend([writer, collector(&db)]);
        join(tasks);
        db.engine.collect_garbage();
        assert_eq!(db.number(&old, rid), Some(0));
        assert_eq!(db.seek(&old, 1), [(rid, 0)]);
        // The newest version, and one record of each column for the old view.
        let versions = db.engine.block_counts(SpaceId(1)).versions;
        assert!(versions <= 4, "{versions} versions for two views");
        drop(old);
        (0..2).for_each(|_| _ = db.engine.collect_garbage());
        assert_eq!(db.engine.block_counts(SpaceId(1)).versions, 0);
        assert_eq!([0, 1, 2].map(|at| db.table.index_entries(at)), [1; 3]);
    });
}

#[test]
fn an_abort_is_never_seen() {
    explore(|| {
        let (db, rids) = Db::new(1);
        let rid = rids[0];
        let aborting = spawn(&db, move |db| {
            for n in 1..3 {
                let mut txn = db.begin(10 + n as u64);
                db.set(&mut txn, rid, 7).expect("one writer");
                let point = txn.savepoint();
                db.set(&mut txn, rid, 8).expect("own");
                if n == 2 {
                    txn.rollback_to(point);
                }
                Box::new(txn).abort();
            }
        });
        let readers = (0..2).map(|i| {
            spawn(&db, move |db| {
                let snapshot =
                    if i == 0 { db.engine.snapshot() } else { db.engine.fresh(TxnId(0)) };
                assert_eq!(db.number(&snapshot, rid), Some(0));
                assert_eq!(db.scan(&snapshot), vec![0]);
            })
        });
        let mut tasks: Vec<_> = readers.collect();
        tasks.extend([aborting, collector(&db)]);
        join(tasks);
        assert_eq!(db.scan(&db.engine.snapshot()), vec![0]);
    });
}

#[test]
fn no_update_is_lost() {
    explore(|| {
        let (db, rids) = Db::new(1);
        let rid = rids[0];
        let counted = Arc::new(std::sync::atomic::AtomicI64::new(0));
        let adders = (0..2).map(|adder| {
            let counted = Arc::clone(&counted);
            spawn(&db, move |db| {
                for round in 0..2 {
                    let mut txn = db.begin(10 + adder * 2 + round);
                    let n = db.number(txn.snapshot(), rid).expect("seen");
                    if db.set(&mut txn, rid, n + 1).is_ok() {
                        commit(txn);
                        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                }
            })
        });
        let mut tasks: Vec<_> = adders.collect();
        tasks.push(collector(&db));
        join(tasks);
        let want = counted.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(db.number(&db.engine.snapshot(), rid), Some(want));
    });
}

#[test]
fn a_unique_key_has_one_owner() {
    explore(|| {
        let (db, _) = Db::new(0);
        let inserters = (0..2).map(|i| {
            spawn(&db, move |db| {
                let mut txn = db.begin(10 + i);
                match db.table.insert_row(&mut txn, &row(5, i as i64)) {
                    Ok(_) => {
                        commit(txn);
                    }
                    Err(WriteStop::Busy { .. } | WriteStop::Duplicate { .. }) => {}
                    Err(stop) => panic!("{stop:?}"),
                }
            })
        });
        let mut tasks: Vec<_> = inserters.collect();
        tasks.push(collector(&db));
        join(tasks);
        let snapshot = db.engine.snapshot();
        assert_eq!(db.scan(&snapshot).len(), 1, "one of two has the key");
        assert_eq!(db.seek(&snapshot, 0).len(), 1);
    });
}

#[test]
fn an_index_finds_every_visible_row_once() {
    explore(|| {
        let (db, rids) = Db::new(2);
        let rid = rids[0];
        let writer = spawn(&db, move |db| {
            for (i, n) in [5, 0].into_iter().enumerate() {
                let mut txn = db.begin(10 + i as u64);
                while db.set(&mut txn, rid, n).is_err() {
                    // The other one has the row, and will abort.
                    thread::yield_now();
                }
                commit(txn);
            }
        });
        let aborting = spawn(&db, move |db| {
            let mut txn = db.begin(20);
            let _ = db.set(&mut txn, rid, 5);
            let _ = db.set(&mut txn, rid, 6);
            Box::new(txn).abort();
        });
        let reader = spawn(&db, move |db| {
            let snapshot = db.engine.snapshot();
            let n = db.number(&snapshot, rid).expect("seen");
            for index in 1..3 {
                let mut found = db.seek(&snapshot, index);
                found.sort_unstable();
                assert_eq!(found, vec![(rids[0], n), (rids[1], 0)]);
            }
        });
        join(vec![writer, aborting, reader, collector(&db)]);
        db.engine.collect_garbage();
        let snapshot = db.engine.snapshot();
        for index in 1..3 {
            assert_eq!(db.seek(&snapshot, index).len(), 2);
            assert_eq!(db.table.index_entries(index), 2, "entries nobody needs are gone");
        }
    });
}

#[test]
fn a_slot_is_used_again_only_when_nobody_sees_its_row() {
    explore(|| {
        let (db, rids) = Db::new(1);
        let rid = rids[0];
        let writer = spawn(&db, move |db| {
            let mut txn = db.begin(10);
            let base = txn.snapshot().ts;
            db.table.delete_row(&mut txn, base, rid).expect("one writer");
            commit(txn);
            for i in 0..2 {
                let mut txn = db.begin(11 + i);
                db.table.insert_row(&mut txn, &row(9 + i as i64, 3)).expect("free");
                commit(txn);
            }
        });
        let reader = spawn(&db, move |db| {
            let snapshot = db.engine.snapshot();
            let seen = db.number(&snapshot, rid);
            let all = db.scan(&snapshot);
            assert_eq!(db.number(&snapshot, rid), seen);
            assert_eq!(db.scan(&snapshot), all);
            assert!(all.iter().filter(|n| **n == 0).count() <= 1);
        });
        join(vec![writer, reader, collector(&db)]);
        assert_eq!(db.scan(&db.engine.snapshot()), vec![3, 3]);
    });
}

#[test]
fn what_is_kept_stays_and_what_is_released_goes() {
    explore(|| {
        let (db, rids) = Db::new(2);
        let (row, doomed) = (rids[0], rids[1]);
        let commits = Arc::new(std::sync::Mutex::new(Vec::new()));
        let writer = {
            let commits = Arc::clone(&commits);
            spawn(&db, move |db| {
                for n in 1..4 {
                    let mut txn = db.begin(10 + n as u64);
                    db.set(&mut txn, row, n).expect("one writer");
                    if n == 2 {
                        let base = txn.snapshot().ts;
                        db.table.delete_row(&mut txn, base, doomed).expect("one writer");
                    }
                    let ts = txn.pre_commit();
                    commits.lock().expect("no panic").push((ts, n));
                    let logged = Box::new(txn).post_commit().expect("commits");
                    logged.waits_for_nothing(NO_LOG);
                }
            })
        };
        let keeper = spawn(&db, move |db| {
            let mut txn = db.begin(20);
            txn.keep(1, &[SpaceId(1)]).expect("a slot is free");
            commit(txn);
            let see = || {
                let view = db.engine.kept(1).expect("kept");
                let rows = (db.number(&view, row), db.number(&view, doomed));
                assert_eq!(db.seek(&view, 0).len(), 1 + rows.1.iter().len());
                (view.ts, rows)
            };
            let (ts, first) = see();
            thread::yield_now();
            assert_eq!(see(), (ts, first), "it is kept");
            let commits = commits.lock().expect("no panic").clone();
            let newest = commits.iter().rev().find(|(commit, _)| *commit <= ts);
            let n = newest.map_or(0, |(_, n)| *n);
            assert_eq!(first, (Some(n), (n < 2).then_some(0)), "as of {ts} of {commits:?}");
            db.engine.release(1).expect("released");
        });
        join(vec![writer, keeper, collector(&db)]);
        (0..2).for_each(|_| _ = db.engine.collect_garbage());
        assert_eq!(db.table.old_versions(), 0, "nothing is held");
        assert_eq!(db.table.index_entries(0), 1, "entries nobody needs are gone");
        assert_eq!(db.scan(&db.engine.snapshot()), vec![3]);
    });
}

#[test]
fn what_a_fresh_view_does_not_see_comes_through_the_feed() {
    explore(|| {
        let (db, rids) = Db::new(1);
        let rid = rids[0];
        let writer = spawn(&db, move |db| {
            let mut txn = db.begin(10);
            db.set(&mut txn, rid, 1).expect("one writer");
            commit(txn);
        });
        let reader = spawn(&db, move |db| {
            let mut feed = db.table.open_feed();
            let fresh = db.engine.fresh(TxnId(0));
            let seen = db.number(&fresh, rid);
            drop(fresh);
            while db.number(&db.engine.snapshot(), rid) != Some(1) {
                thread::yield_now();
            }
            let mut captured = Vec::new();
            feed.drain(&mut captured);
            assert!(
                seen == Some(1) || captured == vec![rid],
                "read {seen:?}, captured {captured:?}"
            );
        });
        join(vec![writer, reader, collector(&db)]);
    });
}

#[test]
fn a_key_that_is_being_written_is_not_read_torn() {
    explore(|| {
        let (db, rids) = Db::new(1);
        let rid = rids[0];
        let mut txn = db.begin(5);
        db.set(&mut txn, rid, 1).expect("free");
        commit(txn);
        let writer = spawn(&db, move |db| {
            let mut txn = db.begin(10);
            db.set(&mut txn, rid, 2).expect("one writer");
            db.set(&mut txn, rid, 3).expect("own");
            commit(txn);
        });
        join(vec![writer, collector(&db)]);
        db.engine.collect_garbage();
        assert_eq!(db.table.index_entries(2), 1);
        assert_eq!(db.seek(&db.engine.snapshot(), 2), vec![(rid, 3)]);
    });
}

/// [`layout`] with one more index over n.
fn layout_to_be() -> Arc<Layout> {
    let mut layout = Layout::clone(&layout());
    let part = KeyPart { column: ColumnId(1), descending: false, nulls_first: false };
    layout.indexes.push(IndexSpec {
        id: IndexId(4),
        key: vec![part],
        unique: false,
        unique_at_commit: false,
        nulls: Default::default(),
    });
    Arc::new(layout)
}

#[test]
fn a_build_misses_no_key_and_keeps_none_that_was_lost() {
    explore(|| {
        let (db, rids) = Db::new(2);
        let new = db.engine.open_table(SpaceId(1), layout_to_be()).expect("opens");
        let writer = spawn(&db, move |db| {
            let mut txn = db.begin(10);
            db.set(&mut txn, rids[0], 5).expect("one writer");
            commit(txn);
            let mut txn = db.begin(11);
            let base = txn.snapshot().ts;
            db.table.delete_row(&mut txn, base, rids[1]).expect("one writer");
            commit(txn);
            let mut txn = db.begin(12);
            db.set(&mut txn, rids[0], 6).expect("one writer");
            Box::new(txn).abort();
            let mut txn = db.begin(13);
            db.table.insert_row(&mut txn, &row(9, 7)).expect("free");
            commit(txn);
        });
        let new = Arc::new(new);
        let builder = {
            let new = Arc::clone(&new);
            spawn(&db, move |db| {
                let mut feed = db.table.open_feed();
                let build = Arc::clone(&new).build_index(3).expect("the index is empty");
                build.scan_block(TxnId(0), 0).expect("scanned");
                build.load(&mut |_| true).expect("loaded");
                drop(build);
                while db.scan(&db.engine.snapshot()) != [5, 7] {
                    thread::yield_now();
                }
                let mut captured = Vec::new();
                feed.drain(&mut captured);
                captured.sort_unstable();
                captured.dedup();
                new.index_rows(TxnId(0), 3, &captured, &mut Vec::new()).expect("indexed");
            })
        };
        join(vec![writer, builder, collector(&db)]);
        db.engine.collect_garbage();
        let mut found = Vec::new();
        let snapshot = db.engine.snapshot();
        let all = KeyRange::all();
        new.seek(&snapshot, 3, &all, Direction::Forward, &[1, 2], &mut |_, row| {
            found.push(whole(row));
            ControlFlow::Continue(())
        });
        assert_eq!(found, [5, 7]);
        assert_eq!(new.index_entries(3), 2, "entries nobody needs are gone");
    });
}
