//! What nobody sees any more: old versions, entries of keys that no version has, spaces and indexes that were dropped.
//!
//! A version that was the newest in [begin, end) goes when no view is older than `end` and no keeper is in between. Its
//! row is taken as a writer takes it ([O1] of `overlay.rs`), so that its entries are compared with what the row is.
//! Nothing of this is logged: what a crash brings back is found again, as the whole history is gone through after a
//! start. The entry goes before the version, which says that there is an entry to go.

use froglet_engine::{EngineError, IndexId, RowId, SpaceId, TxnId};
use smallvec::SmallVec;

use crate::engine::{Core, Garbage};
use crate::keys;
use crate::overlay::{Base, Owner, Pending};
use crate::space::Space;
use crate::store::Tree;
use crate::version::Version;

/// Old versions that are known; others are found by going through all.
const KNOWN_MAX: usize = 1 << 20;
/// Versions that are looked at in one round.
const AT_ONCE: usize = 20_000;

impl Garbage {
    pub fn push(&mut self, end: u64, space: SpaceId, rid: RowId) {
        match self.queue.len() < KNOWN_MAX {
            true => self.queue.push_back((end, space, rid)),
            false => self.sweep = true,
        }
    }
}

/// What became of an old version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Gone,
    /// Somebody keeps it: it is looked for when a keeper is released.
    Kept,
    /// Its row has a writer.
    Busy,
}

impl Core {
    /// Removes old versions that nobody sees; whether there may be more.
    pub fn collect(&self) -> Result<bool, EngineError> {
        let oldest = self.crossings().oldest().0;
        let is_swept = {
            let mut garbage = self.garbage.lock();
            let few = garbage.queue.len() < KNOWN_MAX / 2;
            few && std::mem::take(&mut garbage.sweep)
        };
        if is_swept && let Err(error) = self.sweep(oldest) {
            self.garbage.lock().sweep = true;
            return Err(error);
        }
        let (mut busy, mut failed) = (Vec::new(), None);
        let mut looked_at = 0;
        while looked_at < AT_ONCE {
            let next = {
                let mut garbage = self.garbage.lock();
                match garbage.queue.front() {
                    Some((end, ..)) if *end <= oldest => garbage.queue.pop_front(),
                    _ => None,
                }
            };
            let Some((end, space, rid)) = next else { break };
            looked_at += 1;
            match self.collect_one(space, rid, end) {
                Ok(Outcome::Busy) => busy.push((end, space, rid)),
                Ok(_) => {}
                Err(error) => {
                    busy.push((end, space, rid));
                    failed = Some(error);
                    break;
                }
            }
        }
        let more = looked_at == AT_ONCE && busy.len() < looked_at;
        // Behind the others: theirs may be free.
        let mut garbage = self.garbage.lock();
        busy.into_iter().for_each(|(end, space, rid)| garbage.push(end, space, rid));
        failed.map_or(Ok(more), Err)
    }

    /// Goes through the whole history.
    fn sweep(&self, oldest: u64) -> Result<(), EngineError> {
        let mut from = Vec::new();
        loop {
            let mut found = Vec::new();
            self.store.range(Tree::History, &from, &[0xFF; 4], false, &mut |key, _| {
                found.push(<Box<[u8]>>::from(key));
                found.len() < AT_ONCE
            })?;
            for key in &found {
                let (space, rid, end) = keys::of_history(key);
                // What is not to go yet is known from now on.
                if end > oldest || self.collect_one(space, rid, end)? == Outcome::Busy {
                    self.garbage.lock().push(end, space, rid);
                }
            }
            match found.pop() {
                Some(last) if found.len() + 1 == AT_ONCE => from = [&last[..], &[0]].concat(),
                _ => return Ok(()),
            }
        }
    }

    fn collect_one(&self, id: SpaceId, rid: RowId, end: u64) -> Result<Outcome, EngineError> {
        let key = keys::history(id, rid, end);
        // The whole space goes.
        let Ok(space) = self.space(id) else { return Ok(Outcome::Gone) };
        {
            let mut block = self.overlay.block(id, rid.block());
            if block.get(rid).is_some() {
                return Ok(Outcome::Busy);
            }
            let owner = Owner::new(TxnId(0));
            let pending = Pending { owner, base: Base::Unread, changes: SmallVec::new() };
            block.insert(rid, pending);
        }
        let collected = self.collect_taken(&space, rid, end, &key);
        self.overlay.block(id, rid.block()).remove(rid);
        collected
    }

    fn collect_taken(
        &self,
        space: &Space,
        rid: RowId,
        end: u64,
        key: &[u8],
    ) -> Result<Outcome, EngineError> {
        let Some(bytes) = self.store.get(Tree::History, key)? else { return Ok(Outcome::Gone) };
        let old = Version::decode(&bytes)?;
        if self.pins.need(space.id, old.begin, end) {
            return Ok(Outcome::Kept);
        }
        let mut others: Vec<Version> = self.stored(space.id, rid)?.into_iter().collect();
        let mut failed = None;
        let (from, to) =
            (keys::history(space.id, rid, u64::MAX), keys::row(space.id, RowId(rid.0 + 1)));
        self.store.range(Tree::History, &from, &to, false, &mut |other, value| {
            if other != key {
                match Version::decode(value) {
                    Ok(version) => others.push(version),
                    Err(error) => failed = Some(error),
                }
            }
            failed.is_none()
        })?;
        failed.map_or(Ok(()), Err)?;
        let indexes = space.indexes.read().clone();
        for index in indexes {
            let gone = index.key_of(&old.cells)?.0;
            let mut is_needed = false;
            for other in &others {
                is_needed |= index.key_of(&other.cells)?.0 == gone;
            }
            if !is_needed {
                self.store.remove(Tree::Index, &index.entry(&gone, rid));
            }
        }
        self.store.remove(Tree::History, key);
        Ok(Outcome::Gone)
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
