//! Freezing and thawing: what is handed out without a copy stays as it was, and nobody waits for it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef};
use froglet_engine::env::MemEnv;
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Dictionary, Direction, Engine, KeyRange, Layout, Row, RowId,
    Value,
};
use froglet_memory::{FreezeOptions, MemoryOptions, MemoryTable};

use crate::recovery::sync;
use crate::support::*;

/// A database that freezes what is quiet, whenever it is told to.
fn freezing(layout: Arc<Layout>) -> Db {
    let freeze =
        FreezeOptions { after: Some(Duration::ZERO), threads: 0, ..FreezeOptions::default() };
    Db::with(layout, MemoryOptions { collector_thread: false, freeze, ..MemoryOptions::default() })
}

fn freeze_all(db: &Db) -> usize {
    db.engine.collect_garbage();
    db.engine.freeze_cold()
}

fn table(db: &Db) -> &MemoryTable {
    db.table.as_any().downcast_ref().expect("a table of this engine")
}

fn columns(db: &Db, block: u32) -> Vec<ArrayRef> {
    let all: Vec<usize> = (0..db.table.layout().columns.len()).collect();
    let read = db.table.read_block(&db.engine.snapshot(), block, &all).expect("read");
    read.batch.columns().to_vec()
}

/// Where the first buffer of an array is.
fn address(array: &ArrayRef) -> *const u8 {
    array.to_data().buffers()[0].as_ptr()
}

fn addresses(db: &Db) -> Vec<*const u8> {
    columns(db, 0).iter().map(address).collect()
}

fn accounts_of(n: i64) -> Vec<Row> {
    (0..n).map(|i| account(i, &long(i), i)).collect()
}

#[test]
fn a_frozen_block_is_handed_out_without_a_copy() {
    let db = freezing(accounts());
    db.insert(&accounts_of(100));
    let (one, other) = (columns(&db, 0), columns(&db, 0));
    assert!(one.iter().zip(&other).all(|(a, b)| address(a) != address(b)), "what is hot is copied");
    assert_eq!(freeze_all(&db), 1);
    let frozen = addresses(&db);
    assert_eq!(addresses(&db), frozen);
    assert_eq!(db.scan(&db.engine.snapshot()), accounts_of(100));
    assert_eq!(freeze_all(&db), 0, "there is nothing left to do");
}

#[test]
fn a_writer_thaws_the_column_that_it_writes_and_no_other() {
    let db = freezing(accounts());
    let rids = db.insert(&accounts_of(100));
    freeze_all(&db);
    let (held, before) = (columns(&db, 0), addresses(&db));
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rids[7], &[2], &[Value::Int64(70)]).expect("free");
    let old = db.engine.snapshot();
    commit(txn);
    let after = addresses(&db);
    assert_eq!(after[..2], before[..2]);
    assert_ne!(after[2], before[2]);
    // Who reads the array does so still; who has an old view sees the old value.
    assert_eq!(held[2].to_data(), columns_of(&accounts_of(100), 2).to_data());
    assert_eq!(db.scan(&old), accounts_of(100));
    drop(old);
    let mut want = accounts_of(100);
    want[7][2] = Value::Int64(70);
    assert_eq!(db.scan(&db.engine.snapshot()), want);
    assert_eq!(freeze_all(&db), 1);
    assert_eq!(db.scan(&db.engine.snapshot()), want);
    assert_eq!(addresses(&db)[..2], before[..2], "what was frozen stays frozen");
}

fn columns_of(rows: &[Row], at: usize) -> ArrayRef {
    froglet_engine::batch::array_of(ColumnType::Int64, rows.iter().map(|row| &row[at]))
}

#[test]
fn an_aborted_write_leaves_the_frozen_values() {
    let db = freezing(accounts());
    let rids = db.insert(&accounts_of(10));
    freeze_all(&db);
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rids[3], &[1, 2], &[Value::text(long(99)), Value::Int64(99)])
        .expect("free");
    delete(&*db.table, &mut *txn, rids[4]).expect("free");
    insert(&*db.table, &mut *txn, account(50, &long(50), 50)).expect("free");
    txn.abort();
    assert_eq!(db.scan(&db.engine.snapshot()), accounts_of(10));
    freeze_all(&db);
    assert_eq!(db.scan(&db.engine.snapshot()), accounts_of(10));
}

#[test]
fn versions_keep_a_block_hot() {
    let db = freezing(accounts());
    let rids = db.insert(&accounts_of(10));
    let old = db.engine.snapshot();
    let mut txn = db.begin();
    delete(&*db.table, &mut *txn, rids[0]).expect("free");
    commit(txn);
    assert_eq!(freeze_all(&db), 0, "somebody sees the deleted row");
    drop(old);
    assert_eq!(freeze_all(&db), 1);
    assert_eq!(db.scan(&db.engine.snapshot()), accounts_of(10)[1..]);
}

