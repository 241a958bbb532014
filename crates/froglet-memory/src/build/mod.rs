//! Building an index from all rows at once: scan, sort, merge, load, publish.
//!
//! ```text
//!   open side-file                             adopt          take side-file
//!        │                                       │                 │
//!   scan ├─ block ─ block ─ …─┐ runs             │                 │
//!   (any ├─ block ─ block ─ …─┤ sorted ── merge ─┤ private tree    │
//!    threads)                 └ one load         │ becomes the     ├ removals again
//!                                                │ index's         │
//!   rows that lose keys:  to the side-file ──────┼─────────────────┤ to the tree
//! ```
//!
//! After Mohan, Narang: "Algorithms for Creating Indexes for Very Large Tables Without Quiescing
//! Updates" (SIGMOD 1992), algorithm SF; our side-file has removals only. Keys that rows *gain*
//! meanwhile reach the change feed, and whoever builds enters them after the load.
//!
//! **[D1]** The side-file is open before the first block is read, and who removes keys has seen that:
//! opening passes through every stripe, and keys are removed under theirs. So if the scan reads a
//! key in a state that becomes unreachable, the removal is in the side-file; one that came before
//! belongs to a state that the scan does not meet.
//! **[D2]** The side-file is closed after the tree is published. So a removal is either in it when it is
//! taken, or made on the published tree.
//! **[D3]** A removal from the side-file asks the row again, under the stripe, whether it still needs the
//! key ([K2]): the slot may have another row by then, or the row its old key.
//! **[D4]** After a restart most entries need no scan (see `index_snapshot`). They are of rows in blocks that are as
//! they were in a checkpoint, which is found out when the side-file is open: for the rules above they
//! were scanned then.
//! So afterwards the index has the keys that rows had when scanned, without those that no state of
//! their row has any more: what [K1] wants of a scan, block by block or all at once.
//!
//! What it needs: 32 bytes for each of 262,144 rows per scanning thread, and for all rows their packed
//! keys (see `run`), given back page by page while the tree grows. All of it is on the engine's account,
//! so that a build past the limit fails with nothing left behind. No snapshot and no epoch is held for
//! longer than it takes to read one block.

mod merge;
mod parts;
mod run;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::Arc;

use crossbeam_epoch as epoch;
use froglet_engine::{EngineError, IndexBuild, Loaded, Loading, RowId, Table, TxnId};

use self::merge::Merge;
use self::run::{Collector, Run};
use crate::index::Loader;
use crate::index_snapshot::{Entries, IndexSnapshot};
use crate::keys::{Index, remove_unneeded};
use crate::memory::Charge;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::table::MemoryTable;

/// Entries that are loaded before `go_on` is asked (again).
const ENTRIES_AT_ONCE: usize = 16 << 10;

/// A build of one index of a table.
pub(crate) struct Build {
    table: Arc<MemoryTable>,
    /// The index's position in the layout.
    at: usize,
    /// Collectors that no thread uses right now.
    idle: Mutex<Vec<Collector>>,
    runs: Mutex<Vec<Run>>,
    /// What a checkpoint has of the entries.
    saved: Option<IndexSnapshot>,
    /// Who builds.
    owner: AtomicU64,
}

impl Build {
    /// Begins a build, unless the index has entries or is being built.
    pub fn begin(table: Arc<MemoryTable>, at: usize) -> Option<Build> {
        let index = table.index(at);
        if !index.tree.is_empty() || !index.side_file.open() {
            return None;
        }
        table.core.stripes.pass_through();
        let (idle, runs, owner) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        let mut build = Build { table, at, idle, runs, saved: None, owner };
        build.saved = build.take_saved();
        Some(build)
    }

    /// What recovery has found of the index's entries, for those blocks that are as they were then [D4].
    fn take_saved(&self) -> Option<IndexSnapshot> {
        let mut snapshots = self.table.space.snapshots.lock();
        let at = snapshots.iter().position(|saved| saved.spec == self.index().spec)?;
        let mut saved = snapshots.swap_remove(at);
        saved.keep(|number| {
            let block = self.table.space.block(number);
            block.is_some_and(|block| !block.dirty.load(Ordering::SeqCst))
        });
        Some(saved)
    }

    fn index(&self) -> &Index {
        self.table.index(self.at)
    }

    /// The entries in order, of the runs and of a snapshot.
    fn merge(
        &self,
        runs: Vec<Run>,
        mut saved: Option<Entries<'_>>,
        loading: &mut Loading,
        go_on: &mut dyn FnMut(&mut Loading) -> bool,
    ) -> Result<Merged, EngineError> {
        let mut merge = Merge::new(runs);
        let mut pairs = Pairs { build: self, last_key: Vec::new(), last: None };
        let (mut loader, mut charge) = (Loader::new(), Charge::new(&self.table.core.budget));
        let mut has_saved = false;
        if let Some(saved) = &mut saved {
            match saved.advance() {
                Ok(found) => has_saved = found,
                Err(what) => return Ok(Merged::Broken(what)),
            }
        }
        loop {
            for _ in 0..ENTRIES_AT_ONCE {
                let run = merge.peek();
                let from_saved = saved.as_mut().filter(|saved| {
                    has_saved && run.is_none_or(|run| saved.entry() < (&*run.key, run.rid))
                });
                if let Some(saved) = from_saved {
                    let (key, rid) = saved.entry();
                    if !loader.try_push(key, rid) {
                        return Ok(Merged::Broken("entries are out of order".into()));
                    }
                    pairs.meet(key, RowId(rid), None, loading);
                    match saved.advance() {
                        Ok(found) => has_saved = found,
                        Err(what) => return Ok(Merged::Broken(what)),
                    }
                } else if let Some(run) = run {
                    if !loader.try_push(&run.key, run.rid) {
                        return Ok(Merged::Broken("an entry comes twice".into()));
                    }
                    pairs.meet(&run.key, RowId(run.rid), Some(run.has_null), loading);
                    merge.advance();
                } else {
                    charge.set(loader.bytes())?;
                    let goes_on = go_on(loading);
                    return Ok(match goes_on {
                        true => Merged::Whole(loader, charge),
                        false => Merged::Stopped,
                    });
                }
                loading.entries += 1;
            }
            charge.set(loader.bytes())?;
            if !go_on(loading) {
                return Ok(Merged::Stopped);
            }
        }
    }

