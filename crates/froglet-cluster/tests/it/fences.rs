//! A schema change closes row spaces, and every gateway keeps to it: what it wrote there is committed before, or never.
//!
//! ```text
//!   A   begin ─▶ close(s) ─▶ F ─▶ moves the rows of s away, as whoever opens closed spaces may
//!   B   writes s ─▶ committed before F, or told 40001          reads s ─▶ as of before F, or told 40001
//! ```
//! Some scenarios by name, and one by seeds: deposits at B, with a receipt each, while A closes the space and moves all
//! rows, requests are lost, and B is cut off until its lease is over. The engine waits in the caller's thread: threads
//! stand for sessions.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use froglet_cluster::network::Network;
use froglet_cluster::{ClusterEngine, ClusterOptions};
use froglet_engine::batch::value_at;
use froglet_engine::engine::LogRoom;
use froglet_engine::{
    ColumnId, ColumnSpec, ColumnType, Direction, Engine, EngineError, EngineTxn, Home, IndexId,
    IndexSpec, KeyPart, KeyRange, Layout, NullKeys, ReadFailed, RowId, RowKey, RowWrite, Snapshot,
    SpaceId, SqlState, Table, Ts, TxnId, Value, WriteStop, key,
};
use froglet_testkit::ranges::{Fault, Faults, Gateway as Way, Ranges};
use futures::executor::block_on;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::{HISTORY, PATIENCE};

/// Every row: a key and a number.
pub type Rows = BTreeMap<i64, i64>;
pub type Outcome<T> = Result<T, EngineError>;

pub const CATALOG: SpaceId = SpaceId(0);
/// Of the first database.
const FENCE: &[u8] = b"tF\0\0\0\x01\0\0\0\0f";
/// Longer than a lease.
pub const LEASE_MS: u64 = 7_000;

static TXNS: AtomicU64 = AtomicU64::new(1);

pub fn space(n: u32) -> SpaceId {
    Home::Cluster.space(n)
}

fn layout() -> Arc<Layout> {
    let column = |id| ColumnSpec { id: ColumnId(id), ty: ColumnType::Int64, missing: Value::Null };
    let key = vec![KeyPart { column: ColumnId(1), descending: false, nulls_first: false }];
    let nulls = NullKeys::Distinct;
    let primary = IndexSpec { id: IndexId(1), key, unique: true, unique_at_commit: false, nulls };
    let row_key = Some(RowKey { index: primary.id, within: None });
    Arc::new(Layout { columns: vec![column(1), column(2)], indexes: vec![primary], row_key })
}

#[derive(Clone)]
pub struct Gateway {
    pub way: Arc<Way>,
    pub engine: Arc<ClusterEngine>,
}

/// A gateway that has not begun to follow the catalog.
pub fn deaf_gateway(ranges: &Arc<Ranges>, name: &str) -> Gateway {
    deaf_gateway_of(ranges, name, "tests", HISTORY)
}

fn deaf_gateway_of(ranges: &Arc<Ranges>, name: &str, database: &str, history: Duration) -> Gateway {
    let way = ranges.network(name);
    let options = ClusterOptions {
        database: database.to_owned(),
        patience: PATIENCE,
        memory_limit_bytes: 64 << 20,
        history,
    };
    let engine = ClusterEngine::open(way.clone(), options).expect("the store answers");
    Gateway { way, engine }
}

pub fn gateway(ranges: &Arc<Ranges>, name: &str) -> Gateway {
    gateway_of(ranges, name, "tests", HISTORY)
}

/// One of a database, which keeps so much history.
pub fn gateway_of(ranges: &Arc<Ranges>, name: &str, database: &str, history: Duration) -> Gateway {
    let gateway = deaf_gateway_of(ranges, name, database, history);
    let engine = Arc::downgrade(&gateway.engine);
    gateway.engine.follow_catalog(move || Some(engine.upgrade()?.now()));
    gateway
}

