//! Who waits for whom.
//!
//! A transaction that meets a row held by another waits for the other's end. Edges point from a
//! waiter to its holder; a transaction waits for one at a time, so the graph is a forest as long
//! as nobody closes a circle. Whoever would close one gets 40P01 instead.
//!
//! W1: a holder is in `running` from before its first write until its outcome is visible.
//! W2: an edge is entered under the lock that also covers `running`, so a waiter either sees that
//!     its holder has ended, or is woken by its end.
//! W3: who waits for a holder that has let go of something since the waiter was last told so, is told,
//!     and looks again: what it met may have been let go between its look and its wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use froglet_engine::{IdMap, TxnId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cancel::Limits;
use crate::error::TxnError;

#[derive(Default)]
struct State {
    /// Transactions that may hold something.
    running: IdMap<TxnId, Running>,
    /// Waiter → holder.
    edges: IdMap<TxnId, TxnId>,
    /// An owner of advisory locks → the transaction of its session, or the last one: it lets go after that.
    owners: IdMap<TxnId, Arc<AtomicU64>>,
    /// Waiter → a holder, and of how many of its releases it knows [W3].
    told: IdMap<TxnId, (TxnId, u64)>,
}

#[derive(Default)]
struct Running {
    /// What its waiters listen to.
    bell: Option<Arc<Notify>>,
    /// How often it has let go of something and gone on.
    releases: u64,
}

/// One wait under way, for `froglet.migrations`' sake and for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Who waits.
    pub waiter: TxnId,
    /// For whom.
    pub holder: TxnId,
}

/// The graph of waits.
#[derive(Default)]
pub struct WaitGraph {
    state: Mutex<State>,
}

impl WaitGraph {
    /// `txn` may hold things from now on.
    pub fn started(&self, txn: TxnId) {
        let before = self.state.lock().running.insert(txn, Running::default());
        debug_assert!(before.is_none(), "{txn:?} started twice");
    }

    /// An owner of advisory locks may hold some from now on; `current` is the transaction of its session.
    pub fn owner_started(&self, owner: TxnId, current: Arc<AtomicU64>) {
        self.started(owner);
        self.state.lock().owners.insert(owner, current);
    }

    /// `txn` has let go of everything it held: its waiters go on. Also at a rollback to a
    /// savepoint, after which it goes on running.
    pub fn released(&self, txn: TxnId) {
        let mut state = self.state.lock();
        let Some(running) = state.running.get_mut(&txn) else { return };
        running.releases += 1;
        let bell = running.bell.take();
        if bell.is_some() {
            // They look again: whom they wait for then is not known yet.
            state.edges.retain(|_, holder| *holder != txn);
        }
        drop(state);
        if let Some(bell) = bell {
            bell.notify_waiters();
        }
    }

    /// `txn` has ended.
    pub fn ended(&self, txn: TxnId) {
        let mut state = self.state.lock();
        state.told.remove(&txn);
        state.owners.remove(&txn);
        let bell = state.running.remove(&txn).and_then(|running| running.bell);
        drop(state);
        if let Some(bell) = bell {
            bell.notify_waiters();
        }
    }

    /// The waits under way.
    pub fn waiting(&self) -> Vec<Waiting> {
        let state = self.state.lock();
        state.edges.iter().map(|(&waiter, &holder)| Waiting { waiter, holder }).collect()
    }

    /// Returns when `holder` has ended or released something, perhaps before this was called; the
    /// caller then tries again.
    pub async fn wait(&self, me: TxnId, holder: TxnId, limits: &Limits) -> Result<(), TxnError> {
        assert_ne!(me, holder, "a transaction does not wait for itself");
        limits.check()?;
        let bell = {
            let mut state = self.state.lock();
            let State { running, told, .. } = &mut *state;
            let Some(running) = running.get_mut(&holder) else {
                return Ok(());
            };
            if running.releases > 0 && told.get(&me) != Some(&(holder, running.releases)) {
                told.insert(me, (holder, running.releases));
                return Ok(());
            }
            let bell = running.bell.get_or_insert_with(Default::default).clone();
            if let Some(circle) = circle(&state.edges, &state.owners, me, holder) {
                return Err(TxnError::Deadlock { circle });
            }
            state.edges.insert(me, holder);
            bell
        };
        let _edge = Edge { graph: self, waiter: me };
        let notified = bell.notified();
        tokio::pin!(notified);
        // From here on a ring is not lost; it may have rung between the lock and here.
        if notified.as_mut().enable() || !self.rings(holder, &bell) {
            return limits.check();
        }
        let timeout = async {
            match limits.lock_timeout {
                Some(t) => tokio::time::sleep(t).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut notified => limits.check(),
            e = limits.exceeded() => Err(e),
            () = timeout => Err(TxnError::LockTimeout),
        }
    }

    /// Whether `holder` still runs and will ring this bell.
    fn rings(&self, holder: TxnId, bell: &Arc<Notify>) -> bool {
        let state = self.state.lock();
        let rings = |running: &Running| running.bell.as_ref().is_some_and(|b| Arc::ptr_eq(b, bell));
        state.running.get(&holder).is_some_and(rings)
    }
}

/// The circle that an edge `me → holder` would close.
fn circle(
    edges: &IdMap<TxnId, TxnId>,
    owners: &IdMap<TxnId, Arc<AtomicU64>>,
    me: TxnId,
    holder: TxnId,
) -> Option<Vec<TxnId>> {
    let mut circle = vec![me];
    let mut next = holder;
    loop {
        // An owner stands for the transaction of its session.
        if let Some(current) = owners.get(&next) {
            next = TxnId(current.load(Ordering::SeqCst));
        }
        if next == me {
            return Some(circle);
        }
        circle.push(next);
        next = *edges.get(&next)?;
        assert!(circle.len() <= edges.len() + 2, "the waits of others already form a circle");
    }
}

/// Takes the edge out again however the wait ends.
struct Edge<'a> {
    graph: &'a WaitGraph,
    waiter: TxnId,
}

