//! Compaction: rows of sparse blocks move into the gaps of fuller ones.
//!
//! ```text
//!   takers  ■■■■■·■■   ■■■·■■■■   ■■■■■■■■        fewest gaps first; gaps are filled from the front
//!                ▲         ▲
//!                └────┐    └──────┐
//!   givers  ■·■··■·■   ·■··■···   ········        most gaps first; rows leave from the back
//! ```
//!
//! "Mainlining Databases" (VLDB 2021), section 4.3, algorithm 2. A move is a delete and an insert of one
//! transaction, so readers see the row once, at either place. What differs: the delete says that the row has
//! moved, for whoever found it before and writes to it after (else it would seem to be gone); and an
//! emptied block gives its columns back, and its row ids are handed out again.
//!
//! **[O1]** Only a row without versions moves. So what is moved is what everybody sees, and no transaction
//! that wrote the row is open.
//! **[O2]** An emptied block has no row, and none of its places has been handed out: that is asked under
//! the lock of the free places, and so nobody inserts meanwhile. Who still has its columns keeps them.

use std::sync::Arc;

use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::id::ROWS_PER_BLOCK;
use froglet_engine::{ColumnSpec, RowId, TxnId, WriteStop};

use crate::block::Block;
use crate::clock::Owner;
use crate::freeze::life;
use crate::space::Space;
use crate::sync::atomic::Ordering;
use crate::table::MemoryTable;
use crate::txn::{MemoryTxn, own_key};
use crate::undo::Kind;
use froglet_log::redo;

/// Blocks that are compacted together, unless [`crate::MemoryEngine::set_group_blocks`] says otherwise.
pub(crate) const GROUP_BLOCKS: usize = 32;

impl Space {
    /// Moves that compact a group of blocks, as [`froglet_engine::Table::plan_moves`] says.
    pub fn plan_moves(
        &self,
        group_blocks: usize,
        is_cold: impl Fn(&Block) -> bool,
    ) -> Vec<(RowId, RowId)> {
        let free = self.free_slots(|free| free.counts().collect::<Vec<_>>());
        let rows = |&(number, free): &(u32, usize)| (self.rows_in_block(number) - free, number);
        let mut sparse: Vec<(usize, u32)> = free.iter().map(rows).collect();
        // An empty block has nothing to give, and is not to be filled.
        sparse.retain(|(rows, number)| *rows > 0 && self.block(*number).is_some_and(&is_cold));
        // The sparsest, of which the fullest come first: they are filled.
        sparse.sort_unstable();
        sparse.truncate(group_blocks);
        let sparse: Vec<u32> = sparse.into_iter().rev().map(|(_, number)| number).collect();
        self.fill_gaps(&sparse)
    }

    /// Algorithm 2: from the last block to the first.
    fn fill_gaps(&self, group: &[u32]) -> Vec<(RowId, RowId)> {
        let gaps = |number: u32| self.free_slots(|free| free.of_block(number));
        let rows = |number: u32| -> Vec<usize> {
            let block = self.block(number).expect("a block with free places is there");
            (0..self.rows_in_block(number)).filter(|slot| block.is_present(*slot)).collect()
        };
        let mut moves = Vec::new();
        let Some(mut giver) = group.len().checked_sub(1) else { return moves };
        let mut left = rows(group[giver]);
        for (taker, &number) in group.iter().enumerate() {
            for gap in gaps(number) {
                while left.is_empty() && giver > taker {
                    giver -= 1;
                    left = rows(group[giver]);
                }
                let from = left.last().copied();
                match from {
                    // Within one block rows move towards the front only.
                    Some(from) if taker < giver || (taker == giver && gap < from) => {
                        left.pop();
                        moves.push((RowId::of(group[giver], from), RowId::of(number, gap)));
                    }
                    _ => return moves,
                }
            }
        }
        moves
    }

    /// Gives the columns of blocks back that have become empty [O2].
    pub fn release_emptied(&self) -> usize {
        let guard = epoch::pin();
        let full = |(number, free): (u32, usize)| (free == ROWS_PER_BLOCK).then_some(number);
        let emptied: Vec<u32> = self.free_slots(|free| free.counts().filter_map(full).collect());
        let mut released = 0;
        for number in emptied {
            let Some(block) = self.block(number) else { continue };
            let Some(_latch) = block.migration.try_lock() else { continue };
            let has_columns = !block.directory(&guard).columns().is_empty();
            if !has_columns || block.linked() > 0 {
                continue;
            }
            self.free_slots(|free| {
                if free.count(number) == ROWS_PER_BLOCK {
                    block.drop_columns(&guard);
                    block.life.store(life::HOT, Ordering::SeqCst);
                    free.offer_last(number);
                    released += 1;
                }
            });
        }
        released
    }
}

