//! Columns and indexes filled under load, by a scan and by what a feed captures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, StringViewArray};
use froglet_engine::{
    BlockRows, ColumnFill, ColumnType, Direction, Engine, EngineError, KeyRange, Layout, Loaded,
    MigrateError, Row, RowId, Savepoint, Table, TxnId, Value,
};
use froglet_memory::MemoryOptions;

use crate::support::*;

/// The new column, from `n`.
fn computed(n: &Value) -> Value {
    match n {
        Value::Int64(n) => Value::text(format!("computed from the number {n}")),
        _ => Value::Null,
    }
}

fn transform(rows: &BlockRows) -> Result<ColumnFill, MigrateError> {
    let n = rows.batch.column(0).as_primitive::<Int64Type>();
    let text = n.iter().map(|n| n.map(|n| format!("computed from the number {n}")));
    Ok(vec![Arc::new(StringViewArray::from_iter(text)) as ArrayRef].into())
}

fn wide() -> Arc<Layout> {
    let mut layout = Layout::clone(&accounts());
    layout.columns.push(column(4, ColumnType::Text));
    layout.indexes.push(index(5, &[4, 1], true));
    Arc::new(layout)
}

fn writer(db: &Db, rids: &[RowId], stop: &AtomicBool, seed: u64) {
    let mut random = Random(seed);
    let mut key = 1_000_000 * seed as i64;
    let mut own = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut txn = db.begin();
        for _ in 0..4 {
            let rid = rids[random.below(rids.len() as u64) as usize];
            let n = Value::Int64(random.below(1000) as i64);
            match random.below(8) {
                0 => {
                    key += 1;
                    own.push(
                        insert(&*db.table, &mut *txn, account(key, "new", key)).expect("a new key"),
                    );
                }
                1 => {
                    let _ = delete(&*db.table, &mut *txn, rid);
                }
                2 if !own.is_empty() => {
                    let at = random.below(own.len() as u64) as usize;
                    let _ = delete(&*db.table, &mut *txn, own.swap_remove(at));
                }
                _ => {
                    let _ = update(&*db.table, &mut *txn, rid, &[2], &[n]);
                }
            }
        }
        if random.below(5) == 0 { txn.abort() } else { commit(txn) }
    }
}

fn migrate(new: &dyn Table, block: u32, rows: Option<&[RowId]>) {
    new.migrate_block(TxnId(0), Savepoint(0), block, rows, &[2], &[3], &mut transform)
        .expect("migrated");
    let indexed = match rows {
        Some(rows) => new.index_rows(TxnId(0), 2, rows, &mut Vec::new()),
        None => new.index_block(TxnId(0), 2, block, &mut Vec::new()),
    };
    indexed.expect("indexed");
}

fn migrate_rows(new: &dyn Table, rids: &mut Vec<RowId>) {
    rids.sort_unstable();
    rids.dedup();
    for rows in rids.chunk_by(|a, b| a.block() == b.block()) {
        migrate(new, rows[0].block(), Some(rows));
    }
    rids.clear();
}

