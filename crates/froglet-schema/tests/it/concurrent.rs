//! Writers that never stop while the schema changes: afterwards every row is as if the change had
//! been made offline at its commit, and later writes on top. Writers keep `d` at `double(v)` once
//! they see it, so the rule holds for every row at every moment after the flip.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use froglet_engine::Value;
use froglet_schema::MigrationOptions;
use froglet_txn::{Isolation, Limits};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinHandle;

use crate::world::{World, double, options, some_doubled};

/// Inserts, updates and deletes at random until told to stop, some of them taken back.
async fn writer(world: Arc<World>, seed: u64, stop: Arc<AtomicBool>, commits: Arc<AtomicU64>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut next = 1_000_000 * (seed as i64 + 1);
    while !stop.load(Ordering::Relaxed) {
        let mut txn = world.begin(Isolation::ReadCommitted);
        let mut ok = true;
        for _ in 0..rng.random_range(1..5) {
            let savepoint = (rng.random_range(0..3) == 0).then(|| txn.savepoint());
            let id = rng.random_range(0..3000);
            let v = rng.random_range(0..1000) * 10;
            let outcome = match rng.random_range(0..10) {
                0 => world.delete(&mut txn, id).await.map(|_| ()),
                1 | 2 => {
                    next += 1;
                    world.insert(&mut txn, next, v).await
                }
                _ => world.update(&mut txn, id, v).await.map(|_| ()),
            };
            ok &= outcome.is_ok();
            if rng.random_range(0..8) == 0 {
                // Some last longer than a schema change does.
                tokio::time::sleep(Duration::from_millis(3)).await;
                world.value(&mut txn, id).await;
            }
            if let Some(savepoint) = savepoint.filter(|_| ok) {
                txn.rollback_to(savepoint);
            }
        }
        if ok && rng.random_range(0..8) > 0 {
            world.commit(txn).await.expect("no writer fails because the schema changed");
            commits.fetch_add(1, Ordering::Relaxed);
        } else {
            txn.abort();
        }
    }
}

