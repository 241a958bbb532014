//! What transactions have written and the store does not have: rows, entries of indexes, and claims to keys.
//!
//! ```text
//!   row      ▶ pending: whose it is, what it was (base), what it has become (changes)
//!   reader   own: the last change │ committed at or below his view: the same │ else: the base, or older
//!   commit   committing(d) ─ logged ─ committed(d) ─ into the store, row by row ─ out of here
//! ```
//! **[O1] One writer.** Who has a row here is the only one who changes it in the store. Nobody else writes to it before it is
//! out of here; whoever cleans up takes rows the same way.
//! **[O2] Here first.** A reader looks here and then into the store. What leaves here is in the store before: he finds it in
//! one of them. What comes here after he has looked is committed after his view.
//! **[O3]** Rows of one block are under one lock. It is held for moments, and never while a log or a disk is waited for, but
//! by who fills a block (`fill.rs`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;
use froglet_engine::{ColumnId, RowId, SpaceId, TxnId};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::version::{Cells, Version};

const SHARDS: usize = 64;

/// The state of a transaction's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Open,
    /// It has a timestamp; whether it commits is known in moments.
    Committing(u64),
    Committed(u64),
    Aborted,
}

/// Whose a write is.
#[derive(Debug)]
pub(crate) struct Owner {
    pub id: TxnId,
    word: AtomicU64,
    fills: AtomicU32,
}

impl Owner {
    pub fn new(id: TxnId) -> Arc<Owner> {
        Arc::new(Owner { id, word: AtomicU64::new(0), fills: AtomicU32::new(0) })
    }

    pub fn state(&self) -> State {
        let word = self.word.load(Ordering::SeqCst);
        match word & 3 {
            0 => State::Open,
            1 => State::Committing(word >> 2),
            2 => State::Committed(word >> 2),
            _ => State::Aborted,
        }
    }

    /// How often migrations have put something into its rows, or were about to.
    pub fn fills(&self) -> u32 {
        self.fills.load(Ordering::SeqCst)
    }

    /// Before something is put into its rows; false: it is too late. Who commits asks for [`Owner::fills`] when it is.
    pub fn begin_fill(&self) -> bool {
        self.fills.fetch_add(1, Ordering::SeqCst);
        self.state() == State::Open
    }

    pub fn set(&self, state: State) {
        let word = match state {
            State::Open => 0,
            State::Committing(ts) => ts << 2 | 1,
            State::Committed(ts) => ts << 2 | 2,
            State::Aborted => 3,
        };
        self.word.store(word, Ordering::SeqCst);
    }
}

/// The columns that a write has set.
#[derive(Clone, Debug)]
pub(crate) enum Set {
    /// The row was not there.
    Inserted,
    Some(SmallVec<[ColumnId; 4]>),
    /// The row is held, and as it was.
    Nothing,
    Deleted,
}

/// One write to a row.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The number of the write in its transaction.
    pub seq: u32,
    /// What the row is now; none: it is not there.
    pub cells: Option<Cells>,
    pub set: Set,
}

impl Change {
    pub fn is_lock(&self) -> bool {
        matches!(self.set, Set::Nothing)
    }
}

/// What a row is in the store.
#[derive(Clone, Debug)]
pub(crate) enum Base {
    /// Its writer is about to look.
    Unread,
    Nothing,
    Version(Version),
}

impl Base {
    /// What it is, if that is known and something.
    pub fn version(&self) -> Option<&Version> {
        match self {
            Base::Version(version) => Some(version),
            Base::Nothing | Base::Unread => None,
        }
    }
}

/// A row that somebody writes to.
#[derive(Debug)]
pub(crate) struct Pending {
    pub owner: Arc<Owner>,
    pub base: Base,
    pub changes: SmallVec<[Change; 1]>,
}

impl Pending {
    /// The last change that is one; none: the row is only held.
    pub fn last(&self) -> Option<&Change> {
        self.changes.iter().rev().find(|change| !change.is_lock())
    }
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Found {
    /// This, since then; none: it is his own.
    Row(Cells, Option<u64>),
    /// No row, since then; none: he has deleted it himself, or nobody has committed it.
    Gone(Option<u64>),
    /// Whatever the history has.
    Older,
    /// Nobody writes to it: the store has it.
    NotHere,
}

/// What a reader finds who has not to wait.
type Look = Option<Found>;

/// The pending rows of one block.
pub(crate) type BlockRows = BTreeMap<u16, Pending>;
type Shard = HashMap<(SpaceId, u32), BlockRows, RandomState>;

/// See the module.
pub(crate) struct Overlay {
    shards: Box<[Mutex<Shard>]>,
    claims: Box<[Mutex<Claims>]>,
    hasher: RandomState,
}

/// A key of an index, behind what its entries begin with ([`crate::keys::index`]): a table that moved away and back has
/// its indexes in two spaces.
pub(crate) type ClaimKey = ([u8; 8], Box<[u8]>);

/// Who has claimed a key, and how often.
type Claims = HashMap<ClaimKey, (TxnId, u32), RandomState>;

/// The rows of one block, locked.
pub(crate) struct Block<'a> {
    shard: MutexGuard<'a, Shard>,
    at: (SpaceId, u32),
}

