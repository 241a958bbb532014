//! Writers that swap keys between rows while a unique index is made: keys that no two rows have at
//! one moment never refuse it, and keys that two rows have always do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use froglet_schema::Change;
use froglet_txn::{Isolation, Transaction};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinHandle;

use crate::indexes::{by_index, by_scan};
use crate::world::World;

/// Swaps the keys of two rows, by way of a key that nobody has.
async fn swap(world: &World, txn: &mut Transaction, a: i64, b: i64) {
    let va = world.value(txn, a).await.expect("the row is there");
    let vb = world.value(txn, b).await.expect("the row is there");
    for (id, v) in [(a, -1 - a), (b, va), (a, vb)] {
        assert!(world.update(txn, id, v).await.expect("these rows are nobody else's"));
    }
}

/// Deletes a row and gives its key to a new one.
async fn replace(world: &World, txn: &mut Transaction, id: i64) {
    let v = world.value(txn, id).await.expect("the row is there");
    assert!(world.delete(txn, id).await.expect("this row is nobody else's"));
    world.insert(txn, id, v).await.expect("the keys are free");
}

/// Swaps and replaces among its own rows until told to stop.
async fn swapper(world: Arc<World>, ids: Vec<i64>, stop: Arc<AtomicBool>, commits: Arc<AtomicU64>) {
    let mut rng = StdRng::seed_from_u64(ids[0] as u64);
    while !stop.load(Ordering::Relaxed) {
        let mut txn = world.begin(Isolation::RepeatableRead);
        let at = rng.random_range(0..ids.len());
        let other = (at + rng.random_range(1..ids.len())) % ids.len();
        match rng.random_range(0..4) {
            0 => replace(&world, &mut txn, ids[at]).await,
            _ => swap(&world, &mut txn, ids[at], ids[other]).await,
        }
        if rng.random_range(0..8) == 0 {
            txn.abort();
            continue;
        }
        world.commit(txn).await.expect("it is carried over");
        commits.fetch_add(1, Ordering::Relaxed);
        if rng.random_range(0..16) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Two swappers, each with rows of its own. They stop however the test ends.
struct Swappers {
    stop: Arc<AtomicBool>,
    commits: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Swappers {
    /// Over `rows` rows each, spread over a table of 20,000.
    fn start(world: &Arc<World>, rows: i64) -> Swappers {
        let (stop, commits) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let one = |n: i64| {
            let ids = (0..rows).map(|i| i * (20_000 / rows) + n).collect();
            tokio::spawn(swapper(world.clone(), ids, stop.clone(), commits.clone()))
        };
        let tasks = (0..2).map(one).collect();
        Swappers { stop, commits, tasks }
    }

    async fn until_committed(&self, more: u64) {
        let before = self.commits.load(Ordering::Relaxed);
        while self.commits.load(Ordering::Relaxed) < before + more {
            assert!(!self.tasks.iter().any(JoinHandle::is_finished), "a swapper failed");
            tokio::task::yield_now().await;
        }
    }

    async fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in std::mem::take(&mut self.tasks) {
            task.await.expect("no swapper panics");
        }
    }
}

impl Drop for Swappers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The index that was made last has every row once, in order, and no two rows share a key.
async fn check(world: &World) {
    let mut txn = world.begin(Isolation::RepeatableRead);
    let (found, rows) = (by_index(world, &mut txn).await, by_scan(world, &mut txn).await);
    assert_eq!(found, rows);
    assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0), "two rows share a key");
}

async fn drop_unique(world: &World) {
    let name = world.version().def.constraints.last().expect("added").name.clone();
    let table = world.table;
    world.alter(Change::DropConstraint { table, name, cascade: false }).await.unwrap();
}

