//! What the account says is what there is, what is gone comes back, and a limit is no trap.

use std::sync::Arc;
use std::time::{Duration, Instant};

use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Engine, Layout, RowId, SpaceId, Value, WriteStop,
};
use froglet_memory::{FreezeOptions, MemoryOptions};

use crate::support::*;

const MB: u64 = 1 << 20;

fn limited(limit_bytes: u64) -> Db {
    let options = MemoryOptions { memory_limit_bytes: limit_bytes, ..MemoryOptions::default() };
    Db::with(accounts(), options)
}

fn used(db: &Db) -> u64 {
    db.engine.memory().0
}

/// Waits for what goes by itself, at last when the other tests of this process are done, whose readers hold it.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(600);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn set_name(db: &Db, rid: RowId, name: String) -> Result<(), WriteStop> {
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rid, &[1], &[Value::text(name)])?;
    commit(txn);
    Ok(())
}

/// A string that says which it is, so that one taken for another is found out.
fn named(n: usize, bytes: usize) -> String {
    format!("{n:08}").repeat(bytes / 8)
}

#[test]
fn old_strings_come_back_though_their_writer_never_comes_again() {
    let db = limited(8 << 30);
    let rid = db.insert(&[account(1, &named(0, 4 << 20), 1)])[0];
    let (done, wait) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let db = &db;
        let writer = scope.spawn(move || {
            (0..40).for_each(|n| set_name(db, rid, named(n, 4 << 20)).expect("there is memory"));
            // It keeps its thread, and what its thread keeps.
            wait.recv().expect("it is told to go");
        });
        until("a string of 4 MB takes no more than 10", || used(db) < 10 * MB);
        done.send(()).expect("it waits");
        writer.join().expect("it writes");
    });
}

#[test]
fn a_row_of_a_tenth_of_the_limit_can_be_updated_for_ever() {
    let db = limited(30 * MB);
    let rid = db.insert(&[account(1, &named(0, 3 << 20), 1)])[0];
    for n in 0..200 {
        set_name(&db, rid, named(n, 3 << 20)).unwrap_or_else(|stop| panic!("update {n}: {stop:?}"));
        assert!(used(&db) <= 30 * MB, "{} MB in use", used(&db) / MB);
    }
    assert_eq!(db.row(rid).expect("there")[1], Value::text(named(199, 3 << 20)));
}

/// Many short strings: their chunks are shared.
#[test]
fn a_table_of_half_the_limit_can_be_updated_for_ever() {
    let db = limited(24 * MB);
    let rows: Vec<_> = (0..4000).map(|n| account(n, &named(n as usize, 1000), n)).collect();
    let rids = db.insert(&rows);
    for round in 0..20 {
        for (n, rid) in rids.iter().enumerate() {
            let name = named(n + round, 1000);
            set_name(&db, *rid, name).unwrap_or_else(|stop| panic!("{round}, {n}: {stop:?}"));
        }
    }
}

#[test]
fn a_block_takes_any_number_of_chunks() {
    let freeze = FreezeOptions { after: None, threads: 0, ..FreezeOptions::default() };
    let options = MemoryOptions { collector_thread: false, freeze, ..MemoryOptions::default() };
    let db = Db::with(accounts(), options);
    // Each is a little longer than the room that is left by the others, and some are alone.
    let bytes = |n: usize| if n.is_multiple_of(2) { 16 << 10 } else { 9000 + 8 * n };
    let rows = (0..300).map(|n| account(n, &named(n as usize, bytes(n as usize)), n));
    let rids = db.insert(&rows.collect::<Vec<_>>());
    let whole = |add: usize| {
        for (n, rid) in rids.iter().enumerate() {
            let name = named(n + add, bytes(n + add) + add);
            assert_eq!(db.row(*rid).expect("there")[1], Value::text(name), "row {n}");
        }
    };
    let mut txn = db.begin();
    let point = txn.savepoint();
    for add in [8, 16] {
        for (n, rid) in rids.iter().enumerate() {
            let name = [Value::text(named(n + add, bytes(n + add) + add))];
            update(&*db.table, &mut *txn, *rid, &[1], &name).expect("free");
        }
        if add == 8 {
            txn.rollback_to(point);
        }
    }
    txn.abort();
    whole(0);
    db.engine.collect_garbage();
    assert_eq!(db.engine.freeze(SPACE), 1);
    whole(0);
    for (n, rid) in rids.iter().enumerate() {
        set_name(&db, *rid, named(n + 8, bytes(n + 8) + 8)).expect("free");
    }
    whole(8);
}

