//! Parents and children at several gateways: by name here, and from a seed in `by_seed`.
//!
//! ```text
//!   child    requires its parent ─▶ row ─▶ commit: the parent's key is locked ─▶ prewritten ─▶ committed
//!   parent   row is deleted, or has another key ─▶ children are looked for    ─▶ prewritten ─▶ committed
//! ```
//! What a session asks is what froglet-sql asks: a child requires its parent when its row is written, and who takes a key
//! away looks for children then.

mod by_seed;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use froglet_engine::{
    Built, EngineError, EngineTxn, IndexSpec, OnlineForeignKey, Row, RowWrite, Snapshot, SqlState,
    Ts, Value, key,
};
use froglet_testkit::ranges::Fault;

use crate::builds::place::{At, CODE, ID, Line, Shape, TAG, index, list};
use crate::fences::{Gateway, Outcome, caught, gateways, space, wait_until};
use crate::support::outlive_locks;

/// A unique index of the parent's codes, and one of the children's.
const CODES: u32 = 10;
const REFERENCES: u32 = 11;
/// The column of a child that says which its parent is.
const PARENT: usize = CODE;

/// Which key of the parent children refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Primary,
    Unique,
}

const BOTH: [To; 2] = [To::Primary, To::Unique];

impl To {
    fn column(self) -> usize {
        if self == To::Primary { ID } else { CODE }
    }
}

fn parents() -> Shape {
    Shape { space: space(7), is_keyed: true, within: None }
}

fn children() -> Shape {
    Shape { space: space(8), is_keyed: true, within: None }
}

fn parent(number: i64) -> Line {
    vec![Some(number), Some(number), Some(0)]
}

fn child(id: i64, parent: i64) -> Line {
    vec![Some(id), Some(parent), None]
}

/// Both tables at a gateway.
#[derive(Clone)]
struct Pair {
    gateway: Gateway,
    to: To,
    parents: At,
    children: At,
}

fn missing() -> EngineError {
    let message = "it has no parent, or is one".to_owned();
    EngineError::Refused { state: SqlState::FOREIGN_KEY_VIOLATION, message }
}

impl Pair {
    fn with(gateway: &Gateway, to: To, of_children: &[IndexSpec]) -> Pair {
        Pair {
            gateway: gateway.clone(),
            to,
            parents: parents().at(gateway, &[index(CODES, CODE, true)]),
            children: children().at(gateway, of_children),
        }
    }

    fn new(gateway: &Gateway, to: To) -> Pair {
        Pair::with(gateway, to, &[index(REFERENCES, PARENT, false)])
    }

    fn fresh(&self, txn: &dyn EngineTxn) -> Arc<Snapshot> {
        froglet_engine::Engine::fresh(&*self.gateway.engine, txn.id())
    }

    /// The layout position of the parent's index.
    fn index(&self) -> usize {
        match self.to {
            To::Primary => 0,
            To::Unique => self.parents.position(CODES),
        }
    }

    fn key(&self, number: i64) -> Vec<u8> {
        let spec = &self.parents.table.layout().indexes[self.index()];
        key::encode([&Value::Int64(number)], &spec.key)
    }

    /// Requires a parent as of now; whether it is there.
    fn require(&self, txn: &mut dyn EngineTxn, number: i64) -> Outcome<bool> {
        let (view, keys) = (self.fresh(txn), [self.key(number)]);
        let referenced = self.parents.table.referenced().expect("it is a cluster's");
        let missing = caught(|| referenced.require(txn, &view, self.index(), &keys)).flatten()?;
        Ok(missing.is_none())
    }

    /// Inserts a child, if there is a parent for it.
    fn give(&self, txn: &mut dyn EngineTxn, line: &Line) -> Outcome<()> {
        let before = txn.savepoint();
        self.children.insert(txn, line)?;
        match line[PARENT] {
            Some(number) if !self.require(txn, number)? => {
                txn.rollback_to(before);
                Err(missing())
            }
            _ => Ok(()),
        }
    }

    /// Deletes a parent, if it has no children.
    fn take(&self, txn: &mut dyn EngineTxn, number: i64) -> Outcome<()> {
        let before = txn.savepoint();
        self.parents.delete_of(txn, number)?;
        match self.has_children(&self.fresh(txn), number)? {
            true => {
                txn.rollback_to(before);
                Err(missing())
            }
            false => Ok(()),
        }
    }