#[test]
fn rows_come_and_go_in_a_frozen_block() {
    let db = freezing(accounts());
    let rids = db.insert(&accounts_of(300));
    freeze_all(&db);
    let mut want = accounts_of(300);
    for (n, rid) in rids.iter().enumerate().filter(|(n, _)| n % 3 == 0) {
        let mut txn = db.begin();
        delete(&*db.table, &mut *txn, *rid).expect("free");
        commit(txn);
        want.retain(|row| row[0] != Value::Int64(n as i64));
    }
    assert_eq!(db.scan(&db.engine.snapshot()), want, "with versions");
    freeze_all(&db);
    assert_eq!(db.scan(&db.engine.snapshot()), want, "frozen with holes");
    let entries = table(&db).index_entries(0);
    assert_eq!(entries, want.len(), "no entry of a deleted row is left");
    let more: Vec<Row> = (1000..1200).map(|i| account(i, &long(i), i)).collect();
    db.insert(&more);
    want.extend(more);
    assert_eq!(db.scan(&db.engine.snapshot()), want, "in the holes, and behind");
    freeze_all(&db);
    assert_eq!(db.scan(&db.engine.snapshot()), want);
    let mut by_index =
        seek(&*db.table, &db.engine.snapshot(), 1, &KeyRange::all(), Direction::Forward);
    by_index.sort_by_key(|row| format!("{:09?}", row[0]));
    want.sort_by_key(|row| format!("{:09?}", row[0]));
    assert_eq!(by_index, want);
}

#[test]
fn what_is_dead_in_a_heap_goes_when_it_is_frozen() {
    let db = freezing(accounts());
    let name = |round: i64, i: i64| long(1000 + 100 * round + i).repeat(20);
    let rids = db.insert(&(0..50).map(|i| account(i, &name(0, i), i)).collect::<Vec<_>>());
    freeze_all(&db);
    let level = db.table.bytes_estimate();
    for round in 0..40 {
        let mut txn = db.begin();
        for (i, rid) in rids.iter().enumerate() {
            let name = Value::text(name(round, i as i64));
            update(&*db.table, &mut *txn, *rid, &[1], &[name]).expect("free");
        }
        commit(txn);
    }
    db.engine.collect_garbage();
    assert!(db.table.bytes_estimate() > level);
    freeze_all(&db);
    let end = db.table.bytes_estimate();
    assert!(end.abs_diff(level) < 2_000, "{level} bytes, then {end}");
}

/// Every type, NULLs and extremes among the values.
fn of_every_type() -> (Arc<Layout>, Vec<Row>) {
    use ColumnType::{
        Bool, Bytes, Date, Decimal, Float32, Float64, Int16, Int32, Int64, Interval, Numeric, Text,
        Time, Timestamp, TimestampTz, Uuid,
    };
    let decimal = Decimal { precision: 20, scale: 3 };
    let types = [
        Int64,
        Bool,
        Int16,
        Int32,
        Float32,
        Float64,
        decimal,
        Text,
        Bytes,
        Date,
        Timestamp,
        TimestampTz,
        Uuid,
        Time,
        Interval,
        Numeric,
    ];
    let columns = types.iter().enumerate().map(|(i, ty)| column(i as u32, *ty)).collect();
    let row = |i: i64| {
        let mut row = vec![
            Value::Int64(i),
            Value::Bool(i % 3 == 0),
            Value::Int16(i as i16 - 70),
            Value::Int32(1 - i as i32),
            Value::Float32([f32::NAN, -0.0, 0.0, f32::INFINITY, 1.5][i as usize % 5]),
            Value::Float64([f64::NEG_INFINITY, -0.0, 0.0, f64::MIN_POSITIVE][i as usize % 4]),
            Value::Decimal(i128::from(i) * 1_000_000_007 - 5),
            Value::text(if i % 2 == 0 { long(i) } else { format!("{i}") }),
            Value::Bytes(vec![i as u8; i as usize % 40].into()),
            Value::Date(i as i32 * 100),
            Value::Timestamp(-i),
            Value::TimestampTz(i64::MAX - i),
            Value::Uuid([i as u8; 16]),
            Value::Time(i * 1_000_003),
            Value::Interval(froglet_engine::Interval { months: -7, days: i as i32, us: -i }),
            // Two rows have each number, and show another number of digits of it.
            number(i / 2, i as u16 % 2),
        ];
        if i % 7 == 0 {
            let at = 1 + i as usize % 15;
            row[at] = Value::Null;
        }
        row
    };
    (
        Arc::new(Layout { columns, indexes: vec![index(1, &[0], true)], row_key: None }),
        (0..200).map(row).collect(),
    )
}

