//! What a view sees.
//!
//! ```text
//!   overlay ──▶ rows, if begin ≤ s ──▶ history, the version with begin ≤ s < end
//! ```
//! The order is what makes it right: [O2] of `overlay.rs`, and a row's history is put before its new version.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, RangeInclusive};

use froglet_engine::{Direction, EngineError, KeyRange, RowId, Snapshot, SpaceId, TxnId};

use crate::engine::Core;
use crate::keys;
use crate::overlay::{Found, look, pause};
use crate::space::{Index, Space};
use crate::store::{RANGE_LEFT_MAX, Rids, Store, Tree};
use crate::version::{Cells, Version};

/// Entries of an index that are read at once: few first, for who wants the first ones. The most are more than is left of
/// a range in memory ([`RANGE_LEFT_MAX`]): a scan leaves its beginning.
const ENTRIES_AT_ONCE: RangeInclusive<usize> = 16..=1024;
const _: () = assert!(*ENTRIES_AT_ONCE.end() > RANGE_LEFT_MAX);
/// Rows that are read at once have about so many bytes, or there is one of them.
pub(crate) const PART_BYTES: usize = 1 << 20;

/// What is called with an entry's key and row.
type VisitEntry<'a> = dyn FnMut(&[u8], RowId) -> Visited + 'a;
/// What is called with a row.
type VisitRow<'a> = dyn FnMut(RowId, &Cells) -> Visited + 'a;
/// Whether to go on.
type Visited = Result<ControlFlow<()>, EngineError>;

/// A place in this engine's timeline, and whose writes are seen there, too.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub ts: u64,
    pub own: TxnId,
    /// Is told what was seen.
    snapshot: &'a Snapshot,
}

/// A part of a block that is being read from one of the maps.
struct Part {
    from: RowId,
    bytes: usize,
    /// What was read last, if a view sees it.
    version: Option<Version>,
    /// The first row that belongs to the next part.
    next: Option<RowId>,
    failed: Option<EngineError>,
}

impl Part {
    fn new(from: RowId) -> Part {
        Part { from, bytes: 0, version: None, next: None, failed: None }
    }

    /// Reads one version. Whether to go on.
    fn take(&mut self, rid: RowId, value: &[u8], ts: u64) -> bool {
        if self.bytes >= PART_BYTES && rid > self.from {
            self.next = Some(rid);
            return false;
        }
        self.from = rid;
        self.bytes += value.len();
        match Version::decode(value) {
            Ok(version) => self.version = Some(version).filter(|version| version.begin <= ts),
            Err(error) => self.failed = Some(error),
        }
        self.failed.is_none()
    }

    fn finish(self) -> Result<Option<RowId>, EngineError> {
        self.failed.map_or(Ok(self.next), Err)
    }
}

/// Whether all were visited does not matter to who calls.
fn all(mut visits: impl Iterator<Item = Visited>) -> Result<(), EngineError> {
    visits
        .find(|visited| !matches!(visited, Ok(ControlFlow::Continue(()))))
        .map_or(Ok(()), |last| last.map(drop))
}