#[tokio::test]
async fn a_key_that_an_open_writer_is_about_to_take_is_no_duplicate() {
    let world = World::with_rows(10).await;
    let mut ddl = world.begin(Isolation::ReadCommitted);
    world.change(&mut ddl, world.add_unique()).await.unwrap();
    // Capture stands still during a statement of the schema change's own transaction.
    world.statement(&mut ddl, false).await;
    let mut txn = world.begin(Isolation::ReadCommitted);
    swap(&world, &mut txn, 3, 4).await;
    world.commit(txn).await.unwrap();
    let mut open = world.begin(Isolation::ReadCommitted);
    swap(&world, &mut open, 3, 4).await;
    world.catalog.end_statement(&mut ddl);
    // What the first swap changed is captured while the second holds both rows.
    world.commit(ddl).await.expect("no two rows ever shared a key");
    world.commit(open).await.expect("it is carried over");
    check(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_swapped_all_the_time_are_no_duplicates() {
    let world = Arc::new(World::with_rows(20_000).await);
    for rows in [4, 100, 5000] {
        let swappers = Swappers::start(&world, rows);
        for round in 0..10 {
            swappers.until_committed(20).await;
            let added = world.alter(world.add_unique()).await;
            added.unwrap_or_else(|e| panic!("{rows} rows each, round {round}: {e:?}"));
            check(&world).await;
            swappers.until_committed(20).await;
            drop_unique(&world).await;
        }
        swappers.end().await;
    }
}

/// The key is in a column that the same change fills, so for a moment two rows share one there that
/// do not share the one it is computed from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapped_keys_in_a_column_being_filled_are_no_duplicates() {
    let world = Arc::new(World::with_rows(20_000).await);
    world.alter(world.add_unique()).await.unwrap();
    for rows in [4, 100, 5000] {
        let swappers = Swappers::start(&world, rows);
        for round in 0..10 {
            swappers.until_committed(20).await;
            let altered = world.alter(world.alter_v()).await;
            altered.unwrap_or_else(|e| panic!("{rows} rows each, round {round}: {e:?}"));
            check(&world).await;
        }
        swappers.end().await;
    }
}

#[tokio::test]
async fn a_key_that_two_of_three_rows_keep_is_found() {
    let world = World::with_rows(20).await;
    let mut ddl = world.begin(Isolation::ReadCommitted);
    world.change(&mut ddl, world.add_unique()).await.unwrap();
    for (id, v) in [(5, 70), (6, 70), (7, 1)] {
        let mut txn = world.begin(Isolation::ReadCommitted);
        world.update(&mut txn, id, v).await.unwrap();
        world.commit(txn).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let error = world.commit(ddl).await.unwrap_err();
    assert_eq!(error.sqlstate().as_str(), "23505");
    assert!(format!("{error:?}").contains("(70)"), "names the key: {error:?}");
}

#[tokio::test]
async fn a_duplicate_that_is_mended_before_the_commit_is_none() {
    let world = World::with_rows(20).await;
    let mut ddl = world.begin(Isolation::ReadCommitted);
    world.change(&mut ddl, world.add_unique()).await.unwrap();
    for v in [70, 71] {
        let mut txn = world.begin(Isolation::ReadCommitted);
        world.update(&mut txn, 5, v).await.unwrap();
        world.commit(txn).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.commit(ddl).await.expect("mended");
    check(&world).await;
}

#[tokio::test]
async fn of_a_schema_change_and_an_open_writer_of_a_duplicate_the_first_to_commit_wins() {
    for writer_first in [false, true] {
        let world = World::with_rows(20).await;
        let mut ddl = world.begin(Isolation::ReadCommitted);
        let mut txn = world.begin(Isolation::ReadCommitted);
        world.update(&mut txn, 5, 70).await.unwrap();
        world.change(&mut ddl, world.add_unique()).await.expect("nobody has committed a duplicate");
        let (won, lost) = if writer_first {
            (world.commit(txn).await, world.commit(ddl).await)
        } else {
            (world.commit(ddl).await, world.commit(txn).await)
        };
        won.expect("the first");
        assert_eq!(lost.unwrap_err().sqlstate().as_str(), "23505");
    }
}
