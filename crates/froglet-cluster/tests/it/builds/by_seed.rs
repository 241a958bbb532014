//! Sessions at several gateways write few rows, all the time, while an index after the other is begun, from a seed.
//!
//! ```text
//!   sessions   insert, update, delete, move, swap, savepoints; a receipt each       requests and answers are lost,
//!   builder    two indexes at once: gives up, or is stopped by a key that is        regions split, leaders move,
//!              there twice, until a change is committed                             C dies as it builds,
//!   readers    all rows as they are scanned, and by both indexes                    B is gone for longer than its lease
//! ```
//! A session's layout is that of its view, as its gateway knows it then: what the catalog was when it was read last, or
//! what it is. For two of three seeds each code is given by one session alone, so that no key is ever there twice, and a
//! builder that finds one has found what is not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use froglet_engine::{Built, EngineError, EngineTxn, RowId, Snapshot, SpaceId, SqlState, Ts};
use froglet_testkit::ranges::{Faults, Ranges};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::place::{At, CODE, ID, Line, Shape, TAG, index, keyed, keyless, wait_until_gone};
use crate::fences::{
    CATALOG, Gateway, LEASE_MS, Outcome, at, caught, deaf_gateway, insist, scan, space,
};

const IDS: i64 = 10;
const CODES: i64 = 18;
const TAGS: i64 = 3;
const SESSIONS: i64 = 3;
const MOST_ROWS: usize = 14;

pub fn receipts() -> SpaceId {
    space(20)
}

/// The indexes of a change, by the number of its row in the catalog.
fn ids(change: i64) -> [u32; 2] {
    let change = u32::try_from(change).expect("a few");
    [100 + 2 * change, 101 + 2 * change]
}

/// A gateway, and the change that it knows of since when.
#[derive(Clone)]
pub struct Server {
    pub gateway: Gateway,
    known: Arc<Mutex<Option<(Ts, i64)>>>,
    /// It looks itself what the catalog is to a view.
    is_sharp: bool,
    shape: Shape,
}

pub fn committed(gateway: &Gateway, view: &Snapshot) -> Outcome<Option<i64>> {
    let rows = caught(|| scan(&*gateway.table(CATALOG), view)).flatten()?;
    Ok(rows.into_keys().next())
}

impl Server {
    pub fn new(ranges: &Arc<Ranges>, name: &str, is_sharp: bool, shape: Shape) -> Server {
        let gateway = deaf_gateway(ranges, name);
        let known = Arc::<Mutex<_>>::default();
        let server = Server { gateway, known, is_sharp, shape };
        let (engine, known) = (Arc::downgrade(&server.gateway.engine), Arc::clone(&server.known));
        let way = Arc::clone(&server.gateway.way);
        server.gateway.engine.follow_catalog(move || {
            let gateway = Gateway { way: Arc::clone(&way), engine: engine.upgrade()? };
            let view = gateway.now();
            if let Some(change) = committed(&gateway, &view).ok()? {
                known.lock().get_or_insert((view.ts, change));
            }
            Some(view.ts)
        });
        server
    }

    /// The change whose indexes a view has.
    pub fn change(&self, view: &Snapshot) -> Outcome<Option<i64>> {
        match self.is_sharp {
            true => committed(&self.gateway, view),
            false => Ok(self.known.lock().filter(|(ts, _)| *ts <= view.ts).map(|(_, n)| n)),
        }
    }

    fn at(&self, change: Option<i64>) -> At {
        let indexes = change.map_or(Vec::new(), |change| {
            let [codes, tags] = ids(change);
            vec![index(codes, CODE, true), index(tags, TAG, false)]
        });
        self.shape.at(&self.gateway, &indexes)
    }
}

/// Who gives which codes.
#[derive(Clone)]
struct Session {
    server: Server,
    number: i64,
    is_careful: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Done { at: Ts },
    Failed,
    Nothing,
}

impl Told {
    /// Commits what is prewritten; what is told of that, or of why it is not. All errors are fair.
    pub fn of(
        gateway: &Gateway,
        prewritten: Outcome<Box<dyn EngineTxn>>,
        is_fair: fn(&EngineError),
    ) -> Told {
        let told = prewritten.map(|txn| gateway.publish(txn));
        if let Ok(Err(error)) | Err(error) = &told {
            is_fair(error);
        }
        match told {
            Ok(Ok(at)) => Told::Done { at },
            Ok(Err(error)) if error.sqlstate() == SqlState::SERIALIZATION_FAILURE => Told::Failed,
            Ok(Err(_)) => Told::Nothing,
            Err(_) => Told::Failed,
        }
    }
}

