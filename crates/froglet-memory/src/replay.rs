//! Writes of committed transactions, made again: rows in place, and undo records for what pins keep.
//!
//! ```text
//!   ends at or below the oldest pin of the space  ──▶ in place
//!   ends above it                                 ──▶ undo record, link, in place; held as after a commit
//! ```
//!
//! **[Y1]** A record whose end is its transaction's timestamp is what the transaction had left; the end is
//! stamped before the record is linked, and ends ascend along the chain, as [X2] in `txn` says of the log.
//! **[Y2]** When a pin goes, what only it held is collected before the next record is replayed. So a slot
//! that the log gives to a new row has no chain: whoever inserted there had been given the slot after
//! its last row was collected, and every pin that the replay has by then the collector had, or had gone
//! past it ([Q1], [Q2] in `keepers`).
//! What breaks these rules was never written by this program, and is refused.

use crossbeam_epoch::Guard;
use froglet_engine::{ColumnId, ColumnSpec, EngineError, RowId, Value};
use smallvec::SmallVec;
use std::sync::Arc;

use crate::block::Block;
use crate::clock::stamped_end;
use crate::collector::Ended;
use crate::column::{Cell, Column, Long};
use crate::engine::Core;
use crate::space::Space;
use crate::sync::atomic::Ordering;
use crate::undo::{Header, Kind, UndoBuffer};

/// A column and its value in a row.
pub(crate) type Given = (ColumnId, Value);

/// The writes of one transaction.
pub(crate) struct Replay<'c> {
    core: &'c Core,
    ended: Ended,
}

/// A row's place.
#[derive(Clone, Copy)]
pub(crate) struct Place<'p> {
    pub space: &'p Arc<Space>,
    pub block: &'p Block,
    pub rid: RowId,
}

fn refused(what: String) -> EngineError {
    EngineError::Corrupt { file: "a record of the log".into(), offset: 0, what }
}

