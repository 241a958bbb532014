//! Rows that a space is given late, for a lazy migration.
//!
//! ```text
//!   reserved     [ 0 | 1 | 2 | … | tail )          handed out to nobody
//!   install      timestamp ─▶ log rows and note ─▶ cells, presence, index entries ─▶ done
//! ```
//!
//! An installed row has no undo record: every snapshot sees it. Its place is reserved, so that nobody has
//! written there; whoever reads the space takes care that it misses nothing which is still to come.
//!
//! **[I1]** The stores of a block are a fill ([B4]): a reader that copies a row meanwhile copies again, and
//! one that finds it present has its cells. Entries follow: who finds none has not waited for the row.
//! **[I2]** `installing` is held shared from before the timestamp is taken until `done` has returned. A
//! checkpoint at `s` takes it exclusively once, after `s`, and then copies blocks and asks for the note:
//! of an install with a timestamp below `s` it has the rows, and its note is in the one that it gets.
//! What is later is replayed, as the log is durable before the manifest ([P3] of `checkpoint`): rows and notes
//! may then come twice, and are the same.

use std::sync::Arc;

use crossbeam_epoch as epoch;
use froglet_engine::{CrashPoint, EngineError, Install, Installs, RowId, Value};

use crate::column::string_bytes;
use crate::table::MemoryTable;
use froglet_log::redo;

impl MemoryTable {
    /// See [`froglet_engine::Table::reserve`].
    pub(crate) fn reserve_rows(
        &self,
        tail: RowId,
        is_free: &dyn Fn(RowId) -> bool,
    ) -> Result<(), EngineError> {
        self.space.raise_tail(tail.0)?;
        self.space.free_slots(|free| free.retain(|rid| rid >= tail || is_free(rid)));
        Ok(())
    }

    /// See [`froglet_engine::Table::take_row_ids`].
    pub(crate) fn take_rows(&self, n: usize) -> Result<Vec<RowId>, EngineError> {
        let guard = epoch::pin();
        let mut taken = Vec::with_capacity(n);
        for _ in 0..n {
            match self.space.take_slot(&guard) {
                Ok(rid) => taken.push(rid),
                Err(error) => {
                    self.space.give_slots(taken);
                    return Err(error);
                }
            }
        }
        taken.sort_unstable();
        Ok(taken)
    }

    /// See [`froglet_engine::Table::install`].
    pub(crate) fn install_rows(
        &self,
        install: &Install<'_>,
        done: &mut dyn FnMut(),
    ) -> Result<(), EngineError> {
        let Install { rids, values, empty, note } = *install;
        let width = self.columns.len();
        assert!(rids.is_sorted(), "rows are installed in the order of their ids");
        assert_eq!(values.len(), rids.len() * width, "a row has the columns of its layout");
        let strings: usize = values.iter().filter_map(string_bytes).map(<[u8]>::len).sum();
        self.core.admit(strings + values.len() * 16)?;
        let by_block: Vec<_> = rids.chunk_by(|a, b| a.block() == b.block()).collect();
        // Whoever is given an empty place writes there without asking whether it has a block.
        for rid in empty.chunk_by(|a, b| a.block() == b.block()).map(|rids| rids[0]) {
            self.space.make_block(rid.block())?;
        }
        // And nothing is refused once the rows are in the log.
        for rids in &by_block {
            let (guard, last) = (epoch::pin(), rids.last().expect("rows of one block"));
            let block = self.space.make_block(last.block())?;
            block.reserve(last.slot() + 1, &guard)?;
            self.add_all(block, &guard)?;
            block.admit_heat(|_| true, &guard)?;
        }

        let _installing = self.space.installing.read();
        let ts = self.core.timeline.now();
        if self.core.log.is_some() {
            let columns = self.columns.iter().map(|column| column.id);
            let record = redo::install(ts, self.space.id, note, columns, rids, values);
            let installed = self.core.log_long_record(&record)?;
            installed.waits_for_nothing("rows that a crash takes away are made again as they were");
        }
        CrashPoint::InstallLogged.reached();
        let mut values = values;
        for rids in by_block {
            let (here, rest) = values.split_at(rids.len() * width);
            self.install_block(rids, |at| &here[at * width..(at + 1) * width]);
            values = rest;
        }
        done();
        self.space.give_slots(empty.iter().copied());
        Ok(())
    }

    fn install_block<'v>(&self, rids: &[RowId], row: impl Fn(usize) -> &'v [Value]) {
        let guard = epoch::pin();
        let block = self.space.block(rids[0].block()).expect("made before anything was logged");
        let latch = block.migration.lock();
        // A block that was emptied meanwhile has given its columns back.
        let specs: Vec<_> = froglet_engine::Table::layout(self).columns.iter().collect();
        block.add_known_columns(&specs, &guard);
        block.heat_all(&guard);
        block.fill_cells(|| {
            for (at, rid) in rids.iter().enumerate() {
                let slot = rid.slot();
                assert!(!block.is_present(slot), "row {rid} is installed once");
                self.store_row(block, slot, row(at), &guard);
                block.set_present(slot, true);
            }
        });
        drop(latch);
        let cooling = &self.core.cooling;
        cooling.touch(&self.space, rids[0].block(), block, cooling.now_ns());
        let mut key = Vec::with_capacity(32);
        for (at, index) in self.indexes.iter().enumerate() {
            for (n, rid) in rids.iter().enumerate() {
                index.key_of(|part| self.key_value(at, part, row(n)), &mut key);
                let _stripe = self.core.stripes.lock(index, &key);
                index.tree.insert(&key, rid.0);
            }
        }
    }
}

/// Who knows what has been installed in a space; until somebody does, what recovery has found.
#[derive(Default)]
pub(crate) struct Notes {
    pub recovered: Vec<Vec<u8>>,
    pub source: Option<Arc<dyn Installs>>,
}

impl std::fmt::Debug for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Notes({} recovered)", self.recovered.len())
    }
}

impl Notes {
    /// What a checkpoint is to keep.
    pub fn kept(&self) -> Vec<Vec<u8>> {
        match &self.source {
            Some(source) => vec![source.note()],
            None => self.recovered.clone(),
        }
    }
}
