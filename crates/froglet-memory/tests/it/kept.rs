//! Spaces that are kept as of a commit: they read as they were, whatever happens to them, across
//! restarts, and nobody else's garbage waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use froglet_engine::env::{Env, MemEnv};
use froglet_engine::{
    ColumnType, Direction, Engine, EngineError, EngineTxn, Install, Installs, KeyRange, Layout,
    Loaded, Row, RowId, Snapshot, SpaceId, Table, TxnId, Value,
};
use froglet_log::{Log, LogOptions, Lsn};
use froglet_memory::{MemoryEngine, MemoryOptions, MemoryTable};

use crate::support::*;

/// The space that nobody keeps.
const OTHER: SpaceId = SpaceId(8);
const KEEPER: u64 = 77;

/// A row's id in the kept table, and that of its like in the other.
type Pair = [RowId; 2];

/// Two tables of accounts: the one of [`SPACE`], and another.
struct Two {
    db: Db,
    other: Arc<dyn Table>,
}

fn options(env: Option<&MemEnv>) -> MemoryOptions {
    MemoryOptions {
        data_dir: env.map(|_| PathBuf::from("/data")),
        env: Arc::new(env.cloned().unwrap_or_else(|| MemEnv::new(1))),
        collector_thread: false,
        log: LogOptions { database_id: Some(3), ..LogOptions::default() },
        ..MemoryOptions::default()
    }
}

impl Two {
    fn new() -> Two {
        Two::open(None)
    }

    fn open(env: Option<&MemEnv>) -> Two {
        let db = Db::with(accounts(), options(env));
        db.engine.create_space(OTHER).expect("a space is made");
        let other = db.engine.open(OTHER, accounts()).expect("a table opens");
        for table in [&db.table, &other] {
            build_indexes(table);
        }
        Two { db, other }
    }

    fn crash(self, env: &MemEnv) -> Two {
        self.sync();
        env.crash();
        drop(self);
        Two::open(Some(env))
    }

    fn sync(&self) {
        let (send, receive) = std::sync::mpsc::channel();
        let done = move |outcome| send.send(outcome).expect("waited for");
        self.db.engine.when_durable(self.db.engine.appended(), Box::new(done));
        receive.recv().expect("called back").expect("durable");
    }

    /// Inserts into both tables, and commits.
    fn insert(&self, rows: &[Row]) -> Vec<Pair> {
        let mut txn = self.db.begin();
        let (mut rids, mut others) = (Vec::new(), Vec::new());
        self.db.table.insert(&mut *txn, rows, &mut rids).expect("rows go in");
        self.other.insert(&mut *txn, rows, &mut others).expect("rows go in");
        commit(txn);
        rids.into_iter().zip(others).map(Pair::from).collect()
    }

    /// One transaction that does the same to both tables.
    fn both(&self, row: Pair, change: impl Fn(&dyn Table, &mut dyn EngineTxn, RowId)) {
        let mut txn = self.db.begin();
        change(&*self.db.table, &mut *txn, row[0]);
        change(&*self.other, &mut *txn, row[1]);
        commit(txn);
    }

    fn set(&self, row: Pair, name: &str, n: i64) {
        let values = [Value::text(name), Value::Int64(n)];
        self.both(row, |table, txn, rid| {
            update(table, txn, rid, &[1, 2], &values).expect("free");
        });
    }

    fn delete(&self, row: Pair) {
        self.both(row, |table, txn, rid| delete(table, txn, rid).expect("free"));
    }

    fn keep(&self, keeper: u64) -> Vec<Row> {
        let mut txn = self.db.begin();
        txn.keep(keeper, &[SPACE]).expect("kept");
        assert!(txn.wrote(), "to keep is to write");
        commit(txn);
        self.kept(keeper)
    }

    fn view(&self, keeper: u64) -> Arc<Snapshot> {
        self.db.engine.kept(keeper).expect("kept")
    }

