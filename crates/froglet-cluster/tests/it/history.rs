//! The store collects old versions of rows, and whoever reads them still reads what was there, or is told that it is gone.
//!
//! ```text
//!   versions of a row ─▶ time passes ─▶ the safe point moves ─▶ a view from before: what it saw then, or 72000
//! ```
//! The double of the store collects at once, and answers whoever reads below the safe point with what is left: a gateway
//! that did not know would answer with that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use froglet_cluster::client::{Client, Locking, Mutation, WriteSet};
use froglet_engine::{RowWrite, Snapshot, SpaceId, SqlState, Value};
use froglet_testkit::ranges::Ranges;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::fences::{
    Gateway, LEASE_MS, Outcome, Rows, caught, gateway_of, insist, scan, scan_with_ids, space,
    wait_until,
};

/// What a test waits for.
const SHORT: Duration = Duration::from_secs(10);
/// What was needed by who is gone is kept for so long.
const GRACE_MS: u64 = 61_000;
/// Between two words of a gateway: so long a lease lasts, with some to spare.
const STEP_MS: u64 = 3_000;

fn begin() -> (Arc<Ranges>, Gateway, Gateway) {
    let ranges = Ranges::new(2);
    ranges.let_clock_run();
    let gateway = |name| gateway_of(&ranges, name, "tests", SHORT);
    let (a, b) = (gateway("a"), gateway("b"));
    (ranges, a, b)
}

/// Time passes, while gateways say that they live.
fn pass(ranges: &Ranges, seconds: u64) {
    for _ in 0..(seconds * 1000).div_ceil(STEP_MS) {
        ranges.advance(STEP_MS);
        thread::sleep(Duration::from_millis(800));
    }
}

/// A row has another number from now on.
fn set(gateway: &Gateway, space: SpaceId, key: i64, number: i64) -> Outcome<()> {
    caught(|| {
        let (table, mut txn) = (gateway.table(space), gateway.begin());
        let (base, rows) = (txn.snapshot().ts, scan_with_ids(&*table, txn.snapshot())?);
        match rows.into_iter().find(|(_, row)| row.0 == key) {
            None => gateway.insert(&*table, &mut *txn, (key, number))?,
            Some((rid, _)) => gateway.patiently(|| {
                let values = [Value::Int64(number)];
                let write = [RowWrite::Update { rid, columns: &[1], values: &values }];
                table.write(&mut *txn, base, &write).map_err(|(_, stop)| stop)
            })?,
        }
        gateway.commit(txn).map(drop)
    })?
}

/// What a view sees.
fn seen(gateway: &Gateway, space: SpaceId, view: &Snapshot) -> Outcome<Rows> {
    caught(|| scan(&*gateway.table(space), view))?
}

fn is_too_old(outcome: Outcome<Rows>) {
    let error = outcome.expect_err("what it reads may be gone");
    assert_eq!(error.sqlstate(), SqlState::SNAPSHOT_TOO_OLD, "{error}");
}

fn moves_beyond(ranges: &Ranges, ts: u64) {
    wait_until("the safe point moves", || ranges.safe_point() > ts);
}

/// A key of the store is written, by nobody who is a gateway.
async fn write_key(client: &Arc<Client>, key: &[u8], value: &[u8]) {
    let ts = client.timestamp().await.expect("it is answered");
    let writes = Arc::new(WriteSet::new(Arc::clone(client), ts));
    let mutation = Mutation { key: key.to_vec(), value: Some(value.to_vec()) };
    let pending = writes.prewrite(vec![mutation], true).await.expect("nobody is in the way");
    pending.commit().await.expect("nobody is in the way");
}

#[test]
fn old_versions_go_when_nobody_reads_them() {
    let (ranges, a, b) = begin();
    let s = space(7);
    set(&b, s, 1, 10).expect("nobody is in the way");
    let view = b.now();
    set(&a, s, 1, 20).expect("nobody is in the way");
    let later = a.now();
    set(&a, s, 1, 30).expect("nobody is in the way");
    pass(&ranges, 30);
    // Of the gateway that does not move it, too.
    assert!(ranges.safe_point() < view.ts.0, "it is read");
    assert_eq!(seen(&b, s, &view).expect("it is kept"), Rows::from([(1, 10)]));
    drop(view);
    pass(&ranges, 3);
    assert!(ranges.safe_point() < later.ts.0, "it is read");
    assert_eq!(seen(&a, s, &later).expect("it is kept"), Rows::from([(1, 20)]));
    let ts = later.ts.0;
    drop(later);
    moves_beyond(&ranges, ts);
    assert_eq!(seen(&b, s, &b.now()).expect("it is there"), Rows::from([(1, 30)]));
}

#[test]
fn what_was_just_committed_is_history_for_a_while() {
    let (ranges, a, b) = begin();
    let s = space(7);
    set(&b, s, 1, 10).expect("nobody is in the way");
    let ts = b.now().ts.0;
    pass(&ranges, 6);
    assert!(ranges.safe_point() < ts, "a timestamp may be under way for so long");
    pass(&ranges, 9);
    moves_beyond(&ranges, ts);
    drop((a, b));
}