/// Three writers. They stop however the test ends: they never wait, so a runtime could not stop
/// them.
pub struct Writers {
    stop: Arc<AtomicBool>,
    commits: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Writers {
    pub fn start(world: &Arc<World>) -> Writers {
        let (stop, commits) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let one = |seed| tokio::spawn(writer(world.clone(), seed, stop.clone(), commits.clone()));
        let tasks = (0..3).map(one).collect();
        Writers { stop, commits, tasks }
    }

    /// How many times they have committed. Nobody shall wait for writers that have ended.
    pub fn committed(&self) -> u64 {
        assert!(!self.tasks.iter().any(JoinHandle::is_finished), "a writer has panicked");
        self.commits.load(Ordering::Relaxed)
    }

    /// Returns when they have committed so many times more.
    pub async fn until_committed(&self, more: u64) {
        let before = self.committed();
        while self.committed() < before + more {
            tokio::task::yield_now().await;
        }
    }

    pub async fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in std::mem::take(&mut self.tasks) {
            task.await.expect("no writer panics");
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_is_migrated_exactly_while_writers_run() {
    let world = Arc::new(World { keeps_d: true, ..World::with_rows(3000).await });
    let writers = Writers::start(&world);
    for round in 0..20 {
        writers.until_committed(50).await;
        let mut txn = world.begin(Isolation::ReadCommitted);
        world.change(&mut txn, world.add_double("d")).await.unwrap();
        if round % 4 == 3 {
            txn.abort();
            continue;
        }
        world.commit(txn).await.unwrap();
        if round % 2 == 0 {
            // Those who wrote before the flip commit, too.
            writers.until_committed(100).await;
        }
        let mut txn = world.begin(Isolation::RepeatableRead);
        let rows = world.rows(&mut txn, &["id", "v", "d"]).await;
        assert!(rows.len() > 1000, "the table did not vanish");
        for row in rows {
            let Value::Int64(v) = row[1] else { panic!("v is never NULL here") };
            assert_eq!(row[2], Value::Int64(double(v)), "round {round}, row {:?}", row[0]);
        }
        let drop = froglet_schema::Change::DropColumn {
            table: world.table,
            column: "d".to_owned(),
            cascade: false,
        };
        txn.abort();
        world.alter(drop).await.unwrap();
    }
    writers.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_type_loses_and_tears_nothing() {
    let world = Arc::new(World::with_rows(3000).await);
    let writers = Writers::start(&world);
    writers.until_committed(100).await;
    let mut txn = world.begin(Isolation::ReadCommitted);
    world.change(&mut txn, world.alter_v()).await.unwrap();
    world.commit(txn).await.unwrap();
    writers.until_committed(200).await;
    writers.end().await;
    // Old values 10 k became 20 k + 1; values written under the new version are 10 k.
    for row in world.all(&["id", "v"]).await {
        let Value::Int64(v) = row[1] else { panic!("v is never NULL: row {:?}", row[0]) };
        assert!(v % 10 == 0 || (v - 1) % 20 == 0, "row {:?} holds {v}", row[0]);
    }
}

/// Each statement of a migrating transaction makes writers wait for a moment. Nothing has flipped
/// when they go on, so there is nothing to refuse them for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_a_migrating_transaction_refuse_no_writer() {
    let world = Arc::new(World::with_rows(3000).await);
    let mut txn = world.begin(Isolation::ReadCommitted);
    world.change(&mut txn, world.add_double("d")).await.unwrap();
    let writers = Writers::start(&world);
    let before = writers.committed();
    while writers.committed() < before + 5000 {
        world.statement(&mut txn, false).await;
        world.catalog.end_statement(&mut txn);
        tokio::task::yield_now().await;
    }
    txn.abort();
    writers.end().await;
}

/// Many rows at once: a computed column, a check, an index, a copy and sums, each migrated again on several
/// threads.
#[tokio::test]
async fn captured_rows_are_migrated_on_several_threads() {
    const ROWS: i64 = 20_000;
    let world = World::with_rows(ROWS).await;
    let many = MigrationOptions { capture_threads: 3, ..options() };
    let mut ddl = world.begin(Isolation::ReadCommitted);
    let changes = [world.add_double("d"), world.add_unique(), world.create_as("copy")];
    for change in changes {
        world.statement(&mut ddl, true).await;
        let applied = world.catalog.apply(&mut ddl, change, &many, &Limits::none()).await;
        applied.expect("there is nothing in its way");
        world.catalog.end_statement(&mut ddl);
    }
    for round in 0..3 {
        let mut writer = world.begin(Isolation::ReadCommitted);
        for id in (0..ROWS).filter(|id| id % 3 != round) {
            // Keys that nobody has, and then those of others.
            world.update(&mut writer, id, (id + round) * 10 + round % 2).await.unwrap();
        }
        world.commit(writer).await.unwrap();
    }
    world.commit(ddl).await.unwrap();
    let rows = world.all(&["id", "v", "d"]).await;
    assert_eq!(rows.len() as i64, ROWS);
    for row in &rows {
        let [_, Value::Int64(v), Value::Int64(d)] = row[..] else { panic!("{row:?}") };
        assert_eq!(d, double(v));
    }
    let view = world.catalog.latest();
    let copy = world.of(view.names[&("public".to_owned(), "copy".to_owned())]);
    let kept = |row: &Vec<Value>| match row[..] {
        [Value::Int64(id), Value::Int64(v), _] => some_doubled(id, v),
        _ => None,
    };
    let wanted: Vec<_> = rows.iter().filter_map(kept).collect();
    let copied = copy.all(&["id", "v"]).await;
    assert_eq!(copied.len(), wanted.len());
    for (row, (id, v)) in copied.iter().zip(wanted) {
        assert_eq!(row[..], [Value::Int64(id), Value::Int64(v)]);
    }
}
