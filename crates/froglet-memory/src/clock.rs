//! The timeline: one counter, the registry of read views, and the table of writers.
//!
//! ```text
//!   clock    ── 41 ── 42 ── 43 ── 44 ──▶      commit or abort: fetch_add(1) + 1
//!                      ▲           ▲          snapshot: load
//!   registry     [ 42 | – | 44+| – | … ]      one slot per living read view; + : and whatever comes after
//!   writers      [ id, generation, state ]    one slot per transaction that has written
//! ```
//!
//! A version's **word** is its end timestamp, or a reference to its writer while the writer's fate is
//! open:
//!
//! ```text
//!   63        62       61                    0
//!  +---------+--------+-----------------------+
//!  |    0    |aborted |  end timestamp        |   stamped
//!  +---------+--------+---------+-------------+
//!  |    1    | writer slot (14) | generation  |   ask the writer's slot
//!  +---------+------------------+-------------+
//! ```
//!
//! **[T1] oldest.** `oldest` loads the clock before it scans the registry; a reader publishes a value
//! `p` in the registry before it loads the clock into its snapshot `s`. Both are sequentially
//! consistent. So either the scan sees `p <= s`, or the reader's load came after the scan's and
//! `s` is at least the value the scan started from. Hence no registered snapshot is below `oldest`.
//!
//! **[T5] exactly.** A view whose slot has [`EXACT`] set reads as of the value and of nothing else; any other
//! may read as of the value or later: it has not stored its snapshot yet, or it is an onward view. [`Timeline::views`]
//! loads the clock before it scans; by [T1] who registers after its look has a snapshot at or above that.
//!
//! **[T2] wait for the verdict.** A writer stores PREPARING, then adds to the clock, then stores
//! COMMITTING(ts). A reader whose snapshot `s >= ts` has loaded the clock after that addition, so it
//! sees PREPARING or later, and waits. A reader that sees ACTIVE has `s < ts`, whatever `ts` becomes.
//!
//! **[T3] nothing written after.** Between the addition and the verdict a writer touches no cell. So
//! a reader whose snapshot sees a version has loaded the clock after the last cell of it was stored.
//!
//! **[T4] slot reuse.** A writer stamps all its words before its generation moves on. A reader loads
//! the state, then the generation: if that is still the word's, the state belonged to the word's
//! writer; if not, the word is stamped by now and read again.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::sync::Mutex;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{hint, thread};

/// A word with this bit refers to a writer.
const WRITER: u64 = 1 << 63;
/// A stamped word with this bit belongs to an aborted version.
const ABORTED: u64 = 1 << 62;
const SLOT_SHIFT: u32 = 48;
const GENERATION: u64 = (1 << SLOT_SHIFT) - 1;
/// In the registry: the view's snapshot is the value itself [T5].
const EXACT: u64 = 1 << 63;
/// In the registry of read views: whose one is that is no transaction's.
pub(crate) mod holder {
    /// Whoever reads at the side.
    pub const SIDE: u64 = 0;
    /// Who keeps the past.
    pub const PAST: u64 = (1 << 63) | 1;
    /// A checkpoint.
    pub const CHECKPOINT: u64 = (1 << 63) | 2;
    /// Who reads kept rows.
    pub const KEPT: u64 = (1 << 63) | 3;
}

/// Transactions that may have unfinished writes at one time.
const WRITERS: usize = if cfg!(any(shuttle, miri)) { 4 } else { 1 << 14 };
/// Read views that are registered without a lock; more of them share a map.
const VIEWS: usize = if cfg!(any(shuttle, miri)) { 8 } else { 1 << 14 };

const STATE_SHIFT: u32 = 61;
const STATE_TS: u64 = (1 << STATE_SHIFT) - 1;
const ACTIVE: u64 = 0;
const PREPARING: u64 = 1;
const COMMITTING: u64 = 2;
const COMMITTED: u64 = 3;
const ABORTED_STATE: u64 = 4;

