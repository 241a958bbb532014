//! Entries of indexes that were read lately, in order, with what is known to be between them: nothing.
//!
//! ```text
//!   marks of an index    a ━━━ c ━━━ d     k ━━━ p ····· z        ━━━ joined: the map has no entry between
//!   range [b, d)         c                                        known, none of it is read
//!   range [b, z)         c d, then the map from d on
//!   entry l is put       k ━ l ━ p                                known, too: whoever appends reads the map once
//! ```
//! A range of the map looks at every run of files, whether there is anything in it or not. A new key of an index that keeps
//! rows apart is such a range, and as a rule there is nothing.
//!
//! **[E1]** What is known is what the map has, or the map is being changed by somebody who will say so: a reader says first
//! which range he is about to read; who puts says afterwards what; what was put into that range meanwhile keeps the
//! reader from leaving anything here ([C1] of `cached.rs`, of ranges).
//! **[E2]** A mark need not be an entry: the end of a range that was read is one.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::fast::FixedState;
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;

/// What a mark takes beside its key.
const OVERHEAD_BYTES: usize = 80;
/// Of a longer range that is read at once nothing is left here: it is a scan.
pub(crate) const RANGE_LEFT_MAX: usize = 256;
/// More changes to a range that is being read are many.
const TOUCHED_MAX: usize = 8;
/// Marks of an index that are looked at for ones to go.
const SWEPT_AT_ONCE: usize = 64;
/// More sweeps are left to the next who takes room: he has used what is there.
const SWEEPS_MAX: usize = 16;

/// What the entries of an index begin with.
type Prefix = [u8; 8];

fn prefix(key: &[u8]) -> Prefix {
    key[..8].try_into().expect("a key of an index begins with which it is")
}

fn weight(key: &[u8]) -> u64 {
    (key.len() + OVERHEAD_BYTES) as u64
}

fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// A range that somebody is reading from the map.
struct Reading {
    id: u64,
    from: Vec<u8>,
    to: Vec<u8>,
    /// What was put or removed in it since.
    touched: SmallVec<[Box<[u8]>; 2]>,
}

#[derive(Clone, Copy)]
struct Mark {
    is_entry: bool,
    /// There is nothing between the mark before and this one.
    is_joined: bool,
    /// It was read since the last sweep.
    is_used: bool,
}

/// What is known of an index.
#[derive(Default)]
struct Known {
    marks: BTreeMap<Box<[u8]>, Mark>,
    readings: Vec<Reading>,
    next_reading: u64,
    /// Where the next sweep begins.
    swept_to: Box<[u8]>,
    /// The index is not asked for any more.
    is_gone: bool,
}

/// A range that was read from the map: its entries, and its bounds, as far as it was read.
pub(super) struct WasRead<'a> {
    pub from: &'a [u8],
    pub to: &'a [u8],
    pub entries: &'a [Box<[u8]>],
}

impl Known {
    fn next_after(&mut self, key: &[u8]) -> Option<(&[u8], &mut Mark)> {
        let behind = (Bound::Excluded(key), Bound::Unbounded);
        self.marks.range_mut::<[u8], _>(behind).next().map(|(key, mark)| (&key[..], mark))
    }

    /// A mark, made where there is none. Between two that are joined it is joined to both. Bytes that it takes more.
    fn mark(&mut self, key: &[u8]) -> (&mut Mark, u64) {
        if self.marks.contains_key(key) {
            return (self.marks.get_mut(key).expect("looked up"), 0);
        }
        let is_joined = self.next_after(key).is_some_and(|(_, next)| next.is_joined);
        let mark = Mark { is_entry: false, is_joined, is_used: false };
        (self.marks.entry(key.into()).or_insert(mark), weight(key))
    }

    /// Takes a mark away, and what is known of where it was.
    fn forget(&mut self, key: &[u8]) -> u64 {
        if self.marks.remove(key).is_none() {
            return 0;
        }
        if let Some((_, next)) = self.next_after(key) {
            next.is_joined = false;
        }
        weight(key)
    }

