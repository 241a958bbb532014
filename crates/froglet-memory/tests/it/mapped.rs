//! Restarts from mapped blocks and saved index entries: the rows are those that were, and an index has
//! exactly the entries that its rows give.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use froglet_engine::env::{Env, MemEnv, RealEnv};
use froglet_engine::{
    ColumnType, Engine, IndexId, Interval, Layout, Loaded, Loading, Row, RowId, Table, TxnId, Value,
};
use froglet_memory::{FreezeOptions, MemoryEngine, MemoryOptions, MemoryTable};

use crate::recovery::{fill_indexes, options, sync};
use crate::support::*;

const BLOCK: i64 = 8192;

fn own(table: &Arc<dyn Table>) -> &MemoryTable {
    table.as_any().downcast_ref().expect("it is this engine's")
}

fn entries(db: &Db) -> Vec<Vec<(Vec<u8>, RowId)>> {
    (0..db.table.layout().indexes.len()).map(|at| own(&db.table).list_index(at)).collect()
}

/// How many blocks of each index come from a checkpoint.
fn saved(db: &Db) -> Vec<usize> {
    (0..db.table.layout().indexes.len()).map(|at| own(&db.table).blocks_saved(at)).collect()
}

/// Waits until no block has versions: then a checkpoint finds them as they will be.
fn settle(db: &Db) {
    sync(db);
    while own(&db.table).old_versions() > 0 {
        db.engine.collect_garbage();
    }
}

fn copied(env: &MemEnv) -> MemEnv {
    let copy = MemEnv::new(1);
    for dir in ["/data", "/data/log", "/data/checkpoint"] {
        copy.create_dir_all(Path::new(dir)).expect("a directory of its own");
        for name in env.list(Path::new(dir)).expect("the directory is there") {
            let path = Path::new(dir).join(name);
            copy.overwrite(&path, env.contents(&path).expect("it was listed"));
        }
    }
    copy
}

/// Comes up again after a crash, with what every index is to have: what it has if it is filled row by row.
fn restarted(env: &MemEnv, db: Db, layout: &Arc<Layout>) -> Db {
    env.crash();
    drop(db);
    let by_rows = Db::with(Arc::clone(layout), options(&copied(env)));
    for index in 0..layout.indexes.len() {
        for block in 0..by_rows.table.block_count() {
            let entered = by_rows.table.index_block(TxnId(0), index, block, &mut Vec::new());
            entered.expect("an index is filled");
        }
    }
    let db = Db::with(Arc::clone(layout), options(env));
    fill_indexes(&db);
    assert_eq!(entries(&db), entries(&by_rows));
    db
}

/// A column of every type, and indexes over some of them.
fn typed() -> Arc<Layout> {
    let types = [
        ColumnType::Int64,
        ColumnType::Bool,
        ColumnType::Int16,
        ColumnType::Int32,
        ColumnType::Date,
        ColumnType::Float32,
        ColumnType::Float64,
        ColumnType::Timestamp,
        ColumnType::TimestampTz,
        ColumnType::Decimal { precision: 20, scale: 3 },
        ColumnType::Text,
        ColumnType::Bytes,
        ColumnType::Uuid,
        ColumnType::Time,
        ColumnType::Interval,
        ColumnType::Numeric,
    ];
    let columns = (1..).zip(types).map(|(id, ty)| column(id, ty)).collect();
    let indexes = vec![
        index(1, &[1], true),
        index(2, &[11, 2], false),
        index(3, &[4], true),
        index(4, &[16], true),
    ];
    Arc::new(Layout { columns, indexes, row_key: None })
}