pub fn gateways() -> (Arc<Ranges>, Gateway, Gateway) {
    let ranges = Ranges::new(2);
    ranges.let_clock_run();
    let (a, b) = (gateway(&ranges, "a"), gateway(&ranges, "b"));
    (ranges, a, b)
}

fn fence(ranges: &Ranges) -> Option<Vec<u8>> {
    ranges.value_at(FENCE, u64::MAX)
}

/// How many say that they have closed for the fence that is there.
fn closed_by(ranges: &Ranges, gateway: &Gateway) -> usize {
    let Some(fence) = fence(ranges) else { return 0 };
    let start_ts = u64::from_be_bytes(fence[..8].try_into().expect("it begins with a timestamp"));
    let said = block_on(gateway.way.said(b"/froglet/1/gateways/")).expect("it is answered");
    said.iter().filter(|said| said.value.ends_with(format!(" {start_ts}").as_bytes())).count()
}

pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + 2 * PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not in time");
        thread::sleep(Duration::from_millis(5));
    }
}

fn stopped(stop: WriteStop) -> EngineError {
    match stop {
        WriteStop::Engine(error) => error,
        WriteStop::Moved => EngineError::Refused {
            state: SqlState::SERIALIZATION_FAILURE,
            message: "replaced by a schema change".to_owned(),
        },
        other => EngineError::Refused {
            state: SqlState::SERIALIZATION_FAILURE,
            message: format!("{other:?}"),
        },
    }
}

/// What a read answers that may end in the midst.
pub fn caught<T>(read: impl FnOnce() -> T) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(read)).map_err(ReadFailed::caught)
}

pub fn is_replaced<T: std::fmt::Debug>(outcome: Outcome<T>) {
    let error = outcome.expect_err("the table is replaced");
    assert_eq!(error.sqlstate(), SqlState::SERIALIZATION_FAILURE, "{error}");
    assert!(error.to_string().contains("replaced by a schema change"), "{error}");
}

impl Gateway {
    pub fn table(&self, space: SpaceId) -> Arc<dyn Table> {
        Engine::open(&*self.engine, space, layout()).expect("any layout will do")
    }

    fn closed_table(&self, space: SpaceId) -> Arc<dyn Table> {
        self.engine.open_closed(space, layout()).expect("any layout will do")
    }

    pub fn begin(&self) -> Box<dyn EngineTxn> {
        self.engine.begin(TxnId(TXNS.fetch_add(1, Ordering::SeqCst)))
    }

    pub fn now(&self) -> Arc<Snapshot> {
        self.engine.fresh(TxnId(0))
    }

    /// Prewrites.
    pub fn reserve(&self, txn: &mut dyn EngineTxn) -> Outcome<()> {
        while let LogRoom::Wait(wait) = txn.reserve_log()? {
            block_on(wait);
        }
        Ok(())
    }

    /// Commits what is prewritten; when.
    pub fn publish(&self, mut txn: Box<dyn EngineTxn>) -> Outcome<Ts> {
        let ts = txn.pre_commit();
        let lsn = txn.post_commit()?;
        let (tell, told) = mpsc::channel();
        let done = move |outcome| tell.send(outcome).expect("it is waited for");
        self.engine.when_durable(lsn, Box::new(done));
        told.recv_timeout(3 * PATIENCE).expect("it ends").map(|()| ts)
    }

    pub fn commit(&self, mut txn: Box<dyn EngineTxn>) -> Outcome<Ts> {
        self.reserve(&mut *txn)?;
        self.publish(txn)
    }

    /// Waits for whoever is in the way of a write.
    pub fn patiently(&self, mut write: impl FnMut() -> Result<(), WriteStop>) -> Outcome<()> {
        loop {
            match write() {
                Err(WriteStop::Busy { holder }) => {
                    let wait = self.engine.wait_elsewhere(holder).expect("it is elsewhere");
                    self.engine.handle().block_on(wait)?;
                }
                outcome => return outcome.map_err(stopped),
            }
        }
    }