    fn has_children(&self, view: &Snapshot, number: i64) -> Outcome<bool> {
        let rows = self.children.rows(view)?;
        Ok(rows.iter().any(|line| line[PARENT] == Some(number)))
    }

    /// Children that have no parent.
    fn orphans(&self, view: &Snapshot) -> Outcome<Vec<Line>> {
        let column = self.to.column();
        let keys: Vec<_> = self.parents.rows(view)?.into_iter().map(|line| line[column]).collect();
        let mut children = self.children.rows(view)?;
        children.retain(|line| line[PARENT].is_some() && !keys.contains(&line[PARENT]));
        Ok(children)
    }

    fn check(&self) {
        let orphans = self.orphans(&self.gateway.now()).expect("the store answers");
        assert_eq!(orphans, Vec::<Line>::new());
    }

    /// Adds the foreign key, and waits until all keep to it.
    fn add(&self, txn: &mut dyn EngineTxn, is_verified: bool) -> Outcome<Built> {
        let message = "it was broken meanwhile".to_owned();
        let violated = EngineError::Refused { state: SqlState::FOREIGN_KEY_VIOLATION, message };
        let wanted = OnlineForeignKey {
            id: 99,
            columns: vec![PARENT],
            parent: &*self.parents.table,
            parent_index: self.index(),
            is_known: false,
            is_verified,
            violated,
        };
        self.begin(txn, wanted)
    }

    /// Looks at all children, as everybody keeps to it already.
    fn look(&self, txn: &mut dyn EngineTxn) -> Outcome<Built> {
        let wanted = OnlineForeignKey {
            id: 99,
            columns: vec![PARENT],
            parent: &*self.parents.table,
            parent_index: self.index(),
            is_known: true,
            is_verified: true,
            violated: missing(),
        };
        self.begin(txn, wanted)
    }

    fn begin(&self, txn: &mut dyn EngineTxn, wanted: OnlineForeignKey<'_>) -> Outcome<Built> {
        let building = caught(|| self.children.online().refer_online(txn, wanted)).flatten()?;
        self.gateway.engine.handle().block_on(building)
    }

    /// A schema change that adds it.
    fn publish(&self, change: i64) -> Outcome<Ts> {
        let mut txn = self.gateway.closing(change, &[])?;
        assert_eq!(self.add(&mut *txn, true)?, Built::Whole);
        self.gateway.commit(txn)
    }
}

fn two(to: To) -> (Arc<froglet_testkit::ranges::Ranges>, Pair, Pair) {
    let (ranges, a, b) = gateways();
    let (a, b) = (Pair::new(&a, to), Pair::new(&b, to));
    a.parents.put(&(0..10).map(parent).collect::<Vec<_>>()).expect("nobody is in the way");
    (ranges, a, b)
}

fn is_failed<T: std::fmt::Debug>(outcome: Outcome<T>) {
    let error = outcome.expect_err("it has failed");
    assert_eq!(error.sqlstate(), SqlState::SERIALIZATION_FAILURE, "{error}");
}

/// Whoever writes it was told so.
fn is_violated<T: std::fmt::Debug>(outcome: Outcome<T>) {
    let error = outcome.expect_err("it is violated");
    assert_eq!(error.sqlstate(), SqlState::FOREIGN_KEY_VIOLATION, "{error}");
}

/// Commits elsewhere; what came of it.
fn committing(gateway: &Gateway, txn: Box<dyn EngineTxn>) -> mpsc::Receiver<Outcome<Ts>> {
    let (gateway, (tell, told)) = (gateway.clone(), mpsc::channel());
    thread::spawn(move || tell.send(gateway.commit(txn)));
    told
}

const A_WHILE: Duration = Duration::from_millis(400);
const LONG: Duration = Duration::from_secs(10);

