//! Both engines under threads: money that moves between tables in memory and on disk, readers who count it, checkpoints,
//! old views, a crash.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use froglet_disk::DiskTable;
use froglet_engine::env::MemEnv;
use froglet_engine::{Engine, EngineTxn, Home, RowId, RowWrite, Table, Value, WriteStop};
use froglet_testkit::mutate::Random;
use froglet_txn::RegistryOptions;

use crate::support::{Both, Options, begin, insert, open, rows, rows_by_key, table};

const ACCOUNTS: i64 = 20;
const TRANSFERS: usize = 400;

struct World {
    both: Both,
    memory: Arc<dyn Table>,
    disk: Arc<dyn Table>,
    ledgers: [Arc<dyn Table>; 2],
}

impl World {
    fn open(env: &MemEnv, files: &tempfile::TempDir, options: &Options) -> World {
        let both = open(env, files.path().to_owned(), options).expect("both open");
        let engine: &dyn Engine = &*both.joint;
        let (memory, disk) = (table(engine, Home::Memory, 1), table(engine, Home::Disk, 2));
        let ledgers = [table(engine, Home::Memory, 3), table(engine, Home::Disk, 4)];
        World { memory, disk, ledgers, both }
    }

    fn engine(&self) -> &dyn Engine {
        &*self.both.joint
    }

    fn fill(&self) {
        let mut txn = begin(self.engine());
        let accounts: Vec<(i64, i64)> = (0..ACCOUNTS).map(|id| (id, 100)).collect();
        insert(&*self.memory, &mut *txn, &accounts);
        insert(&*self.disk, &mut *txn, &accounts);
        txn.post_commit().expect("it commits").waits_for_nothing("the log is synced below");
        self.sync();
    }

    fn sync(&self) {
        let (send, receive) = std::sync::mpsc::channel();
        let engine = self.engine();
        engine.when_durable(engine.appended(), Box::new(move |told| drop(send.send(told))));
        receive.recv().expect("it calls back").expect("the logs are well");
    }

    /// What is true in every view.
    fn check(&self) {
        let view = self.engine().snapshot();
        let total = |table: &Arc<dyn Table>| rows(&**table, &view).values().sum::<i64>();
        // The disk first, or the memory: the view is one all the same.
        assert_eq!(total(&self.disk) + total(&self.memory), 2 * 100 * ACCOUNTS);
        let by_key = rows_by_key(&*self.disk, &view);
        assert_eq!(by_key, rows(&*self.disk, &view).into_iter().collect::<Vec<_>>());
        let lines = self.ledgers.each_ref().map(|ledger| rows(&**ledger, &view));
        assert_eq!(lines[0], lines[1], "a ledger has half of a transfer");
    }

    /// One transfer, and its line in both ledgers; none if somebody else was there first.
    fn transfer(&self, line: i64, random: &mut Random) -> Option<Box<dyn EngineTxn>> {
        let mut txn = begin(self.engine());
        let amount = random.below(20) as i64;
        let mut sides = [(&self.memory, -amount), (&self.disk, amount)];
        if random.below(2) == 0 {
            sides.reverse();
        }
        for (table, amount) in sides {
            if random.below(4) == 0 {
                let mark = txn.savepoint();
                self.add(table, &mut *txn, 1_000_000, random).ok()?;
                txn.rollback_to(mark);
            }
            self.add(table, &mut *txn, amount, random).ok()?;
        }
        for ledger in &self.ledgers {
            insert(&**ledger, &mut *txn, &[(line, amount)]);
        }
        Some(txn)
    }

    fn add(
        &self,
        table: &Arc<dyn Table>,
        txn: &mut dyn EngineTxn,
        amount: i64,
        random: &mut Random,
    ) -> Result<(), WriteStop> {
        let id = random.below(ACCOUNTS as usize) as i64;
        let view = Arc::clone(txn.snapshot());
        let (rid, n) = account(&**table, &view, id);
        let values = [Value::Int64(n + amount)];
        let write = RowWrite::Update { rid, columns: &[1], values: &values };
        table.write(txn, view.ts, &[write]).map_err(|(_, stop)| stop)
    }
}

fn account(table: &dyn Table, view: &froglet_engine::Snapshot, id: i64) -> (RowId, i64) {
    let key = froglet_engine::key::encode([&Value::Int64(id)], [&froglet_engine::key::ASCENDING]);
    let mut row = Vec::new();
    let rid = table.get_by_key(view, 0, &key, &[1], &mut row).expect("an account is there");
    let Value::Int64(n) = row[0] else { unreachable!("a bigint") };
    (rid, n)
}