#[test]
fn strings_of_many_chunks_are_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || {
        let options = MemoryOptions {
            data_dir: Some(dir.path().to_owned()),
            collector_thread: false,
            ..MemoryOptions::default()
        };
        Db::with(accounts(), options)
    };
    let name = |n: usize| named(n, 20_000 + 8 * n);
    for frozen in [false, true] {
        let db = open();
        if !frozen {
            db.insert(&(0..100).map(|n| account(n, &name(n as usize), n)).collect::<Vec<_>>());
        }
        db.engine.make_durable(db.engine.appended()).expect("durable");
        db.engine.collect_garbage();
        if frozen {
            // Written, so that the checkpoint has it anew.
            set_name(&db, RowId(0), name(0)).expect("free");
            db.engine.make_durable(db.engine.appended()).expect("durable");
            db.engine.collect_garbage();
            db.engine.freeze(SPACE);
        }
        db.engine.checkpoint().expect("written");
        drop(db);
        let db = open();
        let rows = db.scan(&db.engine.snapshot());
        assert_eq!(rows.len(), 100);
        for (n, row) in rows.iter().enumerate() {
            assert_eq!(row[1], Value::text(name(n)), "row {n}, frozen: {frozen}");
        }
    }
}

/// The strings of old versions do not fit in one buffer of a batch.
#[test]
fn an_old_view_has_every_rows_own_string() {
    let db = limited(8 << 30);
    let bytes = |n: usize| if n.is_multiple_of(3) { 12_000 } else { 400_000 };
    let rows = (0..150).map(|n| account(n, &named(n as usize, bytes(n as usize)), n));
    let rids = db.insert(&rows.collect::<Vec<_>>());
    let old = db.engine.snapshot();
    rids.iter().for_each(|rid| set_name(&db, *rid, "new".into()).expect("free"));
    for (n, row) in db.scan(&old).iter().enumerate() {
        assert_eq!(row[1], Value::text(named(n, bytes(n))), "row {n}");
    }
}

#[test]
fn a_refused_write_changes_nothing_and_there_is_a_way_out() {
    let db = limited(8 * MB);
    let mut rids = Vec::new();
    let stop = loop {
        let mut txn = db.begin();
        let n = rids.len() as i64;
        match insert(&*db.table, &mut *txn, account(n, &named(n as usize, 100_000), n)) {
            Ok(rid) => rids.push(rid),
            Err(stop) => break stop,
        }
        commit(txn);
    };
    assert!(matches!(stop, WriteStop::Engine(_)), "{stop:?}");
    assert_eq!(db.scan(&db.engine.snapshot()).len(), rids.len());
    let mut txn = db.begin();
    for rid in &rids[10..] {
        delete(&*db.table, &mut *txn, *rid).expect("what gives memory back is not refused");
    }
    commit(txn);
    let again = account(1000, &named(7, 2_000_000), 0);
    assert_eq!(db.insert(&[again]).len(), 1, "what was deleted is given back first");
}

fn wide(columns: u32) -> Arc<Layout> {
    let mut layout = Layout::clone(&accounts());
    layout.columns.extend((10..10 + columns).map(|id| column(id, ColumnType::Text)));
    Arc::new(layout)
}

#[test]
fn a_small_table_costs_kilobytes() {
    let db = limited(8 << 30);
    let open = |n: u32, columns| {
        db.engine.create_space(SpaceId(100 + n)).expect("made");
        let table = db.engine.open(SpaceId(100 + n), wide(columns)).expect("opens");
        let mut row = account(1, "x", 1);
        row.extend((0..columns).map(|n| Value::text(format!("value {n}"))));
        let mut txn = db.begin();
        insert(&*table, &mut *txn, row).expect("it goes in");
        commit(txn);
    };
    let before = used(&db);
    (0..100).for_each(|n| open(n, 10));
    let each = (used(&db) - before) / 100;
    assert!(each < 64 << 10, "{each} bytes for a table of a row");
    let before = used(&db);
    open(200, 1600);
    let wide = used(&db) - before;
    assert!(wide < 8 * MB, "{wide} bytes for a table of a row of 1,600 columns");
}

