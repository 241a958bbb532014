//! What a lazy migration has migrated, row by row: two bits for each granule (BullFrog, section 4.3.3,
//! algorithm 2).
//!
//! ```text
//!            claim               done
//!     00 ───────────▶ 01 ───────────▶ 10         00 unmigrated, 01 in progress, 10 migrated
//!      ▲               │
//!      └───────────────┘ dropped: an error, a panic
//! ```
//!
//! A granule is a row of the source, or an aligned run of 2^n rows of a block. There is no latch: a claim
//! is a compare-and-swap of the granule's word.
//!
//! B1: a granule becomes migrated once, by whoever has claimed it.
//! B2: who waits for a granule waits for one that somebody else is at, and has no claim meanwhile: nobody
//!     waits in a circle.
//! B3: a sleeper has counted itself (`sleepers`) before it looks at the granule for the last time, and whoever
//!     gives a claim up looks at `sleepers` afterwards; both are sequentially consistent, and the notice
//!     is given under the lock under which the sleeper looked.
//! B4: a granule is counted before it is seen to be migrated: who has waited for all of them finds them counted.

use std::sync::OnceLock;

use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{Installs, RowId};

use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, hint};

const IN_PROGRESS: u64 = 0b01;
const MIGRATED: u64 = 0b10;
const STATE: u64 = 0b11;
/// Granules of a word.
const PER_WORD: usize = 32;
/// Looks at a granule that somebody is at before the waiter sleeps: most take microseconds.
const SPINS: u32 = if cfg!(shuttle) { 2 } else { 200 };

/// A run of rows that are migrated at once, by number.
pub(crate) type Granule = u64;

/// See the module.
pub(crate) struct Tracker {
    /// A granule has 2^shift rows.
    shift: u32,
    blocks: Box<[OnceLock<Words>]>,
    /// Granules of each block that are not migrated.
    left: Box<[AtomicU32]>,
    migrated: AtomicU64,
    sleepers: AtomicUsize,
    sleeping: Mutex<()>,
    given_up: Condvar,
}

type Words = Box<[AtomicU64]>;

/// Rows of a block, a bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots([u64; ROWS_PER_BLOCK / 64]);

impl Slots {
    pub fn contains(&self, slot: usize) -> bool {
        self.0[slot / 64] >> (slot % 64) & 1 == 1
    }

    fn insert(&mut self, slot: usize) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }
}

/// What became of an attempt to claim a granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claimed {
    Mine,
    Others,
    Migrated,
}

/// Granules that somebody is at. Dropped, they are given up.
pub(crate) struct Claims<'t> {
    tracker: &'t Tracker,
    granules: Vec<Granule>,
}

impl Tracker {
    /// Of a source of so many blocks; a granule has `rows`, a power of two.
    pub fn new(blocks: u32, rows: u32) -> Tracker {
        assert!(rows.is_power_of_two() && rows as usize <= ROWS_PER_BLOCK, "granules fill a block");
        let shift = rows.trailing_zeros();
        let per_block = (ROWS_PER_BLOCK >> shift) as u32;
        Tracker {
            shift,
            blocks: (0..blocks).map(|_| OnceLock::new()).collect(),
            left: (0..blocks).map(|_| AtomicU32::new(per_block)).collect(),
            migrated: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            sleeping: Mutex::new(()),
            given_up: Condvar::default(),
        }
    }

