//! Sessions at several gateways write few parents and few children, all the time, while a foreign key is added, from a seed.
//!
//! ```text
//!   sessions   that know of it     require parents, look for children         requests and answers are lost,
//!              that do not         look at their view, and may be wrong       regions split, leaders move,
//!   builder    adds it; where it finds an orphan, that is repaired            C dies as it adds it,
//!                                                                             B is gone for longer than its lease
//! ```
//! From when it is there no view has an orphan.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use froglet_testkit::ranges::{Faults, Ranges};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::builds::by_seed::{
    self as indexes, Events, Server, Tales, Told, check_receipts, committed, disturb, receipts,
    runs, tales,
};
use crate::fences::{LEASE_MS, at, insist};

const PARENTS: i64 = 6;
const CHILDREN: i64 = 14;

/// A session at a server.
#[derive(Clone)]
struct Session {
    server: Server,
    to: To,
    /// It refers to nothing wrong, as far as it knows, before it has to.
    is_careful: Arc<AtomicBool>,
}

impl Session {
    fn pair(&self) -> Pair {
        Pair::new(&self.server.gateway, self.to)
    }

    /// Something that others are not to be told of.
    fn change(&self, knows: bool, txn: &mut dyn EngineTxn, random: &mut StdRng) -> Outcome<()> {
        let (pair, view) = (self.pair(), txn.snapshot().clone());
        let (parents, children) = (pair.parents.rows(&view)?, pair.children.with_ids(&view)?);
        let number = random.random_range(0..PARENTS);
        let has_parent = |number: i64| {
            let column = self.to.column();
            parents.iter().any(|line| line[column] == Some(number))
        };
        let has_children =
            |number: i64| children.iter().any(|(_, line)| line[PARENT] == Some(number));
        let is_careful = self.is_careful.load(Ordering::SeqCst) || random.random_bool(0.9);
        let some = children.get(random.random_range(0..children.len().max(1)));
        match random.random_range(0..12) {
            0..4 => {
                let line = child(random.random_range(0..CHILDREN), number);
                match knows {
                    _ if children.iter().any(|(_, other)| other[ID] == line[ID]) => Ok(()),
                    true => or_nothing(pair.give(txn, &line)),
                    false if is_careful && !has_parent(number) => Ok(()),
                    false => pair.children.insert(txn, &line),
                }
            }
            4 => {
                let Some((rid, _)) = some else { return Ok(()) };
                if !knows && is_careful && !has_parent(number) {
                    return Ok(());
                }
                let before = txn.savepoint();
                pair.children.set(txn, *rid, &[(PARENT, Some(number))])?;
                if knows && !pair.require(txn, number)? {
                    txn.rollback_to(before);
                }
                Ok(())
            }
            5 => some.map_or(Ok(()), |(rid, _)| pair.children.delete(txn, *rid)),
            6 | 7 => {
                let Some(of) = parents.iter().find(|line| line[self.to.column()] == Some(number))
                else {
                    return Ok(());
                };
                let id = of[ID].expect("it is the primary key");
                let before = txn.savepoint();
                match () {
                    () if !knows && is_careful && has_children(number) => return Ok(()),
                    () if random.random_bool(0.5) => pair.parents.delete_of(txn, id)?,
                    () if self.to == To::Primary => {
                        pair.parents.set_of(txn, id, &[(ID, Some(random.random_range(20..40)))])?;
                    }
                    () => pair.parents.set_of(txn, id, &[(CODE, None)])?,
                }
                if knows && pair.has_children(&pair.fresh(txn), number)? {
                    txn.rollback_to(before);
                }
                Ok(())
            }
            8 => match parents.iter().any(|line| line[ID] == Some(number)) || has_parent(number) {
                true => Ok(()),
                false => pair.parents.insert(txn, &parent(number)),
            },
            9 => {
                let Some(line) = parents.first() else { return Ok(()) };
                pair.parents.set_of(txn, line[ID].expect("it is"), &[(TAG, Some(number))])
            }
            10 => {
                let Some(line) = parents.last() else { return Ok(()) };
                let rid = pair.parents.find(&view, line[ID].expect("it is"))?;
                pair.parents.write(txn, &RowWrite::Lock { rid })
            }
            _ => {
                let before = txn.savepoint();
                let done = self.change(knows, txn, random);
                txn.rollback_to(before);
                done
            }
        }
    }