    pub fn insert(
        &self,
        table: &dyn Table,
        txn: &mut dyn EngineTxn,
        (key, number): (i64, i64),
    ) -> Outcome<()> {
        let rows = [vec![Value::Int64(key), Value::Int64(number)]];
        self.patiently(|| table.insert(txn, &rows, &mut Vec::new()).map_err(|(_, stop)| stop))
    }

    /// Rows in a transaction of their own.
    pub fn put(&self, space: SpaceId, rows: impl IntoIterator<Item = (i64, i64)>) -> Outcome<Ts> {
        let (table, mut txn) = (self.table(space), self.begin());
        rows.into_iter().try_for_each(|row| self.insert(&*table, &mut *txn, row))?;
        self.commit(txn)
    }

    /// The transaction of a schema change, which has a row of the catalog.
    pub fn closing(&self, row: i64, spaces: &[SpaceId]) -> Outcome<Box<dyn EngineTxn>> {
        caught(|| {
            let mut txn = self.begin();
            self.insert(&*self.table(CATALOG), &mut *txn, (row, 0))?;
            txn.close(spaces)?;
            Ok(txn)
        })?
    }

    pub fn close(&self, row: i64, spaces: &[SpaceId]) -> Outcome<Ts> {
        self.commit(self.closing(row, spaces)?)
    }

    /// Deletes all rows of a closed space.
    fn empty(&self, space: SpaceId) -> Outcome<Ts> {
        caught(|| {
            let (table, mut txn) = (self.closed_table(space), self.begin());
            let base = txn.snapshot().ts;
            for rid in scan_with_ids(&*table, txn.snapshot())?.into_iter().map(|(rid, _)| rid) {
                self.patiently(|| {
                    let write = [RowWrite::Delete { rid }];
                    table.write(&mut *txn, base, &write).map_err(|(_, stop)| stop)
                })?;
            }
            self.commit(txn)
        })?
    }
}

pub fn scan_with_ids(table: &dyn Table, snapshot: &Snapshot) -> Outcome<Vec<(RowId, (i64, i64))>> {
    let (mut rows, mut next) = (Vec::new(), Some(RowId(0)));
    while let Some(from) = next {
        let (part, after) = table.read_part(snapshot, from, &[0, 1])?;
        let cell = |n, at: usize| match value_at(&**part.batch.column(at), n, ColumnType::Int64) {
            Value::Int64(number) => number,
            other => panic!("every value is a number: {other:?}"),
        };
        rows.extend(part.rids.iter().enumerate().map(|(n, rid)| (*rid, (cell(n, 0), cell(n, 1)))));
        next = after;
    }
    Ok(rows)
}

pub fn scan(table: &dyn Table, snapshot: &Snapshot) -> Outcome<Rows> {
    Ok(scan_with_ids(table, snapshot)?.into_iter().map(|(_, row)| row).collect())
}

/// The same by the primary key.
fn seek(table: &dyn Table, snapshot: &Snapshot) -> Outcome<Rows> {
    caught(|| {
        let mut rows = Rows::new();
        let all = KeyRange::all();
        table.seek(snapshot, 0, &all, Direction::Forward, &[0, 1], &mut |_, row| {
            if let [Value::Int64(key), Value::Int64(number)] = row[..] {
                rows.insert(key, number);
            }
            std::ops::ControlFlow::Continue(())
        });
        rows
    })
}

pub fn at(ts: Ts) -> Snapshot {
    Snapshot::new(ts, TxnId(0), Box::new(()))
}

/// Nobody reads or writes it as it is now, at any of these.
fn check_shut(gateways: &[&Gateway], space: SpaceId) {
    for gateway in gateways {
        let table = gateway.table(space);
        is_replaced(scan(&*table, &gateway.now()));
        is_replaced(seek(&*table, &gateway.now()));
        is_replaced(gateway.put(space, [(-1, 0)]));
    }
}

