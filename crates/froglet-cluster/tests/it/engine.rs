//! Two gateways' engines over one store do what a map does that both write to, one after the other.
//!
//! ```text
//!   seed ─▶ gateway one or two ─▶ transaction: insert, update, delete, savepoints ─▶ commit or abort
//!                                   │ after each: keys, ranges in both directions, whole scans
//!                                   └ compared with the map, under the transaction's own view and under a fresh one
//! ```
//! Both tables have a unique index over a column that may be NULL and one that is not unique. One is kept by its primary
//! key, so that an update may move a row; the other under numbers of its own, so that a row is found by scans only.
//!
//! The engine makes a runtime of its own and waits in the caller's thread: there is none here.

use std::ops::Bound;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use froglet_cluster::{ClusterEngine, ClusterOptions};
use froglet_engine::engine::LogRoom;
use froglet_engine::{
    Direction, Engine, EngineTxn, Home, IndexId, KeyRange, Layout, Row, RowId, RowWrite, Savepoint,
    Snapshot, Table, TxnId, Value, WriteStop,
};
use froglet_testkit::ranges::{Fault, Faults, Ranges};
use futures::executor::block_on;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::map::{
    ALL, Model, NAMES, PRIMARY, Rest, TAGS, UNIQUE, check_all, check_range, layout, of_key, rivals,
    row, scanned,
};
use crate::support::{HISTORY, PATIENCE};

/// One of the engines, and the table there.
struct Gateway {
    engine: Arc<ClusterEngine>,
    table: Arc<dyn Table>,
}

fn options(patience: Duration) -> ClusterOptions {
    let database = "tests".to_owned();
    ClusterOptions { database, patience, memory_limit_bytes: 64 << 20, history: HISTORY }
}

fn gateway(ranges: &Arc<Ranges>, name: &str, seed: u64, layout: &Arc<Layout>) -> Gateway {
    let network = ranges.network(name);
    // An opened gateway has told the others that it lives, and so may commit, whatever that took.
    network.on_next("grant_lease", Fault::LoseRequest);
    let engine =
        ClusterEngine::open(network.clone(), options(PATIENCE)).expect("the store answers");
    let space = Home::Cluster.space(7);
    engine.create_space(space).expect("there is nothing to do");
    let table = Engine::open(&*engine, space, Arc::clone(layout)).expect("any layout will do");
    // Not late ones: an entry of an index that is not unique is prewritten without a lock, and is locked again by a
    // prewrite that comes when all is done; see `transfers`.
    network.set_faults(Faults {
        seed,
        lose_request: 0.005,
        lose_answer: 0.005,
        ..Faults::default()
    });
    Gateway { engine, table }
}

/// A history, as far as it has come.
struct Run {
    ranges: Arc<Ranges>,
    random: StdRng,
    gateways: [Gateway; 2],
    layout: Arc<Layout>,
    model: Model,
    txns: u64,
}

impl Run {
    fn new(seed: u64, has_primary: bool) -> Run {
        let (ranges, layout) = (Ranges::new(2), layout(has_primary));
        ranges.let_clock_run();
        let gateways =
            [("one", 1), ("two", 2)].map(|(name, n)| gateway(&ranges, name, seed * 2 + n, &layout));
        let random = StdRng::seed_from_u64(seed);
        Run { ranges, random, gateways, layout, model: Model::new(), txns: 0 }
    }

    /// What the transaction has locked is in two regions from now on, or led by another store.
    fn disturb(&mut self) {
        let locks = self.ranges.locks();
        if let Some(lock) = locks.get(self.random.random_range(0..locks.len().max(1))) {
            match self.random.random_bool(0.2) {
                true => self.ranges.split_at(&lock.key),
                false => self.ranges.move_leader(&lock.key, self.random.random_range(1..=2)),
            }
        }
    }

    fn some_rest(&mut self) -> Rest {
        let number = self.random.random_bool(0.7).then(|| self.random.random_range(-10..20));
        (number, TAGS[self.random.random_range(0..TAGS.len())])
    }

