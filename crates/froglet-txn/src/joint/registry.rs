//! The snapshot registry: where the timeline of the engine beside stands for a view of the anchor's (Skeena, section 4.2).
//!
//! ```text
//!   anchor   … 40 ──── 47 ──── 52 ──── 60 …        transactions over both committed at
//!   beside   …  7 ────  8 ────  9 ──── 10 …
//!                          ▲
//!                   a view at 50 sees the other engine at 8
//! ```
//! Transactions that write to the engine beside take both timestamps one after the other, under this lock. So the pairs
//! ascend in both, and for a view there is one right place: what the last pair at or below it says (algorithm 1). There is
//! nothing to check at the commit, and nobody is aborted (algorithm 2): that is for engines that take their timestamps
//! where nobody sees them.
//!
//! **[R1]** A view has its timestamp before it asks. A pair that is entered later has a later anchor timestamp; one that is
//! there and undecided makes the reader wait at the rows themselves.
//! **[R2]** Pairs below the oldest view go, but for the last of them. They go a partition at a time (section 4.3).
//! **[R3]** While an old view lives they cannot; what is between views that there are, and will never be asked for, can.

use std::collections::VecDeque;

use froglet_engine::Ts;
use froglet_engine::locks::Mutex;

/// How it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryOptions {
    /// Pairs in a partition.
    pub capacity: usize,
    /// Partitions past which pairs between views go.
    pub partitions: usize,
    /// Without it every view sees the other engine as it is when it first asks. For tests, which show what comes of that.
    pub is_on: bool,
}