/// In place of the commit timestamp of a version that its own writer sees.
pub(crate) const OWN: u64 = 0;

/// The word of a version that was aborted at `ts`.
pub(crate) fn aborted_word(ts: u64) -> u64 {
    debug_assert!(ts < ABORTED, "timestamps leave the flag bits alone");
    ABORTED | ts
}

/// The end timestamp of a stamped word; none while the writer's fate may be open.
pub(crate) fn stamped_end(word: u64) -> Option<u64> {
    (word & WRITER == 0).then_some(word & !ABORTED)
}

/// Whether a stamped word is an aborted version's.
pub(crate) fn stamped_aborted(word: u64) -> bool {
    word & (WRITER | ABORTED) == ABORTED
}

/// What a version's writer is or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Committed at this timestamp.
    Committed(u64),
    /// Aborted: as if it had never been.
    Aborted,
    /// Not decided: this transaction.
    Open(u64),
}

/// Padding keeps hot words of different threads on different cache lines.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Padded<T>(T);

#[repr(align(64))]
#[derive(Debug, Default)]
struct WriterSlot {
    /// Odd while claimed.
    generation: AtomicU64,
    state: AtomicU64,
    id: AtomicU64,
}

/// A writer's claim on a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer {
    slot: usize,
    generation: u64,
}

impl Writer {
    /// The word of this writer's versions until they are stamped.
    pub fn word(self) -> u64 {
        WRITER | ((self.slot as u64) << SLOT_SHIFT) | (self.generation & GENERATION)
    }
}

/// A place in the registry of read views.
#[derive(Clone, Copy, Debug)]
pub(crate) enum View {
    Slot(usize),
    /// In the map of the views beyond [`VIEWS`], under this key.
    Overflow(u64),
}

/// Whose a read view is.
#[derive(Debug, Default)]
struct Mark {
    /// A transaction's id, or one of [`holder`].
    holder: AtomicU64,
    /// When it was registered, by the timeline's coarse clock.
    since_ns: AtomicU64,
}

/// Which versions read views may see.
#[derive(Debug)]
pub(crate) struct Views {
    /// Somebody may see any version that is the newest at a timestamp at or above this.
    pub bound: u64,
    /// And those that are the newest at one of these, ascending.
    pub at: Vec<u64>,
}

impl Views {
    /// Whether somebody sees a version that ends at `end` and is followed by one that ends at `next`,
    /// which is at or below the bound.
    pub fn sees(&self, end: u64, next: u64) -> bool {
        debug_assert!(next <= self.bound, "a version above the bound may be seen");
        let at = self.at.partition_point(|view| *view < end);
        self.at.get(at).is_some_and(|view| *view < next)
    }
}

/// A read view that is registered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    pub ts: u64,
    pub holder: u64,
    pub since_ns: u64,
}

/// The clock, the read views and the writers of one engine.
#[derive(Debug)]
pub(crate) struct Timeline {
    clock: Padded<AtomicU64>,
    /// 0 is free; else a value not above the view's snapshot, see [T5].
    views: Box<[AtomicU64]>,
    /// Of each of these.
    marks: Box<[Mark]>,
    /// About what time it is; moved on by whoever collects.
    coarse_ns: AtomicU64,
    views_high: Padded<AtomicUsize>,
    overflow: Mutex<BTreeMap<u64, usize>>,
    overflowing: AtomicUsize,
    writers: Box<[WriterSlot]>,
    writers_high: Padded<AtomicUsize>,
    /// Every commit at or below this survives a crash. `u64::MAX` without a log.
    durable: Padded<AtomicU64>,
}

thread_local! {
    /// Where this thread looks first for a free slot: where it last found one.
    static VIEW_HINT: Cell<usize> = const { Cell::new(0) };
    static WRITER_HINT: Cell<usize> = const { Cell::new(0) };
}