#[test]
fn a_child_waits_for_who_takes_its_parent_away_and_fails_if_he_does() {
    for to in BOTH {
        for is_deleted in [true, false] {
            let (_ranges, a, b) = two(to);
            let (mut taking, mut giving) = (a.gateway.begin(), b.gateway.begin());
            a.take(&mut *taking, 1).expect("it has no children");
            b.give(&mut *giving, &child(1, 1)).expect("it is there still");
            let given = committing(&b.gateway, giving);
            assert!(given.recv_timeout(A_WHILE).is_err(), "it waits");
            match is_deleted {
                true => _ = a.gateway.commit(taking).expect("nobody is in the way"),
                false => taking.abort(),
            }
            let given = given.recv_timeout(LONG).expect("it goes on");
            match is_deleted {
                true => is_violated(given),
                false => _ = given.expect("it has its parent"),
            }
            a.check();
        }
    }
}

#[test]
fn who_takes_a_parent_away_waits_for_the_commit_of_a_child_and_finds_it() {
    for to in BOTH {
        let (_ranges, a, b) = two(to);
        let mut giving = b.gateway.begin();
        b.give(&mut *giving, &child(1, 1)).expect("it is there");
        b.gateway.reserve(&mut *giving).expect("nobody is in the way");
        let (tell, taken) = mpsc::channel();
        let taker = a.clone();
        thread::spawn(move || {
            let mut taking = taker.gateway.begin();
            tell.send(taker.take(&mut *taking, 1)).expect("it is waited for");
        });
        assert!(taken.recv_timeout(A_WHILE).is_err(), "it waits");
        b.gateway.publish(giving).expect("it has its parent");
        is_violated(taken.recv_timeout(LONG).expect("it goes on"));
        a.check();
    }
}

#[test]
fn a_child_that_has_not_begun_to_commit_holds_nobody_up() {
    for to in BOTH {
        let (_ranges, a, b) = two(to);
        let mut giving = b.gateway.begin();
        b.give(&mut *giving, &child(1, 1)).expect("it is there");
        a.parents.alone(|txn| a.take(txn, 1)).expect("nobody is in the way");
        is_violated(b.gateway.commit(giving));
        a.check();
    }
}

#[test]
fn children_of_one_parent_all_come() {
    for to in BOTH {
        let (_ranges, a, b) = two(to);
        let told: Vec<_> = (0..8)
            .map(|id| {
                let pair = if id % 2 == 0 { &a } else { &b };
                let mut txn = pair.gateway.begin();
                pair.give(&mut *txn, &child(id, 1)).expect("it is there");
                committing(&pair.gateway, txn)
            })
            .collect();
        for told in told {
            told.recv_timeout(LONG).expect("it ends").expect("nobody takes it away");
        }
        a.check();
    }
}

#[test]
fn a_child_that_was_silent_for_too_long_fails_if_its_parent_is_gone() {
    for to in BOTH {
        let (ranges, a, b) = two(to);
        let mut giving = b.gateway.begin();
        b.give(&mut *giving, &child(1, 1)).expect("it is there");
        // Its parent is locked, and it is silent before it prewrites.
        let before = b.gateway.way.asked("KvPrewrite");
        b.gateway.way.on_next("KvPrewrite", Fault::Delay(Duration::from_millis(2_500)));
        let given = committing(&b.gateway, giving);
        wait_until("it prewrites", || b.gateway.way.asked("KvPrewrite") > before);
        outlive_locks(&ranges);
        crate::fences::insist("taking", || a.parents.alone(|txn| a.take(txn, 1)));
        let given = given.recv_timeout(LONG).expect("it ends");
        given.expect_err("what it has decided by is gone");
        a.check();
    }
}

#[test]
fn what_is_undone_requires_nothing_and_what_is_ones_own_is_known() {
    for to in BOTH {
        let (_ranges, a, b) = two(to);
        let mut txn = b.gateway.begin();
        b.children.insert(&mut *txn, &child(1, 2)).expect("nobody is in the way");
        assert!(b.require(&mut *txn, 2).expect("the store answers"));
        let before = txn.savepoint();
        b.give(&mut *txn, &child(2, 1)).expect("it is there");
        txn.rollback_to(before);
        a.parents.alone(|txn| a.take(txn, 1)).expect("nobody is in the way");
        // A parent of its own, and one that it takes away itself with its child.
        b.parents.insert(&mut *txn, &parent(100)).expect("nobody is in the way");
        b.give(&mut *txn, &child(3, 100)).expect("it is there");
        b.give(&mut *txn, &child(4, 3)).expect("it is there");
        b.children.delete_of(&mut *txn, 4).expect("it is there");
        b.take(&mut *txn, 3).expect("it has no children");
        is_violated(b.give(&mut *txn, &child(5, 3)));
        is_violated(b.give(&mut *txn, &child(6, 77)));
        b.gateway.commit(txn).expect("nothing is missing");
        a.check();
        assert_eq!(a.children.rows(&a.gateway.now()).expect("it answers").len(), 2);
    }
}