    fn one_transaction(&mut self) {
        self.txns += 1;
        let at = self.random.random_range(0..2);
        let Gateway { engine, table } = &self.gateways[at];
        let (engine, table) = (Arc::clone(engine), Arc::clone(table));
        let mut txn = engine.begin(TxnId(self.txns));
        let mut model = self.model.clone();
        let mut saved: Vec<(Savepoint, Model)> = Vec::new();
        check_all(&*table, txn.snapshot(), &model);
        for _ in 0..self.random.random_range(1..8) {
            match self.random.random_range(0..10) {
                0 => saved.push((txn.savepoint(), model.clone())),
                1 if !saved.is_empty() => {
                    saved.truncate(self.random.random_range(1..=saved.len()));
                    let (to, then) = saved.last().expect("there is one").clone();
                    txn.rollback_to(to);
                    model = then;
                }
                1..=5 => self.insert(&engine, &*table, &mut *txn, &mut model),
                6..=7 => self.update(&engine, &*table, &mut *txn, &mut model),
                _ => self.delete(&engine, &*table, &mut *txn, &mut model),
            }
            self.check_some(&*table, txn.snapshot(), &model);
        }
        self.disturb();
        check_all(&*table, txn.snapshot(), &model);
        if self.random.random_bool(0.75) {
            commit(&engine, txn);
            self.model = model;
        } else {
            txn.abort();
        }
        // The other one sees the same.
        let other = &self.gateways[1 - at];
        check_all(&*other.table, &other.engine.fresh(TxnId(0)), &self.model);
    }

    fn insert(
        &mut self,
        engine: &ClusterEngine,
        table: &dyn Table,
        txn: &mut dyn EngineTxn,
        model: &mut Model,
    ) {
        let (name, rest) = (self.random.random_range(0..NAMES), self.some_rest());
        if self.layout.row_key.is_none() && model.contains_key(&name) {
            return;
        }
        let rows = [row(name, rest)];
        let outcome = patiently(engine, || {
            table.insert(txn, &rows, &mut Vec::new()).map_err(|(_, stop)| stop)
        });
        let rivals = rivals(model, None, name, rest);
        if is_done(outcome, rivals, &rows[0], table, txn.snapshot()) {
            model.insert(name, rest);
        }
    }

    fn update(
        &mut self,
        engine: &ClusterEngine,
        table: &dyn Table,
        txn: &mut dyn EngineTxn,
        model: &mut Model,
    ) {
        let Some((name, rid)) = self.some_row(table, txn.snapshot(), model) else { return };
        let has_primary = self.layout.row_key.is_some();
        let moves = has_primary && self.random.random_bool(0.4);
        let new_name = if moves { self.random.random_range(0..NAMES) } else { name };
        let rest = self.some_rest();
        let values = row(new_name, rest);
        let base = txn.snapshot().ts;
        let outcome = patiently(engine, || {
            let write = RowWrite::Update { rid, columns: &ALL, values: &values };
            table.write(txn, base, &[write]).map_err(|(_, stop)| stop)
        });
        let rivals = rivals(model, Some(name), new_name, rest);
        if is_done(outcome, rivals, &values, table, txn.snapshot()) {
            model.remove(&name);
            model.insert(new_name, rest);
        }
    }

    fn delete(
        &mut self,
        engine: &ClusterEngine,
        table: &dyn Table,
        txn: &mut dyn EngineTxn,
        model: &mut Model,
    ) {
        let Some((name, rid)) = self.some_row(table, txn.snapshot(), model) else { return };
        let base = txn.snapshot().ts;
        let outcome = patiently(engine, || {
            let write = [RowWrite::Delete { rid }];
            table.write(txn, base, &write).map_err(|(_, stop)| stop)
        });
        outcome.expect("nobody else writes");
        model.remove(&name);
    }

    /// A row, found as one would.
    fn some_row(
        &mut self,
        table: &dyn Table,
        snapshot: &Snapshot,
        model: &Model,
    ) -> Option<(i64, RowId)> {
        let names: Vec<i64> = model.keys().copied().collect();
        let name = *names.get(self.random.random_range(0..names.len().max(1)))?;
        let found = match table.layout().index_position(PRIMARY) {
            Some(at) => {
                let mut found = Row::new();
                let key = of_key(table, at, &row(name, (None, "")));
                let rid = table.get_by_key(snapshot, at, &key, &ALL, &mut found);
                assert_eq!(found, row(name, model[&name]));
                rid
            }
            None => {
                let all = scanned(table, snapshot);
                all.into_iter().find(|(_, row)| row[0] == Value::Int64(name)).map(|(rid, _)| rid)
            }
        };
        Some((name, found.expect("the model has it")))
    }