    /// What is kept, read in every way.
    fn kept(&self, keeper: u64) -> Vec<Row> {
        whole(&*self.db.table, &self.view(keeper))
    }

    fn now(&self, table: &dyn Table) -> Vec<Row> {
        whole(table, &self.db.engine.snapshot())
    }

    fn collect(&self) {
        self.sync();
        // The first pass learns what has become durable.
        (0..3).for_each(|_| _ = self.db.engine.collect_garbage());
    }

    /// Nothing is left of a table but these many rows.
    fn assert_collected(&self, table: &dyn Table, rows: u64) {
        let memory = own(table);
        assert_eq!(memory.old_versions(), 0, "no chain is left");
        assert_eq!(memory.row_estimate(), rows, "every other slot is free");
        for index in 0..table.layout().indexes.len() {
            assert_eq!(memory.index_entries(index) as u64, rows, "no stale entry in index {index}");
        }
    }

    fn release(&self, keeper: u64) {
        self.db.engine.release(keeper).expect("released");
        assert!(self.db.engine.kept(keeper).is_none());
    }
}

fn own(table: &dyn Table) -> &MemoryTable {
    table.as_any().downcast_ref().expect("a table of this engine")
}

/// As the schema crate does: all rows at once.
fn build_indexes(table: &Arc<dyn Table>) {
    for index in 0..table.layout().indexes.len() {
        let build = table.clone().build_index(index).expect("an index without entries");
        for block in 0..table.block_count() {
            build.scan_block(TxnId(0), block).expect("scanned");
        }
        let Loaded::Whole(loading) = build.load(&mut |_| true).expect("loaded") else {
            panic!("stopped")
        };
        assert_eq!(loading.duplicates, vec![]);
    }
}

/// The rows that a view sees, by blocks; and by row ids, by keys and by ranges they are the same.
fn whole(table: &dyn Table, view: &Snapshot) -> Vec<Row> {
    let rows = scan(table, view);
    let last = u64::from(table.block_count()) * 8192;
    let mut by_rid: Vec<Row> = (0..last).filter_map(|rid| read(table, view, RowId(rid))).collect();
    by_rid.sort_by_key(|row| if let Value::Int64(id) = row[0] { id } else { 0 });
    assert_eq!(by_rid, rows, "by row id");
    for direction in [Direction::Forward, Direction::Backward] {
        let mut found = seek(table, view, 0, &KeyRange::all(), direction);
        if direction == Direction::Backward {
            found.reverse();
        }
        assert_eq!(found, rows, "by primary key");
    }
    assert_eq!(seek(table, view, 1, &KeyRange::all(), Direction::Forward).len(), rows.len());
    for row in &rows {
        let range = exactly(table, 0, &row[..1]);
        let KeyRange { lower: std::ops::Bound::Included(key), .. } = range else {
            panic!("a prefix has a lower bound")
        };
        let mut out = Row::new();
        assert!(table.get_by_key(view, 0, &key, &[0, 1, 2], &mut out).is_some(), "{row:?}");
        assert_eq!(&out, row);
        let range = exactly(table, 1, &row[2..]);
        assert!(seek(table, view, 1, &range, Direction::Forward).contains(row));
    }
    rows
}

/// Everything that may happen to rows 0 to 9 of 20 rows, and to new ones.
fn change_all(two: &Two, rids: &[Pair]) {
    for round in 0..5 {
        for (i, rid) in rids[..4].iter().enumerate() {
            two.set(*rid, &long(round * 100 + i as i64), round * 1000 + i as i64);
        }
        let fresh = two.insert(&[account(1000 + round, &long(round), round)]);
        two.set(fresh[0], "changed", -round);
        if round % 2 == 0 {
            two.delete(fresh[0]);
        }
        two.collect();
    }
    for rid in &rids[4..8] {
        two.delete(*rid);
    }
    two.set(rids[8], &long(8), 8);
    two.both(rids[9], |table, txn, rid| {
        update(table, txn, rid, &[0], &[Value::Int64(90)]).expect("free");
    });
    // Another row gets the key that one has lost, another the key of one that is gone.
    two.insert(&[account(9, "nine", 9), account(4, &long(44), 44)]);
    two.collect();
}