#[test]
fn every_type_is_the_same_frozen_and_thawed() {
    let (layout, rows) = of_every_type();
    let db = freezing(layout.clone());
    let rids = db.insert(&rows);
    let hot = columns(&db, 0);
    freeze_all(&db);
    let frozen = columns(&db, 0);
    for (hot, frozen) in hot.iter().zip(&frozen) {
        frozen.to_data().validate_full().expect("a whole array");
        assert_eq!(hot.data_type(), frozen.data_type());
        assert_eq!(hot, frozen);
    }
    for (rid, row) in rids.iter().zip(&rows) {
        assert_eq!(format!("{:?}", db.row(*rid).expect("there")), format!("{row:?}"));
    }
    // Each column is written to in turn.
    let mut rows = rows;
    for at in 1..layout.columns.len() {
        let value = rows[11][at].clone();
        rows[12][at] = value.clone();
        let mut txn = db.begin();
        update(&*db.table, &mut *txn, rids[12], &[at], &[value]).expect("free");
        commit(txn);
        let seen = db.scan(&db.engine.snapshot());
        assert_eq!(format!("{seen:?}"), format!("{rows:?}"), "column {at}");
    }
    freeze_all(&db);
    assert_eq!(format!("{:?}", db.scan(&db.engine.snapshot())), format!("{rows:?}"));
}

#[test]
fn statistics_bound_what_is_there() {
    let (layout, rows) = of_every_type();
    let db = freezing(layout.clone());
    db.insert(&rows);
    assert_eq!(db.table.block_stats(0, 0), None, "nothing is known of a hot column");
    freeze_all(&db);
    let stats = |at: usize| db.table.block_stats(0, at).expect("frozen");
    assert_eq!(stats(0).rows, 200);
    assert_eq!((stats(0).min, stats(0).max), (Some(Value::Int64(0)), Some(Value::Int64(199))));
    assert_eq!(db.table.block_distinct(0, 0), Some(200));
    for at in 0..layout.columns.len() {
        let nulls = rows.iter().filter(|row| row[at] == Value::Null).count();
        assert_eq!(stats(at).nulls, nulls, "column {at}");
    }
    assert_eq!(db.table.block_distinct(0, 1), Some(2));
    assert_eq!(db.table.block_distinct(0, 15), Some(100), "1.0 is 1");
    assert_eq!((stats(15).min, stats(15).max), (None, None));
    let (Some(Value::Float32(_)), Some(Value::Float32(max))) = (stats(4).min, stats(4).max) else {
        panic!("{:?}", stats(4))
    };
    assert!(max.is_nan(), "NaN is above every number");
    let Some(Value::Text(min)) = stats(7).min else { panic!("{:?}", stats(7)) };
    assert_eq!(min, "1");
    let is_minus_zero = |v: f32| v.to_bits() == (-0.0_f32).to_bits();
    assert!(matches!(stats(4).min, Some(Value::Float32(min)) if is_minus_zero(min)));
    let of_floats = (stats(5).min, stats(5).max);
    let wanted = [f64::NEG_INFINITY, f64::MIN_POSITIVE].map(|v| Some(Value::Float64(v)));
    assert_eq!(of_floats, wanted.into());
    let block = |n| db.table.block_stats(n, 0);
    assert_eq!(block(1), None, "there is no such block");
}

#[test]
fn a_column_that_a_block_lacks_is_constant() {
    let db = freezing(accounts());
    db.insert(&accounts_of(20));
    freeze_all(&db);
    let mut layout = (*accounts()).clone();
    let missing = Value::text(long(5));
    layout.columns.push(ColumnSpec { id: ColumnId(9), ty: ColumnType::Text, missing });
    let wider = db.engine.open(SPACE, Arc::new(layout)).expect("opens");
    let view = db.engine.snapshot();
    let read = wider.read_block(&view, 0, &[3, 0]).expect("read");
    assert_eq!(read.batch.num_rows(), 20);
    assert_eq!(
        froglet_engine::batch::value_at(read.batch.column(0), 7, ColumnType::Text),
        Value::text(long(5))
    );
    drop(view);
    // A write makes the column in the block; the rest stays frozen.
    let before = addresses(&db);
    let mut txn = db.begin();
    update(&*wider, &mut *txn, RowId(3), &[3], &[Value::Null]).expect("free");
    commit(txn);
    assert_eq!(addresses(&db), before);
    freeze_all(&db);
    let stats = wider.block_stats(0, 3).expect("frozen");
    assert_eq!((stats.nulls, wider.block_distinct(0, 3)), (1, Some(1)));
}