/// Rows come one by one, and what is there grows with them, whatever a column was added with.
#[test]
fn a_table_grows_with_its_rows() {
    let db = limited(8 << 30);
    let long_missing = Value::text(long(0));
    let mut layout = Layout::clone(&accounts());
    let missing = [
        (10, ColumnType::Text, long_missing.clone()),
        (11, ColumnType::Int32, Value::Int32(-7)),
        (12, ColumnType::Bool, Value::Bool(true)),
        (13, ColumnType::Int16, Value::Null),
        (14, ColumnType::Uuid, Value::Uuid([9; 16])),
    ];
    layout.columns.extend(missing.clone().map(|(id, ty, missing)| ColumnSpec {
        id: ColumnId(id),
        ty,
        missing,
    }));
    let table = db.engine.open(SPACE, Arc::new(layout)).expect("opens");
    let mut used_before = 0;
    for n in 0..300i64 {
        // Some by a writer who knows of the other columns.
        if n % 3 == 0 {
            let mut row = account(n, &long(n), n);
            row.extend([Value::Null, Value::Int32(n as i32), Value::Null, Value::Int16(5)]);
            row.push(Value::Uuid([n as u8; 16]));
            let mut txn = db.begin();
            insert(&*table, &mut *txn, row).expect("free");
            commit(txn);
        } else {
            db.insert(&[account(n, &long(n), n)]);
        }
        assert!(used(&db) + 64 * 1024 >= used_before, "it grows");
        used_before = used(&db);
    }
    let mut txn = db.begin();
    for rid in (0..300).step_by(7).map(RowId) {
        let texts = [Value::text(long(1)), Value::Int32(3)];
        update(&*table, &mut *txn, rid, &[3, 4], &texts).expect("free");
    }
    commit(txn);
    db.engine.collect_garbage();
    let check = |when: &str| {
        let rows = scan(&*table, &db.engine.snapshot());
        for (n, row) in rows.into_iter().take(300).enumerate() {
            let mut want = account(n as i64, &long(n as i64), n as i64);
            if n.is_multiple_of(3) {
                want.extend([Value::Null, Value::Int32(n as i32), Value::Null, Value::Int16(5)]);
                want.push(Value::Uuid([n as u8; 16]));
            } else {
                want.extend(missing.clone().map(|(_, _, missing)| missing));
            }
            if n.is_multiple_of(7) {
                want[3..5].clone_from_slice(&[Value::text(long(1)), Value::Int32(3)]);
            }
            assert_eq!(row, want, "row {n} {when}");
            assert_eq!(read(&*table, &db.engine.snapshot(), RowId(n as u64)), Some(want));
        }
    };
    check("hot");
    until("it can be frozen", || {
        db.engine.collect_garbage();
        db.engine.freeze(SPACE) == 1
    });
    check("frozen");
    db.insert(&[account(1000, "one more", 0)]);
    check("hot again");
}

#[test]
fn everything_is_given_back() {
    let db = Db::new();
    let space = SpaceId(50);
    let run = |round: i64| {
        db.engine.create_space(space).expect("made");
        let table = db.engine.open(space, wide(3)).expect("opens");
        let mut rids = Vec::new();
        let mut txn = db.begin();
        for n in 0..500 {
            let mut row = account(n, &named(n as usize, 30 + 40 * n as usize), round);
            row.extend((0..3).map(|c| Value::text(long(c))));
            table.insert(&mut *txn, &[row], &mut rids).expect("free");
        }
        commit(txn);
        let mut txn = db.begin();
        for rid in &rids[..200] {
            update(&*table, &mut *txn, *rid, &[1], &[Value::text(named(7, 17_000))]).expect("free");
        }
        txn.abort();
        db.engine.collect_garbage();
        assert_eq!(db.engine.freeze(space), 1);
        let mut txn = db.begin();
        for rid in &rids[100..300] {
            update(&*table, &mut *txn, *rid, &[1, 3], &[Value::text("a"), Value::Null])
                .expect("free");
        }
        rids[..50].iter().for_each(|rid| delete(&*table, &mut *txn, *rid).expect("free"));
        commit(txn);
        db.engine.collect_garbage();
        db.engine.drop_space(space);
    };
    run(0);
    let mut first = u64::MAX;
    until("nothing goes any more", || {
        db.engine.collect_garbage();
        let now = std::mem::replace(&mut first, used(&db));
        now == first
    });
    (1..20).for_each(run);
    // Other tests of this process may keep for a while what is retired.
    until("nothing stays of twenty tables that are gone", || {
        db.engine.collect_garbage();
        used(&db).saturating_sub(first) < 64 << 10
    });
}

#[test]
fn a_snapshot_that_holds_everything_is_no_reason_to_wait() {
    let db = limited(8 * MB);
    let rid = db.insert(&[account(1, &named(0, 1 << 20), 1)])[0];
    // Each version is the newest that one of them sees.
    let mut held = Vec::new();
    let stopped = (0..20).find_map(|n| {
        held.push(db.engine.snapshot());
        set_name(&db, rid, named(n, 1 << 20)).err()
    });
    assert!(matches!(stopped, Some(WriteStop::Engine(_))), "{stopped:?}");
    let old = held.swap_remove(0);
    drop(held);
    assert_eq!(read(&*db.table, &old, rid).expect("there")[1], Value::text(named(0, 1 << 20)));
    drop(old);
    set_name(&db, rid, named(99, 1 << 20)).expect("what nobody sees is given back first");
}