fn twenty() -> Vec<Row> {
    (0..20).map(|i| account(i, &long(i), i * 10)).collect()
}

#[test]
fn a_kept_space_reads_as_it_was_and_other_garbage_goes() {
    let two = Two::new();
    let rids = two.insert(&twenty());
    let want = two.keep(KEEPER);
    assert_eq!(want, twenty());
    change_all(&two, &rids);
    assert_eq!(two.kept(KEEPER), want);
    let rows = two.now(&*two.other).len() as u64;
    assert_eq!(two.now(&*two.db.table), two.now(&*two.other));
    two.assert_collected(&*two.other, rows);
    assert!(own(&*two.db.table).old_versions() > 30, "versions wait");
    // Four rows and three that came and went have free slots in the other table, of which two are in use again.
    let tail = rids.len() as u64 + 5 + 2;
    assert!(two.other.row_estimate() < tail - 4, "slots of the other table are free");
    assert_eq!(two.db.table.row_estimate(), 27, "no slot of the kept space is free");
    two.release(KEEPER);
    two.collect();
    two.assert_collected(&*two.db.table, rows);
    two.db.engine.release(KEEPER).expect("idempotent");
    assert_eq!(two.now(&*two.db.table), two.now(&*two.other));
}

#[test]
fn a_view_that_is_kept_outlives_the_release() {
    let two = Two::new();
    let rids = two.insert(&twenty());
    let want = two.keep(KEEPER);
    two.set(rids[0], "before the view is taken", 1);
    let view = two.view(KEEPER);
    two.release(KEEPER);
    change_all(&two, &rids);
    assert_eq!(whole(&*two.db.table, &view), want);
    // It is a reader like any other, whatever it reads.
    assert!(own(&*two.other).old_versions() > 0, "a living view holds all garbage back");
    drop(view);
    two.collect();
    two.assert_collected(&*two.db.table, two.now(&*two.other).len() as u64);
}

#[test]
fn what_is_not_committed_keeps_nothing() {
    let two = Two::new();
    let rids = two.insert(&twenty());
    let mut txn = two.db.begin();
    let start = txn.savepoint();
    txn.keep(1, &[SPACE]).expect("kept");
    assert!(txn.savepoint() > start, "a savepoint behind it is another one");
    let mark = txn.savepoint();
    update(&*two.db.table, &mut *txn, rids[0][0], &[2], &[Value::Int64(1)]).expect("free");
    txn.keep(2, &[SPACE, OTHER]).expect("kept");
    update(&*two.db.table, &mut *txn, rids[1][0], &[2], &[Value::Int64(1)]).expect("free");
    txn.rollback_to(mark);
    assert!(txn.wrote());
    assert_eq!(txn.savepoint(), mark);
    assert!(two.db.engine.kept(1).is_none(), "not yet");
    txn.pre_commit();
    assert!(two.db.engine.kept(1).is_none(), "not yet");
    two.db.engine.release(1).expect("nothing to release");
    txn.retreat();
    txn.rollback_to(start);
    assert!(!txn.wrote());
    txn.keep(3, &[SPACE]).expect("kept");
    txn.pre_commit();
    txn.abort();
    let mut txn = two.db.begin();
    txn.keep(4, &[SPACE]).expect("kept");
    drop(txn);
    let mut txn = two.db.begin();
    let error = txn.keep(5, &[SPACE, SpaceId(99)]).expect_err("no such space");
    assert!(matches!(error, EngineError::NoSpace(SpaceId(99))), "{error}");
    commit(txn);
    assert!((1..6).all(|keeper| two.db.engine.kept(keeper).is_none()));
    change_all(&two, &rids);
    two.assert_collected(&*two.db.table, two.now(&*two.other).len() as u64);
}