    /// Blocks of the source.
    pub fn blocks(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// Row ids below this have a granule.
    pub fn tail(&self) -> RowId {
        RowId(self.blocks.len() as u64 * ROWS_PER_BLOCK as u64)
    }

    fn per_block(&self) -> usize {
        ROWS_PER_BLOCK >> self.shift
    }

    /// Granules that are migrated, and all of them.
    pub fn progress(&self) -> (u64, u64) {
        let all = self.blocks.len() * self.per_block();
        (self.migrated.load(Ordering::SeqCst), all as u64)
    }

    /// Whether nothing is left.
    pub fn is_complete(&self) -> bool {
        let (done, of) = self.progress();
        done == of
    }

    /// The granule of a row; none of one that came later.
    pub fn granule_of(&self, row: RowId) -> Option<Granule> {
        (row < self.tail()).then_some(row.0 >> self.shift)
    }

    /// The rows of a granule.
    pub fn rows_of(&self, granule: Granule) -> impl Iterator<Item = RowId> + use<> {
        (granule << self.shift..(granule + 1) << self.shift).map(RowId)
    }

    /// The rows of some granules, in their order.
    pub fn rows_in<'t>(&'t self, granules: &'t [Granule]) -> impl Iterator<Item = RowId> + 't {
        granules.iter().flat_map(|granule| self.rows_of(*granule))
    }

    fn word(&self, granule: Granule) -> (&AtomicU64, u32) {
        let block = (granule as usize) / self.per_block();
        let at = (granule as usize) % self.per_block();
        let words = self.blocks[block].get_or_init(|| {
            (0..self.per_block().div_ceil(PER_WORD)).map(|_| AtomicU64::new(0)).collect()
        });
        (&words[at / PER_WORD], (at % PER_WORD) as u32 * 2)
    }

    fn state(&self, granule: Granule) -> u64 {
        let (word, shift) = self.word(granule);
        word.load(Ordering::SeqCst) >> shift & STATE
    }

    /// Whether a row is migrated, or came later.
    pub fn is_migrated(&self, row: RowId) -> bool {
        self.granule_of(row).is_none_or(|granule| self.state(granule) == MIGRATED)
    }

    /// Whether nothing of a block is left.
    pub fn is_block_migrated(&self, block: u32) -> bool {
        self.left.get(block as usize).is_none_or(|left| left.load(Ordering::SeqCst) == 0)
    }

    /// The granules of a block that are left.
    pub fn left_in(&self, block: u32) -> Vec<Granule> {
        if self.is_block_migrated(block) {
            return Vec::new();
        }
        let first = u64::from(block) * self.per_block() as u64;
        (first..first + self.per_block() as u64)
            .filter(|granule| self.state(*granule) != MIGRATED)
            .collect()
    }

    /// The rows of a block that are left; none, if there are none.
    pub fn slots_left_in(&self, block: u32) -> Option<Box<Slots>> {
        let granules = self.left_in(block);
        if granules.is_empty() {
            return None;
        }
        let mut slots = Box::new(Slots([0; ROWS_PER_BLOCK / 64]));
        let rows = granules.into_iter().flat_map(|granule| self.rows_of(granule));
        rows.for_each(|row| slots.insert(row.slot()));
        Some(slots)
    }

    fn claim(&self, granule: Granule) -> Claimed {
        let (word, shift) = self.word(granule);
        let mut now = word.load(Ordering::SeqCst);
        loop {
            match now >> shift & STATE {
                0 => {}
                IN_PROGRESS => return Claimed::Others,
                _ => return Claimed::Migrated,
            }
            let next = now | IN_PROGRESS << shift;
            match word.compare_exchange_weak(now, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Claimed::Mine,
                Err(other) => now = other,
            }
        }
    }

    /// Claims of some granules, ascending, each once, those that are free. Returns what others are at,
    /// too.
    pub fn claim_all(&self, granules: &[Granule]) -> (Claims<'_>, Vec<Granule>) {
        let (mut mine, mut others) = (Vec::new(), Vec::new());
        for &granule in granules {
            match self.claim(granule) {
                Claimed::Mine => mine.push(granule),
                Claimed::Others => others.push(granule),
                Claimed::Migrated => {}
            }
        }
        (Claims { tracker: self, granules: mine }, others)
    }

    /// Waits until nobody is at a granule [B2].
    pub fn wait(&self, granule: Granule) {
        let is_idle = || self.state(granule) != IN_PROGRESS;
        for _ in 0..SPINS {
            if is_idle() {
                return;
            }
            hint::spin_loop();
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut sleeping = self.sleeping.lock();
        while !is_idle() {
            sleeping = self.given_up.wait(sleeping);
        }
        drop(sleeping);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _sleeping = self.sleeping.lock();
            self.given_up.notify_all();
        }
    }

    /// Makes sure that granules are migrated: `migrate` is given claims of those that are free, and again
    /// of those that others have given up.
    pub fn migrate_all<E>(
        &self,
        mut wanted: Vec<Granule>,
        migrate: &mut dyn FnMut(&mut Claims<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !wanted.is_empty() {
            let (mut claims, others) = self.claim_all(&wanted);
            if !claims.granules().is_empty() {
                migrate(&mut claims)?;
            }
            drop(claims);
            others.iter().for_each(|granule| self.wait(*granule));
            // What others have given up is ours now.
            wanted = others;
        }
        Ok(())
    }

    /// Puts a granule from one state into another [B4]. Returns false if it was in neither.
    fn turn(&self, granule: Granule, from: u64, to: u64) -> bool {
        let (word, shift) = self.word(granule);
        if to == MIGRATED {
            let block = granule as usize / self.per_block();
            self.left[block].fetch_sub(1, Ordering::SeqCst);
            self.migrated.fetch_add(1, Ordering::SeqCst);
        }
        word.fetch_xor((from ^ to) << shift, Ordering::SeqCst) >> shift & STATE == from
    }

    /// Marks what a note says, for whoever recovers.
    pub fn mark(&self, note: &[u8]) -> Result<(), BrokenNote> {
        let (_, all) = self.progress();
        let mut note = note.iter();
        let mut at = 0_u64;
        while note.len() > 0 {
            let (skip, run) = (number(&mut note)?, number(&mut note)?);
            let start = at.checked_add(skip).ok_or(BrokenNote)?;
            at = start.checked_add(run).filter(|end| *end <= all).ok_or(BrokenNote)?;
            for granule in start..at {
                if self.state(granule) != MIGRATED {
                    self.turn(granule, 0, MIGRATED);
                }
            }
        }
        Ok(())
    }
}

impl Tracker {
    /// What recovery is to know of a block of which nothing is left.
    pub fn note_of_block(&self, block: u32) -> Vec<u8> {
        let first = u64::from(block) * self.per_block() as u64;
        runs(&mut (first..first + self.per_block() as u64))
    }
}

impl Installs for Tracker {
    /// What is migrated: runs of granules, each as how many are left out and how many it has.
    fn note(&self) -> Vec<u8> {
        let (_, all) = self.progress();
        runs(&mut (0..all).filter(|granule| self.state(*granule) == MIGRATED))
    }
}

/// A note that no tracker of this size has written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BrokenNote;

fn runs(granules: &mut dyn Iterator<Item = Granule>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |mut number: u64| {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    };
    let (mut end, mut run) = (0, None::<(u64, u64)>);
    for granule in granules {
        match &mut run {
            Some((start, len)) if *start + *len == granule => *len += 1,
            _ => {
                if let Some((start, len)) = run.replace((granule, 1)) {
                    put(start - end);
                    put(len);
                    end = start + len;
                }
            }
        }
    }
    if let Some((start, len)) = run {
        put(start - end);
        put(len);
    }
    out
}

fn number(bytes: &mut std::slice::Iter<'_, u8>) -> Result<u64, BrokenNote> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.next().ok_or(BrokenNote)?;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(BrokenNote)
}

impl Claims<'_> {
    /// The granules, ascending.
    pub fn granules(&self) -> &[Granule] {
        &self.granules
    }

    /// What recovery is to know of them once they are migrated.
    pub fn note(&self) -> Vec<u8> {
        runs(&mut self.granules.iter().copied())
    }

    /// They are migrated [B1].
    pub fn done(&mut self) {
        for granule in std::mem::take(&mut self.granules) {
            let was_mine = self.tracker.turn(granule, IN_PROGRESS, MIGRATED);
            assert!(was_mine, "granule {granule} is migrated by who has claimed it");
        }
        self.tracker.wake();
    }
}

impl Drop for Claims<'_> {
    fn drop(&mut self) {
        for &granule in &self.granules {
            self.tracker.turn(granule, IN_PROGRESS, 0);
        }
        self.tracker.wake();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn a_granule_is_migrated_once_and_an_aborted_claim_is_free_again() {
        let tracker = Tracker::new(2, 64);
        assert_eq!(tracker.progress(), (0, 256));
        let (mut mine, others) = tracker.claim_all(&[3, 4]);
        assert_eq!((mine.granules(), &*others), (&[3, 4][..], &[][..]));
        let (second, others) = tracker.claim_all(&[4, 5]);
        assert_eq!((second.granules(), &*others), (&[5][..], &[4][..]));
        drop(second);
        mine.done();
        let (third, others) = tracker.claim_all(&[3, 4, 5]);
        assert_eq!((third.granules(), &*others), (&[5][..], &[][..]));
        drop((mine, third));
        assert!(tracker.is_migrated(RowId(3 * 64)) && tracker.is_migrated(RowId(4 * 64 + 63)));
        assert!(!tracker.is_migrated(RowId(5 * 64)) && !tracker.is_migrated(RowId(2 * 64 + 63)));
        assert!(tracker.is_migrated(tracker.tail()), "it came later");
        let left = tracker.slots_left_in(0).unwrap();
        let count = (0..ROWS_PER_BLOCK).filter(|slot| left.contains(*slot)).count();
        assert_eq!(count, ROWS_PER_BLOCK - 128);
        assert!(!left.contains(3 * 64) && left.contains(5 * 64));
        assert!(!tracker.is_block_migrated(1));
    }

    #[test]
    fn a_note_says_what_is_migrated() {
        for rows in [1, 64, 256] {
            let tracker = Tracker::new(3, rows);
            let (_, all) = tracker.progress();
            let some: Vec<Granule> = (0..all).filter(|g| g % 7 < 3 || g % 11 == 0).collect();
            let other = Tracker::new(3, rows);
            for part in some.chunks(5) {
                let (mut claims, _) = tracker.claim_all(part);
                let note = claims.note();
                claims.done();
                other.mark(&note).unwrap();
                other.mark(&note).unwrap();
            }
            assert_eq!(other.note(), tracker.note());
            let third = Tracker::new(3, rows);
            third.mark(&tracker.note()).unwrap();
            assert_eq!(third.progress(), (some.len() as u64, all));
            assert_eq!(third.mark(&[0, 0xFF, 0xFF, 0x7F]), Err(BrokenNote), "past the end");
            assert_eq!(third.mark(&[0x80]), Err(BrokenNote), "cut off");
        }
    }

    /// Threads claim, give up and migrate the same granules; each is migrated once, and all waits end.
    #[test]
    fn many_claimers_migrate_each_granule_once() {
        let tracker = Tracker::new(1, 1);
        let made: Vec<AtomicU32> = (0..2000).map(|_| AtomicU32::new(0)).collect();
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            for worker in 0..4_u64 {
                let (tracker, made, failed) = (&tracker, &made, &failed);
                scope.spawn(move || {
                    for first in (0..2000).step_by(5) {
                        let mut wanted: Vec<Granule> = (first..first + 5).collect();
                        while !wanted.is_empty() {
                            let (mut mine, others) = tracker.claim_all(&wanted);
                            if (first / 5 + worker) % 3 == 0 && !failed.swap(true, Ordering::SeqCst)
                            {
                                drop(mine);
                                continue;
                            }
                            failed.store(false, Ordering::SeqCst);
                            for granule in mine.granules() {
                                made[*granule as usize].fetch_add(1, Ordering::SeqCst);
                            }
                            mine.done();
                            others.iter().for_each(|granule| tracker.wait(*granule));
                            wanted = others;
                        }
                    }
                });
            }
        });
        assert!(made.iter().all(|made| made.load(Ordering::SeqCst) == 1));
        assert_eq!(tracker.progress().0, 2000);
    }
}