#[test]
fn a_closed_space_is_its_closers_from_the_commit_on() {
    let (ranges, a, b) = gateways();
    let (s, other) = (space(7), space(8));
    b.put(s, [(1, 10), (2, 20)]).expect("nobody is in the way");
    let (rows, old) = (Rows::from([(1, 10), (2, 20)]), b.now());
    let f = a.close(1, &[s]).expect("the other one is idle");
    check_shut(&[&a, &b], s);
    a.put(other, [(3, 30)]).expect("others are open");
    b.put(other, [(4, 40)]).expect("others are open");

    let closed = b.closed_table(s);
    assert_eq!(scan(&*closed, &b.now()).expect("it may"), rows);
    b.empty(s).expect("it may");
    assert_eq!(scan(&*closed, &b.now()).expect("it may"), Rows::new());
    for table in [a.table(s), b.table(s)] {
        assert_eq!(scan(&*table, &old).expect("as it was"), rows);
        assert_eq!(seek(&*table, &old).expect("as it was"), rows);
        assert_eq!(scan(&*table, &at(Ts(f.0 - 1))).expect("as it was"), rows);
        is_replaced(scan(&*table, &at(f)));
    }
    wait_until("the fence is taken away", || fence(&ranges).is_none());
    // One that comes later finds what was closed.
    check_shut(&[&gateway(&ranges, "c"), &deaf_gateway(&ranges, "d")], s);
}

#[test]
fn who_has_written_commits_before_or_never() {
    let (ranges, a, b) = gateways();
    let s = space(7);
    let (table, mut soon, mut late) = (b.table(s), b.begin(), b.begin());
    b.insert(&*table, &mut *soon, (1, 10)).expect("it is open");
    b.insert(&*table, &mut *late, (2, 20)).expect("it is open");
    let closing = thread::spawn({
        let a = a.clone();
        move || a.close(1, &[s])
    });
    wait_until("the fence is there", || fence(&ranges).is_some());
    let waiting = thread::spawn({
        let b = b.clone();
        move || b.put(s, [(3, 30)])
    });
    // It has grace.
    b.insert(&*table, &mut *soon, (4, 40)).expect("it has grace");
    let committed = b.commit(soon).expect("it has grace");
    let f = closing.join().expect("no panic").expect("nobody is in the way for long");
    assert!(committed < f);
    // Or it was there before the gateway knew.
    let mut rows = Rows::from([(1, 10), (4, 40)]);
    match waiting.join().expect("no panic") {
        Ok(ts) => assert!(ts < f && rows.insert(3, 30).is_none()),
        refused => is_replaced(refused),
    }
    is_replaced(b.insert(&*table, &mut *late, (5, 50)));
    is_replaced(b.commit(late));
    assert_eq!(scan(&*a.closed_table(s), &a.now()).expect("it may"), rows);
    check_shut(&[&a, &b], s);
}

#[test]
fn who_is_in_the_midst_of_its_commit_is_waited_for() {
    let (ranges, a, b) = gateways();
    let s = space(7);
    let (table, mut txn) = (b.table(s), b.begin());
    b.insert(&*table, &mut *txn, (1, 10)).expect("it is open");
    // Longer than the grace.
    b.way.on_next("KvPrewrite", Fault::Delay(Duration::from_millis(1_500)));
    let committing = thread::spawn({
        let b = b.clone();
        move || b.commit(txn)
    });
    wait_until("it prewrites", || b.way.asked("KvPrewrite") > 0);
    let f = a.close(1, &[s]).expect("nobody is in the way for long");
    assert!(committing.join().expect("no panic").expect("it is waited for") < f);
    assert_eq!(scan(&*a.closed_table(s), &at(f)).expect("it may"), Rows::from([(1, 10)]));
    check_shut(&[&a, &b, &deaf_gateway(&ranges, "c")], s);
}