fn typed_row(n: i64) -> Row {
    let short = n as i32;
    let text = match n % 4 {
        0 => String::new(),
        1 => format!("{n}"),
        2 => format!("ein längerer Text: {n}"),
        _ => format!("a string longer than its view, number {n}"),
    };
    let mut row = vec![
        Value::Int64(n),
        Value::Bool(n % 3 == 0),
        Value::Int16(n as i16),
        Value::Int32(short),
        Value::Date(short),
        Value::Float32(n as f32 / 3.0),
        Value::Float64(-(n as f64)),
        Value::Timestamp(n * 1000),
        Value::TimestampTz(-n),
        Value::Decimal(i128::from(n) << 40),
        Value::text(&text),
        Value::Bytes(text.as_bytes().into()),
        Value::Uuid([n as u8; 16]),
        Value::Time(n),
        Value::Interval(Interval { months: -short, days: short, us: -n }),
        number(n, (n % 3) as u16),
    ];
    // NULL in every column but the first; a unique index has many of them.
    if n % 5 == 0 {
        row[1 + (n / 5) as usize % 15] = Value::Null;
    }
    row
}

#[test]
fn every_type_comes_back_mapped_and_is_written_to() {
    let env = MemEnv::new(1);
    let layout = typed();
    let mut db = Db::with(Arc::clone(&layout), options(&env));
    fill_indexes(&db);
    let rids = db.insert(&(0..2 * BLOCK + 100).map(typed_row).collect::<Vec<_>>());
    for round in 0..3 {
        sync(&db);
        let want = db.scan(&db.engine.snapshot());
        db.engine.checkpoint().expect("a checkpoint is written");
        db = restarted(&env, db, &layout);
        assert_eq!(db.scan(&db.engine.snapshot()), want, "round {round}");
        assert!(db.table.block_stats(0, 0).is_some_and(|stats| stats.rows == BLOCK as usize));
        // What is mapped is thawed where it is written to, and nowhere else.
        let mut txn = db.begin();
        for at in (0..50).map(|n| n * 37) {
            let all: Vec<usize> = (1..layout.columns.len()).collect();
            let values = &typed_row(at as i64 + 100_000 * (round + 1))[1..];
            update(&*db.table, &mut *txn, rids[at], &all, values).expect("free");
        }
        delete(&*db.table, &mut *txn, rids[1 + round as usize]).expect("free");
        commit(txn);
        assert!(db.table.block_stats(0, 1).is_none(), "the first block was written to");
        assert!(db.table.block_stats(1, 1).is_some(), "the second was not");
    }
    sync(&db);
    let want = db.scan(&db.engine.snapshot());
    let db = restarted(&env, db, &layout);
    assert_eq!(db.scan(&db.engine.snapshot()), want);
}

#[test]
fn only_blocks_that_changed_are_read_for_an_index() {
    let env = MemEnv::new(2);
    let db = Db::with(accounts(), options(&env));
    fill_indexes(&db);
    let rows: Vec<Row> = (0..12 * BLOCK).map(|n| account(n, "x", -n)).collect();
    let rids = db.insert(&rows);
    settle(&db);
    db.engine.checkpoint().expect("a checkpoint is written");
    // Block 3 changes before the next checkpoint, which does not save the indexes again; block 5 after it.
    let touch = |db: &Db, block: i64, n: i64| {
        let mut txn = db.begin();
        let rid = rids[(block * BLOCK) as usize];
        update(&*db.table, &mut *txn, rid, &[2], &[Value::Int64(n)]).expect("free");
        commit(txn);
    };
    touch(&db, 3, 1_000_000);
    settle(&db);
    db.engine.checkpoint().expect("a checkpoint is written");
    touch(&db, 5, 1_000_001);
    sync(&db);
    env.crash();
    drop(db);
    let db = Db::with(accounts(), options(&copied(&env)));
    assert_eq!(
        saved(&db),
        [11, 11],
        "block 3 was written again; the log is asked when it is built"
    );
    drop(db);
    let again = Db::with(accounts(), options(&copied(&env)));
    again.engine.checkpoint().expect("a checkpoint is written");
    assert_eq!(saved(&again), [0, 0], "nothing is left after a checkpoint");
    drop(again);
    restarted(&env, Db::with(accounts(), options(&copied(&env))), &accounts());
}