impl Drop for Edge<'_> {
    fn drop(&mut self) {
        self.graph.state.lock().edges.remove(&self.waiter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const A: TxnId = TxnId(1);
    const B: TxnId = TxnId(2);
    const C: TxnId = TxnId(3);

    fn graph() -> Arc<WaitGraph> {
        let graph = Arc::new(WaitGraph::default());
        for txn in [A, B, C] {
            graph.started(txn);
        }
        graph
    }

    async fn until_waiting(graph: &WaitGraph, n: usize) {
        while graph.waiting().len() < n {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_waiter_goes_on_when_its_holder_ends() {
        let graph = graph();
        let g = graph.clone();
        let waiter = tokio::spawn(async move { g.wait(A, B, &Limits::none()).await });
        until_waiting(&graph, 1).await;
        graph.ended(B);
        waiter.await.unwrap().unwrap();
        assert!(graph.waiting().is_empty());
        graph.wait(A, B, &Limits::none()).await.expect("an ended holder is not waited for");
    }

    #[tokio::test]
    async fn what_is_let_go_before_the_wait_is_looked_at_again() {
        let graph = graph();
        graph.released(B);
        graph.wait(A, B, &Limits::none()).await.expect("it may be free by now");
        // A has looked again, and B holds it still.
        let g = graph.clone();
        let waiter = tokio::spawn(async move { g.wait(A, B, &Limits::none()).await });
        until_waiting(&graph, 1).await;
        assert!(!waiter.is_finished());
        graph.released(B);
        waiter.await.unwrap().unwrap();
        graph.released(B);
        graph.wait(A, B, &Limits::none()).await.expect("once more");
        graph.ended(A);
        assert!(graph.state.lock().told.is_empty());
    }

    #[tokio::test]
    async fn a_circle_of_three_fails_for_the_one_that_closes_it() {
        let graph = graph();
        for (me, holder) in [(A, B), (B, C)] {
            let g = graph.clone();
            tokio::spawn(async move { g.wait(me, holder, &Limits::none()).await });
        }
        until_waiting(&graph, 2).await;
        match graph.wait(C, A, &Limits::none()).await {
            Err(TxnError::Deadlock { circle }) => assert_eq!(circle, [C, A, B]),
            other => panic!("expected a deadlock, got {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_circle_through_an_owner_of_advisory_locks_is_found_from_either_side() {
        const OWNER: TxnId = TxnId(9);
        for closes in [A, B] {
            let graph = graph();
            // The session of A has OWNER's locks.
            graph.owner_started(OWNER, Arc::new(AtomicU64::new(A.0)));
            let (first, last) =
                if closes == A { ((B, OWNER), (A, B)) } else { ((A, B), (B, OWNER)) };
            let g = graph.clone();
            tokio::spawn(async move { g.wait(first.0, first.1, &Limits::none()).await });
            until_waiting(&graph, 1).await;
            let closed = graph.wait(last.0, last.1, &Limits::none()).await;
            assert!(matches!(closed, Err(TxnError::Deadlock { circle }) if circle.len() == 2));
            graph.ended(OWNER);
            assert!(graph.state.lock().owners.is_empty());
        }
    }

    #[tokio::test]
    async fn lock_timeout_cancel_and_release_end_a_wait() {
        let graph = graph();
        let limits = Limits { lock_timeout: Some(Duration::from_millis(5)), ..Limits::none() };
        assert!(matches!(graph.wait(A, B, &limits).await, Err(TxnError::LockTimeout)));

        let limits = Limits::none();
        let (g, l) = (graph.clone(), limits.clone());
        let waiter = tokio::spawn(async move { g.wait(A, B, &l).await });
        until_waiting(&graph, 1).await;
        limits.cancel.cancel(crate::CancelReason::User);
        assert!(matches!(waiter.await.unwrap(), Err(TxnError::Canceled)));

        let g = graph.clone();
        let waiter = tokio::spawn(async move { g.wait(A, B, &Limits::none()).await });
        until_waiting(&graph, 1).await;
        graph.released(B);
        waiter.await.unwrap().unwrap();
    }
}