impl Core {
    pub fn view<'a>(&self, snapshot: &'a Snapshot) -> View<'a> {
        let crossings = self.crossings();
        let ts = snapshot.beside(|| crossings.at(snapshot.ts));
        View { ts: ts.0, own: snapshot.own, snapshot }
    }

    fn seen(&self, view: View<'_>, since: Option<u64>) {
        if let Some(since) = since.filter(|since| *since > 0) {
            self.crossings().seen(view.snapshot, froglet_engine::Ts(since));
        }
    }

    /// The newest committed version that the store has.
    pub fn stored(&self, space: SpaceId, rid: RowId) -> Result<Option<Version>, EngineError> {
        self.store.row(space, rid)
    }

    /// The row that a view sees.
    pub fn row(
        &self,
        view: View<'_>,
        space: &Space,
        rid: RowId,
    ) -> Result<Option<Cells>, EngineError> {
        // Of a row that is not there nobody knows since when: whoever has deleted it has committed before the view.
        let read = |version: Option<Version>, view: View<'_>| match version {
            Some(version) => (Some(version.cells), Some(version.begin)),
            None => (None, Some(view.ts)),
        };
        let (cells, since) = match self.overlay.find(space.id, rid, view.ts, view.own) {
            Found::Row(cells, since) => (Some(cells), since),
            Found::Gone(since) => (None, since),
            Found::Older => read(self.older(space, rid, view.ts)?, view),
            Found::NotHere => read(self.stored_at(space, rid, view.ts)?, view),
        };
        self.seen(view, since);
        Ok(cells)
    }

    fn stored_at(
        &self,
        space: &Space,
        rid: RowId,
        ts: u64,
    ) -> Result<Option<Version>, EngineError> {
        match self.stored(space.id, rid)? {
            Some(version) if version.begin <= ts => Ok(Some(version)),
            Some(_) | None => self.older(space, rid, ts),
        }
    }

    /// The old version that was the newest at a timestamp.
    fn older(&self, space: &Space, rid: RowId, ts: u64) -> Result<Option<Version>, EngineError> {
        if space.newest_end.load(std::sync::atomic::Ordering::SeqCst) <= ts {
            return Ok(None);
        }
        // Here first [N3].
        if let Some(version) = self.recent.at(space.id, rid, ts) {
            return Ok(Some(version));
        }
        // Of the ends above `ts` the smallest.
        let (from, to) = (keys::history(space.id, rid, u64::MAX), keys::history(space.id, rid, ts));
        let mut found = None;
        self.store.range(Tree::History, &from, &to, true, &mut |_, value| {
            found = Some(Version::decode(value));
            false
        })?;
        Ok(found.transpose()?.filter(|version| version.begin <= ts))
    }

    /// The rows of a block that a view sees, from one on, ascending: about as many as [`PART_BYTES`] hold. With where the
    /// next part begins, if there is one.
    pub fn block_part(
        &self,
        view: View<'_>,
        space: &Space,
        from: RowId,
    ) -> Result<(BTreeMap<RowId, Cells>, Option<RowId>), EngineError> {
        let mut seen = BTreeMap::new();
        // False: not there, whatever the rows say. The history is asked for what is in neither.
        let mut decided = BTreeMap::<RowId, bool>::new();
        let mut spins = 0;
        loop {
            let rows = self.overlay.block(space.id, from.block());
            let mut waits = false;
            for (rid, pending) in rows.rows().filter(|(rid, _)| *rid >= from) {
                match look(pending, view.ts, view.own) {
                    None => waits = true,
                    Some(Found::Row(cells, _)) => {
                        seen.insert(rid, cells);
                        decided.insert(rid, true);
                    }
                    Some(Found::Gone(_)) => drop(decided.insert(rid, true)),
                    Some(Found::Older) => drop(decided.insert(rid, false)),
                    Some(Found::NotHere) => {}
                }
            }
            drop(rows);
            if !waits {
                break;
            }
            seen.clear();
            decided.clear();
            pause(&mut spins);
        }
        let (start, mut end) = (keys::row(space.id, from), keys::block_end(space.id, from.block()));
        let mut read = Part::new(from);
        self.store.range(Tree::Rows, &start, &end, false, &mut |key, value| {
            let rid = keys::rid_of_row(key);
            if decided.contains_key(&rid) {
                return true;
            }
            let goes_on = read.take(rid, value, view.ts);
            if let Some(version) = read.version.take() {
                seen.insert(rid, version.cells);
                decided.insert(rid, true);
            }
            goes_on
        })?;
        let mut next = read.finish()?;
        if let Some(next) = next {
            end = keys::row(space.id, next);
        }
        if space.newest_end.load(std::sync::atomic::Ordering::SeqCst) > view.ts {
            let is_in_part = |rid: RowId| next.is_none_or(|next| rid < next);
            self.recent.of_block(space.id, from, view.ts, |rid, version| {
                if is_in_part(rid) && decided.get(&rid) != Some(&true) {
                    seen.insert(rid, Cells::clone(&version.cells));
                    decided.insert(rid, true);
                }
            });
            let mut read = Part::new(from);
            self.store.range(Tree::History, &start, &end, false, &mut |key, value| {
                let (_, rid, ended) = keys::of_history(key);
                if ended <= view.ts || decided.get(&rid) == Some(&true) {
                    return true;
                }
                let goes_on = read.take(rid, value, view.ts);
                if let Some(version) = read.version.take() {
                    seen.insert(rid, version.cells);
                    decided.insert(rid, true);
                }
                goes_on
            })?;
            next = read.finish()?.or(next);
        }
        if let Some(next) = next {
            seen.split_off(&next);
        }
        // What is pending counts, too.
        let mut bytes = 0;
        let is_beyond = |(_, cells): &(&RowId, &Cells)| {
            let is_beyond = bytes >= PART_BYTES;
            bytes += cells.len();
            is_beyond
        };
        if let Some(beyond) = seen.iter().find(is_beyond).map(|(rid, _)| *rid) {
            seen.split_off(&beyond);
            next = Some(beyond);
        }
        // Rows that are not there any more were seen, too.
        self.seen(view, Some(view.ts));
        Ok((seen, next))
    }

    /// Visits the entries of an index in a range, those of open writers, too; stale ones are among them.
    pub fn entries(
        &self,
        index: &Index,
        range: &KeyRange,
        direction: Direction,
        visit: &mut VisitEntry<'_>,
    ) -> Result<(), EngineError> {
        let (mut from, mut to) = index.bounds(range);
        let backward = direction == Direction::Backward;
        if let Some(found) = self.entries_of_one(index, range, (&from, &to))? {
            let visited = |rid: &RowId| visit(range.one().expect("asked for one"), *rid);
            return match backward {
                false => all(found.iter().map(visited)),
                true => all(found.iter().rev().map(visited)),
            };
        }
        let mut at_once = *ENTRIES_AT_ONCE.start();
        loop {
            // Here first: what leaves it meanwhile is in the store.
            let mut found = index.some(&from, &to, backward, at_once);
            let mut ends: Vec<Box<[u8]>> = Vec::new();
            if found.len() == at_once {
                ends.extend(found.last().cloned());
            }
            let before = found.len();
            self.store.range(Tree::Index, &from, &to, backward, &mut |entry, _| {
                found.push(entry.into());
                found.len() < before + at_once
            })?;
            if found.len() == before + at_once {
                ends.extend(found.last().cloned());
            }
            found.sort_unstable();
            found.dedup();
            let end = if backward { ends.into_iter().max() } else { ends.into_iter().min() };
            if backward {
                found.reverse();
            }
            for entry in &found {
                let is_beyond = end.as_ref().is_some_and(|end| match backward {
                    false => entry > end,
                    true => entry < end,
                });
                if is_beyond {
                    break;
                }
                let (key, rid) = keys::of_entry(entry);
                if range.contains(key) && visit(key, rid)?.is_break() {
                    return Ok(());
                }
            }
            at_once = (4 * at_once).min(*ENTRIES_AT_ONCE.end());
            match end {
                None => return Ok(()),
                // Behind it, or before it.
                Some(end) if backward => to = end.into_vec(),
                Some(end) => from = [&end[..], &[0]].concat(),
            }
        }
    }

    /// The entries of a key that few rows have: as a rule one, of an index that keeps rows apart.
    fn entries_of_one(
        &self,
        index: &Index,
        range: &KeyRange,
        (from, to): (&[u8], &[u8]),
    ) -> Result<Option<Rids>, EngineError> {
        let Some(key) = range.one().filter(|_| index.spec.keeps_apart()) else { return Ok(None) };
        // Here first, as below.
        let most = *ENTRIES_AT_ONCE.end();
        let open = index.some(from, to, false, most);
        let Some(mut found) = self.store.rows_of_key(from, to)? else { return Ok(None) };
        if open.len() == most {
            return Ok(None);
        }
        found.extend(
            open.iter().map(|entry| keys::of_entry(entry)).filter(|of| of.0 == key).map(|of| of.1),
        );
        found.sort_unstable();
        found.dedup();
        Ok(Some(found))
    }

    /// Visits the rows that a view sees with a key in a range, in the order of keys.
    pub fn rows_by_key(
        &self,
        view: View<'_>,
        space: &Space,
        index: &Index,
        range: &KeyRange,
        direction: Direction,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), EngineError> {
        self.entries(index, range, direction, &mut |key, rid| {
            let Some(cells) = self.row(view, space, rid)? else {
                return Ok(ControlFlow::Continue(()));
            };
            // A row is found under the key that this version has.
            match index.key_of(&cells)?.0 == key {
                true => visit(rid, &cells),
                false => Ok(ControlFlow::Continue(())),
            }
        })
    }
}