#[test]
fn an_index_of_another_key_or_another_name_is_built_from_rows() {
    let env = MemEnv::new(3);
    let db = Db::with(accounts(), options(&env));
    fill_indexes(&db);
    db.insert(&(0..BLOCK).map(|n| account(n, "x", n % 7)).collect::<Vec<_>>());
    db.engine.checkpoint().expect("a checkpoint is written");
    let mut other = Layout::clone(&accounts());
    other.indexes = vec![index(1, &[3, 1], true), index(9, &[3], false)];
    let other = Arc::new(other);
    let db = restarted(&env, db, &other);
    assert_eq!(entries(&db)[0].len(), BLOCK as usize);
    db.engine.drop_index(SPACE, IndexId(9));
    db.engine.checkpoint().expect("a checkpoint is written");
    let db = restarted(&env, db, &accounts());
    assert_eq!(entries(&db)[1].len(), BLOCK as usize);
}

#[test]
fn an_index_that_lacks_keys_when_it_is_saved_has_them_after_a_restart() {
    let env = MemEnv::new(4);
    let db = Db::with(accounts(), options(&env));
    fill_indexes(&db);
    // Rows of a writer that knows no index: as when one was dropped, or is being made.
    let bare = Arc::new(Layout { indexes: Vec::new(), ..Layout::clone(&accounts()) });
    let bare = db.engine.open(SPACE, bare).expect("opens");
    db.insert(&(0..2 * BLOCK).map(|n| account(n, "x", n)).collect::<Vec<_>>());
    let mut txn = db.begin();
    for n in 0..BLOCK {
        insert(&*bare, &mut *txn, account(100_000 + n, "y", n)).expect("free");
    }
    update(&*bare, &mut *txn, RowId(5), &[0, 2], &[Value::Int64(77_777), Value::Null])
        .expect("free");
    commit(txn);
    settle(&db);
    db.engine.checkpoint().expect("a checkpoint is written");
    let half = Db::with(accounts(), options(&copied(&env)));
    assert_eq!(saved(&half), [1, 1], "only the second block is covered");
    drop((half, bare));
    let db = restarted(&env, db, &accounts());
    assert_eq!(entries(&db)[0].len(), 3 * BLOCK as usize);
}

#[test]
fn a_broken_snapshot_of_an_index_is_not_used() {
    let env = MemEnv::new(5);
    let db = Db::with(accounts(), options(&env));
    fill_indexes(&db);
    db.insert(&(0..BLOCK).map(|n| account(n, "x", n)).collect::<Vec<_>>());
    db.engine.checkpoint().expect("a checkpoint is written");
    drop(db);
    // Two keys change places, and every checksum is made right.
    let path = PathBuf::from("/data/checkpoint/000001-index-7-1.arrow");
    let mut bytes = env.contents(&path).expect("the file is there");
    let key = |n: i64| {
        let mut key = Vec::new();
        let part = accounts().indexes[0].key[0];
        froglet_engine::key::encode_part(&mut key, &Value::Int64(n), &part);
        key
    };
    let find = |bytes: &[u8], key: &[u8]| {
        bytes.windows(key.len()).position(|window| window == key).expect("the key is there")
    };
    let (a, b) = (find(&bytes, &key(100)), find(&bytes, &key(200)));
    bytes[a..a + key(200).len()].copy_from_slice(&key(200));
    bytes[b..b + key(100).len()].copy_from_slice(&key(100));
    let manifest = PathBuf::from("/data/checkpoint/manifest.json");
    let text = String::from_utf8(env.contents(&manifest).expect("there")).expect("text");
    let (body, _) = text.split_once('\n').expect("a checksum follows");
    let mut json: serde_json::Value = serde_json::from_str(body).expect("JSON");
    for file in json["files"].as_array_mut().expect("a list") {
        if file["name"] == "000001-index-7-1.arrow" {
            file["crc32"] = crc32fast::hash(&bytes).into();
        }
    }
    let body = json.to_string();
    let crc = crc32fast::hash(body.as_bytes());
    env.overwrite(&manifest, format!("{body}\n{crc:08x}\n").into_bytes());
    env.overwrite(&path, bytes);
    let db = Db::with(accounts(), options(&env));
    assert_eq!(saved(&db), [1, 1]);
    restarted(&env, db, &accounts());
}

