//! Session loops: one thread for each core, on which its sessions take turns.
//!
//! ```text
//!   accept ──▶ the loop with the fewest sessions
//!                 │   wait for sockets ▶ read ▶ run ▶ write ▶ the next session that is ready
//!                 │     ▲                       └── nothing ready: awake for a moment (`vigil.rs`)
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

use crate::vigil::Vigil;

thread_local! {
    /// The loop that this thread belongs to.
    static OWN: OnceCell<Arc<Company>> = const { OnceCell::new() };
}

/// What the sessions of one loop share.
#[derive(Debug, Default)]
struct Company {
    sessions: AtomicUsize,
    vigil: Vigil,
}

impl Company {
    fn is_one(&self) -> bool {
        self.sessions.load(Ordering::Relaxed) == 1
    }
}

/// Whether this thread belongs to a loop with one session: then that one may wait for the disk in
/// it (a session that comes meanwhile waits with it).
pub(crate) fn is_alone() -> bool {
    OWN.with(|own| own.get().is_some_and(|own| own.is_one()))
}

/// A session of this thread's loop was busy. If it has the loop to itself, that stays awake for a
/// moment, for the next message may be near (`vigil.rs`).
pub(crate) fn was_busy() {
    OWN.with(|own| {
        if let Some(own) = own.get().filter(|own| own.is_one()) {
            own.vigil.was_busy();
        }
    });
}

/// The loops. Dropped, they stop without waiting for what still runs on them.
#[derive(Debug)]
pub(crate) struct Loops {
    loops: Vec<Loop>,
}

#[derive(Debug)]
struct Loop {
    runtime: Option<Runtime>,
    company: Arc<Company>,
}

/// One session on a loop, for as long as it lives.
struct Place(Arc<Company>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.sessions.fetch_sub(1, Ordering::Relaxed);
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
        let least = self.loops.iter().min_by_key(|l| l.company.sessions.load(Ordering::Relaxed));
        let chosen = least.expect("there is at least one loop");
        chosen.company.sessions.fetch_add(1, Ordering::Relaxed);
        let place = Place(chosen.company.clone());
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
        let company = Arc::<Company>::default();
        let own = company.clone();
        let runtime = Builder::new_multi_thread()
            .on_thread_start(move || {
                // A thread starts once.
                OWN.with(|known| known.set(own.clone())).unwrap_or_default();
            })
            .worker_threads(1)
            // Each session may be at long work, and somebody must keep the loop.
            .max_blocking_threads(max_sessions + 8)
            .thread_name("froglet-session")
            .thread_stack_size(froglet_sql::STACK_BYTES)
            .enable_all()
            .build()?;
        let watched = company.clone();
        runtime.spawn(async move { watched.vigil.keep().await });
        Ok(Loop { runtime: Some(runtime), company })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