#[test]
fn a_closer_that_gives_up_opens_what_it_closed() {
    let (ranges, a, b) = gateways();
    let s = space(7);
    a.put(s, [(1, 10)]).expect("it is open");
    let (table, mut early) = (b.table(s), b.begin());
    b.insert(&*table, &mut *early, (2, 20)).expect("it is open");
    let mut txn = a.closing(1, &[s]).expect("nobody is in the way");
    a.reserve(&mut *txn).expect("all close");
    let (tell, told) = mpsc::channel();
    let waiting: Vec<_> = [(&a, 3), (&b, 4)]
        .map(|(gateway, n)| {
            let (gateway, tell) = (gateway.clone(), tell.clone());
            thread::spawn(move || tell.send((n, gateway.put(s, [(n, 10 * n)]))))
        })
        .into();
    let early_on = told.recv_timeout(Duration::from_millis(500));
    assert!(early_on.is_err(), "who has not written waits: {early_on:?}");
    txn.abort();
    for _ in &waiting {
        told.recv_timeout(PATIENCE).expect("they go on").1.expect("it is open again");
    }
    b.commit(early).expect("what was written before is as it was");
    let rows = Rows::from([(1, 10), (2, 20), (3, 30), (4, 40)]);
    assert_eq!(scan(&*b.table(s), &b.now()).expect("it is open again"), rows);
    assert_eq!(seek(&*a.table(s), &a.now()).expect("it is open again"), rows);
    assert_eq!(fence(&ranges), None);
    for waiting in waiting {
        waiting.join().expect("no panic").expect("it was heard");
    }
}

#[test]
fn a_savepoint_takes_a_closing_back() {
    let (_ranges, a, b) = gateways();
    let s = space(7);
    let mut txn = a.closing(1, &[]).expect("nobody is in the way");
    let before = txn.savepoint();
    txn.close(&[s]).expect("it remembers it");
    txn.rollback_to(before);
    a.commit(txn).expect("it closes nothing");
    b.put(s, [(1, 10)]).expect("it is open");
}

#[test]
fn who_does_not_close_in_time_keeps_the_space_open() {
    let (ranges, a, b) = gateways();
    let (s, deaf) = (space(7), deaf_gateway(&ranges, "deaf"));
    let error = a.close(1, &[s]).expect_err("one does not close");
    assert_eq!(error.sqlstate(), SqlState::LOCK_NOT_AVAILABLE, "{error}");
    b.put(s, [(1, 10)]).expect("it is open again");
    deaf.put(s, [(2, 20)]).expect("it was never closed");
    // Given up in the midst of its wait, it goes at once.
    let mut txn = a.closing(2, &[s]).expect("nobody is in the way");
    assert!(matches!(txn.reserve_log(), Ok(LogRoom::Wait(_))));
    wait_until("the fence is there", || fence(&ranges).is_some());
    drop(txn);
    let since = Instant::now();
    wait_until("the fence is taken away", || fence(&ranges).is_none());
    assert!(since.elapsed() < Duration::from_secs(2), "it took {:?}", since.elapsed());
    b.put(s, [(3, 30)]).expect("it is open again");
    drop(deaf);
    a.close(3, &[s]).expect("who was deaf is gone");
    check_shut(&[&a, &b], s);
}

/// A gateway dies, prewritten or not.
fn closer_dies(is_prewritten: bool) {
    let (ranges, a, b) = gateways();
    let s = space(7);
    b.put(s, [(1, 10)]).expect("it is open");
    let deaf = (!is_prewritten).then(|| deaf_gateway(&ranges, "deaf"));
    let mut txn = a.closing(1, &[s]).expect("nobody is in the way");
    match is_prewritten {
        true => a.reserve(&mut *txn).expect("all close"),
        false => {
            assert!(matches!(txn.reserve_log(), Ok(LogRoom::Wait(_))));
            wait_until("all but one have closed", || closed_by(&ranges, &b) == 2);
        }
    }
    a.way.cut_off(true);
    drop((txn, a));
    drop(deaf);
    let waiting = thread::spawn({
        let b = b.clone();
        move || b.put(s, [(2, 20)])
    });
    thread::sleep(Duration::from_millis(500));
    assert!(fence(&ranges).is_some() && !waiting.is_finished(), "its lease is not over");
    // Its locks are over, too.
    ranges.advance(LEASE_MS + 30_000);
    let waited = waiting.join().expect("no panic");
    // Its own lease is over, too, until it has said again that it lives.
    waited.unwrap_or_else(|_| insist("writing", || b.put(s, [(2, 20)])));
    assert_eq!(scan(&*b.table(s), &b.now()).expect("it is open"), Rows::from([(1, 10), (2, 20)]));
    wait_until("the fence is taken away", || fence(&ranges).is_none());
    insist("closing", || b.close(2, &[s]));
    check_shut(&[&b], s);
}