#[test]
fn who_was_gone_is_told_that_what_it_read_is_gone() {
    let (ranges, a, b) = begin();
    let s = space(7);
    set(&b, s, 1, 10).expect("nobody is in the way");
    let view = b.now();
    assert_eq!(seen(&b, s, &view).expect("it is there"), Rows::from([(1, 10)]));
    b.way.cut_off(true);
    ranges.advance(LEASE_MS + GRACE_MS);
    insist("writing", || set(&a, s, 1, 20));
    pass(&ranges, 12);
    moves_beyond(&ranges, view.ts.0);
    b.way.cut_off(false);
    is_too_old(seen(&b, s, &view));
    is_too_old(seen(&b, s, &view));
    let fresh = insist("reading", || seen(&b, s, &*caught(|| b.now())?));
    assert_eq!(fresh, Rows::from([(1, 20)]));
}

#[test]
fn who_was_gone_for_a_moment_reads_on() {
    let (ranges, a, b) = begin();
    let s = space(7);
    set(&b, s, 1, 10).expect("nobody is in the way");
    let view = b.now();
    set(&a, s, 1, 20).expect("nobody is in the way");
    b.way.cut_off(true);
    ranges.advance(LEASE_MS);
    thread::sleep(Duration::from_millis(1_500));
    b.way.cut_off(false);
    assert_eq!(seen(&b, s, &view).expect("it is kept"), Rows::from([(1, 10)]));
    pass(&ranges, 30);
    assert_eq!(seen(&b, s, &view).expect("it is kept"), Rows::from([(1, 10)]));
}