    /// What it does, up to its prewrite.
    fn prewritten(&self, receipt: i64, random: &mut StdRng) -> Outcome<Box<dyn EngineTxn>> {
        let gateway = &self.server.gateway;
        let mut txn = caught(|| gateway.begin())?;
        let mut knows = self.server.change(&txn.snapshot().clone())?.is_some();
        if random.random_bool(0.04) {
            thread::sleep(Duration::from_millis(random.random_range(0..600)));
        }
        for _ in 0..random.random_range(1..4) {
            if random.random_bool(0.3) {
                caught(|| txn.refresh())?;
                knows |= self.server.change(&txn.snapshot().clone())?.is_some();
            }
            self.change(knows, &mut *txn, random)?;
        }
        if random.random_bool(0.05) {
            thread::sleep(Duration::from_millis(random.random_range(0..400)));
        }
        let table = gateway.table(receipts());
        caught(|| gateway.insert(&*table, &mut *txn, (receipt, 0))).flatten()?;
        gateway.reserve(&mut *txn)?;
        Ok(txn)
    }

    fn all(&self, first: i64, seed: u64, going: &AtomicBool) -> Tales {
        tales(first, seed, going, |receipt, random| {
            Told::of(&self.server.gateway, self.prewritten(receipt, random), is_fair)
        })
    }

    /// Adds the foreign key; none, if that came to nothing.
    fn add(&self, change: i64, seed: u64) -> Outcome<Option<Ts>> {
        let (pair, random) = (self.pair(), &mut StdRng::seed_from_u64(seed));
        let mut txn = pair.gateway.closing(change, &[])?;
        if random.random_bool(0.4) {
            self.change(false, &mut *txn, random)?;
        }
        if pair.add(&mut *txn, true)? != Built::Whole || random.random_bool(0.1) {
            return Ok(None);
        }
        for _ in 0..random.random_range(0..3) {
            self.change(true, &mut *txn, random)?;
        }
        thread::sleep(Duration::from_millis(random.random_range(0..150)));
        pair.gateway.commit(txn).map(Some)
    }
}

/// Something was in the way, a parent is gone, and nothing has broken.
fn is_fair(error: &EngineError) {
    if error.sqlstate() != SqlState::FOREIGN_KEY_VIOLATION {
        indexes::is_fair(error);
    }
}

/// What a session is refused, and goes on from.
fn or_nothing(outcome: Outcome<()>) -> Outcome<()> {
    match outcome {
        Err(error) if error.sqlstate() == SqlState::FOREIGN_KEY_VIOLATION => Ok(()),
        other => other,
    }
}

/// Deletes what has no parent.
fn repair(pair: &Pair) -> Outcome<Ts> {
    pair.children.alone(|txn| {
        let orphans = pair.orphans(&txn.snapshot().clone())?;
        orphans.iter().try_for_each(|line| pair.children.delete_of(txn, line[ID].expect("it is")))
    })
}

struct Run {
    ranges: Arc<Ranges>,
    random: StdRng,
    going: Arc<AtomicBool>,
    is_careful: Arc<AtomicBool>,
    to: To,
    sessions: Vec<JoinHandle<Tales>>,
}

impl Run {
    fn session(&self, server: &Server) -> Session {
        let is_careful = Arc::clone(&self.is_careful);
        Session { server: server.clone(), to: self.to, is_careful }
    }

    fn begin(&mut self, server: &Server, count: i64) {
        let seed = self.random.random();
        let (lose_request, lose_answer) = (0.01, 0.01);
        server.gateway.way.set_faults(Faults {
            seed,
            lose_request,
            lose_answer,
            ..Faults::default()
        });
        for _ in 0..count {
            let first = 1_000_000 * (1 + i64::try_from(self.sessions.len()).expect("a few"));
            let (session, going) = (self.session(server), Arc::clone(&self.going));
            let seed = self.random.random();
            self.sessions.push(thread::spawn(move || session.all(first, seed, &going)));
        }
    }