    /// A range of one of the indexes, in one of the directions, and perhaps not to its end.
    fn check_some(&mut self, table: &dyn Table, snapshot: &Snapshot, model: &Model) {
        let at = self.random.random_range(0..self.layout.indexes.len());
        let mut key = || {
            let probe = row(self.random.random_range(0..NAMES), self.some_rest());
            of_key(table, at, &probe)
        };
        let mut ends = [key(), key()];
        ends.sort_unstable();
        let [low, high] = ends;
        let range = match self.random.random_range(0..4) {
            0 => KeyRange::exactly(&low),
            1 => KeyRange::prefix(low),
            2 => KeyRange { lower: Bound::Excluded(low), upper: Bound::Included(high) },
            _ => KeyRange { lower: Bound::Included(low), upper: Bound::Excluded(high) },
        };
        let direction =
            if self.random.random_bool(0.5) { Direction::Forward } else { Direction::Backward };
        let limit = self.random.random_range(1..20);
        check_range(table, snapshot, model, (at, &range, direction), limit);
    }
}

/// Whether a write was done, as it should have been if nothing is in its way, and only then.
fn is_done(
    outcome: Result<(), WriteStop>,
    rivals: Vec<IndexId>,
    row: &Row,
    table: &dyn Table,
    snapshot: &Snapshot,
) -> bool {
    match outcome {
        Ok(()) if rivals.is_empty() => true,
        Err(WriteStop::Duplicate { index, other }) if rivals.contains(&index) => {
            let mut rival = Row::new();
            assert!(
                table.read_row(snapshot, other, &ALL, &mut rival),
                "a rival of {row:?} is there"
            );
            let column = if index == UNIQUE { 1 } else { 0 };
            assert_eq!(rival[column], row[column], "a rival has the same key");
            false
        }
        other => panic!("{row:?} has rivals in {rivals:?}, and is answered {other:?}"),
    }
}

/// Writes as a session does: whoever has ended may not have given all back yet.
fn patiently(
    engine: &ClusterEngine,
    mut write: impl FnMut() -> Result<(), WriteStop>,
) -> Result<(), WriteStop> {
    let until = Instant::now() + PATIENCE;
    loop {
        match write() {
            Err(WriteStop::Busy { holder }) if Instant::now() < until => {
                let wait = engine.wait_elsewhere(holder).expect("it stands for somebody");
                // It sleeps between its attempts: with a clock of tokio's.
                let waited = engine.handle().block_on(wait);
                waited.expect("nobody waits for whoever waits here");
            }
            outcome => return outcome,
        }
    }
}

/// Commits, and waits until whoever answers a client would answer.
fn commit(engine: &ClusterEngine, mut txn: Box<dyn EngineTxn>) {
    while let LogRoom::Wait(wait) = txn.reserve_log().expect("nobody is in the way") {
        block_on(wait);
    }
    let ts = txn.pre_commit();
    assert!(ts > txn.snapshot().ts, "it is committed after it has begun");
    let lsn = txn.post_commit().expect("nobody is in the way");
    let (tell, told) = mpsc::channel();
    engine
        .when_durable(lsn, Box::new(move |outcome| tell.send(outcome).expect("it is waited for")));
    told.recv_timeout(2 * PATIENCE).expect("it ends").expect("nobody is in the way");
}

fn run(seed: u64, has_primary: bool) {
    let mut run = Run::new(seed, has_primary);
    let mut most = 0;
    for _ in 0..120 {
        run.one_transaction();
        most = most.max(run.model.len());
    }
    assert!(most > 5, "there were never more than {most} rows");
    assert!(run.ranges.regions().len() > 5, "a scan has several parts");
}

#[test]
fn a_table_kept_by_its_primary_key_is_a_map() {
    for seed in [1, 2, 3] {
        run(seed, true);
    }
}

#[test]
fn a_table_without_a_primary_key_is_a_map() {
    for seed in [4, 5] {
        run(seed, false);
    }
}

#[test]
fn a_note_is_changed_though_who_was_about_to_is_dead() {
    const NUMBER: u64 = 1;
    let ranges = Ranges::new(2);
    ranges.let_clock_run();
    let (one, other) = (ranges.network("one"), ranges.network("other"));
    let dying = ClusterEngine::open(one.clone(), options(Duration::from_millis(300)));
    let dying = dying.expect("the store answers");
    let living = ClusterEngine::open(other, options(PATIENCE)).expect("the store answers");

    let is_lost = dying.change_note(NUMBER, &mut |_| {
        // It holds the note from here on, and nobody hears of it again.
        one.cut_off(true);
        b"dead".to_vec()
    });
    assert!(is_lost.is_err(), "nobody answers it");
    assert_eq!(ranges.locks().len(), 1);
    let changed = living.change_note(NUMBER, &mut |now| {
        assert_eq!(now, None);
        b"alive".to_vec()
    });
    changed.expect("the dead do not hold it for ever");
    assert_eq!(living.notes(), [(NUMBER, b"alive".to_vec())]);
}