/// The slot of the n-th place for a view. The first places are the first of each cache line, so few
/// views neither share a line nor leave [`Timeline::oldest`] much to scan.
fn slot_of(place: usize) -> usize {
    const PER_LINE: usize = 8;
    const LINES: usize = 128;
    match place {
        place if VIEWS >= PER_LINE * LINES && place < PER_LINE * LINES => {
            (place % LINES) * PER_LINE + place / LINES
        }
        place => place,
    }
}

impl Timeline {
    /// A timeline whose newest timestamp is `now`.
    pub fn new(now: u64, durable: u64) -> Timeline {
        Timeline {
            clock: Padded(AtomicU64::new(now.max(1))),
            views: (0..VIEWS).map(|_| AtomicU64::new(0)).collect(),
            marks: (0..VIEWS).map(|_| Mark::default()).collect(),
            coarse_ns: AtomicU64::new(0),
            views_high: Padded(AtomicUsize::new(0)),
            overflow: Mutex::new(BTreeMap::new()),
            overflowing: AtomicUsize::new(0),
            writers: (0..WRITERS).map(|_| WriterSlot::default()).collect(),
            writers_high: Padded(AtomicUsize::new(0)),
            durable: Padded(AtomicU64::new(durable)),
        }
    }

    pub fn now(&self) -> u64 {
        self.clock.0.load(Ordering::SeqCst)
    }

