//! The transformer: finds blocks that have gone cold, and turns them into Arrow.
//!
//! ```text
//!   collector ── touched ──▶ queue ──▶ quiet for long enough? ──▶ freeze ──▶ done
//!                              ▲             │ no                   │ busy
//!                              └─────────────┴──────────────────────┘
//! ```
//!
//! After "Mainlining Databases" (VLDB 2021), section 4.2: the access observer rides on the collector's
//! pass over undo records, so that no writer pays for it. A block is in the queue at most once.
//!
//! A block that is written to soon after it was frozen was frozen too early: each time that happens it is
//! left alone for twice as long. While others commit, a transformer rests for several times as long as
//! it worked.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_epoch as epoch;
use froglet_engine::env::Env;
use froglet_engine::{Dictionary, RowId};

use crate::block::Block;
use crate::column::Freezing;
use crate::compact::GROUP_BLOCKS;
use crate::engine::Core;
use crate::freeze::Attempt;
use crate::space::Space;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Between two passes over the queue, at most and at least.
const PASS_INTERVAL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));
/// A block that was frozen for less than so many times the wait before it was frozen too early.
const TOO_EARLY: u64 = 4;
/// The wait is doubled at most so often.
const PATIENCE_MAX: u8 = 8;
/// While others commit: rest for so many times the work.
const REST: u32 = 15;
const NICENESS: i32 = 10;

/// When blocks are frozen, and by how many threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct FreezeOptions {
    /// A block is frozen when nobody has written to it for so long; never: never.
    pub after: Option<Duration>,
    /// Threads that do it. Without, [`crate::MemoryEngine::freeze_cold`] does.
    pub threads: usize,
    /// Whether equal strings of a block are kept once, where nothing is said of their column.
    pub dictionary: Dictionary,
}

/// What the access observer knows of a block.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// When the collector last met a write, about; nanoseconds of `Env`.
    touched_ns: AtomicU64,
    /// When it was last frozen; 0 if its thaw has been seen.
    frozen_ns: AtomicU64,
    /// How often the wait is doubled.
    patience: AtomicU8,
    queued: AtomicBool,
}

impl Observed {
    /// How long nobody may have written before it is frozen.
    fn wait_ns(&self, after_ns: u64) -> u64 {
        after_ns.saturating_mul(1 << self.patience.load(Ordering::Relaxed))
    }

    /// It was written to, and may have been frozen before: was that too early?
    fn learn(&self, after_ns: u64) {
        let frozen_ns = self.frozen_ns.swap(0, Ordering::Relaxed);
        if frozen_ns == 0 {
            return;
        }
        let cold_ns = self.touched_ns.load(Ordering::Relaxed).saturating_sub(frozen_ns);
        let patience = self.patience.load(Ordering::Relaxed);
        let is_early = cold_ns < self.wait_ns(after_ns).saturating_mul(TOO_EARLY);
        let patience = if is_early { (patience + 1).min(PATIENCE_MAX) } else { 0 };
        self.patience.store(patience, Ordering::Relaxed);
    }
}

/// Blocks that may go cold.
pub(crate) struct Cooling {
    env: Arc<dyn Env>,
    queue: Mutex<VecDeque<(Weak<Space>, u32)>>,
    /// `u64::MAX` is never.
    after_ns: AtomicU64,
    dictionary: Dictionary,
    /// How many are compacted together.
    group_blocks: AtomicUsize,
    stop: AtomicBool,
}

