//! What a checkpoint has of rows that are kept as of an earlier timestamp, and how it comes back.
//!
//! ```text
//!   pins of a space     F1          F2            s, the checkpoint
//!   a row               a     b     b     c   d   d
//!   is saved            a at F1     b at F2       d, as every row
//!   comes back as       d ─▶ (b, ends at s) ─▶ (a, ends at F2)
//! ```
//!
//! A row is saved for a pin if it is not the same for the next one, or in the checkpoint.
//! **[W1]** A row that has changed since the oldest pin has a record linked, since before the snapshot of
//! the checkpoint was taken. So blocks and rows with nothing linked are not looked at.
//! **[W2]** What is restored ends at the next pin's timestamp, or at the checkpoint's: at or above the
//! commit, and nobody reads in between. So it is held by the pins that had held it.
//! **[W3]** A transaction with a timestamp of at most `s` is decided before the pins are looked at: a pin
//! that is kept by then has its rows saved, one that is only announced gets a timestamp above `s`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use crossbeam_epoch::{self as epoch, Guard};
use froglet_engine::{
    ColumnSpec, EngineError, Row, RowId, Snapshot, SpaceId, Table, Ts, TxnId, Value,
};

use crate::arrow::compact_strings;
use crate::block::Block;
use crate::checkpoint::{BatchFile, RID_COLUMN, THERE_COLUMN};
use crate::column::Column;
use crate::engine::Core;
use crate::ipc::IpcBatch;
use crate::manifest::KeptEntry;
use crate::memory::Budget;
use crate::replay::{Given, Place, Replay, store_cells};
use crate::space::Space;
use crate::table::MemoryTable;

/// The schema of kept rows.
pub(crate) fn schema(columns: &[ColumnSpec]) -> SchemaRef {
    let rid = Field::new(RID_COLUMN, DataType::UInt64, false);
    let there = Field::new(THERE_COLUMN, DataType::Boolean, false);
    let cells = columns.iter().map(|c| Field::new(format!("c{}", c.id), c.ty.arrow(), true));
    Arc::new(Schema::new([rid, there].into_iter().chain(cells).collect::<Vec<_>>()))
}

/// Saves what differs between the pins at `stamps`, ascending, and the checkpoint. The pins are
/// there until this returns.
pub(crate) fn save(
    table: &MemoryTable,
    stamps: &[u64],
    checkpoint: &Snapshot,
    file: &mut BatchFile<'_>,
) -> Result<Vec<KeptEntry>, EngineError> {
    let views: Vec<Snapshot> =
        stamps.iter().map(|ts| Snapshot::new(Ts(*ts), TxnId(0), Box::new(()))).collect();
    let mut entries = Vec::new();
    for (number, block) in table.space.blocks() {
        // [W1]
        if stamps.is_empty() || Block::nothing_linked(block.version()) {
            continue;
        }
        let mut saved: Vec<Vec<(u64, Option<Row>)>> = vec![Vec::new(); stamps.len()];
        let rows = table.space.rows_in_block(number);
        for slot in (0..rows).filter(|slot| !block.head_ptr(*slot).is_null()) {
            let rid = RowId::of(number, slot);
            let mut next = whole_row(table, checkpoint, rid);
            for (view, saved) in views.iter().zip(&mut saved).rev() {
                let row = whole_row(table, view, rid);
                if !same_row(row.as_deref(), next.as_deref()) {
                    saved.push((rid.0, row.clone()));
                }
                next = row;
            }
        }
        for (&ts, rows) in stamps.iter().zip(&saved).filter(|(_, rows)| !rows.is_empty()) {
            let columns = &Table::layout(table).columns;
            let batch = file.write(&batch_of(file.schema(), columns, rows))?;
            entries.push(KeptEntry { ts, file: file.name().to_owned(), batch });
        }
    }
    Ok(entries)
}

/// Whether two values are the same to the bit: what is equal may still differ (0 and -0).
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float32(a), Value::Float32(b)) => a.to_bits() == b.to_bits(),
        (Value::Float64(a), Value::Float64(b)) => a.to_bits() == b.to_bits(),
        _ => a == b,
    }
}

fn same_row(a: Option<&[Value]>, b: Option<&[Value]>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a.is_none() == b.is_none(),
    }
}

fn whole_row(table: &MemoryTable, view: &Snapshot, rid: RowId) -> Option<Row> {
    let all: Vec<usize> = (0..table.columns.len()).collect();
    let mut row = Row::with_capacity(all.len());
    table.get(view, rid, &all, &mut row).then_some(row)
}

