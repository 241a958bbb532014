//! SERIALIZABLE: snapshot isolation, and at the commit a look whether all that was read still holds.
//!
//! ```text
//!   T   begin(S) ── reads noted ── writes ── certify ── commit timestamp
//!   U                 writes ── commit in (S, now]        T fails if U wrote what T has read
//! ```
//!
//! C1: among serializable transactions that write, the order of their commit timestamps is an order in which they
//!     could have run one after another: what one has read at its snapshot, it would read at its commit.
//! C2: one that writes nothing could have run at its snapshot. It is never refused, and waits for nobody.
//! C3: from the look to the commit timestamp, and from that to where others find what was written, one lock is
//!     held; a snapshot is taken under it, too. So no commit is missed between a snapshot and a look.
//!
//! Who reads and writes nothing that others write is never refused: what is compared are keys (`Reads`,
//! [`Writes`]), and whole tables only where a whole table was read. More are refused than PostgreSQL's
//! serializable snapshot isolation refuses: it needs a second conflict of a certain kind to the one that is
//! enough here. As there, transactions of other isolation levels do not count.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use froglet_engine::{EngineTxn, IndexId, KeyRange, Reads, SpaceId, SpaceReads, Ts};
use parking_lot::{Mutex, MutexGuard};

/// What was written in one row space.
#[derive(Clone, Debug)]
pub enum SpaceWrites {
    /// Too much to say, or it is not known.
    All,
    /// The keys that the rows had before and have after, by index.
    Keys(HashMap<IndexId, BTreeSet<Vec<u8>>>),
}

impl SpaceWrites {
    fn meets(&self, reads: &SpaceReads) -> bool {
        match (self, reads) {
            (SpaceWrites::All, _) | (_, SpaceReads::All) => true,
            (SpaceWrites::Keys(keys), SpaceReads::Ranges(ranges)) => {
                ranges.iter().any(|(index, range)| {
                    // An index that the writer did not know has keys of which nothing is known.
                    keys.get(index).is_none_or(|keys| has_key_in(keys, range))
                })
            }
        }
    }
}

fn has_key_in(keys: &BTreeSet<Vec<u8>>, range: &KeyRange) -> bool {
    keys.iter().any(|key| range.contains(key))
}

/// What a transaction has written, by space.
pub type Writes = HashMap<SpaceId, SpaceWrites>;

/// A serializable transaction.
pub(crate) struct Certified {
    read_at: Ts,
    reads: Arc<Reads>,
}

/// The serializable transactions of one database.
#[derive(Default)]
pub(crate) struct Certifier(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those that have not ended, by the timestamps of their snapshots.
    open: BTreeMap<Ts, usize>,
    /// Those that have committed after the oldest of these, oldest first.
    committed: VecDeque<(Ts, Writes)>,
}

impl Certifier {
    /// Begins a transaction's part, whose reads are noted.
    pub(crate) fn begin(
        &self,
        begin: impl FnOnce() -> Box<dyn EngineTxn>,
    ) -> (Box<dyn EngineTxn>, Certified) {
        let mut state = self.0.lock();
        let part = begin();
        let reads = Arc::new(Reads::default());
        part.snapshot().watch(reads.clone());
        let read_at = part.snapshot().ts;
        *state.open.entry(read_at).or_default() += 1;
        (part, Certified { read_at, reads })
    }

    /// Nobody else begins or commits until this is dropped [C3].
    pub(crate) fn certifying(&self) -> Certifying<'_> {
        Certifying(self.0.lock())
    }

    /// Committed or not, nothing is asked of it any more.
    pub(crate) fn end(&self, ended: &Certified) {
        let mut state = self.0.lock();
        if let Some(count) = state.open.get_mut(&ended.read_at) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&ended.read_at);
            }
        }
        let oldest = state.open.keys().next().copied();
        while state
            .committed
            .pop_front_if(|(ts, _)| oldest.is_none_or(|open| *ts <= open))
            .is_some()
        {}
    }
}

/// The right to commit a serializable transaction.
pub(crate) struct Certifying<'a>(MutexGuard<'a, State>);

impl Certifying<'_> {
    /// Whether all that was read still holds.
    pub(crate) fn allows(
        &self,
        certified: &Certified,
        is_replaced: &dyn Fn(SpaceId) -> bool,
    ) -> bool {
        let Certified { read_at, reads } = certified;
        let after = self.0.committed.partition_point(|(ts, _)| ts <= read_at);
        let mut holds = true;
        reads.each(|space, reads| {
            let meets = |(_, writes): &(Ts, Writes)| {
                writes.get(&space).is_some_and(|writes| writes.meets(reads))
            };
            holds &= !self.0.committed.range(after..).any(meets) && !is_replaced(space);
        });
        holds
    }

    /// It commits at `ts`.
    pub(crate) fn committed(&mut self, ts: Ts, writes: Writes) {
        self.0.committed.push_back((ts, writes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: SpaceId = SpaceId(1);
    const INDEX: IndexId = IndexId(2);

    fn keys(of: &[&[u8]]) -> SpaceWrites {
        SpaceWrites::Keys(HashMap::from([(INDEX, of.iter().map(|key| key.to_vec()).collect())]))
    }

    fn reads(note: impl FnOnce(&Reads)) -> SpaceReads {
        let reads = Reads::default();
        note(&reads);
        let mut found = None;
        reads.each(|_, reads| found = Some(reads.clone()));
        found.expect("something was read")
    }

    #[test]
    fn a_write_meets_reads_of_its_keys() {
        let one = reads(|reads| reads.note_range(SPACE, INDEX, KeyRange::exactly(b"b")));
        let others = reads(|reads| reads.note_range(SPACE, IndexId(3), KeyRange::exactly(b"b")));
        let all = reads(|reads| reads.note_all(SPACE));
        assert!(keys(&[b"a", b"b"]).meets(&one));
        assert!(!keys(&[b"a", b"c", b"bb"]).meets(&one));
        assert!(!keys(&[]).meets(&one));
        assert!(keys(&[b"a"]).meets(&others), "its keys of that index are not known");
        assert!(keys(&[]).meets(&all));
        assert!(SpaceWrites::All.meets(&one));
    }

    #[test]
    fn only_commits_after_the_snapshot_count_and_only_as_long_as_somebody_may_ask() {
        let certifier = Certifier::default();
        let open = |read_at| {
            *certifier.0.lock().open.entry(Ts(read_at)).or_default() += 1;
            let reads = Arc::new(Reads::default());
            reads.note_all(SPACE);
            Certified { read_at: Ts(read_at), reads }
        };
        let (old, new) = (open(5), open(8));
        let commit = |ts| {
            certifier.certifying().committed(Ts(ts), Writes::from([(SPACE, SpaceWrites::All)]))
        };
        commit(7);
        let stays = |_| false;
        assert!(!certifier.certifying().allows(&old, &stays));
        assert!(certifier.certifying().allows(&new, &stays));
        assert!(!certifier.certifying().allows(&new, &|space| space == SPACE));
        commit(9);
        assert!(!certifier.certifying().allows(&new, &stays));
        certifier.end(&old);
        assert_eq!(certifier.0.lock().committed.len(), 1, "what nobody can ask for is gone");
        certifier.end(&new);
        assert!(certifier.0.lock().committed.is_empty() && certifier.0.lock().open.is_empty());
    }
}