    /// Visits what is known from one end of a range on. The rest of the range, if it is not known; none as well if `visit`
    /// wants no more.
    fn visit(
        &mut self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        let mut rest: Option<Vec<u8>> = None;
        let marks = self.marks.range_mut::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        for (key, mark) in marks {
            let is_first = rest.is_none() && **key == *from;
            if !mark.is_joined && !is_first {
                break;
            }
            mark.is_used = true;
            if **key >= *to || (mark.is_entry && !visit(key)) {
                return None;
            }
            rest = Some(after(key));
        }
        Some(rest.unwrap_or_else(|| from.to_vec()))
    }

    /// The same from the other end: what is returned is where the rest ends.
    fn visit_backward(
        &mut self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        let mut rest = to.to_vec();
        let (below, behind) =
            ((Bound::Unbounded, Bound::Excluded(to)), (Bound::Included(to), Bound::Unbounded));
        let end = self.marks.range_mut::<[u8], _>(behind).next();
        let mut is_joined = end.is_some_and(|(_, end)| {
            end.is_used = true;
            end.is_joined
        });
        for (key, mark) in self.marks.range_mut::<[u8], _>(below).rev() {
            if !is_joined {
                break;
            }
            mark.is_used = true;
            if **key < *from || (mark.is_entry && !visit(key)) || **key == *from {
                return None;
            }
            is_joined = mark.is_joined;
            rest = key.to_vec();
        }
        Some(rest)
    }

    /// Leaves what was read. Bytes that it takes.
    fn learn(&mut self, read: &WasRead<'_>) -> u64 {
        let mut bytes = self.mark(read.from).1 + self.mark(read.to).1;
        for entry in read.entries {
            let (mark, more) = self.mark(entry);
            mark.is_entry = true;
            bytes += more;
        }
        let between = (Bound::Excluded(read.from), Bound::Included(read.to));
        self.marks.range_mut::<[u8], _>(between).for_each(|(_, mark)| mark.is_joined = true);
        bytes
    }

    /// An entry was put, or removed. Bytes that it takes more, or less.
    fn change(&mut self, entry: &[u8], is_there: bool) -> i64 {
        for reading in &mut self.readings {
            if *reading.from <= *entry
                && *entry <= *reading.to
                && reading.touched.len() <= TOUCHED_MAX
            {
                reading.touched.push(entry.into());
            }
        }
        let behind_is_joined = self.next_after(entry).is_some_and(|(_, next)| next.is_joined);
        match (self.marks.get_mut(entry), is_there) {
            (Some(mark), true) => mark.is_entry = true,
            (None, true) if behind_is_joined => {
                let (mark, bytes) = self.mark(entry);
                mark.is_entry = true;
                return bytes as i64;
            }
            // Where what is known begins or ends a mark stays.
            (Some(mark), false) if mark.is_joined != behind_is_joined => mark.is_entry = false,
            (Some(_), false) => {
                self.marks.remove(entry);
                return -(weight(entry) as i64);
            }
            (None, _) => {}
        }
        0
    }

    /// Takes marks away that were not read since the last sweep. Bytes that they took.
    fn sweep(&mut self) -> u64 {
        let from = std::mem::take(&mut self.swept_to);
        let mut unused: SmallVec<[Box<[u8]>; SWEPT_AT_ONCE]> = SmallVec::new();
        let marks = self.marks.range_mut::<[u8], _>((Bound::Included(&*from), Bound::Unbounded));
        for (n, (key, mark)) in marks.enumerate() {
            if n == SWEPT_AT_ONCE {
                self.swept_to = key.clone();
                break;
            }
            if !std::mem::take(&mut mark.is_used) {
                unused.push(key.clone());
            }
        }
        unused.iter().map(|key| self.forget(key)).sum()
    }
}

#[derive(Default)]
struct Indexes {
    of: HashMap<Prefix, Arc<Mutex<Known>>, FixedState>,
    /// The same, to be swept in turn.
    in_turn: Vec<Arc<Mutex<Known>>>,
}