pub type Tales = BTreeMap<i64, Told>;

fn some_id(random: &mut StdRng) -> Option<i64> {
    Some(random.random_range(0..IDS))
}

impl Session {
    /// A code that no row has, as far as it knows.
    fn code(&self, random: &mut StdRng, rows: &[(RowId, Line)]) -> Option<i64> {
        let is_careful = self.is_careful.load(Ordering::SeqCst);
        if random.random_bool(0.2) {
            return None;
        }
        if !is_careful && random.random_bool(0.02) {
            return Some(random.random_range(0..CODES));
        }
        let is_taken = |code: &i64| rows.iter().any(|(_, line)| line[CODE] == Some(*code));
        let is_mine = |code: &i64| !is_careful || code % SESSIONS == self.number;
        let free: Vec<i64> = (0..CODES).filter(|code| is_mine(code) && !is_taken(code)).collect();
        (!free.is_empty()).then(|| free[random.random_range(0..free.len())])
    }

    fn change(&self, at: &At, txn: &mut dyn EngineTxn, random: &mut StdRng) -> Outcome<()> {
        let rows = at.with_ids(&txn.snapshot().clone())?;
        let code = self.code(random, &rows);
        let tag = Some(random.random_range(0..TAGS));
        let action = random.random_range(0..16);
        let Some((rid, line)) = rows.get(random.random_range(0..rows.len().max(1))) else {
            return at.insert(txn, &[some_id(random), code, tag]);
        };
        match action {
            0..4 if rows.len() < MOST_ROWS => {
                let id = some_id(random);
                match rows.iter().any(|(_, line)| line[ID] == id) && self.server.shape.is_keyed {
                    true => at.set(txn, *rid, &[(CODE, code)]),
                    false => at.insert(txn, &[id, code, tag]),
                }
            }
            0..7 => at.set(txn, *rid, &[(CODE, code), (TAG, tag)]),
            7 => at.set(txn, *rid, &[(TAG, tag)]),
            // As it was.
            8 => at.set(txn, *rid, &[(CODE, line[CODE])]),
            9 => at.set(txn, *rid, &[(ID, some_id(random))]),
            10 => at.set(txn, *rid, &[(ID, some_id(random)), (TAG, tag)]),
            11 => at.delete(txn, *rid),
            12 => {
                at.delete(txn, *rid)?;
                at.insert(txn, line)
            }
            13 => self.swap(at, txn, random, &rows),
            _ => {
                let before = txn.savepoint();
                let done = self.change(at, txn, random);
                txn.rollback_to(before);
                done
            }
        }
    }

    fn swap(
        &self,
        at: &At,
        txn: &mut dyn EngineTxn,
        random: &mut StdRng,
        rows: &[(RowId, Line)],
    ) -> Outcome<()> {
        let [one, other] = [(); 2].map(|()| &rows[random.random_range(0..rows.len())]);
        if one.0 == other.0 {
            return Ok(());
        }
        if at.has_unique() || random.random_bool(0.3) {
            at.set(txn, one.0, &[(CODE, None)])?;
        }
        at.set(txn, other.0, &[(CODE, one.1[CODE])])?;
        at.set(txn, one.0, &[(CODE, other.1[CODE])])
    }

    /// What it does, up to its prewrite.
    fn prewritten(&self, receipt: i64, random: &mut StdRng) -> Outcome<Box<dyn EngineTxn>> {
        let gateway = &self.server.gateway;
        let mut txn = caught(|| gateway.begin())?;
        let mut change = self.server.change(&txn.snapshot().clone())?;
        let mut at = self.server.at(change);
        if random.random_bool(0.04) {
            thread::sleep(Duration::from_millis(random.random_range(0..600)));
        }
        for _ in 0..random.random_range(1..4) {
            if random.random_bool(0.3) {
                caught(|| txn.refresh())?;
                let now = self.server.change(&txn.snapshot().clone())?;
                if now != change && random.random_bool(0.7) {
                    (change, at) = (now, self.server.at(now));
                    caught(|| at.online().enter_newer(&mut *txn)).flatten()?;
                }
            }
            self.change(&at, &mut *txn, random)?;
        }
        if random.random_bool(0.02) {
            thread::sleep(Duration::from_millis(random.random_range(0..400)));
        }
        let table = gateway.table(receipts());
        caught(|| gateway.insert(&*table, &mut *txn, (receipt, 0))).flatten()?;
        gateway.reserve(&mut *txn)?;
        Ok(txn)
    }