fn nanoseconds(after: Option<Duration>) -> u64 {
    after.map_or(u64::MAX, |after| u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
}

impl Cooling {
    pub fn new(env: Arc<dyn Env>, options: FreezeOptions) -> Cooling {
        Cooling {
            env,
            queue: Mutex::default(),
            after_ns: AtomicU64::new(nanoseconds(options.after)),
            group_blocks: AtomicUsize::new(GROUP_BLOCKS),
            dictionary: options.dictionary,
            stop: AtomicBool::new(false),
        }
    }

    /// Changes how long nobody may have written to a block before it is frozen.
    pub fn set_after(&self, after: Option<Duration>) {
        self.after_ns.store(nanoseconds(after), Ordering::Relaxed);
    }

    /// Changes how many blocks are compacted together.
    pub fn set_group_blocks(&self, blocks: usize) {
        self.group_blocks.store(blocks, Ordering::Relaxed);
    }

    /// The present, for [`Cooling::touch`].
    pub fn now_ns(&self) -> u64 {
        self.env.now_ns()
    }

    /// A block was written to, not long before `now_ns`.
    pub fn touch(&self, space: &Arc<Space>, number: u32, block: &Block, now_ns: u64) {
        block.observed.touched_ns.store(now_ns, Ordering::Relaxed);
        let queued = &block.observed.queued;
        if !queued.load(Ordering::Relaxed) && !queued.swap(true, Ordering::AcqRel) {
            self.queue.lock().push_back((Arc::downgrade(space), number));
        }
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Core {
    /// Looks once at every block in the queue, and freezes those that are cold. Returns how many
    /// were frozen.
    pub fn freeze_cold(&self) -> usize {
        let cooling = &self.cooling;
        let mut frozen = 0;
        let waiting = cooling.queue.lock().len();
        for _ in 0..waiting {
            let after_ns = cooling.after_ns.load(Ordering::Relaxed);
            if after_ns == u64::MAX || cooling.stop.load(Ordering::Relaxed) {
                break;
            }
            let Some((space, number)) = cooling.queue.lock().pop_front() else { break };
            let Some(space) = space.upgrade() else { continue };
            let Some(block) = space.block(number) else { continue };
            let observed = &block.observed;
            observed.learn(after_ns);
            let quiet_ns =
                cooling.now_ns().saturating_sub(observed.touched_ns.load(Ordering::Relaxed));
            if quiet_ns < observed.wait_ns(after_ns) {
                cooling.queue.lock().push_back((Arc::downgrade(&space), number));
                continue;
            }
            frozen += usize::from(self.freeze_cooling(&space, number, block));
        }
        frozen
    }

    /// Freezes a block that was taken from the queue; puts it back if it is busy.
    fn freeze_cooling(&self, space: &Arc<Space>, number: u32, block: &Block) -> bool {
        let (begun, before) = (Instant::now(), self.timeline.now());
        let now_ns = self.cooling.now_ns();
        // From here on whoever touches it enters it again.
        block.observed.queued.store(false, Ordering::Release);
        let frozen = self.freeze_block(space, number, block);
        if frozen {
            block.observed.frozen_ns.store(now_ns.max(1), Ordering::Relaxed);
        } else {
            self.cooling.touch(space, number, block, now_ns);
        }
        if self.timeline.now() != before {
            std::thread::sleep(begun.elapsed() * REST);
        }
        frozen
    }

    /// Freezes the hot columns of a block now, if there are no versions in it.
    pub fn freeze_block(&self, space: &Space, number: u32, block: &Block) -> bool {
        let freezing = Freezing {
            dictionary: self.cooling.dictionary,
            chosen: &space.dictionaries.load(),
            budget: &self.budget,
            guard: &epoch::pin(),
        };
        match block.freeze(|| space.rows_in_block(number), &freezing) {
            Ok(Attempt::Frozen(_)) => true,
            Ok(Attempt::Busy) => false,
            Err(error) => {
                tracing::debug!(%error, block = number, "a block is not frozen");
                false
            }
        }
    }

    /// See [`froglet_engine::Table::plan_moves`].
    pub fn plan_moves(&self, space: &Space, cold_only: bool) -> Vec<(RowId, RowId)> {
        space.release_emptied();
        // Who listens, or keeps the past, is a migration: it goes by row ids.
        if space.has_feeds() || space.oldest_pin() != u64::MAX {
            return Vec::new();
        }
        let after_ns = self.cooling.after_ns.load(Ordering::Relaxed);
        let now_ns = self.cooling.now_ns();
        let group_blocks = self.cooling.group_blocks.load(Ordering::Relaxed);
        space.plan_moves(group_blocks, |block| {
            let quiet_ns = now_ns.saturating_sub(block.observed.touched_ns.load(Ordering::Relaxed));
            !cold_only || (after_ns != u64::MAX && quiet_ns >= block.observed.wait_ns(after_ns))
        })
    }

    /// Collects what nobody needs, then freezes what can be of a space.
    pub fn freeze_space(&self, space: &Space) -> u64 {
        self.collect(usize::MAX, true);
        space.release_emptied();
        let hot = space.blocks().filter(|(_, block)| !block.is_frozen(&epoch::pin()));
        hot.filter(|(number, block)| self.freeze_block(space, *number, block)).count() as u64
    }

    /// Every block of every space may be cold: after a start.
    pub fn touch_all(&self) {
        let spaces: Vec<Arc<Space>> = self.spaces.read().values().cloned().collect();
        for space in spaces {
            for (number, block) in space.blocks() {
                self.cooling.touch(&space, number, block, self.cooling.now_ns());
            }
        }
    }

    /// Runs on the threads `froglet-freezer`.
    pub fn run_transformer(&self) {
        // Where that is not allowed it goes on as everybody.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        let cooling = &self.cooling;
        while !cooling.stop.load(Ordering::Relaxed) {
            self.freeze_cold();
            let after = Duration::from_nanos(cooling.after_ns.load(Ordering::Relaxed));
            std::thread::park_timeout((after / 4).clamp(PASS_INTERVAL.0, PASS_INTERVAL.1));
        }
    }
}