#[test]
fn what_precedes_a_savepoint_is_kept_and_the_commit_is_the_moment() {
    let env = MemEnv::new(5);
    let two = Two::open(Some(&env));
    let rids = two.insert(&twenty());
    let mut txn = two.db.begin();
    txn.keep(1, &[SPACE]).expect("kept");
    let mark = txn.savepoint();
    txn.keep(2, &[SPACE]).expect("kept");
    delete(&*two.db.table, &mut *txn, rids[3][0]).expect("free");
    txn.rollback_to(mark);
    delete(&*two.db.table, &mut *txn, rids[4][0]).expect("free");
    // After the read view and before the commit.
    two.set(rids[0], "meanwhile", 1);
    txn.pre_commit();
    txn.retreat();
    two.set(rids[1], "meanwhile", 1);
    let ts = txn.pre_commit();
    // Between the commit timestamp and the record.
    two.set(rids[2], "too late", 1);
    let _ = txn.post_commit().expect("committed");
    assert_eq!(two.view(1).ts, ts);
    assert!(two.db.engine.kept(2).is_none());
    let mut want = twenty();
    want[0] = account(0, "meanwhile", 1);
    want[1] = account(1, "meanwhile", 1);
    want.remove(4);
    two.collect();
    assert_eq!(two.kept(1), want);
    // In the log the late one comes first.
    let two = two.crash(&env);
    assert_eq!(two.kept(1), want);
    assert!(two.db.engine.kept(2).is_none());
}

#[test]
fn each_keeper_keeps_its_own_moment() {
    let two = Two::new();
    let rids = two.insert(&twenty());
    let first = two.keep(1);
    change_all(&two, &rids);
    let second = two.keep(2);
    two.set(rids[0], "third", 3);
    two.delete(rids[1]);
    two.collect();
    assert_ne!(first, second);
    assert_eq!((two.kept(1), two.kept(2)), (first, second.clone()));
    let versions = own(&*two.db.table).old_versions();
    two.release(1);
    two.collect();
    assert_eq!(two.kept(2), second);
    let rest = own(&*two.db.table).old_versions();
    assert!(rest == 2 && versions > 30, "{versions} versions, and {rest} after the release");
    two.release(2);
    two.collect();
    two.assert_collected(&*two.db.table, two.now(&*two.other).len() as u64);
}

/// A checkpoint waits for who has a timestamp below its own: it must know what they keep.
#[test]
fn a_checkpoint_knows_who_was_about_to_keep() {
    let env = MemEnv::new(6);
    let two = Two::open(Some(&env));
    let rids = two.insert(&twenty());
    let mut txn = two.db.begin();
    txn.keep(KEEPER, &[SPACE]).expect("kept");
    let ts = txn.pre_commit();
    two.set(rids[0], "after the commit timestamp", 1);
    two.sync();
    let engine = Arc::clone(&two.db.engine);
    let checkpoint = std::thread::spawn(move || engine.checkpoint());
    std::thread::sleep(Duration::from_millis(50));
    let _ = txn.post_commit().expect("committed");
    checkpoint.join().expect("no panic").expect("there is space");
    two.set(rids[1], "after the checkpoint", 1);
    let two = two.crash(&env);
    assert_eq!(two.view(KEEPER).ts, ts);
    assert_eq!(two.kept(KEEPER), twenty());
}

/// The announcement of a transaction that did not commit, be it for a crash, holds nothing afterwards:
/// a replay meets it, and then a slot that is used again.
#[test]
fn an_announcement_without_a_commit_is_forgotten() {
    for with_crash in [true, false] {
        let env = MemEnv::new(6);
        let mut two = Two::open(Some(&env));
        let rids = two.insert(&twenty());
        let mut txn = two.db.begin();
        txn.keep(KEEPER, &[SPACE]).expect("kept");
        txn.pre_commit();
        two.sync();
        if with_crash {
            env.crash();
            drop((txn, two));
            two = Two::open(Some(&env));
        } else {
            txn.abort();
        }
        assert!(two.db.engine.kept(KEEPER).is_none());
        two.delete(rids[3]);
        two.collect();
        assert_eq!(two.insert(&[account(30, "in its place", 30)]), [rids[3]], "the slot is free");
        let now = two.now(&*two.db.table);
        let two = two.crash(&env);
        assert!(two.db.engine.kept(KEEPER).is_none());
        assert_eq!(two.now(&*two.db.table), now);
        two.assert_collected(&*two.db.table, 20);
    }
}