    fn all(&self, seed: u64, going: &AtomicBool) -> Tales {
        tales(1_000_000 * (1 + self.number), seed, going, |receipt, random| {
            Told::of(&self.server.gateway, self.prewritten(receipt, random), is_fair)
        })
    }
}

/// Transactions, one after the other, each with a receipt of its own, from `first` on.
pub fn tales(
    first: i64,
    seed: u64,
    going: &AtomicBool,
    mut transaction: impl FnMut(i64, &mut StdRng) -> Told,
) -> Tales {
    let (mut random, mut tales) = (StdRng::seed_from_u64(seed), Tales::new());
    for receipt in first.. {
        if !going.load(Ordering::SeqCst) {
            break;
        }
        let told = transaction(receipt, &mut random);
        if told == Told::Failed {
            thread::sleep(Duration::from_millis(5));
        }
        tales.insert(receipt, told);
    }
    tales
}

/// Something was in the way, and nothing has broken.
pub fn is_fair(error: &EngineError) {
    let fair = [
        SqlState::SERIALIZATION_FAILURE,
        SqlState::DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::CONNECTION_FAILURE,
        SqlState::UNIQUE_VIOLATION,
    ];
    assert!(fair.contains(&error.sqlstate()), "{error}");
}

/// All rows, by each index and by none, as of views that have them.
fn reader(server: &Server, going: &AtomicBool) -> Vec<Ts> {
    let mut seen = Vec::new();
    while going.load(Ordering::SeqCst) {
        let read = caught(|| -> Outcome<Option<Ts>> {
            let view = server.gateway.now();
            let Some(change) = committed(&server.gateway, &view)? else { return Ok(None) };
            let at = server.at(Some(change));
            let rows = at.rows(&view)?;
            for index in ids(change) {
                let all = froglet_engine::KeyRange::all();
                let found = at.sought(&view, index, &all)?;
                let found = super::sorted(found.into_iter());
                assert_eq!(found, rows, "by {index} at {}", view.ts);
            }
            Ok(Some(view.ts))
        });
        seen.extend(read.flatten().ok().flatten());
        thread::sleep(Duration::from_millis(15));
    }
    seen
}

pub fn disturb(ranges: &Ranges, random: &mut StdRng) {
    let locks = ranges.locks();
    if let Some(lock) = locks.get(random.random_range(0..locks.len().max(1))) {
        match random.random_bool(0.2) {
            true => ranges.split_at(&lock.key),
            false => ranges.move_leader(&lock.key, random.random_range(1..=2)),
        }
    }
}

/// What happens in a run, beside all that happens in each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Events {
    /// A builder dies, and turns up again when all is over.
    pub dies: bool,
    /// A gateway of sessions is gone for a while.
    pub is_gone: bool,
}

/// How a change came to nothing.
#[derive(Debug)]
enum Stopped {
    GaveUp,
    /// A key was there twice.
    Found(Built),
    /// It was taken twice, or somebody had it locked for too long.
    Marked,
    InTheWay,
}

impl From<EngineError> for Stopped {
    fn from(error: EngineError) -> Stopped {
        is_fair(&error);
        match error.sqlstate() == SqlState::UNIQUE_VIOLATION {
            true => Stopped::Marked,
            false => Stopped::InTheWay,
        }
    }
}

/// Builds two indexes, and commits them.
fn build(builder: &Session, change: i64, seed: u64) -> Result<Ts, Stopped> {
    let (server, random) = (&builder.server, &mut StdRng::seed_from_u64(seed));
    let (old, new) = (server.at(None), server.at(Some(change)));
    let mut txn = server.gateway.closing(change, &[])?;
    // Codes are others' to give.
    if random.random_bool(0.4) {
        builder.change(&old, &mut *txn, random)?;
    }
    let (gives_up, entered_at_once) = (random.random_range(0..12), random.random_bool(0.5));
    for index in ids(change) {
        match new.build(&mut *txn, index)? {
            Built::Whole => {}
            built => return Err(Stopped::Found(built)),
        }
        if gives_up == 0 {
            return Err(Stopped::GaveUp);
        }
        if entered_at_once {
            new.enter(&mut *txn, index)?;
        }
    }
    if !entered_at_once {
        ids(change).iter().try_for_each(|index| new.enter(&mut *txn, *index))?;
    }
    thread::sleep(Duration::from_millis(random.random_range(0..150)));
    if gives_up == 1 {
        return Err(Stopped::GaveUp);
    }
    Ok(server.gateway.commit(txn)?)
}

