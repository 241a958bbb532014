//! What a crash leaves: everything acknowledged, nothing half done.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use froglet_engine::env::MemEnv;
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Direction, Engine, EngineError, IndexId, KeyRange, Layout,
    Loaded, Row, Savepoint, SpaceId, TxnId, Value,
};
use froglet_memory::{MemoryEngine, MemoryOptions};

use crate::support::*;

const OTHER: SpaceId = SpaceId(8);

pub fn options(env: &MemEnv) -> MemoryOptions {
    MemoryOptions {
        data_dir: Some(PathBuf::from("/data")),
        env: Arc::new(env.program()),
        index_rows_min: 1,
        agree: None,
        ..MemoryOptions::default()
    }
}

pub fn open(env: &MemEnv) -> Db {
    let db = Db::with(accounts(), options(env));
    fill_indexes(&db);
    db
}

pub fn fill_indexes(db: &Db) {
    for index in 0..db.table.layout().indexes.len() {
        let build = Arc::clone(&db.table).build_index(index).expect("an index without entries");
        for block in 0..db.table.block_count() {
            build.scan_block(TxnId(0), block).expect("a block is scanned");
        }
        let loaded = build.load(&mut |_| true).expect("an index is loaded");
        assert!(matches!(loaded, Loaded::Whole(loading) if loading.duplicates.is_empty()));
    }
}

/// Waits until everything committed so far is durable.
pub fn sync(db: &Db) {
    let (send, receive) = mpsc::channel();
    db.engine.when_durable(
        db.engine.appended(),
        Box::new(move |outcome| send.send(outcome).expect("waited for")),
    );
    receive.recv().expect("called back").expect("durable");
}

pub fn crash(env: &MemEnv, db: Db) -> Db {
    env.crash();
    drop(db);
    open(env)
}

fn everything(db: &Db) -> Vec<Row> {
    db.scan(&db.engine.snapshot())
}