/// Whoever announces may have a view from before the checkpoint. What a checkpoint has of a row that
/// was deleted before that view ends at the checkpoint, and is held no longer for that. No thread of
/// a test is quick enough for this order of records, so they are written by hand.
#[test]
fn a_view_from_before_the_checkpoint_holds_no_more_after_a_crash() {
    let env = MemEnv::new(6);
    let two = Two::open(Some(&env));
    let rids = two.insert(&twenty());
    two.keep(1);
    two.delete(rids[3]);
    let floor = two.db.engine.now().0 as u8;
    two.set(rids[4], "after the view", 4);
    two.db.engine.checkpoint().expect("there is space");
    two.sync();
    let ts = two.db.engine.now().0 as u8;
    assert!(floor < ts && ts < 100, "numbers of one byte");
    drop(two);
    let space = SPACE.0 as u8;
    let announced = [9, 2, floor, 1, space];
    let released = [9, 1, 0, 0];
    let slot_used_again = [1, ts + 1, 1, space, rids[3][0].0 as u8, 0];
    let kept = [1, ts + 2, 4, 2, 1, space];
    let records: [&[u8]; 4] = [&announced, &released, &slot_used_again, &kept];
    let dir = PathBuf::from("/data/log");
    let names = env.list(&dir).expect("a directory");
    let first = names.iter().filter_map(|name| name.strip_suffix(".frlog")).min();
    let first = u64::from_str_radix(first.expect("a segment"), 16).expect("named by its LSN");
    let log_options = options(Some(&env)).log;
    let log = Log::open(Arc::new(env.clone()), &dir, log_options, Lsn(first), &mut |_, _| Ok(()));
    let log = log.expect("a valid log opens");
    records.iter().for_each(|record| _ = log.append(&[record]).expect("appended"));
    log.close().expect("closed");
    drop(log);
    let two = Two::open(Some(&env));
    assert!(two.db.engine.kept(1).is_none());
    assert_eq!(two.view(2).ts.0, u64::from(ts) + 2);
    assert_eq!(two.db.scan(&two.view(2)).len(), 20);
    assert!(two.db.row(rids[3][0]).is_some(), "the new row");
}

/// Values that are equal and not the same are told apart.
#[test]
fn zero_and_minus_zero_are_kept_apart() {
    let env = MemEnv::new(6);
    let layout = || {
        let columns = vec![column(1, ColumnType::Int64), column(2, ColumnType::Float64)];
        Arc::new(Layout { columns, indexes: vec![], row_key: None })
    };
    let db = Db::with(layout(), options(Some(&env)));
    let rids = db.insert(&[vec![Value::Int64(1), Value::Float64(0.0)]]);
    let mut txn = db.begin();
    txn.keep(KEEPER, &[SPACE]).expect("kept");
    commit(txn);
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, rids[0], &[1], &[Value::Float64(-0.0)]).expect("free");
    commit(txn);
    db.engine.checkpoint().expect("there is space");
    env.crash();
    drop(db);
    let db = Db::with(layout(), options(Some(&env)));
    let view = db.engine.kept(KEEPER).expect("kept");
    let float = |view: &Snapshot| match db.scan(view)[0][1] {
        Value::Float64(float) => float.to_bits(),
        ref other => panic!("{other:?}"),
    };
    assert_eq!(float(&view), 0.0_f64.to_bits());
    assert_eq!(float(&db.engine.snapshot()), (-0.0_f64).to_bits());
}

