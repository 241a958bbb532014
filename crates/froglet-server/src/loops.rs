//! Session loops: one thread for each core, on which its sessions take turns.
//!
//! ```text
//!   accept ──▶ the loop with the fewest sessions
//!                 │   wait for sockets ▶ read ▶ run ▶ write ▶ the next session that is ready
//!                 └── long work: `block_in_place` hands the loop to another thread and goes on
//! ```
//! A session stays on its loop. Were all of them on one scheduler that steals, each message would
//! wake a second thread to look for work that is done before it has looked: on two cores that was a
//! third of the server's time under pgbench (docs/notes/2026-11-21-session-loops.md).
//!
//! L1: nothing a session does on its loop takes longer than a few thousand rows do. What may, is
//!     wrapped (`froglet_txn::aside`): the others of the loop do not wait for it. Where there are no
//!     others, a session syncs the log in its own thread (`is_alone`).

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

thread_local! {
    /// The sessions of the loop that this thread belongs to.
    static COMPANY: OnceCell<Arc<AtomicUsize>> = const { OnceCell::new() };
}

/// Whether this thread belongs to a loop with one session: then that one may wait for the disk in
/// it (a session that comes meanwhile waits with it).
pub(crate) fn is_alone() -> bool {
    COMPANY.with(|sessions| sessions.get().is_some_and(|n| n.load(Ordering::Relaxed) == 1))
}

/// The loops. Dropped, they stop without waiting for what still runs on them.
#[derive(Debug)]
pub(crate) struct Loops {
    loops: Vec<Loop>,
}

#[derive(Debug)]
struct Loop {
    runtime: Option<Runtime>,
    sessions: Arc<AtomicUsize>,
}

/// One session on a loop, for as long as it lives.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Loops {
    /// So many loops (0: as many as there are cores), for at most so many sessions.
    pub(crate) fn start(loops: usize, max_sessions: usize) -> io::Result<Loops> {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let loops = if loops == 0 { cores } else { loops };
        let loops = (0..loops).map(|_| Loop::start(max_sessions)).collect::<io::Result<_>>()?;
        Ok(Loops { loops })
    }

    /// Runs a session's life on the loop that has the fewest.
    pub(crate) fn spawn<F>(&self, tasks: &mut JoinSet<()>, session: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let least = self.loops.iter().min_by_key(|l| l.sessions.load(Ordering::Relaxed));
        let chosen = least.expect("there is at least one loop");
        chosen.sessions.fetch_add(1, Ordering::Relaxed);
        let place = Place(chosen.sessions.clone());
        let runtime = chosen.runtime.as_ref().expect("a loop has its runtime until it is dropped");
        tasks.spawn_on(
            async move {
                let _place = place;
                session.await;
            },
            runtime.handle(),
        );
    }
}

impl Loop {
    fn start(max_sessions: usize) -> io::Result<Loop> {
        let sessions = Arc::<AtomicUsize>::default();
        let company = sessions.clone();
        let runtime = Builder::new_multi_thread()
            .on_thread_start(move || {
                // A thread starts once.
                COMPANY.with(|sessions| sessions.set(company.clone())).unwrap_or_default();
            })
            .worker_threads(1)
            // Each session may be at long work, and somebody must keep the loop.
            .max_blocking_threads(max_sessions + 8)
            .thread_name("froglet-session")
            .enable_all()
            .build()?;
        Ok(Loop { runtime: Some(runtime), sessions })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