/// A checkpoint looks at the columns of a space once: one that looked twice met others, and the process ended.
#[test]
fn columns_come_and_go_while_checkpoints_are_written() {
    let env = MemEnv::new(1);
    let db = open(&env);
    db.insert(&(0..50).map(|id| account(id, "name", id)).collect::<Vec<_>>());
    let before = everything(&db);
    std::thread::scope(|scope| {
        let checkpoints = scope.spawn(|| {
            for _ in 0..200 {
                db.engine.checkpoint().expect("there is space");
            }
        });
        for id in 100.. {
            let mut layout = Layout::clone(&accounts());
            layout.columns.push(column(id, ColumnType::Int64));
            layout.indexes.push(index(id, &[id], false));
            let wide = db.engine.open(SPACE, Arc::new(layout)).expect("there is memory");
            wide.index_block(TxnId(0), 2, 0, &mut Vec::new()).expect("there is memory");
            db.engine.drop_column(SPACE, ColumnId(id));
            db.engine.drop_index(SPACE, IndexId(id));
            if checkpoints.is_finished() {
                break;
            }
            // Other tests of this process need their garbage to go.
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    let db = crash(&env, db);
    assert_eq!(everything(&db), before);
}

#[test]
fn what_was_durable_comes_back_at_its_place() {
    let env = MemEnv::new(1);
    let db = open(&env);
    let rids = db.insert(&(0..100).map(|i| account(i, &long(i), -i)).collect::<Vec<_>>());
    let mut txn = db.begin();
    for rid in rids.iter().step_by(3) {
        delete(&*db.table, &mut *txn, *rid).expect("free");
    }
    let point = txn.savepoint();
    delete(&*db.table, &mut *txn, rids[1]).expect("free");
    txn.rollback_to(point);
    update(&*db.table, &mut *txn, rids[1], &[1, 2], &[Value::Null, Value::Int64(77)])
        .expect("free");
    commit(txn);
    let mut aborted = db.begin();
    delete(&*db.table, &mut *aborted, rids[2]).expect("free");
    aborted.abort();
    let _ = db.engine.put_note(5, b"old").expect("noted");
    let _ = db.engine.put_note(5, b"new").expect("noted");
    sync(&db);
    assert!(db.engine.durable() >= db.engine.appended());
    let want = everything(&db);
    let now = db.engine.now();
    let mut unfinished = db.begin();
    delete(&*db.table, &mut *unfinished, rids[4]).expect("free");
    drop(unfinished);
    let db = crash(&env, db);
    assert_eq!(everything(&db), want);
    assert_eq!(db.row(rids[1]), Some(vec![Value::Int64(1), Value::Null, Value::Int64(77)]));
    assert_eq!(db.row(rids[0]), None);
    assert_eq!(db.engine.notes(), vec![(5, b"new".to_vec())]);
    assert!(db.engine.now() >= now.min(db.engine.durable_ts()));
    let by_n = seek(&*db.table, &db.engine.snapshot(), 1, &KeyRange::all(), Direction::Backward);
    assert_eq!(by_n.len(), want.len());
    // Free slots are used again, and keys are watched again.
    let fresh = db.insert(&[account(1000, "x", 0)])[0];
    assert!(rids.contains(&fresh));
    assert!(insert(&*db.table, &mut *db.begin(), account(1000, "y", 0)).is_err());
}

#[test]
fn a_checkpoint_takes_the_place_of_the_log() {
    let env = MemEnv::new(2);
    let mut db = open(&env);
    let mut random = Random(2);
    let mut next = 0;
    for round in 0..6 {
        for _ in 0..40 {
            let mut txn = db.begin();
            for _ in 0..50 {
                let choice = random.below(10);
                let rid = froglet_engine::RowId(random.below(9000));
                if choice < 6 {
                    insert(&*db.table, &mut *txn, account(next, &long(next), next)).expect("new");
                    next += 1;
                } else if db.row(rid).is_some() {
                    let name = Value::text(long(random.below(1 << 30) as i64));
                    let _ = match choice {
                        6 => delete(&*db.table, &mut *txn, rid),
                        _ => update(&*db.table, &mut *txn, rid, &[1], &[name]),
                    };
                }
            }
            commit(txn);
        }
        sync(&db);
        let want = everything(&db);
        if round % 2 == 0 {
            db.engine.checkpoint().expect("a checkpoint is written");
        }
        if round % 3 == 0 {
            db.engine.checkpoint().expect("an empty checkpoint is written");
        }
        db = crash(&env, db);
        assert_eq!(everything(&db), want, "round {round}");
    }
}

#[test]
fn a_crash_in_a_checkpoint_leaves_the_old_one() {
    for nth in 1..40 {
        let env = MemEnv::new(nth);
        let db = open(&env);
        let rids = db.insert(&(0..50).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
        sync(&db);
        db.engine.checkpoint().expect("a checkpoint is written");
        let mut txn = db.begin();
        update(&*db.table, &mut *txn, rids[3], &[1], &[Value::text("new")]).expect("free");
        commit(txn);
        sync(&db);
        let want = everything(&db);
        env.inject(froglet_engine::env::Fault {
            point: froglet_engine::env::FaultPoint::Change,
            nth,
            kind: froglet_engine::env::FaultKind::Io,
        });
        let done = db.engine.checkpoint().is_ok();
        let db = crash(&env, db);
        assert_eq!(everything(&db), want, "the {nth}-th change failed");
        db.engine.checkpoint().expect("the next checkpoint is written");
        let db = crash(&env, db);
        assert_eq!(everything(&db), want, "after the next checkpoint, the {nth}-th change failed");
        if done {
            return;
        }
    }
    panic!("a checkpoint takes fewer changes than that");
}

#[test]
fn a_failed_checkpoint_loses_no_change() {
    let env = MemEnv::new(3);
    let db = open(&env);
    let rids = db.insert(&(0..50).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    db.engine.checkpoint().expect("a checkpoint is written");
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rids[3], &[1], &[Value::text("new")]).expect("free");
    commit(txn);
    sync(&db);
    env.inject(froglet_engine::env::Fault {
        point: froglet_engine::env::FaultPoint::Write,
        nth: 1,
        kind: froglet_engine::env::FaultKind::DiskFull,
    });
    assert!(db.engine.checkpoint().is_err());
    db.engine.checkpoint().expect("there is space again");
    let want = everything(&db);
    let db = crash(&env, db);
    assert_eq!(everything(&db), want);
}

#[test]
fn a_manifest_that_may_be_in_place_names_files_that_stay() {
    let fault = |point, nth| froglet_engine::env::Fault {
        point,
        nth,
        kind: froglet_engine::env::FaultKind::Io,
    };
    for seed in 0..40 {
        let env = MemEnv::new(seed);
        let db = open(&env);
        let rids = db.insert(&(0..50).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
        db.engine.checkpoint().expect("a checkpoint is written");
        let rename = |to: &str| {
            let mut txn = db.begin();
            update(&*db.table, &mut *txn, rids[3], &[1], &[Value::text(to)]).expect("free");
            commit(txn);
            sync(&db);
        };
        rename("after the first checkpoint");
        // The directory is synced after the files, and after the manifest has its name.
        env.inject(fault(froglet_engine::env::FaultPoint::SyncDir, 2));
        assert!(db.engine.checkpoint().is_err());
        rename("after the one in doubt");
        env.inject(fault(froglet_engine::env::FaultPoint::Change, 1 + seed / 4));
        let _ = db.engine.checkpoint();
        let want = everything(&db);
        let db = crash(&env, db);
        assert_eq!(everything(&db), want, "seed {seed}");
    }
}

#[test]
fn columns_and_fills_come_back() {
    let env = MemEnv::new(4);
    let mut wide = Layout::clone(&accounts());
    let missing = Value::text("a missing value longer than its view");
    wide.columns.push(ColumnSpec {
        id: froglet_engine::ColumnId(4),
        ty: ColumnType::Text,
        missing: missing.clone(),
    });
    wide.columns.push(column(5, ColumnType::Int32));
    let wide = Arc::new(wide);
    let db = open(&env);
    let rids = db.insert(&(0..10).map(|i| account(i, "x", i)).collect::<Vec<_>>());
    let new = db.engine.open(SPACE, wide.clone()).expect("opens");
    new.migrate_block(TxnId(0), Savepoint(0), 0, None, &[0], &[4], &mut |rows| {
        let ids = rows.batch.num_rows() as i32;
        let column: arrow_array::ArrayRef =
            Arc::new(arrow_array::Int32Array::from_iter_values(0..ids));
        Ok(vec![column].into())
    })
    .expect("a block is migrated");
    // A row of a writer that knows the old layout only.
    let late = db.insert(&[account(10, "y", 10)])[0];
    sync(&db);
    let want = scan(&*new, &db.engine.snapshot());
    assert_eq!(
        read(&*new, &db.engine.snapshot(), rids[7]).expect("there")[3..],
        [missing, Value::Int32(7)]
    );
    assert_eq!(read(&*new, &db.engine.snapshot(), late).expect("there")[4], Value::Null);
    drop(new);
    let db = crash(&env, db);
    let new = db.engine.open(SPACE, wide.clone()).expect("opens");
    assert_eq!(scan(&*new, &db.engine.snapshot()), want);
    db.engine.checkpoint().expect("a checkpoint is written");
    drop(new);
    let db = crash(&env, db);
    let new = db.engine.open(SPACE, wide).expect("opens");
    assert_eq!(scan(&*new, &db.engine.snapshot()), want);
    db.engine.drop_column(SPACE, froglet_engine::ColumnId(4));
    db.engine.drop_space(froglet_engine::SpaceId(99));
    drop(new);
    sync(&db);
    let db = crash(&env, db);
    assert_eq!(everything(&db).len(), 11);
}

#[test]
fn damage_is_reported_with_its_place() {
    let env = MemEnv::new(5);
    let db = open(&env);
    db.insert(&(0..50).map(|i| account(i, &long(i), i)).collect::<Vec<_>>());
    db.engine.checkpoint().expect("a checkpoint is written");
    drop(db);
    let path = PathBuf::from("/data/checkpoint").join(format!("000001-space-{SPACE}.arrow"));
    let good = env.contents(&path).expect("the file is there");
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    env.overwrite(&path, bad);
    let error = MemoryEngine::open(options(&env)).expect_err("damaged");
    assert!(matches!(error, EngineError::Corrupt { .. }), "{error}");
    env.overwrite(&path, good);
    let manifest = PathBuf::from("/data/checkpoint/manifest.json");
    let good = env.contents(&manifest).expect("the file is there");
    for at in [0, good.len() / 2, good.len() - 3] {
        let mut bad = good.clone();
        bad[at] ^= 4;
        env.overwrite(&manifest, bad);
        assert!(matches!(MemoryEngine::open(options(&env)), Err(EngineError::Corrupt { .. })));
    }
    env.overwrite(&manifest, good);
    assert_eq!(everything(&open(&env)).len(), 50);
}

/// A table that moved away and back is in two spaces while somebody reads the older one: their indexes have one number.
#[test]
fn indexes_of_one_number_in_two_spaces_are_two() {
    let env = MemEnv::new(5);
    let both = || {
        let db = open(&env);
        db.engine.create_space(OTHER).expect("a space is made");
        let table = db.engine.open(OTHER, accounts()).expect("a table opens");
        let other = Db { engine: Arc::clone(&db.engine), table };
        fill_indexes(&other);
        (db, other)
    };
    let (db, other) = both();
    db.insert(&(0..9).map(|id| account(id, "here", id)).collect::<Vec<_>>());
    other.insert(&(0..300).map(|id| account(id, "there", 3 * id)).collect::<Vec<_>>());
    let were = [everything(&db), everything(&other)];
    db.engine.checkpoint().expect("there is space");
    drop((db, other));
    env.crash();
    let (db, other) = both();
    assert_eq!([everything(&db), everything(&other)], were);
}