#[test]
fn a_closer_that_dies_prewritten_opens_what_it_closed_when_its_lease_is_over() {
    closer_dies(true);
}

#[test]
fn a_closer_that_dies_as_it_waits_opens_what_it_closed_when_its_lease_is_over() {
    closer_dies(false);
}

/// It says nothing for so many times a tenth of a second, while others may have taken it for gone.
pub fn silence(gateway: &Gateway, times: u32) {
    for _ in 0..times {
        gateway.way.on_next("keep_lease", Fault::LoseRequest);
    }
}

#[test]
fn who_was_gone_learns_what_was_closed_before_it_reads_or_commits() {
    let (ranges, a, b) = gateways();
    let s = space(7);
    b.put(s, [(1, 10)]).expect("it is open");
    let (table, mut txn) = (b.table(s), b.begin());
    b.insert(&*table, &mut *txn, (2, 20)).expect("it is open");
    b.way.cut_off(true);
    ranges.advance(LEASE_MS);
    insist("closing", || a.close(1, &[s]));
    insist("moving", || a.empty(s));
    silence(&b, 10);
    b.way.cut_off(false);
    is_replaced(scan(&*table, &b.now()));
    is_replaced(b.commit(txn));
    check_shut(&[&a, &b], s);
}

#[test]
fn a_commit_that_began_before_its_gateway_was_gone_is_none() {
    let (ranges, a, b) = gateways();
    let s = space(7);
    b.put(s, [(1, 10)]).expect("it is open");
    let (table, mut txn) = (b.table(s), b.begin());
    b.insert(&*table, &mut *txn, (2, 20)).expect("it is open");
    b.way.on_next("KvPrewrite", Fault::Delay(Duration::from_millis(3_500)));
    let committing = thread::spawn({
        let b = b.clone();
        move || b.commit(txn)
    });
    wait_until("it prewrites", || b.way.asked("KvPrewrite") > 1);
    silence(&b, 20);
    ranges.advance(LEASE_MS);
    let f = insist("closing", || a.close(1, &[s]));
    let error = committing.join().expect("no panic").expect_err("it comes too late");
    assert_eq!(error.sqlstate(), SqlState::CONNECTION_FAILURE, "{error}");
    for ts in [at(f), at(a.engine.now())] {
        let rows = scan(&*a.closed_table(s), &ts).expect("it may");
        assert_eq!(rows, Rows::from([(1, 10)]));
    }
    check_shut(&[&a, &b], s);
}

#[test]
fn a_closer_that_was_gone_closes_nothing() {
    let (ranges, a, b) = gateways();
    let s = space(7);
    b.put(s, [(1, 10)]).expect("it is open");
    let txn = a.closing(1, &[s]).expect("nobody is in the way");
    // After that of the fence.
    let before = a.way.asked("KvPrewrite");
    a.way.on_next("KvPrewrite", Fault::None);
    a.way.on_next("KvPrewrite", Fault::Delay(Duration::from_millis(3_500)));
    let closing = thread::spawn({
        let a = a.clone();
        move || a.commit(txn)
    });
    wait_until("it prewrites", || a.way.asked("KvPrewrite") > before + 1);
    assert_eq!(closed_by(&ranges, &b), 2);
    silence(&a, 20);
    ranges.advance(LEASE_MS);
    insist("writing", || b.put(s, [(2, 20)]));
    assert!(!closing.is_finished(), "others go on before that");
    let error = closing.join().expect("no panic").expect_err("it comes too late");
    assert_eq!(error.sqlstate(), SqlState::CONNECTION_FAILURE, "{error}");
    for gateway in [&a, &b] {
        let rows = scan(&*gateway.table(s), &gateway.now()).expect("it is open");
        assert_eq!(rows, Rows::from([(1, 10), (2, 20)]));
    }
}

