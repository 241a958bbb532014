//! Rows that a space is given late: seen by everybody, at their place, once, whatever crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use froglet_engine::env::MemEnv;
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{
    Direction, Engine, Install, Installs, KeyRange, Row, RowId, Snapshot, Table, Value,
};

use crate::recovery::{crash, open, sync};
use crate::support::*;

/// What is done of a space of which row n is made late: a bit for each.
#[derive(Default)]
struct Done(Mutex<Vec<RowId>>);

impl Installs for Done {
    fn note(&self) -> Vec<u8> {
        note(&self.0.lock().unwrap())
    }
}

fn note(rids: &[RowId]) -> Vec<u8> {
    rids.iter().flat_map(|rid| rid.0.to_le_bytes()).collect()
}

fn noted(notes: &[Vec<u8>]) -> Vec<RowId> {
    let number = |bytes: &[u8]| RowId(u64::from_le_bytes(bytes.try_into().expect("8 bytes")));
    notes.iter().flat_map(|note| note.chunks(8).map(number)).collect()
}

fn late(n: u64) -> Row {
    account(n as i64, &long(n as i64), (n % 10) as i64)
}

fn install(db: &Db, rids: &[RowId], empty: &[RowId], done: &Done) {
    install_into(&*db.table, rids, empty, done);
}

fn install_into(table: &dyn Table, rids: &[RowId], empty: &[RowId], done: &Done) {
    let values: Vec<Value> = rids.iter().flat_map(|rid| late(rid.0)).collect();
    let all: Vec<RowId> = rids.iter().chain(empty).copied().collect();
    let install = Install { rids, values: &values, empty, note: &note(&all) };
    let installed = table.install(&install, &mut || done.0.lock().unwrap().extend(&all));
    installed.expect("rows are installed");
}

#[test]
fn installed_rows_have_always_been_there() {
    let db = Db::collected();
    let before = db.engine.snapshot();
    let tail = RowId(2 * ROWS_PER_BLOCK as u64);
    db.table.reserve(tail, &|_| false).unwrap();
    let new = db.insert(&[account(1_000_000, "new", 3)]);
    assert!(new[0] >= tail, "what is reserved is handed out to nobody");
    let rids = [3, 8_191, 8_192, 9_000].map(RowId);
    install(&db, &rids, &[RowId(4)], &Done::default());
    let seen = |snapshot: &Snapshot| db.scan(snapshot);
    assert_eq!(seen(&before), rids.map(|rid| late(rid.0)));
    assert_eq!(seen(&db.engine.snapshot()).len(), 5);
    let by_n = seek(&*db.table, &before, 1, &KeyRange::all(), Direction::Forward);
    assert_eq!(by_n.len(), 4, "an index has them, too");
    // An installed row is changed as any other, and what stays empty is used.
    let mut txn = db.begin();
    update(&*db.table, &mut *txn, RowId(3), &[2], &[Value::Int64(7)]).unwrap();
    delete(&*db.table, &mut *txn, RowId(9_000)).unwrap();
    commit(txn);
    assert_eq!(seen(&before).len(), 4);
    assert_eq!(db.insert(&[account(2_000_000, "in a place that stayed empty", 4)]), [RowId(4)]);
}

/// Installs rows when a checkpoint asks what is done, so that it has copied the blocks before.
struct InstallsWhenAsked {
    table: OnceLock<Arc<dyn Table>>,
    done: Done,
}

impl Installs for InstallsWhenAsked {
    fn note(&self) -> Vec<u8> {
        let table = self.table.get().expect("a checkpoint is later");
        install_into(&**table, &[1, 2].map(RowId), &[], &self.done);
        self.done.note()
    }
}