#[test]
fn a_key_that_another_row_takes_over_is_there() {
    let (_ranges, a, b) = two(To::Unique);
    let mut giving = b.gateway.begin();
    b.give(&mut *giving, &child(1, 1)).expect("it is there");
    a.parents
        .alone(|txn| {
            a.parents.set_of(txn, 1, &[(CODE, None)])?;
            a.parents.set_of(txn, 2, &[(CODE, Some(1))])
        })
        .expect("nobody is in the way");
    b.gateway.commit(giving).expect("another row has the key");
    a.check();
}

#[test]
fn a_row_that_was_only_locked_is_as_it_was() {
    let (_ranges, a, b) = two(To::Primary);
    // Views from before.
    let (mut same, mut other) = (a.gateway.begin(), a.gateway.begin());
    let mut locking = b.gateway.begin();
    b.give(&mut *locking, &child(1, 1)).expect("it is there");
    let rid = b.parents.find(&locking.snapshot().clone(), 2).expect("it is there");
    b.parents.write(&mut *locking, &RowWrite::Lock { rid }).expect("nobody is in the way");
    b.gateway.commit(locking).expect("nobody is in the way");
    b.parents.alone(|txn| b.parents.set_of(txn, 3, &[(TAG, Some(5))])).expect("so is nobody here");
    for id in [1, 2] {
        a.parents.set_of(&mut *same, id, &[(TAG, Some(7))]).expect("it has not changed");
    }
    let rid = a.parents.find(&other.snapshot().clone(), 3).expect("it was there");
    let base = other.snapshot().ts;
    let write = [RowWrite::Update { rid, columns: &[TAG], values: &[Value::Int64(8)] }];
    let stop = a.parents.table.write(&mut *other, base, &write).expect_err("it has changed");
    assert!(matches!(stop.1, froglet_engine::WriteStop::Changed), "{stop:?}");
    // Nor may it be written once it is locked for having changed.
    let again = a.parents.table.write(&mut *other, base, &write).expect_err("it has changed");
    assert!(matches!(again.1, froglet_engine::WriteStop::Changed), "{again:?}");
    a.gateway.commit(same).expect("nobody is in the way");
    other.abort();
    let rows = a.parents.rows(&a.gateway.now()).expect("the store answers");
    assert_eq!(
        rows.iter().map(|line| line[TAG]).take(4).collect::<Vec<_>>(),
        [0, 7, 7, 5].map(Some)
    );
}

#[test]
fn an_orphan_that_is_there_is_found() {
    for to in BOTH {
        let (ranges, a, b) = two(to);
        b.children
            .put(&[child(1, 1), child(2, 55), vec![Some(3), None, None]])
            .expect("nobody is asked");
        let mut txn = a.gateway.closing(1, &[]).expect("nobody is in the way");
        let built = a.add(&mut *txn, true).expect("the store answers");
        assert_eq!(built, Built::Violated(Row::from([Value::Int64(55)])));
        txn.abort();
        wait_until("the list is empty", || list(&ranges).is_none());
        // Of rows that are there nobody asks here.
        let mut txn = a.gateway.closing(2, &[]).expect("nobody is in the way");
        assert_eq!(a.add(&mut *txn, false).expect("the store answers"), Built::Whole);
        a.gateway.commit(txn).expect("nobody is in the way");
        b.children.alone(|txn| b.children.delete_of(txn, 2)).expect("nobody is in the way");
        // Nobody is told, nor waited for.
        let mut txn = b.gateway.closing(3, &[]).expect("nobody is in the way");
        assert_eq!(b.look(&mut *txn).expect("the store answers"), Built::Whole);
        assert_eq!(list(&ranges), None);
        b.gateway.commit(txn).expect("nobody is in the way");
        a.check();
    }
}