/// Where checkpoints may be among the things that happen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Checkpoints {
    None,
    Before,
    Between,
    After,
    Many,
}

#[test]
fn what_is_kept_survives_crashes() {
    use Checkpoints::*;
    for checkpoints in [None, Before, Between, After, Many] {
        let env = MemEnv::new(9);
        let two = Two::open(Some(&env));
        let checkpoint = |two: &Two, here: Checkpoints| {
            if checkpoints == here || checkpoints == Many {
                two.db.engine.checkpoint().expect("there is space");
            }
        };
        let rids = two.insert(&twenty());
        checkpoint(&two, Before);
        let first = two.keep(1);
        for rid in &rids[10..12] {
            two.set(*rid, "between", 5);
        }
        two.delete(rids[12]);
        two.insert(&[account(100, "hundred", 100)]);
        let second = two.keep(2);
        checkpoint(&two, Between);
        change_all(&two, &rids);
        checkpoint(&two, After);
        let now = two.now(&*two.db.table);
        let check = |two: &Two, what: &str| {
            assert_eq!(two.kept(1), first, "{checkpoints:?}, {what}");
            assert_eq!(two.kept(2), second, "{checkpoints:?}, {what}");
            assert_eq!(two.now(&*two.db.table), now, "{checkpoints:?}, {what}");
        };
        check(&two, "before the crash");
        let two = two.crash(&env);
        check(&two, "after it");
        two.collect();
        check(&two, "collected");
        two.assert_collected(&*two.other, now.len() as u64);
        checkpoint(&two, Many);
        let two = two.crash(&env);
        check(&two, "after another");
        // Rows that the crash brought back change again.
        for rid in [rids[0], rids[8], rids[10]] {
            two.set(rid, "again", 1);
        }
        two.delete(rids[9]);
        two.insert(&[account(500, "new", 500)]);
        assert_eq!((two.kept(1), two.kept(2)), (first.clone(), second.clone()), "{checkpoints:?}");
        two.release(1);
        two.collect();
        assert_eq!(two.kept(2), second, "{checkpoints:?}");
        let two = two.crash(&env);
        assert!(two.db.engine.kept(1).is_none(), "{checkpoints:?}");
        assert_eq!(two.kept(2), second, "{checkpoints:?}");
        two.release(2);
        two.collect();
        two.assert_collected(&*two.db.table, now.len() as u64);
        two.insert(&(600..610).map(|i| account(i, "reused", i)).collect::<Vec<_>>());
        let now = two.now(&*two.db.table);
        checkpoint(&two, After);
        let two = two.crash(&env);
        assert!(two.db.engine.kept(2).is_none(), "{checkpoints:?}");
        assert_eq!(two.now(&*two.db.table), now, "{checkpoints:?}");
        two.assert_collected(&*two.db.table, now.len() as u64);
    }
}

#[test]
fn a_checkpoint_after_the_release_keeps_no_file_of_it() {
    let env = MemEnv::new(2);
    let two = Two::open(Some(&env));
    let rids = two.insert(&twenty());
    two.keep(KEEPER);
    change_all(&two, &rids);
    let kept_files = || {
        let names = env.list(&PathBuf::from("/data/checkpoint")).expect("a directory");
        names.iter().filter(|name| name.contains("-kept-")).count()
    };
    two.db.engine.checkpoint().expect("there is space");
    assert_eq!(kept_files(), 1);
    two.db.engine.checkpoint().expect("there is space");
    assert_eq!(kept_files(), 1, "each checkpoint has its own");
    two.release(KEEPER);
    two.db.engine.checkpoint().expect("there is space");
    assert_eq!(kept_files(), 0);
    let now = two.now(&*two.db.table);
    let two = two.crash(&env);
    assert!(two.db.engine.kept(KEEPER).is_none());
    assert_eq!(two.now(&*two.db.table), now);
    two.assert_collected(&*two.db.table, now.len() as u64);
}