    fn go_on(&mut self, for_ms: u64) {
        let until = Instant::now() + Duration::from_millis(for_ms);
        while Instant::now() < until {
            disturb(&self.ranges, &mut self.random);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Tries until it is there; since when at the latest.
    fn add(&mut self, server: &Server) -> Ts {
        let (session, until) = (self.session(server), Instant::now() + Duration::from_secs(60));
        for change in 2.. {
            assert!(Instant::now() < until, "{change} changes came to nothing");
            match session.add(change, self.random.random()) {
                Ok(Some(f)) => return f,
                Ok(None) => {}
                Err(error) => is_fair(&error),
            }
            let view = insist("reading", || caught(|| server.gateway.now()));
            if insist("reading", || committed(&server.gateway, &view)).is_some() {
                return view.ts;
            }
            self.is_careful.store(change > 2, Ordering::SeqCst);
            self.go_on(300);
            insist("repairing", || repair(&session.pair()));
        }
        unreachable!("it ends before")
    }
}

fn run(seed: u64, events: Events) {
    let ranges = Ranges::new(2);
    ranges.let_clock_run();
    let to = BOTH[usize::from(seed.is_multiple_of(2))];
    let server = |name, is_sharp| Server::new(&ranges, name, is_sharp, parents());
    let (a, b) = (server("a", true), server("b", seed % 4 < 2));
    let mut run = Run {
        ranges: Arc::clone(&ranges),
        random: StdRng::seed_from_u64(seed),
        going: Arc::new(AtomicBool::new(true)),
        is_careful: Arc::default(),
        to,
        sessions: Vec::new(),
    };
    let rows: Vec<Line> = (0..PARENTS).map(parent).collect();
    run.session(&a).pair().parents.put(&rows).expect("all is calm");
    run.begin(&a, 1);
    run.begin(&b, 2);
    run.go_on(200);
    let dead = events.dies.then(|| {
        let c = server("c", false);
        let (session, seed) = (run.session(&c), run.random.random());
        let adding = thread::spawn(move || session.add(1, seed));
        let alive_ms = run.random.random_range(30..500);
        run.go_on(alive_ms);
        c.gateway.way.cut_off(true);
        run.go_on(300);
        run.ranges.advance(LEASE_MS + 30_000);
        (c, adding)
    });
    if events.is_gone {
        b.gateway.way.cut_off(true);
        let (ranges, way) = (Arc::clone(&ranges), Arc::clone(&b.gateway.way));
        let [before_ms, after_ms] =
            [(0, 300), (200, 1_200)].map(|(a, b)| run.random.random_range(a..b));
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(before_ms));
            ranges.advance(LEASE_MS + 10_000);
            thread::sleep(Duration::from_millis(after_ms));
            way.cut_off(false);
        });
    }
    let view = insist("reading", || caught(|| a.gateway.now()));
    let f = match insist("reading", || committed(&a.gateway, &view)) {
        Some(_) => view.ts,
        None => run.add(&a),
    };
    run.go_on(300);
    if let Some((c, adding)) = dead {
        c.gateway.way.cut_off(false);
        _ = adding.join().expect("no panic");
    }
    run.go_on(500);
    run.going.store(false, Ordering::SeqCst);
    let mut tales = Tales::new();
    for session in std::mem::take(&mut run.sessions) {
        tales.extend(session.join().expect("no panic"));
    }
    for server in [&a, &b] {
        server.gateway.way.set_faults(Faults::default());
    }
    let end = insist("reading", || caught(|| a.gateway.now())).ts;
    check_receipts(&a, end, &tales);
    let done = tales.values().filter_map(|told| match told {
        Told::Done { at } => Some(*at),
        Told::Failed | Told::Nothing => None,
    });
    let (done, after): (Vec<Ts>, Vec<Ts>) = done.partition(|ts| *ts < f);
    let pair = run.session(&b).pair();
    for ts in after.iter().copied().chain([f, end]) {
        let orphans = pair.orphans(&at(ts)).expect("the store answers");
        assert_eq!(orphans, Vec::<Line>::new(), "at {ts}, added at {f} or before");
    }
    let (done, after, all) = (done.len(), after.len(), tales.len());
    eprintln!("seed {seed}: {done} done, {after} after it, of {all}, {events:?}");
    assert!(after > 0, "{done} of {all} transactions were before it");
}

#[test]
fn no_view_has_an_orphan() {
    runs(2, Events::default(), run);
}

#[test]
fn who_dies_as_he_adds_it_leaves_it_or_nothing() {
    runs(5, Events { dies: true, ..Events::default() }, run);
}

#[test]
fn who_is_gone_meanwhile_leaves_no_orphan() {
    runs(7, Events { is_gone: true, ..Events::default() }, run);
}
