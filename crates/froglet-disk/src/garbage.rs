//! What nobody sees any more: old versions, entries of keys that no version has, spaces and indexes that were dropped.
//! Of an old version in memory nothing else goes ([N2] of `recent.rs`).
//!
//! ```text
//!   commits ─▶ queue, by end ── end <= oldest view? ─▶ by row ─▶ row taken ─▶ entries ─ versions ─▶ row free
//!   start, keeper released ─▶ sweep of the whole history ─▶ the same
//! ```
//! A version that was the newest in [begin, end) goes when no view is older than `end` and no keeper is in between. Its
//! row is taken as a writer takes it ([O1] of `overlay.rs`), so that its entries are compared with what the row is.
//! Nothing of this is logged: what a crash brings back is found again, as the whole history is gone through after a
//! start. The entry goes before the version, which says that there is an entry to go.
//!
//! All of a row that is known to be due goes at once: its other versions are read once for all of these, and only where
//! one had a key that the row has no more. A thread of its own does this; nobody waits for it.

use std::collections::HashSet;

use froglet_engine::{EngineError, IndexId, RowId, SpaceId, TxnId};
use smallvec::SmallVec;

use crate::engine::{Core, Garbage};
use crate::keys;
use crate::overlay::{Base, Owner, Pending};
use crate::space::Space;
use crate::store::{Store, Tree};
use crate::version::{Cells, Version};

/// Old versions that are known; others are found by going through all.
const KNOWN_MAX: usize = 1 << 20;
/// Versions that are looked at in one round.
const AT_ONCE: usize = 20_000;

/// An old version: when it ended, whose it was.
type Old = (u64, SpaceId, RowId);

impl Garbage {
    pub fn push(&mut self, end: u64, space: SpaceId, rid: RowId) {
        match self.queue.len() < KNOWN_MAX {
            true => self.queue.push_back((end, space, rid)),
            false => self.sweep = true,
        }
    }

    /// After so many rounds what is due now has gone, but for rows that have a writer.
    pub fn rounds(&self) -> usize {
        2 + self.queue.len() / AT_ONCE
    }

    /// Some that ended at or before a timestamp.
    fn take_due(&mut self, oldest: u64) -> Vec<Old> {
        let due = self.queue.iter().take(AT_ONCE).take_while(|(end, ..)| *end <= oldest).count();
        self.queue.drain(..due).collect()
    }
}

/// A row that is taken while somebody cleans up behind it.
struct HeldRow<'a> {
    core: &'a Core,
    space: SpaceId,
    rid: RowId,
}

impl<'a> HeldRow<'a> {
    /// None: it has a writer.
    fn take(core: &'a Core, space: SpaceId, rid: RowId) -> Option<HeldRow<'a>> {
        let mut block = core.overlay.block(space, rid.block());
        if block.get(rid).is_some() {
            return None;
        }
        let owner = Owner::new(TxnId(0));
        block.insert(rid, Pending { owner, base: Base::Unread, changes: SmallVec::new() });
        Some(HeldRow { core, space, rid })
    }
}

impl Drop for HeldRow<'_> {
    fn drop(&mut self) {
        self.core.overlay.block(self.space, self.rid.block()).remove(self.rid);
    }
}

impl Core {
    /// Removes old versions that ended at or before a timestamp that no view is older than; whether there may be more.
    pub fn collect(&self, oldest: u64) -> Result<bool, EngineError> {
        let any_unpinned = self.pins.take_gone();
        let is_swept = {
            let mut garbage = self.garbage.lock();
            garbage.sweep |= any_unpinned;
            let few = garbage.queue.len() < KNOWN_MAX / 2;
            few && std::mem::take(&mut garbage.sweep)
        };
        if is_swept && let Err(error) = self.sweep(oldest) {
            self.garbage.lock().sweep = true;
            return Err(error);
        }
        let mut due = self.garbage.lock().take_due(oldest);
        let is_full = due.len() == AT_ONCE;
        let busy = self.collect_all(&mut due)?;
        // Behind the others: theirs may be free.
        Ok(is_full && busy < AT_ONCE)
    }

    /// Collects old versions; those of rows that have a writer are put back, and counted.
    fn collect_all(&self, due: &mut Vec<Old>) -> Result<usize, EngineError> {
        due.retain(|(end, space, rid)| !self.recent.remove(*space, *rid, *end));
        due.sort_unstable_by_key(|(end, space, rid)| (*space, *rid, *end));
        let (mut busy, mut outcome) = (0, Ok(()));
        for row in due.chunk_by(|a, b| (a.1, a.2) == (b.1, b.2)) {
            let collected = match outcome {
                Ok(()) => self.collect_row(row),
                Err(_) => Ok(false),
            };
            if !matches!(collected, Ok(true)) {
                busy += row.len();
                let mut garbage = self.garbage.lock();
                row.iter().for_each(|(end, space, rid)| garbage.push(*end, *space, *rid));
            }
            if let Err(error) = collected {
                outcome = Err(error);
            }
        }
        outcome.map(|()| busy)
    }