#[test]
fn a_column_filled_under_load_equals_the_offline_result() {
    let db = Arc::new(Db::collected());
    let rids = db.insert(&(0..20_000).map(|i| account(i, "x", i)).collect::<Vec<_>>());
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (1..3)
        .map(|seed| {
            let (db, rids, stop) = (Arc::clone(&db), rids.clone(), Arc::clone(&stop));
            std::thread::spawn(move || writer(&db, &rids, &stop, seed))
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let new = db.engine.open(SPACE, wide()).expect("opens");
    let mut feed = db.table.open_feed();
    let mut captured = Vec::new();
    for block in 0..new.block_count() {
        migrate(&*new, block, None);
        feed.drain(&mut captured);
        migrate_rows(&*new, &mut captured);
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("a writer failed"));
    let mut rounds = 0;
    while feed.backlog() > 0 {
        feed.drain(&mut captured);
        migrate_rows(&*new, &mut captured);
        rounds += 1;
        assert!(rounds < 10, "capture catches up with writers that have stopped");
    }
    let snapshot = db.engine.snapshot();
    let got = scan(&*new, &snapshot);
    let want: Vec<Row> = db
        .scan(&snapshot)
        .into_iter()
        .map(|mut row| {
            row.push(computed(&row[2]));
            row
        })
        .collect();
    assert_eq!(got, want);
    // The new index finds every row, once.
    let mut by_index = seek(&*new, &snapshot, 2, &KeyRange::all(), Direction::Forward);
    by_index.sort_by_key(|row| match row[0] {
        Value::Int64(id) => id,
        _ => 0,
    });
    assert_eq!(by_index, want);
    drop(snapshot);
    // Entries of keys that rows no longer have are gone.
    let table = new.as_any().downcast_ref::<froglet_memory::MemoryTable>().expect("ours");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while table.index_entries(2) != want.len() {
        assert!(
            std::time::Instant::now() < deadline,
            "{} rows, {} entries",
            want.len(),
            table.index_entries(2)
        );
        db.engine.collect_garbage();
    }
}

#[test]
fn rows_that_the_owner_wrote_keep_what_it_wrote() {
    let db = Db::new();
    let rids = db.insert(&(0..4).map(|i| account(i, "x", i)).collect::<Vec<_>>());
    let new = db.engine.open(SPACE, wide()).expect("opens");
    let mut owner = db.begin();
    // Before the migration statement: migrated as the owner sees it. After it: kept.
    update(&*new, &mut *owner, rids[0], &[2], &[Value::Int64(100)]).expect("free");
    let since = owner.savepoint();
    update(&*new, &mut *owner, rids[1], &[2, 3], &[Value::Int64(101), Value::text("mine")])
        .expect("free");
    // A row of somebody else that is not committed is migrated as it was.
    let mut other = db.begin();
    update(&*db.table, &mut *other, rids[2], &[2], &[Value::Int64(102)]).expect("free");
    let done = new
        .migrate_block(owner.id(), since, 0, None, &[2], &[3], &mut transform)
        .expect("migrated");
    assert_eq!(done, 4);
    let column: Vec<Value> =
        scan(&*new, owner.snapshot()).into_iter().map(|row| row[3].clone()).collect();
    let n = |n| computed(&Value::Int64(n));
    assert_eq!(column, vec![n(100), Value::text("mine"), n(2), n(3)]);
    let wrong =
        new.migrate_block(owner.id(), since, 0, None, &[2], &[3], &mut |_| Ok(vec![].into()));
    assert!(matches!(wrong, Err(MigrateError::Transform(_))));
}

#[test]
fn a_unique_index_reports_rows_that_share_a_key() {
    let db = Db::new();
    let rids = db.insert(&[
        account(1, "x", 5),
        account(2, "x", 6),
        account(3, "x", 5),
        account(4, "x", 7),
    ]);
    let mut layout = Layout::clone(&accounts());
    layout.indexes.push(index(6, &[3], true));
    let new = db.engine.open(SPACE, Arc::new(layout)).expect("opens");
    let mut owner = db.begin();
    update(&*db.table, &mut *owner, rids[3], &[2], &[Value::Int64(6)]).expect("free");
    let mut duplicates = Vec::new();
    assert_eq!(new.index_block(owner.id(), 2, 0, &mut duplicates).expect("indexed"), 4);
    assert_eq!(duplicates, vec![(rids[2], rids[0]), (rids[3], rids[1])]);
}

fn with_index_on_n(unique: bool) -> Arc<Layout> {
    let mut layout = Layout::clone(&accounts());
    layout.indexes.push(index(6, &[3], unique));
    Arc::new(layout)
}

fn entries(table: &dyn Table, index: usize) -> usize {
    let table = table.as_any().downcast_ref::<froglet_memory::MemoryTable>().expect("ours");
    table.index_entries(index)
}

/// Writers change, delete and insert keys, use slots again and abort, while all of it is built.
#[test]
fn an_index_built_under_load_has_an_entry_for_every_row_and_no_other() {
    for seed in 1..4 {
        let db = Arc::new(Db::collected());
        let rids = db.insert(&(0..30_000).map(|i| account(i, "x", i)).collect::<Vec<_>>());
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (2 * seed..2 * seed + 2)
            .map(|seed| {
                let (db, rids, stop) = (Arc::clone(&db), rids.clone(), Arc::clone(&stop));
                std::thread::spawn(move || writer(&db, &rids, &stop, seed))
            })
            .collect();
        let new = db.engine.open(SPACE, with_index_on_n(false)).expect("opens");
        // A writer that was at it before the index existed knows no key that it takes away.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut feed = db.table.open_feed();
        let build = new.clone().build_index(2).expect("the index is empty");
        assert!(new.clone().build_index(2).is_none(), "one build at a time");
        for block in 0..new.block_count() {
            build.scan_block(TxnId(0), block).expect("scanned");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let loaded = build.load(&mut |_| true).expect("loaded");
        assert!(matches!(loaded, Loaded::Whole(_)), "{loaded:?}");
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().expect("a writer failed"));
        let mut captured = Vec::new();
        feed.drain(&mut captured);
        captured.sort_unstable();
        captured.dedup();
        new.index_rows(TxnId(0), 2, &captured, &mut Vec::new()).expect("indexed");
        let snapshot = db.engine.snapshot();
        let mut found = seek(&*new, &snapshot, 2, &KeyRange::all(), Direction::Forward);
        assert!(found.is_sorted_by_key(|row| format!("{:?}", row[2]).len()), "about in order");
        let mut want = db.scan(&snapshot);
        found.sort_by_key(|row| format!("{row:?}"));
        want.sort_by_key(|row| format!("{row:?}"));
        assert_eq!(found, want);
        drop(snapshot);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while entries(&*new, 2) != want.len() {
            assert!(
                std::time::Instant::now() < deadline,
                "{} rows, {} entries",
                want.len(),
                entries(&*new, 2)
            );
            db.engine.collect_garbage();
        }
    }
}

#[test]
fn a_build_reports_rows_that_share_a_key() {
    let db = Db::new();
    let rows: Vec<Row> = (0..20_000).map(|i| account(i, "x", i * 7919 % 20_011)).collect();
    let rids = db.insert(&rows);
    let new = db.engine.open(SPACE, with_index_on_n(true)).expect("opens");
    let mut owner = db.begin();
    // Two rows share the key 7,919 as committed, and two NULLs are no duplicates. The owner sees
    // its own row with the key 0.
    let mut other = db.begin();
    for (rid, n) in [(19_000, Value::Int64(7919)), (5, Value::Null), (6, Value::Null)] {
        update(&*db.table, &mut *other, rids[rid], &[2], &[n]).expect("free");
    }
    commit(other);
    update(&*db.table, &mut *owner, rids[12_000], &[2], &[Value::Int64(0)]).expect("free");
    let build = new.clone().build_index(2).expect("the index is empty");
    for block in (0..new.block_count()).rev() {
        build.scan_block(owner.id(), block).expect("scanned");
    }
    let mut asked = Vec::new();
    let loaded = build.load(&mut |loading| {
        asked.push(loading.entries);
        true
    });
    let Loaded::Whole(loading) = loaded.expect("loaded") else { panic!("it went on") };
    assert!((1..20_000).contains(&asked[0]), "asked at {asked:?} entries");
    assert_eq!(asked.last(), Some(&20_000), "asked once more before the index is published");
    assert_eq!(loading.entries, 20_000);
    assert_eq!(loading.duplicates, vec![(rids[0], rids[12_000]), (rids[1], rids[19_000])]);
    assert_eq!(entries(&*new, 2), 20_000);
}

#[test]
fn a_build_gives_up_for_duplicates_that_hold_and_not_for_others() {
    let db = Db::new();
    let rids = db.insert(&(0..20_000).map(|i| account(i, "x", i / 2)).collect::<Vec<_>>());
    let new = db.engine.open(SPACE, with_index_on_n(true)).expect("opens");
    let build = new.clone().build_index(2).expect("the index is empty");
    for block in 0..new.block_count() {
        build.scan_block(TxnId(0), block).expect("scanned");
    }
    let mut found = None;
    let shared = |(a, b): &&(RowId, RowId)| new.share_key(TxnId(0), 2, *a, *b);
    let loaded = build.load(&mut |loading| {
        found = loading.duplicates.iter().find(shared).copied();
        found.is_none()
    });
    assert_eq!(loaded.expect("no error"), Loaded::Stopped);
    let (a, b) = found.expect("10,000 pairs of rows");
    assert_eq!((a.0 / 2, a.0 + 1), (b.0 / 2, b.0), "{a} and {b} share a key");
    assert_eq!(entries(&*new, 2), 0, "nothing is left behind");
    drop(build);
    // The same again, but every second row gets a key of its own between scan and load.
    let build = new.clone().build_index(2).expect("the index is still empty");
    for block in 0..new.block_count() {
        build.scan_block(TxnId(0), block).expect("scanned");
    }
    let mut txn = db.begin();
    for rid in rids.iter().step_by(2) {
        let n = Value::Int64(1_000_000 + rid.0 as i64);
        update(&*db.table, &mut *txn, *rid, &[2], &[n]).expect("free");
    }
    commit(txn);
    let loaded = build.load(&mut |loading| !loading.duplicates.iter().any(|pair| shared(&pair)));
    let Loaded::Whole(loading) = loaded.expect("loaded") else { panic!("no pair shares a key") };
    assert_eq!(loading.duplicates.len(), 10_000, "all of them shared one when they were scanned");
}

/// Of three rows with a key the one in the middle loses it between scan and load. Neither pair of
/// neighbours shares it then, but the other two rows do.
#[test]
fn a_duplicate_on_both_sides_of_a_row_that_has_moved_away_is_found() {
    let db = Db::new();
    let rids = db.insert(&(0..3000).map(|i| account(i, "x", i / 3)).collect::<Vec<_>>());
    let new = db.engine.open(SPACE, with_index_on_n(true)).expect("opens");
    let build = new.clone().build_index(2).expect("the index is empty");
    build.scan_block(TxnId(0), 0).expect("scanned");
    let mut txn = db.begin();
    let moved: Vec<RowId> = rids.iter().copied().skip(1).step_by(3).collect();
    for rid in &moved {
        let n = Value::Int64(1_000_000 + rid.0 as i64);
        update(&*db.table, &mut *txn, *rid, &[2], &[n]).expect("free");
    }
    commit(txn);
    let loaded = build.load(&mut |_| true).expect("loaded");
    let Loaded::Whole(loading) = loaded else { panic!("it went on") };
    assert!(!loading.duplicates.iter().any(|(a, b)| new.share_key(TxnId(0), 2, *a, *b)));
    let mut suspects: Vec<RowId> = loading.duplicates.iter().flat_map(|(a, b)| [*a, *b]).collect();
    suspects.sort_unstable();
    suspects.dedup();
    let mut duplicates = Vec::new();
    new.index_rows(TxnId(0), 2, &moved, &mut duplicates).expect("indexed");
    assert_eq!(duplicates, vec![], "their new keys are their own");
    new.index_rows(TxnId(0), 2, &suspects, &mut duplicates).expect("indexed");
    duplicates.sort_unstable();
    let outer = |i: u64| [(RowId(i), RowId(i + 2)), (RowId(i + 2), RowId(i))];
    assert_eq!(duplicates, (0..3000).step_by(3).flat_map(outer).collect::<Vec<_>>());
}

/// A writer that has not committed takes no key and gives none.
#[test]
fn rows_share_a_key_as_of_one_timestamp() {
    let db = Db::new();
    let rids = db.insert(&[account(1, "x", 5), account(2, "x", 6), account(3, "x", 5)]);
    let new = db.engine.open(SPACE, with_index_on_n(true)).expect("opens");
    let share = |owner, a: usize, b: usize| new.share_key(owner, 2, rids[a], rids[b]);
    assert!(share(TxnId(0), 0, 2) && !share(TxnId(0), 0, 1));
    let mut open = db.begin();
    for (rid, n) in [(0, 6), (1, 5)] {
        update(&*db.table, &mut *open, rids[rid], &[2], &[Value::Int64(n)]).expect("free");
    }
    assert!(share(TxnId(0), 0, 2) && !share(TxnId(0), 1, 2), "not committed");
    assert!(!share(open.id(), 0, 2) && share(open.id(), 1, 2), "but its own");
    let mut duplicates = Vec::new();
    new.index_block(TxnId(0), 2, 0, &mut duplicates).expect("indexed");
    assert_eq!(duplicates, vec![(rids[2], rids[0])]);
    commit(open);
    duplicates.clear();
    new.index_rows(TxnId(0), 2, &rids, &mut duplicates).expect("indexed");
    assert_eq!(duplicates, vec![(rids[1], rids[2]), (rids[2], rids[1])]);
    let mut gone = db.begin();
    delete(&*db.table, &mut *gone, rids[1]).expect("there");
    update(&*db.table, &mut *gone, rids[0], &[2], &[Value::Null]).expect("free");
    update(&*db.table, &mut *gone, rids[2], &[2], &[Value::Null]).expect("free");
    commit(gone);
    assert!(!share(TxnId(0), 1, 2) && !share(TxnId(0), 0, 2), "no row, and NULLs");
}

#[test]
fn a_build_that_is_stopped_or_does_not_fit_leaves_nothing_behind() {
    let limit = 24 << 20;
    let options = MemoryOptions {
        collector_thread: false,
        memory_limit_bytes: limit,
        ..MemoryOptions::default()
    };
    let db = Db::with(accounts(), options);
    let name = "n".repeat(100);
    for first in (0..40_000).step_by(8_000) {
        let row = |i: i64| account(i, &format!("{name}{}", i * 7919 % 40_009), i);
        db.insert(&(first..first + 8_000).map(row).collect::<Vec<_>>());
    }
    let mut layout = Layout::clone(&accounts());
    layout.indexes.extend([index(6, &[3], false), index(7, &[2, 2, 2, 2], false)]);
    let new = db.engine.open(SPACE, Arc::new(layout)).expect("opens");
    // What one build needs does not fit fifty times.
    for _ in 0..50 {
        let build = new.clone().build_index(2).expect("the index is empty");
        for block in 0..new.block_count() {
            build.scan_block(TxnId(0), block).expect("scanned");
        }
        let stopped = build.load(&mut |_| false).expect("no error");
        assert_eq!((stopped, entries(&*new, 2)), (Loaded::Stopped, 0));
    }
    let build = new.clone().build_index(3).expect("the index is empty");
    let mut blocks = 0..new.block_count();
    let refused = blocks.find_map(|block| build.scan_block(TxnId(0), block).err());
    let refused = refused.or_else(|| build.load(&mut |_| true).err());
    let refused = refused.expect("16 MB of keys do not fit beside the rows");
    assert!(matches!(refused, EngineError::MemoryLimit { .. }), "{refused:?}");
    assert_eq!(entries(&*new, 3), 0);
    drop(build);
    let build = new.clone().build_index(2).expect("the index is empty");
    for block in 0..new.block_count() {
        build.scan_block(TxnId(0), block).expect("scanned");
    }
    let loaded = build.load(&mut |_| true).expect("it fits");
    assert!(matches!(loaded, Loaded::Whole(_)), "{loaded:?}");
    assert_eq!(entries(&*new, 2), 40_000);
}

#[test]
fn a_row_written_under_an_older_layout_is_carried_over() {
    let db = Db::new();
    let rids = db.insert(&[account(1, "x", 5), account(2, "x", 6)]);
    let mut layout = Layout::clone(&accounts());
    layout.indexes.push(index(6, &[3], true));
    let new = db.engine.open(SPACE, Arc::new(layout)).expect("opens");
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rids[1], &[2], &[Value::Int64(7)]).expect("free");
    assert_eq!(new.index_block(TxnId(0), 2, 0, &mut Vec::new()).expect("indexed"), 2);
    new.index_row(&mut *txn, rids[1], &[2]).expect("no other row has the key");
    commit(txn);
    let found = seek(&*new, &db.engine.snapshot(), 2, &KeyRange::all(), Direction::Forward);
    assert_eq!(found, vec![account(1, "x", 5), account(2, "x", 7)]);
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rids[1], &[2], &[Value::Int64(5)])
        .expect("the old layout has no such index");
    assert!(new.index_row(&mut *txn, rids[1], &[2]).is_err());
}