/// A checkpoint's note may be of rows that were installed after it had copied their block: they are in the
/// log alone, and that has to be as durable as the note.
#[test]
fn a_checkpoint_has_no_note_of_rows_that_a_crash_takes_away() {
    let env = MemEnv::new(1);
    let db = open(&env);
    db.table.reserve(RowId(300), &|_| false).unwrap();
    let source = InstallsWhenAsked { table: OnceLock::new(), done: Done::default() };
    assert!(source.table.set(Arc::clone(&db.table)).is_ok());
    db.table.follow_installs(Arc::new(source));
    db.engine.checkpoint().expect("a checkpoint is written");
    let db = crash(&env, db);
    let found = noted(&db.table.follow_installs(Arc::new(Done::default())));
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([1, 2].map(RowId)));
    assert_eq!(db.scan(&db.engine.snapshot()), [late(1), late(2)]);
}

/// Installs, writes, checkpoints and crashes at random: rows and notes agree, each row is there once.
#[test]
fn rows_and_notes_come_back_together() {
    static SEED: AtomicU64 = AtomicU64::new(0);
    for _ in 0..8 {
        let seed = SEED.fetch_add(1, Ordering::Relaxed);
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        let env = MemEnv::new(seed);
        let tail = 300;
        let mut db = open(&env);
        db.table.reserve(RowId(tail), &|_| false).unwrap();
        let mut done = Arc::new(Done::default());
        assert!(db.table.follow_installs(done.clone()).is_empty());
        let mut model: BTreeMap<i64, Row> = BTreeMap::new();
        for _ in 0..120 {
            match next(12) {
                0..6 => {
                    let known = done.0.lock().unwrap().clone();
                    let rids: Vec<RowId> = (0..1 + next(5)).map(|_| RowId(next(tail))).collect();
                    let mut rids: Vec<RowId> =
                        rids.into_iter().filter(|rid| !known.contains(rid)).collect();
                    rids.sort_unstable();
                    rids.dedup();
                    let (rows, empty): (Vec<RowId>, Vec<RowId>) =
                        rids.into_iter().partition(|rid| rid.0 % 3 > 0);
                    install(&db, &rows, &empty, &done);
                    model.extend(rows.iter().map(|rid| (rid.0 as i64, late(rid.0))));
                }
                6..9 => {
                    let known = done.0.lock().unwrap().clone();
                    let here = known.get(next(known.len().max(1) as u64) as usize);
                    if let Some(rid) = here.filter(|rid| model.contains_key(&(rid.0 as i64))) {
                        let mut txn = db.begin();
                        if next(2) == 0 {
                            let n = Value::Int64(next(1000) as i64);
                            update(&*db.table, &mut *txn, *rid, &[2], std::slice::from_ref(&n))
                                .unwrap();
                            model.get_mut(&(rid.0 as i64)).unwrap()[2] = n;
                        } else {
                            delete(&*db.table, &mut *txn, *rid).unwrap();
                            model.remove(&(rid.0 as i64));
                        }
                        commit(txn);
                    }
                }
                9 => {
                    let id = 1_000_000 + next(1_000_000) as i64;
                    model.entry(id).or_insert_with(|| {
                        let row = account(id, "new", 0);
                        db.insert(std::slice::from_ref(&row));
                        row
                    });
                }
                10 => db.engine.checkpoint().expect("a checkpoint is written"),
                _ => {
                    sync(&db);
                    let before = done.0.lock().unwrap().clone();
                    db = crash(&env, db);
                    if next(3) == 0 {
                        // Before anybody says who knows.
                        db.engine.checkpoint().expect("a checkpoint is written");
                        db = crash(&env, db);
                    }
                    done = Arc::new(Done::default());
                    let mut found = noted(&db.table.follow_installs(done.clone()));
                    found.sort_unstable();
                    found.dedup();
                    let mut before = before;
                    before.sort_unstable();
                    assert_eq!(found, before, "seed {seed}");
                    *done.0.lock().unwrap() = found.clone();
                    db.table.reserve(RowId(tail), &|rid| found.contains(&rid)).unwrap();
                }
            }
            let seen = db.scan(&db.engine.snapshot());
            assert_eq!(seen, model.values().cloned().collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