    /// Collects those of some old versions that are due. What is not to go yet is known from now on.
    fn collect_found(
        &self,
        found: impl Iterator<Item = Old>,
        oldest: u64,
    ) -> Result<usize, EngineError> {
        let (mut due, later): (Vec<Old>, Vec<Old>) = found.partition(|(end, ..)| *end <= oldest);
        {
            let mut garbage = self.garbage.lock();
            later.into_iter().for_each(|(end, space, rid)| garbage.push(end, space, rid));
        }
        self.collect_all(&mut due)
    }

    /// Goes through all old versions.
    fn sweep(&self, oldest: u64) -> Result<(), EngineError> {
        self.collect_found(self.recent.all().into_iter(), oldest)?;
        let mut from = Vec::new();
        loop {
            let mut found = Vec::new();
            self.store.range(Tree::History, &from, &[0xFF; 4], false, &mut |key, _| {
                found.push(<Box<[u8]>>::from(key));
                found.len() < AT_ONCE
            })?;
            let old = found.iter().map(|key| keys::of_history(key));
            self.collect_found(old.map(|(space, rid, end)| (end, space, rid)), oldest)?;
            match found.pop() {
                Some(last) if found.len() + 1 == AT_ONCE => from = [&last[..], &[0]].concat(),
                _ => return Ok(()),
            }
        }
    }

    /// Collects old versions of one row, oldest first. What a keeper needs stays: it is looked for when one goes.
    /// False: it has a writer.
    fn collect_row(&self, due: &[Old]) -> Result<bool, EngineError> {
        let (_, id, rid) = due[0];
        // The whole space goes.
        let Ok(space) = self.space(id) else { return Ok(true) };
        let Some(_held) = HeldRow::take(self, id, rid) else { return Ok(false) };
        let mut gone: Vec<([u8; 20], Cells)> = Vec::with_capacity(due.len());
        for (end, ..) in due {
            let key = keys::history(id, rid, *end);
            let Some(bytes) = self.store.get(Tree::History, &key)? else { continue };
            let old = Version::decode(&bytes)?;
            if !self.pins.need(id, old.begin, *end) {
                gone.push((key, old.cells));
            }
        }
        self.remove_entries(&space, rid, &gone)?;
        gone.iter().for_each(|(key, _)| self.store.remove(Tree::History, key));
        Ok(true)
    }

    /// Removes the entries of old versions whose keys no other version of their row has.
    fn remove_entries(
        &self,
        space: &Space,
        rid: RowId,
        gone: &[([u8; 20], Cells)],
    ) -> Result<(), EngineError> {
        let indexes = space.indexes.read().clone();
        if gone.is_empty() || indexes.is_empty() {
            return Ok(());
        }
        let mut left = HashSet::<(usize, Vec<u8>)>::new();
        for (_, cells) in gone {
            for (at, index) in indexes.iter().enumerate() {
                left.insert((at, index.key_of(cells)?.0));
            }
        }
        let keep = |left: &mut HashSet<(usize, Vec<u8>)>, version: &Version| {
            for (at, index) in indexes.iter().enumerate() {
                left.remove(&(at, index.key_of(&version.cells)?.0));
            }
            Ok::<_, EngineError>(())
        };
        if let Some(now) = self.stored(space.id, rid)? {
            keep(&mut left, &now)?;
        }
        if !left.is_empty() {
            let (from, to) =
                (keys::history(space.id, rid, u64::MAX), keys::row(space.id, RowId(rid.0 + 1)));
            let goes: HashSet<&[u8]> = gone.iter().map(|(key, _)| &key[..]).collect();
            let mut outcome = Ok(());
            self.store.range(Tree::History, &from, &to, false, &mut |other, value| {
                if !goes.contains(other) {
                    outcome = Version::decode(value).and_then(|version| keep(&mut left, &version));
                }
                outcome.is_ok() && !left.is_empty()
            })?;
            outcome?;
        }
        for (at, key) in &left {
            self.store.remove(Tree::Index, &indexes[*at].entry(key, rid));
        }
        Ok(())
    }

    /// Removes what spaces and indexes had that were dropped.
    pub fn purge(&self) -> Result<(), EngineError> {
        loop {
            let next = self.purges.waiting.lock().first().copied();
            let Some((space, index)) = next else { return Ok(()) };
            match index {
                None => self.purge_space(space)?,
                Some(index) => self.purge_index(space, index)?,
            }
            // What fails is tried again, and what a crash interrupts: until then a checkpoint says so.
            self.purges.waiting.lock().retain(|waiting| *waiting != (space, index));
        }
    }

    fn purge_space(&self, space: SpaceId) -> Result<(), EngineError> {
        let (from, to) = keys::space(space);
        // Rows last, as they are put last.
        for tree in Tree::IN_ORDER {
            self.store.remove_range(tree, &from, &to)?;
        }
        Ok(())
    }

    fn purge_index(&self, space: SpaceId, index: IndexId) -> Result<(), EngineError> {
        let (from, to) = (keys::index(space, index), keys::index(space, IndexId(index.0 + 1)));
        self.store.remove_range(Tree::Index, &from, &to)
    }
}