#[test]
fn random_writes_beside_checkpoints_leave_exact_indexes() {
    for seed in 0..4 {
        let env = MemEnv::new(seed);
        let mut db = Db::with(accounts(), options(&env));
        fill_indexes(&db);
        db.insert(&(0..2 * BLOCK).map(|n| account(n, &long(n), n)).collect::<Vec<_>>());
        for round in 0..3 {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writers: Vec<_> = (0..2)
                    .map(|writer| {
                        let (db, stop) = (&db, &stop);
                        scope.spawn(move || write_until(db, stop, seed * 100 + round * 10 + writer))
                    })
                    .collect();
                for _ in 0..2 {
                    db.engine.checkpoint().expect("a checkpoint is written");
                }
                stop.store(true, Ordering::Relaxed);
                writers.into_iter().for_each(|writer| writer.join().expect("writes go on"));
            });
            sync(&db);
            let want = db.scan(&db.engine.snapshot());
            db = restarted(&env, db, &accounts());
            assert_eq!(db.scan(&db.engine.snapshot()), want, "seed {seed}, round {round}");
        }
    }
}

/// Changes keys, deletes, inserts, and aborts half of it.
fn write_until(db: &Db, stop: &AtomicBool, seed: u64) {
    let mut random = Random(seed);
    while !stop.load(Ordering::Relaxed) {
        let mut txn = db.begin();
        for _ in 0..20 {
            let rid = RowId(random.below(2 * BLOCK as u64));
            let n = random.below(1 << 40) as i64;
            let is_there = read(&*db.table, txn.snapshot(), rid).is_some();
            let _ = match random.below(4) {
                0 if is_there => delete(&*db.table, &mut *txn, rid),
                1 => insert(&*db.table, &mut *txn, account(n, "new", n)).map(|_| ()),
                _ if is_there => update(
                    &*db.table,
                    &mut *txn,
                    rid,
                    &[0, 2],
                    &[Value::Int64(n), Value::Int64(-n)],
                ),
                _ => Ok(()),
            };
        }
        if random.below(2) == 0 { commit(txn) } else { txn.abort() }
    }
}

#[test]
fn a_mapping_outlives_its_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = |threads| MemoryOptions {
        data_dir: Some(dir.path().to_owned()),
        env: Arc::new(RealEnv::new()),
        freeze: FreezeOptions { threads, ..FreezeOptions::default() },
        index_rows_min: 1,
        agree: None,
        ..MemoryOptions::default()
    };
    let db = Db::with(accounts(), options(0));
    fill_indexes(&db);
    db.insert(&(0..2 * BLOCK).map(|n| account(n, &long(n), n)).collect::<Vec<_>>());
    db.engine.checkpoint().expect("a checkpoint is written");
    drop(db);
    let db = Db::with(accounts(), options(0));
    fill_indexes(&db);
    let view = db.engine.snapshot();
    let held = db.table.read_block(&view, 0, &[0, 1, 2]).expect("a block is read");
    let before: Vec<Row> = db.scan(&view);
    // Every block is written to, so that the next checkpoint needs no old file.
    let mut txn = db.begin();
    for rid in [0, BLOCK as u64].map(RowId) {
        update(&*db.table, &mut *txn, rid, &[1], &[Value::text(long(-1))]).expect("free");
    }
    commit(txn);
    db.engine.collect_garbage();
    db.engine.checkpoint().expect("a checkpoint is written");
    db.engine.checkpoint().expect("a checkpoint is written");
    let names = RealEnv::new().list(&dir.path().join("checkpoint")).expect("the directory");
    assert!(!names.iter().any(|name| name.starts_with("000001-space")), "{names:?}");
    assert_eq!(db.scan(&view), before);
    drop((view, db));
    let names = held.batch.column(1);
    for at in [0, 1, BLOCK as usize - 1] {
        let value = froglet_engine::batch::value_at(names, at, ColumnType::Text);
        assert_eq!(value, Value::text(long(at as i64)));
    }
}