fn batch_of(
    schema: &SchemaRef,
    columns: &[ColumnSpec],
    rows: &[(u64, Option<Row>)],
) -> RecordBatch {
    let rids: ArrayRef = Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(rid, _)| *rid)));
    let there = rows.iter().map(|(_, row)| Some(row.is_some())).collect::<BooleanArray>();
    let cells = columns.iter().enumerate().map(|(at, column)| {
        let values = rows.iter().map(|(_, row)| row.as_ref().map_or(&Value::Null, |row| &row[at]));
        // Into one buffer: a heap takes few (`Heap::lent`).
        compact_strings(&froglet_engine::batch::array_of(column.ty, values))
    });
    let arrays = [rids, Arc::new(there)].into_iter().chain(cells).collect();
    RecordBatch::try_new(Arc::clone(schema), arrays).expect("rows are of their columns' types")
}

/// Kept rows of a checkpoint that is being loaded, by space and row id; for each pin's timestamp
/// the row, if there was one.
#[derive(Default)]
pub(crate) struct KeptRows(BTreeMap<(SpaceId, u64), (Arc<Space>, States)>);

/// A row at the timestamps of pins.
type States = BTreeMap<u64, Option<Vec<Given>>>;

impl KeptRows {
    /// Takes a batch; what is wrong with it.
    pub fn add(
        &mut self,
        space: &Arc<Space>,
        ts: u64,
        batch: &IpcBatch<'_>,
        budget: &Arc<Budget>,
    ) -> Result<(), String> {
        let (rids, there) = (batch.numbers(RID_COLUMN)?, batch.bits(THERE_COLUMN)?);
        if rids.iter().any(|rid| *rid >= space.tail()) {
            return Err(format!("row ids outside space {}", space.id));
        }
        let (declared, mut columns) = (space.columns(), Vec::new());
        for spec in declared.iter() {
            if let Some(found) = batch.column(&format!("c{}", spec.id), &spec.ty.arrow())? {
                columns.push(Column::mapped(spec, found, batch.rows, budget)?);
            }
        }
        for (at, &rid) in rids.iter().enumerate() {
            let row = (there[at / 64] >> (at % 64) & 1 == 1).then(|| {
                let value = |column: &Column| {
                    let array = &column.frozen().expect("it was mapped").array;
                    (column.id, froglet_engine::batch::value_at(array, at, column.ty))
                };
                columns.iter().map(value).collect()
            });
            let key = (space.id, rid);
            let (_, states) =
                self.0.entry(key).or_insert_with(|| (Arc::clone(space), States::new()));
            states.insert(ts, row);
        }
        Ok(())
    }

    /// Links records behind the rows of a checkpoint at `s`, which are in place.
    pub fn restore(self, core: &Core, s: u64) -> Result<(), EngineError> {
        let guard = epoch::pin();
        let mut steps = BTreeMap::<u64, Replay<'_>>::new();
        for ((_, rid), (space, states)) in self.0 {
            let rid = RowId(rid);
            let block = space.make_known_block(rid.block());
            block.reserve_known(rid.slot() + 1, &guard);
            let place = Place { space: &space, block, rid };
            let newest = in_place(place, &guard);
            // As the row was for the oldest pin; then once more what was written since.
            let mut states = states.into_iter().peekable();
            let Some((_, oldest)) = states.peek() else { continue };
            put(place, oldest.as_deref(), &guard)?;
            while let Some((ts, state)) = states.next() {
                let next = states.peek().map_or(&newest, |(_, next)| next);
                let end = space.pin_after(ts).map_or(s, |after| after.min(s));
                let step = steps.entry(end).or_insert_with(|| Replay::new(core, end));
                write(step, place, state.as_deref(), next.as_deref(), &guard)?;
            }
        }
        steps.into_values().for_each(Replay::finish);
        Ok(())
    }
}

/// The row in place.
fn in_place(place: Place<'_>, guard: &Guard) -> Option<Vec<Given>> {
    let slot = place.rid.slot();
    let value = |column: &Arc<crate::column::Column>| (column.id, column.value(slot, guard));
    let columns = place.block.directory(guard).columns();
    place.block.is_present(slot).then(|| columns.iter().map(value).collect())
}

/// Puts a row in place without a version.
fn put(place: Place<'_>, row: Option<&[Given]>, guard: &Guard) -> Result<(), EngineError> {
    let (block, slot) = (place.block, place.rid.slot());
    block.set_present(slot, row.is_some());
    let cells = row.unwrap_or_default().iter().map(|(id, value)| (*id, value));
    store_cells(place.space, block, slot, cells, guard)
}

/// Writes what leads from one state of a row to the next.
fn write(
    step: &mut Replay<'_>,
    place: Place<'_>,
    before: Option<&[Given]>,
    after: Option<&[Given]>,
    guard: &Guard,
) -> Result<(), EngineError> {
    match (before, after) {
        (None, None) => Ok(()),
        (None, Some(after)) => step.insert(place, after, guard),
        (Some(_), None) => step.delete(place, guard),
        (Some(before), Some(after)) => {
            let mut changed = after.to_vec();
            changed.retain(|(id, value)| !before.iter().any(|(i, v)| i == id && same(v, value)));
            if changed.is_empty() { Ok(()) } else { step.update(place, &changed, guard) }
        }
    }
}
