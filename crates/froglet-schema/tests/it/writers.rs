//! Writers of a table of which each has rows of its own, so that it knows what is committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use froglet_engine::WriteStop;
use froglet_txn::Isolation;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinHandle;

use crate::world::World;

/// Ids congruent to `seed` modulo 3, as the writer has committed them: only it writes to them.
type Model = BTreeMap<i64, i64>;

/// Writes until the table is gone, or it is to end; returns its rows as they were then.
async fn writer(world: Arc<World>, seed: u64, mut model: Model, state: Arc<State>) -> Model {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut next = 100_000 + seed as i64;
    while !state.ends.load(Ordering::SeqCst) {
        let mut txn = world.begin(Isolation::ReadCommitted);
        let mut then = model.clone();
        let mut outcome = Ok(());
        for _ in 0..rng.random_range(1..5) {
            let known = then.keys().nth(rng.random_range(0..then.len().max(1))).copied();
            let v = rng.random_range(0..1000);
            outcome = match (known, rng.random_range(0..10)) {
                (Some(id), 0 | 1) => {
                    then.remove(&id);
                    world.delete(&mut txn, id).await.map(|_| ())
                }
                (Some(id), 2..8) => {
                    then.insert(id, v);
                    world.update(&mut txn, id, v).await.map(|_| ())
                }
                _ => {
                    next += 3;
                    then.insert(next, v);
                    world.insert(&mut txn, next, v).await
                }
            };
            if outcome.is_err() {
                break;
            }
        }
        match outcome {
            Err(WriteStop::Gone) => return model,
            Err(stop) => panic!("nobody else writes these rows: {stop:?}"),
            Ok(()) if rng.random_range(0..8) == 0 => txn.abort(),
            Ok(()) => {
                if rng.random_range(0..8) == 0 {
                    // Some last longer than a schema change does.
                    tokio::time::sleep(Duration::from_millis(3)).await;
                }
                world.commit(txn).await.expect("it is carried over if the table has gone");
                model = then;
                state.commits.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    model
}

#[derive(Default)]
struct State {
    commits: AtomicU64,
    ends: AtomicBool,
}

pub struct Writers {
    state: Arc<State>,
    tasks: Vec<JoinHandle<Model>>,
}

impl Writers {
    /// Three of them, of a table with rows 0..`rows`.
    pub fn start(world: &Arc<World>, rows: i64) -> Writers {
        let state = Arc::<State>::default();
        let start = |seed: u64| {
            let model: Model =
                (0..rows).filter(|id| id % 3 == seed as i64).map(|id| (id, 10 * id)).collect();
            tokio::spawn(writer(world.clone(), seed, model, state.clone()))
        };
        let tasks = (0..3).map(start).collect();
        Writers { state, tasks }
    }

    /// Waits for so many more commits.
    pub async fn until_committed(&self, more: u64) {
        let before = self.state.commits.load(Ordering::Relaxed);
        while self.state.commits.load(Ordering::Relaxed) < before + more {
            assert!(!self.tasks.iter().any(JoinHandle::is_finished), "a writer has ended");
            tokio::task::yield_now().await;
        }
    }

    /// Ends them. Returns the rows that they leave, by id.
    pub async fn end(self) -> Vec<(i64, i64)> {
        self.state.ends.store(true, Ordering::SeqCst);
        let mut rows = Model::new();
        for task in self.tasks {
            rows.append(&mut task.await.expect("no writer panics"));
        }
        rows.into_iter().collect()
    }
}