    /// The runs of what was scanned.
    fn take_runs(&self) -> Result<Vec<Run>, EngineError> {
        let mut runs = std::mem::take(&mut *self.runs.lock());
        for mut collector in std::mem::take(&mut *self.idle.lock()) {
            if !collector.is_empty() {
                runs.push(collector.take_run()?);
            }
        }
        Ok(runs)
    }

    /// Makes the loaded tree the index's, and makes up for what rows have lost meanwhile.
    fn publish(&self, loader: Loader) {
        let (core, index) = (&self.table.core, self.index());
        if let Err(loaded) = index.tree.adopt(loader.finish()) {
            // Somebody has entered rows of his own, against the contract: all entries, one by one.
            loaded.for_each(|key, rid| {
                index.tree.insert(key, rid);
            });
        }
        let guard = epoch::pin();
        for (key, rid) in index.side_file.close() {
            remove_unneeded(core, &self.table.space, index, RowId(rid), &key, &guard);
        }
        // Not among the runs: they are no candidates for duplicates.
        for block in 0..self.table.space.block_count() {
            self.table.enter_recovered(self.at, block);
        }
    }
}

impl IndexBuild for Build {
    fn scan_block(&self, owner: TxnId, block: u32) -> Result<u64, EngineError> {
        self.owner.store(owner.0, Ordering::Relaxed);
        if self.saved.as_ref().is_some_and(|saved| saved.covers(block)) {
            return Ok(self.table.space.rows_in_block(block) as u64);
        }
        self.scan(owner, block)
    }

    fn load(&self, go_on: &mut dyn FnMut(&mut Loading) -> bool) -> Result<Loaded, EngineError> {
        assert!(self.index().side_file.is_open(), "a build is loaded once");
        let mut loading = Loading::default();
        let runs = self.take_runs()?;
        let mut merged = match &self.saved {
            Some(saved) => self.load_saved(saved, runs, &mut loading, go_on)?,
            None => self.merge(runs, None, &mut loading, go_on)?,
        };
        if let (Merged::Broken(what), Some(saved)) = (&merged, &self.saved) {
            let (name, space) = (saved.name(), self.table.space.id);
            tracing::warn!(
                what,
                "{name} is not used: an index of space {space} is built of all rows"
            );
            for block in 0..self.table.block_count() {
                self.scan(TxnId(self.owner.load(Ordering::Relaxed)), block)?;
            }
            loading = Loading::default();
            merged = self.merge(self.take_runs()?, None, &mut loading, go_on)?;
        }
        match merged {
            Merged::Whole(loader, _charge) => self.publish(loader),
            Merged::Stopped => return Ok(Loaded::Stopped),
            Merged::Broken(what) => unreachable!("each block was scanned once: {what}"),
        }
        Ok(Loaded::Whole(loading))
    }
}

/// What became of a merge.
enum Merged {
    /// The tree, and what it takes until somebody has measured it.
    Whole(Loader, Charge),
    /// It is not to go on.
    Stopped,
    /// What is wrong with the snapshot.
    Broken(String),
}

/// Looks for neighbours that share a key of a unique index.
struct Pairs<'b> {
    build: &'b Build,
    last_key: Vec<u8>,
    last: Option<RowId>,
}

impl Pairs<'_> {
    /// Meets the next entry. Whether its key has a NULL, the row says if nobody else does.
    #[inline]
    fn meet(&mut self, key: &[u8], rid: RowId, has_null: Option<bool>, loading: &mut Loading) {
        if !self.build.index().spec.keeps_apart() || has_null == Some(true) {
            return;
        }
        if let Some(last) = self.last.filter(|_| self.last_key == key)
            && (has_null.is_some() || self.build.is_without_null(rid))
        {
            loading.duplicates.push((last, rid));
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.last = Some(rid);
    }
}

impl Build {
    fn is_without_null(&self, rid: RowId) -> bool {
        let snapshot = self.table.core.relaxed(TxnId(0));
        self.table.key_in(&self.table.view(&snapshot), self.at, rid).is_some()
    }

    fn scan(&self, owner: TxnId, block: u32) -> Result<u64, EngineError> {
        let table = &*self.table;
        let snapshot = table.core.relaxed(owner);
        let read = table.read_all(&snapshot, block, &table.key_projection(self.at))?;
        drop(snapshot);
        let keys = table.key_columns(self.at, &read.batch);
        let idle = self.idle.lock().pop();
        let mut collector = idle.unwrap_or_else(|| Collector::new(&table.core.budget));
        let mut key = Vec::new();
        for (row, rid) in read.rids.iter().enumerate() {
            key.clear();
            let has_null = keys.append(row, &mut key);
            collector.push(&key, has_null, rid.0)?;
            if collector.is_full() {
                let run = collector.take_run()?;
                self.runs.lock().push(run);
            }
        }
        self.idle.lock().push(collector);
        Ok(read.rids.len() as u64)
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        // Of a build that was not loaded: the tree is empty, so nothing is to be removed.
        self.index().side_file.close();
    }
}