#[test]
fn a_frozen_table_takes_no_more_memory_than_before() {
    let db = freezing(accounts());
    let rows: Vec<Row> = (0..20_000).map(|i| account(i, &long(i), i)).collect();
    db.insert(&rows);
    db.engine.collect_garbage();
    let hot = db.engine.memory().0;
    assert_eq!(freeze_all(&db), 3);
    // What is deferred waits for whoever is pinned, in other tests too.
    let end = Instant::now() + Duration::from_secs(20);
    while db.engine.memory().0 > hot {
        assert!(Instant::now() < end, "{hot} bytes hot, {} frozen", db.engine.memory().0);
        db.engine.collect_garbage();
    }
}

#[test]
fn equal_strings_are_kept_once_where_there_are_few() {
    let few = |i: i64| account(i, &long(i % 20).repeat(5), i);
    let many = |i: i64| account(i, &long(i).repeat(5), i);
    let bytes_of = |row: &dyn Fn(i64) -> Row, dictionary| {
        let freeze = FreezeOptions { after: Some(Duration::ZERO), threads: 0, dictionary };
        let options = MemoryOptions { collector_thread: false, freeze, ..MemoryOptions::default() };
        let db = Db::with(accounts(), options);
        let rows: Vec<Row> = (0..4000).map(row).collect();
        let rids = db.insert(&rows);
        assert_eq!(freeze_all(&db), 1);
        assert_eq!(db.scan(&db.engine.snapshot()), rows);
        let counts = db.engine.block_counts(SPACE);
        // Thawed, one word is written over and the others stay.
        let mut txn = db.begin();
        update(&*db.table, &mut *txn, rids[20], &[1], &[Value::text(long(99))]).expect("free");
        commit(txn);
        let mut rows = rows;
        rows[20][1] = Value::text(long(99));
        assert_eq!(db.scan(&db.engine.snapshot()), rows);
        (counts.dictionaries, counts.bytes)
    };
    let (plain, of_few) = (bytes_of(&few, Dictionary::Off), bytes_of(&few, Dictionary::Auto));
    assert_eq!((plain.0, of_few.0), (0, 1));
    assert!(of_few.1 * 3 < plain.1, "{plain:?} bytes, {of_few:?} with a dictionary");
    let of_many = bytes_of(&many, Dictionary::Auto);
    assert_eq!(of_many, bytes_of(&many, Dictionary::Off), "it is not worth while");
    assert_eq!(bytes_of(&many, Dictionary::On).0, 1);
}

/// Of a column that was frozen with a dictionary: also when its heap is compacted, and by a checkpoint.
#[test]
fn strings_that_rows_share_stay_shared() {
    let (rows, words) = (8000, 10);
    let word = |i: i64| format!("{:>1000}", i % words);
    let env = MemEnv::new(1);
    let options = |env: &MemEnv| MemoryOptions {
        data_dir: Some("/data".into()),
        env: Arc::new(env.program()),
        collector_thread: false,
        freeze: FreezeOptions { after: Some(Duration::ZERO), ..FreezeOptions::default() },
        ..MemoryOptions::default()
    };
    let db = Db::with(accounts(), options(&env));
    let rids = db.insert(&(0..rows).map(|i| account(i, &word(i), i)).collect::<Vec<_>>());
    sync(&db);
    assert_eq!(freeze_all(&db), 1);
    let bytes = || db.engine.block_counts(SPACE).bytes;
    let frozen = bytes();
    // More than enough waste for a heap of ten words to be compacted, several times.
    for round in 0..5 {
        for &rid in &rids[..200] {
            let mut txn = db.begin();
            let fresh = format!("{round:>1000}");
            update(&*db.table, &mut *txn, rid, &[1], &[Value::text(fresh)]).expect("free");
            commit(txn);
        }
    }
    let most = frozen + 2_000_000;
    assert!(bytes() < most, "{frozen} bytes frozen, {} after updates", bytes());
    let want = db.scan(&db.engine.snapshot());
    assert_eq!(want[500][1], Value::text(word(500)));
    db.engine.checkpoint().expect("there is space");
    let file = env.contents(Path::new("/data/checkpoint/000001-space-7.arrow")).expect("a file");
    assert!(file.len() < 2_000_000, "{} bytes in the file", file.len());
    env.crash();
    drop(db);
    let again = Db::with(accounts(), options(&env));
    assert_eq!(again.scan(&again.engine.snapshot()), want);
}