/// The columns of a block that another lacks.
fn lacking<'a>(
    declared: &'a [ColumnSpec],
    old: &Block,
    new: &Block,
    guard: &Guard,
) -> Vec<&'a ColumnSpec> {
    let (given, there) = (old.directory(guard).columns().iter(), new.directory(guard));
    let ids = given.map(|column| column.id).filter(|id| there.find(*id, usize::MAX).is_none());
    let found = ids.filter_map(|id| declared.binary_search_by_key(&id, |spec| spec.id).ok());
    found.map(|at| &declared[at]).collect()
}

impl MemoryTable {
    /// See [`froglet_engine::Table::move_row`].
    pub(crate) fn move_one(
        &self,
        txn: &mut MemoryTxn,
        from: RowId,
        to: RowId,
    ) -> Result<(), WriteStop> {
        self.admit_move(from, to)?;
        txn.begin_write()?;
        let guard = epoch::pin();
        let (old, new) = (self.space.block(from.block()), self.space.block(to.block()));
        let (Some(old), Some(new)) = (old, new) else { return Err(WriteStop::Gone) };
        if let Some(head) = old.head(from.slot(), &guard) {
            // [O1]
            return Err(match self.core.timeline.owner(&head.word) {
                Owner::Open(id) => WriteStop::Busy { holder: TxnId(id) },
                _ => WriteStop::Gone,
            });
        }
        if !old.is_present(from.slot()) || !self.space.free_slots(|free| free.take(to)) {
            return Err(WriteStop::Gone);
        }
        let record = txn.push(&self.space, Kind::Move, from, &[]);
        let undo = txn.undo.last().expect("the record was pushed");
        if !old.link(from.slot(), std::ptr::null(), record, undo) {
            txn.undo.unpush();
            self.space.give_slots([to]);
            return Err(WriteStop::Gone);
        }
        old.set_present(from.slot(), false);
        if txn.logs() {
            redo::delete(txn.next_redo(), self.space.id, from);
        }
        self.copy_row_to(txn, old, from, new, to);
        Ok(())
    }

    /// Asks for the memory of the copy.
    fn admit_move(&self, from: RowId, to: RowId) -> Result<(), WriteStop> {
        self.core.admit(self.string_bytes(from)?)?;
        let guard = epoch::pin();
        let old = self.space.block(from.block()).ok_or(WriteStop::Gone)?;
        let (declared, new) = (self.space.columns(), self.space.make_block(to.block())?);
        new.reserve(to.slot() + 1, &guard)?;
        new.add_columns(&lacking(&declared, old, new, &guard), &guard)?;
        Ok(new.admit_heat(|_| true, &guard)?)
    }

    /// Bytes of the long strings of a row.
    fn string_bytes(&self, rid: RowId) -> Result<usize, WriteStop> {
        let guard = epoch::pin();
        let block = self.space.block(rid.block()).ok_or(WriteStop::Gone)?;
        let long = |column: &Arc<crate::column::Column>| {
            let cell = column.load_whole(rid.slot());
            column.long_bytes(&cell, &guard).len()
        };
        Ok(block.directory(&guard).columns().iter().map(long).sum())
    }

    /// The row of `from`, which the transaction owns, at a place of its own.
    fn copy_row_to(&self, txn: &mut MemoryTxn, old: &Block, from: RowId, new: &Block, to: RowId) {
        let guard = epoch::pin();
        let declared = self.space.columns();
        new.add_known_columns(&lacking(&declared, old, new, &guard), &guard);
        let record = txn.push(&self.space, Kind::Insert, to, &[]);
        let undo = txn.undo.last().expect("the record was pushed");
        assert!(new.link(to.slot(), std::ptr::null(), record, undo), "a free slot has no chain");
        new.heat_all(&guard);
        let given = old.directory(&guard);
        let mut values = Vec::new();
        for column in new.directory(&guard).columns() {
            let value = match given.find(column.id, usize::MAX) {
                Some(old) => old.value(from.slot(), &guard),
                // As in the old block, which lacks the column.
                None => column.missing.clone(),
            };
            column.store(to.slot(), &value, &guard);
            values.push((column.id, value));
        }
        new.set_present(to.slot(), true);
        for index in self.space.indexes().iter() {
            let key = own_key(new, index, to, &guard);
            let _stripe = self.core.stripes.lock(index, &key);
            index.tree.insert(&key, to.0);
        }
        if txn.logs() {
            let cells = values.iter().map(|(id, value)| (*id, value));
            redo::insert(txn.next_redo(), self.space.id, to, cells);
        }
    }
}