struct Run {
    ranges: Arc<Ranges>,
    random: StdRng,
    going: Arc<AtomicBool>,
    is_careful: Arc<AtomicBool>,
    never_twice: bool,
    sessions: Vec<JoinHandle<Tales>>,
    readers: Vec<JoinHandle<Vec<Ts>>>,
    failed: Vec<i64>,
}

impl Run {
    fn session(&self, server: &Server, number: i64) -> Session {
        Session { server: server.clone(), number, is_careful: Arc::clone(&self.is_careful) }
    }

    fn begin(&mut self, server: &Server, sessions: &[i64]) {
        let faults = Faults {
            seed: self.random.random(),
            lose_request: 0.01,
            lose_answer: 0.01,
            ..Faults::default()
        };
        server.gateway.way.set_faults(faults);
        for number in sessions {
            let session = self.session(server, *number);
            let (going, seed) = (Arc::clone(&self.going), self.random.random());
            self.sessions.push(thread::spawn(move || session.all(seed, &going)));
        }
        let (server, going) = (server.clone(), Arc::clone(&self.going));
        self.readers.push(thread::spawn(move || reader(&server, &going)));
    }

    fn go_on(&mut self, for_ms: u64) {
        let until = Instant::now() + Duration::from_millis(for_ms);
        while Instant::now() < until {
            disturb(&self.ranges, &mut self.random);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Changes, until one is committed; which, and since when at the latest.
    fn build(&mut self, server: &Server) -> (i64, Ts) {
        let until = Instant::now() + Duration::from_secs(60);
        for change in 2.. {
            assert!(Instant::now() < until, "{change} changes came to nothing");
            // No session has this number: it gives no code but those that there are.
            let builder = self.session(server, SESSIONS);
            let stopped = match build(&builder, change, self.random.random()) {
                Ok(f) => return (change, f),
                Err(stopped) => stopped,
            };
            let is_twice = matches!(stopped, Stopped::Found(_) | Stopped::Marked);
            if let Stopped::Found(built) = stopped {
                assert!(!self.never_twice, "no key was there twice: {built:?}");
            }
            let view = insist("reading", || caught(|| server.gateway.now()));
            if insist("reading", || committed(&server.gateway, &view)).is_some() {
                return (change, view.ts);
            }
            self.failed.push(change);
            self.wait_until_gone(server);
            if is_twice && change > 3 {
                self.is_careful.store(true, Ordering::SeqCst);
                self.go_on(600);
                insist("repairing", || repair(server));
            }
        }
        unreachable!("it ends before")
    }

    fn wait_until_gone(&self, server: &Server) {
        let all: Vec<u32> = self.failed.iter().flat_map(|change| ids(*change)).collect();
        wait_until_gone(&self.ranges, &server.gateway, server.shape.space, &all);
    }
}

/// Takes codes away that two rows have.
fn repair(server: &Server) -> Outcome<Ts> {
    let at = server.at(None);
    at.alone(|txn| {
        let mut codes = Vec::new();
        for (rid, line) in at.with_ids(&txn.snapshot().clone())? {
            match line[CODE] {
                Some(code) if codes.contains(&code) => at.set(txn, rid, &[(CODE, None)])?,
                code => codes.extend(code),
            }
        }
        Ok(())
    })
}

fn run(seed: u64, events: Events) {
    let ranges = Ranges::new(2);
    ranges.let_clock_run();
    let shape = if seed.is_multiple_of(2) { keyed() } else { keyless() };
    let never_twice = !seed.is_multiple_of(3);
    let is_sharp = seed % 4 < 2;
    let server = |name, is_sharp| Server::new(&ranges, name, is_sharp, shape);
    let (a, b) = (server("a", true), server("b", is_sharp));
    let mut run = Run {
        ranges: Arc::clone(&ranges),
        random: StdRng::seed_from_u64(seed),
        going: Arc::new(AtomicBool::new(true)),
        is_careful: Arc::new(AtomicBool::new(never_twice)),
        never_twice,
        sessions: Vec::new(),
        readers: Vec::new(),
        failed: Vec::new(),
    };
    let rows: Vec<Line> = (0..IDS).map(|id| vec![Some(id), None, Some(id % TAGS)]).collect();
    a.at(None).put(&rows).expect("all is calm");
    run.begin(&a, &[0]);
    run.begin(&b, &[1, 2]);
    run.go_on(200);
    let dead = events.dies.then(|| {
        let c = server("c", false);
        let builder = run.session(&c, SESSIONS);
        let seed = run.random.random();
        let building = thread::spawn(move || build(&builder, 1, seed));
        let alive_ms = run.random.random_range(30..500);
        run.go_on(alive_ms);
        c.gateway.way.cut_off(true);
        run.go_on(300);
        run.ranges.advance(LEASE_MS + 30_000);
        (c, building)
    });
    if events.is_gone {
        b.gateway.way.cut_off(true);
        let (ranges, way) = (Arc::clone(&ranges), Arc::clone(&b.gateway.way));
        let [before_ms, after_ms] =
            [(0, 300), (200, 1_200)].map(|(a, b)| run.random.random_range(a..b));
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(before_ms));
            ranges.advance(LEASE_MS);
            thread::sleep(Duration::from_millis(after_ms));
            way.cut_off(false);
        });
    }
    let view = insist("reading", || caught(|| a.gateway.now()));
    let (change, f) = match insist("reading", || committed(&a.gateway, &view)) {
        Some(change) => (change, view.ts),
        None => run.build(&a),
    };
    run.go_on(300);
    if let Some((c, building)) = dead {
        // It was none: it is told that it was too late.
        c.gateway.way.cut_off(false);
        let built = building.join().expect("no panic");
        assert!(built.is_err() || change == 1, "{built:?}");
    }
    run.go_on(500);
    run.going.store(false, Ordering::SeqCst);
    let mut tales = Tales::new();
    for session in std::mem::take(&mut run.sessions) {
        tales.extend(session.join().expect("no panic"));
    }
    let mut times = vec![f];
    for reader in std::mem::take(&mut run.readers) {
        times.extend(reader.join().expect("no panic"));
    }
    for server in [&a, &b] {
        server.gateway.way.set_faults(Faults::default());
    }
    let done = tales.values().filter_map(|told| match told {
        Told::Done { at } => Some(*at),
        Told::Failed | Told::Nothing => None,
    });
    let done: Vec<Ts> = done.collect();
    let end = insist("reading", || caught(|| a.gateway.now())).ts;
    check_receipts(&a, end, &tales);
    times.extend(done.iter().filter(|ts| **ts > f));
    for _ in 0..20 {
        let ts = times[run.random.random_range(0..times.len())];
        times.push(Ts(run.random.random_range(ts.0..=end.0)));
    }
    times.sort_unstable();
    times.retain(|ts| *ts >= f);
    let step = times.len().div_ceil(60);
    let some = times.iter().step_by(step).copied().chain([f, end]);
    for ts in some {
        for (server, index) in
            [&a, &b].into_iter().flat_map(|server| ids(change).map(|id| (server, id)))
        {
            server.at(Some(change)).check(ts, index);
        }
    }
    run.failed.extend((change != 1 && events.dies).then_some(1));
    run.wait_until_gone(&a);
    eprintln!(
        "seed {seed}: {} of {} done, {} after, change {change}, {events:?}",
        done.len(),
        tales.len(),
        done.iter().filter(|ts| **ts > f).count()
    );
}