#[test]
fn a_space_may_be_dropped_while_it_is_kept() {
    let env = MemEnv::new(2);
    let two = Two::open(Some(&env));
    let rids = two.insert(&twenty());
    two.keep(KEEPER);
    two.db.engine.checkpoint().expect("there is space");
    change_all(&two, &rids);
    two.db.engine.drop_space(SPACE);
    two.collect();
    assert_eq!(two.kept(KEEPER), twenty(), "whoever has it open");
    two.db.engine.checkpoint().expect("there is space");
    let two = two.crash(&env);
    assert_eq!(two.now(&*two.db.table), Vec::<Row>::new(), "made anew");
    two.release(KEEPER);
    two.db.engine.drop_space(SPACE);
    let two = two.crash(&env);
    two.assert_collected(&*two.db.table, 0);
}

#[test]
fn undo_that_is_held_is_on_the_account() {
    let two = Two::new();
    let rids = two.insert(&twenty());
    two.collect();
    two.keep(KEEPER);
    let used = |two: &Two| {
        two.collect();
        two.db.engine.memory().0
    };
    let (before, undo) = (used(&two), 200 * 400 * 30);
    for round in 0..200 {
        two.set(rids[0], &long(round).repeat(400), round);
    }
    let held = used(&two);
    assert!(held > before + undo, "{before} bytes, then {held}");
    two.release(KEEPER);
    let end = Instant::now() + Duration::from_secs(20);
    // What is deferred waits for whoever is pinned, in other tests too.
    while used(&two) > held - undo {
        assert!(Instant::now() < end, "{held} bytes, then {}", used(&two));
    }
}

/// Rows of two tables change together and keep one sum; keepers come and go; the collector runs.
#[test]
fn keepers_come_and_go_beside_writers_and_the_collector() {
    let db = Arc::new(Db::collected());
    let rids = db.insert(&(0..8).map(|i| account(i, &long(i), 100)).collect::<Vec<_>>());
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|writer| {
            let (db, stop, rids) = (Arc::clone(&db), Arc::clone(&stop), rids.clone());
            std::thread::spawn(move || {
                let mut random = Random(writer);
                while !stop.load(Ordering::Relaxed) {
                    // Each writer has rows of its own, moves an amount between two of them, and
                    // makes a row that is gone with the next commit.
                    let mine = &rids[writer as usize * 4..][..4];
                    let (from, to) = (mine[random.below(2) as usize], mine[2]);
                    let mut txn = db.begin();
                    for (rid, by) in [(from, -1), (to, 1)] {
                        let row = read(&*db.table, txn.snapshot(), rid).expect("there");
                        let Value::Int64(n) = row[2] else { panic!("{row:?}") };
                        let values = [Value::text(long(n + by)), Value::Int64(n + by)];
                        update(&*db.table, &mut *txn, rid, &[1, 2], &values).expect("own rows");
                    }
                    let id = 1000 + writer as i64;
                    let rid = insert(&*db.table, &mut *txn, account(id, "short-lived", 0));
                    let rid = rid.expect("a key of its own");
                    commit(txn);
                    let mut txn = db.begin();
                    delete(&*db.table, &mut *txn, rid).expect("own row");
                    commit(txn);
                }
            })
        })
        .collect();
    let sum = |rows: &[Row]| -> i64 {
        rows.iter().map(|row| if let Value::Int64(n) = row[2] { n } else { 0 }).sum()
    };
    let end = Instant::now() + Duration::from_secs(3);
    let mut rounds = 0;
    while Instant::now() < end {
        rounds += 1;
        let mut txn = db.begin();
        txn.keep(rounds, &[SPACE]).expect("kept");
        commit(txn);
        let view = db.engine.kept(rounds).expect("kept");
        let first = scan(&*db.table, &view);
        drop(view);
        assert_eq!(sum(&first), 800, "of one moment");
        std::thread::sleep(Duration::from_millis(rounds % 8));
        let view = db.engine.kept(rounds).expect("kept");
        assert_eq!(whole(&*db.table, &view), first);
        drop(view);
        // Two overlap.
        if rounds > 1 {
            db.engine.release(rounds - 1).expect("released");
        }
    }
    db.engine.release(rounds).expect("released");
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("a writer failed"));
    assert!(rounds > 20, "{rounds} rounds");
    let table = own(&*db.table);
    let end = Instant::now() + Duration::from_secs(20);
    let left = || {
        let entries = table.index_entries(0).max(table.index_entries(1));
        (table.old_versions(), entries, table.row_estimate())
    };
    while left() != (0, 8, 8) {
        assert!(Instant::now() < end, "versions, entries and rows that are left: {:?}", left());
        db.engine.collect_garbage();
    }
}