/// See the module.
pub(super) struct Entries {
    indexes: RwLock<Indexes>,
    bytes: AtomicU64,
    pub limit_bytes: u64,
    /// The next index to be swept.
    turn: AtomicUsize,
    hits: AtomicU64,
}

/// A range that is being read from the map. Dropped, nothing is left of it.
pub(super) struct Place<'a> {
    entries: &'a Entries,
    known: Arc<Mutex<Known>>,
    id: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.known.lock().readings.retain(|reading| reading.id != self.id);
    }
}

impl Place<'_> {
    /// Leaves what was read here, unless that has changed meanwhile [E1].
    pub fn leave(self, read: &WasRead<'_>) {
        let mut known = self.known.lock();
        let reading = known.readings.iter().find(|reading| reading.id == self.id);
        let reading = reading.expect("it is there until this is dropped");
        let is_touched = reading.touched.len() > TOUCHED_MAX
            || reading.touched.iter().any(|entry| *read.from <= **entry && **entry <= *read.to);
        if !is_touched && !known.is_gone {
            let bytes = known.learn(read);
            drop(known);
            self.entries.took(bytes, &self.known);
        }
    }
}

impl Entries {
    pub fn new(limit_bytes: u64) -> Entries {
        Entries {
            indexes: RwLock::default(),
            bytes: AtomicU64::new(0),
            limit_bytes,
            turn: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
        }
    }

    fn known(&self, prefix: &Prefix) -> Option<Arc<Mutex<Known>>> {
        self.indexes.read().of.get(prefix).cloned()
    }

    fn make(&self, prefix: Prefix) -> Arc<Mutex<Known>> {
        let mut indexes = self.indexes.write();
        let Indexes { of, in_turn } = &mut *indexes;
        let made = of.entry(prefix).or_insert_with(|| {
            in_turn.push(Arc::default());
            in_turn.last().cloned().expect("just pushed")
        });
        Arc::clone(made)
    }