#[test]
fn all_children_are_looked_at() {
    for to in BOTH {
        let (_ranges, a, b) = two(to);
        b.children.put(&(0..1_200).map(|id| child(id, id % 10)).collect::<Vec<_>>()).expect("calm");
        b.children.put(&[child(5_000, 77)]).expect("nobody is asked");
        let mut txn = a.gateway.begin();
        let violated = Built::Violated(Row::from([Value::Int64(77)]));
        assert_eq!(a.look(&mut *txn).expect("the store answers"), violated);
        a.parents.insert(&mut *txn, &parent(77)).expect("nobody is in the way");
        assert_eq!(a.look(&mut *txn).expect("the store answers"), Built::Whole);
        a.parents.delete_of(&mut *txn, 3).expect("nobody is asked");
        let violated = Built::Violated(Row::from([Value::Int64(3)]));
        assert_eq!(a.look(&mut *txn).expect("the store answers"), violated);
        txn.abort();
    }
}

/// What somebody does who does not know of it.
type Unknowing = fn(&Pair, &mut dyn EngineTxn) -> Outcome<()>;

const BREAKS: [Unknowing; 4] = [
    |pair, txn| pair.children.insert(txn, &child(100, 55)),
    |pair, txn| pair.children.set_of(txn, 3, &[(PARENT, Some(56))]),
    |pair, txn| pair.parents.delete_of(txn, 3),
    |pair, txn| {
        let column = pair.to.column();
        pair.parents.set_of(txn, 3, &[(column, Some(300))])
    },
];

const KEEPS: [Unknowing; 7] = [
    |pair, txn| pair.children.insert(txn, &child(100, 5)),
    |pair, txn| pair.children.insert(txn, &[Some(100), None, None]),
    |pair, txn| pair.children.set_of(txn, 3, &[(PARENT, Some(4))]),
    |pair, txn| pair.parents.delete_of(txn, 9),
    |pair, txn| pair.parents.set_of(txn, 3, &[(TAG, Some(4))]),
    |pair, txn| {
        pair.children.delete_of(txn, 3)?;
        pair.parents.delete_of(txn, 3)
    },
    |pair, txn| {
        pair.parents.insert(txn, &parent(55))?;
        pair.children.insert(txn, &child(100, 55))
    },
];

fn three_children(b: &Pair) {
    b.children.put(&[child(1, 1), child(2, 2), child(3, 3)]).expect("nobody is asked");
}

#[test]
fn who_does_not_know_of_it_goes_on_and_it_is_not_added_if_he_has_broken_it() {
    for (to, is_verified) in BOTH.into_iter().flat_map(|to| [(to, true), (to, false)]) {
        for (keeps, write) in [(false, BREAKS.to_vec()), (true, KEEPS.to_vec())]
            .into_iter()
            .flat_map(|(keeps, all)| all.into_iter().map(move |write| (keeps, write)))
        {
            let (ranges, a, b) = two(to);
            three_children(&b);
            let mut txn = a.gateway.closing(1, &[]).expect("nobody is in the way");
            assert_eq!(a.add(&mut *txn, is_verified).expect("the store answers"), Built::Whole);
            b.parents.alone(|txn| write(&b, txn)).expect("nobody is refused for what may never be");
            let added = a.gateway.commit(txn);
            match (keeps, is_verified) {
                (false, true) => {
                    is_violated(added);
                    wait_until("the list is empty", || list(&ranges).is_none());
                }
                (true, _) => {
                    added.expect("it holds");
                    a.check();
                }
                (false, false) => _ = added.expect("of what is there nobody asks"),
            }
        }
    }
}