    /// A new timestamp, above all before it.
    pub fn tick(&self) -> u64 {
        self.clock.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn durable(&self) -> u64 {
        self.durable.0.load(Ordering::Acquire)
    }

    pub fn set_durable(&self, ts: u64) {
        self.durable.0.fetch_max(ts, Ordering::AcqRel);
    }

    /// The time that views are registered with from now on.
    pub fn set_coarse_ns(&self, now_ns: u64) {
        self.coarse_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Registers a read view and takes its snapshot. See [T1].
    pub fn register(&self, holder: u64) -> (View, u64) {
        let (view, ts) = self.register_onward(holder);
        self.settle_view(view, ts);
        (view, ts)
    }

    /// The same of a view beside which somebody may read as of any later timestamp.
    pub fn register_onward(&self, holder: u64) -> (View, u64) {
        let start = VIEW_HINT.get();
        for probe in 0..VIEWS {
            let place = (start + probe) % VIEWS;
            let at = slot_of(place);
            let slot = &self.views[at];
            if slot.load(Ordering::Relaxed) != 0 {
                continue;
            }
            let p = self.now();
            if slot.compare_exchange(0, p, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                VIEW_HINT.set(place);
                if self.views_high.0.load(Ordering::SeqCst) <= at {
                    self.views_high.0.fetch_max(at + 1, Ordering::SeqCst);
                }
                let mark = &self.marks[at];
                mark.holder.store(holder, Ordering::Relaxed);
                mark.since_ns.store(self.coarse_ns.load(Ordering::Relaxed), Ordering::Relaxed);
                return (View::Slot(at), self.now());
            }
        }
        self.overflowing.fetch_add(1, Ordering::SeqCst);
        let p = self.now();
        *self.overflow.lock().entry(p).or_default() += 1;
        (View::Overflow(p), self.now())
    }

    /// The snapshot of a view is this, and nobody reads beside it [T5].
    fn settle_view(&self, view: View, ts: u64) {
        if let View::Slot(at) = view {
            self.views[at].store(ts | EXACT, Ordering::Release);
        }
    }

    /// Moves a view to the present. No read may be under way in it.
    pub fn renew(&self, view: View, holder: u64) -> (View, u64) {
        match view {
            View::Slot(at) => {
                self.views[at].store(self.now(), Ordering::SeqCst);
                let since_ns = self.coarse_ns.load(Ordering::Relaxed);
                self.marks[at].since_ns.store(since_ns, Ordering::Relaxed);
                let ts = self.now();
                self.settle_view(view, ts);
                (view, ts)
            }
            View::Overflow(_) => {
                let renewed = self.register(holder);
                self.unregister(view);
                renewed
            }
        }
    }

    pub fn unregister(&self, view: View) {
        match view {
            View::Slot(at) => self.views[at].store(0, Ordering::Release),
            View::Overflow(p) => {
                let mut overflow = self.overflow.lock();
                let count = overflow.get_mut(&p).expect("a registered view is in the map");
                *count -= 1;
                if *count == 0 {
                    overflow.remove(&p);
                }
                drop(overflow);
                self.overflowing.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// No registered snapshot is below the returned value, now or later. See [T1].
    pub fn oldest(&self) -> u64 {
        let mut oldest = self.now();
        let high = self.views_high.0.load(Ordering::SeqCst);
        for view in &self.views[..high] {
            let p = view.load(Ordering::SeqCst) & !EXACT;
            if p != 0 && p < oldest {
                oldest = p;
            }
        }
        oldest.min(self.oldest_overflowing().unwrap_or(u64::MAX))
    }

    fn oldest_overflowing(&self) -> Option<u64> {
        if self.overflowing.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.overflow.lock().first_key_value().map(|(&p, _)| p)
    }

    /// What is seen by views that are registered, or will be. See [T5].
    pub fn views(&self) -> Views {
        let (mut bound, mut at) = (self.now(), Vec::new());
        let high = self.views_high.0.load(Ordering::SeqCst);
        for view in &self.views[..high] {
            match view.load(Ordering::SeqCst) {
                0 => {}
                exact if exact & EXACT != 0 => at.push(exact & !EXACT),
                onward => bound = bound.min(onward),
            }
        }
        bound = bound.min(self.oldest_overflowing().unwrap_or(u64::MAX));
        at.sort_unstable();
        at.dedup();
        Views { bound, at }
    }

    /// Every registered view, for people to look at.
    pub fn registrations(&self) -> Vec<Registration> {
        let high = self.views_high.0.load(Ordering::SeqCst);
        let slots = self.views[..high].iter().zip(&self.marks).filter_map(|(view, mark)| {
            let ts = view.load(Ordering::SeqCst) & !EXACT;
            let holder = mark.holder.load(Ordering::Relaxed);
            let since_ns = mark.since_ns.load(Ordering::Relaxed);
            (ts != 0).then_some(Registration { ts, holder, since_ns })
        });
        let mut all: Vec<Registration> = slots.collect();
        let since_ns = self.coarse_ns.load(Ordering::Relaxed);
        let overflow = self.overflow.lock();
        all.extend(overflow.keys().map(|&ts| Registration { ts, holder: holder::SIDE, since_ns }));
        all
    }

    /// A writer's slot for transaction `id`; none while all are taken.
    pub fn claim_writer(&self, id: u64) -> Option<Writer> {
        let start = WRITER_HINT.get();
        for probe in 0..WRITERS {
            let at = (start + probe) % WRITERS;
            let slot = &self.writers[at];
            let free = slot.generation.load(Ordering::Relaxed);
            if free % 2 == 1 {
                continue;
            }
            let generation = free + 1;
            if slot
                .generation
                .compare_exchange(free, generation, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                slot.id.store(id, Ordering::Release);
                slot.state.store(ACTIVE << STATE_SHIFT, Ordering::Release);
                WRITER_HINT.set(at);
                self.writers_high.0.fetch_max(at + 1, Ordering::SeqCst);
                return Some(Writer { slot: at, generation });
            }
        }
        None
    }

    /// Takes a commit timestamp. See [T2].
    pub fn prepare(&self, writer: Writer) -> u64 {
        let state = &self.writers[writer.slot].state;
        state.store(PREPARING << STATE_SHIFT, Ordering::SeqCst);
        let ts = self.tick();
        state.store((COMMITTING << STATE_SHIFT) | ts, Ordering::SeqCst);
        ts
    }

    /// Gives the commit timestamp back.
    pub fn retreat(&self, writer: Writer) {
        self.writers[writer.slot].state.store(ACTIVE << STATE_SHIFT, Ordering::SeqCst);
    }

    pub fn commit(&self, writer: Writer, ts: u64) {
        self.writers[writer.slot].state.store((COMMITTED << STATE_SHIFT) | ts, Ordering::SeqCst);
    }

    pub fn abort(&self, writer: Writer, ts: u64) {
        self.writers[writer.slot]
            .state
            .store((ABORTED_STATE << STATE_SHIFT) | ts, Ordering::SeqCst);
    }

    /// Gives the slot back. Every word of the writer must be stamped. See [T4].
    pub fn release_writer(&self, writer: Writer) {
        self.writers[writer.slot].generation.store(writer.generation + 1, Ordering::Release);
    }

    /// Who wrote the version with this word. Does not wait.
    pub fn owner(&self, word: &AtomicU64) -> Owner {
        loop {
            let w = word.load(Ordering::Acquire);
            if w & WRITER == 0 {
                return if w & ABORTED != 0 { Owner::Aborted } else { Owner::Committed(w) };
            }
            if let Some((state, id)) = self.state_of(w) {
                return match state >> STATE_SHIFT {
                    COMMITTED => Owner::Committed(state & STATE_TS),
                    ABORTED_STATE => Owner::Aborted,
                    _ => Owner::Open(id),
                };
            }
            hint::spin_loop();
        }
    }

    /// Whether the version with this word is visible at `ts` to transaction `own` (0: nobody).
    /// `Some` is its commit timestamp, [`OWN`] for an own version. Waits for a writer between commit
    /// timestamp and verdict. See [T2].
    pub fn visible(&self, word: &AtomicU64, ts: u64, own: u64) -> Option<u64> {
        let mut spins = 0;
        loop {
            let w = word.load(Ordering::Acquire);
            if w & WRITER == 0 {
                // An aborted word is above every timestamp.
                return (w <= ts).then_some(w);
            }
            if let Some((state, id)) = self.state_of(w) {
                if id == own {
                    return Some(OWN);
                }
                let end = state & STATE_TS;
                match state >> STATE_SHIFT {
                    COMMITTED => return (end <= ts).then_some(end),
                    COMMITTING if end <= ts => {}
                    PREPARING => {}
                    _ => return None,
                }
            }
            pause(&mut spins);
        }
    }

    /// The state and id of the writer a word refers to; none if the word is stamped by now.
    fn state_of(&self, word: u64) -> Option<(u64, u64)> {
        let slot = &self.writers[((word & !WRITER) >> SLOT_SHIFT) as usize];
        let state = slot.state.load(Ordering::Acquire);
        let id = slot.id.load(Ordering::Acquire);
        let generation = slot.generation.load(Ordering::Acquire);
        (generation & GENERATION == word & GENERATION).then_some((state, id))
    }

    /// Waits until every writer that has taken a commit timestamp so far is decided.
    pub fn settle(&self) {
        let now = self.now();
        let high = self.writers_high.0.load(Ordering::SeqCst);
        for slot in &self.writers[..high] {
            let mut spins = 0;
            loop {
                let state = slot.state.load(Ordering::SeqCst);
                let open = match state >> STATE_SHIFT {
                    PREPARING => true,
                    COMMITTING => state & STATE_TS <= now,
                    _ => false,
                };
                if !open {
                    break;
                }
                pause(&mut spins);
            }
        }
    }
}

/// Spins a little, then lets others run.
pub(crate) fn pause(spins: &mut u32) {
    *spins += 1;
    if *spins < 64 {
        hint::spin_loop();
    } else {
        thread::yield_now();
    }
}

/// A registered read view; unregisters itself.
#[derive(Debug)]
pub(crate) struct Registered {
    timeline: Arc<Timeline>,
    view: View,
}

impl Registered {
    /// Registers a view at the present.
    pub fn new(timeline: &Arc<Timeline>, holder: u64) -> (Registered, u64) {
        let (view, ts) = timeline.register(holder);
        (Registered { timeline: Arc::clone(timeline), view }, ts)
    }

    /// Registers a view beside which somebody reads as of later timestamps.
    pub fn onward(timeline: &Arc<Timeline>, holder: u64) -> (Registered, u64) {
        let (view, ts) = timeline.register_onward(holder);
        (Registered { timeline: Arc::clone(timeline), view }, ts)
    }

    pub fn view(&self) -> View {
        self.view
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.timeline.unregister(self.view);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_view_holds_the_horizon() {
        let timeline = Timeline::new(10, u64::MAX);
        assert_eq!(timeline.oldest(), 10);
        let (view, ts) = timeline.register(0);
        assert_eq!(ts, 10);
        timeline.tick();
        let (later, _) = timeline.register(0);
        assert_eq!(timeline.oldest(), 10);
        timeline.unregister(view);
        assert_eq!(timeline.oldest(), 11);
        timeline.tick();
        timeline.renew(later, 0);
        assert_eq!(timeline.oldest(), 12);
        timeline.unregister(later);
    }

    #[test]
    fn what_nobody_sees_is_between_views() {
        let timeline = Timeline::new(10, u64::MAX);
        let (first, _) = timeline.register(1);
        (0..5).for_each(|_| _ = timeline.tick());
        let (second, _) = timeline.register(2);
        (0..5).for_each(|_| _ = timeline.tick());
        let views = timeline.views();
        assert_eq!((views.bound, views.at.as_slice()), (20, &[10, 15][..]));
        // The newest from 8 to 10, from 11 to 14, from 11 to 15, from 20 on.
        let seen = [(8, 11), (11, 15), (11, 16), (10, 11)].map(|(end, next)| views.sees(end, next));
        assert_eq!(seen, [true, false, true, true]);
        let (onward, _) = timeline.register_onward(3);
        timeline.tick();
        assert_eq!(timeline.views().bound, 20);
        let holders: Vec<u64> = timeline.registrations().iter().map(|view| view.holder).collect();
        assert_eq!(holders, [1, 2, 3]);
        [first, second, onward].into_iter().for_each(|view| timeline.unregister(view));
        let views = timeline.views();
        assert_eq!((views.bound, views.at.is_empty()), (21, true));
    }

    #[test]
    fn more_views_than_slots_share_a_map() {
        let timeline = Timeline::new(5, u64::MAX);
        let views: Vec<View> = (0..VIEWS + 2).map(|_| timeline.register(0).0).collect();
        timeline.tick();
        assert_eq!(timeline.oldest(), 5);
        for view in views {
            timeline.unregister(view);
        }
        assert_eq!(timeline.oldest(), 6);
    }

    #[test]
    fn every_place_has_a_slot_of_its_own() {
        let mut slots: Vec<usize> = (0..VIEWS).map(slot_of).collect();
        assert!(VIEWS < 1024 || slots[..16].iter().all(|slot| slot % 8 == 0), "a line each");
        slots.sort_unstable();
        assert!(slots.into_iter().eq(0..VIEWS));
    }

    #[test]
    fn a_stale_word_is_read_again() {
        let timeline = Timeline::new(1, u64::MAX);
        let writer = timeline.claim_writer(7).expect("a slot is free");
        let word = AtomicU64::new(writer.word());
        assert_eq!(timeline.owner(&word), Owner::Open(7));
        assert_eq!(timeline.visible(&word, 100, 0), None);
        assert_eq!(timeline.visible(&word, 0, 7), Some(0));
        let ts = timeline.prepare(writer);
        assert_eq!(timeline.visible(&word, ts - 1, 0), None);
        timeline.commit(writer, ts);
        assert_eq!(timeline.visible(&word, ts, 0), Some(ts));
        word.store(ts, Ordering::Release);
        timeline.release_writer(writer);
        let next = timeline.claim_writer(8).expect("a slot is free");
        assert_eq!(timeline.owner(&word), Owner::Committed(ts));
        assert_ne!(next.word(), writer.word());
    }
}