/// Transfers by three threads; what was told to be durable, until `stop`.
fn load(world: &World, first: i64, seed: u64, stop: &AtomicBool) -> Vec<i64> {
    let (told, next) = (Arc::new(Mutex::new(Vec::new())), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (told, next) = (&told, &next);
            scope.spawn(move || {
                let mut random = Random(seed * 10 + thread + 1);
                loop {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    if n >= TRANSFERS || stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let line = first + n as i64;
                    let Some(txn) = world.transfer(line, &mut random) else { continue };
                    if random.below(10) == 0 {
                        txn.abort();
                        continue;
                    }
                    let Ok(lsn) = txn.post_commit() else { return };
                    let told = Arc::clone(told);
                    let done = move |durable: Result<(), _>| {
                        if durable.is_ok() {
                            told.lock().expect("nobody panics").push(line);
                        }
                    };
                    world.engine().when_durable(lsn, Box::new(done));
                }
            });
        }
        scope.spawn(|| {
            let mut held = Vec::new();
            for n in 0.. {
                if next.load(Ordering::SeqCst) >= TRANSFERS || stop.load(Ordering::SeqCst) {
                    return;
                }
                world.check();
                let view = world.engine().snapshot();
                let seen = [&world.memory, &world.disk].map(|table| rows(&**table, &view));
                held.push((view, seen));
                if n % 3 == 2 {
                    let (view, seen) = held.remove(0);
                    let again = [&world.memory, &world.disk].map(|table| rows(&**table, &view));
                    assert_eq!(again, seen, "an old view sees something else");
                }
                if n % 4 == 3 {
                    // A crash ends it, at whatever moment.
                    let _ = world.engine().checkpoint();
                    let memory = world.both.memory.upgrade().expect("it is open");
                    memory.collect_garbage();
                }
            }
        });
    });
    Arc::try_unwrap(told).map_or_else(
        |shared| shared.lock().expect("nobody panics").clone(),
        |told| told.into_inner().expect("nobody panics"),
    )
}

fn options() -> [Options; 3] {
    let small = RegistryOptions { capacity: 3, partitions: 2, is_on: true };
    [
        Options::default(),
        Options { part_bytes: 100, gather_bytes: 1, ..Options::default() },
        Options { registry: small, gather_bytes: 20_000, ..Options::default() },
    ]
}

#[test]
fn everybody_sees_all_of_the_money() {
    for (n, options) in options().iter().enumerate() {
        let files = tempfile::tempdir().expect("a directory");
        let world = World::open(&MemEnv::new(n as u64), &files, options);
        world.fill();
        load(&world, 0, n as u64, &AtomicBool::new(false));
        world.sync();
        world.check();
        let disk = world.both.disk.upgrade().expect("it is open");
        while disk.work().expect("files are written") {}
        let table = world.disk.as_any().downcast_ref::<DiskTable>().expect("it is on disk");
        assert_eq!(table.index_entries(0).expect("read"), ACCOUNTS as usize);
        assert_eq!(table.old_versions().expect("read"), 0);
    }
}

#[test]
fn a_crash_at_any_moment_leaves_both_halves_or_none() {
    let env = MemEnv::new(7);
    for (n, options) in options().iter().enumerate() {
        let files = tempfile::tempdir().expect("a directory");
        let env = if n == 0 { env.clone() } else { MemEnv::new(n as u64) };
        let mut world = World::open(&env, &files, options);
        world.fill();
        let mut told = Vec::new();
        for round in 0..5_u64 {
            let stop = AtomicBool::new(false);
            let first = 1 + round as i64 * TRANSFERS as i64;
            told.extend(std::thread::scope(|scope| {
                let crash = scope.spawn(|| {
                    std::thread::sleep(std::time::Duration::from_millis(20 + 37 * round));
                    env.crash();
                    stop.store(true, Ordering::SeqCst);
                });
                let told = load(&world, first, 100 * n as u64 + round, &stop);
                crash.join().expect("a crash is no panic");
                told
            }));
            drop(world);
            world = World::open(&env, &files, options);
            world.check();
            let lines = rows(&*world.ledgers[1], &world.engine().snapshot());
            let lost: Vec<i64> = told.iter().filter(|l| !lines.contains_key(l)).copied().collect();
            assert!(lost.is_empty(), "told, and lost: {lost:?} of {} in round {round}", told.len());
        }
    }
}