#[test]
fn who_began_before_it_breaks_nothing_behind_it() {
    for (to, is_verified) in BOTH.into_iter().flat_map(|to| [(to, true), (to, false)]) {
        let (_ranges, a, b) = two(to);
        three_children(&b);
        let begin = |write: &Unknowing| {
            let mut txn = b.gateway.begin();
            write(&b, &mut *txn).expect("nobody is in the way");
            txn
        };
        for (n, write) in (1..).zip(BREAKS) {
            let late = begin(&write);
            let mut txn = a.gateway.closing(n, &[]).expect("nobody is in the way");
            assert_eq!(a.add(&mut *txn, is_verified).expect("the store answers"), Built::Whole);
            a.gateway.commit(txn).expect("it holds");
            is_failed(b.gateway.commit(late));
            a.check();
        }
        let late = begin(&KEEPS[0]);
        a.publish(9).expect("it holds");
        b.gateway.commit(late).expect("it has its parent");
        // Who begins behind it has the catalog with it.
        b.parents.alone(|txn| b.take(txn, 9)).expect("it has no children");
        a.check();
    }
}

#[test]
fn what_the_change_has_written_itself_counts() {
    for to in BOTH {
        let (_ranges, a, b) = two(to);
        three_children(&b);
        let add = |n: i64, write: Unknowing| {
            let mut txn = a.gateway.closing(n, &[]).expect("nobody is in the way");
            write(&a, &mut *txn).expect("nobody is in the way");
            let built = a.add(&mut *txn, true).expect("the store answers");
            (txn, built)
        };
        for (n, (write, value)) in (1..).zip(BREAKS.into_iter().zip([55, 56, 3, 3])) {
            let (txn, built) = add(n, write);
            assert_eq!(built, Built::Violated(Row::from([Value::Int64(value)])));
            txn.abort();
        }
        let (txn, built) = add(9, KEEPS[6]);
        assert_eq!(built, Built::Whole);
        a.gateway.commit(txn).expect("it holds");
        a.check();
    }
}

#[test]
fn without_an_index_few_children_are_looked_at_and_of_many_it_is_not_known() {
    let (_ranges, a, b) = two(To::Primary);
    let (a, b) =
        (Pair::with(&a.gateway, To::Primary, &[]), Pair::with(&b.gateway, To::Primary, &[]));
    three_children(&b);
    let add = |n: i64, own: Unknowing, of_others: Unknowing| {
        let mut txn = a.gateway.closing(n, &[]).expect("nobody is in the way");
        own(&a, &mut *txn).expect("nobody is in the way");
        assert_eq!(a.add(&mut *txn, true).expect("the store answers"), Built::Whole);
        b.parents.alone(|txn| of_others(&b, txn)).expect("nobody is refused");
        a.gateway.commit(txn)
    };
    add(1, |_, _| Ok(()), |pair, txn| pair.parents.delete_of(txn, 9)).expect("it had none");
    is_violated(add(2, |_, _| Ok(()), |pair, txn| pair.parents.delete_of(txn, 3)));
    b.parents.put(&[parent(3)]).expect("nobody is in the way");
    let many: Vec<Line> = (100..1_000).map(|id| child(id, 1)).collect();
    b.children.put(&many).expect("nobody is asked");
    add(3, |_, _| Ok(()), |pair, txn| pair.parents.set_of(txn, 8, &[(TAG, Some(4))]))
        .expect("its key is as it was");
    // Its own it has looked at.
    add(4, |pair, txn| pair.parents.delete_of(txn, 8), |_, _| Ok(())).expect("it had none");
    is_violated(add(5, |_, _| Ok(()), |pair, txn| pair.parents.delete_of(txn, 7)));
}

#[test]
fn what_needs_not_hold_before_the_commit_does_behind_it() {
    for (to, write) in BOTH.into_iter().flat_map(|to| BREAKS.map(|write| (to, write))) {
        let (_ranges, a, b) = two(to);
        three_children(&b);
        let mut txn = a.gateway.closing(1, &[]).expect("nobody is in the way");
        assert_eq!(a.add(&mut *txn, false).expect("the store answers"), Built::Whole);
        // It is about to commit, and who breaks it waits for that.
        a.gateway.reserve(&mut *txn).expect("nobody is in the way");
        let mut late = b.gateway.begin();
        write(&b, &mut *late).expect("nobody is in the way");
        let late = committing(&b.gateway, late);
        assert!(late.recv_timeout(A_WHILE).is_err(), "it waits");
        a.gateway.publish(txn).expect("nobody is in the way");
        is_failed(late.recv_timeout(LONG).expect("it goes on"));
        a.check();
    }
}