impl Block<'_> {
    pub fn get(&self, rid: RowId) -> Option<&Pending> {
        self.shard.get(&self.at)?.get(&(rid.slot() as u16))
    }

    pub fn get_mut(&mut self, rid: RowId) -> Option<&mut Pending> {
        self.shard.get_mut(&self.at)?.get_mut(&(rid.slot() as u16))
    }

    pub fn insert(&mut self, rid: RowId, pending: Pending) {
        self.shard.entry(self.at).or_default().insert(rid.slot() as u16, pending);
    }

    pub fn remove(&mut self, rid: RowId) {
        if let Some(rows) = self.shard.get_mut(&self.at) {
            rows.remove(&(rid.slot() as u16));
            if rows.is_empty() {
                self.shard.remove(&self.at);
            }
        }
    }

    pub fn rows(&self) -> impl Iterator<Item = (RowId, &Pending)> {
        let number = self.at.1;
        let rows = self.shard.get(&self.at).into_iter().flatten();
        rows.map(move |(slot, pending)| (RowId::of(number, usize::from(*slot)), pending))
    }
}

/// What a view finds in a pending row; none: it has to wait for a verdict.
pub(crate) fn look(pending: &Pending, ts: u64, own: TxnId) -> Look {
    let is_own = own.0 != 0 && pending.owner.id == own;
    let newest = match pending.owner.state() {
        _ if is_own => pending.last().map(|last| (last, None)),
        State::Committing(at) if at <= ts => return None,
        State::Committed(at) if at <= ts => pending.last().map(|last| (last, Some(at))),
        State::Open | State::Committing(_) | State::Committed(_) | State::Aborted => None,
    };
    Some(match newest {
        Some((Change { cells: Some(cells), .. }, since)) => Found::Row(Arc::clone(cells), since),
        Some((Change { cells: None, .. }, since)) => Found::Gone(since),
        None => match &pending.base {
            Base::Unread => Found::NotHere,
            Base::Nothing => Found::Gone(None),
            Base::Version(version) if version.begin <= ts => {
                Found::Row(Arc::clone(&version.cells), Some(version.begin))
            }
            Base::Version(_) => Found::Older,
        },
    })
}

/// Lets others go on, and soon more of them.
pub(crate) fn pause(spins: &mut u32) {
    *spins += 1;
    match *spins {
        ..20 => std::hint::spin_loop(),
        20..200 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(100)),
    }
}

impl Overlay {
    pub fn new() -> Overlay {
        Overlay {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            claims: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
        }
    }

    /// Locks the rows of a block.
    pub fn block(&self, space: SpaceId, number: u32) -> Block<'_> {
        use std::hash::BuildHasher;
        let at = (space, number);
        let shard = self.hasher.hash_one(at) as usize % SHARDS;
        Block { shard: self.shards[shard].lock(), at }
    }

    /// What a view finds of a row.
    pub fn find(&self, space: SpaceId, rid: RowId, ts: u64, own: TxnId) -> Found {
        let mut spins = 0;
        loop {
            let block = self.block(space, rid.block());
            let Some(pending) = block.get(rid) else { return Found::NotHere };
            if let Some(found) = look(pending, ts, own) {
                return found;
            }
            drop(block);
            pause(&mut spins);
        }
    }

    fn claims(&self, key: &ClaimKey) -> MutexGuard<'_, Claims> {
        use std::hash::BuildHasher;
        self.claims[self.hasher.hash_one(key) as usize % SHARDS].lock()
    }

    /// Claims a key for a transaction, once more if it has it; else who has it.
    pub fn claim(&self, key: &ClaimKey, own: TxnId) -> Result<(), TxnId> {
        let mut claims = self.claims(key);
        match claims.get_mut(key) {
            Some((holder, count)) if *holder == own => *count += 1,
            Some((holder, _)) => return Err(*holder),
            None => drop(claims.insert(key.clone(), (own, 1))),
        }
        Ok(())
    }

    /// Takes a claim back.
    pub fn let_go(&self, key: &ClaimKey) {
        let mut claims = self.claims(key);
        let (_, count) = claims.get_mut(key).expect("who lets go has claimed");
        *count -= 1;
        if *count == 0 {
            claims.remove(key);
        }
    }
}
