//! Index keys: building them, keeping the index in step with the rows, and uniqueness.
//!
//! An index is one ordered set of (key, row id), not versioned. A hit is checked against the version
//! that a reader sees.
//!
//! **[K1]** While any state in a row's chain (the cells in place, and what each before-image leads
//! back to) has the key `K`, the entry (K, row) is in every index of the space that its writer
//! maintained. So a registered snapshot finds every row it sees.
//! **[K2]** Entries of `K` change only under the stripe of `K`: a writer stores the cells and adds the
//! entry under it; whoever makes a state unreachable (the collector cutting a chain, an abort restoring
//! cells) takes the stripe afterwards, looks whether any state in the chain still has `K`, and if none
//! has, removes the entry. The last of several who look sees that none is left.
//! **[K3]** A unique check holds the stripe of `K` from the look to the added entry, so of two
//! writers of `K` the second sees the first: as committed, as its own, or as open and then it waits.
//!
//! While an index is built, removals also go to its side-file (see `build`).

use std::sync::Arc;

use crate::sync::{Mutex, MutexGuard};
use crossbeam_epoch::Guard;
use froglet_engine::key::encode_part;
use froglet_engine::{IndexSpec, RowId, TxnId, Value, WriteStop};
use smallvec::SmallVec;

use crate::clock::{Owner, Timeline};
use crate::column::{Cell, Found, Wanted};
use crate::engine::Core;
use crate::index::OrderedIndex;
use crate::read::apply;
use crate::space::Space;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::undo::{Kind, Undo};

const STRIPES: usize = if cfg!(any(shuttle, miri)) { 64 } else { 4096 };

/// An index of a space.
pub(crate) struct Index {
    pub spec: IndexSpec,
    /// The columns of the key, in its order.
    pub parts: Vec<Wanted>,
    pub tree: OrderedIndex,
    /// Keys that rows lose while the index is built.
    pub side_file: SideFile,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({} of {} entries)", self.spec.id, self.tree.len())
    }
}

impl Index {
    /// The key of values given by part; whether a NULL makes it unlike every other.
    pub fn key_of<'v>(
        &self,
        mut value: impl FnMut(usize) -> std::borrow::Cow<'v, Value>,
        out: &mut Vec<u8>,
    ) -> bool {
        out.clear();
        let mut has_null = false;
        for (i, part) in self.spec.key.iter().enumerate() {
            let value = value(i);
            has_null |= value.is_null() && self.spec.nulls.sets_apart(i);
            encode_part(out, &value, part);
        }
        has_null
    }

    /// The key of validated cells, one for each part.
    pub fn key_of_cells(
        &self,
        found: &[Found<'_>],
        cells: &[Cell],
        guard: &Guard,
        out: &mut Vec<u8>,
    ) -> bool {
        self.key_of(|i| std::borrow::Cow::Owned(found[i].value(&cells[i], guard)), out)
    }

    /// Takes an entry away that its row does not need any more. Under the stripe of the key.
    pub fn remove(&self, key: &[u8], rid: u64) {
        self.side_file.note(key, rid);
        self.tree.remove(key, rid);
    }

    /// Whether a column is part of the key.
    pub fn has_column(&self, id: froglet_engine::ColumnId) -> bool {
        self.parts.iter().any(|part| part.id == id)
    }
}

/// Removals from an index while a build of it is under way: it may have read what is removed.
#[derive(Default)]
pub(crate) struct SideFile {
    is_open: AtomicBool,
    removals: Mutex<Option<Vec<Removal>>>,
}

/// A key and a row id.
type Removal = (Box<[u8]>, u64);

impl SideFile {
    /// False if it is open already.
    pub fn open(&self) -> bool {
        let mut removals = self.removals.lock();
        let was_closed = removals.is_none();
        removals.get_or_insert_default();
        self.is_open.store(true, Ordering::Release);
        was_closed
    }

    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    fn note(&self, key: &[u8], rid: u64) {
        if self.is_open()
            && let Some(removals) = &mut *self.removals.lock()
        {
            removals.push((key.into(), rid));
        }
    }

    /// What has been removed since it was opened. Whoever comes later finds the published tree.
    pub fn close(&self) -> Vec<Removal> {
        let removals = self.removals.lock().take().unwrap_or_default();
        self.is_open.store(false, Ordering::Release);
        removals
    }
}

/// One lock for all keys with the same hash.
#[derive(Debug)]
pub(crate) struct Stripes(Box<[Mutex<()>]>);

impl Stripes {
    pub fn new() -> Stripes {
        Stripes((0..STRIPES).map(|_| Mutex::new(())).collect())
    }

