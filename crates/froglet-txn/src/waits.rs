//! Who waits for whom.
//!
//! A transaction that meets a row held by another waits for the other's end. Edges point from a
//! waiter to its holder; a transaction waits for one at a time, so the graph is a forest as long
//! as nobody closes a circle. Whoever would close one gets 40P01 instead.
//!
//! W1: a holder is in `running` from before its first write until its outcome is visible.
//! W2: an edge is entered under the lock that also covers `running`, so a waiter either sees that
//!     its holder has ended, or is woken by its end.

use std::sync::Arc;

use froglet_engine::{IdMap, TxnId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cancel::Limits;
use crate::error::TxnError;

#[derive(Default)]
struct State {
    /// Transactions that may hold something, with the bell their waiters listen to.
    running: IdMap<TxnId, Option<Arc<Notify>>>,
    /// Waiter → holder.
    edges: IdMap<TxnId, TxnId>,
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
        let before = self.state.lock().running.insert(txn, None);
        debug_assert!(before.is_none(), "{txn:?} started twice");
    }

    /// `txn` has let go of everything it held: its waiters go on. Also at a rollback to a
    /// savepoint, after which it goes on running.
    pub fn released(&self, txn: TxnId) {
        let bell = self.state.lock().running.get_mut(&txn).and_then(Option::take);
        if let Some(bell) = bell {
            bell.notify_waiters();
        }
    }

    /// `txn` has ended.
    pub fn ended(&self, txn: TxnId) {
        let bell = self.state.lock().running.remove(&txn).flatten();
        if let Some(bell) = bell {
            bell.notify_waiters();
        }
    }

    /// The waits under way.
    pub fn waiting(&self) -> Vec<Waiting> {
        let state = self.state.lock();
        state.edges.iter().map(|(&waiter, &holder)| Waiting { waiter, holder }).collect()
    }

    /// Returns when `holder` has ended or released something; the caller then tries again.
    pub async fn wait(&self, me: TxnId, holder: TxnId, limits: &Limits) -> Result<(), TxnError> {
        assert_ne!(me, holder, "a transaction does not wait for itself");
        limits.check()?;
        let bell = {
            let mut state = self.state.lock();
            let Some(bell) = state.running.get_mut(&holder) else {
                return Ok(());
            };
            let bell = bell.get_or_insert_with(Default::default).clone();
            if let Some(circle) = circle(&state.edges, me, holder) {
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
        matches!(state.running.get(&holder), Some(Some(b)) if Arc::ptr_eq(b, bell))
    }
}

/// The circle that an edge `me → holder` would close.
fn circle(edges: &IdMap<TxnId, TxnId>, me: TxnId, holder: TxnId) -> Option<Vec<TxnId>> {
    let mut circle = vec![me];
    let mut next = holder;
    loop {
        circle.push(next);
        match edges.get(&next) {
            Some(&n) if n == me => return Some(circle),
            Some(&n) => next = n,
            None => return None,
        }
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