/// Who was told that he has committed finds his receipt, and who was told that he has not does not.
pub fn check_receipts(server: &Server, end: Ts, tales: &Tales) {
    let receipts = scan(&*server.gateway.table(receipts()), &at(end)).expect("the store answers");
    for (receipt, told) in tales {
        let is_there = receipts.contains_key(receipt);
        match told {
            Told::Done { .. } => assert!(is_there, "{receipt}: {told:?}"),
            Told::Failed => assert!(!is_there, "{receipt}: {told:?}"),
            Told::Nothing => {}
        }
    }
}

/// Two seeds at once; with `FROGLET_TEST_LONG` many more, one after the other, from `FROGLET_TEST_SEED` on.
pub fn runs(first: u64, events: Events, run: fn(u64, Events)) {
    if froglet_testkit::is_long() {
        let first = froglet_testkit::seed();
        (first..first + 40).for_each(|seed| run(seed, events));
        return;
    }
    thread::scope(|scope| {
        for seed in [first, first + 1] {
            scope.spawn(move || run(seed, events));
        }
    });
}

#[test]
fn an_index_is_what_its_rows_are() {
    runs(2, Events::default(), run);
}

#[test]
fn a_builder_that_dies_leaves_nothing() {
    runs(5, Events { dies: true, ..Events::default() }, run);
}

#[test]
fn who_is_gone_meanwhile_leaves_nothing_behind() {
    runs(7, Events { is_gone: true, ..Events::default() }, run);
}
