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
//! So afterwards the index has the keys that rows had when scanned, without those that no state of
//! their row has any more: what [K1] wants of a scan, block by block or all at once.
//!
//! What it needs: 32 bytes for each of 262,144 rows per scanning thread, and for all rows their packed
//! keys (see `run`), given back page by page while the tree grows. All of it is on the engine's account,
//! so that a build past the limit fails with nothing left behind. No snapshot and no epoch is held for
//! longer than it takes to read one block.

mod merge;
mod run;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::Arc;

use crossbeam_epoch as epoch;
use froglet_engine::{EngineError, IndexBuild, Loaded, Loading, RowId, TxnId};

use self::merge::Merge;
use self::run::{Charge, Collector, Run};
use crate::index::Loader;
use crate::keys::{Index, remove_unneeded};
use crate::sync::Mutex;
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
}

impl Build {
    /// Begins a build, unless the index has entries or is being built.
    pub fn begin(table: Arc<MemoryTable>, at: usize) -> Option<Build> {
        let index = table.index(at);
        if !index.tree.is_empty() || !index.side_file.open() {
            return None;
        }
        table.core.stripes.pass_through();
        Some(Build { table, at, idle: Mutex::new(Vec::new()), runs: Mutex::new(Vec::new()) })
    }

    fn index(&self) -> &Index {
        self.table.index(self.at)
    }

    /// The entries in order; none if not to go on.
    fn merge(
        &self,
        runs: Vec<Run>,
        loading: &mut Loading,
        go_on: &mut dyn FnMut(&mut Loading) -> bool,
    ) -> Result<Option<Loader>, EngineError> {
        let unique = self.index().spec.unique;
        let (mut loader, mut merge) = (Loader::new(), Merge::new(runs));
        let mut charge = Charge::new(&self.table.core.budget);
        let (mut last_key, mut last_rid) = (Vec::new(), None);
        loop {
            for _ in 0..ENTRIES_AT_ONCE {
                let Some(entry) = merge.peek() else { return Ok(go_on(loading).then_some(loader)) };
                if unique && !entry.has_null {
                    if let Some(last_rid) = last_rid
                        && last_key == entry.key
                    {
                        loading.duplicates.push((last_rid, RowId(entry.rid)));
                    }
                    last_key.clone_from(&entry.key);
                    last_rid = Some(RowId(entry.rid));
                }
                loader.push(&entry.key, entry.rid);
                loading.entries += 1;
                merge.advance();
            }
            charge.set(loader.bytes())?;
            if !go_on(loading) {
                return Ok(None);
            }
        }
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

    fn load(&self, go_on: &mut dyn FnMut(&mut Loading) -> bool) -> Result<Loaded, EngineError> {
        assert!(self.index().side_file.is_open(), "a build is loaded once");
        let mut runs = std::mem::take(&mut *self.runs.lock());
        for mut collector in std::mem::take(&mut *self.idle.lock()) {
            if !collector.is_empty() {
                runs.push(collector.take_run()?);
            }
        }
        let mut loading = Loading::default();
        let Some(loader) = self.merge(runs, &mut loading, go_on)? else {
            return Ok(Loaded::Stopped);
        };
        self.publish(loader);
        Ok(Loaded::Whole(loading))
    }
}

impl Drop for Build {
    fn drop(&mut self) {
        // Of a build that was not loaded: the tree is empty, so nothing is to be removed.
        self.index().side_file.close();
    }
}