impl Default for RegistryOptions {
    fn default() -> RegistryOptions {
        RegistryOptions { capacity: 4096, partitions: 64, is_on: true }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Registry {
    options: RegistryOptions,
    inner: Mutex<Inner>,
}

type Pair = (Ts, Ts);

#[derive(Debug)]
struct Inner {
    /// The last pair of those that have gone.
    floor: Pair,
    /// Ascending; only the last one is written to.
    partitions: VecDeque<Vec<Pair>>,
    /// How many were left when pairs between views went.
    thinned: usize,
}

impl Inner {
    /// The last pair at or below a timestamp of the anchor's.
    fn at(&self, anchor: Ts) -> Pair {
        let begun = self.partitions.partition_point(|pairs| pairs[0].0 <= anchor);
        let Some(pairs) = begun.checked_sub(1).map(|at| &self.partitions[at]) else {
            return self.floor;
        };
        pairs[pairs.partition_point(|pair| pair.0 <= anchor) - 1]
    }

    fn push(&mut self, pair: Pair, capacity: usize) {
        debug_assert!(self.last().0 < pair.0 && self.last().1 < pair.1, "pairs ascend");
        match self.partitions.back_mut() {
            Some(pairs) if pairs.len() < capacity => pairs.push(pair),
            _ => {
                let mut pairs = Vec::with_capacity(capacity);
                pairs.push(pair);
                self.partitions.push_back(pairs);
            }
        }
    }

    fn last(&self) -> Pair {
        self.partitions.back().and_then(|pairs| pairs.last()).copied().unwrap_or(self.floor)
    }

    /// Partitions of which no view can ask for anything but the last pair.
    fn recycle(&mut self, oldest: Ts) {
        while self.partitions.get(1).is_some_and(|next| next[0].0 <= oldest) {
            let gone = self.partitions.pop_front().expect("there are two");
            self.floor = *gone.last().expect("a partition has a pair");
        }
    }

    /// Keeps what these views may ask for, ascending; and what those may that are at `all_from` or later.
    fn thin(&mut self, views: &[Ts], all_from: Ts, capacity: usize) {
        let mut views = views.iter().peekable();
        let pairs: Vec<Pair> = std::mem::take(&mut self.partitions).into_iter().flatten().collect();
        for (n, pair) in pairs.iter().enumerate() {
            let next = pairs.get(n + 1).map(|next| next.0);
            // Views that see this pair and not the next one.
            while views.next_if(|view| **view < pair.0).is_some() {}
            let is_seen = views.peek().is_some_and(|view| next.is_none_or(|next| **view < next));
            // The newest may be taken back: then views behind it ask for the one before.
            let is_newest = n + 2 >= pairs.len();
            let is_recent = next.is_none_or(|next| next > all_from);
            if is_seen || is_newest || is_recent {
                self.push(*pair, capacity);
            }
        }
        self.thinned = self.partitions.len();
    }
}

impl Registry {
    /// Begins where both engines stand.
    pub fn new(options: RegistryOptions, anchor: Ts, beside: Ts) -> Registry {
        assert!(options.capacity > 0, "a partition has room");
        let floor = (anchor, beside);
        let inner = Inner { floor, partitions: VecDeque::new(), thinned: 0 };
        Registry { options, inner: Mutex::new(inner) }
    }

    pub fn is_on(&self) -> bool {
        self.options.is_on
    }

    /// Where the engine beside stands for a view of the anchor's [R1].
    pub fn at(&self, anchor: Ts) -> Ts {
        self.inner.lock().at(anchor).1
    }

    /// Takes a timestamp of each engine, and enters the pair.
    pub fn enter(&self, take: impl FnOnce() -> Pair) -> Pair {
        let mut inner = self.inner.lock();
        let pair = take();
        inner.push(pair, self.options.capacity);
        pair
    }

    /// The newest pair is not one after all.
    pub fn take_back(&self, pair: Pair) {
        let mut inner = self.inner.lock();
        let last = inner.partitions.back_mut().expect("the pair was entered");
        assert_eq!(last.pop(), Some(pair), "pairs are entered one after the other");
        if last.is_empty() {
            inner.partitions.pop_back();
        }
    }

    /// Pairs that are remembered.
    pub fn entries(&self) -> usize {
        self.inner.lock().partitions.iter().map(Vec::len).sum()
    }

    /// Whether there is something to recycle, perhaps.
    pub fn is_large(&self) -> bool {
        self.inner.lock().partitions.len() > 1
    }

    /// Lets go what no view asks for. `views`: [`froglet_engine::crossing::Anchor::views`].
    pub fn recycle(&self, oldest: Ts, views: impl FnOnce() -> (Vec<Ts>, Ts)) {
        let mut inner = self.inner.lock();
        inner.recycle(oldest);
        // What is kept for views is looked at again when as much has come: each pair is copied a few times at most.
        if inner.partitions.len() > self.options.partitions.max(2 * inner.thinned) {
            let (views, all_from) = views();
            inner.thin(&views, all_from, self.options.capacity);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn registry(capacity: usize, partitions: usize) -> Registry {
        let options = RegistryOptions { capacity, partitions, is_on: true };
        Registry::new(options, Ts(10), Ts(1))
    }

    /// The pairs (20, 2), (30, 3), …
    fn filled(registry: &Registry, n: u64) {
        for i in 2..2 + n {
            registry.enter(|| (Ts(10 * i), Ts(i)));
        }
    }

    #[test]
    fn a_view_sees_the_last_pair_at_or_below_it() {
        for capacity in [1, 2, 3, 100] {
            let registry = registry(capacity, 100);
            assert_eq!(registry.at(Ts(500)), Ts(1));
            filled(&registry, 7);
            for (view, beside) in
                [(3, 1), (10, 1), (19, 1), (20, 2), (29, 2), (55, 5), (80, 8), (99, 8)]
            {
                assert_eq!(registry.at(Ts(view)), Ts(beside), "view {view}, capacity {capacity}");
            }
        }
    }

    #[test]
    fn what_is_taken_back_was_never_there() {
        let registry = registry(2, 100);
        filled(&registry, 3);
        registry.take_back((Ts(40), Ts(4)));
        assert_eq!(registry.at(Ts(45)), Ts(3));
        registry.enter(|| (Ts(50), Ts(6)));
        assert_eq!(registry.at(Ts(49)), Ts(3));
        assert_eq!(registry.at(Ts(50)), Ts(6));
    }

    #[test]
    fn what_is_recycled_is_not_missed() {
        let registry = registry(3, 100);
        filled(&registry, 20);
        for oldest in (0..230).step_by(7) {
            registry.recycle(Ts(oldest), || unreachable!("there are few"));
            for view in oldest..240 {
                let expected = (view / 10).clamp(1, 21);
                assert_eq!(registry.at(Ts(view)), Ts(expected), "view {view}, oldest {oldest}");
            }
        }
        assert!(registry.entries() <= 6, "{registry:?}");
    }

    #[test]
    fn a_long_view_does_not_keep_what_is_between_views() {
        let registry = registry(4, 2);
        filled(&registry, 100);
        let views = vec![Ts(25), Ts(333), Ts(335), Ts(900)];
        registry.recycle(Ts(25), || (views.clone(), Ts(985)));
        assert!(registry.entries() < 10, "{registry:?}");
        for view in views.iter().map(|view| view.0).chain(985..1100) {
            assert_eq!(registry.at(Ts(view)), Ts((view / 10).min(101)), "view {view}");
        }
    }

    #[test]
    fn what_is_kept_is_not_gone_through_at_each_commit() {
        let registry = registry(4, 2);
        let mut thinned = 0;
        for n in 2..1000 {
            registry.enter(|| (Ts(10 * n), Ts(n)));
            registry.recycle(Ts(25), || {
                thinned += 1;
                (Vec::new(), Ts(25))
            });
        }
        assert!(thinned < 10, "{thinned} times");
        assert_eq!(registry.at(Ts(5_555)), Ts(555));
    }

    #[test]
    fn a_pair_that_is_taken_back_after_thinning_leaves_the_one_before_it() {
        let registry = registry(4, 1);
        filled(&registry, 20);
        registry.recycle(Ts(25), || (vec![Ts(25), Ts(215)], Ts::LATEST));
        registry.take_back((Ts(210), Ts(21)));
        assert_eq!(registry.at(Ts(215)), Ts(20));
    }
}