impl<'c> Replay<'c> {
    /// The transaction committed at `end`.
    pub fn new(core: &'c Core, end: u64) -> Replay<'c> {
        let ended = Ended {
            end,
            undo: UndoBuffer::default(),
            spaces: SmallVec::new(),
            old_keys: Vec::new(),
        };
        Replay { core, ended }
    }

    /// What it left behind is held for the pins.
    pub fn finish(self) {
        if self.ended.undo.has_records() {
            self.core.hold(self.ended);
        }
    }

    pub fn insert(
        &mut self,
        place: Place<'_>,
        cells: &[Given],
        guard: &Guard,
    ) -> Result<(), EngineError> {
        self.link(place, Kind::Insert, &[], guard)?;
        put_row(place, cells, guard)
    }

    pub fn update(
        &mut self,
        place: Place<'_>,
        cells: &[Given],
        guard: &Guard,
    ) -> Result<(), EngineError> {
        add_columns(place.space, place.block, cells.iter().map(|(id, _)| *id), guard);
        let columns: Vec<ColumnId> = cells.iter().map(|(id, _)| *id).collect();
        self.link(place, Kind::Update, &columns, guard)?;
        let cells = cells.iter().map(|(id, value)| (*id, value));
        store_cells(place.space, place.block, place.rid.slot(), cells, guard)
    }

    pub fn delete(&mut self, place: Place<'_>, guard: &Guard) -> Result<(), EngineError> {
        let (block, slot) = (place.block, place.rid.slot());
        let is_kept = self.link(place, Kind::Delete, &[], guard)?;
        block.set_present(slot, false);
        if !is_kept {
            let columns = block.directory(guard).columns();
            columns.iter().for_each(|column| column.clear_string(slot, guard));
        }
        Ok(())
    }

    /// Links the record of a write that is about to be made, if a pin keeps what was before it.
    fn link(
        &mut self,
        place: Place<'_>,
        kind: Kind,
        columns: &[ColumnId],
        guard: &Guard,
    ) -> Result<bool, EngineError> {
        let Place { space, block, rid } = place;
        let (slot, end) = (rid.slot(), self.ended.end);
        let head = block.head(slot, guard);
        let newest = head.and_then(|undo| stamped_end(undo.word.load(Ordering::Relaxed)));
        if newest.is_some_and(|newest| newest > end || kind == Kind::Insert) {
            return Err(refused(format!("row {rid} is written at {end}, and kept beyond")));
        }
        if end <= space.oldest_pin() {
            return Ok(false);
        }
        if stamped_end(end) != Some(end) || block.is_present(slot) == (kind == Kind::Insert) {
            return Err(refused(format!("there is no row {rid} to be written at {end}")));
        }
        let mut images: Vec<(ColumnId, Cell, Long<'_>)> = Vec::new();
        for column in block.directory(guard).columns() {
            if columns.contains(&column.id) {
                let cell = column.load(slot);
                images.push((column.id, cell, column.long(&cell, guard)));
            }
        }
        if images.len() > usize::from(u16::MAX) {
            return Err(refused(format!("row {rid} has {} columns", images.len())));
        }
        let header = Header {
            word: end,
            rid: rid.0,
            redo_at: 0,
            seq: 0,
            space: self.space_at(space),
            kind,
            recovered: true,
        };
        let record = self.ended.undo.push(&self.core.pool, header, &images);
        let undo = self.ended.undo.last().expect("the record was pushed");
        let head = head.map_or(std::ptr::null(), std::ptr::from_ref);
        assert!(block.link(slot, head, record, undo), "recovery is alone");
        space.set_recovered();
        Ok(true)
    }

    fn space_at(&mut self, space: &Arc<Space>) -> u16 {
        let spaces = &mut self.ended.spaces;
        let at = spaces.iter().position(|known| Arc::ptr_eq(known, space)).unwrap_or_else(|| {
            spaces.push(Arc::clone(space));
            spaces.len() - 1
        });
        u16::try_from(at).expect("fewer than 2^16 spaces are pinned")
    }
}

/// Puts a whole row in place, without a version.
pub(crate) fn put_row(place: Place<'_>, cells: &[Given], guard: &Guard) -> Result<(), EngineError> {
    let (block, slot) = (place.block, place.rid.slot());
    add_columns(place.space, block, cells.iter().map(|(id, _)| *id), guard);
    block.heat_all(guard);
    for column in block.directory(guard).columns() {
        let given = cells.iter().find(|(id, _)| *id == column.id).map(|(_, value)| value);
        store(column, slot, given.unwrap_or(&column.missing), guard)?;
    }
    block.set_present(slot, true);
    Ok(())
}

/// Adds to a block those columns that the space still declares.
fn add_columns(space: &Space, block: &Block, ids: impl Iterator<Item = ColumnId>, guard: &Guard) {
    let (declared, directory) = (space.columns(), block.directory(guard));
    let lacking = ids.filter(|id| directory.find(*id, 0).is_none());
    let specs: Vec<&ColumnSpec> = lacking
        .filter_map(|id| declared.binary_search_by_key(&id, |spec| spec.id).ok())
        .map(|at| &declared[at])
        .collect();
    if !specs.is_empty() {
        block.add_known_columns(&specs, guard);
    }
}

fn store(column: &Column, slot: usize, value: &Value, guard: &Guard) -> Result<(), EngineError> {
    if !column.ty.accepts(value) {
        return Err(EngineError::WrongType {
            column: column.id,
            ty: column.ty,
            value: Box::new(value.clone()),
        });
    }
    column.store(slot, value, guard);
    Ok(())
}

/// Stores cells without a version.
pub(crate) fn store_cells<'v>(
    space: &Space,
    block: &Block,
    slot: usize,
    cells: impl Iterator<Item = (ColumnId, &'v Value)> + Clone,
    guard: &Guard,
) -> Result<(), EngineError> {
    add_columns(space, block, cells.clone().map(|(id, _)| id), guard);
    block.heat_columns(|wanted| cells.clone().any(|(id, _)| id == wanted), guard);
    let directory = block.directory(guard);
    for (id, value) in cells {
        if let Some(column) = directory.find(id, 0) {
            store(column, slot, value, guard)?;
        }
    }
    Ok(())
}