#[test]
fn who_comes_back_between_the_floor_and_the_safe_point_stops_the_one_or_is_stopped_by_the_other() {
    let (ranges, a, b) = begin();
    let s = space(7);
    set(&b, s, 1, 10).expect("nobody is in the way");
    for round in 0..4 {
        let view = insist("reading", || caught(|| b.now()));
        let there = insist("reading", || seen(&b, s, &view));
        b.way.cut_off(true);
        ranges.advance(LEASE_MS);
        insist("writing", || set(&a, s, 1, 20 + round));
        ranges.advance(GRACE_MS + 500 * u64::try_from(round).expect("a few"));
        thread::sleep(Duration::from_millis(700 + 110 * u64::try_from(round).expect("a few")));
        b.way.cut_off(false);
        for _ in 0..20 {
            match seen(&b, s, &view) {
                Ok(rows) => assert_eq!(rows, there),
                Err(error) if error.sqlstate() == SqlState::SNAPSHOT_TOO_OLD => break,
                Err(_) => {}
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
    drop(a);
}

#[test]
fn the_fate_of_what_the_dead_have_left_locked_outlives_them() {
    let (ranges, a, b) = begin();
    let s = space(7);
    a.put(s, [(1, 10), (2, 20)]).expect("nobody is in the way");
    let client = Arc::clone(b.engine.client());
    let key = |n: u8| [b"tF\0\0\0\x02\0\0\0\x07d".as_slice(), &[n]].concat();
    let writes = b.engine.handle().block_on(async {
        let ts = client.timestamp().await.expect("it is answered");
        let writes = WriteSet::new(Arc::clone(&client), ts);
        let locks = [1, 2].map(|n| Locking { key: key(n), is_new: true });
        writes.lock(&locks, ts, Duration::ZERO).await.expect("nobody is in the way");
        Arc::new(writes)
    });
    let value = Some(b"\x01dead".to_vec());
    let mutations = [1, 2].map(|n| Mutation { key: key(n), value: value.clone() });
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let pending =
            writes.prewrite(mutations.to_vec(), false).await.expect("nobody is in the way");
        pending.commit().await.expect("nobody is in the way");
        // The other key is committed behind the caller's back: on this one thread that has not begun.
        b.way.cut_off(true);
    });
    drop(runtime);
    assert!(ranges.locks().iter().any(|lock| lock.key == key(2)));
    // The record of the primary goes as it is written again.
    a.engine.handle().block_on(write_key(a.engine.client(), &key(1), b"\x01again"));
    let ts = ranges.timestamp();
    pass(&ranges, 21);
    moves_beyond(&ranges, ts);
    assert_eq!(ranges.value_at(&key(2), u64::MAX), value, "it was committed");
    drop(a);
}

#[test]
fn a_transaction_that_lives_holds_the_safe_point_back() {
    let (ranges, a, b) = begin();
    let s = space(7);
    set(&a, s, 1, 10).expect("nobody is in the way");
    let (table, mut txn) = (b.table(s), b.begin());
    let start = txn.snapshot().ts.0;
    pass(&ranges, 12);
    // READ COMMITTED: another view for each statement.
    txn.refresh();
    pass(&ranges, 12);
    assert!(ranges.safe_point() < start, "it may lock something yet");
    b.insert(&*table, &mut *txn, (2, 20)).expect("nobody is in the way");
    pass(&ranges, 12);
    assert!(ranges.safe_point() < start, "it has begun before");
    b.commit(txn).expect("nobody is in the way");
    moves_beyond(&ranges, start);
    assert_eq!(seen(&a, s, &a.now()).expect("it is there"), Rows::from([(1, 10), (2, 20)]));
}

#[test]
fn databases_of_one_store_keep_what_each_other_reads() {
    let ranges = Ranges::new(2);
    ranges.let_clock_run();
    let gateway = |name, database| gateway_of(&ranges, name, database, SHORT);
    let (a, b) = (gateway("a", "one"), gateway("b", "two"));
    let s = space(7);
    set(&b, s, 1, 10).expect("nobody is in the way");
    let view = b.now();
    set(&b, s, 1, 20).expect("nobody is in the way");
    pass(&ranges, 30);
    assert!(ranges.safe_point() < view.ts.0, "it is read");
    assert_eq!(seen(&b, s, &view).expect("it is kept"), Rows::from([(1, 10)]));
    // A database whose gateways are gone is waited for, and not for ever.
    let ts = view.ts.0;
    drop(view);
    b.way.cut_off(true);
    drop(b);
    pass(&ranges, 30);
    ranges.advance(600_000);
    pass(&ranges, 12);
    moves_beyond(&ranges, ts);
    drop(a);
}

#[test]
fn a_worker_of_tidb_is_left_its_work() {
    let (ranges, a, b) = begin();
    a.engine.handle().block_on(write_key(a.engine.client(), b"mBootstrapKey", b"1"));
    pass(&ranges, 21);
    assert_eq!(ranges.safe_point(), 0);
    assert!(a.way.asked("keep_since") + b.way.asked("keep_since") > 0, "it is told what is read");
}

/// What the table was, by the timestamps of its commits.
#[derive(Default)]
struct Model(BTreeMap<u64, Rows>);

impl Model {
    fn at(&self, ts: u64) -> Rows {
        self.0.range(..=ts).next_back().map(|(_, rows)| rows.clone()).unwrap_or_default()
    }
}

fn run(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let (ranges, a, b) = begin();
    let (s, gateways) = (space(7), [a, b]);
    let (mut model, mut rows) = (Model::default(), Rows::new());
    let mut views: Vec<(usize, Arc<Snapshot>)> = Vec::new();
    let (mut told, mut kept) = (0, 0);
    for step in 0..60 {
        let at = random.random_range(0..2);
        match random.random_range(0..10) {
            0..4 => {
                let key = random.random_range(0..4);
                // One that was gone may not know yet how its commit has ended: it is looked up.
                let written = set(&gateways[at], s, key, step);
                let after = gateways[1 - at].now();
                let there = insist("reading", || seen(&gateways[1 - at], s, &after));
                match written {
                    Ok(()) => _ = rows.insert(key, step),
                    Err(_) if there.get(&key) == Some(&step) => _ = rows.insert(key, step),
                    Err(_) => {}
                }
                assert_eq!(there, rows, "seed {seed}, step {step}");
                model.0.insert(after.ts.0, rows.clone());
                views.push((1 - at, after));
            }
            4 => {
                // What the other reads keeps it, too.
                views.retain(|(by, _)| *by == at || random.random_bool(0.2));
                gateways[at].way.cut_off(true);
                ranges.advance(LEASE_MS);
                thread::sleep(Duration::from_millis(random.random_range(0..2_500)));
                ranges.advance(random.random_range(0..90_000));
                thread::sleep(Duration::from_millis(random.random_range(0..1_500)));
                gateways[at].way.cut_off(false);
                // Before it may commit again, it has looked.
                insist("coming back", || set(&gateways[at], SpaceId(s.0 + 1), 0, step));
            }
            5 => pass(&ranges, 3),
            6 if !views.is_empty() => {
                views.swap_remove(random.random_range(0..views.len()));
            }
            _ if !views.is_empty() => {
                let (at, view) = &views[random.random_range(0..views.len())];
                match seen(&gateways[*at], s, view) {
                    Ok(there) => {
                        assert_eq!(there, model.at(view.ts.0), "seed {seed}, step {step}");
                        kept += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.sqlstate(), SqlState::SNAPSHOT_TOO_OLD, "{error}");
                        told += 1;
                    }
                }
            }
            _ => {}
        }
    }
    println!("seed {seed}: {kept} views were kept, {told} told that they were too old");
    let ts = ranges.timestamp();
    views.clear();
    pass(&ranges, 15);
    moves_beyond(&ranges, ts);
}

/// Two seeds at once; with `FROGLET_TEST_LONG` many more, one after the other, from `FROGLET_TEST_SEED` on.
#[test]
fn views_of_any_age_see_what_was_there_or_are_told() {
    if froglet_testkit::is_long() {
        let first = froglet_testkit::seed();
        (first..first + 20).for_each(run);
        return;
    }
    thread::scope(|scope| {
        scope.spawn(|| run(1));
        scope.spawn(|| run(2));
    });
}