    fn of(index: &Index, key: &[u8]) -> usize {
        // FxHash over words; only equal keys need equal stripes.
        const SEED: u64 = 0x517c_c1b7_2722_0a95;
        let mut hash = u64::from(index.spec.id.0);
        let mut mix = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(SEED);
        for word in key.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            mix(u64::from_le_bytes(bytes));
        }
        (hash >> 40) as usize % STRIPES
    }

    /// Waits for everybody who holds a stripe now; who locks one later sees what the caller did.
    pub fn pass_through(&self) {
        self.0.iter().for_each(|stripe| drop(stripe.lock()));
    }

    /// Locks the stripe of one key.
    pub fn lock(&self, index: &Index, key: &[u8]) -> MutexGuard<'_, ()> {
        self.0[Self::of(index, key)].lock()
    }

    /// Locks the stripes of several keys, in one order for everybody, so without deadlock.
    pub fn lock_all<'k>(
        &self,
        keys: impl Iterator<Item = (&'k Index, &'k [u8])>,
    ) -> SmallVec<[MutexGuard<'_, ()>; 4]> {
        let mut stripes: SmallVec<[usize; 8]> =
            keys.map(|(index, key)| Self::of(index, key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.iter().map(|&at| self.0[at].lock()).collect()
    }
}

type Parts<'a> = SmallVec<[Found<'a>; 4]>;
type PartCells = SmallVec<[Cell; 4]>;

fn ptr_of(head: Option<&Undo>) -> *const Undo {
    head.map_or(std::ptr::null(), std::ptr::from_ref)
}

/// The states of a row as far as one key of one index is concerned.
struct KeyWalk<'a> {
    index: &'a Index,
    key: &'a [u8],
    parts: Parts<'a>,
    cells: PartCells,
    present: bool,
    /// Whether this state has the key, if that was asked since it changed.
    known: Option<bool>,
    scratch: Vec<u8>,
    guard: &'a Guard,
}

impl<'a> KeyWalk<'a> {
    /// Starts at the state in place, which belongs to the record returned.
    fn new(
        space: &'a Space,
        index: &'a Index,
        rid: RowId,
        key: &'a [u8],
        guard: &'a Guard,
    ) -> Option<(KeyWalk<'a>, Option<&'a Undo>)> {
        let block = space.block(rid.block())?;
        let directory = block.directory(guard);
        let parts: Parts<'a> = index.parts.iter().map(|part| part.find(directory)).collect();
        let mut cells: PartCells = parts.iter().map(|_| Cell::MISSING).collect();
        let (head, present) = block.copy_row_whole(rid.slot(), &parts, &mut cells, guard);
        let scratch = Vec::with_capacity(key.len());
        Some((KeyWalk { index, key, parts, cells, present, known: None, scratch, guard }, head))
    }

    /// Whether this state has the key.
    fn has(&mut self) -> bool {
        if let Some(known) = self.known {
            return known;
        }
        let has = self.present && {
            self.index.key_of_cells(&self.parts, &self.cells, self.guard, &mut self.scratch);
            self.scratch == self.key
        };
        self.known = Some(has);
        has
    }

    /// Goes back to the state before a write.
    fn back(&mut self, undo: &Undo) {
        if undo.kind != Kind::Update || self.index.parts.iter().any(|part| undo.changes(part.id)) {
            self.known = None;
        }
        apply(undo, &self.parts, &mut self.cells, &mut self.present);
    }

    /// Goes back along a chain; visits each record with the key before it, if there was a row.
    fn go_back(&mut self, first: Option<&Undo>, mut visit: impl FnMut(&Undo, Option<Vec<u8>>)) {
        let mut next = first;
        while let Some(undo) = next {
            self.back(undo);
            let mut key = None;
            if self.present {
                let key = key.insert(Vec::new());
                self.index.key_of_cells(&self.parts, &self.cells, self.guard, key);
            }
            visit(undo, key);
            next = undo.next(self.guard);
        }
    }
}

/// Whether any state in the chain of a row has the key: the cells in place and what before-images
/// lead back to, without those that only an aborted write made.
///
/// Of a row that is being written some parts may be new and others old. That hides no key from [K2]:
/// the key that is being written is added after the stripe that the caller holds is free, and the
/// keys before are in before-images.
pub(crate) fn any_state_has_key(
    timeline: &Timeline,
    space: &Space,
    index: &Index,
    rid: RowId,
    key: &[u8],
    guard: &Guard,
) -> bool {
    let Some((mut walk, head)) = KeyWalk::new(space, index, rid, key, guard) else { return false };
    let mut next = head;
    while let Some(undo) = next {
        if timeline.owner(&undo.word) != Owner::Aborted && walk.has() {
            return true;
        }
        walk.back(undo);
        next = undo.next(guard);
    }
    walk.has()
}

/// The keys that a row had before the first of these records and before those behind it, which are not
/// linked any more.
pub(crate) fn keys_behind(
    space: &Space,
    index: &Index,
    rid: RowId,
    cut: &Undo,
    guard: &Guard,
) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let Some((mut walk, head)) = KeyWalk::new(space, index, rid, &[], guard) else { return keys };
    walk.go_back(head, |_, _| ());
    walk.go_back(Some(cut), |_, key| keys.extend(key));
    keys
}

/// The keys that a row had before records of which nobody has noted them.
pub(crate) fn recovered_keys(
    space: &Space,
    index: &Index,
    rid: RowId,
    guard: &Guard,
) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let Some((mut walk, head)) = KeyWalk::new(space, index, rid, &[], guard) else { return keys };
    walk.go_back(head, |undo, key| {
        keys.extend(key.filter(|_| undo.unnoted.load(Ordering::Relaxed)))
    });
    keys
}