    /// Visits the entries of a range that are known, from one of its ends on. The part of it that has to be read; none, too,
    /// if `visit` wants no more.
    pub fn visit(
        &self,
        from: &[u8],
        to: &[u8],
        backward: bool,
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let whole = || (from.to_vec(), to.to_vec());
        let Some(known) = self.known(&prefix(from)) else { return Some(whole()) };
        let mut known = known.lock();
        let rest = match backward {
            false => known.visit(from, to, visit).map(|rest| (rest, to.to_vec())),
            true => known.visit_backward(from, to, visit).map(|rest| (from.to_vec(), rest)),
        };
        if rest.is_none() {
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
        rest
    }

    /// Whether it is known that a range has no entry.
    pub fn has_none(&self, from: &[u8], to: &[u8]) -> bool {
        let mut has_some = false;
        let rest = self.visit(from, to, false, &mut |_| {
            has_some = true;
            false
        });
        rest.is_none() && !has_some
    }

    /// Before a range is read: with the end to which it may be read, beyond its own.
    pub fn begin(&self, from: &[u8], to: &[u8]) -> (Place<'_>, Vec<u8>) {
        let prefix = prefix(from);
        let known = self.known(&prefix).unwrap_or_else(|| self.make(prefix));
        let mut locked = known.lock();
        let behind = (Bound::Included(to), Bound::Unbounded);
        let next = locked.marks.range::<[u8], _>(behind).next();
        let up_to = match next {
            Some((mark, _)) => mark.to_vec(),
            None => froglet_engine::key::successor(&prefix).expect("a prefix has a successor"),
        };
        let id = locked.next_reading;
        locked.next_reading += 1;
        let (from, to) = (from.to_vec(), up_to.clone());
        locked.readings.push(Reading { id, from, to, touched: SmallVec::new() });
        drop(locked);
        (Place { entries: self, known, id }, up_to)
    }

    /// After an entry was put into the map, or removed.
    pub fn changed(&self, entry: &[u8], is_there: bool) {
        let Some(known) = self.known(&prefix(entry)) else { return };
        let mut locked = known.lock();
        if locked.is_gone {
            return;
        }
        let bytes = locked.change(entry, is_there);
        drop(locked);
        match u64::try_from(bytes) {
            Ok(more) => self.took(more, &known),
            Err(_) => drop(self.bytes.fetch_sub(bytes.unsigned_abs(), Ordering::Relaxed)),
        }
    }

    /// Forgets indexes that nobody asks for any more.
    pub fn forget(&self, from: &[u8], to: &[u8]) {
        let is_within = |prefix: &Prefix| from <= &prefix[..] && &prefix[..] < to;
        let mut indexes = self.indexes.write();
        let gone: Vec<_> = indexes.of.extract_if(|prefix, _| is_within(prefix)).collect();
        indexes.in_turn.retain(|known| !gone.iter().any(|(_, gone)| Arc::ptr_eq(gone, known)));
        drop(indexes);
        for (_, known) in gone {
            let mut known = known.lock();
            known.is_gone = true;
            let bytes = std::mem::take(&mut known.marks).keys().map(|key| weight(key)).sum();
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Of an index that has grown, and of another one, marks go that are not used.
    fn took(&self, bytes: u64, by: &Mutex<Known>) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        for _ in 0..SWEEPS_MAX {
            if self.bytes() <= self.limit_bytes {
                return;
            }
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let indexes = self.indexes.read();
            let other = indexes.in_turn.get(turn % indexes.in_turn.len().max(1)).cloned();
            drop(indexes);
            let mut freed = by.lock().sweep();
            if let Some(other) = other {
                freed += other.lock().sweep();
            }
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
        }
    }

    /// About: of who has changed something at the moment it is counted or not, and a mark may go before it is.
    pub fn bytes(&self) -> u64 {
        (self.bytes.load(Ordering::Relaxed) as i64).max(0) as u64
    }

    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
impl Entries {
    /// What is known is so. Whether anything is.
    pub(super) fn assert_true_of(&self, there: &std::collections::BTreeSet<Vec<u8>>) -> bool {
        let (mut bytes, mut joined) = (0, 0);
        for known in &self.indexes.read().in_turn {
            let known = known.lock();
            assert!(known.readings.is_empty());
            let mut before: Option<&[u8]> = None;
            for (key, mark) in &known.marks {
                bytes += weight(key);
                assert_eq!(mark.is_entry, there.contains(&key[..]), "{key:?}");
                if mark.is_joined {
                    joined += 1;
                    let before = before.expect("something is before what is joined");
                    let between = (Bound::Excluded(before), Bound::Excluded(&key[..]));
                    assert_eq!(there.range::<[u8], _>(between).next(), None, "{before:?}, {key:?}");
                }
                before = Some(key);
            }
        }
        assert_eq!(bytes, self.bytes());
        joined > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index that grows makes room for itself, however many others there are.
    #[test]
    fn what_grows_makes_room() {
        let entries = Entries::new(20_000);
        let key = |index: u32, n: u64| {
            [&7_u32.to_be_bytes(), &index.to_be_bytes(), &n.to_be_bytes()[..]].concat()
        };
        let read = |index: u32| {
            let from = key(index, 0);
            let (place, to) = entries.begin(&from, &key(index, 1));
            place.leave(&WasRead { from: &from, to: &to, entries: &[] });
        };
        for index in 0..500 {
            read(index);
            assert!(entries.bytes() <= entries.limit_bytes);
        }
        read(0);
        let mut was_known = 0;
        for n in 1..5_000 {
            entries.changed(&key(0, n), true);
            let mut found = Vec::new();
            let rest = entries.visit(&key(0, n), &key(0, n + 1), false, &mut |entry| {
                found.push(entry.to_vec());
                true
            });
            match rest {
                None => {
                    was_known += 1;
                    assert_eq!(found, [key(0, n)]);
                }
                Some((from, to)) => {
                    let (place, to) = entries.begin(&from, &to);
                    place.leave(&WasRead { from: &from, to: &to, entries: &[key(0, n).into()] });
                }
            }
            assert!(entries.bytes() <= entries.limit_bytes, "{} bytes", entries.bytes());
        }
        assert!(was_known > 4_500, "{was_known}");
    }
}