#[test]
fn two_closers_go_one_after_the_other() {
    let (ranges, a, b) = gateways();
    let closing = [(&a, 1), (&b, 2)].map(|(gateway, n)| {
        let gateway = gateway.clone();
        thread::spawn(move || gateway.close(n, &[space(6 + u32::try_from(n).expect("small"))]))
    });
    let times = closing.map(|one| one.join().expect("no panic").expect("it has its turn"));
    assert_ne!(times[0], times[1]);
    for s in [space(7), space(8)] {
        check_shut(&[&a, &b], s);
    }
    wait_until("the fence is taken away", || fence(&ranges).is_none());
    b.put(space(9), [(1, 10)]).expect("others are open");
}

const ACCOUNTS: i64 = 4;

/// What is known of a deposit.
#[derive(Debug)]
enum Told {
    Done(Ts),
    Failed(EngineError),
    Nothing,
}

/// A deposit, with a receipt; its session takes its time.
fn deposit(gateway: &Gateway, s: SpaceId, receipt: i64, random: &mut StdRng) -> Told {
    let (account, amount) = (random.random_range(0..ACCOUNTS), random.random_range(1..100));
    let pause = if random.random_bool(0.1) { random.random_range(0..500) } else { 0 };
    let prewritten = caught(|| -> Outcome<Box<dyn EngineTxn>> {
        let (table, mut txn) = (gateway.table(s), gateway.begin());
        let base = txn.snapshot().ts;
        let spec = &table.layout().indexes[0];
        let account_key = key::encode([&Value::Int64(account)], &spec.key);
        let mut found = Vec::new();
        let rid = table.get_by_key(txn.snapshot(), 0, &account_key, &[1], &mut found);
        let rid = rid.expect("nobody closes an account");
        let Value::Int64(has) = found[0] else { panic!("an account has a number: {found:?}") };
        let values = [Value::Int64(has + amount)];
        gateway.patiently(|| {
            let write = [RowWrite::Update { rid, columns: &[1], values: &values }];
            table.write(&mut *txn, base, &write).map_err(|(_, stop)| stop)
        })?;
        thread::sleep(Duration::from_millis(pause));
        gateway.insert(&*table, &mut *txn, (receipt, amount))?;
        gateway.reserve(&mut *txn)?;
        Ok(txn)
    });
    match prewritten.flatten().map(|txn| gateway.publish(txn)) {
        Ok(Ok(ts)) => Told::Done(ts),
        Ok(Err(error)) if error.sqlstate() == SqlState::SERIALIZATION_FAILURE => {
            Told::Failed(error)
        }
        Ok(Err(_)) => Told::Nothing,
        Err(error) => Told::Failed(error),
    }
}

/// Deposits, one after the other, each with a receipt of its own.
fn deposits(
    gateway: &Gateway,
    s: SpaceId,
    first: i64,
    seed: u64,
    going: &AtomicBool,
) -> BTreeMap<i64, Told> {
    let (mut random, mut tales) = (StdRng::seed_from_u64(seed), BTreeMap::new());
    for receipt in first.. {
        if !going.load(Ordering::SeqCst) {
            break;
        }
        let told = deposit(gateway, s, receipt, &mut random);
        if matches!(told, Told::Failed(_)) {
            thread::sleep(Duration::from_millis(5));
        }
        tales.insert(receipt, told);
    }
    tales
}