/// The keys of all states of a row.
pub(crate) fn all_keys(space: &Space, index: &Index, rid: RowId, guard: &Guard) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let Some((mut walk, head)) = KeyWalk::new(space, index, rid, &[], guard) else { return keys };
    walk.go_back(head, |_, key| keys.extend(key));
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Removes an entry unless a state of its row still needs it [K2]. Whoever calls has made a state with
/// the key unreachable.
pub(crate) fn remove_unneeded(
    core: &Core,
    space: &Space,
    index: &Index,
    rid: RowId,
    key: &[u8],
    guard: &Guard,
) {
    let _stripe = core.stripes.lock(index, key);
    if !any_state_has_key(&core.timeline, space, index, rid, key, guard) {
        index.remove(key, rid.0);
    }
}

/// What another row with the same key in the index means for a write.
enum Rival {
    None,
    Duplicate,
    Busy(u64),
}

/// Under the stripe of `key`: why row `rid` of transaction `own` may not have it.
pub(crate) fn conflict(
    timeline: &Timeline,
    space: &Space,
    index: &Index,
    key: &[u8],
    rid: Option<RowId>,
    own: u64,
    guard: &Guard,
) -> Option<WriteStop> {
    let mut others = SmallVec::<[u64; 4]>::new();
    index.tree.get(key, &mut others);
    for other in others.into_iter().map(RowId).filter(|&other| Some(other) != rid) {
        match rival(timeline, space, index, key, other, own, guard) {
            Rival::None => {}
            Rival::Duplicate => return Some(WriteStop::Duplicate { index: index.spec.id, other }),
            Rival::Busy(holder) => return Some(WriteStop::Busy { holder: TxnId(holder) }),
        }
    }
    None
}

/// Whether the newest version of another row that is committed or own has a key: a candidate for a
/// duplicate. For rows of open writers: whether any state of theirs has it.
#[allow(clippy::too_many_arguments)]
fn rival(
    timeline: &Timeline,
    space: &Space,
    index: &Index,
    key: &[u8],
    other: RowId,
    own: u64,
    guard: &Guard,
) -> Rival {
    let Some(block) = space.block(other.block()) else { return Rival::None };
    loop {
        // The owner first, the cells second: what is committed now was stored before now.
        let head = block.head(other.slot(), guard);
        let owner = newest_owner(timeline, head, guard);
        let Some((mut walk, copied)) = KeyWalk::new(space, index, other, key, guard) else {
            return Rival::None;
        };
        if !std::ptr::eq(ptr_of(copied), ptr_of(head)) {
            continue;
        }
        let mut next = copied;
        while let Some(undo) = next
            && timeline.owner(&undo.word) == Owner::Aborted
        {
            walk.back(undo);
            next = undo.next(guard);
        }
        let Some(Owner::Open(holder)) = owner.filter(|o| *o != Owner::Open(own)) else {
            return if walk.has() { Rival::Duplicate } else { Rival::None };
        };
        let mut is_held = walk.has();
        while let Some(undo) = next
            && !is_held
            && !matches!(timeline.owner(&undo.word), Owner::Committed(_))
        {
            walk.back(undo);
            is_held = walk.has();
            next = undo.next(guard);
        }
        return if is_held { Rival::Busy(holder) } else { Rival::None };
    }
}

/// The owner of the newest record that is neither aborted nor a mere lock; none if there is none.
fn newest_owner(timeline: &Timeline, head: Option<&Undo>, guard: &Guard) -> Option<Owner> {
    let mut next = head;
    while let Some(undo) = next {
        if undo.kind != Kind::Lock {
            match timeline.owner(&undo.word) {
                Owner::Aborted => {}
                owner => return Some(owner),
            }
        }
        next = undo.next(guard);
    }
    None
}

/// The keys that a write gives to a row, and their indexes; filled and locked, then entered.
#[derive(Debug, Default)]
pub(crate) struct NewKeys {
    /// Position of the index in the table, and where its key ends in `bytes`.
    pub ends: SmallVec<[(usize, usize, bool); 4]>,
    pub bytes: Vec<u8>,
}

impl NewKeys {
    pub fn clear(&mut self) {
        self.ends.clear();
        self.bytes.clear();
    }

    pub fn push(&mut self, index: usize, key: &[u8], has_null: bool) {
        self.bytes.extend_from_slice(key);
        self.ends.push((index, self.bytes.len(), has_null));
    }

    /// Index positions, keys, and whether a part is NULL.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8], bool)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(_, end, _)| end));
        starts
            .zip(&self.ends)
            .map(|(start, &(index, end, has_null))| (index, &self.bytes[start..end], has_null))
    }
}

/// A key that a version of a row had before a transaction changed it: to be removed when that
/// version is collected.
#[derive(Debug)]
pub(crate) struct OldKey {
    pub index: Arc<Index>,
    pub space: u16,
    pub rid: RowId,
    /// The write that changed it.
    pub seq: u32,
    pub key: Box<[u8]>,
}