#[test]
fn an_index_of_many_batches_is_loaded_in_parts() {
    let env = MemEnv::new(8);
    let rows = 14 * BLOCK;
    let db = Db::with(accounts(), options(&env));
    fill_indexes(&db);
    // Few numbers, so that parts of the second index begin among equal keys; and keys from anywhere.
    let numbered = |n: i64| account(n * 7919 % rows, &long(n), n % 3);
    db.insert(&(0..rows).map(numbered).collect::<Vec<_>>());
    settle(&db);
    db.engine.checkpoint().expect("a checkpoint is written");
    // Every fifth block has changed since.
    let mut txn = db.begin();
    for block in (0..14).step_by(5) {
        for slot in 0..50 {
            let rid = RowId::of(block, slot * 7);
            match slot % 2 {
                0 => update(&*db.table, &mut *txn, rid, &[2], &[Value::Int64(slot as i64)]),
                _ => delete(&*db.table, &mut *txn, rid),
            }
            .expect("free");
        }
    }
    commit(txn);
    sync(&db);
    let filled = restarted(&env, db, &accounts());
    let left = own(&filled.table).index_entries(0) as u64;
    env.crash();
    drop(filled);
    let again = Db::with(accounts(), options(&env));
    assert_eq!(saved(&again), [14, 14], "before it is asked which have changed");
    // Who builds is asked whether to go on, and told how far it is.
    let build = |go_on: &mut dyn FnMut(&mut Loading) -> bool| {
        let build = Arc::clone(&again.table).build_index(0).expect("an index without entries");
        (0..14).for_each(|block| _ = build.scan_block(TxnId(0), block).expect("scanned"));
        build.load(go_on).expect("there is memory")
    };
    let mut told = Vec::new();
    let loaded = build(&mut |loading| {
        told.push(loading.entries);
        true
    });
    assert!(told.is_sorted() && told.last() == Some(&left), "{left} entries, told {told:?}");
    assert!(matches!(loaded, Loaded::Whole(loading) if loading.entries == left));
}

#[test]
fn a_build_in_parts_stops_when_it_is_told_to() {
    let env = MemEnv::new(9);
    let db = Db::with(accounts(), options(&env));
    fill_indexes(&db);
    db.insert(&(0..12 * BLOCK).map(|n| account(n, "", n)).collect::<Vec<_>>());
    settle(&db);
    db.engine.checkpoint().expect("a checkpoint is written");
    env.crash();
    drop(db);
    let again = Db::with(accounts(), options(&env));
    let before = again.engine.memory().0;
    let build = Arc::clone(&again.table).build_index(0).expect("an index without entries");
    let loaded = build.load(&mut |loading| loading.entries < 40_000).expect("there is memory");
    assert_eq!(loaded, Loaded::Stopped);
    drop(build);
    assert_eq!(own(&again.table).index_entries(0), 0);
    assert_eq!(again.engine.memory().0, before, "nothing is left");
}

#[test]
fn an_old_format_is_refused() {
    let env = MemEnv::new(6);
    env.create_dir_all(Path::new("/data/checkpoint")).expect("a directory");
    let body =
        r#"{"format":3,"seq":1,"ts":1,"lsn":0,"notes":[],"keepers":[],"spaces":[],"files":[]}"#;
    let crc = crc32fast::hash(body.as_bytes());
    let manifest = format!("{body}\n{crc:08x}\n").into_bytes();
    env.overwrite(Path::new("/data/checkpoint/manifest.json"), manifest);
    let error = MemoryEngine::open(options(&env)).expect_err("an old directory").to_string();
    assert!(error.contains("format 3, this program reads 4"), "{error}");
}
