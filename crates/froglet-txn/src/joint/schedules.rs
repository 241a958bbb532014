//! The registry under shuttle: few transactions, few views, many schedules.
//!
//! Run with `RUSTFLAGS="--cfg shuttle" cargo test --release -p froglet-txn --lib schedules` (`cargo xtask sim` does).
//! The promise: a view sees of the engine beside the transactions that it sees of the anchor, and no other, whenever it
//! asks, whoever commits, takes his timestamps back, or recycles meanwhile. Pairs are one of few to a partition, so that
//! partitions come and go.

use std::sync::Arc;

use froglet_engine::Ts;
use froglet_engine::locks::Mutex;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

use super::registry::{Registry, RegistryOptions};

const SCHEDULES: usize = 5_000;

/// Two timelines, who looks at them, and what was committed over both.
struct World {
    registry: Registry,
    anchor: AtomicU64,
    beside: AtomicU64,
    views: Mutex<Vec<Ts>>,
    /// One at a time has halves under way, as in `crossing`.
    gate: Mutex<()>,
    committed: Mutex<Vec<(Ts, Ts)>>,
    /// What views were told: their own timestamp, and the other engine's.
    told: Mutex<Vec<(Ts, Ts)>>,
}

impl World {
    fn new() -> Arc<World> {
        let options = RegistryOptions { capacity: 2, partitions: 1, is_on: true };
        Arc::new(World {
            registry: Registry::new(options, Ts(1), Ts(1)),
            anchor: AtomicU64::new(1),
            beside: AtomicU64::new(1),
            views: Mutex::new(Vec::new()),
            gate: Mutex::new(()),
            committed: Mutex::new(Vec::new()),
            told: Mutex::new(Vec::new()),
        })
    }

    /// Transactions over both; every third is taken back.
    fn commit(&self, n: u64) {
        for n in 0..n {
            let gate = self.gate.lock();
            let next = |clock: &AtomicU64| Ts(clock.fetch_add(1, Ordering::SeqCst) + 1);
            let pair = self.registry.enter(|| (next(&self.anchor), next(&self.beside)));
            match n % 3 {
                2 => self.registry.take_back(pair),
                _ => self.committed.lock().push(pair),
            }
            drop(gate);
            // One of the anchor alone.
            self.anchor.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A view that asks twice.
    fn look(&self) {
        let view = {
            let mut views = self.views.lock();
            let view = Ts(self.anchor.load(Ordering::SeqCst));
            views.push(view);
            view
        };
        for _ in 0..2 {
            let beside = self.registry.at(view);
            self.told.lock().push((view, beside));
            thread::yield_now();
        }
        let mut views = self.views.lock();
        let at = views.iter().position(|other| *other == view).expect("it is registered");
        views.swap_remove(at);
    }

    fn recycle(&self) {
        let all = || {
            // Who comes later has a later timestamp.
            let all_from = Ts(self.anchor.load(Ordering::SeqCst));
            let mut views = self.views.lock().clone();
            views.sort_unstable();
            (views, all_from)
        };
        let (views, all_from) = all();
        let oldest = views.first().map_or(all_from, |first| all_from.min(*first));
        self.registry.recycle(oldest, all);
    }

    fn check(&self) {
        let committed = self.committed.lock();
        for (view, beside) in &*self.told.lock() {
            for pair in &*committed {
                assert_eq!(
                    pair.0 <= *view,
                    pair.1 <= *beside,
                    "a view at {view:?} was told {beside:?}: {committed:?}"
                );
            }
        }
    }
}

fn explore(scenario: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(scenario, SCHEDULES);
    shuttle::check_pct(scenario, SCHEDULES, 3);
}

fn run(tasks: &[fn(&World)]) {
    let world = World::new();
    let tasks: Vec<_> = tasks
        .iter()
        .map(|task| {
            let (world, task) = (Arc::clone(&world), *task);
            thread::spawn(move || task(&world))
        })
        .collect();
    tasks.into_iter().for_each(|task| task.join().expect("a task ends well"));
    world.check();
}

#[test]
fn views_see_both_timelines_at_one_place() {
    explore(|| run(&[|world| world.commit(3), |world| world.commit(3), World::look, World::look]));
}

#[test]
fn what_is_recycled_is_asked_for_by_nobody() {
    explore(|| {
        let recycle = |world: &World| (0..4).for_each(|_| world.recycle());
        run(&[|world| world.commit(7), recycle, World::look, World::look, World::look]);
    });
}
