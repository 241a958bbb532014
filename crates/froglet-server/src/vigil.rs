//! Staying awake between messages.
//!
//! ```text
//!            was_busy                     quiet for AWAKE
//!   asleep ────────────▶ awake ──┬──────────────────────────▶ asleep
//!                          ▲     │ the loop looks at its sockets,
//!                          └─────┘ other threads have the core if they want it
//!                                │
//!                                └── they kept it for long: no vigil for a while ──▶ asleep
//! ```
//! A client that works answers within microseconds, and to sleep and be woken costs more than that,
//! above all in a virtual machine, whose idle core is given away. So the loop of a single session
//! goes on looking for a moment. With more sessions there is nearly always something to do, and
//! it was no gain (docs/notes/2026-11-22-vigil.md).
//!
//! V1: whoever calls `was_busy` after the vigil has ended begins another, unless it rests.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task;
use tokio::time::sleep;

/// How long after the last message.
const AWAKE: Duration = Duration::from_micros(50);
/// Who gives way to a thread that computes has the core back after a time slice, some milliseconds.
/// Clients, which have little to do for each message, keep it for less than this.
const CROWDED: Duration = Duration::from_millis(1);
/// Then a vigil does harm, for a sleeper that is woken comes before who computes. The first rest, and
/// the longest: each is twice the one before, until a vigil is not disturbed.
const REST: Duration = Duration::from_millis(50);
const LONGEST_REST: Duration = Duration::from_millis(1600);

const ASLEEP: u8 = 0;
const QUIET: u8 = 1;
const BUSY: u8 = 2;

/// How a vigil ended.
enum End {
    Quiet,
    Crowded,
}

/// Keeps one loop awake.
#[derive(Debug, Default)]
pub(crate) struct Vigil {
    /// ASLEEP, or what happened since the last look.
    state: AtomicU8,
    begin: Notify,
}

impl Vigil {
    /// A session was busy and waits for its client now.
    pub(crate) fn was_busy(&self) {
        if self.state.load(Ordering::Relaxed) != BUSY
            && self.state.swap(BUSY, Ordering::AcqRel) == ASLEEP
        {
            self.begin.notify_one();
        }
    }

    /// A task of the loop, for as long as that lives.
    pub(crate) async fn keep(&self) {
        let mut rest = REST;
        loop {
            self.begin.notified().await;
            match self.watch().await {
                End::Quiet => rest = REST,
                End::Crowded => {
                    sleep(rest).await;
                    rest = LONGEST_REST.min(rest * 2);
                    self.state.store(ASLEEP, Ordering::Release);
                }
            }
        }
    }

    async fn watch(&self) -> End {
        let mut last = Instant::now();
        loop {
            // The loop looks at its sockets without waiting, and comes back here first;
            task::yield_now().await;
            // then it serves the sessions that are ready, and comes back.
            after_the_ready().await;
            let now = Instant::now();
            if self.state.swap(QUIET, Ordering::AcqRel) == BUSY {
                last = now;
                continue;
            }
            if now - last > AWAKE && self.falls_asleep() {
                return End::Quiet;
            }
            thread::yield_now();
            if now.elapsed() > CROWDED {
                return End::Crowded;
            }
        }
    }

    fn falls_asleep(&self) -> bool {
        self.state.compare_exchange(QUIET, ASLEEP, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Goes to the end of the loop's queue. (tokio's `yield_now` comes back before what the sockets had.)
async fn after_the_ready() {
    let mut queued = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut queued, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Runs `work` beside a vigil that is kept, both on one loop: neither runs before the other waits.
    fn beside<F: Future<Output = ()> + Send + 'static>(work: impl FnOnce(Arc<Vigil>) -> F) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .expect("a runtime starts");
        let vigil = Arc::<Vigil>::default();
        let kept = vigil.clone();
        let keeper = runtime.spawn(async move { kept.keep().await });
        runtime.block_on(runtime.spawn(work(vigil))).expect("the test passes");
        assert!(!keeper.is_finished(), "it is kept for as long as the loop lives");
    }

    #[test]
    fn every_vigil_ends_and_another_can_begin() {
        beside(|vigil| async move {
            for _ in 0..20 {
                vigil.was_busy();
                assert_eq!(vigil.state.load(Ordering::Acquire), BUSY, "the next look sees it");
                while vigil.state.load(Ordering::Acquire) != ASLEEP {
                    sleep(Duration::from_millis(1)).await;
                }
            }
        });
    }

    #[test]
    fn a_vigil_lasts_while_sessions_are_busy() {
        beside(|vigil| async move {
            for _ in 0..1_000 {
                vigil.was_busy();
                task::yield_now().await;
                assert_ne!(
                    vigil.state.load(Ordering::Acquire),
                    ASLEEP,
                    "each look is at a busy loop"
                );
            }
        });
    }
}