/// Tries until it is done; what may have been done is looked at in the store.
pub fn insist<T>(what: &str, mut once: impl FnMut() -> Outcome<T>) -> T {
    let until = Instant::now() + 6 * PATIENCE;
    loop {
        match once() {
            Ok(done) => return done,
            Err(error) => assert!(Instant::now() < until, "{what}: {error}"),
        }
    }
}

/// What must hold of the rows at F.
fn check_rows(rows: &Rows, tales: &BTreeMap<i64, Told>, f: Ts) {
    let (accounts, receipts): (Rows, Rows) = rows.iter().partition(|(key, _)| **key < ACCOUNTS);
    let sum = |rows: &Rows| rows.values().sum::<i64>();
    assert_eq!(sum(&accounts), sum(&receipts), "each receipt was deposited once");
    for (receipt, told) in tales {
        let is_there = receipts.contains_key(receipt);
        match told {
            Told::Done(ts) => assert!(is_there && *ts < f, "{receipt} at {ts}, closed at {f}"),
            Told::Failed(error) => assert!(!is_there, "{receipt} has failed: {error}"),
            Told::Nothing => {}
        }
    }
}

fn run(seed: u64) {
    let (ranges, a, b) = gateways();
    let (s, mut random) = (space(7), StdRng::seed_from_u64(seed));
    a.put(s, (0..ACCOUNTS).map(|n| (n, 0))).expect("all is calm");
    for (n, gateway) in (0..).zip([&a, &b]) {
        let seed = 2 * seed + n;
        let (lose_request, lose_answer) = (0.01, 0.01);
        gateway.way.set_faults(Faults { seed, lose_request, lose_answer, ..Faults::default() });
    }
    let going = Arc::new(AtomicBool::new(true));
    let sessions: Vec<_> = (1..=3)
        .map(|n: u32| {
            let (b, going) = (b.clone(), Arc::clone(&going));
            let first = 1_000_000 * i64::from(n);
            thread::spawn(move || deposits(&b, s, first, seed * 3 + u64::from(n), &going))
        })
        .collect();
    thread::sleep(Duration::from_millis(random.random_range(300..900)));
    let is_cut_off = seed.is_multiple_of(2);
    let outage = is_cut_off.then(|| {
        // Its sessions are in the midst of something, and its lease ends.
        b.way.cut_off(true);
        let (ranges, way) = (Arc::clone(&ranges), Arc::clone(&b.way));
        let (before_ms, after_ms) = (random.random_range(0..100), random.random_range(200..1_500));
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(before_ms));
            ranges.advance(LEASE_MS);
            thread::sleep(Duration::from_millis(after_ms));
            way.cut_off(false);
        })
    });
    let mut row = 0;
    let f = insist("closing", || {
        row += 1;
        a.close(row, &[s])
    });
    let rows = insist("reading", || scan(&*a.closed_table(s), &at(f)));
    let moves = random.random_bool(0.5);
    if moves {
        insist("moving", || a.empty(s));
    }
    if let Some(outage) = outage {
        outage.join().expect("no panic");
    }
    thread::sleep(Duration::from_millis(500));
    going.store(false, Ordering::SeqCst);
    let mut tales = BTreeMap::new();
    for session in sessions {
        tales.extend(session.join().expect("no panic"));
    }
    check_rows(&rows, &tales, f);
    let done = tales.values().filter(|told| matches!(told, Told::Done(_))).count();
    assert!(done > 0, "{done} deposits of {} were done", tales.len());
    let left = insist("reading", || scan(&*b.closed_table(s), &b.now()));
    assert_eq!(left, if moves { Rows::new() } else { rows }, "nobody has written after {f}");
    for gateway in [&a, &b] {
        gateway.way.set_faults(Faults::default());
    }
    check_shut(&[&a, &b], s);
}

#[test]
fn what_was_deposited_before_is_there_and_nothing_comes_after() {
    for seed in [1, 3, 5, 7] {
        run(seed);
    }
}

#[test]
fn who_was_cut_off_deposits_nothing_after() {
    for seed in [2, 4, 6, 8] {
        run(seed);
    }
}