struct Nothing;

impl Installs for Nothing {
    fn note(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// Rows that are installed count as if they had always been there, for who keeps them, too.
#[test]
fn rows_installed_in_a_kept_space_have_always_been_there() {
    for with_checkpoint in [false, true] {
        let env = MemEnv::new(4);
        let two = Two::open(Some(&env));
        let table = Arc::clone(&two.db.table);
        table.reserve(RowId(10), &|_| false).expect("memory");
        table.follow_installs(Arc::new(Nothing));
        two.insert(&[account(100, "hundred", 100)]);
        two.keep(KEEPER);
        let rids = [1, 2].map(RowId);
        let values = [account(1, &long(1), 1), account(2, &long(2), 2)].concat();
        let install = Install { rids: &rids, values: &values, empty: &[], note: b"both" };
        table.install(&install, &mut || ()).expect("installed");
        let want = two.kept(KEEPER);
        assert_eq!(want.len(), 3);
        let mut txn = two.db.begin();
        delete(&*table, &mut *txn, RowId(1)).expect("free");
        update(&*table, &mut *txn, RowId(2), &[2], &[Value::Int64(7)]).expect("free");
        commit(txn);
        if with_checkpoint {
            two.db.engine.checkpoint().expect("there is space");
        }
        two.collect();
        assert_eq!(two.kept(KEEPER), want);
        let now = two.now(&*table);
        drop(table);
        let two = two.crash(&env);
        assert_eq!(two.kept(KEEPER), want);
        assert_eq!(two.now(&*two.db.table), now);
    }
}

/// A damaged file of kept rows is found before it is believed.
#[test]
fn a_damaged_file_of_kept_rows_is_refused() {
    let env = MemEnv::new(2);
    let two = Two::open(Some(&env));
    let rids = two.insert(&twenty());
    two.keep(KEEPER);
    change_all(&two, &rids);
    two.db.engine.checkpoint().expect("there is space");
    drop(two);
    let path = PathBuf::from("/data/checkpoint").join(format!("000001-kept-{SPACE}.arrow"));
    let good = env.contents(&path).expect("the file is there");
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    env.overwrite(&path, bad);
    let error = MemoryEngine::open(options(Some(&env))).expect_err("damaged");
    assert!(matches!(error, EngineError::Corrupt { .. }), "{error}");
    env.overwrite(&path, good);
    assert_eq!(Two::open(Some(&env)).kept(KEEPER), twenty());
}

/// A heap takes few buffers, and builders of arrays make many.
#[test]
fn long_strings_that_are_kept_come_back() {
    let env = MemEnv::new(5);
    let two = Two::open(Some(&env));
    let text = |i: i64| format!("{i:>50}").repeat(22_000);
    let rids = two.insert(&(0..40).map(|i| account(i, &text(i), 0)).collect::<Vec<_>>());
    let want = two.keep(KEEPER);
    rids.iter().for_each(|rid| two.set(*rid, "now", 1));
    two.db.engine.checkpoint().expect("there is space");
    two.sync();
    let two = two.crash(&env);
    assert_eq!(two.kept(KEEPER), want);
}
